"""What a paper claims, judged by runs in a store.

An experiment is a folder with a `claims.toml` and a `quantities.py`. The first has what the paper says, which runs it
needs, and the ranges in which each quantity must lie, fixed before the first run or said not to be; the second, for
each claim, a function from those runs to its quantities, a value for each seed. A verdict is recomputed from
the store at any time.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sojourn import _core, measures, pipeline, plan, records, worlds
from sojourn.cases import shared_name
from sojourn.errors import NothingToRun, Refusal, nearest_of
from sojourn.executors import Executor
from sojourn.means import Mean, mean_of
from sojourn.results import Results
from sojourn.runs import RunsInStore
from sojourn.store import Store

Floats = NDArray[np.float64]
Quantities = Mapping[str, Floats | Sequence[float] | float]
"""By what it is called in claims.toml: its value for each seed, or the one value that it has."""

CLAIMS, QUANTITIES = "claims.toml", "quantities.py"
KINDS = ("expected", "must", "calibrates", "report", "inconsistent", "not-expressible")
"""must: or the implementation is wrong. calibrates: a parameter was chosen by it. report: nobody said how near is near
enough. inconsistent: the paper contradicts itself. not-expressible: in none of the worlds."""
WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", Mapping: "a table"}
"""What is expected in claims.toml, by type."""
VERDICTS = ("holds", "differs", "inconsistent", "calibrated", "not-expressible", "reported")


# ---- what is asked ----


@dataclass(frozen=True)
class Need:
    """Runs that claims read in a world: a scenario file, or a part of its sweep."""

    name: str
    file: Path
    seeds: int | None = None
    """Without, as many as the file says."""
    set: Mapping[str, str] = field(default_factory=dict)
    """As `--set` has them."""
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The values of a sweep that are read; of keys that are not here, all."""
    series: bool = False
    """Whether queues and flows over time are read too."""

    def among(self, chosen: Mapping[str, Any]) -> bool:
        """Whether a combination is one of these."""
        return all(chosen.get(key) in values for key, values in self.where.items())


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and when it holds."""

    id: str
    says: str
    runs: tuple[str, ...] = ()
    kind: str = "expected"
    holds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The mean over the seeds lies in the range."""
    each: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """So does the value of every seed."""
    same: tuple[str, ...] = ()
    """Differences whose 95 % interval contains zero."""
    cause: Mapping[str, str] = field(default_factory=dict)
    """By world: why it differs, found by experiment; or why nothing can be said."""
    ablation: Mapping[str, str] = field(default_factory=dict)
    """By world: what makes the difference come and go."""
    tests: str = ""
    """Where a test looks closer than a run's measures do."""


@dataclass(frozen=True)
class Experiment:
    """A paper's claims."""

    folder: Path
    needs: Mapping[str, Mapping[str, Need]]
    """By name, then by world: one that is not there does without, as without an ablation that another has shown."""
    claims: tuple[Claim, ...]
    quantities: ModuleType

    @property
    def name(self) -> str:
        """The folder's."""
        return self.folder.name

    def quantities_of(self, claim: Claim) -> Callable[[Mapping[str, Runs]], Quantities]:
        """The function for a claim: N9 has `n9`."""
        name = "".join(letter if letter.isalnum() else "_" for letter in claim.id.lower())
        found: Callable[[Mapping[str, Runs]], Quantities] | None = getattr(self.quantities, name, None)
        if found is None:
            raise Refusal(f"{self.folder / QUANTITIES}: {claim.id} has no function {name}")
        return found


def select(words: Sequence[str], root: Path) -> list[tuple[Experiment, list[Claim]]]:
    """The claims asked for by papers (`001`, `001-codel`, a path) and ids (`N20`; `C7` with all its parts).

    Without any, all below `root`.
    """
    there = sorted(path.parent for path in root.glob(f"*/{CLAIMS}"))
    ready = [folder for folder in there if (folder / QUANTITIES).exists()]
    papers = {word: found for word in words if (found := folder_of(word, there)) is not None}
    for word, folder in papers.items():
        if not (folder / QUANTITIES).exists():
            raise Refusal(f"{word}: expected {folder / QUANTITIES}, with a function for each claim")
    if not ready and not papers:
        raise Refusal(no_papers(root, "claims"))
    ids = [word for word in words if word not in papers]
    chosen = []
    named: set[str] = set()
    for folder in dict.fromkeys((*papers.values(), *(ready if ids or not words else ()))):
        experiment = load(folder)
        whole = not words or folder in papers.values()
        if claims := [claim for claim in experiment.claims if whole or any(is_part(claim.id, one) for one in ids)]:
            chosen.append((experiment, claims))
            named |= {one for one in ids if any(is_part(claim.id, one) for claim in claims)}
    if missing := [one for one in ids if one not in named]:
        known = [claim.id for folder in ready for claim in load(folder).claims]
        raise Refusal(no_such(missing[0], "claim", ready, known))
    return chosen


def is_part(claim: str, word: str) -> bool:
    """Whether a word names a claim or what it is a part of: `C7` is `C7 fq` too, and `N1` is not `N10`."""
    rest = claim.removeprefix(word)
    return claim == word or (rest != claim and word[-1:].isdigit() and not rest[0].isdigit())


def no_such(word: str, kind: str, ready: Sequence[Path], known: Collection[str]) -> str:
    """The message for a name that is neither a paper's nor one of its claims or figures."""
    papers = ", ".join(folder.name.split("-")[0] for folder in ready)
    return f'no paper or {kind} is called "{word}"; papers: {papers}{nearest_of(word, known)}'


def no_papers(root: Path, kind: str) -> str:
    """The message where there is no paper at all, as outside a clone: they do not travel in the wheel."""
    return (
        f"{root}: no paper's {kind} here: papers are in the folder experiments of sojourn's repository; "
        "run this in a clone of it, or name the folder: --experiments DIR"
    )


def folder_of(word: str, there: Sequence[Path]) -> Path | None:
    """The experiment that a word names, if it does: by number, by name, by path."""
    if (Path(word) / CLAIMS).exists():
        return Path(word)
    found = [folder for folder in there if word in (folder.name, folder.name.split("-")[0])]
    if len(found) > 1:
        raise Refusal(f"{word}: expected one of {', '.join(folder.name for folder in found)}")
    return found[0] if found else None


def load(folder: Path) -> Experiment:
    """Reads and checks an experiment's claims."""
    path = folder / CLAIMS
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: {error}") from error
    _typed(path, "", document, {"runs": Mapping})
    needs = {name: _needs(path, name, value) for name, value in document.pop("runs", {}).items()}
    claims = tuple(_claim(path, name, value, needs) for name, value in document.items())
    return Experiment(folder, needs, claims, module(folder / QUANTITIES))


def _needs(path: Path, name: str, value: Mapping[str, Any]) -> dict[str, Need]:
    """What each world reads by a name: what is said for all of them, and what it says otherwise."""
    keys = ("file", "seeds", "set", "where", "series")
    if not isinstance(value, Mapping) or "file" not in value:
        raise Refusal(f"{path}: runs.{name}: expected file, a scenario file's path from here")
    _known(path, f"runs.{name}", value, (*keys, "worlds", *plan.WORLDS))
    _typed(path, f"runs.{name}.", value, {"worlds": list, **dict.fromkeys(plan.WORLDS, Mapping)})
    worlds = value.get("worlds", plan.WORLDS)
    _known(path, f"runs.{name}.worlds", dict.fromkeys(worlds), plan.WORLDS)
    own = {key: value[key] for key in keys if key in value}
    for world in plan.WORLDS:
        _known(path, f"runs.{name}.{world}", value.get(world, {}), keys)
    made = {world: _need(path, name, world, own | value.get(world, {})) for world in plan.WORLDS}
    return {world: need for world, need in made.items() if world in worlds}


def _need(path: Path, name: str, world: str, value: Mapping[str, Any]) -> Need:
    where = f"runs.{name}"
    _typed(path, f"{where}.", value, {"file": str, "set": Mapping, "where": Mapping, "series": bool})
    _typed(path, f"{where}.set.", value.get("set", {}), dict.fromkeys(value.get("set", {}), str))
    _typed(path, f"{where}.where.", value.get("where", {}), dict.fromkeys(value.get("where", {}), list))
    seeds = _by_world(path, where, "seeds", value)
    _typed(path, f"{where}.seeds.", seeds, dict.fromkeys(seeds, int))
    parts = (value.get("set", {}), value.get("where", {}), value.get("series", False))
    return Need(name, path.parent / value["file"], seeds.get(world), *parts)


def _claim(path: Path, name: str, value: Any, needs: Collection[str]) -> Claim:
    keys = ("says", "runs", "kind", "holds", "each", "same", "cause", "ablation", "tests")
    if not isinstance(value, Mapping):
        raise Refusal(f"{path}: {name} = {value}: expected a table of a claim")
    _known(path, name, value, keys)
    texts, tables = dict.fromkeys(("says", "kind", "tests"), str), dict.fromkeys(("holds", "each"), Mapping)
    _typed(path, f"{name}.", value, {**texts, **tables, "runs": list, "same": list})
    made = Claim(
        id=name,
        says=value.get("says", ""),
        runs=tuple(value.get("runs", ())),
        kind=value.get("kind", "expected"),
        holds=_ranges(path, name, value.get("holds", {})),
        each=_ranges(path, name, value.get("each", {})),
        same=tuple(value.get("same", ())),
        cause=_by_world(path, name, "cause", value),
        ablation=_by_world(path, name, "ablation", value),
        tests=value.get("tests", ""),
    )
    if made.kind not in KINDS:
        raise Refusal(f"{path}: {name}.kind = {made.kind}: expected one of {', '.join(KINDS)}")
    for one in made.runs:
        if one not in needs:
            raise Refusal(f"{path}: {name}.runs = {one}: expected one of {', '.join(needs)}")
    judged = made.kind not in ("report", "inconsistent", "not-expressible")
    if judged != bool(made.holds or made.each or made.same):
        raise Refusal(f"{path}: {name}: expected {'a range in holds or each, or same' if judged else 'no range'}")
    return made


def _by_world(path: Path, name: str, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A value for all worlds, or a table with one for each."""
    given = value.get(key, {})
    if not isinstance(given, Mapping):
        return dict.fromkeys(plan.WORLDS, given)
    _known(path, f"{name}.{key}", given, plan.WORLDS)
    return dict(given)


def _known(path: Path, where: str, value: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in value:
        if key not in keys:
            expected = f"expected one of {', '.join(keys)}{nearest_of(key, keys)}"
            raise Refusal(f"{path}: {where}.{key}: no such key: {expected}")


def _typed(path: Path, where: str, value: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Refuses what is there and of another type."""
    for key, expected in types.items():
        if key in value and not isinstance(value[key], expected):
            raise Refusal(f"{path}: {where}{key} = {value[key]!r}: expected {WORDS[expected]}")


def _ranges(path: Path, name: str, value: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    ranges = {}
    for key, bounds in value.items():
        numbers = isinstance(bounds, list) and all(isinstance(one, int | float) for one in bounds)
        if not (numbers and len(bounds) == 2 and bounds[0] <= bounds[1]):
            raise Refusal(f"{path}: {name}: {key} = {bounds}: expected [least, greatest]")
        ranges[key] = (float(bounds[0]), float(bounds[1]))
    return ranges


@contextmanager
def refused_in(where: str) -> Iterator[None]:
    """What goes wrong in an experiment's own Python is its author's to mend: one line, and no traceback."""
    try:
        yield
    except Refusal as error:
        raise Refusal(f"{where}: {error}") from error
    except Exception as error:
        raise Refusal(f"{where}: {type(error).__name__}: {error}") from error


def module(path: Path) -> ModuleType:
    """A Python file of an experiment."""
    name = f"sojourn_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # a dataclass looks there for its module
    try:
        spec.loader.exec_module(made)
    except (SyntaxError, ImportError) as error:
        raise Refusal(f"{path}: {error}") from error
    return made


# ---- what was measured ----


@dataclass(frozen=True)
class Runs:
    """Stored runs, and their measures by name (`sojourn_ms.p95`, `flows.ftp.goodput_mbit`)."""

    hop: str
    """Whose measures those are that name no queue."""
    sets: list[dict[str, Any]]
    seeds: list[int]
    table: pa.Table
    """A row for each; all seeds of a combination beside each other."""
    store: Store | None = None
    """Where their series are, if claims.toml asks for them."""

    def of(self, *words: str) -> Runs:
        """Those that have all of these settings.

        `KEY=VALUE` asks for an address that ends with KEY, other words for any value that begins so: `codel `.
        """
        rows = [row for row, chosen in enumerate(self.sets) if all(_has(chosen, word) for word in words)]
        if not rows:
            raise Refusal(f"no runs with {', '.join(words)}")
        sets, seeds = [self.sets[row] for row in rows], [self.seeds[row] for row in rows]
        return Runs(self.hop, sets, seeds, self.table.take(rows), self.store)

    def values(self, address: str) -> Floats:
        """A measure of each run."""
        return measures.values(self.table, measures.full(address, self.hop))

    def grid(self, address: str) -> Floats:
        """The same with a row a combination and a column a seed."""
        return self.by_seed(self.values(address))

    def by_seed(self, values: Floats) -> Floats:
        """Values of each run, so arranged."""
        count = len(set(self.seeds))
        if self.seeds != self.seeds[:count] * (len(self.seeds) // count):
            raise Refusal("not every combination has all seeds")
        return values.reshape(-1, count)

    def recorded(self) -> Iterator[records.RunRecord]:
        """Each run's record: its queues over time, the distribution of its sojourns, and its link's rate."""
        for name in self.table["id"].to_pylist():
            yield records.read_run(self._kept.series(name))

    def flow_series(self) -> Iterator[dict[str, records.Columns]]:
        """Of each run, columns over time by flow: `time_s`, `acked_bytes`, and the sender's state."""
        for name in self.table["id"].to_pylist():
            yield records.read_flow_series(self._kept.flow_series(name))

    @property
    def _kept(self) -> Store:
        if self.store is None:
            raise Refusal("no series are kept of these runs: expected series = true below [runs.NAME] of claims.toml")
        return self.store

    def flow_drops(self, name: str) -> tuple[Floats, Floats]:
        """Packets sent and dropped by the flows of this name, together, in each run."""
        sent, lost = [], []
        for flows in self.table["flows"].to_pylist():
            own = [flow for flow in flows if name in (flow["name"], shared_name(flow["name"]))]
            sent.append(float(sum(flow["packets"] or 0 for flow in own)))
            lost.append(float(sum(flow["drops"] or 0 for flow in own)))
        return np.array(sent), np.array(lost)


def most(grid: Floats) -> Floats:
    """Of the row whose mean over the seeds is greatest, each seed's value; `grid` has a row a combination."""
    row: Floats = grid[int(np.nanargmax(np.nanmean(grid, axis=1)))]
    return row


def least(grid: Floats) -> Floats:
    """Of the row whose mean is least."""
    return -most(-grid)


def _has(chosen: Mapping[str, Any], word: str) -> bool:
    key, equals, value = word.partition("=")
    if equals:
        return any(f".{address}".endswith(f".{key}") and _text(one) == value for address, one in chosen.items())
    return any(_text(one).startswith(word) for one in chosen.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class Told:
    """A quantity: over its seeds, and by its range."""

    name: str
    mean: Mean
    least: float
    greatest: float
    range: tuple[float, float] | None
    rule: str
    """`mean`, `each`, `same`; empty if it is beside the claim."""
    inside: bool
    missing: int = 0
    """Seeds that have no value, such as a transfer's that did not end: the mean is of the others, and not judged."""


@dataclass(frozen=True)
class Judgement:
    """A claim, judged in a world."""

    paper: str
    claim: Claim
    world: str
    quantities: tuple[Told, ...]
    verdict: str
    cause: str


@dataclass
class Found:
    """The runs of an experiment."""

    runs: dict[str, Runs] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Why the world can't play some, by the need's name."""
    lacking: dict[str, int] = field(default_factory=dict)
    """How many runs of a need the store does not have, if none was to be played."""
    played: int = 0
    interrupted: bool = False


def gather(
    experiment: Experiment,
    needs: Collection[str],
    store: Store,
    world: worlds.World,
    *,
    seeds: int | None = None,
    executor: Executor | None = None,
    play: bool = True,
    tell: Callable[[float, float], None] = lambda _done_s, _all_s: None,
) -> Found:
    """The runs that are needed; what the store lacks is played first, or told in `lacking` if not to `play`."""
    found = Found()
    asked = [of for name, of in experiment.needs.items() if name in needs]
    chosen = [of[world.name] for of in asked if world.name in of]
    plans = [plan.load(need.file, list(need.set.items()), None, seeds or need.seeds) for need in chosen]
    lengths = [_simulated_s(one, need) for one, need in zip(plans, chosen, strict=True)]
    for need, length in zip(chosen, lengths, strict=True):
        if not length:
            where = f"{experiment.folder / CLAIMS}: runs.{need.name}.where"
            raise Refusal(f"{where}: no combination of {need.file} has these values")
    before, whole = 0.0, sum(lengths)
    for one, need, length in zip(plans, chosen, lengths, strict=True):
        # A guest takes its time: what can't be judged is not played.
        if world.name != "sim" and (why := _refusal(one, need, world)):
            found.refused[need.name] = why
            continue

        def tell_all(done_s: float, _all_s: float, before: float = before) -> None:
            tell(before + done_s, whole)

        stored = RunsInStore(store, need.series)
        try:
            done = pipeline.execute(
                one,
                stored,
                world=world,
                executor=executor,
                among=need.among,
                only_read=not play,
                tell=tell_all,
            )
        except NothingToRun as error:
            found.refused[need.name] = str(error)
            continue
        before += length
        found.played += done.played
        if done.interrupted:
            found.interrupted = True
            break
        if why := next((each["reason"] for each in done.skipped if need.among(each["set"])), None):
            found.refused[need.name] = why
            continue
        if not play and (lacking := len(stored.ids) - done.count):
            if why := _refusal(one, need, world):
                found.refused[need.name] = why
            else:
                found.lacking[need.name] = lacking
            continue
        found.runs[need.name] = _runs_of(done, store if need.series else None)
    return found


def lacking(experiment: Experiment, name: str, found: Found, world: str) -> str:
    """In words, what the store does not have of a need, for who asked not to play."""
    where = f"{experiment.needs[name][world].file}, runs.{name}"
    return f"{found.lacking[name]} of the runs of {where}, are not there: play them without --check"


def _refusal(one: _core.Plan, need: Need, world: worlds.World) -> str | None:
    """Why the world can't play one of the combinations, if it can't."""
    places: dict[str, int] = {}
    for place, entry in enumerate(one.runs):
        if need.among(entry["set"]):
            places.setdefault(json.dumps(entry["set"]), place)
    return next((why for place in places.values() if (why := world.refusal(one, place))), None)


def _simulated_s(one: _core.Plan, need: Need) -> float:
    chosen = (entry for entry in one.runs if need.among(entry["set"]))
    return math.fsum({json.dumps([entry["set"], entry["seed"]]): entry["duration_s"] for entry in chosen}.values())


def _runs_of(done: Results, store: Store | None) -> Runs:
    sets = [one.set for one in done.combinations for _ in one.indices]
    tables, places = [], []
    for at, table in done.kept.batches(done.indices, ("seed", *measures.COLUMNS)):
        tables.append(table)
        places += at
    table = pa.concat_tables(tables).take(np.argsort(places))
    return Runs(next(iter(done.hops)), sets, table["seed"].to_pylist(), table, store)


# ---- the verdict ----


def judge(experiment: Experiment, claim: Claim, found: Found, world: str) -> Judgement:
    """A claim's verdict, by its rules and nothing else."""

    def judged(verdict: str, cause: str = "", quantities: Iterable[Told] = ()) -> Judgement:
        return Judgement(experiment.name, claim, world, tuple(quantities), verdict, cause)

    cause = claim.cause.get(world, "")
    if claim.kind == "not-expressible":
        return judged("not-expressible", cause)
    for name in claim.runs:
        if name in found.refused:
            return judged("not-expressible", found.refused[name])
    if claim.runs and not any(world in experiment.needs[name] for name in claim.runs):
        return judged("not-expressible", "its runs are asked of another world")
    function = experiment.quantities_of(claim)
    with refused_in(f"{experiment.folder / QUANTITIES}: {function.__name__}"):
        quantities = function({name: found.runs[name] for name in claim.runs if name in found.runs})
        all_told = [told(claim, name, values) for name, values in quantities.items()]
    for name in (*claim.holds, *claim.each, *claim.same):
        if name not in quantities:
            raise Refusal(f"{experiment.folder / QUANTITIES}: {claim.id} has no quantity {name!r}")
    if claim.kind in ("report", "inconsistent"):
        return judged("reported" if claim.kind == "report" else "inconsistent", cause, all_told)
    if not all(one.inside for one in all_told):
        return judged("differs", cause, all_told)
    return judged("calibrated" if claim.kind == "calibrates" else "holds", "", all_told)


def told(claim: Claim, name: str, quantity: Floats | Sequence[float] | float) -> Told:
    """A quantity by the claim's rules; one that no rule names is beside the claim."""
    values = np.atleast_1d(np.asarray(quantity, float))
    if np.isinf(values).any():
        raise Refusal(f"{claim.id}: {name!r} is infinite: expected a number for each seed")
    missing = int(np.isnan(values).sum())
    mean = mean_of(values[~np.isnan(values)].tolist())
    if mean is None:
        raise Refusal(f"{claim.id}: {name!r} has no value")
    least, greatest = float(np.nanmin(values)), float(np.nanmax(values))
    inside, rule, range_ = True, "", None
    if name in claim.holds:
        range_, rule = claim.holds[name], "mean"
        inside = range_[0] <= mean.value <= range_[1]
    if name in claim.each:
        range_, rule = claim.each[name], "each"
        inside = inside and range_[0] <= least and greatest <= range_[1]
    if name in claim.same:
        rule = "same"
        inside = abs(mean.value) <= (mean.half_width or 0.0)
    return Told(name, mean, least, greatest, range_, rule, inside and not (rule and missing), missing)
