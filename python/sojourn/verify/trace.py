"""Traces that are made for one question, and what became of their packets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sojourn.errors import Refusal

HEADER = "time_ns,op,flow,bytes,ecn"
NOT_ECT, ECT1, ECT0, CE = range(4)
"""The ECN field (RFC 3168)."""
FULL = 1514
"""Bytes of a full packet."""
MS = 1_000_000
"""Nanoseconds in a millisecond."""
WORDS = ("delivered", "marked", "dropped", "queued")


@dataclass
class Trace:
    """Arrivals, and when the link asks for a packet, in nanoseconds; those of one instant in the order of saying."""

    rows: list[tuple[int, str]] = field(default_factory=list)

    def put(self, at: int, *, flow: int = 1, size: int = FULL, ecn: int = NOT_ECT, count: int = 1) -> Trace:
        """`count` packets of `size` bytes arrive."""
        self.rows += [(at, f"enqueue,{flow},{size},{ecn}")] * count
        return self

    def take(self, at: int) -> Trace:
        """The link asks for a packet."""
        self.rows.append((at, "dequeue,,,"))
        return self

    def take_each(self, times: Iterable[int]) -> Trace:
        """The link asks at each of these times."""
        for at in times:
            self.take(at)
        return self

    def text(self) -> bytes:
        """As `sojourn replay` reads it."""
        rows = sorted(self.rows, key=lambda row: row[0])
        return "\n".join([HEADER, *(f"{at},{row}" for at, row in rows), ""]).encode()

    def packets(self) -> list[Packet]:
        """The arrivals in the order of their numbers."""
        rows = sorted(self.rows, key=lambda row: row[0])
        words = [(at, row.split(",")) for at, row in rows if row.startswith("enqueue")]
        return [Packet(at, int(flow), int(size), int(ecn)) for at, (_, flow, size, ecn) in words]

    def asks(self) -> list[int]:
        """When the link asks, in order."""
        return sorted(at for at, row in self.rows if row.startswith("dequeue"))


@dataclass(frozen=True)
class Packet:
    """As it arrives."""

    at: int
    flow: int
    size: int
    ecn: int


@dataclass(frozen=True)
class Fate:
    """What became of a packet: `word` is one of WORDS, `at` 0 while it is queued."""

    number: int
    word: str
    at: int

    @property
    def left(self) -> bool:
        """Whether the link got it."""
        return self.word in ("delivered", "marked")


def fates(csv: bytes, expected: int, who: str) -> list[Fate]:
    """Reads rows with the columns `packet`, `fate_ns` and `fate`, in any order and among others.

    Raises a `Refusal` that names the line if it is not that, or not one row for each of `expected` packets.
    """
    lines = csv.decode("utf-8", "replace").splitlines()
    head = lines[0].strip().split(",") if lines else []
    missing = [name for name in ("packet", "fate_ns", "fate") if name not in head]
    if missing:
        raise Refusal(f"{who}: line 1: no column {missing[0]}: expected packet,fate_ns,fate (and any others)")
    found: dict[int, Fate] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = dict(zip(head, line.strip().split(","), strict=False))
        word = cells.get("fate", "").split(":")[0]
        try:
            fate = Fate(int(cells["packet"]), word, int(cells["fate_ns"] or 0))
        except (KeyError, ValueError):
            raise Refusal(
                f"{who}: line {number}: {line[:80]!r}: expected whole numbers in packet and fate_ns"
            ) from None
        if word not in WORDS:
            raise Refusal(f"{who}: line {number}: fate {word!r}: expected one of {', '.join(WORDS)}")
        if fate.number in found:
            raise Refusal(f"{who}: line {number}: packet {fate.number} has a fate already: expected one row for each")
        found[fate.number] = fate
    if sorted(found) != list(range(expected)):
        raise Refusal(f"{who}: {len(found)} rows: expected one for each of {expected} packets, numbered from 0")
    return [found[number] for number in range(expected)]
