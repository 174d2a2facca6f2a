"""The quantities of the satellite posts' claims: a function for each claim of claims.toml.

Every seed gives each queue the same arrivals, so differences and ratios are taken seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sojourn.claims import Floats, Quantities, Runs

Needs = Mapping[str, Runs]
RATE, RTT_S, LIMIT = 16e6, 0.5, 120_000.0
"""The link in bit/s, its bare RTT, the smaller queue in bytes."""
SMALL, LARGE = "bfifo limit 120000", "bfifo limit 2000000"
DOWNLOAD_MBIT = 40e6 * 8 / 1e6
"""The probe's."""
EMPTY_MS = 2.0
"""A sojourn below which the queue counts as drained: about a packet."""


def _rate(runs: Runs) -> Floats:
    """The rate of the download of 40 MB in each run, in Mbit/s."""
    rate: Floats = DOWNLOAD_MBIT / runs.values("flows.probe.fct_s.mean")
    return rate


def share(runs: Runs, rate: int) -> Floats:
    """The share that the download has of a link of `rate` Mbit/s. If the run ends before it, the share until then."""
    measured_s, played_s = 280.0, 270.0
    unfinished = runs.values("flows.probe.goodput_mbit") * measured_s / played_s
    ended = _rate(runs)
    found: Floats = np.where(np.isnan(ended), unfinished, ended) / rate
    return found


def _capped(runs: Runs, flows: int, limit: str) -> Runs:
    return runs.of(f"users.max_active={flows}", f"qdisc={limit}")


# ---- the queue over time ----


def _bins(runs: Runs) -> list[tuple[Floats, Floats]]:
    """The bins of each run's measuring window: starts in s, and the least sojourn in each in ms, 0 if nothing left."""
    found = []
    for record in runs.recorded():
        columns = record.series[runs.hop]
        inside = columns["time_s"] >= record.about["measure_s"][0]
        found.append((columns["time_s"][inside], np.nan_to_num(columns["sojourn_min_ms"][inside])))
    return found


def _longest_s(runs: Runs) -> Floats:
    """The longest time between two bins in which the queue was empty."""
    longest = []
    for time_s, least_ms in _bins(runs):
        drained = np.concatenate([time_s[:1], time_s[least_ms < EMPTY_MS], time_s[-1:]])
        longest.append(float(np.diff(drained).max()))
    return np.array(longest)


def _standing(runs: Runs, window_s: float, above_ms: float) -> Floats:
    """The share of windows side by side, in %, in which no packet waited less."""
    shares = []
    for time_s, least_ms in _bins(runs):
        which = ((time_s - time_s[0]) / window_s).astype(int)
        least = [least_ms[which == one].min() for one in range(which[-1])]
        shares.append(100.0 * float(np.mean(np.array(least) > above_ms)))
    return np.array(shares)


def s1(runs: Needs) -> Quantities:
    """A full queue, and what is left of the packet that is being sent."""
    return {
        "sojourn-50-flows": runs["figure-1"].values("sojourn_ms.max"),
        "sojourn-80-flows": runs["figure-2"].values("sojourn_ms.max"),
    }


def s2(runs: Needs) -> Quantities:
    """The small queue under the smaller load."""
    figure = runs["figure-1"]
    return {
        "longest-busy": _longest_s(figure),
        "full": 100 * figure.values("full_fraction"),
        "also: empty, % of the time": 100 * figure.values("empty_fraction"),
        "also: utilisation, %": 100 * figure.values("utilisation"),
    }


# ---- the download ----


def s3(runs: Needs) -> Quantities:
    """50 flows, 120 kB."""
    return {"rate": _rate(_capped(runs["link"], 50, SMALL))}


def s4(runs: Needs) -> Quantities:
    """60 flows."""
    return {"rate": _rate(_capped(runs["link"], 60, SMALL))}


def s5(runs: Needs) -> Quantities:
    """80 flows with the small queue, and with the large one."""
    return {
        "rate": _rate(_capped(runs["link"], 80, SMALL)),
        "also: with 2000 kB": _rate(_capped(runs["link"], 80, LARGE)),
    }


def s6(runs: Needs) -> Quantities:
    """The small queue under the larger load."""
    figure = runs["figure-2"]
    return {
        "delay": figure.values("queue_delay_ms.mean"),
        "longest-busy": _longest_s(figure),
        "also: full, % of the time": 100 * figure.values("full_fraction"),
    }


def s7(runs: Needs) -> Quantities:
    """50 flows and 2000 kB, and other capacities."""
    capacities = {"500 kB": "bfifo limit 500000", "1000 kB": "bfifo limit 1000000", "4000 kB": "bfifo limit 4000000"}
    return {
        "rate": _rate(_capped(runs["link"], 50, LARGE)),
        **{f"also: with {kb}": _rate(_capped(runs["capacity"], 50, line)) for kb, line in capacities.items()},
    }


def s8(runs: Needs) -> Quantities:
    """A lasting transfer and 2000 kB, and the download, which lasts for half a minute."""
    figure, download = runs["figure-3"], runs["download"]
    return {
        "standing-windows": _standing(figure, 10, 100),
        "greatest-rtt": figure.values("flows.ping.rtt_ms.max") / (1000 * RTT_S),
        "also: such windows with a download instead, %": _standing(download, 10, 100),
        "also: its greatest RTT": download.values("flows.ping.rtt_ms.max") / (1000 * RTT_S),
    }


def s9(runs: Needs) -> Quantities:
    """One to sixteen lasting transfers."""
    counts = (1, 2, 4, 8, 16)
    rates = {
        line: np.stack([
            runs["long"].of(f"long.count={n}", f"qdisc={line}").values("flows.long.goodput_mbit") for n in counts
        ])
        for line in (SMALL, LARGE)
    }  # fmt: skip
    delays = [runs["long"].of(f"long.count={n}", f"qdisc={LARGE}").values("queue_delay_ms.mean") for n in counts]
    # Over the seeds: a flow's rate at 120 kB is that of a single seed's losses.
    parts = rates[LARGE].mean(axis=1) / rates[SMALL].mean(axis=1)
    return {
        "falling-steps": float((np.diff(parts) < 0).sum()),
        "delay-more": delays[-1] - delays[0],
        **{f"also: rate of each of {n}, Mbit/s": rates[LARGE][i] for i, n in enumerate(counts)},
        **{f"also: of each of {n} at 120 kB": rates[SMALL][i] for i, n in enumerate(counts)},
        **{f"also: mean queue delay with {n}, ms": delays[i] for i, n in enumerate(counts)},
    }


# ---- rules ----


def s10(_runs: Needs) -> Quantities:
    """The post's numbers, computed."""
    bdp = RATE * RTT_S / 8
    return {
        "BDP, kB": bdp / 1000,
        "120 kB are one part in": bdp / LIMIT,
        "flows by the rule": (bdp / LIMIT) ** 2,
        "RTT at which it is a sixteenth, ms": 1000 * 16 * LIMIT * 8 / RATE,
        "one part of two BDP in": 2 * bdp / LIMIT,
    }


def s11(runs: Needs) -> Quantities:
    """The rules as limits that the simulator reckons itself from the path: those in bytes must be the same queues."""
    named, written = (runs["long"].of("long.count=8", f"qdisc={line}") for line in (LARGE, SMALL))
    double, root = runs["two-bdp"], runs["root-69"]
    assert math.isclose(1 / math.sqrt((RATE * RTT_S / 8 / LIMIT) ** 2), 0.12)
    return {
        "drops-2bdp": double.values("drops") - named.values("drops"),
        "drops-bdp-sqrt": root.values("drops") - written.values("drops"),
        "sojourn-2bdp": double.values("sojourn_ms.max") / (1000 * RTT_S),
    }


def s12(runs: Needs) -> Quantities:
    """By link: GEO has a delay of 250 ms, MEO of 65."""
    found: dict[str, Floats] = {}
    for orbit, delay, rates in (("GEO", "250ms", (8, 16, 32, 64)), ("MEO", "65ms", (64, 160, 320))):
        for rate in rates:
            for limit in ("0.12bdp", "2bdp"):
                own = runs["range"].of(f"rate={rate}mbit", f"delay={delay}", f"bfifo limit {limit}")
                name = f"{orbit}, {rate} Mbit/s, {limit.replace('bdp', ' BDP')}"
                found[f"{name}: utilisation, %"] = 100 * own.values("utilisation")
                found[f"{name}: mean queue delay, ms"] = own.values("queue_delay_ms.mean")
                found[f"{name}: the download, parts of the link"] = share(own, rate)
    return found


# ---- disciplines ----

DISCIPLINES = {
    "FIFO": "bfifo ", "RED": "red ", "RED, ECN": "red ", "CoDel": "codel ", "CoDel of 600 ms": "codel ",
    "CoDel of 600 ms, ECN": "codel ", "FQ-CoDel of 600 ms": "fq_codel ",
}  # fmt: skip
"""As disciplines.toml lists them for each limit."""


def s13(runs: Needs) -> Quantities:
    """Utilisation, queue delay, and the rates of the download and of the others, for each discipline and limit."""
    lines = list(dict.fromkeys(one["hop.satellite.qdisc"] for one in runs["disciplines"].sets))
    found: dict[str, Floats] = {}
    for limit, own in (("120 kB", lines[:7]), ("2000 kB", lines[7:])):
        for (name, word), line in zip(DISCIPLINES.items(), own, strict=True):
            assert line.startswith(word)
            each = runs["disciplines"].of(f"qdisc={line}")
            found[f"{limit}, {name}: utilisation, %"] = 100 * each.values("utilisation")
            found[f"{limit}, {name}: mean queue delay, ms"] = each.values("queue_delay_ms.mean")
            found[f"{limit}, {name}: the download, Mbit/s"] = _rate(each)
            found[f"{limit}, {name}: median time of the others, s"] = each.values("flows.users.fct_s.p50")
    return found


# ---- small and large transfers ----


def s14(runs: Needs) -> Quantities:
    """Small transfers with and without a lasting transfer."""

    def slower(count: int, measure: str) -> Floats:
        small, large = (
            runs["by-size"].of(f"long.count={count}", "users.max_active=50", f"qdisc={line}").values(measure)
            for line in (SMALL, LARGE)
        )
        return large / small

    return {
        "small-transfers-time": slower(1, "flows.small.fct_s.mean"),
        "also: their median time": slower(1, "flows.small.fct_s.p50"),
        "also: mean time without the lasting transfer": slower(0, "flows.small.fct_s.mean"),
        "also: mean time of transfers from 100 kB on": slower(1, "flows.large.fct_s.mean"),
    }


def _gained(runs: Runs, address: str) -> Floats:
    """From 50 to 80 flows with 120 kB, without a lasting transfer."""
    fewer, more = (
        runs.of("long.count=0", f"users.max_active={flows}", f"qdisc={SMALL}").values(address) for flows in (50, 80)
    )
    gained: Floats = more - fewer
    return gained


def s15(runs: Needs) -> Quantities:
    """The gain of small and large transfers, for two limits between small and large."""
    found: dict[str, Floats] = {}
    names = {
        "by-size": ("gained-by-small", "gained-less-by-large"),
        "parted-at-1mb": (
            "also: gained by transfers below 1 MB, Mbit/s",
            "also: by those less by the larger than 1 MB, Mbit/s",
        ),
    }
    for parted, (gained, less) in names.items():
        small, large = (_gained(runs[parted], f"flows.{which}.goodput_mbit") for which in ("small", "large"))
        found[gained] = small
        found[less] = small - large
    found["also: utilisation gained, points"] = 100 * _gained(runs["by-size"], "utilisation")
    return found


# ---- the extremes ----


def s16(runs: Needs) -> Quantities:
    """No queue: a lasting transfer's window, a message of 20 kB. One without end: the delay by the run's length."""
    none = runs["extremes"].of("noqueue", "duration=300s")
    segments = none.values("flows.long.goodput_mbit") * 1e6 * none.values("flows.long.rtt_ms.mean") / 1e3 / (1448 * 8)
    found = {
        "no queue: utilisation, %": 100 * none.values("utilisation"),
        "no queue: the lasting transfer's mean window, segments": segments,
        "no queue: median time of a message of 20 kB, s": none.values("flows.mail.fct_s.p50"),
        "no queue: 95th percentile of it, s": none.values("flows.mail.fct_s.p95"),
        "120 kB: median time of a message of 20 kB, s":
            runs["extremes"].of(SMALL, "duration=300s").values("flows.mail.fct_s.p50"),
    }  # fmt: skip
    for seconds in (150, 300, 600):
        endless = runs["extremes"].of("pfifo limit", f"duration={seconds}s")
        found[f"endless: greatest delay within {seconds} s, s"] = endless.values("sojourn_ms.max") / 1000
    return found


def _active(runs: Runs, window_s: float = 880.0) -> Floats:
    """By Little's law: transfers that come to their end in a second, times how long each lasts after its handshake."""
    handshake_s = RTT_S + runs.values("queue_delay_ms.mean") / 1000
    active: Floats = (
        runs.values("flows.users.completed") / window_s * (runs.values("flows.users.fct_s.mean") - handshake_s)
    )
    return active


def s17(runs: Needs) -> Quantities:
    """At most 50 active users, and the same with an initial window of three segments."""
    small, three = _capped(runs["link"], 50, SMALL), _capped(runs["initial-window"], 50, SMALL)
    return {
        "active": _active(small),
        "also: with an initial window of three": _active(three),
        "also: the download's rate then, Mbit/s": _rate(three),
    }


def s18(runs: Needs) -> Quantities:
    """Without and with paths on land."""
    paths = {
        "none": "500ms",
        "0 to 20 ms": "uniform 500ms..520ms",
        "0 to 300 ms": "uniform 500ms..800ms",
        "100 ms ± 100": "normal 600ms 100ms",
    }
    found: dict[str, Floats] = {}
    for name, value in paths.items():
        for limit, line in (("120 kB", SMALL), ("2000 kB", LARGE)):
            own = runs["terrestrial"].of(f"users.rtt={value}", f"qdisc={line}")
            found[f"{name}, {limit}: utilisation, %"] = 100 * own.values("utilisation")
            found[f"{name}, {limit}: mean queue delay, ms"] = own.values("queue_delay_ms.mean")
            found[f"{name}, {limit}: the download, Mbit/s"] = _rate(own)
    return found
