"""The live world: runs between real hosts, links that are up for programs, and what is left of them: nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sojourn as sj
from conftest import ROOT, SOJOURN, Run, live_or_skip, skip_loudly
from sojourn import _core, doctor, watch
from sojourn.errors import Refusal
from sojourn.link import Link, plan_of
from sojourn.live.run import Hosts, find_program, lacking_in_kernel
from sojourn.screen import wrapped

HOW_TO = "docs/how-to/run-a-program-behind-a-link.md"
SCENARIO = """\
title = "A live link"
duration = "2s"
[[hop]]
name = "bottleneck"
rate = "20mbit"
delay = "5ms"
qdisc = "fq_codel"
[[flow]]
kind = "bulk"
name = "bulk"
rtt = "20ms"
count = 2
[[flow]]
kind = "pings"
name = "ping"
rtt = "20ms"
interval = "20ms"
"""


@pytest.fixture(scope="module")
def live() -> None:
    """Skips where this host cannot play the live world."""
    live_or_skip()


@pytest.fixture(scope="module")
def shared(live: None) -> Iterator[Link]:
    """A link for tests that leave it as it is."""
    with Link(plan_of("20mbit", "20ms")) as up:
        yield up


@pytest.fixture
def link(live: None) -> Iterator[Link]:
    with Link(plan_of("20mbit", "20ms")) as up:
        yield up


# ---- runs ----


def test_a_run_has_the_measures_of_every_world_and_says_how_true_it_is(
    live: None, sojourn: Run, tmp_path: Path
) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    (run,) = json.loads(sojourn("run", file, "--world", "live", "-f", "json").stdout)["runs"]
    assert run["world"] == "live"
    hop = run["hops"]["bottleneck"]
    assert hop["delivered_packets"] > 1000, "at 20 Mbit/s in two seconds"
    assert 0.5 < hop["utilisation"] <= 1.0
    assert {flow["name"] for flow in run["flows"]} == {"bulk.0", "bulk.1", "ping"}
    assert all(flow["goodput_mbit"] > 1 for flow in run["flows"] if flow["kind"] == "bulk")
    ping = next(flow for flow in run["flows"] if flow["kind"] == "pings")
    assert ping["rtt_ms"]["p50"] >= 20.0, "no packet is early"
    assert hop["stats"]["packets"] >= hop["delivered_packets"]
    said = run["live"]
    assert said["late_us"]["p50"] <= said["late_us"]["p99"]
    assert said["valid"] == (said["reasons"] == [])
    assert (said["engine"], said["late_arrivals_us"]["p50"]) == ("ours", None)
    assert {"realtime", "cpu_share", "frames_in", "ring_drops", "latest_act_us", "clock_step_us"} <= set(said)


def test_a_capture_has_every_packet_with_its_sojourn_and_fate(live: None, sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    folders = [word for option in ("--out", "--pcap", "--traces") for word in (option, tmp_path / "captures")]
    (run,) = json.loads(sojourn("run", file, "--world", "live", *folders, "-f", "json").stdout)["runs"]
    assert (tmp_path / "captures/report.html").is_file(), "one folder may take all"
    capture = (tmp_path / "captures/0000.pcapng").read_bytes()
    assert capture[:4] == b"\x0a\x0d\x0d\x0a"
    comments = re.findall(rb"sojourn (\d+\.\d{3}) ms, (delivered|dropped: \w+)", capture)
    hop, back = run["hops"]["bottleneck"], run["hops"]["bottleneck.reverse"]
    passed = sum(one["delivered_packets"] + one["drops"] for one in (hop, back))
    assert abs(len(comments) - passed) <= 20, "packets at the very end are not measured"
    longest = max(float(sojourn_ms) for sojourn_ms, fate in comments if fate == b"delivered")
    assert longest == pytest.approx(hop["sojourn_ms"]["max"], abs=1.0)
    refused = sojourn("run", file, "--pcap", tmp_path / "x", code=2).stderr
    assert "expected --world live with it" in refused


DISCIPLINES = ["pfifo limit 50", "codel", "fq_codel", "pie", "cake", "ccaq", "fq", "red limit 200000", "sfq perturb 1"]


@pytest.mark.parametrize("line", DISCIPLINES)
def test_a_replay_of_a_queues_trace_gives_every_packet_the_same_fate(
    live: None, sojourn: Run, tmp_path: Path, line: str
) -> None:
    """The discipline of a live run decides by the arrivals alone, however late the program was: the command that the
    run tells prints the very bytes of the fates that the run has written.
    """
    traces = traced(sojourn, tmp_path, "--set", f"hop.bottleneck.qdisc={line}")
    queues = json.loads((traces / "0000.json").read_text())["queues"]
    assert set(queues) == {"bottleneck", "bottleneck.reverse"}
    for name, queue in queues.items():
        assert (queue["trace"], queue["fates"]) == (f"0000.{name}.csv", f"0000.{name}.fates.csv")
        words = shlex.split(queue["replay"])
        assert words[:3] == ["sojourn", "replay", str(traces / queue["trace"])]
        replayed = sojourn(*words[1:]).stdout.splitlines()
        assert replayed == (traces / queue["fates"]).read_text().splitlines()
    rows = list(csv.DictReader(io.StringIO((traces / "0000.bottleneck.fates.csv").read_text())))
    assert len(rows) > 1000, "at 20 Mbit/s in two seconds"
    fates = {row["fate"] for row in rows}
    assert "delivered" in fates
    assert line in ("fq", "ccaq") or any(fate.startswith("dropped:") for fate in fates), "three flows fill the queue"


def test_a_trace_has_the_openings_of_connections_that_ccaq_reads(live: None, sojourn: Run, tmp_path: Path) -> None:
    """A test of the path (crates/live/src/path.rs) shows that a trace without them has another replay."""
    scenario = (
        SCENARIO + '[[flow]]\nkind = "download"\nname = "pages"\nsize = "90kB"\ngap = "20ms"\nrtt = "20ms"\ncount = 9\n'
    )
    traces = traced(sojourn, tmp_path, "--set", "hop.bottleneck.qdisc=ccaq", scenario=scenario)
    queue = json.loads((traces / "0000.json").read_text())["queues"]["bottleneck"]
    lines = (traces / queue["trace"]).read_text().splitlines()
    assert lines[0] == "time_ns,op,flow,bytes,ecn,source,destination,opens"
    assert sum(line.endswith(",1") for line in lines) > 20, "SYN-ACKs come down"
    words, fates = shlex.split(queue["replay"])[1:], (traces / queue["fates"]).read_text()
    assert sojourn(*words).stdout == fates


def test_a_queue_without_a_replay_says_why(live: None, sojourn: Run, tmp_path: Path) -> None:
    scenario = SCENARIO.replace('rate = "20mbit"', 'rate = [["0s", "20mbit"], ["1s", "5mbit"]]')
    reverse = 'reverse = { rate = "20mbit", qdisc = "cake ack-filter" }'
    scenario = scenario.replace('qdisc = "fq_codel"', f'qdisc = "fq_codel"\n{reverse}')
    traces = traced(sojourn, tmp_path, scenario=scenario)
    queues = json.loads((traces / "0000.json").read_text())["queues"]
    assert queues["bottleneck"]["replay"] is None
    assert queues["bottleneck"]["why"] == "the rate of the link changes"
    assert "TCP segments" in queues["bottleneck.reverse"]["why"]
    rows = list(csv.DictReader(io.StringIO((traces / queues["bottleneck"]["fates"]).read_text())))
    assert sum(row["fate"] == "delivered" for row in rows) > 1000, "its fates are there"
    refused = sojourn("run", tmp_path / "live.toml", "--traces", tmp_path / "x", code=2).stderr
    assert "expected --world live with it" in refused
    asked = ("run", tmp_path / "live.toml", "--world", "live", "--traces", tmp_path / "live.toml" / "x")
    assert "Not a directory: expected a folder to write to, or the path of a new one" in sojourn(*asked, code=2).stderr


def traced(sojourn: Run, folder: Path, *words: str, scenario: str = SCENARIO) -> Path:
    """The folder with the traces of a run."""
    (folder / "live.toml").write_text(scenario)
    sojourn("run", folder / "live.toml", "--world", "live", "--traces", folder / "traces", "-f", "json", *words)
    return folder / "traces"


# ---- queues of the host's kernel ----


def needs_in_kernel(*lines: str) -> None:
    """Skips if this host's kernel lacks one of these disciplines."""
    try:
        lacking = lacking_in_kernel(lines)
    except Refusal as error:
        skip_loudly(str(error))
    for line, reason in lacking.items():
        skip_loudly(f"{line}: {reason}")


RECORD = struct.Struct("<BBBBHHIIIIHHBxxxIIQQQ")
"""A record of a packet, as crates/traffic/src/probe.rs describes it."""


@pytest.mark.parametrize("line", ["pfifo limit 50", "bfifo limit 60000", "pfifo_head_drop limit 50"])
def test_the_kernels_own_discipline_has_the_sojourns_and_drops_that_its_limit_gives(
    live: None, sojourn: Run, tmp_path: Path, line: str
) -> None:
    needs_in_kernel("htb rate 1mbit", line)
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO.replace('"fq_codel"', f'"{line}"'))
    done = sojourn("run", file, "--world", "live", "--engine", "tc", "--keep", tmp_path / "kept", "-f", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["live"]["engine"] == "tc"
    assert run["live"]["late_arrivals_us"]["p50"] is not None
    hop = run["hops"]["bottleneck"]
    assert hop["drops"] > 0
    assert hop["delivered_packets"] > 1000, "at 20 Mbit/s in two seconds"
    # 50 packets of 1514 bytes take 30 ms, and 60 kB 24 ms; lateness on a busy host adds to it.
    assert 20 < hop["sojourn_ms"]["p95"] < 100
    truth = json.loads((tmp_path / "kept/0000/ended.json").read_text())["truth"]
    assert truth["inferred_drops"] == truth["kernel_drops"] > 0
    counted = json.loads((tmp_path / "kept/0000/counted.json").read_text())["links"]
    assert counted[0]["kind"] == line.split()[0]
    fates = [one[1:3] for one in RECORD.iter_unpack((tmp_path / "kept/0000/seen.bin").read_bytes()) if one[0] == 0]
    assert sum(fate == 1 for fate, _ in fates) == truth["kernel_drops"]
    assert hop["stats"]["kind"] == line.split()[0]


DEEP = """\
duration = "2s"
[[hop]]
name = "bottleneck"
rate = "1mbit"
delay = "5ms"
qdisc = "pfifo limit 10000"
[[flow]]
kind = "cbr"
name = "stream"
rtt = "20ms"
rate = "90mbit"
"""
JUMBO = """\
duration = "2s"
[host]
rmem = "200mb"
[[hop]]
name = "bottleneck"
rate = "400mbit"
delay = "1ms"
qdisc = "pfifo limit 10000"
[[flow]]
kind = "bulk"
name = "bulk"
rtt = "4ms"
count = 4
cc = "reno"
mss = 8948
"""


@pytest.mark.parametrize(("scenario", "queued"), [(DEEP, 9990), (JUMBO, 1000)], ids=["full", "jumbo"])
def test_a_deep_queue_is_emptied_at_the_end_and_nothing_of_it_is_lost(
    live: None, sojourn: Run, tmp_path: Path, scenario: str, queued: int
) -> None:
    needs_in_kernel("htb rate 1mbit", "pfifo limit 10000")
    file = tmp_path / "live.toml"
    file.write_text('title = "A deep queue"\n' + scenario)
    for attempt in range(6):  # a busy host may lose a packet; the run then says that it is not valid
        kept = tmp_path / f"kept{attempt}"
        said = sojourn("run", file, "--world", "live", "--engine", "tc", "--keep", kept, "-f", "json").stdout
        truth = json.loads((kept / "0000/ended.json").read_text())["truth"]
        is_whole = truth["kernel_drops"] == truth["inferred_drops"]
        is_whole &= truth["ring_drops"] == truth["softnet_drops"] == truth["strays"] == 0
        if is_whole:
            break
        assert not json.loads(said)["runs"][0]["live"]["valid"]
    assert is_whole, truth
    fates = [one[1] for one in RECORD.iter_unpack((kept / "0000/seen.bin").read_bytes()) if one[0] == 0]
    assert sum(fate == 2 for fate in fates) > queued


def test_a_rate_step_changes_the_kernels_rate(live: None, sojourn: Run, tmp_path: Path) -> None:
    needs_in_kernel("htb rate 1mbit", "pfifo limit 50")
    file = tmp_path / "live.toml"
    steps = SCENARIO.replace('"20mbit"', '[["0s","20mbit"],["1s","5mbit"]]').replace('"fq_codel"', '"pfifo limit 50"')
    file.write_text(steps.replace('duration = "2s"', 'duration = "3s"\nmeasure = ["1.5s", "end"]'))
    done = sojourn("run", file, "--world", "live", "--engine", "tc", "-f", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert sum(flow["goodput_mbit"] for flow in run["flows"] if flow["kind"] == "bulk") == pytest.approx(4.7, rel=0.1)


def test_a_discipline_that_the_kernel_lacks_is_skipped_by_name(live: None, sojourn: Run, tmp_path: Path) -> None:
    needs_in_kernel("htb rate 1mbit", "pfifo limit 50")
    lacking = [kind for kind in ("fq_codel", "cake", "fq_pie") if lacking_in_kernel([kind])]
    if not lacking:
        skip_loudly("this kernel has every discipline")
    shaped = f"tbf rate 1mbit burst 5kb limit 9000 child {lacking[0]}"
    assert f"has no {lacking[0]}; modprobe sch_{lacking[0]}" in lacking_in_kernel([shaped])[shaped]
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    refused = sojourn(
        "run", file, "--world", "live", "--engine", "tc", "--set", f"hop.bottleneck.qdisc={lacking[0]}", code=2
    )
    assert f"has no {lacking[0]}; modprobe sch_{lacking[0]}" in refused.stderr


def test_the_program_is_asked_once_about_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def answer(lines: list[str]) -> dict[str, str]:
        asked.append(lines)
        return {line: "no" for line in lines if line == "cake"}

    monkeypatch.setattr("sojourn.live.run.shutil.which", lambda _program, path: path)
    monkeypatch.setattr("sojourn.live.run._lacking", answer)
    monkeypatch.setattr("sojourn.live.run._REASONS", {})
    assert lacking_in_kernel(["codel", "cake"]) == {"cake": "no"}
    assert lacking_in_kernel(["cake", "pie", "codel"]) == {"cake": "no"}
    assert lacking_in_kernel(["pie"]) == {}
    assert asked == [["codel", "cake"], ["pie"]]


def test_the_doctor_gives_each_missing_discipline_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"codel": "the kernel has no codel; modprobe sch_codel may add it", "cake": "tc does not know cake"}
    reasons["pie"] = "the kernel has no pie; modprobe sch_pie may add it"
    monkeypatch.setattr("sojourn.live.run.lacking_in_kernel", lambda _lines: reasons)
    found = doctor._kernels_disciplines()
    assert found.remedy == "modprobe sch_codel may add it; cake: tc does not know cake"
    del reasons["codel"], reasons["pie"]
    assert doctor._kernels_disciplines().remedy == "cake: tc does not know cake"


def test_the_kernels_queues_need_tc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sojourn.live.run.TC_PATH", str(tmp_path))
    plan = sj.load(plan_document())
    assert Hosts(engine="tc").refusal(plan, 0) == "--engine tc: expected the program tc; install iproute2"
    assert Hosts().refusal(plan, 0) is None


def test_the_engine_belongs_to_the_identity_of_a_run(live: None) -> None:
    plan = sj.load(plan_document())
    ours, theirs = Hosts().key(plan, 0), Hosts(engine="tc").key(plan, 0)
    assert ours["linux"] == theirs["linux"]
    assert ours != theirs


def test_a_link_of_the_kernels_changes_its_rate_while_it_is_up(live: None) -> None:
    needs_in_kernel("htb rate 1mbit", "pfifo limit 100")
    with Link(plan_of("20mbit", "20ms", "pfifo limit 100"), engine="tc") as link:
        link.set(rate="2mbit")
        with pytest.raises(Refusal, match="not while a link of --engine tc is up"):
            link.set(qdisc="bfifo")
        serve = "import socket; s = socket.create_server(('{server}', 7000)); s.accept()[0].sendall(bytes(250000))"
        ask = (
            "import socket, time\n"
            "for _ in range(200):\n"
            "    try: c = socket.create_connection(('{server}', 7000)); break\n"
            "    except OSError: time.sleep(0.02)\n"
            "begin, got = time.monotonic(), 0\n"
            "while got < 250000: got += len(c.recv(65536))\n"
            "print(time.monotonic() - begin)"
        )
        server = link.popen([sys.executable, "-c", serve], at="server")
        took_s = float(link.run([sys.executable, "-c", ask], timeout_s=30, check=True).stdout)
        assert server.wait(10) == 0
    assert took_s > 0.9, "250 kB at 2 Mbit/s"


def test_a_drop_behind_which_nothing_comes_is_known_when_the_kernels_queue_is_empty(live: None) -> None:
    needs_in_kernel("htb rate 1mbit", "pfifo_head_drop limit 5")
    # The first packets of one flow pass, and the only one of another is dropped from the head.
    burst = (
        "import socket\n"
        "one, two = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]\n"
        "for s in [two] * 3 + [one] + [two] * 20: s.sendto(bytes(1000), ('{server}', 7000))"
    )
    with Link(plan_of("1mbit", "20ms", "pfifo_head_drop limit 5"), engine="tc") as link:
        link.run([sys.executable, "-c", burst], timeout_s=30, check=True)
        time.sleep(2)
        up = link.stats()["links"][1]
    assert (up["queued"], up["backlog"]) == (0, 0)
    assert up["drops"] > 10
    assert sum(flow["drops"] for flow in up["flows"] if flow["packets"] == 0) == 1, "the only packet of its flow"


# ---- rights ----


# Only root can become another user. Where the tests run as a user without privileges, every other test of the world
# live is already such a run.
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can become another user")
def test_a_user_without_any_privilege_plays_a_run(live: None) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder, program = Path(temporary), Path(temporary) / "program"
        shutil.copy(find_program(), program)
        (folder / "job.json").write_text(sj.load(plan_document()).kernel_job(0, sink="program"))
        for place, mode in ((folder, 0o777), (program, 0o755)):
            place.chmod(mode)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
        subprocess.run([*user, program, folder], check=False, timeout=60)
        answer = json.loads((folder / "ended.json").read_text())
    assert answer["ok"] is True, answer
    assert answer["truth"]["frames_in"] > 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "flow.bulk.cc=westwood"), "westwood"),
        (("--set", "hop.bottleneck.qdisc=hhf"), "only the kernel has it; expected --world kernel"),
        (("--engine", "tc", "--set", "hop.bottleneck.qdisc=noqueue"), "noqueue: not with --engine tc"),
        (("--engine", "tc", "--set", "hop.bottleneck.qdisc=blue"), "blue: Linux has none"),
        (("--link", "htb"), "--link = htb: the live world has no such thing; expected --world kernel with it"),
    ],
)
def test_what_this_world_does_not_have_is_refused_before_anything_runs(
    sojourn: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    done = sojourn("run", file, "--world", "live", *words, code=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["user", "net", "pid", "mnt"])
def test_a_host_that_allows_no_more_namespaces_is_told_by_which_setting_it_would(tmp_path: Path, kind: str) -> None:
    """In a user namespace in which none of a kind may be made. Only a program without capabilities needs a new one of
    users.
    """
    without = "setpriv --bounding-set=-all --inh-caps=-all" if kind == "user" else ""
    no_more = f"echo 0 > /proc/sys/user/max_{kind}_namespaces; exec {without}"
    error = refused_namespaces(tmp_path, "unshare", "-Ur", "sh", "-c", f'{no_more} "$@"', "sh")
    assert error.startswith("namespaces: No space left on device (os error 28); ")
    assert f"user.max_{kind}_namespaces" in error
    assert "unprivileged_userns_clone" not in error


def test_a_host_that_allows_no_namespaces_of_users_is_told_by_which_setting_it_would(tmp_path: Path) -> None:
    """The program is a user whom its user namespace does not know."""
    error = refused_namespaces(tmp_path, "unshare", "-U")
    assert error.startswith("user namespaces: Operation not permitted")
    assert "kernel.unprivileged_userns_clone = 1" in error


def refused_namespaces(folder: Path, *command: str) -> str:
    """The error of a run whose program is started by a command of this kind."""
    if subprocess.run(["unshare", "-Ur", "true"], check=False).returncode != 0:
        skip_loudly("no user namespaces")
    (folder / "job.json").write_text(sj.load(plan_document()).kernel_job(0, sink="program"))
    (folder / "job.json").chmod(0o644)
    subprocess.run([*command, find_program(), folder], check=False, timeout=30, stderr=subprocess.DEVNULL)
    answer = json.loads((folder / "ended.json").read_text())
    assert answer["ok"] is False
    return str(answer["error"])


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("user namespaces: no; allowed by kernel.unprivileged_userns_clone = 1", "kernel.unprivileged_userns_clone=1"),
        ("namespaces: No space left; expected higher user.max_net_namespaces", "LIMIT=1000"),
        ("Too many open files; the limit of open files (ulimit -n) is 64", "ulimit -n 1024"),
        ("another fault of namespaces", ""),
    ],
)
def test_the_doctors_remedy_fits_the_error(monkeypatch: pytest.MonkeyPatch, said: str, remedy: str) -> None:
    monkeypatch.setattr("sojourn.doctor.trial", lambda: said)
    monkeypatch.setattr("sojourn.live.run.find_program", lambda: Path("/bin/true"))
    (found,) = doctor.examine(("live",))
    assert (found.verdict, found.said) == ("missing", said)
    assert remedy in found.remedy
    assert bool(remedy) == bool(found.remedy)


def test_a_low_limit_of_open_files_is_raised_and_one_that_cannot_be_is_named(
    live: None, sojourn: Run, tmp_path: Path
) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO.replace("count = 2", "count = 60"))
    run = [str(Path(sys.executable).parent / "sojourn"), "run", str(file), "--world", "live", "-f", "json"]

    def limited(limit: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    done = limited("-Sn 64", *run)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"][0]["flows"]) == 61
    refused = limited("-n 64", *run)
    assert refused.returncode == 2
    assert "the limit of open files (ulimit -n) is 64: expected a higher one, or fewer flows" in refused.stderr
    # The user's own program has the limit of the one who asked.
    shell = [run[0], "shell", str(file), "--", "sh", "-c", "ulimit -Sn"]
    assert limited("-Sn 64", *shell).stdout == "64\n"


def plan_document() -> dict[str, object]:
    hop = {"name": "link", "rate": "1mbit", "qdisc": "pfifo"}
    return {"duration": "1s", "hop": [hop], "flow": [{"kind": "bulk", "rtt": "9ms"}]}


# ---- programs as flows ----

COMMANDS = """\
title = "Programs as traffic"
duration = "3s"
[[hop]]
name = "bottleneck"
rate = "20mbit"
delay = "5ms"
qdisc = "fq_codel"
"""


def command_flow(name: str, command: object, **keys: object) -> str:
    """A flow of the kind `command`. A JSON text or list is a TOML one too."""
    lines = {"kind": "command", "name": name, "command": command, "rtt": "20ms"} | keys
    return "[[flow]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def commands_of(sojourn: Run, tmp_path: Path, flows: str, *words: object) -> tuple[dict[str, dict[str, Any]], str]:
    """Plays the flows. Returns them by name, with their hop as `hop`, and what the command says."""
    file = tmp_path / "commands.toml"
    file.write_text(COMMANDS + flows)
    done = sojourn("run", file, "--world", "live", "-f", "json", *words)
    (run,) = json.loads(done.stdout)["runs"]
    return {flow["name"]: flow for flow in run["flows"]} | run["hops"], done.stderr


def test_a_program_plays_in_a_run_and_its_end_is_in_the_results(
    live: None, sojourn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = "echo $SOJOURN_SERVER {server} $SOJOURN_CLIENT {client} $0; pwd; echo $MINE; echo three >&2; exit 3"
    flows = command_flow("fails", ["sh", "-c", say, "a b"], start="500ms")
    flows += command_flow("quoted", "sh -c 'exit \"0\"'")
    (tmp_path / "keep").mkdir()
    monkeypatch.setenv("MINE", "of the user")
    found, said = commands_of(sojourn, tmp_path, flows, "--keep", tmp_path / "keep")
    monkeypatch.delenv("MINE")
    fails, quoted = found["fails"]["command"], found["quoted"]["command"]
    server, client = "10.1.0.1", "10.101.0.1"
    output = f"{server} {server} {client} {client} a b\n{tmp_path}\nof the user\n"
    assert fails["argv"] == ["sh", "-c", say.replace("{server}", server).replace("{client}", client), "a b"]
    assert (fails["exit"], fails["signal"], fails["stopped"]) == (3, None, False)
    assert (fails["stdout"], fails["stderr"]) == (output, "three\n")
    assert 0.5 <= fails["started_s"] <= fails["ended_s"] < 3.0
    assert (quoted["exit"], quoted["stdout"], found["quoted"]["cc"]) == (0, "", None)
    assert "sojourn: flow fails: sh -c " in said
    assert ": exit code 3, the scenario, seed 1: three" in said
    assert "flow quoted" not in said
    assert (tmp_path / "keep/0000/command.fails.out").read_text() == output
    assert (tmp_path / "keep/0000/command.fails.err").read_text() == "three\n"
    text = sojourn("run", tmp_path / "commands.toml", "--world", "live").stdout
    table = text[text.index("programs of yours") :]
    assert re.search(r"exit\s+started", table), table
    assert re.search(r"fails.*\b3\b", table), table
    csv_row = next(
        csv.DictReader(io.StringIO(sojourn("run", tmp_path / "commands.toml", "--world", "live", "-f", "csv").stdout))
    )
    assert (csv_row["flows.fails.command.exit"], csv_row["flows.quoted.command.argv"]) == ("3", "sh -c 'exit \"0\"'")


@pytest.mark.parametrize("way", ["down", "up"])
def test_programs_of_a_scenario_reach_each_other_both_ways(live: None, sojourn: Run, tmp_path: Path, way: str) -> None:
    """A web server on one host and a client on the other. The client's row has the traffic, and the queue too."""
    (tmp_path / "page").write_bytes(b"x" * 1_000_000)
    serves, asks = ("server", "client") if way == "down" else ("client", "server")
    get = (
        "import time, urllib.request\n"
        "for _ in range(100):\n"
        f"    try: page = urllib.request.urlopen('http://{{{serves}}}:8000/page').read(); break\n"
        "    except OSError: time.sleep(0.02)\n"
        "print(len(page))"
    )
    flows = command_flow("web", [sys.executable, "-m", "http.server", "8000"], at=serves)
    flows += command_flow("page", python(get), at=asks)
    found, said = commands_of(sojourn, tmp_path, flows)
    web, page = found["web"], found["page"]
    assert (page["command"]["stdout"], page["command"]["exit"]) == ("1000000\n", 0)
    assert (web["command"]["exit"], web["command"]["signal"], web["command"]["stopped"]) == (None, 15, True)
    assert "flow web" not in said, "it ended with the run"
    assert web["command"]["ended_s"] >= 3.0
    assert page["goodput_mbit"] == pytest.approx(8.0 / 3, rel=0.01), "a megabyte in a run of three seconds"
    assert page["rtt_ms"]["p50"] >= 20.0
    assert web["goodput_mbit"] == 0.0
    queue = found["bottleneck" if way == "down" else "bottleneck.reverse"]
    assert queue["delivered_bytes"] > 1_000_000
    assert page["packets"] > 690
    assert queue["delivered_packets"] + queue["drops"] >= 690


def test_datagrams_of_programs_count_and_several_programs_have_hosts_of_their_own(
    live: None, sojourn: Run, tmp_path: Path
) -> None:
    send = (
        "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('{server}', 9))\n"
        "for _ in range(20): s.sendto(bytes(1000), ('{client}', 9)); time.sleep(0.01)"
    )
    flows = '[[flow]]\nkind = "pings"\nrtt = "20ms"\ninterval = "100ms"\n'
    flows += command_flow("send", python(send), at="server", count=2)
    found, _ = commands_of(sojourn, tmp_path, flows)
    # Nobody listens, and the client may say so for each datagram.
    assert all(20 <= found[f"send.{number}"]["packets"] <= 40 for number in range(2))
    assert found["pings0"]["command"] is None
    assert found["bottleneck"]["delivered_packets"] >= 40


def test_a_program_is_stopped_at_its_time(live: None, sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "left").touch()
    left = f"trap '' TERM; while :; do cat /proc/uptime > {tmp_path}/left; sleep 0.05; done"
    flows = command_flow("gentle", ["sh", "-c", f"({left}) & exec sleep 60"], stop="500ms")
    flows += command_flow("clock", "cat /proc/uptime", start="2500ms")
    flows += command_flow("stubborn", ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], stop="500ms")
    flows += command_flow("late", "true", start="10s")
    found, said = commands_of(sojourn, tmp_path, flows)
    gentle, stubborn = found["gentle"]["command"], found["stubborn"]["command"]
    assert (gentle["exit"], gentle["signal"], gentle["stopped"]) == (None, 15, True)
    assert (stubborn["exit"], stubborn["signal"], stubborn["stopped"]) == (None, 9, True)
    assert gentle["ended_s"] >= 0.5
    assert stubborn["ended_s"] >= 1.5
    last, clock = (
        float(said.split()[0]) for said in ((tmp_path / "left").read_text(), found["clock"]["command"]["stdout"])
    )
    assert last < clock - 0.5, "what it had started ended with it"
    assert found["late"]["command"] is None
    assert "sojourn: flow" not in said


def test_a_program_that_is_not_there_ends_the_run_at_once(live: None, sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "commands.toml"
    file.write_text(COMMANDS.replace('"3s"', '"1h"') + command_flow("call", "no-such-program {server}", start="30min"))
    begin = time.monotonic()
    said = sojourn("run", file, "--world", "live", code=2).stderr
    assert "flow call: command: no-such-program: no program of this name is in the PATH" in said
    said = sojourn("shell", file, "--flows", "--", "true", code=2).stderr
    assert "flow call: command: no-such-program" in said
    sojourn("shell", file, "--", "true")
    # A program that the kernel cannot run is noticed when it is started.
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    file.write_text(COMMANDS.replace('"3s"', '"1h"') + command_flow("broken", "./broken"))
    said = sojourn("run", file, "--world", "live", code=2).stderr
    assert "flow broken: command: ./broken: No such file or directory" in said
    assert time.monotonic() - begin < 30


def test_other_worlds_refuse_programs(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "commands.toml"
    file.write_text(COMMANDS + command_flow("call", "true"))
    why = "flow call: command: only the live world runs programs; expected --world live"
    assert why in sojourn("run", file, code=2).stderr
    assert sj.load(file).kernel_refusal(0, version=(7, 3), modules=["sch_fq_codel"]) == why


def test_a_wrong_command_is_named_with_its_line(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "commands.toml"
    for flow, said in [
        (command_flow("call", "true", at="router"), '13: flow.call.at = "router": expected one of client, server'),
        (command_flow("call", ""), '11: flow.call.command = "": expected a program and its arguments'),
        (command_flow("call", "sh -c 'ls"), "11: flow.call.command = \"sh -c \\'ls\": expected a closing '"),
        (command_flow("call", "true", comand="ls"), '13: flow.call.comand: unknown key; did you mean "command"?'),
    ]:
        file.write_text(COMMANDS + flow)
        assert f"{file}:{said}" in sojourn("run", file, "--world", "live", code=2).stderr


def test_programs_of_a_scenario_play_behind_a_link(live: None, sojourn: Run, tmp_path: Path) -> None:
    flows = command_flow("greet", ["sh", "-c", f"echo $SOJOURN_CLIENT > {tmp_path}/greeting; exec sleep {seconds(61)}"])
    file = tmp_path / "commands.toml"
    file.write_text(COMMANDS.replace('"3s"', '"60s"') + flows)
    begin = time.monotonic()
    sojourn("shell", file, "--flows", "--", "sleep", "1")
    assert time.monotonic() - begin < 30, "it ends with the command, not with the scenario"
    assert (tmp_path / "greeting").read_text() == "10.101.0.1\n"
    assert seconds(61) not in alive()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_programs_when_their_run_is_interrupted(
    live: None, tmp_path: Path, how: signal.Signals
) -> None:
    line = f"trap '' TERM INT HUP; setsid sleep {seconds(66)} & sleep {seconds(67)}; sleep {seconds(68)}"
    (tmp_path / "live.toml").write_text(COMMANDS.replace('"3s"', '"60s"') + command_flow("many", ["sh", "-c", line]))
    command = [Path(sys.executable).parent / "sojourn", "run", tmp_path / "live.toml", "--world", "live", "-f", "json"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not all(seconds(number) in alive() for number in (66, 67)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert all(seconds(number) in alive() for number in (66, 67))
    child.send_signal(how)
    child.wait(20)
    deadline = time.monotonic() + 5
    while any(seconds(number) in alive() for number in (66, 67)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(seconds(number) in alive() for number in (66, 67, 68))


# ---- links for programs ----


def test_a_program_on_the_client_reaches_one_on_the_server(link: Link) -> None:
    serve = "import socket; s = socket.create_server(('{server}', 7000)); c, _ = s.accept(); c.sendall(b'hello')"
    ask = (
        "import socket, time\n"
        "for _ in range(200):\n"
        "    try: c = socket.create_connection(('{server}', 7000)); break\n"
        "    except OSError: time.sleep(0.02)\n"
        "print(c.getpeername()[0], c.getsockname()[0], c.recv(9).decode())"
    )
    server = link.popen([sys.executable, "-c", serve], at="server")
    done = link.run([sys.executable, "-c", ask], timeout_s=30, check=True)
    assert done.stdout.split() == [link.server, link.client, "hello"]
    assert server.wait(10) == 0
    down, up = link.stats()["links"]
    assert down["packets"] > 2
    assert up["packets"] > 2
    assert any(f"{link.server}:7000 > {link.client}" in flow["flow"] for flow in down["flows"])


def test_a_program_has_its_environment_its_exit_code_and_its_signal(link: Link) -> None:
    done = link.run(
        ["sh", "-c", "echo $SOJOURN_SERVER $OWN; pwd; exit 3"], env={"OWN": "x", "PATH": os.environ["PATH"]}, cwd="/"
    )
    assert (done.stdout, done.returncode) == (f"{link.server} x\n/\n", 3)
    assert link.run(["sh", "-c", "kill -9 $$"]).returncode == -9
    with pytest.raises(Refusal, match="no-such-program"):
        link.popen(["no-such-program"])
    with pytest.raises(subprocess.TimeoutExpired):
        link.run(["sleep", seconds(60)], timeout_s=0.3)
    assert seconds(60) not in alive()


def test_output_that_is_not_utf8_is_replaced(link: Link) -> None:
    done = link.run(["sh", "-c", r"printf 'a\377b\303\244'; printf '\200' >&2"])
    assert (done.stdout, done.stderr) == ("a\ufffdb\u00e4", "\ufffd")


@pytest.mark.parametrize(
    ("argv", "options", "said"),
    [
        ("ls", {}, "argv = 'ls': expected a list of words, such as ['ls', '-l']"),
        (b"ls", {}, "argv = b'ls': expected a list of words"),
        ([], {}, "argv = []: expected a list of words"),
        (["sleep", 5], {}, "argv[1] = 5: expected a text or a path"),
        (["true"], {"stdout": subprocess.PIPE}, "stdout = subprocess.PIPE: expected an open file, a descriptor or "),
        (["true"], {"stderr": subprocess.STDOUT}, "stderr = subprocess.STDOUT: expected an open file"),
        (["true"], {"stdin": 9999}, "stdin = 9999: expected an open file"),
        (["true"], {"stdout": io.StringIO()}, "subprocess.DEVNULL; `run` collects the output"),
        (["true"], {"stdout": "a file"}, "stdout = 'a file': expected an open file"),
        (["true"], {"cwd": "/nope"}, "cwd = /nope: expected a folder that this user may enter"),
        (["true"], {"cwd": "/dev/null"}, "cwd = /dev/null: expected a folder"),
        (["true"], {"env": {"A": 1}}, "env['A'] = 1: expected a text"),
        (["true"], {"env": {"A": "\udcff"}}, r"env['A'] = '\udcff': expected a text in UTF-8"),
        (["echo", "\udcff"], {}, r"argv[1] = '\udcff': expected a text or a path, in UTF-8"),
    ],
)
def test_what_a_program_cannot_have_is_refused_by_its_name(
    shared: Link, argv: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        shared.popen(argv, **options)


def test_a_program_takes_paths_and_usual_streams(shared: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    assert shared.run(["pwd"], cwd="below").stdout == f"{tmp_path}/below\n"
    with (tmp_path / "out").open("w") as out:
        words = [Path("/bin/sh"), "-c", "cat; ls $0; echo no >&2", tmp_path]
        program = shared.popen(words, stdin=subprocess.DEVNULL, stdout=out.fileno(), stderr=out)
    assert program.wait(10) == 0
    assert (tmp_path / "out").read_text() == "below\nout\nno\n"


def test_poll_tells_whether_a_program_has_ended(shared: Link) -> None:
    said, to = os.pipe()
    program = shared.popen(["sh", "-c", "read line; exit 3"], stdin=said)
    os.close(said)
    assert program.poll() is None
    assert program.returncode is None
    os.write(to, b"end\n")
    os.close(to)
    deadline = time.monotonic() + 10
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert program.poll() == program.returncode == program.wait() == 3


def test_a_program_that_is_killed_has_ended_when_wait_says_so(link: Link) -> None:
    """At any moment: as it starts, and while it runs."""
    for moment_s in (0.0, 0.001, 0.003, 0.1):
        program = link.popen(["sleep", seconds(61)])
        time.sleep(moment_s)
        program.kill()
        program.kill()
        assert program.wait(5) == -signal.SIGKILL
        assert seconds(61) not in alive()
    ended = link.popen(["true"])
    assert ended.wait(5) == 0
    ended.kill()
    assert ended.returncode == 0


def seconds(number: int) -> str:
    """A time to sleep that no other process of this machine sleeps."""
    return f"{number}.{os.getpid()}"


def alive() -> str:
    """The command lines of all processes."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_a_link_carries_ipv6(link: Link) -> None:
    """TCP passes the same queues, in the base RTT, and no other packet does."""
    if link.server_ipv6 is None:
        skip_loudly("this kernel has no IPv6")
    serve = (
        "import socket; s = socket.create_server(('::', 7001), family=socket.AF_INET6)\n"
        "print('up', flush=True); c = s.accept()[0]; c.send(c.recv(9))"
    )
    said, to = os.pipe()
    link.popen([sys.executable, "-c", serve], at="server", stdout=to)
    os.close(to)
    with os.fdopen(said) as server:
        assert server.readline() == "up\n"
    before = [queue["packets"] for queue in link.stats()["links"]]
    ask = (
        "import os, socket, time; begin = time.monotonic()\n"
        "s = socket.create_connection((os.environ['SOJOURN_SERVER_IPV6'], 7001), 5)\n"
        "print(time.monotonic() - begin, s.getsockname()[0]); s.send(b'ask'); print(s.recv(9))"
    )
    rtt_s, own, answer = link.run([sys.executable, "-c", ask], timeout_s=20, check=True).stdout.split()
    assert float(rtt_s) > 0.02
    assert (own, answer) == (link.client_ipv6, "b'ask'")
    down, up = link.stats()["links"]
    # SYN-ACK, ACK of the question, answer, FIN; SYN, ACK, question, ACK, FIN: some share a packet.
    assert 3 <= down["packets"] - before[0] <= 5
    assert 3 <= up["packets"] - before[1] <= 6


def test_a_socket_of_this_process_is_one_of_a_host(link: Link) -> None:
    with link.listen("server", 7002) as listener, link.connect(7002) as client:
        server, (address, _) = listener.accept()
        with server:
            assert (address, client.getpeername()) == (link.client, (link.server, 7002))
            begin = time.monotonic()
            client.sendall(b"ping")
            server.sendall(server.recv(4))
            assert client.recv(4) == b"ping"
            assert time.monotonic() - begin >= 0.02, "the RTT of the link"
    with link.socket("server", "udp") as one, link.socket("client", "udp") as other:
        one.bind((link.server, 0))
        other.sendto(b"datagram", one.getsockname())
        assert one.recv(9) == b"datagram"
    with pytest.raises(ConnectionRefusedError):
        link.connect(7003)
    with pytest.raises(Refusal, match="at = router: expected client or server"):
        link.socket("router")  # type: ignore[arg-type]


def test_a_browser_loads_a_page_behind_a_link(live: None, tmp_path: Path) -> None:
    chromium = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if chromium is None:
        skip_loudly("no chromium here: no page was loaded behind a link", also_in_ci=True)
    for number in range(10):
        (tmp_path / f"{number}.js").write_text(f"/*{'x' * 20_000}*/ said.append('{number} ')")
    scripts = "".join(f"<script src='{number}.js'></script>" for number in range(10))
    (tmp_path / "index.html").write_text(f"<p id='said'></p>{scripts}")
    with Link(plan_of("2mbit", "40ms")) as link:
        said, to = os.pipe()
        server = [sys.executable, "-u", "-m", "http.server", "--directory", str(tmp_path), "--bind", link.server]
        link.popen(server, at="server", stdout=to, stderr=subprocess.DEVNULL)
        os.close(to)
        with os.fdopen(said) as lines:
            assert "Serving" in lines.readline()
            words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
            page = link.run([chromium, *words, "--dump-dom", "http://{server}:8000/"], timeout_s=60)
        assert f'<p id="said">{"".join(f"{number} " for number in range(10))}</p>' in page.stdout, page.stderr
        down = link.stats()["links"][0]
        assert down["bytes"] > 200_000, "all scripts came through the queue"


def test_a_link_is_changed_while_it_is_up(link: Link) -> None:
    link.set(rate="5mbit", delay="7ms", qdisc="codel target 9ms")
    link.set("link.reverse", qdisc="fq_codel target 15ms")
    down, up = link.stats()["links"]
    assert (down["rate_bps"], down["delay_ms"]) == (5_000_000, 7.0)
    assert down["qdisc"] == "codel limit 1000 target 9ms"
    assert "target 15ms" in up["qdisc"]
    for change, said in (
        ({"queue": "lnk"}, "expected one of link, link.reverse; nearest is link"),
        ({"rate": "fast"}, "rate = fast: expected a rate such as 10mbit"),
        ({"rate": "0bit"}, "rate = 0bit: expected a rate such as 10mbit, above zero, at most 10tbit; 1bit is as"),
        ({"rate": "11tbit"}, "rate = 11tbit: expected a rate such as 10mbit, above zero, at most 10tbit"),
        ({"rate": 1_000_000}, "rate = 1000000: expected a rate such as 10mbit"),
        ({"delay": 20}, "delay = 20: expected a time such as 20ms, at most 24h"),
        ({"delay": "25h"}, "delay = 25h: expected a time such as 20ms, at most 24h"),
        ({"delay": f"{10**30}s"}, "0s: expected a time such as 20ms, at most 24h"),
        ({"queue": 0}, "queue = 0: expected one of link, link.reverse"),
        ({"qdisc": ["codel"]}, "expected a text such as fq_codel limit 100"),
        ({"qdisc": "kodel"}, 'did you mean "codel"'),
    ):
        with pytest.raises(Refusal, match=said):
            link.set(**change)
    link.set(rate="1tbit", delay="1h")
    link.set(delay="0.5min")
    down = link.stats()["links"][0]
    assert (down["rate_bps"], down["delay_ms"]) == (10**12, 30_000.0)


def test_the_control_socket_refuses_what_no_scenario_may_have(link: Link) -> None:
    for change, said in (
        ({"delay_ns": 2**64 - 1}, "delay = 18446744073709551615ns: expected a time of at most 24h"),
        ({"rate": 10**13 + 1}, "rate = 10000000000001bit: expected a rate of at most 10tbit"),
    ):
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(link.folder / "control"))
            control.sendall(json.dumps({"do": "set", "link": 0, **change}).encode() + b"\n")
            assert json.loads(control.recv(4096)) == {"error": said}
    assert link.stats()["links"][0]["delay_ms"] == 0.0


def test_a_delay_is_added_to_the_rest_of_the_rtt(link: Link) -> None:
    connect = "import socket, time; begin = time.monotonic()\ntry: socket.create_connection(('{server}', 9))\n"
    connect += "except OSError: print(time.monotonic() - begin)"
    assert link.stats()["links"][0]["delay_ms"] == 0.0
    link.set(delay="200ms")
    rtt_s = float(link.run([sys.executable, "-c", connect], timeout_s=20, check=True).stdout)
    assert 0.22 <= rtt_s < 0.6, "200 ms and the RTT of 20 ms"


def test_the_end_of_a_link_ends_all_that_runs_behind_it(live: None) -> None:
    with Link(plan_of("20mbit", "20ms")) as up:
        up.popen(["sleep", seconds(62)])
        up.popen(["sh", "-c", f"setsid sleep {seconds(63)} & sleep {seconds(64)}"], at="server")
        folder = up.folder
        time.sleep(0.2)
    assert up.truth["frames_in"] == up.truth["frames_out"] == 0
    assert not folder.exists()
    assert not any(seconds(number) in alive() for number in (62, 63, 64))


@pytest.mark.parametrize("victim", ["the one who asked", "the program", "its child"])
@pytest.mark.parametrize("moment_s", [0.0, 0.02, 0.1, 0.4])
def test_nothing_is_left_of_a_run_that_is_killed(live: None, tmp_path: Path, moment_s: float, victim: str) -> None:
    """No process, and no file, whichever process gets SIGKILL: namespaces and networks go with their last process."""
    code = f"import sojourn as sj; sj.run(sj.load({str(tmp_path / 'live.toml')!r}), world='live')"
    (tmp_path / "live.toml").write_text(SCENARIO.replace('"2s"', '"60s"'))
    (tmp_path / "files").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "files")}
    asks = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while len(started := below(asks.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(moment_s)
    os.kill({"the one who asked": asks.pid, "the program": started[0], "its child": started[1]}[victim], signal.SIGKILL)
    said = asks.communicate()[1]
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{one}").exists() for one in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{one}").exists() for one in started)
    assert list((tmp_path / "files").iterdir()) == []
    assert victim == "the one who asked" or "Refusal: " in said


def below(root: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(folder.name))
    found = [root]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def played(sojourn: Run, tmp_path: Path, text: str, *options: str | Path) -> dict[str, Any]:
    file = tmp_path / "live.toml"
    file.write_text(text)
    runs = json.loads(sojourn("run", file, "--world", "live", "-f", "json", *options).stdout)["runs"]
    return dict(runs[0])


def test_a_full_disk_ends_the_run_with_the_file_that_has_no_room(live: None, sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text(SCENARIO.replace('"2s"', '"60s"'))
    (tmp_path / "kept/0000").mkdir(parents=True)
    (tmp_path / "kept/0000/seen.bin").symlink_to("/dev/full")
    begin = time.monotonic()
    done = sojourn("run", tmp_path / "live.toml", "--world", "live", "--keep", tmp_path / "kept", code=2)
    assert "seen.bin: No space left on device" in done.stderr
    assert time.monotonic() - begin < 30, "not only at the end of the run"


def test_an_outage_delays_packets_and_ends_nothing(live: None, sojourn: Run, tmp_path: Path) -> None:
    steps = '[["0s", "20mbit"], ["500ms", "0bit"], ["1500ms", "20mbit"]]'
    run = played(sojourn, tmp_path, SCENARIO.replace('"20mbit"', steps))
    assert 900 < run["hops"]["bottleneck"]["sojourn_ms"]["max"] < 1100
    assert all(flow["goodput_mbit"] > 1 for flow in run["flows"] if flow["kind"] == "bulk")


def test_large_packets_pass(live: None, sojourn: Run, tmp_path: Path) -> None:
    run = played(sojourn, tmp_path, SCENARIO.replace('kind = "bulk"', 'kind = "bulk"\nmss = 8948'))
    assert run["hops"]["bottleneck"]["utilisation"] > 0.5
    assert run["live"]["cut"] == 0


def test_a_flood_that_the_host_cannot_play_is_not_valid(live: None, sojourn: Run, tmp_path: Path) -> None:
    """More small packets than one processor sends: the run ends in time, and says that it is not to be believed."""
    flood = '[[flow]]\nkind = "cbr"\nname = "flood"\nrate = "2gbit"\nsize = 100\nrtt = "20ms"\n'
    run = played(sojourn, tmp_path, SCENARIO + flood)
    assert not run["live"]["valid"]
    assert run["live"]["reasons"]


def test_thousands_of_short_connections_complete(live: None, sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("2000\n")
    sizes = '[[flow]]\nkind = "sizes"\nname = "small"\nfile = "sizes.txt"\nrate = 500\nrtt = "20ms"\n'
    run = played(sojourn, tmp_path, SCENARIO + sizes)
    small = next(flow for flow in run["flows"] if flow["name"] == "small")
    assert small["completed"] > 700


def test_links_do_not_meet_and_nest(live: None) -> None:
    one = "import socket; s = socket.create_server(('{server}', 7001)); print('up', flush=True); s.accept()"
    with Link(plan_of("20mbit", "20ms")) as first, Link(plan_of("20mbit", "20ms")) as second:
        first.popen([sys.executable, "-c", one], at="server", stdout=subprocess.DEVNULL)
        ask = "import socket; socket.create_connection(('{server}', 7001), 2)"
        assert "ConnectionRefusedError" in second.run([sys.executable, "-c", ask]).stderr
        inner = (
            "from sojourn.link import Link, plan_of\n"
            "with Link(plan_of('1mbit', '10ms')) as up: print(up.run(['sh', '-c', 'echo inner']).stdout)"
        )
        assert first.run([sys.executable, "-c", inner], timeout_s=60, check=True).stdout.strip() == "inner"


def test_a_test_of_a_sample_project_has_links_of_its_own(live: None, tmp_path: Path) -> None:
    """As the how-to shows it, with tests in parallel; a link is up in less than a second even here."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["sojourn.testing"]\n')
    (tmp_path / "test_sample.py").write_text(
        "import pytest, time\n"
        "@pytest.mark.parametrize('rate', ['1mbit', '10mbit', '100mbit'])\n"
        "def test_link(sojourn_link, rate):\n"
        "    begin = time.monotonic()\n"
        "    link = sojourn_link(rate, '20ms')\n"
        "    assert time.monotonic() - begin < 5\n"
        "    assert link.run(['sh', '-c', 'echo $SOJOURN_CLIENT']).stdout == link.client + '\\n'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert "3 passed" in done.stdout, done.stdout


def test_the_tests_of_a_sample_project_in_rust_have_links_of_their_own(live: None) -> None:
    """As the how-to shows it; the tests of a file run in parallel."""
    if shutil.which("cargo") is None:
        skip_loudly("no cargo, so no project in Rust")
    folder = ROOT / "tests/sample-rust"
    # Everything that it depends on is locked and on this machine: cargo takes the lines that it needs.
    shutil.copy(ROOT / "Cargo.lock", folder)
    variables = {"CARGO_TARGET_DIR": ROOT / "target/sample-rust", "SOJOURN_LIVE": find_program()}
    environment = os.environ | {name: str(path) for name, path in variables.items()}
    command = ["cargo", "test", "--offline", "--", "--nocapture"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"test result: ok\. (\d+) passed", done.stdout) == ["0", "5", "5", "0"]
    print(*re.findall(r"a link is up after .*", done.stdout))
    (shown,) = re.findall(r"^```rust\n(.*?)^```$", (ROOT / HOW_TO).read_text(), re.M | re.S)
    assert shown in (folder / "tests/sockets.rs").read_text(), "the how-to shows what is tested"


# ---- the command ----


def test_a_command_behind_a_link_gives_its_exit_code(live: None, sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    done = sojourn("shell", file, "--", "sh", "-c", "echo at $SOJOURN_CLIENT; exit 5", code=5)
    assert "at 10.101.0.1" in done.stdout
    interrupt = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert "True" in sojourn("shell", file, "--", sys.executable, "-c", interrupt).stdout, "Ctrl-C ends the command"
    assert "sojourn: bottleneck: 0 packets, 0 dropped" in done.stderr
    sojourn("shell", file, "--", "no-such-program", code=2)
    swept = SCENARIO + '[sweep]\n"hop.bottleneck.qdisc" = ["codel", "fq_codel"]\n'
    file.write_text(swept)
    said = sojourn("shell", file, "--", "true").stderr
    assert "the first of 2 combinations: hop.bottleneck.qdisc = codel; --set KEY=VALUE chooses another" in said


def test_a_server_is_a_command_of_the_shell_and_its_end_is_told(live: None, sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    sleeps = [f"sleep {seconds(number)}" for number in (7181, 7182)]
    server = f"cd {shlex.quote(str(tmp_path))}; NAME=server sh -c 'echo $NAME > name'; {sleeps[0]} & {sleeps[1]}"
    command = ["sh", "-c", f"cat {tmp_path}/name; exit 4"]
    done = sojourn("shell", file, "--server", server, "--server", "nosuchserver", "--", *command, code=4)
    assert done.stdout == "server\n"
    assert "sojourn: server 'nosuchserver' ended with exit code 127\n" in done.stderr
    assert done.stderr.count("ended") == 1, "the other one ran until the end of the command"
    assert not any(seconds(number) in alive() for number in (7181, 7182))
    later = sojourn("shell", file, "--server", "sleep 0.6; kill -9 $$", "--", "sleep", "1.2").stderr
    assert "sojourn: server 'sleep 0.6; kill -9 $$' ended with signal 9\n" in later


def test_a_link_that_ends_before_the_command_says_so(live: None, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    command = [SOJOURN, "shell", file, "--server", "sleep 60", "--", "sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stderr is not None
        assert shell.stdout.readline() == "up\n"
        # sojourn-live, and its child, which has the link.
        os.kill(below(shell.pid)[1], signal.SIGKILL)
        assert shell.wait(20) == 128 + signal.SIGKILL
        assert shell.stderr.read() == "sojourn: the link has ended: the run was killed by signal 9\n"


def test_the_shell_refuses_options_that_it_does_not_have(sojourn: Run, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    said = sojourn("shell", file, "--seeds", "3", "--", "true", code=2).stderr
    assert said == "sojourn: --seeds: a shell has one link, in real time, so it takes one seed: expected --seed N\n"
    assert "nearest is --watch" in sojourn("shell", file, "--wacth", code=2).stderr


def test_a_terminal_shows_the_link_and_changes_it(live: None, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    master, terminal = pty.openpty()
    command = [SOJOURN, "shell", file, "--watch", "--flows", "--server", "exit 3"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    before = termios.tcgetattr(terminal)
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=environment) as shell:
        said: list[bytes] = []
        reader = threading.Thread(target=all_of, args=(master, said))
        reader.start()
        time.sleep(2.5)
        os.write(master, b"rate 7mb\x1b[A\x1bOCit\n")
        time.sleep(1.5)
        os.write(master, b"qdisc codel\n")
        time.sleep(1.5)
        os.write(master, b"\x03")
        assert shell.wait(20) == 0
        told = shell.stderr.read() if shell.stderr else b""
    assert termios.tcgetattr(terminal) == before
    os.close(terminal)
    reader.join()
    os.close(master)
    assert b"sojourn: bottleneck:" in told
    assert b"sojourn: server 'exit 3' ended with exit code 3\n" in told
    shown = b"".join(said).decode()
    assert "10.1.0.1:" in shown, "a flow"
    assert "server 'exit 3' ended with exit code 3" in shown
    assert "7mbit" in shown
    assert "done: rate 7mbit" in shown
    assert "done: qdisc codel" in shown


def all_of(terminal: int, said: list[bytes]) -> None:
    """Reads a terminal until its last program has closed it, which Linux reports as an error."""
    with suppress(OSError):
        while piece := os.read(terminal, 65536):
            said.append(piece)


def state_of(queues: int, flows: int, at_s: float, **keys: Any) -> dict[str, Any]:
    """The state of a link as it tells it: in each queue, `flows` flows."""
    words = [f"10.101.0.{number}:10000 > 10.1.0.{number}:5001" for number in range(1, flows + 1)]
    flow = {"packets": 9, "bytes": 12_500_000, "drops": 3, "marks": 1, "sojourn_ms": 4.5}
    late = {"p50": 4600.0, "p90": 5000.0, "p99": 9100.0, "max": 9900.0}
    link = {"qdisc": "fq_codel limit 10240", "rate_bps": 20_000_000, "delay_ms": 5.0}
    link |= {"queued": 17, "backlog": 1, "packets": 9, "bytes": 25_000_000, "drops": 3, "sojourn_us": late} | keys
    links = [{"link": index, "flows": [{"flow": one} | flow for one in words]} | link for index in range(queues)]
    return {"at_s": at_s, "links": links}


def shown(board: watch.Board, width: int, height: int) -> list[str]:
    lines = [line.plain for line in board.lines(width, height)]
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    return lines


def test_the_dashboard_fits_into_80_columns_and_reads_changes() -> None:
    board = watch.Board(["bottleneck"])
    board.look(state_of(1, 1, 10.0))
    lines = shown(board, 80, 24)
    assert lines[1].split() == ["bottleneck", "20mbit", "100", "17", "4.6", "9.1", "3"]
    assert lines[2].split() == ["fq_codel", "limit", "10240"]
    assert " ".join(lines[4].split()) == "10.101.0.1:10000 > 10.1.0.1:5001 10.00 4.5 3 1 bottleneck", "Mbit/s"
    assert watch.parse("rate 5mbit", ["a"]) == (None, {"rate": "5mbit"})
    asked = watch.parse("a.reverse qdisc codel target 9ms", ["a", "a.reverse"])
    assert asked == ("a.reverse", {"qdisc": "codel target 9ms"})
    with pytest.raises(Refusal, match="expected rate, delay or qdisc with a value; nearest is delay"):
        watch.parse("dely 5ms", ["a"])


def test_the_dashboard_has_room_for_the_prompt_and_then_for_queues_and_flows() -> None:
    board = watch.Board(["modem", "modem.reverse", "router", "router.reverse"])
    board.look(state_of(4, 12, 10.0))
    board.line = "rate 5mbit"
    lines = shown(board, 80, 24)
    assert [line.split()[0] for line in lines[1:9:2]] == board.names
    assert lines[19].startswith("10.101.0.10:10000 > 10.1.0.10:5001")
    assert lines[20:] == ["2 more flows", *wrapped(watch.HELP, 80), "> rate 5mbit▏"]
    lines = shown(board, 40, 8)
    assert [line.split()[0] for line in lines[:2]] == ["queue", "modem"]
    assert lines[3:] == ["2 more queues", *wrapped(watch.HELP, 40), "> rate 5mbit▏"]
    board.said = "refused " * 100
    board.line = "rate " * 10 + "end"
    lines = shown(board, 40, 8)
    assert lines[4].startswith("refused refused")
    assert lines[6].endswith("…")
    assert lines[7].startswith("> …")
    assert lines[7].endswith("rate end▏")
    for height in range(1, 30):
        assert shown(board, 40, height)[-1] == lines[7]


def test_the_dashboard_is_at_most_busy_and_shows_a_flow_once() -> None:
    board = watch.Board(["modem", "router"])
    board.look(state_of(2, 1, 10.0))
    state = state_of(2, 1, 11.0, bytes=26_250_000, rate_bps=5_000_000)
    state["links"][1]["flows"][0] = state["links"][1]["flows"][0] | {"sojourn_ms": 9.5}
    board.look(state)
    lines = shown(board, 80, 24)
    assert lines[1].split()[1:3] == ["5mbit", "50"], "10 Mbit in a second that began with 20 Mbit/s"
    assert [line.split()[-1] for line in lines if "10.1.0.1" in line] == ["router"], "where it waits longest"
    board.look(state_of(2, 1, 12.0, bytes=36_250_000, rate_bps=5_000_000))
    assert shown(board, 80, 24)[1].split()[2] == "100"


@pytest.mark.parametrize("typed", ["q\n", "quit\n", "\x03", "\x04", "qdisc c\x03", "\x1b quit \r"])
def test_the_dashboard_ends_when_it_is_told_so(link: Link, typed: str) -> None:
    board = watch.Board(link.names)
    for key in typed[:-1]:
        board.press(key, link)
        assert not board.is_done
    board.press(typed[-1], link)
    assert board.is_done


def test_the_keys_of_a_terminal_are_characters_without_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    master, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(master, "wb", buffering=0) as keyboard:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(watch, "REST_S", 5.0)
        with watch.keys() as read:
            keyboard.write(b"q\x1b[A\x1bOB\x1b[1;5Cu\x1b\x7f")
            assert read(5.0) == "qu"
            keyboard.write("µ".encode()[:1])
            assert read(5.0) == ""
            keyboard.write("µ".encode()[1:] + b"a\x1b[")
            threading.Timer(0.01, keyboard.write, [b"3~b"]).start()
            assert read(5.0) == "µab"
            keyboard.write(b"\x03")
            assert read(5.0) == "\x03"
            assert read(0.0) == ""


def test_the_doctor_says_what_each_world_needs(sojourn: Run) -> None:
    found = json.loads(sojourn("doctor", "sim", "kernel", "-f", "json").stdout)["found"] if has_kernel() else []
    live = [one.as_dict() for one in doctor.examine(("sim", "live"))]
    assert {one["world"] for one in [*found, *live]} >= {"sim", "live"}
    assert all(one["verdict"] in ("ok", "note", "missing") and one["said"] for one in [*found, *live])
    assert next(one for one in live if one["world"] == "sim")["verdict"] == "ok"
    if any(one["what"] == "namespaces" and one["verdict"] == "ok" for one in live):
        kernels = next(one for one in live if "--engine tc" in one["what"])
        assert shutil.which("tc") is None or "pfifo" in kernels["said"]


def has_kernel() -> bool:
    from sojourn.kernel import find

    try:
        find()
    except Refusal:
        return False
    return True


def test_every_discipline_of_ours_can_be_played_live() -> None:
    lines = [
        "pfifo",
        "codel",
        "fq_codel",
        "pie",
        "cake",
        "ccaq",
        "htb rate 5mbit child ccaq",
        "dualpi2",
        "fq_pie",
        "sfq",
    ]
    for line in lines:
        document = plan_document() | {"hop": [{"name": "link", "rate": "1mbit", "qdisc": line}]}
        plan: _core.Plan = sj.load(document)
        assert plan.live_refusal(0) is None, line
