"""Draws grid.toml, the frozen grid on which the default `ccaq` is judged. It was run before anything was measured.

    python experiments/ccaq/draw.py > experiments/ccaq/grid.toml

Rate, RTT and number of flows are drawn with uniform logarithms, each independently of the others. A draw whose run
would carry more than MOST_PACKETS is replaced by the next one, so that fast links with a slow congestion control are
missing: their cycle takes longer than a run may last. All congestion controls are in both worlds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from sojourn.frontier.point import Point, point_of
from sojourn.line import PACKET, rate_text, time_text

SEED = 44
KINDS = (
    *((("reno",), 1), (("reno",), 64), (("cubic",), 1), (("cubic",), 64)) * 3,
    *((("bbr",), 1), (("bbr",), 64)),
    *((kinds, 64) for kinds in (("cubic", "reno"), ("cubic", "bbr"), ("reno", "bbr"), ("cubic", "reno", "bbr"))),
)
"""The congestion controls of the points, in turn, with their most flows. More than a third of the points has a single
flow: a home line often carries no more, and a single flow is the hardest to serve with little delay."""
ROUNDS = 4
RATE_MBIT, RTT_MS = (0.5, 500.0), (5.0, 600.0)
MOST_PACKETS = 4e6
"""Full packets that a run may carry, at the rate of the link."""
HEAD = """\
# The frozen grid: {count} points, drawn by draw.py with seed {seed} before anything was measured on it.
# Do not change it, and do not tune anything on it: a discipline that was adjusted to a grid proves nothing on it.
"""


def log_uniform(draw: random.Random, least: float, most: float) -> float:
    """Returns a number between these whose logarithm is uniform."""
    return least * (most / least) ** draw.random()


def two_digits(value: float) -> float:
    """Rounds to two significant digits."""
    return round(value, 1 - math.floor(math.log10(value)))


def flows_of(draw: random.Random, kinds: tuple[str, ...], most: int) -> str:
    """Draws the number of flows, at least one of each kind, and gives each further flow a kind."""
    count = max(math.floor(log_uniform(draw, 1, most + 1)), len(kinds)) if most > 1 else 1
    counts = dict.fromkeys(kinds, 1)
    for _ in range(count - len(kinds)):
        counts[kinds[math.floor(draw.random() * len(kinds))]] += 1
    return ", ".join(kind if number == 1 else f"{number} {kind}" for kind, number in counts.items())


def points() -> Iterator[Point]:
    """Yields the points."""
    draw = random.Random(SEED)
    for place, (kinds, most) in enumerate(KINDS * ROUNDS):
        while True:
            flows = flows_of(draw, kinds, most)
            rate = round(two_digits(log_uniform(draw, *RATE_MBIT)) * 1e6)
            rtt = two_digits(log_uniform(draw, *RTT_MS)) / 1000
            point = point_of(flows, rate, rtt, name=f"{place + 1:02d}")
            if rate * point.duration_s / (8 * PACKET) <= MOST_PACKETS:
                break
        yield point


def main() -> None:
    """Prints the grid."""
    found = list(points())
    print(HEAD.format(count=len(found), seed=SEED), end="")
    for one in found:
        print(f'\n[[point]]\nname = "{one.name}"\nflows = "{one.flows_text}"')
        print(f'rate = "{rate_text(one.rate_bps)}"\nrtt = "{time_text(one.rtt_s)}"\nduration = "{one.duration_s}s"')


if __name__ == "__main__":
    main()
