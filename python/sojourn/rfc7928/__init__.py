"""The evaluation of queue disciplines by RFC 7928 (AQM Characterization Guidelines).

`suite` has the scenarios as rows, `observed` reads the measures of their runs, `judge` compares each discipline with
tail drop, `tables` and `pictures` show the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn import pipeline, words
from sojourn.errors import NothingToRun
from sojourn.rfc7928 import suite
from sojourn.rfc7928.judge import Evaluation
from sojourn.rfc7928.observed import Seen, observed
from sojourn.rfc7928.suite import Asked, Row
from sojourn.runs import RunsInStore
from sojourn.store import Store

if TYPE_CHECKING:
    from sojourn.executors import Executor
    from sojourn.worlds import World


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
    watch: Callable[[Row, int], Callable[[float, float], None]] = lambda _row, _runs: lambda _done_s, _all_s: None,
) -> Evaluation:
    """Plays the rows with these disciplines, of which the first is tail drop, and returns what was seen.

    `buffer` is the buffer of all disciplines in BDP. `watch` is called before each row with the number of its runs. It
    returns a function that is called with the simulated seconds that are done, and with those of the whole row.

    Raises Interrupted after Ctrl-C, and NothingToRun if the world can play no row.
    """
    found: dict[str, list[Seen]] = {}
    skipped: list[tuple[str, str, str]] = []
    for row in rows:
        plans = suite.asked(row, lines, buffer=buffer, seed=seed, seeds=seeds)
        told = _Whole(plans, watch(row, sum(len(one.plan) for one in plans)))
        seen = [one for asked in plans for one in _played(asked, store, world, executor, told, skipped)]
        if any(one.place == 0 for one in seen):
            found[row.name] = seen
    kept = tuple(row for row in rows if row.name in found)
    if not kept:
        raise NothingToRun(f"nothing to run: {skipped[0][2]}")
    return Evaluation(kept, tuple(suite.names(lines)), tuple(lines), world.name, buffer, seeds, found, tuple(skipped))


class _Whole:
    """Adds up the progress of several plans that are played one after the other."""

    def __init__(self, plans: Sequence[Asked], tell: Callable[[float, float], None]) -> None:
        self.tell = tell
        self.all_s = sum(map(_seconds, plans))
        self.before_s = 0.0

    def __call__(self, done_s: float, _of_s: float) -> None:
        self.tell(self.before_s + done_s, self.all_s)


def _seconds(asked: Asked) -> float:
    return sum(float(run["duration_s"]) for run in asked.plan.runs)


def _played(
    asked: Asked,
    store: Store,
    world: World,
    executor: Executor,
    told: _Whole,
    skipped: list[tuple[str, str, str]],
) -> Iterator[Seen]:
    try:
        done = pipeline.execute(asked.plan, RunsInStore(store), world=world, executor=executor, tell=told)
    except NothingToRun as error:
        skipped.append((asked.row.name, asked.variant.label or "all cases", str(error)))
        return
    finally:
        told.before_s += _seconds(asked)
    if done.interrupted:
        raise Interrupted
    skipped += [(asked.row.name, _text(one["set"]), one["reason"]) for one in done.skipped]
    yield from observed(asked, done)


def _text(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {words.cell_text(value)}" for key, value in one.items())
