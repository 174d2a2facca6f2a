"""`sojourn replay`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import _core, screen
from sojourn.cli.base import bounded, cli, fail, format_option, library_options, many, qdisc_module_option, warn
from sojourn.files import read_bytes
from sojourn.plan import refuse_other_than_utf8
from sojourn.replays import in_core

if TYPE_CHECKING:
    from sojourn.disciplines import Library, Outside
    from sojourn.fates import Changes
    from sojourn.replays import Replay

FIRST, FIRST_SHOWN = 1000, 10
"""The most packets that differ in the JSON, and in the table, of --against."""
LONGEST_TRACE = 2**30
"""Bytes of a packet trace: some 30 million packets."""


@cli.command(
    epilog="""\b
Examples:
  sojourn replay trace.csv --qdisc "codel limit 1000 noecn"
  sojourn replay arrivals.csv --qdisc "fq_codel limit 1000" --rate 10mbit > fates.csv
  sojourn replay arrivals.csv --qdisc "sfq" --rate 10mbit --world kernel
  sojourn replay arrivals.csv --qdisc "pie" --rate 10mbit --seed 7 --end 30s
  sojourn replay arrivals.csv --qdisc "codel" --rate 10mbit --world kernel --against sim
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
    "--seed",
    type=int,
    callback=bounded(0, 2**64 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the discipline's random numbers.",
)
@click.option("--end", metavar="T", help="With --rate: the time after which nothing is sent [default: none].")
@qdisc_module_option
@library_options
@click.option(
    "--against",
    metavar="OTHER",
    help="Compare with another implementation and print the changes: sim, kernel, kernel:6.12 (a version, or a build "
    "tree's folder), a module (my.ko or a folder with a Kbuild), or a library (mine.so). With -f csv: all packets "
    "that differ.",
)
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
    seed: int,
    end: str | None,
    module: Path | None,
    outside: tuple[Library, ...],
    patience: int,
    against: str | None,
    stats: bool,
    form: str,
) -> None:
    """Send a trace through a discipline and print packets' fates.

    TRACE is CSV with the header time_ns,op,flow,bytes,ecn; op is enqueue, dequeue or change (flow is then a line for
    tc: the parameters from there on). Out comes one row a packet: packet,flow,bytes,enqueue_ns,fate_ns,fate.

    The header may go on with source, destination (hosts, as IPv4 addresses or numbers, for cake) and opens (1 for a
    SYN or SYN-ACK, for ccaq). 'sojourn run --world live --traces DIR' writes such traces.
    """
    if module is not None and world != "kernel":
        fail(f"--qdisc-module = {module}: expected --world kernel with it")
    if outside and world != "sim":
        fail(f"--library = {outside[0].file}: expected --world sim with it")
    for text in (str(trace), qdisc, rate or "", end or ""):
        refuse_other_than_utf8(text)
    data = read_bytes(trace, "a packet trace", most=LONGEST_TRACE)
    asked = _Asked(data, str(trace), rate, mtu, seed, end, patience)
    side = asked.in_kernel(qdisc, module=module) if world == "kernel" else asked.in_core(qdisc, outside)
    if against is not None:
        if stats:
            fail("--stats: not with --against, which compares the packets only")
        _compare(asked, qdisc, side, against, "text" if _is_default("form") else form)
        return
    fates, warnings, found = side.play()
    warn(warnings)
    _name_waiting(fates, rate)
    _show(fates, found, f"{trace} through {qdisc}", form)
    if stats and form != "json":
        if found is None:
            fail("--stats: tc prints no counters of this discipline as JSON")
        from sojourn.stats import text as as_tc

        click.echo("\n".join(as_tc(qdisc, found)), err=True)


def _name_waiting(fates: bytes, rate: str | None) -> None:
    """Says why every packet is still queued, if the trace has no dequeues."""
    waiting = fates.count(b",queued\n")
    if rate is None and waiting and waiting == fates.count(b"\n") - 1:
        warn([f"{many(waiting, 'packet')} queued, and none left: the trace has no dequeue; --rate R makes them"])


def _is_default(name: str) -> bool:
    """Whether an option is not on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.DEFAULT


@dataclass(frozen=True)
class _Side:
    """An implementation of the discipline."""

    name: str
    play: Callable[[], Replay]
    version: tuple[int, int] | None = None
    """That of its kernel."""


@dataclass(frozen=True)
class _Asked:
    """A trace, and how it is replayed."""

    data: bytes
    trace: str
    rate: str | None
    mtu: int
    seed: int
    end: str | None
    patience: int

    def in_core(self, qdisc: str, outside: Sequence[Outside] = ()) -> _Side:
        """Ours, or a library."""

        def play() -> Replay:
            how = (self.data, self.trace, qdisc, self.rate, self.mtu)
            return in_core(*how, seed=self.seed, end=self.end, outside=outside, patience_s=self.patience)

        used = [one.said for one in outside if one.name == qdisc.split()[0]] if qdisc.split() else []
        return _Side(used[0] if used else "sojourn", play)

    def in_kernel(self, qdisc: str, word: str = "", module: Path | None = None) -> _Side:
        """A kernel's, or a module's in it. `word` is a version, a variant, or a build tree; "" is the newest."""
        if self.end is not None:
            fail(f"--end = {self.end}: a kernel sends all packets; expected no kernel with it")
        from sojourn.kernel import modules, store
        from sojourn.kernel.replay import replay as replay_there

        if word in store.VARIANTS:
            kernel = store.find(word)
        elif word and Path(word).is_dir():
            tree = store.of_tree(Path(word))
            kernel = replace(tree, modules=modules.ensure(tree))
        else:
            kernel = store.find(version=word or None)

        def play() -> Replay:
            how = (self.data, self.trace, qdisc)
            return replay_there(*how, rate=self.rate, mtu=self.mtu, seed=self.seed, module=module, kernel=kernel)

        linux = f"Linux {kernel.release}" + (f" {kernel.variant}" if kernel.variant != "fast" else "")
        name = f"{module.name or module.resolve().name} in {linux}" if module else linux
        return _Side(name, play, kernel.version)


def _other(asked: _Asked, qdisc: str, word: str) -> _Side:
    """The implementation that --against names."""
    from sojourn.disciplines import Library, digest_of

    kind, _, rest = word.partition(":")
    file = Path(word)
    if word == "sim":
        return asked.in_core(qdisc)
    if kind == "kernel":
        return asked.in_kernel(qdisc, rest)
    if file.suffix == ".ko" or file.is_dir():
        return asked.in_kernel(qdisc, module=file)
    if ".so" in file.name:
        # It is compared under the name of the other.
        return asked.in_core(qdisc, [Library((qdisc.split() or [""])[0], file, digest_of(file))])
    fail(f"--against = {word}: expected sim, kernel, kernel:VERSION, a module (.ko or its folder) or a library (.so)")


def _compare(asked: _Asked, qdisc: str, side: _Side, against: str, form: str) -> None:
    """Prints the changes from one implementation to another."""
    other = _other(asked, qdisc, against)
    version = side.version or other.version
    if version is not None:
        # In a kernel a line without a variant means the kernel's.
        line = _core.as_in(qdisc, version)
        side = side if side.version else asked.in_core(line)
        other = other if other.version else asked.in_core(line)
    (one, warnings, _), (two, more, _) = side.play(), other.play()
    warn(list(dict.fromkeys([*warnings, *more])))
    from sojourn import fates
    from sojourn.words import rows_as_csv

    found = fates.changes((side.name, other.name), one, two)
    if form == "json":
        click.echo(json.dumps(found.as_dict(FIRST), indent=1))
    elif form == "csv":
        rows = [list(map(str, fates.as_row(one).values())) for one in found.rows()]
        click.echo(rows_as_csv(fates.COLUMNS, rows), nl=False)
    else:
        _print_changes(found, f"{asked.trace} through {qdisc}")


def _print_changes(found: Changes, title: str) -> None:
    from sojourn.words import number_text

    before, after = found.sides
    click.secho(title, bold=True)
    rows = [[word, str(before.count[word]), str(after.count[word])] for word in before.count]
    waits = ["–" if side.mean_wait_ms is None else number_text(side.mean_wait_ms) for side in found.sides]
    rows.append(["mean wait, ms", *waits])
    screen.print_lines(screen.number_lines("packets", ["", before.name, after.name], rows))
    if not found.differing:
        click.echo(f"no packet differs, of {found.packets}")
        return
    moved = [[f"from {old} to {new}", str(count)] for (old, new), count in found.moved.items()]
    moved += [["same fate, at another time", str(found.retimed)]] if found.retimed else []
    screen.print_lines(screen.number_lines("what changes", ["", "packets"], moved))
    heads = ["packet", "flow", "bytes", "arrives, ns", "from", "at, ns", "to", "at, ns"]
    first = [
        [str(one.packet), str(one.flow), str(one.bytes), str(one.enqueue_ns)]
        + [cell for fate, at in zip(one.fates, one.fate_ns, strict=True) for cell in (fate, str(at or "–"))]
        for one in found.rows(FIRST_SHOWN)
    ]
    screen.print_words(f"the first of {found.differing} packets that differ", heads, first)


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
