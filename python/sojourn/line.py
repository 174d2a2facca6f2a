"""An access line, as its user knows it: its rates, its buffers, and what it adds to each packet."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from sojourn import _core

PACKET = 1514
"""Bytes of a full packet with its Ethernet header. A modem's buffer is counted in such packets here."""
RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
FASTEST_BPS = 10 * RATES["tbit"]
"""The highest rate of a scenario."""
LONGEST_S = 24 * TIMES["h"]
"""The longest time of a scenario."""


@dataclass(frozen=True)
class Access:
    """A kind of access line."""

    overhead: int
    """Bytes that it counts beyond the IP packet."""
    cake: str
    """The parameters of cake that count them, after a space."""
    htb: str
    """The parameters of htb, which counts an Ethernet header by itself."""
    words: str
    """These bytes in words."""
    linklayer: str = "ethernet"
    """How packets are framed: `ethernet`, or `atm` in cells of 53 bytes with 48 bytes of payload."""
    varies: bool = False
    """Whether the rate changes all the time."""
    title: str = ""
    """Its name in a sentence."""
    tell: str = ""
    """How to tell that a line is of this kind."""

    def counted(self, ip: int) -> int:
        """Returns the bytes that a shaper counts for an IP packet of this many bytes. PTM sends 65 bytes for 64."""
        framed = ip + self.overhead
        if self.linklayer == "atm":
            return -(-framed // 48) * 53
        return -(-framed * 65 // 64) if "ptm" in self.cake else framed

    @property
    def framing(self) -> str:
        """The bytes and cells that it adds to a packet, in words."""
        cells = "ATM cells, with " if self.linklayer == "atm" else ""
        return f"{cells}{self.overhead} bytes beyond the IP packet"


_ETHERNET = Access(
    14,
    "",
    "",
    "the Ethernet header",
    title="an Ethernet line",
    tell="a network cable comes out of the wall, and there is no modem",
)
_FIBRE = Access(
    18,
    " overhead 18",
    " overhead 4",
    "the Ethernet header and its checksum",
    title="a fibre line",
    tell="a thin glass fibre ends in a box: ONT, ONU, GPON",
)
_CABLE = Access(
    18,
    " docsis",
    " overhead 4 mpu 64",
    "the Ethernet header and its checksum",
    title="a cable line (DOCSIS)",
    tell="a round coaxial plug as of a television; the modem's status page says DOCSIS",
)
_VDSL = Access(
    34,
    " overhead 34 ptm",
    " overhead 20",
    "PPPoE, a VLAN's tag, Ethernet and the framing of VDSL2",
    title="a VDSL2 line",
    tell="a phone socket; the modem's status page says VDSL2, 17a, 35b or G.fast",
)
_ADSL = Access(
    40,
    " pppoe-llcsnap",
    " overhead 26 linklayer atm",
    "PPPoE, Ethernet and AAL5, in ATM cells",
    "atm",
    title="an ADSL line",
    tell="a phone socket, often with a splitter; the modem's status page says ADSL, ADSL2+ or ATM; 24 Mbit/s at most",
)
_LTE = Access(
    14,
    "",
    "",
    "the Ethernet header of the modem's interface",
    varies=True,
    title="an LTE line",
    tell="a SIM card or an antenna: LTE, 4G, 5G",
)
_GEO = Access(
    14,
    "",
    "",
    "the Ethernet header of the modem's interface",
    title="a satellite line",
    tell="a dish to a geostationary satellite; a ping takes 600 ms or more",
)
ACCESS = {
    "ethernet": _ETHERNET,
    "fibre": _FIBRE,
    "docsis": _CABLE,
    "cable": _CABLE,
    "vdsl": _VDSL,
    "adsl": _ADSL,
    "dsl": _ADSL,
    "lte": _LTE,
    "geo": _GEO,
}
"""The kinds of access line by name. `cable` is DOCSIS. `dsl` is ADSL, which adds the most bytes: a shaper that counts
too many bytes is a little slow, and one that counts too few leaves the queue in the modem."""
ALIASES = {
    **dict.fromkeys(("adsl2", "adsl2+"), "adsl"),
    **dict.fromkeys(("vdsl2", "g.fast", "gfast", "fttc"), "vdsl"),
    **dict.fromkeys(("coax", "catv", "docsis3", "docsis3.0", "docsis3.1", "docsis4.0"), "cable"),
    **dict.fromkeys(("fiber", "ftth", "gpon", "xgs-pon", "xgspon", "ont"), "fibre"),
    **dict.fromkeys(("3g", "4g", "5g", "lte-a", "mobile", "cellular", "fwa"), "lte"),
    **dict.fromkeys(("vsat", "hughesnet", "viasat"), "geo"),
}
"""Other names of these kinds."""
NO_ACCESS = {
    **dict.fromkeys(
        ("wifi", "wi-fi", "wlan", "wireless", "wifi6", "wi-fi6", "wifi7", "wi-fi7"),
        "Wi-Fi is no kind of line. In the air the rate changes with every packet, so that no fixed rate of a shaper "
        "fits, and a router that shapes towards its line does not see this queue: a driver with fair queues helps "
        "('sojourn run wifi-home' shows it). Here, name the line behind the Wi-Fi",
    ),
    **dict.fromkeys(
        ("starlink", "leo"),
        "the rate to a satellite in a low orbit changes every 15 s, so that no fixed rate of a shaper fits "
        "('sojourn run leo' shows it). lte is the kind that is the most like it",
    ),
    **dict.fromkeys(
        ("phone", "telephone", "landline", "copper"),
        "a phone line is vdsl or adsl: the modem's status page says which. Without --access the setting is safe with "
        "both",
    ),
    **dict.fromkeys(
        ("satellite", "sat"),
        "a satellite that stands still is geo: a ping takes 600 ms or more. The rate to one in a low orbit changes, so "
        "that no fixed rate of a shaper fits ('sojourn run leo' shows it)",
    ),
}
"""Answers to names that are no kind of access line."""

UNKNOWN = "unknown"
"""The name of the kind of a line whose user does not say it: one that adds the most that a common line adds."""
_CELLS = Access(
    44, " overhead 44 atm", " overhead 30 linklayer atm", "the most of all common lines, in ATM cells", "atm"
)
_FRAMES = Access(44, " overhead 44 ptm", " overhead 30", "the most of all common lines without ATM cells")
"""44 bytes are PPPoE (8), Ethernet with its checksum (18), and LLC, SNAP and AAL5 (18)."""
ADSL_BPS = (50_000_000, 7_000_000)
"""No ADSL line is faster, down and up: two pairs of ADSL2+ (ITU-T G.992.5, G.998.1), with Annex M."""
COMMON = ("vdsl", "cable", "fibre", "ethernet")
"""The kinds of line without ATM cells."""


def may_be_adsl(down: int, up: int) -> bool:
    """Returns whether a line with these rates in bit/s may send ATM cells."""
    return down <= ADSL_BPS[0] and up <= ADSL_BPS[1]


def access_of(name: str, down: int, up: int) -> Access:
    """Returns the kind of a line of this name, a key of `ACCESS` or `UNKNOWN`, with these rates in bit/s."""
    if name != UNKNOWN:
        return ACCESS[name]
    return _CELLS if may_be_adsl(down, up) else _FRAMES


def assumption(down: int, up: int, verb: str = "tune") -> str:
    """Says in a sentence or two what is assumed of a line whose kind is not given, and what that costs. Rates in
    bit/s.
    """
    kind = access_of(UNKNOWN, down, up)
    gains = [100 * (kind.counted(1500) / ACCESS[name].counted(1500) - 1) for name in COMMON]
    named = f"--access {', '.join(COMMON[:-1])} or {COMMON[-1]}"
    if kind is _CELLS:
        return (
            "Assumed, as --access is not given: ADSL, which adds the most to a packet (44 bytes, in ATM cells). So the "
            f"shaper is safe with every framing. If yours is not ADSL, {named} gives {min(gains):.0f} to "
            f"{max(gains):.0f} % more throughput ('sojourn {verb} --access' says how to tell)."
        )
    return (
        "Assumed, as --access is not given: 44 bytes beyond each IP packet, the most that a line of this rate adds. "
        f"So the shaper is safe with every framing; {named} gives at most {max(gains):.0f} % more throughput."
    )


def how_to_tell() -> list[str]:
    """Lists the kinds of line and how to tell which one a line is, in lines of at most 80 columns."""
    names: dict[str, tuple[str, str]] = {}
    for name, kind in ACCESS.items():
        names.setdefault(kind.title, (name, kind.tell))
    lines = ["Which kind of line is it? Look at its plug and at the modem's status page.", ""]
    for name, tell in names.values():
        said = "cable" if name == "docsis" else name
        first, *rest = textwrap.wrap(tell, 66)
        lines += [f"  {said:<9} {first}", *(f"  {'':<9} {one}" for one in rest)]
    lines += [
        "",
        f"  {UNKNOWN:<9} you cannot tell, the default: a setting that is safe on every kind",
        "",
        "Wi-Fi is not a kind: name the line behind it, such as --access vdsl.",
    ]
    return lines


def rate_of(text: str) -> int | None:
    """Returns a rate such as `20mbit` in bit/s, or None for other text."""
    found = _number(text, RATES)
    return None if found is None else round(found)


def constant_bps(rate: str) -> int | None:
    """Returns a rate of `Plan.describe` in bit/s; None for steps, a trace and an outage."""
    try:
        return _core.rate(rate)[0]
    except _core.Error:
        return None


def seconds_of(text: str) -> float | None:
    """Returns a time such as `30ms` in seconds, or None for other text."""
    return _number(text, TIMES)


def _number(text: str, units: Mapping[str, float]) -> float | None:
    """Returns a number with one of the units, as a multiple of the unit whose size is 1."""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", text.strip().lower(), re.ASCII)
    return float(found[1]) * units[found[2]] if found else None


def buffer_packets(buffer: str, rate: int, packet: int = PACKET) -> int:
    """Returns the size of a buffer in packets. `buffer` is a number of packets such as `1000p`, or the time that a
    packet waits at the end of a full buffer at this rate in bit/s, where packets take `packet` bytes of the link.
    """
    seconds = seconds_of(buffer)
    return int(buffer.removesuffix("p")) if seconds is None else max(1, round(seconds * rate / 8 / packet))


def rate_text(rate: int) -> str:
    """A rate in the largest unit in which it is a whole number."""
    unit = next(unit for unit in reversed(RATES) if rate % RATES[unit] == 0)
    return f"{rate // RATES[unit]}{unit}"


def time_text(seconds: float) -> str:
    """A time in the largest unit in which it is a whole number, or in microseconds."""
    micros = round(seconds * 1e6)
    for unit, size in (("s", 10**6), ("ms", 10**3)):
        if micros % size == 0:
            return f"{micros // size}{unit}"
    return f"{micros}us"
