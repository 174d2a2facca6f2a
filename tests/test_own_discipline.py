"""Disciplines of the user's: a library in C and a class in Python play as ours do, and their faults end only their
own runs."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import own
import sojourn as sj
from conftest import SMALL, Run
from sojourn import _core, api, identity, isolated
from sojourn.disciplines import Library, digest_of
from sojourn.errors import Refusal
from sojourn.worlds import Simulator

OURS = "codel limit 60 variant rfc8289"
MINE = "mine limit 60"
PATH = SMALL.split("[sweep]")[0].replace('"codel"\n', '"codel"\nreverse = {{ rate = "1mbit", qdisc = "{line}" }}\n', 1)
"""A link with one discipline in both directions."""
BOTH = (
    PATH.replace('qdisc = "codel"', 'qdisc = "{line}"')
    + """
[[flow]]
kind = "bulk"
direction = "left"
ecn = true
"""
)
HEAD = "struct held *held = pop(q, now);\n\tif (q->dropping) {"
"""The beginning of the C library's dequeue."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's library."""
    return own.library(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def prototype(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[sj.Discipline]]:
    """The page's class."""
    file = own.write_prototype(tmp_path_factory.mktemp("prototype"))
    spec = importlib.util.spec_from_file_location("prototype", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prototype"] = module
    spec.loader.exec_module(module)
    yield module.Codel
    del sys.modules["prototype"]


def faulty(folder: Path, name: str, words: str) -> Path:
    """The library, which executes `words` at its 300th dequeue."""
    return own.library(folder, name, HEAD, f"static volatile int calls;\n\tif (++calls == 300)\n\t\t{words}\n\t{HEAD}")


def packets(line: str, given: api.Disciplines, engine: str = "fast") -> dict[str, Any]:
    """Every packet of a run in which both directions have this discipline."""
    plan = _core.Plan.parse(BOTH.format(line=line), "both.toml", [], None, None, outside=list(given))
    outside = [(one.name, one.source) for one in api.outside_of(given)]
    output = plan.run(0, engine=engine, packets=True, outside=outside)
    assert output is not None
    return dict(output.packets())


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("engine", ["fast", "heap"])
def test_c_and_python_decide_as_ours_fate_for_fate_in_both_engines_and_directions(
    made: Path, prototype: type[sj.Discipline], engine: str
) -> None:
    ours = packets(OURS, {}, engine)
    drops = np.unique(ours["link"][ours["fate"] != ours["fate"][0]])
    assert len(ours["link"]) > 2000
    assert set(drops) == {0, 1}, "both directions are congested"
    for given in ({"mine": made}, {"mine": prototype}):
        assert differing(ours, packets(MINE, given, engine)) == []
    assert differing(ours, packets("mine limit 60 target 25ms interval 50ms", {"mine": made}, engine)), (
        "a difference is seen"
    )


def test_the_command_plays_a_library_next_to_ours_and_a_store_knows_its_builds(
    sojourn: Run, small: Path, made: Path, tmp_path: Path
) -> None:
    small.write_text(small.read_text().replace('"pfifo limit 100", "codel"', f'"{OURS}", "{MINE}"'))
    file = tmp_path / "libmine.1.so"
    file.write_bytes(made.read_bytes())
    sweep = ("sweep", small, "--library", file, "--seeds", "1", "-f", "json")
    assert "2 runs, 2 of them played now" in sojourn(*sweep).stderr
    columns = "qdisc['bottleneck'] AS line, goodput_mbit, versions['discipline mine'] AS file"
    query = ("store", f"SELECT {columns} FROM runs ORDER BY line", "-f", "json")
    ours, mine = json.loads(sojourn(*query).stdout)["rows"]
    assert ours == mine | {"line": OURS, "file": None}
    assert (mine["line"], mine["file"]) == (MINE, f"{file} sha256 {digest_of(made)}")
    assert "0 of them played now" in sojourn(*sweep).stderr
    file.write_bytes(made.read_bytes() + b"\n")
    assert "2 runs, 1 of them played now" in sojourn(*sweep).stderr, "a new build is played again, ours are not"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("__builtin_trap();", "crashed (SIG"),
        ("for (;;) calls = calls;", "hangs (no progress for 1 s"),
        ("exit(7);", "ended its process with exit code 7"),
    ],
)
def test_a_library_that_crashes_or_hangs_is_named_and_loses_no_other_run(
    sojourn: Run, small: Path, tmp_path: Path, words: str, said: str
) -> None:
    file = faulty(tmp_path, "bad", words)
    small.write_text(small.read_text().replace('"codel"]', '"bad limit 60", "codel"]'))
    command = ("sweep", small, "--library", file, "--patience", "1", "--seeds", "1", "-f", "json")
    result = sojourn(*command, code=2)
    (skipped,) = json.loads(result.stdout)["skipped"]
    assert skipped["set"] == {"hop.bottleneck.qdisc": "bad limit 60"}
    assert skipped["reason"].startswith(f"{file}: {said}"), skipped
    assert "seed " in skipped["reason"]
    assert "2 runs, 2 of them played now" in result.stderr, "those of the others"
    assert "1 run ended by a discipline of yours; the other runs are kept" in result.stderr
    if "exit" in said:
        return
    only = sojourn("run", small, "--library", file, "--patience", "1", "--set", "hop.bottleneck.qdisc=bad", code=2)
    assert only.stderr.startswith(f"sojourn: {file}: {said}")
    assert len(only.stderr.splitlines()) == 1


def test_what_a_library_may_not_do_ends_its_run_with_a_sentence(tmp_path: Path, small: Path) -> None:
    last = "\tif (held)\n\t\t*packet = held->packet;"
    cases = {
        "*packet = q->ring[0].packet;": "dequeued a packet that it does not hold",
        "*packet = held->packet, packet->ecn = 3;": "changed a packet's ECN field from 0 to 3",
        "dropped(context, &held->packet, 12), *packet = held->packet;": "dropped a packet for reason 12",
        "dropped(context, NULL, 0), *packet = held->packet;": "dropped a packet that it does not hold",
    }
    for number, (words, said) in enumerate(cases.items()):
        file = own.library(tmp_path, f"bad{number}", last, f"\tif (held)\n\t\t{words}")
        given = {"bad": file}
        plan = sj.load(small, set={"hop.bottleneck.qdisc": "bad limit 60"}, disciplines=given)
        with pytest.raises(Refusal, match=rf"^bad{number}\.so: {said}.*, seed 1, hop.bottleneck.qdisc = bad limit 60$"):
            sj.run(plan, disciplines=given)
    refusing = own.library(tmp_path, "refusing", "\tq->limit = 1000;", '\treturn snprintf(error, size, "no"), NULL;')
    plan = sj.load(small, set={"hop.bottleneck.qdisc": "bad x"}, disciplines={"bad": refusing})
    with pytest.raises(Refusal, match=r"^refusing.so: bad x: no, seed 1"):
        sj.run(plan, disciplines={"bad": refusing})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nothing.so", "No such file or directory: expected a shared library"),
        ("codel.so", "sojourn has a discipline of this name; expected another (--library NAME=codel.so gives it one)"),
        ("mine=small.toml", "no ELF file: expected a shared library"),
        ("a b=mine.so", "name a b: expected a name of letters, digits, _ and -"),
    ],
)
def test_a_library_that_cannot_be_one_is_refused_before_anything_runs(
    sojourn: Run, small: Path, words: str, said: str
) -> None:
    result = sojourn("run", small, "--library", words, code=2)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_names_that_nobody_gives_are_refused(sojourn: Run, small: Path, made: Path) -> None:
    wrong = ("--set", "hop.bottleneck.qdisc=mien")
    assert "; yours: mine" in sojourn("run", small, "--library", made, *wrong, code=2).stderr
    twice = sojourn("run", small, "--library", made, "--library", made, code=2).stderr
    assert "both are named mine: expected NAME=FILE for one" in twice
    assert "mine limit 60" in sojourn("check", small, "--library", made, "--set", f"hop.bottleneck.qdisc={MINE}").stdout
    kernel = sojourn("run", small, "--library", made, "--world", "kernel", code=2).stderr
    assert "expected --world sim with it" in kernel
    plan = sj.load(small, set={"hop.bottleneck.qdisc": MINE}, disciplines={"mine": made})
    with pytest.raises(sj.NothingToRun, match="mine is a discipline of yours, and this world was not given it"):
        sj.run(plan)


class Clumsy(sj.Discipline):
    """A FIFO that fails at its hundredth packet."""

    def __init__(
        self, limit: int = 1000, ecn: bool = False, share: float = 0.5, name: str = "", rate2: int = 0
    ) -> None:
        self.queue: list[Any] = []
        self.given = (limit, ecn, share, name, rate2)
        self.calls = 0

    def enqueue(self, packet: Any, now: int) -> None:
        packet.mine = self.calls
        self.queue.append(packet)
        self.calls += 1
        if self.calls == 100:
            self.misbehave(packet)

    def misbehave(self, packet: Any) -> None:
        print(1 // (packet.bytes - packet.bytes))

    def dequeue(self, now: int) -> Any:
        return self.queue.pop(0) if self.queue else None


class Plain(sj.Discipline):
    """A class without parameters."""

    def enqueue(self, packet: Any, now: int) -> None:
        self.drop(packet)

    def dequeue(self, now: int) -> Any:
        return None


class Talkative(Clumsy):
    def misbehave(self, packet: Any) -> None:
        self.dequeue = None  # type: ignore[method-assign]  # too late: the methods are those of the beginning
        self.queue[0] = "a packet"


class Pedantic(Clumsy):
    def misbehave(self, packet: Any) -> None:
        self.drop(packet, "codle")


def test_an_exception_in_a_class_names_it_and_the_line_and_ends_no_other_run(small: Path) -> None:
    given = {"mine": Clumsy}
    plan = sj.load(small, set={"hop.bottleneck.qdisc": "mine"}, disciplines=given)
    place = r"\(.*test_own_discipline.py, line \d+, in misbehave: print\(1 // "
    with pytest.raises(Refusal, match=rf"^mine: ZeroDivisionError: .*by zero {place}.*seed 1"):
        sj.run(plan, disciplines=given)
    with pytest.raises(Refusal, match=r"^mine: dequeue returned 'a packet': expected a packet or None, seed 1"):
        sj.run(plan, disciplines={"mine": Talkative})
    with pytest.raises(Refusal, match=r'^mine: Error: reason = "codle": expected one of overlimit, flow_limit'):
        sj.run(plan, disciplines={"mine": Pedantic})
    wrong = sj.load(small, set={"hop.bottleneck.qdisc": "mine limt 5"}, disciplines=given)
    with pytest.raises(Refusal, match=r"^mine: mine limt 5: no parameter limt: .*; nearest is limit, seed 1"):
        sj.run(wrong, disciplines=given)
    scenario = sj.read(small)
    scenario["sweep"] = {"hop.bottleneck.qdisc": ["mine", "codel"]}
    results = sj.run(sj.load(scenario, seeds=2, disciplines=given), disciplines=given)
    assert results.count == 2
    assert results.skipped[0]["set"] == {"hop.bottleneck.qdisc": "mine"}
    assert len(results.broken) >= 1
    assert "ZeroDivisionError" in results.broken[0]


def test_the_words_of_a_line_are_the_arguments_of_a_class() -> None:
    (one,) = api.outside_of({"mine": Clumsy})
    assert not isinstance(one, Library)

    def given(words: str) -> tuple[Any, ...]:
        return one.make(f"mine {words}", 1514, 10**7, 1).given  # type: ignore[attr-defined, no-any-return]

    assert given("limit 5 ecn share 0.25 name x rate2 3mbit") == (5, True, 0.25, "x", 3_000_000)
    assert given("noecn limit 5ms") == (5_000_000, False, 0.5, "", 0)
    with pytest.raises(Refusal, match="no parameter limt: expected limit, ecn, share, name, rate2; nearest is limit"):
        given("limt 5")
    with pytest.raises(Refusal, match="limit: expected a value after it"):
        given("ecn limit")
    bare = api.outside_of({"mine": Plain})[0]
    assert not isinstance(bare, Library)
    assert isinstance(bare.make("mine", 1514, 10**7, 1), Plain)
    with pytest.raises(Refusal, match="no parameter limit: expected none"):
        bare.make("mine limit 5", 1514, 10**7, 1)
    with pytest.raises(Refusal, match=r"expected a subclass of sojourn\.Discipline"):
        api.outside_of({"mine": dict})  # type: ignore[dict-item]
    with pytest.raises(Refusal, match="sojourn has a discipline of this name"):
        api.outside_of({"fq": Clumsy})


def test_a_run_depends_on_the_library_that_it_has_and_on_no_other(made: Path, small: Path) -> None:
    world = Simulator(outside=api.outside_of({"mine": made, "other": Clumsy}))
    plan = sj.load(small, set={"hop.bottleneck.reverse.qdisc": "mine"}, disciplines={"mine": made, "other": Clumsy})
    key = world.key(plan, 0)
    assert key["discipline mine"] == digest_of(made)
    assert list(key) == ["simulator", "discipline mine"]
    assert identity.digest(key) != identity.digest(Simulator().key(sj.load(small), 0))
    assert pickle.loads(pickle.dumps(plan)).outside(0) == ["mine"]


def test_verify_and_replay_ask_a_library_and_say_what_is_wrong(sojourn: Run, made: Path, tmp_path: Path) -> None:
    few = ("--traces", "1", "--packets", "300")
    line = "codel limit 1000 variant rfc8289"
    assert "0 failed" in sojourn("verify", line, "--library", made, *few).stderr
    wrong = own.library(
        tmp_path, "wrong", "now < q->drop_next + 16 * q->interval", "now < q->drop_next + 8 * q->interval"
    )
    assert "failed" in sojourn("verify", line, "--library", wrong, *few, "--out", tmp_path / "kept", code=3).stdout
    crashing = faulty(tmp_path, "bad", "__builtin_trap();")
    said = sojourn("verify", line, "--library", crashing, *few, code=2).stderr
    assert said.startswith(f"sojourn: {crashing}: crashed (SIG")
    trace = tmp_path / "t.csv"
    rows = [f"{n * 1000},enqueue,{n % 3},1000,0\n" for n in range(900)]
    trace.write_text("time_ns,op,flow,bytes,ecn\n" + "".join(rows))
    asked = ("replay", trace, "--rate", "1mbit")
    ours = sojourn(*asked, "--qdisc", line).stdout
    assert sojourn(*asked, "--qdisc", "mine limit 1000", "--library", made).stdout == ours
    assert "dropped:codel" in ours
    crashed = sojourn(*asked, "--qdisc", "bad", "--library", crashing, code=2).stderr
    assert crashed.startswith(f"sojourn: {crashing}: crashed (SIG"), crashed


SLOW = """
import time

def sleeps(seconds, progress):
    for step in range(10):
        progress.tell(step + 1)
        time.sleep(seconds / 10)
    return "awake"
"""


def test_progress_is_no_hanging_and_a_stop_ends_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    sleeps = importlib.import_module("slow").sleeps
    assert isolated.call(sleeps, 4.0, patience_s=2.5) == "awake"
    progress = _core.Progress()
    progress.stop()
    assert isolated.call(sleeps, 60.0, progress=progress) is None
