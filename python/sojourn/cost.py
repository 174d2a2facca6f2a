"""Estimates the CPU time and the memory of runs before they are played, from rates, limits and the duration."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sojourn import _core
from sojourn.words import number_text, time_text

NS_OF_TRANSMISSION = {"sim": 70.0, "kernel": 3000.0}
"""CPU time of a packet's transmission in nanoseconds, by world. Measured on one core: the simulator takes 40 with pfifo
and 90 with cake, and a guest 2700. In the world `live` a run takes its duration.
"""
BYTES_OF_PACKET = 100
"""Memory of a packet in flight or in a queue of the simulator, with its sender's state. Measured: 448 MB for 4.5
million packets in a queue.
"""
LONG_S = 300.0
"""Runs that may take more CPU seconds than this together are warned about."""
LARGE_BYTES = 1e9
"""Runs that may take more memory than this are warned about."""


@dataclass(frozen=True)
class Cost:
    """The cost of some runs."""

    runs: int
    run_s: float
    """CPU seconds of the longest run, at most."""
    all_s: float
    """CPU seconds of all runs together, at most."""
    held_bytes: float
    """Memory of the largest run, about, without the program's own."""
    queue: str
    """The queue that holds most packets in this run."""
    queued: float
    """Packets in this queue, about."""

    @property
    def sentence(self) -> str:
        """The cost as a sentence without an end."""
        each = f"at most {duration_text(self.run_s)} of CPU time"
        every = f", {duration_text(self.all_s)} for all {self.runs}" if self.runs > 1 else ""
        memory = f"; about {memory_text(self.held_bytes)} of memory for packets" if self.held_bytes >= 1e6 else ""
        return f"a run takes {each}{every}{memory}"


def of(plan: _core.Plan, world: str = "sim") -> Cost:
    """Returns the cost of a plan's runs. Runs of a combination differ in their seeds only, so they cost the same."""
    known: dict[str, tuple[float, float, str, float]] = {}
    ns, all_s, longest = NS_OF_TRANSMISSION.get(world, 0.0), 0.0, 0.0
    largest: tuple[float, str, float] = (0.0, "", 0.0)
    for index, run in enumerate(plan.runs):
        key = repr(run["set"])
        if key not in known:
            known[key] = plan.cost(index)
        transmissions, held, queue, queued = known[key]
        run_s = transmissions * ns / 1e9
        all_s, longest = all_s + run_s, max(longest, run_s)
        largest = max(largest, (held * BYTES_OF_PACKET, queue, queued))
    return Cost(len(plan), longest, all_s, *largest)


def refusal(plan: _core.Plan, index: int) -> str | None:
    """Returns why this machine's memory does not hold a run of the simulator, or None if it does."""
    _, held, queue, queued = plan.cost(index)
    asked, there = held * BYTES_OF_PACKET, machine_bytes()
    if asked <= there:
        return None
    others = max(held - queued, 0.0)
    room = there / BYTES_OF_PACKET - others
    limit = f"a limit of at most {_round(room)} packets"
    advice = limit if room >= 1 else "a lower rate, a shorter base RTT or fewer hops"
    return (
        f"needs about {memory_text(asked)} of memory for {number_text(held / 1e6)} million packets, of which "
        f"{number_text(queued / 1e6)} million wait in queue {queue}; this machine has {memory_text(there)}: expected "
        f"{advice}, or a shorter duration"
    )


def warnings(cost: Cost) -> list[str]:
    """Warnings about runs that take long, or much memory."""
    if cost.all_s <= LONG_S and cost.held_bytes <= LARGE_BYTES:
        return []
    where = f", most of it in queue {cost.queue}" if cost.held_bytes > LARGE_BYTES and cost.queue else ""
    return [f"{cost.sentence}{where}"]


def duration_text(seconds: float) -> str:
    """A time in the unit that a person would choose, up to days."""
    for least, unit in ((86_400.0 * 2, "d"), (3600.0 * 2, "h"), (120.0, "min")):
        if seconds >= least:
            return f"{number_text(seconds / {'d': 86_400.0, 'h': 3600.0, 'min': 60.0}[unit], 2)} {unit}"
    return time_text(max(seconds, 0.001) * 1e3, 2)


def memory_text(size: float) -> str:
    """Bytes in MB, GB or TB."""
    for least, unit in ((1e12, "TB"), (1e9, "GB")):
        if size >= least:
            return f"{number_text(size / least, 2)} {unit}"
    return f"{number_text(size / 1e6, 2)} MB"


def machine_bytes() -> int:
    """The memory of this machine in bytes."""
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))


def _round(packets: float) -> int:
    """A number with two digits that is not greater."""
    size: int = 10 ** max(len(str(int(packets))) - 2, 0)
    return int(packets) // size * size
