"""Our configuration and patches of a guest's kernel. A kernel built with other ones is out of date."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sojourn.kernel import places

FORMAT = 2
"""The version of the build, and of the layout of a kernel's folder in the cache. Kernels of another version are built
again.
"""


def configuration(variant: str) -> str:
    """Returns the configuration's options, one per line. If several lines set an option, the last one counts."""
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
    """Returns our patches in the order in which they are applied."""
    return sorted((places.guest_sources() / "patches").glob("*.patch"))


def digest(variant: str) -> str:
    """Returns the digest of the configuration and the patches."""
    made = hashlib.sha256(f"{FORMAT} {configuration(variant)}".encode())
    for patch in patches():
        made.update(patch.name.encode() + patch.read_bytes())
    return made.hexdigest()
