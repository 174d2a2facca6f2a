"""Words of the scenario language that change what happens to packets: in both worlds they mean the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, kernel_or_skip

BOTH = pytest.mark.parametrize("world", ["sim", "kernel"])
TOP = 'duration = "6s"\nmeasure = ["2s", "end"]\n'
HOP = '[[hop]]\nname = "b"\nrate = "4mbit"\ndelay = "5ms"\n'


@pytest.fixture
def play(sojourn: Run, tmp_path: Path) -> Any:
    """Plays a scenario and gives its runs."""

    def played(text: str, world: str, *arguments: str) -> list[dict[str, Any]]:
        if world == "kernel":
            kernel_or_skip()
        file = tmp_path / "words.toml"
        file.write_text(TOP + text)
        done = sojourn("run", file, "--world", world, "-f", "json", *arguments)
        runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
        return runs

    return played


@BOTH
@pytest.mark.parametrize("ecn", ["off", "ect0", "ect1"])
def test_datagrams_are_marked_instead_of_dropped_if_their_ecn_field_allows_it(play: Any, world: str, ecn: str) -> None:
    stream = f'[[flow]]\nkind = "cbr"\nrate = "5mbit"\necn = "{ecn}"\nrtt = "20ms"\n'
    [run] = play(f'{HOP}qdisc = "codel limit 100000 ecn"\n{stream}', world)
    hop = run["hops"]["b"]
    if ecn == "off":
        assert (hop["marks"], hop["drops"] > 100) == (0, True)
    else:
        # It answers to no mark: the queue grows, and CoDel marks ever more often.
        assert (hop["marks"] > 100, hop["drops"]) == (True, 0)


@BOTH
def test_the_reply_to_a_ping_has_its_ecn_field(play: Any, world: str) -> None:
    flows = '[[flow]]\nkind = "cbr"\nrate = "5mbit"\ndirection = "left"\nrtt = "20ms"\n'
    flows += '[[flow]]\nkind = "pings"\ninterval = "5ms"\necn = "ect0"\nrtt = "20ms"\n'
    back = 'reverse = { qdisc = "codel limit 100000 ecn" }\n'
    [run] = play(f"{HOP}{back}{flows}", world)
    # The stream's packets are dropped; only the replies can be marked.
    assert run["hops"]["b.reverse"]["marks"] > 20
