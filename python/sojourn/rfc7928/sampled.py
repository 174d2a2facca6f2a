"""Samples over time of the first seed's runs.

RFC 7928 section 2.7 asks for distributions, and for values over time where the link or the load changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.results import Results
from sojourn.rfc7928.observed import RATED
from sojourn.rfc7928.suite import Asked

Floats = NDArray[np.float64]
K = 10
"""Goodput is sampled every K longest base RTTs (RFC 7928 section 2.7)."""


@dataclass(frozen=True)
class Sample:
    """A run with its series."""

    place: int
    """The place of the discipline."""
    case: str
    sojourn: Mapping[str, Sequence[float]]
    """The distribution of the delay in the queue: `ms`, and the `share` of packets at or below."""
    queue: Mapping[str, Any]
    """The queue over the whole run: `time_s`, `queue_delay_ms`."""
    ends_s: Floats
    """The end of each span of K longest base RTTs of the whole run."""
    goodput_mbit: Floats
    """The goodput of all flows in each span."""
    flows_mbit: Floats
    """The goodputs of single flows in the spans of the measuring window, those of all flows one after the other."""


def sampled(asked: Asked, results: Results) -> Iterator[Sample]:
    """Yields the samples of each run of these results, which have kept series."""
    for index in results.indices:
        (record,) = results.kept.read([index], series=True)
        about = results.kept.about(index)
        kinds = {flow["name"]: flow["kind"] for flow in about["flows"]}
        span_s = K * about["longest_rtt_ms"] / 1000
        spans = {name: spanned(columns, span_s) for name, columns in results.kept.flow_series(index).items()}
        ends_s = next(iter(spans.values()))[0]
        begin, end = about["measure_s"]
        inside = (ends_s - span_s >= begin - 1e-9) & (ends_s <= end + 1e-9)
        rated = [mbit[inside] for name, (_, mbit) in spans.items() if kinds[name] in RATED]
        one = asked.plan.runs[index]["set"]
        hop = asked.key.split(".")[1]
        yield Sample(
            asked.place(one),
            asked.case(one),
            record.distribution[hop],
            record.series[hop],
            ends_s,
            np.sum([mbit for _, mbit in spans.values()], axis=0),
            np.concatenate(rated) if rated else np.empty(0),
        )


def spanned(columns: Mapping[str, Any], span_s: float) -> tuple[Floats, Floats]:
    """Returns the ends in seconds of spans of a flow's series, and its goodput in each in Mbit/s.

    A bin counts in the span in which it begins; bins are much shorter than spans. A last span that is not whole is left
    out.
    """
    time_s, acked = np.asarray(columns["time_s"], float), np.asarray(columns["acked_bytes"], float)
    if len(time_s) < 2:
        return np.empty(0), np.empty(0)
    end_s = 2 * time_s[-1] - time_s[-2]
    count = int((end_s + 1e-9) / span_s)
    ends: Floats = span_s * np.arange(1, count + 1, dtype=np.float64)
    place = np.floor(time_s / span_s + 1e-9).astype(int)
    kept = place < count
    bits = np.bincount(place[kept], 8 * acked[kept], minlength=count)
    mbit: Floats = bits / span_s / 1e6
    return ends, mbit
