"""Executors: they play many runs at a time.

`Cores` uses the cores of this machine. An executor plays items of any kind for a `Work`, which says how an item is
played, whether it is still to be played, and where its outcome is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from sojourn import _core

POLL_S = 0.1
"""Seconds between two checks of the progress and for Ctrl-C."""

KEEP_S = 0.1
"""Seconds for which an outcome may wait for others that are kept together with it."""
MOST_UNKEPT = 64
"""Outcomes that may wait to be kept."""

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

    @property
    def is_adaptive(self) -> bool:
        """Whether the next item depends on the outcomes so far, so that none of them may wait to be kept."""

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
    """This machine's cores: a thread for each, since a simulation needs no GIL and a guest is a process of its own.

    A further thread keeps the outcomes, those of KEEP_S together: each call waits for the disk, longer than a short run
    plays.
    """

    jobs: int | None = None
    """The number of items that are played at the same time; None: the number of cores."""

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = lambda _simulated_s: None
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """As `Executor.each`. `todo` is asked for the next item only when a core is free."""
        most = self.jobs or os.cpu_count() or 1
        most_unfinished = most if work.is_adaptive else most + MOST_UNKEPT
        session = _Session(work, most)
        over = False
        try:
            while session.unfinished or not over:
                while not over and len(session.playing) < most and session.unfinished < most_unfinished:
                    try:
                        item = next(todo)
                    except StopIteration:
                        over = True
                        break
                    if item is None:
                        break
                    session.begin(item)
                if session.unfinished or not over:
                    yield from session.finished()
                tell(sum(progress.simulated_s for progress in session.playing))
        finally:
            session.end()


@dataclass
class _Played(Generic[Item, Outcome]):
    """An item that was played, or was not to be played here and now."""

    item: Item
    progress: _core.Progress
    reserved: ExitStack
    """Holds the item until its outcome is kept."""
    outcome: Outcome | None = None


class _Session(Generic[Item, Outcome]):
    """One call of `Cores.each`. Attributes belong to the caller's thread; the others send it events."""

    def __init__(self, work: Work[Item, Outcome], most: int) -> None:
        self.work = work
        self.playing: set[_core.Progress] = set()
        """The progress of each item that is playing."""
        self.unfinished = 0
        """Items that are playing, or are played and not yet kept."""
        self.ready: list[_Played[Item, Outcome]] = []
        """Items that are played and will be kept together."""
        self.ready_since = 0.0
        self.cores = ThreadPoolExecutor(max_workers=most, thread_name_prefix="sojourn")
        self.keeper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sojourn-keep")
        self.events: SimpleQueue[_Played[Item, Outcome] | list[_Played[Item, Outcome]] | BaseException] = SimpleQueue()
        """An item that was played, items that are kept, or an error."""

    def begin(self, item: Item) -> None:
        """Starts to play an item."""
        progress = _core.Progress()
        self.playing.add(progress)
        self.unfinished += 1
        self.cores.submit(self._play, item, progress)

    def finished(self) -> Iterator[tuple[Item, Outcome | None]]:
        """Yields items that are finished; waits POLL_S at most."""
        try:
            event = self.events.get(timeout=POLL_S)
        except Empty:
            event = []
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, list):
            self.unfinished -= len(event)
            yield from ((one.item, one.outcome) for one in event)
        else:
            self.playing.discard(event.progress)
            self.ready_since = self.ready_since if self.ready else time.monotonic()
            self.ready.append(event)
        waited = time.monotonic() - self.ready_since >= KEEP_S or self.work.is_adaptive
        if self.ready and (waited or not self.playing or len(self.ready) == MOST_UNKEPT):
            self.keep()

    def keep(self) -> None:
        """Has the outcomes kept that are ready."""
        self.keeper.submit(self._keep, self.ready)
        self.ready = []

    def end(self) -> None:
        """Stops what is playing, and keeps what was played."""
        for progress in self.playing:
            progress.stop()
        self.cores.shutdown(wait=True, cancel_futures=True)
        with suppress(Empty):
            while True:
                if isinstance(event := self.events.get_nowait(), _Played):
                    self.ready.append(event)
        self.keep()
        self.keeper.shutdown(wait=True)

    # ---- a thread for each core ----

    def _play(self, item: Item, progress: _core.Progress) -> None:
        """Plays an item, unless it is not to be played here and now."""
        played = _Played[Item, Outcome](item, progress, ExitStack())
        try:
            if played.reserved.enter_context(self.work.reserve(item)):
                played.outcome = self.work.task.play(item, progress)
        except BaseException as error:
            played.reserved.close()
            self.events.put(error)
        else:
            self.events.put(played)

    # ---- the thread that keeps ----

    def _keep(self, batch: list[_Played[Item, Outcome]]) -> None:
        """Keeps the outcomes of these items."""
        kept = [(one.item, one.outcome) for one in batch if one.outcome is not None]
        try:
            if kept:
                self.work.keep([item for item, _ in kept], [outcome for _, outcome in kept])
        except BaseException as error:
            self.events.put(error)
        else:
            self.events.put(batch)
        finally:
            for one in batch:
                one.reserved.close()
