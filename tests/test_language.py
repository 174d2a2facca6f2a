"""The check of the language refuses each listed pattern, in prose only, and passes clean text."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT, program

language = program("tools/language.py")
RULES = language.read_rules()
HELD = RULES.held()
EVERYWHERE = [pattern for pattern in RULES.patterns if pattern.folders is None]


def found(name: str, text: str) -> list[tuple[int, str]]:
    """The line and the pattern of each fault in a text of this name."""
    return [(one.line, one.pattern.name) for one in language.faults_of_text(Path(name), text, EVERYWHERE)]


@pytest.mark.parametrize("pattern", RULES.patterns, ids=lambda pattern: pattern.name)
def test_a_text_with_a_pattern_is_refused_and_the_text_to_write_instead_passes(pattern: language.Pattern) -> None:
    place = ROOT / (pattern.folders[0] if pattern.folders else "docs") / "page.md"
    faults = language.faults_of_text(place, f"# A page\n\nA sentence. {pattern.refused}\n", RULES.patterns)
    assert [(one.line, one.pattern) for one in faults] == [(3, pattern)]
    assert pattern.advice in str(faults[0])
    assert language.faults_of_text(place, f"# A page\n\nA sentence. {pattern.instead}\n", RULES.patterns) == []
    for text in pattern.allowed:
        assert language.faults_of_text(place, f"# A page\n\n{text}\n", RULES.patterns) == []


@pytest.mark.parametrize("pattern", [one for one in RULES.patterns if one.folders], ids=lambda pattern: pattern.name)
def test_a_pattern_of_one_folder_is_not_asked_of_another(pattern: language.Pattern) -> None:
    assert language.faults_of_text(ROOT / "experiments/page.md", pattern.refused, RULES.patterns) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rs", "/// Bytes that were\n/// told.\nlet x = 1;\n"),
        ("a.rs", 'fn f() {\n    g("was told");\n}\n'),
        ("a.c", "/* One line,\n * and told */\n"),
        ("a.py", '\ndef f():\n    """A window.\n\n    It was told.\n    """\n'),
        ("a.py", "x = 1\n# It was\n# told.\n"),
        ("a.py", 'print(\n    "it was "\n    "told"\n)\n'),
        ("a.toml", '# A claim\nsaid = "it was told"\n'),
        ("a.md", "| a | b |\n|---|---|\n| 1 | was told |\n"),
        ("a.md", "- An item\n  that was told\n"),
    ],
)
def test_prose_of_every_language_is_read(name: str, text: str) -> None:
    (line, _), *others = found(name, text)
    assert "told" in text.splitlines()[line - 1]
    assert others == []


def test_words_on_two_lines_are_found_at_the_first() -> None:
    assert found("a.rs", "/// Drops so\n/// many packets.\n") == [(1, "so many")]
    assert found("a.rs", "/// Drops so\nlet a = 1;\n/// many packets.\n") == []


def test_code_is_not_prose() -> None:
    assert found("a.rs", 'let told = beside(news);\nlet a: &\'a str = ""; // `told` is a field\n') == []
    assert found("a.py", "told = beside\n") == []
    assert found("a.py", "x = f\"{told} and {beside['news']}\"\n") == []
    assert found("a.md", "A `told` field.\n\n    told\n\n```\ntold\n```\n\n[link](told.md)\n") == []
    assert found("a.md", "```\ntold\n```\n\ntold\n") == [(5, "told")]


def test_text_that_a_program_writes_is_checked_where_it_is_defined() -> None:
    page = "<!-- table: written by tools/x.py -->\n\ntold\n\n<!-- end of the table -->\n\ntold\n"
    assert found("a.md", page) == [(7, "told")]


def test_a_question_may_begin_with_what_and_a_sentence_may_have_it_in_the_middle() -> None:
    assert found("a.md", "# What does it cost?\n\nIt says what it costs.\n") == []
    assert found("a.md", "# What it costs\n") == [(1, "What")]


def test_the_command_names_file_line_words_and_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nMended: a fault.\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["language.py", str(tmp_path)])
    assert language.main() == 1
    assert f'{page}:3: "Mended: a fault." (mended): write "fixed"' in capsys.readouterr().out
    page.write_text("# A page\n\nFixed: a fault.\n", encoding="utf-8")
    assert language.main() == 0


def test_every_file_with_prose_is_checked_or_excepted_by_name() -> None:
    assert [path for path in language.files([ROOT]) if path not in HELD and not excepted(path)] == []
    assert [path for path in HELD if excepted(path)] == []


def excepted(path: Path) -> bool:
    """Whether `except` of tools/language.toml names this file."""
    return any(language.under(path, place) for place in RULES.excepted)


@pytest.mark.parametrize("place", RULES.excepted)
def test_an_exception_is_of_files_that_are_there(place: str) -> None:
    assert any(language.under(path, place) for path in language.files([ROOT]))


@pytest.mark.parametrize("name", RULES.names)
def test_a_name_is_not_checked_and_is_in_use(name: str) -> None:
    assert language.faults_of_text(Path("a.md"), f"{name}\n", EVERYWHERE, [name]) == []
    assert language.faults_of_text(Path("a.md"), f"{name}\n", EVERYWHERE) != []
    assert any(name in path.read_text(encoding="utf-8") for path in HELD)


def test_a_place_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["language.py", "no-such-folder"])
    with pytest.raises(SystemExit, match="no-such-folder: no such file or folder"):
        language.main()
