"""Code that all verbs of the command share: the group, common options, and how errors are reported."""

from __future__ import annotations

import difflib
import functools
import importlib
import shlex
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sojourn import _core
from sojourn.errors import Refusal
from sojourn.plan import find, load, refuse_other_than_utf8
from sojourn.words import harmless, schedule_text
from sojourn.words import rows_as_csv as rows_as_csv

if TYPE_CHECKING:
    from sojourn.claims import Experiment, Found
    from sojourn.disciplines import Library, Outside
    from sojourn.executors import Executor
    from sojourn.records import RunRecord
    from sojourn.store import Store
    from sojourn.worlds import World

Verb = Callable[..., None]
BAD_INPUT, INTERRUPTED = 2, 130
"""Exit codes."""
FORMATS = click.Choice(["text", "json", "csv"])


class ReaderLeftError(Exception):
    """The reader of our output has closed it, as `head` does: not an error."""


VERBS = {
    "agree": "agree",
    "bench": "bench",
    "check": "check",
    "claims": "claims",
    "doctor": "doctor",
    "figures": "figures",
    "frontier": "frontier",
    "kernel": "kernel",
    "list": "catalogue",
    "new": "new",
    "replay": "replay",
    "report": "report",
    "rfc7928": "rfc7928",
    "run": "run",
    "shell": "shell",
    "size": "size",
    "store": "store",
    "sweep": "sweep",
    "tune": "tune",
    "verify": "verify",
}
"""The module of each verb. It is imported when the verb is asked for, and adds the verb to the command."""


class Verbs(click.Group):
    """A group that names the nearest verb, and handles the system's errors, for which click would exit with 1."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb that the first argument names."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            verbs = self.list_commands(ctx)
            nearest = difflib.get_close_matches(args[0], verbs, 1)
            hint = f'; nearest is "{nearest[0]}"' if nearest else ""
            ctx.fail(f'no such verb "{args[0]}": expected one of {", ".join(verbs)}{hint}')
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Reads the command line; --help prints here already."""
        with _system_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb."""
        with _system_errors():
            return super().invoke(ctx)


@contextmanager
def _system_errors() -> Iterator[None]:
    """Reports errors of the system, such as a full disk or a folder that may not be written, in one line."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderLeftError from error
    except OSError as error:
        what = error.filename if error.filename is not None else "cannot write"
        raise Refusal(f"{what}: {error.strerror or error}") from error


def fail(message: str) -> NoReturn:
    """Ends with the exit code for bad input, after one line."""
    raise Refusal(message)


def format_option(default: str = "text") -> Callable[[Verb], Verb]:
    """The option that every verb has."""
    return click.option(
        "-f", "--format", "form", type=FORMATS, default=default, show_default=True, help="What to write to stdout."
    )


engine_option = click.option(
    "--engine",
    type=click.Choice(["ours", "tc"]),
    default="ours",
    show_default=True,
    help="Live world: whose queue disciplines, ours or those of this host's kernel.",
)

PICTURES = ("png", "svg", "pdf")
"""Formats of pictures."""


def picture_is_asked_for() -> bool:
    """Whether the command line names a format of pictures."""
    return not set(PICTURES).isdisjoint(click.get_current_context().params.get("formats", ()))


def picture_format_option(command: Verb) -> Verb:
    """`-f` and `--format` of the verbs that draw: the form of the output, and the format of pictures.

    Both kinds are given to the verb, as `form` and `picture`; `picture_is_asked_for` says whether the second is the
    default.
    """
    shown, pictures = ("text", "json", "csv"), PICTURES

    @functools.wraps(command)
    def split(*args: Any, formats: tuple[str, ...], **rest: Any) -> None:
        for kind in (shown, pictures):
            if len(given := [one for one in formats if one in kind]) > 1:
                fail(f"--format = {', '.join(given)}: expected one of {', '.join(kind)}")
        form = next((one for one in formats if one in shown), shown[0])
        command(*args, form=form, picture=next((one for one in formats if one in pictures), pictures[0]), **rest)

    return click.option(
        "-f",
        "--format",
        "formats",
        type=click.Choice([*shown, *pictures]),
        multiple=True,
        help="What to write to stdout (text, json, csv), or the format of pictures (png, svg, pdf). Repeat it for "
        "both.  [default: text, png]",
    )(split)


def bounded(low: int, high: int) -> Callable[[click.Context, click.Parameter, int | None], int | None]:
    """Refuses numbers outside of [low, high]."""

    def check_bounds(_context: click.Context, _option: click.Parameter, value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            raise click.BadParameter(f"{value}: expected a whole number from {low} to {high}")
        return value

    return check_bounds


def scenario_argument(command: Verb) -> Verb:
    """The argument for a scenario: a file's path, or the name of one that comes with sojourn."""
    return _scenario(required=True)(command)


def optional_scenario(command: Verb) -> Verb:
    """The same argument for a verb that can do without a scenario, which then gets None."""
    return _scenario(required=False)(command)


def _scenario(*, required: bool) -> Callable[[Verb], Verb]:
    def file_of(_context: click.Context, _argument: click.Parameter, word: str | None) -> Path | None:
        return None if word is None else find(word)

    return click.argument("file", metavar="SCENARIO" if required else "[SCENARIO]", required=required, callback=file_of)


jobs_option = click.option(
    "--jobs", type=int, callback=bounded(1, 1024), metavar="N", help="Runs at the same time [default: all cores]."
)


def executor_options(command: Verb) -> Verb:
    """The options that select the executor, which is passed to the verb."""

    @functools.wraps(command)
    def with_executor(*, jobs: int | None, on: str | None, **others: Any) -> Any:
        from sojourn.executors import Cores
        from sojourn.on_dask import named_executor

        return command(executor=Cores(jobs) if on is None else named_executor(on, jobs), **others)

    made = click.option(
        "--on",
        metavar="dask://HOST:PORT",
        help="Play the runs on a Dask cluster; 'dask' starts one here. Needs sojourn[dask].",
    )(with_executor)
    return jobs_option(made)


def out_option(help_: str) -> Callable[[Verb], Verb]:
    """The option that says where pictures and pages go: a folder, or None for the verb's usual one."""
    return click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=help_)


def library_option(command: Verb) -> Verb:
    """The option that gives libraries of the user's, which are passed to the verb as `outside`."""
    return click.option(
        "--library",
        "outside",
        multiple=True,
        metavar="[NAME=]FILE",
        callback=_libraries,
        help="A discipline of yours: a shared library with the functions of sojourn.h ('sojourn doctor sim' names its "
        "folder). For mine.so its line is 'mine limit 1000'. Repeatable.",
    )(command)


def library_options(command: Verb) -> Verb:
    """`library_option`, and `--patience` for verbs that call the libraries."""
    command = click.option(
        "--patience",
        type=int,
        callback=bounded(1, 86_400),
        default=60,
        show_default=True,
        metavar="S",
        help="Seconds without progress after which a run with a library counts as hanging.",
    )(command)
    return library_option(command)


qdisc_module_option = click.option(
    "--qdisc-module",
    "module",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Kernel world: a discipline's own module, my.ko or a folder with a Kbuild; sch_codel.ko replaces codel.",
)


def outside_names(outside: Sequence[Outside], module: Path | None) -> list[str]:
    """The names of disciplines of the user's: those of libraries, and those of a module that we do not have."""
    names = [one.name for one in outside]
    if module is not None:
        from sojourn.kernel import modules

        kinds = map(modules.kind_of, modules.names_in(module))
        names += [kind for kind in kinds if _core.refuse_outside(kind) is None]
    return names


def _libraries(_context: click.Context, _option: click.Parameter, words: Sequence[str]) -> tuple[Library, ...]:
    """The libraries of `--library`."""
    from sojourn.disciplines import Library, refuse_twice

    for word in words:
        refuse_other_than_utf8(word)
    found = tuple(map(Library.of, words))
    refuse_twice(found)
    return found


def leave_broken(broken: Sequence[str]) -> None:
    """Ends the command with the exit code for bad input if a discipline of the user's has ended runs."""
    if broken:
        count = many(len(broken), "run")
        click.echo(f"sojourn: {count} ended by a discipline of yours; the other runs are kept", err=True)
        sys.exit(BAD_INPUT)


def _folder_option(name: str, default: str, meaning: str) -> Callable[[Verb], Verb]:
    return click.option(
        name, type=click.Path(path_type=Path), default=Path(default), show_default=True, metavar="DIR", help=meaning
    )


store_option = _folder_option("--store", "results/store", "Where runs are kept.")
experiments_option = _folder_option("--experiments", "experiments", "Where the papers' folders are.")


def parse_sets(_context: click.Context, _option: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    """Keys and values of `--set`."""
    pairs = []
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r}: expected KEY=VALUE, such as hop.bottleneck.rate=5mbit")
        pairs.append((key.strip(), rest.strip()))
    return pairs


set_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_sets,
    help="Set a key of the scenario: hop.bottleneck.rate=5mbit. Repeatable.",
)
seed_option = click.option(
    "--seed", type=int, callback=bounded(0, 2**63 - 1), metavar="N", help="The first seed [default: 1]."
)


def set_options(command: Verb) -> Verb:
    """The options that change the values of a scenario file."""
    seeds_option = click.option(
        "--seeds",
        type=int,
        callback=bounded(1, 1_000_000),
        metavar="N",
        help="How many seeds to run each combination with [default: as the file says, or 1].",
    )
    return seed_option(seeds_option(set_option(command)))


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Sojourn(Verbs):
    """The whole command, which imports its verbs when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name, if there is one."""
        if cmd_name in VERBS:
            importlib.import_module(f"sojourn.cli.{VERBS[cmd_name]}")
        return super().get_command(ctx, cmd_name)


@click.group(cls=Sojourn, context_settings=CONTEXT, epilog="Start with:  sojourn run fading-link")
@click.version_option(_core.__version__, prog_name="sojourn")
def cli() -> None:
    """Compare queue disciplines on a link that you describe in a file.

    One scenario file says what the link is like and what traffic crosses it; sojourn runs it through several queue
    disciplines and shows what each does to delay, throughput, loss and fairness.
    """


def load_plan(
    file: Path, sets: list[tuple[str, str]], seed: int | None, seeds: int | None, outside: Sequence[str] = ()
) -> _core.Plan:
    """Reads a scenario; warnings and skipped combinations go to stderr. `outside` are the names of disciplines of the
    user's.
    """
    for key, value in sets:
        if key.endswith(".qdisc") and (lines := _several_lines(value)):
            asked = " ".join(f"--qdisc '{line}'" for line in lines)
            fail(f"--set {key}={value}: expected one line; to compare several: sojourn run {file.stem} {asked}")
    plan = load(file, sets, seed, seeds, outside)
    warn(plan.warnings)
    name_skipped(plan.skipped)
    if len(plan) == 0:
        fail(f"{file}: nothing is left to run: every combination of [sweep] was skipped")
    return plan


def name_programs(plan: _core.Plan, world: str) -> None:
    """Says to stderr that a scenario starts programs, if the world plays them: the file's author decides which."""
    programs = [one for one in plan.describe(0)["flows"] if one["kind"] == "command"] if world == "live" else []
    if programs:
        click.echo(
            f"sojourn: this scenario starts {many(len(programs), 'program')} as you; play files only of people you "
            "trust",
            err=True,
        )


def _several_lines(value: str) -> list[str]:
    """Returns the lines of a value such as `["codel", "pie"]`; none of any other value."""
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return []
    return found if isinstance(found, list) and found and all(isinstance(one, str) for one in found) else []


def name_skipped(skipped: Sequence[dict[str, Any]]) -> None:
    """Prints the combinations of a sweep that are not run, and why: a line each, to stderr."""
    for one in skipped:
        click.echo(f"sojourn: skipped {set_text(one['set'])}: {one['reason']}", err=True)


def name_invalid(runs: Sequence[RunRecord]) -> None:
    """Prints the runs that may not be believed, and why: a line each, to stderr. Only the world `live` has any."""
    for one in runs:
        if reasons := one.truth.get("reasons"):
            where = f" of {set_text(one.set)}" if one.set else ""
            click.echo(f"sojourn: not valid: the run{where} with seed {one.seed}: {'; '.join(reasons)}", err=True)


def name_failed(runs: Sequence[RunRecord]) -> None:
    """Prints the programs of flows that failed, a line each, to stderr. Only the world `live` has any."""
    for one in runs:
        for flow in one.result["flows"]:
            command = flow.get("command")
            if command is None or command["stopped"] or command["exit"] == 0:
                continue
            how = f"signal {command['signal']}" if command["exit"] is None else f"exit code {command['exit']}"
            last = "".join(f": {line}" for line in command["stderr"].strip().splitlines()[-1:])
            where = f"{set_text(one.result['set'])}, seed {one.result['seed']}"
            click.echo(f"sojourn: flow {flow['name']}: {shlex.join(command['argv'])}: {how}, {where}{last}", err=True)


def warn(warnings: Sequence[str]) -> None:
    """Prints warnings to stderr, a line each."""
    for warning in warnings:
        click.echo(f"sojourn: warning: {harmless(warning)}", err=True)


def set_text(chosen: dict[str, Any]) -> str:
    """A combination of the sweep in words."""
    return ", ".join(f"{key} = {schedule_text(value)}" for key, value in chosen.items()) or "the scenario"


Tell = Callable[[float, float], None]
"""Called with two numbers: the simulated seconds that are done, and those of all runs."""
PATIENCE_S = 0.5
"""Seconds before a bar appears."""


@contextmanager
def simulated_seconds(where: str) -> Iterator[Tell]:
    """A progress bar on stderr, updated with the simulated seconds done and in all; no bar if stderr is not a terminal.

    It appears with the first report after PATIENCE_S: importing its library takes longer than a short run.
    """
    if not sys.stderr.isatty():
        yield lambda _done_s, _all_s: None
        return
    begin = time.monotonic()
    shown: list[Tell] = []
    with ExitStack() as stack:

        def tell(done_s: float, all_s: float) -> None:
            if not shown and time.monotonic() - begin >= PATIENCE_S:
                shown.append(stack.enter_context(_bar(where)))
            for show in shown:
                show(done_s, all_s)

        yield tell


STAGE_S = 10
"""Seconds after which each stage is named where there is no bar."""


@contextmanager
def stages() -> Iterator[Callable[[str, int], Tell]]:
    """Shows a bar for each stage of a long work, one after the other. Outside of a terminal, a line for each stage that
    begins after `STAGE_S`. A stage has a name and a number of runs.
    """
    begin, shown = time.monotonic(), ExitStack()

    def watch(name: str, runs: int) -> Tell:
        shown.close()
        passed = time.monotonic() - begin
        if passed > STAGE_S:
            click.echo(f"{name}, after {passed:.0f} s", err=True)
        return shown.enter_context(simulated_seconds(f"{name}, {many(runs, 'run')}"))

    with shown:
        yield watch


@contextmanager
def _bar(where: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}")
    with Progress(BarColumn(), words, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(where, total=None)

        def show(done_s: float, all_s: float) -> None:
            text = f"{done_s:.0f} of {all_s:.0f} simulated seconds in {where}"
            bar.update(task, completed=done_s, total=max(all_s, 1e-9), description=text)

        yield show


def refuse_file(out: Path | None) -> None:
    """Refuses a file where a folder is to be written to."""
    if out is not None and out.exists() and not out.is_dir():
        fail(f"--out = {out}: this is a file: expected a folder")


def open_store(folder: Path, *, there: bool = False) -> Store:
    """Returns the store in a folder. A missing store is made or, if it must be `there` already, refused."""
    from sojourn.store import FACTS, Store

    if there and not (folder / FACTS).is_file():
        fail(f"--store = {folder}: no store is there: expected one that 'sojourn sweep', 'claims' or 'figures' made")
    return Store(folder)


def gather_runs(
    experiment: Experiment,
    needs: Collection[str],
    store: Store,
    world: World,
    what: str,
    *,
    seeds: int | None = None,
    executor: Executor,
    play: bool,
) -> Found:
    """Gathers the runs that a paper's claims or figures need. `what` is the label of the progress bar."""
    from sojourn import claims

    with simulated_seconds(f"{experiment.name}, {what}") as tell:
        found = claims.gather(experiment, needs, store, world, seeds=seeds, executor=executor, play=play, tell=tell)
    if not (found.interrupted or found.lacking):
        click.echo(f"{experiment.name}: {many(found.played, 'run')} played now; store: {store.folder}", err=True)
    return found


def leave_interrupted() -> NoReturn:
    """Ends the command after Ctrl-C, when a store has kept the finished runs."""
    click.echo("sojourn: interrupted; the same command goes on where it was", err=True)
    sys.exit(INTERRUPTED)


def many(count: int, word: str) -> str:
    """A count with its noun."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
