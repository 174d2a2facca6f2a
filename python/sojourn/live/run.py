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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from sojourn import _core, programs
from sojourn.errors import Refusal
from sojourn.kernel.guest import End, supervise
from sojourn.kernel.run import COUNTED, PLAYED, SEEN, Played, digest, played_s
from sojourn.records import TRUTH

JOB, ENDED, CAPTURED = "job.json", "ended.json", "captured.pcapng"
PROGRAM = "sojourn-live"
PATIENCE_S = 60.0
"""Seconds that a run may take longer than its simulated time, for its set-up and its end."""
SHAPER = "htb rate 1mbit"
"""A line of the discipline that has the link's rate with the engine `tc`."""
TC_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
"""Where `sojourn-live` looks for tc."""
ALONE = threading.Lock()
"""One run at a time: two runs would take the processors from each other."""


Engine = Literal["ours", "tc"]
"""The owner of the queues' disciplines: this program, or this host's kernel by `tc`."""


_REASONS: dict[str, str | None] = {}
"""Why this host's kernel cannot set up a line's discipline; None if it can."""
_ASKING = threading.Lock()


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
    engine: Engine = "ours"
    """The owner of the queues' disciplines."""
    name: ClassVar[str] = "live"

    def key(self, _plan: _core.Plan, _index: int) -> dict[str, str]:
        """The host's kernel, the program that plays the path, and the owner of the queues' disciplines."""
        return {"linux": platform.release(), "live_digest": digest(find_program()), "engine": self.engine}

    def refusal(self, plan: _core.Plan, index: int) -> str | None:
        """Returns the reason why this host cannot play a run, or None if it can."""
        return refusal(plan, index, self.engine)

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
            "asker": os.getpid(),
            "engine": self.engine,
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
            move(folder / CAPTURED, self.capture / f"{index:04d}.pcapng")
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
        return Played(output, end.wall_s, self.key(plan, index) | {TRUTH: truth_of(answer, self.engine)})


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
            move(file, kept[what])
        queue: dict[str, str | None] = {what: file.name for what, file in kept.items()}
        if "options" in replay:
            queue["replay"] = shlex.join(["sojourn", "replay", str(kept["trace"]), *replay["options"]])
        else:
            queue |= {"replay": None, "why": replay["why"]}
        queues[replay["queue"]] = queue
    (traces / f"{run}.json").write_text(json.dumps({"queues": queues}, indent=1) + "\n")


def refusal(plan: _core.Plan, index: int, engine: Engine) -> str | None:
    """Returns the reason why this host cannot play a run with this engine, or None if it can."""
    reason = plan.live_refusal(index, engine)
    if reason is not None or engine == "ours":
        return reason
    lines = [SHAPER, *plan.disciplines(index)]
    try:
        lacking = lacking_in_kernel(lines)
    except Refusal as error:
        return str(error)
    return next((f"qdisc = {line}: {lacking[line]}" for line in lines if line in lacking), None)


def lacking_in_kernel(lines: Iterable[str]) -> dict[str, str]:
    """Returns the disciplines that this host's kernel, or its `tc`, cannot set up, each with the reason. Raises Refusal
    if this cannot be found out.
    """
    if shutil.which("tc", path=TC_PATH) is None:
        raise Refusal("--engine tc: expected the program tc; install iproute2")
    asked = list(dict.fromkeys(lines))
    with _ASKING:
        if new := [line for line in asked if line not in _REASONS]:
            lacking = _lacking(new)
            _REASONS.update({line: lacking.get(line) for line in new})
        return {line: reason for line in asked if (reason := _REASONS[line]) is not None}


def _lacking(lines: list[str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="sojourn-live-") as temporary:
        folder = Path(temporary)
        (folder / JOB).write_text(json.dumps({"disciplines": lines}))
        command, environment = [str(find_program()), temporary], {"PATH": os.environ.get("PATH", "")}
        end = supervise(command, "/", environment, cpu=None, timeout_s=PATIENCE_S, stop=lambda: False, pinned=False)
        return {line: _lack(line, said) for line, said in answer_of(folder, end)["lacking"].items()}


def _lack(line: str, said: str) -> str:
    """The meaning of the answer of `tc` about a discipline."""
    # tc repeats the command that failed, which has one of the line's disciplines.
    words = said.replace(":", " ").split()
    kinds = [part.split()[0] for part in line.split(" child ")]
    kind = next((one for one in kinds if one in words), kinds[0])
    if "kind is unknown" in said:
        return f"the kernel of this host, Linux {platform.release()}, has no {kind}; {module_of(kind)}"
    if "Unknown qdisc" in said:
        return f"tc of this host does not know {kind}; a later iproute2, or a plug-in of tc, may"
    return said


def module_of(kind: str) -> str:
    """Says what may add a discipline to the kernel."""
    return f"modprobe sch_{kind} may add it"


def move(file: Path, to: Path) -> None:
    """Moves a file, also to another disk; if that has no room, nothing is left there. An OSError names the new file."""
    try:
        shutil.move(file, to)
    except OSError as error:
        to.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(to)) from error


def truth_of(answer: dict[str, Any], engine: Engine) -> str:
    """Returns what a run says about its truth, as JSON."""
    return json.dumps({"engine": engine} | answer["truth"])


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
