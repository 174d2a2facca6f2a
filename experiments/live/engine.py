"""Plays CUBIC through a FIFO of ours and of this host's kernel, and writes the second table of README.md.

    python experiments/live/engine.py [--seeds N] [--only NAME ...]

Each case is played in the simulator, in the live world with our pfifo, and there with the kernel's (`--engine tc`). A
seed takes about six minutes. Play on a host that does nothing else. The results are in engine.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worlds import Case, is_near, play_all

import sojourn as sj
from sojourn.live import Hosts
from sojourn.means import as_dict, as_text, mean_of
from sojourn.worlds import Simulator, World

PLAYERS: Mapping[str, World] = {"sim": Simulator(), "ours": Hosts(), "tc": Hosts(engine="tc")}
CASES: Mapping[str, Case] = {
    f"{flows}x{rate}": Case(f"{rate}mbit", "30ms", f"pfifo limit {limit}", {"cubic": flows})
    for rate, limit in ((10, 50), (50, 150), (100, 250))
    for flows in (1, 2)
}


def play(case: Case, seeds: int) -> dict[str, Any]:
    """Plays a case with all players. Returns the means, and why a live run is not valid, if one is not."""
    found: dict[str, Any] = {"words": case.words}
    for name, world in PLAYERS.items():
        results = sj.run(sj.load(case.document(), seeds=seeds), world=world, on=None if name == "sim" else 1)
        hops = [one.result["hops"]["link"] for one in results.runs]
        measured = {
            "goodput_mbit": [sum(flow["goodput_mbit"] for flow in one.result["flows"]) for one in results.runs],
            "sojourn_p50_ms": [hop["sojourn_ms"]["p50"] for hop in hops],
            "drops": [hop["drops"] for hop in hops],
        }
        means = {key: mean_of(values) for key, values in measured.items()}
        found[name] = {key: as_dict(mean) for key, mean in means.items() if mean is not None}
        if reasons := [one.truth["reasons"] for one in results.runs if one.truth.get("reasons")]:
            found[name]["invalid"] = reasons
        if name != "sim":
            found[name]["late_us"] = [one.truth["late_us"] for one in results.runs]
    return found


def table(found: Mapping[str, Any]) -> str:
    """Returns the table of README.md."""
    heads = ["case", *(f"{name}: goodput, Mbit/s; sojourn p50, ms; drops" for name in PLAYERS), "tc agrees with"]
    rows = [f"| {' | '.join(heads)} |", "|---|--:|--:|--:|---|"]
    for case in found["cases"].values():
        keys = ("goodput_mbit", "sojourn_p50_ms", "drops")
        cells = ["; ".join(as_text(case[name][key]) for key in keys) for name in PLAYERS]
        near = [name for name in ("sim", "ours") if is_near(case["tc"], case[name])]
        invalid = [name for name in PLAYERS if "invalid" in case[name]]
        note = f" (not valid: {', '.join(invalid)})" if invalid else ""
        rows.append(f"| {case['words']} | {' | '.join(cells)} | {' and '.join(near) or '**none**'}{note} |")
    return "\n".join(rows)


if __name__ == "__main__":
    play_all(__doc__, "engine", CASES, play, table, seeds=1)
