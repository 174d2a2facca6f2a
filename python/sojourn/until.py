"""The rule by which a combination has enough seeds: `--until 'sojourn_ms.p95 5%'`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.errors import Refusal
from sojourn.means import Mean, mean_of, present
from sojourn.words import number_text, percent_text

FEWEST_SEEDS = 5
"""The least number of seeds. With fewer, an interval may be narrow by chance."""


@dataclass(frozen=True)
class Until:
    """The rule: a combination has enough seeds when the 95 % interval of a measure is narrow enough."""

    address: str
    half_width: float
    relative: bool = False
    """Whether `half_width` is a share of the mean."""
    text: str = ""
    """The rule as it was written."""

    @staticmethod
    def parse(text: str) -> Until:
        """Reads `MEASURE WIDTH`, with the width as a number or in % of the mean. Raises Refusal for anything else."""
        found = re.fullmatch(r"\s*(\S+)\s+([0-9.]+)\s*(%?)\s*", text)
        try:
            width = float(found[2]) if found else 0.0
        except ValueError:
            width = 0.0
        if not found or width <= 0:
            raise Refusal(f"--until = {text}: expected a measure and a width, such as 'sojourn_ms.p95 0.5' or '… 5%'")
        return Until(found[1], width / 100 if found[3] else width, bool(found[3]), " ".join(text.split()))

    def met_after(self, values: Sequence[Sequence[float]], tried: int = 0) -> int | None:
        """Returns the number of seeds that is enough, or None. The first `tried` of them are known to be too few.

        `values` has a row for each seed and a column for each queue; the interval of every queue must be narrow enough.
        Queues without packets have no values and are left out.
        """
        series = [one for one in zip(*values, strict=True) if not all(map(math.isnan, one))]
        counts = range(max(FEWEST_SEEDS, tried + 1), len(values) + 1) if series else ()
        return next((count for count in counts if all(self._is_met(one[:count]) for one in series)), None)

    def _is_met(self, values: Sequence[float]) -> bool:
        mean = mean_of(present(values))
        return mean is not None and mean.half_width is not None and mean.half_width <= self.wanted(mean)

    def wanted(self, mean: Mean) -> float:
        """The half-width that is narrow enough around this mean."""
        return self.half_width * (abs(mean.value) if self.relative else 1)

    def width_text(self, mean: Mean) -> str:
        """The interval's half-width, in % of the mean if the rule has it so."""
        if mean.half_width is None:
            return "no interval"
        if self.relative and mean.value:
            return f"±{percent_text(mean.half_width / abs(mean.value), 2)}"
        return f"±{number_text(mean.half_width, 2)}"


@dataclass(frozen=True)
class Width:
    """The interval of a combination that does not have enough seeds. Among several queues, it is that of the queue that
    needs most seeds.
    """

    address: str
    mean: Mean | None
    """The mean over the seeds that have a value; None if no seed has one."""
    more_seeds: int | None
    """About how many more seeds are needed; None if no number would do, or if it cannot be estimated."""


def refuse_too_few_seeds(most: int) -> None:
    """Refuses the rule where combinations have so few seeds that it could not be met; `most` is the largest number."""
    if most >= FEWEST_SEEDS:
        return
    few = "one seed has no interval" if most == 1 else f"an interval over {most} seeds is narrow by chance too often"
    raise Refusal(
        f"--until: {few}: expected --seeds {FEWEST_SEEDS} or more, as the most for a combination, such as --seeds 30"
    )
