"""Measures what a packet costs in a discipline of the user's: the CoDel in C and the one in Python of
docs/how-to/run-your-own-discipline.md, compared with ours. The packets' fates are the same.

CPU seconds of a run of P1's link for 30 s (100 Mbit/s, 4 flows), the least of five runs.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sojourn as sj
from sojourn.api import outside_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/run-your-own-discipline.md"
SCENARIO = {
    "duration": "30s",
    "hop": [{"name": "b", "rate": "100mbit", "delay": "10ms"}],
    "flow": [{"kind": "bulk", "count": 4, "rtt": "100ms"}],
}
ROUNDS = 5


def block(language: str) -> str:
    """The page's first block of code in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found
    return found[1]


def given(folder: Path) -> dict[str, type[sj.Discipline] | Path]:
    """The library and the class, by name."""
    (folder / "mine.c").write_text(block("c"))
    (folder / "prototype.py").write_text(block("python"))
    words = ["cc", "-O2", "-shared", "-fPIC", "-I", ROOT / "crates/ffi/include", folder / "mine.c"]
    subprocess.run([*words, "-o", folder / "mine.so", "-lm"], check=True)
    spec = importlib.util.spec_from_file_location("prototype", folder / "prototype.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["prototype"] = module
    spec.loader.exec_module(module)
    return {"library": folder / "mine.so", "python": module.Codel}


def main() -> None:
    """Prints a line for each implementation."""
    with tempfile.TemporaryDirectory() as folder:
        disciplines = given(Path(folder))
        outside = [(one.name, one.source) for one in outside_of(disciplines)]
        lines = ["codel variant rfc8289", "library", "python"]
        plans = [sj.load(SCENARIO, set={"hop.b.qdisc": line}, disciplines=disciplines) for line in lines]
        for line, plan in zip(lines, plans, strict=True):
            plan.describe(0)  # draws the workload
            seconds = []
            for _ in range(ROUNDS):
                begin = time.thread_time()
                output = plan.run(0, series=False, outside=outside)
                seconds.append(time.thread_time() - begin)
            assert output is not None
            packets = output.result()["hops"]["b"]["delivered_packets"]
            print(f"{line:24}{packets:8} packets  {min(seconds) / packets * 1e6:.2f} µs a packet")


if __name__ == "__main__":
    main()
