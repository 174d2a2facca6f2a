"""Tasks: the queues to tune, the link that limits them, and the traffic. Variations of a task show how robust a setting
is.

A home line is a path of two hops. `line` is the access line with the dumb FIFOs at both of its ends, and `router` is
the home router. Nothing waits in the router unless it shapes: it then sends a little more slowly than the line, so that
packets wait in its own queue. A download is shaped behind the line, an upload before it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn import _core, identity, queues
from sojourn.errors import Refusal, nearest_of
from sojourn.line import (
    ACCESS,
    UNKNOWN,
    Access,
    access_of,
    buffer_packets,
    constant_bps,
    may_be_adsl,
    rate_text,
    time_text,
)

FULL = 1500
"""Bytes of a full IP packet."""
UNCERTAIN = 0.04
"""By which share a line's real rate may be below the stated one, if the user does not say it: a good measurement."""
LONG = ("bulk", "download", "upload")
"""Kinds of flows that send as fast as they can."""
ROUND_TRIPS = ("pings",)
"""Kinds of sparse flows whose round-trip time is measured: not `thin`, whose ACKs a receiver delays."""
PAGE_KINDS = ("web", "sizes")
"""Kinds of flows whose completion is waited for."""
PING = {"name": "ping", "kind": "pings", "interval": "100ms"}

_CALL = {"name": "call", "kind": "voip", "direction": "both"}
_READERS = {"name": "reader", "kind": "web", "page": True, "count": 4}
_DOWNLOAD = {"name": "download", "kind": "bulk", "direction": "down", "start": "uniform 0s..1s"}
_UPLOAD = {"name": "upload", "kind": "bulk", "direction": "up", "start": "uniform 0s..1s"}
_GAME = {"name": "game", "kind": "cbr", "direction": "both", "rate": "64kbit", "size": 120}
MIXES: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]] = {
    "family": ("a download, an upload, a call and four people who read pages", (_DOWNLOAD, _UPLOAD, _CALL, _READERS)),
    "work": ("an upload, a call and four people who read pages", (_UPLOAD, _CALL, _READERS)),
    "game": ("a game during four downloads", ({**_DOWNLOAD, "count": 4}, _GAME)),
    "upload": ("an upload alone", (_UPLOAD,)),
    "downloads": ("sixteen downloads and four people who read pages", ({**_DOWNLOAD, "count": 16}, _READERS)),
}
"""Traffic of a home: words and flows. A ping is added to each."""
NEAREST_MIX = {
    **dict.fromkeys(("zoom", "teams", "meet", "call", "calls", "video", "video-call", "conference", "office"), "work"),
    **dict.fromkeys(("gaming", "games"), "game"),
    **dict.fromkeys(("home", "default", "web", "browsing", "netflix", "youtube", "streaming", "tv"), "family"),
    **dict.fromkeys(("torrent", "torrents", "download", "steam", "updates"), "downloads"),
    **dict.fromkeys(("backup", "cloud", "photos"), "upload"),
}
"""The mix that is the most like what people name, where no mix has that name."""


@dataclass(frozen=True)
class Queue:
    """A queue whose discipline is tuned."""

    name: str
    """As results have it: `router`, or `router.reverse` for the other direction."""
    rate_bps: int
    """The rate of the slowest link in this direction."""
    shaped: bool
    """Whether another hop is the slowest, so that packets wait here only if this queue shapes."""
    access: Access
    constant: bool = True
    """Whether that rate does not change."""
    limit: int | None = None
    """The room in packets that the scenario gives; None where it is not limited to a number of packets."""

    @property
    def direction(self) -> str:
        """The direction in which it sends, as flows have it."""
        return "left" if self.name.endswith(queues.REVERSE) else "right"


@dataclass(frozen=True)
class Task:
    """A link with its traffic, and the queues to tune."""

    title: str
    document: Mapping[str, Any]
    """The scenario as tables, without a sweep; all hops and flows have names."""
    file: str
    """The path of the scenario file, for files that it names."""
    queues: tuple[Queue, ...]
    bottlenecks: tuple[str, ...]
    """The slowest queue of each direction that is tuned."""
    rtt_s: float
    """The longest base RTT."""
    uncertain: float
    """By which share the real rate may be below the stated one."""
    varies: bool = False
    """Whether the line's rate changes all the time."""
    duration_s: float = 60.0
    """The simulated time of a run."""
    command: str = ""
    """The options that describe the line, for reports; empty for a scenario file."""
    access: str = ""
    """The kind of the line, a key of `line.ACCESS` or `line.UNKNOWN`; empty for a scenario file, which has the framing
    itself."""

    def plan(self, lines: Sequence[Sequence[str]], seed: int, seeds: int) -> _core.Plan:
        """Returns the plan of settings: each has a discipline for every queue."""
        keys = [queues.qdisc_key(queue.name) for queue in self.queues]
        sweep: dict[str, Any] = {key: [one[place] for one in lines] for place, key in enumerate(keys)}
        if len(keys) > 1:
            sweep["zip"] = [keys]
        text = _core.to_toml({**self.document, "sweep": sweep})
        return _core.Plan.parse(text, self.file, [], seed, seeds, lines=False)

    def flows(self, kinds: Sequence[str], direction: str | None = None) -> tuple[str, ...]:
        """Returns the names of the flows of these kinds, in one direction or in both."""
        wanted = {None: ("right", "left", "both"), "right": ("right", "both"), "left": ("left", "both")}[direction]
        found = [one for one in self.document["flow"] if one["kind"] in kinds]
        return tuple(one["name"] for one in found if one.get("direction", _usual(one["kind"])) in wanted)


def _usual(kind: str) -> str:
    return "left" if kind == "upload" else "right"


def task_of_line(
    down: int,
    up: int,
    rtt_s: float,
    buffer: str,
    access: str,
    mix: str,
    uncertain: float | None = None,
    duration_s: int | None = None,
) -> Task:
    """Returns the task of a home line. Rates in bit/s; `buffer` as in `line.buffer_packets`; `access` is a key of
    `line.ACCESS` or `line.UNKNOWN`; `mix` is a key of `MIXES`. A run lasts 20 to 60 s, the faster the line the less, if
    `duration_s` does not say it.
    """
    kind = access_of(access, down, up)
    duration = duration_s or round(min(60, max(20, 3e9 / (down + up))))
    fast = "1gbit" if max(down, up) <= 400e6 else "10gbit"
    fifos = [f"pfifo limit {buffer_packets(buffer, rate, kind.counted(FULL))}" for rate in (down, up)]
    line = {
        "name": "line",
        "rate": rate_text(down),
        "delay": time_text(rtt_s / 2),
        "qdisc": fifos[0],
        "overhead": kind.overhead,
        "linklayer": kind.linklayer,
        "reverse": {"rate": rate_text(up), "qdisc": fifos[1]},
    }
    router = {"name": "router", "rate": fast, "qdisc": "fq_codel", "reverse": {"rate": fast, "qdisc": "fq_codel"}}
    words, flows = MIXES[mix]
    document = {
        "title": f"{rate_text(down)} down, {rate_text(up)} up, {time_text(rtt_s)}: {words}",
        "duration": f"{duration}s",
        "measure": [f"{duration // 6}s", "end"],
        "hop": [line, router],
        "flow": [*flows, PING],
    }
    plan = _core.Plan.parse(_core.to_toml(document), "line.toml", [], None, None, lines=False)
    task = task_of_plan(plan, ["router", "router.reverse"], uncertain=UNCERTAIN if uncertain is None else uncertain)
    told = f"--down {rate_text(down)} --up {rate_text(up)} --rtt {time_text(rtt_s)} --buffer {buffer}"
    tuned = tuple(replace(queue, access=kind) for queue in task.queues)
    told = f"{told} --access {access} --mix {mix}"
    return replace(task, queues=tuned, varies=kind.varies, command=told, access=access)


def task_of_plan(plan: _core.Plan, names: Sequence[str] = (), uncertain: float = 0.0) -> Task:
    """Returns the task of a scenario, for the named queues or the slowest rightward one.

    A ping is added if the scenario has no flow whose round trips are measured. Raises Refusal for an unknown queue.
    """
    about = plan.describe(0)
    document = identity.resolved(identity.document_of_plan(plan), plan.runs[0]["set"])
    document.pop("sweep", None)
    if not any(one["kind"] in ROUND_TRIPS for one in document["flow"]):
        document["flow"] = [*document["flow"], _ping(document["flow"])]
    hops = {one["name"]: one for one in about["hops"]}
    rates = {name: rate for name, one in hops.items() if (rate := _least_bps(plan, one)) is not None}
    if not names:
        forward = [name for name in rates if not name.endswith(queues.REVERSE)]
        names = [min(forward, key=lambda name: rates[name])]
    plain = [_named(name, hops) for name in names]
    if len({name.endswith(queues.REVERSE) for name in plain}) < len(plain):
        raise Refusal(f"--hop = {', '.join(names)}: expected at most one queue of each direction")
    found = [_queue(name, hops, rates) for name in plain]
    return Task(
        title=plan.title,
        document=document,
        file=plan.file,
        queues=tuple(queue for queue, _ in found),
        bottlenecks=tuple(slowest for _, slowest in found),
        rtt_s=about["longest_rtt_ms"] / 1000,
        duration_s=about["duration_s"],
        uncertain=uncertain,
    )


def _ping(flows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a ping on a path like that of the other flows: a scenario may give each flow its RTT."""
    rtts = [flow["rtt"] for flow in flows if "rtt" in flow]
    first = rtts[0][0] if rtts and isinstance(rtts[0], list) else next(iter(rtts), None)
    return {**PING} if first is None else {**PING, "rtt": first}


def _named(word: str, hops: Mapping[str, Any]) -> str:
    name = queues.named(word, hops)
    if name is None:
        raise Refusal(f"--hop = {word}: expected one of {', '.join(hops)}{nearest_of(word, list(hops))}")
    return name


def _least_bps(plan: _core.Plan, hop: Mapping[str, Any]) -> int | None:
    """Returns the rate of a hop in bit/s: the lowest one above zero if it changes."""
    constant = constant_bps(hop["rate"])
    if constant is not None:
        return constant
    links = {one["name"]: one["mbit"] for one in plan.rates(0)["links"]}
    found = [rate for rate in links.get(hop["name"], ()) if rate > 0]
    return round(min(found) * 1e6) if found else None


def _queue(name: str, hops: Mapping[str, Mapping[str, Any]], rates: Mapping[str, int]) -> tuple[Queue, str]:
    """Returns a queue, and the name of the slowest one in its direction."""
    reverse = name.endswith(queues.REVERSE)
    along = {one: rate for one, rate in rates.items() if one.endswith(queues.REVERSE) == reverse}
    if not along:
        raise Refusal(f"--hop = {name}: no link in this direction has a rate, so that nothing waits there")
    slowest = min(along, key=lambda one: along[one])
    shaped = name in along and along[slowest] < along[name]
    slowest = slowest if shaped else name
    limit = re.fullmatch(r"(?!bfifo).* limit (\d+)p?\b.*", str(hops[name]["qdisc"]))
    framed = hops[slowest]
    overhead, cells = int(framed["overhead"]), framed["linklayer"] == "atm"
    more = overhead - 14
    access = Access(
        overhead,
        f" overhead {overhead}{' atm' if cells else ''}" if more or cells else "",
        (f" overhead {more}" if more > 0 else "") + (" linklayer atm" if cells else ""),
        f"{overhead} bytes beyond the IP packet",
        framed["linklayer"],
    )
    room = int(limit[1]) if limit and not shaped else None
    return Queue(name, along.get(slowest, 0), shaped, access, bool(constant_bps(framed["rate"])), room), slowest


# ---- variations ----

Change = Callable[[dict[str, Any]], None]
"""Changes a scenario's tables in place."""


def variations(task: Task) -> dict[str, Task]:
    """Returns the task on other links and with other traffic, by what is different."""
    changes: dict[str, Change] = {
        "rate -50 %": lambda document: _scale_rates(task, document, 0.5),
        "rate +50 %": lambda document: _scale_rates(task, document, 1.5),
        "RTT -50 %": lambda document: _scale_times(document, 0.5),
        "RTT +50 %": lambda document: _scale_times(document, 1.5),
        "one long flow": _one_long_flow,
        "many long flows": _many_long_flows,
        "Reno": lambda document: _set_cc(document, "reno"),
        "BBR": lambda document: _set_cc(document, "bbr"),
        "CUBIC with BBR": _mix_cc,
    }
    sold = {f"rate -{round(100 * share)} %": at_rate(task, 1 - share) for share in SOLD if share > task.uncertain}
    changed = {name: _changed(task, change) for name, change in changes.items()}
    found = lowest(task) | sold | framings(task) | changed
    return {name: one for name, one in found.items() if one.document != task.document}


SOLD = (0.1, 0.2)
"""By which shares a line often is slower than it was sold."""
REAL = {"ADSL": "adsl", "VDSL2": "vdsl", "cable": "cable", "Ethernet": "ethernet"}
"""The kinds of framing that a line may have in truth, by their names; fibre has that of cable."""
BY_RADIO = ("lte", "geo")
"""Kinds that nobody takes for another one."""


def framings(task: Task) -> dict[str, Task]:
    """Returns the task of a home line on lines of another kind than was said: of every kind if none was said, and else
    of those that add more to a packet. A line of a scenario has no other kind.
    """
    if not task.access or task.access in BY_RADIO:
        return {}
    assumed = task.queues[0].access
    down, up = (next(queue.rate_bps for queue in task.queues if queue.direction == way) for way in ("right", "left"))
    return {
        f"really {name}": at_framing(task, kind)
        for name, kind in ((name, ACCESS[one]) for name, one in REAL.items())
        if (task.access == UNKNOWN or kind.counted(FULL) > assumed.counted(FULL))
        and (kind.linklayer != "atm" or may_be_adsl(down, up))
    }


def at_framing(task: Task, kind: Access) -> Task:
    """Returns the task of a home line on a line of this kind. The queues to tune count what they counted."""
    return _changed(task, lambda document: _set_framing(document, kind))


def _set_framing(document: dict[str, Any], kind: Access) -> None:
    line = next(hop for hop in document["hop"] if hop["name"] == "line")
    line["overhead"], line["linklayer"] = kind.overhead, kind.linklayer


LITTLE = 0.05
"""An uncertainty of the rate below this share is no variation of its own."""


def lowest(task: Task) -> dict[str, Task]:
    """Returns the task at the lowest rate that the line may have, by its name; nothing if the rate is nearly
    certain.
    """
    if task.uncertain < LITTLE:
        return {}
    return {f"rate -{100 * task.uncertain:.0f} %": at_rate(task, 1 - task.uncertain)}


def at_rate(task: Task, share: float) -> Task:
    """Returns the task with the real rate at this share of the stated one. The queues to tune keep their rates."""
    return _changed(task, lambda document: _scale_rates(task, document, share))


def at_rtt(task: Task, share: float) -> Task:
    """Returns the task with all delays of the path at this share."""
    return _changed(task, lambda document: _scale_times(document, share))


def _changed(task: Task, change: Change) -> Task:
    document = copy.deepcopy(dict(task.document))
    change(document)
    return replace(task, document=document)


def _scale_rates(task: Task, document: dict[str, Any], share: float) -> None:
    for hop in document["hop"]:
        for name, link in ((hop["name"], hop), (hop["name"] + queues.REVERSE, hop.get("reverse"))):
            if link is not None and name in task.bottlenecks and "rate" in link:
                link["rate"] = _scaled(link["rate"], r"(bit|kbit|mbit|gbit)", share)


def _scale_times(document: dict[str, Any], share: float) -> None:
    links = [document.get("access", {}), *document["hop"], *(one.get("reverse", {}) for one in document["hop"])]
    for table, keys in [*((link, ("delay",)) for link in links), *((flow, ("rtt",)) for flow in document["flow"])]:
        for key in keys:
            if key in table:
                table[key] = _scaled(table[key], r"(us|ms|s)", share)


def _scaled(value: Any, units: str, share: float) -> Any:
    """Multiplies every quantity with one of these units in a value of a scenario. Times of steps stay."""
    if isinstance(value, str):
        return re.sub(
            rf"(\d+(?:\.\d+)?)\s*{units}\b", lambda found: f"{round(float(found[1]) * share, 6):g}{found[2]}", value
        )
    if isinstance(value, list):
        steps = all(isinstance(one, list) and len(one) == 2 for one in value)
        return [[one[0], _scaled(one[1], units, share)] if steps else _scaled(one, units, share) for one in value]
    return value


def _one_long_flow(document: dict[str, Any]) -> None:
    """Keeps one long flow in each direction."""
    seen, kept = set(), []
    for flow in document["flow"]:
        way = flow.get("direction", _usual(flow["kind"]))
        if flow["kind"] in LONG:
            if way in seen:
                continue
            flow.pop("count", None)
            if isinstance(flow.get("rtt"), list):
                flow["rtt"] = flow["rtt"][0]
            seen.add(way)
        kept.append(flow)
    document["flow"] = kept


def _many_long_flows(document: dict[str, Any]) -> None:
    """Eight times as many long flows, up to 64 of an entry."""
    for flow in document["flow"]:
        if flow["kind"] in LONG and isinstance(flow.get("count", 1), int):
            flow["count"] = max(flow.get("count", 1), min(64, 8 * flow.get("count", 1)))
            if isinstance(flow.get("rtt"), list):
                flow["rtt"] = (flow["rtt"] * 8)[: flow["count"]]


def _set_cc(document: dict[str, Any], cc: str) -> None:
    for flow in document["flow"]:
        if flow["kind"] in LONG:
            flow["cc"] = cc


def _mix_cc(document: dict[str, Any]) -> None:
    """Adds a flow with BBR to each entry of long flows."""
    more = [{**flow, "name": f"{flow['name']}-bbr", "cc": "bbr"} for flow in document["flow"] if flow["kind"] in LONG]
    document["flow"] = [*document["flow"], *more]
