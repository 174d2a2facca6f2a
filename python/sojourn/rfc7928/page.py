"""Writes an evaluation by RFC 7928 as a page with pictures, and its numbers as CSV and JSON."""

from __future__ import annotations

from pathlib import Path

from sojourn import plot
from sojourn.files import reserving
from sojourn.plot import Format, Picture
from sojourn.records import to_json, write_text
from sojourn.rfc7928 import pictures, suite, tables
from sojourn.rfc7928.judge import AXES, Evaluation, as_dict, headline
from sojourn.rfc7928.suite import Row
from sojourn.templates import template_of
from sojourn.words import number_text, rows_as_csv

PAGE = "rfc7928.html"
PICTURES = "pictures"
OVER_TIME = ("8.2.5", "8.2.6 I", "8.2.6 II")
"""Rows whose link or load changes."""


@reserving(wait=True)
def write(folder: Path, done: Evaluation, form: Format = "png") -> Path:
    """Writes the page, the pictures in this format, and all numbers as CSV and JSON. Returns the page's path.

    If the format is PDF, the page shows the same pictures as PNG.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "evaluation.json", to_json(as_dict(done)) + "\n")
    write_text(folder / "runs.csv", rows_as_csv(*tables.every_run(done)))
    write_text(folder / "verdicts.csv", rows_as_csv(*tables.every_verdict(done)))

    def draw(picture: Picture) -> str:
        """Writes a picture, and returns the file that the page shows: browsers show no PDF as an image."""
        file = plot.write(picture, folder / PICTURES, form)
        return plot.write_image(picture, folder / PICTURES, "png").name if form == "pdf" else file.name

    said = headline(done)
    page = template_of("rfc7928", "rfc7928.html.j2").render(
        style=plot.page_style(),
        provenance=pictures.provenance(done),
        headline=said,
        disciplines=[(name, line, _full(line)) for name, line in zip(done.names, done.lines, strict=True)],
        buffer=number_text(done.buffer),
        matrix=draw(pictures.matrix(done, said)),
        profiles=draw(pictures.profiles(done)),
        tables=_tables(done),
        legend=tables.LEGEND,
        skipped=done.skipped,
        each=[(row, [draw(one) for one in _pictures(done, row)], *tables.measured(done, row)) for row in done.rows],
    )
    write_text(folder / PAGE, page)
    return folder / PAGE


def _full(line: str) -> str:
    """Returns a line with all parameters, as section 4.3.1 asks to disclose them; empty if it has no others."""
    full = suite.disclosed(line)
    return "" if full == line else full


def _tables(done: Evaluation) -> list[tuple[str, list[str], list[list[str]]]]:
    ratios = [
        (f"{axis.head[0].upper()}{axis.head[1:]} in percent of tail drop's", *tables.ratios(done, axis))
        for axis in AXES
    ]
    return [
        ("Against tail drop", *tables.verdicts(done)),
        *[(head, heads, rows) for head, heads, rows in ratios if rows],
        ("Profiles", *tables.profiles(done)),
        ("Rows that are worse than tail drop", *tables.costs(done)),
    ]


def _pictures(done: Evaluation, row: Row) -> list[Picture]:
    """Returns the pictures of a row."""
    if any(one.knob != 1.0 for one in row.variants):
        return [pictures.sensitivity(done, row)]
    made = [pictures.trade_off(done, row)]
    if samples := done.samples.get(row.name):
        made.append(pictures.distributions(done, row, samples))
        if row.name in OVER_TIME:
            made.append(pictures.over_time(done, row, samples))
    return made
