"""Counters as `tc -s -j qdisc show` prints them, from the simulator and from a real kernel."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, kernel_or_skip
from sojourn import _core, stats
from sojourn.kernel import Kernel
from sojourn.kernel.replay import replay

LINES = (
    "pfifo limit 50",
    "bfifo limit 50000",
    "pfifo_head_drop limit 30",
    "codel ecn",
    "codel ce_threshold 5ms limit 200",
    "fq_codel limit 300 ce_threshold 5ms",
    "fq_codel memory_limit 100000",
    "fq limit 300",
    "fq limit 300 maxrate 5mbit",
    "sfq limit 300",
    "sfq limit 100 headdrop",
    "sfq limit 300 redflowlimit 60000 min 3000 max 15000 burst 5 probability 0.1 ecn",
    "sfq limit 300 redflowlimit 60000 min 3000 max 15000 burst 5 probability 0.1 ecn harddrop headdrop",
    "pie limit 300 dq_rate_estimator",
    "pie limit 30 ecn",
    "fq_pie limit 300 ecn",
    "dualpi2 limit 300",
    "dualpi2 limit 20",
    "red limit 600000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1 ecn",
    "red limit 60000 min 10000 max 40000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1 ecn nodrop",
    "red limit 90000 min 10000 max 40000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1",
    "choke limit 300 bandwidth 10mbit min 20 max 60 burst 40 probability 0.1 ecn",
    "sfb limit 300",
    "cake",
    "cake bandwidth 7mbit diffserv3",
    "cake bandwidth 3mbit diffserv8 memlimit 200000",
    "prio",
    "tbf rate 6mbit burst 5000 limit 60000",
    "tbf rate 6mbit burst 1300 limit 60000",
    "tbf rate 6mbit burst 5000 child fq_codel limit 10240",
    "tbf rate 6mbit burst 1300 child codel",
    "htb rate 5mbit child codel",
    "htb rate 5mbit",
    "htb rate 5mbit child cake besteffort",
    "ccaq limit 300",
    "ccaq memory_limit 100000 flows 8",
    "htb rate 5mbit child ccaq",
    "ccaq variant paper",
)
WHEN_ASKED_US = {"drop_next", "delay-c", "delay-l"}
"""Counters that depend on when they are read: tc runs some microseconds after the last row of the trace."""
SINCE_TC_6_7 = {"fastpath"}
"""Counters that older versions do not print."""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """The kernel that 'make test' built or restored."""
    return kernel_or_skip()


@pytest.fixture(scope="module")
def trace() -> bytes:
    """Eight flows with all code points, at 1.1 times the dequeue rate, so that queues are not empty at the end."""
    draw, now, rows = random.Random(7), 0, []
    for _ in range(6000):
        now += int(draw.expovariate(1 / 900_000))
        flow, length = draw.choice([1, 1, 1, 2, 3, 4, 5, 6]), draw.choice([1514, 1514, 600, 90])
        octet = draw.choice([0, 1, 2, 2, 3]) | draw.choice([0, 0, 10, 46, 8]) << 2
        rows.append((now, 0, f"{now},enqueue,{flow},{length},{octet}"))
    rows += [(at, 1, f"{at},dequeue,,,") for at in range(0, now, 1_100_000)]
    return "\n".join(["time_ns,op,flow,bytes,ecn", *(row for *_, row in sorted(rows)), ""]).encode()


def differences(ours: Any, theirs: Any, key: str = "") -> Iterator[str]:
    """Finds keys that are missing on one side, and values that differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            if name in SINCE_TC_6_7 and name not in theirs:
                continue
            yield from differences(ours.get(name, "missing"), theirs.get(name, "missing"), f"{key}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{key}[{place}]")
    elif key.rpartition(".")[2] in WHEN_ASKED_US and isinstance(ours, int) and isinstance(theirs, int):
        if abs(ours - theirs) > 1000:
            yield f"{key}: {ours} here, {theirs} in the kernel"
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{key}: {ours!r} here, {theirs!r} in the kernel"


@pytest.mark.parametrize("line", LINES)
def test_after_the_same_trace_every_counter_is_the_kernels(kernel: Kernel, trace: bytes, line: str) -> None:
    *_, theirs = replay(trace, "trace", line, kernel=kernel)
    *_, ours = _core.replay(trace, "trace", _core.as_in(line, kernel.version), None, 1514)
    assert theirs is not None
    assert sorted(differences(ours, theirs)) == []
    assert theirs["packets"] > 2000
    assert theirs["drops"] > 100 or line == "prio", "its bands hold a thousand packets each"


@pytest.mark.parametrize("line", LINES)
def test_counters_that_are_zero_have_their_keys_too(kernel: Kernel, line: str) -> None:
    trace = b"time_ns,op,flow,bytes,ecn\n5,enqueue,1,100,0\n9,dequeue,,,\n"
    *_, theirs = replay(trace, "trace", line, kernel=kernel)
    *_, ours = _core.replay(trace, "trace", _core.as_in(line, kernel.version), None, 1514)
    assert sorted(differences(ours, theirs)) == []


CHANGES = (
    ("pfifo limit 50", "pfifo limit 5"),
    ("codel limit 100", "codel limit 5"),
    ("fq_codel limit 100", "fq_codel limit 5"),
    ("fq_codel", "fq_codel memory_limit 20000"),
    ("fq limit 100", "fq limit 5"),
    ("pie limit 100", "pie limit 5"),
    ("fq_pie limit 100", "fq_pie limit 5"),
    ("dualpi2 limit 100", "dualpi2 limit 5"),
    ("choke limit 100 bandwidth 10mbit min 2 max 9 burst 3", "choke limit 12 bandwidth 10mbit min 2 max 9 burst 3"),
    (
        "red limit 600000 min 30000 max 90000 avpkt 1000 burst 55",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55",
    ),
    ("sfb limit 50", "sfb limit 10"),
    ("prio bands 3", "prio bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1"),
    ("cake diffserv8", "cake besteffort"),
)


@pytest.mark.parametrize(("line", "change"), CHANGES)
def test_packets_that_a_change_drops_are_counted_as_the_kernel_counts_them(
    kernel: Kernel, line: str, change: str
) -> None:
    """They are counted as drops, as sent, or not at all, depending on the discipline."""
    rows = [f"{n},enqueue,{n % 4},1000,{n % 3 | (n % 4) << 5}" for n in range(1, 31)]
    rows += [f"100,change,{change},,", *(f"{n},dequeue,,," for n in range(200, 204))]
    trace = "\n".join(["time_ns,op,flow,bytes,ecn", *rows, ""]).encode()
    *_, theirs = replay(trace, "trace", line, kernel=kernel)
    *_, ours = _core.replay(trace, "trace", _core.as_in(line, kernel.version), None, 1514)
    found = ours
    common = ("packets", "bytes", "drops", "qlen", "backlog")
    assert theirs is not None
    assert [found[key] for key in common] == [theirs[key] for key in common]


@pytest.mark.parametrize("line", ["codel", "pfifo limit 20", "bfifo limit 30000", "fq_codel", "sfq", "cake"])
def test_packets_that_wait_before_the_device_are_counted_as_requeues(
    sojourn: Run, kernel: Kernel, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "requeues.toml"
    slower = SCENARIO.replace('"3mbit"', '"1.3mbit"', 1).replace('"3mbit"', '"1.7mbit"')
    file.write_text(slower.replace("QDISC", line))
    found = {}
    for world in ("sim", "kernel"):
        done = sojourn("run", file, "--world", world, "-f", "json")
        assert done.returncode == 0, done.stderr
        found[world] = json.loads(done.stdout)["runs"][0]["hops"]["b"]["stats"]
    ours, theirs = (found[world]["requeues"] for world in ("sim", "kernel"))
    assert ours == pytest.approx(theirs, rel=0.02, abs=2)
    assert (ours > 200) == (line != "cake"), "cake never lets a packet pass"


def test_the_guide_names_the_disciplines_that_count_requeues(sojourn: Run, tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/read-the-counters.md").read_text()
    (row,) = (line for line in guide.splitlines() if line.startswith("| `requeues` |"))
    lines = ["codel", "fq_codel", "sfq", "pfifo", "bfifo limit 30000", "pfifo_head_drop"]
    lines += [
        "cake",
        "fq",
        "fq_pie",
        "pie",
        "dualpi2",
        "red limit 400000 avpkt 1000",
        "tbf rate 1mbit burst 3000 limit 30000",
    ]
    slower = SCENARIO.replace('"3mbit"', '"1.3mbit"', 1).replace('"3mbit"', '"1.7mbit"').replace("QDISC", "codel")
    file = tmp_path / "requeues.toml"
    file.write_text(slower + f'[sweep]\n"hop.b.qdisc" = {json.dumps(lines)}\n')
    runs = json.loads(sojourn("run", file, "-f", "json").stdout)["runs"]
    for line, run in zip(lines, runs, strict=True):
        named = line.split()[0] in re.findall(r"\w+", row)
        assert (run["hops"]["b"]["stats"]["requeues"] > 0) == named, line


def test_a_difference_in_a_key_or_a_value_is_seen() -> None:
    assert sorted(differences({"a": 1, "b": [{"c": 2}]}, {"b": [{"c": 3}], "d": 0})) == [
        ".a: 1 here, 'missing' in the kernel",
        ".b[0].c: 2 here, 3 in the kernel",
        ".d: 'missing' here, 0 in the kernel",
    ]
    assert [*differences({"drop_next": 2000}, {"drop_next": 999})] != []


SCENARIO = """\
duration = "6s"
measure = ["1s", "end"]
[[hop]]
name = "b"
rate = "4mbit"
delay = "5ms"
qdisc = "QDISC"
[[flow]]
kind = "cbr"
rate = "3mbit"
size = 1000
stop = "5s"
[[flow]]
kind = "cbr"
rate = "3mbit"
size = 1000
stop = "5s"
"""


@pytest.mark.parametrize(
    "line", ["pfifo limit 20", "bfifo limit 30000", "fq limit 40", "sfq limit 40", "pfifo_head_drop limit 30"]
)
def test_after_the_same_datagrams_a_runs_counters_are_the_kernels(
    sojourn: Run, kernel: Kernel, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "flood.toml"
    file.write_text(SCENARIO.replace("QDISC", line))
    found = {}
    for world in ("sim", "kernel"):
        done = sojourn("run", file, "--world", world, "-f", "json")
        assert done.returncode == 0, done.stderr
        found[world] = json.loads(done.stdout)["runs"][0]
    ours, theirs = (found[world]["hops"]["b"]["stats"] for world in ("sim", "kernel"))
    assert (ours["qlen"], theirs["qlen"]) == (0, 0)
    assert ours.keys() - theirs.keys() <= SINCE_TC_6_7
    assert theirs.keys() <= ours.keys()
    total = {world["packets"] + world["drops"] for world in (ours, theirs)}
    assert len(total) == 1, "both worlds send the same datagrams"
    assert abs(ours["packets"] - theirs["packets"]) <= 2, "the stack around the discipline may hold a packet"
    # Counters cover the whole run, a hop's drops the measuring window.
    hop = found["sim"]["hops"]["b"]
    assert ours["drops"] == hop["drops"] + found["sim"]["startup"]["hops"]["b"]["drops"] > hop["drops"]
    assert found["sim"]["startup"]["hops"]["b"]["stats"] is None


def test_replay_prints_the_counters_after_the_fates(sojourn: Run, tmp_path: Path, trace: bytes) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(trace)
    bare = sojourn("replay", file, "--qdisc", "codel limit 100")
    done = sojourn("replay", file, "--qdisc", "codel limit 100", "-s")
    assert (done.stdout, bare.stderr) == (bare.stdout, "")
    first, sent, backlog, *own = done.stderr.splitlines()
    assert first == "qdisc codel limit 100"
    found = json.loads(sojourn("replay", file, "--qdisc", "codel limit 100", "-f", "json").stdout)["stats"]
    assert f"Sent {found['bytes']} bytes {found['packets']} pkt (dropped {found['drops']}," in sent
    assert backlog.split() == ["backlog", f"{found['backlog']}b", f"{found['qlen']}p", "requeues", "0"]
    assert f"drop_overlimit {found['drop_overlimit']}" in own[1]


def test_run_prints_the_counters_only_when_asked_and_within_eighty_columns(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "flood.toml"
    file.write_text(
        SCENARIO.replace("QDISC", "cake diffserv8") + '[sweep]\n"hop.b.qdisc" = ["cake diffserv8", "codel"]\n'
    )
    bare = sojourn("run", file, "--out", tmp_path / "bare", "--seeds", "2")
    assert "Sent" not in bare.stdout
    done = sojourn("run", file, "--out", tmp_path / "stats", "--seeds", "2", "--stats")
    assert done.stdout.startswith(bare.stdout)
    blocks = done.stdout[len(bare.stdout) :]
    assert blocks.count(" Sent ") == 2
    assert "qdisc cake diffserv8" in blocks
    assert "qdisc codel" in blocks
    assert max(len(line) for line in blocks.splitlines()) <= 80
    assert not any(line.endswith(" ") for line in blocks.splitlines())


TC = {
    "codel ecn": """\
qdisc codel ecn
 Sent 3603448 bytes 3843 pkt (dropped 1157, overlimits 0 requeues 0)
 backlog 920976b 1000p requeues 0
  count 740 lastcount 1 ldelay 1.33s dropping drop_next 1.58ms
  maxpacket 1514 ecn_mark 602 drop_overlimit 1019
""",
    "cake bandwidth 7mbit diffserv3": """\
qdisc cake bandwidth 7mbit diffserv3
 Sent 3613942 bytes 3842 pkt (dropped 479, overlimits 2 requeues 0)
 backlog 1524486b 1679p requeues 0
 memory used: 1529082b of 4Mb
 capacity estimate: 7Mbit
 min/max network layer size:           90 /    1514
 min/max overhead-adjusted size:       90 /    1514
 average network hdr offset:           14

                   Bulk  Best Effort        Voice
  thresh      437496bit        7Mbit     1750Kbit
  target         41.5ms          5ms       10.4ms
  interval        137ms        100ms        105ms
  pk_delay        4.23s        3.08s        139ms
  av_delay        1.36s        628ms       44.3ms
  sp_delay        1.35s       47.1ms       3.09ms
  backlog       757872b      762986b        3628b
  pkts             1196         3609         1195
  bytes         1127538      3315146      1145894
  way_inds            0            0            0
  way_miss            6            6            6
  way_cols            0            0            0
  drops              76          382           21
  marks             262         1407          133
  ack_drop            0            0            0
  sp_flows            0            0            5
  bk_flows            6            6            1
  un_flows            0            0            0
  max_len          1514         1514         1514
  quantum           300          300          300
""",
}
"""Output of iproute2 6.1 for the counters below, without parameters and trailing blanks."""


def test_the_text_is_laid_out_as_tc_prints_it() -> None:
    common = {"overlimits": 0, "requeues": 0}
    codel = {"kind": "codel", "bytes": 3603448, "packets": 3843, "drops": 1157, "backlog": 920976, "qlen": 1000}
    codel |= {"count": 740, "lastcount": 1, "ldelay": 1325202, "dropping": True, "drop_next": 1580, "ce_mark": 0}
    codel |= {"maxpacket": 1514, "ecn_mark": 602, "drop_overlimit": 1019}
    keys = [key for _, key in stats.ROWS]
    tins = (
        (54687, 41527, 136527, 4228612, 1361060, 1350402, 757872, 1196, 1127538, 0, 6, 0, 76, 262, 0, 0, 6, 0),
        (875000, 5000, 100000, 3079319, 628450, 47075, 762986, 3609, 3315146, 0, 6, 0, 382, 1407, 0, 0, 6, 0),
        (218750, 10381, 105381, 139172, 44281, 3090, 3628, 1195, 1145894, 0, 6, 0, 21, 133, 0, 5, 1, 0),
    )
    cake = {"kind": "cake", "bytes": 3613942, "packets": 3842, "drops": 479, "backlog": 1524486, "qlen": 1679}
    cake |= {"memory_used": 1529082, "memory_limit": 4194304, "capacity_estimate": 875000, "avg_hdr_offset": 14}
    cake |= {"min_network_size": 90, "max_network_size": 1514, "min_adj_size": 90, "max_adj_size": 1514}
    whole: dict[str, Any] = {**common, **cake, "overlimits": 2}
    whole["tins"] = [dict(zip(keys, (*tin, 1514, 300), strict=True)) for tin in tins]
    assert "\n".join([*stats.text("codel ecn", {**common, **codel}), ""]) == TC["codel ecn"]
    line = "cake bandwidth 7mbit diffserv3"
    assert "\n".join([*stats.text(line, whole), ""]) == TC[line]


def test_every_kind_has_a_line_for_each_of_its_counters(trace: bytes) -> None:
    for line in (*LINES, "blue", "fq_codel variant ns2"):
        *_, text = _core.replay(trace, "trace", line, None, 1514)
        found = text
        layout = "".join(stats.layout_of(found))
        if not layout:
            continue
        left = {key for key in found if f"{{{key}" not in layout} - stats.COMMON
        assert left <= {"alloc_errors", "horizon_drops", "horizon_caps"}, f"{line}: {left}"
