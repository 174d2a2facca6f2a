"""In both worlds: packets that bypass an empty discipline, cake's ACK filter, and the memory of buffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, kernel_or_skip

FIELD = ROOT / "experiments/agree/field"


@pytest.fixture(autouse=True, scope="module")
def kernel() -> None:
    """The kernel that 'make test' built or restored."""
    kernel_or_skip()


def played(sojourn: Run, world: str, file: Path, *arguments: object) -> dict[str, Any]:
    """Returns the only run of a scenario."""
    done = sojourn("run", file, "--world", world, "-f", "json", *arguments)
    [run] = json.loads(done.stdout)["runs"]
    return dict(run)


def both(sojourn: Run, file: Path, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the same run in the simulator and in the kernel."""
    return played(sojourn, "sim", file, *arguments), played(sojourn, "kernel", file, *arguments)


def goodput(run: dict[str, Any], flow: str) -> float:
    """Returns the goodput in Mbit/s of the flow with this name."""
    [found] = [float(one["goodput_mbit"]) for one in run["flows"] if one["name"] == flow]
    return found


def test_acks_that_cake_filters_are_drops_as_tc_counts_them(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "adsl.toml"
    text = (FIELD / "02-adsl-ack-filter.toml").read_text()
    file.write_text(text.replace('["5s", "end"]', '["0s", "end"]').replace('duration = "40s"', 'duration = "10s"'))
    drops = played(sojourn, "kernel", file, "--keep", tmp_path / "kept")["hops"]["adsl.reverse"]
    counted = json.loads((tmp_path / "kept" / "0000" / "counted.json").read_text())
    [queue] = [one for one in counted["places"]["router1"]["qdiscs"] if one["dev"] == "hop0l"]
    filtered = sum(tin["ack_drops"] for tin in queue["tins"])
    assert filtered > 500
    assert drops["drops_by_reason"]["ack_filter"] == filtered
    assert drops["drops"] == queue["drops"]


@pytest.mark.parametrize("name", ["02-adsl-ack-filter", "03-adsl-ack-filter-aggressive"])
def test_cake_filters_acks_with_sack_blocks_as_linux_does(name: str, sojourn: Run) -> None:
    here, linux = (run["hops"]["adsl.reverse"] for run in both(sojourn, FIELD / f"{name}.toml"))
    assert here["drops_by_reason"]["ack_filter"] == pytest.approx(linux["drops_by_reason"]["ack_filter"], rel=0.1)
    assert here["drops"] == pytest.approx(linux["drops"], rel=0.1)
    assert here["sojourn_ms"]["p95"] == pytest.approx(linux["sojourn_ms"]["p95"], rel=0.1)


def test_codel_does_not_mark_the_first_packet_that_waits(sojourn: Run) -> None:
    cubic = ("--set", "flow.bulk.cc=cubic", "--set", "flow.bulk.jitter=0s", "--set", "flow.bulk.start=0s")
    here, linux = both(sojourn, FIELD / "04-codel-ce-threshold.toml", *cubic)
    assert goodput(linux, "bulk") == pytest.approx(2.36, rel=0.01)
    assert goodput(here, "bulk") == pytest.approx(goodput(linux, "bulk"), rel=0.01)
    marks = [run["hops"]["bottleneck"]["marks"] for run in (here, linux)]
    assert marks[0] == pytest.approx(marks[1], rel=0.01)


@pytest.mark.parametrize("rate", ["256kbit", "2mbit", "10mbit"])
def test_a_ping_waits_for_the_packet_that_passed_fq_codel(rate: str, sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "sparse.toml"
    file.write_text(
        f'duration = "20s"\nmeasure = ["5s", "end"]\n[[hop]]\nrate = "{rate}"\ndelay = "5ms"\nqdisc = "fq_codel"\n'
        '[[flow]]\nkind = "bulk"\nrtt = "40ms"\n'
        '[[flow]]\nname = "pings"\nkind = "pings"\ninterval = "20ms"\nrtt = "40ms"\n'
    )
    waits = []
    for run in both(sojourn, file):
        [pings] = [flow for flow in run["flows"] if flow["name"] == "pings"]
        waits.append(pings["rtt_ms"]["p95"] - 40)
    assert waits[0] == pytest.approx(waits[1], rel=0.12)


def test_four_megabytes_hold_as_many_packets_as_in_linux(sojourn: Run) -> None:
    here, linux = (run["hops"]["bottleneck"] for run in both(sojourn, FIELD / "07-fq-codel-memory-limit.toml"))
    assert linux["queue_packets"]["max"] < 2000
    assert here["queue_packets"]["max"] == pytest.approx(linux["queue_packets"]["max"], rel=0.03)
    assert here["drops"] == pytest.approx(linux["drops"], rel=0.03)
    assert here["sojourn_ms"]["p99"] == pytest.approx(linux["sojourn_ms"]["p99"], rel=0.1)


def one_flow(
    file: Path, *, keys: str = 'duration = "40s"', cc: str = "cubic", delay: str = "20ms", loss: str = "0%"
) -> Path:
    """Writes a scenario with one flow through a deep queue of 10 Mbit/s."""
    file.write_text(
        f'{keys}\n[[hop]]\nname = "l"\nrate = "10mbit"\ndelay = "{delay}"\nqdisc = "pfifo limit 10000"\n'
        f'impair = "loss {loss}"\n[[flow]]\nname = "bulk"\nkind = "bulk"\ncc = "{cc}"\n'
    )
    return file


def rtt_ms(run: dict[str, Any]) -> dict[str, float]:
    """Returns the RTT of the only flow."""
    [flow] = run["flows"]
    return dict(flow["rtt_ms"])


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_the_rtt_lacks_the_delay_of_acks_in_both_worlds(cc: str, sojourn: Run, tmp_path: Path) -> None:
    """By the oldest segment that an ACK acknowledges the p95 would be 65 ms: the last segment of a window waits."""
    # Without the slow start, whose queue is 5 % of the packets or not, by chance.
    file = one_flow(tmp_path / "loss.toml", keys='duration = "50s"\nmeasure = ["10s", "end"]', cc=cc, loss="1%")
    here, linux = (rtt_ms(run) for run in both(sojourn, file))
    assert linux["p95"] == pytest.approx(43.7, rel=0.01)
    assert here["p95"] == pytest.approx(linux["p95"], rel=0.01)
    assert here["p50"] == pytest.approx(linux["p50"], rel=0.01)


def test_acks_are_quick_while_the_window_grows_as_in_linux(sojourn: Run, tmp_path: Path) -> None:
    """With a window that does not grow, a ninth of these ACKs would not be sent."""
    file = one_flow(tmp_path / "start.toml", keys='duration = "1s"')
    here, linux = (run["hops"]["l.reverse"]["delivered_packets"] for run in both(sojourn, file))
    assert here == pytest.approx(linux, rel=0.03)


def test_bbr_whose_rtt_is_its_filters_window_crawls_as_in_linux(sojourn: Run, tmp_path: Path) -> None:
    """The windows are of a few segments, so that each ACK that is delayed counts."""
    file = one_flow(tmp_path / "far.toml", keys='duration = "300s"', cc="bbr", delay="5s")
    here, linux = (run["hops"]["l"]["delivered_packets"] for run in both(sojourn, file))
    assert linux == pytest.approx(710, rel=0.05)
    assert here == pytest.approx(linux, rel=0.1)
