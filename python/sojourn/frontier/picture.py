"""The pictures of frontiers: utilisation against delay at a point, and the disciplines over many points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn import plot
from sojourn.frontier import tables
from sojourn.frontier.grid import Found
from sojourn.frontier.judge import LEAST_MS, Floats, Judged, Placed, Setting
from sojourn.frontier.point import FEW_CYCLES
from sojourn.plot import INK, QUIET, Data, Picture
from sojourn.words import number_text, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME, MANY = "frontier", "grid"
LEAST_IDLE = 1e-4
"""The smallest idle share on the axis, which is logarithmic: a link that is busier is drawn here."""
FIXED = "#8a939b"
SHAPES = {
    "pfifo": ("s", "pfifo, a packet limit"),
    "fq": ("^", "fq, a packet limit for each flow"),
    "fq_codel": ("o", "fq_codel, a target, an interval"),
}
"""The mark of each kind of fixed setting, and its words."""
LEGEND, LEGEND_IN = 8.0, 2.1
"""The size of the legend's text, and its width in inches."""
ROW_IN = 0.175
"""Height of a point's row in inches."""


def pictures(found: Found) -> list[Picture]:
    """Draws a point, or all points together."""
    return [of_point(found.judged[0])] if len(found.judged) == 1 else [of_grid(found)]


# ---- a point ----


def of_point(one: Judged, name: str = NAME) -> Picture:
    """Draws the fixed settings of a point with their frontier, and the disciplines."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    title = f"The frontier of fixed settings: {tables.path(one.point)}"
    subtitle = (
        "Each grey mark is a fixed setting, and the line is the least delay at a utilisation that any of them reaches. "
        "A discipline above or to the left of the line does what no fixed setting does. Bars are 95 % intervals. A "
        f"link busier than {number_text(100 * (1 - LEAST_IDLE), 4)} % is drawn there."
    )
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 6.0), layout="constrained")
        axis, beside = figure.subplots(1, 2, width_ratios=(4, 1))
        _fixed(axis, one)
        lines = [at.setting.line for at in one.placed]
        for paint, at in zip(plot.colours(lines), one.placed, strict=True):
            _discipline(axis, at, paint)
        _axes(axis)
        beside.set_axis_off()
        beside.legend(
            *axis.get_legend_handles_labels(), loc="upper left", fontsize=LEGEND, frameon=False, borderaxespad=0
        )
        plot.frame(figure, title, subtitle, _footer(one))
    found = Found(tuple(lines), [one])
    return Picture(name, title, f"{subtitle} {_footer(one)}", figure, Data(*tables.every_setting(found)))


def _label(at: Placed) -> str:
    name = "\n".join(plot.wrapped(at.setting.line, LEGEND_IN, LEGEND))
    busy = tables.percent(at.setting.y)
    return f"{name}\n{time_text(at.setting.x)} at {busy} %, {number_text(at.ratio)} × the frontier"


def _footer(one: Judged) -> str:
    few = "  ·  few cycles" if one.point.cycles < FEW_CYCLES else ""
    return f"from 10 s to {one.point.duration_s} s{few}  ·  {one.origin}"


def _idle(utilisation: float) -> float:
    return max(1 - utilisation, LEAST_IDLE)


def _fixed(axis: Axes, one: Judged) -> None:
    """The fixed settings, and the staircase."""
    x = [max(step.x, LEAST_MS) for step in one.steps]
    y = [_idle(step.y) for step in one.steps]
    axis.plot(x, y, drawstyle="steps-post", color=QUIET, linewidth=1.4, label="the frontier", zorder=2)
    for kind, (shape, label) in SHAPES.items():
        own = [setting for setting in one.fixed if plot.kind_of(setting.line) == kind]
        xs, ys = [max(setting.x, LEAST_MS) for setting in own], [_idle(setting.y) for setting in own]
        face = plot.PAPER if kind == "pfifo" else FIXED
        axis.plot(
            xs, ys, shape, color=FIXED, markerfacecolor=face, markersize=4, linestyle="none", label=label, zorder=2
        )


def _discipline(axis: Axes, at: Placed, paint: str) -> None:
    """A discipline with the intervals of both measures."""
    own = at.setting
    x, y = max(own.x, LEAST_MS), _idle(own.y)
    wide, high = _half(own, own.delay_ms), _half(own, own.utilisation)
    axis.errorbar(
        x,
        y,
        xerr=[[min(wide, 0.9 * x)], [wide]],
        # The idle share falls where the utilisation grows.
        yerr=[[y - _idle(own.y + high)], [_idle(own.y - high) - y]],
        marker="o",
        markersize=7,
        color=paint,
        linewidth=1.2,
        linestyle="none",
        label=_label(at),
        zorder=3,
    )


def _half(own: Setting, values: Floats) -> float:
    mean = own.mean(values)
    return 0.0 if mean is None else mean.half_width or 0.0


def _axes(axis: Axes) -> None:
    axis.set_xscale("log")
    plot.plain_log(axis.xaxis, 9)
    axis.set_xlabel("mean sojourn in the queue, ms", fontsize=plot.X_LABEL)
    _busy_axis(axis, vertical=True)
    axis.set_title("utilisation of the link, %", loc="left", fontsize=plot.Y_LABEL, color=INK)


IDLE = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
WIDE_IDLE = (0.5, 0.1, 0.02, 0.005, 0.001, 0.0001)
"""The idle shares that are labelled on a vertical and on a narrow axis."""


def _busy_axis(axis: Axes, *, vertical: bool) -> None:
    """A logarithmic axis of the idle share, labelled with the utilisation, which grows upwards or to the right."""
    from matplotlib.ticker import FixedLocator

    which = axis.yaxis if vertical else axis.xaxis
    (axis.set_yscale if vertical else axis.set_xscale)("log")
    plot.plain_log(which, 9, lambda idle: number_text(100 * (1 - idle), 4))
    which.set_major_locator(FixedLocator(IDLE if vertical else WIDE_IDLE))
    low, high = axis.get_ylim() if vertical else axis.get_xlim()
    ends = max(low, high, 0.02), LEAST_IDLE * 0.8
    (axis.set_ylim if vertical else axis.set_xlim)(*ends)


# ---- many points ----


TIMES = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
"""The multiples of the frontier that are labelled."""


def of_grid(found: Found, name: str = MANY) -> Picture:
    """Draws a row for each point: how busy each discipline keeps the link, and its delay over the frontier's."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator

    judged = sorted((one for one in found.judged if one.steps), key=_order)
    title = "Disciplines against the frontier of fixed settings"
    subtitle = f"{tables.headline(found)} Rings: no fixed setting keeps the link as busy."
    few = "  ·  *: few cycles" if any(one.point.cycles < FEW_CYCLES for one in judged) else ""
    height = ROW_IN * len(judged)
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 2.0 + height), layout="constrained")
        busy, over, over_fq = figure.subplots(1, 3, sharey=True)
        for paint, line in zip(plot.colours(found.lines), found.lines, strict=True):
            rows = [(row, at) for row, one in enumerate(judged) if (at := one.placed_at(line)) is not None]
            _dots(busy, rows, [_idle(at.setting.y) for _, at in rows], paint, line)
            _dots(over, rows, [at.ratio for _, at in rows], paint, line)
            _dots(over_fq, rows, [at.fq_ratio for _, at in rows], paint, line)
        _busy_axis(busy, vertical=False)
        busy.set_yticks(range(len(judged)), [tables.label(one) for one in judged], fontsize=6.5)
        busy.set_ylim(len(judged) - 0.4, -0.6)
        for axis, words in (
            (busy, "utilisation of the link, %"),
            (over, "mean sojourn over the frontier's, times"),
            (over_fq, "over that of settings with flow queues, times"),
        ):
            axis.set_title(words, loc="left", fontsize=plot.Y_LABEL, color=INK, pad=22)
        over_fq.sharex(over)
        for axis in (over, over_fq):
            axis.set_xscale("log")
            plot.plain_log(axis.xaxis, 9)
            axis.xaxis.set_major_locator(FixedLocator(TIMES))
            axis.axvline(1.0, color=QUIET, linewidth=1.0)
        busy.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1 + 0.06 / height),
            ncols=len(found.lines),
            fontsize=LEGEND,
            frameon=False,
            borderaxespad=0,
        ).set_in_layout(False)
        plot.frame(figure, title, subtitle, found.judged[0].origin + few)
    return Picture(name, title, subtitle, figure, Data(*tables.every_setting(found)))


def _order(one: Judged) -> tuple[object, ...]:
    """By the congestion controls, then by the number of flows and the BDP."""
    point = one.point
    return (len(point.flows), [cc for cc, _ in point.flows], point.count > 1, point.bdp_packets / point.count)


def _dots(axis: Axes, rows: Sequence[tuple[int, Placed]], values: Sequence[float], paint: str, label: str) -> None:
    for beyond in (False, True):
        own = [(value, row) for (row, at), value in zip(rows, values, strict=True) if at.is_beyond == beyond]
        axis.plot(
            [value for value, _ in own],
            [row for _, row in own],
            "o",
            color=paint,
            markerfacecolor=plot.PAPER if beyond else paint,
            markersize=4.2,
            linestyle="none",
            label=None if beyond else label,
            alpha=0.85,
        )
