"""Means over seeds, with Student's 95 % interval where the sample carries one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_SEEDS = 1000
"""If more seeds than this would be needed to decide, no number is named."""


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, with the half-width of its 95 % interval when the sample carries one."""

    value: float
    half_width: float | None
    count: int


def as_dict(mean: Mean | None) -> dict[str, Any] | None:
    """Returns a mean as JSON has it: `mean`, `half_width` and `count`."""
    return None if mean is None else {"mean": mean.value, "half_width": mean.half_width, "count": mean.count}


def as_text(mean: Mapping[str, Any] | None, factor: float = 1.0) -> str:
    """Returns a mean of `as_dict` as text, times a factor, with its interval if the seeds differ; "–" for None."""
    if mean is None:
        return "–"
    half = mean["half_width"]
    value = f"{factor * mean['mean']:.4g}"
    return f"{value} ± {factor * half:.2g}" if half else value


def mean_of(values: Sequence[float | None]) -> Mean | None:
    """Returns the mean and Student's t interval over the values that exist. Fewer than two values give no interval."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    count = len(present)
    if count < 2:
        return Mean(present[0], None, 1)
    error = statistics.stdev(present) / math.sqrt(count)
    return Mean(statistics.fmean(present), student(0.975, count - 1) * error, count)


def student(share: float, freedom: int) -> float:
    """The quantile `share` of Student's t distribution with `freedom` degrees of freedom."""
    # scipy.stats has the same number, and takes a second more to load.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def seeds_for(half_width: float, mean: Mean) -> int | None:
    """Returns the number of seeds for an interval of this half-width, assuming that the spread of the values stays the
    same.

    None if the mean has no interval, or if no half-width is requested.
    """
    if not mean.half_width or half_width <= 0:
        return None
    spread = mean.half_width / student(0.975, mean.count - 1) * math.sqrt(mean.count)
    # Student's quantile lies above the normal one, by which at least this many are needed.
    count = max(2, math.ceil((statistics.NormalDist().inv_cdf(0.975) * spread / half_width) ** 2))
    while student(0.975, count - 1) * spread / math.sqrt(count) > half_width:
        count += 1
    return count


def present(values: Iterable[float]) -> list[float | None]:
    """Returns the values, with None in place of NaN."""
    return [None if math.isnan(value) else float(value) for value in values]
