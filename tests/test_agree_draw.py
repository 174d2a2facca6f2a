"""The scenarios on which the worlds are compared: they are frozen and cover everything that was intended."""

from __future__ import annotations

import csv
from types import ModuleType

import pytest

from conftest import ROOT, program
from sojourn.plan import load

HELD_BACK = sorted(path.stem for path in (ROOT / "experiments/agree").glob("held-back*.csv"))


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    return program("experiments/agree/agree_draw.py")


@pytest.mark.parametrize(
    ("which", "folders"),
    [("drawn", ("drawn", "ranks")), *((one, (one,)) for one in HELD_BACK)],
)
def test_the_files_are_what_was_drawn_before_the_model_was_touched(
    draw: ModuleType, which: str, folders: tuple[str, ...]
) -> None:
    wanted = draw.files(which)
    kept = {path for folder in folders for path in (draw.FOLDER / folder).iterdir()}
    assert kept | {draw.FOLDER / f"{which}.csv"} == set(wanted)
    for path, text in wanted.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_every_discipline_control_and_mix_is_drawn_and_a_quarter_at_most_is_hard(draw: ModuleType) -> None:
    with (draw.FOLDER / "drawn.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    assert {row["discipline"] for row in rows} == set(draw.DISCIPLINES)
    assert {row["cc"] for row in rows} == set(draw.CONTROLS)
    assert {row["mix"] for row in rows} == set(draw.MIXES)
    hard = [row["hard"] for row in rows if row["hard"]]
    assert len(hard) <= 20
    assert set(hard) == {"fast", "starved", "lone"}
    ranges = {"rate": (0.5, 1000), "rtt": (5, 600), "flows": (1, 100)}
    for key, (low, high) in ranges.items():
        assert all(low <= float(row[key]) <= high for row in rows), key
        assert min(float(row[key]) for row in rows) < low * 1.3, key
        assert max(float(row[key]) for row in rows) > high / 1.3, key


def test_the_held_back_scenarios_are_others(draw: ModuleType) -> None:
    sets = [draw.drawn(draw.SEED, draw.SCENARIOS)]
    sets += [draw.drawn(seed, count) for seed, count in draw.HELD_BACK.values()]
    assert list(draw.HELD_BACK) == HELD_BACK
    assert [len(points) for points in sets] == [80, 20, 20, 40, 40, 40]
    assert len({(one.rate, one.rtt) for points in sets for one in points}) == 240


@pytest.mark.parametrize(
    ("folder", "runs"),
    [
        ("drawn", [1] * 80),
        ("ranks", [10] * 8),
        ("held-back", [1] * 20),
        ("held-back-2", [1] * 20),
        ("held-back-3", [1] * 40),
        ("held-back-4", [1] * 40),
        ("held-back-5", [1] * 40),
        ("netem", [1] * 20),
    ],
)
def test_every_scenario_loads(folder: str, runs: list[int]) -> None:
    plans = [load(path) for path in sorted((ROOT / "experiments/agree" / folder).iterdir())]
    assert [len(plan) for plan in plans] == runs


def test_the_netem_scenarios_are_what_was_drawn_with_each_impairment_once() -> None:
    netem = program("experiments/agree/agree_netem.py")
    wanted = netem.files()
    assert {*(netem.FOLDER / "netem").iterdir(), netem.FOLDER / "netem.csv"} == set(wanted)
    for path, text in wanted.items():
        assert path.read_text(encoding="utf-8") == text, path.name
    points = netem.drawn()
    assert sorted((one.forward, one.back) for one in points) == sorted(
        (one.forward, one.back) for one in netem.IMPAIRMENTS
    )
    assert {one.cc for one in points} == set(netem.CONTROLS)
    assert [sum(one.discipline == each for one in points) for each in netem.DISCIPLINES] == [4] * 5
    assert min(one.rate for one in points) < 2 < 75 < max(one.rate for one in points) <= 100
