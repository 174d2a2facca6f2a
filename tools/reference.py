"""Generates docs/reference from the tables of the parser, the help and the results. With --check, only compares."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
import reference_python
from guidance import LINKS, SEEDS, advice, measured, plain

from sojourn import _core, columns
from sojourn.cli import base

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/reference"
SOURCES = ROOT / "crates/core/src/qdisc"
FILES = {"noqueue": "fifo", "pfifo": "fifo", "bfifo": "fifo", "pfifo_head_drop": "fifo"}
"""File names of disciplines that have no file of their name."""
EXAMPLES = {
    "bfifo": "bfifo limit 100kb",
    "choke": "choke limit 1000 bandwidth 10mbit min 83 max 250 ecn",
    "htb": "htb rate 9500kbit child fq_codel",
    "pfifo": "pfifo limit 100",
    "red": "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit ecn",
    "tbf": "tbf rate 9500kbit burst 5000 latency 50ms child fq_codel",
}
"""Example lines of disciplines that need parameters, or are rarely used without."""


def escaped(text: str) -> str:
    """Escapes text for a cell of a Markdown table."""
    return text.replace("|", "\\|")


def disciplines() -> dict[str, str]:
    """A page for every discipline, and one that lists them."""
    known = _core.catalogue("disciplines")
    rows = [f"| [`{one['name']}`](disciplines/{one['name']}.md) | {escaped(one['doc'])} |" for one in known]
    listed = "\n".join(["# Queue disciplines", "", "| discipline | what it does |", "|---|---|", *rows])
    others = [f"| `{one['name']}` | {escaped(one['instead'])} |" for one in _core.catalogue("elsewhere")]
    listed += "\n".join(
        [
            "",
            "",
            "## Linux disciplines that sojourn does not have",
            "",
            "| discipline | what it does, and what to use |",
            "|---|---|",
            *others,
        ]
    )
    told, found = advice(), measured()
    pages = {f"disciplines/{one['name']}.md": _discipline(one, _guidance(one["name"], told, found)) for one in known}
    return {"disciplines.md": listed + "\n"} | pages


def _guidance(name: str, told: dict[str, Any], found: dict[tuple[str, str], dict[str, float]]) -> list[str]:
    """Formats when to use a discipline and what to set, with measured results (tools/guidance.py)."""
    one = told["disciplines"][name]
    parts = ["## When to use it", "", one["when"], "", "## What to set", ""]
    for link in LINKS:
        line, why = one[link]
        parts += [f"### {told['links'][link]['title']}", "", f"`{line}`. {why}", ""]
        parts += ["| | added ping time, p95 | sojourn, p95 | link busy |", "|---|--:|--:|--:|"]
        parts += [_numbers(shown, found[link, shown]) for shown in dict.fromkeys((plain(name, one), line)) if shown]
        parts.append("")
    measured_how = (
        f"Measured with two CUBIC downloads and pings over such a link, means over {SEEDS} seeds "
        "(`tools/guidance.py`): the 95th percentile of the pings' RTT less the base RTT, that of the packets' time in "
        "the queue, and the share of time in which the link is busy."
    )
    return [*parts, measured_how, ""]


def _numbers(line: str, numbers: dict[str, float]) -> str:
    pings, packets, busy = (_digits(numbers[head]) for head in ("ping_p95_ms", "sojourn_p95_ms", "busy_percent"))
    return f"| `{line}` | {pings} ms | {packets} ms | {busy} % |"


def _digits(value: float) -> str:
    """Formats a number with about three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _discipline(one: dict[str, Any], guidance: list[str]) -> str:
    """Formats the page of a discipline."""
    name = one["name"]
    example = EXAMPLES.get(name, name)
    file = FILES.get(name, name)
    shared = [one["doc"][0].upper() + one["doc"][1:] + ".", ""] if name in FILES else []
    lines = [f"# {name}", "", *shared, "```toml", f'qdisc = "{example}"', "```", ""]
    if one["tc"] and "child" not in example:
        lines += ["```shell", f"tc qdisc replace dev eth0 root {example}", "```", ""]
    lines += [*guidance, "## How it works", "", *_header(SOURCES / f"{file}.rs"), ""]
    for variant in sorted((SOURCES / file).glob("*.rs")):
        if (header := _header(variant))[:1] and header[0].startswith(f"`{name} variant {variant.stem}`"):
            lines += [f"### Variant {variant.stem}", "", *header, ""]
    lines += ["## Parameters", ""]
    if one["parameters"]:
        lines += ["Written as `tc` takes them. Those marked *ours* are sojourn's own: `tc` does not have them.", ""]
        lines += ["| parameter | value | default | meaning |", "|---|---|---|---|"]
        lines += [_parameter(parameter) for parameter in one["parameters"]]
    else:
        lines.append("None.")
    counters = ", ".join(f"`{counter}`" for counter in _core.counters(example))
    lines += ["", "## Counters", "", counters or "Packets, bytes and drops only, as every discipline has them.", ""]
    lines += ["Their meaning: [read the counters](../../how-to/read-the-counters.md)."]
    compared = "[packet by packet](../../../experiments/replay/README.md)"
    lines += ["", f"How its decisions compare with Linux's: {compared}.", ""]
    return "\n".join(lines)


def _header(source: Path) -> list[str]:
    """Returns the header of a source file, with links replaced by names of code."""
    said = [line.removeprefix("//!").removeprefix(" ") for line in source.read_text().splitlines() if line[:3] == "//!"]
    text = re.sub(r"\[(`[^`]+`)\](?:\([^)]*\))?", r"\1", "\n".join(said))
    # A paragraph may begin within a block of the source.
    text = re.sub(r"(?<!\n)\n(Principle|Deviations|Variants): ", r"\n\n\1: ", text)
    return re.sub(r"(?m)^(Deviations[^\n]*:)\n- ", r"\1\n\n- ", text).splitlines()


def _parameter(parameter: dict[str, Any]) -> str:
    name = f"`{parameter['name']}`" + (f" / `{parameter['off']}`" if parameter["off"] else "")
    value = escaped(parameter["expects"]) + (f" ({parameter['range']})" if parameter["range"] else "")
    default = f"`{parameter['default']}`" if parameter["default"] else ""
    return f"| {name} | {value} | {default} | {escaped(parameter['doc'])}{' (*ours*)' if parameter['ours'] else ''} |"


def reasons() -> str:
    """The closed list of drop reasons."""
    reasons = _core.catalogue("reasons")
    listed = "\n".join(f"- `{one['reason']}`: {one['meaning']}" for one in reasons)
    return (
        "# Why packets are dropped\n\nA closed list: every world, file and table uses these names and no others.\n"
        f"Comparisons between implementations use delivered, marked and dropped only.\n\n{listed}\n"
    )


def verbs(group: click.Group, before: str = "") -> list[tuple[str, click.Command]]:
    """Returns every verb with its name, and the verbs of groups after them."""
    found: list[tuple[str, click.Command]] = []
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        verb = group.get_command(context, name)
        assert verb is not None
        found.append((before + name, verb))
        if isinstance(verb, click.Group):
            found += verbs(verb, f"{before}{name} ")
    return found


def command() -> str:
    """Formats the help of every verb."""
    parts = ["# The command\n\nGenerated from the help that `sojourn VERB --help` prints.\n"]
    for name, verb in verbs(base.cli):
        context = click.Context(verb, info_name=f"sojourn {name}", terminal_width=80, **base.CONTEXT)
        parts.append(f"\n## sojourn {name}\n\n```text\n{verb.get_help(context).rstrip()}\n```\n")
    return "".join(parts)


def store() -> str:
    """Formats the columns of a store of runs with all nested fields."""
    text = (
        "# A store of runs\n\n`sojourn sweep` fills a store, `sojourn store` queries it. "
        "It has one table, `runs`, with a row per run.\n"
        "Measures are those of the JSON of `sojourn run`, by the same names. "
        "Values that a run does not have are null.\n"
        "\nA query is one or more `SELECT`. It reads the store and no other file, and has no network: a query may come "
        "from somebody else. With `--unsafe` SQL may do all that DuckDB can: read and write any file of yours, attach "
        "databases, and install extensions. A store that cannot be written (a read-only disk, another user's folder, a "
        "full disk) is queried in the same way.\n"
        "\n| column | meaning |\n|---|---|\n"
    )
    text += "".join(f"| `{name}` | {escaped(meaning)} |\n" for name, _, meaning in columns.COLUMNS)
    text += (
        "\n## Nested fields\n\n`[]` stands for each queue, flow, key or reason. "
        "`startup` has the same fields for the time before the measuring window.\n\n| | type |\n|---|---|\n"
    )
    leaves = (leaf.split() for leaf in columns.LEAVES if not leaf.startswith("startup."))
    return text + "".join(f"| `{name}` | {SQL_TYPES[kind]} |\n" for name, kind in leaves)


SQL_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}


def pages() -> dict[str, str]:
    """Returns every generated file by name."""
    return {
        "scenario.md": _core.reference().rstrip() + "\n",
        "scenario.schema.json": json.dumps(json.loads(_core.schema()), indent=2, ensure_ascii=False) + "\n",
        **disciplines(),
        "reasons.md": reasons(),
        "command.md": command(),
        "store.md": store(),
        "python.md": reference_python.page(),
    }


def main() -> int:
    """Writes the pages; with --check, returns 1 if one differs."""
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"docs/reference: {', '.join(stale)}: not what the code says; run 'make docs'", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
