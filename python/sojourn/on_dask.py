"""The executor that plays runs on a Dask cluster: `--on dask://HOST:PORT`, `--on dask`.

A task of the cluster is a bundle of runs that lasts some seconds, so that Dask's overhead per task is small. A worker
needs only the package `sojourn` in the same version, because a plan contains the content of its files. Bundles of a
lost worker are played again by other workers. This process keeps the results.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Generic, cast

from sojourn import _core
from sojourn.errors import Refusal, nearest_of
from sojourn.executors import POLL_S, Executor, Item, Outcome, Tell, Work

Client = Any
Future = Any
"""Stands for the classes of `distributed`, which has no type hints."""

BUNDLE_S = 2.0
"""Seconds that a bundle should last."""
LARGEST_BUNDLE = 256
"""The largest number of runs in a bundle. A run is reserved while a worker has it, and each reserved run keeps a file
open.
"""
MOST_OUT = 768
"""The largest number of runs that workers have at the same time. Each keeps a file open, and a process may have about a
thousand open files.
"""
AHEAD = 2
"""Bundles that are sent ahead to each worker thread, so that it need not wait for the next one."""
CONNECT_S = 10.0
STARTS = 2
"""How often a cluster on this machine is started before it is given up."""
ALONE_S = 60.0
"""Seconds without any worker after which the runs that are sent out are given up."""
ENDED = ("finished", "error")


@dataclass(frozen=True)
class Dask:
    """A Dask cluster: an existing scheduler with its workers, or one on this machine."""

    address: str | None = None
    """The scheduler's address, `tcp://HOST:PORT`. With None, a scheduler and its worker processes are started here."""
    jobs: int | None = None
    """The number of worker processes of a cluster that is started here. None: one for each core."""

    def each(
        self, todo: Iterator[Item | None], work: Work[Item, Outcome], tell: Tell = lambda _simulated_s: None
    ) -> Iterator[tuple[Item, Outcome | None]]:
        """See `Executor.each`. Raises Refusal if the scheduler cannot be reached, or is lost; finished runs are
        kept.
        """
        with _client(self.address, self.jobs) as client:
            yield from _Session(client, name_of(self.address), work).each(todo, tell)


def name_of(address: str | None) -> str:
    """Returns a cluster's name for messages, in the form that `--on` accepts."""
    return f"dask://{address.removeprefix('tcp://')}" if address else "dask"


@contextmanager
def _client(address: str | None, jobs: int | None) -> Iterator[Client]:
    """Connects to the cluster. A cluster that was started here ends when the connection is closed."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise Refusal("--on dask: Dask is not installed: pip install 'sojourn[dask]'") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # our messages replace those of `distributed`
    with ExitStack() as stack:
        if address is None:
            local = _start(distributed, jobs or os.cpu_count() or 1)
            stack.callback(_close, local)
            address = local.scheduler_address
        try:
            client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:
            _refuse_interrupted(error)
            if not isinstance(error, OSError | TimeoutError | ValueError):
                raise
            raise Refusal(
                f"--on = {name_of(address)}: no scheduler answers there: expected the address of a running one, as "
                "'dask scheduler' prints it"
            ) from error
        stack.callback(_close, client)
        yield client


def _start(distributed: Any, count: int) -> Any:
    """Starts a scheduler and `count` worker processes on this machine. A start that fails, as when the system ends a
    worker meanwhile, is repeated once. Raises Refusal if it fails again, and KeyboardInterrupt for Ctrl-C.
    """
    failed: Exception | None = None
    for _ in range(STARTS):
        try:
            return distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",  # any free port: two clusters may run here
                silence_logs=logging.CRITICAL,
            )
        except Exception as error:  # `distributed` raises errors of many kinds here
            _refuse_interrupted(error)
            failed = error
    reason = " ".join(f"{type(failed).__name__}: {failed}".split())
    raise Refusal(
        f"--on = dask: {count} worker processes do not start ({reason[:120]}): expected memory and processes for them; "
        "--jobs N starts fewer"
    ) from failed


def _refuse_interrupted(error: BaseException) -> None:
    """Raises KeyboardInterrupt if Ctrl-C or SIGTERM is the origin of an error. `distributed` cleans up then, and fails
    with an error of its own.
    """
    seen: list[BaseException] = []
    origin: BaseException | None = error
    while origin is not None and origin not in seen:
        if isinstance(origin, KeyboardInterrupt | SystemExit):
            raise KeyboardInterrupt from error
        seen.append(origin)
        origin = origin.__cause__ or origin.__context__


def _close(opened: Any) -> None:
    """Closes a client or a cluster, whatever has become of it."""
    with suppress(Exception):
        opened.close(timeout=2)


@dataclass
class _Bundle(Generic[Item]):
    """Items that a worker plays one after the other."""

    items: list[Item]
    reserved: ExitStack
    begin: float = field(default_factory=time.monotonic)


class _Session(Generic[Item, Outcome]):
    """One call of `Dask.each`."""

    def __init__(self, client: Client, name: str, work: Work[Item, Outcome]) -> None:
        self.client, self.name, self.work = client, name, work
        # By value, since a user's own world may be a class of the user's program.
        self.task: bytes = import_module("cloudpickle").dumps(work.task)
        self.wait: Any = import_module("distributed").wait
        self.out: dict[Future, _Bundle[Item]] = {}
        self.seen = time.monotonic()
        """When there was a worker last."""
        self.run_s: float | None = None
        """Seconds that a run takes on a worker, estimated from the bundles that came back. None before the first."""

    def each(self, todo: Iterator[Item | None], tell: Tell) -> Iterator[tuple[Item, Outcome | None]]:
        over = False
        try:
            while self.out or not over:
                while not over and len(self.out) < AHEAD * self._threads():
                    bundle, over, refused = self._next(todo)
                    yield from ((item, None) for item in refused)
                    if not bundle.items:
                        break
                    self._submit(bundle)
                if self.out:
                    with suppress(Exception), self.client.as_current():  # errors are handled below
                        self.wait(list(self.out), timeout=POLL_S, return_when="FIRST_COMPLETED")
                elif not over:
                    time.sleep(POLL_S)
                self._refuse_if_lost()
                for future in [one for one in self.out if one.status in ENDED]:
                    yield from self._take(future)
                tell(0.0)
        finally:
            with suppress(Exception):
                self.client.cancel(list(self.out), force=True)
            for bundle in self.out.values():
                bundle.reserved.close()

    def _threads(self) -> int:
        """Returns the number of threads of all workers, or 1 if there is no worker yet."""
        return max(1, self._workers())

    def _workers(self) -> int:
        """Returns the number of threads of all workers; 0 if there is no worker, or no answer."""
        with suppress(OSError, ValueError):
            return sum(map(int, self.client.nthreads().values()))
        return 0

    def _size(self) -> int:
        """Returns the number of runs for the next bundle. The first bundles are small, to find out how long a run
        takes.
        """
        if self.run_s is None:
            return 1
        most = min(LARGEST_BUNDLE, MOST_OUT // (AHEAD * self._threads()))
        return max(1, min(most, int(BUNDLE_S / max(self.run_s, 1e-6))))

    def _next(self, todo: Iterator[Item | None]) -> tuple[_Bundle[Item], bool, list[Item]]:
        """Returns the next bundle, whether it is the last, and the items that could not be reserved."""
        bundle, refused = _Bundle[Item]([], ExitStack()), list[Item]()
        for _ in range(self._size()):
            try:
                item = next(todo)
            except StopIteration:
                return bundle, True, refused
            if item is None:
                break
            if bundle.reserved.enter_context(self.work.reserve(item)):
                bundle.items.append(item)
            else:
                refused.append(item)
        return bundle, False, refused

    def _submit(self, bundle: _Bundle[Item]) -> None:
        key = self.work.task.key(bundle.items[0])
        # The same bundle may be sent twice, by two commands: it is played twice then.
        self.out[self.client.submit(play, self.task, key, bundle.items, pure=False, retries=0)] = bundle

    def _take(self, future: Future) -> Iterator[tuple[Item, Outcome | None]]:
        """Keeps the outcomes of a bundle."""
        bundle = self.out.pop(future)
        with bundle.reserved:
            if future.status != "finished":
                self._refuse_failed(future)
            outcomes, took_s = cast("tuple[list[Outcome], float]", future.result())
            self.run_s = took_s / len(outcomes)
            self.work.keep(bundle.items, outcomes)
        yield from zip(bundle.items, outcomes, strict=True)

    def _refuse_failed(self, future: Future) -> None:
        error = future.exception() if future.status == "error" else None
        if type(error).__name__ == "KilledWorker":
            raise Refusal(
                f"--on = {self.name}: a run ended several workers, one after the other (is there enough memory?): "
                "finished runs are kept"
            ) from error
        if error is not None:
            raise error
        self._refuse_lost()

    def _refuse_if_lost(self) -> None:
        if self.client.status not in ("running", "connecting"):
            self._refuse_lost()
        # If a future is lost with its worker, the scheduler runs it again.
        if any(future.status == "cancelled" for future in self.out):
            self._refuse_lost()
        if not self.out or self._workers():
            self.seen = time.monotonic()
        elif time.monotonic() - self.seen > ALONE_S:
            raise Refusal(
                f"--on = {self.name}: no worker for {ALONE_S:g} s: expected 'dask worker' on some machine; "
                "finished runs are kept"
            )

    def _refuse_lost(self) -> None:
        raise Refusal(
            f"--on = {self.name}: the connection to the scheduler is lost: finished runs are kept, and the same "
            "command goes on after them"
        )


def play(task: bytes, key: object, items: Sequence[Any]) -> tuple[list[Any], float]:
    """Plays a bundle on a worker. Returns the outcomes, and the seconds that they took.

    Raises Refusal if the worker's simulator or kernel differs from that of the process that sent the bundle.
    """
    mine = _task(task)
    if (here := mine.key(items[0])) != key:
        raise Refusal(
            f"--on dask: a worker plays with {here}, and not with {key}: expected the same version of sojourn on it"
        )
    begin = time.monotonic()  # to import the package and to read the plan takes longer than many a run
    return [mine.play(item, _core.Progress()) for item in items], time.monotonic() - begin


@lru_cache(maxsize=4)
def _task(task: bytes) -> Any:
    """Unpickles a task. A worker does this once, and uses the result for all bundles of the task."""
    return pickle.loads(task)


DASK = "dask"


def named_executor(word: str, jobs: int | None = None) -> Executor:
    """Returns the executor that `--on` names: `dask://HOST:PORT`, or `dask` for a cluster that is started here.

    `jobs` is the number of worker processes of a cluster that is started here. Raises Refusal for anything else.
    """
    scheme, between, address = word.partition("://")
    host, colon, port = address.rpartition(":")
    if word == DASK:
        return Dask(None, jobs)
    if scheme != DASK or not between:
        raise Refusal(f"--on = {word}: expected dask://HOST:PORT or dask{nearest_of(word, [DASK])}")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise Refusal(f"--on = {word}: expected dask://HOST:PORT, with the port of a scheduler, such as 8786")
    if jobs is not None:
        raise Refusal(f"--jobs = {jobs}: not with --on {word}, whose workers decide how many runs they play at a time")
    return Dask(f"tcp://{address}")
