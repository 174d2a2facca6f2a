"""`sojourn agree`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn.cli.base import (
    bounded,
    cli,
    executor_options,
    fail,
    format_option,
    leave_interrupted,
    many,
    parse_sets,
    set_text,
    simulated_seconds,
    warn,
)
from sojourn.plan import find

if TYPE_CHECKING:
    from sojourn.agree import Comparison
    from sojourn.agree.judge import Pair
    from sojourn.executors import Executor


def _found(_context: click.Context, _argument: click.Parameter, words: Sequence[str]) -> tuple[Path, ...]:
    return tuple(map(find, words))


@cli.command(
    epilog="""\b
Examples:
  sojourn agree static-1.5mbit
  sojourn agree rural-low rural-high --seeds 3
  sojourn agree experiments/agree/drawn --out results/agree
"""
)
@click.argument("scenarios", nargs=-1, required=True, callback=_found)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", callback=parse_sets, help="Set a key. Repeatable.")
@click.option("--seeds", type=int, callback=bounded(1, 10_000), default=10, show_default=True, help="Seeds, from 1 on.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Pictures and numbers too: a new folder.")
@click.option("--store", type=click.Path(path_type=Path), metavar="DIR", help="Where runs are kept [default: cache].")
@click.option("--again", is_flag=True, help="Rerun kernel results that an older guest program produced.")
@click.option("--memory", type=int, callback=bounded(1, 64), default=2, show_default=True, help="GB for each guest.")
@executor_options
@format_option()
def agree(
    scenarios: tuple[Path, ...],
    sets: list[tuple[str, str]],
    seeds: int,
    out: Path | None,
    store: Path | None,
    again: bool,
    memory: int,
    executor: Executor,
    form: str,
) -> None:
    """Measure how well the simulator agrees with the real kernel.

    SCENARIOS are scenario files, names of scenarios that come with sojourn, or folders of files. Each is played in
    both worlds with the same seeds, and compared seed by seed. Finished runs are kept, so an interrupted comparison
    continues where it was.
    """
    from sojourn import agree as agreement
    from sojourn import records

    if out:
        records.refuse_full_folder(out)
    with simulated_seconds("both worlds") as tell:
        done = agreement.compare(
            _files(scenarios),
            seeds=seeds,
            folder=store,
            executor=executor,
            memory=f"{memory}G",
            sets=sets,
            again=again,
            on_progress=tell,
        )
    warn(done.warnings)
    for one in done.skipped:
        click.echo(f"sojourn: skipped {one['file']}: {set_text(one['set'])}: {one['reason']}", err=True)
    if not done.pairs and not done.interrupted:
        fail(f"nothing to compare: {done.skipped[0]['reason'] if done.skipped else 'no run in both worlds'}")
    if out:
        from sojourn.agree import page

        with records.claimed(out) as folder:
            click.echo(f"page: {page.write(folder, done)}", err=True)
    _show(done, form)
    if done.older:
        click.echo(
            f"sojourn: {many(done.older, 'run')} of the kernel by an older guest program: --again reruns them", err=True
        )
    if done.interrupted:
        leave_interrupted()


def _files(scenarios: Sequence[Path]) -> list[Path]:
    """Returns the scenario files that are named, and those in named folders."""
    found: list[Path] = []
    for path in scenarios:
        inside = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not inside:
            fail(f"{path}: expected scenario files (*.toml) in it")
        found += inside
    names = [file.stem for file in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        fail(f"{twice}: two scenario files of this name; results would be mixed up")
    return found


def _show(done: Comparison, form: str) -> None:
    from sojourn.agree import words
    from sojourn.agree.judge import rankings, summaries

    if form == "json":
        from sojourn import records

        click.echo(records.to_json(words.as_dict(done)))
    elif form == "csv":
        click.echo(words.csv_text(done.pairs), nl=False)
    elif done.pairs:
        _tables(done.pairs, summaries(done.pairs), rankings(done.pairs))


def _tables(pairs: Sequence[Pair], summary: Any, ranks: Any) -> None:
    from sojourn import screen
    from sojourn.agree import words

    screen.print_lines(screen.number_lines("simulator against kernel", *words.table(pairs)))
    screen.print_lines(screen.number_lines("over all of them", *words.summary_table(summary)))
    if ranks:
        screen.print_lines(screen.number_lines("in which order the disciplines come", *words.rank_table(ranks)))
    screen.say(words.LEGEND)
