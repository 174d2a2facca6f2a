"""Counts the instructions that every discipline needs for a packet, with valgrind, and writes them into a page.

The same arrivals (those of P1 with 1 and 100 flows) are played once and three times; the difference is the cost of two
plays. All counts, including pfifo's, contain the code around the discipline (reading the arrivals, the link).
"""

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from pages import filled

PAGE = Path(__file__).with_name("instructions.md")
BEGIN, END = "<!-- table: written by experiments/speed/instructions.py -->", "<!-- end of table -->"
LINES = (
    "pfifo limit 1000",
    "bfifo limit 1500000",
    "pfifo_head_drop limit 1000",
    "codel",
    "codel variant rfc8289",
    "fq_codel",
    "fq_codel variant ns2",
    "fq",
    "fq variant linux67",
    "ccaq",
    "ccaq variant paper",
    "red limit 1500000 min 125000 max 375000 avpkt 1514 bandwidth 100mbit",
    "red limit 1000 variant ns2",
    "choke limit 1000 bandwidth 100mbit min 83 max 250",
    "sfb",
    "blue",
    "pie",
    "fq_pie",
    "dualpi2",
    "sfq",
    "prio",
    "tbf rate 100mbit burst 15140 limit 1500000",
    "htb rate 100mbit",
    "cake",
    "cake bandwidth 100mbit besteffort",
)
FLOWS = (1, 100)


def count(line: str, flows: int, repeat: int) -> tuple[int, int]:
    """Returns the instructions of the whole program, and the number of packets."""
    program = str(Path(sys.executable).parent / "sojourn-bench")
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [*valgrind, program, "replay", line, "--flows", str(flows), "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    instructions = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    packets = re.search(r'"packets":(\d+)', done.stdout)
    assert instructions is not None
    assert packets is not None
    return int(instructions[1].replace(",", "")), int(packets[1])


def per_packet(asked: tuple[str, int]) -> float:
    """Returns the instructions per packet of a line with this number of flows."""
    line, flows = asked
    (one, packets), (three, thrice) = count(line, flows, 1), count(line, flows, 3)
    return (three - one) / (thrice - packets)


def main() -> int:
    """Returns 0 if the instructions could be counted."""
    if shutil.which("valgrind") is None:
        print("instructions: valgrind is not there: nothing is counted", file=sys.stderr)
        return 0
    asked = [(line, flows) for line in LINES for flows in FLOWS]
    with ThreadPoolExecutor(2) as pool:
        counts = dict(zip(asked, pool.map(per_packet, asked), strict=True))
    rows = ["| discipline | 1 flow | of pfifo | 100 flows | of pfifo |", "|---|--:|--:|--:|--:|"]
    for line in LINES:
        cells = [f"{counts[line, flows]:.0f} | {counts[line, flows] / counts[LINES[0], flows]:.2f}" for flows in FLOWS]
        rows.append(f"| {line} | {' | '.join(cells)} |")
    print(*rows, sep="\n")
    PAGE.write_text(filled(PAGE.read_text(), BEGIN, END, "\n".join(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
