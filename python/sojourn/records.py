"""Results in files: one Parquet file a run, and `results.json`. A report can be made from them years later.

A run's file carries in its metadata what the numbers mean: the file version, the scenario's text, seed, set, world and
the versions of the tools; and the run's result, so that one file is enough. Nothing in it depends on when or where it
was written: the same input gives the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn import _core, files, words
from sojourn.errors import Refusal
from sojourn.shapes import ANY, Each, wrong

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FILE_VERSION: int = _core.FILE_VERSION
RESULTS = "results.json"
SCENARIO = "scenario.toml"
RUNS = "runs"
_PREFIX = "sojourn."

Columns = Mapping[str, "NDArray[Any]"]


TRUTH = "truth"
"""The entry of a run's versions that says how true it is, as JSON."""


ABOUT = {
    "hops": [{"name": str, "rate": str, "delay": str, "qdisc": str}],
    "flows": [{"name": str, "kind": str, "base_rtt_ms": float}],
    "longest_rtt_ms": float,
    "duration_s": float,
}
"""The shape of what a record says about its run, as far as tables and figures read it."""
PARTS = {
    "index": int,
    "title": str,
    "about": ABOUT,
    "result": {
        "world": str,
        "seed": int,
        "set": Each(ANY),
        "duration_s": float,
        "hops": Each({}),
        "flows": [{"name": str, "kind": str}],
        "jain": {},
        "startup": ({}, None),
    },
    "distribution": Each({"ms": [float], "share": [float]}),
    "rates": Each({"time_s": [float], "mbit": [float]}),
    "versions": Each(str),
}
"""The shapes of a record's parts."""
SUMMARY = {"runs": [{}], "skipped": [{"set": Each(ANY), "reason": str}]}
"""The shape of `results.json`."""


class RecordError(_core.Error):
    """Raised if a file or folder is not what `sojourn run` writes."""


@dataclass(frozen=True)
class RunRecord:
    """One run: its scenario, its results and its series."""

    index: int
    title: str
    scenario: str
    """The scenario file's text."""
    result: dict[str, Any]
    """The run's entry in `runs` of the JSON output."""
    about: dict[str, Any]
    """Other facts that figures need: the run's disciplines, rates and flows, as `sojourn check` prints them."""
    series: dict[str, Columns]
    """Maps a link to its columns over time."""
    distribution: dict[str, dict[str, list[float]]]
    """Maps a link to the distribution of the sojourn: times `ms`, and for each the `share` of packets with at most this
    sojourn. It is empty if it was not requested.
    """
    rates: dict[str, dict[str, list[float]]]
    """Maps a link to its rate over time: `time_s`, and the rate `mbit` from that time on."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def truth(self) -> dict[str, Any]:
        """The measures by which a run of the world `live` judges itself: `valid`, the `reasons` if it is not, whose
        queues it had (`engine`), `late_us`, `late_arrivals_us`, `realtime`, `cpu_share`, and the frames that were lost.
        Empty for the other worlds.
        """
        return dict(json.loads(self.versions.get(TRUTH, "{}")))

    @property
    def set(self) -> dict[str, Any]:
        """Swept and set keys with their values as written."""
        return dict(self.result["set"])

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.result["seed"])

    @property
    def world(self) -> str:
        """`sim`, `kernel` or `live`."""
        return str(self.result["world"])


def not_valid(runs: Sequence[RunRecord]) -> str:
    """Returns how many of the runs may not be believed, in a sentence; empty if all may."""
    wrong = [run for run in runs if run.truth and not run.truth["valid"]]
    if not wrong:
        return ""
    count = "The run is" if len(runs) == 1 else f"{len(wrong)} of {len(runs)} runs are"
    return f"{count} not valid, so do not rely on these numbers: {'; '.join(wrong[0].truth['reasons'])}."


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {"sojourn": _core.__version__, "file": str(FILE_VERSION)}


_ESCAPED = {code: f"\\u{code:04x}" for code in words.HIDDEN if code >= 0x20}
"""Hidden characters that JSON allows in texts."""


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Returns JSON text. A NaN raises an error: it would be a bug."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).translate(_ESCAPED)


def write_atomically(path: Path, write: Callable[[Path], object], *, durable: bool = False) -> None:
    """Lets `write` fill a temporary file in the same folder, and then renames it, so that no reader sees half a file.

    With `durable` the file is on the disk when this returns, and survives a power cut. Errors of the system name the
    file, and not the temporary one.
    """
    with _filled(path, write, durable=durable) as temporary:
        temporary.replace(path)
        if durable:
            _sync(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that is not there yet, whole or not at all. Raises FileExistsError if it is there, even if another
    process has written it just now.
    """
    with _filled(path, lambda temporary: temporary.write_bytes(data)) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("xb") as file:
                try:
                    file.write(data)
                    file.flush()
                except OSError:
                    path.unlink()
                    raise


@contextmanager
def _filled(path: Path, write: Callable[[Path], object], *, durable: bool = False) -> Iterator[Path]:
    """Yields a temporary file in the folder of `path`, which `write` has filled. Removes it if it is still there."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(0o666 & ~_umask())
            if durable:
                _sync(temporary)
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Writes a file atomically."""

    write_atomically(path, lambda temporary: temporary.write_bytes(data), durable=durable)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    write_bytes(path, text.encode())


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def run_file(folder: Path, index: int) -> Path:
    """Returns the path of the record of run number `index`."""
    return folder / RUNS / f"{index:04d}.parquet"


def flows_file(folder: Path, index: int) -> Path:
    """Returns the path of the series of its flows."""
    return folder / RUNS / f"{index:04d}.flows.parquet"


def packets_file(folder: Path, index: int) -> Path:
    """Returns the path of its packets, which are written if they were requested."""
    return folder / RUNS / f"{index:04d}.packets.parquet"


def _metadata(record: RunRecord) -> dict[str, str]:
    parts: dict[str, object] = {
        "index": record.index,
        "title": record.title,
        "seed": record.seed,
        "set": record.set,
        "world": record.world,
        "versions": record.versions or versions(),
        "about": record.about,
        "result": record.result,
        "distribution": record.distribution,
        "rates": record.rates,
    }
    encoded = {_PREFIX + key: to_json(value, indent=None) for key, value in parts.items()}
    return {
        _PREFIX + "file_version": str(FILE_VERSION),
        _PREFIX + "scenario": record.scenario,
        **encoded,
    }


def write_run(folder: Path, record: RunRecord) -> Path:
    """Writes a run's series, with everything about it in the file's metadata."""
    return write_record(run_file(folder, record.index), record)


def write_record(path: Path, record: RunRecord) -> Path:
    """Writes a run's series as `write_run` does, to a file of any name."""
    return _write_table(path, _long(record.series, "link"), _metadata(record))


def write_flows(folder: Path, record: RunRecord, flows: Mapping[str, Columns]) -> Path:
    """Writes the series of a run's flows: payload acknowledged, and the sender's state where there is one."""
    return write_flow_series(flows_file(folder, record.index), record, flows)


def write_flow_series(path: Path, record: RunRecord, flows: Mapping[str, Columns]) -> Path:
    """Writes the series of a run's flows as `write_flows` does, to a file of any name."""
    return _write_table(path, _long(flows, "flow"), _metadata(record))


def _long(series: Mapping[str, Columns], key: str) -> dict[str, Any]:
    """Puts the columns of several links or flows one below the other, and adds a column that names the link or flow."""
    if not series:
        return {}
    import numpy as np
    import pyarrow as pa

    names = list(series)
    lengths = [len(next(iter(series[name].values()))) for name in names]
    codes = np.repeat(np.arange(len(names), dtype=np.int32), lengths)
    columns: dict[str, Any] = {key: pa.DictionaryArray.from_arrays(codes, pa.array(names))}
    for column in series[names[0]]:
        columns[column] = np.concatenate([series[name][column] for name in names])
    return columns


def write_packets(folder: Path, record: RunRecord, packets: Columns) -> Path:
    """Writes one row for each packet and hop. Growing values are stored as differences, which at least halves the
    size.
    """
    growing = dict.fromkeys(("seq", "arrival_ns", "start_ns", "end_ns"), "DELTA_BINARY_PACKED")
    few = [name for name in packets if name not in growing]
    path = packets_file(folder, record.index)
    return _write_table(path, dict(packets), _metadata(record), column_encoding=growing, use_dictionary=few)


def _write_table(path: Path, columns: dict[str, Any], metadata: dict[str, str], **how: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns).replace_schema_metadata(metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd", **how))
    return path


def read_run(path: Path) -> RunRecord:
    """Reads what `write_run` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files.refuse_other_than_file(path, "a results folder, or a run's file")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise RecordError(
            f"{path}: expected a results folder, or a run's file {RUNS}/NNNN.parquet ({reason})"
        ) from error
    if len(kind := path.name.split(".")) > 2 and kind[-2] in ("flows", "packets"):
        raise RecordError(f"{path}: these are a run's {kind[-2]}: expected the run itself, {kind[0]}.parquet")
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }
    version = metadata.get(_PREFIX + "file_version", "")
    if not version.isdecimal():
        raise RecordError(f"{path}: expected a run recorded by sojourn")
    if int(version) > FILE_VERSION:
        raise RecordError(f"{path}: file version {version}: expected {FILE_VERSION} or older")
    try:
        return _record(table, metadata)
    except RecordError as error:
        raise RecordError(f"{path}: {error}: expected what 'sojourn run' wrote, unchanged") from error
    except (KeyError, ValueError, AttributeError, pa.ArrowException) as error:
        raise RecordError(f"{path}: not a whole record ({error}): expected what 'sojourn run' wrote") from error


def _record(table: pa.Table, metadata: Mapping[str, str]) -> RunRecord:
    def part(key: str) -> Any:
        value = json.loads(metadata[_PREFIX + key])
        if problem := wrong(value, PARTS[key], key):
            raise RecordError(problem)
        return value

    return RunRecord(
        index=part("index"),
        title=words.harmless(part("title")),
        scenario=metadata[_PREFIX + "scenario"],
        result=part("result"),
        about=part("about"),
        series=_split(table, "link"),
        distribution=part("distribution"),
        rates=part("rates"),
        versions=part("versions"),
    )


def read_flow_series(path: Path) -> dict[str, Columns]:
    """Reads what `write_flow_series` wrote. Maps each flow to its columns over time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _split(pq.read_table(path), "flow")
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from error


def read_packets(path: Path) -> Columns:
    """Reads what `write_packets` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from error
    return {name: table[name].to_numpy() for name in table.column_names}


def _split(table: pa.Table, key: str) -> dict[str, Columns]:
    """Separates the columns of several things that `_long` wrote under each other."""
    if key not in table.column_names:
        return {}
    import numpy as np
    import pyarrow as pa

    whose = table[key].combine_chunks()
    if not pa.types.is_dictionary(whose.type) or not all(
        pa.types.is_floating(one.type) or pa.types.is_integer(one.type) for one in table.schema if one.name != key
    ):
        raise RecordError(f"columns {', '.join(table.column_names)}: not those of a {key} over time")
    codes = np.asarray(whose.indices)
    values = {name: table[name].to_numpy() for name in table.column_names if name != key}
    return {
        name: {column: value[codes == code] for column, value in values.items()}
        for code, name in enumerate(whose.dictionary.to_pylist())
    }


def read_folder(path: Path) -> list[RunRecord]:
    """Reads all runs of a results folder in their order, or the single run of a file."""
    if not path.exists():
        raise RecordError(f"{path}: no such file or folder")
    if path.is_file():
        return [read_run(path)]
    files = sorted(file for file in (path / RUNS).glob("*.parquet") if file.stem.isdigit())
    if not files:
        raise RecordError(f"{path}: expected a folder written by 'sojourn run', with {RUNS}/*.parquet in it")
    return [read_run(file) for file in files]


def read_results(path: Path) -> dict[str, Any]:
    """Reads `results.json`."""
    try:
        value = json.loads(files.read_text(path, "what 'sojourn run' wrote"))
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}): expected what 'sojourn run' wrote") from error
    if problem := wrong(value, SUMMARY):
        raise RecordError(f"{path}: {problem}")
    return dict(value)


def new_folder(stem: str, scenario: str | None = None, parent: Path = Path("results")) -> Path:
    """Makes a new folder with the first free name, results/STEM-001, -002, …, and writes the scenario's text to it, if
    there is one.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1_000_000):
        folder = parent / f"{stem}-{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        if scenario is not None:
            with whole_or_none(lambda made=folder: made):  # type: ignore[misc]
                write_text(folder / SCENARIO, scenario)
        return folder
    raise RecordError(f"{parent}: too many results of {stem}")


def refuse_full_folder(folder: Path) -> None:
    """Refuses a folder for results if it is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordError(f"--out = {folder}: expected a new or empty folder; nothing is overwritten")


def claim_folder(folder: Path, scenario: str) -> Path:
    """Makes the folder that the user named, and writes the scenario's text to it. Refuses one that is not empty.

    If several processes claim a folder at once, one of them gets it: the one that makes the scenario's file.
    """
    refuse_full_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_new(folder / SCENARIO, scenario.encode())
    except FileExistsError as error:
        raise RecordError(
            f"--out = {folder}: another sojourn writes its results there now: expected a folder of its own"
        ) from error
    except OSError:
        with suppress(OSError):  # it is not empty if another process has it
            folder.rmdir()
        raise
    return folder


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Like `claim_folder`, for files without a scenario, which are written inside the block."""
    with files.writing(folder):
        refuse_full_folder(folder)
        yield folder


@contextmanager
def whole_or_none(folder: Callable[[], Path | None]) -> Iterator[None]:
    """Removes the results that this process has written to a folder if they cannot be written, as with a full disk: a
    folder with a part of the results would look like a whole one. The folder is asked for at that time.

    If a run fails, those that are finished are kept, and the error names their folder.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, Refusal, _core.Error) as error:
        place = folder()
        if place is None:
            raise
        is_written = not isinstance(error, OSError) and not isinstance(error.__cause__, OSError)
        if is_written and any((place / RUNS).glob("*")):
            error.args = (f"{error}; finished runs are kept in {place}",)
            raise
        shutil.rmtree(place / RUNS, ignore_errors=True)
        for name in (SCENARIO, RESULTS):
            with suppress(OSError):
                (place / name).unlink()
        with suppress(OSError):
            place.rmdir()
        raise
