"""The pages that compare ccaq: their numbers are those of the files, and their verdicts can be each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import ROOT, program
from sojourn.plan import load


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    return program("experiments/ccaq/compare.py")


@pytest.fixture(scope="module")
def presets() -> ModuleType:
    return program("experiments/ccaq/presets.py")


def test_the_pages_have_the_numbers_of_the_files(compare: ModuleType) -> None:
    for path in compare.PAGES:
        assert compare.page_text(path) == path.read_text(encoding="utf-8"), f"{path}: run experiments/ccaq/compare.py"


def test_a_number_that_was_typed_is_found(compare: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    typed = "busy: <!--= medium-cubic ccaq busy -->100 %<!--/-->"
    page.write_text(typed, encoding="utf-8")
    assert compare.page_text(page) != typed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a <!--= no such -->1<!--/-->", "no such number: no such"),
        ("a\n  <!--= b -->1<!--/-->", "a line begins with the mark of a number"),
        ("<!--= b -->1<!--/-->", "a line begins with the mark of a number"),
    ],
)
def test_marks_that_cannot_be_filled_are_refused(compare: ModuleType, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compare.numbered(text, {"b": "2"})


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (99.071, 0.0102, "99.07 ± 0.01"),
        (3.54, 1.5, "3.5 ± 1.5"),
        (96.46, 11.67, "96 ± 12"),
        (1216.05, 51.15, "1216 ± 51"),
        (-40.0, 8.0, "\N{MINUS SIGN}40 ± 8"),
        (99.9996, 0.0, "100.0"),
        (1.93, 0.0001, "1.93"),
        (5.0, None, "5.00"),
    ],
)
def test_a_mean_has_the_digits_that_its_interval_leaves(
    compare: ModuleType, mean: float, half: float | None, text: str
) -> None:
    assert compare.pm({"mean": mean, "half_width": half, "count": 10}) == text


@pytest.mark.parametrize(
    ("differences", "lower_is_better", "verdict"),
    [
        ([1.0, 1.1, 0.9], True, "worse"),
        ([1.0, 1.1, 0.9], False, "better"),
        ([-1.0, -1.1, -0.9], True, "better"),
        ([1.0, -1.0, 0.3], True, "open"),
        ([0.01, 0.04, 0.02], True, "same"),
        ([1.0], True, "open"),
    ],
)
def test_a_difference_is_judged_by_its_interval(
    presets: ModuleType, differences: Sequence[float], lower_is_better: bool, verdict: str
) -> None:
    assert presets.verdict_of(differences, 10.0, lower_is_better=lower_is_better) == verdict


@pytest.mark.parametrize(
    ("ping", "call", "goodput", "word"),
    [
        (("worse", 1.0), ("same", 0.0), ("worse", -1.0), "yes"),
        (("better", -1.0), ("worse", 1.0), ("worse", -1.0), "yes"),
        (("worse", 1.0), ("worse", 1.0), ("better", 1.0), "no"),
        (("worse", 1.0), ("worse", 1.0), ("same", -0.1), "no"),
        (("better", -1.0), ("better", -1.0), ("worse", -1.0), "no"),
        (("open", 1.0), ("better", -1.0), ("worse", -1.0), "perhaps"),
        (("worse", 1.0), ("better", -1.0), ("open", -1.0), "perhaps"),
        (("open", -1.0), ("open", -1.0), ("worse", -1.0), "no"),
        (("worse", 1.0), ("better", -1.0), ("open", 1.0), "no"),
    ],
)
def test_worse_in_both_needs_a_delay_and_the_goodput(
    presets: ModuleType, ping: Any, call: Any, goodput: Any, word: str
) -> None:
    found = {
        name: {"verdict": verdict, "difference": {"mean": mean}}
        for name, (verdict, mean) in {"ping": ping, "call": call, "goodput": goodput}.items()
    }
    assert presets.at_once(found) == word


def test_every_preset_of_the_page_is_judged_at_its_own_queues(presets: ModuleType) -> None:
    page = (ROOT / "docs/how-to/choose-a-preset.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|(?: [^`|]+ \|)? `([a-z0-9-]+)` \|", page, re.MULTILINE))
    assert {one.scenario for one in presets.PRESETS.values()} == named
    for preset in presets.PRESETS.values():
        for line in (presets.OURS, presets.REFERENCE):
            sets = [(key, f'"{text.format(line)}"') for key, text in preset.queues.items()]
            assert len(load(ROOT / f"scenarios/{preset.scenario}.toml", sets, None, 1).runs) >= 1


def test_rows_in_linux_are_compared_by_intervals_that_hold_unpaired(compare: ModuleType) -> None:
    rows = compare.linux_rows()
    assert rows["5.1.1"]["delay"]["verdict"] == "worse"
    assert rows["5.1.1"]["goodput"]["verdict"] == "better"
    assert all(
        one["low"] <= one["ratio"] <= one["high"] for row in rows.values() for one in (row["delay"], row["goodput"])
    )
