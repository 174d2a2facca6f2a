"""Fills the pages that compare ccaq with other disciplines: tables, pictures and numbers come from recorded results.

    python experiments/ccaq/compare.py            fills the pages from the files, in seconds
    python experiments/ccaq/compare.py --check    says whether the pages have the numbers of the files
    python experiments/ccaq/compare.py --play sim|kernel [--store DIR]
                                                  plays again what the files of that world hold, and fills the pages

The pages are docs/explanation/ccaq-compared.md and paper.md; the pictures are in figures/. --play calls the programs
that own the files, with the seeds that the files have. In the simulator these are goals.py, loads.py, presets.py,
rows.py, frontier.py (ccaq alone) and state.py: about 25 minutes of CPU. In Linux they are goals.py and `sojourn
rfc7928`, which take hours.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import pictures
from loads import DISCIPLINES, LOADS, PATHS
from pages import filled, numbered
from presets import DELAYS, MEASURES, OURS, RATE, REFERENCE, at_once_of

from sojourn import plot
from sojourn.records import write_text
from sojourn.words import Quantity, listed
from sojourn.words import quantity as quantity_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RFC7928 = ROOT / "experiments/rfc7928"
PAGES = (ROOT / "docs/explanation/ccaq-compared.md", HERE / "paper.md")
SHORT = {"ccaq variant paper": "paper"}
"""Names of lines in the marks of numbers."""
PROGRAMS = ("linux", "sojourn")
"""Programs whose versions are named."""
MINUS = "\N{MINUS SIGN}"


@cache
def read(name: str) -> Any:
    """Returns a file of results."""
    return json.loads((HERE / f"results/{name}.json").read_text(encoding="utf-8"))


def rows_of(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ---- numbers as text ----


def digits(value: float, most: int, significant: int = 4) -> int:
    """Returns the number of decimals with which a number has this many significant digits, and at most `most`."""
    rounded = abs(float(f"{value:.{significant}g}"))
    whole = math.floor(math.log10(rounded)) if rounded else 0
    return max(0, min(most, significant - 1 - whole))


def plain(value: float, most: int = 3, significant: int = 4) -> str:
    """Writes a number with four significant digits, and at most `most` decimals."""
    return f"{value:.{digits(value, most, significant)}f}".replace("-", MINUS)


def pm(mean: Mapping[str, Any] | None, factor: float = 1.0, *, most: int = 2, signed: bool = False) -> str:
    """Writes a mean with half of its 95 % interval, to the interval's first digit, or its second after a 1 or 2.

    An interval that is less than the last decimal is left out, as is that of seeds that are all alike.
    """
    if mean is None:
        return "–"
    value, half = factor * mean["mean"], factor * (mean["half_width"] or 0.0)
    places = digits(value, most)
    if half:
        places = max(0, min(places, digits(half, most, 2 if f"{half:.1e}"[0] in "12" else 1)))
    text = f"{value:{'+' if signed else ''}.{places}f}".replace("-", MINUS)
    shown = f"{half:.{places}f}"
    return f"{text} ± {shown}" if float(shown) else text


def times(low: float, value: float, high: float) -> str:
    """Writes a ratio with its interval."""
    least, ratio, most = (plain(one, most=3, significant=3) for one in (low, value, high))
    return f"{ratio} ({least}–{most})"


def origin(name: str, results: Mapping[str, Any]) -> str:
    """Says by which seeds, world and version a file was played. The entries of a file may differ in this."""
    entries = [results] if "seeds" in results else list(results.values())
    seeds = sorted({one["seeds"] for one in entries})
    known = {name: {one["versions"][name] for one in entries if name in one.get("versions", {})} for name in PROGRAMS}
    said = [f"{name} {' or '.join(sorted(found))}" for name, found in known.items() if found] or [
        "version not recorded"
    ]
    counts = " or ".join(f"{count} seeds (1–{count})" if count > 1 else "seed 1" for count in seeds)
    return f"{counts}  ·  world {name.split('.')[1]}  ·  {', '.join(said)}"


def label(line: str) -> str:
    """Returns the cell of a discipline."""
    return f"**`{line}`**" if line == OURS else f"`{line}`"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], right: int = 1) -> str:
    """Returns a table; columns from `right` on are aligned to the right."""
    aligns = "".join("---|" if place < right else "--:|" for place in range(len(heads)))
    return "\n".join([f"| {' | '.join(heads)} |", f"|{aligns}", *(f"| {' | '.join(row)} |" for row in rows)])


# ---- tables ----


def load_cell(one: Mapping[str, Any]) -> str:
    """Returns how busy the link is, and the mean and the 95th percentile of the sojourn."""
    return f"{pm(one['busy'], 100)} %; {pm(one['mean'])} / {pm(one['p95'], most=1)}"


def lone_flow(cc: str) -> str:
    """Returns the table of one long flow over three paths."""
    found = read("loads.sim")
    heads = ["discipline"]
    heads += [f"{path}: {rate.removesuffix('mbit')} Mbit/s, {rtt_ms} ms" for path, (rate, rtt_ms, _) in PATHS.items()]
    rows = [
        [label(line), *(load_cell(found[f"{path}-{cc}"]["disciplines"][line]) for path in PATHS)]
        for line in DISCIPLINES
    ]
    return markdown(heads, rows)


def many_flows() -> str:
    """Returns the table of many flows, with the loss."""
    found = read("loads.sim")
    names = [name for name in LOADS if name.startswith("many-")]
    heads = ["discipline", *(LOADS[name].words for name in names)]

    def cell(one: Mapping[str, Any]) -> str:
        lost = one["drops"]["mean"] / (one["drops"]["mean"] + one["packets"]["mean"])
        return f"{load_cell(one)}; {100 * lost:.1f} % lost"

    return markdown(
        heads, [[label(line), *(cell(found[name]["disciplines"][line]) for name in names)] for line in DISCIPLINES]
    )


GOAL_COLUMNS: Mapping[str, Sequence[tuple[str, str, str, float]]] = {
    "sparse": (
        ("2 transfers, 5 Mbit/s: ping RTT p95, ms", "sparse", "flows.ping.rtt_ms.p95", 1),
        ("call delay p95, ms", "sparse", "flows.call.delay_ms.p95", 1),
        ("transfers' and others' goodput, Mbit/s", "sparse", "goodput_mbit", 1),
        ("2 transfers, 20 Mbit/s: page load, s", "pages", "flows.reader.page_load_s.mean", 1),
        ("goodput, Mbit/s", "pages", "goodput_mbit", 1),
    ),
    "changes": (
        ("flood of 40 into 20 Mbit/s: ping RTT p95, ms", "flood", "flows.ping.rtt_ms.p95", 1),
        ("CUBIC flow, Mbit/s", "flood", "flows.bulk.goodput_mbit", 1),
        ("sojourn p95 of all, ms", "flood", "hops.bottleneck.sojourn_ms.p95", 1),
        ("100, 10, 100 Mbit/s: busy, %", "steps", "hops.bottleneck.utilisation", 100),
        ("sojourn mean, ms", "steps", "hops.bottleneck.sojourn_ms.mean", 1),
        ("sojourn p95, ms", "steps", "hops.bottleneck.sojourn_ms.p95", 1),
    ),
    "ecn": (
        ("ECN: busy, %", "ecn", "hops.bottleneck.utilisation", 100),
        ("sojourn mean, ms", "ecn", "hops.bottleneck.sojourn_ms.mean", 1),
        ("sojourn p95, ms", "ecn", "hops.bottleneck.sojourn_ms.p95", 1),
        ("drops", "ecn", "hops.bottleneck.drops", 1),
        ("without: busy, %", "cubic", "hops.bottleneck.utilisation", 100),
        ("sojourn mean, ms", "cubic", "hops.bottleneck.sojourn_ms.mean", 1),
    ),
}
"""Columns of tables from the goals' scenarios: head, scenario, address and factor."""


def goal_table(name: str, file: str = "goals.sim") -> str:
    """Returns a table of a few scenarios of the goals."""
    found = read(file)
    columns = GOAL_COLUMNS[name]
    rows = [
        [
            label(line),
            *(
                pm(found[goal]["disciplines"][line][where], by, most=0 if where.endswith("drops") else 2)
                for _, goal, where, by in columns
            ),
        ]
        for line in DISCIPLINES
    ]
    return markdown(["discipline", *(head for head, *_ in columns)], rows)


def frontier() -> str:
    """Returns the table of the frozen grid."""
    found = read("grid.sim")
    heads = ["discipline", "delay × frontier", "× frontier of fq", "over 3 ms above it", "least busy less fq_codel's"]
    rows = [
        [
            label(one["qdisc"]),
            f"{one['times_frontier']:.2f}",
            f"{one['times_fq_frontier']:.2f}",
            f"{len(one['over_3ms'])} of {one['points']}, surely {len(one['surely_over_3ms'])}",
            f"{100 * one['least_utilisation_gain']:+.1f} points".replace("-", MINUS),
        ]
        for one in found["summary"]
    ]
    return f"{markdown(heads, rows)}\n\n{found['origin']}"


WORDS = {"better": "", "worse": " **worse**", "same": " same", "open": " open"}


def preset_cell(name: str, one: Mapping[str, Any] | None) -> str:
    """Returns both means, and their difference with its verdict."""
    if one is None:
        return "–"
    relative = name == RATE
    difference = pm(one["relative"] if relative else one["difference"], 100 if relative else 1, most=3, signed=True)
    unit = " %" if relative else ""
    values = f"{plain(one[REFERENCE]['mean'])} → {plain(one[OURS]['mean'])}"
    return f"{values}: {difference}{unit}{WORDS[one['verdict']]}"


def presets(file: str = "presets.sim") -> str:
    """Returns the table of the presets."""
    found = read(file)
    rows = [
        [
            name,
            *(preset_cell(key, one["measures"].get(key)) for key in MEASURES),
            one["worse_at_once"] if one["worse_at_once"] == "no" else f"**{one['worse_at_once']}**",
        ]
        for name, one in found.items()
    ]
    return markdown(["preset", *(one.head for one in MEASURES.values()), "worse in both"], rows)


def linux_rows() -> dict[str, dict[str, Any]]:
    """Returns ccaq against fq_codel in Linux, row by row, from their ratios to tail drop.

    The file has no seeds, so the ratios cannot be paired. The half-widths of their logarithms are added, which holds
    whatever the correlation.
    """
    found: dict[tuple[str, str, str], tuple[float, float, float]] = {
        (row["discipline"], row["row"], row["measure"]): (float(row["ratio"]), float(row["low"]), float(row["high"]))
        for row in rows_of(RFC7928 / "profiles.kernel.csv")
    }
    rows: dict[str, dict[str, Any]] = {}
    for (line, row, measure), (value, low, high) in found.items():
        if line == OURS:
            other, other_low, other_high = found[REFERENCE, row, measure]
            ratio, least, most = value / other, low / other_high, high / other_low
            is_open = least <= 1 <= most
            worse = ratio < 1 if measure == "goodput" else ratio > 1
            verdict = "open" if is_open else "worse" if worse else "better"
            if abs(ratio - 1) <= 0.005:
                verdict = "same"
            rows.setdefault(row, {})[measure] = {"ratio": ratio, "low": least, "high": most, "verdict": verdict}
    for one in rows.values():
        delay, rate = one["delay"], one["goodput"]
        one["worse_at_once"] = at_once_of(
            [(delay["verdict"], delay["ratio"] > 1)], (rate["verdict"], rate["ratio"] < 1)
        )
    return rows


def rfc7928() -> str:
    """Returns the table of RFC 7928's rows, in the simulator and in Linux."""
    found, linux = read("rows.sim"), linux_rows()
    heads = ["row", "", "delay of all", "of sparse flows", "completion", "goodput", "worse in both"]
    heads += ["Linux: delay of all", "goodput", "worse in both"]

    def cell(one: Mapping[str, Any] | None) -> str:
        return "–" if one is None else times(one["low"], one["ratio"], one["high"])

    rows = []
    for name, one in found["rows"].items():
        ratios, there = one["ratios"], linux.get(name, {})
        cells = [cell(ratios.get(key)) for key in ("delay", "sparse", "completion", "goodput")]
        cells += [one["worse_at_once"], cell(there.get("delay")), cell(there.get("goodput"))]
        rows.append([name, one["title"], *cells, there.get("worse_at_once", "–")])
    return markdown(heads, rows, right=2)


def linux_goals() -> str:
    """Returns the scenarios that were played in Linux next to the simulator's."""
    sim, kernel = read("goals.sim"), read("goals.kernel")
    rows = []
    for name, one in kernel.items():
        for line, figures in one["disciplines"].items():
            both = []
            for each in (figures, sim[name]["disciplines"][line]):
                busy, mean, p95 = (each[f"hops.bottleneck.{key}"] for key in BOTTLENECK)
                both.append(f"{pm(busy, 100)} %; {pm(mean)} / {pm(p95, most=1)}")
            rows.append([sim[name]["title"], label(line), *both, f"{one['seeds']}, {sim[name]['seeds']}"])
    heads = ["scenario", "discipline", "Linux: busy; mean / p95 of the sojourn, ms", "simulator", "seeds"]
    said = origin("goals.kernel", kernel)
    return f"{markdown(heads, rows, right=2)}\n\n{said}  ·  the simulator's: {origin('goals.sim', sim)}"


BOTTLENECK = ("utilisation", "sojourn_ms.mean", "sojourn_ms.p95")


# ---- sentences ----


def at_once(found: Mapping[str, Mapping[str, Any]], word: str) -> list[str]:
    """Returns the names of entries with this answer."""
    return [name for name, one in found.items() if one["worse_at_once"] == word]


def preset_words(name: str, one: Mapping[str, Any]) -> str:
    """Says by how much ccaq is worse in a preset."""
    measures = one["measures"]
    if one["worse_at_once"] != "yes":
        return f"`{name}`"
    wrong = [key for key in DELAYS if key in measures and measures[key]["verdict"] == "worse"]
    said = [
        f"{MEASURES[key].head.removesuffix(', ms')} {pm(measures[key]['difference'], signed=True)} ms" for key in wrong
    ]
    return f"`{name}` ({'; '.join(said)}; goodput {pm(measures[RATE]['relative'], 100, signed=True)} %)"


def acceptance() -> str:
    """Says whether ccaq is ever worse in delay and throughput at once."""
    judged = {
        "presets in the simulator": read("presets.sim"),
        "rows of RFC 7928 in the simulator": read("rows.sim")["rows"],
        "rows of RFC 7928 in Linux": linux_rows(),
        "presets in Linux": read("presets.kernel"),
    }
    sentences = []
    for words, entries in judged.items():
        parts = []
        for word, verb in (("yes", "is worse in both"), ("perhaps", "may be worse in both")):
            names = at_once(entries, word)
            shown = [preset_words(name, entries[name]) if words.startswith("presets") else name for name in names]
            if names:
                parts.append(f"ccaq {verb} in {len(names)} of {len(entries)}: {listed(shown)}")
        sentences.append(f"- {words}: {'; '.join(parts) or f'ccaq is worse in both in none of {len(entries)}'}.")
    failed = any(at_once(entries, "yes") for entries in judged.values())
    sentences += ["", f"So the criterion is **{'missed' if failed else 'met'}**."]
    return "\n".join(sentences)


def each_worse() -> str:
    """Lists every cell of the presets' tables that is marked worse."""
    sentences = []
    for where, file in (("simulator", "presets.sim"), ("Linux", "presets.kernel")):
        cells = [
            f"`{name}`, {re.sub(r', (ms|s|Mbit/s)$', '', MEASURES[key].head)}: {change}"
            for name, preset in read(file).items()
            for key, one in preset["measures"].items()
            if one["verdict"] == "worse"
            and (
                change := f"{pm(one['relative'], 100, signed=True)} %"
                if key == RATE
                else f"{pm(one['difference'], signed=True)} {one['unit']}"
            )
        ]
        sentences.append(f"- **The presets, {where}**: {'; '.join(cells) or 'none'}.")
    return "\n".join(sentences)


def target_of(line: str) -> Quantity | None:
    """Returns the target in a line of fq_codel; None if it has none."""
    words = line.split()
    return quantity_of(words[words.index("target") + 1]) if "target" in words else None


def numbers() -> dict[str, str]:
    """Returns every number that a page's sentence may name, with its unit and interval."""
    found: dict[str, str] = {}
    for name, load in read("loads.sim").items():
        for line, one in load["disciplines"].items():
            key = f"{name} {SHORT.get(line, line)}"
            found[f"{key} busy"] = f"{pm(one['busy'], 100)} %"
            found[f"{key} mean"] = f"{pm(one['mean'])} ms"
            found[f"{key} p95"] = f"{pm(one['p95'], most=1)} ms"
            lost = one["drops"]["mean"] / (one["drops"]["mean"] + one["packets"]["mean"])
            found[f"{key} lost"] = f"{100 * lost:.1f} %"
    for prefix, file in (("", "goals.sim"), ("linux ", "goals.kernel")):
        for name, goal in read(file).items():
            for line, figures in goal["disciplines"].items():
                for address, mean in figures.items():
                    share = address.endswith("utilisation")
                    unit = " %" if share else " ms" if "_ms." in address else " s" if "_s." in address else ""
                    unit = " Mbit/s" if address.endswith("_mbit") else unit
                    where = address.removeprefix("hops.bottleneck.")
                    found[f"{prefix}{name} {SHORT.get(line, line)} {where}"] = (
                        f"{pm(mean, 100 if share else 1, most=0 if where.endswith('drops') else 2)}{unit}"
                    )
    for name, preset in read("presets.sim").items():
        for key, one in preset["measures"].items():
            relative = key == RATE
            mean = one["relative"] if relative else one["difference"]
            found[f"{name} {key}"] = (
                f"{pm(mean, 100 if relative else 1, signed=True)} {'%' if relative else one['unit']}"
            )
            for line in (OURS, REFERENCE):
                found[f"{name} {line} {key}"] = f"{pm(one[line])} {one['unit']}"
    for name, row in read("rows.sim")["rows"].items():
        for key, one in row["ratios"].items():
            found[f"row {name} {key}"] = times(one["low"], one["ratio"], one["high"])
    for one in read("grid.sim")["summary"]:
        key = f"grid {SHORT.get(one['qdisc'], one['qdisc'])}"
        found[f"{key} frontier"] = f"{one['times_frontier']:.2f}"
        found[f"{key} fq"] = f"{one['times_fq_frontier']:.2f}"
        found[f"{key} over"] = str(len(one["over_3ms"]))
        found[f"{key} surely"] = str(len(one["surely_over_3ms"]))
        found[f"{key} points"] = str(one["points"])
    for kind in ("cubic", "reno"):
        points = [point for point in read("grid.sim")["points"] if point["flows"] == kind]
        found[f"grid one {kind} points"] = str(len(points))
        for line in {at["qdisc"] for point in points for at in point["placed"]}:
            own = [at for point in points for at in point["placed"] if at["qdisc"] == line]
            key = f"grid one {kind} {SHORT.get(line, line)}"
            found[f"{key} busy"] = f"{100 * statistics.fmean(at['utilisation']['mean'] for at in own):.1f} %"
            found[f"{key} frontier"] = f"{statistics.geometric_mean(at['times_frontier'] for at in own):.2f}"
        ideal = [
            quantity.value / point["rtt_ms"]
            for point in points
            for at in point["placed"]
            if at["qdisc"] == OURS and (quantity := target_of(at["frontier"]["qdisc"])) is not None
        ]
        found[f"grid one {kind} targets"] = str(len(ideal))
        found[f"grid one {kind} target"] = f"{min(ideal):.2f} to {max(ideal):.2f} RTTs"
    replayed = [row for row in rows_of(ROOT / "experiments/replay/kernel-replay.csv") if row["discipline"] == OURS]
    found["replay packets"] = f"{sum(int(row['packets']) for row in replayed) / 1e6:.0f} million"
    found["replay differences"] = str(sum(int(row["differences"]) for row in replayed))
    found["replay kernels"] = listed(sorted({row["kernel"] for row in replayed}))
    agreement = [row for row in rows_of(ROOT / "experiments/agree/agreement.csv") if row["measure"] == "p95"]
    median = statistics.median(abs(float(row["difference"])) for row in agreement)
    found["agreement median"] = f"{100 * median:.2f} %"
    found["presets count"] = str(len(read("presets.sim")))
    found["presets worse"] = str(len(at_once(read("presets.sim"), "yes")))
    found["rows count"] = str(len(read("rows.sim")["rows"]))
    found["rows worse"] = str(len(at_once(read("rows.sim")["rows"], "yes")))
    found["agreement scenarios"] = str(len(agreement))
    return found


BLOCKS: Mapping[str, Callable[[], str]] = {
    "lone cubic": lambda: lone_flow("cubic"),
    "lone reno": lambda: lone_flow("reno"),
    "lone bbr": lambda: lone_flow("bbr"),
    "many": many_flows,
    "sparse": lambda: goal_table("sparse"),
    "changes": lambda: goal_table("changes"),
    "ecn": lambda: goal_table("ecn"),
    "frontier": frontier,
    "acceptance": acceptance,
    "worse": each_worse,
    "presets": presets,
    "presets linux": lambda: f"{presets('presets.kernel')}\n\n{origin('presets.kernel', read('presets.kernel'))}",
    "rows": rfc7928,
    "linux": linux_goals,
    "origin loads": lambda: origin("loads.sim", read("loads.sim")),
    "origin goals": lambda: origin("goals.sim", read("goals.sim")),
    "origin presets": lambda: origin("presets.sim", read("presets.sim")),
    "origin rows": lambda: origin("rows.sim", read("rows.sim")),
}
"""By the name in a page's mark, the text of a block."""


def page_text(path: Path) -> str:
    """Returns a page as its files fill it."""
    page = path.read_text(encoding="utf-8")
    for name, text in BLOCKS.items():
        begin, end = f"<!-- {name}: written by compare.py -->", f"<!-- end of {name} -->"
        if begin in page:
            page = filled(page, begin, end, text())
    try:
        return numbered(page, numbers())
    except ValueError as error:
        raise SystemExit(f"{path.relative_to(ROOT)}: {error}") from error


def fill() -> None:
    """Fills the pages and draws the pictures."""
    for path in PAGES:
        write_text(path, page_text(path))
    for picture in (
        pictures.of_loads(read("loads.sim"), origin("loads.sim", read("loads.sim"))),
        pictures.of_presets(read("presets.sim"), origin("presets.sim", read("presets.sim"))),
    ):
        plot.write_image(picture, HERE / "figures", "png")


# ---- playing again ----


def commands(world: str, store: Path) -> Iterator[list[str]]:
    """Yields the commands that play again what the files of a world hold."""
    options = ["--world", world, "--store", str(store)]
    for program in ("goals", "loads", "presets"):
        if (HERE / f"results/{program}.{world}.json").exists():
            found = read(f"{program}.{world}")
            for count in sorted({one["seeds"] for one in found.values()}):
                names = [name for name, one in found.items() if one["seeds"] == count]
                lines = sorted({line for name in names for line in found[name].get("disciplines", ())} - {OURS})
                qdiscs = [word for line in lines for word in ("--qdisc", line)] if program == "goals" else []
                chosen = qdiscs if world == "kernel" else []
                yield [sys.executable, str(HERE / f"{program}.py"), *names, *options, "--seeds", str(count), *chosen]
    if (HERE / f"results/rows.{world}.json").exists():
        yield [sys.executable, str(HERE / "rows.py"), *options, "--seeds", str(read(f"rows.{world}")["seeds"])]
    if world == "sim":
        yield [sys.executable, str(HERE / "frontier.py"), OURS, "--only", "--store", str(store)]
        yield [sys.executable, str(HERE / "state.py")]


def play(world: str, store: Path) -> None:
    """Plays again, and says what it costs."""
    for command in commands(world, store):
        run(command)
    if world == "kernel":
        lines = list(dict.fromkeys(row["discipline"] for row in rows_of(RFC7928 / "profiles.kernel.csv")))
        with tempfile.TemporaryDirectory() as folder:
            options = ["--world", "kernel", "--seeds", "3", "--store", str(store), "--out", folder]
            run([str(Path(sys.executable).parent / "sojourn"), "rfc7928", *lines, *options])
            for name, kind in (("matrix", "csv"), ("matrix", "png"), ("profiles", "csv")):
                shutil.copyfile(Path(folder) / f"pictures/{name}.{kind}", RFC7928 / f"{name}.kernel.{kind}")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{spent.ru_utime + spent.ru_stime:.0f} s of CPU", file=sys.stderr)


def run(command: Sequence[str]) -> None:
    """Runs a command, and stops if it fails."""
    print(" ".join(Path(word).name if word.startswith("/") else word for word in command), file=sys.stderr, flush=True)
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(code)


def main() -> None:
    """Fills or checks the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a page differs")
    parser.add_argument("--play", choices=("sim", "kernel"), help="play again what the files of this world hold")
    parser.add_argument("--store", type=Path, default=Path("results/ccaq"))
    asked = parser.parse_args()
    if asked.check:
        stale = [path for path in PAGES if page_text(path) != path.read_text(encoding="utf-8")]
        for path in stale:
            print(
                f"{path.relative_to(ROOT)}: not what the results say; run experiments/ccaq/compare.py", file=sys.stderr
            )
        raise SystemExit(1 if stale else 0)
    if asked.play:
        play(asked.play, asked.store)
        read.cache_clear()
    fill()


if __name__ == "__main__":
    main()
