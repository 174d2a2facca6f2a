"""`sojourn new`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click

from sojourn import screen, words
from sojourn.cli.base import BAD_INPUT, Verb, cli, fail, format_option, rows_as_csv
from sojourn.errors import nearest_of
from sojourn.line import (
    ACCESS,
    ALIASES,
    NO_ACCESS,
    PACKET,
    UNKNOWN,
    Access,
    access_of,
    assumption,
    buffer_packets,
    how_to_tell,
    rate_of,
    rate_text,
    seconds_of,
    time_text,
)
from sojourn.plan import SUFFIX, load
from sojourn.records import write_new

SHAPED = 0.95
"""A shaper's rate as a share of the line's, so that the queue builds up in the router and not in the modem."""

TEXT = """\
# A home line, written by
#   {command}
# Change what is different at your home. Then:
#   sojourn check {file}    says what would run
#   sojourn run {file}      compares the disciplines, with a report to open in a browser
# All keys that a scenario may have: sojourn list keys
title = "{name}: {down} down, {up} up"
duration = "{duration}"  # of a run, in simulated time
measure = ["{start}", "end"]  # results are from this time on, the start-up is reported apart; set it with duration

# The line as it is today. "down" is the direction to the home, "up" the one from it. Packets that the line cannot
# carry at once wait in the modem's buffer, which has room for as many as its "limit" says. When it is full of packets
# of {packet} bytes on the line, the next one waits
#   down  {down_buffer}
#   up    {up_buffer}
# In tables the queue down is "home" and the queue up "home.reverse"; "right" is down, "left" is up.
[[hop]]
name = "home"
rate = "{down}"
delay = "{delay}"  # to the servers, one way: with the way back, an idle line has a ping time of {rtt}
qdisc = "{down_fifo}"
{assumed}overhead = {overhead}  # bytes that the line adds to each IP packet: {overhead_words}
{linklayer}up = {{ rate = "{up}", qdisc = "{up_fifo}" }}

# Traffic of a busy home, all at once. Remove the flows that yours does not have.
[[flow]]
name = "download"
kind = "bulk"  # one TCP connection that sends as fast as it can until the end
direction = "down"
start = "uniform 0s..1s"  # at a random time in the first second: another one in each run of --seeds 5

[[flow]]
name = "upload"  # photos to a cloud, a backup
kind = "bulk"
direction = "up"
start = "uniform 0s..1s"

[[flow]]
name = "call"  # a phone call over the Internet
kind = "voip"
direction = "both"

[[flow]]
name = "reader"  # people who open web pages, each about two a minute
kind = "web"
page = true  # whole pages: the measure is the time until everything on a page is there
count = 4  # people

[[flow]]
name = "ping"  # shows the delay that everybody has
kind = "pings"
interval = "100ms"  # between two pings

# The cases to compare: first the modem's buffer alone, as it is today. Then a router in front of the modem, whose
# shaper (htb, or cake's own) sends at {percent} % of the line's rate: the queue forms in the router, where a discipline
# manages it, and not in the modem.
[sweep]
# The first line of the one list is played with the first line of the other, and so on; without "zip" every line of the
# one would be played with every line of the other.
zip = [["hop.home.qdisc", "hop.home.up.qdisc"]]
"hop.home.qdisc" = [
{down_lines}
]
"hop.home.up.qdisc" = [
{up_lines}
]
"""


def _rate(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A rate in bit/s."""
    value = None if text is None else rate_of(text) or 0
    if value is not None and not 64_000 <= value <= 10**10:
        fail(
            f"{option.opts[0]} = {text}: expected a rate from 64kbit to 10gbit, such as 20mbit (bit, kbit, mbit, gbit)"
        )
    return value


def _rtt(_context: click.Context, option: click.Parameter, text: str) -> float:
    """A time in seconds."""
    value = seconds_of(text)
    if value is None or not 1e-4 <= value <= 10:
        fail(f"{option.opts[0]} = {text}: expected a time from 100us to 10s, such as 30ms (us, ms, s)")
    return value


def _buffer(_context: click.Context, option: click.Parameter, text: str) -> str:
    """Checks a buffer's size: a time at the line's rate, or a number of packets. A number without a unit is left to
    `buffer_with_unit`, which knows the rates.
    """
    value = seconds_of(text)
    number = text.removesuffix("p")
    packets = number.isdecimal() and number.isascii() and 1 <= int(number) <= MOST_PACKETS
    if not packets and (value is None or not 1e-3 <= value <= 60):
        fail(
            f"{option.opts[0]} = {text}: expected a time from 1ms to 60s, such as 800ms, "
            f"or a number of packets from 1p to {MOST_PACKETS}p, such as 1000p"
        )
    return text


MOST_PACKETS = 10**6
"""The largest buffer in packets."""


def buffer_with_unit(buffer: str, down: int, up: int) -> str:
    """Returns the buffer, or refuses a number without a unit and says what either unit would mean. Rates in bit/s."""
    if buffer.isdecimal():
        packets = [words.time_text(int(buffer) * PACKET * 8e3 / rate, 2) for rate in (down, up)]
        fail(
            f"--buffer = {buffer}: expected a unit. {buffer}ms is a time, which the ping during an upload shows; "
            f"{buffer}p is packets, which take {packets[0]} down and {packets[1]} up"
        )
    return buffer


class AccessKind(click.ParamType[str]):
    """A kind of access line."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name of a kind. Without one, lists the kinds and ends with the exit code for bad input."""
        word = value.lower().replace(" ", "")
        word = ALIASES.get(word, word)
        if word == ASKED:
            for line in how_to_tell():
                click.echo(line, err=True)
            sys.exit(BAD_INPUT)
        if word in NO_ACCESS:
            fail(f"--access = {value}: {NO_ACCESS[word]}")
        if word not in (*ACCESS, UNKNOWN):
            fail(
                f"--access = {value}: expected one of {', '.join((*ACCESS, UNKNOWN))}{nearest_of(word, list(ACCESS))}; "
                "--access alone says how to tell"
            )
        return word


ASKED = "?"
"""The value of --access if none is given."""


def line_options(*, required: bool) -> Callable[[Verb], Verb]:
    """The options that describe an access line: its rates, the round-trip time, the modem's buffer and its framing."""
    options = (
        click.option(
            "--down", required=required, callback=_rate, metavar="RATE", help="The line's rate to the home: 20mbit."
        ),
        click.option(
            "--up", required=required, callback=_rate, metavar="RATE", help="The line's rate from the home: 2mbit."
        ),
        click.option(
            "--rtt",
            default="30ms",
            show_default=True,
            callback=_rtt,
            metavar="TIME",
            help="Round-trip time to the servers on an idle line.",
        ),
        click.option(
            "--buffer",
            default="500ms",
            show_default=True,
            callback=_buffer,
            metavar="SIZE",
            help="The modem's buffer, each way: how long a packet waits when it is full (800ms), or packets (1000p).",
        ),
        click.option(
            "--access",
            type=AccessKind(),
            is_flag=False,
            flag_value=ASKED,
            default=UNKNOWN,
            show_default=True,
            metavar="KIND",
            help="The kind of line, which says what it adds to each packet: adsl (or dsl), vdsl, cable (or docsis), "
            "fibre, ethernet, lte, geo. The default adds the most that a common line does. --access alone says how "
            "to tell.",
        ),
    )

    def with_options(command: Verb) -> Verb:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


@cli.command(
    epilog="""\b
Examples:
  sojourn new home-line --down 20mbit --up 2mbit --rtt 30ms --buffer 800ms
  sojourn new cable --down 250mbit --up 25mbit --buffer 1000p --access docsis
"""
)
@click.argument("name")
@line_options(required=True)
@format_option()
def new(name: str, down: int, up: int, rtt: float, buffer: str, access: str, form: str) -> None:
    """Write a commented scenario file for a home line.

    NAME.toml is written to the current folder; an existing file is not overwritten. To measure your line's buffer,
    ping a server during a long upload: the buffer is as long as the increase of the ping time. Without --access the
    file has the framing that adds the most to each packet, and says so.
    """
    buffer = buffer_with_unit(buffer, down, up)
    stem = name.removesuffix(SUFFIX)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", stem):
        fail(f"NAME = {name}: expected letters, digits, '.', '_' and '-', such as home-line")
    path = Path(stem + SUFFIX)
    text = scenario(stem, down, up, rtt, buffer, access)
    try:
        write_new(path, text.encode())
    except FileExistsError:
        fail(f"{path}: this file exists already and is not overwritten; choose another name, or remove the file")
    plan = load(path)
    if form == "json":
        kind = access_of(access, down, up)
        assumed = {"access": access, "given": access != UNKNOWN, "framing": kind.framing}
        click.echo(json.dumps({"file": str(path), "title": plan.title, "runs": len(plan), "assumed": assumed}))
    elif form == "csv":
        click.echo(rows_as_csv(["file", "title", "runs"], [[str(path), plan.title, str(len(plan))]]), nl=False)
    else:
        click.echo(f"{path}: written\nlook at it:  sojourn check {path}\nrun it:      sojourn run {path}")
        if access == UNKNOWN:
            screen.say(assumption(down, up, "new"))


def scenario(name: str, down: int, up: int, rtt: float, buffer: str, access: str) -> str:
    """The text of a home line's scenario; rates in bits per second, `rtt` in seconds, `buffer` as its option has it."""
    kind = access_of(access, down, up)
    packet = kind.counted(PACKET - ACCESS["ethernet"].overhead)
    rooms = [buffer_packets(buffer, rate, packet) for rate in (down, up)]
    fifos = [f"pfifo limit {room}" for room in rooms]
    duration = 60 if down + up <= 300e6 else 20
    command = f"sojourn new {name} --down {rate_text(down)} --up {rate_text(up)} --rtt {time_text(rtt)}"
    return TEXT.format(
        command=f"{command} --buffer {buffer} --access {access}",
        file=name + SUFFIX,
        name=name,
        down=rate_text(down),
        up=rate_text(up),
        duration=f"{duration}s",
        start=f"{duration // 6}s",
        down_buffer=buffer_text(rooms[0], down, packet),
        up_buffer=buffer_text(rooms[1], up, packet),
        packet=packet,
        delay=time_text(rtt / 2),
        rtt=time_text(rtt),
        down_fifo=fifos[0],
        up_fifo=fifos[1],
        overhead=kind.overhead,
        overhead_words=kind.words,
        assumed=ASSUMED.format(name=name) if access == UNKNOWN else "",
        linklayer="" if kind.linklayer == "ethernet" else f'linklayer = "{kind.linklayer}"\n',
        percent=round(SHAPED * 100),
        down_lines=lines(fifos[0], down, kind),
        up_lines=lines(fifos[1], up, kind),
    )


ASSUMED = """\
# Assumed, as --access was not given: the line adds the most to each packet that a common line does, and the shapers
# below count it, so that they are safe with every framing. "sojourn new --access" says how to tell which kind yours is.
"""


def lines(fifo: str, rate: int, kind: Access) -> str:
    """The disciplines compared in one direction, a line each."""
    shaped = rate_text(int(rate * SHAPED))
    compared = (
        fifo,
        f"htb rate {shaped}{kind.htb} child codel",
        f"htb rate {shaped}{kind.htb} child fq_codel",
        f"cake bandwidth {shaped}{kind.cake}",
    )
    return "\n".join(f'  "{line}",' for line in compared)


def buffer_text(count: int, rate: int, packet: int) -> str:
    """How long a packet waits at the end of a full buffer, and the packets of this many bytes before it."""
    return f"{words.time_text(count * packet * 8e3 / rate)} behind {count} {'packet' if count == 1 else 'packets'}"
