"""Writes docs/explanation/agreement.md: how well the simulator agrees with Linux on the frozen scenarios.

    tools/agree_page.py [--seeds N] [--ranks SEEDS] [--kept] [--print]

Plays what is missing (`sojourn agree` keeps what was played), then writes the tables between the page's marks, the
picture agreement.png and every number in agreement.csv beside it. With --print the tables go to stdout only; with
--kept nothing is played in the kernel, and what it has not played is left out.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from pages import filled

from sojourn import agree
from sojourn.agree import page, words
from sojourn.agree.judge import Pair, rankings, summaries

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "experiments/agree"
PAGE = ROOT / "docs/explanation/agreement.md"
BEGIN, END = "<!-- tables: written by tools/agree_page.py -->", "<!-- end of the tables -->"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def hard(folder: str = "drawn") -> dict[str, str]:
    """By scenario, the class of the hard ones."""
    with (FOLDER / f"{folder}.csv").open(newline="", encoding="utf-8") as file:
        return {row["name"]: row["hard"] for row in csv.DictReader(file)}


def scenarios(pairs: Sequence[Pair]) -> str:
    """A row a scenario."""
    heads, rows = words.table(pairs)
    names = [f"{pair.file}: {pair.qdisc.split()[0]}, {pair.title}" for pair in pairs]
    cells = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
    return markdown(heads, cells)


def beside(done: agree.Comparison, held: agree.Comparison) -> str:
    """The medians of those that were not looked at, beside those that were, where neither is hard."""
    found = []
    for comparison, folder in ((done, "drawn"), (held, "held-back")):
        classes = hard(folder)
        found.append({one.measure.name: one for one in summaries([p for p in comparison.pairs if not classes[p.file]])})
    rows = []
    for one in found[0].values():
        other = found[1].get(one.measure.name)
        if other is not None:
            times = f"{other.median / one.median:.1f}" if one.median else "–"
            cells = [words.share(one, one.median), words.share(other, other.median)]
            rows.append([one.measure.head, *cells, str(other.count), times])
    return markdown(["", "the eighty", "held back", "scenarios", "times"], rows)


def tables(done: agree.Comparison, ranks: agree.Comparison | None, held: agree.Comparison) -> str:
    """All that is generated of the page."""
    classes = hard()
    easy = [pair for pair in done.pairs if not classes[pair.file]]
    parts = [
        page.provenance(done) + ".",
        f"## The {len(easy)} scenarios that are not hard",
        markdown(*words.summary_table(summaries(easy))),
        scenarios(easy),
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
        parts += ["## In which order the disciplines come", markdown(*words.rank_table(rankings(ranks.pairs)))]
    if held.pairs:
        parts += ["## Twenty that nobody had looked at", beside(done, held), scenarios(held.pairs)]
    reasons = sorted({(one["file"], one["reason"]) for one in done.skipped})
    if reasons:
        parts += ["## Not compared", "\n".join(f"- {file}: {reason}" for file, reason in reasons)]
    return "\n\n".join(parts)


def main() -> int:
    """Plays what is missing and writes the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--ranks", type=int, default=0, metavar="SEEDS")
    asked.add_argument("--kept", action="store_true")
    asked.add_argument("--print", action="store_true")
    options = asked.parse_args()

    def compared(folder: str, seeds: int) -> agree.Comparison:
        files = sorted((FOLDER / folder).glob("*.toml"))
        return agree.compare(files, seeds=seeds, memory="3G", kept_only=options.kept)

    done = compared("drawn", options.seeds)
    ranks = compared("ranks", options.ranks) if options.ranks else None
    text = tables(done, ranks, compared("held-back", options.seeds))
    if options.print:
        print(text)
        return 0
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), BEGIN, END, text), encoding="utf-8")
    PAGE.with_suffix(".csv").write_text(words.csv_text(done.pairs), encoding="utf-8")
    PAGE.with_suffix(".png").write_bytes(page.overview(done.pairs, page.provenance(done)))
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
