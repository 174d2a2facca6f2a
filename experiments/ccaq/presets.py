"""Plays the presets with ccaq and with fq_codel in front of the slow link: is ccaq ever worse in both?

    python experiments/ccaq/presets.py [--world sim|kernel] [--seeds N] [--store DIR] [PRESET ...]

Both: the delay of sparse flows, and the goodput of all flows. Runs are kept in the store, so that the program goes on
where it was stopped. It writes results/presets.WORLD.json, preset by preset. compare.py makes a table and a picture of
it.

A preset's own [sweep] is replaced: its bottleneck gets each discipline with its defaults, in both directions where both
have a queue. The two play the same seeds, and so the same drawn traffic; their differences are taken seed by seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from programs import finished, options, play_each, run

import sojourn as sj
from sojourn import paired, plan
from sojourn.cases import Address, Cases
from sojourn.cli.base import stages
from sojourn.means import as_dict, mean_of
from sojourn.rfc7928.observed import versions
from sojourn.worlds import simulator

OURS, REFERENCE = "ccaq", "fq_codel"
Verdict = Literal["better", "worse", "same", "open"]
"""`same`: equal within rounding. `open`: the 95 % interval of the difference includes 0."""
AtOnce = Literal["no", "perhaps", "yes"]


@dataclass(frozen=True)
class Preset:
    """A preset, and the queues at its slow link."""

    scenario: str
    queues: Mapping[str, str]
    """By the key of a queue, its line, with {} for the discipline."""


def at(scenario: str, *queues: str, line: str = "{}") -> Preset:
    """Returns a preset with the same line at several queues."""
    return Preset(scenario, {f"hop.{queue}.qdisc": line for queue in queues})


PRESETS: Mapping[str, Preset] = {
    "home-dsl": at("home-dsl", "line.down", "line.up"),
    "home-dsl, shaped": Preset(
        "home-dsl",
        {
            "hop.router.down.qdisc": "htb rate 11mbit overhead 26 linklayer atm child {}",
            "hop.router.up.qdisc": "htb rate 950kbit overhead 26 linklayer atm child {}",
        },
    ),
    "home-cable": at("home-cable", "cable.down", "cable.up"),
    "fibre-1g": at("fibre-1g", "fibre.down", "fibre.up"),
    "rural-1mbit": at("rural-1mbit", "line.down", "line.up"),
    "rural-1mbit, shaped": Preset(
        "rural-1mbit",
        {
            "hop.router.down.qdisc": "htb rate 950kbit overhead 8 child {}",
            "hop.router.up.qdisc": "htb rate 240kbit overhead 8 child {}",
        },
    ),
    "wifi-home": at("wifi-home", "radio.down", "radio.up"),
    "lte-drive": at("lte-drive", "cell.down", "cell.up"),
    "leo": at("leo", "dish.down", "dish.up"),
    "meo-320mbit": at("meo-320mbit", "trunk.down"),
    "geo-16mbit": at("geo-16mbit", "satellite.down"),
    "geo-ack-starved": at("geo-ack-starved", "satellite.down", "satellite.up"),
    "isp-edge": at("isp-edge", "edge.down", line="{} limit 20000 memory_limit 64mb"),
    "conference": at("conference", "uplink.down", "uplink.up"),
    "datacentre": at("datacentre", "port.down"),
    "l4s-mixed": at("l4s-mixed", "line.down"),
    "work-call": at("work-call", "line.down", "line.up"),
    "gaming": at("gaming", "line.down", "line.up"),
    "family-evening": at("family-evening", "line.down", "line.up"),
}
"""All presets of docs/how-to/choose-a-preset.md. Two lines whose files have `htb` are played with it too: there the
user's router has the queue.
"""
KERNEL_SETS: Mapping[str, Mapping[str, str]] = {"l4s-mixed": {"flow.prague.cc": "dctcp"}}
"""Values for the kernel world: Linux has no Prague."""


@dataclass(frozen=True)
class Measure:
    """A number of a run by which the disciplines are compared."""

    head: str
    unit: str
    lower_is_better: bool
    kinds: tuple[str, ...]
    """The kinds of flows that have it; none for a number of the run."""
    path: str
    how: Literal["most", "mean"] = "mean"
    """How the numbers of several flows are combined."""

    def address(self, cases: Cases) -> Address | None:
        """Returns where the number is; None if a preset has no such flows."""
        if not self.kinds:
            return Address(self.path)
        names = tuple(dict.fromkeys(flow.name for flow in cases.flows if flow.kind in self.kinds))
        return Address(self.path, flows=names, how=self.how) if names else None


DELAYS = ("ping", "call")
"""The measures of sparse flows' delay. One that is worse makes the delay worse."""
RATE = "goodput"
"""The measure of throughput. All flows count: a film takes a better quality where the link has room for it, and its
ACKs then leave an upload less.
"""
MEASURES: Mapping[str, Measure] = {
    "ping": Measure("RTT of pings, p95, ms", "ms", True, ("pings",), "rtt_ms.p95", "most"),
    "call": Measure("delay of calls, p95, ms", "ms", True, ("voip",), "delay_ms.p95", "most"),
    RATE: Measure("goodput of all flows, Mbit/s", "Mbit/s", False, (), "goodput_mbit"),
    "page": Measure("load time of pages, s", "s", True, ("web",), "page_load_s.mean"),
}
"""With several flows, the highest 95th percentile counts, and the mean load time."""


def verdict_of(differences: Sequence[float], scale: float, *, lower_is_better: bool) -> Verdict:
    """Judges a measure by its differences, seed by seed. `scale` is the size of the numbers that were compared."""
    if all(abs(value) <= paired.ROUNDING * scale for value in differences):
        return "same"
    mean = mean_of(differences)
    if mean is None or mean.half_width is None or abs(mean.value) <= mean.half_width:
        return "open"
    return "better" if (mean.value < 0) == lower_is_better else "worse"


def judged(measure: Measure, ours: Sequence[float | None], theirs: Sequence[float | None]) -> dict[str, Any]:
    """Returns a measure of both disciplines, with the mean difference and its verdict, as JSON has it."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    differences = [a - b for a, b in pairs]
    scale = max((abs(value) for pair in pairs for value in pair), default=0.0)
    return {
        "unit": measure.unit,
        OURS: as_dict(mean_of([a for a, _ in pairs])),
        REFERENCE: as_dict(mean_of([b for _, b in pairs])),
        "difference": as_dict(mean_of(differences)),
        "relative": as_dict(mean_of([(a - b) / b for a, b in pairs if b])),
        "verdict": verdict_of(differences, scale, lower_is_better=measure.lower_is_better),
    }


def at_once_of(delays: Sequence[tuple[Verdict, bool]], rate: tuple[Verdict, bool]) -> AtOnce:
    """Returns whether ccaq is worse in a delay and in throughput at once.

    Each measure has its verdict, and whether the mean is on the wrong side of fq_codel's. `perhaps`: both means are,
    by more than rounding, but an interval includes 0.
    """

    def are_worse(among: tuple[Verdict, ...]) -> bool:
        return any(verdict in among and wrong for verdict, wrong in delays) and rate[0] in among and rate[1]

    return "yes" if are_worse(("worse",)) else "perhaps" if are_worse(("worse", "open")) else "no"


def at_once(measures: Mapping[str, Mapping[str, Any]]) -> AtOnce:
    """Returns whether ccaq is worse in the delay of sparse flows and in goodput at once."""

    def place(name: str) -> tuple[Verdict, bool]:
        difference = measures[name]["difference"]["mean"]
        return measures[name]["verdict"], difference > 0 if MEASURES[name].lower_is_better else difference < 0

    return at_once_of([place(name) for name in DELAYS if name in measures], place(RATE))


def play(name: str, asked: argparse.Namespace, watch: Callable[[str, int], Callable[[float, float], None]]) -> Any:
    """Plays a preset with both disciplines, and returns what is written about it."""
    preset = PRESETS[name]
    document = sj.read(preset.scenario)
    lines = {key: [line.format(kind) for kind in (OURS, REFERENCE)] for key, line in preset.queues.items()}
    document["sweep"] = {"zip": [list(lines)], **lines} if len(lines) > 1 else lines
    sets = KERNEL_SETS.get(preset.scenario, {}) if asked.world == "kernel" else {}
    folder = plan.find(Path(preset.scenario)).parent
    loaded = sj.load(document, set=sets, seeds=asked.seeds, folder=folder)
    tell = watch(name, len(loaded.runs))
    results = finished(sj.run(loaded, world=asked.world, store=asked.store, progress=tell))
    assert not results.skipped, results.skipped
    cases = results.cases()
    addresses = {key: found for key, one in MEASURES.items() if (found := one.address(cases)) is not None}
    values = results.values(list(addresses.values()))
    measures = {key: judged(MEASURES[key], *values[address]) for key, address in addresses.items()}
    return {
        "title": document["title"],
        "scenario": preset.scenario,
        "queues": preset.queues,
        "set": sets,
        "measure": document["measure"],
        "duration": document["duration"],
        "seeds": asked.seeds,
        "versions": versions(results),
        "build": simulator()[:8] if asked.world == "sim" else asked.world,
        "measures": measures,
        "worse_at_once": at_once(measures),
    }


def main() -> None:
    """Plays the presets asked for and adds them to the results of the world."""
    parser = options(__doc__)
    parser.add_argument("preset", nargs="*", choices=[*PRESETS, []], metavar="PRESET", help="[default: all]")
    asked = parser.parse_args()
    with stages() as watch:
        for name, found in play_each("presets", asked, PRESETS, asked.preset, lambda name: play(name, asked, watch)):
            print(f"{name}: worse in both: {found[name]['worse_at_once']}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
