"""The Python API: `import sojourn as sj`.

    plan = sj.load("fading-link", seeds=5)
    results = sj.run(plan)
    results.hop("bottleneck").sojourn_ms.p95["fq_codel"].mean

These functions do what the command's verbs do, with the same results: `load` reads a scenario, `run` plays it, and
`Results` has the numbers, tables and pictures.
"""

from __future__ import annotations

import json
import numbers
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn import _core, identity, lineup, pipeline, records
from sojourn import plan as plans
from sojourn.arguments import (
    CALL,
    DATA,
    FLAG,
    LINES,
    NAMED,
    PATH,
    SEED,
    SEEDS,
    TABLE,
    TEXT,
    either,
    having,
    one_of,
    takes,
    whole,
)
from sojourn.disciplines import Discipline, Library, Outside, in_python
from sojourn.errors import Refusal, nearest_of
from sojourn.executors import Cores, Executor
from sojourn.files import read_bytes, read_text
from sojourn.finished import Keep
from sojourn.on_dask import named_executor
from sojourn.replays import columns_of, in_core
from sojourn.results import Results
from sojourn.runs import Runs, RunsInMemory, RunsInStore
from sojourn.until import Until
from sojourn.worlds import Simulator, World

if TYPE_CHECKING:
    import pyarrow as pa

Scenario = str | os.PathLike[str] | Mapping[str, Any]
"""A scenario: the name of one that comes with sojourn, the path of a file, or a dictionary of the same shape."""
Disciplines = Mapping[str, type[Discipline] | str | os.PathLike[str]]
"""Disciplines of the user's by the names that scenarios use: classes, or the paths of shared libraries."""
DICTIONARY = "scenario"
"""What messages call a scenario that was given as a dictionary."""


@takes(scenario=PATH)
def read(scenario: str | os.PathLike[str]) -> dict[str, Any]:
    """A scenario as a dictionary, to change it and give it to `load`.

    `scenario` is a name or a path. Raises `Error` for a file that is not TOML 1.0, Refusal if there is no such file.
    """
    path = plans.find(Path(scenario))
    plans.load(path)  # says what is wrong with it better than a reader of TOML
    try:
        return tomllib.loads(read_text(path, "a scenario"))
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"{path}: read needs a scenario in TOML 1.0: {error}") from error


@takes(scenario=either(PATH, NAMED), set=NAMED, seed=SEED, seeds=SEEDS, folder=PATH, disciplines=NAMED)
def load(
    scenario: Scenario,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    disciplines: Disciplines | None = None,
) -> _core.Plan:
    """Reads and checks a scenario, and returns its plan: every run that it asks for.

    `scenario` is the name of a scenario that comes with sojourn, the path of a file, or a dictionary of the same shape
    as a file: `{"duration": "30s", "hop": [{"name": "b", "rate": "10mbit", …}], "flow": […]}`. `set` gives keys other
    values, as `--set` does: `{"hop.b.qdisc": "fq_codel"}`. `seed` is the first seed (default 1), `seeds` how many there
    are. Files that a dictionary names are looked for in `folder` (default: the current one). `disciplines` are those of
    yours that the scenario names; give them to `run` too.

    Raises `Error`, whose text names file, line, key, value and what was expected, for anything that is wrong in the
    scenario; of a dictionary it names key and value. Raises Refusal if there is no such scenario.
    """
    sets = [(key, _inline(value, key)) for key, value in (set or {}).items()]
    names = [one.name for one in outside_of(disciplines)]
    if not isinstance(scenario, Mapping):
        return plans.load(plans.find(Path(scenario)), sets, seed, seeds, names)
    text = _core.to_toml({key: _plain(value, str(key)) for key, value in scenario.items()})
    path = Path(folder) / DICTIONARY if folder is not None else Path(DICTIONARY)
    return _core.Plan.parse(text, str(path), sets, seed, seeds, lines=False, outside=names)


@takes(
    plan=either(having("a plan", "runs", "describe"), PATH, NAMED),
    world=either(TEXT, having("a world", "name", "play")),
    qdisc=either(TEXT, LINES),
    hop=TEXT,
    disciplines=NAMED,
    seed=SEED,
    seeds=SEEDS,
    on=either(whole(1, 1024), TEXT, having("an executor", "each")),
    store=PATH,
    out=PATH,
    series=FLAG,
    packets=FLAG,
    until=TEXT,
    baseline=TEXT,
    progress=CALL,
)
def run(
    plan: _core.Plan | Scenario,
    *,
    qdisc: str | Sequence[str] | None = None,
    hop: str | None = None,
    world: str | World = "sim",
    disciplines: Disciplines | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    on: str | int | Executor | None = None,
    store: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    series: bool | None = None,
    packets: bool = False,
    until: str | None = None,
    baseline: str | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Results:
    """Plays every run of a plan, and returns the results.

    `plan` is what `load` returned, or a scenario for it. `qdisc` are lines as `tc` writes them: they are compared on
    the queue `hop` in place of what the scenario sweeps there. Without `hop` it is the queue whose discipline the
    scenario sweeps, or else that of the slowest hop in the direction of the bulk flows. `world` is `sim`, `kernel`, or
    a world of your own. `disciplines` are those of yours that the plan's queues have, for the world `sim`: by name a
    subclass of `Discipline`, or the path of a shared library with the functions of sojourn.h. `seed` and `seeds`
    replace the plan's. `on` is what plays the runs: None or a number of runs at a time for this machine's cores,
    `"dask://HOST:PORT"` for a Dask scheduler with its workers, `"dask"` for one that is started here, or an executor.
    With `store`, a folder, finished runs are kept there, and those that it has are not played again. With `out`, a new
    folder, results are written there as `sojourn run --out` does.

    `series` keeps queues and flows over time (default: yes, but not in a store), `packets` every packet (large).
    `until`, such as `"sojourn_ms.p95 5%"`, plays only as many seeds as a measure needs. `baseline` is the swept value
    that others are compared with. `progress` is called with the simulated seconds that are done, and those of all runs.

    If a discipline of yours crashes, hangs or raises an exception, the other runs go on, and the results' `broken` says
    what happened; if no run is left, that is raised as Refusal.

    Ctrl-C stops what is playing, and returns what is finished with `interrupted` set. Raises Refusal for what cannot be
    had, `NothingToRun` if the world can play no run, and `Error` for a scenario that is wrong.
    """
    asked = plan if isinstance(plan, _core.Plan) else load(plan, disciplines=disciplines)
    if qdisc is not None:
        asked = _compared(asked, list(qdisc), hop)
    elif hop is not None:
        raise Refusal(f"hop = {hop!r}: expected qdisc=[…] with it")
    if seed is not None or seeds is not None:
        asked = asked.reseeded(seed, seeds)
    kept = _runs(store, out, series, packets, asked)
    with records.whole_or_none(lambda: kept.written_to if isinstance(kept, RunsInMemory) else None):
        results = pipeline.execute(
            asked,
            kept,
            world=world_of(world, outside_of(disciplines)),
            executor=executor_of(on),
            until=None if until is None else Until.parse(until),
            baseline=baseline,
            tell=progress or (lambda _done_s, _all_s: None),
        )
        if out is not None:
            records.write_text(Path(out) / records.RESULTS, results.json() + "\n")
    return results


def _compared(plan: _core.Plan, lines: Sequence[str], hop: str | None) -> _core.Plan:
    """Returns a plan that compares these lines on one queue, with the values and seeds that `plan` was given."""
    swept = identity.document_of_plan(plan).get("sweep", {})
    values: dict[str, list[Any]] = {}
    for one in plan.runs:
        for key, value in one["set"].items():
            if value not in values.setdefault(key, []):
                values[key].append(value)
    # A key with one value was set, even if the scenario sweeps it; except a discipline that is swept over one line.
    given = {key: of[0] for key, of in values.items() if len(of) == 1 and not (key in swept and len(swept[key]) == 1)}
    seeds = list(dict.fromkeys(one["seed"] for one in plan.runs))
    sets = [(key, _inline(value, key)) for key, value in given.items()]
    made, _ = lineup.plan_of(plan, lines, hop, sets=sets, seed=seeds[0], seeds=len(seeds))
    return made


@takes(folder=PATH)
def open_results(folder: str | os.PathLike[str]) -> Results:
    """The results in a folder that `sojourn run` wrote, or in the file of one of its runs.

    Raises `RecordError` for anything else.
    """
    from sojourn import columns

    path = Path(folder)
    found = records.read_folder(path)
    for one in found:
        if problem := columns.wrong(one.result):
            file = path if path.is_file() else records.run_file(path, one.index)
            raise records.RecordError(f"{file}: {problem}: expected what 'sojourn run' wrote, unchanged")
    known: dict[str, Any] = {}
    if path.is_dir() and (path / records.RESULTS).exists():
        known = records.read_results(path / records.RESULTS)
    return Results.of_records(found, known.get("skipped", []), interrupted=bool(known.get("interrupted", False)))


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: the fate of each packet of a trace in one queue discipline."""

    packets: pa.Table
    """A row for each packet: `packet` (numbered from 0 in order of arrival), `flow`, `bytes`, `enqueue_ns`, `fate_ns`,
    `fate`: `delivered`, `marked` (with an ECN CE that it did not have on arrival), `dropped:REASON`, or `queued` (still
    there at the end, `fate_ns` 0)."""
    stats: dict[str, Any] | None
    """The discipline's counters, with the keys of `tc -s -j qdisc show`; None where tc has no JSON for it."""
    warnings: list[str]
    """Warnings: unusual properties of the replay that are not errors."""


@takes(
    trace=either(PATH, DATA, TABLE),
    qdisc=TEXT,
    rate=TEXT,
    world=one_of("sim", "kernel"),
    disciplines=NAMED,
    mtu=whole(1, 2**31 - 1),
    seed=whole(0, 2**64 - 1),
    end=TEXT,
)
def replay(
    trace: str | os.PathLike[str] | bytes | Mapping[str, Any],
    qdisc: str,
    *,
    rate: str | None = None,
    world: str = "sim",
    disciplines: Disciplines | None = None,
    mtu: int = 1514,
    seed: int = 1,
    end: str | None = None,
) -> Replayed:
    """Sends the packets of a trace through one queue discipline: ours, or the Linux kernel's (`world="kernel"`).

    `trace` is the path of a CSV file, its bytes, or its columns: `time_ns`, `op` (`enqueue`, `dequeue`, `change`),
    `flow`, `bytes`, `ecn`; and, if you like, `source` and `destination` (hosts, for cake) and `opens` (1 for a SYN or
    SYN-ACK, for ccaq). `qdisc` is a discipline as tc writes it. With `rate`, such as `"10mbit"`, a busy server of this
    rate dequeues, and the trace has arrivals only; after the time `end`, such as `"30s"`, it sends nothing.
    `disciplines` are those of yours that `qdisc` may name. `mtu` is the length of a full packet in bytes, and `seed`
    that of the discipline's random numbers.

    Raises `Error`, whose text names line, column and what was expected, for anything that is wrong in the trace or in
    the line of tc words; Refusal if there is no kernel.
    """
    name = os.fspath(trace) if isinstance(trace, str | os.PathLike) else "trace"
    data = read_bytes(Path(name), "a packet trace") if isinstance(trace, str | os.PathLike) else _trace(trace)
    if world == "kernel":
        from sojourn.kernel.replay import replay as in_kernel

        if end is not None:
            raise Refusal(f"end = {end!r}: a kernel sends all packets; expected world = 'sim' with it")
        fates, said, stats = in_kernel(data, name, qdisc, rate=rate, mtu=mtu, seed=seed)
    elif world == "sim":
        fates, said, stats = in_core(data, name, qdisc, rate, mtu, seed=seed, end=end, outside=outside_of(disciplines))
    else:
        raise Refusal(f"world = {world!r}: expected sim or kernel")
    import pyarrow as pa

    return Replayed(pa.table(columns_of(fates)), stats, said)


COLUMNS = ("time_ns", "op", "flow", "bytes", "ecn")
"""The columns of every trace."""
FURTHER = ("source", "destination", "opens")
"""The columns that a trace may have after them."""


def _trace(trace: bytes | Mapping[str, Any]) -> bytes:
    """A trace as CSV."""
    if isinstance(trace, bytes):
        return trace
    known = (*COLUMNS, *FURTHER)
    for name in trace:
        if name not in known:
            raise Refusal(f"trace: column {name!r}: expected {', '.join(known)}{nearest_of(name, known)}")
    for name in COLUMNS:
        if name not in trace:
            raise Refusal(f"trace: no column {name!r}: expected {', '.join(COLUMNS)}")
    names = [name for name in known if name in trace]
    for name in names:
        if not hasattr(trace[name], "__len__") or isinstance(trace[name], str) or len(trace[name]) != len(trace["op"]):
            raise Refusal(f"trace: column {name!r}: expected as many values as in the column 'op'")
    rows = zip(*(trace[name] for name in names), strict=True)
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join([",".join(names), *lines, ""]).encode()


def _runs(
    store: str | os.PathLike[str] | None,
    out: str | os.PathLike[str] | None,
    series: bool | None,
    packets: bool,
    plan: _core.Plan,
) -> Runs:
    """Where the runs are kept."""
    if store is not None:
        from sojourn.store import Store

        for name, given in (("out", out is not None), ("packets", packets)):
            if given:
                raise Refusal(f"{name}: not with store, which keeps measures and series only")
        return RunsInStore(Store(Path(store)), bool(series))
    keeps = Keep(series=series is not False, states=out is None, packets=packets)
    if out is None:
        return RunsInMemory(keeps)
    folder = Path(out)
    records.refuse_full_folder(folder)

    return RunsInMemory(keeps, lambda: records.claim_folder(folder, plan.text))


def outside_of(given: Disciplines | None) -> tuple[Outside, ...]:
    """Disciplines of the user's, from classes and files by name. Raises Refusal for anything else."""
    classes = {name: one for name, one in (given or {}).items() if not isinstance(one, str | os.PathLike)}
    files = [f"{name}={os.fspath(one)}" for name, one in (given or {}).items() if isinstance(one, str | os.PathLike)]
    return (*in_python(classes), *map(Library.of, files))


def world_of(world: str | World, outside: tuple[Outside, ...] = ()) -> World:
    """The world of a name, or the world itself. Raises Refusal for a name that there is not."""
    if world == "sim":
        return Simulator(outside=outside)
    if outside:
        raise Refusal(f"disciplines: {outside[0].name}: expected world = 'sim' with it")
    if not isinstance(world, str):
        return world
    if world == "kernel":
        from sojourn.kernel.run import Guests

        return Guests()
    if world == "live":
        from sojourn.live.run import Hosts

        return Hosts()
    raise Refusal(f"world = {world!r}: expected sim, kernel or live")


def executor_of(on: str | int | Executor | None) -> Executor:
    """The executor that `on` means. Raises Refusal for anything else."""
    if on is None or isinstance(on, int):
        if on is not None and on < 1:
            raise Refusal(f"on = {on}: expected a number of runs at a time, from 1")
        return Cores(on)
    if isinstance(on, str):
        return named_executor(on)
    return on


# ---- values of Python as a scenario's ----


def _plain(value: Any, address: str) -> Any:
    """A value as one of TOML's types. Raises Refusal for a value that TOML cannot express."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, f"{address}.{key}") for key, inner in value.items()}
    if hasattr(value, "tolist"):  # an array of NumPy
        return _plain(value.tolist(), address)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(inner, f"{address}.{_name(inner, place)}") for place, inner in enumerate(value)]
    raise Refusal(
        f"{DICTIONARY}: {address} = {value!r}: expected text, a number, True or False, a list or a dictionary"
    )


def _name(value: Any, place: int) -> str:
    """The name of a list's element in an address: its `name` if it has one, otherwise its position."""
    return str(value["name"]) if isinstance(value, Mapping) and "name" in value else str(place)


def _inline(value: Any, address: str) -> str:
    """A value in the syntax of `--set KEY=VALUE`."""
    plain = _plain(value, address)
    if isinstance(plain, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(one, address)}" for key, one in plain.items()) + " }"
    if isinstance(plain, list):
        return "[" + ", ".join(_inline(one, address) for one in plain) + "]"
    return json.dumps(plain, ensure_ascii=False)
