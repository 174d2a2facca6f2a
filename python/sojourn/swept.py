"""Draws a sweep over a number: measures against the number's value, with a line for each discipline and intervals over
the seeds.

The number may be a key's (a rate, delay, RTT, count) or a parameter in the disciplines' lines (`codel target 5ms`). If
several numbers are swept, the one with most values is the x axis. Anything else that varies, except disciplines, has
rows of panels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn import felt, plot, queues, words
from sojourn.cases import Case, goodput
from sojourn.means import Mean, mean_of
from sojourn.plot import INK, NARROW, WIDTH, Data, Line, Picture
from sojourn.records import RunRecord
from sojourn.rows import qdisc_at
from sojourn.sheet import Axes, Scale, Sheet
from sojourn.words import Quantity, number_text, percent_text, quantity, rate_text

NAME = "sweep"
LEAST_VALUES = 3
"""The least number of values for a curve."""
DECADES = 15.0
"""The least ratio of the largest to the smallest value for a logarithmic axis."""
MOST_PANELS, MOST_ROWS = 3, 4
LEFT, BETWEEN, RIGHT = 0.75, 0.72, 2.3
NARROW_LEFT = 0.78
DOT = 0.22
"""Inches that a dot in a line's colour takes before the line's name."""
LINE, BAR = 1.5, 0.9
"""Points of the width of a line, and of an interval's."""
PANEL, UNDER, TITLE = 2.5, 0.66, 0.46
"""Inches of a panel's height, of the axis and labels below it, and of its title above."""


@dataclass(frozen=True)
class Point:
    """A combination with its place in the picture."""

    combination: Case
    x: Quantity
    line: str
    """The discipline, without the number."""
    rest: str
    """Other values that vary, in words: they select the row of panels."""


@dataclass(frozen=True)
class Measure:
    """A measure that is drawn against the number."""

    name: str
    title: str
    read: Callable[[RunRecord], float | None]
    text: Callable[[float | None], str]


@dataclass(frozen=True)
class Axis:
    """A swept number: its value in each combination, and the other values of each combination."""

    name: str
    values: list[Quantity | None]
    lines: list[str]
    rests: list[dict[str, Any]]

    @property
    def count(self) -> int:
        """The number of different values."""
        return len({one.value for one in self.values if one})


def axis_of(combinations: Sequence[Case], hop: str) -> Axis | None:
    """Returns the swept number with most values, or None if no number has enough values."""
    sets = [one.first.set for one in combinations]
    lines = [qdisc_at(one, hop) for one in combinations]
    found = [_by_key(key, sets, lines, hop) for key in dict.fromkeys(key for one in sets for key in one)]
    if len(set(lines)) > 1:
        found += _by_parameter(lines, _rests(sets, hop, lines))
    enough = [one for one in found if one is not None and one.count >= LEAST_VALUES]
    return max(enough, key=lambda one: one.count, default=None)


def _rests(sets: Sequence[Mapping[str, Any]], hop: str, given: Sequence[object]) -> list[dict[str, Any]]:
    """Returns the other values that each combination sets, without this queue's discipline and without values that
    follow from `given`.

    Keys that change together with a discipline or with the number (`zip`) add nothing, and are left out.
    """
    hops = [hop]
    keys = dict.fromkeys(key for one in sets for key in one)
    kept = []
    for key in keys:
        values: dict[str, set[str]] = {}
        for one, decides in zip(sets, given, strict=True):
            values.setdefault(repr(decides), set()).add(repr(one.get(key)))
        own_line = key.endswith(".qdisc") and queues.queue_of_key(key, hops) == hop
        if not own_line and any(len(found) > 1 for found in values.values()):
            kept.append(key)
    return [{key: one[key] for key in kept if key in one} for one in sets]


def _by_key(key: str, sets: Sequence[Mapping[str, Any]], lines: list[str], hop: str) -> Axis | None:
    values = [quantity(one.get(key)) for one in sets]
    if key.endswith(".qdisc") or any(one is None for one in values) or len({one.kind for one in values if one}) != 1:
        return None
    given = [(line, one and one.value) for line, one in zip(lines, values, strict=True)]
    rests = [{name: value for name, value in one.items() if name != key} for one in _rests(sets, hop, given)]
    return Axis(key.removeprefix("hop.").removeprefix("flow."), values, lines, rests)


_PARAMETER = re.compile(r"(?<=\s)([a-z_]+) (\d+(?:\.\d+)?[a-zµ]*)(?=\s|$)", re.IGNORECASE)


def _by_parameter(lines: Sequence[str], rests: Sequence[Mapping[str, Any]]) -> list[Axis]:
    """Returns an axis for each parameter of a discipline whose value differs between lines that are otherwise equal."""
    made = []
    for name in dict.fromkeys(found[1] for line in lines for found in _PARAMETER.finditer(line)):
        pattern = re.compile(rf"(?<=\s){re.escape(name)} (\d+(?:\.\d+)?[a-zµ]*)(?=\s|$)", re.IGNORECASE)
        values = [quantity(found[1]) if (found := pattern.search(line)) else None for line in lines]
        if len({one.kind for one in values if one}) == 1:
            without = [" ".join(pattern.sub("", line).split()) for line in lines]
            made.append(Axis(name, values, without, [dict(one) for one in rests]))
    return made


@dataclass(frozen=True)
class _Plan:
    """The layout of a picture of an axis: its points, and the panels that show them."""

    points: list[Point]
    titles: dict[str, str]
    """Titles by the other values that vary, in words; one empty title if none does."""
    kept: list[str]
    """The titles that have a row of panels; the others are left out."""
    colours: dict[str, str]
    """By line."""
    x_name: str
    tall: float
    """Inches of a panel's height: enough for the lines' names."""

    def head(self, row: str) -> list[Line]:
        """The words above a row of panels."""
        return plot.lines(self.titles[row], WIDTH - LEFT - plot.EDGE, 9.5, INK, bold=True)

    def height(self, row: str) -> float:
        """Inches of a row of panels with all that belongs to it."""
        return plot.block_height(self.head(row)) + TITLE + self.tall + UNDER

    @property
    def key(self) -> list[list[Line]]:
        """The lines' names, below the panels of a narrow figure."""
        return [
            plot.lines(line, NARROW - 2 * plot.EDGE - DOT, 9, plot.ink(colour), bold=True)
            for line, colour in self.colours.items()
        ]


def _plan(combinations: Sequence[Case], axis: Axis) -> _Plan:
    points = [
        Point(one, x, line, json.dumps(rest))
        for one, x, line, rest in zip(combinations, axis.values, axis.lines, axis.rests, strict=True)
        if x is not None
    ]
    rows = list(dict.fromkeys(point.rest for point in points))
    lines = list(dict.fromkeys(point.line for point in points))
    colours = dict(zip(lines, plot.colours(lines), strict=True))
    unit = words.UNITS[points[0].x.kind]
    return _Plan(
        points,
        dict(zip(rows, words.labels([json.loads(row) for row in rows]), strict=True)),
        [rows[round(at)] for at in np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS))],
        colours,
        axis.name.replace(".", " ") + (f", {unit}" if unit else ""),
        max(PANEL, sum(plot.block_height(_name(*one)) + 0.05 for one in colours.items())),
    )


def picture(combinations: Sequence[Case], hop: str) -> Picture | None:
    """Measures against the swept number; None where no number is swept."""
    axis = axis_of(combinations, hop)
    if axis is None:
        return None
    plan = _plan(combinations, axis)
    measures = _measures(combinations, hop)
    title = f"Delay and throughput by {axis.name.replace('.', ' ')}"
    several = any(len(one.runs) > 1 for one in combinations)
    seeds = "Dots are means, with 95 % intervals over the seeds." if several else "A dot is a run."
    subtitle, about = f"Delays are 95th percentiles. {seeds}", plot.provenance(combinations)
    sheet = Sheet(title, subtitle, about, sum(map(plan.height, plan.kept)) - 0.1)
    above = 0.0
    for row in plan.kept:
        sheet.write_in_body(plan.head(row), LEFT, above)
        _row(sheet, above + plot.block_height(plan.head(row)) + TITLE, plan, row, measures)
        above += plan.height(row)
    left_out = len(plan.titles) - len(plan.kept)
    caption = (
        f"Queue “{hop}”, in the measuring window. The x axis is {plan.x_name}; each line is a discipline."
        + (f" Rows are what else is swept; {left_out} more of them are not drawn." if left_out else "")
        + " All combinations are in the table and in the picture's CSV."
    )
    narrow = _narrow(title, subtitle, about, plan, measures)
    return Picture(NAME, title, caption, sheet, _data(plan, measures), narrow)


def _narrow(title: str, subtitle: str, about: str, plan: _Plan, measures: Sequence[Measure]) -> Sheet:
    """The same panels below each other, and the lines' names below all of them."""
    wide = NARROW - NARROW_LEFT - 0.3
    rows = [(row, plot.lines(plan.titles[row], NARROW - 2 * plot.EDGE, 9.5, INK, bold=True)) for row in plan.kept]
    panel = TITLE + PANEL + UNDER
    body = sum(plot.block_height(head) + len(measures) * panel for _, head in rows)
    names = sum(plot.block_height(block) + 0.05 for block in plan.key)
    sheet = Sheet(title, subtitle, about, body + names, NARROW)
    above = 0.0
    for row, head in rows:
        sheet.write_in_body(head, plot.EDGE, above)
        above += plot.block_height(head)
        points = [point for point in plan.points if point.rest == row]
        for measure in measures:
            _panel_with_axes(sheet, (NARROW_LEFT, above + TITLE), (wide, PANEL), plan, points, measure)
            above += panel
    for colour, block in zip(plan.colours.values(), plan.key, strict=True):
        _write_name(sheet, block, colour, plot.EDGE, above)
        above += plot.block_height(block) + 0.05
    return sheet


def _measures(combinations: Sequence[Case], hop: str) -> list[Measure]:
    """The measures: the wait in the queue, the delay of the smallest flows, and the link's throughput."""
    delays = felt.measures(combinations, hop)[: MOST_PANELS - 1]
    made = [Measure(f"{one.name}_p95", one.title, _p95(one), _scaled(one.unit)) for one in delays]
    hops = (link for one in combinations for record in one.runs for link in record.about["hops"])
    rates = {link["rate"] for link in hops if link["name"] == hop}
    if len(rates) > 1:
        busy = Measure(
            "utilisation", "link busy", lambda record: record.result["hops"][hop]["utilisation"], percent_text
        )
        return [*made, busy]
    return [*made, Measure("goodput_mbit", "goodput of all flows", lambda record: goodput(record.result), rate_text)]


def _p95(measure: felt.Measure) -> Callable[[RunRecord], float | None]:
    def read(record: RunRecord) -> float | None:
        found = measure.read(record)
        return found[1] if found else None

    return read


def _scaled(unit: str) -> Callable[[float | None], str]:
    return lambda value: words.time_text(None if value is None else value * (1000 if unit == "s" else 1))


def _row(sheet: Sheet, above: float, plan: _Plan, row: str, measures: Sequence[Measure]) -> None:
    """Panels side by side, and the lines' names to their right."""
    points = [point for point in plan.points if point.rest == row]
    wide = (WIDTH - LEFT - RIGHT - BETWEEN * (len(measures) - 1)) / len(measures)
    for place, measure in enumerate(measures):
        left = LEFT + place * (wide + BETWEEN)
        axis = _panel_with_axes(sheet, (left, above), (wide, plan.tall), plan, points, measure)
    _names(sheet, axis, above, points, measures[-1], plan)


def _panel_with_axes(
    sheet: Sheet,
    at: tuple[float, float],
    size: tuple[float, float],
    plan: _Plan,
    points: Sequence[Point],
    measure: Measure,
) -> Axes:
    """A panel of this size in inches, at this place of the sheet's body, with its title above."""
    (left, above), (wide, tall) = at, size
    axis = sheet.axes(left, above, wide, tall)
    head = plot.lines(measure.title, wide + BETWEEN - 0.1, 9, INK)
    sheet.write_in_body(head, left - 0.3, above - 0.08 - plot.block_height(head))
    _panel(axis, points, measure, plan.colours)
    _x_axis(axis, wide, points)
    axis.x_name, axis.name_size = plot.wrapped(plan.x_name, wide, 9), 9.0
    return axis


def _means(points: Sequence[Point], measure: Measure) -> dict[str, list[tuple[float, Mean]]]:
    """By line, the number's values in order with the measure's means."""
    found: dict[str, list[tuple[float, Mean]]] = {}
    for point in sorted(points, key=lambda one: one.x.value):
        mean = mean_of([measure.read(record) for record in point.combination.runs])
        if mean:
            found.setdefault(point.line, []).append((point.x.value, mean))
    return found


def _panel(axis: Axes, points: Sequence[Point], measure: Measure, colours: Mapping[str, str]) -> None:
    found = _means(points, measure)
    _y_axis(axis, [mean for line in found.values() for _, mean in line])
    axis.y_text = measure.text
    for line, path in found.items():
        x, y = [at for at, _ in path], [mean.value for _, mean in path]
        axis.line(x, y, colours[line], LINE)
        axis.dots(x, y, colours[line], 4.0)
        for at, mean in path:
            if (half := mean.half_width) is not None:
                low = max(mean.value - half, mean.value * 0.001) if axis.y.log else mean.value - half
                axis.interval((at, low), (at, mean.value + half), colours[line], BAR, 2)


def _y_axis(axis: Axes, means: Sequence[Mean]) -> None:
    """Limits that leave room for every interval's upper end."""
    values = [mean.value for mean in means]
    positive = [value for value in values if value > 0]
    top = max(values, default=1.0) or 1.0
    end = max((mean.value + (mean.half_width or 0.0) for mean in means), default=top)
    if len(positive) == len(values) > 0 and top / min(positive) >= DECADES:
        axis.y = Scale(min(positive) / 1.6, max(top * 1.6, end * 1.1), log=True)
        axis.y_ticks = axis.y.decades()
    else:
        axis.y = Scale(0.0, max(top * 1.12, end * 1.04))
        axis.y_ticks = axis.y.even(5)


def _x_axis(axis: Axes, wide: float, points: Sequence[Point]) -> None:
    """Ticks at the swept values, as many as have room for their labels."""
    values = sorted({point.x.value for point in points})
    low, high = values[0], values[-1]
    if low > 0 and high / low >= DECADES:
        axis.x = Scale(low / (high / low) ** 0.06, high * (high / low) ** 0.06, log=True)
        place = [np.log(value / low) / np.log(high / low) for value in values]
    else:
        edge = 0.06 * (high - low)
        axis.x = Scale(low - edge, high + edge)
        place = [(value - low) / (high - low) for value in values]
    kept, free = [], -1.0
    for value, at in zip(values, place, strict=True):
        middle, half = at * wide * 0.88, plot.text_width(number_text(value), 9) / 2 + 0.04
        if middle - half >= free:
            kept.append(value)
            free = middle + half
    axis.x_ticks, axis.x_text = kept, number_text


def _name(line: str, colour: str) -> list[Line]:
    return plot.lines(line, RIGHT - 0.2 - DOT - plot.EDGE, 9, plot.ink(colour), bold=True)


def _write_name(sheet: Sheet, block: Sequence[Line], colour: str, left: float, above: float) -> None:
    """Writes a line's name after a dot in the line's colour. The words have a darker colour if the line's is too pale
    to read.
    """
    sheet.write_in_body([Line("●", 9, colour)], left, above)
    sheet.write_in_body(block, left + DOT, above)


def _names(sheet: Sheet, axis: Axes, above: float, points: Sequence[Point], measure: Measure, plan: _Plan) -> None:
    """The lines' names to the right of the last panel, in the order and near the height of their ends."""
    ends = {line: path[-1][1].value for line, path in _means(points, measure).items()}
    order = sorted(ends, key=lambda line: -ends[line])
    blocks = [_name(line, plan.colours[line]) for line in order]
    heights = [plot.block_height(block) + 0.04 for block in blocks]
    wanted = [plan.tall * (1 - float(axis.y.at(ends[line]))) for line in order]
    for line, top, block in zip(order, plot.apart(wanted, heights, plan.tall), blocks, strict=True):
        _write_name(sheet, block, plan.colours[line], WIDTH - RIGHT + 0.15, above + top)


def _data(plan: _Plan, measures: Sequence[Measure]) -> Data:
    several = len(plan.titles) > 1
    heads = ["discipline", *(["with"] if several else []), plan.x_name]
    for measure in measures:
        heads += [measure.name, f"{measure.name}_half_width"]
    body: list[list[object]] = []
    for point in plan.points:
        cells: list[object] = [point.line, *([plan.titles[point.rest]] if several else []), point.x.value]
        for measure in measures:
            mean = mean_of([measure.read(record) for record in point.combination.runs])
            cells += [mean and mean.value, mean and mean.half_width]
        body.append(cells)
    return Data(heads, body)
