"""`sojourn tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn import screen
from sojourn.cli.base import (
    bounded,
    cli,
    executor_options,
    fail,
    leave_interrupted,
    load_plan,
    many,
    open_store,
    optional_scenario,
    out_option,
    picture_format_option,
    refuse_file,
    set_option,
    simulated_seconds,
    store_option,
    warn,
)
from sojourn.cli.new import buffer_with_unit, line_options
from sojourn.errors import nearest_of
from sojourn.line import time_text

if TYPE_CHECKING:
    from sojourn.executors import Executor
    from sojourn.plot import Format
    from sojourn.tune.router import Lines
    from sojourn.tune.search import Found, Player
    from sojourn.tune.summary import Table
    from sojourn.tune.task import Task

GEO_S = 0.4
"""No round trip over a geostationary satellite is shorter."""
LANGUAGES = ("tc", "uci", "networkd")


@cli.command(
    epilog="""\b
Examples:
  sojourn tune --down 20mbit --up 2mbit --rtt 30ms --buffer 800ms
  sojourn tune --down 50mbit --up 10mbit --access vdsl --router uci
  sojourn tune rural-low --hop bottleneck --qdisc codel --qdisc cake
"""
)
@optional_scenario
@line_options(required=False)
@click.option(
    "--mix",
    default="family",
    show_default=True,
    metavar="NAME",
    help="The traffic: family, work, game, upload or downloads.",
)
@click.option(
    "--uncertain",
    type=int,
    callback=bounded(0, 90),
    metavar="PERCENT",
    help="How far the line's real rate may be below the stated one [default: 4; with SCENARIO: 0].",
)
@click.option(
    "--duration",
    type=int,
    callback=bounded(2, 3600),
    metavar="SECONDS",
    help="How long a run lasts, in simulated time [default: 20 to 60, less on a fast line].",
)
@click.option(
    "--hop", "hops", multiple=True, metavar="NAME", help="With SCENARIO: the queue to tune [default: the slowest]."
)
@click.option(
    "--qdisc",
    "disciplines",
    multiple=True,
    metavar="NAME",
    help="A discipline to tune. Repeatable [default: all that can be tuned].",
)
@click.option(
    "--confirm", type=int, callback=bounded(1, 1000), metavar="N", help="Play the result in the kernel, N seeds."
)
@click.option(
    "--router",
    type=click.Choice(LANGUAGES),
    default="tc",
    show_default=True,
    help="The language of the lines to paste.",
)
@click.option(
    "--interface", default="eth0", show_default=True, metavar="NAME", help="The router's interface to the line."
)
@click.option(
    "--seeds",
    type=int,
    callback=bounded(2, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Seeds with which the finalists are compared.",
)
@set_option
@store_option
@out_option("Where the page and the picture go [default: setting in the store].")
@executor_options
@picture_format_option
def tune(
    file: Path | None,
    down: int | None,
    up: int | None,
    rtt: float,
    buffer: str,
    access: str,
    mix: str,
    uncertain: int | None,
    duration: int | None,
    hops: tuple[str, ...],
    disciplines: tuple[str, ...],
    confirm: int | None,
    router: str,
    interface: str,
    sets: list[tuple[str, str]],
    seeds: int,
    store: Path,
    out: Path | None,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Find a setting for a link.

    It is the discipline, its parameters, and the shaper's rate.

    Describe your line by its rates, or name a SCENARIO and a queue of it. Settings are searched in the simulator,
    compared with what people set today, and tried on links that differ from what was stated. The answer comes first,
    with what was assumed of the line and the lines to paste into the router. Without --access the shaper counts the
    most that a common line adds to a packet, which is safe with every framing.
    """
    from sojourn.runs import RunsInStore
    from sojourn.tune import router as language
    from sojourn.tune import search

    chosen = _disciplines(disciplines)
    _refuse_interface(interface)
    refuse_file(out)
    task = _task(file, hops, sets, down, up, rtt, buffer, access, mix, uncertain, duration)
    opened = open_store(store)
    player = search.Player(lambda: RunsInStore(opened), executor, watch=lambda stage: simulated_seconds(stage))
    try:
        found = search.search(task, chosen, player, seeds)
        if confirm:
            found = _confirm(found, player, confirm)
    except search.Interrupted:
        click.echo(f"{many(player.count, 'run')}; store: {opened.folder}", err=True)
        leave_interrupted()
    lines = language.written(task, found.chosen, interface)
    _show(found, lines, lines[router], interface, form)
    if form == "text" or out:
        _write(found, lines, out or opened.folder / "setting", picture)
    click.echo(f"{many(player.count, 'run')}, {player.played} of them played now; store: {opened.folder}", err=True)


def _disciplines(asked: Sequence[str]) -> list[str]:
    from sojourn.tune.candidates import DISCIPLINES

    for one in asked:
        if one not in DISCIPLINES:
            fail(f"--qdisc = {one}: expected one of {', '.join(DISCIPLINES)}{nearest_of(one, DISCIPLINES)}")
    return list(dict.fromkeys(asked)) or list(DISCIPLINES)


def _refuse_interface(name: str) -> None:
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}", name):
        fail(
            f"--interface = {name}: expected a device's name of 1 to 15 letters, digits, '.', '_', '@' and '-', "
            "such as eth0"
        )


def _task(
    file: Path | None,
    hops: Sequence[str],
    sets: list[tuple[str, str]],
    down: int | None,
    up: int | None,
    rtt: float,
    buffer: str,
    access: str,
    mix: str,
    uncertain: int | None,
    duration: int | None,
) -> Task:
    from sojourn.tune.task import MIXES, NEAREST_MIX, task_of_line, task_of_plan

    share = None if uncertain is None else uncertain / 100
    if file is not None:
        given = [name for name in LINE if _is_given(name)]
        if given:
            fail(f"--{given[0]} describes a line: expected either SCENARIO, or --down and --up")
        return task_of_plan(load_plan(file, sets, None, None), hops, share or 0.0)
    if down is None or up is None:
        fail(
            "expected the line's rates, such as --down 20mbit --up 2mbit, or a SCENARIO; --access alone says how to "
            "tell the kind of line"
        )
    if hops or sets:
        fail("--hop and --set change a scenario: expected SCENARIO with them")
    buffer = buffer_with_unit(buffer, down, up)
    if mix not in MIXES:
        known = "; ".join(f"{name}: {words}" for name, (words, _) in MIXES.items())
        like = NEAREST_MIX.get(mix.lower())
        near = f"; nearest is {like}" if like else nearest_of(mix, list(MIXES))
        fail(f"--mix = {mix}: expected one of {known}{near}")
    if access == "geo" and rtt < GEO_S:
        warn([f"--rtt = {time_text(rtt)}: a path over a geostationary satellite takes about 600 ms; say --rtt"])
    return task_of_line(down, up, rtt, buffer, access, mix, share, duration)


LINE = ("down", "up", "rtt", "buffer", "access", "mix", "duration")
"""Options that describe a line, and are not for a scenario."""


def _is_given(name: str) -> bool:
    """Returns whether an option is on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def _confirm(found: Found, player: Player, seeds: int) -> Found:
    from sojourn.cli.run import world_of
    from sojourn.tune import search

    player.world = world_of("kernel", memory=1)
    return search.confirm(found, player, seeds)


# ---- output ----


def _show(found: Found, lines: dict[str, Lines], asked: Lines, interface: str, form: str) -> None:
    from sojourn import records
    from sojourn.cli.base import rows_as_csv
    from sojourn.tune import router as language
    from sojourn.tune import search, summary

    if form == "json":
        click.echo(records.to_json(summary.as_dict(found, lines)))
        return
    if form == "csv":
        click.echo(rows_as_csv(*summary.numbers(found)), nl=False)
        return
    for sentence in summary.answer(found):
        screen.say(sentence)
    click.echo()
    sqm = "; for OpenWrt's SQM: --router uci" if asked.name == "tc" else ""
    click.secho(f"for the router ({asked.name}, with {interface} to the line{sqm})", bold=True)
    for line in language.text(asked):
        click.echo(line)
    click.echo()
    for sentence in summary.verdicts(found):
        screen.say(sentence)
    click.echo()
    _print(summary.finalists(found, brief=True))
    for table in [*summary.lower(found, brief=True), *summary.confirmation(found, brief=True)]:
        _print(table)
    if found.confirmed:
        screen.say(summary.confirmed_words(found))
        click.echo()
    if steps := summary.sensitivity(found):
        click.echo(f"how exact the parameters must be (one changed at a time; means of {search.VARIED_SEEDS} seeds)")
        for one in steps:
            for place, part in enumerate(screen.wrapped(one, screen.width() - 4)):
                click.echo(f"  {'  ' if place else ''}{part}")
        click.echo()
    if (robust := summary.robustness(found, brief=True)) is not None:
        _print(robust)


COLOURS = {"*": "green", "!": "red"}
"""The colours of the marks in a terminal."""


def _print(table: Table) -> None:
    marks = table.marks or [("",) * len(row[1:]) for row in table.rows]
    cells = [
        [
            screen.Cell(cell.replace(" ± ", "±"), mark, COLOURS.get(mark))
            for cell, mark in zip(row[1:], marked, strict=True)
        ]
        for row, marked in zip(table.rows, marks, strict=True)
    ]
    screen.print_lines(screen.number_lines(table.title, table.heads, table.rows, marked=cells))
    for note in table.notes:
        screen.say(f"  {note}")
    click.echo()


def _write(found: Found, lines: dict[str, Lines], folder: Path, picture: Format) -> None:
    from sojourn.report import setting

    click.echo(f"page: {setting.write(folder, found, lines, picture)}", err=True)
