"""A link's rate over time as a small chart of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.words import OUTAGE_MBIT

HEIGHT = 4
"""Lines of a chart; each has eight steps."""
EIGHTHS = " ▁▂▃▄▅▆▇█"


def chart(link: Mapping[str, Any], duration_s: float) -> list[str]:
    """The lines of a chart, at most 80 columns wide: one of the `links` of `Plan.rates`, over a run of this length."""
    unit, scale = ("Mbit/s", 1.0) if link["max_mbit"] >= 1 else ("kbit/s", 1000.0)
    least, mean, top = (link[f"{which}_mbit"] * scale for which in ("min", "mean", "max"))
    least = 0 if link["min_mbit"] <= OUTAGE_MBIT else least
    lines = [f"{link['name']}: rate in {unit}: min {least:.3g}, mean {mean:.3g}, max {top:.3g}"]
    # A trace may have no opportunity within the run.
    levels = [round(rate * scale / (top or 1.0) * HEIGHT * 8) for rate in link["mbit"]]
    for row in reversed(range(HEIGHT)):
        cells = "".join(EIGHTHS[min(max(level - row * 8, 0), 8)] for level in levels)
        lines.append(f"{f'{top:.3g}' if row == HEIGHT - 1 else '':>8} │{cells}".rstrip())
    end = f"{duration_s:g} s"
    return [*lines, f"{'0':>8} └{'─' * len(levels)}", f"{'':>10}0 s{end:>{len(levels) - 3}}"]
