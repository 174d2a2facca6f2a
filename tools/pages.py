"""Shared by the tools that write tables and numbers into pages."""

import re
from collections.abc import Mapping

NUMBER = re.compile(r"(<!--= ([^>]+?) -->)(.*?)(<!--/-->)", re.DOTALL)
"""A number in a sentence: the mark with its name, the text, and the end."""


def filled(page: str, begin: str, end: str, text: str) -> str:
    """Replaces the text between two marks of a page."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def numbered(page: str, numbers: Mapping[str, str]) -> str:
    """Replaces the numbers in a page's sentences by those of these names.

    Raises ValueError for a name that there is not, and for a line that begins with a mark: Markdown would take it for
    a block of HTML.
    """
    if line := re.search(r"^ *<!--[=/].*", page, re.MULTILINE):
        raise ValueError(f"a line begins with the mark of a number: {line[0][:60]}")
    if unknown := [name for _, name, _, _ in NUMBER.findall(page) if name not in numbers]:
        raise ValueError(f"no such number: {', '.join(unknown)}")
    return NUMBER.sub(lambda found: f"{found[1]}{numbers[found[2]]}{found[4]}", page)
