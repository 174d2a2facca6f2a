"""Each number that is shown belongs to the queue and flow that it names, in every output."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import statistics
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conftest import ROOT, Run, compare, sweep
from sojourn import _core, agree, headline, paired, plot, queues, report, screen, table, words
from sojourn.agree.judge import BY_NAME, Pair, rankings, summaries
from sojourn.agree.judge import Run as Kept
from sojourn.cases import Address, Cases, Flow, users_of
from sojourn.cli import size as size_command
from sojourn.cli import tables
from sojourn.cli.agree import _tables as show_agreement
from sojourn.errors import Refusal
from sojourn.means import Mean, student
from sojourn.plan import load
from sojourn.store import Store
from sojourn.until import FEWEST_SEEDS, Until
from sojourn.words import time_text
from sojourn.worlds import Simulator

FEW = settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a failing scenario takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
QDISCS = ["pfifo limit 5", "pfifo limit 100", "codel", "fq_codel", "cake", "pie", "codel target 2ms interval 30ms"]
FLOWS = {
    "bulk": 'kind = "bulk"\ncount = 2',
    "up": 'kind = "upload"\nsize = "50kb"\ndirection = "left"',
    "load": 'kind = "bulk"\ndirection = "left"\nstart = "uniform 0s..200ms"',
    "ping": 'kind = "pings"\ninterval = "50ms"\nrtt = "80ms"',
    "call": 'kind = "voip"\ndirection = "both"',
    "game": 'kind = "cbr"\nrate = "64kbit"\nsize = 100',
}


@st.composite
def scenarios(draw: st.DrawFn) -> str:
    """A path of one or two hops with any queues, some flows, and a sweep over one or two keys of any queue."""
    names = ["home", "isp"][: draw(st.integers(1, 2))]
    text = 'title = "Drawn"\nduration = "1s"\n'
    for name in names:
        rates = [draw(st.sampled_from(["500kbit", "2mbit", "20mbit"])) for _ in range(2)]
        lines = [draw(st.sampled_from(QDISCS)) for _ in range(2)]
        text += f'[[hop]]\nname = "{name}"\nrate = "{rates[0]}"\ndelay = "5ms"\nqdisc = "{lines[0]}"\n'
        given = f', qdisc = "{lines[1]}"' if draw(st.booleans()) else ""
        text += f'reverse = {{ rate = "{rates[1]}"{given} }}\n'
    for flow in draw(st.sets(st.sampled_from(sorted(FLOWS)), min_size=1, max_size=4)):
        text += f'[[flow]]\nname = "{flow}"\n{FLOWS[flow]}\n'
    keys = [f"hop.{name}{way}.{key}" for name in names for way in ("", ".reverse") for key in ("qdisc", "rate")]
    swept = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    text += "[sweep]\n"
    for key in swept:
        known = QDISCS if key.endswith("qdisc") else ["1mbit", "3mbit", "3162278bit"]
        values = draw(st.lists(st.sampled_from(known), min_size=2, max_size=3, unique=True))
        text += f'"{key}" = {json.dumps(values)}\n'
    return text


def printed(cases: Cases) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        tables.show(cases)
    return out.getvalue()


def mean_in_json(runs: list[dict[str, Any]], chosen: dict[str, Any], queue: str, path: str) -> float | None:
    """Returns the mean over the seeds of a queue's number, read from the JSON by hand."""
    found = []
    for run in runs:
        if run["set"] == chosen:
            value: Any = run["hops"][queue]
            for key in path.split("."):
                value = value[key] if value is not None else None
            found.append(value)
    present = [value for value in found if value is not None]
    return statistics.fmean(present) if present else None


def text_rows(text: str, shown: list[str], queue: str) -> list[str]:
    """Returns the rows of a queue in a text that is wide enough for whole rows; queues may share a table."""
    lines = text.splitlines()
    together = any(line.split()[:1] == ["queues"] for line in lines)
    title = r"queues\b" if together else rf"queue {re.escape(queue)}(:|\s|$)"
    begin = next(at for at, line in enumerate(lines) if re.match(title, line))
    begin = next(at for at in range(begin, len(lines)) if set(lines[at].strip()) == {"─"}) + 1
    rows = lines[begin : lines.index("", begin)]
    if together:
        each = len(rows) // len(shown)
        rows = rows[shown.index(queue) * each :][:each]
        assert rows[0].split()[0] == queue
        rows[0] = rows[0].strip().removeprefix(queue)
    return rows


def queue_key(queue: str) -> str:
    return f"hop.{queue}.qdisc"


def check_rows_against_json(cases: Cases, text: str, runs: list[dict[str, Any]]) -> None:
    shown = [one for one in table.tables(cases) if one.key == "queue"]
    assert [one.queue for one in shown] == cases.shown
    for one in shown:
        lines = text_rows(text, cases.shown, one.queue)
        assert len(lines) == len(cases.sets)
        for line, row, chosen, of_case in zip(lines, one.rows, cases.sets, cases.qdiscs, strict=True):
            assert line.strip().startswith(row.label)
            if any(line in row.label for line in QDISCS):  # a label that names a discipline names its own
                swept = [value for key, value in chosen.items() if key == queue_key(one.queue)]
                assert any(own in f"{one.title} {row.label}" for own in (*swept, of_case[one.queue]))
            cells = re.split(r"\s{2,}", line.strip().removeprefix(row.label).strip())
            expected = []
            for column in one.columns:
                if column.path != "goodput_mbit":
                    mean = mean_in_json(runs, chosen, one.queue, column.path)
                    assert mean is not None
                    expected.append(table.cell(Mean(mean, None, 1), column)[0])
            at = [place for place, column in enumerate(one.columns) if column.path != "goodput_mbit"]
            shown_cells = [re.split(r" ±|[*!]| \(", cells[place])[0] for place in at]
            assert shown_cells == expected


@FEW
@given(text=scenarios(), seeds=st.integers(1, 2))
def test_each_row_of_run_sweep_csv_and_agree_is_of_the_queue_that_it_names(
    tmp_path_factory: pytest.TempPathFactory, text: str, seeds: int
) -> None:
    place = tmp_path_factory.mktemp("drawn")
    file = place / "drawn.toml"
    file.write_text(text)
    done = compare(file, seeds=seeds)
    runs = json.loads(done.json())["runs"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "400")
        of_run = printed(done.cases())
        check_rows_against_json(done.cases(), of_run, runs)
        swept = sweep(load(file, seeds=seeds), Store(place / "store"))
        assert printed(swept.cases(100)) == of_run
    for row, run in zip(csv.DictReader(io.StringIO(table.as_csv(done.runs))), runs, strict=True):
        for name, hop in run["hops"].items():
            assert float(row[f"hops.{name}.utilisation"]) == hop["utilisation"]
            assert row[f"hops.{name}.sojourn_ms.p95"] == (
                "" if hop["sojourn_ms"] is None else str(hop["sojourn_ms"]["p95"])
            )
        for flow in run["flows"]:
            assert row[f"flows.{flow['name']}.goodput_mbit"] == str(flow["goodput_mbit"])
    check_agreement(file, seeds, runs)


@settings(parent=FEW, max_examples=2)
@given(text=scenarios())
def test_each_row_of_a_report_is_of_the_queue_that_it_names(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    place = tmp_path_factory.mktemp("drawn")
    (place / "drawn.toml").write_text(text)
    done = compare(place / "drawn.toml", folder=place)
    page = html.unescape(report.write(place, done.runs).read_text())
    runs = [record.result for record in done.runs]
    for one in (one for one in table.tables(done.cases()) if one.key == "queue"):
        found = re.search(rf">Queue {re.escape(one.queue)}[<:].*?<tbody>(.*?)</tbody>", page, re.DOTALL)
        assert found, one.queue
        rows = re.findall(r"<tr.*?</tr>", found[1], re.DOTALL)
        at = next((place for place, column in enumerate(one.columns) if column.path == "sojourn_ms.p95"), None)
        for row, case in zip(rows, one.rows, strict=True):
            cells = [re.sub("<.*?>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
            mean = mean_in_json(runs, done.cases().sets[case.case], one.queue, "sojourn_ms.p95")
            assert cells[0].endswith(case.label)
            assert (mean is None) == (at is None), "a column is left out only where no packet has passed the queue"
            if at is None:
                continue
            assert mean is not None
            assert cells[1 + at].rstrip("*!") == table.number(mean, 3)


def kept_of_sim(file: Path, seeds: int) -> list[Kept]:
    """The results that `agree` keeps for a scenario, with the simulator in place of both worlds."""
    plan = load(file, seeds=seeds)
    played = [Simulator().play(plan, at, _core.Progress(), packets=False, series=False) for at in range(len(plan))]
    return [agree.run_of(world, one, series=False) for world in ("sim", "kernel") for one in played if one]


def pairs_of_sim(file: Path, seeds: int) -> list[Pair]:
    return agree.pairs_of("drawn", "Drawn", kept_of_sim(file, seeds))


def check_agreement(file: Path, seeds: int, runs: list[dict[str, Any]]) -> None:
    kept = kept_of_sim(file, seeds)
    pairs = agree.pairs_of("drawn", "Drawn", kept)
    sets = [one for at, one in enumerate(run["set"] for run in runs) if one not in [run["set"] for run in runs[:at]]]
    shown = queues.shown_in([one.result for one in kept])
    assert [pair.hop for pair in pairs] == shown * len(sets)
    for at, pair in enumerate(pairs):
        found = pair.difference(BY_NAME["p95"])
        expected = mean_in_json([one.result for one in kept], sets[at // len(shown)], pair.hop, "sojourn_ms.p95")
        assert found is None or found.sim == pytest.approx(expected)
        assert (pair.difference(BY_NAME["goodput"]) is not None) <= (pair.hop == shown[0])


@settings(parent=FEW, max_examples=8)
@given(text=scenarios(), seeds=st.integers(1, 2), columns=st.integers(40, 200))
def test_no_line_is_wider_than_the_terminal_or_ends_with_a_blank(
    tmp_path_factory: pytest.TempPathFactory, text: str, seeds: int, columns: int
) -> None:
    file = tmp_path_factory.mktemp("drawn") / "drawn.toml"
    file.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        pairs = pairs_of_sim(file, seeds)
        out = io.StringIO()
        with redirect_stdout(out):
            tables.show(compare(file, seeds=seeds).cases())
            show_agreement(pairs, summaries(pairs), rankings(pairs))
        for line in out.getvalue().splitlines():
            assert screen.length(line) <= columns
            assert line == line.rstrip()


def test_queues_share_a_table_and_a_title_shares_the_line_of_the_heads_where_there_is_room() -> None:
    cases = compare(ROOT / "scenarios/rrul.toml").cases()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        lines = printed(cases).splitlines()
        patch.setenv("COLUMNS", "50")
        narrow = printed(cases)
    (head,) = [line for line in lines if line.startswith("queues ")]
    assert head.split() == ["queues", "link", "sojourn", "sojourn", "sojourn", "standing"]
    rows = lines[lines.index(head) + 3 :][:6]
    firsts = [row.split()[:2] for row in rows]
    assert [firsts[0], firsts[3]] == [["line.reverse", "pfifo"], ["line", "pfifo"]]
    assert [first[0] for first in firsts[1:3] + firsts[4:]] == ["fq_codel", "cake"] * 2
    for queue, row in zip([*["line.reverse"] * 3, *["line"] * 3], rows, strict=True):
        of_queue = table.queue_table(cases, queue)
        assert row.split()[-1] in {one.cells[-1].text for one in of_queue.rows}
    assert "queue line.reverse" in narrow, "in narrow terminals each queue has its own table"


CELLS = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=60)


@given(
    rows=st.integers(1, 9).flatmap(
        lambda many: st.lists(st.lists(CELLS, min_size=many, max_size=many), min_size=2, max_size=4)
    ),
    columns=st.integers(40, 200),
)
def test_a_table_of_words_fits_any_width_without_blanks_at_the_end_and_keeps_every_word(
    rows: list[list[str]], columns: int
) -> None:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", str(columns))
        screen.print_words("", rows[0], rows[1:])
    lines = out.getvalue().splitlines()
    assert all(screen.length(line) <= columns and line == line.rstrip() for line in lines)
    kept = sorted("".join(lines).replace("─", "").replace(" ", ""))
    assert kept == sorted("".join("".join(row) for row in rows).replace("─", "").replace(" ", "")) or "─" in str(rows)


# ---- values that were wrong ----

UPLINK = """\
title = "An upload over a home's uplink"
duration = "60s"
measure = ["10s", "end"]

[[hop]]
name = "home"
rate = "100mbit"
delay = "10ms"
reverse = { rate = "5mbit", qdisc = "pfifo limit 200" }

[[flow]]
kind = "upload"
size = "20mb"
direction = "left"

[[flow]]
kind = "pings"

[sweep]
"hop.home.reverse.qdisc" = ["pfifo limit 200", "codel", "fq_codel"]
"""


@pytest.fixture
def uplink(tmp_path: Path) -> Path:
    path = tmp_path / "uplink.toml"
    path.write_text(UPLINK)
    return path


def test_a_sweep_of_the_uplink_shows_the_uplink(uplink: Path) -> None:
    cases = compare(uplink).cases()
    assert cases.shown == ["home.reverse"]
    delays = [one for (one,) in cases.read(Address("sojourn_ms.p95", queues=("home.reverse",)))]
    assert delays == [pytest.approx(value, rel=0.05) for value in (463, 11.6, 11.5)]
    drops = [one for (one,) in cases.read(Address("drops", queues=("home.reverse",)))]
    assert all(drops)


def test_rrul_shows_its_uplink_and_each_label_once() -> None:
    cases = compare(ROOT / "scenarios/rrul.toml").cases()
    assert cases.shown == ["line.reverse", "line"]
    assert cases.labels("line.reverse") == ["pfifo limit 1000", "fq_codel", "cake bandwidth 4750kbit diffserv4"]
    assert cases.labels("line")[2] == "cake bandwidth 19mbit diffserv4"
    assert cases.short_labels() == ["pfifo", "fq_codel", "cake"]


def test_a_size_in_bdp_does_not_hide_why_a_discipline_has_no_command() -> None:
    cases = compare(ROOT / "scenarios/static-1.5mbit.toml").cases()
    found = {one.discipline: one for one in table.commands(cases)}
    assert found["codel limit 8bdp"].line == "tc qdisc replace dev eth0 root codel limit 100"
    red = found["red limit 8bdp variant ns2"]
    assert red.line is None
    assert "variant ns2 of red is only in sojourn" in red.note


def test_until_on_a_swept_reverse_queue_stops_by_that_queue(tmp_path: Path, uplink: Path, sojourn: Run) -> None:
    uplink.write_text(
        UPLINK.replace('"60s"', '"8s"')
        .replace('"10s"', '"1s"')
        .replace('direction = "left"', 'direction = "left"\nstart = "uniform 0s..2s"')
    )
    words = ("sweep", uplink, "--seeds", 30, "--store", tmp_path / "store", "-f", "json", "--until")
    by_short = json.loads(sojourn(*words, "sojourn_ms.p95 4%").stdout)
    by_name = json.loads(sojourn(*words, "hops.home.reverse.sojourn_ms.p95 4%").stdout)
    assert by_short["combinations"] == by_name["combinations"]
    for one in by_short["combinations"]:
        mean = one["measures"]["hops.home.reverse.sojourn_ms.p95"]
        assert mean["half_width"] <= 0.04 * mean["mean"] or one["seeds"] == 30
    assert max(one["seeds"] for one in by_short["combinations"]) > FEWEST_SEEDS
    assert by_name["played"] == 0, "the same seeds were enough"


def test_until_takes_up_and_down_and_refuses_a_flow_that_there_is_not(
    tmp_path: Path, uplink: Path, sojourn: Run
) -> None:
    call = '[[flow]]\nname = "call"\nkind = "voip"\ndirection = "both"\n'
    uplink.write_text(UPLINK.replace('"60s"', '"6s"').replace('"10s"', '"1s"').replace("[sweep]", call + "[sweep]"))
    words = ("sweep", uplink, "--seeds", 9, "--store", tmp_path / "store", "-f", "json", "--until")
    for said, name in (("up", "home.reverse"), ("down", "home")):
        by_word = json.loads(sojourn(*words, f"hops.home.{said}.sojourn_ms.p95 5%").stdout)
        by_name = json.loads(sojourn(*words, f"hops.{name}.sojourn_ms.p95 5%").stdout)
        assert by_word["combinations"] == by_name["combinations"]
    refused = sojourn(*words, "flows.call.mos 5%", code=2)
    assert "call is none of the flows: expected one of upload0, pings0, call.right, call.left" in refused.stderr


def test_until_watches_every_queue_that_is_swept(tmp_path: Path) -> None:
    rule = Until.parse("sojourn_ms.p95 1")
    steady, noisy = [10.0] * 8, [10.0, 30.0, 10.0, 30.0, 10.0, 30.0, 10.0, 30.0]
    assert rule.met_after([[one] for one in steady]) == 5
    assert rule.met_after(list(map(list, zip(steady, noisy, strict=True)))) is None
    idle = [float("nan")] * 8
    assert rule.met_after(list(map(list, zip(steady, idle, strict=True)))) == 5, "nothing passes through the other"


# ---- what is random ----


def test_where_nothing_is_random_one_seed_is_played_and_no_interval_claimed(uplink: Path, sojourn: Run) -> None:
    steady = UPLINK.replace(', "fq_codel"]', "]")
    uplink.write_text(steady)
    done = sojourn("run", uplink, "--seeds", 5)
    assert done.stderr.count("nothing in this scenario is random") == 1
    assert "±" not in done.stdout
    assert "2 runs:" in done.stderr
    assert len(json.loads(sojourn("run", uplink, "--seeds", 5, "-f", "json").stdout)["runs"]) == 2
    swept = sojourn("sweep", uplink, "--seeds", 5, "-f", "json")
    assert json.loads(swept.stdout)["runs"] == 2
    assert "nothing in this scenario is random" in swept.stderr
    uplink.write_text(UPLINK)
    assert len(json.loads(sojourn("run", uplink, "--seeds", 5, "-f", "json").stdout)["runs"]) == 15


def test_a_plan_without_draws_gives_equal_runs_for_every_seed(uplink: Path) -> None:
    for path in [uplink, *sorted((ROOT / "scenarios").glob("*.toml"))]:
        short = [("duration", "3s"), ("measure", '["0s", "end"]')]
        plan = load(path, short, seed=1, seeds=2)
        for index in range(0, len(plan), 2):
            if not plan.draws(index):
                runs = [plan.run(at) for at in (index, index + 1)]
                first, second = (run.result() for run in runs if run)
                assert first | {"seed": 2} == second, path


# ---- paired differences ----


def cases_of(values: dict[str, list[float]], *, random: bool = True) -> Cases:
    """Cases of one queue whose delay is known."""
    lines = list(values)
    return Cases(
        title="t",
        world="sim",
        sets=[{"hop.a.qdisc": line} for line in lines],
        seeds=[list(range(1, len(one) + 1)) for one in values.values()],
        queues=["a", "a.reverse"],
        shown=["a"],
        qdiscs=[{"a": line} for line in lines],
        flows=[],
        random=random,
        read=lambda address: [
            [value if address.path == "sojourn_ms.p95" else None for value in one] for one in values.values()
        ],
    )


def test_differences_are_paired_by_seed() -> None:
    noisy = [10.0, 20.0, 30.0, 40.0]
    cases = cases_of({"pfifo": noisy, "codel": [value - 1 for value in noisy], "pie": [9.0, 22.0, 25.0, 44.0]})
    codel, pie = paired.differences(cases)
    assert (codel.mean.value, codel.mean.half_width, codel.told_apart) == (-1.0, 0.0, True)
    assert (pie.mean.value, pie.told_apart) == (0.0, False)
    assert pie.further_seeds is None, "their mean is zero: no number of seeds would tell"


def test_the_number_of_further_seeds_is_the_least_whose_interval_excludes_zero() -> None:
    apart = [0.0, 4.0, -1.0, 3.0]
    more = paired.further_seeds(apart)
    assert more is not None
    spread = statistics.stdev(apart)
    for count, enough in ((len(apart) + more, True), (len(apart) + more - 1, False)):
        half = student(0.975, count - 1) * spread / count**0.5
        assert (half < statistics.fmean(apart)) == enough
    assert paired.further_seeds([1.0, -1.0, 1.001, -1.0]) is None, "thousands are not worth naming"


def test_the_baseline_is_the_first_value_or_the_one_asked_for_and_an_unknown_one_names_the_known(
    small: Path, sojourn: Run
) -> None:
    found = json.loads(sojourn("run", small, "--seeds", 3, "-f", "json").stdout)
    assert found["comparison"]["baseline"] == "pfifo limit 100"
    (first, *_), runs = found["comparison"]["differences"], found["runs"]
    p95 = [run["hops"]["bottleneck"]["sojourn_ms"]["p95"] for run in runs]
    apart = [codel - pfifo for pfifo, codel in zip(p95[:3], p95[3:], strict=True)]
    assert first["set"] == {"hop.bottleneck.qdisc": "codel"}
    assert first["mean"] == pytest.approx(statistics.fmean(apart))
    other = json.loads(sojourn("run", small, "--seeds", 3, "-f", "json", "--baseline", "codel").stdout)
    assert other["comparison"]["differences"][0]["mean"] == pytest.approx(-first["mean"])
    for verb in ("run", "sweep"):
        refused = sojourn(verb, small, "--baseline", "fq_codle", code=2)
        assert "expected a value of hop.bottleneck.qdisc: pfifo limit 100, codel" in refused.stderr


def test_only_what_is_shown_to_differ_is_marked() -> None:
    clear = cases_of({"pfifo": [100.0, 120.0], "codel": [5.0, 5.1], "fq_codel": [5.1, 5.0]})
    values = clear.read(Address("sojourn_ms.p95", queues=("a",)))
    assert paired.marks_of(clear, values, lower_is_better=True) == ["", "", ""], "two seeds this far apart tell little"
    more = cases_of({"pfifo": [100.0, 103.0, 101.0], "codel": [5.0, 5.1, 5.2], "fq_codel": [5.1, 5.0, 5.2]})
    values = more.read(Address("sojourn_ms.p95", queues=("a",)))
    assert paired.marks_of(more, values, lower_is_better=True) == ["worst", "best", "best"]
    one = cases_of({"pfifo": [100.0], "codel": [5.0]})
    assert paired.marks_of(one, [[100.0], [5.0]], lower_is_better=True) == ["", ""], "one seed of random traffic"
    steady = cases_of({"pfifo": [100.0], "codel": [5.0], "pie": [5.001]}, random=False)
    assert paired.marks_of(steady, [[100.0], [5.0], [5.001]], lower_is_better=True) == ["worst", "best", "best"]


def test_a_case_that_is_shown_to_differ_from_neither_end_has_no_mark() -> None:
    noisy = cases_of({"pfifo": [100.0, 103.0, 101.0], "codel": [5.0, 5.1, 5.2], "pie": [5.0, 210.0, 8.0]})
    values = noisy.read(Address("sojourn_ms.p95", queues=("a",)))
    assert paired.marks_of(noisy, values, lower_is_better=True) == ["worst", "best", ""]
    tiny = cases_of({"pfifo": [1000.0, 1003.0, 1001.0], "codel": [1000.9, 1003.9, 1001.9]})
    values = tiny.read(Address("sojourn_ms.p95", queues=("a",)))
    assert paired.marks_of(tiny, values, lower_is_better=True) == ["", ""], "within rounding"


SOME_VALUES = st.lists(st.sampled_from([5.0, 5.01, 6.0, 9.0, 20.0, 90.0]), min_size=3, max_size=3)
GRIDS = st.dictionaries(
    st.tuples(st.sampled_from(["1mbit", "5mbit"]), st.sampled_from(["pfifo", "codel", "pie", "fq_codel"])),
    st.tuples(SOME_VALUES, SOME_VALUES),
    min_size=2,
)


def grid(values: dict[tuple[str, str], tuple[list[float], list[float]]]) -> Cases:
    """Cases with a rate and a discipline each, whose delay and goodput are known for every seed."""
    keys = ("hop.a.rate", "hop.a.qdisc")
    at = {"sojourn_ms.p95": 0, "goodput_mbit": 1}
    cases = cases_of({str(place): delay for place, (delay, _) in enumerate(values.values())})
    return replace(
        cases,
        sets=[dict(zip(keys, pair, strict=True)) for pair in values],
        qdiscs=[{"a": qdisc} for _, qdisc in values],
        read=lambda address: [
            list(one[at[address.path]]) if address.path in at else [None] * 3 for one in values.values()
        ],
    )


@settings(deadline=None)  # the first example loads scipy
@given(values=GRIDS)
def test_marks_and_winners_are_what_the_seeds_show(
    values: dict[tuple[str, str], tuple[list[float], list[float]]],
) -> None:
    cases = grid(values)
    delays, goodputs = (cases.read(one.address) for one in (paired.delay(cases), paired.GOODPUT))
    marks = paired.marks_of(cases, delays, lower_is_better=True)
    for members in paired.families(cases):
        best, worst = ([place for place in members if marks[place] == mark] for mark in ("best", "worst"))
        assert bool(best) == bool(worst)
        for place in members:
            from_best = any(paired.differ(cases, delays, place, other) for other in best)
            assert from_best or not best or marks[place] != "worst"
            assert marks[place] != "best" or any(paired.differ(cases, delays, place, other) for other in worst)
    known = headline.facts(cases)
    for family in (
        headline._family(cases, [known[place] for place in members], []) for members in paired.families(cases)
    ):
        for one in family.lead:
            assert not any(paired.differ(cases, delays, one.case, other.case) for other in family.lead)
        for one in family.members:
            shown = paired.differ(cases, delays, one.case, family.winner.case)
            assert shown != (one in family.alike)
            lost = paired.differ(cases, goodputs, one.case, family.most.case)
            assert lost == (one.case in family.lost)


def test_where_each_setting_has_a_baseline_the_table_and_its_sentences_say_so() -> None:
    even = [4.0, 4.0, 4.0]
    delays = {
        ("1mbit", "codel"): [100.0, 110.0, 105.0],
        ("1mbit", "pie"): [120.0, 132.0, 124.0],
        ("5mbit", "codel"): [20.0, 30.0, 25.0],
        ("5mbit", "pie"): [22.0, 27.0, 26.0],
    }
    cases = grid({pair: (delay, even) for pair, delay in delays.items()})
    found = paired.differences(cases)
    made = table.differences_table(cases, found)
    assert made
    assert made.title == "less codel at the same a.rate, seed by seed"
    assert [(row.flow, row.label, row.cells[0].text) for row in made.rows] == [
        ("a.rate 1 Mbit/s", "pie", "+20.3"),
        ("a.rate 5 Mbit/s", "pie", "0~"),
    ]
    said = table.untold(cases, found)
    assert said[0] == "No significant difference in delay p95 from codel at the same a.rate: a.rate 5 Mbit/s: pie."
    assert "among the cases at the same a.rate" in table.legend(cases)
    text = printed(cases)
    assert "less codel at the same a.rate, seed by seed" in text
    assert headline.sentences(cases) == [
        "Lowest delay p95 in a: codel (105 ms) with a.rate 1 Mbit/s; "
        "no significant difference (25 ms) with a.rate 5 Mbit/s."
    ]
    as_json = paired.as_dict(cases)
    assert as_json
    for one in as_json["differences"]:  # type: ignore[attr-defined]
        assert one["baseline"] == one["set"] | {"hop.a.qdisc": "codel"}
    rates = [f"{number}mbit" for number in range(1, 6)]
    many = grid({(rate, qdisc): (even, even) for rate in rates for qdisc in ("codel", "pie")})
    assert table.untold(many, paired.differences(many))[0] == (
        "No significant difference in delay p95 from codel at the same a.rate in 5 of 5 comparisons."
    )
    alone = cases_of({"codel": [5.0, 6.0], "pie": [7.0, 9.0]})
    assert "among" not in table.legend(alone)
    apart = table.differences_table(alone, paired.differences(alone))
    assert apart
    assert apart.title == "less codel, seed by seed"


def test_settings_that_are_swept_disciplines_are_called_by_their_queue(tmp_path: Path) -> None:
    path = tmp_path / "both.toml"
    text = UPLINK.replace('direction = "left"', 'direction = "left"\nstart = "uniform 0s..1s"')
    path.write_text(text.replace('"60s"', '"9s"').replace('"10s"', '"1s"') + '"hop.home.qdisc" = ["pfifo", "fq"]\n')
    cases = compare(path, seeds=2).cases()
    made = table.differences_table(cases, paired.differences(cases))
    assert made
    assert made.title == "less pfifo at the same qdisc of home, seed by seed"
    assert [row.flow for row in made.rows] == ["home pfifo", "home pfifo", "home fq", "home fq"]
    assert [row.label for row in made.rows] == ["codel", "fq_codel"] * 2


# ---- for a reader ----


def test_four_disciplines_fit_two_screens_and_a_pipe_has_a_hundred_columns(sojourn: Run) -> None:
    file = ROOT / "scenarios/fading-link.toml"
    words = ["run", file, "--set", "duration=20s"]
    piped = sojourn(*words).stdout.splitlines()
    assert max(map(screen.length, piped)) <= screen.PIPED
    assert len(piped) <= 48


def test_several_hops_have_their_delays_together_in_a_row_of_the_path(sojourn: Run) -> None:
    cases = compare(ROOT / "scenarios/two-hops.toml").cases()
    (path,) = (one for one in table.tables(cases) if one.key == "path")
    (at,) = (place for place, column in enumerate(path.columns) if column.path == paired.MEAN_DELAY)
    runs = compare(ROOT / "scenarios/two-hops.toml").runs
    for row, run in zip(path.rows, runs, strict=True):
        hops = run.result["hops"]
        mean = row.cells[at].mean
        assert mean is not None
        assert mean.value == pytest.approx(sum(hops[name]["queue_delay_ms"]["mean"] for name in ("router", "modem")))


def test_pings_say_what_the_path_adds_to_their_base_rtt() -> None:
    done = compare(ROOT / "scenarios/rrul.toml")
    (pings,) = (one for one in table.tables(done.cases()) if one.key == "pings")
    (at,) = (place for place, column in enumerate(pings.columns) if column.above_base)
    for row, run in zip(pings.rows, done.runs, strict=True):
        (icmp,) = (flow for flow in run.result["flows"] if flow["name"] == "icmp")
        mean = row.cells[at].mean
        assert mean is not None
        assert mean.value == pytest.approx(icmp["rtt_ms"]["p95"] - 40)


def test_a_table_of_a_store_fits_a_pipe(tmp_path: Path, small: Path, sojourn: Run) -> None:
    sojourn("sweep", small, "--store", tmp_path / "store")
    for sql in ("describe runs", "select * from runs", "select hops, flows from runs"):
        lines = sojourn("store", sql, "--store", tmp_path / "store").stdout.splitlines()
        assert max(map(screen.length, lines)) <= screen.PIPED
        assert all(line == line.rstrip() for line in lines)


def test_no_more_runs_are_said_to_be_played_than_count_and_the_others_are_named(
    tmp_path: Path, small: Path, sojourn: Run
) -> None:
    words = ("sweep", small, "--seeds", 40, "--until", "sojourn_ms.p95 3%", "--jobs", 4, "--store", tmp_path / "store")
    said = sojourn(*words).stderr
    found = re.search(r"(\d+) runs, (\d+) of them played now(?: \((\d+) more were played than needed)?", said)
    assert found
    runs, played, more = (int(number or 0) for number in found.groups())
    assert played == runs, "the store was empty"
    (stored,) = json.loads(
        sojourn("store", "select count(*) as n from runs", "--store", tmp_path / "store", "-f", "json").stdout
    )["rows"]
    assert stored["n"] == runs + more


# ---- the headline ----


def facts_of(values: dict[str, tuple[float, float]]) -> Cases:
    """Cases of one queue whose p95 delay and goodput are known and not random."""
    at = {"sojourn_ms.p95": 0, "goodput_mbit": 1}
    cases = cases_of({name: [delay] for name, (delay, _) in values.items()}, random=False)
    return replace(
        cases, read=lambda address: [[one[at[address.path]] if address.path in at else None] for one in values.values()]
    )


def test_the_headline_weighs_delay_and_goodput() -> None:
    free = headline.sentences(facts_of({"pfifo": (500, 10), "codel": (12, 9.9), "fq_codel": (15, 9.95)}))
    assert free[0].startswith(
        "codel keeps delay lowest, losing at most 2 % of throughput: 95 % of the packets wait at most 12 ms"
    )
    assert free[1].startswith("With pfifo: 95 % of the packets wait at most 500 ms in a")
    costly = headline.sentences(facts_of({"pfifo": (500, 10), "codel": (12, 9.5)}))
    assert costly[0].startswith("codel keeps delay lowest, at 5 % less goodput than pfifo")
    starved = headline.sentences(facts_of({"pfifo": (500, 10), "codel": (12, 9.5), "red": (1.5, 6)}))
    assert starved[0].startswith("codel has the least delay with at most 15 % less goodput than the highest")
    assert starved[1].startswith("red has less delay, but 40 % less goodput")
    assert starved[2].startswith("With pfifo: ")
    trade = headline.sentences(facts_of({"pfifo": (500, 10), "red": (1.5, 6)}))
    assert trade[0].startswith("red has less delay, but 40 % less goodput")
    assert trade[1].startswith("With pfifo: ")
    assert not any("lowest" in one for one in trade), "neither is better"


def test_the_headline_names_calls_pages_and_video_by_the_numbers_of_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "line.toml"
    path.write_text(
        UPLINK + '[[flow]]\nname = "call"\nkind = "voip"\ndirection = "both"\n'
        '[[flow]]\nname = "reader"\nkind = "web"\npage = true\ncount = 3\n'
        '[[flow]]\nname = "film"\nkind = "video"\n'
    )
    cases = compare(path).cases()
    said = " ".join(headline.sentences(cases))
    found = {one.key: one for one in table.tables(cases)}
    mos = [row.cells[-1] for row in found["datagrams"].rows]
    assert {cell.column.path for cell in mos} == {"mos"}
    worst = min(cell.mean.value for cell in mos if cell.mean)
    assert f"lowest call MOS {table.number(worst, 3)}" in said
    pages = [row.cells[0] for row in found["web"].rows if row.cells[0].column.path == "page_load_s.p50"]
    longest = max(cell.mean.value for cell in pages if cell.mean)
    assert f"page load p50 {time_text(1e3 * longest)}" in said
    assert "video stalled" not in said, "it never does"


def test_labels_that_are_repeated_and_commands_are_those_of_their_queue(tmp_path: Path) -> None:
    path = tmp_path / "line.toml"
    lines = ['"htb rate 4mbit child codel"', '"htb rate 4mbit child fq_codel"', '"cake bandwidth 4mbit"', '"cake nat"']
    up = [line.replace("4mbit", "3mbit") for line in lines]
    keys = ["hop.home.qdisc", "hop.home.up.qdisc"]
    swept = f'zip = [{json.dumps(keys)}]\n"{keys[0]}" = [{", ".join(lines)}]\n"{keys[1]}" = [{", ".join(up)}]\n'
    path.write_text(UPLINK[: UPLINK.index("[sweep]")] + "[sweep]\n" + swept)
    cases = compare(path).cases()
    assert cases.shown == ["home.reverse", "home"]
    assert [cases.short_labels(queue) == cases.labels(queue) for queue in cases.shown] == [True, True], "two are cake"
    for width in (40, 60, 80):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            text = printed(cases)
        parts = {queue: re.split(rf"queue {queue}\s", text)[1].split("queue ")[0] for queue in cases.shown}
        assert "4mbit" not in parts["home.reverse"]
        assert "3mbit" not in parts["home"].split("\nlong flows")[0].split("\npings")[0]
    commands = [(one.queues, one.line) for one in table.commands(cases)]
    assert [queues_of for queues_of, _ in commands] == [("home.reverse",)] * 3 + [("home.reverse", "home")] + [
        ("home",)
    ] * 3
    assert all(("3mbit" in (line or "")) == ("home" not in names) for names, line in commands if "mbit" in (line or ""))


MIRRORED = """
title = "Up and down"
duration = "3s"
[[hop]]
name = "home"
rate = "5mbit"
delay = "15ms"
qdisc = "fq_codel"
[[flow]]
kind = "bulk"
direction = "both"
[sweep]
"hop.home.qdisc" = ["pfifo limit 100", "codel", "fq_codel"]
"""


def test_a_queue_without_a_discipline_in_the_file_is_named_by_its_own_and_has_no_command(tmp_path: Path) -> None:
    path = tmp_path / "mirrored.toml"
    path.write_text(MIRRORED)
    done = compare(path)
    cases = done.cases()
    assert cases.undescribed == ("home.reverse",)
    assert "home.reverse" in cases.shown
    own = ["pfifo: pfifo limit 100", "codel: pfifo limit 1000", "fq_codel: pfifo limit 10240"]
    assert cases.labels("home.reverse") == own
    assert cases.labels("home") == ["pfifo limit 100", "codel", "fq_codel"]
    assert {one.queues for one in table.commands(cases)} == {("home",)}
    (sentence,) = table.undescribed(cases)
    assert "pfifo limit 100, pfifo limit 1000, pfifo limit 10240" in sentence
    for width in (40, 80, 200):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            text = " ".join(printed(cases).split())
        assert " ".join(sentence.split()) in text
    for way in ('up = { qdisc = "codel" }', 'reverse = { qdisc = "codel" }'):
        path.write_text(MIRRORED.replace('qdisc = "fq_codel"\n', f'qdisc = "fq_codel"\n{way}\n'))
        cases = compare(path).cases()
        assert (cases.undescribed, table.undescribed(cases)) == ((), [])
        titles = [one.title for one in table.tables(cases) if one.key == "queue"]
        assert titles == ["queue home", "queue home.reverse: codel limit 1000"]
    path.write_text(MIRRORED.replace('qdisc = "fq_codel"\n', 'qdisc = "fq_codel"\nup = { rate = "5mbit", }\n'))
    assert compare(path).cases().compared == "home", "TOML 1.1, which Python may not read"
    swept = MIRRORED.replace("hop.home.qdisc", "hop.home.up.qdisc")
    path.write_text(swept)
    assert compare(path).cases().undescribed == ()


def test_labels_about_no_queue_hold_for_both_directions_that_are_swept_together(tmp_path: Path) -> None:
    cases = compare(ROOT / "scenarios/two-users.toml").cases()
    assert cases.short_labels() == ["fq_codel", "cake flows", "cake dual-dsthost and dual-srchost"]
    path = tmp_path / "zip.toml"
    keys = ["hop.home.qdisc", "hop.home.reverse.qdisc"]
    for down, up, expected in [
        (["codel", "pie"], ["codel limit 9", "pie"], ["codel", "pie"]),
        (["codel", "pie"], ["fq_codel", "pie"], ["codel and fq_codel", "pie"]),
    ]:
        swept = f"zip = [{json.dumps(keys)}]\n{json.dumps(keys[0])} = {json.dumps(down)}\n"
        path.write_text(
            f"{MIRRORED[: MIRRORED.index('[sweep]')]}[sweep]\n{swept}{json.dumps(keys[1])} = {json.dumps(up)}\n"
        )
        assert compare(path).cases().short_labels() == expected
    assert words.merged([("cake bandwidth 9mbit nat", "cake bandwidth 1mbit nat"), ("cake", "cake")]) == [
        "cake bandwidth 9mbit and 1mbit nat",
        "cake",
    ]
    limits = [("codel limit 9", "codel limit 9"), ("codel limit 8", "codel limit 7")]
    assert words.merged(limits) == ["codel limit 9", "codel limit 8 and 7"]
    assert words.merged([("codel", "pfifo limit 3"), ("codel", "pie")]) == ["codel and pfifo limit 3", "codel and pie"]


def test_settings_of_several_queues_have_short_names_and_a_legend(tmp_path: Path) -> None:
    path = tmp_path / "line.toml"
    lines = {
        "hop.home.up.qdisc": ["bfifo limit 90k", "pie target 10ms", "bfifo limit 90k"],
        "hop.home.down.qdisc": ["pfifo limit 100", "pfifo limit 100", "cake bandwidth 90mbit ingress"],
    }
    swept = f"zip = [{json.dumps(list(lines))}]\n" + "".join(
        f"{json.dumps(key)} = {json.dumps(of)}\n" for key, of in lines.items()
    )
    path.write_text(UPLINK[: UPLINK.index("[sweep]")].replace("60s", "20s") + "[sweep]\n" + swept)
    cases = compare(path).cases()
    assert cases.short_labels() == ["pfifo and bfifo", "pfifo and pie", "cake and bfifo"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        text = printed(cases)
    assert "cake and bfifo: home bfifo" not in text
    assert "cake and bfifo: home cake bandwidth 90mbit ingress; home.reverse bfifo limit 90k" in " ".join(text.split())
    headline_text = text[: text.index("queue")]
    assert " or " not in headline_text.replace("one seed", "")


def test_each_value_with_each_other_keeps_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "line.toml"
    swept = '[sweep]\n"hop.home.up.qdisc" = ["codel", "pie"]\n"hop.home.qdisc" = ["codel", "pie"]\n'
    path.write_text(UPLINK[: UPLINK.index("[sweep]")].replace("60s", "12s") + swept)
    cases = compare(path).cases()
    assert len(set(cases.short_labels())) == 4
    assert cases.settings() == []


def test_a_schedule_is_named_by_its_changes_and_has_no_command(tmp_path: Path) -> None:
    path = tmp_path / "schedule.toml"
    steps = '[["0s", "cake bandwidth 4mbit"], ["1s", "fq_codel"]]'
    path.write_text(MIRRORED.replace('["pfifo limit 100", "codel", "fq_codel"]', f'["cake bandwidth 4mbit", {steps}]'))
    cases = compare(path).cases()
    assert cases.short_labels() == ["cake", "cake → fq_codel"]
    plain, changing = table.commands(cases)
    assert plain.line == "tc qdisc replace dev eth0 root cake bandwidth 4mbit"
    assert changing.discipline == "cake bandwidth 4mbit; 1s: fq_codel"
    assert changing.line is None
    assert "changes during the run" in changing.note
    assert "fq_codel limit" not in printed(cases).split("On a router")[1]
    assert words.short_name("cake bandwidth 9mbit; 5s: cake bandwidth 8mbit; 9s: cake") == "cake → cake"
    assert words.short_name("htb rate 8mbit child codel; 5s: pie; 9s: pie; 10s: codel") == "htb + codel → pie → codel"


def test_a_shaper_is_called_by_both_names_and_drawn_in_its_childs_colour() -> None:
    assert words.short_name("htb rate 8mbit child fq_codel limit 9") == "htb + fq_codel"
    assert words.parameters_of("htb rate 8mbit child fq_codel limit 9") == "rate 8mbit; limit 9"
    assert [words.short_name(one) for one in ("cake", "", "codel limit 9; 30s: fq")] == ["cake", "", "codel → fq"]
    assert plot.colours(["htb rate 8mbit child fq_codel"]) == plot.colours(["fq_codel"])
    sets = [{"hop.a.qdisc": one} for one in ("codel", "htb rate 8mbit child codel", "htb rate 8mbit child cake")]
    chosen = {wanted: paired._baseline(sets, "hop.a.qdisc", wanted) for wanted in ("codel", "cake", "htb + codel")}
    assert list(chosen.values()) == ["codel", sets[2]["hop.a.qdisc"], sets[1]["hop.a.qdisc"]]
    with pytest.raises(Refusal, match="--baseline = htb"):
        paired._baseline(sets, "hop.a.qdisc", "htb")


def test_with_several_seeds_a_winner_is_named_only_if_it_is_shown_to_have_less_delay() -> None:
    most = [10.0, 10.2, 10.1]
    pfifo = ("1mbit", "pfifo"), ([500.0, 510.0, 490.0], most)
    codel = ("1mbit", "codel"), ([12.0, 14.0, 13.0], [9.4, 9.6, 9.5])
    near = ("1mbit", "pie"), ([13.0, 13.5, 14.0], [9.9, 10.1, 10.0])

    def said(*of: tuple[tuple[str, str], tuple[list[float], list[float]]]) -> list[str]:
        return headline.sentences(grid(dict(of)))

    assert said(pfifo, codel)[0].startswith("codel keeps delay lowest, at 5.9 % less goodput than pfifo: ")
    both = said(pfifo, codel, near)
    assert both[0].startswith("codel and pie keep delay lowest, at 5.9 % less goodput than pfifo: 95 % of the packets ")
    assert "wait at most 13 ms to 13.5 ms in a, goodput 9.5 to 10 Mbit/s" in both[0]
    assert re.fullmatch(r"No significant difference in delay between them \(about \d+ more seeds? needed\)\.", both[1])
    assert both[2].startswith("With pfifo: ")
    noisy = ("1mbit", "codel"), ([12.0, 14.0, 13.0], [7.4, 11.6, 9.5])
    assert said(pfifo, noisy)[0].startswith(
        "codel keeps delay lowest, at 5.9 % less goodput than pfifo (not significant)"
    )
    alike = said(codel, near)
    assert alike[0].startswith("No significant difference in delay between codel and pie (about ")
    assert alike[1] == "codel has 5 % less goodput than pie."
    assert said(noisy, near)[0].startswith(
        "No significant difference in delay or goodput between codel and pie (about "
    )
    little = ("1mbit", "codel"), ([12.0, 14.0, 13.0], [9.9, 10.1, 10.0])
    assert said(pfifo, little)[0].startswith("codel keeps delay lowest, losing at most 2 % of throughput: ")


def test_a_tie_is_a_win_of_none_and_few_settings_are_named_with_their_numbers() -> None:
    even = [4.0, 4.0, 4.0]
    ten, other, noise = [10.0, 11.0, 12.0], [10.01, 11.01, 12.01], [9.0, 14.0, 11.0]

    def said(*delays: tuple[list[float], list[float]]) -> str:
        rows = {}
        for number, pair in enumerate(delays, 1):
            for qdisc, delay in zip(("codel", "pie"), pair, strict=True):
                rows[f"{number}mbit", qdisc] = (delay, even)
        return headline.sentences(grid(rows))[0]

    low = [2.0, 3.0, 4.0]
    assert said((ten, other), (other, ten)) == (
        "No difference in delay p95 in a in any setting: a.rate 1 Mbit/s 11 ms; a.rate 2 Mbit/s 11 ms."
    )
    assert said((ten, noise), (noise, ten)).startswith("No significant difference in delay p95 in a in any setting: ")
    assert said((ten, other), (ten, noise), (ten, low)) == (
        "Lowest delay p95 in a: no difference (11 ms) with a.rate 1 Mbit/s; "
        "no significant difference (11 ms to 11.3 ms) with a.rate 2 Mbit/s; pie (3 ms) with a.rate 3 Mbit/s."
    )
    many = said((ten, other), (ten, noise), (ten, low), (low, ten), (ten, low))
    assert many == (
        "Lowest delay p95 in a, in 5 settings: "
        "pie in 2, no difference in 1, no significant difference in 1, codel in 1."
    )


def test_a_mean_over_fewer_seeds_than_the_case_has_says_so() -> None:
    full = cases_of({"pfifo": [100.0, 103.0, 101.0], "codel": [5.0, 5.1, 5.2]})
    web = Flow("web0", "web", "right")
    pages: list[list[float | None]] = [[1.0, None, 1.2], [0.2, 0.3, None]]
    some = replace(
        full,
        flows=[web],
        read=lambda address: (
            pages
            if address.path == "page_load_s.p50"
            else [[4.0] * 3, [4.0] * 3]
            if address.path == "goodput_mbit"
            else full.read(address)
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        text = printed(some)
    assert re.search(r"pfifo +1\.1 ±1\.3 \(2\)", text)
    assert text.count("(2) in 2 of 3 seeds: the others have no such number") == 1
    said = headline.sentences(some)
    assert "page load p50 250 ms (in 2 of 3 seeds)" in said[0]
    assert "page load p50 1.1 s (in 2 of 3 seeds)" in said[1]
    assert "seeds:" not in printed(full)


# ---- users ----


def test_users_have_a_row_of_goodput_and_an_index_over_users(tmp_path: Path) -> None:
    path = tmp_path / "two-users.toml"
    path.write_text((ROOT / "scenarios/two-users.toml").read_text().replace('"30s"', '"6s"').replace('"5s"', '"2s"'))
    done = compare(path, seeds=2)
    (users,) = (one for one in table.tables(done.cases()) if one.key == "users")
    assert [column.head for column in users.columns] == ["ann", "bob", "Jain index"]
    of = {"ann": "right", "bob": "right", "backup": "left", "call": "left"}
    for row in users.rows:
        runs = [run.result for run in done.runs if run.result["set"] == done.cases().sets[row.case]]
        sums = []
        for user, names in (("ann", ("ann", "backup")), ("bob", ("bob", "call"))):
            flows = [name for name in names if f"to the {of[name]}" == row.flow]
            each = [
                sum(flow["goodput_mbit"] for flow in run["flows"] if flow["name"].split(".")[0] in flows)
                for run in runs
            ]
            sums.append(each)
            (cell,) = (one for one in row.cells if one.column.head == user)
            assert cell.mean
            assert cell.mean.value == pytest.approx(statistics.fmean(each))
        jain = row.cells[-1].mean
        if row.flow == "to the left":
            assert jain is None, "bob has only a call in this direction"
        else:
            index = [(a + b) ** 2 / (2 * (a * a + b * b)) for a, b in zip(*sums, strict=True)]
            assert jain
            assert jain.value == pytest.approx(statistics.fmean(index))
    (isolated,) = (row for row in users.rows if row.flow == "to the right" and row.case == 2)
    assert isolated.cells[-1].mark != "worst"
    (bulk,) = (one for one in table.tables(done.cases()) if one.key == "bulk")
    assert "jain" not in {column.how for column in bulk.columns}, "over flows of several users it says little"
    swept = sweep(load(path, seeds=2), Store(tmp_path / "store"))
    assert printed(swept.cases(100)) == printed(done.cases())


def test_a_user_that_is_set_or_swept_is_read_from_the_run(tmp_path: Path) -> None:
    text = (ROOT / "scenarios/two-users.toml").read_text()
    assert users_of(text, [{}]) == {
        f"{name}{way}": user
        for name, user in (("ann", "ann"), ("backup", "ann"), ("bob", "bob"), ("call", "bob"))
        for way in ("", ".right", ".left")
    }
    swept = users_of(text, [{"flow.bob.user": "eve"}, {"flow.bob.user": "bob"}])
    assert "bob" not in swept, "it has no one user in all cases"
    assert users_of(text, [{"flow.bob.user": "eve"}])["bob"] == "eve"
    assert users_of("not TOML 1.0 = {\n", [{}]) == {}


def test_the_headline_makes_no_winner_where_there_is_none() -> None:
    empty = headline.sentences(facts_of({"cake": (0.0, 10), "pfifo": (0.02, 10)}))
    assert empty[0].startswith("No queue builds up")
    same = headline.sentences(facts_of({"cake": (50.0, 10), "pfifo": (50.01, 10)}))
    assert same[0].startswith("All cases keep packets waiting equally long")
    assert "Nothing in this scenario is random" in same[-1]
    assert headline.sentences(facts_of({"cake": (50.0, 10)})) == []


def test_where_a_queue_only_moves_to_another_hop_the_headline_is_about_the_path() -> None:
    said = headline.sentences(compare(ROOT / "scenarios/two-hops.toml").cases())
    assert said[0].startswith("router.rate 1.9 Mbit/s is best for pings")
    assert "the path's queues to the right together" in said[0]


def test_no_head_of_a_table_is_broken_within_a_word() -> None:
    columns = [*table.QUEUE, table.GOODPUT, table.USERS_JAIN, *(one for kind in table.KINDS for one in kind.columns)]
    assert not [one.head for one in columns if re.search(r"-( |$)", one.head)]
    assert not [head for head in size_command.HEADS.values() if any(part.endswith("-") for part in head)]


def test_a_time_is_shown_no_finer_than_a_packet() -> None:
    standing = next(one for one in table.QUEUE if one.path == "standing_queue_ms.p50")
    assert table.cell(Mean(0.000032, None, 1), standing) == ("0", "")
    assert table.cell(Mean(0.00162, None, 1), standing)[0] == "0.0016"


@pytest.mark.parametrize(
    ("line", "name", "parameters"),
    [
        ("ccaq variant paper limit 830", "ccaq variant paper", "limit 830"),
        ("red limit 830 variant ns2", "red variant ns2", "limit 830"),
        ("htb rate 8mbit child codel variant rfc8289", "htb + codel variant rfc8289", "rate 8mbit"),
        ("codel limit 9", "codel", "limit 9"),
        ("ccaq; 5s: ccaq variant paper", "ccaq → ccaq variant paper", "5s: ccaq"),
    ],
)
def test_a_short_name_keeps_the_variant(line: str, name: str, parameters: str) -> None:
    """A variant is another algorithm: a picture that calls it by the discipline's name alone says something untrue."""
    assert words.short_name(line) == name
    assert words.parameters_of(line) == parameters
    assert words.short_names([line, "fq_codel"]) == [name, "fq_codel"]
