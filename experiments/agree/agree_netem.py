"""Draws the scenarios with netem's words, before the simulator's TCP is changed for them.

    experiments/agree/agree_netem.py [--print]

Writes experiments/agree/netem/*.toml (20 points of a seeded Latin hypercube) and experiments/agree/netem.csv, which
says what was drawn. They are frozen: a test compares the files with what this script draws.

Each scenario has one of 20 impairments, as people paste them from guides to netem: delay with jitter and a
distribution, reordering, duplication, each loss model, slots, and rates that fall so far that windows become small.
None of the other sets has an impairment that reorders packets. No scenario of this set is called hard: all twenty
count.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from agree_draw import FOLDER, PACKET, freeze
from scipy.stats import qmc

SEED, SCENARIOS = 20261129, 20
"""The seed is the day of the draw."""
CONTROLS = ("cubic", "reno", "bbr")
DISCIPLINES = ("pfifo", "codel", "fq_codel", "cake", "pie")


@dataclass(frozen=True)
class Impairment:
    """Netem's words in the direction of the data and in that of the ACKs.

    `delay` is their delay over both directions in ms. `falls` is the factor by which the link's rate falls, for the
    second half of the run.
    """

    forward: str = ""
    back: str = ""
    delay: float = 0
    falls: float = 1


IMPAIRMENTS = (
    Impairment("delay 50ms 10ms 25%", delay=50),
    Impairment("delay 20ms 4ms distribution normal", delay=20),
    Impairment("delay 100ms 20ms distribution pareto", delay=100),
    Impairment("delay 40ms 10ms distribution paretonormal", delay=40),
    Impairment("delay 10ms 3ms 25% distribution normal", delay=10),
    Impairment("delay 25ms 5ms distribution normal", "delay 25ms 5ms distribution normal", delay=50),
    Impairment("delay 150ms 15ms", "delay 150ms 15ms", delay=300),
    Impairment(back="delay 30ms 10ms distribution normal", delay=30),
    Impairment("delay 10ms", "delay 20ms 5ms duplicate 1%", delay=30),
    Impairment("delay 10ms reorder 25% 50%", delay=10),
    Impairment("delay 20ms reorder 5% gap 5", "delay 20ms", delay=40),
    Impairment("duplicate 1%"),
    Impairment("delay 30ms 2ms loss 0.3% 25%", delay=30),
    Impairment("delay 20ms 5ms loss 0.1% duplicate 0.5%", delay=20),
    Impairment("loss gemodel 0.5% 30%"),
    Impairment("loss state 0.3% 40%"),
    Impairment("slot 2ms 6ms packets 32"),
    Impairment("slot distribution normal 5ms 1ms delay 20ms 1ms", delay=20),
    Impairment("delay 30ms 3ms distribution normal", delay=30, falls=20),
    Impairment("loss 1%", falls=10),
)


@dataclass(frozen=True)
class Point:
    """One drawn scenario: rate in Mbit/s, delay of the hop in ms (in each direction), and what is drawn from lists."""

    name: str
    rate: float
    delay: float
    flows: int
    discipline: str
    cc: str
    forward: str
    back: str
    falls: float
    rtt: float

    @property
    def limit(self) -> int:
        """The limit of a FIFO in packets: the BDP at the mean RTT, and at least 20."""
        return max(20, math.ceil(self.rate * self.rtt * 1000 / 8 / PACKET))


def drawn() -> list[Point]:
    """Draws the points. Each impairment is drawn once, and each discipline four times."""
    axes = qmc.LatinHypercube(d=6, rng=SEED).random(SCENARIOS)
    return [point(f"{number + 1:02d}", list(row)) for number, row in enumerate(axes)]


def point(name: str, row: list[float]) -> Point:
    """Converts six numbers in [0, 1) to a scenario."""
    rate, delay, flows, discipline, cc, words = row
    impairment = IMPAIRMENTS[int(words * len(IMPAIRMENTS))]
    own = float(f"{20**delay:.3g}")
    return Point(
        name=name,
        rate=float(f"{100**rate:.3g}"),
        delay=own,
        flows=1 + int(4 * flows),
        discipline=DISCIPLINES[int(discipline * len(DISCIPLINES))],
        cc=CONTROLS[int(cc * len(CONTROLS))],
        forward=impairment.forward,
        back=impairment.back,
        falls=impairment.falls,
        rtt=round(2 * own + impairment.delay, 2),
    )


def scenario(one: Point) -> str:
    """Returns the text of the scenario file."""
    qdisc = f"pfifo limit {one.limit}" if one.discipline == "pfifo" else one.discipline
    rate, rates = f'"{one.rate:g}mbit"', f"{one.rate:g}"
    if one.falls > 1:
        rate = f'[["0s", "{one.rate:g}mbit"], ["20s", "{one.rate / one.falls:.3g}mbit"]]'
        rates += f" and then {one.rate / one.falls:.3g}"
    words = ", ".join(filter(None, (one.forward, one.back and f"back {one.back}")))
    back = f', impair = "{one.back}"' if one.back else ""
    lines = [
        # Frozen as well: a kept run is found by the text of its scenario.
        "# Drawn by agree_netem.py and frozen: not to be edited.",
        f'title = "{words}: {one.flows} {one.cc} at {rates} Mbit/s, {one.rtt:g} ms"',
        'duration = "35s"',
        'measure = ["5s", "end"]',
        "",
        "[host]",
        'rmem = "256mb"',
        'wmem = "256mb"',
        "",
        "[[hop]]",
        'name = "bottleneck"',
        f"rate = {rate}",
        f'delay = "{one.delay:g}ms"',
        f'qdisc = "{qdisc}"',
        *([f'impair = "{one.forward}"'] if one.forward else []),
        f'reverse = {{ rate = "100mbit", qdisc = "pfifo limit 1000"{back} }}',
        "",
        "[[flow]]",
        'kind = "bulk"',
        f"count = {one.flows}",
        f'cc = "{one.cc}"',
        'start = "uniform 0s..1s"',
        "",
    ]
    return "\n".join(lines)


def files() -> dict[Path, str]:
    """Returns all files with their contents."""
    points = drawn()
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow([one.name for one in fields(Point)])
    lines.writerows(asdict(one).values() for one in points)
    return {FOLDER / f"netem/{one.name}.toml": scenario(one) for one in points} | {
        FOLDER / "netem.csv": table.getvalue()
    }


def main(arguments: list[str]) -> int:
    """Freezes the set."""
    return freeze(files(), FOLDER / "netem.csv", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
