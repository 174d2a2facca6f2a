"""The picture in README.md: the fading link, as `sojourn run` draws it."""

import shutil
import sys
import tempfile
from pathlib import Path

from sojourn import report, sweep

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Runs the scenario and copies its first picture."""
    with tempfile.TemporaryDirectory() as folder:
        done = sweep.compare(ROOT / "scenarios/fading-link.toml", folder=Path(folder))
        report.write(Path(folder), done.runs)
        shutil.copyfile(Path(folder) / report.PICTURE, ROOT / "docs/fading-link.png")
    print("docs/fading-link.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
