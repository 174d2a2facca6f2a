"""How settings are judged, and when one counts as better than another.

Four numbers of each run are judged. Throughput and the delay of sparse flows pull in opposite directions; pages feel
both; and the delay of the long flows themselves keeps a search from ever longer targets, which cost sparse flows
nothing where flows have queues of their own. Settings are played with the same seeds, so all differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sojourn.cases import Address
from sojourn.means import MOST_SEEDS, Mean, mean_of, present, seeds_for
from sojourn.results import Results
from sojourn.tune.candidates import FIFOS, SINGLE_QUEUE, Candidate, distance, highest_share, packet_s
from sojourn.tune.task import LONG, PAGE_KINDS, ROUND_TRIPS, Task

Floats = NDArray[np.float64]
Verdict = Literal["better", "worse", "same", "open"]
"""The answer of the seeds about a number: a difference that counts and its sign, none that counts, or neither."""

SPARSE_LEAST_MS, SPARSE_PACKETS = 10.0, 3
"""Sparse flows' 95th percentile may be above the idle line's by this many ms, or packets if these take longer."""
PAGES_MOST = 1.05
"""Pages may take this many times as long as with the setting that is the best for them."""
OWN_LEAST_MS, OWN_PACKETS, OWN_RTT = 30.0, 7, 0.3
"""The long flows' own mean RTT may be above the base RTT by this many ms, by this many packets, or by this share of the
base RTT: whichever is the most."""
SHARED = 1.5
"""Where all flows share a queue, sparse flows wait as the long ones do, at the 95th percentile this many times as long
as these on average. No setting changes that, so settings of such disciplines are ranked among themselves by this bound.
Compared with disciplines that give each flow its queue, they are held to the aim itself: a user feels how long the ping
takes, not why, and the other discipline is the cure."""
NEAR = 0.02
"""Settings with at least the highest throughput less this share are equal in throughput."""
LOST = 25.0
"""Steps that a loss of 2 % of throughput costs, beyond `NEAR`: more than any other step, as throughput comes first."""
GOOD = 0.05
"""A setting of today is good if it meets the conditions and loses at most this share of throughput."""
EQUAL = 0.003
"""A loss of at most this share is none. A larger one is a loss if the seeds show it, or if it is a step."""
WAYS = ("right", "left")
"""Directions, whose goodputs are judged one by one."""
STRICT = (*WAYS, "own")
"""The numbers in which an improvement on a good setting may lose nothing; in the others it may lose a step."""
STEPS = {"throughput": 0.02, **dict.fromkeys(WAYS, 0.02), "sparse": 0.05, "pages": 0.03, "own": 0.1}
"""The smallest relative difference in each number that counts."""
LEAST_STEP_MS = {"sparse": 1.0, "own": 2.0}
"""The smallest absolute difference that counts, in ms."""
JUDGED = (*WAYS, "sparse", "pages")
"""The numbers in which a setting can be better or worse than another: the goodput of each direction, the sparse flows'
delay, and the time of pages. `own` only chooses between near-equals."""
MISSING = 2.0
"""A setting without a number that others have, such as one with which no page is ever complete, counts as this many
times as bad as the worst of these."""


@dataclass(frozen=True)
class Addresses:
    """Where the judged numbers of a task are in a run."""

    goodput: Mapping[str, Address]
    """The goodput of all flows in each direction that has long flows: `right`, `left`."""
    sparse: Address
    pages: Address | None
    own: Address | None


def addresses(task: Task) -> Addresses:
    """Returns the addresses of a task's numbers."""
    payload = (*LONG, *PAGE_KINDS, "video", "onoff")
    ways = [queue.direction for queue in task.queues if task.flows(payload, queue.direction)]
    pages, long = task.flows(PAGE_KINDS), task.flows(LONG)
    kinds = {flow["name"]: flow for flow in task.document["flow"]}
    whole = any(kinds[name].get("page") for name in pages)
    return Addresses(
        goodput={way: Address("goodput_mbit", flows=task.flows(payload, way), how="sum") for way in ways},
        sparse=Address("rtt_ms.p95", flows=task.flows(ROUND_TRIPS), how="most", above_base=True),
        pages=Address("page_load_s.mean" if whole else "fct_s.mean", flows=pages) if pages else None,
        own=Address("rtt_ms.mean", flows=long, above_base=True) if long else None,
    )


@dataclass(frozen=True)
class Scores:
    """The numbers of several settings, each with the same seeds."""

    task: Task
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...]
    goodput: Mapping[str, Floats]
    """Mbit/s of each direction, [settings × seeds]."""
    sparse: Floats
    """95th percentile of sparse flows' RTT above the base RTT, ms, [settings × seeds]. With several such flows, the
    highest."""
    pages: Floats
    """Mean time until a page is there, s, [settings × seeds]; NaN without pages."""
    own: Floats
    """Mean RTT of the long flows above the base RTT, ms, [settings × seeds]; NaN without long flows."""
    world: str = "sim"

    @property
    def throughput(self) -> Floats:
        """Goodput as a share of the highest mean of any setting, averaged over directions, [settings × seeds]."""
        return self.shares(self)

    def shares(self, reference: Scores) -> Floats:
        """Goodput as a share of the highest mean of any setting of the reference, averaged over directions,
        [settings × seeds].
        """
        if not self.goodput:
            return np.ones_like(self.sparse)
        highest = {way: max(float(np.nanmax(_means(one))), 1e-9) for way, one in reference.goodput.items()}
        return np.asarray(np.mean([one / highest[way] for way, one in self.goodput.items()], axis=0))

    def number(self, name: str) -> Floats:
        """One of `throughput`, `sparse`, `pages`, `own`, and the goodput of a direction in Mbit/s; NaN where it does
        not exist.
        """
        if name in WAYS:
            return self.goodput.get(name, np.full_like(self.sparse, np.nan))
        found: Floats = getattr(self, name)
        return found

    def mean(self, name: str, place: int) -> Mean | None:
        """The mean of a number over the seeds, for one setting."""
        return mean_of(present(self.number(name)[place]))

    def means(self, name: str) -> Floats:
        """The mean of a number over the seeds, for each setting; NaN where there is no value."""
        return _means(self.number(name))

    def of(self, wanted: Sequence[Candidate]) -> Scores:
        """The scores of some of the settings, in this order."""
        places = [self.candidates.index(one) for one in wanted]
        return Scores(
            self.task,
            tuple(wanted),
            self.seeds,
            {way: one[places] for way, one in self.goodput.items()},
            self.sparse[places],
            self.pages[places],
            self.own[places],
            self.world,
        )


def read(task: Task, candidates: Sequence[Candidate], results: Results) -> Scores:
    """Reads the scores of `task.plan`'s results."""
    found = addresses(task)
    wanted = [*found.goodput.values(), *(one for one in (found.sparse, found.pages, found.own) if one)]
    values = results.values(wanted)
    seeds = tuple(results.kept.seed(index) for index in results.combinations[0].indices)

    def numbers(address: Address | None) -> Floats:
        if address is None:
            return np.full((len(candidates), len(seeds)), np.nan)
        return np.array([[np.nan if one is None else one for one in of_case] for of_case in values[address]])

    return Scores(
        task=task,
        candidates=tuple(candidates),
        seeds=seeds,
        goodput={way: np.nan_to_num(numbers(one)) for way, one in found.goodput.items()},
        sparse=numbers(found.sparse),
        pages=numbers(found.pages),
        own=numbers(found.own),
        world=results.world,
    )


# ---- costs ----


def sparse_bound_ms(task: Task) -> float:
    """Returns by how much sparse flows' 95th percentile may be above the idle line's."""
    return max(SPARSE_LEAST_MS, SPARSE_PACKETS * _packet_ms(task))


def own_bound_ms(task: Task) -> float:
    """Returns by how much the long flows' mean RTT may be above the base RTT."""
    return max(OWN_LEAST_MS, OWN_PACKETS * _packet_ms(task), OWN_RTT * task.rtt_s * 1000)


def _packet_ms(task: Task) -> float:
    return 1000 * sum(packet_s(queue) for queue in task.queues)


def violations(scores: Scores) -> dict[str, Floats]:
    """Returns by how many steps each setting breaks each condition, by the condition's name; zero if it meets it.

    The conditions are the same for all settings. Only if all flows share a queue with every one of them, sparse flows
    may wait as long as `SHARED` says.
    """
    sparse, own, pages = (_judged(scores, name) for name in ("sparse", "own", "pages"))
    own_bound = own_bound_ms(scores.task)
    bound = sparse_bound_ms(scores.task)
    if all(one.kind in FIFOS or one.kind in SINGLE_QUEUE for one in scores.candidates):
        bound = max(bound, SHARED * own_bound)
    found = {
        "sparse": np.maximum(sparse - bound, 0) / _step("sparse", sparse_bound_ms(scores.task)),
        "own": np.maximum(own - own_bound, 0) / _step("own", own_bound),
    }
    if not np.isnan(pages).all():
        best = int(np.argmin(pages))
        # Few pages are complete in a run, and their times vary: only what the seeds show breaks the condition.
        shown = pages - _uncertainty(scores.pages, best)
        found["pages"] = np.maximum(shown / pages[best] - PAGES_MOST, 0) / STEPS["pages"]
    return {name: np.nan_to_num(one) for name, one in found.items()}


def _uncertainty(numbers: Floats, other: int) -> Floats:
    """Returns the half-width of the interval of each setting's difference from another, seed by seed; zero if there is
    no interval.
    """
    apart = [mean_of(present(row - numbers[other])) for row in numbers]
    return np.array([0.0 if one is None else one.half_width or 0.0 for one in apart])


def _broken(scores: Scores) -> Floats:
    """Returns by how many steps each setting breaks all conditions together."""
    return np.asarray(np.sum(list(violations(scores).values()), axis=0))


def lost(scores: Scores) -> Floats:
    """Returns by which share the throughput of each setting is below the highest of those that meet all conditions, or
    of all if none does.
    """
    through = scores.means("throughput")
    broken = _broken(scores)
    highest = through[broken == 0].max() if (broken == 0).any() else through.max()
    return np.asarray(np.maximum(1 - through / max(float(highest), 1e-9), 0))


def costs(scores: Scores) -> Floats:
    """Returns the cost of each setting, in steps (`STEPS`): the lowest is the best.

    First come the broken conditions, then the throughput that is lost beyond `NEAR`, then the rest: by how many steps
    sparse flows, pages and the long flows' own delay are worse than with the setting that is the best for them.
    """
    return np.asarray(sum(cost_parts(scores).values()))


def cost_parts(scores: Scores) -> dict[str, Floats]:
    """Returns the parts of `costs` by the number that they come from."""
    broken = {name: 100.0 * np.where(one > 0, 1 + one / 10, 0) for name, one in violations(scores).items()}
    parts = {"throughput": LOST * np.maximum(lost(scores) - NEAR, 0) / STEPS["throughput"]}
    for name in ("sparse", "pages", "own"):
        means = _judged(scores, name)
        parts[name] = np.asarray(broken.get(name, np.zeros(len(means))))
        if not np.isnan(means).all():
            best = float(np.nanmin(means))
            parts[name] = parts[name] + np.nan_to_num((means - best) / _step(name, best))
    return parts


def ranked(scores: Scores, kind: str) -> list[int]:
    """Returns the places of a discipline's settings that may be chosen, the best first.

    If a setting that people use today is good already (`GOOD`), those come first that improve on the best such one
    without being worse in anything, the one with the highest throughput first: nobody has to weigh a gain against a
    loss.
    """
    of_kind = [place for place, one in enumerate(scores.candidates) if one.kind == kind and eligible(scores.task, one)]
    own = scores.of([scores.candidates[place] for place in of_kind])
    cost, gone, broken = costs(own), lost(own), _broken(own)
    places = list(range(len(of_kind)))
    least = float(cost.min())
    # Among settings within a step of each other, the one nearest to the defaults.
    order = {one: (int(cost[one] - least), distance(own.candidates[one]), cost[one]) for one in places}
    places.sort(key=order.__getitem__)
    today = [one for one in places if own.candidates[one].baseline]
    if today and broken[today[0]] == 0 and gone[today[0]] <= GOOD:
        better = {one for one in places if one != today[0] and _improves(own, one, today[0])}
        through = own.means("throughput")
        places.sort(key=lambda one: (0, -through[one]) if one in better else (1 if one == today[0] else 2, 0.0))
    return [of_kind[one] for one in places]


def eligible(task: Task, one: Candidate) -> bool:
    """Returns whether a setting may be chosen: its shaper, where one is needed, fits into the lowest rate of the
    line.
    """
    if not any(queue.shaped for queue in task.queues):
        return True
    return one.share is not None and one.share <= highest_share(task.uncertain)


def _judged(scores: Scores, name: str) -> Floats:
    """Returns the means of a number of which less is better. A setting that lacks it counts as worse than all
    others.
    """
    means = scores.means(name)
    if np.isnan(means).all():
        return means
    return np.where(np.isnan(means), MISSING * float(np.nanmax(means)), means)


def _improves(scores: Scores, place: int, other: int) -> bool:
    """Returns whether a setting is better than another in a number, and not shown to be worse in any, its own delay
    included.
    """
    better = False
    for name in (*JUDGED, "own"):
        numbers = scores.number(name)
        apart = mean_of(present(numbers[place] - numbers[other]))
        if apart is None:
            continue
        gain = apart.value if name in WAYS else -apart.value
        level = abs(float(np.nanmean(numbers[other])))
        shown = max(EQUAL * level, min(apart.half_width or 0.0, _step(name, level)))
        if -gain > (shown if name in STRICT else _step(name, level)):
            return False
        better = better or gain > max(
            LEAST_STEP_MS["own"] if name == "own" else _step(name, level) / 2, apart.half_width or 0.0
        )
    return better


def _step(name: str, value: float) -> float:
    """Returns the smallest difference that counts, from this value of a number."""
    return max(STEPS[name] * abs(value), LEAST_STEP_MS.get(name, 0.0), 1e-9)


# ---- one setting against another ----


@dataclass(frozen=True)
class Compared:
    """A setting against another: the mean difference of each number over the seeds, and whether it counts."""

    differences: Mapping[str, Mean]
    """The setting's number less the other's, in the number's unit."""
    verdicts: Mapping[str, Verdict]
    seeds: Mapping[str, int | None] = field(default_factory=dict)
    """By open number: the seeds with which an interval would probably decide, if the mean and the spread stay the
    same. None for more than `MOST_SEEDS`."""

    @property
    def dominates(self) -> bool:
        """Whether the setting is shown to be better in a number, and not shown to be worse in any."""
        return "better" in self.verdicts.values() and "worse" not in self.verdicts.values()

    @property
    def is_dominated(self) -> bool:
        """Whether the setting is shown to be worse in a number, and not shown to be better in any."""
        return "worse" in self.verdicts.values() and "better" not in self.verdicts.values()

    @property
    def open(self) -> list[str]:
        """The numbers in which the seeds do not decide."""
        return [name for name, verdict in self.verdicts.items() if verdict == "open"]


def compare(scores: Scores, place: int, other: int, names: Sequence[str] = JUDGED) -> Compared:
    """Compares two settings seed by seed, in these numbers. A difference counts if it exceeds both its 95 % interval
    and a step. There is none if the whole interval is within the step. Else the number is open.
    """
    differences: dict[str, Mean] = {}
    verdicts: dict[str, Verdict] = {}
    seeds: dict[str, int | None] = {}
    for name in names:
        numbers = scores.number(name)
        apart = mean_of(present(numbers[place] - numbers[other]))
        if apart is None:
            continue
        differences[name] = apart
        step = _step(name, float(np.nanmean(numbers[other])))
        verdicts[name] = _verdict(name, apart, step)
        if verdicts[name] == "open":
            seeds[name] = _deciding(apart, step)
    return Compared(differences, verdicts, seeds)


def _verdict(name: str, apart: Mean, step: float) -> Verdict:
    half, size = apart.half_width, abs(apart.value)
    if half is None:  # one seed is no evidence
        return "open"
    if size > max(half, step):
        return "better" if (apart.value > 0) == (name in WAYS) else "worse"
    return "same" if size + half <= step else "open"


def _deciding(apart: Mean, step: float) -> int | None:
    """Returns with how many seeds an open difference is probably decided; None for more than `MOST_SEEDS`, or if one
    seed says nothing about the spread.
    """
    size = abs(apart.value)
    half = size if size > step else step - size
    found = seeds_for(half, apart) if half > 1e-9 * step else None
    return found if found is not None and found <= MOST_SEEDS else None


def _means(values: Floats) -> Floats:
    """The mean of each setting over its seeds; NaN if there is no value."""
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))
