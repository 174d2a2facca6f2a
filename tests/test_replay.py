"""`sojourn replay`: a packet trace through one discipline."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from conftest import Run
from sojourn import _core
from sojourn.errors import Refusal

HEADER = "time_ns,op,flow,bytes,ecn\n"


def fates(trace: str, qdisc: str, rate: str | None = None) -> list[dict[str, str]]:
    text, *_ = _core.replay(trace.encode(), "trace.csv", qdisc, rate, 1514)
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


def test_a_rate_of_zero_is_refused_without_a_suggestion_of_zero(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER)
    for rate, end in (("0", "such as 10mbit"), ("0bit", "such as 10mbit"), ("5", "such as 10mbit; did you mean 5bit?")):
        refused = sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", rate, code=2).stderr
        assert refused == f"sojourn: --rate = {rate}: expected a rate above zero {end}\n"


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


def asked_of_a_guest(rows: str, qdisc: str, rate: str | None = None) -> _core.KernelReplay:
    return _core.KernelReplay((HEADER + rows).encode(), "t.csv", qdisc, rate, 1514, (7, 3), [], None, None)


def test_a_guest_is_told_of_each_change_with_its_line_and_of_a_thousand_at_most() -> None:
    rows = "0,dequeue,,,\n0,change,codel limit 9,,\n1,change,codel target 5000us,,\n"
    assert asked_of_a_guest(rows, "codel").changes == [(3, "codel limit 9"), (4, "codel target 5ms")]
    assert asked_of_a_guest("0,change,hhf quantum 5,,\n", "hhf").changes == [(2, "hhf quantum 5")]
    one = "0,change,codel limit 9,,\n"
    assert len(asked_of_a_guest(one * 1000, "codel").changes) == 1000
    with pytest.raises(_core.Error, match=r"t\.csv:1002: change number 1001: a guest keeps at most 1000"):
        asked_of_a_guest(one * 1001, "codel")
    warned = asked_of_a_guest("0,change,fq maxrate 10mbps,,\n", "fq maxrate 5mbps").warnings
    assert [text.split(": tc")[0] for text in warned] == ["5mbps", "t.csv:2: 10mbps"]


def test_a_trace_of_months_is_not_for_a_guest() -> None:
    def at(ns: int) -> str:
        return f"{ns},enqueue,0,1500,0\n"

    assert asked_of_a_guest(at(1 << 51), "pfifo").job()
    assert asked_of_a_guest(at(0) * 100, "pfifo", "10kbit").job()
    assert asked_of_a_guest(at(0) * 187, "pfifo", "1bit").job()
    for rows, rate in ((at((1 << 51) + 1), None), (at(0) * 188, "1bit")):
        with pytest.raises(_core.Error, match="26 days"):
            asked_of_a_guest(rows, "pfifo", rate)


def test_a_guest_says_a_fate_for_each_packet() -> None:
    asked = asked_of_a_guest("7,enqueue,2,100,2\n7,dequeue,,,\n", "pfifo")
    assert len(asked.trace()) == 2 * 24
    marked = (9).to_bytes(8, sys.byteorder) + bytes([2, *bytes(7)])
    assert asked.rows(marked).decode().splitlines()[1:] == ["0,2,100,7,9,marked"]
    with pytest.raises(Exception, match="0 fates of 1 packets"):
        asked.rows(b"")


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


def test_further_columns_reach_the_discipline_and_others_are_refused(sojourn: Run, tmp_path: Path) -> None:
    """ccaq takes a flow's first packet for the beginning of a connection if the trace says so."""
    rows = [f"{n // 3 * 400_000},enqueue,{n % 5},1500,0" for n in range(3000)]
    five = "\n".join(["time_ns,op,flow,bytes,ecn", *rows, ""])
    plain = fates(five, "ccaq", "20mbit")
    assert fates("\n".join([HEADER.strip() + ",opens", *(f"{row},0" for row in rows)]), "ccaq", "20mbit") == plain
    assert fates("\n".join([HEADER.strip() + ",opens", *(f"{row},1" for row in rows)]), "ccaq", "20mbit") != plain
    (tmp_path / "t.csv").write_text(HEADER.strip() + ",destnation\n")
    refused = sojourn("replay", "t.csv", "--qdisc", "cake", code=2).stderr
    assert 't.csv:1: column "destnation": expected source, destination or opens after the first five' in refused
    assert 'did you mean "destination"?' in refused
    with pytest.raises(_core.Error, match=r't\.csv:1: column "source": a guest.*expected --world sim.*cut -d, -f1-5'):
        _core.KernelReplay(
            (HEADER.strip() + ",source,opens\n").encode(), "t.csv", "codel", None, 1514, (7, 3), [], None, None
        )
    columns = {"time_ns": [0], "op": ["enqueue"], "flow": [1], "bytes": [100], "ecn": [0], "opens": [1]}
    assert sj.replay(columns, "ccaq").packets.num_rows == 1
    with pytest.raises(Refusal, match=r"column 'opns'.*nearest is opens"):
        sj.replay(columns | {"opns": [1]}, "ccaq")


def test_a_seed_is_that_of_the_disciplines_random_numbers(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "".join(f"{n}000000,enqueue,{n % 9},1500,0\n" for n in range(9000)))
    asked = ("replay", "t.csv", "--qdisc", "pie", "--rate", "10mbit")
    first = sojourn(*asked).stdout
    assert sojourn(*asked, "--seed", 1).stdout == first
    other = sojourn(*asked, "--seed", 2**64 - 1).stdout
    assert other != first
    assert sojourn(*asked, "--seed", 2**64 - 1).stdout == other
    played = sj.replay(tmp_path / "t.csv", "pie", rate="10mbit", seed=2**64 - 1).packets
    assert [str(fate) for fate in played["fate"].to_pylist()] == [line.split(",")[5] for line in other.split()[1:]]
    assert "--seed" in sojourn(*asked, "--seed", -1, code=2).stderr
    guests = [
        json.loads(_core.KernelReplay(HEADER.encode(), "t", "pie", None, 1514, (7, 3), [], None, None, *seed).job())
        for seed in ((), (1,), (2,))
    ]
    assert guests[0] == guests[1] != guests[2]


def test_a_server_with_an_end_leaves_packets_in_the_queue(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "0,enqueue,1,1000,0\n" * 3)
    asked = ("replay", "t.csv", "--qdisc", "pfifo", "--rate", "8mbit", "--end")
    rows = sojourn(*asked, "1ms").stdout.splitlines()[1:]
    assert [row.split(",", 4)[4] for row in rows] == ["0,delivered", "1000000,delivered", "0,queued"]
    assert sj.replay(tmp_path / "t.csv", "pfifo", rate="8mbit", end="2ms").packets["fate"][2].as_py() == "delivered"
    assert "--end = soon: expected a time such as 30s" in sojourn(*asked, "soon", code=2).stderr
    assert "an end without a rate" in sojourn(*asked[:4], "--end", "1ms", code=2).stderr
    refused = sojourn(*asked, "1ms", "--world", "kernel", code=2).stderr
    assert "--end = 1ms: a kernel sends all packets; expected no kernel with it" in refused


def test_bad_options_are_refused(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "1,enqueue,0,100,0\n2,dequeue,,,\n")
    assert "coddle" in sojourn("replay", "t.csv", "--qdisc", "coddle", code=2).stderr
    assert "--rate" in sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", "0mbit", code=2).stderr
    assert "dequeue" in sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", "1mbit", code=2).stderr
    assert "nowhere.csv" in sojourn("replay", "nowhere.csv", "--qdisc", "codel", code=2).stderr
