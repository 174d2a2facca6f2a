"""tools/circles.py finds circles of files that need each other, and only those."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from conftest import program


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return program("tools/circles.py")


def found(tool: ModuleType, folder: Path, files: dict[str, str]) -> list[tuple[int, list[str]]]:
    """Length and files of each circle of a crate with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    circles = tool.circles(tool.files_of(folder / "lib.rs"))
    return [(circle.length, sorted(str(file.relative_to(folder)) for file in circle.files)) for circle in circles]


RING = {
    "lib.rs": "mod a; mod b; mod c; mod d; mod e;",
    "a.rs": "use crate::b::B;\npub struct A(B);",
    "b.rs": "pub struct B(super::c::C);",
    "c.rs": "use super::{d::{self}};\npub struct C(d::D);",
    "d.rs": "use crate::a;\npub struct D(Option<Box<a::A>>);",
    "e.rs": "use crate::a::A;\npub struct E(A);",
}


def test_a_circle_of_four_files_is_found_however_they_name_each_other(tool: ModuleType, tmp_path: Path) -> None:
    assert found(tool, tmp_path, RING) == [(4, ["a.rs", "b.rs", "c.rs", "d.rs"])]


@pytest.mark.parametrize(
    "text",
    [
        "pub struct D;",
        "pub(in crate::a) struct D;",
        "// use crate::a::A;\npub struct D;",
        'pub struct D;\npub const WORDS: &str = "crate::a::A";',
        "pub struct D;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn one(_: A) {}\n}",
        "pub use crate::a::A;\npub struct D;",
        "use std::a::A;\npub struct D(A);",
    ],
    ids=["nothing", "a visibility", "a comment", "a text", "a test", "a re-export", "another crate"],
)
def test_what_is_no_need_of_a_file_makes_no_circle(tool: ModuleType, tmp_path: Path, text: str) -> None:
    assert found(tool, tmp_path, RING | {"d.rs": text}) == []


def test_who_names_what_a_file_passes_on_needs_the_file_that_defines_it(tool: ModuleType, tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod low; mod high; pub use high::High; pub use low::Low;",
        "low.rs": "pub struct Low;",
        "high.rs": "use crate::Low;\npub struct High(Low);",
    }
    assert found(tool, tmp_path, files) == []
    assert found(tool, tmp_path, files | {"low.rs": "pub struct Low(Option<Box<crate::High>>);"}) == [
        (2, ["high.rs", "low.rs"])
    ]


def test_the_files_of_one_folder_count_as_one(tool: ModuleType, tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a; mod z;",
        "a.rs": "mod b; mod c; use crate::z::Z; pub struct A(b::B, c::C, Z);",
        "a/b.rs": "use super::A; pub struct B(Option<Box<A>>);",
        "a/c.rs": "use super::A; pub struct C(Option<Box<A>>);",
        "z.rs": "use crate::a::A; pub struct Z(Option<Box<A>>);",
    }
    assert found(tool, tmp_path, files) == [(2, ["a.rs", "a/b.rs", "a/c.rs", "z.rs"])]


def test_a_long_circle_in_a_crate_is_a_fault_of_the_rooms(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = program("tools/rooms.py")
    found(tool, tmp_path, RING)
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    assert rooms.long_circles(tmp_path / "lib.rs") == [
        "4 files need each other; expected at most 3: a.rs, b.rs, c.rs, d.rs"
    ]
