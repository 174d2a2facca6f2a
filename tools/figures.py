"""Draws README's picture: the fading link's queue over time, as `sojourn run` does. With --check, only compares."""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.image import imread

import sojourn as sj
from sojourn import report

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/fading-link.png"
SHADE, SHARE = 0.1, 1e-3
"""Pixels differ if their shades (0 to 1) are further apart than this. This fraction of them may differ, because the
last bit of a logarithm depends on the processor. A changed number, label or line affects more."""


def alike(one: Path, other: Path) -> bool:
    """Whether two pictures show the same."""
    first, second = imread(one), imread(other)
    if first.shape != second.shape:
        return False
    return float(np.mean(np.abs(first - second).max(axis=-1) > SHADE)) <= SHARE


def main() -> int:
    """Runs the scenario and copies the picture of its queue. With --check, returns 1 if that of README differs."""
    with tempfile.TemporaryDirectory() as folder:
        done = sj.run(ROOT / "scenarios/fading-link.toml", out=Path(folder) / "out")
        report.write(Path(folder), done.runs)
        drawn = Path(folder) / report.PICTURES / "sojourn-bottleneck.png"
        if "--check" not in sys.argv:
            shutil.copyfile(drawn, PICTURE)
            print(PICTURE.relative_to(ROOT))
        elif not alike(drawn, PICTURE):
            print(f"{PICTURE.relative_to(ROOT)}: not what 'make run' draws; run 'make figures'", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
