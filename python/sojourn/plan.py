"""Reads scenario files. It imports little, so that a command that only reads a scenario starts at once."""

from __future__ import annotations

import site
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from sojourn import _core
from sojourn.errors import Refusal, nearest_of

WORLDS = ("sim", "kernel", "live")
SUFFIX = ".toml"
REPOSITORY = Path(__file__).resolve().parents[2]
"""The folder of the project, if this module is in it."""


def bundled() -> dict[str, Path]:
    """The scenario files that come with sojourn, by name: the repository's, or those that the wheel installed."""
    for place in (REPOSITORY, *_installed()):
        if found := sorted((place / "scenarios").glob(f"*{SUFFIX}")):
            return {path.stem: path for path in found}
    return {}


def _installed() -> list[Path]:
    """The folders in which the wheel may have put its files."""
    return [Path(base) / "share" / "sojourn" for base in (sysconfig.get_path("data"), site.getuserbase())]


def header() -> Path | None:
    """The folder of sojourn.h, for the compiler's -I: the repository's, or the one that the wheel installed."""
    places = [REPOSITORY / "crates" / "ffi" / "include", *(place / "include" for place in _installed())]
    return next((place for place in places if (place / "sojourn.h").is_file()), None)


def find(word: str | Path) -> Path:
    """Returns the scenario file of this path, or else the scenario of this name that comes with sojourn.

    A folder is returned too, unless its name is that of such a scenario; a caller that needs a file refuses it. Raises
    Refusal if nothing is found.
    """
    path, named = Path(word), bundled()
    refuse_other_than_utf8(str(word))
    if path.exists() and (str(word) not in named or not path.is_dir()):
        return path
    if str(word) in named:
        return named[str(word)]
    said = {name: name for name in named} | {file.stem: file.name for file in Path().glob(f"*{SUFFIX}")}
    nearest = nearest_of(path.name.removesuffix(SUFFIX), said, call=said.get)
    raise Refusal(
        f"{word}: no such file, and no scenario of this name{nearest} "
        "('sojourn list scenarios' shows those that come with sojourn, 'sojourn new' writes one of your own)"
    )


def load(
    path: str | Path,
    sets: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
    seeds: int | None = None,
    outside: Sequence[str] = (),
) -> _core.Plan:
    """Reads and checks a scenario file; `_core.Error` says what is wrong with it. `outside` are the names of
    disciplines of the user's.
    """
    for text in (str(path), *(part for pair in sets for part in pair)):
        refuse_other_than_utf8(text)
    if Path(path).is_dir():
        raise Refusal(f"{path}: this is a folder: expected a scenario file ({SUFFIX}), or the name of a scenario")
    return _core.Plan.load(str(path), list(sets), seed, seeds, outside=list(outside))


def refuse_other_than_utf8(text: str) -> None:
    """Refuses a text that is not UTF-8: records and reports are UTF-8, and contain the names of files and values."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _core.Error(f"{text.encode(errors='replace').decode()}: expected text in UTF-8") from error
