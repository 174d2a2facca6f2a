"""Lines for tc, and their interpretation by tc itself.

Each line is passed to the installed tc in a user and network namespace, with a preloaded library that records the
message that tc sends to the kernel. If tc refuses a line, there is no message. A line that both accept must mean the
same: the messages that tc sends for it, and for our own line after parsing it, differ only in attributes that have the
discipline's default."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, compare, skip_loudly
from sojourn import _core, tcline
from sojourn.cli import tables
from sojourn.errors import Refusal
from sojourn.kernel import places, source

WIRETAP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Writes RTM_NEWQDISC and RTM_NEWTCLASS messages in hexadecimal to the file TC_SENT, and passes them on. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t (*real)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
	const unsigned char *bytes = message->msg_iov[0].iov_base;
	unsigned int length, i;
	unsigned short type;

	memcpy(&length, bytes, 4);
	memcpy(&type, bytes + 4, 2);
	if (type == 36 || type == 40) {
		FILE *file = fopen(getenv("TC_SENT"), "a");
		for (i = 0; i < length; i++)
			fprintf(file, "%02x", bytes[i]);
		fclose(file);
	}
	return real(fd, message, flags);
}
"""

SCRIPT = """
while IFS= read -r line; do
    : > "$TC_SENT"
    said=$(LD_PRELOAD=$WIRETAP tc $line 2>&1 | tr '\\n\\t' '  ')
    printf '%s\\t%s\\n' "$(cat "$TC_SENT")" "$said"
done
"""

TCA_KIND, TCA_OPTIONS = 1, 2
STRUCTURE = {"pfifo", "bfifo", "pfifo_head_drop", "prio"}
"""Disciplines whose options are a structure and not attributes; sfq's is one whose zeros stand for nothing given."""
KINDS = [one["name"] for one in _core.catalogue("disciplines")]


@dataclass(frozen=True)
class Sent:
    """The message that tc sent to the kernel for a line, and its output."""

    kind: str | None
    options: dict[int, bytes]
    said: str

    @property
    def accepted(self) -> bool:
        return self.kind is not None


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little") & 0x3FFF
        yield kind, data[4:length]
        data = data[max(4, (length + 3) // 4 * 4) :]


def parse(answer: str) -> Sent:
    message, _, said = answer.partition("\t")
    if not message:
        return Sent(None, {}, said.strip())
    # struct nlmsghdr, struct tcmsg
    found = dict(attributes(bytes.fromhex(message)[16 + 20 :]))
    kind, options = found[TCA_KIND].rstrip(b"\0").decode(), found.get(TCA_OPTIONS, b"")
    if kind in STRUCTURE:
        return Sent(kind, {0: options} if options else {}, said.strip())
    if kind == "sfq":
        words = {place: options[place : place + 4] for place in range(0, len(options), 4)}
        return Sent(kind, {place: word for place, word in words.items() if any(word)}, said.strip())
    found = dict(attributes(options))
    if kind == "cake":  # no rate and no estimate of it: the same as without these options
        found = {key: value for key, value in found.items() if key not in (2, 9) or any(value)}
    if kind == "sfb" and not any(found[1][24:28]):  # a limit of zero is that of the device
        found = {place: found[1][place : place + 4] for place in range(0, 36, 4) if place != 24}
    elif kind == "sfb":
        found = {place: found[1][place : place + 4] for place in range(0, 36, 4)}
    return Sent(kind, found, said.strip())


class Tc:
    """The installed tc, in a namespace of its own."""

    def __init__(self, folder: Path) -> None:
        code, self.library = folder / "wiretap.c", folder / "wiretap.so"
        code.write_text(WIRETAP)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.library, code, "-ldl"], check=True)
        self.sent = folder / "sent"
        self.version = ""

    def ask(self, lines: list[str]) -> list[Sent]:
        """Passes each line, without the word tc, to tc."""
        return [parse(answer) for answer in self.answers(lines)]

    def messages(self, lines: list[str]) -> list[bytes | None]:
        """The options that tc sends for each line; none where it refuses it."""
        hexadecimal = (answer.partition("\t")[0] for answer in self.answers(lines))
        found = [dict(attributes(bytes.fromhex(message)[16 + 20 :])) if message else None for message in hexadecimal]
        return [None if one is None else one.get(TCA_OPTIONS, b"") for one in found]

    def answers(self, lines: list[str]) -> list[str]:
        """For each line the message in hexadecimal, a tab, and the output of tc."""
        environment = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin:{places.home() / 'debian' / 'bin'}",
            "TC_SENT": str(self.sent),
            "WIRETAP": str(self.library),
            "LC_ALL": "C",
        }
        text = "".join(f"{line}\n" for line in lines)
        asked = ["unshare", "-rn", "sh", "-c", SCRIPT]
        done = subprocess.run(asked, input=text, capture_output=True, text=True, check=True, env=environment)
        answers = done.stdout.splitlines()
        assert len(answers) == len(lines)
        return answers

    def options_of(self, lines: list[str]) -> list[Sent]:
        return self.ask([f"qdisc add dev lo root {line}" for line in lines])


@pytest.fixture(scope="module")
def tc(tmp_path_factory: pytest.TempPathFactory) -> Tc:
    needed = [name for name in ("cc", "unshare") if not shutil.which(name)]
    if needed:
        skip_loudly(f"no {', '.join(needed)}, so tc is not asked")
    asked = Tc(tmp_path_factory.mktemp("tc"))
    try:
        trial = asked.ask(["qdisc add dev lo root codel limit 5"])[0]
    except subprocess.CalledProcessError as error:
        skip_loudly(f"tc can't be asked in a namespace here: {error.stderr}")
    if not trial.accepted:
        skip_loudly(f"tc is not there, or can't be asked in a namespace: {trial.said}")
    assert trial == Sent("codel", {2: (5).to_bytes(4, "little")}, trial.said), "the message is read as it is"
    return asked


def read(text: str) -> dict[str, Any] | str:
    """Returns the parsed line, or the message with which sojourn refuses it."""
    try:
        value: dict[str, Any] = _core.qdisc(text)
    except _core.Error as error:
        return str(error)
    del value["warnings"]
    return value


def warnings(text: str) -> list[str]:
    """The warnings about a line that is read."""
    said: list[str] = _core.qdisc(text)["warnings"]
    return said


def for_tc(spec: dict[str, Any]) -> str | None:
    """Returns all parameters in tc's syntax. sfq's flags cannot be switched off by a word."""
    if spec["tc"] is None:
        return None
    line: str = spec["tc"]
    return re.sub(r" (noheaddrop|noharddrop|noecn)", "", line) if line.startswith("sfq") else line


def younger_than_tc(answer: Sent, line: str) -> bool:
    """Whether this version of tc does not know the discipline."""
    return answer.said.startswith(f'Unknown qdisc "{line.split(" ")[0]}"')


def assert_same(tc: Tc, pairs: list[tuple[str, str, Sent]]) -> int:
    """Asserts that tc sends the same for a line and for ours, except for defaults. Returns the number compared."""
    bare = {"red": "red limit 1 avpkt 1 min 1 max 2 burst 3", "choke": "choke limit 100 bandwidth 1mbit"}
    compared, faults = 0, []
    ours = tc.options_of([mine for _, mine, _ in pairs])
    for (text, mine, theirs), own in zip(pairs, ours, strict=True):
        if younger_than_tc(own, mine):
            continue
        if not own.accepted or own.kind != theirs.kind:
            faults.append(f"{text!r}: tc refuses our own {mine!r}, or takes it for another: {own.said}")
            continue
        different = {key for key in theirs.options if own.options.get(key) != theirs.options[key]}
        if different:
            faults.append(f"{text!r} is read as {mine!r}: attributes {different} differ")
        more = own.options.keys() - theirs.options.keys()
        if more:
            spec = read(bare.get(str(own.kind), str(own.kind)))
            assert isinstance(spec, dict), spec
            default = tc.options_of([str(for_tc(spec))])[0]
            wrong = {key for key in more if own.options[key] != default.options.get(key)}
            if wrong:
                faults.append(f"{text!r} is read as {mine!r}: attributes {wrong} are no default")
        compared += 1
    assert not faults, "\n".join(faults)
    return compared


LINES = tomllib.loads((ROOT / "tests" / "tc_lines.toml").read_text())["line"]


def is_printed(text: str) -> bool:
    return re.search(r"^(qdisc|class) |^\[", text, re.M) is not None


def command_of(text: str) -> str:
    """Returns the words after tc; for a discipline alone, those that add it to a device."""
    words = text.removeprefix("#").removeprefix("sudo ")
    words = words.removeprefix("tc ") if words.startswith("tc ") else f"qdisc add dev lo root {words}"
    return re.sub(r"\bdev \S+", "dev lo", words)


def test_there_are_a_hundred_lines_and_each_verdict_is_among_them() -> None:
    assert len(LINES) >= 150
    assert len({line["text"] for line in LINES}) == len(LINES), "no line twice"
    for verdict in ("becomes", "refused", "beyond", "wrong", "unlike"):
        assert sum(verdict in line for line in LINES) >= 4, verdict


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["text"][:60])
def test_a_line_is_read_or_refused_with_a_sentence_that_says_what_to_do(line: dict[str, Any]) -> None:
    spec = read(line["text"])
    if "refused" in line:
        assert isinstance(spec, str), f"read as {spec}"
        assert line["refused"] in spec
    elif "wrong" in line:
        assert isinstance(spec, str), f"read as {spec}"
    else:
        assert isinstance(spec, dict), spec
        if "becomes" in line:
            assert spec == read(line["becomes"])
        if "warns" in line:
            assert [said for said in warnings(line["text"]) if line["warns"] in said]
        # The printed line is read as the same parameters.
        assert read(spec["full"]) == spec
        assert warnings(spec["full"]) == []


def test_tc_takes_what_we_take_and_means_the_same(tc: Tc) -> None:
    asked = [line for line in LINES if not is_printed(line["text"])]
    pairs = []
    for line, answer in zip(asked, tc.ask([command_of(line["text"]) for line in asked]), strict=True):
        text, spec = line["text"], read(line["text"])
        if "beyond" in line or "wrong" in line:
            assert not answer.accepted, f"{text!r}: tc takes it"
        else:
            assert answer.accepted, f"{text!r}: tc refuses it: {answer.said}"
        if isinstance(spec, dict) and answer.accepted and spec["tc"] is not None and "unlike" not in line:
            pairs.append((text, str(for_tc(spec)), answer))
    assert assert_same(tc, pairs) > 80


def test_tc_takes_what_we_print_for_what_it_printed(tc: Tc) -> None:
    specs = [read(line["text"]) for line in LINES if is_printed(line["text"])]
    lines = [str(for_tc(spec)) for spec in specs if isinstance(spec, dict) and spec["tc"] is not None]
    refused = [
        (line, answer.said) for line, answer in zip(lines, tc.options_of(lines), strict=True) if not answer.accepted
    ]
    assert not refused
    assert len(lines) > 15


def test_two_lines_that_differ_are_seen_to_differ(tc: Tc) -> None:
    """The comparison above can fail: for another value, another unit, and a value that is not the default."""
    for text, mine in [
        ("codel target 5ms", "codel target 6ms"),
        ("fq_pie quantum 1Kb", "fq_pie quantum 1000"),
        ("codel", "codel limit 999"),
        ("tbf rate 1mbit burst 10kb limit 20kb", "tbf rate 1mbit burst 10000 limit 20kb"),
        ("pfifo limit 1k", "pfifo limit 1000"),
    ]:
        answer = tc.options_of([text])[0]
        with pytest.raises(AssertionError, match="attributes"):
            assert_same(tc, [(text, mine, answer)])


# Generated lines.

NUMBERS = """
0 1 2 3 5 7 10 25 100 127 128 600 1000 1024 1514 3000 15000 60000 65535 65536 100000 1000000 4294967295 4294967296
0x10 0X1f 1e3 1.5 10.9 .5 5. 1.2.3 12x x 1e 1e99 0.02 1e-2 1.0
"""
UNITS = """
k kb Kb K m mb gb kbit Kbit mbit gbit tbit kibit bit bps kbps mbps KiBps s sec secs ms msec MSECS us usec ns min % b
"""
NEEDED = {
    "red": "limit 400000 avpkt 1000 bandwidth 10mbit",
    "choke": "limit 1000 bandwidth 10mbit",
    "tbf": "rate 1mbit burst 5k limit 90k",
}
WITHOUT_OFF = {"red", "choke", "sfq"}
"""Disciplines whose flags tc has no word to switch off."""
UNASKED = {"noqueue", "blue", "ccaq", "htb", "dualpi2", "pfifo_head_drop"}
"""Disciplines without parameters, those that this tc does not have, and htb, whose parameters are a class's."""
STRICTER = [
    " must be ",  # the kernel, or we, have a bound
    "must not be ",
    "must be",
    "leading zero means octal",
    "is too small",
    "is too large",
    "too low",
    "does not fit",
    "leaves less than 2",
    "names a band",
    "too long",
    "holds packets back for more",
    "the device's own speed",
    "needs ecn",
    "too large;",  # tc converts any double to an integer
    "not a number; probability expects",  # tc takes any text behind the number, as in 0.02x
    "not a number; increment expects",
    "not a number; decrement expects",
]
"""Parts of our messages about lines that tc accepts: the kernel refuses them, or they are beyond our bounds."""
BOUNDED = [("quantum", 256), ("memory_limit", 1 << 31), ("memlimit", 1 << 31), ("depth", 127), ("flows", 65_408)]
"""Values to which the kernel raises or lowers what tc sends it."""
PRINTED = re.compile(r"\d(p|b|sec|%|ns|nsec|Kb|B)\b|^sfb .*(rehash|db) \S+s\b")
"""Forms that tc prints, or that are ours, and that it does not accept everywhere."""


def generated(rng: random.Random, kind: str, params: list[dict[str, Any]]) -> str:
    """A line with one to four parameters of the discipline, with any values."""
    words = [kind, NEEDED.get(kind, "")]
    for _ in range(rng.randint(1, 4)):
        param = rng.choice(params)
        name = rng.choice([param["name"], *ALIASES.get(f"{kind} {param['name']}", [])])
        if param["off"] is not None:
            words.append(rng.choice([name, name if kind in WITHOUT_OFF else param["off"]]))
        elif param["expects"].startswith("no value"):
            words.append(rng.choice(param["expects"].partition(": ")[2].split(", ")))
        elif rng.random() < 0.3 and param["default"]:
            words += [name, param["default"]]
        else:
            words += [name, rng.choice(NUMBERS.split()) + rng.choice(["", "", *UNITS.split()])]
    return " ".join(" ".join(words).split())


ALIASES = {
    "red adaptive": ["adaptative"],
    "tbf burst": ["buffer", "maxburst", "b", "bur"],
    "tbf mtu": ["minburst"],
    "tbf latency": ["lat"],
    "tbf limit": ["lim", "l"],
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in UNASKED])
def test_generated_lines_are_taken_and_read_as_by_tc(tc: Tc, kind: str) -> None:
    """We accept what tc accepts, and mean what it then sends. Where we are stricter, the message names a bound."""
    rng = random.Random(f"lines of {kind}")
    (table,) = [one for one in _core.catalogue("disciplines") if one["name"] == kind]
    others = ("printed by", "RED: printed")
    params = [one for one in table["parameters"] if not one["ours"] and not one["doc"].startswith(others)]
    params = [one for one in params if not re.search("can not be had here|ignored", one["expects"])]
    lines = sorted({generated(rng, kind, params) for _ in range(120)})
    pairs, faults = [], []
    for line, answer in zip(lines, tc.options_of(lines), strict=True):
        spec = read(line)
        if isinstance(spec, dict) and not answer.accepted:
            if not PRINTED.search(line):
                faults.append(f"{line}: tc refuses it ({answer.said}); ours: {spec['full']}")
        elif isinstance(spec, str) and answer.accepted:
            if not any(part in spec for part in STRICTER):
                faults.append(f"{line}: tc takes it; ours: {spec}")
        elif isinstance(spec, dict):
            if any(name in line.split() and spec["values"][name] == bound for name, bound in BOUNDED):
                continue
            pairs.append((line, str(for_tc(spec)), answer))
    assert not faults, "\n".join(faults)
    assert_same(tc, pairs)
    assert len(pairs) > 2


IMPAIR = [
    "delay {t}", "latency {t} {t}", "delay {t} {t} {p}", "del {t} {t} distribution normal", "loss {p}", "loss {p} {p}",
    "drop {p}", "loss random {p}", "loss state {p}", "loss state {p} {p} {p} {p} {p}", "loss gemodel {p}",
    "loss gemodel {p} {p} {p} {p}", "ecn", "reorder {p}", "reorder {p} {p}", "gap {n}", "duplicate {p}", "dup {p}",
    "distribution pareto", "slot {t}", "slot {t} {t}", "slot {t} {t} packets {n}", "slot {t} {t} packets {n} bytes {s}",
    "slot distribution normal {t} {t}", "slot {t} bytes {s} packets {n}", "los {p}", "e", "nonsense {n}",
]  # fmt: skip
OF_NETEM = struct.Struct("=6I")


def netem(data: bytes) -> dict[int, bytes]:
    """netem's structure and its attributes. One that is all zero is as if it were absent."""
    found = dict(attributes(data[OF_NETEM.size :]))
    return {-1: data[: OF_NETEM.size], **{key: value for key, value in found.items() if any(value)}}


def test_generated_impairments_are_taken_and_read_as_by_tc(tc: Tc) -> None:
    rng = random.Random("netem")
    times = ["0", "1", "800", "10ms", "1.5ms", "100us", "1s", "20msecs", "300MS", "2x", "0.25ms", "1e4", "12ns"]
    shares = ["0%", "1%", "0.3%", "25%", "100", "50.5%", "101%", "1e-1%", "3x", "0.001%"]
    numbers, sizes = ["0", "1", "5", "32", "0x10", "1.5", "-1"], ["0", "1500", "64k", "1mbit", "3q"]
    fill = {"{t}": times, "{p}": shares, "{n}": numbers, "{s}": sizes}
    lines = set()
    for _ in range(700):
        parts = [rng.choice(IMPAIR) for _ in range(rng.randint(1, 3))]
        words = ["limit", rng.choice(["1000", "1k", "1000mbit", "0x10", "7", "1.9"]), *" ".join(parts).split()]
        line = " ".join(rng.choice(fill[word]) if word in fill else word for word in words)
        # A second slot leaves rests of the first in the message, and a reordering of 0 % its correlation: no effect.
        if line.count("slot") < 2 and "reorder 0%" not in line:
            lines.add(line)
    asked = sorted(lines)
    pairs, faults, refused = [], [], 0
    for line, answer in zip(asked, tc.messages([f"qdisc add dev lo root netem {line}" for line in asked]), strict=True):
        try:
            own = _core.impair(line)["words"]
        except _core.Error as error:
            own, said = None, str(error)
        if own is None and answer is not None:
            # A bound of ours: netem's tables have no more.
            if "at most a day" not in said and "whole number" not in said:
                faults.append(f"{line}: tc takes it; ours: {said}")
        elif own is not None and answer is None:
            if "ns" not in line:
                faults.append(f"{line}: tc refuses it; ours: {own}")
        elif own is not None and answer is not None:
            pairs.append((line, own, answer))
        else:
            refused += 1
    assert not faults, "\n".join(faults)
    assert len(pairs) > 60
    assert refused > 60
    ours = tc.messages([f"qdisc add dev lo root netem {own}" for _, own, _ in pairs])
    differing = [
        f"{line!r} is read as {own!r}"
        for (line, own, theirs), mine in zip(pairs, ours, strict=True)
        if mine is None or netem(mine) != netem(theirs)
    ]
    assert not differing, "\n".join(differing)


# The kernel's own tests.

TESTS_OF_TC = "tools/testing/selftests/tc-testing/tc-tests"
HTB = "an htb without a class shapes nothing: its class is what sojourn asks for"
REFUSED = {
    r"\bhtb( |$)": (HTB, "htb rate 10mbit child fq_codel"),
    r"\bcake .*autorate-ingress": ("cake's own estimate of the rate is not there", "give a bandwidth"),
    r"\bcake .*fwmark": ("packets here carry no mark", "firewall"),
    r"\bpfifo_head_drop limit 0": ("drops every packet", "limit must be"),
}
"""Lines that tc accepts and sojourn refuses, by a pattern of the line: the reason, and a part of the message."""
BEYOND = {
    r"handle (10000:|123\^)|parent root 123": "where a discipline stands has no meaning here, so it is ignored",
}
"""Lines that tc refuses and sojourn accepts."""
ABOVE = {"noqueue", "blue", "ccaq"}
"""Disciplines of ours, or without a test in the kernel."""


def kernel_lines(texts: Iterable[bytes]) -> dict[str, bool]:
    """Returns every line of the kernel's own tests that sets up or changes a discipline that we have, and whether it
    expects success."""
    found: dict[str, bool] = {}
    kinds = re.compile(rf"\$TC qdisc (?:add|replace|change) .*?\b({'|'.join([*KINDS, 'pfifo_fast'])})\b")
    for text in texts:
        for case in json.loads(text):
            commands = [one if isinstance(one, str) else one[0] for one in case["setup"]]
            wanted = {**dict.fromkeys(commands, True), case["cmdUnderTest"]: case["expExitCode"] == "0"}
            for line, succeeds in wanted.items():
                if kinds.search(line) and "|" not in line:
                    found[line.strip()] = found.get(line.strip(), True) and succeeds
    return found


def packed(archive: Path) -> Iterator[bytes]:
    """Reads the files of the kernel's own tests from its package, up to their end."""
    begun = False
    with tarfile.open(archive) as members:
        for member in members:
            here = TESTS_OF_TC in member.name
            if begun and not here:
                return
            begun = begun or here
            file = members.extractfile(member) if here and member.name.endswith(".json") else None
            if file is not None:
                yield file.read()


@pytest.fixture(scope="module")
def of_linux() -> dict[str, bool]:
    # Unpacked by 'make test': crates/oracle/fetch-sources.sh.
    unpacked = sorted((places.home() / "linux-sources").glob(f"*/{TESTS_OF_TC}"))
    if unpacked:
        return kernel_lines(path.read_bytes() for path in sorted(unpacked[-1].rglob("*.json")))
    kept = sorted((places.cache() / "sources").glob("linux-source-*.tar.*"))
    if kept:
        return kernel_lines(packed(kept[-1]))
    try:
        with source.packages(None) as packages:
            return kernel_lines(packed(source.archive(packages[0], lambda stage, share: None)))
    except Refusal as error:
        skip_loudly(f"neither the cache nor apt has a source of Linux: {error}")
        raise


def test_the_kernels_own_lines_are_taken_as_tc_takes_them_or_refused_with_a_reason(
    tc: Tc, of_linux: dict[str, bool]
) -> None:
    assert len(of_linux) > 150
    variables = {"$TC ": "", "$DUMMY": "lo", "$DEV1": "lo", "$ETH": "lo", "$IFB": "lo"}
    asked = []
    for line in of_linux:
        for name, value in variables.items():
            line = line.replace(name, value)
        asked.append(line)
    pairs, used, wrong = [], set(), []
    for line, answer, succeeds in zip(asked, tc.ask(asked), of_linux.values(), strict=True):
        spec = read(f"tc {line}")
        refusal = next((pattern for pattern in REFUSED if re.search(pattern, line)), None)
        beyond = next((pattern for pattern in BEYOND if re.search(pattern, line)), None)
        young = "dualpi2" in line and not answer.accepted
        if isinstance(spec, str) and answer.accepted and succeeds:  # otherwise the kernel refuses it
            used.add(refusal)
            if refusal is None or REFUSED[refusal][1] not in spec:
                wrong.append(f"{line}: tc takes it; ours: {spec}")
        elif isinstance(spec, dict) and not answer.accepted and not young:
            used.add(beyond)
            if beyond is None:
                wrong.append(f"{line}: tc refuses it ({answer.said}); ours: {spec['full']}")
        elif isinstance(spec, dict) and answer.accepted and spec["tc"] is not None and "pfifo_fast" not in line:
            pairs.append((line, str(for_tc(spec)), answer))
    assert not wrong, "\n".join(wrong)
    assert assert_same(tc, pairs) > 100
    assert {*REFUSED, *BEYOND} <= used, f"no line needs { ({*REFUSED, *BEYOND} - used) }"


# The line to paste.


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_to_paste_is_taken_by_tc_or_says_why_there_is_none(tc: Tc, kind: str) -> None:
    needed = {"red": "limit 400000", "choke": "limit 1000", "tbf": "rate 1mbit burst 5k limit 9k", "htb": "rate 1mbit"}
    line, note = tcline.paste(f"{kind} {needed.get(kind, '')} {'variant paper' if kind == 'ccaq' else ''}")
    if kind == "blue":
        assert line is None
        assert note
        return
    if kind == "ccaq":
        assert line == "tc qdisc replace dev eth0 root ccaq_paper"
        assert "needs the module sch_ccaq_paper and its tc plugin" in note
        return
    assert line is not None
    assert line.startswith("tc qdisc replace dev eth0 root")
    answers = tc.ask([command.strip().removeprefix("tc ").replace("eth0", "lo") for command in line.split("&&")])
    young = kind == "dualpi2" and younger_than_tc(answers[0], kind)
    assert young or all(answer.accepted for answer in answers), [answer.said for answer in answers]


def test_the_line_to_paste_of_variants_and_shapers() -> None:
    assert tcline.paste("codel variant rfc8289")[0] is None
    assert "only in sojourn" in tcline.paste("codel variant rfc8289")[1]
    line, note = tcline.paste("fq_codel limit 900 variant linux7")
    assert line == "tc qdisc replace dev eth0 root fq_codel limit 900"
    assert "7.0" in note
    line, note = tcline.paste("htb rate 8mbit child fq_codel target 15ms")
    assert (line, note) == (
        "tc qdisc replace dev eth0 root handle 1: htb default 1 && "
        "tc class replace dev eth0 parent 1: classid 1:1 htb rate 8mbit && "
        "tc qdisc replace dev eth0 parent 1:1 handle 10: fq_codel limit 10240 target 15ms",
        "",
    )
    assert tcline.paste(line)[0] == line, "it is read as it was written"
    assert tcline.paste("hhf limit 500")[0] == "tc qdisc replace dev eth0 root hhf limit 500"
    assert tcline.paste("fq_codel limt 3")[0] is None
    assert "limit" in tcline.paste("fq_codel limt 3")[1]
    assert tcline.paste("mine limit 3") == (None, "mine is a discipline of yours, for sojourn.")


def in_a_namespace(commands: list[str]) -> list[str]:
    """Returns the output of each command, entered into a shell in turn, on one interface of a namespace."""
    script = 'while IFS= read -r line; do sh -c "$line" 2>&1 | tr "\\n" " "; echo; done'
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "LC_ALL": "C"}
    text = "".join(command.replace("eth0", "lo") + "\n" for command in commands)
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", script], input=text, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.splitlines()


def test_the_printed_commands_work_one_after_the_other_with_what_is_said_before_them(tc: Tc, tmp_path: Path) -> None:
    """Disciplines that this machine's kernel lacks are distinguished from faults by the kernel's own message."""
    swept = [
        "pfifo limit 9",
        "tbf rate 1mbit burst 5k limit 9k",
        "htb rate 8mbit child pfifo",
        "htb rate 8mbit child bfifo",
    ]
    swept += ["tbf rate 1mbit burst 5k latency 50ms child pfifo", "htb rate 9mbit", "codel", "cake bandwidth 8mbit"]
    path = tmp_path / "line.toml"
    path.write_text(
        'duration = "1s"\n[[hop]]\nname = "home"\nrate = "9mbit"\ndelay = "5ms"\n[[flow]]\nkind = "bulk"\n'
        f'[sweep]\n"hop.home.qdisc" = {json.dumps(swept)}\n'
    )
    out = io.StringIO()
    with redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "400")
        tables.show(compare(path).cases())
    printed = [line.replace(" && \\", " &&") for line in out.getvalue().split("On a router")[1].splitlines()]
    before, *commands = [line for line in "\n".join(printed).replace("&&\n", "&& ").splitlines() if line[:3] == "tc "]
    assert before == tcline.CLEAR
    assert len(commands) == len(swept)
    lacking = "Error: Specified qdisc kind is unknown."
    typed = [line for command in commands for line in (before, command)]
    said = [answer.strip() for answer in in_a_namespace(typed)][1::2]
    faults = [pair for pair in zip(commands, said, strict=True) if pair[1] not in ("", lacking)]
    assert not faults
    if said.count("") < 4:
        skip_loudly("this kernel has fewer than four of the disciplines")
    assert any(answer.strip() not in ("", lacking) for answer in in_a_namespace(commands)), "they need what is before"
