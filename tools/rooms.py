"""Checks the rules between the Rust crates with `cargo metadata` and the sources.

core <- model <- measure <- {replay, sim, traffic, live} <- py; live <- link; sim and live must not depend on each
other; only py may name pyo3; unsafe code is allowed only at the border to the operating system, Python or C. No circle
of files in a crate may be longer than three (`circles.py`)."""

import json
import re
import subprocess
import sys
from pathlib import Path

from circles import MOST, circles, files_of

ROOT = Path(__file__).resolve().parent.parent

# The crates of ours that each one may depend on.
MAY_USE = {
    "core": set(),
    "model": {"core"},
    "measure": {"core", "model"},
    "replay": {"core", "measure"},
    "sim": {"core", "model", "measure"},
    "traffic": {"core", "model", "measure"},
    "live": {"core", "model", "measure", "replay", "traffic"},
    "link": {"core", "model", "traffic", "live"},
    "py": {"core", "model", "measure", "replay", "sim", "live", "traffic"},
    "ffi": {"core"},
    "oracle": {"core", "replay"},
    "bench": {"core", "model", "measure", "sim"},
}
PYTHON_ROOM = "py"
PYTHON_CRATES = {"pyo3", "numpy"}
# The bench reads its CPU time and peak memory from the operating system.
MAY_BE_UNSAFE = {"live", "traffic", "py", "ffi", "oracle", "bench"}
UNSAFE = re.compile(r"\bunsafe\s*(\{|fn\b|impl\b|extern\b|trait\b)|allow\(unsafe_code\)|^\s*#!\[expect\(unsafe_code")

TEST = {"test": re.compile(r"#\[test\]|\bproptest!"), "doctest": re.compile(r"^\s*//[/!](\s*```| {5,}\S)")}
"""Tests that run unless Cargo.toml disables them, by the key that disables them."""


def metadata() -> dict:
    """Returns the metadata of the workspace."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def faults_of(package: dict) -> list[str]:
    """Returns a message for every rule that this package breaks."""
    room = package["name"].removeprefix("sojourn-")
    if room not in MAY_USE:
        return [f"{room}: no rule for this room; add it to tools/rooms.py and ARCHITECTURE.md"]
    faults = []
    for dependency in package["dependencies"]:
        name, kind = dependency["name"], dependency["kind"] or "normal"
        if name.startswith("sojourn-") and name.removeprefix("sojourn-") not in MAY_USE[room]:
            faults.append(f"{room} must not depend on {name} ({kind})")
        if name in PYTHON_CRATES and room != PYTHON_ROOM:
            faults.append(f"{room} must not depend on {name}: only {PYTHON_ROOM} knows Python")
    folder = Path(package["manifest_path"]).parent
    if room not in MAY_BE_UNSAFE:
        for source in sorted(folder.rglob("*.rs")):
            for number, line in enumerate(source.read_text().splitlines(), 1):
                if UNSAFE.search(line.split("//")[0]):
                    faults.append(f"{source.relative_to(ROOT)}:{number}: unsafe has no place in {room}")
    if room == "core" and "#![no_std]" not in (folder / "src/lib.rs").read_text():
        faults.append("core must be no_std")
    roots = {
        Path(target["src_path"])
        for target in package["targets"]
        if (folder / "src") in Path(target["src_path"]).parents
    }
    faults += [fault for root in sorted(roots) for fault in long_circles(root)]
    return faults + [fault for target in package["targets"] for fault in unseen_tests(target)]


def long_circles(root: Path) -> list[str]:
    """The circles of files that are too long in the crate whose root is this file."""
    faults = []
    for circle in circles(files_of(root)):
        names = [str(file.relative_to(ROOT)) for file in circle.files]
        if circle.length > MOST:
            faults.append(f"{circle.length} files need each other; expected at most {MOST}: {', '.join(names)}")
    return faults


def unseen_tests(target: dict) -> list[str]:
    """Finds tests in the sources of a target for which Cargo.toml disables tests."""
    path = Path(target["src_path"])
    sources = sorted(path.parent.rglob("*.rs")) if "bin" not in target["kind"] else [path]
    return [
        f"{source.relative_to(ROOT)}:{number}: a test that is not run: {target['name']} has {key} = false in Cargo.toml"
        for key, pattern in TEST.items()
        if not target[key] and target["kind"][0] in ("lib", "cdylib", "staticlib", "bin")
        for source in sources
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def main() -> int:
    """Prints the faults; returns 1 if there are any."""
    packages = metadata()["packages"]
    faults = [fault for package in packages for fault in faults_of(package)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(packages)} rooms keep their rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
