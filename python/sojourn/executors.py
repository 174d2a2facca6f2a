"""Executors: they play many runs at a time.

`Cores` uses the cores of this machine. An executor plays items of any kind for a `Work`. The `Work` decides how an item
is played, whether it still needs to be played, and where its outcome is kept.
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
from sojourn.arguments import refuse_other, whole

POLL_S = 0.1
"""Seconds between two checks of the progress and of Ctrl-C."""

KEEP_S = 0.1
"""Seconds that an outcome may wait, so that several outcomes are kept with one call."""
MOST_UNKEPT = 64
"""The largest number of outcomes that may wait to be kept."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
ItemIn = TypeVar("ItemIn", contravariant=True)
OutcomeOut = TypeVar("OutcomeOut", covariant=True)


class Task(Protocol[ItemIn, OutcomeOut]):
    """How an item is played. It can be pickled, so that another process can play the item in the same way."""

    def key(self, item: ItemIn, /) -> object:
        """Everything that the outcome depends on besides the item. It must be equal in every process that plays
        items.
        """

    def play(self, item: ItemIn, progress: _core.Progress, /) -> OutcomeOut | None:
        """Plays an item. Returns None if it was stopped."""


class Work(Protocol[ItemIn, Outcome]):
    """Plays items and keeps their outcomes. Its methods are called in this process, by several threads."""

    @property
    def task(self) -> Task[ItemIn, Outcome]:
        """How the items are played."""

    @property
    def is_adaptive(self) -> bool:
        """Whether the choice of the next item depends on the outcomes so far. Then each outcome is kept at once."""

    def reserve(self, item: ItemIn) -> AbstractContextManager[bool]:
        """Reserves an item until its outcome is kept. The value is False if this process should not play the item
        now.
        """

    def keep(self, items: Sequence[ItemIn], outcomes: Sequence[Outcome]) -> None:
        """Keeps the outcomes of items that were played together."""


Tell = Callable[[float], None]
"""Called with the simulated seconds, in total, of all items that are playing now."""


class Executor(Protocol):
    """Plays items at the same time."""

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = ...
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """Plays the items of `todo`. Yields each item with its outcome, once the outcome is kept, in any order.

        The outcome is None if the item could not be reserved. None from `todo` means that there is nothing to play at
        the moment. The items that are playing are stopped at the first error, at Ctrl-C, and when the caller closes
        this iterator.
        """


@dataclass(frozen=True)
class Cores:
    """Plays items on this machine's cores, with one thread for each core. Threads suffice because a simulation releases
    the GIL, and a guest is a separate process.

    One more thread keeps the outcomes; those of the last KEEP_S are kept with one call. Each call waits for the disk,
    which takes longer than a short run.
    """

    jobs: int | None = None
    """The number of items that are played at the same time; None: the number of cores."""

    def __post_init__(self) -> None:
        """Raises Refusal for a number of jobs that there cannot be."""
        if self.jobs is not None:
            refuse_other("jobs", self.jobs, whole(1, 1024))

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = lambda _simulated_s: None
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """See `Executor.each`. The next item is taken from `todo` only when a core is free."""
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
    """An item that was played, or that could not be reserved."""

    item: Item
    progress: _core.Progress
    reserved: ExitStack
    """Keeps the item reserved until its outcome is kept."""
    outcome: Outcome | None = None


class _Session(Generic[Item, Outcome]):
    """The state of one call of `Cores.each`. Only the caller's thread uses these attributes; the other threads send it
    events.
    """

    def __init__(self, work: Work[Item, Outcome], most: int) -> None:
        self.work = work
        self.playing: set[_core.Progress] = set()
        """The progress of each item that is playing."""
        self.unfinished = 0
        """The number of items that are playing, or were played and are not yet kept."""
        self.ready: list[_Played[Item, Outcome]] = []
        """Items that were played and wait to be kept together."""
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
        """Yields finished items. Waits at most POLL_S for one. It is called when all free cores have got an item."""
        waited = time.monotonic() - self.ready_since >= KEEP_S or self.work.is_adaptive
        if self.ready and (waited or not self.playing or len(self.ready) >= MOST_UNKEPT):
            self.keep()
        try:
            event = self.events.get(timeout=min(POLL_S, KEEP_S) if self.ready else POLL_S)
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

    def keep(self) -> None:
        """Tells the keeping thread to keep the outcomes that are ready."""
        self.keeper.submit(self._keep, self.ready)
        self.ready = []

    def end(self) -> None:
        """Stops the items that are playing, and keeps the outcomes of those that were played."""
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
        """Plays an item if it can be reserved."""
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
