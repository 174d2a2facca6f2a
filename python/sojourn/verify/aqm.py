"""Questions to disciplines that drop at random: statements that hold for any random numbers, or within wide bounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from sojourn.verify.questions import (
    Check,
    Line,
    Questions,
    ask_of_marks,
    delays,
    drops_arrive,
    marks,
    none_dropped,
    share,
)
from sojourn.verify.trace import CE, ECT0, ECT1, FULL, MS, NOT_ECT, Fate, Packet, Trace

SECOND = 1_000 * MS
L4S = (ECT1, CE)


def ask(found: Questions, line: Line) -> None:
    """Adds the questions that can be asked of this line."""
    if line.kind in ("pie", "fq_pie"):
        _pie(found, line)
    if line.kind == "dualpi2":
        _dualpi2(found, line)
    if line.kind in ("red", "choke"):
        _red(found, line)
    if line.kind in ("choke", "sfb"):
        _unresponsive(found, line)
    if line.kind == "blue":
        _blue(found, line)


def offered(
    begin: int, end: int, percent: int, *, step: int = MS, ecn: Sequence[int] = (NOT_ECT,), flows: int = 1
) -> Trace:
    """Makes a trace with a load of `percent` of the link's rate from `begin` to `end`. The link dequeues a packet every
    `step` ns.
    """
    trace = Trace()
    for number in range((end - begin) * percent // 100 // step):
        at = begin + number * step * 100 // percent
        trace.put(at, flow=1 + number % flows, ecn=ecn[number % len(ecn)])
    return trace.take_each(range(begin + step - 1, end, step))


def joined(*traces: Trace) -> Trace:
    """Joins several traces into one."""
    return Trace([row for trace in traces for row in trace.rows])


def standing(begin: int, end: int, packets: int, *, step: int = MS, ecn: int = NOT_ECT, come: bool = True) -> Trace:
    """Makes a trace with a standing queue of `packets` packets: one packet arrives before each dequeue. Without `come`,
    the queue's packets do not arrive here; the trace before this one left them in the queue.
    """
    trace = Trace()
    if come:
        trace.put(begin, ecn=ecn, count=packets)
    for at in range(begin + step, end, step):
        trace.put(at - 1, ecn=ecn).take(at)
    return trace


# ---- PIE ----


def _pie(found: Questions, line: Line) -> None:
    target, limit = line.number("target"), line.number("limit")
    usual = target >= 15 * MS // 4 and limit >= 600 and line.number("flows") != 1
    if line.number("tupdate") != 15 * MS or (line.number("alpha"), line.number("beta")) != (2, 20) or not usual:
        found.left_out.append(("PIE's law", "needs a limit of 600, a target of 3.75 ms, and the gains of the RFC"))
        return
    lone = Trace()
    for number in range(100):
        lone.put(number * 100 * MS).take((number + 1) * 100 * MS + 1)
    found.ask("when hardly anything waits, nothing is dropped", "RFC 8033 §5.1", lone, none_dropped())

    burst = offered(0, 120 * MS, 300)
    found.ask("a burst of 150 ms passes", "RFC 8033 §4.4", burst, none_dropped(until=120 * MS))

    few = max(1, target * 2 // 5 // MS)
    found.ask(
        "below half the target nothing is dropped", "RFC 8033 §5.1", standing(0, 10 * SECOND, few), none_dropped()
    )

    load = offered(0, 20 * SECOND, 125)
    found.ask("it drops at the tail, what arrives", "RFC 8033 §4.1", load, drops_arrive(load))
    found.ask("an unresponsive load waits for about the target", "RFC 8033 §4.2", load, _settles(load, target))
    found.ask("it drops what the link can't take, not more", "RFC 8033 §4.2", load, _as_needed(load, 0.2))

    calm = Trace().take_each(range(20 * SECOND, 40 * SECOND, MS))
    again = joined(load, calm, offered(40 * SECOND, 40 * SECOND + 120 * MS, 300))
    after = none_dropped(after=40 * SECOND, until=40 * SECOND + 120 * MS)
    found.ask("after a calm time a burst passes again", "RFC 8033 §4.4", again, after)

    if line.variant == "rfc8033b":
        why = "appendix B begins at a third of the limit, where the probability is a tenth soon"
        found.left_out.append(("ECN-capable packets are marked while that is rare", why))
        return
    on = bool(line.values.get("ecn"))
    capable = offered(0, 20 * SECOND, 105, ecn=(ECT0, NOT_ECT))
    name = "ECN-capable packets are marked while that is rare"
    ask_of_marks(found, name, "RFC 8033 §5.1", capable, _first_signals(capable), on=on)
    if on:
        deep = offered(0, 20 * SECOND, 150, ecn=(ECT0,))
        found.ask("above a tenth ECN-capable packets are dropped too", "RFC 8033 §5.1", deep, _drops_in_the_end)


def _settles(trace: Trace, target: int) -> Check:
    def check(seen: Sequence[Fate]) -> str | None:
        found = delays(trace, seen, begin=10 * SECOND, end=20 * SECOND)
        middle = median(found) if found else 0
        if not target * 2 // 5 <= middle <= 2 * target:
            return f"half of the packets wait longer than {middle:.0f} ns: expected about {target}"
        return None

    return check


def _as_needed(trace: Trace, due: float) -> Check:
    def check(seen: Sequence[Fate]) -> str | None:
        lost = share(trace, seen, "dropped", lambda packet: packet.at >= 10 * SECOND)
        return None if abs(lost - due) <= 0.04 else f"{lost:.1%} are dropped: expected {due:.0%}, less than 4 % apart"

    return check


def _first_signals(trace: Trace) -> Check:
    """Picks the first ten arrivals that are marked or dropped. The probability is still small then."""

    def check(seen: Sequence[Fate]) -> str | None:
        return marks(trace)([fate for fate in seen if fate.word in ("marked", "dropped")][:10])

    return check


def _drops_in_the_end(seen: Sequence[Fate]) -> str | None:
    words = [fate.word for fate in seen]
    if words.count("marked") == 0:
        return "nothing is marked"
    late = [fate for fate in seen if fate.word == "dropped" and fate.at > 10 * SECOND]
    return None if late else "nothing is dropped after 10 s: expected a third of the arrivals"


# ---- DualQ ----


def _is_l4s(packet: Packet) -> bool:
    return packet.ecn in L4S


def _dualpi2(found: Questions, line: Line) -> None:
    both = Trace().put(0, flow=1, count=20).put(0, flow=2, ecn=ECT0, count=20)
    both.put(1, flow=3, ecn=ECT1, count=5).put(1, flow=4, ecn=CE, count=5)
    both.take_each(number * 1000 for number in range(1, 11))
    if line.values.get("any_ect"):
        found.left_out.append(("ECT(1) and CE go before the others", "with any_ect ECT(0) goes with them"))
    else:
        found.ask("ECT(1) and CE go before the others", "RFC 9331 §5.1", both, lambda seen: _l_first(both, seen))

    crowd = Trace().put(0, flow=1, count=100)
    for number in range(1, 1000):
        crowd.put(number * MS - 1, flow=2, ecn=ECT1).take(number * MS)
    found.ask("the classic queue does not starve", "RFC 9332 §2.5", crowd, lambda seen: _some_classic(crowd, seen))

    short = Trace()
    for number in range(1, 5000):
        short.put(number * MS, ecn=ECT1, size=100, count=3).take_each(number * MS + 100_000 * k for k in (1, 2, 3))
    if line.number("step_thresh") >= 500_000 or line.variant == "rfc9332":
        found.ask("an L queue of 0.3 ms is not marked", "RFC 9332 §A.1", short, none_dropped())

    ramp = standing(0, SECOND, 5, ecn=ECT1)
    words = line.full.split()
    step = words[words.index("step_thresh") + 1] if "step_thresh" in words else ""
    if not step.endswith("p") and line.number("step_thresh") <= 3 * MS and not line.number("min_qlen_step"):
        found.ask("an L queue of 5 ms is marked, not dropped", "RFC 9332 §2.5.1", ramp, _all_marked)
    _coupling(found, line)
    if line.values.get("drop_on_overload") is not False and (line.number("limit") or 10_000) >= 5000:
        flood = offered(0, 5 * SECOND, 400, ecn=(ECT0, ECT1))
        found.ask("in overload both kinds are dropped", "RFC 9332 §4.2", flood, lambda seen: _both_drop(flood, seen))


def _l_first(trace: Trace, seen: Sequence[Fate]) -> str | None:
    gone = [packet.ecn for packet, fate in zip(trace.packets(), seen, strict=True) if fate.left]
    first = sum(ecn in L4S for ecn in gone)
    return None if first >= 8 else f"of the first ten departures {first} are ECT(1) or CE: expected eight at least"


def _some_classic(trace: Trace, seen: Sequence[Fate]) -> str | None:
    sent = [packet.flow for packet, fate in zip(trace.packets(), seen, strict=True) if fate.left]
    classic = sent.count(1)
    if classic < 10:
        return f"{classic} of {len(sent)} departures are classic: expected ten at least"
    return None if classic < len(sent) // 2 else f"{classic} of {len(sent)} departures are classic: L goes first"


def _all_marked(seen: Sequence[Fate]) -> str | None:
    if any(fate.word == "dropped" for fate in seen):
        return "some are dropped: expected marks"
    late = [fate.word for fate in seen if fate.at > 100 * MS]
    marked = late.count("marked")
    return None if marked >= 0.95 * len(late) else f"{marked} of {len(late)} are marked: expected nearly all"


def _coupling(found: Questions, line: Line) -> None:
    """A queue of ECN-capable classic packets, which marks do not shorten, is above the target until the probability has
    grown, and then stays at the target. Meanwhile a few packets pass through the L queue."""
    target, k = line.number("target"), 2
    usual = line.values.get("alpha") is None and line.values.get("beta") is None and line.values.get("max_rtt") is None
    if target != 15 * MS or not usual or line.values.get("any_ect") or line.number("coupling_factor") not in (0, k):
        found.left_out.append(("the coupling", "needs a target of 15 ms, k = 2 and the gains of the RFC"))
        return
    step, raised, end = MS // 4, 1_500 * MS, 14 * SECOND
    high, level = 30 * MS // step, 15 * MS // step
    trace = Trace().put(0, ecn=ECT0, count=high)
    for number in range(1, end // step):
        at = number * step
        if number % 8 == 0 and at > raised:
            trace.put(at - 1, flow=2, ecn=ECT1)
        elif not raised < at <= raised + (high - level) * step * 8 // 7:
            trace.put(at - 1, ecn=ECT0)
        trace.take(at)
    begin = raised + 100 * MS

    def check(seen: Sequence[Fate]) -> str | None:
        classic = share(trace, seen, "marked", lambda packet: packet.flow == 1 and packet.at > begin)
        scalable = share(trace, seen, "marked", lambda packet: packet.flow == 2 and packet.at > begin)
        due = (scalable / k) ** 2
        if not 0.05 < scalable < 0.95:
            return f"{scalable:.1%} of L are marked while the classic queue stands: expected more than a few, not all"
        if not 0.7 * due <= classic <= 1.3 * due:
            return f"{classic:.2%} of C are marked, {scalable:.1%} of L: expected about {due:.2%} of C, (p_L / 2)²"
        return None

    found.ask("the classic probability is the square of half of L's", "RFC 9332 §2.1", trace, check)


def _both_drop(trace: Trace, seen: Sequence[Fate]) -> str | None:
    for name, which in (("ECT(0)", ECT0), ("ECT(1)", ECT1)):
        pairs = zip(trace.packets(), seen, strict=True)
        if not any(packet.ecn == which and fate.word == "dropped" and fate.at < SECOND for packet, fate in pairs):
            return f"no {name} is dropped in the first second, at four times what the link takes"
    return None


# ---- RED and CHOKe ----


def _red(found: Questions, line: Line) -> None:
    if line.variant == "ns2" and not (line.number("min") and line.number("max")):
        found.left_out.append(("RED's law", "ns-2's takes min and max from the link, unless the line says them"))
        return
    limit, top, low = _thresholds(line)
    if low < 3 or top < 3 * low // 2 or limit < 2 * top or limit > 10_000:
        found.left_out.append(("RED's law", "needs a min of three packets, a max of 1.5 min, a limit of 2 max"))
        return
    seconds = 5 + 40 * top * MS // SECOND
    calm = standing(0, seconds * SECOND, low - 1)
    found.ask("below min nothing is dropped", "RFC 2309 §3, RED 1993", calm, none_dropped())
    # Every flow has one packet at most in the queue, so that CHOKe never finds a packet of the same flow.
    burst = Trace()
    for number in range(low):
        burst.put(SECOND, flow=number)
    found.ask("a burst of min packets passes an idle queue", "RFC 2309 §3", burst, none_dropped())
    if not line.values.get("nodrop"):
        forgets = _after_idleness(line, limit, low)
        found.ask("while the queue is idle the average decays", "RED 1993 §4", *forgets)
    load = offered(0, seconds * SECOND, 200, flows=100_000)
    half = seconds * SECOND // 2
    found.ask("it drops what arrives", "RED 1993", load, drops_arrive(load))
    if not line.values.get("nodrop"):
        found.ask(
            "an unresponsive load is held between min and max",
            "RFC 7567 §4.1",
            load,
            # ns-2's is gentle: not all are dropped below twice the max.
            _held(load, half, low, (9 if line.values.get("gentle") and line.variant == "ns2" else 5) * top // 4),
        )
    capable = offered(0, seconds * SECOND, 130, ecn=(ECT0, NOT_ECT), flows=100_000)
    on = bool(line.values.get("ecn"))
    if not line.values.get("harddrop") and not line.values.get("nodrop"):
        # Above the limit all packets are dropped, which is asked before.
        ask_of_marks(found, "ECN-capable packets are marked", "RFC 3168 §5", capable, _first_signals(capable), on=on)


def _after_idleness(line: Line, limit: int, low: int) -> tuple[Trace, Check]:
    """Tests that the average decays while the queue is idle. A flood lifts the average above max; then there is time to
    send all of it, and an idle time. No packet of the burst that follows may be dropped.

    Without arrivals, only the idle time lowers the average. It decays as if the link had sent packets all the time (in
    Linux, packets of `avpkt` bytes at `bandwidth`).
    """
    packet = (line.number("avpkt") or 1000) * 8 * SECOND // (line.number("bandwidth") or 10_000_000)
    # With a weight of 2^-10, at most e^-20 of the average is left.
    idle = max(20 * 1024 * packet, 20 * SECOND)
    trace = Trace()
    for number in range(8192):
        trace.put(0, flow=number)
    drained = (limit + 10) * MS
    trace.take_each(range(MS, drained, MS))
    for number in range(low):
        trace.put(drained + idle, flow=number)
    return trace, none_dropped(after=drained)


def _thresholds(line: Line) -> tuple[int, int, int]:
    """Returns limit, max and min in full packets."""
    limit, top, low = line.number("limit"), line.number("max"), line.number("min")
    if line.variant == "ns2":
        # Its average counts mean packets, by their bytes.
        unit = (line.number("avpkt") or 500) if line.values.get("bytes") else FULL
        return limit, top * unit // FULL, low * unit // FULL
    unit = FULL if line.kind == "red" else 1
    return limit // unit, (top or limit // 4) // unit, (low or top // 3 or limit // 12) // unit


def _held(trace: Trace, begin: int, low: int, top: int) -> Check:
    def check(seen: Sequence[Fate]) -> str | None:
        found = delays(trace, seen, begin=begin, end=1 << 62)
        packets = median(found) / MS if found else 0
        if not low * 0.8 <= packets <= top:
            return f"half of the time more than {packets:.0f} packets wait: expected {low} to {top}"
        return None

    return check


def _unresponsive(found: Questions, line: Line) -> None:
    """Tests an unresponsive flow, which sends as much as twenty others together. The load is one and a half times the
    link's rate.
    """
    if line.number("limit") < 100 or line.number("max") > line.number("limit") // 2:
        found.left_out.append(("an unresponsive flow", "needs a limit of 100 packets, and a max of half of it"))
        return
    trace = Trace()
    for number in range(30_000):
        trace.put(number * MS * 2 // 3, flow=1 if number % 2 else 2 + number // 2 % 20)
    trace.take_each(range(MS, 20 * SECOND, MS))

    def check(seen: Sequence[Fate]) -> str | None:
        lost = share(trace, seen, "dropped", lambda packet: packet.flow == 1)
        others = share(trace, seen, "dropped", lambda packet: packet.flow != 1)
        if lost < 1.5 * others:
            return f"it loses {lost:.1%}, the others {others:.1%}: expected it to lose far more"
        return None

    source = "CHOKe 2000" if line.kind == "choke" else "SFB 2001"
    found.ask("a flow that fills the queue loses more than the others", source, trace, check)


def _blue(found: Questions, line: Line) -> None:
    limit = line.number("limit")
    if not 20 <= limit <= 2000 or line.number("freeze_time") > SECOND:
        found.left_out.append(("BLUE's law", "needs a limit of 20 to 2000 packets, and a freeze time of up to 1 s"))
        return
    calm = standing(0, 5 * SECOND, limit - 2)
    found.ask("a queue that never overflows loses nothing", "BLUE 2002 §3", calm, none_dropped())
    load = offered(0, 60 * SECOND, 125)
    found.ask("it drops what arrives", "BLUE 2002 §3", load, drops_arrive(load))

    def check(seen: Sequence[Fate]) -> str | None:
        waits = delays(load, seen, begin=30 * SECOND, end=60 * SECOND)
        below = sum(wait < (limit - 1) * MS for wait in waits)
        return None if below > len(waits) // 2 else "the queue stays full: expected drops before that, after overflows"

    found.ask("after overflows it drops before the queue is full", "BLUE 2002 §3", load, check)
