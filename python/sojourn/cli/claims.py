"""`sojourn claims`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import screen
from sojourn.cli.base import bounded, cli, fail, format_option, rows_as_csv, simulated_seconds, store_option, warn
from sojourn.cli.run import memory_option, world_of

if TYPE_CHECKING:
    from sojourn.claims import Quantity, Verdict

HEADS = ("claim", "what the paper says", "measured", "range", "verdict", "cause")


@cli.command(
    epilog="""\b
Examples:
  sojourn claims
  sojourn claims 001 --check
"""
)
@click.argument("papers", nargs=-1)
@click.option("--experiments", type=click.Path(path_type=Path), default=Path("experiments"), show_default=True)
@click.option("--world", type=click.Choice(["sim", "kernel"]), default="sim", show_default=True, help="Which judges.")
@memory_option
@store_option
@click.option("--check", is_flag=True, help="Play nothing: judge by what the store has, and fail if it is not all.")
@click.option(
    "--jobs", type=int, callback=bounded(1, 1024), metavar="N", help="Runs at the same time [default: all cores]."
)
@format_option()
def claims(
    papers: tuple[str, ...],
    experiments: Path,
    world: str,
    memory: int,
    store: Path,
    check: bool,
    jobs: int | None,
    form: str,
) -> None:
    """Judge the papers' claims.

    PAPERS are the beginnings of folders in experiments/ that have a claims.toml, such as 001, or ids of claims, such as
    N19; all by default. What the store lacks is played before.
    """
    from sojourn import claims as judges
    from sojourn.store import Store

    folders = sorted(path.parent for path in experiments.glob(f"*/{judges.FILE}"))
    chosen = [folder for folder in folders if any(folder.name.startswith(word) for word in papers)]
    ids = [word for word in papers if not any(folder.name.startswith(word) for folder in folders)]
    opened = Store(store)
    found: list[Verdict] = []
    with simulated_seconds("the papers' experiments") as tell:
        for folder in folders if ids or not papers else chosen:
            only = () if folder in chosen else ids
            where = world_of(world, memory=memory)
            found += judges.judge(folder, opened, world=where, only=only, jobs=jobs, check=check, tell=tell)
    warn(opened.damaged)
    if missing := set(ids) - {one.id for one in found}:
        fail(f"{sorted(missing)[0]}: no such paper or claim below {experiments}")
    if not found:
        fail(f"{experiments}: no claims are there that a store can judge")
    _show(found, form)


def _show(found: list[Verdict], form: str) -> None:
    if form == "json":
        from sojourn import records

        click.echo(records.to_json({"claims": [_as_dict(one) for one in found]}))
        return
    rows = [[one.id, one.says, *_measured(one.quantities), one.verdict, one.cause] for one in found]
    if form == "csv":
        click.echo(rows_as_csv(HEADS, rows), nl=False)
    else:
        screen.print_words(f"the papers' claims, world {found[0].world}", HEADS, rows)


def _measured(quantities: list[Quantity]) -> tuple[str, str]:
    from sojourn import table

    measured, ranges = [], []
    for one in quantities:
        text = "–"
        if one.mean:
            width = f" ± {table.interval(one.mean.half_width)}" if one.mean.half_width else ""
            text = table.number(one.mean.value, 4) + width
        measured.append(f"{one.name}: {text}" + ("" if one.holds else " (outside)"))
        ranges.append("–" if one.range is None else "{:g} to {:g}".format(*one.range))
    return "\n".join(measured), "\n".join(ranges)


def _as_dict(one: Verdict) -> dict[str, Any]:
    quantities = {
        quantity.name: {
            "mean": quantity.mean and quantity.mean.value,
            "half_width": quantity.mean and quantity.mean.half_width,
            "count": quantity.mean.count if quantity.mean else 0,
            "range": quantity.range,
            "holds": quantity.holds,
        }
        for quantity in one.quantities
    }
    return {
        "id": one.id,
        "paper": one.paper,
        "says": one.says,
        "world": one.world,
        "verdict": one.verdict,
        "cause": one.cause,
        "quantities": quantities,
    }
