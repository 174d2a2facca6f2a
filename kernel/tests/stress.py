# SPDX-License-Identifier: GPL-2.0-or-later
"""Stress test for a module with a queue discipline: commands and a flood in a guest, followed by checks.

    stress.py SCRIPT --module FOLDER|FILE.ko [--plugin q_NAME.so] [--kernel VARIANT] [--cpus 4] [--flows 9]

SCRIPT has a line for each step: `tc …`, `ip …` or `ethtool …` (with `!` it must fail), `sleep SECONDS`, `flood` (every
CPU starts to send), `calm` (the flood ends), `drain` (the flood ends and the queues run empty). The device is dut0. The
test fails (exit code 1) if a command did, the kernel complained, memory leaked, the module cannot be unloaded, or a
counter is not zero after draining. `--kernel debug` (the default) has one CPU and KASAN, UBSAN, lockdep and more;
`smp-kasan` has the same, `smp-kcsan` reports data races, and `debian` is a distribution's: these run in QEMU, with the
given number of CPUs.

A data race counts if a frame of one of its two stacks is in the module. Others are Linux's own, and are only listed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sojourn.errors import Refusal
from sojourn.kernel import Ended, Kernel, boot, find, modules, qemu, tools
from sojourn.kernel.store import VARIANTS

HERE = Path(__file__).resolve().parent
RACE = "BUG: KCSAN:"
SPLAT = re.compile(
    r"BUG:|WARNING:|UBSAN:|KASAN:|KCSAN:|Oops|general protection|possible (?:recursive|circular) locking|INFO: task"
    r"|inconsistent lock state|suspicious RCU|scheduling while atomic|sleeping function|rcu.*stall|soft lockup"
    r"|refcount_t|unregister_netdevice: waiting|ODEBUG|list_(?:add|del) corruption|backlog underflow|Kernel panic"
)
UML = """\
#!{box} sh
{box} mount -t proc proc /proc
{box} mount -t sysfs sysfs /sys
{box} mount -t debugfs debugfs /sys/kernel/debug
{box} mount -t tmpfs tmpfs /mnt
{box} mkdir /mnt/run
{box} mount -t hostfs -o /proc/self/cwd/run none /mnt/run
cd /mnt/run
{box} sh ./stress.sh
{box} sync
{box} poweroff -f
"""
QEMU = """\
#!/bin/busybox sh
busybox mount -t debugfs debugfs /sys/kernel/debug
echo 300 >/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout
busybox sh ./stress.sh
"""
"""The host runs a guest's CPUs when it gets to them, so RCU waits for one for 300 s before it reports a stall."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Parameters of a test."""

    script: str
    variant: str = "debug"
    cpus: int = 1
    flows: int = 10_000
    delay_ns: int = 0
    queues: int = 1
    drain_s: int = 60
    parameters: str = ""
    plugin: Path | None = None
    timeout_s: float = 600.0


def stress(kernel: Kernel, wanted: Wanted, folder: Path) -> tuple[Ended, list[str]]:
    """Runs the test in `folder`; returns how the guest ended, and all faults."""
    in_qemu = kernel.machine != "um"
    box, ethtool = tools.real("busybox", "busybox-static"), tools.real("ethtool", "ethtool")
    settings = {
        "TC": "/usr/sbin/tc" if in_qemu else str(tools.real("tc", "iproute2")),
        "IP": "/usr/sbin/ip" if in_qemu else str(tools.real("ip", "iproute2")),
        "ETHTOOL": str(ethtool),
        "BOX": "/bin/busybox" if in_qemu else str(box),
        "CPUS": " ".join(map(str, range(wanted.cpus))),
        "FLOWS": wanted.flows,
        "DELAY_NS": wanted.delay_ns,
        "QUEUES": wanted.queues,
        "DRAIN_S": wanted.drain_s,
        "LOADED": " ".join(kernel.modules),
        "UNLOADED": " ".join(reversed(kernel.modules)),
        "PARAMETERS": wanted.parameters,
    }
    (folder / "settings").write_text("".join(f"{name}='{value}'\n" for name, value in settings.items()))
    (folder / "script").write_text(wanted.script.rstrip() + "\n")
    (folder / "stress.sh").write_text((HERE / "stress.sh").read_text())
    if wanted.plugin:
        shutil.copy(wanted.plugin, folder)
    for name, file in kernel.modules.items():
        shutil.copyfile(file, folder / f"{name}.ko")
    init = folder / "init.sh"
    init.write_text(QEMU if in_qemu else UML.format(box=box))
    init.chmod(0o755)
    # The script loads the modules, with their parameters.
    bare = dataclasses.replace(kernel, modules={})
    if in_qemu:
        ended = qemu.boot(
            bare, "{}", folder, program=init, cpus=wanted.cpus, timeout_s=wanted.timeout_s, more=[ethtool]
        )
    else:
        # In the host's time: in virtual time a flood without pauses would never let the clock advance.
        ended = boot(bare, "{}", folder, program=init, virtual=False, timeout_s=wanted.timeout_s)
    return ended, faults(ended, folder, kernel.modules)


def faults(ended: Ended, folder: Path, ours: Iterable[str] = ()) -> list[str]:
    """Returns a message for each fault. Data races count in the modules `ours` only."""
    found = [ended.error] if ended.error else []
    found += _lines(folder / "faults")
    others = elsewhere(folder, ours)
    said = _lines(folder / "dmesg") or ended.console.splitlines()
    found += list(dict.fromkeys(line.strip() for line in said if SPLAT.search(line) and line.strip() not in others))
    found += [line for line in _lines(folder / "leaks") if line.startswith("unreferenced object")]
    left: list[dict[str, Any]] = []
    try:
        left = json.loads((folder / "drained.json").read_text())
    except (OSError, ValueError) as error:
        if not ended.error:
            found.append(f"drained.json: tc's words can't be read (a discipline without a --plugin?): {error}")
    for one in left:
        for counter in ("backlog", "qlen"):
            if one.get(counter, 0) != 0:
                found.append(f"{one['kind']} {one['handle']}: {counter} is {one[counter]} after draining")
    return found


def elsewhere(folder: Path, ours: Iterable[str]) -> list[str]:
    """Returns the first lines of KCSAN's reports without a frame in one of these modules."""
    reports = re.split(r"^.*={40,}$", "\n".join(_lines(folder / "dmesg")), flags=re.MULTILINE)
    others = [one for one in reports if RACE in one and not any(f"[{name}]" in one for name in ours)]
    return list(dict.fromkeys(line.strip() for one in others for line in one.splitlines() if RACE in line))


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.exists() else []


def with_modules(kernel: Kernel, places: list[Path]) -> Kernel:
    """Returns the kernel with these modules only, built from a folder with a Kbuild, or as given."""
    found: dict[str, Path] = {}
    for place in places:
        found |= modules.build(kernel, place) if place.is_dir() else {place.stem: place}
    return dataclasses.replace(kernel, modules=found)


def main() -> int:
    """Reads the command line; returns 0 if there are no faults, 1 if there are, 2 if the test cannot run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("--module", type=Path, action="append", default=[])
    parser.add_argument("--plugin", type=Path, help="of tc, for the module's discipline")
    parser.add_argument("--kernel", choices=VARIANTS, default="debug")
    parser.add_argument("--parameters", default="", help="of the modules, in the guest")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the guest's files: dmesg, tc's words, …")
    for name, default in (("cpus", 1), ("flows", 10_000), ("delay-ns", 0), ("queues", 1), ("drain-s", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    wanted = Wanted(
        script=asked.script.read_text(),
        variant=asked.kernel,
        cpus=asked.cpus,
        flows=asked.flows,
        delay_ns=asked.delay_ns,
        queues=asked.queues,
        drain_s=asked.drain_s,
        parameters=asked.parameters,
        plugin=asked.plugin,
    )
    try:
        kernel = with_modules(find(asked.kernel), asked.module)
        with tempfile.TemporaryDirectory() as folder:
            ended, found = stress(kernel, wanted, Path(folder))
            for name in ("flood", "drained", "tcp"):
                print("\n".join(_lines(Path(folder) / name)))
            for line in elsewhere(Path(folder), kernel.modules):
                print(f"not in the module: {line}")
            if asked.keep:
                shutil.copytree(folder, asked.keep, dirs_exist_ok=True)
    except Refusal as error:
        print(f"stress: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(f"FAULT: {line}")
    print(f"Linux {kernel.release} ({asked.kernel}), {asked.cpus} CPUs, {ended.wall_s:.0f} s: {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
