"""The quantities of the CCAQ paper's claims: a function for each claim of claims.toml.

A data packet's RTT is its flow's base RTT, its time in the queue and its own transmission, as the paper's captures show
it; throughput counts IP bytes, as the paper's does. Both come from the queue over time. Where only the mean is asked
for, it is that of the sender's own samples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sojourn.claims import Floats, Quantities, Runs
from sojourn.records import Columns, RunRecord

Needs = Mapping[str, Runs]
ETHERNET = 14
"""Bytes that the link counts on top of IP."""
PACKET_BITS = 8 * 1514
FQ, FQ_CODEL, CCAQ, CAKE = "fq ", "fq_codel", "ccaq", "cake"
HALF = "multiplier 0.5"


# ---- a queue over time ----


class Trace(NamedTuple):
    """The bottleneck of a run over time, in the bins of its series."""

    columns: Columns
    rate: Columns
    base_ms: float
    """The flow's base RTT at first, without what the path's delay loses later."""

    @classmethod
    def of(cls, record: RunRecord) -> Trace:
        """The record of a run's first hop."""
        hop = record.about["hops"][0]["name"]
        return cls(record.series[hop], record.rates[hop], float(record.about["flows"][0]["base_rtt_ms"]))

    @property
    def time_s(self) -> Floats:
        """Where the bins begin."""
        return np.asarray(self.columns["time_s"], float)

    def within(self, begin: float, until: float) -> Trace:
        """The bins of this time."""
        inside = (self.time_s >= begin) & (self.time_s < until)
        return Trace({name: column[inside] for name, column in self.columns.items()}, self.rate, self.base_ms)

    def link_mbit(self) -> Floats:
        """The rate of the link in each bin, in Mbit/s."""
        last = np.searchsorted(self.rate["time_s"], self.time_s, side="right") - 1
        return np.asarray(self.rate["mbit"], float)[last]

    def rtt_ms(self, which: str) -> Floats:
        """`min`, `mean` or `max` of the data packets' RTTs in each bin; NaN where none left."""
        sent = np.where(self.columns["delivered_packets"] > 0, 1.0, np.nan)
        return (self.base_ms + self.columns[f"sojourn_{which}_ms"] + PACKET_BITS / self.link_mbit() / 1e3) * sent

    def mean_rtt_ms(self) -> float:
        """Over all packets."""
        return float(np.average(np.nan_to_num(self.rtt_ms("mean")), weights=self.columns["delivered_packets"]))

    def mbit(self, seconds: float) -> float:
        """IP bytes per second."""
        ip = self.columns["delivered_bytes"] - ETHERNET * self.columns["delivered_packets"]
        return 8 * float(ip.sum()) / seconds / 1e6


def traces(runs: Runs) -> Iterator[Trace]:
    """Each run's."""
    return (Trace.of(record) for record in runs.recorded())


def _of(runs: Runs, number: Callable[[Trace], float]) -> Floats:
    """A number of each run's trace."""
    return np.array([number(trace) for trace in traces(runs)])


def _mbit(runs: Runs, begin: float, until: float) -> Floats:
    return _of(runs, lambda trace: trace.within(begin, until).mbit(until - begin))


def _mean_rtt(runs: Runs, begin: float, until: float) -> Floats:
    return _of(runs, lambda trace: trace.within(begin, until).mean_rtt_ms())


def _least_rtt(runs: Runs, begin: float, until: float) -> Floats:
    return _of(runs, lambda trace: float(np.nanmin(trace.within(begin, until).rtt_ms("min"))))


def _greatest_rtt(runs: Runs, begin: float, until: float) -> Floats:
    return _of(runs, lambda trace: float(np.nanmax(trace.within(begin, until).rtt_ms("max"))))


# ---- figures 4 to 6 ----

DOUBLED_MBIT = 40 * 1500 / 1514
"""The IP bytes that fit into 40 Mbit/s of Ethernet."""


def c1(runs: Needs) -> Quantities:
    """fq's standing queue before and after the rate halves."""
    fq = runs["halving"].of(FQ)
    return {
        "least-rtt-before": _least_rtt(fq, 5, 30),
        "greatest-rtt-before": _greatest_rtt(fq, 5, 30),
        "least-rtt-after": _least_rtt(fq, 35, 60),
        "greatest-rtt-after": _greatest_rtt(fq, 35, 60),
        "throughput-before": _mbit(fq, 5, 30),
        "throughput-after": _mbit(fq, 35, 60),
    }


def c2(runs: Needs) -> Quantities:
    """CCAQ in place of fq, and the peak of its first seconds, which its 100 packets cause."""
    fq, ccaq = (runs["halving"].of(word) for word in (FQ, CCAQ))
    return {
        "rtt-before": _mean_rtt(ccaq, 5, 30),
        "rtt-after": _mean_rtt(ccaq, 35, 60),
        "throughput-before": 100 * _mbit(ccaq, 5, 30) / _mbit(fq, 5, 30),
        "throughput-after": 100 * _mbit(ccaq, 35, 60) / _mbit(fq, 35, 60),
        "also: greatest RTT in the first 5 s, ms": _greatest_rtt(ccaq, 0, 5),
        "also: greatest RTT 35–60 s, ms": _greatest_rtt(ccaq, 35, 60),
    }


def c3(runs: Needs) -> Quantities:
    """CCAQ when the rate doubles."""
    ccaq = runs["doubling"].of(CCAQ)
    return {
        "throughput-after": 100 * _mbit(ccaq, 35, 60) / DOUBLED_MBIT,
        "rtt-after": _mean_rtt(ccaq, 35, 60),
        "also: throughput 30–35 s, Mbit/s": _mbit(ccaq, 30, 35),
    }


# ---- figures 7 and 8, and the table ----


def _ip_bytes(runs: Runs) -> Floats:
    return runs.values("delivered_bytes") - ETHERNET * runs.values("delivered_packets")


def _rtt(runs: Runs) -> Floats:
    """The mean of the sender's samples, in ms."""
    return runs.values("flows.bulk0.rtt_ms.mean")


def _busy(runs: Runs) -> Floats:
    """IP bytes in percent of the configured rate, as in the paper's table: 99.07 at most."""
    return 100 * _ip_bytes(runs) * 8 / 240 / 100e6


def c4(runs: Needs) -> Quantities:
    """fq_codel at 100 ms."""
    codel = runs["far"].of(FQ_CODEL)
    return {
        "bytes": _ip_bytes(codel) / 1e6,
        "rtt": _rtt(codel),
        "also: 95th percentile of the queue's delay, ms": codel.values("sojourn_ms.p95"),
        "also: its maximum, ms": codel.values("sojourn_ms.max"),
    }


def c5(runs: Needs) -> Quantities:
    """CCAQ at 100 ms."""
    codel, ccaq = (runs["far"].of(word) for word in (FQ_CODEL, CCAQ))
    return {
        "bytes": _ip_bytes(ccaq) / 1e6,
        "bytes-of-fq-codel": _ip_bytes(ccaq) / _ip_bytes(codel),
        "rtt": _rtt(ccaq),
        "also: the first 10 s, Mbit/s": _mbit(ccaq, 0, 10),
        "also: fq_codel's, Mbit/s": _mbit(codel, 0, 10),
    }


def _cell(cc: str, qdisc: str) -> Callable[[Needs], Quantities]:
    """A cell of the paper's table."""

    def cell(runs: Needs) -> Quantities:
        chosen = runs[cc].of(qdisc)
        return {"utilisation": _busy(chosen), "rtt": _rtt(chosen)}

    return cell


def c6_ccaq(runs: Needs) -> Quantities:
    """CUBIC with CCAQ at the table's RTT, and at RTTs around it."""
    near = runs["cubic-near"]
    base = _of(near, lambda trace: trace.base_ms)
    deepest = _of(near, lambda trace: float(trace.within(120, 240).columns["queue_packets_max"].max()))
    return {
        **_cell("cubic", CCAQ)(runs),
        "also: mean RTT at RTTs of 49 to 51 ms, as if at 50": _rtt(near) - base + 50,
        "also: seeds of those with a buffer of more than 250 packets, of 1": np.asarray(deepest > 250, float),
    }


c6_fq, c6_fq_codel = (_cell("cubic", qdisc) for qdisc in (FQ, FQ_CODEL))
c7_fq, c7_fq_codel, c7_ccaq = (_cell("reno", qdisc) for qdisc in (FQ, FQ_CODEL, CCAQ))


def c8(runs: Needs) -> Quantities:
    """Reno's gain from CCAQ."""
    codel, ccaq = (runs["reno"].of(word) for word in (FQ_CODEL, CCAQ))
    return {"ratio": _ip_bytes(ccaq) / _ip_bytes(codel)}


# ---- small BDPs, cake, BBR ----


def _small(runs: Needs, rtt: str) -> Quantities:
    codel, ccaq = (runs["small-bdp"].of(f"rtt={rtt}", word) for word in (FQ_CODEL, CCAQ))
    late = [_rtt(runs["small-bdp-late"].of(f"rtt={rtt}", word)) for word in (CCAQ, FQ_CODEL)]
    return {
        "fq-codel-rtt": _rtt(codel),
        "ccaq-rtt-less": _rtt(ccaq) - _rtt(codel),
        "also: CCAQ's less fq_codel's from 5 s on, ms": late[0] - late[1],
        "also: fq_codel's with each packet acknowledged, ms": _rtt(runs["small-bdp-every"].of(f"rtt={rtt}", FQ_CODEL)),
        "also: utilisation of fq_codel, %": 100 * codel.values("utilisation"),
        "also: of CCAQ, %": 100 * ccaq.values("utilisation"),
    }


def c9a(runs: Needs) -> Quantities:
    """A base RTT of 5 ms, at the rate of the data and at five times that."""
    fast = runs["small-bdp-fast"]
    return {**_small(runs, "5ms"), "also: fq_codel's at 100 Mbit/s, ms": _rtt(fast.of(FQ_CODEL))}


def c9b(runs: Needs) -> Quantities:
    """A base RTT of 1 ms."""
    return _small(runs, "1ms")


def c10(runs: Needs) -> Quantities:
    """cake against fq_codel."""

    def apart(cc: str, number: Callable[[Runs], Floats]) -> Floats:
        cake, codel = (number(runs[cc].of(word)) for word in (CAKE, FQ_CODEL))
        return cake - codel

    return {
        "cubic-utilisation": apart("cubic", _busy),
        "cubic-rtt": apart("cubic", _rtt),
        "reno-utilisation": apart("reno", _busy),
        "reno-rtt": apart("reno", _rtt),
    }


def c11(runs: Needs) -> Quantities:
    """BBR over CCAQ: from 30 s on the base RTT is 5 ms less."""
    bbr = runs["bbr"]
    return {
        "throughput-before": _mbit(bbr, 5, 30),
        "throughput-after": _mbit(bbr, 35, 60),
        "rtt-before": _mean_rtt(bbr, 5, 30),
        "rtt-after": _mean_rtt(bbr, 35, 60) - 5,
        "also: the first second, Mbit/s": _mbit(bbr, 0, 1),
        "also: greatest RTT of it, ms": _greatest_rtt(bbr, 0, 1),
    }


# ---- the algorithm and its parameters ----

STATEMENTS = (
    "the_first_interval_never_adapts",
    "the_limit_grows_by_packets_per_active_time_times_idle_time",
    "the_limit_grows_once_an_interval",
    "growth_stops_at_max_increase_times_the_limit",
    "the_cut_is_the_least_queue_of_the_longest_interval",
)
TESTS = Path(__file__).resolve().parents[2] / "crates/core/src/qdisc/ccaq/paper.rs"


def c12(_runs: Needs) -> Quantities:
    """The number of statements of Algorithm 1 that a unit test names. `make test` runs these tests."""
    names = re.findall(r"#\[test\]\s+fn c12_(\w+)", TESTS.read_text(encoding="utf-8"))
    there = sum(any(name.startswith(statement) for name in names) for statement in STATEMENTS)
    return {"statements-tested": float(there)}


VIRTUALLY_NOTHING = (10, 0.25)
"""A buffer of at most a tenth of the hundred packets that it began with, and of a quarter of the BDP: no sender needs
as little."""


def _least_lossy(trace: Trace, from_s: float = 0) -> float:
    """The least buffer at which a packet was lost, in packets: the queue is full then; inf without a loss.

    The limit is estimated by the greatest queue of a bin with losses, which is no less than the limit at the loss.
    """
    lost = (trace.columns["drops"] > 0) & (trace.time_s >= from_s)
    return float(np.asarray(trace.columns["queue_packets_max"], float)[lost].min(initial=np.inf))


def virtually_nothing(mbit: float, base_ms: float) -> float:
    """The number of packets that are no buffer on such a path."""
    bdp = mbit * base_ms * 1000 / PACKET_BITS
    return min(VIRTUALLY_NOTHING[0], VIRTUALLY_NOTHING[1] * bdp)


def _cut_falsely(trace: Trace, from_s: float = 0) -> bool:
    """Whether a packet was lost at a buffer of virtually nothing."""
    return _least_lossy(trace, from_s) <= virtually_nothing(float(trace.link_mbit()[0]), trace.base_ms)


def _seeds_cut_falsely(runs: Runs, from_s: float = 0) -> Floats:
    """1 for each seed that was cut falsely over one of the links, else 0."""
    cut = runs.by_seed(_of(runs, lambda trace: float(_cut_falsely(trace, from_s))))
    return np.asarray(cut.max(axis=0), float)


def ending(runs: Runs, words: str) -> Runs:
    """Those whose discipline's line ends so."""
    [line] = {line for line in (one["hop.bottleneck.qdisc"] for one in runs.sets) if line.endswith(words)}
    return runs.of(f"qdisc={line}")


def _of_multiplier(runs: Runs, half: bool) -> Runs:
    [line] = {q for q in (one["hop.bottleneck.qdisc"] for one in runs.sets) if (HALF in q) == half}
    return runs.of(f"qdisc={line}")


def c13(runs: Needs) -> Quantities:
    """False cuts by congestion control."""

    def half(cc: str, from_s: float = 0) -> Floats:
        return _seeds_cut_falsely(_of_multiplier(runs["multiplier"].of(f"cc={cc}"), half=True), from_s)

    def default(cc: str) -> Floats:
        return _seeds_cut_falsely(_of_multiplier(runs["multiplier"].of(f"cc={cc}"), half=False))

    return {
        "cubic-false-cuts": half("cubic"),
        "reno-false-cuts": half("reno"),
        "bbr-false-cuts": half("bbr"),
        "also: Reno, from 1 s on": half("reno", 1),
        "also: Reno, from 5 s on": half("reno", 5),
        "also: CUBIC without HyStart": _seeds_cut_falsely(runs["no-hystart"]),
        "also: CUBIC without HyStart, from 5 s on": _seeds_cut_falsely(runs["no-hystart"], 5),
        "also: 1.25 cuts falsely: CUBIC": default("cubic"),
        "also: Reno with 1.25": default("reno"),
        "also: BBRv1 with 1.25": default("bbr"),
    }


def c16(runs: Needs) -> Quantities:
    """BBRv3's false cuts."""
    return {
        "false-cuts": _seeds_cut_falsely(_of_multiplier(runs["multiplier-bbr3"], half=True)),
        "also: 1.25": _seeds_cut_falsely(_of_multiplier(runs["multiplier-bbr3"], half=False)),
    }


GUARDS = {
    "1 s": "3028",
    "2 RTTs": "max_gi_rtts 2",
    "4 RTTs": "max_gi_rtts 4",
    "8 RTTs": "max_gi_rtts 8",
    "as long as it likes": "max_gi 1000s",
}
"""By what is said of them: how their tc lines end."""
FALL_S, SETTLED_S = 30.0, 60.0


def _recovery_s(trace: Trace) -> float:
    """From the fall of the rate until the queue's delay stays within twice what it is at last, and 5 ms."""
    last = trace.within(SETTLED_S, np.inf)
    usual = float(np.average(np.nan_to_num(last.columns["sojourn_mean_ms"]), weights=last.columns["delivered_packets"]))
    after = trace.within(FALL_S, np.inf)
    above = after.time_s[np.nan_to_num(after.columns["sojourn_mean_ms"]) > 2 * usual + 5]
    return float(above.max() - FALL_S) if len(above) else 0.0


def c14(runs: Needs) -> Quantities:
    """How long the queue stays long after the rate fell, by the longest guard interval."""
    guard = runs["longest-guard"]
    told: dict[str, Floats] = {}
    for cc, name in (("vegas", "Vegas"), ("cubic", "CUBIC")):
        for words, end in GUARDS.items():
            chosen = ending(guard.of(f"cc={cc}"), end)
            told[f"{name}, at most {words}: s to recover"] = _of(chosen, _recovery_s)
    return told


CAPS = {"doubling": "3028", "fourfold": "max_increase 4", "no cap": "max_increase 1000"}


def c15(runs: Needs) -> Quantities:
    """Mean delay and bytes by the cap: from 30 s on, when the rate has jumped where it does."""
    told: dict[str, Floats] = {}
    grown, silent = runs["most-increase"], runs["silences"]
    [rising] = {json.dumps(one["hop.bottleneck.rate"]) for one in grown.sets if one["hop.bottleneck.rate"] != "50mbit"}
    loads = {
        "steady": grown.of("bottleneck.rate=50mbit"),
        "a rate that rises tenfold": grown.of(f"bottleneck.rate={rising}"),
        "a silent application": silent,
    }
    for load, chosen in loads.items():
        for words, end in CAPS.items():
            one = ending(chosen, end)
            told[f"{load}, {words}: mean delay from 30 s on, ms"] = _of(
                one, lambda trace: trace.within(30, 60).mean_rtt_ms() - trace.base_ms
            )
            told[f"{load}, {words}: Mbit/s from 30 s on"] = _mbit(one, 30, 60)
    return told
