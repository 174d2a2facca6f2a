"""The worth of one mechanism: frozen scenarios with and without it, compared with the kernel.

    experiments/agree/agree_ablation.py KEY=VALUE [--both] [--seeds N] NAME…

Plays the scenarios of drawn/ with these names as they are, then with the key set: in the simulator
against the kernel's runs of the scenario as it is, or with --both in both worlds. Prints two rows of a table for each,
as `sojourn agree` does. The kernel's runs are kept, so those that are there cost nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sojourn import agree
from sojourn.agree import words
from sojourn.agree.judge import Pair
from sojourn.executors import Cores
from sojourn.kernel.run import Guests
from sojourn.plan import load

DRAWN = Path(__file__).resolve().parent / "drawn"


def changed(pair: Pair, chosen: tuple[str, str], seeds: int) -> Pair:
    """Returns the pair with the simulator's runs replaced by runs with the key set."""
    file = DRAWN / f"{pair.file}.toml"
    plan = load(file, [chosen], None, seeds)
    guests = Guests()
    jobs, _ = agree._jobs(file, plan, {"sim": agree.worlds_of(guests, plan)["sim"]}, agree.store())
    missing = [job for job in jobs if not job.place.exists()]
    agree._play(missing, guests, Cores(), lambda _done_s, _all_s: None)
    runs = [run for job in jobs if (run := agree._read(job)) is not None]
    return replace(pair, sim={run.seed: run for run in runs})


def main() -> int:
    """Plays the missing runs, and prints the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("key", metavar="KEY=VALUE")
    asked.add_argument("names", nargs="+", metavar="NAME")
    asked.add_argument("--both", action="store_true")
    asked.add_argument("--seeds", type=int, default=5)
    options = asked.parse_args()
    key, _, value = options.key.partition("=")
    files = [DRAWN / f"{name}.toml" for name in options.names]
    pairs = agree.compare(files, seeds=options.seeds).pairs
    if options.both:
        others = agree.compare(files, seeds=options.seeds, sets=[(key, value)]).pairs
    else:
        others = [changed(pair, (key, value), options.seeds) for pair in pairs]
    heads, rows = words.table([*pairs, *others])
    count = len(pairs)
    print("| " + " | ".join(heads) + " |")
    print("|---" + "|--:" * (len(heads) - 1) + "|")
    for number, pair in enumerate(pairs):
        name = f"{pair.file}: {pair.qdisc.split()[0]}, {pair.title}"
        print("| " + " | ".join([name, *rows[number][1:]]) + " |")
        print("| " + " | ".join([f"… {options.key}", *rows[count + number][1:]]) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
