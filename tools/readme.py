"""The proof on README.md's first screen, from the files that tools wrote. With --check, compares only.

Each number is computed here from a recorded result: the packets compared with Linux (experiments/replay), the
agreement of whole runs (experiments/agree), and the speed compared with other simulators (benches/peers.py).
"""

from __future__ import annotations

import csv
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RECORDED = ROOT / "experiments"
"""The folder with the recorded results."""
BEGIN, END = "<!-- proof: written by tools/readme.py -->\n", "<!-- end of the proof -->\n"


def rows(name: str) -> list[dict[str, str]]:
    """Reads a recorded result."""
    with (RECORDED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def decisions() -> str:
    """Formats the number of packets compared with Linux one by one, and of those that differed."""
    found = rows("replay/kernel-replay.csv")
    packets, differ = (sum(int(row[key]) for row in found) for key in ("packets", "differences"))
    disciplines = len({row["discipline"] for row in found})
    linux = sorted({row["kernel"] for row in found}, key=lambda text: [int(part) for part in text.split(".")])
    return (
        f"{packets / 1e6:.0f} million packets through {disciplines} disciplines, decided by sojourn and by Linux "
        f"({', '.join(linux)}): **{differ:,} differ** ([table](experiments/replay/README.md))"
    )


def agreement() -> str:
    """Formats the difference between whole runs in the simulator and in the kernel."""
    found = [row for row in rows("agree/agreement.csv") if row["measure"] == "p95"]
    median = statistics.median(abs(float(row["difference"])) for row in found)
    return (
        f"{len(found)} scenarios, drawn at random and frozen, played by Linux and by the simulator: the 95th "
        f"percentile of the delay differs by **{median:.2%}** in the median ([table](experiments/agree/agreement.md))"
    ).replace("%**", " %**")


def speed() -> str:
    """Formats the speed in packets per CPU second, relative to ns-3."""
    times = [float(row["sojourn"]) / float(row["ns-3"]) for row in rows("speed/peers.csv")]
    return (
        f"**{min(times):,.0f} to {max(times):,.0f} times** ns-3's packets per CPU second, over {len(times)} benches "
        "([table](experiments/speed/README.md))"
    )


def proof() -> str:
    """Formats the table."""
    return "\n".join(
        [
            "| | |",
            "|---|---|",
            f"| Decisions | {decisions()} |",
            f"| Whole runs | {agreement()} |",
            f"| Speed | {speed()} |",
            "| Root | not needed: not for the simulator, and not for runs in a real Linux kernel |",
            "",
        ]
    )


def main() -> int:
    """Writes the table; with --check, returns 1 if it differs from the recorded results."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}{proof()}{END}{after}"
    if "--check" not in sys.argv:
        README.write_text(wanted, encoding="utf-8")
    elif wanted != text:
        print("README.md: its numbers are not those of the recorded results; run 'make docs'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
