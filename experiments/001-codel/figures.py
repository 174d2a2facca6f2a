"""The figures and the table of the CoDel paper, and of its claims that have none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sojourn import charts, claims, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing

QUANTITIES = claims.module(Path(__file__).with_name(claims.QUANTITIES))
"""The experiment's quantities: figures draw the same numbers that the claims read."""
Needs = Mapping[str, Runs]
HOP = "bottleneck"
LINES = {"CoDel": "codel ", "RED": "red ", "tail drop": "pfifo ", "BLUE": "blue "}
"""How a discipline's lines begin."""
COLOURS = {name: charts.colour(line) for name, line in LINES.items()}

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
        if place % 8 == 0:
            come.text(at - BEFORE_MS / 2, 104, str(first + place), ha="center", fontsize=8, color=plot.QUIET)
        if place % 4 == 0:
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


# ---- figures 5, 6, 8 and 9: each dot of a box is a link, with the mean over its seeds ----


def _links(found: Runs, *words: str, address: str) -> Floats:
    """The mean over the seeds of each combination."""
    means: Floats = np.nanmean(found.of(*words).grid(address), axis=1)
    return means


def _both(runs: Needs, *words: str, address: str) -> Floats:
    """File transfers alone, and five of them with web traffic and a call."""
    return np.concatenate([_links(runs[name], *words, address=address) for name in ("ftp", "mix")])


def _figure_of(runs: Needs, figure: Figure, words: Mapping[str, str], names: tuple[str, ...]) -> tuple[Axes, Axes]:
    """Median delay and utilisation in boxes, by rate or by RTT."""
    delay, busy = figure.subplots(1, 2)
    for axis, address, scale in ((delay, "sojourn_ms.p50", 1), (busy, "utilisation", 100)):
        values = {
            name: [scale * _both(runs, LINES[name], word, address=address) for word in words.values()] for name in names
        }
        charts.boxes(axis, list(words), values, [COLOURS[name] for name in names])
    delay.set_ylabel("median delay of a run, ms")
    busy.set_ylabel("utilisation, %")
    charts.legend(busy, {name: COLOURS[name] for name in names}, loc="lower left")
    return delay, busy


def figure_5(runs: Needs, figure: Figure) -> None:
    """By rate."""
    words = {name: f"bottleneck.rate={name}bit" for name in ("3m", "10m", "45m", "100m")}
    words = {f"{name[:-1]} Mbit/s": word for name, word in words.items()}
    delay, _ = _figure_of(runs, figure, words, ("CoDel", "RED"))
    delay.axhline(5, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    charts.note(delay, "dashed: CoDel's target", x=0.65, y=0.95)


def figure_6(runs: Needs, figure: Figure) -> None:
    """Slow links, by rate and packet size."""
    rates = {"128 kbit/s": "128kbit", "256 kbit/s": "256kbit", "512 kbit/s": "512kbit", "1.5 Mbit/s": "1.5mbit"}
    kinds = {
        f"{name}, {size} bytes": (name, mss) for name in ("CoDel", "RED") for mss, size in ((1448, 1500), (448, 500))
    }
    paints = [paint for name in ("CoDel", "RED") for paint in charts.shades(COLOURS[name], 2)]
    delay, busy = figure.subplots(1, 2)
    for axis, address, scale in ((delay, "sojourn_ms.p50", 1), (busy, "utilisation", 100)):
        values = {
            kind: [
                scale * _links(runs["packet-size"], LINES[name], f"rate={rate}", f"mss={mss}", address=address)
                for rate in rates.values()
            ]
            for kind, (name, mss) in kinds.items()
        }
        charts.boxes(axis, list(rates), values, paints)
    charts.time_axis(delay, "y", 0.9, 1100)
    delay.set_ylabel("median delay of a run (logarithmic)")
    busy.set_ylabel("utilisation, %")
    charts.legend(busy, dict(zip(kinds, paints, strict=True)), loc="lower left")


RTTS = {"10 ms": "10ms", "30 ms": "30ms", "100 ms": "100ms", "200 ms": "200ms", "500 ms": "500ms"}


def figure_8(runs: Needs, figure: Figure) -> None:
    """By RTT."""
    words = {name: f"ftp.rtt={rtt}" for name, rtt in RTTS.items()}
    delay, busy = _figure_of(runs, figure, words, ("CoDel", "RED", "tail drop"))
    delay.set_yscale("symlog", linthresh=10)
    delay.set_ylim(0, 3000)
    delay.set_yticks([0, 5, 10, 100, 1000], ["0", "5", "10", "100", "1000"])
    delay.minorticks_off()
    delay.set_ylabel("median delay of a run, ms (logarithmic above 10)")
    for axis in (delay, busy):
        axis.set_xlabel("base RTT")


def figure_9(runs: Needs, figure: Figure) -> None:
    """Jain's index of drops over packets, by RTT."""
    axis = figure.subplots()
    names = ("CoDel", "RED")

    def found(name: str, rtt: str) -> Floats:
        several = [
            _links(runs["ftp"], LINES[name], f"ftp.rtt={rtt}", f"ftp.count={count}", address="jain.drop_share")
            for count in (5, 20)
        ]
        mixed = _links(runs["mix"], LINES[name], f"ftp.rtt={rtt}", address="jain.drop_share")
        return np.concatenate([*several, mixed])

    charts.boxes(
        axis,
        list(RTTS),
        {name: [found(name, rtt) for rtt in RTTS.values()] for name in names},
        [COLOURS[name] for name in names],
    )
    axis.set_ylabel("Jain's index of the sources' shares of drops")
    axis.set_xlabel("base RTT")
    charts.legend(axis, {name: COLOURS[name] for name in names}, loc="lower left")


# ---- figure 7 ----

FADING = ("tail drop", "RED", "CoDel")
QUANTILES = {0.5: 2.7, 0.75: 5.0, 0.95: 90.0}
"""The paper's for CoDel, over time, in ms."""
EMPTY_MS = 0.1
"""The delay at which the logarithmic axis shows an empty queue."""


def figure_7(runs: Needs, figure: Figure) -> None:
    """Delays and bytes over time, and how long which delay was there."""
    figure.set_size_inches(plot.WIDTH, 9)
    axes = figure.subplot_mosaic(
        [["rate", "."], ["delay", "time"], ["small", "time"], ["bytes", "words"]],
        width_ratios=(1.75, 1),
        height_ratios=(0.3, 1.2, 0.8, 1),
    )
    ends: dict[str, tuple[float, str]] = {}
    for need, axis, style in (("curves", axes["delay"], "-"), ("curves-ten", axes["small"], "--")):
        for name in FADING:
            [record] = runs[need].of(LINES[name]).recorded()
            series = record.series[HOP]
            # queue_delay_ms is over time, and 0 while the queue is empty.
            axis.step(
                series["time_s"],
                np.maximum(series["queue_delay_ms"], EMPTY_MS),
                where="post",
                color=COLOURS[name],
                linewidth=0.9,
            )
            total = np.cumsum(series["delivered_bytes"]) / 1e6
            axes["bytes"].plot(series["time_s"], total, style, color=COLOURS[name], linewidth=1.6)
            if need == "curves":
                ends[name] = (float(total[-1]), COLOURS[name])
                values, share = charts.shares(np.maximum(series["queue_delay_ms"], EMPTY_MS))
                charts.cdf(axes["time"], (values, share), COLOURS[name], name)
        charts.time_axis(axis, "y", EMPTY_MS, 20_000)
        axis.set_xlim(0, 300)
        axis.tick_params(labelbottom=False)
    charts.rates(axes["rate"], record, HOP)
    axes["rate"].set_xlim(0, 300)
    axes["rate"].tick_params(labelbottom=False)
    axes["delay"].set_ylabel("delay, buffer of 830 packets")
    axes["small"].set_ylabel("10 packets")
    axes["bytes"].set(xlim=(0, 300), ylim=(0, 1750), xlabel="time, s", ylabel="carried, MB")
    charts.end_labels(
        axes["bytes"], list(ends), [end for end, _ in ends.values()], [paint for _, paint in ends.values()], gap=0.09
    )
    charts.note(axes["bytes"], "dashed: 10 packets, all three", x=0.55, y=0.12)
    _quantiles(axes["time"], axes["words"], runs)


def _quantiles(axis: Axes, words: Axes, runs: Needs) -> None:
    """The paper's quantiles, and ours over ten seeds."""
    charts.time_axis(axis, "x", EMPTY_MS, 20_000)
    axis.set(xlabel="delay (logarithmic)", ylabel="share of the time, buffer of 830 packets")
    rows: list[list[str]] = []
    for share, paper in QUANTILES.items():
        address = f"queue_delay_ms.p{100 * share:.0f}"
        found = charts.mean(runs["fading"].of(LINES["CoDel"]).values(address))
        axis.plot(paper, share, "x", color=plot.INK, markersize=7, markeredgewidth=1.8)
        axis.plot(found.value, share, "o", color=COLOURS["CoDel"], markersize=6)
        own = charts.mean(runs["fading-ns2"].values(address))
        digits = 1 if paper < 10 else 0
        rows.append([f"p{100 * share:.0f}, ms", f"{paper:g}", charts.number(found, digits), charts.number(own, digits)])
    axis.plot([], [], "x", color=plot.INK, label="CoDel, the paper")
    axis.plot([], [], "o", color=COLOURS["CoDel"], label="CoDel, ten seeds")
    axis.legend(loc="upper left", frameon=False, fontsize=8.5)
    carried = {name: runs["fading"].of(LINES[name]).values("delivered_bytes") / 1e6 for name in ("tail drop", "CoDel")}
    rows.append(["MB", "", charts.number(charts.mean(carried["CoDel"]), 0), ""])
    rows.append(["tail drop, MB", "at most 1637.5", charts.number(charts.mean(carried["tail drop"]), 0), ""])
    charts.table(words, ["CoDel", "paper", "Linux's", "ns-2's"], rows, size=8)


# ---- the consumer's edge ----

PAPER = {
    "512kbit": {
        "dropped, %": {"down": (8, 8), "up": (1.5, 5.8)},
        "median, ms": {"down": (18, 73), "up": (9, 37)},
        "MB": {"down": (17, 18), "up": (13, 14)},
        "fairness": {"down": (0.87, 0.90), "up": (0.90, 0.90)},
    },
    "1.5mbit": {
        "dropped, %": {"down": (3.5, 4.7), "up": (1.4, 2.5)},
        "median, ms": {"down": (8, 49), "up": (0, 0)},
        "MB": {"down": (37, 40), "up": (22, 21)},
        "fairness": {"down": (0.8, 1.0), "up": (0.6, 0.7)},
    },
}
"""CoDel's and tail drop's, as printed."""
Measure = Callable[[Runs, str], Floats]
RATES = {"512kbit": "512 kbit/s", "1.5mbit": "1.5 Mbit/s"}


def edge(runs: Needs, figure: Figure) -> None:
    """The paper's numbers and ours."""
    _edge(figure, lambda rate, measure: QUANTITIES._edge(runs, rate, measure))


def edge_near(runs: Needs, figure: Figure) -> None:
    """The paper's numbers, and ours with the settings that come nearest to them."""

    def found(rate: str, measure: Measure) -> Mapping[tuple[str, str], Floats]:
        name, other, _ = QUANTITIES.FITTED[rate]
        return QUANTITIES._edge(runs, other, measure, QUANTITIES.TWENTY, name)

    _edge(figure, found)


def _edge(figure: Figure, measured: Callable[[str, Measure], Mapping[tuple[str, str], Floats]]) -> None:
    axis = figure.subplots()
    functions = {
        "dropped, %": (QUANTITIES._dropped, 2),
        "median, ms": (QUANTITIES._median, 1),
        "MB": (QUANTITIES._megabytes, 1),
        "fairness": (QUANTITIES._fairness, 2),
    }
    rows, paints = [], []
    for rate, measures in PAPER.items():
        found = {name: measured(rate, function) for name, (function, _) in functions.items()}
        for way in ("down", "up"):
            for place, aqm in enumerate(("CoDel", "tail drop")):
                row = [f"{RATES[rate]} {way}, {aqm}"]
                for name, (_, digits) in functions.items():
                    row += [
                        f"{measures[name][way][place]:g}",
                        charts.number(charts.mean(found[name][way, aqm]), digits),
                    ]
                rows.append(row)
                paints.append([plot.ink(COLOURS[aqm]), *[plot.QUIET, None] * len(functions)])
    heads = [""] + [head for name in functions for head in (f"{name}:\npaper", "here")]
    charts.table(axis, heads, rows, paints)


# ---- what has no figure in the paper ----

LOADS = {"1 transfer": ("1", "0"), "5": ("5", "0"), "20": ("20", "0"), "5 and web": ("5", "1")}


def _load(found: Runs, load: tuple[str, str], *words: str, address: str) -> Floats:
    return found.of(f"ftp.count={load[0]}", f"web.count={load[1]}", *words).values(address)


def target(runs: Needs, figure: Figure) -> None:
    """Utilisation and delay by target."""
    axes = figure.subplots(1, 2)
    targets = {1: "target 1ms", 2: "target 2ms", 5: "664 variant", 10: "target 10ms", 20: "target 20ms"}
    lines = {ms: next(q for q in (one["hop.bottleneck.qdisc"] for one in runs["target"].sets) if word in q)
             for ms, word in targets.items()}  # fmt: skip
    paints = charts.shades(COLOURS["CoDel"], len(LOADS))
    for axis, address, scale in ((axes[0], "utilisation", 100), (axes[1], "sojourn_ms.p50", 1)):
        ends = []
        for load, paint in zip(LOADS.values(), paints, strict=True):
            rows = [scale * _load(runs["target"], load, f"qdisc={line}", address=address) for line in lines.values()]
            ends.append(charts.band(axis, list(lines), np.stack(rows), paint, marker="o")[-1])
        axis.set_xscale("log")
        axis.set_xticks(list(lines), [f"{ms} ms" for ms in lines])
        axis.minorticks_off()
        axis.set_xlabel("CoDel's target")
        axis.set_ylim(axis.get_ylim())
        charts.end_labels(axis, list(LOADS), ends, paints)
    axes[0].set_ylabel("utilisation, %")
    axes[1].set_ylabel("median delay, ms")


def web_only(runs: Needs, figure: Figure) -> None:
    """Drops by utilisation."""
    axis = figure.subplots()
    rates = {"128kbit": "128 kbit/s", "256kbit": "256 kbit/s", "512kbit": "512 kbit/s", "1.5mbit": "1.5 Mbit/s"}
    for (rate, name), paint in zip(rates.items(), charts.shades(COLOURS["CoDel"], 4), strict=True):
        chosen = runs["web-only"].of(f"bottleneck.rate={rate}")
        drops, busy = chosen.grid("drops"), chosen.grid("utilisation")
        share = 100 * drops / (drops + chosen.grid("delivered_packets"))
        charts.band(axis, 100 * busy.mean(axis=1), share, paint, name, marker="o")
    axis.axvline(60, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axis.axhline(10, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    charts.note(axis, "dashed: 60 % and 10 %, the paper's", x=0.02, y=0.66)
    axis.set(xlabel="utilisation, %", ylabel="dropped, %", xlim=(0, 102), ylim=(0, None))
    axis.legend(loc="upper left", frameon=False, title="CoDel, ever more connections", alignment="left")


def buffers(runs: Needs, figure: Figure) -> None:
    """Three buffers."""
    axes = figure.subplots(1, 3)
    sizes = {"1 BDP": 83, "8": 664, "64": 5312}
    paints = charts.shades(COLOURS["CoDel"], 3)
    measures = (("utilisation", 100, "utilisation, %"), ("sojourn_ms.p50", 1, "median delay, ms"),
                ("sojourn_ms.p95", 1, "95th percentile of the delay, ms"))  # fmt: skip
    for axis, (address, scale, name) in zip(axes, measures, strict=True):
        values = {
            size: np.stack([
                scale * _load(runs["buffers"], load, f"codel limit {limit} ", address=address)
                for load in LOADS.values()
            ])
            for size, limit in sizes.items()
        }  # fmt: skip
        charts.bars(axis, list(LOADS), values, paints)
        axis.set_ylabel(name)
        axis.tick_params(axis="x", labelsize=8)
    axes[0].set_ylim(0, 115)
    charts.legend(axes[0], dict(zip(sizes, paints, strict=True)), loc="upper left", ncols=3)


def reno(runs: Needs, figure: Figure) -> None:
    """CoDel with both."""
    axes = figure.subplots(1, 2)
    rates, rtts = {"3 Mbit/s": "3mbit", "10 Mbit/s": "10mbit", "45 Mbit/s": "45mbit"}, ("30ms", "100ms", "200ms")
    paints = charts.shades(COLOURS["CoDel"], 2)
    for axis, address, scale, name in (
        (axes[0], "utilisation", 100, "utilisation, %"),
        (axes[1], "sojourn_ms.p50", 1, "median delay of a run, ms"),
    ):
        values = {
            cc: [
                scale * np.concatenate([_links(found, "codel ", f"rate={rate}", f"ftp.rtt={rtt}", address=address)
                                        for rtt in rtts])
                for rate in rates.values()
            ]
            for cc, found in (("CUBIC", runs["ftp"]), ("NewReno", runs["reno"]))
        }  # fmt: skip
        charts.boxes(axis, list(rates), values, paints)
        axis.set_ylabel(name)
    charts.legend(axes[0], {"CUBIC": paints[0], "NewReno": paints[1]}, loc="lower left")


def blue(runs: Needs, figure: Figure) -> None:
    """By rate."""
    axes = figure.subplots(1, 2)
    rates = {"3 Mbit/s": "3mbit", "10 Mbit/s": "10mbit", "45 Mbit/s": "45mbit"}
    names = ("BLUE", "CoDel", "RED", "tail drop")
    for axis, address, scale, label in (
        (axes[0], "utilisation", 100, "utilisation, %"),
        (axes[1], "sojourn_ms.p50", 1, "median delay (logarithmic)"),
    ):
        values = {
            name: np.stack(
                [scale * runs["blue"].of(LINES[name], f"rate={rate}").values(address) for rate in rates.values()]
            )
            for name in names
        }
        charts.bars(axis, list(rates), values, [COLOURS[name] for name in names])
        axis.set_ylabel(label)
    charts.time_axis(axes[1], "y", 0.1, 2000)
    axes[0].set_ylim(0, 118)
    charts.legend(axes[0], {name: COLOURS[name] for name in names}, loc="upper left", ncols=4)


def square(runs: Needs, figure: Figure) -> None:
    """Two periods."""
    axes = figure.subplots(1, 2)
    periods = {
        f"{text[:-1]} s": json.dumps({"square": ["100mbit", "10mbit"], "period": text}) for text in ("10s", "1s")
    }
    for axis, address, label in (
        (axes[0], "goodput_mbit", "goodput, Mbit/s"),
        (axes[1], "queue_delay_ms.p95", "95th percentile of the delay over time (logarithmic)"),
    ):
        values = {
            name: np.stack(
                [runs["square"].of(LINES[name], f"rate={rate}").values(address) for rate in periods.values()]
            )
            for name in FADING
        }
        charts.bars(axis, [f"period {period}" for period in periods], values, [COLOURS[name] for name in FADING])
        axis.set_ylabel(label)
    axes[0].axhline(55, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    charts.note(axes[0], "dashed: the link's mean rate", x=0.02, y=0.97)
    axes[0].set_ylim(0, 62)
    charts.time_axis(axes[1], "y", 1, 3000)
    charts.legend(
        axes[0], {name: COLOURS[name] for name in FADING}, loc="upper right", ncols=3, bbox_to_anchor=(1, 0.9)
    )


def reverse(runs: Needs, figure: Figure) -> None:
    """By what goes back."""
    axes = figure.subplots(1, 2)
    back = (0, 1, 5, 20)
    paints = charts.shades(COLOURS["CoDel"], 3)
    for axis, address, scale, label in (
        (axes[0], "utilisation", 100, "utilisation, %"),
        (axes[1], "sojourn_ms.p50", 1, "median delay, ms"),
    ):
        ends = []
        for load, paint in zip((1, 5, 20), paints, strict=True):
            rows = [
                scale * runs["reverse"].of(f"ftp.count={load}", f"back.count={count}").values(address) for count in back
            ]
            ends.append(charts.band(axis, range(len(back)), np.stack(rows), paint, marker="o")[-1])
        charts.names(axis, [str(count) for count in back])
        axis.set(xlabel="transfers the other way", ylabel=label)
        axis.set_ylim(axis.get_ylim())
        charts.end_labels(axis, ["1 transfer", "5", "20"], ends, paints)


def diffserv(runs: Needs, figure: Figure) -> None:
    """The call's delay."""
    axis = figure.subplots()
    kinds = {"no priority": "cake besteffort", "priority by code point": "cake diffserv4"}
    rates = {"router faster than the modem\n(100 Mbit/s)": "100mbit", "held below it\n(1.9 Mbit/s)": "1.9mbit"}
    delay = "flows.call.delay_ms.p95"
    values = {
        name: np.stack([
            runs["diffserv"].of(word, f"router.rate={rate}").values(delay) for rate in rates.values()
        ])
        for name, word in kinds.items()
    }  # fmt: skip
    paints = charts.shades(charts.colour("cake"), 2)[::-1]
    charts.bars(axis, list(rates), values, paints)
    charts.time_axis(axis, "y", 10, 3000)
    axis.set_ylabel("the call's delay, 95th percentile (logarithmic)")
    charts.legend(axis, dict(zip(kinds, paints, strict=True)), loc="upper right")


WAYS = {
    "nothing is done": ("router.rate=100mbit", "modem.qdisc=pfifo limit 256"),
    "(1) the router is slower": ("router.rate=1.9mbit",),
    "(2) the modem manages": ("modem.qdisc=fq_codel limit 256",),
    "(3) the modem stops the router": ("modem.qdisc=pfifo limit 8",),
}
MODEM = {
    "stays at 2": ("2mbit", 2.0),
    "falls to 1": ('[["0s", "2mbit"], ["30s", "1mbit"]]', 1.0),
    "doubles to 4": ('[["0s", "2mbit"], ["30s", "4mbit"]]', 4.0),
}
"""The modem's rate, and what it is in the measuring window, Mbit/s."""


def right_queue(runs: Needs, figure: Figure) -> None:
    """Three ways."""
    axes = figure.subplots(1, 2)
    paints = [COLOURS["tail drop"], *charts.shades(charts.colour("fq_codel"), 3)]
    groups = [f"the modem's rate\n{name} Mbit/s" for name in MODEM]

    def found(words: tuple[str, ...], address: str) -> list[Floats]:
        return [runs["right-queue"].of(*words, f"modem.rate={rate}").values(address) for rate, _ in MODEM.values()]

    pings = {name: np.stack(found(words, "flows.ping.rtt_ms.p50")) for name, words in WAYS.items()}
    charts.bars(axes[0], groups, pings, paints)
    charts.time_axis(axes[0], "y", 10, 10_000)
    axes[0].set_ylabel("median RTT of pings (logarithmic)")
    goodput = {name: np.stack(found(words, "goodput_mbit")) for name, words in WAYS.items()}
    charts.bars(axes[1], groups, goodput, paints)
    axes[1].set_ylabel("goodput, Mbit/s")
    charts.legend(axes[1], dict(zip(WAYS, paints, strict=True)), loc="upper left")
    for axis in axes:
        axis.tick_params(axis="x", labelsize=8)


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
    Drawing("figure-5", "Delay and utilisation by the link's rate", "figure 5", ("N7", "N8"), ("ftp", "mix"), figure_5),
    Drawing(
        "figure-6",
        "Slow links: delay and utilisation by packet size",
        "figure 6, with RED, which the paper left out",
        ("N9",),
        ("packet-size",),
        figure_6,
    ),
    Drawing(
        "figure-7",
        "A fading link: delay and bytes over time",
        "figure 7; curves of seed 1, quantiles and bytes over ten",
        ("N11", "N12", "N13", "N14", "N15", "N16"),
        ("curves", "curves-ten", "fading", "fading-ns2"),
        figure_7,
    ),
    Drawing(
        "figure-8",
        "Delay and utilisation by RTT",
        "figure 8, with tail drop, which its text names",
        ("N6", "N17"),
        ("ftp", "mix"),
        figure_8,
    ),
    Drawing("figure-9", "Whose packets are dropped: fairness by RTT", "figure 9", ("N18",), ("ftp", "mix"), figure_9),
    Drawing(
        "edge",
        "The consumer's edge, the paper's numbers beside ours",
        "the table; tail drop's buffer is one BDP of 100 ms",
        ("N19", "N20", "N21", "N22", "N23", "N24", "N25", "N26"),
        ("edge",),
        edge,
    ),
    Drawing(
        "edge-near",
        "The consumer's edge with large packets and a slower link",
        "the table; 1500 bytes a packet, 20 packets before tail drop, and 1.2 Mbit/s for the rows of 1.5",
        ("N19", "N20", "N21", "N22", "N23", "N24", "N25", "N26"),
        ("edge-packets", "edge-rate"),
        edge_near,
    ),
    Drawing(
        "target",
        "CoDel's target: below 5 ms the link idles, above it little is gained",
        "Setting the target",
        ("N5",),
        ("target",),
        target,
    ),
    Drawing(
        "web-only",
        "Nothing but web traffic: a busy link drops a lot",
        "Performance Across a Range of Static Link Rates",
        ("N10",),
        ("web-only",),
        web_only,
    ),
    Drawing(
        "buffers", "CoDel does not need to know its buffer", "Simulator Configuration", ("N27",), ("buffers",), buffers
    ),
    Drawing("reno", "NewReno and CUBIC through CoDel", "Simulator Configuration", ("N28",), ("ftp", "reno"), reno),
    Drawing("blue", "BLUE with its defaults", "Simulator Configuration", ("N29",), ("blue",), blue),
    Drawing(
        "square",
        "A rate that changes tenfold, again and again",
        "Performance on Dynamic Links, an open question",
        ("N31",),
        ("square",),
        square,
    ),
    Drawing("reverse", "Traffic in the other direction", "Consumer Edge", ("N32",), ("reverse",), reverse),
    Drawing(
        "diffserv",
        "Priority at the router, a deep queue in the modem",
        "Manage the Right Queue",
        ("N33",),
        ("diffserv",),
        diffserv,
    ),
    Drawing(
        "right-queue",
        "Three ways to manage the right queue",
        "Manage the Right Queue",
        ("N34", "N35", "N36"),
        ("right-queue",),
        right_queue,
    ),
)
