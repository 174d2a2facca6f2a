"""Plays what would falsify ccaq, and writes falsifiers.md: each case with a figure, its bound and a verdict.

    python experiments/ccaq/falsify.py [--world sim|kernel] [--seeds N] [--store DIR] [--jobs N] [--only NAME ...]

The cases of robust/ are a flow whose RTT is hard to see. The ten falsifiers are the design's. NAME is a case, or the
number of a falsifier. Runs are kept in the store, so that the program goes on where it was stopped. For WORLD it writes
results/falsify.WORLD.json and the tables of falsifiers.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import changed
import watched
from pages import filled
from programs import HERE, How, finished, is_met, options, run

import sojourn as sj
from sojourn.frontier import grid, judge
from sojourn.frontier.point import INTERVAL_S, Point, plan_of, rounded_s
from sojourn.line import time_text
from sojourn.means import Mean, as_dict, as_text, mean_of
from sojourn.records import write_text
from sojourn.words import seeds_text

OURS, REFERENCE = "ccaq", "fq_codel"
TALL = "pfifo limit 1000"
BUSY, DELAY = "hops.bottleneck.utilisation", "hops.bottleneck.sojourn_ms.mean"

# ---- verdicts ----


@dataclass(frozen=True)
class Finding:
    """A figure and its bound."""

    words: str
    value: Mean
    how: How
    bound: float

    @property
    def met(self) -> bool:
        """Whether the mean is on the right side of the bound."""
        return is_met(self.value.value, self.how, self.bound)

    @property
    def sure(self) -> bool:
        """Whether the whole interval is on the mean's side of the bound. One seed has no interval."""
        half = self.value.half_width
        if half is None:
            return False
        return all(is_met(self.value.value + side * half, self.how, self.bound) == self.met for side in (-1, 1))

    def as_dict(self) -> dict[str, Any]:
        """Returns the finding as JSON has it."""
        asked = {"how": self.how, "bound": self.bound, "met": self.met, "sure": self.sure}
        return {"words": self.words, "found": as_dict(self.value), **asked}


def mean(values: Sequence[float]) -> Mean:
    """Returns the mean over the seeds. Raises ValueError if a run lacks its number."""
    numbers = [float(value) for value in values]
    found = mean_of(numbers) if all(map(math.isfinite, numbers)) else None
    if found is None:
        raise ValueError(f"a run has no number: {numbers}")
    return found


def ratio(one: Sequence[float], other: Sequence[float]) -> Mean:
    """Returns the mean of the ratios, paired by seed."""
    return mean([a / b for a, b in zip(one, other, strict=True)])


def difference(one: Sequence[float], other: Sequence[float]) -> Mean:
    """Returns the mean of the differences, paired by seed."""
    return mean([a - b for a, b in zip(one, other, strict=True)])


# ---- playing ----


@dataclass(frozen=True)
class Lab:
    """The program's options, and what is shared by its parts."""

    world: str
    seeds: int
    store: Path
    jobs: int | None
    folder: Path
    """A temporary folder, for the sources of changed modules."""

    def module(self, variant: str) -> Path:
        """Returns the folder of a changed module's sources, which are written at the first call."""
        place = self.folder / variant
        return place if place.exists() else changed.write(variant, self.folder)

    def play(self, plan: Any, variant: str | None = None) -> sj.Results:
        """Plays a plan, with a changed module if one is named."""
        world: Any = self.world
        if variant is not None:
            world = replace(sj_world(), qdisc_module=self.module(variant))
        return finished(sj.run(plan, world=world, store=self.store, on=self.jobs))

    def numbers(
        self, document: Mapping[str, Any], *addresses: str, variant: str | None = None
    ) -> list[list[list[float]]]:
        """Plays a scenario, and returns each measure: for each combination of the sweep a list over the seeds."""
        results = self.play(sj.load(document, seeds=self.seeds), variant)
        found = results.numbers(addresses)
        ends = np.cumsum([len(one.indices) for one in results.combinations])[:-1]
        return [[list(map(float, part)) for part in np.split(found[address], ends)] for address in addresses]

    def watch(
        self, document: Mapping[str, Any], reduce: watched.Reduce, module: bool = True
    ) -> list[list[dict[str, Any]]]:
        """Plays a scenario with the module that prints the flows' state, and returns what each run is reduced to."""
        place = self.module("watch") if module else None
        return watched.play(document, reduce, self.seeds, self.store, place, self.jobs)


def sj_world() -> Any:
    """Returns the kernel world."""
    from sojourn.kernel.run import Guests

    return Guests()


def read(file: str, **sweep: Sequence[Any]) -> dict[str, Any]:
    """Reads a scenario of a folder here. With `sweep`, its sweep is this one, with `__` for the dots of its keys."""
    document = tomllib.loads((HERE / f"{file}.toml").read_text(encoding="utf-8"))
    if sweep:
        document["sweep"] = {key.replace("__", "."): list(values) for key, values in sweep.items()}
    return document


def against(file: str, *lines: str) -> dict[str, Any]:
    """Reads a scenario of goals/, to be played with these disciplines instead of its own."""
    return read(f"goals/{file}", hop__bottleneck__qdisc=lines)


# ---- the cases of robust/ ----

LEAST_BUSY, MOST_DELAY = 0.98, 1.5


@dataclass(frozen=True)
class Case:
    """A flow whose RTT is hard to see: a scenario of robust/, and the changed module that plays it, if one does."""

    words: str
    file: str
    variant: str | None = None


PLAIN = "plain"
CASES: Mapping[str, Case] = {
    "lost-syn": Case("the SYN is lost behind the bottleneck", "lost-syn"),
    "no-syn": Case("no packet is seen as a SYN (QUIC)", PLAIN, "no-syn"),
    "resumed": Case("goes on after 70 s of silence", "resumed"),
    "taken-over": Case("ccaq begins in the middle of the transfer", "taken-over"),
    "arp-before": Case("ARP takes an RTT, before the bottleneck", "arp-before"),
    "arp-behind": Case("ARP takes an RTT, behind the bottleneck", "arp-behind"),
    "thinking": Case("keep-alive: thinks twice, then a long answer", "thinking"),
    "thinking-no-syn": Case("keep-alive, and no packet is seen as a SYN", "thinking", "no-syn"),
    "thinking-first": Case("thinks before its second packet, no SYN", "thinking-first", "no-syn"),
    "short": Case("the handshake shows a quarter of the RTT", PLAIN, "short"),
    "short-guessed": Case("the guess is a quarter of the RTT", PLAIN, "short-guessed"),
    "long": Case("the handshake shows four RTTs", PLAIN, "long"),
    "long-guessed": Case("the guess is four RTTs", PLAIN, "long-guessed"),
}


def paths(document: Mapping[str, Any]) -> list[str]:
    """Returns the names of a scenario's paths, in the order of its sweep."""
    sweep = document["sweep"]
    return [f"{rate}, {rtt}" for rate, rtt in zip(sweep["hop.bottleneck.rate"], sweep["flow.bulk.rtt"], strict=True)]


def play_case(lab: Lab, name: str) -> dict[str, Any]:
    """Plays a case on each path, and compares it with the plain flow."""
    case, plain = CASES[name], read(f"robust/{PLAIN}")
    document = read(f"robust/{case.file}")
    assert paths(document) == paths(plain), f"robust/{case.file}.toml has other paths than {PLAIN}.toml"
    busy, delay = lab.numbers(document, BUSY, DELAY, variant=case.variant)
    (usual,) = lab.numbers(plain, DELAY)
    found = {}
    for place, path in enumerate(paths(plain)):
        findings = (
            Finding("link busy", mean(busy[place]), "at least", LEAST_BUSY),
            Finding("delay against the plain flow's", ratio(delay[place], usual[place]), "at most", MOST_DELAY),
        )
        found[path] = {
            "delay_ms": as_dict(mean(delay[place])),
            "findings": [one.as_dict() for one in findings],
            "met": all(one.met for one in findings),
        }
    return {"words": case.words, "file": f"robust/{case.file}.toml", "module": case.variant, "paths": found}


# ---- the falsifiers ----


@dataclass(frozen=True)
class Falsifier:
    """A reason to reject the design."""

    words: str
    play: Callable[[Lab], tuple[list[Finding], list[str]]]
    """Returns the figures, and remarks. The falsifier stands if a figure is on the wrong side of its bound."""
    worlds: tuple[str, ...] = ("sim", "kernel")


SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.65, 0.8, 1.0)
"""fq_codel's targets as shares of the RTT."""
TIMES_S = (0.02, 0.05)
"""Targets that are the same at every point."""
FRONTIER = HERE / "falsifiers/frontier.toml"
MOST_EXCESS_MS = 3.0
LEAST_AS_WELL = 0.01
"""A fixed rule is not as good if it keeps the link less busy than ccaq by more than this at a point."""


def fixed(point: Point, target_s: float) -> str:
    """Returns the line of fq_codel with this target."""
    interval_s = rounded_s(max(INTERVAL_S, point.rtt_s))
    return f"{REFERENCE} target {time_text(rounded_s(target_s))} interval {time_text(interval_s)}"


@dataclass(frozen=True)
class Frontier:
    """The points of falsifiers/frontier.toml with their settings."""

    played: Sequence[tuple[Point, Mapping[str, judge.Setting]]]

    def excess_ms(self, own: Mapping[str, judge.Setting]) -> Mean:
        """Returns ccaq's delay less that of the frontier at its utilisation, as `sojourn frontier` has it."""
        steps = judge.staircase([one for line, one in own.items() if line != OURS])
        return mean(list(own[OURS].delay_ms - judge.place(steps, own[OURS], steps).against.delay_ms))

    @cached_property
    def rules(self) -> dict[str, list[judge.Setting]]:
        """Returns the settings of each fixed rule at all points."""
        shares = {f"{share:g} RTT": [own[fixed(at, share * at.rtt_s)] for at, own in self.played] for share in SHARES}
        times = {time_text(time): [own[fixed(at, time)] for at, own in self.played] for time in TIMES_S}
        return shares | times

    @property
    def ours(self) -> list[judge.Setting]:
        """Returns ccaq at all points."""
        return [own[OURS] for _, own in self.played]


def frontier(lab: Lab) -> Frontier:
    """Plays ccaq and the fixed targets at each point."""
    played = []
    for point in grid.read_grid(FRONTIER):
        lines = [
            OURS,
            *(fixed(point, share * point.rtt_s) for share in SHARES),
            *(fixed(point, one) for one in TIMES_S),
        ]
        results = lab.play(plan_of(point, list(dict.fromkeys(lines)), seeds=lab.seeds))
        played.append((point, {one.line: one for one in judge.read(results)}))
    return Frontier(played)


def near_the_frontier(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 1: the point with the largest excess."""
    found = frontier(lab)
    excesses = {point: found.excess_ms(own) for point, own in found.played if point.count == 1}
    worst = max(excesses, key=lambda point: excesses[point].value)
    above = sum(one.value > MOST_EXCESS_MS for one in excesses.values())
    words = f"excess at the worst of {len(excesses)} points, ms ({worst.words})"
    every = "; ".join(f"{point.words}: {one.value:+.2g} ms" for point, one in excesses.items())
    remarks = [f"{above} of {len(excesses)} points lie more than {MOST_EXCESS_MS:g} ms above the frontier. {every}."]
    return [Finding(words, excesses[worst], "at most", MOST_EXCESS_MS)], remarks


def no_fixed_rule(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 10: the best fixed rule that keeps the link about as busy."""
    found = frontier(lab)
    ours = found.ours

    def lacks(rule: Sequence[judge.Setting]) -> float:
        return max(one.y - other.y for one, other in zip(ours, rule, strict=True))

    def costs(rule: Sequence[judge.Setting]) -> Mean:
        logs = [np.log(other.delay_ms / one.delay_ms) for one, other in zip(ours, rule, strict=True)]
        return mean(list(np.exp(np.mean(logs, axis=0))))

    as_busy = {name: costs(rule) for name, rule in found.rules.items() if lacks(rule) <= LEAST_AS_WELL}
    if not as_busy:
        raise ValueError("no fixed rule keeps the link as busy: expected a target of one RTT to do so")
    best = min(as_busy, key=lambda name: as_busy[name].value)
    words = f"delay of the best fixed rule, a target of {best}, as a multiple of ccaq's"
    every = "; ".join(
        f"{name}: × {costs(rule).value:.2f}, {100 * lacks(rule):+.1f}" for name, rule in found.rules.items()
    )
    oracle = [found.excess_ms(own).value for _, own in found.played]
    remarks = [
        "Delay of each rule as a multiple of ccaq's, and the most points of percent by which it keeps a link less "
        f"busy: {every}.",
        f"A target that is chosen for each point, with the knowledge of its flows, is better than ccaq at "
        f"{sum(one > 0 for one in oracle)} of {len(oracle)} points.",
    ]
    return [Finding(words, as_busy[best], "at least", 1.0)], remarks


def pooled(runs: Sequence[Sequence[Mapping[str, int]]], count: str, of: str) -> list[float]:
    """Returns a share for each seed, over all combinations of a sweep."""
    by_seed = list(zip(*runs, strict=True))
    totals = [(sum(one[count] for one in own), sum(one[of] for one in own)) for own in by_seed]
    if not all(total for _, total in totals):
        raise ValueError(f"no {of}: expected some in every run")
    return [part / total for part, total in totals]


def right_rtts(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 2."""
    runs = lab.watch(read("falsifiers/rtt"), watched.epochs)
    total = sum(one["epochs"] for own in runs for one in own)
    value = mean(
        [a + b for a, b in zip(pooled(runs, "wrong", "epochs"), pooled(runs, "unknown", "epochs"), strict=True)]
    )
    each = ", ".join(f"{sum(one['wrong'] for one in own)} of {sum(one['epochs'] for one in own)}" for own in runs)
    remarks = [
        f"{total} epochs; wrong with 1, 2, 10 and 50 long flows: {each}. ccaq does not estimate b, the factor of a cut."
    ]
    return [
        Finding("share of epochs with an RTT that is wrong by over 25 % or unknown", value, "at most", 0.05)
    ], remarks


def single_cuts(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 3."""
    document = read("falsifiers/cuts")
    runs = lab.watch(document, watched.cuts)
    value = mean(pooled(runs, "several", "events"))
    totals = {key: sum(one[key] for own in runs for one in own) for key in ("events", "none", "several")}
    remarks = [f"{totals['events']} signal events: {totals['several']} caused several cuts, {totals['none']} none."]
    return [Finding("share of signal events that caused more than one cut", value, "at most", 0.01)], remarks


def over_a_satellite(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 4."""
    findings = []
    for cc in ("cubic", "reno"):
        ((busy,),) = lab.numbers(against(f"geo-{cc}", OURS), BUSY)
        findings.append(Finding(f"link busy, {cc}", mean(busy), "at least", 0.95))
    start = read("goals/geo-reno-start", flow__bulk__cc=("cubic", "reno", "bbr"), hop__bottleneck__qdisc=(OURS, TALL))
    (goodput,) = lab.numbers(start, "goodput_mbit")
    for place, cc in enumerate(start["sweep"]["flow.bulk.cc"]):
        value = ratio(goodput[2 * place], goodput[2 * place + 1])
        findings.append(Finding(f"bytes of the first 30 s against pfifo's, {cc}", value, "at least", 0.9))
    return findings, []


def harmless(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 5."""
    (ours, tall), (drops, _), (packets, _) = lab.numbers(
        against("bbr", OURS, TALL), "goodput_mbit", "flows.bulk.drops", "flows.bulk.packets"
    )
    findings = [
        Finding("goodput of BBR less pfifo's, % of the link", difference(ours, tall), "at least", -0.5),
        Finding("packets of BBR lost", ratio(drops, packets), "at most", 0.01),
    ]
    assert against("bbr")["hop"][0]["rate"] == "100mbit", "a Mbit/s is a percent of the link"
    for name, flow in (("window", "bulk"), ("cbr", "stream")):
        ((ours, tall),) = lab.numbers(against(name, OURS, TALL), f"flows.{flow}.goodput_mbit")
        words = {"window": "a window-limited flow", "cbr": "a constant stream"}[name]
        findings.append(Finding(f"goodput of {words} against pfifo's", ratio(ours, tall), "at least", 0.98))
    return findings, []


def steady_targets(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 6."""
    ((*runs,),) = lab.watch(against("onoff", OURS), watched.targets)
    value = mean([float(np.mean(one["farthest"])) for one in runs])
    most = max(max(one["farthest"]) for one in runs)
    ((ours, usual),) = lab.numbers(against("onoff", OURS, REFERENCE), DELAY)
    remarks = [
        f"The farthest that a target went is {100 * most:.0f} % of its first value. The mean sojourn is "
        f"{np.mean(ours):.3g} ms, with fq_codel {np.mean(usual):.3g} ms."
    ]
    return [
        Finding("farthest way of a source's target from its first one, mean of ten sources", value, "at most", 0.25)
    ], remarks


def after_a_step(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 7."""
    findings, remarks = [], []
    for cc in ("cubic", "reno"):
        ((*runs,),) = lab.watch(read("goals/steps", flow__bulk__cc=(cc,)), watched.step)
        allowed = float(np.mean([one["allowed_s"] for one in runs]))
        value = mean([one["above_s"] for one in runs])
        findings.append(Finding(f"time above two targets after the step, s, {cc}", value, "at most", allowed))
        other = read("goals/steps", flow__bulk__cc=(cc,), hop__bottleneck__qdisc=(REFERENCE,))
        ((*usual,),) = lab.watch(other, watched.step, module=False)
        remarks.append(
            f"{cc} with fq_codel is above twice its 5 ms for {np.mean([one['above_s'] for one in usual]):.2g} s."
        )
    return findings, remarks


def with_offloads(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 8."""
    document = read("falsifiers/offloads")
    delay, rtt = lab.numbers(document, DELAY, "flows.bulk.rtt_ms.mean")
    findings = []
    for place, cc in enumerate(document["sweep"]["flow.bulk.cc"]):
        for words, of in (("mean sojourn", delay), ("mean RTT", rtt)):
            without, with_ = of[2 * place : 2 * place + 2]
            value = mean([abs(b / a - 1) for a, b in zip(without, with_, strict=True)])
            findings.append(Finding(f"change of the {words} by GSO and GRO, {cc}", value, "at most", 0.1))
    line = f"{REFERENCE} target 12.5ms"
    other = read(
        "falsifiers/offloads", flow__bulk__cc=("cubic",), host__gso=(False, True), hop__bottleneck__qdisc=(line,)
    )
    (usual,) = lab.numbers(other, DELAY)
    sojourns = [f"{np.mean(one):.3g} ms" for one in (*delay[:2], *usual)]
    remarks = [
        f"CUBIC's mean sojourn is {sojourns[0]} without and {sojourns[1]} with packets of several segments. "
        f"With `{line}` it is {sojourns[2]} and {sojourns[3]}."
    ]
    return findings, remarks


def with_ecn(lab: Lab) -> tuple[list[Finding], list[str]]:
    """Falsifier 9."""
    document = read("falsifiers/ecn")
    (busy,) = lab.numbers(document, BUSY)
    findings = []
    for place, cc in enumerate(document["sweep"]["flow.bulk.cc"]):
        without, with_ = busy[2 * place : 2 * place + 2]
        value = mean([100 * abs(b - a) for a, b in zip(without, with_, strict=True)])
        findings.append(Finding(f"change of the utilisation by ECN, points of percent, {cc}", value, "at most", 3.0))
    return findings, []


KERNEL = ("kernel",)
FALSIFIERS: Mapping[str, Falsifier] = {
    "1": Falsifier("CUBIC or Reno is more than 3 ms above the frontier", near_the_frontier),
    "2": Falsifier("the RTT is wrong by over 25 % in over 5 % of epochs", right_rtts, KERNEL),
    "3": Falsifier("a signal event causes two cuts in over 1 % of cases", single_cuts, KERNEL),
    "4": Falsifier("600 ms: under 95 %, or the first 30 s under 0.9 of pfifo", over_a_satellite),
    "5": Falsifier("BBR, a window-limited flow or a stream loses", harmless),
    "6": Falsifier("ten on/off sources move the target by over 25 %", steady_targets, KERNEL),
    "7": Falsifier("100 to 10 Mbit/s: above two targets for too long", after_a_step, KERNEL),
    "8": Falsifier("GRO moves the mean delay by over 10 %", with_offloads, KERNEL),
    "9": Falsifier("ECN on and off differ by over 3 points", with_ecn),
    "10": Falsifier("fq_codel with an ideal fixed target does as well", no_fixed_rule),
}
MOST_STANDING = 2
"""The number of falsifiers that may stand."""


def play_falsifier(lab: Lab, number: str) -> dict[str, Any]:
    """Plays a falsifier."""
    falsifier = FALSIFIERS[number]
    findings, remarks = falsifier.play(lab)
    return {
        "words": falsifier.words,
        "findings": [one.as_dict() for one in findings],
        "stands": stands(findings),
        "remarks": remarks,
    }


def stands(findings: Sequence[Finding]) -> bool:
    """Returns whether a falsifier stands: whether a figure is on the wrong side of its bound."""
    if not findings:
        raise ValueError("a falsifier without a figure has no verdict")
    return not all(one.met for one in findings)


# ---- the page ----


def asked(finding: Mapping[str, Any]) -> str:
    """Writes the bound."""
    return f"{finding['how']} {finding['bound']:.3g}"


def verdict(finding: Mapping[str, Any], met: str, missed: str) -> str:
    """Writes a verdict, and whether it is within the interval."""
    words = met if finding["met"] else f"**{missed}**"
    within = finding["found"]["half_width"] is not None and not finding["sure"]
    return f"{words}, within the interval" if within else words


def tables(found: Mapping[str, Any]) -> str:
    """Returns the tables of falsifiers.md in Markdown."""
    rows = []
    if robust := found["robust"]:
        rows += ["| case | path | link busy | mean sojourn, ms | × plain | met |", "|---|---|--:|--:|--:|---|"]
        for name, case in robust.items():
            for path, one in case["paths"].items():
                busy, delay = one["findings"]
                met = "yes" if one["met"] else "**no**"
                within = [
                    part for part in (busy, delay) if part["found"]["half_width"] is not None and not part["sure"]
                ]
                cells = [name, path, as_text(busy["found"]), as_text(one["delay_ms"]), as_text(delay["found"])]
                rows.append(f"| {' | '.join(cells)} | {met}{', within the interval' if within else ''} |")
        count = sum(one["met"] for case in robust.values() for one in case["paths"].values())
        total = sum(len(case["paths"]) for case in robust.values())
        rows += [
            "",
            f"{count} of {total} are met: link busy {LEAST_BUSY:g}, sojourn × {MOST_DELAY:g} of the plain flow.",
        ]
    if falsifiers := found["falsifiers"]:
        rows += ["", "| | falsifier | figure | asked | found | verdict |", "|--:|---|---|---|---|---|"]
        for number, one in falsifiers.items():
            for place, finding in enumerate(one["findings"]):
                head = (number, one["words"]) if place == 0 else ("", "")
                cells = [*head, finding["words"], asked(finding), as_text(finding["found"])]
                rows.append(f"| {' | '.join(cells)} | {verdict(finding, 'does not stand', 'stands')} |")
        standing = [number for number, one in falsifiers.items() if one["stands"]]
        many = f"{len(standing)} of {len(falsifiers)} stand" + (f": {', '.join(standing)}" if standing else "")
        rows += ["", f"{many}. At most {MOST_STANDING} may."]
        for number, one in falsifiers.items():
            if one["remarks"]:
                rows += ["", f"{number}: {' '.join(one['remarks'])}"]
    return "\n".join(rows).strip()


def write(world: str, found: Mapping[str, Any]) -> None:
    """Writes the results of a world, and its tables into falsifiers.md."""
    write_text(HERE / f"results/falsify.{world}.json", json.dumps(found, indent=1) + "\n")
    page = HERE / "falsifiers.md"
    begin, end = f"<!-- falsify.{world}: written by falsify.py -->", f"<!-- end of falsify.{world} -->"
    content = f"{seeds_of(found)}  ·  world {world}  ·  sojourn {found['version']}\n\n{tables(found)}"
    write_text(page, filled(page.read_text(encoding="utf-8"), begin, end, content))


def seeds_of(found: Mapping[str, Any]) -> str:
    """Writes how many seeds were played: those of most parts, and then the parts that have others."""
    by_seeds: dict[int, list[str]] = {}
    for name, part in [*found["robust"].items(), *found["falsifiers"].items()]:
        by_seeds.setdefault(part["seeds"], []).append(name)
    usual = max(by_seeds, key=lambda seeds: len(by_seeds[seeds]))
    others = [
        f"{seeds_text(range(1, seeds + 1))}: {', '.join(by_seeds[seeds])}" for seeds in by_seeds if seeds != usual
    ]
    return "; ".join([seeds_text(range(1, usual + 1)), *others])


def is_in(world: str, name: str) -> bool:
    """Returns whether a world can play a case or a falsifier. Changed modules are the kernel's."""
    if name in CASES:
        return world == "kernel" or CASES[name].variant is None
    return world in FALSIFIERS[name].worlds


def read_asked() -> argparse.Namespace:
    """Reads the command line."""
    names = [*CASES, *FALSIFIERS]
    parser = options(__doc__, seeds=3, world="kernel")
    parser.add_argument("--jobs", type=int, help="runs at a time [default: one for each core]")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    found = parser.parse_args()
    if found.seeds < 1:
        parser.error(f"--seeds = {found.seeds}: expected at least 1")
    for name in found.only:
        if found.only is not names and not is_in(found.world, name):
            parser.error(f"--only = {name}: expected --world kernel with it")
    return found


def main() -> None:
    """Plays the cases and falsifiers asked for, and adds them to the results of the world."""
    options = read_asked()
    path = HERE / f"results/falsify.{options.world}.json"
    head = {"version": version("sojourn")}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if any(known.get(key) != value for key, value in head.items()):
        known = {}
    parts = {"robust": dict(known.get("robust", {})), "falsifiers": dict(known.get("falsifiers", {}))}
    with tempfile.TemporaryDirectory(prefix="sojourn-falsify-") as temporary:
        lab = Lab(options.world, options.seeds, options.store, options.jobs, Path(temporary))
        for name in options.only:
            if not is_in(options.world, name):
                continue
            if name in CASES:
                found = {"seeds": options.seeds, **play_case(lab, name)}
                parts["robust"][name] = found
                said = ", ".join(f"{at} {'met' if one['met'] else 'MISSED'}" for at, one in found["paths"].items())
            else:
                found = {"seeds": options.seeds, **play_falsifier(lab, name)}
                parts["falsifiers"][name] = found
                said = "stands" if found["stands"] else "does not stand"
            print(f"{name}: {said}", file=sys.stderr, flush=True)
            ordered = {
                "robust": {one: parts["robust"][one] for one in CASES if one in parts["robust"]},
                "falsifiers": {one: parts["falsifiers"][one] for one in FALSIFIERS if one in parts["falsifiers"]},
            }
            write(options.world, {**head, **ordered})


if __name__ == "__main__":
    run(main)
