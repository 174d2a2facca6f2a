"""Which differences between the cases of a comparison are real.

Cases share their seeds, and so the random traffic. Two cases are therefore compared seed by seed: the confidence
interval of the mean difference is much narrower than the intervals of the two means. Where nothing depends on the seed,
one run per case is enough, and every difference beyond rounding is real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn import queues, words
from sojourn.cases import Address, Cases, varied_keys
from sojourn.errors import Refusal, nearest_of
from sojourn.means import MOST_SEEDS, Mean, mean_of, seeds_for

ROUNDING = 0.005
"""Two numbers that differ by at most this share are treated as equal: a table shows them alike."""
MEAN_DELAY = "queue_delay_ms.mean"
"""The mean over time of a queue's delay. The means of the queues along a path add up to the mean of their sum;
percentiles do not.
"""
SPARSE = ("pings", "voip", "cbr", "thin")
"""Kinds of flows that send little and are sensitive to delay, in the order of preference."""


@dataclass(frozen=True)
class Measure:
    """A measure by which cases are compared."""

    name: str
    unit: str
    address: Address
    lower_is_better: bool | None
    """Whether a lower value is better; None if neither is."""


@dataclass(frozen=True)
class Difference:
    """The difference between a case and the baseline in one measure: the case's number minus the baseline's."""

    case: int
    """The index of the case."""
    baseline: int
    """The index of the baseline."""
    measure: Measure
    mean: Mean
    """The mean difference over the seeds that both cases have."""
    told_apart: bool
    """Whether the difference is shown to be real: the interval excludes zero or, if nothing is random, the numbers
    differ by more than rounding.
    """
    further_seeds: int | None
    """About how many more seeds would show a difference. None if it is shown already, or if no reasonable number is
    enough.
    """


GOODPUT = Measure("goodput", "Mbit/s", Address("goodput_mbit"), False)
"""The goodput of all flows together."""


def measures(cases: Cases) -> list[Measure]:
    """Returns the measures by which cases are compared: delay, sparse flows' latency, goodput, drops of the compared
    queue.
    """
    latency = sparse_latency(cases)
    return [
        delay(cases),
        *([latency] if latency else []),
        GOODPUT,
        Measure("drops", "", Address("drops", queues=(cases.compared,)), None),
    ]


def delay(cases: Cases) -> Measure:
    """Returns the measure of delay: the 95th percentile of the compared queue's sojourn.

    If its packets pass several of the shown queues, one queue's delay may fall because another's rises. The measure is
    then the sum of the mean delays of all queues in that direction.
    """
    if cases.shares_path:
        return Measure("path delay", "ms", Address(MEAN_DELAY, queues=tuple(cases.along(cases.compared))), True)
    return Measure("delay p95", "ms", Address("sojourn_ms.p95", queues=(cases.compared,)), True)


def sparse_latency(cases: Cases) -> Measure | None:
    """Returns the measure of sparse flows' latency: the 95th percentile of the delay of flows of the first kind in
    SPARSE that exists. With several such flows, the highest value counts.
    """
    for kind in SPARSE:
        names = tuple(flow.name for flow in cases.flows if flow.kind == kind)
        if names:
            path, what = ("delay_ms.p95", "delay") if kind in ("voip", "cbr") else ("rtt_ms.p95", "RTT")
            name = f"{'highest ' if len(names) > 1 else ''}{kind.removesuffix('s')} {what} p95"
            return Measure(name, "ms", Address(path, flows=names, how="most"), True)
    return None


def felt(cases: Cases) -> list[Measure]:
    """Returns the measures of what people notice: the quality of calls and video, the load times of pages,
    responsiveness. Only kinds of flows that exist have one.

    With several calls or tests of responsiveness, the worst one counts.
    """
    kinds = (
        ("voip", "call MOS", "", "mos", "least", False),
        ("web", "page load p50", "s", "page_load_s.p50", "pooled", True),
        ("web", "web FCT p95", "s", "fct_s.p95", "pooled", True),
        ("video", "video stalled", "s", "video.stalled_s", "mean", True),
        ("rpm", "RPM", "", "rpm.rpm", "least", False),
    )
    found = []
    for kind, name, unit, path, how, lower_is_better in kinds:
        flows = tuple(flow.name for flow in cases.flows if flow.kind == kind)
        if flows:
            said = f"lowest {name}" if how == "least" and len(flows) > 1 else name
            found.append(Measure(said, unit, Address(path, flows=flows, how=how), lower_is_better))
    return found


# ---- cases that differ in one thing ----


def key_of(cases: Cases) -> str | None:
    """Returns the swept key that is compared: the compared queue's discipline if it varies, else another queue's
    discipline, else the first key that varies.
    """
    return _key(cases.sets, cases.queues, cases.compared)


def _key(sets: Sequence[Mapping[str, Any]], names: Sequence[str], compared: str) -> str | None:
    varied = varied_keys(sets)
    disciplines = [key for key in varied if key.endswith(".qdisc")]
    own = [key for key in disciplines if queues.queue_of_key(key, names) == compared]
    return next(iter([*own, *disciplines, *varied]), None)


def families(cases: Cases) -> list[list[int]]:
    """Returns families: the indices of cases that differ only in the compared key and in keys that are swept together
    with it.
    """
    key = key_of(cases)
    if key is None:
        return [list(range(len(cases.sets)))]
    free = setting_keys(cases)
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, one in enumerate(cases.sets):
        groups.setdefault(tuple(repr(one.get(other)) for other in free), []).append(place)
    return list(groups.values())


def setting_keys(cases: Cases) -> list[str]:
    """Returns the keys that vary independently of the compared key. Their values are a family's setting.

    The discipline of another queue is one of these only if it is met with every value of the compared key. Otherwise
    the two are swept together, although a value comes twice: a line-up of a modem's FIFO, a modem's PIE, and the FIFO
    behind a router's shaper is one family.
    """
    key = key_of(cases)
    if key is None:
        return []
    values: dict[str, dict[str, set[str]]] = {}
    for one in cases.sets:
        for other in varied_keys(cases.sets):
            values.setdefault(other, {}).setdefault(repr(one.get(key)), set()).add(repr(one.get(other)))
    return [other for other, by_key in values.items() if _is_free(other, list(by_key.values()))]


def _is_free(key: str, met: Sequence[set[str]]) -> bool:
    """Returns whether a key varies independently, from the values that are met with each value of the compared key."""
    if key.endswith(".qdisc") and any(one != met[0] for one in met):
        return False
    return any(len(found) > 1 for found in met)


def same_setting(cases: Cases) -> str:
    """Returns words for the keys whose values a family shares, such as ` at the same a.rate`. They are empty if there
    is only one family.
    """
    free = setting_keys(cases)
    said = [f"qdisc of {_said(key)}" if key.endswith(".qdisc") else _said(key) for key in free]
    return f" at the same {' and '.join(said)}" if said else ""


def settings(cases: Cases) -> list[str]:
    """Returns each case's setting in words, such as `a.rate 1 Mbit/s`; empty words if there is only one family."""
    free = setting_keys(cases)
    texts = [words.distinct([words.schedule_text(one.get(key, "")) for one in cases.sets]) for key in free]
    return [
        ", ".join(f"{_said(key)} {text[place] or 'none'}" for key, text in zip(free, texts, strict=True))
        for place in range(len(cases.sets))
    ]


def choices(cases: Cases) -> list[str]:
    """Returns each case's name within its family. If there are several families, this is its value of the compared key;
    otherwise its short label.
    """
    key = key_of(cases)
    if not key or not setting_keys(cases):
        return cases.short_labels()
    if not key.endswith(".qdisc"):
        return [f"{_said(key)} {text}" for text in words.distinct([one.get(key, "") for one in cases.sets])]
    lines = [value_of(one, key) for one in cases.sets]
    names = list(map(words.short_name, lines))
    return names if len(set(names)) == len(set(lines)) else lines


def _said(key: str) -> str:
    """Returns a key as labels write it: `a.rate` for `hop.a.rate`. For a discipline it is the queue's name alone."""
    return key.removeprefix("hop.").removeprefix("flow.").removesuffix(".qdisc")


def baseline_of(cases: Cases, wanted: str | None = None) -> str | None:
    """Returns the baseline's value of the compared key: the wanted one, or else the first.

    To name a value, a discipline's name is enough if only one value is this discipline or, failing that, if only one
    contains it. Raises Refusal for a value that is not swept.
    """
    return _baseline(cases.sets, key_of(cases), wanted)


def refuse_baseline(sets: Sequence[Mapping[str, Any]], names: Sequence[str], wanted: str) -> None:
    """Refuses a wrong baseline before any run is played. It accepts a value of any swept queue, because it is not known
    yet which of them will be compared.
    """
    keys: list[str | None] = [key for name in names if (key := _key(sets, names, name))]
    keys = keys or [None]
    for key in dict.fromkeys(keys[:-1]):
        try:
            _baseline(sets, key, wanted)
        except Refusal:
            continue
        return
    _baseline(sets, keys[-1], wanted)


def value_of(one: Mapping[str, Any], key: str) -> str:
    """Returns a case's value of a key as it is written. A discipline that changes during the run has all its lines."""
    return str(words.schedule_text(one.get(key)))


def _baseline(sets: Sequence[Mapping[str, Any]], key: str | None, wanted: str | None) -> str | None:
    values = list(dict.fromkeys(value_of(one, key) for one in sets)) if key else []
    if wanted is None:
        return values[0] if values else None
    if wanted in values:
        return wanted
    alone = [value for value in values if words.short_name(value) == wanted]
    named = [value for value in values if wanted in words.disciplines_of(value)]
    for found in (alone, named):
        if len(found) == 1:
            return found[0]
    known = ", ".join(values) if values else "none, since nothing is swept"
    raise Refusal(f"--baseline = {wanted}: expected a value of {key or 'a sweep'}: {known}{nearest_of(wanted, values)}")


def differences(cases: Cases, wanted: str | None = None) -> list[Difference]:
    """Returns the difference of every case from the baseline of its family, in each measure that both have."""
    baseline = baseline_of(cases, wanted)
    key = key_of(cases)
    found = []
    for family in families(cases):
        first = next((place for place in family if key is None or value_of(cases.sets[place], key) == baseline), None)
        if first is None:
            continue
        for measure in measures(cases):
            values = cases.read(measure.address)
            for place in family:
                if place != first and (one := difference(cases, measure, values, place, first)):
                    found.append(one)
    return found


def difference(
    cases: Cases, measure: Measure, values: Sequence[Sequence[float | None]], case: int, baseline: int
) -> Difference | None:
    """Returns the difference between two cases in one measure. Returns None if there is no seed for which both have a
    number.
    """
    apart, scale = _apart(cases, values, case, baseline)
    mean = mean_of(apart)
    if mean is None:
        return None
    told = _told_apart(mean, scale, cases.random)
    return Difference(case, baseline, measure, mean, told, None if told else further_seeds(apart))


def differ(
    cases: Cases, values: Sequence[Sequence[float | None]], one: int, other: int, *, by_one_seed: bool = False
) -> bool:
    """Returns whether the values, compared seed by seed, show that two cases differ by more than rounding. Otherwise
    the cases are a tie.

    With `by_one_seed`, a single seed is enough: its numbers are compared as they are, although other seeds may give
    others.
    """
    apart, scale = _apart(cases, values, one, other)
    mean = mean_of(apart)
    if mean is None or not _beyond_rounding(mean, scale):
        return False
    return _told_apart(mean, scale, cases.random and not (by_one_seed and mean.count == 1))


def common_seeds(cases: Cases, case: int, baseline: int) -> int:
    """Returns the number of seeds that two cases share."""
    return len(set(cases.seeds[case]) & set(cases.seeds[baseline]))


def equal(cases: Cases, values: Sequence[Sequence[float | None]], one: int, other: int) -> bool:
    """Returns whether two cases have equal numbers, within rounding, for every seed that both have."""
    apart, scale = _apart(cases, values, one, other)
    return all(abs(value) <= ROUNDING * scale for value in apart)


def _apart(
    cases: Cases, values: Sequence[Sequence[float | None]], case: int, baseline: int
) -> tuple[list[float], float]:
    """Returns the differences seed by seed, and the typical size of the numbers that were compared."""
    ours, theirs = (dict(zip(cases.seeds[place], values[place], strict=True)) for place in (case, baseline))
    both = [(a, b) for seed, a in ours.items() if a is not None and (b := theirs.get(seed)) is not None]
    return [a - b for a, b in both], max((abs(value) for pair in both for value in pair), default=0.0)


def _told_apart(mean: Mean, scale: float, random: bool) -> bool:
    if not mean.half_width:  # one seed, or seeds that are all alike
        return _beyond_rounding(mean, scale) and (not random or mean.count > 1)
    return abs(mean.value) > mean.half_width


def _beyond_rounding(mean: Mean, scale: float) -> bool:
    return abs(mean.value) > ROUNDING * scale


def further_seeds(apart: Sequence[float]) -> int | None:
    """Estimates how many more seeds are needed, if the mean and the spread of the differences stay as they are."""
    mean = mean_of(apart)
    needed = seeds_for(abs(mean.value), mean) if mean else None
    return max(1, needed - len(apart)) if needed and needed <= MOST_SEEDS else None


def marks_of(cases: Cases, values: Sequence[Sequence[float | None]], *, lower_is_better: bool) -> list[str]:
    """Returns each case's mark within its family, from values seed by seed: `best`, `worst` or none.

    The case with the best mean is marked best. So is every case that is shown to differ from the one with the worst
    mean, and not from the one with the best. Cases are marked worst in the same way. If the best and worst means are
    not shown to differ, no case is marked. A difference within rounding does not count.
    """
    found = [""] * len(cases.sets)

    for family in families(cases):
        known = {place: mean.value for place in family if (mean := mean_of(values[place]))}
        if len(known) < 2:
            continue
        ranked = sorted(known, key=known.__getitem__, reverse=not lower_is_better)
        best, worst = ranked[0], ranked[-1]
        for place in ranked if differ(cases, values, best, worst) else ():
            from_best, from_worst = (differ(cases, values, place, end) for end in (best, worst))
            if from_best != from_worst:
                found[place] = "best" if from_worst else "worst"
    return found


def as_dict(cases: Cases, wanted: str | None = None) -> dict[str, object] | None:
    """Returns the JSON of `comparison`. Returns None if there is nothing to compare seed by seed: with one seed or one
    case.
    """
    if not cases.several_seeds or len(cases.sets) < 2:
        return None
    found = differences(cases, wanted)
    return {
        "key": key_of(cases),
        "baseline": baseline_of(cases, wanted),
        "queue": cases.compared,
        "differences": [
            {
                "set": cases.sets[one.case],
                "baseline": cases.sets[one.baseline],
                "measure": one.measure.name,
                "unit": one.measure.unit,
                "mean": one.mean.value,
                "half_width": one.mean.half_width,
                "seeds": one.mean.count,
                "told_apart": one.told_apart,
                "further_seeds": one.further_seeds,
            }
            for one in found
        ],
    }
