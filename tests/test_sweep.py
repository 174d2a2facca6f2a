"""`sojourn sweep`: it runs what is missing, keeps the results in every case, and stops when it knows enough."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from conftest import ROOT, SMALL, SOJOURN, Run, compare, kernel_or_skip, rows, skip_loudly, sweep
from sojourn import cases, executors, means, measures, pipeline, records
from sojourn.errors import Refusal
from sojourn.plan import load
from sojourn.store import Store
from sojourn.until import FEWEST_SEEDS, Until
from sojourn.words import number_text, percent_text
from sojourn.worlds import Simulator

LONG = SMALL.replace('duration = "3s"', 'duration = "120s"')


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A scenario whose runs take some tens of milliseconds each."""
    path = tmp_path / "small.toml"
    path.write_text(LONG)
    return path


@contextmanager
def start(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Starts a sweep that ends with the context."""
    command = [SOJOURN, "sweep", *map(str, words)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.01)


def test_only_what_is_missing_is_run(tmp_path: Path, small: Path, sojourn: Run) -> None:
    store = tmp_path / "store"

    def played(*words: object) -> tuple[int, int]:
        said = json.loads(sojourn("sweep", small, "--store", store, "-f", "json", *words).stdout)
        return said["runs"], said["played"]

    assert played("--seeds", "2") == (4, 4)
    assert played("--seeds", "2") == (4, 0), "repeated"
    assert played("--seeds", "3") == (6, 2), "more seeds"
    assert played("--set", "hop.bottleneck.qdisc=codel", "--seeds", "3") == (3, 0), "swept or set, it is the same run"
    assert played("--set", "hop.bottleneck.qdisc=pie") == (1, 1), "another discipline"
    assert played("--set", "duration=2s") == (2, 2), "another scenario"
    assert played("--seed", "7") == (2, 2), "another seed"
    small.write_text("# commented\n" + small.read_text().replace("A small link", "A renamed link"))
    assert played("--seeds", "3") == (6, 0), "comments and titles change nothing"
    assert rows(store).num_rows == 11


def test_a_swept_key_that_is_set_plays_each_run_once(tmp_path: Path, small: Path, sojourn: Run) -> None:
    words = ("sweep", small, "--seeds", 2, "--set", "hop.bottleneck.qdisc=codel", "--store", tmp_path / "store")
    said = json.loads(sojourn(*words, "-f", "json").stdout)
    assert (said["runs"], said["played"]) == (2, 2)
    [one] = said["combinations"]
    assert one["seeds"] == 2
    assert one["measures"]["hops.bottleneck.utilisation"]["count"] == 2


def test_a_part_of_a_sweep_plays_only_its_own(tmp_path: Path, small: Path) -> None:
    store = Store(tmp_path / "store")
    swept = sweep(load(small), store, among=lambda one: one["hop.bottleneck.qdisc"] == "codel")
    assert [one.set for one in swept.combinations] == [{"hop.bottleneck.qdisc": "codel"}]
    assert (swept.count, swept.played) == (1, 1)
    with pytest.raises(Refusal, match="no combination of the sweep is one of those"):
        sweep(load(small), store, among=lambda _one: False)


def test_the_table_is_that_of_run(tmp_path: Path, small: Path, sojourn: Run) -> None:
    ran = sojourn("run", small, "--seeds", "3", "--out", tmp_path / "out").stdout
    swept = sojourn("sweep", small, "--seeds", "3", "--store", tmp_path / "store").stdout
    assert swept == ran


def test_a_table_shows_the_first_hundred_combinations_and_says_how_to_see_all(
    tmp_path: Path, small: Path, sojourn: Run
) -> None:
    intervals = [f"{ms}ms" for ms in range(50, 101)]
    small.write_text(SMALL.replace('"3s"', '"1.1s"') + f'"flow.pings0.interval" = {json.dumps(intervals)}\n')
    words = ("sweep", small, "--store", tmp_path / "store")
    text = sojourn(*words).stdout
    shown = list(dict.fromkeys(re.findall(r"(?m)^ (?:pfifo limit 100|codel), pings0.interval \d+ ms", text)))
    assert len(shown) == 100
    assert shown[-1] == " codel, pings0.interval 98 ms"
    assert '2 more combinations: see all with -f csv, or some with sojourn store "SELECT …"' in text
    assert len(sojourn(*words, "-f", "csv").stdout.splitlines()) == 1 + 102
    assert len(json.loads(sojourn(*words, "-f", "json").stdout)["combinations"]) == 102


def test_means_are_said_by_the_names_of_their_measures(tmp_path: Path, small: Path, sojourn: Run) -> None:
    words = ("sweep", small, "--seeds", "3", "--store", tmp_path / "store", "-f")
    said = json.loads(sojourn(*words, "json").stdout)
    runs = compare(small, seeds=3).runs
    assert [one["set"] for one in said["combinations"]] == [runs[0].set, runs[3].set]
    for combination, seeds in zip(said["combinations"], (runs[:3], runs[3:]), strict=True):
        mean = means.mean_of([one.result["hops"]["bottleneck"]["sojourn_ms"]["p95"] for one in seeds])
        assert mean is not None
        assert combination["measures"]["hops.bottleneck.sojourn_ms.p95"] == {
            "mean": mean.value,
            "half_width": mean.half_width,
            "count": 3,
        }
    table = list(csv.DictReader(io.StringIO(sojourn(*words, "csv").stdout)))
    for row, combination in zip(table, said["combinations"], strict=True):
        assert row["set.hop.bottleneck.qdisc"] == combination["set"]["hop.bottleneck.qdisc"]
        for name, mean in combination["measures"].items():
            assert row[name] == ("" if mean is None else repr(mean["mean"]))
            assert row[f"{name}.half_width"] == ("" if mean is None else repr(mean["half_width"]))


def test_killed_ten_times_at_random_it_equals_an_undisturbed_one_row_for_row(
    tmp_path: Path, long: Path, sojourn: Run
) -> None:
    chance = random.Random(6)
    words = (long, "--seeds", "100", "--jobs", "2", "--store")
    sojourn("sweep", *words, tmp_path / "whole")
    kills, counts = 0, [0]
    while kills < 10:
        with start(*words, tmp_path / "killed") as one:
            wait_for(lambda: len(_there(tmp_path / "killed")) > counts[-1])
            found = _there(tmp_path / "killed")
            time.sleep(chance.uniform(0, 0.15))
            one.send_signal(signal.SIGKILL)
            one.communicate()
            kills += one.returncode == -signal.SIGKILL
            assert one.returncode != 0, "it was done before it could be killed ten times"
        counts.append(len(found))
    last = json.loads(sojourn("sweep", *words, tmp_path / "killed", "-f", "json").stdout)
    assert 0 < last["played"] < 200 - counts[-1] + 1, counts
    assert rows(tmp_path / "killed").equals(rows(tmp_path / "whole"))
    assert rows(tmp_path / "whole").num_rows == 200


def _there(store: Path) -> set[str]:
    new = store / "new"
    while True:
        fresh = {path.name for path in new.iterdir() if path.name[0] != "."} if new.is_dir() else set()
        packs = (store / "runs").glob("[!.]*.parquet")
        # Another process may replace small packs by a larger one in between.
        with suppress(FileNotFoundError):
            return fresh.union(*(pq.read_table(path)["id"].to_pylist() for path in packs))


def test_two_at_once_share_the_work_and_nothing_is_lost_or_double(tmp_path: Path, long: Path, sojourn: Run) -> None:
    store = tmp_path / "store"
    words = ("--jobs", "3", "--store", store, "-f", "json")
    with start(long, "--seeds", "25", *words) as one, start(long, "--seeds", "30", *words) as other:
        said = [json.loads(process.communicate()[0]) for process in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0)
    assert [one["runs"] for one in said] == [50, 60]
    assert sum(one["played"] for one in said) == 60, "each run was played once"
    sojourn("sweep", long, "--seeds", "30", "--store", tmp_path / "alone")
    assert rows(store).equals(rows(tmp_path / "alone"))


def test_what_a_killed_one_was_playing_another_plays(tmp_path: Path, long: Path) -> None:
    store = tmp_path / "store"
    endless = tmp_path / "endless.toml"
    endless.write_text(SMALL.replace('duration = "3s"', 'duration = "24h"').replace("10mbit", "200mbit"))
    words = (endless, "--set", "hop.bottleneck.qdisc=codel", "--store", store)
    with start(*words) as one:
        wait_for(lambda: _holders(store, one) == {one.pid})
        with start(*words) as other:
            time.sleep(3)  # usually it waits for the first by now; it plays the run also if it starts later
            assert other.poll() is None
            assert _holders(store, one, other) == {one.pid}
            one.kill()
            one.communicate()
            wait_for(lambda: _holders(store, one, other) == {other.pid})
            other.send_signal(signal.SIGTERM)
            other.communicate()
            assert other.returncode == 130


def _holders(store: Path, *among: subprocess.Popen[str]) -> set[int]:
    """Returns those of these processes that have claimed a run of a store, by the kernel's list of locks. Others may
    have locked a file of the same number on another file system.
    """
    claims = set()
    for path in (store / "claims").glob("*"):
        with suppress(FileNotFoundError):
            claims.add(path.stat().st_ino)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    holders = {int(words[4]) for words in locks if "->" not in words and int(words[5].split(":")[2]) in claims}
    return holders & {one.pid for one in among}


def test_ctrl_c_leaves_what_is_finished(tmp_path: Path, long: Path) -> None:
    store = tmp_path / "store"
    with start(long, "--seeds", "5000", "--store", store, "-f", "json") as one:
        wait_for(lambda: len(_there(store)) >= 5)
        one.send_signal(signal.SIGINT)
        said, words = one.communicate()
        assert one.returncode == 130
    assert "interrupted; the same command goes on" in words
    found = json.loads(said)
    assert found["interrupted"]
    assert found["runs"] == rows(store).num_rows >= 5
    assert list((store / "claims").iterdir()) == []


def test_a_file_that_may_not_grow_is_an_error_and_nothing_is_lost(tmp_path: Path, small: Path) -> None:
    store = tmp_path / "store"
    words = [SOJOURN, "sweep", small, "--store", store, "--seeds", "3"]
    subprocess.run([*words[:-1], "1"], check=True, capture_output=True)
    before = rows(store)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    full = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert full.returncode == 2
    assert len(full.stderr.splitlines()) == 1
    assert str(store) in full.stderr
    assert "File too large; 2 runs of this sweep are kept" in full.stderr
    assert rows(store).equals(before)
    subprocess.run(words, check=True, capture_output=True)
    assert rows(store).num_rows == 6


def test_a_full_disk_is_an_error_and_with_room_it_goes_on(tmp_path: Path, small: Path, sojourn: Run) -> None:
    """The disk has 200 kB, in a namespace of its own, and is enlarged after it was full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = f"{shlex.quote(SOJOURN)} sweep {small} --store {disk}/store --seeds 60"
    script = f"""
        mount -t tmpfs -o size=200k none {disk} || exit 77
        {words} 2>{tmp_path}/said; echo $? >{tmp_path}/code
        mount -o remount,size=50m {disk}
        {words} -f json >{tmp_path}/after && cp -r {disk}/store {tmp_path}/store
    """
    unshare = shutil.which("unshare")
    done = subprocess.run([unshare or "false", "-Urm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if not unshare or done.returncode in (1, 77):
        skip_loudly(f"no file system of our own to fill: {done.stderr}", also_in_ci=True)
    said = (tmp_path / "said").read_text()
    assert (tmp_path / "code").read_text() == "2\n", said
    assert "No space left on device" in said
    kept = re.search(r"(\d+) runs? of this sweep (?:is|are) kept", said)
    assert kept, said
    after = json.loads((tmp_path / "after").read_text())
    assert after["runs"] == 120
    # The number that fits depends on how many were kept together. No kept run is played again.
    assert after["played"] <= 120 - int(kept[1])
    sojourn("sweep", small, "--store", tmp_path / "alone", "--seeds", "60")
    assert rows(tmp_path / "store").equals(rows(tmp_path / "alone"))


def test_a_damaged_file_is_named_and_its_runs_are_played_again(tmp_path: Path, small: Path, sojourn: Run) -> None:
    store = tmp_path / "store"
    sojourn("sweep", small, "--store", store, "--seeds", "2")
    before = rows(store)
    (pack,) = (store / "runs").iterdir()
    whole = pack.read_bytes()
    pack.write_bytes(whole[:5000] + bytes(100) + whole[5100:])
    done = sojourn("sweep", small, "--store", store, "--seeds", "2", "-f", "json")
    assert str(pack) in done.stderr
    assert "played again" in done.stderr
    assert json.loads(done.stdout)["played"] == 4
    assert rows(store).equals(before)


def until(text: str) -> Until:
    return Until.parse(text)


def one_queue(values: list[float]) -> list[list[float]]:
    """Values of the only queue that is watched, one per seed."""
    return [[value] for value in values]


def test_enough_is_when_the_interval_of_the_first_seeds_is_narrow_enough() -> None:
    # The half-width of 1, 2, 1, 2, 1 is t(4) = 2.776 times 0.5477 / sqrt(5) = 0.680.
    values = [1.0, 2.0, 1.0, 2.0, 1.0, 9.0]
    assert until("x 0.681").met_after(one_queue(values)) == 5
    assert until("x 0.679").met_after(one_queue(values)) is None
    assert until("x 49%").met_after(one_queue(values)) == 5, "0.680 of 1.4 are 48.6 %"
    assert until("x 48%").met_after(one_queue(values)) is None
    assert until("x 100").met_after(one_queue(values[:4])) is None, "chance makes the first few agree"
    assert until("x 100").met_after(one_queue([float("nan")] * 9)) is None, "what nobody measured is not known"
    assert until("x 100").met_after(one_queue(values), tried=5) == 6


@pytest.mark.parametrize("text", ["", "x", "x -1", "x 0", "x 1.2.3", "x 5 %%", "x y z"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="expected a measure and a width"):
        until(text)


def test_a_sweep_stops_at_the_seed_at_which_it_knows_enough(tmp_path: Path, small: Path, sojourn: Run) -> None:
    words = ("sweep", small, "--seeds", "40", "--until", "sojourn_ms.p95 3%", "-f", "json", "--store")
    said = json.loads(sojourn(*words, tmp_path / "one", "--jobs", "1").stdout)
    address = "hops.bottleneck.sojourn_ms.p95"
    all_runs = compare(small, seeds=40).runs
    stops = []
    for one, runs in zip(said["combinations"], (all_runs[:40], all_runs[40:]), strict=True):
        values = [run.result["hops"]["bottleneck"]["sojourn_ms"]["p95"] for run in runs]
        enough = until("x 3%").met_after(one_queue(values))
        assert one["seeds"] == (enough or 40)
        mean = means.mean_of(values[: one["seeds"]])
        assert mean is not None
        assert one["measures"][address]["half_width"] == mean.half_width
        stops.append(one["seeds"])
    assert min(stops) < 40, stops
    assert said["played"] == said["runs"] == sum(stops)
    # With more jobs, more seeds may be played; they are kept, but not counted.
    also = json.loads(sojourn(*words, tmp_path / "other", "--jobs", "4").stdout)
    assert also["combinations"] == said["combinations"]
    assert also["runs"] == said["runs"] <= also["played"]
    # With seeds that exist already.
    sojourn("sweep", small, "--seeds", str(min(stops) - 1), "--store", tmp_path / "third")
    third = json.loads(sojourn(*words, tmp_path / "third", "--jobs", "1").stdout)
    assert third["combinations"] == said["combinations"]
    assert third["played"] == said["played"] - 2 * (min(stops) - 1)


def test_until_says_where_the_seeds_end_before_it_is_reached(tmp_path: Path, small: Path, sojourn: Run) -> None:
    words = ("sweep", small, "--seeds", 6, "--store", tmp_path / "s", "--until")
    narrow = sojourn(*words, "sojourn_ms.p95 0.1%", "-f", "json")
    combinations = json.loads(narrow.stdout)["combinations"]
    address = "hops.bottleneck.sojourn_ms.p95"
    said = re.sub(r"\s+", " ", narrow.stderr)
    assert (
        f"--until sojourn_ms.p95 0.1%: not reached in {len(combinations)} of {len(combinations)} combinations:" in said
    )
    for one in combinations:
        until, mean = one["until"], one["measures"][address]
        assert (until["met"], until["measure"]) == (False, address)
        assert until["half_width"] == mean["half_width"]
        percent = percent_text(mean["half_width"] / mean["mean"], 2)
        needed = f"±{percent} after 6 seeds; about {until['more_seeds']} more seeds needed"
        assert f"{address} is {number_text(mean['mean'])}, {needed}" in said
    wide = sojourn(*words, "sojourn_ms.p95 1000", "-f", "json")
    assert [one["until"] for one in json.loads(wide.stdout)["combinations"]] == [{"met": True}] * len(combinations)
    assert "not reached" not in wide.stderr
    assert all("until" not in one for one in json.loads(sojourn(*words[:-1], "-f", "json").stdout)["combinations"])


@pytest.mark.parametrize("seeds", [(), ("--seeds", 1), ("--seeds", 4)])
def test_until_refuses_so_few_seeds_that_it_could_not_be_reached(
    tmp_path: Path, small: Path, sojourn: Run, seeds: tuple[object, ...]
) -> None:
    done = sojourn("sweep", small, *seeds, "--until", "sojourn_ms.p95 5%", "--store", tmp_path / "s", code=2)
    assert "--until: " in done.stderr
    assert f"expected --seeds {FEWEST_SEEDS} or more" in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("seed", range(20))
def test_the_seeds_for_an_interval_are_those_at_which_it_is_narrow_enough(seed: int) -> None:
    draw = random.Random(seed)
    mean = means.Mean(draw.uniform(-5, 5), draw.uniform(0.5, 5), draw.randint(2, 30))
    wanted = draw.uniform(0.1, 1) * (mean.half_width or 0)
    found = means.seeds_for(wanted, mean)
    spread = (mean.half_width or 0) / means.student(0.975, mean.count - 1) * mean.count**0.5
    enough = next(n for n in range(2, 10**6) if means.student(0.975, n - 1) * spread / n**0.5 <= wanted)
    assert found == enough
    assert means.seeds_for(0, mean) is None
    assert means.seeds_for(wanted, means.Mean(1, None, 1)) is None


def test_a_measure_that_is_none_is_refused_before_anything_runs(tmp_path: Path, small: Path, sojourn: Run) -> None:
    done = sojourn("sweep", small, "--until", "sojourn_ms.p59 1", "--store", tmp_path / "s", code=2)
    assert "nearest is hops.bottleneck.sojourn_ms.p" in done.stderr
    assert not (tmp_path / "s").exists()


EVERY_KIND = (
    ("bulk", ""),
    ("cbr", 'rate = "100kbit"'),
    ("download", 'size = "20kB"\ngap = "100ms"'),
    ("onoff", 'rate = "100kbit"'),
    ("onoff", 'rate = "100kbit"\ntransport = "tcp"'),
    ("pings", ""),
    ("rpm", ""),
    ("sizes", "rate = 5"),
    ("thin", ""),
    ("upload", 'size = "20kB"\ngap = "100ms"'),
    ("video", ""),
    ("voip", ""),
    ("web", "page = true\ncount = 4"),
)


def test_until_takes_what_a_kind_of_flow_has_and_refuses_what_it_never_has(tmp_path: Path) -> None:
    path = tmp_path / "kinds.toml"
    flows = [f'[[flow]]\nkind = "{kind}"\n{keys}\n' for kind, keys in EVERY_KIND]
    path.write_text(SMALL.split("[[flow]]")[0].replace('"3s"', '"60s"') + "\n".join(flows))
    (run,) = compare(path).runs
    kinds = {flow["name"]: flow["kind"] for flow in run.result["flows"]}
    # The simulator plays no programs.
    only = {measure: set(of_kinds) - {"command"} for measure, of_kinds in measures.ONLY.items()}
    assert set(kinds.values()) == {kind for kind, _ in EVERY_KIND} == set().union(*only.values())
    known = measures.known(run.result["hops"], kinds)
    windows = [*run.result["flows"], *run.result["startup"]["flows"]]  # a video connects once, before the window
    for measure, of_kinds in only.items():
        have = {flow["kind"] for flow in windows if flow[measure]}
        assert have == of_kinds, measure
        for name, kind in kinds.items():
            front = f"flows.{cases.shared_name(name)}.{measure}"
            assert (kind in of_kinds) == any(one == front or one.startswith(front + ".") for one in known), front


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("flows.pings0.mos", "flows of kind pings never have mos: expected flows.pings0.X with X one of rtt_ms.{mean,"),
        ("flows.pings0.goodput_mbit", "never have goodput_mbit"),
        ("flows.bulk0.fct_s.p50", "flows of kind bulk never have fct_s.p50: expected flows.bulk0.X with X one of good"),
        ("flows.web0.fct_s.p50", "web0 is none of the flows: expected one of bulk0, pings0"),
        ("hops.home.drops", "home is none of the hops: expected one of bottleneck, bottleneck.reverse"),
    ],
)
def test_until_refuses_before_any_run(tmp_path: Path, small: Path, sojourn: Run, measure: str, expected: str) -> None:
    done = sojourn("sweep", small, "--until", f"{measure} 5%", "--store", tmp_path / "s", code=2)
    assert f"--until: {measure}: " in done.stderr
    assert expected in done.stderr
    assert not (tmp_path / "s").exists()


def test_until_refuses_after_the_first_run_what_it_does_not_have(tmp_path: Path, small: Path, sojourn: Run) -> None:
    until = ("--until", "nic.ring_packets.p50 5%")
    for _ in ("played now", "read from the store"):
        said = sojourn("sweep", small, "--seeds", 40, "--jobs", 1, *until, "--store", tmp_path / "s", code=2).stderr
        assert "hops.bottleneck.nic.ring_packets.p50 has no value in the first run" in said
        assert "hops.bottleneck.X with X one of utilisation, " in said
        assert rows(tmp_path / "s").num_rows == 1


def test_a_sweep_draws_what_run_draws_of_the_same_runs(tmp_path: Path, small: Path, sojourn: Run) -> None:
    small.write_text(SMALL + '"hop.bottleneck.rate" = ["5mbit", "10mbit", "20mbit"]\nseeds = 2\n')
    sojourn("run", small, "--out", "run")
    swept = sojourn("sweep", small)
    folder = tmp_path / "results/store/pictures/small"
    names = {path.name for path in folder.iterdir()}
    assert names == {"sweep.png", "sweep.csv", "summary.png", "summary.csv"}
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "run/pictures" / name).read_bytes(), name
    assert f"picture: {folder.relative_to(tmp_path)}/sweep.png" in swept.stderr
    sojourn("run", small, "--out", "vector", "-f", "svg")
    sojourn("sweep", small, "-f", "json", "-f", "svg", "--out", "drawn")
    for name in ("sweep.svg", "summary.svg"):
        assert (tmp_path / "drawn" / name).read_bytes() == (tmp_path / "vector/pictures" / name).read_bytes()


def test_a_sweep_for_a_script_draws_only_if_asked(tmp_path: Path, small: Path, sojourn: Run) -> None:
    assert "picture" not in sojourn("sweep", small, "-f", "json").stderr
    assert not (tmp_path / "results/store/pictures").exists()
    sojourn("sweep", small, "-f", "csv", "-f", "pdf")
    assert (tmp_path / "results/store/pictures/small/summary.pdf").read_bytes().startswith(b"%PDF")


def test_series_are_kept_where_they_were_asked_for(tmp_path: Path, small: Path, sojourn: Run) -> None:
    store = tmp_path / "store"
    words = ("sweep", small, "--store", store, "-f", "json")
    sojourn(*words)
    assert list((store / "series").iterdir()) == []
    assert json.loads(sojourn(*words, "--series").stdout)["played"] == 2
    assert json.loads(sojourn(*words, "--series").stdout)["played"] == 0
    for row in rows(store).to_pylist():
        record = records.read_run(Store(store).series(row["id"]))
        assert record.seed == row["seed"]
        assert len(record.series["bottleneck"]["queue_delay_ms"]) > 100
        flows = pq.read_table(Store(store).flow_series(row["id"]))
        assert set(flows["flow"].to_pylist()) == {"bulk0.0", "bulk0.1", "pings0"}
    assert rows(store).num_rows == 2


def test_a_scenario_by_address_is_in_its_row(tmp_path: Path, small: Path, sojourn: Run) -> None:
    store = tmp_path / "store"
    sojourn("sweep", small, "--store", store, "--set", "hop.bottleneck.rate=5mbit")
    (codel,) = [
        row
        for row in rows(store).to_pylist(maps_as_pydicts="strict")
        if row["scenario"]["hop.bottleneck.qdisc"] == "codel"
    ]
    assert codel["scenario"]["hop.bottleneck.rate"] == "5mbit"
    assert codel["scenario"]["flow.bulk0.count"] == "2"
    assert codel["qdisc"]["bottleneck"].startswith("codel limit 1000")
    assert (codel["file"], codel["title"], codel["world"], codel["seed"]) == ("small", "A small link", "sim", 1)


def test_the_kernel_world_keeps_its_runs_too(tmp_path: Path, small: Path, sojourn: Run) -> None:
    kernel_or_skip()
    words = ("sweep", small, "--world", "kernel", "--store", tmp_path / "s", "-f", "json")
    assert json.loads(sojourn(*words).stdout)["played"] == 2
    assert json.loads(sojourn(*words).stdout)["played"] == 0
    versions = dict(rows(tmp_path / "s")["versions"][0].as_py())
    assert versions["linux_digest"]
    assert versions["guest_digest"]


def test_what_a_world_refuses_is_asked_once_a_combination_and_named(tmp_path: Path, small: Path) -> None:
    asked: list[int] = []

    class Choosy(Simulator):
        def refusal(self, plan: Any, index: int) -> str | None:
            asked.append(index)
            return "no CoDel here" if index >= 4 else None

    store, plan = Store(tmp_path / "store"), load(small, seeds=4)
    done = sweep(plan, store, world=Choosy(), jobs=1)
    assert asked == [0, 4]
    assert done.skipped == [{"set": {"hop.bottleneck.qdisc": "codel"}, "reason": "no CoDel here"}]
    assert [one.indices for one in done.combinations] == [[0, 1, 2, 3]]
    again = sweep(plan, store, world=Choosy(), jobs=1)
    assert (asked, again.played) == ([0, 4, 4], 0), "what is there needs no asking"
    codel = load(small, [("hop.bottleneck.qdisc", "codel"), ("seeds", "5")])
    with pytest.raises(Refusal, match="nothing to run: no CoDel here"):
        sweep(codel, store, world=Refusing())


class Refusing(Simulator):
    def refusal(self, plan: Any, index: int) -> str | None:
        return "no CoDel here"


def test_an_error_in_a_run_ends_the_sweep_and_keeps_the_others(tmp_path: Path, small: Path) -> None:
    class Breaking(Simulator):
        def play(self, plan: Any, index: int, *rest: Any, **more: Any) -> Any:
            if index == 5:
                raise Refusal("broken")
            return super().play(plan, index, *rest, **more)

    store = Store(tmp_path / "store")
    with pytest.raises(Refusal, match="broken"):
        sweep(load(small, seeds=4), store, world=Breaking(), jobs=1)
    assert rows(store.folder).num_rows == 5


@dataclass(frozen=True)
class Numbers:
    """Work on numbers: an `executors.Work`, and its own task."""

    of: Callable[[int, Any], Any]
    kept: list[Any] = field(default_factory=list)
    is_adaptive: bool = False

    @property
    def task(self) -> Numbers:
        return self

    def play(self, item: int, progress: Any) -> Any:
        return self.of(item, progress)

    def reserve(self, item: int) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def key(self, item: int) -> str:
        return ""

    def keep(self, items: Sequence[int], outcomes: Sequence[Any]) -> None:
        self.kept.extend(outcomes)


def test_an_executor_asks_for_work_only_when_a_core_is_free() -> None:
    asked: list[int] = []
    played: list[int] = []
    most_out = 0

    def todo(count: int) -> Iterator[int]:
        nonlocal most_out
        for number in range(count):
            asked.append(number)
            most_out = max(most_out, len(asked) - len(played))
            yield number

    def double(number: int, _progress: Any) -> int:
        time.sleep(0.001)
        played.append(number)
        return 2 * number

    work = Numbers(double)
    done = dict(executors.Cores(3).each(todo(200), work))
    assert done == {number: 2 * number for number in range(200)}
    assert sorted(work.kept) == [2 * number for number in range(200)]
    assert 1 < most_out <= 3, "items that were asked for and not yet played"


def test_outcomes_that_are_ready_together_are_kept_together() -> None:
    """Each call of `keep` waits for the disk."""
    sizes: list[int] = []

    class Slow(Numbers):
        def keep(self, items: Sequence[int], outcomes: Sequence[Any]) -> None:
            time.sleep(0.02)
            sizes.append(len(items))
            super().keep(items, outcomes)

    work = Slow(lambda number, _progress: number)
    assert sorted(item for item, _ in executors.Cores(2).each(iter(range(300)), work)) == list(range(300))
    assert sorted(work.kept) == list(range(300))
    assert sum(sizes) == 300
    assert max(sizes) <= executors.MOST_UNKEPT
    assert len(sizes) < 100


@pytest.mark.parametrize("where", ["play", "keep", "reserve"])
def test_an_error_of_any_thread_ends_an_executor_and_keeps_what_was_played(where: str) -> None:
    held: set[int] = set()

    class Failing(Numbers):
        @contextmanager
        def reserve(self, item: int) -> Iterator[bool]:
            if where == "reserve" and item == 20:
                raise Refusal("reserve")
            held.add(item)
            yield True
            held.discard(item)

        def keep(self, items: Sequence[int], outcomes: Sequence[Any]) -> None:
            if where == "keep" and max(items) >= 20:
                raise Refusal("keep")
            super().keep(items, outcomes)

    def play(number: int, _progress: Any) -> int:
        if where == "play" and number == 20:
            raise Refusal("play")
        return number

    work = Failing(play)
    with pytest.raises(Refusal, match=where):
        list(executors.Cores(2).each(iter(range(1000)), work))
    assert held == set(), "items that are still reserved"
    assert where == "keep" or set(range(20)) <= set(work.kept)
    assert max(work.kept, default=0) < 200


def test_who_leaves_an_executor_stops_what_is_playing() -> None:
    def endless(_number: int, progress: Any) -> bool:
        while not progress.stopped:
            time.sleep(0.01)
        return True

    def todo() -> Any:
        yield from range(3)
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(executors.Cores(4).each(todo(), Numbers(endless)))
    assert time.monotonic() - begin < 5


def test_where_nothing_is_to_be_played_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "POLL_S", 1e6)
    assert list(executors.Cores().each(iter(()), Numbers(lambda _number, _progress: None))) == []


def test_a_quick_look_is_a_tenth_with_every_value_and_whole_comparisons() -> None:
    runs = load(ROOT / "experiments/001-codel/static.toml", [], None, None).runs
    sets = [one["set"] for one in runs]
    among = pipeline.quick(sets)
    chosen = [one for one in sets if among(one)]
    assert len(chosen) == pytest.approx(len(sets) / pipeline.QUICK, rel=0.1)
    for key in sets[0]:
        assert {one[key] for one in chosen} == {one[key] for one in sets}, key
    links = Counter(json.dumps({key: one[key] for key in one if not key.endswith("qdisc")}) for one in chosen)
    assert set(links.values()) == {3}, "all disciplines on each link"
    part = [one for one in sets if one["hop.bottleneck.rate"] != "64kbit"]
    before = pipeline.quick(part)
    kept = sum(among(one) for one in part if before(one)) / sum(map(before, part))
    assert kept > 0.99, "a sweep that is extended keeps what was played"


def test_a_quick_look_has_every_value_of_a_small_sweep_too() -> None:
    sets = [{"hop.a.qdisc": q, "flow.b.count": n, "hop.a.rate": r} for q in "xy" for n in range(5) for r in "12"]
    chosen = [one for one in sets if pipeline.quick(sets)(one)]
    assert {one["flow.b.count"] for one in chosen} == set(range(5))
    assert {one["hop.a.rate"] for one in chosen} == set("12")
    assert len(chosen) < len(sets)


def test_a_quick_look_at_one_link_is_all_of_it() -> None:
    for sets in ([{"hop.a.qdisc": q} for q in "xy"], [{}]):
        assert all(map(pipeline.quick(sets), sets)), "its disciplines can't be compared on less"


def test_the_whole_sweep_goes_on_after_a_quick_look(small: Path, sojourn: Run) -> None:
    small.write_text(
        small.read_text() + '"flow.bulk0.count" = [1, 2]\n"flow.pings0.interval" = ["40ms", "50ms", "60ms"]\n'
    )
    words = ("sweep", small, "--store", small.parent / "store", "-f", "json")
    quick = sojourn(*words, "--quick")
    looked = json.loads(quick.stdout)
    assert 6 <= looked["runs"] < 12, "two disciplines, and three intervals at least"
    assert f"a quick look: {looked['runs']} of 12 runs" in quick.stderr
    whole = json.loads(sojourn(*words).stdout)
    assert (whole["runs"], whole["played"]) == (12, 12 - looked["runs"])
    by_set = {json.dumps(one["set"]): one for one in whole["combinations"]}
    assert all(by_set[json.dumps(one["set"])] == one for one in looked["combinations"])
