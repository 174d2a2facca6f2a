"""The first picture: what people notice of a queue, a row a discipline.

The wait in the queue that is compared stands beside what the small flows meet: pings, calls, games, pages. Of several
flows of a kind the one with the highest 95th percentile counts, as nobody notices a mean over both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from sojourn import plot, queues
from sojourn.plot import INK, WIDTH, Data, Line, Picture, Sheet
from sojourn.records import RunRecord
from sojourn.rows import Row
from sojourn.sweep import Combination, Mean, mean_of
from sojourn.table import goodput as goodput_of_run
from sojourn.words import rate_text, time_text

NAME = "summary"
MOST_PANELS = 4
"""Panels of delays; goodput has one more."""
LEFT, BETWEEN = 2.3, 0.28
"""Inches for the labels, and between panels."""
Spread = tuple[float, float]
"""Median and 95th percentile."""


@dataclass(frozen=True)
class Measure:
    """A delay that people notice."""

    name: str
    """In the CSV, with its unit."""
    title: str
    unit: str
    """`ms` or `s`: panels of the same unit share their scale."""
    read: Callable[[RunRecord], Spread | None]

    def text(self, value: float) -> str:
        """A value of it in words."""
        return time_text(value * (1000 if self.unit == "s" else 1))


def _spread(found: Mapping[str, float] | None, base: float = 0.0) -> Spread | None:
    return (max(found["p50"] - base, 0.0), max(found["p95"] - base, 0.0)) if found else None


def _worst(kinds: Sequence[str], key: str, *, above_base: bool = False) -> Callable[[RunRecord], Spread | None]:
    """Reads the worst flow of these kinds; `above_base` takes off the round trip of an empty path."""

    def read(record: RunRecord) -> Spread | None:
        bases = {flow["name"]: flow["base_rtt_ms"] for flow in record.about["flows"]} if above_base else {}
        flows = [flow for flow in record.result["flows"] if flow["kind"] in kinds]
        found = [_spread(flow[key], bases.get(flow["name"], 0.0)) for flow in flows]
        return max((one for one in found if one), key=lambda one: one[1], default=None)

    return read


FLOWS = (
    Measure("ping_above_base_ms", "added ping time", "ms", _worst(("pings",), "rtt_ms", above_base=True)),
    Measure("voice_late_ms", "added voice delay", "ms", _worst(("voip",), "jitter_ms")),
    Measure("page_load_s", "page load time", "s", _worst(("web",), "page_load_s")),
    Measure("datagram_late_ms", "added datagram delay", "ms", _worst(("cbr", "onoff"), "jitter_ms")),
    Measure("transfer_s", "transfer time", "s", _worst(("web", "sizes", "download", "upload"), "fct_s")),
)  # fmt: skip
"""What the flows of a scenario may show, the most telling first."""


def of_queue(hop: str, name: str = "the queue") -> Measure:
    """The wait in a queue."""
    return Measure(
        "sojourn_ms", f"wait in {name}", "ms", lambda record: _spread(record.result["hops"][hop]["sojourn_ms"])
    )


def of_hop(combinations: Sequence[Combination], hop: str) -> str:
    """Which queue it is, in words, where that does not go without saying."""
    results = [record.result for one in combinations for record in one.runs]
    alone = len(results[0]["hops"]) <= 2 and not hop.endswith(queues.REVERSE) and queues.shown_in(results) == [hop]
    return "" if alone else f" of {hop}"


def measures(combinations: Sequence[Combination], hop: str) -> list[Measure]:
    """What to show of these runs: the queue, and what the flows have."""
    queue = of_queue(hop, f"the queue{of_hop(combinations, hop)}")
    runs = [record for one in combinations for record in one.runs]
    there = [one for one in FLOWS if any(one.read(record) for record in runs)]
    if any(one.name == "page_load_s" for one in there):
        there = [one for one in there if one.name != "transfer_s"]
    return [queue, *there][:MOST_PANELS]


def goodput(combination: Combination) -> float:
    """Mbit/s of all flows together, averaged over the seeds."""
    found = mean_of([goodput_of_run(record.result) for record in combination.runs])
    return found.value if found else 0.0


def means(combination: Combination, measure: Measure) -> tuple[Mean | None, Mean | None]:
    """Median and 95th percentile over the seeds that have them."""
    found = [measure.read(record) for record in combination.runs]
    return mean_of([one and one[0] for one in found]), mean_of([one and one[1] for one in found])


def picture(rows: Sequence[Row], hop: str) -> Picture:
    """Bars from zero: solid to the median, pale to the 95th percentile."""
    combinations = [row.combination for row in rows]
    shown = measures(combinations, hop)
    found = [[means(one, measure) for measure in shown] for one in combinations]
    rates = [mean_of([goodput_of_run(record.result) for record in one.runs]) for one in combinations]
    names = [_label(row) for row in rows]
    heights = [max(0.4, plot.block_height(block) + 0.12) for block in names]
    wide = (WIDTH - LEFT - plot.EDGE - BETWEEN * len(shown)) / (len(shown) + 1)
    heads = [plot.lines(one, wide, 9, INK) for one in (*(each.title for each in shown), "goodput of all flows")]
    above = max(plot.block_height(block) for block in heads) + 0.06
    sheet = Sheet(
        "What people notice: delay and goodput",
        "Solid bar: the median. Pale bar and number: 95 % are no longer. Shorter delays are better, longer goodput bars.",
        plot.provenance(combinations),
        above + sum(heights) + 0.12,
    )
    middles = _write_names(sheet, names, heights, above)
    for place, head in enumerate(heads):
        left = LEFT + place * (wide + BETWEEN)
        sheet.write_in_body(head, left, above - 0.06 - plot.block_height(head))
        axis = sheet.axes(left, above, wide, sum(heights))
        _plain(axis, sum(heights))
        if place < len(shown):
            alike = [at for at, one in enumerate(shown) if one.unit == shown[place].unit]
            most = max((_end(row[at][1]) for row in found for at in alike), default=0.0)
            spreads = [row[place] for row in found]
            _bars(axis, wide, most, middles, spreads, [row.colour for row in rows], shown[place].text)
        else:
            most = max(map(_end, rates), default=0.0)
            _bars(axis, wide, most, middles, [(one, one) for one in rates], [row.colour for row in rows], rate_text)
    return Picture(NAME, "Delay and goodput", _caption(rows, hop), sheet.figure, _data(rows, shown, found, rates))


def _label(row: Row) -> list[Line]:
    room = LEFT - 0.15 - plot.EDGE
    return [
        *plot.lines(row.name, room, 10, plot.ink(row.colour), bold=True),
        *plot.lines(row.rest, room, 7.5),
    ]


def _write_names(sheet: Sheet, names: Sequence[Sequence[Line]], heights: Sequence[float], above: float) -> list[float]:
    """The rows' labels; returns the middle of each row, in inches below the first's upper edge."""
    middles, top = [], 0.0
    for block, height in zip(names, heights, strict=True):
        middles.append(top + height / 2)
        sheet.write_in_body(block, plot.EDGE, above + middles[-1] - plot.block_height(block) / 2)
        top += height
    return middles


def _plain(axis: Axes, height: float) -> None:
    """Axes with a line at zero and nothing else: the numbers stand at the bars."""
    axis.set_ylim(height, 0)
    axis.grid(visible=False)
    axis.xaxis.set_major_locator(FixedLocator([]))
    axis.yaxis.set_major_locator(FixedLocator([]))
    axis.spines["bottom"].set_visible(False)


def _end(mean: Mean | None) -> float:
    return 0.0 if mean is None else mean.value + (mean.half_width or 0.0)


def _bars(
    axis: Axes,
    wide: float,
    most: float,
    middles: Sequence[float],
    spreads: Sequence[tuple[Mean | None, Mean | None]],
    colours: Sequence[str],
    text: Callable[[float], str],
) -> None:
    """A bar a row with its number at its end; `most` is the longest of the scale, `wide` the axes' inches."""
    words = [text(high.value) if high else "–" for _, high in spreads]
    room = max(plot.text_width(word, 9) for word in words) + 0.1
    axis.set_xlim(0, (most or 1.0) * wide / (wide - room))
    for middle, (low, high), colour, word in zip(middles, spreads, colours, words, strict=True):
        if high and low:
            axis.barh(middle, high.value, 0.2, color=colour, alpha=0.32, linewidth=0)
            axis.barh(middle, low.value, 0.2, color=colour, linewidth=0)
            if high.half_width:
                axis.errorbar(high.value, middle, xerr=high.half_width, fmt="none", color=INK, linewidth=0.9, capsize=2)
        axis.annotate(
            word, (_end(high), middle), (4, 0), textcoords="offset points", va="center", fontsize=9, color=INK
        )


def _caption(rows: Sequence[Row], hop: str) -> str:
    several = any(len(row.combination.runs) > 1 for row in rows)
    return (
        f"In the measuring window. The wait is that of packets in the queue “{hop}”. Added ping time is what goes beyond "
        "the round trip of an idle path, added delay what goes beyond the fastest packet of the flow. Of several flows "
        "of a kind the worst is drawn. Panels in the same unit share their scale."
        + (" Means over the seeds; lines at the bars' ends are 95 % intervals." if several else "")
    )


def _data(
    rows: Sequence[Row],
    shown: Sequence[Measure],
    found: Sequence[Sequence[tuple[Mean | None, Mean | None]]],
    rates: Sequence[Mean | None],
) -> Data:
    def half(mean: Mean | None) -> float | None:
        return mean.half_width if mean else None

    heads = ["discipline"]
    for one in shown:
        heads += [f"{one.name}_p50", f"{one.name}_p95", f"{one.name}_p95_half_width"]
    body: list[list[object]] = []
    for row, spreads, rate in zip(rows, found, rates, strict=True):
        cells: list[object] = [row.label]
        for low, high in spreads:
            cells += [low and low.value, high and high.value, half(high)]
        body.append([*cells, rate and rate.value, half(rate)])
    return Data([*heads, "goodput_mbit", "goodput_mbit_half_width"], body)
