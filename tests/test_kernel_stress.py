"""The stress harness in kernel/tests: it detects the faults that it is for, and a discipline of Linux passes."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT, kernel_or_skip, program, skip_loudly
from sojourn.errors import Refusal
from sojourn.kernel import Ended, Kernel, find, modules, tools

FOLDER = ROOT / "kernel/tests"
MACHINES = [("debug", 1), ("debian", 4)]
"""Kernels, and their numbers of CPUs."""
FLOWS_AND_QUEUES = {"ccaq-htb": (40, 1), "ccaq-mq": (2000, 2)}
CCAQ = [
    *((variant, cpus, script) for variant, cpus in MACHINES for script in FLOWS_AND_QUEUES),
    # Sanitizers and emulation are slow, so only one script is played here. kernel/tests/README.md has the rest.
    ("smp-kasan", 4, "ccaq-mq"),
    ("smp-kcsan", 4, "ccaq-mq"),
]


def slow_kernel_or_skip(variant: str) -> Kernel:
    """Returns a kernel. Those with four CPUs and sanitizers are emulated, and play for minutes: only if asked for."""
    if variant.startswith("smp-") and "SOJOURN_SMP" not in os.environ:
        skip_loudly(f"{variant} takes minutes: SOJOURN_SMP=1 plays it", also_in_ci=True)
    return kernel_or_skip(variant)


@pytest.fixture(scope="module")
def stress() -> ModuleType:
    """kernel/tests/stress.py, which is not part of the package."""
    return program("kernel/tests/stress.py")


FAULTS = {
    "order": "possible circular locking",
    "sleep": "sleeping function called from invalid context",
    "shift": "UBSAN: shift-out-of-bounds",
    "warn": "WARNING:",
    "race": "KCSAN: data-race in count",
    "bounds": "KASAN: slab-out-of-bounds",
    "freed": "KASAN: slab-use-after-free",
}


@pytest.mark.parametrize(
    ("variant", "faults"),
    [
        ("debug", ""),
        ("debug", "order,sleep,shift,warn,bounds"),
        ("debug", "freed"),
        ("smp-kasan", "order,sleep,shift,warn,bounds,freed"),
        ("smp-kcsan", "warn,race"),
    ],
)
def test_a_kernel_notices_each_fault_in_a_module(stress: ModuleType, tmp_path: Path, variant: str, faults: str) -> None:
    """The debug kernel's KASAN reports the first of its faults only."""
    kernel = stress.with_modules(slow_kernel_or_skip(variant), [FOLDER / "faulty"])
    cpus = 1 if variant == "debug" else 4
    wanted = stress.Wanted(
        script="drain", variant=variant, cpus=cpus, parameters=f"fault={faults or 'none'}", drain_s=1
    )
    ended, found = stress.stress(kernel, wanted, tmp_path)
    assert ended.error is None, ended.console
    missed = [one for one in faults.split(",") if one and not any(FAULTS[one] in line for line in found)]
    assert missed == [], found
    assert faults or found == []


@pytest.mark.parametrize(("variant", "cpus"), MACHINES)
def test_fq_codel_passes_a_flood_and_changes_under_it(
    stress: ModuleType, tmp_path: Path, variant: str, cpus: int
) -> None:
    script = (FOLDER / "fq_codel.stress").read_text()
    wanted = stress.Wanted(script=script, variant=variant, cpus=cpus, delay_ns=2000)
    ended, found = stress.stress(stress.with_modules(kernel_or_skip(variant), []), wanted, tmp_path)
    assert found == []
    assert ended.error is None
    sent = [line for line in (tmp_path / "flood").read_text().splitlines() if "pkts-sofar" in line]
    assert len(sent) == cpus
    assert all(int(line.split()[1]) > 1000 for line in sent), "every CPU floods"
    dropped = re.findall(r"dropped (\d+)", (tmp_path / "drained").read_text())
    assert any(int(count) > 1000 for count in dropped), "at several times the rate"


@pytest.mark.parametrize(("variant", "cpus"), MACHINES)
def test_the_papers_ccaq_below_htb_passes_a_flood_and_changes_under_it(
    stress: ModuleType, tmp_path: Path, variant: str, cpus: int
) -> None:
    """With few flows, buffers shrink during the flood: the published module panics, or leaves a backlog in htb."""
    script = (FOLDER / "ccaq_paper-htb.stress").read_text()
    plugin = modules.tc_plugins() / "q_ccaq_paper.so"
    wanted = stress.Wanted(script=script, variant=variant, cpus=cpus, flows=3, plugin=plugin)
    ended, found = stress.stress(stress.with_modules(kernel_or_skip(variant), [ROOT / "kernel"]), wanted, tmp_path)
    assert found == []
    assert ended.error is None
    shed = re.findall(r"shed (\d+)", (tmp_path / "drained").read_text() + (tmp_path / "flood").read_text())
    assert any(int(count) > 0 for count in shed), "buffers shrank under the flood"


@pytest.mark.parametrize(("variant", "cpus", "script"), CCAQ)
def test_ccaq_passes_a_flood_and_changes_under_it(
    stress: ModuleType, tmp_path: Path, variant: str, cpus: int, script: str
) -> None:
    """As the child of htb, and of every other parent that peeks or counts the drops of its child."""
    flows, queues = FLOWS_AND_QUEUES[script]
    wanted = stress.Wanted(
        script=(FOLDER / f"{script}.stress").read_text(),
        variant=variant,
        cpus=cpus,
        flows=flows,
        queues=queues,
        delay_ns=2000,
        plugin=modules.tc_plugins() / "q_ccaq.so",
    )
    kernel = stress.with_modules(slow_kernel_or_skip(variant), [ROOT / "kernel"])
    ended, found = stress.stress(kernel, wanted, tmp_path)
    assert found == []
    assert ended.error is None
    refused = re.findall(r"errors: (\d+)", (tmp_path / "flood").read_text())
    least = 0 if variant.startswith("smp-") else 1000
    assert any(int(count) > least for count in refused), "at several times the rate"
    segments = (tmp_path / "tcp").read_text().split("\n")[1].split()[11]
    assert int(segments) > 20, "TCP sends too, next to a flood on a busy machine"


def test_only_a_data_race_with_a_frame_in_the_module_is_a_fault(stress: ModuleType, tmp_path: Path) -> None:
    bar = "=" * 66
    (tmp_path / "dmesg").write_text(
        f"{bar}\nBUG: KCSAN: data-race in one / other\n\nread by task 7:\n one+0x1/0x2\n htb_dequeue+0x1/0x2\n{bar}\n"
        f"{bar}\nBUG: KCSAN: data-race in one / third\n\nread by task 7:\n one+0x1/0x2\n peek+0x1/0x2 [mine]\n{bar}\n"
    )
    (tmp_path / "drained.json").write_text("[]")
    assert stress.faults(Ended(0, "", 1.0, {}, None), tmp_path, ["mine"]) == ["BUG: KCSAN: data-race in one / third"]
    assert stress.elsewhere(tmp_path, ["mine"]) == ["BUG: KCSAN: data-race in one / other"]


def test_a_command_that_fails_is_a_fault(stress: ModuleType, tmp_path: Path) -> None:
    script = "tc qdisc add dev dut0 root nonsense\n! tc qdisc add dev dut0 root pfifo limit 7\nfly away\ndrain"
    _ended, found = stress.stress(find_any(), stress.Wanted(script=script, drain_s=1), tmp_path)
    assert [line.split(":")[0] for line in found if "pktgen" not in line] == ["exit code 1", "exit code 0", "not known"]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ('[{"kind": "htb", "handle": "1:", "backlog": 0, "qlen": 0}]', ""),
        ('[{"kind": "htb", "handle": "1:", "backlog": 84093, "qlen": 0}]', "htb 1:: backlog is 84093"),
        ('[{"kind": "htb", "handle": "1:", "options": {[Unknown qdisc, optlen=116] }}]', "drained.json: tc's words"),
    ],
)
def test_what_is_left_in_a_discipline_and_what_can_not_be_read_are_faults(
    stress: ModuleType, tmp_path: Path, said: str, fault: str
) -> None:
    """A discipline without a plug-in for tc makes tc write no JSON."""
    (tmp_path / "drained.json").write_text(said)
    found = stress.faults(Ended(0, "", 1.0, {}, None), tmp_path)
    assert [line[: len(fault)] for line in found] == ([fault] if fault else [])


def find_any() -> Kernel:
    """Any guest kernel, without modules of ours."""
    try:
        tools.real("busybox", "busybox-static")
        return replace(find(), modules={})
    except Refusal as error:
        skip_loudly(str(error))
        raise
