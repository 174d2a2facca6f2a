"""The kernel's own checker of style finds nothing in our disciplines for Linux and their tc plugins."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from conftest import ROOT, kernel_or_skip

FILES = sorted([*(ROOT / "kernel").glob("*.[ch]"), *(ROOT / "kernel/iproute2").glob("*.c")])


def test_checkpatch_is_content() -> None:
    source = kernel_or_skip().source
    script = source / "scripts/checkpatch.pl"
    if not script.is_file() or shutil.which("perl") is None:
        pytest.skip("no checkpatch.pl with the guest's kernel, or no perl")
    command = ["perl", script, "--no-tree", f"--root={source}", "--strict", "--terse", "--file", *FILES]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert len(FILES) >= 10
    found = [line for line in done.stdout.splitlines() if line.startswith(str(ROOT))]
    assert (done.returncode, found) == (0, []), done.stdout
