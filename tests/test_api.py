"""`import sojourn as sj`: the same results as the command, typed, with the same errors."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sojourn as sj
from conftest import ROOT, SMALL, Run, kernel_or_skip
from sojourn import measured
from sojourn.measured import Part, measures_of
from sojourn.on_dask import Dask

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
TABLES: dict[str, Any] = {
    "title": "A small link",
    "duration": "3s",
    "measure": ["1s", "end"],
    "hop": [{"name": "bottleneck", "rate": "10mbit", "delay": "10ms", "qdisc": "codel"}],
    "flow": [
        {"kind": "bulk", "count": 2, "rtt": "40ms", "start": "uniform 0s..100ms"},
        {"kind": "pings", "interval": "50ms"},
    ],
    "sweep": {"hop.bottleneck.qdisc": ["pfifo limit 100", "codel"]},
}
"""The scenario SMALL as a dictionary."""


@pytest.fixture(scope="module")
def results() -> sj.Results:
    return sj.run(TABLES, seeds=3)


def test_python_gives_the_bytes_that_the_command_prints(small: Path, sojourn: Run) -> None:
    printed = sojourn("run", small, "--seeds", 2, "-f", "json").stdout
    assert sj.run(small, seeds=2).json() + "\n" == printed
    assert sj.run(sj.load(small, seeds=2), on=1).json() + "\n" == printed
    assert sj.run(TABLES, seeds=2).json() + "\n" == printed, "a dictionary of the same shape"


def test_a_results_folder_of_python_is_the_commands(small: Path, sojourn: Run, tmp_path: Path) -> None:
    sojourn("run", small, "--out", tmp_path / "command", "-f", "json", "--packets")
    sj.run(small, out=tmp_path / "python", packets=True)
    for path in sorted((tmp_path / "command").rglob("*.parquet")):
        mine = tmp_path / "python" / path.relative_to(tmp_path / "command")
        assert mine.read_bytes() == path.read_bytes(), path.name
    read = sj.open_results(tmp_path / "python")
    assert read.json() == sj.run(small).json()
    assert sojourn("report", tmp_path / "python", "-f", "json").stdout == read.json() + "\n"


def test_a_store_of_python_is_the_commands(small: Path, sojourn: Run, tmp_path: Path) -> None:
    first = sj.run(small, seeds=2, store=tmp_path / "store")
    again = json.loads(sojourn("sweep", small, "--seeds", 2, "--store", tmp_path / "store", "-f", "json").stdout)
    assert (first.played, again["played"], again["runs"]) == (4, 0, 4)
    assert sj.run(small, seeds=2, store=tmp_path / "store").json() == sj.run(small, seeds=2).json()


def test_measures_are_those_of_the_json(results: sj.Results) -> None:
    runs = json.loads(results.json())["runs"]
    assert results.labels == ["pfifo limit 100", "codel"]
    for place, label in enumerate(results.labels):
        mine = runs[3 * place : 3 * place + 3]
        hop = results.hop("bottleneck")
        assert hop.sojourn_ms.p95.values[label].tolist() == [
            one["hops"]["bottleneck"]["sojourn_ms"]["p95"] for one in mine
        ]
        assert hop.drops[label].mean == pytest.approx(np.mean([one["hops"]["bottleneck"]["drops"] for one in mine]))
        bulk = [np.mean([flow["goodput_mbit"] for flow in one["flows"] if flow["kind"] == "bulk"]) for one in mine]
        assert results.flow("bulk0").goodput_mbit.values[label].tolist() == pytest.approx(bulk)
        assert results.jain.goodput.values[label].tolist() == [one["jain"]["goodput"] for one in mine]
    delay = results.hop("bottleneck.down").sojourn_ms.p50["codel"]
    assert delay.unit == "ms"
    assert delay.half_width is not None
    low, high = delay.interval or (0.0, 0.0)
    assert low <= float(delay) <= high
    assert results.hop("bottleneck.up").sojourn_ms.p95["codel"].means == {
        "codel": results.hop("bottleneck.reverse").sojourn_ms.p95.means["codel"]
    }


def test_a_frame_has_what_the_csv_has(results: sj.Results, small: Path, sojourn: Run) -> None:
    heads, *rows = [line.split(",") for line in sojourn("run", small, "--seeds", 3, "-f", "csv").stdout.splitlines()]
    frame = results.frame()
    assert frame.column_names == heads
    assert frame.num_rows == len(rows)
    for name, column in zip(heads, zip(*rows, strict=True), strict=True):
        for cell, value in zip(column, frame[name].to_pylist(), strict=True):
            assert cell == ("" if value is None else str(value)), name
    assert results.frame("pandas").shape == (frame.num_rows, frame.num_columns)


def test_differences_are_those_of_the_json(results: sj.Results) -> None:
    said = json.loads(results.json())["comparison"]["differences"]
    found = results.compare().frame().to_pylist()
    for one, row in zip(said, found, strict=True):
        assert (row["measure"], row["mean"], row["half_width"]) == (one["measure"], one["mean"], one["half_width"])
    assert {row["baseline"] for row in results.compare(baseline="codel").frame().to_pylist()} == {"codel"}


def alike(one: Any, other: Any) -> bool:
    """Whether two tables are the same, where a NaN is like a NaN."""
    return bool(one.to_pandas().equals(other.to_pandas()))


def test_series_and_packets_are_those_of_the_files(tmp_path: Path, small: Path, results: sj.Results) -> None:
    there = sj.run(small, seeds=3, out=tmp_path / "out", packets=True)
    assert alike(results.series(label="codel", seed=2), there.series(label="codel", seed=2))
    flows = there.flow_series("bulk0.0", label="codel")
    assert flows["acked_bytes"].to_pylist() == results.flow_series("bulk0.0", label="codel")["acked_bytes"].to_pylist()
    assert "cwnd" in results.flow_series("bulk0.0").column_names
    kept = sj.run(small, packets=True)
    assert alike(kept.packets(label="codel"), there.packets(label="codel"))
    stored = sj.run(small, store=tmp_path / "store", series=True)
    assert alike(stored.series(label="codel"), there.series(label="codel"))
    assert "cwnd" in stored.flow_series("bulk0.0").column_names


def test_pictures_are_those_of_the_report(results: sj.Results, tmp_path: Path) -> None:
    assert list(results.plot)[:2] == ["summary", "sojourn-bottleneck"]
    assert results.plot["summary"].encode("png").startswith(b"\x89PNG")
    files = results.plot.save(tmp_path, "svg")
    assert {path.suffix for path in files} == {".svg"}
    assert all(path.with_suffix(".csv").exists() for path in files)
    page = results._repr_html_()
    assert page.count("<table>") >= 2
    assert "codel" in page


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"hop": [{**TABLES["hop"][0], "qdisc": "codle"}]}, 'scenario: hop.bottleneck.qdisc = "codle": '),
    ({"hop": [{**TABLES["hop"][0], "qdics": "codel"}]}, "scenario: hop.bottleneck.qdics"),
    (
        {"hop": [{**TABLES["hop"][0], "rate": 3 + 4j}]},
        "scenario: hop.bottleneck.rate = (3+4j): expected text, a number",
    ),
    ({"hop": [{**TABLES["hop"][0], "rate": None}]}, "scenario: hop.bottleneck.rate = None: expected"),
    ({"durations": "3s"}, "scenario: durations: "),
    ({"duration": "3 parsecs"}, 'scenario: duration = "3 parsecs": '),
    ({"sweep": {"hop.b.qdisc": ["codel"]}}, "scenario: "),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_a_wrong_dictionary_is_refused_by_key_and_value_and_no_line(change: dict[str, Any], says: str) -> None:
    with pytest.raises((sj.Error, sj.Refusal)) as found:
        sj.load({key: value for key, value in TABLES.items() if key != "sweep"} | change)
    assert str(found.value).startswith(says)
    assert "scenario:1" not in str(found.value)


def test_values_of_numpy_and_tuples_are_taken_as_their_own() -> None:
    steps = [("0s", "10mbit"), ("1s", "5mbit")]
    hop = {**TABLES["hop"][0], "rate": steps, "overhead": np.int64(14)}
    plan = sj.load(TABLES | {"hop": [hop]}, set={"flow.bulk0.count": np.int32(1), "flow.bulk0.ecn": True})
    assert plan.describe(0)["hops"][0]["rate"] == "10mbit, from 1s 5mbit"
    assert [flow["kind"] for flow in plan.describe(0)["flows"]] == ["bulk", "pings"]
    assert plan.runs[0]["set"]["flow.bulk0.ecn"] is True


REFUSED: list[tuple[Any, str]] = [
    (
        lambda r: r.hop("botleneck"),
        "hop 'botleneck': no such queue: expected one of bottleneck, bottleneck.reverse; nearest is",
    ),
    (lambda r: r.flow("bulk1"), "flow 'bulk1': no such flow: expected one of bulk0"),
    (lambda r: r.measure("sojourn_ms.p95"), "measure: sojourn_ms.p95: no such measure"),
    (lambda r: r.hop("bottleneck").sojourn_ms.p95.mean, "there are 2 combinations: expected one"),
    (
        lambda r: r.hop("bottleneck").sojourn_ms.p95["code"],
        "no combination 'code': expected one of pfifo limit 100, codel",
    ),
    (lambda r: r.compare(baseline="sfq"), "sfq"),
    (lambda r: r.series(seed=9), "seed = 9: no such run: expected one of 1, 2, 3"),
    (lambda r: r.plot["sumary"], "no picture 'sumary'"),
    (lambda r: r.packets(), "packets: none were kept: expected packets=True"),
    (lambda r: r.frame("polars"), "polars is not installed: pip install polars"),
]


@pytest.mark.parametrize(("ask", "says"), REFUSED)
def test_what_results_do_not_have_is_refused_with_what_they_have(results: sj.Results, ask: Any, says: str) -> None:
    with pytest.raises(sj.Refusal) as found:
        ask(results)
    assert says in str(found.value)


def test_an_unknown_measure_is_named_with_those_that_there_are(results: sj.Results) -> None:
    with pytest.raises(
        AttributeError, match=r"sojourn_ms\.p96: no such measure: expected one of mean, p50.*nearest is p9"
    ):
        _ = results.hop("bottleneck").sojourn_ms.p96  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"world": "life"}, "world = 'life': expected sim, kernel or live"),
        ({"on": 0}, "on = 0: expected a whole number from 1"),
        ({"on": "dsk"}, "on = dsk: expected dask://HOST:PORT or dask; nearest is dask"),
        ({"on": "dask://here"}, "expected dask://HOST:PORT, with the port of a scheduler"),
        ({"store": "s", "packets": True}, "packets: not with store"),
        ({"until": "sojourn_ms.p95"}, "until = sojourn_ms.p95: expected a measure and a width"),
    ],
)
def test_run_refuses_what_cannot_be_had(how: dict[str, Any], says: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sj.Refusal) as found:
        sj.run(TABLES, **how)
    assert says in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_a_name_a_path_and_what_read_returned_are_one_scenario() -> None:
    path = ROOT / "scenarios/fading-link.toml"
    named, given, read = sj.load("fading-link"), sj.load(path), sj.load(sj.read("fading-link"))
    assert named.runs == given.runs == read.runs
    assert named.describe(0) == given.describe(0) == read.describe(0) | {"title": given.title}


def test_a_pickled_plan_needs_none_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "link.down").write_text("1\n2\n3\n5\n8\n")
    text = SMALL.replace('rate = "10mbit"', 'rate = { trace = "link.down" }')
    (tmp_path / "traced.toml").write_text(text)
    plan = sj.load(tmp_path / "traced.toml", set={"duration": "2s"}, seeds=2)
    expected = sj.run(plan).json()
    packed = pickle.dumps(plan)
    (tmp_path / "link.down").unlink()
    (tmp_path / "traced.toml").unlink()
    again = pickle.loads(packed)
    assert sj.run(again).json() == expected
    assert [one["seed"] for one in again.reseeded(7, 3).runs[:3]] == [7, 8, 9]


@pytest.mark.parametrize("kind", [sj.Error, sj.Refusal])
def test_an_error_passes_between_processes(kind: type[Exception]) -> None:
    """A pool of processes sends an error of its worker as a pickle."""
    again = pickle.loads(pickle.dumps(kind("link.toml:3: rate = 0")))
    assert type(again) is kind
    assert str(again) == "link.toml:3: rate = 0"


def test_every_public_name_and_its_methods_say_what_they_are() -> None:
    for name in sj.__all__:
        found = getattr(sj, name)
        assert inspect.getdoc(found), name
        if inspect.isclass(found) and found.__module__.startswith("sojourn") and found is not sj.Error:
            for method, value in vars(found).items():
                if not method.startswith("_") and (callable(value) or isinstance(value, property | staticmethod)):
                    assert inspect.getdoc(value), f"{name}.{method}"
    parts = [one for one in vars(measured).values() if inspect.isclass(one) and issubclass(one, Part)]
    for part in parts:
        for name, one in measures_of(part).items():
            assert one.meaning.endswith("."), f"{part.__name__}.{name}"


def test_every_measure_of_the_store_has_its_name_in_python() -> None:
    from sojourn import columns

    def paths(part: type[Part]) -> set[str]:
        found = set()
        for name, one in measures_of(part).items():
            inner = paths(one.kind) if isinstance(one, measured.Group) else {""}
            found |= {f"{name}.{rest}".rstrip(".") for rest in inner}
        return found

    def leaves(kind: Any) -> set[str]:
        named = (leaf.partition(".")[2].split() for leaf in columns.leaves("", kind))
        return {path for path, of in named if of != "string" and "[]" not in path}

    assert paths(measured.Hop) == leaves(columns.HOP)
    assert paths(measured.Flow) == leaves(columns.FLOW)
    assert paths(measured.Jain) == leaves(columns.JAIN)
    assert paths(measured.Losses) == leaves(columns.LOSSES)


# ---- what users write ----

PROGRAM = '''\
"""A user's program: which discipline keeps this link fast?"""

import sojourn as sj

plan = sj.load("static-1.5mbit", set={"duration": "10s", "measure": ["2s", "end"]}, seeds=2)
results = sj.run(plan, world="sim", on=2)
delay: sj.Measure = results.hop("bottleneck").sojourn_ms.p95
for label, mean in delay.means.items():
    if mean is not None:
        print(label, mean.value, mean.half_width)
shares: float = results.jain.goodput[results.labels[0]].mean
frame = results.frame()
for one in results.compare():
    print(one.measure.name, one.mean.value, one.told_apart)
'''


def code_of(notebook: Path) -> str:
    """The cells of a notebook as a program."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code") + "\n"


def test_a_users_program_and_the_notebooks_are_typed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    for notebook in NOTEBOOKS:
        (tmp_path / f"{notebook.stem.replace('-', '_')}.py").write_text(code_of(notebook))
    checked = [sys.executable, "-m", "mypy", "--strict", "--config-file=", *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wrong = PROGRAM.replace("sojourn_ms.p95", "sojourn_ms.p96").replace('world="sim"', "world=3")
    (tmp_path / "wrong.py").write_text(wrong)
    refused = subprocess.run([*checked[:5], str(tmp_path / "wrong.py")], capture_output=True, text=True, check=False)
    assert 'has no attribute "p96"' in refused.stdout
    assert 'Argument "world" to "run"' in refused.stdout
    played = subprocess.run(
        [sys.executable, tmp_path / "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert played.returncode == 0, played.stderr
    assert "goodput" in played.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    if "kernel" in notebook.stem:
        kernel_or_skip()
    found = nbformat.read(notebook, as_version=4)
    assert all(not cell.get("outputs") for cell in found.cells), "it is kept without outputs"
    NotebookClient(found, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in found.cells for output in cell.get("outputs", ())]
    assert len(shown) >= 3
    assert not [output for output in shown if output["output_type"] == "error"]


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "a-sweep-with-confidence",
        "fading-link",
        "the-kernels-own-decisions",
    ]


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, sojourn; print([m for m in ('numpy', 'pyarrow', 'distributed', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert Dask().address is None
