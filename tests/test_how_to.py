"""The diffs in docs/how-to apply to the crates as they are, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT


def copied(folder: Path) -> Path:
    """A workspace with a copy of the core alone, without its tests of all disciplines."""
    settings = (ROOT / "Cargo.toml").read_text().split("[profile.")[0]
    (folder / "Cargo.toml").write_text(re.sub(r"members = \[[^\]]*\]", 'members = ["crates/core"]', settings))
    shutil.copy(ROOT / "Cargo.lock", folder)
    shutil.copytree(ROOT / "crates/core/src", folder / "crates/core/src")
    shutil.copy(ROOT / "crates/core/Cargo.toml", folder / "crates/core")
    return folder


@pytest.mark.parametrize(
    ("guide", "files", "tests"),
    [
        ("add-a-discipline", ("qdisc", "qdisc/expire", "qdisc/list"), "qdisc::expire::"),
        ("add-a-congestion-control", ("tcp/cc", "tcp/cc/scalable"), "tcp::cc::scalable::"),
    ],
)
def test_what_a_guide_adds_is_one_file_and_lines_of_lists_and_its_test_passes(
    guide: str, files: tuple[str, ...], tests: str, tmp_path: Path
) -> None:
    text = (ROOT / f"docs/how-to/{guide}.md").read_text()
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", text, re.M | re.S)
    changed = re.findall(r"^\+\+\+ b/(.*)$", diff, re.M)
    assert sorted(changed) == [f"crates/core/src/{name}.rs" for name in files]
    assert [name for name in changed if not (ROOT / name).exists()] == changed[1:2], "the page adds a file"
    folder = copied(tmp_path)
    subprocess.run(["git", "apply", "-"], input=diff, cwd=folder, text=True, check=True)
    command = ["cargo", "test", "--offline", "--quiet", "--lib", tests]
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target/how-to")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout
