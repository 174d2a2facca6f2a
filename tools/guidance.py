"""Measures the recommended settings on slow, long and fast links: plays the lines of tools/guidance.toml and writes
tools/guidance.csv.

Two downloads with CUBIC and pings share a link. For each discipline there are two lines per link: the default (the line
of its picture in the file, or the bare name), and the one that guidance.toml recommends."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import sojourn as sj

HERE = Path(__file__).resolve().parent
ADVICE, MEASURED = HERE / "guidance.toml", HERE / "guidance.csv"
LINKS = ("slow", "long", "fast")
SCENARIO = """\
title = "{title}"
duration = "{duration}"
measure = {measure}

[[hop]]
name = "link"
rate = "{rate}"
qdisc = "pfifo"

[[flow]]
kind = "bulk"
count = 2
rtt = "{rtt}"
start = "uniform 0s..1s"

[[flow]]
name = "ping"
kind = "pings"
interval = "50ms"
rtt = "{rtt}"

[sweep]
"hop.link.qdisc" = {lines}
"""
SEEDS = 3
HEADS = ("link", "line", "busy_percent", "ping_p95_ms", "sojourn_p95_ms")


def advice() -> dict[str, Any]:
    """Returns the content of guidance.toml."""
    return tomllib.loads(ADVICE.read_text(encoding="utf-8"))


def plain(name: str, one: Mapping[str, Any]) -> str | None:
    """Returns a discipline's default line; None for a shaper, which needs the link's rate."""
    drawn = [line for line in one.get("picture", ()) if line.split()[0] == name]
    return None if name in ("tbf", "htb") else drawn[0] if drawn else name


def lines(told: Mapping[str, Any], link: str) -> list[str]:
    """Returns all lines that are played over a link."""
    asked = [line for name, one in told.items() for line in (plain(name, one), one[link][0]) if line]
    return list(dict.fromkeys(asked))


def play(folder: Path, link: str, played: Sequence[str]) -> list[list[str]]:
    """Returns a row for each line on a link, with means over the seeds."""
    about = advice()["links"][link]
    file = folder / f"{link}.toml"
    file.write_text(SCENARIO.format(**about, lines=json.dumps(list(played))), encoding="utf-8")
    base = float(about["rtt"].removesuffix("ms"))
    found: dict[str, list[tuple[float, float, float]]] = {}
    for record in sj.run(file, seeds=SEEDS, series=False).runs:
        hop = record.result["hops"]["link"]
        (ping,) = [flow for flow in record.result["flows"] if flow["name"] == "ping"]
        numbers = (100 * hop["utilisation"], ping["rtt_ms"]["p95"] - base, hop["sojourn_ms"]["p95"])
        found.setdefault(record.result["set"]["hop.link.qdisc"], []).append(numbers)
    return [
        [link, line, *(f"{fmean(values):.4g}" for values in zip(*runs, strict=True))] for line, runs in found.items()
    ]


def measured() -> dict[tuple[str, str], dict[str, float]]:
    """Returns the content of guidance.csv, by link and line."""
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return {
            (row["link"], row["line"]): {head: float(row[head]) for head in HEADS[2:]} for row in csv.DictReader(file)
        }


def main() -> int:
    """Plays all lines, and prints where the results are."""
    with tempfile.TemporaryDirectory() as folder:
        told = advice()["disciplines"]
        found = [row for link in LINKS for row in play(Path(folder), link, lines(told, link))]
    with MEASURED.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *found])
    print(MEASURED.relative_to(HERE.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
