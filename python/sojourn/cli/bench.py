"""`sojourn bench`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from sojourn import screen
from sojourn.cli.base import cli, fail, format_option, rows_as_csv


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
    """Measure how fast the simulator is: CPU time and memory of the Rust bench program, without start-up."""
    program = _bench_program()
    done = subprocess.run([program, name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode if done.returncode > 0 else 1)
    if form == "json":
        click.echo(done.stdout.rstrip("\n"))
        return
    found: dict[str, Any] = json.loads(done.stdout)
    found |= {f"sojourn_ms.{key}": value for key, value in (found.pop("sojourn_ms", None) or {}).items()}
    if form == "csv":
        click.echo(rows_as_csv(list(found), [[str(value) for value in found.values()]]), nl=False)
    else:
        screen.print_words(name, ["", ""], [[key, f"{value:,}"] for key, value in found.items()])


def _bench_program() -> str:
    beside = Path(sys.executable).parent / "sojourn-bench"
    found = str(beside) if beside.exists() else shutil.which("sojourn-bench")
    return found or fail("sojourn-bench is not there: expected it beside sojourn, where 'make build' puts it")
