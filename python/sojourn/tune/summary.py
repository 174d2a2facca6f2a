"""The result of a search in words, tables and JSON. The command and the page show the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn import line, means
from sojourn.means import Mean
from sojourn.tune import candidates, judge, router, search
from sojourn.tune.judge import Compared, Scores
from sojourn.tune.search import Found
from sojourn.tune.task import SOLD
from sojourn.words import listed, mean_text, number_text, rate_text, time_text

WAYS = {"right": "down", "left": "up"}
"""A home user's words for directions."""
PARAMETERS = ("rtt", "target", "interval", "tupdate", "max_gi")
"""Parameters that are times."""


@dataclass(frozen=True)
class Table:
    """A table: a title, heads, rows of texts, and notes below it. The first column has words."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    """The discipline of each row, for its colour."""
    chosen: int | None = None
    """The row of the chosen setting."""
    marks: tuple[tuple[str, ...], ...] = ()
    """The mark of each cell after the first column, `*`, `!` or none; empty if the table has no marks."""


BETTER, WORSE, OPEN = "*", "!", "?"
"""The marks of a number that is better or worse than that of the chosen setting, or in which the seeds do not decide.
They take less room than words."""


# ---- words ----


def headline(found: Found) -> list[str]:
    """Says what to set, with which assumption, what it does, and how sure that is: a sentence or two for each."""
    return [*answer(found), *verdicts(found)]


def answer(found: Found) -> list[str]:
    """Says what to set, what was assumed of the line, what the setting does, and what it does on a slower line."""
    lines = [*in_short(found)[:1], assumed(found), *in_short(found)[1:], _if_slower(found)]
    return [one for one in lines if one]


def in_short(found: Found) -> list[str]:
    """Says what to set, and what it does."""
    return [f"Set {found.chosen.name}{_shaped(found)}.", promise(found)]


def verdicts(found: Found) -> list[str]:
    """Says how the chosen setting compares with today's, and what decided."""
    final = found.final
    lines = [
        f"{'At the stated rate' if found.lower else 'Seed by seed'}, {_against(found, final)} "
        f"({len(final.seeds)} fresh seeds). {_open(found, final)}".strip(),
        *_decided(found),
        *_reasons(found),
        *_at_lower_rates(found),
    ]
    lines += [NOTHING_WAITS] if _nothing_waits(found) else []
    lines += [VARIES] if found.task.varies or found.task.uncertain > MUCH else []
    return lines


def assumed(found: Found) -> str:
    """Says which framing of the line was assumed, and what happens if it is another one; nothing where no shaper counts
    bytes.
    """
    task = found.task
    kind = task.queues[0].access
    if task.access == line.UNKNOWN:
        rates = {queue.direction: queue.rate_bps for queue in task.queues}
        return line.assumption(rates["right"], rates["left"])
    if task.access:
        said = f"Assumed: {kind.title} (--access {task.access}), with {kind.framing}."
        return f"{said} {_if_framed_otherwise(found)}".strip()
    counts = any(word in " ".join(found.chosen.lines) for word in ("htb ", "bandwidth "))
    return f"The shaper counts {kind.framing}, as the scenario has it." if counts else ""


def _if_framed_otherwise(found: Found) -> str:
    """Says what pings do on the worst line of another kind, if the aim is missed there."""
    worst: tuple[float, str] = (0.0, "")
    for one in found.varied:
        mean = one.scores.mean("sparse", one.scores.candidates.index(found.chosen))
        if one.name.startswith("really ") and mean is not None and mean.value > _missed_ms(found):
            said = f"If it is {one.name}, 95 % of the pings take {_value(mean, 'ms')} longer."
            worst = max(worst, (mean.value, said))
    return worst[1]


def _missed_ms(found: Found) -> float:
    """Returns the delay of pings above which a variation is named: the aim, or a quarter more than on the stated line
    if that is longer.
    """
    own = found.final.mean("sparse", found.place)
    return max(judge.sparse_bound_ms(found.task), 1.25 * own.value if own else 0.0)


def promise(found: Found) -> str:
    """Says what the chosen setting and the first of today's do."""
    final, place = found.final, found.place
    ping, bound = final.mean("sparse", place), judge.sparse_bound_ms(found.task)
    if ping is not None and ping.value + (ping.half_width or 0.0) <= bound:
        said = (
            f"95 % of the pings take at most {number_text(bound)} ms longer than on the idle line "
            f"({_value(ping, 'ms')} in the {WORLDS.get(final.world, final.world)}{_in_kernel(found)})"
        )
    else:
        said = f"95 % of the pings take {_value(ping, 'ms')} longer than on the idle line"
    lines = [
        f"{said}, with {_goodput(found, place)}. With {final.candidates[0].baseline}: "
        f"{_value(final.mean('sparse', 0), 'ms')}, with {_goodput(found, 0)}."
    ]
    if broken := [CONDITIONS[name] for name, one in judge.violations(final).items() if one[place] > 0]:
        lines.append(f"It misses the aim for {' and '.join(broken)}: no setting of the grid does better here.")
    return " ".join(lines)


def _in_kernel(found: Found) -> str:
    """Returns what the ping takes in the kernel world at the stated rate, if the setting was played there."""
    scores = found.confirmed.get(search.STATED)
    return f", {_value(scores.mean('sparse', scores.candidates.index(found.chosen)), 'ms')} in Linux" if scores else ""


WORLDS = {"sim": "simulator"}
"""Worlds in a sentence."""


def _if_slower(found: Found) -> str:
    """Says what pings do if the line is slower than it was sold, if the aim is missed then."""
    if found.chosen.share is None:
        return ""
    for share in SOLD:
        for one in found.varied:
            mean = one.scores.mean("sparse", one.scores.candidates.index(found.chosen))
            percent = round(100 * share)
            if one.name == f"rate -{percent} %" and mean is not None and mean.value > _missed_ms(found):
                return (
                    f"If the line carries {percent} % less than stated, pings take {_value(mean, 'ms')} longer: "
                    f"measure its rates, or say --uncertain {percent}."
                )
    return ""


NEXT = {"throughput": "throughput", "sparse": "ping", "pages": "page", "own": "own flows' delay"}
"""The words for what decided."""


def _decided(found: Found) -> list[str]:
    """Says by which number the chosen setting is ahead of the next best discipline's."""
    best = [one for one in found.best.values() if one.kind in candidates.STOCK or one == found.chosen]
    if len(best) < 2 or found.chosen not in best:
        return []
    scores = found.final.of(best)
    own, cost = best.index(found.chosen), judge.costs(scores)
    other = min((place for place in range(len(best)) if place != own), key=lambda place: float(cost[place]))
    apart = {name: float(part[other] - part[own]) for name, part in judge.cost_parts(scores).items()}
    name = max(apart, key=lambda one: apart[one])
    next_best = f"The next best discipline is {best[other].label}"
    if cost[other] <= cost[own] + search.NEAR_COST:
        if not found.varied:
            return []
        place = found.final.candidates.index(best[other])
        return [
            f"{next_best}: {_nearly(found, judge.compare(found.final, found.place, place))} where something differs."
        ]
    means = [scores.mean(name, place) for place in (own, other)]
    if name == "throughput" or None in means:
        return [f"{next_best}: what decided is the {NEXT[name]}."]
    ours, theirs = (_value(mean, "s" if name == "pages" else "ms") for mean in means)
    return [f"{next_best}: what decided is its {NEXT[name]}, {theirs} for {ours}."]


def _nearly(found: Found, compared: Compared) -> str:
    """Says how a near-equal of the chosen setting compares on the stated link: what the marks in its row say."""
    behind = [_short(found, number) for number, verdict in compared.verdicts.items() if verdict == "better"]
    ahead = [_short(found, number) for number, verdict in compared.verdicts.items() if verdict == "worse"]
    if not behind:
        return f"{f'better in {listed(ahead)}' if ahead else 'as good'} here, but less robust"
    if not ahead:
        return f"slightly worse in {listed(behind)} here, and less robust"
    return f"better in {listed(ahead)} and worse in {listed(behind)} here, and less robust"


def _open(found: Found, scores: Scores) -> str:
    """Names the numbers in which the seeds do not decide, and the seeds that probably would."""
    by: dict[str, list[str]] = {}
    needed: list[int | None] = []
    for name, compared in against_today(found, scores).items():
        for number in compared.open:
            by.setdefault(_short(found, number), []).append(name)
            needed.append(compared.seeds.get(number))
    if not by:
        return ""
    every = len(against_today(found, scores))
    said = []
    for number, names in by.items():
        few = f"{len(names)} of them" if len(names) > FEW else listed(names)
        said.append(f"{number} against {'all' if len(names) == every else few}")
    return f"Open with these seeds: {'; '.join(said)} ({_seeds_words(needed)})."


FEW = 2
"""Up to this many settings are named."""


def _seeds_words(needed: Sequence[int | None]) -> str:
    """Names the seeds with which open numbers would probably be decided."""
    known = [one for one in needed if one is not None]
    if not known:
        return f"more than {means.MOST_SEEDS} seeds would be needed"
    rest = f", and more than {means.MOST_SEEDS} for the rest" if len(known) < len(needed) else ""
    return f"--seeds {max(known)} would probably decide{rest}"


MUCH = 0.2
"""From this uncertainty of the rate on, a shaper with a fixed rate is no good answer."""
VARIES = (
    "No fixed rate of a shaper fits a line whose rate varies much: a low one wastes throughput most of the time, and "
    "with a high one the queue is in the modem whenever the line is slow. The line was simulated with a constant rate."
)
NOTHING_WAITS = (
    "With this traffic hardly anything waits at this queue, whatever is set: the numbers do not speak for a discipline."
)


def _nothing_waits(found: Found) -> bool:
    """Returns whether the ping is as fast with the first of today's settings, which does nothing against a queue."""
    ours, theirs = found.final.mean("sparse", found.place), found.final.mean("sparse", 0)
    return bool(ours and theirs and theirs.value < ours.value + judge.LEAST_STEP_MS["sparse"])


def _at_lower_rates(found: Found) -> list[str]:
    """Says how the chosen setting does at the lowest rate that the line may have, and what its lower rate costs."""
    lines = []
    name = _lower_words(found)
    for scores in found.lower.values():
        own = scores.mean("sparse", scores.candidates.index(found.chosen))
        lines.append(
            f"{name[0].upper()}{name[1:]}, 95 % of the pings take at most {_value(own, 'ms')} longer; "
            f"{_against(found, scores)}. "
            f"The price at the stated rate is {candidates.percent(_price(found))} of the throughput of a shaper at "
            f"{candidates.percent(candidates.HIGHEST_SHARE)}."
        )
    return lines


def _lower_words(found: Found) -> str:
    """Names the case in which the line has its lowest rate."""
    return f"if the rate is {candidates.percent(found.task.uncertain)} lower"


def _reasons(found: Found) -> list[str]:
    """Says why a setting of today is not chosen although the chosen one is worse at the stated rate."""
    final = found.final
    broken = judge.violations(final)
    reasons = []
    for place, one in enumerate(final.candidates):
        if not one.baseline or one == found.chosen or not judge.compare(final, found.place, place).is_dominated:
            continue
        if not judge.eligible(found.task, one):
            why = "its shaper does not fit the lowest rate of the line"
        elif one.kind not in found.best:
            why = f"{one.kind} was not asked for"
        elif missed := [CONDITIONS[name] for name, steps in broken.items() if steps[place] > 0]:
            why = f"it misses the aim for {' and '.join(missed)}"
        else:
            why = "the chosen one is more robust, or its long flows wait less"
        reasons.append(f"{one.baseline}: {why}")
    return [f"Not chosen: {'; '.join(reasons)}."] if reasons else []


def _price(found: Found) -> float:
    """Returns the share of throughput that the shaper's lower rate costs: throughput is linear in it."""
    return 1 - (found.chosen.share or 1.0) / candidates.HIGHEST_SHARE


def _shaped(found: Found) -> str:
    share = found.chosen.share
    if share is None:
        return ""
    rates = [
        f"{rate_text(candidates.shaped_bps(one, share) / 1e6)} {_way(found, one.direction)}".strip()
        for one in found.task.queues
        if one.shaped
    ]
    return f" with a shaper of {' and '.join(rates)}, {candidates.percent(share)} of the stated rate"


CONDITIONS = {
    "sparse": "the ping's delay",
    "own": "the long flows' own delay",
    "pages": "the time of pages",
}
"""The subject of each condition of `judge.violations`."""


def _way(found: Found, direction: str) -> str:
    return WAYS[direction] if len(found.task.queues) > 1 else ""


def _goodput(found: Found, place: int) -> str:
    units = ["Mbit/s", *[""] * len(found.final.goodput)]
    parts = [
        f"{_value(found.final.mean(way, place), unit)} {_way(found, way)}".strip()
        for way, unit in zip(found.final.goodput, units, strict=False)
    ]
    return " and ".join(parts) or "what is sent"


def _value(mean: Mean | None, unit: str) -> str:
    if mean is None:
        return "–"
    return f"{mean_text(mean.value, mean.half_width)} {unit}".strip()


def _against(found: Found, scores: Scores) -> str:
    """Says how the chosen setting compares with each of today's ones, seed by seed."""
    by: dict[str, list[str]] = {}
    today = against_today(found, scores)
    for name, compared in today.items():
        by.setdefault(_word(compared), []).append(name)
    words = {
        "better": "it is better than {} in something, and not shown to be worse in anything",
        "same": "no difference from {} is large enough to be felt",
        "open": "no difference from {} is shown",
        "mixed": "it is better than {} in one thing and worse in another",
        "worse": "it is worse than {} in something, and not shown to be better in anything",
    }
    every = "each of today's settings"
    said = [
        words[verdict].format(every if len(names) == len(today) else listed(names))
        for verdict in words
        if (names := by.get(verdict))
    ]
    return "; ".join(said)


def _word(compared: Compared) -> str:
    if compared.dominates:
        return "better"
    if compared.is_dominated:
        return "worse"
    found = set(compared.verdicts.values())
    return "mixed" if "better" in found else "open" if "open" in found else "same"


def against_today(found: Found, scores: Scores) -> dict[str, Compared]:
    """Returns the chosen setting compared with each of today's, by its name."""
    chosen = scores.candidates.index(found.chosen)
    return {
        one.baseline: judge.compare(scores, chosen, place)
        for place, one in enumerate(scores.candidates)
        if one.baseline and one != found.chosen
    }


# ---- tables ----


def finalists(found: Found, scores: Scores | None = None, *, brief: bool = False) -> Table:
    """The chosen setting, the best one of each discipline, and what people set today. In brief, today's settings have
    their names only, and marks say what is better or worse.
    """
    scores = found.final if scores is None else scores
    best = [one for one in found.best.values() if one in scores.candidates and not one.baseline]
    shown = list(dict.fromkeys([found.chosen, *best, *(one for one in scores.candidates if one.baseline)]))
    heads = ["setting", *_heads(found, brief=brief), *([] if brief else ["chosen is"])]
    rows, marks = [], []
    for one in shown:
        place = scores.candidates.index(one)
        said = one.baseline or one.label if brief else f"{one.baseline}: {one.label}" if one.baseline else one.label
        chosen = scores.candidates.index(found.chosen)
        compared = None if one == found.chosen else judge.compare(scores, chosen, place, (*judge.JUDGED, "own"))
        verdict = [] if brief else [_verdict(found, compared) if compared else ""]
        rows.append([said, *_numbers(scores, place, like=found.final), *verdict])
        marks.append(_marks(found.final, compared.verdicts if compared else {}))
    bound = number_text(judge.sparse_bound_ms(found.task))
    seeds = f"{len(scores.seeds)} seeds ({scores.seeds[0]} to {scores.seeds[-1]}), world {scores.world}"
    notes = (
        f"means over {seeds}; ± is half of the 95 % interval",
        f"ping+: 95th percentile of the ping's RTT above the base RTT; aim: at most {bound} ms",
        *(() if np.isnan(scores.pages).all() else ("page: mean time until a page is there",)),
        *(() if np.isnan(scores.own).all() else ("own+: mean RTT of the long flows above the base RTT",)),
        f"{MARKED if brief else COMPARED}, beyond the 95 % interval of the paired differences and beyond 2 % of "
        "throughput, max(1 ms, 5 %) of ping+, 3 % of page, max(2 ms, 10 %) of own+; "
        f"{f'{OPEN} open' if brief else 'open'}: the seeds show neither a difference nor that there is none",
        *_today(found),
    )
    kinds = tuple(one.kind for one in shown)
    return Table("settings", heads, rows, notes, kinds, 0, tuple(marks) if brief else ())


COMPARED = "chosen is: how the chosen setting compares with this one"
MARKED = f"{WORSE} worse and {BETTER} better than the chosen setting"


def _marks(like: Scores, verdicts: Mapping[str, judge.Verdict]) -> tuple[str, ...]:
    """Returns a setting's marks, in the columns that `like` has. `verdicts` are those of the chosen setting."""
    words = {"better": WORSE, "worse": BETTER, "same": "", "open": OPEN}
    return tuple(words[verdicts.get(name, "same")] for name in _columns(like))


def _columns(like: Scores) -> list[str]:
    """Returns the names of the numbers that a table shows."""
    more = [name for name in ("pages", "own") if not np.isnan(like.number(name)).all()]
    return [*like.goodput, "sparse", *more]


def _today(found: Found) -> list[str]:
    """Says at which rate today's settings shape, and what the rule of sqm-scripts gives here."""
    shaped = [one for one in found.final.candidates if one.baseline and one.share is not None]
    said = []
    if shaped and found.chosen.share not in (None, shaped[0].share):
        today = shaped[0].share or 1.0
        more = candidates.percent(abs(found.chosen.share / today - 1))
        said.append(
            f"today's settings shape at {candidates.percent(today)} of the stated rate, the chosen one at "
            f"{candidates.percent(found.chosen.share)}: that alone is {more} "
            f"{'more' if found.chosen.share > today else 'less'} throughput"
        )
    rule = next((one for one in found.final.candidates if one.baseline.startswith("sqm")), None)
    return [*said, *([f"{rule.baseline} here: {rule.name}"] if rule else [])]


def _heads(found: Found, *, brief: bool) -> list[str]:
    heads = {way: f"{_way(found, way) or _short(found, way)} Mbit/s" for way in found.final.goodput}
    heads |= {"sparse": "ping+ ms", "pages": "page s", "own": "own+ ms"}
    # In a terminal, where columns are scarce, the unit is below the name.
    return [heads[name].replace(" ", "\n") if brief else heads[name] for name in _columns(found.final)]


def _numbers(scores: Scores, place: int, *, like: Scores) -> list[str]:
    """Returns a setting's numbers, in the columns that `like` has."""
    return [_value(scores.mean(name, place), "") for name in _columns(like)]


SHORT = {"right": "down", "left": "up", "sparse": "ping", "pages": "page", "own": "own"}
"""The words for judged numbers in tables."""


def _short(found: Found, name: str) -> str:
    return "rate" if name in judge.WAYS and len(found.task.queues) == 1 else SHORT[name]


def _verdict(found: Found, compared: Compared) -> str:
    """Says in which numbers the chosen setting is better or worse than another."""
    parts = []
    for word in ("better", "worse"):
        names = [_short(found, name) for name, verdict in compared.verdicts.items() if verdict == word]
        parts += [f"{word}: {', '.join(names)}"] if names else []
    if compared.open:
        names = [_short(found, name) for name in compared.open]
        parts.append(f"open: {', '.join(names)} ({_seeds_words([compared.seeds[name] for name in compared.open])})")
    return "; ".join(parts) or "no difference"


def robustness(found: Found, *, brief: bool = False) -> Table | None:
    """The chosen setting on other links and with other traffic. In brief, marks say which numbers are worse than the
    best, and not by how much.
    """
    if not found.varied:
        return None
    rows, marks = [], []
    for one in found.varied:
        place = one.scores.candidates.index(found.chosen)
        worse = _regrets(found, one, place)
        numbers = _numbers(one.scores, place, like=found.final)
        rows.append([one.name, *numbers, *([] if brief else [", ".join(worse.values()) or "–"])])
        marks.append(tuple(WORSE if name in worse else "" for name in _columns(found.final)))
    scores = found.varied[0].scores
    heads = ["what differs", *_heads(found, brief=brief), *([] if brief else ["worse than the best"])]
    notes = (
        f"means over {len(scores.seeds)} seeds; the shaper and all parameters stay as for the stated link",
        f"{WORSE if brief else 'worse than the best:'} {'worse ' if brief else ''}than the best of the disciplines' "
        f"settings there, where the seeds show it{'; the page says by how much' if brief else ''}",
        *(
            ("rate -10 %: the line is slower than it was sold or stated; really: the line frames packets as this kind",)
            if any(one.name.startswith("really ") for one in found.varied)
            else ()
        ),
        *(() if any("rate" in one.name for one in found.varied) else ("the rate is a trace, and was not varied",)),
    )
    return Table(f"robustness of {found.chosen.label}", heads, rows, notes, marks=tuple(marks) if brief else ())


def _regrets(found: Found, varied: search.Varied, place: int) -> dict[str, str]:
    """Says, by number, by how much a setting is worse than the best one of a variation, where the seeds show it."""
    said = {}
    for name, values in varied.regrets.items():
        worse = values[place]
        if np.isnan(worse):
            said[name] = f"{_short(found, name)} never"
        elif name == "sparse" and worse > judge.LEAST_STEP_MS["sparse"]:
            said[name] = f"ping {number_text(worse, 2)} ms"
        elif name != "sparse" and worse > judge.STEPS[name]:
            said[name] = f"{_short(found, name)} {number_text(100 * worse, 2)} %"
    return said


def sensitivity(found: Found) -> list[str]:
    """Says how far each parameter can be changed before anything changes that counts."""
    lines = []
    for name in dict.fromkeys(one.parameter for one in found.sensitivity):
        low, high = search.flat(found.sensitivity, name)
        said = [_parameter(name, one) for one in (low, high)]
        own = next(one.value for one in found.sensitivity if one.parameter == name and one.is_chosen)
        flat = "every other value tried is worse" if low == high else f"as good from {said[0]} to {said[1]}"
        wider = search.flat(found.sensitivity, name, shown=True)
        if wider != (low, high):
            until = " to ".join(_parameter(name, one) for one in wider)
            flat += f" in the mean; from {until} nothing is shown to be worse"
        lines.append(f"{name} {_parameter(name, own)}: {flat}")
    return lines


def _parameter(name: str, value: float) -> str:
    return time_text(1000 * value, 2) if name in PARAMETERS else number_text(value, 2)


def lower(found: Found, *, brief: bool = False) -> list[Table]:
    """The settings at the lowest rate that the line may have, if that is much lower than the stated one."""
    return [
        replace(finalists(found, scores, brief=brief), title=f"settings {_lower_words(found)}")
        for scores in found.lower.values()
    ]


def confirmation(found: Found, *, brief: bool = False) -> list[Table]:
    """The settings in the kernel world, at each rate that was played there."""
    return [
        replace(finalists(found, scores, brief=brief), title=f"settings in the kernel world, {where}")
        for where, scores in zip(("at the stated rate", _lower_words(found)), found.confirmed.values(), strict=False)
    ]


def signs(found: Found) -> tuple[int, int, list[str]]:
    """Returns how many differences between the chosen setting and today's ones count in both worlds, how many of these
    have the same sign in both, and those that do not.
    """
    both = same = 0
    other: list[str] = []
    kernel = found.confirmed[search.STATED]
    for place, one in enumerate(kernel.candidates):
        if one == found.chosen or one not in found.final.candidates:
            continue
        here = judge.compare(found.final, found.place, found.final.candidates.index(one))
        there = judge.compare(kernel, kernel.candidates.index(found.chosen), place)
        for name, verdict in here.verdicts.items():
            shown = ("better", "worse")
            if verdict in shown and there.verdicts.get(name) in shown:
                both += 1
                same += verdict == there.verdicts[name]
                if verdict != there.verdicts[name]:
                    other.append(f"{_short(found, name)} against {one.baseline or one.label}")
    return both, same, other


def confirmed_words(found: Found) -> str:
    """Says whether the kernel agrees with the simulator about the chosen setting and today's ones."""
    both, same, other = signs(found)
    if not both:
        return "No difference from today's settings counts in both worlds."
    said = f"{same} of {both} differences that count in both worlds have the same sign in both"
    return f"{said}; not so: {listed(other)}." if other else f"{said}."


# ---- JSON ----


def as_dict(found: Found, lines: Mapping[str, router.Lines]) -> dict[str, Any]:
    """Returns everything, for scripts."""
    final = found.final
    return {
        "title": found.task.title,
        "scenario": dict(found.task.document),
        "queues": [
            {"name": queue.name, "rate_bps": queue.rate_bps, "shaped": queue.shaped, "qdisc": line}
            for queue, line in zip(found.task.queues, found.chosen.lines, strict=True)
        ],
        "uncertain": found.task.uncertain,
        "assumed": _assumed(found),
        "chosen": _setting(final, found.place),
        "headline": " ".join(headline(found)),
        "settings": [_setting(final, place) for place in range(len(final.candidates))],
        "searched": [_setting(found.searched, place) for place in range(len(found.searched.candidates))],
        "against": {
            name: {
                "verdicts": dict(one.verdicts),
                "differences": {key: means.as_dict(mean) for key, mean in one.differences.items()},
                "open": dict(one.seeds),
                "dominates": one.dominates,
                "is_dominated": one.is_dominated,
            }
            for name, one in against_today(found, found.final).items()
        },
        "robustness": [
            {
                "name": one.name,
                "settings": [
                    _setting(one.scores, place)
                    | {"regrets": _known({name: values[place] for name, values in one.regrets.items()})}
                    for place in range(len(one.scores.candidates))
                ],
            }
            for one in found.varied
        ],
        "sensitivity": [
            {"parameter": one.parameter, "value": one.value, "cost": one.cost, "chosen": one.is_chosen}
            for one in found.sensitivity
        ],
        "lower_rate": {
            name: [_setting(scores, place) for place in range(len(scores.candidates))]
            for name, scores in found.lower.items()
        },
        "kernel": {
            name: [_setting(scores, place) for place in range(len(scores.candidates))]
            for name, scores in found.confirmed.items()
        },
        "router": {
            name: {"files": one.files, "undo": one.undo, "notes": one.notes, "counts": one.counts}
            for name, one in lines.items()
        },
    }


def _assumed(found: Found) -> dict[str, Any]:
    """Returns what was assumed of the line: its kind, if there is one, its framing, and whether the user said it."""
    task = found.task
    kind = task.queues[0].access
    return {
        "access": task.access or None,
        "given": task.access != line.UNKNOWN,
        "framing": kind.framing,
        "overhead": kind.overhead,
        "linklayer": kind.linklayer,
        "says": assumed(found),
    }


def _known(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Returns numbers with None in place of NaN."""
    return {name: None if np.isnan(value) else value for name, value in numbers.items()}


def numbers(found: Found) -> tuple[list[str], list[list[object]]]:
    """Returns the settings of the final with their means and the half-widths of the intervals, for CSV."""
    scores = found.final
    columns = {f"goodput_{WAYS[way]}_mbit": way for way in scores.goodput}
    columns |= {"ping_above_base_p95_ms": "sparse", "page_s": "pages", "long_flows_above_base_ms": "own"}
    heads = ["setting", "baseline", "chosen", *(head for name in columns for head in (name, f"{name}_half_width"))]
    rows: list[list[object]] = []
    for place, one in enumerate(scores.candidates):
        row: list[object] = [one.label, one.baseline, int(one == found.chosen)]
        for name in columns.values():
            mean = scores.mean(name, place)
            row += [None, None] if mean is None else [mean.value, mean.half_width]
        rows.append(row)
    return heads, rows


def _setting(scores: Scores, place: int) -> dict[str, Any]:
    one = scores.candidates[place]
    return {
        "label": one.label,
        "discipline": one.kind,
        "baseline": one.baseline or None,
        "share": one.share,
        "parameters": dict(one.parameters),
        "qdiscs": list(one.lines),
        "goodput_mbit": {way: means.as_dict(scores.mean(way, place)) for way in scores.goodput},
        "ping_above_base_p95_ms": means.as_dict(scores.mean("sparse", place)),
        "page_s": means.as_dict(scores.mean("pages", place)),
        "long_flows_above_base_ms": means.as_dict(scores.mean("own", place)),
    }
