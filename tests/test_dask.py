"""`--on dask`: a cluster gives the same runs as this machine's cores, whatever happens to its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import sojourn as sj
from conftest import SMALL, Run, rows
from sojourn import on_dask

QUIET = os.environ | {"PYTHONWARNINGS": "ignore"}
SHORT = SMALL.replace('duration = "3s"', 'duration = "2s"').replace('"1s", "end"', '"500ms", "end"')
"""A run of it takes some milliseconds."""


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler with worker processes, as `dask scheduler` and `dask worker` start them: its address, and all."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "scheduler.json"

        def start(what: str, *words: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"]
            process = subprocess.Popen(command, env=QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        started = [start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))]
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"].removeprefix("tcp://")
        one = ("--nthreads", "1", "--no-nanny", f"tcp://{address}")
        started += [start("worker", "--name", f"worker-{number}", *one) for number in range(workers)]
        yield f"dask://{address}", started


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


def test_a_cluster_that_loses_a_worker_fills_the_store_as_this_machine_does(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed while both have bundles; its runs are played again."""
    monkeypatch.setattr(on_dask, "BUNDLE_S", 0.05)
    plan = sj.load(short, seeds=300)
    with cluster(2) as (address, (_, first, _second)):
        killed: list[float] = []

        def kill(done_s: float, whole_s: float) -> None:
            if not killed and done_s > 0.2 * whole_s:
                first.kill()
                killed.append(done_s / whole_s)

        there = sj.run(plan, on=address, store=tmp_path / "there", progress=kill)
    assert 0.2 < killed[0] < 0.9
    here = sj.run(plan, store=tmp_path / "here")
    assert (there.count, there.played) == (here.count, here.played) == (600, 600)
    assert rows(tmp_path / "there").equals(rows(tmp_path / "here"))


def test_a_lost_scheduler_is_an_error_and_finished_runs_are_kept(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_dask, "BUNDLE_S", 0.05)
    plan = sj.load(short, seeds=300)
    with cluster(1) as (address, (scheduler, _)):

        def end(done_s: float, whole_s: float) -> None:
            if done_s > 0.2 * whole_s:
                scheduler.kill()

        with pytest.raises(sj.Refusal, match=f"on = {address}: the connection to the scheduler is lost"):
            sj.run(plan, on=address, store=tmp_path / "store", progress=end)
    kept = rows(tmp_path / "store").num_rows
    assert 120 <= kept < 600
    again = sj.run(plan, store=tmp_path / "store")
    assert again.played == 600 - kept


def test_the_command_plays_on_a_cluster_that_it_starts(short: Path, sojourn: Run, tmp_path: Path) -> None:
    words = ("sweep", short, "--seeds", 20, "-f", "csv", "--store")
    there = sojourn(*words, tmp_path / "there", "--on", "dask", "--jobs", 2)
    assert there.stdout == sojourn(*words, tmp_path / "here").stdout
    assert there.stderr.startswith("40 runs, 40 of them played now")
    assert rows(tmp_path / "there").equals(rows(tmp_path / "here"))
    run = ("run", short, "--seeds", 2, "-f", "json")
    assert sojourn(*run, "--on", "dask").stdout == sojourn(*run).stdout


def test_ctrl_c_leaves_what_is_finished(tmp_path: Path, sojourn: Run) -> None:
    path = tmp_path / "long.toml"
    path.write_text(SMALL.replace('duration = "3s"', 'duration = "60s"'))
    command = [
        Path(sys.executable).parent / "sojourn",
        "sweep",
        path,
        "--seeds",
        "200",
        "--on",
        "dask",
        "--store",
        "store",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 180
    folders = [tmp_path / "store" / name for name in ("new", "runs")]
    while time.monotonic() < deadline and not any(list(folder.glob("[!.]*")) for folder in folders):
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command goes on where it was" in said
    assert "Traceback" not in said
    kept = rows(tmp_path / "store").num_rows
    assert 0 < kept < 400


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ("dask://127.0.0.1:1", "--on = dask://127.0.0.1:1: no scheduler answers there"),
        ("dask://127.0.0.1", "--on = dask://127.0.0.1: expected dask://HOST:PORT, with the port of a scheduler"),
        ("slurm", "--on = slurm: expected dask://HOST:PORT or dask"),
    ],
)
def test_a_cluster_that_is_none_is_refused(on: str, says: str, short: Path, sojourn: Run, monkeypatch: Any) -> None:
    monkeypatch.setattr(on_dask, "CONNECT_S", 1.0)
    done = sojourn("sweep", short, "--on", on, code=2)
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_worker_with_another_simulator_is_refused(short: Path) -> None:
    class Other(sj.Simulator):
        def key(self, plan: sj.Plan, index: int) -> dict[str, str]:
            return {"simulator": str(os.getpid())}

    with pytest.raises(sj.Refusal, match=r"a worker plays with .*expected the same version of sojourn"):
        sj.run(short, on="dask", world=Other())


class Cluster:
    """Stands for `distributed`: its cluster fails a number of times, in the way of `raises`."""

    def __init__(self, failures: int, raises: Callable[[], None]) -> None:
        self.failures, self.raises, self.starts = failures, raises, 0

    def LocalCluster(self, **_how: object) -> object:
        self.starts += 1
        if self.starts <= self.failures:
            self.raises()
        return self


def lost() -> None:
    raise RuntimeError("Nanny failed to start.")


def interrupted() -> None:
    """Fails as `distributed` does when SIGTERM comes while it starts."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise AssertionError("Status.closing") from None


def test_a_worker_that_is_lost_at_the_start_is_replaced() -> None:
    made = Cluster(1, lost)
    assert on_dask._start(made, 2) is made
    assert made.starts == 2


def test_workers_that_do_not_start_are_one_line() -> None:
    with pytest.raises(sj.Refusal, match=r"2 worker processes do not start \(RuntimeError: Nanny failed.*--jobs N"):
        on_dask._start(Cluster(99, lost), 2)


def test_an_interruption_at_the_start_is_one() -> None:
    made = Cluster(99, interrupted)
    with pytest.raises(KeyboardInterrupt):
        on_dask._start(made, 2)
    assert made.starts == 1


class Alone:
    """Stands for a client whose scheduler has no worker."""

    status = "running"

    def nthreads(self) -> dict[str, int]:
        return {}


def test_runs_that_no_worker_plays_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = object.__new__(on_dask._Session)
    session.client, session.name, session.out = Alone(), "dask", {}
    session.seen = time.monotonic() - 2 * on_dask.ALONE_S
    session._refuse_if_lost()
    assert time.monotonic() - session.seen < on_dask.ALONE_S, "nothing is sent out"
    session.out = {type("Future", (), {"status": "pending"})(): None}
    session._refuse_if_lost()
    session.seen = time.monotonic() - 2 * on_dask.ALONE_S
    with pytest.raises(sj.Refusal, match="no worker for 60 s"):
        session._refuse_if_lost()


def test_the_seconds_of_a_bundle_are_those_of_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bundle of a worker imports the package. Those seconds would make all further bundles small."""

    class Slow:
        def key(self, _item: int) -> int:
            return 0

        def play(self, item: int, _progress: object) -> int:
            return item

    now = [0.0]

    def unpickled(_task: bytes) -> Slow:
        now[0] += 5.0
        return Slow()

    monkeypatch.setattr(on_dask, "_task", unpickled)
    monkeypatch.setattr(on_dask.time, "monotonic", lambda: now[0])
    assert on_dask.play(b"", 0, [1, 2]) == ([1, 2], 0.0)
