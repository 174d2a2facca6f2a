"""Wrong arguments of the Python API: each is named in a sentence, in the API's own words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sojourn as sj

TINY: dict[str, Any] = {
    "duration": "1s",
    "hop": [{"name": "b", "rate": "1mbit", "delay": "5ms"}],
    "flow": [{"kind": "bulk"}],
    "sweep": {"hop.b.qdisc": ["pfifo", "codel"]},
}
TRACE = b"time_ns,op,flow,bytes,ecn\n0,enqueue,1,100,0\n"


class NoEnqueue(sj.Discipline):
    def dequeue(self, now: int) -> None:
        return None


class NoDequeue(sj.Discipline):
    def enqueue(self, packet: Any, now: int) -> None:
        self.drop(packet, "overlimit")


@functools.cache
def played() -> sj.Results:
    return sj.run(TINY)


def load(**wrong: Any) -> object:
    return sj.load(**({"scenario": TINY} | wrong))


def run(**wrong: Any) -> object:
    return sj.run(**({"plan": TINY} | wrong))


def replay(**wrong: Any) -> object:
    return sj.replay(**({"trace": TRACE, "qdisc": "pfifo"} | wrong))


def picture(form: str) -> object:
    return next(iter(played().plot.values())).encode(form)  # type: ignore[arg-type]


CALLS: list[tuple[Callable[..., object], dict[str, Any]]] = [
    *((load, {"scenario": wrong}) for wrong in (5, None, ["a"], b"t.toml", {5: 6}, {"hop": object()})),
    *((load, {"set": wrong}) for wrong in ("hop.b.rate=1mbit", ["a"], {5: "a"}, {"hop.b.rate": object()}, {"x": 1})),
    *((load, {"seeds": wrong}) for wrong in ("3", 0, -1, 10**30, 2.5, True, [1])),
    *((load, {"seed": wrong}) for wrong in ("1", -1, 1.0, 2**64)),
    (load, {"folder": 5}),
    *(
        (load, {"disciplines": wrong})
        for wrong in (["a"], {"mine": 5}, {5: NoEnqueue}, "mine.so", {"codel": NoEnqueue})
    ),
    *((run, {"plan": wrong}) for wrong in (5, None, b"x", object())),
    *((run, {"seeds": wrong}) for wrong in ("3", 0)),
    *((run, {"qdisc": wrong}) for wrong in (5, [5])),
    *((run, {"qdisc": ["codel"], "hop": wrong}) for wrong in (5, "x")),
    *((run, {"world": wrong}) for wrong in ("mars", 5, object())),
    *((run, {"on": wrong}) for wrong in ("x", 0, 2.5, object(), True, "dask://h")),
    *((run, {"store": wrong}) for wrong in (5, b"x")),
    *((run, {"out": wrong}) for wrong in (5, ["x"])),
    *((run, {"until": wrong}) for wrong in ("x", 5, "nothing 5%")),
    *((run, {"baseline": wrong}) for wrong in ("x", 5)),
    (run, {"progress": 5}),
    *((run, {name: "yes"}) for name in ("series", "packets")),
    *((run, {"disciplines": {"mine": wrong}}) for wrong in (NoEnqueue, NoDequeue, int, NoEnqueue.dequeue)),
    *((sj.read, {"scenario": wrong}) for wrong in (5, None, "nothere")),
    *((sj.open_results, {"folder": wrong}) for wrong in (5, None, "nothere")),
    *((replay, {"trace": wrong}) for wrong in (5, None, "no.csv", b"", {"time_ns": [1]}, {"x": [1]})),
    (replay, {"trace": {"time_ns": [1], "op": [], "flow": [], "bytes": [], "ecn": []}}),
    (replay, {"trace": dict.fromkeys(("time_ns", "op", "flow", "bytes", "ecn"), 1)}),
    *((replay, {"qdisc": wrong}) for wrong in (5, "", "nothing")),
    *((replay, {"rate": wrong}) for wrong in (5, "x")),
    *((replay, {"mtu": wrong}) for wrong in ("x", 0, -1, 2**40)),
    *((replay, {"seed": wrong}) for wrong in ("x", -1, 2**70)),
    *((replay, {"end": wrong}) for wrong in (5, "x")),
    *((replay, {"world": wrong}) for wrong in (5, "mars")),
    *((lambda name: played().hop(name), {"name": wrong}) for wrong in (5, "x", None)),
    *((lambda name: played().flow(name), {"name": wrong}) for wrong in (5, "x")),
    *((lambda address: played().measure(address), {"address": wrong}) for wrong in (5, "x")),
    *((lambda to: played().frame(to), {"to": wrong}) for wrong in (5, "excel")),
    *((lambda baseline: played().compare(baseline=baseline), {"baseline": wrong}) for wrong in (5, "x")),
    *((lambda hop: played().series(hop), {"hop": wrong}) for wrong in (5, "x")),
    *((lambda label: played().series(label=label), {"label": wrong}) for wrong in (5, "x")),
    *((lambda seed: played().series(seed=seed), {"seed": wrong}) for wrong in ("x", 99)),
    *((lambda flow: played().flow_series(flow), {"flow": wrong}) for wrong in (5, "x")),
    (lambda: played().packets(), {}),
    *((lambda name: played().plot[name], {"name": wrong}) for wrong in (5, "x")),
    *((picture, {"form": wrong}) for wrong in ("gif", 5)),
    *(
        (lambda folder, form: played().plot.save(folder, form), wrong)
        for wrong in ({"folder": 5, "form": "png"}, {"folder": "d", "form": "gif"})
    ),
    *((lambda label: played().goodput_mbit[label], {"label": wrong}) for wrong in (5, "x")),
    (lambda: played().goodput_mbit.mean, {}),
    *((sj.Cores, {"jobs": wrong}) for wrong in (0, "2", 1.5)),
]


@pytest.mark.parametrize(("call", "wrong"), CALLS, ids=map(str, range(len(CALLS))))
def test_a_wrong_argument_is_named_in_a_sentence(
    call: Callable[..., object], wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((sj.Refusal, sj.Error)) as found:
        call(**wrong)
    said = str(found.value)
    assert len(said.splitlines()) == 1
    assert ": " in said
    assert "--" not in said.replace("--on dask", ""), "that is the command's word"
    assert list(tmp_path.iterdir()) == [], "a refused call writes nothing"


def test_a_message_names_argument_value_and_what_was_expected() -> None:
    with pytest.raises(sj.Refusal, match=r"^save: form = 'pgn': expected one of png, svg, pdf; nearest is png$"):
        played().plot.save("d", "pgn")  # type: ignore[arg-type]
    with pytest.raises(sj.Refusal, match=r"^run: seeds = '3': expected a whole number from 1 to 1000000$"):
        run(seeds="3")
    with pytest.raises(sj.Refusal, match=r"^disciplines: mine = class NoEnqueue: has no method enqueue: expected one$"):
        run(disciplines={"mine": NoEnqueue})


def test_an_argument_that_there_is_not_is_pythons_error() -> None:
    with pytest.raises(TypeError, match="sede"):
        load(sede=1)


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    assert len(sj.load(TINY, seeds=np.int64(3))) == 6  # type: ignore[arg-type]
