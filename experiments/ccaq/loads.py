"""Plays long flows over paths with different round trips, one flow and many, with seven disciplines.

    python experiments/ccaq/loads.py [--world sim|kernel] [--seeds N] [--store DIR] [LOAD ...]

Runs are kept in the store, so that the program goes on where it was stopped. It writes results/loads.WORLD.json, load
by load; compare.py makes tables of it. The RTT of a flow is drawn within 5 % of the load's, and its start within a
second: nothing else in a run of one flow is random, and two runs with the same RTT would be the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sojourn as sj
from sojourn.cli.base import stages
from sojourn.errors import Refusal
from sojourn.means import as_dict
from sojourn.records import write_text
from sojourn.rfc7928.observed import versions
from sojourn.worlds import simulator

HERE = Path(__file__).parent
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
    results = sj.run(loaded, world=asked.world, store=asked.store, progress=watch(name, len(loaded.runs)))
    if results.interrupted:
        raise SystemExit("interrupted; the same command goes on where it was")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", nargs="*", choices=[*LOADS, []], metavar="LOAD", help="[default: all]")
    parser.add_argument("--world", choices=("sim", "kernel"), default="sim")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--store", type=Path, default=Path("results/ccaq"))
    asked = parser.parse_args()
    path = HERE / f"results/loads.{asked.world}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with stages() as watch:
        for name in asked.load or LOADS:
            found[name] = play(name, asked, watch)
            ordered = {one: found[one] for one in LOADS if one in found}
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(ordered, indent=1) + "\n")
            print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except Refusal as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
