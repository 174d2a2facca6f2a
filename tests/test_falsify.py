"""experiments/ccaq/falsify.py: its changed modules match the source, and its verdicts can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sojourn as sj
from conftest import ROOT, kernel_or_skip, program
from sojourn.frontier.judge import Setting
from sojourn.frontier.point import Point, point_of
from sojourn.kernel import probe
from sojourn.kernel.run import CONSOLE, Guests
from sojourn.means import Mean

falsify = program("experiments/ccaq/falsify.py")
changed, watched = falsify.changed, falsify.watched

# ---- the changed modules ----


@pytest.mark.parametrize("variant", changed.VARIANTS)
def test_every_change_of_the_module_finds_its_text(variant: str) -> None:
    files = changed.sources(variant)
    differing = {name for name, text in files.items() if text != (changed.KERNEL / name).read_text()}
    assert differing == {"Kbuild", *(name for name, _, _ in changed.VARIANTS[variant])}


@pytest.mark.parametrize("times", [0, 2])
def test_a_change_whose_text_is_not_there_once_is_an_error(tmp_path: Path, times: int) -> None:
    for name in changed.FILES:
        (tmp_path / name).write_text((changed.KERNEL / name).read_text())
    file, old, _ = changed.NO_SYN
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace(old, old * times))
    with pytest.raises(changed.NotOnce, match=f"no-syn: kernel/sch_ccaq.c has this text {times} times"):
        changed.sources("no-syn", tmp_path)


SMALL = {
    "duration": "6s",
    "hop": [{"name": "bottleneck", "rate": "5mbit", "qdisc": "ccaq"}],
    "flow": [{"name": "bulk", "kind": "bulk", "rtt": "40ms"}],
}


def test_a_module_that_prints_plays_as_the_shipped_one_and_one_with_a_quarter_of_the_rtt_does_not(
    tmp_path: Path,
) -> None:
    kernel_or_skip()
    plan = sj.load(SMALL)
    watching = Guests(keep=tmp_path / "kept", qdisc_module=changed.write("watch", tmp_path))
    short = Guests(qdisc_module=changed.write("short", tmp_path))
    plain, seen, wrong = (
        sj.run(plan, world=world, series=False).runs[0].result["hops"]["bottleneck"]
        for world in ("kernel", watching, short)
    )
    assert seen == plain
    assert plain["stats"]["max_rtt"] == pytest.approx(40_000, abs=500)
    assert wrong["stats"]["max_rtt"] == pytest.approx(10_000, abs=500)
    origin_ns = json.loads((tmp_path / "kept/0000/ended.json").read_text())["origin_ns"]
    changes = watched.read_changes((tmp_path / "kept/0000" / CONSOLE).read_text(), origin_ns)
    assert {one.row for one in changes} <= {0, None}
    assert changes[-1].target_ms == pytest.approx(plain["stats"]["max_target"] / 1000, abs=0.002)
    assert any(one.dropping for one in changes)
    assert all(0 <= one.at_s <= 6 for one in changes)


# ---- the files of a guest ----


def change(
    at_s: float, target_ms: float = 5.0, *, rtt_ms: float = 50.0, dropping: bool = False, ended: bool = False
) -> Any:
    """A line of the module about the first flow."""
    return watched.Change(at_s, 3, 0, target_ms, rtt_ms, dropping, ended)


def seen(changes: Sequence[Any], records: Any = None, end_s: float = 100.0) -> Any:
    """A run of one flow with an RTT of 50 ms, measured from 10 s on."""
    about = {"measure_s": [10.0, end_s], "flows": [{"name": "bulk", "base_rtt_ms": 50.0}]}
    return watched.Seen({}, about, changes, np.zeros(0, probe.RECORD) if records is None else records, 0)


def acks(states: Sequence[tuple[float, int, int]]) -> Any:
    """Records of ACKs: the time in s, the window and the slow start threshold of each."""
    found = np.zeros(len(states), probe.RECORD)
    found["type"] = probe.ACKED
    for name, values in zip(("at", "cwnd", "ssthresh"), zip(*states, strict=True), strict=True):
        found[probe.ACK_FIELDS[name]] = np.array(values) * (1e9 if name == "at" else 1)
    return found


def packets(sojourns_ms: Sequence[tuple[float, float]]) -> Any:
    """Records of packets that left the first link: the time in s, and the sojourn in ms of each."""
    found = np.zeros(len(sojourns_ms), probe.RECORD)
    for row, (at, sojourn) in zip(found, sojourns_ms, strict=True):
        row["start"], row["arrival"] = round(at * 1e9), round(at * 1e9 - sojourn * 1e6)
    return found


LINES = """\
Linux says something
ccaq 0 1500000000 3 167837697 174456833 12500 50000 0 0
ccaq 1 2500000000 3 0 0 12500 50000 1 1
"""


def test_lines_of_the_module_are_read_and_none_may_be_missing() -> None:
    first, second = watched.read_changes(LINES, 1_000_000_000)
    assert first == watched.Change(0.5, 3, 0, 12.5, 50.0, False, False)
    assert second == watched.Change(1.5, 3, None, 12.5, 50.0, True, True)
    with pytest.raises(ValueError, match="line 1 of the module instead of 0"):
        watched.read_changes("\n".join(LINES.splitlines()[2:]), 0)


def test_epochs_with_a_wrong_rtt_are_counted() -> None:
    ends = [change(at_s, rtt_ms=rtt_ms, ended=True) for at_s, rtt_ms in ((5, 9), (11, 50), (12, 63), (13, 0), (14, 37))]
    assert watched.epochs(seen([*ends, change(15, rtt_ms=9)])) == {"epochs": 4, "unknown": 1, "wrong": 2}


@pytest.mark.parametrize(("cut_again", "several"), [(False, 0), (True, 1)])
def test_a_signal_event_with_two_cuts_is_counted(cut_again: bool, several: int) -> None:
    episodes = [change(20, dropping=True), change(20.1), change(20.15, dropping=True), change(20.2)]
    first = [(19.0, 100, 70), (20.05, 100, 70), (20.1, 90, 70), (20.12, 70, 70), (20.14, 70, 70)]
    again = [(20.16, 70, 49), (20.2, 49, 49)]
    later = [(40.0, 100, 70), (40.1, 70, 70), (41.0, 70, 70)]
    records = acks([*first, *(again if cut_again else []), *later])
    found = watched.cuts(seen([*episodes, change(40, dropping=True), change(41)], records))
    assert found == {"events": 2, "none": 0, "several": several}


def test_an_event_without_a_cut_is_counted() -> None:
    records = acks([(19.0, 100, 70), (21.0, 101, 70)])
    assert watched.cuts(seen([change(20, dropping=True)], records)) == {"events": 1, "none": 1, "several": 0}


def test_the_way_of_a_target_is_relative_to_its_first_one() -> None:
    found = watched.targets(seen([change(1, 20.0, rtt_ms=0), change(2, 10.0), change(3, 4.0), change(4, 12.0)]))
    assert found["farthest"] == pytest.approx([0.6])
    assert found["last"] == pytest.approx([0.2])


@pytest.mark.parametrize("back_at_s", [51.0, 53.0])
def test_the_time_above_two_targets_ends_with_the_first_packet_below(back_at_s: float) -> None:
    waits = [(50 + step / 100, 11.0 if 50.2 < 50 + step / 100 < back_at_s else 9.0) for step in range(400)]
    records = np.concatenate([packets(waits), acks([(49.0, 100, 70), (49.5, 413, 70)])])
    found = watched.step(seen([change(1, 5.0)], records))
    assert found["above_s"] == pytest.approx(back_at_s - 50, abs=0.02)
    assert found["allowed_s"] == pytest.approx(0.15 + 413 * 1514 * 8 / 1e7)


# ---- verdicts ----


def finding(value: float, half_width: float | None, how: str = "at most", bound: float = 1.0) -> Any:
    return falsify.Finding("a figure", Mean(value, half_width, 1 if half_width is None else 3), how, bound)


@pytest.mark.parametrize(
    ("one", "met", "sure"),
    [
        (finding(0.9, 0.05), True, True),
        (finding(0.9, 0.2), True, False),
        (finding(1.1, 0.05), False, True),
        (finding(1.1, 0.2), False, False),
        (finding(1.1, None), False, False),
        (finding(1.0, None), True, False),
        (finding(0.9, 0.05, "at least"), False, True),
        (finding(1.1, 0.2, "at least"), True, False),
    ],
)
def test_a_figure_is_met_by_its_mean_and_sure_by_its_interval(one: Any, met: bool, sure: bool) -> None:
    assert (one.met, one.sure) == (met, sure)
    assert falsify.stands([finding(0.5, None), one]) is not met


def test_a_verdict_needs_a_figure_and_a_figure_its_numbers() -> None:
    with pytest.raises(ValueError, match="without a figure"):
        falsify.stands([])
    with pytest.raises(ValueError, match="no number"):
        falsify.mean([1.0, float("nan")])
    with pytest.raises(ValueError, match="no events"):
        falsify.pooled([[{"several": 0, "events": 0}]], "several", "events")
    assert falsify.pooled([[{"a": 1, "b": 4}], [{"a": 2, "b": 8}]], "a", "b") == [0.25]


def setting(line: str, utilisation: float, *delays_ms: float) -> Setting:
    one = np.array(delays_ms)
    return Setting(line, np.full(len(one), utilisation), one, 2 * one, np.zeros(len(one)))


def point() -> Point:
    return point_of("cubic", 10**7, 0.1)


def frontier(ours: Setting) -> Any:
    """A point with an RTT of 100 ms, where a target of T ms has a delay of 0.4 T and a utilisation of 90 % + T / 10."""
    at = point()
    times = [*(share * at.rtt_s for share in falsify.SHARES), *falsify.TIMES_S]
    settings = [setting(falsify.fixed(at, time), 0.9 + time, 400 * time, 400 * time) for time in times]
    return falsify.Frontier([(at, {one.line: one for one in [ours, *settings]})])


@pytest.mark.parametrize(("delay_ms", "stands"), [(22.0, False), (24.0, True)])
def test_a_delay_far_above_the_next_target_that_keeps_the_link_as_busy_stands(
    delay_ms: float, stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = frontier(setting("ccaq", 0.9325, delay_ms, delay_ms))
    monkeypatch.setattr(falsify, "frontier", lambda _: found)
    findings, _ = falsify.near_the_frontier(None)
    assert findings[0].value.value == pytest.approx(delay_ms - 20.0)
    assert falsify.stands(findings) is stands


@pytest.mark.parametrize(("delay_ms", "stands", "multiple"), [(6.0, False, 4 / 3), (10.0, True, 0.8)])
def test_the_best_fixed_rule_is_that_with_the_least_delay_among_those_that_are_as_busy(
    delay_ms: float, stands: bool, multiple: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = frontier(setting("ccaq", 0.9299, delay_ms, delay_ms))
    monkeypatch.setattr(falsify, "frontier", lambda _: found)
    findings, _ = falsify.no_fixed_rule(None)
    assert "0.2 RTT" in findings[0].words
    assert findings[0].value.value == pytest.approx(multiple)
    assert falsify.stands(findings) is stands


# ---- the program ----


def test_every_scenario_is_sound_and_every_case_has_the_plain_paths() -> None:
    files = [f"robust/{case.file}" for case in falsify.CASES.values()]
    assert {f"{file}.toml" for file in files} | {"robust/plain.toml"} == {
        f"robust/{path.name}" for path in (falsify.HERE / "robust").glob("*.toml")
    }
    for file in ("robust/plain", *files, "falsifiers/rtt", "falsifiers/cuts", "falsifiers/offloads", "falsifiers/ecn"):
        document = falsify.read(file)
        assert len(sj.load(document)) > 1
        if file in files:
            assert falsify.paths(document) == falsify.paths(falsify.read("robust/plain"))


def test_the_page_has_a_verdict_for_each_figure() -> None:
    one = {"words": "w", "findings": [finding(2, 0.1).as_dict()], "stands": True, "remarks": ["A remark."]}
    path = {"delay_ms": {"mean": 5.0, "half_width": None}, "met": True}
    path["findings"] = [finding(0.99, None, "at least", 0.98).as_dict(), finding(1.1, 0.6, "at most", 1.5).as_dict()]
    text = falsify.tables({"robust": {"lost-syn": {"paths": {"a path": path}}}, "falsifiers": {"7": one}})
    assert "| 7 | w | a figure | at most 1 | 2 ± 0.1 | **stands** |" in text
    assert "1 of 1 stand: 7. At most 2 may." in text
    assert "| lost-syn | a path | 0.99 | 5 | 1.1 ± 0.6 | yes, within the interval |" in text


def test_the_head_names_the_parts_that_have_other_seeds() -> None:
    found = {"robust": {"plain": {"seeds": 3}, "resumed": {"seeds": 3}}, "falsifiers": {"8": {"seeds": 10}}}
    assert falsify.seeds_of(found) == "3 seeds (1–3); 10 seeds (1–10): 8"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "0"), "--seeds = 0: expected at least 1"),
        (("--only", "11"), "invalid choice: '11'"),
        (("--world", "sim", "--only", "7"), "--only = 7: expected --world kernel with it"),
        (("--world", "sim", "--only", "no-syn"), "--only = no-syn: expected --world kernel with it"),
    ],
)
def test_bad_input_is_named(arguments: tuple[str, ...], said: str) -> None:
    command = [sys.executable, str(ROOT / "experiments/ccaq/falsify.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
