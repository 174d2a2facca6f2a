"""The chosen setting as lines for a router: tc, the SQM package of OpenWrt (uci), and systemd-networkd.

A router shapes an upload at its interface to the line. A download has passed the line already when the router receives
it. It is redirected to an intermediate functional block device (ifb) and shaped there, so that the queue builds up in
the router and TCP slows down.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sojourn import _core
from sojourn.line import UNKNOWN, Access
from sojourn.tune.candidates import Candidate, shaped_bps
from sojourn.tune.task import Queue, Task

IFB = "ifb4{interface}"
"""The device for what an interface receives, as SQM names it."""
LONGEST_NAME = 15
"""The longest name of a device in Linux (IFNAMSIZ less the end)."""


@dataclass
class Lines:
    """A setting in one router's language."""

    name: str
    """`tc`, `uci` or `networkd`."""
    files: dict[str, list[str]] = field(default_factory=dict)
    """Lines by the file that they belong to; the empty name is for commands that are typed."""
    undo: list[str] = field(default_factory=list)
    """Commands that take the setting away again."""
    notes: list[str] = field(default_factory=list)
    """Notes for the reader, such as a parameter that this language lacks."""
    counts: str = ""
    """Which framing of the line the shaper counts; empty without a shaper."""


def tc(task: Task, chosen: Candidate, interface: str) -> Lines:
    """Returns the commands of tc and ip. An interface has its own default discipline again after the `undo` lines."""
    commands: list[str] = []
    notes: list[str] = []
    undo: list[str] = []
    for queue, line in zip(task.queues, chosen.lines, strict=True):
        ingress = _is_ingress(task, queue)
        device = ifb(interface) if ingress else interface
        if ingress:
            commands += [f"ip link add name {device} type ifb", *_redirect(interface, device)]
            undo += [f"tc qdisc del dev {interface} ingress", f"ip link del dev {device}"]
        else:
            undo.append(f"tc qdisc del dev {interface} root")
        command, note = _core.paste(_with_nat(task, chosen, _on(interface, line)), device)
        commands += [] if command is None else command.split(" && ")
        notes += [note] if note else []
    if any(_is_ingress(task, queue) for queue in task.queues):
        notes.append("to paste the lines again, paste the lines that undo them first: the ifb exists then")
    notes += _about_pppoe(task, chosen, interface)
    return Lines("tc", {"": commands}, undo, list(dict.fromkeys(notes)))


def _redirect(interface: str, device: str) -> list[str]:
    """Returns the commands that send all that an interface receives through another device's discipline."""
    return [
        f"ip link set dev {device} up",
        f"tc qdisc replace dev {interface} handle ffff: ingress",
        f"tc filter replace dev {interface} parent ffff: protocol all prio 1 handle 1 matchall"
        f" action mirred egress redirect dev {device}",
    ]


def _with_nat(task: Task, chosen: Candidate, line: str) -> str:
    """Adds `nat` to a line of cake on a home router: behind its translation of addresses, cake would take all hosts for
    one.
    """
    return f"{line} nat" if chosen.kind == "cake" and _is_home(task) else line


def _is_home(task: Task) -> bool:
    return len(task.queues) > 1 and all(queue.shaped for queue in task.queues)


def _about_pppoe(task: Task, chosen: Candidate, interface: str) -> list[str]:
    """A note about htb on an interface without an Ethernet header, which DSL lines often have."""
    by_phone = any(word in task.queues[0].access.cake for word in ("atm", "ptm", "pppoe"))
    if chosen.kind == "cake" or chosen.share is None or not by_phone or _is_ppp(interface):
        return []
    return [f"htb counts an Ethernet header on {interface}: if the line has a ppp interface, say --interface with it"]


HEADER = 14
"""Bytes of an Ethernet header, which a packet of a ppp interface does not have."""


def _is_ppp(interface: str) -> bool:
    return interface.startswith("ppp")


def _on(interface: str, line: str) -> str:
    """Returns a discipline's line for this interface: on a ppp interface htb must count the Ethernet header too."""
    if not _is_ppp(interface) or not line.startswith("htb "):
        return line
    found = re.search(r" overhead (\d+)", line)
    if found is None:
        return re.sub(r"^htb rate \S+", rf"\g<0> overhead {HEADER}", line)
    return line.replace(found[0], f" overhead {int(found[1]) + HEADER}", 1)


def ifb(interface: str) -> str:
    """Returns the name of the device for what an interface receives. The end of a long name is kept, as the ends of
    interfaces' names differ.
    """
    name = IFB.format(interface=interface)
    return name if len(name) <= LONGEST_NAME else f"ifb{interface[3 - LONGEST_NAME :]}"


def _is_ingress(task: Task, queue: Queue) -> bool:
    """Whether a router that faces the line receives what this queue holds."""
    return len(task.queues) > 1 and queue.direction == "right"


# ---- OpenWrt ----

LIMITS = {"fq_codel": 10240, "fq_pie": 10240, "codel": 1000, "pie": 1000}
"""The default room in packets of disciplines in Linux, for which SQM has another value."""
SQM_DISCIPLINES = ("cake", "fq_codel", "codel", "pie", "fq_pie")
"""Disciplines that SQM's scripts can set."""


def uci(task: Task, chosen: Candidate, interface: str) -> Lines:
    """Returns a section for `/etc/config/sqm`, as commands of uci. The package sqm-scripts must be installed."""
    found = Lines("uci")
    if chosen.share is None or len(task.queues) != 2:
        found.notes.append("SQM shapes both directions of an interface: there is no section for a single queue")
        return found
    if chosen.kind not in SQM_DISCIPLINES:
        found.notes.append(f"SQM does not set {chosen.kind}")
        return found
    down, up = sorted(task.queues, key=lambda queue: queue.direction, reverse=True)
    access = down.access
    own = {queue.name: inner.partition(" ")[2] for queue, inner in zip(task.queues, chosen.inner, strict=True)}
    options = {
        "enabled": "1",
        "interface": interface,
        "download": str(shaped_bps(down, chosen.share) // 1000),
        "upload": str(shaped_bps(up, chosen.share) // 1000),
        "qdisc": chosen.kind,
        "script": "layer_cake.qos" if chosen.kind == "cake" else "simplest.qos",
        "qdisc_advanced": "1",
        "ingress_ecn": "ECN" if chosen.kind == "fq_codel" else "NOECN",
        "egress_ecn": "ECN" if chosen.kind == "fq_codel" else "NOECN",
        "qdisc_really_really_advanced": "1",
    }
    if chosen.kind == "cake":
        # cake counts bytes by itself, from the IP packet on.
        options |= {"linklayer": "none"}
        words = {name: f"{access.cake.strip()} {text} nat".strip() for name, text in own.items()}
    else:
        # htb counts an Ethernet header by itself; "htb_private" gives it the number of the other bytes.
        options |= {
            "linklayer": "atm" if access.linklayer == "atm" else "ethernet",
            "overhead": str(_htb_overhead(access, interface)),
            "linklayer_advanced": "1",
            "linklayer_adaptation_mechanism": "htb_private",
        }
        least = re.search(r"mpu (\d+)", access.htb)
        options |= {"tcMPU": least[1]} if least else {}
        # "default" keeps SQM from setting a target of its own. Further parameters come last, and so replace SQM's.
        options |= {"itarget": "default", "etarget": "default"}
        words = {name: f"limit {LIMITS[chosen.kind]} {text}".strip() for name, text in own.items()}
        found.notes += _about_pppoe(task, chosen, interface)
    options |= {"iqdisc_opts": words[down.name], "eqdisc_opts": words[up.name]}
    found.notes.append(
        f"SQM takes the first section for {interface}: disable any other one ('uci show sqm' lists them)"
    )
    found.files[""] = [
        "uci set sqm.sojourn=queue",
        *(f"uci set sqm.sojourn.{name}='{value}'" for name, value in options.items()),
        "uci commit sqm",
        "/etc/init.d/sqm restart",
    ]
    found.undo.extend(["uci delete sqm.sojourn", "uci commit sqm", "/etc/init.d/sqm restart"])
    return found


def _htb_overhead(access: Access, interface: str) -> int:
    """Returns the bytes that htb must add to what it counts by itself on this interface."""
    more = re.search(r"overhead (\d+)", access.htb)
    return (int(more[1]) if more else 0) + (HEADER if _is_ppp(interface) else 0)


# ---- systemd-networkd ----

NETWORKD = {
    "fq_codel": ("FairQueueingControlledDelay", {"target": "TargetSec", "interval": "IntervalSec"}),
    "codel": ("ControlledDelay", {"target": "TargetSec", "interval": "IntervalSec"}),
}
"""Sections for disciplines with htb as their parent, and their keys for our parameters (systemd.network(5))."""
FOLDER = "/etc/systemd/network"


def networkd(task: Task, chosen: Candidate, interface: str) -> Lines:
    """Returns files for systemd-networkd. It has no filters, so that what is received needs tc's commands too."""
    found = Lines("networkd")
    if chosen.kind != "cake" and chosen.kind not in NETWORKD:
        found.notes.append(f"systemd-networkd cannot set {chosen.kind} with these parameters")
        return found
    if chosen.kind != "cake" and chosen.share is not None and task.queues[0].access.linklayer == "atm":
        found.notes.append(
            "systemd-networkd cannot tell htb about ATM cells: search with --qdisc cake, or set htb by tc"
        )
        return found
    for queue, inner in zip(task.queues, chosen.inner, strict=True):
        ingress = _is_ingress(task, queue)
        device = ifb(interface) if ingress else interface
        if ingress:
            found.files[f"{FOLDER}/25-{device}.netdev"] = ["[NetDev]", f"Name={device}", "Kind=ifb"]
            found.notes.append("systemd-networkd has no filters: give the commands that redirect after each start")
            found.files[""] = _redirect(interface, device)
            found.undo += [f"tc qdisc del dev {interface} ingress", f"ip link del dev {device}"]
        section = _networkd_cake if chosen.kind == "cake" else _networkd_htb
        own = section(task, chosen, queue, inner, interface, found.notes)
        name = f"{FOLDER}/{'25' if ingress else '10'}-{device}.network"
        found.files[name] = ["[Match]", f"Name={device}", "", *own]
        if not ingress:
            found.notes.append(f"if a file has the addresses of {interface} already, add the sections to that file")
            found.undo.append(f"tc qdisc del dev {interface} root")
    found.undo = [*(f"rm {name}" for name in found.files if name), "networkctl reload", *found.undo]
    found.notes[:] = dict.fromkeys(found.notes)
    return found


def _networkd_cake(
    task: Task, chosen: Candidate, queue: Queue, inner: str, _interface: str, notes: list[str]
) -> list[str]:
    lines = ["[CAKE]", "Parent=root"]
    if chosen.share is not None and queue.shaped:
        lines.append(f"Bandwidth={_rate(shaped_bps(queue, chosen.share))}")
    elif queue.constant and queue.rate_bps:
        lines.append(f"Bandwidth={_rate(queue.rate_bps)}")
    framing = queue.access
    if framing.cake:
        mode = "atm" if framing.linklayer == "atm" else "ptm" if "ptm" in framing.cake else "none"
        lines += [f"OverheadBytes={framing.overhead}", f"CompensationMode={mode}"]
        lines += ["MPUBytes=64"] if "docsis" in framing.cake else []
    lines += ["NAT=yes"] if _is_home(task) else []
    rtt = re.search(r" rtt (\w+)", inner)
    if rtt:
        lines.append(f"RTTSec={rtt[1]}")
        notes.append("RTTSec= is known to systemd from version 253 on")
    if inner.endswith(" ingress"):
        notes.append("systemd-networkd has no key for cake's 'ingress': set it by tc")
    return lines


def _networkd_htb(
    _task: Task, chosen: Candidate, queue: Queue, inner: str, interface: str, notes: list[str]
) -> list[str]:
    section, names = NETWORKD[chosen.kind]
    words = inner.split()[1:]
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    keys = [f"{key}={pairs[name]}" for name, key in names.items() if name in pairs]
    keys += [f"PacketLimit={pairs['limit']}"] if "limit" in pairs else []
    if chosen.share is None or not queue.shaped:
        return [f"[{section}]", "Parent=root", *keys]
    shaper = [
        "[HierarchyTokenBucket]",
        "Parent=root",
        "Handle=1",
        "DefaultClass=1",
        "",
        "[HierarchyTokenBucketClass]",
        "Parent=1:0",
        "ClassId=1:1",
        f"Rate={_rate(shaped_bps(queue, chosen.share))}",
    ]
    more = _htb_overhead(queue.access, interface)
    shaper += [f"OverheadBytes={more}"] if more else []
    if "mpu" in queue.access.htb:
        notes.append("systemd-networkd has no key for htb's 'mpu 64': small packets of this line count too little")
    return [*shaper, "", f"[{section}]", "Parent=1:1", "Handle=10", *keys]


def _rate(bps: int) -> str:
    """A rate as systemd reads it: multiples of 1000 with K, M and G."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if bps % size == 0:
            return f"{bps // size}{unit}"
    return str(bps)


EVERY = {"tc": tc, "uci": uci, "networkd": networkd}
"""The languages by name."""


def text(lines: Lines, *, undo: bool = True) -> list[str]:
    """Returns the lines as they are pasted: files with their names, then notes and the lines that undo them
    as comments.
    """
    found: list[str] = []
    for name, own in lines.files.items():
        found += [f"# {name}"] if name else []
        found += own
        found += [""] if name else []
    counts = [lines.counts] if lines.counts and lines.files else []
    found += [f"# {note}" for note in [*counts, *lines.notes]]
    if undo and lines.undo:
        found += ["# undo:", *(f"#   {one}" for one in lines.undo)]
    return found


def written(task: Task, chosen: Candidate, interface: str, names: Sequence[str] = tuple(EVERY)) -> dict[str, Lines]:
    """Returns the setting in several languages."""
    found = {name: EVERY[name](task, chosen, interface) for name in names}
    for one in found.values():
        one.counts = counted(task, chosen)
    return found


def counted(task: Task, chosen: Candidate) -> str:
    """Says which framing the shaper of the chosen setting counts, and whether the user said it; nothing without a
    shaper.
    """
    if chosen.share is None:
        return ""
    access = task.queues[0].access
    why = "assumed, as --access is not given" if task.access == UNKNOWN else f"--access {task.access}"
    return f"the shaper counts {access.framing} ({why if task.access else 'as the scenario has it'})"
