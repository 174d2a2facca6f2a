"""Questions to a discipline: a trace that tests one statement, and the fates that its packets must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.verify.trace import NOT_ECT, Fate, Packet, Trace

Check = Callable[[Sequence[Fate]], str | None]
"""The first fault in words, or None."""


@dataclass(frozen=True)
class Line:
    """The discipline line that is verified: its kind, all of its words, its values in base units."""

    kind: str
    full: str
    values: dict[str, Any]

    def number(self, name: str) -> int:
        """Returns a value as a number. It is 0 if the value is not set, or is given in packets although it is usually a
        time.
        """
        value = self.values.get(name)
        return int(value) if isinstance(value, (int, float)) else 0

    @property
    def variant(self) -> str:
        """Returns the variant whose decisions are expected: the word after `variant`, or "" without one."""
        words = self.full.split()
        return words[words.index("variant") + 1] if "variant" in words else ""


@dataclass(frozen=True)
class Question:
    """A trace, and a check of the fates that its packets have. `check` returns the first fault in words, or None."""

    name: str
    source: str
    trace: Trace
    check: Check


@dataclass
class Questions:
    """All questions that can be asked of a line. `left_out` names those that cannot, with the reason."""

    asked: list[Question] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, name: str, source: str, trace: Trace, check: Check) -> None:
        """Adds a question."""
        self.asked.append(Question(name, source, trace, check))


def tail(seen: Sequence[Fate], limit: int) -> str | None:
    """Checks that the first `limit` packets are queued, and all others are dropped."""
    for fate in seen:
        wanted = "queued" if fate.number < limit else "dropped"
        if fate.word != wanted:
            return f"packet {fate.number} of {len(seen)} with a limit of {limit} is {fate.word}: expected {wanted}"
    return None


def none_dropped(*, after: int = -1, until: int = 1 << 62) -> Check:
    """Checks that there is no drop and no mark between these times."""

    def check(seen: Sequence[Fate]) -> str | None:
        for fate in seen:
            if fate.word in ("dropped", "marked") and after < fate.at < until:
                return f"packet {fate.number} is {fate.word} at {fate.at} ns: expected none to be"
        return None

    return check


def signals(seen: Sequence[Fate]) -> list[Fate]:
    """Returns drops and marks in the order of their times."""
    return sorted((fate for fate in seen if fate.word in ("dropped", "marked")), key=lambda fate: fate.at)


def marks(trace: Trace) -> Check:
    """Checks that ECN-capable packets are marked, and others dropped."""
    capable = [packet.ecn != NOT_ECT for packet in trace.packets()]

    def check(seen: Sequence[Fate]) -> str | None:
        hit = signals(seen)
        if not hit:
            return "nothing is dropped or marked"
        for fate in hit:
            wanted = "marked" if capable[fate.number] else "dropped"
            if fate.word != wanted:
                return f"packet {fate.number} is {fate.word}: expected {wanted}"
        return None

    return check


def none_marked(seen: Sequence[Fate]) -> str | None:
    """Checks that at least one packet is dropped, and none is marked."""
    hit = signals(seen)
    if not hit:
        return "nothing is dropped"
    marked = next((fate for fate in hit if fate.word == "marked"), None)
    return (
        None if marked is None else f"packet {marked.number} is marked, although the line has no ecn: expected a drop"
    )


def ask_of_marks(found: Questions, name: str, source: str, trace: Trace, check: Check, *, on: bool) -> None:
    """Tests `name` if the line marks; if not, tests that nothing is marked."""
    if on:
        found.ask(name, source, trace, check)
        return
    found.left_out.append((name, "this line has no ecn, so nothing can be marked"))
    found.ask("without ecn nothing is marked", source, trace, none_marked)


def drops_arrive(trace: Trace) -> Check:
    """Checks that every dropped packet is dropped on arrival, and that at least one is dropped."""
    packets = trace.packets()

    def check(seen: Sequence[Fate]) -> str | None:
        dropped = [fate for fate in seen if fate.word == "dropped"]
        for fate in dropped:
            if fate.at != packets[fate.number].at:
                return (
                    f"packet {fate.number} of {packets[fate.number].at} ns is dropped at {fate.at}: expected on arrival"
                )
        return None if dropped else "nothing is dropped"

    return check


def delays(trace: Trace, seen: Sequence[Fate], *, begin: int, end: int) -> list[int]:
    """Returns the delays in ns of the packets that left in [begin, end), in the order of their arrival."""
    pairs = zip(trace.packets(), seen, strict=True)
    return [fate.at - packet.at for packet, fate in pairs if fate.left and begin <= fate.at < end]


def share(trace: Trace, seen: Sequence[Fate], word: str, which: Callable[[Packet], bool]) -> float:
    """Returns the share of these packets that have this fate, or 0 if there are no such packets."""
    fates = [fate.word for packet, fate in zip(trace.packets(), seen, strict=True) if which(packet)]
    return fates.count(word) / len(fates) if fates else 0.0
