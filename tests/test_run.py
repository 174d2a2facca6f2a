"""`sojourn run`: the JSON for scripts, identical bytes for the same seed, and the files in the output folder."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq
import pytest

from conftest import ROOT, SMALL, SOJOURN, Run, compare
from sojourn.cli import base

DISTRIBUTION = {"mean", "p50", "p75", "p95", "p99", "max"}
HOP = {
    "utilisation", "delivered_packets", "delivered_bytes", "drops", "drops_by_reason", "marks", "sojourn_ms",
    "queue_delay_ms", "queue_packets", "standing_queue_ms", "empty_fraction", "nonempty_max_s", "full_fraction", "nic",
    "paused_fraction", "stats",
}  # fmt: skip
FLOW = {"name", "kind", "cc", "goodput_mbit", "rtt_ms", "retransmits", "fct_s"}


def refuse_nan(name: str) -> float:
    raise AssertionError(f"{name} in JSON")


def load(text: str) -> dict[str, Any]:
    return json.loads(text, parse_constant=refuse_nan)


def test_json_has_every_key_and_nothing_else_is_on_stdout(sojourn: Run, small: Path) -> None:
    found = load(sojourn("run", small, "-f", "json").stdout)
    assert set(found) == {"runs", "skipped"}
    assert found["skipped"] == []
    for run in found["runs"]:
        assert {"world", "seed", "set", "duration_s", "hops", "flows", "jain", "losses", "startup"} <= set(run)
        for window in (run, run["startup"]):
            assert list(window["hops"]) == ["bottleneck", "bottleneck.reverse"]
            for hop in window["hops"].values():
                assert set(hop) >= HOP
                for key in ("sojourn_ms", "queue_delay_ms", "queue_packets"):
                    assert hop[key] is None or set(hop[key]) == DISTRIBUTION
                assert hop["standing_queue_ms"] is None or set(hop["standing_queue_ms"]) == {"p10", "p50", "p90"}
                assert sum(hop["drops_by_reason"].values()) == hop["drops"]
            assert [flow["name"] for flow in window["flows"]] == ["bulk0.0", "bulk0.1", "pings0"]
            assert all(set(flow) >= FLOW for flow in window["flows"])
            assert set(window["jain"]) == {"goodput", "drop_share"}
            assert set(window["losses"]) == {"events", "synchronisation"}


def test_runs_come_first_sweep_key_outermost_and_seed_innermost_with_values_as_written(
    sojourn: Run, small: Path
) -> None:
    text = SMALL.replace("[sweep]", '[sweep]\n"hop.bottleneck.delay" = ["10ms", "15ms"]')
    small.write_text(text)
    runs = load(sojourn("run", small, "--seeds", 2, "--seed", 7, "-f", "json").stdout)["runs"]
    order = [(*run["set"].values(), run["seed"]) for run in runs]
    expected = [(d, q, s) for d in ("10ms", "15ms") for q in ("pfifo limit 100", "codel") for s in (7, 8)]
    assert order == expected
    assert list(runs[0]["set"]) == ["hop.bottleneck.delay", "hop.bottleneck.qdisc"]


def test_set_replaces_a_swept_key_and_is_reported(sojourn: Run, small: Path) -> None:
    done = sojourn("run", small, "--set", "hop.bottleneck.qdisc=pfifo limit 20", "-f", "json")
    (run,) = load(done.stdout)["runs"]
    assert run["set"] == {"hop.bottleneck.qdisc": "pfifo limit 20"}
    assert run["hops"]["bottleneck"]["queue_packets"]["max"] <= 20


def test_the_same_seed_gives_the_same_bytes_by_cli_and_by_python_and_with_any_number_of_jobs(
    sojourn: Run, small: Path, tmp_path: Path
) -> None:
    once = sojourn("run", small, "-f", "json", "--seeds", 2, "--jobs", 1).stdout
    assert sojourn("run", small, "-f", "json", "--seeds", 2, "--jobs", 4).stdout == once
    assert compare(small, seeds=2).json() + "\n" == once
    for name in ("a", "b"):
        sojourn("run", small, "-f", "json", "--out", name, "--packets")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) >= 8
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_another_seed_gives_another_run(sojourn: Run, small: Path) -> None:
    hops = [load(sojourn("run", small, "-f", "json", "--seed", seed).stdout)["runs"][0]["hops"] for seed in (1, 2)]
    assert hops[0] != hops[1]


def test_fast_and_heap_engines_agree_through_the_door(small: Path) -> None:
    from sojourn.plan import load

    plan = load(small)
    fast, heap = (plan.run(0, engine=engine) for engine in ("fast", "heap"))
    assert fast is not None
    assert heap is not None
    assert fast.result() == heap.result()


def test_json_and_csv_write_no_file_without_out(sojourn: Run, small: Path, tmp_path: Path) -> None:
    sojourn("run", small, "-f", "json")
    sojourn("run", small, "-f", "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_csv_has_one_row_a_run_with_the_numbers_of_the_json(sojourn: Run, small: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(sojourn("run", small, "--seeds", 2, "-f", "csv").stdout)))
    runs = load(sojourn("run", small, "--seeds", 2, "-f", "json").stdout)["runs"]
    assert len(rows) == len(runs) == 4
    for row, run in zip(rows, runs, strict=True):
        assert row["set.hop.bottleneck.qdisc"] == run["set"]["hop.bottleneck.qdisc"]
        assert float(row["hops.bottleneck.sojourn_ms.p95"]) == run["hops"]["bottleneck"]["sojourn_ms"]["p95"]


def test_csv_has_the_same_columns_where_there_is_nothing_to_measure(sojourn: Run, small: Path) -> None:
    full = sojourn("run", small, "-f", "csv").stdout.splitlines()[0]
    short = ["--set", "duration=1us", "--set", 'measure=["0s", "end"]', "-f", "csv"]
    empty = sojourn("run", small, *short).stdout.splitlines()[0]
    assert set(full.split(",")) <= set(empty.split(","))
    assert "hops.bottleneck.sojourn_ms" not in empty.split(",")


def test_text_shows_one_row_a_discipline_and_writes_a_new_folder_each_time(
    sojourn: Run, small: Path, tmp_path: Path
) -> None:
    first = sojourn("run", small)
    assert "pfifo limit 100" in first.stdout
    assert "±" not in first.stdout, "one run carries no interval"
    assert "results/small-001/report.html" in first.stderr
    before = (tmp_path / "results/small-001/results.json").read_bytes()
    second = sojourn("run", small, "--seeds", 3)
    assert "±" in second.stdout
    assert "results/small-002/report.html" in second.stderr
    assert (tmp_path / "results/small-001/results.json").read_bytes() == before
    assert not list((tmp_path / "results").rglob(".*")), "no temporary file is left"


def test_an_output_folder_with_something_in_it_is_left_alone(sojourn: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    done = sojourn("run", small, "--out", "mine", code=2)
    assert "expected a new or empty folder" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_records_carry_file_version_scenario_seed_set_world_and_versions(
    sojourn: Run, small: Path, tmp_path: Path
) -> None:
    sojourn("run", small, "-f", "json", "--out", "out", "--packets")
    for name in ("0001.parquet", "0001.packets.parquet", "0001.flows.parquet"):
        table = pq.read_table(tmp_path / "out/runs" / name)
        about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        assert about["sojourn.file_version"] == "1"
        assert about["sojourn.scenario"] == SMALL
        assert about["sojourn.seed"] == "1"
        assert json.loads(about["sojourn.set"]) == {"hop.bottleneck.qdisc": "codel"}
        assert json.loads(about["sojourn.world"]) == "sim"
        assert "sojourn" in json.loads(about["sojourn.versions"])
        assert table.num_rows > 0


def test_packets_agree_with_the_totals_of_the_result(sojourn: Run, small: Path, tmp_path: Path) -> None:
    text = small.read_text().replace('measure = ["1s", "end"]\n', "")
    small.write_text(text)
    run = load(sojourn("run", small, "-f", "json", "--out", "out", "--packets").stdout)["runs"][0]
    packets = pq.read_table(tmp_path / "out/runs/0000.packets.parquet").to_pydict()
    hop = run["hops"]["bottleneck"]
    mine = [row for row, link in enumerate(packets["link"]) if link == 0]
    delivered = [row for row in mine if packets["fate"][row] == 0 and packets["end_ns"][row] < 3_000_000_000]
    assert len(delivered) == hop["delivered_packets"]
    assert sum(packets["bytes"][row] for row in delivered) == hop["delivered_bytes"]
    assert len([row for row in mine if packets["fate"][row] != 0]) == hop["drops"]
    longest = max(packets["start_ns"][row] - packets["arrival_ns"][row] for row in delivered)
    assert math.isclose(longest / 1e6, hop["sojourn_ms"]["max"])


def test_what_only_linux_has_is_skipped_with_its_reason_and_refused_alone(sojourn: Run, small: Path) -> None:
    small.write_text(SMALL.replace("pfifo limit 100", "hhf limit 500"))
    done = load(sojourn("run", small, "-f", "json").stdout)
    assert [run["set"]["hop.bottleneck.qdisc"] for run in done["runs"]] == ["codel"]
    assert [one["reason"] for one in done["skipped"]] == ["hop bottleneck: hhf is not built yet in the simulator"]
    refused = sojourn("run", small, "--set", "hop.bottleneck.qdisc=codel", "--set", "flow.bulk0.cc=westwood", code=2)
    assert "cc westwood is not built yet in the simulator" in refused.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_leave_the_finished_runs_in_a_readable_folder(
    sojourn: Run, small: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    small.write_text(SMALL.replace('"3s"', '"600s"'))
    out = tmp_path / "out"
    command = [SOJOURN, "run", str(small), "--seeds", "200", "--jobs", "2", "--out", str(out)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("runs/0*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, stop)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert str(out) in stderr
    found = load((out / "results.json").read_text())
    assert found["interrupted"] is True
    assert 0 < len(found["runs"]) < 400
    assert "pfifo limit 100" in stdout
    assert (out / "report.html").exists()
    again = sojourn("report", out, "-f", "json")
    assert load(again.stdout)["runs"] == found["runs"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_without_series_and_files_the_numbers_are_the_same(sojourn: Run, small: Path, form: str) -> None:
    assert sojourn("run", small, "-f", form).stdout == sojourn("run", small, "-f", form, "--out", "out").stdout


def test_a_table_is_no_wider_than_the_terminal_and_loses_no_column(sojourn: Run, small: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    for words in (["run", str(small), "--seeds", "3"], ["check", str(small)], ["list", "keys"]):
        done = subprocess.run(
            [SOJOURN, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert max(map(len, done.stdout.splitlines())) <= 80
        if words[0] == "run":
            assert all(word in done.stdout for word in ("busy", "p95", "max", "standing", "RTT", "Jain"))
            assert re.search(r"(?m)^ pfifo  ", done.stdout), "continued columns have labels too"
    assert "\x1b" not in sojourn("run", small).stdout


def test_where_nothing_varies_a_table_s_row_is_labelled_by_the_discipline_of_its_own_hop(sojourn: Run) -> None:
    file = ROOT / "scenarios/parking-lot.toml"
    shown = sojourn("run", file, "--set", "duration=12s").stdout.splitlines()
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown if line.startswith((" first ", " second ", " third "))]
    assert [(row[0], row[1].split()[0]) for row in rows] == [
        ("first", "pfifo"),
        ("second", "codel"),
        ("third", "fq_codel"),
    ]


def test_check_of_a_large_sweep_lists_the_first_and_says_how_many_more(sojourn: Run) -> None:
    file = ROOT / "experiments/001-codel/static.toml"
    shown = sojourn("check", file).stdout
    assert "19008 runs of 300 s" in shown
    assert "… and 18968 more: -f csv lists all" in shown
    assert len(sojourn("check", file, "-f", "csv").stdout.splitlines()) == 19_009


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("nic={ ring = 64, bql = true }", "nic ring 64 bql"),
        ("impair=loss 1%", "impair loss 1%"),
        ("flush=true", "flush"),
    ],
)
def test_check_says_what_only_some_queues_have(sojourn: Run, small: Path, key: str, shown: str) -> None:
    assert "beside" not in sojourn("check", small).stdout
    said = sojourn("check", small, "--set", f"hop.bottleneck.{key}").stdout
    assert re.search(rf"(?m) {shown}$", said)


DRAWING = {"matplotlib", "PIL", "jinja2"}
NUMBERS = {"numpy", "scipy", "pyarrow", "duckdb", "pandas"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (("--help",), DRAWING | NUMBERS | {"rich"}),
        (("run", "--help"), DRAWING | NUMBERS | {"rich"}),
        (("list", "scenarios"), DRAWING | NUMBERS | {"rich"}),
        (("check", "FILE"), DRAWING | NUMBERS | {"rich"}),
        (("run", "FILE", "-f", "json"), DRAWING | NUMBERS),
        (("run", "FILE", "-f", "csv"), DRAWING | NUMBERS),
        (("sweep", "FILE", "-f", "json"), DRAWING),
        (("run", "FILE"), {"matplotlib", "PIL", "duckdb", "pandas"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_verb_imports_no_library_that_it_does_not_use(
    small: Path, tmp_path: Path, words: tuple[str, ...], unwanted: set[str]
) -> None:
    known = [str(small) if word == "FILE" else word for word in words]
    code = (
        "import sys\nfrom sojourn.cli import main\ntry: main()\n"
        "finally: print('loaded:', *{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *known]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.rpartition("loaded: ")[2].split())
    assert {"sojourn", "click"} <= loaded
    assert not unwanted & loaded


@pytest.mark.parametrize(("patience_s", "seen"), [(0.0, True), (1e9, False)])
def test_the_bar_appears_only_where_somebody_waits(
    monkeypatch: pytest.MonkeyPatch, patience_s: float, *, seen: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(base, "PATIENCE_S", patience_s)
    with base.simulated_seconds("3 runs") as tell:
        tell(20.0, 80.0)
    assert ("20 of 80 simulated seconds in 3 runs" in terminal.getvalue()) == seen


def test_every_verb_is_found_in_its_module() -> None:
    folder = Path(str(base.__file__)).parent
    makers = {path.stem for path in folder.glob("*.py") if re.search(r"^@cli\.", path.read_text(), re.MULTILINE)}
    assert set(base.VERBS.values()) == makers
    context = click.Context(base.cli)
    assert base.cli.list_commands(context) == sorted(base.cli.list_commands(context))
    for name in base.VERBS:
        verb = base.cli.get_command(context, name)
        assert verb is not None
        assert verb.name == name
