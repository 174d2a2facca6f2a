"""The first minute of a user who has the wheel and no clone: every command runs in an empty folder."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import ROOT, SOJOURN, Run, skip_loudly
from sojourn import claims, plan
from sojourn.errors import Refusal
from sojourn.kernel import modules
from sojourn.kernel.image import Kernel

Installed = Callable[..., subprocess.CompletedProcess[str]]
COLUMNS = 80
LINE = ("--down", "20mbit", "--up", "2mbit", "--rtt", "30ms", "--buffer", "800ms")
SHORT = ("--set", "duration=3s", "--set", 'measure=["0s", "end"]')


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The command in a fresh environment into which pip installed the wheel, started in an empty folder.

    The packages that sojourn needs are linked from the environment of the tests, so that nothing is downloaded."""
    wheels = sorted((ROOT / "target/wheels").glob("sojourn-*.whl"))
    if len(wheels) != 1:
        skip_loudly("no wheel is in target/wheels, where 'make wheel' leaves it")
    folder = tmp_path_factory.mktemp("fresh")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    there, here = (Path(root) / "lib" / version / "site-packages" for root in (sys.prefix, venv))
    for package in there.iterdir():
        if not package.name.startswith("sojourn"):
            (here / package.name).symlink_to(package)
    python = str(venv / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheels[0])], check=True)
    empty = folder / "empty"
    empty.mkdir()
    known = {key: value for key, value in os.environ.items() if key not in ("SOJOURN_BENCH", "PYTHONPATH")}
    surroundings = known | {"PATH": "/usr/bin:/bin", "COLUMNS": str(COLUMNS), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(venv / "bin/sojourn"), *map(str, words)]
        done = subprocess.run(command, cwd=empty, env=surroundings, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Asserts that the message is one line with these words, and that stdout is empty."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line, line


def test_the_wheel_alone_runs_a_scenario_by_name_and_reports_it(installed: Installed) -> None:
    done = installed("run", "rrul", *SHORT)
    found = re.search(r"report: (results/rrul-001)/report\.html", done.stderr)
    assert found, done.stderr
    report = installed("report", found[1])
    assert "report" in report.stdout + report.stderr
    assert len(json.loads(installed("run", "lte-trace", *SHORT, "-f", "json").stdout)["runs"]) > 1, "with its trace"


def test_the_wheel_alone_checks_sweeps_and_verifies(installed: Installed) -> None:
    assert "RRUL" in installed("check", "rrul").stdout
    words = ("sweep", "static-1.5mbit", "--seeds", "1", *SHORT)
    assert "0 of them played" not in installed(*words).stderr
    assert " 0 of them played now" in installed(*words).stderr, "a scenario found by its name has one identity"
    assert "codel" in installed("verify", "codel", "--traces", "1").stdout


def test_scenarios_are_listed_by_name_with_what_they_are_about_unbroken_at_80_columns(installed: Installed) -> None:
    listed = json.loads(installed("list", "scenarios", "-f", "json").stdout)["scenarios"]
    assert {one["name"] for one in listed} == {path.stem for path in (ROOT / "scenarios").glob("*.toml")}
    lines = installed("list", "scenarios").stdout.splitlines()
    for one in listed:
        assert Path(one["file"]).is_file()
        assert not Path(one["file"]).is_relative_to(ROOT), "the wheel's own"
        (line,) = [line for line in lines if line.split()[:1] == [one["name"]]]
        assert line.endswith(one["title"])
    assert max(map(len, lines)) <= COLUMNS


def test_new_writes_a_line_that_passes_check_and_runs(installed: Installed) -> None:
    said = installed("new", "home-line", *LINE).stdout
    assert "sojourn run home-line.toml" in said
    assert "4 runs of 60 s" in installed("check", "home-line.toml").stdout
    runs = json.loads(installed("run", "home-line.toml", "-f", "json").stdout)["runs"]
    for queue, full, managed in (("home", 600, 50), ("home.reverse", 100, 50)):
        fifo, *others = [run["hops"][queue]["sojourn_ms"]["p95"] for run in runs]
        assert full < fifo <= 820, "as long as the modem's buffer at most"
        assert max(others) < managed
    again = installed("new", "home-line", *LINE, code=2)
    refused(again, "home-line.toml", "not overwritten")


ERRORS = {
    ("run", "rrull"): ["rrull", "nearest is rrul", "sojourn list scenarios"],
    ("check", "scenarios/rrul.toml"): ["scenarios/rrul.toml", "nearest is rrul", "sojourn list scenarios"],
    ("sweep", "nowhere.toml"): ["nowhere.toml", "no such file", "sojourn new"],
    ("agree", "rrull"): ["rrull", "nearest is rrul"],
    ("claims",): ["clone", "--experiments DIR"],
    ("claims", "C7"): ["clone", "--experiments DIR"],
    ("claims", "009"): ["clone", "--experiments DIR"],
    ("figures",): ["clone", "--experiments DIR"],
    ("figures", "001/figure-7"): ["clone", "--experiments DIR"],
    ("bench", "P1"): ["make build", "SOJOURN_BENCH"],
    ("run", "rrul", "--world", "kernel", "-f", "json"): ["5 to 10 minutes, no root", "sojourn kernel build"],
    ("report", "results/none-001"): ["results/none-001"],
    ("lst",): ["lst", "list"],
    ("list", "scenario"): ["scenario", "scenarios"],
}


@pytest.mark.parametrize("words", ERRORS, ids=" ".join)
def test_an_error_outside_a_clone_says_what_to_do(installed: Installed, words: tuple[str, ...]) -> None:
    refused(installed(*words, code=2), *ERRORS[words])


WRONG = {
    ("--down", "20"): ["--down = 20", "expected a rate", "20mbit"],
    ("--down", "5 Mbit/s"): ["--down = 5 Mbit/s", "expected a rate"],
    ("--up", "0mbit"): ["--up = 0mbit", "64kbit to 10gbit"],
    ("--rtt", "30"): ["--rtt = 30", "expected a time", "30ms"],
    ("--buffer", "800 packets"): ["--buffer = 800 packets", "800ms", "1000p"],
    ("--buffer", "800"): ["--buffer = 800", "unit", "800ms", "800p", "480 ms down", "4.8 s up"],
    ("--buffer", "0"): ["--buffer = 0", "expected"],
    ("--access", "docsys"): ["--access", "docsys", "docsis"],
    ("--access", "wifi"): ["--access = wifi", "no fixed rate", "sojourn run wifi-home"],
}


@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
def test_new_names_option_value_and_what_was_expected(sojourn: Run, tmp_path: Path, wrong: tuple[str, str]) -> None:
    refused(sojourn("new", "line", *LINE, *wrong, code=2), *WRONG[wrong])
    assert not list(tmp_path.glob("*.toml"))


def test_new_names_the_framing_that_it_assumes(sojourn: Run, tmp_path: Path) -> None:
    said = sojourn("new", "line", *LINE).stdout
    assert "Assumed, as --access is not given: ADSL" in " ".join(said.split())
    assert "'sojourn new --access' says how to tell" in " ".join(said.split())
    text = (tmp_path / "line.toml").read_text()
    assert "# Assumed, as --access was not given: the line adds the most" in text
    assert (
        "overhead = 44  # bytes that the line adds to each IP packet: the most of all common lines, in ATM cells\n"
        in text
    )
    assert 'linklayer = "atm"' in text
    assert text.count("overhead 44 atm") == 2, "the shapers count what is assumed"
    assumed = json.loads(sojourn("new", "other", *LINE, "-f", "json").stdout)["assumed"]
    assert assumed["access"] == "unknown"
    assert assumed["given"] is False
    told = sojourn("new", "third", *LINE, "--access", "cable").stdout
    assert "ssumed" not in told + (tmp_path / "third.toml").read_text()


def test_new_refuses_a_name_that_is_a_path(sojourn: Run) -> None:
    refused(sojourn("new", "../line", *LINE, code=2), "NAME = ../line", "expected letters")


@pytest.mark.parametrize("access", ["ethernet", "docsis", "vdsl", "unknown"])
@pytest.mark.parametrize(("down", "up", "buffer"), [("64kbit", "64kbit", "1p"), ("2.5mbit", "768kbit", "3s")])
def test_whatever_new_writes_runs(sojourn: Run, access: str, down: str, up: str, buffer: str) -> None:
    sojourn("new", "line.toml", "--down", down, "--up", up, "--buffer", buffer, "--rtt", "1ms", "--access", access)
    runs = json.loads(sojourn("run", "line.toml", *SHORT, "-f", "json").stdout)
    assert [len(runs["runs"]), runs["skipped"]] == [4, []]


def test_what_new_writes_says_up_and_down_and_has_pages_to_measure(sojourn: Run, tmp_path: Path) -> None:
    sojourn("new", "line", *LINE)
    text = (tmp_path / "line.toml").read_text()
    assert '"hop.home.up.qdisc"' in text
    assert not re.search(r'reverse *=|= "(left|right)"', text)
    assert "#   down  800 ms behind 1144 packets\n" in text
    assert "#   up    798 ms behind 114 packets\n" in text
    for run in json.loads(sojourn("run", "line.toml", "-f", "json").stdout)["runs"]:
        objects = sum(flow["completed"] for flow in run["flows"] if flow["kind"] == "web")
        assert objects >= 10, "a quantile needs more than one page"


def test_check_names_an_outage(sojourn: Run, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("time_s,rate_mbit\n0,10\n1,0\n2,5\n")
    (tmp_path / "line.toml").write_text(
        'duration = "9s"\n[[hop]]\nname = "home"\ndelay = "9ms"\nrate = [["0s", "20mbit"], ["3s", "0bit"]]\n'
        'qdisc = "codel"\nup = { rate = { trace = "o.csv" } }\n[[flow]]\nkind = "bulk"\n'
    )
    said = " ".join(sojourn("check", "line.toml").stdout.split())
    assert "20mbit, from 3s outage" in said
    assert "10mbit, from 1s outage, from 2s 5mbit" in said
    assert "1bit" not in said


def test_the_buffer_that_new_assumes_is_a_time(sojourn: Run, tmp_path: Path) -> None:
    assert re.search(r"--buffer .*default: *500ms", " ".join(sojourn("new", "--help").stdout.split()))
    for name, down, access in (
        ("slow", "2mbit", "ethernet"),
        ("fast", "200mbit", "docsis"),
        ("vdsl", "50mbit", "vdsl"),
    ):
        sojourn("new", name, "--down", down, "--up", "1mbit", "--access", access)
        text = (tmp_path / f"{name}.toml").read_text()
        assert re.search(r"#   down  50\d ms behind \d+ packets\n#   up    (49|50)\d ms behind 4\d packets\n", text), (
            text
        )
        assert "--buffer 500ms" in text
        assert max(map(len, text.splitlines())) <= 120


def test_new_explains_every_value_that_a_home_user_may_change(sojourn: Run, tmp_path: Path) -> None:
    sojourn("new", "line", *LINE)
    lines = (tmp_path / "line.toml").read_text().splitlines()
    for key in ("duration", "measure", "delay", "overhead", "start", "page", "count", "interval"):
        first = next(line for line in lines if line.startswith(f"{key} = "))
        assert "  # " in first, first
    zipped = next(place for place, line in enumerate(lines) if line.startswith("zip"))
    assert lines[zipped - 1].startswith("# ")


def test_check_groups_commands_by_interface_and_writes_a_change_as_lines(sojourn: Run, tmp_path: Path) -> None:
    sojourn("new", "line", *LINE)
    text = (tmp_path / "line.toml").read_text()
    first, later = (f"cake bandwidth {rate} overhead 44 atm" for rate in ("19mbit", "9mbit"))
    assert f'"{first}"' in text
    change = f'[["0s", "{first}"], ["30s", "{later}"]]'
    (tmp_path / "line.toml").write_text(text.replace(f'"{first}"', change))
    said = sojourn("check", "line.toml").stdout
    assert f"hop.home.qdisc = {first}; 30s: {later}" in " ".join(said.split())
    assert "\n\n\n" not in said
    _, down, up = said.split("For ")
    assert said.count("tc qdisc del dev eth0 root") == 1
    assert "LAN or an ifb for a download, WAN for an upload" in " ".join(said.split())
    assert down.startswith("home (to the right):")
    assert "rate 19mbit" in down
    assert "1900kbit" not in down
    assert up.startswith("home.reverse (to the left):")
    assert "1900kbit" in up
    assert "19mbit" not in up


def test_a_file_wins_over_a_scenario_of_its_name_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plan.find("home") == plan.bundled()["home"]
    (tmp_path / "home").mkdir()
    assert plan.find("home") == plan.bundled()["home"]
    (tmp_path / "home").rmdir()
    (tmp_path / "home").write_text("")
    assert plan.find("home") == Path("home")
    (tmp_path / "my-line.toml").write_text("")
    (tmp_path / "dsl.toml").write_text("")
    for word, nearest in {"my-line": "my-line", "mi-line": "my-line", "dsl": "dsl", "dls.toml": "dsl"}.items():
        with pytest.raises(Refusal, match=rf"nearest is {nearest}\.toml "):
            plan.find(word)


def test_an_id_names_all_parts_of_a_claim_and_no_other() -> None:
    ids = ("C7", "C7 fq", "C7a", "C70", "C71", "B8", "N1")
    assert [one for one in ids if claims.is_part(one, "C7")] == ["C7", "C7 fq", "C7a"]
    assert [one for one in ids if claims.is_part(one, "C7 fq")] == ["C7 fq"]
    assert [one for one in ids if claims.is_part(one, "C")] == []
    chosen = claims.select(["C7"], ROOT / "experiments")
    assert [claim.id for _, found in chosen for claim in found] == ["C7 fq", "C7 fq_codel", "C7 ccaq"]


def test_make_run_builds_no_bench_program() -> None:
    rules = dict(re.findall(r"(?m)^(run|wheel|build): ([^#]*)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert {name: rule.split() for name, rule in rules.items()} == {
        "run": ["$(VENV)/.wheel"],
        "wheel": ["$(VENV)/.wheel"],
        "build": ["$(VENV)/.wheel", "$(VENV)/.bench"],
    }


def test_a_module_replaces_the_discipline_that_the_kernel_has_built_in_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "modules.builtin").write_text("kernel/net/sched/sch_fq_codel.ko\nkernel/net/sched/sch_pie.ko\n")
    kernel = Kernel(tmp_path / "linux", "7.3.4", 250, "fast", "", build=tmp_path, source=tmp_path)
    for name, replaced in (("sch_mine", None), ("sch_fq_codel", "fq_codel"), ("pie", "pie"), ("sch_fq", None)):
        file = tmp_path / f"{name}.ko"
        file.write_bytes(b"a module")
        own = modules.of_user(kernel, file)
        assert (own.replaces, own.kinds) == (replaced, {name.removeprefix("sch_")})
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "Kbuild").write_text("obj-m := sch_mine.o\nobj-m += sch_other.o\n")
    assert modules.names_in(folder) == ["sch_mine", "sch_other"]
    debian = dataclasses.replace(kernel, machine="x86_64")
    with pytest.raises(Refusal, match="not in Debian's kernel: expected --kernel fast or debug"):
        modules.of_user(debian, tmp_path / "pie.ko")


def test_the_progress_bar_says_no_total_that_is_not_the_runs(tmp_path: Path) -> None:
    main, terminal = os.openpty()
    words = [SOJOURN, "run", "static-100mbit", "--set", "duration=20s", "-f", "csv"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=terminal) as process:
        os.close(terminal)
        said = b""
        with suppress(OSError):  # a terminal ends like this
            while piece := os.read(main, 2**16):
                said += piece
        assert process.wait() == 0
    os.close(main)
    shown = {int(total) for total in re.findall(rb"\d+ of (\d+) simulated seconds", said)}
    assert shown <= {80}, said


def test_check_says_what_the_simulator_does_not_play(sojourn: Run, small: Path) -> None:
    told = sojourn("check", small, "--set", "hop.bottleneck.reverse.qdisc=hhf", "-f", "json")
    assert "'sojourn run' does not play" in told.stderr
    assert "hhf is not built yet in the simulator" in told.stderr
    assert len(json.loads(told.stdout)["refused"]) == 2
    refused = sojourn("run", small, "--set", "hop.bottleneck.reverse.qdisc=hhf", "-f", "json", code=2)
    assert "hhf is not built yet in the simulator" in refused.stderr
    assert json.loads(sojourn("check", small, "-f", "json").stdout)["refused"] == []


def test_new_and_a_shorter_duration_say_what_to_set_too(sojourn: Run, tmp_path: Path) -> None:
    sojourn("new", "line", *LINE)
    refused = sojourn("run", "line.toml", "--set", "duration=5s", code=2)
    assert 'measure = ["10s", "end"]: ' in refused.stderr
    assert 'such as ["500ms", "end"]; a run that is made shorter needs another measure too' in refused.stderr
    sojourn("check", "line.toml", "--set", "duration=5s", "--set", 'measure=["500ms", "end"]')


def test_no_description_is_cut_at_80_columns(sojourn: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ((), ("kernel",)):
        said = sojourn(*words, "--help").stdout
        commands = said[said.index("Commands:") :].splitlines()[1:]
        assert len(commands) >= 3
        assert not [line for line in commands if line.endswith("...")]


def test_claims_are_listed_and_named_by_paper(sojourn: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(sojourn("list", "claims", "-f", "csv", cwd=ROOT).stdout)))
    assert {row["claim"].split("/")[0] for row in rows} == {"000", "001", "002", "003", "004"}
    assert len({row["claim"] for row in rows}) == len(rows)
    assert all(row["says"] and row["worlds"] for row in rows)
    for row in (rows[0], rows[-1]):
        ((experiment, chosen),) = claims.select((row["claim"],), ROOT / "experiments")
        paper, _, claim = row["claim"].partition("/")
        assert experiment.name.startswith(paper)
        assert claim in [one.id for one in chosen]
    missing = sojourn("claims", "001/K1", "--check", cwd=ROOT, code=2)
    assert 'no paper or claim is called "001/K1"' in missing.stderr
