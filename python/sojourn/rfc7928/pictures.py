"""The pictures of an evaluation by RFC 7928.

For each row there is the graph of section 2.7, goodput against queuing delay, with a panel for each case and class. A
picture of the first seed has the distributions of both, and one has both over time where the link or the load changes.
One picture has the matrix, and one the profiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn import plot
from sojourn.plot import INK, QUIET, Data, Picture
from sojourn.rfc7928 import suite
from sojourn.rfc7928.judge import AXES, Evaluation, Judged
from sojourn.rfc7928.observed import ALL, LEAST_MBIT, Seen
from sojourn.rfc7928.sampled import K, Sample
from sojourn.rfc7928.suite import Row
from sojourn.rfc7928.tables import label, percent
from sojourn.words import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SIGMAS = 1.0
"""An ellipse is the contour of the fitted Gaussian at this number of standard deviations: it holds 39 % of it."""
LEAST_MS = 0.1
"""The left end of the axis of delay, at the least: smaller delays are drawn there."""
ACROSS = 3
"""Panels in a row."""
PANEL_IN = 2.3
TICKS = 8
"""About the number of labels of a logarithmic axis."""
VERDICTS = {"better": "#cfe8dc", "trade": "#f6e9c4", "same": "#edf0f2", "worse": "#f3cfd3", "open": "#ffffff"}
"""The colour of each verdict."""


def provenance(done: Evaluation) -> str:
    """Returns a line about the runs: seeds, world, buffer, versions."""
    buffer = f"buffer {number_text(done.buffer)} BDP of the longest RTT"
    world = f"{done.world} (Linux {done.versions['linux']})" if "linux" in done.versions else done.world
    version = done.versions.get("sojourn", "?")
    return f"RFC 7928  ·  {done.seeds} seeds  ·  world {world}  ·  {buffer}  ·  sojourn {version}"


# ---- goodput against queuing delay ----


def trade_off(done: Evaluation, row: Row) -> Picture:
    """Draws the graph of section 2.7 for a row. A point is a flow in a run; the circle is the median of all."""
    panels: dict[tuple[str, str], list[Seen]] = {}
    for one in done.found[row.name]:
        if one.flows:
            panels.setdefault((one.case, one.name), []).append(one)
    rows: list[list[object]] = []
    figure, axes = _figure(
        len(panels),
        f"{row.name} {row.title}: goodput against queuing delay",
        "A small dot is a flow in a run, the circle the median; the ellipse is the contour at one standard deviation "
        "of the Gaussian of maximum likelihood. Circles that are drawn later are smaller. Better is up and left.",
        provenance(done),
    )
    for axis, ((case, name), seen) in zip(axes, panels.items(), strict=True):
        for place, paint in enumerate(plot.colours(done.lines)):
            points = np.array([point for one in seen if one.place == place for point in one.flows])
            if len(points) == 0:
                continue
            about = [case, name, done.names[place]]
            rows += [[*about, "flow", *map(float, point)] for point in points]
            rows.append([*about, "median", *map(float, np.median(points, axis=0))])
            # Circles that are drawn later are smaller: where disciplines do the same, all of them are seen.
            _cloud(axis, points, paint, done.names[place], 4.0 + 0.7 * (len(done.names) - 1 - place))
        _trade_off_axes(axis, f"{case}, {name}" if case else name)
    _names(figure, axes[0])
    data = Data(["case", "class", "discipline", "point", "queuing delay, ms", "goodput, Mbit/s"], rows)
    return Picture(f"{_stem(row)}-trade-off", f"{row.name} {row.title}", "", figure, data)


def ellipse(points: Floats, sigmas: float = SIGMAS, count: int = 90) -> Floats:
    """Returns the contour of the maximum-likelihood Gaussian of points in a plane, `count` × 2.

    The covariance is divided by the number of points, as maximum likelihood does.
    """
    middle = points.mean(axis=0)
    apart = points - middle
    values, vectors = np.linalg.eigh(apart.T @ apart / len(points))
    angle = np.linspace(0, 2 * np.pi, count)
    round_ = np.column_stack([np.cos(angle), np.sin(angle)])
    contour: Floats = middle + sigmas * (round_ * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return contour


def _cloud(axis: Axes, points: Floats, paint: str, name: str, size: float) -> None:
    drawn = np.maximum(points, [LEAST_MS, LEAST_MBIT])
    axis.plot(drawn[:, 0], drawn[:, 1], ".", color=paint, markersize=2.5, alpha=0.35, markeredgewidth=0)
    if len(points) > 2:
        contour = np.maximum(ellipse(points), [LEAST_MS, 0.0])
        axis.fill(contour[:, 0], contour[:, 1], facecolor=paint, alpha=0.13, linewidth=0)
        axis.plot(contour[:, 0], contour[:, 1], color=paint, linewidth=1.0)
    delay, goodput = np.median(drawn, axis=0)
    edge: Any = {"markeredgecolor": "white", "markeredgewidth": 0.4}
    axis.plot([delay], [goodput], "o", color=paint, markersize=size, label=name, **edge)


def _decade(axis: Axes) -> None:
    """Makes the axis of delay logarithmic, and at least half a decade long."""
    low, high = axis.dataLim.x0, axis.dataLim.x1
    wider = max(1.15, np.sqrt(max(1.0, 10**0.6 * low / high)))
    axis.set_xscale("log")
    axis.set_xlim(low / wider, high * wider)


def _trade_off_axes(axis: Axes, title: str) -> None:
    _decade(axis)
    axis.set_ylim(0, 1.08 * axis.dataLim.y1)
    plot.plain_log(axis.xaxis, TICKS)
    axis.set_title(title, loc="left", fontsize=plot.NAME, color=INK)
    axis.set_xlabel("queuing delay, ms")
    axis.set_ylabel("goodput, Mbit/s")


# ---- the first seed ----


def distributions(done: Evaluation, row: Row, samples: Sequence[Sample]) -> Picture:
    """Draws the distributions of section 2.7 for the first seed: delay of packets, and goodput of flows."""
    found = list(dict.fromkeys(one.case for one in samples))
    rows: list[list[object]] = []
    figure, axes = _figure(
        2 * len(found),
        f"{row.name} {row.title}: distributions",
        f"The first seed, in the measuring window. Goodput is sampled every {K} longest base RTTs.",
        provenance(done),
        across=2,
    )
    paints = plot.colours(done.lines)
    for at, case in enumerate(found):
        for one in (sample for sample in samples if sample.case == case):
            name, paint = done.names[one.place], paints[one.place]
            ms, share = np.asarray(one.sojourn["ms"]), np.asarray(one.sojourn["share"])
            axes[2 * at].step(np.maximum(ms, LEAST_MS), share, where="post", color=paint, label=name, linewidth=1.3)
            flows = np.sort(one.flows_mbit)
            shares = np.arange(1, len(flows) + 1) / max(len(flows), 1)
            axes[2 * at + 1].step(flows, shares, where="post", color=paint, label=name, linewidth=1.3)
            rows += [[case, name, "delay, ms", float(x), float(y)] for x, y in zip(ms, share, strict=True)]
            rows += [[case, name, "goodput, Mbit/s", float(x), float(y)] for x, y in zip(flows, shares, strict=True)]
        _trade_off_axes(axes[2 * at], case)
        axes[2 * at].set_ylim(0, 1)
        axes[2 * at].set_ylabel("share of packets")
        axes[2 * at].set_xlabel("delay in the queue, ms")
        axes[2 * at + 1].set_title(case, loc="left", fontsize=plot.NAME, color=INK)
        axes[2 * at + 1].set_xlabel("goodput of a flow, Mbit/s")
        axes[2 * at + 1].set_ylabel("share of samples")
    _names(figure, axes[0])
    data = Data(["case", "discipline", "quantity", "value", "share at or below"], rows)
    return Picture(f"{_stem(row)}-distributions", f"{row.name} {row.title}", "", figure, data)


def over_time(done: Evaluation, row: Row, samples: Sequence[Sample]) -> Picture:
    """Draws queue delay and goodput over time for the first seed, a panel for each discipline."""
    first = samples[0].case
    shown = {one.place: one for one in samples if one.case == first}
    rows: list[list[object]] = []
    figure, axes = _figure(
        2 * len(shown),
        f"{row.name} {row.title}: over time",
        f"The first seed. Left: the queue's delay. Right: the goodput of all flows, every {K} longest base RTTs.",
        provenance(done),
        across=2,
        height=1.5,
    )
    paints = plot.colours(done.lines)
    most = max(float(np.nanmax(one.queue["queue_delay_ms"], initial=1.0)) for one in shown.values())
    for at, one in enumerate(shown.values()):
        name, paint = done.names[one.place], paints[one.place]
        time, delay = np.asarray(one.queue["time_s"]), np.asarray(one.queue["queue_delay_ms"])
        axes[2 * at].plot(time, delay, color=paint, linewidth=0.8)
        axes[2 * at].set_ylim(0, most)
        axes[2 * at].set_ylabel("queue, ms")
        ends, goodput = one.ends_s, one.goodput_mbit
        axes[2 * at + 1].step(ends, goodput, where="pre", color=paint, linewidth=1.2)
        axes[2 * at + 1].set_ylim(bottom=0)
        axes[2 * at + 1].set_ylabel("Mbit/s")
        for axis in axes[2 * at : 2 * at + 2]:
            axis.set_title(name, loc="left", fontsize=plot.NAME, color=plot.ink(paint))
        rows += [[name, "queue delay, ms", float(x), float(y)] for x, y in zip(time, delay, strict=True)]
        rows += [[name, "goodput, Mbit/s", float(x), float(y)] for x, y in zip(ends, goodput, strict=True)]
    for axis in axes[-2:]:
        axis.set_xlabel("time, s")
    data = Data(["discipline", "quantity", "time_s", "value"], rows)
    return Picture(f"{_stem(row)}-over-time", f"{row.name} {row.title}", "", figure, data)


# ---- all rows ----


def matrix(done: Evaluation, heading: str) -> Picture:
    """Draws the matrix: for each row and discipline the verdict as a colour, and the ratios of delay and goodput."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    names, count = done.names[1:], len(done.rows)
    rows: list[list[object]] = []
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 2.0 + 0.36 * count), layout="constrained")
        axis = figure.subplots()
        axis.grid(visible=False)
        for down, row in enumerate(done.rows):
            for across in range(len(names)):
                one = done.at(row, across + 1)
                axis.add_patch(Rectangle((across, down), 1, 1, color=VERDICTS[one.verdict], linewidth=0))
                axis.text(across + 0.5, down + 0.5, _cell(one), ha="center", va="center", fontsize=8, color=INK)
                numbers = [_value(one, name) for name in ("delay", "goodput")]
                rows.append([row.name, names[across], one.verdict, *numbers])
        axis.set_xlim(0, len(names))
        axis.set_ylim(count, 0)
        axis.set_xticks(np.arange(len(names)) + 0.5, names)
        axis.set_yticks(np.arange(count) + 0.5, [f"{label(row)}  {row.title}" for row in done.rows])
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
        patches = [Patch(facecolor=colour, edgecolor=plot.GRID, label=word) for word, colour in VERDICTS.items()]
        axis.legend(handles=patches, ncols=len(patches), frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.0))
        said = (
            "A cell has the queuing delay and the goodput in percent of tail drop's. Its colour also judges completion "
            "time and unfairness."
        )
        plot.frame(figure, "Disciplines against tail drop", f"{heading} {said}", provenance(done))
    heads = ["row", "discipline", "verdict", "queuing delay / tail drop's", "goodput / tail drop's"]
    return Picture("matrix", "Disciplines against tail drop", heading, figure, Data(heads, rows))


def _cell(one: Judged) -> str:
    parts = [one.ratios.get(name) for name in ("delay", "goodput")]
    return " · ".join("–" if ratio is None else percent(ratio) for ratio in parts)


def _value(one: Judged, name: str) -> float | None:
    ratio = one.ratios.get(name)
    return None if ratio is None else ratio.value


def profiles(done: Evaluation) -> Picture:
    """Draws the profile of each discipline: in each row the ratio of each measure to tail drop's, with its interval."""
    markers = dict(zip((axis.name for axis in AXES), "osD^", strict=True))
    styles = dict(zip((axis.name for axis in AXES), ("#1f6fb4", "#6a3fa0", "#13866f", "#d98324"), strict=True))
    rows: list[list[object]] = []
    figure, axes = _figure(
        len(done.names) - 1,
        "Profiles of the disciplines",
        "Each measure in percent of tail drop's, with 95 % intervals over the seeds; filled marks count. Delay, "
        "completion time and unfairness are better to the left, goodput to the right.",
        provenance(done),
        height=0.75 + 0.155 * len(done.rows),
    )
    values = [ratio.value for one in done.judged for ratio in one.ratios.values()]
    limits = (0.8 * min([0.9, *values]), 1.25 * max([1.1, *values]))
    for place, axis in zip(range(1, len(done.names)), axes, strict=True):
        for down, row in enumerate(done.rows):
            for name, ratio in done.at(row, place).ratios.items():
                rows.append([done.names[place], row.name, name, ratio.value, ratio.low, ratio.high])
                if ratio.low is not None and ratio.high is not None:
                    axis.plot([ratio.low, ratio.high], [down, down], color=styles[name], linewidth=0.9)
                counts = ratio.better or ratio.worse
                axis.plot(
                    [ratio.value], [down], markers[name], color=styles[name], markersize=4,
                    markerfacecolor=styles[name] if counts else "white",
                )  # fmt: skip
        axis.axvline(1.0, color=QUIET, linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlim(*limits)
        plot.plain_log(axis.xaxis, TICKS, lambda value: f"{number_text(100 * value)} %")
        axis.set_yticks(range(len(done.rows)), [row.name for row in done.rows], fontsize=7)
        axis.set_ylim(len(done.rows) - 0.5, -0.5)
        axis.set_title(done.names[place], loc="left", fontsize=plot.NAME, color=INK)
    for one in AXES:
        axes[0].plot([], [], markers[one.name], color=styles[one.name], markersize=5, label=one.head)
    _names(figure, axes[0])
    data = Data(["discipline", "row", "measure", "ratio", "low", "high"], rows)
    return Picture("profiles", "Profiles of the disciplines", "", figure, data)


def sensitivity(done: Evaluation, row: Row) -> Picture:
    """Draws delay and goodput against the factor of the parameter of delay, a line for each discipline that has one."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    levels = dict.fromkeys(one.label.partition(",")[0] for one in row.variants)
    factors = list(dict.fromkeys(one.knob for one in row.variants))
    rows: list[list[object]] = []
    knobs = "; ".join(f"{kind} {' and '.join(names)}" for kind, names in suite.KNOBS.items())
    figure, axes = _figure(
        2 * len(levels),
        f"{row.name} {row.title}",
        f"The parameter in multiples of its default ({knobs}). Dotted: a discipline without such a parameter.",
        provenance(done),
        across=2,
    )
    for at, level in enumerate(levels):
        for place, paint in enumerate(plot.colours(done.lines)):
            cases = [one.label for one in row.variants if one.label.startswith(f"{level},")]
            delays = [_mean(done, row, place, case, "delay") for case in cases]
            goodputs = [_mean(done, row, place, case, "goodput") for case in cases]
            for axis, values in zip(axes[2 * at : 2 * at + 2], (delays, goodputs), strict=True):
                style = "o-" if suite.has_knob(done.lines[place]) else ":"
                axis.plot(factors, values, style, color=paint, label=done.names[place], linewidth=1.3, markersize=3.5)
            name = done.names[place]
            rows += [[level, name, *of] for of in zip(factors, delays, goodputs, strict=True)]
        for axis, what in zip(
            axes[2 * at : 2 * at + 2], ("queuing delay, ms", "goodput of all flows, Mbit/s"), strict=True
        ):
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(FixedLocator(factors))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"× {number_text(value)}"))
            axis.set_title(f"{level} congestion: {what}", loc="left", fontsize=plot.NAME, color=INK)
        axes[2 * at].set_yscale("log")
        plot.plain_log(axes[2 * at].yaxis, TICKS)
    _names(figure, axes[0])
    data = Data(["congestion", "discipline", "factor", "queuing delay, ms", "goodput, Mbit/s"], rows)
    return Picture(f"{_stem(row)}-sensitivity", f"{row.name} {row.title}", "", figure, data)


def _mean(done: Evaluation, row: Row, place: int, case: str, measure: str) -> float:
    """Returns the mean over the seeds of a measure of the bulk flows."""
    of_case = (one for one in done.found[row.name] if (one.place, one.case) == (place, case) and one.name != ALL)
    values = [value for one in of_case if (value := one.values.get(measure)) is not None]
    return float(np.mean(values)) if values else float("nan")


# ---- parts ----


def _stem(row: Row) -> str:
    return f"row-{row.name.replace(' ', '-').lower()}"


LEGEND_IN = 0.32
"""The height of the names above the panels."""


def _figure(
    count: int, title: str, subtitle: str, footer: str, *, across: int = ACROSS, height: float = PANEL_IN
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with headline, footer, room for the names of the disciplines, and at least `count` panels.

    There are `across` panels in a row; those that are not needed are hidden.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across, height = min(across, max(count, 1)), height if count > 1 else 1.6 * height
    down = -(-max(count, 1) // across)
    with mpl.rc_context(plot.STYLE):
        words = (*plot.headline_block(title, subtitle, plot.WIDTH), *plot.footer_block(footer, plot.WIDTH))
        size = (plot.WIDTH, 0.6 + LEGEND_IN + plot.block_height(words) + height * down)
        figure = Figure(figsize=size, layout="constrained")
        ratios = [LEGEND_IN, *[height] * down]
        rows = figure.subplots(down + 1, across, squeeze=False, height_ratios=ratios)
        for axis in rows[0]:
            axis.axis("off")
        axes = list(rows[1:].flat)
        for axis in axes[count:]:
            axis.set_visible(False)
        plot.frame(figure, title, subtitle, footer)
        return figure, axes[:count]


def _names(figure: Figure, axis: Axes) -> None:
    """Puts the names of a panel's lines and marks above all panels."""
    handles, names = axis.get_legend_handles_labels()
    shown = figure.axes[0].legend(
        handles, names, loc="lower left", bbox_to_anchor=(0.0, 0.0), ncols=9, frameon=False, fontsize=9,
        columnspacing=1.4, handletextpad=0.4, borderaxespad=0.0,
    )  # fmt: skip
    shown.set_in_layout(False)
