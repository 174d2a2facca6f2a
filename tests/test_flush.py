"""A link whose queue is flushed when its rate falls: the key, and where it is not available."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip

FALLS = '[["0s", "10mbit"], ["5s", "1mbit"], ["10s", "10mbit"], ["15s", "2mbit"]]'


def scenario(folder: Path, hop: str, rate: str = FALLS) -> Path:
    """Two transfers over one hop with these keys."""
    path = folder / "fading.toml"
    path.write_text(
        f'duration = "20s"\n[[hop]]\nname = "b"\nrate = {rate}\nqdisc = "pfifo limit 50"\n{hop}\n'
        '[[flow]]\nkind = "bulk"\ncount = 2\nrtt = "50ms"\n'
    )
    return path


def first(sojourn: Run, file: Path) -> dict[str, Any]:
    """Returns the scenario as it is understood."""
    return json.loads(sojourn("check", file, "-f", "json").stdout)["first"]


def test_the_other_direction_is_as_the_first_unless_it_says_otherwise(sojourn: Run, tmp_path: Path) -> None:
    asked = {
        "": [False, False],
        "flush = true": [True, True],
        "flush = true\nreverse = { flush = false }": [True, False],
    }
    for keys, flushes in asked.items():
        found = first(sojourn, scenario(tmp_path, keys))
        assert [hop["flush"] for hop in found["hops"]] == flushes, keys


def test_a_fall_throws_away_what_waits(sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, "flush = true")
    file.write_text(file.read_text().replace('duration = "20s"', 'duration = "20s"\nmeasure = ["4.999s", "5.001s"]'))
    [run] = json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]
    assert 10 < run["hops"]["b"]["drops_by_reason"]["overlimit"] <= 50


def test_a_trace_has_no_rate_that_falls(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "some.trace").write_text("1\n2\n10\n")
    said = sojourn("run", scenario(tmp_path, "flush = true", '{ trace = "some.trace" }'), code=2).stderr
    assert "fading.toml:6: hop.b.flush = true: a trace has no rate that falls: expected a rate with steps" in said


def test_a_trace_on_the_way_back_does_not_inherit_it(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "some.trace").write_text("1\n2\n10\n")
    file = scenario(tmp_path, 'flush = true\nreverse = { rate = { trace = "some.trace" } }')
    assert [hop["flush"] for hop in first(sojourn, file)["hops"]] == [True, False]


def test_an_empty_queue_has_no_delay_left(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "idle.toml"
    file.write_text(
        'duration = "13s"\nmeasure = ["8.5s", "13s"]\n[[hop]]\nname = "b"\n'
        'rate = [["0s", "10mbit"], ["10s", "1mbit"]]\nqdisc = "htb rate 8kbit"\nflush = true\n'
        '[[flow]]\nkind = "cbr"\nrate = "400kbit"\nrtt = "10ms"\nstop = "9.9s"\n'
    )
    [run] = json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]
    hop = run["hops"]["b"]
    assert hop["queue_delay_ms"]["max"] > 1000  # before the rate falls
    assert hop["queue_delay_ms"]["p50"] == 0  # empty for two thirds of the window


def test_linux_has_no_such_thing(sojourn: Run, tmp_path: Path) -> None:
    kernel_or_skip()
    said = sojourn("run", scenario(tmp_path, "flush = true"), "--world", "kernel", code=2).stderr
    assert "hop b: flush: no discipline of Linux learns that its link has become slower" in said


@pytest.mark.parametrize("keys", ['flush = "yes"', "flush = 1"])
def test_it_is_true_or_false(keys: str, sojourn: Run, tmp_path: Path) -> None:
    assert "fading.toml:6: hop.b.flush = " in sojourn("run", scenario(tmp_path, keys), code=2).stderr
