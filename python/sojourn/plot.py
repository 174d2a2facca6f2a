"""The pictures. One colour a discipline, everywhere; every figure says its scenario, seeds, world and version."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator, PercentFormatter
from numpy.typing import NDArray

from sojourn import queues
from sojourn.sweep import Combination, qdisc_of

COLOURS = {
    "pfifo": "#6e6e6e",
    "bfifo": "#8c8c8c",
    "pfifo_head_drop": "#a08060",
    "noqueue": "#b0b0b0",
    "red": "#d1495b",
    "blue": "#3d5a80",
    "sfq": "#c77d0a",
    "sfb": "#5b7db1",
    "choke": "#a23b5a",
    "prio": "#7d7f3a",
    "tbf": "#9a9a9a",
    "htb": "#7a7a86",
    "codel": "#1f6fb4",
    "fq_codel": "#13866f",
    "fq": "#b5548f",
    "pie": "#d98324",
    "fq_pie": "#a65e2e",
    "cake": "#7a5230",
    "dualpi2": "#4f772d",
    "ccaq": "#6a3fa0",
}
OTHER = "#333333"
INK, QUIET, GRID, PALE = "#1b1f24", "#667079", "#e3e6e9", "#edf0f2"
WIDTH = 11.0
MOST_ROWS = 16
MOST_RATES = 13
"""Steps of a link's rate that can be named in the picture."""
LEAST_MS = 0.1
"""What the logarithmic delay axis shows an empty queue as."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": "#c3c9ce",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 9,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "path.simplify": True,
}


@dataclass(frozen=True)
class Picture:
    """A figure as bytes, with the words that go with it."""

    name: str
    title: str
    caption: str
    png: bytes


def kind_of(qdisc: str) -> str:
    """The discipline's name in a tc line."""
    return qdisc.split()[0] if qdisc.split() else ""


def colours(combinations: Sequence[Combination]) -> list[str]:
    """Each combination's colour: its discipline's, in shades where several share it."""
    kinds = [kind_of(combination.qdisc) for combination in combinations]
    seen: dict[str, int] = {}
    result = []
    for kind in kinds:
        place, of = seen.get(kind, 0), kinds.count(kind)
        seen[kind] = place + 1
        result.append(shade(COLOURS.get(kind, OTHER), place / (of - 1) if of > 1 else 0.0))
    return result


def shade(colour: str, step: float) -> str:
    """From the colour itself (0) to a light version of it (1)."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    return to_hex(colorsys.hls_to_rgb(hue, lightness + (0.68 - lightness) * step, saturation))


def ink(colour: str) -> str:
    """A colour dark enough for words on white."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    return to_hex(colorsys.hls_to_rgb(hue, min(lightness, 0.42), saturation))


def time_text(ms: float | None) -> str:
    """A time in the unit a person would choose."""
    if ms is None:
        return "–"
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.2g} ms" if ms < 10 else f"{ms:.0f} ms"


def rate_text(mbit: float) -> str:
    """A rate in the unit a person would choose."""
    if mbit >= 1000:
        return f"{mbit / 1000:g} Gbit/s"
    return f"{mbit:g} Mbit/s" if mbit >= 1 else f"{mbit * 1000:g} kbit/s"


def provenance(combinations: Sequence[Combination]) -> str:
    """One line: where the numbers come from."""
    first = combinations[0].first
    seeds = sorted({record.seed for combination in combinations for record in combination.runs})
    text = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]}–{seeds[-1]})"
    return f"{first.title}  ·  {text}  ·  world {first.world}  ·  sojourn {first.versions.get('sojourn', '?')}"


def pictures(combinations: Sequence[Combination], hop: str) -> list[Picture]:
    """Every picture of a report, the most telling first."""
    shown = list(combinations[:MOST_ROWS])
    others = [name for name in queues.shown_in([one.result for each in shown for one in each.runs]) if name != hop]
    palette = colours(shown)
    with mpl.rc_context(STYLE):
        made: Iterable[Picture | None] = (
            _delay_over_time(shown, palette, hop),
            *(_delay_over_time(shown, palette, other) for other in others),
            _distributions(shown, palette, hop),
            _throughput(shown, palette, hop),
            _fairness(shown, palette),
        )
        return [picture for picture in made if picture is not None]


def _picture(figure: Figure, combinations: Sequence[Combination], name: str, title: str, caption: str) -> Picture:
    height = figure.get_figheight()
    figure.text(0.995, 0.06 / height, provenance(combinations), ha="right", va="bottom", fontsize=7.5, color=QUIET)
    return Picture(name, title, caption, png(figure))


def png(figure: Figure) -> bytes:
    """The figure as a file: the same bytes for the same picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": "sojourn"})
    return buffer.getvalue()


def headline(figure: Figure, title: str, subtitle: str) -> None:
    """Two lines at the top."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.12 / height, title, ha="left", va="top", fontsize=14, fontweight="bold")
    figure.text(0.012, 1 - 0.42 / height, subtitle, ha="left", va="top", fontsize=9.5, color=QUIET)


def _rows(
    count: int, row: float, top: float, bottom: float, strip: float, left: float, right: float, gap: float
) -> tuple[Figure, Axes | None, list[Axes]]:
    """A figure of `count` rows of `row` inches that share their time axis, with a strip above them if it has height."""
    height = top + strip + (gap if strip else 0) + count * (row + gap) + bottom
    figure = Figure(figsize=(WIDTH, height))

    def add(above: float, tall: float, share: Axes | None) -> Axes:
        box = (left / WIDTH, 1 - (above + tall) / height, (WIDTH - left - right) / WIDTH, tall / height)
        return figure.add_axes(box, sharex=share)

    first = add(top, strip, None) if strip else None
    above = top + (strip + gap if strip else 0)
    axes: list[Axes] = []
    for index in range(count):
        axes.append(add(above + index * (row + gap), row, first or (axes[0] if axes else None)))
    for axis in [*([first] if first else []), *axes[:-1]]:
        axis.tick_params(labelbottom=False, bottom=False)
    axes[-1].set_xlabel("time in the run, seconds")
    return figure, first, axes


def _series(combination: Combination, hop: str) -> dict[str, NDArray[Any]] | None:
    series = combination.first.series.get(hop)
    return dict(series) if series and len(series["time_s"]) else None


def _rates_differ(shown: Sequence[Combination], hop: str) -> bool:
    return any(one.first.rates[hop] != shown[0].first.rates[hop] for one in shown)


def _rate_changes(combination: Combination, hop: str) -> list[float]:
    """When the link's rate changes; none where it does so all the time."""
    steps = combination.first.rates[hop]
    return steps["time_s"][1:] if len(steps["mbit"]) <= MOST_RATES else []


def _own_rate(combination: Combination, hop: str) -> str:
    """The rate of a row's link in words."""
    rates = combination.first.rates[hop]["mbit"]
    least, most = (rate_text(float(f"{bound:.3g}")) for bound in (min(rates), max(rates)))
    return f"link {least}" if least == most else f"link {least} to {most}"


def _rate_strip(axis: Axes, shown: Sequence[Combination], hop: str, end: float) -> None:
    """The link's rate as a filled step line with its values written in; the first row's where rows differ."""
    rate_strip(
        axis, shown[0].first.rates[hop], end, "link rate (first row)" if _rates_differ(shown, hop) else "link rate"
    )


def rate_strip(axis: Axes, steps: Mapping[str, Sequence[float]], end: float, name: str = "link rate") -> None:
    """A link's rate from each `time_s` on, `mbit`, until the `end` in seconds."""
    axis.set_facecolor("white")
    axis.grid(visible=False)
    axis.spines[["left"]].set_visible(False)
    axis.text(1.012, 0.5, name, transform=axis.transAxes, va="center", fontsize=8.5, color=QUIET)
    time, rate = np.asarray([*steps["time_s"], end]), np.asarray([*steps["mbit"], steps["mbit"][-1]])
    axis.fill_between(time, rate, step="post", color="#dde2e6", linewidth=0)
    axis.step(time, rate, where="post", color="#7b8792", linewidth=1.1)
    top, low = float(rate.max()), float(max(rate.min(), rate.max() / 1e4))
    if top / low > 5:
        axis.set_yscale("log")
        axis.set_ylim(low / 3, top * 5)
    else:
        axis.set_ylim(0, top * 1.6)
    axis.yaxis.set_major_locator(NullLocator())
    axis.yaxis.set_minor_locator(NullLocator())
    if len(steps["mbit"]) > MOST_RATES:
        words = f"up to {rate_text(float(f'{top:.3g}'))}"
        axis.text(1.012, 0.18, words, transform=axis.transAxes, va="center", fontsize=8.5, color=QUIET)
        return
    for begin, until, value in zip(time[:-1], time[1:], rate[:-1], strict=True):
        axis.annotate(
            rate_text(float(value)),
            ((begin + until) / 2, value),
            (0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=INK,
        )


def _delay_axis(axis: Axes, least: float, most: float) -> None:
    axis.set_yscale("log")
    axis.set_ylim(least, most)
    decades = [10.0**power for power in range(-3, 7) if least * 0.99 <= 10.0**power <= most]
    axis.yaxis.set_major_locator(FixedLocator(decades))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: time_text(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _delay_over_time(shown: list[Combination], palette: list[str], hop: str) -> Picture | None:
    """Figure 7 of the CoDel paper: the sojourn over time, one row a discipline, the link's rate above."""
    series = [_series(combination, hop) for combination in shown]
    if not any(series):
        return None
    figure, strip, axes = _rows(len(shown), 1.12, 0.78, 0.58, 0.55, 0.72, 2.35, 0.16)
    present = [one for one in series if one is not None]
    highest = max(float(np.nanmax(one["sojourn_max_ms"], initial=1.0)) for one in present)
    assert strip is not None
    end = float(shown[0].first.about["duration_s"])
    _rate_strip(strip, shown, hop, end)
    for axis, combination, colour, one in zip(axes, shown, palette, series, strict=True):
        _delay_axis(axis, LEAST_MS, highest * 1.6)
        for change in _rate_changes(combination, hop):
            axis.axvline(change, color="#b9c1c8", linewidth=0.8, linestyle=(0, (2, 2)))
        if one is not None:
            low, high = (np.maximum(one[key], LEAST_MS) for key in ("sojourn_min_ms", "sojourn_max_ms"))
            axis.fill_between(one["time_s"], low, high, step="post", color=colour, alpha=0.28, linewidth=0)
            axis.step(
                one["time_s"], np.maximum(one["sojourn_mean_ms"], LEAST_MS), where="post", color=colour, linewidth=0.9
            )
        _row_words(axis, combination, colour, hop, _rates_differ(shown, hop))
    axes[-1].set_xlim(0, end)
    several = len(shown[0].runs) > 1
    headline(
        figure,
        "How long each packet waited in the queue" + (f" of {hop}" if _several_hops(shown[0]) else ""),
        "Sojourn time at each moment (line: mean, band: shortest to longest), on a logarithmic scale. Lower is better."
        + (f" Seed {shown[0].first.seed} is drawn." if several else ""),
    )
    caption = (
        f"Queue “{hop}”. Every row is the same traffic, and differs in what its name says. The line is the "
        "mean sojourn time of the packets that left in each short interval, the band reaches from the shortest to "
        "the longest; dashed lines mark where the link's rate changes. The numbers at the right are over all "
        "packets in the measuring window" + (", averaged over the seeds." if several else ".")
    )
    return _picture(figure, shown, f"sojourn-{hop}", "Sojourn time over time", caption)


def _several_hops(combination: Combination) -> bool:
    return len(combination.first.result["hops"]) > 2


def average(combination: Combination, hop: str, *path: str) -> float | None:
    """A number of the hop, averaged over the seeds that have it."""
    values = []
    for found in combination.hop(hop):
        value: Any = found
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            values.append(float(value))
    return sum(values) / len(values) if values else None


def _name_and_rest(combination: Combination, hop: str) -> tuple[str, str]:
    """A label's first line, large, and its second."""
    name, _, rest = combination.label.partition(" ")
    return (name, rest) if name in COLOURS else (_short(combination.label, 24), qdisc_of(combination.first, hop))


def _row_words(axis: Axes, combination: Combination, colour: str, hop: str, own_rate: bool) -> None:
    """The discipline's name and its numbers, to the right of its row."""
    name, rest = _name_and_rest(combination, hop)
    if own_rate:
        rest = f"{rest}, {_own_rate(combination, hop)}"
    axis.text(1.012, 0.97, name, transform=axis.transAxes, va="top", fontsize=11, fontweight="bold", color=ink(colour))
    axis.text(1.012, 0.755, rest[:38], transform=axis.transAxes, va="top", fontsize=7.5, color=QUIET)
    used = average(combination, hop, "utilisation")
    numbers = [
        ("median", time_text(average(combination, hop, "sojourn_ms", "p50"))),
        ("95 % below", time_text(average(combination, hop, "sojourn_ms", "p95"))),
        ("longest", time_text(average(combination, hop, "sojourn_ms", "max"))),
        ("link busy", "–" if used is None else f"{100 * used:.1f} %"),
    ]
    for line, (word, number) in enumerate(numbers):
        height = 0.555 - 0.155 * line
        axis.text(1.012, height, word, transform=axis.transAxes, va="top", fontsize=8.5, color=QUIET)
        axis.text(1.135, height, number, transform=axis.transAxes, va="top", fontsize=8.5, color=INK)


def _pooled(combination: Combination, hop: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The mean over seeds of the distribution functions."""
    found = [record.distribution[hop] for record in combination.runs if record.distribution.get(hop)]
    found = [one for one in found if one["ms"]]
    return mean_distribution(found) if found else None


def mean_distribution(found: Sequence[Mapping[str, Sequence[float]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of several distributions (`ms`, and the `share` at or below), the mean of the shares at every `ms`."""
    grid = np.unique(np.concatenate([np.asarray(one["ms"]) for one in found]))
    shares = [_step_at(np.asarray(one["ms"]), np.asarray(one["share"]), grid) for one in found]
    return grid, np.mean(shares, axis=0)


def _step_at(values: NDArray[Any], shares: NDArray[Any], grid: NDArray[Any]) -> NDArray[Any]:
    place = np.searchsorted(values, grid, side="right")
    return np.concatenate([[0.0], shares])[place]


def _distributions(shown: list[Combination], palette: list[str], hop: str) -> Picture | None:
    """The distribution of the sojourn, one line a discipline."""
    pooled = [_pooled(combination, hop) for combination in shown]
    if not any(one is not None for one in pooled):
        return None
    figure = Figure(figsize=(WIDTH, 4.9))
    axis = figure.add_axes((0.72 / WIDTH, 0.85 / 4.9, (WIDTH - 0.72 - 2.35) / WIDTH, (4.9 - 0.85 - 0.8) / 4.9))
    highest = LEAST_MS * 100
    for combination, colour, one in zip(shown, palette, pooled, strict=True):
        if one is None:
            continue
        grid, share = one
        highest = max(highest, float(grid[-1]))
        axis.step(
            np.maximum(np.concatenate([[LEAST_MS], grid, [1e9]]), LEAST_MS),
            np.concatenate([[share[grid <= LEAST_MS].max(initial=0.0)], share, [1.0]]),
            where="post",
            color=colour,
            linewidth=1.9,
            label=combination.label,
        )
    axis.set_xscale("log")
    axis.set_xlim(LEAST_MS, highest * 1.3)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: time_text(value)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0, 1.005)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axis.set_xlabel("sojourn time (logarithmic)")
    axis.set_ylabel("share of packets that waited no longer")
    axis.legend(
        loc="upper left", bbox_to_anchor=(1.005, 1.02), frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1.4
    )
    headline(figure, "How many packets waited how long", "Further left is better: more packets got through sooner.")
    return _picture(
        figure,
        shown,
        "distribution",
        "Distribution of the sojourn time",
        "Cumulative distribution over all delivered packets of the measuring window"
        + (", averaged over the seeds." if len(shown[0].runs) > 1 else ".")
        + " Read it at a height: where a line crosses 95 %, one packet in twenty waited longer.",
    )


def _throughput(shown: list[Combination], palette: list[str], hop: str) -> Picture | None:
    """What the link carried, as a share of what it could."""
    series = [_series(combination, hop) for combination in shown]
    present = [one for one in series if one is not None]
    if not present:
        return None
    figure, strip, axes = _rows(len(shown), 0.62, 0.78, 0.58, 0.5, 0.72, 2.35, 0.16)
    assert strip is not None
    end = float(shown[0].first.about["duration_s"])
    _rate_strip(strip, shown, hop, end)
    for axis, combination, colour, one in zip(axes, shown, palette, series, strict=True):
        axis.set_ylim(0, 1.08)
        axis.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        for change in _rate_changes(combination, hop):
            axis.axvline(change, color="#b9c1c8", linewidth=0.8, linestyle=(0, (2, 2)))
        if one is not None:
            time, share = _used_share(one)
            axis.fill_between(time, share, step="post", color=colour, alpha=0.28, linewidth=0)
            axis.step(time, share, where="post", color=colour, linewidth=0.9)
        name, rest = _name_and_rest(combination, hop)
        axis.text(
            1.012, 0.95, name, transform=axis.transAxes, va="top", fontsize=11, fontweight="bold", color=ink(colour)
        )
        axis.text(1.012, 0.56, rest[:38], transform=axis.transAxes, va="top", fontsize=7.5, color=QUIET)
        goodput = [sum(flow["goodput_mbit"] or 0.0 for flow in record.result["flows"]) for record in combination.runs]
        axis.text(
            1.012,
            0.28,
            f"goodput {sum(goodput) / len(goodput):.3g} Mbit/s",
            transform=axis.transAxes,
            va="top",
            fontsize=8.5,
            color=INK,
        )
    axes[-1].set_xlim(0, end)
    headline(
        figure,
        "How much of the link was used",
        "Bytes carried as a share of the link's rate at that moment. Gaps are capacity that the discipline wasted.",
    )
    return _picture(
        figure,
        shown,
        "throughput",
        "Throughput over time",
        f"Queue “{hop}”, first seed: bytes on the wire in each interval over what the link could carry in it. "
        "Goodput is the payload acknowledged in the measuring window, all flows together.",
    )


def _used_share(one: dict[str, NDArray[Any]], target_s: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """The busy share in intervals of about a second, so that single packets on slow links do not flicker."""
    time, busy = one["time_s"], one["busy_fraction"]
    width = float(time[1] - time[0]) if len(time) > 1 else 1.0
    together = max(1, min(round(target_s / width), len(time) // 60))
    whole = len(time) // together * together
    share = busy[:whole].reshape(-1, together).mean(axis=1)
    return np.append(time[:whole:together], time[whole - 1] + width), np.append(share, share[-1:])


def _fairness(shown: list[Combination], palette: list[str]) -> Picture | None:
    """One dot a flow: what it got, and what share of its packets was dropped."""
    if len(shown[0].first.result["flows"]) < 2:
        return None
    height = 0.78 + 0.95 + 0.42 * len(shown)
    figure = Figure(figsize=(WIDTH, height))
    left, middle, right = 2.3, 0.75, 0.35
    wide = (WIDTH - left - middle - right) / 2
    boxes = [(left + place * (wide + middle), wide) for place in (0, 1)]
    axes = [figure.add_axes((x / WIDTH, 0.72 / height, w / WIDTH, (height - 0.72 - 0.95) / height)) for x, w in boxes]
    for row, (combination, colour) in enumerate(zip(shown, palette, strict=True)):
        for record in combination.runs:
            # Pings have no goodput: a dot at zero would look like a flow that starves.
            goodput = [flow["goodput_mbit"] if flow["kind"] != "pings" else None for flow in record.result["flows"]]
            _dots(axes[0], goodput, row, colour, [flow["kind"] for flow in record.result["flows"]])
            share = [drop_share(flow) for flow in record.result["flows"]]
            _dots(axes[1], share, row, colour, [flow["kind"] for flow in record.result["flows"]])
    for axis in axes:
        axis.set_ylim(len(shown) - 0.4, -0.6)
        axis.yaxis.set_major_locator(FixedLocator(list(range(len(shown)))))
        axis.grid(visible=False, axis="y")
        axis.set_xlim(left=0)
        axis.spines[["left"]].set_visible(False)
    for axis in axes:
        axis.xaxis.set_major_locator(MaxNLocator(6))
    axes[1].set_yticklabels([])
    axes[0].set_yticklabels([])
    for row, (combination, colour) in enumerate(zip(shown, palette, strict=True)):
        axes[0].text(
            -0.03,
            row,
            _short(combination.label),
            transform=axes[0].get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=9,
            color=ink(colour),
            fontweight="bold",
        )
    axes[0].set_title("goodput, Mbit/s", loc="left", fontsize=9.5, color=INK)
    axes[1].set_title("share of the flow's packets dropped", loc="left", fontsize=9.5, color=INK)
    axes[1].xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{100 * value:g} %"))
    headline(
        figure,
        "Who got what, and who paid",
        "Each dot is a flow (hollow: many short connections together). Dots close together are fair shares.",
    )
    return _picture(
        figure,
        shown,
        "fairness",
        "Goodput and drop share per flow",
        "In the measuring window, over the whole path" + (", every seed." if len(shown[0].runs) > 1 else "."),
    )


def drop_share(flow: dict[str, Any]) -> float | None:
    """Dropped over sent packets of a flow; None if it sent nothing."""
    return flow["drops"] / flow["packets"] if flow["packets"] else None


def _short(label: str, most: int = 30) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _dots(axis: Axes, values: Sequence[float | None], row: int, colour: str, kinds: Sequence[str]) -> None:
    many = {"web", "sizes", "download", "upload"}
    for hollow in (False, True):
        chosen = [
            value for value, kind in zip(values, kinds, strict=True) if value is not None and (kind in many) == hollow
        ]
        axis.plot(
            chosen,
            [row] * len(chosen),
            "o",
            markersize=6.5,
            color=colour,
            alpha=0.75,
            markerfacecolor="white" if hollow else colour,
            markeredgewidth=1.3,
            clip_on=False,
        )
