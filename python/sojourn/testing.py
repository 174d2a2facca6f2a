"""A fixture for pytest: links of the live world, for programs under test.

Name it in `conftest.py`: `pytest_plugins = ["sojourn.testing"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sojourn.link import Link, plan_of


@pytest.fixture
def sojourn_link() -> Iterator[Callable[..., Link]]:
    """Makes links that are up until the end of the test: `sojourn_link(rate, rtt, qdisc="fq_codel", up=None)`. `up` is
    the rate from the client to the server, if it differs. Raises Refusal if this host cannot do it.
    """
    with ExitStack() as links:

        def make(rate: str, rtt: str, qdisc: str = "fq_codel", up: str | None = None) -> Link:
            return links.enter_context(Link(plan_of(rate, rtt, qdisc, up)))

        yield make
