"""`sojourn verify`: correct disciplines pass, and each of twenty faults in an implementation of CoDel is detected."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from conftest import ROOT, SOJOURN, Run, kernel_or_skip, skip_loudly
from sojourn import verify
from sojourn.disciplines import Library, digest_of

FAULTS = {
    1: "at the first drop the chosen packet is delivered and the next one lost",
    2: "at later drops the same",
    3: "the next drop is counted from now, not from when this one was due",
    4: "a delay of just the target does not count",
    5: "dropping goes on at its old pace even after a long rest",
    6: "dropping begins anew even after a short rest",
    7: "a rest is short up to 8 intervals instead of 16",
    8: "the count never grows",
    9: "no square root",
    10: "a queue of one MTU is not left alone",
    11: "the packet in hand counts for that",
    12: "a packet below the target does not begin the interval anew",
    13: "nor does it end dropping",
    14: "the delay of the newest packet is looked at",
    15: "one packet too many fits",
    16: "a full queue drops its head",
    17: "no interval is waited for",
    18: "where the count began is forgotten",
    19: "one drop at most for each packet delivered",
    20: "the bytes of dropped packets still count",
}
LINE = "codel variant rfc8289"
CHOKE = "choke limit 1000 bandwidth 10mbit"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/verify/codel.c, unmodified and with each fault."""
    compiler = shutil.which("cc")
    if compiler is None:
        skip_loudly("no C compiler")
    folder = tmp_path_factory.mktemp("codel")
    for fault in (0, *FAULTS):
        command = [str(compiler), "-O1", "-Wall", "-Werror", f"-DFAULT={fault}", "-o", str(folder / f"codel{fault}")]
        subprocess.run([*command, str(ROOT / "tests/verify/codel.c"), "-lm"], check=True)
    return folder


def test_a_codel_of_another_hand_after_the_rfc_passes(sojourn: Run, built: Path) -> None:
    said = json.loads(sojourn("verify", LINE, "--command", str(built / "codel0"), "-f", "json").stdout)
    assert all(one["passed"] or one["left_out"] for one in said["asked"]), said
    assert [one["name"] for one in said["asked"] if one["left_out"]] == [
        "ECN-capable packets are marked, all others are dropped"
    ], said
    assert len(said["asked"]) >= 18


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault}-{FAULTS[fault].replace(' ', '-')}")
def test_each_fault_is_noticed(sojourn: Run, built: Path, tmp_path: Path, fault: int) -> None:
    command = ["verify", LINE, "--command", str(built / f"codel{fault}"), "-f", "json"]
    command += ["--traces", "3", "--packets", "1000", "--out", str(tmp_path / "kept")]
    said = json.loads(sojourn(*command, code=3).stdout)
    failed = [one for one in said["asked"] if one["fault"]]
    assert failed
    traces = sorted((tmp_path / "kept").glob("*.trace.csv"))
    assert len(traces) == len(failed), "the trace of each is kept"
    assert traces[0].read_text().startswith("time_ns,op,flow,bytes,ecn\n")


def test_the_first_drop_fault_is_named(sojourn: Run, built: Path, tmp_path: Path) -> None:
    """Two widely used emulators deliver the packet that CoDel chose to drop and drop the next one."""
    command = ["verify", LINE, "--command", str(built / "codel1"), "-f", "json", "--out", str(tmp_path / "kept")]
    faults = {one["name"]: one["fault"] for one in json.loads(sojourn(*command, code=3).stdout)["asked"]}
    assert "expected the other way round" in faults["it drops the head, and delivers the packet behind it"]


@pytest.mark.parametrize(
    "line",
    [
        "codel",
        "codel variant linux7 ecn",
        "codel target 15ms interval 150ms",
        "codel variant ns2",
        "fq_codel",
        "fq_codel flows 1",
        "fq_codel limit 2",
        "fq_codel limit 1000 ce_threshold 1ms variant rfc8290",
        "fq",
        "fq flow_limit 1",
        "fq variant linux67",
        "noqueue",
        "pfifo limit 50",
        "bfifo",
        "pfifo_head_drop",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit ecn",
        "red limit 100 variant ns2",
        "red limit 200 min 30 max 90 variant ns2 ecn",
        "pie",
        "pie ecn target 20ms",
        "pie ecn variant rfc8033",
        "pie variant rfc8033b",
        "fq_pie ecn",
        "dualpi2",
        "dualpi2 step_thresh 5p overflow any_ect",
        "dualpi2 variant rfc9332",
        "ccaq variant paper",
        "sfq",
        "sfq variant ns2",
        "prio bands 4 priomap 3 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
        "tbf rate 8mbit burst 5000 limit 20000",
        "htb rate 8mbit",
        CHOKE,
        "sfb",
        "blue",
        "cake",
        "cake bandwidth 9500kbit besteffort",
        "cake bandwidth 9500kbit diffserv8",
        "cake precedence flowblind",
    ],
)
def test_ours_pass_what_is_asked_of_them(line: str) -> None:
    asked = verify.line_of(line)
    subject = verify.Ours(asked.full, verify.LINK)
    found = list(verify.verify(asked, subject, traces=4, packets=3000, seed=1))
    assert [one.fault for one in found if one.fault] == []
    assert sum(one.passed for one in found) >= 5


@pytest.mark.parametrize(
    ("line", "faulty", "noticed"),
    [
        ("pie", "pie target 60ms", "an unresponsive load waits for about the target"),
        ("pie", "pie tupdate 100s", "an unresponsive load waits for about the target"),
        ("pie", "codel", "it drops at the tail, what arrives"),
        ("pie", "pfifo limit 100", "a burst of 150 ms passes"),
        ("pie ecn", "pie", "ECN-capable packets are marked while that is rare"),
        ("pie", "pie ecn", "without ecn nothing is marked"),
        ("codel", "codel ecn", "without ecn nothing is marked"),
        ("fq_codel noecn", "fq_codel", "without ecn nothing is marked"),
        ("red limit 400000", "red limit 400000 ecn", "without ecn nothing is marked"),
        ("dualpi2", "dualpi2 coupling_factor 1", "the classic probability is the square of half of L's"),
        ("dualpi2", "dualpi2 overflow", "in overload both kinds are dropped"),
        ("dualpi2", "dualpi2 step_thresh 200us", "an L queue of 0.3 ms is not marked"),
        ("dualpi2", "dualpi2 step_thresh 20ms", "an L queue of 5 ms is marked, not dropped"),
        ("dualpi2", "dualpi2 any_ect", "ECT(1) and CE go before the others"),
        ("fq_codel", "fq_codel drop_batch 1", "the fattest flow pays, from its head, in a batch"),
        ("fq_codel", "fq_codel quantum 6000", "a spent quantum sends behind the others"),
        ("fq_codel", "fq_codel noecn", "ECN-capable packets are marked, all others are dropped"),
        ("sfq", "pfifo limit 127", "flows share bytes, not packets"),
        (CHOKE, "red limit 1000000", "a flow that fills the queue loses more than the others"),
        ("sfb", "pfifo limit 1000", "a flow that fills the queue loses more than the others"),
        ("blue", "pfifo limit 1000", "after overflows it drops before the queue is full"),
        (
            "red limit 400000 min 30000 max 90000",
            "red limit 400000 min 15000 max 30000",
            "below min nothing is dropped",
        ),
        ("prio", "pfifo", "a lower band goes first, in order of arrival"),
        ("cake", "cake besteffort", "code points have tins of their own"),
        ("cake besteffort", "cake diffserv4", "all code points share a tin"),
        ("bfifo limit 30000", "bfifo limit 29999", "bytes that fit exactly are taken"),
        ("pfifo_head_drop limit 10", "pfifo limit 10", "a full queue drops its oldest"),
        (
            "tbf rate 8mbit burst 5000 limit 20000",
            "tbf rate 9mbit burst 5000 limit 20000",
            "the link is not kept waiting",
        ),
        (
            "tbf rate 8mbit burst 5000 limit 20000",
            "tbf rate 5mbit burst 5000 limit 20000",
            "the link is not kept waiting",
        ),
    ],
)
def test_each_question_has_somebody_who_fails_it(line: str, faulty: str, noticed: str) -> None:
    """A faulty discipline is distinguished from a correct one. Questions after the one that detects it are skipped."""
    subject = verify.Ours(verify.line_of(faulty).full, verify.LINK)
    asked = verify.verify(verify.line_of(line), subject, traces=2, packets=1000, seed=1)
    assert next(one for one in asked if one.name == noticed).fault


class Sleepless(verify.Ours):
    """Our implementation with a clock that stops while its queue is empty, so that no average decays."""

    def play(self, trace: bytes) -> bytes:
        head, *rows = [row.split(",", 1) for row in trace.decode().splitlines()]
        fates = [row.split(",") for row in super().play(trace).decode().splitlines()[1:]]
        left = Counter(at for *_, at, fate in fates if fate != "queued")
        hurried, true, waiting, now, last = [",".join(head)], {"0": "0"}, 0, 0, 0
        for at, rest in rows:
            now += int(at) - last if waiting else min(int(at) - last, 1)
            last = int(at)
            waiting += rest.startswith("enqueue")
            waiting -= left.pop(at, 0)
            true[str(now)] = at
            hurried.append(f"{now},{rest}")
        said, *done = super().play(("\n".join(hurried) + "\n").encode()).decode().splitlines()
        cells = [row.split(",") for row in done]
        return "\n".join([said, *(",".join([*row[:4], true[row[4]], row[5]]) for row in cells), ""]).encode()


@pytest.mark.parametrize("line", ["red limit 400000", "red limit 200 min 30 max 90 variant ns2", CHOKE])
def test_an_average_that_does_not_decay_while_the_queue_is_idle_is_noticed(line: str) -> None:
    asked = verify.line_of(line)
    found = verify.verify(asked, Sleepless(asked.full, verify.LINK), traces=1, packets=100, seed=1)
    assert next(one for one in found if one.name == "while the queue is idle the average decays").fault


@pytest.mark.parametrize("line", ["codel", "fq_codel noecn", "pie", "red limit 400000", CHOKE])
def test_where_nothing_can_be_marked_the_question_is_left_out_with_the_reason(line: str) -> None:
    asked = verify.line_of(line)
    found = list(verify.verify(asked, verify.Ours(asked.full, verify.LINK), traces=1, packets=100, seed=1))
    [marks] = [one for one in found if one.name.startswith("ECN-capable packets are marked")]
    assert (marks.word, marks.left_out) == ("left out", "this line has no ecn, so nothing can be marked")
    with_ecn = verify.line_of(line.replace(" noecn", "") if "noecn" in line else f"{line} ecn")
    found = list(verify.verify(with_ecn, verify.Ours(with_ecn.full, verify.LINK), traces=1, packets=100, seed=1))
    [marks] = [one for one in found if one.name.startswith("ECN-capable packets are marked")]
    assert marks.passed


def test_not_as_ours_says_means_in_ms_and_whether_a_statement_is_violated_too(library: Path) -> None:
    line = verify.line_of("pie")

    def last(faulty: str) -> verify.Verdict:
        subject = of_library(library, verify.line_of(faulty).full)
        return list(verify.verify(line, subject, traces=1, packets=100, seed=1))[-1]

    slow = last("pie target 60ms")
    assert "it also violates what its source says: an unresponsive load waits for about the target" in slow.fault
    near = last("pie beta 22")
    assert near.fault.endswith("no statement above is violated: it is only not as ours")
    assert re.search(r"wait \d[\d.]* ms in the mean: expected \d[\d.]* ± \d[\d.]* ms", slow.fault + near.fault)


@pytest.mark.parametrize(
    "line",
    [
        "codel",
        "fq_codel",
        "fq",
        "pfifo limit 50",
        "pie ecn",
        "fq_pie",
        "dualpi2",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit ecn",
        "sfb",
        "cake",
        "prio",
        "htb rate 8mbit",
    ],
)
def test_the_real_kernels_pass(sojourn: Run, line: str) -> None:
    """The line names no variant: it is that of the kernel."""
    kernel = kernel_or_skip()
    if line == "dualpi2" and kernel.version < (6, 17):
        skip_loudly("Linux has dualpi2 since 6.17")
    said = json.loads(sojourn("verify", line, "--world", "kernel", "--traces", "2", "-f", "json").stdout)
    assert not [one for one in said["asked"] if one["fault"]], said
    assert said["asked"][-1]["passed"], "every packet's fate is ours"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("coddle",), "codel"),
        (("codel limt 5",), "limit"),
        (("codel", "--command", "./nothing-there"), "No such file"),
        (("codel", "--command", "false"), "exit code 1"),
        (("codel", "--command", ""), "expected a program"),
        (("codel", "--command", "echo 'no end"), "expected a program"),
        (("codel", "--command", "echo packet,fate"), "no column fate_ns"),
        (("codel", "--command", "yes"), "prints more than"),
        (("codel", "--command", "sh -c 'yes >&2'", "--patience", "2"), "no answer in 2 s"),
        (("codel", "--command", "sh -c 'exec >&- 2>&-; sleep 9'", "--patience", "2"), "no end in 2 s"),
        (("codel", "--patience", "5"), "--patience = 5: expected --command"),
        (("codel", "--patience", "5", "--library", "nothing.so"), "expected a shared library"),
        (("codel", "--rate", "0bit"), "above zero"),
        (("codel", "--rate", "fast"), "such as 10mbit"),
        (("codel", "--library", "nothing.so"), "expected a shared library"),
        (("codel", "--library", "/lib/x86_64-linux-gnu/libm.so.6"), "no function sojourn_new"),
        (("codel", "--command", "echo hello", "--world", "kernel"), "--command and --world kernel"),
    ],
)
def test_what_can_not_be_asked_is_said_in_a_line(sojourn: Run, arguments: tuple[str, ...], words: str) -> None:
    result = sojourn("verify", *arguments, code=2)
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_a_program_left_running_is_ended_with_it(sojourn: Run, tmp_path: Path) -> None:
    """A program that ends at once while its child holds the pipe open, and one whose child closes it."""
    for redirected in ("", ">&- 2>&-"):
        file = tmp_path / f"left{len(redirected)}"
        program = f"sh -c 'sleep 60 {redirected} & echo $! > {file}'"
        result = sojourn("verify", "codel", "--command", program, "--patience", "2", code=2)
        assert "no answer in 2 s" in result.stderr or "packet" in result.stderr, result.stderr
        left = Path("/proc") / file.read_text().strip() / "stat"
        # A zombie waits to be reaped by its new parent.
        assert not left.exists() or ") Z " in left.read_text()


@pytest.fixture(scope="module")
def library() -> Path:
    """crates/ffi, as built by `cargo test`."""
    if shutil.which("cargo") is None:
        skip_loudly("no cargo, so there is no library")
    build = ["cargo", "build", "--locked", "--quiet", "-p", "sojourn-ffi", "--profile", "test"]
    subprocess.run(build, cwd=ROOT, check=True)
    return ROOT / "target/debug/libsojourn.so"


def of_library(file: Path, line: str, seed: int = 1) -> verify.OfUser:
    """The library as a subject, as `sojourn verify --library` makes it."""
    return verify.OfUser(Library("mine", file, digest_of(file)), line, verify.LINK, seed)


@pytest.mark.parametrize("line", ["pie ecn", "fq_pie", "dualpi2", "red limit 400000 ecn", CHOKE, "sfb", "blue"])
def test_who_is_right_passes_whatever_numbers_it_draws(library: Path, line: str) -> None:
    for seed in (2001, 2002):
        subject = of_library(library, line, seed)
        found = list(verify.verify(verify.line_of(line), subject, traces=1, packets=300, seed=1))
        assert not [one for one in found if one.fault], seed


def test_a_library_with_our_header_is_asked_and_ours_passes(sojourn: Run, library: Path, tmp_path: Path) -> None:
    for line in ("codel variant rfc8289 ecn", "fq_codel limit 300"):
        said = json.loads(sojourn("verify", line, "--library", library, "--traces", "3", "-f", "json").stdout)
        assert all(one["passed"] for one in said["asked"]), said
    compiler, example = shutil.which("cc"), tmp_path / "link"
    if compiler is None:
        skip_loudly("no C compiler")
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "crates/ffi/include"), "-o", str(example)]
    sources = [str(ROOT / "crates/ffi/examples/link.c"), str(ROOT / "target/debug/libsojourn.a")]
    subprocess.run([str(compiler), *flags, *sources, "-lm", "-lpthread", "-ldl"], check=True)
    said = subprocess.run([example, "pfifo limit 1000"], check=True, capture_output=True, text=True).stdout
    # 10 s at 10 Mbit/s with 12 offered: 8333 packets of 1500 bytes leave; all others are queued or dropped.
    assert said.startswith("sent 8333, dropped 668, waiting 999, "), said
    refused = subprocess.run([example, "coddle"], check=False, capture_output=True, text=True)
    assert (refused.returncode, "did you mean" in refused.stderr) == (2, True)


def test_a_program_may_read_the_trace_from_a_file(sojourn: Run) -> None:
    command = f"{SOJOURN} replay {{trace}} --qdisc codel"
    assert "0 failed" in sojourn("verify", "codel", "--command", command, "--traces", "2").stderr


@pytest.mark.parametrize(
    ("line", "gain"),
    [
        ("pie", "beta 22"),
        ("pie", "beta 18"),
        ("pie alpha 20", "alpha 22"),
        ("fq_pie", "beta 22"),
        ("red limit 400000 min 30000 max 90000 avpkt 1000 probability 0.1", "probability 0.11"),
        ("choke limit 1000 bandwidth 10mbit min 20 max 100 probability 0.1", "probability 0.11"),
        ("dualpi2 variant rfc9332 alpha 0.16 beta 3.2", "beta 3.52"),
    ],
)
def test_a_gain_that_is_a_tenth_off_is_noticed_whatever_numbers_are_drawn(library: Path, line: str, gain: str) -> None:
    name, _, value = gain.partition(" ")
    words = line.split()
    at = words.index(name) if name in words else len(words)
    words[at : at + 2] = [name, value]
    asked = verify.line_of(line)
    for seed in (1001, 1002):
        fault = verify.in_distribution(asked, of_library(library, " ".join(words), seed), verify.LINK)
        assert "expected" in fault.fault, seed
    sound = verify.in_distribution(asked, of_library(library, line, 1001), verify.LINK)
    assert sound.passed, sound.fault
