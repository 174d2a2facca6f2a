"""Writes a comparison as a page with pictures. One picture has all scenarios. Each scenario has its own, with the
queue, window and sojourns of both worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from sojourn import drawn, plot
from sojourn.agree import Comparison, words
from sojourn.agree.judge import BY_NAME, SHARES, Pair, Run, rankings, summaries
from sojourn.plot import Data, Picture
from sojourn.records import to_json, write_text
from sojourn.templates import template_of
from sojourn.words import short_name

PAGE = "agree.html"
SHOWN = {"goodput": ("o", "#13866f"), "mean": ("D", "#1f6fb4"), "p95": ("s", "#6a3fa0"), "drops": ("x", "#d1495b")}
MOST = 1.0
"""The ends of the overview's axis: ± 100 %, as a share."""


def write(folder: Path, done: Comparison) -> Path:
    """Writes agree.json, agree.csv, the pictures and the page into the folder. Returns the page's path."""
    write_text(folder / "agree.json", to_json(words.as_dict(done)) + "\n")
    write_text(folder / "agree.csv", words.csv_text(done.pairs))
    if done.pairs:
        plot.write(overview(done.pairs, provenance(done)), folder, "png")
    overlays = []
    for number, pair in enumerate(done.pairs):
        path = plot.write(overlay(pair, provenance(done), f"pair-{number:03d}"), folder, "png")
        overlays.append((pair, path.name))
    ranks = rankings(done.pairs)
    page = template_of("agree", "agree.html.j2").render(
        style=plot.page_style(),
        provenance=provenance(done),
        interrupted=done.interrupted,
        older=done.older,
        overlays=overlays,
        tables=[
            ("Over all of them", *words.summary_table(summaries(done.pairs))),
            ("Each scenario", *words.table(done.pairs)),
            *([("In which order the disciplines come", *words.rank_table(ranks))] if ranks else []),
        ],
        legend=words.LEGEND,
        skipped=[(one["file"], to_json(one["set"], indent=None), one["reason"]) for one in done.skipped],
    )
    write_text(folder / PAGE, page)
    return folder / PAGE


def provenance(done: Comparison) -> str:
    """Returns a line about the runs that were compared, and their worlds."""
    seeds = sorted({seed for pair in done.pairs for seed in pair.seeds})
    which = f"seeds {seeds[0]}–{seeds[-1]}" if seeds else "no seeds"
    if fewer := sum(len(pair.seeds) < len(seeds) for pair in done.pairs):
        which += f" ({fewer} of them fewer)"
    versions = done.versions
    return (
        f"{len(done.pairs)} combinations  ·  {which}  ·  worlds sim and kernel ({versions.get('kernel', '?')})  ·  "
        f"sojourn {versions['sojourn']}"
    )


def overview(pairs: Sequence[Pair], about: str) -> Picture:
    """Draws one row for each combination: the simulator's differences from the kernel, with intervals."""
    names = [plot.wrapped(_name(pair), LABEL, 8.5) for pair in pairs]
    heights = [0.1 + 0.15 * len(lines) for lines in names]
    middles = np.cumsum(heights) - np.asarray(heights) / 2
    rows: list[list[object]] = []
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 2.2 + sum(heights)), layout="constrained")
        axis = figure.add_subplot()
        axis.axvspan(-0.1, 0.1, color=plot.PALE, zorder=0)
        axis.axvline(0, color=plot.QUIET, linewidth=0.8)
        for name, (marker, ink) in SHOWN.items():
            found = [(row, one) for row, pair in enumerate(pairs) if (one := pair.difference(BY_NAME[name]))]
            values = [float(np.clip(one.value, -MOST, MOST)) for _, one in found]
            halves = [one.half_width or 0.0 for _, one in found]
            axis.errorbar(
                values, [middles[row] for row, _ in found], xerr=halves, fmt=marker, color=ink, markersize=5,
                linewidth=0, elinewidth=0.8, alpha=0.85, label=BY_NAME[name].head,
            )  # fmt: skip
            rows += [[_name(pairs[row]), BY_NAME[name].head, one.value, one.half_width] for row, one in found]
        axis.set_yticks(middles, ["\n".join(lines) for lines in names])
        axis.set_ylim(sum(heights), 0)
        axis.set_xlim(-MOST * 1.02, MOST * 1.02)
        axis.xaxis.set_major_formatter(FuncFormatter(_percent))
        axis.set_xlabel("difference in percent of the kernel's number")
        axis.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(SHOWN), frameon=False)
        plot.frame(
            figure,
            "How far the simulator is from the kernel",
            "The simulator's number less the kernel's, a row a combination. The grey band is ± 10 %; bars are 95 % "
            f"intervals over the seeds; differences beyond ± {100 * MOST:.0f} % are drawn at the edge.",
            about,
        )
    data = Data(["combination", "measure", "difference_share", "half_width"], rows)
    return Picture("overview", "How far the simulator is from the kernel", "", figure, data)


LABEL = 3.4
"""The width of a row's label in inches."""


def _percent(value: float, _place: int | None = None) -> str:
    return "0" if abs(value) < 1e-9 else f"{100 * value:+.0f} %"


def _name(pair: Pair) -> str:
    return pair.name if pair.label else f"{pair.file}: {short_name(pair.qdisc)} · {pair.title}"


def overlay(pair: Pair, about: str, name: str) -> Picture:
    """Draws both worlds' queue and window over time for the first seed, and the sojourns of all seeds."""
    ink = plot.COLOURS.get(plot.kind_of(pair.qdisc), plot.OTHER)
    seed = pair.seeds[0]
    styles: dict[str, dict[str, Any]] = {
        "kernel": {"color": ink, "linewidth": 1.6},
        "sim": {"color": plot.INK, "linewidth": 0.8},
    }
    with mpl.rc_context(plot.STYLE):
        subtitle = pair.title if pair.label else f"{pair.title}  ·  {pair.qdisc}"
        words = (*plot.headline_block(pair.name, subtitle, plot.WIDTH), *plot.footer_block(about, plot.WIDTH))
        figure = Figure(figsize=(plot.WIDTH, 4.2 + plot.block_height(words)), layout="constrained")
        parts = figure.subplot_mosaic([["queue", "sojourn"], ["cwnd", "sojourn"]], width_ratios=(2.2, 1))
        for world, style in styles.items():
            runs: dict[int, Run] = getattr(pair, world)
            _line(parts["queue"], runs[seed], pair.hop, "queue_delay_ms", world, style)
            _line(parts["cwnd"], runs[seed], "cwnd", "cwnd", world, style)
            functions = [np.array(run.quantiles[pair.hop]) for run in runs.values() if run.quantiles[pair.hop]]
            if functions:
                parts["sojourn"].plot(np.mean(functions, axis=0), SHARES, label=world, **style)
        parts["queue"].set_ylabel("queue delay, ms")
        parts["cwnd"].set_ylabel("cwnd, segments")
        parts["cwnd"].set_xlabel(f"time in the run, seconds (seed {seed})")
        parts["sojourn"].set_xlabel("sojourn, ms")
        parts["sojourn"].set_ylabel("share of packets")
        parts["sojourn"].legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(styles))
        plot.frame(figure, pair.name, subtitle, about)
    return Picture(name, pair.name, pair.title, figure, drawn.data_of(figure))


def _line(axis: Axes, run: Run, where: str, column: str, world: str, style: dict[str, Any]) -> None:
    series = run.series.get(where)
    if series:
        axis.plot(series["time_s"], series[column], label=world, **style)
