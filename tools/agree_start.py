"""The simulator against the real kernel, on every scenario of scenarios/ that both can play: a table and a picture.

    tools/agree_start.py [--print] [--again] [NAME…]

Plays each scenario (or those of these names) in both worlds with the same seeds, keeps the numbers of each run in
docs/explanation/sim-and-kernel.csv, writes the table into docs/explanation/sim-and-kernel.md (with --print only to
stdout) and draws docs/explanation/sim-and-kernel.png. What has its numbers already is not played again, unless with
--again. The beginning of a verb that says for any scenario how well the worlds agree.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from pages import filled

from sojourn import _core, plot
from sojourn.kernel import find
from sojourn.kernel.run import Guests
from sojourn.plan import load
from sojourn.worlds import playable

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/sim-and-kernel.md"
NUMBERS, PICTURE = PAGE.with_suffix(".csv"), PAGE.with_suffix(".png")
BEGIN, END = "<!-- table: written by tools/agree_start.py -->", "<!-- end of the table -->"
BEGIN_SINGLE, END_SINGLE = "<!-- second table: written by tools/agree_start.py -->", "<!-- end of the second table -->"
SEEDS = 3
JOBS = 2
WORLDS = ("sim", "kernel", "single")
PACKET_BY_PACKET = ("host.gso_max_segs", "1")
"""Linux's TCP hands bursts down; so it sends as the simulator does."""
FIXED_WINDOWS = {"ack-per-window", "standing-queue"}
"""Linux has no window that never changes."""
MEASURES = {
    "goodput": "goodput Mbit/s",
    "busy": "link busy %",
    "mean": "sojourn mean ms",
    "p50": "p50 ms",
    "p95": "p95 ms",
    "drops": "drops",
}


@dataclass(frozen=True)
class Row:
    """A run's numbers at the hop that it is about."""

    scenario: str
    what: str
    """What distinguishes the combination: the discipline's line."""
    world: str
    seed: int
    goodput: float
    busy: float
    mean: float
    p50: float
    p95: float
    drops: float


@dataclass
class Pair:
    """A combination in the worlds: `sim`, `kernel`, and `single`, the kernel that sends packet by packet."""

    scenario: str
    what: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """By world."""

    def mean(self, world: str, measure: str) -> float:
        """The mean over the seeds."""
        return float(np.mean([getattr(row, measure) for row in self.rows[world]]))

    def difference(self, measure: str, world: str = "kernel") -> float:
        """A world's mean over the simulator's, less one."""
        sim, other = self.mean("sim", measure), self.mean(world, measure)
        return other / sim - 1 if sim else 0.0 if other == sim else float("inf")


# ---- playing ----


def row(scenario: str, world: str, output: _core.Output) -> Row:
    """The numbers at the rightward hop where packets wait longest."""
    run = output.result()
    hops = {name: hop for name, hop in run["hops"].items() if not name.endswith(".reverse")}
    hop = max(hops.values(), key=lambda one: one["sojourn_ms"]["mean"])
    sojourn = hop["sojourn_ms"]
    return Row(
        scenario=scenario,
        what=", ".join(str(value) for key, value in run["set"].items() if key != PACKET_BY_PACKET[0]),
        world=world,
        seed=run["seed"],
        goodput=sum(flow["goodput_mbit"] or 0 for flow in run["flows"]),
        busy=100 * hop["utilisation"],
        mean=sojourn["mean"],
        p50=sojourn["p50"],
        p95=sojourn["p95"],
        drops=hop["drops"],
    )


def play(name: str, wanted: Sequence[str]) -> list[Row]:
    """A scenario in these worlds: all combinations that the kernel can play, all seeds."""
    plan, single = (load(ROOT / f"scenarios/{name}.toml", sets, 1, SEEDS) for sets in ((), (PACKET_BY_PACKET,)))
    guests = Guests()
    both, _ = playable(guests, plan)

    def simulated(index: int) -> _core.Output | None:
        return plan.run(index, series=False)

    def real(asked: _core.Plan) -> Callable[[int], _core.Output | None]:
        def one(index: int) -> _core.Output | None:
            played = guests.play(asked, index, _core.Progress(), packets=False, series=False)
            return played.output if played else None

        return one

    worlds: dict[str, Callable[[int], _core.Output | None]] = {
        "sim": simulated,
        "kernel": real(plan),
        "single": real(single),
    }

    def one(job: tuple[str, int]) -> Row:
        output = worlds[job[0]](job[1])
        assert output is not None
        return row(name, job[0], output)

    with ThreadPoolExecutor(max_workers=JOBS) as pool:
        return list(pool.map(one, [(world, index) for world in wanted for index in both]))


def now() -> str:
    """What plays, for the first line of the numbers and the picture's foot."""
    kernel = find()
    return f"seeds 1–{SEEDS}  ·  sim against Linux {kernel.release}, {kernel.hz} Hz  ·  sojourn {_core.__version__}"


def write(about: str, rows: Sequence[Row]) -> None:
    """What played, then one line a run, six digits."""
    with NUMBERS.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {about}\n")
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([one.name for one in fields(Row)])
        for one in rows:
            numbers = [f"{getattr(one, measure):.6g}" for measure in MEASURES]
            lines.writerow([one.scenario, one.what, one.world, one.seed, *numbers])


def read() -> tuple[str, list[Row]]:
    """What `write` wrote; nothing if it did not."""
    if not NUMBERS.exists():
        return now(), []
    with NUMBERS.open(newline="", encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip(), [
            Row(
                one["scenario"],
                one["what"],
                one["world"],
                int(one["seed"]),
                *(float(one[measure]) for measure in MEASURES),
            )
            for one in csv.DictReader(file)
        ]


# ---- showing ----


def pairs(rows: Sequence[Row]) -> list[Pair]:
    """Combinations in the order in which they were played."""
    found: dict[tuple[str, str], Pair] = {}
    for one in rows:
        pair = found.setdefault((one.scenario, one.what), Pair(one.scenario, one.what))
        pair.rows.setdefault(one.world, []).append(one)
    return list(found.values())


def cell(pair: Pair, measure: str) -> str:
    """`sim / kernel, difference`; a difference of more than a tenth stands out."""
    sim, kernel = number(pair.mean("sim", measure)), number(pair.mean("kernel", measure))
    return f"{sim} / {kernel}, {apart(pair.difference(measure))}"


def number(value: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def apart(difference: float) -> str:
    """A difference in percent; more than a tenth stands out."""
    text = f"{100 * difference:+.0f} %" if abs(difference) >= 0.095 else f"{100 * difference:+.1f} %"
    return f"**{text}**" if abs(difference) >= 0.1 else text


def table(chosen: Sequence[Pair]) -> str:
    """In Markdown."""
    head = ["scenario", "varied", *MEASURES.values()]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for pair in chosen:
        cells = [cell(pair, measure) for measure in MEASURES]
        lines.append(f"| {pair.scenario} | {pair.what or '–'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def single_table(chosen: Sequence[Pair]) -> str:
    """The kernel that sends packet by packet against the simulator: differences only."""
    measures = {key: head for key, head in MEASURES.items() if key != "busy"}
    lines = [f"| scenario | varied | {' | '.join(measures.values())} |", "|" + "---|" * (2 + len(measures))]
    for pair in chosen:
        if "single" not in pair.rows:
            continue
        cells = [
            f"{apart(pair.difference(key))} → {apart(pair.difference(key, 'single'))}".replace("**", "")
            for key in measures
        ]
        lines.append(f"| {pair.scenario} | {pair.what or '–'} | {' | '.join(cells)} |")
    return "\n".join(lines)


SHOWN = {"goodput": "o", "mean": "D", "p95": "s", "drops": "x"}
NAMES = {"goodput": "goodput", "mean": "mean sojourn", "p95": "95th percentile of the sojourn", "drops": "drops"}
INKS = {"goodput": "#13866f", "mean": "#1f6fb4", "p95": "#6a3fa0", "drops": "#d1495b"}


def draw(chosen: Sequence[Pair], about: str) -> bytes:
    """A row a combination: the kernel's number over the simulator's, on a logarithmic axis."""
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 1.5 + 0.27 * len(chosen)), layout="constrained")
        axis = figure.add_subplot()
        axis.axvspan(1 / 1.1, 1.1, color=plot.PALE, zorder=0)
        axis.axvline(1, color=plot.QUIET, linewidth=0.8)
        for measure, marker in SHOWN.items():
            values = [1 + pair.difference(measure) for pair in chosen]
            axis.plot(
                values, range(len(chosen)), marker, color=INKS[measure], markersize=6, label=NAMES[measure], alpha=0.9
            )
        single = [row for row, pair in enumerate(chosen) if "single" in pair.rows]
        values = [1 + chosen[row].difference("mean", "single") for row in single]
        axis.plot(values, single, "D", color=INKS["mean"], fillstyle="none", markersize=6, label="…, packet by packet")
        axis.set_yticks(range(len(chosen)), labels(chosen))
        axis.set_ylim(len(chosen) - 0.5, -0.5)
        axis.set_xscale("log")
        axis.set_xticks([0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3])
        axis.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{100 * (value - 1):+.0f} %" if value != 1 else "0")
        )
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel("the kernel's number against the simulator's; the band is ± 10 %")
        axis.legend(loc="lower center", bbox_to_anchor=(0.35, 1.0), ncols=5, frameon=False)
        figure.supxlabel(f"scenarios/*.toml  ·  {about}", fontsize="small", color=plot.QUIET)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110, metadata={"Software": None})
        return data.getvalue()


SAME_EVERYWHERE = re.compile(r" (variant|limit|flow_limit|quantum|initial_quantum) \S+| noecn| nopacing")


def labels(chosen: Sequence[Pair]) -> list[str]:
    """Scenario and discipline, without what distinguishes nothing."""
    short = [f"{pair.scenario}:  {SAME_EVERYWHERE.sub('', pair.what)}" for pair in chosen]
    return [
        label if short.count(label) == 1 else f"{pair.scenario}:  {pair.what}"
        for label, pair in zip(short, chosen, strict=True)
    ]


def main(arguments: Sequence[str]) -> int:
    """Plays what is missing, and shows it."""
    names = [word for word in arguments if not word.startswith("--")]
    all_of_them = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml") if path.stem not in FIXED_WINDOWS)
    about, rows = now(), []
    if "--again" not in arguments or names:
        about, rows = read()
    for name in names or all_of_them:
        if "--again" in arguments:
            rows = [one for one in rows if one.scenario != name]
        missing = [world for world in WORLDS if not any((one.scenario, one.world) == (name, world) for one in rows)]
        if missing and about != now():
            print(f"{NUMBERS.name} is of {about}, this is {now()}: --again plays all anew", file=sys.stderr)
            return 2
        if missing:
            print(f"playing {name}: {', '.join(missing)}", file=sys.stderr)
            rows += play(name, missing)
            rows.sort(key=lambda one: (all_of_them.index(one.scenario), WORLDS.index(one.world)))
            write(about, rows)
    chosen = pairs(rows)
    if "--print" in arguments:
        print(table(chosen))
        return 0
    PICTURE.write_bytes(draw(chosen, about))
    page = PAGE.read_text(encoding="utf-8")
    for begin, end, made in ((BEGIN, END, table(chosen)), (BEGIN_SINGLE, END_SINGLE, single_table(chosen))):
        page = filled(page, begin, end, made)
    PAGE.write_text(page, encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
