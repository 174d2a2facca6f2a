"""`sojourn replay --world kernel`: the real kernel and ours make the same decisions, packet by packet."""

from __future__ import annotations

import csv
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import ROOT, Run, program, skip_loudly
from sojourn import _core
from sojourn.errors import Refusal
from sojourn.kernel import Kernel, boot, find, modules, tools
from sojourn.kernel.replay import replay

HEADER = "time_ns,op,flow,bytes,ecn\n"
ROOM = """\
#!{box} sh
{box} mount -t proc proc /proc
{box} mount -t tmpfs tmpfs /mnt
{box} mkdir /mnt/run /mnt/modules
{box} mount -t hostfs -o /proc/self/cwd/run none /mnt/run
{box} mount -t hostfs -o /proc/self/cwd/modules none /mnt/modules
cd /mnt/run
{box} insmod /mnt/modules/sojourn_replay.ko
{tc} qdisc add dev replay0 root codel
for count in 1000 1001; do
    if echo $count >/proc/sojourn_replay/changes; then echo "$count kept"; else echo "$count refused"; fi
done >said 2>/dev/null
echo '{{"ok": true}}' >ended.json
{box} poweroff -f
"""
"""The number of changes of a discipline that the module can store."""
OURS = ("sch_ccaq", "sch_ccaq_paper")
"""Our modules with disciplines."""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """The kernel that 'make test' built or restored."""
    try:
        tools.real("busybox", "busybox-static")
        return find()
    except Refusal as error:
        skip_loudly(str(error))
        raise


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginnings of the traces of crates/oracle, and lines for tc."""
    if shutil.which("cargo") is None:
        skip_loudly("no cargo, so there are no traces")
    folder = tmp_path_factory.mktemp("traces")
    # Built like `cargo test --workspace`, so that nothing is built again afterwards.
    command = ["cargo", "build", "--locked", "--quiet", "--workspace", "--profile", "test", "--example", "traces"]
    subprocess.run(command, cwd=ROOT, check=True)
    subprocess.run([ROOT / "target/debug/examples/traces", folder, "20000"], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (17, ""),
        (18, ""),
        (23, "fq_codel limit 1000"),
        (30, "fq_codel limit 300 flows 64 noecn"),
        (39, "fq_codel limit 1000 quantum 300 memory_limit 300000 drop_batch 16"),
        (24, "fq limit 1000"),
        (33, "fq limit 10000 flow_limit 20"),
        (37, "fq limit 1000 orphan_mask 15"),
        (17, "ccaq"),
        (23, "ccaq limit 1000"),
        (30, "ccaq limit 300 flows 64 noecn"),
        (39, "ccaq limit 1000 quantum 300 memory_limit 300000 idle 0.5%"),
        (31, "ccaq variant paper limit 500 flow_limit 20 max_gi 50ms"),
        (36, "pfifo_head_drop limit 100"),
        (24, "pie limit 300 ecn target 5ms"),
        (37, "pie limit 1000 dq_rate_estimator bytemode"),
        (31, "fq_pie limit 300 flows 64 ecn target 5ms"),
        (29, "dualpi2 limit 1000"),
        (36, "dualpi2 drop_enqueue max_rtt 30ms any_ect step_thresh 3p"),
        (35, "sfq limit 300 divisor 64 quantum 600 headdrop"),
        (38, "sfq"),
        (35, "sfq limit 300 divisor 64 redflowlimit 100000 min 8000 max 60000 probability 0.20 ecn headdrop"),
        (38, "sfq redflowlimit 60000 min 3000 max 15000 burst 20 ecn harddrop"),
        (25, "red limit 600000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1 ecn"),
        (30, "choke limit 300 bandwidth 10mbit min 20 max 60 burst 40 probability 0.1 ecn"),
        (25, "cake besteffort memlimit 200000"),
        (36, "cake rtt 10ms dual-srchost memlimit 200000"),
        (34, "sfb limit 300 max 60 target 30 increment 0.005 decrement 0.0005"),
    ],
)
def test_the_kernel_and_core_agree_on_each_packets_fate_and_its_nanosecond(
    kernel: Kernel, traces: Path, number: int, line: str
) -> None:
    compare = program("experiments/replay/kernel_replay.py")
    with (traces / "index.csv").open() as file:
        row = list(csv.DictReader(file))[number]
    trace = compare.Trace(traces / row["file"], row["name"], row["rate_bps"] or None)
    played = compare.play(kernel, trace, line or trace.codel)
    assert played.packets > 8000
    assert played.drops > 1000, "it says something about drops"
    assert played.first == ""


@pytest.mark.parametrize(
    "line",
    [
        "prio bands 4 priomap 3 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
        "tbf rate 9mbit burst 20000 latency 50ms peakrate 11mbit mtu 3000",
        "tbf rate 9mbit burst 5000 child fq_codel limit 10240",
        "cake bandwidth 7mbit diffserv8 atm overhead 40 mpu 64",
        "cake bandwidth 6mbit diffserv4 ingress overhead 0 memlimit 300000",
        "cake diffserv3 wash raw ptm bandwidth 8mbit",
        "cake precedence srchost bandwidth 8mbit nat ethernet",
        "tbf rate 9mbit burst 5000 limit 50000 linklayer atm overhead 10 mpu 64",
        "tbf rate 9mbit burst 5000 child fq_codel ce_threshold 1ms ce_threshold_selector 0x1/0x3",
        "tbf rate 9mbit burst 5000 child fq_codel ce_threshold 1ms ce_threshold_selector 0x80/0xc0",
        "htb rate 7mbit linklayer atm overhead 10 mpu 96",
        "htb rate 7mbit ceil 6.9mbit burst 3333 cburst 2222 overhead 18 mpu 64",
    ],
)
def test_shapers_and_priorities_agree_when_they_are_asked_at_every_third_of_a_millisecond(
    kernel: Kernel, traces: Path, tmp_path: Path, line: str
) -> None:
    compare = program("experiments/replay/kernel_replay.py")
    played = compare.play(kernel, compare.Trace(asked(traces, tmp_path), "asked", None), line)
    assert played.packets > 8000
    assert played.first == ""


def asked(traces: Path, folder: Path, *changes: str) -> Path:
    """A trace with a DSCP for each packet, a dequeue every third of a millisecond, and equally spaced changes."""
    arrivals = [row.split(",") for row in (traces / "flows-08.csv").read_text().splitlines()[1:]]
    first, last = int(arrivals[0][0]), int(arrivals[-1][0])
    rows = [(at, 1, f"{at},dequeue,,,") for at in range(first, last, 300_000)]
    rows += [
        (int(at), 0, f"{at},enqueue,{flow},{size},{int(ecn) | int(size) % 64 << 2}")
        for at, _, flow, size, ecn in arrivals
    ]
    times = [first + (last - first) * (number + 1) // (len(changes) + 1) for number in range(len(changes))]
    rows += [(at, 2, f"{at},change,{words},,") for at, words in zip(times, changes, strict=True)]
    file = folder / "asked.csv"
    file.write_text("\n".join([HEADER.strip(), *(row for *_, row in sorted(rows))]))
    return file


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("cake diffserv4", ("rtt 50ms", "rtt 20ms", "memlimit 99k")),
        ("cake diffserv4", ("besteffort", "rtt 50ms")),
        ("cake besteffort", ("diffserv4", "rtt 50ms")),
        ("cake bandwidth 8mbit diffserv4", ("bandwidth 4mbit", "bandwidth 20mbit", "unlimited", "bandwidth 6mbit")),
        ("cake bandwidth 6mbit diffserv8", ("besteffort",)),
        ("cake bandwidth 6mbit besteffort", ("precedence",)),
    ],
)
def test_the_kernel_and_core_agree_on_what_a_change_of_cake_does_to_its_tins(
    kernel: Kernel, traces: Path, tmp_path: Path, line: str, changes: tuple[str, ...]
) -> None:
    compare = program("experiments/replay/kernel_replay.py")
    file = asked(traces, tmp_path, *(f"cake {words}" for words in changes))
    played = compare.play(kernel, compare.Trace(file, "asked", None), line)
    assert played.packets > 8000
    assert played.drops > 100, "it says something about drops"
    assert played.first == ""


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (31, "codel limit 300 target 10ms ecn"),
        (23, "fq_codel limit 1000"),
        (33, "fq limit 1000"),
        (37, "fq limit 1000 maxrate 2mbit"),
        (25, "pie limit 300 ecn target 5ms"),
        (30, "fq_pie limit 300 flows 64 ecn target 5ms"),
        (25, "red limit 400000 ecn nodrop"),
        (30, "choke limit 300 bandwidth 10mbit min 20 max 60 burst 40 probability 0.1 ecn"),
        (34, "sfb limit 1000"),
        (29, "dualpi2 limit 1000"),
        (36, "prio"),
        (36, "tbf rate 4mbit burst 4000 child pfifo_head_drop limit 100"),
        (23, "ccaq"),
        (31, "ccaq limit 300 flows 64"),
        (31, "ccaq variant paper"),
        (28, "bfifo limit 150000"),
    ],
)
def test_the_kernel_and_core_agree_on_what_tc_changes_while_packets_wait(
    kernel: Kernel, traces: Path, tmp_path: Path, number: int, line: str
) -> None:
    compare = program("experiments/replay/kernel_replay.py")
    with (traces / "index.csv").open() as file:
        row = list(csv.DictReader(file))[number]
    trace = compare.Trace(traces / row["file"], row["name"], row["rate_bps"] or None)
    played = compare.play(kernel, compare.with_changes(tmp_path, trace, line), line)
    assert played.drops > 1000, "it says something about drops"
    assert played.first == ""


def test_a_change_that_the_kernel_refuses_is_an_error(kernel: Kernel) -> None:
    trace = (HEADER + "0,enqueue,1,1000,0\n5,change,hhf quantum 2000000000,,\n").encode()
    with pytest.raises(Refusal, match=r"t\.csv:3: change hhf quantum 2000000000: the kernel refused it: error \d+"):
        replay(trace, "t.csv", "hhf", kernel=kernel)
    nonsense = (HEADER + "0,enqueue,1,1000,0\n5,change,hhf quantum 1000,,\n6,change,hhf quantity 9,,\n").encode()
    with pytest.raises(Refusal, match=r"line 4 of the trace: tc qdisc change .* hhf quantity 9"):
        replay(nonsense, "t.csv", "hhf", kernel=kernel)


def test_a_guest_keeps_a_thousand_changes_and_more_are_refused_before_it_starts(kernel: Kernel, tmp_path: Path) -> None:
    """50 of the thousand changes are made, as each is a process in the guest; the module has room for all."""
    rows = [f"{n},change,codel limit {n + 1},,\n" for n in range(1001)]
    start = HEADER + "0,enqueue,1,1000,0\n"
    with pytest.raises(_core.Error, match=r"t\.csv:1003: change number 1001: a guest keeps at most 1000 in a trace"):
        replay((start + "".join(rows)).encode(), "t.csv", "codel", kernel=kernel)
    fates, *_ = replay((start + "".join(rows[:50]) + "2000,dequeue,,,\n").encode(), "t.csv", "codel", kernel=kernel)
    assert fates.endswith(b"0,1,1000,0,2000,delivered\n")
    words = {"box": tools.real("busybox", "busybox-static"), "tc": tools.real("tc", "iproute2")}
    init = tmp_path / "init.sh"
    init.write_text(ROOM.format(**words))
    init.chmod(0o755)
    assert boot(kernel, "{}", tmp_path, program=init).error is None
    assert (tmp_path / "said").read_text() == "1000 kept\n1001 refused\n"


def test_a_discipline_with_a_fault_is_seen(kernel: Kernel, traces: Path, tmp_path: Path) -> None:
    """The module of the paper's ccaq with one comparison inverted fails within the first few thousand packets."""
    for file in (ROOT / "kernel").glob("*.h"):
        shutil.copy(file, tmp_path)
    (tmp_path / "Kbuild").write_text("obj-m := sch_ccaq_paper.o\n")
    text = (ROOT / "kernel/sch_ccaq_paper.c").read_text()
    sound = "if (flow->credit <= 0) {"
    assert text.count(sound) == 1
    (tmp_path / "sch_ccaq_paper.c").write_text(text.replace(sound, "if (flow->credit < 0) {"))
    faulty = replace(kernel, modules=kernel.modules | modules.build(kernel, tmp_path))
    compare = program("experiments/replay/kernel_replay.py")
    with (traces / "index.csv").open() as file:
        row = list(csv.DictReader(file))[31]
    trace = compare.Trace(traces / row["file"], row["name"], row["rate_bps"])
    line = "ccaq variant paper quantum 100 initial_quantum 100"
    assert compare.play(kernel, trace, line).differences == 0
    assert compare.play(faulty, trace, line).differences > 0


def test_the_kernel_accepts_every_line_that_core_prints_for_tc(kernel: Kernel, traces: Path, tmp_path: Path) -> None:
    stress = program("kernel/tests/stress.py")
    lines = (traces / "lines.txt").read_text().splitlines()
    kinds = {line.split()[0] for line in lines}
    assert {"pfifo", "bfifo", "codel", "fq_codel", "fq", "ccaq", "ccaq_paper", "pie", "fq_pie", "dualpi2"} <= kinds
    assert len(lines) > 250
    # One tc for all lines: the kernel gets the same messages, and a process for each line takes most of a minute.
    both = (f"qdisc replace dev dut0 root {line}\nqdisc del dev dut0 root\n" for line in lines)
    (tmp_path / "lines").write_text("".join(both))
    script = "tc -batch lines"
    only = replace(kernel, modules={name: kernel.modules[name] for name in OURS})
    script += "\n! tc qdisc add dev dut0 root codel limit 7 variant linux\n"
    for plugin in modules.tc_plugins().glob("q_*.so"):
        shutil.copy(plugin, tmp_path)
    wanted = stress.Wanted(script=script, drain_s=1)
    ended, found = stress.stress(only, wanted, tmp_path)
    assert ended.error is None, ended.console
    assert found == [], (tmp_path / "said").read_text()


def test_the_command_prints_the_kernels_fates(sojourn: Run, kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        HEADER + "".join(f"{10 * n},enqueue,{n},1000,0\n" for n in range(3)) + "100,dequeue,,,\n"
    )
    out = sojourn("replay", "t.csv", "--qdisc", "pfifo limit 2", "--world", "kernel").stdout
    assert out.splitlines() == [
        "packet,flow,bytes,enqueue_ns,fate_ns,fate",
        "0,0,1000,0,100,delivered",
        "1,1,1000,10,0,queued",
        "2,2,1000,20,20,dropped:overlimit",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--qdisc", "codel variant rfc8289"), "the kernel's codel is Linux's"),
        (("--qdisc", "nonsense limit 7"), "nonsense"),
        (("--qdisc", "noqueue"), "has no queue"),
        (("--qdisc", "drr"), "does nothing without classes"),
        (("--qdisc", "pfifo", "--rate", "0.1bit"), "above zero"),
        (("--qdisc", "pfifo limit 100000", "--rate", "1bit"), "expected at most 2251799813685248 ns, 26 days"),
        (("--qdisc", "fq maxrate 1mbit", "--rate", "10mbit"), "holds packets back"),
        (("--qdisc", "mine", "--qdisc-module", "none.ko"), "expected a module such as my.ko"),
    ],
)
def test_what_can_not_be_replayed_is_said_in_a_line(
    sojourn: Run, kernel: Kernel, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    rows = "".join(f"{n},enqueue,1,1500,0\n" for n in range(200))
    (tmp_path / "t.csv").write_text(HEADER + rows)
    result = sojourn("replay", "t.csv", "--world", "kernel", *arguments, code=2)
    assert words in result.stderr


def test_a_module_of_another_name_does_not_pass_for_the_kernels_own(
    sojourn: Run, kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "0,enqueue,1,1500,0\n")
    module = str(kernel.modules["sch_ccaq_paper"])
    result = sojourn("replay", "t.csv", "--world", "kernel", "--qdisc", "codel", "--qdisc-module", module, code=2)
    assert "codel is the kernel's own: the module sch_ccaq_paper registers another name" in result.stderr


def test_a_shaper_holds_both_variants_of_ccaq_and_dualpi2(sojourn: Run, kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "0,enqueue,1,1500,0\n9,dequeue,,,\n")
    for child in ("ccaq", "ccaq variant paper", "dualpi2"):
        asked = ("--qdisc", f"tbf rate 10mbit burst 5000 limit 50000 child {child}")
        assert "delivered" in sojourn("replay", "t.csv", "--world", "kernel", *asked).stdout
