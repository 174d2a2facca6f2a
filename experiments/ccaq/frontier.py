"""Plays the grids, and writes their results, the figures and the tables of README.md.

    python experiments/ccaq/frontier.py [QDISC ...] [--grid grid|tuning] [--world sim|kernel] [--seeds N] [--store DIR]
                                        [--only | --frontier sim]

Without disciplines, those of `sojourn frontier` are compared. Runs are kept in the store, so that the program goes on
where it was stopped. For GRID and WORLD it writes results/GRID.WORLD.csv (a row for each run), results/GRID.WORLD.json
(the summary, and each discipline at each point), the same as a table in .md, and figures/GRID.WORLD.png.

With --only nothing but the named disciplines is played, and all others are read from results/GRID.WORLD.csv. This takes
a few minutes instead of an hour. It is right after a change of the code that changes these disciplines alone; the
column `build` says by which build of the simulator a run was played.

With `--world kernel --frontier sim` the disciplines are played in Linux, and the fixed settings are read from
results/GRID.sim.csv: playing all of them in Linux takes hours.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

from sojourn import plot
from sojourn.cli.run import world_of
from sojourn.executors import Cores
from sojourn.frontier import grid, picture, tables
from sojourn.frontier.grid import FAR_MS, Found
from sojourn.frontier.judge import USUAL, Judged, Setting
from sojourn.frontier.point import DEFAULT, Point, fixed_settings
from sojourn.records import write_text
from sojourn.runs import RunsInStore
from sojourn.store import Store
from sojourn.words import rows_as_csv
from sojourn.worlds import simulator

HERE = Path(__file__).parent
SHOWN = ("01", "22", "37", "51")
"""Points of the frozen grid with a figure of their own: one Reno, one CUBIC, Reno at a high rate, and a mix."""


def play(file: Path, lines: Sequence[str], asked: argparse.Namespace, known: Mapping[str, Sequence[Setting]]) -> Found:
    """Plays a grid, with a line on stderr for each point."""
    begin = time.monotonic()

    def watch(point: Point, runs: int) -> Callable[[float, float], None]:
        passed = f"{time.monotonic() - begin:6.0f} s"
        print(f"{passed}  {point.name}  {point.words}  {runs} runs", file=sys.stderr, flush=True)
        return lambda _done_s, _all_s: None

    opened = Store(asked.store)
    found = grid.play(
        grid.read_grid(file),
        lines,
        lambda: RunsInStore(opened),
        world=world_of(asked.world, memory=1),
        executor=Cores(),
        seeds=asked.seeds,
        known=known,
        watch=watch,
    )
    print(f"{found.played} of {found.count} runs played in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return found


# ---- the runs in a file ----

HEADS = ("point", "setting", "seed", "utilisation", "sojourn_ms.mean", "sojourn_ms.p95", "loss", "build")
Builds = dict[tuple[str, str], str]
"""The build that played a line at a point."""


def settings_of(one: Judged) -> list[Setting]:
    """Returns all settings of a point, each once."""
    found = {setting.line: setting for setting in (*one.fixed, *(at.setting for at in one.placed))}
    return list(found.values())


def write_runs(path: Path, found: Found, builds: Builds, build: str) -> None:
    """Writes a row for each run. `builds` are those of settings that were read, `build` that of the others."""
    rows = []
    for one in found.judged:
        for setting in settings_of(one):
            by = builds.get((one.point.name, setting.line), build)
            columns = zip(setting.utilisation, setting.delay_ms, setting.p95_ms, setting.loss, strict=True)
            for place, values in enumerate(columns):
                numbers = ["" if math.isnan(value) else f"{value:.6g}" for value in values]
                rows.append([one.point.name, setting.line, str(place + 1), *numbers, by])
    write_text(path, rows_as_csv(HEADS, rows))


def read_runs(path: Path, seeds: int, but: Collection[str]) -> tuple[dict[str, list[Setting]], Builds]:
    """Reads the settings of each point with their builds, except the lines `but` and those with other seeds."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        rows.setdefault((row["point"], row["setting"]), []).append(row)
    known: dict[str, list[Setting]] = {}
    builds: Builds = {}
    for (point, line), own in rows.items():
        if line in but or len(own) != seeds:
            continue
        columns = [np.array([float(row[head] or "nan") for row in own]) for head in HEADS[3:7]]
        known.setdefault(point, []).append(Setting(line, *columns))
        builds[point, line] = own[0]["build"]
    return known, builds


# ---- results ----


def rounded(value: Any) -> Any:
    """Rounds all numbers in a result to six digits: the files are read by people too."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def write_results(name: str, found: Found) -> None:
    """Writes a grid's summary and figures."""
    whole = rounded(tables.as_dict(found))
    for point in whole["points"]:
        del point["fixed"]
    # A line for each point.
    whole["points"] = [json.dumps(point) for point in whole["points"]]
    text = json.dumps(whole, indent=1)
    text = re.sub(r'^  ("\{.*\}")(,?)$', lambda line: f"  {json.loads(line[1])}{line[2]}", text, flags=re.MULTILINE)
    write_text(HERE / "results" / f"{name}.json", text + "\n")
    write_text(HERE / "results" / f"{name}.md", "\n".join(every_point(found)) + "\n")
    plot.write_image(picture.of_grid(found, name), HERE / "figures", "png")
    if name.startswith("grid."):
        for one in found.judged:
            if one.point.name in SHOWN:
                plot.write_image(picture.of_point(one, f"{name}.{one.point.name}"), HERE / "figures", "png")


# ---- the tables of README.md ----

TITLES = {"grid": "The frozen grid", "tuning": "The combinations for tuning", "sim": "simulator", "kernel": "kernel"}
CLASSES: Mapping[str, Callable[[Point], bool]] = {
    "one CUBIC": lambda point: point.flows == (("cubic", 1),),
    "one Reno": lambda point: point.flows == (("reno", 1),),
    "several CUBIC or Reno": lambda point: point.count > 1 and not is_bbr(point),
    "BBR alone or mixed": lambda point: is_bbr(point),
}


def is_bbr(point: Point) -> bool:
    """Returns whether a point has flows of BBR."""
    return any(cc.startswith("bbr") for cc, _ in point.flows)


def markdown(found: Found) -> Iterator[str]:
    """Yields the lines of a grid's tables."""
    yield f"{found.judged[0].origin}"
    yield ""
    heads = ["discipline", "× frontier", "× step below", "× frontier of fq", "beyond it", "> 3 ms", "of these surely"]
    yield f"| {' | '.join([*heads, f'least busy less {USUAL}, %'])} |"
    yield f"|---|{'--:|' * len(heads)}"
    for one in tables.summaries(found):
        gain = "–" if one.least_gain is None else f"{100 * one.least_gain:+.2f} (point {one.least_gain_at})"
        cells = [f"{one.ratio:.2f}", f"{one.most_ratio:.2f}", f"{one.fq_ratio:.2f}", str(one.beyond)]
        cells += [str(len(one.far)), str(len(one.surely_far)), gain]
        yield f"| `{one.line}` | {' | '.join(cells)} |"
    yield ""
    yield "By the kind of flows: the mean utilisation, and the delay over the frontier's and over that of fq."
    yield ""
    yield from by_class(found)
    yield from explained(found)


def every_point(found: Found) -> Iterator[str]:
    """Yields the lines of the table of all points."""
    yield "Utilisation, %; mean sojourn, ms; times the frontier's, times that of the settings with flow queues."
    yield ""
    yield f"| point | {' | '.join(f'`{line}`' for line in found.lines)} |"
    yield f"|---|{'--:|' * len(found.lines)}"
    for one in found.judged:
        yield f"| {tables.label(one)} | {' | '.join(cell(one, line) for line in found.lines)} |"


def by_class(found: Found) -> Iterator[str]:
    """Yields the lines of the table by the kind of flows."""
    groups = {name: [one for one in found.judged if belongs(one.point)] for name, belongs in CLASSES.items()}
    groups = {name: own for name, own in groups.items() if own}
    yield f"| discipline | {' | '.join(f'{name} ({len(own)})' for name, own in groups.items())} |"
    yield f"|---|{'--:|' * len(groups)}"
    for line in found.lines:
        cells = []
        for own in groups.values():
            there = [at for one in own if (at := one.placed_at(line)) is not None]
            if not there:
                cells.append("–")
                continue
            busy = sum(at.setting.y for at in there) / len(there)
            cells.append(
                f"{100 * busy:.1f} %, × {geometric([at.ratio for at in there]):.2f}, "
                f"× {geometric([at.fq_ratio for at in there]):.2f}"
            )
        yield f"| `{line}` | {' | '.join(cells)} |"


# ---- why ccaq is above the frontier ----

EXPLAINED = "ccaq"
FEW = 4.0
"""A flow that may have fewer packets than this on the path and in the queue has a window of a few packets."""
LONG_S = 0.133
"""From this RTT on, ccaq's first target is more than a quarter of the RTT."""


def cause(one: Judged) -> str:
    """Says why `ccaq` is far above the frontier at a point: the first of these that applies."""
    at, point = one.placed_at(EXPLAINED), one.point
    assert at is not None
    window = point.bdp_packets / point.count
    if is_bbr(point):
        return "BBR hardly answers to a signal: its queue is as long as its own window"
    if at.setting.x <= at.fq.x + FAR_MS:
        return "the frontier is a FIFO; it is within 3 ms of the settings with flow queues"
    if window < FEW:
        return f"{window:.1f} packets of each flow fill the path: least delay has a buffer of a few packets"
    if point.rtt_s > LONG_S and point.count > 1:
        return "many flows over a long path: targets begin at up to half of the RTT, and fall slowly"
    if at.ratio <= 9 / 8:
        return "it is within an eighth of the frontier, which is the size of the servo's steps"
    return "none is known"


def explained(found: Found) -> Iterator[str]:
    """Yields the lines of the table of all points where `ccaq` is far above the frontier."""
    far = [one for one in found.judged if (at := one.placed_at(EXPLAINED)) is not None and grid.exceeds(at)]
    if not far:
        return
    yield ""
    yield f"The points where `{EXPLAINED}` is more than {FAR_MS:g} ms above the frontier; mean sojourns in ms."
    yield ""
    yield f"| point | frontier | fq's | `{EXPLAINED}` | `{USUAL}` | losses, % of both | excess | cause |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for one in far:
        at, usual = one.placed_at(EXPLAINED), one.placed_at(USUAL)
        assert at is not None
        assert usual is not None
        delays = [f"{value:.3g}" for value in (at.against.x, at.fq.x, at.setting.x, usual.setting.x)]
        losses = " / ".join(f"{100 * float(np.nanmean(of.setting.loss)):.2g}" for of in (at, usual))
        within = "" if grid.exceeds(at, sure=True) else " (the interval contains 3 ms)"
        cells = [tables.label(one), *delays, losses, tables.signed(at.excess) + within, cause(one)]
        yield f"| {' | '.join(cells)} |"


def geometric(values: Sequence[float]) -> float:
    """Returns the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def cell(one: Judged, line: str) -> str:
    """Returns the place of a discipline at a point."""
    at = one.placed_at(line)
    if at is None:
        return "–"
    beyond = tables.BEYOND + " " if at.is_beyond else ""
    return f"{beyond}{tables.percent(at.setting.y)}; {at.setting.x:.3g}; {at.ratio:.2f}, {at.fq_ratio:.2f}"


def write_report(name: str, found: Found) -> None:
    """Puts a grid's tables into README.md, between its marks, or at the end."""
    path = HERE / "README.md"
    begin, end = f"<!-- {name}: written by frontier.py -->", f"<!-- end of {name} -->"
    page = path.read_text(encoding="utf-8")
    if begin not in page:
        grid_name, _, world = name.partition(".")
        title = f"{TITLES[grid_name]} in the {TITLES[world]}"
        page += f"\n## {title}\n\n{begin}\n{end}\n\n![Every point](figures/{name}.png)\n"
    write_text(path, filled(page, begin, end, "\n".join(markdown(found))))


def main() -> None:
    """Plays a grid and writes its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qdiscs", nargs="*", metavar="QDISC")
    parser.add_argument("--grid", choices=("grid", "tuning"), default="grid")
    parser.add_argument("--world", choices=("sim", "kernel"), default="sim")
    parser.add_argument("--seeds", type=int, default=grid.SEEDS)
    parser.add_argument("--store", type=Path, default=Path("results/frontier"))
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--only", action="store_true", help="read all other disciplines from results")
    source.add_argument("--frontier", choices=("sim",), help="read the fixed settings from the results of this world")
    asked = parser.parse_args()
    name = f"{asked.grid}.{asked.world}"
    file, kept = HERE / f"{asked.grid}.toml", HERE / "results" / f"{name}.csv"
    kept.parent.mkdir(exist_ok=True)
    lines = list(asked.qdiscs) or list(DEFAULT)
    fixed = {line for point in grid.read_grid(file) for line in fixed_settings(point) if line != USUAL}
    known: dict[str, list[Setting]] = {}
    builds: Builds = {}
    if asked.frontier:
        others = HERE / "results" / f"{asked.grid}.{asked.frontier}.csv"
        known, builds = read_runs(others, asked.seeds, {USUAL, *lines})
        known = {point: [one for one in own if one.line in fixed] for point, own in known.items()}
        if not known:
            parser.error(f"--frontier: results/{others.name} has no fixed settings with {asked.seeds} seeds")
    if asked.only:
        known, builds = read_runs(kept, asked.seeds, lines)
        if not known:
            parser.error(f"--only: results/{kept.name} has no other disciplines with {asked.seeds} seeds")
        there = {one.line for own in known.values() for one in own if one.line not in fixed}
        lines = sorted(
            {*lines, *there}, key=lambda line: (DEFAULT.index(line) if line in DEFAULT else len(DEFAULT), line)
        )
    found = play(file, lines, asked, known)
    if found.interrupted:
        raise SystemExit("interrupted; the same command goes on where it was")
    if asked.frontier:
        other = f"fixed settings in world {asked.frontier}"
        found.judged = [replace(one, origin=f"{one.origin}  ·  {other}") for one in found.judged]
    for point, line, reason in found.skipped:
        print(f"skipped at {point}: {line}: {reason}", file=sys.stderr)
    write_runs(kept, found, builds, simulator()[:8] if asked.world == "sim" else asked.world)
    write_results(name, found)
    write_report(name, found)


if __name__ == "__main__":
    main()
