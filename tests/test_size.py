"""`sojourn size`: rules of thumb, conditions, and what a buffer of each size does."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from sojourn import identity, sizing
from sojourn.errors import Refusal
from sojourn.means import Mean
from sojourn.plan import load

LINK = """
title = "one long flow"
duration = "40s"
measure = ["10s", "end"]
[[hop]]
name = "line"
rate = "10mbit"
delay = "20ms"
qdisc = "pfifo limit 50"
[[flow]]
kind = "bulk"
cc = "reno"
rtt = "80ms"
jitter = "1ms"
[sweep]
"hop.line.qdisc" = ["codel", "pie"]
"""
BDP = 100_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "line.toml"
    path.write_text(LINK)
    return path


def link(flows: int = 1) -> sizing.Link:
    return sizing.Link("line", 10e6, 0.08, flows)


def test_the_rules_are_those_of_their_sources() -> None:
    found = {rule.name: rule.bytes for rule in sizing.rules(1e6, 100)}
    assert found == {
        "BDP": 1e6,
        "BDP / √n": 1e5,
        "BDP / 16": 62_500,
        "BDP (1/β - 1) / √n": pytest.approx(1e5 * 3 / 7),
    }
    assert sizing.rules(1e6, 1, beta=0.5)[3].bytes == pytest.approx(1e6), "Reno halves its window: one BDP"


def test_the_link_is_the_slowest_hop_and_flows_are_counted(file: Path, tmp_path: Path) -> None:
    file.write_text(LINK.replace('jitter = "1ms"\n', ""))
    assert sizing.link_of(load(file), None, None) == link()
    assert link().bdp_bytes == BDP
    hops = '[[hop]]\nname = "fast"\nrate = "1gbit"\n'
    group = '[[group]]\nname = "users"\nmax_active = 30\n'
    users = '[[flow]]\nkind = "sizes"\nrate = 5\ngroup = "users"\nrtt = "80ms"\n[sweep]'
    more = tmp_path / "more.toml"
    more.write_text(file.read_text().replace("[[hop]]", f"{hops}{group}[[hop]]").replace("[sweep]", users))
    assert sizing.link_of(load(more), None, None) == link(flows=31)
    assert sizing.link_of(load(more), None, 7).flows == 7
    assert sizing.link_of(load(more), "fast", None).rate_bps == 1e9
    assert sizing.link_of(load(more), "line.reverse", None).hop == "line.reverse"


def test_the_grid_has_the_rules_and_no_size_below_two_packets() -> None:
    limits = sizing.limits(link(flows=4))
    assert limits == sorted(set(limits))
    assert limits[0] >= 2 * sizing.PACKET_BYTES
    assert limits[-1] == 4 * BDP
    for rule in sizing.rules(BDP, 4):
        assert sizing.rounded(rule.bytes) in limits, rule.name
    assert sizing.limits(link(), "60kB, 1bdp,30000") == [30_000, 60_000, 100_000]


def test_a_condition_is_met_by_the_whole_interval() -> None:
    want = sizing.Want("x <= 5", "x", at_most=True, bound=5)
    answers = {
        (4.0, 0.9, 3): "yes",
        (4.5, 0.6, 3): "open",
        (5.5, 0.6, 3): "open",
        (6.0, 0.9, 3): "no",
        (4.0, 0.1, 2): "open",
        (4.0, None, 1): "open",
    }
    for (value, half_width, count), answer in answers.items():
        assert want.answer(Mean(value, half_width, count), 1 if count == 1 else 3) == answer, (value, half_width, count)
    assert want.answer(None, 3) == "open"
    assert want.answer(Mean(5.0, None, 1), 1, random=False) == "yes", "without chance one seed says all"
    least = sizing.Want("x >= 5", "x", at_most=False, bound=5)
    assert [least.answer(Mean(value, 0.5, 3), 3) for value in (4.0, 4.8, 6.0)] == ["no", "open", "yes"]


def found(*answers: sizing.Answer) -> sizing.Found:
    want = sizing.Want("x <= 5", "x", at_most=True, bound=5)
    sizes = [sizing.Size(1000 * (place + 1), 0.1, (), {}, {want.text: one}) for place, one in enumerate(answers)]
    return sizing.Found(link(), (want,), tuple(sizes))


def test_the_region_is_the_longest_run_of_sizes_that_meet_all_conditions() -> None:
    some = found("yes", "no", "yes", "yes", "yes", "open", "yes")
    assert [one.bytes for one in some.region] == [3000, 4000, 5000]
    assert some.chosen is not None
    assert some.chosen.bytes == 4000
    assert sizing.headline(some).startswith("3 kB to 5 kB (0.1 BDP) meet all that is wanted: set 4 kB.")
    none = found("no", "open")
    assert (none.region, none.chosen) == ([], None)
    assert sizing.headline(none).startswith("No size is shown to meet all that is wanted: one seed has no interval.")
    never = found("no", "no")
    assert sizing.headline(never).startswith("No size meets all that is wanted (x <= 5: no size).")


def measured(*values: tuple[float, float | None, float], seeds: int) -> sizing.Found:
    """Sizes with a mean and half-width of x, which is to be at most 5, and the utilisation."""
    want = sizing.Want("x <= 5", "x", at_most=True, bound=5)
    sizes = []
    for place, (value, half, busy) in enumerate(values):
        mean = Mean(value, half, seeds)
        measures = {"x": mean, "hops.line.utilisation": Mean(busy, None, seeds)}
        sizes.append(sizing.Size(1000 * (place + 1), 0.1, (), measures, {want.text: want.answer(mean, seeds)}))
    return sizing.Found(link(), (want,), tuple(sizes), seeds)


def test_one_seed_leaves_every_size_open_and_says_so() -> None:
    one = measured((2.0, None, 0.95), (4.0, None, 0.95), (9.0, None, 0.95), seeds=1)
    assert [size.meets for size in one.sizes] == ["open"] * 3
    assert sizing.headline(one).startswith(
        "No size is shown to meet all that is wanted: one seed has no interval. 1 kB to 2 kB (0.1 BDP) do so in this "
        "run, and are open: use --seeds 20."
    )
    assert (one.chosen, sizing.as_dict(one)["chosen_bytes"], sizing.as_dict(one)["open_region"]) == (
        None,
        None,
        [1000, 2000],
    )


def test_open_sizes_are_named_with_about_the_seeds_that_would_decide() -> None:
    some = measured((4.0, 1.5, 0.95), (9.0, 1.5, 0.95), seeds=5)
    more = some.more_seeds
    assert more == 20, "the interval of five seeds shrinks below 1 before that"
    assert "1 kB (0.1 BDP) does so on average, and is open: use --seeds 20." in sizing.headline(some)
    hopeless = measured((4.99, 1.5, 0.95), (9.0, 1.5, 0.95), seeds=5)
    assert "no number of seeds up to 1000 is likely to decide" in sizing.headline(hopeless)
    noisy = measured((4.8, 1.5, 0.95), seeds=5)
    assert (noisy.more_seeds or 0) > 20


def test_a_size_that_leaves_the_link_idle_is_warned_about() -> None:
    idle = measured((2.0, 0.1, 0.17), (9.0, 0.1, 0.95), seeds=5)
    assert "set 1 kB" in sizing.headline(idle)
    assert "Warning: with 1 kB the link is busy only 17 % of the time, with 2 kB 95 %." in sizing.headline(idle)
    both = measured((2.0, 0.1, 0.17), (3.0, 0.1, 0.9), (9.0, 0.1, 0.95), seeds=5)
    assert both.chosen == both.sizes[1], "of the sizes that meet all, one that keeps the link busy"
    assert "Warning" in sizing.headline(measured((2.0, None, 0.17), (9.0, None, 0.95), seeds=1))
    assert "Warning" not in sizing.headline(measured((2.0, 0.1, 0.9), (9.0, 0.1, 0.95), seeds=5))


def test_every_text_of_several_seeds_has_intervals_and_the_utilisation(
    sojourn: Run, file: Path, tmp_path: Path
) -> None:
    words = ("size", file, "--store", tmp_path / "store", "--sizes", "20kB,80kB", "--want", "sojourn_ms.p95 <= 40")
    one = sojourn(*words).stdout
    assert "No size is shown to meet all that is wanted: one seed has no interval." in one
    assert "one seed of random traffic: there is no interval" in one
    assert "tc qdisc" not in one, "nothing is advised"
    three = sojourn(*words, "--seeds", 3).stdout
    assert "means over 3 seeds, ± half-width of the 95 % interval" in three
    conditions = three[three.index("conditions") :]
    assert "link busy %" in conditions
    assert "±" in three
    assert "oscil-" not in three


def test_one_reno_flow_needs_a_buffer_of_a_bdp(sojourn: Run, file: Path, tmp_path: Path) -> None:
    """Villamizar and Song (1994): a window that halves to the BDP keeps the link busy."""
    file.write_text(LINK.replace('jitter = "1ms"\n', ""))
    words = ("size", file, "--store", tmp_path / "store", "--seeds", "3", "--sizes", "0.25bdp,0.5bdp,1.25bdp")
    said = json.loads(sojourn(*words, "-f", "json").stdout)
    assert (said["hop"], said["flows"], said["region"]) == ("line", 1, None)
    assert said["bdp_bytes"] == BDP
    busy = [one["measures"]["hops.line.utilisation"]["mean"] for one in said["sizes"]]
    assert [one["bytes"] for one in said["sizes"]] == [25_000, 50_000, 125_000]
    # A window that falls from b + 1 BDP to half of that, and grows linearly: b = 0.25 and 0.5.
    for share, measured in zip((0.25, 0.5), busy, strict=False):
        lost = (1 - (1 + share) / 2) ** 2 / 2 / (0.75 * (1 + share) ** 2 / 2)
        assert measured == pytest.approx(1 - lost, abs=0.04), share
    assert busy[2] == pytest.approx(1, abs=0.003)
    assert said["chosen_bytes"] == 125_000
    again = sojourn(*words, "-f", "json", "--want", "utilisation >= 0.99", "--want", "sojourn_ms.max <= 101")
    assert "3 runs, 0 of them played now" in again.stderr, "without chance one seed says all"
    judged = json.loads(again.stdout)
    assert judged["region"] == [125_000]
    assert judged["sizes"][0]["wants"] == {"utilisation >= 0.99": "no", "sojourn_ms.max <= 101": "yes"}


def test_the_table_the_csv_and_the_picture_have_every_size(sojourn: Run, file: Path, tmp_path: Path) -> None:
    words = ("size", file, "--store", tmp_path / "store", "--seeds", "2", "--sizes", "20kB,40kB,80kB")
    text = sojourn(*words, "--want", "utilisation >= 0.5", "--out", tmp_path / "out", "-f", "svg")
    assert "tc qdisc" in text.stdout
    assert "bfifo limit 40000" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 100
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"size.svg", "size.csv"}
    rows = list(csv.DictReader(io.StringIO(sojourn(*words, "-f", "csv").stdout)))
    assert [row["bytes"] for row in rows] == ["20000", "40000", "80000"]
    assert all(math.isfinite(float(row["hops.line.nonempty_max_s"])) for row in rows)
    drawn = list(csv.DictReader(io.StringIO((tmp_path / "out/size.csv").read_text(encoding="utf-8"))))
    assert [row["bytes"] for row in drawn] == ["20000", "40000", "80000"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hop", "lin"), "--hop = lin: expected one of line, line.reverse; nearest is line"),
        (("--want", "utilisation"), "--want = 'utilisation': expected MEASURE <= NUMBER"),
        (("--want", "utilisation <= x"), "expected MEASURE <= NUMBER"),
        (("--want", "utilization <= 1"), "no such measure"),
        (("--sizes", "60 packets"), "--sizes: '60 packets': expected a size from 1514 bytes on"),
        (("--sizes", "100"), "--sizes: '100': expected a size from 1514 bytes on"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_played(
    sojourn: Run, file: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = sojourn("size", file, "--store", tmp_path / "store", *words, code=2)
    assert said in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_link_whose_rate_changes_has_no_bdp(sojourn: Run, file: Path) -> None:
    file.write_text(LINK.replace('rate = "10mbit"', 'rate = [["0s", "10mbit"], ["20s", "5mbit"]]'))
    assert "line: its rate changes, so that it has no BDP" in sojourn("size", file, code=2).stderr
    with pytest.raises(Refusal, match=r"line\.reverse: its rate changes"):
        sizing.link_of(load(file), "line.reverse", None)


def test_a_reverse_queue_can_be_sized(sojourn: Run, file: Path, tmp_path: Path) -> None:
    words: tuple[Any, ...] = ("size", file, "--hop", "line.reverse", "--store", tmp_path / "store", "--seeds", "1")
    said = json.loads(sojourn(*words, "--sizes", "20kB", "-f", "json").stdout)
    assert (said["hop"], len(said["sizes"])) == ("line.reverse", 1)
    assert "hops.line.reverse.utilisation" in said["sizes"][0]["measures"]
    text = sojourn(*words, "--sizes", "20kB").stdout
    assert "link busy %" in text, "the table has the measures of a queue whose name has a dot"


def test_flows_are_counted_as_set_and_every_rule_of_a_size_is_named(sojourn: Run, file: Path, tmp_path: Path) -> None:
    group = '[[group]]\nname = "users"\nmax_active = 30\n'
    users = '[[flow]]\nkind = "sizes"\nrate = 5\ngroup = "users"\nrtt = "80ms"\n'
    file.write_text(LINK.replace('jitter = "1ms"\n', "").replace("[sweep]", f"{group}{users}[sweep]"))
    words: tuple[Any, ...] = (
        "size",
        file,
        "--store",
        tmp_path / "store",
        "--seeds",
        "1",
        "--sizes",
        "1bdp",
        "-f",
        "json",
    )
    assert json.loads(sojourn(*words, "--set", "group.users.max_active=8").stdout)["flows"] == 9
    one = json.loads(sojourn(*words, "--flows", "1").stdout)["sizes"][0]
    assert one["rules"] == ["BDP", "BDP / √n"]


def test_words_stand_for_conditions(file: Path) -> None:
    flows = '[[flow]]\nkind = "download"\nname = "probe"\nsize = 40_000_000\n[sweep]'
    file.write_text(LINK.replace("[sweep]", flows))
    plan = load(file)
    scenario = identity.resolved(identity.document_of_plan(plan), plan.runs[0]["set"])

    def meaning(text: str) -> tuple[str, bool, float]:
        want = sizing.want_of(text, "line", plan.describe(0), scenario)
        assert want.text == text
        return want.address, want.at_most, want.bound

    assert meaning("no standing queue") == ("hops.line.nonempty_max_s", True, 5.0)
    for words in ("40 MB above 2 Mbit/s", "40mb above 2mbit", "probe above 2 Mbit/s"):
        assert meaning(words) == ("flows.probe.fct_s.mean", True, 160.0)
    assert meaning("bulk0 above 500 kbit/s") == ("flows.bulk0.goodput_mbit", False, 0.5)
    with pytest.raises(Refusal, match=r"no flow transfers 7 MB: .* probe \(40 MB\)"):
        meaning("7 MB above 2 Mbit/s")


def test_a_wait_that_the_window_is_too_short_for_is_refused_as_a_condition() -> None:
    plan = load(Path(__file__).parents[1] / "scenarios/standing-queue.toml")
    scenario = identity.resolved(identity.document_of_plan(plan), plan.runs[0]["set"])
    with pytest.raises(Refusal, match="every queue meets this, as 4 s are measured"):
        sizing.want_of("no standing queue", "bottleneck", plan.describe(0), scenario)
    assert sizing.want_of("nonempty_max_s <= 3.5", "bottleneck", plan.describe(0), scenario).bound == 3.5
