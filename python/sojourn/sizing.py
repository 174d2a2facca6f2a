"""The size of a link's buffer: what rules of thumb say, and what runs find at each size.

A plan with a FIFO of each size at one hop is made from a scenario (`plan_of`). Its results are judged by conditions on
measures (`Want`): a size meets a condition if the whole 95 % interval over the seeds does. One seed of random traffic
has no interval, so it leaves every condition open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sojourn import _core, identity, means, measures, queues
from sojourn.cases import Address, Values
from sojourn.errors import Refusal, nearest_of
from sojourn.line import constant_bps, seconds_of
from sojourn.means import MOST_SEEDS, Mean
from sojourn.results import Results
from sojourn.words import number_text, percent_text, quantity, size_text

PACKET_BYTES = 1514
"""A full segment on Ethernet. No size of the grid is smaller than two of them."""
PER_OCTAVE = 2
"""Sizes between a size and its double, in the default grid."""
SMALLEST, LARGEST = 1 / 64, 4.0
"""The ends of the default grid, in BDP."""

# ---- rules of thumb ----


@dataclass(frozen=True)
class Rule:
    """A rule for the size of a buffer."""

    name: str
    bytes: float
    source: str


def rules(bdp_bytes: float, flows: int, beta: float = 0.7) -> list[Rule]:
    """Returns what the rules say for a link of this bandwidth-delay product with `flows` long flows at a time.

    `beta` is the factor by which a loss reduces the window: 0.7 for CUBIC (RFC 9438), 0.5 for Reno (RFC 5681).
    """
    root = math.sqrt(max(flows, 1))
    deficit = 1 / beta - 1
    return [
        Rule("BDP", bdp_bytes, "Villamizar and Song, High Performance TCP in ANSNET, 1994"),
        Rule("BDP / √n", bdp_bytes / root, "Appenzeller, Keslassy and McKeown, Sizing router buffers, 2004"),
        Rule("BDP / 16", bdp_bytes / 16, "Speidel and Qian, APNIC blog, 2018"),
        Rule(
            "BDP (1/β - 1) / √n",
            bdp_bytes * deficit / root,
            "Spang, Arslan and McKeown, Updating the theory of buffer sizing, 2021",
        ),
    ]


# ---- conditions ----

WANT = re.compile(r"\s*(?P<measure>\S+)\s*(?P<sign><=|>=)\s*(?P<bound>[-+0-9.eE]+)\s*")
Answer = Literal["yes", "no", "open"]
"""Whether a size meets a condition. `open`: the interval over the seeds contains the bound, a seed has no value, or
there is only one seed of random traffic.
"""


@dataclass(frozen=True)
class Want:
    """A condition on a measure, such as `nonempty_max_s <= 5`."""

    text: str
    address: str
    """The measure's address, with its queue."""
    at_most: bool
    bound: float

    def answer(self, mean: Mean | None, seeds: int, *, random: bool = True) -> Answer:
        """Whether a mean over `seeds` seeds meets the condition. `random`: whether the numbers depend on the seed."""
        if mean is None or mean.count < seeds or (random and mean.half_width is None):
            return "open"
        margin = mean.half_width or 0.0
        inside = mean.value + margin <= self.bound if self.at_most else mean.value - margin >= self.bound
        outside = mean.value - margin > self.bound if self.at_most else mean.value + margin < self.bound
        return "yes" if inside else "no" if outside else "open"


NO_STANDING_QUEUE = ("no standing queue", "nonempty_max_s <= 5")
"""Words of an operator, and the condition that they mean: the queue is empty at least every 5 s (Speidel and Qian)."""
ABOVE = re.compile(r"(?P<what>.+?)\s+above\s+(?P<rate>[\d.]+\s*[kMG]?bit)(/s)?", re.IGNORECASE)
"""The rate of a transfer, in words: `40 MB above 2 Mbit/s`, or `probe above 2mbit` with a flow's name."""
ALIKE = 0.05
"""By which share the size of a transfer in words may differ from that of the flow: kB has 1000 or 1024 bytes."""


def want_of(text: str, hop: str, about: Mapping[str, Any], scenario: Mapping[str, Any]) -> Want:
    """Reads a condition. `about` is the description of a run (`Plan.describe`), and `scenario` its tables.

    Raises Refusal for anything but MEASURE, `<=` or `>=`, and a number, or known words, and for a measure that no run
    has.
    """
    found = WANT.fullmatch(_meaning(text, scenario))
    try:
        bound = float(found["bound"]) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not math.isfinite(bound):
        raise Refusal(
            f"--want = {text!r}: expected MEASURE <= NUMBER or MEASURE >= NUMBER, as in nonempty_max_s <= 5, or words: "
            "'no standing queue', '40 MB above 2 Mbit/s'"
        )
    flows = {one["name"]: one["kind"] for one in about["flows"]}
    address = measures.full(found["measure"], hop)
    hops = [one["name"] for one in about["hops"]]
    measures.refuse_unknown(address, measures.known(hops, flows), flows, "--want")
    want = Want(text.strip(), address, found["sign"] == "<=", bound)
    window_s = _window_s(about, scenario)
    if address.endswith(".nonempty_max_s") and want.at_most and window_s <= bound:
        raise Refusal(
            f"--want = {text!r}: every queue meets this, as {number_text(window_s)} s are measured: expected a window "
            f"of more than {number_text(bound)} s, as with --set duration=60s"
        )
    return want


def _window_s(about: Mapping[str, Any], scenario: Mapping[str, Any]) -> float:
    """Returns the length of the measuring window."""
    begin, end = scenario.get("measure", ("0s", "end"))
    duration_s = float(about["duration_s"])
    return (duration_s if end == "end" else seconds_of(str(end)) or duration_s) - (seconds_of(str(begin)) or 0.0)


def _meaning(text: str, scenario: Mapping[str, Any]) -> str:
    """Returns the condition that words mean. Other text is returned as it is."""
    if " ".join(text.lower().split()) == NO_STANDING_QUEUE[0]:
        return NO_STANDING_QUEUE[1]
    found = ABOVE.fullmatch(text.strip())
    rate = quantity(found["rate"].replace(" ", "")) if found else None
    if found is None or rate is None:
        return text
    named = {flow["name"]: quantity(flow["size"]) for flow in scenario["flow"] if "size" in flow}
    sizes = {name: one.value for name, one in named.items() if one is not None}
    asked = quantity(found["what"].replace(" ", ""))
    names = [name for name, size in sizes.items() if asked and abs(size - asked.value) <= ALIKE * size]
    name = next(iter(names), found["what"].strip())
    if name in sizes:
        return f"flows.{name}.fct_s.mean <= {sizes[name] * 8 / (rate.value * 1e6):g}"
    if name in [flow["name"] for flow in scenario["flow"]]:
        return f"flows.{name}.goodput_mbit >= {rate.value:g}"
    known = ", ".join(f"{name} ({size_text(size)})" for name, size in sizes.items()) or "none"
    raise Refusal(
        f"--want = {text!r}: no flow transfers {found['what']}: expected the name or the size of one: {known}"
    )


# ---- the link and its sizes ----


@dataclass(frozen=True)
class Link:
    """The link whose buffer is asked for."""

    hop: str
    rate_bps: float
    rtt_s: float
    """The longest base RTT."""
    flows: int
    """Long flows at a time."""

    @property
    def rules(self) -> list[Rule]:
        """The sizes that the rules of thumb say."""
        return rules(self.bdp_bytes, self.flows)

    @property
    def bdp_bytes(self) -> float:
        """The bandwidth-delay product."""
        return self.rate_bps * self.rtt_s / 8


def link_of(plan: _core.Plan, hop: str | None, flows: int | None) -> Link:
    """Returns the link of a hop, or of the only hop with a constant rate that is the slowest.

    Raises Refusal for an unknown hop, and for one whose rate changes: it has no BDP.
    """
    about = plan.describe(0)
    rates = {one["name"]: one["rate"] for one in about["hops"]}
    if hop is not None and hop not in rates:
        raise Refusal(f"--hop = {hop}: expected one of {', '.join(rates)}{nearest_of(hop, list(rates))}")
    known = {name: bps for name, rate in rates.items() if (bps := constant_bps(rate))}
    if hop is None:
        forward = {name: rate for name, rate in known.items() if not name.endswith(queues.REVERSE)}
        hop = min(forward or known, key=lambda name: known[name], default=None)
    if hop is None or hop not in known:
        raise Refusal(f"--hop = {hop or next(iter(rates))}: its rate changes, so that it has no BDP")
    if flows is None:
        flows = long_flows(identity.resolved(identity.document_of_plan(plan), plan.runs[0]["set"]), about)
    return Link(hop, known[hop], about["longest_rtt_ms"] / 1000, flows)


def long_flows(scenario: Mapping[str, Any], about: Mapping[str, Any]) -> int:
    """Counts the flows that send at a time: groups by their limits, bulk flows and downloads one by one."""
    groups = sum(int(one.get("max_active", 0)) for one in scenario.get("group", []))
    single = sum(int(one["count"]) for one in about["flows"] if one["kind"] in ("bulk", "download", "upload"))
    return max(1, groups + single)


def limits(link: Link, asked: str | None = None) -> list[int]:
    """Returns the sizes to play, in bytes: those that are asked for, or a grid with what the rules say.

    `asked` is a list such as `60kB,120kB,1bdp`. Raises Refusal for anything else, and for less than a packet.
    """
    if asked is not None:
        return sorted({_size(link, word.strip()) for word in asked.split(",")})
    steps = range(round(math.log2(LARGEST / SMALLEST) * PER_OCTAVE) + 1)
    wanted = [link.bdp_bytes * SMALLEST * 2 ** (step / PER_OCTAVE) for step in steps]
    wanted += [rule.bytes for rule in link.rules]
    return sorted({rounded(size) for size in wanted if size >= 2 * PACKET_BYTES})


SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|kB|MB|GB|bdp|)", re.IGNORECASE)


def _size(link: Link, word: str) -> int:
    found = SIZE.fullmatch(word)
    units = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "bdp": link.bdp_bytes}
    size = float(found["number"]) * units[found["unit"].lower()] if found else 0.0
    if not PACKET_BYTES <= size < 2**32:
        raise Refusal(f"--sizes: {word!r}: expected a size from {PACKET_BYTES} bytes on, such as 120kB or 0.5bdp")
    return int(size)


def rounded(size: float) -> int:
    """Rounds a size to two digits, as a person would write it."""
    digits = max(0, math.floor(math.log10(size)) - 1)
    return int(round(size, -digits))


def plan_of(
    plan: _core.Plan,
    link: Link,
    limits: Sequence[int],
    *,
    sets: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
    seeds: int | None = None,
) -> _core.Plan:
    """Returns a plan with a FIFO of each size in bytes at the link, instead of the scenario's own sweep.

    `sets`, `seed` and `seeds` are those with which `plan` was read.
    """
    scenario = identity.document_of_plan(plan)
    scenario["sweep"] = {queues.qdisc_key(link.hop): [f"bfifo limit {limit}" for limit in limits]}
    text, names = _core.to_toml(scenario), plan.outside_names
    return _core.Plan.parse(text, plan.file, list(sets), seed, seeds, lines=False, outside=names)


# ---- what runs find ----

ENOUGH = 0.98
"""The share of the greatest goodput from which a size is said to cost no throughput."""
BUSY_SHARE = 0.9
"""A size that keeps the link busy for less than this share of what another size does is warned about."""
FIRST_SEEDS = 20
"""The number of seeds that is advised after one seed."""


@dataclass(frozen=True)
class Size:
    """A size of the buffer, and what the runs with it found."""

    bytes: int
    bdp: float
    """In bandwidth-delay products."""
    rules: tuple[str, ...]
    """The rules that say this size."""
    measures: Mapping[str, Mean | None]
    """The mean of each measure over the seeds, by address."""
    answers: Mapping[str, Answer]
    """The answer to each condition, by its text."""
    share: Mean | None = None
    """The goodput divided by that of the size with the greatest, seed by seed."""

    @property
    def meets(self) -> Answer:
        """Whether the size meets all conditions."""
        found = set(self.answers.values())
        return "no" if "no" in found else "open" if "open" in found else "yes"


@dataclass(frozen=True)
class Found:
    """The sizes of a link's buffer, from the smallest."""

    link: Link
    wants: tuple[Want, ...]
    sizes: tuple[Size, ...]
    seeds: int = 1
    """The number of seeds of every size."""
    random: bool = True
    """Whether the numbers depend on the seed."""

    @property
    def is_open(self) -> bool:
        """Whether nothing can be shown, because there is one seed of random traffic."""
        return self.random and self.seeds < 2

    @property
    def region(self) -> list[Size]:
        """The longest run of neighbouring sizes that meet all conditions."""
        return _longest(self.sizes, lambda one: one.meets == "yes")

    @property
    def open_region(self) -> list[Size]:
        """The longest run of neighbouring sizes whose means meet all conditions, although that is not shown."""
        return _longest(self.sizes, lambda one: one.meets == "open" and self._seems_to_meet(one))

    def _seems_to_meet(self, one: Size) -> bool:
        for want in self.wants:
            mean = one.measures.get(want.address)
            if mean is None or not (mean.value <= want.bound if want.at_most else mean.value >= want.bound):
                return False
        return True

    @property
    def chosen(self) -> Size | None:
        """The size in the middle of the region, or of its part that keeps the link busy if there is one. Without
        conditions, the smallest that is shown to cost no throughput; with one seed, that costs none in its run.
        """
        if self.wants:
            most = max((self._busy(one) or 0.0 for one in self.sizes), default=0.0)
            busy = [one for one in self.region if (self._busy(one) or 0.0) >= BUSY_SHARE * most]
            among = busy or self.region
            return among[(len(among) - 1) // 2] if among else None
        return next((one for one in self.sizes if one.share and _least(one.share) >= ENOUGH), None)

    @property
    def more_seeds(self) -> int | None:
        """The number of seeds that would decide about some size that is open: `FIRST_SEEDS` after one seed, and
        otherwise an estimate from the spread. None if no number up to `MOST_SEEDS` would.
        """
        if self.is_open:
            return FIRST_SEEDS
        found = []
        for one in self.open_region or [size for size in self.sizes if size.meets == "open"]:
            needed = [FIRST_SEEDS]
            for want in self.wants:
                mean = one.measures.get(want.address)
                if one.answers[want.text] != "open" or mean is None:
                    continue
                needed.append(means.seeds_for(abs(mean.value - want.bound), mean) or MOST_SEEDS + 1)
            found.append(max(needed))
        least = min(found, default=MOST_SEEDS + 1)
        return max(least, self.seeds + 1) if least <= MOST_SEEDS else None

    @property
    def idle(self) -> str:
        """A warning if the chosen size, or one that is open, leaves the link idle that another size keeps busy."""
        shown = [self.chosen] if self.chosen else self.open_region
        of_all = [one for one in self.sizes if self._busy(one) is not None]
        if not shown or not of_all:
            return ""
        best = max(of_all, key=lambda one: self._busy(one) or 0.0)
        worst = min(shown, key=lambda one: self._busy(one) or 0.0)
        busy, most = self._busy(worst) or 0.0, self._busy(best) or 0.0
        if busy >= BUSY_SHARE * most:
            return ""
        return (
            f"Warning: with {size_text(worst.bytes)} the link is busy only {percent_text(busy, 2)} of the time, with "
            f"{size_text(best.bytes)} {percent_text(most, 2)}. To ask for throughput too, add "
            f"--want 'utilisation >= {BUSY_SHARE * most:.2g}'."
        )

    def _busy(self, one: Size) -> float | None:
        mean = one.measures.get(f"hops.{self.link.hop}.utilisation")
        return mean.value if mean else None


def _longest(sizes: Sequence[Size], chosen: Callable[[Size], bool]) -> list[Size]:
    """Returns the longest run of neighbouring sizes of which a condition is true."""
    best: list[Size] = []
    now: list[Size] = []
    for one in sizes:
        now = [*now, one] if chosen(one) else []
        best = now if len(now) > len(best) else best
    return best


def _least(mean: Mean) -> float:
    """Returns the lower end of a mean's interval."""
    return mean.value - (mean.half_width or 0.0)


GOODPUT = "goodput_mbit"
OF_QUEUE = (
    "utilisation",
    "sojourn_ms.p95",
    "standing_queue_ms.p50",
    "nonempty_max_s",
    "empty_fraction",
    "full_fraction",
    "oscillation_s",
    "drops",
)
"""The measures of the queue that are shown."""
OF_FLOWS = ("fct_s.p50", "fct_s.p95")
"""The measures of the flows that are shown, of those that have them."""


def judge(results: Results, link: Link, limits: Sequence[int], wants: Sequence[Want]) -> Found:
    """Judges the results of `plan_of`."""
    addresses = [GOODPUT, *(f"hops.{link.hop}.{path}" for path in OF_QUEUE), *(one.address for one in wants)]
    found_means = results.means(list(dict.fromkeys(addresses)), OF_FLOWS)
    shares = _shares(results.values([Address(GOODPUT)])[Address(GOODPUT)])
    seeds = max(len(one.indices) for one in results.combinations)
    found = []
    for place, (limit, one) in enumerate(zip(limits, results.combinations, strict=True)):
        own = {address: values[place] for address, values in found_means.items()}
        answers = {want.text: want.answer(own[want.address], len(one.indices), random=results.random) for want in wants}
        named = tuple(rule.name for rule in link.rules if rounded(rule.bytes) == limit)
        found.append(Size(limit, limit / link.bdp_bytes, named, own, answers, shares[place]))
    return Found(link, tuple(wants), tuple(found), seeds, results.random)


def _shares(goodputs: Values) -> list[Mean | None]:
    """Returns each size's goodput divided by that of the size with the greatest mean, seed by seed."""
    known = [means.mean_of(one) for one in goodputs]
    best = max(range(len(known)), key=lambda at: one.value if (one := known[at]) else 0.0)
    return [
        means.mean_of([a / b if a is not None and b else None for a, b in zip(one, goodputs[best], strict=True)])
        for one in goodputs
    ]


def repeats(found: Found, address: str) -> bool:
    """Returns whether a 95th percentile equals the median at every size, as it does for a single transfer."""
    flow, _, path = address.rpartition(".fct_s.")
    other = f"{flow}.fct_s.p50"
    return path == "p95" and all(one.measures[address] == one.measures[other] for one in found.sizes)


def headline(found: Found) -> str:
    """Says in a sentence or two which size to set, and why."""
    link, region, chosen = found.link, found.region, found.chosen
    about = f"{size_text(link.bdp_bytes)} are a BDP of {link.hop}."
    warned = f" {found.idle}" if found.idle else ""
    if not found.wants:
        if chosen is None:
            return f"No packet passed. {about}"
        enough = f"at least {percent_text(ENOUGH)} of the greatest goodput"
        if found.is_open:
            return (
                "No size is shown to be enough: one seed has no interval. In this run "
                f"{_named(chosen)} is the smallest buffer with {enough}: use --seeds {FIRST_SEEDS}. {about}"
            )
        said = f"{_named(chosen)} is the smallest buffer " + ("shown to have " if found.random else "with ") + enough
        return f"{said}. {about}"
    if region and chosen is not None:
        verb = "meets" if len(region) == 1 else "meet"
        return f"{_ends(region)} {verb} all that is wanted: set {size_text(chosen.bytes)}. {about}{warned}"
    if any(one.meets == "open" for one in found.sizes):
        return f"{_nothing_shown(found)} {about}{warned}"
    met = {want.text: [one for one in found.sizes if one.answers[want.text] == "yes"] for want in found.wants}
    parts = [f"{text}: {_range(sizes)}" for text, sizes in met.items()]
    return f"No size meets all that is wanted ({'; '.join(parts)}). {about}"


def _nothing_shown(found: Found) -> str:
    """Says which sizes are open, and which number of seeds would decide."""
    more = found.more_seeds
    seeds = f"use --seeds {more}" if more else f"no number of seeds up to {MOST_SEEDS} is likely to decide"
    why = ": one seed has no interval" if found.is_open else ""
    said = f"No size is shown to meet all that is wanted{why}."
    if not found.open_region:
        run = "in this run" if found.is_open else "on average"
        return f"{said} None does so {run}, but some are open: {seeds}."
    does, is_open = ("does", "is open") if len(found.open_region) == 1 else ("do", "are open")
    where = "in this run" if found.is_open else "on average"
    return f"{said} {_ends(found.open_region)} {does} so {where}, and {is_open}: {seeds}."


def _ends(region: Sequence[Size]) -> str:
    """Names neighbouring sizes by the first and the last."""
    return _named(region[0]) if len(region) == 1 else f"{size_text(region[0].bytes)} to {_named(region[-1])}"


def _named(size: Size) -> str:
    return f"{size_text(size.bytes)} ({number_text(size.bdp, 2)} BDP)"


def _range(found: Sequence[Size]) -> str:
    if not found:
        return "no size"
    if len(found) == 1:
        return size_text(found[0].bytes)
    return f"{size_text(found[0].bytes)} to {size_text(found[-1].bytes)}"


def table(found: Found) -> tuple[list[str], list[list[object]]]:
    """Returns the heads and the rows of all sizes with every measure, for CSV."""
    addresses = list(found.sizes[0].measures)
    heads = ["bytes", "bdp", "rules", *(name for one in addresses for name in (one, f"{one}.half_width"))]
    rows: list[list[object]] = []
    for one in found.sizes:
        row: list[object] = [one.bytes, one.bdp, "; ".join(one.rules)]
        for address in addresses:
            mean = one.measures[address]
            row += (None, None) if mean is None else (mean.value, mean.half_width)
        rows.append([*row, *one.answers.values()])
    return [*heads, *(want.text for want in found.wants)], rows


def as_dict(found: Found) -> dict[str, Any]:
    """Returns the sizes with everything, for JSON."""
    link = found.link

    return {
        "hop": link.hop,
        "rate_mbit": link.rate_bps / 1e6,
        "rtt_ms": link.rtt_s * 1000,
        "bdp_bytes": link.bdp_bytes,
        "flows": link.flows,
        "rules": [{"name": rule.name, "bytes": rule.bytes, "source": rule.source} for rule in link.rules],
        "sizes": [
            {
                "bytes": one.bytes,
                "bdp": one.bdp,
                "rules": list(one.rules),
                "measures": {address: means.as_dict(mean) for address, mean in one.measures.items()},
                "wants": dict(one.answers),
                "meets": one.meets if found.wants else None,
                "goodput_share": means.as_dict(one.share),
            }
            for one in found.sizes
        ],
        "region": [one.bytes for one in found.region] if found.wants else None,
        "open_region": [one.bytes for one in found.open_region] if found.wants else None,
        "seeds": found.seeds,
        "random": found.random,
        "seeds_needed": found.more_seeds if found.wants and not found.region else None,
        "warning": found.idle or None,
        "chosen_bytes": None if found.chosen is None else found.chosen.bytes,
        "headline": headline(found),
    }
