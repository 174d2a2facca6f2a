"""The numbers in a figure, read from its artists: lines, bars, intervals, areas, images and tables.

A row is a point. Panels are numbered from the upper left; a series has the name that its legend or `label` gives, or
else a number and, where its colour is a discipline's, that discipline's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

from sojourn import plot
from sojourn.charts import CELL, NAMED
from sojourn.plot import Data

HEADS = ["panel", "panel_title", "x_axis", "y_axis", "series", "x", "y", "y_low", "y_high"]
_NAMES = {paint: name for name, paint in plot.COLOURS.items()}
Point = tuple[Any, Any, Any, Any]
"""x, y and the interval of y, each None if there is none. x is a word where the axis has words."""


def data_of(figure: Figure) -> Data:
    """Every number that a figure shows, panel by panel."""
    rows: list[list[object]] = []
    for place, axis in enumerate(figure.axes, 1):
        where = [place, axis.get_title() or axis.get_title(loc="left"), axis.get_xlabel(), axis.get_ylabel()]
        for series, points in _series(axis) if axis.axison else _table(axis):
            rows += [[*where, series, *point] for point in points]
    return Data(HEADS, rows)


def _series(axis: Axes) -> Iterator[tuple[str, list[Point]]]:
    held: set[Artist] = set()
    count = 0
    for container in axis.containers:
        count += 1
        if isinstance(container, ErrorbarContainer):
            held |= {line for line in container.lines[0:1] if line is not None} | set(container.lines[1])
            yield _name(container, container.lines[0], count), _with_intervals(axis, container)
        elif isinstance(container, BarContainer):
            held |= set(container.patches)
            yield (
                _name(container, container.patches[0] if container.patches else None, count),
                [
                    (_at(axis, bar.get_x() + bar.get_width() / 2), float(bar.get_y() + bar.get_height()), None, None)
                    for bar in container.patches
                ],
            )
    for line in axis.lines:
        if line not in held and line.get_transform() == axis.transData:
            count += 1
            yield _name(line, line, count), [(_at(axis, x), y, None, None) for x, y in _points(line)]
    for part in (*axis.collections, *axis.patches):
        if part in held:
            continue
        if isinstance(part, PolyCollection | PathPatch):
            count += 1
            paths = part.get_paths() if isinstance(part, PolyCollection) else [part.get_path()]
            outline = [(_at(axis, x), y, None, None) for path in paths for x, y in _finite(path.vertices)]
            yield f"{_name(part, part, count)} (outline of the area)", outline
    for image in axis.images:
        count += 1
        values: Any = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
        if values.ndim == 2:
            yield (
                f"image {count}: value at column x, row y_low",
                [(x, value, y, None) for y, row in enumerate(values.tolist()) for x, value in enumerate(row)],
            )


def _points(line: Line2D) -> list[tuple[float, float]]:
    return _finite(np.column_stack([np.asarray(values, float) for values in line.get_data(orig=False)]))


def _finite(points: object) -> list[tuple[float, float]]:
    found = np.asarray(points, float)
    return [(x, y) for x, y in found.tolist() if np.isfinite(x) and np.isfinite(y)]


def _with_intervals(axis: Axes, container: ErrorbarContainer) -> list[Point]:
    """Returns the points of vertical error bars, with the lower and upper end of each."""
    line, _, bars = container.lines
    ends: dict[float, tuple[float, float]] = {}
    for bar in bars:
        for segment in bar.get_segments():
            (x, low), (other, high) = np.asarray(segment, float)[[0, -1]].tolist()
            if x == other:
                ends[x] = (low, high)
    if line is None:
        return [(_at(axis, x), None, low, high) for x, (low, high) in ends.items()]
    return [(_at(axis, x), y, *ends.get(x, (None, None))) for x, y in _points(line)]


def _at(axis: Axes, x: float) -> object:
    """A place on the x axis: the word of the nearest one, where `charts.names` gave places words."""
    if axis.xaxis.get_gid() != NAMED:
        return float(x)
    words = {label.get_position()[0]: label.get_text() for label in axis.get_xticklabels()}
    return words.get(round(float(x)), float(x))


def _name(labelled: object, painted: Artist | None, count: int) -> str:
    label = str(getattr(labelled, "get_label", str)() or "")
    if label and not label.startswith("_"):
        return label
    gid = getattr(labelled, "get_gid", lambda: None)()
    if gid:
        return str(gid)
    name = _NAMES.get(_colour(painted))
    return f"{count} ({name})" if name else str(count)


def _colour(artist: Any) -> str:
    """The first colour of a line, area or bar; empty where it has none."""
    get = getattr(artist, "get_color", None) or getattr(artist, "get_facecolor", None)
    found = get() if get else "none"
    if not isinstance(found, str) and np.ndim(found) == 2:
        found = found[0] if len(found) else "none"
    return to_hex(found)


def _table(axis: Axes) -> Iterator[tuple[str, list[Point]]]:
    """The words of `charts.table`: a series is a row, x the column's head, y the cell."""
    cells: dict[int, dict[int, str]] = {}
    for text in axis.texts:
        kind, *place = (str(text.get_gid() or "") or " ").split(" ")
        if kind == CELL:
            row, column = map(int, place)
            cells.setdefault(row, {})[column] = text.get_text()
    if not cells:
        return
    heads = cells.pop(0)
    for row in sorted(cells):
        words = [cells[row][at].replace("\n", " ") for at in sorted(cells[row])]
        yield words[0], [(heads[at].replace("\n", " "), word, None, None) for at, word in enumerate(words) if at]
