"""Builds a guest's kernel into the cache, with our configuration and patches. Its folder is named by a digest of
everything that it is made from.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.errors import Refusal
from sojourn.kernel import image, modules, places, qemu, recipe, source, store, tools
from sojourn.kernel.image import Kernel
from sojourn.kernel.source import Source, Tell

OBJECTS = {"fast": 900, "debug": 1050, "smp-kasan": 1500, "smp-kcsan": 1450}
"""About how many files are compiled for each variant. The progress is estimated from it."""
STAGES = ("fetch", "unpack", "configure", "compile", "modules")
IMAGE = {"um": "linux", "x86_64": "arch/x86/boot/bzImage"}
"""The kernel's file in the build tree; its name is also the target of make."""
MUST_HAVE = {
    "CONFIG_HOSTFS=y",
    "CONFIG_UML_TIME_TRAVEL_SUPPORT=y",
    "CONFIG_NET_SCHED=y",
    "CONFIG_MODULES=y",
    "CONFIG_SMP=y",
    "CONFIG_VIRTIO_CONSOLE=y",
    "CONFIG_KASAN=y",
    "CONFIG_KCSAN=y",
}
"""Options without which a kernel that asks for them is of no use."""
KEPT_OF_SOURCE = (
    "Makefile",
    "Kbuild",
    "Kconfig",
    "scripts",
    "include",
    "arch/um",
    "arch/x86",
    "tools/include",
    "net/sched",
    "lib/dynamic_queue_limits.c",
)
"""Files that are kept for building modules later, for reading the disciplines' sources, and for crates/oracle."""
USELESS_IN_BUILD = ("*.o", "*.a", "*.cmd", "*.order", "*.i", "*.s", "vmlinux*", "linux", "*.lds", "System.map")


@dataclass
class Stages:
    """Measures how long each stage of a build takes."""

    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    def end(self, name: str) -> None:
        """Ends a stage and begins the next one."""
        now = time.monotonic()
        self.seconds[name] = round(now - self.begin, 1)
        self.begin = now
        self.tell(name, 1.0)


def build(
    *,
    variant: str = "fast",
    hz: int = 250,
    version: str | None = None,
    tree: Path | None = None,
    update: bool = False,
    jobs: int | None = None,
    tell: Tell = lambda _stage, _share: None,
) -> tuple[Path, bool]:
    """Builds a kernel if the cache does not have it. Returns its folder in the cache, and whether it was built just
    now.

    Without `update`, a kernel in the cache is used if it fits and was made by the same recipe, even if a newer source
    is available. Then nothing is downloaded.
    """
    if platform.machine() != "x86_64":
        raise Refusal(
            f"the kernel world needs an x86_64 machine, as User-Mode Linux does: this is {platform.machine()}"
        )
    tools.bring()
    if recipe.machine(variant) == "x86_64":
        tools.unpack(*qemu.PACKAGES)
    if variant == "debian":
        if hz != qemu.HZ or tree is not None:
            raise Refusal(f"--variant debian is Debian's own kernel: expected --hz {qemu.HZ} and no --source")
        return qemu.build(version, tell)
    whole = recipe_of(variant, hz)
    if tree is None and not update:
        kept = [one for one in store.folders() if store.facts(one)["recipe"] == whole]
        kept = [one for one in kept if version is None or f"{store.facts(one)['release']}.".startswith(f"{version}.")]
        if kept:
            return max(kept, key=lambda one: image.version_of(store.facts(one)["release"])), False
    with ExitStack() as stack:
        chosen = source.of_tree(tree) if tree else stack.enter_context(source.packages(version))[0]
        return _build_from(chosen, variant, hz, whole, jobs or os.cpu_count() or 1, tell)


def recipe_of(variant: str, hz: int) -> str:
    """Returns the digest of everything except the source: configuration, patches, compiler, variant and HZ."""
    digest = hashlib.sha256(f"{variant} {hz} {platform.machine()} {compiler()}".encode())
    digest.update(recipe.digest(variant).encode())
    return digest.hexdigest()


def compiler() -> str:
    """Returns the versions of the compiler and linker, which a kernel's bytes depend on."""
    environment = tools.environment()
    said = [
        subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()[0]
        for words in (["gcc", "--version"], ["ld", "--version"])
    ]
    return "; ".join(said)


def _build_from(chosen: Source, variant: str, hz: int, whole: str, jobs: int, tell: Tell) -> tuple[Path, bool]:
    digest = hashlib.sha256(f"{whole} {chosen.identity}".encode()).hexdigest()
    place = places.cache() / f"{chosen.version}-{variant}-hz{hz}-{digest[:12]}"
    with _alone(digest):
        if (place / store.FACTS).is_file():
            return place, False
        store.sweep_leftovers()
        private = Path(tempfile.mkdtemp(prefix=f"{store.TEMPORARY}{os.getpid()}-", dir=places.cache()))
        try:
            known = _make(chosen, private, variant, hz, jobs, Stages(tell))
            known |= {
                "digest": digest,
                "recipe": whole,
                "ours": recipe.digest(variant),
                "source": chosen.identity,
                "compiler": compiler(),
            }
            (private / store.FACTS).write_text(json.dumps(known, indent=1) + "\n")
            if place.exists():
                store.remove(place)
            private.rename(place)
        finally:
            shutil.rmtree(private, ignore_errors=True)
    return place, True


@contextmanager
def _alone(digest: str) -> Iterator[None]:
    """Locks a kernel while it is built. If two processes want the same kernel, the second waits, and then finds it
    built.
    """
    places.cache().mkdir(parents=True, exist_ok=True)
    with (places.cache() / f".lock-{digest[:12]}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(chosen: Source, private: Path, variant: str, hz: int, jobs: int, stages: Stages) -> dict[str, Any]:
    tree, out = private / "source", private / "build"
    out.mkdir()
    if chosen.package:
        source.archive(chosen, stages.tell)
    stages.end("fetch")
    source.unpack(chosen, tree, stages.tell)
    stages.end("unpack")
    _patch(tree)
    _set_hz(tree, hz)
    absent = _configure(tree, out, variant, hz)
    stages.end("configure")
    _compile(tree, out, variant, jobs, stages.tell)
    stages.end("compile")
    machine = recipe.machine(variant)
    shutil.copyfile(out / IMAGE[machine], private / "linux")
    (private / "linux").chmod(0o755)
    if machine == "um":
        subprocess.run(["strip", private / "linux"], check=True, env=tools.environment())
    release = (out / "include" / "config" / "kernel.release").read_text().strip()
    _prune(tree, out)
    kernel = Kernel(private / "linux", release, hz, variant, "", out, tree, machine=machine)
    _try_a_module(kernel, private)
    stages.end("modules")
    return {
        "release": release,
        "variant": variant,
        "hz": hz,
        "machine": machine,
        "not_in_this_linux": absent,
        "stages_s": stages.seconds,
    }


def _patch(tree: Path) -> None:
    for patch in recipe.patches():
        command = ["patch", "-p1", "--forward", "--batch", "--silent", "-i", str(patch)]
        optional = "\nNeeded: where it applies\n" in patch.read_text()
        rehearsal = subprocess.run(
            [*command, "--dry-run"], cwd=tree, capture_output=True, text=True, check=False, env=tools.environment()
        )
        if rehearsal.returncode == 0:
            subprocess.run(command, cwd=tree, check=True, capture_output=True, env=tools.environment())
        elif not optional:
            raise Refusal(f"{patch.name} does not apply to this Linux: {rehearsal.stdout.strip().splitlines()[0]}")


def _set_hz(tree: Path, hz: int) -> None:
    """Sets HZ in the Kconfig of User-Mode Linux, where it is a constant."""
    file = tree / "arch" / "um" / "Kconfig"
    text, count = re.subn(r"(^config HZ\n\tint\n\tdefault )\d+$", rf"\g<1>{hz}", file.read_text(), flags=re.M)
    if count != 1:
        raise Refusal(f"{file}: expected 'config HZ' with a default, to set it to {hz}")
    file.write_text(text)


def _make_command(tree: Path, out: Path, variant: str, *words: str) -> list[str]:
    machine = recipe.machine(variant)
    elf = tools.libelf() if machine == "x86_64" else ()
    return ["make", "-C", str(tree), f"O={out}", f"ARCH={machine}", *tools.NO_OTHER_TOOLS, *elf, *words]


def _configure(tree: Path, out: Path, variant: str, hz: int) -> list[str]:
    """Writes .config. Returns the options that this Linux does not have."""
    wanted = out / "wanted.config"
    # User-Mode Linux has no such choice: see _set_hz.
    rate = f"CONFIG_HZ_{hz}=y\n" if recipe.machine(variant) == "x86_64" else ""
    wanted.write_text(recipe.configuration(variant) + rate)
    environment = {**tools.environment(), "KCONFIG_ALLCONFIG": str(wanted)}
    said = tools.run(_make_command(tree, out, variant, "-s", "allnoconfig"), surroundings=environment)
    config = out / ".config"
    made = set(config.read_text().splitlines()) if config.is_file() else set()
    lost = sorted(option for option in MUST_HAVE & set(wanted.read_text().splitlines()) if option not in made)
    if lost:
        words = f"{', '.join(lost)} did not take; {first_error(said)}"
        raise Refusal(f"this Linux can't be configured as a guest: {words}")
    asked = [line for line in wanted.read_text().splitlines() if not line.startswith("#")]
    return [line for line in asked if line not in made]


def _compile(tree: Path, out: Path, variant: str, jobs: int, tell: Tell) -> None:
    log = places.cache() / "build.log"
    done = 0

    def count(line: str) -> None:
        nonlocal done
        if line.startswith("  CC"):
            done += 1
            tell("compile", min(done / OBJECTS[variant], 0.99))

    image = IMAGE[recipe.machine(variant)]
    command = _make_command(tree, out, variant, f"-j{jobs}", image.rsplit("/", 1)[-1], "modules")
    said = tools.run(command, line=count)
    if not (out / image).is_file() or not (out / "Module.symvers").is_file():
        log.write_text(said)
        raise Refusal(f"the kernel does not build: {first_error(said)} ({log})")


def first_error(said: str) -> str:
    """Returns the most informative line of make's output: the first one about an error, or else the last."""
    lines = said.splitlines() or ["no message"]
    return next((line.strip() for line in lines if re.search(r"error|Error |\*\*\*", line)), lines[-1].strip())


def _prune(tree: Path, out: Path) -> None:
    """Removes all files that are not needed for building modules."""
    kept = {tree / part for part in KEPT_OF_SOURCE}
    for folder in (tree, *(tree / part for part in ("arch", "lib", "net", "tools"))):
        for top in folder.iterdir():
            if not any(top == one or top in one.parents for one in kept):
                _remove(top)
    for top in out.iterdir():
        if top.is_dir() and top.name not in ("include", "scripts", "arch", "tools"):
            _remove(top)
    for pattern in USELESS_IN_BUILD:
        for file in [one for one in out.rglob(pattern) if one.is_file()]:
            if "scripts" not in file.relative_to(out).parts or file.suffix in (".o", ".cmd", ".a"):
                file.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _try_a_module(kernel: Kernel, private: Path) -> None:
    """Builds a module of three lines with the files that were kept, to see that they suffice."""
    work = private / "try"
    work.mkdir()
    (work / "try.c").write_text('#include <linux/module.h>\n#include <net/pkt_sched.h>\nMODULE_LICENSE("GPL");\n')
    (work / "Kbuild").write_text("obj-m := try.o\n")
    modules.compile_in(kernel, work)
    shutil.rmtree(work)
