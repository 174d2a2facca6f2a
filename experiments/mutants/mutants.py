"""Changes the decisions of our disciplines one by one, and sees whether their tests notice: cargo-mutants at work.

    python experiments/mutants/mutants.py [NAME…] [--program PATH]

Comparisons, connectives and negations of the files below are changed in a copy of the tree under target/. Each
is tested by the tests of its discipline alone. A change that survives needs a reason in mutants.toml, else the exit
code is 1. The table in README.md is written again. With NAMEs only those are done, the others' results kept.
cargo-mutants 27 (`cargo install cargo-mutants`) must be in the path, or is named.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
QDISC = "crates/core/src/qdisc"
PAGE, REASONS = FOLDER / "README.md", FOLDER / "mutants.toml"
WORK = ROOT / "target/mutants"
BEGIN, END = "<!-- table: written by experiments/mutants/mutants.py -->", "<!-- end of table -->"
DECISIONS = r"replace (==|!=|<=?|>=?|&&|\|\|) with|delete !"
"""Mutations of decisions in the code."""
OTHERS = r"delete field|is_full|impl Parameters|Params::|dequeue_into|Law>::micros"
"""Excluded code: it reads parameters, prints counters, or reports the fill level of the buffer."""
TESTS = {"flows": ("flows", "fq_codel"), "codel": ("codel",), "fq": ("fq", "ccaq")}
"""Modules whose tests are run; by default those of the discipline."""
NAMES = ("fifo", "codel", "fq_codel", "flows", "choke", "blue", "sfb", "sfq", "fq_pie", "red", "dualpi2", "fq", "pie")
FAST = {
    "CARGO_PROFILE_TEST_OPT_LEVEL": "0",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
    "PROPTEST_CASES": "20",
}


@dataclass(frozen=True)
class Mutant:
    """One change and its outcome. `code` is its line, with the changed part between « and »."""

    file: str
    what: str
    code: str
    outcome: str

    @property
    def key(self) -> str:
        """Key of the reason, independent of line numbers."""
        return f"{self.file}: {self.what}: {self.code}"


def copied() -> Path:
    """Copies the tree as git has it, with uncommitted changes."""
    tree = WORK / "tree"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().splitlines():
        source, target = ROOT / name, tree / name
        if not (name.startswith(("crates/", "benches/", "Cargo")) and source.is_file()):
            continue
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return tree


def changed(name: str, tree: Path, program: str, most: int) -> list[Mutant]:
    """Makes and tests the mutants of one discipline: all, or every n-th so that there are at most `most`."""
    folder = tree / QDISC
    files = [file for file in [folder / f"{name}.rs", *sorted(folder.glob(f"{name}/*.rs"))] if file.exists()]
    out = WORK / name
    shutil.rmtree(out, ignore_errors=True)
    words = [program, "mutants", "--no-shuffle", "--colors=never", "--re", DECISIONS, "--exclude-re", OTHERS]
    words += [word for file in files for word in ("-f", str(file.relative_to(tree)))]
    listed = subprocess.run([*words, "--list"], cwd=tree, check=True, capture_output=True, text=True).stdout
    of = len(listed.splitlines())
    words += ["--shard", f"0/{-(-of // most)}", "--sharding", "round-robin"] if 0 < most < of else []
    words += ["--in-place", "--timeout=30", "-o", str(out), "-p", "sojourn-core", "--", "--lib", "--"]
    words += [f"qdisc::{module}::" for module in TESTS.get(name, (name,))]
    _run(name, words, tree)
    (out / "of").write_text(str(of))
    return read(name)


def missed(name: str, tree: Path, program: str) -> list[Mutant]:
    """Repeats the tests of surviving mutants that have no reason yet."""
    reasons = known()
    outcomes = [one for one in _outcomes(WORK / name) if one["summary"] == "MissedMutant"]
    names = [one["scenario"]["Mutant"]["name"] for one in outcomes if _mutant(one, WORK / name).key not in reasons]
    if names:
        words = [
            program,
            "mutants",
            "--no-shuffle",
            "--colors=never",
            "--in-place",
            "--timeout=30",
            "--exclude-re",
            OTHERS,
        ]
        words += ["--re", "|".join(re.escape(one) for one in names), "-o", str(WORK / name / "again")]
        words += ["-p", "sojourn-core", "--", "--lib", "--"]
        words += [f"qdisc::{module}::" for module in TESTS.get(name, (name,))]
        _run(name, words, tree)
    return read(name)


def _run(name: str, words: list[str], tree: Path) -> None:
    done = subprocess.run(words, cwd=tree, env=os.environ | FAST, check=False, stdout=sys.stderr)
    if done.returncode not in (0, 2, 3):
        raise SystemExit(f"{name}: cargo mutants ended with {done.returncode}: see {WORK / name}")


def known() -> dict[str, str]:
    """Returns the reasons of survivors."""
    return {one["mutant"]: one["why"] for one in tomllib.loads(REASONS.read_text()).get("equivalent", [])}


def _outcomes(folder: Path) -> list[dict[str, Any]]:
    file = folder / "mutants.out/outcomes.json"
    every = json.loads(file.read_text())["outcomes"] if file.exists() else []
    return [one for one in every if isinstance(one["scenario"], dict)]


def _mutant(outcome: dict[str, Any], folder: Path) -> Mutant:
    one = outcome["scenario"]["Mutant"]
    start, end = one["span"]["start"], one["span"]["end"]
    # The line as it was, because the tree may have changed since.
    change = (folder / "mutants.out" / outcome["diff_path"]).read_text().splitlines()
    line = next(line[1:] for line in change if line.startswith("-") and not line.startswith("---"))
    begin, stop = start["column"] - 1, end["column"] - 1
    what = one["name"].split(": ", 1)[1]
    code = f"{line[:begin]}«{line[begin:stop]}»{line[stop:]}".strip()
    return Mutant(one["file"].removeprefix(QDISC + "/"), what, code, outcome["summary"])


def read(name: str) -> list[Mutant]:
    """Reads the latest results of cargo-mutants."""
    folders = (WORK / name, WORK / name / "again")
    last = {one["scenario"]["Mutant"]["name"]: (one, folder) for folder in folders for one in _outcomes(folder)}
    return [_mutant(*last[one["scenario"]["Mutant"]["name"]]) for one in _outcomes(WORK / name)]


def page(found: dict[str, list[Mutant]], reasons: dict[str, str]) -> str:
    """Formats the table, and the survivors with their reasons."""
    rows = ["| part | could be made | made | caught | out of time | not compiled | survived |"]
    rows.append("|---|--:|--:|--:|--:|--:|--:|")
    words = ("CaughtMutant", "Timeout", "Unviable", "MissedMutant")
    for name, mutants in found.items():
        counts = [sum(one.outcome == word for one in mutants) for word in words]
        could = (WORK / name / "of").read_text()
        rows.append(f"| {name} | {could} | {len(mutants)} | " + " | ".join(map(str, counts)) + " |")
    every = [one for mutants in found.values() for one in mutants]
    totals = [len(every), *(sum(one.outcome == word for one in every) for word in words)]
    rows.append("| all | | " + " | ".join(map(str, totals)) + " |")
    rows += ["", "Those that survived change nothing that can be seen:", ""]
    rows += ["| where | change | code | why nothing changes |", "|---|---|---|---|"]
    for key, one in {one.key: one for one in every if one.outcome == "MissedMutant"}.items():
        what, _, where = one.what.partition(" in ")
        code = one.code.replace("|", "\\|")
        rows.append(
            f"| {one.file}, `{where}` | {what.replace('|', chr(92) + '|')} | `{code}` | {reasons.get(key, '?')} |"
        )
    return "\n".join(rows)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--program", default="cargo-mutants", help="Where cargo-mutants is.")
@click.option("--most", default=0, help="The largest number of mutants of each discipline, evenly drawn; 0: all.")
@click.option("--missed", "only_missed", is_flag=True, help="Test only those again that survived without a reason.")
@click.option("--read", "only_read", is_flag=True, help="Test nothing: only write down what was found.")
def main(names: tuple[str, ...], program: str, most: int, only_missed: bool, only_read: bool) -> None:
    """Runs the program."""
    tree = WORK / "tree" if only_read else copied()
    found = {}
    for name in NAMES:
        asked = not only_read and (not names or name in names)
        if asked and only_missed:
            missed(name, tree, program)
        elif asked:
            changed(name, tree, program, most)
        if mutants := read(name):
            found[name] = mutants
    reasons = known()
    PAGE.write_text(filled(PAGE.read_text(), BEGIN, END, page(found, reasons)))
    survived = [one.key for mutants in found.values() for one in mutants if one.outcome == "MissedMutant"]
    unexplained = [key for key in survived if key not in reasons]
    for key in unexplained:
        print(f"survives, without a reason in mutants.toml: {key}")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
