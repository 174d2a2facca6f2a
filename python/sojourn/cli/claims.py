"""`sojourn claims`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import screen
from sojourn.cli.base import (
    bounded,
    cli,
    executor_options,
    experiments_option,
    fail,
    format_option,
    gather_runs,
    leave_interrupted,
    many,
    open_store,
    rows_as_csv,
    store_option,
    warn,
)
from sojourn.cli.run import memory_option, world_of, world_option

if TYPE_CHECKING:
    from sojourn.claims import Claim, Experiment, Judgement, Told
    from sojourn.executors import Executor
    from sojourn.store import Store
    from sojourn.worlds import World


@cli.command(
    epilog="""\b
Examples:
  sojourn claims 001
  sojourn claims N1 002/C7
  sojourn claims 001 --check -f json
"""
)
@click.argument("words", nargs=-1, metavar="[PAPER|ID]...")
@world_option
@memory_option
@click.option("--check", is_flag=True, help="Play nothing: every verdict from what the store has.")
@click.option(
    "--seeds",
    type=int,
    callback=bounded(1, 1_000_000),
    metavar="N",
    help="The number of seeds, instead of that in claims.toml.",
)
@store_option
@experiments_option
@executor_options
@format_option()
def claims(
    words: tuple[str, ...],
    world: str,
    memory: int,
    check: bool,
    seeds: int | None,
    store: Path,
    experiments: Path,
    executor: Executor,
    form: str,
) -> None:
    """Judge what papers claim.

    The answer has what each claim says, what was measured, and whether it holds.

    PAPER is a number (001), the name of a folder below experiments, or a path; ID is a claim's (N20), or several'
    (C7 is C7 fq, C7 fq_codel and C7 ccaq). Without any, all are judged. Runs that a claim needs and the store lacks
    are played first. If one that must hold does not, the exit code is 2.
    """
    from sojourn import claims as judging
    from sojourn.kernel import find as find_kernel

    chosen = judging.select(words, experiments)
    opened = open_store(store, there=check)
    where = world_of(world, memory=memory)
    if not check:
        if world == "kernel":
            find_kernel()  # refuses before anything is said
        _announce(chosen, world, seeds)
    judged, interrupted = _judge_all(chosen, opened, where, seeds=seeds, executor=executor, play=not check)
    warn(opened.damaged)
    _show(judged, form)
    if interrupted:
        leave_interrupted()
    if wrong := [one.claim.id for one in judged if one.claim.kind == "must" and one.verdict == "differs"]:
        fail(f"{', '.join(wrong)} must hold, or sojourn is wrong")


def _announce(chosen: Sequence[tuple[Experiment, list[Claim]]], world: str, seeds: int | None) -> None:
    """Says on stderr what is going to be played at most, before it is."""
    from sojourn import claims as judging

    for experiment, claims in chosen:
        needs = {name for claim in claims if claim.kind != "not-expressible" for name in claim.runs}
        runs, seconds = judging.length_of(experiment, needs, world, seeds)
        took = "in real time" if world == "live" else "simulated"
        click.echo(
            f"{experiment.name}: {many(len(claims), 'claim')} from {many(runs, 'run')} of {seconds:,.0f} s {took} in "
            "all; only runs that the store lacks are played ('sojourn list claims' lists all claims)",
            err=True,
        )


def _judge_all(
    chosen: Sequence[tuple[Experiment, list[Claim]]],
    store: Store,
    world: World,
    *,
    seeds: int | None,
    executor: Executor,
    play: bool,
) -> tuple[list[Judgement], bool]:
    from sojourn import claims as judging

    judged: list[Judgement] = []
    for experiment, claims in chosen:
        needs = {name for claim in claims if claim.kind != "not-expressible" for name in claim.runs}
        what = many(len(claims), "claim")
        found = gather_runs(experiment, needs, store, world, what, seeds=seeds, executor=executor, play=play)
        if found.interrupted:
            return judged, True
        for name in found.lacking:
            fail(f"{store.folder}: {judging.lacking(experiment, name, found, world.name)}")
        judged += [judging.judge(experiment, claim, found, world.name) for claim in claims]
    return judged, False


def _show(judged: Sequence[Judgement], form: str) -> None:
    from sojourn import records

    if form == "json":
        click.echo(records.to_json({"claims": [as_dict(one) for one in judged]}))
    elif form == "csv":
        click.echo(_as_csv(judged), nl=False)
    elif judged:
        heads = ["", "the paper", "measured", "verdict", "cause"]
        rows = [
            [one.claim.id, one.claim.says, "\n".join(map(told, one.quantities)), one.verdict, one.cause]
            for one in judged
        ]
        papers = ", ".join(dict.fromkeys(one.paper for one in judged))
        screen.print_words(f"{papers} · world {judged[0].world}", heads, rows)
        counts = Counter(one.verdict for one in judged)
        click.echo(
            f"{many(len(judged), 'claim')}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}\n"
            "means over seeds, ± half-width of the 95 % interval; in brackets the range that claims.toml has"
        )


def told(one: Told) -> str:
    """A quantity in words: its mean, interval, and range."""
    text = f"{one.name}: {_number(one.mean.value, one.mean.half_width)}"
    if one.rule == "each" and one.mean.count > 1:
        text += f", from {_number(one.least)} to {_number(one.greatest)}"
    if one.missing:
        text += f" ({one.missing} of {one.mean.count + one.missing} seeds have none)"
    if one.rule:
        text += f" [{_rule(one)}]{'' if one.inside else ' OUTSIDE'}"
    return text


def _rule(one: Told) -> str:
    if one.range is None:
        return "no difference"
    low, high = one.range
    if high == float("inf"):
        return f"at least {low:g}"
    if low == float("-inf"):
        return f"at most {high:g}"
    return f"{low:g} to {high:g}{' in each' if one.rule == 'each' else ''}"


def _number(value: float, half_width: float | None = None) -> str:
    """About four digits."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    text = f"{value:.{digits}f}"
    if half_width is None:
        return text
    return f"{text} ± {half_width:.{digits}f}" if half_width >= 0.5 * 10**-digits else f"{text} ± < {10**-digits:g}"


def as_dict(one: Judgement) -> dict[str, Any]:
    """A judgement as JSON has it."""
    quantities = {
        each.key: {
            "label": each.name,
            "mean": each.mean.value,
            "half_width": each.mean.half_width,
            "count": each.mean.count,
            "missing": each.missing,
            "least": each.least,
            "greatest": each.greatest,
            # JSON has no infinity: an open end is null.
            "range": each.range and [None if abs(bound) == float("inf") else bound for bound in each.range],
            "rule": each.rule or None,
            "inside": each.inside if each.rule else None,
        }
        for each in one.quantities
    }
    claim = one.claim
    return {
        "paper": one.paper,
        "id": claim.id,
        "says": claim.says,
        "world": one.world,
        "kind": claim.kind,
        "verdict": one.verdict,
        "quantities": quantities,
        "cause": one.cause or None,
        "ablation": claim.ablation.get(one.world) or None,
        "tests": claim.tests or None,
    }


def _as_csv(judged: Sequence[Judgement]) -> str:
    heads = ["paper", "id", "world", "verdict", "quantity", "mean", "half_width", "count", "least", "greatest"]
    rows = []
    for one in judged:
        front = [one.paper, one.claim.id, one.world, one.verdict]
        for each in one.quantities:
            numbers = (each.mean.value, each.mean.half_width, each.mean.count, each.least, each.greatest)
            rows.append([*front, each.name, *("" if value is None else repr(value) for value in numbers)])
        if not one.quantities:
            rows.append([*front, *[""] * 6])
    return rows_as_csv(heads, rows)
