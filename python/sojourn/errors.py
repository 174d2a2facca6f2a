"""The error that is the user's to mend, and not ours."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class Refusal(Exception):
    """Something that the user asked for and can't have: one line says what, where and what was expected."""


class NothingToRun(Refusal):
    """A world can play no run of a scenario."""


def nearest_of(word: str, names: Collection[str], least: float = 0.6) -> str:
    """The end of a message: the name that is most like a word, if one is like it at all."""
    nearest = difflib.get_close_matches(word, names, 1, least)
    return f"; nearest is {nearest[0]}" if nearest else ""
