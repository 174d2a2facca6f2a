"""Named questions to a discipline: a trace that tests one statement of an RFC, and the fates that it must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sojourn.verify import aqm, flows
from sojourn.verify.questions import Line, Questions, ask_of_marks, marks, none_dropped, signals, tail
from sojourn.verify.trace import ECT0, NOT_ECT, Fate, Trace

STANDING = 60
"""The number of packets in the standing queue of CoDel's questions. A hundred packets depart in each interval."""
STEPS = 100
TAILS = ("pfifo", "codel", "blue")
"""Disciplines that drop an arriving packet at `limit`. They drop no other packet before the queue is that long."""
LAWS = {
    "rfc8289": (0.0, 1.0, 1.7071, 2.2845, 2.7845, 3.2317, 3.6399, 4.0179, 4.3714, 4.7048),
    "linux": (0.0, 1.0, 1.5, 2.0625, 2.5503, 2.9918, 3.3959, 3.7711, 4.1226, 4.4544),
}
"""Times of the drops after the first one, in intervals. RFC 8289 computes exact square roots; Linux takes one Newton
step at each drop.
"""


def of(line: Line) -> Questions:
    """Returns the questions to this line."""
    found = Questions()
    if line.kind in ("codel", "fq_codel"):
        _codel(found, line)
    flows.ask(found, line)
    aqm.ask(found, line)
    if line.kind in TAILS and 0 < (limit := line.number("limit")) <= 20_000:
        trace = Trace().put(0, count=limit + 3)
        found.ask("a full queue drops what arrives", "RFC 8289 §5.4", trace, lambda seen: tail(seen, limit))
    return found


def _codel(found: Questions, line: Line) -> None:
    target, interval, limit = line.number("target"), line.number("interval"), line.number("limit")
    if not interval // STEPS < target <= interval * 2 // 5 or limit < 2 * STANDING:
        found.left_out.append(
            ("CoDel's law", f"needs a limit of {2 * STANDING}, and a target of 1 to 40 % of the interval")
        )
        return
    step = interval // STEPS
    asks = [step * number for number in range(1, 6 * STEPS)]

    below = Trace()
    for at in asks:
        below.put(at).take(at + target * 4 // 5)
    found.ask("below target nothing is dropped", "RFC 8289 §5.6", below, none_dropped())

    alone = Trace()
    for number in range(60):
        alone.put(number * interval // 3).take(number * interval // 3 + interval // 4)
    found.ask("a queue of one packet is left alone", "RFC 8289 §4.1", alone, none_dropped())

    pair = Trace().put(0, size=1000)
    for number in range(80):
        pair.put(number * interval // 4, size=1000).take((number + 1) * interval // 4)
    found.ask("one MTU behind the head is left alone", "RFC 8289 §4.1", pair, none_dropped())

    bursts = Trace()
    for burst in range(5):
        begin = 2 * burst * interval
        bursts.put(begin, count=50).take_each(begin + interval * 9 * number // 500 for number in range(1, 52))
    found.ask("a burst that drains within an interval loses nothing", "RFC 8289 §4", bursts, none_dropped())

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
    exact = line.variant in ("rfc8289", "rfc8290", "ns2")
    law = LAWS["rfc8289" if exact else "linux"]
    found.ask(
        "drops follow by the control law" + ("" if exact else ", with Linux's square root"),
        "RFC 8289 §5.5" if exact else "Linux codel_impl.h",
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
        "after its drops too a queue of one packet is left alone", "RFC 8289 §4.1", after, none_dropped(after=calm)
    )
    _reset(found, target, interval, step)
    _again(found, interval, step, ns2=line.variant == "ns2")
    marking = Trace().put(0, count=STANDING, ecn=ECT0)
    for number, at in enumerate(asks):
        marking.put(at - step // 2, ecn=ECT0 if number % 2 else NOT_ECT).take(at)
    name = "ECN-capable packets are marked, all others are dropped"
    ask_of_marks(found, name, "RFC 8289 §3", marking, marks(marking), on=bool(line.values.get("ecn")))


def _first(seen: Sequence[Fate], due: int, step: int) -> str | None:
    hit = signals(seen)
    if not hit:
        return f"nothing is dropped: expected the first drop at {due} ns"
    if not due <= hit[0].at <= due + step:
        return f"the first drop is at {hit[0].at} ns: expected {due} to {due + step}"
    return None


def _law(seen: Sequence[Fate], law: Sequence[float], interval: int, step: int) -> str | None:
    hit = signals(seen)
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


def _reset(found: Questions, target: int, interval: int, step: int) -> None:
    """Tests what resets the interval: shortly before it is over, the delay falls below target for one packet, or the
    queue becomes empty. Then no packet may be dropped for another interval.
    """
    for name, extra in (("one packet below target", 0), ("an empty queue", 1)):
        trace = Trace().put(0, count=STANDING)
        fresh = STEPS * 9 // 10 * step
        for at in range(step, fresh, step):
            trace.put(at - step // 2).take(at)
        trace.put(fresh - step // 2).take_each([fresh] * (STANDING + extra)).put(fresh + 1, count=STANDING)
        for at in range(fresh + step, 3 * interval, step):
            trace.put(at - step // 2).take(at)
        found.ask(f"{name} begins the interval anew", "RFC 8289 §5.6", trace, none_dropped(until=fresh + interval))


def _again(found: Questions, interval: int, step: int, *, ns2: bool) -> None:
    """Tests a second period above the target, which follows the first soon or late. Only if it follows soon, the rate
    of drops continues where it was.
    """
    rests = (
        ("soon after, it goes on where it was", interval // 2),
        ("after 12 intervals, it goes on where it was", 12 * interval),
        ("after 20 intervals, it begins anew", 20 * interval),
    )
    for name, rest in rests:
        if ns2 and rest == 12 * interval:
            found.left_out.append((name, "ns-2's module goes on where it was within 8 intervals only"))
            continue
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
        hit = [fate.at for fate in signals(seen) if fate.at > begin]
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


def _several(seen: Sequence[Fate]) -> str | None:
    times = [fate.at for fate in signals(seen)]
    return (
        None
        if len(set(times)) < len(times)
        else "never are two packets dropped at one time: expected several to be due"
    )
