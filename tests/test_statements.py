"""docs/reference/statements.md: every test and every question that it names exists."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT
from sojourn import verify
from sojourn.verify import vectors

PAGE = (ROOT / "docs/reference/statements.md").read_text()
QDISC = ROOT / "crates/core/src/qdisc"
COUNTS = {"CoDel, RFC 8289": 14, "FQ-CoDel, RFC 8290": 16, "PIE, RFC 8033": 8}
"""The number of statements that each section must have."""
RPM = "Responsiveness under working conditions (RPM), draft-ietf-ippm-responsiveness-06"
COUNTS[RPM] = 10


def test_every_unit_test_that_the_page_names_is_there() -> None:
    named = 0
    for text in PAGE.splitlines():
        for file, names in re.findall(r"`([a-z0-9_/]+\.rs)` ((?:`[a-z0-9_]+`(?:, )?)+)", text):
            source = (ROOT / file if file.startswith("crates/") else QDISC / file).read_text()
            for name in re.findall(r"`([a-z0-9_]+)`", names):
                assert re.search(rf"#\[test\]\s+fn {name}\(", source), f"{file} has no test {name}"
                named += 1
    assert named >= 55


def test_every_question_that_the_page_names_is_asked() -> None:
    asked = 0
    for line, names in re.findall(r"verify `([^`]+)`: ((?:“[^”]+”(?:, )?)+)", PAGE):
        there = {question.name for question in vectors.of(verify.line_of(line)).asked}
        for name in re.findall(r"“([^”]+)”", names):
            assert name in there, f"verify {line} does not ask whether {name}"
            asked += 1
    assert asked >= 35


@pytest.mark.parametrize("section", COUNTS)
def test_no_statement_is_left_out(section: str) -> None:
    part = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", part, re.M) == [str(number) for number in range(1, COUNTS[section] + 1)]


def test_a_statement_without_a_test_says_why() -> None:
    said = PAGE.partition("## Answers of real kernels")[0]
    rows = [line for line in said.splitlines() if line.startswith("| ") and " statement |" not in line]
    without = [row for row in rows if ".rs`" not in row and "verify `" not in row]
    assert len(without) < 5
    for row in without:
        assert re.search(r"not yet: |deviation: |only; ", row), row


def test_every_test_of_the_draft_on_responsiveness_is_on_the_page() -> None:
    named = 0
    for file in (ROOT / "crates").glob("*/src/**/*.rs"):
        for name in re.findall(r"#\[test\]\s+fn (rpm_draft_\w+)\(", file.read_text()):
            assert name in PAGE, f"{file.name}: {name}"
            named += 1
    assert named >= 12


def test_every_rfc_test_of_the_source_is_on_the_page() -> None:
    for file in QDISC.rglob("*.rs"):
        for name in re.findall(r"#\[test\]\s+fn (rfc\d+_\w+)\(", file.read_text()):
            assert name in PAGE, f"{file.name}: {name}"
