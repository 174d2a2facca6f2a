"""A dashboard of a link that is up: its queues and flows, and a line by which the link is changed."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from sojourn.errors import Refusal, nearest_of
from sojourn.line import rate_text
from sojourn.link import Link
from sojourn.screen import length, wrapped

PERIOD_S = 0.5
"""Seconds between two looks at the link."""
REST_S = 0.05
"""Seconds in which the rest of an escape sequence comes."""
VERBS = ("rate", "delay", "qdisc")
ENDS = ("q", "quit")
"""Words that end the dashboard."""
STOPS = ("\x03", "\x04")
"""Ctrl-C and Ctrl-D."""
HELP = "rate 5mbit · delay 20ms · qdisc codel target 15ms · QUEUE before it for another queue · quit ends"
QUEUE_HEADS = ("queue", "rate", "busy %", "queued", "p50 ms", "p99 ms", "drops")
FLOW_HEADS = ("flow", "Mbit/s", "ms", "drops", "marks", "queue")
LEAST_QUEUE, LEAST_FLOW = 12, 32
"""Columns of the screen that the first column of a table takes in any case: the addresses of a flow take 32."""
LEAST_CELL, MOST_CELL = 6, 16
"""Columns that each other cell takes."""
LEAST_SAID = 3
"""Lines that an answer may take in any case; in high terminals it is a third of all."""
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])?")
"""A key that is no character, such as an arrow: a control sequence (ECMA-48, 5.4), or SS3 and a letter as in xterm."""
CUT_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?$")
"""The beginning of such a sequence, whose rest is still to come."""


def watch(link: Link, news: Callable[[], Sequence[str]] = list) -> None:
    """Shows a link in the terminal until `quit`, Ctrl-D or Ctrl-C. `news` is asked at each look; its lines are shown in
    place of the last answer. Raises Refusal if the link ends before.
    """
    board = Board(link.names)
    with keys() as read, Live(auto_refresh=False, screen=True) as screen:
        next_s = time.monotonic()
        while True:
            if time.monotonic() >= next_s:
                board.look(link.stats())
                board.said = "\n".join(news()) or board.said
                next_s = time.monotonic() + PERIOD_S
            lines = board.lines(*screen.console.size)
            screen.update(Text("\n", no_wrap=True).join(lines), refresh=True)
            for key in read(max(next_s - time.monotonic(), 0.0)):
                board.press(key, link)
                if board.is_done:
                    return


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Gives a function that waits for keys, at most for the given seconds, and returns the characters that were typed.
    Ctrl-C is one of them, and no signal.
    """
    before = termios.tcgetattr(sys.stdin)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(patience_s: float) -> str:
        if not select.select([sys.stdin], [], [], patience_s)[0]:
            return ""
        # A terminal that is gone reads as the end of the input.
        typed = os.read(sys.stdin.fileno(), 1024)
        return decoder.decode(typed) if typed else "\x04"

    def read(patience_s: float) -> str:
        typed = piece(patience_s)
        while CUT_ESCAPE.search(typed) and (rest := piece(REST_S)):
            typed += rest
        return ESCAPE.sub("", typed)

    try:
        tty.setcbreak(sys.stdin)
        mode = termios.tcgetattr(sys.stdin)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)
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
        """The answer to the last line."""
        self.is_done = False
        """Whether the user has ended the dashboard."""
        self._queues: list[list[str]] = []
        self._qdiscs: list[str] = []
        self._flows: list[list[str]] = []
        self._before: dict[tuple[int, str], Mapping[str, Any]] = {}
        self._at_s = 0.0

    def press(self, key: str, link: Link) -> None:
        """Handles a character: Enter makes the change that was typed. Control characters are ignored."""
        if key in STOPS:
            self.is_done = True
        elif key in ("\x7f", "\b"):
            self.line = self.line[:-1]
        elif key in ("\r", "\n"):
            self._enter(self.line.strip(), link)
            self.line = ""
        elif key.isprintable():
            self.line += key

    def _enter(self, line: str, link: Link) -> None:
        if line in ENDS:
            self.is_done = True
        elif line:
            try:
                queue, change = parse(line, self.names)
                link.set(queue, **change)
            except Refusal as error:
                self.said = str(error)
            else:
                self.said = f"done: {line}"

    def look(self, stats: Mapping[str, Any]) -> None:
        """Takes the state of a link. Rates are those since the last look."""
        span_s = max(stats["at_s"] - self._at_s, 1e-9)
        self._at_s = stats["at_s"]
        self._qdiscs = [link["qdisc"] for link in stats["links"]]
        self._queues = [self._queue(name, link, span_s) for name, link in zip(self.names, stats["links"], strict=False)]
        self._flows = self._rows_of_flows(stats, span_s)

    def _queue(self, name: str, link: Mapping[str, Any], span_s: float) -> list[str]:
        known = self._take((link["link"], ""), link)
        # The rate may have changed since the last look.
        rate_bps = max(link["rate_bps"], known.get("rate_bps", 0), 1)
        busy = min(800.0 * (link["bytes"] - known.get("bytes", 0)) / span_s / rate_bps, 100.0)
        late = link["sojourn_us"]
        cells = [name, rate_text(link["rate_bps"]), f"{busy:.0f}", str(link["queued"])]
        return [*cells, ms(late["p50"]), ms(late["p99"]), str(link["drops"])]

    def _rows_of_flows(self, stats: Mapping[str, Any], span_s: float) -> list[list[str]]:
        """Returns a row for each flow, of the queue in which it waits longest. Those with the most bytes come first."""
        found: dict[str, tuple[float, float, list[str]]] = {}
        for queue, link in zip(self.names, stats["links"], strict=False):
            for flow in link["flows"]:
                name = flow["flow"]
                known = self._take((link["link"], name), flow)
                mbit = 8e-6 * (flow["bytes"] - known.get("bytes", 0)) / span_s
                waits = flow["sojourn_ms"]
                cells = [name, f"{mbit:.2f}", f"{waits:.1f}", str(flow["drops"]), str(flow["marks"]), queue]
                if name not in found or waits > found[name][1]:
                    found[name] = mbit, waits, cells
        return [cells for _, _, cells in sorted(found.values(), key=lambda row: -row[0])]

    def _take(self, key: tuple[int, str], now: Mapping[str, Any]) -> Mapping[str, Any]:
        known = self._before.get(key, {})
        self._before[key] = now
        return known

    def lines(self, width: int, height: int) -> list[Text]:
        """Draws the board in `height` lines of at most `width` columns. The prompt and the answer above it always have
        room, then the queues, then the flows.
        """
        said = wrapped(self.said, width)
        most = min(max(LEAST_SAID, height // 3), height - 1)
        if len(said) > most:
            said = [*said[: most - 1], cut(f"{said[most - 1]} {said[most]}", width)] if most else []
        room = height - 1 - len(said)
        queues = self._lines_of_queues(width, room)
        flows = some(table(FLOW_HEADS, self._flows, LEAST_FLOW, width), room - len(queues), "flow")
        blank = [Text()] * (room - len(queues) - len(flows))
        line = self.line if length(self.line) <= width - 3 else "…" + self.line[4 - width :]
        return [*queues, *flows, *blank, *(Text(one, style="dim") for one in said), Text(cut(f"> {line}▏", width))]

    def _lines_of_queues(self, width: int, room: int) -> list[Text]:
        """Returns the table of queues; each one's discipline is below it if there is room."""
        lines = table(QUEUE_HEADS, self._queues, LEAST_QUEUE, width)
        qdiscs = [Text(cut(f"  {qdisc}", width), style="dim") for qdisc in self._qdiscs]
        both = [*lines[:1], *(line for pair in zip(lines[1:], qdiscs, strict=False) for line in pair)]
        return both if len(both) <= room else some(lines, room, "queue")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], least: int, width: int) -> list[Text]:
    """Returns the lines of a table: its heads and rows, none without rows. The first column is cut to what fits, but
    not below `least` columns of the screen; rather than that, the last columns are left out.
    """
    if not rows:
        return []
    cells = [[row[0], *(cut(cell, MOST_CELL) for cell in row[1:])] for row in (heads, *rows)]
    first, *widths = (max(map(length, column)) for column in zip(*cells, strict=True))
    widths = [max(one, LEAST_CELL) for one in widths]
    while widths and least + sum(widths) + len(widths) > width:
        widths.pop()
    first = min(max(first, least), width - sum(widths) - len(widths))
    lines = []
    for name, *row in cells:
        texts = [" " * (most - length(cell)) + cell for cell, most in zip(row, widths, strict=False)]
        name = cut(name, first)
        lines.append(" ".join([name + " " * (first - length(name)), *texts]))
    return [Text(lines[0], style="bold"), *map(Text, lines[1:])]


def some(lines: list[Text], room: int, what: str) -> list[Text]:
    """Returns the lines of a table that fit into `room` lines, and how many rows are left out."""
    if len(lines) <= room:
        return lines
    shown = lines[: room - 1] if room > 2 else []
    left = len(lines) - max(len(shown), 1)
    return [*shown, Text(f"{left} more {what}{'s' if left > 1 else ''}", style="dim")][:room]


def cut(text: str, most: int) -> str:
    """Cuts a text to at most `most` columns of the screen, with an ellipsis."""
    found = Text(text)
    found.truncate(most, overflow="ellipsis")
    return found.plain


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
