"""The tables of an evaluation: the matrix of verdicts, one of ratios for each measure, the profiles, and every run."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.means import mean_of
from sojourn.rfc7928.judge import AXES, MARGIN, Axis, Evaluation, Judged, Ratio
from sojourn.rfc7928.observed import ALL, MEASURES, Seen
from sojourn.rfc7928.suite import Row
from sojourn.table import UNSEEN
from sojourn.words import NOTHING, mean_text, number_text, percent_text

Table = tuple[list[str], list[list[str]]]
"""Heads, and rows of cells."""
BETTER, WORSE = "+", "-"
"""Marks of ratios that count."""
LEGEND = (
    "better, worse: the 95 % interval of the paired ratio to tail drop excludes 1, and the ratio is at least "
    f"{percent_text(MARGIN)} away from it, in one measure or more; trade: better in one measure and worse in another; "
    f"same: the whole interval is less than {percent_text(MARGIN)} away in every measure; open: the seeds do not "
    "decide (a number says about how many would), or it was not played. ± is half the width of the 95 % interval. "
    f"In the tables of ratios {BETTER} is better and {WORSE} is worse than tail drop."
)


def label(row: Row) -> str:
    """The first cell of a row."""
    return f"{row.name} {row.need}" if row.need in ("may",) else row.name


def verdicts(done: Evaluation) -> Table:
    """Returns the matrix: a verdict for each row and discipline."""
    places = range(1, len(done.names))
    rows = [[label(row), *(_verdict_text(done.at(row, place)) for place in places)] for row in done.rows]
    return ["row", *done.names[1:]], rows


def _verdict_text(one: Judged) -> str:
    return f"{one.verdict} {one.needs}" if one.needs else one.verdict


def ratios(done: Evaluation, axis: Axis) -> Table:
    """Returns the ratios of a measure in percent of tail drop's, in the rows that have it."""
    places = range(1, len(done.names))
    rows = []
    for row in done.rows:
        found = [done.at(row, place).ratios.get(axis.name) for place in places]
        if any(found):
            rows.append([label(row), *map(ratio_text, found)])
    return ["row", *done.names[1:]], rows


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio in percent, with half of its interval and its mark."""
    if ratio is None:
        return NOTHING
    return percent(ratio) + _half_text(ratio) + (BETTER if ratio.better else WORSE if ratio.worse else " ")


def _half_text(ratio: Ratio) -> str:
    """Half the width of a ratio's interval in percent, as ` ±3`; empty if there is none that three digits show."""
    if ratio.low is None or ratio.high is None or ratio.high - ratio.low < 2 * UNSEEN * ratio.value:
        return ""
    return f" ±{number_text(50 * (ratio.high - ratio.low), 2)}"


def percent(ratio: Ratio) -> str:
    """A ratio in percent: whole percents below 100."""
    return number_text(100 * ratio.value, 3 if ratio.value >= 1 else 2)


def profiles(done: Evaluation) -> Table:
    """Returns a row for each discipline: its verdicts, and what it does to each measure over all rows."""
    heads = [
        "discipline",
        "better",
        "trade",
        "same",
        "worse",
        "open",
        "delay shorter in",
        *(f"{axis.head} %" for axis in AXES),
    ]
    rows = []
    for one in done.profiles:
        counts = [str(one.verdicts.get(word, 0)) for word in ("better", "trade", "same", "worse", "open")]
        shorter = f"{one.better.get('delay', 0)} of {one.of.get('delay', 0)}"
        means = [number_text(100 * one.ratios[axis.name], 3) if axis.name in one.ratios else NOTHING for axis in AXES]
        rows.append([done.names[one.place], *counts, shorter, *means])
    return heads, rows


def costs(done: Evaluation) -> Table:
    """Returns for each discipline the rows in which it is worse than tail drop, by measure."""
    rows = []
    for one in done.profiles:
        cells = []
        for axis in AXES:
            cells.append(", ".join(row for row, name in one.costs if name == axis.name) or NOTHING)
        rows.append([done.names[one.place], *cells])
    return ["discipline", *(axis.head for axis in AXES)], rows


def measured(done: Evaluation, row: Row) -> Table:
    """Returns the mean over the seeds of each measure, with half of its 95 % interval, for each case, class and
    discipline of a row.
    """
    found = done.found[row.name]
    groups: dict[tuple[str, str, int], list[Seen]] = {}
    for one in found:
        groups.setdefault((one.case, one.name, one.place), []).append(one)
    shown = [name for name in MEASURES if any(one.values.get(name) is not None for one in found)]
    rows = []
    order = sorted(groups, key=lambda key: (_first(found, key[0]), key[1] == ALL, key[1], key[2]))
    for case, name, place in order:
        cells = [_mean_text([one.values.get(measure) for one in groups[case, name, place]]) for measure in shown]
        rows.append([case or row.title, name or "all", done.names[place], *cells])
    return ["case", "class", "discipline", *(_head(name) for name in shown)], rows


def _first(found: Sequence[Seen], case: str) -> int:
    return next(at for at, one in enumerate(found) if one.case == case)


def _head(name: str) -> str:
    unit = MEASURES[name]
    return f"{name.replace('_', ' ')}, {unit}" if unit else name.replace("_", " ")


def _mean_text(values: Sequence[float | None]) -> str:
    mean = mean_of(values)
    if mean is None:
        return NOTHING
    half = mean.half_width or 0.0
    return mean_text(mean.value, half if half > UNSEEN * abs(mean.value) else None)


def every_run(done: Evaluation) -> tuple[list[str], list[list[object]]]:
    """Returns a row for each class of each run, for CSV."""
    heads = ["row", "case", "discipline", "line", "seed", "class", "kind", *MEASURES]
    rows: list[list[object]] = []
    for row in done.rows:
        for one in done.found[row.name]:
            about = [row.name, one.case, done.names[one.place], done.lines[one.place], one.seed, one.name, one.kind]
            rows.append([*about, *map(one.values.get, MEASURES)])
    return heads, rows


def every_verdict(done: Evaluation) -> tuple[list[str], list[list[object]]]:
    """Returns a row for each row of the table and each discipline, for CSV: the verdict, and each ratio."""
    heads = ["row", "title", "need", "discipline", "line", "verdict"]
    heads += [f"{axis.name}_ratio{end}" for axis in AXES for end in ("", "_low", "_high")]
    rows: list[list[object]] = []
    for one in done.judged:
        about = [one.row.name, one.row.title, one.row.need, done.names[one.place], done.lines[one.place], one.verdict]
        numbers: list[float | None] = []
        for axis in AXES:
            ratio = one.ratios.get(axis.name)
            numbers += [None, None, None] if ratio is None else [ratio.value, ratio.low, ratio.high]
        rows.append([*about, *numbers])
    return heads, rows
