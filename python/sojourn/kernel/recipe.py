"""Our configuration and patches of a guest's kernel. A kernel built with other ones is out of date."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sojourn.kernel import places

FORMAT = 2
"""The version of a kernel's folder in the cache and of its build; kernels of another version are built again."""


def configuration(variant: str) -> str:
    """The configuration's options, one a line; the last line about an option counts."""
    folder = places.guest_sources()
    files = [folder / "config", *([folder / "config.debug"] if variant == "debug" else [])]
    options: dict[str, str] = {}
    for file in files:
        for line in file.read_text().splitlines():
            found = re.match(r"(?:# )?(CONFIG_\w+)(?:=| is not set)", line)
            if found:
                options[found[1]] = line
    return "\n".join(options.values()) + "\n"


def patches() -> list[Path]:
    """Our patches, in their order."""
    return sorted((places.guest_sources() / "patches").glob("*.patch"))


def digest(variant: str) -> str:
    """The digest of the configuration and the patches."""
    made = hashlib.sha256(f"{FORMAT} {configuration(variant)}".encode())
    for patch in patches():
        made.update(patch.name.encode() + patch.read_bytes())
    return made.hexdigest()
