"""Generates a page for each measure: unit, definition, formula, source, and its values in an example that is played.

Definitions are the doc comments of the fields in the structs of crates/measure, in the order of a run's JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from website_tree import ROOT, cell, toctree

import sojourn as sj
from sojourn import columns
from sojourn.plan import load
from sojourn.table import number

METERS = ROOT / "crates/measure/src"
FIELD = re.compile(r"((?: *///[^\n]*\n)+)(?: *#\[[^\n]*\n)* *pub (\w+):")
UNITS = {
    "_ms": "ms",
    "_s": "s",
    "_mbit": "Mbit/s (10⁶ bit/s)",
    "_packets": "packets",
    "_bytes": "bytes",
    "_fraction": "a share, 0 to 1",
    "_ratio": "a share, 0 to 1",
}


@dataclass(frozen=True)
class Kind:
    """Measures that are together in a run's JSON."""

    name: str
    title: str
    file: str
    struct: str
    columns: pa.StructType
    way: str
    """Their place in the JSON of `sojourn run`."""
    address: str
    """Their address in `sojourn sweep` and in the papers' claims."""


KINDS = (
    Kind("hops", "Measures of a queue and its link", "link.rs", "LinkWindow", columns.HOP, "hops.NAME", "hops.NAME"),
    Kind("flows", "Measures of a flow", "flow.rs", "FlowWindow", columns.FLOW, "flows[]", "flows.NAME"),
    Kind("jain", "Measures of all flows together", "report.rs", "Jain", columns.JAIN, "jain", "jain"),
    Kind("losses", "Measures of loss events", "report.rs", "Losses", columns.LOSSES, "losses", "losses"),
)
PARTS = {"video": ("video.rs", "VideoWindow"), "rpm": ("responsiveness.rs", "Responsiveness")}
"""Measures with nested measures, and the structs of those."""
LABELS = ("name", "kind", "cc", "stats", "command")
"""Fields that are no measures: names, counters of the discipline, and the result of a program of the user's."""


@dataclass(frozen=True)
class More:
    """Information beyond the definition of one line."""

    formula: str = ""
    source: str = ""
    unit: str = ""
    scenario: str = "static-1.5mbit"
    """The scenario of the example."""
    set: tuple[tuple[str, str], ...] = ()
    """Settings of the example, as for `--set`."""


SOJOURN_LAW = "sojourn = start of the packet's transmission − its arrival at the queue"
OVER_TIME = "weighted by time: a value counts for as long as it holds"
MORE = {
    "hops.utilisation": More(
        "time in which the link transmitted / length of the measuring window", unit="a share, 0 to 1"
    ),
    "hops.delivered_packets": More(unit="packets"),
    "hops.delivered_bytes": More("Σ (IP length + the hop's overhead)", unit="bytes"),
    "hops.drops": More(unit="packets"),
    "hops.drops_by_reason": More(source="the reasons are [a closed list](../../reasons.md)", unit="packets"),
    "hops.marks": More(
        source="RFC 3168: CE",
        unit="packets",
        set=(("hop.bottleneck.qdisc", "fq_codel ecn"), ("flow.bulk0.ecn", "true")),
    ),
    "hops.sojourn_ms": More(f"{SOJOURN_LAW}; each packet counts once", "RFC 8289 §3: sojourn time"),
    "hops.queue_delay_ms": More(
        f"d(t) = the sojourn of the last packet that left before t, 0 when nothing is queued; {OVER_TIME}; "
        "none if no packet leaves in the measuring window"
    ),
    "hops.queue_packets": More(f"n(t) = packets that wait at t; {OVER_TIME}"),
    "hops.standing_queue_ms": More(
        f"s(t) = min of d(u) for u in [t − W, t], W the longest base RTT, d the queue delay; {OVER_TIME}",
        "Nichols and Jacobson, Controlling Queue Delay (2012): the queue that a round trip does not drain",
    ),
    "hops.empty_fraction": More("time in which n(t) = 0 / length of the measuring window"),
    "hops.nonempty_max_s": More("the longest part of the measuring window in which n(t) > 0"),
    "hops.full_fraction": More(
        "time in which a packet of one MTU would have been dropped / length of the measuring window"
    ),
    "hops.oscillation_s": More(
        "the lag of the top of the first hill of the queue delay's autocorrelation, after it was once negative"
    ),
    "hops.nic.ring_packets": More(f"packets in the card's ring at t; {OVER_TIME}", scenario="network-card"),
    "hops.nic.bql_limit_bytes": More(
        f"the limit of byte queue limits at t; {OVER_TIME}",
        "Linux, lib/dynamic_queue_limits.c",
        scenario="network-card",
    ),
    "hops.nic.bql_inflight_bytes": More(
        f"bytes that byte queue limits count as under way at t; {OVER_TIME}",
        "Linux, lib/dynamic_queue_limits.c",
        scenario="network-card",
    ),
    "hops.paused_fraction": More(
        "time in which the link was stopped / length of the measuring window",
        "IEEE 802.3 annex 31B: PAUSE",
        scenario="flow-control",
    ),
    "flows.goodput_mbit": More("8 · payload bytes acknowledged for the first time / length of the measuring window"),
    "flows.rtt_ms": More(
        "the previous ACK's arrival − the departure of the segment that it reported as delivered last",
        "RACK.rtt of RFC 8985 §6.2",
    ),
    "flows.rtt_variation_ms": More(
        "RTT sample − the least sample in the window", "RFC 5481 §4.2 defines it for one-way delays"
    ),
    "flows.retransmits": More(unit="segments"),
    "flows.startup_s": More(
        "the time at which the sender of the data can begin − first SYN's departure", "RFC 7928 §2.2", scenario="home"
    ),
    "flows.fct_s": More("last byte's arrival at the receiver − first SYN's departure", scenario="home"),
    "flows.packets": More(unit="packets"),
    "flows.drops": More(unit="packets"),
    "flows.loss_gap_ms": More("a drop's time − the time of the last drop before it", "RFC 7928 §2.3"),
    "flows.completed": More(unit="transfers", scenario="home"),
    "flows.unfinished": More(unit="transfers", scenario="home"),
    "flows.loss_ratio": More(
        "datagrams that never came / datagrams sent in the window", "RFC 7680", scenario="realtime"
    ),
    "flows.delay_ms": More("arrival − departure, application to application", "RFC 7679", scenario="realtime"),
    "flows.jitter_ms": More("delay − the least delay in the window", "RFC 5481 §4.2", scenario="realtime"),
    "flows.mos": More(
        "R = 93.2 − Id − Ie,eff;  MOS = 1 + 0.035 R + R (R − 60) (100 − R) · 7·10⁻⁶",
        "ITU-T G.107 (E-model), G.113; [how it is used](../../../explanation/workloads.md)",
        unit="1 to 4.5",
        scenario="realtime",
    ),
    "flows.slowdown": More(
        "completion time / completion time of the same transfer on an empty path",
        "[what an empty path gives](../../../explanation/workloads.md)",
        unit="a ratio, from 1",
        scenario="home",
    ),
    "flows.page_load_s": More(
        "arrival of the last object's last byte − first SYN's departure",
        "3GPP, NGMN; [the reader's model](../../../explanation/workloads.md)",
        scenario="home",
    ),
    "flows.pages": More(unit="pages", scenario="home"),
    "flows.video": More(
        unit="each part its own",
        source="the player: Huang et al., SIGCOMM 2014; [its model](../../../explanation/workloads.md)",
        scenario="home",
    ),
    "flows.rpm": More(
        "rpm = (foreign + loaded) / 2; foreign = 60 000 / mean(tcp_ms, tls_ms, http_ms); loaded = 60 000 / loaded_ms",
        "draft-ietf-ippm-responsiveness-06; [its model](../../../explanation/workloads.md)",
        unit="round trips a minute",
        scenario="responsiveness",
    ),
    "jain.goodput": More(
        "(Σ xᵢ)² / (n · Σ xᵢ²), xᵢ the goodput of bulk flow i",
        "Jain, Chiu, Hawe, DEC-TR-301 (1984)",
        unit="1/n to 1; 1 is equal",
        scenario="fading-link",
    ),
    "jain.drop_share": More(
        "(Σ xᵢ)² / (n · Σ xᵢ²), xᵢ = drops / packets of flow i",
        "Jain, Chiu, Hawe, DEC-TR-301 (1984)",
        unit="1/n to 1; 1 is equal",
        scenario="fading-link",
    ),
    "losses.events": More(
        "a drop of a bulk flow that is more than the longest base RTT after the first one of the last event begins an "
        "event",
        "RFC 5348 §5.2, for all bulk flows together",
        unit="events",
        scenario="fading-link",
    ),
    "losses.synchronisation": More(
        "mean over the events of (bulk flows that lose packets in the event / bulk flows)",
        "RFC 7928 §2.4: the global synchronization ratio",
        unit="1/n to 1; 1 is all flows at once",
        scenario="fading-link",
    ),
}
NIC = {
    "ring_packets": "Over time: packets in the card's ring, below the discipline.",
    "bql_limit_bytes": "Over time: how many bytes byte queue limits allow in the ring.",
    "bql_inflight_bytes": "Over time: bytes in the ring that the card has not completed.",
}
"""Measures that nic.rs writes as JSON without a struct."""


@dataclass(frozen=True)
class Measure:
    """A measure with all data for its page."""

    kind: Kind
    name: str
    """Its address within its kind: `sojourn_ms`, `nic.ring_packets`."""
    definition: str
    type: pa.DataType

    @property
    def unit(self) -> str:
        """The unit, derived from the name unless given."""
        return self.more.unit or unit_of(self.name)

    @property
    def more(self) -> More:
        """Information beyond the definition."""
        return MORE[f"{self.kind.name}.{self.name}"]


def unit_of(name: str) -> str:
    """Returns the unit that a name ends with."""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def measures() -> Iterator[Measure]:
    """Yields every measure in a store's columns."""
    for kind in KINDS:
        defined = definitions(kind.file, kind.struct)
        for field in kind.columns:
            if field.name == "nic":
                for part in field.type:
                    yield Measure(kind, f"nic.{part.name}", NIC[part.name], part.type)
            elif field.name not in LABELS:
                yield Measure(kind, field.name, defined[field.name], field.type)


def definitions(file: str, struct: str) -> dict[str, str]:
    """Returns the doc comment of each field of a struct; links become names of code, and Rust's None becomes null."""
    source = (METERS / file).read_text(encoding="utf-8")
    body = re.search(rf"pub struct {struct} {{\n(.*?)\n}}", source, re.S)
    assert body is not None, f"{file} has no struct {struct}"
    found = {}
    for said, name in FIELD.findall(body[1]):
        text = " ".join(line.strip().removeprefix("///").strip() for line in said.splitlines())
        text = re.sub(r" ?\(?(?:see )?\[`[^`]+`\]\)?", "", text)
        found[name] = text.replace("`None`", "null")
    return found


def measure_pages() -> dict[str, str]:
    """Returns a page for each measure, and one that lists them."""
    played: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    pages = {}
    listed = []
    for kind in KINDS:
        of_kind = [one for one in measures() if one.kind is kind]
        rows = [
            f"| [`{one.name}`]({kind.name}/{one.name}.md) | {one.unit} | {cell(one.definition)} |" for one in of_kind
        ]
        listed += [f"## {kind.title}", "", "| measure | unit | |", "|---|---|---|", *rows, ""]
        for one in of_kind:
            example = (one.more.scenario, one.more.set)
            if example not in played:
                played[example] = play(*example)
            pages[f"reference/measures/{kind.name}/{one.name}.md"] = page(one, played[example])
    listed_below = [name.removeprefix("reference/measures/") for name in pages]
    pages["reference/measures/index.md"] = (
        "# Measures\n\nEach is defined once, in `crates/measure`, for every world. They are in the JSON of "
        "`sojourn run`, in [the store](../store.md) by the same names, and papers' claims read them. All are of the "
        "measuring window (`measure` in the scenario); `startup` has those of the time before it. Measures without "
        "samples are null.\n\n" + "\n".join(listed) + "\n" + toctree(listed_below, hidden=True)
    )
    return pages


def play(scenario: str, sets: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Returns the runs of a scenario's sweep with the first seed."""
    path = ROOT / f"scenarios/{scenario}.toml"
    return [one.result for one in sj.run(load(path, sets, seeds=1), series=False).runs]


def page(measure: Measure, runs: Sequence[Mapping[str, Any]]) -> str:
    """Formats the page of a measure: name, unit, definition, formula, source, example."""
    kind = measure.kind
    more = measure.more
    address = f"{kind.address}.{measure.name}"
    meter = "nic.rs" if measure.name.startswith("nic.") else PARTS.get(measure.name, (kind.file,))[0]
    facts = [
        ("definition", measure.definition),
        ("formula", more.formula and f"`{more.formula}`"),
        ("unit", measure.unit),
        ("source", more.source),
        ("in JSON", f"`runs[].{kind.way}.{measure.name}`" + _keys(measure.type)),
        ("address", f"`{address}{'.p95' if measure.type == columns.DISTRIBUTION else ''}`"),
        ("meter", f"`crates/measure/src/{meter}`"),
    ]
    lines = [f"# {measure.name}", "", f"{kind.title.replace('Measures', 'A measure')}.", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {cell(value)} |" for name, value in facts if value]
    if measure.name in PARTS:
        lines += ["", "## Its parts", "", "| part | unit | |", "|---|---|---|"]
        parts = definitions(*PARTS[measure.name]).items()
        lines += [f"| `{name}` | {unit_of(name)} | {cell(said)} |" for name, said in parts]
    sets = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in more.set)
    lines += ["", "## Example", "", f"    sojourn run {more.scenario}{sets} -f json", ""]
    lines += example(measure, runs)
    return "\n".join(lines) + "\n"


def _keys(kind: pa.DataType) -> str:
    if kind == columns.DISTRIBUTION:
        return ": mean, p50, p75, p95, p99 (so much of the weight does not exceed it), max"
    if kind == columns.STANDING:
        return ": p10, p50, p90"
    return ""


def example(measure: Measure, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Formats the values in each combination of a scenario, with the first seed."""
    rows = [(_set(run), name, value) for run in runs for name, value in values(measure, run)]
    keys = list(dict.fromkeys(key for _, _, value in rows for key in value))
    lines = [f"| {' | '.join(['set', 'of', *keys])} |", "|---|---|" + "---:|" * len(keys)]
    for chosen, name, value in rows:
        cells = [_number(value.get(key)) for key in keys]
        lines.append(f"| {cell(chosen)} | {name} | {' | '.join(cells)} |")
    return lines


def _set(run: Mapping[str, Any]) -> str:
    return ", ".join(f"`{value}`" for value in run["set"].values())


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else number(float(value), 3)


def values(measure: Measure, run: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the values with the names of their queues or flows; a plain number is called `value`. If a scenario has
    many flows, only the first of each entry is included."""
    if measure.kind.name in ("jain", "losses"):
        yield "", {"value": run[measure.kind.name][measure.name]}
        return
    if measure.kind.name == "hops":
        of: list[tuple[str, Any]] = [(f"`{name}`", hop) for name, hop in run["hops"].items() if "." not in name]
    else:
        of = [(f"`{flow['name']}`", flow) for flow in run["flows"] if not re.search(r"\.[1-9]\d*$", flow["name"])]
    for name, part in of:
        value: Any = part
        for key in measure.name.split("."):
            value = value[key] if value is not None else None
        if value is not None:
            yield name, dict(value) if isinstance(value, Mapping) else {"value": value}
