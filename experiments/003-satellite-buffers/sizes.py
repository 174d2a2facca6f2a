"""Writes the simulator's sizes of transfers, parted: small.csv and large.csv at 100 kB, the same with -1mb at 1 MB.

The sizes are those of `kind = "sizes"` (docs/explanation/workloads.md): in bytes, a lognormal body and in 12 of 100
transfers a bounded Pareto tail. A file has the midpoints of 2000 parts of equal share, one a line.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

TAIL = 0.12
MEDIAN, SIGMA = 4096.0, 1.2
SHAPE, LEAST, LARGEST = 1.1, 32_768.0, 67_108_864.0
PARTED = {"": 100_000.0, "-1mb": 1_000_000.0}
"""Bytes, by how the files' names end."""
COUNT = 2000


def share_below(size: float) -> float:
    """The share of transfers of at most `size` bytes."""
    body = NormalDist().cdf(math.log(size / MEDIAN) / SIGMA)
    beyond = (LEAST / max(LEAST, min(size, LARGEST))) ** SHAPE
    tail = (1 - beyond) / (1 - (LEAST / LARGEST) ** SHAPE)
    return (1 - TAIL) * body + TAIL * tail


def quantile(share: float) -> int:
    """The size in whole bytes below which that share lies, by bisection."""
    low, high = 1.0, LARGEST
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if share_below(middle) < share else (low, middle)
    return round(high)


def parts(low: float, high: float) -> list[int]:
    """Sizes in the middle of equal parts between two shares."""
    return [quantile(low + (high - low) * (i + 0.5) / COUNT) for i in range(COUNT)]


def main() -> None:
    """Writes all four into this file's folder, and prints the shares."""
    for end, size in PARTED.items():
        parted = share_below(size)
        for name, sizes in (("small", parts(0, parted)), ("large", parts(parted, 1))):
            path = Path(__file__).with_name(f"{name}{end}.csv")
            path.write_text("".join(f"{size}\n" for size in sizes), encoding="utf-8")
        print(f"below {size:.0f} bytes: {parted:.4f} of the transfers")


if __name__ == "__main__":
    main()
