"""A kernel that can be booted, with our modules for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.errors import Refusal


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted."""

    linux: Path
    """The kernel, a program."""
    release: str
    """The output of `uname -r`."""
    hz: int
    """Timer ticks per second. Results depend on it."""
    variant: str
    digest: str
    """The digest of all that it was built from. Kernels with equal digests give equal results, byte for byte."""
    build: Path
    """The tree that modules are built against."""
    source: Path
    """The kernel's sources, as far as modules need them."""
    modules: dict[str, Path] = field(default_factory=dict)
    """Our modules for it, by name."""
    machine: str = "um"
    """How it runs: `um` as a program of this machine, `x86_64` in QEMU."""

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor number, such as (6, 12)."""
        return version_of(self.release)


def version_of(text: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    if not found:
        raise Refusal(f"{text!r}: expected a kernel's version, such as 6.12")
    return int(found[1]), int(found[2])
