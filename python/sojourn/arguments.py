"""Checks the arguments of the Python API, so that a wrong one is named in a sentence where it was given.

The command's options have the same names as the API's arguments. A message of a part that both use says `--until`; the
API says `until`.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from sojourn import _core
from sojourn.errors import Refusal, nearest_of

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Check:
    """A condition that an argument has to meet."""

    expected: str
    """The end of the message: `a whole number from 1`."""
    holds: Callable[[Any], bool]
    names: tuple[str, ...] = ()
    """All values, if they are few."""


def whole(low: int, high: int) -> Check:
    """A whole number within these bounds."""

    def holds(value: Any) -> bool:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and low <= int(value) <= high

    return Check(f"a whole number from {low} to {high}", holds)


def one_of(*names: str) -> Check:
    """One of these texts."""
    return Check(f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names, names)


def having(what: str, *methods: str) -> Check:
    """An object with these methods or attributes."""
    return Check(what, lambda value: all(hasattr(value, name) for name in methods))


def either(*checks: Check) -> Check:
    """A value that one of these checks allows."""
    *first, last = (one.expected for one in checks)
    return Check(f"{', '.join(first)} or {last}", lambda value: any(one.holds(value) for one in checks))


TEXT = Check("a text", lambda value: isinstance(value, str))
PATH = Check("a path", lambda value: isinstance(value, str | os.PathLike))
LINES = Check("a list of texts", lambda value: isinstance(value, list | tuple) and all(map(TEXT.holds, value)))
FLAG = Check("True or False", lambda value: isinstance(value, bool))
CALL = Check("a function", callable)
NAMED = Check(
    "a dictionary whose keys are texts",
    lambda value: isinstance(value, Mapping) and all(isinstance(key, str) for key in value),
)
TABLE = having("a dictionary of columns", "keys", "__getitem__")
DATA = Check("bytes", lambda value: isinstance(value, bytes))
SEED = whole(0, 2**63 - 1)
SEEDS = whole(1, 1_000_000)


def takes(**checks: Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a public function: its arguments are checked, by name. An argument may be its default, too.

    The function raises Refusal for an argument that fails its check, and TypeError for one that it does not have. Its
    own errors speak of its arguments, and not of the command's options.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        options = "|".join(map(re.escape, signature.parameters))
        option = re.compile(rf"(?<![\w-])--({options})(?=[ :;,.])")

        @functools.wraps(function)
        def checked(*args: P.args, **more: P.kwargs) -> R:
            given = signature.bind(*args, **more).arguments
            for name, check in checks.items():
                if name in given and given[name] is not signature.parameters[name].default:
                    refuse_other(f"{function.__name__}: {name}", given[name], check)
            try:
                return function(*args, **more)
            except (Refusal, _core.Error) as error:
                error.args = (option.sub(r"\1", str(error)),)
                raise

        return checked

    return decorate


def refuse_other(name: str, value: object, check: Check) -> None:
    """Raises Refusal if a value fails its check. `name` is what the message calls it."""
    if check.holds(value):
        return
    shown = repr(value) if len(repr(value)) <= 80 else f"a {type(value).__name__}"
    nearest = nearest_of(value, check.names) if isinstance(value, str) else ""
    raise Refusal(f"{name} = {shown}: expected {check.expected}{nearest}")
