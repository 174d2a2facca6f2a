"""Reads the numbers of stored runs by their names: `goodput_mbit`, `hops.bottleneck.sojourn_ms.p95`,
`flows.web0.fct_s.p50`.

The name NAME stands for all flows NAME.0, NAME.1, …, and gives the mean over them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sojourn import columns
from sojourn.cases import OVER, POOLED, Address, combined, shared_name
from sojourn.errors import Refusal, nearest_of
from sojourn.queues import DOWN, REVERSE, UP

COLUMNS = ("hops", "flows", "groups", "jain", "losses", "goodput_mbit")
"""The columns of a store that hold measures."""


def values(table: pa.Table, address: str) -> NDArray[np.float64]:
    """Returns a measure of each row; NaN where a row does not have it."""
    column, *way = address.split(".")
    if column not in ("hops", "flows"):
        return _numbers(table[column], way)
    kind = columns.HOP if column == "hops" else columns.FLOW
    name, way = _split(way, kind)
    if column == "hops":
        return _numbers(pc.map_lookup(table["hops"], name, "first"), way)
    return _over_flows(table["flows"].combine_chunks(), [name], way, "mean")


def values_at(
    table: pa.Table, address: Address, bases: Sequence[Mapping[str, float]] | None = None
) -> NDArray[np.float64]:
    """Returns a measure of each row by its `Address`. `bases` has each row's base RTTs in ms by flow, which an address
    with `above_base` needs.
    """
    way = address.path.split(".")
    if address.parts:
        rows = zip(*(values_at(table, one, bases) for one in address.parts), strict=True)
        found = [combined([None if np.isnan(value) else float(value) for value in row], address.how) for row in rows]
        return np.array([np.nan if value is None else value for value in found])
    if address.queues:
        each = [_numbers(pc.map_lookup(table["hops"], queue, "first"), way) for queue in address.queues]
        found = np.nansum(each, axis=0)
        return np.where(np.isnan(each).all(axis=0), np.nan, found)
    if address.flows:
        lists = table["flows"].combine_chunks()
        if address.how == POOLED:
            return _pooled(lists, table["groups"].combine_chunks(), address.flows, way)
        return _over_flows(lists, address.flows, way, address.how, bases if address.above_base else None)
    return values(table, address.path)


def _split(way: Sequence[str], kind: pa.StructType) -> tuple[str, list[str]]:
    """Splits an address into name and measure. Names may have dots."""
    known = {field.name for field in kind}
    at = next((place for place, part in enumerate(way) if place > 0 and part in known), len(way))
    return ".".join(way[:at]), list(way[at:])


def _pooled(
    flows: pa.ListArray, groups: pa.ListArray, wanted: Collection[str], way: Sequence[str]
) -> NDArray[np.float64]:
    """Returns for each row the number over all samples of the flows of a name; the mean over several names."""
    each = []
    for name in wanted:
        together, single = (_over_flows(lists, [name], way, "mean") for lists in (groups, flows))
        names = pc.struct_field(groups.flatten(), "name")
        there = np.zeros(len(groups), bool)
        there[np.asarray(pc.list_parent_indices(groups))[np.asarray(pc.equal(names, name), bool)]] = True
        each.append(np.where(there, together, single))
    present = ~np.isnan(each)
    count = present.sum(axis=0)
    found = np.full(len(flows), np.nan)
    np.divide(np.nansum(each, axis=0), count, out=found, where=count > 0)
    return found


def _over_flows(
    lists: pa.ListArray,
    wanted: Collection[str],
    way: Sequence[str],
    how: str,
    bases: Sequence[Mapping[str, float]] | None = None,
) -> NDArray[np.float64]:
    """Returns for each row the numbers of the wanted flows, combined by `cases.OVER[how]`. Flows are wanted by their
    whole or shared names.
    """
    flows = lists.flatten()
    names = pc.struct_field(flows, "name")
    chosen = [one for one in names.unique().to_pylist() if one in wanted or shared_name(one) in wanted]
    numbers = _numbers(flows, way)
    there = np.asarray(pc.is_in(names, pa.array(chosen, pa.string()))) & ~np.isnan(numbers)
    rows = np.asarray(pc.list_parent_indices(lists))[there]
    numbers = numbers[there]
    if bases is not None:
        named = pc.filter(names, pa.array(there)).to_pylist()
        numbers = numbers - [bases[row].get(name, 0.0) for row, name in zip(rows, named, strict=True)]
    found = np.full(len(lists), np.nan)
    if how == "mean":
        count = np.bincount(rows, minlength=len(lists))
        np.divide(np.bincount(rows, numbers, len(lists)), count, out=found, where=count > 0)
        return found
    if len(rows) == 0:
        return found
    ends = np.flatnonzero(np.diff(rows)) + 1
    for row, group in zip(rows[np.r_[0, ends]], np.split(numbers, ends), strict=True):
        value = OVER[how](group.tolist())
        found[row] = np.nan if value is None else value
    return found


def _numbers(value: pa.ChunkedArray | pa.Array, way: Sequence[str]) -> NDArray[np.float64]:
    for part in way:
        is_map = pa.types.is_map(value.type)
        value = pc.map_lookup(value, part, "first") if is_map else pc.struct_field(value, part)
    return np.asarray(pc.fill_null(value.cast(pa.float64()), float("nan")))


def flows(table: pa.Table) -> list[str]:
    """Returns the shared names of all flows."""
    names = pc.struct_field(table["flows"].combine_chunks().flatten(), "name").unique().to_pylist()
    return sorted({shared_name(name) for name in names})


def of_flow(address: str) -> str:
    """Returns the name of the flow in an address of a flow's measure."""
    return _split(address.split(".")[1:], columns.FLOW)[0]


def path(address: str) -> str:
    """Returns a measure without its queue or flow: `fct_s.p50` of `flows.probe.fct_s.p50`."""
    section, name = _about(address)
    return address.removeprefix(f"{section}.{name}.") if section else address


def full(address: str, hop: str) -> str:
    """Returns an address with its queue, which may be left out: `sojourn_ms.p95` then means that of the queue `hop`."""
    return f"hops.{hop}.{address}" if address.split(".")[0] in {field.name for field in columns.HOP} else address


def plain(address: str, queues: Collection[str]) -> str:
    """Returns an address with the queue's own name, in place of `hops.NAME.up` or `hops.NAME.down`."""
    for queue in queues:
        hop = queue.removesuffix(REVERSE)
        said = f"hops.{hop}{DOWN if queue == hop else UP}."
        if address.startswith(said) and said[len("hops.") : -1] not in queues:
            return f"hops.{queue}.{address.removeprefix(said)}"
    return address


STREAMS = ("cbr", "onoff", "voip")
"""Kinds of flows that send datagrams."""
_TRANSFERS = ("download", "sizes", "upload", "video", "web")
ONLY: Mapping[str, Collection[str]] = {
    "goodput_mbit": ("bulk", "command", "rpm", "thin", *STREAMS, *_TRANSFERS),
    "rtt_ms": ("bulk", "command", "onoff", "pings", "rpm", "thin", *_TRANSFERS),
    "rtt_variation_ms": ("bulk", "command", "onoff", "pings", "rpm", "thin", *_TRANSFERS),
    "startup_s": _TRANSFERS,
    "fct_s": _TRANSFERS,
    "slowdown": _TRANSFERS,
    "page_load_s": ("web",),
    "pages": ("web",),
    "loss_ratio": STREAMS,
    "delay_ms": STREAMS,
    "jitter_ms": STREAMS,
    "mos": ("voip",),
    "video": ("video",),
    "rpm": ("rpm",),
    "command": ("command",),
}
"""Maps a measure to the kinds of flows that can have it. Measures that are missing here are counts, which every flow
has.
"""


def known(hops: Iterable[str], flows: Mapping[str, str]) -> list[str]:
    """Returns the addresses of the measures that a run can have. `flows` maps names of flows, whole or shared, to their
    kinds.
    """
    found = ["goodput_mbit", *(f"jain.{field.name}" for field in columns.JAIN)]
    found += [f"losses.{field.name}" for field in columns.LOSSES]
    found += [f"hops.{name}.{path}" for name in dict.fromkeys(hops) for path in _paths(columns.HOP)]
    for name, kind in {shared_name(name): kind for name, kind in flows.items()}.items():
        found += [f"flows.{name}.{path}" for path in _paths(columns.FLOW) if kind in ONLY.get(_head(path), (kind,))]
    return found


def _paths(kind: pa.StructType) -> list[str]:
    """Returns the addresses of a hop's or flow's numbers, without its name."""
    leaves = (leaf.partition(".")[2].split() for leaf in columns.leaves("", kind))
    return [path for path, unit in leaves if unit != "string" and "[]" not in path]


def _head(path: str) -> str:
    return path.partition(".")[0]


def _about(address: str) -> tuple[str, str]:
    """Returns the section and name with which an address begins, or nothing if it is about a whole run."""
    section, *way = address.split(".")
    kind = {"hops": columns.HOP, "flows": columns.FLOW}.get(section)
    return (section, _split(way, kind)[0]) if kind else ("", "")


def refuse_unknown(address: str, addresses: Sequence[str], kinds: Mapping[str, str], asked: str = "--until") -> None:
    """Raises `Refusal` if an address is not one of `addresses`. The message suggests some that are.

    `kinds` is the `flows` of `known`. `asked` is the option that named the address.
    """
    if address in addresses:
        return
    section, name = _about(address)
    names = dict.fromkeys(name for of, name in map(_about, addresses) if of == section)
    path = address.removeprefix(f"{section}.{name}.")
    if section and name not in names and path in _paths(columns.HOP if section == "hops" else columns.FLOW):
        raise Refusal(f"{asked}: {address}: {name} is none of the {section}: expected one of {', '.join(names)}")
    if section == "flows" and name in names and path in _paths(columns.FLOW):
        kind = {shared_name(flow): kind for flow, kind in kinds.items()}[name]
        instead = listed(address, addresses)
        raise Refusal(f"{asked}: {address}: flows of kind {kind} never have {path}: expected {instead}")
    hint = nearest_of(address, addresses, 0.3)
    raise Refusal(f"{asked}: {address}: no such measure: expected one such as hops.NAME.sojourn_ms.p95{hint}")


def listed(address: str, addresses: Iterable[str]) -> str:
    """Lists, in words, those of the addresses that are about the same queue or flows as `address`."""
    section, name = about = _about(address)
    front = f"{section}.{name}." if section else ""
    paths: dict[str, list[str]] = {}
    for one in addresses:
        if _about(one) == about:
            head, _, rest = one.removeprefix(front).partition(".")
            paths.setdefault(head, []).append(rest)
    words = ", ".join(head if rests == [""] else f"{head}.{{{','.join(rests)}}}" for head, rests in paths.items())
    return f"{front}X with X one of {words}" if front else f"one of {words}"
