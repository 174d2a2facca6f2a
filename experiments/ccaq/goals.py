"""Plays what ccaq was asked for, and writes goals.md: each goal with its figure, and the other disciplines.

    python experiments/ccaq/goals.py [--world sim|kernel] [--seeds N] [--store DIR] [--qdisc LINE ...] [GOAL ...]

The scenarios are in goals/. Runs are kept in the store, so that the program goes on where it was stopped. For WORLD it
writes results/goals.WORLD.json and the tables of goals.md.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled
from programs import HERE, How, finished, is_met, is_sure, options, play_each, run

import sojourn as sj
from sojourn.means import Mean, as_dict, as_text
from sojourn.records import write_text
from sojourn.rfc7928.observed import versions

OURS, REFERENCE = "ccaq", "fq_codel"
COLUMNS = {
    "hops.bottleneck.utilisation": ("busy, %", 100.0),
    "hops.bottleneck.sojourn_ms.mean": ("sojourn, ms", 1.0),
    "hops.bottleneck.sojourn_ms.p95": ("p95, ms", 1.0),
    "goodput_mbit": ("goodput, Mbit/s", 1.0),
    "hops.bottleneck.drops": ("drops", 1.0),
}
"""The columns of the tables: the measure, its head, and the factor of its unit."""


@dataclass(frozen=True)
class Goal:
    """A bound for a measure of ccaq."""

    words: str
    address: str
    how: How
    bound: float
    """In the measure's unit, or a factor of another discipline's mean."""
    of: str | None = None
    """The discipline whose mean is multiplied by the bound."""

    def limit(self, means: Mapping[str, Mapping[str, Mean | None]]) -> float:
        """Returns the bound in the measure's unit."""
        if self.of is None:
            return self.bound
        other = means[self.address][self.of]
        assert other is not None, f"{self.of} has no {self.address}"
        return self.bound * other.value


BUSY, MEAN, P95 = "hops.bottleneck.utilisation", "hops.bottleneck.sojourn_ms.mean", "hops.bottleneck.sojourn_ms.p95"
GOALS: Mapping[str, Sequence[Goal]] = {
    "cubic": (
        Goal("link busy", BUSY, "at least", 0.988),
        Goal("mean RTT, ms", "flows.bulk.rtt_ms.mean", "at most", 56.0),
    ),
    "reno": (
        Goal("link busy", BUSY, "at least", 0.982),
        Goal("mean RTT, ms", "flows.bulk.rtt_ms.mean", "at most", 68.0),
    ),
    "geo-cubic": (Goal("link busy", BUSY, "at least", 0.985),),
    "geo-reno": (Goal("link busy", BUSY, "at least", 0.93),),
    "geo-reno-start": (Goal("goodput against pfifo's", "goodput_mbit", "at least", 0.9, "pfifo limit 1000"),),
    "rural": (
        Goal("link busy", BUSY, "at least", 0.95),
        Goal("p95 of the sojourn, ms", P95, "at most", 150.0),
    ),
    "sixteen": (Goal("mean sojourn against fq_codel's", MEAN, "at most", 1.5, REFERENCE),),
    "pages": (Goal("time of a page against fq_codel's", "flows.reader.page_load_s.mean", "at most", 1.03, REFERENCE),),
    "sparse": (
        Goal("packets of the call lost", "flows.call.drops", "at most", 0.0),
        Goal("packets of the game lost", "flows.game.drops", "at most", 0.0),
        Goal("packets of the ping lost", "flows.ping.drops", "at most", 0.0),
    ),
    "ecn": (Goal("link busy", BUSY, "at least", 0.98),),
    "steps": (Goal("link busy against fq_codel's", BUSY, "at least", 1.0, REFERENCE),),
    "onoff": (Goal("mean sojourn against fq_codel's", MEAN, "at most", 1.5, REFERENCE),),
    "bbr": (Goal("goodput against pfifo's", "goodput_mbit", "at least", 0.995, "pfifo limit 1000"),),
    "cbr": (Goal("packets of the stream lost", "flows.stream.drops", "at most", 0.0),),
    "window": (Goal("goodput against the paper's", "goodput_mbit", "at least", 0.98, "ccaq variant paper"),),
    "flood": (
        Goal("sojourn p95, ms", P95, "at most", 300.0),
        Goal("packets of the ping lost", "flows.ping.drops", "at most", 0.0),
    ),
}

ALSO: Mapping[str, Sequence[str]] = {
    "sparse": ("flows.ping.rtt_ms.p95", "flows.call.delay_ms.p95", "flows.game.rtt_ms.p95"),
    "flood": ("flows.ping.rtt_ms.p95", "flows.bulk.goodput_mbit"),
}
"""Further measures that are kept, for the page that compares the disciplines."""


def play(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Plays a scenario of a goal and returns the figures of each discipline, and the goals' verdicts."""
    document = tomllib.loads((HERE / f"goals/{name}.toml").read_text(encoding="utf-8"))
    if asked.qdisc:
        lines = [OURS, *asked.qdisc, *(goal.of for goal in GOALS[name] if goal.of)]
        document["sweep"]["hop.bottleneck.qdisc"] = list(dict.fromkeys(lines))
    results = finished(sj.run(sj.load(document, seeds=asked.seeds), world=asked.world, store=asked.store))
    addresses = list(dict.fromkeys([*COLUMNS, *(goal.address for goal in GOALS[name]), *ALSO.get(name, ())]))
    labels = results.labels
    means = {address: dict(zip(labels, found, strict=True)) for address, found in results.means(addresses).items()}
    verdicts = []
    for goal in GOALS[name]:
        mean, limit = means[goal.address][OURS], goal.limit(means)
        assert mean is not None, f"{name}: {OURS} has no {goal.address}"
        verdicts.append(
            {
                "words": goal.words,
                "asked": f"{goal.how} {limit:.4g}",
                "found": as_dict(mean),
                "met": is_met(mean.value, goal.how, limit),
                "sure": is_sure(mean, goal.how, limit),
            }
        )
    figures = {label: {one: as_dict(means[one][label]) for one in addresses} for label in labels}
    about = {"title": document["title"], "seeds": asked.seeds, "versions": versions(results)}
    return {**about, "goals": verdicts, "disciplines": figures}


def tables(found: Mapping[str, Any]) -> str:
    """Returns the tables of goals.md in Markdown."""
    rows = ["| scenario | goal | asked | ccaq | met |", "|---|---|---|---|---|"]
    for name, one in found.items():
        for goal in one["goals"]:
            met = ("yes" if goal["met"] else "**no**") + ("" if goal["sure"] else ", within the interval")
            cells = [f"[{name}](goals/{name}.toml)", goal["words"], goal["asked"], as_text(goal["found"]), met]
            rows.append(f"| {' | '.join(cells)} |")
    for name, one in found.items():
        heads = [head for head, _ in COLUMNS.values()]
        rows += ["", f"**{name}** ({one['seeds']} seeds)", "", f"| discipline | {' | '.join(heads)} |"]
        rows.append(f"|---|{'--:|' * len(heads)}")
        for label, figures in one["disciplines"].items():
            cells = [as_text(figures[address], factor) for address, (_, factor) in COLUMNS.items()]
            rows.append(f"| `{label}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def fill(world: str, content: str) -> None:
    """Puts the tables of a world into goals.md, between their marks."""
    path = HERE / "goals.md"
    begin, end = f"<!-- goals.{world}: written by goals.py -->", f"<!-- end of goals.{world} -->"
    write_text(path, filled(path.read_text(encoding="utf-8"), begin, end, content))


def main() -> None:
    """Plays the goals asked for and adds them to the results of the world."""
    parser = options(__doc__)
    parser.add_argument("goal", nargs="*", choices=[*GOALS, []], help="a scenario of goals/ [default: all]")
    parser.add_argument("--qdisc", action="append", help="compare with these instead of all; repeatable")
    asked = parser.parse_args()
    for name, found in play_each("goals", asked, GOALS, asked.goal, lambda name: play(name, asked)):
        met = "; ".join(f"{one['words']} {'met' if one['met'] else 'missed'}" for one in found[name]["goals"])
        print(f"{name}: {met}", file=sys.stderr, flush=True)
        fill(asked.world, tables(found))


if __name__ == "__main__":
    run(main)
