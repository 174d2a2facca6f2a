"""The module's `max_gi_rtts` in real Linux: the round-trip time that it measures, and its effect on guard intervals."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, skip_loudly
from sojourn.errors import Refusal
from sojourn.kernel import Kernel, boot, find, modules, tools

INIT = """\
#!{box} sh
{box} mount -t proc proc /proc
{box} mount -t sysfs sysfs /sys
{box} mount -t tmpfs tmpfs /run
{box} mount -t tmpfs tmpfs /mnt
{box} mkdir /run/netns /mnt/run /mnt/modules
{box} mount -t hostfs -o /proc/self/cwd/modules none /mnt/modules
{box} mount -t hostfs -o /proc/self/cwd/run none /mnt/run
cd /mnt/run
{box} insmod /mnt/modules/sch_ccaq_paper.ko
export TC_LIB_DIR="$PWD"
{box} sh ./network.sh >said 2>&1
{box} sync
{box} poweroff -f
"""
NETWORK = """\
set -eux
ip() {{ {ip} "$@"; }}
tc() {{ {tc} "$@"; }}
ip netns add far
ip link set lo up
ip link add dut0 type veth peer name dut1 netns far
# The inner of two tags is in the packet itself.
ip link add link dut0 name dut0.4 type vlan id 4
ip link add link dut0.4 name dut0.5 type vlan id 5
ip -n far link add link dut1 name dut1.4 type vlan id 4
ip -n far link add link dut1.4 name dut1.5 type vlan id 5
ip addr add 10.9.0.1/24 dev dut0
ip addr add fd09::1/64 dev dut0 nodad
ip addr add 10.9.5.1/24 dev dut0.5
ip -n far addr add 10.9.0.2/24 dev dut1
ip -n far addr add fd09::2/64 dev dut1 nodad
ip -n far addr add 10.9.5.2/24 dev dut1.5
for device in dut0 dut0.4 dut0.5; do ip link set $device up; done
for device in lo dut1 dut1.4 dut1.5; do ip -n far link set $device up; done
tc -n far qdisc add dev dut1 root netem delay 50ms limit 10000
ip netns exec far {python} far.py &
# Neighbours learn of each other; a way that does not carry a packet is seen below, where near.py connects.
for address in 10.9.0.2 fd09::2 10.9.5.2; do ping -c 2 $address || true; done
for way in {ways}; do
    tc qdisc replace dev dut0 root handle 1: ccaq_paper max_gi_rtts 4
    {python} near.py "$way"
    tc -s -j qdisc show dev dut0 >"$way.json"
    tc -s qdisc show dev dut0 >"$way.text"
    tc qdisc del dev dut0 root
done
echo '{{"ok": true}}' >ended.json
"""
FAR = """\
import socket

listener = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    connection.close()
"""
NEAR = """\
import socket, sys, time

way = sys.argv[1]
if way == "udp":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(20):
            sender.sendto(b"x" * 1000, ("10.9.0.2", 9))
    sys.exit()
address = {"ipv4": "10.9.0.2", "vlan": "10.9.5.2"}.get(way, "fd09::2")
sender = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
if way == "ipv6-options":
    # Padding of four bytes in a header of destination options (59), before TCP's.
    sender.setsockopt(socket.IPPROTO_IPV6, 59, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
sender.connect((address, 7))
time.sleep(0.5)
sender.sendall(b"x" * 20000)
time.sleep(0.5)
sender.close()
time.sleep(0.5)
"""
WAYS = ("ipv4", "ipv6", "ipv6-options", "vlan", "udp")
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
def kernel() -> Kernel:
    """The kernel that 'make test' built or restored, with our module only."""
    try:
        found = find()
        modules.tc_plugins()
        tools.real("busybox", "busybox-static")
    except Refusal as error:
        skip_loudly(str(error))
        raise
    return replace(found, modules={"sch_ccaq_paper": found.modules["sch_ccaq_paper"]})


@pytest.fixture(scope="module")
def seen(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of `tc -s` after a connection over 50 ms, for each encapsulation of packets."""
    folder = tmp_path_factory.mktemp("guest")
    box = tools.real("busybox", "busybox-static")
    names = {"ip": tools.real("ip", "iproute2"), "tc": tools.real("tc", "iproute2"), "python": sys.executable}
    (folder / "network.sh").write_text(NETWORK.format(ways=" ".join(WAYS), **names))
    (folder / "far.py").write_text(FAR)
    (folder / "near.py").write_text(NEAR)
    (folder / "q_ccaq_paper.so").write_bytes((modules.tc_plugins() / "q_ccaq_paper.so").read_bytes())
    init = folder / "init.sh"
    init.write_text(INIT.format(box=box))
    init.chmod(0o755)
    ended = boot(kernel, "{}", folder, program=init, timeout_s=120)
    assert ended.error is None, (folder / "said").read_text() + ended.console
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
