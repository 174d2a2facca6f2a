"""Measures of results by their names: `results.hop("bottleneck").sojourn_ms.p95`.

A `Measure` has a value for each combination and seed, and the mean over the seeds with its 95 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from sojourn.arguments import TEXT, refuse_other
from sojourn.errors import Refusal, nearest_of
from sojourn.means import Mean, mean_of, present
from sojourn.words import number_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Measure:
    """A measure of every run of some results."""

    address: str
    """Its name in a store and in `--until`: `hops.bottleneck.sojourn_ms.p95`."""
    unit: str
    """`ms`, `s`, `Mbit/s`, `packets`, `bytes`; empty for counts and shares."""
    values: dict[str, NDArray[np.float64]]
    """By the label of a combination: a value for each seed, in the order of the seeds; NaN where a run has none."""

    @property
    def means(self) -> dict[str, Mean | None]:
        """By the label of a combination: the mean over the seeds that have a value; None if none has."""
        return {label: mean_of(present(values)) for label, values in self.values.items()}

    @property
    def mean(self) -> float:
        """The mean over the seeds. Raises Refusal if there are several combinations, or no value."""
        return self._only().value

    @property
    def half_width(self) -> float | None:
        """The half-width of the mean's 95 % interval (Student's t); None with fewer than two seeds that have a value.

        Raises Refusal if there are several combinations, or no value.
        """
        return self._only().half_width

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None where `half_width` is None."""
        mean = self._only()
        return None if mean.half_width is None else (mean.value - mean.half_width, mean.value + mean.half_width)

    def __getitem__(self, label: str) -> Measure:
        """The measure of one combination. Raises Refusal for a label that there is not."""
        refuse_other("label", label, TEXT)
        if label not in self.values:
            raise Refusal(
                f"{self.address}: no combination {label!r}: expected one of {', '.join(self.values)}"
                f"{nearest_of(label, self.values)}"
            )
        return Measure(self.address, self.unit, {label: self.values[label]})

    def __iter__(self) -> Iterator[str]:
        """The labels of the combinations."""
        return iter(self.values)

    def __len__(self) -> int:
        """The number of combinations."""
        return len(self.values)

    def __float__(self) -> float:
        """As `mean`."""
        return self.mean

    def _only(self) -> Mean:
        if len(self.values) != 1:
            label = next(iter(self.values), "")
            raise Refusal(
                f"{self.address}: there are {len(self.values)} combinations: expected one, as [{label!r}] chooses it; "
                "`means` has all"
            )
        ((label, mean),) = self.means.items()
        if mean is None:
            raise Refusal(f"{self.address}: no run of {label or 'these'} has a value")
        return mean

    def __repr__(self) -> str:
        rows = [(label, _said(mean)) for label, mean in self.means.items()]
        wide = max((len(label) for label, _ in rows), default=0)
        unit = f" ({self.unit})" if self.unit else ""
        return "\n".join([f"{self.address}{unit}", *(f"  {label:{wide}}  {said}" for label, said in rows)])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(label)}</td><td>{_said(mean)}</td></tr>" for label, mean in self.means.items())
        unit = f" ({escape(self.unit)})" if self.unit else ""
        return f"<table><caption>{escape(self.address)}{unit}</caption>{rows}</table>"


def _said(mean: Mean | None) -> str:
    if mean is None:
        return "no value"
    if mean.half_width is None:
        return number_text(mean.value)
    return f"{number_text(mean.value)} ± {number_text(mean.half_width, 2)}"


Read = Callable[[str, str], Measure]
"""Returns the measure at an address; the second argument is its unit."""


class Part:
    """A part of the entry of a queue or a flow."""

    unit = ""

    def __init__(self, read: Read, address: str, unit: str = "") -> None:
        self._read, self._address, self.unit = read, address, unit

    if not TYPE_CHECKING:  # a type checker finds unknown names by itself

        def __getattr__(self, name: str) -> Measure:
            known = measures_of(type(self))
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"{self._address}.{name}: no such measure: expected one of {', '.join(known)}{nearest_of(name, known)}"
            )

    def __dir__(self) -> list[str]:
        return list(measures_of(type(self)))

    def __repr__(self) -> str:
        return f"{self._address}: {', '.join(measures_of(type(self)))}"


class Value:
    """A number of a part: its meaning, and its unit if it is not the part's."""

    def __init__(self, meaning: str, unit: str | None = None) -> None:
        self.__doc__, self.meaning, self.unit = meaning, meaning, unit

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, part: None, owner: type) -> Value: ...
    @overload
    def __get__(self, part: Part, owner: type) -> Measure: ...
    def __get__(self, part: Part | None, owner: type) -> Value | Measure:
        if part is None:
            return self
        return part._read(f"{part._address}.{self.name}", part.unit if self.unit is None else self.unit)


Kind = TypeVar("Kind", bound=Part)


class Group(Generic[Kind]):
    """Several numbers of a part under one name, such as the quantiles of a distribution."""

    def __init__(self, kind: type[Kind], meaning: str, unit: str = "") -> None:
        self.__doc__, self.kind, self.meaning, self.unit = meaning, kind, meaning, unit

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, part: None, owner: type) -> Group[Kind]: ...
    @overload
    def __get__(self, part: Part, owner: type) -> Kind: ...
    def __get__(self, part: Part | None, owner: type) -> Group[Kind] | Kind:
        return self if part is None else self.kind(part._read, f"{part._address}.{self.name}", self.unit)


def measures_of(kind: type[Part]) -> dict[str, Value | Group[Part]]:
    """The measures of a part, by their names."""
    return {name: one for name, one in vars(kind).items() if isinstance(one, Value | Group)}


class Distribution(Part):
    """A distribution over the packets, the time or the transfers of a run's measuring window."""

    mean = Value("The mean.")
    p50 = Value("The median.")
    p75 = Value("The 75th percentile.")
    p95 = Value("The 95th percentile.")
    p99 = Value("The 99th percentile.")
    max = Value("The maximum.")


class Standing(Part):
    """Quantiles of the standing queue over the time of the measuring window."""

    p10 = Value("The 10th percentile.")
    p50 = Value("The median.")
    p90 = Value("The 90th percentile.")


class Nic(Part):
    """The network card below a queue discipline, where the hop has one. Over time."""

    ring_packets = Group(Distribution, "Packets in the ring.", "packets")
    bql_limit_bytes = Group(Distribution, "The limit of BQL.", "bytes")
    bql_inflight_bytes = Group(Distribution, "Bytes that BQL counts as in flight.", "bytes")


class Hop(Part):
    """The measures of a queue and its link, over the measuring window."""

    utilisation = Value("The share of the window in which the link transmitted.")
    delivered_packets = Value("Packets whose transmission ended in the window.", "packets")
    delivered_bytes = Value("Their bytes: IP length and the hop's overhead.", "bytes")
    drops = Value("Packets dropped.", "packets")
    marks = Value("Packets delivered with an ECN CE mark that they did not have on arrival.", "packets")
    sojourn_ms = Group(Distribution, "Delivered packets' time from arrival to the start of transmission.", "ms")
    queue_delay_ms = Group(
        Distribution, "Over time: the sojourn of the last departure, held until the next; 0 while idle.", "ms"
    )
    queue_packets = Group(Distribution, "Over time: packets that wait, without the one in transmission.", "packets")
    standing_queue_ms = Group(Standing, "Over time: the least queue delay in the past longest base RTT.", "ms")
    empty_fraction = Value("The share of the window in which no packet waited.")
    nonempty_max_s = Value("The longest time for which the queue was never empty.", "s")
    full_fraction = Value("The share of the window in which the next MTU would have been refused.")
    oscillation_s = Value("The period of the queue delay's oscillation.", "s")
    nic = Group(Nic, "The network card below the discipline.")
    paused_fraction = Value("The share of the window in which the hop behind had stopped the link (802.3x pause).")


class Video(Part):
    """The quality of a video as its viewer sees it, over the measuring window."""

    stalls = Value("Times that the picture stood still.", "")
    stalled_s = Value("How long it stood still.", "s")
    quality_mbit = Value("The mean bit rate of the segments shown.", "Mbit/s")
    switches = Value("Changes of the bit rate.", "")
    startup_s = Value("From the request to the first picture.", "s")


class Rpm(Part):
    """A test of responsiveness (draft-ietf-ippm-responsiveness): round trips a minute under load."""

    rpm = Value("Round trips a minute, by the test's own rule.", "1/min")
    foreign = Value("Round trips a minute of probes on connections of their own.", "1/min")
    loaded = Value("Round trips a minute of probes on the loaded connections.", "1/min")
    tcp_ms = Value("TCP handshakes of foreign probes.", "ms")
    tls_ms = Value("TLS handshakes of foreign probes.", "ms")
    http_ms = Value("Requests of foreign probes.", "ms")
    loaded_ms = Value("Requests on the loaded connections.", "ms")
    foreign_probes = Value("Foreign probes that count.", "")
    loaded_probes = Value("Probes on loaded connections that count.", "")
    capacity_mbit = Value("The capacity that the test found.", "Mbit/s")
    capacity_s = Value("How long it took to find it.", "s")
    after_s = Value("How long the test took.", "s")


class Command(Part):
    """A program of the user's."""

    exit = Value("Its exit code; none if a signal ended it.", "")
    signal = Value("The signal that ended it.", "")
    stopped = Value("1 if its `stop` or the end of the run ended it, otherwise 0.", "")
    started_s = Value("The time of the run at which it was started.", "s")
    ended_s = Value("The time of the run at which it had ended.", "s")


class Flow(Part):
    """The measures of a flow, or the mean over flows that share a name, over the measuring window."""

    goodput_mbit = Value("Payload acknowledged (of datagrams: received) once, over the window's length.", "Mbit/s")
    rtt_ms = Group(
        Distribution,
        "The round-trip time, one sample for each ACK of data: that of the segment delivered last before it.",
        "ms",
    )
    rtt_variation_ms = Group(Distribution, "The samples above the least of them.", "ms")
    retransmits = Value("Segments sent again.", "")
    startup_s = Group(Distribution, "Times from a connection's first SYN until its data can be sent.", "s")
    fct_s = Group(Distribution, "Completion times of transfers: first SYN to the last byte at the receiver.", "s")
    packets = Value("Packets that left the sender.", "packets")
    drops = Value("Packets of the flow that queues dropped.", "packets")
    loss_gap_ms = Group(Distribution, "Times between consecutive drops of packets of the flow.", "ms")
    completed = Value("Transfers completed in the window.", "")
    unfinished = Value("Transfers started but not completed at the end of the window.", "")
    loss_ratio = Value("The share of the datagrams sent in the window that was lost.")
    delay_ms = Group(Distribution, "One-way delay of datagrams, from application to application.", "ms")
    jitter_ms = Group(Distribution, "Packet delay variation: delays above the least of them (RFC 5481).", "ms")
    mos = Value("Mean opinion score of speech, from 1 to 4.5 (ITU-T G.107).")
    slowdown = Group(Distribution, "Completion times over those of an empty path.", "")
    page_load_s = Group(Distribution, "Load times of web pages: first SYN to the last byte of the last object.", "s")
    pages = Value("Web pages loaded in the window.", "")
    video = Group(Video, "The quality of a video as its viewer sees it.")
    rpm = Group(Rpm, "A test of responsiveness.")
    command = Group(Command, "A program of the user's.")


class Jain(Part):
    """Jain's fairness index over all flows of a run."""

    goodput = Value("Over the flows' goodputs.")
    drop_share = Value("Over the flows' shares of packets dropped.")


class Losses(Part):
    """Loss events of all bulk flows of a run together: all drops within the longest base RTT from a first one on."""

    events = Value("The number of loss events.", "")
    synchronisation = Value("The mean share of the flows that lose packets in an event (RFC 7928, section 2.4).")
