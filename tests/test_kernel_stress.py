"""The stress harness in kernel/tests: it detects the faults that it is for, and a discipline of Linux passes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT, kernel_or_skip, program, skip_loudly
from sojourn.errors import Refusal
from sojourn.kernel import Ended, Kernel, find, modules, tools

FOLDER = ROOT / "kernel/tests"


@pytest.fixture(scope="module")
def stress() -> ModuleType:
    """kernel/tests/stress.py, which is not part of the package."""
    return program("kernel/tests/stress.py")


FAULTS = {
    "none": "",
    "bounds": "KASAN: slab-out-of-bounds",
    "freed": "KASAN: slab-use-after-free",
    "order": "possible circular locking",
    "sleep": "sleeping function called from invalid context",
    "shift": "UBSAN: shift-out-of-bounds",
    "warn": "WARNING:",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_debug_kernel_notices_a_fault_in_a_module(stress: ModuleType, tmp_path: Path, fault: str) -> None:
    kernel = stress.with_modules(kernel_or_skip("debug"), [FOLDER / "faulty"])
    wanted = stress.Wanted(script="drain", parameters=f"fault={fault}", drain_s=1)
    ended, found = stress.stress(kernel, wanted, tmp_path)
    assert ended.error is None, ended.console
    if FAULTS[fault]:
        assert any(FAULTS[fault] in line for line in found), found
    else:
        assert found == []


@pytest.mark.parametrize(("variant", "cpus"), [("debug", 1), ("debian", 4)])
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


@pytest.mark.parametrize(("variant", "cpus"), [("debug", 1), ("debian", 4)])
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


@pytest.mark.parametrize(("variant", "cpus"), [("debug", 1), ("debian", 4)])
@pytest.mark.parametrize(("script", "flows", "queues"), [("ccaq-htb", 40, 1), ("ccaq-mq", 2000, 2)])
def test_ccaq_passes_a_flood_and_changes_under_it(
    stress: ModuleType, tmp_path: Path, variant: str, cpus: int, script: str, flows: int, queues: int
) -> None:
    """As the child of htb, and of every other parent that peeks or counts the drops of its child."""
    wanted = stress.Wanted(
        script=(FOLDER / f"{script}.stress").read_text(),
        variant=variant,
        cpus=cpus,
        flows=flows,
        queues=queues,
        delay_ns=2000,
        plugin=modules.tc_plugins() / "q_ccaq.so",
    )
    ended, found = stress.stress(stress.with_modules(kernel_or_skip(variant), [ROOT / "kernel"]), wanted, tmp_path)
    assert found == []
    assert ended.error is None
    refused = re.findall(r"errors: (\d+)", (tmp_path / "flood").read_text())
    assert any(int(count) > 1000 for count in refused), "at several times the rate"


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
