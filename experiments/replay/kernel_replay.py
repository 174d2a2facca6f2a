"""Plays traces through the queue disciplines of real kernels and through ours, and compares each packet's fate.

It records what came of each discipline, of all or of those that are named, in kernel-replay.csv, and writes the
tables in README.md. The traces are those of crates/oracle (twenty made for CoDel, twenty of
1 to 500 flows, twenty crowds), those of 1 to 500 flows with changes of the discipline's parameters on the way (with
`--changes` only these), and what the fading link sees.
"""

from __future__ import annotations

import csv
import itertools
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np

from sojourn import _core
from sojourn.errors import Refusal
from sojourn.kernel import Kernel, find
from sojourn.kernel.replay import replay
from sojourn.plan import load

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PAGE, RECORD = FOLDER / "README.md", FOLDER / "kernel-replay.csv"
MADE, FADING, CHANGED = "the made traces", "the fading link's", "the made traces with changes of parameters"
BEGIN, END = "<!-- table: written by experiments/replay/kernel_replay.py -->", "<!-- end of table -->"
VERSIONS = ("7", "6.12", "6.1")
"""Newest first: the first plays all traces, the others those with many flows. One that is not built is left out."""
MTU = 1514
PACKETS = 100_000
"""Number of packets in each trace."""
LINES = {
    "fq_codel": (
        "fq_codel limit 1000",
        "fq_codel limit 300 flows 64 noecn",
        "fq_codel limit 10240 target 65ms interval 300ms",
        "fq_codel limit 1000 quantum 300 memory_limit 300000 drop_batch 16",
        "fq_codel limit 500 ce_threshold 10ms",
    ),
    "fq": (
        "fq limit 1000",
        "fq limit 300 quantum 3028 initial_quantum 3028",
        "fq limit 10000 flow_limit 20",
        "fq limit 1000 orphan_mask 15",
        "fq limit 1000 quantum 600 initial_quantum 600 ce_threshold 20ms refill_delay 5ms",
        "fq limit 1000 maxrate 200kbit",
        "fq limit 3000 flow_limit 30 maxrate 3mbit orphan_mask 63 low_rate_threshold 5mbit",
    ),
    "ccaq": ("ccaq", "ccaq limit 300 flows 64 noecn", "ccaq quantum 300 memory_limit 300000 idle 0.5%"),
    "ccaq variant paper": ("ccaq variant paper", "ccaq variant paper limit 500 flow_limit 20 max_gi 50ms"),
    "pie": (
        "pie limit 1000",
        "pie limit 300 ecn target 5ms",
        "pie limit 1000 bytemode alpha 8 beta 30",
        "pie limit 10000 tupdate 30ms ecn",
        "pie limit 1000 dq_rate_estimator",
        "pie limit 500 tupdate 400ms target 65ms",
    ),
    "fq_pie": (
        "fq_pie limit 1000",
        "fq_pie limit 300 flows 64 ecn target 5ms",
        "fq_pie limit 10240 flows 5000 bytemode alpha 8 beta 30 quantum 300",
        "fq_pie limit 10000 tupdate 30ms ecn ecn_prob 30",
        "fq_pie limit 1000 flows 16 dq_rate_estimator memory_limit 100k",
        "fq_pie limit 500 tupdate 400ms target 65ms flows 3000",
    ),
    "dualpi2": (
        "dualpi2 limit 1000",
        "dualpi2 limit 300 overflow any_ect",
        "dualpi2 limit 10000 target 5ms tupdate 4ms alpha 0.5 beta 6 step_thresh 3p min_qlen_step 2",
        "dualpi2 drop_enqueue memlimit 200000 classic_protection 40%",
        "dualpi2 limit 2000 max_rtt 300ms coupling_factor 5 step_thresh 20ms",
        "dualpi2 limit 1000 typical_rtt 5ms classic_protection 90% any_ect",
    ),
    "pfifo": ("pfifo limit 100",),
    "bfifo": ("bfifo limit 150000",),
    "pfifo_head_drop": ("pfifo_head_drop limit 100",),
    "sfq": (
        "sfq",
        "sfq limit 1000 depth 127 flows 500",
        "sfq limit 300 divisor 64 quantum 600 headdrop",
        "sfq limit 100 depth 20 divisor 16 headdrop",
        "sfq limit 2000 depth 60 flows 20 quantum 4500",
    ),
    "red": (
        "red limit 600000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1",
        "red limit 600000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1 ecn",
        "red limit 150000 min 15000 max 120000 avpkt 500 burst 100 bandwidth 8mbit ecn harddrop",
        "red limit 400000 ecn nodrop",
        "red limit 1000000 min 100000 max 300000 avpkt 1000 bandwidth 2mbit",
    ),
    "choke": (
        "choke limit 1000 bandwidth 10mbit",
        "choke limit 300 bandwidth 10mbit min 20 max 60 burst 40 probability 0.1 ecn",
        "choke limit 1000 bandwidth 2mbit min 5 max 200 burst 20 probability 0.5",
        "choke limit 8200 bandwidth 8mbit min 30 max 90 burst 60 ecn",
    ),
    "sfb": (
        "sfb limit 1000",
        "sfb limit 300 max 60 target 30 increment 0.005 decrement 0.0005",
        "sfb limit 1000 max 400 target 50 increment 0.02 decrement 0.001 penalty_rate 100 penalty_burst 10",
    ),
    "cake": (
        "cake",
        "cake besteffort flows",
        "cake besteffort memlimit 200000",
        "cake rtt 10ms dual-srchost memlimit 400000",
        "cake metro flowblind",
        "cake hosts rtt 300ms memlimit 1000000",
        "cake interplanetary dual-dsthost nat memlimit 100000",
        "cake srchost rtt 30ms",
        "cake bandwidth 7mbit diffserv8 atm overhead 40 mpu 64",
        "cake bandwidth 3mbit diffserv4 ingress overhead 0 memlimit 300000",
        "cake bandwidth 1mbit precedence wash ptm ethernet ether-vlan",
        "cake bandwidth 20mbit besteffort dsthost raw rtt 20ms",
    ),
    "prio": ("prio", "prio bands 4 priomap 3 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"),
    "tbf": (
        "tbf rate 5mbit burst 5000 limit 60000",
        "tbf rate 1500kbit burst 20000 latency 50ms",
        "tbf rate 30mbit burst 100000 limit 200000 peakrate 33mbit mtu 1514",
        "tbf rate 8mbit burst 1514 limit 30000 overhead 18 mpu 64",
        "tbf rate 4mbit burst 4000 child pfifo_head_drop limit 100",
    ),
    "htb": (
        "htb rate 5mbit",
        "htb rate 1500kbit ceil 3mbit burst 20000 cburst 3000 child codel limit 300",
        "htb rate 30mbit burst 1514 child fq limit 1000",
    ),
}
"""Lines of each discipline, used in turn; those of codel are given by its traces."""
CHANGES = {
    "codel": """
        limit 1 | limit 5 | limit 40 | limit 1000 | limit 300 target 1ms interval 20ms | target 65ms |
        interval 300ms | target 5ms interval 100ms | ecn | noecn | ce_threshold 2ms | limit 100 ecn target 2ms
        """,
    "fq_codel": """
        limit 1 | limit 30 | limit 10240 | memory_limit 40000 | memory_limit 32Mb | quantum 300 | quantum 9000 |
        target 1ms interval 20ms | target 65ms | interval 300ms | ecn | noecn | drop_batch 1 |
        drop_batch 64 limit 500 | ce_threshold 2ms | limit 1000 memory_limit 500000
        """,
    "fq": """
        limit 1 | limit 30 | limit 3000 | flow_limit 2 | flow_limit 100 | quantum 300 | quantum 9000 |
        initial_quantum 1514 | orphan_mask 7 | orphan_mask 1023 | buckets 32 | buckets 8192 | refill_delay 4ms |
        ce_threshold 2ms | limit 500 flow_limit 50 quantum 3028
        """,
    "fq maxrate": """
        maxrate 200kbit | maxrate 3mbit | low_rate_threshold 5mbit | low_rate_threshold 0 | limit 20 | nopacing
        | pacing | limit 3000 | maxrate 30mbit | quantum 300 | buckets 32 | orphan_mask 15
        """,
    "ccaq": """
        limit 1 | limit 50 | limit 5000 | memory_limit 40000 | memory_limit 32Mb | quantum 300 | quantum 9000 |
        idle 0.1% | idle 5% | idle 1% | ecn | noecn | limit 500 memory_limit 500000
        """,
    "ccaq variant paper": """
        limit 1 | limit 50 | limit 5000 | flow_limit 3 | flow_limit 60 | max_gi 5ms | multiplier 0.5 |
        multiplier 3 max_increase 4 | max_gi_rtts 4 | quantum 300 | initial_quantum 1514
        """,
    "pie": """
        limit 1 | limit 30 | limit 1000 | target 1ms | target 65ms | tupdate 1ms | tupdate 30ms | ecn |
        tupdate 400ms | alpha 32 beta 32 | alpha 1 beta 5 | noecn | bytemode | nobytemode | dq_rate_estimator |
        limit 300 target 15ms tupdate 15ms
        """,
    "fq_pie": """
        limit 1 | limit 30 | limit 1000 | target 1ms | target 65ms | tupdate 1ms | tupdate 30ms | ecn |
        tupdate 400ms | alpha 32 beta 32 | alpha 1 beta 5 | noecn | bytemode | nobytemode | ecn_prob 60 ecn |
        dq_rate_estimator | quantum 300 | memory_limit 10000 | limit 300 quantum 9000
        """,
    "pfifo": """
        limit 1 | limit 10 | limit 70 | limit 200 | limit 5000
        """,
    "bfifo": """
        limit 1 | limit 2000 | limit 60000 | limit 400000
        """,
    "pfifo_head_drop": """
        limit 1 | limit 10 | limit 70 | limit 200 | limit 5000
        """,
    "red": """
        limit 600000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit probability 0.1 |
        limit 200000 min 15000 max 45000 avpkt 1000 burst 30 ecn | limit 100000 min 5000 max 90000 avpkt 500 |
        limit 5000 min 1500 max 4000 avpkt 1000 burst 3 probability 0.5 | limit 400000 avpkt 1000 ecn nodrop |
        limit 300000 min 20000 max 60000 avpkt 1000 burst 40 ecn harddrop
        """,
    "choke": """
        limit 1000 bandwidth 10mbit | limit 100 bandwidth 10mbit min 5 max 60 burst 40 probability 0.5 ecn |
        limit 70 bandwidth 10mbit min 4 max 25 burst 8 ecn | limit 1000 bandwidth 2mbit min 5 max 200 burst 20 |
        limit 8200 bandwidth 8mbit min 30 max 90 burst 60 | limit 300 bandwidth 10mbit min 2 max 10 burst 3
        """,
    "sfb": """
        limit 1000 | limit 300 max 60 target 30 increment 0.005 decrement 0.0005 | limit 20 |
        limit 1000 max 400 target 50 increment 0.02 decrement 0.001 penalty_rate 100 penalty_burst 10
        """,
    "dualpi2": """
        limit 1 | limit 30 | limit 10000 | memlimit 50000 | limit 300 memlimit 900000 | target 1ms | tupdate 4ms
        | alpha 0.5 beta 6 | max_rtt 300ms | typical_rtt 5ms | step_thresh 3p | step_thresh 20ms | any_ect |
        min_qlen_step 3 | coupling_factor 5 | classic_protection 60% | overflow | drop_on_overload |
        drop_enqueue
        """,
    "prio": """
        bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1 | bands 3 | bands 8 priomap 7 6 5 4 3 2 1 0 7 |
        bands 3 priomap 0 1 2 2 1 0 0 0 1 | bands 16 priomap 15 14 13 12 11
        """,
    "tbf": """
        rate 5mbit burst 5000 limit 60000 | rate 30mbit burst 1514 limit 1514 |
        rate 1mbit burst 20000 latency 50ms | rate 8mbit burst 90000 limit 300000 peakrate 9mbit mtu 1514 |
        rate 2mbit burst 2000 limit 20000 overhead 18 | rate 6mbit burst 1000 limit 90000
        """,
}
"""Parameters that change on the way, by discipline; fq has others where it has a `maxrate`."""
HOLD_BACK = re.compile("tbf|htb|cake bandwidth|.* maxrate ")
"""Lines of disciplines that hold packets back although the link asks: a trace says when it does."""
SINCE = {"dualpi2": (6, 17)}
MAIN_JOB = ("codel limit 830", "fq_codel limit 830", "fq limit 830")


@dataclass(frozen=True)
class Trace:
    """A trace, as written by crates/oracle."""

    file: Path
    name: str
    rate: str | None

    @property
    def codel(self) -> str:
        """The line that its plan names."""
        return "codel" + self.name.split(", codel")[1].removesuffix(", tied")


@dataclass(frozen=True)
class Played:
    """The comparison of a trace through one discipline, in a kernel and here."""

    discipline: str
    packets: int
    drops: int
    marks: int
    differences: int
    first: str


def play(kernel: Kernel, trace: Trace, line: str) -> Played:
    """Plays a trace. Every packet's fate and time must be the same; the reason of a drop is known only here."""
    data, line = trace.file.read_bytes(), _core.as_in(line, kernel.version)
    if line.startswith("dualpi2"):
        data = from_zero(data)
    rate = f"{trace.rate}bit" if trace.rate else None
    if trace.rate and HOLD_BACK.match(line):
        data, rate = asked_steadily(data, int(trace.rate)), None
    theirs, *_ = replay(data, trace.file.name, line, rate=rate, mtu=MTU, kernel=kernel)
    ours, *_ = _core.replay(data, trace.file.name, line, rate, MTU)
    pairs = [(_fate(a), _fate(b)) for a, b in zip(theirs.splitlines()[1:], ours.splitlines()[1:], strict=True)]
    unlike = [f"{a!r} {b!r}" for a, b in pairs if a != b]
    fates = [b[-1] for _, b in pairs]
    first = f"{trace.name}, {line}: {unlike[0]}" if unlike else ""
    return Played(discipline_of(line), len(pairs), fates.count("dropped"), fates.count("marked"), len(unlike), first)


def from_zero(data: bytes) -> bytes:
    """Shifts a trace to begin with its first packet.

    dualpi2 re-arms its timer relative to its last expiry, which is a nanosecond late in the guest. After hours,
    expiries coincide with ticks, and a timer that is due less than 500 ns after another one is late in the guest."""
    header, *rows = data.splitlines()
    pairs = [row.split(b",", 1) for row in rows]
    first = int(pairs[0][0]) if pairs else 0
    return b"\n".join([header, *(b"%d,%s" % (int(at) - first, rest) for at, rest in pairs)]) + b"\n"


def asked_steadily(data: bytes, rate_bps: int) -> bytes:
    """Adds dequeues to a trace, at the times of a link that sends 1000 bytes in between."""
    header, *rows = data.splitlines()
    timed = [(int(row.split(b",", 1)[0]), row) for row in rows]
    first, last, step = timed[0][0], timed[-1][0], 8_000_000_000_000 // rate_bps
    asks = [(at, b"%d,dequeue,,," % at) for at in range(first + step // 3, last + 2_000_000_000, step)]
    # At equal times, arrivals come first.
    return b"\n".join([header, *(row for _, row in sorted(timed + asks, key=itemgetter(0)))]) + b"\n"


def _fate(row: bytes) -> tuple[str, ...]:
    fields = row.decode().split(",")
    return (*fields[:-1], fields[-1].split(":")[0])


def written(folder: Path) -> list[Trace]:
    """Returns the traces of crates/oracle."""
    command = ["cargo", "run", "--locked", "--quiet", "--release", "-p", "sojourn-oracle", "--example", "traces"]
    subprocess.run([*command, "--", str(folder), str(PACKETS)], cwd=ROOT, check=True)
    with (folder / "index.csv").open() as file:
        return [Trace(folder / row["file"], row["name"], row["rate_bps"] or None) for row in csv.DictReader(file)]


def discipline_of(line: str) -> str:
    """Returns the key in LINES of a line: the discipline, with the variant if that is a discipline of its own."""
    return next((name for name in LINES if " " in name and line.startswith(name)), line.split()[0])


def with_changes(folder: Path, trace: Trace, line: str) -> Trace:
    """Adds one to five changes of the discipline's parameters to a trace, some of them at the time of an arrival."""
    kind = line.split()[0]
    pool = CHANGES["fq maxrate" if " maxrate " in line else discipline_of(line)].split("|")
    draw = random.Random(f"{trace.name} {line}")
    header, *rows = trace.file.read_bytes().splitlines()
    times = [int(row.split(b",", 1)[0]) for row in rows]
    places = sorted(draw.randrange(len(rows) // 20, len(rows)) for _ in range(draw.randint(1, 5)))
    for place in reversed(places):
        at = times[place] if draw.random() < 0.5 else draw.randint(times[place - 1], times[place])
        words = f"{at},change,{kind} {draw.choice(pool).strip()},,".encode()
        rows.insert(place, words)
    file = folder / f"changed-{discipline_of(line).replace(' ', '-')}-{trace.file.name}"
    file.write_bytes(b"\n".join([header, *rows]) + b"\n")
    return Trace(file, trace.name, trace.rate)


def changed(folder: Path, traces: list[Trace]) -> list[tuple[Trace, str]]:
    """Returns the pairs of disciplines and traces with changes."""
    pairs = []
    for kind in [kind for kind in CHANGES if kind != "fq maxrate"]:
        lines = LINES.get(kind, ("codel", "codel limit 300 target 10ms ecn"))
        for number, trace in enumerate(traces):
            line = lines[number % len(lines)]
            pairs.append((with_changes(folder, trace, line), line))
    return pairs


def of_the_main_job(folder: Path) -> list[tuple[Trace, str]]:
    """Returns the arrivals and dequeues of the fading link's queue in the simulator, with each discipline."""
    pairs = []
    for line in MAIN_JOB:
        output = load(ROOT / "scenarios/fading-link.toml", [("hop.bottleneck.qdisc", line)], 1, 1).run(0, packets=True)
        assert output is not None
        seen = output.packets()
        there = seen["link"] == 0
        arrival, start, end, flow, size = (
            seen[name][there] for name in ("arrival_ns", "start_ns", "end_ns", "connection", "bytes")
        )
        sent = seen["fate"][there] == 0
        asks = np.unique(np.concatenate([start[sent], end[sent]]))
        rows = [(at, 0, f"{at},enqueue,{f},{b},0") for at, f, b in zip(arrival, flow, size, strict=True)]
        rows += [(at, 1, f"{at},dequeue,,,") for at in asks]
        file = folder / f"main-{line.split()[0]}.csv"
        file.write_text(
            "\n".join(["time_ns,op,flow,bytes,ecn", *(row for _, _, row in sorted(rows, key=itemgetter(0, 1)))])
        )
        pairs.append((Trace(file, f"fading-link, {line}", None), line))
    return pairs


def asked(traces: list[Trace], kernel: Kernel) -> list[tuple[Trace, str]]:
    """Returns the pairs of disciplines and traces."""
    pairs = [(trace, trace.codel) for trace in traces]
    for kind, lines in LINES.items():
        if kernel.version >= SINCE.get(kind, kernel.version):
            pairs += [(trace, lines[number % len(lines)]) for number, trace in enumerate(traces)]
    return pairs


def summed(kernel: Kernel, where: str, played: list[Played]) -> dict[str, str]:
    """Returns a row of the record: the results of one discipline's traces."""
    sums = {name: sum(getattr(one, name) for one in played) for name in ("packets", "drops", "marks", "differences")}
    many = sum(one.drops > 1000 for one in played)
    row = {"kernel": kernel.release, "where": where, "discipline": played[0].discipline, "traces": len(played)}
    return {name: str(value) for name, value in (row | sums | {"over_1000_drops": many}).items()}


def noted(row: dict[str, str]) -> None:
    """Adds a row to the record, replacing an earlier one, and rewrites the tables of the page."""
    rows = recorded()
    rows[row["kernel"], row["where"], row["discipline"]] = row
    with RECORD.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    PAGE.write_text(filled(PAGE.read_text(), BEGIN, END, tables(list(rows.values()))))


def recorded() -> dict[tuple[str, str, str], dict[str, str]]:
    """Returns the rows by kernel, traces and discipline."""
    if not RECORD.exists():
        return {}
    with RECORD.open() as file:
        return {(row["kernel"], row["where"], row["discipline"]): row for row in csv.DictReader(file)}


def tables(rows: list[dict[str, str]]) -> str:
    """Formats a table for each kernel and kind of traces, with the newest kernel first and one row per discipline."""
    order = ["codel", *LINES]
    kernels = sorted({row["kernel"] for row in rows}, key=lambda name: [-int(n) for n in name.split(".")[:2]])
    parts = []
    for kernel, where in itertools.product(kernels, (MADE, CHANGED, FADING)):
        its = [row for row in rows if (row["kernel"], row["where"]) == (kernel, where)]
        if its:
            parts += [f"Linux {kernel}, {where}:", ""]
            parts += [
                "| discipline | traces | packets | drops | marks | traces with over 1000 drops | packets that differ |"
            ]
            parts += ["|---|--:|--:|--:|--:|--:|--:|"]
        for row in sorted(its, key=lambda row: order.index(row["discipline"])):
            names = ("traces", "packets", "drops", "marks", "over_1000_drops", "differences")
            numbers = [f"{int(row[name]):,}".replace(",", " ") for name in names]
            parts.append(f"| {row['discipline']} | " + " | ".join(numbers) + " |")
        parts += [""] if its else []
    return "\n".join(parts).rstrip()


def main() -> int:
    """Returns 0 if nothing differs."""
    found = []
    only = [word for word in sys.argv[1:] if word != "--changes"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        traces = written(Path(folder))
        many = [trace for trace in traces if trace.file.name.startswith("flows")]
        main_job = [] if only else of_the_main_job(Path(folder))
        for version in VERSIONS:
            try:
                kernel = find(version=version)
            except Refusal as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            pairs = asked(traces if version == VERSIONS[0] else many, kernel)
            changing = changed(Path(folder), many) if version == VERSIONS[0] else []
            for where, kind, its in grouped(MADE, pairs) + grouped(CHANGED, changing) + grouped(FADING, main_job):
                if (only and kind not in only) or (where != CHANGED and "--changes" in sys.argv):
                    continue
                played = list(pool.map(lambda pair, kernel=kernel: play(kernel, *pair), its))
                row = summed(kernel, where, played)
                noted(row)
                print(*row.values(), *(one.first for one in played if one.first), sep="\n  ", flush=True)
                found += [one for one in played if one.first]
    return 1 if found else 0


def grouped(where: str, pairs: list[tuple[Trace, str]]) -> list[tuple[str, str, list[tuple[Trace, str]]]]:
    """Groups the pairs by discipline."""
    kinds = dict.fromkeys(discipline_of(line) for _, line in pairs)
    return [(where, kind, [pair for pair in pairs if discipline_of(pair[1]) == kind]) for kind in kinds]


if __name__ == "__main__":
    sys.exit(main())
