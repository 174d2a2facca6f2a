"""Compares chosen lines on one queue of a scenario, in place of what the scenario itself sweeps there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn import _core, identity, queues, words
from sojourn.errors import Refusal, nearest_of
from sojourn.line import constant_bps
from sojourn.words import rate_text

LOADS = ("bulk", "download", "upload", "video", "web", "sizes")
"""Kinds of flows that fill a queue, bulk flows first: the direction of the first kind that exists counts."""


def queue_of(plan: _core.Plan, hop: str | None = None) -> str:
    """Returns the queue whose discipline is compared.

    It is the named one; or else the first whose discipline the scenario sweeps; or else that of the slowest hop in the
    direction of the bulk flows. A rate that changes counts as the slowest. Raises Refusal for a queue that there is
    not.
    """
    about = plan.describe(0)
    rates: dict[str, Any] = {one["name"]: one["rate"] for one in about["hops"]}
    if hop is not None:
        found = queues.named(hop, list(rates))
        if found is None:
            raise Refusal(f"--hop = {hop}: expected one of {', '.join(rates)}{nearest_of(hop, list(rates))}")
        return found
    for key in _sweep(identity.document_of_plan(plan)):
        queue = queues.queue_of_key(key, list(rates)) if key.endswith(".qdisc") else None
        if queue is not None:
            return queue
    left = _fills_the_left(about["flows"])
    among = [name for name in rates if name.endswith(queues.REVERSE) == left]
    return min(among, key=lambda name: constant_bps(rates[name]) or 0.0)


def _fills_the_left(flows: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the bulk flows, or else others that fill a queue, go to the left only."""
    for kind in LOADS:
        ways = {one["direction"] for one in flows if one["kind"] == kind}
        if ways:
            return ways == {"left"}
    return False


def _faster(plan: _core.Plan, queue: str, lines: Sequence[str]) -> list[str]:
    """Says that a queue stays empty because a slower hop has the queue, unless a line is a shaper."""
    rates: dict[str, Any] = {one["name"]: one["rate"] for one in plan.describe(0)["hops"]}
    along = {
        name: bps
        for name, rate in rates.items()
        if name.endswith(queues.REVERSE) == queue.endswith(queues.REVERSE) and (bps := constant_bps(rate))
    }
    slowest = min(along, key=lambda name: along[name], default=queue)
    shapes = any(re.search(r"\b(rate|bandwidth)\b", line) for line in lines)
    if queue not in along or along[slowest] >= along[queue] or shapes:
        return []
    return [
        f"{queue} ({rate_text(along[queue] / 1e6)}) is faster than {slowest} ({rate_text(along[slowest] / 1e6)}): its "
        "queue stays empty unless a line is a shaper, such as htb with a rate or cake with a bandwidth. --hop "
        f"{slowest} compares the lines where the queue is"
    ]


def _read_as(made: _core.Plan, queue: str, line: str) -> str:
    """Returns a pasted line as the discipline that a queue of the plan has by it."""
    place = next(place for place, one in enumerate(made.runs) if one["set"].get(queues.qdisc_key(queue)) == line)
    return next(str(hop["qdisc"]) for hop in made.describe(place)["hops"] if hop["name"] == queue)


def _sweep(document: Mapping[str, Any]) -> dict[str, Any]:
    sweep = document.get("sweep", {})
    return {key: value for key, value in sweep.items() if key not in ("zip", "seeds")}


def plan_of(
    plan: _core.Plan,
    lines: Sequence[str],
    hop: str | None = None,
    *,
    sets: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
    seeds: int | None = None,
) -> tuple[_core.Plan, list[str]]:
    """Returns a plan that compares these lines on one queue (`queue_of`), and sentences about what else that changes.

    The lines replace the sweep of this queue's discipline. Disciplines of other queues that the scenario sweeps
    together with it (`zip`) are no longer swept: they are what the scenario says without a sweep. Other keys are swept
    as before. `sets`, `seed` and `seeds` are those with which `plan` was read. Raises Refusal for a queue that there is
    not, and if `sets` has its discipline.
    """
    if not lines:
        raise Refusal("qdisc = []: expected one line or more, such as fq_codel")
    queue = queue_of(plan, hop)
    names = [one["name"] for one in plan.describe(0)["hops"]]
    for key, value in sets:
        if key.endswith(".qdisc") and queues.queue_of_key(key, names) == queue:
            raise Refusal(f"--set {key}={value}: --qdisc gives the lines of {queue}: expected one of the two options")
    scenario = identity.document_of_plan(plan)
    swept = _sweep(scenario)
    own = [key for key in swept if key.endswith(".qdisc") and queues.queue_of_key(key, names) == queue]
    zips = [list(group) for group in scenario.get("sweep", {}).get("zip", [])]
    together = [key for group in zips if any(key in own for key in group) for key in group if key not in own]
    kept = {key: value for key, value in scenario.get("sweep", {}).items() if key not in (*own, *together, "zip")}
    groups = [group for group in zips if not any(key in own for key in group)]
    if groups:
        kept["zip"] = groups
    chosen = list(dict.fromkeys(map(words.tidied, lines)))
    scenario["sweep"] = {queues.qdisc_key(queue): chosen, **kept}
    made = _core.Plan.parse(
        _core.to_toml(scenario), plan.file, list(sets), seed, seeds, lines=False, outside=plan.outside_names
    )
    named = ", ".join(_read_as(made, queue, one) if words.is_pasted(one) else one for one in chosen)
    notes = [f"{queue} plays {'each of these lines' if len(chosen) > 1 else 'this line'}: {named}"]
    notes += _faster(made, queue, chosen)
    if together:
        notes.append(
            f"{', '.join(together)}: no longer swept, since it moved together with {queue}; the scenario's own "
            "value is played (--set gives another)"
        )
    return made, notes
