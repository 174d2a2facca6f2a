"""Prints the rules of all papers' claims as JSON, for tests/claims_frozen.json: the measures, their ranges and the
runs.

That file is regenerated only for a reason that docs/decisions or a paper's README gives: the ranges are those of the
list of claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sojourn import claims

FOLDERS = Path(__file__).resolve().parent.parent / "experiments"


def rules(experiment: claims.Experiment) -> dict[str, Any]:
    """Returns for each claim its kind, its runs, and the rule and range of each quantity, with infinities as None."""

    def ends(rule: claims.Rule) -> list[float | None] | None:
        return rule.range and [None if abs(end) == float("inf") else end for end in rule.range]

    return {
        claim.id: {
            "kind": claim.kind,
            "runs": sorted(claim.runs),
            "quantities": {key: {rule.kind: ends(rule)} for key, rule in claim.quantities.items()},
        }
        for claim in experiment.claims
    }


if __name__ == "__main__":
    print(json.dumps({one.name: rules(one) for one, _ in claims.select([], FOLDERS)}, indent=1, ensure_ascii=False))
