"""The command that gives a real Linux router a discipline: the only place in Python that knows it."""

from __future__ import annotations

import re

from sojourn import _core

CHANGES = re.compile(r"; [0-9.]+(?:ns|us|ms|s|min|h): ")
"""Between the lines of a discipline that changes during a run."""


def paste(qdisc: str) -> tuple[str | None, str]:
    """The `tc` command for a discipline as a scenario writes it, for the device eth0, and a note.

    The command is `None` where no stock kernel has the discipline; the note then says why. With a command the note says
    what else it needs, and is empty if that is nothing. A shaper with a discipline below it needs several commands,
    joined by `&&`. Text that is no discipline's line gives `None` and the reader's message.
    """
    if CHANGES.search(qdisc):
        return None, "it changes during the run: give one of its lines"
    try:
        return _core.paste(qdisc, "eth0")
    except _core.Error as error:
        return None, str(error)
