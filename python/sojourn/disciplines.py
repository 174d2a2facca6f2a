"""Disciplines of the user's, which a scenario names like those of ours: a shared library with the functions of
crates/ffi/include/sojourn.h, or a class in Python.

A line for tc whose first word is the name of such a discipline is passed to it as it is, name included.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from sojourn import _core, files
from sojourn.errors import Refusal, nearest_of

DIGITS = 12
"""The number of digits of a digest that messages and records show."""


@dataclass(frozen=True)
class Library:
    """A shared library."""

    name: str
    """The name that lines refer to."""
    file: Path
    digest: str
    """The SHA-256 of the file."""
    apart: ClassVar[bool] = True
    """Whether a run with it is played in a process of its own, which may crash or hang."""

    @staticmethod
    def of(word: str) -> Library:
        """Reads `FILE` or `NAME=FILE`. Without a name it is the file's, without `lib` and the suffix.

        Raises Refusal if the file cannot be read, or if the name is taken.
        """
        name, equals, rest = word.partition("=")
        file = Path(rest if equals else word)
        if not equals:
            name = file.name.split(".")[0].removeprefix("lib")
        if why := _core.refuse_outside(name):
            more = "" if equals else f" (--library NAME={word} gives it one)"
            raise Refusal(f"--library = {word}: name {name}: {why}{more}")
        return Library(name, file, digest_of(file))

    @property
    def said(self) -> str:
        """The file, as the user wrote it, for messages."""
        return str(self.file)

    @property
    def source(self) -> object:
        """The path, as `_core` takes it."""
        return str(self.file.resolve())

    def refuse_change(self) -> None:
        """Raises Refusal if the file is not the one that was read at the start, such as after a new build."""
        if digest_of(self.file) != self.digest:
            raise Refusal(f"--library = {self.file}: has changed since this command began; finished runs are kept")


def digest_of(file: Path) -> str:
    """The SHA-256 of a library. Raises Refusal if it cannot be read, or is no library."""
    try:
        data = files.read_bytes(file, "a shared library")
    except Refusal as error:
        raise Refusal(f"--library = {error}") from None
    if not data.startswith(b"\x7fELF"):
        raise Refusal(f"--library = {file}: no ELF file: expected a shared library, as cc -shared -fPIC makes it")
    return hashlib.sha256(data).hexdigest()


class Discipline(_core.Discipline):
    """A queue discipline in Python, for prototypes: subclass it, and write `enqueue` and `dequeue`.

    The words of the line after the name are given to `__init__` by name: `mine limit 100 target 5ms` calls
    `Mine(limit=100, target=5_000_000)`. Numbers, times (in nanoseconds) and rates (in bit/s) are converted. A parameter
    whose default is a truth value is a word of its own: `ecn` is `ecn=True`, `noecn` is `ecn=False`.

    A packet has `bytes`, `flow` (a hash, equal for all packets of a flow), `ecn` (0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE)
    and `arrival` (ns). `packet.mark()` sets CE if the packet is ECN-capable, and returns whether it carries CE now. You
    may add attributes of your own. `self.drop(packet, reason)` drops a packet; the reasons are those of `sojourn list
    reasons`. Times are integers in nanoseconds, and never decrease.

    `self.mtu` is the length of a full packet in bytes, `self.rate` the link's rate in bit/s. The same calls must have
    the same results each time: do not read a clock, and draw random numbers from `self.seed`.
    """

    mtu: int
    """The bytes of a full packet, as the link counts it."""
    rate: int
    """The link's rate at the start, in bit/s."""
    seed: int
    """The seed for random numbers."""

    def enqueue(self, packet: _core.Packet, now: int) -> None:
        """Takes a packet: keep it, or drop it with `self.drop`. Every subclass has its own."""
        raise NotImplementedError

    def dequeue(self, now: int) -> _core.Packet | None:
        """Returns the packet to send now, or None. It is called for an empty queue too. Every subclass has its own."""
        raise NotImplementedError

    def next_event(self) -> int | None:
        """Returns when to dequeue again, after a dequeue that returned None although packets wait; None means at the
        next arrival.
        """
        return None


@dataclass(frozen=True)
class InPython:
    """A class in Python that is a discipline."""

    name: str
    of: type[Discipline] = field(hash=False)
    apart: ClassVar[bool] = False

    @property
    def said(self) -> str:
        """The class, for messages."""
        return f"class {self.of.__name__}"

    @property
    def source(self) -> object:
        """The function that creates the discipline, as `_core` takes it."""
        return self.make

    def make(self, line: str, mtu: int, rate: int, seed: int) -> Discipline:
        """Creates the discipline for a link. Raises Refusal for words that its class does not take."""
        made = self.of.__new__(self.of)
        made.mtu, made.rate, made.seed = mtu, rate, seed
        self.of.__init__(made, **_parameters(self.of, line.split()[1:]))
        return made

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the file that defines the class, or of the class itself in a notebook."""
        file = getattr(sys.modules.get(self.of.__module__), "__file__", None)
        try:
            text = Path(file).read_text(encoding="utf-8") if file else inspect.getsource(self.of)
        except (OSError, TypeError):
            raise Refusal(f"{self.said}: its source is not there, so a store could not tell versions apart") from None
        return hashlib.sha256(f"{self.of.__qualname__}\n{text}".encode()).hexdigest()

    def refuse_change(self) -> None:
        """A class does not change while it is used."""


Outside = Library | InPython
"""A discipline of the user's."""


def in_python(classes: Mapping[str, type[Discipline]] | None) -> tuple[InPython, ...]:
    """Disciplines in Python, from classes by name. Raises Refusal for a name that is taken, or another type."""
    for name, of in (classes or {}).items():
        if why := _core.refuse_outside(name):
            raise Refusal(f"disciplines: name {name!r}: {why}")
        if not (isinstance(of, type) and issubclass(of, Discipline)):
            raise Refusal(f"disciplines: {name} = {of!r}: expected a subclass of sojourn.Discipline")
        for method in ("enqueue", "dequeue"):
            if getattr(of, method) is getattr(Discipline, method):
                raise Refusal(f"disciplines: {name} = class {of.__name__}: has no method {method}: expected one")
    return tuple(InPython(name, of) for name, of in (classes or {}).items())


def refuse_twice(outside: Iterable[Outside]) -> None:
    """Raises Refusal if two disciplines have the same name."""
    seen: dict[str, str] = {}
    for one in outside:
        if one.name in seen:
            raise Refusal(f"{seen[one.name]} and {one.said}: both are named {one.name}: expected NAME=FILE for one")
        seen[one.name] = one.said


# ---- the words of a line ----

UNITS = {
    **{"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    **{"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9},
}
"""The units of numbers: times in nanoseconds, rates in bit/s."""


def _parameters(of: type[Discipline], words: Sequence[str]) -> dict[str, Any]:
    """The arguments that a line gives to a class."""
    takes = {} if of.__init__ is object.__init__ else inspect.signature(of.__init__).parameters
    any_word = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    known = [name for name, one in takes.items() if one.kind is not inspect.Parameter.VAR_KEYWORD][1:]
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        plain = word.removeprefix("no")
        for name, value in ((word, True), (plain, False)):
            if name in takes and isinstance(takes[name].default, bool):
                found[name] = value
                break
        else:
            if word not in known and not any_word:
                raise Refusal(f"no parameter {word}: expected {', '.join(known) or 'none'}{nearest_of(word, known)}")
            value_word = next(rest, None)
            if value_word is None:
                raise Refusal(f"{word}: expected a value after it")
            found[word] = _value(value_word)
    return found


def _value(word: str) -> int | float | str:
    """A word as a number where it is one: 100, 0.25, 5ms, 10mbit."""
    number: Callable[[str], int | float]
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            pass
    digits = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    factor = UNITS.get(word[len(digits) :])
    try:
        return word if factor is None else round(float(digits) * factor)
    except ValueError:
        return word
