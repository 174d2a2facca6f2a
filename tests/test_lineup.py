"""Lines of one's own on a queue of any scenario: `run NAME --qdisc A --qdisc B`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sojourn as sj
from conftest import Run
from sojourn import cases, lineup, plan, words

TWO = """\
title = "An upload and a download"
duration = "2s"
[[hop]]
name = "fast"
rate = "1gbit"
[[hop]]
name = "home"
delay = "5ms"
down = { rate = "20mbit" }
up = { rate = "5mbit" }
[[flow]]
kind = "bulk"
"""


def test_the_queue_is_the_swept_one_or_the_slowest_in_the_direction_of_the_bulk_flows(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    assert lineup.queue_of(plan.load(path)) == "home"
    path.write_text(TWO + 'direction = "left"\n')
    assert lineup.queue_of(plan.load(path)) == "home.reverse"
    path.write_text(TWO + '[sweep]\n"hop.fast.qdisc" = ["codel", "pie"]\n')
    assert lineup.queue_of(plan.load(path)) == "fast"
    assert lineup.queue_of(plan.load(path), "home.up") == "home.reverse"
    with pytest.raises(sj.Refusal, match=r"--hop = hom: expected one of fast, fast\.reverse, home, home\.reverse"):
        lineup.queue_of(plan.load(path), "hom")


@pytest.mark.parametrize("name", sorted(plan.bundled()))
def test_every_scenario_takes_lines_of_ones_own(name: str) -> None:
    """Also those that sweep several queues together, or sweep no queue."""
    lines = ["fq_codel", "codel limit 1000"]
    made, notes = lineup.plan_of(plan.load(plan.bundled()[name]), lines)
    queue = lineup.queue_of(made)
    key = f"hop.{queue}.qdisc"
    sets = [one["set"] for one in made.runs]
    assert list(dict.fromkeys(one[key] for one in sets)) == lines
    assert notes[0] == f"{queue} plays each of these lines: fq_codel, codel limit 1000"
    about = {one["name"]: one["qdisc"] for one in made.describe(0)["hops"]}
    assert about[queue].startswith("fq_codel"), "it wins over the file's own line, under whichever name that has"


def test_the_command_compares_the_lines_and_keeps_other_sweeps(tmp_path: Path, sojourn: Run) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        TWO + '[sweep]\n"hop.home.rate" = ["10mbit", "20mbit"]\n"hop.home.qdisc" = ["pie", "sfq", "codel"]\n'
    )
    words = ("run", path, "--qdisc", "pfifo limit 100", "--qdisc", "fq_codel", "-f", "json")
    done = sojourn(*words)
    found = [one["set"] for one in json.loads(done.stdout)["runs"]]
    assert {(one["hop.home.qdisc"], one["hop.home.rate"]) for one in found} == {
        (line, rate) for line in ("pfifo limit 100", "fq_codel") for rate in ("10mbit", "20mbit")
    }
    assert "home plays each of these lines: pfifo limit 100, fq_codel" in done.stderr
    api = sj.run(path, qdisc=["pfifo limit 100", "fq_codel"])
    assert [one.set for one in api.combinations] == found
    loaded = sj.load(path, set={"hop.home.rate": "7mbit"}, seeds=2)
    one = sj.run(loaded, qdisc=["codel"])
    assert [(one.set["hop.home.rate"], len(one.indices)) for one in one.combinations] == [("7mbit", 1)], (
        "nothing is random"
    )


def test_a_queue_that_stays_empty_before_a_slower_hop_is_named(sojourn: Run, tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    empty = sojourn("run", path, "--qdisc", "fq_codel", "--hop", "fast", "-f", "csv").stderr
    assert "fast (1 Gbit/s) is faster than home (20 Mbit/s): its queue stays empty" in empty
    shaped = sojourn("run", path, "--qdisc", "cake bandwidth 19mbit", "--hop", "fast", "-f", "csv").stderr
    assert "stays empty" not in shaped


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--qdisc", "codel", "--hop", "hom"), "--hop = hom: expected one of fast, fast.reverse, home, home.reverse"),
        (("--hop", "home"), "--hop = home: expected --qdisc 'LINE' with it"),
        (("--qdisc", "fq_codle"), "fq_codel"),
        (
            ("--set", 'hop.home.qdisc=["codel", "pie"]'),
            "expected one line; to compare several: sojourn run two --qdisc 'codel' --qdisc 'pie'",
        ),
        (("--qdisc", "codel", "--set", "hop.home.down.qdisc=pie"), "--qdisc gives the lines of home"),
    ],
)
def test_wrong_lines_and_queues_are_refused_in_a_line(
    tmp_path: Path, sojourn: Run, words: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    done = sojourn("run", path, *words, "-f", "json", code=2)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_the_api_refuses_a_queue_without_lines(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    with pytest.raises(sj.Refusal, match="hop = 'home': expected qdisc="):
        sj.run(path, hop="home")


SHOWN = """\
qdisc fq_codel 8001: root refcnt 2 limit 100p flows 64 quantum 300 target 5ms interval 100ms memory_limit 4Mb ecn
 Sent 123 bytes 4 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""
"""Output of `tc -s qdisc show`."""
JSON = (
    '[{"kind":"pie","handle":"8002:","root":true,"refcnt":2,"options":{"limit":100,"target":15000,"tupdate":16000,'
    '"alpha":2,"beta":20,"ecn":false,"bytemode":false}}]'
)


def test_output_of_tc_of_several_lines_is_a_line_and_has_the_name_of_its_discipline(
    tmp_path: Path, sojourn: Run
) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    done = sojourn("run", path, "--qdisc", SHOWN, "--qdisc", JSON, "--qdisc", "codel", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Sent" not in done.stdout + done.stderr, "the counters are no part of the line"
    read = "fq_codel limit 100 flows 64 quantum 300 memory_limit 4Mb"
    assert f"home plays each of these lines: {read}, pie limit 100 tupdate 16ms, codel" in done.stderr
    first = [
        line.split("  ")[0].strip() for line in done.stdout.splitlines() if line.startswith((" fq", " pie", " co"))
    ]
    assert {"fq_codel", "pie", "codel"} <= set(first), done.stdout


def test_what_was_pasted_keeps_its_text_where_two_texts_are_the_same_line() -> None:
    key, line = "hop.a.qdisc", "codel limit 1000"
    texts = [f"qdisc codel {handle}: root limit 1000p" for handle in (1, 2)]
    same: list[dict[str, object]] = [{key: text} for text in (*texts, line)]
    assert cases.plain_sets(same, [{"a": line}] * 3) == same
    assert cases.plain_sets(same[1:2], [{"a": line}]) == [{key: line}]
    rate: list[dict[str, object]] = [{key: texts[0], "hop.a.rate": rate} for rate in ("1mbit", "2mbit")]
    assert [one[key] for one in cases.plain_sets(rate, [{"a": line}] * 2)] == [line, line]


def test_no_line_at_all_is_refused() -> None:
    with pytest.raises(sj.Refusal, match=r"qdisc = \[\]: expected one line or more"):
        sj.run("fading-link", qdisc=[])


def test_output_of_tc_is_tidied_to_a_line_for_each_discipline() -> None:
    assert words.tidied("  fq_codel   limit\n 100 ") == "fq_codel limit 100"
    assert words.tidied(SHOWN) == " ".join(SHOWN.splitlines()[0].split())
    tree = (
        "qdisc mq 0: root\n Sent 1 bytes\n backlog 0b\nqdisc sfb 0: parent :1 limit 1000p\n  increment 0.0005\n Sent 1"
    )
    assert words.tidied(tree) == "qdisc mq 0: root\nqdisc sfb 0: parent :1 limit 1000p increment 0.0005"
