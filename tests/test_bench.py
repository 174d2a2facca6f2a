"""`sojourn bench`: what scripts and people are given."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sojourn.cli import bench, cli


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two numbers of flows, and nothing that counts instructions."""
    monkeypatch.setattr(bench, "SCALE", (10, 60))
    monkeypatch.setattr(bench, "LEAST", 50)
    monkeypatch.setattr(bench, "_instructions", lambda command: 7_000_000 if "60" in command else None)


@pytest.mark.usefixtures("few")
def test_scale_gives_what_a_flow_costs_beyond_the_smallest_run() -> None:
    done = CliRunner().invoke(cli, ["bench", "scale"])
    assert done.exit_code == 0, done.output
    ten, many = json.loads(done.stdout)
    assert (ten["flows"], many["flows"]) == (10, 60)
    assert ten["bytes_per_flow"] is None
    assert ten["instructions_per_packet"] is None
    assert many["bytes_per_flow"] == round((many["rss_mb"] - ten["rss_mb"]) * 1e6 / 50)
    assert many["instructions_per_packet"] == round(7e6 / many["packets"], 1)
    assert many["ns_per_packet"] == pytest.approx(many["cpu_s"] * 1e9 / many["packets"], abs=0.06)
    assert min(ten["packets"], many["packets"]) > 1_000_000


@pytest.mark.usefixtures("few")
def test_scale_does_not_say_what_a_few_flows_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LEAST", 51)
    done = CliRunner().invoke(cli, ["bench", "scale"])
    assert [one["bytes_per_flow"] for one in json.loads(done.stdout)] == [None, None]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("form", ["text", "csv"])
def test_scale_has_a_row_for_each_number_of_flows(form: str) -> None:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["bench", "scale", "-f", form])
    assert done.exit_code == 0, done.output
    first = [line.replace(",", " ").split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert first[-2:] == ["10", "60"]
    assert ("ns/packet" if form == "text" else "sojourn_ms.p99") in done.stdout
