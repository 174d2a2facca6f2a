"""Plays long flows over paths with different round trips, one flow and many, with seven disciplines.

    python experiments/ccaq/loads.py [--world sim|kernel] [--seeds N] [--store DIR] [LOAD ...]

Runs are kept in the store, so that the program goes on where it was stopped. It writes results/loads.WORLD.json, load
by load; compare.py makes tables of it. The RTT of a flow is drawn within 5 % of the load's, and its start within a
second: nothing else in a run of one flow is random, and two runs with the same RTT would be the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from programs import finished, options, play_each, run

import sojourn as sj
from sojourn.cli.base import stages
from sojourn.means import as_dict
from sojourn.rfc7928.observed import versions
from sojourn.worlds import simulator

DISCIPLINES = ("fq_codel", "cake", "pie", "fq_pie", "dualpi2", "ccaq", "ccaq variant paper")
HOP = "hops.bottleneck"
MEASURES = {
    "busy": f"{HOP}.utilisation",
    "mean": f"{HOP}.sojourn_ms.mean",
    "p95": f"{HOP}.sojourn_ms.p95",
    "drops": f"{HOP}.drops",
    "packets": f"{HOP}.delivered_packets",
}
"""By the name in the results, the address of a measure."""
SPREAD = 0.05


@dataclass(frozen=True)
class Load:
    """Long flows of one congestion control on a path."""

    words: str
    cc: str
    count: int
    rate: str
    rtt_ms: int
    seconds: int
    """The duration; the first 30 s are not measured."""


PATHS: Mapping[str, tuple[str, int, int]] = {
    "short": ("100mbit", 10, 90),
    "medium": ("100mbit", 50, 240),
    "satellite": ("16mbit", 600, 600),
}
"""Rate, RTT in ms and duration in s. One cycle of Reno takes 10 s at 50 ms, and 100 s over the satellite."""
LOADS: Mapping[str, Load] = {
    **{
        f"{path}-{cc}": Load(f"one flow, {cc}, {path} path", cc, 1, rate, rtt_ms, seconds)
        for path, (rate, rtt_ms, seconds) in PATHS.items()
        for cc in ("cubic", "reno", "bbr")
    },
    "many-cubic": Load("16 CUBIC flows, 10 Mbit/s, 100 ms", "cubic", 16, "10mbit", 100, 120),
    "many-fast": Load("64 CUBIC flows, 100 Mbit/s, 50 ms", "cubic", 64, "100mbit", 50, 90),
    "many-slow": Load("30 Reno flows, 1 Mbit/s, 50 ms", "reno", 30, "1mbit", 50, 240),
    "many-bbr": Load("7 BBR flows, 20 Mbit/s, 300 ms", "bbr", 7, "20mbit", 300, 120),
}


def document(load: Load) -> dict[str, Any]:
    """Returns the scenario of a load."""
    low, high = (round(load.rtt_ms * (1 + sign * SPREAD) * 1000) for sign in (-1, 1))
    return {
        "title": load.words,
        "duration": f"{load.seconds}s",
        "measure": ["30s", "end"],
        "hop": [{"name": "bottleneck", "rate": load.rate, "qdisc": DISCIPLINES[0]}],
        "flow": [
            {
                "name": "bulk",
                "kind": "bulk",
                "count": load.count,
                "cc": load.cc,
                "rtt": f"uniform {low}us..{high}us",
                "start": "uniform 0s..1s",
            }
        ],
        "sweep": {"hop.bottleneck.qdisc": list(DISCIPLINES)},
    }


def play(name: str, asked: argparse.Namespace, watch: Callable[[str, int], Callable[[float, float], None]]) -> Any:
    """Plays a load with all disciplines, and returns their figures."""
    load = LOADS[name]
    loaded = sj.load(document(load), seeds=asked.seeds)
    progress = watch(name, len(loaded.runs))
    results = finished(sj.run(loaded, world=asked.world, store=asked.store, progress=progress))
    means = results.means(list(MEASURES.values()))
    lines = [one.set["hop.bottleneck.qdisc"] for one in results.combinations]
    return {
        "words": load.words,
        "seeds": asked.seeds,
        "versions": versions(results),
        "build": simulator()[:8] if asked.world == "sim" else asked.world,
        "disciplines": {
            line: {key: as_dict(means[address][place]) for key, address in MEASURES.items()}
            for place, line in enumerate(lines)
        },
        "skipped": results.skipped,
    }


def main() -> None:
    """Plays the loads asked for and adds them to the results of the world."""
    parser = options(__doc__)
    parser.add_argument("load", nargs="*", choices=[*LOADS, []], metavar="LOAD", help="[default: all]")
    asked = parser.parse_args()
    with stages() as watch:
        for name, _found in play_each("loads", asked, LOADS, asked.load, lambda name: play(name, asked, watch)):
            print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
