"""The `tc` command that sets a discipline on a real Linux router. All of the Python code gets it here."""

from __future__ import annotations

import re

from sojourn import _core

CHANGES = re.compile(r"; [0-9.]+(?:ns|us|ms|s|min|h): ")
"""Separates the lines of a discipline that changes during a run."""


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
