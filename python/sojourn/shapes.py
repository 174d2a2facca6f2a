"""Checks values that were read from JSON, so that a file that somebody has edited is refused with its file and key.

A shape is a type (`str`, `int`, `float`, `bool`; an integer is a `float` too), a list with the shape of its items, a
dictionary with the shapes of the keys that it must have, `Each` of a shape for a dictionary with any keys, or a tuple
of shapes of which one holds; None stands for null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Shape = Any

WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", None: "null"}


@dataclass(frozen=True)
class Each:
    """A dictionary with any keys, whose values have this shape."""

    of: Shape


ANY = object()
"""Any value."""


def wrong(value: Any, shape: Shape, address: str = "") -> str:
    """Returns what is wrong with a value, with its address, in a sentence; empty if nothing is."""
    return next(_wrong(value, shape, address), "")


def _wrong(value: Any, shape: Shape, address: str) -> Iterator[str]:
    if shape is ANY:
        return
    if isinstance(shape, tuple):
        found = [list(_wrong(value, one, address)) for one in shape]
        if all(found):
            yield (
                max((one[0] for one in found), key=len)
                if isinstance(value, dict | list)
                else _said(address, value, " or ".join(_words(one) for one in shape))
            )
    elif isinstance(shape, Each):
        if not isinstance(value, dict):
            yield _said(address, value, _words(shape))
            return
        for key, inner in value.items():
            yield from _wrong(inner, shape.of, f"{address}.{key}".lstrip("."))
    elif isinstance(shape, Mapping):
        if not isinstance(value, dict):
            yield _said(address, value, _words(shape))
            return
        for key, inner in shape.items():
            if key in value:
                yield from _wrong(value[key], inner, f"{address}.{key}".lstrip("."))
            else:
                yield f"{address}: no {key}: expected {_words(inner)}".lstrip(": ")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield _said(address, value, _words(shape))
            return
        for place, item in enumerate(value):
            yield from _wrong(item, shape[0], f"{address}[{place}]")
    elif not _is(value, shape):
        yield _said(address, value, _words(shape))


def _is(value: Any, kind: Any) -> bool:
    if kind is None or isinstance(value, bool):
        return value is None if kind is None else kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)


def _words(shape: Shape) -> str:
    if isinstance(shape, Mapping | Each):
        return "an object"
    if isinstance(shape, list):
        return "a list"
    if isinstance(shape, tuple):
        return " or ".join(map(_words, shape))
    return WORDS.get(shape, "a value")


def _said(address: str, value: Any, expected: str) -> str:
    shown = repr(value)
    return f"{address} = {shown if len(shown) <= 40 else f'{shown[:40]}…'}: expected {expected}".lstrip(" =")
