"""`sojourn check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sojourn import screen
from sojourn.cli.base import (
    cli,
    format_option,
    load_plan,
    many,
    rows_as_csv,
    scenario_argument,
    set_options,
    set_text,
)

SHOWN = 40
"""Combinations that the text lists."""
HOP = ("name", "rate", "delay", "qdisc")
"""What the text says of every queue."""


@cli.command(
    epilog="""\b
Examples:
  sojourn check fading-link
  sojourn check fading-link --set hop.bottleneck.delay=50ms
"""
)
@scenario_argument
@set_options
@format_option()
def check(file: Path, sets: list[tuple[str, str]], seed: int | None, seeds: int | None, form: str) -> None:
    """Read a scenario and print what would run: path, flows, base RTTs, combinations."""
    plan = load_plan(file, sets, seed, seeds)
    runs, first = json.loads(plan.runs()), json.loads(plan.describe(0))
    if form == "json":
        value = {"title": plan.title, "runs": runs, "first": first, "skipped": json.loads(plan.skipped())}
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    elif form == "csv":
        rows = [[str(number), str(one["seed"]), set_text(one["set"])] for number, one in enumerate(runs)]
        click.echo(rows_as_csv(["run", "seed", "set"], rows), nl=False)
    else:
        _show_plan(runs, first)


def _beside(hop: dict[str, Any]) -> str:
    """What only some queues have: a card below, impairments, flow control, a fall of the rate that clears them."""
    words = []
    if nic := hop["nic"]:
        words.append(f"nic ring {nic['ring']}" + (" bql" if nic["bql"] else ""))
    if hop["impair"]:
        words.append(f"impair {hop['impair']}")
    return ", ".join([*words, *(key for key in ("pause", "flush") if hop[key])])


def _show_plan(runs: list[dict[str, Any]], first: dict[str, Any]) -> None:
    sets = list({json.dumps(one["set"]): one["set"] for one in runs}.values())
    seeds = sorted({one["seed"] for one in runs})
    click.echo(
        f"{first['title']}: {many(len(runs), 'run')} of {first['duration_s']:g} s "
        f"({many(len(sets), 'combination')} × {many(len(seeds), 'seed')}, from seed {seeds[0]})"
    )
    beside = [_beside(hop) for hop in first["hops"]]
    head, path = ["queue", "rate", "delay", "discipline"], [[hop[key] for key in HOP] for hop in first["hops"]]
    if any(beside):
        head, path = [*head, "beside"], [[*row, words] for row, words in zip(path, beside, strict=True)]
    screen.print_words("path, left to right" + (" (first combination)" if len(sets) > 1 else ""), head, path)
    screen.print_words(
        f"flows (seed {seeds[0]})",
        ["name", "kind", "cc", "direction", "base RTT", "what"],
        [
            [one["name"], one["kind"], one["cc"] or "–", one["direction"], f"{one['base_rtt_ms']:g} ms", one["what"]]
            for one in first["flows"]
        ],
    )
    if sets == [{}]:
        return
    rows = [[str(n), set_text(one)] for n, one in enumerate(sets, 1)]
    more = len(rows) - SHOWN
    screen.print_words("combinations", ["", "set"], rows if more <= 0 else rows[:SHOWN])
    if more > 0:
        click.echo(f"… and {more} more: -f csv lists all")
