"""The headline names no winner that its own tables show to be worse in pings, calls or pages, unless it says so."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest

from conftest import ROOT, compare
from sojourn import headline, noticed, paired, plan, table
from sojourn.cases import Address, Cases, Flow
from sojourn.means import mean_of

LINES = ["pfifo limit 1000", "fq_codel", "codel", "cake", "pie", "red"]
FLOWS = [
    [Flow("pings0", "pings", "right")],
    [Flow("keys", "thin", "right")],
    [Flow("call.right", "voip", "right"), Flow("call.left", "voip", "left")],
    [Flow("game", "cbr", "left")],
    [Flow("reader", "web", "right")],
    [Flow("film", "video", "right")],
    [Flow("bulk0", "bulk", "right")],
]
PEOPLE = ("pings", "thin", "datagrams", "web")
"""The keys of the tables of pings, calls and pages."""


def drawn(seed: int) -> Cases:
    """A comparison with drawn flows and numbers. Some are equal, some differ by little, and some are missing."""
    rng = random.Random(seed)
    lines = rng.sample(LINES, rng.randint(2, 5))
    rates = ["1mbit", "5mbit", "20mbit"][: rng.choice([1, 1, 1, 2, 3])]
    pairs = list(itertools.product(rates, lines))
    flows = [flow for group in FLOWS if rng.random() < 0.45 for flow in group]
    seeds = list(range(1, rng.choice([1, 2, 3, 5, 8]) + 1))
    is_random = rng.random() < 0.9
    known: dict[Address, list[list[float | None]]] = {}

    def read(address: Address) -> list[list[float | None]]:
        if address not in known:
            own = random.Random(f"{seed} {address}")  # the order of reading does not matter
            base = 10 ** own.uniform(-1, 3) if "mos" not in address.path else 3.0
            if address.path == "goodput_mbit":
                base = 0.05 if address.flows else 20.0
            spread = own.choice([0.0, 0.001, 0.02, 0.3])
            rows: list[list[float | None]] = []
            for _ in pairs:
                mean = base * own.choice([1.0, 1.0, 1.002, 1.03, 1.2, 3.0])
                row: list[float | None] = [mean * (1 + spread * own.gauss(0, 1)) for _ in seeds]
                if address.path.startswith("page_load") and own.random() < 0.1:
                    row = [None for _ in seeds]
                rows.append(row)
            known[address] = rows
        return known[address]

    sets: list[dict[str, object]] = [{"hop.a.rate": rate, "hop.a.qdisc": line} for rate, line in pairs]
    return Cases(
        title="t",
        world="sim",
        sets=sets,
        seeds=[seeds] * len(pairs),
        queues=["a", "a.reverse"],
        shown=["a"],
        qdiscs=[{"a": line} for _, line in pairs],
        flows=flows,
        random=is_random,
        read=read,
        longest_rtt_ms=50.0,
    )


def named_best(cases: Cases, said: str) -> list[int]:
    """The cases that the text names best, found by their names in it."""
    settings, choices = paired.settings(cases), paired.choices(cases)
    found = []
    for family in paired.families(cases):
        setting = settings[family[0]]
        if setting:
            match = re.search(rf"(?:: |; )([^;(]*) \([^;]*\) with {re.escape(setting)}[;.]", said)
        else:
            match = re.match(r"(.*?) (?:is best|are best|keeps? delay|have the least|has the least)", said)
        words = re.split(r", | and | or ", match[1]) if match else []
        found += [case for case in family if choices[case] in words]
    return found


def worse_in(cases: Cases, case: int) -> list[str]:
    """The columns of the tables of pings, calls and pages in which another case is shown to be better."""
    family = next(one for one in paired.families(cases) if case in one)
    found = []
    for made in (one for one in table.tables(cases) if one.key in PEOPLE):
        for name, column in {
            (row.flow or made.title.split(": ")[-1], one) for row in made.rows for one in made.columns
        }:
            if not column.better:
                continue
            values = cases.read(column.of_flows([name]))
            for other in family:
                ours, theirs = mean_of(values[case]), mean_of(values[other])
                if not ours or not theirs or not paired.differ(cases, values, case, other):
                    continue
                if (ours.value > theirs.value) == (column.better == "lower"):
                    found.append(f"{column.head} of {name}: {ours} against {theirs}")
    return found


def test_no_winner_is_worse_in_pings_calls_or_pages_unless_the_headline_says_that_it_is_a_trade() -> None:
    winners = trades = 0
    for seed in range(300):
        cases = drawn(seed)
        said = " ".join(headline.sentences(cases))
        best = named_best(cases, said)
        winners += bool(best)
        trades += "trade" in said
        if "trade" not in said:
            assert not [(seed, one, found) for one in best if (found := worse_in(cases, one))], said
    assert winners > 150
    assert 50 < trades < 290


def test_the_check_of_the_headline_finds_a_winner_that_is_worse() -> None:
    """A headline that ranks by the queue alone is found out."""
    found = 0
    for seed in range(60):
        cases = drawn(seed)
        facts = headline.facts(cases)
        for members in paired.families(cases):
            of_family = [one for one in facts if one.case in members]
            if len(of_family) > 1:
                by_queue = headline._family(cases, of_family, [])
                found += any(worse_in(cases, one.case) for one in by_queue.best)
    assert found > 10


GIGABIT = """\
title = "1 Gbit/s"
duration = "2s"
measure = ["1s", "end"]
[[hop]]
name = "edge"
rate = "1gbit"
delay = "5ms"
[[flow]]
kind = "bulk"
count = 8
[[flow]]
kind = "pings"
interval = "10ms"
[sweep]
"hop.edge.qdisc" = ["pfifo limit 1000", "fq_codel", "cake"]
"""


def test_what_people_feel_ranks_before_the_wait_in_the_queue(tmp_path: Path) -> None:
    path = tmp_path / "gigabit.toml"
    path.write_text(GIGABIT)
    done = compare(path)
    said = headline.sentences(done.cases())
    assert re.match(r"(fq_codel|cake|fq_codel and cake|cake and fq_codel) (is|are) best for pings", said[0]), said
    assert repr(done).splitlines()[1].startswith(said[0][:40]), "the API says what the command says"


def test_print_of_the_api_begins_with_the_headline_and_shows_no_idle_queue_first() -> None:
    short = [("duration", "20s"), ("measure", '["5s", "end"]')]
    done = compare(plan.bundled()["home-dsl"], short)
    lines = repr(done).splitlines()
    assert lines[1].startswith("cake is best for pings")
    assert "sojourn_ms" not in lines[1]
    assert not any(line.startswith("hops.router.reverse.sojourn_ms") for line in lines)


def felt(
    values: dict[str, dict[str, list[float]]],
    *,
    wait: dict[str, list[float]] | None = None,
    goodput: dict[str, list[float]] | None = None,
) -> Cases:
    """Cases by their discipline with these numbers of flows, as `rtt_ms.p95`. Delay and goodput are equal, unless they
    are given.
    """
    lines = list(values)
    kinds = {"rtt_ms.p95": "pings", "mos": "voip", "page_load_s.p95": "web"}
    paths = {path for of_case in values.values() for path in of_case}
    count = len(next(iter(next(iter(values.values())).values())))

    def read(address: Address) -> list[list[float | None]]:
        if address.path == "sojourn_ms.p95" and wait:
            return [list(wait[line]) for line in lines]
        if address.path == "goodput_mbit" and not address.flows and goodput:
            return [list(goodput[line]) for line in lines]
        if address.path in ("sojourn_ms.p95", "goodput_mbit") and not address.flows:
            return [[10.0] * count for _ in lines]
        return [list(values[line].get(address.path, [None] * count)) for line in lines]  # type: ignore[arg-type]

    return Cases(
        title="t",
        world="sim",
        sets=[{"hop.a.qdisc": line} for line in lines],
        seeds=[list(range(1, count + 1)) for _ in lines],
        queues=["a", "a.reverse"],
        shown=["a"],
        qdiscs=[{"a": line} for line in lines],
        flows=[Flow(kind, kind, "right") for path, kind in kinds.items() if path in paths],
        random=True,
        read=read,
        longest_rtt_ms=50.0,
    )


def test_a_contradiction_between_pings_and_pages_is_a_trade_and_names_no_winner() -> None:
    cases = felt(
        {
            "fq_codel": {"rtt_ms.p95": [10.0, 10.1, 10.2], "page_load_s.p95": [1.5, 1.51, 1.52]},
            "pie": {"rtt_ms.p95": [30.0, 30.1, 30.2], "page_load_s.p95": [0.8, 0.81, 0.82]},
        }
    )
    assert headline.sentences(cases)[0] == (
        "No case is best for pings and pages, it is a trade: RTT p95 of pings is 10.1 ms with fq_codel and 30.1 ms "
        "with pie; page p95 of web is 810 ms with pie and 1.51 s with fq_codel."
    )


def test_a_difference_that_nobody_notices_leaves_the_choice_to_the_queue_and_is_said() -> None:
    cases = felt(
        {"fq_codel": {"rtt_ms.p95": [10.4, 10.41, 10.42]}, "pie": {"rtt_ms.p95": [10.0, 10.01, 10.02]}},
        wait={"fq_codel": [5.0, 5.1, 5.2], "pie": [20.0, 20.1, 20.2]},
    )
    said = headline.sentences(cases)
    assert said[0].startswith("fq_codel keeps delay lowest")
    assert said[1] == "A trade too small to notice: RTT p95 of pings is 10.4 ms with fq_codel and 10 ms with pie."


def test_a_case_that_is_better_but_for_its_goodput_is_named_with_what_it_lacks() -> None:
    cases = felt(
        {
            "pfifo": {"rtt_ms.p95": [300.0, 300.1, 300.2]},
            "pie": {"rtt_ms.p95": [200.0, 200.1, 200.2]},
            "cake": {"rtt_ms.p95": [30.0, 30.1, 30.2]},
        },
        goodput={"pfifo": [10.0, 10.1, 10.2], "pie": [10.0, 10.1, 10.2], "cake": [5.0, 5.05, 5.1]},
    )
    said = headline.sentences(cases)
    assert said[0].startswith("pie is best for pings without losing throughput")
    assert said[1].startswith("A trade: RTT p95 of pings is 200 ms with pie and 30.1 ms with cake")
    assert said[2] == "cake has 50 % less goodput than pfifo."


@pytest.mark.parametrize("missing", ["page_load_s.p95", "mos"])
def test_a_discipline_with_which_no_page_loads_or_no_call_arrives_is_never_best(missing: str) -> None:
    cases = felt(
        {"pfifo": {"rtt_ms.p95": [10.0, 10.1]}, "cake": {"rtt_ms.p95": [10.0, 10.1], missing: [1.0, 1.0]}},
        wait={"pfifo": [1.0, 1.0], "cake": [9.0, 9.1]},
    )
    assert headline.sentences(cases)[0].startswith("cake is best for ")


def test_cases_swept_together_are_one_family_although_a_discipline_comes_twice() -> None:
    lines = [("bfifo limit 256k", "pfifo"), ("pie target 10ms", "pfifo"), ("bfifo limit 256k", "cake bandwidth 9mbit")]
    together: list[dict[str, object]] = [{"hop.modem.qdisc": one, "hop.router.qdisc": other} for one, other in lines]
    grid = [{**one, "hop.modem.rate": rate} for rate in ("10mbit", "20mbit") for one in together]
    every = itertools.product(["codel", "pie"], ["pfifo", "fq_codel"])
    independent: list[dict[str, object]] = [{"hop.modem.qdisc": one, "hop.router.qdisc": other} for one, other in every]
    for sets, families in [
        (together, [[0, 1, 2]]),
        (grid, [[0, 1, 2], [3, 4, 5]]),
        (grid[:-1], [[0, 1, 2], [3, 4]]),
        (independent, [[0, 2], [1, 3]]),
    ]:
        cases = Cases(
            title="t",
            world="sim",
            sets=sets,
            seeds=[[1]] * len(sets),
            queues=["modem", "router"],
            shown=["modem", "router"],
            qdiscs=[{} for _ in sets],
            flows=[],
            random=True,
            read=lambda _: [],
            longest_rtt_ms=50.0,
        )
        assert paired.families(cases) == families


def test_datagrams_that_are_load_are_no_game(tmp_path: Path) -> None:
    path = ROOT / "scenarios/unresponsive-l4s.toml"
    short = [("duration", "3s"), ("measure", '["1s", "end"]')]
    cases = compare(path, short).cases()
    assert any(flow.kind == "cbr" for flow in cases.flows)
    assert not [one for one in noticed.measures(cases) if one.people == "datagrams"]
