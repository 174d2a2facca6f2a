"""Judges the claims of papers by runs in a store.

An experiment is a folder with a `claims.toml` and a `quantities.py`. claims.toml has the statements of a paper, the
runs that they need, and a rule for each quantity, fixed before the first run unless it says otherwise. quantities.py
has a function for each claim, from the runs to the values of its quantities, one for each seed. A verdict can be
computed again from the store at any time.
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
from sojourn.files import read_text
from sojourn.means import Mean, mean_of
from sojourn.results import Results
from sojourn.runs import RunsInStore
from sojourn.store import Store

Floats = NDArray[np.float64]
Quantities = Mapping[str, Floats | Sequence[float] | float]
"""The values of quantities, by key: one for each seed, or a single one. The key of a quantity without a rule is its
label."""

CLAIMS, QUANTITIES = "claims.toml", "quantities.py"
KINDS = ("expected", "must", "calibrates", "report", "inconsistent", "not-expressible")
"""must: if the claim does not hold, the implementation is wrong. calibrates: a parameter was chosen so that it holds.
report: the paper does not say how close is close enough, so it is only reported. inconsistent: the paper contradicts
itself. not-expressible: no world can play it.
"""
RULES = ("mean", "each", "same")
"""How a quantity is judged."""
WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", Mapping: "a table"}
"""The expected values of claims.toml in words, by type."""
VERDICTS = ("holds", "differs", "inconsistent", "calibrated", "not-expressible", "reported")


# ---- what is asked ----


@dataclass(frozen=True)
class Need:
    """The runs that claims read in one world: those of a scenario file, or of a part of its sweep."""

    name: str
    file: Path
    seeds: int | None = None
    """The number of seeds. None: as many as the scenario file has."""
    set: Mapping[str, str] = field(default_factory=dict)
    """Values that replace those of the scenario, as with `--set`."""
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The swept values that are read, by key. If a key is missing here, all its values are read."""
    series: bool = False
    """Whether queues and flows over time are read too."""

    def among(self, chosen: Mapping[str, Any]) -> bool:
        """Returns whether a combination is one of these."""
        return all(chosen.get(key) in values for key, values in self.where.items())


@dataclass(frozen=True)
class Rule:
    """The rule by which a claim holds for one of its quantities."""

    label: str
    """The quantity's name in tables, with its unit."""
    kind: str
    """`mean`: the mean over the seeds lies in the range. `each`: the value of every seed does. `same`: the 95 %
    interval of a difference contains zero."""
    range: tuple[float, float] | None = None
    """The least and the greatest value; `same` has none."""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and when it holds."""

    id: str
    says: str
    runs: tuple[str, ...] = ()
    kind: str = "expected"
    quantities: Mapping[str, Rule] = field(default_factory=dict)
    """The rules of the quantities on which the verdict depends, by key. quantities.py returns their values by the same
    keys."""
    cause: Mapping[str, str] = field(default_factory=dict)
    """Maps a world to the reason why the claim does not hold there, found by experiment, or why it cannot be judged."""
    ablation: Mapping[str, str] = field(default_factory=dict)
    """Maps a world to the change with which the difference appears or disappears."""
    tests: str = ""
    """The test that examines the claim in more detail than the measures of a run."""


@dataclass(frozen=True)
class Experiment:
    """A paper's claims."""

    folder: Path
    needs: Mapping[str, Mapping[str, Need]]
    """The needed runs, by name and then by world. A world that is missing does not need them, for example if an
    ablation was done in another world.
    """
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
    """The claims asked for by papers (`001`, `001-codel`, a path), ids (`N20`; `C7` with all its parts), and ids of a
    paper (`001/N20`).

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
        here = {word: _within(word, folder, there) for word in ids}
        if claims := [
            claim
            for claim in experiment.claims
            if whole or any(one and is_part(claim.id, one) for one in here.values())
        ]:
            chosen.append((experiment, claims))
            named |= {word for word, one in here.items() if one and any(is_part(claim.id, one) for claim in claims)}
    if missing := [one for one in ids if one not in named]:
        known = [claim.id for folder in ready for claim in load(folder).claims]
        raise Refusal(no_such(missing[0], "claim", ready, known))
    return chosen


def _within(word: str, folder: Path, there: Sequence[Path]) -> str:
    """Returns the id that a word names in a paper: `N20` of `001/N20` and of `N20`; empty if it names another paper."""
    paper, slash, rest = word.rpartition("/")
    found = folder_of(paper, there) if slash else None
    return word if found is None else rest if found == folder else ""


def worlds_of(experiment: Experiment, claim: Claim) -> list[str]:
    """Returns the worlds that have all the runs that a claim reads."""
    if claim.kind == "not-expressible":
        return []
    return [world for world in plan.WORLDS if all(world in experiment.needs[name] for name in claim.runs)]


def length_of(
    experiment: Experiment, needs: Collection[str], world: str, seeds: int | None = None
) -> tuple[int, float]:
    """Returns the number of runs that these needs have in a world, and their simulated seconds, stored or not."""
    runs, seconds = 0, 0.0
    for name, of in experiment.needs.items():
        if name in needs and world in of:
            need = of[world]
            one = plan.load(need.file, list(need.set.items()), None, seeds or need.seeds)
            runs += sum(need.among(run["set"]) for run in one.runs)
            seconds += _simulated_s(one, need)
    return runs, seconds


def is_part(claim: str, word: str) -> bool:
    """Returns whether a word names a claim, or a group that the claim is a part of. `C7` names `C7 fq` too, but `N1`
    does not name `N10`.
    """
    rest = claim.removeprefix(word)
    return claim == word or (rest != claim and word[-1:].isdigit() and not rest[0].isdigit())


def no_such(word: str, kind: str, ready: Sequence[Path], known: Collection[str]) -> str:
    """The message for a name that is neither a paper's nor one of its claims or figures."""
    papers = ", ".join(folder.name.split("-")[0] for folder in ready)
    return f'no paper or {kind} is called "{word}"; papers: {papers}{nearest_of(word, known)}'


def no_papers(root: Path, kind: str) -> str:
    """Returns the message if there is no paper at all. The wheel has none: they are only in a clone of the
    repository.
    """
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
        document = tomllib.loads(read_text(path, "an experiment's claims"))
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"{path}: {error}") from error
    _typed(path, "", document, {"runs": Mapping})
    needs = {name: _needs(path, name, value) for name, value in document.pop("runs", {}).items()}
    claims = tuple(_claim(path, name, value, needs) for name, value in document.items())
    return Experiment(folder, needs, claims, module(folder / QUANTITIES))


def _needs(path: Path, name: str, value: Mapping[str, Any]) -> dict[str, Need]:
    """Reads the runs of a name for each world: the settings for all worlds, and those of a world's own table."""
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
    keys = ("says", "runs", "kind", "quantities", "cause", "ablation", "tests")
    if not isinstance(value, Mapping):
        raise Refusal(f"{path}: {name} = {value}: expected a table of a claim")
    _known(path, name, value, keys)
    texts = dict.fromkeys(("says", "kind", "tests"), str)
    _typed(path, f"{name}.", value, {**texts, "runs": list, "quantities": Mapping})
    made = Claim(
        id=name,
        says=value.get("says", ""),
        runs=tuple(value.get("runs", ())),
        kind=value.get("kind", "expected"),
        quantities={
            key: _rule(path, f"{name}.quantities.{key}", one) for key, one in value.get("quantities", {}).items()
        },
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
    if judged != bool(made.quantities):
        wanted = "quantities, each with a rule" if judged else f"no quantities, since its kind is {made.kind}"
        raise Refusal(f"{path}: {name}: expected {wanted}")
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
    """Refuses a value that exists and has another type."""
    for key, expected in types.items():
        if key in value and not isinstance(value[key], expected):
            raise Refusal(f"{path}: {where}{key} = {value[key]!r}: expected {WORDS[expected]}")


def _rule(path: Path, where: str, value: Any) -> Rule:
    """Reads a quantity's label and its one rule."""
    if not isinstance(value, Mapping):
        raise Refusal(f"{path}: {where} = {value!r}: expected a table with label, and mean, each or same")
    _known(path, where, value, ("label", *RULES))
    _typed(path, f"{where}.", value, {"label": str, "same": bool})
    kinds = [kind for kind in RULES if kind in value]
    if "label" not in value or len(kinds) != 1 or value.get("same") is False:
        raise Refusal(f"{path}: {where}: expected label, and one of mean = [least, greatest], each, same = true")
    [kind] = kinds
    if kind == "same":
        return Rule(value["label"], kind)
    bounds = value[kind]
    numbers = isinstance(bounds, list) and all(isinstance(one, int | float) for one in bounds)
    if not (numbers and len(bounds) == 2 and bounds[0] <= bounds[1]):
        raise Refusal(f"{path}: {where}.{kind} = {bounds}: expected [least, greatest]")
    return Rule(value["label"], kind, (float(bounds[0]), float(bounds[1])))


@contextmanager
def refused_in(where: str) -> Iterator[None]:
    """Reports an error in an experiment's own Python as one line, without a traceback."""
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
    """The queue of the measures that name none."""
    sets: list[dict[str, Any]]
    """The settings of each run."""
    seeds: list[int]
    """The seed of each run."""
    table: pa.Table
    """A row for each run. The seeds of a combination are next to each other."""
    store: Store | None = None
    """The store of the runs' series, if claims.toml asks for series."""

    def of(self, *words: str) -> Runs:
        """Returns the runs that have all of these settings.

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
        """Returns a measure with a row for each combination and a column for each seed."""
        return self.by_seed(self.values(address))

    def by_seed(self, values: Floats) -> Floats:
        """Arranges a value of each run: a row for each combination, a column for each seed."""
        count = len(set(self.seeds))
        if self.seeds != self.seeds[:count] * (len(self.seeds) // count):
            raise Refusal("not every combination has all seeds")
        return values.reshape(-1, count)

    def recorded(self) -> Iterator[records.RunRecord]:
        """Each run's record: its queues over time, the distribution of its sojourns, and its link's rate."""
        for name in self.table["id"].to_pylist():
            yield records.read_run(self._kept.series(name))

    def flow_series(self) -> Iterator[dict[str, records.Columns]]:
        """Yields columns over time for each run, by flow: `time_s`, `acked_bytes`, and the sender's state."""
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
    """Returns the row with the greatest mean over the seeds. `grid` has a row for each combination."""
    row: Floats = grid[int(np.nanargmax(np.nanmean(grid, axis=1)))]
    return row


def least(grid: Floats) -> Floats:
    """Returns the row with the least mean over the seeds."""
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
    """A quantity: its values over the seeds, and the judgement by its range."""

    key: str
    name: str
    """Its label, or its key if it has no rule."""
    mean: Mean
    least: float
    greatest: float
    range: tuple[float, float] | None
    rule: str
    """`mean`, `each`, `same`; empty if no rule judges it."""
    inside: bool
    missing: int = 0
    """The number of seeds without a value, for example because a transfer did not end. The mean is over the other
    seeds, and is not judged.
    """


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
    """Maps a need's name to the reason why the world cannot play some of its runs."""
    lacking: dict[str, int] = field(default_factory=dict)
    """Maps a need's name to the number of its runs that the store lacks, if no run may be played."""
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
    """Returns the runs that are needed. Plays those that the store lacks; without `play` counts them in `lacking`."""
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
    """Returns the message about how many of a need's runs the store lacks, if no run may be played."""
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
    """Judges a claim by its rules alone."""

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
    for key in claim.quantities:
        if key not in quantities:
            near = nearest_of(key, list(quantities))
            raise Refusal(f"{experiment.folder / QUANTITIES}: {claim.id} has no quantity {key!r}{near}")
    if claim.kind in ("report", "inconsistent"):
        return judged("reported" if claim.kind == "report" else "inconsistent", cause, all_told)
    if not all(one.inside for one in all_told):
        return judged("differs", cause, all_told)
    return judged("calibrated" if claim.kind == "calibrates" else "holds", "", all_told)


def told(claim: Claim, key: str, quantity: Floats | Sequence[float] | float) -> Told:
    """Judges a quantity by its rule. One that has no rule is supplementary."""
    values = np.atleast_1d(np.asarray(quantity, float))
    if np.isinf(values).any():
        raise Refusal(f"{claim.id}: {key!r} is infinite: expected a number for each seed")
    missing = int(np.isnan(values).sum())
    mean = mean_of(values[~np.isnan(values)].tolist())
    if mean is None:
        raise Refusal(f"{claim.id}: {key!r} has no value")
    least, greatest = float(np.nanmin(values)), float(np.nanmax(values))
    rule = claim.quantities.get(key)
    if rule is None:
        return Told(key, key, mean, least, greatest, None, "", True, missing)
    if rule.range is None:
        inside = abs(mean.value) <= (mean.half_width or 0.0)
    else:
        low, high = (mean.value, mean.value) if rule.kind == "mean" else (least, greatest)
        inside = rule.range[0] <= low and high <= rule.range[1]
    return Told(key, rule.label, mean, least, greatest, rule.range, rule.kind, inside and not missing, missing)
