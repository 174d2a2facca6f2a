"""The CoDel paper's figure 7, N11 to N16: what must hold does, and the page says what the simulator gives."""

from __future__ import annotations

from types import ModuleType

import pytest

from conftest import program


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/fading_claims.py as a module."""
    return program("tools/fading_claims.py")


@pytest.fixture(scope="module")
def claims(tool: ModuleType) -> dict[str, object]:
    """Every claim, judged anew."""
    return {claim.id: claim for claim in tool.judge()}


def test_n11_and_n16_hold(claims: dict[str, object]) -> None:
    """N11: tail drop delays by 8 to 10 s at 1 Mbit/s. N16: ten packets of buffer cost 60 to 85 % of the bytes, tail
    drop and CoDel are the same, and nothing waits longer than 108 to 132 ms."""
    for name in ("N11", "N16"):
        assert claims[name].verdict == "holds", claims[name]


def test_every_claim_has_a_verdict_and_a_cause_where_it_does_not_hold(
    tool: ModuleType, claims: dict[str, object]
) -> None:
    assert list(claims) == ["N11", "N12", "N13", "N14", "N15", "N16"]
    page = tool.PAGE.read_text(encoding="utf-8")
    for name, claim in claims.items():
        assert claim.verdict in ("holds", "differs")
        assert (f"## Why {name} differs" in page) == (claim.verdict == "differs"), claim


def test_the_page_says_what_the_simulator_gives(tool: ModuleType, claims: dict[str, object]) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.with_table(page, list(claims.values())), "run tools/fading_claims.py"


def test_verdicts_follow_their_rules_and_nothing_else(tool: ModuleType) -> None:
    """A claim's rule is not weaker than it reads: each bound is tried from both sides."""

    def seen(**changed: object) -> object:
        quantiles = {"p50": 2.7, "p75": 5.0, "p95": 90.0}
        usual = {"bytes_mb": 1000.0, "growth_mb": 100.0, "slow_max_ms": 9900.0, "time": quantiles, "packets": quantiles,
                 "first_drops_ms": (100.0, 100.0, 208.0)}  # fmt: skip
        return tool.Seen(**(usual | changed))

    def pair(**changed: object) -> list[object]:
        return [seen(**changed), seen(**changed)]

    usual = pair()
    assert tool.n11(usual).verdict == "holds"
    assert tool.n11([*usual, seen(slow_max_ms=10_001.0)]).verdict == "differs"
    assert tool.n12(usual).verdict == "holds"
    assert tool.n12(pair(time={"p50": 2.7, "p75": 10.1, "p95": 90.0})).verdict == "differs"
    assert tool.n13(usual, pair(bytes_mb=931.0)).verdict == "holds"
    assert tool.n13(usual, pair(bytes_mb=929.0)).verdict == "differs"
    assert tool.n14(usual).verdict == "holds"
    assert tool.n14([*usual, seen(first_drops_ms=(100.0, 208.1, 100.0))]).verdict == "differs"
    slower, slowest = ({"p50": 2.7, "p75": 5.0, "p95": value} for value in (200.0, 300.0))
    tail, red = pair(time=slowest, packets=slowest), pair(time=slower, packets=slower)
    assert tool.n15(tail, red, usual).verdict == "holds"
    assert tool.n15(red, tail, usual).verdict == "differs"
    assert tool.n15(tail, [seen(time=slower), seen(time=slower)], usual).verdict == "differs"
    large = {"pfifo": usual, "red": usual, "codel": usual}
    small = [seen(bytes_mb=301.0, slow_max_ms=120.0), seen(bytes_mb=299.0, slow_max_ms=120.0)]
    less = [seen(bytes_mb=299.0, slow_max_ms=120.0), seen(bytes_mb=301.0, slow_max_ms=120.0)]
    half = pair(bytes_mb=500.0, slow_max_ms=120.0)
    late = pair(bytes_mb=300.0, slow_max_ms=133.0)
    other = [seen(bytes_mb=251.0, slow_max_ms=120.0), seen(bytes_mb=249.0, slow_max_ms=120.0)]
    assert tool.n16(large, {"pfifo": small, "red": small, "codel": less}).verdict == "holds"
    assert tool.n16(large, {"pfifo": small, "red": half, "codel": less}).verdict == "differs"
    assert tool.n16(large, {"pfifo": small, "red": late, "codel": less}).verdict == "differs"
    assert tool.n16(large, {"pfifo": small, "red": small, "codel": other}).verdict == "differs"
