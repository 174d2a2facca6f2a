"""Flows with a DSCP: disciplines that classify by it do so in the simulator and in the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, kernel_or_skip

HOP = 'duration = "10s"\nmeasure = ["3s", "end"]\n[[hop]]\nname = "b"\nrate = "5mbit"\ndelay = "10ms"\n'


def runs(sojourn: Run, file: Path, world: str) -> list[dict[str, Any]]:
    """Returns the reports of all runs."""
    if world == "kernel":
        kernel_or_skip()
    found: list[dict[str, Any]] = json.loads(sojourn("run", file, "--world", world, "-f", "json").stdout)["runs"]
    return found


def written(folder: Path, text: str) -> Path:
    """Writes a scenario with one hop."""
    file = folder / "dscp.toml"
    file.write_text(HOP + text)
    return file


@pytest.mark.parametrize("world", ["sim", "kernel"])
def test_cake_leads_a_call_past_the_bulk_and_lower_effort_behind_it(sojourn: Run, world: str) -> None:
    found = runs(sojourn, ROOT / "scenarios/voice-by-dscp.toml", world)
    by_line = {run["set"]["hop.bottleneck.qdisc"]: {flow["name"]: flow for flow in run["flows"]} for run in found}
    sorted_, mixed = by_line["cake diffserv4 flowblind"], by_line["cake besteffort flowblind"]
    # A packet at 5 Mbit/s takes 2.4 ms.
    assert sorted_["voice"]["rtt_ms"]["p95"] < 40 + 2 * 2.4
    assert mixed["voice"]["rtt_ms"]["p50"] > 45
    backup = sorted_["backup.0"]["goodput_mbit"] + sorted_["backup.1"]["goodput_mbit"]
    assert backup < sorted_["bulk"]["goodput_mbit"] / 4
    assert mixed["backup.0"]["goodput_mbit"] > mixed["bulk"]["goodput_mbit"] / 2


@pytest.mark.parametrize("world", ["sim", "kernel"])
@pytest.mark.parametrize(("dscp", "waits"), [('"EF"', False), ("46", False), ('"CS0"', True)])
def test_acks_and_handshakes_have_it_too(sojourn: Run, world: str, dscp: str, waits: bool, tmp_path: Path) -> None:
    """The data of the thin flow goes left, where no packets are queued; its ACKs go right, where the data of a bulk
    flow is queued."""
    flows = (
        f'[[flow]]\nkind = "thin"\ninterval = "50ms"\nrtt = "40ms"\nacks = "every"\ndirection = "left"\ndscp = {dscp}\n'
    )
    flows += '[[flow]]\nkind = "bulk"\nrtt = "40ms"\n'
    [run] = runs(sojourn, written(tmp_path, f'qdisc = "cake diffserv4 flowblind rtt 300ms"\n{flows}'), world)
    rtt = {flow["name"]: flow["rtt_ms"] for flow in run["flows"]}["thin0"]
    assert (rtt["p50"] > 47) == waits, rtt


@pytest.mark.parametrize("world", ["sim", "kernel"])
def test_the_ecn_field_beside_it_stays_the_transport_s(sojourn: Run, world: str, tmp_path: Path) -> None:
    flow = '[[flow]]\nkind = "bulk"\nrtt = "40ms"\necn = true\ndscp = "AF41"\n'
    [run] = runs(sojourn, written(tmp_path, f'qdisc = "codel ecn"\n{flow}'), world)
    assert run["hops"]["b"]["marks"] > 3
    assert run["hops"]["b"]["drops"] == 0
    [run] = runs(sojourn, written(tmp_path, 'qdisc = "codel ecn"\n' + flow.replace("true", "false")), world)
    assert (run["hops"]["b"]["marks"], run["hops"]["b"]["drops"] > 3) == (0, True)
