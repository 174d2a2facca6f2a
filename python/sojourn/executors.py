"""Executors: they play many runs at a time.

`Cores` uses the cores of this machine. An executor plays items of any kind for a `Work`, which says how an item is
played, whether it is still to be played, and where its outcome is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sojourn import _core

POLL_S = 0.1
"""Seconds between two checks of the progress and for Ctrl-C."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
ItemIn = TypeVar("ItemIn", contravariant=True)
OutcomeOut = TypeVar("OutcomeOut", covariant=True)


class Task(Protocol[ItemIn, OutcomeOut]):
    """How an item is played. It can be pickled, so that another process plays the same."""

    def key(self, item: ItemIn, /) -> object:
        """All that the outcome depends on besides the item; equal in every process that may play the item."""

    def play(self, item: ItemIn, progress: _core.Progress, /) -> OutcomeOut | None:
        """Plays an item. Returns None if it was stopped."""


class Work(Protocol[ItemIn, Outcome]):
    """Plays items and keeps their outcomes. Its methods are called in this process, by several threads."""

    @property
    def task(self) -> Task[ItemIn, Outcome]:
        """How they are played."""

    def reserve(self, item: ItemIn) -> AbstractContextManager[bool]:
        """Holds an item while it is played and kept; False if it is not to be played here and now."""

    def keep(self, items: Sequence[ItemIn], outcomes: Sequence[Outcome]) -> None:
        """Keeps the outcomes of items that were played together."""


Tell = Callable[[float], None]
"""Called with the simulated seconds, in total, of all items that are playing now."""


class Executor(Protocol):
    """Plays items at the same time."""

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = ...
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """Plays the items of `todo`, and yields each with its outcome when it is kept, in any order.

        The outcome is None if the item was not to be played here and now. None from `todo` means that there is nothing
        to play at the moment. The first error, Ctrl-C, or a caller who leaves stops what is playing.
        """


@dataclass(frozen=True)
class Cores:
    """This machine's cores: a thread for each, since a simulation needs no GIL and a guest is a process of its own."""

    jobs: int | None = None
    """How many items are played at the same time; None: as many as there are cores."""

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = lambda _simulated_s: None
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """As `Executor.each`. `todo` is asked for the next item only when a core is free."""

        def play(item: Item, progress: _core.Progress) -> Outcome | None:
            with work.reserve(item) as free:
                outcome = work.task.play(item, progress) if free else None
                if outcome is not None:
                    work.keep([item], [outcome])
                return outcome

        most = self.jobs or os.cpu_count() or 1
        playing: dict[Future[Outcome | None], tuple[Item, _core.Progress]] = {}
        pool = ThreadPoolExecutor(max_workers=most, thread_name_prefix="sojourn")
        over = False
        try:
            while playing or not over:
                while not over and len(playing) < most:
                    try:
                        item = next(todo)
                    except StopIteration:
                        over = True
                        break
                    if item is None:
                        break
                    progress = _core.Progress()
                    playing[pool.submit(play, item, progress)] = (item, progress)
                for future in _finished(playing, over):
                    item, _ = playing.pop(future)
                    yield item, future.result()
                tell(sum(progress.simulated_s for _, progress in playing.values()))
        finally:
            for _, progress in playing.values():
                progress.stop()
            pool.shutdown(wait=True, cancel_futures=True)


def _finished(
    playing: dict[Future[Outcome | None], tuple[Item, _core.Progress]], over: bool
) -> set[Future[Outcome | None]]:
    """The futures that finish within POLL_S. If none is playing, waits as long for more items unless `over`."""
    if not playing:
        if not over:
            time.sleep(POLL_S)
        return set()
    return wait(playing, timeout=POLL_S, return_when=FIRST_COMPLETED).done
