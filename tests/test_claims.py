"""`sojourn claims`: verdicts from the store, by rules that were written down before."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT, SMALL, Run
from sojourn import claims, sweep
from sojourn.errors import Refusal
from sojourn.store import Store

FILES = [
    path for path in sorted((ROOT / "experiments").glob("*/claims.toml")) if "runs" in tomllib.loads(path.read_text())
]
RULES = """
[runs.small]
file = "small.toml"
seeds = 3
[view.small]
of = "small"
sql = "SELECT seed, qdisc['bottleneck'] LIKE 'codel%' AS codel, hops['bottleneck'].sojourn_ms.p95 AS ms"
[Y1]
says = "CoDel is shorter"
view = "small"
holds = { "shorter by, ms" = [0, 1000] }
[Y1.is]
"shorter by, ms" = "avg(ms) FILTER (NOT codel) - avg(ms) FILTER (codel)"
"beside: codel, ms" = "avg(ms) FILTER (codel)"
[Y2]
says = "CoDel is longer"
view = "small"
holds = { "longer by, ms" = [0, 1000] }
is = { "longer by, ms" = "avg(ms) FILTER (codel) - avg(ms) FILTER (NOT codel)" }
cause = "it is not"
[Y3]
says = "by that"
view = "small"
holds = { "ms" = [0, 1000] }
is = { "ms" = "avg(ms)" }
calibrated = "on Y1"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A paper's folder."""
    path = tmp_path / "experiments" / "009-small"
    path.mkdir(parents=True)
    (path / "small.toml").write_text(SMALL)
    (path / "claims.toml").write_text(RULES)
    return path


def test_verdicts_are_means_of_differences_seed_by_seed(folder: Path, sojourn: Run) -> None:
    words = ("claims", "--store", folder / "store", "-f", "json")
    said = {one["id"]: one for one in json.loads(sojourn(*words, cwd=folder.parent.parent).stdout)["claims"]}
    runs = [
        run.result["hops"]["bottleneck"]["sojourn_ms"]["p95"]
        for run in sweep.compare(folder / "small.toml", seeds=3).runs
    ]
    expected = sweep.mean_of([pfifo - codel for pfifo, codel in zip(runs[:3], runs[3:], strict=True)])
    assert expected is not None
    found = said["Y1"]["quantities"]["shorter by, ms"]
    assert (found["mean"], found["half_width"], found["count"]) == pytest.approx(
        (expected.value, expected.half_width, 3)
    )
    assert found["range"] == [0, 1000]
    assert said["Y1"]["quantities"]["beside: codel, ms"]["range"] is None
    assert [(one["verdict"], one["cause"]) for one in said.values()] == [
        ("holds", ""),
        ("differs", "it is not"),
        ("calibrated", "on Y1"),
    ]
    again = sojourn(*words, "--check", "009", cwd=folder.parent.parent)
    assert json.loads(again.stdout)["claims"] == list(said.values()), "recomputed from the store alone"
    only = sojourn(*words, "Y2", cwd=folder.parent.parent)
    assert [one["id"] for one in json.loads(only.stdout)["claims"]] == ["Y2"]
    table = sojourn(*words[:-2], cwd=folder.parent.parent).stdout
    assert "it is not" in table
    assert "(outside)" in table


def test_a_check_plays_nothing(folder: Path) -> None:
    store = Store(folder / "store")
    with pytest.raises(Refusal, match=r"6 of the 6 runs of .*small\.toml are not there"):
        claims.judge(folder, store, check=True)
    assert store.present([]) == set()
    assert list((folder / "store" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (RULES.replace('avg(ms)"', 'avg(mss)"'), "mss"),
        (RULES.replace('"longer by, ms" = [', '"longer, ms" = ['), "'longer, ms' has a range"),
    ],
)
def test_a_rule_that_says_nothing_is_named(folder: Path, wrong: str, said: str) -> None:
    (folder / "claims.toml").write_text(wrong)
    with pytest.raises(Refusal, match=said):
        claims.judge(folder, Store(folder / "store"))


def test_what_no_claim_is_called_is_refused(folder: Path, sojourn: Run) -> None:
    words = ("claims", "X7", "--store", folder / "store")
    assert "X7: no such paper or claim" in sojourn(*words, code=2, cwd=folder.parent.parent).stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_every_rule_of_the_papers_can_be_asked(path: Path, tmp_path: Path) -> None:
    rules = tomllib.loads(path.read_text())
    with Store(tmp_path).connect() as connection:
        for name, view in rules["view"].items():
            assert (path.parent / rules["runs"][view["of"]]["file"]).is_file()
            connection.execute(f'CREATE TEMP TABLE "{name}" AS {view["sql"]} FROM runs')
        for name, claim in rules.items():
            if name not in claims.NO_CLAIM:
                assert claim["says"]
                assert claim["holds"].keys() <= claim["is"].keys()
                for sql in claim["is"].values():
                    assert connection.execute(f'SELECT {sql} FROM "{claim["view"]}" GROUP BY seed').fetchall() == []


def test_a_claim_is_judged_once() -> None:
    names = [name for path in (ROOT / "experiments").glob("*/claims.toml") for name in tomllib.loads(path.read_text())]
    judged = [name for name in names if name not in claims.NO_CLAIM]
    assert len(judged) == len(set(judged))
