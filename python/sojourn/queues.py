"""Which queues a comparison shows.

A path has two queues a hop: `NAME`, towards the right (down), and `NAME.reverse`, towards the left (up). Most of them
stay empty. This module decides which ones are shown by tables, reports, pictures, `sweep`, `--until` and `agree`, so
that all show the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BUSY = 0.8
"""A link that is busy for at least this share of the measuring window counts as busy."""
DELAYED_MS = 1.0
"""A queue whose 95th percentile of the sojourn is at least this many ms counts as delaying packets."""
REVERSE = ".reverse"
DOWN, UP = ".down", ".up"
"""A home user's words for a hop's two queues, accepted in keys."""


@dataclass(frozen=True)
class Load:
    """A queue's load in a run, over the measuring window."""

    utilisation: float = 0.0
    """Share of the window in which the link was busy."""
    sojourn_p95_ms: float = 0.0
    mean_delay_ms: float = 0.0
    """Queue delay, weighted by time."""
    drops: float = 0.0
    """Packets."""
    marks: float = 0.0
    """Packets."""

    @property
    def works(self) -> bool:
        """Whether the queue is busy, drops, marks or delays."""
        return self.drops > 0 or self.marks > 0 or self.utilisation >= BUSY or self.sojourn_p95_ms >= DELAYED_MS


def load_of(hop: Mapping[str, Any]) -> Load:
    """The load in a hop's entry of a run's JSON."""
    sojourn, delay = hop["sojourn_ms"] or {}, hop["queue_delay_ms"] or {}
    return Load(
        utilisation=hop["utilisation"] or 0.0,
        sojourn_p95_ms=sojourn.get("p95") or 0.0,
        mean_delay_ms=delay.get("mean") or 0.0,
        drops=hop["drops"],
        marks=hop["marks"],
    )


def queue_of_key(key: str, queues: Collection[str]) -> str | None:
    """Returns the queue that a key of the scenario addresses: `hop.home.up.qdisc` is about `home.reverse`."""
    section, _, rest = key.partition(".")
    if section != "hop":
        return None
    parts = rest.split(".")
    for end in range(len(parts) - 1, 0, -1):  # names may have dots: the longest match counts
        name = ".".join(parts[:end])
        if name in queues:
            return name
        if name.endswith(UP) and name.removesuffix(UP) + REVERSE in queues:
            return name.removesuffix(UP) + REVERSE
        if name.endswith(DOWN) and name.removesuffix(DOWN) in queues:
            return name.removesuffix(DOWN)
    return None


def named(word: str, queues: Collection[str]) -> str | None:
    """Returns the queue of this name. The names of home users are accepted: `home.up` is `home.reverse`, `home.down` is
    `home`.
    """
    if word in queues:
        return word
    return queue_of_key(f"hop.{word}.qdisc", queues)


def qdisc_key(queue: str) -> str:
    """Returns the key of a queue's discipline: `hop.home.reverse.qdisc` for `home.reverse`."""
    return f"hop.{queue}.qdisc"


def swept(sets: Iterable[Mapping[str, Any]], queues: Sequence[str]) -> list[str]:
    """The queues that `[sweep]` or `--set` name, in the order of the path."""
    keys = dict.fromkeys(key for chosen in sets for key in chosen)
    named = {queue_of_key(key, queues) for key in keys}
    return [queue for queue in queues if queue in named]


def swept_disciplines(sets: Iterable[Mapping[str, Any]], queues: Sequence[str]) -> list[str]:
    """The queues whose discipline `[sweep]` or `--set` names, in the order of the path."""
    return swept(({key: value for key, value in one.items() if key.endswith(".qdisc")} for one in sets), queues)


def compared(
    sets: Collection[Mapping[str, Any]], queues: Sequence[str], loads: Iterable[Mapping[str, Load]] = ()
) -> str:
    """Returns the one queue that headlines are about.

    Queues whose discipline is swept are preferred, then queues of which another key is swept, then all others. Among
    several, it is the queue in which packets wait longest over all runs. If they wait equally long, it is the first of
    the path.
    """
    among = swept_disciplines(sets, queues) or swept(sets, queues) or list(queues)
    everywhere = list(loads)
    return max(among, key=lambda queue: math.fsum(one[queue].mean_delay_ms for one in everywhere if queue in one))


def shown(sets: Collection[Mapping[str, Any]], queues: Sequence[str], loads: Iterable[Mapping[str, Load]]) -> list[str]:
    """The queues to show, the compared one first, then in the order of the path.

    These are all swept queues, and those that are busy, drop, mark or delay in any run.
    """
    everywhere = list(loads)
    first = compared(sets, queues, everywhere)
    working = {queue for one in everywhere for queue, load in one.items() if load.works}
    asked = set(swept(sets, queues)) | working
    return [first, *(queue for queue in queues if queue in asked and queue != first)]


def compared_in(results: Sequence[Mapping[str, Any]]) -> str:
    """`compared`, from the runs' JSON."""
    return compared([one["set"] for one in results], list(results[0]["hops"]), map(_loads, results))


def shown_in(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """`shown`, from the runs' JSON."""
    return shown([one["set"] for one in results], list(results[0]["hops"]), map(_loads, results))


def _loads(result: Mapping[str, Any]) -> dict[str, Load]:
    return {name: load_of(hop) for name, hop in result["hops"].items()}
