"""A comparison in a sentence or two: which case keeps delay low without losing throughput, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn import paired, queues
from sojourn.cases import Address, Cases
from sojourn.means import Mean, mean_of
from sojourn.table import more_seeds, number
from sojourn.words import time_text

SAME = 0.02
"""A case whose goodput is within this share of the highest counts as losing no throughput."""
ACCEPTABLE = 0.15
"""A case whose goodput is further below the highest than this share is never named best, whatever its delay."""
NEGLIGIBLE_MS = 1.0
"""Below this a queue counts as not building up."""


@dataclass(frozen=True)
class Fact:
    """The numbers of a case that the headline compares."""

    case: int
    label: str
    delay_ms: Mean
    """The measure of `paired.delay`: the compared queue's, or the path's."""
    goodput_mbit: float
    """All flows together."""
    latency_ms: Mean | None
    """95th percentile of the sparse flows' latency, if there are any."""
    felt: tuple[str, ...] = ()
    """Results of calls, web pages and video, in words."""


def facts(cases: Cases) -> list[Fact]:
    """A fact for each case that has both delay and goodput."""
    sparse = paired.sparse_latency(cases)
    delays, goodputs = cases.read(paired.delay(cases).address), cases.read(Address("goodput_mbit"))
    latencies = cases.read(sparse.address) if sparse else [[] for _ in cases.sets]
    felt = [(one, cases.read(one.address)) for one in paired.felt(cases)]
    felt = [(one, values) for one, values in felt if any(map(any, values))]  # a video that never stalls says nothing
    found = []
    for case, label in enumerate(cases.short_labels()):
        delay, goodput = mean_of(delays[case]), mean_of(goodputs[case])
        if delay and goodput:
            noticed = tuple(_noticed(one, mean) for one, values in felt if (mean := mean_of(values[case])))
            found.append(Fact(case, label, delay, goodput.value, mean_of(latencies[case]), noticed))
    return found


def _noticed(measure: paired.Measure, mean: Mean) -> str:
    return f"{measure.name} {time_text(1e3 * mean.value) if measure.unit == 's' else number(mean.value, 3)}"


def sentences(cases: Cases) -> list[str]:
    """The headline; nothing where only one case is shown."""
    known = facts(cases)
    if len(known) < 2:
        return []
    families = [[one for one in known if one.case in family] for family in paired.families(cases)]
    families = [one for one in families if len(one) > 1]
    if max(one.delay_ms.value for one in known) < NEGLIGIBLE_MS:
        said = [
            f"No queue builds up: 95 % of the packets wait less than {time_text(NEGLIGIBLE_MS)} in {cases.compared}."
        ]
    elif len(families) == 1:
        said = _one_family(cases, families[0])
    elif families:
        said = _many_families(cases, families)
    else:
        said = _many_families(cases, [known])
    return [*said, *_chance(cases, families)]


def _winner(family: Sequence[Fact]) -> tuple[Fact, Fact]:
    """The case with the least delay of those whose goodput is acceptable, and the case with the least of all."""
    most = _most(family).goodput_mbit
    acceptable = [one for one in family if one.goodput_mbit >= (1 - ACCEPTABLE) * most]
    return min(acceptable, key=_by_delay), min(family, key=_by_delay)


def _most(family: Sequence[Fact]) -> Fact:
    return max(family, key=lambda one: one.goodput_mbit)


def _by_delay(one: Fact) -> float:
    return one.delay_ms.value


def _one_family(cases: Cases, family: Sequence[Fact]) -> list[str]:
    winner, lowest = _winner(family)
    worst = max(family, key=_by_delay)
    if worst.delay_ms.value - lowest.delay_ms.value <= paired.ROUNDING * worst.delay_ms.value:
        return [f"All cases keep packets waiting equally long: {_numbers(cases, worst)}."]
    if worst is winner:  # no other case has acceptable goodput: this is a trade, and no case is named best
        said = [f"{lowest.label} has less delay, but {_lacks(lowest, family)}: {_numbers(cases, lowest)}."]
    elif lowest is winner:
        lacks = _lacks(winner, family)
        cost = f", at {lacks} than {_most(family).label}" if lacks else " without losing throughput"
        said = [f"{winner.label} keeps delay lowest{cost}: {_numbers(cases, winner)}."]
    else:
        bound = f"at most {100 * ACCEPTABLE:g} % less goodput than the highest"
        said = [
            f"{winner.label} has the least delay with {bound}: {_numbers(cases, winner)}.",
            f"{lowest.label} has less delay, but {_lacks(lowest, family)}: {_numbers(cases, lowest)}.",
        ]
    if worst is winner or worst not in (winner, lowest):
        said.append(f"With {worst.label}: {_numbers(cases, worst)}.")
    return said


def _lacks(one: Fact, family: Sequence[Fact]) -> str:
    """`9 % less goodput`; nothing where it is as good as the highest."""
    share = 1 - one.goodput_mbit / _most(family).goodput_mbit
    return f"{number(100 * share, 2)} % less goodput" if share > SAME else ""


def _numbers(cases: Cases, one: Fact) -> str:
    """`95 % of the packets wait at most 13 ms in home, ping RTT p95 52 ms, goodput 4.6 Mbit/s`."""
    said = [_waits(cases, one)]
    sparse = paired.sparse_latency(cases)
    if sparse and one.latency_ms:
        said.append(f"{sparse.name} {time_text(one.latency_ms.value)}")
    said += one.felt
    said.append(f"goodput {number(one.goodput_mbit, 3)} Mbit/s")
    return ", ".join(said)


def _waits(cases: Cases, one: Fact) -> str:
    if cases.shares_path:
        way = "left" if cases.compared.endswith(queues.REVERSE) else "right"
        return f"the path's queues to the {way} together delay {time_text(one.delay_ms.value)} on average"
    return f"95 % of the packets wait at most {time_text(one.delay_ms.value)} in {cases.compared}"


def _many_families(cases: Cases, families: Sequence[Sequence[Fact]]) -> list[str]:
    key = paired.key_of(cases) or ""
    winners = [paired.value_of(cases.sets[_winner(one)[0].case], key) for one in families]
    counts = {value: winners.count(value) for value in winners}
    said = [f"{value} in {count}" for value, count in sorted(counts.items(), key=lambda pair: -pair[1])]
    bound = f"at most {100 * ACCEPTABLE:g} % less goodput than the best"
    return [f"Lowest delay in {cases.compared} with {bound}, in {len(families)} settings: {', '.join(said)}."]


def _chance(cases: Cases, families: Sequence[Sequence[Fact]]) -> list[str]:
    """Which differences the seeds leave open, and how many more would settle them."""
    if not cases.random:
        return ["Nothing in this scenario is random: every seed gives the same numbers, and one run is shown."]
    if not cases.several_seeds:
        return ["One seed cannot show which differences are significant: use --seeds 10."]
    if len(families) != 1:
        return []
    winner, _ = _winner(families[0])
    labels = cases.short_labels()
    measure = paired.measures(cases)[0]
    values = cases.read(measure.address)
    found = [
        paired.difference(cases, measure, values, one.case, winner.case) for one in families[0] if one is not winner
    ]
    open_ones = [one for one in found if one and not one.told_apart]
    if not open_ones:
        return []
    words = [labels[one.case] + more_seeds(one.further_seeds) for one in open_ones]
    return [f"No significant difference in delay between {labels[winner.case]} and {', '.join(words)}."]
