"""The page of agreement: how sets of scenarios are held against each other."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from conftest import program

SIZES = [0.1 * n for n in range(1, 31)]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return program("tools/agree_page.py")


def interval(said: str) -> tuple[float, float, float]:
    found = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", said)
    assert found, said
    ratio, low, high = map(float, found.groups())
    return ratio, low, high


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_times_is_the_ratio_of_the_medians_within_what_other_draws_would_have_it(
    page: ModuleType, factor: float
) -> None:
    ratio, low, high = interval(page.times([factor * size for size in SIZES], SIZES))
    assert ratio == factor
    assert 0.5 * factor < low < factor < high < 2 * factor


def test_more_scenarios_narrow_it(page: ModuleType) -> None:
    _, low, high = interval(page.times(SIZES * 10, SIZES * 10))
    _, few_low, few_high = interval(page.times(SIZES, SIZES))
    assert few_low < low <= high < few_high


def test_a_shuffle_seldom_makes_what_is_clearly_larger_and_often_what_is_not(page: ModuleType) -> None:
    assert page.shuffled([3 * size for size in SIZES], SIZES) < 0.01
    assert page.shuffled(SIZES, SIZES) > 0.4
