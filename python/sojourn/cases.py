"""The cases that a comparison has (the combinations of a sweep), and their numbers by address.

Tables, paired differences and the headline read numbers through `Cases`, whether these come from the runs of
`sojourn run` or from the rows of a store, so that both show the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sojourn import identity, queues, words
from sojourn.records import RunRecord

Values = list[list[float | None]]
"""One list for each case, with one value for each of its seeds."""


@dataclass(frozen=True)
class Address:
    """Where a number is in a run's JSON: in the entry of a queue, of one or several flows, or of the run itself."""

    path: str
    """Keys of the JSON entry, joined by dots: `sojourn_ms.p95`."""
    queues: tuple[str, ...] = ()
    """Names of queues. With several, the number is the sum over them."""
    flows: tuple[str, ...] = ()
    """Shared names of flows: `bulk0` means bulk0.0, bulk0.1, …"""
    how: str = "mean"
    """How the flows' numbers are combined: a key of `OVER`. `pooled` takes the number over all samples of the flows of
    a name together, and the mean over several names.
    """
    above_base: bool = False
    """Whether each flow's base RTT, in ms, is subtracted."""
    parts: tuple[Address, ...] = ()
    """Addresses of other numbers of the run. If there are any, this number combines those that exist, in the way `how`.
    """

    @property
    def text(self) -> str:
        """The address as `sojourn sweep` writes it. It is unambiguous only for one queue, or for a mean over flows of
        one name.
        """
        if self.queues:
            return f"hops.{self.queues[0]}.{self.path}"
        return f"flows.{self.flows[0]}.{self.path}" if self.flows else self.path


def _jain(values: Sequence[float]) -> float | None:
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares and len(values) > 1 else None


POOLED = "pooled"
OVER: Mapping[str, Callable[[Sequence[float]], float | None]] = {
    "mean": statistics.fmean,
    POOLED: statistics.fmean,
    "sum": math.fsum,
    "least": min,
    "most": max,
    "jain": _jain,
}
"""Ways to combine several flows' numbers."""


def shared_name(flow: str) -> str:
    """Returns the name that flows of one scenario entry share: `bulk0` for `bulk0.1`."""
    return ".".join(part for part in flow.split(".") if not part.isdigit())


@dataclass(frozen=True)
class Flow:
    """Flows that share a name."""

    name: str
    kind: str
    direction: str
    """`right` or `left`."""
    user: str = ""
    """The user whose host has them, where the scenario names one."""


class Record(Protocol):
    """A run's record, such as `records.RunRecord`."""

    @property
    def result(self) -> dict[str, Any]:
        """The run's entry in the JSON."""

    @property
    def about(self) -> dict[str, Any]:
        """The plan's description of the run: queues, flows, rates."""

    @property
    def title(self) -> str:
        """The scenario's title."""

    @property
    def scenario(self) -> str:
        """The scenario file's text."""


@dataclass(frozen=True)
class Cases:
    """The cases of a comparison, their runs and their queues."""

    title: str
    world: str
    sets: list[dict[str, Any]]
    """For each case, its values by key."""
    seeds: list[list[int]]
    """For each case, its seeds."""
    queues: list[str]
    """Every queue, in the order of the path."""
    shown: list[str]
    """The queues to show, the compared one first."""
    qdiscs: list[dict[str, str]]
    """For each case, the discipline of each queue as a `tc` line."""
    flows: list[Flow]
    random: bool
    """Whether the results of any case depend on the seed; true if that is not known."""
    read: Callable[[Address], Values] = field(repr=False)
    undescribed: tuple[str, ...] = ()
    """The queues to which the scenario file gives no discipline; see the function `undescribed`."""
    longest_rtt_ms: float = math.inf
    """The longest base RTT of all cases; infinite if that is not known."""

    @property
    def compared(self) -> str:
        """The queue that headlines are about."""
        return self.shown[0]

    def labels(self, queue: str | None = None) -> list[str]:
        """Returns each case's label in a table of this queue: the values that distinguish it from the other cases, or
        the queue's discipline if nothing differs.

        The label may name only disciplines of other queues. If this queue then has several disciplines, its own is
        appended: `codel: pfifo limit 1000`. If it has a single one, `own_discipline` returns it. Without `queue`, the
        labels are for the compared queue.
        """
        about = queue or self.compared
        if len(self._own_disciplines(about)) < 2:
            return self._differences(about)
        names = words.short_names(self._differences(about))
        return [f"{name}: {of_case[about]}" for name, of_case in zip(names, self.qdiscs, strict=True)]

    def own_discipline(self, queue: str) -> str:
        """Returns the discipline that a queue has in all cases, if the labels of its rows name only disciplines of
        other queues; otherwise an empty text.
        """
        return next(iter(self._own_disciplines(queue)), "") if len(self._own_disciplines(queue)) == 1 else ""

    def _own_disciplines(self, queue: str) -> list[str]:
        """Returns a queue's disciplines if the labels of its rows name only disciplines of other queues; otherwise
        none.
        """
        named = [queues.queue_of_key(key, self.queues) for key in self._keys(queue) if key.endswith(".qdisc")]
        if not named or queue in named:
            return []
        return list(dict.fromkeys(of_case[queue] for of_case in self.qdiscs if queue in of_case))

    def _keys(self, queue: str) -> list[str]:
        return label_keys(self.sets, queue, self.queues)

    def _differences(self, queue: str) -> list[str]:
        said = labels(self.sets, queue, self.queues)
        return [label or of_case.get(queue, "") for label, of_case in zip(said, self.qdiscs, strict=True)]

    def _swept_together(self) -> list[list[str]]:
        """Returns the labels for each queue whose discipline is swept together with that of another queue. Returns none
        if fewer than two queues are swept in this way.
        """
        own = [self._own_lines(queue) for queue in self._swept_queues()]
        return own if len(own) > 1 else []

    def _swept_queues(self) -> list[str]:
        """Returns the queues whose disciplines are swept together (`zip`), if nothing else distinguishes the cases."""
        varied = varied_keys(self.sets)
        if not varied or not all(key.endswith(".qdisc") for key in varied):
            return []
        every = math.prod(len({repr(one.get(key)) for one in self.sets}) for key in varied)
        if len(varied) > 1 and len(self.sets) >= every:  # each value with each of the others
            return []
        named = [queue for key in varied if (queue := queues.queue_of_key(key, self.queues))]
        return [queue for queue in self.queues if queue in named] if len(named) == len(varied) else []

    def _own_lines(self, queue: str) -> list[str]:
        """Returns a queue's swept line in each case, as labels write it."""
        (key,) = (one for one in varied_keys(self.sets) if queues.queue_of_key(one, self.queues) == queue)
        return [str(words.schedule_text(one.get(key, ""))) for one in self.sets]

    def short_labels(self, queue: str | None = None) -> list[str]:
        """Returns short labels: for tables that are about no particular queue, and for places that repeat the labels of
        a queue's table. They name disciplines without parameters where the names alone distinguish the cases; the
        queue's own table has the whole lines. A single case has an empty label.

        Without `queue`, the labels describe all queues whose disciplines are swept together, or else the compared
        queue.
        """
        if len(self.sets) == 1:
            return [""]
        about = queue or self.compared
        if len(self._own_disciplines(about)) > 1:
            return self.labels(about)
        together = self._swept_together() if queue is None or len(self._keys(queue)) > 1 else []
        names = [words.short_names(one) for one in together or [self._differences(about)]]
        kinds = {words.short_name(line) for of_case in self.qdiscs for line in of_case.values() if line}
        if all(one == names[0] for one in names) and set(names[0]) <= kinds:
            return names[0]
        if not together:
            return self._differences(about)
        both = [
            words.listed(list(dict.fromkeys(map(words.short_name, of_case)))) for of_case in zip(*together, strict=True)
        ]
        return both if len(set(both)) == len(both) else words.merged(list(zip(*together, strict=True)))

    def settings(self) -> list[str]:
        """Returns a sentence for each short label that stands for the disciplines of several queues, with all of their
        lines: `cake: home.reverse cake bandwidth 9mbit; home cake bandwidth 45mbit ingress`. Otherwise none.
        """
        together = {queue: self._own_lines(queue) for queue in self._swept_queues()}
        if len(together) < 2:
            return []
        return [
            f"{label}: " + "; ".join(f"{queue} {lines[place]}" for queue, lines in together.items())
            for place, label in enumerate(self.short_labels())
            if {label} != {lines[place] for lines in together.values()}
        ]

    def along(self, queue: str) -> list[str]:
        """Returns the queues of the path that have the same direction as this one."""
        reverse = queue.endswith(queues.REVERSE)
        return [name for name in self.queues if name.endswith(queues.REVERSE) == reverse]

    @property
    def shares_path(self) -> bool:
        """Whether another queue that is shown has the same direction as the compared queue."""
        return any(name in self.shown for name in self.along(self.compared) if name != self.compared)

    @property
    def several_seeds(self) -> bool:
        """Whether any case has more than one seed."""
        return any(len(one) > 1 for one in self.seeds)


def of_records(records: Sequence[Record]) -> Cases:
    """Returns the cases of these runs, in the plan's order. Runs that differ only in their seed are one case."""
    results = [one.result for one in records]
    groups = list(grouped(records).values())
    firsts = [group[0] for group in groups]
    qdiscs = [{hop["name"]: str(hop["qdisc"]) for hop in one.about["hops"]} for one in firsts]
    return Cases(
        title=records[0].title,
        world=str(results[0]["world"]),
        sets=plain_sets([dict(one.result["set"]) for one in firsts], qdiscs),
        seeds=[[int(one.result["seed"]) for one in group] for group in groups],
        queues=list(results[0]["hops"]),
        shown=queues.shown_in(results),
        qdiscs=qdiscs,
        flows=flows_of(
            (one.about for one in firsts), users_of(records[0].scenario, [one.result["set"] for one in firsts])
        ),
        random=any(is_random(one) for one in records),
        read=lambda address: [[read(one, address) for one in group] for group in groups],
        undescribed=undescribed(records[0].scenario, [one["set"] for one in results], list(results[0]["hops"])),
        longest_rtt_ms=max(float(record.about["longest_rtt_ms"]) for record in records),
    )


def plain_sets(sets: Sequence[Mapping[str, Any]], qdiscs: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Returns each case's values by key. A discipline that was pasted from the output of `tc` is named by its line,
    `qdiscs`, unless this line is another case's too: the output is a name that nobody can read.
    """
    plain = [dict(one) for one in sets]
    for key in dict.fromkeys(key for one in sets for key in one if key.endswith(".qdisc")):
        named: dict[str, set[str]] = {}
        pasted = []
        for one, of_case in zip(plain, qdiscs, strict=True):
            queue, value = queues.queue_of_key(key, list(of_case)), one.get(key)
            line = of_case[queue] if queue and words.is_pasted(value) else str(value)
            named.setdefault(line, set()).add(str(value))
            pasted.append((one, line))
        for one, line in pasted:
            if words.is_pasted(one.get(key)) and len(named[line]) == 1:
                one[key] = line
    return plain


def is_random(record: Record) -> bool:
    """Returns whether the run's result depends on its seed. It is assumed to if the record does not say."""
    return bool(record.about.get("draws", True))


Some = TypeVar("Some", bound=Record)


def grouped(records: Sequence[Some]) -> dict[str, list[Some]]:
    """Groups runs by the values that they set."""
    groups: dict[str, list[Some]] = {}
    for record in records:
        groups.setdefault(repr(record.result["set"]), []).append(record)
    return groups


def users_of(scenario: str, sets: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Maps the shared name of flows to their user. Flows whose user is not the same in all cases are left out."""
    document = identity.document(scenario)
    found: dict[str, set[str]] = {}
    for one in sets if document else ():
        for flow in identity.resolved(document, one).get("flow", ()):
            for name in (flow["name"], f"{flow['name']}.right", f"{flow['name']}.left"):
                found.setdefault(name, set()).add(str(flow.get("user", "")))
    return {name: user for name, users in found.items() if len(users) == 1 for user in users if user}


def undescribed(scenario: str, sets: Iterable[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, ...]:
    """Returns the reverse queues to which neither the scenario's text nor a swept value gives a discipline.

    These queues are FIFOs with the limit of the hop's other discipline. If that discipline is swept, they may therefore
    differ between cases.
    """
    document = identity.document(scenario)
    if not document:
        return ()
    hops = identity.resolved(document, {}).get("hop", ())
    given = {hop["name"] + queues.REVERSE for hop in hops if "qdisc" in hop.get("reverse", ())}
    given |= set(queues.swept_disciplines(sets, names))
    return tuple(name for name in names if name.endswith(queues.REVERSE) and name not in given)


def flows_of(abouts: Any, users: Mapping[str, str]) -> list[Flow]:
    """Returns all flows that these descriptions of runs name, one for each shared name, in the order of the
    descriptions.
    """
    found: dict[str, Flow] = {}
    for about in abouts:
        for one in about["flows"]:
            name = shared_name(one["name"])
            found.setdefault(name, Flow(name, one["kind"], one["direction"], users.get(name, "")))
    return list(found.values())


def read(record: Record, address: Address) -> float | None:
    """The run's number at an address, or None."""
    result = record.result
    if address.parts:
        return combined([read(record, one) for one in address.parts], address.how)
    if address.queues:
        return combined([_leaf(result["hops"].get(queue), address.path) for queue in address.queues], "sum")
    if not address.flows:
        return goodput(result) if address.path == "goodput_mbit" else _leaf(result, address.path)
    bases = {one["name"]: float(one["base_rtt_ms"]) for one in record.about["flows"]} if address.above_base else {}
    found = []
    if address.how == POOLED:
        groups = {
            one["name"]: _leaf(one, address.path) for one in result.get("groups", ()) if one["name"] in address.flows
        }
        found += list(groups.values())
    for flow in result["flows"]:
        if address.how == POOLED and shared_name(flow["name"]) in groups:
            continue
        if shared_name(flow["name"]) in address.flows:
            value = _leaf(flow, address.path)
            found.append(None if value is None else value - bases.get(flow["name"], 0.0))
    return combined(found, address.how)


def combined(values: Sequence[float | None], how: str) -> float | None:
    """Combines the numbers that exist into one, in the way that a key of `OVER` names. Returns None if none exists."""
    present = [value for value in values if value is not None]
    return OVER[how](present) if present else None


def goodput(result: Mapping[str, Any]) -> float:
    """Returns the rate of acknowledged payload of all flows of a run together, in Mbit/s."""
    return math.fsum(flow["goodput_mbit"] or 0.0 for flow in result["flows"])


def _leaf(value: Any, path: str) -> float | None:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


# ---- each case with its runs ----


@dataclass(frozen=True)
class Case:
    """A case with its runs, which differ in their seed only."""

    label: str
    """The words that distinguish it from the other cases; if nothing varies, the discipline of the compared queue."""
    qdisc: str
    """The discipline line of the queue that is compared."""
    runs: list[RunRecord]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Maps a queue to the case's label in a table or picture of that queue."""

    @property
    def first(self) -> RunRecord:
        """The run with the first seed."""
        return self.runs[0]

    def label_at(self, hop: str) -> str:
        """Returns the label of a row that has this queue's numbers."""
        return self.labels.get(hop, self.label)

    def hop(self, name: str) -> list[dict[str, Any]]:
        """Returns one hop's numbers for every seed."""
        return [record.result["hops"][name] for record in self.runs]


def case_list(runs: Sequence[RunRecord]) -> list[Case]:
    """Runs grouped by the values that they set, in order, with labels that name only the values that differ."""
    found = of_records(runs)
    groups = grouped(runs).values()
    said = {queue: found.labels(queue) for queue in found.queues}
    return [
        Case(
            label=said[found.compared][place],
            qdisc=found.qdiscs[place].get(found.compared, ""),
            runs=group,
            labels={queue: of_queue[place] for queue, of_queue in said.items()},
        )
        for place, group in enumerate(groups)
    ]


def qdisc_of(record: RunRecord, hop: str) -> str:
    """A queue's discipline in a run, as `tc` writes it."""
    for described in record.about["hops"]:
        if described["name"] == hop:
            return str(described["qdisc"])
    return ""


# ---- labels ----


def labels(sets: Sequence[Mapping[str, Any]], queue: str, names: Sequence[str]) -> list[str]:
    """Returns a label for each case in a table of this queue. It has the values of `label_keys`; equal values appear
    once. It is empty if nothing varies.
    """
    keys = label_keys(sets, queue, names)
    return words.labels([{key: one[key] for key in keys if key in one} for one in sets])


def label_keys(sets: Sequence[Mapping[str, Any]], queue: str, names: Sequence[str]) -> list[str]:
    """Returns the keys whose values make up the cases' labels in a table of this queue.

    These are the queue's own keys if their values distinguish all cases: then a discipline of the other direction that
    is swept together with this one is not mentioned. Otherwise they are all keys of disciplines, if these distinguish
    the cases; otherwise every key that varies.
    """
    varied = varied_keys(sets)
    own = [key for key in varied if queues.queue_of_key(key, names) == queue]
    disciplines = [key for key in varied if key.endswith(".qdisc")]
    for keys in ([key for key in own if key.endswith(".qdisc")], own, disciplines):
        if keys and len({tuple(repr(one.get(key)) for key in keys) for one in sets}) == len(sets):
            return keys
    return varied


def varied_keys(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same in all cases."""
    keys = dict.fromkeys(key for one in sets for key in one)
    return [key for key in keys if len({repr(one.get(key)) for one in sets}) > 1]
