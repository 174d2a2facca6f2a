"""Refuses, in comments, docstrings, messages and Markdown, the words that tools/language.toml lists.

    tools/language.py [PATH…]

Checks the files and folders that `holds` names in that file, without those that `except` names, or the files and
folders that are given. Each fault is a line: file and line, the words, and how to write it instead. The exit code is 1
if there is any.

Prose is read in blocks: a comment, a string, a paragraph, a list item or a table cell. A pattern therefore also matches
words on two lines, and "the beginning of a sentence" includes the beginning of a block.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORDS = ROOT / "tools/language.toml"

Line = tuple[int, str]
"""A line number and the prose on that line."""

SENTENCE = r"(?:^|[.!?:;|]\s)[\s\"'“(\[*_]*"
"""The beginning of a sentence or of a block."""
GENERATED = r"<!--[^>]*written by [^>]*-->.*?<!-- end of [^>]*-->"
"""Text that a program writes into a page: its words are checked where they are defined."""
SKIPPED = {"target", "node_modules", "__pycache__", "wheel-data", "results"}
"""Folders that are never searched; folders whose names begin with a dot are not searched either."""


@dataclass(frozen=True)
class Pattern:
    """Words that are refused, and the advice that is printed with them."""

    name: str
    words: re.Pattern[str]
    advice: str
    folders: tuple[str, ...] | None
    refused: str
    instead: str
    allowed: tuple[str, ...]

    def applies(self, path: Path) -> bool:
        """Whether the pattern is for this file."""
        return self.folders is None or any(under(path, folder) for folder in self.folders)


@dataclass(frozen=True)
class Fault:
    """Refused words in a file."""

    path: Path
    line: int
    words: str
    pattern: Pattern

    def __str__(self) -> str:
        place = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f'{place}:{self.line}: "{self.words}" ({self.pattern.name}): write {self.pattern.advice}'


@dataclass(frozen=True)
class Rules:
    """The content of tools/language.toml."""

    holds: tuple[str, ...]
    excepted: tuple[str, ...]
    names: tuple[str, ...]
    patterns: tuple[Pattern, ...]

    def held(self) -> list[Path]:
        """The files that are checked when none is named."""
        places = [path for place in self.holds for path in [*ROOT.glob(place)] or [ROOT / place]]
        return [path for path in files(places) if not any(under(path, place) for place in self.excepted)]


def read_rules(path: Path = WORDS) -> Rules:
    """Reads the patterns and the files that they are for."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return Rules(
        tuple(found["holds"]),
        tuple(found["except"]),
        tuple(found["names"]),
        tuple(pattern(one) for one in found["pattern"]),
    )


def pattern(table: dict[str, Any]) -> Pattern:
    """One table [[pattern]]."""
    words = table["words"].replace(" ", r"\s+")
    compiled = re.compile(SENTENCE + f"({words})") if table.get("start") else re.compile(f"({words})", re.IGNORECASE)
    folders = tuple(table["in"]) if "in" in table else None
    allowed = tuple(table.get("allowed", ()))
    return Pattern(table["name"], compiled, table["advice"], folders, table["refused"], table["instead"], allowed)


def under(path: Path, place: str) -> bool:
    """Whether a file is that place, is in that folder, or matches that glob."""
    if not path.is_relative_to(ROOT):
        return False
    relative = path.relative_to(ROOT)
    return relative.is_relative_to(place) or any(one.match(place) for one in (relative, *relative.parents[:-1]))


def blocks_of_markdown(text: str) -> Iterator[list[Line]]:
    """Paragraphs, headings, list items and table cells; no code."""
    block: list[Line] = []
    fence, blank = "", True
    for unseen in (GENERATED, r"<!--.*?-->"):
        text = re.sub(unseen, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence or stripped.startswith(("```", "~~~")):
            fence = "" if fence and stripped.startswith(fence) else fence or stripped[:3]
            stripped = ""
        elif blank and line.startswith(("    ", "\t")):
            continue  # a block of code lasts until a line that is not indented
        blank = not stripped
        heads = stripped.startswith(("#", "|", ">")) or re.match(r"(?:[-*+]|\d+\.)\s", stripped)
        if block and (blank or heads):
            yield block
            block = []
        if stripped.startswith("|"):
            yield from ([(number, cell)] for cell in stripped.strip("|").split("|"))
        elif stripped:
            block.append((number, re.sub(r"^(?:#+|>|[-*+]|\d+\.)\s+", "", stripped)))
            if stripped.startswith("#"):
                yield block
                block = []
    yield block


C_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*) | (?P<block>/\*.*?\*/) | \br(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
    | "(?P<string>(?:\\.|[^"\\])*)" | '(?:\\[^\n]{1,9}|[^'\\\n])'""",
    re.S | re.X,
)


def blocks_of_c(text: str) -> Iterator[list[Line]]:
    """Comments and strings of Rust and C; comments on consecutive lines are one block."""
    comment: list[Line] = []
    end = 0
    for found in C_TOKEN.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        if found["line"] is not None:
            between = text[end : found.start()]
            if comment and (between.strip() or between.count("\n") > 1):
                yield from paragraphs(comment)
                comment = []
            comment.append((number, re.sub(r"^//[/!]?\s?", "", found["line"])))
            end = found.end()
        elif found["block"] is not None:
            lines = found["block"].strip("/*").splitlines()
            yield from paragraphs([(number + n, re.sub(r"^\s*\*\s?", "", line)) for n, line in enumerate(lines)])
        else:
            string = found["raw"] or found["string"] or ""
            yield [(number + n, line.strip(" \\")) for n, line in enumerate(string.split("\n"))]
    yield from paragraphs(comment)


def paragraphs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The paragraphs of a comment, which is Markdown."""
    if not lines:
        return
    first = lines[0][0]
    for block in blocks_of_markdown("\n".join(line for _, line in lines)):
        yield [(first + number - 1, line) for number, line in block]


def blocks_of_python(text: str) -> Iterator[list[Line]]:
    """Comments and strings; comments on consecutive lines are one block, as are adjoining strings."""
    block: list[Line] = []
    kind, last, nested = None, 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        number = token.start[0]
        if token.type == tokenize.COMMENT:
            lines = [token.string.lstrip("#: ")]
        elif token.type == tokenize.STRING:
            lines = string_text(token.string).split("\n")
        elif token.type == FSTRING_MIDDLE:
            lines = token.string.split("\n")
        else:
            nested += (token.type == FSTRING_START) - (token.type == FSTRING_END)
            kind = kind if nested or token.type in BETWEEN else None
            continue
        if kind != token.type or number > last + 1:
            yield from paragraphs(block)
            block = []
        block += [(number + n, line.strip() or "") for n, line in enumerate(lines)]
        kind, last = token.type, token.end[0]
    yield from paragraphs(block)


FSTRING_START, FSTRING_MIDDLE, FSTRING_END = (
    getattr(tokenize, f"FSTRING_{part}", -1) for part in ("START", "MIDDLE", "END")
)
"""Tokens of an f-string from Python 3.12 on; before, it is one string."""
BETWEEN = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
"""Tokens that do not separate a comment or a string from the next one."""


def string_text(literal: str) -> str:
    """The text of a string literal; values in an f-string are blanks."""
    found = re.fullmatch(r"(\w*)(\"{3}|'{3}|\"|')(.*)\2", literal, re.S)
    if found is None:
        return literal
    return re.sub(r"\{[^{}\n]*\}", "\0", found[3]) if "f" in found[1].lower() else found[3]


def blocks_of_toml(text: str) -> Iterator[list[Line]]:
    """Comments, where they begin a line, and strings."""
    block: list[Line] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            block.append((number, line.lstrip("# ")))
            continue
        yield from paragraphs(block)
        block = []
        yield from ([(number, words)] for words in re.findall(r'"((?:\\.|[^"\\])*)"', line))


READERS: dict[str, Callable[[str], Iterator[list[Line]]]] = {
    ".md": blocks_of_markdown,
    ".rs": blocks_of_c,
    ".c": blocks_of_c,
    ".h": blocks_of_c,
    ".py": blocks_of_python,
    ".pyi": blocks_of_python,
    ".toml": blocks_of_toml,
}


def prose(text: str, names: Iterable[str] = ()) -> str:
    """A block without names, inline code and addresses of links; every other character keeps its place."""
    for name in names:
        text = text.replace(name, "\0" * len(name))
    return re.sub(r"`[^`]*`|\]\([^)]*\)", lambda found: "`" + "\0" * (len(found[0]) - 2) + "`", text)


def shortened(text: str, least: int) -> str:
    """The first words of a text: at least `least` characters and about 40."""
    end = text.find(" ", max(least, 40))
    return " ".join((text if end < 0 else text[:end]).split())


def faults_of_text(path: Path, text: str, patterns: Iterable[Pattern], names: Sequence[str] = ()) -> list[Fault]:
    """All refused words of a text outside `names`, in the order of its lines. The file's suffix selects the reader."""
    asked = [one for one in patterns if one.applies(path)]
    faults = []
    for block in READERS[path.suffix](text):
        starts, joined = [], ""
        for _, line in block:
            starts.append(len(joined))
            joined += line + " "
        seen = prose(joined, names)
        for one in asked:
            for found in one.words.finditer(seen):
                number, _ = block[bisect_right(starts, found.start(1)) - 1]
                faults.append(Fault(path, number, shortened(joined[found.start(1) :], len(found[1])), one))
    return sorted(faults, key=lambda fault: fault.line)


def files(places: Iterable[Path]) -> list[Path]:
    """The files that can be read, of files and folders."""
    found: set[Path] = set()
    for place in places:
        if not place.exists():
            raise SystemExit(f"language: {place}: no such file or folder")
        found |= set(searched(place)) if place.is_dir() else {place}
    return sorted(path for path in found if path.suffix in READERS and path != WORDS)


def searched(folder: Path) -> Iterator[Path]:
    """All files of a folder, without those of folders that are never searched."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        yield from (Path(place, name) for name in names)


def main() -> int:
    """Prints each fault; 1 if there is any."""
    rules = read_rules()
    asked = files(Path(one).resolve() for one in sys.argv[1:]) if sys.argv[1:] else rules.held()
    faults = [
        fault
        for path in asked
        for fault in faults_of_text(path, path.read_text(encoding="utf-8"), rules.patterns, rules.names)
    ]
    for fault in faults:
        print(fault)
    if faults:
        print(f"{len(faults)} faults of language; tools/language.toml has the patterns", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
