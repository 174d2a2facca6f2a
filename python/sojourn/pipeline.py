"""The pipeline: from a plan to its results. Every verb that plays scenarios is a view of it.

A plan's runs go to an executor, which plays them in a world. Finished runs are kept in memory or in a store, and runs
that are already in the store are not played again.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sojourn import _core, identity, paired, queues, worlds
from sojourn.errors import NothingToRun, Refusal
from sojourn.executors import Cores, Executor, Work
from sojourn.finished import Broken, Finished, Task
from sojourn.means import mean_of, present, seeds_for
from sojourn.records import RunRecord
from sojourn.results import Results
from sojourn.runs import Combination, Runs, row_of
from sojourn.until import FEWEST_SEEDS, Until, Width, refuse_too_few_seeds
from sojourn.words import schedule_text

if TYPE_CHECKING:
    import pyarrow as pa

FOLD_EVERY = 512
"""After this number of finished runs the store moves them to where queries read them."""
LOOK_AGAIN_S = 0.5
"""Seconds between two checks whether other processes have finished their runs."""
Among = Callable[[Mapping[str, Any]], bool]
"""Returns whether a combination, given by the values that it sets, is to be played."""
QUICK = 10
"""A quick look plays one in this number of a sweep's combinations."""


def execute(
    plan: _core.Plan,
    runs: Runs,
    *,
    world: worlds.World | None = None,
    executor: Executor | None = None,
    until: Until | None = None,
    only_read: bool = False,
    among: Among | None = None,
    baseline: str | None = None,
    tell: Callable[[float, float], None] = lambda _done_s, _all_s: None,
) -> Results:
    """Plays every run of the plan that `runs` lacks; with `until` only as many seeds as it needs.

    If nothing is random, only the first seed of each combination is played. `among` picks combinations by the values
    that they set. `baseline` is the swept value that the others will be compared with. With `only_read` nothing is
    played, and missing runs are left out of the results. `tell` is called with two numbers: the simulated seconds that
    are done, and the simulated seconds of all runs.

    A run that a discipline of the user's breaks ends the runs of its combination, and no others: its reason is in the
    results' `broken` and `skipped`. If no run is left, it is raised as Refusal.

    Ctrl-C stops the runs that are playing; the finished ones are returned, and the results are marked interrupted.
    Raises Refusal if the baseline is not a swept value, if `until` cannot be met, or if the disk is full. Raises
    NothingToRun if the world can play none of the runs.
    """
    if baseline is not None:
        names = [hop["name"] for hop in plan.describe(0)["hops"]]
        paired.refuse_baseline([one["set"] for one in plan.runs], names, baseline)
    made = _Execution(plan, runs, world or worlds.Simulator(), _combinations(plan, among), until)
    made.results.baseline = baseline
    made.begin()
    try:
        try:
            if not only_read:
                made.play(executor or Cores(), tell)
        except KeyboardInterrupt:
            made.results.interrupted = True
        return made.finish()
    except OSError as error:
        why = error.strerror or str(error)
        if not runs.place:
            raise Refusal(f"{error.filename}: {why}" if error.filename else why) from error
        kept = f"{len(made.present)} runs of this sweep are kept, and the same command goes on after them"
        raise Refusal(f"{runs.place}: {why}; {kept}") from error


def quick(sets: Sequence[Mapping[str, Any]]) -> Among:
    """Picks about a tenth of a sweep's combinations; each is played with all its seeds.

    Disciplines are compared on the same link. Therefore combinations that differ only in their disciplines form a
    group, and whole groups are picked. A digest of a group's other values decides whether it is picked, so a sweep that
    is extended later picks the same groups again. More groups are added until every swept value occurs; at least one is
    picked.
    """

    def link(chosen: Mapping[str, Any]) -> str:
        return json.dumps({key: value for key, value in chosen.items() if not key.endswith(".qdisc")})

    links = {link(chosen): chosen for chosen in sets}
    taken: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for name in sorted(links, key=identity.digest):
        values = set(json.loads(name, object_pairs_hook=lambda pairs: [(k, json.dumps(v)) for k, v in pairs]))
        if not taken or int(identity.digest(name)[:8], 16) < 16**8 / QUICK or not values <= seen:
            taken.add(name)
            seen |= values
    return lambda chosen: link(chosen) in taken


class _Execution:
    """The state of one call of `execute`. It is also the `executors.Work` that the executor asks about these runs."""

    def __init__(
        self,
        plan: _core.Plan,
        runs: Runs,
        world: worlds.World,
        combinations: list[Combination],
        until: Until | None,
    ) -> None:
        self.plan, self.runs, self.world, self.until = plan, runs, world, until
        self.task = Task(plan, world, runs.keeps)
        about = plan.describe(0)
        self.results = Results(
            title=plan.title,
            world=world.name,
            scenario=plan.text,
            combinations=combinations,
            hops={one["name"]: one["qdisc"] for one in about["hops"]},
            kept=runs,
            plan=plan,
            skipped=list(plan.skipped),
        )
        self.place: dict[int, int] = {}
        """Maps a run's number to the index of its combination."""
        self.refusals: dict[int, str | None] = {}
        """Maps a combination's index to the reason why the world cannot play it, or to None if it can. Only
        combinations about which the world was asked are in it.
        """
        self.present: set[int] = set()
        self.mine: set[int] = set()
        """Runs that this execution has played."""
        self.out = 0
        """The number of runs that the executor was given and has not returned."""
        self.later: list[int] = []
        """Runs that other processes are playing."""
        self.watch = Watch.of(until, plan, about, combinations, list(self.results.hops)) if until else None
        self.values: dict[int, list[float]] = {}
        """Maps a run's number to its values at the watch's addresses."""
        self.enough: dict[int, int] = {}
        """Maps the index of a combination that has enough seeds to the number of seeds that is enough."""
        self.tried: dict[int, int] = {}
        """Maps a combination's index to the largest number of seeds that is known to be too few."""

    def begin(self) -> None:
        """Determines the runs to play. Every input that can be refused is refused here, before anything is written."""
        combinations = self.results.combinations
        if self.runs.asks_first:
            self._leave_out_refused()
        indices = [index for one in combinations for index in one.indices]
        self.results.random = worlds.draws(self.world, self.plan, indices)
        if not self.results.random:
            self.results.spared = sum(len(one.indices) - 1 for one in combinations)
            for one in combinations:
                del one.indices[1:]
        self.place = {index: place for place, one in enumerate(combinations) for index in one.indices}
        if self.until and self.results.random:
            self.results.until = self.until
            refuse_too_few_seeds(max(len(one.indices) for one in combinations))
        self.runs.begin(self.plan, self.world, combinations, random=self.results.random)
        self.read(self.place)

    def _leave_out_refused(self) -> None:
        """Asks the world about every combination, and leaves out those that it cannot play."""
        kept = []
        for one in self.results.combinations:
            if reason := self.world.refusal(self.plan, one.indices[0]):
                self.results.skipped.append({"set": one.set, "reason": reason})
            else:
                kept.append(one)
        if not kept:
            raise NothingToRun(f"nothing to run: {self.results.skipped[0]['reason']}")
        self.results.combinations[:] = kept

    # ---- runs that are there ----

    def read(self, indices: Collection[int]) -> None:
        """Looks up which of these runs exist already, and reads their values that `until` watches."""
        found = sorted(self.runs.present(indices))
        if self.watch:
            for places, rows in self.runs.batches(found, self.watch.columns):
                numbers = self.watch.numbers(rows)
                self.values |= {found[place]: number for place, number in zip(places, numbers, strict=True)}
        self.present.update(found)
        for place in sorted({self.place[index] for index in found}):
            self.judge(place)

    def judge(self, place: int) -> None:
        """Decides whether a combination has enough seeds. Seeds count in the order of the plan, so the decision does
        not depend on the order in which they were played.
        """
        if self.watch is None or self.until is None or place in self.enough:
            return
        combinations = self.results.combinations
        if not self.watch.choose(self.values.get(combinations[0].indices[0])):
            return
        self.refuse_absent(self.watch)
        first = takewhile(self.values.__contains__, combinations[place].indices)
        values = [[self.values[index][at] for at in self.watch.watched] for index in first]
        if met := self.until.met_after(values, self.tried.get(place, 0)):
            self.enough[place] = met
        self.tried[place] = len(values)

    def refuse_absent(self, watch: Watch) -> None:
        """Refuses a measure that has no value in the first run, although flows or queues of that kind can have one."""
        first = self.results.combinations[0].indices[0]
        if first in self.values and all(math.isnan(self.values[first][at]) for at in watch.watched):
            ((_, row),) = self.runs.batches([first], watch.columns)
            watch.refuse(row)

    # ---- runs to play ----

    def play(self, executor: Executor, tell: Callable[[float, float], None]) -> None:
        """Plays the missing runs."""
        durations_s = [float(one["duration_s"]) for one in self.plan.runs]
        done_s = sum(durations_s[index] for index in self.present)
        whole_s = sum(durations_s[index] for index in self.place)

        def tell_all(playing_s: float) -> None:
            tell(done_s + playing_s, whole_s)

        work: Work[int, Finished | Broken] = self
        for index, finished in executor.each(self.todo(), work, tell_all):
            self.out -= 1
            if finished is None and self.refusals.get(self.place[index]):
                continue
            if finished is None:
                self.later.append(index)
                continue
            if isinstance(finished, Broken):
                chosen = self.plan.runs[index]["set"]
                words = ", ".join(f"{key} = {schedule_text(value)}" for key, value in chosen.items())
                self.refusals[self.place[index]] = finished.reason
                self.results.broken.append(f"{finished.reason}, {words}" if words else finished.reason)
                continue
            done_s += durations_s[index]
            self.add(index, finished)

    def add(self, index: int, finished: Finished) -> None:
        """Counts a run that was played and kept."""
        self.present.add(index)
        self.mine.add(index)
        self.results.played += 1
        self.results.cpu_s += finished.cpu_s
        if self.watch:
            (self.values[index],) = self.watch.of_record(finished.record)
            self.judge(self.place[index])
        if self.results.played % FOLD_EVERY == 0:
            self.runs.fold()

    def todo(self) -> Iterator[int | None]:
        """Yields the runs to play. Yields None while all runs that are still missing are played by other processes."""
        for index in self.by_need() if self.until else self.in_order():
            self.out += 1
            yield index
        looked = 0.0
        while self.out or self.later:
            if time.monotonic() < looked + LOOK_AGAIN_S:
                yield None
                continue
            looked = time.monotonic()
            self.look_again()
            waiting, self.later = self.later, []
            for index in waiting:
                self.out += 1
                yield index
            yield None

    def in_order(self) -> Iterator[int]:
        """Yields the runs to play, one combination after the other."""
        for place, one in enumerate(self.results.combinations):
            for index in one.indices:
                if index not in self.present and not self.refusals.get(place):
                    yield index

    def by_need(self) -> Iterator[int]:
        """Yields the next seed of the combination that has the fewest seeds among those that need more."""
        combinations = self.results.combinations
        waiting = [(0, place) for place in range(len(combinations))]
        while waiting:
            seed, place = heapq.heappop(waiting)
            indices = combinations[place].indices
            self.look_again()
            if place in self.enough or self.refusals.get(place) or seed == len(indices):
                continue
            if indices[seed] not in self.present:
                yield indices[seed]
            heapq.heappush(waiting, (seed + 1, place))

    def look_again(self) -> None:
        """Reads what other processes have finished."""
        done = [index for index in self.later if self.runs.has(index)]
        if done:
            self.later = [index for index in self.later if index not in done]
            self.read(done)

    # ---- executors.Work ----

    @property
    def is_adaptive(self) -> bool:
        """Whether seeds are played only until an interval is narrow."""
        return self.until is not None

    @contextmanager
    def reserve(self, item: int) -> Iterator[bool]:
        """Claims a run for this process. The value is False if the run exists by now, if another process plays it, or
        if the world cannot play it.
        """
        with self.runs.claim(item) as free:
            yield free and not self.runs.has(item) and not self.is_refused(item)

    def keep(self, items: Sequence[int], outcomes: Sequence[Finished | Broken]) -> None:
        """Keeps runs, except broken ones."""
        whole = [(item, one) for item, one in zip(items, outcomes, strict=True) if isinstance(one, Finished)]
        self.runs.put([item for item, _ in whole], [one for _, one in whole])

    def is_refused(self, index: int) -> bool:
        """Returns whether the world cannot play a run. The world is asked once for each combination, and never about
        runs that exist already.
        """
        place = self.place[index]
        if place not in self.refusals:
            asked = None if self.runs.asks_first else self.world.refusal(self.plan, index)
            self.refusals[place] = asked
        return self.refusals[place] is not None

    # ---- the end ----

    def finish(self) -> Results:
        """Returns the results of all runs that exist, except those with seeds beyond the number that was enough."""
        results = self.results
        if results.interrupted:
            self.read(self.place)
        combinations = results.combinations
        refused = [(place, reason) for place, reason in sorted(self.refusals.items()) if reason]
        results.skipped += [{"set": combinations[place].set, "reason": reason} for place, reason in refused]
        if results.broken and not self.present:
            raise Refusal(results.broken[0])
        if len(refused) == len(combinations) and not results.broken:
            raise NothingToRun(f"nothing to run: {results.skipped[0]['reason']}")
        for place, one in enumerate(combinations):
            counted = one.indices[: self.enough.get(place)]
            one.indices = [index for index in counted if index in self.present]
        places = [place for place, one in enumerate(combinations) if one.indices]
        results.combinations = [combinations[place] for place in places]
        if results.until and self.watch:
            widths = {
                now: self.too_wide(self.watch, results.until, combinations[was], was) for now, was in enumerate(places)
            }
            results.too_wide = {place: width for place, width in widths.items() if width is not None}
        results.surplus = len(self.mine.difference(results.indices))
        self.runs.fold()
        return results

    def too_wide(self, watch: Watch, until: Until, one: Combination, place: int) -> Width | None:
        """Returns the widest interval of a combination if the rule `until` is not met there."""
        if place in self.enough:
            return None
        widths = []
        for at in watch.watched:
            mean = mean_of(present(self.values[index][at] for index in one.indices))
            needed = seeds_for(until.wanted(mean), mean) if mean else None
            if mean and needed is not None:  # a seed may have no value: as many more are needed
                needed = max(math.ceil(needed / mean.count * len(one.indices)), FEWEST_SEEDS)
            widths.append(Width(watch.addresses[at], mean, needed and needed - len(one.indices)))
        return max(widths, key=lambda width: (width.mean is not None, width.more_seeds or 0), default=None)


@dataclass
class Watch:
    """Finds the measure of `until` in the rows of runs."""

    addresses: list[str]
    """The measure's addresses: one for each swept queue, or for each queue of the path if none is swept."""
    known: list[str]
    """Addresses of all measures that a run can have."""
    hops: list[str]
    watched: list[int] = field(default_factory=list)
    """Indices into `addresses` that are watched. These are all of them if queues are swept; otherwise only that of the
    compared queue, which is known once the first run is finished.
    """

    @staticmethod
    def of(
        until: Until,
        plan: _core.Plan,
        about: Mapping[str, Any],
        combinations: Sequence[Combination],
        hops: list[str],
    ) -> Watch:
        """Returns the watch for this rule. Raises Refusal if no run can have the measure."""
        from sojourn import measures

        kinds = {one["name"]: one["kind"] for one in about["flows"]}
        scenario = identity.resolved(identity.document(plan.text), combinations[0].set)
        kinds |= {name: str(one["kind"]) for one in scenario.get("flow", ()) for name in _names_of(one)}
        named = queues.swept([one["set"] for one in plan.runs], hops)
        address = measures.plain(until.address, hops)
        addresses = list(dict.fromkeys(measures.full(address, hop) for hop in named or hops))
        known = measures.known(hops, kinds)
        measures.refuse_unknown(addresses[0], known, kinds)
        made = Watch(addresses, known, hops)
        if named or len(addresses) == 1:
            made.watched = list(range(len(addresses)))
        return made

    @property
    def columns(self) -> Sequence[str]:
        """The columns of a run's row that have measures."""
        from sojourn import measures

        return measures.COLUMNS

    def numbers(self, rows: pa.Table) -> list[list[float]]:
        """Returns for each row the values at `addresses`. While no queue is chosen, the mean delay of each queue
        follows.
        """
        from sojourn import measures

        delays = [] if self.watched else [f"hops.{hop}.{paired.MEAN_DELAY}" for hop in self.hops]
        columns_of = [measures.values(rows, address) for address in (*self.addresses, *delays)]
        return [list(map(float, row)) for row in zip(*columns_of, strict=True)]

    def of_record(self, record: RunRecord) -> list[list[float]]:
        """Returns the values of one run in the form of `numbers`."""
        from sojourn import columns

        return self.numbers(columns.table_of([row_of(record, id="", file="")]))

    def choose(self, first: Sequence[float] | None) -> bool:
        """Returns whether it is known which addresses are watched. If no queue is swept, this chooses the queue with
        the largest mean delay in the sweep's first run.
        """
        if not self.watched and first:
            delays = [0.0 if math.isnan(value) else value for value in first[len(self.addresses) :]]
            self.watched = [max(range(len(delays)), key=delays.__getitem__)]
        return bool(self.watched)

    def refuse(self, row: pa.Table) -> None:
        """Raises Refusal, and names measures of the first run that could be used instead of the requested one."""
        from sojourn import measures

        address = self.addresses[self.watched[0]]
        there = [one for one in self.known if not math.isnan(measures.values(row, one)[0])]
        raise Refusal(
            f"--until: {address} has no value in the first run, so that no number of seeds would be enough: expected "
            f"a measure that this run has: {measures.listed(address, there)}"
        )


def _names_of(flow: Mapping[str, Any]) -> list[str]:
    """Returns the shared names of the flows of one scenario entry. An entry for both directions has one name for
    each.
    """
    name = str(flow["name"])
    return [f"{name}.right", f"{name}.left"] if flow.get("direction") == "both" else [name]


def _combinations(plan: _core.Plan, among: Among | None) -> list[Combination]:
    """Returns each requested combination once. A `--set` of a swept key can make several combinations equal."""
    groups: dict[str, dict[int, int]] = {}
    for index, one in enumerate(plan.runs):
        if among is None or among(one["set"]):
            groups.setdefault(json.dumps(one["set"]), {}).setdefault(one["seed"], index)
    if not groups:
        raise Refusal("no combination of the sweep is one of those that are asked for")
    return [Combination(plan.runs[next(iter(of.values()))]["set"], list(of.values())) for of in groups.values()]
