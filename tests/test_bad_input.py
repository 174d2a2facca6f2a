"""Bad input gives one line that names file, line, key, value and the expected form; exit code 2; no traceback."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT, SMALL, SOJOURN, Run
from sojourn import _core, plan

# Changes of the small scenario, and the words that the message must contain.
FAULTS = {
    "unknown key": ('rate = "10mbit"', 'rtae = "10mbit"', ["rtae", "rate"]),
    "unknown key at the top": ('title = "A small link"', 'titel = "A small link"', ["titel", "title"]),
    "wrong unit": ('rate = "10mbit"', 'rate = "10ms"', ["rate", "10ms", "expected"]),
    "negative rate": ('rate = "10mbit"', 'rate = "-10mbit"', ["rate", "-10mbit", "expected"]),
    "rate of zero": ('rate = "10mbit"', 'rate = "0mbit"', ["rate", "0mbit", "expected"]),
    "rate without unit": ('rate = "10mbit"', "rate = 10", ["rate", "10", "expected"]),
    "unknown discipline": ('qdisc = "codel"', 'qdisc = "coddle"', ["qdisc", "coddle", "codel"]),
    "unknown parameter": ('qdisc = "codel"', 'qdisc = "codel targte 5ms"', ["qdisc", "targte", "target"]),
    "impossible tc line": ('qdisc = "codel"', 'qdisc = "codel limit"', ["qdisc", "limit"]),
    "nonsense in a parameter": ('qdisc = "codel"', 'qdisc = "codel target soon"', ["qdisc", "soon"]),
    "missing trace": ('rate = "10mbit"', 'rate = { trace = "nowhere.down" }', ["nowhere.down"]),
    "times out of order": ('rate = "10mbit"', 'rate = [["0s","1mbit"],["5s","2mbit"],["4s","1mbit"]]', ["rate", "4s"]),
    "a duration of years": ('duration = "3s"', 'duration = "90000h"', ["duration", "90000h"]),
    "a huge count": ("count = 2", "count = 1000000000", ["count", "1000000000"]),
    "a negative count": ("count = 2", "count = -1", ["count", "-1"]),
    "unknown kind of flow": ('kind = "bulk"', 'kind = "bluk"', ["bluk", "bulk"]),
    "a base RTT shorter than the path": ('rtt = "40ms"', 'rtt = "4ms"', ["rtt", "4ms"]),
    "a window outside of the run": ('measure = ["1s", "end"]', 'measure = ["1s", "9s"]', ["measure"]),
    "not TOML": ("[[hop]]", "[[hop", []),
}


def one_line(text: str, *names: str) -> None:
    """Asserts that the message is one line of ours that contains these words."""
    lines = [line for line in text.splitlines() if line]
    assert len(lines) == 1, text
    assert lines[0].startswith("sojourn: ")
    for name in names:
        assert name in lines[0], (name, lines[0])


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_file_is_named_with_its_line(sojourn: Run, tmp_path: Path, fault: str, verb: str) -> None:
    before, after, names = FAULTS[fault]
    assert SMALL.count(before) >= 1
    text = SMALL.replace(before, after, 1).split("[sweep]")[0]
    path = tmp_path / "bad.toml"
    path.write_text(text)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if after.splitlines()[0] in line)
    one_line(sojourn(verb, path, code=2).stderr, f"bad.toml:{line}:", *names)


def test_a_malformed_trace_is_named(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.down").write_text("1\n2\nthree\n")
    path = tmp_path / "bad.toml"
    path.write_text(SMALL.replace('rate = "10mbit"', 'rate = { trace = "bad.down" }'))
    one_line(sojourn("run", path, code=2).stderr, "bad.down", "three")


def test_an_empty_path_a_missing_file_a_folder_and_a_binary_file(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text('duration = "3s"\n')
    one_line(sojourn("run", "empty.toml", code=2).stderr, "empty.toml", "hop")
    one_line(sojourn("run", "nowhere.toml", code=2).stderr, "nowhere.toml")
    one_line(sojourn("run", tmp_path, code=2).stderr, str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)) * 40)
    one_line(sojourn("run", "binary.toml", code=2).stderr, "binary.toml")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "small.toml", "--world", "kernel"),
        ("run", "small.toml", "--world", "kernel", "--out", "out"),
        ("sweep", "small.toml", "--world", "kernel", "--store", "out", "--out", "pictures"),
        ("agree", "small.toml", "--out", "out", "--store", "store"),
        ("claims", "001", "--world", "kernel", "--experiments", ROOT / "experiments"),
        ("figures", "001", "--world", "kernel", "--experiments", ROOT / "experiments"),
        ("run", "small.toml", "--baseline", "nothing"),
        ("run", "small.toml", "-f", "json", "-f", "svg"),
        ("sweep", "small.toml", "--baseline", "nothing"),
        ("sweep", "small.toml", "--until", "nothing 5%"),
        ("sweep", "small.toml", "--until", "sojourn_ms.p95"),
        ("sweep", "small.toml", "--until", ""),
    ],
)
def test_a_refused_command_writes_nothing(
    sojourn: Run, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOJOURN_KERNEL", raising=False)
    refused = sojourn(*words, code=2)
    assert refused.stdout == ""
    one_line(refused.stderr, "sojourn kernel build" if "kernel" in words or words[0] == "agree" else "expected")
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == [small.name]


def test_faults_on_the_command_line(sojourn: Run, small: Path) -> None:
    one_line(sojourn("run", small, "--set", "hop.bottleneck.rtae=5mbit", code=2).stderr, "rtae", "rate")
    one_line(sojourn("run", small, "--set", "hop.bottleneck.rate=fast", code=2).stderr, "rate", "fast", "expected")
    one_line(sojourn("run", small, "--set", "nonsense", code=2).stderr, "nonsense", "KEY=VALUE")
    one_line(sojourn("run", small, "--seeds", "0", code=2).stderr, "0", "expected")
    one_line(sojourn("run", small, "--seed", "-1", code=2).stderr, "-1", "expected")
    one_line(sojourn("run", small, "--jobs", "many", code=2).stderr, "many")
    one_line(sojourn("run", small, "--wrold", "sim", code=2).stderr, "--wrold", "--world")
    one_line(sojourn("run", small, "--set", "hop=3", code=2).stderr, "hop", "section")
    one_line(sojourn("rnu", small, code=2).stderr, "rnu", 'nearest is "run"')
    one_line(sojourn("run", code=2).stderr, "SCENARIO")


def test_reports_of_what_is_no_record(sojourn: Run, tmp_path: Path) -> None:
    one_line(sojourn("report", "nowhere", code=2).stderr, "nowhere")
    (tmp_path / "empty").mkdir()
    one_line(sojourn("report", "empty", code=2).stderr, "empty", "expected")
    (tmp_path / "text.parquet").write_text("hello")
    one_line(sojourn("report", "text.parquet", code=2).stderr, "text.parquet", "expected a results folder")


def test_reports_of_parts_of_a_result(sojourn: Run, small: Path, tmp_path: Path) -> None:
    sojourn("run", small, "--out", "out", "--packets")
    before = set(tmp_path.rglob("*"))
    for part in ("flows", "packets"):
        refused = sojourn("report", f"out/runs/0000.{part}.parquet", code=2).stderr
        one_line(refused, f"a run's {part}", "expected the run itself, 0000.parquet")
    one_line(sojourn("report", "out/results.json", code=2).stderr, "expected a results folder")
    assert set(tmp_path.rglob("*")) == before


def test_a_folder_for_a_file_and_a_file_for_a_folder(sojourn: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    sojourn("run", small, "--out", "out")
    for verb in ("run", "check", "sweep"):
        one_line(sojourn(verb, "folder", code=2).stderr, "folder: this is a folder: expected a scenario file")
    for words in (("sweep", small, "--out", "file"), ("report", "out", "--out", "file")):
        one_line(sojourn(*words, code=2).stderr, "--out = file: this is a file: expected a folder")
    one_line(sojourn("sweep", small, "--store", "file", code=2).stderr, "--store = file: this is a file")
    assert not (tmp_path / "results").exists()


def test_a_folder_that_cannot_be_made_is_one_line(sojourn: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one_line(sojourn("run", small, "--out", "file/below", code=2).stderr, "file/below")
    sojourn("run", small, "-f", "json", "--out", "out")
    one_line(sojourn("report", "out", "--out", "file", code=2).stderr, "file")


def test_a_name_that_is_not_utf8_is_one_line(sojourn: Run, small: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"b\xffd.toml")
    (tmp_path / name).write_text(SMALL)
    for words in (
        ["run", name],
        ["replay", name, "--qdisc", "codel"],
        ["run", small, "--set", os.fsdecode(b"title=\xff")],
    ):
        done = subprocess.run([SOJOURN, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        one_line(done.stderr, "UTF-8")


def test_a_file_that_never_ends_is_not_read_to_its_end(sojourn: Run) -> None:
    one_line(sojourn("check", "/dev/zero", code=2).stderr, "/dev/zero", "expected a regular file")


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_a_full_disk_is_one_line_and_a_reader_who_left_is_no_fault(small: Path, tmp_path: Path, form: str) -> None:
    command = [SOJOURN, "run", str(small), "-f", form]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    one_line(done.stderr.split("CPU\n")[-1], "No space left on device")
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0, said
    assert "Traceback" not in said
    assert "Exception" not in said


def test_the_command_alone_shows_its_help_as_it_stands(sojourn: Run) -> None:
    lines = sojourn(code=2).stderr.splitlines()
    assert lines[0].startswith("Usage: sojourn")
    assert any(line.startswith("  run ") for line in lines)


def test_a_damaged_results_folder_is_one_line(sojourn: Run, small: Path, tmp_path: Path) -> None:
    sojourn("run", small, "-f", "json", "--out", "out")
    (tmp_path / "out/results.json").write_text("{")
    one_line(sojourn("report", "out", code=2).stderr, "results.json", "not JSON")
    table = pq.read_table(tmp_path / "out/runs/0000.parquet")
    metadata = {key: value for key, value in table.schema.metadata.items() if key != b"sojourn.about"}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "half.parquet")
    one_line(sojourn("report", "half.parquet", code=2).stderr, "half.parquet", "about")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_refused_in_one_line_and_never_crash(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(data)
    with pytest.raises(_core.Error) as caught:
        plan.load(path)
    assert "\n" not in str(caught.value).strip()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_any_value_of_a_key_is_taken_or_refused_with_its_name(small: Path, value: str) -> None:
    with contextlib.suppress(_core.Error):
        plan.load(small, [("hop.bottleneck.rate", value)])
        return
    with pytest.raises(_core.Error, match="rate"):
        plan.load(small, [("hop.bottleneck.rate", value)])
