"""The table: one row a combination, means over its seeds with their 95 % intervals."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.records import RunRecord
from sojourn.sweep import Combination, Mean, mean_of


@dataclass(frozen=True)
class Column:
    """One measure of the table."""

    head: str
    unit: str
    meaning: str
    path: str
    """Where it is in the entry of a hop or flow; in that of the run if it is one `of_run`."""
    digits: int = 3
    scale: float = 1.0
    of_run: Callable[[dict[str, Any]], float | None] | None = None

    def read(self, run: dict[str, Any], part: dict[str, Any]) -> float | None:
        """Its value, from a run's result and the hop's or flow's part of it."""
        if self.of_run:
            return self.of_run(run)
        value: Any = part
        for key in self.path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return None if value is None else float(value)

    def address(self, part: str) -> str:
        """Its name in a store, for a part such as `hops.bottleneck`."""
        return self.path if self.of_run else f"{part}.{self.path}"


def goodput(run: dict[str, Any]) -> float:
    """Of all flows together."""
    return sum(flow["goodput_mbit"] or 0.0 for flow in run["flows"])


def _jain(run: dict[str, Any]) -> float | None:
    value = run["jain"]["goodput"]
    return None if value is None else float(value)


COLUMNS = (
    Column("link busy", "%", "busy share of the link in the measuring window", "utilisation", 3, 100),
    Column("goodput", "Mbit/s", "payload acknowledged, all flows together", "goodput_mbit", of_run=goodput),
    Column("sojourn p50", "ms", "half of the packets waited no longer", "sojourn_ms.p50"),
    Column("sojourn p95", "ms", "95 % of the packets waited no longer", "sojourn_ms.p95"),
    Column("sojourn max", "ms", "the longest wait", "sojourn_ms.max"),
    Column(
        "queue delay",
        "ms",
        "queue delay, weighted by time: half of the time it was no longer",
        "queue_delay_ms.p50",
    ),
    Column(
        "standing queue",
        "ms",
        "standing queue: the delay that did not go away within a round trip, median over time",
        "standing_queue_ms.p50",
    ),
    Column("drops", "", "packets dropped", "drops", 6),
    Column("marks", "", "packets marked CE", "marks", 6),
    Column(
        "Jain index",
        "",
        "Jain's fairness index over the bulk flows' goodputs; 1 is equal",
        "jain.goodput",
        of_run=_jain,
    ),
)


APPLICATIONS = (
    Column("delay p95", "ms", "one-way delay of datagrams: 95 % came no later", "delay_ms.p95"),
    Column("jitter p95", "ms", "by how much such delays exceed the least one: 95 % no more", "jitter_ms.p95"),
    Column("loss", "%", "datagrams that never came", "loss_ratio", 3, 100),
    Column("MOS", "", "mean opinion score of speech, from 1 to 4.5", "mos"),
    Column("FCT p50", "s", "completion time: half of the transfers took no longer", "fct_s.p50"),
    Column("FCT p95", "s", "completion time: 95 % of the transfers took no longer", "fct_s.p95"),
    Column("slowdown p50", "", "completion time over that of an empty path, the median", "slowdown.p50"),
    Column("page p50", "s", "half of the web pages took no longer", "page_load_s.p50"),
    Column("page p95", "s", "95 % of the web pages took no longer", "page_load_s.p95"),
    Column("quality", "Mbit/s", "mean quality of a video's pieces", "video.quality_mbit"),
    Column("switches", "", "how often a video's quality changed", "video.switches"),
    Column("stalls", "", "how often a video stood still", "video.stalls"),
    Column("stalled", "s", "how long a video stood still", "video.stalled_s"),
    Column("RPM", "1/min", "responsiveness under load: round trips a minute", "rpm.rpm"),
    Column("RPM foreign", "1/min", "responsiveness of new connections beside the load", "rpm.foreign"),
    Column("RPM loaded", "1/min", "responsiveness of connections that carry load", "rpm.loaded"),
)
"""What only some kinds of flows have; read from a flow's entry instead of a hop's."""


@dataclass(frozen=True)
class Applications:
    """What became of the applications: the columns that any has, and a row for each flow and combination."""

    columns: list[Column]
    rows: list[tuple[str, str, list[tuple[str, str]]]]
    """Flow, label of the combination, cells."""


def applications(combinations: Sequence[Combination]) -> Applications | None:
    """The table of the applications; None where no flow has such measures. Flows of one name (NAME.0, NAME.1, …) share
    a row: the mean over them."""
    found: list[tuple[str, str, list[Mean | None]]] = []
    names = dict.fromkeys(_shared_name(flow) for flow in combinations[0].first.result["flows"])
    for name in names:
        for one in combinations:
            values = [mean_of([_of_flows(record, name, column) for record in one.runs]) for column in APPLICATIONS]
            if any(values):
                found.append((name, one.label, values))
    used = [place for place in range(len(APPLICATIONS)) if any(values[place] for _, _, values in found)]
    if not used:
        return None
    columns = [APPLICATIONS[place] for place in used]
    rows = [
        (name, label, [cell(values[place], APPLICATIONS[place]) for place in used]) for name, label, values in found
    ]
    return Applications(columns, rows)


def _shared_name(flow: dict[str, Any]) -> str:
    return ".".join(part for part in flow["name"].split(".") if not part.isdigit())


def _of_flows(record: RunRecord, name: str, column: Column) -> float | None:
    flows = [flow for flow in record.result["flows"] if _shared_name(flow) == name]
    mean = mean_of([column.read(record.result, flow) for flow in flows])
    return mean.value if mean else None


def number(value: float, digits: int) -> str:
    """So many significant digits, never an exponent."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}".replace(",", " ") if "e" in text or abs(value) >= 100 else text


def cell(mean: Mean | None, column: Column) -> tuple[str, str]:
    """A mean as text, and its interval; an en dash where there is nothing."""
    if mean is None:
        return "–", ""
    value = mean.value * column.scale
    text = number(value, min(column.digits, 3) if value < 100 else column.digits)  # a mean of counts is no count
    return text, f"± {interval(mean.half_width * column.scale)}" if mean.half_width else ""


def interval(half_width: float) -> str:
    """Two significant digits."""
    return number(half_width, 2) if half_width >= 10 else f"{half_width:#.2g}"


def means(combination: Combination, hop: str) -> list[Mean | None]:
    """A row's values, one a column."""
    return [
        mean_of([column.read(record.result, record.result["hops"][hop]) for record in combination.runs])
        for column in COLUMNS
    ]


def rows(combinations: Sequence[Combination], hop: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Label and cells of each row."""
    return [
        (one.label_at(hop), [cell(mean, column) for mean, column in zip(means(one, hop), COLUMNS, strict=True)])
        for one in combinations
    ]


def as_csv(runs: Sequence[RunRecord]) -> str:
    """One row a run: everything of its JSON entry but the flows and the start-up."""
    flat = [_flatten(record) for record in runs]
    keys = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


_SHAPE = dict.fromkeys(("mean", "p50", "p75", "p95", "p99", "max"))
_EMPTY: dict[str, dict[str, None]] = {
    "sojourn_ms": _SHAPE,
    "queue_delay_ms": _SHAPE,
    "queue_packets": _SHAPE,
    "standing_queue_ms": dict.fromkeys(("p10", "p50", "p90")),
}
"""What a distribution without samples is in CSV: its columns are always there, empty."""


def _flatten(record: RunRecord) -> dict[str, Any]:
    result = record.result
    row: dict[str, Any] = {"world": record.world, "seed": record.seed}
    row |= {f"set.{key}": value for key, value in record.set.items()}
    row["duration_s"] = result["duration_s"]
    row["goodput_mbit"] = goodput(result)
    for name, hop in result["hops"].items():
        shaped = {key: _EMPTY.get(key) if value is None else value for key, value in hop.items() if key != "stats"}
        _flatten_into(row, f"hops.{name}", shaped)
    _flatten_into(row, "jain", result["jain"])
    return row


def _flatten_into(row: dict[str, Any], prefix: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten_into(row, f"{prefix}.{key}", inner)
    else:
        row[prefix] = "" if value is None else value
