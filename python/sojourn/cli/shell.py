"""`sojourn shell`: a shell or a command behind the link of a scenario."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import click

from sojourn import link as live
from sojourn.cli.base import cli, engine_option, fail, load_plan, many, scenario_argument, set_options, set_text
from sojourn.live.run import Engine

STARTS_S = 0.3
"""Seconds that programs of `--server` get to open their sockets before the command starts."""


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
@set_options
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
    seeds: int | None,
    servers: tuple[str, ...],
    flows: bool,
    engine: Engine,
    watch: bool,
    command: tuple[str, ...],
) -> None:
    """Open a shell, or run COMMAND, on a host behind the link of a scenario, in real time and without root.

    The shell is on the client; packets to it pass the downlink. `{server}` in a command, and SOJOURN_SERVER in its
    environment, are the address of the other host. Only these two hosts can be reached. The exit code is that of the
    command. All that was started ends with the shell.
    """
    if watch and command:
        fail(f"--watch: expected no command with it; found {command[0]}. Start programs by --server, or --flows")
    if watch and not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("--watch: expected a terminal")
    plan = load_plan(file, sets, seed, seeds or 1, ())
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
            with Path(os.devnull).open("rb") as nothing:
                started = [link.popen(["/bin/sh", "-c", f"exec {one}"], at="server", stdin=nothing) for one in servers]
            if started:
                time.sleep(STARTS_S)
            code = _watched(link) if watch else link.popen(words).wait()
            for program in started:
                program.kill()
    finally:
        signal.signal(signal.SIGINT, before)
    for line in summary(link):
        click.echo(line, err=True)
    sys.exit(code if code >= 0 else 128 - code)


def _watched(link: live.Link) -> int:
    """Shows the dashboard until it is closed."""
    from sojourn.watch import watch

    watch(link)
    return 0


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
