"""The store of runs: no crash of a process loses, truncates or duplicates a run."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import ROOT, Run, compare
from sojourn import columns, measures, records
from sojourn import store as module
from sojourn.cli.base import cli
from sojourn.errors import Refusal
from sojourn.store import MANY_PACKS, Store
from sojourn.table import goodput


def row(number: int, **more: Any) -> dict[str, Any]:
    """A run without flows."""
    empty: dict[str, Any] = dict.fromkeys(columns.SCHEMA.names)
    lists = {"scenario": {}, "qdisc": {}, "hops": {}, "flows": [], "versions": {}}
    return empty | lists | {"id": f"{number:064x}", "seed": number, "goodput_mbit": number / 3, **more}


def seeds(store: Store) -> list[int]:
    with store.connect() as connection:
        return [one for (one,) in connection.execute("SELECT seed FROM runs ORDER BY seed").fetchall()]


def fill(store: Store, numbers: range) -> None:
    for number in numbers:
        store.put(row(number))
    store.fold()


def test_what_was_put_is_there_for_others_at_once(tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    one.put(row(1))
    assert other.has(row(1)["id"])
    assert not other.has(row(2)["id"])
    one.fold()
    assert other.has(row(1)["id"])
    assert seeds(other) == [1]


def test_a_run_that_is_put_again_is_there_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for _ in range(3):
        fill(store, range(5))
        fill(Store(tmp_path), range(3, 6))
    assert seeds(store) == [0, 1, 2, 3, 4, 5]


def test_small_files_are_joined(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3 * MANY_PACKS):
        fill(store, range(number, number + 1))
    assert len(list((tmp_path / "runs").iterdir())) <= MANY_PACKS + 1
    assert seeds(store) == list(range(3 * MANY_PACKS))


def test_rows_come_in_the_order_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, range(0, 40, 2))
    fill(store, range(1, 40, 2))
    wanted = [row(number)["id"] for number in (7, 3, 39, 0, 100)]
    found = {}
    for places, table in store.batches(wanted, ["seed"]):
        found |= dict(zip(places, table["seed"].to_pylist(), strict=True))
    assert found == {0: 7, 1: 3, 2: 39, 3: 0}


def test_a_claim_keeps_others_away_until_its_process_ends(tmp_path: Path) -> None:
    store = Store(tmp_path)
    program = "import sys,time; from pathlib import Path; from sojourn.store import Store\n"
    program += f"with Store(Path({str(tmp_path)!r})).claim('ab') as free: print(free, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with store.claim("ab") as free, store.claim("cd") as also:
            assert (free, also) == (False, True)
        store.fold()
        assert (tmp_path / "claims" / "ab").exists(), "it still is"
        other.kill()
        other.wait()
    with store.claim("ab") as free:
        assert free
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_process_may_be_killed_before_any_operation_on_the_disk(tmp_path: Path) -> None:
    """The crash happens in a child process, at each point in turn and without clean-up. Then another process continues,
    and every run is present once."""
    done = subprocess.run(
        [sys.executable, __file__, tmp_path], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert kills > 30


RUNS = 3


def _kill_everywhere(folder: Path) -> int:
    """Returns the number of points at which the process was killed."""
    module.MANY_PACKS = 0  # so that few runs are enough to join files
    records._sync = lambda _path: None  # a killed process loses nothing that it has written; a power failure would
    for kills in range(10_000):
        place = folder / str(kills)
        child = os.fork()
        if not child:
            _die_at(kills)
            _work(place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _work(place)
        left = [path.name for name in ("new", "claims") for path in (place / name).iterdir()]
        hidden = [path.name for path in (place / "runs").iterdir() if path.name.startswith(".")]
        there = pa.concat_tables(pq.read_table(path) for path in (place / "runs").glob("*.parquet"))
        assert sorted(there["seed"].to_pylist()) == list(range(RUNS)), kills
        assert not left + hidden, (kills, left, hidden)
        if os.WIFEXITED(status):
            return kills
    raise AssertionError("endless")


def _work(place: Path) -> None:
    store = Store(place)
    assert not store.damaged
    for number in range(RUNS):
        with store.claim(row(number)["id"]) as free:
            if free and not store.has(row(number)["id"]):
                store.put(row(number))
        if number != 1:
            store.fold()


def _die_at(place: int) -> None:
    """Kills this process before operation number `place` that changes the disk."""
    count = 0

    def fatal(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.chmod"):
            if count == place:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(fatal)


def test_a_damaged_row_is_named_and_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(4):
        store.put(row(number))
    torn, flipped, empty = (tmp_path / "new" / row(number)["id"] for number in (1, 2, 3))
    torn.write_bytes(torn.read_bytes()[:-1])
    flipped.write_bytes(flipped.read_bytes().replace(b'"seed"', b'"sead"'))
    empty.write_bytes(b"")
    assert store.present([row(number)["id"] for number in range(4)]) == {row(0)["id"]}
    assert [str(path) in text for path, text in zip((torn, flipped, empty), store.damaged, strict=True)] == [True] * 3
    assert seeds(store) == [0]


@pytest.mark.parametrize("fault", ["flipped", "torn", "empty", "text"])
def test_a_damaged_file_of_runs_is_named_and_set_aside(tmp_path: Path, fault: str) -> None:
    store = Store(tmp_path)
    fill(store, range(10))
    fill(store, range(10, 20))
    wanted = [row(number)["id"] for number in range(20)]
    assert store.present(wanted) == set(wanted)
    path = min((tmp_path / "runs").iterdir())
    whole = path.read_bytes()
    # The page of the seeds: a flipped bit there leaves a readable file with other numbers.
    at = pq.ParquetFile(path).metadata.row_group(0).column(columns.SCHEMA.names.index("seed")).dictionary_page_offset
    middle = (at or 0) + 40
    faulty = {
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "torn": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"PAR1 no such thing PAR1",
    }
    path.write_bytes(faulty[fault])
    again = Store(tmp_path)
    assert len(again.present(wanted)) == 10
    (said,) = again.damaged
    assert str(path) in said
    assert path.with_suffix(".damaged").read_bytes() == faulty[fault]
    assert len(seeds(again)) == 10


def test_series_that_were_cut_short_are_set_aside_and_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    whole = io.BytesIO()
    pq.write_table(pa.table({"time_s": [0.0, 1.0]}), whole)
    for path in (store.series("a"), store.flow_series("a")):
        path.write_bytes(whole.getvalue())
    assert store.has_series("a")
    assert not store.has_series("b")
    store.flow_series("a").write_bytes(whole.getvalue()[:-20])
    assert not store.has_series("a")
    assert str(store.flow_series("a")) in store.damaged[0]
    assert not store.flow_series("a").exists()


def test_a_query_does_not_read_what_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, range(5))
    fill(store, range(5, 10))
    path = min((tmp_path / "runs").iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:300] + bytes(8) + whole[308:])
    again = Store(tmp_path)
    assert len(seeds(again)) == 5
    assert str(path) in again.damaged[0]


@pytest.mark.parametrize("more", [0, 2])
def test_a_store_of_fewer_columns_goes_on_with_those_of_today(tmp_path: Path, more: int) -> None:
    store = Store(tmp_path)
    fill(store, range(3))
    (path,) = (tmp_path / "runs").iterdir()
    pq.write_table(pq.read_table(path).drop_columns(["jain", "startup"]), path)
    fill(Store(tmp_path), range(3, 3 + more))
    assert seeds(Store(tmp_path)) == list(range(3 + more))
    assert all(pq.read_schema(file) == columns.SCHEMA for file in (tmp_path / "runs").iterdir())


def test_a_store_without_the_counters_is_read_and_goes_on(tmp_path: Path) -> None:
    hop = pa.struct([field for field in columns.HOP if field.name != "stats"])
    older = columns.SCHEMA.set(columns.SCHEMA.get_field_index("hops"), pa.field("hops", pa.map_(pa.string(), hop)))
    fill(Store(tmp_path), range(2))
    (path,) = (tmp_path / "runs").iterdir()
    rows = [{**one, "hops": {"b": {"drops": 7}}} for one in columns.rows_of(pq.read_table(path))]
    pq.write_table(pa.Table.from_pylist(rows, schema=older), path)
    fill(Store(tmp_path), range(2, 4))
    assert seeds(Store(tmp_path)) == [0, 1, 2, 3]
    (path,) = (tmp_path / "runs").iterdir()
    hops = [one["hops"] for one in columns.rows_of(pq.read_table(path)) if one["hops"]]
    assert [(one["b"]["drops"], one["b"]["stats"]) for one in hops] == [(7, None)] * 2


def test_a_store_of_a_newer_sojourn_is_refused_and_stays(tmp_path: Path) -> None:
    fill(Store(tmp_path), range(3))
    (path,) = (tmp_path / "runs").iterdir()
    pq.write_table(pq.read_table(path).append_column("later", pa.array([1, 2, 3])), path)
    before = path.read_bytes()
    with pytest.raises(Refusal, match="later is not known: a newer sojourn"):
        Store(tmp_path).fold()
    assert path.read_bytes() == before


def test_a_folder_with_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(Refusal, match="expected a store, a new or an empty folder"):
        Store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_every_measure_has_its_column_and_comes_back(path: Path) -> None:
    short = [("duration", "2s"), ("measure", '["0.5s", "end"]')]
    results = [record.result for record in compare(path, short, seeds=1).runs]
    for result in results:
        columns.check(result)
    rows = [
        row(place, goodput_mbit=goodput(one), duration_s=one["duration_s"]) | columns.of_result(one)
        for place, one in enumerate(results)
    ]
    table = columns.table_of(rows)
    for result, back in zip(results, columns.rows_of(table), strict=True):
        wanted = columns.of_result(result) | {"duration_s": result["duration_s"]}
        assert {key: back[key] for key in wanted} == wanted
        for hop, found in result["hops"].items():
            assert json.loads(back["hops"][hop]["stats"]) == found["stats"]
    for hop in results[0]["hops"]:
        found = measures.values(table, f"hops.{hop}.sojourn_ms.p95")
        expected = [one["hops"][hop]["sojourn_ms"] for one in results]
        assert [None if x != x else x for x in found] == [one and one["p95"] for one in expected]
        drops = measures.values(table, f"hops.{hop}.drops_by_reason.overlimit")
        assert drops.tolist() == [one["hops"][hop]["drops_by_reason"]["overlimit"] for one in results]
    for name in {measures.shared_name(flow["name"]) for flow in results[0]["flows"]}:
        found = measures.values(table, f"flows.{name}.packets")
        packets = [[f["packets"] for f in one["flows"] if measures.shared_name(f["name"]) == name] for one in results]
        assert found.tolist() == pytest.approx([sum(one) / len(one) for one in packets])
    assert measures.values(table, "goodput_mbit").tolist() == [goodput(one) for one in results]


def test_a_measure_without_a_column_is_a_bug_and_not_lost() -> None:
    result = {"startup": None, "jain": {"goodput": 1, "new": 2}, "hops": {}, "flows": []}
    with pytest.raises(AssertionError, match="lacks new"):
        columns.check(result)


def test_measures_are_named_and_an_unknown_one_has_a_nearest() -> None:
    kinds = {"web0": "web", "bulk0.0": "bulk", "bulk0.1": "bulk"}
    known = measures.known(["b", "b.reverse"], kinds)
    for address in (
        "goodput_mbit",
        "jain.goodput",
        "losses.synchronisation",
        "hops.b.reverse.drops",
        "flows.bulk0.rtt_ms.p99",
        "flows.web0.page_load_s.p50",
    ):
        measures.refuse_unknown(address, known, kinds)
    with pytest.raises(Refusal, match=r"nearest is hops\.b\.sojourn_ms\.p95"):
        measures.refuse_unknown("hops.b.sojourn.p95", known, kinds)
    assert measures.full("sojourn_ms.p95", "b") == "hops.b.sojourn_ms.p95"
    assert measures.full("jain.goodput", "b") == "jain.goodput"


def test_the_store_is_asked_in_sql(tmp_path: Path, sojourn: Run) -> None:
    store = tmp_path / "s"
    fill(Store(store), range(4))
    ask: Callable[..., str] = lambda *words: sojourn("store", *words, "--store", store).stdout  # noqa: E731
    assert json.loads(ask("SELECT seed FROM runs WHERE seed > 1 ORDER BY 1", "-f", "json"))["rows"] == [
        {"seed": 2},
        {"seed": 3},
    ]
    assert ask("SELECT seed, goodput_mbit FROM runs WHERE seed = 3", "-f", "csv") == "seed,goodput_mbit\n3,1\n"
    assert "runs" in ask()
    wrong = sojourn("store", "SELECT sed FROM runs", "--store", store, code=2).stderr
    assert "seed" in wrong
    assert len(wrong.splitlines()) == 1
    absent = sojourn("store", "--store", tmp_path / "t", code=2).stderr
    assert "no store is there" in absent
    assert not (tmp_path / "t").exists()


def test_a_folder_in_the_place_of_sql_is_answered_with_the_option(tmp_path: Path, sojourn: Run) -> None:
    (tmp_path / "kept").mkdir()
    assert "--store kept" in sojourn("store", "kept", code=2).stderr


def test_queries_need_no_network_and_files_are_read_by_duckdb_alone(tmp_path: Path) -> None:
    fill(Store(tmp_path), range(random.Random(1).randrange(3, 9)))
    pattern = str(tmp_path / "runs" / "*.parquet")
    assert duckdb.sql(f"SELECT count(*) FROM '{pattern}'").fetchall() == [(len(seeds(Store(tmp_path))),)]


# ---- stores that cannot be written, and files that are no runs ----


@pytest.fixture(params=[errno.EROFS, errno.EACCES, errno.ENOSPC], ids=["read-only", "of-another", "full"])
def unwritable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, no file can be made, changed or removed."""

    def begin() -> None:
        def refuse(path: object) -> OSError:
            return OSError(request.param, os.strerror(request.param), str(path))

        opened = os.open

        def open_to_read(path: Any, flags: int, *more: Any, **how: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise refuse(path)
            return opened(path, flags, *more, **how)

        def changed(path: Any, *_more: Any, **_how: Any) -> None:
            raise refuse(path)

        monkeypatch.setattr(os, "open", open_to_read)
        for name in ("unlink", "rename", "replace", "mkdir", "touch", "write_bytes"):
            monkeypatch.setattr(Path, name, changed)

    return begin


def test_a_store_that_cannot_be_written_is_read(tmp_path: Path, unwritable: Callable[[], None]) -> None:
    fill(Store(tmp_path), range(3))
    Store(tmp_path).put_many([row(3), row(4)])
    Store(tmp_path).put(row(5))
    (tmp_path / "claims" / "left").touch()  # of a killed process
    unwritable()
    store = Store(tmp_path)
    assert seeds(store) == list(range(6))
    assert store.present([row(number)["id"] for number in (1, 4, 5, 9)]) == {row(number)["id"] for number in (1, 4, 5)}
    found = {}
    for places, table in store.batches([row(number)["id"] for number in (5, 0, 9)], ["seed"]):
        found |= dict(zip(places, table["seed"].to_pylist(), strict=True))
    assert found == {0: 5, 1: 0}
    assert not store.damaged


def test_a_damaged_file_of_a_store_that_cannot_be_written_is_left_out(
    tmp_path: Path, unwritable: Callable[[], None]
) -> None:
    fill(Store(tmp_path), range(3))
    (pack,) = (tmp_path / "runs").iterdir()
    pack.write_bytes(pack.read_bytes()[:-20])
    unwritable()
    store = Store(tmp_path)
    assert seeds(store) == []
    assert store.damaged == [f"{pack}: not whole; its runs are left out"]


def test_runs_that_finish_together_are_there_for_others_at_once(tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    other.fold()
    one.put_many([row(1), row(2)])
    assert [other.has(row(number)["id"]) for number in (1, 2, 3)] == [True, True, False]
    one.fold()
    one.put_many([row(2), row(3)])
    assert other.has(row(3)["id"])
    assert seeds(Store(tmp_path)) == [1, 2, 3]


def test_many_runs_are_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of runs has some four hundred columns, so that to write and read one takes longer than a short run."""
    counts = {"write_table": 0, "ParquetFile": 0}

    def counted(name: str) -> Callable[..., Any]:
        before = getattr(pq, name)

        def count(*args: Any, **how: Any) -> Any:
            counts[name] += 1
            return before(*args, **how)

        return count

    for name in counts:
        monkeypatch.setattr(pq, name, counted(name))
    store = Store(tmp_path)
    for begin in range(0, 400, 4):
        store.put_many([row(number) for number in range(begin, begin + 4)])
        assert store.has(row(begin)["id"])
    store.fold()
    assert counts["write_table"] == 1
    assert counts["ParquetFile"] <= 2
    assert seeds(store) == list(range(400))


def _new_file(store: Path, name: str, text: str) -> Path:
    """A file in new/ with a valid digest."""
    Store(store).fold()
    path = store / "new" / name
    path.write_bytes(hashlib.sha256(text.encode()).hexdigest().encode() + b"\n" + text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "foo"}',
        "{not JSON",
        "[]",
        "3",
        "null",
        '{"id": "foo", "seed": "many", "hops": {}, "flows": []}',
        '{"id": "foo", "seed": 1, "hops": 7, "flows": []}',
        '{"id": "foo", "seed": 1, "hops": {}, "flows": [1]}',
        '{"id": "bar", "seed": 1, "hops": {}, "flows": []}',
        '{"id": 5, "seed": 1, "hops": {}, "flows": []}',
    ],
)
def test_a_file_that_is_no_run_is_named_and_is_none(text: str, tmp_path: Path) -> None:
    path = _new_file(tmp_path, "foo", text)
    store = Store(tmp_path)
    store.put(row(1))
    assert seeds(store) == [1]
    assert [str(path) in said for said in store.damaged] == [True]
    assert not path.exists()


@pytest.mark.parametrize("text", ["[]", "3", "{}", "{", '{"store": "x"}', '{"store": 99}', "\xff"])
def test_the_version_of_a_store_is_checked(text: str, tmp_path: Path, sojourn: Run) -> None:
    Store(tmp_path).fold()
    (tmp_path / "store.json").write_bytes(text.encode("latin-1"))
    said = sojourn("store", "--store", tmp_path, code=2).stderr
    assert "store" in said
    assert "runs and skipped" not in said
    assert len(said.splitlines()) == 1


# ---- SQL ----

FOREIGN = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/made.csv'",
    "COPY runs TO '{pack}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{pack}'",
    "COPY (PIVOT runs ON seed) TO '{pack}'",
    "PREPARE p AS COPY (SELECT 1) TO '{pack}'; EXECUTE p",
    "ATTACH '{folder}/made.db'",
    "EXPORT DATABASE '{folder}/made'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SELECT 1; COPY (SELECT 1) TO '{pack}'",
    "CREATE TABLE t AS SELECT 1",
]


@pytest.mark.parametrize("sql", FOREIGN)
def test_sql_reads_the_store_and_nothing_else(sql: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, folder = tmp_path / "s", tmp_path / "f"
    fill(Store(store), range(2))
    folder.mkdir()
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    (pack,) = (store / "runs").iterdir()
    before = pack.read_bytes()
    asked = sql.format(secret=folder / "secret.csv", folder=folder, pack=pack)
    with pytest.raises(Refusal) as said:
        cli.main(["store", asked, "--store", str(store)], standalone_mode=False)
    assert "--unsafe" in str(said.value)
    assert not capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["secret.csv"]
    assert pack.read_bytes() == before


def test_sql_reads_other_files_where_that_is_asked_for(tmp_path: Path, sojourn: Run) -> None:
    store = tmp_path / "s"
    fill(Store(store), range(2))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    asked = f"SELECT b FROM read_csv('{tmp_path / 'other.csv'}')"
    assert sojourn("store", asked, "--unsafe", "--store", store, "-f", "csv").stdout == "b\n2\n"


@pytest.mark.parametrize(
    "sql", ["FROM runs", "DESCRIBE runs", "SUMMARIZE runs", "WITH a AS (FROM runs) FROM a", "VALUES (1)"]
)
def test_sql_that_reads_is_answered(sql: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(Store(tmp_path), range(2))
    for form in ("text", "csv", "json"):
        cli.main(["store", sql, "--store", str(tmp_path), "-f", form], standalone_mode=False)
        assert capsys.readouterr().out


def test_rows_are_printed_some_at_a_time(tmp_path: Path, sojourn: Run) -> None:
    fill(Store(tmp_path), range(2))
    asked = "SELECT range AS n, 'x' AS t FROM range(3000)"

    def ask(form: str) -> str:
        return str(sojourn("store", asked, "--store", tmp_path, "-f", form).stdout)

    assert json.loads(ask("json"))["rows"] == [{"n": number, "t": "x"} for number in range(3000)]
    assert ask("csv") == "n,t\n" + "".join(f"{number},x\n" for number in range(3000))
    empty = sojourn("store", "SELECT 1 AS a WHERE false", "--store", tmp_path, "-f", "json").stdout
    assert json.loads(empty) == {"rows": []}


def test_a_table_has_a_bound_and_says_so(tmp_path: Path, sojourn: Run) -> None:
    fill(Store(tmp_path), range(2))
    said = sojourn("store", "SELECT range AS n FROM range(10001)", "--store", tmp_path).stdout
    assert "the first 10000 rows" in said


def test_a_long_answer_needs_little_memory(tmp_path: Path) -> None:
    """The answer of a million rows would be hundreds of megabytes as Python's values."""
    fill(Store(tmp_path), range(2))
    asked = "SELECT range AS n, 'a text of some length' AS t FROM range(1000000)"
    program = (
        "import sys; from pathlib import Path; from sojourn.cli import main\n"
        f"sys.argv = ['sojourn', 'store', {asked!r}, '--store', {str(tmp_path)!r}, '-f', 'csv']\n"
        "try: main()\n"
        "finally: print(Path('/proc/self/status').read_text(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    # The peak of this program alone. Linux begins ru_maxrss with that of the process that started it.
    (peak_kb,) = re.findall(r"^VmHWM:\s+(\d+) kB", done.stderr, re.M)
    assert int(peak_kb) < 260_000, done.stderr


# ---- rows as Python's values ----


def test_rows_are_those_of_arrow() -> None:
    full = {"mean": 1.5, "p50": None, "p75": 2.0, "p95": 3.0, "p99": 4.0, "max": 5.0}
    hop = dict.fromkeys(field.name for field in columns.HOP) | {
        "drops": 3,
        "drops_by_reason": {"a": 1},
        "sojourn_ms": full,
    }
    flow = dict.fromkeys(field.name for field in columns.FLOW) | {"name": "b", "mos": 4.4}
    rows = [
        row(1, hops={"b": hop, "c": dict.fromkeys(hop)}, flows=[flow, flow]),
        row(
            2,
            startup={"hops": {"b": hop}, "flows": [flow], "jain": {"goodput": None, "drop_share": 1.0}, "losses": None},
        ),
        row(3, versions={"sojourn": "1"}, world="sim"),
    ]
    table = columns.table_of(rows * 3)
    for part in (table, table.slice(1, 5), table.slice(2, 1).to_batches()[0], table.slice(0, 0)):
        assert columns.rows_of(part) == part.to_pylist(maps_as_pydicts="strict")


if __name__ == "__main__":
    print(_kill_everywhere(Path(sys.argv[1])))
