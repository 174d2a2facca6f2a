"""Where the runs of a plan are: in memory (`sojourn run`) or in a store (`sojourn sweep`).

The pipeline plays what is missing, and results read what is there, in the same way from both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sojourn import _core, identity, records
from sojourn.cases import goodput
from sojourn.errors import Refusal
from sojourn.finished import Finished, Keep
from sojourn.worlds import World

if TYPE_CHECKING:
    import pyarrow as pa

    from sojourn.store import Store


@dataclass
class Combination:
    """The runs of a plan that differ in their seed only."""

    set: dict[str, Any]
    indices: list[int]
    """The numbers in the plan of its runs, in the order of their seeds. Runs that do not exist, or have more seeds than
    were needed, are left out.
    """


class Runs(Protocol):
    """The runs of a plan, by their numbers in it."""

    @property
    def keeps(self) -> Keep:
        """The data that is kept of each run in addition to its measures."""

    @property
    def asks_first(self) -> bool:
        """Whether the world is asked about every combination before anything is played or written."""

    @property
    def place(self) -> str:
        """The folder in which finished runs are kept, for messages; empty if they are kept in memory."""

    def begin(self, plan: _core.Plan, world: World, combinations: Sequence[Combination], *, random: bool) -> None:
        """Called once, after all checks and before anything is read or kept."""

    def present(self, indices: Collection[int]) -> set[int]:
        """Returns those of these runs that exist and are undamaged."""

    def has(self, index: int) -> bool:
        """Returns whether a run exists now, even if another process played it."""

    def claim(self, index: int) -> AbstractContextManager[bool]:
        """Reserves a run, so that no other process plays it. The value is False if another process is playing it
        now.
        """

    def put(self, indices: Sequence[int], finished: Sequence[Finished]) -> None:
        """Keeps runs that were played. A store has written them to the disk when this returns."""

    def fold(self) -> None:
        """Called from time to time: moves finished runs to where queries read them."""

    def batches(self, indices: Sequence[int], names: Sequence[str]) -> Iterator[tuple[list[int], pa.Table]]:
        """Yields these columns of these runs in batches. Each batch has the positions of its runs in `indices`, and a
        table with one row for each of them.
        """

    def about(self, index: int) -> dict[str, Any]:
        """Describes the queues and flows of a run."""

    def abouts(self, combination: Combination) -> dict[int, dict[str, Any]]:
        """Describes the queues and flows of each run of the combination. If base RTTs do not depend on the seed, the
        description of its first run is used for all.
        """

    def seed(self, index: int) -> int:
        """The seed of a run."""

    def read(self, indices: Sequence[int], *, series: bool = False, described: bool = True) -> list[records.RunRecord]:
        """Returns the records of these runs. They have series only if that is requested, because reading series from
        files takes time. Without `described`, `about` may be empty: to describe a run of a store draws its traffic.
        """

    def flow_series(self, index: int) -> dict[str, records.Columns]:
        """Maps each flow of a run to its columns over time. Raises Refusal if none were kept."""

    def packets(self, index: int) -> records.Columns:
        """Returns a row for each packet of a run and each hop that it passed, in columns. Raises Refusal if none were
        kept.
        """


# ---- in memory ----


@dataclass
class RunsInMemory:
    """Runs that are kept in memory. If `folder` returns a folder, they are also written there."""

    keeps: Keep = field(default_factory=Keep)
    folder: Callable[[], Path | None] = lambda: None
    """Returns the folder for the results, if any. It is called after all checks, so that a refused plan writes nothing.
    """
    every_series: bool = True
    """Whether the series of every seed stay in memory, or only those of each combination's first seed."""
    asks_first = True
    place = ""

    def __post_init__(self) -> None:
        self._plan: _core.Plan | None = None
        self._folder: Path | None = None
        self._random = True
        self._firsts: set[int] = set()
        self._records: dict[int, records.RunRecord] = {}
        self._finished: dict[int, Finished] = {}
        self._table: tuple[list[int], pa.Table] | None = None
        """The last rows that were requested, with the numbers of their runs. They stay valid because a finished run
        does not change.
        """

    @staticmethod
    def of(found: Sequence[records.RunRecord]) -> RunsInMemory:
        """Makes this from runs that were read from a folder. A run's number is its position in the folder."""
        made = RunsInMemory()
        made._records = dict(enumerate(found))
        return made

    def begin(self, plan: _core.Plan, world: World, combinations: Sequence[Combination], *, random: bool) -> None:
        self._plan, self._random = plan, random
        self._firsts = {one.indices[0] for one in combinations}
        self._folder = self.folder()

    def present(self, indices: Collection[int]) -> set[int]:
        return set(self._records).intersection(indices)

    def has(self, index: int) -> bool:
        return index in self._records

    def claim(self, index: int) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def put(self, indices: Sequence[int], finished: Sequence[Finished]) -> None:
        for index, one in zip(indices, finished, strict=True):
            self._put(index, one)

    def _put(self, index: int, finished: Finished) -> None:
        record = replace(finished.record, about={**finished.record.about, "draws": self._random})
        if self._folder is not None:
            records.write_run(self._folder, record)
            if finished.flows is not None:
                records.write_flows(self._folder, record, finished.flows)
            if finished.packets is not None:
                records.write_packets(self._folder, record, finished.packets)
        elif finished.flows is not None or finished.packets is not None:
            self._finished[index] = finished
        whole = self.every_series or index in self._firsts
        self._records[index] = record if whole else replace(record, series={})

    def fold(self) -> None:
        pass

    def batches(self, indices: Sequence[int], names: Sequence[str]) -> Iterator[tuple[list[int], pa.Table]]:
        from sojourn import columns

        there = [place for place, index in enumerate(indices) if index in self._records]
        wanted = [indices[place] for place in there]
        if self._table is None or self._table[0] != wanted:
            rows = [row_of(self._records[index], file=self._stem, id=str(index)) for index in wanted]
            self._table = (wanted, columns.table_of(rows))
        if wanted:
            yield there, self._table[1].select(["id", *names])

    @property
    def written_to(self) -> Path | None:
        """The folder that the runs are written to, once it is made."""
        return self._folder if self._plan is not None else None

    @property
    def _stem(self) -> str:
        return Path(self._plan.file).stem if self._plan else ""

    def about(self, index: int) -> dict[str, Any]:
        return self._records[index].about

    def abouts(self, combination: Combination) -> dict[int, dict[str, Any]]:
        return {index: self.about(index) for index in combination.indices}

    def read(self, indices: Sequence[int], *, series: bool = False, described: bool = True) -> list[records.RunRecord]:
        return [self._records[index] for index in indices]

    def seed(self, index: int) -> int:
        return self._records[index].seed

    def flow_series(self, index: int) -> dict[str, records.Columns]:
        found = self._finished.get(index)
        if found is not None and found.flows is not None:
            return found.flows
        if self._folder is not None and self.keeps.series:
            return records.read_flow_series(records.flows_file(self._folder, index))
        raise Refusal("flow_series: none were kept: expected series=True")

    def packets(self, index: int) -> records.Columns:
        found = self._finished.get(index)
        if found is not None and found.packets is not None:
            return found.packets
        if self._folder is not None and self.keeps.packets:
            return records.read_packets(records.packets_file(self._folder, index))
        raise Refusal("packets: none were kept: expected packets=True")


# ---- in a store ----

STORED = ("seed", "duration_s", "versions", "hops", "flows", "jain", "losses", "tcp", "startup")
"""Columns of a store that a record is made from."""


@dataclass
class RunsInStore:
    """Runs that are kept in a store. A run's name there is a digest of everything that its result depends on."""

    store: Store
    series: bool = False
    """Whether each run's queues and flows over time are kept too."""
    asks_first = False

    def __post_init__(self) -> None:
        self.ids: dict[int, str] = {}
        """Maps the number of each requested run to its name in the store."""
        self._who: dict[int, identity.Identity] = {}
        self._sets: dict[int, dict[str, Any]] = {}
        self._addresses: dict[int, dict[str, str]] = {}
        """Maps the number of each run to its scenario's values by their addresses. Seeds of a combination share them.
        """

    @property
    def keeps(self) -> Keep:
        return Keep(series=self.series, states=self.series)

    @property
    def place(self) -> str:
        return str(self.store.folder)

    def begin(self, plan: _core.Plan, world: World, combinations: Sequence[Combination], *, random: bool) -> None:
        """Computes the names of the runs. Raises Refusal for a scenario that only the reader in Rust can parse (TOML
        1.1).
        """
        self._plan, self._world = plan, world.name
        document = identity.document_of_plan(plan)
        folder, files = Path(plan.file).parent, dict[str, str | None]()
        for one in combinations:
            resolved = identity.resolved(document, one.set)
            scenario = identity.digest([resolved, identity.digests(folder, resolved, files)])
            engine = identity.digest(world.key(plan, one.indices[0]))
            addresses = identity.addresses(resolved)
            for index in one.indices:
                self._who[index] = identity.of_run(scenario, plan.runs[index]["seed"], world.name, engine)
                self._sets[index], self._addresses[index] = one.set, addresses
        self.ids = {index: who.id for index, who in self._who.items()}

    def present(self, indices: Collection[int]) -> set[int]:
        there = self.store.present([self.ids[index] for index in indices])
        return {index for index in indices if self.ids[index] in there and self._has_series(index)}

    def has(self, index: int) -> bool:
        return self.store.has(self.ids[index]) and self._has_series(index)

    def _has_series(self, index: int) -> bool:
        return not self.series or self.store.has_series(self.ids[index])

    def claim(self, index: int) -> AbstractContextManager[bool]:
        return self.store.claim(self.ids[index])

    def put(self, indices: Sequence[int], finished: Sequence[Finished]) -> None:
        rows = [self._row(index, one) for index, one in zip(indices, finished, strict=True)]
        if rows:
            self.store.put_many(rows)

    def _row(self, index: int, finished: Finished) -> dict[str, Any]:
        """Returns a run's row for the store. If series are kept, this writes them first."""
        who, record = self._who[index], finished.record
        if finished.flows is not None:
            records.write_record(self.store.series(who.id), record)
            records.write_flow_series(self.store.flow_series(who.id), record, finished.flows)
        names = {"id": who.id, "point": who.point, "engine": who.engine, "file": Path(self._plan.file).stem}
        return row_of(record, scenario=self._addresses[index], **names)

    def fold(self) -> None:
        self.store.fold()

    def batches(self, indices: Sequence[int], names: Sequence[str]) -> Iterator[tuple[list[int], pa.Table]]:
        return self.store.batches([self.ids[index] for index in indices], names)

    def about(self, index: int) -> dict[str, Any]:
        return self._plan.describe(index)

    def abouts(self, combination: Combination) -> dict[int, dict[str, Any]]:
        """Describing a run draws its random workload, which takes time. Therefore only the first and last seed are
        described if their base RTTs agree: then those of the other seeds are equal too.
        """
        first, *others = combination.indices
        found = {first: self.about(first)}
        same = bool(others) and base_rtts(self.about(others[-1])) == base_rtts(found[first])
        return found | {index: found[first] if same else self.about(index) for index in others}

    def _combinations(self, indices: Sequence[int]) -> list[Combination]:
        """Groups these runs into combinations. Runs of one combination share one dictionary of values."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(id(self._sets[index]), []).append(index)
        return [Combination(self._sets[group[0]], group) for group in groups.values()]

    def seed(self, index: int) -> int:
        return self._plan.runs[index]["seed"]

    def flow_series(self, index: int) -> dict[str, records.Columns]:
        if not self.series:
            raise Refusal("flow_series: none were kept: expected series=True")
        return records.read_flow_series(self.store.flow_series(self.ids[index]))

    def packets(self, index: int) -> records.Columns:
        raise Refusal("packets: a store keeps none: expected runs that are played without a store, with packets=True")

    def read(self, indices: Sequence[int], *, series: bool = False, described: bool = True) -> list[records.RunRecord]:
        from sojourn import columns

        abouts: dict[int, dict[str, Any]] = {}
        if series:
            if not self.series:
                raise Refusal("series: none were kept: expected series=True")
            return [records.read_run(self.store.series(self.ids[index])) for index in indices]
        if described:
            for one in self._combinations(indices):
                abouts |= self.abouts(one)
        found: dict[int, records.RunRecord] = {}
        for places, rows in self.batches(indices, STORED):
            for place, row in zip(places, columns.rows_of(rows), strict=True):
                index = indices[place]
                found[index] = records.RunRecord(
                    index=index,
                    title=self._plan.title,
                    scenario=self._plan.text,
                    result=columns.result_of(row, world=self._world, set=self._sets[index]),
                    about=abouts.get(index, {}),
                    series={},
                    distribution={},
                    rates={},
                    versions=row["versions"],
                )
        return [found[index] for index in indices if index in found]


def base_rtts(about: Mapping[str, Any]) -> dict[str, float]:
    """Maps the name of each flow of a run to its base RTT in ms."""
    return {flow["name"]: float(flow["base_rtt_ms"]) for flow in about["flows"]}


def row_of(
    record: records.RunRecord,
    *,
    id: str,
    file: str,
    point: str = "",
    engine: str = "",
    scenario: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A run as a row of a store: its columns are those of `columns.SCHEMA`."""
    from sojourn import columns

    result = record.result
    columns.check(result)
    return {
        "id": id,
        "point": point,
        "engine": engine,
        "file": file,
        "title": record.title,
        "world": record.world,
        "seed": record.seed,
        "duration_s": result["duration_s"],
        "scenario": scenario or {},
        "qdisc": {hop["name"]: hop["qdisc"] for hop in record.about["hops"]},
        "goodput_mbit": goodput(result),
        **columns.of_result(result),
        "versions": record.versions,
    }
