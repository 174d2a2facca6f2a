"""The report: one HTML file that needs nothing else, and its first picture as PNG beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from sojourn import headline, paired, plot, queues, table
from sojourn.cases import Cases, of_records
from sojourn.records import RunRecord, to_json, write_bytes, write_text
from sojourn.sweep import Combination, combinations

PAGE = "report.html"
PICTURE = "report.png"


def write(
    folder: Path,
    runs: Sequence[RunRecord],
    skipped: Sequence[dict[str, object]] = (),
    interrupted: bool = False,
    baseline: str | None = None,
) -> Path:
    """Writes the page and the picture into the folder; says where the page is.

    `baseline` is as in `paired.differences`.
    """
    groups = combinations(runs)
    hop = queues.compared_in([record.result for record in runs])
    made = plot.pictures(groups, hop)
    if made:
        write_bytes(folder / PICTURE, made[0].png)
    write_text(folder / PAGE, page(runs, groups, made, skipped, interrupted, baseline))
    return folder / PAGE


def page(
    runs: Sequence[RunRecord],
    groups: Sequence[Combination],
    made: Sequence[plot.Picture],
    skipped: Sequence[dict[str, object]],
    interrupted: bool,
    baseline: str | None = None,
) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("sojourn", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    first = runs[0]
    cases = of_records(runs)
    tables = table.tables(cases)
    differences = paired.differences(cases, baseline) if cases.several_seeds else []
    return environment.get_template("report.html.j2").render(
        title=first.title,
        provenance=plot.provenance(groups),
        pictures=[(one, base64.b64encode(one.png).decode()) for one in made],
        palette=plot.colours(groups),
        tables=tables,
        columns=_columns(tables),
        differences=table.differences_table(cases, differences),
        untold=table.untold(cases, differences),
        legend=table.LEGEND if any(cell.mark for one in tables for row in one.rows for cell in row.cells) else "",
        seeds=sorted({record.seed for record in runs}),
        several=any(len(group.runs) > 1 for group in groups),
        random=cases.random,
        about=first.about,
        scenario=first.scenario,
        versions=first.versions,
        skipped=[(to_json(one["set"], indent=None), one["reason"]) for one in skipped],
        interrupted=interrupted,
        answer=answer(cases),
    )


def answer(cases: Cases) -> str:
    """The comparison in a sentence or two; empty where only one case is shown."""
    return " ".join(headline.sentences(cases))


def _columns(tables: Sequence[table.Table]) -> list[table.Column]:
    """Every column of the tables once, for the explanation of what it means."""
    found = {(column.head, column.meaning): column for one in tables for column in one.columns}
    return list(found.values())
