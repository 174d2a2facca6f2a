"""Traces that are made for one question, and the fates of their packets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from sojourn.errors import Refusal

HEADER = "time_ns,op,flow,bytes,ecn"
NOT_ECT, ECT1, ECT0, CE = range(4)
"""The ECN field (RFC 3168)."""
FULL = 1514
"""Bytes of a full packet."""
MS = 1_000_000
"""Nanoseconds in a millisecond."""
WORDS = ("delivered", "marked", "dropped", "queued")


class Packet(NamedTuple):
    """A packet as it arrives: its time in ns, flow, size in bytes and ECN field."""

    at: int
    flow: int
    size: int
    ecn: int


@dataclass
class Trace:
    """A trace: the times in ns at which packets arrive, and at which the link asks for a packet. Events at the same
    time happen in the order in which they were added.
    """

    rows: list[tuple[int, Packet | None]] = field(default_factory=list)
    """Events: the time in ns, and the packet that arrives. Where the packet is None, the link asks for one."""

    def put(self, at: int, *, flow: int = 1, size: int = FULL, ecn: int = NOT_ECT, count: int = 1) -> Trace:
        """Adds the arrival of `count` packets of `size` bytes."""
        self.rows += [(at, Packet(at, flow, size, ecn))] * count
        return self

    def take(self, at: int) -> Trace:
        """Adds a time at which the link asks for a packet."""
        self.rows.append((at, None))
        return self

    def take_each(self, times: Iterable[int]) -> Trace:
        """Adds times at which the link asks for a packet."""
        self.rows += [(at, None) for at in times]
        return self

    def text(self) -> bytes:
        """Returns the trace in the form that `sojourn replay` reads."""
        said = [
            f"{at},enqueue,{one.flow},{one.size},{one.ecn}" if one else f"{at},dequeue,,," for at, one in self._all()
        ]
        return "\n".join([HEADER, *said, ""]).encode()

    def packets(self) -> list[Packet]:
        """Returns the packets in the order of their numbers."""
        return [one for _, one in self._all() if one]

    def asks(self) -> list[int]:
        """Returns the times at which the link asks, in order."""
        return sorted(at for at, one in self.rows if one is None)

    def _all(self) -> list[tuple[int, Packet | None]]:
        return sorted(self.rows, key=itemgetter(0))


class Fate(NamedTuple):
    """The fate of a packet: `word` is one of WORDS; `at` is the time in ns, 0 while it is queued."""

    number: int
    word: str
    at: int

    @property
    def left(self) -> bool:
        """Whether the link got the packet."""
        return self.word in ("delivered", "marked")


def fates(csv: bytes, expected: int, who: str) -> list[Fate]:
    """Reads CSV with the columns `packet`, `fate_ns` and `fate`, in any order; other columns are ignored.

    Raises `Refusal`, with the line's number, if the text has another form or does not have one row for each of the
    `expected` packets.
    """
    lines = csv.decode("utf-8", "replace").splitlines()
    head = lines[0].strip().split(",") if lines else []
    missing = [name for name in ("packet", "fate_ns", "fate") if name not in head]
    if missing:
        raise Refusal(f"{who}: line 1: no column {missing[0]}: expected packet,fate_ns,fate (and any others)")
    places = [head.index(name) for name in ("packet", "fate_ns", "fate")]
    found: dict[int, Fate] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = line.strip().split(",")
        try:
            packet, at, said = (cells[place] for place in places)
            word = said.partition(":")[0]
            fate = Fate(int(packet), word, int(at or 0))
        except (IndexError, ValueError):
            raise Refusal(
                f"{who}: line {number}: {line[:80]!r}: expected whole numbers in packet and fate_ns, and a fate"
            ) from None
        if word not in WORDS:
            raise Refusal(f"{who}: line {number}: fate {word!r}: expected one of {', '.join(WORDS)}")
        if fate.number in found:
            raise Refusal(f"{who}: line {number}: packet {fate.number} has a fate already: expected one row for each")
        found[fate.number] = fate
    if sorted(found) != list(range(expected)):
        raise Refusal(f"{who}: {len(found)} rows: expected one for each of {expected} packets, numbered from 0")
    return [found[number] for number in range(expected)]
