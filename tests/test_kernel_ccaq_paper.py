"""The module's `max_gi_rtts` in real Linux: the round-trip time that it measures, and its effect on guard intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import guest_senders
from conftest import Run
from guest_senders import WAYS

DROP = """\
duration = "10s"
measure = ["5s", "10s"]

[[hop]]
name = "bottleneck"
rate = [["0s", "100mbit"], ["5s", "10mbit"]]
qdisc = "ccaq variant paper flow_limit 50"
reverse = { qdisc = "pfifo limit 10000" }

[[flow]]
kind = "bulk"
cc = "cubic"
rtt = "10ms"
rtt_at = "ack"
rwnd = 108

[sweep]
"hop.bottleneck.qdisc" = [
  "ccaq variant paper flow_limit 50",
  "ccaq variant paper flow_limit 50 max_gi_rtts 4",
]
"""
"""A flow limited by its window fills the link and loses nothing, until the rate falls."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of `tc -s` during a transfer over 50 ms, for each encapsulation of packets."""
    folder = tmp_path_factory.mktemp("guest")
    before = ["tc qdisc add dev dut0 root handle 1: ccaq_paper max_gi_rtts 4"]
    guest_senders.play(guest_senders.kernel_with("sch_ccaq_paper"), folder, "ccaq_paper", before)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_the_module_sees_the_round_trip_of_a_tcp_handshake(seen: Path, way: str) -> None:
    [queue] = json.loads((seen / f"{way}.json").read_text())
    assert queue["kind"] == "ccaq_paper"
    assert queue["options"]["max_gi_rtts"] == 4
    text = (seen / f"{way}.text").read_text()
    assert "max_gi_rtts 4 " in text
    if way == "udp":
        assert queue["packets"] >= 20
        assert "max_rtt" not in queue
        assert " rtt " not in text
    else:
        assert queue["packets"] > 10
        assert queue["min_rtt"] == queue["max_rtt"] == pytest.approx(50_000, abs=1000)
        assert " rtt 50" in text


def test_a_router_sees_the_round_trip_of_the_flows_that_it_forwards(sojourn: Run, tmp_path: Path) -> None:
    file, kept = tmp_path / "drop.toml", tmp_path / "kept"
    file.write_text(DROP)
    line = "ccaq variant paper max_gi_rtts 4"
    rtts = [f"flow.bulk0.rtt={rtt}" for rtt in ("100ms", "37ms")]
    for rtt, expected in zip(rtts, (100_000, 37_000), strict=True):
        short = ("--set", "duration=3s", "--set", 'measure=["0s", "end"]', "--seeds", 1, "--set", rtt)
        folder = kept / str(expected)
        sojourn("run", file, *short, "--set", f"hop.bottleneck.qdisc={line}", "--world", "kernel", "--keep", folder)
        counted = json.loads((folder / "0000" / "counted.json").read_text())
        [queue] = [one for one in counted["places"]["router0"]["qdiscs"] if one["kind"] == "ccaq_paper"]
        # Plus the queueing delay of the last packet: at most 200 packets at 100 Mbit/s.
        assert expected <= queue["min_rtt"] == queue["max_rtt"] < expected + 25_000


@pytest.mark.parametrize("world", ["sim", "kernel"])
def test_c14_after_a_drop_of_the_rate_a_guard_interval_in_round_trips_ends_a_standing_queue_earlier(
    sojourn: Run, tmp_path: Path, world: str
) -> None:
    """The paper's §2.3: a long time without a loss makes a long guard interval; five seconds have the same effect as
    thirty.

    Nothing is random, so that one seed is enough: 31.2 ms against 7.6 ms in both worlds. If the option had no effect,
    the two would be equal."""
    file = tmp_path / "drop.toml"
    file.write_text(DROP)
    result: dict[str, Any] = json.loads(sojourn("run", file, "--world", world, "-f", "json").stdout)
    delays: dict[bool, float] = {}
    for run in result["runs"]:
        hop = run["hops"]["bottleneck"]
        assert hop["utilisation"] > 0.99
        delays["max_gi_rtts" in run["set"]["hop.bottleneck.qdisc"]] = hop["queue_delay_ms"]["mean"]
    assert delays[True] < 0.5 * delays[False]
