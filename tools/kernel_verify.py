"""Tests the disciplines of real kernels against their RFCs: `sojourn verify --world kernel` for each one that Linux
has.

    python tools/kernel_verify.py [VERSION…]

Rewrites the table in docs/reference/statements.md, with all kernels that are named (default: 7.3, 6.12 and 6.1). The
exit code is 1 if a question failed."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from pages import filled

from sojourn import _core, verify
from sojourn.kernel import Kernel, find

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/statements.md"
BEGIN, END = "<!-- table: written by tools/kernel_verify.py -->", "<!-- end of table -->"
KERNELS = ("7.3", "6.12", "6.1")
TRACES, PACKETS = 5, 3000
LINES = (
    "codel",
    "codel ecn",
    "fq_codel",
    "fq_codel flows 1",
    "fq",
    "pie",
    "pie ecn target 20ms",
    "fq_pie ecn",
    "dualpi2",
    "dualpi2 step_thresh 5p overflow any_ect",
    "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit ecn",
    "choke limit 1000 bandwidth 10mbit",
    "sfb",
    "cake",
    "cake bandwidth 9500kbit besteffort",
    "sfq",
    "prio",
    "prio bands 4 priomap 3 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
    "tbf rate 8mbit burst 5000 limit 20000",
    "htb rate 8mbit",
    "pfifo limit 50",
    "bfifo limit 100000",
    "pfifo_head_drop limit 50",
    "ccaq",
    "ccaq variant paper",
)
SINCE = {"dualpi2": (6, 17)}
"""Disciplines that the oldest of these kernels does not have, with the version that introduced them."""


def row(line: str, kernel: Kernel) -> tuple[str, list[str]]:
    """Returns a row of the table, and the failed questions."""
    own = _core.as_in(line, kernel.version)
    asked = verify.line_of(own)
    found = list(verify.verify(asked, verify.Kernel(own, kernel=kernel), traces=TRACES, packets=PACKETS, seed=1))
    counts = [sum(one.word == word for one in found) for word in ("passed", "failed", "left out")]
    failed = [f"{kernel.release}, {own}: {one.name}: {one.fault}" for one in found if one.fault]
    names = "; ".join(one.name for one in found if one.fault)
    return f"| `{own}` | " + " | ".join(map(str, counts)) + f" | {names} |", failed


@click.command()
@click.argument("versions", nargs=-1)
def main(versions: tuple[str, ...]) -> None:
    """Runs the program."""
    parts, failed = [], []
    for version in versions or KERNELS:
        kernel = find(version=version)
        parts += [f"Linux {kernel.release.split('-')[0]}:", ""]
        parts += ["| discipline | passed | failed | left out | what failed |", "|---|--:|--:|--:|---|"]
        for line in LINES:
            if kernel.version >= SINCE.get(line.split()[0], (0, 0)):
                text, faults = row(line, kernel)
                print(text, flush=True)
                parts.append(text)
                failed += faults
        parts.append("")
    PAGE.write_text(filled(PAGE.read_text(), BEGIN, END, "\n".join(parts[:-1])))
    print("\n".join(failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
