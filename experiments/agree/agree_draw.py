"""Draws the scenarios by which the simulator is held against Linux: once, before the model is touched.

    experiments/agree/agree_draw.py [--print] [held-back | held-back-2 | held-back-3 | held-back-4 | held-back-5]

Writes experiments/agree/drawn/*.toml (80 points of a seeded Latin hypercube), experiments/agree/ranks/*.toml (8 points,
each with all disciplines) and experiments/agree/drawn.csv, what was drawn and which class each scenario is of. They are
frozen: a test compares the files with what this script draws. `agree_draw.py held-back` draws twenty more in
their place, with another seed, which nobody looked at while the model was worked on; `held-back-2` twenty more again,
after the model had been changed for what the first showed too; `held-back-3` forty more, so that as many are held back
as were drawn; `held-back-4` forty again, after the model had been changed for what those showed; `held-back-5` forty
again, after the simulator's senders had got a send buffer.

A scenario is **hard** by this rule, frozen with them:

- `fast`: above 500 Mbit/s;
- `starved`: less than half a packet of the path's own BDP a flow: windows under a packet, recovery by timeout;
- `lone`: one flow, and a queue of more than four times the BDP that nothing but its end controls (pfifo, fq, sfq).
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from scipy.stats import qmc

FOLDER = Path(__file__).resolve().parent
SEED, SCENARIOS = 8290, 80
RANKS_SEED, RANKS = 8289, 8
HELD_BACK = {
    "held-back": (9438, 20),
    "held-back-2": (20261123, 20),
    "held-back-3": (20261125, 40),
    "held-back-4": (20261126, 40),
    "held-back-5": (202611262, 40),
}
"""Seeds, and how many; from the second on the seed is the day of the draw (a 2 behind it: the second of that day)."""
PACKET = 1514
"""A full packet with its Ethernet header, in bytes."""
MIXES = ("bulk", "bulk web", "bulk download", "bulk thin", "web download thin")
CONTROLS = ("reno", "cubic", "bbr")
DISCIPLINES = (
    "small pfifo", "large pfifo", "red", "pie", "codel", "fq_codel", "fq", "sfq", "cake", "dualpi2", "ccaq",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One drawn scenario: rate in Mbit/s, base RTT in ms, and the buffer in BDP (for disciplines that need one)."""

    name: str
    rate: float
    rtt: float
    flows: int
    buffer: float
    discipline: str
    cc: str
    ecn: bool
    mix: str

    @property
    def bdp(self) -> float:
        """The BDP in full packets."""
        return self.rate * self.rtt * 1000 / 8 / PACKET

    @property
    def limit(self) -> int:
        """Limit of a FIFO in packets."""
        return max(4, math.ceil(self.buffer * self.bdp))

    @property
    def uncontrolled(self) -> float:
        """Maximum number of packets in a queue that is limited only by its length."""
        return {"small pfifo": self.limit, "large pfifo": self.limit, "fq": 100 * self.flows, "sfq": 127}.get(
            self.discipline, 0
        )

    @property
    def hard(self) -> str:
        """The class of a hard scenario; empty for others."""
        if self.rate > 500:
            return "fast"
        if self.bdp / self.flows < 0.5:
            return "starved"
        return "lone" if self.flows == 1 and self.uncontrolled > 4 * self.bdp else ""


# ---- drawing ----


def spread(low: float, high: float, part: float) -> float:
    """Interpolates logarithmically between two values."""
    return low * (high / low) ** part


def drawn(seed: int, count: int) -> list[Point]:
    """Draws points of a Latin hypercube: each eleventh of an axis has an eleventh of them."""
    axes = qmc.LatinHypercube(d=8, rng=seed).random(count)
    return [point(f"{number + 1:02d}", list(row)) for number, row in enumerate(axes)]


def point(name: str, row: list[float]) -> Point:
    """Converts eight numbers in [0, 1) to a scenario."""
    rate, rtt, flows, buffer, discipline, cc, ecn, mix = row
    chosen = DISCIPLINES[int(discipline * len(DISCIPLINES))]
    low, high = {"small pfifo": (1 / 8, 1), "large pfifo": (2, 8)}.get(chosen, (1, 4))
    return Point(
        name=name,
        rate=float(f"{spread(0.5, 1000, rate):.3g}"),
        rtt=float(f"{spread(5, 600, rtt):.3g}"),
        flows=min(100, round(spread(0.5, 100.5, flows) + 0.5)),
        buffer=float(f"{spread(low, high, buffer):.3g}"),
        discipline=chosen,
        cc=CONTROLS[int(cc * len(CONTROLS))],
        ecn=ecn >= 0.5,
        mix=MIXES[int(mix * len(MIXES))],
    )


# ---- writing ----


def qdisc(one: Point, discipline: str) -> str:
    """Returns the line of a discipline. Limits are tc's defaults, unless tc has none."""
    ecn = " ecn" if one.ecn else ""
    if discipline == "red":
        # At most a thousand packets: Linux's average has 32 bits.
        most = min(1_500_000, max(30_000, round(one.bdp * PACKET / 2)))
        least = most // 3
        burst = (2 * least + most) // (3 * PACKET) + 1
        return (
            f"red limit {4 * most} min {least} max {most} avpkt {PACKET} burst {burst} "
            f"probability 0.02 bandwidth {one.rate:g}mbit{ecn}"
        )
    return {
        "small pfifo": f"pfifo limit {one.limit}",
        "large pfifo": f"pfifo limit {one.limit}",
        "pie": f"pie{ecn}",
        "codel": f"codel{ecn}",
        "fq_codel": "fq_codel" + ("" if one.ecn else " noecn"),
        "fq": "fq nopacing",
        "sfq": "sfq",
        "cake": "cake",
        "dualpi2": "dualpi2",
        "ccaq": "ccaq variant paper",
    }[discipline]


def flows(one: Point) -> Iterator[str]:
    """Yields the [[flow]] tables of the mix."""
    common = (
        f'cc = "{one.cc}"\necn = {str(one.ecn).lower()}\nrtt = "{one.rtt:g}ms"\njitter = "{one.rtt / 20:.3g}ms"\n'
        'start = "uniform 0s..1s"\n'
    )
    if "bulk" in one.mix:
        yield f'[[flow]]\nkind = "bulk"\ncount = {one.flows}\n{common}'
    if "web" in one.mix:
        # A fifth of the link's rate, with the 11 kB of a PackMime connection.
        rate = min(100.0, max(0.2, 0.2 * one.rate * 1e6 / 88_000))
        yield f'[[flow]]\nkind = "web"\nrate = {rate:.3g}\n{common}'
    if "download" in one.mix:
        # Each download would last two seconds at its share of the link.
        size = max(30_000, round(2 * one.rate * 1e6 / 8 / one.flows, -3))
        yield f'[[flow]]\nkind = "download"\ncount = {one.flows}\nsize = {size:.0f}\ngap = "exp 2s"\n{common}'
    if "thin" in one.mix:
        yield f'[[flow]]\nkind = "thin"\ncount = 2\nsize = 150\ninterval = "300ms"\n{common}'


def scenario(one: Point, disciplines: tuple[str, ...]) -> str:
    """Returns the text of the scenario file."""
    warm = math.ceil(max(5.0, 20 * one.rtt / 1000))
    window = min(60.0, max(20.0, 0.2 * one.rtt), 1.5e6 * 12_000 / (one.rate * 1e6))
    lines = [
        # Frozen as well: a kept run is found by the text of its scenario.
        "# Drawn by tools/agree_draw.py and frozen: not to be edited.",
        f'title = "{one.mix.replace(" ", ", ")}: {one.flows} {one.cc} at {one.rate:g} Mbit/s, {one.rtt:g} ms"',
        f'duration = "{warm + math.ceil(window)}s"',
        f'measure = ["{warm}s", "end"]',
        "",
        "[host]",
        'rmem = "256mb"',
        'wmem = "256mb"',
        "",
        "[[hop]]",
        'name = "bottleneck"',
        f'rate = "{one.rate:g}mbit"',
        f'delay = "{one.rtt / 4:.4g}ms"',
        f'qdisc = "{qdisc(one, disciplines[0])}"',
        'reverse = { qdisc = "pfifo limit 1000" }',
        "",
        *flows(one),
    ]
    if len(disciplines) > 1:
        lines += ["[sweep]", '"hop.bottleneck.qdisc" = [']
        lines += [*(f'  "{qdisc(one, each)}",' for each in disciplines), "]", ""]
    return "\n".join(lines)


def ranked(one: Point) -> tuple[str, ...]:
    """Returns the disciplines of a ranking, with one pfifo, which is small or large depending on the buffer."""
    pfifo = "large pfifo" if one.buffer > 1 else "small pfifo"
    return (pfifo, *DISCIPLINES[2:])


def files(which: str = "drawn") -> dict[Path, str]:
    """Returns all files with their contents."""
    points = drawn(*(SEED, SCENARIOS) if which == "drawn" else HELD_BACK[which])
    made = {FOLDER / f"{which}/{one.name}.toml": scenario(one, (one.discipline,)) for one in points}
    if which == "drawn":
        made |= {FOLDER / f"ranks/{one.name}.toml": scenario(one, ranked(one)) for one in drawn(RANKS_SEED, RANKS)}
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow([*(one.name for one in fields(Point)), "hard"])
    lines.writerows([*asdict(one).values(), one.hard] for one in points)
    return made | {FOLDER / f"{which}.csv": table.getvalue()}


def freeze(wanted: dict[Path, str], table: Path, arguments: list[str]) -> int:
    """Writes the missing files, and reports those that differ. With `--print` it prints the table only."""
    if "--print" in arguments:
        print(wanted[table], end="")
        return 0
    changed = [path for path, text in wanted.items() if path.exists() and path.read_text(encoding="utf-8") != text]
    if changed:
        print(f"frozen and not what is drawn: {', '.join(path.name for path in changed)}", file=sys.stderr)
        return 1
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(wanted)} files in {FOLDER.name}")
    return 0


def main(arguments: list[str]) -> int:
    """Freezes one of the sets."""
    which = next((name for name in HELD_BACK if name in arguments), "drawn")
    return freeze(files(which), FOLDER / f"{which}.csv", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
