"""Guests of the kernel world: they boot with the same bytes for every user, and are never left behind."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import kernel_or_skip
from sojourn.errors import Refusal
from sojourn.kernel import Kernel, boot, guest

# A Python that other users can run too, if there is one.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
# The guest's init process in Python: it mounts file systems, runs BODY, and powers off.
INIT = """\
#!{python}
import ctypes, os, pathlib
libc = ctypes.CDLL(None, use_errno=True)
def mount(what, where, kind, options=None, flags=0):
    if libc.mount(what.encode(), where.encode(), kind.encode(), flags, options.encode() if options else None):
        raise OSError(ctypes.get_errno(), where)
mount("proc", "/proc", "proc")
mount("tmpfs", "/mnt", "tmpfs")
os.mkdir("/mnt/run")
mount("none", "/mnt/run", "hostfs", "/proc/self/cwd/run")
run = pathlib.Path("/mnt/run")
{body}
(run / "ended.json").write_text('{{"ok": true}}')
os.sync()
libc.reboot(0x4321FEDC)
"""
DRAW = """\
import time
words = [os.urandom(32).hex(), pathlib.Path("/proc/sys/kernel/random/uuid").read_text(), str(time.time_ns()),
         pathlib.Path("/proc/self/stat").read_text(), pathlib.Path("/proc/cmdline").read_text()]
(run / "drawn").write_text("\\n".join(words))
"""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """The kernel that 'make test' built or restored."""
    return kernel_or_skip()


def program(folder: Path, body: str) -> Path:
    """Writes an init program that runs `body`."""
    path = folder / "init.py"
    path.write_text(INIT.format(python=PYTHON, body=body))
    path.chmod(0o755)
    return path


def draw(kernel: Kernel, folder: Path, seed: int) -> bytes:
    """Returns the guest's random numbers, clock and addresses in a run in this folder."""
    folder.mkdir(parents=True)
    ended = boot(kernel, "{}", folder, seed=seed, program=program(folder.parent, DRAW))
    assert ended.result() == {"ok": True}
    return (folder / "drawn").read_bytes()


def test_a_guest_draws_the_same_in_other_folders_and_environments(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draw(kernel, tmp_path / "here" / "run", 7)
    monkeypatch.setenv("HOME", "/nowhere/to/be/found")
    monkeypatch.setenv("SOMETHING", "x" * 5000)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    second = draw(kernel, tmp_path / "a much longer place" / "far below" / "run", 7)
    assert first == second
    assert str(tmp_path).encode() not in first


def test_another_seed_draws_other_numbers_and_keeps_the_clock(kernel: Kernel, tmp_path: Path) -> None:
    one, two = (draw(kernel, tmp_path / str(seed) / "run", seed).split(b"\n") for seed in (1, 2))
    assert one[0] != two[0]
    assert one[-1] == two[-1], "the command line does not know the seed"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_the_same_bytes(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Path(tempfile.mkdtemp(dir="/var/tmp"))
    other = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    try:
        bare = replace(kernel, linux=Path(shutil.copy(kernel.linux, shared / "linux")), modules={})
        mine = draw(bare, tmp_path / "mine" / "run", 5)
        (shared / "run").mkdir()
        init = program(shared, DRAW)
        subprocess.run(["chown", "-R", str(other), shared], check=True)
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(other)
            os.setuid(other)
            os._exit(0 if boot(bare, "{}", shared / "run", seed=5, program=init).error is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert (shared / "run" / "drawn").read_bytes() == mine
    finally:
        shutil.rmtree(shared)


def test_a_guest_can_write_into_its_run_only(kernel: Kernel, tmp_path: Path) -> None:
    target = tmp_path / "outside"
    body = f"""
try:
    open({str(target)!r}, "w").write("smuggled")
    said = "written"
except OSError as error:
    said = str(error.errno)
(run / "said").write_text(said)
"""
    (tmp_path / "run").mkdir()
    boot(kernel, "{}", tmp_path / "run", program=program(tmp_path, body)).result()
    assert (tmp_path / "run" / "said").read_text() == "30", "EROFS"
    assert not target.exists()


def test_a_guest_that_panics_says_so_in_a_line(kernel: Kernel, tmp_path: Path) -> None:
    ended = boot(kernel, "{}", tmp_path, program=program(tmp_path, 'print("about to fail", flush=True); os._exit(3)'))
    assert ended.error is not None
    assert "Kernel panic" in ended.error
    assert "\n" not in ended.error
    assert "about to fail" in ended.console
    with pytest.raises(Refusal, match="gave up"):
        ended.result()
    assert not list(Path.cwd().glob("core*"))


def guests() -> list[int]:
    """Guest kernels started by this process, or whose parent has ended: tests run in parallel."""
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if b"time-travel=inf-cpu" in _read(folder / "cmdline") and _parent(folder) in (os.getpid(), 1)
    ]


def _parent(folder: Path) -> int:
    words = _read(folder / "stat").rpartition(b")")[2].split()
    return int(words[1]) if words else 0


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("answer", "code", "console", "error"),
    [
        ('{"ok": true}', 0, "reboot: Power down\n", None),
        # The process may abort when the guest is off.
        ('{"ok": true}', -6, "reboot: Power down\n", None),
        ('{"ok": true}', -6, "", "the guest ended (signal SIGABRT) after its job was done; it said nothing"),
        ("", -6, "reboot: Power down\n", "the guest ended (signal SIGABRT) before its job was done; its last words: "),
        ("", 0, "reboot: Power down\n", "the guest ended (exit code 0) before its job was done; its last words: "),
        ('{"ok": false, "error": "no room"}', 0, "reboot: Power down\n", "in the guest: no room"),
        ("", -6, "Kernel panic - not syncing: x\n", "the guest's kernel gave up: Kernel panic - not syncing: x"),
    ],
)
def test_a_job_counts_if_its_answer_is_written_and_the_guest_powers_off(
    tmp_path: Path, answer: str, code: int, console: str, error: str | None
) -> None:
    if answer:
        (tmp_path / "ended.json").write_text(answer)
    found = guest.ended(tmp_path, guest.End(code, console, "", 1.0), 60.0).error
    assert (found is None) == (error is None)
    assert (found or "").startswith(error or "")


def test_a_guest_that_hangs_is_killed_with_all_its_processes(kernel: Kernel, tmp_path: Path) -> None:
    before = len(guests())
    hang = program(tmp_path, "while True: pass")
    ended = boot(kernel, "{}", tmp_path, program=hang, timeout_s=1)
    assert ended.error is not None
    assert "did not end within 1 s" in ended.error
    begin = time.monotonic()
    ended = boot(kernel, "{}", tmp_path, program=hang, stop=lambda: time.monotonic() > begin + 0.3)
    assert ended.stopped
    assert ended.wall_s < 5
    assert len(guests()) <= before


def test_ctrl_c_leaves_no_guest(kernel: Kernel, tmp_path: Path) -> None:
    before = len(guests())

    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        boot(kernel, "{}", tmp_path, program=program(tmp_path, "while True: pass"), stop=interrupt)
    assert len(guests()) <= before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_guests_at_the_same_time_sit_on_cpus_of_their_own(kernel: Kernel, tmp_path: Path) -> None:
    seen: dict[str, set[int]] = {}

    def look() -> bool:
        for process in Path("/proc").glob("[0-9]*"):
            folder = _folder_of(process)
            if str(tmp_path) in folder:
                seen[folder] = os.sched_getaffinity(int(process.name))
        return len(seen) == 2

    def start(name: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.d").mkdir()
        init = program(tmp_path / f"{name}.d", "while True: pass")
        boot(kernel, "{}", tmp_path / name, program=init, stop=look, timeout_s=20)

    threads = [threading.Thread(target=start, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, two = seen.values()
    assert one != two or len(one) > 1, "other CPUs, but where guests of others have them all"


def _folder_of(process: Path) -> str:
    """Returns the folder of a guest's run, by the link in its working directory."""
    try:
        return str((process / "cwd" / "run").readlink())
    except OSError:
        return ""
