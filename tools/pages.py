"""What the tools that write tables into pages share."""

from collections.abc import Iterable
from typing import Protocol


class Claim(Protocol):
    """A claim, judged."""

    @property
    def id(self) -> str: ...
    @property
    def paper(self) -> str: ...
    @property
    def measured(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def cause(self) -> str: ...


def claims_table(claims: Iterable[Claim]) -> str:
    """The claims in Markdown."""
    rows = [f"| {c.id} | {c.paper} | {c.measured} | {c.rule} | **{c.verdict}** | {c.cause} |" for c in claims]
    return "\n".join(["| | the paper | measured | holds if | verdict | cause |", "|---|---|---|---|---|---|", *rows])


def filled(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between its two marks."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
