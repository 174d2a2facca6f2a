"""The figures and the table of the CCAQ paper, and of its claims that have none.

Where SOJOURN_BESIDE names a JSON file of curves, `{"fig4a_…": [[s, Mbit/s], …], "fig4b_…": [[s, ms], …]}`, they are
drawn in grey into figures 4 to 9: the paper's, say, read out of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sojourn import charts, claims, plot
from sojourn.claims import Floats, Runs
from sojourn.figures import Drawing
from sojourn.means import Mean

Needs = Mapping[str, Runs]
Q = claims.module(Path(__file__).with_name(claims.QUANTITIES))
"""The quantities: a queue over time, and what counts as a false cut."""
GREY = "#9a9a9a"


# ---- figures 4 to 9: one flow over time ----


def _beside(figure: str) -> list[Floats]:
    """The paper's curves of a figure, which are drawn with ours."""
    path = os.environ.get("SOJOURN_BESIDE")
    if not path:
        return []
    curves = json.loads(Path(path).read_text(encoding="utf-8"))
    return [np.array(points, float) for name, points in curves.items() if name.startswith(f"fig{figure}_")]


def _seconds(one: Any) -> tuple[Floats, Floats]:
    """Throughput in bins of a second, as the paper has it: their edges, and Mbit/s of IP in each."""
    ip = one.columns["delivered_bytes"] - Q.ETHERNET * one.columns["delivered_packets"]
    width = one.time_s[1] - one.time_s[0]
    edges = np.arange(0, round(one.time_s[-1] + width) + 1.0)
    megabits = np.interp(edges, np.append(one.time_s, one.time_s[-1] + width), np.append(0, np.cumsum(ip))) * 8 / 1e6
    return edges, np.diff(megabits)


def _over_time(
    figure: Figure, chosen: Runs, qdisc: str, number: str, most_ms: float, faster: tuple[float, float] | None = None
) -> None:
    """Throughput above, the data packets' RTT below, both of the first seed; `faster`: since when by how many ms."""
    one = next(Q.traces(chosen))
    paint = charts.colour(qdisc)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.35))
    edges, mbit = _seconds(one)
    for axis, part in ((above, "a"), (below, "b")):
        for curve in _beside(number + part):
            axis.plot(curve[:, 0], curve[:, 1], color=GREY, linewidth=1, alpha=0.9, zorder=1, label="the paper's")
    above.stairs(mbit, edges, baseline=None, color=paint, linewidth=1.7, label="sojourn, seed 1")
    link = one.link_mbit()
    above.plot(one.time_s, link, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)), label="the link's rate")
    above.set_ylim(0, 1.12 * link.max())
    above.set_ylabel("throughput, Mbit/s")
    shorter = np.where(one.time_s >= faster[0], faster[1], 0.0) if faster else np.zeros(len(one.time_s))
    least, middle, most = (one.rtt_ms(which) - shorter for which in ("min", "mean", "max"))
    below.fill_between(one.time_s, least, most, color=paint, alpha=0.25, linewidth=0)
    below.plot(one.time_s, middle, color=paint, linewidth=1.3, label="sojourn, seed 1\n(band: least to greatest)")
    base = one.base_ms - shorter
    below.plot(one.time_s, base, color=plot.QUIET, linewidth=0.9, linestyle=(0, (4, 3)), label="base RTT")
    below.set_ylim(0 if one.base_ms < 50 else 0.95 * one.base_ms, most_ms)
    below.set_ylabel("RTT, ms")
    below.set_xlabel("time, s")
    below.set_xlim(0, edges[-1])
    for axis in (above, below):
        axis.legend(loc="upper left", bbox_to_anchor=(1.005, 1), frameon=False, fontsize=9, labelcolor=plot.INK)


def _drawn(run: str, qdisc: str, number: str, most_ms: float, faster: tuple[float, float] | None = None) -> Any:
    def draw(runs: Needs, figure: Figure) -> None:
        _over_time(figure, runs[run].of(qdisc) if run != "bbr" else runs[run], qdisc, number, most_ms, faster)

    return draw


# ---- the table ----

PAPER = {
    ("cubic", Q.FQ): ("96.2", "54"),
    ("cubic", Q.FQ_CODEL): ("92.6", "52"),
    ("cubic", Q.CCAQ): ("98.5", "66.5"),
    ("cubic", Q.CAKE): ("–", "–"),
    ("reno", Q.FQ): ("84.1", "52.7"),
    ("reno", Q.FQ_CODEL): ("81.1", "51.5"),
    ("reno", Q.CCAQ): ("97.9", "98.2"),
    ("reno", Q.CAKE): ("–", "–"),
}


def _number(found: Mean) -> str:
    """With its interval, if that is seen."""
    return charts.number(found) if (found.half_width or 0) >= 0.05 else f"{found.value:.1f}"


def table(runs: Needs, figure: Figure) -> None:
    """Utilisation and mean RTT, the paper's and ours."""
    rows, paints = [], []
    for (cc, qdisc), (busy, rtt) in PAPER.items():
        chosen = runs[cc].of(qdisc)
        found = [_number(charts.mean(values)) for values in (Q._busy(chosen), Q._rtt(chosen))]
        rows.append([f"{'CUBIC' if cc == 'cubic' else 'Reno'}, {qdisc.strip()}", busy, found[0], rtt, found[1]])
        paints.append([plot.ink(charts.colour(qdisc.strip())), plot.QUIET, None, plot.QUIET, None])
    heads = ["", "utilisation, %\nthe paper", "sojourn", "mean RTT, ms\nthe paper", "sojourn"]
    charts.table(figure.subplots(), heads, rows, paints)


# ---- parameters ----

LINKS = {"20mbit": "20 Mbit/s, 10 ms", "50mbit": "50 Mbit/s, 10 ms", "100mbit": "100 Mbit/s, 50 ms"}
SENDERS = {"cubic": "CUBIC", "reno": "Reno", "bbr": "BBRv1", "bbr3": "BBRv3"}


def multiplier(runs: Needs, figure: Figure) -> None:
    """The least buffer at which a packet was lost, by seed."""
    axes = figure.subplots(1, 2, sharey=True)
    for axis, half in zip(axes, (True, False), strict=True):
        for place, link in enumerate(LINKS):
            for shift, cc in enumerate(SENDERS):
                chosen = runs["multiplier-bbr3" if cc == "bbr3" else "multiplier"].of(f"cc={cc}", f"rate={link}")
                least = np.array([Q._least_lossy(one) for one in Q.traces(Q._of_multiplier(chosen, half))])
                at = place * 5 + shift
                seen = least[np.isfinite(least)]
                spread = np.linspace(-0.25, 0.25, len(least))[np.isfinite(least)]
                axis.plot(at + spread, seen, "o", markersize=3.5, color=_sender(cc), alpha=0.8, markeredgewidth=0)
                if not len(seen):
                    axis.text(
                        at, 1.15, "no loss", rotation=90, ha="center", va="bottom", fontsize=7.5, color=plot.QUIET
                    )
            nothing = Q.virtually_nothing(float(link.removesuffix("mbit")), 50 if link == "100mbit" else 10)
            axis.fill_between(
                [place * 5 - 0.6, place * 5 + 3.6], 0.7, nothing, color="#d62728", alpha=0.09, linewidth=0
            )
            axis.text(place * 5 + 1.5, 400, LINKS[link], ha="center", fontsize=8.5, color=plot.QUIET)
        axis.set(yscale="log", ylim=(0.7, 600))
        axis.set_yticks([1, 10, 100], ["1", "10", "100"])
        axis.set_xticks([place * 5 + shift for place in range(3) for shift in range(4)], list(SENDERS.values()) * 3)
        axis.tick_params(axis="x", rotation=90, labelsize=8.5, length=0)
        axis.grid(visible=False, axis="x")
        axis.set_title(f"multiplier {0.5 if half else 1.25}", fontsize=10, color=plot.INK)
    axes[0].set_ylabel("least buffer at which a packet was lost, packets")
    axes[0].text(6.5, 0.8, "virtually nothing", ha="center", va="bottom", fontsize=8.5, color=plot.QUIET)


def _sender(cc: str) -> str:
    return {"cubic": "#1f77b4", "reno": "#8c564b", "bbr": "#2a9d5c", "bbr3": "#9467bd"}[cc]


GUARD_PAINTS = ("#1f77b4", "#2a9d5c", "#76b947", "#b5a642", "#d62728")


def longest_guard(runs: Needs, figure: Figure) -> None:
    """The queue's delay after the rate has fallen, the mean over seeds."""
    axes = figure.subplots(1, 2, sharey=True)
    for axis, cc in zip(axes, ("vegas", "cubic"), strict=True):
        for (words, end), paint in zip(Q.GUARDS.items(), GUARD_PAINTS, strict=True):
            chosen = Q.ending(runs["longest-guard"].of(f"cc={cc}"), end)
            curves = [one.within(25, 80) for one in Q.traces(chosen)]
            delay = np.array([np.nan_to_num(one.columns["sojourn_mean_ms"]) for one in curves]).mean(axis=0)
            wide = {"linewidth": 3.5, "alpha": 0.35} if words == "as long as it likes" else {"linewidth": 1.4}
            axis.plot(curves[0].time_s - Q.FALL_S, delay, color=paint, label=words, **wide)
        axis.set_title({"vegas": "Vegas", "cubic": "CUBIC"}[cc], fontsize=10, color=plot.INK)
        axis.set_xlabel("time since the rate fell from 100 to 5 Mbit/s, s")
        axis.set_xlim(-5, 50)
    axes[0].set_ylim(0)
    axes[0].set_ylabel("queue's delay, mean over seeds, ms")
    axes[1].legend(title="at most", frameon=False, fontsize=9, labelcolor=plot.INK)
    charts.note(axes[0], "five curves, one upon the other", x=0.4, y=0.6)


CAP_PAINTS = ("#1f77b4", "#e0a030", "#d62728")


def most_increase(runs: Needs, figure: Figure) -> None:
    """Mean delays by cap."""
    told = Q.c15(runs)
    loads = ("steady", "a rate that rises tenfold", "a silent application")
    values = {
        words: np.array([told[f"{load}, {words}: mean delay from 30 s on, ms"] for load in loads]) for words in Q.CAPS
    }
    axis = figure.subplots()
    charts.bars(
        axis,
        ["a steady link", "its rate rises tenfold", "the application is silent\nfor half of the time"],
        values,
        CAP_PAINTS,
    )
    axis.set_yscale("log")
    axis.set_ylim(1, 1000)
    axis.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    axis.set_ylabel("mean delay from 30 s on, ms")
    axis.legend(title="growth at once", loc="upper left", frameon=False, fontsize=9, labelcolor=plot.INK)


FIGURES = (
    Drawing(
        "figure-4",
        "fq keeps a standing queue, and a longer one when the rate halves",
        "figure 4: CUBIC, 20 then 10 Mbit/s, 10 ms",
        ("C1",),
        ("halving",),
        _drawn("halving", Q.FQ, "4", 150),
    ),
    Drawing(
        "figure-5",
        "CCAQ finds a short queue, also when the rate halves",
        "figure 5: CUBIC, 20 then 10 Mbit/s, 10 ms",
        ("C2",),
        ("halving",),
        _drawn("halving", Q.CCAQ, "5", 90),
    ),
    Drawing(
        "figure-6",
        "CCAQ's queue grows with the rate",
        "figure 6: CUBIC, 20 then 40 Mbit/s, 10 ms",
        ("C3",),
        ("doubling",),
        _drawn("doubling", Q.CCAQ, "6", 90),
    ),
    Drawing(
        "figure-7",
        "fq_codel keeps the delay low and loses throughput",
        "figure 7: CUBIC, 100 Mbit/s, 100 ms",
        ("C4",),
        ("far",),
        _drawn("far", Q.FQ_CODEL, "7", 160),
    ),
    Drawing(
        "figure-8",
        "CCAQ gives the throughput, and takes a buffer for it",
        "figure 8: CUBIC, 100 Mbit/s, 100 ms",
        ("C5",),
        ("far",),
        _drawn("far", Q.CCAQ, "8", 210),
    ),
    Drawing(
        "figure-9",
        "BBR over CCAQ: at once at full throughput, no standing queue",
        "figure 9: BBRv1, 50 Mbit/s, 10 then 5 ms",
        ("C11",),
        ("bbr",),
        _drawn("bbr", Q.CCAQ, "9", 90, (30.0, 5.0)),
    ),
    Drawing(
        "table",
        "Utilisation and mean RTT of one flow over 100 Mbit/s and 50 ms for 240 s",
        "the table of the final version, and cake; intervals below 0.05 are left out",
        ("C6 fq", "C6 fq_codel", "C6 ccaq", "C7 fq", "C7 fq_codel", "C7 ccaq", "C8", "C10"),
        ("cubic", "reno"),
        table,
    ),
    Drawing(
        "multiplier",
        "A multiplier of 0.5 is too small for Reno's slow start and for BBRv1",
        "section 2.1; a dot is a seed, 20 for each",
        ("C13", "C16"),
        ("multiplier", "multiplier-bbr3"),
        multiplier,
    ),
    Drawing(
        "longest-guard",
        "A bound on the guard interval helps CUBIC, not Vegas",
        "section 2.3",
        ("C14",),
        ("longest-guard",),
        longest_guard,
    ),
    Drawing(
        "most-increase",
        "The cap on growth matters over a steady link too",
        "section 2.2",
        ("C15",),
        ("most-increase", "silences"),
        most_increase,
    ),
)
