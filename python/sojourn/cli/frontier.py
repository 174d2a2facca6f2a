"""`sojourn frontier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn import screen, words
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
)
from sojourn.cli.run import memory_option, world_of, world_option

if TYPE_CHECKING:
    from sojourn.disciplines import Library
    from sojourn.executors import Executor
    from sojourn.frontier.grid import Found
    from sojourn.frontier.point import Point
    from sojourn.plot import Format

FOLDER = "frontier"
"""The folder of the pictures below the store's folder."""


@cli.command(
    epilog="""\b
Examples:
  sojourn frontier --rate 100mbit --rtt 50ms --flows cubic
  sojourn frontier fq_codel "fq_codel target 20ms" cake --rate 10mbit --rtt 100ms --flows "4 reno"
"""
)
@click.argument("qdiscs", metavar="[QDISC]...", nargs=-1)
@click.option("--rate", metavar="RATE", help="The rate of the link, such as 100mbit.")
@click.option("--rtt", metavar="TIME", help="The base RTT of the flows, such as 50ms.")
@click.option("--flows", metavar="LIST", help="The long flows: cubic, or '4 reno', or '2 cubic, reno, bbr'.")
@click.option(
    "--duration",
    metavar="TIME",
    help="How long a run lasts [default: 8 cycles of the congestion control, 60s to 400s].",
)
@click.option(
    "--grid",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A file of many points, instead of --rate, --rtt and --flows.",
)
@world_option
@memory_option
@library_options
@qdisc_module_option
@seed_option
@click.option(
    "--seeds", type=int, callback=bounded(1, 10_000), default=3, show_default=True, metavar="N", help="Seeds."
)
@store_option
@out_option("Where the picture goes [default: frontier/WORLD in the store].")
@executor_options
@picture_format_option
def frontier(
    qdiscs: tuple[str, ...],
    rate: str | None,
    rtt: str | None,
    flows: str | None,
    duration: str | None,
    grid: Path | None,
    world: str,
    memory: int,
    outside: tuple[Library, ...],
    patience: int,
    module: Path | None,
    seed: int | None,
    seeds: int,
    store: Path,
    out: Path | None,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Compare disciplines with every fixed setting of a path.

    On a path with long flows, about 35 fixed targets, intervals and packet limits are played. The least delay among
    those that keep the link as busy as a discipline is the frontier, and the discipline's delay is compared with it.
    QDISC is a discipline as tc writes it, in quotes; without any, seven are compared. Results are from 10 s on. Runs
    are kept in a store: the same command goes on where it was.
    """
    from sojourn import frontier as room
    from sojourn.runs import RunsInStore

    points = _points(rate, rtt, flows, duration, grid)
    refuse_file(out)
    own = outside_names(outside, module)
    lines = [words.tidied(line) for line in qdiscs] or [*room.point.DEFAULT, *own]
    opened = open_store(store)
    where = world_of(world, memory=memory, outside=outside, patience=patience, module=module)
    with stages() as watch:

        def watch_point(point: Point, runs: int) -> Callable[[float, float], None]:
            place = f"point {point.name} ({points.index(point) + 1} of {len(points)})"
            return watch(place if len(points) > 1 else point.words, runs)

        found = room.grid.play(
            points,
            list(dict.fromkeys(lines)),
            lambda: RunsInStore(opened),
            world=where,
            executor=executor,
            seed=1 if seed is None else seed,
            seeds=seeds,
            outside=own,
            watch=watch_point,
        )
    if found.interrupted:
        click.echo(f"store: {opened.folder}", err=True)
        leave_interrupted()
    _name_skipped(found)
    _show(found, form)
    if found.judged and (form == "text" or out or picture_is_asked_for()):
        _draw(found, out or opened.folder / FOLDER / world, picture)
    click.echo(f"{many(found.count, 'run')}, {found.played} of them played now; store: {opened.folder}", err=True)
    leave_broken(found.broken)


def _points(
    rate: str | None, rtt: str | None, flows: str | None, duration: str | None, grid: Path | None
) -> Sequence[Point]:
    from sojourn.frontier import grid as reader
    from sojourn.frontier.point import point_of

    given = {"--rate": rate, "--rtt": rtt, "--flows": flows, "--duration": duration}
    if grid is not None:
        if named := [name for name, value in given.items() if value is not None]:
            fail(f"{named[0]} describes a point: expected either --grid, or --rate, --rtt and --flows")
        return reader.read_grid(grid)
    if rate is None or rtt is None or flows is None:
        lacking = next(name for name, value in given.items() if value is None)
        fail(f"{lacking}: missing: expected a point, such as --rate 100mbit --rtt 50ms --flows cubic, or --grid FILE")
    rate_bps = reader.read_rate("--rate", rate)
    rtt_s = reader.read_seconds("--rtt", rtt, reader.RTTS_S, "50ms")
    seconds = reader.read_seconds("--duration", duration, reader.DURATIONS_S, "60s") if duration else None
    return [point_of(flows, rate_bps, rtt_s, None if seconds is None else round(seconds))]


def _name_skipped(found: Found) -> None:
    """Names what a world could not play: each reason once, with the number of points."""
    reasons: dict[tuple[str, str], int] = {}
    for _, line, reason in found.skipped:
        reasons[line, reason] = reasons.get((line, reason), 0) + 1
    for (line, reason), count in reasons.items():
        places = "" if len(found.judged) <= 1 and count == 1 else f", {many(count, 'point')}"
        click.echo(f"sojourn: skipped {line}{places}: {reason}", err=True)


def _show(found: Found, form: str) -> None:
    from sojourn import records
    from sojourn.frontier import tables

    if form == "json":
        click.echo(records.to_json(tables.as_dict(found)))
        return
    if form == "csv":
        click.echo(rows_as_csv(*tables.every_setting(found)), nl=False)
        return
    screen.say(tables.headline(found))
    click.echo()
    if len(found.judged) == 1:
        one = found.judged[0]
        screen.print_lines(screen.number_lines("fixed settings on the frontier", *tables.frontier(one)))
        screen.print_lines(screen.number_lines("against the frontier", *tables.placed(one)))
        screen.print_words("", *tables.against(one))
    else:
        screen.print_lines(screen.number_lines("link busy, %", *tables.utilisations(found)))
        screen.print_lines(screen.number_lines("mean sojourn less the frontier's, ms", *tables.excesses(found)))
        screen.print_lines(screen.number_lines("all points", *tables.overall(found)))
    for sentence in tables.notes(found):
        screen.say(sentence)


def _draw(found: Found, folder: Path, form: Format) -> None:
    from sojourn import plot
    from sojourn.frontier import picture

    for made in picture.pictures(found):
        click.echo(f"picture: {plot.write(made, folder, form)}", err=True)
