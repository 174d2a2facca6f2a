"""Verifies an implementation of a queue discipline against the discipline's RFC and against ours. Any implementation
that can play a trace can be verified.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sojourn import _core
from sojourn.verify import chance, vectors
from sojourn.verify.flows import SHAPERS
from sojourn.verify.questions import Line
from sojourn.verify.subjects import MTU, Kernel, OfUser, Ours, Program, Subject, of_kernel
from sojourn.verify.trace import ECT0, ECT1, FULL, NOT_ECT, Fate, Trace, fates

__all__ = [
    "Kernel",
    "Line",
    "OfUser",
    "Ours",
    "Program",
    "Subject",
    "Verdict",
    "in_distribution",
    "line_of",
    "of_kernel",
    "verify",
]

PEEKED = {"codel", "fq_codel", "pie", "fq_pie", "sfq", "cake"}
"""Disciplines that, as a child of tbf, dequeue a packet as soon as tbf peeks at it. Their statistics count the packet
as sent while tbf still holds it.
"""
RANDOM = {"red", "pie", "fq_pie", "cake", "dualpi2", "blue", "sfb", "choke"}
"""Disciplines that draw random numbers. Each implementation draws other ones, so their results are compared in
distribution and not packet by packet.
"""
LOADS = (70, 100, 130, 200, 320)
"""The loads of the random traces, in percent of the link's rate. Each trace has one of them."""
LINK = 10_000_000
"""The rate in bit/s at which the link of the random traces dequeues."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one question. `fault` is empty if there is none; `left_out` is the reason if the question was not
    asked.
    """

    name: str
    source: str
    fault: str = ""
    left_out: str = ""
    trace: bytes = field(default=b"", repr=False)
    theirs: bytes = field(default=b"", repr=False)
    expected: bytes = field(default=b"", repr=False)

    @property
    def word(self) -> str:
        """The verdict in words."""
        return "failed" if self.fault else "left out" if self.left_out else "passed"

    @property
    def passed(self) -> bool:
        """Whether the question was asked, and no fault was found."""
        return self.word == "passed"


@dataclass(frozen=True)
class Played:
    """A trace, and the fates that the tested implementation returned for its packets."""

    trace: Trace
    theirs: bytes
    seen: list[Fate]


def _play(subject: Subject, trace: Trace) -> Played:
    theirs = subject.play(trace.text())
    return Played(trace, theirs, fates(theirs, len(trace.packets()), subject.name))


def line_of(text: str) -> Line:
    """Parses a line of `tc` words."""
    said = _core.qdisc(text)
    return Line(said["kind"], said["full"], said["values"])


def verify(
    line: Line, subject: Subject, *, traces: int, packets: int, seed: int, rate: int = LINK
) -> Iterator[Verdict]:
    """Asks all questions and yields the verdicts one after the other. First come the named questions, then the
    properties of every discipline on random traces, and last the comparison with ours. `rate` is the link's rate in
    bit/s that our implementation is given.
    """
    questions = vectors.of(line)
    named, violated = [], []
    for question in questions.asked:
        played = _play(subject, question.trace)
        named.append(played)
        fault = question.check(played.seen) or ""
        if fault:
            violated.append(question.name)
        yield Verdict(question.name, question.source, fault, trace=question.trace.text(), theirs=played.theirs)
    for name, why in questions.left_out:
        yield Verdict(name, "", left_out=why)
    drawn = [_random(seed + number, LOADS[number % len(LOADS)], packets) for number in range(traces)]
    at_random = [_play(subject, trace) for trace in drawn]
    for name, check in PROPERTIES.items():
        yield _held(name, check, line, at_random)
    compared = _compared(line, subject, named + at_random, rate)
    yield replace(compared, fault=f"{compared.fault}; {_weight(violated)}") if compared.fault else compared


def _weight(violated: Sequence[str]) -> str:
    """Says whether a difference from ours also violates a statement of an RFC or paper."""
    if not violated:
        return "no statement above is violated: it is only not as ours"
    return f"it also violates what its source says: {', '.join(violated)}"


# ---- what holds for any discipline ----


def _goes_once(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """Packets leave only when the link asks: one for each request. A packet's fate is never earlier than its
    arrival.
    """
    asks: dict[int, int] = {}
    for at in trace.asks():
        asks[at] = asks.get(at, 0) + 1
    for packet, fate in zip(trace.packets(), seen, strict=True):
        if fate.left:
            if asks.get(fate.at, 0) == 0:
                return f"packet {fate.number} leaves at {fate.at} ns, when the link does not ask (any more)"
            asks[fate.at] -= 1
        if fate.word != "queued" and fate.at < packet.at:
            return f"packet {fate.number} arrives at {packet.at} ns and is {fate.word} at {fate.at}"
    return None


def _in_order(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """Packets of one flow leave in the order of their arrival. If the discipline sorts by ECN field or DSCP, this holds
    only for packets that have the same octet.
    """
    last: dict[tuple[int, int], Fate] = {}
    sorts = line.kind in ("dualpi2", "prio", "cake")
    for packet, fate in zip(trace.packets(), seen, strict=True):
        if fate.left:
            queue = (packet.flow, packet.ecn if sorts else 0)
            before = last.get(queue)
            if before is not None and fate.at < before.at:
                return (
                    f"packet {fate.number} of flow {packet.flow} leaves at {fate.at} ns, before packet {before.number}"
                )
            last[queue] = fate
    return None


def _marked(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """Only ECN-capable packets are marked (RFC 3168 §5)."""
    for packet, fate in zip(trace.packets(), seen, strict=True):
        if fate.word == "marked" and packet.ecn == NOT_ECT:
            return f"packet {fate.number} is marked, and was not ECN-capable"
    return None


def _waiting(trace: Trace, seen: Sequence[Fate]) -> Iterator[tuple[int, int, int]]:
    """Yields each instant at which something happens: its time, the number of packets that wait after it, and the
    number of dequeues that found no packet.
    """
    change: dict[int, list[int]] = {}
    for packet, fate in zip(trace.packets(), seen, strict=True):
        change.setdefault(packet.at, [0, 0])[0] += 1
        if fate.word != "queued":
            change.setdefault(fate.at, [0, 0])[0] -= 1
            change[fate.at][1] -= int(fate.left)
    for at in trace.asks():
        change.setdefault(at, [0, 0])[1] += 1
    waiting = 0
    for at in sorted(change):
        waiting += change[at][0]
        yield at, waiting, change[at][1]


def _works(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """While packets wait, the link gets one whenever it asks. A shaper is instead tested for its rate: while packets
    wait, it sends neither faster than rate and burst allow nor slower than its rate.
    """
    if line.kind in SHAPERS:
        return _shaped(line, trace, seen)
    if line.values.get("maxrate") or (line.values.get("bandwidth") and line.kind == "cake"):
        return None
    for at, waiting, refused in _waiting(trace, seen):
        if refused > 0 and waiting > 0:
            return f"the link asks at {at} ns and gets nothing, while {waiting} packets wait"
    return None


def _shaped(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """Tests a shaper with a bucket that fills at `rate` and holds `burst` bytes and a full packet. A packet that is
    longer than the content of the bucket leaves too early. While packets wait and the bucket is full, the link must get
    a packet whenever it asks.
    """
    rate, most = line.number("rate"), line.number("burst") + FULL
    if line.kind == "htb":
        rate = min(rate, line.number("ceil") or rate)
    bucket, last, asks = most * 8 * 1_000_000_000, 0, set(trace.asks())
    sent: dict[int, int] = {}
    for packet, fate in zip(trace.packets(), seen, strict=True):
        if fate.left:
            sent[fate.at] = sent.get(fate.at, 0) + packet.size
    for at, waiting, refused in _waiting(trace, seen):
        bucket = min(bucket + (at - last) * rate, most * 8 * 1_000_000_000)
        last = at
        bucket -= sent.get(at, 0) * 8 * 1_000_000_000
        # Clocks and rates are rounded: a hundredth more is no fault.
        if bucket < -most * 8 * 10_000_000:
            return f"at {at} ns more has left than the burst and the rate allow"
        if at in asks and refused > 0 and waiting > 0 and bucket >= most * 8 * 1_000_000_000:
            return f"the link asks at {at} ns and gets nothing, while {waiting} packets wait and the bucket is full"
    return None


def _limited(line: Line, trace: Trace, seen: Sequence[Fate]) -> str | None:
    """No more than `limit` packets wait."""
    limit = line.number("limit")
    if line.kind in ("bfifo", "red", "tbf") or not limit:
        return None
    for at, waiting, _ in _waiting(trace, seen):
        if waiting > limit + (8 if line.variant == "linux67" else 0):
            return f"{waiting} packets wait at {at} ns: expected at most {limit}"
    return None


Property = Callable[[Line, Trace, Sequence[Fate]], str | None]
"""Checks a property. Returns the first fault in words, or None."""
PROPERTIES: dict[str, Property] = {
    "each packet has one fate, when the link asks": _goes_once,
    "packets of a flow leave in order": _in_order,
    "only the ECN-capable are marked": _marked,
    "the link is not kept waiting": _works,
    "the limit holds": _limited,
}


def _held(name: str, check: Property, line: Line, played: Sequence[Played]) -> Verdict:
    for one in played:
        if fault := check(line, one.trace, one.seen):
            return Verdict(name, "any discipline", fault, trace=one.trace.text(), theirs=one.theirs)
    return Verdict(name, "any discipline")


def _compared(line: Line, subject: Subject, played: Sequence[Played], rate: int) -> Verdict:
    """Compares every packet's fate and its time with ours. The verdict names the first difference."""
    name, source = "every packet's fate is ours", f"{len(played)} traces"
    if isinstance(subject, Ours):
        return Verdict(name, source, left_out="it is ours")
    inner = line.full.rsplit(" child ", maxsplit=1)[-1].split()[0]
    if inner in RANDOM and not isinstance(subject, Kernel):
        return in_distribution(line, subject, rate)
    if line.kind == "tbf" and inner in PEEKED and isinstance(subject, Kernel):
        return Verdict(name, source, left_out="a packet that tbf holds does not count in its child's limits, in ours")
    for one in played:
        ours = _play(Ours(line.full, rate), one.trace)
        unlike = [(seen, wanted) for seen, wanted in zip(one.seen, ours.seen, strict=True) if seen != wanted]
        if unlike:
            seen, wanted = min(unlike, key=lambda pair: min(pair[0].at or 1 << 62, pair[1].at or 1 << 62))
            fault = (
                f"packet {seen.number} is {seen.word} at {seen.at} ns, ours {wanted.word} at {wanted.at} "
                f"({len(unlike)} of {len(one.seen)} differ)"
            )
            return Verdict(name, source, fault, trace=one.trace.text(), theirs=one.theirs, expected=ours.theirs)
    return Verdict(name, source)


def in_distribution(line: Line, subject: Subject, rate: int) -> Verdict:
    """Compares drops, marks and delays with those of ours over many seeds."""
    name, source = "it drops, marks and delays as many as ours", f"{chance.SEEDS} seeds"
    if line.kind not in chance.WAVES:
        return Verdict(name, source, left_out="it draws random numbers")
    trace, parts = chance.waves(line)
    played = _play(subject, trace)
    fault = chance.unlike(line, rate, played.trace, parts, played.seen, MTU) or ""
    return Verdict(name, source, fault, trace=trace.text(), theirs=played.theirs)


def _random(seed: int, load: int, packets: int) -> Trace:
    """Makes a random trace. Packets of some flows load a link to `load` percent of its rate, and the link asks whenever
    it could have sent a packet of mean size. There are bursts, ties and pauses, and mixed sizes and ECN fields.
    """
    draw = random.Random(seed)
    flows = draw.choice((1, 2, 5, 20, 100))
    trace, at, sent = Trace(), 1000, 0
    while sent < packets:
        burst = draw.choice((1, 1, 1, 2, 5, 20))
        for _ in range(min(burst, packets - sent)):
            size = draw.choice((66, 300, 1000, FULL, FULL, FULL))
            trace.put(at, flow=draw.randrange(flows), size=size, ecn=draw.choice((NOT_ECT, NOT_ECT, ECT0, ECT1)))
            sent += 1
        mean = burst * 900 * 8 * 1_000_000_000 // LINK * 100 // load
        at += draw.randrange(2 * mean) if draw.random() > 0.01 else 200_000_000
    step = 900 * 8 * 1_000_000_000 // LINK
    return trace.take_each(range(2000, at + 200 * step, step))
