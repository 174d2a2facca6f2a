"""Tables as text: never wider than the terminal, without blanks at the ends of lines.

Outside a terminal the width is the variable COLUMNS, or else `PIPED`.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import click

PIPED = 100
"""Columns of a file or pipe."""
NARROWEST = 40
EDGE = " "
BETWEEN = "  "
LEAST = 6
"""Columns below which a column of words is not made narrower."""
LEAST_LABEL = 15
"""Columns that labels may take in any case."""
LABELS = (0.2, 0.25, 0.3, 0.4, 0.5)
"""Shares of the width that labels may take."""
HEAD_LINES = 4
"""Lines that each part of a table takes besides its rows."""


@dataclass(frozen=True)
class Cell:
    """A number in a table, and its colour in a terminal."""

    text: str
    mark: str = ""
    """A sign after the number; other cells of the column leave a blank for it."""
    colour: str | None = None


def width() -> int:
    """How wide a table may be."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(shutil.get_terminal_size().columns, NARROWEST) if known else PIPED


def length(text: str) -> int:
    """Returns the number of terminal columns that a line takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def say(text: str) -> None:
    """A sentence, wrapped."""
    for line in wrapped(text, width()):
        click.echo(line)


def print_lines(lines: Sequence[str]) -> None:
    """The lines of a table, and a blank one."""
    for line in [*lines, ""]:
        click.echo(line)


def continued(command: str) -> list[str]:
    """A shell command in lines that the shell joins again; of several, joined by `&&`, each begins a line."""
    parts = command.split(" && ")
    found = []
    for number, part in enumerate(parts):
        lines = wrapped(part, width() - len(" && \\"))
        end = [f"{lines[-1]} &&"] if number < len(parts) - 1 else lines[-1:]
        found += [f"{line} \\" for line in lines[:-1]] + end
    return found


def wrapped(text: str, most: int) -> list[str]:
    """Lines of at most this many columns, broken between words; a word that is longer is cut."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and length(line) + 1 + length(word) > most:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
            while length(line) > most:
                head = _head(line, most)
                lines.append(head)
                line = line[len(head) :]
        lines.append(line)
    return lines


def _head(text: str, most: int) -> str:
    end = len(text)
    while end > 1 and length(text[:end]) > most:
        end -= 1
    return text[:end]


def print_words(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of words; long cells are wrapped. Columns for which there is no room continue below."""
    for line in wrapped(title, width()) if title else []:
        click.secho(line, bold=True)
    for places in _word_pages(heads):
        picked = [[row[place] for place in places] for row in rows]
        names = [heads[place] for place in places]
        widths = _word_widths([names, *picked], width() - len(EDGE))
        lines = _block([wrapped(name, most) for name, most in zip(names, widths, strict=True)], widths, bottom=True)
        lines.append(_rule(widths))
        for row in picked:
            lines += _block([wrapped(cell, most) for cell, most in zip(row, widths, strict=True)], widths)
        print_lines(lines)


def _word_pages(heads: Sequence[str]) -> list[list[int]]:
    most = max(1, (width() - len(EDGE) + len(BETWEEN)) // (LEAST + len(BETWEEN)))
    return [list(range(start, min(start + most, len(heads)))) for start in range(0, len(heads), most)] or [[]]


def _word_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Returns the widths of the columns: each as wide as its longest cell. If that is too much, the widest columns
    become narrower.
    """
    columns = [[line for cell in column for line in cell.split("\n")] for column in zip(*rows, strict=True)]
    widths = [max(1, *map(length, lines)) for lines in columns]
    room -= len(BETWEEN) * (len(widths) - 1)
    while widths and sum(widths) > room:
        widest = max(widths)
        if widest <= LEAST:
            break
        next_widest = max((one for one in widths if one < widest), default=LEAST)
        at = [place for place, one in enumerate(widths) if one == widest]
        fewer = min(widest - max(next_widest, LEAST), -(-(sum(widths) - room) // len(at)))
        for place in at:
            widths[place] -= max(1, fewer)
    return widths


def number_lines(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    labels: int = 1,
    marked: Sequence[Sequence[Cell]] = (),
    short: Sequence[str] = (),
) -> list[str]:
    """A table of numbers after `labels` columns of words. Columns that do not fit follow below, with their labels.

    `marked` has the same numbers as cells with marks and colours, where there are any. `short` are shorter labels: they
    are used where labels are repeated, and everywhere if the others had to be wrapped.
    """
    cells = [list(map(Cell, row[labels:])) for row in rows] if not marked else [list(row) for row in marked]
    names = [list(row[:labels]) for row in rows]
    shorter = [[*row[:-1], again] for row, again in zip(names, short, strict=True)] if short else names
    columns = [_Column.of(head, [row[place] for row in cells]) for place, head in enumerate(heads[labels:])]
    found: list[str] = []
    while columns:
        front, wraps = _label_widths([list(heads[:labels]), *names], columns)
        if wraps and names is not shorter:
            names = shorter
            continue
        page = _number_pages(columns, width() - _taken(front))[0]
        columns = columns[len(page) :]
        head, *body = _number_page(heads[:labels], names, front, page)
        found += ["", head, *body] if found else [*_titled(title, head), *body]
        names = shorter
    return found


def _titled(title: str, head: str) -> list[str]:
    """Puts the title before the first line of a table's head if there is room, and otherwise above it."""
    taken = length(title) + 2 * len(BETWEEN)
    if head[:taken].strip() or not title:
        return [*([click.style(line, bold=True) for line in wrapped(title, width())] if title else []), head]
    return [(click.style(title, bold=True) + head[length(title) :]).rstrip()]


def _number_page(
    heads: Sequence[str], names: Sequence[Sequence[str]], front: Sequence[int], page: Sequence[_Column]
) -> list[str]:
    """Columns of numbers with their labels in front, which are this wide."""
    widths = [*front, *(column.width for column in page)]
    lines = [wrapped(head, most) for head, most in zip(heads, front, strict=True)]
    found = _block([*lines, *(column.head for column in page)], widths, numbers=len(front), bottom=True)
    found.append(_rule(widths))
    for place, row in enumerate(names):
        texts = [wrapped(name, most) for name, most in zip(row, front, strict=True)]
        texts += [[column.cells[place]] for column in page]
        colours = [*[None] * len(front), *(one.colours[place] for one in page)]
        found += _block(texts, widths, numbers=len(front), colours=colours)
    return found


def _taken(front: Sequence[int]) -> int:
    """The columns of a line that labels and the blanks between them take."""
    return len(EDGE) + sum(front) + len(BETWEEN) * max(0, len(front) - 1)


@dataclass(frozen=True)
class _Column:
    """A column of numbers, laid out."""

    head: list[str]
    cells: list[str]
    colours: list[str | None]
    width: int

    @staticmethod
    def of(head: str, cells: Sequence[Cell]) -> _Column:
        marks = max((length(one.mark) for one in cells), default=0)
        texts = [one.text + one.mark + " " * (marks - length(one.mark)) for one in cells]
        lines = [line + " " * marks for line in head.split("\n")]
        return _Column(lines, texts, [one.colour for one in cells], max(map(length, [*lines, *texts])))


def _label_widths(labels: Sequence[Sequence[str]], columns: Sequence[_Column]) -> tuple[list[int], bool]:
    """Returns the widths of the labels with which the whole table takes the fewest lines, and whether a label is
    wrapped. Wrapped labels make the rows taller; wide labels leave room for fewer columns to their right.
    """

    def laid_out(share: float) -> tuple[int, list[int], bool]:
        widths = _word_widths(labels, max(int(width() * share), LEAST_LABEL))
        pages = len(_number_pages(columns, width() - _taken(widths)))
        heights = [max(len(wrapped(cell, most)) for cell, most in zip(row, widths, strict=True)) for row in labels]
        return pages * HEAD_LINES + sum(heights) + (pages - 1) * len(labels), widths, max(heights) > 1

    if not labels[0]:
        return [], False
    _, widths, wraps = min(map(laid_out, LABELS))
    return widths, wraps


def _number_pages(columns: Sequence[_Column], room: int) -> list[list[_Column]]:
    """The columns in groups, each of which fits next to the labels."""
    pages: list[list[_Column]] = [[]]
    used = 0
    for column in columns:
        wide = len(BETWEEN) + column.width
        if pages[-1] and used + wide > room:
            pages.append([])
            used = 0
        pages[-1].append(column)
        used += wide
    return pages


def _rule(widths: Sequence[int]) -> str:
    return EDGE + "─" * (sum(widths) + len(BETWEEN) * (len(widths) - 1))


def _block(
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    *,
    numbers: int | None = None,
    bottom: bool = False,
    colours: Sequence[str | None] = (),
) -> list[str]:
    """A row of cells of several lines each; those from `numbers` on are aligned at their right ends."""
    found = []
    tall = max(map(len, cells), default=0)
    for at in range(tall):
        line, pending = "", ""
        for place, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
            lines = [*[""] * (tall - len(cell)), *cell] if bottom else [*cell, *[""] * (tall - len(cell))]
            text = lines[at]
            blank = " " * (wide - length(text))
            right = numbers is not None and place >= numbers
            pending += (BETWEEN if place else EDGE) + (blank if right else "")
            kept = text.rstrip()
            if kept:
                colour = colours[place] if colours else None
                line += pending + (click.style(kept, fg=colour, bold=True) if colour else kept)
                pending = ""
            pending += " " * (len(text) - len(kept)) + ("" if right else blank)
        found.append(line)
    return found
