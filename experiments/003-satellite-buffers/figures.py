"""The three figures of the satellite posts, and one for each of the claims that have none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sojourn import charts, claims, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing

Needs = Mapping[str, Runs]
Q = claims.module(Path(__file__).with_name(claims.QUANTITIES))
"""The quantities: the two capacities, and a download's rate."""
HOP = "satellite"
FIFO = plot.COLOURS["bfifo"]
DARK, LIGHT = plot.ink(plot.COLOURS["pfifo"]), "#b8b8b8"
"""Colours of the two capacities in pictures that have both."""
POST = "#d1495b"
"""The post's own numbers."""
CAPS = (20, 30, 40, 50, 60, 70, 80, 100)
KB = (30, 60, 120, 250, 500, 1000, 2000, 4000)


def _rate(runs: Runs) -> Floats:
    """The download's in each run, in Mbit/s; NaN in all if it has not come to its end in one."""
    rate: Floats = Q._rate(runs)
    return np.full_like(rate, np.nan) if np.isnan(rate).any() else rate


# ---- figures 1 to 3 ----

BEGIN_S, SPAN_S = 100.0, 20.0


def _queue(runs: Runs, figure: Figure, most_ms: float) -> None:
    """20 s of the first seed's queue, as pings see it, and the sojourns of all seeds."""
    records = list(runs.recorded())
    series = records[0].series[HOP]
    shown = (series["time_s"] >= BEGIN_S) & (series["time_s"] < BEGIN_S + SPAN_S)
    time_s = series["time_s"][shown] - BEGIN_S
    least, mean, greatest = (
        np.nan_to_num(series[f"sojourn_{which}_ms"][shown]) for which in ("min", "mean", "max")
    )  # fmt: skip
    left, right = figure.subplots(1, 2, width_ratios=(2.6, 1))
    left.fill_between(time_s, least, greatest, color=FIFO, alpha=0.3, linewidth=0)
    left.plot(time_s, mean, color=DARK, linewidth=1.1)
    left.set(xlabel=f"time, s (from {BEGIN_S:.0f} s on, seed {records[0].seed})", ylabel="sojourn, ms")
    left.set(xlim=(0, SPAN_S), ylim=(0, most_ms))
    charts.note(left, "mean of each tenth of a second; shaded from the least to the greatest")
    charts.cdf(right, charts.sojourn_shares(records, HOP), DARK)
    right.set(xlabel="sojourn, ms", ylabel="share of packets", xlim=(0, most_ms))
    charts.note(right, f"{len(records)} seeds", x=0.6, y=0.1)


def figure_1(runs: Needs, figure: Figure) -> None:
    """120 kB, up to 50 flows."""
    _queue(runs["figure-1"], figure, 72)


def figure_2(runs: Needs, figure: Figure) -> None:
    """120 kB, up to 80 flows."""
    _queue(runs["figure-2"], figure, 72)


def figure_3(runs: Needs, figure: Figure) -> None:
    """2000 kB, once a large flow is there."""
    _queue(runs["figure-3"], figure, 1200)


# ---- load and capacity ----


def _of(runs: Runs, flows: int, kb: int) -> Runs:
    return Q._capped(runs, flows, f"bfifo limit {1000 * kb}")


def load(runs: Needs, figure: Figure) -> None:
    """The download's rate, the link's use and the delay by the cap on flows, for the two capacities."""
    grid = runs["grid"]
    axes = figure.subplots(1, 3)
    measures = ("the download, Mbit/s", "link busy, %", "mean queue delay, ms")
    for axis, name in zip(axes, measures, strict=True):
        for kb, paint in ((120, DARK), (2000, LIGHT)):
            cells = [_of(grid, flows, kb) for flows in CAPS]
            rows = [
                {
                    measures[0]: _rate(one),
                    measures[1]: 100 * one.values("utilisation"),
                    measures[2]: one.values("queue_delay_ms.mean"),
                }[name]
                for one in cells
            ]
            charts.band(axis, CAPS, np.stack(rows), paint, f"{kb} kB", marker="o", markersize=3.5)
        axis.set(xlabel="flows at most", ylabel=name)
        axis.set_ylim(bottom=0)
    axes[0].plot((50, 60, 80, 50), (2.3, 2.0, 1.0, 10.0), "x", color=POST, markersize=8, markeredgewidth=2, zorder=5)
    charts.legend(axes[0], {"120 kB": DARK, "2000 kB": LIGHT, "× the post": POST}, loc="upper right")
    axes[2].set_yscale("log")
    axes[2].set_ylim(1, 1000)
    charts.time_axis(axes[2], "y", 1, 1000)
    axes[2].set_ylabel("mean queue delay")


def capacity(runs: Needs, figure: Figure) -> None:
    """Measures by the queue's capacity, for three loads."""
    grid = runs["grid"]
    axes = figure.subplots(1, 3)
    loads = ((50, DARK), (80, FIFO), (100, LIGHT))
    for flows, paint in loads:
        cells = [_of(grid, flows, kb) for kb in KB]
        rows = (
            np.stack([_rate(one) for one in cells]),
            np.stack([one.values("queue_delay_ms.mean") for one in cells]),
            np.stack([one.values("flows.users.fct_s.mean") for one in cells]),
        )
        for axis, row in zip(axes, rows, strict=True):
            charts.band(axis, KB, row, paint, marker="o", markersize=3.5)
    for axis, name in zip(
        axes, ("the download, Mbit/s", "mean queue delay", "mean time of the others, s"), strict=True
    ):
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator([30, 120, 500, 2000]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:.0f}"))
        axis.set(xlabel="capacity, kB", ylabel=name)
        axis.set_ylim(bottom=0)
    charts.time_axis(axes[1], "y", 1, 1000)
    charts.legend(axes[0], {f"{flows} flows": paint for flows, paint in loads}, loc="upper left")
    charts.note(axes[0], "missing: not\nover in 900 s", y=0.74)


def long_flows(runs: Needs, figure: Figure) -> None:
    """Rates and delays with one to sixteen lasting transfers."""
    counts = (1, 2, 4, 8, 16)
    left, right = figure.subplots(1, 2)
    for line, paint in ((Q.SMALL, DARK), (Q.LARGE, LIGHT)):
        each = [runs["long"].of(f"long.count={count}", f"qdisc={line}") for count in counts]
        rates = np.stack([one.values("flows.long.goodput_mbit") for one in each])
        delays = np.stack([one.values("queue_delay_ms.mean") for one in each])
        charts.band(left, counts, rates, paint, marker="o", markersize=4)
        charts.band(right, counts, delays, paint, marker="o", markersize=4)
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator(counts))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:.0f}"))
        axis.set_xlabel("lasting transfers beside 50 flows")
    left.set(yscale="log", ylim=(0.3, 20), ylabel="rate of each, Mbit/s")
    left.yaxis.set_major_locator(FixedLocator([0.5, 1, 2, 5, 10]))
    left.yaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    charts.time_axis(right, "y", 10, 1000)
    right.set_ylabel("mean queue delay")
    charts.legend(left, {"120 kB": DARK, "2000 kB": LIGHT}, loc="upper right")


# ---- disciplines ----

NAMES = (
    "FIFO", "RED", "RED, ECN", "CoDel", "CoDel 30/600 ms", "CoDel 30/600 ms, ECN", "FQ-CoDel 30/600 ms",
)  # fmt: skip
"""As disciplines.toml lists them for each capacity."""


def disciplines(runs: Needs, figure: Figure) -> None:
    """Seven disciplines at each of the two capacities."""
    own = runs["disciplines"]
    lines = list(dict.fromkeys(one["hop.satellite.qdisc"] for one in own.sets))
    heads = ("", "capacity", "link busy, %", "mean queue delay, ms", "download, Mbit/s", "median of the others, ms")
    rows, colours = [], []
    for kb, some in ((120, lines[:7]), (2000, lines[7:])):
        for name, line in zip(NAMES, some, strict=True):
            each = own.of(f"qdisc={line}")
            rows.append((
                name,
                f"{kb} kB",
                charts.number(charts.mean(100 * each.values("utilisation"))),
                charts.number(charts.mean(each.values("queue_delay_ms.mean"))),
                charts.number(charts.mean(_rate(each)), 2),
                charts.number(charts.mean(1000 * each.values("flows.users.fct_s.p50"))),
            ))  # fmt: skip
            colours.append((plot.ink(charts.colour(line)), *[None] * (len(heads) - 1)))
    charts.table(figure.subplots(), heads, rows, colours)


# ---- small and large transfers ----


def small_and_large(runs: Needs, figure: Figure) -> None:
    """Times of transfers below 100 kB, and who carries what 80 flows gain over 50."""
    left, right = figure.subplots(1, 2)
    own = runs["by-size"]

    def of(count: int, flows: int, line: str, address: str) -> Floats:
        return own.of(f"long.count={count}", f"users.max_active={flows}", f"qdisc={line}").values(address)

    times = {
        f"{kb} kB": np.stack([of(count, 50, line, "flows.small.fct_s.mean") for count in (0, 1)])
        for kb, line in ((120, Q.SMALL), (2000, Q.LARGE))
    }
    charts.bars(left, ("without", "beside a lasting transfer"), times, (DARK, LIGHT))
    left.set_ylabel("mean time of transfers below 100 kB, s")
    charts.legend(left, {"120 kB": DARK, "2000 kB": LIGHT}, loc="upper left")
    gained = {}
    for size, parted in (("100 kB", own), ("1 MB", runs["parted-at-1mb"])):
        gained[size] = [Q._gained(parted, f"flows.{which}.goodput_mbit") for which in ("small", "large")]
    both = {
        name: np.stack([gained[size][place] for size in gained]) for place, name in enumerate(("smaller", "larger"))
    }
    charts.bars(right, [f"parted at {size}" for size in gained], both, (DARK, LIGHT))
    right.set_ylabel("gained from 50 to 80 flows, Mbit/s")
    charts.legend(right, {"smaller": DARK, "larger": LIGHT}, loc="upper left")
    right.set_ylim(0, 3.4)


# ---- the extremes, and the range of links ----


def extremes(runs: Needs, figure: Figure) -> None:
    """A message of 20 kB by capacity, and the greatest delay by how long the endless queue has stood."""
    left, right = figure.subplots(1, 2)
    own = runs["extremes"]
    lines = {"none": "noqueue", "120 kB": Q.SMALL, "2000 kB": Q.LARGE}
    times = np.stack([own.of(line, "duration=300s").values("flows.mail.fct_s.p50") for line in lines.values()])
    charts.bars(left, tuple(lines), {"": times}, (DARK,))
    left.set(xlabel="capacity", ylabel="median time of a message of 20 kB, s")
    seconds = (150, 300, 600)
    greatest = np.stack([own.of("pfifo", f"duration={one}s").values("sojourn_ms.max") for one in seconds]) / 1000
    charts.points(right, seconds, greatest, DARK)
    right.plot(seconds, greatest.mean(axis=1), color=DARK, linewidth=1.2)
    right.set(xlim=(0, 650), ylim=(0, 220), xlabel="length of the run, s", ylabel="greatest sojourn without an end, s")


LINKS = (("GEO", "250ms", (8, 16, 32, 64)), ("MEO", "65ms", (64, 160, 320)))


def links(runs: Needs, figure: Figure) -> None:
    """Utilisation, delay and the download's share for each link."""
    axes = figure.subplots(1, 3)
    names = [f"{orbit}\n{rate}" for orbit, _, rates in LINKS for rate in rates]

    def rows(limit: str, of: str) -> Floats:
        found = []
        for _, delay, rates in LINKS:
            for rate in rates:
                own = runs["range"].of(f"rate={rate}mbit", f"delay={delay}", f"bfifo limit {limit}")
                found.append({
                    "busy": 100 * own.values("utilisation"),
                    "delay": own.values("queue_delay_ms.mean"),
                    "share": 100 * Q.share(own, rate),
                }[of])  # fmt: skip
        return np.stack(found)

    labels = {"busy": "link busy, %", "delay": "mean queue delay, ms", "share": "the download, % of the link"}
    for axis, (of, label) in zip(axes, labels.items(), strict=True):
        _bars_of_links(axis, names, rows("0.12bdp", of), rows("2bdp", of))
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].set_ylim(0, 110)
    charts.legend(axes[0], {"0.12 BDP": DARK, "2 BDP": LIGHT}, loc="upper left", ncols=2)


def _bars_of_links(axis: Axes, names: list[str], small: Floats, large: Floats) -> None:
    charts.bars(axis, names, {"0.12 BDP": small, "2 BDP": large}, (DARK, LIGHT))
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel("orbit, and Mbit/s")


FIGURES = (
    Drawing("figure-1", "120 kB, up to 50 flows: the queue drains again and again", "figure 1",
            ("S1", "S2"), ("figure-1",), figure_1),
    Drawing("figure-2", "120 kB, up to 80 flows: it stands for seconds, at a few tens of milliseconds", "figure 2",
            ("S1", "S6"), ("figure-2",), figure_2),
    Drawing("figure-3", "2000 kB and a large flow: it never drains, and the RTT triples", "figure 3",
            ("S8",), ("figure-3",), figure_3),
    Drawing("load", "What more flows do to a download of 40 MB, to the link and to the queue", "the rates in its text",
            ("S3", "S4", "S5", "S7"), ("grid",), load),
    Drawing("capacity", "What the queue's capacity does to a download of 40 MB, to the queue and to the others",
            "its question, which capacity", ("S3", "S7"), ("grid",), capacity),
    Drawing("long-flows", "More lasting transfers: their rates fall, the delay does not", "the words on long flows",
            ("S9",), ("long",), long_flows),
    Drawing("disciplines", "Disciplines at equal capacity", "the words on RED and ECN",
            ("S13",), ("disciplines",), disciplines),
    Drawing("small-and-large", "Small transfers pay for the capacity, and gain half of what more flows gain",
            "the words on small flows", ("S14", "S15"), ("by-size", "parted-at-1mb"), small_and_large),
    Drawing("extremes", "No queue, and one without an end", "its two extremes", ("S16",), ("extremes",), extremes),
    Drawing("links", "From 8 Mbit/s in geostationary orbit to 320 in medium orbit", "its range of links",
            ("S12",), ("range",), links),
)  # fmt: skip
