"""A comparison in two or three sentences: which cases keep delay low without losing throughput, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sojourn import paired, queues
from sojourn.cases import Cases
from sojourn.means import Mean, mean_of
from sojourn.table import FEW_SETTINGS, more_seeds, number
from sojourn.words import time_text

SAME = 0.02
"""A case whose goodput is within this share of the highest counts as losing no throughput."""
ACCEPTABLE = 0.15
"""A case that is shown to have less goodput than the highest, by more than this share, is never named best, whatever
its delay."""
NEGLIGIBLE_MS = 1.0
NEGLIGIBLE_SHARE = 0.1
"""A queue with less delay than the first, and less than this share of the longest base RTT, counts as one that does not
build up."""
FEW_CASES = 4
"""If more cases than this are alike, they are counted and not named."""


@dataclass(frozen=True)
class Fact:
    """The numbers of a case that the headline compares."""

    case: int
    label: str
    delay_ms: Mean
    """The measure of `paired.delay`: the compared queue's, or the path's."""
    goodput_mbit: Mean
    """All flows together."""
    felt: tuple[Mean | None, ...]
    """Delays and quality of sparse flows, calls, web pages and video: a number for each of `_noticed`."""


def facts(cases: Cases) -> list[Fact]:
    """Returns the facts of each case that has both delay and goodput."""
    delays, goodputs = cases.read(paired.delay(cases).address), cases.read(paired.GOODPUT.address)
    felt = [cases.read(one.address) for one in _noticed(cases)]
    found = []
    for case, label in enumerate(cases.short_labels()):
        delay, goodput = mean_of(delays[case]), mean_of(goodputs[case])
        if delay and goodput:
            found.append(Fact(case, label, delay, goodput, tuple(mean_of(values[case]) for values in felt)))
    return found


def _noticed(cases: Cases) -> list[paired.Measure]:
    """Returns the measures of what users notice, without those that say nothing, such as stalls of a video that never
    stalls.
    """
    sparse = paired.sparse_latency(cases)
    felt = [one for one in paired.felt(cases) if any(map(any, cases.read(one.address)))]
    return [*([sparse] if sparse else []), *felt]


def sentences(cases: Cases) -> list[str]:
    """Returns the sentences of the headline, or none if only one case is shown."""
    known = facts(cases)
    if len(known) < 2:
        return []
    families = [[one for one in known if one.case in family] for family in paired.families(cases)]
    found = [_family(cases, one) for one in families if len(one) > 1] or [_family(cases, known)]
    negligible_ms = min(NEGLIGIBLE_MS, NEGLIGIBLE_SHARE * cases.longest_rtt_ms)
    if max(one.delay_ms.value for one in known) < negligible_ms:
        said = [
            f"No queue builds up: 95 % of the packets wait less than {time_text(negligible_ms)} in {cases.compared}."
        ]
    else:
        said = _one_family(cases, found[0]) if len(found) == 1 else _many_families(cases, found)
    if not cases.random:
        said.append("Nothing in this scenario is random: every seed gives the same numbers, and one run is shown.")
    elif not cases.several_seeds:
        said.append("One seed cannot show which differences are significant: use --seeds 10.")
    return said


# ---- what the seeds show ----


@dataclass(frozen=True)
class Family:
    """A family: cases that differ only in the compared key, those with the least delay first. It has the conclusions
    that the seeds allow.
    """

    members: list[Fact]
    winner: Fact
    """The case with the least delay among those whose goodput is acceptable."""
    lead: list[Fact]
    """The winner, and the cases that follow it by delay, as long as none of these is shown to differ from the winner or
    from another of them.
    """
    alike: list[Fact]
    """The winner, and all cases whose delay is not shown to differ from the winner's."""
    most: Fact
    """The case with the highest goodput."""
    loss: dict[int, float]
    """Maps a case to the share by which its goodput is below the highest. Cases with at most `SAME` are left out."""
    lost: set[int]
    """The cases that are shown to have less goodput than the highest, even if only slightly less."""

    @property
    def tie(self) -> bool:
        """Whether no case is shown to differ from the winner in delay."""
        return len(self.alike) == len(self.members)

    @property
    def cheaper(self) -> Fact | None:
        """The case with the least delay, if it is shown to have less than the winner: its goodput is not acceptable."""
        return None if self.members[0] in self.alike else self.members[0]

    def lacks(self, *some: Fact) -> str:
        """`9 % less goodput than pfifo`; for several cases, the largest loss."""
        most = max(some, key=lambda one: self.loss[one.case])
        unsure = "" if most.case in self.lost else " (not significant)"
        upto = "up to " if len(some) > 1 else ""
        return f"{upto}{number(100 * self.loss[most.case], 2)} % less goodput than {self.most.label}{unsure}"


def _family(cases: Cases, some: Sequence[Fact]) -> Family:
    delays, goodputs = cases.read(paired.delay(cases).address), cases.read(paired.GOODPUT.address)
    by_one_seed = not cases.several_seeds

    def apart(one: Fact, other: Fact) -> bool:
        return paired.differ(cases, delays, one.case, other.case, by_one_seed=by_one_seed)

    most = max(some, key=lambda one: one.goodput_mbit.value)
    shares = {one.case: 1 - one.goodput_mbit.value / (most.goodput_mbit.value or 1) for one in some}
    loss = {case: share for case, share in shares.items() if share > SAME}
    lost = {case for case in shares if paired.differ(cases, goodputs, case, most.case, by_one_seed=by_one_seed)}
    members = sorted(some, key=lambda one: one.delay_ms.value)
    winner, *others = [one for one in members if one.case not in lost or shares[one.case] <= ACCEPTABLE]
    lead = [winner]
    for one in others:
        if any(apart(one, other) for other in lead):
            break
        lead.append(one)
    alike = [one for one in members if one is winner or not apart(one, winner)]
    return Family(members, winner, lead, alike, most, loss, lost)


# ---- sentences ----


def _one_family(cases: Cases, family: Family) -> list[str]:
    if family.tie:
        return _tie(cases, family)
    winner, lead, cheaper, worst = family.winner, family.lead, family.cheaper, family.members[-1]
    trade = (
        f"{cheaper.label} has less delay, but {family.lacks(cheaper)}: {_numbers(cases, [cheaper])}." if cheaper else ""
    )
    if cheaper and worst in family.alike:  # no other case has acceptable goodput, and no case is named best
        return [trade, f"With {winner.label}: {_numbers(cases, [winner])}."]
    if cheaper:
        bound = f"the least delay with at most {100 * ACCEPTABLE:g} % less goodput than the highest"
        said = [f"{_listed(lead)} {'have' if len(lead) > 1 else 'has'} {bound}: {_numbers(cases, lead)}.", trade]
    else:
        keep = "keep" if len(lead) > 1 else "keeps"
        said = [f"{_listed(lead)} {keep} delay lowest{_price(family)}: {_numbers(cases, lead)}."]
    said += _open(cases, family)
    if worst not in lead:
        said.append(f"With {worst.label}: {_numbers(cases, [worst])}.")
    return said


def _tie(cases: Cases, family: Family) -> list[str]:
    """Returns the sentences for a tie: no case is shown to differ in delay from the one named best."""
    members = family.members
    if _equal(cases, members):
        said = [f"All cases keep packets waiting equally long: {_numbers(cases, members)}."]
    else:
        goodput = " or goodput" if family.loss and not family.lost else ""
        cost = _more(cases, members, family.winner)
        said = [
            f"No significant difference in delay{goodput} between {_listed(members)}{cost}: {_numbers(cases, members)}."
        ]
    lost = [one for one in members if one.case in family.loss and one.case in family.lost]
    if lost:
        said.append(f"{_listed(lost)} {'have' if len(lost) > 1 else 'has'} {family.lacks(*lost)}.")
    return said


def _equal(cases: Cases, some: Sequence[Fact]) -> bool:
    """Whether cases have the same delay in every run."""
    values = cases.read(paired.delay(cases).address)
    return all(paired.equal(cases, values, one.case, some[0].case) for one in some[1:])


def _price(family: Family) -> str:
    """` without losing throughput`, or `, at 9 % less goodput than pfifo`."""
    lacking = [one for one in family.lead if one.case in family.loss]
    lost = [one for one in family.lead if one.case in family.lost]
    if lacking and (len(family.lead) == 1 or any(one in lost for one in lacking)):
        return f", at {family.lacks(*lacking)}"
    if lacking:
        return " without a significant loss of throughput"
    return f", losing at most {100 * SAME:g} % of throughput" if lost else " without losing throughput"


def _open(cases: Cases, family: Family) -> list[str]:
    """Says which delays are not shown to differ from the winner's, and about how many more seeds would be enough to
    decide.
    """
    if not cases.several_seeds:
        return []
    said = []
    if len(family.lead) > 1 and not _equal(cases, family.lead):
        cost = _more(cases, family.lead, family.winner)
        said.append(f"No significant difference in delay between them{cost}.")
    others = [one for one in family.alike if one not in family.lead]
    if others:
        cost = _more(cases, others, family.winner)
        said.append(
            f"No significant difference in delay between {family.winner.label} and {_listed(others, 'or')}{cost}."
        )
    return said


def _more(cases: Cases, some: Sequence[Fact], winner: Fact) -> str:
    """Says about how many more seeds would show that all of these differ from the winner; empty if no number would."""
    measure = paired.delay(cases)
    values = cases.read(measure.address)
    found = [paired.difference(cases, measure, values, one.case, winner.case) for one in some if one is not winner]
    return more_seeds(max((one.further_seeds or 0 for one in found if one), default=0))


def _listed(some: Sequence[Fact], last: str = "and") -> str:
    """`red, codel and fq_codel`; if there are many, their number."""
    return _joined([one.label for one in some], last) if len(some) <= FEW_CASES else f"{len(some)} cases"


def _joined(words: Sequence[str], last: str) -> str:
    *front, end = words
    return f"{', '.join(front)} {last} {end}" if front else end


def _many_families(cases: Cases, families: Sequence[Family]) -> list[str]:
    """Says which cases have the least delay in each setting. If there are many settings, it says in how many of them
    each case does.
    """
    delay = "mean delay of the path's queues" if cases.shares_path else f"delay p95 in {cases.compared}"
    choices, settings = paired.choices(cases), paired.settings(cases)
    few = len(families) <= FEW_SETTINGS
    equal = [_equal(cases, one.members) for one in families]
    if few and all(one.tie for one in families) and (all(equal) or not any(equal)):
        spans = [f"{settings[one.winner.case]} {_delays(cases, one.members)}" for one in families]
        return [f"No {'' if all(equal) else 'significant '}difference in {delay} in any setting: {'; '.join(spans)}."]
    bound = (
        f", with at most {100 * ACCEPTABLE:g} % less goodput than the highest" if any(map(_costly, families)) else ""
    )
    winners = [_winners(cases, one, choices) for one in families]
    if few:
        said = [
            f"{text} ({_delays(cases, one.members if one.tie else one.lead)}) with {settings[one.winner.case]}"
            for one, text in zip(families, winners, strict=True)
        ]
        return [f"Lowest {delay}{bound}: {'; '.join(said)}."]
    counts = {text: winners.count(text) for text in winners}
    said = [f"{text} in {count}" for text, count in sorted(counts.items(), key=lambda pair: -pair[1])]
    return [f"Lowest {delay}{bound}, in {len(families)} settings: {', '.join(said)}."]


def _costly(family: Family) -> bool:
    return family.cheaper is not None


def _winners(cases: Cases, family: Family, choices: Sequence[str]) -> str:
    """Names the cases with the least delay, or says that no case is shown to have less than the others."""
    if family.tie:
        return "no difference" if _equal(cases, family.members) else "no significant difference"
    return _joined([choices[one.case] for one in family.lead], "or")


# ---- numbers ----


def _numbers(cases: Cases, some: Sequence[Fact]) -> str:
    """`95 % of the packets wait at most 13 ms in home, ping RTT p95 52 ms, goodput 4.6 Mbit/s`; a range of several."""
    waits = _delays(cases, some)
    if cases.shares_path:
        way = "left" if cases.compared.endswith(queues.REVERSE) else "right"
        said = [f"the path's queues to the {way} together delay {waits} on average"]
    else:
        said = [f"95 % of the packets wait at most {waits} in {cases.compared}"]
    for at, measure in enumerate(_noticed(cases)):
        span = _span(cases, some, lambda one, at=at: one.felt[at], _WRITERS[measure.unit])  # type: ignore[misc]
        said += [f"{measure.name} {span}"] if span else []
    said.append(f"goodput {_span(cases, some, lambda one: one.goodput_mbit, _three_digits)} Mbit/s")
    return ", ".join(said)


def _delays(cases: Cases, some: Sequence[Fact]) -> str:
    return _span(cases, some, lambda one: one.delay_ms, time_text)


def _three_digits(value: float) -> str:
    return number(value, 3)


_WRITERS: dict[str, Callable[[float], str]] = {
    "ms": time_text,
    "s": lambda value: time_text(1e3 * value),
    "": _three_digits,
}


def _span(cases: Cases, some: Sequence[Fact], of: Callable[[Fact], Mean | None], write: Callable[[float], str]) -> str:
    """Returns a number of these cases, as `12 ms to 14 ms` if they differ. If only some seeds have it, it says how
    many. Empty if no case has it.
    """
    known = [(mean, len(cases.seeds[one.case])) for one in some if (mean := of(one))]
    if not known:
        return ""
    ends = [write(end(mean.value for mean, _ in known)) for end in (min, max)]
    short = dict.fromkeys(f"{mean.count} of {seeds}" for mean, seeds in known if mean.count < seeds)
    return " to ".join(dict.fromkeys(ends)) + (f" (in {_joined(list(short), 'or')} seeds)" if short else "")
