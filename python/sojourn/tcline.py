"""The `tc` command that sets a discipline on a real Linux router. The only place that builds it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sojourn import _core, queues

CHANGES = re.compile(r"; [0-9.]+(?:ns|us|ms|s|min|h): ")
"""Separates the lines of a discipline that changes during a run."""
DOWN, UP, BOTH = "to the right", "to the left", "to the right and to the left"
CLEAR = "tc qdisc del dev eth0 root"
"""Takes the root discipline from an interface."""
BEFORE = (
    "eth0 is the interface that sends in the direction named: LAN or an ifb for a download, WAN for an upload. Before "
    "each command, remove what is set (an error means that nothing was):"
)
"""A note about all commands: which interface they mean, and the state that it must be in. `CLEAR` follows it."""


def by_queues(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, ...], list[str]]:
    """Disciplines by the queues that have them, from pairs of queue and discipline: each discipline is named once."""
    having: dict[str, list[str]] = {}
    for queue, qdisc in pairs:
        names = having.setdefault(qdisc, [])
        if queue not in names:
            names.append(queue)
    found: dict[tuple[str, ...], list[str]] = {}
    for qdisc, names in having.items():
        found.setdefault(tuple(names), []).append(qdisc)
    return found


def where(names: Sequence[str]) -> str:
    """These queues, and the direction in which they send."""
    up = [name.endswith(queues.REVERSE) for name in names]
    return f"{' and '.join(names)} ({UP if all(up) else BOTH if any(up) else DOWN})"


def paste(qdisc: str) -> tuple[str | None, str]:
    """The `tc` command for a discipline as a scenario writes it, for the device eth0, and a note.

    The command is `None` where no stock kernel has the discipline; the note then says why. With a command the note says
    what else it needs, and is empty if that is nothing. A shaper with a discipline below it needs several commands,
    joined by `&&`. Text that is no discipline's line gives `None` and the reader's message.
    """
    if CHANGES.search(qdisc):
        return None, "it changes during the run, so it has no single command"
    try:
        return _core.paste(qdisc, "eth0")
    except _core.Error as error:
        return None, str(error)
