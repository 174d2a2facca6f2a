"""The scenarios of RFC 7928 as rows: the file of each, its importance, and the plans that put disciplines into it.

The files are in the folder scenarios/rfc7928, which comes with the wheel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from sojourn import _core, identity, plan, words
from sojourn.errors import Refusal, nearest_of

TAIL_DROP = "pfifo"
"""The baseline, which is always played (RFC 7928 section 4.3)."""
DEFAULT = (TAIL_DROP, "codel", "fq_codel", "pie", "fq_pie", "cake", "red", "sfq", "ccaq")
"""The disciplines that are compared if none are named."""
Need = Literal["must", "should", "recommended", "may"]
"""The importance of a row, by RFC 7928 figure 4 and the sections' text."""

BOTTLENECK = "hop.bottleneck.qdisc"
OWN = "{}"
"""Stands for the line of the discipline under test."""
FIFO = "pfifo limit 1bdp"


@dataclass(frozen=True)
class Variant:
    """One way in which a row puts disciplines into its scenario."""

    label: str = ""
    lines: Mapping[str, str] = field(default_factory=lambda: {BOTTLENECK: OWN})
    """Maps addresses of disciplines to lines. The line `OWN` is that of the discipline under test."""
    sets: tuple[tuple[str, str], ...] = ()
    """Further values, as for `--set`."""
    knob: float = 1.0
    """The factor by which the discipline's own parameter of delay is changed."""


@dataclass(frozen=True)
class Row:
    """A row of the table of scenarios."""

    name: str
    """The section of RFC 7928, with the number of the experiment where a section has several."""
    title: str
    need: Need
    file: str
    variants: tuple[Variant, ...] = (Variant(),)
    cases: tuple[str, ...] = ()
    """Labels for the combinations of the file's own sweep, in their order; without any, these are its values."""
    pair: tuple[str, str] | None = None
    """Two flows whose goodputs should be equal: the ratio of the second to the first is judged."""
    cumulated: bool = False
    """Whether the goodputs of all flows are added up, as section 8.2 asks."""
    ecn: bool = False
    """Whether senders use ECN, and disciplines mark where they can."""


def _flows(count: int) -> tuple[tuple[str, str], ...]:
    return (("flow.bulk.count", str(count)),)


MILD, MEDIUM, HEAVY = 6, 13, 19
"""Flows of the congestion levels: ROUND(0.036 S), ROUND(0.081 S) and ROUND(0.114 S), where S is twice a BDP of 82.6
packets (section 8.2)."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The factors of the parameter of delay in section 8.3."""
_ECN = (("flow.category-1.ecn", "true"), ("flow.category-2.ecn", "true"))
_REVERSE, _L, _M = "hop.bottleneck.reverse.qdisc", "hop.L.qdisc", "hop.M.qdisc"

ROWS: tuple[Row, ...] = (
    Row("4.4", "packets of 500 and 1500 bytes", "should", "packet-size", pair=("large", "small")),
    Row(
        "4.5",
        "ECN with different RTTs",
        "must",
        "rtt-fairness",
        (Variant(sets=_ECN),),
        pair=("category-1", "category-2"),
        ecn=True,
    ),
    Row("4.6", "64 flows and a thin one", "should", "scheduling"),
    Row("5.1.1", "one NewReno flow", "must", "tcp-friendly"),
    Row("5.1.2", "short flows, IW 3 and 10", "must", "initial-window", cases=("IW 3", "IW 10")),
    Row("5.2", "one CUBIC flow", "must", "aggressive"),
    Row("5.3 I", "datagrams above capacity", "must", "unresponsive"),
    Row("5.3 II", "datagrams and NewReno", "must", "unresponsive-tcp", pair=("udp", "bulk")),
    Row("5.4", "NewReno and LEDBAT", "may", "less-than-best-effort"),
    Row("6.2", "RTT fairness", "must", "rtt-fairness", pair=("category-1", "category-2")),
    Row(
        "7.2",
        "bursts, cases I to IV",
        "must",
        "bursts",
        cases=("I", "II: with bulk", "III: with video", "IV: with video and bulk"),
    ),
    Row("8.2.2", "mild congestion", "must", "congestion", (Variant(sets=_flows(MILD)),), cumulated=True),
    Row("8.2.3", "medium congestion", "must", "congestion", (Variant(sets=_flows(MEDIUM)),), cumulated=True),
    Row("8.2.4", "heavy congestion", "must", "congestion", (Variant(sets=_flows(HEAVY)),), cumulated=True),
    Row(
        "8.2.5",
        "congestion that varies",
        "must",
        "congestion-varying",
        cases=("80 to 100 s: mild", "100 to 120 s: medium", "120 to 140 s: heavy"),
        cumulated=True,
    ),
    Row(
        "8.2.6 I",
        "capacity that varies slowly",
        "must",
        "capacity-slow",
        cases=(
            "0 to 20 s: 100 Mbit/s, slow start",
            "20 to 40 s: 10 Mbit/s",
            "40 to 60 s: 100 Mbit/s",
            "60 to 80 s: 10 Mbit/s",
        ),
        cumulated=True,
    ),
    Row(
        "8.2.6 II",
        "capacity that varies fast",
        "must",
        "capacity-fast",
        cases=("0 to 10 s: slow start", "10 to 50 s"),
        cumulated=True,
    ),
    Row(
        "8.3",
        "sensitivity to the parameter of delay",
        "should",
        "congestion",
        tuple(
            Variant(f"{level}, parameter × {words.number_text(factor)}", sets=_flows(count), knob=factor)
            for level, count in (("mild", MILD), ("heavy", HEAVY))
            for factor in FACTORS
        ),
        cumulated=True,
    ),
    Row("9.1", "a mix of applications", "recommended", "mix"),
    Row(
        "9.2",
        "both directions",
        "may",
        "bidirectional",
        (
            Variant("AQM one way", {BOTTLENECK: OWN, _REVERSE: FIFO}),
            Variant("AQM both ways", {BOTTLENECK: OWN, _REVERSE: OWN}),
        ),
    ),
    Row(
        "10.2",
        "two queues with AQM",
        "may",
        "multi-aqm",
        (
            Variant("the same at both", {_L: OWN, _M: OWN}),
            Variant("codel behind it", {_L: OWN, _M: "codel limit 1bdp"}),
        ),
    ),
)
BY_NAME = {row.name: row for row in ROWS}


def chosen(text: str | None) -> list[Row]:
    """Returns the rows that a list such as `5.1.1,8.2` names; a name stands for all rows that begin with it.

    Raises Refusal for a name that begins no row.
    """
    if text is None:
        return list(ROWS)
    found: list[Row] = []
    for word in (part.strip() for part in text.split(",")):
        named = [row for row in ROWS if row.name == word or re.match(rf"{re.escape(word)}[ .]", row.name)]
        if not named or not word:
            raise Refusal(f"--rows: {word!r}: expected one of {', '.join(BY_NAME)}{nearest_of(word, list(BY_NAME))}")
        found += named
    return [row for row in ROWS if row in found]


# ---- disciplines ----

CAKE_BYTES = 2344 / 1514
"""Memory that a full packet takes in Linux, in packets' lengths. Cake's limit counts memory."""
_LIMITED = re.compile(r"\b(?:limit|memlimit|memory_limit)\s")


def is_outside(line: str) -> bool:
    """Returns whether a line has a name that none of our disciplines has: it may be one of the user's."""
    return _core.refuse_outside(line.partition(" ")[0]) is None


def disciplines(asked: Sequence[str], outside: Collection[str] = ()) -> list[str]:
    """Returns the lines to compare, tail drop first, each once. Without any, the default ones. `outside` are the names
    of disciplines of the user's.

    Raises Refusal for a line that is no discipline's.
    """
    lines = [words.tidied(line) for line in asked or (*DEFAULT, *outside)]
    for line in lines:
        if line.partition(" ")[0] in outside:
            continue
        try:
            _values(line)
        except _core.Error as error:
            raise Refusal(str(error).replace(_plain(line), line, 1)) from error
    first = next((line for line in lines if words.short_name(line) == TAIL_DROP), TAIL_DROP)
    return list(dict.fromkeys([first, *lines]))


def names(lines: Sequence[str]) -> list[str]:
    """Returns a short name for each line; the line itself where several have the same name."""
    short = [words.short_name(line) for line in lines]
    return [name if short.count(name) == 1 else line for name, line in zip(short, lines, strict=True)]


def fixed_limits(lines: Sequence[str], buffer: float) -> list[str]:
    """Returns a sentence for each line with a limit that is not in BDP: it is the same in every row, while the other
    lines have a buffer of the row's bandwidth-delay product.
    """
    found = []
    for line in lines:
        limit = _LIMITED.search(line)
        number = line[limit.end() :].split() if limit else []
        if limit is None or not number or number[0].endswith("bdp"):
            continue
        word = limit.group().split()[0]
        found.append(
            f"{line}: {word} {number[0]} is the same in every row, and lines without a limit get {buffer:g} BDP of the "
            f"row (in 8.2.6 ten times that of 8.2.2): write {word} {buffer:g}bdp to compare like with like"
        )
    return found


def buffered(line: str, buffer: float) -> str:
    """Returns a line with a limit of `buffer` BDP. A line that has a limit keeps it, and only the user knows how to
    limit a discipline of the user's.
    """
    if _LIMITED.search(line) or is_outside(line):
        return line
    if words.disciplines_of(line)[-1] == "cake":
        return f"{line} memlimit {buffer * CAKE_BYTES:.4g}bdp"
    return f"{line} limit {buffer:.4g}bdp"


_BDP = re.compile(r"\b[\d.]+bdp\b")


def _plain(line: str) -> str:
    """Returns a line with a limit, and with any size in place of sizes in BDP: the discipline's own reader takes it."""
    return _BDP.sub("100000", buffered(line, 1.0))


def _values(line: str) -> dict[str, Any]:
    """Returns the parameters of a line by name."""
    values: dict[str, Any] = _core.qdisc(_plain(line))["values"]
    return values


def disclosed(line: str) -> str:
    """Returns a line with all its parameters but the limit, which depends on the row. A discipline of the user's has
    those that its line gives.
    """
    if is_outside(line):
        return line
    full = str(_core.qdisc(_plain(line))["full"])
    return full if _LIMITED.search(line) else re.sub(r" (?:limit|memlimit) \S+", "", full)


def marking(line: str) -> str:
    """Returns a line that marks ECN-capable packets, where the discipline can; otherwise the line itself."""
    if re.search(r"\b(?:no)?ecn\b", line) or is_outside(line):
        return line
    try:
        _values(f"{line} ecn")
    except _core.Error:
        return line
    return f"{line} ecn"


KNOBS = {
    "codel": ("target",),
    "fq_codel": ("target",),
    "pie": ("target",),
    "fq_pie": ("target",),
    "dualpi2": ("target",),
    "cake": ("rtt",),
    "ccaq": ("idle",),
    "red": ("min", "max"),
}
"""The parameters that say how much delay a discipline allows (section 4.3.1)."""
RED = {"min": 1 / 12, "max": 1 / 4}
"""Linux's defaults of RED's thresholds, as shares of the buffer."""


def has_knob(line: str) -> bool:
    """Returns whether a discipline has a parameter of delay."""
    return bool(_knobs(line))


def _knobs(line: str) -> tuple[str, ...]:
    kind = words.disciplines_of(line)[-1]
    return ("flow_limit",) if kind == "ccaq" and "variant paper" in line else KNOBS.get(kind, ())


def tuned(line: str, factor: float, buffer: float) -> str:
    """Returns a line whose parameters of delay are changed by a factor. Other disciplines are not changed."""
    for name in _knobs(line) if factor != 1.0 else ():
        line = _with(line, name, _times(line, name, factor, buffer))
    return line


def _times(line: str, name: str, factor: float, buffer: float) -> str:
    """Returns the value of a parameter for a delay that is `factor` times as long."""
    if name in RED:
        return f"{RED[name] * buffer * factor:.4g}bdp"
    value = _values(line)[name]
    if name == "idle":  # in hundredths of a percent; more idle time is less delay
        return f"{value / factor / 100:.2f}%"
    return f"{round(value * factor)}" if name == "flow_limit" else f"{round(value * factor / 1000)}us"


def _with(line: str, name: str, value: str) -> str:
    changed, count = re.subn(rf"\b{name}\s+\S+", f"{name} {value}", line)
    return changed if count else f"{line} {name} {value}"


# ---- plans ----


def folder() -> Path:
    """The folder of the rows' scenario files."""
    bundled = plan.bundled()
    if not bundled:
        raise Refusal("the scenarios of RFC 7928 are missing: expected the folder scenarios/rfc7928 of the wheel")
    return next(iter(bundled.values())).parent / "rfc7928"


@dataclass(frozen=True)
class Asked:
    """A variant of a row with the disciplines in it."""

    row: Row
    variant: Variant
    plan: _core.Plan
    lines: tuple[str, ...]
    """The line of each discipline as it is played. Its place is the discipline's."""
    key: str
    """The address whose swept value is this line."""

    def place(self, one: Mapping[str, Any]) -> int:
        """Returns the place of the discipline of a run with these values."""
        return self.lines.index(str(one[self.key]))

    def case(self, one: Mapping[str, Any]) -> str:
        """Returns a label for the values of a run besides its discipline."""
        own = self._own(one)
        if self.row.cases:
            return self.row.cases[self._cases.index(own)]
        said = [f"{key.removeprefix('flow.').replace('.', ' ')} {words.written(value)}" for key, value in own.items()]
        return ", ".join([self.variant.label, *said] if self.variant.label else said)

    def _own(self, one: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values that the file's own sweep gives to a run."""
        fixed = {*self.variant.lines, *(key for key, _ in self.variant.sets)}
        return {key: value for key, value in one.items() if key not in fixed}

    @cached_property
    def _cases(self) -> list[dict[str, Any]]:
        """The combinations of the file's own sweep, in their order."""
        found: list[dict[str, Any]] = []
        for run in self.plan.runs:
            if (own := self._own(run["set"])) not in found:
                found.append(own)
        return found


def asked(
    row: Row,
    lines: Sequence[str],
    *,
    buffer: float = 1.0,
    seed: int | None = None,
    seeds: int = 10,
    outside: Sequence[str] = (),
) -> list[Asked]:
    """Returns the plans of a row: one for each variant, with each discipline and each case of the row's file.

    `buffer` is the buffer's size in BDP. Raises Refusal for a line that the scenario's reader refuses.
    """
    path = folder() / f"{row.file}.toml"
    document = identity.document_of(path.read_text(encoding="utf-8"))
    found = []
    for variant in row.variants:
        own = [buffered(tuned(marking(line) if row.ecn else line, variant.knob, buffer), buffer) for line in lines]
        swept = {key: own for key, line in variant.lines.items() if line == OWN}
        fixed = {key: line.replace("1bdp", f"{buffer:.4g}bdp") for key, line in variant.lines.items() if line != OWN}
        sweep = {"zip": [list(swept)], **swept} if len(swept) > 1 else swept
        scenario = {**document, "sweep": {**sweep, **document.get("sweep", {})}}
        sets = [*variant.sets, *fixed.items()]
        made = _core.Plan.parse(_core.to_toml(scenario), str(path), sets, seed, seeds, lines=False, outside=outside)
        found.append(Asked(row, variant, made, tuple(own), next(iter(swept))))
    return found
