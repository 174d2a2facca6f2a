"""Writes a world's verdicts on a paper's claims: tools/claims_page.py experiments/001-codel [WORLD [STORE]].

WORLD is sim, kernel or live. The store (results/store) must have the runs: `sojourn claims 001 --world WORLD` plays
them. The verdicts go to `verdicts.WORLD.json` in the paper's folder, in the format of `sojourn claims -f json`, and the
table in README.md is made from the files of all worlds. A claim whose runs are not in the store keeps its verdict if
its rules are unchanged, and is reported: the runs of a paper need not be in one store."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pages import filled

from sojourn import _core, claims, records
from sojourn.cli.claims import as_dict, told
from sojourn.cli.run import world_of
from sojourn.means import Mean
from sojourn.store import FACTS, Store

BEGIN, END = "<!-- verdicts: written by tools/claims_page.py -->", "<!-- end of verdicts -->"
WHOLE = ("sim", "kernel")
"""The worlds in which every claim of a paper is judged. In real time only some are."""
WORLDS = (*WHOLE, "live")


def judged(folder: Path, world: str, store: Store) -> dict[str, Any]:
    """Returns a verdict for every claim of a paper, from the store's runs or else the recorded one."""
    experiment = claims.load(folder)
    found = claims.gather(experiment, experiment.needs, store, world_of(world, memory=1), play=False)
    # In real time only a part of a paper is played; what needs no runs is said of the other worlds.
    asked = [claim for claim in experiment.claims if claim.runs or world != "live"]
    ready = [claim for claim in asked if not found.lacking.keys() & set(claim.runs)]
    said = {claim.id: as_dict(claims.judge(experiment, claim, found, world)) for claim in ready}
    if world == "live":
        # A feature that this machine's kernel lacks gives no verdict.
        said = {claim: one for claim, one in said.items() if one["verdict"] != "not-expressible"}
    before = written(folder, world)
    kept = [one for one in experiment.claims if one not in ready and one.id in before and still(before[one.id], one)]
    said |= {claim.id: before[claim.id] | reworded(before[claim.id], claim) for claim in kept}
    left = [claim.id for claim in experiment.claims if claim.id not in said]
    for ids, what in (([claim.id for claim in kept], "kept as they were"), (left, "not judged")):
        if ids:
            print(f"{folder.name}, world {world}: {what}: {', '.join(ids)}")
    verdicts = [said[claim.id] for claim in experiment.claims if claim.id in said]
    return {"paper": folder.name, "world": world, "version": _core.__version__, "claims": verdicts}


def still(one: Mapping[str, Any], claim: claims.Claim) -> bool:
    """Whether a verdict was reached by the current rules of the claim."""
    if one["kind"] != claim.kind or one["verdict"] == "not-expressible":
        return one["kind"] == claim.kind
    then = [_told(key, quantity) for key, quantity in one["quantities"].items()]
    now = [claims.told(claim, each.key, each.mean.value) for each in then]
    return claim.quantities.keys() <= one["quantities"].keys() and all(
        (a.rule, a.range) == (b.rule, b.range) for a, b in zip(then, now, strict=True)
    )


def reworded(one: Mapping[str, Any], claim: claims.Claim) -> dict[str, Any]:
    """Returns the current text of a verdict's claim. The reason why a world lacks it is that of the world."""
    keys = ("cause", "ablation") if one["verdict"] == "differs" else ()
    quantities = {
        key: quantity | ({"label": claim.quantities[key].label} if key in claim.quantities else {})
        for key, quantity in one["quantities"].items()
    }
    texts = {key: getattr(claim, key).get(one["world"]) for key in keys}
    return {"says": claim.says, "quantities": quantities, **texts}


def written(folder: Path, world: str) -> dict[str, dict[str, Any]]:
    """Returns the verdicts in a world's file, by claim; empty if there is no such file."""
    path = folder / f"verdicts.{world}.json"
    if not path.exists():
        return {}
    return {one["id"]: one for one in json.loads(path.read_text(encoding="utf-8"))["claims"]}


def table(folder: Path) -> str:
    """Formats a row for each claim and each world with a verdict."""
    said = {world: written(folder, world) for world in WORLDS}
    rows = ["| | the paper | world | measured, and its range | verdict | cause |", "|---|---|---|---|---|---|"]
    for claim in claims.load(folder).claims:
        front = f"{claim.id} | {claim.says}"
        for world, verdicts in said.items():
            if (one := verdicts.get(claim.id)) is not None:
                measured = "<br>".join(words(one))
                rows.append(f"| {front} | {world} | {measured} | **{one['verdict']}** | {one['cause'] or ''} |")
                front = " | "
    return "\n".join(rows)


def words(one: Mapping[str, Any]) -> list[str]:
    """Returns a claim's quantities, without supplementary ones unless it is only reported."""
    chosen = {n: q for n, q in one["quantities"].items() if q["rule"] or one["kind"] in ("report", "inconsistent")}
    return [told(_told(key, quantity)).replace("OUTSIDE", "**outside**") for key, quantity in chosen.items()]


def _told(key: str, one: Mapping[str, Any]) -> claims.Told:
    mean = Mean(one["mean"], one["half_width"], one["count"])
    low, high = one["range"] or (None, None)
    bounds = (-float("inf") if low is None else low, float("inf") if high is None else high) if one["range"] else None
    rule, inside, missing = one["rule"] or "", one["inside"] is not False, one.get("missing", 0)
    return claims.Told(key, one["label"], mean, one["least"], one["greatest"], bounds, rule, inside, missing)


def main(folder: str, world: str = "sim", store: str = "results/store") -> None:
    """Writes the verdicts and the table."""
    if world not in WORLDS:
        sys.exit(f"{world}: expected one of {', '.join(WORLDS)}")
    if not (Path(store) / FACTS).is_file():
        sys.exit(f"{store}: no store is there, and without one the verdicts would be lost")
    here = Path(folder)
    text = records.to_json(judged(here, world, Store(Path(store)))) + "\n"
    (here / f"verdicts.{world}.json").write_text(text, encoding="utf-8")
    page = here / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), BEGIN, END, table(here)), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
