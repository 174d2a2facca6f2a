"""Compares the fates of a trace's packets in two implementations of a discipline: the changes from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.replays import columns_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORDS = ("delivered", "marked", "dropped", "queued")
"""The fates. Reasons of drops are not compared, because kernels do not report them."""
LEFT = WORDS[:2]
"""The fates of packets that left the queue towards the link."""
COLUMNS = ("packet", "flow", "bytes", "enqueue_ns", "from_fate", "from_ns", "to_fate", "to_ns")
"""The columns of packets that differ."""


@dataclass(frozen=True)
class Side:
    """One of the two implementations."""

    name: str
    count: dict[str, int]
    """The number of packets by fate."""
    mean_wait_ms: float | None
    """The mean time in the queue of packets that left it; None if none did."""


@dataclass(frozen=True)
class Differing:
    """A packet whose fate, or the time of it, differs."""

    packet: int
    flow: int
    bytes: int
    enqueue_ns: int
    fates: tuple[str, str]
    fate_ns: tuple[int, int]


@dataclass(frozen=True)
class Changes:
    """The changes from one implementation to another."""

    sides: tuple[Side, Side]
    moved: dict[tuple[str, str], int]
    """The number of packets by their two fates, for different fates."""
    retimed: int
    """The number of packets with the same fate at another time."""
    packets: int
    """The number of all packets."""
    _fates: tuple[_Fates, _Fates]
    _places: NDArray[np.int64]
    """The packets that differ, in the order of the earlier of their two fates."""

    @property
    def differing(self) -> int:
        """The number of packets that differ."""
        return len(self._places)

    def rows(self, most: int | None = None) -> Iterator[Differing]:
        """Yields the first `most` packets that differ, or all."""
        before, after = self._fates
        for place in self._places[:most]:
            yield Differing(
                packet=int(place),
                flow=int(before.flow[place]),
                bytes=int(before.bytes[place]),
                enqueue_ns=int(before.enqueue[place]),
                fates=(WORDS[before.fate[place]], WORDS[after.fate[place]]),
                fate_ns=(int(before.at[place]), int(after.at[place])),
            )

    def as_dict(self, most: int | None = None) -> dict[str, Any]:
        """The changes as values for JSON, with at most `most` of the packets."""
        first, second = self.sides
        return {
            "packets": self.packets,
            "differing": self.differing,
            "from": {"name": first.name, "fates": first.count, "mean_wait_ms": first.mean_wait_ms},
            "to": {"name": second.name, "fates": second.count, "mean_wait_ms": second.mean_wait_ms},
            "moved": [{"from": old, "to": new, "packets": count} for (old, new), count in self.moved.items()],
            "retimed": self.retimed,
            "first": [as_row(one) for one in self.rows(most)],
        }


def as_row(one: Differing) -> dict[str, Any]:
    """A packet that differs, as one row."""
    (old, new), (old_ns, new_ns) = one.fates, one.fate_ns
    cells = (one.packet, one.flow, one.bytes, one.enqueue_ns, old, old_ns, new, new_ns)
    return dict(zip(COLUMNS, cells, strict=True))


def changes(names: tuple[str, str], one: bytes, other: bytes) -> Changes:
    """Compares two results of a replay of the same trace, each the CSV that `_core.replay` returns."""
    import numpy as np

    before, after = _read(one), _read(other)
    moves = before.fate != after.fate
    retimed = ~moves & (before.at != after.at)
    pairs = np.unique(before.fate[moves] * len(WORDS) + after.fate[moves], return_counts=True)
    moved = {divmod(int(pair), len(WORDS)): int(count) for pair, count in zip(*pairs, strict=True)}
    places = np.flatnonzero(moves | retimed)
    # A packet that is still queued at the end has no time of a fate.
    times = [np.where(side.at[places] > 0, side.at[places], np.iinfo(np.int64).max) for side in (before, after)]
    places = places[np.lexsort((places, np.minimum(*times)))]
    return Changes(
        sides=(_side(names[0], before), _side(names[1], after)),
        moved={(WORDS[old], WORDS[new]): count for (old, new), count in moved.items()},
        retimed=int(retimed.sum()),
        packets=len(before.fate),
        _fates=(before, after),
        _places=places,
    )


@dataclass(frozen=True)
class _Fates:
    """The columns of a replay's result."""

    flow: NDArray[np.int64]
    bytes: NDArray[np.int64]
    enqueue: NDArray[np.int64]
    at: NDArray[np.int64]
    fate: NDArray[np.int64]
    """Indices into WORDS."""


def _read(csv: bytes) -> _Fates:
    import numpy as np

    table = columns_of(csv)
    flow, size, enqueue, at = (table[name] for name in ("flow", "bytes", "enqueue_ns", "fate_ns"))
    fate = np.select([np.char.startswith(table["fate"], word) for word in WORDS], list(range(len(WORDS))))
    return _Fates(flow, size, enqueue, at, fate)


def _side(name: str, seen: _Fates) -> Side:
    left = seen.fate < len(LEFT)
    wait_ms = float((seen.at[left] - seen.enqueue[left]).mean()) / 1e6 if left.any() else None
    return Side(name, {word: int((seen.fate == place).sum()) for place, word in enumerate(WORDS)}, wait_ms)
