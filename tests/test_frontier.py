"""`sojourn frontier`: the envelope of the fixed settings of a point, and disciplines placed against it."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from sojourn import _core
from sojourn.errors import Refusal
from sojourn.executors import Cores
from sojourn.frontier import grid, judge, tables
from sojourn.frontier.judge import Judged, Placed, Setting
from sojourn.frontier.point import (
    DEFAULT,
    KEY,
    Point,
    cycle_s,
    duration_of,
    fixed_settings,
    plan_of,
    point_of,
    read_flows,
)
from sojourn.runs import RunsInMemory
from sojourn.worlds import Simulator

TINY = ("--rate", "2mbit", "--rtt", "20ms", "--flows", "2 reno", "--duration", "12s", "--seeds", "2")


def setting(line: str, utilisation: float, delay_ms: float, *more_ms: float) -> Setting:
    """A setting with a delay for each seed, and the same utilisation for all."""
    delays = np.array([delay_ms, *more_ms])
    return Setting(line, np.full(len(delays), utilisation), delays, 2 * delays, np.zeros(len(delays)))


def point(flows: str = "cubic", rate: float = 10, rtt_ms: float = 50, name: str = "") -> Point:
    return point_of(flows, round(rate * 1e6), rtt_ms / 1000, name=name)


# ---- the envelope ----

FOUR = [
    setting("low", 0.80, 1.0),
    setting("mid", 0.95, 5.0),
    setting("worse", 0.94, 6.0),
    setting("high", 0.999, 20.0),
]


def test_the_frontier_is_the_least_delay_of_the_settings_that_reach_a_utilisation() -> None:
    steps = judge.staircase(FOUR)
    assert [one.line for one in steps] == ["low", "mid", "high"], "another setting has less delay and is busier"
    found = {u: judge.place_at(steps, u) for u in (0.5, 0.80, 0.81, 0.95, 0.951, 0.999, 1.0)}
    assert found == {0.5: 0, 0.80: 0, 0.81: 1, 0.95: 1, 0.951: 2, 0.999: 2, 1.0: None}
    assert judge.place_at(steps, 0.9504) == 1, "half of a table's last digit is no difference"


settings = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1e4)).map(lambda pair: setting("s", pair[0], pair[1])), min_size=1
)


@given(settings)
def test_no_fixed_setting_lies_under_its_own_frontier(fixed: list[Setting]) -> None:
    steps = judge.staircase(fixed)
    for one in fixed:
        at = judge.place_at(steps, one.y, tolerance=0.0)
        assert at is not None
        assert steps[at].x <= one.x


@given(settings)
def test_the_frontier_rises_with_the_utilisation(fixed: list[Setting]) -> None:
    steps = judge.staircase(fixed)
    for before, after in itertools.pairwise(steps):
        assert before.x < after.x
        assert before.y < after.y


def test_a_discipline_is_compared_with_the_step_that_reaches_its_utilisation() -> None:
    steps = judge.staircase([setting("low", 0.8, 1.0, 1.2, 0.8), setting("high", 0.99, 10.0, 11.0, 12.0)])
    at = judge.place(steps, setting("own", 0.9, 13.0, 14.0, 15.0), steps[1:])
    assert (at.against.line, at.is_beyond) == ("high", False)
    assert at.below is not None
    assert at.below.line == "low"
    assert at.excess is not None
    assert (at.excess.value, at.excess.half_width) == (3.0, 0.0), "the pairs all differ by 3 ms, the seeds by more"
    assert at.ratio == pytest.approx(14 / 11)
    assert at.most_ratio == pytest.approx(14.0)


def test_a_utilisation_that_no_fixed_setting_reaches_is_beyond_the_frontier() -> None:
    steps = judge.staircase(FOUR)
    at = judge.place(steps, setting("own", 1.0, 15.0), steps)
    assert (at.is_beyond, at.against.line) == (True, "high")
    assert at.excess is not None
    assert (at.excess.value, at.excess.half_width) == (-5.0, None), "one seed has no interval"


def test_a_fifo_of_few_packets_is_not_on_the_frontier_of_settings_with_flow_queues() -> None:
    one = point_of("8 reno", 1_000_000, 0.01, 11)
    found = grid.play([one], ["fq_codel"], RunsInMemory, world=Simulator(), executor=Cores(1), seeds=1)
    (at,) = found.judged[0].placed
    assert at.against.line.startswith("pfifo")
    assert at.fq.line.split()[0] in judge.FLOW_QUEUES
    assert at.against.x < at.fq.x
    assert at.fq_ratio < at.ratio


def judged(name: str, usual: float, *placed: Placed) -> Judged:
    return Judged(point(name=name), (), (), placed, setting("fq_codel", usual, 1.0), "")


def test_the_summary_has_the_geometric_mean_and_names_the_points_that_are_far() -> None:
    steps = judge.staircase([setting("low", 0.8, 1.0, 1.0, 1.0), setting("high", 0.99, 4.0, 4.0, 4.0)])
    near = judge.place(steps, setting("own", 0.98, 2.0, 2.0, 2.0), steps)
    far = judge.place(steps, setting("own", 0.97, 8.0, 8.0, 8.0), steps)
    unsure = judge.place(steps, setting("own", 0.95, 0.0, 8.0, 16.0), steps)
    found = grid.summary([judged("a", 0.9, near), judged("b", 0.98, far), judged("c", 0.9, unsure)], "own")
    assert found is not None
    assert found.ratio == pytest.approx((0.5 * 2 * 2) ** (1 / 3))
    assert found.most_ratio == pytest.approx(4 * found.ratio)
    assert (found.far, found.surely_far) == (("b", "c"), ("b",))
    assert (found.least_gain, found.least_gain_at) == (pytest.approx(-0.01), "b")
    assert grid.summary([judged("a", 0.9, near)], "other") is None


# ---- a point ----


def test_flows_are_congestion_controls_with_their_numbers() -> None:
    assert read_flows("cubic") == (("cubic", 1),)
    assert read_flows("4 reno, bbr , 2 Reno") == (("reno", 6), ("bbr", 1))
    for text in ("", "4", "0 reno", "reno 4", "cubic;reno", "-1 reno"):
        with pytest.raises(Refusal, match=r"--flows = .*: expected congestion controls"):
            read_flows(text)


def test_a_run_lasts_eight_cycles_of_the_slowest_congestion_control() -> None:
    """Reno comes back after a BDP of round trips, CUBIC after K = ∛(W (1 - β) / C) (RFC 9438 §4.2)."""
    assert cycle_s((("reno", 1),), 12_112_000, 0.1) == pytest.approx(100 * 0.1)
    assert cycle_s((("reno", 10),), 12_112_000, 0.1) == pytest.approx(10 * 0.1)
    assert cycle_s((("cubic", 1),), 12_112_000, 0.1) == pytest.approx(75 ** (1 / 3))
    assert cycle_s((("cubic", 1), ("reno", 1)), 12_112_000, 0.1) == pytest.approx(50 * 0.1)
    assert cycle_s((("bbr", 1),), 12_112_000, 0.1) == 10
    assert duration_of((("reno", 1),), 12_112_000, 0.1) == 90
    assert duration_of((("reno", 1),), 1_000_000, 0.01) == 60
    assert duration_of((("reno", 1),), 100_000_000, 0.3) == 400
    assert point("reno", 100, 300).cycles < 1


@pytest.mark.parametrize(
    "one",
    [point(), point("4 reno", 10, 300), point("64 reno", 0.5, 5), point("64 cubic", 500, 600), point("bbr", 0.1, 0.1)],
)
def test_fixed_settings_are_distinct_lines_that_can_be_played(one: Point) -> None:
    lines = fixed_settings(one)
    assert lines[0] == "fq_codel"
    assert len(lines) == len(set(lines))
    assert {line.split()[0] for line in lines} == {"fq_codel", "fq", "pfifo"}
    assert 25 <= len(lines) <= 40
    every = list(dict.fromkeys([*lines, *DEFAULT]))
    assert len(plan_of(one, every, seeds=2)) == 2 * len(every)


def test_the_targets_reach_from_a_hundredth_of_the_rtt_to_the_rtt() -> None:
    lines = fixed_settings(point("cubic", 100, 200))
    assert "fq_codel target 2ms interval 200ms" in lines
    assert "fq_codel target 200ms interval 200ms" in lines
    assert "fq_codel target 200ms interval 400ms" in lines
    assert "fq_codel target 200ms" in lines, "the interval of 100 ms is Linux's default"
    assert "fq limit 10000 flow_limit 1651" in lines, "a BDP of packets"


def test_a_limit_of_fq_codel_does_not_bind_where_the_bdp_is_large() -> None:
    lines = fixed_settings(point("64 cubic", 500, 600))
    limited = [line for line in lines if line.startswith("fq_codel") and line != "fq_codel"]
    assert all("limit 99076 memory_limit 228271104" in line for line in limited)


# ---- the command ----


def test_a_tiny_point_has_its_frontier_and_every_discipline(sojourn: Run, tmp_path: Path) -> None:
    words = ("frontier", "fq_codel", "pfifo limit 40", *TINY, "--store", tmp_path / "store")
    text = sojourn(*words, "--out", tmp_path / "out", "-f", "svg")
    assert "against the frontier" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 100
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"frontier.svg", "frontier.csv"}

    said = json.loads(sojourn(*words, "-f", "json").stdout)
    (one,) = said["points"]
    assert (one["flows"], one["rate_mbit"], one["rtt_ms"], one["duration_s"]) == ("2 reno", 2, 20, 12)
    assert [at["qdisc"] for at in one["placed"]] == ["fq_codel", "pfifo limit 40"]
    deep = one["placed"][1]
    assert deep["utilisation"]["mean"] == pytest.approx(1, abs=0.01)
    assert deep["excess_ms"]["mean"] > 50, "a buffer of 12 BDP keeps a standing queue"
    least = min(
        own["sojourn_ms"]["mean"]["mean"]
        for own in one["fixed"]
        if own["utilisation"]["mean"] >= deep["utilisation"]["mean"] - judge.TOLERANCE
    )
    assert deep["frontier"]["ms"] == least
    assert said["summary"][1]["times_frontier"] == pytest.approx(deep["sojourn_ms"]["mean"]["mean"] / least)

    again = sojourn(*words, "-f", "csv")
    assert "0 of them played now" in again.stderr
    rows = list(csv.DictReader(io.StringIO(again.stdout)))
    assert {row["role"] for row in rows} == {"fixed", "frontier", "placed"}
    assert len(rows) == len(one["fixed"]) + 2
    assert all(math.isfinite(float(row["utilisation"])) for row in rows)


def test_a_grid_has_a_row_for_each_point_and_a_summary(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    one = 'flows = "reno"\nrate = "1mbit"\nrtt = "10ms"\nduration = "11s"\n'
    file.write_text(f'[[point]]\n{one}[[point]]\nname = "again"\n{one.replace("10ms", "30ms")}')
    words = ("frontier", "fq_codel", "--grid", file, "--seeds", "1", "--store", tmp_path / "store")
    text = sojourn(*words, "--out", tmp_path / "out").stdout
    assert "1: reno, 1 Mbit/s, 10 ms" in text
    assert "again: reno, 1 Mbit/s, 30 ms" in text
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"grid.png", "grid.csv"}
    said = json.loads(sojourn(*words, "-f", "json").stdout)
    assert [one["name"] for one in said["points"]] == ["1", "again"]
    assert said["summary"][0]["points"] == 2
    assert said["summary"][0]["least_utilisation_gain"] == 0


class Picky(Simulator):
    """A world that cannot play some disciplines."""

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        return "no PIE here" if "pie" in plan.runs[index]["set"][KEY] else super().refusal(plan, index)


def test_a_discipline_that_the_world_cannot_play_is_named_and_the_others_are_placed() -> None:
    one = point_of("reno", 1_000_000, 0.01, 11)
    found = grid.play([one], ["pie", "pfifo"], RunsInMemory, world=Picky(), executor=Cores(1), seeds=2)
    assert found.skipped == [("", "pie", "no PIE here")]
    assert [at.setting.line for at in found.judged[0].placed] == ["pfifo"]
    assert tables.utilisations(found)[1][0][1] == "–", "the table says that it has no number"


def test_settings_that_are_known_are_not_played_again() -> None:
    one = point_of("reno", 1_000_000, 0.01, 11, "a")
    how: Any = {"world": Simulator(), "executor": Cores(1), "seeds": 2}
    first = grid.play([one], ["pfifo"], RunsInMemory, **how)
    known = [*first.judged[0].fixed, *(at.setting for at in first.judged[0].placed)]
    again = grid.play([one], ["pfifo", "codel"], RunsInMemory, **how, known={"a": known})
    assert again.count == 2, "two seeds of codel"
    assert again.judged[0].steps == first.judged[0].steps
    assert again.judged[0].placed[0].ratio == first.judged[0].placed[0].ratio


def test_seeds_are_paired_where_a_discipline_lacks_one() -> None:
    steps = judge.staircase([setting("low", 0.9, 1.0, 5.0, 9.0)])
    own = setting("own", 0.9, 2.0, math.nan, 10.0)
    excess = judge.place(steps, own, steps).excess
    assert excess is not None
    assert (excess.value, excess.count) == (1.0, 2)
    assert own.x == 6.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--rate: missing: expected a point, such as --rate 100mbit --rtt 50ms --flows cubic, or --grid FILE"),
        (("--rate", "fast", *TINY[2:]), "--rate = fast: expected a rate from 64kbit to 10gbit"),
        (("--rate", "1mbit", "--rtt", "20s", "--flows", "reno"), "--rtt = 20s: expected a time from 0.0001 s to 10 s"),
        ((*TINY[:4], "--flows", "4"), "--flows = '4': expected congestion controls"),
        ((*TINY[:4], "--flows", "renno"), 'did you mean "reno"?'),
        ((*TINY, "--duration", "5s"), "--duration = 5s: expected a time from 11 s to 3600 s"),
        (("fq_codl", *TINY), 'did you mean "fq_codel"?'),
        ((*TINY, "--grid", "GRID"), "--rate describes a point: expected either --grid, or --rate, --rtt and --flows"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_played(
    sojourn: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "grid.toml").write_text('[[point]]\nflows = "reno"\nrate = "1mbit"\nrtt = "10ms"\n')
    given = [str(tmp_path / "grid.toml") if word == "GRID" else word for word in words]
    done = sojourn("frontier", *given, "--store", tmp_path / "store", code=2)
    assert said in done.stderr
    assert not (tmp_path / "store").exists()


GOOD = 'flows = "reno"\nrate = "1mbit"\nrtt = "10ms"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected tables [[point]] and nothing else"),
        ("point = 3", "expected tables [[point]] and nothing else"),
        ("[[point]", "Expected"),
        (f"[[point]]\n{GOOD}rat = '1mbit'", "point 1: rat: no such key: expected one of name, flows, rate, rtt"),
        ('[[point]]\nname = "x"\nflows = "reno"\nrate = "1mbit"', "point x: rtt: missing"),
        (f"[[point]]\n{GOOD}duration = 60", "point 1: duration = 60: expected a text"),
        (f"[[point]]\n{GOOD.replace('10ms', 'soon')}", "point 1: rtt = soon: expected a time"),
        (f"[[point]]\nname = '2'\n{GOOD}[[point]]\n{GOOD}", "point 2: two points have this name"),
    ],
)
def test_a_wrong_grid_is_refused_by_its_point_and_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    with pytest.raises(Refusal) as refused:
        grid.read_grid(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
