"""The queues that a comparison shows: those that are swept, and those that are busy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sojourn import queues
from sojourn.queues import Load

PATH = ["home", "home.reverse", "isp", "isp.reverse"]
IDLE = dict.fromkeys(PATH, Load())


def test_a_swept_reverse_queue_is_shown_though_it_is_empty_and_comes_first() -> None:
    sets = [{"hop.home.reverse.qdisc": qdisc} for qdisc in ("pfifo", "codel")]
    assert queues.shown(sets, PATH, [IDLE]) == ["home.reverse"]
    busy = IDLE | {"isp": Load(utilisation=0.9, mean_delay_ms=80)}
    assert queues.shown(sets, PATH, [busy, IDLE]) == ["home.reverse", "isp"]


def test_up_and_down_are_the_reverse_and_the_forward_queue() -> None:
    assert queues.queue_of_key("hop.home.up.qdisc", PATH) == "home.reverse"
    assert queues.queue_of_key("hop.home.down.qdisc", PATH) == "home"
    assert queues.queue_of_key("hop.home.reverse.rate", PATH) == "home.reverse"
    assert queues.queue_of_key("hop.home.rate", PATH) == "home"
    assert queues.queue_of_key("flow.home.cc", PATH) is None


def test_a_hop_whose_name_has_a_dot_is_found_by_its_longest_match() -> None:
    path = ["a", "a.reverse", "a.up", "a.up.reverse"]
    assert queues.queue_of_key("hop.a.up.qdisc", path) == "a.up"
    assert queues.queue_of_key("hop.a.up.reverse.qdisc", path) == "a.up.reverse"


def test_where_nothing_is_swept_the_queue_with_the_longest_delay_is_compared_also_a_reverse_one() -> None:
    delayed = IDLE | {"isp.reverse": Load(mean_delay_ms=300, sojourn_p95_ms=500), "home": Load(mean_delay_ms=1)}
    assert queues.shown([{}], PATH, [delayed]) == ["isp.reverse"]


def test_of_two_swept_queues_the_one_with_the_longer_delay_is_compared() -> None:
    sets = [{"hop.home.qdisc": "pfifo", "hop.home.reverse.qdisc": "pfifo"}]
    loads = [IDLE | {"home": Load(mean_delay_ms=20), "home.reverse": Load(mean_delay_ms=200)}]
    assert queues.shown(sets, PATH, loads) == ["home.reverse", "home"]


def test_a_swept_discipline_goes_before_a_swept_rate() -> None:
    sets = [{"hop.isp.rate": "1mbit", "hop.home.qdisc": "codel"}]
    assert queues.shown(sets, PATH, [IDLE]) == ["home", "isp"]


LOADS = st.builds(
    Load,
    utilisation=st.sampled_from([0.0, 0.5, queues.BUSY, 1.0]),
    sojourn_p95_ms=st.sampled_from([0.0, 0.9, queues.DELAYED_MS, 50.0]),
    mean_delay_ms=st.floats(0, 100),
    drops=st.sampled_from([0, 1]),
    marks=st.sampled_from([0, 1]),
)


@given(
    loads=st.lists(st.fixed_dictionaries(dict.fromkeys(PATH, LOADS)), min_size=1, max_size=3),
    keys=st.sets(st.sampled_from([f"hop.{queue}.{key}" for queue in PATH for key in ("qdisc", "rate")])),
)
def test_every_queue_that_is_swept_or_works_is_shown_once(loads: list[dict[str, Load]], keys: set[str]) -> None:
    found = queues.shown([dict.fromkeys(keys, "x")], PATH, loads)
    for queue in PATH:
        asked = any(key in (f"hop.{queue}.qdisc", f"hop.{queue}.rate") for key in keys)
        works = any(one[queue].works for one in loads)
        assert found.count(queue) == int(asked or works or queue == found[0])
