"""`sojourn rfc7928`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn import screen
from sojourn.cli.base import (
    bounded,
    cli,
    executor_options,
    fail,
    leave_broken,
    leave_interrupted,
    library_options,
    many,
    open_store,
    out_option,
    outside_names,
    picture_format_option,
    picture_is_asked_for,
    qdisc_module_option,
    refuse_file,
    rows_as_csv,
    seed_option,
    stages,
    store_option,
    warn,
)
from sojourn.cli.run import memory_option, world_of, world_option

if TYPE_CHECKING:
    from sojourn.disciplines import Library
    from sojourn.executors import Executor
    from sojourn.plot import Format
    from sojourn.rfc7928.judge import Evaluation
    from sojourn.rfc7928.suite import Asked, Row

FOLDER = "rfc7928"
"""The folder of the report below the store's folder."""
LONGEST_S = 120.0
"""Seconds of real time that are played without `--yes`."""


@cli.command(
    epilog="""\b
Examples:
  sojourn rfc7928
  sojourn rfc7928 codel "codel target 20ms" fq_codel
  sojourn rfc7928 pie --rows 5,8.2 --seeds 20
  sojourn rfc7928 codel pie --world kernel --seeds 3
"""
)
@click.argument("qdiscs", metavar="[QDISC]...", nargs=-1)
@click.option("--rows", metavar="LIST", help="Sections to play, such as 5.1.1,7.2,8 [default: all].")
@click.option(
    "--buffer", type=float, default=1.0, show_default=True, metavar="BDP", help="The buffer of every discipline."
)
@world_option
@memory_option
@library_options
@qdisc_module_option
@seed_option
@click.option(
    "--seeds", type=int, callback=bounded(1, 10_000), default=10, show_default=True, metavar="N", help="Seeds."
)
@click.option("--yes", is_flag=True, help="Live world: play, however long it takes.")
@store_option
@out_option("Where the report goes [default: rfc7928/WORLD in the store].")
@executor_options
@picture_format_option
def rfc7928(
    qdiscs: tuple[str, ...],
    rows: str | None,
    buffer: float,
    world: str,
    memory: int,
    outside: tuple[Library, ...],
    patience: int,
    module: Path | None,
    seed: int | None,
    seeds: int,
    yes: bool,
    store: Path,
    out: Path | None,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Evaluate queue disciplines by the scenarios of RFC 7928.

    QDISC is a discipline as tc writes it, with its parameters in quotes; without any, nine are compared. Each plays
    every row (--rows picks some) with the same seeds as tail drop, with which it is compared. The buffer is a BDP of
    the longest RTT, unless a line has its own limit. Runs are kept in a store: the same command goes on where it was.
    """
    from sojourn import rfc7928 as evaluation
    from sojourn.rfc7928 import suite

    if not 0.01 <= buffer <= 100:
        fail(f"--buffer = {buffer}: expected a number of BDP from 0.01 to 100")
    own = outside_names(outside, module)
    lines = suite.disciplines(qdiscs, own)
    chosen = suite.chosen(rows)
    refuse_file(out)
    warn(suite.fixed_limits(lines, buffer))
    if world == "live" and not yes:
        _refuse_long([one for row in chosen for one in suite.asked(row, lines, buffer=buffer, seed=seed, seeds=seeds)])
    opened = open_store(store)
    drawn = form == "text" or out is not None or picture_is_asked_for()
    with stages() as watch:

        def watch_row(row: Row, runs: int) -> Callable[[float, float], None]:
            return watch(f"row {row.name} ({chosen.index(row) + 1} of {len(chosen)})", runs)

        try:
            done = evaluation.evaluate(
                chosen,
                lines,
                opened,
                world=world_of(world, memory=memory, outside=outside, patience=patience, module=module),
                executor=executor,
                buffer=buffer,
                seed=seed,
                seeds=seeds,
                pictures=drawn,
                outside=own,
                watch=watch_row,
            )
        except evaluation.Interrupted:
            click.echo(f"store: {opened.folder}", err=True)
            leave_interrupted()
    for row, one, reason in done.skipped:
        click.echo(f"sojourn: skipped {row} with {one}: {reason}", err=True)
    _show(done, form)
    if drawn:
        from sojourn.rfc7928 import page

        click.echo(f"page: {page.write(out or opened.folder / FOLDER / world, done, picture)}", err=True)
    click.echo(f"{many(done.runs, 'run')}, {done.played} of them played now; store: {opened.folder}", err=True)
    leave_broken(done.broken)


def _refuse_long(plans: Sequence[Asked]) -> None:
    """Refuses runs that take more than LONGEST_S in real time, and says how long they take."""
    runs = sum(len(one.plan) for one in plans)
    whole_s = sum(float(run["duration_s"]) for one in plans for run in one.plan.runs)
    if whole_s > LONGEST_S:
        hours, minutes = divmod(round(whole_s / 60), 60)
        fail(
            f"--world live: {many(runs, 'run')} in real time, up to {hours} h {minutes} min one after the other: "
            "--yes plays them (Ctrl-C keeps what is finished); --rows, fewer disciplines and --seeds 1 take less"
        )


def _show(done: Evaluation, form: str) -> None:
    from sojourn import records
    from sojourn.rfc7928 import judge, tables

    if form == "json":
        click.echo(records.to_json(judge.as_dict(done)))
        return
    if form == "csv":
        click.echo(rows_as_csv(*tables.every_verdict(done)), nl=False)
        return
    screen.say(judge.headline(done))
    click.echo()
    screen.print_lines(screen.number_lines("against tail drop", *tables.verdicts(done)))
    for axis in judge.AXES:
        heads, cells = tables.ratios(done, axis)
        if cells:
            screen.print_lines(screen.number_lines(f"{axis.head}, % of tail drop's", heads, cells))
    screen.print_lines(screen.number_lines("profiles", *tables.profiles(done)))
    screen.print_words("rows that are worse than tail drop", *tables.costs(done))
    screen.say(tables.LEGEND)
