"""The picture of `sojourn tune`: the front of throughput against what sparse flows feel, and how robust settings
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn import plot
from sojourn.plot import COLOURS, INK, OTHER, QUIET, Data, Picture
from sojourn.tune import judge, summary
from sojourn.words import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.tune.search import Found

NAME = "setting"
LEAST_MS = 0.1
"""The smallest delay on the axis, which is logarithmic."""
CLOSE = 30
"""If the axis ends at more than this many times its beginning, fewer numbers are at it, or they would overlap."""


def picture(found: Found, provenance: str) -> Picture:
    """Draws what was searched and what was found. `provenance` says where the numbers come from."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    words = " ".join(summary.headline(found))
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 6.2), layout="constrained")
        panels = figure.subplots(1, 2, width_ratios=(3, 2)) if found.varied else [figure.subplots()]
        narrow = Figure(figsize=(plot.NARROW, 8.6 if found.varied else 5.2), layout="constrained")
        stacked = narrow.subplots(2, 1, height_ratios=(3, 2)) if found.varied else [narrow.subplots()]
        for axes in (panels, stacked):
            _front(axes[0], found, narrow=axes is stacked)
            if found.varied:
                _robustness(axes[1], found)
        plot.frame(figure, f"A setting for {found.task.title}", " ".join(summary.in_short(found)), provenance)
        # A page says the sentences in its own text, and a narrow picture is for a page.
        plot.frame(narrow, "The chosen setting among the others", "", provenance)
    return Picture(NAME, "The chosen setting among the others", words, figure, _data(found), narrow)


def _delay_axis(axis: Axes, found: Found) -> None:
    """Labels the logarithmic axis of the ping's delay, and draws a line at what is aimed at. It comes after the
    points, as the labels depend on their range.
    """
    low, high = axis.get_xlim()
    plot.plain_log(axis.xaxis, 9, at=(1.0, 3.0) if high > CLOSE * low else (1.0, 2.0, 5.0))
    axis.axvline(judge.sparse_bound_ms(found.task), color=QUIET, linewidth=0.8, linestyle=(0, (3, 3)))
    axis.set_xlabel("ping above the idle line, 95th percentile, ms", fontsize=plot.X_LABEL)


def _front(axis: Axes, found: Found, *, narrow: bool) -> None:
    """Throughput against the ping's delay: small dots for the grid, rings for today's settings, a star for the
    choice.
    """
    axis.set_xscale("log")
    searched = found.searched
    rates = searched.shares(found.final).mean(axis=1)
    for one, x, y in zip(searched.candidates, searched.means("sparse"), rates, strict=True):
        axis.plot(max(x, LEAST_MS), 100 * y, ".", color=COLOURS.get(one.kind, OTHER), alpha=0.35, markersize=5)
    final = found.final
    for place, (one, rate) in enumerate(zip(final.candidates, final.means("throughput"), strict=True)):
        delay = final.mean("sparse", place)
        if delay is None:
            continue
        paint = COLOURS.get(one.kind, OTHER)
        is_chosen = place == found.place
        axis.errorbar(
            max(delay.value, LEAST_MS),
            100 * rate,
            xerr=min(delay.half_width or 0.0, 0.9 * max(delay.value, LEAST_MS)),
            color=paint,
            markerfacecolor=paint if not one.baseline else plot.PAPER,
            markeredgecolor=INK if is_chosen else paint,
            linewidth=1,
            linestyle="none",
            zorder=4 if is_chosen else 3,
            marker="*" if is_chosen else "o",
            markersize=17 if is_chosen else 7,
        )
    _delay_axis(axis, found)
    bound = judge.sparse_bound_ms(found.task)
    axis.annotate(
        f"aim: {number_text(bound)} ms",
        (bound, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
        color=QUIET,
    )
    below = "\n" if narrow else ""
    axis.set_title(
        f"throughput, % of the highest of the finalists{below or ' '}and today's settings, mean of the directions\n"
        f"★ chosen   ● finalists   ○ what people set today{below or '   '}· searched",
        loc="left",
        fontsize=plot.Y_LABEL,
        color=INK,
    )
    for kind in dict.fromkeys(one.kind for one in final.candidates):
        axis.plot([], [], "o", color=COLOURS.get(kind, OTHER), label=kind)
    # Points may be anywhere in the axes, so that the names are below them.
    axis.legend(
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(0.0, -0.17),
        borderaxespad=0.0,
        ncols=4 if narrow else 7,
        handletextpad=0.2,
        columnspacing=1.2,
    )


def _robustness(axis: Axes, found: Found) -> None:
    """The ping's delay of each discipline's best setting where something differs from what was stated."""
    names = [one.name for one in found.varied]
    axis.set_xscale("log")
    for row, one in enumerate(found.varied):
        for place, candidate in enumerate(one.scores.candidates):
            mean = one.scores.mean("sparse", place)
            if mean is None:
                continue
            is_chosen = candidate == found.chosen
            axis.plot(
                max(mean.value, LEAST_MS),
                row,
                "*" if is_chosen else "o",
                color=COLOURS.get(candidate.kind, OTHER),
                markeredgecolor=INK if is_chosen else "none",
                markersize=13 if is_chosen else 6,
                alpha=1.0 if is_chosen else 0.7,
                zorder=4 if is_chosen else 3,
            )
    _delay_axis(axis, found)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_title("if something differs from what was stated", loc="left", fontsize=plot.Y_LABEL, color=INK)


def _data(found: Found) -> Data:
    heads = ["setting", "discipline", "baseline", "stage", "throughput", "ping_above_base_p95_ms", "page_s", "own_ms"]
    rows: list[list[object]] = []
    for stage, scores in (("search", found.searched), ("final", found.final)):
        numbers = [scores.means(name) for name in ("throughput", "sparse", "pages", "own")]
        for place, one in enumerate(scores.candidates):
            rows.append([one.label, one.kind, one.baseline, stage, *(float(column[place]) for column in numbers)])
    return Data(heads, rows)
