"""Finds the tools that are needed to build a kernel. Missing ones are fetched into the user's cache if the system has
apt.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.errors import Refusal
from sojourn.kernel import places

NEEDED = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "m4": "m4",
    "bc": "bc",
    "xz": "xz-utils",
    "patch": "patch",
    "perl": "perl-base",
}
"""Maps each program that is needed to the Debian package that has it."""
NO_OTHER_TOOLS = ("RUSTC=false", "BINDGEN=false", "PAHOLE=false")
"""Arguments of make that hide other tools of this machine. Those tools would change the configuration, and so the
kernel.
"""
TICK_S = 0.2
LAST_BREATH_S = 5.0
"""Seconds that killed processes may take to end."""
NOT_BROUGHT = {"gcc", "perl"}
"""Programs that are never fetched, because they consist of many parts: the system must have them."""


def environment() -> dict[str, str]:
    """Returns the environment in which a kernel is built. It is the same for every user, so that the same bytes come
    out.
    """
    root = places.home() / "debian" / "root"
    path = os.pathsep.join(
        [os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", str(places.home() / "debian" / "bin")]
    )
    found = {
        "PATH": path,
        "LC_ALL": "C",
        "HOME": os.environ.get("HOME", "/"),
        "KBUILD_BUILD_TIMESTAMP": "2024-01-01",
        "KBUILD_BUILD_USER": "sojourn",
        "KBUILD_BUILD_HOST": "sojourn",
        "KBUILD_BUILD_VERSION": "1",
        "LOCALVERSION": "",
    }
    # When make is the caller, the path has our own bison too.
    bison = shutil.which("bison", path=path)
    if bison is None or Path(bison).is_relative_to(places.home()):
        found["BISON_PKGDATADIR"] = str(root / "usr/share/bison")
    macros = shutil.which("m4", path=path)
    return found | ({"M4": macros} if macros else {})


def missing() -> list[str]:
    """Returns the programs that are neither in the system nor in the cache."""
    path = environment()["PATH"]
    return [program for program in NEEDED if shutil.which(program, path=path) is None]


def bring() -> None:
    """Fetches missing tools into the cache. Raises Refusal, which names the packages, if some are not available."""
    absent = missing()
    fetchable = [NEEDED[program] for program in absent if program not in NOT_BROUGHT]
    if fetchable and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        unpack(*fetchable)
    absent = missing()
    if not has_c_library():
        absent.append("libc6-dev")
    if absent:
        packages = " ".join(NEEDED.get(program, program) for program in absent)
        raise Refusal(f"to build a kernel {', '.join(absent)} is missing: expected the packages {packages}")


def has_c_library() -> bool:
    """Returns whether programs can be linked statically. The kernel of User-Mode Linux is such a program."""
    done = subprocess.run(
        ["gcc", "-static", "-x", "c", "-", "-o", "/dev/null"],
        input="int main(void) { return 0; }",
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    return done.returncode == 0


def unpack(*packages: str) -> None:
    """Unpacks Debian packages with their libraries into the cache, by tools/debian."""
    if all((places.home() / "debian" / "done" / package).exists() for package in packages):
        return
    script = places.shared() / "tools" / "debian"
    done = subprocess.run([str(script), *packages], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Refusal(f"{', '.join(packages)}: can't be fetched: {lines[-1] if lines else 'no reason given'}")


def libelf() -> tuple[str, str]:
    """Returns arguments of make for Linux's objtool, which an x86_64 kernel is built with: where libelf is. It is
    fetched if necessary.
    """
    unpack("libelf-dev")
    root = places.home() / "debian" / "root" / "usr"
    library = root / "lib" / "x86_64-linux-gnu"
    return f"LIBELF_FLAGS=-I{root}/include", f"LIBELF_LIBS=-L{library} -Wl,-rpath,{library} -lelf"


def run(
    command: list[str],
    *,
    cwd: Path | None = None,
    surroundings: dict[str, str] | None = None,
    line: Callable[[str], None] = lambda _line: None,
    tick: Callable[[], None] = lambda: None,
) -> str:
    """Runs a program to its end and returns its output. `line` is called with each line, `tick` from time to time.

    If this process is stopped early, it ends the program and all processes that the program started.
    """
    said, rest = bytearray(), b""
    with _process(command, cwd, surroundings or environment()) as process:
        assert process.stdout is not None
        while True:
            if select.select([process.stdout], [], [], TICK_S)[0]:
                piece = os.read(process.stdout.fileno(), 2**16)
                if not piece:
                    break
                said += piece
                *whole, rest = (rest + piece).split(b"\n")
                for one in whole:
                    line(one.decode(errors="replace"))
            tick()
    return said.decode(errors="replace")


@contextmanager
def _process(command: list[str], cwd: Path | None, surroundings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a program in its own session. If the block ends early, all processes that the program started are
    killed.
    """
    process = None
    try:
        with _uninterrupted():
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        yield process
    except BaseException:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Only `process` can be waited for; the others' death shows by the end of their output.
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=LAST_BREATH_S)
        raise
    finally:
        if process is not None and process.stdout is not None:
            process.wait()
            process.stdout.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delays the handlers of signals until the end of the block, so that none interrupts the start of a process."""
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    raising = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():  # handlers run, and are set, in the main thread only
        raising.clear()
    for number in raising:
        signal.signal(number, lambda caught, _frame: came.append(caught))
    try:
        yield
    finally:
        for number, handler in raising.items():
            signal.signal(number, handler)
        for caught in came[:1]:
            signal.raise_signal(caught)


def real(program: str, package: str) -> Path:
    """Returns a program's own file, which is fetched if necessary. The cache also has a wrapper for it, which a guest
    could not start.
    """
    found = _file_of(program)
    if found is None:
        unpack(package)
        found = _file_of(program)
    if found is None:
        raise Refusal(f"{program} is not there: expected the package {package}")
    return found


def _file_of(program: str) -> Path | None:
    root = places.home() / "debian" / "root"
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), "/usr/sbin", "/sbin"]
    folders += [str(root / part) for part in ("usr/sbin", "sbin", "usr/bin", "bin")]
    wrappers = places.home() / "debian" / "bin"
    files = (Path(folder) / program for folder in folders if Path(folder) != wrappers)
    return next((file.resolve() for file in files if file.is_file()), None)
