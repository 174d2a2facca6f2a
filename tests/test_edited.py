"""`sojourn report` on a folder that somebody has edited: one line with the file and the key, and never a traceback."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sojourn as sj
from sojourn import records
from sojourn.cli.base import cli
from sojourn.errors import Refusal

SCENARIO = """\
title = "tiny"
duration = "1s"
measure = ["200ms", "end"]
[[hop]]
name = "b"
rate = "1mbit"
delay = "5ms"
[[flow]]
kind = "bulk"
[[flow]]
kind = "voip"
[sweep]
"hop.b.qdisc" = ["pfifo", "fq_codel"]
"""
OTHERS: list[Any] = [None, True, -1, 1e308, "x", "", [], {}, [None], {"a": 1}]
"""Values that take the place of another."""
PREFIX = b"sojourn."


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder."""
    folder = tmp_path_factory.mktemp("edited")
    (folder / "t.toml").write_text(SCENARIO)
    sj.run(folder / "t.toml", out=folder / "out")
    return folder / "out"


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values inside a value."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*way, key)
        yield from _places(one, (*way, key))


def _edited(value: Any, draw: random.Random) -> Any:
    """A value with one change inside: another value, or a key or an item that is missing."""
    places = list(_places(value))
    if not places:
        return draw.choice(OTHERS)
    *way, last = draw.choice(places)
    made = inner = copy.deepcopy(value)
    for key in way:
        inner = inner[key]
    if draw.random() < 0.3:
        del inner[last]
    else:
        inner[last] = draw.choice(OTHERS)
    return made


def _edit_metadata(folder: Path, draw: random.Random) -> None:
    path = draw.choice(sorted((folder / "runs").glob("????.parquet")))
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    key = draw.choice(sorted(key for key in metadata if key.startswith(PREFIX)))
    try:
        value = json.loads(metadata[key])
    except ValueError:
        value = metadata[key].decode()
    kind = draw.random()
    if kind < 0.1:
        del metadata[key]
    elif kind < 0.2:
        metadata[key] = draw.choice([b"", b"{", b"\xff", b"[1"])
    else:
        metadata[key] = json.dumps(_edited(value, draw)).encode()
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _edit_columns(folder: Path, draw: random.Random) -> None:
    path = draw.choice(sorted((folder / "runs").glob("????.parquet")))
    table = pq.read_table(path)
    at = draw.randrange(table.num_columns)
    changed = [
        lambda: table.remove_column(at),
        lambda: table.slice(0, draw.randrange(3)),
        lambda: table.set_column(at, table.column_names[at], [["x"] * table.num_rows]),
        lambda: table.set_column(at, table.column_names[at], [[None] * table.num_rows]),
        lambda: table.rename_columns(["x" if place == at else name for place, name in enumerate(table.column_names)]),
    ]
    pq.write_table(draw.choice(changed)(), path)


def _edit_summary(folder: Path, draw: random.Random) -> None:
    path = folder / records.RESULTS
    if draw.random() < 0.2:
        path.write_text(draw.choice(["", "[]", "3", "{", "null"]))
    else:
        path.write_text(json.dumps(_edited(json.loads(path.read_text()), draw)))


def _edit_bytes(folder: Path, draw: random.Random) -> None:
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    data = bytearray(path.read_bytes())
    if draw.random() < 0.5:
        del data[draw.randrange(len(data) + 1) :]
    for _ in range(3):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


EDITS: list[Callable[[Path, random.Random], None]] = [
    _edit_metadata,
    _edit_metadata,
    _edit_columns,
    _edit_summary,
    _edit_bytes,
]


def _report(folder: Path) -> str:
    """Makes the report. Returns the message of a refusal."""
    try:
        cli.main(["report", str(folder)], standalone_mode=False)
    except (Refusal, sj.Error) as error:
        return str(error)
    return ""


def _tried(results: Path, place: Path, seed: int) -> str:
    folder = place / str(seed)
    shutil.copytree(results, folder)
    draw = random.Random(seed)
    draw.choice(EDITS)(folder, draw)
    said = _report(folder)
    assert "\n" not in said.strip() or "metadata" in said, said
    assert not said or str(folder) in said, said
    shutil.rmtree(folder)
    return said


@pytest.mark.parametrize("begin", range(0, 60, 15))
def test_an_edited_folder_is_reported_or_refused(begin: int, results: Path, tmp_path: Path) -> None:
    for seed in range(begin, begin + 15):
        _tried(results, tmp_path, seed)


def _edit(results: Path, place: Path, key: str, change: Callable[[Any], Any]) -> str:
    """Changes one part of the first run's record. Returns the message of the refusal."""
    folder = place / "edited"
    shutil.copytree(results, folder)
    path = folder / "runs" / "0000.parquet"
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    value = json.loads(metadata[PREFIX + key.encode()])
    change(value)
    metadata[PREFIX + key.encode()] = json.dumps(value).encode()
    pq.write_table(table.replace_schema_metadata(metadata), path)
    said = _report(folder)
    assert said.startswith(f"{path}: "), said
    return said


@pytest.mark.parametrize(
    ("key", "change", "names"),
    [
        ("about", lambda value: value["hops"][0].update(name=5), "about.hops[0].name = 5: expected a text"),
        ("about", lambda value: value.pop("flows"), "about: no flows: expected a list"),
        (
            "result",
            lambda value: value["hops"]["b"].update(drops="many"),
            "result.hops.b.drops = 'many': expected int64",
        ),
        ("result", lambda value: value["hops"]["b"].update(sojourn_ms=[1]), "result.hops.b.sojourn_ms"),
        ("result", lambda value: value["flows"][0].update(goodput_mbit={}), "result.flows.bulk0.goodput_mbit"),
        ("result", lambda value: value.update(groups=None), "result.groups = None: expected a list"),
        ("result", lambda value: value.update(groups=[{"name": "a"}]), "result.groups[0]: no kind: expected a text"),
        (
            "result",
            lambda value: value.update(groups=[{"name": "a", "kind": "web", "pages": "x"}]),
            "result.groups.a.pages = 'x': expected int64",
        ),
        ("result", lambda value: value["tcp"].update(PAWSEstab="x"), "result.tcp.PAWSEstab = 'x': expected int64"),
        ("versions", lambda value: value.update(sojourn=3), "versions.sojourn = 3: expected a text"),
        ("rates", lambda value: value["b"].update(mbit="fast"), "rates.b.mbit = 'fast': expected a list"),
    ],
)
def test_a_refusal_names_file_and_key(
    key: str, change: Callable[[Any], Any], names: str, results: Path, tmp_path: Path
) -> None:
    assert names in _edit(results, tmp_path, key, change)


def test_the_summary_is_named_with_its_key(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(results, folder)
    path = folder / records.RESULTS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"skipped": [{"set": 3, "reason": "x"}]}))
    assert f"{path}: skipped[0].set = 3: expected an object" in _report(folder)


if __name__ == "__main__":
    made, tried = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir(made)
    (made / "t.toml").write_text(SCENARIO)
    sj.run("t.toml", out="out")
    for number in range(tried):
        try:
            _tried(made / "out", made, 1000 + number)
        except BaseException as error:
            print(number, type(error).__name__, error)
