"""The identity of a run: equal for runs with the same result, and different if any input differs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, SMALL
from sojourn import identity
from sojourn.plan import load
from sojourn.worlds import Simulator

SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml")) + sorted((ROOT / "experiments/agree/drawn").glob("*.toml"))


def toml(value: Any) -> str:
    """Formats a value as one line of TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def text(document: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items())


def name(document: dict[str, Any], chosen: dict[str, Any] | None = None) -> str:
    return identity.digest(identity.resolved(document, chosen or {}))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_resolved_scenario_is_the_run_that_the_simulators_own_reader_sees(path: Path, tmp_path: Path) -> None:
    plan = load(path)
    document = tomllib.loads(plan.text)
    for index, one in enumerate(plan.runs):
        resolved = identity.resolved(document, one["set"])
        for file in identity.digests(path.parent, resolved):
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_bytes((path.parent / file).read_bytes())
        (tmp_path / "alone.toml").write_text(text({"title": plan.title, **resolved}))
        alone = load(tmp_path / "alone.toml", seed=one["seed"])
        assert len(alone) == 1
        assert alone.describe(0) == plan.describe(index)
        assert name(tomllib.loads(alone.text)) == identity.digest(resolved)


ADDRESSES = [
    "duration", "host.hystart", "access.rate", "hop.b.rate", "hop.b.reverse.delay", "hop.b.nic.ring",
    "hop.hop1.reverse.nic.ring", "flow.bulk0.cc", "flow.web0.rate", "flow.bulk1.count", "group.g.max_active",
]  # fmt: skip
VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text("ab .é\"\\'[]=#", max_size=6), st.lists(st.integers(0, 9)))
FILE: dict[str, Any] = {
    "title": "t",
    "hop": [{"name": "b", "rate": "1mbit"}, {"delay": "1ms"}],
    "flow": [{"kind": "bulk", "rtt": "1ms"}, {"kind": "web"}, {"kind": "bulk"}],
    "group": [{"name": "g"}],
}


def shuffled(draw: st.DrawFn, value: Any) -> Any:
    """Shuffles the keys of all tables; lists keep their order."""
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: shuffled(draw, value[key]) for key in keys}
    return [shuffled(draw, one) for one in value] if isinstance(value, list) else value


@st.composite
def choices(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], Any]:
    chosen = draw(st.dictionaries(st.sampled_from(ADDRESSES), VALUES, max_size=6))
    return chosen, shuffled(draw, FILE), draw(VALUES)


@given(choices())
@settings(max_examples=200, deadline=None)
def test_the_way_to_a_scenario_is_no_part_of_its_name(drawn: tuple[dict[str, Any], dict[str, Any], Any]) -> None:
    chosen, other, _ = drawn
    as_set = name(FILE, chosen)
    resolved = identity.resolved(FILE, chosen)
    assert name(other, dict(reversed(chosen.items()))) == as_set
    assert name(tomllib.loads("# a comment\n" + text(resolved))) == as_set
    half = dict(list(chosen.items())[: len(chosen) // 2])
    rest = {key: value for key, value in chosen.items() if key not in half}
    assert name(identity.resolved(FILE, half), rest) == as_set
    swept = {**FILE, "title": "other", "seeds": 7, "sweep": {key: [value] for key, value in chosen.items()}}
    assert name(swept, chosen) == as_set


@given(choices(), st.sampled_from(ADDRESSES))
@settings(max_examples=200, deadline=None)
def test_every_value_is_a_part_of_its_name(drawn: tuple[dict[str, Any], dict[str, Any], Any], address: str) -> None:
    chosen, _, value = drawn
    found = identity.addresses(identity.resolved(FILE, chosen))
    changed = identity.addresses(identity.resolved(FILE, {**chosen, address: value}))
    same = {**chosen, address: value} == chosen
    assert (name(FILE, {**chosen, address: value}) == name(FILE, chosen)) == same
    expected = value if isinstance(value, str) else json.dumps(value)
    assert changed == {**found, address: expected}


def test_the_order_of_hops_and_flows_is_a_part_of_it() -> None:
    assert name({**FILE, "hop": FILE["hop"][::-1]}) != name(FILE)
    assert name({**FILE, "flow": FILE["flow"][::-1]}) != name(FILE)


def test_a_flow_whose_kind_was_set_has_the_name_that_the_simulator_gives_it() -> None:
    found = identity.resolved(FILE, {"flow.web0.kind": "bulk"})
    assert [flow["name"] for flow in found["flow"]] == ["bulk0", "bulk1", "bulk2"]


def test_seed_world_and_engine_are_parts_of_it() -> None:
    made = [
        ("s", 1, "sim", "e"),
        ("t", 1, "sim", "e"),
        ("s", 2, "sim", "e"),
        ("s", 1, "kernel", "e"),
        ("s", 1, "sim", "f"),
    ]
    names = [identity.of_run(*parts) for parts in made]
    assert len({one.id for one in names}) == 5
    assert len({one.point for one in names}) == 4, (
        "the engine is apart: what an older one played is known to be the same"
    )
    assert identity.of_run(*made[0]) == names[0]


def test_the_content_of_a_named_file_is_a_part_of_it(tmp_path: Path) -> None:
    scenario = identity.resolved(FILE, {"hop.b.rate": {"trace": "walk"}, "duration": "1s"})
    assert identity.digests(tmp_path, scenario) == {}
    (tmp_path / "walk").write_text("1\n")
    before = identity.digests(tmp_path, scenario)
    assert list(before) == ["walk"]
    (tmp_path / "walk").write_text("2\n")
    assert identity.digests(tmp_path, scenario) != before
    assert identity.digests(tmp_path, {"x": ["a" * 5000, "\0", ""]}) == {}


def test_the_simulator_is_known_by_its_compiled_code(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    plan = load(tmp_path / "small.toml")
    key = Simulator().key(plan, 0)
    assert len(key["simulator"]) == 64
    assert Simulator("heap").key(plan, 1) == key, "both engines give the same bytes"


def test_up_and_down_are_other_words_for_the_same_run() -> None:
    flow = {"kind": "bulk", "rtt": "9ms"}
    plain = {
        "hop": [{"name": "b", "rate": "20mbit", "reverse": {"rate": "2mbit"}}],
        "flow": [{**flow, "direction": "left"}],
    }
    words = {
        "hop": [{"name": "b", "down": {"rate": "20mbit"}, "up": {"rate": "2mbit"}}],
        "flow": [{**flow, "direction": "up"}],
    }
    assert name(words) == name(plain)
    assert name(plain, {"hop.b.up.qdisc": "codel"}) == name(words, {"hop.b.reverse.qdisc": "codel"})
    assert name(words, {"hop.b.down.nic.ring": 9}) == name(plain, {"hop.b.nic.ring": 9})
    assert name(words, {"flow.bulk0.direction": "down"}) == name(plain, {"flow.bulk0.direction": "right"})
    assert name(words, {"hop.b.up.qdisc": "codel"}) != name(words, {"hop.b.down.qdisc": "codel"})


PLACES = {
    "rate": st.sampled_from(["2mbit", [["0s", "3mbit"], ["1s", "0bit"], ["2s", "1mbit"]]]),
    "delay": st.sampled_from(["3ms", [["0s", "1ms"], ["1s", "9ms"]]]),
    "qdisc": st.sampled_from(
        ["codel", "tc qdisc add dev eth0 root sfq", [["0s", "fq_codel"], ["1s", "fq_codel limit 9"], ["2s", "pie"]]]
    ),
    "overhead": st.integers(0, 40),
    "nic.ring": st.integers(1, 9),
}
"""Keys of a direction of a hop."""


@st.composite
def spelled(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Keys of both directions of a hop, as tables of a file, and as addresses in two spellings."""
    chosen = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(["up", "down"]), st.sampled_from(sorted(PLACES))), st.none(), min_size=1
        )
    )
    hop: dict[str, Any] = {"name": "b", "rate": "20mbit", "delay": "5ms"}
    words = {"up": draw(st.sampled_from(["up", "reverse"])), "down": draw(st.sampled_from(["down", ""]))}
    addresses: list[dict[str, Any]] = [{}, {}]
    for direction, key in chosen:
        value = draw(PLACES[key])
        table = hop.setdefault(words[direction], {}) if words[direction] else hop
        *way, last = key.split(".")
        for part in way:
            table = table.setdefault(part, {})
        table[last] = value
        if words[direction] == "down":
            hop.pop(last, None)
        for spelling in addresses:
            word = draw(st.sampled_from(["up.", "reverse."] if direction == "up" else ["down.", ""]))
            spelling[f"hop.b.{word}{key}"] = value
    return hop, [dict(draw(st.permutations(list(spelling.items())))) for spelling in addresses]


@given(spelled())
@settings(max_examples=30, deadline=None)
def test_a_scenario_as_written_as_set_and_as_swept_is_the_same_run_in_every_spelling(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[dict[str, Any], list[dict[str, Any]]]
) -> None:
    hop, (one, other) = drawn
    folder = tmp_path_factory.getbasetemp() / "spelled"
    folder.mkdir(exist_ok=True)
    rest = {"duration": "3s", "flow": [{"kind": "bulk", "rtt": "30ms"}]}
    plain = {"name": "b", "rate": "20mbit", "delay": "5ms"}
    (folder / "written.toml").write_text(text({**rest, "hop": [hop]}))
    (folder / "plain.toml").write_text(text({**rest, "hop": [plain]}))
    (folder / "swept.toml").write_text(
        text({**rest, "hop": [plain], "sweep": {key: [value] for key, value in other.items()}})
    )
    values = [(key, value if isinstance(value, str) else toml(value)) for key, value in one.items()]
    plans = [
        load(folder / "written.toml"),
        load(folder / "written.toml"),
        load(folder / "plain.toml", values),
        load(folder / "swept.toml"),
    ]
    assert [len(plan) for plan in plans] == [1, 1, 1, 1]
    names = {name(tomllib.loads(plan.text), plan.runs[0]["set"]) for plan in plans}
    assert len(names) == 1
    described = [{**plan.describe(0), "title": ""} for plan in plans]
    assert all(one == described[0] for one in described)
