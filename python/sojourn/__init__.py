"""A laboratory for queue management against bufferbloat.

    import sojourn as sj

    results = sj.run("fading-link", seeds=5)
    results.hop("bottleneck").sojourn_ms.p95

`load` reads a scenario, `run` plays it, and `Results` has its numbers, tables and pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn._core import Error as Error
    from sojourn._core import Plan as Plan
    from sojourn.api import Replayed as Replayed
    from sojourn.api import load as load
    from sojourn.api import open_results as open_results
    from sojourn.api import read as read
    from sojourn.api import replay as replay
    from sojourn.api import run as run
    from sojourn.disciplines import Discipline as Discipline
    from sojourn.errors import NothingToRun as NothingToRun
    from sojourn.errors import Refusal as Refusal
    from sojourn.executors import Cores as Cores
    from sojourn.means import Mean as Mean
    from sojourn.measured import Measure as Measure
    from sojourn.on_dask import Dask as Dask
    from sojourn.results import Differences as Differences
    from sojourn.results import Plots as Plots
    from sojourn.results import Results as Results
    from sojourn.worlds import Simulator as Simulator

_WHERE = {
    "Cores": "executors",
    "Dask": "on_dask",
    "Discipline": "disciplines",
    "Differences": "results",
    "Error": "_core",
    "Mean": "means",
    "Measure": "measured",
    "NothingToRun": "errors",
    "Plan": "_core",
    "Plots": "results",
    "Refusal": "errors",
    "Replayed": "api",
    "Results": "results",
    "Simulator": "worlds",
    "load": "api",
    "open_results": "api",
    "read": "api",
    "replay": "api",
    "run": "api",
}
"""The modules of the public names. They are imported when they are first used: the command starts without them."""

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"sojourn.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
