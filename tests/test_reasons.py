"""Drops have the same reasons in the simulator and in the kernel world, as far as Linux tells them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip

COARSER = {
    ("fq_codel", "memory_limit"): "overlimit",
    ("sfq", "early"): "flow_limit",
    ("sfq", "forced"): "flow_limit",
    ("choke", "forced"): "early",
    ("choke", "overlimit"): "early",
    ("sfb", "flow_limit"): "overlimit",
    ("sfb", "penalty"): "overlimit",
}
"""The name in the kernel world where Linux does not tell a discipline's reasons apart (docs/explanation/worlds.md)."""

QDISCS = [
    ("pfifo limit 20", {"overlimit"}),
    ("bfifo limit 30000", {"overlimit"}),
    ("pfifo_head_drop limit 20", {"overlimit"}),
    ("codel limit 1000", {"codel"}),
    ("codel limit 15", {"overlimit"}),
    ("fq_codel", {"codel"}),
    ("fq_codel memory_limit 40000", {"memory_limit"}),
    ("red limit 400000 min 9000 max 18000 avpkt 1000 probability 0.02", {"forced"}),
    ("red limit 400000 min 15000 max 240000 avpkt 1000 probability 0.3", {"early"}),
    ("red limit 30000 min 15000 max 600000 avpkt 1000 probability 0.02", {"overlimit"}),
    ("choke limit 1000 min 10 max 30", {"matched"}),
    ("sfb", {"early"}),
    ("pie", {"early"}),
    ("fq_pie", {"early"}),
    ("pie limit 10", {"overlimit"}),
    ("sfq limit 30", {"overlimit"}),
    ("sfq depth 10", {"flow_limit"}),
    ("cake unlimited", {"codel"}),
    ("noqueue", {"busy"}),
    ("ccaq", {"codel"}),
    ("dualpi2", {"early"}),
]
"""Lines, and a reason of each that must occur."""


def scenario(folder: Path, qdisc: str) -> Path:
    """Two flows and a stream that does not respond, on a slow link."""
    path = folder / "reasons.toml"
    path.write_text(
        f'duration = "12s"\n[[hop]]\nname = "l"\nrate = "5mbit"\ndelay = "10ms"\nqdisc = "{qdisc}"\n'
        'reverse = { qdisc = "pfifo limit 1000" }\n'
        '[[flow]]\nkind = "bulk"\ncount = 2\nrtt = "40ms"\nstart = "uniform 0s..1s"\n'
        '[[flow]]\nkind = "cbr"\nrate = "2mbit"\nsize = 1000\nrtt = "40ms"\nstart = "uniform 0s..1s"\n'
    )
    return path


def reasons(sojourn: Run, file: Path, world: str) -> dict[str, int]:
    """The drops of the queue by reason, without those that did not occur."""
    said = sojourn("run", file, "--world", world, "-f", "json").stdout
    hop: dict[str, Any] = json.loads(said)["runs"][0]["hops"]["l"]
    assert sum(hop["drops_by_reason"].values()) == hop["drops"]
    return {reason: count for reason, count in hop["drops_by_reason"].items() if count}


@pytest.mark.parametrize(("qdisc", "expected"), QDISCS)
def test_both_worlds_give_the_same_reasons(qdisc: str, expected: set[str], sojourn: Run, tmp_path: Path) -> None:
    kernel_or_skip()
    file = scenario(tmp_path, qdisc)
    ours, theirs = reasons(sojourn, file, "sim"), reasons(sojourn, file, "kernel")
    name = qdisc.split()[0]
    coarse: dict[str, int] = {}
    for reason, count in ours.items():
        coarse[COARSER.get((name, reason), reason)] = coarse.get(COARSER.get((name, reason), reason), 0) + count
    assert expected <= set(ours), (ours, theirs)
    # A reason that is rare may be absent by chance.
    common = {reason for reason, count in coarse.items() if count >= 20}
    assert common <= set(theirs), (coarse, theirs)
    assert {reason for reason, count in theirs.items() if count >= 20} <= set(coarse), (coarse, theirs)
