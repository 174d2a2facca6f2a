"""Keys of the scenario language that change the treatment of packets have the same meaning in both worlds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip
from sojourn.words import labels

BOTH = pytest.mark.parametrize("world", ["sim", "kernel"])
TOP = 'duration = "6s"\nmeasure = ["2s", "end"]\n'
HOP = '[[hop]]\nname = "b"\nrate = "4mbit"\ndelay = "5ms"\n'


@pytest.fixture
def play(sojourn: Run, tmp_path: Path) -> Any:
    """Plays a scenario and returns its runs."""

    def played(text: str, world: str, *arguments: str) -> list[dict[str, Any]]:
        if world == "kernel":
            kernel_or_skip()
        file = tmp_path / "words.toml"
        file.write_text(TOP + text)
        done = sojourn("run", file, "--world", world, "-f", "json", *arguments)
        runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
        return runs

    return played


@BOTH
@pytest.mark.parametrize("ecn", ["off", "ect0", "ect1"])
def test_datagrams_are_marked_instead_of_dropped_if_their_ecn_field_allows_it(play: Any, world: str, ecn: str) -> None:
    stream = f'[[flow]]\nkind = "cbr"\nrate = "5mbit"\necn = "{ecn}"\nrtt = "20ms"\n'
    [run] = play(f'{HOP}qdisc = "codel limit 100000 ecn"\n{stream}', world)
    hop = run["hops"]["b"]
    if ecn == "off":
        assert (hop["marks"], hop["drops"] > 100) == (0, True)
    else:
        # It reacts to no mark: the queue grows, and CoDel marks more and more often.
        assert (hop["marks"] > 100, hop["drops"]) == (True, 0)


@BOTH
def test_the_reply_to_a_ping_has_its_ecn_field(play: Any, world: str) -> None:
    flows = '[[flow]]\nkind = "cbr"\nrate = "5mbit"\ndirection = "left"\nrtt = "20ms"\n'
    flows += '[[flow]]\nkind = "pings"\ninterval = "5ms"\necn = "ect0"\nrtt = "20ms"\n'
    back = 'reverse = { qdisc = "codel limit 100000 ecn" }\n'
    [run] = play(f"{HOP}{back}{flows}", world)
    # The packets of the stream are dropped; only the replies can be marked.
    assert run["hops"]["b.reverse"]["marks"] > 20


def lasting(run: dict[str, Any]) -> float:
    """Returns the link's 95th percentile of the sojourn time in ms."""
    return float(run["hops"]["b"]["sojourn_ms"]["p95"])


@BOTH
def test_a_discipline_takes_on_other_parameters_and_keeps_its_queue(play: Any, world: str) -> None:
    bulk = '[[flow]]\nkind = "bulk"\ncc = "reno"\ncount = 2\nrtt = "40ms"\n'
    steps = '[["0s", "cake bandwidth 3mbit"], ["2s", "cake bandwidth 1mbit"]]'
    [run] = play(f"{HOP}qdisc = {steps}\n{bulk}", world)
    # 1500 bytes are 1514 on the link.
    assert run["hops"]["b"]["utilisation"] == pytest.approx(0.25, rel=0.03)
    assert 0.6 < run["startup"]["hops"]["b"]["utilisation"] < 0.77
    assert run["hops"]["b"]["drops_by_reason"].get("overlimit", 0) == 0
    [run] = play(f'{HOP}qdisc = [["0s", "codel limit 90 target 1s"], ["3s", "codel limit 9"]]\n{bulk}', world)
    # All but nine of the queued packets are dropped at once. The target stays, so that only a full queue drops.
    assert run["hops"]["b"]["drops_by_reason"]["overlimit"] > 30
    assert run["hops"]["b"]["drops_by_reason"].get("codel", 0) == 0


@BOTH
def test_another_discipline_takes_the_place_of_the_first_and_drops_what_waits(play: Any, world: str) -> None:
    bulk = '[[flow]]\nkind = "bulk"\ncc = "reno"\ncount = 2\nrtt = "40ms"\n'
    first, then = "pfifo limit 90", "fq_codel"
    [fifo] = play(f'{HOP}qdisc = "{first}"\n{bulk}', world)
    [run] = play(f'{HOP}qdisc = [["0s", "{first}"], ["3s", "{then}"], ["5900ms", "{first}"]]\n{bulk}', world)
    reasons = run["hops"]["b"]["drops_by_reason"]
    assert reasons["codel"] > 0
    assert reasons["overlimit"] > 30
    assert run["hops"]["b"]["sojourn_ms"]["p50"] < fifo["hops"]["b"]["sojourn_ms"]["p50"] / 3


@BOTH
def test_a_discipline_that_changes_is_a_value_of_a_sweep_with_a_label(play: Any, world: str) -> None:
    bulk = '[[flow]]\nkind = "bulk"\nrtt = "40ms"\n'
    steps = '[["0s", "codel"], ["1s", "codel target 20ms"]]'
    one, other = play(f'{HOP}{bulk}[sweep]\n"hop.b.qdisc" = ["codel", {steps}]\n', world)
    assert other["set"]["hop.b.qdisc"] == json.loads(steps)
    assert lasting(one) < lasting(other)


def test_a_table_names_a_discipline_that_changes_by_its_lines(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    steps = '[["0s", "codel"], ["1s", "codel target 20ms"]]'
    bulk = '[[flow]]\nkind = "bulk"\nrtt = "40ms"\n'
    file.write_text(f'{TOP}{HOP}{bulk}[sweep]\n"hop.b.qdisc" = ["codel", {steps}]\n')
    sets = [run["set"] for run in json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]]
    assert labels(sets) == ["codel", "codel; 1s: codel target 20ms"]
    said = json.loads(sojourn("check", file, "-f", "json", "--set", f"hop.b.qdisc={steps}").stdout)
    assert said["first"]["hops"][0]["qdisc"] == "codel limit 1000; 1s: codel limit 1000 target 20ms"


def shares(run: dict[str, Any], *users: str) -> list[float]:
    """Returns the share of each user's flows in the total."""
    rates = [sum(flow["goodput_mbit"] for flow in run["flows"] if flow["name"].startswith(user)) for user in users]
    return [rate / sum(rates) for rate in rates]


def of_user(name: str, count: int, rest: str = "") -> str:
    """Bulk flows of one host."""
    flow = f'[[flow]]\nname = "{name}"\nkind = "bulk"\ncount = {count}\nrtt = "30ms"\n{rest}'
    return f'{flow}user = "{name}"\n'


@BOTH
@pytest.mark.parametrize(
    ("direction", "mode", "is_shared"),
    [
        ("right", "dual-dsthost", True),
        ("left", "dual-srchost", True),
        ("right", "triple-isolate", True),
        ("right", "dual-srchost", False),
        ("right", "flows", False),
    ],
)
def test_a_user_with_many_flows_gets_as_much_as_one_with_a_single_flow(
    play: Any, world: str, direction: str, mode: str, is_shared: bool
) -> None:
    hop = f'{HOP}qdisc = "cake {mode}"\nreverse = {{ qdisc = "cake {mode}" }}\n'
    flows = "".join(of_user(name, count, f'direction = "{direction}"\n') for name, count in (("ann", 4), ("bob", 1)))
    [run] = play(hop + flows, world)
    of_bob = shares(run, "ann", "bob")[1]
    # A single flow does not use all of a half, because CoDel keeps its queue short.
    assert (0.33 < of_bob < 0.52) if is_shared else (0.15 < of_bob < 0.25), of_bob


@BOTH
def test_a_user_has_flows_of_every_kind(play: Any, world: str) -> None:
    user = 'user = "ann"\nrtt = "30ms"\n'
    flows = of_user("ann", 1)
    for direction in ("right", "left"):
        flows += f'[[flow]]\nkind = "cbr"\ncount = 2\nrate = "100kbit"\ndirection = "{direction}"\n{user}'
        flows += f'[[flow]]\nkind = "pings"\ncount = 2\ninterval = "50ms"\ndirection = "{direction}"\n{user}'
    flows += f'[[flow]]\nkind = "web"\nrate = 5\n{user}[[flow]]\nkind = "upload"\nsize = "20k"\n{user}'
    [run] = play(f'{HOP}qdisc = "cake"\n{flows}', world)
    for flow in run["flows"]:
        if flow["kind"] == "pings":
            assert flow["rtt_ms"]["p50"] >= 30, flow
        else:
            assert flow["goodput_mbit"] > 0.08, flow


TRACES = {
    "walk.csv": "time_s,rate_mbit\n0,4\n3,0\n4,1\n5,1.5\n",
    "walk.json": '[[0, 4e6], [3, 0], [4, 1e6], [5, "1500kbit"]]',
}
"""4 Mbit/s until 3 s, nothing until 4 s, then 1 and 1.5 Mbit/s for a second each."""


@BOTH
@pytest.mark.parametrize("name", TRACES)
def test_a_link_carries_what_a_trace_of_rates_says(play: Any, tmp_path: Path, world: str, name: str) -> None:
    (tmp_path / name).write_text(TRACES[name])
    stream = '[[flow]]\nkind = "cbr"\nrate = "8mbit"\nrtt = "20ms"\n'
    hop = f'[[hop]]\nname = "b"\nrate = {{ trace = "{name}", scale = 2 }}\nqdisc = "pfifo limit 20"\n'
    [run] = play(hop + stream, world)
    bits = run["hops"]["b"]["delivered_bytes"] * 8
    assert bits == pytest.approx(2 * (4e6 + 0 + 1e6 + 1.5e6), rel=0.02)


def test_a_trace_without_a_unit_whose_rates_are_far_too_low_is_warned_of(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        f'{TOP}[[hop]]\nname = "b"\nrate = {{ trace = "walk.csv" }}\n[[flow]]\nkind = "bulk"\nrtt = "40ms"\n'
    )
    (tmp_path / "walk.csv").write_text("time,rate\n0,20\n5,5\n")
    said = re.sub(r"\s+", " ", sojourn("check", file).stderr)
    assert (
        'warning: hop.b.rate.trace = "walk.csv": its highest rate is 20bit: a rate without a unit is in bit/s' in said
    )
    assert 'name the column rate_mbit, or write "20mbit"' in said
    (tmp_path / "walk.csv").write_text("time,rate_mbit\n0,20\n5,5\n")
    assert "warning" not in sojourn("check", file).stderr


def test_check_draws_the_rates_that_change(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text(TRACES["walk.csv"])
    file = tmp_path / "words.toml"
    hop = '[[hop]]\nname = "b"\nrate = { trace = "walk.csv" }\nreverse = { rate = "1mbit" }\n'
    file.write_text(f'{TOP}{hop}[[flow]]\nkind = "bulk"\nrtt = "40ms"\n')
    shown = sojourn("check", file).stdout.splitlines()
    [first] = [number for number, line in enumerate(shown) if line.startswith("b: rate")]
    assert shown[first] == "b: rate in Mbit/s: min 0, mean 2.42, max 4"
    chart = shown[first + 1 : first + 7]
    assert chart[0] == "       4 │" + "█" * 32
    assert chart[3] == "         │" + "█" * 32 + " " * 10 + "▃" + "█" * 21
    assert all(len(line) <= 80 for line in chart)
    assert "b.reverse: rate" not in "\n".join(shown)
