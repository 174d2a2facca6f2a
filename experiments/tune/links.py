"""Judges `sojourn tune` on twelve links, with seeds that no search has seen, and writes the tables of README.md.

    python experiments/tune/links.py [--store DIR] [--link NAME ...] [--kernel N]

Each link is searched as the command does it. Then the chosen setting and today's ones are played with seeds 2001 to
2010: on the stated link, with the RTT and the rate 50 % higher or lower, and with --kernel in the kernel world too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

from sojourn import worlds
from sojourn.executors import Cores
from sojourn.line import rate_of, seconds_of
from sojourn.runs import RunsInStore
from sojourn.store import Store
from sojourn.tune import candidates, judge, search
from sojourn.tune.candidates import Candidate
from sojourn.tune.judge import Compared, Scores
from sojourn.tune.task import Task, at_rate, at_rtt, task_of_line

HERE = Path(__file__).parent
SEED, SEEDS = 2001, 10
RULES = ("sqm-scripts' rule", "cake's rule")
PLACES = {
    "stated": lambda task: task,
    "RTT -50 %": lambda task: at_rtt(task, 0.5),
    "RTT +50 %": lambda task: at_rtt(task, 1.5),
    "rate +50 %": lambda task: at_rate(task, 1.5),
    "rate -50 %": lambda task: at_rate(task, 0.5),
}


def task_of(one: Mapping[str, Any]) -> Task:
    """Returns the task of an entry of links.toml."""
    down, up, rtt = rate_of(one["down"]), rate_of(one["up"]), seconds_of(one["rtt"])
    assert down is not None
    assert up is not None
    assert rtt is not None
    return task_of_line(down, up, rtt, one["buffer"], one["access"], one["mix"])


def judged(name: str, task: Task, player: search.Player, kernel: int) -> dict[str, Any]:
    """Searches a link and judges the choice on fresh seeds."""
    found = search.search(task, candidates.DISCIPLINES, player)
    shown = candidates.unique([*candidates.baselines(task, candidates.DISCIPLINES), found.chosen])
    result: dict[str, Any] = {"title": task.title, "chosen": found.chosen.label, "runs": player.count}
    for place, change in PLACES.items():
        scores = player.play(f"{name}, {place}", change(task), shown, SEED, SEEDS)
        result[place] = against(scores, found.chosen)
    if kernel:
        played = replace_world(player).play(f"{name}, kernel", task, shown_in_kernel(shown), SEED, kernel)
        simulated = player.play(f"{name}, kernel's", task, shown_in_kernel(shown), SEED, kernel)
        result["kernel"] = against(played, found.chosen)
        result["signs"] = signs(simulated, played, found.chosen)
    return result


def replace_world(player: search.Player) -> search.Player:
    """Returns a player of the kernel world with the same store."""
    from sojourn.cli.run import world_of

    world: worlds.World = world_of("kernel", memory=1)
    return replace(player, world=world)


def shown_in_kernel(shown: list[Candidate]) -> list[Candidate]:
    """Returns the settings to play in the kernel: the choice, no shaper, and both rules."""
    return [one for one in shown if not one.baseline or one.baseline in (*RULES, "no shaper")]


def against(scores: Scores, chosen: Candidate) -> dict[str, Any]:
    """Returns the verdict against each of today's settings, and the choice's own numbers."""
    place = place_of(scores, chosen)
    found: dict[str, Any] = {"numbers": numbers(scores, place), "against": {}}
    for other, one in enumerate(scores.candidates):
        if one.baseline and other != place:
            compared = judge.compare(scores, place, other)
            found["against"][one.baseline] = {
                "verdicts": dict(compared.verdicts),
                "word": word(compared),
                "numbers": numbers(scores, other),
            }
    return found


def place_of(scores: Scores, chosen: Candidate) -> int:
    """Returns where the choice is: a setting of today may have the same lines."""
    return next(place for place, one in enumerate(scores.candidates) if one.lines == chosen.lines)


def numbers(scores: Scores, place: int) -> dict[str, float]:
    """Returns the means of a setting."""
    found = {f"goodput_{way}": scores.mean(way, place) for way in scores.goodput}
    found |= {name: scores.mean(name, place) for name in ("throughput", "sparse", "pages", "own")}
    return {name: round(mean.value, 4) for name, mean in found.items() if mean is not None}


def word(compared: Compared) -> str:
    """Returns the verdict in a word."""
    if compared.dominates:
        return "dominates"
    if compared.is_dominated:
        return "is dominated"
    return "mixed" if set(compared.verdicts.values()) - {"same", "open"} else "equal"


def signs(simulated: Scores, played: Scores, chosen: Candidate) -> dict[str, list[str]]:
    """Returns the differences beyond both worlds' intervals, by whether their signs are the same."""
    found: dict[str, list[str]] = {"same": [], "other": []}
    for one in played.candidates:
        if one.lines == chosen.lines:
            continue
        here, there = (
            judge.compare(scores, place_of(scores, chosen), place_of(scores, one)) for scores in (simulated, played)
        )
        for name in here.differences.keys() & there.differences.keys():
            means = here.differences[name], there.differences[name]
            if all(abs(mean.value) > (mean.half_width or 0.0) for mean in means):
                same = means[0].value * means[1].value > 0
                found["same" if same else "other"].append(f"{name} against {one.baseline or one.label}")
    return found


# ---- the report ----

BEGIN, END = "<!-- tables: written by links.py -->", "<!-- end of the tables -->"


def tables(results: Mapping[str, Any]) -> str:
    """Returns the tables of README.md in Markdown."""
    parts = [_choices(results), "", _verdicts(results)]
    if any("signs" in one for one in results.values()):
        parts += ["", _signs(results)]
    return "\n".join(parts)


def _choices(results: Mapping[str, Any]) -> str:
    rows = ["| link | chosen | down, up Mbit/s | ping+ p95, ms | rule of sqm-scripts | rule of cake | no shaper |"]
    rows.append("|---|---|---|--:|---|---|---|")
    for name, one in results.items():
        stated = one["stated"]
        others = [_against(stated["against"].get(rule)) for rule in (*RULES, "no shaper")]
        own = stated["numbers"]
        cells = [name, f"`{one['chosen']}`", _rates(own), f"{own['sparse']:.3g}", *others]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _rates(found: Mapping[str, float]) -> str:
    ways = [f"{found[f'goodput_{way}']:.3g}" if f"goodput_{way}" in found else "–" for way in ("right", "left")]
    return ", ".join(ways)


def _against(other: Mapping[str, Any] | None) -> str:
    if other is None:
        return "chosen"
    return f"{_rates(other['numbers'])}; {other['numbers']['sparse']:.3g} ms"


def _verdicts(results: Mapping[str, Any]) -> str:
    rows = [f"| link | {' | '.join(PLACES)} |", f"|---|{'---|' * len(PLACES)}"]
    for name, one in results.items():
        cells = []
        for place in PLACES:
            against_all = one[place]["against"]
            rules = "; ".join(against_rules(one[place]))
            beaten = [baseline for baseline, found in against_all.items() if found["word"] == "is dominated"]
            cells.append(rules + (f" (dominated by {', '.join(beaten)})" if beaten else ""))
        rows.append(f"| {name} | {' | '.join(cells)} |")
    both = [sum(set(against_rules(one[place])) == {"dominates"} for one in results.values()) for place in PLACES]
    rows.append(f"| both rules dominated | {' | '.join(f'{count} of {len(results)}' for count in both)} |")
    return "\n".join(rows)


def against_rules(place: Mapping[str, Any]) -> list[str]:
    """Returns the verdict against each rule, in a word: a rule may itself be the choice."""
    return [place["against"][rule]["word"] if rule in place["against"] else "chosen" for rule in RULES]


def _signs(results: Mapping[str, Any]) -> str:
    rows = ["| link | differences beyond both worlds' intervals | of these with another sign |", "|---|--:|---|"]
    for name, one in results.items():
        if "signs" in one:
            same, other = one["signs"]["same"], one["signs"]["other"]
            rows.append(f"| {name} | {len(same) + len(other)} | {', '.join(other) or '–'} |")
    return "\n".join(rows)


def write_report(results: Mapping[str, Any]) -> None:
    """Puts the tables into README.md, between its marks."""
    path = HERE / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8"), BEGIN, END, tables(results)), encoding="utf-8")


def main() -> None:
    """Judges the links asked for and adds them to results.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("results/tune"))
    parser.add_argument("--link", action="append", help="a link of links.toml; repeatable [default: all]")
    parser.add_argument("--kernel", type=int, default=0, metavar="N", help="seeds in the kernel world")
    asked = parser.parse_args()
    links = tomllib.loads((HERE / "links.toml").read_text())
    store = Store(asked.store)
    path = HERE / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in asked.link or links:
        player = search.Player(lambda: RunsInStore(store), Cores())
        results[name] = judged(name, task_of(links[name]), player, asked.kernel)
        words = {place: against_rules(results[name][place]) for place in PLACES}
        print(name, results[name]["chosen"], words, file=sys.stderr, flush=True)
        results = {one: results[one] for one in links if one in results}
        path.write_text(json.dumps(results, indent=1) + "\n")
        write_report(results)


if __name__ == "__main__":
    main()
