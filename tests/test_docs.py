"""Everything shown to readers is run: scenario files, the commands of README and of the help, and the tutorial."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread, imsave

import own
from conftest import ROOT, SOJOURN, Run, kernel_or_skip, live_or_skip, program

SCENARIOS = sorted((ROOT / "scenarios").rglob("*.toml"))
VERBS = ["run", "sweep", "store", "claims", "figures", "check", "replay", "verify", "agree", "bench", "list", "report"]
VERBS += ["kernel", "new", "size", "frontier", "tune", "rfc7928", "shell", "doctor"]
TRACE = "time_ns,op,flow,bytes,ecn\n" + "".join(f"{n * 1000},enqueue,0,1000,0\n" for n in range(20))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_file_loads_and_runs_short(sojourn: Run, path: Path) -> None:
    sojourn("check", path)
    short = ["--set", "duration=2s", "--set", 'measure=["0s", "end"]', "--seeds", "1", "-f", "json"]
    runs = json.loads(sojourn("run", path, *short).stdout)["runs"]
    assert len(runs) >= 1
    assert any(hop["delivered_packets"] > 0 for run in runs for hop in run["hops"].values())


def shown_commands(text: str) -> list[str]:
    """Returns every command line in a document's indented blocks and fences that runs the command."""
    lines = [
        line.strip().removeprefix("$ ")
        for line in text.splitlines()
        if re.match(r"^(    |\t|\$ )", line) or line.startswith("sojourn ")
    ]
    return [line.split("#")[0].strip() for line in lines if line.startswith(("sojourn ", ".venv/bin/sojourn "))]


def documents() -> list[Path]:
    folders = [ROOT / "docs", ROOT / "docs/how-to", ROOT / "docs/explanation"]
    return [ROOT / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the scenarios and the files that the examples expect."""
    for folder in ("scenarios", "experiments", "kernel"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("trace.csv", "arrivals.csv"):
        (tmp_path / name).write_text(TRACE)
    return tmp_path


def perform(command: str, clone: Path) -> None:
    """Runs a command as shown, with a shorter run if it simulates."""
    words = shlex.split(command.split(" > ")[0])
    verb = words[1]
    if verb in ("kernel", "agree") or "kernel" in words:
        kernel_or_skip()
    if verb == "shell" or "live" in words:
        live_or_skip("curl")
    if verb == "claims":  # one claim of the paper is enough
        words = ["N1" if word == "001" else word for word in words]
    if verb == "figures":  # one figure is enough
        words = [*(word for word in words if not word.startswith("001")), "001/figure-3"]
    if "mine.so" in words and not (clone / "mine.so").exists():
        own.library(clone)
    if "mine" in words and not (clone / "mine").exists():
        own.module(kernel_or_skip(), clone / "mine")
    seconds = 6 if verb == "size" else 3  # a standing queue is one that is not empty for 5 s
    cut = ["--set", f"duration={seconds}s", "--set", 'measure=["0s", "end"]']
    short = cut if verb in ("run", "sweep", "size", "agree") else []
    short += ["--seeds", "1", "--store", str(clone / "kept")] if verb == "agree" else []
    short += ["--traces", "2"] if verb == "verify" else []
    if verb == "tune":
        line = ["--set", "duration=3s"] if "--down" not in words else ["--duration", "3"]
        short += [*line, "--seeds", "2", *([] if "--qdisc" in words else ["--qdisc", "fq_codel"])]
    short += ["--duration", "12s", "--seeds", "1"] if verb == "frontier" else []
    short += ["--rows", "5.1.1", "--seeds", "2", "-f", "json"] if verb == "rfc7928" else []
    found = {**os.environ, "PATH": os.pathsep.join([str(Path(SOJOURN).parent), os.environ.get("PATH", os.defpath)])}
    done = subprocess.run(
        [SOJOURN, *words[1:], *short], cwd=clone, env=found, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert done.stdout or done.stderr


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_the_commands_of_a_document_run_in_their_order(document: Path, clone: Path) -> None:
    for command in shown_commands(document.read_text()):
        perform(command, clone)


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_a_document_names_scenarios_as_they_run_from_any_folder(document: Path) -> None:
    assert [command for command in shown_commands(document.read_text()) if " scenarios/" in command] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_in_its_help_and_they_run(sojourn: Run, verb: str, clone: Path) -> None:
    text = sojourn(verb, "--help").stdout
    examples = [line.strip() for line in text.split("Examples:")[1].splitlines() if line.strip()]
    assert len(examples) >= 2
    if verb == "report":
        perform("sojourn run scenarios/fading-link.toml --seeds 1", clone)
    if verb == "store":
        perform("sojourn sweep scenarios/static-1.5mbit.toml", clone)
    if verb == "agree":  # one of the 80 is enough
        for file in sorted((clone / "experiments/agree/drawn").glob("*.toml"))[1:]:
            file.unlink()
    for example in examples:
        perform(example, clone)


def test_the_help_names_every_verb(sojourn: Run) -> None:
    text = sojourn("--help").stdout
    assert all(f"\n  {verb} " in text for verb in VERBS)


def test_readme_names_the_test_command_that_ci_runs() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_the_numbers_of_the_readme_are_those_of_the_recorded_results(tmp_path: Path) -> None:
    readme = program("tools/readme.py")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{readme.BEGIN}{readme.proof()}{readme.END}" in text
    assert text.index(readme.END) < text.index("## The first minutes"), "on the first screen"
    changes = (
        ("replay/kernel-replay.csv", "3392105,0,0,60", "3392105,0,1,60"),
        ("agree/agreement.csv", r"(,p95,\d+,[^,]*,[^,]*,)[^,]*,", r"\g<1>0.5,"),
        ("speed/peers.csv", ",2037,", ",2137,"),
    )
    readme.RECORDED = tmp_path
    for name, *_ in changes:
        (tmp_path / name).parent.mkdir()
        shutil.copyfile(ROOT / "experiments" / name, tmp_path / name)
    for name, old, new in changes:
        file = tmp_path / name
        recorded = file.read_text(encoding="utf-8")
        changed, count = re.subn(old, new, recorded)
        assert count
        file.write_text(changed, encoding="utf-8")
        assert readme.proof() not in text, f"{name}: another result is noticed"
        file.write_text(recorded, encoding="utf-8")


def test_the_table_of_other_simulators_is_the_recorded_result() -> None:
    peers = program("benches/peers.py")
    page = peers.PAGE.read_text(encoding="utf-8")
    assert peers.BEGIN + peers.table(peers.recorded()) + peers.END in page


def test_a_picture_with_another_number_is_not_the_readmes(tmp_path: Path) -> None:
    figures = program("tools/figures.py")
    pixels = imread(figures.PICTURE)
    assert figures.alike(figures.PICTURE, figures.PICTURE)
    changed = pixels.copy()
    high, wide = changed.shape[:2]
    changed[high // 2 : high // 2 + 24, : wide // 4] = 0  # a line of text
    imsave(tmp_path / "changed.png", changed)
    assert not figures.alike(tmp_path / "changed.png", figures.PICTURE)


def test_lists_are_json_csv_and_text(sojourn: Run, clone: Path) -> None:
    for what in ("disciplines", "scenarios", "keys", "reasons"):
        found = json.loads(sojourn("list", what, "-f", "json", cwd=clone).stdout)
        assert len(found[what]) > 3
        assert len(sojourn("list", what, "-f", "csv", cwd=clone).stdout.splitlines()) > 3
        assert sojourn("list", what, cwd=clone).stdout


def test_every_drop_reason_is_explained(sojourn: Run) -> None:
    reasons = json.loads(sojourn("list", "reasons", "-f", "json").stdout)["reasons"]
    page = (ROOT / "docs/reference/reasons.md").read_text()
    assert all(one["meaning"] and f"`{one['reason']}`: {one['meaning']}" in page for one in reasons)


def test_scenarios_are_listed_from_any_folder(sojourn: Run, tmp_path: Path) -> None:
    found = json.loads(sojourn("list", "scenarios", "-f", "json").stdout)["scenarios"]
    assert {Path(one["file"]).name for one in found} == {
        path.name for path in SCENARIOS if path.parent == ROOT / "scenarios"
    }


PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.S)


@pytest.mark.parametrize(
    "document", [d for d in documents() if PYTHON_BLOCK.search(d.read_text())], ids=lambda d: d.name
)
def test_the_python_of_a_document_runs(document: Path, clone: Path) -> None:
    """From top to bottom, as one program."""
    code = "\n".join(PYTHON_BLOCK.findall(document.read_text()))
    if "sojourn.link" in code:
        live_or_skip("curl")
    done = subprocess.run([sys.executable, "-c", code], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout or "print(" not in code


def test_the_scenario_in_the_readme_is_one(sojourn: Run, tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "readme.toml").write_text(text)
    runs = json.loads(sojourn("run", "readme.toml", "--seeds", 2, "-f", "json").stdout)["runs"]
    delays = [run["hops"]["home.reverse"]["sojourn_ms"]["p95"] for run in runs]
    assert min(delays[:2]) > 2 * max(delays[2:]), "what the example is there to show"
    assert all(one != other for one, other in zip(delays[::2], delays[1::2], strict=True)), "a seed makes a difference"
    said = sojourn("check", "readme.toml").stdout
    assert "For home.reverse (to the left):" in said, "an upload goes to the left, which is WAN"


def every_page() -> list[Path]:
    """All Markdown of the repository."""
    folders = ("docs", "experiments", "kernel", "LICENSES")
    return sorted([*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))])


def test_links_between_documents_lead_somewhere() -> None:
    for document in every_page():
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}"


PROGRAM = re.compile(r"\b((?:tools|benches|experiments|crates|kernel|python|tests)/[\w./-]+\.\w{1,4})\b")


def test_files_that_a_document_names_are_there() -> None:
    for document in every_page():
        # A diff may add files.
        text = re.sub(r"```diff\n.*?```", "", document.read_text(), flags=re.DOTALL)
        for name in PROGRAM.findall(text):
            assert (ROOT / name).exists(), f"{document.relative_to(ROOT)}: {name}"


def test_no_file_names_a_registry_or_this_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    forbidden = re.compile(r"pypi\.org|pythonhosted|index-url|find-links|deb\.debian\.org|registry\.npmjs")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name == "tests/test_docs.py" or name == "Makefile" or not path.is_file():
            continue
        found = forbidden.search(path.read_bytes().decode(errors="ignore"))
        assert found is None, f"{name}: {found}"


def test_pages_on_disciplines_name_words_that_a_user_can_write_and_no_type_of_the_source() -> None:
    pages = sorted((ROOT / "docs/reference/disciplines").glob("*.md"))
    named = {
        (page.stem, found)
        for page in pages
        for found in re.findall(r"`[A-Z]\w*[a-z]\w*(?:::\w+)*`|`\w+::\w+`", page.read_text())
    }
    # Two words of tc, which it prints of RED.
    assert named - {(page, word) for page in ("choke", "red") for word in ("`Plog`", "`Scell_log`")} == set()
