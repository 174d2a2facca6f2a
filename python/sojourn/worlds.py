"""Worlds: where the runs of a scenario are played."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from sojourn import _core, cost
from sojourn.disciplines import Outside
from sojourn.isolated import PATIENCE_S


class Played(Protocol):
    """The result of a run in a world."""

    @property
    def output(self) -> _core.Output:
        """The results."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the simulation. For a guest it is the wall time."""

    @property
    def versions(self) -> dict[str, str]:
        """Versions and digests that the results depend on, besides sojourn's own version."""


class World(Protocol):
    """A place where runs are played. It can be pickled, so that a worker in another process has the same one."""

    @property
    def name(self) -> str:
        """`sim` or `kernel`."""

    def key(self, plan: _core.Plan, index: int) -> dict[str, str]:
        """Everything that a run's result depends on besides the scenario and the seed."""

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Returns the reason why this world cannot play a run, or None if it can. The answer holds for all seeds of a
        combination.
        """

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Plays a run. Returns None if it was stopped."""


@dataclass(frozen=True)
class Simulated:
    """The result of a run in the simulator."""

    output: _core.Output
    cpu_s: float
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Simulator:
    """The world `sim`."""

    engine: str = "fast"
    linux: tuple[int, int] | None = None
    """The Linux version whose disciplines are simulated, where versions differ. None: the scenario decides."""
    outside: tuple[Outside, ...] = ()
    """Disciplines of the user's, which scenarios name like those of ours."""
    patience_s: float = PATIENCE_S
    """Seconds without any progress after which a run with a library counts as hanging."""
    name: ClassVar[str] = "sim"

    def key(self, plan: _core.Plan, index: int) -> dict[str, str]:
        """The digests of the compiled simulator, whose two engines give the same results, and of the disciplines of
        the user's that a run has.
        """
        linux = {"linux": f"{self.linux[0]}.{self.linux[1]}"} if self.linux else {}
        return {"simulator": simulator()} | linux | self._digests(plan, index)

    def _digests(self, plan: _core.Plan, index: int) -> dict[str, str]:
        return {f"discipline {one.name}": one.digest for one in self.outside_of(plan, index)}

    def outside_of(self, plan: _core.Plan, index: int) -> list[Outside]:
        """Returns the disciplines of the user's that a run has."""
        names = plan.outside(index) if self.outside else ()
        return [one for one in self.outside if one.name in names]

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Returns the reason why the simulator cannot play a run, or None if it can."""
        return plan.sim_refusal(index, [one.name for one in self.outside]) or cost.refusal(plan, index)

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Simulates a run. The GIL is released during the simulation. Raises `Error` if a discipline of the user's
        fails.
        """
        outside = self.outside_of(plan, index)
        for one in outside:
            one.refuse_change()
        begin = time.thread_time()
        output = plan.run(
            index,
            engine=self.engine,
            packets=packets,
            series=series,
            progress=progress,
            linux=self.linux,
            outside=[(one.name, one.source) for one in outside],
        )
        cpu_s = time.thread_time() - begin
        versions = {f"discipline {one.name}": f"{one.said} sha256 {one.digest}" for one in outside if one.apart}
        return None if output is None else Simulated(output, cpu_s, versions)


@cache
def simulator() -> str:
    """The digest of the compiled simulator."""
    return hashlib.sha256(Path(str(_core.__file__)).read_bytes()).hexdigest()


def draws(world: World, plan: _core.Plan, indices: Sequence[int]) -> bool:
    """Returns whether the result of any of these runs depends on its seed. Runs of a kernel always count as random.

    Only the first run of each combination is examined, because the answer is the same for its other seeds.
    """
    if world.name != "sim":
        return True
    firsts = {repr(plan.runs[index]["set"]): index for index in reversed(indices)}
    return any(plan.draws(index) for index in sorted(firsts.values()))


def playable(world: World, plan: _core.Plan) -> tuple[list[int], list[dict[str, Any]]]:
    """Returns the runs that a world can play, and for each combination that it cannot play a dictionary with `set` and
    `reason`.
    """
    chosen: list[int] = []
    refused: list[dict[str, Any]] = []
    reasons: dict[str, str | None] = {}
    for index, one in enumerate(plan.runs):
        key = repr(one["set"])
        if key not in reasons:
            reasons[key] = world.refusal(plan, index)
            if reasons[key] is not None:
                refused.append({"set": one["set"], "reason": reasons[key]})
        if reasons[key] is None:
            chosen.append(index)
    return chosen, refused
