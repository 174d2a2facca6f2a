"""The compiled half: scenarios, the simulator, replay, pictures in pixels."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__version__: str
FILE_VERSION: int

class Error(ValueError):
    """Bad input; the text names file, line, key, value and what was expected."""

@final
class Progress:
    """Shared with a running simulation: how far it is, and whether it shall stop."""

    def __init__(self) -> None: ...
    @property
    def simulated_s(self) -> float: ...
    def tell(self, simulated_s: float) -> None:
        """Tells how far a run is that does not tell it itself."""
    @property
    def stopped(self) -> bool: ...
    def stop(self) -> None: ...

class Shape(TypedDict):
    """A line or an area, in pixels from the picture's upper left corner."""

    points: NDArray[np.float64]
    """Its corners, a row each: to the right, down."""
    closed: bool
    """Whether the last corner is joined to the first."""
    face: tuple[int, int, int] | None
    """Red, green and blue of the area, 0 to 255; none: it is not filled."""
    edge: tuple[int, int, int] | None
    """Colour of the outline; none: there is none."""
    width: float
    """Of the outline."""
    dashes: Sequence[float]
    """Lengths of dashes and gaps in turn; none: a whole line."""
    projecting: bool
    """Whether the line begins and ends half its width beyond its first and last corner."""
    alpha: float
    """Opacity, 0 to 1."""
    clip: tuple[float, float, float, float] | None
    """Left, top, right and bottom of what it may cover; none: the picture."""

class Words(TypedDict):
    """A line of text, in pixels from the picture's upper left corner."""

    text: str
    at: tuple[float, float]
    """Where its base line begins."""
    size: float
    """Pixels an em."""
    bold: bool
    upright: bool
    """Whether it reads from below, turned by 90°."""
    colour: tuple[int, int, int]
    """Red, green and blue, 0 to 255."""

@final
class Fonts:
    """Two fonts, of which the text in pictures is made and measured."""

    def __init__(self, regular: bytes, bold: bytes) -> None:
        """From the bytes of two TrueType files; a ValueError if one is none."""
    def width(self, text: str, bold: bool) -> float:
        """The width of a text, in ems."""
    def row(self, bold: bool) -> tuple[float, float]:
        """How far the letters of a row rise above the base line, and descend below it, in ems."""
    def png(self, width: int, height: int, dpi: float, marks: Sequence[Shape | Words]) -> bytes:
        """A picture of marks as a PNG of `width` × `height` pixels, `dpi` of them an inch; a ValueError if it has none.

        The marks are drawn over each other in their order, on white, without the interpreter's lock. A line with a
        corner that is no finite number is left out.
        """

class PlannedRun(TypedDict):
    """A run of a plan."""

    set: dict[str, Any]
    """Each swept or set key with its value as written. The runs of a combination share one dictionary."""
    seed: int
    duration_s: float

@final
class Plan:
    """A scenario file, checked, with its sweep laid out."""

    @staticmethod
    def load(path: str, sets: Sequence[tuple[str, str]], seed: int | None, seeds: int | None) -> Plan:
        """Reads and checks a file."""
    @staticmethod
    def parse(
        text: str,
        path: str,
        sets: Sequence[tuple[str, str]],
        seed: int | None,
        seeds: int | None,
        *,
        lines: bool = True,
    ) -> Plan:
        """Reads and checks a scenario's text. `path` is where its file would be: files that it names are beside it.

        Without `lines`, errors name keys and values only.
        """
    @staticmethod
    def restore(portable: str) -> Plan:
        """The plan of a text that `portable` returned. No file is read."""
    def reseeded(self, seed: int | None, seeds: int | None) -> Plan:
        """The same scenario with other seeds: the first one, and how many. What is None stays as it was."""
    def portable(self) -> str:
        """The plan as text, with all that the files named in the scenario contain. Pickle uses it."""
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
        """The file as the caller named it."""
    @property
    def skipped(self) -> list[dict[str, Any]]:
        """What no world can play yet: `set` and `reason`."""
    @property
    def runs(self) -> list[PlannedRun]:
        """Each run, in order. The list is the plan's own: it is not to be changed."""
    def describe(self, index: int) -> dict[str, Any]:
        """The queues and flows of a run."""
    def rates(self, index: int) -> dict[str, Any]:
        """`duration_s`, and `links` whose rate changes: the mean in each of 64 equal parts of a run."""
    def draws(self, index: int) -> list[str]:
        """What a run draws at random in the simulator, in words; empty if every seed gives the same run."""
    def run(
        self,
        index: int,
        *,
        engine: str = "fast",
        packets: bool = False,
        series: bool = True,
        progress: Progress | None = None,
        linux: tuple[int, int] | None = None,
    ) -> Output | None:
        """Simulates one run without the GIL; None if it was stopped.

        With `linux`, a version such as (7, 3), its disciplines decide as that Linux's.
        """
    def ring(self, index: int, link: int, times: Sequence[int], bytes: Sequence[int], phase: int) -> NDArray[np.uint64]:
        """What the ring of a link's card holds after each change: columns of time, packets, limit, bytes in flight.

        Packets of so many bytes of IP arrive at these times, in ns; `phase` is the age of the tick at time zero.
        """
    def sim_refusal(self, index: int) -> str | None:
        """Why the simulator can't play a run, if it can't."""
    def kernel_refusal(
        self, index: int, *, version: tuple[int, int], modules: Sequence[str], link: str = "device"
    ) -> str | None:
        """Why a kernel can't play a run, if it can't: one of this version and with these modules."""
    def kernel_hz(self, index: int) -> int:
        """The ticks a second of the kernel that a run asks for."""
    def kernel_job(
        self,
        index: int,
        *,
        link: str = "device",
        probe: bool = True,
        sink: str = "kernel",
        tc_lib_dir: str | None = None,
        all_counters: bool = False,
    ) -> str:
        """JSON: what a guest is asked to do for a run.

        `tc_lib_dir` is a folder with plugins of `tc`. `all_counters`: the guest reads the counters of hosts, links and
        protocols too.
        """
    def observe(
        self,
        index: int,
        played: bytes,
        seen: PathLike[str],
        counted: bytes,
        origin: int,
        *,
        link: str = "device",
        packets: bool = False,
        series: bool = True,
    ) -> Output:
        """Reads what a guest left of a run: the applications' file, the path of the probe's, and the counters' file.

        `origin` is time zero on its clock.
        """

@final
class Output:
    """What came out of one run."""

    def result(self) -> dict[str, Any]:
        """The run's entry in `runs` of the JSON."""
    def about(self) -> dict[str, Any]:
        """The run's queues and flows."""
    def series(self) -> dict[str, Mapping[str, NDArray[Any]]]:
        """By link, columns over time."""
    def distributions(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """By link, the sojourn's distribution function: milliseconds, share of the packets at or below."""
    def rates(self) -> dict[str, dict[str, list[float]]]:
        """By link, its rate from each time on: `rate_time_s` and `rate_mbit`."""
    def flow_series(self) -> dict[str, Mapping[str, NDArray[np.float64]]]:
        """By flow, columns over time."""
    def flow_states(self) -> dict[str, Mapping[str, NDArray[np.float64]]]:
        """By flow, the sender's state over time."""
    def packets(self) -> dict[str, NDArray[Any]]:
        """One row a packet and link, in columns; none unless the run was asked to keep them."""
    @property
    def events(self) -> int: ...

def replay(
    trace: bytes, name: str, qdisc: str, rate: str | None, mtu: int, told: int | None = None
) -> tuple[bytes, list[str], dict[str, Any] | None]:
    """The fates of a trace's packets as CSV; warnings; and the counters, with the keys of `tc -s -j qdisc show`.

    `rate` is a server's, which makes the dequeues; `told` the link's, for disciplines that configure themselves by it.
    """

def sums(trace: bytes, qdisc: str, mtu: int, told: int, labels: bytes, kinds: int, seeds: int) -> list[list[int]]:
    """How many of a trace's packets with each label are dropped or marked, then how many µs those that leave waited.

    A row a seed of the random numbers."""

def as_in(line: str, linux: tuple[int, int]) -> str:
    """A line as Linux of this version has the discipline, in our words: with its variant, unless it names one."""

def needs(line: str) -> tuple[str | None, bool]:
    """Returns what a line of tc words needs of ours in Linux: the name of the discipline's module (`None` if it needs
    none), and whether tc needs a plugin."""

def rate(text: str) -> tuple[int, list[str]]:
    """A rate in bits per second, as `--rate` gives it, and warnings."""

def paste(line: str, device: str) -> tuple[str | None, str]:
    """The `tc` command that puts a discipline onto a device (`None` if no stock kernel has it), and a note: what else
    it needs, or why there is no command; empty if there is nothing to say.

    Raises `Error` for a line that is not a discipline's.
    """

def qdisc(line: str) -> dict[str, Any]:
    """What a line of tc words says: `kind`, `full` (nothing left out), `tc` (those of them that tc takes, or null), and
    `values` by name in base units."""

def catalogue(what: str) -> list[dict[str, Any]]:
    """One of the tables `disciplines`, `elsewhere`, `keys`, `reasons`."""

def counters(line: str) -> list[str]:
    """The names of the counters of a discipline, given as a `tc` line."""

def to_toml(tables: Mapping[str, Any]) -> str:
    """A dictionary as the text of a TOML file: text, numbers, truth values, lists and dictionaries."""

def schema() -> str:
    """The JSON schema of scenario files."""

def reference() -> str:
    """The reference page of scenario files, in Markdown."""

class KernelReplay:
    """A trace on its way to a real kernel and back."""

    def __init__(
        self,
        trace: bytes,
        name: str,
        qdisc: str,
        rate: str | None,
        mtu: int,
        version: tuple[int, int],
        modules: list[str],
        tc_lib_dir: str | None,
    ) -> None: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def changes(self) -> list[tuple[int, str]]: ...
    def job(self) -> str: ...
    def trace(self) -> bytes: ...
    def rows(self, fates: bytes) -> bytes: ...
