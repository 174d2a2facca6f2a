"""Judges the papers' claims that the real kernel must show: plays their scenarios in it and writes the table.

    tools/kernel_claims.py [--print] [--again] [NAME…]

Plays what has no numbers yet (with --again everything; with NAMEs only these, such as 000-rural-codel/testbed),
keeps each run's numbers beside its scenario (NAME.kernel.csv), and writes the table in
docs/explanation/kernel-claims.md (with --print only to stdout). The claims and the ranges by which they hold stand in
experiments/*/claims.toml and were fixed before the first run. Comparisons are made seed by seed; ± is Student's 95 %
interval over the seeds.
"""

from __future__ import annotations

import csv
import json
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pages import claims_table, filled

from sojourn import _core
from sojourn.kernel.run import Guests
from sojourn.plan import load, sift
from sojourn.sweep import mean_of

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "experiments"
PAGE = ROOT / "docs/explanation/kernel-claims.md"
BEGIN, END = "<!-- claims: written by tools/kernel_claims.py -->", "<!-- end of claims -->"
GUESTS = 2

Numbers = dict[str, float]
Quantities = dict[str, Sequence[float]]
"""By what it is called in claims.toml: its value for each seed."""


@dataclass(frozen=True)
class Experiment:
    """A scenario, how the kernel plays it, and the numbers that are kept of a run."""

    file: str
    """Below the root."""
    link: str
    numbers: Callable[[_core.Output], Numbers]


# ---- the numbers of a run ----


def of_the_rural_bed(output: _core.Output) -> Numbers:
    """Bulk goodput, completion times, pings and the queue."""
    run = json.loads(output.result())
    hop, (bulk, files, pings) = run["hops"]["bottleneck"], run["flows"]
    return {
        "utilisation": hop["utilisation"],
        "drops": hop["drops"],
        "sojourn_mean_ms": hop["sojourn_ms"]["mean"],
        "sojourn_p50_ms": hop["sojourn_ms"]["p50"],
        "sojourn_p95_ms": hop["sojourn_ms"]["p95"],
        "sojourn_p99_ms": hop["sojourn_ms"]["p99"],
        "sojourn_max_ms": hop["sojourn_ms"]["max"],
        "standing_p50_ms": hop["standing_queue_ms"]["p50"],
        "standing_p90_ms": hop["standing_queue_ms"]["p90"],
        "bulk_mbit": bulk["goodput_mbit"],
        "fct_mean_s": files["fct_s"]["mean"],
        "ping_mean_ms": pings["rtt_ms"]["mean"],
    }


EXPERIMENTS_BY_NAME = {
    "000-rural-codel/testbed": Experiment("experiments/000-rural-codel/testbed.toml", "device", of_the_rural_bed),
}
SEEDS = 10


# ---- playing ----


@dataclass(frozen=True)
class Seen:
    """A run's numbers."""

    set: dict[str, str]
    seed: int
    numbers: Numbers


def numbers_file(name: str) -> Path:
    """Where an experiment's numbers are kept."""
    return EXPERIMENTS / f"{name}.kernel.csv"


def play(experiment: Experiment, seeds: int, sets: Sequence[tuple[str, str]] = ()) -> list[Seen]:
    """All runs of an experiment, two guests at a time."""
    plan = load(ROOT / experiment.file, sets, 1, seeds)
    world = Guests(link=experiment.link)
    playable, refused = sift(plan, lambda index: world.refusal(plan, index))
    assert not refused, refused
    runs = json.loads(plan.runs())

    def one(index: int) -> Seen:
        played = world.play(plan, index, _core.Progress(), packets=False, series=False)
        assert played is not None
        return Seen(
            {key: str(value) for key, value in runs[index]["set"].items()},
            runs[index]["seed"],
            experiment.numbers(played.output),
        )

    with ThreadPoolExecutor(max_workers=GUESTS) as pool:
        return list(pool.map(one, playable))


def write(path: Path, seen: Sequence[Seen]) -> None:
    """One row a run, six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([*(f"set.{key}" for key in seen[0].set), "seed", *seen[0].numbers])
        rows.writerows([*one.set.values(), one.seed, *(f"{v:.6g}" for v in one.numbers.values())] for one in seen)


def read(path: Path) -> list[Seen]:
    """What `write` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Seen(
                {key.removeprefix("set."): value for key, value in row.items() if key.startswith("set.")},
                int(row["seed"]),
                {key: float(v) for key, v in row.items() if key != "seed" and not key.startswith("set.")},
            )
            for row in csv.DictReader(file)
        ]


class Runs:
    """An experiment's runs, asked by words of what was set."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = list(seen)

    def of(self, *words: str) -> Runs:
        """Those whose settings, as text, begin with each of these words: `codel`, `pfifo limit 25`."""
        return Runs([one for one in self.seen if all(any(v.startswith(w) for v in one.set.values()) for w in words)])

    def column(self, name: str) -> list[float]:
        """A number of each run, seed by seed."""
        assert self.seen, f"no runs have {name}"
        return [one.numbers[name] for one in sorted(self.seen, key=lambda one: one.seed)]


# ---- claims ----


def over(left: Sequence[float], right: Sequence[float]) -> list[float]:
    """Ratios, seed by seed."""
    return [a / b for a, b in zip(left, right, strict=True)]


def less(left: Sequence[float], right: Sequence[float]) -> list[float]:
    """Differences, seed by seed."""
    return [a - b for a, b in zip(left, right, strict=True)]


RURAL = {"CoDel": "codel limit 25", "FQ-CoDel": "fq_codel limit 25 drop_batch 1 noecn"}
TUNED = " target 65ms interval 300ms"


class Bed:
    """The rural test bed by discipline and RTT."""

    def __init__(self, runs: Mapping[str, Runs]) -> None:
        self.runs = runs["000-rural-codel/testbed"]
        self.delays = list(dict.fromkeys(one.set["hop.bottleneck.delay"] for one in self.runs.seen))

    def column(self, qdisc: str, delay: str, name: str) -> list[float]:
        """A number of one discipline's runs at one RTT."""
        chosen = [one for one in self.runs.seen if list(one.set.values()) == [delay, qdisc]]
        return Runs(chosen).column(name)

    def extreme(self, values: Callable[[str], Sequence[float]]) -> Sequence[float]:
        """Of the RTT where the mean over the seeds is greatest."""
        return max((values(delay) for delay in self.delays), key=np.mean)

    def share(self, gain: Callable[[str], Sequence[float]]) -> list[float]:
        """The percentage of RTTs where the mean over the seeds is positive."""
        return [100 * sum(float(np.mean(gain(delay))) > 0 for delay in self.delays) / len(self.delays)]

    def lost(self, qdisc: str, delay: str, name: str) -> list[float]:
        """How much less than drop tail's, in percent."""
        tail = self.column("pfifo limit 25", delay, name)
        return [100 * (1 - v) for v in over(self.column(qdisc, delay, name), tail)]

    def raised(self, qdisc: str, delay: str, name: str) -> list[float]:
        """What the rural parameters add."""
        return less(self.column(qdisc + TUNED, delay, name), self.column(qdisc, delay, name))


def k1(runs: Mapping[str, Runs]) -> Quantities:
    """Drop tail's delay."""
    bed = Bed(runs)
    return {
        "greatest sojourn, ms": bed.extreme(lambda d: bed.column("pfifo limit 25", d, "sojourn_max_ms")),
        "99th percentile at the RTT where it is greatest, ms": bed.extreme(
            lambda d: bed.column("pfifo limit 25", d, "sojourn_p99_ms")
        ),
    }


def k2(runs: Mapping[str, Runs]) -> Quantities:
    """The defaults' standing queue."""
    bed = Bed(runs)

    def worst(name: str, column: str) -> Sequence[float]:
        return bed.extreme(lambda d: bed.column(RURAL[name], d, column))

    return {
        "CoDel: standing queue's 90th percentile at its worst RTT, ms": worst("CoDel", "standing_p90_ms"),
        "FQ-CoDel's, ms": worst("FQ-CoDel", "standing_p90_ms"),
        "beside: CoDel's median sojourn at its worst RTT, ms": worst("CoDel", "sojourn_p50_ms"),
        "95th percentile, ms": worst("CoDel", "sojourn_p95_ms"),
    }


def k3(runs: Mapping[str, Runs]) -> Quantities:
    """What the defaults cost and give."""
    bed = Bed(runs)

    def best(name: str, column: str) -> Sequence[float]:
        return bed.extreme(lambda d: bed.lost(RURAL[name], d, column))

    return {
        "CoDel: bulk goodput lost at the worst RTT, %": best("CoDel", "bulk_mbit"),
        "FQ-CoDel's, %": best("FQ-CoDel", "bulk_mbit"),
        "CoDel: completion time saved at the best RTT, %": best("CoDel", "fct_mean_s"),
        "FQ-CoDel: saved, %": best("FQ-CoDel", "fct_mean_s"),
    }


def k13(runs: Mapping[str, Runs]) -> Quantities:
    """What the rural parameters change."""
    bed = Bed(runs)

    def share(name: str, column: str, sign: int = 1) -> list[float]:
        return bed.share(lambda d: [sign * v for v in bed.raised(RURAL[name], d, column)])

    return {
        "CoDel: RTTs with a shorter completion time, %": share("CoDel", "fct_mean_s", -1),
        "with more bulk goodput, %": share("CoDel", "bulk_mbit"),
        "with a longer ping, %": share("CoDel", "ping_mean_ms"),
        "FQ-CoDel: RTTs with a shorter completion time, %": share("FQ-CoDel", "fct_mean_s", -1),
        "with more bulk, %": share("FQ-CoDel", "bulk_mbit"),
        "beside: FQ-CoDel, with a longer ping, %": share("FQ-CoDel", "ping_mean_ms"),
    }


MEASURES: dict[str, Callable[[Mapping[str, Runs]], Quantities]] = {
    "K1": k1, "K2": k2, "K3": k3, "K13": k13,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One claim, judged."""

    id: str
    paper: str
    measured: str
    rule: str
    verdict: str
    cause: str


def told(values: Sequence[float]) -> str:
    """A mean with its 95 % interval, in about four digits; `< 0.1` where the interval has none of them."""
    mean = mean_of(values)
    assert mean is not None
    if mean.half_width is None:
        return f"{mean.value:.0f}"
    digits = 0 if abs(mean.value) >= 1000 else 1 if abs(mean.value) >= 10 else 2
    if mean.half_width < 0.05 * 10**-digits:
        digits += 1
    width = f"{mean.half_width:.{digits}f}" if mean.half_width >= 0.5 * 10**-digits else f"< {10**-digits:g}"
    return f"{mean.value:.{digits}f} ± {width}"


def holds(values: Sequence[float], bounds: Sequence[float]) -> bool:
    """The rule: the mean over the seeds lies in the range."""
    return bool(bounds[0] <= float(np.mean(values)) <= bounds[1])


def judged(name: str, claim: Mapping[str, Any], quantities: Quantities) -> Claim:
    """The verdict on a claim, of which each range must hold."""
    ranges: dict[str, list[float]] = claim["holds"]
    fine = {key: holds(quantities[key], bounds) for key, bounds in ranges.items()}
    measured = "; ".join(
        f"{key}: {told(values)}" + ("" if fine.get(key, True) else " **(outside)**")
        for key, values in quantities.items()
    )
    rule = "; ".join(f"{key}: {low:g} to {high:g}" for key, (low, high) in ranges.items())
    verdict = "differs" if not all(fine.values()) else "calibrated" if "calibrated" in claim else "holds"
    cause = claim.get("cause", "") if verdict == "differs" else claim.get("calibrated", "")
    return Claim(name, claim["says"], measured, rule, verdict, cause)


def claims_of(runs: Mapping[str, Runs]) -> list[Claim]:
    """Every claim of experiments/*/claims.toml whose experiments have run."""
    judgements = []
    for path in sorted(EXPERIMENTS.glob("*/claims.toml")):
        if (path.parent / "quantities.py").exists():
            continue  # `sojourn claims` judges these
        for name, claim in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if tests := claim.get("unit_tests"):
                judgements.append(Claim(name, claim["says"], tests, "the tests pass", "holds", ""))
                continue
            judgements.append(judged(name, claim, MEASURES[name](runs)))
    return judgements


def with_table(page: str, claims: Sequence[Claim]) -> str:
    """The page with this table in it."""
    return filled(page, BEGIN, END, claims_table(claims))


def main(arguments: Sequence[str]) -> int:
    """Plays what is missing, judges, writes."""
    names = [word for word in arguments if not word.startswith("--")] or list(EXPERIMENTS_BY_NAME)
    for name in names:
        if "--again" in arguments or not numbers_file(name).exists():
            print(f"playing {name}", file=sys.stderr)
            write(numbers_file(name), play(EXPERIMENTS_BY_NAME[name], SEEDS))
    runs = {name: Runs(read(numbers_file(name))) for name in EXPERIMENTS_BY_NAME if numbers_file(name).exists()}
    claims = claims_of(runs)
    if "--print" in arguments:
        print(claims_table(claims))
        return 0
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), claims), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
