"""A folder of results. It has one row for each run, under the run's identity.

    new/ID              a finished run: a line with its digest, then its row as JSON. Written whole or not at all
    runs/*.parquet      runs moved here from new/, many a file: queries read these
    series/ID.parquet   a run's record with its queues over time; ID.flows.parquet, its flows; where they were asked for
    claims/ID           a run that is being played: locked by its process, free when that ends, however it ends
    lock                held by a process that moves runs from new/ to runs/, and shared by processes that read them

Any number of processes may use a store together, and each may be killed at any moment. A run is in new/ or in runs/. If
a process is killed while it moves a run, the run is in both, which the next process that holds the lock corrects.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sojourn import columns, records
from sojourn.errors import Refusal

if TYPE_CHECKING:
    import duckdb

VERSION = 1
FACTS = "store.json"
SMALL_PACK = 4096
"""Files of runs with fewer rows than this are joined when there are more than MANY_PACKS of them."""
MANY_PACKS = 8
LEFTOVERS = (("claims", "*"), ("new", ".*"), ("series", ".*"))
"""Folders and name patterns of files that killed processes may leave behind, in addition to half-written files of runs.
"""
GROUP = 1024
"""Rows that are read at a time."""


@dataclass
class Store:
    """An open store."""

    folder: Path
    damaged: list[str] = field(default_factory=list)
    """Messages about files that were damaged."""
    _ids: dict[str, set[str]] = field(default_factory=dict)
    """Maps the name of a file of runs to the identities of its runs."""
    _older: set[str] = field(default_factory=set)
    """Files that an older sojourn wrote, with fewer columns."""
    _made: bool = False
    _mutex: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        """Refuses a folder that has other contents than a store. A missing folder is made later, by the first call that
        reads or writes runs.
        """
        facts = self.folder / FACTS
        if facts.exists():
            self._refuse_other_version()
        elif self.folder.exists() and not self.folder.is_dir():
            raise Refusal(f"--store = {self.folder}: this is a file: expected a store, or a new folder")
        elif self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / "lock").exists():
            raise Refusal(f"--store = {self.folder}: expected a store, a new or an empty folder")

    def _refuse_other_version(self) -> None:
        version = records.read_results(self.folder / FACTS).get("store")
        if version != VERSION:
            raise Refusal(f"{self.folder}: a store of version {version}: expected {VERSION}")
        self._made = True

    def _make(self) -> None:
        """Makes the folder, if it is not there yet."""
        with self._mutex:
            if self._made:
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "lock").touch()
            for name in ("new", "runs", "series", "claims"):
                (self.folder / name).mkdir(exist_ok=True)
            if not (self.folder / FACTS).exists():
                records.write_text(self.folder / FACTS, records.to_json({"store": VERSION}) + "\n")
            self._refuse_other_version()

    # Questions about the runs that are there.

    def present(self, wanted: Collection[str]) -> set[str]:
        """Returns those of these runs that the store has. Damaged files are set aside and named in `damaged`."""
        self.fold()
        with self._locked(fcntl.LOCK_EX):
            for pack in self._packs():
                if not self._ids[pack.name].isdisjoint(wanted):
                    self._or_away(pack, _check_pages)
            return set().union(*self._ids.values()).intersection(wanted)

    def has(self, run: str) -> bool:
        """Returns whether the store has a run now, even if another process played it."""
        if (self.folder / "new" / run).exists() or self._knows(run):
            return True
        with self._locked(fcntl.LOCK_SH):
            self._packs()
            return self._knows(run)

    def _knows(self, run: str) -> bool:
        with self._mutex:
            return any(run in ids for ids in self._ids.values())

    def batches(self, wanted: Sequence[str], names: Sequence[str]) -> Iterator[tuple[list[int], pa.Table]]:
        """Yields these columns of these runs in batches. Each batch has the positions of its runs in `wanted`, and a
        table with one row for each of them.
        """
        self.fold()
        places = {run: place for place, run in enumerate(wanted)}
        with self._locked(fcntl.LOCK_SH):
            for pack in self._packs():
                if self._ids[pack.name].isdisjoint(places):
                    continue
                with pq.ParquetFile(pack, page_checksum_verification=True) as file:
                    for batch in file.iter_batches(GROUP, columns=["id", *names]):
                        found = [places.get(run, -1) for run in batch["id"].to_pylist()]
                        chosen = [row for row, place in enumerate(found) if place >= 0]
                        if chosen:
                            yield [found[row] for row in chosen], pa.table(batch.take(pa.array(chosen)))

    # Adding runs.

    @contextmanager
    def claim(self, run: str) -> Iterator[bool]:
        """Reserves a run, so that no other process plays it. The value is False if another process is playing it
        now.
        """
        self._make()
        path = self.folder / "claims" / run
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if not _is_at(handle, path):  # its holder has just removed it
                yield False
                return
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)

    def put(self, row: Mapping[str, Any]) -> None:
        """Adds a run: when this returns it is on the disk."""
        self._make()
        text = records.to_json(row, indent=None).encode()
        line = hashlib.sha256(text).hexdigest().encode()
        records.write_bytes(self.folder / "new" / row["id"], line + b"\n" + text, durable=True)

    def put_many(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds runs that were played together, as one file: when this returns they are on the disk."""
        with self._locked(fcntl.LOCK_EX):
            self._packs()
            fresh = [row for row in rows if not self._knows(row["id"])]
            if fresh:
                self._write_pack(columns.table_of(fresh))
                self._packs()

    def series(self, run: str) -> Path:
        """Returns the path of a run's record with the series of its queues."""
        self._make()
        return self.folder / "series" / f"{run}.parquet"

    def flow_series(self, run: str) -> Path:
        """Returns the path of the series of a run's flows."""
        self._make()
        return self.folder / "series" / f"{run}.flows.parquet"

    def has_series(self, run: str) -> bool:
        """Returns whether the store has a run's series. Damaged files are set aside and named in `damaged`."""
        for path in (self.series(run), self.flow_series(run)):
            if path.exists():
                self._or_away(path, _check_end)
            if not path.exists():
                return False
        return True

    def fold(self) -> None:
        """Moves finished runs to where queries read them, and removes the files that killed processes left."""
        with self._locked(fcntl.LOCK_EX):
            self._clear()
            packs = self._packs()
            new = sorted(path for path in (self.folder / "new").iterdir() if not path.name.startswith("."))
            small = [pack for pack in packs if len(self._ids[pack.name]) < SMALL_PACK]
            joined = small if len(small) > MANY_PACKS else []
            joined += [pack for pack in packs if pack.name in self._older and pack not in joined]
            rows = [row for path in new if (row := self._read_new(path)) is not None and not self._knows(row["id"])]
            written = None
            if rows or joined:
                written = self._write_pack(pa.concat_tables([*map(_whole, joined), columns.table_of(rows)]))
            for path in (*new, *joined):
                if path != written:
                    path.unlink(missing_ok=True)
            self._packs()

    def _write_pack(self, table: pa.Table) -> Path:
        ids = set(table["id"].to_pylist())
        name = f"{hashlib.sha256(' '.join([columns.VERSION, *sorted(ids)]).encode()).hexdigest()[:16]}.parquet"

        def write(temporary: Path) -> None:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True, row_group_size=GROUP)

        path = self.folder / "runs" / name
        self._ids.pop(name, None)  # it may be there already, of fewer columns
        self._older.discard(name)
        records.write_atomically(path, write, durable=True)
        return path

    def _read_new(self, path: Path) -> dict[str, Any] | None:
        line, _, text = path.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != line:
            self.damaged.append(f"{path}: not whole; the run is played again")
            return None
        row: dict[str, Any] = json.loads(text)
        return row

    # Functions that need the lock.

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with self._mutex:
            self._make()
            handle = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, how)
                yield
            finally:
                os.close(handle)

    def _packs(self) -> list[Path]:
        """Returns the files of runs whose identities can be read, those with most runs first. The identities in files
        that are new since the last call are read now.
        """
        paths = sorted((self.folder / "runs").glob("[!.]*.parquet"))
        names = {path.name for path in paths}
        for gone in self._ids.keys() - names:
            del self._ids[gone]
            self._older.discard(gone)
        for path in paths:
            if path.name not in self._ids:
                self._or_away(path, self._read_ids)
        return sorted(
            (path for path in paths if path.name in self._ids), key=lambda path: (-len(self._ids[path.name]), path)
        )

    def _read_ids(self, path: Path) -> None:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if file.schema_arrow != columns.SCHEMA:
                columns.refuse_unknown(path, file.schema_arrow)
                self._older.add(path.name)
            self._ids[path.name] = set(file.read(["id"])["id"].to_pylist())

    def _or_away(self, path: Path, read: Any) -> None:
        """Reads a file of runs. A damaged one is set aside, and its runs count as missing."""
        try:
            read(path)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk or of permissions, not of the file
            aside = path.with_suffix(".damaged")
            with suppress(FileNotFoundError):
                path.rename(aside)
            self._ids.pop(path.name, None)
            self.damaged.append(f"{path}: not whole, set aside as {aside.name}; its runs are played again")

    def _clear(self) -> None:
        """Removes half-written files of processes that are gone, their claims, and packs that larger ones contain."""
        for left in (self.folder / "runs").glob(".*"):
            left.unlink(missing_ok=True)
        for left in (
            *(self.folder / "claims").iterdir(),
            *(self.folder / "new").glob(".*"),
            *(self.folder / "series").glob(".*"),
        ):
            with self.claim(left.name.lstrip(".").split(".")[0]) as free:
                if free:
                    left.unlink(missing_ok=True)
        seen: set[str] = set()
        for pack in self._packs():
            if self._ids[pack.name] <= seen:
                pack.unlink(missing_ok=True)
                del self._ids[pack.name]
            else:
                seen |= self._ids[pack.name]

    # Queries.

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yields a connection to DuckDB with the view `runs` of all undamaged files. The files do not change inside the
        block.

        DuckDB gets one thread. It then adds numbers in a fixed order, so the same query gives the same bytes.
        """
        import duckdb

        self.fold()
        with self._locked(fcntl.LOCK_SH):
            for pack in self._packs():
                self._or_away(pack, _check_pages)  # DuckDB does not look at the pages' checksums
            packs = [str(pack) for pack in self._packs()]
            with duckdb.connect(
                ":memory:", config={"autoinstall_known_extensions": "false", "threads": 1}
            ) as connection:
                if packs:
                    connection.read_parquet(packs).create_view("runs")
                else:
                    connection.from_arrow(columns.SCHEMA.empty_table()).create("runs")
                yield connection


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _whole(path: Path) -> pa.Table:
    """Reads a whole file of runs, in the current columns."""
    table = pq.read_table(path, page_checksum_verification=True)
    return table if table.schema == columns.SCHEMA else columns.table_of(columns.rows_of(table))


def _check_end(path: Path) -> None:
    """Refuses a file that was cut short. The series themselves are not read: that happens when they are drawn."""
    pq.read_metadata(path)


def _check_pages(path: Path) -> None:
    """Reads a whole file, so that the checksums of its pages are checked."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for _ in file.iter_batches(GROUP):
            pass
