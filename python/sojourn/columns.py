"""The columns of a store: a run's entry in the JSON of `sojourn run` as a row, with the versions that produced it.

The reference page docs/reference/store.md is generated from this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from sojourn import shapes
from sojourn.errors import Refusal

INT, REAL, TEXT = pa.int64(), pa.float64(), pa.string()

DISTRIBUTION = pa.struct([(name, REAL) for name in ("mean", "p50", "p75", "p95", "p99", "max")])
STANDING = pa.struct([(name, REAL) for name in ("p10", "p50", "p90")])
NIC = pa.struct([(name, DISTRIBUTION) for name in ("ring_packets", "bql_limit_bytes", "bql_inflight_bytes")])
VIDEO = pa.struct(
    [("stalls", INT), ("stalled_s", REAL), ("quality_mbit", REAL), ("switches", INT), ("startup_s", REAL)]
)
RPM = pa.struct(
    [(name, REAL) for name in ("rpm", "foreign", "loaded")]
    + [("confidence", TEXT)]
    + [(name, REAL) for name in ("tcp_ms", "tls_ms", "http_ms", "loaded_ms")]
    + [("foreign_probes", INT), ("loaded_probes", INT)]
    + [("capacity_mbit", REAL), ("capacity_confidence", TEXT), ("capacity_s", REAL), ("after_s", REAL)]
)
COMMAND = pa.struct(
    [
        ("argv", pa.list_(TEXT)),
        ("exit", INT),
        ("signal", INT),
        ("stopped", pa.bool_()),
        ("started_s", REAL),
        ("ended_s", REAL),
        ("stdout", TEXT),
        ("stderr", TEXT),
    ]
)
HOP = pa.struct(
    [
        ("utilisation", REAL),
        ("delivered_packets", INT),
        ("delivered_bytes", INT),
        ("drops", INT),
        ("drops_by_reason", pa.map_(TEXT, INT)),
        ("marks", INT),
        ("sojourn_ms", DISTRIBUTION),
        ("queue_delay_ms", DISTRIBUTION),
        ("queue_packets", DISTRIBUTION),
        ("standing_queue_ms", STANDING),
        ("empty_fraction", REAL),
        ("nonempty_max_s", REAL),
        ("full_fraction", REAL),
        ("oscillation_s", REAL),
        ("nic", NIC),
        ("paused_fraction", REAL),
        ("stats", TEXT),
    ]
)
FLOW = pa.struct(
    [
        ("name", TEXT),
        ("kind", TEXT),
        ("cc", TEXT),
        ("goodput_mbit", REAL),
        ("rtt_ms", DISTRIBUTION),
        ("rtt_variation_ms", DISTRIBUTION),
        ("retransmits", INT),
        ("startup_s", DISTRIBUTION),
        ("fct_s", DISTRIBUTION),
        ("packets", INT),
        ("drops", INT),
        ("loss_gap_ms", DISTRIBUTION),
        ("completed", INT),
        ("unfinished", INT),
        ("loss_ratio", REAL),
        ("delay_ms", DISTRIBUTION),
        ("jitter_ms", DISTRIBUTION),
        ("mos", REAL),
        ("slowdown", DISTRIBUTION),
        ("page_load_s", DISTRIBUTION),
        ("pages", INT),
        ("video", VIDEO),
        ("rpm", RPM),
        ("command", COMMAND),
    ]
)
JAIN = pa.struct([("goodput", REAL), ("drop_share", REAL)])
LOSSES = pa.struct([("events", INT), ("synchronisation", REAL)])
WINDOW = [
    ("hops", pa.map_(TEXT, HOP)),
    ("flows", pa.list_(FLOW)),
    ("groups", pa.list_(FLOW)),
    ("jain", JAIN),
    ("losses", LOSSES),
]

COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("id", TEXT, "the run's name: a digest of all that it depends on"),
    ("point", TEXT, "digest of the scenario after `--set` and sweep, the files it names, seed and world"),
    ("engine", TEXT, "digest of the programs that played it: the simulator; a guest's kernel, modules and program"),
    ("file", TEXT, "the scenario file's name without `.toml`, when it was played"),
    ("title", TEXT, "the scenario's title, likewise"),
    ("world", TEXT, "`sim` or `kernel`"),
    ("seed", INT, "the run's seed"),
    ("duration_s", REAL, "how long it lasts"),
    ("scenario", pa.map_(TEXT, TEXT), "every key of the scenario by its address: `scenario['hop.bottleneck.qdisc']`"),
    ("qdisc", pa.map_(TEXT, TEXT), "each queue's discipline as `tc` writes it, without defaults: `qdisc['b']`"),
    ("goodput_mbit", REAL, "payload acknowledged, all flows together"),
    ("hops", WINDOW[0][1], "each queue's measures: `hops['bottleneck'].sojourn_ms.p95`, back `NAME.reverse`; `stats` "
     "holds its counters as JSON text: `json_extract(hops['bottleneck'].stats, '$.drops')`"),
    ("flows", WINDOW[1][1], "a list with each flow's measures; `unnest(flows)` makes rows of them"),
    ("groups", WINDOW[2][1], "likewise, all flows of one name together where several share it: percentiles over all of "
     "their pages, pings or transfers"),
    ("jain", JAIN, "Jain's index over goodputs, and over the shares of packets dropped"),
    ("losses", LOSSES, "loss events of all bulk flows, and the share of the flows that lose in one"),
    ("tcp", pa.map_(TEXT, INT), "counters of the hosts' TCP over the whole run, by Linux's names: `tcp['PAWSEstab']`; "
     "null if nobody counted"),
    ("startup", pa.struct(WINDOW), "hops, flows, jain and losses before the measuring window; null without"),
    ("versions", pa.map_(TEXT, TEXT), "sojourn's version, the kernel's, and the digests of disciplines of yours"),
)  # fmt: skip
"""Name, type, meaning."""

SCHEMA = pa.schema([(name, kind) for name, kind, _ in COLUMNS])


def leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    """The names of all values in a column."""
    if pa.types.is_struct(kind):
        for one in kind:
            yield from leaves(f"{name}.{one.name}", one.type)
    elif pa.types.is_map(kind):
        yield from leaves(f"{name}[]", kind.item_type)
    elif pa.types.is_list(kind):
        yield from leaves(f"{name}[]", kind.value_type)
    else:
        yield f"{name} {kind}"


LEAVES = tuple(leaf for name, kind, _ in COLUMNS for leaf in leaves(name, kind))
"""Every number of a row, with its type."""
VERSION = hashlib.sha256(" ".join(LEAVES).encode()).hexdigest()[:16]
"""The version of the columns: a digest that changes with them."""


def refuse_unknown(path: Path, schema: pa.Schema) -> None:
    """Refuses a file of a newer sojourn, whose additional columns would be lost."""
    unknown = [leaf for one in schema for leaf in leaves(one.name, one.type) if leaf not in LEAVES]
    if unknown:
        raise Refusal(f"{path}: {unknown[0].split()[0]} is not known: a newer sojourn wrote this store")


def check(result: Mapping[str, Any]) -> None:
    """Raises an error for a measure without a column, which would be lost."""
    for window in (result, result["startup"] or {}):
        _only(JAIN, window.get("jain"))
        _only(LOSSES, window.get("losses"))
        for hop in window.get("hops", {}).values():
            _only(HOP, hop)
            _only(NIC, hop["nic"])
        for flow in (*window.get("flows", ()), *window.get("groups", ())):
            _only(FLOW, flow)
            _only(VIDEO, flow["video"])
            _only(RPM, flow["rpm"])
            _only(COMMAND, flow.get("command"))


def wrong(result: Mapping[str, Any]) -> str:
    """Returns what is wrong with a run's entry that was read from a file, with its address; empty if nothing is.

    A measure that is missing is not wrong: an older sojourn did not have all of them.
    """
    groups = result.get("groups", [])
    if problem := shapes.wrong(groups, [{"name": str, "kind": str}], "result.groups"):
        return problem
    parts = [(HOP, f"hops.{name}", one) for name, one in result["hops"].items()]
    parts += [(FLOW, f"flows.{one['name']}", one) for one in result["flows"]]
    parts += [(FLOW, f"groups.{one['name']}", one) for one in groups]
    parts += [(pa.map_(TEXT, INT), "tcp", result.get("tcp"))]
    parts += [(JAIN, "jain", result["jain"]), (LOSSES, "losses", result.get("losses"))]
    return next(filter(None, (_wrong(kind, value, f"result.{address}") for kind, address, value in parts)), "")


def _wrong(kind: pa.DataType, value: Any, address: str) -> str:
    if value is None or address.endswith(".stats"):
        return ""
    if pa.types.is_struct(kind):
        if not isinstance(value, Mapping):
            return f"{address} = {str(value)[:40]!r}: expected an object"
        found = (
            _wrong(field.type, value[field.name], f"{address}.{field.name}") for field in kind if field.name in value
        )
        return next(filter(None, found), "")
    if pa.types.is_map(kind):
        if not isinstance(value, Mapping):
            return f"{address} = {str(value)[:40]!r}: expected an object"
        return next(filter(None, (_wrong(kind.item_type, one, f"{address}.{name}") for name, one in value.items())), "")
    try:
        pa.array([value], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return f"{address} = {str(value)[:40]!r}: expected {kind}"
    return ""


def of_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """The columns `hops`, `flows`, `groups`, `jain`, `losses`, `tcp` and `startup` of a run's entry."""
    startup = result["startup"]
    return _of_window(result) | {
        "tcp": result.get("tcp"),
        "startup": None if startup is None else _of_window(startup),
    }


def result_of(row: Mapping[str, Any], *, world: str, set: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `of_result`: a run's entry in the JSON, from a row."""
    startup = row["startup"]
    return {
        "world": world,
        "seed": row["seed"],
        "set": dict(set),
        "duration_s": row["duration_s"],
        **_window_of(row),
        "tcp": row["tcp"],
        "startup": None if startup is None else _window_of(startup),
    }


def _window_of(row: Mapping[str, Any]) -> dict[str, Any]:
    hops = {name: {**hop, "stats": _stats(hop["stats"])} for name, hop in row["hops"].items()}
    return {
        "hops": hops,
        "flows": row["flows"],
        "groups": row.get("groups") or [],
        "jain": row["jain"],
        "losses": row["losses"],
    }


def _stats(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _of_window(window: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a window as columns. A discipline's counters, which differ from kind to kind, become JSON text."""
    hops = {name: {**hop, "stats": _text(hop["stats"])} for name, hop in window["hops"].items()}
    return {
        "hops": hops,
        "flows": window["flows"],
        "groups": window.get("groups", []),
        "jain": window["jain"],
        "losses": window["losses"],
    }


def _text(stats: Mapping[str, Any] | None) -> str | None:
    return None if stats is None else json.dumps(stats, separators=(",", ":"))


_NAMES = {kind: frozenset(field.name for field in kind) for kind in (HOP, FLOW, NIC, VIDEO, RPM, COMMAND, JAIN, LOSSES)}


def _only(kind: pa.StructType, value: Mapping[str, Any] | None) -> None:
    if value and not _NAMES[kind].issuperset(value):
        unknown = set(value) - _NAMES[kind]
        raise AssertionError(f"python/sojourn/columns.py lacks {', '.join(sorted(unknown))}")


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table of a store."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """The inverse of `table_of`."""
    columns = [_as_python(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _as_python(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python's, maps as dictionaries. It does what `to_pylist` does, but a column at a time,
    which is several times as fast.
    """
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _as_python(chunk)]
    kind = array.type
    if array.null_count == len(array):
        return [None] * len(array)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [_as_python(part) for part in array.flatten()]
        values: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    elif pa.types.is_map(kind):
        pairs = list(zip(_as_python(array.keys), _as_python(array.items), strict=True))
        values = [dict(pairs[begin:end]) for begin, end in pairwise(array.offsets.to_pylist())]
    elif pa.types.is_list(kind):
        items = _as_python(array.values)
        values = [items[begin:end] for begin, end in pairwise(array.offsets.to_pylist())]
    elif array.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        values = array.fill_null(0).to_numpy(zero_copy_only=False).tolist()
    else:
        return list(array.to_numpy(zero_copy_only=False).tolist())
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False).tolist()
        return [value if is_there else None for value, is_there in zip(values, valid, strict=True)]
    return values
