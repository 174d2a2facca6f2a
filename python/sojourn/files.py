"""Reads files that the user names, and reserves folders to write to.

A name may be that of a FIFO, a device, a socket or a folder. To open one of them may wait for ever, or return bytes
without end, so only regular files are read, and no more than a bound.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sojourn.errors import Refusal

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 2**30
"""The largest file that is read at once, in bytes."""
BLOCK = 2**16
"""Bytes that are read at a time from a file whose size is not known."""
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
"""The kinds of names that are not those of regular files, with their words."""
WITHOUT_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)
"""Errors of file systems that cannot lock a folder."""


def refuse_other_than_file(path: Path, what: str) -> None:
    """Refuses a path that exists and is not a regular file. `what` says what was expected: `a packet trace`.

    Raises OSError if the path cannot be looked up; a path that does not exist is not refused here.
    """
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for is_kind, name in KINDS if is_kind(mode)), "no regular file")
            raise Refusal(f"{path}: this is {kind}: expected {what}, as a regular file")


def read_bytes(path: Path, what: str, *, most: int = LARGEST) -> bytes:
    """Reads a regular file of at most `most` bytes. `what` says what was expected: `a packet trace`.

    Raises Refusal for anything else, and for a file that cannot be read.
    """
    try:
        refuse_other_than_file(path, what)
        # If a FIFO takes the file's place now, to open it does not wait.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise Refusal(f"{path}: expected {what}, as a regular file")
            data = file.read(min(about.st_size, most) + 1)  # this much memory is asked for
            while len(data) <= most and (more := file.read(BLOCK)):  # it grows, or is in /proc and has no size
                data += more
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}: expected {what}") from error
    if len(data) > most:
        raise Refusal(f"{path}: larger than {most} bytes: expected {what} of at most this size")
    return data


def read_text(path: Path, what: str, *, most: int = LARGEST) -> str:
    """Reads a regular file as `read_bytes` does. Refuses one that is not UTF-8."""
    try:
        return read_bytes(path, what, most=most).decode()
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: not UTF-8 (byte {error.start}): expected {what}") from error


@contextmanager
def writing(folder: Path, option: str = "", *, wait: bool = False) -> Iterator[None]:
    """Makes a folder if it is not there, and reserves it for the files that this process writes inside the block.

    If another process has reserved it, it waits with `wait`, and otherwise raises Refusal. Raises Refusal for a file
    too. The system ends the reservation with the process, so that none can be left behind.
    """
    named = f"{option} = {folder}" if option else str(folder)
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{named}: this is a file: expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Refusal(
                f"{named}: another sojourn writes to this folder now: expected a folder of its own, or wait for its end"
            ) from error
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
        yield
    finally:
        os.close(handle)


def reserving(
    *, wait: bool = False
) -> Callable[[Callable[Concatenate[Path, P], R]], Callable[Concatenate[Path, P], R]]:
    """Decorates a function that writes several files to a folder, its first argument: the folder is reserved for it, so
    that files of two processes are never mixed. With `wait` it waits for another process that writes there.
    """

    def decorate(write: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
        @functools.wraps(write)
        def reserved(folder: Path, /, *args: P.args, **more: P.kwargs) -> R:
            with writing(folder, wait=wait):
                return write(folder, *args, **more)

        return reserved

    return decorate
