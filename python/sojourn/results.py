"""Results: the runs of a plan, as every verb of the command and the Python API see them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from sojourn import _core, cases, headline, noticed, paired, queues, records
from sojourn.arguments import PATH, SEED, TEXT, one_of, refuse_other, takes
from sojourn.cases import Address, Cases, Values
from sojourn.errors import Refusal, nearest_of
from sojourn.means import Mean, mean_of, present
from sojourn.measured import Flow, Hop, Jain, Losses, Measure
from sojourn.runs import Combination, Runs, RunsInMemory, base_rtts
from sojourn.words import number_text

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sojourn.plot import Picture
    from sojourn.until import Until, Width


MOST_PRINTED = 3
"""Up to this many numbers of flows are printed below the headline."""


@dataclass
class Results:
    """The runs of a plan that are finished: one for each combination of its sweep, and each seed."""

    title: str
    world: str
    """`sim` or `kernel`."""
    scenario: str
    """The scenario file's text."""
    combinations: list[Combination]
    hops: dict[str, str]
    """The queues of the first run, leftward ones too, each with its discipline."""
    kept: Runs = field(repr=False)
    """Where the runs are."""
    plan: _core.Plan | None = field(default=None, repr=False)
    """The plan that was asked for; None for results that were read from a folder."""
    skipped: list[dict[str, Any]] = field(default_factory=list)
    """Combinations that could not be played: `set` and `reason`."""
    broken: list[str] = field(default_factory=list)
    """The runs that disciplines of the user's ended, each as a sentence."""
    random: bool = True
    """Whether runs depend on the seed; if not, each combination is played with its first seed only."""
    spared: int = 0
    """Requested runs that were not played because nothing is random."""
    played: int = 0
    """Runs that were played now; the others were there, or another process played them."""
    cpu_s: float = 0.0
    """CPU seconds of the runs that were played now."""
    until: Until | None = None
    """The rule by which combinations have enough seeds, if there is one and runs depend on the seed."""
    too_wide: dict[int, Width] = field(default_factory=dict)
    """By the place of a combination: the interval of `until`, where the seeds ended before it was narrow enough."""
    surplus: int = 0
    """Runs of those played now that no mean uses: they were in progress when their combination had enough seeds."""
    interrupted: bool = False
    baseline: str | None = None
    """The swept value that the others are compared with; None: the first."""

    @staticmethod
    def of_records(
        found: Sequence[records.RunRecord], skipped: Sequence[dict[str, Any]] = (), *, interrupted: bool = False
    ) -> Results:
        """The results that a folder holds."""
        groups: dict[str, list[int]] = {}
        for index, one in enumerate(found):
            groups.setdefault(repr(one.result["set"]), []).append(index)
        combinations = [Combination(found[group[0]].set, group) for group in groups.values()]
        return Results(
            title=found[0].title if found else "",
            world=found[0].world if found else "",
            scenario=found[0].scenario if found else "",
            combinations=combinations,
            hops={one["name"]: one["qdisc"] for one in found[0].about["hops"]} if found else {},
            kept=RunsInMemory.of(found),
            skipped=list(skipped),
            random=any(cases.is_random(one) for one in found),
            interrupted=interrupted,
        )

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.indices)

    @property
    def indices(self) -> list[int]:
        """The numbers of the runs in the plan, combination by combination."""
        return [index for one in self.combinations for index in one.indices]

    @property
    def runs(self) -> list[records.RunRecord]:
        """The record of each run, in the plan's order."""
        return self.kept.read(sorted(self.indices))

    # ---- numbers ----

    def numbers(self, addresses: Sequence[str], of_flows: Sequence[str] = ()) -> dict[str, NDArray[np.float64]]:
        """Measures of each run, in the order of `indices`; NaN where a run has no value.

        `of_flows` are measures of every flow that has them. The runs are read some at a time.
        """
        import numpy as np

        from sojourn import measures

        indices = self.indices
        found = {address: np.full(len(indices), np.nan) for address in addresses}
        for places, rows in self.kept.batches(indices, measures.COLUMNS):
            flows = [f"flows.{flow}.{path}" for flow in measures.flows(rows) for path in of_flows] if of_flows else []
            for address in (*addresses, *flows):
                found.setdefault(address, np.full(len(indices), np.nan))[places] = measures.values(rows, address)
        return found

    def means(self, addresses: Sequence[str], of_flows: Sequence[str] = ()) -> dict[str, list[Mean | None]]:
        """The mean of each measure in each combination; `of_flows` are measures of every flow that has them."""
        import numpy as np

        found = self.numbers(addresses, of_flows)
        return {
            address: [mean_of(present(found[address][part])) for part in self._parts]
            for address in (*addresses, *sorted(found.keys() - set(addresses)))
            if address in addresses or not np.isnan(found[address]).all()
        }

    @property
    def _parts(self) -> list[slice]:
        """Where the runs of each combination are in `indices`."""
        parts, begin = [], 0
        for one in self.combinations:
            parts.append(slice(begin, begin + len(one.indices)))
            begin += len(one.indices)
        return parts

    # ---- comparisons ----

    @cached_property
    def shown(self) -> list[str]:
        """The queues to show, the compared one first."""
        import numpy as np

        paths = ("utilisation", "sojourn_ms.p95", "queue_delay_ms.mean", "drops", "marks")
        found = self.numbers([f"hops.{hop}.{path}" for hop in self.hops for path in paths])

        def load(hop: str, place: int) -> queues.Load:
            values = (found[f"hops.{hop}.{path}"][place] for path in paths)
            return queues.Load(*(0.0 if np.isnan(value) else float(value) for value in values))

        loads = [{hop: load(hop, place) for hop in self.hops} for place in range(self.count)]
        return queues.shown([one.set for one in self.combinations], list(self.hops), loads)

    def cases(self, most: int | None = None) -> Cases:
        """The first `most` combinations, or all, as cases to compare."""
        if isinstance(self.kept, RunsInMemory):
            chosen = [index for one in self.combinations[:most] for index in one.indices]
            return cases.of_records(self.kept.read(sorted(chosen)))
        return self._stored_cases(self.combinations[:most])

    def _stored_cases(self, combinations: Sequence[Combination]) -> Cases:
        from sojourn import table

        assert self.plan is not None
        sets = [one.set for one in combinations]
        abouts = [self.kept.about(one.indices[0]) for one in combinations]
        qdiscs = [{hop["name"]: str(hop["qdisc"]) for hop in about["hops"]} for about in abouts]
        seeds = [int(one["seed"]) for one in self.plan.runs]
        known: dict[Address, Values] = {}

        def read(address: Address) -> Values:
            if address not in known:
                wanted = dict.fromkeys([address, *table.addresses(made)])
                known.update(self._values(combinations, [one for one in wanted if one not in known]))
            return known[address]

        made = Cases(
            title=self.title,
            world=self.world,
            sets=cases.plain_sets(sets, qdiscs),
            seeds=[[seeds[index] for index in one.indices] for one in combinations],
            queues=list(self.hops),
            shown=self.shown,
            qdiscs=qdiscs,
            flows=cases.flows_of(abouts, cases.users_of(self.scenario, sets)),
            random=self.random,
            read=read,
            undescribed=cases.undescribed(self.scenario, sets, list(self.hops)),
            longest_rtt_ms=max(float(about["longest_rtt_ms"]) for about in abouts),
        )
        return made

    def values(self, addresses: Sequence[Address]) -> dict[Address, Values]:
        """These numbers of every run, combination by combination, in one pass through the runs."""
        return self._values(self.combinations, addresses)

    def _values(self, combinations: Sequence[Combination], addresses: Sequence[Address]) -> dict[Address, Values]:
        """These numbers of every run, in one pass through the store."""
        import numpy as np

        from sojourn import measures

        indices = [index for one in combinations for index in one.indices]
        found = {address: np.full(len(indices), np.nan) for address in addresses}
        bases: dict[int, dict[str, float]] = {}
        if any(one.above_base for one in addresses):
            abouts = [about for one in combinations for about in self.kept.abouts(one).items()]
            bases = {index: base_rtts(about) for index, about in abouts}
        for places, rows in self.kept.batches(indices, measures.COLUMNS):
            of_rows = [bases.get(indices[place], {}) for place in places]
            for address in addresses:
                found[address][places] = measures.values_at(rows, address, of_rows)
        ends = np.cumsum([len(one.indices) for one in combinations])[:-1]
        return {address: [present(part) for part in np.split(numbers, ends)] for address, numbers in found.items()}

    # ---- by name ----

    @takes(name=TEXT)
    def hop(self, name: str) -> Hop:
        """The measures of a queue: `results.hop("home.up").sojourn_ms.p95`.

        `NAME` or `NAME.down` is the rightward queue of a hop, `NAME.reverse` or `NAME.up` the leftward one. Raises
        Refusal for a queue that there is not.
        """
        return Hop(self.measure, f"hops.{self._queue(name)}")

    @takes(name=TEXT)
    def flow(self, name: str) -> Flow:
        """The measures of a flow, or the mean over flows that share a name: `bulk0` means bulk0.0, bulk0.1, …

        Raises Refusal for a flow that there is not.
        """
        names = list(dict.fromkeys(one for flow in self._flows for one in (cases.shared_name(flow), flow)))
        if name not in names:
            raise Refusal(f"flow {name!r}: no such flow: expected one of {', '.join(names)}{nearest_of(name, names)}")
        return Flow(self.measure, f"flows.{name}")

    @property
    def jain(self) -> Jain:
        """Jain's fairness index over all flows."""
        return Jain(self.measure, "jain")

    @property
    def losses(self) -> Losses:
        """Loss events of the bulk flows."""
        return Losses(self.measure, "losses")

    @property
    def goodput_mbit(self) -> Measure:
        """Payload acknowledged in the measuring window, all flows together, in Mbit/s."""
        return self.measure("goodput_mbit", "Mbit/s")

    @takes(address=TEXT, unit=TEXT)
    def measure(self, address: str, unit: str | None = None) -> Measure:
        """The measure at an address, as a store has it: `hops.bottleneck.sojourn_ms.p95`, `flows.web0.fct_s.p50`.

        Raises Refusal for an address that no run can have.
        """
        from sojourn import measures

        address = measures.plain(address, self.hops)
        measures.refuse_unknown(address, measures.known(self.hops, self._flows), self._flows, "measure")
        found = self.numbers([address])[address]
        values = {label: found[part] for label, part in zip(self.labels, self._parts, strict=True)}
        return Measure(address, _unit_of(address) if unit is None else unit, values)

    @cached_property
    def labels(self) -> list[str]:
        """The label of each combination: its discipline, or the values that it sets."""
        return self.cases().labels()

    @cached_property
    def _flows(self) -> dict[str, str]:
        """The flows' kinds by their names."""
        found: dict[str, str] = {}
        for one in self.combinations:
            found |= {flow["name"]: flow["kind"] for flow in self.kept.about(one.indices[0])["flows"]}
        return found

    def _queue(self, name: str) -> str:
        known = queues.named(name, self.hops)
        if known is None:
            raise Refusal(
                f"hop {name!r}: no such queue: expected one of {', '.join(self.hops)}{nearest_of(name, self.hops)}"
            )
        return known

    # ---- tables ----

    @overload
    def frame(self) -> pa.Table: ...
    @overload
    def frame(self, to: Literal["arrow"]) -> pa.Table: ...
    @overload
    def frame(self, to: Literal["pandas", "polars"]) -> Any: ...
    @takes(to=one_of("arrow", "pandas", "polars"))
    def frame(self, to: Literal["arrow", "pandas", "polars"] = "arrow") -> Any:
        """A table with a row for each run, as Arrow has it, or pandas or polars, which are then to be installed.

        Its columns: `set.KEY` for each key that is swept or set, `world`, `seed`, `duration_s`, `goodput_mbit`, and
        every measure by its address, such as `hops.bottleneck.sojourn_ms.p95` in ms. The units are in the names:
        `_ms`, `_s`, `_mbit`, `_packets`, `_bytes`. A measure that a run does not have is null.
        """
        from sojourn import table

        found = table.as_arrow(self.kept.read(sorted(self.indices), described=False))
        if to == "arrow":
            return found
        try:
            if to == "pandas":
                return found.to_pandas()
            import polars
        except ImportError as error:
            raise Refusal(f"frame(to={to!r}): {to} is not installed: pip install {to}") from error
        return polars.from_arrow(found)

    @takes(baseline=TEXT)
    def compare(self, *, baseline: str | None = None) -> Differences:
        """The differences between the combinations, paired seed by seed: each one less the baseline.

        `baseline` is the swept value that the others are compared with; None: the first. Combinations share their
        seeds, and with a seed the drawn traffic, so these intervals are narrower than those of two means. Raises
        Refusal for a baseline that is not swept, and where there is nothing to compare.
        """
        if len(self.combinations) < 2:
            raise Refusal("compare: there is one combination: expected a scenario with a sweep")
        wanted = baseline if baseline is not None else self.baseline
        if wanted is not None:
            paired.refuse_baseline([one.set for one in self.combinations], list(self.hops), wanted)
        found = self.cases()
        return Differences(found.labels(), tuple(paired.differences(found, wanted)))

    # ---- over time ----

    @takes(hop=TEXT, label=TEXT, seed=SEED)
    def series(self, hop: str | None = None, *, label: str | None = None, seed: int | None = None) -> pa.Table:
        """A queue over time: `time_s`, `queue_delay_ms` and the others that a record has.

        Without `hop` it is the compared queue, without `label` the first combination, without `seed` its first seed.
        Raises Refusal where no series were kept.
        """
        import pyarrow as pa

        (record,) = self.kept.read([self._index(label, seed)], series=True)
        queue = self._queue(hop) if hop is not None else self.cases().compared
        if queue not in record.series:
            raise Refusal("series: none were kept: expected series=True")
        return pa.table(dict(record.series[queue]))

    @takes(flow=TEXT, label=TEXT, seed=SEED)
    def flow_series(self, flow: str, *, label: str | None = None, seed: int | None = None) -> pa.Table:
        """A flow over time: `time_s`, `acked_bytes`, and its sender's state where it has one. As `series` otherwise."""
        import pyarrow as pa

        found = self.kept.flow_series(self._index(label, seed))
        if flow not in found:
            raise Refusal(f"flow {flow!r}: no such flow: expected one of {', '.join(found)}{nearest_of(flow, found)}")
        return pa.table(dict(found[flow]))

    @takes(label=TEXT, seed=SEED)
    def packets(self, *, label: str | None = None, seed: int | None = None) -> pa.Table:
        """Every packet of a run at every hop, a row each; times in ns. The run was played with `packets=True`."""
        import pyarrow as pa

        return pa.table(dict(self.kept.packets(self._index(label, seed))))

    def _index(self, label: str | None, seed: int | None) -> int:
        """The number of a run."""
        if label is not None and label not in self.labels:
            raise Refusal(
                f"no combination {label!r}: expected one of {', '.join(self.labels)}{nearest_of(label, self.labels)}"
            )
        one = self.combinations[self.labels.index(label) if label is not None else 0]
        seeds = {self.kept.seed(index): index for index in one.indices}
        if seed is not None and seed not in seeds:
            raise Refusal(f"seed = {seed}: no such run: expected one of {', '.join(map(str, seeds))}")
        return one.indices[0] if seed is None else seeds[seed]

    # ---- pictures ----

    @property
    def plot(self) -> Plots:
        """The pictures of the report."""
        from sojourn import pictures

        series = self.kept.keeps.series
        made = pictures.pictures if series else pictures.without_series
        chosen = self.kept.read(sorted(self.indices), series=series)
        return Plots({one.name: one for one in made(cases.case_list(chosen), self.cases().compared)})

    def __repr__(self) -> str:
        seeds = max((len(one.indices) for one in self.combinations), default=0)
        many = f"{len(self.combinations)} combinations" if len(self.combinations) != 1 else "one combination"
        lines = [f"{self.title}: {many}, {seeds} seed{'s' if seeds != 1 else ''} each, world {self.world}"]
        if self.combinations:
            found = self.cases()
            lines += [line for said in headline.sentences(found) for line in textwrap.wrap(said, 100)]
            lines += [f"{self.measure(one)!r}" for one in self._decisive(found)]
        return "\n".join(lines)

    def _decisive(self, found: Cases) -> list[str]:
        """The addresses of the numbers that the headline decides by: those of flows that people notice, or else the
        delay of the compared queue; and the goodput.
        """
        firsts = {one.people: one.address.text for one in reversed(noticed.measures(found)) if one.decides}
        flows = list(reversed(firsts.values()))[:MOST_PRINTED]
        return [*(flows or [paired.delay(found).address.text]), "goodput_mbit"]

    def _repr_html_(self) -> str:
        from sojourn import table

        if not self.combinations:
            return ""
        found = self.cases()
        said = "".join(f"<p>{escape(one)}</p>" for one in headline.sentences(found))
        return said + table.as_html(found)

    # ---- for scripts ----

    def as_dict(self) -> dict[str, Any]:
        """The JSON of `sojourn run`."""
        runs = self.runs
        value: dict[str, Any] = {
            "runs": [one.result | ({"live": one.truth} if one.truth else {}) for one in runs],
            "skipped": self.skipped,
        }
        if runs and (comparison := paired.as_dict(self.cases(), self.baseline)):
            value["comparison"] = comparison
        if self.plan is not None and self.plan.warnings:
            value["warnings"] = self.plan.warnings
        if self.interrupted:
            value["interrupted"] = True
        return value

    def json(self) -> str:
        """`as_dict` as text."""
        return records.to_json(self.as_dict())


@dataclass(frozen=True)
class Differences:
    """The differences between combinations, paired seed by seed."""

    labels: list[str]
    """The label of each combination."""
    found: tuple[paired.Difference, ...]

    def __iter__(self) -> Iterator[paired.Difference]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def frame(self) -> pa.Table:
        """A row for each difference: `case` and `baseline` by their labels, `measure`, `unit`, the `mean` difference,
        the `half_width` of its 95 % interval (null with one seed), `seeds`, and whether the two are `told_apart`."""
        import pyarrow as pa

        return pa.table(
            {
                "case": [self.labels[one.case] for one in self.found],
                "baseline": [self.labels[one.baseline] for one in self.found],
                "measure": [one.measure.name for one in self.found],
                "unit": [one.measure.unit for one in self.found],
                "mean": pa.array([one.mean.value for one in self.found], pa.float64()),
                "half_width": pa.array([one.mean.half_width for one in self.found], pa.float64()),
                "seeds": [one.mean.count for one in self.found],
                "told_apart": [one.told_apart for one in self.found],
            }
        )

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = []
        for one in self.found:
            half = "" if one.mean.half_width is None else f" ± {number_text(one.mean.half_width, 2)}"
            unit = f" {one.measure.unit}" if one.measure.unit else ""
            said = f"{'+' if one.mean.value >= 0 else ''}{number_text(one.mean.value)}{half}{unit}"
            against = f"{self.labels[one.case]} less {self.labels[one.baseline]}"
            rows.append((against, one.measure.name, said if one.told_apart else f"{said} (not told apart)"))
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        wide = [max((len(row[place]) for row in rows), default=0) for place in range(2)]
        return "\n".join(f"{case:{wide[0]}}  {name:{wide[1]}}  {said}" for case, name, said in rows)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        return f"<table><tr><th>case</th><th>measure</th><th>difference</th></tr>{rows}</table>"


@dataclass(frozen=True)
class Plots(Mapping[str, "Picture"]):
    """The pictures of a report by their names. A notebook shows the first one."""

    made: dict[str, Picture]

    def __getitem__(self, name: str) -> Picture:
        """A picture. Raises Refusal for a name that there is not."""
        refuse_other("plot: name", name, TEXT)
        if name not in self.made:
            raise Refusal(f"no picture {name!r}: expected one of {', '.join(self.made)}{nearest_of(name, self.made)}")
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)

    @takes(folder=PATH, form=one_of("png", "svg", "pdf"))
    def save(self, folder: str | Path, form: Literal["png", "svg", "pdf"] = "png") -> list[Path]:
        """Writes all pictures in this format, and their numbers as CSV; returns the pictures' files."""
        from sojourn import plot

        return [plot.write(one, Path(folder), form) for one in self.made.values()]

    def __repr__(self) -> str:
        return f"pictures: {', '.join(self.made)}"

    def _repr_png_(self) -> bytes | None:
        first = next(iter(self.made.values()), None)
        return None if first is None else first.encode("png")


UNITS = {
    "_ms": "ms",
    "_s": "s",
    "_mbit": "Mbit/s",
    "_packets": "packets",
    "_bytes": "bytes",
}
"""The units of measures, by the end of their names."""


def _unit_of(address: str) -> str:
    for part in reversed(address.split(".")):
        for end, unit in UNITS.items():
            if part.endswith(end):
                return unit
    return ""
