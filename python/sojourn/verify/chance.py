"""Compares a discipline that draws random numbers with ours in distribution, whatever numbers either draws.

Overload comes in waves, since the gains of a controller only show before it reaches its equilibrium: there it drops as
the load demands, whatever its gains. For each part of a wave, over all waves, the dropped or marked packets are
counted, and the delays of the others are added up. Ours plays the trace with many seeds; no count of the other
implementation may be further from the mean of ours than chance allows (`FALSE_ALARM`). tests/test_verify.py shows which
changes of gains by a tenth are detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, stdev

from sojourn import _core
from sojourn.verify.questions import Line
from sojourn.verify.trace import MS, Fate, Trace

SEEDS = 200
"""The number of seeds with which ours plays a trace."""
FALSE_ALARM = 0.00001
"""The probability that a correct implementation fails, over all counts together."""
PARTS = 4
"""Parts of a wave that are counted separately."""


@dataclass(frozen=True)
class Wave:
    """Waves of arrivals. In each wave packets arrive at `load` percent of the link's rate for `lasts` ms, and then none
    for `rests` ms. There are `waves` waves.
    """

    load: int
    lasts: int
    rests: int
    waves: int
    flows: int = 1


WAVES = {
    "pie": Wave(300, 250, 750, 100),
    "fq_pie": Wave(300, 250, 750, 100),
    "dualpi2": Wave(300, 250, 750, 100),
    "red": Wave(110, 1500, 500, 40),
    "choke": Wave(110, 1500, 500, 40, flows=100_000),
    "blue": Wave(200, 2000, 1500, 25),
}


def waves(line: Line) -> tuple[Trace, bytes]:
    """Returns the trace for this line, and for each packet the part of the wave in which it arrives."""
    wave = WAVES[line.kind]
    trace, parts, begin = Trace(), bytearray(), 0
    for _ in range(wave.waves):
        for number in range(wave.lasts * wave.load // 100):
            trace.put(begin + number * 100 * MS // wave.load, flow=1 + number % wave.flows)
            parts.append(number * 100 // wave.load * PARTS // wave.lasts)
        begin += (wave.lasts + wave.rests) * MS
    return trace.take_each(range(MS - 1, begin, MS)), bytes(parts)


@lru_cache(maxsize=8)
def _ours(trace: bytes, line: str, mtu: int, rate: int, parts: bytes) -> list[list[int]]:
    return _core.sums(trace, line, mtu, rate, parts, PARTS, SEEDS)


def unlike(line: Line, rate: int, trace: Trace, parts: bytes, seen: Sequence[Fate], mtu: int) -> str | None:
    """Describes the count that is furthest from ours, if it is too far."""
    ours = _ours(trace.text(), line.full, mtu, rate, parts)
    theirs = [0.0] * (2 * PARTS)
    came = [0] * PARTS
    for packet, fate, part in zip(trace.packets(), seen, parts, strict=True):
        came[part] += 1
        theirs[part] += fate.word in ("dropped", "marked")
        theirs[PARTS + part] += (fate.at - packet.at) // 1000 if fate.left else 0
    bound = NormalDist().inv_cdf(1 - FALSE_ALARM / (2 * len(theirs)))
    worst, said = bound, None
    for number, value in enumerate(theirs):
        column = [row[number] for row in ours]
        mean = fmean(column)
        # If ours hardly varies with its random numbers, differences in arithmetic may still show a little.
        spread = (stdev(column) ** 2 * (1 + 1 / SEEDS) + 1 + (mean / 500) ** 2) ** 0.5
        if abs(value - mean) / spread > worst:
            worst = abs(value - mean) / spread
            part = number % PARTS
            signals = (theirs[part], fmean(row[part] for row in ours))
            said = _in_words(number, (value, mean, bound * spread), signals, came[part])
    return said


def _in_words(number: int, found: tuple[float, float, float], signals: tuple[float, float], came: int) -> str:
    """Describes a fault in words. It is about count number `number`, in a part of the waves in which `came` packets
    arrive. `found` has the other implementation's count, the mean of ours, and the largest distance allowed.
    """
    theirs, ours, far = found
    part = f"part {number % PARTS + 1} of {PARTS} of the waves"
    if number < PARTS:
        mine, wanted, most = (f"{100 * count / came:.2f}" for count in found)
        what = f"{mine} % of the packets in {part} are dropped or marked"
        return f"{what}: expected {wanted} ± {most} %, as ours with {SEEDS} seeds"
    # The trace's packets are not ECN-capable: a packet that is not dropped is delivered.
    left = [max(came - count, 1.0) for count in signals]
    means = ((theirs, left[0]), (ours, left[1]), (far, left[1]))
    mine, wanted, most = (f"{total / count / 1000:.3g}" for total, count in means)
    what = f"the packets in {part} wait {mine} ms in the mean"
    return f"{what}: expected {wanted} ± {most} ms, as ours with {SEEDS} seeds"
