"""The kept data of a finished run, as values that can be passed between threads, processes and machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sojourn import _core, isolated, records
from sojourn.worlds import Played, Simulator, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Keep:
    """The data of a run that is kept besides its measures, which are always kept."""

    series: bool = False
    """Whether its queues and flows over time are kept, and the distribution of its sojourns."""
    states: bool = False
    """Whether the flows over time include the senders' state: window, RTT, bytes in flight."""
    packets: bool = False
    """Every packet."""


@dataclass(frozen=True)
class Finished:
    """A run that was played."""

    record: records.RunRecord
    cpu_s: float
    flows: dict[str, records.Columns] | None = None
    """By flow, columns over time; None if no series are kept."""
    packets: records.Columns | None = None
    """A row for each packet and hop; None if packets are not kept."""


@dataclass(frozen=True)
class Broken:
    """A run that a discipline of the user's has ended. The other runs of its combination would end in the same way."""

    reason: str
    """Names the discipline and the seed."""


@dataclass(frozen=True)
class Task:
    """The runs of a plan in a world. It can be pickled: a worker needs nothing else but the package."""

    plan: _core.Plan
    world: World
    keep: Keep

    def key(self, index: int) -> dict[str, str]:
        """Digests of the programs that play a run: the simulator, or a guest's kernel, modules and program."""
        return self.world.key(self.plan, index)

    def play(self, index: int, progress: _core.Progress) -> Finished | Broken | None:
        """Plays run number `index` of the plan. Returns None if it was stopped.

        A run with a library of the user's is played in a process of its own.
        """
        world = self.world
        if not isinstance(world, Simulator) or not (outside := world.outside_of(self.plan, index)):
            return self.play_here(index, progress)
        files, seed = ", ".join(one.said for one in outside), self.plan.runs[index]["seed"]
        played: Finished | None
        try:
            if any(one.apart for one in outside):
                for one in outside:
                    one.refuse_change()
                played = isolated.call(play_task, self, index, progress=progress, patience_s=world.patience_s)
            else:
                played = self.play_here(index, progress)
        except isolated.BrokenError as error:
            return Broken(f"{files}: {error}, seed {seed}")
        except _core.Error as error:
            return Broken(f"{error}, seed {seed}")
        return played

    def play_here(self, index: int, progress: _core.Progress) -> Finished | None:
        """Like `play`, but always in this process. Raises `Error` if a discipline of the user's fails."""
        played = self.world.play(self.plan, index, progress, packets=self.keep.packets, series=self.keep.series)
        if played is None:
            return None
        output = played.output
        flows = None
        if self.keep.series:
            flows = flows_with_states(output) if self.keep.states else dict(output.flow_series())
        return Finished(
            record=record_of(self.plan, index, played, series=self.keep.series),
            cpu_s=played.cpu_s,
            flows=flows,
            packets=output.packets() if self.keep.packets else None,
        )


def play_task(task: Task, index: int, progress: _core.Progress) -> Finished | None:
    """Calls `Task.play_here`. Another process can import it by its name."""
    return task.play_here(index, progress)


def record_of(plan: _core.Plan, index: int, played: Played, *, series: bool) -> records.RunRecord:
    """A run's record. Without `series` it has neither series nor distributions, which take time to make."""
    output = played.output
    return records.RunRecord(
        index=index,
        title=plan.title,
        scenario=plan.text,
        result=output.result(),
        about=output.about(),
        series=dict(output.series()) if series else {},
        distribution={name: thinned(ms, share) for name, (ms, share) in output.distributions().items()}
        if series
        else {},
        rates={
            name: {"time_s": steps["rate_time_s"], "mbit": steps["rate_mbit"]} for name, steps in output.rates().items()
        },
        versions=records.versions() | played.versions,
    )


def flows_with_states(output: _core.Output) -> dict[str, records.Columns]:
    """Returns for each flow its columns over time: the payload acknowledged, and the sender's state at the beginning of
    each bin.

    A value is NaN before the first state is known, and in columns that do not apply to a flow: pings have no window.
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


def thinned(ms: NDArray[np.float64], share: NDArray[np.float64], step: float = 1e-3) -> dict[str, list[float]]:
    """Thins a distribution function to the points that a picture can show: one for each `step`, and the last one."""
    import numpy as np

    if len(ms) == 0:
        return {"ms": [], "share": []}
    keep = np.unique(np.floor(share / step), return_index=True)[1]
    keep = np.union1d(keep, [0, len(ms) - 1])
    return {"ms": ms[keep].tolist(), "share": share[keep].tolist()}
