"""Calls a function in a process of its own, for code of the user's that may crash or hang.

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


def call(
    function: Callable[..., Any],
    *arguments: Any,
    progress: _core.Progress | None = None,
    patience_s: float = PATIENCE_S,
) -> Any:
    """Calls `function(*arguments, progress)` in another process, and returns its result, or None if it was stopped.

    `function` is one of a module, and arguments and result can be pickled. The function's progress becomes that of
    `progress`. Raises BrokenError if the process ends before the function does, or if its progress stands still for
    `patience_s` seconds, and Refusal or `Error` if the function raises it.
    """
    progress = progress or _core.Progress()
    hears, says = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(says)],
        stdin=subprocess.PIPE,
        stdout=sys.stderr.fileno() if _has_number(sys.stderr) else subprocess.DEVNULL,
        pass_fds=[says],
        start_new_session=True,
    )
    os.close(says)
    try:
        with os.fdopen(hears, "rb") as pipe:
            _send(child, function, arguments)
            return _heard(child, pipe, progress, patience_s)
    finally:
        child.kill()
        child.wait()
        if child.stdin:
            with suppress(BrokenPipeError):
                child.stdin.close()


def _has_number(stream: Any) -> bool:
    """Whether a stream is a file of the system; one that a test or a notebook puts in its place may not be."""
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


def _send(child: subprocess.Popen[bytes], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    assert child.stdin is not None
    # A child that is gone already is noticed when nothing is heard of it.
    with suppress(BrokenPipeError):
        pickle.dump(sys.path, child.stdin)
        pickle.dump((function.__module__, function.__qualname__, arguments), child.stdin)
        child.stdin.flush()


def _heard(child: subprocess.Popen[bytes], pipe: IO[bytes], progress: _core.Progress, patience_s: float) -> Any:
    """Follows a child until it has a result."""
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
        if kind == "returned":
            return value
        if kind == "refused":
            raise Refusal(value)
        if kind == "failed":
            raise _core.Error(value)
        if kind == "raised":
            raise RuntimeError(value)
        if value > last_s:
            progress.tell(value)
            moved, last_s = time.monotonic(), value
        elif time.monotonic() - moved > patience_s:
            raise BrokenError(_hangs(patience_s, last_s))
    return None


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
    """Reads a call from standard input, and writes its progress and result."""
    module, name, arguments = pickle.load(sys.stdin.buffer)
    progress, lock = _core.Progress(), threading.Lock()

    def say(kind: str, value: Any) -> None:
        body = pickle.dumps((kind, value))
        with lock:
            data = LENGTH.pack(len(body)) + body
            while data:
                data = data[os.write(says, data) :]

    def watch() -> None:
        # The other end of standard input is open as long as the process that asked is there.
        while not select.select([sys.stdin], [], [], POLL_S)[0]:
            say("at", progress.simulated_s)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    function = getattr(importlib.import_module(module), name)
    try:
        kind, value = "returned", function(*arguments, progress)
    except Refusal as error:
        kind, value = "refused", str(error)
    except _core.Error as error:
        kind, value = "failed", str(error)
    except Exception as error:
        import traceback

        kind, value = "raised", f"{error}\n{traceback.format_exc()}"
    # The code's output is written; its functions that run at exit are not called.
    ctypes.CDLL(None).fflush(None)
    say(kind, value)
    os._exit(0)
