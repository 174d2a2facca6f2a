"""The figures of the rural paper; 1 is a drawing of the network. The last one is of its future work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sojourn import charts, claims, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing

Needs = Mapping[str, Runs]
Q = claims.module(Path(__file__).with_name(claims.QUANTITIES))
"""The quantities: disciplines, loads, and measures by RTT."""
COLOURS = {
    "drop tail": plot.COLOURS["pfifo"],
    "CoDel": plot.COLOURS["codel"],
    "FQ-CoDel": plot.COLOURS["fq_codel"],
    "SFQ": plot.COLOURS["sfq"],
}
DASHED, DOTTED = (0, (5, 2.5)), (0, (1.2, 1.6))
STYLES = {"low load": "-", "high load": DASHED}
"""Solid and dashed as in the paper."""


def _key(axis: Axes, names: Sequence[str], styles: Mapping[str, Any], **how: Any) -> None:
    """A legend of colours and of line styles."""
    lines = [Line2D([], [], color=COLOURS[name], linewidth=3, label=name) for name in names]
    lines += [Line2D([], [], color=plot.QUIET, linestyle=style, label=name) for name, style in styles.items()]
    axis.legend(handles=lines, frameon=False, fontsize=9, **how)


def _level(axis: Axes, height: float, words: str, x: float = 0.98) -> None:
    """A thin line at a height, with what it is."""
    axis.axhline(height, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    axis.text(x, height, words, transform=axis.get_yaxis_transform(), ha="right", va="bottom", fontsize=8.5,
              color=plot.QUIET)  # fmt: skip


def _by_rtt(axis: Axes, label: str) -> None:
    axis.set(xlabel="base RTT, ms", ylabel=label, xlim=(40, 560))
    axis.xaxis.set_major_locator(FixedLocator([50, 150, 250, 350, 450, 550]))


# ---- figures 2 and 7: the test bed ----


def figure_2(runs: Needs, figure: Figure) -> None:
    """Completion times and bulk throughput with the defaults."""
    left, right = figure.subplots(1, 2)
    shown = {"drop tail": Q.TAIL, **Q.BED}
    for name, line in shown.items():
        charts.band(left, Q.RTTS_MS, Q._grid(runs["testbed"], "flows.download0.fct_s.mean", line), COLOURS[name])
        charts.band(right, Q.RTTS_MS, Q._grid(runs["testbed"], "flows.bulk0.goodput_mbit", line), COLOURS[name])
    _by_rtt(left, "mean completion time of 1.7 MB, s")
    _by_rtt(right, "bulk goodput, Mbit/s")
    left.set_ylim(0)
    right.set_ylim(0)
    _key(left, tuple(shown), {}, loc="lower right")


def _changes(figure: Figure, parts: Sequence[tuple[str, Mapping[str, Sequence[tuple[Floats, Any]]]]]) -> list[Axes]:
    """Draws the rural parameters' effect by RTT: for each part its label, and by discipline rows and line styles."""
    axes = list(figure.subplots(1, len(parts)))
    figure.set_size_inches(12, 4.9)
    for axis, (label, curves) in zip(axes, parts, strict=True):
        for name, drawn in curves.items():
            for rows, style in drawn:
                charts.band(axis, Q.RTTS_MS, rows, COLOURS[name], linestyle=style)
        axis.axhline(0, color=plot.QUIET, linewidth=0.9, zorder=0)
        _by_rtt(axis, label)
    return axes


def figure_7(runs: Needs, figure: Figure) -> None:
    """The same three measures in the test bed."""

    def both(address: str, name: str) -> tuple[Floats, Floats]:
        return tuple(Q._grid(runs["testbed"], address, lines[name]) for lines in (Q.BED_RURAL, Q.BED))

    def saved(name: str) -> Floats:
        rural, default = both("flows.download0.fct_s.mean", name)
        return 100 * (1 - rural / default)

    def more(address: str, name: str, unit: float = 1) -> Floats:
        rural, default = both(address, name)
        return unit * (rural - default)

    axes = _changes(figure, (
        ("completion time saved, %", {name: [(saved(name), "-")] for name in Q.BED}),
        ("pings' RTT more, ms", {name: [(more("flows.pings0.rtt_ms.mean", name), "-")] for name in Q.BED}),
        ("bulk goodput more, kbit/s", {name: [(more("flows.bulk0.goodput_mbit", name, 1000), "-")] for name in Q.BED}),
    ))  # fmt: skip
    _key(axes[1], tuple(Q.BED), {}, loc="upper right")


# ---- figures 3 and 4: interval and target ----


def _tuning(runs: Runs, figure: Figure, parameter: str, default: float, marked: float) -> tuple[Axes, Axes]:
    """Utilisation and mean delay by a parameter."""
    left, right = figure.subplots(1, 2)
    for kind, name in (("codel", "CoDel"), ("fq_codel", "FQ-CoDel")):
        tried = Q.tuned(runs, kind, parameter, default)
        x = [value for value, _ in tried]
        for load, style in STYLES.items():
            for axis, address, unit in ((left, "utilisation", 100.0), (right, "sojourn_ms.mean", 1.0)):
                rows = [unit * runs.of(f"qdisc={line}", Q.LOADS[load]).values(address) for _, line in tried]
                charts.band(axis, x, np.stack(rows), COLOURS[name], linestyle=style)
    for axis, label in ((left, "utilisation, %"), (right, "mean sojourn, ms")):
        axis.axvline(marked, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
        axis.set(xlabel=f"{parameter}, ms", ylabel=label)
    right.set_ylim(0)
    left.axhline(90, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    _key(left, ("CoDel", "FQ-CoDel"), STYLES, loc="lower right")
    return left, right


def figure_3(runs: Needs, figure: Figure) -> None:
    """The interval; marked is the RTT."""
    left, right = _tuning(runs["interval"], figure, "interval", 100, 300)
    _level(right, 5, "target: 5 ms")
    charts.note(left, "the RTT", x=0.29, y=0.06)


def figure_4(runs: Needs, figure: Figure) -> None:
    """The target; marked are the rural 65 ms."""
    _, right = _tuning(runs["target"], figure, "target", 5, 65)
    ends = right.get_xlim()
    right.plot((5, 150), (5, 150), color=plot.QUIET, linewidth=0.9, zorder=0)
    right.set_xlim(ends)
    right.text(102, 110, "the target itself", ha="right", fontsize=8.5, color=plot.QUIET)
    _level(right, 50, "50 ms")


# ---- figures 5 and 6: RTTs ----


def figure_5(runs: Needs, figure: Figure) -> None:
    """The effect of the rural parameters in the simulations."""

    rtts = runs["rtts"]

    def saved(name: str, load: str) -> Floats:
        rural, default = (
            Q._grid(rtts, "flows.download.fct_s.mean", lines[name], Q.LOADS[load]) for lines in (Q.NS2_RURAL, Q.NS2)
        )
        return 100 * (1 - rural / default)

    more, bulk, thin = Q._rural_less_default, "flows.bulk.goodput_mbit", "flows.thin.rtt_ms.mean"
    every = [(1000 * more(runs["rtts-every"], "CoDel", "low load", bulk), DOTTED)]
    axes = _changes(figure, (
        ("completion time saved, %", {
            name: [(saved(name, load), style) for load, style in STYLES.items()] for name in Q.NS2}),
        ("thin stream's RTT more, ms", {
            name: [(more(rtts, name, load, thin), style) for load, style in STYLES.items()] for name in Q.NS2}),
        ("bulk goodput more, kbit/s", {
            name: [(1000 * more(rtts, name, load, bulk), style) for load, style in STYLES.items()]
            + (every if name == "CoDel" else []) for name in Q.NS2}),
    ))  # fmt: skip
    axes[2].set_ylim(-25, 130)
    _key(axes[2], tuple(Q.NS2), {**STYLES, "low load, an ACK a segment": DOTTED}, loc="upper left")


def figure_6(runs: Needs, figure: Figure) -> None:
    """Two RTTs that add up to 600 ms."""
    left, right = figure.subplots(1, 2)
    for name in Q.NS2:
        for lines, style in ((Q.NS2, DASHED), (Q.NS2_RURAL, "-")):
            ratios, means, _ = Q.completion_ratios(runs["two-rtts"], lines[name])
            left.plot(ratios, means, color=COLOURS[name], linestyle=style, linewidth=1.7)
            own = Q._grid(runs["two-rtts"], "flows.monitored.fct_s.mean", lines[name])
            charts.band(right, ratios, own, COLOURS[name], linestyle=style)
    places = [0.1, 0.2, 0.5, 1, 2, 5, 10]
    for axis in (left, right):
        axis.set(xscale="log", xlabel="ratio of the RTTs, monitored to background")
        axis.xaxis.set_major_locator(FixedLocator(places))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    left.set(yscale="log", ylabel="ratio of the mean completion times")
    left.yaxis.set_major_locator(FixedLocator([0.2, 0.5, 1, 2, 5]))
    left.yaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    left.axhline(1, color=plot.QUIET, linewidth=0.9, zorder=0)
    right.set(ylabel="mean completion time, monitored, s")
    right.set_ylim(0)
    _key(left, tuple(Q.NS2), {"default": DASHED, "rural": "-"}, loc="upper left")


# ---- figure 8: the satellite ----


def figure_8(runs: Needs, figure: Figure) -> None:
    """Completion time against RTT, a point a discipline; without SFQ of 127 packets, whose RTT is 1.8 s."""
    axis = figure.subplots()
    shown = [("drop tail", Q.TAIL, "drop tail", True), ("SFQ", "sfq limit 25", "SFQ", True)]
    for name in Q.BED:
        shown += [(name, Q.BED[name], name, False), (name, Q.BED_RURAL[name], f"rural {name}", True)]
    for discipline, line, name, filled in shown:
        paint = COLOURS[discipline]
        for packets, marker in ((25, "o"), (42, "s")) if discipline != "SFQ" else ((25, "o"),):
            of = runs["satellite"].of(f"qdisc={line.replace('limit 25', f'limit {packets}')}")
            rtt, took = (charts.mean(of.values(f"flows.download.{what}")) for what in ("rtt_ms.mean", "fct_s.mean"))
            style: dict[str, Any] = {
                "color": paint,
                "markerfacecolor": paint if filled else "white",
                "markersize": 7,
                "capsize": 2,
            }
            axis.errorbar(rtt.value, took.value, took.half_width, rtt.half_width, fmt=marker, linewidth=1, **style)
            if packets == 25:
                left = discipline in Q.BED and name != "FQ-CoDel"
                place, side = ((-18, -3), "right") if left else ((9, 9), "left")
                words: dict[str, Any] = {
                    "textcoords": "offset points",
                    "fontsize": 9,
                    "color": plot.ink(paint),
                    "ha": side,
                }
                axis.annotate(name, (rtt.value, took.value), place, **words)
    axis.set(xlabel="mean RTT of the downloads, ms (600 without a queue)", ylabel="mean completion time of 1.7 MB, s")
    axis.set_xlim(590)
    marks = [
        Line2D([], [], color=plot.QUIET, marker=marker, linestyle="", label=f"buffer of {packets} packets")
        for packets, marker in ((25, "o"), (42, "s"))
    ]
    axis.legend(handles=marks, frameon=False, fontsize=9, loc="upper right")


# ---- future work ----


def real_time(runs: Needs, figure: Figure) -> None:
    """A call, datagrams and a video, by discipline at 300 ms."""
    axes = list(figure.subplots(1, 3))
    figure.set_size_inches(12, 4.9)
    lines = {"drop tail": ("drop tail", Q.TAIL)}
    for name in Q.BED:
        lines[f"{name},\ndefault"] = (name, Q.BED[name])
        lines[f"{name},\nrural"] = (name, Q.BED_RURAL[name])
    parts = (
        ("call's MOS", "flows.call.mos", 0),
        ("datagrams' one-way delay, 95th percentile, ms", "flows.game.delay_ms.p95", 0),
        ("video's mean quality, Mbit/s", "flows.video.video.quality_mbit", 1),
    )
    for axis, (label, address, count) in zip(axes, parts, strict=True):
        for place, (name, line) in enumerate(lines.values()):
            found = runs["realtime"].of(f"qdisc={line}", "delay=147.5ms", f"video.count={count}").values(address)
            told = charts.mean(found)
            axis.bar(place, told.value, 0.72, color=COLOURS[name], alpha=0.5 if line in Q.BED.values() else 1)
            axis.errorbar(place, told.value, told.half_width or 0, fmt="none", color=plot.INK, capsize=2, linewidth=1)
        axis.set_xticks(range(len(lines)), list(lines), fontsize=7.5)
        axis.tick_params(axis="x", length=0)
        axis.grid(visible=False, axis="x")
        axis.set_ylabel(label)
    axes[0].set_ylim(1, 4.5)


FIGURES = (
    Drawing("figure-2", "CoDel's defaults at 1 Mbit/s: less throughput, downloads hardly faster", "figure 2",
            ("K3",), ("testbed",), figure_2),
    Drawing("figure-3", "A longer interval: more utilisation, more delay", "figure 3",
            ("K4", "K5", "K6"), ("interval",), figure_3),
    Drawing("figure-4", "A higher target: more utilisation, more delay", "figure 4",
            ("K7", "K8"), ("target",), figure_4),
    Drawing("figure-5", "What the rural parameters change, in the simulations", "figure 5",
            ("K9", "K10", "K11"), ("rtts", "rtts-every"), figure_5),
    Drawing("figure-6", "Two downloads of different RTTs: nearer to each other with the rural parameters", "figure 6",
            ("K12",), ("two-rtts",), figure_6),
    Drawing("figure-7", "What the rural parameters change, in the test bed", "figure 7",
            ("K13",), ("testbed",), figure_7),
    Drawing("figure-8", "Behind a satellite: completion time against RTT", "figure 8",
            ("K14", "K15"), ("satellite",), figure_8),
    Drawing("real-time", "Real-time services: rural CoDel spoils a call, rural FQ-CoDel does not", "future work",
            ("K18",), ("realtime",), real_time),
)  # fmt: skip
