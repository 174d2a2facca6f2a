"""Where the files of the kernel world are: the user's cache, and our C sources. Other modules get their paths from
here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sojourn.errors import Refusal


def home() -> Path:
    """Returns the user's cache folder of sojourn. tools/debian fills the same folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sojourn"


def cache() -> Path:
    """Returns the folder of built kernels and modules."""
    return home() / "kernel"


def shared() -> Path:
    """Returns the folder with `kernel/` and `tools/debian`: the repository, or the wheel's data."""
    repository = Path(__file__).resolve().parents[3]
    installed = Path(sys.prefix) / "share" / "sojourn"
    for place in (repository, installed):
        if (place / "kernel" / "guest" / "config").is_file():
            return place
    raise Refusal(f"{installed}/kernel: the sources of the kernel world are not there: expected them with the wheel")


def guest_sources() -> Path:
    """Returns the folder of the guest's configuration, patches and modules."""
    return shared() / "kernel" / "guest"


def module_folders() -> list[Path]:
    """Returns the folders with a Kbuild file of modules that a guest can load: the guest's own, and the
    disciplines'.
    """
    kernel = shared() / "kernel"
    return [folder for folder in (kernel / "guest", kernel) if (folder / "Kbuild").is_file()]
