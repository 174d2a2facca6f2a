"""Files that the user names, and folders that are written to: several processes, full disks, and names of no file."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sojourn as sj
from conftest import ROOT, SOJOURN, Run
from sojourn import files, plan, records, words
from sojourn._core import Plan
from sojourn.claims import load as load_claims
from sojourn.cli.base import cli
from sojourn.disciplines import digest_of
from sojourn.errors import Refusal
from sojourn.frontier.grid import read_grid
from sojourn.kernel import store as kernels
from sojourn.store import Store
from sojourn.worlds import Simulator

TINY = """\
title = "tiny"
duration = "1s"
[[hop]]
name = "b"
rate = "1mbit"
delay = "5ms"
[[flow]]
kind = "bulk"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A scenario whose run takes a millisecond."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


# ---- names of something else than a file ----


@contextmanager
def _socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        yield


@pytest.fixture(params=["fifo", "folder", "socket", "device"])
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The path of something that is not a regular file."""
    path = tmp_path / "s.toml"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        with _socket(path):
            yield path
        return
    yield path


READERS: dict[str, Callable[[Path], object]] = {
    "scenario": plan.load,
    "dictionary": sj.read,
    "trace": lambda path: sj.replay(path, "pfifo"),
    "library": digest_of,
    "grid": read_grid,
    "results.json": records.read_results,
    "any": lambda path: files.read_text(path, "a text"),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_and_not_waited_for(reader: str, strange: Path) -> None:
    with pytest.raises((Refusal, sj.Error), match=r"s\.toml.*(this is|no such|regular file)"):
        READERS[reader](strange)


@pytest.mark.parametrize("key", ["rate = { trace = 'FILE' }", "rate = { trace = 'x.csv' }", "sizes"])
def test_a_scenario_names_regular_files_only(key: str, tmp_path: Path) -> None:
    name = "x.csv" if "x.csv" in key else "x.down"
    os.mkfifo(tmp_path / name)
    text = TINY.replace('rate = "1mbit"', key.replace("FILE", name)) if "rate" in key else TINY
    if key == "sizes":
        text = text.replace('kind = "bulk"', f'kind = "sizes"\nrate = 1\nfile = "{name}"')
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(sj.Error, match=f"{name}.*expected a regular file"):
        plan.load(tmp_path / "t.toml")


def test_a_run_of_a_results_folder_is_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    os.mkfifo(tmp_path / "runs" / "0000.parquet")
    with pytest.raises(Refusal, match="this is a FIFO"):
        records.read_folder(tmp_path)


def test_a_fifo_in_a_store_is_named_and_left(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.fold()
    os.mkfifo(tmp_path / "new" / "f")
    os.mkfifo(tmp_path / "runs" / "f.parquet")
    with store.connect() as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(0,)]
    assert {text.partition(":")[0] for text in store.damaged} == {
        str(tmp_path / "new" / "f"),
        str(tmp_path / "runs" / "f.parquet"),
    }


def test_a_fifo_in_the_place_of_claims_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "claims.toml")
    with pytest.raises(Refusal, match="this is a FIFO"):
        load_claims(tmp_path)


def test_a_file_of_absurd_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 11)
    assert len(files.read_bytes(path, "a text", most=11)) == 11
    with pytest.raises(Refusal, match="larger than 10 bytes: expected a text"):
        files.read_bytes(path, "a text", most=10)


def test_a_file_whose_size_is_not_known_is_read_to_its_end() -> None:
    path = Path("/proc/self/environ")
    assert path.stat().st_size == 0
    assert files.read_bytes(path, "a text") == path.read_bytes()
    with pytest.raises(Refusal, match="larger than 5 bytes"):
        files.read_bytes(path, "a text", most=5)


def test_the_command_refuses_a_fifo_in_one_line(tmp_path: Path, sojourn: Run) -> None:
    os.mkfifo(tmp_path / "f")
    for verb in (["check", "f"], ["replay", "f", "--qdisc", "pfifo"]):
        said = sojourn(*verb, code=2).stderr
        assert "FIFO" in said
        assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "secret", ["root:$6$rounds=5000$abcdefghijklmnop:19000:0:99999:7:::", "-----BEGIN PRIVATE KEY"]
)
@pytest.mark.parametrize("name", ["x.down", "x.csv", "x.json"])
def test_an_error_shows_little_of_a_file_that_a_scenario_names(secret: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"{secret}\n")
    (tmp_path / "t.toml").write_text(TINY.replace('rate = "1mbit"', f"rate = {{ trace = '{name}' }}"))
    with pytest.raises(sj.Error) as found:
        plan.load(tmp_path / "t.toml")
    assert secret[:9] not in str(found.value)


# ---- several writers ----


def _at_once(count: int, act: Callable[[int], None]) -> list[int]:
    """Lets processes act at the same time. Returns their exit codes: 0, or 2 for a refusal, or 1."""
    ready, go = os.pipe(), os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                os.write(ready[1], b".")
                os.close(go[1])
                os.read(go[0], 1)  # until its other end is closed
                act(number)
                os._exit(0)
            except (Refusal, sj.Error):
                os._exit(2)
            except BaseException:
                os._exit(1)
        children.append(child)
    while count:
        count -= len(os.read(ready[0], count))
    os.close(go[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for end in (*ready, go[0]):
        os.close(end)
    return sorted(codes)


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_one_of_many_processes_gets_a_folder(there: bool, tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / str(number)
        if there:
            folder.mkdir()
        codes = _at_once(8, lambda one, folder=folder: records.claim_folder(folder, f"{one}") and None)  # type: ignore[misc]
        assert codes == [0] + 7 * [2]
        assert [path.name for path in folder.iterdir()] == [records.SCENARIO]


def test_one_of_many_commands_writes_its_results(tiny: Path, tmp_path: Path) -> None:
    words = [SOJOURN, "run", tiny, "--out", tmp_path / "out", "-f", "json"]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [one.communicate()[1] for one in started]
    assert sorted(one.returncode for one in started) == [0, 2, 2, 2]
    assert all("--out" in text for one, text in zip(started, said, strict=True) if one.returncode)
    assert sj.open_results(tmp_path / "out").count == 1


def test_a_file_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    codes = _at_once(8, lambda one: records.write_new(tmp_path / "f", f"{one}".encode()))
    assert codes == [0] + 7 * [1], "FileExistsError, which each verb puts into its own words"
    assert len((tmp_path / "f").read_bytes()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_folder_is_reserved_while_it_is_written_to(tiny: Path, tmp_path: Path, sojourn: Run) -> None:
    results = tmp_path / "results"
    sojourn("run", tiny, "--out", results, "-f", "json")
    handle = os.open(results, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert "another sojourn writes to this folder now" in sojourn("report", results, code=2).stderr
    finally:
        os.close(handle)
    sojourn("report", results)


def test_sweeps_of_a_store_that_end_at_once_all_draw(tiny: Path, tmp_path: Path) -> None:
    words = [SOJOURN, "sweep", tiny, "--store", tmp_path / "store"]
    pictures = tmp_path / "store" / "pictures" / "tiny"
    pictures.mkdir(parents=True)
    (tmp_path / "store" / "lock").touch()
    with files.writing(pictures):
        started = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        with pytest.raises(subprocess.TimeoutExpired):
            started[0].wait(timeout=4)
    said = [one.communicate()[1] for one in started]
    assert [one.returncode for one in started] == [0, 0], said
    assert any(pictures.iterdir())


def test_a_reservation_ends_with_its_block(tmp_path: Path) -> None:
    for _ in range(2):
        with (
            files.writing(tmp_path / "f"),
            pytest.raises(Refusal, match="another sojourn"),
            files.writing(tmp_path / "f"),
        ):
            raise AssertionError("reserved twice")
    (tmp_path / "g").write_text("")
    with pytest.raises(Refusal, match="this is a file"), files.writing(tmp_path / "g"):
        raise AssertionError("a file")


# ---- disks that are full ----


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the disk full from now on: a file that is opened for writing takes no byte."""

    def fill() -> None:
        def write(self: Path, _data: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

        monkeypatch.setattr(Path, "write_bytes", write)

    return fill


def test_a_full_disk_leaves_no_empty_scenario(tmp_path: Path, full: Callable[[], None]) -> None:
    full()
    with pytest.raises(OSError, match=r"No space left on device: '.*home\.toml'"):
        records.write_new(tmp_path / "home.toml", b"x")
    assert list(tmp_path.iterdir()) == []


def test_new_may_be_repeated_after_a_full_disk(tmp_path: Path) -> None:
    words = [SOJOURN, "new", "home", "--down", "20mbit", "--up", "2mbit"]
    limited = f"ulimit -f 0; exec {' '.join(words)}"
    failed = subprocess.run(["/bin/sh", "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 2, failed.stderr
    assert "home.toml" in failed.stderr
    assert list(tmp_path.iterdir()) == []
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)


def test_a_full_disk_leaves_no_part_of_the_results(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    limited = f"ulimit -f 2; exec {SOJOURN} run {tiny} --out {out} -f json"
    failed = subprocess.run(["/bin/sh", "-c", limited], capture_output=True, text=True, check=False)
    assert failed.returncode == 2, failed.stderr
    assert "0000" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert not out.exists()


def test_a_full_disk_leaves_no_part_of_the_results_of_a_program(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    def full(*_args: Any, **_how: Any) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(Refusal, match=r"0000.*\.parquet: No space left on device"):
        sj.run(tiny, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Failing(Simulator):
    """A world whose last run fails."""

    def play(self, plan: Plan, index: int, *args: Any, **how: Any) -> Any:
        if index == len(plan) - 1:
            raise Refusal("the guest stopped")
        return super().play(plan, index, *args, **how)


@pytest.mark.parametrize("runs", [1, 3])
def test_a_run_that_fails_leaves_those_that_are_finished(runs: int, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(f'{TINY}[sweep]\n"hop.b.delay" = {["1ms", "2ms", "3ms"][:runs]}\n')
    out = tmp_path / "out"
    with pytest.raises(Refusal, match=r"^the guest stopped") as said:
        sj.run(tmp_path / "t.toml", world=Failing(), on=1, out=out)
    assert (f"; finished runs are kept in {out}" in str(said.value)) == out.exists() == (runs > 1)
    if runs > 1:
        assert sj.open_results(out).count == runs - 1


def test_a_folder_of_others_is_never_removed(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sj.run(tiny, out=out)
    there = sorted(path.name for path in out.iterdir())
    with pytest.raises(sj.Error, match="nothing is overwritten"):
        sj.run(tiny, out=out)
    assert sorted(path.name for path in out.iterdir()) == there


def test_files_have_the_rights_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        records.write_new(tmp_path / "f", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


# ---- texts that a terminal or a spreadsheet acts on ----


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-2+3", "\t=1"])
def test_a_text_is_no_formula(text: str) -> None:
    (row,) = csv.reader(io.StringIO(words.rows_as_csv([text], [])))
    assert row == [f"'{text}"]


@pytest.mark.parametrize("text", ["-1", "+1.5", "-1e-9", "1e9", "fq_codel", "-3ms", "", "5%"])
def test_numbers_stay_as_they_are(text: str) -> None:
    assert words.csv_cell(text) == text


HOSTILE = "a\\u202Eb\\u0007\\u001b[31mc\\u2066\\u200F"


def test_a_title_reaches_no_output_with_what_a_terminal_acts_on(tmp_path: Path, sojourn: Run) -> None:
    file = tmp_path / "t.toml"
    file.write_text(TINY.replace('"tiny"', f'"={HOSTILE}"'))
    seen = [sojourn("check", file).stdout]
    for form in ("text", "json", "csv"):
        done = sojourn("run", file, "--out", tmp_path / form, "-f", form)
        seen += [done.stdout, done.stderr]
    sojourn("sweep", file, "--store", tmp_path / "s", "-f", "json")
    for form in ("text", "json", "csv"):
        seen.append(sojourn("store", "SELECT title FROM runs", "--store", tmp_path / "s", "-f", form).stdout)
    assert not set("".join(seen)) & set("\u202e\x07\x1b\u2066\u200f")
    assert seen[-1].splitlines()[1].startswith("'=a")


def test_json_has_no_hidden_character() -> None:
    text = "".join(map(chr, words.HIDDEN))
    written = records.to_json([text])
    assert not set(written) & set(text) - {"\n"}
    assert json.loads(written) == [text]


def test_an_error_reaches_the_terminal_without_what_it_acts_on(tmp_path: Path, sojourn: Run) -> None:
    file = tmp_path / "t.toml"
    file.write_text(TINY.replace('"1mbit"', f'"{HOSTILE}"'))
    assert not set(sojourn("check", file, code=2).stderr) & set("\u202e\x07\x1b\u2066\u200f")


# ---- what a command says before it starts, and what it lacks ----


def test_a_trace_without_dequeues_gets_a_hint(tmp_path: Path, sojourn: Run) -> None:
    (tmp_path / "t.csv").write_text("time_ns,op,flow,bytes,ecn\n0,enqueue,1,100,0\n5,enqueue,1,100,0\n")
    assert "2 packets queued, and none left" in sojourn("replay", "t.csv", "--qdisc", "pfifo").stderr
    assert sojourn("replay", "t.csv", "--qdisc", "pfifo", "--rate", "1mbit").stderr == ""


def test_real_time_is_announced_before_it_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=r"\d+ runs in real time, up to \d+ h \d+ min .*--yes plays them"):
        cli.main(["rfc7928", "codel", "--world", "live"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == [], "nothing is begun"


def test_a_shell_takes_one_seed(tiny: Path) -> None:
    with pytest.raises(Refusal, match="expected --seed N"):
        cli.main(["shell", str(tiny), "--seeds", "5", "x"], standalone_mode=False)


def test_a_scenario_that_starts_programs_says_so(tmp_path: Path, sojourn: Run) -> None:
    file = tmp_path / "t.toml"
    file.write_text(TINY + '[[flow]]\nkind = "command"\ncommand = "true"\nat = "client"\n')
    assert "starts 1 program as you" in " ".join(sojourn("check", file).stdout.split())


def test_a_kernel_that_is_not_built_is_named_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    built = type("Kernel", (), {"release": "7.3.4"})()
    monkeypatch.setattr(kernels, "_fitting", lambda _variant, _hz, version: [] if version else [built])
    monkeypatch.delenv("SOJOURN_KERNEL", raising=False)
    with pytest.raises(
        Refusal, match=r"kernel 5\.4: not built: expected one that is \(7\.3\.4\).*from Linux 6\.1 to 7\.x"
    ):
        kernels.find(version="5.4")


def test_the_header_for_libraries_is_found() -> None:
    folder = plan.header()
    assert folder is not None
    assert "sojourn_enqueue" in (folder / "sojourn.h").read_text()


def test_the_wheel_has_the_header() -> None:
    assert 'cp -r crates/ffi/include "$share"' in (ROOT / "tools" / "wheel").read_text()
