"""`sojourn verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn.cli.base import bounded, cli, fail, format_option, qdisc_module_option, warn
from sojourn.plan import refuse_other_than_utf8

if TYPE_CHECKING:
    from sojourn.verify import Verdict

FAULTY = 3
"""Exit code: all was asked, and something did not pass."""


@cli.command(
    epilog="""\b
Examples:
  sojourn verify codel
  sojourn verify "codel limit 1000 variant rfc8289"
  sojourn verify codel --command 'sojourn replay {trace} --qdisc codel'
  sojourn verify fq_codel --world kernel
"""
)
@click.argument("qdisc")
@click.option(
    "--command",
    metavar="PROGRAM",
    help="Your program: reads a trace from stdin, or from the file in place of {trace}, prints packet,fate_ns,fate.",
)
@click.option(
    "--library",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Your shared library with the functions of sojourn.h (crates/ffi/include).",
)
@click.option("--world", type=click.Choice(["sim", "kernel"]), default="sim", show_default=True, help="Where it runs.")
@qdisc_module_option
@click.option(
    "--rate",
    default="10mbit",
    show_default=True,
    metavar="R",
    help="Link rate, for disciplines that derive defaults from it.",
)
@click.option(
    "--patience",
    type=int,
    callback=bounded(1, 86_400),
    help="Seconds that PROGRAM or a library may take for a trace.  [default: 60]",
)
@click.option("--traces", type=int, callback=bounded(1, 10_000), default=10, show_default=True, help="Random traces.")
@click.option(
    "--packets",
    type=int,
    callback=bounded(1, 10_000_000),
    default=3000,
    show_default=True,
    help="Packets in a random trace.",
)
@click.option(
    "--seed", type=int, callback=bounded(0, 2**31), default=1, show_default=True, help="Seed of the random traces."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where failed traces go, a new folder (else results/…).")
@format_option("text")
def verify(
    qdisc: str,
    command: str | None,
    library: Path | None,
    world: str,
    module: Path | None,
    rate: str,
    patience: int | None,
    traces: int,
    packets: int,
    seed: int,
    out: Path | None,
    form: str,
) -> None:
    """Test a discipline against its RFC, and compare it with ours.

    QDISC is a line as tc writes it. Our own implementation is tested, unless --command, --library, --world kernel or
    --qdisc-module names another. Traces of failed tests are kept. The exit code is 3 if a test failed.
    """
    from sojourn import _core, screen
    from sojourn import verify as asking
    from sojourn.disciplines import Library, digest_of

    for text in (qdisc, command or "", rate):
        refuse_other_than_utf8(text)
    asked = {"--command": command, "--library": library, "--world kernel": (world == "kernel" or module) or None}
    if len(given := [name for name, value in asked.items() if value is not None]) > 1:
        fail(f"{given[0]} and {given[1]}: expected one of them, since one is asked at a time")
    if patience is not None and command is None and library is None:
        fail(f"--patience = {patience}: expected --command or --library with it")
    in_kernel = world == "kernel" or module is not None
    line = asking.line_of(asking.of_kernel(qdisc) if in_kernel else qdisc)
    bits, warnings = _core.rate(rate)
    warn(warnings)
    subject: asking.Subject = asking.Ours(line.full, bits)
    if command is not None:
        subject = asking.Program(command) if patience is None else asking.Program(command, patience)
    elif library is not None:
        discipline = Library(library.stem, library, digest_of(library))
        subject = asking.OfUser(discipline, line.full, bits, patience_s=patience or 60)
    elif in_kernel:
        subject = asking.Kernel(qdisc, module)
    found = list(asking.verify(line, subject, traces=traces, packets=packets, seed=seed, rate=bits))
    failed = [one for one in found if one.fault]
    kept = _keep(failed, out, line.kind) if failed else None
    if form == "json":
        said = [{"name": one.name, "source": one.source, "passed": one.passed, "fault": one.fault} for one in found]
        for row, one in zip(said, found, strict=True):
            row["left_out"] = one.left_out
        click.echo(json.dumps({"qdisc": line.full, "subject": subject.name, "asked": said}, indent=1))
    else:
        rows = [[one.word, one.name, one.source, one.fault or one.left_out] for one in found]
        screen.print_words(f"{line.full}: {subject.name}", ["", "statement", "source", ""], rows)
        passed = sum(one.passed for one in found)
        click.echo(f"{passed} passed, {len(failed)} failed, {len(found) - passed - len(failed)} left out", err=True)
        if kept:
            click.echo(f"the traces are in {kept}", err=True)
    if failed:
        sys.exit(FAULTY)


def _keep(failed: Sequence[Verdict], out: Path | None, kind: str) -> Path:
    """Writes the trace of each failed question, its fates and, if there are any, the expected fates."""
    from sojourn import records

    with records.claimed(out) if out else nullcontext(records.new_folder(f"verify-{kind}")) as folder:
        for one in failed:
            stem = "-".join("".join(c if c.isalnum() else " " for c in one.name).split())
            for part, data in (("trace", one.trace), ("theirs", one.theirs), ("expected", one.expected)):
                if data:
                    records.write_bytes(folder / f"{stem}.{part}.csv", data)
        return folder
