"""How `run`, `sweep` and `report` print a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import click

from sojourn import screen, words

if TYPE_CHECKING:
    from sojourn.cases import Cases
    from sojourn.table import Cell, Table

COLOURS = {"best": "green", "worst": "red"}


def show(cases: Cases, baseline: str | None = None, caution: str = "") -> None:
    """Prints headline, tables, paired differences, and an explanation of the signs. `caution` follows the headline."""
    from sojourn import headline, paired, table

    screen.say(f"{cases.title} · world {cases.world}")
    for sentence in headline.sentences(cases):
        screen.say(sentence)
    if caution:
        screen.say(caution)
    click.echo()
    made = table.tables(cases)
    _print_queues([one for one in made if one.key == "queue"], cases)
    for sentence in (unknown := table.undescribed(cases)):
        screen.say(sentence)
    if unknown:
        click.echo()
    for one in made:
        if one.key != "queue":
            screen.print_lines(_lines(one, cases))
    found = paired.differences(cases, baseline) if cases.several_seeds else []
    if apart := table.differences_table(cases, found):
        screen.print_lines(_lines(apart, cases))
        for sentence in table.untold(cases, found):
            screen.say(sentence)
    _legend(cases, made, apart)
    _commands(cases)


def _commands(cases: Cases) -> None:
    """The commands to paste on a router for the compared disciplines, or why there is none."""
    from sojourn import table, tcline

    commands = table.commands(cases)
    if any(one.line for one in commands):
        screen.say(f"On a router, {tcline.BEFORE}")
        click.echo(tcline.CLEAR)
    for names, group in groupby(commands, lambda one: one.queues):
        found = list(group)
        if any(one.line for one in found):
            screen.say(f"For {tcline.where(names)}:")
        for one in found:
            if one.line:
                for line in screen.continued(one.line):
                    click.echo(line)
            elif one.note:
                screen.say(f"{one.discipline}: {one.note}")


def _print_queues(made: Sequence[Table], cases: Cases) -> None:
    """The queues' tables: one for all of them where they have the same columns and each row fits in a line."""
    from sojourn import table

    if joined := table.joined(made):
        together = _lines(joined, cases)
        if len(together) <= len(joined.rows) + screen.HEAD_LINES:
            screen.print_lines(together)
            return
    for one in made:
        screen.print_lines(_lines(one, cases))


def _lines(one: Table, cases: Cases) -> list[str]:
    """A table with its flows or queues, if rows have any, and its cases in front."""
    groups = any(row.flow for row in one.rows)
    names = [[row.flow, row.label] if groups else [row.label] for row in one.rows]
    for above, below in reversed(list(pairwise(names))):
        if groups and above[0] == below[0]:
            below[0] = ""
    heads = [*([""] * len(names[0])), *("\n".join(column.heads) for column in one.columns)]
    cells = [[_cell(cell) for cell in row.cells] for row in one.rows]
    queues = [row.flow if one.key == "queue" and groups else one.queue for row in one.rows]
    labels = {queue: cases.short_labels(queue or None) for queue in set(queues)}
    short = [labels[queue][row.case] for queue, row in zip(queues, one.rows, strict=True)]
    if one.key == "differences":
        short = [row.label for row in one.rows]
    if one.key == "queue":  # a single case has its discipline as label
        short = [label or words.short_name(row.label) for label, row in zip(short, one.rows, strict=True)]
    return screen.number_lines(one.title, heads, names, labels=len(names[0]), marked=cells, short=short)


def _cell(cell: Cell) -> screen.Cell:
    text = cell.text.removesuffix(cell.sign)
    count = f"({cell.mean.count})" if cell.mean and cell.partly else ""
    words = " ".join(filter(None, (text, cell.plus.replace("± ", "±"), count)))
    return screen.Cell(words, cell.sign, COLOURS.get(cell.mark))


def _legend(cases: Cases, made: Sequence[Table], apart: Table | None) -> None:
    from sojourn import table

    marked = any(cell.mark for one in made for row in one.rows for cell in row.cells)
    if marked:
        screen.say(table.legend(cases))
    if apart and any(cell.mark == "open" for row in apart.rows for cell in row.cells):
        screen.say("~ not significantly different from zero")
    counts = sorted({len(one) for one in cases.seeds})
    if counts[-1] > 1:
        seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        cells = [cell for one in made for row in one.rows for cell in row.cells]
        if any(cell.mean and cell.mean.half_width for cell in cells):
            screen.say(f"means over {seeds} seeds, ± half-width of the 95 % interval")
        else:
            screen.say(f"{seeds} seeds, which all gave the same numbers: there is no interval")
        for note in table.footnotes([*made, *([apart] if apart else [])]):
            screen.say(note)
    for sentence in cases.settings():
        screen.say(sentence)
    if marked or counts[-1] > 1 or cases.settings():
        click.echo()
