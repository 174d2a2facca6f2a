"""Writes agreement.md in this folder: how well the simulator agrees with Linux on the frozen scenarios.

    experiments/agree/agree_page.py [--seeds N] [--ranks SEEDS] [--store DIR] [--kept] [--print] [--pack]

Plays what is missing (`sojourn agree` keeps what was played), then writes the tables between the page's marks, the
picture agreement.png, every number into agreement.csv, and the summary into docs/explanation/trust.md. With --print
the tables go to stdout only. With --kept nothing is played in the kernel, and scenarios that it has not played are left
out.

The kernel's runs, which take hours, are in kernel.parquet, and so need not be played again. --pack puts all kernel runs
of the store there.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from sojourn import agree, records
from sojourn.agree import page, words
from sojourn.agree.judge import Measure, Pair, Run, Summary, differences, rankings, summaries

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PLAYED = FOLDER / "kernel.parquet"
PAGE = FOLDER / "agreement.md"
TRUST = ROOT / "docs/explanation/trust.md"
"""The page that shows the summary of the scenarios that are not hard."""
HELD_BACK = {
    "held-back": "the first twenty",
    "held-back-2": "the second",
    "held-back-3": "the forty",
    "held-back-4": "the last forty",
    "held-back-5": "the newest forty",
}
NETEM, NETEM_SEEDS = "netem", 5
"""The scenarios with netem's words, all of which count, and their seeds."""
GUEST = "Linux 7.3.4, 250 Hz, 352f72e94018"
"""The guest whose kept runs are compared with --kept, except those with netem's words. In it no timer could be set less
than 500 ns ahead; the present guest has no such bound and counts what netem drops. README.md compares the two."""
LAST, NEWEST = "held-back-4", "held-back-5"
"""Those that the model was not changed for: with thirty seeds, and those that were drawn for today's, with ten."""
FIRST_SEEDS, LAST_SEEDS = range(1, 11), range(21, 31)
"""The seeds that were played first, and those that were played last, when all others were known."""
BEGIN, END = "<!-- tables: written by experiments/agree/agree_page.py -->", "<!-- end of the tables -->"
BEGIN_SUMMARY, END_SUMMARY = (
    "<!-- summary: written by experiments/agree/agree_page.py -->",
    "<!-- end of the summary -->",
)


def short(value: Any) -> Any:
    """Rounds numbers to seven digits."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def pack(store: Path) -> int:
    """Stores the kernel's runs in the repository, without data that only pictures need; returns their number."""
    found = []
    for place in sorted(store.glob("*.json")):
        run = json.loads(place.read_text(encoding="utf-8"))
        if run["world"] == "kernel":
            found.append((run["qdisc"], place.name, json.dumps(short(run | {"series": {}}), separators=(",", ":"))))
    found.sort(key=lambda one: (json.dumps(one[0]), one[1]))
    table = pa.table({"place": [name for _, name, _ in found], "run": [text for *_, text in found]})
    how = {"compression": "zstd", "compression_level": 19, "use_dictionary": False}
    records.write_atomically(PLAYED, lambda path: pq.write_table(table, path, **how))
    return len(found)


def unpack(store: Path) -> None:
    """Adds those runs to a store."""
    store.mkdir(parents=True, exist_ok=True)
    for row in pq.read_table(PLAYED).to_pylist() if PLAYED.exists() else ():
        if not (store / row["place"]).exists():
            records.write_text(store / row["place"], row["run"])


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table."""
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def hard(folder: str = "drawn") -> dict[str, str]:
    """Returns the classes of the hard scenarios."""
    with (FOLDER / f"{folder}.csv").open(newline="", encoding="utf-8") as file:
        return {row["name"]: row["hard"] for row in csv.DictReader(file)}


def scenarios(pairs: Sequence[Pair]) -> str:
    """Formats a table with a row per scenario."""
    heads, rows = words.table(pairs)
    names = [f"{pair.file}: {pair.qdisc.split()[0]}, {pair.title}" for pair in pairs]
    cells = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
    return markdown(heads, cells)


def easy(comparison: agree.Comparison, folder: str) -> list[Pair]:
    """Returns the pairs of a folder that are not hard."""
    classes = hard(folder)
    return [pair for pair in comparison.pairs if not classes[pair.file]]


def sizes(pairs: Sequence[Pair], measure: Measure) -> list[float]:
    """Returns the absolute differences of a measure."""
    return [abs(one.value) for one in differences(pairs, measure)]


def of_seeds(pairs: Sequence[Pair], seeds: range) -> list[Pair]:
    """Returns the pairs restricted to these seeds, without those that have none of them."""

    def kept(runs: Mapping[int, Run]) -> dict[int, Run]:
        return {seed: run for seed, run in runs.items() if seed in seeds}

    fewer = (replace(pair, sim=kept(pair.sim), kernel=kept(pair.kernel)) for pair in pairs)
    return [pair for pair in fewer if pair.seeds]


def by_measure(pairs: Sequence[Pair]) -> dict[Measure, Summary]:
    """Returns the summaries of the measures that any pair has."""
    return {one.measure: one for one in summaries(pairs)}


def held_back(done: agree.Comparison, held: Mapping[str, agree.Comparison]) -> list[str]:
    """Formats the comparison of the held-back scenarios with the eighty, without hard ones."""
    eighty, last = easy(done, "drawn"), easy(held[LAST], LAST)
    eighty_first, newest = of_seeds(eighty, FIRST_SEEDS), of_seeds(easy(held[NEWEST], NEWEST), FIRST_SEEDS)
    unseen = [*of_seeds(last, FIRST_SEEDS), *newest]
    fresh = (of_seeds(last, LAST_SEEDS), of_seeds(eighty, LAST_SEEDS))
    return [
        f"{HELD_BACK[LAST].capitalize()}, with thirty seeds:",
        compared_with(last, eighty, HELD_BACK[LAST], {"with seeds 21–30 alone": fresh}),
        f"{HELD_BACK[NEWEST].capitalize()}, and the eighty with the same seeds, 1–10:",
        compared_with(newest, eighty_first, HELD_BACK[NEWEST], {"with the last forty": (unseen, eighty_first)}),
        "Each set, with all its seeds:",
        each_set(done, held),
    ]


def compared_with(
    held: Sequence[Pair],
    eighty: Sequence[Pair],
    name: str,
    also: Mapping[str, tuple[Sequence[Pair], Sequence[Pair]]],
) -> str:
    """Formats the medians of a set, of the eighty and of `also`, and their ratios."""
    found = by_measure(held)
    rows = []
    for one in summaries(eighty):
        other = found.get(one.measure)
        cells = (
            [f"{words.share(other, other.median)} ({other.count})", words.share(other, other.chance)]
            if other
            else ["–"] * 2
        )
        apart = [[sizes(pairs, one.measure) for pairs in two] for two in ((held, eighty), *also.values())]
        own = [words.share(one, one.median), words.share(one, one.chance)]
        rows.append([one.measure.head, *own, *cells, *(times(*two) for two in apart), shuffled(*apart[0])])
    heads = ["the eighty", "chance alone", name, "chance alone", "times the eighty's", *also, "shuffled"]
    return markdown(["", *heads], rows)


def each_set(done: agree.Comparison, held: Mapping[str, agree.Comparison]) -> str:
    """Formats the medians of each set that was held back."""
    sets = [by_measure(easy(found, folder)) for folder, found in held.items()]
    rows = []
    for one in summaries(easy(done, "drawn")):
        those = [found.get(one.measure) for found in sets]
        cells = [f"{words.share(other, other.median)} ({other.count})" if other else "–" for other in those]
        rows.append([one.measure.head, words.share(one, one.median), *cells])
    return markdown(["", "the eighty", *(HELD_BACK[folder] for folder in held)], rows)


def times(held: Sequence[float], others: Sequence[float]) -> str:
    """Formats the ratio of two medians with a 90 % confidence interval (bootstrap over the scenarios of both)."""
    if min(len(held), len(others)) < 2 or not np.median(others):
        return "–"

    def ratio(held: Any, others: Any, axis: int) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.median(held, axis=axis) / np.median(others, axis=axis)

    found = stats.bootstrap(
        (held, others), ratio, confidence_level=0.9, method="percentile", n_resamples=9999, vectorized=True, rng=1
    )
    low, high = found.confidence_interval
    within = f" ({low:.2f}–{high:.2f})" if np.isfinite([low, high]).all() else ""
    return f"{ratio(held, others, -1):.2f}{within}"


def shuffled(held: Sequence[float], others: Sequence[float]) -> str:
    """Formats the fraction of shuffles after which the held-back scenarios have a median larger by as much."""
    if min(len(held), len(others)) < 2:
        return "–"

    def more(held: Any, others: Any, axis: int) -> Any:
        return np.median(held, axis=axis) - np.median(others, axis=axis)

    found = stats.permutation_test(
        [held, others], more, alternative="greater", n_resamples=20_000, vectorized=True, rng=1
    )
    return f"{100 * found.pvalue:.0f} %"


def unplayed(folder: str, comparison: agree.Comparison) -> list[str]:
    """Returns the files of a folder that the kernel has not played."""
    return sorted({path.stem for path in (FOLDER / folder).glob("*.toml")} - {pair.file for pair in comparison.pairs})


def left_out(folder: str, comparison: agree.Comparison) -> str:
    """Formats the held-back files that are not compared, with their classes; empty if all are."""
    classes = hard(folder)
    missing = [f"{name} ({classes[name]})" if classes[name] else name for name in unplayed(folder, comparison)]
    return f"Not played in the kernel, of `{folder}/`: {', '.join(missing)}." if missing else ""


def ranked(ranks: agree.Comparison) -> str:
    """Formats the files and seeds of the ranking, and the files without runs of the kernel."""
    played = sorted({pair.file for pair in ranks.pairs})
    seeds = {file: set.intersection(*(set(one.seeds) for one in ranks.pairs if one.file == file)) for file in played}
    most = max(map(len, seeds.values()))
    fewer = ", ".join(f"{file}: {len(those)}" for file, those in seeds.items() if len(those) < most)
    missing = unplayed("ranks", ranks)
    without = f" Not played in the kernel: {', '.join(missing)}." if missing else ""
    each = f"{most} seeds each{f' ({fewer})' if fewer else ''}"
    return f"{len(played)} files of `ranks/`, {each}, by the mean over the seeds.{without}"


def summary(done: agree.Comparison) -> str:
    """The table of the scenarios that are not hard: how far apart the worlds are in each measure."""
    return markdown(*words.summary_table(summaries(easy(done, "drawn"))))


def order(ranks: agree.Comparison) -> str:
    """The means of the table of ranks, in a sentence."""
    _, rows = words.rank_table(rankings(ranks.pairs))
    _, _, tau, itself, pairs, clear = rows[-1]
    files = len({pair.file for pair in ranks.pairs})
    seeds = max(len(pair.seeds) for pair in ranks.pairs)
    return (
        f"Order of ten disciplines by p95 and by goodput, over {files} scenarios with {seeds} seeds each: "
        "Kendall's tau between the worlds is "
        f"{tau} in the mean. Between the kernel's even and odd seeds it is {itself}. Over the {pairs} pairs of "
        f"disciplines that the kernel's seeds tell apart it is {clear}."
    )


def netems(found: agree.Comparison) -> list[str]:
    """Formats the tables of the scenarios with netem's words; returns nothing if the kernel has played none."""
    if not found.pairs:
        return []
    missing = unplayed(NETEM, found)
    without = f" Not played in the kernel: {', '.join(missing)}." if missing else ""
    return [
        "## Netem's words",
        f"{len(found.pairs)} scenarios of `{NETEM}/` with delay, jitter, reordering, duplication, loss and slots, "
        f"{NETEM_SEEDS} seeds each. netem draws other random numbers in each world.{without}",
        markdown(*words.summary_table(summaries(found.pairs))),
        scenarios(found.pairs),
    ]


def tables(
    done: agree.Comparison,
    ranks: agree.Comparison | None,
    held: Mapping[str, agree.Comparison],
    netem: agree.Comparison,
) -> str:
    """Formats all generated parts of the page."""
    classes, others = hard(), easy(done, "drawn")
    parts = [
        page.provenance(done) + ".",
        f"## The {len(others)} scenarios that are not hard",
        summary(done),
        scenarios(others),
    ]
    for name, what in (
        ("fast", "above 500 Mbit/s"),
        ("starved", "less than half a packet of BDP a flow"),
        ("lone", "one flow before a large uncontrolled queue"),
    ):
        those = [pair for pair in done.pairs if classes[pair.file] == name]
        if those:
            parts += [f"## Hard: {what}", markdown(*words.summary_table(summaries(those))), scenarios(those)]
    if ranks is not None and ranks.pairs:
        parts += [
            "## In which order the disciplines come",
            ranked(ranks),
            markdown(*words.rank_table(rankings(ranks.pairs))),
        ]
    if any(comparison.pairs for comparison in held.values()):
        parts += ["## Those that were held back", *held_back(done, held)]
        for folder, comparison in held.items():
            parts += [f"### {HELD_BACK[folder].capitalize()}", scenarios(comparison.pairs)]
        parts += filter(None, (left_out(folder, comparison) for folder, comparison in held.items()))
    parts += netems(netem)
    reasons = sorted({(one["file"], one["reason"]) for one in done.skipped})
    if reasons:
        parts += ["## Not compared", "\n".join(f"- {file}: {reason}" for file, reason in reasons)]
    return "\n\n".join(parts)


def main() -> int:
    """Plays the missing runs and writes the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--ranks", type=int, default=0, metavar="SEEDS")
    asked.add_argument("--store", type=Path, default=agree.store(), metavar="DIR")
    asked.add_argument("--kept", action="store_true")
    asked.add_argument("--print", action="store_true")
    asked.add_argument("--pack", action="store_true")
    options = asked.parse_args()
    unpack(options.store)
    if options.pack:
        print(f"{pack(options.store)} runs in {PLAYED.relative_to(ROOT)}")
        return 0

    def compared(folder: str, seeds: int, guest: str | None = GUEST) -> agree.Comparison:
        files = sorted((FOLDER / folder).glob("*.toml"))
        found = agree.compare(
            files, seeds=seeds, folder=options.store, memory="3G", kept_only=options.kept, guest=guest
        )
        # Each scenario was drawn for one queue, and counts once.
        return replace(found, pairs=[pair for pair in found.pairs if pair.compared])

    done = compared("drawn", options.seeds)
    if not done.pairs:
        print("no runs of the kernel are kept for drawn/: the pages stay as they are", file=sys.stderr)
        return 1
    ranks = compared("ranks", options.ranks) if options.ranks else None
    held = {folder: compared(folder, options.seeds) for folder in HELD_BACK}
    text = tables(done, ranks, held, compared(NETEM, NETEM_SEEDS, guest=None))
    if options.print:
        print(text)
        return 0
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), BEGIN, END, text), encoding="utf-8")
    short_text = "\n\n".join([summary(done), *([order(ranks)] if ranks and ranks.pairs else [])])
    trust = filled(TRUST.read_text(encoding="utf-8"), BEGIN_SUMMARY, END_SUMMARY, short_text)
    TRUST.write_text(trust, encoding="utf-8")
    PAGE.with_suffix(".csv").write_text(words.csv_text(done.pairs), encoding="utf-8")
    PAGE.with_suffix(".png").write_bytes(page.overview(done.pairs, page.provenance(done)).encode("png"))
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
