"""A sweep into a store: plays what the store does not have yet, and says what all of it came to."""

from __future__ import annotations

import heapq
import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sojourn import _core, columns, identity, measures, paired, pool, queues, records, run, table
from sojourn import plan as plans
from sojourn.cases import Address, Cases, Values, flows_of, goodput, undescribed, users_of
from sojourn.errors import NothingToRun, Refusal
from sojourn.means import Mean, mean_of, seeds_for
from sojourn.store import Store
from sojourn.words import number_text, percent_text

STORED = ("seed", "duration_s", "versions", *measures.COLUMNS)
"""Columns of a store that `Swept.records` reads."""
FOLD_EVERY = 512
"""Finished runs, until they are moved to where queries read them."""
LOOK_AGAIN_S = 0.5
"""How often it is asked whether others have finished what they play."""
Among = Callable[[Mapping[str, Any]], bool]
"""Whether a combination is one of those that are asked for."""
QUICK = 10
"""What part of a sweep is a quick look at it: a tenth."""
FEWEST_SEEDS = 5
"""Before which no interval is believed to be narrow: chance makes some narrow that are not."""


@dataclass(frozen=True)
class Until:
    """When a combination has enough seeds: its 95 % interval reaches no further from the mean than this."""

    address: str
    half_width: float
    relative: bool = False
    """Whether that is a share of the mean."""
    text: str = ""
    """As it was written."""

    @staticmethod
    def parse(text: str) -> Until:
        """`MEASURE WIDTH`, the width as a number or in % of the mean."""
        found = re.fullmatch(r"\s*(\S+)\s+([0-9.]+)\s*(%?)\s*", text)
        try:
            width = float(found[2]) if found else 0.0
        except ValueError:
            width = 0.0
        if not found or width <= 0:
            raise Refusal(f"--until = {text}: expected a measure and a width, such as 'sojourn_ms.p95 0.5' or '… 5%'")
        return Until(found[1], width / 100 if found[3] else width, bool(found[3]), " ".join(text.split()))

    def met_after(self, values: Sequence[Sequence[float]], tried: int = 0) -> int | None:
        """How many of these seeds are enough, or None; `tried` of them were found too few before.

        `values` has a row for each seed and a column for each queue; the interval of every queue must be narrow enough.
        Queues without packets have no values and are left out.
        """
        series = [one for one in zip(*values, strict=True) if not all(map(math.isnan, one))]
        counts = range(max(FEWEST_SEEDS, tried + 1), len(values) + 1) if series else ()
        return next((count for count in counts if all(self._is_met(one[:count]) for one in series)), None)

    def _is_met(self, values: Sequence[float]) -> bool:
        mean = mean_of(_present(values))
        return mean is not None and mean.half_width is not None and mean.half_width <= self.wanted(mean)

    def wanted(self, mean: Mean) -> float:
        """The half-width that is wide enough around this mean."""
        return self.half_width * (abs(mean.value) if self.relative else 1)

    def width_text(self, mean: Mean) -> str:
        """The interval's half-width, in % of the mean if that is how the rule has it."""
        if mean.half_width is None:
            return "no interval"
        if self.relative and mean.value:
            return f"±{percent_text(mean.half_width / abs(mean.value), 2)}"
        return f"±{number_text(mean.half_width, 2)}"


@dataclass(frozen=True)
class Width:
    """The interval of `--until` in a combination that has not enough seeds: that of the queue which needs most."""

    address: str
    mean: Mean | None
    """Over the seeds that have a value; None if none has."""
    more_seeds: int | None
    """About how many more are needed; None if no number would do, or if that can't be said."""


def quick(sets: Sequence[Mapping[str, Any]]) -> Among:
    """A tenth of a sweep's combinations: whole runs, only fewer.

    Disciplines are compared on the same link, so those that differ in nothing else stay together. Which are taken goes
    by a digest of what they set, so a sweep that is extended keeps them; values of a key that chance has left out are
    added, and there is one link at least.
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


@dataclass
class Combination:
    """Runs that differ in their seed only."""

    set: dict[str, Any]
    indices: list[int]
    """Of its runs in the plan, by seed: those that count, and are there."""
    scenario: dict[str, Any]
    """With all that the combination sets."""
    too_wide: Width | None = None
    """The interval of `--until`, where the seeds ended before it was narrow enough."""


@dataclass
class Swept:
    """What a sweep came to."""

    title: str
    world: str
    store: Store
    combinations: list[Combination]
    hops: dict[str, str]
    """The queues of the first run, leftward ones too, each with its discipline."""
    ids: list[str]
    """The store's names of the plan's runs; empty for those that are not asked for."""
    skipped: list[dict[str, Any]]
    plan: _core.Plan
    random: bool = True
    """Whether runs depend on the seed; if not, each combination is played with its first seed only."""
    spared: int = 0
    """Requested runs that were not played because nothing is random."""
    played: int = 0
    """Runs of this sweep; the others were there, or another sweep played them."""
    until: Until | None = None
    """The rule by which combinations have enough seeds, if there is one and runs depend on the seed."""
    surplus: int = 0
    """Runs of these that no mean uses: they were in progress when their combination had enough seeds."""
    interrupted: bool = False

    @property
    def count(self) -> int:
        """Of the runs that the means are over."""
        return sum(len(one.indices) for one in self.combinations)

    @cached_property
    def shown(self) -> list[str]:
        """The queues to show, the compared one first."""
        paths = ("utilisation", "sojourn_ms.p95", "queue_delay_ms.mean", "drops", "marks")
        found = self.numbers([f"hops.{hop}.{path}" for hop in self.hops for path in paths])
        indices = [index for one in self.combinations for index in one.indices]

        def load(hop: str, index: int) -> queues.Load:
            values = (found[f"hops.{hop}.{path}"][index] for path in paths)
            return queues.Load(*(0.0 if np.isnan(value) else float(value) for value in values))

        loads = [{hop: load(hop, index) for hop in self.hops} for index in indices]
        return queues.shown([one.set for one in self.combinations], list(self.hops), loads)

    def cases(self, most: int) -> Cases:
        """The first `most` combinations, as cases to compare."""
        combinations = self.combinations[:most]
        abouts = [json.loads(self.plan.describe(one.indices[0])) for one in combinations]
        runs = plans.runs(self.plan)
        known: dict[Address, Values] = {}

        def read(address: Address) -> Values:
            if address not in known:
                wanted = dict.fromkeys([address, *table.addresses(made)])
                known.update(self._values(combinations, [one for one in wanted if one not in known]))
            return known[address]

        made = Cases(
            title=self.title,
            world=self.world,
            sets=[one.set for one in combinations],
            seeds=[[runs[index]["seed"] for index in one.indices] for one in combinations],
            queues=list(self.hops),
            shown=self.shown,
            qdiscs=[{hop["name"]: str(hop["qdisc"]) for hop in about["hops"]} for about in abouts],
            flows=flows_of(abouts, users_of(self.plan.text, [one.set for one in combinations])),
            random=self.random,
            read=read,
            undescribed=undescribed(self.plan.text, [one.set for one in combinations], list(self.hops)),
        )
        return made

    def _values(self, combinations: Sequence[Combination], addresses: Sequence[Address]) -> dict[Address, Values]:
        """These numbers of every run, in one pass through the store."""
        indices = [index for one in combinations for index in one.indices]
        found = {address: np.full(len(self.ids), np.nan) for address in addresses}
        bases: dict[int, dict[str, float]] = {}
        if any(one.above_base for one in addresses):
            for index, about in self._abouts(combinations).items():
                bases[index] = {flow["name"]: float(flow["base_rtt_ms"]) for flow in about["flows"]}
        for places, rows in self.store.batches([self.ids[index] for index in indices], measures.COLUMNS):
            at = [indices[place] for place in places]
            of_rows = [bases.get(index, {}) for index in at]
            for address in addresses:
                found[address][at] = measures.values_at(rows, address, of_rows)
        return {address: [_present(numbers[one.indices]) for one in combinations] for address, numbers in found.items()}

    def _abouts(self, combinations: Sequence[Combination]) -> dict[int, dict[str, Any]]:
        """The plan's description of each run; a combination's first one for all if base RTTs do not depend on the seed.

        If those of the first and the last seed agree, so do the others.
        """

        def of_run(index: int) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(self.plan.describe(index))
            return found

        def bases(about: Mapping[str, Any]) -> list[Any]:
            return [(flow["name"], flow["base_rtt_ms"]) for flow in about["flows"]]

        found: dict[int, dict[str, Any]] = {}
        for one in combinations:
            first, *others = one.indices
            found[first] = of_run(first)
            same = bool(others) and bases(of_run(others[-1])) == bases(found[first])
            found |= {index: found[first] if same else of_run(index) for index in others}
        return found

    def records(self) -> list[records.RunRecord]:
        """The runs that count, in the plan's order, without series and distributions: for pictures that need none."""
        indices = [index for one in self.combinations for index in one.indices]
        sets = {index: one.set for one in self.combinations for index in one.indices}
        abouts = self._abouts(self.combinations)
        found: dict[int, records.RunRecord] = {}
        for places, rows in self.store.batches([self.ids[index] for index in indices], STORED):
            for place, row in zip(places, columns.rows_of(rows), strict=True):
                index = indices[place]
                versions = row.pop("versions")
                found[index] = records.RunRecord(
                    index=index,
                    title=self.title,
                    scenario=self.plan.text,
                    result={"world": self.world, "set": sets[index], **row},
                    about=abouts[index],
                    series={},
                    distribution={},
                    rates={},
                    versions=versions,
                )
        return [found[index] for index in sorted(found)]

    def means(self, addresses: Sequence[str], of_flows: Sequence[str] = ()) -> dict[str, list[Mean | None]]:
        """Of each measure, the mean in each combination; `of_flows` are those of every flow that has any."""
        found = self.numbers(addresses, of_flows)
        return {
            address: [mean_of(_present(found[address][one.indices])) for one in self.combinations]
            for address in (*addresses, *sorted(found.keys() - set(addresses)))
            if address in addresses or not np.isnan(found[address]).all()
        }

    def numbers(self, addresses: Sequence[str], of_flows: Sequence[str] = ()) -> dict[str, NDArray[np.float64]]:
        """Measures of each run, by its place in the plan; NaN where there is none.

        The runs pass through here some at a time: what stays of each is its numbers.
        """
        indices = [index for one in self.combinations for index in one.indices]
        found = {address: np.full(len(self.ids), np.nan) for address in addresses}
        for places, rows in self.store.batches([self.ids[index] for index in indices], measures.COLUMNS):
            at = np.asarray(indices)[places]
            flows = [f"flows.{flow}.{path}" for flow in measures.flows(rows) for path in of_flows]
            for address in (*addresses, *flows):
                found.setdefault(address, np.full(len(self.ids), np.nan))[at] = measures.values(rows, address)
        return found


def _present(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def execute(
    plan: _core.Plan,
    file: Path,
    store: Store,
    *,
    world: run.World | None = None,
    jobs: int | None = None,
    until: Until | None = None,
    series: bool = False,
    only_read: bool = False,
    among: Among | None = None,
    baseline: str | None = None,
    tell: Callable[[float, float], None] = lambda _done_s, _all_s: None,
) -> Swept:
    """Plays every run of the plan that the store lacks; with `until` only as many seeds as it needs.

    `baseline` is the swept value that the others will be compared with: one that is not swept is a Refusal. With
    `only_read` nothing is played, and what the store lacks does not count. `among` picks combinations by what they
    set.

    Ctrl-C stops the others; what is finished is in the store. A full disk does so too, and is a Refusal.
    """
    if baseline is not None:
        names = [hop["name"] for hop in json.loads(plan.describe(0))["hops"]]
        paired.refuse_baseline([one["set"] for one in plans.runs(plan)], names, baseline)
    made = _Sweep.of(plan, file, store, world or run.Simulator(), until, series, among)
    try:
        try:
            if not only_read:
                made.play(jobs, tell)
        except KeyboardInterrupt:
            made.swept.interrupted = True
        return made.finish()
    except OSError as error:
        kept = f"{made.swept.played} runs of this sweep are kept, and the same command goes on after them"
        raise Refusal(f"{store.folder}: {error.strerror or error}; {kept}") from error


@dataclass
class _Sweep:
    plan: _core.Plan
    file: Path
    world: run.World
    swept: Swept
    identities: dict[int, identity.Identity]
    """By the run's place in the plan: of those that are asked for."""
    durations_s: list[float]
    until: Until | None
    series: bool
    present: set[int] = field(default_factory=set)
    mine: set[int] = field(default_factory=set)
    """What this sweep has played."""
    out: int = 0
    """Runs that are being played, or looked at whether somebody else plays them."""
    later: list[int] = field(default_factory=list)
    """What other processes are playing."""
    addresses: list[str] = field(default_factory=list)
    """Addresses of the measure of `until`: of every swept queue, or of every queue if none is swept."""
    known: list[str] = field(default_factory=list)
    """Addresses of all measures that a run can have."""
    watched: list[int] = field(default_factory=list)
    """Indices into `addresses` that `until` watches: all, or the compared queue's once the first run is finished."""
    values: dict[int, list[float]] = field(default_factory=dict)
    """For each run, the numbers at `addresses`."""
    enough: dict[int, int] = field(default_factory=dict)
    """Combinations that have enough seeds, and how many those are."""
    tried: dict[int, int] = field(default_factory=dict)
    """How many were not enough."""

    asked: dict[int, str | None] = field(default_factory=dict)
    """Why the world can't play a combination, if it can't; of those that had to be asked for."""

    def __post_init__(self) -> None:
        self.place = {index: place for place, one in enumerate(self.swept.combinations) for index in one.indices}

    @staticmethod
    def of(
        plan: _core.Plan,
        file: Path,
        store: Store,
        world: run.World,
        until: Until | None,
        series: bool,
        among: Among | None,
    ) -> _Sweep:
        runs = plans.runs(plan)
        combinations = _combinations(plan.text, runs, among)
        identities = _identities(plan, file, runs, combinations, world)
        about = json.loads(plan.describe(0))
        hops = {one["name"]: one["qdisc"] for one in about["hops"]}
        addresses, known = list[str](), list[str]()
        if until:
            kinds = {one["name"]: one["kind"] for one in about["flows"]}
            kinds |= {name: str(one["kind"]) for one in combinations[0].scenario["flow"] for name in _names_of(one)}
            named = queues.swept([one["set"] for one in runs], list(hops))
            address = measures.plain(until.address, hops)
            addresses = list(dict.fromkeys(measures.full(address, hop) for hop in named or hops))
            known = measures.known(hops, kinds)
            measures.refuse_unknown(addresses[0], known, kinds)
        ids = [identities[index].id if index in identities else "" for index in range(len(runs))]
        swept = Swept(plan.title, world.name, store, combinations, hops, ids, json.loads(plan.skipped()), plan)
        made = _Sweep(plan, file, world, swept, identities, [one["duration_s"] for one in runs], until, series)
        made.addresses, made.known = addresses, known
        if until and (named or len(addresses) == 1):
            made.watched = list(range(len(addresses)))
        made.without_equal_seeds()
        if until and swept.random:
            swept.until = until
            made.refuse_too_few_seeds()
        made.read(made.identities)
        return made

    def without_equal_seeds(self) -> None:
        """Reduces each combination to its first seed if nothing is random."""
        combinations = self.swept.combinations
        self.swept.random = run.draws(self.world, self.plan, list(self.identities))
        if not self.swept.random:
            self.swept.spared = sum(len(one.indices) - 1 for one in combinations)
            for one in combinations:
                del one.indices[1:]
            kept = {one.indices[0] for one in combinations}
            self.identities = {index: who for index, who in self.identities.items() if index in kept}

    def refuse_too_few_seeds(self) -> None:
        """Refuses `until` with so few seeds that it could not be met."""
        most = max(len(one.indices) for one in self.swept.combinations)
        if most < FEWEST_SEEDS:
            few = (
                "one seed has no interval"
                if most == 1
                else f"an interval over {most} seeds is narrow by chance too often"
            )
            raise Refusal(
                f"--until: {few}: expected --seeds {FEWEST_SEEDS} or more, as the most for a combination, such as "
                "--seeds 30"
            )

    # What is there.

    def read(self, indices: Collection[int]) -> None:
        """Finds out which of these runs are there, and what `until` asks for of them."""
        store, ids = self.swept.store, self.swept.ids
        there = store.present([ids[index] for index in indices])
        found = [index for index in indices if ids[index] in there and self.has_series(ids[index])]
        if self.until:
            for places, rows in store.batches([ids[index] for index in found], measures.COLUMNS):
                numbers = self.numbers(rows)
                self.values |= {found[place]: number for place, number in zip(places, numbers, strict=True)}
        self.present.update(found)
        for place in sorted({self.place[index] for index in found}):
            self.judge(place)

    def has_series(self, run: str) -> bool:
        return not self.series or self.swept.store.has_series(run)

    def numbers(self, rows: pa.Table) -> list[list[float]]:
        """For each row the numbers at `addresses`, followed by the queues' mean delays until a queue is chosen."""
        delays = [] if self.is_chosen() else [f"hops.{hop}.{paired.MEAN_DELAY}" for hop in self.swept.hops]
        columns_of = [measures.values(rows, address) for address in (*self.addresses, *delays)]
        return [list(map(float, row)) for row in zip(*columns_of, strict=True)]

    def is_chosen(self) -> bool:
        """Whether it is known which addresses are watched: if no queue is swept, the sweep's first run decides."""
        first = self.values.get(self.swept.combinations[0].indices[0])
        if not self.watched and first:
            delays = [0.0 if math.isnan(value) else value for value in first[len(self.addresses) :]]
            self.watched = [max(range(len(delays)), key=delays.__getitem__)]
        return bool(self.watched)

    def refuse_absent(self) -> None:
        """Refuses a measure that the first run does not have, though such flows or queues can have it."""
        first = self.swept.combinations[0].indices[0]
        if first not in self.values or not all(math.isnan(self.values[first][at]) for at in self.watched):
            return
        address = self.addresses[self.watched[0]]
        ((_, row),) = self.swept.store.batches([self.swept.ids[first]], measures.COLUMNS)
        there = [one for one in self.known if not math.isnan(measures.values(row, one)[0])]
        raise Refusal(
            f"--until: {address} has no value in the first run, so that no number of seeds would be enough: expected "
            f"a measure that this run has: {measures.listed(address, there)}"
        )

    def judge(self, place: int) -> None:
        """Whether a combination has enough seeds: by its first ones, in whatever order they were played."""
        if self.until and place not in self.enough and self.is_chosen():
            self.refuse_absent()
            first = takewhile(self.values.__contains__, self.swept.combinations[place].indices)
            values = [[self.values[index][at] for at in self.watched] for index in first]
            if met := self.until.met_after(values, self.tried.get(place, 0)):
                self.enough[place] = met
            self.tried[place] = len(values)

    # What is to do.

    def play(self, jobs: int | None, tell: Callable[[float, float], None]) -> None:
        done_s = sum(self.durations_s[index] for index in self.present)
        whole_s = sum(self.durations_s[index] for index in self.identities)

        def tell_all(playing_s: float) -> None:
            tell(done_s + playing_s, whole_s)

        for index, row in pool.each(self.todo(), self.play_one, jobs=jobs, tell=tell_all):
            self.out -= 1
            if self.asked.get(self.place[index]):
                continue
            if row is None:
                self.later.append(index)
                continue
            self.present.add(index)
            done_s += self.durations_s[index]
            if self.until:
                (self.values[index],) = self.numbers(columns.table_of([row]))
                self.judge(self.place[index])
            self.mine.add(index)
            self.swept.played += 1
            if self.swept.played % FOLD_EVERY == 0:
                self.swept.store.fold()

    def todo(self) -> Iterator[int | None]:
        """What to play next; None while others play what is missing here."""
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
        for one in self.swept.combinations:
            for index in one.indices:
                if index not in self.present and not self.asked.get(self.place[index]):
                    yield index

    def by_need(self) -> Iterator[int]:
        """The next seed of the combination that has the fewest and not enough."""
        waiting = [(0, place) for place in range(len(self.swept.combinations))]
        while waiting:
            seed, place = heapq.heappop(waiting)
            indices = self.swept.combinations[place].indices
            self.look_again()
            if place in self.enough or self.asked.get(place) or seed == len(indices):
                continue
            if indices[seed] not in self.present:
                yield indices[seed]
            heapq.heappush(waiting, (seed + 1, place))

    def look_again(self) -> None:
        """Whether others have finished what they were playing."""
        store, ids = self.swept.store, self.swept.ids
        done = [index for index in self.later if store.has(ids[index]) and self.has_series(ids[index])]
        if done:
            self.later = [index for index in self.later if index not in done]
            self.read(done)

    def play_one(self, index: int, watch: _core.Progress) -> dict[str, Any] | None:
        """Plays a run and puts it into the store; None if it is there by now, or is being played elsewhere."""
        store, who = self.swept.store, self.identities[index]
        with store.claim(who.id) as free:
            if not free or (store.has(who.id) and self.has_series(who.id)):
                return None
            if self.is_refused(index):
                return None
            played = self.world.play(self.plan, index, watch, packets=False, series=self.series)
            if played is None:
                return None
            record = run.record_of(self.plan, index, played, series=self.series, distributions=self.series)
            if self.series:
                records.write_record(store.series(who.id), record)
                records.write_flow_series(store.flow_series(who.id), record, run.flows_over_time(played.output))
            row = _row(who, self.file.stem, record, self.swept.combinations[self.place[index]].scenario)
            store.put(row)
            return row

    def is_refused(self, index: int) -> bool:
        """Whether the world can't play a run: asked once a combination, and not of those that are there."""
        place = self.place[index]
        if place not in self.asked:
            self.asked[place] = self.world.refusal(self.plan, index)
        return self.asked[place] is not None

    def finish(self) -> Swept:
        """With the runs that count: those that are there; of a combination that has enough seeds, no more."""
        if self.swept.interrupted:
            self.read(self.identities)
        refused = [(place, reason) for place, reason in sorted(self.asked.items()) if reason]
        self.swept.skipped += [{"set": self.swept.combinations[place].set, "reason": why} for place, why in refused]
        if len(refused) == len(self.swept.combinations):
            raise NothingToRun(f"nothing to run: {self.swept.skipped[0]['reason']}")
        for place, one in enumerate(self.swept.combinations):
            counted = one.indices[: self.enough.get(place)]
            one.indices = [index for index in counted if index in self.present]
        self.swept.combinations = [one for one in self.swept.combinations if one.indices]
        if self.swept.until:
            for one in self.swept.combinations:
                one.too_wide = self.too_wide(self.swept.until, one)
        self.swept.surplus = len(self.mine.difference(*(one.indices for one in self.swept.combinations)))
        self.swept.store.fold()
        return self.swept

    def too_wide(self, until: Until, one: Combination) -> Width | None:
        """The widest interval of a combination, if the rule is not met there."""
        if self.place[one.indices[0]] in self.enough:
            return None
        widths = []
        for at in self.watched:
            mean = mean_of(_present(self.values[index][at] for index in one.indices))
            needed = seeds_for(until.wanted(mean), mean) if mean else None
            if mean and needed is not None:  # a seed may have no value: as many more are needed
                needed = max(math.ceil(needed / mean.count * len(one.indices)), FEWEST_SEEDS)
            widths.append(Width(self.addresses[at], mean, needed and needed - len(one.indices)))
        return max(widths, key=lambda width: (width.mean is not None, width.more_seeds or 0), default=None)


def _names_of(flow: Mapping[str, Any]) -> list[str]:
    """The names that the flows of a scenario's entry share; both directions have one each."""
    name = str(flow["name"])
    return [f"{name}.right", f"{name}.left"] if flow.get("direction") == "both" else [name]


def _combinations(text: str, runs: Sequence[dict[str, Any]], among: Among | None) -> list[Combination]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"a store needs a scenario in TOML 1.0: {error}") from error
    groups: dict[str, dict[int, int]] = {}
    for index, one in enumerate(runs):
        if among is None or among(one["set"]):
            # --set of a swept key makes equal ones of several: once is enough.
            groups.setdefault(json.dumps(one["set"]), {}).setdefault(one["seed"], index)
    if not groups:
        raise Refusal("no combination of the sweep is one of those that are asked for")
    return [
        Combination(runs[group[0]]["set"], group, identity.resolved(document, runs[group[0]]["set"]))
        for group in (list(one.values()) for one in groups.values())
    ]


def _identities(
    plan: _core.Plan, file: Path, runs: Sequence[dict[str, Any]], combinations: Sequence[Combination], world: run.World
) -> dict[int, identity.Identity]:
    found: dict[int, identity.Identity] = {}
    files: dict[str, str | None] = {}
    for one in combinations:
        scenario = identity.digest([one.scenario, identity.digests(file.parent, one.scenario, files)])
        engine = identity.digest(world.key(plan, one.indices[0]))
        for index in one.indices:
            found[index] = identity.of_run(scenario, runs[index]["seed"], world.name, engine)
    return found


def _row(who: identity.Identity, file: str, record: records.RunRecord, scenario: Mapping[str, Any]) -> dict[str, Any]:
    result = record.result
    columns.check(result)
    return {
        "id": who.id,
        "point": who.point,
        "engine": who.engine,
        "file": file,
        "title": record.title,
        "world": record.world,
        "seed": record.seed,
        "duration_s": result["duration_s"],
        "scenario": identity.addresses(scenario),
        "qdisc": {hop["name"]: hop["qdisc"] for hop in record.about["hops"]},
        "goodput_mbit": goodput(result),
        **columns.of_result(result),
        "versions": record.versions,
    }
