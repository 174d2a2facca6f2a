"""The claims that the real kernel must show: quick versions of some that hold, and the page that says what all give."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from conftest import ROOT, kernel_or_skip, program


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/kernel_claims.py as a module."""
    return program("tools/kernel_claims.py")


@pytest.fixture(scope="module")
def kernel() -> None:
    """The kernel that 'make test' built or restored."""
    kernel_or_skip()


def judged(tool: ModuleType, name: str, experiment: str, seen: Sequence[Any]) -> Any:
    """A claim's verdict from these runs, by the rule of its claims.toml."""
    path = ROOT / "experiments" / experiment.split("/")[0] / "claims.toml"
    claim = tomllib.loads(path.read_text(encoding="utf-8"))[name]
    return tool.judged(name, claim, tool.MEASURES[name]({experiment: tool.Runs(seen)}))


@pytest.mark.usefixtures("kernel")
def test_k1_drop_tail_of_25_packets_delays_by_300_ms(tool: ModuleType) -> None:
    sets = [("hop.bottleneck.delay", "22.5ms"), ("hop.bottleneck.qdisc", "pfifo limit 25"), ("duration", "60s")]
    [run] = tool.play(tool.EXPERIMENTS_BY_NAME["000-rural-codel/testbed"], 1, sets)
    assert 270 <= run.numbers["sojourn_max_ms"] <= 312


def test_the_page_says_what_the_kept_numbers_give(tool: ModuleType) -> None:
    runs = {name: tool.Runs(tool.read(tool.numbers_file(name))) for name in tool.EXPERIMENTS_BY_NAME}
    claims = tool.claims_of(runs)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.with_table(page, claims) == page, "tools/kernel_claims.py writes it anew"
    for claim in claims:
        assert claim.verdict != "differs" or claim.cause, claim.id


def test_every_experiment_of_ten_seeds_has_its_numbers(tool: ModuleType) -> None:
    for name in tool.EXPERIMENTS_BY_NAME:
        assert {one.seed for one in tool.read(tool.numbers_file(name))} == set(range(1, tool.SEEDS + 1)), name
