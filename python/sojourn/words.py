"""Values as a person writes them: 3.16 ms, 20 Mbit/s, 1.5 kB; for tables, pictures, legends and messages."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

NOTHING = "–"
"""The character that tables show where there is no value."""

Kind = Literal["time", "rate", "size", "bdp", "number"]

_TIMES = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
"""Milliseconds in each of the scenario file's units of time."""
_PREFIXES = {"": 1e-6, "k": 1e-3, "m": 1.0, "g": 1e3, "t": 1e6}
"""Mbit/s in each of its units of rate."""
_SIZES = {"b": 1.0, "k": 1024.0, "kb": 1024.0, "mb": 1024.0**2, "gb": 1024.0**3, "p": 1.0}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([a-zµ]*)", re.IGNORECASE)


def number_text(value: float, digits: int = 3) -> str:
    """A number with this many significant digits, without an exponent or trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NOTHING
    places = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{Decimal(repr(round(float(value), places))):,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(",", " ")


def time_text(ms: float | None, digits: int = 3) -> str:
    """A time, given in ms, in the unit a person would choose."""
    if ms is None or not math.isfinite(ms):
        return NOTHING
    if round(abs(ms)) >= 1000:
        return f"{number_text(ms / 1000, digits)} s"
    if 0 < abs(ms) < 0.0009995:
        return f"{number_text(ms * 1e6, digits)} ns"
    return f"{number_text(ms * 1000, digits)} µs" if 0 < abs(ms) < 0.09995 else f"{number_text(ms, digits)} ms"


def rate_text(mbit: float | None, digits: int = 3) -> str:
    """A rate, given in Mbit/s, in the unit a person would choose."""
    if mbit is None or not math.isfinite(mbit):
        return NOTHING
    for least, unit in ((1e3, "Gbit/s"), (1.0, "Mbit/s"), (1e-3, "kbit/s")):
        if abs(mbit) >= least * 0.9995:
            return f"{number_text(mbit / least, digits)} {unit}"
    return f"{number_text(mbit * 1e6, digits)} bit/s" if mbit else "0 Mbit/s"


OUTAGE_MBIT = 1e-6
"""A rate up to this is an outage: the scenario's reader turns an outage into one bit per second."""


def link_rate_text(mbit: float) -> str:
    """The rate of a link, given in Mbit/s, or `outage`."""
    return rate_text(mbit) if mbit > OUTAGE_MBIT else "outage"


def size_text(size: float | None, digits: int = 3) -> str:
    """A size, given in bytes, in the decimal unit a person would choose."""
    if size is None or not math.isfinite(size):
        return NOTHING
    for least, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size) >= least * 0.9995:
            return f"{number_text(size / least, digits)} {unit}"
    return f"{number_text(size, digits)} B"


def percent_text(share: float | None, digits: int = 3) -> str:
    """A share, 1 being all, in percent."""
    return NOTHING if share is None else f"{number_text(100 * share, digits)} %"


@dataclass(frozen=True)
class Quantity:
    """A number in a scenario, with the kind of quantity that it is."""

    kind: Kind
    value: float
    """Times in ms, rates in Mbit/s, sizes in bytes (a limit in packets is a number)."""

    def text(self, digits: int = 3) -> str:
        """Returns it as a person writes it."""
        if self.kind == "bdp":
            return f"{number_text(self.value, digits)} BDP"
        writers = {"time": time_text, "rate": rate_text, "size": size_text}
        return writers.get(self.kind, number_text)(self.value, digits)


UNITS: Mapping[Kind, str] = {"time": "ms", "rate": "Mbit/s", "size": "bytes", "bdp": "BDP", "number": ""}
"""The unit in which a quantity's value is kept."""


def seeds_text(seeds: Sequence[int]) -> str:
    """Names the seeds of runs, which are in order: `seed 1`, `3 seeds (1–3)`."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]}–{seeds[-1]})"


def mean_text(value: float, half_width: float | None) -> str:
    """A mean with half of its interval, if it has one: `1.23 ± 0.05`.

    The mean is no finer than the interval says: this is rounded up to one digit, or two if the first is 1, and the
    mean has its last decimal place, but one to three digits.
    """
    if not half_width or not math.isfinite(half_width) or not math.isfinite(value):
        return number_text(value)
    first = math.floor(math.log10(half_width))
    places = -first + (half_width < 2 * 10.0**first)
    if value:
        own = math.floor(math.log10(max(abs(value), half_width / 10)))
        places = max(-own, min(places, 2 - own))
    if half_width * 10.0**places < SMALL:
        return number_text(value)
    half = math.ceil(round(half_width * 10.0**places, 6)) / 10.0**places
    return " ± ".join(f"{round(one, places):,.{max(places, 0)}f}".replace(",", " ") for one in (value, half))


SMALL = 0.05
"""Half of an interval below this many last places of its mean is not shown."""


def listed(names: Sequence[str]) -> str:
    """Names one or several things: `a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def quantity(value: object) -> Quantity | None:
    """Returns a scenario's value as a quantity (`"3162278ns"`, `"20mbit"`, `"8bdp"`, `100`), or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return Quantity("number", float(value))
    found = _QUANTITY.fullmatch(value.strip())
    if not found:
        return None
    size, unit = float(found[1]), found[2].lower()
    if unit in _TIMES:
        return Quantity("time", size * _TIMES[unit])
    if unit.endswith("bit") and unit[:-3] in _PREFIXES:
        return Quantity("rate", size * _PREFIXES[unit[:-3]])
    if unit in ("", "p", "bdp"):
        return Quantity("bdp" if unit == "bdp" else "number", size)
    return Quantity("size", size * _SIZES[unit]) if unit in _SIZES else None


def written(value: object, digits: int = 3) -> str:
    """Returns a scenario's value as a person writes it. Disciplines and other words are not changed."""
    if isinstance(value, float):
        return number_text(value, digits)
    if not isinstance(value, str):
        return toml_text(value)
    found = quantity(value)
    return found.text(digits) if found and found.kind in ("time", "rate") else value


def toml_text(value: object) -> str:
    """A value in one line of TOML: `{ trace = "a.csv", scale = 0.5 }`."""
    if isinstance(value, Mapping):
        pairs = [f"{_toml_key(str(key))} = {toml_text(inner)}" for key, inner in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def cell_text(value: object) -> str:
    """Returns a scenario's value for a cell of a CSV: text unchanged, lists and tables as TOML."""
    return toml_text(value) if isinstance(value, list | Mapping) else str(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def schedule_text(value: object) -> object:
    """Returns a value in the form of a run's description. If it changes with time, this is the first value, and then
    each later value with its time.

    Other lists (such as a measuring window) and tables are written as TOML.
    """
    if not isinstance(value, list | Mapping):
        return value
    if isinstance(value, Mapping) or not all(isinstance(step, list) and len(step) == 2 for step in value):
        return toml_text(value)
    return "; ".join(line if number == 0 else f"{at}: {line}" for number, (at, line) in enumerate(value))


def lines_of(value: object) -> list[str]:
    """Returns the discipline's lines that a queue has one after the other, from a scenario's value or a run's
    description.
    """
    if isinstance(value, list):
        return [str(line) for _, line in value]
    return re.split(r"; \S+: ", str(value))


def disciplines_of(line: str) -> list[str]:
    """Returns the names of the disciplines in a line, the outermost first: `htb rate 8mbit child codel` has two.

    If the discipline changes during the run, these are the disciplines at its start.
    """
    return [part.split()[0] for part in lines_of(line)[0].split(" child ") if part.split()]


def tidied(text: str) -> str:
    """Returns a discipline as a user gave it, without needless spaces and ends of lines, and without the counters of
    `tc -s`. In the output of `tc` each qdisc and each class keeps a line of its own.
    """
    kept: list[str] = []
    is_counter = False
    for line in filter(None, (" ".join(one.split()) for one in text.splitlines())):
        begins = line.startswith(("qdisc ", "class "))
        is_counter = not begins and (is_counter or line.startswith("Sent "))
        if not is_counter:
            kept.append(f"\n{line}" if begins and kept else f" {line}" if kept else line)
    return "".join(kept)


_PASTED = re.compile(r"\s*(?:(?:qdisc|class) |[\[{])")


def is_pasted(value: object) -> bool:
    """Returns whether a discipline's value is the output of `tc qdisc show`, `tc class show` or `tc -j`."""
    return isinstance(value, str) and _PASTED.match(value) is not None


def short_name(line: str) -> str:
    """Returns a line without its parameters: `htb + codel`. A variant, which is another algorithm, is kept: `ccaq
    variant paper`. A discipline that changes has all its names: `cake → fq_codel`.

    If only parameters change, the name is written twice: `cake → cake`.
    """
    names = [" + ".join(map(_with_variant, one.split(" child "))) for one in lines_of(line)]
    changes = [name for name, before in zip(names[1:], names, strict=False) if name != before]
    return " → ".join([names[0], *(changes or names[1:2])])


_VARIANT = re.compile(r"\bvariant \S+")


def _with_variant(part: str) -> str:
    """Returns a discipline's name, with its variant if the line gives one."""
    variant = _VARIANT.search(part)
    return " ".join([*part.split()[:1], *([variant.group()] if variant else [])])


def short_names(lines: Sequence[str]) -> list[str]:
    """Returns these lines shortened by `short_name` if they then still differ from each other; otherwise unchanged."""
    names = [short_name(line) for line in lines]
    return names if len(set(names)) == len(names) else list(lines)


def merged(cases: Sequence[Sequence[str]]) -> list[str]:
    """Returns one label for each case, where each case has one line for each of several queues. The label is true for
    all of these queues.

    Words in which the lines differ are joined by "and" (`cake dual-dsthost and dual-srchost`): a case has all of them.
    Words that all cases of a discipline begin with are left out, except its name.
    """
    whole = []
    for lines in cases:
        parts = [line.split() for line in dict.fromkeys(lines)]
        if len({len(part) for part in parts}) == 1:
            whole.append([" and ".join(dict.fromkeys(column)) for column in zip(*parts, strict=True)])
        else:
            whole.append(" and ".join(dict.fromkeys(lines)).split())
    labels = [" ".join([own[0], *own[_begin(own, whole) :]]) for own in whole]
    return labels if len(set(labels)) == len(labels) else [" ".join(own) for own in whole]


def _begin(own: Sequence[str], all_words: Sequence[Sequence[str]]) -> int:
    """Returns how many first words a label shares with all other labels of its discipline: at least 1, the discipline's
    name. A parameter's name and value are not separated.
    """
    alike = [others for others in all_words if others[0] == own[0]]
    if len(alike) < 2:
        return 1
    count = 0
    while count < min(map(len, alike)) and len({others[count] for others in alike}) == 1:
        count += 1
    values = any(others[count][0].isdigit() for others in alike if len(others) > count)
    return max(1, count - 1 if values else count)


def parameters_of(line: str) -> str:
    """Returns the parameters that `short_name` leaves out. For a shaper with a child, the shaper's parameters come
    first.
    """
    parts = (" ".join(_VARIANT.sub("", part.partition(" ")[2]).split()) for part in line.split(" child "))
    return "; ".join(filter(None, parts))


def distinct(values: Sequence[object]) -> list[str]:
    """Returns the values of one key as `written` does, with enough digits to distinguish different values."""
    different = len({json.dumps(value) for value in values})
    for digits in range(3, 16):
        texts = [written(value, digits) for value in values]
        if len(set(texts)) >= different:
            return texts
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def labels(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a label for each combination of a sweep. It has only the values that differ between combinations.

    If a combination has the same swept line several times, as for both directions of a hop, the label has it once.
    """
    keys = list(dict.fromkeys(key for one in sets for key in one))
    texts: dict[str, dict[str, str]] = {}
    for key in keys:
        values = {json.dumps(one[key]): one[key] for one in sets if key in one}
        if key.endswith(".qdisc"):
            values = {name: schedule_text(value) for name, value in values.items()}
        if len(values) > 1 or not all(key in one for one in sets):
            texts[key] = dict(zip(values, distinct(list(values.values())), strict=True))
    return [_label(one, texts) for one in sets]


def _label(one: Mapping[str, Any], texts: Mapping[str, Mapping[str, str]]) -> str:
    parts = []
    for key in (key for key in one if key in texts):
        text = texts[key][json.dumps(one[key])] or "none"
        parts.append(text if key.endswith(".qdisc") else f"{key.removeprefix('hop.').removeprefix('flow.')} {text}")
    return ", ".join(dict.fromkeys(parts))


def rows_as_csv(
    heads: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True, checked: bool = False
) -> str:
    """Rows below their heads, as CSV. A missing value (None) is empty. Without `header` it is the rows only, which
    follow others. `checked`: no cell needs `csv_cell` any more.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(map(csv_cell, heads))
    writer.writerows(rows if checked else (map(csv_cell, row) for row in rows))
    return text.getvalue()


_FORMULA = re.compile(r"[=@\t\r]|[+-](?![0-9.]+[A-Za-z%]*$|[0-9.]+e[+-]?[0-9]+$)")


def csv_cell(value: object) -> object:
    """Returns a cell of CSV. A spreadsheet takes a text that begins with =, +, - or @ for a formula, and a scenario's
    texts may come from anybody, so such a text gets an apostrophe in front. Numbers stay as they are.
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


HIDDEN = (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that a terminal acts on and does not show: controls, and those that change the direction of text."""
_REPLACED = dict.fromkeys(HIDDEN, "\ufffd")


def harmless(text: str) -> str:
    """Returns a text of one line without `HIDDEN` characters. Each becomes U+FFFD, and tabs and new lines become
    blanks.
    """
    return re.sub(r"[\t\n\r]", " ", text).translate(_REPLACED)
