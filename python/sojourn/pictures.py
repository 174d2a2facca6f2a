"""The pictures of a report: the summary, and sojourn over time, over packets and over flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator, PercentFormatter
from numpy.typing import NDArray

from sojourn import felt, plot, queues, swept
from sojourn.plot import INK, WIDTH, Data, Line, Picture, Sheet
from sojourn.rows import Row, rows_of
from sojourn.sweep import Combination, mean_of
from sojourn.words import number_text, percent_text, rate_text, time_text

MOST_ROWS = 16
LEAST_MS = 0.1
"""The delay, in ms, at which the logarithmic axis shows an empty queue."""
LEFT, RIGHT = 0.78, 2.4
"""Inches beside the axes: of their labels, and of the words on their right."""
WORDS = RIGHT - 0.12 - plot.EDGE
"""Inches for words to the right of the axes."""
GAP = 0.16
STRIP = 0.5
"""Inches of the link's rate above the rows."""
EXPLAIN = "Each row shows the same traffic through the discipline named on the right."


def pictures(combinations: Sequence[Combination], hop: str) -> list[Picture]:
    """Every picture of a report, the most telling first; `hop` is the queue that is compared.

    A sweep over a number in more combinations than there can be rows has its curves only.
    """
    with mpl.rc_context(plot.STYLE):
        curves = swept.picture(combinations, hop)
        if curves and len(combinations) > MOST_ROWS:
            return [curves]
        return _with_rows(combinations, hop, curves)


def _with_rows(combinations: Sequence[Combination], hop: str, curves: Picture | None) -> list[Picture]:
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
    """With a word about the combinations that have no row."""
    if not left_out or picture.name == swept.NAME:
        return picture
    words = f" The first {MOST_ROWS} combinations are drawn; {left_out} more stand in the table."
    return Picture(picture.name, picture.title, picture.caption + words, picture.figure, picture.data)


# ---- rows that share a time axis ----


@dataclass(frozen=True)
class _Timeline:
    """A sheet with the link's rate above a row of axes for each combination."""

    sheet: Sheet
    axes: list[Axes]
    end: float


def _timeline(
    rows: Sequence[Row], hop: str, title: str, subtitle: str, least: float, blocks: Sequence[Sequence[Line]]
) -> _Timeline:
    """Rows at least `least` inches high, each as high as the words on its right need."""
    heights = [max(least, plot.block_height(block) + 0.04) for block in blocks]
    body = STRIP + sum(height + GAP for height in heights) + 0.5
    sheet = Sheet(title, subtitle, plot.provenance([row.combination for row in rows]), body)
    width = WIDTH - LEFT - RIGHT
    strip = sheet.axes(LEFT, 0, width, STRIP)
    record = rows[0].combination.first
    end = float(record.about["duration_s"])
    differ = any(row.combination.first.rates[hop] != record.rates[hop] for row in rows)
    plot.rate_strip(strip, record.rates[hop], end, "link rate (first row)" if differ else "link rate")
    above, axes = STRIP + GAP, []
    for row, height, block in zip(rows, heights, blocks, strict=True):
        axis = sheet.axes(LEFT, above, width, height, strip)
        steps = row.combination.first.rates[hop]
        for change in steps["time_s"][1:] if len(steps["mbit"]) <= plot.MOST_RATES else ():
            axis.axvline(change, color="#b9c1c8", linewidth=0.8, linestyle=(0, (2, 2)))
        sheet.write_in_body(block, WIDTH - RIGHT + 0.12, above)
        above += height + GAP
        axes.append(axis)
    for axis in (strip, *axes[:-1]):
        axis.tick_params(labelbottom=False, bottom=False)
    axes[-1].set_xlabel("time in the run, seconds")
    axes[-1].set_xlim(0, end)
    return _Timeline(sheet, axes, end)


def _row_block(row: Row, rows: Sequence[Row], hop: str, numbers: Sequence[tuple[str, str]]) -> list[Line]:
    """A row's name, what else tells it apart, and its numbers."""
    rest = row.rest
    if any(one.combination.first.rates[hop] != rows[0].combination.first.rates[hop] for one in rows):
        rest = ", ".join(filter(None, (rest, _own_rate(row.combination, hop))))
    return [
        *plot.lines(row.name, WORDS, 11, plot.ink(row.colour), bold=True),
        *plot.lines(rest, WORDS, 7.5),
        Line("", 3.5),
        *(Line(word, value=number) for word, number in numbers),
    ]


def _own_rate(combination: Combination, hop: str) -> str:
    """The rate of a row's link in words."""
    rates = combination.first.rates[hop]["mbit"]
    least, most = rate_text(min(rates)), rate_text(max(rates))
    return f"link {least}" if least == most else f"link {least} to {most}"


def _series(combination: Combination, hop: str) -> dict[str, NDArray[Any]] | None:
    series = combination.first.series.get(hop)
    return dict(series) if series and len(series["time_s"]) else None


def _of_hop(rows: Sequence[Row], hop: str) -> str:
    return felt.of_hop([row.combination for row in rows], hop)


def _first_seed(rows: Sequence[Row]) -> str:
    several = len(rows[0].combination.runs) > 1
    return f" Drawn is seed {rows[0].combination.first.seed}." if several else ""


def _averaged(rows: Sequence[Row]) -> str:
    return ", averaged over the seeds." if len(rows[0].combination.runs) > 1 else "."


def average(combination: Combination, hop: str, *path: str) -> float | None:
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
    axis.set_yscale("log")
    axis.set_ylim(least, most)
    decades = [10.0**power for power in range(-3, 7) if least * 0.99 <= 10.0**power <= most]
    axis.yaxis.set_major_locator(FixedLocator(decades))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: time_text(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _delay_over_time(rows: list[Row], hop: str) -> Picture | None:
    """Figure 7 of the CoDel paper: the sojourn over time, one row a discipline, the link's rate above."""
    series = [_series(row.combination, hop) for row in rows]
    present = [one for one in series if one is not None]
    if not present:
        return None
    blocks = [_row_block(row, rows, hop, _delay_numbers(row.combination, hop)) for row in rows]
    line = _timeline(
        rows,
        hop,
        f"How long each packet waited in the queue{_of_hop(rows, hop)}",
        "Sojourn time over time (line: mean, band: shortest to longest), on a logarithmic scale. Lower is better."
        + _first_seed(rows),
        1.12,
        blocks,
    )
    highest = max(float(np.nanmax(one["sojourn_max_ms"], initial=1.0)) for one in present)
    for axis, row, one in zip(line.axes, rows, series, strict=True):
        _delay_axis(axis, LEAST_MS, highest * 1.6)
        if one is None:
            continue
        low, mean, high = (np.maximum(one[f"sojourn_{key}_ms"], LEAST_MS) for key in ("min", "mean", "max"))
        axis.fill_between(one["time_s"], low, high, step="post", color=row.colour, alpha=0.28, linewidth=0)
        axis.step(one["time_s"], mean, where="post", color=row.colour, linewidth=0.9)
    columns = ("time_s", "sojourn_min_ms", "sojourn_mean_ms", "sojourn_max_ms")
    return Picture(
        f"sojourn-{hop}",
        "Sojourn time over time",
        f"Queue “{hop}”. {EXPLAIN} The line is the mean sojourn time of the packets that left in each short interval, "
        "the band reaches from the shortest to the longest; dashed lines mark where the link's rate changes. The "
        "numbers on the right are over all packets in the measuring window" + _averaged(rows),
        line.sheet.figure,
        _over_time(rows, [one and {name: one[name] for name in columns} for one in series], columns),
    )


def _delay_numbers(combination: Combination, hop: str) -> list[tuple[str, str]]:
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
    """What the link carried, as a share of what it could."""
    series = [_series(row.combination, hop) for row in rows]
    if not any(one is not None for one in series):
        return None
    shares = [None if one is None else dict(zip(("time_s", "used"), _used_share(one), strict=True)) for one in series]
    blocks = [_row_block(row, rows, hop, [("goodput", rate_text(felt.goodput(row.combination)))]) for row in rows]
    line = _timeline(
        rows,
        hop,
        f"How much of the link was used{_of_hop(rows, hop)}",
        "Bytes carried as a share of the link's rate at that moment. Gaps are capacity that stayed unused."
        + _first_seed(rows),
        0.62,
        blocks,
    )
    for axis, row, one in zip(line.axes, rows, shares, strict=True):
        axis.set_ylim(0, 1.08)
        axis.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        if one is not None:
            axis.fill_between(one["time_s"], one["used"], step="post", color=row.colour, alpha=0.28, linewidth=0)
            axis.step(one["time_s"], one["used"], where="post", color=row.colour, linewidth=0.9)
    return Picture(
        f"throughput-{hop}",
        "Throughput over time",
        f"Queue “{hop}”: bytes on the wire in each interval over what the link could carry in it. "
        "Goodput is the payload acknowledged in the measuring window, all flows together" + _averaged(rows),
        line.sheet.figure,
        _over_time(rows, shares, ("time_s", "used")),
    )


def _used_share(one: Mapping[str, NDArray[Any]], target_s: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """The busy share in intervals of about a second, so that single packets on slow links do not flicker."""
    time, busy = one["time_s"], one["busy_fraction"]
    width = float(time[1] - time[0]) if len(time) > 1 else 1.0
    together = max(1, min(round(target_s / width), len(time) // 60))
    whole = len(time) // together * together
    share = busy[:whole].reshape(-1, together).mean(axis=1)
    return np.append(time[:whole:together], time[whole - 1] + width), np.append(share, share[-1:])


# ---- distribution ----


def _pooled(combination: Combination, hop: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The mean over seeds of the distribution functions."""
    found = [record.distribution[hop] for record in combination.runs if record.distribution.get(hop)]
    found = [one for one in found if one["ms"]]
    return plot.mean_distribution(found) if found else None


def _distributions(rows: list[Row], hop: str) -> Picture | None:
    """The distribution of the sojourn, one line a discipline."""
    pooled = [_pooled(row.combination, hop) for row in rows]
    if not any(one is not None for one in pooled):
        return None
    names = [plot.lines(row.label, WORDS - 0.3, 8.5, INK) for row in rows]
    body = max(3.9, sum(plot.block_height(block) + 0.05 for block in names) + 0.3)
    sheet = Sheet(
        f"How many packets waited how long{_of_hop(rows, hop)}",
        "Further left is better: more packets got through sooner.",
        plot.provenance([row.combination for row in rows]),
        body,
    )
    axis = sheet.axes(LEFT, 0, WIDTH - LEFT - RIGHT, body - 0.5)
    highest = max([LEAST_MS * 100, *(float(one[0][-1]) for one in pooled if one is not None)])
    table: list[list[object]] = []
    above = 0.0
    for row, one, block in zip(rows, pooled, names, strict=True):
        sheet.write_in_body([Line("●", 8.5, row.colour)], WIDTH - RIGHT + 0.14, above)
        sheet.write_in_body(block, WIDTH - RIGHT + 0.36, above)
        above += plot.block_height(block) + 0.05
        if one is not None:
            _step_curve(axis, *one, row.colour)
            table += [[row.label, ms, share] for ms, share in zip(one[0].tolist(), one[1].tolist(), strict=True)]
    axis.set_xscale("log")
    axis.set_xlim(LEAST_MS, highest * 1.3)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: time_text(value)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0, 1.005)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axis.set_xlabel("sojourn time (logarithmic)")
    axis.set_ylabel("share of packets that waited no longer")
    return Picture(
        "distribution",
        "Distribution of the sojourn time",
        f"Queue “{hop}”: cumulative distribution over all delivered packets of the measuring window"
        + _averaged(rows)
        + " Read it at a height: where a line crosses 95 %, one packet in twenty waited longer.",
        sheet.figure,
        Data(["discipline", "sojourn_ms", "share_at_or_below"], table),
    )


def _step_curve(axis: Axes, ms: NDArray[Any], share: NDArray[Any], colour: str) -> None:
    """A distribution from the least delay of the axis to beyond its end."""
    at = np.maximum(np.concatenate([[LEAST_MS], ms, [1e9]]), LEAST_MS)
    height = np.concatenate([[share[ms <= LEAST_MS].max(initial=0.0)], share, [1.0]])
    axis.step(at, height, where="post", color=colour, linewidth=1.9)


# ---- flows ----


def _fairness(rows: list[Row]) -> Picture | None:
    """One dot a flow: what it got, and what share of its packets was dropped."""
    if len(rows[0].combination.first.result["flows"]) < 2:
        return None
    names = [plot.lines(row.label, 2.1, 9, plot.ink(row.colour), bold=True) for row in rows]
    heights = [max(0.42, plot.block_height(block) + 0.1) for block in names]
    sheet = Sheet(
        "Goodput and drops of each flow",
        "Each dot is a flow (hollow: many short connections together). Dots close together are fair shares.",
        plot.provenance([row.combination for row in rows]),
        0.35 + sum(heights) + 0.35,
    )
    left, between, right = 2.35, 0.6, 0.4
    wide = (WIDTH - left - between - right) / 2
    axes = [sheet.axes(left + place * (wide + between), 0.35, wide, sum(heights)) for place in (0, 1)]
    measures: tuple[Callable[[dict[str, Any]], float | None], ...] = (flow_goodput, drop_share)
    table: list[list[object]] = []
    above = 0.0
    for row, height, block in zip(rows, heights, names, strict=True):
        middle = above + height / 2
        sheet.write_in_body(block, plot.EDGE, 0.35 + middle - plot.block_height(block) / 2)
        for record in row.combination.runs:
            flows = record.result["flows"]
            for axis, measure in zip(axes, measures, strict=True):
                _dots(axis, [measure(flow) for flow in flows], middle, row.colour, [flow["kind"] for flow in flows])
            table += [[row.label, record.seed, one["name"], *(measure(one) for measure in measures)] for one in flows]
        above += height
    edges = np.cumsum([0.0, *heights])
    for axis, title in zip(axes, ("goodput, Mbit/s", "share of the flow's packets dropped"), strict=True):
        axis.set_ylim(float(edges[-1]), 0)
        axis.yaxis.set_major_locator(FixedLocator([]))
        axis.hlines(edges[1:-1], 0, 1, transform=axis.get_yaxis_transform(), color=plot.GRID, linewidth=0.7)
        axis.set_xlim(left=0)
        axis.spines[["left"]].set_visible(False)
        axis.xaxis.set_major_locator(MaxNLocator(6))
        axis.set_title(title, loc="left", fontsize=9.5, color=INK)
    axes[0].xaxis.set_major_formatter(FuncFormatter(lambda value, _position: number_text(value)))
    axes[1].xaxis.set_major_formatter(FuncFormatter(lambda value, _position: percent_text(value)))
    return Picture(
        "fairness",
        "Goodput and drop share per flow",
        "In the measuring window, over the whole path"
        + (", every seed." if len(rows[0].combination.runs) > 1 else "."),
        sheet.figure,
        Data(["discipline", "seed", "flow", "goodput_mbit", "drop_share"], table),
    )


def flow_goodput(flow: dict[str, Any]) -> float | None:
    """Mbit/s; None for pings, where a dot at zero would look like a flow that starves."""
    return None if flow["kind"] == "pings" else flow["goodput_mbit"]


def drop_share(flow: dict[str, Any]) -> float | None:
    """Dropped over sent packets of a flow; None if it sent nothing."""
    return flow["drops"] / flow["packets"] if flow["packets"] else None


def _dots(axis: Axes, values: Sequence[float | None], at: float, colour: str, kinds: Sequence[str]) -> None:
    many = {"web", "sizes", "download", "upload"}
    for hollow in (False, True):
        chosen = [
            value for value, kind in zip(values, kinds, strict=True) if value is not None and (kind in many) == hollow
        ]
        axis.plot(
            chosen,
            [at] * len(chosen),
            "o",
            markersize=6.5,
            color=colour,
            alpha=0.75,
            markerfacecolor="white" if hollow else colour,
            markeredgewidth=1.3,
            clip_on=False,
        )
