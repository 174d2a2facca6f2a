"""Judges the claims of the CoDel paper's figure 7: N11 to N16, from ten seeds and more of the fading link.

Without arguments it writes the table in docs/explanation/fading-link.md anew; with --print it only prints it.
The rules by which a claim holds were fixed before the first run. Every seed gives each discipline the same arrivals, so
differences and ratios are taken seed by seed, and intervals are Student's 95 % over the seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pages import claims_table, filled

from sojourn import _core
from sojourn.plan import load
from sojourn.sweep import mean_of

Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/fading-link.md"
BEGIN, END = "<!-- claims: written by tools/fading_claims.py -->", "<!-- end of claims -->"
SEEDS = 10
SMALL_SEEDS = 30
"""For the ten-packet buffers: ten leave an interval of ± 2 % about a difference that the paper says is none."""
RATE_DROPS_S = (50, 100, 200)
SLOW_S = ((100, 150), (200, 250))
"""When the link runs at 1 Mbit/s."""
GROWTH_S = ((150, 165), (250, 265))
"""The first 15 s after the link is fast again."""
FIRST_DROP_MS = 100 + 108
"""An interval and the longest base RTT."""
CODEL = 4
"""CoDel's own drops among the fates of packets (`dropped:codel`)."""
CAUSES = {
    "N12": "a third of the time one packet lasts 12 ms; Linux's CoDel resumes more gently than the authors' own",
    "N13": "CUBIC needs 6 to 8 s to grow into a link that is fast again",
}
"""Why a claim that differs does, found by experiment: the page tells them."""
SHORT = {"pfifo": "tail drop", "red": "RED", "codel": "CoDel"}


@dataclass(frozen=True)
class Seen:
    """What one run gave."""

    bytes_mb: float
    growth_mb: float
    """Of these, in the first 15 s after the link is fast again."""
    slow_max_ms: float
    """The largest sojourn of a packet that left at 1 Mbit/s."""
    time: dict[str, float]
    """Queue delay, weighted by time."""
    packets: dict[str, float]
    """Sojourn, weighted by packets."""
    first_drops_ms: tuple[float, ...]
    """From each drop of the rate to CoDel's first drop after it."""


@dataclass(frozen=True)
class Claim:
    """One claim, judged."""

    id: str
    paper: str
    measured: str
    rule: str
    verdict: str

    @property
    def cause(self) -> str:
        """Why it differs; nothing if it holds."""
        return "" if self.verdict == "holds" else CAUSES[self.id]


def within(bins: Mapping[str, Floats], column: str, spans: Sequence[tuple[int, int]]) -> Floats:
    """A column of a link's series (bins of 0.1 s), in these spans of seconds only."""
    at = np.round(bins["time_s"], 6)
    inside = np.logical_or.reduce([(at >= begin) & (at < end) for begin, end in spans])
    return bins[column][inside]


def first_drops(output: _core.Output) -> tuple[float, ...]:
    """Milliseconds from each drop of the rate to CoDel's first drop after it."""
    packets = output.packets()
    drops = packets["end_ns"][(packets["link"] == 0) & (packets["fate"] == CODEL)] / 1e6
    after = [drops[drops >= at * 1000] - at * 1000 for at in RATE_DROPS_S]
    return tuple(float(times.min()) for times in after if len(times))


def observe(scenario: str, qdisc: str, seeds: int = SEEDS, *, drops: bool = False) -> list[Seen]:
    """All seeds of one discipline; `drops`: look for CoDel's first ones, too."""
    plan = load(ROOT / "scenarios" / f"{scenario}.toml", [("hop.bottleneck.qdisc", qdisc)], 1, seeds)

    def one(index: int) -> Seen:
        output = plan.run(index, packets=drops)
        assert output is not None
        hop = json.loads(output.result())["hops"]["bottleneck"]
        bins = output.series()["bottleneck"]
        return Seen(
            bytes_mb=hop["delivered_bytes"] / 1e6,
            growth_mb=float(within(bins, "delivered_bytes", GROWTH_S).sum()) / 1e6,
            slow_max_ms=float(np.nanmax(within(bins, "sojourn_max_ms", SLOW_S))),
            time=hop["queue_delay_ms"],
            packets=hop["sojourn_ms"],
            first_drops_ms=first_drops(output) if drops else (),
        )

    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(one, range(len(plan))))


def interval(values: Sequence[float], digits: int = 1) -> str:
    """A mean with its 95 % interval."""
    mean = mean_of(values)
    assert mean is not None
    assert mean.half_width is not None
    return f"{mean.value:.{digits}f} ± {mean.half_width:.{digits}f}"


def average(values: Sequence[float]) -> float:
    """The mean that is judged."""
    return float(np.mean(values))


def verdict(*holds: bool) -> str:
    """`holds` if everything that the rule asks for does."""
    return "holds" if all(holds) else "differs"


def n11(tail: list[Seen]) -> Claim:
    """The tail drop's delay at 1 Mbit/s."""
    worst = [seen.slow_max_ms / 1000 for seen in tail]
    return Claim(
        "N11", "tail drop, 830 packets: delays of up to about 10 s at 1 Mbit/s (830 · 12 ms = 9.96 s)",
        f"largest sojourn {interval(worst, 2)} s", "8 to 10 s in each seed",
        verdict(*(8 <= value <= 10 for value in worst)),
    )  # fmt: skip


def n12(codel: list[Seen]) -> Claim:
    """CoDel's delay: the text says \"of the time\", so the time-weighted numbers are judged."""
    bounds = {"p50": (1, 5), "p75": (3, 10), "p95": (40, 150)}

    def all_of(weighted: Callable[[Seen], dict[str, float]]) -> str:
        return " / ".join(interval([weighted(seen)[quantile] for seen in codel]) for quantile in bounds)

    times = {quantile: average([seen.time[quantile] for seen in codel]) for quantile in bounds}
    return Claim(
        "N12", "CoDel: median 2.7 ms, three quarters 5 ms, below 90 ms for 95 % of the time",
        f"p50 / p75 / p95 over time {all_of(lambda seen: seen.time)} ms; "
        f"over packets {all_of(lambda seen: seen.packets)} ms",
        "over time: 1 to 5 / 3 to 10 / 40 to 150 ms",
        verdict(*(low <= times[quantile] <= high for quantile, (low, high) in bounds.items())),
    )  # fmt: skip


def n13(tail: list[Seen], codel: list[Seen]) -> Claim:
    """What CoDel carried, in parts of what tail drop carried."""
    pairs = list(zip(codel, tail, strict=True))
    ratios = [c.bytes_mb / t.bytes_mb for c, t in pairs]
    growth = [c.growth_mb / t.growth_mb for c, t in pairs]
    rest = [(c.bytes_mb - c.growth_mb) / (t.bytes_mb - t.growth_mb) for c, t in pairs]
    return Claim(
        "N13", "CoDel transfers almost as much as tail drop (1637.5 MB at most)",
        f"{interval([c.bytes_mb for c, _ in pairs], 0)} MB against {interval([t.bytes_mb for _, t in pairs], 0)} MB, "
        f"ratio {interval(ratios, 3)}; in the first 15 s after the link is fast again {interval(growth, 3)}, "
        f"else {interval(rest, 3)}",
        "ratio at least 0.93", verdict(average(ratios) >= 0.93),
    )  # fmt: skip


def n14(codel: list[Seen]) -> Claim:
    """How soon CoDel finds a new control point: its first drop."""
    columns = list(zip(*(seen.first_drops_ms for seen in codel), strict=True))
    steps = "; ".join(
        f"at {at} s {interval(values, 0)} ms (at most {max(values):.0f})"
        for at, values in zip(RATE_DROPS_S, columns, strict=True)
    )
    return Claim(
        "N14", "CoDel finds a new control point within 100 ms of a drop of the rate",
        f"first CoDel drop {steps}", f"at most an interval and a base RTT, {FIRST_DROP_MS} ms, in each seed",
        verdict(len(columns) == len(RATE_DROPS_S), *(value <= FIRST_DROP_MS for values in columns for value in values)),
    )  # fmt: skip


def n15(tail: list[Seen], red: list[Seen], codel: list[Seen]) -> Claim:
    """The order of the 95th percentiles, seed by seed."""

    def p95(seen: Seen, weighting: str) -> float:
        return float(getattr(seen, weighting)["p95"])

    ordered = [
        p95(c, weighting) < p95(r, weighting) < p95(t, weighting)
        for weighting in ("time", "packets")
        for c, r, t in zip(codel, red, tail, strict=True)
    ]
    texts = [
        f"over {weighting} " + " / ".join(interval([p95(seen, weighting) for seen in seens], 0)
                                          for seens in (codel, red, tail))
        for weighting in ("time", "packets")
    ]  # fmt: skip
    return Claim(
        "N15", "RED delays less than tail drop, more than CoDel",
        f"p95 of CoDel / RED / tail drop {'; '.join(texts)} ms", "p95 in this order in each seed, both weightings",
        verdict(*ordered),
    )  # fmt: skip


def n16(large: dict[str, list[Seen]], small: dict[str, list[Seen]]) -> Claim:
    """Buffers of ten packets. As in the paper, what is lost is reckoned from CoDel with 830."""
    lost, own, worst, holds = [], [], [], []
    for qdisc, seens in small.items():
        name = SHORT[qdisc]
        losses = [100 * (s.bytes_mb / b.bytes_mb - 1) for s, b in zip(seens, large["codel"], strict=False)]
        losses_own = [100 * (s.bytes_mb / b.bytes_mb - 1) for s, b in zip(seens, large[qdisc], strict=False)]
        delays = [seen.slow_max_ms for seen in seens]
        lost.append(f"{name} {interval(losses)} %")
        own.append(f"{name} {interval(losses_own)} %")
        worst.append(f"{name} {interval(delays)} ms")
        holds += [-85 <= average(losses) <= -60, 108 <= average(delays) <= 132]
    apart = [100 * (c.bytes_mb / t.bytes_mb - 1) for c, t in zip(small["codel"], small["pfifo"], strict=True)]
    mean = mean_of(apart)
    assert mean is not None
    assert mean.half_width is not None
    holds.append(abs(mean.value) <= mean.half_width)
    return Claim(
        "N16", "10 packets of buffer: about 75 % less than CoDel with 830, for all three; "
        "tail drop and CoDel the same; 120 ms at most",
        f"bytes: {', '.join(lost)} (each against its own 830: {', '.join(own)}); CoDel against tail drop "
        f"{interval(apart)} % ({len(apart)} seeds); largest sojourn at 1 Mbit/s: {', '.join(worst)}",
        "-60 to -85 %; no difference between tail drop and CoDel outside its interval; 108 to 132 ms",
        verdict(*holds),
    )  # fmt: skip


def judge() -> list[Claim]:
    """Runs both scenarios and judges."""
    lines = {"pfifo": "pfifo limit {}", "red": "red limit {} variant ns2", "codel": "codel limit {}"}
    large = {name: observe("fading-link", line.format(830), drops=name == "codel") for name, line in lines.items()}
    small = {
        name: observe("ten-packet-buffer", line.format(10), SEEDS if name == "red" else SMALL_SEEDS)
        for name, line in lines.items()
    }
    tail, red, codel = large["pfifo"], large["red"], large["codel"]
    return [n11(tail), n12(codel), n13(tail, codel), n14(codel), n15(tail, red, codel), n16(large, small)]


def with_table(page: str, claims: Sequence[Claim]) -> str:
    """The page with this table in it."""
    return filled(page, BEGIN, END, claims_table(claims))


def main() -> int:
    """Prints the table, or writes it into the page."""
    claims = judge()
    if "--print" in sys.argv:
        print(claims_table(claims))
        return 0
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), claims), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
