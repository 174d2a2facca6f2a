"""`sojourn report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn.cli.base import cli, fail, out_option, picture_format_option, refuse_file
from sojourn.cli.run import show_runs

if TYPE_CHECKING:
    from sojourn.plot import Format


@cli.command(
    epilog="""\b
Examples:
  sojourn report results/fading-link-001
  sojourn report results/fading-link-001 --format svg
  sojourn report results/fading-link-001/runs/0002.parquet --out codel-only
"""
)
@click.argument("source", metavar="DIR|FILE", type=click.Path(path_type=Path))
@out_option("Folder of the report [default: that of the results].")
@picture_format_option
def report(source: Path, out: Path | None, form: str, picture: Format) -> None:
    """Make the report of recorded runs again.

    They are read from a results folder, or from one run's file.

    The folder pictures has each picture in the chosen format, and its numbers as CSV.
    """
    from sojourn import report
    from sojourn.api import open_results

    refuse_file(out)
    results = open_results(source)
    folder = out or (source if source.is_dir() else source.parent)
    try:
        page = report.write(folder, results.runs, results.skipped, results.interrupted, form=picture)
        show_runs(results, form)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        # Every part has its shape; that parts fit together is not checked before they are used.
        said = f"{type(error).__name__}: {error}"
        fail(f"{source}: its parts do not fit together ({said}): expected what 'sojourn run' wrote, unchanged")
    click.echo(f"report: {page}", err=True)
