"""`sojourn check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sojourn import _core, cases, cost, queues, screen, spark, tcline
from sojourn.cli.base import (
    cli,
    format_option,
    library_option,
    load_plan,
    many,
    outside_names,
    rows_as_csv,
    scenario_argument,
    set_options,
    set_text,
    warn,
)
from sojourn.worlds import Simulator, playable

if TYPE_CHECKING:
    from sojourn.disciplines import Library

SHOWN = 40
"""Combinations that the text lists."""
HOP = ("name", "rate", "delay", "qdisc")
"""The facts that the text lists of every queue."""


@cli.command(
    epilog="""\b
Examples:
  sojourn check fading-link
  sojourn check fading-link --set hop.bottleneck.delay=50ms
"""
)
@scenario_argument
@library_option
@set_options
@format_option()
def check(
    file: Path,
    outside: tuple[Library, ...],
    sets: list[tuple[str, str]],
    seed: int | None,
    seeds: int | None,
    form: str,
) -> None:
    """Read a scenario and print what it would run.

    It prints the path, flows, base RTTs, combinations, and tc commands for a router.
    """
    plan = load_plan(file, sets, seed, seeds, outside_names(outside, None))
    runs, first = plan.runs, plan.describe(0)
    refused = _refused(plan, Simulator(outside=outside))
    if form == "json":
        value = {"title": plan.title, "runs": runs, "first": first, "skipped": plan.skipped, "warnings": plan.warnings}
        value["refused"] = refused
        value["rates"] = plan.rates(0)
        estimate = cost.of(plan)
        value["cost"] = {
            "run_cpu_s": estimate.run_s,
            "all_cpu_s": estimate.all_s,
            "packets_bytes": estimate.held_bytes,
        }
        value["commands"] = [
            {"queue": queue, "qdisc": qdisc, "line": line, "note": note}
            for queue, qdisc in _disciplines(plan, runs, first)
            for line, note in [tcline.paste(qdisc)]
        ]
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    elif form == "csv":
        rows = [[str(number), str(one["seed"]), set_text(one["set"])] for number, one in enumerate(runs)]
        click.echo(rows_as_csv(["run", "seed", "set"], rows), nl=False)
    else:
        _show_plan(runs, first)
        screen.say(f"Estimate for the simulator: {cost.of(plan).sentence}.")
        click.echo()
        _name_programs(first)
        _show_rates(plan)
        _show_commands(_disciplines(plan, runs, first))


def _name_programs(first: dict[str, Any]) -> None:
    """Names the programs that a scenario would start: the file's author decides which."""
    if programs := [one["what"] for one in first["flows"] if one["kind"] == "command"]:
        screen.say(
            f"In the world live this file starts {many(len(programs), 'program')} as you, with your environment and "
            "your files: play files only of people you trust."
        )
        click.echo()


def _refused(plan: _core.Plan, world: Simulator) -> list[dict[str, Any]]:
    """Returns the combinations that the simulator cannot play, with the reason, as JSON has them. They are printed to
    stderr too.
    """
    _, refused = playable(world, plan)
    warn([f"'sojourn run' does not play {set_text(one['set'])}: {one['reason']}" for one in refused])
    return refused


def _show_rates(plan: _core.Plan) -> None:
    """Charts of the links whose rate changes, of the first combination."""
    shown = plan.rates(0)
    for link in shown["links"]:
        click.echo("\n".join([*spark.chart(link, shown["duration_s"]), ""]))


def _disciplines(plan: _core.Plan, runs: Sequence[_core.PlannedRun], first: dict[str, Any]) -> list[tuple[str, str]]:
    """The queues whose discipline is swept, each with all its disciplines; if none is swept, the path's queues
    without those that the file does not describe."""
    path = [hop["name"] for hop in first["hops"]]
    silent = cases.undescribed(plan.text, [one["set"] for one in runs], path)
    swept = {key: queues.queue_of_key(key, path) for one in runs for key in one["set"] if key.endswith(".qdisc")}
    chosen = [json.dumps([one["set"].get(key) for key in swept]) for one in runs]
    firsts = {values: number for number, values in reversed([*enumerate(chosen)])}
    shown = [queue for queue in path if queue in swept.values()] or [queue for queue in path if queue not in silent]
    found: dict[tuple[str, str], None] = {}
    for number in sorted(firsts.values())[:SHOWN]:
        hops = plan.describe(number)["hops"]
        found |= {(hop["name"], hop["qdisc"]): None for queue in shown for hop in hops if hop["name"] == queue}
    return list(found)


def _show_commands(disciplines: list[tuple[str, str]]) -> None:
    """A line to paste for each discipline, unwrapped, or why there is none."""
    if any(tcline.paste(qdisc)[0] for _, qdisc in disciplines):
        screen.say(f"On a router, {tcline.BEFORE}")
        click.echo(f"  {tcline.CLEAR}")
    for names, group in tcline.by_queues(disciplines).items():
        click.echo()
        screen.say(f"For {tcline.where(names)}:")
        for qdisc in group:
            line, note = tcline.paste(qdisc)
            if line is None:
                screen.say(f"  {qdisc}: {note}")
            else:
                click.echo(f"  {line}" + (f"  # {note}" if note else ""))


def _beside(hop: dict[str, Any]) -> str:
    """Settings that only some queues have: a network card, impairments, flow control, a flush when the rate falls."""
    words = []
    if nic := hop["nic"]:
        words.append(f"nic ring {nic['ring']}" + (" bql" if nic["bql"] else ""))
    if hop["impair"]:
        words.append(f"impair {hop['impair']}")
    return ", ".join([*words, *(key for key in ("pause", "flush") if hop[key])])


def _show_plan(runs: Sequence[_core.PlannedRun], first: dict[str, Any]) -> None:
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
        click.echo(f"… and {more} more: -f csv lists all\n")
