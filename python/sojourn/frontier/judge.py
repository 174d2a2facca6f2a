"""Places disciplines against the envelope of the fixed settings of a point.

The frontier at a utilisation is the least mean delay among the fixed settings that reach this utilisation: a staircase,
because nothing is known between two settings. The utilisation is the busy fraction of the link, and the delay is the
mean sojourn of the packets in its queue, both from `START_S` to the end of the run. Means are over the seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sojourn.frontier.point import HOP, KEY, Point
from sojourn.means import Mean, mean_of, present
from sojourn.results import Results

Floats = NDArray[np.float64]

MEASURES = ("utilisation", "sojourn_ms.mean", "sojourn_ms.p95", "drops", "delivered_packets")
"""The measures of the queue that are read."""
TOLERANCE = 0.0005
"""A setting reaches a utilisation if it lacks at most this share of the link: half of the last digit in tables."""
FLOW_QUEUES = ("fq_codel", "fq")
"""Fixed settings that give each flow a queue of its own."""
LEAST_MS = 0.001
"""Smaller delays count as this one in ratios."""


@dataclass(frozen=True)
class Setting:
    """A discipline's line and what the runs with it found, a number for each seed; NaN where a run has none."""

    line: str
    utilisation: Floats
    """The busy fraction of the link."""
    delay_ms: Floats
    """The mean sojourn."""
    p95_ms: Floats
    """The 95th percentile of the sojourn."""
    loss: Floats
    """Dropped packets as a share of all that arrived."""

    @cached_property
    def x(self) -> float:
        """The mean delay over the seeds, in ms; NaN if no run has one."""
        return _mean(self.delay_ms)

    @cached_property
    def y(self) -> float:
        """The mean utilisation over the seeds; NaN if no run has one."""
        return _mean(self.utilisation)

    def mean(self, values: Floats) -> Mean | None:
        """The mean over the seeds, with its interval."""
        return mean_of(present(values))


def _mean(values: Floats) -> float:
    there = values[~np.isnan(values)]
    return float(np.mean(there)) if len(there) else float("nan")


def staircase(fixed: Sequence[Setting]) -> tuple[Setting, ...]:
    """Returns the settings on the frontier, with rising delay and utilisation: no setting has less delay at no less
    utilisation than one of them. Settings without numbers are left out.
    """
    found: list[Setting] = []
    for one in sorted(fixed, key=lambda one: (one.x, -one.y)):
        if np.isfinite(one.x + one.y) and (not found or one.y > found[-1].y):
            found.append(one)
    return tuple(found)


def place_at(steps: Sequence[Setting], utilisation: float, tolerance: float = TOLERANCE) -> int | None:
    """Returns the index of the step with the least delay that reaches this utilisation; None if no step does."""
    return next((place for place, one in enumerate(steps) if one.y >= utilisation - tolerance), None)


@dataclass(frozen=True)
class Placed:
    """A discipline against the frontier."""

    setting: Setting
    against: Setting
    """The setting of the frontier at the discipline's utilisation; the last one if no setting reaches that."""
    below: Setting | None
    """The setting on the step below. The frontier of all settings, also of those that were not played, is at most the
    delay of `against` there, and not less than that of `below` if it rises with the utilisation.
    """
    is_beyond: bool
    """Whether no fixed setting reaches the discipline's utilisation."""
    fq: Setting
    """The setting at this utilisation on the frontier of those that give each flow a queue of its own. A FIFO of a few
    packets has less delay than that where many flows share a slow link, but is unfair and drops many packets.
    """

    @cached_property
    def excess(self) -> Mean | None:
        """The discipline's delay less that of `against`, paired by seed, in ms.

        The interval does not contain that another setting might be the frontier's with other seeds.
        """
        return mean_of(present(self.setting.delay_ms - self.against.delay_ms))

    @property
    def ratio(self) -> float:
        """The discipline's delay as a multiple of the frontier's."""
        return _ratio(self.setting, self.against)

    @property
    def fq_ratio(self) -> float:
        """The discipline's delay as a multiple of that of `fq`."""
        return _ratio(self.setting, self.fq)

    @property
    def most_ratio(self) -> float:
        """The same against the step below: the ratio cannot be larger, however finely settings are tried."""
        return _ratio(self.setting, self.below or self.against)


def _ratio(one: Setting, other: Setting) -> float:
    return max(one.x, LEAST_MS) / max(other.x, LEAST_MS)


@dataclass(frozen=True)
class Judged:
    """A point with its frontier and the disciplines that were placed."""

    point: Point
    fixed: tuple[Setting, ...]
    """The fixed settings that were played."""
    steps: tuple[Setting, ...]
    """Those on the frontier."""
    placed: tuple[Placed, ...]
    usual: Setting | None
    """fq_codel with its defaults, with whose utilisation others are compared."""
    origin: str
    """Seeds, world and version."""

    def placed_at(self, line: str) -> Placed | None:
        """The place of a discipline; None if the world could not play it."""
        return next((one for one in self.placed if one.setting.line == line), None)


USUAL = "fq_codel"


def judge(point: Point, settings: Sequence[Setting], fixed: Sequence[str], lines: Sequence[str], origin: str) -> Judged:
    """Judges a point by its settings. `fixed` are the lines of the fixed ones, and `lines` those to place."""
    found = {one.line: one for one in settings}
    settings = tuple(found[line] for line in fixed if line in found)
    steps = staircase(settings)
    there = [found[line] for line in lines if line in found and np.isfinite(found[line].x + found[line].y)]
    fq = staircase([one for one in settings if one.line.split()[0] in FLOW_QUEUES])
    placed = tuple(place(steps, one, fq) for one in there) if steps and fq else ()
    return Judged(point, settings, steps, placed, found.get(USUAL), origin)


def place(steps: Sequence[Setting], one: Setting, fq: Sequence[Setting]) -> Placed:
    """Places a discipline against a frontier, and against `fq`, that of the settings with a queue for each flow. Both
    have at least one step.
    """
    at, at_fq = place_at(steps, one.y), place_at(fq, one.y)
    with_queues = fq[-1 if at_fq is None else at_fq]
    if at is None:
        return Placed(one, steps[-1], steps[-1], is_beyond=True, fq=with_queues)
    return Placed(one, steps[at], steps[at - 1] if at > 0 else None, is_beyond=False, fq=with_queues)


def read(done: Results) -> list[Setting]:
    """Returns the settings of the results of `point.plan_of`."""
    numbers = done.numbers([f"hops.{HOP}.{path}" for path in MEASURES])
    utilisation, delay, p95, drops, delivered = (numbers[f"hops.{HOP}.{path}"] for path in MEASURES)
    arrived = drops + delivered
    loss = np.divide(drops, arrived, out=np.full(len(drops), np.nan), where=arrived > 0)
    seeds = [done.kept.seed(index) for index in done.indices]
    places = {seed: place for place, seed in enumerate(dict.fromkeys(seeds))}
    found, begin = [], 0
    for one in done.combinations:
        part = slice(begin, begin + len(one.indices))
        begin = part.stop
        at = [places[seed] for seed in seeds[part]]
        own = [_at(at, values[part], len(places)) for values in (utilisation, delay, p95, loss)]
        found.append(Setting(one.set[KEY], *own))
    return found


def _at(places: Sequence[int], values: Floats, count: int) -> Floats:
    """Puts values to the places of their seeds: a discipline of the user's may lack some."""
    found = np.full(count, np.nan)
    found[places] = values
    return found
