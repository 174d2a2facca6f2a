"""Many runs: on all cores, and compared."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sojourn import _core, cases, paired, records, run
from sojourn.errors import NothingToRun
from sojourn.means import Mean as Mean
from sojourn.means import mean_of as mean_of
from sojourn.means import student as student
from sojourn.plan import load

POLL_S = 0.1
"""How often progress is told, and Ctrl-C looked for."""


@dataclass
class Comparison:
    """What a sweep gave: its runs in the order of the plan, and what it could not do."""

    runs: list[records.RunRecord]
    skipped: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False
    cpu_s: float = 0.0
    baseline: str | None = None
    """The value that the others are compared with; none: the first."""
    spared: int = 0
    """Requested seeds that were not played because nothing is random."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON that scripts rely on."""
        value: dict[str, Any] = {"runs": [record.result for record in self.runs], "skipped": self.skipped}
        if self.runs and (comparison := paired.as_dict(self.cases(), self.baseline)):
            value["comparison"] = comparison
        if self.interrupted:
            value["interrupted"] = True
        return value

    def cases(self) -> cases.Cases:
        """What is compared."""
        return cases.of_records(self.runs)

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
    return execute(load(path, sets, seed, seeds), jobs=jobs, folder=lambda: folder)


def execute(
    plan: _core.Plan,
    *,
    jobs: int | None = None,
    folder: Callable[[], Path | None] = lambda: None,
    packets: bool = False,
    world: run.World | None = None,
    on_progress: Callable[[float], None] = lambda _simulated_s: None,
    baseline: str | None = None,
) -> Comparison:
    """Plays every run of the plan that the world can play; if nothing is random, only each combination's first seed.

    `baseline` is the swept value that the others are compared with; a value that is not swept is a Refusal.

    Ctrl-C stops the others and returns what is finished, marked interrupted. `folder` is called for the folder of the
    results when all that can be refused has been: until then nothing is written.
    """
    world = world or run.Simulator()
    playable, refused = run.playable(world, plan)
    skipped = [*json.loads(plan.skipped()), *refused]
    if not playable:
        raise NothingToRun(f"nothing to run: {skipped[0]['reason']}")
    sets = [one["set"] for one in json.loads(plan.runs())]
    drawn = [index == 0 or sets[index - 1] != one for index, one in enumerate(sets)]  # the first seed of each
    _refuse_baseline(plan, sets, baseline)
    draws = run.draws(world, plan, playable)
    asked = len(playable)
    playable = playable if draws else [index for index in playable if drawn[index]]
    place = folder()
    watches = {index: _core.Progress() for index in playable}
    pool = ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1, thread_name_prefix="sojourn")
    futures: list[Future[run.Done | None]] = []
    interrupted = False
    try:
        for index, watch in watches.items():
            start = partial(run.execute, plan, index, watch, world=world, folder=place, packets=packets, draws=draws)
            futures.append(pool.submit(start, keep_series=drawn[index]))
        _await(futures, lambda: on_progress(sum(watch.simulated_s for watch in watches.values())))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for watch in watches.values():
            watch.stop()
        pool.shutdown(wait=True, cancel_futures=True)
    return replace(_collect(skipped, futures, interrupted), spared=asked - len(playable), baseline=baseline)


def _refuse_baseline(plan: _core.Plan, sets: Sequence[dict[str, Any]], baseline: str | None) -> None:
    """Refuses a baseline that is not a swept value, before anything is played."""
    if baseline is not None:
        queues = [hop["name"] for hop in json.loads(plan.describe(0))["hops"]]
        paired.refuse_baseline(sets, queues, baseline)


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
class Combination:
    """The runs that differ in their seed only."""

    label: str
    """What tells it apart from the others; where nothing varies, the discipline of the queue that is compared."""
    qdisc: str
    """The discipline line of the queue that is compared."""
    runs: list[records.RunRecord]
    labels: Mapping[str, str] = field(default_factory=dict)
    """By queue, its label in a table or picture of that queue."""

    @property
    def first(self) -> records.RunRecord:
        """The run with the first seed."""
        return self.runs[0]

    def label_at(self, hop: str) -> str:
        """The label of a row of this queue's numbers."""
        return self.labels.get(hop, self.label)

    def hop(self, name: str) -> list[dict[str, Any]]:
        """One hop's numbers, of every seed."""
        return [record.result["hops"][name] for record in self.runs]


def combinations(runs: Sequence[records.RunRecord]) -> list[Combination]:
    """Runs grouped by what was set, in order, with labels that say only what differs."""
    found = cases.of_records(runs)
    groups = cases.grouped(runs).values()
    said = {queue: found.labels(queue) for queue in found.queues}
    return [
        Combination(
            label=said[found.compared][place],
            qdisc=found.qdiscs[place].get(found.compared, ""),
            runs=group,
            labels={queue: of_queue[place] for queue, of_queue in said.items()},
        )
        for place, group in enumerate(groups)
    ]


def qdisc_of(record: records.RunRecord, hop: str) -> str:
    """A queue's discipline in a run, as `tc` writes it."""
    for described in record.about["hops"]:
        if described["name"] == hop:
            return str(described["qdisc"])
    return ""
