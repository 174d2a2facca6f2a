"""Compares the simulator with the real kernel: both play the same scenarios with the same seeds.

Each finished run is kept as a file. The file's name is a digest of everything that the run depends on: the scenario's
text, the values set, the seed, and the programs that played it. Therefore an interrupted comparison continues where it
stopped, and a new simulator is compared with kernel runs that exist already.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sojourn import _core, identity, queues, records, worlds
from sojourn.agree.judge import SHARES, WORLDS, Pair, Run
from sojourn.executors import Cores, Executor
from sojourn.kernel.places import home
from sojourn.kernel.run import Guests
from sojourn.plan import load
from sojourn.worlds import Played, Simulator, World, playable

POINTS = 600
"""Points of a series in a picture."""
COUNTS = 2
"""The version of the way in which a run's packets are counted. Files of an older version count the kernel's
retransmissions differently, so these are ignored.
"""


@dataclass(frozen=True)
class Job:
    """A run in a world."""

    file: str
    """The scenario's name."""
    plan: _core.Plan
    index: int
    world: str
    place: Path
    """The file in which its numbers are kept."""
    duration_s: float
    first: bool
    """Whether it has the first seed of its combination. The series of such a run are kept for the pictures."""


@dataclass
class Comparison:
    """The results of both worlds, and the runs that one of them cannot play."""

    pairs: list[Pair]
    skipped: list[dict[str, Any]]
    versions: dict[str, str]
    interrupted: bool = False
    older: int = 0
    """Runs of the kernel that were played by a guest program or modules other than the current ones."""
    warnings: list[str] = field(default_factory=list)
    """The warnings of the scenarios' plans."""


def store() -> Path:
    """Returns the folder in which runs are kept by default."""
    return home() / "agree"


def compare(
    files: Sequence[Path],
    *,
    seeds: int,
    folder: Path | None = None,
    executor: Executor | None = None,
    memory: str = "2G",
    sets: Sequence[tuple[str, str]] = (),
    again: bool = False,
    kept_only: bool = False,
    guest: str | None = None,
    on_progress: Callable[[float, float], None] = lambda _done_s, _all_s: None,
) -> Comparison:
    """Plays each scenario with `seeds` seeds in both worlds. Runs that were played before are read instead.

    Ctrl-C stops the runs that are playing. The finished ones are kept and compared, and the result is marked
    interrupted. With `again`, kernel runs that an older guest played are played again. With `kept_only`, the kernel
    plays nothing, and runs that it has not played before are left out; they are those of the present guest, or of
    `guest`, as `versions["kernel"]` names it. Raises Refusal or `_core.Error` for an invalid
    scenario, and if there is no kernel.
    """
    guests = Guests(memory=memory)
    place = folder or store()
    wanted: list[Job] = []
    skipped: list[dict[str, Any]] = []
    warnings: list[str] = []
    for file in files:
        plan = load(file, sets, None, seeds)
        found, refused = _jobs(file, plan, worlds_of(guests, plan), place, guest if kept_only else None)
        warnings += [f"{file}: {warning}" for warning in plan.warnings]
        wanted += found
        skipped += refused

    def is_older(job: Job, run: Run) -> bool:
        return job.world == "kernel" and run.player != _player(guests, job)

    kept = {job.place: run for job in wanted if (run := _read(job)) is not None and not (again and is_older(job, run))}
    if kept_only:
        played = {(job.file, job.index) for job in wanted if job.world == "kernel" and job.place in kept}
        wanted = [job for job in wanted if (job.file, job.index) in played]
    missing = [job for job in wanted if job.place not in kept]
    if missing:
        place.mkdir(parents=True, exist_ok=True)
    for job in missing:
        job.place.unlink(missing_ok=True)
    interrupted = _play(missing, guests, executor or Cores(), on_progress)
    kept |= {job.place: run for job in missing if (run := _read(job)) is not None}
    here = [(job, kept[job.place]) for job in wanted if job.place in kept]
    older = sum(is_older(job, run) for job, run in here)
    versions = records.versions() | {"simulator": worlds.simulator()[:12]}
    if wanted:
        present = _kernel(guests, wanted[0].plan, wanted[0].index)
        versions |= {"kernel": guest if kept_only and guest else present}
    return Comparison(_pairs(here), skipped, versions, interrupted, older, warnings)


def worlds_of(guests: Guests, plan: _core.Plan) -> dict[str, World]:
    """Returns both worlds: the kernel, and the simulator with the disciplines of that kernel's version."""
    return {"sim": Simulator(linux=guests.kernel(plan, 0).version), "kernel": guests}


def _jobs(
    path: Path, plan: _core.Plan, worlds: dict[str, World], place: Path, guest: str | None
) -> tuple[list[Job], list[dict[str, Any]]]:
    """Returns the runs that both worlds can play, and the combinations that one of them cannot play, with the
    reason.
    """
    file = path.stem
    skipped = [{"file": file, **one} for one in plan.skipped]
    both = set(range(len(plan)))
    for name, world in worlds.items():
        can, refused = playable(world, plan)
        both &= set(can)
        skipped += [{"file": file, "world": name, **one} for one in refused]
    runs = plan.runs
    named = list(identity.digests(path.parent, tomllib.loads(plan.text)).values())
    jobs = []
    for index in sorted(both):
        first = index == 0 or runs[index - 1]["set"] != runs[index]["set"]
        for name, world in worlds.items():
            key = [
                plan.text,
                runs[index]["set"],
                runs[index]["seed"],
                name,
                guest if guest and name == "kernel" else _identity(name, world, plan, index),
                *named,
            ]
            digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
            jobs.append(Job(file, plan, index, name, place / f"{digest}.json", runs[index]["duration_s"], first))
    return jobs, skipped


def _identity(name: str, world: World, plan: _core.Plan, index: int) -> str:
    return json.dumps(world.key(plan, index)) if name == "sim" else _kernel(world, plan, index)


def _kernel(world: World, plan: _core.Plan, index: int) -> str:
    """Describes the kernel that plays a run: release, ticks per second and digest."""
    assert isinstance(world, Guests)
    kernel = world.kernel(plan, index)
    return f"Linux {kernel.release}, {kernel.hz} Hz, {kernel.digest[:12]}"


def _play(jobs: Sequence[Job], guests: Guests, executor: Executor, tell: Callable[[float, float], None]) -> bool:
    """Plays all jobs, and returns whether Ctrl-C interrupted it. It ends at the first error; finished runs are kept
    then too.
    """
    whole = sum(job.duration_s for job in jobs)
    done_s = 0.0

    def tell_all(playing_s: float) -> None:
        tell(done_s + playing_s, whole)

    try:
        for job, _ in executor.each(iter(jobs), _Work(_Task(guests)), tell_all):
            done_s += job.duration_s
    except KeyboardInterrupt:
        return True
    return False


@dataclass(frozen=True)
class _Task:
    """Plays a job in its world: an `executors.Task`."""

    guests: Guests

    def key(self, item: Job) -> str:
        return _identity(item.world, worlds_of(self.guests, item.plan)[item.world], item.plan, item.index)

    def play(self, item: Job, progress: _core.Progress) -> Run | None:
        world = worlds_of(self.guests, item.plan)[item.world]
        played = world.play(item.plan, item.index, progress, packets=False, series=item.first)
        return None if played is None else run_of(item.world, played, series=item.first)


@dataclass(frozen=True)
class _Work:
    """Keeps each run as a file of its own: an `executors.Work`."""

    task: _Task
    is_adaptive = False

    def reserve(self, item: Job) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def keep(self, items: Sequence[Job], outcomes: Sequence[Run]) -> None:
        for item, outcome in zip(items, outcomes, strict=True):
            records.write_text(item.place, json.dumps(asdict(outcome)))


def run_of(world: str, played: Played, *, series: bool) -> Run:
    """Returns the part of a played run that is kept."""
    output = played.output
    result = output.result()
    result.pop("startup", None)
    return Run(
        world=world,
        seed=result["seed"],
        result=result,
        quantiles={name: _quantiles(*function) for name, function in output.distributions().items()},
        qdisc={hop["name"]: hop["qdisc"] for hop in output.about()["hops"]},
        player=_words(played.versions),
        series=_series(output) if series else {},
        counts=COUNTS,
    )


def _quantiles(ms: Any, share: Any) -> list[float]:
    """Returns the sojourn in ms at each of `SHARES`, or nothing if there were no packets."""
    if len(ms) == 0:
        return []
    return [float(f"{value:.6g}") for value in np.interp(SHARES, share, ms)]


def _series(output: _core.Output) -> dict[str, dict[str, list[float]]]:
    """Returns each queue over time, and the window over time of the first flow that has a window."""
    found = {
        name: _thin({"time_s": one["time_s"], "queue_delay_ms": one["queue_delay_ms"]})
        for name, one in output.series().items()
    }
    for state in output.flow_states().values():
        if len(state["time_s"]):
            return found | {"cwnd": _thin({"time_s": state["time_s"], "cwnd": state["cwnd"]})}
    return found


def _thin(columns: dict[str, Any]) -> dict[str, list[float]]:
    step = max(1, len(next(iter(columns.values()))) // POINTS)
    return {name: [float(f"{value:.5g}") for value in column[::step]] for name, column in columns.items()}


def _read(job: Job) -> Run | None:
    """Reads a kept run. Returns None if its file is missing or damaged: then the run is played again."""
    try:
        run = Run(**json.loads(job.place.read_text(encoding="utf-8")))
        if run.world == "kernel" and run.counts < COUNTS:
            for flow in run.result["flows"]:
                flow["retransmits"] = None
        return run if run.seed == run.result["seed"] and run.quantiles and run.qdisc else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _words(versions: dict[str, str]) -> str:
    """Says which program and modules were in a guest."""
    return " ".join(versions.get(key, "")[:12] for key in ("guest_digest", "modules_digest")).strip()


def _player(guests: Guests, job: Job) -> str:
    return _words(guests.versions(guests.kernel(job.plan, job.index)))


def _pairs(here: Sequence[tuple[Job, Run]]) -> list[Pair]:
    """Pairs the runs of both worlds: one pair for each combination and each queue that is shown."""
    files: dict[str, list[Run]] = {}
    for job, run in here:
        files.setdefault(job.file, []).append(run)
    titles = {job.file: job.plan.title for job, _ in here}
    return [pair for file, runs in files.items() for pair in pairs_of(file, titles[file], runs)]


def pairs_of(file: str, title: str, runs: Sequence[Run]) -> list[Pair]:
    """Pairs a scenario's runs in both worlds. Each combination that both worlds played gives one pair for each queue
    that is shown.

    The kernel's runs decide which queue is the compared one, because they are the reference.
    """
    groups: dict[str, dict[str, dict[int, Run]]] = {}
    for run in runs:
        worlds = groups.setdefault(json.dumps(run.result["set"]), {world: {} for world in WORLDS})
        worlds[run.world][run.seed] = run
    both = {chosen: worlds for chosen, worlds in groups.items() if worlds["sim"].keys() & worlds["kernel"].keys()}
    results = {world: [run.result for of in both.values() for run in of[world].values()] for world in WORLDS}
    if not both:
        return []
    compared = queues.compared_in(results["kernel"])
    shown = queues.shown_in([*results["kernel"], *results["sim"]])
    return [
        _pair(file, title, json.loads(chosen), worlds, hop, compared=hop == compared)
        for chosen, worlds in both.items()
        for hop in (compared, *(queue for queue in shown if queue != compared))
    ]


def _pair(
    file: str, title: str, chosen: dict[str, Any], runs: dict[str, dict[int, Run]], hop: str, *, compared: bool
) -> Pair:
    first = next(iter(runs["kernel"].values()))
    label = ", ".join(dict.fromkeys(str(value) for value in chosen.values()))
    rest = ", ".join(str(value) for key, value in chosen.items() if not key.endswith(".qdisc"))
    return Pair(file, label, hop, first.qdisc[hop], title, runs["sim"], runs["kernel"], rest, compared)
