"""Plays scenarios in the kernel world with a module that prints each flow's state, and reads what guests recorded.

A guest's own files are large. Each run is reduced to a few numbers at once, which are kept in the store as JSON; so the
program goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from programs import finished

import sojourn as sj
from sojourn.kernel import probe
from sojourn.kernel.guest import ENDED
from sojourn.kernel.run import CONSOLE, SEEN, Guests
from sojourn.records import write_text
from sojourn.runs import base_rtts

LEFT = 100
"""The second byte of the addresses of left hosts is at most this (crates/traffic/src/topology.rs)."""


@dataclass(frozen=True)
class Change:
    """A line of the module: the state of a flow after a change."""

    at_s: float
    queue: int
    row: int | None
    """The index of the flow in the results; None where the module had no packet at hand."""
    target_ms: float
    rtt_ms: float
    """0: unknown."""
    dropping: bool
    ended: bool
    """Whether an epoch ended."""


@dataclass(frozen=True)
class Seen:
    """The files of one run."""

    set: Mapping[str, Any]
    about: Mapping[str, Any]
    """Describes the flows, with their base RTTs."""
    changes: Sequence[Change]
    records: Any
    """Records of the probe; times are in ns on the guest's clock."""
    origin_ns: int
    """Time zero on the guest's clock."""

    @property
    def rtts_ms(self) -> list[float]:
        """The base RTT of each flow."""
        return list(base_rtts(self.about).values())

    @property
    def begin_s(self) -> float:
        """When the measuring window begins."""
        return float(self.about["measure_s"][0])

    def packets(self, link: int) -> tuple[Any, Any]:
        """Returns when packets left a queue, in s, and their sojourns in ms, in order of time."""
        own = self.records
        own = own[(own["type"] == probe.PACKET) & (own["fate"] == probe.DELIVERED) & (own["link"] == link)]
        own = own[np.argsort(own["start"], kind="stable")]
        sojourn = (own["start"] - own["arrival"]) / 1e6
        return self._seconds(own["start"]), sojourn

    def acks(self) -> tuple[Any, Any, Any]:
        """Returns when ACKs of new data arrived, in s, and the window and the slow start threshold at each."""
        own = self.records[self.records["type"] == probe.ACKED]
        at, cwnd, ssthresh = (own[probe.ACK_FIELDS[name]] for name in ("at", "cwnd", "ssthresh"))
        return self._seconds(at), cwnd.astype(np.int64), ssthresh.astype(np.int64)

    def _seconds(self, clock: Any) -> Any:
        return (clock.astype(np.int64) - self.origin_ns) / 1e9


def read_changes(console: str, origin_ns: int) -> list[Change]:
    """Reads the lines of the module from a guest's console. Raises ValueError if one is missing."""
    found = []
    for line in console.splitlines():
        words = line.split()
        if "ccaq" not in words:
            continue
        number, at, queue, source, other, target, rtt, dropping, ended = map(int, words[words.index("ccaq") + 1 :])
        if number != len(found):
            raise ValueError(f"the guest's console has line {number} of the module instead of {len(found)}")
        hosts = [host for host in (source, other) if host and host >> 16 & 0xFF <= LEFT]
        row = (hosts[0] & 0xFFFF) - 1 if hosts else None
        seconds = (at - origin_ns) / 1e9
        found.append(Change(seconds, queue, row, target / 1000, rtt / 1000, bool(dropping), bool(ended)))
    return found


def _read(folder: Path, set_: Mapping[str, Any], about: Mapping[str, Any]) -> Seen:
    origin_ns = json.loads((folder / ENDED).read_text())["origin_ns"]
    changes = read_changes((folder / CONSOLE).read_text(), origin_ns)
    records = np.fromfile(folder / SEEN, dtype=probe.RECORD)
    return Seen(set_, about, changes, records, origin_ns)


Reduce = Callable[[Seen], Mapping[str, Any]]


def play(
    document: Mapping[str, Any], reduce: Reduce, seeds: int, store: Path, module: Path | None, jobs: int | None
) -> list[list[dict[str, Any]]]:
    """Plays a scenario with each seed, and returns what `reduce` makes of each run: for each combination of the sweep
    a list over the seeds. Without `module` the disciplines are the kernel's.
    """
    by_seed = [_play(document, reduce, seed, store, module, jobs) for seed in range(1, seeds + 1)]
    return [list(runs) for runs in zip(*by_seed, strict=True)]


def _play(
    document: Mapping[str, Any], reduce: Reduce, seed: int, store: Path, module: Path | None, jobs: int | None
) -> list[dict[str, Any]]:
    plan = sj.load(document, seed=seed, seeds=1)
    with tempfile.TemporaryDirectory(prefix="sojourn-watched-") as temporary:
        world = Guests(keep=Path(temporary), qdisc_module=module)
        identity = [plan.text, seed, world.key(plan, 0), inspect.getsource(inspect.getmodule(reduce))]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        kept = store / "watched" / f"{digest[:32]}.json"
        if not kept.exists():
            results = finished(sj.run(plan, world=world, series=False, on=jobs))
            found = []
            for combination in results.combinations:
                (index,) = combination.indices
                seen = _read(Path(temporary) / f"{index:04d}", combination.set, results.kept.about(index))
                found.append(dict(reduce(seen)))
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text(kept, json.dumps(found) + "\n")
    return json.loads(kept.read_text())


# ---- what runs are reduced to ----

WRONG = 0.25
"""An RTT that differs by more than this share is wrong."""


def epochs(seen: Seen) -> dict[str, int]:
    """Counts the epochs that ended in the measuring window, those without an RTT, and those with a wrong one."""
    rtts = seen.rtts_ms
    own = [one for one in seen.changes if one.ended and one.at_s >= seen.begin_s]
    assert all(one.row is not None for one in own), "the module sees an epoch end with a packet at hand"
    ratios = [one.rtt_ms / rtts[one.row] for one in own if one.row is not None]
    return {
        "epochs": len(ratios),
        "unknown": ratios.count(0.0),
        "wrong": sum(abs(ratio - 1) > WRONG for ratio in ratios if ratio),
    }


SAME_EVENT = 4
"""Episodes that begin within this many RTTs of an event's first one belong to that event."""


def cuts(seen: Seen) -> dict[str, int]:
    """Counts the signal events in the measuring window, by the number of cuts that each caused.

    An event begins with an episode of dropping. Episodes that begin soon after it belong to it: the module may end one
    before the sender has responded, and begin another.

    After a cut the window falls from above the slow start threshold down to it. The sender learns of a signal at least
    half an RTT later, and the window falls while a window of ACKs arrives. So a cut whose fall ends now belongs to the
    last event that began one RTT ago or earlier.
    """
    (rtt_ms,) = seen.rtts_ms
    rtt_s = rtt_ms / 1000
    begins: list[float] = []
    dropping: dict[int, bool] = {}
    for one in seen.changes:
        if one.dropping and not dropping.get(one.queue) and not (begins and one.at_s < begins[-1] + SAME_EVENT * rtt_s):
            begins.append(one.at_s)
        dropping[one.queue] = one.dropping
    at, cwnd, ssthresh = seen.acks()
    is_above = cwnd > ssthresh
    cut_at = at[1:][is_above[:-1] & ~is_above[1:]]
    places = np.searchsorted(begins, cut_at - rtt_s, side="right") - 1
    counts = np.bincount(places[places >= 0], minlength=len(begins)).tolist()
    end_s = float(seen.about["measure_s"][1])
    own = [
        count
        for begin, count in zip(begins, counts, strict=True)
        if seen.begin_s <= begin < end_s - 2 * SAME_EVENT * rtt_s
    ]
    return {"events": len(own), "none": own.count(0), "several": sum(count > 1 for count in own)}


def targets(seen: Seen) -> dict[str, list[float]]:
    """Returns how far each flow's target went from its first one, as a share of that: the farthest, and the last."""
    own: dict[int, list[float]] = {}
    rows = {one.queue: one.row for one in seen.changes if one.row is not None}
    for one in seen.changes:
        if one.rtt_ms and one.queue in rows:
            own.setdefault(one.queue, []).append(one.target_ms)
    return {
        "farthest": [max(abs(target / found[0] - 1) for target in found) for found in own.values()],
        "last": [abs(found[-1] / found[0] - 1) for found in own.values()],
    }


STEP_S, AFTER_S = 50.0, 45.0
"""When the rate of goals/steps.toml falls, and how long its effect is looked for."""
SLOW_MBIT, FULL = 10.0, 1514
"""The rate after the step, and the bytes of a full packet."""
FIXED_MS = 5.0
"""The target of a discipline that is not ccaq."""


def step(seen: Seen) -> dict[str, float]:
    """Returns for how long packets waited for more than two targets after the rate fell, and the time that the
    falsifier allows: three RTTs and the drain, in which the packets in flight at the step leave at the new rate.
    """
    (rtt_ms,) = seen.rtts_ms
    at, sojourn = seen.packets(0)
    inside = (at >= STEP_S) & (at < STEP_S + AFTER_S)
    at, sojourn = at[inside], sojourn[inside]
    times = np.array([-np.inf, *(one.at_s for one in seen.changes)])
    values = np.array([FIXED_MS, *(one.target_ms for one in seen.changes)])
    above = sojourn > 2 * values[np.searchsorted(times, at, side="right") - 1]
    first = int(np.argmax(above)) if above.any() else 0
    rest = np.flatnonzero(~above[first:])
    stretch = at[first + rest[0]] - STEP_S if len(rest) else AFTER_S
    ack_at, cwnd, _ = seen.acks()
    flight = cwnd[np.searchsorted(ack_at, STEP_S) - 1]
    drain_s = flight * FULL * 8 / (SLOW_MBIT * 1e6)
    return {"above_s": float(stretch) if above.any() else 0.0, "allowed_s": 3 * rtt_ms / 1000 + float(drain_s)}
