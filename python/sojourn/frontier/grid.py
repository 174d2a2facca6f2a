"""Many points: reading them from a file, playing them, and summing them up."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn import _core, pipeline, worlds
from sojourn.errors import NothingToRun, Refusal, nearest_of
from sojourn.executors import Executor
from sojourn.files import read_text
from sojourn.frontier import judge
from sojourn.frontier.judge import Judged, Placed, Setting
from sojourn.frontier.point import START_S, Point, fixed_settings, plan_of, point_of
from sojourn.line import rate_of, seconds_of
from sojourn.runs import Runs
from sojourn.words import seeds_text

# ---- the file ----

KEYS = ("name", "flows", "rate", "rtt", "duration")
RATES_BPS, RTTS_S, DURATIONS_S = (64_000, 10**10), (1e-4, 10.0), (START_S + 1, 3600)
"""The least and the greatest values."""


def read_grid(file: Path) -> list[Point]:
    """Reads a file with a table `[[point]]` for each point: `flows`, `rate`, `rtt` and, if wanted, `name` and
    `duration`.

    Raises Refusal, which names the file and the point, for anything else.
    """
    try:
        tables = tomllib.loads(read_text(file, "a grid of points"))
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"{file}: {error}") from error
    found = tables.get("point")
    if set(tables) != {"point"} or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Refusal(f"{file}: expected tables [[point]] and nothing else")
    points = []
    for place, one in enumerate(found):
        try:
            points.append(_point(one, str(one.get("name", place + 1))))
        except Refusal as error:
            raise Refusal(f"{file}: point {one.get('name', place + 1)}: {error}") from error
    names = [one.name for one in points]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Refusal(f"{file}: point {twice[0]}: two points have this name")
    return points


def _point(table: dict[str, Any], name: str) -> Point:
    for key, value in table.items():
        if key not in KEYS:
            raise Refusal(f"{key}: no such key: expected one of {', '.join(KEYS)}{nearest_of(key, KEYS)}")
        if not isinstance(value, str):
            raise Refusal(f"{key} = {value!r}: expected a text")
    for key in KEYS[1:4]:
        if key not in table:
            raise Refusal(f"{key}: missing")
    duration = read_seconds("duration", table["duration"], DURATIONS_S, "400s") if "duration" in table else None
    return point_of(
        table["flows"],
        read_rate("rate", table["rate"]),
        read_seconds("rtt", table["rtt"], RTTS_S, "50ms"),
        None if duration is None else round(duration),
        name,
    )


def read_rate(name: str, text: str) -> int:
    """Reads a rate such as `20mbit`, in bit/s. `name` is that of the option or key. Raises Refusal."""
    value, (least, most) = rate_of(text), RATES_BPS
    if value is None or not least <= value <= most:
        raise Refusal(f"{name} = {text}: expected a rate from 64kbit to 10gbit, such as 20mbit")
    return value


def read_seconds(name: str, text: str, bounds: tuple[float, float], example: str) -> float:
    """Reads a time such as `50ms`, in seconds. `name` is that of the option or key. Raises Refusal."""
    value, (least, most) = seconds_of(text), bounds
    if value is None or not least <= value <= most:
        raise Refusal(f"{name} = {text}: expected a time from {least:g} s to {most:g} s, such as {example}")
    return value


# ---- playing ----

SEEDS = 3
NONE: Mapping[str, Sequence[Setting]] = {}
Tell = Callable[[float, float], None]
Watch = Callable[[Point, int], Tell]
"""Called with a point and its number of runs before they are played; its result reports the progress."""


@dataclass
class Found:
    """Points with their frontiers."""

    lines: tuple[str, ...]
    """The disciplines that were to be placed."""
    judged: list[Judged] = field(default_factory=list)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)
    """Disciplines that a world could not play: the point, the line or `every discipline`, and the reason."""
    broken: list[str] = field(default_factory=list)
    """Runs that disciplines of the user's ended, each as a sentence."""
    played: int = 0
    """Runs that were played now."""
    count: int = 0
    """Runs that were used."""
    interrupted: bool = False


def play(
    points: Sequence[Point],
    lines: Sequence[str],
    runs: Callable[[], Runs],
    *,
    world: worlds.World,
    executor: Executor,
    seed: int = 1,
    seeds: int = SEEDS,
    outside: Sequence[str] = (),
    known: Mapping[str, Sequence[Setting]] = NONE,
    watch: Watch = lambda _point, _runs: lambda _done_s, _all_s: None,
) -> Found:
    """Plays the fixed settings and the disciplines `lines` at each point, and judges them.

    `runs` returns where runs are kept, for each point anew. `outside` are the names of disciplines of the user's.
    `known` are settings that were played before with the same seeds, by the names of points: they are not played again.
    Disciplines that the world cannot play are left out and named in the result. After Ctrl-C the result has the
    finished points and is marked interrupted. Raises Refusal for bad input before anything is played.
    """
    origin = f"{seeds_text(range(seed, seed + seeds))}  ·  world {world.name}  ·  sojourn {_core.__version__}"
    fixed = {point: fixed_settings(point) for point in points}
    plans = {}
    for point in points:
        there = {one.line for one in known.get(point.name, ())}
        lacking = [line for line in dict.fromkeys([*fixed[point], *lines]) if line not in there]
        if lacking:
            plans[point] = plan_of(point, lacking, seed=seed, seeds=seeds, outside=outside)
    found = Found(tuple(lines))
    for point in points:
        settings = list(known.get(point.name, ()))
        if point in plans:
            try:
                settings += _played(found, point, plans[point], runs, world, executor, watch)
            except NothingToRun as error:
                if len(points) == 1:
                    raise
                found.skipped.append((point.name, "every discipline", str(error)))
                continue
            if found.interrupted:
                return found
        found.judged.append(judge.judge(point, settings, fixed[point], lines, origin))
    return found


def _played(
    found: Found,
    point: Point,
    plan: _core.Plan,
    runs: Callable[[], Runs],
    world: worlds.World,
    executor: Executor,
    watch: Watch,
) -> list[Setting]:
    """Plays a point's plan, counts its runs, and returns its settings."""
    done = pipeline.execute(plan, runs(), world=world, executor=executor, tell=watch(point, len(plan)))
    found.played += done.played
    found.count += done.count
    found.interrupted = done.interrupted
    found.broken += done.broken
    found.skipped += [(point.name, next(iter(one["set"].values())), one["reason"]) for one in done.skipped]
    return [] if done.interrupted else judge.read(done)


# ---- the sum ----

FAR_MS = 3.0
"""An excess above this is too much (the acceptance of the default `ccaq`)."""


@dataclass(frozen=True)
class Summary:
    """A discipline over all points where it was placed."""

    line: str
    points: int
    ratio: float
    """The geometric mean of its delay over the frontier's."""
    most_ratio: float
    """The same over the delay of the step below: however finely settings are tried, the ratio is not larger."""
    fq_ratio: float
    """The geometric mean of its delay over that of the frontier of settings with a queue for each flow."""
    beyond: int
    """Points where no fixed setting reaches its utilisation."""
    far: tuple[str, ...]
    """The points where its excess is more than `FAR_MS`."""
    surely_far: tuple[str, ...]
    """Those of them where the whole interval is."""
    least_gain: float | None
    """The least difference between its utilisation and that of fq_codel with its defaults at a point."""
    least_gain_at: str
    """That point."""


def summary(judged: Sequence[Judged], line: str) -> Summary | None:
    """Returns the summary of a discipline; None if it was placed nowhere."""
    there = [(one, at) for one in judged if (at := one.placed_at(line)) is not None]
    if not there:
        return None
    gains = {one.point.name: at.setting.y - one.usual.y for one, at in there if one.usual is not None}
    worst = min(gains, key=lambda name: gains[name], default="")
    return Summary(
        line,
        len(there),
        _geometric([at.ratio for _, at in there]),
        _geometric([at.most_ratio for _, at in there]),
        _geometric([at.fq_ratio for _, at in there]),
        sum(at.is_beyond for _, at in there),
        tuple(one.point.name for one, at in there if exceeds(at, sure=False)),
        tuple(one.point.name for one, at in there if exceeds(at, sure=True)),
        gains.get(worst),
        worst,
    )


def exceeds(at: Placed, *, sure: bool = False) -> bool:
    """Whether the excess is more than `FAR_MS`; with `sure`, whether its interval is. One seed has none."""
    excess = at.excess
    if excess is None or (sure and excess.half_width is None):
        return False
    return excess.value - ((excess.half_width or 0.0) if sure else 0.0) > FAR_MS


def _geometric(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
