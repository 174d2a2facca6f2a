"""Boots a guest: one run of a User-Mode Linux kernel in virtual time, with the same bytes on every machine.

A guest's results depend only on its kernel, its seed and the job's files. The kernel mixes its command line into its
random numbers, so the command line has no path of the host. Instead the guest's working directory is a private
folder with the program `sojourn-guest` as `init`, our modules, and a link `run` to the folder of the run. The guest
sees the host's files read-only as its root, starts `/proc/self/cwd/init`, and mounts `RUN` by hostfs: the one place
that it may write to. It reads `job.json` there, and writes `ended.json` last.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sojourn import programs
from sojourn.errors import Refusal
from sojourn.kernel import places
from sojourn.kernel.image import Kernel

RUN = "/proc/self/cwd/run"
"""The path by which the guest mounts the folder of the run through hostfs: `mount -t hostfs none DIR -o
/proc/self/cwd/run`.
"""
MODULES = "/proc/self/cwd/modules"
"""The path of the folder with our modules, each as NAME.ko. Like RUN, it does not depend on the user's folders."""
JOB, ENDED = "job.json", "ended.json"
START_S = 1_700_000_000
"""The guest's clock when it starts, in seconds of Unix time."""
POWERED_OFF = "reboot: Power down"
"""The last words of a guest that powers off."""
POLL_S = 0.05
"""Seconds between two checks for a stop."""
LONGEST_CONSOLE = 2**20
"""The number of bytes that are kept of a guest's console: the last ones."""
SECCOMP_SINCE = (6, 16)
"""The first kernel that can intercept system calls by seccomp. This is 1.5 times as fast as ptrace."""


@dataclass(frozen=True)
class Ended:
    """The end of a guest, and its answer."""

    exit: int
    """The exit code of the guest's process; negative: the signal that ended it."""
    console: str
    """The output of the guest's kernel and programs, at most the last `LONGEST_CONSOLE` bytes."""
    wall_s: float
    answer: dict[str, Any]
    """The content of `ended.json`."""
    error: str | None
    """Why the job was not done, in a line; None if it was."""
    stopped: bool = False
    """Whether `stop` ended it."""

    def result(self) -> dict[str, Any]:
        """Returns the guest's answer. Raises Refusal if the job was not done."""
        if self.error is not None:
            raise Refusal(self.error)
        return self.answer


def find_program() -> Path:
    """Returns the program of the guest's first process."""
    return programs.find("sojourn-guest")


def boot(
    kernel: Kernel,
    job: str,
    folder: Path,
    *,
    seed: int = 1,
    memory: str = "1G",
    cpu: int | None = None,
    timeout_s: float = 3600.0,
    stop: Callable[[], bool] = lambda: False,
    program: Path | None = None,
    virtual: bool = True,
) -> Ended:
    """Runs `job` (JSON) in a guest that may write to `folder`, and waits for its end.

    Memory below 1G gave wrong results at 1 Gbit/s. Without `cpu` the guest is pinned to a CPU that no other guest of
    this user has, if there is one. The guest is killed after `timeout_s` seconds of wall time, when `stop` returns
    True, and at an exception such as Ctrl-C. Without `virtual` the guest runs in the host's time, as tests that flood
    it need.
    """
    init = program or find_program()
    (folder / JOB).write_text(job)
    (folder / ENDED).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="sojourn-guest-", dir=_roomy_folder(memory)) as private:
        _furnish(Path(private), init, kernel.modules, folder)
        command, environment = command_line(kernel, memory, virtual), _environment(seed, memory)
        end = supervise(command, private, environment, cpu=cpu, timeout_s=timeout_s, stop=stop)
    return ended(folder, end, timeout_s)


@dataclass(frozen=True)
class End:
    """The end of a guest's process, and its output."""

    exit: int
    console: str
    verdict: str
    """"" when it ended by itself; "time" or "stop" when it was killed."""
    wall_s: float


def supervise(
    command: list[str],
    folder: str,
    environment: dict[str, str],
    *,
    cpu: int | None,
    timeout_s: float,
    stop: Callable[[], bool],
    pinned: bool = True,
) -> End:
    """Runs a guest's process to its end. Whatever happens, the process and all that it started have ended when this
    returns.
    """
    begin = time.monotonic()
    with _pinned(cpu) if pinned else nullcontext():
        process = subprocess.Popen(
            [*_killed_with_us(), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with suppress(OSError):  # a kernel that panics aborts, and its memory is of no use to anybody
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        console, verdict = _wait(process, begin + timeout_s, stop)
    return End(process.returncode, console, verdict, time.monotonic() - begin)


def ended(folder: Path, end: End, timeout_s: float) -> Ended:
    """Determines the outcome of a run from the guest's answer and the way its process ended."""
    answer = _answer(folder)
    if end.verdict == "time":
        error: str | None = f"the guest did not end within {timeout_s:g} s and was killed{_last_words(end.console)}"
    elif end.verdict == "stop":
        error = "the guest was stopped"
    else:
        error = _what_went_wrong(end.exit, answer, end.console)
    return Ended(end.exit, end.console, end.wall_s, answer, error, stopped=end.verdict == "stop")


def _furnish(private: Path, init: Path, modules: dict[str, Path], folder: Path) -> None:
    """Fills the guest's working directory.

    Files are copied and not linked. The guest's clock advances by some nanoseconds for each step of a path that its
    kernel resolves, so a link to a file of the host would make results depend on its path.
    """
    if init.is_file():
        shutil.copy(init, private / "init")
    (private / "run").symlink_to(folder.resolve())
    (private / "modules").mkdir()
    for name, file in modules.items():
        shutil.copyfile(file, private / "modules" / f"{name}.ko")


def command_line(kernel: Kernel, memory: str, virtual: bool = True) -> list[str]:
    """Returns the kernel's command line, which is the same on every machine."""
    words = [
        *(["time-travel=inf-cpu", f"time-travel-start={START_S}000000000"] if virtual else []),
        "norandmaps",
        f"mem={memory}",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        "uml_dir=.",
        "umid=guest",
        "noreboot",
        "init=/proc/self/cwd/init",
    ]
    if kernel.version >= SECCOMP_SINCE:
        words.append("seccomp=auto")
    return [str(kernel.linux), *words]


def _killed_with_us() -> list[str]:
    """Returns the words of a command that starts the guest so that it is killed when this process dies, even by
    SIGKILL.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _environment(seed: int, memory: str) -> dict[str, str]:
    """Returns the environment of the kernel's process. It has nothing of the host's environment, so no result depends
    on that.
    """
    return {
        "UML_SEED": str(seed),  # our patch: every random byte of the guest is a function of it
        "TMPDIR": str(_roomy_folder(memory)),  # the guest's memory is a deleted file
        "HOME": "/",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",  # 6.1 dies at its first exec otherwise
    }


def _roomy_folder(memory: str) -> Path:
    """Returns a folder for the guest's memory: in the host's memory if it has room, and else on the disk. The size
    matters because a container's /dev/shm often has 64 MB, and a guest dies when it is full.

    The paths of both folders have the same number of steps: see `_furnish`.
    """
    needed = int(memory[:-1]) << {"K": 10, "M": 20, "G": 30}[memory[-1].upper()]
    shm, tmp = Path("/dev/shm"), Path("/var/tmp")
    with suppress(OSError):
        free = os.statvfs(shm)
        runnable = not free.f_flag & os.ST_NOEXEC and os.access(shm, os.W_OK)
        if runnable and free.f_bavail * free.f_frsize >= needed:
            return shm
    return tmp


@contextmanager
def _pinned(cpu: int | None) -> Iterator[None]:
    """Pins processes that are started inside the block to one CPU, which makes a guest two to five times as fast. Child
    processes inherit the affinity.
    """
    before = os.sched_getaffinity(0)
    if cpu is not None:
        chosen, lock = cpu if cpu in before else None, None
    else:
        chosen, lock = _free_cpu(sorted(before))
    if chosen is None:
        yield
        return
    try:
        os.sched_setaffinity(0, {chosen})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
    finally:
        if lock:
            lock.close()


def _free_cpu(cpus: list[int]) -> tuple[int | None, IO[str] | None]:
    """Returns a CPU on which no guest of this user runs, and a file whose lock reserves the CPU while the file is open.
    Returns None for both if every CPU is taken, or if no file can be made.
    """
    folder = places.cache() / "cpus"
    for cpu in cpus:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / str(cpu)).open("w")
        except OSError:
            return None, None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return cpu, file
    return None, None


def _wait(process: subprocess.Popen[bytes], deadline: float, stop: Callable[[], bool]) -> tuple[str, str]:
    """Waits for the end of the guest. Returns its console, and why it ended: "" (by itself), "time" or "stop". The
    guest has ended in any case when this returns.
    """
    assert process.stdout is not None
    stream = process.stdout.fileno()
    console, verdict = bytearray(), ""
    try:
        while True:
            if select.select([stream], [], [], POLL_S)[0]:
                piece = os.read(stream, 2**16)
                if not piece:
                    break
                console += piece
                del console[: max(0, len(console) - LONGEST_CONSOLE)]
            if process.poll() is not None and not select.select([stream], [], [], 0)[0]:
                break
            verdict = "stop" if stop() else "time" if time.monotonic() > deadline else ""
            if verdict:
                break
    finally:
        if verdict or sys.exc_info()[0] is not None:
            _kill(process)
        process.wait()
        _kill(process)  # what the guest's kernel left: its processes are ours too
        process.stdout.close()
    return console.decode(errors="replace").replace("\r\n", "\n"), verdict


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _answer(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / ENDED).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _what_went_wrong(code: int, answer: dict[str, Any], console: str) -> str | None:
    done = answer.get("ok") is True
    # The process of a debug kernel was once seen to abort after its guest had powered off. Nothing of the job is left
    # to do then, and a fault of a module would be in the log.
    if done and (code == 0 or POWERED_OFF in console):
        return None
    if answer.get("ok") is False:
        return f"in the guest: {answer.get('error', 'no reason given')}"
    for line in console.splitlines():
        if "Kernel panic" in line or "Out of memory" in line:
            return f"the guest's kernel gave up: {' '.join(line.split())}"
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"the guest ended ({how}) {'after' if done else 'before'} its job was done{_last_words(console)}"


def _last_words(console: str) -> str:
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return f"; its last words: {lines[-1]}" if lines else "; it said nothing"
