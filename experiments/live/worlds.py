"""Plays ten scenarios in all three worlds side by side, and writes the table of README.md.

    python experiments/live/worlds.py [--seeds N] [--only NAME ...]

The live world plays in real time: a seed takes about six minutes. Play on a host that does nothing else. The results
are in worlds.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

import sojourn as sj
from sojourn.means import as_dict, as_text, mean_of
from sojourn.records import write_text
from sojourn.words import seeds_text

HERE = Path(__file__).resolve().parent
WORLDS = ("sim", "kernel", "live")
DURATION_S, START_S = 30, 5
MOST_GOODPUT, MOST_SOJOURN, MOST_SOJOURN_MS = 0.03, 0.10, 1.0
"""The bounds: the share by which goodput may differ, and the share or the time for the median sojourn."""


@dataclass(frozen=True)
class Case:
    """A path with its discipline and its flows."""

    rate: str
    rtt: str
    qdisc: str
    flows: Mapping[str, int]
    """Long flows by congestion control."""

    def document(self) -> dict[str, Any]:
        """Returns the scenario."""
        hop = {"name": "link", "rate": self.rate, "qdisc": self.qdisc}
        flows = [
            {"kind": "bulk", "name": cc, "cc": cc, "count": count, "rtt": self.rtt, "start": "uniform 0s..1s"}
            for cc, count in self.flows.items()
        ]
        measure = [f"{START_S}s", "end"]
        return {"title": self.words, "duration": f"{DURATION_S}s", "measure": measure, "hop": [hop], "flow": flows}

    @property
    def words(self) -> str:
        """The case in a few words."""
        flows = " + ".join(f"{count} {cc}" for cc, count in self.flows.items())
        return f"{flows}, {self.rate}, {self.rtt}, {self.qdisc}"


CASES: Mapping[str, Case] = {
    "fifo": Case("10mbit", "40ms", "pfifo limit 60", {"cubic": 2}),
    "codel": Case("20mbit", "30ms", "codel", {"cubic": 4}),
    "fq_codel": Case("50mbit", "20ms", "fq_codel", {"cubic": 3, "reno": 1}),
    "pie": Case("20mbit", "50ms", "pie", {"cubic": 4}),
    "ccaq": Case("30mbit", "40ms", "ccaq", {"cubic": 1}),
    "cake": Case("25mbit", "30ms", "cake", {"cubic": 2, "reno": 2}),
    "slow": Case("2mbit", "60ms", "fq_codel", {"cubic": 2}),
    "long": Case("20mbit", "150ms", "fq_codel", {"cubic": 8}),
    "bbr": Case("20mbit", "40ms", "fq_codel", {"bbr": 2}),
    "fast": Case("100mbit", "20ms", "codel", {"cubic": 4}),
}


def play(case: Case, seeds: int) -> dict[str, Any]:
    """Plays a case in all worlds. Returns the means, and why a live run is not valid, if one is not."""
    found: dict[str, Any] = {"words": case.words}
    for world in WORLDS:
        results = sj.run(sj.load(case.document(), seeds=seeds), world=world, on=1 if world == "live" else None)
        goodput = [sum(flow["goodput_mbit"] for flow in one.result["flows"]) for one in results.runs]
        sojourn = [one.result["hops"]["link"]["sojourn_ms"]["p50"] for one in results.runs]
        mean = mean_of(goodput)
        median = mean_of(sojourn)
        assert mean is not None
        assert median is not None
        found[world] = {"goodput_mbit": as_dict(mean), "sojourn_p50_ms": as_dict(median)}
        if reasons := [one.truth["reasons"] for one in results.runs if one.truth.get("reasons")]:
            found[world]["invalid"] = reasons
    return found


def is_near(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two worlds agree within the bounds."""
    goodputs = [world["goodput_mbit"]["mean"] for world in (one, other)]
    sojourns = [world["sojourn_p50_ms"]["mean"] for world in (one, other)]
    apart = abs(sojourns[0] - sojourns[1])
    return abs(goodputs[0] - goodputs[1]) <= MOST_GOODPUT * goodputs[1] and apart <= max(
        MOST_SOJOURN * sojourns[1], MOST_SOJOURN_MS
    )


def table(found: Mapping[str, Any]) -> str:
    """Returns the table of README.md."""
    heads = ["case", *(f"{world}: goodput, Mbit/s; sojourn p50, ms" for world in WORLDS), "live agrees with"]
    rows = [f"| {' | '.join(heads)} |", "|---|--:|--:|--:|---|"]
    for case in found["cases"].values():
        cells = [
            f"{as_text(case[world]['goodput_mbit'])}; {as_text(case[world]['sojourn_p50_ms'])}" for world in WORLDS
        ]
        near = [world for world in WORLDS[:2] if is_near(case["live"], case[world])]
        valid = " (not valid)" if "invalid" in case["live"] else ""
        rows.append(f"| {case['words']} | {' | '.join(cells)} | {' and '.join(near) or '**none**'}{valid} |")
    return "\n".join(rows)


def play_all(
    description: str | None,
    name: str,
    cases: Mapping[str, Case],
    play: Callable[[Case, int], dict[str, Any]],
    table: Callable[[Mapping[str, Any]], str],
    seeds: int,
) -> None:
    """Plays the cases that the command line asks for, and writes their part of README.md after each. The results are
    in a file; those with other seeds, or of another kernel or version, are forgotten. `name` is that of the part, of
    the file and of the program.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--only", nargs="+", choices=cases, default=list(cases), metavar="NAME", help=", ".join(cases))
    asked = parser.parse_args()
    path, page = HERE / f"{name}.json", HERE / "README.md"
    head = {"seeds": asked.seeds, "linux": platform.release(), "version": version("sojourn")}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    played = dict(known.get("cases", {})) if {key: known.get(key) for key in head} == head else {}
    origin = f"{seeds_text(range(1, asked.seeds + 1))}  ·  live: Linux {head['linux']}  ·  sojourn {head['version']}"
    begin, end = f"<!-- {name}: written by {name}.py -->", f"<!-- end of {name} -->"
    for case in asked.only:
        played[case] = play(cases[case], asked.seeds)
        print(f"{case}: {played[case]}", file=sys.stderr, flush=True)
        found = {**head, "cases": {one: played[one] for one in cases if one in played}}
        write_text(path, json.dumps(found, indent=1) + "\n")
        write_text(page, filled(page.read_text(encoding="utf-8"), begin, end, f"{origin}\n\n{table(found)}"))


if __name__ == "__main__":
    play_all(__doc__, "worlds", CASES, play, table, seeds=2)
