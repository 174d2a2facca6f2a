"""The settings that are compared: a grid of each discipline's parameters, and what people set today.

Intervals, targets and cake's rtt are tried in proportion to the base RTT, since what matters to CoDel is how long a
sender takes to react. A target is never shorter than a packet of the link takes, so that a queue of one packet is never
called a standing queue (RFC 8289 §4.3). The shaper's rate is not searched: throughput is linear in it, and delay is
flat up to the real rate and grows to that of the modem's buffer above it. It follows from how uncertain the rate is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sojourn.line import PACKET, rate_text, time_text
from sojourn.tune.task import Queue, Task
from sojourn.words import number_text

DISCIPLINES = ("codel", "fq_codel", "pie", "fq_pie", "cake", "ccaq")
"""The disciplines that are tuned if none is named."""
FIFOS = ("pfifo", "bfifo")
CODELS = ("codel", "fq_codel")
SINGLE_QUEUE = ("codel", "pie")
"""Disciplines in which all flows share a queue."""
STOCK = ("codel", "fq_codel", "pie", "fq_pie", "cake")
"""Those that a stock Linux kernel has."""
HIGHEST_SHARE = 0.95
"""The greatest share of the line's rate at which a router shapes, even if the rate is certain: bursts and what the line
adds to packets must fit into the rest."""
BELOW = 0.99
"""A shaper's rate as a share of the lowest rate that the line may have."""
BY_HAND = 0.9
"""The share at which people shape by hand (sqm-scripts' guide: 80 to 95 %)."""
INTERVALS = (0.75, 1.0, 1.5, 2.0, 3.0)
"""CoDel's interval, in base RTTs."""
TARGETS = (0.05, 0.1, 0.2, 0.3)
"""CoDel's target as a share of the interval (RFC 8289 §4.3: 5 to 10 % where a packet takes less)."""
LONG_TARGETS = (0.03, 0.05, 0.1, 0.2, 0.25, 0.3, 0.33)
"""Targets where the base RTT is at least `LONG_RTT_S`."""
LONG_RTT_S = 0.1
PIE_TARGETS_S = (0.005, 0.01, 0.015, 0.03, 0.06)
PIE_UPDATES_S = (0.015, 0.03)
CAKE_RTTS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""cake's rtt, in base RTTs."""
IDLE_SHARES = (0.005, 0.01, 0.02, 0.05)
"""ccaq's idle: the share of the time for which the link may be idle."""
LOWER_SHARES = (0.95, 0.9)
"""Lower rates of the shaper that the best settings are tried with, as shares of the highest one."""

PLAIN_CAKE = "cake's defaults"
"""cake without a rate, where the rate of its link is constant: it cannot tell how long a packet takes."""

Parameters = Mapping[str, float | bool]
"""A discipline's parameters by name; times in seconds."""


@dataclass(frozen=True)
class Candidate:
    """A setting: a discipline for each queue of the task."""

    kind: str
    """The discipline's name."""
    lines: tuple[str, ...]
    """The discipline of each queue, as tc writes it."""
    share: float | None
    """The shaper's rate as a share of the stated one; None without a shaper."""
    inner: tuple[str, ...] = ()
    """The discipline of each queue without the shaper."""
    parameters: Parameters = field(default_factory=dict, hash=False)
    baseline: str = ""
    """The name of a setting that people use today without a search; empty for one of the grid."""

    @property
    def label(self) -> str:
        """The discipline with its parameters, and the shaper's share."""
        return self.name if self.share is None else f"{self.name} at {percent(self.share)}"

    @property
    def name(self) -> str:
        """The discipline with its parameters. If these differ between the directions, both are named: the first queue
        is the download's where there are two.
        """
        first, *rest = self.inner
        if all(one == first for one in rest):
            return first
        other = rest[0].removeprefix(f"{self.kind}").strip() or "defaults"
        return f"{first if first != self.kind else f'{first} defaults'} down, {other} up"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{number_text(100 * share)} %"


def highest_share(uncertain: float) -> float:
    """Returns the shaper's rate as a share of the stated rate, which the real one may be below by the share
    `uncertain`.
    """
    return round(min(HIGHEST_SHARE, BELOW * (1 - uncertain)), 3)


def packet_s(queue: Queue) -> float:
    """Returns how long a full packet takes at the rate of the slowest link, in seconds."""
    return PACKET * 8 / queue.rate_bps if queue.rate_bps else 0.0


def rounded_s(seconds: float) -> float:
    """Rounds a time as a person would write it: to whole ms from 10 ms on, and to 0.1 ms below."""
    return round(seconds, 3) if seconds >= 0.01 else max(round(seconds, 4), 0.0001)


DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "codel": {"target": 0.005, "interval": 0.1},
    "fq_codel": {"target": 0.005, "interval": 0.1},
    "pie": {"target": 0.015, "tupdate": 0.015},
    "fq_pie": {"target": 0.015, "tupdate": 0.015},
    "cake": {"rtt": 0.1},
    "ccaq": {"idle": 0.01},
}
"""The defaults of the parameters that are tuned, in Linux."""


def distance(one: Candidate) -> float:
    """Returns how far a setting is from its discipline's defaults: the sum of the logarithms of the factors."""
    known = DEFAULTS.get(one.kind, {})
    return sum(
        abs(math.log(one.parameters[name] / default)) for name, default in known.items() if name in one.parameters
    )


# ---- lines ----


def candidate(task: Task, kind: str, parameters: Parameters, share: float | None, baseline: str = "") -> Candidate:
    """Returns a discipline with these parameters for all queues of the task. Where a queue needs a shaper, it gets one
    at this share of the rate.
    """
    inner = tuple(" ".join([kind, *inner_words(kind, parameters, queue)]) for queue in task.queues)
    return _shaped(task, kind, inner, share, parameters, baseline)


def _shaped(
    task: Task, kind: str, inner: tuple[str, ...], share: float | None, parameters: Parameters, baseline: str
) -> Candidate:
    lines = []
    for queue, line in zip(task.queues, inner, strict=True):
        if queue.shaped:
            lines.append(line if share is None else shaped(line, queue, share))
        elif kind == "cake" and queue.constant and baseline != PLAIN_CAKE:
            lines.append(shaped(line, queue, 1.0))
        else:
            lines.append(line)
    any_shaped = any(queue.shaped for queue in task.queues)
    return Candidate(kind, tuple(lines), share if any_shaped else None, inner, parameters, baseline)


def shaped(line: str, queue: Queue, share: float) -> str:
    """Returns a discipline's line below a shaper: htb, or cake's own."""
    rate = rate_text(shaped_bps(queue, share))
    kind, _, rest = line.partition(" ")
    if kind == "cake":
        return f"cake bandwidth {rate}{queue.access.cake} {rest}".strip()
    return f"htb rate {rate}{queue.access.htb} child {line}"


def shaped_bps(queue: Queue, share: float) -> int:
    """Returns this share of a queue's rate in bit/s, rounded down to three digits and to whole kbit/s."""
    bps = round(queue.rate_bps * share, 3)
    unit = max(1000, int(10 ** max(0, len(str(int(bps))) - 3)))
    return max(1000, int(bps // unit) * unit)


def inner_words(kind: str, parameters: Parameters, queue: Queue) -> Iterator[str]:
    """The parameters of a discipline in a queue. CoDel's target is at least a packet's time, and its interval at least
    twice the target. ingress is for downloads.
    """
    if queue.limit is not None and kind not in ("cake", "noqueue"):
        yield f"limit {queue.limit}"
    times = {name: float(value) for name, value in parameters.items() if not isinstance(value, bool)}
    if kind in CODELS and "target" in times:
        times["target"] = max(times["target"], 1.25 * packet_s(queue))
        times["interval"] = max(times.get("interval", DEFAULTS[kind]["interval"]), 2 * times["target"])
    for name in parameters:
        if name == "ingress":
            if queue.direction == "right" and queue.shaped:
                yield name
        elif name == "idle":
            yield f"idle {100 * times[name]:g}%"
        else:
            yield f"{name} {time_text(rounded_s(times[name]))}"


# ---- the grid ----


def grid(task: Task, disciplines: Sequence[str]) -> list[Candidate]:
    """Returns the settings to search, without duplicates."""
    share = highest_share(task.uncertain)
    found = [candidate(task, kind, parameters, share) for kind in disciplines for parameters in GRIDS[kind](task)]
    return unique(found)


def _codel(task: Task) -> Iterator[Parameters]:
    yield {}
    for interval in (*(factor * task.rtt_s for factor in INTERVALS), 0.1):
        for target in LONG_TARGETS if task.rtt_s >= LONG_RTT_S else TARGETS:
            yield {"target": target * interval, "interval": interval}


def _pie(task: Task) -> Iterator[Parameters]:
    yield {}
    for target in sorted({*PIE_TARGETS_S, 0.1 * task.rtt_s, 0.2 * task.rtt_s}):
        for update in PIE_UPDATES_S:
            yield {"target": target, "tupdate": update}


def _cake(task: Task) -> Iterator[Parameters]:
    ingress: tuple[Parameters, ...] = ({}, {"ingress": True}) if any(one.shaped for one in task.queues) else ({},)
    for more in ingress:
        yield more
        for factor in CAKE_RTTS:
            yield {"rtt": factor * task.rtt_s, **more}


def _ccaq(_task: Task) -> Iterator[Parameters]:
    yield {}
    for idle in IDLE_SHARES:
        yield {"idle": idle}


GRIDS: Mapping[str, Callable[[Task], Iterator[Parameters]]] = {
    "codel": _codel,
    "fq_codel": _codel,
    "pie": _pie,
    "fq_pie": _pie,
    "cake": _cake,
    "ccaq": _ccaq,
}
"""The parameters to try, by discipline."""


def unique(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the settings without those whose lines another one has. The first stays."""
    return list({one.lines: one for one in reversed(found)}.values())[::-1]


# ---- what people set today ----


def sqm_target_s(bps: float) -> float:
    """Returns the target of sqm-scripts for a rate in bit/s: 13 992 000 / kbit/s µs below about 4 Mbit/s, else 5 ms."""
    return max(13_992_000 / (bps / 1000) * 1e-6, 0.005)


def baselines(task: Task, disciplines: Sequence[str]) -> list[Candidate]:
    """Returns what is set today: nothing, defaults, the rules of sqm-scripts and of cake, and 65/300 of the rural
    paper.

    Where the router shapes, these do so at 90 % of the stated rate.
    """
    shaped_here = any(queue.shaped for queue in task.queues)
    share = BY_HAND if shaped_here else None
    if shaped_here:
        lines = tuple("fq_codel" for _ in task.queues)
        first = Candidate("fq_codel", lines, None, lines, {}, "no shaper")
    else:
        rooms = [1000 if queue.limit is None else queue.limit for queue in task.queues]
        lines = tuple(f"pfifo limit {room}" for room in rooms)
        first = Candidate("pfifo", lines, None, lines, {}, "tail drop")
    found = [first]
    for kind in disciplines:
        if kind != "cake" or not shaped_here:  # behind a rate, cake's defaults are its rule
            found.append(candidate(task, kind, {}, share, f"{kind}'s defaults"))
    found.append(_sqm(task, share))
    found.append(candidate(task, "cake", {}, share, "cake's rule"))
    for kind in (one for one in ("codel", "fq_codel") if one in disciplines):
        found.append(candidate(task, kind, {"target": 0.065, "interval": 0.3}, share, f"{kind} 65/300"))
    return found


def _sqm(task: Task, share: float | None) -> Candidate:
    """The rule of sqm-scripts: fq_codel, with a target and an interval by the rate of each queue."""
    inner, parameters = [], {}
    for queue in task.queues:
        target = sqm_target_s(queue.rate_bps * (share or 1.0)) if queue.rate_bps else 0.005
        parameters = {"target": target, "interval": 0.095 + target}
        room = "" if queue.limit is None else f" limit {queue.limit}"
        times = " ".join(f"{name} {time_text(round(value, 6))}" for name, value in parameters.items())
        inner.append(f"fq_codel{room} {times}")
    return _shaped(task, "fq_codel", tuple(inner), share, parameters, "sqm-scripts' rule")
