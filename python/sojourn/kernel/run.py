"""Plays runs of a scenario in the kernel world. A guest plays each run, and the files that it writes become the
result.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from sojourn import _core
from sojourn.errors import Refusal
from sojourn.kernel import guest, modules, qemu, store
from sojourn.kernel.image import Kernel

LINKS = ("device", "htb", "tbf")
"""The ways in which a hop can be shaped to its rate."""
PLAYED, SEEN, COUNTED, PROGRESS = "played.json", "seen.bin", "counted.json", "progress"
"""Files that a guest writes: what the applications did, what the probe saw, the counters, and the simulated time so far
in nanoseconds.
"""
CONSOLE = "console.txt"
"""The output of a guest's kernel, such as the lines that a module of the user's prints with `pr_err`. It is kept with
the guest's own files.
"""


@dataclass(frozen=True)
class Played:
    """The result of a run: a `sojourn.worlds.Played`."""

    output: _core.Output
    cpu_s: float
    versions: dict[str, str]


@dataclass(frozen=True)
class Guests:
    """The world `kernel`."""

    link: str = "device"
    variant: str = "fast"
    version: str | None = None
    memory: str = "1G"
    """The memory of each guest."""
    probe: bool = True
    sink: str = "kernel"
    """Which part of the guest takes received data from a socket: its kernel, its program, or its program with
    SO_RCVLOWAT (lowat).
    """
    keep: Path | None = None
    """The folder in which the guests' own files are kept, in one folder for each run. None: they are deleted."""
    qdisc_module: Path | None = None
    """A module of the user's with a discipline: a file, or a folder with a Kbuild."""
    find: Callable[..., Kernel] = field(default=cache(store.find))
    name: ClassVar[str] = "kernel"

    def __getstate__(self) -> dict[str, object]:
        """Returns the state that pickle copies. It has no kernel: another process looks for its own."""
        return {name: value for name, value in vars(self).items() if name != "find"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, find=cache(store.find))

    def key(self, plan: _core.Plan, index: int) -> dict[str, str]:
        """The guest's kernel, modules and program, and the settings of the run that are not in the scenario."""
        kernel, own = self.with_own(plan, index)
        # The folder of the module is no part of a run's identity.
        module = {"qdisc_module": own.digest} if own.files else {}
        return self.versions(kernel) | module | {"sink": self.sink, "probe": str(self.probe)}

    def kernel(self, plan: _core.Plan, index: int) -> Kernel:
        """Returns the kernel for a run. It has as many ticks per second as the scenario demands."""
        hz = plan.kernel_hz(index)
        kernel = self.find(self.variant, hz, self.version)
        if kernel.hz != hz:
            raise Refusal(f"host.hz = {hz}: the kernel that SOJOURN_KERNEL names has {kernel.hz}")
        return kernel

    def with_own(self, plan: _core.Plan, index: int) -> tuple[Kernel, modules.Own]:
        """Returns the kernel for a run, and the modules of the user's that the run needs; the kernel has them too."""
        kernel = self.kernel(plan, index)
        own = _own(kernel, self.qdisc_module) if self.qdisc_module else modules.Own({})
        if not own.files or own.kinds.isdisjoint(_words_of(plan, index)):
            return kernel, modules.Own({})
        return replace(kernel, modules=kernel.modules | own.files), own

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Returns the reason why the kernel cannot play a run, or None if it can."""
        kernel, _ = self.with_own(plan, index)
        reason = plan.kernel_refusal(index, version=kernel.version, modules=list(kernel.modules), link=self.link)
        if reason is None and _needs_plugin(plan, index):
            modules.tc_plugins()
        return reason

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Boots a guest for a run and reads the files that it wrote. Returns None if it was stopped."""
        with tempfile.TemporaryDirectory(prefix="sojourn-run-") as temporary:
            folder = self.keep / f"{index:04d}" if self.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            return self._play_in(folder, plan, index, progress, packets=packets, series=series)

    def _play_in(
        self, folder: Path, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        kernel, own = self.with_own(plan, index)
        about = plan.runs[index]

        def watch() -> bool:
            progress.tell(played_s(folder))
            return progress.stopped

        job = plan.kernel_job(
            index,
            link=self.link,
            probe=self.probe,
            sink=self.sink,
            tc_lib_dir=str(modules.tc_plugins()) if own.files or _needs_plugin(plan, index) else None,
            all_counters=self.keep is not None,
            modules=list(own.files),
            replaces=own.replaces,
        )
        # The probe refuses a file that is there.
        (folder / SEEN).unlink(missing_ok=True)
        boot = guest.boot if kernel.machine == "um" else qemu.boot
        ended = boot(kernel, job, folder, memory=self.memory, seed=about["seed"] % 2**32, stop=watch)
        if ended.stopped:
            return None
        if self.keep:
            (folder / CONSOLE).write_text(ended.console)
        answer = ended.result()
        output = plan.observe(
            index,
            (folder / PLAYED).read_bytes(),
            folder / SEEN,
            (folder / COUNTED).read_bytes(),
            answer["origin_ns"],
            link=self.link,
            packets=packets,
            series=series,
        )
        progress.tell(about["duration_s"])
        return Played(output, ended.wall_s, self.versions(kernel, own))

    def versions(self, kernel: Kernel, own: modules.Own | None = None) -> dict[str, str]:
        """Returns the versions that this world's runs depend on, in addition to sojourn's."""
        module = {"qdisc_module": f"{self.qdisc_module} sha256 {own.digest}"} if own and own.files else {}
        return module | {
            "linux": kernel.release,
            "linux_hz": str(kernel.hz),
            "linux_variant": kernel.variant,
            "linux_digest": kernel.digest,
            "guest_digest": digest(guest.find_program()),
            "modules_digest": digest(*(kernel.modules[name] for name in sorted(kernel.modules))),
            "link": self.link,
        }


_OWN: dict[tuple[str, Path], modules.Own] = {}
"""Modules of the user's that were built or read before, by the kernel's digest and their place."""


def _own(kernel: Kernel, module: Path) -> modules.Own:
    asked = kernel.digest, module
    if asked not in _OWN:
        _OWN[asked] = modules.of_user(kernel, module)
    return _OWN[asked]


def _needs_plugin(plan: _core.Plan, index: int) -> bool:
    return any(_core.needs(line)[1] for line in _qdiscs(plan, index))


def _words_of(plan: _core.Plan, index: int) -> set[str]:
    """Returns the words of a run's disciplines, and Linux's name of one that differs from ours: `ccaq_paper` for
    `ccaq variant paper`.
    """
    lines = _qdiscs(plan, index)
    needed = [module for module, _ in map(_core.needs, lines) if module is not None]
    return {word for line in lines for word in line.split()} | {modules.kind_of(name) for name in needed}


def _qdiscs(plan: _core.Plan, index: int) -> list[str]:
    return [hop["qdisc"] for hop in plan.describe(index)["hops"]]


def played_s(folder: Path) -> float:
    """Returns the time of the scenario that a run in `folder` has played so far, in seconds."""
    try:
        return int((folder / PROGRESS).read_text() or 0) / 1e9
    except (OSError, ValueError):
        return 0.0


@cache
def digest(*files: Path) -> str:
    """Returns the SHA-256 of the files' digests. It reads each group of files once."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()
