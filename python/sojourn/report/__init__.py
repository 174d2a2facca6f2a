"""The report: one HTML file that needs nothing else, and its first picture as PNG beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from sojourn import pictures, plot, queues, rows, table
from sojourn.records import RunRecord, to_json, write_bytes, write_text
from sojourn.sweep import Combination, combinations
from sojourn.words import time_text

PAGE = "report.html"
PICTURE = "report.png"


@dataclass(frozen=True)
class HopTable:
    """One queue's table, ready for the page."""

    hop: str
    rows: list[tuple[str, str, list[tuple[str, str]]]]
    """Label, colour, and cells with their intervals."""


def write(
    folder: Path, runs: Sequence[RunRecord], skipped: Sequence[dict[str, object]] = (), interrupted: bool = False
) -> Path:
    """Writes the page and the picture into the folder; says where the page is."""
    groups = combinations(runs)
    hop = queues.compared_in([record.result for record in runs])
    made = pictures.pictures(groups, hop)
    if made:
        write_bytes(folder / PICTURE, made[0].encode("png"))
    write_text(folder / PAGE, page(runs, groups, hop, made, skipped, interrupted))
    return folder / PAGE


def page(
    runs: Sequence[RunRecord],
    groups: Sequence[Combination],
    hop: str,
    made: Sequence[plot.Picture],
    skipped: Sequence[dict[str, object]],
    interrupted: bool,
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
    hops = queues.shown_in([record.result for record in runs])
    palette = plot.colours([rows.qdisc_at(one, hop) for one in groups])
    tables = [
        HopTable(
            name,
            [(label, colour, cells) for (label, cells), colour in zip(table.rows(groups, name), palette, strict=True)],
        )
        for name in hops
    ]
    return environment.get_template("report.html.j2").render(
        title=first.title,
        provenance=plot.provenance(groups),
        pictures=[(one, base64.b64encode(one.encode("png")).decode()) for one in made],
        columns=table.COLUMNS,
        tables=tables,
        applications=table.applications(groups),
        seeds=sorted({record.seed for record in runs}),
        several=any(len(group.runs) > 1 for group in groups),
        about=first.about,
        scenario=first.scenario,
        versions=first.versions,
        skipped=[(to_json(one["set"], indent=None), one["reason"]) for one in skipped],
        interrupted=interrupted,
        answer=answer(groups, hop),
    )


def answer(groups: Sequence[Combination], hop: str) -> str:
    """The comparison in a sentence: who keeps packets waiting least and most, at what use of the link."""
    facts = []
    for group in groups:
        wait, busy = pictures.average(group, hop, "sojourn_ms", "p95"), pictures.average(group, hop, "utilisation")
        if wait is not None and busy is not None:
            facts.append((wait, group.label, busy))
    if len(facts) < 2:
        return ""
    (least, best, best_busy), (most, worst, worst_busy) = min(facts), max(facts)
    shown = queues.shown_in([record.result for group in groups for record in group.runs])
    queue = f"the queue of {hop}" if len(shown) > 1 or hop.endswith(queues.REVERSE) else "the queue"
    return (
        f"19 of 20 packets got through {queue} within {time_text(least)} with {best} "
        f"(link {100 * best_busy:.1f} % busy), and within {time_text(most)} with {worst} "
        f"({100 * worst_busy:.1f} %)."
    )
