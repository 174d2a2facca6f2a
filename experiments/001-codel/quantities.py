"""The quantities of the CoDel paper's claims: a function for each claim of claims.toml.

Every seed gives each discipline the same arrivals, so differences and ratios are taken seed by seed. Over the grid of
static links a quantity is first taken over the loads, rates and RTTs of one seed: its interval says what chance adds,
not how far the links are apart.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sojourn.claims import Floats, Quantities, Runs, least, most

Needs = Mapping[str, Runs]
PACKET_MS = 10.0
"""The time of a packet in the first four figures: 12 500 bytes at 10 Mbit/s."""
RTT_S = 0.2
"""Theirs."""


# ---- figures 1 to 4 ----


def n1(runs: Needs) -> Quantities:
    """The standing queue."""
    standing = runs["standing"]
    return {
        "median": standing.values("queue_packets.p50"),
        "maximum": standing.values("queue_packets.max"),
        "least-per-rtt": standing.values("standing_queue_ms.p10") / PACKET_MS,
    }


def n2(runs: Needs) -> Quantities:
    """The peak, and what is left of it."""
    return {
        "first-peak": runs["first-burst"].values("queue_packets.max"),
        "later-peak": runs["after-one-trip"].values("queue_packets.max"),
    }


def n3(runs: Needs) -> Quantities:
    """A burst per round trip, and the window that the paper names. It cannot fill the link: 20 / (20 + 19)."""
    filled, named = (runs["ack-per-window"].of(f"cc=fixed {window}") for window in (39, 20))
    return {
        "p90-per-rtt": filled.values("standing_queue_ms.p90") / PACKET_MS,
        "utilisation": 100 * filled.values("utilisation"),
        "period": filled.values("oscillation_s") / RTT_S,
        "also: greatest queue, packets": filled.values("queue_packets.max"),
        "also: utilisation with the paper's window of 20, %": 100 * named.values("utilisation"),
    }


def n4(runs: Needs) -> Quantities:
    """0 + 9 + … + 216 ms."""
    burst = runs["first-burst"]
    together = burst.values("sojourn_ms.mean") * burst.values("delivered_packets")
    return {
        "last-wait": burst.values("sojourn_ms.max"),
        "together": np.round(together, 6),
    }


# ---- the parameters ----


def n5(runs: Needs) -> Quantities:
    """Utilisation by target."""

    def busy(target: str) -> Floats:
        [line] = {q for q in (one["hop.bottleneck.qdisc"] for one in runs["target"].sets) if target in q}
        return 100 * runs["target"].of(f"qdisc={line}").grid("utilisation")

    is_linux = any(" target 5ms " in one["hop.bottleneck.qdisc"] for one in runs["target"].sets)
    at = {ms: busy(f" target {ms}ms ") for ms in (1, 2, 10, 20)}
    at[5] = busy(" target 5ms " if is_linux else "664 variant")
    return {
        "lost-below": most(at[5] - at[2]),
        "gained-above": most(at[10] - at[5]),
        "also: from 5 to 10 ms with several transfers, where it is most": most((at[10] - at[5])[1:]),
        "also: lost from 5 to 1 ms": most(at[5] - at[1]),
        "also: gained from 5 to 20 ms": most(at[20] - at[5]),
    }


# ---- the static links ----

LARGE = ("10mbit", "45mbit", "100mbit")
RTTS = ("10ms", "30ms", "50ms", "100ms", "200ms", "500ms")


def _rtts(runs: Needs) -> list[str]:
    """Those that were played: the kernel has no 50 ms."""
    played = {one["flow.ftp.rtt"] for one in runs["ftp"].sets}
    return [rtt for rtt in RTTS if rtt in played]


def _static(runs: Needs, address: str, *words: str) -> Floats:
    """A measure of both loads' runs, a row a combination; of equal words for two disciplines in the same order."""
    return np.concatenate([runs[name].of(*words).grid(address) for name in ("ftp", "mix")])


def _combinations(runs: Needs, *names: str) -> list[Mapping[str, Any]]:
    """The settings that belong to each row of [`Runs.grid`]."""
    return [chosen for name in names for chosen in runs[name].sets[:: len(set(runs[name].seeds))]]


def _against_tail_drop(runs: Needs, rtt: str) -> Floats:
    """CoDel's utilisation in parts of tail drop's at one RTT, all loads and rates."""
    codel, tail = (_static(runs, "utilisation", word, f"ftp.rtt={rtt}") for word in ("codel ", "pfifo "))
    return codel / tail


def n6(runs: Needs) -> Quantities:
    """Utilisation over the RTTs."""
    ratios = {rtt: _against_tail_drop(runs, rtt) for rtt in _rtts(runs)}
    far = {name: runs[f"{name}-300"] for name in ("ftp", "mix")}
    ratios["300ms"] = _against_tail_drop(far, "300ms")
    waiting = np.concatenate([runs[name].grid("utilisation") for name in ("interval-300", "interval-300-mix")])
    within = [rtt for rtt in ratios if rtt != "500ms"]
    near = [ratios[rtt].mean(axis=0) for rtt in within]
    points = np.concatenate([ratios[rtt] for rtt in within])
    delay = [np.median(_static(runs, "sojourn_ms.p50", "codel ", f"ftp.rtt={rtt}"), axis=0) for rtt in _rtts(runs)]
    return {
        "utilisation-of-tail-drop": least(np.stack(near)),
        "also: at 200 ms": ratios["200ms"].mean(axis=0),
        "also: at 300 ms with an interval of 300 ms": (waiting / _static(far, "utilisation", TAIL)).mean(axis=0),
        "also: at 500 ms": ratios["500ms"].mean(axis=0),
        "also: at the worst single point up to 300 ms": least(points),
        "also: greatest median delay of an RTT, ms": most(np.stack(delay)),
    }


def n7(runs: Needs) -> Quantities:
    """Median delays by rate."""
    ftp = runs["ftp"].of("codel ")
    large = np.concatenate([ftp.of(f"rate={rate}").grid("sojourn_ms.p50") for rate in LARGE])
    small = ftp.of("rate=3mbit").grid("sojourn_ms.p50")
    far = ("200ms", "500ms")
    near = [rtt for rtt in _rtts(runs) if rtt not in far]
    bursty = runs["mix"].of("codel ").grid("sojourn_ms.p50") - ftp.of("ftp.count=5").grid("sojourn_ms.p50")
    tails = runs["mix"].of("codel ").grid("sojourn_ms.p95") - ftp.of("ftp.count=5").grid("sojourn_ms.p95")
    shared = np.concatenate([
        ftp.of(f"rate={rate}", f"ftp.rtt={rtt}", f"ftp.count={count}").grid("sojourn_ms.p50")
        for rate in LARGE for rtt in near for count in (5, 20)
    ])  # fmt: skip
    busy = ftp.grid("utilisation")

    def both(address: str, rates: tuple[str, ...], rtts: Iterable[str]) -> list[Floats]:
        """Without and with web and a call, a row a rate and RTT."""
        words = [(f"bottleneck.rate={rate}", f"ftp.rtt={rtt}") for rate in rates for rtt in rtts]
        return [
            np.concatenate([runs[name].of("codel ", "ftp.count=5", *word).grid(address) for word in words])
            for name in ("ftp", "mix")
        ]

    def more(address: str, rates: tuple[str, ...], rtts: Iterable[str]) -> Floats:
        without, with_ = both(address, rates, rtts)
        median: Floats = np.median(with_ - without, axis=0)
        return median

    slow, fast = ("3mbit", "10mbit"), ("45mbit", "100mbit")
    drops = both("drops", slow, near)
    return {
        "delay-from-10mbit": np.median(large, axis=0),
        "delay-3mbit": np.median(small, axis=0),
        "delay-more-with-web": np.median(bursty, axis=0),
        "also: from 10 Mbit/s on, 5 and 20 transfers, RTTs up to 100 ms": np.median(shared, axis=0),
        "also: 95th percentile more with web and a call, ms": np.median(tails, axis=0),
        "also: median more with them at 3 and 10 Mbit/s, RTTs up to 100 ms": more("sojourn_ms.p50", slow, near),
        "also: utilisation there, points": 100 * more("utilisation", slow, near),
        "also: CoDel's drops there, times as many": np.median(drops[1] / drops[0], axis=0),
        "also: median more at 3 and 10 Mbit/s, RTTs of 200 and 500 ms": more("sojourn_ms.p50", slow, far),
        "also: median more at 45 and 100 Mbit/s, RTTs up to 100 ms": more("sojourn_ms.p50", fast, near),
        "also: utilisation, mean over the runs, %": 100 * busy.mean(axis=0),
        "also: the largest median of a run, ms": most(ftp.grid("sojourn_ms.p50")),
    }


def n8(runs: Needs) -> Quantities:
    """RED less CoDel."""

    def less(address: str, rates: tuple[str, ...]) -> Floats:
        red, codel = (
            np.concatenate([_static(runs, address, word, f"bottleneck.rate={rate}") for rate in rates])
            for word in ("red ", "codel ")
        )
        return red - codel

    return {
        "red-delay-more": np.median(less("sojourn_ms.p50", LARGE), axis=0),
        "utilisation-more": 100 * less("utilisation", LARGE).mean(axis=0),
        "also: delay at 3 Mbit/s, ms": np.median(less("sojourn_ms.p50", ("3mbit",)), axis=0),
        "also: utilisation at 3 Mbit/s, points": 100 * less("utilisation", ("3mbit",)).mean(axis=0),
    }


def n9(runs: Needs) -> Quantities:
    """By rate, what the larger packets add to CoDel's median delay, and RED's median delay."""
    sizes, rates, rtts = runs["packet-size"], ("128kbit", "256kbit", "512kbit", "1.5mbit"), ("30ms", "50ms", "100ms")

    def raised(rate: str, *words: str) -> Floats:
        large, small = (
            sizes.of("codel ", f"rate={rate}", f"mss={mss}", *words).grid("sojourn_ms.p50").mean(axis=0)
            for mss in (1448, 448)
        )
        return large - small

    def steps(of: Iterable[Floats]) -> Floats:
        return np.sum([a > b for a, b in itertools.pairwise(of)], axis=0)

    added = {rate: raised(rate) for rate in rates}
    with_rtt = {rtt: {rate: raised(rate, f"flow.ftp.rtt={rtt}") for rate in rates} for rtt in rtts}
    red = {rate: np.median(sizes.of("red ", f"rate={rate}").grid("sojourn_ms.p50"), axis=0) for rate in rates}
    return {
        "raised-128kbit": added["128kbit"],
        "raised-256kbit": added["256kbit"],
        "raised-512kbit": added["512kbit"],
        "raised-1500kbit": added["1.5mbit"],
        "steps": steps(added.values()),
        "red-128kbit": red["128kbit"],
        "red-256kbit": red["256kbit"],
        "red-512kbit": red["512kbit"],
        "red-1500kbit": red["1.5mbit"],
        "also: RED's median over all four rates, ms": np.median(sizes.of("red ").grid("sojourn_ms.p50"), axis=0),
        "also: RTT 30 ms, raised at 256 kbit/s, ms": with_rtt["30ms"]["256kbit"],
        "also: RTT 30 ms, raised at 512 kbit/s, ms": with_rtt["30ms"]["512kbit"],
        **{f"also: RTT {rtt[:-2]} ms, by less at each step, of 3": steps(with_rtt[rtt].values()) for rtt in rtts},
    }


def n10(runs: Needs) -> Quantities:
    """The share dropped where the link is busy for 60 % of the time, between the loads that were played."""
    web = runs["web-only"]

    def dropped(rate: str) -> Floats:
        chosen = web.of(f"bottleneck.rate={rate}")
        drops, busy = chosen.grid("drops"), chosen.grid("utilisation")
        share = 100 * drops / (drops + chosen.grid("delivered_packets"))
        return np.array([
            np.interp(0.6, busy[:, seed], share[:, seed], right=np.nan) for seed in range(busy.shape[1])
        ])  # fmt: skip

    found = [dropped(rate) for rate in ("128kbit", "256kbit", "512kbit", "1.5mbit")]
    return {
        "dropped-128kbit": found[0],
        "dropped-256kbit": found[1],
        "dropped-512kbit": found[2],
        "dropped-1500kbit": found[3],
        "also: over all four rates": np.mean(found, axis=0),
    }


# ---- the dynamic link ----

TAIL, RED, CODEL = "pfifo ", "red ", "codel "


def n11(runs: Needs) -> Quantities:
    """Tail drop's worst."""
    worst = np.maximum(*(runs[name].values("sojourn_ms.max") for name in ("slow-1", "slow-2")))
    return {"greatest-sojourn": worst / 1000}


def n12(runs: Needs) -> Quantities:
    """CoDel's quantiles; the text says "of the time", so those over time are judged."""
    codel = runs["fading"].of(CODEL)
    told = {
        "median": codel.values("queue_delay_ms.p50"),
        "p75": codel.values("queue_delay_ms.p75"),
        "p95": codel.values("queue_delay_ms.p95"),
        "also: over packets, median": codel.values("sojourn_ms.p50"),
        "also: over packets, p75": codel.values("sojourn_ms.p75"),
        "also: over packets, p95": codel.values("sojourn_ms.p95"),
    }
    if own := runs.get("fading-ns2"):
        told |= {
            "also: the authors' CoDel over time, median": own.values("queue_delay_ms.p50"),
            "also: its p75": own.values("queue_delay_ms.p75"),
            "also: its p95": own.values("queue_delay_ms.p95"),
        }
    if old := runs.get("fading-2012"):
        told |= {
            "also: with the script's hosts over time, median": old.values("queue_delay_ms.p50"),
            "also: p75 with them": old.values("queue_delay_ms.p75"),
            "also: p95 with them": old.values("queue_delay_ms.p95"),
        }
    told["also: never below 10 Mbit/s, p75"] = runs["fading-to-10"].values("queue_delay_ms.p75")
    return told


def n13(runs: Needs) -> Quantities:
    """The bytes that CoDel carried, divided by those of tail drop."""

    def carried(name: str, word: str) -> Floats:
        return runs[name].of(word).values("delivered_bytes")

    whole = [carried("fading", word) for word in (CODEL, TAIL)]
    rises = [carried("rise-1", word) + carried("rise-2", word) for word in (CODEL, TAIL)]
    rest = [all_ - rise for all_, rise in zip(whole, rises, strict=True)]
    return {
        "bytes-of-tail-drop": whole[0] / whole[1],
        "also: CoDel's MB": whole[0] / 1e6,
        "also: in the first 15 s after the link is fast again": rises[0] / rises[1],
        "also: else": rest[0] / rest[1],
        "also: where the rate never changes": carried("steady", CODEL) / carried("steady", TAIL),
    }


def n14(runs: Needs) -> Quantities:
    """CoDel's own drops in the first 208 ms."""
    names = ("drops-at-50s", "drops-at-100s", "drops-at-200s")
    return {name: runs[f"drop-{number}"].values("drops_by_reason.codel") for number, name in enumerate(names, start=1)}


def n15(runs: Needs) -> Quantities:
    """The order of the 95th percentiles."""
    found = {TAIL: runs["fading"].of(TAIL), RED: runs["fading-red"], CODEL: runs["fading"].of(CODEL)}
    time = {word: one.values("queue_delay_ms.p95") for word, one in found.items()}
    packets = {word: one.values("sojourn_ms.p95") for word, one in found.items()}
    return {
        "red-more-over-time": time[RED] - time[CODEL],
        "tail-drop-more-over-time": time[TAIL] - time[RED],
        "red-more-over-packets": packets[RED] - packets[CODEL],
        "tail-drop-more-over-packets": packets[TAIL] - packets[RED],
    }


def n16(runs: Needs) -> Quantities:
    """Buffers of ten packets. As in the paper, what is lost is reckoned from CoDel with 830."""
    small, codel = runs["ten-packets"], runs["fading"].of(CODEL).values("delivered_bytes")

    def lost(word: str) -> Floats:
        return 100 * (small.of(word).values("delivered_bytes")[: len(codel)] / codel - 1)

    def worst(word: str) -> Floats:
        slow = (runs[f"ten-packets-slow-{number}"].of(word).values("sojourn_ms.max") for number in (1, 2))
        return np.maximum(*slow)

    carried = [small.of(word).values("delivered_bytes") for word in (CODEL, TAIL)]
    return {
        "tail-drop-bytes": lost(TAIL),
        "red-bytes": lost(RED),
        "codel-bytes": lost(CODEL),
        "tail-drop-sojourn": worst(TAIL),
        "red-sojourn": worst(RED),
        "codel-sojourn": worst(CODEL),
        "codel-of-tail-drop": 100 * (carried[0] / carried[1] - 1),
    }


# ---- figures 8 and 9 ----


def n17(runs: Needs) -> Quantities:
    """By RTT."""
    ratios = {rtt: _against_tail_drop(runs, rtt).mean(axis=0) for rtt in _rtts(runs)}
    busy = [_static(runs, "utilisation", word) for word in (CODEL, RED)]
    waiting = np.concatenate([runs[name].grid("utilisation") for name in ("interval", "interval-mix")])
    longer = waiting / _static(runs, "utilisation", TAIL, "ftp.rtt=200ms")
    several = np.array([one["flow.ftp.count"] > 1 for one in _combinations(runs, "interval", "interval-mix")])
    delay = {rtt: np.median(_static(runs, "sojourn_ms.p50", CODEL, f"ftp.rtt={rtt}"), axis=0) for rtt in _rtts(runs)}
    return {
        "rtt-10ms": ratios["10ms"],
        "rtt-30ms": ratios["30ms"],
        "rtt-100ms": ratios["100ms"],
        "rtt-200ms": ratios["200ms"],
        "red-less": 100 * (busy[0] - busy[1]).mean(axis=0),
        "also: 200 ms with an interval of 200 ms": longer.mean(axis=0),
        "also: of these, several transfers": longer[several].mean(axis=0),
        "also: of these, single transfers": longer[~several].mean(axis=0),
        "also: 500 ms": ratios["500ms"],
        "also: median delay at 30 ms, ms": delay["30ms"],
        "also: at 200 ms, ms": delay["200ms"],
    }


def n18(runs: Needs) -> Quantities:
    """Jain's index of drops by packets, in runs of several sources."""
    codel, red = (
        np.concatenate([
            *(runs["ftp"].of(word, f"ftp.count={count}").grid("jain.drop_share") for count in (5, 20)),
            runs["mix"].of(word).grid("jain.drop_share"),
        ])
        for word in (CODEL, RED)
    )  # fmt: skip
    both = ~np.isnan(codel) & ~np.isnan(red)
    fairer = (codel >= red) & both
    # Four rates and all RTTs of each load, rate by rate.
    rtts = _rtts(runs)
    far = np.tile(np.arange(len(rtts)) >= rtts.index("100ms"), len(codel) // len(rtts))
    web = np.arange(len(codel)) >= len(codel) * 2 // 3
    short = np.tile(np.array([int(rtt[:-2]) for rtt in rtts]) <= 30, len(codel) // len(rtts))
    near = short & ~web
    return {
        "codel-no-less-fair": 100 * fairer.sum(axis=0) / both.sum(axis=0),
        "also: of those with RTTs from 100 ms on": 100 * fairer[far].sum(axis=0) / both[far].sum(axis=0),
        "also: of those with web and a call": 100 * fairer[web].sum(axis=0) / both[web].sum(axis=0),
        "also: CoDel's index, mean": np.nanmean(codel, axis=0),
        "also: RED's": np.nanmean(red, axis=0),
        "also: CoDel's with transfers alone, RTTs up to 30 ms": np.nanmean(codel[near], axis=0),
        "also: RED's with them": np.nanmean(red[near], axis=0),
    }


# ---- the consumer's edge ----

WAYS = {"down": "edge", "up": "edge.reverse"}
SOURCES = {"down": ("ftp", "web", "call.right"), "up": ("upload", "call.left")}
"""The sources of each direction."""
AQMS = {"CoDel": "codel ", "tail drop": "edge.qdisc=pfifo limit 13"}
DEEPER = {f"tail drop with {packets}": f"edge.qdisc=pfifo limit {packets}" for packets in (26, 52, 104)}
Measure = Callable[[Runs, str], Floats]


TWENTY = {"CoDel": "codel ", "tail drop": "edge.qdisc=pfifo limit 20"}
FITTED = {
    "512kbit": ("edge-packets", "512kbit", "packets of 1500 bytes, a buffer of 20: "),
    "1.5mbit": ("edge-rate", "1.2mbit", "1.2 Mbit/s, a buffer of 20: "),
}
"""By rate, what comes near all that the table has: runs, their rate, words."""


def _edge(
    runs: Needs, rate: str, measure: Measure, aqms: Mapping[str, str] = AQMS, name: str = "edge"
) -> dict[tuple[str, str], Floats]:
    """A measure by direction and discipline."""
    return {
        (way, aqm): measure(runs[name].of(f"edge.rate={rate}", word), way) for way in WAYS for aqm, word in aqms.items()
    }


def _changed(runs: Needs, rate: str, measure: Measure) -> dict[str, Floats]:
    """The same measure with deeper buffers, and with settings that come near the paper's results."""
    told = _table(_edge(runs, rate, measure, DEEPER), "", "also: ")
    name, other, front = FITTED[rate]
    return told | _table(_edge(runs, other, measure, TWENTY, name), "", f"also: {front}")


def _near(runs: Needs, rate: str, measure: Measure, words: str, apart: Callable[..., Floats]) -> dict[str, Floats]:
    """Tail drop's and CoDel's, apart, with what comes near the paper's, by direction."""
    name, other, front = FITTED[rate]
    found = _edge(runs, other, measure, TWENTY, name)
    return {f"also: {front}{way}, {words}": apart(found[way, "tail drop"], found[way, "CoDel"]) for way in WAYS}


def _dropped(runs: Runs, way: str) -> Floats:
    drops = runs.values(f"hops.{WAYS[way]}.drops")
    return 100 * drops / (drops + runs.values(f"hops.{WAYS[way]}.delivered_packets"))


def _median(runs: Runs, way: str) -> Floats:
    return runs.values(f"hops.{WAYS[way]}.sojourn_ms.p50")


def _megabytes(runs: Runs, way: str) -> Floats:
    return runs.values(f"hops.{WAYS[way]}.delivered_bytes") / 1e6


def _fairness(runs: Runs, way: str) -> Floats:
    """Jain's index of drops by packets over a direction's sources."""
    shares = []
    for source in SOURCES[way]:
        sent, lost = runs.flow_drops(source)
        shares.append(lost / sent)
    x = np.stack(shares)
    return x.sum(axis=0) ** 2 / (len(x) * (x**2).sum(axis=0))


def _table(found: Mapping[tuple[str, str], Floats], unit: str, front: str = "") -> dict[str, Floats]:
    return {f"{front}{way}, {aqm}{unit}": values for (way, aqm), values in found.items()}


def _judged(found: Mapping[tuple[str, str], Floats]) -> dict[str, Floats]:
    """Returns the quantities of a claim by their keys: `down-tail-drop`."""
    return {f"{way}-{aqm.lower().replace(' ', '-')}": values for (way, aqm), values in found.items()}


def _drops_of(rate: str) -> Callable[[Needs], Quantities]:
    def at(runs: Needs) -> Quantities:
        found = _edge(runs, rate, _dropped)
        apart = {way: found[way, "tail drop"] - found[way, "CoDel"] for way in WAYS}
        return {
            **_judged(found),
            "down-difference": apart["down"],
            "up-difference": apart["up"],
            **_changed(runs, rate, _dropped),
            **_near(runs, rate, _dropped, "tail drop's less CoDel's, points", np.subtract),
        }

    return at


def _medians_of(rate: str) -> Callable[[Needs], Quantities]:
    def at(runs: Needs) -> Quantities:
        found = _edge(runs, rate, _median)
        ratios = {"down": found["down", "CoDel"] / found["down", "tail drop"]}
        if np.all(found["up", "tail drop"] > 0):
            ratios["up"] = found["up", "CoDel"] / found["up", "tail drop"]
        return {
            **ratios,
            **_table(found, ", ms", "also: "),
            **{
                f"also: with {aqm.split()[-1]} packets, {way}": found[way, "CoDel"] / deeper
                for (way, aqm), deeper in _edge(runs, rate, _median, DEEPER).items()
                if np.all(deeper > 0)
            },
            **_changed(runs, rate, _median),
            **(
                _near(runs, rate, _median, "CoDel's in parts", lambda tail, codel: codel / tail)
                if "up" in ratios
                else {}
            ),
        }

    return at


def _bytes_of(rate: str) -> Callable[[Needs], Quantities]:
    def at(runs: Needs) -> Quantities:
        return {**_judged(_edge(runs, rate, _megabytes)), **_changed(runs, rate, _megabytes)}

    return at


def _fairness_of(rate: str) -> Callable[[Needs], Quantities]:
    def at(runs: Needs) -> Quantities:
        return _table(_edge(runs, rate, _fairness), "")

    return at


n19, n20, n21, n22 = (of("512kbit") for of in (_drops_of, _medians_of, _bytes_of, _fairness_of))
n23, n24, n25, n26 = (of("1.5mbit") for of in (_drops_of, _medians_of, _bytes_of, _fairness_of))


# ---- what else it says ----


def n27(runs: Needs) -> Quantities:
    """Buffers of 1 and 64 BDP less those of 8, mean over the loads; and without the first 20 s."""

    def less(name: str, limit: int, address: str) -> Floats:
        at, at_8 = (runs[name].of(f"codel limit {n} ").grid(address).mean(axis=0) for n in (limit, 664))
        return at - at_8

    measures = (
        ("utilisation", 100.0, "utilisation-{}bdp", "utilisation with {} BDP less that with 8, points"),
        ("sojourn_ms.p50", 1.0, "median-{}bdp", "median delay with {} BDP less that with 8, ms"),
        ("sojourn_ms.p95", 1.0, "p95-{}bdp", "95th percentile with {} BDP less that with 8, ms"),
    )
    sizes = ((1, 83), (64, 5312))
    told = {
        key.format(bdp): scale * less("buffers", limit, address)
        for bdp, limit in sizes
        for address, scale, key, _ in measures
    }
    if "buffers-later" in runs:
        told |= {
            f"also: from 20 s on, {label.format(bdp)}": scale * less("buffers-later", limit, address)
            for bdp, limit in sizes
            for address, scale, _, label in measures
        }
    return told


def n28(runs: Needs) -> Quantities:
    """Reno less CUBIC, at the points where both were played."""
    reno = runs["reno"]
    rates, rtts = ("3mbit", "10mbit", "45mbit"), ("30ms", "100ms", "200ms")

    def both(address: str) -> Floats:
        return np.concatenate([
            reno.of(*words).grid(address) - runs["ftp"].of(CODEL, *words).grid(address)
            for words in ((f"bottleneck.rate={rate}", f"ftp.rtt={rtt}") for rate in rates for rtt in rtts)
        ])  # fmt: skip

    busy, delay = 100 * both("utilisation"), both("sojourn_ms.p50")
    return {
        "utilisation-less": busy.mean(axis=0),
        "also: at the point where it is least": least(busy),
        "also: median delay, ms": delay.mean(axis=0),
    }


def n29(runs: Needs) -> Quantities:
    """BLUE and CoDel, by rate."""
    told: dict[str, Floats] = {}
    for rate in ("3mbit", "10mbit", "45mbit"):
        for name, word in {"BLUE": "blue ", "CoDel": CODEL, "tail drop": TAIL}.items():
            chosen = runs["blue"].of(word, f"rate={rate}")
            told[f"{rate}, {name}: utilisation, %"] = 100 * chosen.values("utilisation")
            told[f"{rate}, {name}: median delay, ms"] = chosen.values("sojourn_ms.p50")
            told[f"{rate}, {name}: p95, ms"] = chosen.values("sojourn_ms.p95")
    return told


def n30(runs: Needs) -> Quantities:
    """The differences between a cleared and a kept queue, by seed: bytes carried, and delays."""
    cleared, left = ({word: runs[name].of(word) for word in (CODEL, TAIL)} for name in ("cleared", "left"))

    def more(word: str, address: str) -> Floats:
        return cleared[word].values(address) - left[word].values(address)

    def gained(word: str) -> Floats:
        return 100 * more(word, "delivered_bytes") / left[word].values("delivered_bytes")

    return {
        "bytes-less": gained(CODEL),
        "also: packets that a full or cleared queue drops, more by": more(CODEL, "drops_by_reason.overlimit"),
        "also: its p95 over time, ms, more by": more(CODEL, "queue_delay_ms.p95"),
        "also: its p95 over packets, ms, more by": more(CODEL, "sojourn_ms.p95"),
        "also: tail drop's bytes, %": gained(TAIL),
        "also: its p95 over time, ms": more(TAIL, "queue_delay_ms.p95"),
    }


def n31(runs: Needs) -> Quantities:
    """By period."""
    told: dict[str, Floats] = {}
    for period in ("10s", "1s"):
        rate = json.dumps({"square": ["100mbit", "10mbit"], "period": period})
        for name, word in {"CoDel": CODEL, "RED": RED, "tail drop": TAIL}.items():
            chosen = runs["square"].of(word, f"rate={rate}")
            told[f"period {period}, {name}: Mbit/s"] = chosen.values("goodput_mbit")
            told[f"period {period}, {name}: median delay over time, ms"] = chosen.values("queue_delay_ms.p50")
            told[f"period {period}, {name}: p95 over time, ms"] = chosen.values("queue_delay_ms.p95")
    waiting = runs["square-interval"]
    told["also: period 1s, CoDel with an interval of 500 ms: Mbit/s"] = waiting.values("goodput_mbit")
    told["also: its p95 over time, ms"] = waiting.values("queue_delay_ms.p95")
    return told


def n32(runs: Needs) -> Quantities:
    """As many transfers back as there, less none."""
    loads = (1, 5, 20)

    def apart(address: str, back: int | None) -> Floats:
        rows = [
            (runs["reverse"].of(f"ftp.count={load}", f"back.count={load if back is None else back}").values(address)
             - runs["reverse"].of(f"ftp.count={load}", "back.count=0").values(address))
            for load in loads
        ]  # fmt: skip
        return np.stack(rows)

    busy, delay = 100 * apart("utilisation", None), apart("sojourn_ms.p50", None)
    return {
        "delay": delay.mean(axis=0),
        "utilisation": busy.mean(axis=0),
        "also: goodput, Mbit/s": np.stack([
            runs["reverse"].of(f"ftp.count={load}", f"back.count={load}").values("flows.ftp.goodput_mbit") * load
            - runs["reverse"].of(f"ftp.count={load}", "back.count=0").values("flows.ftp.goodput_mbit") * load
            for load in loads
        ]).mean(axis=0),
        "also: p95 delay, ms": apart("sojourn_ms.p95", None).mean(axis=0),
        **{f"also: utilisation, {load} there and back, points": busy[row] for row, load in enumerate(loads)},
    }  # fmt: skip


def n33(runs: Needs) -> Quantities:
    """The call's delay."""

    def delay(qdisc: str, rate: str) -> Floats:
        return runs["diffserv"].of(f"cake {qdisc}", f"router.rate={rate}").values("flows.call.delay_ms.p95")

    ratio = {rate: delay("diffserv4", rate) / delay("besteffort", rate) for rate in ("100mbit", "1.9mbit")}
    return {
        "router-100mbit": ratio["100mbit"],
        "router-below-modem": ratio["1.9mbit"],
        "also: that delay with priority, router at 100 Mbit/s, ms": delay("diffserv4", "100mbit"),
        "also: router below the modem's rate, ms": delay("diffserv4", "1.9mbit"),
    }


UNMANAGED = ("router.rate=100mbit", "modem.qdisc=pfifo limit 256")
MODEM_MBIT = {"stays": 2.0, "falls": 1.0, "doubles": 4.0}


def _option(*words: str) -> Callable[[Needs], Quantities]:
    """One of the three ways."""

    def at(runs: Needs) -> Quantities:
        def during(what: str, words: tuple[str, ...], address: str) -> Floats:
            last = {"stays": "2mbit", "falls": '[["0s", "2mbit"], ["30s", "1mbit"]]',
                    "doubles": '[["0s", "2mbit"], ["30s", "4mbit"]]'}[what]  # fmt: skip
            return runs["right-queue"].of(*words, f"modem.rate={last}").values(address)

        ping = {what: during(what, words, "flows.ping.rtt_ms.p50") for what in ("stays", "falls", "doubles")}
        bare = {what: during(what, UNMANAGED, "flows.ping.rtt_ms.p50") for what in ("stays", "falls")}
        fits = MODEM_MBIT["doubles"] * 1448 / 1514
        return {
            "ping": ping["stays"] / bare["stays"],
            "goodput-doubled": during("doubles", words, "goodput_mbit") / fits,
            "ping-halved": ping["falls"] / bare["falls"],
            "also: ping's median, ms": ping["stays"],
            "also: at half the rate, ms": ping["falls"],
            "also: unmanaged, ms": bare["stays"],
            "also: unmanaged at half the rate, ms": bare["falls"],
        }

    return at


n34 = _option("router.rate=1.9mbit")
n35 = _option("modem.qdisc=fq_codel limit 256")
n36 = _option("modem.qdisc=pfifo limit 8")
