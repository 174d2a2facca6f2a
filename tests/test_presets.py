"""The presets show what their comments and docs/how-to/choose-a-preset.md say, in runs that are shorter than theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from conftest import ROOT, compare
from sojourn import cases, felt, headline, plan, queues
from sojourn.plan import load

PAGE = ROOT / "docs/how-to/choose-a-preset.md"
HOMES = ("home-dsl", "rural-1mbit", "leo", "work-call", "gaming", "family-evening")
"""Presets of a router before a modem; the first row of their sweeps has a FIFO, the last one a shaper."""


def results(name: str, duration: str, start: str, sets: Sequence[tuple[str, str]] = ()) -> list[dict[str, Any]]:
    """Plays one seed of a preset for a shorter time, in the order of its sweep."""
    short = [("duration", duration), ("measure", f'["{start}", "end"]')]
    return [record.result for record in compare(plan.bundled()[name], [*short, *sets], seeds=1).runs]


def flows(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Returns the flows whose names begin with this one."""
    return [flow for flow in result["flows"] if flow["name"].split(".")[0] == name]


def goodput(result: dict[str, Any], name: str) -> float:
    return sum(float(flow["goodput_mbit"]) for flow in flows(result, name))


def test_the_page_names_every_preset_and_every_name_in_its_tables_runs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"^\|(?: [^`|]+ \|)? `([a-z0-9-]+)` \|", text, re.M)
    others = ["home-cable", "fibre-1g", "wifi-home", "lte-drive", "meo-320mbit", "geo-16mbit", "geo-ack-starved"]
    others += ["isp-edge", "conference", "datacentre", "l4s-mixed"]
    assert sorted(named) == sorted([*HOMES, *others])
    assert set(named) <= set(plan.bundled())


@pytest.mark.parametrize("name", HOMES)
def test_a_shaper_in_the_router_takes_the_queue_out_of_the_modem(name: str) -> None:
    first, *_, last = results(name, "40s", "10s")
    (before,), (after,) = flows(first, "pings0"), flows(last, "pings0")
    assert after["rtt_ms"]["p95"] < before["rtt_ms"]["p95"] / 2
    for hop in ("line", "line.reverse", "dish.reverse"):
        if hop in first["hops"] and first["hops"][hop]["drops"] > 0:
            assert last["hops"][hop]["sojourn_ms"]["p95"] < first["hops"][hop]["sojourn_ms"]["p95"] / 2, hop


def test_fq_codel_without_a_shaper_changes_nothing_on_dsl() -> None:
    fifo, alone, *_ = results("home-dsl", "30s", "10s")
    assert fifo["hops"]["line.reverse"] == alone["hops"]["line.reverse"]
    assert fifo["hops"]["line.reverse"]["sojourn_ms"]["max"] > 900, "128 kB at 1 Mbit/s"


def test_the_picture_shows_the_modems_queue_next_to_the_routers() -> None:
    runs = compare(plan.bundled()["home-dsl"], [("duration", "30s")], seeds=1).runs
    shown = felt.measures(cases.case_list(runs), queues.compared_in([record.result for record in runs]))
    assert [one.hop for one in shown[:2]] == ["router.reverse", "line.reverse"]
    assert [one.name for one in shown[2:]] == ["ping_above_base_ms", "voice_late_ms"]


def test_pie_in_a_cable_modem_keeps_its_queue_below_that_of_a_fifo() -> None:
    fifo, pie, _ = (one["hops"]["cable.reverse"]["sojourn_ms"]["mean"] for one in results("home-cable", "30s", "10s"))
    assert pie < 15 < fifo


def test_starved_acks_limit_a_download_until_they_are_filtered() -> None:
    fifo, fq_codel, cake, filtered = results("geo-ack-starved", "60s", "20s")
    assert min(goodput(fifo, "bulk0"), goodput(filtered, "bulk0")) > 1.1 * goodput(fq_codel, "bulk0")
    delays = [one["hops"]["satellite.reverse"]["sojourn_ms"]["p95"] for one in (fq_codel, cake, filtered)]
    assert delays[0] > 2000
    assert delays[1] > 2000
    assert delays[2] < 100


def test_thirty_two_connections_are_one_subscriber_for_cake_only() -> None:
    fifo, fq_codel, cake = (goodput(one, "greedy") for one in results("isp-edge", "10s", "5s"))
    assert cake < 10 < 50 < min(fifo, fq_codel)


def test_with_65536_queues_no_call_of_the_conference_shares_one_and_with_1024_some_do() -> None:
    def disturbed(queues: str) -> int:
        lines = [(f"hop.uplink.{way}.qdisc", f"fq_codel flows {queues}") for way in ("down", "up")]
        (result,) = results("conference", "14s", "11s", [*lines, ("flow.readers.start", "uniform 0s..10s")])
        calls = [flow for flow in flows(result, "calls") if flow["name"].endswith(".right")]
        assert len(calls) == 60
        return sum(flow["jitter_ms"]["p95"] > 5 for flow in calls)

    assert disturbed("65536") == 0
    assert 2 <= disturbed("1024") <= 15, "60 · (1 - (1 - 1/1024)^121) = 7 share a queue"


def test_three_thousand_readers_are_one_row() -> None:
    described = load(plan.bundled()["conference"]).describe(0)["flows"]
    assert [flow["count"] for flow in described if flow["name"] == "readers"] == [3000]
    assert len(described) < 200


def test_half_a_millisecond_is_noticed_where_the_rtt_is_a_tenth_of_one() -> None:
    short = [("duration", "300ms"), ("measure", '["100ms", "end"]')]
    (first, *_) = headline.sentences(compare(plan.bundled()["datacentre"], short, seeds=1).cases())
    assert first.startswith("fq_codel is best for pings"), first


def test_dctcp_keeps_the_queue_of_a_switch_short() -> None:
    fifo, _, red, codel = (one["hops"]["port"] for one in results("datacentre", "300ms", "100ms"))
    assert max(red["sojourn_ms"]["p50"], codel["sojourn_ms"]["p50"]) < fifo["sojourn_ms"]["p50"] / 4
    assert min(red["utilisation"], codel["utilisation"]) > 0.97


def test_dualpi2_gives_prague_and_cubic_about_the_same_window_and_not_the_same_rate() -> None:
    *_, dualpi2 = results("l4s-mixed", "30s", "10s")
    (prague,), (cubic,) = flows(dualpi2, "prague"), flows(dualpi2, "cubic")
    windows = [one["goodput_mbit"] * one["rtt_ms"]["mean"] for one in (prague, cubic)]
    assert 0.7 < windows[0] / windows[1] < 1.4
    assert prague["goodput_mbit"] > 1.4 * cubic["goodput_mbit"]
