"""Measures how exactly the live world keeps delays and rates, and writes the tables of README.md.

    python experiments/live/accuracy.py [--trials N] [--rattan PROGRAM]

It takes about three minutes. Play on a host that does nothing else. A path's delay and rate are measured from outside
of the program, by datagrams that the kernel stamps (probe.py). With --rattan the same datagrams pass a path of that
program, in turns. The results are in accuracy.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

import sojourn as sj
from sojourn.link import Link, plan_of
from sojourn.live.run import find_program
from sojourn.records import write_text

HERE = Path(__file__).resolve().parent
PROBE = [sys.executable, str(HERE / "probe.py")]
PORT, STARTS_S = 9000, 0.5
HEADERS = 14 + 20 + 8
"""Bytes that the link counts in addition to a datagram's payload: Ethernet, IPv4, UDP."""
RATE, DELAY_MS, COUNT, GAP_US, SIZE = 100_000_000, 10, 3000, 1000, 100
"""The path of the delays: bit/s, one way in ms. And the datagrams: their number, gap in us, payload in bytes."""
BACKLOG_S = 10
"""Seconds in which a rate is measured, with a backlog."""
RATES = (1_000_000, 10_000_000, 100_000_000)
FULL = 1458
"""The payload of a datagram in bytes with which the link counts 1500."""
SHARES = (50, 90, 99)
UNHURRIED = '#!/bin/sh\nexec setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice {program} "$@"\n'
"""Starts the program without the right to real-time scheduling, which root has."""

Rows = NDArray[np.int64]


@contextmanager
def without_realtime() -> Iterator[None]:
    """The program has no real-time scheduling within the block."""
    before = os.environ.get("SOJOURN_LIVE")
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder) / "sojourn-live"
        wrapper.write_text(UNHURRIED.format(program=find_program()))
        wrapper.chmod(0o755)
        os.environ["SOJOURN_LIVE"] = str(wrapper)
        try:
            yield
        finally:
            os.environ.pop("SOJOURN_LIVE") if before is None else os.environ.update(SOJOURN_LIVE=before)


def pass_link(rate: int, count: int, gap_us: float, size: int, seconds: float) -> tuple[Rows, dict[str, Any]]:
    """Sends datagrams from the server to the client of a link. Returns what arrived, and the link's truth."""
    with (
        Link(plan_of(f"{rate}bit", f"{2 * DELAY_MS}ms", "pfifo limit 1000")) as link,
        tempfile.TemporaryFile("w+") as out,
    ):
        words = [*PROBE, "receive", str(PORT), str(count), str(seconds)]
        receiver = link.popen(words, stdout=out)
        time.sleep(STARTS_S)
        link.popen([*PROBE, "send", link.client, str(PORT), str(count), str(gap_us), str(size)], at="server").wait()
        receiver.wait()
        out.seek(0)
        rows = read(out.read())
    return rows, link.truth


def read(text: str) -> Rows:
    """Returns the receiver's lines as rows."""
    return np.array([line.split() for line in text.splitlines()], dtype=np.int64)


def delay_errors(rows: Rows) -> NDArray[np.float64]:
    """Returns for each datagram by how many microseconds it took longer than it should."""
    due = DELAY_MS * 1e6 + (SIZE + HEADERS) * 8e9 / RATE
    return np.asarray((rows[:, 2] - rows[:, 1] - due) / 1e3)


def quantiles(values: NDArray[np.float64]) -> dict[str, float]:
    """Returns the quantiles and the maximum of times."""
    found = {f"p{share}": round(float(np.percentile(values, share)), 1) for share in SHARES}
    return found | {"max": round(float(values.max()), 1)}


def own_delays() -> dict[str, Any]:
    """Measures the delays of a path of ours."""
    rows, truth = pass_link(RATE, COUNT, GAP_US, SIZE, COUNT * GAP_US / 1e6 + 3)
    return {
        "error_us": quantiles(delay_errors(rows)),
        "late_us": truth["late_us"],
        "realtime": truth["realtime"],
        "cpu_share": truth["cpu_share"],
        "lost": COUNT - len(rows),
    }


def of_rattan(program: Path) -> dict[str, Any]:
    """Measures the delays of a path of rattan's with the same rate and delay. Its right end is this host."""
    path = ["--uplink-delay", f"{DELAY_MS}ms", "--uplink-bandwidth", f"{RATE // 1_000_000}Mbps"]
    send = f"sleep {STARTS_S}; {shlex.join(PROBE)} send $RATTAN_BASE {PORT} {COUNT} {GAP_US} {SIZE}"
    receive = [*PROBE, "receive", str(PORT), str(COUNT), str(COUNT * GAP_US / 1e6 + 4)]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
        words = [str(program), "link", *path, "--", "sh", "-c", send]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        rows = read(receiver.communicate()[0])
    if not rows.size:
        raise SystemExit(f"{program}: no datagram arrived: {done.stderr[-400:]}")
    return {"error_us": quantiles(delay_errors(rows)), "lost": COUNT - len(rows)}


def departure_rate(rate: int) -> dict[str, Any]:
    """Measures the rate at which a link with a backlog delivers, at the receiver."""
    gap_us = (FULL + HEADERS) * 8e6 / rate / 1.1
    count = int(BACKLOG_S * 1e6 / gap_us)
    rows, truth = pass_link(rate, count, gap_us, FULL, BACKLOG_S + 3)
    # The first datagrams do not find a backlog.
    rows = rows[len(rows) // 10 :]
    bits = float((rows[1:, 3] + HEADERS).sum() * 8)
    measured = bits / float(rows[-1, 2] - rows[0, 2]) * 1e9
    return {"rate": measured, "error": measured / rate - 1, "packets": len(rows), "cpu_share": truth["cpu_share"]}


def gigabit() -> dict[str, Any]:
    """Plays TCP at 1 Gbit/s."""
    hop = {"name": "link", "rate": "1gbit", "qdisc": "fq_codel"}
    flow = {"kind": "bulk", "name": "bulk", "cc": "cubic", "count": 4, "rtt": "10ms"}
    plan = sj.load({"title": "gigabit", "duration": "10s", "measure": ["2s", "end"], "hop": [hop], "flow": [flow]})
    [run] = sj.run(plan, world="live", on=1).runs
    goodput = sum(one["goodput_mbit"] for one in run.result["flows"])
    return {"goodput_mbit": goodput, "utilisation": run.result["hops"]["link"]["utilisation"], **run.truth}


def measure(trials: int, rattan: Path | None) -> dict[str, Any]:
    """Measures everything; the delays in turns."""
    delays: dict[str, list[dict[str, Any]]] = {}
    for _ in range(trials):
        delays.setdefault("real-time scheduling", []).append(own_delays())
        with without_realtime():
            delays.setdefault("without it", []).append(own_delays())
        if rattan is not None:
            delays.setdefault("rattan", []).append(of_rattan(rattan))
    return {
        "delays": delays,
        "rates": {str(rate): departure_rate(rate) for rate in RATES},
        "gigabit": [gigabit() for _ in range(trials)],
    }


def tables(found: Mapping[str, Any]) -> str:
    """Returns the tables of README.md."""
    lines = ["| delay of 10 ms, 100 Mbit/s | p50 | p90 | p99 | max | of the processor |", "|---|--:|--:|--:|--:|--:|"]
    for name, trials in found["delays"].items():
        # The trial whose median is in the middle.
        middle = sorted(trials, key=lambda one: one["error_us"]["p50"])[len(trials) // 2]
        cells = [f"{middle['error_us'][share]:g}" for share in ("p50", "p90", "p99", "max")]
        lines.append(f"| {name}, µs too late | {' | '.join(cells)} | {share_of(middle)} |")
    lines += ["", "| rate with a backlog | measured | error | of the processor |", "|---|--:|--:|--:|"]
    for rate, one in found["rates"].items():
        row = f"{one['rate'] / 1e6:.5f} Mbit/s | {one['error']:+.4%} | {share_of(one)}"
        lines.append(f"| {int(rate) / 1e6:g} Mbit/s, {one['packets']} packets | {row} |")
    for one in found["gigabit"]:
        valid = "valid" if one["valid"] else f"not valid: {'; '.join(one['reasons'])}"
        row = f"goodput {one['goodput_mbit']:.0f} Mbit/s | {valid} | {share_of(one)}"
        lines.append(f"| 1 Gbit/s, 4 CUBIC, 10 ms, fq_codel | {row} |")
    return "\n".join(lines)


def share_of(one: Mapping[str, Any]) -> str:
    """Returns the share of a processor in words."""
    return f"{float(one['cpu_share']):.2f}" if "cpu_share" in one else "–"


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--rattan", type=Path, metavar="PROGRAM")
    asked = parser.parse_args()
    head = {"trials": asked.trials, "linux": platform.release(), "cores": os.cpu_count(), "version": version("sojourn")}
    found = {**head, **measure(asked.trials, asked.rattan)}
    write_text(HERE / "accuracy.json", json.dumps(found, indent=1) + "\n")
    origin = (
        f"{asked.trials} trials  ·  Linux {head['linux']}, {head['cores']} processors  ·  sojourn {head['version']}"
    )
    page = HERE / "README.md"
    begin, end = "<!-- accuracy: written by accuracy.py -->", "<!-- end of accuracy -->"
    write_text(page, filled(page.read_text(encoding="utf-8"), begin, end, f"{origin}\n\n{tables(found)}"))
    print(tables(found))


if __name__ == "__main__":
    main()
