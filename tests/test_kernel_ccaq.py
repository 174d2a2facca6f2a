"""ccaq's module in real Linux: the round-trip times that it sees in handshakes, and its statistics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import guest_senders
from guest_senders import WAYS


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of `tc -s` during a transfer over 50 ms, for each encapsulation of packets. Packets wait
    then, so that the flow is in the round.
    """
    folder = tmp_path_factory.mktemp("guest")
    below_htb = [
        "tc qdisc add dev dut0 root handle 1: htb default 1",
        "tc class add dev dut0 parent 1: classid 1:1 htb rate 1mbit",
        "tc qdisc add dev dut0 parent 1:1 handle 2: ccaq idle 2%",
    ]
    guest_senders.play(guest_senders.kernel_with("sch_ccaq"), folder, "ccaq", below_htb)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_the_module_sees_the_round_trip_of_a_tcp_handshake(seen: Path, way: str) -> None:
    _, queue = json.loads((seen / f"{way}.json").read_text())
    assert (queue["kind"], queue["options"]["idle"], queue["options"]["ecn"]) == ("ccaq", 2, True)
    assert queue["qlen"] > 0
    rtt = 0 if way == "udp" else 50_000
    assert queue["min_rtt"] == queue["max_rtt"] == pytest.approx(rtt, abs=1500)
    # The first target is a quarter of the RTT, and 20 ms without one.
    assert queue["min_target"] == pytest.approx(rtt / 4 or 20_000, abs=500)


@pytest.mark.parametrize("way", ["ipv4", "udp"])
def test_tc_prints_what_was_learned_about_each_flow(seen: Path, way: str) -> None:
    text = (seen / f"{way}.text").read_text()
    assert "limit 10000p memory_limit 32Mb flows 1024 quantum 1514 idle 2% ecn" in text
    us = {"ms": 1000, "us": 1, "ns": 0}
    shown = [float(time[:-2]) * us[time[-2:]] for time in re.findall(r"(?:target|rtt|to) (\d\S*)", text)]
    target, rtt = (12_500, 50_000) if way == "ipv4" else (20_000, 0)
    assert shown == pytest.approx([target, target, rtt, rtt], abs=1500), text
    classes = (seen / f"{way}.classes").read_text()
    learned = (
        r"class ccaq 2:\w+ parent 2: .*?deficit -?\d+ count \d+ target (\d+)us rtt (\d+)us idle \d+\.\d\d% of \d+us"
    )
    [found] = re.findall(learned, classes, re.S)
    assert [int(number) for number in found] == pytest.approx([target, rtt], abs=1500)
