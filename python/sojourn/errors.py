"""The error that the user can correct, as opposed to a bug of sojourn."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection


class Refusal(Exception):
    """Something that the user asked for and can't have: one line says what, where and what was expected."""


class NothingToRun(Refusal):
    """A world can play no run of a scenario."""


def nearest_of(
    word: str, names: Collection[str], least: float = 0.6, call: Callable[[str], str | None] | None = None
) -> str:
    """The end of a message: the name that is most like a word, if one is like it at all; `call` says it in full."""
    nearest = difflib.get_close_matches(word, names, 1, least)
    return f"; nearest is {(call and call(nearest[0])) or nearest[0]}" if nearest else ""
