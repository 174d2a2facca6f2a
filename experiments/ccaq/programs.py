"""Shared parts of the programs of this folder: options, bounds, and results that are written case by case."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import sojourn as sj
from sojourn.errors import Refusal
from sojourn.means import Mean
from sojourn.records import write_text

HERE = Path(__file__).resolve().parent
How = Literal["at least", "at most"]


def is_met(value: float, how: How, bound: float) -> bool:
    """Returns whether a value is on the right side of a bound."""
    return value >= bound if how == "at least" else value <= bound


def is_sure(mean: Mean, how: How, bound: float) -> bool:
    """Returns whether the whole interval of a mean is on the mean's side of a bound. One seed has no interval, and
    seeds that are all alike have one without width.
    """
    half = mean.half_width or 0.0
    return len({is_met(mean.value + side * half, how, bound) for side in (-1, 0, 1)}) == 1


def options(about: str | None, seeds: int = 10, world: str = "sim") -> argparse.ArgumentParser:
    """Returns a parser with the options of every program. `seeds` and `world` are the defaults."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=("sim", "kernel"), default=world)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--store", type=Path, default=Path("results/ccaq"))
    return parser


def finished(results: sj.Results) -> sj.Results:
    """Returns the results of a plan. Ends the program if Ctrl-C has interrupted it."""
    if results.interrupted:
        raise SystemExit("interrupted; the same command goes on where it was")
    return results


def play_each(
    program: str, asked: argparse.Namespace, cases: Collection[str], chosen: Collection[str], play: Callable[[str], Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Plays the chosen cases, or all. After each one it writes the results of the world, in the order of `cases`, and
    yields the case's name with these results. Results of other cases stay in the file.
    """
    path = HERE / f"results/{program}.{asked.world}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in chosen or cases:
        found[name] = play(name)
        found = {one: found[one] for one in cases if one in found}
        path.parent.mkdir(exist_ok=True)
        write_text(path, json.dumps(found, indent=1) + "\n")
        yield name, found


def run(main: Callable[[], None]) -> None:
    """Runs a program. A refusal is an error of one line, with exit code 2."""
    try:
        main()
    except Refusal as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
