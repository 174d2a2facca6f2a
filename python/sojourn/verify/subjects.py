"""Who is verified: core, a program, a discipline of a real kernel or a module. Each plays a trace and says fates."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sojourn import _core
from sojourn.errors import Refusal

MTU = 1514
PATIENCE_S = 60
"""How long a program may think about a trace."""


class Subject(Protocol):
    """Something that can be asked."""

    @property
    def name(self) -> str:
        """For the reader."""

    def play(self, trace: bytes) -> bytes:
        """The fates as CSV. Raises `Refusal` if it can't be asked."""


@dataclass(frozen=True)
class Ours:
    """The discipline of the simulator."""

    line: str
    name: str = "sojourn's own"

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        return _core.replay(trace, "trace", self.line, None, MTU)[0]


@dataclass(frozen=True)
class Program:
    """Any program that reads a trace from standard input, or from a file in place of `{trace}`, and prints fates."""

    command: str

    @property
    def name(self) -> str:
        """The command."""
        return self.command

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        with tempfile.TemporaryDirectory(prefix="sojourn-verify-") as folder:
            file = Path(folder) / "trace.csv"
            file.write_bytes(trace)
            words = [word.replace("{trace}", str(file)) for word in shlex.split(self.command)]
            try:
                with file.open("rb") as stdin:
                    done = subprocess.run(words, stdin=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
            except OSError as error:
                raise Refusal(f"--command = {self.command}: {error.strerror}: expected a program") from None
            except subprocess.TimeoutExpired:
                raise Refusal(f"--command = {self.command}: no answer in {PATIENCE_S} s") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise Refusal(f"--command = {self.command}: exit code {done.returncode}: {said[0]}")
        return done.stdout


@dataclass(frozen=True)
class Kernel:
    """A discipline of the guest's Linux, or of a module."""

    line: str
    module: Path | None

    @property
    def name(self) -> str:
        """Which one."""
        return f"{self.module} in the real kernel" if self.module else "the real kernel's"

    def play(self, trace: bytes) -> bytes:
        """See `Subject`."""
        from sojourn.kernel.replay import replay

        return replay(trace, "trace", self.line, mtu=MTU, module=self.module)[0]
