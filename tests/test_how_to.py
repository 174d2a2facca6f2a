"""The diffs in docs/how-to apply to the crates as they are, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT

GUIDE = ROOT / "docs/how-to/add-a-discipline.md"


def copied(folder: Path) -> Path:
    """A workspace with a copy of the core alone, without its tests of all disciplines."""
    settings = (ROOT / "Cargo.toml").read_text().split("[profile.")[0]
    (folder / "Cargo.toml").write_text(re.sub(r"members = \[[^\]]*\]", 'members = ["crates/core"]', settings))
    shutil.copy(ROOT / "Cargo.lock", folder)
    shutil.copytree(ROOT / "crates/core/src", folder / "crates/core/src")
    shutil.copy(ROOT / "crates/core/Cargo.toml", folder / "crates/core")
    return folder


def test_the_discipline_of_the_guide_is_a_file_and_two_lines_of_others_and_its_test_passes(tmp_path: Path) -> None:
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    changed = re.findall(r"^\+\+\+ b/(.*)$", diff, re.M)
    assert sorted(changed) == [f"crates/core/src/{name}.rs" for name in ("qdisc", "qdisc/expire", "qdisc/list")]
    folder = copied(tmp_path)
    subprocess.run(["git", "apply", "-"], input=diff, cwd=folder, text=True, check=True)
    command = ["cargo", "test", "--offline", "--quiet", "--lib", "qdisc::expire::"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target/how-to")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout
