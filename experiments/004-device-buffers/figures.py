"""The figures of the ring-buffer paper; 1 and 2 are drawings of a queue and of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sojourn import charts, claims, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing

Needs = Mapping[str, Runs]
Q = claims.module(Path(__file__).with_name(claims.QUANTITIES))
"""The quantities: sizes, the pings' RTT, and what all downloads together do."""
HOP, MSS = "router", 1448
TAIL, WINDOWS, RENO, BARE = plot.COLOURS["pfifo"], "#c77d0a", "#3d5a80", "#a23b5a"
"""Colours of the cases, whose discipline is always a FIFO."""
Measure = Callable[[Runs], Floats]


def _rows(runs: Runs, key: str, words: Sequence[object], measure: Measure) -> tuple[list[int], Floats]:
    """A measure by a setting, of those that were played: their places, and a row each with a column a seed."""
    played = [one[key] for one in runs.sets]
    places = [place for place, word in enumerate(words) if word in played]
    return places, np.array([measure(runs.of(f"{key}={words[place]}")) for place in places])


def _three(
    figure: Figure, key: str, words: Sequence[object], label: str, series: Mapping[str, tuple[Runs, str, str]]
) -> None:
    """RTT, drops and retransmissions by a size; `series` has runs, colour and marker by what they are called."""
    axes = figure.subplots(1, 3)
    figure.set_size_inches(11, 4.8)
    parts = (
        ("mean RTT of the pings, s", Q._rtt_s),
        ("drops in 300 s", Q._drops),
        ("retransmissions in 300 s", Q._retransmits),
    )
    for axis, (title, measure) in zip(axes, parts, strict=True):
        for name, (runs, paint, marker) in series.items():
            places, rows = _rows(runs, key, words, measure)
            axis.plot(places, np.nanmean(rows, axis=1), color=paint, linewidth=1, alpha=0.6)
            charts.points(axis, places, rows, paint, name, marker)
        charts.names(axis, ["0" if word == "noqueue" else str(word).split()[-1] for word in words])
        axis.set_xlim(-0.3, len(words) - 0.7)
        axis.set_ylim(0)
        axis.set(xlabel=label, ylabel=title)
        axis.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    axes[0].legend(frameon=False, fontsize=9, loc="upper left")


def figure_3(runs: Needs, figure: Figure) -> None:
    """By the ring."""
    series = {
        "FIFO of 1000": (runs["rings"], TAIL, "o"),
        "no FIFO": (runs["bare"], BARE, "s"),
        "FIFO of 1000, Reno": (runs["reno"], RENO, "^"),
    }
    _three(figure, "hop.router.nic.ring", Q.RINGS, "ring, descriptors", series)


def figure_4(runs: Needs, figure: Figure) -> None:
    """By the FIFO."""
    series = {
        "ring 512": (runs["fifos"], TAIL, "o"),
        "windows of 64 kB": (runs["small-windows"], WINDOWS, "s"),
        "Reno": (runs["reno-fifos"], RENO, "^"),
    }
    _three(figure, "hop.router.qdisc", Q.FIFOS, "FIFO, packets", series)


def _field(axis: Axes, runs: Runs, measure: Measure, digits: int, least: float, most: float) -> None:
    """A measure's mean over the seeds for each ring and FIFO, as a coloured table."""
    found = np.array([
        [float(np.nanmean(measure(runs.of(f"nic.ring={ring}", f"router.qdisc={fifo}")))) for ring in Q.RINGS]
        for fifo in Q.FIFOS
    ])  # fmt: skip
    axis.imshow(found, cmap="Blues", vmin=least, vmax=most, aspect="auto", origin="lower")
    for row, values in enumerate(found):
        for column, value in enumerate(values):
            paint = "white" if value > least + 0.6 * (most - least) else plot.INK
            axis.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=11, color=paint)
    charts.names(axis, [str(ring) for ring in Q.RINGS])
    axis.set_yticks(range(len(Q.FIFOS)), ["none", *map(str, Q.RINGS)])
    axis.set(xlabel="ring, descriptors", ylabel="FIFO, packets")
    axis.grid(visible=False)
    axis.tick_params(length=0)


def figure_5(runs: Needs, figure: Figure) -> None:
    """The RTT by both."""
    _field(figure.subplots(), runs["grid"], Q._rtt_s, 1, 0.0, 20.0)


def figure_6(runs: Needs, figure: Figure) -> None:
    """Goodput by both; 4.78 Mbit/s fit."""
    _field(figure.subplots(), runs["grid"], Q._goodput, 2, 0.0, 10.0)


def figure_7(runs: Needs, figure: Figure) -> None:
    """Windows as a transfer goes on."""
    alone, thirty = figure.subplots(1, 2)
    titles = ("one download", "30 downloads, ring 4096, FIFO of 1000")
    for axis, name, title in zip((alone, thirty), ("window", "windows"), titles, strict=True):
        for flow in (flow for flows in runs[name].flow_series() for flow in flows.values()):
            acknowledged, window = np.cumsum(flow["acked_bytes"]) / 1e6, flow["window"] * MSS / 1e6
            axis.step(acknowledged, window, where="post", color=TAIL, linewidth=1, alpha=0.8)
        axis.axhline(4, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
        axis.set(xlabel="acknowledged, MB", ylabel="advertised window, MB", title=title)
        axis.set_xlim(0)
        axis.set_ylim(0, 4.5)
        axis.text(
            0.99,
            4.05,
            "the paper's 4 MB",
            ha="right",
            fontsize=9,
            color=plot.QUIET,
            transform=axis.get_yaxis_transform(),
        )


def _curves(runs: Needs, figure: Figure, bql: bool) -> None:
    """The distribution of the sojourn for each split of 5000 packets."""
    axis = figure.subplots()
    chosen = runs["bql-curves"].of(f"nic.bql={str(bql).lower()}")
    for place, ring in enumerate(Q.RINGS):
        line = chosen.of(f"nic.ring={ring}", "pfifo")
        paint = str(0.72 - 0.72 * place / (len(Q.RINGS) - 1))
        charts.cdf(
            axis, charts.sojourn_shares(list(line.recorded()), HOP), paint, f"ring {ring}, FIFO of {5000 - ring}"
        )
    codel = charts.sojourn_shares(list(chosen.of("codel").recorded()), HOP)
    charts.cdf(axis, codel, charts.colour("codel"), "ring 2048, CoDel")
    charts.time_axis(axis, "x", 1, 20_000)
    axis.set(xlabel="sojourn in discipline and ring", ylabel="share of packets")
    axis.legend(frameon=False, fontsize=9, loc="upper left")


def figure_8(runs: Needs, figure: Figure) -> None:
    """Without byte queue limits."""
    _curves(runs, figure, bql=False)


def figure_9(runs: Needs, figure: Figure) -> None:
    """With them."""
    _curves(runs, figure, bql=True)


FIGURES = (
    Drawing(
        "figure-3",
        "By the ring: each descriptor adds its time; the drops are CUBIC's",
        "figure 3: mean RTT, drops and retransmissions by the ring, below 1000 packets of queue",
        ("B1", "B2", "B11"),
        ("rings", "bare", "reno"),
        figure_3,
    ),
    Drawing(
        "figure-4",
        "By the FIFO: its packets add as much, unless windows are small",
        "figure 4: the same by the queue above a ring of 512, where the RTT stays the same",
        ("B3", "B4", "B5", "B12"),
        ("fifos", "small-windows", "reno-fifos"),
        figure_4,
    ),
    Drawing(
        "figure-5",
        "Mean RTT in s, by ring and FIFO: it is the sum that counts",
        "figure 5: the RTT by both sizes",
        ("B1", "B3", "B13"),
        ("grid",),
        figure_5,
    ),
    Drawing(
        "figure-6",
        "Goodput in Mbit/s, by ring and FIFO: it depends on neither",
        "figure 6: throughput by both sizes",
        ("B6",),
        ("grid",),
        figure_6,
    ),
    Drawing(
        "figure-7",
        "How far receivers open their windows: to 3.9 MB, also with 30 at once",
        "figure 7: the advertised window over a transfer, up to 4 MB",
        ("B7",),
        ("window", "windows"),
        figure_7,
    ),
    Drawing(
        "figure-8",
        "Without byte queue limits: 12 s, however ring and FIFO share 5000 packets",
        "figure 8: the RTT's distribution without BQL",
        ("B8", "B8a", "B8b"),
        ("bql-curves",),
        figure_8,
    ),
    Drawing(
        "figure-9",
        "The same with byte queue limits: the ring's part is gone, the FIFO's stays",
        "figure 9: the RTT's distribution with BQL",
        ("B8", "B8a", "B8b", "B9"),
        ("bql-curves",),
        figure_9,
    ),
)
