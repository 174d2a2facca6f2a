"""docs/reference: written from the tables that parser, help and results are made of. With --check, compares only."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from sojourn import _core
from sojourn.cli import base

FOLDER = Path(__file__).resolve().parent.parent / "docs/reference"


def escaped(text: str) -> str:
    """For a cell of a Markdown table."""
    return text.replace("|", "\\|")


def disciplines() -> str:
    """Every discipline with its parameters."""
    lines = [
        "# Queue disciplines",
        "",
        "Generated from the tables that the parser reads. A line is written as `tc` takes it; parameters marked *ours*",
        "are not `tc`'s and are never printed for it.",
    ]
    for one in json.loads(_core.catalogue("disciplines")):
        lines += ["", f"## {one['name']}", "", one["doc"] + ("" if one["tc"] else " (Not in `tc`.)")]
        if one["parameters"]:
            lines += ["", "| parameter | value | default | meaning |", "|---|---|---|---|"]
        lines += [_parameter(parameter) for parameter in one["parameters"]]
    return "\n".join(lines) + "\n"


def _parameter(parameter: dict[str, Any]) -> str:
    name = f"`{parameter['name']}`" + (f" / `{parameter['off']}`" if parameter["off"] else "")
    value = escaped(parameter["expects"]) + (f" ({parameter['range']})" if parameter["range"] else "")
    default = f"`{parameter['default']}`" if parameter["default"] else ""
    return f"| {name} | {value} | {default} | {escaped(parameter['doc'])}{' (*ours*)' if parameter['ours'] else ''} |"


def reasons() -> str:
    """The closed list of drop reasons."""
    reasons = json.loads(_core.catalogue("reasons"))
    listed = "\n".join(f"- `{one['reason']}`: {one['meaning']}" for one in reasons)
    return (
        "# Why packets are dropped\n\nA closed list: every world, file and table uses these names and no others.\n"
        f"Comparisons between implementations use delivered, marked and dropped only.\n\n{listed}\n"
    )


def verbs(group: click.Group, before: str = "") -> list[tuple[str, click.Command]]:
    """Every verb with its name, and the verbs of verbs after them."""
    found: list[tuple[str, click.Command]] = []
    for name, verb in sorted(group.commands.items()):
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


def pages() -> dict[str, str]:
    """Every generated file by name."""
    return {
        "scenario.md": _core.reference().rstrip() + "\n",
        "scenario.schema.json": json.dumps(json.loads(_core.schema()), indent=2, ensure_ascii=False) + "\n",
        "disciplines.md": disciplines(),
        "reasons.md": reasons(),
        "command.md": command(),
    }


def main() -> int:
    """Writes the pages; with --check, 1 if one differs."""
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(FOLDER.parent.parent))
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"docs/reference: {', '.join(stale)}: not what the code says; run 'make docs'", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
