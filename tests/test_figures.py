"""`sojourn figures`: pictures of a paper from the runs in a store."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from conftest import ROOT, Run, paper
from sojourn import _core, charts, claims, drawn, figures
from sojourn.errors import Refusal
from sojourn.store import Store
from sojourn.worlds import Simulator

RULES = """
[runs.small]
file = "small.toml"
seeds = 3
[runs.over-time]
file = "small.toml"
series = true
where = { "hop.bottleneck.qdisc" = ["codel"] }
[Y1]
says = "CoDel is shorter"
runs = ["small"]
quantities.shorter = { label = "shorter by, ms", mean = [0, inf] }
"""
QUANTITIES = """
def y1(runs):
    tail, codel = (runs["small"].of(word).values("sojourn_ms.p95") for word in ("pfifo", "codel"))
    return {"shorter": tail - codel}
"""
DRAWINGS = '''
from sojourn import charts
from sojourn.figures import Drawing


def delays(runs, figure):
    """Boxes."""
    axis = figure.subplots()
    words = ("pfifo", "codel")
    values = {word: [runs["small"].of(word).values("sojourn_ms.p95")] for word in words}
    charts.boxes(axis, ["10 Mbit/s"], values, [charts.colour(word) for word in words])
    axis.set_ylabel("95th percentile of the sojourn, ms")


def queue(runs, figure):
    """A curve, and a distribution."""
    left, right = figure.subplots(1, 2)
    [record] = runs["over-time"].recorded()
    [flows] = runs["over-time"].flow_series()
    series = record.series["bottleneck"]
    left.plot(series["time_s"], series["queue_packets_max"], color=charts.colour("codel"))
    charts.cdf(right, charts.sojourn_shares([record], "bottleneck"), charts.colour("codel"))
    assert flows["bulk0.0"]["acked_bytes"].sum() > 0
    assert flows["bulk0.0"]["cwnd"][-1] > 2


FIGURES = (
    Drawing("delays", "Delays", "figure 1", ("Y1",), ("small",), delays),
    Drawing("queue", "The queue", "figure 2", (), ("over-time",), queue),
)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a paper."""
    return paper(tmp_path, {"claims.toml": RULES, "quantities.py": QUANTITIES, "figures.py": DRAWINGS})


def test_figures_are_drawn_twice_as_the_same_bytes_and_then_from_the_store_alone(folder: Path, sojourn: Run) -> None:
    where, words = folder.parent.parent, ("figures", "--store", folder / "store")
    drawn = json.loads(sojourn(*words, "-f", "json", cwd=where).stdout)["figures"]
    assert [(one["paper"], one["figure"], one["claims"], one["file"]) for one in drawn] == [
        ("009-small", "delays", ["Y1"], "experiments/009-small/figures/delays.png"),
        ("009-small", "queue", [], "experiments/009-small/figures/queue.png"),
    ]
    first = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    assert set(first) == {f"{name}.{form}" for name in ("delays", "queue") for form in ("png", "csv")}
    assert all(first[name].startswith(b"\x89PNG") for name in ("delays.png", "queue.png"))
    again = sojourn(*words, "--check", "009", "--out", where / "out", cwd=where)
    assert "0 runs played now" in again.stderr
    assert {path.name: path.read_bytes() for path in (where / "out/009-small").iterdir()} == first
    assert again.stdout.splitlines() == [str(where / f"out/009-small/{name}.png") for name in ("delays", "queue")]
    (folder / "claims.toml").write_text(RULES.replace("seeds = 3", "seeds = 2"))
    sojourn(*words, "delays", cwd=where)
    assert (folder / "figures/delays.png").read_bytes() != first["delays.png"]


@pytest.mark.parametrize(("form", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_are_written_in_the_format_asked_for_with_the_same_bytes_each_time(
    folder: Path, sojourn: Run, form: str, start: bytes
) -> None:
    where, words = folder.parent.parent, ("figures", "--store", folder / "store", "--format", form)
    sojourn(*words, "--out", where / "one", cwd=where)
    said = sojourn(*words, "--out", where / "two", "-f", "json", cwd=where)
    assert [Path(one["file"]).suffix for one in json.loads(said.stdout)["figures"]] == [f".{form}"] * 2
    one, two = (
        {path.name: path.read_bytes() for path in (where / name / "009-small").iterdir()} for name in ("one", "two")
    )
    assert one == two
    assert one[f"delays.{form}"].startswith(start)


def test_a_figures_csv_has_the_numbers_that_are_drawn(folder: Path, sojourn: Run) -> None:
    where = folder.parent.parent
    sojourn("figures", "--store", folder / "store", cwd=where)
    [book] = figures.select(("009",), folder.parent)
    found = claims.gather(book.experiment, book.needs, Store(folder / "store"), Simulator(), play=False)
    boxes = list(csv.DictReader((folder / "figures/delays.csv").read_text().splitlines()))
    assert {row["y_axis"] for row in boxes} == {"95th percentile of the sojourn, ms"}
    for word in ("pfifo", "codel"):
        values = found.runs["small"].of(word).values("sojourn_ms.p95")
        [median] = {float(row["y"]) for row in boxes if row["series"] == f"{word}, 10 Mbit/s: medians"}
        assert median == pytest.approx(np.median(values))
    lines = list(csv.DictReader((folder / "figures/queue.csv").read_text().splitlines()))
    [record] = found.runs["over-time"].recorded()
    drawn = [float(row["y"]) for row in lines if row["panel"] == "1"]
    assert drawn == pytest.approx(record.series["bottleneck"]["queue_packets_max"].tolist())
    assert {row["series"] for row in lines} == {"1 (codel)"}


def test_the_csv_of_bars_intervals_images_and_tables_has_what_they_show() -> None:
    figure = Figure()
    axes = figure.subplots(2, 2).ravel()
    seeds = np.array([[1.0, 3.0], [2.0, 2.0]])
    charts.bars(axes[0], ["slow", "fast"], {"codel": seeds}, ["#1f6fb4"])
    charts.points(axes[1], [10.0, 20.0], seeds, "#13866f", "fq_codel")
    axes[2].imshow([[1.0, 2.0], [3.0, 4.0]])
    charts.table(axes[3], ["", "RTT,\nms"], [["codel", "5.0 ± 0.1"], ["pie", "20"]])
    rows = [row[0:1] + row[4:] for row in drawn.data_of(figure).rows]
    assert [row[1:4] for row in rows if row[0] == 1][:2] == [["codel", "slow", 2.0], ["codel", "fast", 2.0]]
    half = charts.mean([1.0, 3.0]).half_width
    assert half is not None
    assert [row[1:] for row in rows if row[0] == 2] == [
        ["fq_codel", 10.0, 2.0, pytest.approx(2 - half), pytest.approx(2 + half)],
        ["fq_codel", 20.0, 2.0, 2.0, 2.0],
    ]
    assert sorted(row[3] for row in rows if row[0] == 3) == [1, 2, 3, 4]
    assert [row[1:4] for row in rows if row[0] == 4] == [["codel", "RTT, ms", "5.0 ± 0.1"], ["pie", "RTT, ms", "20"]]


def test_series_are_played_for_what_asks_for_them_only(folder: Path, sojourn: Run) -> None:
    where, store = folder.parent.parent, folder / "store"
    sojourn("figures", "009", "--store", store, cwd=where)
    assert len(list((store / "series").iterdir())) == 2, "one run: its queues, and its flows"
    (store / "series").joinpath(next(store.glob("series/*.flows.parquet")).name).unlink()
    said = sojourn("figures", "queue", "--check", "--store", store, code=2, cwd=where).stderr
    assert "1 of the runs of experiments/009-small/small.toml, runs.over-time, are not there" in said
    both = sojourn("figures", "--check", "--store", store, code=2, cwd=where)
    assert both.stdout.splitlines() == ["experiments/009-small/figures/delays.png"], "what can be drawn is"
    assert both.stderr.splitlines()[-1] == f"sojourn: {store}: not drawn, for want of runs: 009-small/queue"
    assert "1 run played" in sojourn("figures", "queue", "--store", store, cwd=where).stderr


def test_names_are_papers_or_figures(folder: Path) -> None:
    root = folder.parent

    def names(*words: str) -> list[str]:
        return [one.name for book in figures.select(words, root) for one in book.drawings]

    assert names() == names("009") == names("009-small") == names(str(folder)) == ["delays", "queue"]
    assert names("queue") == names("009/queue") == ["queue"]
    assert names("queue", "009") == ["delays", "queue"]
    refusals = {
        "quue": r'^no paper or figure is called "quue"; papers: 009; nearest is queue$',
        "008/queue": '^no paper or figure is called "008/queue"',
        "009/moon": '^no paper or figure is called "009/moon"',
    }
    for word, said in refusals.items():
        with pytest.raises(Refusal, match=said):
            figures.select((word,), root)
    (folder / "figures.py").rename(folder / "other.py")
    with pytest.raises(Refusal, match=r"009-small: no figures: expected .*009-small/figures\.py"):
        figures.select(("009",), root)
    with pytest.raises(Refusal, match="papers are in the folder experiments"):
        figures.select((), root)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('("small",), delays', '("smal",), delays', "delays.runs = smal: expected one of small, over-time"),
        ('("Y1",)', '("Y2",)', "delays.claims = Y2: expected one of Y1"),
        ('"queue", "The', '"delays", "The', "delays: there are two of this name"),
        ("FIGURES = (", "OTHERS = (", "expected FIGURES, a sequence of Drawing"),
    ],
)
def test_what_drawings_name_must_be_there(folder: Path, sojourn: Run, old: str, new: str, said: str) -> None:
    assert old in DRAWINGS
    (folder / "figures.py").write_text(DRAWINGS.replace(old, new))
    assert said in sojourn("figures", "009", code=2, cwd=folder.parent.parent).stderr


def test_the_footer_says_files_seeds_world_and_version(folder: Path) -> None:
    [book] = figures.select(("009",), folder.parent)
    found = claims.gather(book.experiment, book.needs, Store(folder / "store"), Simulator())
    assert figures.provenance(book.experiment, found.runs, "sim") == (
        f"experiments/009-small/small.toml (seeds 1–3)  ·  world sim  ·  sojourn {_core.__version__}"
    )
    only = {"over-time": found.runs["over-time"]}
    said = figures.provenance(book.experiment, only, "kernel")
    assert said.startswith("experiments/009-small/small.toml (seed 1)  ·  world kernel")
    rules = folder / "claims.toml"
    rules.write_text(f'{rules.read_text()}\n[runs.over-time.kernel]\nfile = "other.toml"\n')
    said = figures.provenance(claims.load(folder), only, "kernel")
    assert said.startswith("experiments/009-small/other.toml (seed 1)"), "what that world reads instead"


def test_runs_without_series_say_how_to_have_them(folder: Path) -> None:
    [book] = figures.select(("delays",), folder.parent)
    found = claims.gather(book.experiment, ["small"], Store(folder / "store"), Simulator())
    with pytest.raises(Refusal, match="expected series = true"):
        next(found.runs["small"].recorded())


def test_means_carry_intervals_where_the_seeds_do() -> None:
    assert charts.number(charts.mean([1.0, 2.0, 3.0])) == "2.0 ± 2.5"
    assert charts.number(charts.mean([1.0])) == "1.0"
    assert charts.number(charts.mean([float("nan")])) == "–"


def test_a_distribution_goes_by_its_weights() -> None:
    values, share = charts.shares(np.array([3.0, 1.0, np.nan]), np.array([1.0, 3.0, 7.0]))
    assert values.tolist() == [1, 3]
    assert share.tolist() == [0.75, 1]


def test_labels_at_the_ends_of_curves_do_not_overlap() -> None:
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    axis.set_ylim(0, 1)
    charts.end_labels(axis, ["a", "b", "c"], [0.5, 0.5, 0.9], ["red", "blue", "green"], gap=0.1)
    places = {text.get_text(): text.get_position()[1] for text in axis.texts}
    assert abs(places["a"] - places["b"]) == pytest.approx(0.1)
    assert places["c"] == pytest.approx(0.9)


def test_every_paper_names_runs_and_claims_that_are_there() -> None:
    there = [path.parent for path in sorted((ROOT / "experiments").glob(f"*/{figures.FIGURES}"))]
    for folder in there:
        assert figures.load(folder).drawings


def test_every_drawing_has_its_picture_where_the_site_looks_and_no_other_is_kept() -> None:
    for path in sorted((ROOT / "experiments").glob(f"*/{figures.FIGURES}")):
        drawn = {one.name for one in figures.load(path.parent).drawings}
        kept = {one.relative_to(path.parent) for one in path.parent.rglob("*.png")}
        assert {one.name.split(".")[0] for one in kept} == drawn, path.parent.name
        assert {one.parent.name for one in kept} == {figures.FOLDER}, path.parent.name
