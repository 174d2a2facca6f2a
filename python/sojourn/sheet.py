"""A picture measured in inches: words, lines and areas.

A sheet knows the place of each of its marks. `_core` draws them into pixels and releases the GIL meanwhile. For SVG and
PDF, matplotlib draws the same marks; it is imported only then, since the import takes as long as a short run with its
report.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn import _core, plot
from sojourn.plot import (
    DPI,
    EDGE,
    GRID,
    INK,
    METADATA,
    QUIET,
    STYLE,
    WIDTH,
    Format,
    Line,
    block_height,
    fonts,
    footer_block,
    headline_block,
    rgb,
)

if TYPE_CHECKING:
    from matplotlib.backend_bases import GraphicsContextBase, RendererBase
    from matplotlib.figure import Figure

Points = NDArray[np.float64]
"""Places in inches from the sheet's lower left corner, one per row."""
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in inches from the sheet's lower left corner."""
POINT = 1 / 72
"""Inches."""
PAD = 3.5 * POINT
"""Inches between a tick mark and its label."""

AREAS, LINES, WORDS = 1, 2, 3
"""The order of drawing within axes."""


# ---- marks ----


@dataclass(frozen=True)
class Shape:
    """A line or an area."""

    points: Points
    edge: str | None = None
    """Colour of the outline; None for no outline."""
    face: str | None = None
    """Colour of the area; None for no area."""
    width: float = 1.0
    """Width of the outline, in points."""
    alpha: float = 1.0
    dashes: tuple[float, ...] = ()
    """Lengths of dashes and gaps in turn, in units of the line's width. Empty for a solid line."""
    clip: Box | None = None

    @property
    def _projects(self) -> bool:
        """Whether a line is drawn longer at both ends, by half its width."""
        return self.face is None and not self.dashes

    def parts(self, dpi: int, tall: int) -> _core.Shape:
        """The mark in pixels, as `_core.Fonts.png` takes it; the picture is `tall` pixels tall."""
        width = self.width * dpi * POINT
        clip = None
        if self.clip:
            left, bottom, right, top = (edge * dpi for edge in self.clip)
            clip = (left, tall - top, right, tall - bottom)
        return {
            "points": np.column_stack([self.points[:, 0] * dpi, tall - self.points[:, 1] * dpi]),
            "closed": self.face is not None,
            "face": rgb(self.face) if self.face else None,
            "edge": rgb(self.edge) if self.edge else None,
            "width": width,
            "dashes": [part * width for part in self.dashes],
            "projecting": self._projects,
            "alpha": self.alpha,
            "clip": clip,
        }

    def draw(self, renderer: RendererBase, scale: float, _height: float) -> None:
        """Draws the mark with one of matplotlib's renderers, `scale` units an inch."""
        from matplotlib.colors import to_rgb
        from matplotlib.path import Path
        from matplotlib.transforms import IdentityTransform

        context = self._context(renderer, scale)
        points = self.points * scale
        path = Path(np.concatenate([points, points[:1]]), closed=True) if self.face else Path(points)
        renderer.draw_path(context, path, IdentityTransform(), to_rgb(self.face) if self.face else None)
        context.restore()

    def _context(self, renderer: RendererBase, scale: float) -> GraphicsContextBase:
        from matplotlib.transforms import Bbox

        context = renderer.new_gc()
        context.set_foreground(self.edge or "none")
        context.set_linewidth(self.width if self.edge else 0.0)
        context.set_alpha(self.alpha)
        context.set_joinstyle("round")
        context.set_capstyle("projecting" if self._projects else "butt")
        if self.dashes:
            context.set_dashes(0, [part * self.width for part in self.dashes])
        if self.clip:
            left, bottom, right, top = (edge * scale for edge in self.clip)
            context.set_clip_rectangle(Bbox.from_extents(left, bottom, right, top))
        return context


Rise = Literal["top", "center", "bottom", "baseline", "tick"]
"""The part of a text whose height is that of the text's place. `tick` is the middle of its letters."""


@dataclass(frozen=True)
class Words:
    """A line of text at a place of a sheet, in inches from the lower left corner."""

    text: str
    x: float
    y: float
    size: float
    colour: str = INK
    bold: bool = False
    align: Literal["left", "center", "right"] = "left"
    rise: Rise = "top"
    upright: bool = False
    """Whether the text is turned by 90°, so that it reads from bottom to top."""

    @property
    def wide(self) -> float:
        """The length of the text in inches."""
        return fonts().width(self.text, self.bold) * self.size * POINT

    @property
    def base(self) -> tuple[float, float]:
        """The place at which the text's base line begins."""
        rise, descent = (part * self.size * POINT for part in fonts().row(self.bold))
        up = {
            "top": -rise,
            "center": (descent - rise) / 2,
            "bottom": descent,
            "baseline": 0.0,
            "tick": -rise / 2,
        }[self.rise]
        along = {"left": 0.0, "center": -0.5, "right": -1.0}[self.align]
        along = along and along * self.wide
        return (self.x - up, self.y + along) if self.upright else (self.x + along, self.y + up)

    def parts(self, dpi: int, tall: int) -> _core.Words:
        """The mark in pixels, as `_core.Fonts.png` takes it; the picture is `tall` pixels tall."""
        x, y = self.base
        return {
            "text": self.text,
            "at": (x * dpi, tall - y * dpi),
            "size": self.size * dpi * POINT,
            "bold": self.bold,
            "upright": self.upright,
            "colour": rgb(self.colour),
        }

    def draw(self, renderer: RendererBase, scale: float, height: float) -> None:
        """Draws the mark with one of matplotlib's renderers, `scale` units an inch."""
        from matplotlib.font_manager import FontProperties

        x, y = self.base
        context = renderer.new_gc()
        context.set_foreground(self.colour)
        font = FontProperties(family="DejaVu Sans", size=self.size, weight="bold" if self.bold else "normal")
        y = height - y if renderer.flipy() else y
        renderer.draw_text(context, x * scale, y * scale, self.text, font, 90.0 if self.upright else 0.0)
        context.restore()


# ---- axes ----


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`; `low` may be the larger one."""

    low: float
    high: float
    log: bool = False

    def at(self, values: ArrayLike) -> NDArray[np.float64]:
        """Returns the places of values on the axis: 0 at its low end, 1 at its high end."""
        found: NDArray[np.float64] = np.asarray(values, float)
        low, high = self.low, self.high
        if self.log:
            found, low, high = np.log(np.maximum(found, 1e-300)), math.log(low), math.log(high)
        share: NDArray[np.float64] = (found - low) / (high - low)
        return share

    def decades(self) -> list[float]:
        """Returns the powers of ten on the axis."""
        low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        return [10.0**power for power in range(low, high + 1) if self.low * 0.99 <= 10.0**power <= self.high]

    def even(self, most: int) -> list[float]:
        """Returns round numbers at equal distances, with at most `most` steps between them."""
        low, high = sorted((self.low, self.high))
        least = (high - low) / most * (1 - 1e-9)
        power = 10.0 ** math.floor(math.log10(least))
        step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= least)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def plain_numbers(values: Sequence[float]) -> Callable[[float], str]:
    """Writes the numbers of an axis, all with as many digits as the longest of them needs."""
    digits = next((some for some in range(9) if all(abs(round(one, some) - one) < 1e-9 for one in values)), 9)
    return lambda value: f"{value:.{digits}f}"


def steps(x: ArrayLike, *heights: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    """Returns the corners of step lines, x first. Each height holds from its x to the next x."""
    return np.repeat(np.asarray(x, float), 2)[1:], *(np.repeat(np.asarray(one, float), 2)[:-1] for one in heights)


def _pieces(there: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Returns the indices of the values that exist, in pieces without gaps."""
    places = np.flatnonzero(there)
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []


_TURN = np.linspace(0.0, 2 * np.pi, 48, endpoint=False)
_CIRCLE = np.column_stack([np.cos(_TURN), np.sin(_TURN)])


@dataclass
class Axes:
    """A place of a sheet with a scale in each direction. Limits and ticks may be set after something is drawn."""

    box: Box
    x: Scale = field(default_factory=lambda: Scale(0.0, 1.0))
    y: Scale = field(default_factory=lambda: Scale(0.0, 1.0))
    x_ticks: Sequence[float] = ()
    y_ticks: Sequence[float] = ()
    x_text: Callable[[float], str] | None = None
    """Returns a tick's label. None: ticks have no labels."""
    y_text: Callable[[float], str] | None = None
    x_name: Sequence[str] = ()
    """Lines of words below the axes."""
    name_size: float = plot.NAME
    y_name: str = ""
    title: str = ""
    """Words above the axes, from their left edge on."""
    spines: str = "lb"
    """The edges that have a line; `lb` is left and bottom."""
    _made: list[tuple[int, Callable[[], Sequence[Shape | Words]]]] = field(default_factory=list)

    @property
    def size(self) -> tuple[float, float]:
        """The width and height in inches."""
        left, bottom, right, top = self.box
        return right - left, top - bottom

    def places(self, x: ArrayLike, y: ArrayLike) -> Points:
        """Returns points of the data as places on the sheet."""
        (wide, tall), (left, bottom, _, _) = self.size, self.box
        return np.column_stack([left + wide * self.x.at(x), bottom + tall * self.y.at(y)])

    def line(self, x: ArrayLike, y: ArrayLike, colour: str, width: float) -> None:
        """Draws a line from point to point, with a gap where a value is missing."""

        def make() -> list[Shape]:
            points = self.places(x, y)
            pieces = (points[part] for part in _pieces(np.isfinite(points.sum(axis=1))))
            return [Shape(one, edge=colour, width=width, clip=self.box) for one in pieces]

        self._add(LINES, make)

    def upright(self, x: float, colour: str, width: float, dashes: tuple[float, ...] = ()) -> None:
        """Draws a vertical line through the whole height."""
        self._add(LINES, lambda: [self._upright(x, colour, width, dashes)])

    def level(self, y: float, colour: str, width: float) -> None:
        """Draws a horizontal line through the whole width."""
        self._add(LINES, lambda: [self._level(y, colour, width)])

    def area(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, *, alpha: float = 1.0) -> None:
        """Draws the area between two lines, with a gap where a value is missing."""

        def make() -> list[Shape]:
            at, below, above = (np.asarray(one, float) for one in np.broadcast_arrays(x, low, high))
            made = []
            for part in _pieces(np.isfinite(at + below + above)):
                corners = [self.places(at[part], below[part]), self.places(at[part], above[part])[::-1]]
                made.append(Shape(np.concatenate(corners), face=colour, alpha=alpha, clip=self.box))
            return made

        self._add(AREAS, make)

    def bar(self, y: float, length: float, height: float, colour: str, *, alpha: float = 1.0) -> None:
        """Draws a bar from zero to the right. `y` is the middle of its height."""
        low, high = y - height / 2, y + height / 2
        x, edges = [0, length, length, 0], [low, low, high, high]
        self._add(AREAS, lambda: [Shape(self.places(x, edges), face=colour, alpha=alpha)])

    def dots(
        self, x: Sequence[float], y: Sequence[float], colour: str, size: float, *, hollow: bool = False, **how: Any
    ) -> None:
        """Draws a dot at each point, with a diameter of `size` points. `how` has arguments of `Shape`."""

        def make() -> list[Shape]:
            return [
                Shape(
                    _CIRCLE * (size / 2 * POINT) + place,
                    edge=colour,
                    face=plot.PAPER if hollow else colour,
                    **how,
                )
                for place in self.places(x, y)
            ]

        self._add(LINES, make)

    def interval(
        self, start: tuple[float, float], end: tuple[float, float], colour: str, width: float, cap: float
    ) -> None:
        """Draws a line between two points. Each end has a bar that extends `cap` points to both sides."""

        def make() -> list[Shape]:
            ends = self.places(*zip(start, end, strict=True))
            along = ends[1] - ends[0]
            upright = abs(along[1]) >= abs(along[0])
            side = np.array([cap * POINT, 0.0] if upright else [0.0, cap * POINT])
            caps = [Shape(np.array([one - side, one + side]), edge=colour, width=1.0) for one in ends]
            return [Shape(ends, edge=colour, width=width, clip=self.box), *caps]

        self._add(LINES, make)

    def words(
        self, text: str, x: float, y: float, size: float, *, right: float = 0.0, up: float = 0.0, **how: Any
    ) -> None:
        """Writes words at a point of the data, moved by `right` and `up` inches. `how` has arguments of `Words`."""

        def make() -> list[Words]:
            ((at, above),) = self.places([x], [y])
            return [Words(text, float(at) + right, float(above) + up, size, **how)]

        self._add(WORDS, make)

    def words_beside(self, text: str, size: float, colour: str, *, up: float = 0.0) -> None:
        """Writes words to the right of the axes, `up` inches above the middle of their height."""
        left, bottom, right, top = self.box
        at, middle = right + 0.012 * (right - left), (bottom + top) / 2 + up
        self._add(WORDS, lambda: [Words(text, at, middle, size, colour, rise="center")])

    def marks(self) -> list[Shape | Words]:
        """All marks in the order of drawing."""
        grid = [self._upright(value, GRID, plot.GRID_WIDTH) for value in self.x_ticks]
        grid += [self._level(value, GRID, plot.GRID_WIDTH) for value in self.y_ticks]
        drawn = [mark for _, make in sorted(self._made, key=lambda one: one[0]) for mark in make()]
        return [*grid, *drawn, *self._frame(), *self._labels()]

    def _add(self, order: int, make: Callable[[], Sequence[Shape | Words]]) -> None:
        self._made.append((order, make))

    def _upright(self, x: float, colour: str, width: float, dashes: tuple[float, ...] = ()) -> Shape:
        _, bottom, _, top = self.box
        ends = self.places([x, x], [self.y.low] * 2)
        ends[:, 1] = bottom, top
        return Shape(ends, edge=colour, width=width, dashes=dashes, clip=self.box)

    def _level(self, y: float, colour: str, width: float) -> Shape:
        left, _, right, _ = self.box
        ends = self.places([self.x.low] * 2, [y, y])
        ends[:, 0] = left, right
        return Shape(ends, edge=colour, width=width, clip=self.box)

    def _frame(self) -> list[Shape]:
        """Returns the spines, and the tick marks below the axes."""
        left, bottom, right, top = self.box
        lines = [[(x, bottom), (x, bottom - plot.TICK * POINT)] for x in self._across()] if self.x_text else []
        made = [Shape(np.array(line), edge=QUIET, width=plot.HAIR) for line in lines]
        edges = {"l": [(left, bottom), (left, top)], "b": [(left, bottom), (right, bottom)]}
        return [*made, *(Shape(np.array(edges[one]), edge=plot.SPINE, width=plot.HAIR) for one in self.spines)]

    def _across(self) -> list[float]:
        left, wide = self.box[0], self.size[0]
        return [left + wide * float(place) for place in self.x.at(self.x_ticks)]

    def _labels(self) -> list[Words]:
        left, bottom, right, top = self.box
        made = []
        under = bottom - plot.TICK * POINT - PAD
        if self.x_text:
            for value, x in zip(self.x_ticks, self._across(), strict=True):
                made.append(Words(self.x_text(value), x, under, plot.X_LABEL, QUIET, align="center"))
        under -= _tall(plot.X_LABEL) + 4 * POINT
        for line in self.x_name:
            made.append(Words(line, (left + right) / 2, under, self.name_size, QUIET, align="center"))
            under -= 1.2 * _tall(self.name_size)
        if self.title:
            made.append(Words(self.title, left, top + 6 * POINT, 9.5, rise="baseline"))
        texts = [self.y_text(value) for value in self.y_ticks] if self.y_text else []
        heights = self.places(np.full(len(texts), self.x.low), self.y_ticks[: len(texts)])[:, 1].tolist()
        how: Any = {"align": "right", "rise": "tick"}
        made += [Words(text, left - PAD, y, plot.Y_LABEL, QUIET, **how) for text, y in zip(texts, heights, strict=True)]
        if self.y_name:
            beside = left - PAD - max(Words(text, 0, 0, plot.Y_LABEL).wide for text in texts) - 4 * POINT
            how = {"align": "center", "rise": "bottom", "upright": True}
            made.append(Words(self.y_name, beside, (bottom + top) / 2, plot.NAME, QUIET, **how))
        return made


def _tall(size: float) -> float:
    """The height of a row of text in inches."""
    return sum(fonts().row(False)) * size * POINT


# ---- sheets ----


@dataclass
class Sheet:
    """A figure measured in inches from its upper left corner: headline above, provenance below, the body between."""

    title: str
    subtitle: str
    footer: str
    body: float
    """Inches of height between headline and footer."""
    width: float = WIDTH
    top: float = field(init=False)
    """Inches above the body."""
    height: float = field(init=False)
    texts: list[Words] = field(init=False, default_factory=list)
    panels: list[Axes] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        head, foot = headline_block(self.title, self.subtitle, self.width), footer_block(self.footer, self.width)
        self.top = EDGE + block_height(head) + 0.12
        self.height = self.top + self.body + block_height(foot) + 0.14
        self.write(head, EDGE, EDGE)
        self.write(foot, self.width - 0.06, self.height - block_height(foot) - 0.04, align="right")

    def axes(self, left: float, above: float, width: float, height: float) -> Axes:
        """Axes at a place of the body."""
        bottom = self.height - self.top - above - height
        made = Axes((left, bottom, left + width, bottom + height))
        self.panels.append(made)
        return made

    def write(
        self,
        block: Sequence[Line],
        left: float,
        above: float,
        *,
        column: float = 0.95,
        align: Literal["left", "right"] = "left",
    ) -> None:
        """Writes lines one below the other, from a place of the whole figure on. Values are `column` inches further to
        the right.
        """
        for line in block:
            y = self.height - above
            self.texts.append(Words(line.text, left, y, line.size, line.colour, line.bold, align))
            if line.value:
                self.texts.append(Words(line.value, left + column, y, line.size, INK, line.bold, align))
            above += line.height

    def write_in_body(self, block: Sequence[Line], left: float, above: float, *, column: float = 0.95) -> None:
        """Like `write`, but the place is relative to the body's upper edge."""
        self.write(block, left, self.top + above, column=column)

    def marks(self) -> list[Shape | Words]:
        """All marks in the order of drawing."""
        found = [*(mark for panel in self.panels for mark in panel.marks()), *self.texts]
        return [mark for mark in found if not isinstance(mark, Words) or mark.text.strip()]

    def encode(self, form: Format, dpi: int = DPI) -> bytes:
        """The figure as a file: the same bytes for the same sheet."""
        if form == "png":
            wide, tall = int(self.width * dpi), int(self.height * dpi)
            return fonts().png(wide, tall, dpi, [mark.parts(dpi, tall) for mark in self.marks()])
        import matplotlib as mpl

        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.as_figure().savefig(buffer, format=form, metadata=METADATA[form])
        return buffer.getvalue()

    def as_figure(self) -> Figure:
        """A figure of matplotlib's that shows the sheet, for formats other than PNG."""
        from matplotlib.artist import Artist
        from matplotlib.figure import Figure

        sheet = self

        class Drawn(Artist):
            def draw(self, renderer: RendererBase) -> None:
                scale = float(np.asarray(renderer.points_to_pixels(72)))
                for mark in sheet.marks():
                    mark.draw(renderer, scale, sheet.height)

        made = Figure(figsize=(self.width, self.height), facecolor=plot.PAPER)
        made.add_artist(Drawn())
        return made
