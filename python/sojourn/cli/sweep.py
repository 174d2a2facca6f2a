"""`sojourn sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import screen
from sojourn.cli.base import (
    cli,
    engine_option,
    executor_options,
    leave_broken,
    leave_interrupted,
    library_options,
    load_plan,
    many,
    name_failed,
    name_invalid,
    name_programs,
    name_skipped,
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
    warn,
)
from sojourn.cli.run import NOT_RANDOM, baseline_option, memory_option, world_of, world_option
from sojourn.files import writing
from sojourn.words import cell_text

if TYPE_CHECKING:
    from sojourn.disciplines import Library
    from sojourn.executors import Executor
    from sojourn.live.run import Engine
    from sojourn.means import Mean
    from sojourn.plot import Format
    from sojourn.results import Results
    from sojourn.until import Until, Width

ROWS = 100
"""The most combinations in a table: nobody reads more, and the layout of thousands takes a minute."""

MOST_NAMED = 20
"""Combinations whose interval is named as too wide."""

PICTURES = "pictures"
"""The folder of pictures in a store."""
MOST_DRAWN = 100_000
"""The most entries of flows, in all runs together, that are held in memory for pictures. They take some hundred MB."""


@cli.command(
    epilog="""\b
Examples:
  sojourn sweep static-1.5mbit --seeds 5
  sojourn sweep static-1.5mbit --seeds 100 --until 'sojourn_ms.p95 5%'
  sojourn sweep static-1.5mbit --quick
  sojourn store "SELECT qdisc['bottleneck'], avg(goodput_mbit) FROM runs GROUP BY ALL"
"""
)
@scenario_argument
@world_option
@memory_option
@engine_option
@library_options
@qdisc_module_option
@set_options
@store_option
@click.option(
    "--until",
    metavar="'MEASURE WIDTH'",
    help="Fewer seeds than --seeds where the 95 % interval of a measure is within ± WIDTH (such as 0.5, or 5%).",
)
@click.option("--quick", is_flag=True, help="A quick look: a tenth of the combinations, with every value of each key.")
@baseline_option
@out_option("Where pictures go [default: pictures/SCENARIO in the store].")
@click.option("--series", is_flag=True, help="Keep each run's queues and flows over time too (larger).")
@executor_options
@picture_format_option
def sweep(
    file: Path,
    world: str,
    memory: int,
    engine: Engine,
    outside: tuple[Library, ...],
    patience: int,
    module: Path | None,
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
    store: Path,
    until: str | None,
    quick: bool,
    baseline: str | None,
    out: Path | None,
    series: bool,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Run a scenario's [sweep] and keep the runs in a store.

    Only runs that the store lacks are played.

    A run is identified by all that it depends on: the scenario after --set and the sweep, the files it names, its
    seed, the world and the version of the program that plays it. So a repeated sweep plays nothing, an extended one
    only its new runs, a killed one continues, and several at once share the work. MEASURE is, for example,
    sojourn_ms.p95 of the queue compared, hops.NAME.utilisation, flows.NAME.fct_s.p50 or goodput_mbit.

    With -f text pictures are drawn too, with their numbers as CSV: the delays of every combination, and curves if a
    number is swept. With json or csv they are drawn if --out or their format asks for it.
    """
    from sojourn import pipeline
    from sojourn.runs import RunsInStore
    from sojourn.until import Until

    rule = Until.parse(until) if until is not None else None
    plan = load_plan(file, sets, seed, seeds, outside_names(outside, module))
    refuse_file(out)
    name_programs(plan, world)
    opened = open_store(store)
    among = pipeline.quick([one["set"] for one in plan.runs]) if quick else None
    count = sum(among is None or among(one["set"]) for one in plan.runs)
    with simulated_seconds(f"{many(count, 'run')} at most" if until else many(count, "run")) as tell:
        done = pipeline.execute(
            plan,
            RunsInStore(opened, series),
            world=world_of(world, memory=memory, engine=engine, outside=outside, patience=patience, module=module),
            executor=executor,
            until=rule,
            among=among,
            baseline=baseline,
            tell=tell,
        )
    # The plan's own are first, and named already.
    name_skipped(done.skipped[len(plan.skipped) :])
    if world == "live":  # only this world has any; to read all runs takes time
        name_invalid(done.runs)
        name_failed(done.runs)
    warn(opened.damaged)
    if done.spared:
        click.echo(f"sojourn: {NOT_RANDOM}", err=True)
    _show(done, opened.folder, form, baseline)
    if done.combinations and (form == "text" or out or picture_is_asked_for()):
        place = out or opened.folder / PICTURES / _name(file, world)
        with writing(place, wait=True):  # of a sweep that ends at the same time
            _draw(done, place, picture)
    _name_too_wide(done)
    click.echo(f"{many(done.count, 'run')}, {_played(done)}; store: {opened.folder}", err=True)
    if quick:
        click.echo(f"a quick look: {count} of {many(len(plan), 'run')}", err=True)
    if done.interrupted:
        leave_interrupted()
    leave_broken(done.broken)


def _name(file: Path, world: str) -> str:
    """The folder of a scenario's pictures; that of another world than the simulator has its name, too."""
    return file.stem if world == "sim" else f"{file.stem}.{world}"


def _draw(done: Results, folder: Path, form: Format) -> None:
    """The pictures that need no series, if there are not too many runs for one."""
    from sojourn import cases, pictures, plot

    flows = len(done.kept.about(done.combinations[0].indices[0])["flows"])
    if done.count * flows > MOST_DRAWN:
        screen.say(f"no picture: more than {MOST_DRAWN} entries of flows in {done.count} runs; --quick sweeps fewer")
        return
    for picture in pictures.without_series(cases.case_list(done.runs), done.shown[0]):
        click.echo(f"picture: {plot.write(picture, folder, form)}", err=True)


def _played(done: Results) -> str:
    """Says how many of the runs that were played now count in the results, and how many do not."""
    said = f"{done.played - done.surplus} of them played now"
    return f"{said} ({done.surplus} more were played than needed, and are kept)" if done.surplus else said


def _name_too_wide(done: Results) -> None:
    """Says in which combinations the seeds ended before the interval of --until was narrow enough."""
    rule, places = done.until, sorted(done.too_wide)
    if rule is None or not places or done.interrupted:
        return
    of = f" of {len(done.combinations)} combinations" if len(done.combinations) > 1 else ""
    where = f"in {len(places)}{of}" if of else "with these seeds"
    click.echo(f"sojourn: --until {rule.text}: not reached {where}:", err=True)
    labels = done.cases(places[min(len(places), MOST_NAMED) - 1] + 1).labels()
    for place in places[:MOST_NAMED]:
        click.echo(
            f"  {labels[place]}: {_width(rule, done.too_wide[place], len(done.combinations[place].indices))}", err=True
        )
    if len(places) > MOST_NAMED:
        click.echo(f"  and {len(places) - MOST_NAMED} more, which -f json names", err=True)


def _width(rule: Until, width: Width, seeds: int) -> str:
    """The interval of --until in a combination, and how many more seeds it needs."""
    from sojourn.words import number_text

    after = f"after {many(seeds, 'seed')}"
    if width.mean is None or width.mean.half_width is None:
        few = 0 if width.mean is None else width.mean.count
        return f"no interval {after}, of which {few or 'none'} {'has' if few == 1 else 'have'} a value"
    more = f"; about {many(width.more_seeds, 'more seed')} needed" if width.more_seeds else ""
    return f"{width.address} is {number_text(width.mean.value)}, {rule.width_text(width.mean)} {after}{more}"


def _show(done: Results, store: Path, form: str, baseline: str | None) -> None:
    from sojourn import records
    from sojourn.cli import tables

    if form == "json":
        value = _as_dict(done, store, _means(done))
        click.echo(records.to_json(value | _comparison(done, baseline)))
    elif form == "csv":
        click.echo(_as_csv(done, _means(done)), nl=False)
    elif done.combinations:
        tables.show(done.cases(ROWS), baseline)
        if (more := len(done.combinations) - ROWS) > 0:
            words = f'{many(more, "more combination")}: see all with -f csv, or some with sojourn store "SELECT …"'
            screen.say(words)


def _means(done: Results) -> dict[str, list[Mean | None]]:
    """The means of all measures that tables show, by their names in a store: of every hop's rightward queue, and of
    every other queue that is shown."""
    from sojourn import queues, table

    hops = [name for name in done.hops if name in done.shown or not name.endswith(queues.REVERSE)]
    paths = dict.fromkeys([*(column.path for column in table.QUEUE), "queue_delay_ms.p50", "queue_delay_ms.mean"])
    addresses = [f"hops.{hop}.{path}" for hop in hops for path in paths]
    return done.means(["goodput_mbit", "jain.goodput", *addresses], table.FLOW_PATHS)


def _comparison(done: Results, baseline: str | None) -> dict[str, Any]:
    """Paired differences, where there are several seeds, and several combinations but no more than a table shows."""
    from sojourn import paired

    found = paired.as_dict(done.cases(ROWS), baseline) if 0 < len(done.combinations) <= ROWS else None
    return {"comparison": found} if found else {}


def _as_dict(done: Results, store: Path, means: dict[str, list[Mean | None]]) -> dict[str, Any]:
    from sojourn.means import as_dict as means_as_dict

    def until(place: int) -> dict[str, Any]:
        if done.until is None:
            return {}
        width = done.too_wide.get(place)
        if width is None:
            return {"until": {"met": True}}
        half_width = width.mean and width.mean.half_width
        found = {"met": False, "measure": width.address, "half_width": half_width, "more_seeds": width.more_seeds}
        return {"until": found}

    combinations = [
        {
            "set": one.set,
            "seeds": len(one.indices),
            **until(place),
            "measures": {address: means_as_dict(found[place]) for address, found in means.items()},
        }
        for place, one in enumerate(done.combinations)
    ]
    value = {
        "store": str(store),
        "world": done.world,
        "combinations": combinations,
        "skipped": done.skipped,
        "runs": done.count,
        "played": done.played,
    }
    return value | ({"interrupted": True} if done.interrupted else {})


def _as_csv(done: Results, means: dict[str, list[Mean | None]]) -> str:
    keys = list(dict.fromkeys(key for one in done.combinations for key in one.set))
    heads = [*(f"set.{key}" for key in keys), "seeds"]
    heads += [name for address in means for name in (address, f"{address}.half_width")]
    rows = []
    for place, one in enumerate(done.combinations):
        cells = [cell_text(one.set.get(key, "")) for key in keys] + [str(len(one.indices))]
        for found in means.values():
            mean = found[place]
            numbers = (None, None) if mean is None else (mean.value, mean.half_width)
            cells += ["" if number is None else repr(number) for number in numbers]
        rows.append(cells)
    return rows_as_csv(heads, rows)
