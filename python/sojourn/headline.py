"""A comparison in two or three sentences: which cases are best without losing throughput, and how sure it is.

Cases are ranked by what people notice (`noticed`): pings, thin flows, calls, pages, video. Where a scenario has none of
these, or they do not differ, the cases are ranked by the delay of the compared queue. The command, the report and the
API show these sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sojourn import noticed, paired, queues
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
    if any(one.address.path == "page_load_s.p50" for one in felt):  # a page says more than its objects
        felt = [one for one in felt if one.address.path != "fct_s.p95"]
    return [*([sparse] if sparse else []), *felt]


def sentences(cases: Cases) -> list[str]:
    """Returns the sentences of the headline, or none if only one case is shown."""
    known = facts(cases)
    if len(known) < 2:
        return []
    families = [[one for one in known if one.case in family] for family in paired.families(cases)]
    measures = noticed.measures(cases)
    found = [_family(cases, one, measures) for one in families if len(one) > 1] or [_family(cases, known, measures)]
    negligible_ms = min(NEGLIGIBLE_MS, NEGLIGIBLE_SHARE * cases.longest_rtt_ms)
    is_idle = max(one.delay_ms.value for one in known) < negligible_ms
    if is_idle and not any(one.verdict for one in found):
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
    measures: list[noticed.Measure]
    """The measures that people may notice."""
    verdict: noticed.Verdict | None
    """The judgement by what people notice, among the cases whose goodput is acceptable; None if they notice no
    difference. Then the queue decides.
    """
    trades: list[noticed.Trade]
    """Where the best cases are worse than another case of the family."""

    @property
    def best(self) -> list[Fact]:
        """The cases that are named best; none if it is a trade or a tie."""
        if self.verdict:
            return [one for one in self.members if one.case in self.verdict.lead]
        return [] if self.tie else self.lead

    @property
    def tie(self) -> bool:
        """Whether no case is shown to differ from the winner, in what people notice or in the queue's delay."""
        return self.verdict is None and len(self.alike) == len(self.members)

    @property
    def cheaper(self) -> Fact | None:
        """The case with the least delay, if it is shown to have less than the winner: its goodput is not acceptable.
        None if the queue does not decide.
        """
        return None if self.verdict or self.members[0] in self.alike else self.members[0]

    def is_costly(self, one: Fact) -> bool:
        """Whether a case is never named best, because its goodput is not acceptable."""
        return one.case in self.lost and self.loss.get(one.case, 0.0) > ACCEPTABLE

    def lacks(self, *some: Fact) -> str:
        """`9 % less goodput than pfifo`; for several cases, the largest loss."""
        most = max(some, key=lambda one: self.loss[one.case])
        unsure = "" if most.case in self.lost else " (not significant)"
        upto = "up to " if len(some) > 1 else ""
        return f"{upto}{number(100 * self.loss[most.case], 2)} % less goodput than {self.most.label}{unsure}"


def _family(cases: Cases, some: Sequence[Fact], known: list[noticed.Measure]) -> Family:
    delays, goodputs = cases.read(paired.delay(cases).address), cases.read(paired.GOODPUT.address)
    by_one_seed = not cases.several_seeds

    def apart(one: Fact, other: Fact) -> bool:
        return paired.differ(cases, delays, one.case, other.case, by_one_seed=by_one_seed)

    most = max(some, key=lambda one: one.goodput_mbit.value)
    shares = {one.case: 1 - one.goodput_mbit.value / (most.goodput_mbit.value or 1) for one in some}
    loss = {case: share for case, share in shares.items() if share > SAME}
    lost = {case for case in shares if paired.differ(cases, goodputs, case, most.case, by_one_seed=by_one_seed)}
    members = sorted(some, key=lambda one: one.delay_ms.value)
    acceptable = [one for one in members if one.case not in lost or shares[one.case] <= ACCEPTABLE]
    verdict = noticed.judge(cases, [one.case for one in acceptable], known)
    winner, *others = acceptable
    lead = [winner]
    for one in others:
        if any(apart(one, other) for other in lead):
            break
        lead.append(one)
    alike = [one for one in members if one is winner or not apart(one, winner)]
    found = Family(members, winner, lead, alike, most, loss, lost, known, verdict, [])
    trades = noticed.trades(cases, [one.case for one in found.best], [one.case for one in members], known)
    return replace(found, trades=trades)


# ---- sentences ----


def _one_family(cases: Cases, family: Family) -> list[str]:
    if family.tie:
        return _tie(cases, family)
    trade_off = noticed.trade_sentence(family.trades, cases.short_labels())
    if family.verdict:
        return _by_people(cases, family, family.verdict, trade_off)
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
    said += [trade_off] if trade_off else []
    if worst not in lead:
        said.append(f"With {worst.label}: {_numbers(cases, [worst])}.")
    return said


def _by_people(cases: Cases, family: Family, verdict: noticed.Verdict, trade_off: str) -> list[str]:
    """Returns the sentences where people notice a difference: the best cases, or a trade."""
    best, worst = family.best, _worst(cases, family)
    if best:
        are = "are" if len(best) > 1 else "is"
        said = [
            f"{_listed(best)} {are} best for {_joined(verdict.people, 'and')}{_price(family)}: "
            f"{_numbers(cases, best, people_first=True)}."
        ]
        said += [trade_off] if trade_off else []
        better = {one.better for one in family.trades}
        costly = [one for one in family.members if one.case in better and family.is_costly(one)]
        if costly:
            said.append(f"{_listed(costly)} {'have' if len(costly) > 1 else 'has'} {family.lacks(*costly)}.")
    else:
        said = [noticed.contest_sentence(cases, verdict, cases.short_labels())]
    if worst and worst not in best:
        said.append(f"With {worst.label}: {_numbers(cases, [worst], people_first=True)}.")
    return said


def _worst(cases: Cases, family: Family) -> Fact | None:
    """Returns the case that is worse than another in most of what people notice; None if all rival."""
    rivals = family.verdict.rivals if family.verdict else []
    deciding = [one for one in family.measures if one.decides]

    def count(one: Fact) -> int:
        others = [other.case for other in family.members if other is not one]
        return sum(noticed.worse(cases, measure, one.case, other) for measure in deciding for other in others)

    among = [one for one in family.members if one.case not in rivals]
    return max(among, key=lambda one: (count(one), one.delay_ms.value), default=None)


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
    lead = family.best
    lacking = [one for one in lead if one.case in family.loss]
    lost = [one for one in lead if one.case in family.lost]
    if lacking and (len(lead) == 1 or any(one in lost for one in lacking)):
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
    people = list(dict.fromkeys(word for one in families if one.verdict for word in one.verdict.people))
    by_queue = any(one.verdict is None for one in families)
    best = f"Lowest {delay}{bound}"
    if people:
        best = f"Best for {_joined(people, 'and')}"
        best += f" (where these do not differ: lowest {delay}{bound})" if by_queue else ""
    winners = [_winners(cases, one, choices) for one in families]
    traded = [one for one in families if one.trades]
    note = (
        [
            f"In {len(traded)} of {len(families)} settings this is a trade: the best case is worse than another in "
            "some number of pings, calls or pages."
        ]
        if traded
        else []
    )
    if few:
        said = [
            f"{text} ({_decided_by(cases, one)}) with {settings[one.winner.case]}"
            for one, text in zip(families, winners, strict=True)
        ]
        return [f"{best}: {'; '.join(said)}.", *note]
    counts = {text: winners.count(text) for text in winners}
    said = [f"{text} in {count}" for text, count in sorted(counts.items(), key=lambda pair: -pair[1])]
    return [f"{best}, in {len(families)} settings: {', '.join(said)}.", *note]


def _decided_by(cases: Cases, family: Family) -> str:
    """Returns the number that decided in a setting: of what people notice the first, otherwise the queue's delay."""
    if not family.verdict:
        return _delays(cases, family.members if family.tie else family.lead)
    measure = family.verdict.contested[0]
    shown = family.verdict.lead or family.verdict.rivals
    return f"{measure.name} {' to '.join(dict.fromkeys(measure.text(case) for case in shown[:2]))}"


def _costly(family: Family) -> bool:
    return family.cheaper is not None


def _winners(cases: Cases, family: Family, choices: Sequence[str]) -> str:
    """Names the cases with the least delay, or says that no case is shown to have less than the others."""
    if family.tie:
        return "no difference" if _equal(cases, family.members) else "no significant difference"
    if family.verdict and not family.best:
        return f"a trade between {_joined([choices[case] for case in family.verdict.rivals], 'and')}"
    return _joined([choices[one.case] for one in family.best], "or")


# ---- numbers ----


def _numbers(cases: Cases, some: Sequence[Fact], *, people_first: bool = False) -> str:
    """`95 % of the packets wait at most 13 ms in home, ping RTT p95 52 ms, goodput 4.6 Mbit/s`; a range of several.

    With `people_first` the numbers of flows come before that of the queue.
    """
    waits = _delays(cases, some)
    if cases.shares_path:
        way = "left" if cases.compared.endswith(queues.REVERSE) else "right"
        queue = f"the path's queues to the {way} together delay {waits} on average"
    else:
        queue = f"95 % of the packets wait at most {waits} in {cases.compared}"
    said = [] if people_first else [queue]
    for at, measure in enumerate(_noticed(cases)):
        span = _span(cases, some, lambda one, at=at: one.felt[at], _WRITERS[measure.unit])  # type: ignore[misc]
        said += [f"{measure.name} {span}"] if span else []
    said += [queue] if people_first else []
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
