"""Questions to schedulers and shapers: which flow's turn it is, which flow's packets a full queue drops, and how fast a
shaper sends.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.verify.questions import Line, Questions
from sojourn.verify.trace import FULL, MS, Fate, Trace

PER_FLOW = ("fq_codel", "fq", "sfq", "fq_pie", "ccaq", "cake")
SHAPERS = ("tbf", "htb")


def ask(found: Questions, line: Line) -> None:
    """Adds the questions that can be asked of this line."""
    if line.kind in PER_FLOW:
        if is_roomy(line):
            _turns(found, line)
        else:
            found.left_out.append(
                ("flows in turn", "needs queues for 100 packets of several flows, and CoDel's usual pace")
            )
    if line.kind == "fq_codel":
        _fattest(found, line)
    if line.kind == "pfifo_head_drop" and line.number("limit") <= 20_000:
        limit = line.number("limit")
        trace = Trace().put(0, count=limit + 3)
        found.ask("a full queue drops its oldest", "tc-pfifo_head_drop", trace, lambda seen: _oldest(seen, limit))
    if line.kind == "bfifo" and line.number("limit") <= 20_000 * FULL:
        _bytes_exactly(found, line.number("limit"))
    if line.kind == "prio":
        _bands(found, line)
    if line.kind == "cake":
        _tins(found, line)


def is_roomy(line: Line) -> bool:
    """Returns whether all limits leave room for a hundred packets of one flow and a few of another. Then scheduling
    alone decides the order.
    """
    least = {"limit": 220, "flow_limit": 100, "memory_limit": 1_000_000, "flows": 64, "target": 1_000_000}
    slow = line.values.get("maxrate") is not None or line.values.get("bandwidth") is not None
    # ns-2's sfq refuses a flow that holds half of the space that is left.
    small = line.kind == "sfq" and line.variant == "ns2"
    # In traces all flows go to one host.
    one_queue = line.kind == "cake" and not {"flowblind", "dsthost"}.isdisjoint(line.full.split())
    roomy = all(line.values.get(name) is None or line.number(name) >= low for name, low in least.items())
    return roomy and not slow and not small and not one_queue


def _turns(found: Questions, line: Line) -> None:
    step = MS
    sparse = Trace().put(0, flow=1, count=100)
    for number in range(1, 60):
        sparse.take(number * step)
    sparse.put(20 * step + 1, flow=2)
    late = next(number for number, packet in enumerate(sparse.packets()) if packet.flow == 2)
    if line.variant == "linux67":
        found.left_out.append(("a new flow goes first", "since Linux 6.7 it waits for the turn of its band"))
    elif line.kind in ("fq_codel", "fq", "fq_pie", "ccaq", "cake"):
        found.ask("a new flow goes first", "RFC 8290 §4.2", sparse, lambda seen: _at(seen[late], 21 * step))

    fair = Trace().put(0, flow=1, count=40).put(0, flow=2, size=FULL // 3, count=100)
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

    spent = Trace().put(0, flow=1, count=10).put(0, flow=2, count=10).put(0, flow=3, count=10)
    spent.take_each(number * 1000 for number in range(1, 31))
    if line.kind not in ("fq", "ccaq", "cake") and quantum == FULL:
        found.ask("a spent quantum sends behind the others", "RFC 8290 §4.2", spent, lambda seen: _round(spent, seen))


def _round(trace: Trace, seen: Sequence[Fate]) -> str | None:
    """Checks that every round has one packet of each of three flows, in any order."""
    pairs = zip(trace.packets(), seen, strict=True)
    order = [packet.flow for _, packet in sorted((fate.at, packet) for packet, fate in pairs if fate.left)]
    for number in range(0, 30, 3):
        if sorted(order[number : number + 3]) != [1, 2, 3]:
            return (
                f"departures {number} to {number + 2} are of the flows {order[number : number + 3]}: expected each once"
            )
    return None


def _fattest(found: Questions, line: Line) -> None:
    """Tests which packets a full queue drops. A packet of a thin flow exceeds the limit; then the longest flow must
    lose half its bytes, at most a batch of packets, from its head.
    """
    limit, batch = line.number("limit"), line.number("drop_batch") or 64
    if not 20 <= limit <= 20_000 or line.number("flows") < 64 or 0 < line.number("memory_limit") < limit * 2500:
        found.left_out.append(("the fattest flow pays", "needs a limit of 20 to 20000 packets, and memory for them"))
        return
    fat = limit - 10
    trace = Trace().put(0, flow=1, count=fat).put(0, flow=2, count=10).put(MS, flow=2)
    lost = min(batch, -(-fat // 2))

    def check(seen: Sequence[Fate]) -> str | None:
        dropped = [fate.number for fate in seen if fate.word == "dropped"]
        if dropped != list(range(lost)):
            return (
                f"packets {dropped[:5]}…, {len(dropped)} in all, are dropped: expected 0 to {lost - 1}, flow 1's oldest"
            )
        return None

    found.ask("the fattest flow pays, from its head, in a batch", "RFC 8290 §4.1.2", trace, check)


def _oldest(seen: Sequence[Fate], limit: int) -> str | None:
    for fate in seen:
        wanted = "dropped" if fate.number < len(seen) - limit else "queued"
        if fate.word != wanted:
            return f"packet {fate.number} of {len(seen)} with a limit of {limit} is {fate.word}: expected {wanted}"
    return None


def _bytes_exactly(found: Questions, limit: int) -> None:
    trace, room = Trace(), limit
    while room >= FULL:
        trace.put(0)
        room -= FULL
    expected = ["queued"] * (limit // FULL)
    for size in (room + 1, room, 1):
        if size:
            trace.put(0, size=size)
            expected.append("queued" if size == room else "dropped")

    def check(seen: Sequence[Fate]) -> str | None:
        for fate, wanted in zip(seen, expected, strict=True):
            if fate.word != wanted:
                return f"packet {fate.number} is {fate.word}: expected {wanted}, at a limit of {limit} bytes"
        return None

    found.ask("bytes that fit exactly are taken", "tc-bfifo", trace, check)


PRIORITIES = (0, 2, 6, 4)
"""Linux's priority of a packet, indexed by bits 3 and 4 of the octet that holds DSCP and ECN."""


def _bands(found: Questions, line: Line) -> None:
    words = line.full.split()
    bands = [int(word) for word in words[words.index("priomap") + 1 :][:16]]
    octets = (0x00, 0x08, 0x10, 0x18)
    trace = Trace()
    for octet in octets * 5:
        trace.put(0, flow=octet, ecn=octet)
    trace.take_each(number * 1000 for number in range(1, 21))

    def check(seen: Sequence[Fate]) -> str | None:
        pairs = zip(trace.packets(), seen, strict=True)
        order = [(bands[PRIORITIES[packet.ecn >> 3]], fate.at, fate.number) for packet, fate in pairs]
        for before, after in zip(sorted(order), sorted(order)[1:], strict=False):
            if after[1] <= before[1]:
                said = f"packet {after[2]} of band {after[0]} leaves at {after[1]} ns, packet {before[2]} of band"
                return f"{said} {before[0]} at {before[1]}: expected the other way round"
        return None

    found.ask("a lower band goes first, in order of arrival", "tc-prio", trace, check)


EF, CS1, CS0 = 46 << 2, 8 << 2, 0
"""The octet that holds DSCP and ECN: for calls, for lower effort, and for all other packets."""


def _tins(found: Questions, line: Line) -> None:
    """Tests one flow whose packets have two code points. Each code point has its own tin; with `besteffort`, all
    packets are in one queue.
    """
    apart = "besteffort" not in line.full.split()
    step = 10 * MS if line.values.get("bandwidth") else MS
    if 0 < line.number("bandwidth") < 2_000_000 or 0 < line.number("memlimit") < 1_000_000:
        found.left_out.append(("tins", "needs a bandwidth of 2 Mbit/s, and memory for 100 packets"))
        return
    call = Trace().put(0, ecn=CS1, count=100).take_each(range(step, 6 * step, step)).put(6 * step - 1, ecn=EF)
    call.take_each(range(6 * step, 200 * step, step))

    def passes(seen: Sequence[Fate]) -> str | None:
        late = sum(fate.at < seen[100].at for fate in seen[:100] if fate.left)
        if not seen[100].left:
            return f"packet 100, EF, is {seen[100].word}: expected it to leave"
        if apart == (late > 8):
            where = "in a tin of its own" if apart else "behind the others"
            return f"packet 100, EF, leaves after {late} of those that came before it: expected it {where}"
        return None

    name = "code points have tins of their own" if apart else "all code points share a tin"
    found.ask(name, "tc-cake(8)", call, passes)


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
