"""`sojourn figures`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn.cli.base import (
    cli,
    executor_options,
    experiments_option,
    fail,
    gather_runs,
    leave_interrupted,
    many,
    open_store,
    out_option,
    picture_format_option,
    rows_as_csv,
    store_option,
    warn,
)
from sojourn.cli.run import memory_option, world_of, world_option

if TYPE_CHECKING:
    from sojourn.executors import Executor
    from sojourn.figures import Drawing
    from sojourn.plot import Format


@cli.command(
    epilog="""\b
Examples:
  sojourn figures 001
  sojourn figures 001/figure-7 --out /tmp/figures
  sojourn figures --check
"""
)
@click.argument("words", nargs=-1, metavar="[PAPER|FIGURE]...")
@world_option
@memory_option
@click.option("--check", is_flag=True, help="Play nothing: draw what the store has.")
@store_option
@experiments_option
@out_option("Where pictures, and their numbers as CSV, go: DIR/PAPER/ [default: figures/ of each paper's folder].")
@executor_options
@picture_format_option
def figures(
    words: tuple[str, ...],
    world: str,
    memory: int,
    check: bool,
    store: Path,
    experiments: Path,
    out: Path | None,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Draw the figures and tables of papers from runs in a store.

    PAPER is a number (001), the name of a folder below experiments, or a path; FIGURE is a figure's name (figure-7),
    or one of a paper (001/figure-7). Without any, all are drawn. Runs that a figure needs and the store lacks are
    played first; with --check their figures are named, and the exit code is 2. Another world's figures have its name
    in theirs.
    """
    from sojourn import figures as drawing

    books = drawing.select(words, experiments)
    opened = open_store(store, there=check)
    where = world_of(world, memory=memory)
    drawn: list[tuple[str, Drawing, Path]] = []
    refused = ""
    gaps: list[str] = []
    for book in books:
        name = book.experiment.name
        what = many(len(book.drawings), "figure")
        found = gather_runs(book.experiment, book.needs, opened, where, what, executor=executor, play=not check)
        if found.interrupted:
            leave_interrupted()
        for one in book.drawings:
            why = drawing.refusal(one, found)
            if why is None and (why := drawing.lacking(book.experiment, one, found, world)):
                gaps.append(f"{name}/{one.name}")
            if why:
                refused = f"{name}/{one.name}: {why}"
                click.echo(f"sojourn: skipped {refused}", err=True)
                continue
            made = drawing.picture(book.experiment, one, found.runs, world)
            drawn.append((name, one, drawing.write(book, made, out, picture)))
    warn(opened.damaged)
    if not drawn:
        fail(f"nothing is left to draw: {refused}")
    _show(drawn, form)
    if gaps:
        fail(f"{store}: not drawn, for want of runs: {', '.join(gaps)}")


def _show(drawn: Sequence[tuple[str, Drawing, Path]], form: str) -> None:
    from sojourn import records

    if form == "json":
        entries = [
            {
                "paper": paper,
                "figure": one.name,
                "title": one.title,
                "draws": one.paper,
                "claims": list(one.claims),
                "file": str(path),
            }
            for paper, one, path in drawn
        ]
        click.echo(records.to_json({"figures": entries}))
    elif form == "csv":
        rows = [[paper, one.name, one.title, str(path)] for paper, one, path in drawn]
        click.echo(rows_as_csv(["paper", "figure", "title", "file"], rows), nl=False)
    else:
        for _, _, path in drawn:
            click.echo(path)
