"""How many packets a CPU-second: this simulator, ns-3 and ns-2, FIFO against FIFO, in one run on one machine.

    benches/peers.py [--shorter N] [--write] [P1 P2 …]

The same link, flows, congestion control and buffer (P1 to P5, see `sojourn bench`) for all three; for the others two
nodes with nothing but the link between them, no trace and no callback. P4's flows are three bulk ones for the others.
Packets are those of data that arrived; CPU time is the run's: ns-3's without its start-up, ns-2's with it (some
milliseconds). ns-3 is its wheel from the Python package index, put into a virtual environment in the cache folder; ns-2
is the system's `ns` (Debian: ns2). A simulator that is missing is left out, with a message. --shorter divides the
others' simulated time. --write records what was measured in experiments/speed/peers.csv, in place of the rows of the
same benches, and the table in README.md there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE.parent / "experiments/speed/peers.csv"
PAGE = RECORD.with_name("README.md")
BEGIN, END = "<!-- table: written by benches/peers.py -->\n\n", "\n\n<!-- end of the table -->\n"
HEADS = ("bench", "shorter", "sojourn", "ns-3", "ns-2")
"""Columns of the record: packets per CPU second, and the number by which the others' simulated time was divided."""
NS3 = "ns3==3.44.post0"


@dataclass(frozen=True)
class Bench:
    """A scenario with the parameters that the other simulators need; times in seconds, the RTT in milliseconds."""

    rate: int
    rtt_ms: int
    flows: int
    seconds: float
    limit: int
    starts: float
    cc: str = "cubic"
    iw: int = 10

    def words(self, shorter: float) -> list[str]:
        """Returns the arguments of run.tcl and run_ns3.py."""
        seconds = self.seconds / shorter
        numbers = [self.rate, self.rtt_ms, self.flows, seconds, self.limit, self.starts, self.cc, self.iw]
        return [str(one) for one in numbers]


BENCHES = {
    "P1": Bench(100_000_000, 100, 4, 60, 6667, 1),
    "P2": Bench(10_000_000, 100, 50, 300, 667, 1),
    "P3": Bench(1_000_000_000, 50, 10, 30, 33_334, 1),
    "P4": Bench(1_000_000, 300, 3, 300, 25, 1, "reno", 3),
    "P5": Bench(10_000_000_000, 20, 100, 5, 133_334, 0.1),
}
Run = Callable[[str, float], tuple[int, float]]
"""A function that runs a bench and returns packets and CPU seconds."""


def ours(name: str, _shorter: float) -> tuple[int, float]:
    """Runs this simulator; returns the smallest CPU time of five runs."""
    beside = Path(sys.executable).parent / "sojourn-bench"
    program = str(beside) if beside.exists() else shutil.which("sojourn-bench")
    if program is None:
        sys.exit("peers: sojourn-bench is not there: 'make build' makes it, and this needs the Python of its folder")
    found = json.loads(subprocess.run([program, name, "--fifo"], capture_output=True, text=True, check=True).stdout)
    return found["packets"], found["cpu_s"]


def ns2(name: str, shorter: float) -> tuple[int, float]:
    """Runs the system's ns-2."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["ns", str(HERE / "peers/run.tcl"), *BENCHES[name].words(shorter)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    # ns-2's agents may print text before or after the result.
    answer = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return json.loads(answer)["packets"], cpu_s


def ns3(python: Path) -> Run:
    """Returns a function that runs ns-3 with this Python."""

    def run(name: str, shorter: float) -> tuple[int, float]:
        command = [str(python), str(HERE / "peers/run_ns3.py"), *BENCHES[name].words(shorter)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        return found["packets"], found["cpu_s"]

    return run


def ns3_python() -> Path:
    """Returns a Python with ns-3's wheel, which is installed on the first call."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "sojourn/peers" / NS3.replace("==", "-")
    python = place / "bin/python"
    if not (place / "ready").exists():
        print(f"peers: {NS3} into {place}", file=sys.stderr)
        venv.create(place, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", NS3], check=True)
        (place / "ready").touch()
    return python


def recorded() -> list[dict[str, str]]:
    """Reads the recorded results."""
    with RECORD.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(rows: Sequence[dict[str, str]]) -> str:
    """Formats rows of the record as a table, with the ratio to the rates of the others."""
    who = [head for head in HEADS[2:] if any(row.get(head) for row in rows)]
    others = [head for head in who if head != "sojourn"]
    heads = ["bench", *(f"{name}, packets/CPU-s" for name in who), *(f"of {name}" for name in others)]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for row in rows:
        label = row["bench"] + (f" (others 1/{row['shorter']} as long)" if row["shorter"] != "1" else "")
        cells = [f"{int(row[name]):,}" if row.get(name) else "–" for name in who]
        cells += [f"{int(row['sojourn']) / int(row[name]):,.1f} ×" if row.get(name) else "–" for name in others]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(rows: Sequence[dict[str, str]]) -> None:
    """Replaces rows of the record, and the table in the page."""
    kept = {row["bench"]: row for row in (recorded() if RECORD.exists() else [])}
    kept |= {row["bench"]: row for row in rows}
    every = [kept[name] for name in BENCHES if name in kept]
    with RECORD.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + table(every) + END + rest.split(END)[1], encoding="utf-8")


def main() -> int:
    """Returns 0, even if one of the others is not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shorter", type=float, default=1, help="divides the others' simulated time")
    parser.add_argument("names", nargs="*", metavar="P1", help="which; all by default")
    parser.add_argument("--write", action="store_true", help="records the results in experiments/speed")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(BENCHES):
        parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(BENCHES)}")
    runs: dict[str, Run] = {"sojourn": ours}
    try:
        runs["ns-3"] = ns3(ns3_python())
    except subprocess.CalledProcessError as error:
        print(f"peers: no ns-3: {error}", file=sys.stderr)
    if shutil.which("ns"):
        runs["ns-2"] = ns2
    else:
        print("peers: no ns-2: there is no program ns (Debian: apt install ns2)", file=sys.stderr)
    rows = []
    for name in asked.names or BENCHES:
        row = {"bench": name, "shorter": f"{asked.shorter:g}"}
        for who, run in runs.items():
            packets, cpu_s = run(name, asked.shorter)
            row[who] = f"{packets / cpu_s:.0f}"
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    print(table(rows))
    if asked.write:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
