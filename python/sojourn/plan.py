"""The door to scenario files: light, so that a command that only reads one starts at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sojourn import _core

WORLDS = ("sim", "kernel", "live")


def load(
    path: str | Path, sets: Sequence[tuple[str, str]] = (), seed: int | None = None, seeds: int | None = None
) -> _core.Plan:
    """Reads and checks a scenario file; `_core.Error` says what is wrong with it."""
    for text in (str(path), *(part for pair in sets for part in pair)):
        refuse_other_than_utf8(text)
    return _core.Plan.load(str(path), list(sets), seed, seeds)


def refuse_other_than_utf8(text: str) -> None:
    """Names of files and values end in records and reports, which are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _core.Error(f"{text.encode(errors='replace').decode()}: expected text in UTF-8") from error
