"""The pictures of compare.py: long flows, and ccaq less fq_codel over the presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from loads import DISCIPLINES, LOADS, PATHS
from matplotlib.figure import Figure
from presets import DELAYS, OURS, RATE

from sojourn import plot
from sojourn.plot import INK, QUIET, Data, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORSE, BETTER = "#b3261e", "#6a3fa0"
ROW_IN = 0.27
"""Inches of a preset's row."""
LEAST_MS = 0.3
"""A shorter mean sojourn is drawn here."""
Found = Mapping[str, Any]


def half(mean: Mapping[str, Any]) -> float:
    """Returns half of the interval of a mean."""
    return mean["half_width"] or 0.0


def of_loads(found: Found, origin: str) -> Picture:
    """Draws how busy one long flow keeps the link, and the sojourn that it has for it."""
    title = "One long flow: how busy the link is, and with how much delay"
    subtitle = (
        "Upwards is busier, to the left is shorter. Each dot is a discipline with its defaults; bars are 95 % "
        "intervals. Where a dot is missing, others cover it: BBR hardly fills a queue, so disciplines differ little."
    )
    rows: list[list[object]] = []
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 7.6), layout="constrained")
        axes = figure.subplots(3, len(PATHS), sharey="row")
        for row, cc in zip(axes, ("cubic", "reno", "bbr"), strict=True):
            for axis, (path, (rate, rtt_ms, _)) in zip(row, PATHS.items(), strict=True):
                name = f"{path}-{cc}"
                label = {"cubic": "CUBIC", "reno": "Reno", "bbr": "BBR"}[cc]
                axis.set_title(
                    f"{label}, {rate.removesuffix('mbit')} Mbit/s, {rtt_ms} ms", loc="left", fontsize=plot.NAME
                )
                for line, paint in zip(DISCIPLINES, plot.colours(DISCIPLINES), strict=True):
                    one = found[name]["disciplines"][line]
                    mean, busy = max(one["mean"]["mean"], LEAST_MS), 100 * one["busy"]["mean"]
                    wide = [[min(half(one["mean"]), mean / 2)], [half(one["mean"])]]
                    axis.errorbar(
                        mean, busy, xerr=wide, yerr=100 * half(one["busy"]), fmt="o", color=paint, ms=6, lw=1.2
                    )
                    rows.append([name, line, busy, 100 * half(one["busy"]), one["mean"]["mean"], half(one["mean"])])
                axis.set_xscale("log")
                axis.set_xlim(LEAST_MS, 300)
                plot.plain_log(axis.xaxis, 5, at=(1.0, 3.0))
            row[0].set_ylabel("link busy, %")
        for axis in axes[-1]:
            axis.set_xlabel("mean sojourn in the queue, ms")
        handles = [
            mpl.lines.Line2D([], [], marker="o", linestyle="none", color=paint, label=line)
            for line, paint in zip(DISCIPLINES, plot.colours(DISCIPLINES), strict=True)
        ]
        axes[0][0].legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0, 1.12), ncols=7, frameon=False, fontsize=8
        ).set_in_layout(False)
        for axis in axes[0]:
            axis.set_title(axis.get_title(loc="left"), loc="left", fontsize=plot.NAME, pad=8)
        plot.frame(figure, title, subtitle, origin)
    heads = ["load", "discipline", "busy_percent", "busy_half_width", "sojourn_ms", "sojourn_half_width"]
    assert set(found) <= set(LOADS)
    return Picture("loads.sim", title, f"{subtitle} {origin}", figure, Data(heads, rows))


def of_presets(found: Found, origin: str) -> Picture:
    """Draws the differences of ccaq to fq_codel, a row for each preset."""
    count = sum(one["worse_at_once"] == "yes" for one in found.values())
    title = f"ccaq less fq_codel over {len(found)} presets: worse in both in {count}"
    subtitle = (
        "Delay: the 95th percentile of the pings' RTT and of the calls' delay; left of the line is better. Goodput: "
        "that of all flows; right of the line is better. Bars are 95 % intervals of the differences, seed by seed; "
        "hollow: the interval includes 0, or the difference is within rounding. Red names: worse in both."
    )
    names = list(found)
    rows: list[list[object]] = []
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 2.0 + ROW_IN * len(names)), layout="constrained")
        delay, rate = figure.subplots(1, 2, sharey=True)
        for row, name in enumerate(names):
            for key, axis in (*((key, delay) for key in DELAYS), (RATE, rate)):
                one = found[name]["measures"].get(key)
                if one is None:
                    continue
                mean, factor = (one["relative"], 100) if key == RATE else (one["difference"], 1)
                value, wide = factor * mean["mean"], factor * half(mean)
                rows.append([name, key, value, wide, one["verdict"]])
                dot(axis, value, wide, row + {"ping": -0.15, "call": 0.15}.get(key, 0.0), key, one["verdict"])
        delay.set_yticks(range(len(names)), names, fontsize=plot.X_LABEL)
        for text, name in zip(delay.get_yticklabels(), names, strict=True):
            text.set_color(WORSE if found[name]["worse_at_once"] == "yes" else INK)
        delay.set_ylim(len(names) - 0.4, -0.6)
        delay.set_xscale("symlog", linthresh=1.0, linscale=0.7)
        delay.set_xlim(-80, 20)
        delay.set_xticks([-30, -10, -3, -1, 0, 1, 3, 10], ["−30", "−10", "−3", "−1", "0", "1", "3", "10"])
        delay.set_title("delay of sparse flows, p95: difference, ms", loc="left", fontsize=plot.NAME, pad=22)
        rate.set_title("goodput of all flows: difference, %", loc="left", fontsize=plot.NAME, pad=22)
        for axis in (delay, rate):
            axis.axvline(0, color=QUIET, lw=1.0)
        handles = [
            mpl.lines.Line2D([], [], marker=shape, linestyle="none", color=INK, label=label)
            for shape, label in (("o", "pings, RTT"), ("s", "calls, one way"))
        ]
        delay.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=2,
            frameon=False,
            fontsize=8,
            borderaxespad=0.1,
        ).set_in_layout(False)
        plot.frame(figure, title, subtitle, origin)
    heads = ["preset", "measure", "difference", "half_width", "verdict"]
    return Picture("presets.sim", title, f"{subtitle} {OURS} less fq_codel. {origin}", figure, Data(heads, rows))


def dot(axis: Axes, value: float, wide: float, row: float, key: str, verdict: str) -> None:
    """Draws a difference with its interval."""
    paint = {"worse": WORSE, "better": BETTER}.get(verdict, QUIET)
    face = paint if verdict in ("worse", "better") else plot.PAPER
    axis.errorbar(
        value, row, xerr=wide, fmt="s" if key == "call" else "o", color=paint, markerfacecolor=face, ms=5, lw=1.2
    )
