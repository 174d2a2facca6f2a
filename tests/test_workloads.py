"""Every kind of application in both worlds, with the same draws and the same measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, kernel_or_skip
from sojourn import table
from sojourn.plan import load

SCENARIO = ROOT / "scenarios/responsiveness.toml"

MIX = """\
title = "All applications"
duration = "8s"

[[hop]]
name = "link"
rate = "20mbit"
delay = "10ms"
qdisc = "fq_codel"

[[flow]]
name = "call"
kind = "voip"
direction = "both"
rtt = "40ms"

[[flow]]
name = "game"
kind = "cbr"
rate = "80kbit"
size = 100
rtt = "40ms"

[[flow]]
name = "camera"
kind = "onoff"
rate = "1mbit"
on = "exp 500ms"
off = "pareto 1.5 500ms"
rtt = "40ms"

[[flow]]
name = "feed"
kind = "onoff"
transport = "tcp"
rate = "1mbit"
on = "1s"
off = "1s"
rtt = "40ms"

[[flow]]
name = "reader"
kind = "web"
page = true
count = 2
rtt = "30ms"

[[flow]]
kind = "video"
chunk = "1s"
buffer = "4s"
ladder = ["1mbit", "2mbit", "4mbit"]
rtt = "50ms"

[[flow]]
name = "files"
kind = "sizes"
rate = 3
rtt = "40ms"

[[flow]]
kind = "upload"
size = 100_000
gap = "uniform 500ms..1500ms"
rtt = "40ms"
"""
CROWD = """\
title = "A crowd"
duration = "8s"
measure = ["2s", "end"]

[[hop]]
name = "link"
rate = "8mbit"
delay = "5ms"
qdisc = "cake"

[[flow]]
name = "readers"
kind = "web"
page = true
count = 12
rtt = ["20ms", "30ms", "50ms"]
start = "uniform 0s..6s"

[[flow]]
name = "films"
kind = "video"
count = 3
chunk = "1s"
rtt = "30ms"
"""
OF_APPLICATIONS = {"loss_ratio", "delay_ms", "jitter_ms", "mos", "slowdown", "page_load_s", "video", "rpm", "command"}


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    """A scenario with every kind of application and enough capacity for all of them."""
    path = tmp_path / "mix.toml"
    path.write_text(MIX)
    return path


def flows(sojourn: Run, *args: object) -> dict[str, dict[str, Any]]:
    run = json.loads(sojourn("run", *args, "-f", "json").stdout)["runs"][0]
    return {flow["name"]: flow for flow in run["flows"]}


def check(of: dict[str, dict[str, Any]]) -> None:
    """Checks the properties of the mix that hold in any world."""
    assert all(set(flow) >= OF_APPLICATIONS for flow in of.values())
    for name in ("call.right", "call.left", "game", "camera"):
        one = of[name]
        assert one["cc"] is None
        assert one["loss_ratio"] == 0
        assert 19.9 < one["delay_ms"]["p50"] < 25, one["delay_ms"]
        assert one["jitter_ms"]["max"] == pytest.approx(one["delay_ms"]["max"] - 20, abs=1.5)
        assert one["slowdown"] is None
        assert one["video"] is None
    assert of["call.right"]["packets"] == pytest.approx(400, abs=1)
    assert of["game"]["packets"] == pytest.approx(800, abs=1)
    assert of["game"]["goodput_mbit"] == pytest.approx(0.08 * 72 / 100, rel=0.01)
    assert of["call.right"]["mos"] > 4.25
    assert of["game"]["mos"] is None
    assert of["feed"]["cc"] == "cubic"
    assert of["feed"]["loss_ratio"] is None
    assert of["feed"]["goodput_mbit"] == pytest.approx(0.5, rel=0.03)
    assert of["reader.0"]["page_load_s"]["p50"] >= 0.06, "two round trips"
    assert of["reader.0"]["completed"] > 0
    assert of["video0"]["video"]["stalls"] == 0
    assert of["video0"]["video"]["quality_mbit"] > 1.5
    for name in ("files", "upload0"):
        assert 0.99 < of[name]["slowdown"]["p50"] < 1.5, (name, of[name]["slowdown"])
    assert of["upload0"]["completed"] >= 4


def test_every_kind_has_its_measures_in_the_simulator(sojourn: Run, mix: Path) -> None:
    check(flows(sojourn, mix))


def test_every_kind_has_its_measures_in_the_kernel_from_the_same_draws(sojourn: Run, mix: Path) -> None:
    kernel_or_skip()
    simulated, real = flows(sojourn, mix), flows(sojourn, mix, "--world", "kernel")
    check(real)
    for name, one in simulated.items():
        other = real[name]
        if one["delay_ms"]:
            assert other["packets"] == pytest.approx(one["packets"], abs=1), name
            assert other["delay_ms"]["p50"] == pytest.approx(one["delay_ms"]["p50"], rel=0.05), name
        else:
            assert other["goodput_mbit"] == pytest.approx(one["goodput_mbit"], rel=0.05), name
        if one["fct_s"]:
            assert other["completed"] == pytest.approx(one["completed"], abs=1), name
            assert other["fct_s"]["p50"] == pytest.approx(one["fct_s"]["p50"], rel=0.15), name


def test_each_kind_of_application_has_a_table_with_the_columns_of_that_kind(
    sojourn: Run, small: Path, mix: Path
) -> None:
    titles = [kind.title for kind in table.KINDS]
    alone = sojourn("run", small).stdout
    assert [title for title in titles if title in alone] == ["pings", "long flows"]
    text = sojourn("run", mix).stdout
    parts = {title: text[text.index(title) :].split("\n\n")[0] for title in titles if title in text}
    assert list(parts) == ["calls and datagrams", "web", "video", "downloads and uploads"]
    assert [title for title, part in parts.items() if "MOS" in part] == ["calls and datagrams"]
    assert [title for title, part in parts.items() if "stalls" in part] == ["video"]
    assert "call.right" in parts["calls and datagrams"]
    assert "reader" in parts["web"]
    text = sojourn("run", mix, "--set", "flow.call.codec=g729a", "-f", "csv").stdout
    assert "hops.link.utilisation" in text


@pytest.mark.parametrize("world", ["sim", "kernel"])
def test_a_pool_is_the_union_of_its_flows(world: str, sojourn: Run, tmp_path: Path) -> None:
    if world == "kernel":
        kernel_or_skip()
    file = tmp_path / "crowd.toml"
    file.write_text(CROWD)
    pool = ["--set", "flow.readers.pool=true", "--set", "flow.films.pool=true"]
    asked = [["run", file, "--world", world, "-f", "json", *more] for more in ([], pool)]
    each, pooled = [json.loads(sojourn(*words).stdout)["runs"][0] for words in asked]
    assert each["hops"] == pooled["hops"], "the traffic is the same"
    assert [flow["name"] for flow in pooled["flows"]] == ["readers", "films"]
    for row in pooled["flows"]:
        flows = [flow for flow in each["flows"] if flow["name"].startswith(row["name"] + ".")]
        assert len(flows) == {"readers": 12, "films": 3}[row["name"]]
        assert row["completed"] > len(flows)
        for key in ("packets", "drops", "retransmits", "completed", "unfinished"):
            assert row[key] == sum(flow[key] for flow in flows), key
        assert row["goodput_mbit"] == pytest.approx(sum(flow["goodput_mbit"] for flow in flows))
        for key in ("rtt_ms", "fct_s", "slowdown", "page_load_s"):
            found = [flow[key] for flow in flows if flow[key]]
            assert (row[key] and row[key]["max"]) == max((one["max"] for one in found), default=None), key
        if row["name"] == "films":
            films = [flow["video"] for flow in flows]
            assert row["video"]["switches"] == sum(one["switches"] for one in films)
            assert row["video"]["stalls"] == sum(one["stalls"] for one in films)
    described = load(file, [("flow.readers.pool", "true")]).describe(0)["flows"]
    assert [(flow["name"], flow["count"]) for flow in described[:2]] == [("readers", 12), ("films.0", 1)]


def test_responsiveness_is_judged_by_discipline(sojourn: Run, tmp_path: Path) -> None:
    text = sojourn("run", SCENARIO, "--out", tmp_path / "out").stdout
    done = json.loads((tmp_path / "out" / "results.json").read_text())
    of = {run["set"]["hop.bottleneck.qdisc"].split()[0]: run["flows"][0]["rpm"] for run in done["runs"]}
    assert of["pfifo"]["rpm"] < 200
    assert of["codel"]["rpm"] > 1000
    for name in ("fq_codel", "cake"):
        assert of[name]["rpm"] > 1000
        assert of[name]["foreign"] > of[name]["loaded"] > 1000, "a new connection passes by the load"
    for one in of.values():
        assert one["rpm"] == pytest.approx((one["foreign"] + one["loaded"]) / 2)
        assert one["foreign"] == pytest.approx(60_000 / ((one["tcp_ms"] + one["tls_ms"] + one["http_ms"]) / 3))
        assert one["loaded"] == pytest.approx(60_000 / one["loaded_ms"])
        assert one["confidence"] == one["capacity_confidence"] == "high"
    assert "responsiveness under load: rpm0" in text
    assert "RPM" in text


def test_the_report_shows_the_applications(sojourn: Run, mix: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mix-report"
    sojourn("run", mix, "--out", folder)
    page = (folder / "report.html").read_text()
    for title in ("Calls and datagrams", "Web: reader", "Video: video0", "Downloads and uploads"):
        assert f"<h3>{title}</h3>" in page, title
    assert "mean opinion score" in page
