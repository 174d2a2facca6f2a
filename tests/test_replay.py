"""`sojourn replay`: a packet trace through one discipline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run
from sojourn import _core

HEADER = "time_ns,op,flow,bytes,ecn\n"


def fates(trace: str, qdisc: str, rate: str | None = None) -> list[dict[str, str]]:
    text, _warnings = _core.replay(trace.encode(), "trace.csv", qdisc, rate, 1514)
    head, *lines = text.decode().splitlines()
    assert head == "packet,flow,bytes,enqueue_ns,fate_ns,fate"
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def test_a_fifo_serves_in_order_and_refuses_what_its_limit_does_not_hold(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        HEADER + "".join(f"{10 * n},enqueue,{n},1000,0\n" for n in range(3)) + "100,dequeue,,,\n"
    )
    out = sojourn("replay", "t.csv", "--qdisc", "pfifo limit 2").stdout
    assert out.splitlines() == [
        "packet,flow,bytes,enqueue_ns,fate_ns,fate",
        "0,0,1000,0,100,delivered",
        "1,1,1000,10,0,queued",
        "2,2,1000,20,20,dropped:overlimit",
    ]
    packets = json.loads(sojourn("replay", "t.csv", "--qdisc", "pfifo limit 2", "-f", "json").stdout)["packets"]
    assert packets[0] == {
        "packet": 0, "flow": 0, "bytes": 1000, "enqueue_ns": 0, "fate_ns": 100, "fate": "delivered",
    }  # fmt: skip


def test_with_a_rate_a_packet_occupies_the_server_for_its_rounded_up_time() -> None:
    trace = HEADER + "0,enqueue,0,1000,0\n0,enqueue,0,1000,0\n"
    assert [row["fate_ns"] for row in fates(trace, "pfifo limit 9", "3gbit")] == ["0", "2667"]


def test_a_change_row_gives_the_discipline_other_parameters(sojourn: Run, tmp_path: Path) -> None:
    packets = "".join(f"0,enqueue,{n},1000,0\n" for n in range(3))
    (tmp_path / "t.csv").write_text(HEADER + packets + "7,change,fq_codel limit 1,,\n9,dequeue,,,\n")
    rows = fates((tmp_path / "t.csv").read_text(), "fq_codel")
    assert [(row["fate_ns"], row["fate"]) for row in rows] == [
        ("7", "dropped:overlimit"),
        ("7", "dropped:overlimit"),
        ("9", "delivered"),
    ]
    refused = sojourn("replay", "t.csv", "--qdisc", "codel", code=2)
    assert 't.csv:5: change "fq_codel limit 1": "fq_codel": a change keeps the discipline' in refused.stderr


def test_megabytes_in_a_change_row_are_warned_of_with_their_line(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "0,enqueue,0,1000,0\n7,change,fq maxrate 10mbps,,\n")
    warned = sojourn("replay", "t.csv", "--qdisc", "fq maxrate 5mbps").stderr
    assert "5mbps: tc's bps are bytes per second: this is 40mbit" in warned
    assert "t.csv:3: 10mbps: tc's bps are bytes per second: this is 80mbit" in warned


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3_000_000), st.integers(0, 5), st.integers(40, 1514), st.integers(0, 3)),
        min_size=1,
        max_size=200,
    ),
    st.sampled_from(["pfifo limit 20", "codel limit 50 target 100us interval 1ms", "codel ecn target 100us"]),
)
def test_every_packet_has_one_fate_and_none_leaves_before_it_came(
    packets: list[tuple[int, int, int, int]], qdisc: str
) -> None:
    now, lines = 0, []
    for gap, flow, size, ecn in packets:
        now += gap
        lines.append(f"{now},enqueue,{flow},{size},{ecn}\n")
    rows = fates(HEADER + "".join(lines), qdisc, "10mbit")
    assert [int(row["packet"]) for row in rows] == list(range(len(packets)))
    for row, (_gap, flow, size, ecn) in zip(rows, packets, strict=True):
        assert (int(row["flow"]), int(row["bytes"])) == (flow, size)
        assert row["fate"] == "delivered" or row["fate"] == "marked" or row["fate"].startswith("dropped:")
        assert int(row["fate_ns"]) >= int(row["enqueue_ns"])
        if row["fate"] == "marked":
            assert ecn in (1, 2), "only what could be marked, and was not yet"


BAD = {
    "no header": ("1,enqueue,0,100,0\n", "header"),
    "unknown op": (HEADER + "1,enqeue,0,100,0\n", "enqeue"),
    "time falls": (HEADER + "5,enqueue,0,100,0\n4,enqueue,0,100,0\n", "t.csv:3"),
    "no bytes": (HEADER + "5,enqueue,0,0,0\n", "t.csv:2"),
    "not a number": (HEADER + "5,enqueue,x,100,0\n", "t.csv:2"),
    "ecn out of range": (HEADER + "5,enqueue,0,100,256\n", "t.csv:2"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_trace_is_refused_with_its_line(sojourn: Run, tmp_path: Path, fault: str) -> None:
    text, name = BAD[fault]
    (tmp_path / "t.csv").write_text(text)
    done = sojourn("replay", "t.csv", "--qdisc", "codel", code=2)
    assert name in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bad_options_are_refused(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "1,enqueue,0,100,0\n2,dequeue,,,\n")
    assert "coddle" in sojourn("replay", "t.csv", "--qdisc", "coddle", code=2).stderr
    assert "--rate" in sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", "0mbit", code=2).stderr
    assert "dequeue" in sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", "1mbit", code=2).stderr
    assert "nowhere.csv" in sojourn("replay", "nowhere.csv", "--qdisc", "codel", code=2).stderr
