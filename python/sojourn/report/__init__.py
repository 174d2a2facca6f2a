"""Writes the report: one HTML file that needs no other file. Each picture is also written as a separate file, with its
numbers as CSV.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sojourn import headline, paired, pictures, plot, queues, rows, table, tcline
from sojourn.cases import Case, Cases, case_list, of_records
from sojourn.files import reserving
from sojourn.plot import Format, Picture
from sojourn.records import RunRecord, not_valid, to_json, write_bytes, write_text
from sojourn.templates import template_of

PAGE = "report.html"
PICTURE = "report.png"
"""The file name of the first picture, as a file to share."""
PICTURES = "pictures"
"""The name of the folder with all pictures and their numbers."""


@reserving()
def write(
    folder: Path,
    runs: Sequence[RunRecord],
    skipped: Sequence[dict[str, object]] = (),
    interrupted: bool = False,
    baseline: str | None = None,
    form: Format = "png",
) -> Path:
    """Writes the page and the pictures into the folder, the pictures in this format. Returns the page's path.

    `baseline` is as in `paired.differences`.
    """
    groups = case_list(runs)
    hop = queues.compared_in([record.result for record in runs])
    made = pictures.pictures(groups, hop)
    # Drawing and compressing do not hold the interpreter's lock: the numbers are written at the same time.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        wide, narrow = pool.map(_wide, made), pool.map(_narrow, made)
        for picture in made:
            plot.write_numbers(picture, folder / PICTURES)
        shown = map(Shown, made, map(_base64, wide), map(_base64, narrow))
        text = page(runs, groups, shown, skipped, interrupted, baseline)
    for picture in made:
        plot.write_image(picture, folder / PICTURES, form)
    write_bytes(folder / PICTURE, made[0].encode("png"))
    write_text(folder / PAGE, text)
    return folder / PAGE


@dataclass(frozen=True)
class Shown:
    """A picture in the page."""

    picture: Picture
    image: str
    """The PNG in base64."""
    narrow: str
    """The figure for narrow screens, as PNG in base64."""


def _wide(picture: Picture) -> bytes:
    return picture.encode("png")


def _narrow(picture: Picture) -> bytes:
    return plot.encode(picture.narrow or picture.figure, "png")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def page(
    runs: Sequence[RunRecord],
    groups: Sequence[Case],
    shown: Iterable[Shown],
    skipped: Sequence[dict[str, object]],
    interrupted: bool,
    baseline: str | None = None,
) -> str:
    """Returns the page as text. `shown` is iterated last, so that its pictures can be drawn in the meantime."""
    template = template_of("report", "report.html.j2")
    first = runs[0]
    cases = of_records(runs)
    tables = table.tables(cases)
    differences = paired.differences(cases, baseline) if cases.several_seeds else []
    headlines = answer(cases)
    shown = list(shown)
    return template.render(
        title=first.title,
        origin=plot.origin(groups),
        first=shown[0],
        others=shown[1:],
        palettes={queue: plot.colours([rows.qdisc_at(one, queue) for one in groups]) for queue in cases.queues},
        compared=cases.compared,
        tables=tables,
        columns=_columns(tables),
        differences=table.differences_table(cases, differences),
        untold=table.untold(cases, differences),
        legend=table.legend(cases)
        if any(cell.mark for one in tables for row in one.rows for cell in row.cells)
        else "",
        commands=table.commands(cases),
        where=tcline.where,
        before=tcline.BEFORE,
        clear=tcline.CLEAR,
        undescribed=table.undescribed(cases),
        seeds=sorted({record.seed for record in runs}),
        several=any(len(group.runs) > 1 for group in groups),
        random=cases.random,
        scenario=first.scenario,
        versions=first.versions,
        skipped=[(to_json(one["set"], indent=None), one["reason"]) for one in skipped],
        interrupted=interrupted,
        caution=not_valid(runs),
        answer=headlines,
    )


def answer(cases: Cases) -> str:
    """Returns the comparison in a sentence or two, or empty text if only one case is shown."""
    return " ".join(headline.sentences(cases))


def _columns(tables: Sequence[table.Table]) -> list[table.Column]:
    """Returns every column of the tables once, for the explanation of what the columns mean."""
    found = {(column.head, column.meaning): column for one in tables for column in one.columns}
    return list(found.values())
