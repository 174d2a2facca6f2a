"""Percentiles over several flows of a name are those of all their samples, in tables, pictures and stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import compare, sweep
from sojourn import felt, headline, table
from sojourn.cases import Cases, case_list
from sojourn.plan import load
from sojourn.store import Store

READERS = """\
title = "Readers"
duration = "12s"
[[hop]]
name = "home"
rate = "4mbit"
delay = "10ms"
[[flow]]
name = "load"
kind = "bulk"
start = "uniform 0s..1s"
[[flow]]
name = "reader"
kind = "web"
page = true
count = 4
start = "uniform 0s..9s"
[[flow]]
name = "photos"
kind = "download"
size = "100kb"
gap = "500ms"
count = 3
[[flow]]
kind = "pings"
count = 3
rtt = ["30ms", "60ms", "90ms"]
[sweep]
"hop.home.qdisc" = ["pfifo limit 100", "fq_codel"]
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The scenario with readers and downloads that have a row each, and with one row for all."""
    single, pooled = tmp_path / "single.toml", tmp_path / "pooled.toml"
    single.write_text(READERS)
    pooled.write_text(READERS.replace("count = 4", "count = 4\npool = true").replace("gap =", "pool = true\ngap ="))
    return single, pooled


def cells(cases: Cases, key: str) -> dict[str, list[str]]:
    (made,) = (one for one in table.tables(cases) if one.key == key)
    return {column.head: [row.cells[at].text for row in made.rows] for at, column in enumerate(made.columns)}


def test_the_table_of_several_readers_is_that_of_their_pool(files: tuple[Path, Path]) -> None:
    single, pooled = (compare(file, seeds=2).cases() for file in files)
    for key in ("web", "transfers"):
        mine, theirs = cells(single, key), cells(pooled, key)
        assert mine == theirs
    assert all(float(text.rstrip("*!")) >= 1 for text in cells(single, "web")["pages"])


def test_a_percentile_of_all_pages_is_not_the_mean_of_each_readers(files: tuple[Path, Path]) -> None:
    done = compare(files[0])
    for run in done.runs:
        readers = [one for one in run.result["flows"] if one["kind"] == "web"]
        (together,) = (one for one in run.result["groups"] if one["name"] == "reader")
        assert together["pages"] == sum(one["pages"] or 0 for one in readers)
        assert together["page_load_s"]["max"] == max(one["page_load_s"]["max"] for one in readers if one["page_load_s"])
        assert {one["name"] for one in run.result["groups"]} == {"reader", "photos", "pings0"}


def test_pings_of_several_flows_are_pooled(files: tuple[Path, Path]) -> None:
    done = compare(files[0])
    shown = cells(done.cases(), "pings")["RTT max"]
    for run, text in zip(done.runs, shown, strict=True):
        most = max(one["rtt_ms"]["max"] for one in run.result["flows"] if one["kind"] == "pings")
        assert text.rstrip("*!") == table.number(most, 3)


def test_the_picture_and_the_headline_have_the_numbers_of_the_table(files: tuple[Path, Path]) -> None:
    done = compare(files[0])
    (pages,) = (one for one in felt.FLOWS if one.name == "page_load_s")
    shown = cells(done.cases(), "web")["page p95"]
    for case, text in zip(case_list(done.runs), shown, strict=True):
        _, high = felt.means(case, pages)
        assert high is not None
        assert table.number(high.value, 3) == text.rstrip("*!")
    half = cells(done.cases(), "web")["page p50"]
    said = " ".join(headline.sentences(done.cases()))
    assert any(f"page load p50 {text.rstrip('*!')} s" in said for text in half) or "page load p50" in said


def test_a_store_gives_the_same_numbers(files: tuple[Path, Path], tmp_path: Path) -> None:
    here = compare(files[0], seeds=2).cases()
    stored = sweep(load(files[0], seeds=2), Store(tmp_path / "store")).cases(100)
    for key in ("web", "pings", "transfers"):
        assert cells(here, key) == cells(stored, key)
