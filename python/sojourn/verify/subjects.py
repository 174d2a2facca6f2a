"""The implementations that can be verified: our core, a program, a C library, and a kernel's discipline. Each plays a
trace and returns the packets' fates.
"""

from __future__ import annotations

import os
import select
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sojourn import _core
from sojourn.disciplines import Outside
from sojourn.errors import Refusal
from sojourn.isolated import Process
from sojourn.replays import in_core

if TYPE_CHECKING:
    from sojourn.kernel.image import Kernel as GuestKernel

MTU = 1514
MOST_BYTES = 1 << 20, 256
"""The most bytes that a program may print: a constant, plus a number for each row of the trace."""
LAST_WORDS = 1 << 16
"""The number of bytes that are kept of a program's standard error: the last ones."""


class Subject(Protocol):
    """An implementation that can be asked questions."""

    @property
    def name(self) -> str:
        """The name in messages."""

    def play(self, trace: bytes) -> bytes:
        """Plays a trace and returns the fates as CSV. Raises `Refusal` if that is impossible."""


@dataclass(frozen=True)
class Ours:
    """The discipline of the simulator."""

    line: str
    rate: int
    """The rate of the link in bit/s, for disciplines that depend on it. It does not determine departures: the trace has
    them.
    """
    name: str = "sojourn's own"

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        return _core.replay(trace, "trace", self.line, None, MTU, self.rate)[0]


@dataclass(frozen=True)
class Program:
    """Any program that reads a trace from standard input, or from a file in place of `{trace}`, and prints fates."""

    command: str
    patience_s: int = 60
    """The most seconds for an answer."""

    @property
    def name(self) -> str:
        """The command."""
        return self.command

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        with tempfile.TemporaryDirectory(prefix="sojourn-verify-") as folder:
            file = Path(folder) / "trace.csv"
            file.write_bytes(trace)
            try:
                words = [word.replace("{trace}", str(file)) for word in shlex.split(self.command)]
            except ValueError as error:
                raise Refusal(f"--command = {self.command}: {error}: expected a program and its words") from None
            if not words:
                raise Refusal("--command is empty: expected a program and its words")
            try:
                with file.open("rb") as stdin:
                    pipe = subprocess.PIPE
                    asked = subprocess.Popen(words, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)
            except OSError as error:
                raise Refusal(f"--command = {self.command}: {error.strerror}: expected a program") from None
            with asked:
                try:
                    most = MOST_BYTES[0] + MOST_BYTES[1] * trace.count(b"\n")
                    said, complained = self._heard(asked, most, time.monotonic() + self.patience_s)
                finally:
                    # Ends all that it started. It is not waited for yet, so the number is still its group's.
                    os.killpg(asked.pid, signal.SIGKILL)
        if asked.returncode != 0:
            last = complained.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise Refusal(f"--command = {self.command}: exit code {asked.returncode}: {last[0]}")
        return said

    def _heard(self, asked: subprocess.Popen[bytes], most: int, until: float) -> tuple[bytes, bytes]:
        """Reads a program's standard output until it ends, and the last bytes of its standard error."""
        said, complained = bytearray(), bytearray()
        with selectors.DefaultSelector() as open_ends:
            for end, heard in ((asked.stdout, said), (asked.stderr, complained)):
                if end:
                    open_ends.register(end, selectors.EVENT_READ, heard)
            while open_ends.get_map():
                for key, _ in open_ends.select(max(0, until - time.monotonic())):
                    if part := os.read(key.fd, LAST_WORDS):
                        key.data.extend(part)
                    else:
                        open_ends.unregister(key.fileobj)
                del complained[:-LAST_WORDS]
                if len(said) > most:
                    raise Refusal(f"--command = {self.command}: prints more than {most} bytes: expected a row a packet")
                if time.monotonic() > until:
                    raise Refusal(f"--command = {self.command}: no answer in {self.patience_s} s")
        process = os.pidfd_open(asked.pid)
        try:
            if not select.select([process], [], [], max(0, until - time.monotonic()))[0]:
                raise Refusal(f"--command = {self.command}: no end in {self.patience_s} s")
        finally:
            os.close(process)
        return bytes(said), bytes(complained)


@dataclass(frozen=True)
class OfUser:
    """A discipline of the user's: a shared library with the functions of crates/ffi/include/sojourn.h, or a class in
    Python.
    """

    discipline: Outside
    line: str
    """The line of the discipline of ours with which this one is compared."""
    rate: int
    """As for `Ours`."""
    seed: int = 1
    """The seed of its random numbers."""
    patience_s: float = 60
    """The most seconds for an answer."""
    process: Process = field(default_factory=Process, compare=False, repr=False)
    """The process that plays all traces with a library."""

    @property
    def name(self) -> str:
        """The file or class."""
        return self.discipline.said

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        # For the length of this replay it has the name of ours.
        outside = [replace(self.discipline, name=self.line.split()[0])]
        asked = (trace, "trace", self.line, None, MTU, self.rate, self.seed)
        return in_core(*asked, outside=outside, patience_s=self.patience_s, process=self.process)[0]


def of_kernel(line: str) -> str:
    """Returns the line with the variant of the guest's kernel, unless the line names a variant already."""
    from sojourn.kernel import store

    return _core.as_in(line, store.find().version)


@dataclass(frozen=True)
class Kernel:
    """A discipline of the guest's Linux kernel, or of a module that is loaded into it."""

    line: str
    module: Path | None = None
    kernel: GuestKernel | None = None
    """The guest's kernel. None: the newest in the cache."""

    @property
    def name(self) -> str:
        """The module, or the kernel, in messages."""
        return f"{self.module} in the real kernel" if self.module else "the real kernel's"

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        from sojourn.kernel.replay import replay

        return replay(trace, "trace", self.line, mtu=MTU, module=self.module, kernel=self.kernel)[0]
