"""Work for all cores: threads, since a simulation needs no GIL and a guest is a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from sojourn import _core

POLL_S = 0.1
"""How often progress is told, and Ctrl-C looked for."""

T = TypeVar("T")
R = TypeVar("R")


def each(
    todo: Iterator[T | None],
    play: Callable[[T, _core.Progress], R],
    *,
    jobs: int | None = None,
    tell: Callable[[float], None] = lambda _simulated_s: None,
) -> Iterator[tuple[T, R]]:
    """Plays what `todo` gives, as many at a time as there are cores, and yields what comes out as it comes.

    `todo` is asked only when a core is free; None from it means that there is nothing yet. `tell` learns the simulated
    seconds of what is playing. The first error, Ctrl-C, or a caller who leaves stops what is playing.
    """
    most = jobs or os.cpu_count() or 1
    playing: dict[Future[R], tuple[T, _core.Progress]] = {}
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
                watch = _core.Progress()
                playing[pool.submit(play, item, watch)] = (item, watch)
            for future in _finished(playing, over):
                item, _ = playing.pop(future)
                yield item, future.result()
            tell(sum(watch.simulated_s for _, watch in playing.values()))
    finally:
        for _, watch in playing.values():
            watch.stop()
        pool.shutdown(wait=True, cancel_futures=True)


def _finished(playing: dict[Future[R], tuple[T, _core.Progress]], over: bool) -> set[Future[R]]:
    """The futures that finish within POLL_S. If none is playing, waits as long for more items unless `over`."""
    if not playing:
        if not over:
            time.sleep(POLL_S)
        return set()
    return wait(playing, timeout=POLL_S, return_when=FIRST_COMPLETED).done
