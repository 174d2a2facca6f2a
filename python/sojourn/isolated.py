"""Calls functions in a process of its own, for code of the user's that may crash or hang.

The process has the same modules as this one. The code's output goes to our standard error.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from sojourn import _core
from sojourn.errors import Refusal

PATIENCE_S = 60.0
"""Seconds without any progress after which a call counts as hanging."""
POLL_S = 0.1
"""Seconds between two looks at the progress."""
LENGTH = struct.Struct("<Q")
BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from sojourn.isolated import serve; "
    "serve(int(sys.argv[1]))"
)


class BrokenError(Refusal):
    """The code crashed, hung, or ended its process. The message says which, without naming the code."""


RAISES: dict[str, type[Exception]] = {"refused": Refusal, "failed": _core.Error, "raised": RuntimeError}
"""The exceptions of a call, by the kind of its result."""


class Process:
    """A process of its own for calls, one after the other. It begins with the first call, and ends when it is closed or
    when this object is gone.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: IO[bytes] | None = None

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        progress: _core.Progress | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Any:
        """Calls `function(*arguments, progress)` in the process. Returns its result, or None if it was stopped.

        `function` is one of a module, and arguments and result can be pickled. The function's progress becomes that of
        `progress`. Raises BrokenError if the process ends before the function does, or if its progress stands still for
        `patience_s` seconds, and Refusal or `Error` if the function raises it. Without a result the process is closed.
        """
        progress = progress or _core.Progress()
        child, pipe = self._begun()
        try:
            # A child that is gone already is noticed when nothing is heard of it.
            with suppress(BrokenPipeError):
                _write(child, (function.__module__, function.__qualname__, arguments))
            kind, value = _heard(child, pipe, progress, patience_s)
        except BaseException:
            self.close()
            raise
        if kind == "returned":
            return value
        self.close()
        if kind in RAISES:
            raise RAISES[kind](value)
        return None

    def _begun(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._child is None or self._pipe is None:
            hears, says = os.pipe()
            self._pipe = os.fdopen(hears, "rb")
            try:
                self._child = subprocess.Popen(
                    [sys.executable, "-c", BEGIN, str(says)],
                    stdin=subprocess.PIPE,
                    stdout=sys.stderr.fileno() if _has_number(sys.stderr) else subprocess.DEVNULL,
                    pass_fds=[says],
                    start_new_session=True,
                )
            finally:
                os.close(says)
            with suppress(BrokenPipeError):
                _write(self._child, sys.path)
        return self._child, self._pipe

    def close(self) -> None:
        """Ends the process."""
        child, pipe, self._child, self._pipe = self._child, self._pipe, None, None
        if child is not None:
            child.kill()
            child.wait()
            if child.stdin:
                with suppress(BrokenPipeError):
                    child.stdin.close()
        if pipe is not None:
            pipe.close()

    def __del__(self) -> None:
        self.close()


def call(
    function: Callable[..., Any],
    *arguments: Any,
    progress: _core.Progress | None = None,
    patience_s: float = PATIENCE_S,
) -> Any:
    """Calls a function in a process that is there for this call only: see `Process.call`."""
    process = Process()
    try:
        return process.call(function, *arguments, progress=progress, patience_s=patience_s)
    finally:
        process.close()


def _has_number(stream: Any) -> bool:
    """Whether a stream is a file of the system; one that a test or a notebook puts in its place may not be."""
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


def _write(child: subprocess.Popen[bytes], value: Any) -> None:
    assert child.stdin is not None
    pickle.dump(value, child.stdin)
    child.stdin.flush()


def _heard(
    child: subprocess.Popen[bytes], pipe: IO[bytes], progress: _core.Progress, patience_s: float
) -> tuple[str, Any]:
    """Follows a call until it has a result, which is preceded by its kind."""
    moved, last_s = time.monotonic(), 0.0
    while not progress.stopped:
        if not select.select([pipe], [], [], POLL_S)[0]:
            if time.monotonic() - moved > patience_s:
                raise BrokenError(_hangs(patience_s, last_s))
            continue
        said = _message(pipe)
        if said is None:
            raise BrokenError(_end(child.wait()))
        kind, value = said
        if kind != "at":
            return kind, value
        if value > last_s:
            progress.tell(value)
            moved, last_s = time.monotonic(), value
        elif time.monotonic() - moved > patience_s:
            raise BrokenError(_hangs(patience_s, last_s))
    return "stopped", None


def _hangs(patience_s: float, last_s: float) -> str:
    """Describes a call without progress."""
    return f"hangs (no progress for {patience_s:g} s" + (f", after {last_s:.3f} simulated seconds)" if last_s else ")")


def _message(pipe: IO[bytes]) -> tuple[str, Any] | None:
    """The next message of a child. None if it ended."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    body = pipe.read(LENGTH.unpack(head)[0])
    return pickle.loads(body) if len(body) == LENGTH.unpack(head)[0] else None


def _end(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended its process with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"crashed ({name})"


# ---- in the other process ----


def serve(says: int) -> None:
    """Reads calls from standard input, and writes their progress and results."""
    calls = _Calls(says)
    threading.Thread(target=calls.watch, daemon=True).start()
    while True:
        try:
            module, name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        calls.answer(module, name, arguments)


class _Calls:
    """The calls of a process, and the thread that says how far the present one is."""

    def __init__(self, says: int) -> None:
        self.says, self.lock = says, threading.Lock()
        self.present: _core.Progress | None = None

    def answer(self, module: str, name: str, arguments: tuple[Any, ...]) -> None:
        """Makes a call, and writes its result."""
        progress = self.present = _core.Progress()
        try:
            value = getattr(importlib.import_module(module), name)(*arguments, progress)
            kind = "returned"
        except Refusal as error:
            kind, value = "refused", str(error)
        except _core.Error as error:
            kind, value = "failed", str(error)
        except Exception as error:
            import traceback

            kind, value = "raised", f"{error}\n{traceback.format_exc()}"
        ctypes.CDLL(None).fflush(None)  # writes the code's output
        with self.lock:
            self.present = None
            self._say(kind, value)

    def watch(self) -> None:
        """Writes the progress of the present call. Ends the process if the one that asked is gone."""
        while True:
            time.sleep(POLL_S)
            with self.lock:
                if self.present is None:
                    continue
                # Nothing is sent during a call, so only its end can be there.
                if select.select([sys.stdin], [], [], 0)[0]:
                    os._exit(0)
                self._say("at", self.present.simulated_s)

    def _say(self, kind: str, value: Any) -> None:
        body = pickle.dumps((kind, value))
        data = LENGTH.pack(len(body)) + body
        while data:
            data = data[os.write(self.says, data) :]
