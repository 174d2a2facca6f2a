"""The compiled part: scenarios, the simulator, replays of packet traces, and the rasterisation of pictures."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__version__: str
FILE_VERSION: int

class Error(ValueError):
    """Bad input. The text names the file, line, key and value, and the expected form."""

@final
class Progress:
    """State shared with a running simulation: its progress, and whether it is to stop."""

    def __init__(self) -> None: ...
    @property
    def simulated_s(self) -> float: ...
    def tell(self, simulated_s: float) -> None:
        """Sets the progress, in simulated seconds, of a run outside of the simulator."""
    @property
    def stopped(self) -> bool: ...
    def stop(self) -> None: ...

class Shape(TypedDict):
    """A line or an area, in pixels from the picture's upper left corner."""

    points: NDArray[np.float64]
    """The corners, one per row: to the right, and down from the upper edge."""
    closed: bool
    """Whether the last corner is joined to the first."""
    face: tuple[int, int, int] | None
    """Red, green and blue of the area, 0 to 255. None leaves it unfilled."""
    edge: tuple[int, int, int] | None
    """Colour of the outline. None draws no outline."""
    width: float
    """The width of the outline."""
    dashes: Sequence[float]
    """Lengths of dashes and gaps, alternating. Empty for a solid line."""
    projecting: bool
    """Whether the line begins and ends half its width beyond its first and last corner."""
    alpha: float
    """Opacity, 0 to 1."""
    clip: tuple[float, float, float, float] | None
    """Left, top, right and bottom of the rectangle to which it is clipped. None is the whole picture."""

class Words(TypedDict):
    """A line of text, in pixels from the picture's upper left corner."""

    text: str
    at: tuple[float, float]
    """The start of the base line."""
    size: float
    """Pixels per em."""
    bold: bool
    upright: bool
    """Whether the text is rotated by 90° and reads upwards."""
    colour: tuple[int, int, int]
    """Red, green and blue, 0 to 255."""

@final
class Fonts:
    """Two fonts, with which the text in pictures is drawn and measured."""

    def __init__(self, regular: bytes, bold: bytes) -> None:
        """Reads two TrueType fonts from bytes. Raises ValueError if either is not a font."""
    def width(self, text: str, bold: bool) -> float:
        """The width of a text, in ems."""
    def row(self, bold: bool) -> tuple[float, float]:
        """The height of letters above the base line and their depth below it, in ems."""
    def png(self, width: int, height: int, dpi: float, marks: Sequence[Shape | Words]) -> bytes:
        """A picture of marks as a PNG of `width` × `height` pixels, `dpi` per inch. Raises ValueError if it is empty.

        The marks are drawn in order on a white background, without the GIL. A line with a corner that is not finite is
        left out.
        """

class PlannedRun(TypedDict):
    """A run of a plan."""

    set: dict[str, Any]
    """Each swept or set key with its value as written. The runs of a combination share one dictionary."""
    seed: int
    duration_s: float

@final
class Packet:
    """A packet in a queue. It takes any further attributes."""

    @property
    def bytes(self) -> int:
        """The length, as the link counts it."""
    @property
    def flow(self) -> int:
        """The flow hash, equal for all packets of a flow."""
    @property
    def arrival(self) -> int:
        """When it was enqueued, in nanoseconds."""
    @property
    def ecn(self) -> int:
        """The ECN field of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE."""
    def mark(self) -> bool:
        """Sets CE if the packet is ECN-capable. Returns whether it carries CE now."""

class Discipline:
    """The base class of disciplines in Python. It takes the packets that the discipline drops."""

    def __new__(cls, *words: object, **parameters: object) -> Self: ...
    def drop(self, packet: Packet, reason: str = "overlimit") -> None:
        """Drops a packet, which may be one that is just being enqueued. Raises `Error` for an unknown reason."""

@final
class Plan:
    """A checked scenario file with its list of runs."""

    @staticmethod
    def load(
        path: str,
        sets: Sequence[tuple[str, str]],
        seed: int | None,
        seeds: int | None,
        *,
        outside: Sequence[str] = (),
    ) -> Plan:
        """Reads and checks a file. `outside` are the names of disciplines of the user's, with which lines may begin."""
    @staticmethod
    def parse(
        text: str,
        path: str,
        sets: Sequence[tuple[str, str]],
        seed: int | None,
        seeds: int | None,
        *,
        lines: bool = True,
        outside: Sequence[str] = (),
    ) -> Plan:
        """Reads and checks a scenario's text. Files that it names are looked up in the folder of `path`.

        Without `lines`, errors name keys and values only.
        """
    @staticmethod
    def restore(portable: str) -> Plan:
        """The plan in a text that `portable` returned. It reads no file."""
    def reseeded(self, seed: int | None, seeds: int | None) -> Plan:
        """The same scenario with another first seed and another number of seeds. None leaves either as it was."""
    def portable(self) -> str:
        """The plan as a text, with the content of the files that the scenario names. Pickle uses it."""
    def __len__(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str:
        """The scenario file's text."""
    @property
    def warnings(self) -> list[str]: ...
    @property
    def file(self) -> str:
        """The path of the file, as the caller wrote it."""
    @property
    def skipped(self) -> list[dict[str, Any]]:
        """The combinations that use a feature that is not implemented: `set` and `reason` of each."""
    @property
    def runs(self) -> list[PlannedRun]:
        """Each run, in order. The list is shared with the plan; do not change it."""
    def describe(self, index: int) -> dict[str, Any]:
        """The queues and flows of a run."""
    def rates(self, index: int) -> dict[str, Any]:
        """`duration_s`, and `links` with a changing rate: the mean in each of 64 equal parts of the run."""
    def draws(self, index: int) -> list[str]:
        """The random inputs of a run in the simulator, each as a phrase. Empty if all seeds give the same run."""
    def run(
        self,
        index: int,
        *,
        engine: str = "fast",
        packets: bool = False,
        series: bool = True,
        progress: Progress | None = None,
        linux: tuple[int, int] | None = None,
        outside: Sequence[tuple[str, object]] = (),
    ) -> Output | None:
        """Simulates one run without the GIL. Returns None if it was stopped.

        With `linux`, a version such as (7, 3), disciplines behave as in that version of Linux. `outside` are those of
        the user's: the name, and the path of a library or a function that takes the line, the MTU in bytes, the rate in
        bit/s and the seed, and returns a `Discipline`. Raises `Error` if one of them fails.
        """
    def ring(self, index: int, link: int, times: Sequence[int], bytes: Sequence[int], phase: int) -> NDArray[np.uint64]:
        """The content of a link's card ring after each change: columns of time, packets, limit, bytes in flight.

        Packets with the IP lengths `bytes` arrive at `times`. `phase` is the tick's age at time zero. Both are in ns.
        """
    def sim_refusal(self, index: int, given: Sequence[str] = ()) -> str | None:
        """The reason why the simulator cannot run a run. None if it can. `given` are the names of the disciplines of
        the user's that there are.
        """
    def outside(self, index: int) -> list[str]:
        """The names of disciplines of the user's in a run."""
    @property
    def outside_names(self) -> list[str]:
        """The names of disciplines of the user's with which the plan was read."""
    def kernel_refusal(
        self, index: int, *, version: tuple[int, int], modules: Sequence[str], link: str = "device"
    ) -> str | None:
        """The reason why a kernel of this version, with these modules, cannot run a run. None if it can."""
    def live_refusal(self, index: int, engine: str = "ours") -> str | None:
        """The reason why this host cannot play a run in the world `live`. None if it can.

        With the engine `tc` the queues are those of its kernel; whether it has the disciplines is not asked here.
        """
    def disciplines(self, index: int) -> list[str]:
        """The disciplines of a run, each once, as lines for `tc`."""
    def cost(self, index: int) -> tuple[float, float, str, float]:
        """The cost of a run: transmissions of packets at most, packets held at once, and the queue that holds most of
        them with its number.
        """
    def kernel_hz(self, index: int) -> int:
        """The kernel's timer ticks per second (HZ) for a run."""
    def kernel_job(
        self,
        index: int,
        *,
        link: str = "device",
        probe: bool = True,
        sink: str = "kernel",
        tc_lib_dir: str | None = None,
        all_counters: bool = False,
        modules: Sequence[str] = (),
        replaces: str | None = None,
    ) -> str:
        """The job of a guest for a run, as JSON.

        `tc_lib_dir` is a folder with plug-ins of `tc`. With `all_counters`, the guest also reads the counters of hosts,
        links and protocols.
        """
    def observe(
        self,
        index: int,
        played: bytes,
        seen: PathLike[str],
        counted: bytes,
        origin: int,
        *,
        world: str = "kernel",
        link: str = "device",
        packets: bool = False,
        series: bool = True,
    ) -> Output:
        """Evaluates the files of a guest, or of a run in the world `live`: the applications' results, the path of the
        file with the records, and the counters.

        `origin` is time zero on the clock of the records.
        """

@final
class Output:
    """The results of one run."""

    def result(self) -> dict[str, Any]:
        """The run's entry in `runs` of the JSON."""
    def about(self) -> dict[str, Any]:
        """The run's queues and flows."""
    def series(self) -> dict[str, Mapping[str, NDArray[Any]]]:
        """Columns over time, by link."""
    def distributions(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The cumulative distribution of the sojourn time, by link: milliseconds, fraction of packets up to each."""
    def rates(self) -> dict[str, dict[str, list[float]]]:
        """The link's rate from each time on, by link: `rate_time_s` and `rate_mbit`."""
    def flow_series(self) -> dict[str, Mapping[str, NDArray[np.float64]]]:
        """Columns over time, by flow."""
    def flow_states(self) -> dict[str, Mapping[str, NDArray[np.float64]]]:
        """The sender's state over time, by flow."""
    def packets(self) -> dict[str, NDArray[Any]]:
        """Per-packet records as columns, one row per packet and link. Empty unless requested for the run."""
    @property
    def events(self) -> int: ...

def replay(
    trace: bytes,
    name: str,
    qdisc: str,
    rate: str | None,
    mtu: int,
    link_rate: int | None = None,
    seed: int = 1,
    end: str | None = None,
    *,
    outside: Sequence[tuple[str, object]] = (),
) -> tuple[bytes, list[str], dict[str, Any] | None]:
    """The fates of a trace's packets as CSV, the warnings, and the counters with the keys of `tc -s -j qdisc show`.

    With `rate`, a server dequeues packets at this rate, until the time `end` if it is given. Otherwise the trace has
    the dequeues, and `link_rate` is the link's rate in bits per second, from which a discipline derives its defaults.
    `outside` are disciplines of the user's, as in `Plan.run`; they go before ours of the same name. Raises `Error` if
    one fails.
    """

def refuse_outside(name: str) -> str | None:
    """The reason why a name cannot be that of a discipline of the user's. None if it can."""

def sums(trace: bytes, qdisc: str, mtu: int, link_rate: int, labels: bytes, kinds: int, seeds: int) -> list[list[int]]:
    """For each label, the number of packets dropped or marked; then the sum of the delivered packets' sojourn in µs.

    There is one row per seed.
    """

def as_in(line: str, linux: tuple[int, int]) -> str:
    """The line, in our syntax, of a discipline as in this version of Linux: with its variant, unless it names one."""

def needs(line: str) -> tuple[str | None, bool]:
    """Returns what a line of tc words needs of ours in Linux: the name of the discipline's module (`None` if it needs
    none), and whether tc needs a plugin."""

def rate(text: str) -> tuple[int, list[str]]:
    """Parses the value of `--rate`. Returns bits per second, and warnings."""

def paste(line: str, device: str) -> tuple[str | None, str]:
    """The `tc` command that adds a discipline to a device (None if no stock kernel has it), and a note about its
    requirements, or about why there is no command. The note may be empty.

    Raises `Error` for a line that is not a discipline's.
    """

def qdisc(line: str) -> dict[str, Any]:
    """Parses a discipline's line. Returns its `kind`, the line with every parameter (`full`), the line as `tc` accepts
    it (`tc`, or null), and its `values` by name in base units. `warnings` has a sentence for each word that is easily
    misread, and for what the text does not hold.
    """

def impair(words: str) -> dict[str, Any]:
    """Parses netem's words, a `tc` command with them, or the output of `tc`. Returns the `words` as `tc` accepts them,
    and `warnings` as `qdisc`.
    """

def catalogue(what: str) -> list[dict[str, Any]]:
    """One of the tables `disciplines`, `elsewhere`, `keys`, `reasons`."""

def counters(line: str) -> list[str]:
    """The names of the counters of a discipline, given as a `tc` line."""

def to_toml(tables: Mapping[str, Any]) -> str:
    """Formats a dictionary as a TOML file. Its values may be texts, numbers, truth values, lists and dictionaries."""

def schema() -> str:
    """The JSON schema of scenario files."""

def reference() -> str:
    """The reference page of scenario files, in Markdown."""

class KernelReplay:
    """A trace for a real kernel, and its results."""

    def __init__(
        self,
        trace: bytes,
        name: str,
        qdisc: str,
        rate: str | None,
        mtu: int,
        version: tuple[int, int],
        modules: list[str],
        replaces: str | None,
        tc_lib_dir: str | None,
        seed: int = 1,
    ) -> None: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def changes(self) -> list[tuple[int, str]]: ...
    def job(self) -> str: ...
    def trace(self) -> bytes: ...
    def rows(self, fates: bytes) -> bytes: ...
