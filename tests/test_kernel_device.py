"""The guest's network device: its rate to the nanosecond, its ring to the packet, and byte limits as in Linux."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import ROOT, Run, kernel_or_skip
from sojourn._core import Plan
from sojourn.kernel.probe import ACKED, RECORD, RING

FULL = 1514
"""Bytes of a full segment on a link."""
NS = 1_000_000_000
ACK = 66
"""Bytes of an ACK on a link."""


@pytest.fixture(autouse=True, scope="module")
def kernel() -> None:
    """The kernel that 'make test' built or restored."""
    kernel_or_skip()


def scenario(
    folder: Path, hop: str, *, duration: str = "3s", measure: str = "1s", flows: int = 4, flow: str = 'rtt = "4ms"'
) -> Path:
    """Bulk flows that overload a hop at once by default: they leave slow start only by a loss."""
    path = folder / "device.toml"
    path.write_text(
        f'duration = "{duration}"\nmeasure = ["{measure}", "end"]\n[host]\nhystart = false\n'
        f'[[hop]]\nname = "b"\n{hop}\n[[flow]]\nkind = "bulk"\ncount = {flows}\n{flow}\n'
    )
    return path


@dataclass
class Played:
    """A run's report, its packets that passed the hop rightward, in order, and the guest's own files."""

    run: dict[str, Any]
    bytes: Any
    start: Any
    end: Any
    guest: Path

    def records(self) -> Any:
        """Returns the records of the probe."""
        return np.fromfile(self.guest / "seen.bin", dtype=RECORD)


def play(sojourn: Run, file: Path, *arguments: object) -> Played:
    """Runs a scenario with all records."""
    out, guest = file.parent / "out", file.parent / "guest"
    more = ("--packets", "--out", out, "--keep", guest, "-f", "json", *arguments)
    [run] = json.loads(sojourn("run", file, "--world", "kernel", *more).stdout)["runs"]
    table = pq.read_table(out / "runs" / "0000.packets.parquet")
    column = {name: table[name].to_numpy() for name in ("link", "fate", "bytes", "start_ns", "end_ns")}
    here = (column["link"] == 0) & (column["fate"] == 0)
    order = np.argsort(column["end_ns"][here], kind="stable")
    bytes_, start, end = (column[name][here][order].astype(np.int64) for name in ("bytes", "start_ns", "end_ns"))
    return Played(run, bytes_, start, end, guest / "0000")


def longest_busy(start: Any, end: Any) -> slice:
    """Returns the longest sequence of packets in which each starts when the previous one ends."""
    breaks = np.flatnonzero(start[1:] != end[:-1]) + 1
    edges = np.concatenate([[0], breaks, [len(start)]])
    longest = int(np.argmax(np.diff(edges)))
    return slice(int(edges[longest]), int(edges[longest + 1]))


@pytest.mark.parametrize(
    ("rate", "bits", "duration"),
    [
        ("100kbit", 100_000, "40s"),
        ("1mbit", 1_000_000, "10s"),
        ("3333333bit", 3_333_333, "5s"),
        ("10mbit", 10_000_000, "3s"),
        ("100mbit", 100_000_000, "2s"),
        ("1gbit", 1_000_000_000, "600ms"),
    ],
)
def test_an_overloaded_device_drains_at_its_nominal_rate(
    rate: str, bits: int, duration: str, sojourn: Run, tmp_path: Path
) -> None:
    file = scenario(tmp_path, f'rate = "{rate}"\nqdisc = "pfifo limit 100"', duration=duration, measure="0s")
    played = play(sojourn, file)
    busy = longest_busy(played.start, played.end)
    count, took = busy.stop - busy.start, played.end[busy][-1] - played.start[busy][0]
    assert count > 200, "an overload"
    assert played.bytes[busy].sum() * 8 * NS / took == pytest.approx(bits, rel=1e-6)
    # Each packet by itself is rounded up to whole nanoseconds.
    assert ((played.end - played.start) == -(-played.bytes * 8 * NS // bits)).all()


def test_steps_of_the_rate_take_place_at_their_moment_also_within_a_packet(sojourn: Run, tmp_path: Path) -> None:
    steps = [(0.0, 10_000_000), (1.0, 100_000_000), (1.5, 1_000_000), (2.5, 30_000_000)]
    text = ", ".join(f'["{at}s", "{bits}bit"]' for at, bits in steps)
    played = play(sojourn, scenario(tmp_path, f'rate = [{text}]\nqdisc = "pfifo limit 400"', measure="0s"))
    times = np.array([at * NS for at, _ in steps] + [10 * NS])
    carried = np.concatenate([[0], np.cumsum(np.diff(times) * [bits for _, bits in steps] / (8 * NS))])
    # The bytes that the link could have carried between start and end of each packet are its own.
    area = np.interp(played.end, times, carried) - np.interp(played.start, times, carried)
    rates = np.array([bits for _, bits in steps])[np.searchsorted(times, played.end, side="left") - 1]
    assert np.abs(area - played.bytes).max() < 1e-6 * FULL + (2e-9 * rates / 8).max(), "to two nanoseconds"
    busy = longest_busy(played.start, played.end)
    first, last = played.start[busy][0], played.end[busy][-1]
    assert first < 1.0 * NS
    assert last > 2.5 * NS, "one overload over all steps"
    offered = np.interp(last, times, carried) - np.interp(first, times, carried)
    assert played.bytes[busy].sum() == pytest.approx(offered, rel=1e-6)


def test_a_trace_s_opportunities_each_carry_1500_bytes_of_what_waits(sojourn: Run, tmp_path: Path) -> None:
    opportunities = [1, 3, 3, 3, 7, 12, 13, 13, 20]  # milliseconds; the last one is the period
    (tmp_path / "x.down").write_text("".join(f"{ms}\n" for ms in opportunities))
    file = scenario(tmp_path, 'rate = { trace = "x.down" }\nqdisc = "pfifo limit 100"', measure="0s")
    played = play(sojourn, file)
    period = opportunities[-1]
    times = np.array([(turn * period + ms) * 1_000_000 for turn in range(160) for ms in opportunities])
    # After 500 ms the queue is never empty: each packet ends where the bytes up to it have had their opportunities.
    after = np.flatnonzero(played.end > NS // 2)
    ends, sizes = played.end[after], played.bytes[after]
    assert np.isin(ends, times).all()
    used = np.cumsum(sizes)
    for offset in range(0, 1500):  # the unused rest of the first packet's opportunity
        last = np.searchsorted(times, ends[0], side="right") - 1
        at = last + -(-(used - used[0] - offset) // 1500)
        if (times[np.maximum(at, last)] == ends).all():
            break
    else:
        pytest.fail("no start of the stream explains the ends of its packets")
    assert len(ends) > 800


@pytest.mark.parametrize("ring", [1, 80, 512, 4096])
def test_an_overloaded_ring_holds_what_it_is_nominally(ring: int, sojourn: Run, tmp_path: Path) -> None:
    file = scenario(
        tmp_path,
        f'rate = "100mbit"\nqdisc = "pfifo limit 1000"\nnic = {{ ring = {ring} }}',
        duration="4s",
        measure="2s",
        flows=8,
    )
    hop = play(sojourn, file).run["hops"]["b"]
    assert hop["utilisation"] == pytest.approx(1)
    held = hop["nic"]["ring_packets"]
    assert (held["p50"], held["max"]) == (ring, ring)
    assert held["mean"] == pytest.approx(ring, rel=1e-3)
    # The ring is beyond the discipline's control: each of its packets adds its transmission time.
    assert hop["sojourn_ms"]["p50"] > (ring - 1) * FULL * 8 / 100e6 * 1000
    assert hop["full_fraction"] is None


def recomputed(rings: Any, hz: int) -> list[tuple[int, int]]:
    """Computes limit and bytes in flight after each event as in lib/dynamic_queue_limits, implemented from its rules.

    A queue has starved if it sent all that its limit allowed, and all of that was completed before more data came: the
    limit grows by what a larger one would have let through. If it did not starve for `slack_hold_time`, the limit falls
    by the smallest excess in that time."""
    most = (2**32 - 1) // 2 - (2**32 - 1) // 16
    limit = queued = done = last_object = 0
    before_queued = before_over = before_object = 0
    slack_since, least_slack = 0, 2**32 - 1
    found = []
    for what, count, jiffies in zip(rings["fate"], rings["bytes"], rings["start"], strict=True):
        count, jiffies = int(count), int(jiffies)
        if what == 0:
            queued += count
            last_object = count
            found.append((limit, queued - done))
            continue
        completed, new = done + count, limit
        over = max(queued - done - limit, 0)
        in_progress, before_in_progress = queued - completed, before_queued - done
        all_before = completed >= before_queued
        if (over and not in_progress) or (before_over and all_before):
            new += max(completed - before_queued, 0) + before_over
            slack_since, least_slack = jiffies, 2**32 - 1
        elif in_progress and before_in_progress and not all_before:
            slack = max(limit + before_over - 2 * count, 0)
            least_slack = min(least_slack, max(slack, max(before_object - before_over, 0) if before_over else 0))
            if jiffies > slack_since + hz:
                new = max(limit - least_slack, 0)
                slack_since, least_slack = jiffies, 2**32 - 1
        new = min(new, most)
        if new != limit:
            limit, over = new, 0
        before_over, before_object, before_queued, done = over, last_object, queued, completed
        found.append((limit, queued - done))
    return found


@pytest.mark.parametrize(
    ("hop", "hz"),
    [
        ('rate = "10mbit"\nqdisc = "fq_codel"\nnic = { ring = 512, bql = true }', 250),
        ('rate = "100mbit"\nqdisc = "fq_codel"\nnic = { ring = 512, bql = true, coalesce = "1ms" }', 250),
        (
            'rate = [["0s", "100mbit"], ["1s", "2mbit"], ["4s", "50mbit"]]\nqdisc = "pfifo limit 300"\n'
            'nic = { ring = 256, bql = true, coalesce = "3ms" }',
            250,
        ),
    ],
)
def test_bql_s_limit_is_what_dynamic_queue_limits_gives(hop: str, hz: int, sojourn: Run, tmp_path: Path) -> None:
    played = play(sojourn, scenario(tmp_path, hop, duration="8s"))
    records = played.records()
    rings = records[(records["type"] == RING) & (records["link"] == 0)]
    expected = recomputed(rings, hz)
    assert len(expected) > 1000
    limits = [limit for limit, _ in expected]
    assert [(int(limit), int(inflight)) for limit, inflight in zip(rings["seq"], rings["ack"], strict=True)] == expected
    assert any(b < a for a, b in pairwise(limits)), "the limit fell too"
    # The guest's /sys shows the same values each second.
    shown = [line.split(",") for line in (played.guest / "byte_queue_limits.csv").read_text().splitlines()]
    compared = 0
    for at, device, limit, inflight in shown:
        last = int(np.searchsorted(rings["arrival"], int(at), side="right")) - 1
        near = np.abs(rings["arrival"][max(last, 0) : last + 2].astype(np.int64) - int(at)).min() < 5_000
        if device == "hop0r" and not near:
            assert (int(limit), int(inflight)) == expected[last]
            compared += 1
    assert compared >= 5
    assert played.run["hops"]["b"]["nic"]["ring_packets"]["p95"] < 100, "BQL keeps the ring short"


def test_a_coalesced_interrupt_frees_the_descriptors_late(sojourn: Run, tmp_path: Path) -> None:
    hop = 'rate = "10mbit"\nqdisc = "pfifo limit 100"\nnic = { ring = RING, coalesce = "500us" }'
    played = play(sojourn, scenario(tmp_path, hop.replace("RING", "1")))
    # One descriptor: each packet waits for the interrupt of the previous one.
    busy = played.start[1:] - played.end[:-1]
    assert (busy >= 500_000).all()
    assert np.median(busy) == 500_000
    (tmp_path / "more").mkdir()
    assert play(sojourn, scenario(tmp_path / "more", hop.replace("RING", "8"))).run["hops"]["b"][
        "utilisation"
    ] == pytest.approx(1)


def age_of_tick(at: Any, jiffies: Any, hz: int) -> int:
    """Returns the age of the tick at time zero in ns, from the numbers of ticks at some times."""
    tick = NS // hz
    numbers = (jiffies - jiffies[0]).astype(np.int64)
    least, most = (numbers * tick - at).max(), ((numbers + 1) * tick - at).min()
    assert least < most, "the ticks are of equal length"
    return int(least % tick)


@pytest.mark.parametrize(
    "hop",
    [
        'rate = "10mbit"\nqdisc = "pfifo limit 10000"\nnic = { ring = 80 }',
        'rate = "10mbit"\nqdisc = "pfifo limit 10000"\nnic = { ring = 512, bql = true }',
        'rate = "100mbit"\nqdisc = "pfifo limit 10000"\nnic = { ring = 512, bql = true, coalesce = "1ms" }',
        'rate = "20mbit"\nqdisc = "pfifo limit 10000"\nnic = { ring = 3, bql = true, coalesce = "100us" }',
        'rate = [["0s", "50mbit"], ["2s", "2mbit"], ["5s", "30mbit"]]\nqdisc = "pfifo limit 10000"\n'
        'nic = { ring = 256, bql = true, coalesce = "3ms" }',
    ],
)
def test_the_simulator_s_card_holds_what_the_guest_s_holds(hop: str, sojourn: Run, tmp_path: Path) -> None:
    """With the same arrivals, descriptors, limit and bytes in flight are the same after each event, to the nanosecond.

    BQL lowers its limit at most once a second: four seconds include that, and steps of the rate have eight."""
    file = scenario(tmp_path, hop, duration="8s" if '["5s"' in hop else "4s", flow='rtt = "4ms"\nrwnd = 60')
    played = play(sojourn, file)
    records = played.records()
    origin = json.loads((played.guest / "ended.json").read_text())["origin_ns"]
    here = records[records["link"] == 0]
    rings = here[here["type"] == RING]
    seen = np.stack([rings["arrival"] - np.uint64(origin), rings["payload"], rings["seq"], rings["ack"]], axis=1)
    packets = here[here["type"] == 0]
    packets = packets[np.lexsort((packets["start"], packets["arrival"]))]
    phase = age_of_tick(seen[:, 0].astype(np.int64), rings["start"], 250)
    plan = Plan.load(str(file), [], None, None)
    held = plan.ring(0, 0, (packets["arrival"] - np.uint64(origin)).tolist(), (packets["bytes"] - 14).tolist(), phase)
    assert len(held) == len(seen) > 1000
    np.testing.assert_array_equal(held, seen)


def test_a_paced_sender_never_sees_an_rtt_below_the_path_s(sojourn: Run, tmp_path: Path) -> None:
    """Packets paced by TCP leave at the time that TCP stamped on them, never at the time of an earlier arrival."""
    hop = 'rate = "100mbit"\ndelay = "10ms"\nqdisc = "pfifo limit 10000"'
    # The flows are slow enough to send each packet by itself, and enough that another has often just arrived.
    file = scenario(tmp_path, hop, duration="10s", flows=50, flow='rtt = "200ms"\ncc = "bbr"\nrwnd = 10')
    acked = play(sojourn, file).records()
    acked = acked[acked["type"] == ACKED]
    base_rtt = (200_000_000 + (FULL + ACK) * 8 * NS // 100_000_000) // 1000
    of_flows = [acked["bytes"][(acked["hosts"] == hosts).all(axis=1)] for hosts in np.unique(acked["hosts"], axis=0)]
    assert len(of_flows) == 50
    # The first record of a flow has the RTT of its handshake, whose packets are short.
    rtt_us = np.concatenate([seen[1:] for seen in of_flows])
    assert (rtt_us == base_rtt).sum() > 4000, "many find the path empty"
    assert rtt_us.min() == base_rtt


def test_the_key_of_a_card_is_read_and_not_with_shapers(sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, 'rate = "10mbit"\nqdisc = "pfifo limit 100"\nnic = { ring = 80 }')
    assert json.loads(sojourn("check", file, "-f", "json").stdout)["first"]["hops"][0]["nic"]["ring"] == 80
    wrong = sojourn("check", file, "--set", "hop.b.nic.rings=7", code=2)
    assert "ring" in wrong.stderr
    shaped = sojourn("run", file, "--world", "kernel", "--link", "htb", code=2)
    assert "nic: not with htb" in shaped.stderr


def of_the_ring_paper(sojourn: Run, ring: int, *words: str) -> Any:
    """Runs the ring paper's scenario, shortened."""
    sets = ("duration=60s", 'measure=["30s", "end"]', f"hop.router.nic.ring={ring}", *words)
    options = [part for word in sets for part in ("--set", word)]
    file = ROOT / "experiments/004-device-buffers/grid.toml"
    said = sojourn("run", file, "--world", "kernel", "--seeds", "1", "-f", "json", *options).stdout
    [run] = json.loads(said)["runs"]
    return run


def test_b1_ring_and_fifo_delay_by_all_packets_that_they_hold(sojourn: Run) -> None:
    """The oracle: (80 + 1000) packets of 1514 bytes at 5 Mbit/s are 2.6 s."""
    run = of_the_ring_paper(sojourn, 80, "hop.router.qdisc=pfifo limit 1000")
    assert run["hops"]["router"]["nic"]["ring_packets"]["max"] == 80
    assert run["flows"][-1]["rtt_ms"]["p95"] == pytest.approx((80 + 1000) * FULL * 8 / 5e6 * 1000, rel=0.02)


def test_b8a_with_bql_the_ring_holds_two_to_four_packets(sojourn: Run) -> None:
    run = of_the_ring_paper(sojourn, 2048, "hop.router.qdisc=pfifo limit 1000", "hop.router.nic.bql=true")
    assert 1 <= run["hops"]["router"]["nic"]["ring_packets"]["mean"] <= 4


def test_k1_drop_tail_of_25_packets_delays_by_300_ms(sojourn: Run) -> None:
    """The rural paper's test bed: 25 packets of 12 ms."""
    sets = ("duration=60s", "hop.bottleneck.delay=22.5ms", "hop.bottleneck.qdisc=pfifo limit 25")
    options = [part for word in sets for part in ("--set", word)]
    file = ROOT / "experiments/000-rural-codel/testbed.toml"
    said = sojourn("run", file, "--world", "kernel", "--seeds", "1", "-f", "json", *options).stdout
    [run] = json.loads(said)["runs"]
    assert 270 <= run["hops"]["bottleneck"]["sojourn_ms"]["max"] <= 312


def test_an_atm_link_sends_cells_in_both_worlds(sojourn: Run, tmp_path: Path) -> None:
    """RFC 2684 and AAL5: a packet with its overhead fills cells of 53 bytes, which carry 48 each."""
    file = tmp_path / "adsl.toml"
    hop = '[[hop]]\nname = "line"\nrate = "1mbit"\ndelay = "10ms"\noverhead = 18\nlinklayer = "atm"\n'
    flows = '[[flow]]\nkind = "bulk"\n[[flow]]\nkind = "pings"\ninterval = "100ms"\n'
    sweep = '[sweep]\n"hop.line.qdisc" = ["pfifo limit 20", "bfifo limit 17000"]\n'
    file.write_text(f'duration = "20s"\nmeasure = ["5s", "end"]\n{hop}{flows}{sweep}')
    # 1500 + 18 bytes are 32 cells, 84 + 18 bytes are 3.
    full, ping = 32 * 53, 3 * 53
    for world in ("sim", "kernel"):
        out = tmp_path / world
        runs = json.loads(sojourn("run", file, "--world", world, "--packets", "--out", out, "-f", "json").stdout)[
            "runs"
        ]
        for place, run in enumerate(runs):
            table = pq.read_table(out / "runs" / f"{place:04}.packets.parquet").to_pydict()
            rows = [at for at, link in enumerate(table["link"]) if link == 0 and table["fate"][at] == 0]
            lengths = {table["bytes"][at] for at in rows}
            assert {full, ping} <= lengths, world
            assert all(length % 53 == 0 for length in lengths), world
            times = {(table["bytes"][at], table["end_ns"][at] - table["start_ns"][at]) for at in rows}
            assert (full, full * 8_000) in times, world
            assert (ping, ping * 8_000) in times, world
            assert run["hops"]["line"]["delivered_bytes"] == pytest.approx(15e6 / 8, rel=0.01), world
            # 17000 bytes hold ten full packets.
            if place == 1:
                assert run["hops"]["line"]["queue_packets"]["max"] <= 10 + 17000 / 1696, world
                assert run["hops"]["line"]["sojourn_ms"]["max"] == pytest.approx(8 * 17000 / 1000, rel=0.15), world
