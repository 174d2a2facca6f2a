"""A point: a path with its long flows. It says which fixed settings are tried there, and how long a run lasts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sojourn import _core, queues
from sojourn.errors import Refusal
from sojourn.line import PACKET, rate_text, time_text

HOP = "bottleneck"
"""The name of the queue."""
KEY = queues.qdisc_key(HOP)
DEFAULT = ("fq_codel", "cake", "pie", "fq_pie", "ccaq", "ccaq variant paper", "pfifo")
"""The disciplines that are placed if none is named."""
MOST_FLOWS = 10_000

# ---- the path and its flows ----


@dataclass(frozen=True)
class Point:
    """A path and its flows. All flows have about the same RTT."""

    name: str
    flows: tuple[tuple[str, int], ...]
    """Congestion controls, each with its number of flows."""
    rate_bps: int
    rtt_s: float
    """The base RTT."""
    duration_s: int
    """The simulated time of a run."""

    @cached_property
    def count(self) -> int:
        """The number of flows."""
        return sum(count for _, count in self.flows)

    @cached_property
    def packet_s(self) -> float:
        """How long a full packet takes on the link."""
        return PACKET * 8 / self.rate_bps

    @cached_property
    def bdp_packets(self) -> float:
        """The bandwidth-delay product in full packets."""
        return self.rtt_s / self.packet_s

    @property
    def cycles(self) -> float:
        """How many cycles of the slowest congestion control the measured time contains."""
        return (self.duration_s - START_S) / cycle_s(self.flows, self.rate_bps, self.rtt_s)

    @property
    def flows_text(self) -> str:
        """The flows as `read_flows` reads them."""
        return ", ".join(cc if count == 1 else f"{count} {cc}" for cc, count in self.flows)

    @property
    def words(self) -> str:
        """The whole point in a few words."""
        return f"{self.flows_text}, {rate_text(self.rate_bps)}, {time_text(self.rtt_s)}"


def point_of(flows: str, rate_bps: int, rtt_s: float, duration_s: int | None = None, name: str = "") -> Point:
    """Returns a point. Without a duration, it is derived from the congestion controls (`duration_of`)."""
    found = read_flows(flows)
    return Point(name, found, rate_bps, rtt_s, duration_s or duration_of(found, rate_bps, rtt_s))


FLOWS = re.compile(r"(?:(?P<count>\d+)\s+)?(?P<cc>[a-z][a-z0-9_]*)")


def read_flows(text: str) -> tuple[tuple[str, int], ...]:
    """Reads flows such as `cubic`, `4 reno` or `2 cubic, reno`. Raises Refusal for anything else.

    The names of congestion controls are checked with the scenario.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        read = FLOWS.fullmatch(part.strip().lower())
        count = int(read["count"] or 1) if read else 0
        if read is None or count == 0:
            raise Refusal(
                f"--flows = {text!r}: expected congestion controls with their numbers of flows, such as cubic, "
                "'4 reno' or '2 cubic, reno, bbr'"
            )
        found[read["cc"]] = found.get(read["cc"], 0) + count
    if sum(found.values()) > MOST_FLOWS:
        raise Refusal(f"--flows = {text!r}: expected at most {MOST_FLOWS} flows")
    return tuple(found.items())


# ---- how long a run lasts ----

START_S = 10
"""Seconds that are not measured: the flows begin in the first of them."""
LEAST_S, MOST_S = 60, 400
"""The shortest and the longest run. Reno at a long RTT and a high rate would need hours."""
CYCLES = 8
"""Cycles of the congestion control that a run measures, if `MOST_S` allows it."""
FEW_CYCLES = 3
"""With fewer cycles the start of the flows weighs in the result: it is not a steady state."""
PROBE_RTT_S = {"bbr": 10.0, "bbr3": 5.0}
"""Time between two ProbeRTT states of BBR: its longest cycle."""


def cycle_s(flows: Sequence[tuple[str, int]], rate_bps: int, rtt_s: float) -> float:
    """Returns the length of the longest cycle of these congestion controls, in seconds, if they share the link equally.

    Reno gains a packet per RTT after it has halved its window, while the queue makes the RTT longer: about BDP · RTT.
    CUBIC comes back after K = ∛(W (1 - β) / C) seconds (RFC 9438 §4.2), or earlier where a Reno flow would. BBR visits
    ProbeRTT. Other congestion controls are counted as Reno.
    """
    count = sum(number for _, number in flows)
    window = max(rate_bps * rtt_s / (8 * PACKET * count), 4.0)
    reno = window * rtt_s
    cubic = min((window * 0.3 / 0.4) ** (1 / 3), reno)
    return max(PROBE_RTT_S.get(cc, cubic if cc == "cubic" else reno) for cc, _ in flows)


def duration_of(flows: Sequence[tuple[str, int]], rate_bps: int, rtt_s: float) -> int:
    """Returns how long a run lasts, in whole 10 s: the start and `CYCLES` cycles, within `LEAST_S` and `MOST_S`."""
    wanted = START_S + CYCLES * cycle_s(flows, rate_bps, rtt_s)
    return 10 * math.ceil(min(max(wanted, LEAST_S), MOST_S) / 10)


# ---- fixed settings ----

TARGETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""fq_codel's target, as shares of the span (`span_s`), with an interval of the base RTT but at least 100 ms."""
OTHER_TARGETS = (0.05, 0.1, 0.2, 0.4, 0.65, 1.0)
"""Targets that are also tried with an interval of two RTTs and, where the RTT is longer, of 100 ms."""
INTERVAL_S = 0.1
LIMITS = 7
"""Packet limits of fq and of pfifo."""
LEAST_LIMIT = (0.03, 2)
"""The smallest limit: this share of the BDP, but at least this number of packets. The greatest is a BDP, or 16."""
GREATEST_LIMIT = (1.0, 16)
FQ_CODEL_LIMIT, FQ_LIMIT = 10240, 10000
"""Linux's defaults, in packets."""
SKB_BYTES = 2304
"""Memory that a full packet takes, which memory_limit counts."""


def span_s(point: Point) -> float:
    """Returns the longest target that is tried: the base RTT, or twice the time in which each flow sends a packet if
    that is longer. Below that time every target of a slow link with many flows is the same.
    """
    return max(point.rtt_s, 2 * point.count * point.packet_s)


def fixed_settings(point: Point) -> list[str]:
    """Returns the lines of the fixed settings, each once; fq_codel with its defaults is the first."""
    found = [_fq_codel(point)]
    span = span_s(point)
    usual = max(INTERVAL_S, point.rtt_s)
    found.append(_fq_codel(point, 0.005, usual))
    found += [_fq_codel(point, share * span, usual) for share in TARGETS]
    for interval in (2 * point.rtt_s, INTERVAL_S):
        if interval != usual:
            found += [_fq_codel(point, share * span, interval) for share in OTHER_TARGETS]
    for limit in _limits(point.bdp_packets / point.count):
        found.append(f"fq limit {max(FQ_LIMIT, 2 * limit * point.count)} flow_limit {limit}")
    found += [f"pfifo limit {limit}" for limit in _limits(point.bdp_packets)]
    return list(dict.fromkeys(found))


def _fq_codel(point: Point, target_s: float = 0.005, interval_s: float = INTERVAL_S) -> str:
    """Returns the line of a target and an interval, without what Linux takes anyway. The limit is never reached."""
    packets = math.ceil(4 * point.bdp_packets)
    room = f" limit {packets} memory_limit {packets * SKB_BYTES}" if packets > FQ_CODEL_LIMIT else ""
    times = ""
    if rounded_s(target_s) != 0.005:
        times += f" target {time_text(rounded_s(target_s))}"
    if rounded_s(interval_s) != INTERVAL_S:
        times += f" interval {time_text(rounded_s(interval_s))}"
    # With its defaults it is the line that a user writes, whatever the path.
    return f"fq_codel{room}{times}" if times else "fq_codel"


def rounded_s(seconds: float) -> float:
    """Rounds a time to three digits, and to whole microseconds."""
    digits = 2 - math.floor(math.log10(seconds))
    return round(seconds, min(digits, 6))


def _limits(bdp: float) -> Iterator[int]:
    """Yields packet limits at equal ratios."""
    least, most = (max(share * bdp, packets) for share, packets in (LEAST_LIMIT, GREATEST_LIMIT))
    yield from (round(least * (most / least) ** (step / (LIMITS - 1))) for step in range(LIMITS))


# ---- the plan ----

JITTER = 0.02
"""The base RTT of each flow is drawn within this share of the point's."""


def document(point: Point) -> dict[str, Any]:
    """Returns the scenario of a point as tables, without a sweep.

    The seeds differ in the flows' RTTs and times of start, and in what disciplines draw.
    """
    flows: list[Mapping[str, Any]] = [
        {
            "name": cc,
            "kind": "bulk",
            "cc": cc,
            "count": count,
            "rtt": time_text(point.rtt_s),
            "jitter": time_text(max(rounded_s(JITTER * point.rtt_s), 1e-6)),
            "start": "uniform 0s..1s",
        }
        for cc, count in point.flows
    ]
    return {
        "title": point.words,
        "duration": f"{point.duration_s}s",
        "measure": [f"{START_S}s", "end"],
        "hop": [{"name": HOP, "rate": rate_text(point.rate_bps), "qdisc": "pfifo", "reverse": {"qdisc": "pfifo"}}],
        "flow": flows,
    }


def plan_of(
    point: Point,
    lines: Sequence[str],
    *,
    seed: int | None = None,
    seeds: int | None = None,
    outside: Sequence[str] = (),
) -> _core.Plan:
    """Returns the plan that plays these disciplines at a point. `outside` are the names of disciplines of the user's.

    Raises Refusal for an unknown congestion control and for a line that is no discipline's.
    """
    whole = {**document(point), "sweep": {KEY: list(lines)}}
    file = f"{point.name or 'point'}.toml"
    try:
        return _core.Plan.parse(_core.to_toml(whole), file, [], seed, seeds, lines=False, outside=list(outside))
    except _core.Error as error:
        said = str(error).removeprefix(f"{file}: ")
        if any(said.startswith(f"flow.{cc}.") for cc, _ in point.flows):
            said = f"--flows = {point.flows_text!r}: {said}"
        raise Refusal(said.removeprefix(f"{KEY} = ")) from error
