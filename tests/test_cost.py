"""Estimates and warnings before a run: its cost, and what would mislead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Run
from sojourn import cost
from sojourn.cli.base import cli
from sojourn.errors import Refusal
from sojourn.plan import load

BULK = '[[flow]]\nkind = "bulk"\ncount = 8\nrtt = "40ms"\n'
STREAM = '[[flow]]\nkind = "cbr"\nrate = "10gbit"\nsize = 1250\nrtt = "40ms"\n'


def scenario(folder: Path, rate: str, qdisc: str, flows: str = BULK, duration: str = "10s") -> Path:
    """One link and the flows."""
    path = folder / "cost.toml"
    path.write_text(
        f'duration = "{duration}"\n[[hop]]\nname = "l"\nrate = "{rate}"\ndelay = "10ms"\nqdisc = "{qdisc}"\n{flows}'
    )
    return path


def test_check_estimates_time_and_memory(sojourn: Run, tmp_path: Path) -> None:
    day = scenario(tmp_path, "100mbit", "fq_codel", duration="24h")
    said = sojourn("check", day)
    assert "Estimate for the simulator: a run takes at most" in said.stdout
    assert all(len(line) <= 80 for line in said.stdout.splitlines() if "Estimate" in line)
    found = json.loads(sojourn("check", day, "-f", "json").stdout)["cost"]
    # 8256 segments a second and half as many ACKs, of 70 ns each.
    assert found["run_cpu_s"] == pytest.approx(86_400 * 8256 * 1.5 * 70e-9, rel=0.01)


def test_a_run_costs_about_what_is_estimated(sojourn: Run, tmp_path: Path) -> None:
    """The transmissions are an upper limit, which eight flows on a link nearly reach."""
    file = scenario(tmp_path, "20mbit", "fq_codel")
    [run] = json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]
    sent = sum(hop["delivered_packets"] for hop in run["hops"].values())
    estimated = cost.of(load(file)).run_s / cost.NS_OF_TRANSMISSION["sim"] * 1e9
    assert 0.8 * estimated < sent < 1.1 * estimated


def test_runs_that_take_long_or_much_memory_are_warned_about(tmp_path: Path) -> None:
    assert cost.warnings(cost.of(load(scenario(tmp_path, "100mbit", "fq_codel")))) == []
    hour = scenario(tmp_path, "1gbit", "fq_codel", duration="1h")
    assert cost.warnings(cost.of(load(hour))) == []
    [long] = cost.warnings(cost.of(load(hour, seeds=20)))
    assert "a run takes at most 31 s of CPU time, 10 min for all 20" in long
    large = scenario(tmp_path, "100mbit", "pfifo limit 4294967295", STREAM, "20s")
    [said] = cost.warnings(cost.of(load(large)))
    assert "about 2 GB of memory for packets, most of it in queue l" in said


def test_a_run_that_memory_does_not_hold_is_refused_with_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = scenario(tmp_path, "1gbit", "pfifo limit 4294967295", STREAM, "500s")
    monkeypatch.setattr(cost, "machine_bytes", lambda: 8 * 10**9)
    why = cost.refusal(load(file), 0)
    assert why is not None
    assert "needs about 45 GB of memory for 450 million packets" in why
    assert "expected a limit of at most 80000000 packets, or a shorter duration" in why
    assert cost.refusal(load(scenario(tmp_path, "1gbit", "pfifo limit 80000000", STREAM, "500s")), 0) is None
    scenario(tmp_path, "1gbit", "pfifo limit 4294967295", STREAM, "500s")
    with pytest.raises(Refusal, match="needs about 45 GB"):
        cli.main(["run", str(file), "-f", "json"], standalone_mode=False)
    cli.main(["check", str(file)], standalone_mode=False)
    assert "needs about 45 GB" in capsys.readouterr().err


def test_a_trace_without_an_opportunity_within_the_run_is_named_and_drawn(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "late.down").write_text("5000\n6000\n")
    file = tmp_path / "late.toml"
    file.write_text(
        'duration = "1s"\n[[hop]]\nname = "l"\nrate = { trace = "late.down" }\ndelay = "5ms"\n'
        'reverse = { rate = "1mbit" }\n[[flow]]\nkind = "bulk"\n'
    )
    for words in (("check",), ("run", "--out", tmp_path / "out")):
        said = sojourn(*words, file)
        assert "the trace has no opportunity within the run, which lasts 1s: no packet can leave" in said.stderr
    assert (tmp_path / "out" / "report.html").is_file()
