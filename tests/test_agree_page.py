"""The page of agreement: how sets of scenarios are compared."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from conftest import program
from sojourn.agree import Comparison
from sojourn.agree.judge import Pair, Run
from test_agree import run

SIZES = [0.01 * n * n for n in range(1, 31)]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return program("experiments/agree/agree_page.py")


def interval(said: str) -> tuple[float, float, float]:
    found = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", said)
    assert found, said
    ratio, low, high = map(float, found.groups())
    return ratio, low, high


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_times_is_the_ratio_of_the_medians_and_its_interval(page: ModuleType, factor: float) -> None:
    # One large value changes the mean, but not the median.
    ratio, low, high = interval(page.times([*(factor * size for size in SIZES), 0.0, 1000.0], SIZES))
    assert ratio == factor
    assert 0.2 * factor < low < factor < high < 5 * factor


def test_more_scenarios_narrow_it(page: ModuleType) -> None:
    _, low, high = interval(page.times(SIZES * 10, SIZES * 10))
    _, few_low, few_high = interval(page.times(SIZES, SIZES))
    assert few_low < low <= high < few_high


def test_a_shuffle_seldom_makes_what_is_clearly_larger_and_often_what_is_not(page: ModuleType) -> None:
    larger, equal = (int(page.shuffled([factor * size for size in SIZES], SIZES)[:-2]) for factor in (9, 1))
    assert larger <= 1
    assert equal > 40


@pytest.mark.parametrize(("held", "others"), [([], [1.0, 2.0]), ([1.0], [1.0, 2.0]), ([1.0, 2.0], [0.0, 0.0, 1.0])])
def test_where_there_is_no_ratio_none_is_said(page: ModuleType, held: list[float], others: list[float]) -> None:
    assert page.times(held, others) == "–"
    assert page.shuffled(held, others)[-1] in "–%"


def comparison(apart: dict[str, float], seeds: int, fade: float = 2.0) -> Comparison:
    """Scenarios whose goodputs are larger in the simulator by these factors, and by a part of them from seed 11 on."""

    def runs(world: str, factor: float) -> dict[int, Run]:
        goodputs = {seed: 10.0 * (1 + factor / (1 if seed <= 10 else fade)) for seed in range(1, seeds + 1)}
        return {seed: run(world, seed, goodput=one, sojourn=5.0 + seed) for seed, one in goodputs.items()}

    pairs = [Pair(name, "", "b", "codel", "t", runs("sim", by), runs("kernel", 0.0)) for name, by in apart.items()]
    return Comparison(pairs, [], {"sojourn": "0"})


def test_sets_are_compared_without_the_hard_and_the_newest_seeds_by_themselves(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "hard", lambda folder="drawn": dict.fromkeys("abc", "") | {"h": "lone"})
    done = comparison({"a": 0.01, "b": 0.01, "c": 0.01, "h": 9.0}, 30)
    held = {
        "held-back": comparison({"a": 0.02, "b": 0.02, "h": 9.0}, 10),
        "held-back-4": comparison({"a": 0.04, "b": 0.04, "h": 9.0}, 30, fade=4.0),
        "held-back-5": comparison({"a": 0.013, "b": 0.013, "h": 9.0}, 10),
    }
    _, last, _, newest, _, each = page.held_back(done, held)
    heads, cells = row(last, "goodput")
    assert heads[3:7] == ["the last forty", "chance alone", "times the eighty's", "with seeds 21–30 alone"]
    # For thirty seeds 0.02 against 0.0067; for the newest ten 0.01 against 0.005.
    assert (cells[1], cells[3]) == ("0.67 %", "2.0 % (2)")
    assert [float(cell.split()[0]) for cell in cells[5:7]] == [3.0, 2.0]
    heads, cells = row(newest, "goodput")
    assert heads[3:7] == ["the newest forty", "chance alone", "times the eighty's", "with the last forty"]
    # For the first seeds: 0.013 against 0.01; two of 0.013 and two of 0.04 against it.
    assert (cells[1], cells[3]) == ("1.00 %", "1.3 % (2)")
    assert [float(cell.split()[0]) for cell in cells[5:7]] == [1.3, 2.65]
    assert row(each, "goodput")[1] == ["goodput", "0.67 %", "2.0 % (2)", "2.0 % (2)", "1.3 % (2)"]


def test_the_summary_on_the_page_of_trust_is_that_of_the_report(page: ModuleType) -> None:
    trust = page.TRUST.read_text(encoding="utf-8")
    shown = trust.split(page.BEGIN_SUMMARY)[1].split(page.END_SUMMARY)[0].strip().split("\n\n")
    report = page.PAGE.read_text(encoding="utf-8")
    assert shown[0] in report
    means = re.search(r"(?m)^\| mean \|  \| ([\d.]+) \| ([\d.]+) \| (\d+) \| ([\d.]+) \|$", report)
    assert means is not None
    assert all(number in shown[1] for number in means.groups())


def row(table: str, of: str) -> tuple[list[str], list[str]]:
    """Returns the heads of a table and the cells of the row of a measure."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert {len(line) for line in lines} == {len(lines[0])}
    return lines[0], next(line for line in lines if line[0] == of)
