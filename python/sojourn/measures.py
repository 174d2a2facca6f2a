"""The numbers of stored runs, by name: `goodput_mbit`, `hops.bottleneck.sojourn_ms.p95`, `flows.web0.fct_s.p50`.

Flows NAME.0, NAME.1, … answer to NAME together, with the mean over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sojourn import columns
from sojourn.errors import Refusal, nearest_of

COLUMNS = ("hops", "flows", "jain", "goodput_mbit")
"""What of a store's columns holds them."""


def values(table: pa.Table, address: str) -> NDArray[np.float64]:
    """A measure of each row; NaN where there is none."""
    column, *way = address.split(".")
    if column not in ("hops", "flows"):
        return _numbers(table[column], way)
    kind = columns.HOP if column == "hops" else columns.FLOW
    name, way = _split(way, kind)
    if column == "hops":
        return _numbers(pc.map_lookup(table["hops"], name, "first"), way)
    return _mean_of_flows(table["flows"].combine_chunks(), name, way)


def _split(way: Sequence[str], kind: pa.StructType) -> tuple[str, list[str]]:
    """Name and measure: names may have dots."""
    known = {field.name for field in kind}
    at = next((place for place, part in enumerate(way) if place > 0 and part in known), len(way))
    return ".".join(way[:at]), list(way[at:])


def _mean_of_flows(lists: pa.ListArray, name: str, way: Sequence[str]) -> NDArray[np.float64]:
    flows = lists.flatten()
    names = pc.struct_field(flows, "name")
    chosen = [one for one in names.unique().to_pylist() if name in (one, shared_name(one))]
    numbers = _numbers(flows, way)
    there = np.asarray(pc.is_in(names, pa.array(chosen, pa.string()))) & ~np.isnan(numbers)
    rows = np.asarray(pc.list_parent_indices(lists))[there]
    count = np.bincount(rows, minlength=len(lists))
    total = np.bincount(rows, numbers[there], len(lists))
    mean: NDArray[np.float64] = np.divide(total, count, out=np.full(len(lists), np.nan), where=count > 0)
    return mean


def _numbers(value: pa.ChunkedArray | pa.Array, way: Sequence[str]) -> NDArray[np.float64]:
    for part in way:
        is_map = pa.types.is_map(value.type)
        value = pc.map_lookup(value, part, "first") if is_map else pc.struct_field(value, part)
    return np.asarray(pc.fill_null(value.cast(pa.float64()), float("nan")))


def flows(table: pa.Table) -> list[str]:
    """The shared names of all flows."""
    names = pc.struct_field(table["flows"].combine_chunks().flatten(), "name").unique().to_pylist()
    return sorted({shared_name(name) for name in names})


def shared_name(flow: str) -> str:
    """The name of flows that were one entry of the scenario: without their numbers."""
    return ".".join(part for part in flow.split(".") if not part.isdigit())


def of_flow(address: str) -> str:
    """Whose measure it is."""
    return _split(address.split(".")[1:], columns.FLOW)[0]


def full(address: str, hop: str) -> str:
    """An address whose queue goes without saying: `sojourn_ms.p95` is that of `hop`."""
    return f"hops.{hop}.{address}" if address.split(".")[0] in {field.name for field in columns.HOP} else address


def known(hops: Iterable[str], flows: Iterable[str]) -> list[str]:
    """The addresses of a run's measures; flows by their shared names."""
    found = ["goodput_mbit", *(f"jain.{field.name}" for field in columns.JAIN)]
    for kind, section, names in ((columns.HOP, "hops", hops), (columns.FLOW, "flows", map(shared_name, flows))):
        paths = [leaf.partition(".")[2].split()[0] for leaf in columns.leaves("", kind) if not leaf.endswith(" string")]
        found += [f"{section}.{name}.{path}" for name in dict.fromkeys(names) for path in paths]
    return found


def refuse_unknown(address: str, addresses: Sequence[str]) -> None:
    """Names the nearest of the measures that there are."""
    if address not in addresses:
        hint = nearest_of(address, addresses, 0.3)
        raise Refusal(f"{address}: no such measure: expected one such as hops.NAME.sojourn_ms.p95{hint}")
