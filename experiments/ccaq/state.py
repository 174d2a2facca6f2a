"""Draws how ccaq's target follows the queue of a long flow: figures/state.png.

    python experiments/ccaq/state.py

A discipline's counters are those at the end of a run. To see the target over time, each flow is played for 1 s, 2 s and
so on; the runs have the same seed, so each is the beginning of the next.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

import sojourn as sj
from sojourn import plot
from sojourn.plot import Data, Picture

FIGURES = Path(__file__).parent / "figures"
HEADS = ["flow", "time_s", "sojourn_min_ms", "sojourn_max_ms", "target_ms", "drops"]
SEED = 1


@dataclass(frozen=True)
class Story:
    """A flow to show, and how long."""

    title: str
    cc: str
    rate: str
    rtt: str
    seconds: int
    step: int


STORIES = (
    Story("CUBIC, 100 Mbit/s, 50 ms: a quarter of the RTT is right at once", "cubic", "100mbit", "50ms", 60, 1),
    Story("Reno, 100 Mbit/s, 50 ms: the link ran dry, so the target rises", "reno", "100mbit", "50ms", 120, 2),
    Story("CUBIC, 16 Mbit/s, 600 ms: the target falls from half of the RTT", "cubic", "16mbit", "600ms", 120, 2),
)


def document(story: Story) -> dict[str, Any]:
    """Returns the scenario of a flow."""
    return {
        "title": story.title,
        "duration": f"{story.seconds}s",
        "hop": [{"name": "bottleneck", "rate": story.rate, "qdisc": "ccaq"}],
        "flow": [{"name": "flow", "kind": "bulk", "cc": story.cc, "rtt": story.rtt}],
    }


def targets(story: Story) -> list[tuple[float, float]]:
    """Returns the times in s, and the target in ms at each; times at which the queue was empty are left out."""
    times = range(story.step, story.seconds + 1, story.step)
    one = document(story) | {"sweep": {"duration": [f"{time}s" for time in times]}}
    runs = sj.run(sj.load(one, seed=SEED), series=False).runs
    found = [run.result["hops"]["bottleneck"]["stats"]["max_target"] / 1000 for run in runs]
    return [(float(time), target) for time, target in zip(times, found, strict=True) if target]


def main() -> None:
    """Draws the picture and writes its numbers."""
    rows: list[list[object]] = []
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 8.0), layout="constrained")
        for axis, story in zip(figure.subplots(len(STORIES), 1), STORIES, strict=True):
            print(story.title, file=sys.stderr, flush=True)
            results = sj.run(sj.load(document(story), seed=SEED), series=True)
            series = results.series("bottleneck").to_pydict()
            colour = plot.colours(["ccaq"])[0]
            low, high = series["sojourn_min_ms"], series["sojourn_max_ms"]
            label = "sojourn of the packets"
            axis.fill_between(series["time_s"], low, high, color=colour, alpha=0.35, lw=0.8, label=label)
            found = targets(story)
            axis.step(*zip(*found, strict=True), where="post", color=plot.INK, lw=1.4, label="target")
            drops = [time for time, count in zip(series["time_s"], series["drops"], strict=True) if count]
            axis.plot(drops, [0.0] * len(drops), "|", color="#b3261e", ms=9, mew=1.6, label="drop", clip_on=False)
            axis.set_title(story.title, loc="left", fontsize=9.5)
            axis.set_ylabel("ms")
            axis.set_xlim(0, story.seconds)
            known = sorted(value for value in high if not math.isnan(value))
            axis.set_ylim(0, 1.15 * known[int(0.97 * len(known))])
            at, flow = dict(found), f"{story.cc} {story.rate} {story.rtt}"
            for time, least, most, count in zip(series["time_s"], low, high, series["drops"], strict=True):
                shown = None if math.isnan(most) else (least, most)
                rows.append([flow, time, *(shown or (None, None)), at.get(time), count])
        axis.set_xlabel("time, s")
        figure.axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=8)
        title = "How ccaq's target follows the flow's need"
        subtitle = (
            "One long flow alone. The target is adjusted when the delay was above it for an interval, which is when a "
            "cycle of the sender's window is over. The first queue of a flow, in slow start, is cut off."
        )
        footer = f"scenario: one bulk flow  ·  seed {SEED}  ·  world sim  ·  sojourn {version('sojourn')}"
        plot.frame(figure, title, subtitle, footer)
    plot.write(Picture("state", title, f"{subtitle} {footer}", figure, Data(HEADS, rows)), FIGURES, "png")


if __name__ == "__main__":
    main()
