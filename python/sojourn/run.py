"""One run: from a plan's line to its record."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sojourn import _core, records
from sojourn import plan as plans
from sojourn.plan import sift

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Played(Protocol):
    """What a world gave for a run."""

    @property
    def output(self) -> _core.Output:
        """The results."""

    @property
    def cpu_s(self) -> float:
        """What they cost."""

    @property
    def versions(self) -> dict[str, str]:
        """What they depend on beside sojourn's version."""


class World(Protocol):
    """Where scenarios run."""

    @property
    def name(self) -> str:
        """`sim` or `kernel`."""

    def key(self, plan: _core.Plan, index: int) -> dict[str, str]:
        """What a run's result depends on beside scenario and seed."""

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Why this world can't play a run, if it can't; the same for all seeds."""

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Plays a run; None if it was stopped."""


@dataclass(frozen=True)
class Simulated:
    """What the simulator gave for a run."""

    output: _core.Output
    cpu_s: float
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Simulator:
    """The world `sim`."""

    engine: str = "fast"
    linux: tuple[int, int] | None = None
    """As which Linux its disciplines decide, where theirs differ; none: as the scenario says."""
    name: ClassVar[str] = "sim"

    def key(self, plan: _core.Plan, index: int) -> dict[str, str]:
        """The compiled simulator; its engines give the same."""
        return {"simulator": simulator()} | ({"linux": f"{self.linux[0]}.{self.linux[1]}"} if self.linux else {})

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Why the simulator can't play a run, if it can't."""
        return plan.sim_refusal(index)

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Simulates a run."""
        begin = time.thread_time()
        output = plan.run(
            index, engine=self.engine, packets=packets, series=series, progress=progress, linux=self.linux
        )
        return None if output is None else Simulated(output, time.thread_time() - begin)


@cache
def simulator() -> str:
    """The digest of the compiled simulator."""
    return hashlib.sha256(Path(str(_core.__file__)).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Done:
    """A finished run and what it cost."""

    record: records.RunRecord
    cpu_s: float


def playable(world: World, plan: _core.Plan) -> tuple[list[int], list[dict[str, Any]]]:
    """The runs that a world can play, and of the others `set` and `reason`, once a combination."""
    return sift(plan, lambda index: world.refusal(plan, index))


def draws(world: World, plan: _core.Plan, indices: Sequence[int]) -> bool:
    """Whether seeds make a difference in any of these runs; a kernel's runs always count as random.

    A combination's first run speaks for all its seeds.
    """
    if world.name != "sim":
        return True
    runs = plans.runs(plan)
    firsts = {repr(runs[index]["set"]): index for index in reversed(indices)}
    return any(plan.draws(index) for index in sorted(firsts.values()))


def execute(
    plan: _core.Plan,
    index: int,
    progress: _core.Progress,
    *,
    world: World | None = None,
    folder: Path | None = None,
    packets: bool = False,
    keep_series: bool = True,
    draws: bool = True,
) -> Done | None:
    """Plays run number `index` and writes its record into `folder`, if there is one. None if it was stopped.

    Without a folder the record has no series and no distributions.

    `draws` is kept in the record: whether seeds make a difference.
    Without `keep_series` the series are in the file only: a sweep of a thousand runs need not hold them all.
    """
    where = world or Simulator()
    played = where.play(plan, index, progress, packets=packets and folder is not None, series=folder is not None)
    if played is None:
        return None
    record = record_of(plan, index, played, series=folder is not None, distributions=folder is not None)
    record = replace(record, about={**record.about, "draws": draws})
    if folder is not None:
        records.write_run(folder, record)
        records.write_flows(folder, record, played.output.flow_series())
        if packets:
            records.write_packets(folder, record, played.output.packets())
    return Done(record if keep_series else replace(record, series={}), played.cpu_s)


def flows_over_time(output: _core.Output) -> dict[str, records.Columns]:
    """By flow, columns over time: what was acknowledged, and the sender's state when each bin begins.

    NaN before the first, and where a flow has none: pings have no window.
    """
    import numpy as np

    states = output.flow_states()
    names = dict.fromkeys(name for columns in states.values() for name in columns if name != "time_s")
    flows: dict[str, records.Columns] = {}
    for flow, series in output.flow_series().items():
        state = states[flow]
        last = np.searchsorted(state["time_s"], series["time_s"], side="right") - 1
        none = np.full(len(state["time_s"]), np.nan)
        held = {name: np.append(state.get(name, none), np.nan)[last] for name in names}
        flows[flow] = {**series, **held}
    return flows


def record_of(
    plan: _core.Plan, index: int, played: Played, *, series: bool, distributions: bool = True
) -> records.RunRecord:
    """All that is kept of a run; series and distributions, which take their time, only where they are asked for."""
    output = played.output
    return records.RunRecord(
        index=index,
        title=plan.title,
        scenario=plan.text,
        result=json.loads(output.result()),
        about=json.loads(output.about()),
        series=dict(output.series()) if series else {},
        distribution={name: thinned(ms, share) for name, (ms, share) in output.distributions().items()}
        if distributions
        else {},
        rates={
            name: {"time_s": steps["rate_time_s"], "mbit": steps["rate_mbit"]} for name, steps in output.rates().items()
        },
        versions=records.versions() | played.versions,
    )


def thinned(ms: NDArray[np.float64], share: NDArray[np.float64], step: float = 1e-3) -> dict[str, list[float]]:
    """A distribution function with no more points than a picture can show: one for each `step`, and the last."""
    import numpy as np

    if len(ms) == 0:
        return {"ms": [], "share": []}
    keep = np.unique(np.floor(share / step), return_index=True)[1]
    keep = np.union1d(keep, [0, len(ms) - 1])
    return {"ms": ms[keep].tolist(), "share": share[keep].tolist()}
