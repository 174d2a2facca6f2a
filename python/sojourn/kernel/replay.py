"""Plays a packet trace through a queue discipline of a real kernel, which is the reference for every other
implementation.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from sojourn import _core
from sojourn.errors import Refusal
from sojourn.kernel import guest, modules, store
from sojourn.kernel.image import Kernel

TRACE, FATES, STATS = "trace.bin", "fates.bin", "stats.json"
REFUSED = re.compile(r"sojourn_replay: change ([1-9]\d*): error (\d+, [^\r\n]*)")
"""Matches the module's message about a change that the discipline refuses. It has the number of the change, counted
from 1, and the error.
"""


def replay(
    trace: bytes,
    name: str,
    qdisc: str,
    *,
    rate: str | None = None,
    mtu: int = 1514,
    seed: int = 1,
    module: Path | None = None,
    kernel: Kernel | None = None,
) -> tuple[bytes, list[str], dict[str, Any] | None]:
    """Returns the packets' fates as CSV, warnings, and the statistics of `tc -s` at the end, in the form of
    `_core.replay`. The statistics are None if tc has no JSON for the discipline.

    `qdisc` is a line for tc. `seed` is that of the discipline's random numbers. `module` is the discipline's own
    module, if it is not one of the kernel's: a file, or a folder with a Kbuild.
    """
    kernel = kernel or store.find()
    if kernel.machine != "um":
        raise Refusal("a replay needs a clock that stands still: expected a guest's kernel, not Debian's own")
    own, plugins = _own_modules(kernel, qdisc, module)
    kernel = dataclasses.replace(kernel, modules=kernel.modules | own.files)
    names = list(own.files)
    asked = _core.KernelReplay(trace, name, qdisc, rate, mtu, kernel.version, names, own.replaces, plugins, seed)
    with tempfile.TemporaryDirectory(prefix="sojourn-replay-") as folder:
        (Path(folder) / TRACE).write_bytes(asked.trace())
        ended = guest.boot(kernel, asked.job(), Path(folder))
        if ended.error and (refused := REFUSED.search(ended.console)):
            line, words = asked.changes[int(refused[1]) - 1]
            raise Refusal(f"{name}:{line}: change {words}: the kernel refused it: error {refused[2]}")
        ended.result()
        stats: dict[str, Any] | None = json.loads((Path(folder) / STATS).read_text())
        return asked.rows((Path(folder) / FATES).read_bytes()), asked.warnings, stats


def _own_modules(kernel: Kernel, qdisc: str, module: Path | None) -> tuple[modules.Own, str | None]:
    """Returns the discipline's modules, and the folder in which tc finds a plugin for it."""
    if module is None:
        name, plugin = _core.needs(qdisc)
        own = {name: kernel.modules[name]} if name else {}
        return modules.Own(own), str(modules.tc_plugins()) if plugin else None
    return modules.of_user(kernel, module), str(modules.tc_plugins())
