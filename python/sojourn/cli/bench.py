"""`sojourn bench`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from sojourn import screen
from sojourn.cli.base import cli, fail, format_option, rows_as_csv

SCALE = (10, 100, 1_000, 10_000, 100_000)
"""Numbers of flows of `bench scale`."""
LEAST = 500
"""The least number of additional flows for which memory a flow is reported.

With fewer, the larger windows of the smallest run's flows would distort it.
"""
BRIEF = {
    "flows": "flows",
    "packets": "packets",
    "instructions_per_packet": "instructions/packet",
    "ns_per_packet": "ns/packet",
    "rss_mb": "resident MB",
    "allocated_mb": "allocated MB",
    "bytes_per_flow": "bytes/flow",
    "utilisation": "utilisation",
    "drops": "drops",
    "sojourn_ms.p95": "sojourn p95 ms",
}
"""Its columns as text, and their heads."""


@cli.command(
    epilog="""\b
Examples:
  sojourn bench P1
  sojourn bench P3 -f text
"""
)
@click.argument("name", type=click.Choice(["P1", "P2", "P3", "P4", "P5", "P1-bbr", "P1-bbr3", "scale"]))
@format_option("json")
def bench(name: str, form: str) -> None:
    """Measure how fast the simulator is.

    It measures CPU time and memory of the Rust bench program, without start-up. The time is the best of several runs;
    the memory is the peak of another one, which has no huge pages.

    scale: 10 to 100,000 flows through a 10 Gbit/s link with fq_codel. It reports the memory that a further flow
    allocates, compared with the smallest run (if there are at least 500 more: fewer flows have larger windows), and
    the instructions a packet if valgrind is installed.
    """
    program = _bench_program()
    found = _scale(program) if name == "scale" else _measured([program, name])
    if form == "json":
        click.echo(json.dumps(found))
        return
    rows = [_flat(one) for one in (found if isinstance(found, list) else [found])]
    if form == "csv":
        click.echo(rows_as_csv(list(rows[0]), [[str(value) for value in row.values()] for row in rows]), nl=False)
    elif len(rows) > 1:
        screen.print_words(name, list(BRIEF.values()), [[_word(row[key]) for key in BRIEF] for row in rows])
    else:
        screen.print_words(name, ["", ""], [[key, _word(value)] for key, value in rows[0].items()])


def _scale(program: str) -> list[dict[str, Any]]:
    """The same link with more and more flows."""
    found: list[dict[str, Any]] = []
    for flows in SCALE:
        command = [program, "scale", "--flows", str(flows)]
        one = _measured(command)
        first = found[0] if found else one
        more = flows - first["flows"]
        grown = (one["allocated_mb"] - first["allocated_mb"]) * 1e6
        instructions = _instructions([*command, "--repeat", "1"])
        found.append(
            one
            | {
                "ns_per_packet": round(one["cpu_s"] * 1e9 / one["packets"], 1),
                "instructions_per_packet": instructions and round(instructions / one["packets"], 1),
                "bytes_per_flow": round(grown / more) if more >= LEAST else None,
            }
        )
    return found


def _measured(command: list[str]) -> dict[str, Any]:
    """Returns the best of several runs of a process, with the memory of another run with pages of 4 kB.

    The allocator asks for huge pages, with which the peak of memory is known only in steps of 2 MB.
    """
    found: dict[str, Any] = json.loads(_output(command))
    once = json.loads(_output([*command, "--repeat", "1"], MIMALLOC_ALLOW_THP="0"))
    return found | {key: once[key] for key in ("rss_mb", "allocated_mb")}


def _instructions(command: list[str]) -> int | None:
    """The number of instructions that a command executes, counted by valgrind; None if valgrind is not installed."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run([valgrind, *options, *command], capture_output=True, text=True, check=False)
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    return int(counted[1].replace(",", "")) if counted else None


def _output(command: list[str], **environment: str) -> str:
    """The standard output of a command. As in the wheel, the allocator keeps memory that a run has freed."""
    surroundings = {"MIMALLOC_PURGE_DELAY": "-1"} | os.environ | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=surroundings)
    if done.returncode != 0:
        sys.exit(done.returncode if done.returncode > 0 else 1)
    return done.stdout


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """Its distribution as columns of their own."""
    sojourn = found["sojourn_ms"] or {}
    rest = {key: value for key, value in found.items() if key != "sojourn_ms"}
    return rest | {f"sojourn_ms.{key}": value for key, value in sojourn.items()}


def _word(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{round(value):,}" if isinstance(value, int) or value >= 1000 else f"{value:.4g}"


def _bench_program() -> str:
    asked = os.environ.get("SOJOURN_BENCH")
    beside = Path(sys.executable).parent / "sojourn-bench"
    found = asked or (str(beside) if beside.exists() else shutil.which("sojourn-bench"))
    return found or fail(
        "the bench program is not part of the wheel: build it in a clone of sojourn with 'make build', "
        "or name it in the environment, SOJOURN_BENCH=PROGRAM"
    )
