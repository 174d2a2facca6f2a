"""`sojourn agree`: its verdicts on two worlds with a known difference, and continuation after an interruption."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Run as Command
from conftest import kernel_or_skip
from sojourn import _core
from sojourn.agree import Comparison, page
from sojourn.agree.judge import BY_NAME, SHARES, Pair, Run, rankings, summaries
from sojourn.plan import load
from sojourn.worlds import Simulator


def run(world: str, seed: int, *, goodput: float = 10.0, sojourn: float = 5.0, drops: int = 100) -> Run:
    times = {"mean": sojourn, "p50": sojourn, "p75": sojourn, "p95": 2 * sojourn, "p99": 3 * sojourn, "max": 9.0}
    hop = {"utilisation": 0.9, "sojourn_ms": times, "queue_delay_ms": times, "drops": drops, "marks": 0}
    flow = {"goodput_mbit": goodput, "retransmits": drops, "fct_s": None, "completed": 0}
    result: dict[str, Any] = {"hops": {"b": hop}, "flows": [flow], "seed": seed, "set": {}}
    return Run(world, seed, result, {"b": [sojourn] * len(SHARES)}, {"b": "codel"})


def pair(sim: list[Run], kernel: list[Run], qdisc: str = "codel", file: str = "a") -> Pair:
    return Pair(file, qdisc, "b", qdisc, "t", {one.seed: one for one in sim}, {one.seed: one for one in kernel})


def seeds(world: str, values: list[float]) -> list[Run]:
    return [run(world, seed, sojourn=value) for seed, value in enumerate(values, 1)]


def test_a_difference_is_the_mean_of_those_seed_by_seed_in_shares_of_the_kernel() -> None:
    one = pair(seeds("sim", [5.5, 6.5]), seeds("kernel", [5.0, 7.0])).difference(BY_NAME["mean"])
    assert one is not None
    assert (one.sim, one.kernel) == (6.0, 6.0)
    assert one.value == pytest.approx(0.0)
    # Student's t with one degree of freedom: 12.706 times the standard error of ±0.5/6.
    assert one.half_width == pytest.approx(12.7062 * (0.5 / 6), rel=1e-4)


def test_utilisation_is_compared_in_points() -> None:
    one = pair([run("sim", 1)], [run("kernel", 1)]).difference(BY_NAME["utilisation"])
    assert one is not None
    assert one.sim == pytest.approx(90)
    assert one.value == 0


def known(world: str) -> list[Run]:
    """Three seeds with equal mean sojourns and different distributions."""
    runs = seeds(world, [5.0, 5.0, 5.0])
    return [replace(one, quantiles={"b": [5.0 + one.seed] * len(SHARES)}) for one in runs]


def test_copies_of_one_run_carry_no_interval() -> None:
    one = pair(seeds("sim", [5.0, 5.0]), seeds("kernel", [5.0, 5.0])).difference(BY_NAME["mean"])
    assert one is not None
    assert (one.half_width, one.verdict) == (None, "open")


def test_where_all_disciplines_are_equal_there_is_no_order() -> None:
    group = [pair(seeds("sim", [5.0, 6.0]), seeds("kernel", [5.0, 6.0]), name) for name in ("a", "b", "c")]
    assert [one.tau for one in rankings(group)] == [None, None]


def test_only_seeds_that_all_disciplines_have_are_ranked() -> None:
    group = [
        pair(seeds("sim", values), seeds("kernel", values), name)
        for name, values in (("a", [1.0, 9.0, 9.0]), ("b", [2.0, 10.0, 10.5]), ("c", [3.0, 11.5, 11.0]))
    ]
    short = replace(group[1], sim={2: group[1].sim[2]}, kernel={2: group[1].kernel[2]})
    assert rankings([group[0], short, group[2]])[0].tau == 1.0


@pytest.mark.parametrize(
    ("sim", "verdict"),
    [
        ([5.1, 5.12, 5.11], "agrees"),
        # Within ±8 % by its 90 % interval, but not by its 95 % interval.
        ([5.176, 5.25, 5.324], "agrees"),
        ([6.0, 6.02, 6.01], "differs"),
        ([4.0, 6.5, 5.2], "open"),
    ],
)
def test_equivalence_is_shown_refuted_or_left_open(sim: list[float], verdict: str) -> None:
    one = pair(seeds("sim", sim), known("kernel")).difference(BY_NAME["mean"])
    assert one is not None
    assert one.verdict == verdict


def test_one_seed_shows_nothing() -> None:
    one = pair(seeds("sim", [5.0]), seeds("kernel", [5.0])).difference(BY_NAME["mean"])
    assert one is not None
    assert (one.half_width, one.verdict) == (None, "open")


def test_what_neither_world_has_is_not_counted_as_agreement() -> None:
    none = pair([run("sim", 1, drops=0)], [run("kernel", 1, drops=0)])
    assert none.difference(BY_NAME["drops"]) is None
    assert none.difference(BY_NAME["marks"]) is None
    assert none.difference(BY_NAME["fct"]) is None


def test_a_few_drops_are_measured_against_ten() -> None:
    one = pair([run("sim", 1, drops=3)], [run("kernel", 1, drops=1)]).difference(BY_NAME["drops"])
    assert one is not None
    assert one.value == pytest.approx(0.2)


def test_the_distance_is_the_area_between_the_distributions_over_the_kernels_mean() -> None:
    one = pair(seeds("sim", [6.0, 6.0]), seeds("kernel", [5.0, 4.0]))
    assert one.distance() == pytest.approx(((1 + 2) / 2) / 4.5)
    assert one.own_distance() == pytest.approx(1 / 4.0)


def test_ranks_count_only_what_the_kernel_tells_apart() -> None:
    def discipline(name: str, sim: list[float], kernel: list[float]) -> Pair:
        return pair(seeds("sim", sim), seeds("kernel", kernel), name)

    group = [
        discipline("pfifo", [50, 51, 52], [60, 61, 62]),
        discipline("codel", [5, 6, 5], [5.0, 6.0, 5.5]),
        discipline("pie", [5.5, 6.1, 5.9], [5.2, 5.8, 5.5]),
    ]
    found = next(one for one in rankings(group) if one.measure == "p95")
    assert found.disciplines == 3
    assert found.clear == 2
    assert found.clear_tau == 1.0
    # In the kernel, codel is before pie with seeds 1 and 3, and after it with seed 2.
    assert found.itself == pytest.approx(1 / 3)
    swapped = [discipline("a", [1, 1, 1], [2, 2.1, 2]), discipline("b", [2, 2, 2], [1, 1.1, 1]), group[0]]
    assert rankings(swapped)[0].tau == pytest.approx(1 / 3)


def test_the_summary_takes_the_median_of_sizes_not_of_signs() -> None:
    group = [pair(seeds("sim", [value]), seeds("kernel", [5.0])) for value in (4.0, 6.0, 5.5)]
    found = next(one for one in summaries(group) if one.measure.name == "mean")
    assert found.median == pytest.approx(0.2)
    assert found.count == 3


def test_chance_is_what_two_sets_of_seeds_of_one_world_differ_by_in_the_median() -> None:
    draw = np.random.default_rng(7)
    sizes, chances = [], []
    for _ in range(2000):
        ours, theirs = draw.normal(50.0, 4.0, (2, 10)).tolist()
        one = pair(seeds("sim", ours), seeds("kernel", theirs)).difference(BY_NAME["mean"])
        assert one is not None
        assert one.chance is not None
        sizes.append(abs(one.value))
        chances.append(one.chance)
    # With a standard deviation of ten the median is 4 % too small; without the root of two it would be 30 %.
    assert np.median(sizes) == pytest.approx(np.median(chances), rel=0.15)
    single = pair(seeds("sim", [4.0]), seeds("kernel", [5.0])).difference(BY_NAME["mean"])
    assert single is not None
    assert single.chance is None


def test_provenance_says_which_have_fewer_seeds() -> None:
    three, two = (pair(seeds("sim", values), seeds("kernel", values)) for values in ([5.0, 6.0, 7.0], [5.0, 6.0]))
    for pairs, said in (([three, three], "seeds 1–3  "), ([three, two], "seeds 1–3 (1 of them fewer)  ")):
        assert said in page.provenance(Comparison(pairs, [], {"sojourn": "0"}))


def test_shares_rise_and_lie_inside() -> None:
    assert np.all(np.diff(SHARES) > 0)
    assert 0 < SHARES[0] < SHARES[-1] < 1


SCENARIO = """
title = "Short"
duration = "6s"
measure = ["1s", "end"]
[[hop]]
name = "b"
rate = "5mbit"
delay = "10ms"
qdisc = "codel"
[[flow]]
kind = "bulk"
cc = "cubic"
rtt = "40ms"
start = "uniform 0s..500ms"
"""


def test_both_worlds_are_played_once_and_read_again(tmp_path: Path, sojourn: Command) -> None:
    kernel_or_skip()
    file, store, out = tmp_path / "short.toml", tmp_path / "store", tmp_path / "out"
    file.write_text(SCENARIO)
    first = sojourn("agree", file, "--seeds", "2", "--store", store, "--out", out, "-f", "json")
    kept = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert len(kept) == 4
    said = json.loads(first.stdout)
    (one,) = said["pairs"]
    assert one["seeds"] == [1, 2]
    assert abs(one["differences"]["goodput"]["difference"]) < 0.1
    names = {"agree.html", "agree.json", "agree.csv"} | {
        f"{name}.{end}" for name in ("overview", "pair-000") for end in ("png", "csv")
    }
    assert {path.name for path in out.iterdir()} == names
    damaged = min(store.iterdir())
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    del kept[damaged.name]
    again = sojourn("agree", file, "--seeds", "2", "--store", store, "-f", "json")
    assert damaged.read_bytes() == whole, "played again"
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir() if path != damaged} == kept
    assert json.loads(again.stdout) == said


@pytest.mark.parametrize(("linux", "played"), [((6, 1), "fq limit 10000"), ((7, 3), "variant linux67")])
def test_the_simulator_decides_as_the_linux_that_it_is_compared_with(
    tmp_path: Path, linux: tuple[int, int], played: str
) -> None:
    file = tmp_path / "fq.toml"
    file.write_text(SCENARIO.replace("codel", "fq"))
    done = Simulator(linux=linux).play(load(file, (), None, None), 0, _core.Progress(), packets=False, series=False)
    assert done is not None
    hop = done.output.about()["hops"][0]
    assert hop["qdisc"].endswith(played)


def test_a_folder_without_scenarios_and_no_seeds_are_refused(tmp_path: Path, sojourn: Command) -> None:
    empty = sojourn("agree", tmp_path, code=2)
    assert empty.stdout == ""
    assert "expected scenario files" in empty.stderr
    none = sojourn("agree", tmp_path, "--seeds", "0", code=2)
    assert "--seeds" in none.stderr
