"""A dashboard of a link that is up: its queues and flows, and a line by which the link is changed."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sojourn.errors import Refusal, nearest_of
from sojourn.line import rate_text
from sojourn.link import Link

PERIOD_S = 0.5
"""Seconds between two looks at the link."""
MOST_FLOWS = 12
"""Flows that are shown: those with the most bytes since the last look."""
VERBS = ("rate", "delay", "qdisc")
HELP = "rate 5mbit · delay 20ms · qdisc codel target 15ms · QUEUE before it for another queue · q ends"


def watch(link: Link) -> None:
    """Shows a link in the terminal until `q` or Ctrl-C."""
    board = Board(link.names)
    with keys() as read, Live(refresh_per_second=4, screen=True) as screen:
        while True:
            screen.update(board.picture(link.stats()))
            for key in read(PERIOD_S):
                if key in ("\x03", "\x04") or (key == "q" and not board.line):
                    return
                board.press(key, link)


@contextmanager
def keys() -> Iterator[Any]:
    """Gives a function that waits for keys, at most for the given seconds, and returns those that were pressed."""
    before = termios.tcgetattr(sys.stdin)

    def read(patience_s: float) -> str:
        if not select.select([sys.stdin], [], [], patience_s)[0]:
            return ""
        # A terminal that is gone reads as the end of the input.
        return os.read(sys.stdin.fileno(), 1024).decode(errors="replace") or "\x04"

    try:
        tty.setcbreak(sys.stdin)
        yield read
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class Board:
    """The state of the dashboard."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.line = ""
        """The line that is being typed."""
        self.said = HELP
        self._before: dict[tuple[int, str], Mapping[str, Any]] = {}
        self._at_s = 0.0

    def press(self, key: str, link: Link) -> None:
        """Handles a key: Enter makes the change that was typed."""
        if key in ("\x7f", "\b"):
            self.line = self.line[:-1]
        elif key not in ("\r", "\n"):
            self.line += key
        elif self.line.strip():
            try:
                queue, change = parse(self.line, self.names)
                link.set(queue, **change)
            except Refusal as error:
                self.said = str(error)
            else:
                self.said = f"done: {self.line}"
            self.line = ""

    def picture(self, stats: Mapping[str, Any]) -> Group:
        """Draws the state of a link. Rates are those since the last picture."""
        span_s = max(stats["at_s"] - self._at_s, 1e-9)
        queues, flows = self._queues(stats, span_s), self._flows(stats, span_s)
        self._at_s = stats["at_s"]
        footer = Text(self.said, style="dim")
        return Group(queues, flows, footer, Text(f"> {self.line}▏"))

    def _queues(self, stats: Mapping[str, Any], span_s: float) -> Table:
        heads = ("queue", "rate", "busy %", "queued", "p50 ms", "p99 ms", "drops")
        found = table(heads, first=18)
        for name, link in zip(self.names, stats["links"], strict=False):
            known = self._take((link["link"], ""), link)
            busy = 800.0 * (link["bytes"] - known.get("bytes", 0)) / span_s / max(link["rate_bps"], 1)
            late = link["sojourn_us"]
            cells = [name, rate_text(link["rate_bps"]), f"{busy:.0f}", str(link["queued"])]
            found.add_row(*cells, ms(late["p50"]), ms(late["p99"]), str(link["drops"]))
            found.add_row(Text(link["qdisc"], style="dim"))
        return found

    def _flows(self, stats: Mapping[str, Any], span_s: float) -> Table:
        rows = []
        for link in stats["links"]:
            for flow in link["flows"]:
                known = self._take((link["link"], flow["flow"]), flow)
                rows.append((8e-6 * (flow["bytes"] - known.get("bytes", 0)) / span_s, flow))
        rows.sort(key=lambda row: -row[0])
        found = table(("flow", "Mbit/s", "ms", "drops", "marks"), first=46)
        for mbit, flow in rows[:MOST_FLOWS]:
            cells = [flow["flow"], f"{mbit:.2f}", f"{flow['sojourn_ms']:.1f}"]
            found.add_row(*cells, str(flow["drops"]), str(flow["marks"]))
        return found

    def _take(self, key: tuple[int, str], now: Mapping[str, Any]) -> Mapping[str, Any]:
        known = self._before.get(key, {})
        self._before[key] = now
        return known


def table(heads: tuple[str, ...], first: int) -> Table:
    """Returns an empty table, whose first column has text and the others numbers."""
    found = Table(box=None, pad_edge=False)
    found.add_column(heads[0], min_width=first, no_wrap=True)
    for head in heads[1:]:
        found.add_column(head, justify="right", no_wrap=True)
    return found


def ms(us: float | None) -> str:
    """Writes microseconds as milliseconds."""
    return "–" if us is None else f"{us / 1000:.1f}"


def parse(line: str, names: list[str]) -> tuple[str | None, dict[str, str]]:
    """Reads a change such as `rate 5mbit` or `link.reverse qdisc codel`. Raises Refusal for anything else."""
    words = line.split()
    queue = words.pop(0) if words and words[0] in names else None
    if len(words) < 2 or words[0] not in VERBS:
        verb = words[0] if words else ""
        raise Refusal(f"{line.strip()}: expected rate, delay or qdisc with a value{nearest_of(verb, VERBS)}")
    return queue, {words[0]: " ".join(words[1:])}
