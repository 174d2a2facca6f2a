"""`sojourn replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import screen
from sojourn.cli.base import bounded, cli, fail, format_option, library_options, warn
from sojourn.plan import refuse_other_than_utf8
from sojourn.replays import in_core

if TYPE_CHECKING:
    from sojourn.disciplines import Library

LONGEST_TRACE = 2**30
"""Bytes of a packet trace: some 30 million packets."""


@cli.command(
    epilog="""\b
Examples:
  sojourn replay trace.csv --qdisc "codel limit 1000 noecn"
  sojourn replay arrivals.csv --qdisc "fq_codel limit 1000" --rate 10mbit > fates.csv
  sojourn replay arrivals.csv --qdisc "sfq" --rate 10mbit --world kernel
"""
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--qdisc", required=True, metavar="SPEC", help="A discipline as tc writes it.")
@click.option("--rate", metavar="R", help="Generate the dequeues: a busy server of this rate.")
@click.option("--world", type=click.Choice(["sim", "kernel"]), default="sim", show_default=True, help="Where it runs.")
@click.option(
    "--mtu", type=int, callback=bounded(1, 2**31 - 1), default=1514, show_default=True, help="Bytes of a full packet."
)
@click.option(
    "--qdisc-module",
    "module",
    type=click.Path(path_type=Path),
    help="The discipline's own module, my.ko or a folder with a Kbuild (--world kernel).",
)
@library_options
@click.option(
    "-s", "--stats", is_flag=True, help="Print the discipline's counters to stderr, as 'tc -s qdisc show' does."
)
@format_option("csv")
def replay(
    trace: Path,
    qdisc: str,
    rate: str | None,
    world: str,
    mtu: int,
    module: Path | None,
    outside: tuple[Library, ...],
    patience: int,
    stats: bool,
    form: str,
) -> None:
    """Send the packets of a trace through one discipline and print each packet's fate.

    TRACE is CSV with the header time_ns,op,flow,bytes,ecn; op is enqueue, dequeue or change (flow is then a line for
    tc: the parameters from there on). Out comes one row a packet: packet,flow,bytes,enqueue_ns,fate_ns,fate.
    """
    if module is not None and world != "kernel":
        fail(f"--qdisc-module = {module}: expected --world kernel with it")
    if outside and world != "sim":
        fail(f"--library = {outside[0].file}: expected --world sim with it")
    for text in (str(trace), qdisc, rate or ""):
        refuse_other_than_utf8(text)
    try:
        with trace.open("rb") as file:
            data = file.read(LONGEST_TRACE + 1)
    except OSError as error:
        fail(f"{trace}: {error.strerror}: expected a packet trace")
    if len(data) > LONGEST_TRACE:
        fail(f"{trace}: larger than {LONGEST_TRACE} bytes: expected a packet trace in parts")
    if world == "kernel":
        from sojourn.kernel.replay import replay as in_kernel

        fates, warnings, found = in_kernel(data, str(trace), qdisc, rate=rate, mtu=mtu, module=module)
    else:
        fates, warnings, found = in_core(data, str(trace), qdisc, rate, mtu, outside=outside, patience_s=patience)
    warn(warnings)
    _show(fates, found, f"{trace} through {qdisc}", form)
    if stats and form != "json":
        if found is None:
            fail("--stats: tc prints no counters of this discipline as JSON")
        from sojourn.stats import text as as_tc

        click.echo("\n".join(as_tc(qdisc, found)), err=True)


def _show(fates: bytes, stats: dict[str, Any] | None, title: str, form: str) -> None:
    """The fates, in the form asked for; as JSON with the counters."""
    if form == "csv":
        sys.stdout.buffer.write(fates)
        sys.stdout.buffer.flush()
        return
    lines = [line.split(",") for line in fates.decode().splitlines()]
    if form == "json":
        numbers = set(lines[0]) - {"fate"}
        packets = [
            {key: int(value) if key in numbers else value for key, value in zip(lines[0], line, strict=True)}
            for line in lines[1:]
        ]
        click.echo(json.dumps({"packets": packets, "stats": stats}, indent=1))
    else:
        screen.print_words(title, lines[0], lines[1:])
