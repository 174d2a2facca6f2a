"""Writes the table of verdicts into a paper's README: tools/claims_page.py experiments/001-codel [STORE].

The store (results/store) must have all runs: `sojourn claims 001` plays them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pages import filled

from sojourn import claims
from sojourn.cli.claims import told
from sojourn.run import Simulator
from sojourn.store import Store

BEGIN, END = "<!-- verdicts: written by tools/claims_page.py -->", "<!-- end of verdicts -->"


def table(folder: Path, store: Store) -> str:
    """Every claim of a paper, judged by what the store has."""
    experiment = claims.load(folder)
    found = claims.gather(experiment, experiment.needs, store, Simulator(), play=False)
    rows = ["| | the paper | measured, and its range | verdict | cause |", "|---|---|---|---|---|"]
    for claim in experiment.claims:
        one = claims.judge(experiment, claim, found, "sim")
        judged = [told(each) for each in one.quantities if each.rule or claim.kind == "report"]
        measured = "<br>".join(text.replace("OUTSIDE", "**outside**") for text in judged)
        rows.append(f"| {claim.id} | {claim.says} | {measured} | **{one.verdict}** | {one.cause} |")
    return "\n".join(rows)


def main(folder: str, store: str = "results/store") -> None:
    """Writes the table anew."""
    page = Path(folder) / "README.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(filled(text, BEGIN, END, table(Path(folder), Store(Path(store)))), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
