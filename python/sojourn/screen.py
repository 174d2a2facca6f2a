"""Tables in a terminal: no wider than it is, and as wide as need be where nobody counts columns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNLIMITED = 10_000
"""Columns of a file or pipe."""
NARROWEST = 40
BETWEEN = 3
"""Columns between two of a table."""


def console() -> Console:
    """Where tables are printed: in the terminal's width; unlimited into files and pipes, unless COLUMNS says it."""
    from rich.console import Console

    limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = max(shutil.get_terminal_size().columns, NARROWEST) if limited else UNLIMITED
    return Console(width=width, highlight=False)


def print_words(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of words; long cells are wrapped."""
    _print(console(), title, heads, rows, numbers=False)


def print_numbers(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of numbers with a label in front; what is too wide for the terminal continues below, labels repeated."""
    screen = console()
    for number, columns in enumerate(_pages(screen.width, heads, rows)):
        picked = [0, *columns]
        cells = [[row[place] for place in picked] for row in rows]
        _print(screen, "" if number else title, [heads[place] for place in picked], cells, numbers=True)


def _pages(width: int, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[int]]:
    """The columns after the first, in groups that fit beside it."""

    def wide(place: int) -> int:
        return max(len(line) for cell in (heads[place], *(row[place] for row in rows)) for line in cell.split("\n"))

    pages: list[list[int]] = [[]]
    edges = 2
    used = edges + wide(0)
    for place in range(1, len(heads)):
        if pages[-1] and used + BETWEEN + wide(place) > width:
            pages.append([])
            used = edges + wide(0)
        pages[-1].append(place)
        used += BETWEEN + wide(place)
    return pages


def _print(screen: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool) -> None:
    from rich.text import Text

    view = _frame(title)
    for place, head in enumerate(heads):
        number = numbers and place > 0
        view.add_column(
            head,
            vertical="bottom" if numbers else "top",
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
        )
    for row in rows:
        view.add_row(*(Text(text) for text in row))
    with screen.capture() as captured:
        screen.print(view)
    click.echo(captured.get(), nl=False)  # which leaves errors of writing to the caller


def _frame(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
