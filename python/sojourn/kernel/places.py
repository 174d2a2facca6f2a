"""Where things of the kernel world are: the user's cache, and our C sources. The only place that says so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sojourn.errors import Refusal


def home() -> Path:
    """The user's cache folder of sojourn, the one that tools/debian fills too."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sojourn"


def cache() -> Path:
    """Built kernels and modules."""
    return home() / "kernel"


def shared() -> Path:
    """The folder with `kernel/` and `tools/debian`: the repository, or the wheel's data."""
    repository = Path(__file__).resolve().parents[3]
    installed = Path(sys.prefix) / "share" / "sojourn"
    for place in (repository, installed):
        if (place / "kernel" / "guest" / "config").is_file():
            return place
    raise Refusal(f"{installed}/kernel: the sources of the kernel world are not there: expected them with the wheel")


def guest_sources() -> Path:
    """The guest's configuration, patches and modules."""
    return shared() / "kernel" / "guest"


def module_folders() -> list[Path]:
    """Folders with a Kbuild file of modules that a guest can load: the guest's own, and the disciplines'."""
    kernel = shared() / "kernel"
    return [folder for folder in (kernel / "guest", kernel) if (folder / "Kbuild").is_file()]
