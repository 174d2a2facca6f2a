"""The figures and the table of the CoDel paper, and of its claims that have none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sojourn import charts, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing

Needs = Mapping[str, Runs]
HOP = "bottleneck"

# ---- figures 1 to 4: packets of 12 500 bytes, 1 ms long before the bottleneck and 10 ms after it ----

BEFORE_MS, AFTER_MS = 1.0, 10.0
RTT_MS = 200.0
TAIL_INK = plot.ink(plot.COLOURS["pfifo"])


def _packets(runs: Needs) -> tuple[Floats, Floats]:
    """When each packet has come to the queue, and when it begins to leave, in ms."""
    [record] = runs["burst"].recorded()
    series = record.series[HOP]
    there = series["delivered_bytes"] > 1000  # not the SYN
    # A packet counts where its transmission ends; the bins are short enough to hold one.
    start = series["time_s"][there] * 1000 - AFTER_MS
    return start - series["sojourn_mean_ms"][there], start


def _pipe(axes: tuple[Axes, Axes], arrived: Floats, start: Floats, first: int) -> None:
    """Each packet as a rectangle whose height is the link's rate and whose width is the time it takes."""
    come, leave = axes
    for axis, begins, length, rate in ((come, arrived - BEFORE_MS, BEFORE_MS, 100), (leave, start, AFTER_MS, 10)):
        boxes = [Rectangle((at, 0), length, rate) for at in begins]
        axis.add_collection(
            PatchCollection(boxes, facecolor=plot.COLOURS["pfifo"], edgecolor="white", linewidth=0.6, alpha=0.85)
        )
    for place, (at, begin) in enumerate(zip(arrived, start, strict=True)):
        if place % 4 == 0:
            come.text(at - BEFORE_MS / 2, 104, str(first + place), ha="center", fontsize=8, color=plot.QUIET)
            leave.text(begin + AFTER_MS / 2, 10.5, str(first + place), ha="center", fontsize=8, color=plot.QUIET)
    come.set_ylim(0, 125)
    leave.set_ylim(0, 13)
    come.set_ylabel("arriving, Mbit/s")
    leave.set_ylabel("leaving, Mbit/s")


def _startup(runs: Needs, figure: Figure, first: int, count: int, begin_ms: float) -> None:
    """Packets before and after the bottleneck, and the queue between."""
    arrived, start = _packets(runs)
    zero = arrived[0] - BEFORE_MS
    arrived, start = arrived - zero, start - zero
    come, queue, leave = figure.subplots(3, 1, sharex=True, height_ratios=(1, 1.1, 1))
    shown = slice(first - 1, first - 1 + count)
    _pipe((come, leave), arrived[shown], start[shown], first)
    waits = [[(at, number), (begin, number)] for number, (at, begin) in enumerate(zip(arrived, start, strict=True), 1)]
    queue.add_collection(LineCollection(waits[shown], colors=[TAIL_INK], linewidths=2))
    queue.set_ylim(first + count, first - 1)
    queue.set_ylabel("packet, waiting")
    last = start[shown][-1] - arrived[shown][-1]
    charts.note(queue, f"packet {first + count - 1} waits {last:.0f} ms", x=0.98, y=0.9, ha="right", fontsize=10)
    leave.set_xlim(begin_ms, begin_ms + 262)
    leave.set_xlabel("time since the first packet, ms")


def figure_1(runs: Needs, figure: Figure) -> None:
    """The burst."""
    _startup(runs, figure, first=1, count=25, begin_ms=-2)


def figure_2(runs: Needs, figure: Figure) -> None:
    """One round trip later."""
    _startup(runs, figure, first=26, count=20, begin_ms=195)


def _queue(axis: Axes, runs: Runs, end_s: float) -> Floats:
    """The queue in packets over time since the first packet came, in RTTs."""
    [record] = runs.recorded()
    series = record.series[HOP]
    zero = float(series["time_s"][np.argmax(series["queue_packets_max"] > 0)])
    time, packets = (series["time_s"] - zero) * 1000 / RTT_MS, series["queue_packets_max"]
    axis.step(time, packets, where="post", color=TAIL_INK, linewidth=1.1)
    axis.fill_between(time, packets, step="post", color=TAIL_INK, alpha=0.18, linewidth=0)
    axis.set_xlim(-0.3, end_s * 1000 / RTT_MS)
    axis.set_ylim(0)
    axis.set_xlabel("time since the first packet, in RTTs of 200 ms")
    axis.set_ylabel("queue, packets")
    return packets[(time > 2) & (time < end_s * 1000 / RTT_MS)]


def figure_3(runs: Needs, figure: Figure) -> None:
    """The standing queue."""
    axis = figure.subplots()
    later = _queue(axis, runs["standing"], 2.0)
    axis.axhline(5, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axis.text(10, 5.4, "25 − 20 = 5 packets too many", ha="right", fontsize=9, color=plot.QUIET)
    charts.note(axis, f"after two RTTs: {later.min():.0f} to {later.max():.0f} packets", x=0.4, fontsize=10)


def figure_4(runs: Needs, figure: Figure) -> None:
    """A burst each round trip."""
    axes = figure.subplots(2, 1, sharex=True)
    for axis, window in zip(axes, (39, 20), strict=True):
        chosen = runs["ack-per-window"].of(f"cc=fixed {window}")
        _queue(axis, chosen, 2.0)
        busy = 100 * charts.mean(chosen.values("utilisation")).value
        charts.note(axis, f"window {window}: the link is busy for {busy:.1f} % of the time", x=0.3, fontsize=10)
        axis.set_ylim(0, 40)
    axes[0].set_xlabel("")


FIGURES = (
    Drawing(
        "figure-1",
        "A connection starts: 25 packets at once, and the queue that they make",
        "figure 1",
        ("N4",),
        ("burst",),
        figure_1,
    ),
    Drawing(
        "figure-2",
        "One round trip later: packets come as they leave, and five wait",
        "figure 2",
        ("N1", "N2"),
        ("burst",),
        figure_2,
    ),
    Drawing(
        "figure-3",
        "The queue over time: good queue goes within a round trip, bad queue stays",
        "figure 3",
        ("N1", "N2"),
        ("standing",),
        figure_3,
    ),
    Drawing(
        "figure-4",
        "One acknowledgement a window: a burst each round trip, and no bad queue",
        "figure 4; above with the window that fills the link, below with the paper's",
        ("N3",),
        ("ack-per-window",),
        figure_4,
    ),
)
