"""Impairments in netem's syntax: the simulator's and netem itself have the same effect on packets, in distribution."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip

PINGS, MANY = 6_000, 20_000
"""Numbers of pings: a loss of 6 % is distinguished from 5 % five times out of six. Bursts of losses and the tails of
distributions need many."""


def scenario(folder: Path, impair: str) -> Path:
    """Pings of 1 ms over an idle link, whose replies return unimpaired."""
    path = folder / "impaired.toml"
    pings = MANY if any(word in impair for word in ("gemodel", "state", "distribution")) else PINGS
    path.write_text(
        f'duration = "{pings // 1000}s"\n[[hop]]\nname = "b"\nrate = "1gbit"\nqdisc = "pfifo limit 10000"\n'
        f'impair = "{impair}"\n[[flow]]\nkind = "pings"\ninterval = "1ms"\nsize = 100\nrtt = "4ms"\n'
    )
    return path


def played(sojourn: Run, file: Path, world: str) -> dict[str, Any]:
    """Returns the report of the only run."""
    [run] = json.loads(sojourn("run", file, "--world", world, "-f", "json").stdout)["runs"]
    return run


def passed(run: dict[str, Any]) -> float:
    """Returns the number of replies divided by that of requests."""
    hops = run["hops"]
    return hops["b.reverse"]["delivered_packets"] / hops["b"]["delivered_packets"]


@pytest.mark.parametrize("world", ["sim", "kernel"])
@pytest.mark.parametrize(
    ("impair", "share", "tolerance"),
    [
        ("loss 5%", 0.95, 0.007),
        ("loss gemodel 2% 20%", 1 - 0.02 / 0.22, 0.03),
        ("loss state 2% 25% 0% 100% 1%", 1 - (0.02 / 0.25 + 0.01) / (1 + 0.02 / 0.25 + 0.01), 0.03),
        ("duplicate 10%", 1.1, 0.01),
        ("duplicate 50% loss 20%", 0.5 * 0.8 + 0.5 * (0.2 + 0.8 * 1.8), 0.025),
    ],
)
def test_as_many_packets_come_through(
    world: str, impair: str, share: float, tolerance: float, sojourn: Run, tmp_path: Path
) -> None:
    if world == "kernel":
        kernel_or_skip()
    assert passed(played(sojourn, scenario(tmp_path, impair), world)) == pytest.approx(share, abs=tolerance)


@pytest.mark.parametrize("world", ["sim", "kernel"])
@pytest.mark.parametrize(
    ("impair", "mean", "p95", "tolerance"),
    [
        ("delay 20ms", 24, 24, 0.1),
        ("delay 20ms 10ms", 24, 24 + 9, 0.3),
        ("delay 40ms 5ms distribution normal", 44, 44 + 5 * 1.645, 0.3),
        ("delay 40ms 5ms distribution pareto", 44 - 0.17, 44 + 5 * 1.62, 0.4),
        ("delay 20ms reorder 25%", 4 + 0.75 * 20, 24, 0.4),
        # The first packet waits for 10 ms, and leaves together with those that arrived meanwhile.
        ("slot 10ms", 4 + 5, 14, 0.7),
    ],
)
def test_round_trips_take_as_long(
    world: str, impair: str, mean: float, p95: float, tolerance: float, sojourn: Run, tmp_path: Path
) -> None:
    if world == "kernel":
        kernel_or_skip()
    [flow] = played(sojourn, scenario(tmp_path, impair), world)["flows"]
    assert flow["rtt_ms"]["mean"] == pytest.approx(mean, abs=tolerance)
    assert flow["rtt_ms"]["p95"] == pytest.approx(p95, abs=tolerance)


def test_words_that_nobody_knows_are_named_with_their_key(sojourn: Run, tmp_path: Path) -> None:
    for impair, problem in [
        ("lots 1%", '"lots": expected one of limit, delay,'),
        ("loss 1% corrupt 1%", '"corrupt": a corrupted segment is lost to TCP: expected loss'),
        ("delay 10ms 2parsec", '"2parsec": after delay: expected a jitter such as 2ms'),
    ]:
        error = sojourn("check", scenario(tmp_path, impair), code=2).stderr
        assert "hop.b.impair" in error
        assert problem in error


@pytest.mark.parametrize("world", ["sim", "kernel"])
@pytest.mark.parametrize("words", ["loss 20%", "loss 20% duplicate 30%", "delay 20ms limit 15", "loss gemodel 5% 20%"])
def test_every_loss_is_a_drop_of_its_hop_and_its_flow(world: str, words: str, sojourn: Run, tmp_path: Path) -> None:
    """In both directions. Packets that were sent and not lost arrive, apart from copies, and from those on their way at
    the end."""
    if world == "kernel":
        kernel_or_skip()
    file = scenario(tmp_path, words)
    file.write_text(file.read_text().replace("[[flow]]", f'reverse = {{ impair = "{words}" }}\n[[flow]]'))
    run = played(sojourn, file, world)
    there, back = run["hops"]["b"], run["hops"]["b.reverse"]
    assert there["drops"] > 100
    for hop in (there, back):
        assert hop["drops"] == hop["drops_by_reason"]["loss"]
        assert hop["stats"]["drops"] == 0, "the discipline has dropped none"
    assert run["flows"][0]["drops"] == there["drops"] + back["drops"]
    if "duplicate" not in words:
        assert 0 <= there["delivered_packets"] - there["drops"] - back["delivered_packets"] <= 30


def test_the_other_direction_has_its_own(sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, "loss 50%")
    hops = json.loads(sojourn("check", file, "-f", "json").stdout)["first"]["hops"]
    assert [hop["impair"] for hop in hops] == ["loss 50%", None]
    hops = played(sojourn, file, "sim")["hops"]
    assert hops["b"]["drops"] == hops["b"]["drops_by_reason"]["loss"] == pytest.approx(PINGS / 2, rel=0.02)
    assert hops["b.reverse"]["drops"] == 0


def test_words_can_be_swept_and_none_is_a_value(sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, "")
    file.write_text(file.read_text() + '[sweep]\n"hop.b.impair" = ["", "loss 1%"]\n')
    runs = json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]
    assert [run["set"] for run in runs] == [{"hop.b.impair": ""}, {"hop.b.impair": "loss 1%"}]
    assert runs[0]["hops"]["b"]["drops"] == 0 < runs[1]["hops"]["b"]["drops"]


REORDERED = """\
duration = "21s"
measure = ["5s", "end"]

[[hop]]
name = "link"
rate = "50mbit"
delay = "0.1ms"
qdisc = "pfifo limit 1000"
impair = "delay 50ms 10ms 25%"
reverse = { impair = "delay 50ms" }

[[flow]]
kind = "bulk"
start = "uniform 0s..1s"
"""


def runs_of_reordered(sojourn: Run, folder: Path, world: str, more: str = "") -> list[dict[str, Any]]:
    """Runs of one CUBIC flow over a path whose jitter reorders."""
    file = folder / "reordered.toml"
    file.write_text(REORDERED + more)
    runs: list[dict[str, Any]] = json.loads(sojourn("run", file, "--world", world, "--seeds", 4, "-f", "json").stdout)[
        "runs"
    ]
    return runs


def test_jitter_that_reorders_makes_tcp_discard_old_segments_unless_it_has_no_timestamps(
    sojourn: Run, tmp_path: Path
) -> None:
    stamped = runs_of_reordered(sojourn, tmp_path, "sim")
    bare = runs_of_reordered(sojourn, tmp_path, "sim", "[host]\ntimestamps = false\n")
    for with_paws, without in zip(stamped, bare, strict=True):
        assert with_paws["tcp"]["PAWSEstab"] > 300 > without["tcp"]["PAWSEstab"] == 0
        assert with_paws["flows"][0]["goodput_mbit"] < 40 < 45 < without["flows"][0]["goodput_mbit"]
    said = sojourn("run", tmp_path / "reordered.toml", "--stats", "--out", tmp_path / "out").stdout
    assert re.search(r"\nTCP of all hosts\n  TcpExtPAWSEstab +0\n", said)


def test_both_worlds_discard_as_many_old_segments(sojourn: Run, tmp_path: Path) -> None:
    """The worlds draw other random numbers, so the means of four runs differ by chance, by less than a third."""
    kernel_or_skip()

    def means(world: str) -> tuple[float, float]:
        runs = runs_of_reordered(sojourn, tmp_path, world)
        goodput = sum(run["flows"][0]["goodput_mbit"] for run in runs) / len(runs)
        return goodput, sum(run["tcp"]["PAWSEstab"] for run in runs) / len(runs)

    assert means("sim") == pytest.approx(means("kernel"), rel=0.33)
