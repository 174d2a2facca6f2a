"""The evaluation of queue disciplines by RFC 7928 (AQM Characterization Guidelines).

`suite` has the scenarios as rows, `observed` reads the measures of their runs, `judge` compares each discipline with
tail drop, `tables` and `pictures` show the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn import pipeline, words
from sojourn.errors import NothingToRun
from sojourn.results import Results
from sojourn.rfc7928 import suite
from sojourn.rfc7928.judge import Evaluation
from sojourn.rfc7928.observed import Seen, observed, versions
from sojourn.rfc7928.suite import Asked, Row
from sojourn.runs import RunsInStore
from sojourn.store import Store

if TYPE_CHECKING:
    from sojourn.executors import Executor
    from sojourn.rfc7928.sampled import Sample
    from sojourn.worlds import World


NO_SERIES = ("8.3",)
"""Rows with too many cases to draw each over time."""


class Interrupted(Exception):
    """Ctrl-C ended the evaluation; the store keeps the finished runs."""


def evaluate(
    rows: Sequence[Row],
    lines: Sequence[str],
    store: Store,
    *,
    world: World,
    executor: Executor,
    buffer: float = 1.0,
    seed: int | None = None,
    seeds: int = 10,
    pictures: bool = False,
    outside: Sequence[str] = (),
    watch: Callable[[Row, int], Callable[[float, float], None]] = lambda _row, _runs: lambda _done_s, _all_s: None,
) -> Evaluation:
    """Plays the rows with these disciplines, of which the first is tail drop, and returns what was seen.

    `buffer` is the buffer of all disciplines in BDP. With `pictures`, the series of the first seed are kept for them.
    `watch` is called before each row with the number of its runs. It returns a function that is called with the
    simulated seconds that are done, and with those of the whole row. `outside` are the names of
    disciplines of the user's, which the world has.

    Raises Interrupted after Ctrl-C, and NothingToRun if the world can play no row.
    """
    player = _Player(store, world, executor)
    found: dict[str, list[Seen]] = {}
    samples: dict[str, list[Sample]] = {}
    for row in rows:
        plans = suite.asked(row, lines, buffer=buffer, seed=seed, seeds=seeds, outside=outside)
        player.begin(plans, watch(row, sum(len(one.plan) for one in plans)))
        seen: list[Seen] = []
        for asked in plans:
            if pictures and row.name not in NO_SERIES:
                samples.setdefault(row.name, []).extend(player.samples(asked))
            seen += player.seen(asked)
        if any(one.place == 0 for one in seen):
            found[row.name] = seen
    kept = tuple(row for row in rows if row.name in found)
    if not kept:
        raise NothingToRun(f"nothing to run: {player.skipped[0][2]}")
    return Evaluation(
        rows=kept,
        names=tuple(suite.names(lines)),
        lines=tuple(lines),
        world=world.name,
        buffer=buffer,
        seeds=seeds,
        found=found,
        samples=samples,
        skipped=tuple(player.skipped),
        broken=tuple(player.broken),
        runs=player.runs,
        played=player.played,
        versions=player.versions,
    )


class _Player:
    """Plays plans one after the other, and adds up their progress."""

    def __init__(self, store: Store, world: World, executor: Executor) -> None:
        self.store, self.world, self.executor = store, world, executor
        self.skipped: list[tuple[str, str, str]] = []
        """Row, combination and reason of what the world cannot play."""
        self.broken: list[str] = []
        """The causes of runs that a discipline of the user's ended."""
        self.runs = self.played = 0
        """The runs that exist, and those of them that were played now."""
        self.versions: dict[str, str] = {}
        """The versions of the programs that played them."""
        self.before_s = self.all_s = 0.0

    def begin(self, plans: Sequence[Asked], tell: Callable[[float, float], None]) -> None:
        """Begins a row with these plans."""
        self.tell = tell
        self.before_s, self.all_s = 0.0, sum(map(_seconds, plans))

    def samples(self, asked: Asked) -> list[Sample]:
        """Plays the first seed of a plan, and returns its series."""
        from sojourn.rfc7928.sampled import sampled

        first = replace(asked, plan=asked.plan.reseeded(None, 1))
        try:
            return list(sampled(first, self._play(first, RunsInStore(self.store, series=True))))
        except NothingToRun:
            return []

    def seen(self, asked: Asked) -> list[Seen]:
        """Plays all seeds of a plan, and returns what was measured."""
        name = asked.row.name
        try:
            done = self._play(asked, RunsInStore(self.store))
        except NothingToRun as error:
            self.skipped.append((name, asked.variant.label or "all cases", str(error)))
            return []
        finally:
            self.before_s += _seconds(asked)
        self.runs += done.count
        self.versions |= versions(done)
        self.skipped += [(name, _text(one["set"]), one["reason"]) for one in done.skipped]
        return observed(asked, done)

    def _play(self, asked: Asked, runs: RunsInStore) -> Results:
        def tell(done_s: float, _all_s: float) -> None:
            self.tell(self.before_s + done_s, self.all_s)

        done = pipeline.execute(asked.plan, runs, world=self.world, executor=self.executor, tell=tell)
        self.played += done.played
        self.broken += done.broken
        if done.interrupted:
            raise Interrupted
        return done


def _seconds(asked: Asked) -> float:
    return sum(float(run["duration_s"]) for run in asked.plan.runs)


def _text(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {words.cell_text(value)}" for key, value in one.items())
