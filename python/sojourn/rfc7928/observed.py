"""Reads the runs of RFC 7928's rows: the end-to-end measures of each class of flows, run by run.

A class is a flow of the scenario file, or all flows of one entry with a count. RFC 7928 judges by end-to-end measures
(section 4.2); the queue's own are kept next to them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn import cases
from sojourn.measures import STREAMS
from sojourn.results import Results
from sojourn.rfc7928.suite import Asked
from sojourn.runs import base_rtts

ALL = ""
"""The class of a run's own measures."""
RATED = ("bulk", "video", *STREAMS)
"""Kinds whose goodput tells what a discipline leaves them. Others are limited by their application."""
MEASURES: Mapping[str, str] = {
    "goodput": "Mbit/s",
    "delay": "ms",
    "completion": "s",
    "startup": "s",
    "loss": "share",
    "loss_gap": "ms",
    "pdv_p95": "ms",
    "mos": "",
    "quality": "Mbit/s",
    "unfairness": "",
    "ratio": "",
    "synchronisation": "share",
    "utilisation": "share",
    "sojourn_mean": "ms",
    "sojourn_p95": "ms",
    "queue_p95": "packets",
    "drops": "packets",
    "marks": "packets",
}
"""The measures and their units.

`delay` is the mean queuing delay: of round trips above the base RTT, of datagrams above half of it. `completion` is the
mean time of transfers or of web pages, `startup` the mean time until a server begins to send. `loss` is the share of
packets lost, `loss_gap` the mean time between losses. `pdv_p95` is the 95th percentile of the delay's variation, of
datagrams one way, otherwise of round trips. `unfairness` is at least 1, which means equal shares; `ratio` is the
goodput of the second category over that of the first; `synchronisation` is the share of bulk flows that lose in a loss
event. Those from `utilisation` on are the queue's.
"""


@dataclass(frozen=True)
class Seen:
    """The measures of one class in one run."""

    place: int
    """The place of the discipline."""
    case: str
    seed: int
    name: str
    """The class, or `ALL` for the run itself."""
    kind: str
    values: Mapping[str, float | None]
    """By the names of `MEASURES`."""
    flows: tuple[tuple[float, float], ...] = ()
    """Mean queuing delay in ms and goodput in Mbit/s of each flow that has both."""


COLUMNS = ("seed", "goodput_mbit", "hops", "flows", "jain", "losses")


def observed(asked: Asked, results: Results) -> list[Seen]:
    """Returns the measures of every class in every run of these results, in the order of the plan."""
    from sojourn import columns

    abouts = (about for one in results.combinations for about in results.kept.abouts(one).items())
    bases = {index: base_rtts(about) for index, about in abouts}
    indices = results.indices
    found: dict[int, list[Seen]] = {}
    for places, table in results.kept.batches(indices, COLUMNS):
        for at, run in zip(places, columns.rows_of(table), strict=True):
            index = indices[at]
            found[index] = list(_run(asked, asked.plan.runs[index], run, bases[index]))
    return [one for index in sorted(found) for one in found[index]]


def versions(results: Results) -> dict[str, str]:
    """Returns the versions of the programs that played the first of these runs."""
    from sojourn import columns

    found: dict[str, str] = {}
    for _, table in results.kept.batches(results.indices[:1], ("versions",)):
        found |= columns.rows_of(table)[0]["versions"]
    return found


def _run(
    asked: Asked, planned: Mapping[str, Any], run: Mapping[str, Any], bases: Mapping[str, float]
) -> Iterator[Seen]:
    place, case = asked.place(planned["set"]), asked.case(planned["set"])
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for flow in run["flows"]:
        groups.setdefault(cases.shared_name(flow["name"]), []).append(flow)
    seed = int(run["seed"])
    goodputs: dict[str, float] = {}
    for name, flows in groups.items():
        if values := _values(flows, bases):
            goodputs[name] = values["goodput"] or 0.0
            yield Seen(place, case, seed, name, flows[0]["kind"], values, _points(flows, bases))
    hop = run["hops"][asked.key.split(".")[1]]
    sojourn, packets = hop["sojourn_ms"] or {}, hop["queue_packets"] or {}
    whole = {
        "goodput": run["goodput_mbit"],
        "unfairness": _unfairness(asked, goodputs, run),
        "ratio": _ratio(asked, goodputs),
        "synchronisation": (run["losses"] or {}).get("synchronisation"),
        "utilisation": hop["utilisation"],
        "sojourn_mean": sojourn.get("mean"),
        "sojourn_p95": sojourn.get("p95"),
        "queue_p95": packets.get("p95"),
        "drops": hop["drops"],
        "marks": hop["marks"],
    }
    yield Seen(place, case, seed, ALL, "", whole)


def _values(flows: Sequence[Mapping[str, Any]], bases: Mapping[str, float]) -> dict[str, float | None]:
    """Returns the measures of a class; none if it sent nothing in the measuring window."""
    if not any(flow["packets"] for flow in flows):
        return {}
    packets = sum(flow["packets"] for flow in flows)
    stream = flows[0]["kind"] in STREAMS and flows[0]["loss_ratio"] is not None
    loss = _mean([flow["loss_ratio"] for flow in flows]) if stream else sum(flow["drops"] for flow in flows) / packets
    return {
        "goodput": sum(flow["goodput_mbit"] or 0.0 for flow in flows),
        "delay": _mean([_delay(flow, bases) for flow in flows]),
        "completion": _mean([_of(flow, "page_load_s", "mean") or _of(flow, "fct_s", "mean") for flow in flows]),
        "startup": _mean([_of(flow, "startup_s", "mean") for flow in flows]),
        "loss": loss,
        "loss_gap": _mean([_of(flow, "loss_gap_ms", "mean") for flow in flows]),
        "pdv_p95": _mean([_of(flow, "jitter_ms" if stream else "rtt_variation_ms", "p95") for flow in flows]),
        "mos": _mean([flow["mos"] for flow in flows]),
        "quality": _mean([_of(flow, "video", "quality_mbit") for flow in flows]),
    }


def _delay(flow: Mapping[str, Any], bases: Mapping[str, float]) -> float | None:
    """Returns the mean queuing delay of a flow: of round trips above the base RTT, of datagrams above half of it."""
    base = bases[flow["name"]]
    if (one_way := _of(flow, "delay_ms", "mean")) is not None:
        return one_way - base / 2
    both_ways = _of(flow, "rtt_ms", "mean")
    return None if both_ways is None else both_ways - base


def _points(flows: Sequence[Mapping[str, Any]], bases: Mapping[str, float]) -> tuple[tuple[float, float], ...]:
    pairs = ((_delay(flow, bases), flow["goodput_mbit"]) for flow in flows)
    return tuple((delay, goodput) for delay, goodput in pairs if delay is not None and goodput is not None)


def _of(flow: Mapping[str, Any], group: str, name: str) -> float | None:
    return None if flow[group] is None else flow[group][name]


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


LEAST_MBIT = 1e-3
"""A goodput below this counts as this: its ratio to another one would be arbitrary."""


def _ratio(asked: Asked, goodputs: Mapping[str, float]) -> float | None:
    """Returns the goodput of the second category over that of the first, per flow of equal counts."""
    if asked.row.pair is None:
        return None
    first, second = (max(goodputs.get(name, 0.0), LEAST_MBIT) for name in asked.row.pair)
    return second / first


def _unfairness(asked: Asked, goodputs: Mapping[str, float], run: Mapping[str, Any]) -> float | None:
    """Returns how unequal goodputs are: the larger category's over the smaller one's, or for bulk flows 1 / Jain's
    index.
    """
    ratio = _ratio(asked, goodputs)
    if ratio is not None:
        return math.exp(abs(math.log(ratio)))
    if sum(flow["kind"] == "bulk" for flow in run["flows"]) < 2:
        return None
    jain = (run["jain"] or {}).get("goodput")
    return 1 / jain if jain else None
