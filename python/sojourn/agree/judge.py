"""Computes how far two worlds are apart: differences with intervals, equivalence tests, distances, and rankings of
disciplines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from sojourn.means import Mean, mean_of, student

WORLDS = ("sim", "kernel")
SHARES = np.concatenate(([0.001], np.arange(0.005, 0.9951, 0.005), [0.999]))
"""The sojourn's distribution is kept and compared at these quantiles, each a share of the packets."""


@dataclass(frozen=True)
class Measure:
    """A number of a run that is compared."""

    name: str
    head: str
    unit: str
    margin: float
    """The largest difference that counts as equal. It is a share of the kernel's number if `relative`, and otherwise in
    percentage points.
    """
    read: Callable[[Run, str], float | None]
    relative: bool = True
    floor: float = 1.0
    """A relative difference is a share of the kernel's number, or of this number if it is larger."""
    of_path: bool = False
    """Whether it measures all flows together. Such a measure counts only for the compared queue of a path, so that it
    counts once.
    """

    def apart(self, sim: float, kernel: float, scale: float | None = None) -> float:
        """Returns the simulator's number minus the kernel's, as a share or in percentage points."""
        if not self.relative:
            return sim - kernel
        return (sim - kernel) / max(abs(kernel if scale is None else scale), self.floor)


@dataclass(frozen=True)
class Run:
    """The part of a run in a world that is kept."""

    world: str
    seed: int
    result: dict[str, Any]
    """The run's entry in the output of `sojourn run -f json`."""
    quantiles: dict[str, list[float]]
    """Maps a hop to the sojourn in ms at each of `SHARES`."""
    qdisc: dict[str, str]
    """Maps a hop to its discipline's line."""
    player: str = ""
    """The program and modules that were in the guest, as a text to compare."""
    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Series over time, kept for the first seed only. A hop's name leads to `time_s` and `queue_delay_ms`; `cwnd` leads
    to the first sender's window.
    """
    counts: int = 1
    """The version of the way in which packets are counted. In version 1, a packet that Linux retransmits counts once;
    from 2 on, each of its segments counts.
    """


def _hop(*path: str, scale: float = 1.0) -> Callable[[Run, str], float | None]:
    def read(run: Run, hop: str) -> float | None:
        value: Any = run.result["hops"][hop]
        for part in path:
            value = None if value is None else value[part]
        return None if value is None else scale * float(value)

    return read


def _flows(key: str) -> Callable[[Run, str], float | None]:
    def read(run: Run, _hop: str) -> float | None:
        values = [flow[key] for flow in run.result["flows"] if flow.get(key) is not None]
        return float(math.fsum(values)) if values else None

    return read


def _fct(run: Run, _hop: str) -> float | None:
    """Returns the mean completion time over all transfers that were completed."""
    done = [(flow["fct_s"]["mean"], flow["completed"]) for flow in run.result["flows"] if flow["fct_s"] is not None]
    count = sum(many for _, many in done)
    return math.fsum(mean * many for mean, many in done) / count if count else None


MEASURES = (
    Measure("goodput", "goodput", "Mbit/s", 0.02, _flows("goodput_mbit"), floor=0.001, of_path=True),
    Measure("utilisation", "utilisation", "%", 1.0, _hop("utilisation", scale=100), relative=False),
    Measure("mean", "sojourn mean", "ms", 0.08, _hop("sojourn_ms", "mean"), floor=0.01),
    Measure("p50", "sojourn p50", "ms", 0.12, _hop("sojourn_ms", "p50"), floor=0.01),
    Measure("p95", "sojourn p95", "ms", 0.12, _hop("sojourn_ms", "p95"), floor=0.01),
    Measure("p99", "sojourn p99", "ms", 0.15, _hop("sojourn_ms", "p99"), floor=0.01),
    Measure("drops", "drops", "", 0.15, _hop("drops"), floor=10),
    Measure("marks", "marks", "", 0.15, _hop("marks"), floor=10),
    Measure("retransmits", "retransmits", "", 0.15, _flows("retransmits"), floor=10, of_path=True),
    Measure("fct", "FCT", "s", 0.10, _fct, floor=0.001, of_path=True),
)
BY_NAME = {one.name: one for one in MEASURES}


@dataclass(frozen=True)
class Difference:
    """The difference between both worlds in one measure of one scenario, over the seeds that both have."""

    measure: Measure
    sim: float
    kernel: float
    value: float
    """The simulator's mean minus the kernel's, as a share of the kernel's or in percentage points."""
    half_width: float | None
    """Half the width of the 95 % interval of the mean (Student's t), from the differences seed by seed."""
    verdict: str
    """`agrees` if the difference is shown to be within the margin (two one-sided tests at 5 %), `differs` if it is
    shown to be beyond it, and otherwise `open`.
    """
    chance: float | None
    """The difference that chance alone causes: the median difference between two means of the kernel, each over as many
    seeds. None with a single seed.
    """


@dataclass(frozen=True)
class Pair:
    """The runs of both worlds for one queue and one combination of a scenario."""

    file: str
    label: str
    """The words that distinguish the combination from the others of its file."""
    hop: str
    qdisc: str
    title: str
    sim: dict[int, Run]
    """The simulator's runs by seed."""
    kernel: dict[int, Run]
    rest: str = ""
    """The part of the label that is not a discipline."""
    compared: bool = True
    """Whether this is the queue that the scenario is about. Only such a pair has the measures of the whole path."""

    @property
    def name(self) -> str:
        """The name in tables."""
        name = f"{self.file}: {self.label}" if self.label else self.file
        return name if self.compared else f"{name} · {self.hop}"

    @property
    def seeds(self) -> list[int]:
        """The seeds that both worlds have."""
        return sorted(self.sim.keys() & self.kernel.keys())

    def differences(self) -> Iterator[Difference]:
        """The difference in every measure that both worlds have."""
        for measure in MEASURES:
            if (one := self.difference(measure)) is not None:
                yield one

    def varies(self) -> bool:
        """Returns whether the kernel's runs differ from each other at all. If they are all equal, they give no
        interval.
        """
        sojourns = [self.kernel[seed].quantiles[self.hop] for seed in self.seeds]
        return any(one != sojourns[0] for one in sojourns)

    def difference(self, measure: Measure) -> Difference | None:
        """The difference in one measure; None if a world has no such number, or if it is 0 in both."""
        if measure.of_path and not self.compared:
            return None
        both = [
            (measure.read(self.sim[seed], self.hop), measure.read(self.kernel[seed], self.hop)) for seed in self.seeds
        ]
        known = [(sim, kernel) for sim, kernel in both if sim is not None and kernel is not None]
        if not any(value for pair in known for value in pair):
            return None
        sim, kernel = (statistics.fmean(values) for values in zip(*known, strict=True))
        apart = [measure.apart(one, other, kernel) for one, other in known]
        own = [measure.apart(other, kernel, kernel) for _, other in known]
        return _judged(measure, sim, kernel, *((apart, own) if self.varies() else (apart[:1], own[:1])))

    def distance(self) -> float | None:
        """Returns the Wasserstein distance between both worlds' distributions of the sojourn, averaged over the seeds.
        Its unit is the kernel's mean sojourn.
        """
        return self._distance([(self.sim[seed], self.kernel[seed]) for seed in self.seeds])

    def own_distance(self) -> float | None:
        """Returns the same distance between the kernel's runs with one seed and with the next: the distance that chance
        alone causes.
        """
        return self._distance([(self.kernel[a], self.kernel[b]) for a, b in pairwise(self.seeds)])

    def _distance(self, pairs: Sequence[tuple[Run, Run]]) -> float | None:
        functions = [(np.array(one.quantiles[self.hop]), np.array(other.quantiles[self.hop])) for one, other in pairs]
        known = [(one, other) for one, other in functions if len(one) and len(other)]
        whole = statistics.fmean(float(other.mean()) for _, other in known) if known else 0.0
        if whole <= 0:
            return None
        return statistics.fmean(float(np.abs(one - other).mean()) for one, other in known) / whole


MEDIAN_OF_NORMAL = statistics.NormalDist().inv_cdf(0.75)
"""The median of the absolute value of a standard normal variable."""


def _judged(measure: Measure, sim: float, kernel: float, apart: Sequence[float], own: Sequence[float]) -> Difference:
    mean = mean_of(apart)
    assert mean is not None
    chance = MEDIAN_OF_NORMAL * math.sqrt(2 / len(own)) * statistics.stdev(own) if len(own) > 1 else None
    verdict = _verdict(measure.margin, mean, apart)
    return Difference(measure, sim, kernel, mean.value, mean.half_width, verdict, chance)


def _verdict(margin: float, mean: Mean, apart: Sequence[float]) -> str:
    """Returns the verdict of Schuirmann's two one-sided tests: both worlds agree if the 90 % interval lies within the
    margins.
    """
    if mean.half_width is None:
        return "open"
    if mean.half_width == 0:
        return "agrees" if abs(mean.value) <= margin else "differs"
    error = statistics.stdev(apart) / math.sqrt(len(apart))
    half = student(0.95, len(apart) - 1) * error
    if abs(mean.value) + half <= margin:
        return "agrees"
    return "differs" if abs(mean.value) - half > margin else "open"


# ---- over many scenarios ----


@dataclass(frozen=True)
class Summary:
    """A measure over many scenarios."""

    measure: Measure
    count: int
    median: float
    """The median of the absolute differences."""
    chance: float | None
    """The median of the differences that chance alone causes (`Difference.chance`)."""
    p90: float
    agrees: int
    differs: int


def differences(pairs: Sequence[Pair], measure: Measure) -> list[Difference]:
    """The differences of the pairs that have this measure."""
    return [one for pair in pairs if (one := pair.difference(measure)) is not None]


def summaries(pairs: Sequence[Pair]) -> list[Summary]:
    """A summary of each measure that any pair has."""
    found = []
    for measure in MEASURES:
        all_of_them = differences(pairs, measure)
        if not all_of_them:
            continue
        sizes = [abs(one.value) for one in all_of_them]
        chances = [one.chance for one in all_of_them if one.chance is not None]
        found.append(
            Summary(
                measure,
                len(sizes),
                float(np.median(sizes)),
                float(np.median(chances)) if chances else None,
                float(np.quantile(sizes, 0.9)),
                sum(one.verdict == "agrees" for one in all_of_them),
                sum(one.verdict == "differs" for one in all_of_them),
            )
        )
    return found


@dataclass(frozen=True)
class Ranking:
    """How well both worlds agree on the order of one scenario's disciplines."""

    file: str
    measure: str
    disciplines: int
    tau: float | None
    """Kendall's tau between both worlds' orders, over all pairs of disciplines. None if all disciplines are equal in
    one world.
    """
    itself: float | None
    """Kendall's tau between the kernel's order with its even seeds and with its odd ones. Chance alone limits the
    agreement to about this.
    """
    clear: int
    """The number of pairs of disciplines that clearly differ in the kernel: the 95 % interval of their differences,
    taken seed by seed, excludes zero.
    """
    clear_tau: float | None
    """Kendall's tau over the pairs that clearly differ."""


def rankings(pairs: Sequence[Pair], measures: Sequence[str] = ("p95", "goodput")) -> list[Ranking]:
    """Returns a ranking by each measure of the compared queue. There is one for each scenario file and each setting of
    its other keys with at least three disciplines.
    """
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if pair.compared:
            groups.setdefault((pair.file, pair.rest), []).append(pair)
    ranked = [(key, group) for key, group in groups.items() if len({one.qdisc for one in group}) >= 3]
    return [_ranking(", ".join(filter(None, key)), group, BY_NAME[name]) for key, group in ranked for name in measures]


def _ranking(file: str, group: Sequence[Pair], measure: Measure) -> Ranking:
    seeds = sorted(set.intersection(*(set(pair.seeds) for pair in group)))

    def values(pair: Pair, world: str) -> list[float]:
        runs: dict[int, Run] = getattr(pair, world)
        return [measure.read(runs[seed], pair.hop) or 0.0 for seed in seeds]

    if not seeds:
        return Ranking(file, measure.name, len(group), None, None, 0, None)

    sim, kernel = ([statistics.fmean(values(pair, world)) for pair in group] for world in WORLDS)
    halves = [[values(pair, "kernel")[start::2] for pair in group] for start in (0, 1)]
    itself = _tau(*([statistics.fmean(one) for one in half] for half in halves)) if len(seeds) > 1 else None
    signs = []
    for i in range(len(group)):
        for j in range(i):
            apart = [a - b for a, b in zip(values(group[i], "kernel"), values(group[j], "kernel"), strict=True)]
            mean = mean_of(apart)
            if mean is None or mean.half_width is None or abs(mean.value) <= mean.half_width:
                continue
            signs.append(float(np.sign(mean.value) * np.sign(sim[i] - sim[j])))
    clear = statistics.fmean(signs) if signs else None
    return Ranking(file, measure.name, len(group), _tau(sim, kernel), itself, len(signs), clear)


def _tau(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Returns Kendall's tau, corrected for ties (tau-b), or None if all numbers of one side are equal."""
    signs = [[(a > b) - (a < b) for a, b in combinations(side, 2)] for side in (some, others)]
    # The square of a sign is 1, or 0 for a tie.
    apart = math.prod(sum(map(abs, side)) for side in signs)
    return sum(a * b for a, b in zip(*signs, strict=True)) / math.sqrt(apart) if apart else None
