"""Builds our modules for a kernel, which takes two seconds. They are kept apart from the kernel, under a digest of
their sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import Refusal
from sojourn.kernel import places, tools
from sojourn.kernel.image import Kernel

SOURCES = ("*.c", "*.h", "Kbuild")


def ensure(kernel: Kernel) -> dict[str, Path]:
    """Returns our modules for this kernel by name. Modules that are not in the cache are built."""
    found: dict[str, Path] = {}
    for folder in places.module_folders():
        found |= build(kernel, folder)
    return found


def build(kernel: Kernel, folder: Path) -> dict[str, Path]:
    """Builds the modules that a folder's Kbuild names, and returns them by name. Raises Refusal with the compiler's
    first error.
    """
    sources = sorted(file for pattern in SOURCES for file in folder.glob(pattern))
    digest = hashlib.sha256(kernel.digest.encode())
    for file in sources:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    shelf = places.cache() / "modules"
    place = shelf / digest.hexdigest()[:24]
    if not place.is_dir():
        shelf.mkdir(parents=True, exist_ok=True)
        # One at a time: the kernel's build system is not made for two modules at once in one tree.
        with (shelf / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                _build_into(kernel, sources, place)
    return {file.stem: file for file in sorted(place.glob("*.ko"))}


@dataclass(frozen=True)
class Own:
    """Modules of the user's, for a kernel."""

    files: dict[str, Path]
    """By name."""
    replaces: str | None = None
    """The discipline of the kernel's that they replace."""

    @property
    def kinds(self) -> set[str]:
        """The disciplines that they are, by their names: `codel` for sch_codel.ko."""
        return {kind_of(name) for name in self.files}

    @property
    def digest(self) -> str:
        """The digest of the files."""
        whole = hashlib.sha256()
        for name in sorted(self.files):
            whole.update(hashlib.sha256(self.files[name].read_bytes()).digest())
        return whole.hexdigest()


def kind_of(module: str) -> str:
    """The discipline of a module, by the module's name."""
    return module.removeprefix("sch_")


def names_in(module: Path) -> list[str]:
    """The names of the modules in a file or folder of the user's, which are not built for this. Raises Refusal for
    anything else.
    """
    if module.is_dir():
        kbuild = module / "Kbuild"
        text = kbuild.read_text(encoding="utf-8", errors="replace") if kbuild.is_file() else ""
        found = re.findall(r"^obj-m\s*[:+]?=\s*(.*)$", text, re.M)
        names = [word.removesuffix(".o") for line in found for word in line.split() if word.endswith(".o")]
        if not names:
            raise Refusal(f"--qdisc-module = {module}: its Kbuild makes no module: expected one such as obj-m := my.o")
        return names
    if module.suffix != ".ko" or not module.is_file():
        raise Refusal(f"--qdisc-module = {module}: expected a module such as my.ko, or a folder with a Kbuild")
    return [module.stem]


def of_user(kernel: Kernel, module: Path) -> Own:
    """Builds a folder's modules, or takes a file. A module replaces the discipline that is built into the kernel under
    the same name.

    Raises Refusal if the modules do not build, or replace several disciplines.
    """
    names = names_in(module)
    files = build(kernel, module) if module.is_dir() else {module.stem: module.resolve()}
    listed = kernel.build / "modules.builtin"
    within = {Path(line).stem for line in listed.read_text().splitlines()} if listed.is_file() else set()
    replaced = [kind_of(name) for name in names if name in within or f"sch_{name}" in within]
    if len(replaced) > 1:
        raise Refusal(f"--qdisc-module = {module}: replaces {' and '.join(replaced)}: expected one at a time")
    if kernel.machine != "um":
        raise Refusal(f"--qdisc-module = {module}: not in Debian's kernel: expected --kernel fast or debug")
    return Own(files, replaced[0] if replaced else None)


def _build_into(kernel: Kernel, sources: list[Path], place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".new-", dir=place.parent) as private:
        work, made = Path(private) / "work", Path(private) / "made"
        work.mkdir()
        made.mkdir()
        for file in sources:
            shutil.copyfile(file, work / file.name)
        compile_in(kernel, work)
        for module in work.glob("*.ko"):
            shutil.copyfile(module, made / module.name)
        made.rename(place)


def compile_in(kernel: Kernel, work: Path) -> None:
    """Runs the kernel's build system on a folder of ours that has a Kbuild."""
    trees = ["-C", str(kernel.source), f"O={kernel.build}", f"ARCH={kernel.machine}", *tools.NO_OTHER_TOOLS]
    if kernel.variant == "debian":
        # Types for BPF would need the whole kernel and one more program.
        trees = ["-C", str(kernel.build), "CONFIG_DEBUG_INFO_BTF_MODULES="]
    command = ["make", "-s", *trees, f"M={work}", "modules"]
    done = subprocess.run(command, env=tools.environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        (places.cache() / "modules.log").write_text(done.stdout + done.stderr)
        lines = (done.stderr + done.stdout).splitlines()
        first = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
        words = first.replace(f"{work}/", "").strip()
        raise Refusal(f"a module for Linux {kernel.release} does not build: {words} ({places.cache()}/modules.log)")


def depends(module: bytes) -> list[str]:
    """Returns the modules that a module declares as its dependencies."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def tc_plugins() -> Path:
    """Returns the folder with tc's plugins for our disciplines. They are built once, from the sources of the system's
    own tc.
    """
    source = places.shared() / "kernel" / "iproute2"
    tc = subprocess.run(["tc", "-V"], capture_output=True, text=True, check=False, env=tools.environment())
    digest = hashlib.sha256(tc.stdout.encode())
    for file in sorted([*source.glob("*"), *source.parent.glob("*_uapi.h")]):
        digest.update(file.read_bytes())
    place = places.cache() / "tc" / digest.hexdigest()[:24]
    if not all((place / f"{file.stem}.so").is_file() for file in source.glob("q_*.c")):
        command = [str(source / "build.sh"), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=tools.environment())
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise Refusal(f"tc's plugins for ccaq and dualpi2 can't be built: {lines[-1]}")
    return place
