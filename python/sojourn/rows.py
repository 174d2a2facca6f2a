"""The rows of a picture: each combination's name at a queue, the other values that differ, and its colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn import plot, queues, words
from sojourn.cases import Case, qdisc_of


@dataclass(frozen=True)
class Row:
    """A combination as a row of a queue's picture."""

    combination: Case
    name: str
    """The discipline's name, or the values that vary if these are others."""
    rest: str
    """The discipline's parameters, and other values that vary; may be empty."""
    colour: str
    label: str
    """All of it on one line, with the discipline's line as written."""


def rows_of(shown: Sequence[Case], hop: str) -> list[Row]:
    """A row for each combination, as a picture of this queue names them."""
    lines = [qdisc_at(one, hop) for one in shown]
    others = _others(shown, hop)
    if len(set(lines)) == 1 and len(shown) > 1:
        named = [(other or lines[0], lines[0]) for other in others]
        labels = [f"{name} {rest}" for name, rest in named]
    else:
        named = [
            (words.short_name(line), ", ".join(filter(None, (words.parameters_of(line), other))))
            for line, other in zip(lines, others, strict=True)
        ]
        labels = [", ".join(filter(None, pair)) for pair in zip(lines, others, strict=True)]
    return [
        Row(one, name, rest, colour, label)
        for one, (name, rest), colour, label in zip(shown, named, plot.colours(lines), labels, strict=True)
    ]


def qdisc_at(combination: Case, hop: str) -> str:
    """Returns a queue's discipline as the sweep writes it, or else as `tc` writes it."""
    chosen = combination.first.set
    for key, value in chosen.items():
        if key.endswith(".qdisc") and queues.queue_of_key(key, combination.first.result["hops"]) == hop:
            return str(words.schedule_text(value))
    return qdisc_of(combination.first, hop)


def _others(shown: Sequence[Case], hop: str) -> list[str]:
    """Returns labels of the values that vary besides this queue's discipline. They include the disciplines of other
    queues only if rows would otherwise be equal.
    """
    hops = list(shown[0].first.result["hops"])
    own = [{key: value for key, value in one.first.set.items() if not _is_line_of(key, hop, hops)} for one in shown]
    without = words.labels([{key: value for key, value in one.items() if not key.endswith(".qdisc")} for one in own])
    if len({(qdisc_at(one, hop), other) for one, other in zip(shown, without, strict=True)}) == len(shown):
        return without
    return words.labels(own)


def _is_line_of(key: str, hop: str, hops: Sequence[str]) -> bool:
    return key.endswith(".qdisc") and queues.queue_of_key(key, hops) == hop
