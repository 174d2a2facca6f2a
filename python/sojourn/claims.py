"""The papers' claims, judged by runs in a store.

A `claims.toml` says which scenarios it needs (`[runs.NAME]`: file, seeds), how their runs are looked at (`[view.NAME]`:
a SELECT without its FROM, over the columns of a store) and what is claimed (`[ID]`): quantities, each a SQL expression
over one seed's rows of a view, so that disciplines are compared seed by seed, and the ranges of their means.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn import campaign, run
from sojourn.errors import Refusal
from sojourn.plan import load
from sojourn.store import Store
from sojourn.sweep import Mean, mean_of

if TYPE_CHECKING:
    import duckdb

FILE = "claims.toml"
NO_CLAIM = ("runs", "view")


@dataclass(frozen=True)
class Quantity:
    """What a claim rests on, or stands beside it for information."""

    name: str
    mean: Mean | None
    """Over the seeds; none if no run has it."""
    range: tuple[float, float] | None

    @property
    def holds(self) -> bool:
        """Whether its mean lies in its range, if it has one."""
        return self.range is None or (self.mean is not None and self.range[0] <= self.mean.value <= self.range[1])


@dataclass(frozen=True)
class Verdict:
    """A claim, judged."""

    id: str
    paper: str
    """The folder of its experiments."""
    says: str
    world: str
    quantities: list[Quantity]
    verdict: str
    """`holds`, `differs` or `calibrated`."""
    cause: str
    """Why it differs, or on what it was calibrated; empty where nobody knows yet."""


def judge(
    folder: Path,
    store: Store,
    *,
    world: run.World | None = None,
    only: Collection[str] = (),
    jobs: int | None = None,
    check: bool = False,
    tell: Callable[[float, float], None] = lambda _done_s, _all_s: None,
) -> list[Verdict]:
    """Plays what the claims of a paper's folder need and the store lacks, and judges them; `only` some of them, by id.

    With `check` nothing is played, and runs that are not there are a Refusal.
    """
    text = tomllib.loads((folder / FILE).read_text(encoding="utf-8"))
    claims = {name: claim for name, claim in text.items() if name not in NO_CLAIM and "is" in claim}
    claims = {name: claim for name, claim in claims.items() if not only or name in only}
    if not claims:
        return []
    world = world or run.Simulator()
    views = {name: text["view"][name] for name in {claim["view"] for claim in claims.values()}}
    ids: dict[str, list[str]] = {}
    for name in sorted({view["of"] for view in views.values()}):
        asked = text["runs"][name]
        file = folder / asked["file"]
        plan = load(file, [], None, asked["seeds"])
        done = campaign.execute(plan, file, store, world=world, jobs=jobs, only_read=check, tell=tell)
        if done.interrupted:
            raise KeyboardInterrupt
        if check and done.count < len(plan):
            raise Refusal(f"{store.folder}: {len(plan) - done.count} of the {len(plan)} runs of {file} are not there")
        ids[name] = [done.ids[index] for one in done.combinations for index in one.indices]
    with store.connect() as connection:
        for name, view in views.items():
            _ask(
                connection, folder / FILE, f'CREATE TEMP TABLE "{name} ids" AS SELECT unnest(?) AS id', ids[view["of"]]
            )
            sql = f'CREATE TEMP TABLE "{name}" AS {view["sql"]} FROM runs SEMI JOIN "{name} ids" USING (id)'
            _ask(connection, folder / FILE, sql)
        return [_judged(connection, folder / FILE, name, claim, world.name) for name, claim in claims.items()]


def _ask(connection: duckdb.DuckDBPyConnection, file: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return connection.execute(sql, list(values)).fetchall()
    except duckdb.Error as error:
        raise Refusal(f"{file}: {sql}: {error}") from error


def _judged(
    connection: duckdb.DuckDBPyConnection, file: Path, name: str, claim: Mapping[str, Any], world: str
) -> Verdict:
    ranges = claim["holds"]
    if unknown := ranges.keys() - claim["is"].keys():
        raise Refusal(f"{file}: {name}: {sorted(unknown)[0]!r} has a range, but nothing says what it is")
    quantities = [
        Quantity(one, _mean(connection, file, claim["view"], sql), tuple(ranges[one]) if one in ranges else None)
        for one, sql in claim["is"].items()
    ]
    held = all(quantity.holds for quantity in quantities)
    verdict = "differs" if not held else "calibrated" if "calibrated" in claim else "holds"
    cause = claim.get("calibrated" if held else "cause", "")
    return Verdict(name, file.parent.name, claim["says"], world, quantities, verdict, cause)


def _mean(connection: duckdb.DuckDBPyConnection, file: Path, view: str, sql: str) -> Mean | None:
    found = _ask(connection, file, f'SELECT {sql} FROM "{view}" GROUP BY seed ORDER BY seed')
    return mean_of([None if value is None else float(value) for (value,) in found])
