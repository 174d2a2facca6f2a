"""The look of pictures, and how they are written. A discipline has the same colour everywhere; text is measured before
it is placed.

matplotlib is imported only when one of its figures is written.
"""

from __future__ import annotations

import colorsys
import importlib.util
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sojourn import _core
from sojourn.arguments import one_of, takes
from sojourn.cases import Case
from sojourn.records import write_bytes
from sojourn.words import (
    csv_cell,
    disciplines_of,
    link_rate_text,
    number_text,
    rate_text,
    rows_as_csv,
    seeds_text,
)

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = {
    "pfifo": "#6e6e6e",
    "bfifo": "#8c8c8c",
    "pfifo_head_drop": "#a08060",
    "noqueue": "#b0b0b0",
    "red": "#d1495b",
    "blue": "#3d5a80",
    "sfq": "#c77d0a",
    "sfb": "#5b7db1",
    "choke": "#a23b5a",
    "prio": "#7d7f3a",
    "tbf": "#9a9a9a",
    "htb": "#7a7a86",
    "codel": "#1f6fb4",
    "fq_codel": "#13866f",
    "fq": "#b5548f",
    "pie": "#d98324",
    "fq_pie": "#a65e2e",
    "cake": "#7a5230",
    "dualpi2": "#4f772d",
    "ccaq": "#6a3fa0",
}
OTHER = "#333333"
INK, QUIET, GRID, PALE = "#1b1f24", "#667079", "#e3e6e9", "#edf0f2"
PAPER, SPINE = "#ffffff", "#c3c9ce"
HAIR, GRID_WIDTH, TICK = 0.8, 0.7, 3.0
"""Points: the width of spines and tick marks, that of the grid's lines, and a tick mark's length."""
X_LABEL, Y_LABEL, NAME = 9.0, 8.5, 10.0
"""Sizes of the labels of the x and the y axis, and of an axis's name."""
RATE_AREA, RATE_LINE = "#dde2e6", "#7b8792"
"""The colours of the area below a link's rate, and of the line along it."""
WIDTH, NARROW = 11.0, 4.4
"""Inches of a picture, and of its version for a phone."""
DPI = 150
"""Pixels per inch of a PNG."""
EDGE = 0.13
"""Inches that stay empty at each side."""
MOST_RATES = 13
"""The most steps of a link's rate that are labelled in a picture."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": NAME,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": SPINE,
    "axes.linewidth": HAIR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": GRID_WIDTH,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": X_LABEL,
    "ytick.labelsize": Y_LABEL,
    "xtick.major.size": TICK,
    "ytick.major.size": 0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "path.simplify": True,
    "svg.hashsalt": "sojourn",
}

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
METADATA: Mapping[str, dict[str, str | None]] = {
    "png": {"Software": "sojourn"},
    "svg": {"Creator": "sojourn", "Date": None},
    "pdf": {"Creator": "sojourn", "Producer": "matplotlib", "CreationDate": None},
}
"""Metadata of picture files, without anything that changes from day to day or from version to version."""


@dataclass(frozen=True)
class Data:
    """The numbers that a picture shows: heads with their units, and rows."""

    heads: list[str]
    rows: list[list[object]]

    def csv(self) -> str:
        """As CSV; a missing value is empty."""
        columns = [_texts(column) for column in zip(*self.rows, strict=True)]
        return rows_as_csv(self.heads, zip(*columns, strict=True), checked=True)


def _texts(column: Sequence[object]) -> list[str]:
    """The cells of a column, each safe in a spreadsheet."""
    if all(type(value) is float for value in column):  # tens of thousands, in a series
        return ["" if text == "nan" else text for text in map("%.10g".__mod__, column)]
    return [str(csv_cell(_cell(value))) for value in column]


def _cell(value: object) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{float(value):.10g}"
    return "" if value is None else str(value)


@runtime_checkable
class Drawing(Protocol):
    """A figure that writes itself without matplotlib, as `sheet.Sheet` does."""

    def encode(self, form: Format, dpi: int = ...) -> bytes:
        """The file."""


@dataclass(frozen=True)
class Picture:
    """A figure, the numbers in it, and the words that go with it."""

    name: str
    """The name of its files, without an extension."""
    title: str
    caption: str
    figure: Figure | Drawing
    data: Data
    narrow: Figure | Drawing | None = None
    """The figure for narrow screens, if there is one."""
    _files: dict[Format, bytes] = field(default_factory=dict, repr=False, compare=False)

    @takes(form=one_of("png", "svg", "pdf"))
    def encode(self, form: Format) -> bytes:
        """Returns the figure as a file of this format. It is drawn at the first call."""
        if form not in self._files:
            self._files[form] = encode(self.figure, form)
        return self._files[form]


def write(picture: Picture, folder: Path, form: Format) -> Path:
    """Writes a picture, and its numbers as CSV, into a folder. Files that would not change are not written.

    Returns the picture's file.
    """
    write_numbers(picture, folder)
    return write_image(picture, folder, form)


def write_numbers(picture: Picture, folder: Path) -> Path:
    """Writes a picture's numbers as CSV, as `write` does."""
    return _write(folder / f"{picture.name}.csv", picture.data.csv().encode())


def write_image(picture: Picture, folder: Path, form: Format) -> Path:
    """Writes a picture without its numbers, as `write` does."""
    return _write(folder / f"{picture.name}.{form}", picture.encode(form))


def _write(file: Path, data: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not (file.exists() and file.read_bytes() == data):
        write_bytes(file, data)
    return file


def encode(figure: Figure | Drawing, form: Format, dpi: int = DPI) -> bytes:
    """The figure as a file: the same bytes for the same picture."""
    if isinstance(figure, Drawing):
        return figure.encode(form, dpi)
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        _settle(figure, dpi)
        figure.savefig(buffer, format=form, dpi=dpi, metadata=METADATA[form])
    return buffer.getvalue()


def _settle(figure: Figure, dpi: int) -> None:
    """Fixes the layout of a figure. The last bits of the solver's results differ from run to run, and would otherwise
    change the names of clip paths in SVG.
    """
    if figure.get_layout_engine() is None:
        return
    figure.set_dpi(dpi)
    figure.draw_without_rendering()
    for axis in figure.axes:
        left, bottom, width, height = (round(edge, 9) for edge in axis.get_position(original=True).bounds)
        axis.set_position((left, bottom, width, height))
    figure.set_layout_engine("none")


def page_style() -> str:
    """The style sheet of pages with tables and pictures."""
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


# ---- colours ----


def kind_of(qdisc: str) -> str:
    """Returns the name of the discipline in a tc line that decides about packets. In a shaper, this is the child."""
    return next(iter(reversed(disciplines_of(qdisc))), "")


def colours(qdiscs: Sequence[str]) -> list[str]:
    """Returns a colour for each tc line: that of its discipline, in different shades if several lines have the same
    one.
    """
    kinds = [kind_of(qdisc) for qdisc in qdiscs]
    seen: dict[str, int] = {}
    result = []
    for kind in kinds:
        place, of = seen.get(kind, 0), kinds.count(kind)
        seen[kind] = place + 1
        result.append(shade(COLOURS.get(kind, OTHER), place / (of - 1) if of > 1 else 0.0))
    return result


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of `#rrggbb`, or of a name that matplotlib knows, each 0 to 255."""
    if not colour.startswith("#"):
        from matplotlib.colors import to_hex

        colour = to_hex(colour)
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = rgb(colour)
    return red / 255, green / 255, blue / 255


def _hex(parts: tuple[float, float, float]) -> str:
    return "#" + bytes(round(255 * part) for part in parts).hex()


def shade(colour: str, step: float) -> str:
    """Returns a shade of a colour, from the colour itself (0) to a light version of it (1)."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    return _hex(colorsys.hls_to_rgb(hue, lightness + (0.68 - lightness) * step, saturation))


def ink(colour: str) -> str:
    """A colour dark enough for words on white."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    dark = _hex(colorsys.hls_to_rgb(hue, min(lightness, 0.42), saturation))
    step = 0.42
    while colour not in COLOURS.values() and contrast(dark) < LEAST_CONTRAST:
        step -= 0.01
        dark = _hex(colorsys.hls_to_rgb(hue, step, saturation))
    return dark


LEAST_CONTRAST = 4.5
"""The least contrast ratio of text on white (WCAG 2, 1.4.3)."""


def contrast(colour: str) -> float:
    """The contrast ratio of a colour with white, as WCAG 2 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _parts(colour)]
    return 1.05 / (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)


# ---- text that fits ----


@cache
def fonts() -> _core.Fonts:
    """DejaVu Sans, which is part of matplotlib; only its files are read."""
    found = importlib.util.find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "mpl-data/fonts/ttf"
    return _core.Fonts((folder / "DejaVuSans.ttf").read_bytes(), (folder / "DejaVuSans-Bold.ttf").read_bytes())


@cache
def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that a text takes in a row, rounded up a little: renderers differ by a hint."""
    return 1.03 * fonts().width(text, bold) * size / 72


_UNIT = re.compile(r"(\d) ([nµm]?s|%|[kMG]?bit/s|[kMG]?B|BDP)(?![\w/])")
"""Matches a number with its unit. Both must stay on one line."""


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Returns a text in lines no wider than `width` inches. A word is broken only if it is wider than a line."""
    lines: list[str] = []
    line = ""
    for word in _UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text).split(" "):
        longer = f"{line} {word}" if line else word
        if text_width(longer, size, bold=bold) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while text_width(line, size, bold=bold) > width and len(line) > 1:
            fits = next(
                n for n in range(len(line) - 1, 0, -1) if n == 1 or text_width(line[:n], size, bold=bold) <= width
            )
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line] if line else lines


LEADING = 1.36
"""The height of a line of text, as a multiple of the font size."""


@dataclass(frozen=True)
class Line:
    """A line of a block of text, with a second column where there is a `value`."""

    text: str
    size: float = 8.5
    colour: str = QUIET
    bold: bool = False
    value: str = ""

    @property
    def height(self) -> float:
        """Inches."""
        return LEADING * self.size / 72


def lines(text: str, width: float, size: float, colour: str = QUIET, *, bold: bool = False) -> list[Line]:
    """A text as lines no wider than `width` inches."""
    return [Line(part, size, colour, bold) for part in wrapped(text, width, size, bold=bold)]


def block_height(block: Sequence[Line]) -> float:
    """Returns the height in inches that these lines take, one below the other."""
    return sum(line.height for line in block)


def apart(wanted: Sequence[float], heights: Sequence[float], room: float) -> list[float]:
    """Returns the upper edges of blocks without overlaps, each near its `wanted` centre.

    `wanted` is in order down the page. All blocks are between 0 and `room` if there is enough room.
    """
    tops: list[float] = []
    free = 0.0
    for middle, height in zip(wanted, heights, strict=True):
        tops.append(max(middle - height / 2, free))
        free = tops[-1] + height
    end = max(room, sum(heights))
    for place in range(len(tops) - 1, -1, -1):
        tops[place] = min(tops[place], end - heights[place])
        end = tops[place]
    return tops


def plain_log(
    axis: Axis, ticks: int, text: Callable[[float], str] = number_text, at: Sequence[float] = (1.0, 2.0, 5.0)
) -> None:
    """Labels a logarithmic axis at 1, 2 and 5 times powers of ten, or `at` others, at about `ticks` places, and without
    exponents.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=at, numticks=ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _place: text(value)))


def frame(figure: Figure, title: str, subtitle: str, footer: str) -> None:
    """Puts headline and footer around a figure in constrained layout, and its axes between them."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width, height = figure.get_size_inches()
    room = width - 2 * EDGE
    heads, below_heads = lines(title, room, 14, INK, bold=True), lines(subtitle, room, 9.5)
    foot = footer_block(footer, width)
    further = block_height(heads[1:])
    above = 0.78 + further + block_height(below_heads[1:])
    below = 0.16 + 0.13 * len(foot)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0.08 / width, below / height, 1 - 0.16 / width, 1 - (above + below) / height))
    for block, at in ((heads, 0.12), (below_heads, 0.42 + further)):
        for place, line in enumerate(block):
            y = 1 - (at + place * line.height) / height
            how: Any = {"fontsize": line.size, "fontweight": "bold" if line.bold else "normal", "color": line.colour}
            figure.text(0.012, y, line.text, ha="left", va="top", **how).set_in_layout(False)
    words = "\n".join(line.text for line in foot)
    last = figure.text(1 - 0.06 / width, 0.06 / height, words, ha="right", va="bottom", fontsize=7.5, color=QUIET)
    last.set_in_layout(False)


def headline_block(title: str, subtitle: str, width: float) -> list[Line]:
    """The lines at the top of a picture of this width."""
    room = width - 2 * EDGE
    return [*lines(title, room, 14, INK, bold=True), *lines(subtitle, room, 9.5)]


def footer_block(text: str, width: float) -> list[Line]:
    """The lines at the bottom of a picture of this width."""
    return lines(text, width - 2 * EDGE, 7.5)


def provenance(combinations: Sequence[Case]) -> str:
    """The scenario's title, and where the numbers come from."""
    title = " ".join(combinations[0].first.title.split())
    return f"{title}  ·  {origin(combinations)}"


def origin(combinations: Sequence[Case]) -> str:
    """Seeds, world and version."""
    first = combinations[0].first
    seeds = sorted({record.seed for combination in combinations for record in combination.runs})
    return f"{seeds_text(seeds)}  ·  world {first.world}  ·  sojourn {first.versions.get('sojourn', '?')}"


# ---- parts of pictures ----


def rate_scale(steps: Mapping[str, Sequence[float]]) -> tuple[float, float, bool]:
    """Limits of the axis of a link's rate (`mbit`, from each `time_s` on), and whether it is logarithmic."""
    top, low = max(steps["mbit"]), _least_shown(steps)
    if top == 0:
        # A trace that has no opportunity within the run.
        return 0.0, 1.0, False
    return (low / 3, top * 5, True) if top / low > 5 else (0.0, top * 1.6, False)


def _least_shown(steps: Mapping[str, Sequence[float]]) -> float:
    """Returns the lowest rate to show: the lowest that occurs, but at least a ten-thousandth of the highest, because an
    outage has no place on a logarithmic axis.
    """
    return max(min(steps["mbit"]), max(steps["mbit"]) / 1e4)


def rate_name(steps: Mapping[str, Sequence[float]], name: str = "link rate") -> list[str]:
    """The name of the axis of a link's rate in lines, with the highest rate where the steps are too many for labels."""
    many = len(steps["mbit"]) > MOST_RATES
    return [name, f"up to {rate_text(max(steps['mbit']))}"] if many else [name]


def rate_labels(
    steps: Mapping[str, Sequence[float]], end: float, inches: float, size: float = 8.5
) -> list[tuple[float, float, str]]:
    """Returns the labels of a link's rate steps until the time `end` in seconds. Each has a time, a rate in Mbit/s, and
    words.

    `inches` is the width of the axis. A step has no label if there is no room for one.
    """
    if len(steps["mbit"]) > MOST_RATES:
        return []
    made: list[tuple[float, float, str]] = []
    free, low = 0.0, _least_shown(steps)
    for begin, until, value in zip(steps["time_s"], [*steps["time_s"][1:], end], steps["mbit"], strict=True):
        text, middle = link_rate_text(float(value)), (begin + until) / 2
        half = text_width(text, size) / 2 / (inches / end)
        if middle - half >= free and middle + half <= end:
            free = middle + half
            made.append((middle, max(value, low), text))
    return made


def mean_distribution(found: Sequence[Mapping[str, Sequence[float]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the mean of several distributions (`ms`, and the `share` at or below): at each `ms`, the mean of their
    shares.
    """
    grid = np.unique(np.concatenate([np.asarray(one["ms"]) for one in found]))
    shares = [_step_at(np.asarray(one["ms"]), np.asarray(one["share"]), grid) for one in found]
    return grid, np.mean(shares, axis=0)


def _step_at(values: NDArray[Any], shares: NDArray[Any], grid: NDArray[Any]) -> NDArray[Any]:
    place = np.searchsorted(values, grid, side="right")
    return np.concatenate([[0.0], shares])[place]
