"""The command `sojourn`: verbs, and the one place that turns errors into exit codes.

0: done. 1: a bug of ours. 2: something asked for can't be done; one line says what, where and what was expected.
130: interrupted.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sojourn import _core, screen
from sojourn.plan import WORLDS, load, refuse_other_than_utf8

if TYPE_CHECKING:
    from sojourn.sweep import Comparison

Command = Callable[..., None]
LONGEST_TRACE = 2**30
"""Bytes of a packet trace: some 30 million packets."""
BAD_INPUT, INTERRUPTED = 2, 130
FORMATS = click.Choice(["text", "json", "csv"])


class Refusal(Exception):
    """Something that the user asked for and can't have."""


class ReaderLeftError(Exception):
    """Nobody reads what we write any more, as after `head`: no fault of anybody's."""


class Verbs(click.Group):
    """Names the nearest verb, and takes the system's errors before click does: it would end with 1."""

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
    """A full disk, a folder that may not be written: said in a line, like everything that can't be done."""
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


def format_option(default: str = "text") -> Callable[[Command], Command]:
    """The option that every verb has."""
    return click.option(
        "-f", "--format", "form", type=FORMATS, default=default, show_default=True, help="What to write to stdout."
    )


def bounded(low: int, high: int) -> Callable[[click.Context, click.Parameter, int | None], int | None]:
    """Refuses numbers outside of [low, high]."""

    def check_bounds(_context: click.Context, _option: click.Parameter, value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            raise click.BadParameter(f"{value}: expected a whole number from {low} to {high}")
        return value

    return check_bounds


def set_options(command: Command) -> Command:
    """The options that change what a scenario file says."""
    command = click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse_sets,
        help="Set a key of the scenario: hop.bottleneck.rate=5mbit. Repeatable.",
    )(command)
    command = click.option(
        "--seeds",
        type=int,
        callback=bounded(1, 1_000_000),
        metavar="N",
        help="How many seeds to run each combination with [default: as the file says, or 1].",
    )(command)
    return click.option(
        "--seed", type=int, callback=bounded(0, 2**63 - 1), metavar="N", help="The first seed [default: 1]."
    )(command)


def _parse_sets(_context: click.Context, _option: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r}: expected KEY=VALUE, such as hop.bottleneck.rate=5mbit")
        pairs.append((key.strip(), rest.strip()))
    return pairs


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Verbs, context_settings=CONTEXT, epilog="Start with:  sojourn run scenarios/fading-link.toml")
@click.version_option(_core.__version__, prog_name="sojourn")
def cli() -> None:
    """Compare queue disciplines on a link that you describe in a file.

    One scenario file says what the link is like and what traffic crosses it; sojourn runs it through several queue
    disciplines and shows what each does to delay, throughput, loss and fairness.
    """


@cli.command(
    epilog="""\b
Examples:
  sojourn run scenarios/fading-link.toml
  sojourn run scenarios/fading-link.toml --seeds 10
  sojourn run scenarios/fading-link.toml --set hop.bottleneck.qdisc=fq_codel -f json
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--world", type=click.Choice(WORLDS), default="sim", show_default=True, help="Where it runs.")
@set_options
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where results go (a new folder).")
@click.option("--packets", is_flag=True, help="Record every packet too (large files); needs a results folder.")
@click.option(
    "--jobs", type=int, callback=bounded(1, 1024), metavar="N", help="Runs at the same time [default: all cores]."
)
@format_option()
def run(
    file: Path,
    world: str,
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
    out: Path | None,
    packets: bool,
    jobs: int | None,
    form: str,
) -> None:
    """Run a scenario with all that its [sweep] asks for, and compare.

    With -f text the results go to a new folder under results/, with a report to open in a browser; with json or csv
    no file is written unless --out says where.
    """
    if world != "sim":
        fail(f"--world = {world}: not built yet; expected sim")
    from sojourn import records, sweep

    plan = _load(file, sets, seed, seeds)
    if packets and out is None and form != "text":
        fail("--packets: expected --out DIR with it, since -f json and -f csv write no file on their own")
    folder = records.claim_folder(out) if out else records.new_folder(file.stem) if form == "text" else None
    if folder:
        records.write_text(folder / records.SCENARIO, plan.text)
    with _progress(plan) as tell:
        done = sweep.execute(plan, jobs=jobs, folder=folder, packets=packets, on_progress=tell)
    page = None
    if folder:
        records.write_text(folder / records.RESULTS, done.json() + "\n")
        if done.runs:
            from sojourn import report

            page = report.write(folder, done.runs, done.skipped, done.interrupted)
    _show_runs(done, form)
    _closing_words(done, len(plan), folder, page)
    if done.interrupted:
        sys.exit(INTERRUPTED)


def _load(file: Path, sets: list[tuple[str, str]], seed: int | None, seeds: int | None) -> _core.Plan:
    plan = load(file, sets, seed, seeds)
    _warn(plan.warnings)
    for one in json.loads(plan.skipped()):
        click.echo(f"sojourn: skipped {_set_text(one['set'])}: {one['reason']}", err=True)
    if len(plan) == 0:
        fail(f"{file}: nothing is left to run: every combination of [sweep] was skipped")
    return plan


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"sojourn: warning: {warning}", err=True)


def _set_text(chosen: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in chosen.items()) or "the scenario"


@contextmanager
def _progress(plan: _core.Plan) -> Iterator[Any]:
    """A bar on stderr, fed with simulated seconds; silent where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _simulated_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(one["duration_s"] for one in json.loads(plan.runs()))
    words = TextColumn("{task.completed:.0f} of {task.total:.0f} simulated seconds in {task.fields[runs]} runs")
    with Progress(BarColumn(), words, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, runs=len(plan))
        yield lambda simulated_s: bar.update(task, completed=simulated_s)


def _show_runs(done: Comparison, form: str) -> None:
    from sojourn import table

    if form == "json":
        click.echo(done.json())
    elif not done.runs:
        return
    elif form == "csv":
        click.echo(table.as_csv(done.runs), nl=False)
    else:
        _show_tables(done)


def _show_tables(done: Comparison) -> None:
    from sojourn import sweep, table

    groups = sweep.combinations(done.runs)
    for hop in table.rightward_hops(done.runs):
        screen.print_numbers(
            f"{done.runs[0].title} · {hop}, world {done.runs[0].world}",
            ["", *("\n".join([*one.head.split(), one.unit]) for one in table.COLUMNS)],
            [[label, *(" ".join(cell).strip() for cell in cells)] for label, cells in table.rows(groups, hop)],
        )
    if any(len(group.runs) > 1 for group in groups):
        click.echo(f"means over {max(len(g.runs) for g in groups)} seeds, ± half-width of the 95 % interval")


def _closing_words(done: Comparison, planned: int, folder: Path | None, page: Path | None) -> None:
    simulated = sum(record.result["duration_s"] for record in done.runs)
    count = len(done.runs)
    click.echo(
        f"{_many(count, 'run')}: {simulated:g} simulated seconds in {done.cpu_s:.2f} s of CPU",
        err=True,
    )
    if done.interrupted:
        where = f"; they are in {folder}" if folder else ""
        click.echo(f"sojourn: interrupted: {count} of {planned} runs are finished{where}", err=True)
    elif page:
        click.echo(f"report: {page}", err=True)


@cli.command(
    epilog="""\b
Examples:
  sojourn check scenarios/fading-link.toml
  sojourn check scenarios/fading-link.toml --set hop.bottleneck.delay=50ms
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@set_options
@format_option()
def check(file: Path, sets: list[tuple[str, str]], seed: int | None, seeds: int | None, form: str) -> None:
    """Read a scenario and print what would run: path, flows, base RTTs, combinations."""
    plan = _load(file, sets, seed, seeds)
    runs, first = json.loads(plan.runs()), json.loads(plan.describe(0))
    if form == "json":
        value = {"title": plan.title, "runs": runs, "first": first, "skipped": json.loads(plan.skipped())}
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    elif form == "csv":
        rows = [[str(number), str(one["seed"]), _set_text(one["set"])] for number, one in enumerate(runs)]
        click.echo(_rows_as_csv(["run", "seed", "set"], rows), nl=False)
    else:
        _show_plan(runs, first)


def _show_plan(runs: list[dict[str, Any]], first: dict[str, Any]) -> None:
    sets = list({json.dumps(one["set"]): one["set"] for one in runs}.values())
    seeds = sorted({one["seed"] for one in runs})
    click.echo(
        f"{first['title']}: {_many(len(runs), 'run')} of {first['duration_s']:g} s "
        f"({_many(len(sets), 'combination')} × {_many(len(seeds), 'seed')}, from seed {seeds[0]})"
    )
    screen.print_words(
        "path, left to right" + (" (first combination)" if len(sets) > 1 else ""),
        ["queue", "rate", "delay", "discipline"],
        [[hop["name"], hop["rate"], hop["delay"], hop["qdisc"]] for hop in first["hops"]],
    )
    screen.print_words(
        f"flows (seed {seeds[0]})",
        ["name", "kind", "cc", "direction", "base RTT", "what"],
        [
            [one["name"], one["kind"], one["cc"] or "–", one["direction"], f"{one['base_rtt_ms']:g} ms", one["what"]]
            for one in first["flows"]
        ],
    )
    if sets != [{}]:
        screen.print_words("combinations", ["", "set"], [[str(n), _set_text(one)] for n, one in enumerate(sets, 1)])


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


@cli.command(
    epilog="""\b
Examples:
  sojourn replay trace.csv --qdisc "codel limit 1000 noecn"
  sojourn replay arrivals.csv --qdisc "fq_codel limit 1000" --rate 10mbit > fates.csv
"""
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--qdisc", required=True, metavar="SPEC", help="A discipline as tc writes it.")
@click.option("--rate", metavar="R", help="Generate the dequeues: a busy server of this rate.")
@click.option("--world", type=click.Choice(["sim", "kernel"]), default="sim", show_default=True, help="Whose code.")
@click.option(
    "--mtu", type=int, callback=bounded(1, 2**31 - 1), default=1514, show_default=True, help="Bytes of a full packet."
)
@format_option("csv")
def replay(trace: Path, qdisc: str, rate: str | None, world: str, mtu: int, form: str) -> None:
    """Send the packets of a trace through one discipline and print each packet's fate.

    TRACE is CSV with the header time_ns,op,flow,bytes,ecn; op is enqueue or dequeue. Out comes one row a packet:
    packet,flow,bytes,enqueue_ns,fate_ns,fate.
    """
    if world != "sim":
        fail(f"--world = {world}: not built yet; expected sim")
    for text in (str(trace), qdisc, rate or ""):
        refuse_other_than_utf8(text)
    try:
        with trace.open("rb") as file:
            data = file.read(LONGEST_TRACE + 1)
    except OSError as error:
        fail(f"{trace}: {error.strerror}: expected a packet trace")
    if len(data) > LONGEST_TRACE:
        fail(f"{trace}: larger than {LONGEST_TRACE} bytes: expected a packet trace in parts")
    fates, warnings = _core.replay(data, str(trace), qdisc, rate, mtu)
    _warn(warnings)
    if form == "csv":
        sys.stdout.buffer.write(fates)
        sys.stdout.buffer.flush()
        return
    lines = [line.split(",") for line in fates.decode().splitlines()]
    if form == "json":
        numbers = set(lines[0]) - {"fate"}
        packets = [
            {key: int(value) if key in numbers else value for key, value in zip(lines[0], line, strict=True)}
            for line in lines[1:]
        ]
        click.echo(json.dumps({"packets": packets}, indent=1))
    else:
        screen.print_words(f"{trace} through {qdisc}", lines[0], lines[1:])


@cli.command(
    epilog="""\b
Examples:
  sojourn bench P1
  sojourn bench P3 -f text
"""
)
@click.argument("name", type=click.Choice(["P1", "P2", "P3", "P4", "P5", "scale"]))
@format_option("json")
def bench(name: str, form: str) -> None:
    """Measure how fast the simulator is: CPU time and memory of the Rust bench program, without start-up."""
    program = _bench_program()
    done = subprocess.run([program, name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode if done.returncode > 0 else 1)
    if form == "json":
        click.echo(done.stdout.rstrip("\n"))
        return
    found: dict[str, Any] = json.loads(done.stdout)
    found |= {f"sojourn_ms.{key}": value for key, value in (found.pop("sojourn_ms", None) or {}).items()}
    if form == "csv":
        click.echo(_rows_as_csv(list(found), [[str(value) for value in found.values()]]), nl=False)
    else:
        screen.print_words(name, ["", ""], [[key, f"{value:,}"] for key, value in found.items()])


def _bench_program() -> str:
    beside = Path(sys.executable).parent / "sojourn-bench"
    found = str(beside) if beside.exists() else shutil.which("sojourn-bench")
    return found or fail("sojourn-bench is not there: expected it beside sojourn, where 'make build' puts it")


LISTS = ("disciplines", "scenarios", "keys", "reasons")


@cli.command(
    "list",
    epilog="""\b
Examples:
  sojourn list disciplines
  sojourn list keys -f json
""",
)
@click.argument("what", type=click.Choice(LISTS), default="disciplines")
@format_option()
def list_(what: str, form: str) -> None:
    """List what there is: disciplines with their parameters, scenario files, scenario keys, drop reasons."""
    rows: list[dict[str, Any]] = _scenarios() if what == "scenarios" else json.loads(_core.catalogue(what))
    if form == "json":
        click.echo(json.dumps({what: rows}, indent=2, ensure_ascii=False))
        return
    if what == "disciplines" and form == "text":
        _show_disciplines(rows)
        return
    flatten = {"disciplines": _flat_disciplines, "keys": _flat_keys}.get(what)
    rows = flatten(rows) if flatten else rows
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [["" if row.get(key) is None else str(row[key]) for key in heads] for row in rows]
    if form == "csv":
        click.echo(_rows_as_csv(heads, cells), nl=False)
    else:
        screen.print_words(what, heads, cells)


def _show_disciplines(disciplines: list[dict[str, Any]]) -> None:
    for one in disciplines:
        click.echo(f"{one['name']}  {one['doc']}" + ("" if one["tc"] else " (ours, not tc's)"))
        for parameter in one["parameters"]:
            default = f" = {parameter['default']}" if parameter["default"] else ""
            click.echo(f"    {parameter['name'] + default:<26} {parameter['doc']}")


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


def _scenarios() -> list[dict[str, Any]]:
    # Here, or beside the environment that `make build` made: then the command is found from anywhere.
    places = (Path("scenarios"), Path(sys.prefix).parent / "scenarios")
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        fail("scenarios: no such folder here: expected to be in sojourn's own folder, where its scenario files are")
    return [{"file": str(path), "title": load(path).title} for path in sorted(folder.glob("*.toml"))]


def _rows_as_csv(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


@cli.command(
    epilog="""\b
Examples:
  sojourn report results/fading-link-001
  sojourn report results/fading-link-001/runs/0002.parquet --out codel-only
"""
)
@click.argument("source", metavar="DIR|FILE", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where the report goes [default: beside it]."
)
@format_option()
def report(source: Path, out: Path | None, form: str) -> None:
    """Make the report of recorded runs again: from a results folder, or from one run's file."""
    from sojourn import records, report, sweep

    runs = records.read_folder(source)
    folder = out or (source if source.is_dir() else source.parent)
    folder.mkdir(parents=True, exist_ok=True)
    skipped, interrupted = [], False
    results = source / records.RESULTS
    if source.is_dir() and results.exists():
        known = records.read_results(results)
        skipped, interrupted = known.get("skipped", []), known.get("interrupted", False)
    page = report.write(folder, runs, skipped, interrupted)
    _show_runs(sweep.Comparison(runs, skipped, interrupted), form)
    click.echo(f"report: {page}", err=True)


def main() -> None:
    """Runs the command; the only place that knows exit codes."""
    _stop_as_by_ctrl_c()
    try:
        code = cli.main(standalone_mode=False)
    except (Refusal, _core.Error) as error:
        _say(str(error), BAD_INPUT)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _say("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(BAD_INPUT)
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "sojourn"
        _say(f"{error.format_message()} (see {verb} --help)", BAD_INPUT)
    except click.ClickException as error:
        _say(error.format_message(), BAD_INPUT)
    except ReaderLeftError:
        _leave(0)
    sys.exit(code if isinstance(code, int) else 0)


def _stop_as_by_ctrl_c() -> None:
    """A stop by `kill` or a closed terminal leaves finished runs readable too; `nohup` stays nohup."""

    def interrupt(*_signal: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, interrupt)


def _say(message: str, code: int) -> NoReturn:
    with suppress(OSError):
        click.echo(f"sojourn: {' '.join(message.split())}", err=True)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Ends; what can't be written any more must not make Python complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


if __name__ == "__main__":
    main()
