"""`sojourn report`."""

from __future__ import annotations

from pathlib import Path

import click

from sojourn.cli.base import cli, format_option
from sojourn.cli.run import show_runs


@cli.command(
    epilog="""\b
Examples:
  sojourn report results/fading-link-001
  sojourn report results/fading-link-001/runs/0002.parquet --out codel-only
"""
)
@click.argument("source", metavar="DIR|FILE", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where the report goes [default: beside it]."
)
@format_option()
def report(source: Path, out: Path | None, form: str) -> None:
    """Make the report of recorded runs again: from a results folder, or from one run's file."""
    from sojourn import records, report, sweep

    runs = records.read_folder(source)
    folder = out or (source if source.is_dir() else source.parent)
    folder.mkdir(parents=True, exist_ok=True)
    skipped, interrupted = [], False
    results = source / records.RESULTS
    if source.is_dir() and results.exists():
        known = records.read_results(results)
        skipped, interrupted = known.get("skipped", []), known.get("interrupted", False)
    page = report.write(folder, runs, skipped, interrupted)
    show_runs(sweep.Comparison(runs, skipped, interrupted), form)
    click.echo(f"report: {page}", err=True)
