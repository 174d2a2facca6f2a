"""The pictures of a report: the summary, and sojourn over time, over packets and over flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import felt, plot, queues, swept
from sojourn.cases import Case
from sojourn.means import mean_of
from sojourn.plot import INK, QUIET, WIDTH, Data, Line, Picture
from sojourn.rows import Row, rows_of
from sojourn.sheet import Axes, Scale, Sheet, plain_numbers, steps
from sojourn.words import link_rate_text, number_text, percent_text, rate_text, time_text

MOST_ROWS = 16
LEAST_MS = 0.1
"""The delay, in ms, at which the logarithmic axis shows an empty queue."""
LEFT = 0.78
"""Inches for the labels of the axes."""
TIME_TICKS, NARROW_TICKS = 9, 7
"""The most steps on an axis over time."""
GAP = 0.16
STRIP = 0.5
"""The height in inches of the link's rate above the rows."""
EXPLAIN = "Each row shows the same traffic through the discipline that it names."


@dataclass(frozen=True)
class Layout:
    """The widths of a figure, and the place of the words about its rows."""

    width: float
    """Inches of the figure."""
    right: float
    """Inches to the right of the axes."""
    beside: bool
    """Whether words are to the right of the axes; otherwise above or below them."""

    @property
    def axes(self) -> float:
        """Inches of the axes' width."""
        return self.width - LEFT - self.right

    @property
    def words(self) -> float:
        """Inches for the words."""
        return self.right - 0.12 - plot.EDGE if self.beside else self.width - 2 * plot.EDGE


WIDE, NARROW = Layout(WIDTH, 2.4, beside=True), Layout(plot.NARROW, 0.25, beside=False)


def pictures(combinations: Sequence[Case], hop: str) -> list[Picture]:
    """Returns every picture of a report, the most informative one first. `hop` is the queue that is compared.

    If a sweep over a number has more combinations than rows would fit, it has no other picture than its curves.
    """
    curves = swept.picture(combinations, hop)
    if curves and len(combinations) > MOST_ROWS:
        return [curves]
    return _with_rows(combinations, hop, curves)


def without_series(combinations: Sequence[Case], hop: str) -> list[Picture]:
    """The pictures of a report that need no series: curves over a swept number, and the summary if there is room."""
    curves = swept.picture(combinations, hop)
    summary = felt.picture(rows_of(combinations, hop), hop) if len(combinations) <= MOST_ROWS else None
    return [picture for picture in (curves, summary) if picture is not None]


def _with_rows(combinations: Sequence[Case], hop: str, curves: Picture | None) -> list[Picture]:
    shown = list(combinations[:MOST_ROWS])
    names = queues.shown_in([record.result for one in combinations for record in one.runs])
    ordered = [hop, *(name for name in names if name != hop)]
    made = [
        curves,
        felt.picture(rows_of(shown, hop), hop),
        *(_delay_over_time(rows_of(shown, name), name) for name in ordered),
        _distributions(rows_of(shown, hop), hop),
        *(_throughput(rows_of(shown, name), name) for name in ordered),
        _fairness(rows_of(shown, hop)),
    ]
    left_out = len(combinations) - len(shown)
    return [_said_of(picture, left_out) for picture in made if picture is not None]


def _said_of(picture: Picture, left_out: int) -> Picture:
    """The picture with a note about the combinations that have no row."""
    if not left_out or picture.name == swept.NAME:
        return picture
    words = f" The first {MOST_ROWS} combinations are drawn; {left_out} more are in the table."
    return replace(picture, caption=picture.caption + words)


# ---- rows that share a time axis ----


Numbers = Sequence[tuple[str, str]]
"""Words and their values."""


@dataclass(frozen=True)
class _Timeline:
    """Axes over time, a row for each combination, with the link's rate above them."""

    rows: Sequence[Row]
    hop: str
    title: str
    subtitle: str
    least: float
    """Inches of a row's height, or more where the words to its right need it."""
    numbers: Sequence[Numbers]
    """The numbers of each row."""
    draw: Callable[[Axes, int], None]
    """Draws a row, by its place, onto its axes."""

    def figure(self, layout: Layout) -> Sheet:
        """The figure in this layout."""
        blocks = [
            _row_block(row, self.rows, self.hop, numbers, layout)
            for row, numbers in zip(self.rows, self.numbers, strict=True)
        ]
        words = [plot.block_height(block) + 0.04 for block in blocks]
        heights = [max(self.least, tall) if layout.beside else self.least for tall in words]
        heads = [0.0 if layout.beside else tall for tall in words]
        strip_head = [] if layout.beside else plot.lines(self._strip_words(), layout.axes, 8.5)
        above = plot.block_height(strip_head)
        body = above + STRIP + sum(heads) + sum(heights) + GAP * len(heights) + 0.5
        about = plot.provenance([row.combination for row in self.rows])
        sheet = Sheet(self.title, self.subtitle, about, body, layout.width)
        sheet.write_in_body(strip_head, LEFT, 0)
        record = self.rows[0].combination.first
        time = Scale(0.0, float(record.about["duration_s"]))
        ticks = time.even(TIME_TICKS if layout.beside else NARROW_TICKS)
        strip = sheet.axes(LEFT, above, layout.axes, STRIP)
        strip.x, strip.x_ticks = time, ()
        _rate_strip(strip, record.rates[self.hop], self._strip_name() if layout.beside else "")
        above += STRIP + GAP
        for place, (head, height, block) in enumerate(zip(heads, heights, blocks, strict=True)):
            axis = sheet.axes(LEFT, above + head, layout.axes, height)
            axis.x, axis.x_ticks = time, ticks
            sheet.write_in_body(block, layout.width - layout.right + 0.12 if layout.beside else plot.EDGE, above)
            self._mark_changes(axis, place)
            self.draw(axis, place)
            above += head + height + GAP
        axis.x_text, axis.x_name = plain_numbers(ticks), ["time in the run, seconds"]
        return sheet

    def _strip_name(self) -> str:
        return "link rate (first row)" if _rates_differ(self.rows, self.hop) else "link rate"

    def _strip_words(self) -> str:
        """The words above a strip that has no room for the names of all its steps."""
        rates = self.rows[0].combination.first.rates[self.hop]["mbit"]
        return self._strip_name() + (f", up to {rate_text(max(rates))}" if len(set(rates)) > 1 else "")

    def _mark_changes(self, axis: Axes, place: int) -> None:
        steps = self.rows[place].combination.first.rates[self.hop]
        for change in steps["time_s"][1:] if len(steps["mbit"]) <= plot.MOST_RATES else ():
            axis.upright(change, "#b9c1c8", 0.8, (2, 2))


def _rate_strip(axis: Axes, rates: Mapping[str, Sequence[float]], name: str) -> None:
    """A link's rate from each `time_s` on, `mbit`, over the axis's time, with a `name` to its right."""
    end = axis.x.high
    axis.y, axis.spines = Scale(*plot.rate_scale(rates)), "b"
    time, rate = steps([*rates["time_s"], end], [*rates["mbit"], rates["mbit"][-1]])
    axis.area(time, axis.y.low, rate, plot.RATE_AREA)
    axis.line(time, rate, plot.RATE_LINE, 1.1)
    for middle, value, text in plot.rate_labels(rates, end, axis.size[0]):
        axis.words(text, middle, value, 8.5, up=2 / 72, align="center", rise="bottom")
    lines = plot.rate_name(rates, name) if name else []
    for place, line in enumerate(lines):
        up = plot.LEADING * 8.5 / 72 * ((len(lines) - 1) / 2 - place)
        axis.words_beside(line, 8.5, QUIET, up=up)


def _rates_differ(rows: Sequence[Row], hop: str) -> bool:
    return any(one.combination.first.rates[hop] != rows[0].combination.first.rates[hop] for one in rows)


def _rate_changes(rows: Sequence[Row], hop: str) -> bool:
    return any(len(row.combination.first.rates[hop]["mbit"]) > 1 for row in rows)


def _row_block(row: Row, rows: Sequence[Row], hop: str, numbers: Numbers, layout: Layout = WIDE) -> list[Line]:
    """A row's name, the other values that distinguish it, and its numbers."""
    rest = row.rest
    if _rates_differ(rows, hop):
        rest = ", ".join(filter(None, (rest, _own_rate(row.combination, hop))))
    name = plot.lines(row.name, layout.words, 11, plot.ink(row.colour), bold=True)
    rests = plot.lines(rest, layout.words, 7.5)
    if layout.beside:
        return [*name, *rests, Line("", 3.5), *(Line(word, value=number) for word, number in numbers)]
    pairs = [f"{word} {number}".replace(" ", "\N{NO-BREAK SPACE}") for word, number in numbers]
    return [*name, *rests, *plot.lines(" · ".join(pairs), layout.words, 8.5, INK)]


def _own_rate(combination: Case, hop: str) -> str:
    """The rate of a row's link in words."""
    rates = combination.first.rates[hop]["mbit"]
    least, most = link_rate_text(min(rates)), link_rate_text(max(rates))
    return f"link {least}" if least == most else f"link {least} to {most}"


def _series(combination: Case, hop: str) -> dict[str, NDArray[Any]] | None:
    series = combination.first.series.get(hop)
    return dict(series) if series and len(series["time_s"]) else None


def _of_hop(rows: Sequence[Row], hop: str) -> str:
    return felt.of_hop([row.combination for row in rows], hop)


def _at_hop(rows: Sequence[Row], hop: str) -> str:
    return f" at {hop}" if _of_hop(rows, hop) else ""


def _first_seed(rows: Sequence[Row]) -> str:
    several = len(rows[0].combination.runs) > 1
    return f" Drawn is seed {rows[0].combination.first.seed}." if several else ""


def _averaged(rows: Sequence[Row]) -> str:
    return ", averaged over the seeds." if len(rows[0].combination.runs) > 1 else "."


def average(combination: Case, hop: str, *path: str) -> float | None:
    """A number of the hop, averaged over the seeds that have it."""
    values: list[Any] = []
    for value in combination.hop(hop):
        found: Any = value
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        values.append(found)
    mean = mean_of(values)
    return mean.value if mean else None


# ---- sojourn over time ----


def _delay_axis(axis: Axes, least: float, most: float) -> None:
    axis.y = Scale(least, most, log=True)
    axis.y_ticks, axis.y_text = axis.y.decades(), time_text


def _delay_over_time(rows: list[Row], hop: str) -> Picture | None:
    """Figure 7 of the CoDel paper: the sojourn over time, one row a discipline, the link's rate above."""
    series = [_series(row.combination, hop) for row in rows]
    present = [one for one in series if one is not None]
    if not present:
        return None
    highest = max(float(np.nanmax(one["sojourn_max_ms"], initial=1.0)) for one in present)

    def draw(axis: Axes, place: int) -> None:
        _delay_axis(axis, LEAST_MS, highest * 1.6)
        one, colour = series[place], rows[place].colour
        if one is None:
            return
        low, mean, high = (np.maximum(one[f"sojourn_{key}_ms"], LEAST_MS) for key in ("min", "mean", "max"))
        time, low, mean, high = steps(one["time_s"], low, mean, high)
        axis.area(time, low, high, colour, alpha=0.28)
        axis.line(time, mean, colour, 0.9)

    timeline = _Timeline(
        rows,
        hop,
        f"How long each packet waited in the queue{_of_hop(rows, hop)}",
        "Sojourn time over time (line: mean, band: shortest to longest), on a logarithmic scale. Lower is better."
        + _first_seed(rows),
        1.12,
        [_delay_numbers(row.combination, hop) for row in rows],
        draw,
    )
    columns = ("time_s", "sojourn_min_ms", "sojourn_mean_ms", "sojourn_max_ms")
    return Picture(
        f"sojourn-{hop}",
        "Sojourn time over time",
        f"Queue “{hop}”. {EXPLAIN} The line is the mean sojourn time of the packets that left in each short interval, "
        "the band reaches from the shortest to the longest."
        + (" Dashed lines mark where the link's rate changes." if _rate_changes(rows, hop) else "")
        + " The numbers in words are over all packets in the measuring window"
        + _averaged(rows),
        timeline.figure(WIDE),
        _over_time(rows, [one and {name: one[name] for name in columns} for one in series], columns),
        timeline.figure(NARROW),
    )


def _delay_numbers(combination: Case, hop: str) -> list[tuple[str, str]]:
    words = (("median", "p50"), ("95 % below", "p95"), ("longest", "max"))
    delays = [(word, time_text(average(combination, hop, "sojourn_ms", key))) for word, key in words]
    return [*delays, ("link busy", percent_text(average(combination, hop, "utilisation")))]


def _over_time(
    rows: Sequence[Row], series: Sequence[Mapping[str, NDArray[Any]] | None], columns: Sequence[str]
) -> Data:
    """Columns over time of all rows, below each other."""
    body: list[list[object]] = []
    for row, one in zip(rows, series, strict=True):
        if one is not None:
            body += [[row.label, *values] for values in zip(*(one[name].tolist() for name in columns), strict=True)]
    return Data(["discipline", *columns], body)


# ---- throughput over time ----


def _throughput(rows: list[Row], hop: str) -> Picture | None:
    """A picture of the link's throughput over time, as a share of its rate."""
    series = [_series(row.combination, hop) for row in rows]
    if not any(one is not None for one in series):
        return None
    alone = not _of_hop(rows, hop)  # otherwise part of the goodput goes elsewhere
    shares = [None if one is None else dict(zip(("time_s", "used"), _used_share(one), strict=True)) for one in series]

    def draw(axis: Axes, place: int) -> None:
        axis.y, axis.y_ticks, axis.y_text = Scale(0.0, 1.08), [0, 0.5, 1], _whole_percent
        one, colour = shares[place], rows[place].colour
        if one is not None:
            time, used = steps(one["time_s"], one["used"])
            axis.area(time, 0.0, used, colour, alpha=0.28)
            axis.line(time, used, colour, 0.9)

    timeline = _Timeline(
        rows,
        hop,
        f"How much of the link was used{_at_hop(rows, hop)}",
        "Bytes carried as a share of the link's rate at that moment. Gaps are capacity that stayed unused."
        + _first_seed(rows),
        0.62,
        [_use_numbers(row.combination, hop, alone) for row in rows],
        draw,
    )
    return Picture(
        f"throughput-{hop}",
        "Throughput over time",
        f"Queue “{hop}”: bytes on the wire in each interval over what the link could carry in it. "
        "The numbers in words are over the measuring window"
        + ("; goodput is the payload acknowledged, all flows together" if alone else "")
        + _averaged(rows),
        timeline.figure(WIDE),
        _over_time(rows, shares, ("time_s", "used")),
        timeline.figure(NARROW),
    )


def _whole_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _use_numbers(combination: Case, hop: str, alone: bool) -> list[tuple[str, str]]:
    busy = ("link busy", percent_text(average(combination, hop, "utilisation")))
    return [busy, ("goodput", rate_text(felt.goodput(combination)))] if alone else [busy]


def _used_share(one: Mapping[str, NDArray[Any]], target_s: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the share of time that the link was busy, in intervals of about a second. Shorter intervals would show
    single packets on slow links.
    """
    time, busy = one["time_s"], one["busy_fraction"]
    width = float(time[1] - time[0]) if len(time) > 1 else 1.0
    together = max(1, min(round(target_s / width), len(time) // 60))
    whole = len(time) // together * together
    share = busy[:whole].reshape(-1, together).mean(axis=1)
    return np.append(time[:whole:together], time[whole - 1] + width), np.append(share, share[-1:])


# ---- distribution ----


def _pooled(combination: Case, hop: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the mean of the distribution functions over the seeds."""
    found = [record.distribution[hop] for record in combination.runs if record.distribution.get(hop)]
    found = [one for one in found if one["ms"]]
    return plot.mean_distribution(found) if found else None


def _distributions(rows: list[Row], hop: str) -> Picture | None:
    """The distribution of the sojourn, one line a discipline."""
    pooled = [_pooled(row.combination, hop) for row in rows]
    if not any(one is not None for one in pooled):
        return None
    table: list[list[object]] = []
    for row, one in zip(rows, pooled, strict=True):
        if one is not None:
            table += [[row.label, ms, share] for ms, share in zip(one[0].tolist(), one[1].tolist(), strict=True)]
    return Picture(
        "distribution",
        "Distribution of the sojourn time",
        f"Queue “{hop}”: cumulative distribution over all delivered packets of the measuring window"
        + _averaged(rows)
        + " Read it at a height: where a line crosses 95 %, one packet in twenty waited longer.",
        _distribution_figure(rows, hop, pooled, WIDE),
        Data(["discipline", "sojourn_ms", "share_at_or_below"], table),
        _distribution_figure(rows, hop, pooled, NARROW),
    )


CURVES = 3.4
"""Inches of the height of the distributions' axes, or more where the names to their right need it."""


def _distribution_figure(
    rows: Sequence[Row], hop: str, pooled: Sequence[tuple[NDArray[Any], NDArray[Any]] | None], layout: Layout
) -> Sheet:
    """The curves, and the rows' names to their right or below."""
    names = [plot.lines(row.label, layout.words - 0.3, 8.5, INK) for row in rows]
    words = sum(plot.block_height(block) + 0.05 for block in names)
    tall = max(CURVES, words - 0.2) if layout.beside else CURVES
    sheet = Sheet(
        f"How long packets waited{_at_hop(rows, hop)}",
        "Further left is better: more packets got through sooner.",
        plot.provenance([row.combination for row in rows]),
        tall + 0.5 + (0.0 if layout.beside else words + 0.1),
        layout.width,
    )
    axis = sheet.axes(LEFT, 0, layout.axes, tall)
    left, above = (layout.width - layout.right + 0.14, 0.0) if layout.beside else (plot.EDGE, tall + 0.6)
    for row, one, block in zip(rows, pooled, names, strict=True):
        sheet.write_in_body([Line("●", 8.5, row.colour)], left, above)
        sheet.write_in_body(block, left + 0.22, above)
        above += plot.block_height(block) + 0.05
        if one is not None:
            _step_curve(axis, *one, row.colour)
    highest = max([LEAST_MS * 100, *(float(one[0][-1]) for one in pooled if one is not None)])
    axis.x, axis.x_text = Scale(LEAST_MS, highest * 1.3, log=True), time_text
    axis.x_ticks = axis.x.decades()
    axis.y, axis.y_text = Scale(0.0, 1.005), _whole_percent
    axis.y_ticks = Scale(0.0, 1.0).even(5)
    axis.x_name = ["sojourn time (logarithmic)"]
    axis.y_name = "share of packets that waited no longer"
    return sheet


def _step_curve(axis: Axes, ms: NDArray[Any], share: NDArray[Any], colour: str) -> None:
    """Returns a distribution as a curve, from the least delay on the axis to beyond the axis's end."""
    at = np.maximum(np.concatenate([[LEAST_MS], ms, [1e9]]), LEAST_MS)
    height = np.concatenate([[share[ms <= LEAST_MS].max(initial=0.0)], share, [1.0]])
    along, share = steps(at, height)
    axis.line(along, share, colour, 1.9)


# ---- flows ----


def _fairness(rows: list[Row]) -> Picture | None:
    """One dot a flow: its goodput, and the share of its packets that was dropped."""
    if len(rows[0].combination.first.result["flows"]) < 2:
        return None
    table: list[list[object]] = [
        [row.label, record.seed, one["name"], *(read(one) for _, read, _ in PER_FLOW)]
        for row in rows
        for record in row.combination.runs
        for one in record.result["flows"]
    ]
    return Picture(
        "fairness",
        "Goodput and drop share per flow",
        "In the measuring window, over the whole path"
        + (", every seed." if len(rows[0].combination.runs) > 1 else "."),
        _fairness_figure(rows, WIDE),
        Data(["discipline", "seed", "flow", "goodput_mbit", "drop_share"], table),
        _fairness_figure(rows, NARROW),
    )


def _fairness_figure(rows: Sequence[Row], layout: Layout) -> Sheet:
    """Panels with a row of dots for each combination, side by side or below each other."""
    left, between, head, foot = (2.35 if layout.beside else 1.5), 0.6, 0.35, 0.35
    short = len({row.name for row in rows}) == len(rows)  # the picture is about no queue, as some tables are
    names = [
        plot.lines(row.name if short else row.label, left - 0.25, 9, plot.ink(row.colour), bold=True) for row in rows
    ]
    heights = [max(0.42, plot.block_height(block) + 0.1) for block in names]
    tall = head + sum(heights) + foot
    right = 0.4 if layout.beside else layout.right
    wide = (layout.width - left - between - right) / 2 if layout.beside else layout.width - left - right
    sheet = Sheet(
        "Goodput and drops of each flow",
        "Each dot is a flow (hollow: many short connections together). Dots close together are fair shares.",
        plot.provenance([row.combination for row in rows]),
        tall if layout.beside else 2 * tall,
        layout.width,
    )
    for place, (title, read, text) in enumerate(PER_FLOW):
        x, y = (left + place * (wide + between), 0.0) if layout.beside else (left, place * tall)
        axis = sheet.axes(x, y + head, wide, sum(heights))
        if place == 0 or not layout.beside:
            _write_labels(sheet, names, heights, y + head)
        _flow_panel(axis, rows, heights, read)
        axis.title = title
        axis.x_ticks, axis.x_text = axis.x.even(6 if layout.beside else 4), text
    return sheet


def _write_labels(sheet: Sheet, names: Sequence[Sequence[Line]], heights: Sequence[float], above: float) -> None:
    """The rows' names, each in the middle of its row's height."""
    for block, height in zip(names, heights, strict=True):
        sheet.write_in_body(block, plot.EDGE, above + height / 2 - plot.block_height(block) / 2)
        above += height


def _flow_panel(
    axis: Axes, rows: Sequence[Row], heights: Sequence[float], read: Callable[[dict[str, Any]], float | None]
) -> None:
    """The dots of all rows, below each other."""
    edges = np.cumsum([0.0, *heights]).tolist()
    axis.y, axis.spines = Scale(edges[-1], 0.0), "b"
    for edge in edges[1:-1]:
        axis.level(edge, plot.GRID, plot.GRID_WIDTH)
    longest = 0.0
    for row, begin, end in zip(rows, edges[:-1], edges[1:], strict=True):
        for record in row.combination.runs:
            flows = record.result["flows"]
            values = [read(flow) for flow in flows]
            _dots(axis, values, (begin + end) / 2, row.colour, [flow["kind"] for flow in flows])
            longest = max([longest, *(value for value in values if value is not None)])
    axis.x = Scale(0.0, longest * 1.05 or 0.05)


def flow_goodput(flow: dict[str, Any]) -> float | None:
    """Returns a flow's goodput in Mbit/s. Pings have None: a dot at zero would look like a flow that starves."""
    return None if flow["kind"] == "pings" else flow["goodput_mbit"]


def drop_share(flow: dict[str, Any]) -> float | None:
    """Returns the share of a flow's sent packets that was dropped, or None if it sent nothing."""
    return flow["drops"] / flow["packets"] if flow["packets"] else None


PER_FLOW: tuple[tuple[str, Callable[[dict[str, Any]], float | None], Callable[[float], str]], ...] = (
    ("goodput, Mbit/s", flow_goodput, number_text),
    ("share of the flow's packets dropped", drop_share, percent_text),
)
"""The measures that are drawn of each flow: title, value, and how a value is written."""


def _dots(axis: Axes, values: Sequence[float | None], at: float, colour: str, kinds: Sequence[str]) -> None:
    many = {"web", "sizes", "download", "upload"}
    for hollow in (False, True):
        chosen = [
            value for value, kind in zip(values, kinds, strict=True) if value is not None and (kind in many) == hollow
        ]
        axis.dots(chosen, [at] * len(chosen), colour, 6.5, hollow=hollow, width=1.3, alpha=0.75)
