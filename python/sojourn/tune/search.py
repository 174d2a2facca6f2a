"""Finds a setting: plays the grid with few seeds, the better ones with more, and the finalists with fresh ones.

The seeds that chose the finalists are not those that report them: a setting that was lucky in the search is not lucky
again. Every run is kept in a store, so that a search that was stopped goes on, and a repeated one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn import _core, pipeline, worlds
from sojourn.errors import Refusal
from sojourn.executors import Executor
from sojourn.means import mean_of, present
from sojourn.results import Results
from sojourn.runs import Runs
from sojourn.tune import candidates as settings
from sojourn.tune import judge
from sojourn.tune.candidates import Candidate, Parameters
from sojourn.tune.judge import Scores
from sojourn.tune.task import Task, lowest, variations

Tell = Callable[[float, float], None]
Watch = Callable[[str], AbstractContextManager[Tell]]
"""Makes a progress display for a stage with this name."""

FIRST_SEEDS, VARIED_SEEDS = 2, 3
RACE_SEEDS, RACE_BITS = (5, 15), 5e9
"""The fewest and the most seeds of the race. On a slow link a run costs little, and small differences need many seeds:
the lines carry about this many bits for each setting."""
STATED = "stated rate"
FRESH = 1001
"""The first seed of the finalists' report."""
KEPT = 1 / 4
"""The share of a discipline's settings that goes on to the next stage."""
FEWEST = 3
"""But at least as many of each discipline."""
FINALISTS = 4
"""Settings of each discipline in the final."""
NEAR_COST = 1.5
"""Finalists whose costs are apart by at most this many steps are near-equals: the most robust one is chosen."""
FACTORS = (0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
"""By what each parameter of the chosen setting is multiplied to see how much depends on it."""


class Interrupted(Exception):
    """Raised when the user stops a search. The finished runs are kept."""


@dataclass
class Player:
    """Plays settings on a task, and keeps the runs."""

    runs: Callable[[], Runs]
    """Returns where runs are kept: a new view of the same store for each plan."""
    executor: Executor
    world: worlds.World = field(default_factory=worlds.Simulator)
    watch: Watch | None = None
    played: int = 0
    """Runs that were played now."""
    count: int = 0
    """Runs that were used."""

    def play(self, stage: str, task: Task, chosen: Sequence[Candidate], seed: int, seeds: int) -> Scores:
        """Plays each setting with each seed. Raises Interrupted after Ctrl-C, and Refusal for what cannot be played."""
        plan = task.plan([one.lines for one in chosen], seed, seeds)
        if self.watch is None:
            return judge.read(task, chosen, self._execute(plan, lambda _done, _all: None))
        with self.watch(f"{stage}, {len(plan)} runs") as tell:
            return judge.read(task, chosen, self._execute(plan, tell))

    def _execute(self, plan: _core.Plan, tell: Tell) -> Results:
        done = pipeline.execute(plan, self.runs(), world=self.world, executor=self.executor, tell=tell)
        self.played += done.played
        self.count += done.count
        if done.interrupted:
            raise Interrupted
        if done.skipped:
            raise Refusal(f"world {done.world}: {done.skipped[0]['set']}: {done.skipped[0]['reason']}")
        return done


@dataclass(frozen=True)
class Varied:
    """The finalists on another link, or with other traffic."""

    name: str
    scores: Scores
    regrets: Mapping[str, tuple[float, ...]]
    """By number: how much worse each finalist is than the best finalist. Throughput and pages as a share, sparse flows
    in ms."""


@dataclass(frozen=True)
class Step:
    """The chosen setting with one parameter changed."""

    parameter: str
    value: float
    cost: float
    """Its cost less that of the chosen setting, in steps: a mean over the seeds."""
    is_chosen: bool = False
    is_shown: bool = True
    """Whether the seeds show that it is worse in a number, the long flows' own delay included."""


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    task: Task
    searched: Scores
    """Every setting of the grid and today's ones, with the first seeds."""
    final: Scores
    """The finalists and today's settings, with fresh seeds."""
    chosen: Candidate
    best: Mapping[str, Candidate]
    """The best setting of each discipline."""
    varied: tuple[Varied, ...]
    sensitivity: tuple[Step, ...]
    lower: Mapping[str, Scores] = field(default_factory=dict)
    """The chosen and today's settings at the lowest rate that the line may have, by its name, if that is much lower."""
    confirmed: Mapping[str, Scores] = field(default_factory=dict)
    """The chosen and today's settings in the kernel world: at the stated rate, which comes first, and at the lowest
    rate that the line may have if that is much lower."""

    @property
    def place(self) -> int:
        """The place of the chosen setting in the final."""
        return self.final.candidates.index(self.chosen)


def search(task: Task, disciplines: Sequence[str], player: Player, seeds: int = 10) -> Found:
    """Finds a setting for a task, among those of the disciplines. Raises Interrupted and Refusal as `Player.play`."""
    today = settings.baselines(task, disciplines)
    every = settings.unique([*today, *settings.grid(task, disciplines)])
    searched = player.play("search", task, every, 1, FIRST_SEEDS)
    kept = _best(searched, disciplines, KEPT, FEWEST)
    kept = settings.unique([*kept, *(one for first in kept for one in _lower(task, first))])
    raced = player.play("race", task, settings.unique([*today, *kept]), 1, race_seeds(task))
    finalists = _best(raced, disciplines, 0.0, FINALISTS)
    final = player.play("final", task, settings.unique([*today, *finalists]), FRESH, seeds)
    best = {kind: _best(final, [kind], 0.0, 1)[0] for kind in disciplines}
    varied = tuple(_varied(task, list(best.values()), player))
    chosen = choose(final, best, varied)
    found = Found(task, searched, final, chosen, best, varied, tuple(_sensitivity(task, chosen, player)))
    shown = compared(found)
    return replace(
        found, lower={name: player.play(name, one, shown, FRESH, seeds) for name, one in lowest(task).items()}
    )


def race_seeds(task: Task) -> int:
    """Returns the number of seeds of the race."""
    bits = sum(queue.rate_bps for queue in task.queues) * task.duration_s
    fewest, most = RACE_SEEDS
    return int(min(most, max(fewest, RACE_BITS / max(bits, 1))))


def compared(found: Found) -> list[Candidate]:
    """Returns the chosen setting, the best of each discipline, and today's, of the disciplines that a stock kernel
    has.
    """
    shown = [found.chosen, *found.best.values(), *(one for one in found.final.candidates if one.baseline)]
    return settings.unique([one for one in shown if one.kind in (*settings.STOCK, *settings.FIFOS)])


def confirm(found: Found, player: Player, seeds: int) -> Found:
    """Plays the chosen setting and today's ones in the player's world, with the seeds of the final."""
    shown = compared(found)
    tasks = {STATED: found.task, **lowest(found.task)}
    played = {name: player.play(f"kernel, {name}", task, shown, FRESH, seeds) for name, task in tasks.items()}
    return replace(found, confirmed=played)


def _best(scores: Scores, disciplines: Sequence[str], share: float, fewest: int) -> list[Candidate]:
    """Returns the best settings of each discipline, the best first."""
    found = []
    for kind in disciplines:
        own = judge.ranked(scores, kind)
        found += [scores.candidates[place] for place in own[: max(fewest, round(share * len(own)))]]
    return found


def _lower(task: Task, first: Candidate) -> Iterator[Candidate]:
    """The same setting with lower rates of the shaper."""
    if first.share is not None and not first.baseline:
        for share in settings.LOWER_SHARES:
            yield settings.candidate(task, first.kind, first.parameters, round(share * first.share, 3))


def _varied(task: Task, best: Sequence[Candidate], player: Player) -> Iterator[Varied]:
    """Plays each discipline's best setting, and today's rules, on other links and with other traffic."""
    for name, other in variations(task).items():
        scores = player.play(name, other, best, FRESH, VARIED_SEEDS)
        yield Varied(name, scores, regrets(scores))


def regrets(scores: Scores) -> dict[str, tuple[float, ...]]:
    """Returns by how much each setting is worse than the best one of them: sparse flows in ms, the rest as a share.
    A difference that the seeds do not show is zero; a setting without a number that others have is NaN.
    """
    found = {}
    for name in judge.JUDGED:
        numbers = scores.number(name)
        means = scores.means(name)
        if np.isnan(means).all():
            continue
        best = int(np.nanargmax(means) if name in judge.WAYS else np.nanargmin(means))
        unit = 1.0 if name == "sparse" else max(abs(float(means[best])), 1e-9)
        found[name] = tuple(_behind(numbers[place], numbers[best]) / unit for place in range(len(numbers)))
    return found


def _behind(own: judge.Floats, best: judge.Floats) -> float:
    """Returns the mean difference between two settings over the seeds, or zero if its interval contains zero."""
    apart = mean_of(present(own - best))
    if apart is None:
        return float("nan")
    return abs(apart.value) if abs(apart.value) > (apart.half_width or 0.0) else 0.0


def choose(final: Scores, best: Mapping[str, Candidate], varied: Sequence[Varied]) -> Candidate:
    """Chooses among the best settings of the disciplines: the one with the lowest cost or, among near-equals, the one
    whose worst regret over the variations is the least. A discipline that no stock kernel has is chosen only if it is
    the only one.
    """
    stock = [one for kind, one in best.items() if kind in settings.STOCK] or list(best.values())
    stock = [one for one in stock if not _is_dominated(final, one)] or stock
    by_cost = dict(zip(stock, map(float, judge.costs(final.of(stock))), strict=True))
    least = min(by_cost.values())
    near = [one for one in stock if by_cost[one] <= least + NEAR_COST]
    return min(near, key=lambda one: (worst_regret(one, varied), by_cost[one]))


def _is_dominated(final: Scores, one: Candidate) -> bool:
    """Returns whether any setting of the final dominates this one."""
    place = final.candidates.index(one)
    return any(
        judge.compare(final, place, other).is_dominated for other in range(len(final.candidates)) if other != place
    )


def worst_regret(one: Candidate, varied: Sequence[Varied]) -> float:
    """Returns the largest regret of a setting over all variations and numbers, in steps."""
    found = [0.0]
    for variation in varied:
        place = variation.scores.candidates.index(one)
        for name, values in variation.regrets.items():
            lost = values[place] / (judge.LEAST_STEP_MS["sparse"] if name == "sparse" else judge.STEPS[name])
            found.append(NOT_FINISHED if np.isnan(lost) else lost)
    return max(found)


NOT_FINISHED = 1000.0
"""The regret, in steps, of a setting without a number that others have."""


def _sensitivity(task: Task, chosen: Candidate, player: Player) -> Iterator[Step]:
    """Plays the chosen setting with each of its numbers changed by `FACTORS`, the others as they are. Values that
    change no line, such as a target below a packet's time, are left out.
    """
    numbers = {**settings.DEFAULTS.get(chosen.kind, {}), **_numbers(chosen.parameters)}
    changed: list[tuple[str, float, Candidate]] = []
    for name, value in numbers.items():
        for factor in FACTORS:
            parameters = {**numbers, **chosen.parameters, name: value * factor}
            if parameters.get("target", 0.0) > parameters.get("interval", float("inf")):
                continue
            one = settings.candidate(task, chosen.kind, parameters, chosen.share)
            if one.inner != chosen.inner:
                changed.append((name, value * factor, one))
    shown = settings.unique([chosen, *(one for _, _, one in changed)])
    scores = player.play("sensitivity", task, shown, FRESH, VARIED_SEEDS)
    costs = dict(zip((one.lines for one in shown), judge.costs(scores), strict=True))
    for name, value in numbers.items():
        yield Step(name, value, 0.0, is_chosen=True)
    places = {one.lines: place for place, one in enumerate(shown)}
    for name, value, one in changed:
        compared = judge.compare(scores, places[one.lines], 0, (*judge.JUDGED, "own"))
        worse = "worse" in compared.verdicts.values()
        yield Step(name, value, float(costs[one.lines] - costs[chosen.lines]), is_shown=worse)


def _numbers(parameters: Parameters) -> dict[str, float]:
    return {name: value for name, value in parameters.items() if not isinstance(value, bool)}


def flat(steps: Sequence[Step], parameter: str, *, shown: bool = False) -> tuple[float, float]:
    """Returns the range of a parameter, around the chosen value, in which the cost grows by at most one step; with
    `shown`, also where the seeds do not show that it is worse.
    """

    def is_flat(one: Step) -> bool:
        return one.cost <= 1 or (shown and not one.is_shown)

    own = sorted((one for one in steps if one.parameter == parameter), key=lambda one: one.value)
    middle = next(place for place, one in enumerate(own) if one.is_chosen)
    low = high = middle
    while low > 0 and is_flat(own[low - 1]):
        low -= 1
    while high < len(own) - 1 and is_flat(own[high + 1]):
        high += 1
    return own[low].value, own[high].value
