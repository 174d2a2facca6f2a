"""`sojourn shell`: a shell or a command behind the link of a scenario."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from sojourn import link as live
from sojourn.cli.base import (
    cli,
    engine_option,
    fail,
    load_plan,
    many,
    scenario_argument,
    seed_option,
    set_option,
    set_text,
)
from sojourn.errors import Refusal, nearest_of
from sojourn.live.run import Engine

STARTS_S = 0.3
"""Seconds that programs of `--server` get to open their sockets before the command starts."""
LOOK_S = 0.2
"""Seconds between two looks whether one of them has ended."""


@cli.command(
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  sojourn shell home-dsl
  sojourn shell home-dsl --set hop.line.down.rate=5mbit -- ls
  sojourn shell home-dsl --server 'python3 -m http.server' -- curl -s --retry 9 --retry-connrefused http://{server}:8000/
""",
)
@scenario_argument
@set_option
@seed_option
@click.option(
    "--server", "servers", multiple=True, metavar="COMMAND", help="Start this on the server first; repeatable."
)
@click.option("--flows/--no-flows", help="Whether the scenario's own flows play too. [default: no-flows]")
@engine_option
@click.option("--watch", is_flag=True, help="Show the queues and flows, and change the link, instead of a shell.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(
    file: Path,
    sets: list[tuple[str, str]],
    seed: int | None,
    servers: tuple[str, ...],
    flows: bool,
    engine: Engine,
    watch: bool,
    command: tuple[str, ...],
) -> None:
    """Open a shell, or run COMMAND, behind a scenario's link.

    It runs in real time and without root.

    The shell is on the client; packets to it pass the downlink. `{server}` in a command, and SOJOURN_SERVER in its
    environment, are the address of the other host. Only these two hosts can be reached. The exit code is that of the
    command. All that was started ends with the shell.
    """
    if command and command[0].startswith("-"):
        options = [name for one in click.get_current_context().command.params for name in one.opts if name[0] == "-"]
        word = command[0].partition("=")[0]
        if word == "--seeds":
            fail("--seeds: a shell has one link, in real time, so it takes one seed: expected --seed N")
        fail(f"{word}: no such option{nearest_of(word, options)} (see sojourn shell --help)")
    if watch and command:
        fail(f"--watch: expected no command with it; found {command[0]}. Start programs by --server, or --flows")
    if watch and not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("--watch: expected a terminal")
    plan = load_plan(file, sets, seed, 1, ())
    if len(plan) > 1:
        first = set_text(plan.runs[0]["set"])
        click.echo(
            f"sojourn: the first of {len(plan)} combinations: {first}; --set KEY=VALUE chooses another", err=True
        )
    words = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    # Ctrl-C is for the command; it reaches all programs of the terminal.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with live.Link(plan, flows=flows, engine=engine) as link:
            if not command and not watch:
                click.echo(
                    f"sojourn: a shell on the client {link.client}; the server is {link.server}; exit ends both",
                    err=True,
                )
            running = Servers(link, servers)
            if watch:
                code, is_lost = _watched(link, running)
            else:
                code, is_lost = _waited(link.popen(words), running)
    finally:
        signal.signal(signal.SIGINT, before)
    if is_lost:
        say([live.GONE + (f": {link.error}" if link.error else "")])
    for line in summary(link):
        click.echo(line, err=True)
    sys.exit(code if code >= 0 else 128 - code)


def say(lines: Sequence[str]) -> None:
    """Prints lines to stderr."""
    for line in lines:
        click.echo(f"sojourn: {line}", err=True)


class Servers:
    """The programs of `--server`. The end of the link ends them, and all that they have started."""

    def __init__(self, link: live.Link, commands: Sequence[str]) -> None:
        with Path(os.devnull).open("rb") as nothing:
            start = [link.popen(["/bin/sh", "-c", one], at="server", stdin=nothing) for one in commands]
        self._running = list(zip(commands, start, strict=True))
        if commands:
            time.sleep(STARTS_S)

    def ended(self) -> list[str]:
        """Returns a line for each one that has ended by itself since the last call."""
        lines = []
        for command, program in list(self._running):
            if (code := program.poll()) is not None:
                self._running.remove((command, program))
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                lines += [] if program.is_lost else [f"server {command!r} ended with {how}"]
        return lines


def _waited(program: live.Program, servers: Servers) -> tuple[int, bool]:
    """Waits for the command, and says which servers end before it. Returns its exit code, and whether the link has
    ended before it.
    """
    while program.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            program.wait(LOOK_S)
        say(servers.ended())
    return program.returncode, program.is_lost


def _watched(link: live.Link, servers: Servers) -> tuple[int, bool]:
    """Shows the dashboard until it is closed, and then says which servers have ended before. Returns as `_waited`."""
    from sojourn.watch import watch

    said: list[str] = []

    def news() -> list[str]:
        found = servers.ended()
        said.extend(found)
        return found

    code = 0
    try:
        watch(link, news)
    except Refusal:
        code = -signal.SIGKILL
    say(said)
    return code, code != 0


def summary(link: live.Link) -> list[str]:
    """Returns what passed the link, in a line for each queue, and whether this may be believed."""
    lines = []
    for name, queue in zip(link.names, link.state.get("links", ()), strict=False):
        late = queue["sojourn_us"]
        waited = (
            "" if late["p50"] is None else f", sojourn p50 {late['p50'] / 1000:.3g} ms, p99 {late['p99'] / 1000:.3g} ms"
        )
        lines.append(f"sojourn: {name}: {many(queue['packets'], 'packet')}, {queue['drops']} dropped{waited}")
    return lines + [f"sojourn: not valid: {reason}" for reason in link.truth.get("reasons", ())]
