"""Drawing functions for the figures of papers: boxes, bands with intervals, distributions, and labels next to curves.

Axes come from `figure.subplots(…)`; sojourn.figures leaves room for headline and footer, and sets the style.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator, PercentFormatter
from numpy.typing import NDArray

from sojourn import plot
from sojourn.means import Mean, mean_of
from sojourn.records import RunRecord
from sojourn.sheet import Scale
from sojourn.words import time_text

Floats = NDArray[np.float64]
BOX = (5, 25, 50, 75, 95)
"""The percentiles of a box: whiskers, edges, and the line in it."""
CELL, NAMED = "cell", "named"
"""The `gid` of a table's words, and of an x axis whose places have words: `drawn` recognises them by it."""


def colour(qdisc: str) -> str:
    """Returns a discipline's colour, by its tc line or its name."""
    return plot.COLOURS.get(plot.kind_of(qdisc), plot.OTHER)


def shades(paint: str, count: int) -> list[str]:
    """A colour and lighter ones, for curves of one discipline that differ in another setting."""
    return [plot.shade(paint, place / (count - 1) if count > 1 else 0.0) for place in range(count)]


def mean(values: Iterable[float]) -> Mean:
    """The mean over seeds, with the half-width of its 95 % interval; NaN if there is no value."""
    found = mean_of([float(value) for value in values if not np.isnan(value)])
    return found or Mean(float("nan"), None, 0)


def number(found: Mean, digits: int = 1) -> str:
    """A mean with its interval, for a cell of a table."""
    if np.isnan(found.value):
        return "–"
    text = f"{found.value:.{digits}f}"
    return text if found.half_width is None else f"{text} ± {found.half_width:.{digits}f}"


# ---- boxes ----


def boxes(axis: Axes, groups: Sequence[str], values: Mapping[str, Sequence[Floats]], colours: Sequence[str]) -> None:
    """Draws boxes next to each other in each group. `values` maps each label of the legend to one array for each group.

    A box reaches from the 25th to the 75th percentile with a line at the median, its whiskers from the 5th to the
    95th; each value beyond them is a dot.
    """
    width = 0.8 / len(values)
    for place, ((series_name, series), paint) in enumerate(zip(values.items(), colours, strict=True)):
        shift = (place - (len(values) - 1) / 2) * width
        for at, found in enumerate(series):
            _box(axis, at + shift, width * 0.8, np.asarray(found, float), paint, f"{series_name}, {groups[at]}")
    _group_axis(axis, groups)


def _box(axis: Axes, at: float, width: float, values: Floats, paint: str, name: str) -> None:
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return
    low, lower, middle, upper, high = np.percentile(values, BOX)
    parts = axis.bxp(
        [{"med": middle, "q1": lower, "q3": upper, "whislo": low, "whishi": high, "fliers": []}],
        positions=[at],
        widths=[width],
        patch_artist=True,
        manage_ticks=False,
        showfliers=False,
        boxprops={"facecolor": paint, "alpha": 0.3, "edgecolor": paint},
        medianprops={"color": plot.ink(paint), "linewidth": 2},
        whiskerprops={"color": paint},
        capprops={"color": paint},
    )
    for part, artists in parts.items():
        for artist in artists:
            artist.set_gid(f"{name}: {part}")
    beyond = values[(values < low) | (values > high)]
    dots = axis.plot(np.full(len(beyond), at), beyond, "o", markersize=2, color=paint, alpha=0.6, markeredgewidth=0)
    dots[0].set_gid(f"{name}: beyond the whiskers")


# ---- curves ----


def band(axis: Axes, x: Sequence[float] | Floats, values: Floats, paint: str, label: str = "", **how: Any) -> Floats:
    """Draws a line through the means of the rows of `values`, with their 95 % intervals. A row is a point, and a column
    is a seed.

    Returns the means.
    """
    found = [mean(row) for row in np.atleast_2d(values)]
    middle = np.array([one.value for one in found])
    half = np.array([one.half_width or 0.0 for one in found])
    interval = axis.fill_between(x, middle - half, middle + half, color=paint, alpha=0.25, linewidth=0)
    interval.set_gid(f"95 % interval {label}".strip())
    axis.plot(x, middle, color=paint, label=label, **({"linewidth": 1.7} | how))
    return middle


def points(
    axis: Axes, x: Sequence[float] | Floats, values: Floats, paint: str, label: str = "", marker: str = "o"
) -> None:
    """Means of the rows of `values` as dots with bars of their 95 % intervals."""
    found = [mean(row) for row in np.atleast_2d(values)]
    half = [one.half_width or 0.0 for one in found]
    middle = [one.value for one in found]
    axis.errorbar(
        x, middle, half, fmt=marker, color=paint, label=label, markersize=5.5, capsize=3, linewidth=1.3, clip_on=False
    )


def bars(axis: Axes, groups: Sequence[str], values: Mapping[str, Floats], colours: Sequence[str]) -> None:
    """Draws bars next to each other in each group, with 95 % intervals. A row of `values` is a group, and a column is a
    seed.
    """
    width = 0.8 / len(values)
    for place, (name, rows) in enumerate(values.items()):
        at = np.arange(len(groups)) + (place - (len(values) - 1) / 2) * width
        found = [mean(row) for row in np.atleast_2d(rows)]
        axis.bar(at, [one.value for one in found], width * 0.88, color=colours[place], label=name)
        half = [one.half_width or 0.0 for one in found]
        axis.errorbar(at, [one.value for one in found], half, fmt="none", color=plot.INK, capsize=2, linewidth=1)
    _group_axis(axis, groups)


def sojourn_shares(found: Sequence[RunRecord], hop: str) -> tuple[Floats, Floats]:
    """Returns the distribution of the delivered packets' sojourn in a queue, averaged over runs: times in ms, and the
    share of packets at or below each.
    """
    distributions = [one.distribution[hop] for one in found if one.distribution.get(hop, {}).get("ms")]
    if not distributions:
        return np.array([]), np.array([])
    return plot.mean_distribution(distributions)


def shares(values: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Returns the weighted distribution of values: the values, and the share of the weight at or below each."""
    keep = ~np.isnan(values)
    order = np.argsort(values[keep], kind="stable")
    weight = (np.ones(len(values)) if weights is None else weights)[keep][order]
    return values[keep][order], np.cumsum(weight) / weight.sum()


def cdf(axis: Axes, found: tuple[Floats, Floats], paint: str, label: str = "", **how: Any) -> None:
    """A distribution as a step curve."""
    values, share = found
    axis.step(values, share, where="post", color=paint, label=label, **({"linewidth": 1.9} | how))
    axis.set_ylim(0, 1.005)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


# ---- axes and words ----


def time_axis(axis: Axes, which: Literal["x", "y"], least_ms: float, most_ms: float) -> None:
    """Makes an axis one of times in ms: logarithmic, with units at the decades."""
    axis.set(**{f"{which}scale": "log", f"{which}lim": (least_ms, most_ms)})
    chosen = axis.xaxis if which == "x" else axis.yaxis
    chosen.set_major_locator(FixedLocator(Scale(least_ms, most_ms).decades()))
    chosen.set_minor_locator(NullLocator())
    chosen.set_major_formatter(FuncFormatter(lambda value, _position: time_text(value)))
    chosen.set_minor_formatter(NullFormatter())


def names(axis: Axes, words: Sequence[str]) -> None:
    """Words instead of the numbers at the places 0, 1, … of the x axis."""
    axis.set_xticks(range(len(words)), words)
    axis.xaxis.set_gid(NAMED)


def _group_axis(axis: Axes, groups: Sequence[str]) -> None:
    """An x axis of groups side by side, with neither ticks nor grid."""
    axis.set_xlim(-0.5, len(groups) - 0.5)
    names(axis, groups)
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")


def percent_axis(axis: Axis) -> None:
    """An axis of shares, in %."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=" %"))


def end_labels(
    axis: Axes, words: Sequence[str], heights: Sequence[float], colours: Sequence[str], gap: float = 0.055
) -> None:
    """Writes words to the right of an axis, at the heights (in data) at which curves end. Words that would overlap are
    moved apart.

    `gap` is the least distance, in parts of the axis. Set the axis's scale and limits first.
    """
    place = axis.transData.transform(np.column_stack([np.zeros(len(heights)), np.asarray(heights, float)]))
    wanted = axis.transAxes.inverted().transform(np.nan_to_num(place))[:, 1].clip(0.0, 1.0)
    order = np.argsort(wanted, kind="stable")
    apart = wanted[order]
    for _ in range(200):
        for low in range(len(apart) - 1):
            if (short := gap - (apart[low + 1] - apart[low])) > 1e-9:
                apart[low] -= short / 2
                apart[low + 1] += short / 2
    for height, index in zip(apart, order, strict=True):
        axis.text(
            1.015,
            height,
            words[index],
            transform=axis.transAxes,
            va="center",
            fontsize=9,
            color=plot.ink(colours[index]),
            fontweight="bold",
        )


def legend(axis: Axes, named: Mapping[str, str], **how: Any) -> Legend:
    """Patches of colour with their names."""
    patches = [Patch(facecolor=paint, label=name) for name, paint in named.items()]
    style: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": plot.INK} | how
    return axis.legend(handles=patches, **style)


def rates(axis: Axes, record: RunRecord, hop: str) -> None:
    """The link's rate over time as a filled step line, with its values written in."""
    steps, end = record.rates[hop], float(record.about["duration_s"])
    axis.set_facecolor("white")
    axis.grid(visible=False)
    axis.spines[["left"]].set_visible(False)
    time, rate = [*steps["time_s"], end], [*steps["mbit"], steps["mbit"][-1]]
    axis.fill_between(time, rate, step="post", color=plot.RATE_AREA, linewidth=0)
    axis.step(time, rate, where="post", color=plot.RATE_LINE, linewidth=1.1)
    low, high, log = plot.rate_scale(steps)
    axis.set_yscale("log" if log else "linear")
    axis.set_ylim(low, high)
    axis.yaxis.set_major_locator(NullLocator())
    axis.yaxis.set_minor_locator(NullLocator())
    axis.text(
        1.012,
        0.5,
        "\n".join(plot.rate_name(steps)),
        transform=axis.transAxes,
        va="center",
        fontsize=8.5,
        color=plot.QUIET,
    )
    figure = axis.get_figure(root=True)
    assert figure is not None
    wide = axis.get_position().width * float(figure.get_size_inches()[0])
    for middle, value, text in plot.rate_labels(steps, end, wide):
        how: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": plot.INK}
        axis.annotate(text, (middle, value), (0, 2), textcoords="offset points", **how)


def note(axis: Axes, text: str, x: float = 0.02, y: float = 0.96, **how: Any) -> None:
    """Small words within an axis, from its upper left corner."""
    style: dict[str, Any] = {"va": "top", "fontsize": 8.5, "color": plot.QUIET} | how
    axis.text(x, y, text, transform=axis.transAxes, **style)


def table(
    axis: Axes,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    colours: Sequence[Sequence[str | None]] | None = None,
    size: float = 9.5,
) -> None:
    """A table that fills the axis: first column to the left, the others to the right. `colours` are of the words."""
    axis.set_axis_off()
    lengths = [max(len(line) for row in (heads, *rows) for line in row[at].split("\n")) + 1 for at in range(len(heads))]
    ends = np.cumsum(lengths) / sum(lengths)
    tall = 1 / (len(rows) + 1.3)

    def write(row: int, at: int, middle: float, text: str, **how: Any) -> None:
        left = at == 0
        axis.text(
            0.0 if left else ends[at],
            middle,
            text,
            transform=axis.transAxes,
            ha="left" if left else "right",
            va="center",
            gid=f"{CELL} {row} {at}",
            **how,
        )

    for at, head in enumerate(heads):
        write(0, at, 1 - 0.65 * tall, head, fontsize=size - 0.5, color=plot.QUIET)
    for place, row in enumerate(rows):
        middle = 1 - (1.3 + place + 0.5) * tall
        axis.plot([0, 1], [middle + tall / 2] * 2, transform=axis.transAxes, color=plot.GRID, linewidth=0.8)
        for at, cell in enumerate(row):
            paint = colours[place][at] if colours else None
            write(place + 1, at, middle, cell, fontsize=size, color=paint or plot.INK)
