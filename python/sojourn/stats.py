"""Prints a discipline's counters as `tc -s qdisc show` does, so that a reader can compare both."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sojourn import cases, queues, records

Stats = Mapping[str, Any]

LAYOUTS: dict[str, tuple[str, ...]] = {
    "codel": (
        "count {count} lastcount {lastcount} ldelay {ldelay:us}[ dropping{dropping:flag}] drop_next {drop_next:us}",
        "maxpacket {maxpacket} ecn_mark {ecn_mark} drop_overlimit {drop_overlimit}[ ce_mark {ce_mark}]",
    ),
    "fq_codel": (
        "maxpacket {maxpacket} drop_overlimit {drop_overlimit} new_flow_count {new_flow_count} ecn_mark {ecn_mark}"
        "[ ce_mark {ce_mark}][ memory_used {memory_used}][ drop_overmemory {drop_overmemory}]",
        "new_flows_len {new_flows_len} old_flows_len {old_flows_len}",
    ),
    "fq": (
        "flows {flows} (inactive {inactive} throttled {throttled_flows})",
        "gc {gc} highprio {highprio}[ fastpath {fastpath}] throttled {throttled}[ latency {latency:ns}]"
        "[ ce_mark {ce_mark}] flows_plimit {flows_plimit}",
        "[pkts_too_long {pkts_too_long}]",
    ),
    "ccaq": (
        "drop_overlimit {drop_overlimit} drop_overmemory {drop_overmemory} drop_unresponsive {drop_unresponsive}",
        "new_flow_count {new_flow_count} collisions {collisions} ecn_mark {ecn_mark} ce_mark {ce_mark}"
        " memory_used {memory_used}",
        "new_flows_len {new_flows_len} old_flows_len {old_flows_len}",
        "idle_time {idle_time:us} target {min_target:us} to {max_target:us} rtt {min_rtt:us} to {max_rtt:us}",
    ),
    "ccaq_paper": (
        "flows {flows} (inactive {inactive} throttled {throttled_flows}) limits {min_limit} to {max_limit}p",
        "enlarged {enlarged} shrunk {shrunk} shed {shed} flows_plimit {flows_plimit}",
        "gc {gc} throttled {throttled} ce_mark {ce_mark} pkts_too_long {pkts_too_long}"
        " horizon_drops {horizon_drops} horizon_caps {horizon_caps} allocation_errors {allocation_errors}",
    ),
    "pie": (
        "prob {prob} delay {delay:us}[ avg_dq_rate {avg_dq_rate}]",
        "pkts_in {pkts_in} overlimit {overlimit} dropped {dropped} maxq {maxq} ecn_mark {ecn_mark}",
    ),
    "fq_pie": (
        "pkts_in {pkts_in} overlimit {overlimit} overmemory {overmemory} dropped {dropped} ecn_mark {ecn_mark}",
        "new_flow_count {new_flow_count} new_flows_len {new_flows_len} old_flows_len {old_flows_len}"
        " memory_used {memory_used}",
    ),
    "dualpi2": (
        "prob {prob} delay_c {delay-c}us delay_l {delay-l}us pkts_in_c {pkts-in-c} pkts_in_l {pkts-in-l} maxq {maxq}"
        " ecn_mark {ecn-mark} step_mark {step-mark} credit {credit}"
        " memory_used {memory-used} (max {max-memory-used}) of {memory-limit}",
    ),
    "sfq": (
        "prob_mark {prob_mark} prob_mark_head {prob_mark_head} prob_drop {prob_drop}",
        "forced_mark {forced_mark} forced_mark_head {forced_mark_head} forced_drop {forced_drop}",
    ),
    "red": ("marked {marked} early {early} pdrop {pdrop} other {other}",),
    "choke": ("marked {marked} early {early} pdrop {pdrop} other {other} matched {matched}",),
    "blue": ("marked {marked} early {early} pdrop {pdrop}",),
    "sfb": (
        "earlydrop {earlydrop} penaltydrop {penaltydrop} bucketdrop {bucketdrop} queuedrop {queuedrop}"
        " childdrop {childdrop} marked {marked}",
        "maxqlen {maxqlen} maxprob {maxprob} avgprob {avgprob}",
    ),
}
"""tc's lines for each kind, after its first three; parts in brackets are printed only if a counter is not zero."""
FIELD, OPTIONAL = re.compile(r"\{([\w-]+)(?::(\w+))?\}"), re.compile(r"\[([^\]]*)\]")
COMMON = {"kind", "bytes", "packets", "drops", "overlimits", "requeues", "backlog", "qlen", "classes", "child"}
TINS = {
    1: ("Tin 0",),
    3: ("Bulk", "Best Effort", "Voice"),
    4: ("Bulk", "Best Effort", "Video", "Voice"),
}
TINS_ABREAST = 5
"""The number of tins that fit into 80 columns."""
ROWS = (
    ("thresh", "threshold_rate"),
    ("target", "target_us"),
    ("interval", "interval_us"),
    ("pk_delay", "peak_delay_us"),
    ("av_delay", "avg_delay_us"),
    ("sp_delay", "base_delay_us"),
    ("backlog", "backlog_bytes"),
    ("pkts", "sent_packets"),
    ("bytes", "sent_bytes"),
    ("way_inds", "way_indirect_hits"),
    ("way_miss", "way_misses"),
    ("way_cols", "way_collisions"),
    ("drops", "drops"),
    ("marks", "ecn_mark"),
    ("ack_drop", "ack_drops"),
    ("sp_flows", "sparse_flows"),
    ("bk_flows", "bulk_flows"),
    ("un_flows", "unresponsive_flows"),
    ("max_len", "max_pkt_len"),
    ("quantum", "flow_quantum"),
)
"""tc's rows of a tin, and its keys in JSON."""
WIDTH = 80


def of_runs(runs: Sequence[records.RunRecord]) -> str:
    """Returns the counters of each shown queue and of TCP, from the first seed of each combination."""
    lines: list[str] = []
    for hop in queues.shown_in([record.result for record in runs]):
        groups = cases.case_list(runs)
        for one in groups:
            found = one.first.result["hops"][hop]["stats"]
            if found is None:
                continue
            seed = f", seed {one.first.seed}" if len(one.runs) > 1 else ""
            label = f", {one.label_at(hop)}" if len(groups) > 1 else ""
            lines += ["", *_wrapped(f"{hop}{label}{seed}", ""), *text(cases.qdisc_of(one.first, hop), found)]
    return "\n".join([*lines, *_tcp(runs)])


def _tcp(runs: Sequence[records.RunRecord]) -> Iterator[str]:
    """The counters of the hosts' TCP as `nstat` prints them, from the first seed of each combination."""
    groups = cases.case_list(runs)
    for one in groups:
        found = one.first.result.get("tcp")
        if found is None:
            continue
        seed = f", seed {one.first.seed}" if len(one.runs) > 1 else ""
        label = f", {one.label}" if len(groups) > 1 else ""
        yield from ["", *_wrapped(f"TCP of all hosts{label}{seed}", "")]
        yield from (f"  TcpExt{name:<26} {value}" for name, value in found.items())


def text(line: str, stats: Stats) -> list[str]:
    """The lines of `tc -s qdisc show` for a discipline with this line, no wider than 80 columns."""
    own, _, below = line.partition(" child ")
    lines = [*_wrapped(f"qdisc {own}", "  "), *sent(stats), *itself(stats)]
    if classes := stats.get("classes"):
        lines += _wrapped("  classes: " + " ".join(f"{key} {value}" for key, value in classes.items()), "  ")
    if child := stats.get("child"):
        lines += text(below or str(child["kind"]), child)
    return [wrapped for one in lines for wrapped in _wrapped(one, "  ")]


def sent(stats: Stats) -> list[str]:
    """The two lines that every discipline has."""
    return [
        f" Sent {stats['bytes']} bytes {stats['packets']} pkt "
        f"(dropped {stats['drops']}, overlimits {stats['overlimits']} requeues {stats['requeues']})",
        f" backlog {size(stats['backlog'])} {stats['qlen']}p requeues {stats['requeues']}",
    ]


def layout_of(stats: Stats) -> tuple[str, ...]:
    """The lines of these counters' kind in `LAYOUTS`; empty if it has none. Both variants of ccaq have the same name,
    so their counters decide.
    """
    is_paper = stats["kind"] == "ccaq" and "min_limit" in stats
    return LAYOUTS.get("ccaq_paper" if is_paper else stats["kind"], ())


def itself(stats: Stats) -> list[str]:
    """The lines that only this kind has, not yet wrapped."""
    if "tins" in stats:
        return [*_cake(stats)]
    layout = layout_of(stats)
    if not layout:
        rest = " ".join(f"{key} {value}" for key, value in stats.items() if key not in COMMON)
        return [f"  {rest}"] if rest else []
    filled = (_filled(one, stats) for one in layout if any(field[1] in stats for field in FIELD.finditer(one)))
    return [f"  {one}" for one in filled if one]


def _filled(layout: str, stats: Stats) -> str:
    """A line of a layout with the counters in it."""

    def kept(part: re.Match[str]) -> str:
        return part[1] if any(stats.get(field[1]) for field in FIELD.finditer(part[1])) else ""

    return FIELD.sub(lambda field: _shown(stats.get(field[1], 0), field[2]), OPTIONAL.sub(kept, layout))


def _shown(value: Any, unit: str | None) -> str:
    if unit == "us":
        return time(value)
    if unit == "ns":
        return f"{value}ns" if value < 1000 else time(value / 1000)
    if unit == "flag":
        return ""
    return str(value)


def _cake(stats: Stats) -> Iterator[str]:
    yield f" memory used: {stats['memory_used']}b of {size(stats['memory_limit'])}"
    yield f" capacity estimate: {rate(stats['capacity_estimate'])}"
    for words, kind in (("network layer", "network"), ("overhead-adjusted", "adj")):
        least, most = stats[f"min_{kind}_size"], stats[f"max_{kind}_size"]
        yield f" min/max {words + ' size:':<24}{least:>8} / {most:>7}"
    yield f" average network hdr offset: {stats['avg_hdr_offset']:>12}"
    tins = stats["tins"]
    names = TINS.get(len(tins), tuple(f"Tin {number}" for number in range(len(tins))))
    for first in range(0, len(tins), TINS_ABREAST):
        yield ""
        here = slice(first, first + TINS_ABREAST)
        yield f"{'':10}" + "".join(f"{name:>13}" for name in names[here])
        for row, key in ROWS:
            cells = "".join(f"{_of_tin(key, tin[key]):>13}" for tin in tins[here])
            yield f"  {row:<8}{cells}"


def _of_tin(key: str, value: int) -> str:
    if key.endswith("_us"):
        return time(value)
    if key == "threshold_rate":
        return rate(value)
    return f"{value}b" if key == "backlog_bytes" else str(value)


def time(us: float) -> str:
    """A time as tc prints it."""
    if abs(us) >= 1e6:
        return f"{us / 1e6:.3g}s"
    return f"{us / 1e3:.3g}ms" if abs(us) >= 1e3 else f"{math.trunc(us)}us"


def rate(bytes_per_s: int) -> str:
    """A rate as tc prints it: in the largest unit in which it is whole or above a thousand of the one below."""
    bits, unit = bytes_per_s * 8, 0
    while unit < 4 and bits >= 1000 and not (bits % 1000 and bits < 1_000_000):
        bits, unit = bits // 1000, unit + 1
    return f"{bits}{('', 'K', 'M', 'G', 'T')[unit]}bit"


def size(count: int) -> str:
    """Bytes as tc prints them: rounded to kilobytes or megabytes where they are nearly whole."""
    for unit, scale, near in (("Mb", 1 << 20, 1024), ("Kb", 1 << 10, 16)):
        if count >= scale and abs(scale * round(count / scale) - count) < near:
            return f"{round(count / scale)}{unit}"
    return f"{count}b"


def _wrapped(line: str, indent: str) -> Iterator[str]:
    """A line in pieces of at most 80 columns, broken at blanks; the pieces after the first are indented further."""
    line = line.rstrip()
    while len(line) > WIDTH:
        at = line.rfind(" ", len(line) - len(line.lstrip()) + 1, WIDTH + 1)
        if at <= 0:
            break
        yield line[:at].rstrip()
        line = f"{indent}  {line[at:].strip()}"
    yield line
