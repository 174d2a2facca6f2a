"""Shared parts of the tests: the command as a user starts it, and a small scenario."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from sojourn import _core, doctor, pipeline
from sojourn.errors import Refusal
from sojourn.executors import Cores
from sojourn.finished import Keep
from sojourn.kernel import Kernel, find
from sojourn.plan import load
from sojourn.results import Results
from sojourn.runs import RunsInMemory, RunsInStore
from sojourn.store import Store

ROOT = Path(__file__).resolve().parent.parent
SOJOURN = str(Path(sys.executable).parent / "sojourn")
CI = os.environ.get("CI") == "true"

# A shell starts background jobs with Ctrl-C ignored, which the tests' own processes would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The property tests draw the same cases on every machine, and however busy it is.
settings.register_profile("same-everywhere", deadline=None, derandomize=True)
settings.load_profile("same-everywhere")

Run = Callable[..., subprocess.CompletedProcess[str]]

SMALL = """\
title = "A small link"
duration = "3s"
measure = ["1s", "end"]

[[hop]]
name = "bottleneck"
rate = "10mbit"
delay = "10ms"
qdisc = "codel"

[[flow]]
kind = "bulk"
count = 2
rtt = "40ms"
start = "uniform 0s..100ms"

[[flow]]
kind = "pings"
interval = "50ms"

[sweep]
"hop.bottleneck.qdisc" = ["pfifo limit 100", "codel"]
"""

TOGETHER = {
    "test_site.py",
    "test_report.py",
    "test_first_minute.py",
    "test_kernel_ccaq_paper.py",
    "test_kernel_replay.py",
}
"""Files whose tests share expensive fixtures: the site, a report and a browser, an environment with the wheel, a
guest's run with everything."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, each of these files runs in one worker, and they come first. All other tests are
    distributed one by one, so that no worker waits for another's last file."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if Path(file).name in TOGETHER else nodeid

    return Scheduling(config, log)


def compare(
    path: str | Path,
    sets: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    folder: Path | None = None,
) -> Results:
    """Plays a scenario file with its whole sweep in the simulator, as `sojourn run` does."""
    runs = RunsInMemory(Keep(series=folder is not None), lambda: folder, every_series=False)
    return pipeline.execute(load(path, sets, seed, seeds), runs, executor=Cores(jobs))


def sweep(plan: _core.Plan, store: Store, *, series: bool = False, jobs: int | None = None, **how: Any) -> Results:
    """Plays a plan into a store, as `sojourn sweep` does."""
    return pipeline.execute(plan, RunsInStore(store, series), executor=Cores(jobs), **how)


def rows(store: Path) -> pa.Table:
    """All runs of a store, in one order."""
    Store(store).fold()
    return pa.concat_tables(pq.read_table(path) for path in (store / "runs").glob("*.parquet")).sort_by("id")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario with two disciplines that runs in no time."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def paper(below: Path, files: Mapping[str, str]) -> Path:
    """Creates a paper's folder with the small scenario and these files."""
    path = below / "experiments" / "009-small"
    path.mkdir(parents=True)
    for name, text in {"small.toml": SMALL, **files}.items():
        (path / name).write_text(text)
    return path


@pytest.fixture
def sojourn(tmp_path: Path) -> Run:
    """Runs the command in an empty folder. It must not print a traceback."""

    def run(*arguments: object, code: int = 0, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([SOJOURN, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def skip_loudly(reason: str, *, also_in_ci: bool = False) -> None:
    """Skips a test for a missing dependency. In CI this is an error, except for dependencies that make does not fetch
    there either."""
    if CI and not also_in_ci:
        pytest.fail(f"CI=true: nothing may be skipped: {reason}")
    pytest.skip(f"!!! SKIPPED: {reason}")


def program(file: str) -> ModuleType:
    """Loads a program that is not part of the package as a module. It can import its neighbours."""
    path = ROOT / file
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def live_or_skip(*programs: str) -> None:
    """Skips where this host cannot play the live world, or lacks one of these programs."""
    if isinstance(why := live_trial(), str):
        skip_loudly(why, also_in_ci=True)
    for one in programs:
        if shutil.which(one) is None:
            skip_loudly(f"{one} is not installed", also_in_ci=True)


@functools.cache
def live_trial() -> dict[str, str] | str:
    """The truth of a trial of the live world, in words, or why there is none."""
    return doctor.trial()


def kernel_or_skip(variant: str = "fast") -> Kernel:
    """Returns the kernel that 'make test' built or restored. Other variants take ten minutes, or 100 MB, to get: they
    are used only where they exist."""
    try:
        return find(variant)
    except Refusal as error:
        skip_loudly(str(error), also_in_ci=variant != "fast")
        raise
