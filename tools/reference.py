"""docs/reference: written from the tables that parser, help and results are made of. With --check, compares only."""

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
"""Where a discipline is that has no file of its name."""
EXAMPLES = {
    "bfifo": "bfifo limit 100kb",
    "ccaq": "ccaq variant paper",
    "choke": "choke limit 1000 bandwidth 10mbit min 83 max 250 ecn",
    "htb": "htb rate 9500kbit child fq_codel",
    "pfifo": "pfifo limit 100",
    "red": "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit ecn",
    "tbf": "tbf rate 9500kbit burst 5000 latency 50ms child fq_codel",
}
"""Lines of those that need more than their name, or are seldom used without."""


def escaped(text: str) -> str:
    """For a cell of a Markdown table."""
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
    """When a discipline is of use, and what to set, with what was measured (tools/guidance.py)."""
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
    """About three digits, as a person writes them."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _discipline(one: dict[str, Any], guidance: list[str]) -> str:
    """A discipline's page."""
    name = one["name"]
    example = EXAMPLES.get(name, name)
    file = FILES.get(name, name)
    shared = [one["doc"][0].upper() + one["doc"][1:] + ".", ""] if name in FILES else []
    lines = [f"# {name}", "", *shared, "```toml", f'qdisc = "{example}"', "```", ""]
    if one["tc"] and "child" not in example:
        lines += ["```shell", f"tc qdisc replace dev eth0 root {example}", "```", ""]
    lines += [*guidance, "## How it works", "", *_header(file), "", "## Parameters", ""]
    if one["parameters"]:
        lines += ["Written as `tc` takes them. Those marked *ours* are sojourn's own: `tc` does not have them.", ""]
        lines += ["| parameter | value | default | meaning |", "|---|---|---|---|"]
        lines += [_parameter(parameter) for parameter in one["parameters"]]
    else:
        lines.append("None.")
    counters = ", ".join(f"`{counter}`" for counter in _core.counters(example))
    lines += ["", "## Counters", "", counters or "Packets, bytes and drops only, as every discipline has them.", ""]
    lines += ["What they mean: [read the counters](../../how-to/read-the-counters.md)."]
    lines += ["", "How its decisions compare with Linux's: [packet by packet](../../explanation/kernel-replay.md).", ""]
    return "\n".join(lines)


def _header(file: str) -> list[str]:
    """What the source says above its code, in which links go to code names."""
    folder = SOURCES / file
    source = folder / "mod.rs" if folder.is_dir() and (folder / "mod.rs").exists() else SOURCES / f"{file}.rs"
    said = [line.removeprefix("//!").removeprefix(" ") for line in source.read_text().splitlines() if line[:3] == "//!"]
    text = re.sub(r"\[(`[^`]+`)\](?:\([^)]*\))?", r"\1", "\n".join(said))
    # A paragraph may begin anew within a block of the source.
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
    """Every verb with its name, and the verbs of verbs after them."""
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
    """The help of every verb."""
    parts = ["# The command\n\nGenerated from the help that `sojourn VERB --help` prints.\n"]
    for name, verb in verbs(base.cli):
        context = click.Context(verb, info_name=f"sojourn {name}", terminal_width=80, **base.CONTEXT)
        parts.append(f"\n## sojourn {name}\n\n```text\n{verb.get_help(context).rstrip()}\n```\n")
    return "".join(parts)


def store() -> str:
    """The columns of a store of runs, and all that is in them."""
    text = (
        "# A store of runs\n\nWhat `sojourn sweep` fills and `sojourn store` asks: the table `runs`, a row a run.\n"
        "Measures are those of the JSON of `sojourn run`, by the same names. What a run does not have is null.\n"
        "\n| column | meaning |\n|---|---|\n"
    )
    text += "".join(f"| `{name}` | {escaped(meaning)} |\n" for name, _, meaning in columns.COLUMNS)
    text += (
        "\n## All that is in them\n\n`[]`: of each queue, flow, key or reason. `startup` has the same of before the "
        "measuring window.\n\n| | type |\n|---|---|\n"
    )
    leaves = (leaf.split() for leaf in columns.LEAVES if not leaf.startswith("startup."))
    return text + "".join(f"| `{name}` | {SQL_TYPES[kind]} |\n" for name, kind in leaves)


SQL_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE"}


def pages() -> dict[str, str]:
    """Every generated file by name."""
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
    """Writes the pages; with --check, 1 if one differs."""
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
