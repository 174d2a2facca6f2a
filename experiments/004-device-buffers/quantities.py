"""The quantities of the ring-buffer paper's claims: a function for each claim of claims.toml.

Comparisons are made seed by seed. Drops and retransmissions are those of the measured 300 s, all downloads together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from sojourn.claims import Floats, Quantities, Runs, least

Needs = Mapping[str, Runs]
RINGS = (80, 256, 512, 1024, 2048, 4096)
FIFOS = ("noqueue", *(f"pfifo limit {packets}" for packets in RINGS))
DOWNLOADS = 30
PING_MS, PING_P95_MS = "flows.pings0.rtt_ms.mean", "flows.pings0.rtt_ms.p95"
MS = 1000.0
"""In a second."""


def _ring(runs: Runs, size: int, qdisc: str = "") -> Runs:
    """The runs with this ring, and below this discipline if one is named."""
    words = [f"nic.ring={size}", *([f"router.qdisc={qdisc}"] if qdisc else [])]
    return runs.of(*words)


def _rtt_s(runs: Runs) -> Floats:
    return runs.values(PING_MS) / MS


def _drops(runs: Runs) -> Floats:
    return runs.values("drops")


def _retransmits(runs: Runs) -> Floats:
    """The sum over all downloads."""
    return DOWNLOADS * runs.values("flows.download0.retransmits")


def _goodput(runs: Runs) -> Floats:
    """The sum over all downloads, in Mbit/s."""
    return DOWNLOADS * runs.values("flows.download0.goodput_mbit")


def _percent(values: Floats, of: Floats) -> Floats:
    """How much more."""
    return 100 * (values / of - 1)


# ---- rings: figure 3 ----


def b1(runs: Needs) -> Quantities:
    """The RTT grows with the ring."""
    means = {size: _rtt_s(_ring(runs["rings"], size)) for size in RINGS}
    rises = sum(float(b.mean() > a.mean()) for a, b in itertools.pairwise(means.values()))
    return {
        "rtt-ring-4096": means[4096],
        "growing-steps": rises,
        "also: mean RTT at ring 80, s": means[80],
        "also: at 512, s": means[512],
        "also: without a FIFO at ring 80, s": _rtt_s(_ring(runs["bare"], 80)),
        "also: at 4096, s": _rtt_s(_ring(runs["bare"], 4096)),
    }


def b2(runs: Needs) -> Quantities:
    """Drops and retransmissions of the largest ring less those of the smallest."""

    def less(chosen: Runs, large: int, small: int) -> tuple[Floats, Floats]:
        of = [_ring(chosen, size) for size in (large, small)]
        drops, again = ([values(one) for one in of] for values in (_drops, _retransmits))
        return drops[0] - drops[1], again[0] - again[1]

    drops, again = less(runs["rings"], 4096, 80)
    reno, reno_again = less(runs["reno"], 4096, 80)
    bare, bare_again = less(runs["bare"], 256, 80)
    told = {
        "drops": drops,
        "retransmissions": again,
        "also: drops at 80": _drops(_ring(runs["rings"], 80)),
        "also: retransmissions at 80": _retransmits(_ring(runs["rings"], 80)),
        "also: with Reno, drops at 4096 less those at 80": reno,
        "also: with Reno, retransmissions": reno_again,
        "also: without a FIFO, drops at 256 less those at 80": bare,
        "also: without a FIFO, retransmissions": bare_again,
    }
    if free := runs.get("reno-wmem"):
        told |= {
            "also: with Reno, drops at 4096": _drops(_ring(runs["reno"], 4096)),
            "also: these where senders never wait for room in their buffers": _drops(_ring(free, 4096)),
        }
    return told


# ---- FIFOs: figure 4 ----


def b3(runs: Needs) -> Quantities:
    """The RTT by the FIFO, with ring 512."""
    by_fifo = {fifo: _rtt_s(_ring(runs["fifos"], 512, fifo)) for fifo in FIFOS}
    largest = _rtt_s(_ring(runs["rings"], 4096))
    windows = {fifo: _rtt_s(_ring(runs["small-windows"], 512, fifo)) for fifo in ("noqueue", "pfifo limit 4096")}
    bare = {size: _rtt_s(_ring(runs["bare"], size)) for size in (512, 4096)}
    return {
        "rtt-fifo-4096": by_fifo["pfifo limit 4096"] / by_fifo["noqueue"],
        "rtt-all-fifos": np.mean(list(by_fifo.values()), axis=0) / largest,
        "also: mean RTT without a FIFO, s": by_fifo["noqueue"],
        "also: with one of 4096, s": by_fifo["pfifo limit 4096"],
        "also: with windows of 64 kB, that with 4096 in parts of that without": windows["pfifo limit 4096"]
        / windows["noqueue"],
        "also: were there no FIFO, ring 512 in parts of ring 4096": bare[512] / bare[4096],
    }


def b4(runs: Needs) -> Quantities:
    """Drops and retransmissions by the FIFO."""
    none, half, most = (_ring(runs["fifos"], 512, fifo) for fifo in ("noqueue", "pfifo limit 512", "pfifo limit 4096"))
    windows = {size: _ring(runs["small-windows"], 512, f"pfifo limit {size}") for size in (512, 1024)}
    return {
        "drops-512": _drops(half) - _drops(none),
        "retransmissions-512": _retransmits(half) - _retransmits(none),
        "drops-4096": _drops(most) / _drops(half),
        "retransmissions-4096": _retransmits(most) / _retransmits(half),
        "also: with windows of 64 kB, drops with 512": _drops(windows[512]),
        "also: with 1024": _drops(windows[1024]),
    }


def b5(runs: Needs) -> Quantities:
    """Packets dropped with the largest FIFO."""
    word = "pfifo limit 4096"
    return {
        "drops": _drops(_ring(runs["fifos"], 512, word)),
        "also: with windows of 64 kB, 30 of which are less than the queues": _drops(
            _ring(runs["small-windows"], 512, word)
        ),
    }


# ---- throughput and windows: figures 6 and 7 ----


def b6(runs: Needs) -> Quantities:
    """Goodput by ring and FIFO."""

    def goodput(chosen: Runs, size: int, qdisc: str = "") -> Floats:
        return _goodput(_ring(chosen, size, qdisc))

    apart = [_percent(*(goodput(runs["corners"], size, fifo) for size in (4096, 80))) for fifo in FIFOS]
    deep, shallow = (goodput(runs["fifos"], 512, f"pfifo limit {limit}") for limit in (4096, 80))
    return {
        "rings": _percent(*(goodput(runs["rings"], size) for size in (4096, 80))),
        "fifos": _percent(deep, shallow),
        "rings-with-fifo": max(apart, key=lambda one: abs(float(one.mean()))),
        "also: Mbit/s at ring 80": goodput(runs["rings"], 80),
    }


def b7(runs: Needs) -> Quantities:
    """The window by Little's law, and the least utilisation of the test bed."""
    window = runs["window"]
    rate_mbit, rtt_s = (window.values(f"flows.download.{name}") for name in ("goodput_mbit", "rtt_ms.mean"))
    busy = np.concatenate([runs[name].grid("utilisation") for name in ("rings", "fifos")])
    return {
        "in-flight": rate_mbit * rtt_s / MS / 8,
        "also: its goodput, Mbit/s": rate_mbit,
        "also: utilisation of figures 3 and 4 where it is least, %": 100 * least(busy),
    }


# ---- byte queue limits: figures 8 and 9 ----


def _limited(runs: Runs, bql: bool, ring: int, qdisc: str) -> Runs:
    return _ring(runs, ring).of(f"nic.bql={str(bql).lower()}", qdisc)


def _p95_ms(runs: Runs) -> Floats:
    return runs.values(PING_P95_MS)


def b8(runs: Needs) -> Quantities:
    """BQL below a FIFO."""
    without, limited = (_p95_ms(_limited(runs["bql"], bql, 2048, "pfifo")) for bql in (False, True))
    return {
        "rtt-without-bql": without / MS,
        "rtt-with-bql": limited,
        "also: with BQL and CoDel, ms": _p95_ms(_limited(runs["bql"], True, 2048, "codel")),
    }


def b8a(runs: Needs) -> Quantities:
    """The number of packets in the ring."""
    limited, full = (_limited(runs["bql"], bql, 2048, "pfifo").values("nic.ring_packets.mean") for bql in (True, False))
    return {"ring-with-bql": limited, "ring-without-bql": full}


def b8b(runs: Needs) -> Quantities:
    """CoDel above a ring with BQL."""
    limited, full = (_p95_ms(_limited(runs["bql"], bql, 2048, "codel")) for bql in (True, False))
    return {
        "rtt-p95": limited,
        "also: CoDel without BQL, s": full / MS,
    }


def b9(runs: Needs) -> Quantities:
    """Large and small queues above BQL."""
    fifo, codel = (
        [_p95_ms(_limited(runs["bql-ends"], True, ring, f"{word} limit {5000 - ring}")) for ring in (80, 4096)]
        for word in ("pfifo", "codel")
    )
    return {
        "FIFO of 4920 less one of 904, ms": fifo[0] - fifo[1],
        "CoDel with a limit of 4920 less one of 904, ms": codel[0] - codel[1],
    }


# ---- its conclusions ----


def b11(runs: Needs) -> Quantities:
    """The gain of a small ring, with a FIFO and with a discipline that signals."""
    gained = [_rtt_s(_ring(runs["corners"], 80, fifo)) - _rtt_s(_ring(runs["corners"], 4096, fifo)) for fifo in FIFOS]
    small, large = (_p95_ms(_limited(runs["bql-ends"], False, ring, "codel")) / MS for ring in (80, 4096))
    return {
        "rtt-less": max(gained, key=np.nanmean),
        "codel-p95-less": small - large,
        "also: with CoDel at ring 80, s": small,
    }


def b12(runs: Needs) -> Quantities:
    """Drops and retransmissions with a large queue above the ring less those with a small one."""

    def less(chosen: Runs, ring: int, measure: Callable[[Runs], Floats]) -> Floats:
        large, small = (measure(_ring(chosen, ring, f"pfifo limit {limit}")) for limit in (4096, 80))
        return large - small

    def over_rings(measure: Callable[[Runs], Floats]) -> Floats:
        return np.mean([less(runs["ends"], ring, measure) for ring in RINGS], axis=0)

    return {
        "drops-less": over_rings(_drops),
        "retransmissions-less": over_rings(_retransmits),
        "also: with Reno at ring 512, drops": less(runs["reno-fifos"], 512, _drops),
        "also: with Reno, retransmissions": less(runs["reno-fifos"], 512, _retransmits),
        "also: with windows of 64 kB at ring 512, drops": less(runs["small-windows"], 512, _drops),
    }


def b13(runs: Needs) -> Quantities:
    """The RTT with defaults, and with one of them changed."""
    return {
        "mean RTT with ring 512 and 1000 packets, the defaults, s": _rtt_s(_ring(runs["rings"], 512)),
        "with ring 80, s": _rtt_s(_ring(runs["rings"], 80)),
        "with ring 4096, s": _rtt_s(_ring(runs["rings"], 4096)),
        "with ring 512 and no FIFO, s": _rtt_s(_ring(runs["fifos"], 512, "noqueue")),
        "with ring 512 and a FIFO of 4096, s": _rtt_s(_ring(runs["fifos"], 512, "pfifo limit 4096")),
    }


def b14(runs: Needs) -> Quantities:
    """Two defaults above BQL."""
    fifo, fair = (_p95_ms(_limited(runs["bql-ends"], True, 4096, word)) for word in ("pfifo limit 1000", "fq_codel"))
    return {
        "rtt-p95": fifo,
        "also: with fq_codel, which most systems set today, ms": fair,
        "also: fq_codel without BQL, s": _p95_ms(_limited(runs["bql-ends"], False, 4096, "fq_codel")) / MS,
    }
