"""The tables of a comparison: one for each queue that is shown, one for the whole path, one for each kind of flow.

A table has a row for each case (a combination of the sweep): means over its seeds with their 95 % intervals. It has
only columns in which some row has a number. The text of `run` and `sweep` and the report show the same tables.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from sojourn import paired, queues, tcline, words
from sojourn.cases import POOLED, Address, Cases, Flow, goodput
from sojourn.means import Mean, mean_of
from sojourn.records import RunRecord
from sojourn.words import number_text

if TYPE_CHECKING:
    import pyarrow as pa

SIGNS = {"best": "*", "worst": "!", "open": "~", "": ""}
"""A cell's mark as a character: `open` is a difference that is not significant."""
UNSEEN = 0.0005
"""An interval below this share of its mean is not written: three digits do not show it."""
FINEST_MS = 4
"""The number of decimals of a time in ms: 0.1 µs is less than a packet of 64 bytes takes at 5 Gbit/s."""
FEW_SETTINGS = 4
"""Up to this number settings are named in sentences, otherwise counted."""


@dataclass(frozen=True)
class Noticed:
    """The smallest difference of a measure that people notice: both bounds must be exceeded.

    These are conventions of this tool, well below what studies of games, calls and pages find to matter.
    """

    least: float
    """In the measure's own unit. Delays in ms have the smaller of this and a tenth of the longest base RTT."""
    share: float = 0.05
    """A share of the larger of the two numbers."""


@dataclass(frozen=True)
class Column:
    """One measure of a table."""

    head: str
    unit: str
    meaning: str
    path: str
    """The measure's keys in the JSON entry of the queue, flow or run."""
    digits: int = 3
    scale: float = 1.0
    better: str = ""
    """The better values: `lower`, `higher`, or empty if neither is better."""
    how: str = "mean"
    """How several flows' numbers are combined: a key of `cases.OVER`."""
    above_base: bool = False
    """Whether the base RTT is subtracted."""
    silent_at_zero: bool = False
    """Whether the column is left out if every case has zero."""
    noticed: Noticed | None = None
    """From which difference on people notice it; None if the headline does not decide by this column."""

    @property
    def heads(self) -> list[str]:
        """The head in two lines, the unit behind the second."""
        first, _, second = self.head.partition(" ")
        lower = f"{second} {self.unit}".strip()
        return [first, lower] if lower else ["", first]

    def of_queue(self, queue: str) -> Address:
        """Returns the measure's address for a queue."""
        return Address(self.path, queues=(queue,))

    def of_flows(self, names: Sequence[str]) -> Address:
        """Returns the measure's address for these flows."""
        return Address(self.path, flows=tuple(names), how=self.how, above_base=self.above_base)


QUEUE = (
    Column("link busy", "%", "busy share of the link in the measuring window", "utilisation", 3, 100),
    Column("sojourn p50", "ms", "half of the packets waited no longer", "sojourn_ms.p50", better="lower"),
    Column("sojourn p95", "ms", "95 % of the packets waited no longer", "sojourn_ms.p95", better="lower"),
    Column("sojourn max", "ms", "the longest wait", "sojourn_ms.max", better="lower"),
    Column("drops", "", "packets dropped", "drops", 6),
    Column("marks", "", "packets marked CE", "marks", 6, silent_at_zero=True),
    Column(
        "standing",
        "ms",
        "standing queue: the delay that did not go away within a round trip, median over time",
        "standing_queue_ms.p50",
        better="lower",
    ),
)
"""A queue's measures."""
GOODPUT = Column("goodput", "Mbit/s", "payload acknowledged, all flows together", "goodput_mbit", better="higher")
USER_GOODPUT = "payload acknowledged, all flows of this user in this direction together"
USERS_JAIN = Column(
    "Jain index",
    "",
    "Jain's index over the goodputs of the users that have long flows in this direction",
    GOODPUT.path,
    better="higher",
    how="jain",
)
WAYS = ("right", "left")
PATH_DELAY = "mean queue delay of all hops in this direction together: the sum of their means over time"


@dataclass(frozen=True)
class Kind:
    """A table for flows of some kinds."""

    key: str
    title: str
    kinds: tuple[str, ...]
    columns: tuple[Column, ...]
    by_direction: bool = False
    """Whether flows of one direction share a row; otherwise flows of one name do."""
    people: str = ""
    """The name that people have for such flows, such as `pages`; empty if the headline does not decide by them."""


_RTT = "round-trip time: "
_ROUND_TRIPS = (
    Column("RTT p50", "ms", _RTT + "half were no longer", "rtt_ms.p50", better="lower", how=POOLED),
    Column(
        "RTT p95", "ms", _RTT + "95 % were no longer", "rtt_ms.p95", better="lower", how=POOLED, noticed=Noticed(1.0)
    ),
    Column("RTT max", "ms", _RTT + "the longest", "rtt_ms.max", better="lower", how=POOLED),
    Column(
        "above base",
        "ms",
        "what the path's queues add: the 95th percentile of the RTT less the base RTT; the mean over several flows",
        "rtt_ms.p95",
        better="lower",
        above_base=True,
    ),
    Column("drops", "", "the flow's packets that were dropped", "drops", 6, how="sum", silent_at_zero=True),
)
KINDS = (
    Kind("pings", "pings", ("pings",), _ROUND_TRIPS, people="pings"),
    Kind("thin", "thin flows", ("thin",), _ROUND_TRIPS, people="thin flows"),
    Kind(
        "datagrams",
        "calls and datagrams",
        ("voip", "cbr", "onoff"),
        (
            Column(
                "delay p50",
                "ms",
                "one-way delay: half came no later; the mean over several flows",
                "delay_ms.p50",
                better="lower",
            ),
            Column(
                "delay p95",
                "ms",
                "one-way delay: 95 % came no later; the mean over several flows",
                "delay_ms.p95",
                better="lower",
                noticed=Noticed(1.0),
            ),
            Column(
                "jitter p95",
                "ms",
                "one-way delay above the least one: 95 %; the mean over several flows",
                "jitter_ms.p95",
                better="lower",
            ),
            Column(
                "loss", "%", "datagrams that never came", "loss_ratio", 3, 100, better="lower", noticed=Noticed(0.005)
            ),
            Column(
                "MOS",
                "",
                "mean opinion score of speech, from 1 to 4.5; the mean over several calls",
                "mos",
                better="higher",
                noticed=Noticed(0.1, 0.0),
            ),
        ),
        people="calls",
    ),
    Kind(
        "web",
        "web",
        ("web",),
        (
            Column(
                "page p50",
                "s",
                "half of the web pages took no longer",
                "page_load_s.p50",
                better="lower",
                how=POOLED,
                noticed=Noticed(0.02),
            ),
            Column(
                "page p95",
                "s",
                "95 % of the web pages took no longer",
                "page_load_s.p95",
                better="lower",
                how=POOLED,
                noticed=Noticed(0.02),
            ),
            Column("pages", "", "web pages loaded", "pages", 6, how="sum"),
            Column(
                "FCT p50",
                "s",
                "completion time: half of the objects took no longer",
                "fct_s.p50",
                better="lower",
                how=POOLED,
                noticed=Noticed(0.02),
            ),
            Column(
                "FCT p95",
                "s",
                "completion time: 95 % of the objects took no longer",
                "fct_s.p95",
                better="lower",
                how=POOLED,
                noticed=Noticed(0.02),
            ),
            Column(
                "unfinished",
                "",
                "objects that were not complete at the end",
                "unfinished",
                6,
                how="sum",
                silent_at_zero=True,
            ),
        ),
        people="pages",
    ),
    Kind(
        "video",
        "video",
        ("video",),
        (
            Column("quality", "Mbit/s", "mean quality of the pieces", "video.quality_mbit", better="higher"),
            Column("switches", "", "how often the quality changed", "video.switches"),
            Column("stalls", "", "how often the picture stood still", "video.stalls", better="lower"),
            Column(
                "stalled",
                "s",
                "how long the picture stood still",
                "video.stalled_s",
                better="lower",
                noticed=Noticed(0.2),
            ),
        ),
        people="video",
    ),
    Kind(
        "rpm",
        "responsiveness under load",
        ("rpm",),
        (
            Column(
                "RPM", "1/min", "round trips a minute under load", "rpm.rpm", better="higher", noticed=Noticed(1.0, 0.1)
            ),
            Column("RPM foreign", "1/min", "that of new connections", "rpm.foreign", better="higher"),
            Column("RPM loaded", "1/min", "that of connections that carry load", "rpm.loaded", better="higher"),
            Column("capacity", "Mbit/s", "stable goodput of the test", "rpm.capacity_mbit", better="higher"),
        ),
        people="responsiveness",
    ),
    Kind(
        "commands",
        "programs of yours",
        ("command",),
        (
            Column("exit code", "", "the program's exit code; nothing if a signal ended it", "command.exit", 6),
            Column("signal", "", "the signal that ended the program", "command.signal", 6),
            Column("started", "s", "the time of the run at which the program started", "command.started_s"),
            Column("ended", "s", "the time of the run at which the program had ended", "command.ended_s"),
            Column("goodput", "Mbit/s", "TCP payload acknowledged, both ways", "goodput_mbit", better="higher"),
            Column("RTT p50", "ms", _RTT + "half were no longer", "rtt_ms.p50", better="lower"),
            Column("RTT p95", "ms", _RTT + "95 % were no longer", "rtt_ms.p95", better="lower"),
        ),
    ),
    Kind(
        "transfers",
        "downloads and uploads",
        ("download", "upload", "sizes"),
        (
            Column("FCT p50", "s", "completion time: half took no longer", "fct_s.p50", better="lower", how=POOLED),
            Column("FCT p95", "s", "completion time: 95 % took no longer", "fct_s.p95", better="lower", how=POOLED),
            Column(
                "slowdown",
                "",
                "median completion time over that of an empty path",
                "slowdown.p50",
                better="lower",
                how=POOLED,
            ),
            Column("goodput", "Mbit/s", "payload acknowledged", "goodput_mbit", better="higher", how="sum"),
            Column("done", "", "transfers that were completed", "completed", 6, how="sum"),
            Column(
                "unfinished",
                "",
                "transfers that were not complete at the end",
                "unfinished",
                6,
                how="sum",
                silent_at_zero=True,
            ),
        ),
    ),
    Kind(
        "bulk",
        "long flows",
        ("bulk",),
        (
            Column("goodput", "Mbit/s", "payload acknowledged, together", "goodput_mbit", better="higher", how="sum"),
            Column("least", "Mbit/s", "the goodput of the flow with the least", "goodput_mbit", how="least"),
            Column("most", "Mbit/s", "the goodput of the flow with the most", "goodput_mbit", how="most"),
            Column("RTT p50", "ms", "the median round-trip time, mean over the flows", "rtt_ms.p50", better="lower"),
            Column("retransmits", "", "segments sent again", "retransmits", 6, how="sum"),
            Column("Jain index", "", "Jain's index over their goodputs", "goodput_mbit", better="higher", how="jain"),
        ),
        by_direction=True,
    ),
)
"""The tables of flows, in the order in which they are shown."""
FLOW_PATHS = tuple(dict.fromkeys(column.path for kind in KINDS for column in kind.columns))
"""All measures of flows in tables."""


@dataclass(frozen=True)
class Cell:
    """A number of a table."""

    mean: Mean | None
    column: Column
    mark: str = ""
    """`best`, `worst` or nothing."""
    seeds: int = 0
    """The number of seeds of the cell's case."""

    @property
    def sign(self) -> str:
        """Its mark as one character."""
        return SIGNS[self.mark]

    @property
    def partly(self) -> str:
        """Returns in how many of the seeds there is a number, as `2 of 3`; empty if all seeds have one."""
        return f"{self.mean.count} of {self.seeds}" if self.mean and self.mean.count < self.seeds else ""

    @property
    def text(self) -> str:
        """The mean, with its sign; an en dash where there is nothing."""
        return cell(self.mean, self.column)[0] + self.sign

    @property
    def plus(self) -> str:
        """Its interval, `± 0.5`, if it has one."""
        return cell(self.mean, self.column)[1]


@dataclass(frozen=True)
class Row:
    """A case in a table."""

    flow: str
    """The flow or queue that the row is about, if the table has several rows for each case; otherwise empty."""
    label: str
    case: int
    """The index of the case."""
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """A table of numbers."""

    key: str
    """`queue`, `path`, or the kind's."""
    title: str
    columns: list[Column]
    rows: list[Row]
    queue: str = ""
    """The queue that it is about."""


def tables(cases: Cases) -> list[Table]:
    """All tables of a comparison, the compared queue's first."""
    of_flows = [_users_table(cases), *(_kind_table(cases, kind) for kind in KINDS)]
    of_flows = [one for one in of_flows if one.rows]
    shown_below = {column.path for one in of_flows for column in one.columns if one.key in ("bulk", "transfers")}
    found = [queue_table(cases, queue) for queue in cases.shown]
    if len(cases.shown) > 1:
        found.append(_path_table(cases, shown_below))
    return [one for one in [*found, *of_flows] if one.rows and one.columns]


def addresses(cases: Cases) -> list[Address]:
    """Returns the addresses of all numbers that the tables, the differences and the headline of a comparison may
    read.
    """
    found = [column.of_queue(queue) for queue in cases.shown for column in QUEUE]
    found += [Address(GOODPUT.path)]
    found += [Address(paired.MEAN_DELAY, queues=tuple(cases.along(queue))) for queue in cases.shown]
    found += [one.address for one in (*paired.measures(cases), *paired.felt(cases))]
    for kind in KINDS:
        groups = groups_of(cases, kind).values()
        found += [column.of_flows([flow.name for flow in group]) for group in groups for column in kind.columns]
        found += [Address(GOODPUT.path, flows=(group[0].name,), how="most") for group in groups if kind.people]
    for way in WAYS:
        found += [one for one in _of_users(cases, way) if one]
    return list(dict.fromkeys(found))


def groups_of(cases: Cases, kind: Kind) -> dict[str, list[Flow]]:
    """Groups the flows of a kind: the flows of a group share rows."""
    groups: dict[str, list[Flow]] = {}
    for flow in cases.flows:
        if flow.kind in kind.kinds:
            groups.setdefault(flow.direction if kind.by_direction else flow.name, []).append(flow)
    return groups


def queue_table(cases: Cases, queue: str) -> Table:
    """Returns a queue's table. If it is the only queue, the table also has the measures of the whole path."""
    alone = len(cases.shown) == 1
    columns = [QUEUE[0], *((GOODPUT,) if alone else ()), *QUEUE[1:]]
    addresses = [Address(one.path) if one is GOODPUT else one.of_queue(queue) for one in columns]
    rows = [("", label, place) for place, label in enumerate(cases.labels(queue))]
    own = cases.own_discipline(queue)
    where = f"queue {queue}: {own}" if own else f"queue {queue}"
    return _table(cases, "queue", where, rows, columns, [addresses] * len(rows), queue)


def joined(made: Sequence[Table]) -> Table | None:
    """Joins the tables of several queues into one, with a group of rows for each queue. Returns None if their columns
    differ, or if a table's title has more than the queue's name.
    """
    if len(made) < 2 or any(one.columns != made[0].columns for one in made):
        return None
    if any(one.title != f"queue {one.queue}" for one in made):
        return None
    rows = [replace(row, flow=one.queue) for one in made for row in one.rows]
    return Table("queue", "queues", made[0].columns, rows)


def _path_table(cases: Cases, shown_below: Collection[str]) -> Table:
    """Returns the table of measures that belong to no single queue. These are the sum of the delays of all queues in a
    direction, if several are shown, and the goodput, unless a table of flows has it.
    """
    directions = {way: cases.along(name) for name in cases.shown for way in [_way(name)]}
    sums = {way: names for way, names in directions.items() if len([one for one in names if one in cases.shown]) > 1}
    columns = [GOODPUT] if sums or GOODPUT.path not in shown_below else []
    addresses = [Address(one.path) for one in columns]
    for way, names in sums.items():
        columns.append(Column(f"queues {way}", "ms", PATH_DELAY, paired.MEAN_DELAY, better="lower"))
        addresses.append(Address(paired.MEAN_DELAY, queues=tuple(names)))
    rows = [("", label, place) for place, label in enumerate(cases.short_labels())]
    return _table(cases, "path", "whole path", rows, columns, [addresses] * len(rows))


def _way(queue: str) -> str:
    return "left" if queue.endswith(queues.REVERSE) else "right"


def _users_table(cases: Cases) -> Table:
    """The goodput of each user in each direction, and how equal they are: whether hosts are isolated from each other.

    The scenario assigns flows to users. Flows without a user are left out.
    """
    names = list(dict.fromkeys(flow.user for flow in cases.flows if flow.user))
    columns = [Column(name, "Mbit/s", USER_GOODPUT, GOODPUT.path, how="sum") for name in names] + [USERS_JAIN]
    ways = [way for way in WAYS if any(_of_users(cases, way))]
    rows = [
        (f"to the {way}" if len(ways) > 1 else "", label, place)
        for way in ways
        for place, label in enumerate(cases.short_labels())
    ]
    addresses = [_of_users(cases, way) for way in ways for _ in cases.sets]
    return _table(cases, "users", "users", rows, columns, addresses)


def _of_users(cases: Cases, way: str) -> list[Address | None]:
    """Returns the goodput of each user's flows in a direction, followed by Jain's index. A user without flows in this
    direction has None.

    The index covers only users with long flows in this direction. Others may have a low goodput just because they have
    sent all of their data.
    """
    users: dict[str, list[Flow]] = {flow.user: [] for flow in cases.flows if flow.user}
    for flow in cases.flows:
        if flow.user and flow.direction == way:
            users[flow.user].append(flow)
    each = [
        Address(GOODPUT.path, flows=tuple(flow.name for flow in flows), how="sum") if flows else None
        for flows in users.values()
    ]
    long = [any(flow.kind == "bulk" for flow in flows) for flows in users.values()]
    greedy = [one for one, is_long in zip(each, long, strict=True) if one and is_long]
    return [*each, Address(GOODPUT.path, how="jain", parts=tuple(greedy)) if len(greedy) > 1 else None]


def _kind_table(cases: Cases, kind: Kind) -> Table:
    """Returns the table of the flows of one kind. It has a row for each case and each name of flows, or each
    direction.
    """
    groups = groups_of(cases, kind)
    title = kind.title
    if len(groups) == 1 and not kind.by_direction:
        title = f"{kind.title}: {next(iter(groups))}"
    columns = list(kind.columns)
    if kind.by_direction and any(one.user for flows in groups.values() for one in flows):
        columns = [one for one in columns if one.how != "jain"]  # the users' shares are in a table of their own
    rows = []
    addresses = []
    for name, flows in groups.items():
        shown = "" if len(groups) == 1 else f"to the {name}" if kind.by_direction else name
        for place, label in enumerate(cases.short_labels()):
            rows.append((shown, label, place))
            addresses.append([one.of_flows([flow.name for flow in flows]) for one in columns])
    made = _table(cases, kind.key, title, rows, columns, addresses)
    return _without_extremes(made) if kind.by_direction else made


def _without_extremes(made: Table) -> Table:
    """Removes the columns for the least and the most of several flows if each row has only one flow."""
    means = [
        {cell.column.how: cell.mean for cell in row.cells if cell.column.path == "goodput_mbit"} for row in made.rows
    ]
    if any(one.get("least") != one.get("most") for one in means):
        return made
    keep = [at for at, column in enumerate(made.columns) if column.how not in ("least", "most")]
    rows = [replace(row, cells=[row.cells[at] for at in keep]) for row in made.rows]
    return replace(made, columns=[made.columns[at] for at in keep], rows=rows)


def _table(
    cases: Cases,
    key: str,
    title: str,
    rows: Sequence[tuple[str, str, int]],
    columns: Sequence[Column],
    addresses: Sequence[Sequence[Address | None]],
    queue: str = "",
) -> Table:
    """A table of the measures at these addresses, without empty columns and rows."""
    known: dict[Address, tuple[list[Mean | None], list[str]]] = {}

    def cell_at(address: Address | None, column: Column, place: int) -> Cell:
        if address is None:
            return Cell(None, column)
        if address not in known:
            values = cases.read(address)
            marked = [""] * len(values)
            if column.better:
                marked = paired.marks_of(cases, values, lower_is_better=column.better == "lower")
            known[address] = ([mean_of(one) for one in values], marked)
        means, marked = known[address]
        return Cell(means[place], column, marked[place], len(cases.seeds[place]))

    cells = [
        [cell_at(address, column, place) for address, column in zip(at, columns, strict=True)]
        for (_, _, place), at in zip(rows, addresses, strict=True)
    ]
    used = [at for at in range(len(columns)) if _says_something([row[at] for row in cells])]
    return Table(
        key,
        title,
        [columns[at] for at in used],
        [
            Row(flow, label, place, [row[at] for at in used])
            for (flow, label, place), row in zip(rows, cells, strict=True)
            if any(one.mean for one in row)
        ],
        queue,
    )


def _says_something(cells: Sequence[Cell]) -> bool:
    """Whether a column has a number that is worth showing."""
    present = [one for one in cells if one.mean is not None]
    if present and present[0].column.silent_at_zero:
        return any(one.mean.value for one in present if one.mean)
    return bool(present)


# ---- paired differences ----


def differences_table(cases: Cases, found: Sequence[paired.Difference]) -> Table | None:
    """Returns the table of differences between each case and the baseline of its family, with a row for each case and a
    column for each measure. Returns None if there are no differences.
    """
    if not found:
        return None
    labels, settings = paired.choices(cases), paired.settings(cases)
    measures = list({one.measure.name: one.measure for one in found}.values())
    columns = [
        Column(one.name, one.unit, f"{one.name}, less the baseline's, seed by seed", one.address.path)
        for one in measures
    ]
    by_place = {(one.case, one.measure.name): one for one in found}
    rows = []
    for place in dict.fromkeys(one.case for one in found):
        cells = []
        for column in columns:
            one = by_place.get((place, column.head))
            mark = "" if one is None or one.told_apart else "open"
            seeds = paired.common_seeds(cases, place, one.baseline) if one else 0
            cells.append(DifferenceCell(one.mean if one else None, column, mark, seeds))
        rows.append(Row(settings[place], labels[place], place, list(cells)))
    return Table("differences", f"less {_baseline(cases, found)}, seed by seed", columns, rows)


def _baseline(cases: Cases, found: Sequence[paired.Difference]) -> str:
    """`codel`, or `codel at the same a.rate` where each family has its own."""
    return paired.choices(cases)[found[0].baseline] + paired.same_setting(cases)


@dataclass(frozen=True)
class DifferenceCell(Cell):
    """A difference with its sign, and with `~` if it is not significant."""

    @property
    def text(self) -> str:
        """`+0.5`, `-12`, `+0.1~`."""
        if self.mean is None:
            return "–"
        value = number(abs(self.mean.value), 3)
        sign = "" if value == "0" else "+" if self.mean.value > 0 else "−"
        return sign + value + self.sign


def untold(cases: Cases, found: Sequence[paired.Difference]) -> list[str]:
    """Returns a sentence for each measure about the differences that are not significant."""
    sentences = []
    for name in dict.fromkeys(one.measure.name for one in found):
        of_measure = [one for one in found if one.measure.name == name]
        open_ones = [one for one in of_measure if not one.told_apart]
        if open_ones:
            named = _named(cases, of_measure, open_ones)
            sentences.append(f"No significant difference in {name} from {_baseline(cases, found)}{named}.")
    return sentences


def _named(cases: Cases, found: Sequence[paired.Difference], open_ones: Sequence[paired.Difference]) -> str:
    """Names the cases of these differences by their settings, as `: pie, red`. If there are many settings, it gives the
    number of differences instead.
    """
    labels, settings = paired.choices(cases), paired.settings(cases)
    by_setting: dict[str, list[str]] = {}
    for one in open_ones:
        by_setting.setdefault(settings[one.case], []).append(labels[one.case] + more_seeds(one.further_seeds))
    if len({settings[one.case] for one in found}) > FEW_SETTINGS:
        return f" in {len(open_ones)} of {len(found)} comparisons"
    return ": " + "; ".join(
        f"{setting}: {', '.join(of)}" if setting else ", ".join(of) for setting, of in by_setting.items()
    )


def more_seeds(count: int | None) -> str:
    """Says in brackets how many more seeds are needed; empty if no number would be enough."""
    return f" (about {count} more {'seed' if count == 1 else 'seeds'} needed)" if count else ""


def legend(cases: Cases) -> str:
    """A line that explains the marks `best` and `worst`."""
    among = f" among the cases{paired.same_setting(cases)}" if paired.setting_keys(cases) else ""
    return (
        f"* best and ! worst of a column{among}: * is shown to differ from the worst and not from the best,"
        " ! from the best and not from the worst"
    )


def footnotes(made: Sequence[Table]) -> list[str]:
    """Says which means are over fewer seeds than their cases have; empty if none is."""
    found = {one.partly: one.mean.count for table in made for row in table.rows for one in row.cells if one.mean}
    return [f"({count}) in {partly} seeds: the others have no such number" for partly, count in found.items() if partly]


# ---- lines to paste ----


@dataclass(frozen=True)
class Command:
    """The `tc` command for a discipline that was compared."""

    queues: tuple[str, ...]
    """The queues that have it."""
    discipline: str
    line: str | None
    """The command; None where no stock kernel has the discipline."""
    note: str


def commands(cases: Cases) -> list[Command]:
    """Returns each command once, for the disciplines of the queues that are shown. Commands for the same queues are
    next to each other.

    Queues to which the file gives no discipline have no command.
    """
    pairs: list[tuple[str, str]] = []
    lines: dict[str, str] = {}
    for queue in (one for one in cases.shown if one not in cases.undescribed):
        for chosen, of_case in zip(cases.sets, cases.qdiscs, strict=True):
            resolved = of_case.get(queue, "")
            swept = next((value for key, value in chosen.items() if _is_line_of(key, queue, cases)), resolved)
            written = str(words.schedule_text(swept))
            pairs.append((queue, written))
            lines.setdefault(written, resolved)
    groups = tcline.by_queues(pairs)
    return [_command(names, written, lines[written]) for names, group in groups.items() for written in group]


def undescribed(cases: Cases) -> list[str]:
    """Returns a sentence for each shown queue to which the file gives no discipline, with the discipline that was
    assumed.
    """
    found = []
    for queue in (one for one in cases.shown if one in cases.undescribed):
        lines = dict.fromkeys(of_case[queue] for of_case in cases.qdiscs if queue in of_case)
        hop = queue.removesuffix(queues.REVERSE)
        found.append(
            f"The file gives {queue} no discipline, so it is taken to be a plain FIFO, with the limit of {hop}'s "
            f"discipline where that has one: {', '.join(lines)}. To give it one, write in the hop: "
            "up = { rate = ..., qdisc = ... }"
        )
    return found


def _command(names: tuple[str, ...], written: str, resolved: str) -> Command:
    line, note = tcline.paste(written)
    if line is None:  # sizes in BDP are for scenarios only; the resolved line has none
        line, note = tcline.paste(resolved)
    return Command(names, written, line, note)


def _is_line_of(key: str, queue: str, cases: Cases) -> bool:
    return key.endswith(".qdisc") and queues.queue_of_key(key, cases.queues) == queue


# ---- numbers as text ----


def number(value: float, digits: int) -> str:
    """A number with this many significant digits, never an exponent."""
    return number_text(value, digits)


def cell(mean: Mean | None, column: Column) -> tuple[str, str]:
    """A mean as text, and its interval; an en dash where there is nothing."""
    if mean is None:
        return "–", ""
    value = mean.value * column.scale
    if column.unit == "ms":
        value = round(value, FINEST_MS)
    text = number(round(value) if column.digits > 3 and value >= 100 else value, shown_digits(column, value))
    visible = mean.half_width and mean.half_width > UNSEEN * abs(mean.value)
    return text, f"± {interval(mean.half_width * column.scale)}" if mean.half_width and visible else ""


def shown_digits(column: Column, value: float) -> int:
    """Returns the number of significant digits to show. A mean of small counts is not a count itself, and gets
    three.
    """
    return column.digits if value >= 100 else min(column.digits, 3)


def interval(half_width: float) -> str:
    """Returns half the width of an interval with two significant digits."""
    return number(half_width, 2) if half_width >= 10 or half_width < 0.01 else f"{half_width:#.2g}"


# ---- CSV ----


def as_html(cases: Cases) -> str:
    """The tables of a comparison in HTML, for a notebook."""
    found = []
    for one in tables(cases):
        heads = "".join(f"<th>{escape(' '.join(column.heads))}</th>" for column in one.columns)
        rows = "".join(
            f"<tr><td>{escape(' '.join(filter(None, (row.flow, row.label))))}</td>"
            + "".join(f"<td>{escape(' '.join(filter(None, (cell.text, cell.plus))))}</td>" for cell in row.cells)
            + "</tr>"
            for row in one.rows
        )
        found.append(f"<table><caption>{escape(one.title)}</caption><tr><th></th>{heads}</tr>{rows}</table>")
    return "".join(found)


def as_arrow(runs: Sequence[RunRecord]) -> pa.Table:
    """One row a run with the columns of `as_csv`; null if a run has no value."""
    import pyarrow as pa

    flat, keys = _flat(runs)
    columns = {key: pa.array([None if (cell := row.get(key)) == "" else cell for row in flat]) for key in keys}
    never = {key: column.cast(pa.float64()) for key, column in columns.items() if pa.types.is_null(column.type)}
    return pa.table(columns | never)


def _flat(runs: Sequence[RunRecord]) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each run, and the names of all columns, those of flows last."""
    flat = [_flatten(record) for record in runs]
    keys = list(dict.fromkeys(key for row in flat for key in row if not key.startswith("flows.")))
    keys += list(dict.fromkeys(key for row in flat for key in row if key.startswith("flows.")))
    return flat, keys


def as_csv(runs: Sequence[RunRecord]) -> str:
    """Returns one row for each run, with its JSON entry except the start-up, `groups`, `tcp` and the disciplines'
    counters. Numbers of flows are in columns `flows.NAME.measure`.
    """
    flat, keys = _flat(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: words.csv_cell(value) for key, value in row.items()} for row in flat)
    return text.getvalue()


_SHAPE = dict.fromkeys(("mean", "p50", "p75", "p95", "p99", "max"))
_EMPTY: dict[str, dict[str, None]] = {
    "sojourn_ms": _SHAPE,
    "queue_delay_ms": _SHAPE,
    "queue_packets": _SHAPE,
    "standing_queue_ms": dict.fromkeys(("p10", "p50", "p90")),
}
"""The columns of distributions in CSV. If there are no samples, the columns exist and are empty."""
_EVERY_FLOW = ("kind", "cc", "goodput_mbit", "retransmits", "packets", "drops", "completed", "unfinished")
_TCP = {"rtt_ms": _SHAPE, "rtt_variation_ms": _SHAPE}
_TRANSFER: dict[str, Any] = _TCP | {"startup_s": _SHAPE, "fct_s": _SHAPE, "slowdown": _SHAPE}
_DATAGRAMS: dict[str, Any] = {"loss_ratio": None, "delay_ms": _SHAPE, "jitter_ms": _SHAPE}
_OF_KIND: dict[str, dict[str, Any]] = {
    "voip": _DATAGRAMS | {"mos": None},
    "cbr": _DATAGRAMS,
    "onoff": _DATAGRAMS,
    "web": _TRANSFER | {"page_load_s": _SHAPE, "pages": None},
    "download": _TRANSFER,
    "upload": _TRANSFER,
    "sizes": _TRANSFER,
    "video": _TRANSFER,
}
"""The columns that flows of each kind always have. Other columns exist only if a run has a value."""


def _flatten(record: RunRecord) -> dict[str, Any]:
    result = record.result
    row: dict[str, Any] = {"world": record.world, "seed": record.seed}
    row |= {f"set.{key}": words.cell_text(value) for key, value in record.set.items()}
    row["duration_s"] = result["duration_s"]
    if truth := record.truth:
        row |= {"live.valid": truth["valid"], "live.reasons": "; ".join(truth["reasons"])}
    row["goodput_mbit"] = goodput(result)
    for name, hop in result["hops"].items():
        shaped = {key: _EMPTY.get(key) if value is None else value for key, value in hop.items() if key != "stats"}
        _flatten_into(row, f"hops.{name}", shaped)
    _flatten_into(row, "jain", result["jain"])
    _flatten_into(row, "losses", result.get("losses", {}))
    for flow in result["flows"]:
        present = {key: value for key, value in flow.items() if value is not None and key != "name"}
        if "command" in present:
            present["command"] = present["command"] | {"argv": shlex.join(present["command"]["argv"])}
        shape = dict.fromkeys(_EVERY_FLOW) | {"loss_gap_ms": _SHAPE} | _OF_KIND.get(flow["kind"], _TCP)
        _flatten_into(row, f"flows.{flow['name']}", shape | present)
    return row


def _flatten_into(row: dict[str, Any], prefix: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten_into(row, f"{prefix}.{key}", inner)
    else:
        row[prefix] = "" if value is None else value
