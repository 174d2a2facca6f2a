"""`sojourn run`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from sojourn.cli.base import (
    INTERRUPTED,
    bounded,
    cli,
    engine_option,
    executor_options,
    fail,
    leave_broken,
    library_options,
    load_plan,
    many,
    name_failed,
    name_invalid,
    name_programs,
    name_skipped,
    out_option,
    outside_names,
    picture_format_option,
    picture_is_asked_for,
    qdisc_module_option,
    scenario_argument,
    set_options,
    simulated_seconds,
    warn,
)  # fmt: skip
from sojourn.files import writing
from sojourn.plan import WORLDS

if TYPE_CHECKING:
    from sojourn import _core
    from sojourn.disciplines import Library
    from sojourn.executors import Executor
    from sojourn.live.run import Engine
    from sojourn.plot import Format
    from sojourn.results import Results
    from sojourn.worlds import World


NOT_RANDOM = "nothing in this scenario is random: every seed gives the same run, so only the first seed is played"
memory_option = click.option(
    "--memory",
    type=int,
    callback=bounded(1, 64),
    default=1,
    show_default=True,
    metavar="GB",
    help="Kernel world: gigabytes for each guest; more flows and longer queues need more.",
)


baseline_option = click.option(
    "--baseline",
    metavar="VALUE",
    help="The swept value that the others are compared with, seed by seed [default: the first].",
)
world_option = click.option(
    "--world", type=click.Choice(WORLDS), default="sim", show_default=True, help="Where it runs."
)


@cli.command(
    epilog="""\b
Examples:
  sojourn run fading-link
  sojourn run fading-link --seeds 10
  sojourn run fading-link --set hop.bottleneck.qdisc=fq_codel -f json
  sojourn run family-evening --qdisc "pfifo limit 1000" --qdisc fq_codel --hop line.down
"""
)
@scenario_argument
@click.option(
    "--qdisc",
    "lines",
    multiple=True,
    metavar="'LINE'",
    help="A discipline as tc writes it, to compare on one queue in place of the scenario's sweep there. Repeatable.",
)
@click.option(
    "--hop",
    metavar="NAME",
    help="The queue that plays the lines of --qdisc, such as line.up [default: the one swept, else the slowest].",
)
@world_option
@click.option(
    "--link",
    type=click.Choice(["device", "htb", "tbf"]),
    default="device",
    show_default=True,
    help="Kernel world: what shapes the hops, our network device or a discipline of Linux above it.",
)
@click.option(
    "--kernel",
    type=click.Choice(["fast", "debug", "debian"]),
    default="fast",
    show_default=True,
    help="Kernel world: which variant, as 'sojourn kernel build' made it; debian runs in QEMU.",
)
@memory_option
@click.option("--probe", type=click.Choice(["on", "off"]), default="on", hidden=True)
@click.option("--sink", type=click.Choice(["kernel", "program", "lowat"]), default="kernel", hidden=True)
@click.option("--keep", type=click.Path(path_type=Path), hidden=True)
@click.option(
    "--pcap",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Live world: capture the first 128 bytes of each queue's packets as pcapng, with sojourn and fate.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Live world: write each queue's arrivals and fates for 'sojourn replay', and its command (NNNN.json).",
)
@engine_option
@library_options
@qdisc_module_option
@set_options
@out_option("Where results go (a new folder).")
@click.option(
    "-s", "--stats", is_flag=True, help="Print counters too: of each discipline as 'tc -s', of TCP as 'nstat'."
)
@baseline_option
@click.option("--packets", is_flag=True, help="Record every packet too (large files); needs a results folder.")
@executor_options
@picture_format_option
def run(
    file: Path,
    lines: tuple[str, ...],
    hop: str | None,
    world: str,
    link: str,
    kernel: str,
    memory: int,
    probe: str,
    sink: str,
    keep: Path | None,
    pcap: Path | None,
    traces: Path | None,
    engine: Engine,
    outside: tuple[Library, ...],
    patience: int,
    module: Path | None,
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
    out: Path | None,
    stats: bool,
    baseline: str | None,
    packets: bool,
    executor: Executor,
    form: str,
    picture: Format,
) -> None:
    """Run a scenario with all that its [sweep] asks for, and compare.

    With -f text the results go to a new folder under results/, with a report to open in a browser; with json or csv
    no file is written unless --out says where.
    """
    from sojourn import cost, pipeline, records
    from sojourn.finished import Keep
    from sojourn.runs import RunsInMemory

    plan = load_plan(file, sets, seed, seeds, outside_names(outside, module))
    if hop is not None and not lines:
        fail(f"--hop = {hop}: expected --qdisc 'LINE' with it, once for each line to compare")
    if lines:
        plan = compared(plan, lines, hop, sets, seed, seeds)
    if packets and out is None and form != "text":
        fail("--packets: expected --out DIR with it, since -f json and -f csv write no file on their own")
    if picture_is_asked_for() and out is None and form != "text":
        fail(f"--format = {picture}: expected --out DIR with it, since -f json and -f csv write no file on their own")
    where = world_of(
        world,
        link=link,
        kernel=kernel,
        memory=memory,
        probe=probe == "on",
        sink=sink,
        keep=keep,
        pcap=pcap,
        traces=traces,
        engine=engine,
        outside=outside,
        patience=patience,
        module=module,
    )
    reserved = {out.resolve()} if out else set()  # --out is reserved when it is made
    for option, place in (("--keep", keep), ("--pcap", pcap), ("--traces", traces)):
        if place is not None and place.resolve() not in reserved:
            reserved.add(place.resolve())
            click.get_current_context().with_resource(writing(place, option))
    folder: Path | None = None

    def make_folder() -> Path | None:
        nonlocal folder
        if out:
            folder = records.claim_folder(out, plan.text)
        elif form == "text":
            folder = records.new_folder(file.stem, plan.text)
        if folder:
            Thread(target=_import_report).start()
        return folder

    warn(cost.warnings(cost.of(plan, world)))
    name_programs(plan, world)
    keeps = Keep(series=out is not None or form == "text", packets=packets)
    with records.whole_or_none(lambda: folder), simulated_seconds(f"{len(plan)} runs") as tell:
        done = pipeline.execute(
            plan,
            RunsInMemory(keeps, make_folder, every_series=False),
            world=where,
            executor=executor,
            baseline=baseline,
            tell=tell,
        )
        if folder:
            records.write_text(folder / records.RESULTS, done.json() + "\n")
    # The plan's own are first, and named already.
    name_skipped(done.skipped[len(plan.skipped) :])
    name_invalid(done.runs)
    name_failed(done.runs)
    if done.spared:
        click.echo(f"sojourn: {NOT_RANDOM}", err=True)
    page = None
    if folder and done.count:
        from sojourn import report

        page = report.write(folder, done.runs, done.skipped, done.interrupted, done.baseline, picture)
    show_runs(done, form)
    if stats and form == "text" and done.count:
        from sojourn import stats as counters

        click.echo(counters.of_runs(done.runs))
    _closing_words(done, len(plan) - done.spared, folder, page)
    if done.interrupted:
        sys.exit(INTERRUPTED)
    leave_broken(done.broken)


def compared(
    plan: _core.Plan,
    lines: tuple[str, ...],
    hop: str | None,
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
) -> _core.Plan:
    """Returns a plan that compares these lines on one queue, and says on stderr which queue that is."""
    from sojourn import lineup

    made, notes = lineup.plan_of(plan, lines, hop, sets=sets, seed=seed, seeds=seeds)
    for note in notes:
        click.echo(f"sojourn: {note}", err=True)
    warn(made.warnings)
    name_skipped(made.skipped)
    if len(made) == 0:
        fail(f"--qdisc = {', '.join(lines)}: nothing is left to run: every line was skipped")
    return made


def world_of(
    name: str,
    *,
    memory: int,
    link: str = "device",
    kernel: str = "fast",
    probe: bool = True,
    sink: str = "kernel",
    keep: Path | None = None,
    pcap: Path | None = None,
    traces: Path | None = None,
    engine: Engine = "ours",
    outside: tuple[Library, ...] = (),
    patience: int = 60,
    module: Path | None = None,
) -> World:
    """Where runs are to be played."""
    from sojourn.worlds import Simulator

    if pcap is not None and name != "live":
        fail(f"--pcap = {pcap}: expected --world live with it; other worlds have no frames")
    if traces is not None and name != "live":
        fail(f"--traces = {traces}: expected --world live with it; only that world traces its queues")
    if traces is not None and engine != "ours":
        fail(f"--traces = {traces}: expected --engine ours with it; a replay plays our disciplines, not the kernel's")
    if engine != "ours" and name != "live":
        fail(f"--engine = {engine}: expected --world live with it; other worlds have no kernel of this host")
    if name != "kernel":
        here = "the simulator" if name == "sim" else "the live world"
        if link != "device":
            fail(f"--link = {link}: {here} has no such thing; expected --world kernel with it")
        if kernel != "fast":
            fail(f"--kernel = {kernel}: {here} has none; expected --world kernel with it")
        if memory != 1:
            fail(f"--memory = {memory}: {here} has no guest; expected --world kernel with it")
        if module is not None:
            fail(f"--qdisc-module = {module}: {here} has no modules; expected --world kernel with it")
    if name == "sim":
        return Simulator(outside=outside, patience_s=patience)
    if outside:
        fail(f"--library = {outside[0].file}: the world {name} does not load it; expected --world sim with it")
    if name == "live":
        from sojourn.live.run import Hosts

        for option, folder in (("--pcap", pcap), ("--traces", traces)):
            try:
                if folder is not None:
                    folder.mkdir(parents=True, exist_ok=True)
                    with tempfile.TemporaryFile(dir=folder):
                        pass
            except OSError as error:
                fail(f"{option} = {folder}: {error.strerror}: expected a folder to write to, or the path of a new one")
        return Hosts(keep=keep, capture=pcap, traces=traces, engine=engine)
    from sojourn.kernel.run import Guests

    memory_each = f"{memory}G"
    return Guests(link=link, variant=kernel, memory=memory_each, probe=probe, sink=sink, keep=keep, qdisc_module=module)


def _import_report() -> None:
    """Imports the modules that write records and the report. The import takes as long as a short run, so it happens
    while the run plays.
    """
    # `records` imports it when it writes the first run.
    import pyarrow.parquet  # noqa: F401

    from sojourn import report  # noqa: F401


def show_runs(done: Results, form: str) -> None:
    """Prints the runs in the form asked for."""
    from sojourn import table

    if form == "json":
        click.echo(done.json())
    elif not done.count:
        return
    elif form == "csv":
        click.echo(table.as_csv(done.runs), nl=False)
    else:
        from sojourn.cli import tables
        from sojourn.records import not_valid

        tables.show(done.cases(), done.baseline, not_valid(done.runs))


def _closing_words(done: Results, planned: int, folder: Path | None, page: Path | None) -> None:
    simulated = sum(record.result["duration_s"] for record in done.runs)
    count = done.count
    is_live = any(record.world == "live" for record in done.runs)
    took = "s in real time" if is_live else f"simulated seconds in {done.cpu_s:.2f} s of CPU"
    click.echo(f"{many(count, 'run')}: {simulated:g} {took}", err=True)
    if done.interrupted:
        where = f"; they are in {folder}" if folder else ""
        click.echo(f"sojourn: interrupted: {count} of {planned} runs are finished{where}", err=True)
    elif page:
        click.echo(f"report: {page}", err=True)
