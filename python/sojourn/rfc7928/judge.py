"""Judges disciplines by the rows of RFC 7928: each one against tail drop, seed by seed.

A discipline and tail drop play the same seeds, and so the same random traffic. For each measure the logarithm of their
ratio is averaged over the cases and classes of a row, and then over the seeds, with Student's interval. A ratio counts
if its 95 % interval does not contain 1 and it is at least MARGIN away from 1. It is the same if the whole interval is
less than MARGIN away from 1; otherwise it is open.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sojourn.means import MOST_SEEDS, Mean, mean_of, seeds_for
from sojourn.rfc7928.observed import ALL, LEAST_MBIT, RATED, Seen
from sojourn.rfc7928.suite import Row
from sojourn.words import listed

if TYPE_CHECKING:
    from sojourn.rfc7928.sampled import Sample

MARGIN = 0.05
"""A smaller difference from tail drop does not matter, even if seeds show that it is real."""
LEAST_MS = 0.1
"""A queuing delay below this counts as this."""
Verdict = Literal["better", "trade", "same", "worse", "open"]
"""`trade`: better in a measure and worse in another one. `same`: shown to differ by less than MARGIN in all measures.
`open`: the seeds do not decide, there are fewer than two of them, or there is no common value.
"""


@dataclass(frozen=True)
class Axis:
    """A measure by which disciplines are judged."""

    name: str
    head: str
    lower_is_better: bool
    floor: float
    """Smaller values count as this."""


AXES = (
    Axis("delay", "queuing delay", True, LEAST_MS),
    Axis("completion", "completion time", True, 1e-6),
    Axis("goodput", "goodput", False, LEAST_MBIT),
    Axis("unfairness", "unfairness", True, 1.0),
)


@dataclass(frozen=True)
class Ratio:
    """A measure of a discipline, divided by that of tail drop."""

    value: float
    low: float | None
    high: float | None
    """The ends of the 95 % interval; None with fewer than two seeds."""
    seeds: int
    better: bool
    worse: bool
    needs: int | None = None
    """About how many seeds would decide, if the spread stays as it is; None if it is decided or no number would."""

    @property
    def same(self) -> bool:
        """Whether it is shown to be less than MARGIN away from 1."""
        return self.low is not None and self.high is not None and self.low > 1 - MARGIN and self.high < 1 + MARGIN


@dataclass(frozen=True)
class Judged:
    """A discipline in a row."""

    row: Row
    place: int
    ratios: Mapping[str, Ratio]
    """By the names of `AXES`. An axis is missing if the row has no such measure."""

    @property
    def verdict(self) -> Verdict:
        """The verdict over all axes."""
        if not self.ratios or any(one.low is None for one in self.ratios.values()):
            return "open"
        better = any(one.better for one in self.ratios.values())
        worse = any(one.worse for one in self.ratios.values())
        if better or worse:
            return "trade" if better and worse else "better" if better else "worse"
        return "same" if all(one.same for one in self.ratios.values()) else "open"

    @property
    def needs(self) -> int | None:
        """About how many seeds would decide an open verdict; None if it is not open, or no number would."""
        undecided = [one for one in self.ratios.values() if not one.same]
        if self.verdict != "open" or not undecided or any(one.needs is None for one in undecided):
            return None
        return max(one.needs or 0 for one in undecided)


def _counts(row: Row, seen: Seen, axis: Axis) -> bool:
    """Returns whether a class is judged by an axis."""
    if axis.name == "unfairness":
        return seen.name == ALL
    if axis.name == "goodput":
        return seen.name == ALL if row.cumulated else seen.kind in RATED
    return seen.name != ALL


def judge(row: Row, found: Sequence[Seen], places: Iterable[int]) -> list[Judged]:
    """Judges the disciplines at these places by what was seen in a row; place 0 is tail drop."""
    judged = []
    for place in places:
        ratios = {axis.name: ratio for axis in AXES if (ratio := _ratio(row, found, place, axis)) is not None}
        judged.append(Judged(row, place, ratios))
    return judged


def _ratio(row: Row, found: Sequence[Seen], place: int, axis: Axis) -> Ratio | None:
    """Returns the ratio of a measure between a discipline and tail drop, over what both have for the same seed."""

    def values(of: int) -> dict[tuple[int, str, str], float]:
        there = (one for one in found if one.place == of and _counts(row, one, axis))
        pairs = (((one.seed, one.case, one.name), one.values.get(axis.name)) for one in there)
        return {key: max(value, axis.floor) for key, value in pairs if value is not None}

    own, theirs = values(place), values(0)
    by_seed: dict[int, list[float]] = {}
    for key in own.keys() & theirs.keys():
        by_seed.setdefault(key[0], []).append(math.log(own[key] / theirs[key]))
    mean = mean_of([statistics.fmean(by_seed[seed]) for seed in sorted(by_seed)])
    if mean is None:
        return None
    if mean.half_width is None:
        return Ratio(math.exp(mean.value), None, None, mean.count, False, False)
    low, high = (math.exp(mean.value + sign * mean.half_width) for sign in (-1, 1))
    lower = high < 1 and math.exp(mean.value) <= 1 - MARGIN
    higher = low > 1 and math.exp(mean.value) >= 1 + MARGIN
    better, worse = (lower, higher) if axis.lower_is_better else (higher, lower)
    return Ratio(math.exp(mean.value), low, high, mean.count, better, worse, _needs(mean))


def _needs(mean: Mean) -> int | None:
    """Returns about how many seeds would show a mean of logarithms to be a difference, or to be none that matters."""
    margin = math.log(1 + MARGIN) if mean.value >= 0 else -math.log(1 - MARGIN)
    apart = abs(mean.value)
    needed = seeds_for(apart if apart >= margin else margin - apart, mean)
    return needed if needed and needed <= MOST_SEEDS else None


# ---- over all rows ----


@dataclass(frozen=True)
class Profile:
    """A discipline over all rows."""

    place: int
    verdicts: Mapping[str, int]
    """How many rows have each verdict."""
    ratios: Mapping[str, float]
    """The geometric mean over the rows of the ratio of each axis."""
    better: Mapping[str, int]
    worse: Mapping[str, int]
    of: Mapping[str, int]
    """By axis, the number of rows that are better than tail drop, that are worse, and that have it."""
    costs: tuple[tuple[str, str], ...]
    """The rows and axes in which it is worse than tail drop."""

    @property
    def controls_delay(self) -> bool:
        """Whether the queuing delay is shorter than that of tail drop in most of the rows."""
        return 2 * self.better.get("delay", 0) > self.of.get("delay", 0)

    @property
    def loses_goodput(self) -> bool:
        """Whether the goodput is lower than that of tail drop in most of the rows."""
        return 2 * self.worse.get("goodput", 0) > self.of.get("goodput", 0)


def profile(judged: Sequence[Judged], place: int) -> Profile:
    """Sums a discipline up over its rows."""
    own = [one for one in judged if one.place == place]
    logs = {
        axis.name: [math.log(one.ratios[axis.name].value) for one in own if axis.name in one.ratios] for axis in AXES
    }
    return Profile(
        place,
        Counter(one.verdict for one in own),
        {name: math.exp(statistics.fmean(values)) for name, values in logs.items() if values},
        Counter(name for one in own for name, ratio in one.ratios.items() if ratio.better),
        Counter(name for one in own for name, ratio in one.ratios.items() if ratio.worse),
        {name: len(values) for name, values in logs.items()},
        tuple((one.row.name, name) for one in own for name, ratio in one.ratios.items() if ratio.worse),
    )


@dataclass(frozen=True)
class Evaluation:
    """The rows that were played, and what they say."""

    rows: tuple[Row, ...]
    names: tuple[str, ...]
    """The name of each discipline; the first is tail drop."""
    lines: tuple[str, ...]
    world: str
    buffer: float
    """In BDP."""
    seeds: int
    found: Mapping[str, Sequence[Seen]]
    """By the name of the row."""
    samples: Mapping[str, Sequence[Sample]]
    """The first seed's series by the name of the row; empty without pictures."""
    skipped: tuple[tuple[str, str, str], ...] = ()
    """Row, combination and reason of what the world could not play."""
    broken: tuple[str, ...] = ()
    """The causes of runs that a discipline of the user's ended."""
    runs: int = 0
    played: int = 0
    """The number of runs, and of those that were played now."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the programs that played them: `sojourn`, and in the kernel world `linux`."""

    @cached_property
    def judged(self) -> list[Judged]:
        """Every discipline but tail drop in every row."""
        return [one for row in self.rows for one in judge(row, self.found[row.name], range(1, len(self.names)))]

    def at(self, row: Row, place: int) -> Judged:
        """Returns the judgement of a discipline in a row."""
        return next(one for one in self.judged if one.row is row and one.place == place)

    @property
    def profiles(self) -> list[Profile]:
        """The profile of each discipline but tail drop."""
        return [profile(self.judged, place) for place in range(1, len(self.names))]


def headline(done: Evaluation) -> str:
    """Says in a few sentences which disciplines control the delay, and at which price."""
    profiles = done.profiles
    if not profiles:
        return "Only tail drop was played: there is nothing to compare it with."
    if done.seeds < 2:
        return "One seed shows no difference to be real: the numbers are shown without a verdict."
    short = [one for one in profiles if one.controls_delay]
    long = [one for one in profiles if not one.controls_delay]
    said = []
    if short:
        verb = "has" if len(short) == 1 else "have"
        said.append(f"{_listed(done, short)} {verb} a shorter queuing delay than tail drop in most rows.")
    costly = [one for one in short if one.loses_goodput]
    if costly:
        verb = "has" if len(costly) == 1 else "have"
        said.append(f"At a price: {_listed(done, costly)} {verb} less goodput in most rows.")
    if long:
        said.append(f"The queuing delay of {_listed(done, long)} is not shorter in most rows: bufferbloat.")
    most = max(one.verdicts.get("better", 0) for one in profiles)
    best = [one for one in profiles if one.verdicts.get("better", 0) == most]
    if most:
        verb = "is" if len(best) == 1 else "are each"
        rank = "" if len(profiles) == 1 else ", the most of all" if len(best) == 1 else ", the others in fewer"
        rank = "" if len(best) == len(profiles) else rank
        rows = f"{most} of {len(done.rows)} {'row' if len(done.rows) == 1 else 'rows'}"
        said.append(f"{_listed(done, best)} {verb} better in {rows} without being worse in anything{rank}.")
    return " ".join([*said, *_undecided(done)])


def _undecided(done: Evaluation) -> list[str]:
    """Says how many verdicts are open, and about how many seeds would decide half of those that seeds can decide."""
    undecided = [one for one in done.judged if one.verdict == "open" and one.ratios]
    if not undecided:
        return []
    needs = sorted(one.needs for one in undecided if one.needs)
    verdicts = "verdict is" if len(undecided) == 1 else "verdicts are"
    said = f"{len(undecided)} of {len(done.judged)} {verdicts} open"
    if not needs:
        return [f"{said}: no number of seeds up to {MOST_SEEDS} is likely to decide."]
    which = "it" if len(undecided) == 1 else "half of them"
    return [f"{said}: about --seeds {needs[(len(needs) - 1) // 2]} would decide {which}."]


def _listed(done: Evaluation, profiles: Sequence[Profile]) -> str:
    return listed([done.names[one.place] for one in profiles])


def as_dict(done: Evaluation) -> dict[str, Any]:
    """Returns everything for JSON."""
    return {
        "world": done.world,
        "versions": dict(done.versions),
        "seeds": done.seeds,
        "buffer_bdp": done.buffer,
        "margin": MARGIN,
        "disciplines": [{"name": name, "line": line} for name, line in zip(done.names, done.lines, strict=True)],
        "headline": headline(done),
        "rows": [
            {
                "row": row.name,
                "title": row.title,
                "need": row.need,
                "disciplines": {
                    done.names[place]: _judged_as_dict(done.at(row, place)) for place in range(1, len(done.names))
                },
                "seen": [_seen_as_dict(done, one) for one in done.found[row.name]],
            }
            for row in done.rows
        ],
        "profiles": {
            done.names[one.place]: {
                "verdicts": dict(one.verdicts),
                "ratios": dict(one.ratios),
                "better": dict(one.better),
                "worse": dict(one.worse),
                "rows": dict(one.of),
                "controls_delay": one.controls_delay,
                "costs": [{"row": row, "measure": axis} for row, axis in one.costs],
            }
            for one in done.profiles
        },
        "skipped": [{"row": row, "set": one, "reason": reason} for row, one, reason in done.skipped],
    }


def _judged_as_dict(one: Judged) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "seeds_needed": one.needs,
        "ratios": {
            name: {"value": ratio.value, "low": ratio.low, "high": ratio.high, "seeds": ratio.seeds,
                   "better": ratio.better, "worse": ratio.worse, "same": ratio.same, "seeds_needed": ratio.needs}
            for name, ratio in one.ratios.items()
        },
    }  # fmt: skip


def _seen_as_dict(done: Evaluation, one: Seen) -> dict[str, Any]:
    about = {"discipline": done.names[one.place], "case": one.case, "seed": one.seed, "class": one.name or None}
    return {**about, "kind": one.kind or None, **one.values}
