"""Finds, lists and removes the kernels in the cache.

A kernel is a folder named by version, variant, HZ and the digest of everything that it was made from. It holds the
program `linux`, `kernel.json` with facts about it, and `build` and `source`, against which modules are built.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.errors import Refusal
from sojourn.kernel import modules, places, recipe, source
from sojourn.kernel.image import Kernel

VARIANTS = (*recipe.FILES, "debian")
RATES_HZ = (100, 250, 1000)
FACTS = "kernel.json"
TEMPORARY = ".new-"
"""The beginning of an unfinished folder's name."""


def find(variant: str = "fast", hz: int = 250, version: str | None = None) -> Kernel:
    """Returns the newest kernel of the cache that fits, with our modules. These are built if their sources changed.

    The environment variable SOJOURN_KERNEL names a build tree that is used instead. `version` is a prefix: 6.1, 7.3.4.
    """
    asked = os.environ.get("SOJOURN_KERNEL")
    own = asked and recipe.machine(variant) == "um"
    found = [of_tree(Path(asked))] if asked and own else _fitting(variant, hz, version)
    if not found:
        if version is not None and (have := sorted({one.release for one in _fitting(variant, hz, None)})):
            could = f"{source.OLDEST[0]}.{source.OLDEST[1]} to {source.NEWEST[0]}.x"
            raise Refusal(
                f"kernel {version}: not built: expected one that is ({', '.join(have)}); 'sojourn kernel build "
                f"--version V' builds others, from Linux {could}, where apt has their source"
            )
        stale = "; the one in the cache was built from other patches or another configuration" * _stale(variant, hz)
        words = f" --variant {variant}" * (variant != "fast") + f" --hz {hz}" * (hz != 250)
        words += f" --version {version}" if version else ""
        raise Refusal(
            f"the kernel world needs a Linux kernel, built once (5 to 10 minutes, no root){stale}: "
            f"sojourn kernel build{words}"
        )
    kernel = max(found, key=lambda one: (one.version, one.linux.stat().st_mtime))
    return replace(kernel, modules=modules.ensure(kernel))


def _fitting(variant: str, hz: int, version: str | None) -> list[Kernel]:
    def fits(one: Kernel) -> bool:
        right = version is None or (one.release + ".").startswith((version + ".", version + "-", version + "+"))
        return one.variant == variant and one.hz == hz and right and is_current(one.linux.parent)

    return [one for one in (of_folder(folder) for folder in folders()) if one is not None and fits(one)]


def _stale(variant: str, hz: int) -> bool:
    known = [facts(folder) for folder in folders() if not is_current(folder)]
    return any(one["variant"] == variant and one["hz"] == hz for one in known)


def is_current(folder: Path) -> bool:
    """Returns whether a kernel of the cache was made from the current configuration and patches. Debian's kernel has
    none of ours, so it is always current.
    """
    known = facts(folder)
    variant = known["variant"]
    return variant == "debian" or (variant in recipe.FILES and known.get("ours") == recipe.digest(variant))


def folders() -> list[Path]:
    """The finished kernels of the cache."""
    if not places.cache().is_dir():
        return []
    return sorted(folder for folder in places.cache().iterdir() if (folder / FACTS).is_file())


def facts(folder: Path) -> dict[str, Any]:
    """The facts that were recorded when the kernel was built."""
    found: dict[str, Any] = json.loads((folder / FACTS).read_text())
    return found


def of_folder(folder: Path) -> Kernel | None:
    """Returns the kernel in a folder of the cache, or None if the folder was removed."""
    try:
        known = facts(folder)
    except (OSError, ValueError):
        return None
    return Kernel(
        linux=folder / "linux",
        release=known["release"],
        hz=known["hz"],
        variant=known["variant"],
        digest=known["digest"],
        build=folder / "build",
        source=folder / "source",
        machine=known.get("machine", "um"),
    )


def of_tree(tree: Path) -> Kernel:
    """The kernel in a build tree (`make O=`) of the user's."""
    linux, config = tree / "linux", tree / ".config"
    release = tree / "include" / "config" / "kernel.release"
    for file in (linux, config, release, tree / "Module.symvers"):
        if not file.is_file():
            raise Refusal(
                f"SOJOURN_KERNEL = {tree}: {file.name} is not there: expected a tree with a built ARCH=um kernel"
            )
    text = config.read_text()
    hz = re.search(r"^CONFIG_HZ=(\d+)$", text, re.M)
    return Kernel(
        linux=linux.resolve(),
        release=release.read_text().strip(),
        hz=int(hz[1]) if hz else 100,
        variant="debug" if "CONFIG_PROVE_LOCKING=y" in text else "fast",
        digest=hashlib.sha256(linux.read_bytes()).hexdigest(),
        build=tree.resolve(),
        source=(tree / "source").resolve() if (tree / "source").exists() else tree.resolve(),
    )


def size_of(folder: Path) -> int:
    """Returns the total size in bytes of the files below a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def remove(folder: Path) -> None:
    """Removes a folder of the cache. It is renamed first, so that no process finds it half-removed."""
    gone = folder.with_name(f"{TEMPORARY}gone-{os.getpid()}-{folder.name}")
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep_leftovers() -> None:
    """Removes the files of builds that were killed."""
    for left in places.cache().glob(f"{TEMPORARY}*"):
        owner = re.search(r"(\d+)-", left.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            shutil.rmtree(left, ignore_errors=True)


def remove_leftovers(also: tuple[str, ...] = ()) -> None:
    """Removes the archives of sources, remains of interrupted builds, and other folders of the cache by name."""
    sweep_leftovers()
    for name in ("sources", *also):
        if (places.cache() / name).is_dir():
            remove(places.cache() / name)
