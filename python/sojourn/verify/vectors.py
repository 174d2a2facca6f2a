"""Named questions to a discipline: a trace made for one statement of an RFC, and what its packets must show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sojourn.verify.trace import ECT0, FULL, NOT_ECT, Fate, Trace

STANDING = 60
"""Packets of the queue that stands in CoDel's questions, at a hundred departures an interval."""
STEPS = 100
LAWS = {
    "rfc8289": (0.0, 1.0, 1.7071, 2.2845, 2.7845, 3.2317, 3.6399, 4.0179, 4.3714, 4.7048),
    "linux": (0.0, 1.0, 1.5, 2.0625, 2.5503, 2.9918, 3.3959, 3.7711, 4.1226, 4.4544),
}
"""When drops follow the first one, in intervals: RFC 8289's square root, and Linux's with one Newton step a drop."""


@dataclass(frozen=True)
class Line:
    """What is verified: the discipline's kind, all of its words, its values in base units."""

    kind: str
    full: str
    values: dict[str, Any]

    def number(self, name: str) -> int:
        """A value that is a number; 0 where it is not set."""
        return int(self.values.get(name) or 0)

    @property
    def variant(self) -> str:
        """Whose decisions: the word after `variant`; "" without one."""
        words = self.full.split()
        return words[words.index("variant") + 1] if "variant" in words else ""


@dataclass(frozen=True)
class Question:
    """A trace, and what the fates must show: `check` gives the first fault in words, or None."""

    name: str
    source: str
    trace: Trace
    check: Callable[[Sequence[Fate]], str | None]


@dataclass
class Questions:
    """All that can be asked of a line; `left_out` says what can't, and why."""

    asked: list[Question] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, name: str, source: str, trace: Trace, check: Callable[[Sequence[Fate]], str | None]) -> None:
        """Adds one."""
        self.asked.append(Question(name, source, trace, check))


def of(line: Line) -> Questions:
    """The questions to this line."""
    found = Questions()
    if line.kind == "codel":
        _codel(found, line)
    if line.kind in ("fq_codel", "fq", "sfq", "fq_pie"):
        if _is_roomy(line):
            _flows(found, line)
        else:
            found.left_out.append(
                ("flows in turn", "needs queues for 100 packets of several flows, and CoDel's usual pace")
            )
    if line.kind in ("pfifo", "codel") and line.number("limit") <= 20_000:
        limit = line.number("limit")
        trace = Trace().put(0, count=limit + 3)
        found.ask("a full queue drops what arrives", "RFC 8289 §5.4", trace, lambda seen: _tail(seen, limit))
    return found


def _is_roomy(line: Line) -> bool:
    """Whether nothing but the turn of the flows decides about a hundred packets and a few of another flow."""
    least = {"limit": 220, "flow_limit": 120, "memory_limit": 1_000_000, "flows": 64, "target": 1_000_000}
    slow = line.values.get("maxrate") is not None
    return not slow and all(line.values.get(name) is None or line.number(name) >= low for name, low in least.items())


def _tail(seen: Sequence[Fate], limit: int) -> str | None:
    for fate in seen:
        wanted = "queued" if fate.number < limit else "dropped"
        if fate.word != wanted:
            return f"packet {fate.number} of {len(seen)} with a limit of {limit} is {fate.word}: expected {wanted}"
    return None


def _none_dropped(*, after: int = -1, until: int = 1 << 62) -> Callable[[Sequence[Fate]], str | None]:
    def check(seen: Sequence[Fate]) -> str | None:
        for fate in seen:
            if fate.word in ("dropped", "marked") and after < fate.at < until:
                return f"packet {fate.number} is {fate.word} at {fate.at} ns: expected none to be"
        return None

    return check


def _several(seen: Sequence[Fate]) -> str | None:
    times = [fate.at for fate in _hit(seen)]
    return (
        None
        if len(set(times)) < len(times)
        else "never are two packets dropped at one time: expected several to be due"
    )


def _hit(seen: Sequence[Fate]) -> list[Fate]:
    return sorted((fate for fate in seen if fate.word in ("dropped", "marked")), key=lambda fate: fate.at)


# ---- CoDel ----


def _codel(found: Questions, line: Line) -> None:
    target, interval, limit = line.number("target"), line.number("interval"), line.number("limit")
    if not interval // STEPS < target <= interval * 2 // 5 or limit < 2 * STANDING:
        found.left_out.append(
            ("CoDel's law", f"needs a limit of {2 * STANDING}, and a target of 1 to 40 % of the interval")
        )
        return
    step = interval // STEPS
    ect = ECT0 if line.values.get("ecn") else NOT_ECT
    asks = [step * number for number in range(1, 6 * STEPS)]

    below = Trace()
    for at in asks:
        below.put(at).take(at + target * 4 // 5)
    found.ask("below target nothing is dropped", "RFC 8289 §5.6", below, _none_dropped())

    alone = Trace()
    for number in range(60):
        alone.put(number * interval // 3).take(number * interval // 3 + interval // 4)
    found.ask("a queue of one packet is left alone", "RFC 8289 §4.1", alone, _none_dropped())

    pair = Trace().put(0, size=1000)
    for number in range(80):
        pair.put(number * interval // 4, size=1000).take((number + 1) * interval // 4)
    found.ask("one MTU behind the head is left alone", "RFC 8289 §4.1", pair, _none_dropped())

    bursts = Trace()
    for burst in range(5):
        begin = 2 * burst * interval
        bursts.put(begin, count=50).take_each(begin + interval * 9 * number // 500 for number in range(1, 52))
    found.ask("a burst that drains within an interval loses nothing", "RFC 8289 §4", bursts, _none_dropped())

    standing = Trace().put(0, count=STANDING)
    for at in asks:
        standing.put(at - step // 2).take(at)
    above = -(-target // step) * step
    found.ask(
        "the first drop comes an interval after the delay rose above target",
        "RFC 8289 §5.5, §5.6",
        standing,
        lambda seen: _first(seen, above + interval, step),
    )
    law = LAWS.get("rfc8289" if line.variant == "rfc8289" else "linux", ())
    found.ask(
        "drops follow by the control law" + ("" if line.variant == "rfc8289" else ", with Linux's square root"),
        "RFC 8289 §5.5" if line.variant == "rfc8289" else "Linux codel_impl.h",
        standing,
        lambda seen: _law(seen, law, interval, step),
    )
    found.ask("it drops the head, and delivers the packet behind it", "RFC 8289 §5.5", standing, _heads)
    slower = Trace().put(0, count=2 * STANDING)
    for at in asks:
        slower.put(at - step // 2).take(at)
    for number in range(1, 40):
        slower.put(asks[-1] + number * interval // 2 - 1).take(asks[-1] + number * interval // 2)
    found.ask("on a link that became slow, several drops are due at once", "RFC 8289 §5.5", slower, _several)

    after = Trace().put(0, count=STANDING)
    for at in asks[: 4 * STEPS]:
        after.put(at - step // 2).take(at)
    calm = 5 * interval
    after.take_each([calm] * (STANDING + 2))
    for number in range(60):
        after.put(calm + 1 + number * interval // 3).take(calm + 1 + number * interval // 3 + interval // 4)
    found.ask(
        "after its drops too a queue of one packet is left alone", "RFC 8289 §4.1", after, _none_dropped(after=calm)
    )
    _reset(found, target, interval, step)
    _again(found, interval, step)
    marking = Trace().put(0, count=STANDING, ecn=ect)
    for number, at in enumerate(asks):
        marking.put(at - step // 2, ecn=ect if number % 2 else NOT_ECT).take(at)
    found.ask(
        "who can be marked is marked, all others are dropped", "RFC 8289 §3", marking, _marks(marking, ect != NOT_ECT)
    )


def _first(seen: Sequence[Fate], due: int, step: int) -> str | None:
    hit = _hit(seen)
    if not hit:
        return f"nothing is dropped: expected the first drop at {due} ns"
    if not due <= hit[0].at <= due + step:
        return f"the first drop is at {hit[0].at} ns: expected {due} to {due + step}"
    return None


def _law(seen: Sequence[Fate], law: Sequence[float], interval: int, step: int) -> str | None:
    hit = _hit(seen)
    if not hit:
        return "nothing is dropped"
    for number, later in enumerate(law[1:], start=1):
        due = hit[0].at + int(later * interval)
        if due > max(fate.at for fate in seen) - step:
            break
        if number >= len(hit) or not due - step <= hit[number].at <= due + 2 * step:
            came = f"{hit[number].at} ns" if number < len(hit) else "never"
            return f"drop {number + 1} comes at {came}: expected {due} ns, {later:.4g} intervals after the first"
    return None


def _heads(seen: Sequence[Fate]) -> str | None:
    gone = [fate for fate in seen if fate.word != "queued"]
    for one, other in pairwise(gone):
        if other.at < one.at:
            return f"packet {other.number} goes at {other.at} ns, before packet {one.number} at {one.at}"
        if other.at == one.at and one.left and other.word == "dropped":
            both = f"packet {one.number} is delivered at {one.at} ns and packet {other.number}, behind it, dropped"
            return f"{both}: expected the other way round"
    return None if any(fate.word == "dropped" or fate.word == "marked" for fate in gone) else "nothing is dropped"


def _marks(trace: Trace, on: bool) -> Callable[[Sequence[Fate]], str | None]:
    capable = [packet.ecn != NOT_ECT for packet in trace.packets()]

    def check(seen: Sequence[Fate]) -> str | None:
        hit = _hit(seen)
        if not hit:
            return "nothing is dropped or marked"
        for fate in hit:
            wanted = "marked" if on and capable[fate.number] else "dropped"
            if fate.word != wanted:
                return f"packet {fate.number} is {fate.word}: expected {wanted}"
        return None

    return check


def _reset(found: Questions, target: int, interval: int, step: int) -> None:
    """The delay falls below target for one packet, or the queue runs empty, just before an interval is over."""
    for name, extra in (("one packet below target", 0), ("an empty queue", 1)):
        trace = Trace().put(0, count=STANDING)
        fresh = STEPS * 9 // 10 * step
        for at in range(step, fresh, step):
            trace.put(at - step // 2).take(at)
        trace.put(fresh - step // 2).take_each([fresh] * (STANDING + extra)).put(fresh + 1, count=STANDING)
        for at in range(fresh + step, 3 * interval, step):
            trace.put(at - step // 2).take(at)
        found.ask(f"{name} begins the interval anew", "RFC 8289 §5.6", trace, _none_dropped(until=fresh + interval))


def _again(found: Questions, interval: int, step: int) -> None:
    """A second time of trouble, soon after the first or long after it."""
    rests = (
        ("soon after, it goes on where it was", interval // 2),
        ("after 12 intervals, it goes on where it was", 12 * interval),
        ("after 20 intervals, it begins anew", 20 * interval),
    )
    for name, rest in rests:
        trace = Trace().put(0, count=STANDING)
        for at in range(step, 5 * interval, step):
            trace.put(at - step // 2).take(at)
        begin = 5 * interval + rest
        trace.take_each([5 * interval] * (STANDING + 2)).put(begin, count=STANDING)
        for at in range(begin + step, begin + 4 * interval, step):
            trace.put(at - step // 2).take(at)
        found.ask(name, "RFC 8289 §5.5", trace, _spacing(begin, interval, step, soon=rest < 16 * interval))


def _spacing(begin: int, interval: int, step: int, *, soon: bool) -> Callable[[Sequence[Fate]], str | None]:
    def check(seen: Sequence[Fate]) -> str | None:
        hit = [fate.at for fate in _hit(seen) if fate.at > begin]
        if len(hit) < 2:
            return f"{len(hit)} drops after {begin} ns: expected more"
        between = hit[1] - hit[0]
        if soon and between > interval * 4 // 5:
            return (
                f"the second drop comes {between} ns after the first: expected sooner than an interval, {interval} ns"
            )
        if not soon and abs(between - interval) > 2 * step:
            return f"the second drop comes {between} ns after the first: expected an interval, {interval} ns"
        return None

    return check


# ---- flows ----


def _flows(found: Questions, line: Line) -> None:
    step = 1_000_000
    sparse = Trace().put(0, flow=1, count=100)
    for number in range(1, 60):
        sparse.take(number * step)
    sparse.put(20 * step + 1, flow=2)
    late = next(number for number, packet in enumerate(sparse.packets()) if packet.flow == 2)
    if line.kind in ("fq_codel", "fq"):
        found.ask("a new flow goes first", "RFC 8290 §4.2", sparse, lambda seen: _at(seen[late], 21 * step))

    fair = Trace().put(0, flow=1, count=40).put(0, flow=2, size=FULL // 3, count=120)
    fair.take_each(number * 1000 for number in range(1, 61))
    quantum = line.number("quantum") or FULL
    if line.kind != "fq":
        found.ask(
            "flows share bytes, not packets", "RFC 8290 §4.2", fair, lambda seen: _shares(fair, seen, 4 * quantum)
        )

    steady = Trace().put(0, flow=1, count=100)
    for number in range(1, 100):
        steady.put(number * step - 1000, flow=2).take(number * step)
    found.ask("who always has one packet starves nobody", "RFC 8290 §4.2", steady, lambda seen: _starves(steady, seen))


def _at(fate: Fate, due: int) -> str | None:
    return (
        None
        if fate.left and fate.at == due
        else f"packet {fate.number} is {fate.word} at {fate.at} ns: expected to leave at {due}"
    )


def _bytes(trace: Trace, seen: Sequence[Fate]) -> dict[int, int]:
    sent: dict[int, int] = {}
    for packet, fate in zip(trace.packets(), seen, strict=True):
        sent[packet.flow] = sent.get(packet.flow, 0) + (packet.size if fate.left else 0)
    return sent


def _shares(trace: Trace, seen: Sequence[Fate], apart: int) -> str | None:
    sent = _bytes(trace, seen)
    if abs(sent[1] - sent[2]) <= apart:
        return None
    return f"flow 1 sent {sent[1]} bytes, flow 2 {sent[2]}: expected at most {apart} between them"


def _starves(trace: Trace, seen: Sequence[Fate]) -> str | None:
    sent = _bytes(trace, seen)
    least = sum(sent.values()) // 3
    return (
        None if sent[1] >= least else f"flow 1 sent {sent[1]} of {sum(sent.values())} bytes: expected at least {least}"
    )
