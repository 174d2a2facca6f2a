"""The first picture: the delays that people notice, one row for each discipline.

It shows the wait in the compared queue next to the delays of sparse flows: pings, calls, games, pages. If there are
several flows of a kind, it shows the one with the highest 95th percentile: a mean over both directions would hide the
worse one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sojourn import plot, queues
from sojourn.cases import Case, shared_name
from sojourn.cases import goodput as goodput_of_run
from sojourn.means import Mean, mean_of
from sojourn.plot import INK, NARROW, WIDTH, Data, Line, Picture
from sojourn.records import RunRecord
from sojourn.rows import Row, qdisc_at, rows_of
from sojourn.sheet import Axes, Scale, Sheet
from sojourn.words import NOTHING, rate_text, short_name, time_text

NAME = "summary"
MOST_PANELS = 4
"""The largest number of panels for delays. Goodput has one more panel."""
COMPARABLE = 4.0
"""Delays and durations share a scale if the longest of one kind is at most this many times the longest of the other."""
LEFT, BETWEEN = 2.3, 0.28
"""Inches for the labels, and between panels."""
Spread = tuple[float, float]
"""Median and 95th percentile."""


@dataclass(frozen=True)
class Measure:
    """A delay that people notice."""

    name: str
    """The name in the CSV, with its unit."""
    title: str
    unit: str
    """`ms` or `s`."""
    read: Callable[[RunRecord], Spread | None]
    meaning: str = ""
    """A sentence for the caption, if the title alone is not clear."""
    hop: str = ""
    """The queue that the measure is about; empty if it is about flows."""

    @property
    def ms(self) -> float:
        """The number of milliseconds in the unit."""
        return 1000.0 if self.unit == "s" else 1.0

    def text(self, value: float) -> str:
        """Returns a value with its unit."""
        return time_text(value * self.ms)


def _spread(found: Mapping[str, float] | None, base: float = 0.0) -> Spread | None:
    return (max(found["p50"] - base, 0.0), max(found["p95"] - base, 0.0)) if found else None


def _worst(kinds: Sequence[str], key: str, *, above_base: bool = False) -> Callable[[RunRecord], Spread | None]:
    """Returns a function that reads the numbers of the worst flow of these kinds. Flows that share a name count as one,
    with all of their samples. `above_base` subtracts each flow's base RTT, and takes the worst single flow.
    """

    def read(record: RunRecord) -> Spread | None:
        bases = {flow["name"]: flow["base_rtt_ms"] for flow in record.about["flows"]} if above_base else {}
        flows = [flow for flow in record.result["flows"] if flow["kind"] in kinds]
        if not above_base:  # flows of a name have one distribution, as in the tables
            groups = [one for one in record.result.get("groups", ()) if one["kind"] in kinds]
            names = {one["name"] for one in groups}
            flows = [*groups, *(flow for flow in flows if shared_name(flow["name"]) not in names)]
        found = [_spread(flow[key], bases.get(flow["name"], 0.0)) for flow in flows]
        return max((one for one in found if one), key=lambda one: one[1], default=None)

    return read


_LATE = "Added delay is what goes beyond the fastest packet of the flow."
FLOWS = (
    Measure(
        "ping_above_base_ms",
        "added ping time",
        "ms",
        _worst(("pings",), "rtt_ms", above_base=True),
        "Added ping time is what goes beyond the base RTT, the propagation delays of the path.",
    ),
    Measure("voice_late_ms", "added voice delay", "ms", _worst(("voip",), "jitter_ms"), _LATE),
    Measure("page_load_s", "page load time", "s", _worst(("web",), "page_load_s")),
    Measure("datagram_late_ms", "added datagram delay", "ms", _worst(("cbr", "onoff"), "jitter_ms"), _LATE),
    Measure("transfer_s", "transfer time", "s", _worst(("web", "sizes", "download", "upload"), "fct_s")),
)
"""Delays that the flows of a scenario may have, in the order of preference."""


def of_queue(hop: str, words: str, *, first: bool) -> Measure:
    """Returns the measure of the wait in a queue."""

    def read(record: RunRecord) -> Spread | None:
        return _spread(record.result["hops"][hop]["sojourn_ms"])

    name = "sojourn_ms" if first else f"{hop}_sojourn_ms"
    return Measure(name, f"wait in the queue{words}", "ms", read, f"The wait is that of packets in “{hop}”.", hop)


def of_hop(combinations: Sequence[Case], hop: str) -> str:
    """Returns the queue's name for the title, if several queues are shown."""
    results = [record.result for one in combinations for record in one.runs]
    alone = len(results[0]["hops"]) <= 2 and not hop.endswith(queues.REVERSE) and queues.shown_in(results) == [hop]
    return "" if alone else f" of {hop}"


def measures(combinations: Sequence[Case], hop: str) -> list[Measure]:
    """Returns the measures to show: the wait in the compared queue and in the others of its direction, the delays of
    flows, and the wait in all other queues if there is room.
    """
    runs = [record for one in combinations for record in one.runs]
    names = queues.shown_in([record.result for record in runs])
    waits = [of_queue(hop, of_hop(combinations, hop), first=True)]
    waits += [of_queue(name, of_hop(combinations, name), first=False) for name in names if name != hop]
    there = [one for one in FLOWS if any(one.read(record) for record in runs)]
    if any(one.name == "page_load_s" for one in there):
        there = [one for one in there if one.name != "transfer_s"]
    if len(combinations) == 1:
        waits = [replace(one, title=f"{one.title} ({short_name(qdisc_at(combinations[0], one.hop))})") for one in waits]
    along = [one for one in waits[1:] if one.hop.endswith(queues.REVERSE) == hop.endswith(queues.REVERSE)]
    others = [one for one in waits[1:] if one not in along]
    return [waits[0], *along, *there, *others][:MOST_PANELS]


def goodput(combination: Case) -> float:
    """Returns the goodput of all flows together in Mbit/s, averaged over the seeds."""
    found = mean_of([goodput_of_run(record.result) for record in combination.runs])
    return found.value if found else 0.0


def means(combination: Case, measure: Measure) -> tuple[Mean | None, Mean | None]:
    """Returns the median and 95th percentile, each averaged over the seeds that have it."""
    found = [measure.read(record) for record in combination.runs]
    return mean_of([one and one[0] for one in found]), mean_of([one and one[1] for one in found])


@dataclass(frozen=True)
class Panel:
    """A panel: one measure, for all rows."""

    head: str
    spreads: list[tuple[Mean | None, Mean | None]]
    """Median and 95th percentile of each row. For goodput, both are the same number."""
    most: float
    """The value of the longest bar on the panel's scale."""
    text: Callable[[float], str]
    colours: list[str]

    @property
    def words(self) -> list[str]:
        """Returns the text at the end of each row's bar."""
        return [self.text(high.value) if high else NOTHING for _, high in self.spreads]


TITLE = "What people notice: delay and goodput"
SUBTITLE = "Solid bar: the median. Pale bar and number: 95 % are no longer. Less delay and more goodput are better."


def picture(rows: Sequence[Row], hop: str) -> Picture:
    """Draws bars from zero: solid to the median, and pale to the 95th percentile."""
    combinations = [row.combination for row in rows]
    shown = measures(combinations, hop)
    found = [[means(one, measure) for one in combinations] for measure in shown]
    scales = _scales(shown, [max((_end(high) for _, high in spreads), default=0.0) for spreads in found])
    panels = [
        Panel(
            f"{measure.title} (own scale)" if _is_apart(measure, shown, scales) else measure.title,
            spreads,
            scales[measure.unit] / measure.ms,
            measure.text,
            [row.colour for row in (rows_of(combinations, measure.hop) if measure.hop else rows)],
        )
        for measure, spreads in zip(shown, found, strict=True)
    ]
    rates = [mean_of([goodput_of_run(record.result) for record in one.runs]) for one in combinations]
    panels.append(
        Panel(
            "goodput of all flows",
            [(one, one) for one in rates],
            max(map(_end, rates), default=0.0),
            rate_text,
            [row.colour for row in rows],
        )
    )
    footer = plot.provenance(combinations)
    return Picture(
        NAME,
        "Delay and goodput",
        _caption(rows, shown, scales),
        _side_by_side(rows, panels, footer),
        _data(rows, shown, panels),
        _stacked(rows, panels, footer),
    )


def _scales(shown: Sequence[Measure], longest: Sequence[float]) -> dict[str, float]:
    """Returns the longest bar of each unit's scale, in ms. Delays (ms) share a scale, and so do loads of pages and
    transfers (s).

    Readers compare all bars by eye, whatever units their labels have. Therefore both units share one scale, unless the
    shorter bars would then be hard to see.
    """
    scales: dict[str, float] = {}
    for measure, most in zip(shown, longest, strict=True):
        scales[measure.unit] = max(scales.get(measure.unit, 0.0), most * measure.ms)
    most = max(scales.values())
    return dict.fromkeys(scales, most) if most <= COMPARABLE * min(scales.values()) else scales


def _is_apart(measure: Measure, shown: Sequence[Measure], scales: Mapping[str, float]) -> bool:
    """Whether a measure has another scale than the wait in the queue."""
    return scales[measure.unit] != scales[shown[0].unit]


def _side_by_side(rows: Sequence[Row], panels: Sequence[Panel], footer: str) -> Sheet:
    """Draws one column for each measure, side by side."""
    wide = (WIDTH - LEFT - plot.EDGE - BETWEEN * (len(panels) - 1)) / len(panels)
    heads = [plot.lines(panel.head, wide, 9, INK) for panel in panels]
    above = max(plot.block_height(block) for block in heads) + 0.06
    names, heights = _names(rows, LEFT)
    sheet = Sheet(TITLE, SUBTITLE, footer, above + sum(heights) + 0.12)
    middles = _write_names(sheet, names, heights, above)
    rooms = _rooms(panels)
    for place, (panel, head) in enumerate(zip(panels, heads, strict=True)):
        left = LEFT + place * (wide + BETWEEN)
        sheet.write_in_body(head, left, above - 0.06 - plot.block_height(head))
        _bars(sheet.axes(left, above, wide, sum(heights)), middles, panel, rooms[place])
    return sheet


NARROW_LEFT = 1.5
"""Inches for the labels of the narrow figure."""


def _stacked(rows: Sequence[Row], panels: Sequence[Panel], footer: str) -> Sheet:
    """Draws one block of rows for each measure, one below the other."""
    wide = NARROW - NARROW_LEFT - plot.EDGE
    heads = [plot.lines(panel.head, NARROW - 2 * plot.EDGE, 10, INK) for panel in panels]
    names, heights = _names(rows, NARROW_LEFT)
    block = sum(heights) + 0.3
    sheet = Sheet(TITLE, SUBTITLE, footer, sum(plot.block_height(head) + block for head in heads), NARROW)
    above = 0.0
    for panel, head, room in zip(panels, heads, _rooms(panels), strict=True):
        sheet.write_in_body(head, plot.EDGE, above)
        above += plot.block_height(head) + 0.06
        middles = _write_names(sheet, names, heights, above)
        _bars(sheet.axes(NARROW_LEFT, above, wide, sum(heights)), middles, panel, room)
        above += block - 0.06
    return sheet


def _names(rows: Sequence[Row], left: float) -> tuple[list[list[Line]], list[float]]:
    """Returns the rows' labels and heights."""
    room = left - 0.12 - plot.EDGE
    alone = len(rows) == 1  # then the panels' heads have the disciplines
    names: list[list[Line]] = [
        []
        if alone
        else [*plot.lines(row.name, room, 10, plot.ink(row.colour), bold=True), *plot.lines(row.rest, room, 7.5)]
        for row in rows
    ]
    return names, [max(0.4, plot.block_height(block) + 0.12) for block in names]


def _write_names(sheet: Sheet, names: Sequence[Sequence[Line]], heights: Sequence[float], above: float) -> list[float]:
    """Writes the rows' labels. Returns the middle of each row, in inches below the upper edge of the first row."""
    middles, top = [], 0.0
    for block, height in zip(names, heights, strict=True):
        middles.append(top + height / 2)
        sheet.write_in_body(block, plot.EDGE, above + middles[-1] - plot.block_height(block) / 2)
        top += height
    return middles


def _rooms(panels: Sequence[Panel]) -> list[float]:
    """Returns the width in inches of each panel's numbers. All panels of times have the same, so that bars on one scale
    have lengths in proportion to their values.
    """

    def inches(panel: Panel) -> float:
        return max(plot.text_width(word, 9) for word in panel.words) + 0.1

    *times, rate = map(inches, panels)
    return [max(times)] * len(times) + [rate]


def _end(mean: Mean | None) -> float:
    return 0.0 if mean is None else mean.value + (mean.half_width or 0.0)


def _bars(axis: Axes, middles: Sequence[float], panel: Panel, room: float) -> None:
    """Draws one bar for each row, with its number at the end. The axes have a line at zero and nothing else.

    The longest bar on the scale leaves `room` inches for the numbers.
    """
    wide, tall = axis.size
    axis.x, axis.y = Scale(0.0, (panel.most or 1.0) * wide / (wide - room)), Scale(tall, 0.0)
    axis.spines = "l"
    for middle, (low, high), colour, word in zip(middles, panel.spreads, panel.colours, panel.words, strict=True):
        if high and low:
            axis.bar(middle, high.value, 0.2, colour, alpha=0.32)
            axis.bar(middle, low.value, 0.2, colour)
            if half := high.half_width:
                axis.interval((high.value - half, middle), (high.value + half, middle), INK, 0.9, 2)
        axis.words(word, _end(high), middle, 9, right=4 / 72, rise="center")


def _caption(rows: Sequence[Row], shown: Sequence[Measure], scales: Mapping[str, float]) -> str:
    several = any(len(row.combination.runs) > 1 for row in rows)
    said = [shown[0], *(one for one in shown if not one.hop)]
    meanings = dict.fromkeys(one.meaning for one in said if one.meaning)
    others = [measure.title for measure in shown if _is_apart(measure, shown, scales)]
    scale = ""
    if others:
        scale = f" The delays share a scale, {' and '.join(others)} {'have' if len(others) > 1 else 'has'} another."
    elif len(shown) > 1:
        scale = " All times share a scale."
    several_flows = "Flows of one name count together; of several names, pings or calls the worst is drawn."
    intervals = " Means over the seeds; lines at the bars' ends are 95 % intervals." if several else ""
    return f"In the measuring window. {' '.join(meanings)} {several_flows}{scale}{intervals}"


def _data(rows: Sequence[Row], shown: Sequence[Measure], panels: Sequence[Panel]) -> Data:
    heads = ["discipline"]
    for one in shown:
        heads += [f"{one.name}_p50", f"{one.name}_p95", f"{one.name}_p95_half_width"]
    body: list[list[object]] = []
    for place, row in enumerate(rows):
        cells: list[object] = [row.label]
        for panel in panels:
            low, high = panel.spreads[place]
            cells += [low and low.value, high and high.value, high and high.half_width]
        body.append([*cells[:-3], *cells[-2:]])  # goodput has no quantiles
    return Data([*heads, "goodput_mbit", "goodput_mbit_half_width"], body)
