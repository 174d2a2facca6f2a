"""The figures and tables of papers, drawn from the runs in a store.

An experiment's `figures.py` has `FIGURES`, a sequence of drawings. Each names the runs that it needs by their names in
claims.toml, and draws them into a figure; its headline, and a footer that says where the numbers come from, are set
here. The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from sojourn import _core, claims, drawn, plot
from sojourn.claims import Experiment, Found, Need, Runs, refused_in
from sojourn.errors import Refusal

FIGURES, FOLDER = "figures.py", "figures"
SIZE = (plot.WIDTH, 5.5)
"""Inches, unless a drawing says otherwise: `figure.set_size_inches(11, 8)`."""


@dataclass(frozen=True)
class Drawing:
    """A figure or table of a paper, or one that belongs to its claims."""

    name: str
    """The name of its files, without an extension."""
    title: str
    """A line that says what it shows."""
    paper: str
    """The part of the paper that it reproduces: `figure 7`, or the words that it illustrates."""
    claims: tuple[str, ...]
    """The claims that can be seen in it."""
    runs: tuple[str, ...]
    """The runs that it needs: names in `[runs]` of claims.toml."""
    draw: Callable[[Mapping[str, Runs], Figure], None]
    """Draws those runs; axes made with `figure.subplots(…)` leave room for headline and footer."""


@dataclass(frozen=True)
class Book:
    """An experiment, and those of its drawings that are asked for."""

    experiment: Experiment
    drawings: tuple[Drawing, ...]

    @property
    def needs(self) -> set[str]:
        """The names of all their runs."""
        return {name for drawing in self.drawings for name in drawing.runs}


def select(words: Sequence[str], root: Path) -> list[Book]:
    """The figures that are named by paper (`001`, `001-codel`, a path) or one by one (`figure-7`, `001/figure-7`).

    Without words, all figures.
    """
    there = sorted(path.parent for path in root.glob(f"*/{claims.CLAIMS}"))
    ready = [folder for folder in there if _lacks(folder) is None]
    wanted = [(word, *_paper_and_figure(word, there)) for word in words]
    if not ready and not any(folder for _, folder, _ in wanted):
        raise Refusal(claims.no_papers(root, "figures"))
    for _, folder, _ in wanted:
        if folder and (lacking := _lacks(folder)):
            raise Refusal(f"{folder.name}: no figures: expected {folder / lacking}")
    anywhere = not words or any(folder is None for _, folder, _ in wanted)
    folders = dict.fromkeys((*(ready if anywhere else ()), *(folder for _, folder, _ in wanted if folder)))
    books = [load(folder) for folder in folders]
    chosen: dict[Path, list[Drawing]] = {folder: [] for folder in folders}
    for word, folder, name in wanted:
        of = [book for book in books if folder in (None, book.experiment.folder)]
        found = [(book, one) for book in of for one in book.drawings if name in (None, one.name)]
        if not found:
            known = [one.name for book in of for one in book.drawings]
            raise Refusal(claims.no_such(word, "figure", ready, known))
        for book, one in found:
            chosen[book.experiment.folder].append(one)
    made = [
        Book(book.experiment, tuple(one for one in book.drawings if not words or one in chosen[book.experiment.folder]))
        for book in books
    ]
    if not any(book.drawings for book in made):
        raise Refusal(claims.no_papers(root, "figures"))
    return [book for book in made if book.drawings]


def _paper_and_figure(word: str, there: Sequence[Path]) -> tuple[Path | None, str | None]:
    """The paper or the figure that a word names; the other one is None."""
    if folder := claims.folder_of(word, there):
        return folder, None
    paper, _, name = word.rpartition("/")
    folder = claims.folder_of(paper, there) if paper else None
    return (folder, name) if folder else (None, word)


def _lacks(folder: Path) -> str | None:
    """Returns the first missing file that an experiment's figures need, or None if no file is missing."""
    return next((file for file in (claims.QUANTITIES, FIGURES) if not (folder / file).exists()), None)


def load(folder: Path) -> Book:
    """Reads and checks an experiment's drawings."""
    path = folder / FIGURES
    experiment = claims.load(folder)
    drawings = getattr(claims.module(path), "FIGURES", None)
    if not isinstance(drawings, Iterable):
        raise Refusal(f"{path}: expected FIGURES, a sequence of Drawing")
    known = {claim.id for claim in experiment.claims}
    names: set[str] = set()
    made = tuple(drawings)
    for one in made:
        if not isinstance(one, Drawing):
            raise Refusal(f"{path}: FIGURES has {one!r}: expected a Drawing")
        if one.name in names:
            raise Refusal(f"{path}: {one.name}: there are two of this name")
        names.add(one.name)
        _refuse_unknown(path, one.name, "runs", one.runs, experiment.needs)
        _refuse_unknown(path, one.name, "claims", one.claims, known)
    return Book(experiment, made)


def _refuse_unknown(path: Path, name: str, what: str, given: Sequence[str], known: Collection[str]) -> None:
    for one in given:
        if one not in known:
            raise Refusal(f"{path}: {name}.{what} = {one}: expected one of {', '.join(known)}")


def refusal(drawing: Drawing, found: Found) -> str | None:
    """Returns the reason why a drawing does not exist for a world: the world cannot play its runs, or claims.toml needs
    them in another world only.
    """
    for name in drawing.runs:
        if name in found.refused:
            return found.refused[name]
        if name not in found.runs and name not in found.lacking:
            return f"runs.{name} is asked of another world"
    return None


def lacking(experiment: Experiment, drawing: Drawing, found: Found, world: str) -> str | None:
    """If no run may be played, returns a message about the drawing's runs that the store lacks. Returns None if it has
    all of them.
    """
    name = next((name for name in drawing.runs if name in found.lacking), None)
    return claims.lacking(experiment, name, found, world) if name else None


def picture(experiment: Experiment, drawing: Drawing, found: Mapping[str, Runs], world: str) -> plot.Picture:
    """A drawing with headline and footer, and the numbers in it."""
    runs = {name: found[name] for name in drawing.runs}
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        with refused_in(f"{experiment.folder / FIGURES}: {drawing.name}"):
            drawing.draw(runs, figure)
        data = drawn.data_of(figure)
        subtitle = drawing.paper + (f"  ·  {', '.join(drawing.claims)}" if drawing.claims else "")
        plot.frame(figure, drawing.title, subtitle, provenance(experiment, runs, world))
    name = drawing.name if world == "sim" else f"{drawing.name}.{world}"
    return plot.Picture(name, drawing.title, drawing.paper, figure, data)


def provenance(experiment: Experiment, runs: Mapping[str, Runs], world: str) -> str:
    """Where the numbers come from: scenario files with their seeds, the world, the version."""
    seeds: dict[str, set[int]] = {}
    for name, found in runs.items():
        seeds.setdefault(_file(experiment, experiment.needs[name][world]), set()).update(found.seeds)
    files = "  ·  ".join(f"{file} ({_seeds(numbers)})" for file, numbers in seeds.items())
    return f"{files}  ·  world {world}  ·  sojourn {_core.__version__}"


def _file(experiment: Experiment, need: Need) -> str:
    """A scenario's path relative to the folder of experiments/, so that it does not depend on the checkout's place."""
    root = experiment.folder.resolve().parent.parent
    path = need.file.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _seeds(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"seed {low}" if low == high else f"seeds {low}–{high}"


def write(book: Book, made: plot.Picture, out: Path | None, form: plot.Format = "png") -> Path:
    """Writes a picture into its experiment's folder of figures, or into a folder of the paper's name in `out`."""
    folder = out / book.experiment.name if out else book.experiment.folder / FOLDER
    return plot.write(made, folder, form)
