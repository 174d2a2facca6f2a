"""An access line, as its user knows it: its rates, its buffers, and what it adds to each packet."""

from __future__ import annotations

import re
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


_ETHERNET = Access(14, "", "", "the Ethernet header")
_FIBRE = Access(18, " overhead 18", " overhead 4", "the Ethernet header and its checksum")
_CABLE = Access(18, " docsis", " overhead 4 mpu 64", "the Ethernet header and its checksum")
_VDSL = Access(22, " bridged-ptm", " overhead 8", "Ethernet and the framing of VDSL2")
_ADSL = Access(40, " pppoe-llcsnap", " overhead 26 linklayer atm", "PPPoE, Ethernet and AAL5, in ATM cells", "atm")
_LTE = Access(14, "", "", "the Ethernet header of the modem's interface", varies=True)
_GEO = Access(14, "", "", "the Ethernet header of the modem's interface")
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


def buffer_packets(buffer: str, rate: int) -> int:
    """Returns the size of a buffer in packets. `buffer` is a number of packets, or the time that a packet waits at the
    end of a full buffer at this rate in bit/s.
    """
    seconds = seconds_of(buffer)
    return int(buffer) if seconds is None else max(1, round(seconds * rate / 8 / PACKET))


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
