"""A comparison of the worlds as tables and as JSON."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.agree.judge import MEASURES, Difference, Pair, Ranking, Summary, rankings, summaries

if TYPE_CHECKING:
    from sojourn.agree import Comparison

LEGEND = (
    "Each cell: the simulator's number less the kernel's, in percent of the kernel's (utilisation: in points), the "
    "mean over the seeds. = is shown to be within the measure's margin, ! beyond it. Distance: how far the sojourns' "
    "distributions are apart, in kernel means; in brackets the kernel's own with another seed. Chance alone: what two "
    "means of the kernel's, each over as many other seeds, differ by."
)
SIGNS = {"agrees": "=", "differs": "!", "open": ""}


def apart(one: Difference) -> str:
    """Writes a difference in percent, or in percentage points, with the sign of its verdict."""
    value = one.value * 100 if one.measure.relative else one.value
    digits = 0 if abs(value) >= 10 else 1
    return f"{value:+.{digits}f}{SIGNS[one.verdict]}"


def margin(one: Summary) -> str:
    """A measure's margin in words."""
    return f"{one.measure.margin * 100:g} %" if one.measure.relative else f"{one.measure.margin:g} points"


def share(summary: Summary, value: float | None) -> str:
    """A size in percent or points."""
    if value is None:
        return "–"
    if summary.measure.relative:
        return f"{value * 100:.{2 if value < 0.01 else 1}f} %"
    return f"{value:.{3 if value < 0.1 else 2}f} points"


def table(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Returns a table with a row for each combination."""
    measures = [one for one in MEASURES if any(pair.difference(one) for pair in pairs)]
    rows = []
    for pair in pairs:
        cells = [apart(found) if (found := pair.difference(one)) else "–" for one in measures]
        rows.append([pair.name, *cells, distance(pair)])
    return ["", *(one.head for one in measures), "distance"], rows


def distance(pair: Pair) -> str:
    """Writes two distances as `0.12 (0.08)`: the simulator's from the kernel, and in brackets that of the kernel's runs
    from each other.
    """
    far, own = pair.distance(), pair.own_distance()
    if far is None:
        return "–"
    return f"{far:.2f}" + ("" if own is None else f" ({own:.2f})")


def summary_table(found: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Returns a table with a row for each measure."""
    rows = [
        [
            one.measure.head, share(one, one.median), share(one, one.chance), share(one, one.p90), margin(one),
            f"{one.agrees} of {one.count}", f"{one.differs}",
        ]
        for one in found
    ]  # fmt: skip
    return ["", "median difference", "chance alone", "90 % are below", "margin", "shown equal", "shown different"], rows


def rank_table(found: Sequence[Ranking]) -> tuple[list[str], list[list[str]]]:
    """Returns a table with a row for each scenario and measure, and a row with the mean."""
    rows = [
        [
            f"{one.file}, {one.measure}", str(one.disciplines), _tau(one.tau), _tau(one.itself), str(one.clear),
            _tau(one.clear_tau),
        ]
        for one in found
    ]  # fmt: skip
    for measure in dict.fromkeys(one.measure for one in found):
        rows.append(_rank_means(f"mean, {measure}", [one for one in found if one.measure == measure]))
    rows.append(_rank_means("mean", found))
    heads = ["", "disciplines", "Kendall's tau", "kernel with itself", "pairs told apart", "tau of those"]
    return heads, rows


def _rank_means(name: str, found: Sequence[Ranking]) -> list[str]:
    return [
        name, "", _mean(one.tau for one in found), _mean(one.itself for one in found),
        str(sum(one.clear for one in found)), _mean(one.clear_tau for one in found),
    ]  # fmt: skip


def _mean(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _tau(statistics.fmean(known) if known else None)


def _tau(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def csv_text(pairs: Sequence[Pair]) -> str:
    """Returns a row for each combination and measure, as CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    heads, rows = _csv_rows(pairs)
    lines.writerows([heads, *rows])
    return text.getvalue()


def _csv_rows(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    heads = ["scenario", "varied", "hop", "measure", "seeds", "sim", "kernel", "difference", "half_width", "verdict"]
    rows = [
        [
            pair.file, pair.label, pair.hop, one.measure.name, str(len(pair.seeds)), f"{one.sim:.6g}",
            f"{one.kernel:.6g}", f"{one.value:.4g}", "" if one.half_width is None else f"{one.half_width:.3g}",
            one.verdict,
        ]
        for pair in pairs
        for one in pair.differences()
    ]  # fmt: skip
    return heads, rows


def as_dict(done: Comparison) -> dict[str, Any]:
    """Returns the comparison as it is written to JSON."""
    return {
        "versions": done.versions,
        "pairs": [_pair(pair) for pair in done.pairs],
        "summary": [
            {
                "measure": one.measure.name, "count": one.count, "median": one.median, "chance": one.chance,
                "p90": one.p90, "margin": one.measure.margin, "agrees": one.agrees, "differs": one.differs,
            }
            for one in summaries(done.pairs)
        ],
        "rankings": [vars(one) for one in rankings(done.pairs)],
        "skipped": done.skipped,
        "older": done.older,
        "interrupted": done.interrupted,
    }  # fmt: skip


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "file": pair.file,
        "label": pair.label,
        "title": pair.title,
        "hop": pair.hop,
        "qdisc": pair.qdisc,
        "seeds": pair.seeds,
        "differences": {
            one.measure.name: {
                "sim": one.sim, "kernel": one.kernel, "difference": one.value, "half_width": one.half_width,
                "verdict": one.verdict, "chance": one.chance,
            }
            for one in pair.differences()
        },
        "distance": pair.distance(),
        "own_distance": pair.own_distance(),
    }  # fmt: skip
