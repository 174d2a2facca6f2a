#!/usr/bin/env python3
"""Prints a digest of each scenario's results, so that `diff` shows whether a change moved any of them.

    tools/digests.py [--command SOJOURN] [--every N] > after

The scenarios that come with sojourn are played as they stand and with every packet; a digest covers the JSON and the
columns of each Parquet file, but not the versions in a file's metadata. The scenarios by which the simulator is held
against Linux (experiments/agree) are played with their first seed, in the simulator: they cover every discipline,
congestion control and kind of traffic. With --every 5 only each fifth scenario is played.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent


def digest_of(columns: Path) -> str:
    """Digest of a Parquet file's names, types and values."""
    table = pq.read_table(columns).replace_schema_metadata(None).combine_chunks()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(stream.getvalue()).hexdigest()


def digests(command: str, scenario: Path) -> Iterator[tuple[str, str]]:
    """A scenario's digests: of the JSON, and of each file of results."""
    own = scenario.parent == ROOT / "scenarios"
    name = str(scenario.relative_to(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        asked = [command, "run", str(scenario), "--seeds", "1", "-f", "json"]
        asked += ["--out", str(out), "--packets"] if own else []
        played = subprocess.run(asked, capture_output=True, text=True, check=False)
        if played.returncode != 0:
            yield name, f"exit code {played.returncode}: {played.stderr.strip().splitlines()[-1]}"
            return
        yield name, hashlib.sha256(played.stdout.encode()).hexdigest()
        for path in sorted(out.rglob("*.parquet")):
            yield f"{name} {path.relative_to(out)}", digest_of(path)


def main() -> None:
    """Plays them on all cores, and prints their digests in order."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--command", default=str(ROOT / ".venv/bin/sojourn"))
    asked.add_argument("--every", type=int, default=1, metavar="N")
    options = asked.parse_args()
    scenarios = sorted((ROOT / "scenarios").glob("*.toml")) + sorted((ROOT / "experiments/agree").glob("*/*.toml"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda one: list(digests(options.command, one)), scenarios[:: options.every]):
            for name, value in found:
                print(f"{value}  {name}", flush=True)


if __name__ == "__main__":
    main()
