"""A limit of memory admits as many ACKs in the kernel world as in the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Run, kernel_or_skip

SCENARIO = """\
duration = "10s"
[[hop]]
name = "l"
delay = "10ms"
down = { rate = "20mbit", qdisc = "pfifo limit 200" }
up = { rate = "64kbit", qdisc = "QDISC" }
[[flow]]
kind = "bulk"
rtt = "40ms"
"""


@pytest.mark.parametrize("qdisc", ["cake bandwidth 64kbit memlimit 50000", "fq_codel target 10s memory_limit 50000"])
def test_a_memory_limit_holds_as_many_acks_as_on_a_router(qdisc: str, sojourn: Run, tmp_path: Path) -> None:
    """An ACK counts with a buffer of 896 bytes. Linux's own ACKs would count 2 bytes, and hundreds would wait."""
    kernel_or_skip()
    file = tmp_path / "acks.toml"
    file.write_text(SCENARIO.replace("QDISC", qdisc))
    most = []
    for world in ("sim", "kernel"):
        [run] = json.loads(sojourn("run", file, "--world", world, "-f", "json").stdout)["runs"]
        most.append(run["hops"]["l.reverse"]["queue_packets"]["max"])
    # A SACK option makes an ACK longer in the simulator's count. fq_codel drops half of a queue that exceeds its limit.
    assert most == [pytest.approx(50_000 / 896, abs=4)] * 2
