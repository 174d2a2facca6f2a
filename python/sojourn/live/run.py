"""Plays runs of a scenario in the world `live`. The program `sojourn-live` plays each run, and the files that it writes
become the result.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sojourn import _core, programs
from sojourn.errors import Refusal
from sojourn.kernel.guest import End, supervise
from sojourn.kernel.run import COUNTED, PLAYED, SEEN, Played, digest, played_s

JOB, ENDED, CAPTURED = "job.json", "ended.json", "captured.pcapng"
PROGRAM = "sojourn-live"
PATIENCE_S = 60.0
"""Seconds that a run may take longer than its simulated time, for its set-up and its end."""
ALONE = threading.Lock()
"""One run at a time: two runs would take the processors from each other."""


@dataclass(frozen=True)
class Hosts:
    """The world `live`."""

    keep: Path | None = None
    """The folder in which the runs' own files are kept, in one folder for each run. None: they are deleted."""
    capture: Path | None = None
    """The folder for captures of the links' packets: one file, NNNN.pcapng, for each run. None: no captures."""
    traces: Path | None = None
    """The folder for the traces of the queues that had packets. For each run and queue: NNNN.QUEUE.csv with the
    arrivals for a replay, and NNNN.QUEUE.fates.csv with the fates, as the replay prints them. NNNN.json has the
    commands of the replays. None: no traces."""
    name: ClassVar[str] = "live"

    def key(self, _plan: _core.Plan, _index: int) -> dict[str, str]:
        """The host's kernel, and the program that plays the path."""
        return {"linux": platform.release(), "live_digest": digest(find_program())}

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Returns the reason why this host cannot play a run, or None if it can."""
        return plan.live_refusal(index)

    def play(
        self, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        """Plays a run in real time, and reads the files that it wrote. Returns None if it was stopped."""
        with ALONE, tempfile.TemporaryDirectory(prefix="sojourn-live-") as temporary:
            folder = self.keep / f"{index:04d}" if self.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            return self._play_in(folder, plan, index, progress, packets=packets, series=series)

    def _play_in(
        self, folder: Path, plan: _core.Plan, index: int, progress: _core.Progress, *, packets: bool, series: bool
    ) -> Played | None:
        duration_s = plan.runs[index]["duration_s"]
        job = json.loads(plan.kernel_job(index, sink="program"))
        job |= {
            "capture": self.capture is not None,
            "traced": self.traces is not None,
            "temporary": self.keep is None,
        }
        (folder / JOB).write_text(json.dumps(job))
        (folder / ENDED).unlink(missing_ok=True)

        def watch() -> bool:
            progress.tell(played_s(folder))
            return progress.stopped

        command, limit_s = [str(find_program()), str(folder.resolve())], duration_s + PATIENCE_S
        # The programs of a scenario have the environment and the working directory of this process.
        end = supervise(command, ".", dict(os.environ), cpu=None, timeout_s=limit_s, stop=watch, pinned=False)
        if end.verdict == "stop":
            return None
        answer = answer_of(folder, end)
        if self.capture:
            self.capture.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / CAPTURED, self.capture / f"{index:04d}.pcapng")
        if self.traces:
            keep_traces(folder, self.traces, f"{index:04d}", answer["replays"])
        output = plan.observe(
            index,
            (folder / PLAYED).read_bytes(),
            folder / SEEN,
            (folder / COUNTED).read_bytes(),
            answer["origin_ns"],
            world="live",
            packets=packets,
            series=series,
        )
        progress.tell(duration_s)
        return Played(output, end.wall_s, self.key(plan, index) | truth_words(answer["truth"]))


def keep_traces(folder: Path, traces: Path, run: str, replays: list[dict[str, Any]]) -> None:
    """Moves the traces of the queues that had packets to the folder `traces`, and writes the commands that replay them.

    `replays` has for each link its name, and the options of `sojourn replay` or the reason why there are none.
    """
    traces.mkdir(parents=True, exist_ok=True)
    queues: dict[str, dict[str, str | None]] = {}
    for link, replay in enumerate(replays):
        found = {"trace": folder / f"{link}.trace.csv", "fates": folder / f"{link}.fates.csv"}
        if found["trace"].stat().st_size == 0:
            continue
        name = f"{run}.{replay['queue']}"
        kept = {"trace": traces / f"{name}.csv", "fates": traces / f"{name}.fates.csv"}
        for what, file in found.items():
            shutil.move(file, kept[what])
        queue: dict[str, str | None] = {what: file.name for what, file in kept.items()}
        if "options" in replay:
            queue["replay"] = shlex.join(["sojourn", "replay", str(kept["trace"]), *replay["options"]])
        else:
            queue |= {"replay": None, "why": replay["why"]}
        queues[replay["queue"]] = queue
    (traces / f"{run}.json").write_text(json.dumps({"queues": queues}, indent=1) + "\n")


def truth_words(truth: dict[str, Any]) -> dict[str, str]:
    """Returns what a run's record says about its truth, in words. `invalid` is there only if the run is not valid."""
    late = ", ".join(f"{share} {value:g}" for share, value in truth["late_us"].items() if value is not None)
    words = {
        "late_us": late or "no frame left",
        "realtime": "yes" if truth["realtime"] else "no",
        "cpu_share": f"{truth['cpu_share']:.2f}",
    }
    return words if truth["valid"] else words | {"invalid": "; ".join(truth["reasons"])}


def answer_of(folder: Path, end: End) -> dict[str, Any]:
    """Returns the program's answer. Raises Refusal if it has none, or if it is an error."""
    if end.verdict == "time":
        raise Refusal(f"{PROGRAM} did not end in time and was killed")
    try:
        answer = json.loads((folder / ENDED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = end.console.strip().splitlines()[-1:] or ["it said nothing"]
        raise Refusal(f"{PROGRAM} ended (exit code {end.exit}) without an answer; its last words: {last[0]}") from None
    if not answer["ok"]:
        raise Refusal(answer["error"])
    return dict(answer)


def find_program() -> Path:
    """Returns the program that plays a run's path."""
    return programs.find(PROGRAM)
