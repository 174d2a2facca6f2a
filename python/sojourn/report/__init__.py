"""The report: one HTML file that needs nothing else; beside it each picture as a file, with its numbers as CSV."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from sojourn import pictures, plot, queues, rows, table, tcline
from sojourn.plot import Format, Picture
from sojourn.records import RunRecord, to_json, write_bytes, write_text
from sojourn.sweep import Combination, combinations, qdisc_of
from sojourn.words import time_text

PAGE = "report.html"
PICTURE = "report.png"
"""The first picture, for whoever wants to show one."""
PICTURES = "pictures"
"""The folder of all pictures and their numbers."""


def write(
    folder: Path,
    runs: Sequence[RunRecord],
    skipped: Sequence[dict[str, object]] = (),
    interrupted: bool = False,
    form: Format = "png",
) -> Path:
    """Writes the page and the pictures into the folder, the pictures in this format; says where the page is."""
    groups = combinations(runs)
    hop = queues.compared_in([record.result for record in runs])
    made = pictures.pictures(groups, hop)
    for picture in made:
        plot.write(picture, folder / PICTURES, form)
    write_bytes(folder / PICTURE, made[0].encode("png"))
    write_text(folder / PAGE, page(runs, groups, hop, list(map(_shown, made)), skipped, interrupted))
    return folder / PAGE


@dataclass(frozen=True)
class Shown:
    """A picture as it stands in the page."""

    picture: Picture
    image: str
    """The PNG in base64."""
    narrow: str
    """That of the figure for a phone; may be empty."""


def _shown(picture: Picture) -> Shown:
    def image(figure: Figure) -> str:
        return base64.b64encode(plot.encode(figure, "png")).decode()

    return Shown(picture, image(picture.figure), image(picture.narrow) if picture.narrow else "")


@dataclass(frozen=True)
class Table:
    """A table of numbers, ready for the page."""

    title: str
    columns: Sequence[table.Column]
    rows: list[tuple[str, str, list[tuple[str, str]]]]
    """Label, colour (may be empty), and cells with their intervals."""


@dataclass(frozen=True)
class Command:
    """What gives a router a discipline that was compared."""

    discipline: str
    line: str | None
    """The command; None where no stock kernel has the discipline."""
    note: str


def page(
    runs: Sequence[RunRecord],
    groups: Sequence[Combination],
    hop: str,
    shown: Sequence[Shown],
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
    tables = _tables(groups, hop)
    return environment.get_template("report.html.j2").render(
        title=first.title,
        provenance=plot.provenance(groups),
        first=shown[0],
        others=shown[1:],
        tables=tables,
        columns={column.head: column for one in tables for column in one.columns}.values(),
        commands=commands(groups),
        seeds=sorted({record.seed for record in runs}),
        several=any(len(group.runs) > 1 for group in groups),
        scenario=first.scenario,
        versions=first.versions,
        skipped=[(to_json(one["set"], indent=None), one["reason"]) for one in skipped],
        interrupted=interrupted,
        answer=answer(groups, hop),
    )


def commands(groups: Sequence[Combination]) -> list[Command]:
    """A command for each discipline of the queues that are shown, each once."""
    results = [record.result for group in groups for record in group.runs]
    found: dict[str, Command] = {}
    for hop in queues.shown_in(results):
        for group in groups:
            written = rows.qdisc_at(group, hop)
            if written in found:
                continue
            line, note = tcline.paste(written)
            if line is None:  # sizes in BDP are for scenarios only: the resolved line may do
                resolved, more = tcline.paste(qdisc_of(group.first, hop))
                line, note = (resolved, more) if resolved else (line, note)
            found[written] = Command(written, line, note)
    return list(found.values())


def _tables(groups: Sequence[Combination], hop: str) -> list[Table]:
    """A table for each queue, and one for the applications."""
    palette = plot.colours([rows.qdisc_at(one, hop) for one in groups])
    found = []
    for name in queues.shown_in([record.result for group in groups for record in group.runs]):
        body = [
            (label, colour, cells) for (label, cells), colour in zip(table.rows(groups, name), palette, strict=True)
        ]
        found.append(Table(f"Queue {name}", table.COLUMNS, body))
    if of_flows := table.applications(groups):
        body = [(f"{name} · {label}", "", cells) for name, label, cells in of_flows.rows]
        found.append(Table("Applications", of_flows.columns, body))
    return found


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
