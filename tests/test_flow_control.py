"""Flow control between two hops: which link is paused, which queue grows, and that both worlds agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip


def scenario(folder: Path, router: str, modem: str) -> Path:
    """A fast router followed by a slow modem, with these keys."""
    path = folder / "flow-control.toml"
    path.write_text(
        f'duration = "20s"\nmeasure = ["5s", "end"]\n[[hop]]\nname = "router"\nrate = "100mbit"\n{router}\n'
        f'[[hop]]\nname = "modem"\nrate = "2mbit"\ndelay = "10ms"\n{modem}\n'
        '[[flow]]\nkind = "bulk"\ncount = 2\nrtt = "50ms"\n'
    )
    return path


def hops(sojourn: Run, file: Path, world: str) -> dict[str, Any]:
    """Returns the measures of each hop."""
    if world == "kernel":
        kernel_or_skip()
    [run] = json.loads(sojourn("run", file, "--world", world, "-f", "json").stdout)["runs"]
    return run["hops"]


ROUTERS = [
    'qdisc = "pfifo limit 50"',
    'qdisc = "pfifo limit 50"\ndelay = "20us"',
    'qdisc = "pfifo limit 30"\nnic = { ring = 20 }',
]


@pytest.mark.parametrize("world", ["sim", "kernel"])
@pytest.mark.parametrize("router", ROUTERS)
def test_the_queue_and_the_drops_are_the_router_s(router: str, world: str, sojourn: Run, tmp_path: Path) -> None:
    found = hops(sojourn, scenario(tmp_path, router, 'qdisc = "pfifo limit 20"\npause = true'), world)
    assert found["modem"]["drops"] == 0
    assert found["router"]["drops"] > 0
    assert found["router"]["queue_packets"]["mean"] > 20
    # The modem pauses the router above 18 packets; with a delay of 20 us in each direction, above 7. It resumes two
    # below.
    assert found["modem"]["queue_packets"]["p50"] >= (5 if "delay" in router else 16)
    assert found["modem"]["queue_packets"]["max"] <= 20
    assert found["modem"]["utilisation"] > 0.999
    assert found["router"]["paused_fraction"] == pytest.approx(0.98, abs=0.01)
    assert found["modem"]["paused_fraction"] is None


@pytest.mark.parametrize("router", ROUTERS)
def test_both_worlds_agree(router: str, sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, router, 'qdisc = "pfifo limit 20"\npause = true')
    sim, kernel = (hops(sojourn, file, world) for world in ("sim", "kernel"))
    assert sim["router"]["paused_fraction"] == pytest.approx(kernel["router"]["paused_fraction"], abs=0.006)
    # Without a delay they differ by half a packet: in one world a transmission has begun, in the other it has not.
    packets = 0.01 if "delay" in router else 0.6
    means = [world["modem"]["queue_packets"]["mean"] for world in (sim, kernel)]
    assert means[0] == pytest.approx(means[1], abs=packets)


@pytest.mark.parametrize("world", ["sim", "kernel"])
def test_a_managed_router_manages_once_the_modem_stops_it(world: str, sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, 'qdisc = "fq_codel"', 'qdisc = "pfifo limit 8"\npause = true')
    found = hops(sojourn, file, world)
    assert found["modem"]["drops"] == 0
    assert found["router"]["drops_by_reason"]["codel"] > 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--link", "htb"], "hop modem: pause: not with htb"),
        (["--set", "host.gso=true"], "hop modem: pause: not with gso"),
    ],
)
def test_what_the_kernel_world_can_not_stop_is_refused(
    arguments: list[str], problem: str, sojourn: Run, tmp_path: Path
) -> None:
    kernel_or_skip()
    file = scenario(tmp_path, ROUTERS[0], 'qdisc = "pfifo limit 20"\npause = true')
    assert problem in sojourn("run", file, "--world", "kernel", *arguments, code=2).stderr


def test_check_says_whether_a_queue_stops_another(sojourn: Run, tmp_path: Path) -> None:
    file = scenario(tmp_path, ROUTERS[0], 'qdisc = "pfifo limit 20"\npause = true')
    first = json.loads(sojourn("check", file, "-f", "json").stdout)["first"]
    assert [hop["pause"] for hop in first["hops"]] == [False, False, True, False]
