"""Which cases of a comparison are best by what people notice: pings, thin flows, calls, pages, video, responsiveness.

The headline of `run`, `sweep`, the report and the API decides by this module. Where it finds no difference, the
headline decides by the queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn import paired, table
from sojourn.cases import Address, Cases, Values
from sojourn.means import mean_of
from sojourn.table import Column, Kind, Noticed
from sojourn.words import listed, number_text, time_text

SPARSE_MBIT = 1.0
"""Datagrams of more than this rate are load, and no game or call whose delay people notice."""
MOST_SAID = 3
"""This many measures are named in a sentence about a trade."""


@dataclass(frozen=True)
class Measure:
    """A column of the tables for one group of flows."""

    name: str
    """`RTT p95 of pings0`."""
    people: str
    """The name that people have for these flows: `pages`."""
    column: Column
    address: Address
    values: Values
    noticed: Noticed
    decides: bool
    """Whether the headline decides by it. Otherwise it only says where the best case is worse than another."""

    @property
    def sign(self) -> float:
        """1 if higher values are better, otherwise -1."""
        return 1.0 if self.column.better == "higher" else -1.0

    def text(self, case: int) -> str:
        """Returns the mean of a case with its unit."""
        mean = mean_of(self.values[case])
        if mean is None:
            return "none"
        if self.column.unit in ("ms", "s"):
            return time_text(mean.value * (1000.0 if self.column.unit == "s" else 1.0))
        return f"{number_text(mean.value * self.column.scale)} {self.column.unit}".strip()


@dataclass(frozen=True)
class Trade:
    """A measure in which one case is worse than another."""

    measure: Measure
    worse: int
    better: int
    noticed: bool
    """Whether people would notice the difference."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of the cases of a family by their numbers."""

    lead: list[int]
    """The cases than which no other is better in any deciding measure. Empty if it is a trade."""
    rivals: list[int]
    """The cases of a trade: each is better than another in something, and none is worse in all. Empty without a trade.
    """
    people: list[str]
    """The kinds of flows for which cases differ: `pings`, `pages`."""
    contested: list[Measure]
    """The deciding measures in which the cases differ, or in which the rivals do."""


def measures(cases: Cases) -> list[Measure]:
    """Returns the columns of all flows that people notice, those that decide and the others."""
    floor = min(1.0, 0.1 * cases.longest_rtt_ms)
    found = []
    for kind in table.KINDS:
        if not kind.people:
            continue
        groups = table.groups_of(cases, kind)
        for name, flows in groups.items():
            if flows[0].kind in ("cbr", "onoff") and not _is_sparse(cases, name):
                continue
            names = [flow.name for flow in flows]
            known = [(one, one.of_flows(names)) for one in kind.columns if one.better]
            read = {address: cases.read(address) for _, address in known}
            there = {address for address, values in read.items() if any(one is not None for of in values for one in of)}
            pages = any(address.path.startswith("page_load_s") for address in there)
            people = _people(kind, flows[0].kind, pages=pages)
            for column, address in known:
                if address not in there:
                    continue
                bound = column.noticed or Noticed(1.0 if column.unit == "ms" else 0.02)
                if column.unit == "ms":
                    bound = Noticed(min(bound.least, floor), bound.share)
                decides = column.noticed is not None and not (pages and column.path.startswith("fct_s"))
                said = f"{column.head} of {name}"
                found.append(Measure(said, people, column, address, read[address], bound, decides))
    return found


def _people(kind: Kind, flow: str, *, pages: bool) -> str:
    if flow == "web" and not pages:
        return "web transfers"
    return "datagrams" if flow in ("cbr", "onoff") else kind.people


def _is_sparse(cases: Cases, name: str) -> bool:
    rates = cases.read(Address("goodput_mbit", flows=(name,), how="most"))
    return all(value is None or value <= SPARSE_MBIT for of_case in rates for value in of_case)


def worse(cases: Cases, measure: Measure, one: int, other: int, *, noticed: bool = True) -> bool:
    """Returns whether a case is shown to be worse than another in a measure; with `noticed`, by a difference that
    people notice. One seed counts as it is if there is no other.

    A discipline with which a flow has no number, although it has one with another discipline, is worse.
    """
    ours, theirs = mean_of(measure.values[one]), mean_of(measure.values[other])
    if ours is None or theirs is None:
        by_discipline = (paired.key_of(cases) or "").endswith(".qdisc")
        return ours is None and theirs is not None and by_discipline
    if measure.sign * (theirs.value - ours.value) <= 0:
        return False
    apart = abs(theirs.value - ours.value)
    bound = max(measure.noticed.least, measure.noticed.share * max(abs(ours.value), abs(theirs.value)))
    if noticed and apart < bound:
        return False
    return paired.differ(cases, measure.values, one, other, by_one_seed=not cases.several_seeds)


def judge(cases: Cases, members: Sequence[int], known: Sequence[Measure]) -> Verdict | None:
    """Judges cases by the deciding measures. Returns None if people notice no difference between them."""
    deciding = [one for one in known if one.decides]
    pairs = list(itertools.permutations(members, 2))
    beats = {pair: [one for one in deciding if worse(cases, one, pair[1], pair[0])] for pair in pairs}
    if not any(beats.values()):
        return None
    lead = [one for one in members if not any(beats[other, one] for other in members if other != one)]
    rivals: list[int] = []
    if not lead:
        dominated = {b for (a, b) in pairs if beats[a, b] and not beats[b, a]}
        rivals = [one for one in members if one not in dominated]
        rivals = rivals if len(rivals) > 1 else list(members)
    among = rivals or list(members)
    won = [one for (a, b), found in beats.items() if a in among and b in among for one in found]
    contested = [one for one in deciding if one in won]
    return Verdict(lead, rivals, list(dict.fromkeys(one.people for one in contested)), contested)


def trades(cases: Cases, lead: Sequence[int], members: Sequence[int], known: Sequence[Measure]) -> list[Trade]:
    """Returns the measures in which a case of the lead is shown to be worse than another case, the largest differences
    first. One seed of random traffic shows only the differences that people notice.
    """
    one_seed = cases.random and not cases.several_seeds
    found: dict[str, tuple[float, Trade]] = {}
    for measure in known:
        if one_seed and not measure.decides:
            continue
        for one, other in itertools.product(lead, members):
            if one == other or not worse(cases, measure, one, other, noticed=one_seed):
                continue
            noticed = one_seed or worse(cases, measure, one, other)
            apart = _ratio(measure, one, other)
            if measure.name not in found or apart > found[measure.name][0]:
                found[measure.name] = apart, Trade(measure, one, other, noticed)
    ranked = sorted(found.values(), key=lambda pair: (not pair[1].noticed, -pair[0]))
    return [one for _, one in ranked]


def _ratio(measure: Measure, one: int, other: int) -> float:
    ours, theirs = mean_of(measure.values[one]), mean_of(measure.values[other])
    if ours is None or theirs is None:
        return float("inf")
    low, high = sorted((abs(ours.value), abs(theirs.value)))
    return high / low if low else float("inf")


def trade_sentence(found: Sequence[Trade], labels: Sequence[str]) -> str:
    """Says in which measures the best cases are worse than another; empty if there are none."""
    if not found:
        return ""
    is_felt = any(one.noticed for one in found)
    said = [
        f"{one.measure.name} is {one.measure.text(one.worse)} with {labels[one.worse]} and "
        f"{one.measure.text(one.better)} with {labels[one.better]}"
        for one in ([one for one in found if one.noticed][:MOST_SAID] or found[:1])
    ]
    more = sum(one.noticed for one in found) - len(said)
    others = f"; {more} more {'number' if more == 1 else 'numbers'} in the tables" if more > 0 else ""
    size = "A trade" if is_felt else "A trade too small to notice"
    return f"{size}: {'; '.join(said)}{others}."


def contest_sentence(cases: Cases, verdict: Verdict, labels: Sequence[str]) -> str:
    """Says of a trade which case is best in what."""
    said = []
    for measure in verdict.contested[: MOST_SAID + 1]:
        there = [one for one in verdict.rivals if mean_of(measure.values[one])]

        def value(case: int, measure: Measure = measure) -> float:
            mean = mean_of(measure.values[case])
            assert mean is not None
            return measure.sign * mean.value

        best = max(there, key=value)
        worst = next((one for one in verdict.rivals if one not in there), min(there, key=value))
        said.append(
            f"{measure.name} is {measure.text(best)} with {labels[best]} and {measure.text(worst)} with {labels[worst]}"
        )
    return f"No case is best for {listed(verdict.people)}, it is a trade: {'; '.join(said)}."


def addresses(cases: Cases) -> list[Address]:
    """Returns the deciding measures that exist, as the API and its `print` show them."""
    return [one.address for one in measures(cases) if one.decides]
