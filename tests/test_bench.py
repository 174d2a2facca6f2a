"""`sojourn bench`: its output for scripts and for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sojourn.cli import bench, cli


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces the bench to two numbers of flows, without counting instructions."""
    monkeypatch.setattr(bench, "SCALE", (10, 60))
    monkeypatch.setattr(bench, "LEAST", 50)
    monkeypatch.setattr(bench, "_instructions", lambda command: 7_000_000 if "60" in command else None)


@pytest.mark.usefixtures("few")
def test_scale_gives_what_a_flow_costs_beyond_the_smallest_run() -> None:
    done = CliRunner().invoke(cli, ["bench", "scale"])
    assert done.exit_code == 0, done.output
    ten, sixty = json.loads(done.stdout)
    assert (ten["flows"], sixty["flows"]) == (10, 60)
    assert ten["bytes_per_flow"] is None
    assert ten["instructions_per_packet"] is None
    assert sixty["bytes_per_flow"] == round((sixty["allocated_mb"] - ten["allocated_mb"]) * 1e6 / 50)
    assert sixty["instructions_per_packet"] == round(7e6 / sixty["packets"], 1)
    assert sixty["ns_per_packet"] == pytest.approx(sixty["cpu_s"] * 1e9 / sixty["packets"], abs=0.06)
    assert min(ten["packets"], sixty["packets"]) > 1_000_000


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bench program that prints its arguments, and takes 31 MB on huge pages; with 7 flows it fails."""
    program = tmp_path / "sojourn-bench"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "flows = int(sys.argv[3]) if sys.argv[1] == 'scale' else 1\n"
        "if flows == 7: sys.exit(3)\n"
        "memory = 1 + flows / 1000 if os.environ.get('MIMALLOC_ALLOW_THP') == '0' else 31\n"
        "found = {'flows': flows, 'packets': 1000, 'cpu_s': 1e-4, 'rss_mb': memory, 'utilisation': 1, 'drops': 0}\n"
        "found['allocated_mb'] = memory / 2\n"
        "found |= {'asked': sys.argv[1:], 'purge': os.environ['MIMALLOC_PURGE_DELAY']}\n"
        "print(json.dumps(found | {'sojourn_ms': {'p95': 1, 'p99': 2}}))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("SOJOURN_BENCH", str(program))


@pytest.mark.usefixtures("few", "fake")
@pytest.mark.parametrize("name", ["P1", "scale"])
def test_time_is_of_one_process_and_memory_of_another_without_huge_pages(name: str) -> None:
    done = CliRunner().invoke(cli, ["bench", name])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    one = found[1] if name == "scale" else found
    assert one["asked"] == (["scale", "--flows", "60"] if name == "scale" else ["P1"])
    assert one["rss_mb"] == pytest.approx(1.06 if name == "scale" else 1.001)
    assert one["allocated_mb"] == one["rss_mb"] / 2
    assert one["purge"] == "-1"


@pytest.mark.usefixtures("few", "fake")
def test_a_bench_program_that_fails_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SCALE", (10, 7))
    assert CliRunner().invoke(cli, ["bench", "scale"]).exit_code == 3


@pytest.mark.usefixtures("few", "fake")
def test_scale_does_not_say_what_a_few_flows_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LEAST", 51)
    done = CliRunner().invoke(cli, ["bench", "scale"])
    assert done.exit_code == 0, done.output
    assert [one["bytes_per_flow"] for one in json.loads(done.stdout)] == [None, None]


@pytest.mark.usefixtures("few", "fake")
@pytest.mark.parametrize("form", ["text", "csv"])
def test_scale_has_a_row_for_each_number_of_flows(form: str) -> None:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["bench", "scale", "-f", form])
    assert done.exit_code == 0, done.output
    first = [line.replace(",", " ").split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert first[-2:] == ["10", "60"]
    assert ("ns/packet" if form == "text" else "sojourn_ms.p99") in done.stdout
