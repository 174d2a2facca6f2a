"""Plays RFC 7928's rows with ccaq and with fq_codel: is ccaq ever worse in delay and in throughput at once?

    python experiments/ccaq/rows.py [--world sim|kernel] [--seeds N] [--store DIR] [--rows LIST]

Runs are kept in the store, so that the program goes on where it was stopped. It writes results/rows.WORLD.json.
`sojourn rfc7928` compares each discipline with tail drop; here ccaq is compared with fq_codel, seed by seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from presets import OURS, REFERENCE, Verdict, at_once_of
from programs import HERE, options, run

from sojourn import paired, rfc7928
from sojourn.cli.base import stages
from sojourn.cli.run import world_of
from sojourn.errors import Refusal
from sojourn.executors import Cores
from sojourn.records import write_text
from sojourn.rfc7928 import judge, suite
from sojourn.rfc7928.observed import Seen
from sojourn.store import Store
from sojourn.worlds import simulator

SPARSE = ("pings", "voip", "thin")
"""Kinds of flows that send less than their share in every row."""


def verdict_of(ratio: judge.Ratio, *, lower_is_better: bool) -> Verdict:
    """Judges ccaq's number over fq_codel's by the interval of the ratio."""
    if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
        return "same" if abs(ratio.value - 1) <= paired.ROUNDING and ratio.low is not None else "open"
    if abs(ratio.value - 1) <= paired.ROUNDING:
        return "same"
    return "better" if (ratio.value < 1) == lower_is_better else "worse"


def judged(row: suite.Row, found: Sequence[Seen]) -> dict[str, Any]:
    """Returns the ratios of ccaq to fq_codel in a row, as JSON has them. Place 0 of `found` is tail drop's."""
    both = [replace(one, place=one.place - 1) for one in found if one.place > 0]
    whole = judge.judge(row, both, [1])[0].ratios
    sparse = judge.judge(row, [one for one in both if one.kind in SPARSE], [1])[0].ratios
    named = {**whole, **({"sparse": sparse["delay"]} if "delay" in sparse else {})}
    ratios = {
        name: {
            "ratio": one.value,
            "low": one.low,
            "high": one.high,
            "seeds": one.seeds,
            "verdict": verdict_of(one, lower_is_better=name != "goodput"),
        }
        for name, one in named.items()
    }
    delay = ratios["sparse" if "sparse" in ratios else "delay"]
    return {
        "title": row.title,
        "ratios": ratios,
        "worse_at_once": at_once_of(
            [(delay["verdict"], delay["ratio"] > 1)], (ratios["goodput"]["verdict"], ratios["goodput"]["ratio"] < 1)
        ),
    }


def as_dict(done: judge.Evaluation) -> Mapping[str, Any]:
    """Returns the result as JSON has it."""
    return {
        "seeds": done.seeds,
        "versions": dict(done.versions),
        "build": simulator()[:8] if done.world == "sim" else done.world,
        "rows": {row.name: judged(row, done.found[row.name]) for row in done.rows},
        "skipped": [{"row": row, "set": one, "reason": reason} for row, one, reason in done.skipped],
    }


def main() -> None:
    """Plays the rows asked for and writes their results."""
    parser = options(__doc__)
    parser.add_argument("--rows", metavar="LIST", help="sections, such as 5.1.1,8 [default: all]")
    asked = parser.parse_args()
    rows = suite.chosen(asked.rows)
    with stages() as watch:
        done = rfc7928.evaluate(
            rows,
            suite.disciplines([REFERENCE, OURS]),
            Store(asked.store),
            world=world_of(asked.world, memory=1),
            executor=Cores(),
            seeds=asked.seeds,
            watch=lambda row, runs: watch(f"row {row.name}", runs),
        )
    path = HERE / f"results/rows.{asked.world}.json"
    path.parent.mkdir(exist_ok=True)
    found = as_dict(done)
    if asked.rows and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if any(before[key] != found[key] for key in ("seeds", "versions", "build")):
            raise Refusal(f"--rows = {asked.rows}: {path.name} has other seeds or another build: play all rows")
        rows = before["rows"] | found["rows"]
        found = {**found, "rows": {row.name: rows[row.name] for row in suite.ROWS if row.name in rows}}
    write_text(path, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
