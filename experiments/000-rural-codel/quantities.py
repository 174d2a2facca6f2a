"""The quantities of the rural paper's claims: a function for each claim of claims.toml.

Every seed gives each discipline the same starts and pauses, so differences and ratios are taken seed by seed. Over the
RTTs a quantity is that of the RTT where its mean over the seeds is greatest or least, or the share of RTTs at which a
mean has the sign that the paper says.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from sojourn import _core
from sojourn.claims import Floats, Quantities, Runs, least, most
from sojourn.means import mean_of

Needs = Mapping[str, Runs]

TAIL = "pfifo limit 25"
TUNED = " target 65ms interval 300ms"
BED = {"CoDel": "codel limit 25", "FQ-CoDel": "fq_codel limit 25 drop_batch 1 noecn"}
"""Linux's, with their defaults."""
BED_RURAL = {name: line + TUNED for name, line in BED.items()}
NS2 = {"CoDel": "codel limit 25 variant ns2", "FQ-CoDel": "fq_codel limit 25 noecn variant ns2"}
NS2_RURAL = {
    "CoDel": f"codel limit 25{TUNED} variant ns2",
    "FQ-CoDel": f"fq_codel limit 25{TUNED} noecn variant ns2",
}
RTTS_MS = np.arange(50, 551, 50)
LOADS = {"low load": "bulk.count=1", "high load": "bulk.count=2"}


def _grid(runs: Runs, address: str, line: str, *words: str) -> Floats:
    """A measure with this discipline: a row an RTT, a column a seed."""
    return runs.of(f"qdisc={line}", *words).grid(address)


def _share(gain: Floats) -> float:
    """The percentage of rows whose mean over the seeds is above zero."""
    return 100 * float(np.mean(np.nanmean(gain, axis=1) > 0))


def _shown(gain: Floats) -> float:
    """The percentage of rows whose 95 % interval over the seeds lies above zero."""
    found = [mean_of(row[~np.isnan(row)].tolist()) for row in gain]
    return 100 * float(np.mean([each is not None and each.value > (each.half_width or 0.0) for each in found]))


# ---- the test bed ----


def k1(runs: Needs) -> Quantities:
    """Drop tail's delay."""
    return {
        "greatest-sojourn": most(_grid(runs["testbed"], "sojourn_ms.max", TAIL)),
        "p99-sojourn": most(_grid(runs["testbed"], "sojourn_ms.p99", TAIL)),
    }


def k2(runs: Needs) -> Quantities:
    """The defaults' standing queue."""
    standing = {name: _grid(runs["testbed"], "standing_queue_ms.p90", line) for name, line in BED.items()}
    return {
        "codel-standing-p90": most(standing["CoDel"]),
        "fq-codel-standing-p90": most(standing["FQ-CoDel"]),
        "also: CoDel's at its worst RTT from 100 ms on": most(standing["CoDel"][1:]),
        "also: CoDel's at 50 ms without downloads": runs["alone"].values("standing_queue_ms.p90"),
        "also: at 70 ms": runs["rtt-70"].values("standing_queue_ms.p90"),
        "also: at 50 ms with packets of half the size": runs["small-packets"].values("standing_queue_ms.p90"),
        "also: CoDel's median sojourn at its worst RTT": most(_grid(runs["testbed"], "sojourn_ms.p50", BED["CoDel"])),
        "also: its 95th percentile": most(_grid(runs["testbed"], "sojourn_ms.p95", BED["CoDel"])),
    }


def k3(runs: Needs) -> Quantities:
    """Costs and gains of the defaults, in percent of drop tail."""

    def less(name: str, address: str) -> Floats:
        return 100 * (1 - _grid(runs["testbed"], address, BED[name]) / _grid(runs["testbed"], address, TAIL))

    bulk = {name: less(name, "flows.bulk0.goodput_mbit") for name in BED}
    files = {name: less(name, "flows.download0.fct_s.mean") for name in BED}
    return {
        "codel-goodput-lost": most(bulk["CoDel"]),
        "fq-codel-goodput-lost": most(bulk["FQ-CoDel"]),
        "codel-time-saved": most(files["CoDel"]),
        "fq-codel-time-saved": most(files["FQ-CoDel"]),
        "also: CoDel: saved, mean over the RTTs, %": np.nanmean(files["CoDel"], axis=0),
        "also: FQ-CoDel: saved, mean over the RTTs, %": np.nanmean(files["FQ-CoDel"], axis=0),
    }


def k13(runs: Needs) -> Quantities:
    """Differences between the rural parameters and the defaults."""

    def raised(name: str, address: str) -> Floats:
        return _grid(runs["testbed"], address, BED_RURAL[name]) - _grid(runs["testbed"], address, BED[name])

    codel, fair = (
        {
            "fct": -raised(name, "flows.download0.fct_s.mean"),
            "bulk": raised(name, "flows.bulk0.goodput_mbit"),
            "ping": raised(name, "flows.pings0.rtt_ms.mean"),
        }
        for name in ("CoDel", "FQ-CoDel")
    )
    return {
        "codel-shorter": _share(codel["fct"]),
        "codel-more-goodput": _share(codel["bulk"]),
        "codel-longer-ping": _share(codel["ping"]),
        "fq-codel-shorter": _share(fair["fct"]),
        "fq-codel-more-goodput": _share(fair["bulk"]),
        "also: FQ-CoDel, with a longer ping, %": _share(fair["ping"]),
        "also: CoDel's ping longer by, where it is most, ms": most(codel["ping"]),
        "also: FQ-CoDel's, ms": most(fair["ping"]),
    }


# ---- the simulations ----


def _set_to(line: str, parameter: str, default: float) -> float:
    """A time parameter of a discipline's line, ms."""
    found = re.search(rf"{parameter} (\d+)ms", line)
    return float(found[1]) if found else default


def tuned(runs: Runs, kind: str, parameter: str, default: float) -> list[tuple[float, str]]:
    """The values of a parameter that were tried, with their lines, in order."""
    lines = {one["hop.bottleneck.qdisc"] for one in runs.sets}
    return sorted((_set_to(line, parameter, default), line) for line in lines if line.startswith(f"{kind} "))


def _curve(runs: Runs, address: str, load: str, kind: str = "codel") -> tuple[Floats, Floats]:
    """The intervals, and a measure: a row an interval, a column a seed."""
    tried = tuned(runs, kind, "interval", 100)
    values = np.stack([runs.of(f"qdisc={line}", LOADS[load]).values(address) for _, line in tried])
    return np.array([ms for ms, _ in tried]), values


def k4(runs: Needs) -> Quantities:
    """Utilisation where the interval is the RTT."""

    def busy(line: str, load: str) -> Floats:
        return 100 * runs["interval"].of(f"qdisc={line}", LOADS[load]).values("utilisation")

    def other(name: str, load: str) -> Floats:
        return runs[name].of(LOADS[load]).values("utilisation")

    line = "codel limit 25 interval 300ms variant ns2"
    return {
        "utilisation-low": busy(line, "low load"),
        "utilisation-high": busy(line, "high load"),
        "also: with an acknowledgement a segment, low load": 100 * other("interval-every", "low load"),
        "also: with an acknowledgement a segment, high load": 100 * other("interval-every", "high load"),
        "also: with RFC 8289's CoDel, low load": 100 * other("interval-rfc", "low load"),
        "also: with RFC 8289's CoDel, high load": 100 * other("interval-rfc", "high load"),
        "also: with both, low load": 100 * other("interval-both", "low load"),
        "also: with both, high load": 100 * other("interval-both", "high load"),
        "also: FQ-CoDel, low load": busy("fq_codel limit 25 interval 300ms noecn variant ns2", "low load"),
        "also: FQ-CoDel, high load": busy("fq_codel limit 25 interval 300ms noecn variant ns2", "high load"),
        "also: CoDel's default interval, low load": busy(NS2["CoDel"], "low load"),
        "also: CoDel's default interval, high load": busy(NS2["CoDel"], "high load"),
    }


def k5(runs: Needs) -> Quantities:
    """The least of the mean delays."""
    waited = {load: _curve(runs["interval"], "sojourn_ms.mean", load)[1] for load in LOADS}
    return {
        "least-delay-low": least(waited["low load"]),
        "least-delay-high": least(waited["high load"]),
        "also: over time, low load": least(_curve(runs["interval"], "queue_delay_ms.mean", "low load")[1]),
        "also: FQ-CoDel, low load": least(_curve(runs["interval"], "sojourn_ms.mean", "low load", "fq_codel")[1]),
    }


def _rho(of: Floats, by: Floats) -> float:
    """Spearman's rank correlation of values without ties."""
    ranks = np.stack([np.argsort(np.argsort(values)) for values in (of, by)])
    correlation: Floats = np.atleast_2d(np.corrcoef(ranks))
    return float(correlation[0, 1])


def k6(runs: Needs) -> Quantities:
    """Spearman's rho, from the means over the seeds."""

    def rho(address: str, load: str, kind: str = "codel") -> float:
        intervals, values = _curve(runs["interval"], address, load, kind)
        return _rho(intervals, values.mean(axis=1))

    return {
        "rho-utilisation-low": rho("utilisation", "low load"),
        "rho-utilisation-high": rho("utilisation", "high load"),
        "rho-delay-low": rho("sojourn_ms.mean", "low load"),
        "rho-delay-high": rho("sojourn_ms.mean", "high load"),
        "also: FQ-CoDel's utilisation, low load": rho("utilisation", "low load", "fq_codel"),
        "also: FQ-CoDel's mean delay, low load": rho("sojourn_ms.mean", "low load", "fq_codel"),
    }


def k7(runs: Needs) -> Quantities:
    """With the rural parameters."""

    def rural(name: str, load: str, address: str) -> Floats:
        return runs["target"].of(f"qdisc={NS2_RURAL[name]}", LOADS[load]).values(address)

    every, mean = runs["target-every"], "sojourn_ms.mean"
    return {
        "utilisation-low": 100 * rural("CoDel", "low load", "utilisation"),
        "utilisation-high": 100 * rural("CoDel", "high load", "utilisation"),
        "delay-low": rural("CoDel", "low load", "sojourn_ms.mean"),
        "delay-high": rural("CoDel", "high load", "sojourn_ms.mean"),
        "also: with an acknowledgement a segment, mean delay, low load": every.of(LOADS["low load"]).values(mean),
        "also: with an acknowledgement a segment, mean delay, high load": every.of(LOADS["high load"]).values(mean),
        "also: its median, low load": rural("CoDel", "low load", "sojourn_ms.p50"),
        "also: its median, high load": rural("CoDel", "high load", "sojourn_ms.p50"),
        "also: over time, mean, low load": rural("CoDel", "low load", "queue_delay_ms.mean"),
        "also: over time, mean, high load": rural("CoDel", "high load", "queue_delay_ms.mean"),
        "also: FQ-CoDel: utilisation, low load": 100 * rural("FQ-CoDel", "low load", "utilisation"),
        "also: FQ-CoDel: mean delay, low load": rural("FQ-CoDel", "low load", "sojourn_ms.mean"),
    }


def k8(runs: Needs) -> Quantities:
    """The delay, to be compared with the target of 65 ms."""
    told = {}
    for load, word in LOADS.items():
        chosen = runs["target"].of(f"qdisc={NS2_RURAL['CoDel']}", word)
        told[f"CoDel, {load}: mean delay, ms"] = chosen.values("sojourn_ms.mean")
        told[f"CoDel, {load}: 95th percentile, ms"] = chosen.values("sojourn_ms.p95")
        told[f"CoDel, {load}: 90th percentile of the standing queue, ms"] = chosen.values("standing_queue_ms.p90")
    return told


# ---- the RTT ----


def _rural_less_default(runs: Runs, name: str, load: str, address: str, variant: str = "ns2") -> Floats:
    """The gain from the rural parameters, with a row for each RTT and a column for each seed."""
    rural, default = (NS2_RURAL, NS2) if variant == "ns2" else (BED_RURAL, BED)
    return _grid(runs, address, rural[name], LOADS[load]) - _grid(runs, address, default[name], LOADS[load])


def k9(runs: Needs) -> Quantities:
    """RTTs at which downloads are shown to be faster."""

    def saved(name: str, load: str, variant: str = "ns2") -> Floats:
        default = (NS2 if variant == "ns2" else BED)[name]
        took = _grid(runs["rtts"], "flows.download.fct_s.mean", default, LOADS[load])
        less = -_rural_less_default(runs["rtts"], name, load, "flows.download.fct_s.mean", variant)
        return 100 * less / took

    return {
        "codel-low": _shown(saved("CoDel", "low load")),
        "codel-high": _shown(saved("CoDel", "high load")),
        "fq-codel-low": _shown(saved("FQ-CoDel", "low load")),
        "fq-codel-high": _shown(saved("FQ-CoDel", "high load")),
        "also: CoDel: saved at the worst RTT, low load, %": least(saved("CoDel", "low load")),
        "also: CoDel: saved at the worst RTT, high load, %": least(saved("CoDel", "high load")),
        "also: CoDel: saved at the best RTT, low load, %": most(saved("CoDel", "low load")),
        "also: CoDel: saved at the best RTT, high load, %": most(saved("CoDel", "high load")),
        "also: FQ-CoDel: saved at the worst RTT, low load, %": least(saved("FQ-CoDel", "low load")),
        "also: FQ-CoDel: saved at the worst RTT, high load, %": least(saved("FQ-CoDel", "high load")),
        "also: Linux's CoDel: RTTs, low load, %": _shown(saved("CoDel", "low load", "linux")),
        "also: Linux's CoDel: RTTs, high load, %": _shown(saved("CoDel", "high load", "linux")),
        "also: Linux's FQ-CoDel: RTTs, low load, %": _shown(saved("FQ-CoDel", "low load", "linux")),
        "also: Linux's FQ-CoDel: RTTs, high load, %": _shown(saved("FQ-CoDel", "high load", "linux")),
    }


def k10(runs: Needs) -> Quantities:
    """The thin stream's RTT, whose queueing is all in one direction."""

    def longer(name: str, load: str, variant: str = "ns2") -> Floats:
        return _rural_less_default(runs["rtts"], name, load, "flows.thin.rtt_ms.mean", variant)

    codel = {load: longer("CoDel", load) for load in LOADS}
    fair = {load: longer("FQ-CoDel", load) for load in LOADS}
    return {
        "codel-low-least": least(codel["low load"]),
        "codel-low-most": most(codel["low load"]),
        "codel-high-least": least(codel["high load"]),
        "codel-high-most": most(codel["high load"]),
        "fq-codel-low-least": least(fair["low load"]),
        "fq-codel-low-most": most(fair["low load"]),
        "fq-codel-high-least": least(fair["high load"]),
        "fq-codel-high-most": most(fair["high load"]),
        "also: Linux's FQ-CoDel, high load, most": most(longer("FQ-CoDel", "high load", "linux")),
    }


def k11(runs: Needs) -> Quantities:
    """Bulk goodput, kbit/s."""

    def more(name: str, load: str) -> Floats:
        return 1000 * _rural_less_default(runs["rtts"], name, load, "flows.bulk.goodput_mbit")

    def every(load: str) -> Floats:
        return 1000 * _rural_less_default(runs["rtts-every"], "CoDel", load, "flows.bulk.goodput_mbit")

    def begun(load: str) -> Floats:
        more = _rural_less_default(runs["rtts-begin"], "CoDel", load, "flows.bulk.goodput_mbit")
        mean: Floats = 1000 * more.mean(axis=0)
        return mean

    def deep(load: str) -> Floats:
        rural, default = (runs[name].of(LOADS[load]) for name in ("deep-rural", "deep"))
        more = rural.grid("flows.bulk.goodput_mbit") - default.grid("flows.bulk.goodput_mbit")
        mean: Floats = 1000 * more.mean(axis=0)
        return mean

    near, far = RTTS_MS <= 300, RTTS_MS >= 500
    codel = {load: more("CoDel", load) for load in LOADS}
    fair = {load: more("FQ-CoDel", load) for load in LOADS}
    return {
        "codel-more-low": _share(codel["low load"][near]),
        "codel-more-high": _share(codel["high load"][near]),
        "codel-long-rtts-low": codel["low load"][far].mean(axis=0),
        "codel-long-rtts-high": codel["high load"][far].mean(axis=0),
        "fq-codel-more-low": _share(fair["low load"]),
        "fq-codel-more-high": _share(fair["high load"]),
        "also: the same with an acknowledgement a segment, low load": every("low load")[far].mean(axis=0),
        "also: the same with an acknowledgement a segment, high load": every("high load")[far].mean(axis=0),
        "also: and downloads with an initial window of 10, low load": begun("low load"),
        "also: and downloads with an initial window of 10, high load": begun("high load"),
        "also: the same with a buffer of 60 packets, low load": deep("low load"),
        "also: the same with a buffer of 60 packets, high load": deep("high load"),
        "also: CoDel: more at 300 ms, low load, kbit/s": codel["low load"][RTTS_MS == 300][0],
        "also: CoDel: more at 300 ms, high load, kbit/s": codel["high load"][RTTS_MS == 300][0],
        "also: FQ-CoDel: more where it is least, low load, kbit/s": least(fair["low load"]),
        "also: FQ-CoDel: more where it is least, high load, kbit/s": least(fair["high load"]),
    }


def completion_ratios(runs: Runs, line: str) -> tuple[Floats, Floats, Floats]:
    """Ratios of the RTTs, of the mean completion times, and the longer path's mean completion time, s."""
    own, other = (
        np.nanmean(_grid(runs, f"flows.{name}.fct_s.mean", line), axis=1) for name in ("monitored", "background")
    )
    ratios = RTTS_MS / RTTS_MS[::-1]
    return ratios, own / other, np.where(ratios < 1, other, own)


def k12(runs: Needs) -> Quantities:
    """Two RTTs; at a ratio of 1 there is nothing to come nearer to."""
    told: dict[str, float] = {}
    nearer, saved, worst = {}, {}, {}
    for name in NS2:
        ratios, default, slow = completion_ratios(runs["two-rtts"], NS2[name])
        _, rural, faster = completion_ratios(runs["two-rtts"], NS2_RURAL[name])
        apart = ratios != 1
        nearer[name] = 100 * float(np.mean((np.abs(np.log(rural)) < np.abs(np.log(default)))[apart]))
        saved[name] = 100 * float(np.mean((1 - faster / slow)[apart]))
        worst[name] = (default[-1], rural[-1])
    told["codel-ratios-nearer"] = nearer["CoDel"]
    told["fq-codel-ratios-nearer"] = nearer["FQ-CoDel"]
    told["codel-time-saved"] = saved["CoDel"]
    told["fq-codel-time-saved"] = saved["FQ-CoDel"]
    for name, (default_ratio, rural_ratio) in worst.items():
        told[f"also: {name}: ratio of completion times at an RTT ratio of 11, default"] = default_ratio
        told[f"also: {name}: the same, rural"] = rural_ratio
    return told


# ---- the satellite ----


def _satellite(runs: Runs, address: str, line: str) -> Floats:
    return runs.of(f"qdisc={line}").values(address)


SFQ = "sfq limit 127"
RTT, FCT = "flows.download.rtt_ms.mean", "flows.download.fct_s.mean"


def _by_buffer(line: str, packets: int) -> str:
    return line.replace("limit 25", f"limit {packets}")


def k14(runs: Needs) -> Quantities:
    """The order, by the nearer of CoDel and FQ-CoDel; RTTs are the downloads' own."""
    satellite = runs["satellite"]
    told: dict[str, Floats] = {}
    for packets in (25, 42):
        lines = [_by_buffer(line, packets) for line in BED.values()]
        for name, other in {"drop-tail": _by_buffer(TAIL, packets), "sfq": SFQ}.items():
            took, rtt = (
                np.stack([_satellite(satellite, what, line) - _satellite(satellite, what, other) for line in lines])
                for what in (FCT, RTT)
            )
            told[f"{packets}-packets-time-{name}"] = least(took)
            told[f"{packets}-packets-rtt-{name}"] = most(rtt)
    for name, line in {"drop tail": TAIL, "SFQ": SFQ, "SFQ of 25 packets": "sfq limit 25", **BED}.items():
        told[f"also: {name}: completion time, s"] = _satellite(satellite, FCT, line)
        told[f"also: {name}: RTT, ms"] = _satellite(satellite, RTT, line)
    return told


def k15(runs: Needs) -> Quantities:
    """The queueing part of the latency, and the RTT."""
    satellite = runs["satellite"]
    told: dict[str, Floats] = {}
    rtts, took = [], []
    for packets in (25, 42):
        tail = _by_buffer(TAIL, packets)
        for name, rural in BED_RURAL.items():
            line = _by_buffer(rural, packets)
            waited = _satellite(satellite, "sojourn_ms.mean", line) / _satellite(satellite, "sojourn_ms.mean", tail)
            told[f"{name.lower()}-{packets}-packets-delay"] = 100 * (1 - waited)
            less = _satellite(satellite, RTT, tail) - _satellite(satellite, RTT, line)
            told[f"also: {name}, {packets} packets: RTT less than drop tail's by, ms"] = less
            other = np.minimum(_satellite(satellite, RTT, tail), _satellite(satellite, RTT, SFQ))
            rtts.append(_satellite(satellite, RTT, line) - other)
            took.append(_satellite(satellite, FCT, line) / _satellite(satellite, FCT, tail))
    short = runs["satellite-300"]
    for packets in (25, 42):
        for name, rural in BED_RURAL.items():
            ours, tail = _by_buffer(rural, packets), _by_buffer(TAIL, packets)
            at = f"also: {name}, {packets} packets, at an RTT of 300 ms"
            waited = _satellite(short, "sojourn_ms.mean", ours) / _satellite(short, "sojourn_ms.mean", tail)
            told[f"{at}: queueing delay less, %"] = 100 * (1 - waited)
            told[f"{at}: completion time in parts of drop tail's"] = _satellite(short, FCT, ours) / _satellite(
                short, FCT, tail
            )
    for end, packets in {"": 25, "-42": 42}.items():
        tail = _by_buffer(TAIL, packets)
        for name, fair in {"CoDel": "", "FQ-CoDel": "-fq"}.items():
            long = runs[f"satellite-600{end}{fair}"]
            waited = long.values("sojourn_ms.mean") / _satellite(satellite, "sojourn_ms.mean", tail)
            scaled = f"also: {name}, {packets} packets, target 130 ms, interval 600 ms"
            told[f"{scaled}: queueing delay less, %"] = 100 * (1 - waited)
            told[f"{scaled}: completion time"] = long.values(FCT) / _satellite(satellite, FCT, tail)
    return told | {
        "rtt-less-than-others": most(np.stack(rtts)),
        "time-of-drop-tail": most(np.stack(took)),
    }


# ---- what else it says ----


def k16(runs: Needs) -> Quantities:
    """FQ-CoDel whose flows share one queue, less CoDel; rural parameters."""

    def less(address: str, load: str, fair: str = NS2_RURAL["FQ-CoDel"], codel: str = NS2_RURAL["CoDel"]) -> Floats:
        one = runs["tunnel"].of(f"qdisc={fair}", LOADS[load]).values(address)
        return one - runs["untunnelled"].of(f"qdisc={codel}", LOADS[load]).values(address)

    fct = "flows.download.fct_s.mean"
    told: dict[str, Floats] = {
        "utilisation-low": 100 * less("utilisation", "low load"),
        "delay-low": less("sojourn_ms.mean", "low load"),
        "time-low": less(fct, "low load"),
        "utilisation-high": 100 * less("utilisation", "high load"),
        "delay-high": less("sojourn_ms.mean", "high load"),
        "time-high": less(fct, "high load"),
    }
    others = {
        "default": (NS2["FQ-CoDel"], NS2["CoDel"]),
        "Linux's, rural": (BED_RURAL["FQ-CoDel"], BED_RURAL["CoDel"]),
        "Linux's, default": (BED["FQ-CoDel"], BED["CoDel"]),
    }
    for name, lines in others.items():
        for load in LOADS:
            told[f"also: {name}: mean delay, {load}, ms"] = less("sojourn_ms.mean", load, *lines)
            told[f"also: {name}: utilisation, {load}, points"] = 100 * less("utilisation", load, *lines)
    for name, tail in {"Linux's": "", "ns-2's": "-ns2"}.items():
        for load in LOADS:
            fair, codel = (runs[f"deep-{one}{tail}"].of(LOADS[load]) for one in ("tunnel", "codel"))
            deep = f"also: {name}, rural, in a buffer of 200"
            told[f"{deep}: mean delay, {load}, ms"] = fair.values("sojourn_ms.mean") - codel.values("sojourn_ms.mean")
            told[f"{deep}: utilisation, {load}, points"] = 100 * (
                fair.values("utilisation") - codel.values("utilisation")
            )
    return told


MS = 1_000_000
"""Nanoseconds."""
TARGET_NS, INTERVAL_NS, PACKET_BYTES = 5 * MS, 100 * MS, 1500
Fates = list[tuple[int, bool]]
"""When each packet leaves the head of the queue, and whether it is dropped there."""


def as_described(arrivals_ns: Sequence[int], packet_ns: int) -> Fates:
    """The paper's words for CoDel, played.

    Within [t, t + mu] one packet that waited longer than the target is enough: the next packet is dropped, n grows by
    one, and mu is divided by its square root; else nothing is dropped, n is 1 again and mu the interval.
    """
    fates: Fates = []
    free_ns, begin_ns, mu_ns, n, above = 0, arrivals_ns[0], INTERVAL_NS, 1, False
    for arrival_ns in arrivals_ns:
        now_ns = max(free_ns, arrival_ns)
        dropped = False
        while now_ns > begin_ns + mu_ns and not dropped:
            begin_ns += mu_ns
            dropped, above = above, False
            n = n + 1 if dropped else 1
            mu_ns = max(int(mu_ns / math.sqrt(n)), 1) if dropped else INTERVAL_NS
        above = above or now_ns - arrival_ns > TARGET_NS
        fates.append((now_ns, dropped))
        free_ns = now_ns if dropped else now_ns + packet_ns
    return fates


def as_referred(arrivals_ns: Sequence[int], packet_ns: int) -> Fates:
    """CoDel itself, the discipline of its reference, for the same packets."""
    rows = ["time_ns,op,flow,bytes,ecn", *(f"{ns},enqueue,0,{PACKET_BYTES},0" for ns in arrivals_ns)]
    rate = f"{8 * PACKET_BYTES * 1_000_000 // packet_ns}kbit"
    fates, *_ = _core.replay("\n".join(rows).encode(), "trace", "codel variant rfc8289", rate, PACKET_BYTES)
    read = csv.DictReader(fates.decode().splitlines())
    return [(int(row["fate_ns"]), row["fate"] != "delivered") for row in read]


def k17(_runs: Needs) -> Quantities:
    """Two loads without feedback: three packets of 12 ms each 150 ms, and twice of what a link of 12 Mbit/s carries."""
    bursts = [burst * 150 * MS + packet for burst in range(60) for packet in range(3)]
    overload = [packet * MS // 2 for packet in range(1200)]
    told: dict[str, float] = {}
    for name, play in {"CoDel": as_referred, "as described": as_described}.items():
        told[f"{name}: drops in 60 bursts that are gone after 36 ms"] = sum(lost for _, lost in play(bursts, 12 * MS))
        drops = [ns / MS for ns, lost in play(overload, MS) if lost]
        told[f"{name}: under overload, first drop, ms"] = drops[0]
        for n, later in ((2, "second"), (3, "third"), (4, "fourth")):
            told[f"{name}: {later} drop after the one before, ms"] = drops[n - 1] - drops[n - 2]
        told[f"{name}: drops in 500 ms"] = sum(ms < 500 for ms in drops)
    return told


def k18(runs: Needs) -> Quantities:
    """Real-time services by discipline at 300 ms, and the call at 100 ms."""
    told = {}
    lines = {"drop tail": TAIL}
    lines |= {f"{name}, default": line for name, line in BED.items()}
    lines |= {f"{name}, rural": line for name, line in BED_RURAL.items()}
    for name, line in lines.items():
        of = runs["realtime"].of(f"qdisc={line}")
        plain, watched = of.of("delay=147.5ms", "video.count=0"), of.of("delay=147.5ms", "video.count=1")
        told[f"{name}: call's MOS"] = plain.values("flows.call.mos")
        told[f"{name}: MOS at an RTT of 100 ms"] = of.of("delay=47.5ms", "video.count=0").values("flows.call.mos")
        told[f"{name}: datagrams' delay, 95th percentile, ms"] = plain.values("flows.game.delay_ms.p95")
        told[f"{name}: datagrams lost, %"] = 100 * plain.values("flows.game.loss_ratio")
        told[f"{name}: video, Mbit/s"] = watched.values("flows.video.video.quality_mbit")
        told[f"{name}: video stalled, s"] = watched.values("flows.video.video.stalled_s")
    return told
