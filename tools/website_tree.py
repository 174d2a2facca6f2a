"""The tree of Markdown sources from which the site is built."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
"""A Markdown link within the repository: text before it, target, anchor."""
PICTURE = re.compile(r"(?m)^!\[([^\]]*)\]\(([^)]+)\)$")
"""A picture in a paragraph of its own."""
BLOCK = re.compile(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)")
"""An indented block of code."""
FENCE = re.compile(r"(?ms)^```.*?^```$")
"""A fenced block of code, whose lines may be indented."""
LANGUAGES = {
    "shell": r"(sojourn|make|pip|cargo|git|sudo|tc|export|\.venv)\b",
    "toml": r"\[",
    "python": r"(def|import|from)\b",
}
"""The language of a block, by its beginning."""
MOVED = {
    "docs/README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
    "experiments": "papers/index.md",
    "kernel/README.md": "kernel.md",
    "scenarios": "scenarios/index.md",
}
PAPER = re.compile(r"experiments/(\d{3}-[^/]+)(?:/README\.md)?")
REPORTS = tuple(
    path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.glob("experiments/*/README.md"))
    if not PAPER.fullmatch(path.relative_to(ROOT).as_posix())
)
"""The lab reports: readmes of experiments that are no papers."""


def place(path: str) -> str:
    """Returns the place of a file or folder of the repository on the site."""
    if path in MOVED:
        return MOVED[path]
    if found := PAPER.fullmatch(path):
        return f"papers/{found[1]}.md"
    path = path.removeprefix("docs/")
    return f"{path}/index.md" if (ROOT / "docs" / path).is_dir() else path


def comes_by_itself(path: str) -> bool:
    """Whether a file or folder of the repository is a page of the site even if no page links to it."""
    document = path.startswith("docs/") and path.endswith(".md")
    return path in MOVED or path in REPORTS or document or bool(PAPER.fullmatch(path))


def picture_of(title: str, path: str, narrow: str = "") -> str:
    """Formats a picture with the width of the text, which links to its full size.

    Narrow screens show `narrow` instead; without it, the picture scrolls sideways there."""
    if not narrow:
        return f'<div class="wide picture">\n\n{_image(title, path)}\n\n</div>'
    return f"{_image(title, path, 'for-wide')}\n\n{_image(title, narrow, 'for-narrow')}"


def _image(title: str, path: str, kind: str = "") -> str:
    return f"```{{image}} {path}\n:alt: {title}\n:width: 100%\n" + (f":class: {kind}\n" if kind else "") + "```"


def narrow_name(path: Path) -> Path:
    """Returns the file of a picture for narrow screens."""
    return path.with_name(f"{path.stem}-narrow{path.suffix}")


def fenced(block: re.Match[str]) -> str:
    """Formats an indented block as a fence with its language for syntax colouring; commands are wrapped."""
    code = textwrap.dedent(block[1]).strip("\n")
    language = next((name for name, begin in LANGUAGES.items() if re.match(begin, code)), "text")
    return f"```{language}\n{code}\n```\n\n"


def toctree(pages: Sequence[str], *, hidden: bool = False) -> str:
    """Formats the entries of the navigation under a page."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return "```{toctree}\n" + options + "\n" + "\n".join(pages) + "\n```\n"


def plain(text: str) -> str:
    """Escapes text on one line for HTML."""
    return text.replace("<", "&lt;").replace("\n", " ")


def cell(text: str) -> str:
    """Escapes text for a cell of a table."""
    return plain(text).replace("|", "\\|")


class Tree:
    """A folder of Markdown with the layout of the site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        """Writes a page or another file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        """Appends text to a page."""
        path = self.folder / name
        path.write_text(f"{path.read_text(encoding='utf-8').rstrip()}\n\n{text}", encoding="utf-8")

    def copy(self, path: Path) -> None:
        """Adds a page of the repository."""
        name = path.relative_to(ROOT).as_posix()
        self.write(place(name), self.linked(path.read_text(encoding="utf-8"), name, place(name)))

    def linked(self, text: str, name: str, at: str) -> str:
        """Returns the text of the repository's file `name` with its links relative to the site's page `at`.

        Linked files that are no pages are added to the tree, such as pictures and downloads."""

        def link(found: re.Match[str]) -> str:
            target = os.path.normpath(PurePosixPath(name).parent / found[2])
            if not comes_by_itself(target):
                self.take(target)
            return f"{found[1]}{os.path.relpath(place(target), PurePosixPath(at).parent)}{found[3]}"

        def changed(part: str) -> str:
            return PICTURE.sub(lambda found: picture_of(*found.groups()), BLOCK.sub(fenced, LINK.sub(link, part)))

        fences = FENCE.findall(text)
        between = [changed(part) for part in FENCE.split(text)]
        return "".join(part + fence for part, fence in zip(between, [*fences, ""], strict=True))

    def take(self, name: str) -> None:
        """Adds a linked file of the repository, unless it is a folder, which is a page already."""
        there = self.folder / place(name)
        if there.exists() or not (ROOT / name).is_file():
            return
        there.parent.mkdir(parents=True, exist_ok=True)
        if there.suffix == ".md":
            there.touch()  # its pages may link back
            text = self.linked((ROOT / name).read_text(encoding="utf-8"), name, place(name))
            there.write_text(f"---\norphan: true\n---\n\n{text}", encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, there)
