"""Values as a person writes them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from sojourn import words


def test_times_rates_and_sizes_take_the_unit_a_person_would_choose() -> None:
    assert [words.time_text(ms) for ms in (None, 0, 0.0456, 0.1, 2.4, 3.162278, 463.4, 999.6, 1590)] == [
        "–", "0 ms", "45.6 µs", "0.1 ms", "2.4 ms", "3.16 ms", "463 ms", "1 s", "1.59 s",
    ]  # fmt: skip
    assert [words.rate_text(mbit) for mbit in (0, 0.056, 0.9996, 3.162278, 100, 2500)] == [
        "0 Mbit/s", "56 kbit/s", "1 Mbit/s", "3.16 Mbit/s", "100 Mbit/s", "2.5 Gbit/s",
    ]  # fmt: skip
    assert [words.size_text(size) for size in (0, 999, 1500, 20e6)] == ["0 B", "999 B", "1.5 kB", "20 MB"]
    assert [words.percent_text(share) for share in (None, 0.99949, 0.0123)] == ["–", "99.9 %", "1.23 %"]


@pytest.mark.parametrize("exponent", range(-9, 9))
def test_no_value_is_written_with_an_exponent_or_more_than_three_digits(exponent: int) -> None:
    for write in (words.time_text, words.rate_text, words.size_text, words.number_text):
        text = write(1.234567 * 10.0**exponent)
        assert "e" not in text.split()[0]
        assert len(text.split(" ")[0].replace(".", "").lstrip("0")) <= 3


def test_a_mean_is_no_finer_than_its_interval() -> None:
    means = [
        (17.3, 0.029),
        (1.31, 0.0026),
        (755, 4.4),
        (4.24, 2.5),
        (185, 19),
        (1550, 23),
        (36, 290),
        (0, 0.3),
        (5, None),
    ]
    assert [words.mean_text(*one) for one in means] == [
        "17.3 ± 0.1", "1.31 ± 0.01", "755 ± 5", "4 ± 3", "185 ± 19", "1 550 ± 30", "40 ± 290", "0.0 ± 0.3", "5",
    ]  # fmt: skip


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_written_interval_holds_the_interval(value: float, half: float) -> None:
    """It is rounded up, the mean by at most half of its last place; both have the same number of decimal places."""
    mean, _, width = words.mean_text(value, half).partition(" ± ")
    if not width:
        assert half < 0.001 * abs(value)
        return
    assert len(mean.partition(".")[2]) == len(width.partition(".")[2])
    shown = float(width.replace(" ", ""))
    assert shown >= half * (1 - 1e-6)
    assert abs(float(mean.replace(" ", "")) - value) <= 0.5 * max(shown, abs(value)) * 1.001


def test_a_written_value_becomes_a_quantity_and_other_words_none() -> None:
    found = {value: words.quantity(value) for value in ("3162278ns", "20mbit", "8bdp", "100p", "1.5k", 7)}
    assert [(one.kind, one.value) for one in found.values() if one] == [
        ("time", pytest.approx(3.162278)), ("rate", 20), ("bdp", 8), ("number", 100), ("size", 1536), ("number", 7),
    ]  # fmt: skip
    assert [words.quantity(value) for value in ("codel", "codel limit 100", ["0s"], True, None, "")] == [None] * 6


def test_labels_say_what_differs_once_and_keep_different_values_apart() -> None:
    both = {"hop.a.qdisc": "fq_codel", "hop.a.reverse.qdisc": "fq_codel"}
    sets = [both, {"hop.a.qdisc": "cake nat", "hop.a.reverse.qdisc": "cake"}]
    assert words.labels(sets) == ["fq_codel", "cake nat, cake"]
    delays = [{"hop.a.delay": "3162278ns", "seeded": 1}, {"hop.a.delay": "10ms", "seeded": 1}]
    assert words.labels(delays) == ["a.delay 3.16 ms", "a.delay 10 ms"]
    near = [{"flow.b.rtt": "10001us"}, {"flow.b.rtt": "10002us"}]
    assert words.labels(near) == ["b.rtt 10.001 ms", "b.rtt 10.002 ms"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"trace": "a.csv", "scale": 0.5}, '{ trace = "a.csv", scale = 0.5 }'),
        ([["0s", "cake"], ["5s", "fq_codel"]], '[["0s", "cake"], ["5s", "fq_codel"]]'),
        ({"square": ["1mbit", "9mbit"], "period": "1s"}, '{ square = ["1mbit", "9mbit"], period = "1s" }'),
        ({"a b": {}, "c": [True, 1, '"é\n']}, '{ "a b" = {}, c = [true, 1, "\\"é\\n"] }'),
    ],
)
def test_lists_and_tables_are_written_as_toml(value: object, text: str) -> None:
    assert words.toml_text(value) == text
    assert tomllib.loads(f"value = {text}")["value"] == value


def test_no_value_is_shown_in_pythons_notation(tmp_path: Path, sojourn: Run) -> None:
    (tmp_path / "a.csv").write_text("time,rate_mbit\n0,5\n1,9\n")
    (tmp_path / "traced.toml").write_text(
        'duration = "1s"\n[[hop]]\nname = "a"\nrate = "9mbit"\ndelay = "5ms"\n[[flow]]\nkind = "bulk"\n[sweep]\n'
        '"hop.a.rate" = ["9mbit", { trace = "a.csv" }]\n'
        '"hop.a.qdisc" = [[["0s", "codel"], ["500ms", "pie"]]]\n'
    )
    csv = ("-f", "csv")
    for arguments in (("check",), ("check", *csv), ("run", *csv), ("sweep", *csv), ("run",)):
        said = sojourn(*arguments, "traced.toml").stdout
        assert "{'" not in said
        assert "['" not in said
        assert re.search(r'\{ trace = "+a\.csv"+ \}', said) or (arguments == ("run",) and "trace" in said)
    assert '[[""0s"", ""codel""], [""500ms"", ""pie""]]' in sojourn("run", "-f", "csv", "traced.toml").stdout
