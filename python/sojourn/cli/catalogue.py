"""`sojourn list`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sojourn import _core, screen
from sojourn.cli.base import cli, experiments_option, fail, format_option, rows_as_csv
from sojourn.plan import bundled, load

LISTS = ("disciplines", "scenarios", "keys", "reasons", "claims")


@cli.command(
    "list",
    epilog="""\b
Examples:
  sojourn list scenarios
  sojourn list disciplines
  sojourn list keys -f json
  sojourn list claims
""",
)
@click.argument("what", type=click.Choice(LISTS), default="disciplines")
@experiments_option
@format_option()
def list_(what: str, experiments: Path, form: str) -> None:
    """List disciplines, scenarios, keys, drop reasons, or claims.

    Disciplines have their parameters; scenarios run by their names; claims are those of the papers in experiments.
    """
    if what == "claims":
        rows: list[dict[str, Any]] = _claims(experiments)
    else:
        rows = _scenarios() if what == "scenarios" else _core.catalogue(what)
    if form == "json":
        click.echo(json.dumps({what: rows}, indent=2, ensure_ascii=False))
        return
    if what == "disciplines" and form == "text":
        _show_disciplines(rows)
        return
    if what == "scenarios" and form == "text":
        _show_scenarios(rows)
        return
    flatten = {"disciplines": _flat_disciplines, "keys": _flat_keys}.get(what)
    rows = flatten(rows) if flatten else rows
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [["" if row.get(key) is None else str(row[key]) for key in heads] for row in rows]
    if form == "csv":
        click.echo(rows_as_csv(heads, cells), nl=False)
    else:
        screen.print_words(what, heads, cells)


def _show_disciplines(disciplines: list[dict[str, Any]]) -> None:
    for one in disciplines:
        click.echo(f"{one['name']}  {one['doc']}" + ("" if one["tc"] else " (ours, not tc's)"))
        for parameter in one["parameters"]:
            default = f" = {parameter['default']}" if parameter["default"] else ""
            click.echo(f"    {parameter['name'] + default:<26} {parameter['doc']}")


def _show_scenarios(scenarios: list[dict[str, Any]]) -> None:
    """A line with each scenario's name and subject. Their folder follows once, since no line has room for it."""
    if not scenarios:
        fail("no scenarios came with this copy of sojourn: name a file of your own, or write one: sojourn new --help")
    width = max(len(one["name"]) for one in scenarios)
    for one in scenarios:
        click.echo(f"{one['name']:<{width}}  {one['title']}")
    click.echo(
        "\nRun one by its name:  sojourn run rrul\nTheir files, to read or to copy:  sojourn list scenarios -f json"
    )


def _flat_disciplines(disciplines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a parameter."""
    return [
        {
            "discipline": one["name"],
            "parameter": parameter["name"],
            "value": parameter["expects"],
            "default": parameter["default"],
            "meaning": parameter["doc"] + (" (ours, not tc's)" if parameter["ours"] else ""),
        }
        for one in disciplines
        for parameter in one["parameters"]
        or [{"name": "", "expects": "", "default": "", "doc": one["doc"], "ours": False}]
    ]


def _flat_keys(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a key that exists."""
    return [
        {
            "section": section["section"],
            "key": key["key"],
            "value": key["value"],
            "default": key["default"],
            "meaning": key["doc"] + (f" ({', '.join(key['kinds'])})" if key["kinds"] else ""),
        }
        for section in sections
        for key in section["keys"]
        if not key["later"]
    ]


def _claims(experiments: Path) -> list[dict[str, Any]]:
    """The papers' claims: the word that `sojourn claims` takes, what the paper says, and the worlds that have runs for
    it.
    """
    from sojourn import claims

    return [
        {
            "claim": f"{experiment.name.partition('-')[0]}/{one.id}",
            "says": one.says,
            "worlds": " ".join(claims.worlds_of(experiment, one)) or "none: it cannot be played",
        }
        for experiment, chosen in claims.select((), experiments)
        for one in chosen
    ]


def _scenarios() -> list[dict[str, Any]]:
    """The scenarios that come with sojourn: the name that verbs accept, the subject, and the file."""
    return [{"name": name, "title": load(path).title, "file": str(path)} for name, path in bundled().items()]
