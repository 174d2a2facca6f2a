"""The error that the user can correct, as opposed to a bug of sojourn."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection


class Refusal(Exception):
    """A request that cannot be met. Its message is one line: what is wrong, where, and what was expected."""


class NothingToRun(Refusal):
    """A world can play no run of a scenario."""


def nearest_of(
    word: str, names: Collection[str], least: float = 0.6, call: Callable[[str], str | None] | None = None
) -> str:
    """The end of a message: the known name nearest to a word, if one is near; `call` writes it in full."""
    nearest = difflib.get_close_matches(word, names, 1, least)
    return f"; nearest is {(call and call(nearest[0])) or nearest[0]}" if nearest else ""
