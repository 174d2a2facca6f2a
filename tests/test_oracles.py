"""Oracles: results that can be computed by hand, or that a paper states so clearly that a simulator must show them.

Each test names the claim that it checks. The papers are Nichols and Jacobson 2012 (N), Kulatunga et al. 2015 (K), the
CCAQ paper (C), and Speidel and Qian 2018 (S). Tolerances were fixed before the first run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from conftest import ROOT, Run
from sojourn import _core

MS = 1_000_000
"""Nanoseconds in a millisecond."""
RTT = 200 * MS
"""RTT of the paths of figures 1 to 4, which hold 20 packets of 10 ms."""
DATA, RETRANSMIT = 0, 1

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """One run: its entry in the JSON, and the packets of its first hop if they were kept."""

    result: dict[str, Any]
    packets: dict[str, Times]

    @property
    def hop(self) -> dict[str, Any]:
        """The measures of the first hop."""
        return dict(next(iter(self.result["hops"].values())))

    def delivered(self, *kinds: int) -> dict[str, Times]:
        """The packets that the first hop transmitted, of these kinds if any are named."""
        keep = self.packets["fate"] == 0
        if kinds:
            keep &= np.isin(self.packets["kind"], kinds)
        return {name: column[keep] for name, column in self.packets.items()}


def play(scenario: str | Path, *sets: tuple[str, str], seeds: int | None = None, packets: bool = False) -> list[Seen]:
    """Runs a file of scenarios/, or one of the test's own, with all values of its sweep."""
    path = ROOT / "scenarios" / f"{scenario}.toml" if isinstance(scenario, str) else scenario
    plan = _core.Plan.load(str(path), list(sets), None, seeds)
    return [seen(plan, index, packets) for index in range(len(plan))]


def seen(plan: _core.Plan, index: int, packets: bool) -> Seen:
    output = plan.run(index, packets=packets, series=False)
    assert output is not None
    rows = output.packets() if packets else {}
    first = rows["link"] == 0 if packets else None
    return Seen(output.result(), {name: rows[name][first].astype(np.int64) for name in rows})


def waiting(run: Seen) -> tuple[Times, Times]:
    """The times at which the first queue changes, and its length from then on. The last second is excluded: packets
    that are still queued at the end of the run have no record."""
    rows = run.delivered()
    came, went = np.sort(rows["arrival_ns"]), np.sort(rows["start_ns"])
    moments = np.unique(np.concatenate([came, went]))
    length = np.searchsorted(came, moments, side="right") - np.searchsorted(went, moments, side="right")
    early = moments < run.result["duration_s"] * 1e9 - 1e9
    return moments[early], length[early]


def bursts(arrivals: Times) -> list[Times]:
    """Splits arrivals at gaps of more than 2 ms."""
    return np.split(arrivals, np.nonzero(np.diff(arrivals) > 2 * MS)[0] + 1)


@pytest.fixture(scope="module")
def standing() -> Seen:
    """25 packets over a path that holds 20."""
    (run,) = play("standing-queue", packets=True)
    return run


def test_n1_a_window_of_25_over_a_pipe_of_20_leaves_5_packets_standing(standing: Seen) -> None:
    """N1: 5 ± 1 packets from the second round trip on, at all times."""
    moments, length = waiting(standing)
    late = length[moments > moments[0] + 2 * RTT]
    assert len(late) > 500
    assert (late.min(), late.max()) in [(4, 5), (5, 5), (5, 6), (4, 6)]
    assert standing.hop["queue_packets"]["p50"] == 5


def test_n2_the_first_peak_is_gone_after_one_round_trip(standing: Seen) -> None:
    """N2: from the first packet of the burst until at most 6 are queued: at most 1.1 RTT."""
    moments, length = waiting(standing)
    first = standing.delivered(DATA)["arrival_ns"][0]
    peak = moments[length.argmax()]
    assert length.max() >= 20
    gone = moments[(moments > peak) & (length <= 6)][0]
    assert peak < gone <= first + 1.1 * RTT


def test_n4_packet_i_of_the_first_burst_waits_9_times_i_minus_1_ms(standing: Seen) -> None:
    """N4: exact. Packets take 1 ms at 100 Mbit/s and 10 ms at 10 Mbit/s: each finds 9 ms more of queue."""
    rows = standing.delivered(DATA)
    waits = (rows["start_ns"] - rows["arrival_ns"])[:25]
    assert waits.tolist() == [9 * i * MS for i in range(25)]


def test_n3_one_ack_a_round_trip_gives_a_burst_that_is_gone_when_the_next_comes() -> None:
    """N3: one burst per RTT, of which no packet (± 1) is left before the next; utilisation about 100 %."""
    run = play("ack-per-window", packets=True)[0]
    assert run.result["set"] == {"flow.bulk0.cc": "fixed 39"}
    groups = bursts(run.delivered(DATA)["arrival_ns"])[1:-2]
    assert len(groups) > 40
    assert {len(group) for group in groups} == {20}
    periods = np.diff([group[0] for group in groups])
    # The path of 20 packet times, and the transmission of the ACK: 52 bytes at 10 Mbit/s and twice at 100 Mbit/s.
    assert set(periods) == {RTT + 49_920}
    moments, length = waiting(run)
    for group in groups:
        if group[0] + RTT > moments[-1]:
            break
        trip = length[(moments >= group[0]) & (moments < group[0] + RTT)]
        assert trip.min() <= 1
        assert trip.max() in (17, 18), "20 arrive while 2 leave"
    assert run.hop["utilisation"] > 0.999


def test_n3_taken_literally_a_window_of_20_uses_20_of_39_packet_times() -> None:
    """N3 with the window that the paper states: a sender that is clocked by ACKs of delivered data cannot fill the
    link.

    W packets, followed by the round trip without the one packet on the link, P - 1: W / (P + W - 1)."""
    run = play("ack-per-window", packets=True)[1]
    assert run.result["set"] == {"flow.bulk0.cc": "fixed 20"}
    groups = bursts(run.delivered(DATA)["arrival_ns"])[:-2]
    assert {len(group) for group in groups} == {20}
    cycle = float(np.diff([group[0] for group in groups]).mean())
    assert 20 * 10 * MS / cycle == pytest.approx(20 / (20 + 20 - 1), abs=0.001)
    # The measuring window is not a whole number of cycles.
    assert run.hop["utilisation"] == pytest.approx(20 / 39, abs=0.5 * cycle / 8e9)


def test_k1_25_packets_of_12_ms_make_a_queue_of_300_ms() -> None:
    """K1: DropTail's largest queueing delay at 1 Mbit/s, low and high load: 270 to 312 ms."""
    for scenario in ("rural-low", "rural-high"):
        for run in play(scenario, ("hop.bottleneck.qdisc", "pfifo limit 25"), seeds=10):
            assert 270 <= run.hop["sojourn_ms"]["max"] <= 312


def test_s1_120_kb_at_16_mbit_are_60_ms() -> None:
    """S1: the largest sojourn time with a buffer of 120 kB: 57 to 62 ms."""
    for run in play("geo-16mbit", ("hop.satellite.qdisc", "bfifo limit 120000"), seeds=10):
        assert 57 <= run.hop["sojourn_ms"]["max"] <= 62


def test_s8_a_queue_of_2000_kb_triples_the_round_trip() -> None:
    """S8: the largest RTT of the pings is 2.5 to 3.2 times the base RTT of 500 ms."""
    for run in play("geo-16mbit", ("hop.satellite.qdisc", "bfifo limit 2000000"), seeds=10):
        (ping,) = [flow for flow in run.result["flows"] if flow["kind"] == "pings"]
        assert 2.5 * 500 <= ping["rtt_ms"]["max"] <= 3.2 * 500


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        pytest.param("2bdp", 2_000_000, id="classic"),
        pytest.param("0.125bdp", 125_000, id="Appenzeller, 64 flows"),
        pytest.param("0.0625bdp", 62_500, id="Appenzeller, 256 flows"),
        # S10: 120 kB are the rule's buffer for 69 flows, not for 256: BDP / √69, to the byte.
        pytest.param("0.12038585308576921bdp", 120_386, id="Appenzeller, 69 flows"),
    ],
)
def test_s11_buffers_in_bdp_are_exact(written: str, bytes_: int) -> None:
    """S11: 2 BDP, or BDP / √n; 16 Mbit/s times 500 ms are 1 000 000 bytes."""
    plan = _core.Plan.load(
        str(ROOT / "scenarios/geo-16mbit.toml"), [("hop.satellite.qdisc", f"bfifo limit {written}")], None, None
    )
    assert plan.describe(0)["hops"][0]["qdisc"] == f"bfifo limit {bytes_}"


def test_c1_fq_keeps_a_standing_queue_when_the_rate_halves() -> None:
    """C1: one CUBIC flow with 100 packets of 1514 B: RTT between 0.7 and 1 of base + buffer, at 20 and at 10 Mbit/s.

    100 · 1514 · 8 / 20e6 = 60.6 ms over a base of 10 ms: 49.4 to 70.6 ms, then 91.8 to 131.1 ms, each ± 4 ms;
    throughput in IP bytes 19.85 and 9.95 Mbit/s ± 1 %."""
    fq = "fq limit 10000 flow_limit 100 quantum 3028 initial_quantum 3028 nopacing"
    (run,) = play("ccaq-halving", ("hop.bottleneck.qdisc", fq), packets=True)
    rows = run.delivered(DATA, RETRANSMIT)
    rtt_ms = (rows["end_ns"] - rows["arrival_ns"]) / MS + 10
    for (begin, end), (least, most), mbit in [((5, 30), (49.4, 70.6), 19.85), ((35, 60), (91.8, 131.1), 9.95)]:
        inside = (rows["end_ns"] >= begin * 1e9) & (rows["end_ns"] < end * 1e9)
        assert rtt_ms[inside].min() == pytest.approx(least, abs=4)
        assert rtt_ms[inside].max() == pytest.approx(most, abs=4)
        assert (rows["bytes"][inside] - 14).sum() * 8e-6 / (end - begin) == pytest.approx(mbit, rel=0.01)


ONE_FLOW = """\
title = "One flow and its least buffer"
duration = "{end}s"
measure = ["{begin}s", "end"]

[[hop]]
name = "bottleneck"
rate = "{rate}"
delay = "5ms"
overhead = 0
qdisc = "pfifo limit 1bdp"
reverse = {{ qdisc = "pfifo limit 10000" }}

[[flow]]
kind = "bulk"
cc = "{cc}"
rtt = "{rtt}"
"""


@pytest.fixture
def utilisations(tmp_path: Path) -> Callable[..., list[float]]:
    """The utilisation of one flow's link in steady state, for several buffers in bdp."""

    def measure(buffers: list[float], **link: object) -> list[float]:
        path = tmp_path / "one.toml"
        path.write_text(ONE_FLOW.format(**link))
        limits = [f"pfifo limit {buffer}bdp" for buffer in buffers]
        return [play(path, ("hop.bottleneck.qdisc", limit))[0].hop["utilisation"] for limit in limits]

    return measure


def test_b_min_of_reno_is_one_bdp(utilisations: Callable[..., list[float]]) -> None:
    """B_min = BDP (1/β - 1), β = 1/2: full utilisation with 1 BDP, 27/28 of it with half of that.

    With B = BDP/2 the window grows from 3/4 to 3/2 BDP, by a packet per round trip: BDP/4 round trips of one RTT at 7/8
    on average, then BDP/2 round trips of 5/4 RTT on average at full rate."""
    full, half = utilisations([1, 0.5], cc="reno", rate="20mbit", rtt="100ms", begin=60, end=300)
    assert full >= 0.995
    assert half == pytest.approx((1 / 4 * 7 / 8 + 1 / 2 * 5 / 4) / (1 / 4 + 1 / 2 * 5 / 4), abs=0.01)
    assert half < full - 0.02


@pytest.mark.parametrize(
    ("rate", "rtt"),
    [
        pytest.param(
            "100mbit", "100ms", id="cubic region"
        ),  # 833 packets: K is 9 s, in which Reno would gain 50 packets
        pytest.param("20mbit", "20ms", id="Reno-friendly region"),  # 33 packets: W_est is larger all the time
    ],
)
def test_b_min_of_cubic_is_0_43_bdp(utilisations: Callable[..., list[float]], rate: str, rtt: str) -> None:
    """B_min = BDP (1/β - 1), β = 0.7: in both of CUBIC's regions, as the decrease is the same; less utilisation at half
    of it."""
    full, half = utilisations([0.42857, 0.214285], cc="cubic", rate=rate, rtt=rtt, begin=50, end=200)
    assert full >= 0.995
    assert half < full - 0.01


def test_p1_of_the_bench_is_the_link_that_it_is_said_to_be(sojourn: Run) -> None:
    """P1: utilisation within 2 points of 0.955, the median sojourn time between 0.5 and 2 ms."""
    found = json.loads(sojourn("bench", "P1").stdout)
    assert found["utilisation"] == pytest.approx(0.955, abs=0.02)
    assert 0.5 <= found["sojourn_ms"]["p50"] <= 2
