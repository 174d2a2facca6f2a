"""A folder of results. It has one row for each run, under the run's identity.

    new/ID              a finished run: a line with its digest, then its row as JSON. Written whole or not at all
    new/ID.rows         runs that finished together, the first of them ID: a line with their digest, then their rows
    runs/*.parquet      runs moved here from new/, many a file: queries read these
    series/ID.parquet   a run's record with its queues over time; ID.flows.parquet, its flows; where they were asked for
    claims/ID           a run that is being played: locked by its process, free when that ends, however it ends
    lock                held by a process that moves runs from new/ to runs/, and shared by processes that read them

Any number of processes may use a store together, and each may be killed at any moment. A run is in new/ or in runs/. If
a process is killed while it moves a run, the run is in both, which the next process that holds the lock corrects.

A store that cannot be written (a read-only file system, another user's folder, a full disk) can still be read: the runs
in new/ then stay there, and queries read them from memory.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sojourn import columns, files, records
from sojourn.errors import Refusal

if TYPE_CHECKING:
    import duckdb

VERSION = 1
FACTS = "store.json"
SMALL_PACK = 4096
"""Files of runs with fewer rows than this are joined when there are more than MANY_PACKS of them."""
MANY_PACKS = 8
GROUP = 1024
"""Rows that are read at a time."""
ROWS = ".rows"
"""The end of the name of a file in new/ with several runs."""
UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
"""The system's errors for a store that can be read and not written."""
NEEDED = ("id", "seed", "hops", "flows")
"""Columns that every run has."""


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
    _unmoved: dict[str, set[str]] = field(default_factory=dict)
    """Maps the name of a file in new/ with several runs to their identities."""
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
        facts = self.folder / FACTS
        try:
            found = json.loads(files.read_text(facts, "a store's version"))
        except ValueError as error:
            raise Refusal(f"{facts}: not JSON ({error}): expected what 'sojourn sweep' wrote") from error
        version = found.get("store") if isinstance(found, dict) else None
        if version is None:
            raise Refusal(f'{facts}: expected {{"store": {VERSION}}}, the version of a store')
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
        with self._reading() as unmoved:
            for pack in self._packs():
                if not self._ids[pack.name].isdisjoint(wanted):
                    self._or_away(pack, _check_pages)
            return set().union(unmoved["id"].to_pylist(), *self._ids.values()).intersection(wanted)

    def has(self, run: str) -> bool:
        """Returns whether the store has a run now, even if another process played it."""
        if self._knows(run) or (self.folder / "new" / run).exists():
            return True
        self._look()
        return self._knows(run)

    def _knows(self, run: str) -> bool:
        with self._mutex:
            return any(run in ids for ids in (*self._ids.values(), *self._unmoved.values()))

    def _look(self) -> None:
        """Reads the identities of runs that other processes have added. A run is in a file of runs before it is removed
        from new/, so new/ is read first.
        """
        self._make()
        with self._mutex:
            for name in _names(self.folder / "new"):
                if name.endswith(ROWS) and not name.startswith(".") and name not in self._unmoved:
                    with suppress(FileNotFoundError):
                        rows = self._read_new(self.folder / "new" / name, damaged=[])
                        self._unmoved[name] = {row["id"] for row in rows}
            names = {name for name in _names(self.folder / "runs") if _is_pack(name)}
            if names <= self._ids.keys():
                return
        with self._locked(fcntl.LOCK_SH):
            self._packs()

    def batches(self, wanted: Sequence[str], names: Sequence[str]) -> Iterator[tuple[list[int], pa.Table]]:
        """Yields these columns of these runs in batches. Each batch has the positions of its runs in `wanted`, and a
        table with one row for each of them.
        """
        places = {run: place for place, run in enumerate(wanted)}
        with self._reading() as unmoved:
            for pack in self._packs():
                if not self._ids[pack.name].isdisjoint(places):
                    yield from (found for batch in self._columns_of(pack, names) if (found := _chosen(batch, places)))
            for batch in unmoved.select(["id", *names]).to_batches(GROUP):
                if found := _chosen(batch, places):
                    yield found

    def _columns_of(self, pack: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields these columns of a file of runs, with the runs' identities, some rows at a time."""
        if pack.name in self._older:
            yield from _whole(pack).select(["id", *names]).to_batches(GROUP)
            return
        with pq.ParquetFile(pack, page_checksum_verification=True) as file:
            yield from file.iter_batches(GROUP, columns=["id", *names])

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
        """Adds runs that were played together, as one file: when this returns they are on the disk. The first of them
        is claimed by this process.
        """
        if len(rows) == 1:
            self.put(rows[0])
            return
        self._make()
        text = b"\n".join(records.to_json(row, indent=None).encode() for row in rows)
        line = hashlib.sha256(text).hexdigest().encode()
        name = f"{rows[0]['id']}{ROWS}"
        records.write_bytes(self.folder / "new" / name, line + b"\n" + text, durable=True)
        with self._mutex:
            self._unmoved[name] = {row["id"] for row in rows}

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
            new = self._new()
            small = [pack for pack in packs if len(self._ids[pack.name]) < SMALL_PACK]
            joined = small if len(small) > MANY_PACKS else []
            joined += [pack for pack in packs if pack.name in self._older and pack not in joined]
            fresh = self._table_of_new(new)
            written = None
            if fresh.num_rows or joined:
                written = self._write_pack(pa.concat_tables([*map(_whole, joined), fresh]))
            for path in (*new, *joined):
                if path != written:
                    path.unlink(missing_ok=True)
            self._unmoved.clear()
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

    def _new(self) -> list[Path]:
        """Returns the files of finished runs in new/."""
        folder = self.folder / "new"
        paths = [folder / name for name in sorted(_names(folder)) if not name.startswith(".")]
        return [path for path in paths if self._is_file(path)]

    def _is_file(self, path: Path) -> bool:
        """Returns whether a path is a regular file, and names it in `damaged` if not."""
        if path.is_file():
            return True
        self.damaged.append(f"{path}: expected the file of a run; it is left where it is")
        return False

    def _table_of_new(self, new: Sequence[Path]) -> pa.Table:
        """Returns the runs in these files of new/ that no file of runs has, each once."""
        tables, seen = [columns.table_of([])], set[str]()
        for path in new:
            rows = []
            for row in self._read_new(path, self.damaged):
                if row["id"] not in seen and not any(row["id"] in ids for ids in self._ids.values()):
                    rows.append(row)
                    seen.add(row["id"])
            try:
                tables.append(columns.table_of(rows))
            except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
                seen.difference_update(row["id"] for row in rows)
                reason = " ".join(str(error).split())
                self.damaged.append(f"{path}: expected the measures of a run ({reason}); the run is played again")
        return pa.concat_tables(tables)

    def _read_new(self, path: Path, damaged: list[str]) -> list[dict[str, Any]]:
        """Returns the rows in a file of new/. Those of a damaged file are none, and it is named in `damaged`."""
        line, _, text = path.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != line:
            damaged.append(f"{path}: not whole; the run is played again")
            return []
        try:
            rows = [json.loads(one) for one in text.split(b"\n")]
        except ValueError as error:
            damaged.append(f"{path}: not JSON ({error}); the run is played again")
            return []
        for row in rows:
            if not isinstance(row, dict) or any(row.get(name) is None for name in NEEDED):
                damaged.append(f"{path}: expected the row of a run, with {', '.join(NEEDED)}; the run is played again")
                return []
        if rows[0]["id"] != path.name.removesuffix(ROWS):
            damaged.append(f"{path}: has the run {rows[0]['id']}: expected the run of its name; it is played again")
            return []
        return rows

    @contextmanager
    def _reading(self) -> Iterator[pa.Table]:
        """Keeps the files of runs as they are inside the block. Yields the runs that are still in new/ because the
        store cannot be written; usually there are none.
        """
        is_moved = True
        try:
            self.fold()
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            is_moved = False
        with ExitStack() as stack:
            stack.enter_context(self._mutex)
            try:
                stack.enter_context(self._locked(fcntl.LOCK_SH))
            except OSError as error:
                if error.errno not in UNWRITABLE:
                    raise
            self._packs()
            yield columns.table_of([]) if is_moved else self._table_of_new(self._new())

    # Functions that need the lock.

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with self._mutex:
            self._make()
            handle = self._open_lock(how)
            try:
                fcntl.flock(handle, how)
                yield
            finally:
                os.close(handle)

    def _open_lock(self, how: int) -> int:
        """Opens the file of the lock. To share the lock, reading it is enough."""
        path = self.folder / "lock"
        try:
            return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if how != fcntl.LOCK_SH or error.errno not in UNWRITABLE:
                raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _packs(self) -> list[Path]:
        """Returns the files of runs whose identities can be read, those with most runs first. The identities in files
        that are new since the last call are read now.
        """
        folder = self.folder / "runs"
        names = {name for name in _names(folder) if _is_pack(name)}
        for gone in self._ids.keys() - names:
            del self._ids[gone]
            self._older.discard(gone)
        for name in sorted(names - self._ids.keys()):
            if self._is_file(folder / name):
                self._or_away(folder / name, self._read_ids)
        return [folder / name for name in sorted(self._ids, key=lambda name: (-len(self._ids[name]), name))]

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
            self._ids.pop(path.name, None)
            try:
                path.rename(aside)
            except FileNotFoundError:
                pass
            except OSError as unwritable:
                if unwritable.errno not in UNWRITABLE:
                    raise
                if (said := f"{path}: not whole; its runs are left out") not in self.damaged:
                    self.damaged.append(said)
                return
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
    def connect(self, *, unsafe: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yields a connection to DuckDB with the view `runs` of all undamaged files. The files do not change inside the
        block.

        The connection can open no other files than these, and no network; with `unsafe` it can. DuckDB gets one thread.
        It then adds numbers in a fixed order, so the same query gives the same bytes.
        """
        import duckdb

        with self._reading() as unmoved:
            for pack in self._packs():
                self._or_away(pack, _check_pages)  # DuckDB does not look at the pages' checksums
            packs = self._packs()
            older = [_whole(pack) for pack in packs if pack.name in self._older]
            paths = [str(pack) for pack in packs if pack.name not in self._older]
            with duckdb.connect(
                ":memory:",
                config={
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                    "python_enable_replacements": "false",
                    "threads": 1,
                },
            ) as connection:
                parts = []
                if paths:
                    connection.read_parquet(paths).create_view("in_files")
                    parts.append("FROM in_files")
                if unmoved.num_rows or older or not paths:
                    connection.register("in_memory", pa.concat_tables([*older, unmoved]))
                    parts.append("FROM in_memory")
                connection.execute(f"CREATE VIEW runs AS {' UNION ALL '.join(parts)}")
                if not unsafe:
                    connection.execute("SET allowed_paths = $1", [paths])
                    connection.execute("SET enable_external_access = false")
                    connection.execute("SET lock_configuration = true")
                yield connection


def _names(folder: Path) -> list[str]:
    """Returns the names of the files in a folder. It makes no paths, which would take most of the time."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_pack(name: str) -> bool:
    """Returns whether a file in runs/ has this name, and is not half-written."""
    return name.endswith(".parquet") and not name.startswith(".")


def _chosen(batch: pa.RecordBatch, places: Mapping[str, int]) -> tuple[list[int], pa.Table] | None:
    """Returns the rows of the runs in `places`, with their places. None if there are none."""
    found = [places.get(run, -1) for run in batch["id"].to_pylist()]
    chosen = [row for row, place in enumerate(found) if place >= 0]
    return ([found[row] for row in chosen], pa.table(batch.take(pa.array(chosen)))) if chosen else None


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
