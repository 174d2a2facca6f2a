"""`sojourn doctor`: a look at this host, world by world."""

from __future__ import annotations

import json
import sys

import click

from sojourn.cli.base import BAD_INPUT, cli, format_option, rows_as_csv


@cli.command(
    epilog="""\b
Examples:
  sojourn doctor
  sojourn doctor live -f json
"""
)
@click.argument("worlds", nargs=-1, type=click.Choice(["sim", "kernel", "live"]))
@format_option()
def doctor(worlds: tuple[str, ...], form: str) -> None:
    """Say what this host can do in each world, and what it lacks.

    The live world is tried for two seconds. The exit code is 2 if a world that was asked for does not work; without
    names all worlds are looked at, and only the simulator must work.
    """
    from sojourn import doctor as examiner

    found = []
    for one in examiner.examine(tuple(dict.fromkeys(worlds)) or examiner.WORLDS):
        found.append(one)
        if form == "text":
            click.echo(
                f"{one.world:7} {one.verdict:8} {one.what}: {one.said}" + (f"; {one.remedy}" if one.remedy else "")
            )
    if form == "json":
        click.echo(json.dumps({"found": [one.as_dict() for one in found]}, indent=1))
    elif form == "csv":
        rows = [list(one.as_dict().values()) for one in found]
        click.echo(rows_as_csv(["world", "what", "verdict", "said", "remedy"], rows), nl=False)
    if any(one.verdict == "missing" and one.world in (worlds or ("sim",)) for one in found):
        sys.exit(BAD_INPUT)
