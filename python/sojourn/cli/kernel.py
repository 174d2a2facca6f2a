"""`sojourn kernel`: the kernels of the kernel world."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sojourn import screen
from sojourn.cli.base import Verbs, bounded, cli, format_option, many, rows_as_csv
from sojourn.kernel import places, store

WEIGHTS = {"fetch": 0.07, "unpack": 0.12, "configure": 0.03, "compile": 0.75, "modules": 0.03}
"""About which share of the whole time each stage of a build takes."""


@cli.group(
    cls=Verbs,
    epilog="""\b
Examples:
  sojourn kernel build
  sojourn kernel status
""",
)
def kernel() -> None:
    """Build the kernel that --world kernel runs, or remove it."""


@kernel.command(
    epilog="""\b
Examples:
  sojourn kernel build
  sojourn kernel build --version 6.1
  sojourn kernel build --variant debug --hz 1000
"""
)
@click.option("--variant", type=click.Choice(store.VARIANTS), default="fast", show_default=True, help="For what.")
@click.option(
    "--hz", type=click.Choice([str(hz) for hz in store.RATES_HZ]), default="250", show_default=True, help="Timer ticks."
)
@click.option("--version", metavar="V", help="Linux version, such as 6.1 [default: the newest of apt, up to 7.x].")
@click.option("--source", "tree", type=click.Path(path_type=Path), metavar="TREE", help="A Linux source tree instead.")
@click.option("--update", is_flag=True, help="Look for a newer source even if a kernel is built already.")
@click.option(
    "--jobs", type=int, callback=bounded(1, 1024), metavar="N", help="Compilers at once [default: all cores]."
)
@format_option()
def build(
    variant: str, hz: str, version: str | None, tree: Path | None, update: bool, jobs: int | None, form: str
) -> None:
    """Build a kernel from a Linux source into the cache.

    The source is fetched, configured and patched. It takes some minutes, and no root.

    A kernel that is already built is not built again. Missing build tools are fetched into the cache if apt is there.
    """
    from sojourn.kernel import build as builder

    with _stages() as tell:
        folder, new = builder.build(
            variant=variant, hz=int(hz), version=version, tree=tree, update=update, jobs=jobs, tell=tell
        )
        found = store.of_folder(folder)
        assert found is not None
        from sojourn.kernel import modules

        built = modules.ensure(found)
    row = _row(folder) | {"built": new, "modules": sorted(built)}
    if form == "json":
        click.echo(json.dumps(row, indent=1))
    elif form == "csv":
        click.echo(rows_as_csv(list(row), [[_cell(value) for value in row.values()]]), nl=False)
    else:
        stages = ", ".join(f"{name} {seconds:g} s" for name, seconds in row["stages_s"].items())
        how = f"built: {stages or 'fetched'}" if new else "built already"
        click.echo(f"Linux {row['release']} ({variant}, HZ {hz}), from {row['source']}: {how}")
        click.echo(f"{row['folder']}: {_megabytes(row['bytes'])}; modules: {', '.join(row['modules']) or 'none'}")


@contextmanager
def _stages() -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr over all stages; where stderr is not a terminal, a line when a stage is done."""
    if not sys.stderr.isatty():
        done: set[str] = set()

        def say(stage: str, share: float) -> None:
            if share >= 1 and stage not in done:
                done.add(stage)
                click.echo(f"{stage}: done", err=True)

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    names = list(WEIGHTS)
    columns = (BarColumn(), TextColumn("{task.percentage:3.0f} % {task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking for a source", total=1.0)

        def tell(stage: str, share: float) -> None:
            before = sum(WEIGHTS[name] for name in names[: names.index(stage)])
            bar.update(task, description=stage, completed=before + min(share, 1.0) * WEIGHTS[stage])

        yield tell


@kernel.command(
    epilog="""\b
Examples:
  sojourn kernel status
  sojourn kernel status -f json
"""
)
@format_option()
def status(form: str) -> None:
    """Say which kernels are built, and how large they are.

    It also says from which source each was built.
    """
    rows = [_row(folder) for folder in store.folders()]
    if form == "json":
        kept = {name: _size(places.cache() / name) for name in ("sources", "modules")}
        value = {"cache": str(places.cache()), "kernels": rows, "other_bytes": kept}
        click.echo(json.dumps(value, indent=1))
        return
    heads = ["release", "variant", "hz", "source", "bytes", "digest"]
    if form == "csv":
        click.echo(rows_as_csv(heads, [[_cell(row[head]) for head in heads] for row in rows]), nl=False)
        return
    if not rows:
        click.echo(f"no kernel is built in {places.cache()}: sojourn kernel build")
    else:
        cells = [
            [
                row["release"],
                row["variant"],
                str(row["hz"]),
                row["source"],
                _megabytes(row["bytes"]),
                row["digest"][:12] + ("" if row["current"] else " (out of date)"),
            ]
            for row in rows
        ]
        screen.print_words(str(places.cache()), ["Linux", "variant", "HZ", "source", "size", "digest"], cells)
    for name in ("sources", "modules"):
        click.echo(f"{name}: {_megabytes(_size(places.cache() / name))}")


@kernel.command(
    epilog="""\b
Examples:
  sojourn kernel clean --sources
  sojourn kernel clean
"""
)
@click.option("--sources", is_flag=True, help="Only the archives of sources, and what interrupted builds left.")
@format_option()
def clean(sources: bool, form: str) -> None:
    """Remove all kernels, modules and sources from the cache."""
    folder = places.cache()
    before = _size(folder)
    gone = [] if sources else store.folders()
    for one in gone:
        store.remove(one)
    store.remove_leftovers(() if sources else ("modules",))
    freed = before - _size(folder)
    if form == "json":
        click.echo(json.dumps({"kernels": [one.name for one in gone], "freed_bytes": freed}))
    elif form == "csv":
        click.echo(rows_as_csv(["kernels", "freed_bytes"], [[str(len(gone)), str(freed)]]), nl=False)
    else:
        click.echo(f"{many(len(gone), 'kernel')} removed, {_megabytes(freed)} freed")


def _row(folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        **store.facts(folder),
        "bytes": store.size_of(folder),
        "current": store.is_current(folder),
    }


def _size(folder: Path) -> int:
    return store.size_of(folder) if folder.is_dir() else 0


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


def _cell(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)
