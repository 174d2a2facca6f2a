"""Finds the programs of the wheel: `sojourn-guest` and `sojourn-live`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sojourn.errors import Refusal


def find(name: str) -> Path:
    """Returns a program: that of its environment variable, such as SOJOURN_LIVE for `sojourn-live`, or the one in the
    command's folder or the PATH. Raises Refusal if there is none.
    """
    variable = name.upper().replace("-", "_")
    asked = os.environ.get(variable)
    beside = Path(sys.executable).parent / name
    found = asked or (str(beside) if beside.exists() else shutil.which(name))
    if not found or not Path(found).exists():
        raise Refusal(
            f"the program {name} is not in the command's folder: install the wheel again, or name it in the "
            f"environment, {variable}=PROGRAM"
        )
    return Path(found).resolve()
