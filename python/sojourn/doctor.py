"""Examines what this host can promise in each world, what is missing, and the command that adds it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sojourn.errors import Refusal
from sojourn.plan import header

Verdict = Literal["ok", "note", "missing"]
WORLDS = ("sim", "kernel", "live")
EXAMPLES = {
    "red": "red limit 400000",
    "tbf": "tbf rate 1mbit burst 5kb limit 9000",
    "htb": "htb rate 1mbit",
    "choke": "choke limit 100",
}
"""Lines of disciplines that need a parameter."""
PROBE_S = 2
"""Seconds that the trial of the live world takes."""


REMEDIES = {
    "kernel.unprivileged_userns_clone": "sysctl -w kernel.unprivileged_userns_clone=1, or run as root",
    "user.max_net_namespaces": "sysctl -ar 'user.max_.*_namespaces' shows the limits; sysctl -w LIMIT=1000 raises one",
    "ulimit -n": "ulimit -n 1024 (limits.conf: nofile)",
}
"""Remedies by the setting that a refusal names."""


@dataclass(frozen=True)
class Found:
    """One thing that was looked at."""

    world: str
    what: str
    verdict: Verdict
    """`ok`; `note` if the world works, but not as well as it could; `missing` if it does not work."""
    said: str
    remedy: str = ""
    """A command, or a setting, that adds or allows it."""

    def as_dict(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return asdict(self)


def examine(worlds: tuple[str, ...] = WORLDS) -> Iterator[Found]:
    """Yields what is found, world by world. The live world is tried for `PROBE_S` seconds."""
    parts: dict[str, Callable[[], Iterator[Found]]] = {"sim": _sim, "kernel": _kernel, "live": _live}
    for world in worlds:
        yield from parts[world]()


def _sim() -> Iterator[Found]:
    cores = os.cpu_count() or 1
    yield Found("sim", "processors", "ok", f"{cores}; a sweep plays as many runs at a time")
    folder = header()
    what = "sojourn.h, for disciplines of yours"
    if folder is None:
        yield Found("sim", what, "note", "not there", "install the wheel, which has it")
    else:
        yield Found("sim", what, "ok", f"cc -I {folder}")


def _kernel() -> Iterator[Found]:
    if platform.machine() != "x86_64":
        yield Found("kernel", "machine", "missing", f"{platform.machine()}: User-Mode Linux needs x86_64")
        return
    from sojourn.kernel import modules, store

    try:
        kernel = store.find()
    except Refusal as error:
        yield Found("kernel", "guest kernel", "missing", str(error).split(":")[0], "sojourn kernel build")
        return
    yield Found("kernel", "guest kernel", "ok", f"Linux {kernel.release}, modules {', '.join(sorted(kernel.modules))}")
    try:
        modules.tc_plugins()
    except Refusal as error:
        remedy = "install a C compiler and iproute2's headers"
        yield Found("kernel", "tc plugin", "note", f"ccaq and dualpi2 can not be played: {error}", remedy)
    else:
        yield Found("kernel", "tc plugin", "ok", "ccaq and dualpi2 can be played")


def _live() -> Iterator[Found]:
    from sojourn.live.run import find_program

    try:
        find_program()
    except Refusal as error:
        yield Found("live", "program", "missing", str(error))
        return
    found = trial()
    if isinstance(found, str):
        remedy = next((remedy for setting, remedy in REMEDIES.items() if setting in found), "")
        yield Found("live", "namespaces", "missing", found, remedy)
        return
    yield Found("live", "namespaces", "ok", "root" if os.geteuid() == 0 else "of this user")
    if found["realtime"]:
        yield Found("live", "scheduling", "ok", "real-time")
    else:
        remedy = "ulimit -r 10 (limits.conf: rtprio), or run as root"
        yield Found("live", "scheduling", "note", "not real-time: frames leave later when the host is busy", remedy)
    late = ", ".join(f"{share} {value:g}" for share, value in found["late_us"].items() if value is not None)
    verdict: Verdict = "ok" if found["valid"] else "note"
    yield Found("live", "lateness of frames", verdict, f"{late or 'none'} \N{MICRO SIGN}s, 100 Mbit/s, 10 ms")
    yield Found("live", "processor", "ok", f"{found['cpu_share']:.0%} of one core for this path")
    if (cores := os.cpu_count() or 1) < 2:
        yield Found("live", "processors", "note", f"{cores}: hosts and path take it from each other")
    controls = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    known = controls.read_text(encoding="utf-8").split() if controls.exists() else []
    lacking = [name for name in ("bbr",) if name not in known]
    remedy = f"modprobe tcp_{lacking[0]}" if lacking else ""
    yield Found("live", "congestion control", "note" if lacking else "ok", ", ".join(known), remedy)
    yield _kernels_disciplines()
    for program in ("iperf3", "ping", "curl"):
        if shutil.which(program) is None:
            yield Found("live", program, "note", "is not installed; examples use it", f"install {program}")


def _kernels_disciplines() -> Found:
    """Which of our disciplines this host's kernel has."""
    from sojourn import _core
    from sojourn.live.run import lacking_in_kernel, module_of

    what = "kernel's disciplines (--engine tc)"
    known = _core.catalogue("disciplines")
    kinds = [one["name"] for one in known if one["name"] in EXAMPLES or (one["tc"] and one["name"] != "noqueue")]
    lines = {kind: EXAMPLES.get(kind, kind) for kind in kinds}
    try:
        lacking = lacking_in_kernel(lines.values())
    except Refusal as error:
        return Found("live", what, "note", str(error).removeprefix("--engine tc: "))
    missing = [kind for kind, line in lines.items() if line in lacking]
    said = ", ".join(kind for kind in kinds if kind not in missing)
    if not missing:
        return Found("live", what, "ok", said)
    reasons = {kind: lacking[lines[kind]] for kind in missing}
    modules = [kind for kind, reason in reasons.items() if module_of(kind) in reason]
    remedies = [module_of(kind) for kind in modules[:1]]
    remedies += [f"{kind}: {reason}" for kind, reason in reasons.items() if kind not in modules]
    return Found("live", what, "note", f"{said}; not {', '.join(missing)}", "; ".join(remedies))


def trial() -> dict[str, Any] | str:
    """Plays a path of 100 Mbit/s and 10 ms. Returns what the run says about its truth, or why it can not be played."""
    import sojourn as sj
    from sojourn.live.run import Hosts

    hop = {"name": "link", "rate": "100mbit", "delay": "5ms", "qdisc": "fq_codel"}
    flow = {"kind": "bulk", "name": "bulk", "rtt": "10ms"}
    document = {"title": "a trial", "duration": f"{PROBE_S}s", "hop": [hop], "flow": [flow]}
    try:
        results = sj.run(sj.load(document), world=Hosts(), on=1)
    except (Refusal, OSError) as error:
        return str(error)
    if not results.runs:
        return "; ".join(one["reason"] for one in results.skipped) or "no run was played"
    return results.runs[0].truth
