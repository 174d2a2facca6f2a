"""`sojourn rfc7928`: the rows of the RFC, the judgement against tail drop, and the pictures."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import own
from conftest import Run
from sojourn import _core, means, rfc7928, words
from sojourn.errors import Refusal
from sojourn.executors import Cores
from sojourn.rfc7928 import judge, sampled, suite, tables
from sojourn.rfc7928.observed import ALL, Seen
from sojourn.rfc7928.pictures import ellipse
from sojourn.rfc7928.suite import BY_NAME, DEFAULT, ROWS, Row
from sojourn.store import Store
from sojourn.worlds import Simulator

NEVER = "codel target 100s"
"""A CoDel whose control law never drops."""

# ---- rows ----


def test_the_rows_are_those_of_figure_4_and_of_the_sections_with_scenarios() -> None:
    needs: dict[str, set[str]] = {}
    for row in ROWS:
        needs.setdefault(row.need, set()).add(row.name)
    assert needs == {
        "must": {
            "4.5", "5.1.1", "5.1.2", "5.2", "5.3 I", "5.3 II", "6.2", "7.2", "8.2.2", "8.2.3", "8.2.4", "8.2.5",
            "8.2.6 I", "8.2.6 II",
        },
        "should": {"4.4", "4.6", "8.3"},
        "recommended": {"9.1"},
        "may": {"5.4", "9.2", "10.2"},
    }  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_played_by_every_default_discipline_with_the_same_buffer_for_all(row: Row) -> None:
    lines = suite.disciplines([])
    for asked in suite.asked(row, lines, seeds=2):
        assert not asked.plan.skipped
        cases: dict[str, set[int]] = {}
        hop = asked.key.removeprefix("hop.").removesuffix(".qdisc")
        buffers: dict[str, set[int]] = {}
        for index, run in enumerate(asked.plan.runs):
            case = asked.case(run["set"])
            cases.setdefault(case, set()).add(asked.place(run["set"]))
            line = next(one["qdisc"] for one in asked.plan.describe(index)["hops"] if one["name"] == hop)
            buffers.setdefault(case, set()).add(_packets(line))
        assert all(places == set(range(len(lines))) for places in cases.values()), "each case has each discipline"
        assert all(max(found) - min(found) <= 1 for found in buffers.values()), buffers
        assert not row.cases or set(cases) == set(row.cases)


def _packets(line: str) -> int:
    """The full packets that fit into a discipline's limit."""
    read = _core.qdisc(line)
    per = {"red": 1514, "cake": 2344}.get(read["kind"], 1)
    return round(read["values"]["memlimit" if read["kind"] == "cake" else "limit"] / per)


def test_the_congestion_levels_have_as_many_flows_as_section_8_2_says() -> None:
    for name, factor in (("8.2.2", 0.036), ("8.2.3", 0.081), ("8.2.4", 0.114)):
        (asked,) = suite.asked(BY_NAME[name], ["pfifo"], seeds=1)
        about = asked.plan.describe(0)
        bdp = 10e6 * 0.1 / 8 / 1514
        (limit,) = (_packets(hop["qdisc"]) for hop in about["hops"] if hop["name"] == "bottleneck")
        assert len(about["flows"]) == round(factor * (bdp + limit))


def test_rows_are_chosen_by_section_and_a_section_has_all_below_it() -> None:
    names = [row.name for row in suite.chosen("8.2, 5.3 I,7.2")]
    assert names == ["5.3 I", "7.2", "8.2.2", "8.2.3", "8.2.4", "8.2.5", "8.2.6 I", "8.2.6 II"]
    assert suite.chosen(None) == list(ROWS)
    with pytest.raises(Refusal, match=r"--rows: '5\.9': expected one of 4\.4"):
        suite.chosen("5.9")


def test_tail_drop_is_always_first_and_a_line_comes_once() -> None:
    assert suite.disciplines([]) == list(DEFAULT)
    assert suite.disciplines(["codel", "codel  target 20ms", "codel"]) == ["pfifo", "codel", "codel target 20ms"]
    assert suite.disciplines(["codel", "pfifo limit 50"]) == ["pfifo limit 50", "codel"]
    assert suite.names(["pfifo", "codel", "codel target 20ms"]) == ["pfifo", "codel", "codel target 20ms"]
    with pytest.raises(Refusal, match=r'^codl: "codl": unknown queue discipline'):
        suite.disciplines(["codl"])


def test_lines_get_a_buffer_marks_and_another_parameter() -> None:
    assert suite.buffered("codel target 5ms", 1.0) == "codel target 5ms limit 1bdp"
    assert suite.buffered("pie limit 50", 1.0) == "pie limit 50"
    assert suite.buffered("cake", 2.0) == "cake memlimit 3.096bdp"
    assert suite.marking("codel") == "codel ecn"
    assert [suite.marking(line) for line in ("codel noecn", "pfifo", "cake", "red")] == [
        "codel noecn", "pfifo", "cake", "red ecn",
    ]  # fmt: skip
    assert suite.tuned("codel", 4.0, 1.0) == "codel target 20000us"
    assert suite.tuned("pie target 10ms", 0.5, 1.0) == "pie target 5000us"
    assert suite.tuned("red", 2.0, 1.0) == "red min 0.1667bdp max 0.5bdp"
    assert suite.tuned("ccaq variant paper", 0.25, 1.0) == "ccaq variant paper flow_limit 25"
    assert suite.tuned("ccaq", 0.25, 1.0) == "ccaq idle 4.00%"
    assert suite.tuned("pfifo", 4.0, 1.0) == "pfifo"
    assert suite.tuned("codel", 1.0, 1.0) == "codel"


# ---- judgement ----


def seen(place: int, seed: int, *, delay: float, goodput: float = 5.0) -> Seen:
    return Seen(place, "", seed, "bulk", "bulk", {"delay": delay, "goodput": goodput}, ((delay, goodput),))


ROW = BY_NAME["5.1.1"]


def test_a_ratio_is_paired_by_seed() -> None:
    """Delays differ much from seed to seed, but the discipline always has half of that of tail drop."""
    delays = [10.0, 40.0, 160.0]
    found = [seen(0, seed, delay=delay) for seed, delay in enumerate(delays)]
    found += [seen(1, seed, delay=delay * (0.49 + 0.01 * seed)) for seed, delay in enumerate(delays)]
    (one,) = judge.judge(ROW, found, [1])
    ratio = one.ratios["delay"]
    assert ratio.value == pytest.approx((0.49 * 0.5 * 0.51) ** (1 / 3))
    assert ratio.low is not None
    assert ratio.high is not None
    assert 0.45 < ratio.low < 0.5 < ratio.high < 0.55
    assert (ratio.better, ratio.worse, one.verdict) == (True, False, "better")


@pytest.mark.parametrize(
    ("delay", "goodput", "verdict"),
    [(1.0, 1.0, "same"), (0.5, 1.0, "better"), (0.5, 0.8, "trade"), (1.0, 0.8, "worse"), (0.97, 1.03, "same")],
)
def test_a_verdict_is_over_all_measures_and_small_differences_do_not_count(
    delay: float, goodput: float, verdict: str
) -> None:
    tail = [seen(0, seed, delay=100 + seed) for seed in range(4)]
    own = [seen(1, seed, delay=(100 + seed) * delay, goodput=5 * goodput) for seed in range(4)]
    (one,) = judge.judge(ROW, tail + own, [1])
    assert one.verdict == verdict


def test_what_seeds_do_not_show_is_open_with_the_seeds_that_would_decide() -> None:
    tail = [seen(0, seed, delay=100) for seed in range(4)]
    own = [seen(1, seed, delay=delay) for seed, delay in enumerate((20, 90, 110, 180))]
    (one,) = judge.judge(ROW, tail + own, [1])
    assert one.ratios["delay"].value < 0.95
    assert not one.ratios["delay"].same
    assert (one.verdict, tables._verdict_text(one)) == ("open", f"open {one.needs}")
    assert 4 < (one.needs or 0) < means.MOST_SEEDS
    near = [seen(1, seed, delay=delay) for seed, delay in enumerate((99.0, 101.0, 100.5, 99.5))]
    (one,) = judge.judge(ROW, tail + near, [1])
    assert (one.verdict, one.needs) == ("same", None)
    (one,) = judge.judge(ROW, [tail[0], own[0]], [1])
    assert one.verdict == "open"


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1e3), st.floats(0.001, 1e3)), min_size=2, max_size=12))
def test_a_discipline_that_does_the_same_as_tail_drop_is_the_same(numbers: list[tuple[float, float]]) -> None:
    found = [
        seen(place, seed, delay=delay, goodput=goodput)
        for place in (0, 1)
        for seed, (delay, goodput) in enumerate(numbers)
    ]
    (one,) = judge.judge(ROW, found, [1])
    assert one.verdict == "same"
    assert all(ratio.value == 1 for ratio in one.ratios.values())


def test_cumulated_goodput_is_that_of_the_run_and_else_each_class_counts() -> None:
    whole = [Seen(place, "", seed, ALL, "", {"goodput": 8.0}) for place in (0, 1) for seed in range(3)]
    own = [seen(place, seed, delay=9, goodput=5.0 + place) for place in (0, 1) for seed in range(3)]
    (one,) = judge.judge(BY_NAME["8.2.2"], whole + own, [1])
    assert one.ratios["goodput"].value == 1
    (one,) = judge.judge(ROW, whole + own, [1])
    assert one.ratios["goodput"].value == pytest.approx(1.2)


# ---- pictures and samples ----


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 10)), min_size=3, max_size=30), st.floats(0.5, 3))
def test_an_ellipse_is_the_contour_of_the_gaussian_of_maximum_likelihood(
    points: list[tuple[float, float]], sigmas: float
) -> None:
    """Each of its points has the Mahalanobis distance `sigmas` from the mean, with the covariance over n."""
    array = np.array(points)
    covariance = np.cov(array.T, bias=True)
    if np.linalg.cond(covariance) > 1e8:
        return
    apart = ellipse(array, sigmas) - array.mean(axis=0)
    distance = np.sqrt(np.einsum("ij,jk,ik->i", apart, np.linalg.inv(covariance), apart))
    assert distance == pytest.approx(np.full(len(distance), sigmas), rel=1e-3)


def test_goodput_is_sampled_in_whole_spans() -> None:
    columns = {"time_s": np.arange(25) / 10, "acked_bytes": np.full(25, 12_500)}
    ends, mbit = sampled.spanned(columns, 1.0)
    assert ends.tolist() == [1.0, 2.0], "half a span is left out"
    assert mbit == pytest.approx([1.0, 1.0])


# ---- the command ----


def evaluate(sojourn: Run, *args: str) -> str:
    return sojourn("rfc7928", *args).stdout


def test_a_codel_that_never_drops_is_found_to_be_like_tail_drop(sojourn: Run, tmp_path: Path) -> None:
    """With the same command, CoDel's delay is much shorter than that of tail drop."""
    store = str(tmp_path / "store")
    out = json.loads(
        evaluate(sojourn, "codel", NEVER, "--rows", "5.1.1,8.2.2", "--seeds", "3", "--store", store, "-f", "json")
    )
    for row in out["rows"]:
        broken, sound = row["disciplines"][NEVER], row["disciplines"]["codel"]
        assert broken["verdict"] == "same"
        assert broken["ratios"]["delay"]["value"] == pytest.approx(1, abs=0.02)
        assert sound["ratios"]["delay"]["better"]
        assert sound["ratios"]["delay"]["high"] < 0.3
    assert out["headline"].startswith("codel has a shorter queuing delay than tail drop in most rows.")
    assert f"The queuing delay of {NEVER} is not shorter in most rows: bufferbloat." in out["headline"]
    assert not out["profiles"][NEVER]["controls_delay"]
    assert out["versions"]["sojourn"] == _core.__version__


def test_a_library_is_evaluated_and_a_wrong_or_broken_one_is_found(sojourn: Run, tmp_path: Path) -> None:
    """A CoDel in C is as good as ours. One that never drops is like tail drop; one that crashes loses its own runs."""
    own.library(tmp_path)
    crash = own.library(tmp_path, "crash", "q->mtu = mtu;", "q->mtu = mtu; q->ring = 0; return q;")
    asked = ("mine limit 83", "mine limit 83 target 100000ms", "codel", "--rows", "5.1.1", "--seeds", "3")
    words = (*asked, "--library", str(tmp_path / "mine.so"), "--store", str(tmp_path / "store"), "-f", "json")
    (row,) = json.loads(evaluate(sojourn, *words))["rows"]
    good, wrong, ours = (row["disciplines"][name] for name in ("mine limit 83", asked[1], "codel"))
    assert good["ratios"]["delay"]["value"] == pytest.approx(ours["ratios"]["delay"]["value"], rel=0.1)
    assert wrong["verdict"] == "same"
    failed = sojourn("rfc7928", "crash", "codel", *words[3:7], "--library", str(crash), *words[9:], code=2)
    assert "crash.so" in failed.stderr
    assert "ended by a discipline of yours; the other runs are kept" in failed.stderr
    (row,) = json.loads(failed.stdout)["rows"]
    assert row["disciplines"]["codel"]["ratios"]["delay"]["better"]


def test_runs_are_kept_and_every_form_shows_them(sojourn: Run, tmp_path: Path) -> None:
    args = ("codel", "--rows", "5.1.2,8.2.6 II", "--seeds", "2", "--store", str(tmp_path / "store"))
    first = sojourn("rfc7928", *args, "--out", str(tmp_path / "out"))
    assert "16 runs, 16 of them played now" in first.stderr
    assert max(map(len, first.stdout.splitlines())) <= 100
    assert "against tail drop" in first.stdout
    again = sojourn("rfc7928", *args, "-f", "csv")
    assert "16 runs, 0 of them played now" in again.stderr
    rows = list(csv.DictReader(io.StringIO(again.stdout)))
    assert [(row["row"], row["discipline"]) for row in rows] == [("5.1.2", "codel"), ("8.2.6 II", "codel")]
    assert float(rows[0]["delay_ratio_low"]) < float(rows[0]["delay_ratio"]) < float(rows[0]["delay_ratio_high"]) < 1
    assert rows[1]["completion_ratio"] == "", "bulk flows have no completion time"
    page = (tmp_path / "out/rfc7928.html").read_text()
    pictures = tmp_path / "out/pictures"
    for name in ("matrix", "profiles", "row-5.1.2-trade-off", "row-5.1.2-distributions", "row-8.2.6-ii-over-time"):
        assert f'src="pictures/{name}.png"' in page
        assert (pictures / f"{name}.png").stat().st_size > 10_000
    drawn = list(csv.DictReader(io.StringIO((pictures / "row-5.1.2-trade-off.csv").read_text())))
    assert {row["class"] for row in drawn} == {"bulk", "short"}
    assert {row["discipline"] for row in drawn} == {"pfifo", "codel"}
    runs = list(csv.DictReader(io.StringIO((tmp_path / "out/runs.csv").read_text())))
    measured = {(row["case"], row["discipline"], row["class"]): row for row in runs}
    short = measured["IW 3", "codel", "short"]
    assert 0.1 < float(short["startup"]) < float(short["completion"]) < 3
    assert float(measured["IW 3", "pfifo", "bulk"]["loss_gap"]) > 0
    whole = measured["10 to 50 s", "codel", ""]
    assert 0.1 <= float(whole["synchronisation"]) <= 1, "between one of ten flows and all of them"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("codl",), "codl"),
        (("--rows", "5.9"), "--rows: '5.9': expected one of 4.4"),
        (("--buffer", "0"), "--buffer = 0.0: expected a number of BDP from 0.01 to 100"),
        (("--out", __file__), "this is a file: expected a folder"),
    ],
)
def test_bad_input_ends_with_2_and_plays_nothing(
    sojourn: Run, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    done = sojourn("rfc7928", *args, "--store", str(tmp_path / "store"), code=2)
    assert message in done.stderr
    assert not (tmp_path / "store").exists()


def evaluated(*delays: tuple[float, ...]) -> judge.Evaluation:
    """An evaluation of one row, in which tail drop and each discipline have these delays, seed by seed."""
    found = [seen(place, at, delay=delay) for place, of in enumerate(delays) for at, delay in enumerate(of)]
    names = ("pfifo", "codel", "pie", "red")[: len(delays)]
    return judge.Evaluation((ROW,), names, names, "sim", 1.0, len(delays[0]), {ROW.name: found}, {})


def test_a_tie_is_not_said_to_be_the_most_of_all() -> None:
    tail, short, long = (100.0, 101.0), (10.0, 10.1), (100.0, 101.0)
    tie = judge.headline(evaluated(tail, short, short))
    assert "codel and pie are each better in 1 of 1 row without being worse in anything." in tie
    assert "the most of all" not in tie
    alone = judge.headline(evaluated(tail, short, long))
    assert "codel is better in 1 of 1 row without being worse in anything, the most of all." in alone
    two = judge.headline(evaluated(tail, short, short, long))
    assert "codel and pie are each better in 1 of 1 row without being worse in anything, the others in fewer." in two
    only = judge.headline(evaluated(tail, short))
    assert only.endswith("codel is better in 1 of 1 row without being worse in anything.")


def test_the_headline_says_how_many_verdicts_are_open_and_which_seeds_would_decide() -> None:
    said = judge.headline(evaluated((100.0, 100.0, 100.0, 100.0), (20.0, 90.0, 110.0, 180.0)))
    assert re.search(r"1 of 1 verdict is open: about --seeds \d+ would decide it\.", said)


def test_a_limit_that_does_not_grow_with_the_row_is_warned_about() -> None:
    assert suite.fixed_limits(["codel", "fq_codel limit 1bdp", "mine limit 0.5bdp"], 1.0) == []
    (said,) = suite.fixed_limits(["mine limit 83"], 1.0)
    assert said.startswith("mine limit 83: limit 83 is the same in every row")
    assert said.endswith("write limit 1bdp to compare like with like")


def test_a_page_with_pdf_pictures_shows_png(sojourn: Run, tmp_path: Path) -> None:
    words = ("codel", "--rows", "5.1.1", "--seeds", "2", "--store", tmp_path / "store", "--out", tmp_path / "out")
    sojourn("rfc7928", *words, "-f", "text", "-f", "pdf")
    page = (tmp_path / "out/rfc7928.html").read_text()
    shown = re.findall(r'<img[^>]* src="([^"]*)"', page)
    assert shown
    for name in shown:
        file = tmp_path / "out" / name
        assert file.read_bytes().startswith(b"\x89PNG"), "browsers show no PDF as an image"
        assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_ratio_has_its_interval_its_mark_and_two_digits() -> None:
    from sojourn.rfc7928.tables import ratio_text

    assert ratio_text(None) == words.NOTHING
    assert ratio_text(judge.Ratio(0.0634, 0.06, 0.07, 3, True, False)) == "6.3 ±0.5+"
    assert ratio_text(judge.Ratio(1.184, 1.1, 1.3, 3, False, True)) == "118 ±10-"
    assert ratio_text(judge.Ratio(1.184, None, None, 1, False, False)) == "118 "
    assert math.isclose(judge.MARGIN, 0.05)


class _Interrupting(Cores):
    """An executor during which Ctrl-C comes before anything has been played."""

    def each(self, todo: Any, work: Any, tell: Any) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield


def test_after_ctrl_c_the_same_evaluation_goes_on_where_it_was(tmp_path: Path) -> None:
    store, lines = Store(tmp_path / "store"), ["pfifo", "codel"]
    done = rfc7928.evaluate([ROW], lines, store, world=Simulator(), executor=Cores(1), seeds=2)
    assert (done.runs, done.played) == (4, 4)
    rows = [ROW, BY_NAME["5.2"]]
    with pytest.raises(rfc7928.Interrupted):
        rfc7928.evaluate(rows, lines, store, world=Simulator(), executor=_Interrupting(1), seeds=2)
    done = rfc7928.evaluate(rows, lines, store, world=Simulator(), executor=Cores(1), seeds=2)
    assert (done.runs, done.played) == (8, 4), "the first row is not played again"


def test_the_headline_names_the_goodput_that_a_shorter_delay_costs(sojourn: Run, tmp_path: Path) -> None:
    words = ("fq_codel", "--rows", "5.1.1", "--seeds", "2", "--store", str(tmp_path / "store"), "-f", "json")
    out = json.loads(evaluate(sojourn, *words))
    assert out["rows"][0]["disciplines"]["fq_codel"]["verdict"] == "trade"
    assert "At a price: fq_codel has less goodput in most rows." in out["headline"]
