"""Pictures: text that fits with any labels, identical bytes in each format, the numbers as CSV, and sweeps."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from conftest import SMALL, compare
from sojourn import _core, felt, pictures, plot, queues, swept, words
from sojourn.agree import Comparison, page
from sojourn.agree.judge import Pair
from sojourn.cases import Case, case_list
from sojourn.records import RunRecord
from sojourn.rows import rows_of
from sojourn.sheet import Scale, Shape, Sheet, plain_numbers
from test_agree import run

Box = tuple[str, float, float, float, float]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """A run with its series."""
    place = tmp_path_factory.mktemp("played")
    (place / "small.toml").write_text(SMALL)
    return compare(place / "small.toml", folder=place / "out").runs[0]


def with_set(record: RunRecord, chosen: dict[str, Any], seed: int = 1, title: str = "A small link") -> RunRecord:
    """The run as if these keys had been swept."""
    line = str(chosen.get("hop.bottleneck.qdisc", "codel"))
    hops = [hop | {"qdisc": line} if hop["name"] == "bottleneck" else hop for hop in record.about["hops"]]
    result = record.result | {"set": chosen, "seed": seed}
    return replace(record, title=title, result=result, about=record.about | {"hops": hops})


def groups_of(runs: Sequence[RunRecord]) -> tuple[list[Case], str]:
    """The combinations, and the queue that is compared."""
    return case_list(runs), queues.compared_in([one.result for one in runs])


# ---- text fits ----


def as_figure(drawing: Figure | plot.Drawing | None) -> Figure:
    """Returns a drawing as matplotlib draws it."""
    assert drawing is not None
    return drawing.as_figure() if isinstance(drawing, Sheet) else drawing


def sheets(picture: plot.Picture) -> tuple[Sheet, Sheet]:
    """Returns the figure of a picture, and the one for narrow screens."""
    assert isinstance(picture.figure, Sheet)
    assert isinstance(picture.narrow, Sheet)
    return picture.figure, picture.narrow


def written_in(drawing: Figure | plot.Drawing) -> list[Box]:
    """Returns every piece of text that is drawn, with its box in pixels from the lower left corner."""
    figure = as_figure(drawing)
    found: list[Box] = []
    draw = RendererAgg.draw_text

    def note(self: RendererAgg, gc: Any, x: float, y: float, text: str, prop: Any, angle: float, **rest: Any) -> None:
        wide, tall, below = self.get_text_width_height_descent(text, prop, False)
        bottom = self.height - y - below
        left, low, right, top = (
            (x, bottom, x + wide, bottom + tall)
            if angle == 0
            else (x - tall, self.height - y, x, self.height - y + wide)
        )
        found.append((text, left, low, right, top))
        draw(self, gc, x, y, text, prop, angle, **rest)

    with mock.patch.object(RendererAgg, "draw_text", note):
        FigureCanvasAgg(figure).draw()
    return [one for one in found if one[0].strip()]


def faults(drawing: Figure | plot.Drawing, slack: float = 1.5) -> Iterator[str]:
    """Finds text that leaves the figure, or overlaps other text by more than `slack` pixels."""
    figure = as_figure(drawing)
    boxes = written_in(figure)
    assert len(boxes) > 3
    wide, tall = figure.bbox.width, figure.bbox.height
    for at, (text, left, low, right, top) in enumerate(boxes):
        if left < -slack or low < -slack or right > wide + slack or top > tall + slack:
            yield f"{text!r} leaves the figure: {left:.0f} {low:.0f} {right:.0f} {top:.0f} of {wide:.0f} {tall:.0f}"
        for other, left2, low2, right2, top2 in boxes[at + 1 :]:
            if min(right, right2) - max(left, left2) > slack and min(top, top2) - max(low, low2) > slack:
                yield f"{text!r} overlaps {other!r}"


def test_text_that_is_cut_or_overlaps_is_found() -> None:
    figure = Figure(figsize=(4, 2))
    for place, text in ((0.1, "one"), (0.11, "two"), (0.5, "three"), (0.95, "cut at the edge")):
        figure.text(place, 0.5, text)
    assert [fault.split()[0] for fault in faults(figure)] == ["'one'", "'cut"]


def random_line(draw: random.Random) -> str:
    """Returns a tc line of any length, with words of any length."""
    some = [
        "limit",
        "target",
        "5ms",
        "besteffort",
        "triple-isolate",
        "x" * draw.randint(1, 60),
        "100p",
        "ack-filter-aggressive",
    ]
    return " ".join([draw.choice(list(plot.COLOURS)), *draw.choices(some, k=draw.randint(0, 14))])


@pytest.mark.parametrize("seed", range(6))
def test_no_text_is_cut_or_overlaps_other_text_whatever_the_labels_are(played: RunRecord, seed: int) -> None:
    draw = random.Random(seed)
    lines = list(dict.fromkeys(random_line(draw) for _ in range(draw.choice([1, 2, 5, 9]))))
    title = " ".join("word" * draw.randint(1, 12) for _ in range(draw.randint(1, 40)))
    more = draw.choice(
        [{}, {"flow.bulk0.cc": "x" * draw.randint(1, 90)}, {"hop.bottleneck.impair": "loss 1% " * draw.randint(0, 9)}]
    )
    runs = [
        with_set(played, {"hop.bottleneck.qdisc": line} | ({key: value} if on else {}), title=title)
        for line in lines
        for on in ([False, True] if more else [False])
        for key, value in (more or {"": ""}).items()
    ]
    steps = draw.choice([1, 2, 6, 13, 40])
    rates = {
        hop: {
            "time_s": [3.0 * at / steps for at in range(steps)],
            "mbit": [draw.uniform(0.1, 900) for _ in range(steps)],
        }
        for hop in played.rates
    }
    runs = [replace(one, rates=rates) for one in runs]
    groups, hop = groups_of(runs)
    made = pictures.pictures(groups, hop)
    assert {one.name for one in made} == {
        "summary",
        "sojourn-bottleneck",
        "distribution",
        "throughput-bottleneck",
        "fairness",
    }
    for picture in made:
        assert picture.narrow is not None, picture.name
        for figure in (picture.figure, picture.narrow):
            assert not list(faults(figure)), picture.name


def test_a_picture_names_the_scenario_in_full_and_an_outage_as_such(played: RunRecord) -> None:
    title = " ".join(f"word{number}" for number in range(120))
    rates = {hop: {"time_s": [0.0, 1.0, 2.0], "mbit": [20.0, 1e-6, 10.0]} for hop in played.rates}
    groups, hop = groups_of([replace(with_set(played, {}, title=title), rates=rates)])
    for picture in pictures.pictures(groups, hop):
        said = [text for text, *_ in written_in(picture.figure)]
        assert title in " ".join(said).replace("\N{NO-BREAK SPACE}", " "), picture.name
        assert not any("1 bit/s" in text for text in said), picture.name
        assert ("outage" in said) == (picture.name in ("sojourn-bottleneck", "throughput-bottleneck")), picture.name
        assert not list(faults(picture.figure)), picture.name


@pytest.mark.parametrize("seed", range(4))
def test_no_text_of_a_sweep_over_a_number_is_cut_or_overlaps(played: RunRecord, seed: int) -> None:
    draw = random.Random(seed)
    lines = list(dict.fromkeys(random_line(draw) for _ in range(draw.choice([1, 3, 8, 14]))))
    low, high = draw.choice([(1, 300), (10, 20), (0.001, 1000)])
    values = [f"{low + (high - low) * (at / 8) ** 3:.6f}mbit" for at in range(draw.choice([3, 9]))]
    delays = draw.choice([["5ms"], ["5ms", "10ms"], [f"{n}ms" for n in range(7)]])
    runs = [
        with_set(played, {"hop.bottleneck.rate": rate, "hop.bottleneck.qdisc": line, "flow.pings0.rtt": delay})
        for rate in values
        for line in lines
        for delay in delays
    ]
    groups, hop = groups_of(runs)
    picture = swept.picture(groups, hop)
    assert picture is not None
    assert picture.narrow is not None
    for figure in (picture.figure, picture.narrow):
        assert not list(faults(figure))


@pytest.mark.parametrize("seed", range(3))
def test_no_text_of_the_page_of_agreement_is_cut_or_overlaps(seed: int) -> None:
    draw = random.Random(seed)
    title = " ".join("word" * draw.randint(1, 9) for _ in range(draw.randint(1, 25)))
    series = {
        "b": {"time_s": [0.0, 1.0], "queue_delay_ms": [0.0, 9.0]},
        "cwnd": {"time_s": [0.0, 1.0], "cwnd": [1.0, 9.0]},
    }
    pairs = []
    for number in range(draw.choice([1, 4, 30])):
        line = random_line(draw)
        worlds = [
            {one: replace(run(world, one, goodput=draw.uniform(5, 15)), series=series) for one in (1, 2, 3)}
            for world in ("sim", "kernel")
        ]
        pairs.append(Pair(f"file-{number}", draw.choice(["", line]), "b", line, title, *worlds))
    about = page.provenance(Comparison(pairs, [], {"sojourn": "0"}))
    made = [page.overview(pairs, about), page.overlay(pairs[0], about, "pair-000")]
    for picture in made:
        assert not list(faults(picture.figure)), picture.name
        assert picture.data.rows


# ---- sweeps over a number ----


def test_a_sweep_over_a_number_is_drawn_against_it_with_a_line_a_discipline(played: RunRecord) -> None:
    runs = [
        with_set(played, {"hop.bottleneck.rate": rate, "hop.bottleneck.qdisc": line}, seed)
        for rate in ("3162278bit", "1mbit", "10mbit")
        for line in ("pfifo limit 100", "codel")
        for seed in (1, 2)
    ]
    picture = swept.picture(*groups_of(runs))
    assert picture is not None
    rows = list(csv.DictReader(io.StringIO(picture.data.csv())))
    assert len(rows) == 6
    assert {float(row["bottleneck rate, Mbit/s"]) for row in rows} == {1, 3.162278, 10}
    assert {row["discipline"] for row in rows} == {"pfifo limit 100", "codel"}
    p95 = played.result["hops"]["bottleneck"]["sojourn_ms"]["p95"]
    assert all(float(row["sojourn_ms_p95"]) == pytest.approx(p95) for row in rows)
    assert all(float(row["sojourn_ms_p95_half_width"]) == pytest.approx(0) for row in rows)


def with_wait(record: RunRecord, p95_ms: float) -> RunRecord:
    """The run with this 95th percentile of the sojourn time."""
    hops = {
        name: hop | {"sojourn_ms": hop["sojourn_ms"] and hop["sojourn_ms"] | {"p95": p95_ms}}
        for name, hop in record.result["hops"].items()
    }
    return replace(record, result=record.result | {"hops": hops})


@pytest.mark.parametrize("waits", [(20, 300, 40), (20, 21, 20), (3, 900, 2000)])
def test_the_panels_of_a_sweep_have_room_for_the_upper_end_of_every_interval(
    played: RunRecord, waits: tuple[int, ...]
) -> None:
    runs = [
        with_wait(with_set(played, {"hop.bottleneck.rate": f"{rate}mbit", "hop.bottleneck.qdisc": line}, seed), wait)
        for rate in (1, 3, 9)
        for line in ("codel", "codel target 6ms", "fq_codel")
        for seed, wait in enumerate(waits, 1)
    ]
    picture = swept.picture(*groups_of(runs))
    assert picture is not None
    for sheet in sheets(picture):
        for panel in sheet.panels:
            shapes = [mark for mark in panel.marks() if isinstance(mark, Shape)]
            bars = [one for one in shapes if one.width == swept.BAR and len(one.points) == 2]
            assert bars
            assert max(one.points[:, 1].max() for one in bars) <= panel.box[3]


def test_the_names_of_a_sweeps_lines_have_dots_in_the_lines_own_colours(played: RunRecord) -> None:
    lines = ("codel", "codel target 6ms", "fq_codel")
    sets = [
        {"hop.bottleneck.rate": rate, "hop.bottleneck.qdisc": line}
        for rate in ("1mbit", "3mbit", "9mbit")
        for line in lines
    ]
    picture = swept.picture(*groups_of([with_set(played, one) for one in sets]))
    assert picture is not None
    for sheet in sheets(picture):
        shapes = [mark for panel in sheet.panels for mark in panel.marks() if isinstance(mark, Shape)]
        drawn = {one.edge for one in shapes if one.width == swept.LINE}
        assert {text.colour for text in sheet.texts if text.text == "●"} == drawn
        assert len(drawn) == len(lines)


def test_a_parameter_in_the_disciplines_lines_is_a_swept_number_too(played: RunRecord) -> None:
    lines = [f"{kind} target {ms}ms limit 100" for kind in ("codel", "fq_codel") for ms in (1, 5, 20)]
    groups, hop = groups_of([with_set(played, {"hop.bottleneck.qdisc": line}) for line in lines])
    axis = swept.axis_of(groups, hop)
    assert axis is not None
    assert axis.name == "target"
    assert [one.value for one in axis.values if one] == [1, 5, 20, 1, 5, 20]
    assert set(axis.lines) == {"codel limit 100", "fq_codel limit 100"}


def test_keys_that_move_together_make_one_curve_and_independent_ones_a_row_of_panels_each(played: RunRecord) -> None:
    rates = ("1mbit", "3mbit", "10mbit")
    zipped = [
        {
            "hop.bottleneck.rate": rate,
            "hop.bottleneck.reverse.rate": rate,
            "hop.bottleneck.qdisc": line,
            "x.qdisc": line,
        }
        for rate in rates
        for line in ("codel", "pie")
    ]
    crossed = [{"hop.bottleneck.rate": rate, "flow.bulk0.cc": cc} for rate in rates for cc in ("cubic", "reno")]
    for sets, rows in ((zipped, 1), (crossed, 2)):
        axis = swept.axis_of(*groups_of([with_set(played, one) for one in sets]))
        assert axis is not None
        assert axis.name == "bottleneck.rate"
        assert len({str(one) for one in axis.rests}) == rows
        places = {
            (one.value if one else None, line, str(rest))
            for one, line, rest in zip(axis.values, axis.lines, axis.rests, strict=True)
        }
        assert len(places) == len(sets), "no two combinations share a point"


@pytest.mark.parametrize(
    "sets",
    [
        [{"hop.bottleneck.qdisc": line} for line in ("pfifo limit 100", "codel", "fq_codel")],
        [{"hop.bottleneck.rate": rate} for rate in ("1mbit", "2mbit")],
        [{"flow.bulk0.cc": cc} for cc in ("cubic", "reno", "bbr")],
    ],
)
def test_without_enough_values_of_a_number_there_is_no_curve(played: RunRecord, sets: list[dict[str, Any]]) -> None:
    assert swept.picture(*groups_of([with_set(played, one) for one in sets])) is None


# ---- what people notice ----


def test_the_first_picture_has_the_pings_above_their_base_beside_the_queue(played: RunRecord) -> None:
    groups, hop = groups_of([played])
    made = pictures.pictures(groups, hop)
    assert made[0].name == felt.NAME
    [row] = csv.DictReader(io.StringIO(made[0].data.csv()))
    [ping] = [flow for flow in played.result["flows"] if flow["kind"] == "pings"]
    base = next(flow["base_rtt_ms"] for flow in played.about["flows"] if flow["name"] == ping["name"])
    assert float(row["ping_above_base_ms_p95"]) == pytest.approx(ping["rtt_ms"]["p95"] - base)
    assert float(row["sojourn_ms_p50"]) == pytest.approx(played.result["hops"][hop]["sojourn_ms"]["p50"])
    assert "added ping time" in {box[0] for box in written_in(made[0].figure)}


def with_pages(record: RunRecord, p95_s: float) -> RunRecord:
    """The run with a web client that waits this long for one page in 20."""
    flow = record.result["flows"][0] | {"name": "web0", "kind": "web", "page_load_s": {"p50": p95_s / 3, "p95": p95_s}}
    base = record.about["flows"][0] | {"name": "web0", "kind": "web"}
    about = record.about | {"flows": [*record.about["flows"], base]}
    return replace(record, result=record.result | {"flows": [*record.result["flows"], flow]}, about=about)


@pytest.mark.parametrize("times", [0.3, 1.7, 3.9])
@pytest.mark.parametrize("narrow", [False, True])
def test_times_printed_in_the_same_unit_are_as_long_as_their_numbers_say(
    played: RunRecord, times: float, narrow: bool
) -> None:
    played = replace(
        played, result=played.result | {"flows": [one for one in played.result["flows"] if one["kind"] == "bulk"]}
    )
    wait = played.result["hops"]["bottleneck"]["sojourn_ms"]["p95"]
    groups, hop = groups_of([with_pages(played, wait * times / 1000)])
    picture = felt.picture(rows_of(groups, hop), hop)
    assert "All times share a scale." in picture.caption
    shapes = ([mark for mark in panel.marks() if isinstance(mark, Shape)] for panel in sheets(picture)[narrow].panels)
    wait_bar, page_bar, _ = (max(np.ptp(one.points[:, 0]) for one in panel if one.face) for panel in shapes)
    assert page_bar / wait_bar == pytest.approx(times, rel=0.01)


@pytest.mark.parametrize("times", [0.01, 40])
def test_a_scale_of_its_own_is_said(played: RunRecord, times: float) -> None:
    wait = played.result["hops"]["bottleneck"]["sojourn_ms"]["p95"]
    groups, hop = groups_of([with_pages(played, wait * times / 1000)])
    picture = felt.picture(rows_of(groups, hop), hop)
    assert "page load time has another" in picture.caption
    assert "page load time (own scale)" in {box[0] for box in written_in(picture.narrow or picture.figure)}


def test_each_queues_picture_names_that_queues_discipline(played: RunRecord) -> None:
    both = {"hop.bottleneck.qdisc": "cake nat", "hop.bottleneck.reverse.qdisc": "cake ingress"}
    other = {"hop.bottleneck.qdisc": "codel", "hop.bottleneck.reverse.qdisc": "codel"}
    groups, _ = groups_of([with_set(played, both), with_set(played, other)])
    assert [(row.name, row.rest) for row in rows_of(groups, "bottleneck")] == [("cake", "nat"), ("codel", "")]
    assert [row.label for row in rows_of(groups, "bottleneck.reverse")] == ["cake ingress", "codel"]


# ---- formats ----


@pytest.mark.parametrize("form", plot.FORMATS)
def test_a_picture_has_the_same_bytes_in_each_format_when_it_is_drawn_again(
    played: RunRecord, form: plot.Format
) -> None:
    groups, hop = groups_of([played])
    first, again = (pictures.pictures(groups, hop) for _ in range(2))
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[form]
    for one, other in zip(first, again, strict=True):
        data = one.encode(form)
        assert data.startswith(start)
        assert data == other.encode(form)


def difference(one: NDArray[np.uint8], other: NDArray[np.uint8], block: int = 12) -> float:
    """Returns the largest difference of two pictures in the mean of a block of pixels; the maximum is 255."""
    tall, wide, _ = one.shape
    apart = one[: tall // block * block, : wide // block * block].astype(float)
    apart -= other[: tall // block * block, : wide // block * block]
    means = apart.reshape(tall // block, block, wide // block, block, 3).mean(axis=(1, 3))
    return float(np.abs(means).max())


def pixels(sheet: Sheet) -> NDArray[np.uint8]:
    """Returns a sheet as `_core` draws it."""
    return np.asarray(Image.open(io.BytesIO(sheet.encode("png"))))


def test_a_picture_in_pixels_is_the_one_that_matplotlib_draws_from_the_same_marks(played: RunRecord) -> None:
    several = [
        with_set(played, {"hop.bottleneck.rate": rate}, seed) for rate in ("1mbit", "2mbit", "8mbit") for seed in (1, 2)
    ]
    for runs in ([played], several):
        for picture in pictures.pictures(*groups_of(runs)):
            for sheet in sheets(picture):
                with mpl.rc_context(plot.STYLE):
                    figure = sheet.as_figure()
                    figure.set_dpi(plot.DPI)
                    canvas = FigureCanvasAgg(figure)
                    canvas.draw()
                theirs = np.asarray(canvas.buffer_rgba())[:, :, :3]
                assert difference(pixels(sheet), theirs) < 60, picture.name
                del sheet.texts[0]
                assert difference(pixels(sheet), theirs) > 60, "a missing line of text is seen"


@pytest.mark.parametrize("seed", range(3))
def test_even_ticks_are_those_of_matplotlib(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        low = draw.choice([0.0, draw.uniform(0, 50)])
        high, most = low + 10 ** draw.uniform(-3, 5), draw.randint(4, 9)
        theirs = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        inside = [value for value in theirs if low - 1e-9 * high <= value <= high * (1 + 1e-9)]
        ours = Scale(low, high).even(most)
        assert ours == pytest.approx(inside), (low, high, most)
        written = [plain_numbers(ours)(value) for value in ours]
        assert [float(text) for text in written] == pytest.approx(ours)
        assert len(set(written)) == len(written)


def test_the_numbers_beside_a_picture_are_those_of_the_run(played: RunRecord) -> None:
    groups, hop = groups_of([played])
    made = {one.name: one for one in pictures.pictures(groups, hop)}
    rows = list(csv.DictReader(io.StringIO(made["sojourn-bottleneck"].data.csv())))
    series = played.series[hop]
    assert [float(row["time_s"]) for row in rows] == pytest.approx(series["time_s"].tolist())
    assert [float(row["sojourn_max_ms"] or "nan") for row in rows] == pytest.approx(
        series["sojourn_max_ms"].tolist(), nan_ok=True
    )
    flows = list(csv.DictReader(io.StringIO(made["fairness"].data.csv())))
    goodput = {flow["name"]: flow["goodput_mbit"] for flow in played.result["flows"]}
    bulk = [row for row in flows if row["goodput_mbit"]]
    assert len(bulk) == 2
    assert all(float(row["goodput_mbit"]) == pytest.approx(goodput[row["flow"]]) for row in bulk)


def test_words_in_any_shade_are_dark_enough_to_read() -> None:
    for paint in plot.COLOURS.values():
        for step in (0.25, 0.5, 1.0):
            assert plot.contrast(plot.ink(plot.shade(paint, step))) >= plot.LEAST_CONTRAST


def test_a_long_text_is_wrapped_between_words_and_a_number_stays_with_its_unit() -> None:
    text = "a link of 20 Mbit/s and a delay of 3.16 ms"
    for width in (0.9, 1.3, 2.0):
        parts = plot.wrapped(text, width, 9)
        assert " ".join(parts).replace("\N{NO-BREAK SPACE}", " ") == text
        assert all(plot.text_width(part, 9) <= width for part in parts)
        assert not any(part.startswith(("Mbit/s", "ms")) for part in parts)
    assert "".join(plot.wrapped("x" * 90, 1.0, 9)) == "x" * 90
    assert words.NOTHING == "–"


def test_every_discipline_has_its_colour() -> None:
    known = {path.stem for path in (Path(__file__).parent.parent / "docs/reference/disciplines").glob("*.md")}
    assert known
    assert known <= set(plot.COLOURS)


# ---- fonts ----


def test_a_text_is_as_wide_as_matplotlib_measures_it() -> None:
    draw = random.Random(1)
    for _ in range(300):
        text = "".join(
            draw.choices("abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ 0123456789 .,()%/·–●µ", k=draw.randint(1, 40))
        )
        size, bold = draw.choice([7.5, 8.5, 10, 14]), draw.random() < 0.5
        font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
        theirs, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
        ours = plot.fonts().width(text, bold) * size
        assert ours == pytest.approx(theirs, rel=0.03, abs=1.5), text


def test_what_is_no_font_is_refused_and_a_letter_that_a_font_lacks_is_drawn_as_a_box() -> None:
    with pytest.raises(ValueError, match="not a TrueType font"):
        _core.Fonts(b"", b"no font")
    box = shown(text_mark("\N{CJK UNIFIED IDEOGRAPH-4E00}"))
    assert 0 < ink(box) < box.size / 6


# ---- marks in pixels ----


def mark(points: Any, **how: Any) -> _core.Shape:
    """A black line through these points, with the changes in `how`."""
    plain: _core.Shape = {
        "points": np.array(points, float),
        "closed": False,
        "face": None,
        "edge": (0, 0, 0),
        "width": 1.0,
        "dashes": [],
        "projecting": False,
        "alpha": 1.0,
        "clip": None,
    }
    return cast("_core.Shape", plain | how)


def text_mark(text: str) -> _core.Words:
    """A text that starts at the lower left corner of the picture."""
    return {"text": text, "at": (2.0, 27.0), "size": 20.0, "bold": False, "upright": False, "colour": (0, 0, 0)}


def shown(*marks: _core.Shape | _core.Words, size: int = 30) -> NDArray[np.uint8]:
    """Returns the red channel of a square picture."""
    return np.asarray(Image.open(io.BytesIO(plot.fonts().png(size, size, 150.0, marks))))[:, :, 0]


def ink(red: NDArray[np.uint8]) -> float:
    """Returns the number of black pixels, counting grey ones in part."""
    return float((255 - red.astype(float)).sum() / 255)


FILLED: dict[str, Any] = {"closed": True, "face": (0, 0, 0), "edge": None}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"width": 1.5}, 6.0),
        ({"width": 1.5, "projecting": True}, 8.25),
        ({"dashes": [1.0, 1.0]}, 2.0),
        ({"width": 3.0, "alpha": 0.5}, 6.0),
    ],
)
def test_a_line_covers_its_length_times_its_width(how: dict[str, Any], expected: float) -> None:
    assert ink(shown(mark([(2, 4), (3, 4), (3, 4), (4.7, 4.1), (6, 4)], **how))) == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize("x", [3.0, 3.3, 3.5, 3.9])
def test_an_upright_line_of_one_pixel_is_one_pixel_wide_wherever_it_lies(x: float) -> None:
    assert (shown(mark([(x, 0), (x, 30)], width=1.2))[1] < 128).sum() == 1


@pytest.mark.parametrize(
    ("points", "clip", "expected"),
    [
        ([(1, 1), (5, 1), (1, 5)], None, 8.0),
        ([(1, 5), (5, 1), (1, 1)], None, 8.0),
        ([(-20, -20), (60, -20), (60, 60), (-20, 60)], (2.0, 3.0, 5.0, 7.0), 12.0),
        ([(-20, -20), (60, -20), (60, 60), (-20, 60)], (-5.0, -5.0, 1e6, 1e6), 900.0),
        ([(-4, 0), (4, 8), (-4, 8)], None, 8.0),
        ([(40, 40), (44, 40), (44, 44), (40, 44)], None, 0.0),
    ],
)
def test_an_area_covers_what_of_it_is_in_the_picture_and_in_its_clip(
    points: Any, clip: tuple[float, float, float, float] | None, expected: float
) -> None:
    # An edge is at a quarter of a pixel.
    assert ink(shown(mark(points, clip=clip, **FILLED))) == pytest.approx(expected, abs=0.6)


def test_shapes_in_turn_with_different_clips_and_none_are_clipped_each_by_its_own() -> None:
    square = [(0, 0), (9, 0), (9, 9), (0, 9)]
    at = [(np.array(square) + shift, clip) for shift, clip in ((0, (0, 0, 9, 3)), (10, None), (20, (20, 20, 29, 22)))]
    assert ink(shown(*(mark(points, clip=clip, **FILLED) for points, clip in at))) == 9 * 3 + 81 + 9 * 2


def test_half_opaque_black_on_white_is_grey() -> None:
    red = shown(mark([(0, 0), (30, 0), (30, 30), (0, 30)], **FILLED | {"alpha": 0.5}))
    assert red.min() == red.max() == pytest.approx(127.5, abs=1)


def test_marks_beyond_a_picture_and_lines_without_points_are_no_error() -> None:
    far = np.array([[-1e9, 5.0], [1e9, 6.0], [np.nan, 3.0], [2.0, np.inf]])
    black = (0, 0, 0)
    for points in (far, far[:2], far[:1], far[:0]):
        for face, edge in ((black, None), (None, black), (black, black)):
            shape = mark(points, closed=face is not None, face=face, edge=edge, clip=(-5.0, -5.0, 1e6, 1e6))
            assert shown(shape, text_mark("")).shape == (30, 30)
    with pytest.raises(ValueError, match="0×5"):
        plot.fonts().png(0, 5, 150.0, [])
