"""Replays a packet trace through one discipline of ours or of the user's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sojourn import _core, isolated
from sojourn.disciplines import Outside
from sojourn.errors import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

Replay = tuple[bytes, list[str], dict[str, Any] | None]
"""The packets' fates as CSV, warnings, and the discipline's counters."""


def in_core(
    trace: bytes,
    name: str,
    qdisc: str,
    rate: str | None,
    mtu: int,
    link_rate: int | None = None,
    seed: int = 1,
    end: str | None = None,
    *,
    outside: Sequence[Outside] = (),
    patience_s: float = isolated.PATIENCE_S,
    process: isolated.Process | None = None,
) -> Replay:
    """Replays a trace as `_core.replay` does. A library of the user's is called in a process of its own: `process`, or
    one for this replay.

    Raises Refusal if the library crashes, or takes longer than `patience_s` seconds; `Error` for anything that is wrong
    in the trace or the line, and for a discipline that fails.
    """
    used = [one for one in outside if one.name == (qdisc.split() or [""])[0]]
    if not any(one.apart for one in used):
        return _core.replay(trace, name, qdisc, rate, mtu, link_rate, seed, end, outside=_given(used))
    call = process.call if process else isolated.call
    try:
        found: Replay = call(_replay, trace, name, qdisc, rate, mtu, link_rate, seed, end, used, patience_s=patience_s)
    except isolated.BrokenError as error:
        raise Refusal(f"{used[0].said}: {error} in a replay of {name}") from None
    return found


def columns_of(fates: bytes) -> dict[str, NDArray[Any]]:
    """Returns the columns of packets' fates that were replayed: `packet`, `flow`, `bytes`, `enqueue_ns` and `fate_ns`
    as integers, `fate` as text.

    NumPy reads them in this thread. pyarrow would start threads, and now and then a process that ends while one of them
    begins is aborted by the system ("terminate called without an active exception").
    """
    import numpy as np

    head, _, rows = fates.partition(b"\n")
    names = head.decode().split(",")
    longest = max((len(line) - line.rfind(b",") - 1 for line in rows.splitlines()), default=1)
    kinds = [(name, f"U{longest}" if name == "fate" else "i8") for name in names]
    if not rows:
        return {name: np.empty(0, dtype=kind) for name, kind in kinds}
    read = np.loadtxt(io.BytesIO(rows), delimiter=",", dtype=kinds, ndmin=1, encoding="utf-8")
    return {name: read[name] for name in names}


def _replay(
    trace: bytes,
    name: str,
    qdisc: str,
    rate: str | None,
    mtu: int,
    link_rate: int | None,
    seed: int,
    end: str | None,
    used: Sequence[Outside],
    _progress: _core.Progress,
) -> Replay:
    return _core.replay(trace, name, qdisc, rate, mtu, link_rate, seed, end, outside=_given(used))


def _given(outside: Sequence[Outside]) -> list[tuple[str, object]]:
    return [(one.name, one.source) for one in outside]
