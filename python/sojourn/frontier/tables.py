"""The tables of frontiers: one of each point, those of all points, and everything for scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sojourn import means, words
from sojourn.frontier import grid
from sojourn.frontier.grid import FAR_MS, Found, Summary
from sojourn.frontier.judge import USUAL, Judged, Placed, Setting
from sojourn.frontier.point import FEW_CYCLES, START_S, Point
from sojourn.means import Mean
from sojourn.words import NOTHING, mean_text, number_text, time_text

Table = tuple[list[str], list[list[str]]]
"""Heads, and rows of cells."""
BEYOND = ">"
"""Marks a utilisation that no fixed setting reaches."""
LEGEND = (
    "frontier: the least mean sojourn of a fixed setting that keeps the link as busy; below: that of the next lower "
    "step, so that the frontier of settings that were not tried is between the two; excess: the sojourn less the "
    "frontier's, paired by seed; ± is half of a 95 % interval; times: the sojourn divided by the frontier's; fq's: the "
    "frontier of the settings that give each flow its own queue."
)
OVERALL_LEGEND = (
    "times: the geometric mean over the points of the sojourn divided by the frontier's, by that of the step below, "
    f"and by that of the frontier of settings that give each flow its own queue; busy less {USUAL}'s: the least "
    f"difference of the utilisation to {USUAL} with its defaults at a point, in "
    "points of percent."
)
BEYOND_LEGEND = f"{BEYOND}: no fixed setting keeps the link as busy; the excess is over the busiest one's sojourn."
FEW_LEGEND = f"*: fewer than {FEW_CYCLES} cycles of the congestion control were measured (from {START_S} s to the end)."


def notes(found: Found) -> list[str]:
    """Sentences that explain the tables."""
    said = [LEGEND]
    if len(found.judged) > 1:
        said.append(OVERALL_LEGEND)
    if any(at.is_beyond for one in found.judged for at in one.placed):
        said.append(BEYOND_LEGEND)
    if any(one.point.cycles < FEW_CYCLES for one in found.judged):
        said.append(FEW_LEGEND)
    return said


def headline(found: Found) -> str:
    """Says in a sentence or two what was found."""
    if len(found.judged) != 1:
        return f"{len(found.judged)} points. {_ratios(found)}".strip()
    one = found.judged[0]
    if not one.steps:
        return f"{path(one.point)}: no fixed setting passed a packet."
    first, last = one.steps[0], one.steps[-1]
    return (
        f"{path(one.point)}: of {len(one.fixed)} fixed settings, {len(one.steps)} are the frontier, from "
        f"{time_text(first.x)} at {percent(first.y)} % to {time_text(last.x)} at {percent(last.y)} %."
    )


def path(point: Point) -> str:
    """A point as a person writes it: `4 reno, 10 Mbit/s, 50 ms`."""
    return f"{point.flows_text}, {words.rate_text(point.rate_bps / 1e6)}, {time_text(1000 * point.rtt_s)}"


def _ratios(found: Found) -> str:
    """Says how much more delay than the frontier the disciplines have."""
    said = [f"{one.line} {number_text(one.ratio)}" for one in summaries(found)]
    return f"Delay over the frontier's at the same utilisation, geometric mean: {', '.join(said)}." if said else ""


def summaries(found: Found) -> list[Summary]:
    """The summary of each discipline that was placed."""
    return [one for line in found.lines if (one := grid.summary(found.judged, line)) is not None]


def percent(share: float) -> str:
    """A share in percent, with two digits after the point."""
    return f"{100 * share:.2f}"


def signed(mean: Mean | None) -> str:
    """A difference with its sign and its interval."""
    if mean is None:
        return NOTHING
    return f"{'+' if mean.value >= 0 else ''}{mean_text(mean.value, mean.half_width)}"


# ---- a point ----


def frontier(one: Judged) -> Table:
    """The settings on the frontier."""
    heads = ["setting", "link\nbusy %", "sojourn\nmean ms", "sojourn\np95 ms", "lost\n%"]
    return heads, [[step.line, *_own(step)] for step in one.steps]


def _own(one: Setting) -> list[str]:
    p95, loss = one.mean(one.p95_ms), one.mean(one.loss)
    return [
        percent(one.y),
        number_text(one.x),
        number_text(p95.value) if p95 else NOTHING,
        number_text(100 * loss.value, 2) if loss else NOTHING,
    ]


def placed(one: Judged) -> Table:
    """The disciplines of a point against its frontier."""
    heads = ["discipline", "link\nbusy %", "sojourn\nmean ms", "sojourn\np95 ms", "lost\n%"]
    heads += ["frontier\nms", "below\nms", "excess\nms", "times", "fq's\nms"]
    rows = []
    for at in one.placed:
        busy, *rest = _own(at.setting)
        busy = f"{BEYOND} {busy}" if at.is_beyond else busy
        below = NOTHING if at.below is None or at.is_beyond else number_text(at.below.x)
        rows.append(
            [
                at.setting.line,
                busy,
                *rest,
                number_text(at.against.x),
                below,
                signed(at.excess),
                number_text(at.ratio),
                number_text(at.fq.x),
            ],
        )
    return heads, rows


def against(one: Judged) -> Table:
    """The fixed settings with which the disciplines of a point are compared."""
    rows = [[at.setting.line, at.against.line] for at in one.placed]
    return ["discipline", "the frontier's setting"], rows


# ---- many points ----


def overall(found: Found) -> Table:
    """A row for each discipline over all points."""
    all_of = summaries(found)
    heads = [
        "discipline",
        "points",
        "times the\nfrontier",
        "times\nbelow",
        "times\nfq's",
        "beyond\nit",
        f"> {FAR_MS:g} ms\nexcess",
    ]
    heads += ["all of\nits ±", f"busy less\n{USUAL}'s", "at\npoint"]
    rows = []
    for one in all_of:
        rows.append(
            [
                one.line,
                str(one.points),
                f"{one.ratio:.3f}",
                f"{one.most_ratio:.3f}",
                f"{one.fq_ratio:.3f}",
                str(one.beyond),
                str(len(one.far)),
                str(len(one.surely_far)),
                NOTHING if one.least_gain is None else f"{100 * one.least_gain:+.2f}",
                one.least_gain_at,
            ]
        )
    return heads, rows


def label(one: Judged) -> str:
    """The first cell of a point's row; a mark says that few cycles were measured."""
    return f"{one.point.name}: {path(one.point)}{' *' if one.point.cycles < FEW_CYCLES else ''}"


def utilisations(found: Found) -> Table:
    """The utilisation of each discipline at each point, in percent."""
    return _each(found, "point", lambda at: f"{BEYOND if at.is_beyond else ''}{percent(at.setting.y)}")


def excesses(found: Found) -> Table:
    """The excess of each discipline at each point, in ms."""
    return _each(found, "point", lambda at: signed(at.excess))


def _each(found: Found, head: str, cell: Callable[[Placed], str]) -> Table:
    rows = []
    for one in found.judged:
        places = [one.placed_at(line) for line in found.lines]
        rows.append([label(one), *(NOTHING if at is None else cell(at) for at in places)])
    return [head, *("\n".join(line.split()) for line in found.lines)], rows


# ---- for scripts ----


def every_setting(found: Found) -> tuple[list[str], list[list[object]]]:
    """Returns a row for each setting and each discipline at each point, for CSV."""
    heads = ["point", "flows", "rate_mbit", "rtt_ms", "duration_s", "cycles", "setting", "role"]
    heads += ["utilisation", "utilisation.half_width", "sojourn_ms.mean", "sojourn_ms.mean.half_width"]
    heads += ["sojourn_ms.p95", "loss", "frontier_ms", "frontier_setting", "below_ms", "fq_frontier_ms"]
    heads += ["excess_ms", "excess_ms.half_width", "beyond"]
    rows: list[list[object]] = []
    for one in found.judged:
        point = one.point
        start: list[object] = [point.name, point.flows_text, point.rate_bps / 1e6, 1000 * point.rtt_s]
        start += [point.duration_s, round(point.cycles, 2)]
        for setting in one.fixed:
            role = "frontier" if setting in one.steps else "fixed"
            rows.append([*start, setting.line, role, *_numbers(setting), *[None] * 7])
        for at in one.placed:
            excess = at.excess
            rows.append(
                [
                    *start,
                    at.setting.line,
                    "placed",
                    *_numbers(at.setting),
                    at.against.x,
                    at.against.line,
                    None if at.below is None else at.below.x,
                    at.fq.x,
                    None if excess is None else excess.value,
                    None if excess is None else excess.half_width,
                    "yes" if at.is_beyond else "no",
                ]
            )
    return heads, rows


def _numbers(one: Setting) -> list[object]:
    found: list[object] = []
    for values in (one.utilisation, one.delay_ms):
        mean = one.mean(values)
        found += (None, None) if mean is None else (mean.value, mean.half_width)
    for values in (one.p95_ms, one.loss):
        mean = one.mean(values)
        found.append(None if mean is None else mean.value)
    return found


def as_dict(found: Found) -> dict[str, Any]:
    """Returns everything for JSON."""
    return {
        "origin": found.judged[0].origin if found.judged else None,
        "points": [_point(one) for one in found.judged],
        "summary": [
            {
                "qdisc": one.line,
                "points": one.points,
                "times_frontier": one.ratio,
                "times_below": one.most_ratio,
                "times_fq_frontier": one.fq_ratio,
                "beyond": one.beyond,
                "over_3ms": list(one.far),
                "surely_over_3ms": list(one.surely_far),
                "least_utilisation_gain": one.least_gain,
                "least_utilisation_gain_at": one.least_gain_at or None,
            }
            for one in summaries(found)
        ],
        "skipped": [{"point": point, "qdisc": line, "reason": reason} for point, line, reason in found.skipped],
        "headline": headline(found),
    }


def _point(one: Judged) -> dict[str, Any]:
    point = one.point
    return {
        "name": point.name,
        "flows": point.flows_text,
        "rate_mbit": point.rate_bps / 1e6,
        "rtt_ms": 1000 * point.rtt_s,
        "duration_s": point.duration_s,
        "cycles": point.cycles,
        "fixed": [{**_measures(setting), "on_frontier": setting in one.steps} for setting in one.fixed],
        "placed": [
            {
                **_measures(at.setting),
                "frontier": {"qdisc": at.against.line, "ms": at.against.x},
                "below_ms": None if at.below is None else at.below.x,
                "fq_frontier": {"qdisc": at.fq.line, "ms": at.fq.x},
                "excess_ms": means.as_dict(at.excess),
                "times_frontier": at.ratio,
                "beyond": at.is_beyond,
            }
            for at in one.placed
        ],
    }


def _measures(one: Setting) -> dict[str, Any]:
    return {
        "qdisc": one.line,
        "utilisation": means.as_dict(one.mean(one.utilisation)),
        "sojourn_ms": {
            "mean": means.as_dict(one.mean(one.delay_ms)),
            "p95": means.as_dict(one.mean(one.p95_ms)),
        },
        "loss": means.as_dict(one.mean(one.loss)),
    }
