"""A module of the user's in the kernel world: a copy of the kernel's CoDel plays as the kernel's own, a changed one
does not, and `replay --against` says what changed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import own
import sojourn as sj
from conftest import ROOT, Run, kernel_or_skip
from sojourn import _core, fates
from sojourn.kernel import Kernel, modules
from sojourn.kernel.run import Guests

LINE = "codel limit 60"


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return kernel_or_skip()


HALF = ("codel_params_init(&q->params);", "codel_params_init(&q->params);\n\tq->params.interval /= 2;")
"""Half the interval, until the next change of the parameters."""


def test_a_copy_of_a_discipline_plays_as_the_kernels_own_and_a_changed_one_does_not(
    sojourn: Run, kernel: Kernel, small: Path, tmp_path: Path
) -> None:
    small.write_text(small.read_text().replace('"pfifo limit 100", "codel"', f'"{LINE}", "pfifo limit 50"'))
    sweep = ("sweep", small, "--world", "kernel", "-f", "json")
    first = sojourn(*sweep)
    assert "2 runs, 2 of them played now" in first.stderr
    same = own.module(kernel, tmp_path / "same")
    second = sojourn(*sweep, "--qdisc-module", same)
    assert "2 runs, 1 of them played now" in second.stderr, "the FIFO does not depend on the module"
    changed = own.module(kernel, tmp_path / "changed", *HALF)
    assert "2 runs, 1 of them played now" in sojourn(*sweep, "--qdisc-module", changed).stderr
    assert "2 runs, 0 of them played now" in sojourn(*sweep, "--qdisc-module", changed).stderr
    columns = "hops['bottleneck'].drops AS drops, goodput_mbit, versions['qdisc_module'] AS module"
    query = f"SELECT {columns} FROM runs WHERE qdisc['bottleneck'] LIKE 'codel%' ORDER BY module NULLS FIRST"
    kept = json.loads(sojourn("store", query, "-f", "json").stdout)["rows"]
    measures = {str(row.pop("module")).split(" ")[0]: row for row in kept}
    assert list(measures) == ["None", str(changed), str(same)]
    assert measures["None"] == measures[str(same)]
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    (renamed / "sch_mine.c").write_text((same / "sch_codel.c").read_text().replace('"codel"', '"mine"'))
    (renamed / "Kbuild").write_text("obj-m := sch_mine.o\n")
    misnamed = tmp_path / "misnamed"
    misnamed.mkdir()
    (misnamed / "sch_mycodel.c").write_text((same / "sch_codel.c").read_text())
    (misnamed / "Kbuild").write_text("obj-m := sch_mycodel.o\n")
    (tmp_path / "t.csv").write_text(TRACE)
    replay = ("replay", "t.csv", "--qdisc", "codel", "--rate", "10mbit", "--world", "kernel")
    taken = sojourn(*replay, "--qdisc-module", misnamed, code=2).stderr
    assert "the module sch_mycodel registers a name that the kernel has; expected a file with that name" in taken
    asked = ("run", small, "--world", "kernel", "--qdisc-module", renamed, "-f", "json")
    (mine,) = json.loads(sojourn(*asked, "--set", "hop.bottleneck.qdisc=mine").stdout)["runs"]
    (ours,) = json.loads(sojourn(*asked[:4], *asked[6:], "--set", "hop.bottleneck.qdisc=codel").stdout)["runs"]
    assert [flow["goodput_mbit"] for flow in mine["flows"]] == [flow["goodput_mbit"] for flow in ours["flows"]]
    assert measures["None"] != measures[str(changed)]


@pytest.mark.parametrize(
    ("line", "is_used"),
    [("ccaq variant paper", True), ("htb rate 1mbit child ccaq variant paper", True), ("codel", False)],
)
def test_a_file_with_the_papers_ccaq_is_the_module_of_its_variant(
    kernel: Kernel, small: Path, line: str, is_used: bool
) -> None:
    """Linux's name of this discipline, ccaq_paper, is not among the words of its line."""
    module = modules.build(kernel, ROOT / "kernel")["sch_ccaq_paper"]
    plan = sj.load(small, set={"hop.bottleneck.qdisc": line})
    assert ("qdisc_module" in Guests(qdisc_module=module).key(plan, 0)) == is_used


def test_a_module_is_for_the_kernel_world_and_its_name_for_the_scenario(
    sojourn: Run, small: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "Kbuild").write_text("obj-m := sch_mine.o\n")
    asked = ("run", small, "--set", "hop.bottleneck.qdisc=mine")
    in_sim = sojourn(*asked, "--qdisc-module", folder, code=2).stderr
    assert "the simulator has no modules; expected --world kernel with it" in in_sim
    assert "unknown queue discipline" in sojourn(*asked, "--world", "kernel", code=2).stderr
    nothing = sojourn(*asked, "--world", "kernel", "--qdisc-module", "my.txt", code=2).stderr
    assert "--qdisc-module = my.txt: expected a module such as my.ko, or a folder with a Kbuild" in nothing


TRACE = "time_ns,op,flow,bytes,ecn\n" + "".join(f"{n * 1_000_000},enqueue,{n % 3},1514,0\n" for n in range(1500))


def test_replay_against_says_what_a_changed_module_decides_differently(
    sojourn: Run, kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    asked = ("replay", "t.csv", "--qdisc", "codel limit 1000", "--rate", "10mbit", "--world", "kernel")
    own.module(kernel, tmp_path / "same")
    own.module(kernel, tmp_path / "changed", *HALF)
    assert "no packet differs, of 1500" in sojourn(*asked, "--against", "sim").stdout
    same = json.loads(sojourn(*asked, "--against", "same", "-f", "json").stdout)
    assert (same["differing"], same["packets"]) == (0, 1500)
    assert (same["from"]["name"], same["to"]["name"]) == (f"Linux {kernel.release}", f"same in Linux {kernel.release}")
    found = json.loads(sojourn(*asked, "--against", "changed", "-f", "json").stdout)
    assert found["from"]["fates"] == same["from"]["fates"]
    assert found["to"]["fates"]["dropped"] > found["from"]["fates"]["dropped"] > 0
    first = found["first"][0]
    assert (first["from_fate"], first["to_fate"]) == ("delivered", "dropped"), "it drops earlier"
    assert sum(one["packets"] for one in found["moved"]) + found["retimed"] == found["differing"]
    text = sojourn(*asked, "--against", "changed").stdout
    assert f"the first of {found['differing']} packets that differ" in text
    assert "from delivered to dropped" in text
    assert max(map(len, text.splitlines())) <= 100
    rows = list(csv.DictReader(io.StringIO(sojourn(*asked, "--against", "changed", "-f", "csv").stdout)))
    assert len(rows) == found["differing"]
    assert rows[0] == {key: str(value) for key, value in first.items()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--against", "nothing"), "--against = nothing: expected sim, kernel, kernel:VERSION, a module"),
        (("--against", "none.so"), "--library = none.so: No such file or directory: expected a shared library"),
        (("--against", "none.ko"), "--qdisc-module = none.ko: expected a module such as my.ko"),
        (("--against", "empty"), "--qdisc-module = empty: its Kbuild makes no module"),
        (("--against", "kernel:2.4"), "kernel 2.4: not built: expected one that is ("),
        (("--against", "sim", "-s"), "--stats: not with --against"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    sojourn: Run, kernel: Kernel, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.csv").write_text(TRACE[:200].rsplit("\n", 1)[0] + "\n")
    (tmp_path / "empty").mkdir()
    result = sojourn("replay", "t.csv", "--qdisc", "codel", "--rate", "10mbit", *arguments, code=2)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_changes_count_fates_and_times_and_put_the_earliest_first() -> None:
    head = "packet,flow,bytes,enqueue_ns,fate_ns,fate\n"
    one = head + "0,7,100,0,50,delivered\n1,8,100,10,90,dropped:codel\n2,7,100,20,0,queued\n3,9,100,30,80,marked\n"
    two = (
        head
        + "0,7,100,0,50,delivered\n1,8,100,10,90,dropped:overlimit\n2,7,100,20,60,delivered\n3,9,100,30,85,marked\n"
    )
    found = fates.changes(("a", "b"), one.encode(), two.encode())
    assert (found.packets, found.differing, found.retimed) == (4, 2, 1)
    assert found.moved == {("queued", "delivered"): 1}
    assert [row.packet for row in found.rows()] == [2, 3], "the reason of a drop is no difference"
    assert [side.mean_wait_ms for side in found.sides] == [5e-05, pytest.approx((50 + 40 + 55) / 3e6)]
    assert found.as_dict(1)["first"] == [
        {
            **{"packet": 2, "flow": 7, "bytes": 100, "enqueue_ns": 20},
            **{"from_fate": "queued", "from_ns": 0, "to_fate": "delivered", "to_ns": 60},
        }
    ]
    ours = _core.replay(TRACE.encode(), "t", "codel", "10mbit", 1514)[0]
    assert fates.changes(("a", "b"), ours, ours).differing == 0
