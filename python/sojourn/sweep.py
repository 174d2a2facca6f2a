"""Many runs: on all cores, and compared."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sojourn import _core, queues, records, run
from sojourn.errors import NothingToRun
from sojourn.plan import load
from sojourn.words import labels

POLL_S = 0.1
"""How often progress is told, and Ctrl-C looked for."""


@dataclass
class Comparison:
    """What a sweep gave: its runs in the order of the plan, and what it could not do."""

    runs: list[records.RunRecord]
    skipped: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False
    cpu_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The JSON that scripts rely on."""
        value: dict[str, Any] = {"runs": [record.result for record in self.runs], "skipped": self.skipped}
        if self.interrupted:
            value["interrupted"] = True
        return value

    def json(self) -> str:
        """`as_dict` as text."""
        return records.to_json(self.as_dict())


def compare(
    path: str | Path,
    sets: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    folder: Path | None = None,
) -> Comparison:
    """Runs a scenario file with its whole sweep in the simulator: the Python door to `sojourn run`."""
    return execute(load(path, sets, seed, seeds), jobs=jobs, folder=folder)


def execute(
    plan: _core.Plan,
    *,
    jobs: int | None = None,
    folder: Path | None = None,
    packets: bool = False,
    world: run.World | None = None,
    on_progress: Callable[[float], None] = lambda _simulated_s: None,
) -> Comparison:
    """Plays every run of the plan that the world can play.

    Ctrl-C stops the others and returns what is finished, marked interrupted.
    """
    world = world or run.Simulator()
    playable, refused = run.playable(world, plan)
    skipped = [*json.loads(plan.skipped()), *refused]
    if not playable:
        raise NothingToRun(f"nothing to run: {skipped[0]['reason']}")
    sets = [one["set"] for one in json.loads(plan.runs())]
    drawn = [index == 0 or sets[index - 1] != one for index, one in enumerate(sets)]  # the first seed of each
    watches = {index: _core.Progress() for index in playable}
    pool = ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1, thread_name_prefix="sojourn")
    futures: list[Future[run.Done | None]] = []
    interrupted = False
    try:
        for index, watch in watches.items():
            start = partial(run.execute, plan, index, watch, world=world, folder=folder, packets=packets)
            futures.append(pool.submit(start, keep_series=drawn[index]))
        _await(futures, lambda: on_progress(sum(watch.simulated_s for watch in watches.values())))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for watch in watches.values():
            watch.stop()
        pool.shutdown(wait=True, cancel_futures=True)
    return _collect(skipped, futures, interrupted)


def _await(futures: list[Future[run.Done | None]], tell: Callable[[], None]) -> None:
    """Waits for all; the first error ends it."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
        tell()


def _collect(skipped: list[dict[str, Any]], futures: list[Future[run.Done | None]], interrupted: bool) -> Comparison:
    finished = [future.result() for future in futures if future.done() and not future.cancelled()]
    done = [one for one in finished if one is not None]
    return Comparison(
        runs=[one.record for one in done],
        skipped=skipped,
        interrupted=interrupted,
        cpu_s=sum(one.cpu_s for one in done),
    )


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, with the half-width of its 95 % interval when the sample carries one."""

    value: float
    half_width: float | None
    count: int


def mean_of(values: Sequence[float | None]) -> Mean | None:
    """Mean and Student's t interval over the values that exist; no interval from fewer than two."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    count = len(present)
    if count < 2:
        return Mean(present[0], None, 1)
    error = statistics.stdev(present) / math.sqrt(count)
    return Mean(statistics.fmean(present), student(0.975, count - 1) * error, count)


def student(share: float, freedom: int) -> float:
    """Student's t below which this share lies, with so many degrees of freedom."""
    # scipy.stats has the same number, and takes a second more to load.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


@dataclass(frozen=True)
class Combination:
    """The runs that differ in their seed only."""

    label: str
    qdisc: str
    """The discipline line of the hop that is compared."""
    runs: list[records.RunRecord]
    varied: bool
    """The label says what varies; else it is the discipline of the hop that is compared."""

    @property
    def first(self) -> records.RunRecord:
        """The run with the first seed."""
        return self.runs[0]

    def label_at(self, hop: str) -> str:
        """The label of a row of this hop's numbers: where nothing varies, its own discipline."""
        return self.label if self.varied else qdisc_of(self.first, hop)

    def hop(self, name: str) -> list[dict[str, Any]]:
        """One hop's numbers, of every seed."""
        return [record.result["hops"][name] for record in self.runs]


def combinations(runs: Sequence[records.RunRecord]) -> list[Combination]:
    """Runs grouped by what was set, in order, with labels that say only what differs."""
    hop = queues.compared_in([record.result for record in runs])
    groups: dict[str, list[records.RunRecord]] = {}
    for record in runs:
        groups.setdefault(records.to_json(record.set), []).append(record)
    said = labels([group[0].set for group in groups.values()])
    qdiscs = [qdisc_of(group[0], hop) for group in groups.values()]
    return [
        Combination(label or qdisc, qdisc, group, bool(label))
        for label, qdisc, group in zip(said, qdiscs, groups.values(), strict=True)
    ]


def qdisc_of(record: records.RunRecord, hop: str) -> str:
    """A queue's discipline in a run, as `tc` writes it."""
    for described in record.about["hops"]:
        if described["name"] == hop:
            return str(described["qdisc"])
    return ""
