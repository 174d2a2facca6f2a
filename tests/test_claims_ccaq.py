"""Quantities of the CCAQ paper computed by hand, and its first claims in the real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from conftest import ROOT, Run, kernel_or_skip
from sojourn import claims


@pytest.fixture(scope="module")
def paper() -> ModuleType:
    """experiments/002-ccaq/quantities.py."""
    return claims.load(ROOT / "experiments/002-ccaq").quantities


def trace(paper: ModuleType, **columns: list[float]) -> Any:
    """A series with bins of one second, over a link of 12.112 Mbit/s, of which a packet takes a millisecond, doubled
    from 3 s on."""
    length = len(next(iter(columns.values())))
    bins = {"time_s": np.arange(length, dtype=float)} | {name: np.array(column) for name, column in columns.items()}
    return paper.Trace(bins, {"time_s": [0.0, 3.0], "mbit": [12.112, 24.224]}, 50.0)


def test_a_data_packets_rtt_is_base_wait_and_its_own_transmission(paper: ModuleType) -> None:
    one = trace(
        paper,
        sojourn_min_ms=[1, 0, 2, 3],
        sojourn_mean_ms=[2, 0, 4, 6],
        delivered_packets=[1, 0, 1, 2],
        delivered_bytes=[1514, 0, 1514, 3028],
    )
    assert one.rtt_ms("min") == pytest.approx([52, np.nan, 53, 53.5], nan_ok=True)
    assert one.mean_rtt_ms() == pytest.approx((53 + 55 + 2 * 56.5) / 4)
    assert one.within(2, 4).mbit(2) == pytest.approx(3 * 1500 * 8 / 2e6)
    assert one.within(2, 4).rtt_ms("min") == pytest.approx([53, 53.5])


@pytest.mark.parametrize(
    ("queue", "drops", "falsely"),
    [
        ([100, 10, 40, 100], [5, 1, 0, 1], True),
        ([100, 10, 40, 100], [5, 0, 0, 1], False),
        ([100, 11, 40, 100], [5, 1, 0, 1], False),
        ([100, 100, 40, 100], [0, 0, 0, 0], False),
    ],
)
def test_a_cut_is_false_where_a_packet_is_lost_at_a_buffer_of_virtually_nothing(
    paper: ModuleType, queue: list[float], drops: list[float], falsely: bool
) -> None:
    """The BDP is 50 packets: the smaller of a quarter of it and ten is ten."""
    one = trace(paper, queue_packets_max=queue, drops=drops)
    assert paper._cut_falsely(one) is falsely
    assert paper._cut_falsely(one, from_s=2) is False
    assert paper._cut_falsely(one._replace(base_ms=39.9)) is False, "a quarter of the BDP is less than ten packets"


def test_recovery_ends_where_the_last_bin_begins_that_is_above_twice_the_usual_delay(paper: ModuleType) -> None:
    delay = [0.0] * 30 + [90, 60, 40, 9] + [2.0] * 56
    one = trace(paper, sojourn_mean_ms=delay, delivered_packets=[10.0] * 90)
    assert paper._recovery_s(one) == 2
    assert paper._recovery_s(one._replace(columns=one.columns | {"sojourn_mean_ms": np.full(90, 2.0)})) == 0


def test_c1_and_c2_in_the_kernel(tmp_path: Path, sojourn: Run) -> None:
    """C1: RTTs of 49.4 to 70.6 ms before the rate halves, 91.8 to 131.1 ms afterwards, each within 4 ms. C2: CCAQ needs
    12 to 20 ms for the same throughput."""
    kernel_or_skip()
    words = ("claims", "C1", "C2", "--world", "kernel", "--seeds", "1", "--store", tmp_path / "store", "-f", "json")
    said = json.loads(sojourn(*words, cwd=ROOT).stdout)["claims"]
    assert [one["verdict"] for one in said] == ["holds"] * 2, said
