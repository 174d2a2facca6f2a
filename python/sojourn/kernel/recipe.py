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
FILES = {
    "fast": ("config",),
    "debug": ("config", "config.debug"),
    "smp-kasan": ("config", "config.debug", "config.smp"),
    "smp-kcsan": ("config", "config.smp", "config.kcsan"),
}
"""The files of each variant's configuration, in kernel/guest."""


def machine(variant: str) -> str:
    """Returns how a kernel of this variant runs, which is also its ARCH: `um` or `x86_64`."""
    return "um" if variant in ("fast", "debug") else "x86_64"


def configuration(variant: str) -> str:
    """Returns the configuration's options, one per line. If several lines set an option, the last one counts."""
    options: dict[str, str] = {}
    for name in FILES[variant]:
        for line in (places.guest_sources() / name).read_text().splitlines():
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
