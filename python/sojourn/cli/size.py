"""`sojourn size`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn import screen
from sojourn.cli.base import (
    bounded,
    cli,
    executor_options,
    leave_interrupted,
    library_options,
    load_plan,
    many,
    open_store,
    out_option,
    outside_names,
    picture_format_option,
    picture_is_asked_for,
    qdisc_module_option,
    refuse_file,
    rows_as_csv,
    scenario_argument,
    set_options,
    simulated_seconds,
    store_option,
)
from sojourn.cli.run import memory_option, world_of, world_option
from sojourn.cli.sweep import PICTURES
from sojourn.errors import Refusal
from sojourn.words import number_text, size_text

if TYPE_CHECKING:
    from sojourn.disciplines import Library
    from sojourn.executors import Executor
    from sojourn.means import Mean
    from sojourn.plot import Format
    from sojourn.results import Results
    from sojourn.sizing import Found, Size

HEADS = {
    "goodput_mbit": ("goodput", "Mbit/s"),
    "utilisation": ("link", "busy %"),
    "sojourn_ms.p95": ("sojourn", "p95 ms"),
    "standing_queue_ms.p50": ("standing", "p50 ms"),
    "nonempty_max_s": ("never", "empty s"),
    "empty_fraction": ("", "empty %"),
    "full_fraction": ("", "full %"),
    "oscillation_s": ("oscillation", "period s"),
    "drops": ("", "drops"),
    "fct_s.p50": ("FCT", "p50 s"),
    "fct_s.p95": ("FCT", "p95 s"),
}
"""The head of each measure, in two lines."""
PERCENT = ("utilisation", "empty_fraction", "full_fraction")


@cli.command(
    epilog="""\b
Examples:
  sojourn size geo-16mbit --want "no standing queue" --seeds 20
  sojourn size static-1.5mbit --hop bottleneck --sizes 10kB,20kB,0.5bdp
"""
)
@scenario_argument
@click.option("--hop", metavar="NAME", help="The link whose buffer is asked for [default: the slowest].")
@click.option(
    "--flows", type=int, callback=bounded(1, 10_000_000), metavar="N", help="Long flows at a time, for rules."
)
@click.option("--sizes", metavar="LIST", help="Sizes to try, such as 60kB,120kB,1bdp [default: a grid, and the rules].")
@click.option(
    "--want",
    "wants",
    multiple=True,
    metavar="'MEASURE <= NUMBER'",
    help="A condition (<= or >=) that the size must meet, or words: 'no standing queue'. Repeatable.",
)
@world_option
@memory_option
@library_options
@qdisc_module_option
@set_options
@store_option
@out_option("Where the picture goes [default: pictures/SCENARIO.size in the store].")
@executor_options
@picture_format_option
def size(
    file: Path,
    hop: str | None,
    flows: int | None,
    sizes: str | None,
    wants: tuple[str, ...],
    world: str,
    memory: int,
    outside: tuple[Library, ...],
    patience: int,
    module: Path | None,
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
    store: Path,
    out: Path | None,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Find out how large the buffer of a link should be.

    The scenario is played with a FIFO of each size at one hop. The table shows what the buffer does to throughput,
    delay and the completion of flows, with the sizes that rules of thumb say. Conditions (--want) say what is needed;
    a size meets one if the whole 95 % interval over the seeds does. One seed has no interval: use --seeds 20. Runs are
    kept in a store, so that another condition costs nothing.
    """
    from sojourn import identity, pipeline, sizing
    from sojourn.runs import RunsInStore

    plan = load_plan(file, sets, seed, seeds, outside_names(outside, module))
    refuse_file(out)
    link = sizing.link_of(plan, hop, flows)
    scenario = identity.resolved(identity.document_of_plan(plan), plan.runs[0]["set"])
    asked = [sizing.want_of(want, link.hop, plan.describe(0), scenario) for want in wants]
    limits = sizing.limits(link, sizes)
    chosen = sizing.plan_of(plan, link, limits, sets=sets, seed=seed, seeds=seeds)
    opened = open_store(store)
    where = world_of(world, memory=memory, outside=outside, patience=patience, module=module)
    with simulated_seconds(many(len(chosen), "run")) as tell:
        done = pipeline.execute(chosen, RunsInStore(opened), world=where, executor=executor, tell=tell)
    if done.interrupted:
        click.echo(f"{many(done.count, 'run')} of {len(chosen)}; store: {opened.folder}", err=True)
        leave_interrupted()
    if done.skipped:
        raise Refusal(f"world {world}: {done.skipped[0]['reason']}")
    found = sizing.judge(done, link, limits, asked)
    _show(found, form)
    if form == "text" or out or picture_is_asked_for():
        _draw(done, found, out or opened.folder / PICTURES / f"{file.stem}.size.{world}", picture)
    click.echo(f"{many(done.count, 'run')}, {done.played} of them played now; store: {opened.folder}", err=True)


def _show(found: Found, form: str) -> None:
    from sojourn import _core, records, sizing

    if form == "json":
        click.echo(records.to_json(sizing.as_dict(found)))
        return
    if form == "csv":
        click.echo(rows_as_csv(*sizing.table(found)), nl=False)
        return
    screen.say(sizing.headline(found))
    click.echo()
    _print_rules(found)
    screen.print_lines(_table(found))
    if found.wants:
        for line in _answers(found):
            click.echo(line)
    if found.seeds > 1:
        screen.say(f"means over {found.seeds} seeds, ± half-width of the 95 % interval")
    elif found.random:
        screen.say("one seed of random traffic: there is no interval, and nothing is shown")
    if found.chosen is not None:
        command, _ = _core.paste(f"bfifo limit {found.chosen.bytes}", "eth0")
        click.echo(command)


def _print_rules(found: Found) -> None:
    link = found.link
    title = f"rules for {link.hop}: {many(link.flows, 'long flow')}"
    rows = [[rule.name, size_text(rule.bytes), rule.source] for rule in link.rules]
    screen.print_words(title, ["rule", "size", "source"], rows)


def _label(one: Size) -> list[str]:
    return [size_text(one.bytes), number_text(one.bdp, 2)]


def _table(found: Found) -> list[str]:
    from sojourn import measures, sizing

    shown = [address for address in found.sizes[0].measures if measures.path(address) in HEADS]
    shown = [address for address in shown if any(one.measures[address] for one in found.sizes)]
    shown = [address for address in shown if not sizing.repeats(found, address)]
    heads = ["size", "BDP", *(_head(address) for address in shown)]
    rows = [[*_label(one), *(_cell(address, one.measures[address]) for address in shown)] for one in found.sizes]
    return screen.number_lines(f"queue {found.link.hop}", heads, rows)


def _answers(found: Found) -> list[str]:
    busy = f"hops.{found.link.hop}.utilisation"
    heads = ["size", "BDP", *(want.text for want in found.wants), "all", _head(busy)]
    rows = [[*_label(one), *one.answers.values(), one.meets, _cell(busy, one.measures[busy])] for one in found.sizes]
    lines = screen.number_lines("conditions", heads, rows)
    why = "the 95 % interval over the seeds contains the bound, a seed has no value, or there is one seed"
    return [*lines, "", *screen.wrapped(f"open: {why}", screen.width())]


def _head(address: str) -> str:
    from sojourn import measures

    first, second = HEADS[measures.path(address)]
    flow = [measures.of_flow(address)] if address.startswith("flows.") else []
    return " ".join([*flow, first, second]).strip()


def _cell(address: str, mean: Mean | None) -> str:
    from sojourn import measures
    from sojourn.table import UNSEEN, interval

    if mean is None:
        return "–"
    scale = 100 if measures.path(address) in PERCENT else 1
    text = number_text(mean.value * scale)
    visible = mean.half_width and mean.half_width > UNSEEN * abs(mean.value)
    return f"{text} ±{interval(mean.half_width * scale)}" if mean.half_width and visible else text


def _draw(done: Results, found: Found, folder: Path, form: Format) -> None:
    from sojourn import cases, plot, size_picture

    made = size_picture.picture(found, plot.provenance(cases.case_list(done.runs)))
    click.echo(f"picture: {plot.write(made, folder, form)}", err=True)
