"""docs/reference/python.md: the Python API, from its docstrings and signatures."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import sojourn as sj
from sojourn import measured
from sojourn.measured import Group, Part, measures_of

GROUPS = {
    "Ask": ("load", "read", "run", "replay", "open_results"),
    "Results": ("Results", "Measure", "Mean", "Differences", "Plots", "Replayed"),
    "Disciplines of your own": ("Discipline",),
    "Plans, executors, worlds": ("Plan", "Cores", "Dask", "Simulator"),
    "Errors": ("Error", "Refusal", "NothingToRun"),
}
"""The public names, in the order in which a reader needs them."""

HIDDEN = {
    "Results": (
        *(
            "of_records",
            "kept",
            "spared",
            "too_wide",
            "surplus",
            "indices",
            "numbers",
            "values",
            "means",
            "shown",
            "cases",
        ),
        *("as_dict", "until", "baseline", "cpu_s", "played"),
    ),
    "Plan": (
        *("load", "parse", "restore", "portable", "run", "ring", "sim_refusal", "kernel_refusal", "kernel_hz"),
        *("kernel_job", "observe", "rates", "outside", "outside_names"),
    ),
}
"""Members that the command's own verbs use, and no user needs."""


def page() -> str:
    """The page as Markdown. A public name that no group has is a fault of this program."""
    missing = set(sj.__all__) ^ {name for names in GROUPS.values() for name in names}
    assert not missing, f"tools/reference_python.py: {', '.join(sorted(missing))}"
    lines = [
        "# The Python API",
        "",
        "`import sojourn as sj`. All that the command does, with the same results and the same errors; every name is",
        "typed. [The tutorial](../tutorial-python.md) shows it at work. Times are in the unit that a name ends with.",
        "",
    ]
    for group, names in GROUPS.items():
        lines += [f"## {group}", ""]
        for name in names:
            lines += _entry(name, getattr(sj, name))
    lines += [
        "## Measures",
        "",
        "The attributes of `Results.hop`, `.flow`, `.jain` and `.losses`. Each leaf is a `Measure`.",
        "",
    ]
    for part in (measured.Hop, measured.Flow, measured.Jain, measured.Losses, *_inner()):
        lines += _measures(part)
    return "\n".join(lines).rstrip() + "\n"


def _inner() -> list[type[Part]]:
    return [measured.Distribution, measured.Standing, measured.Nic, measured.Video, measured.Rpm, measured.Command]


def _entry(name: str, found: Any) -> list[str]:
    if not inspect.isclass(found):
        return [f"### sj.{name}", "", *_code(f"sj.{name}", found), "", _text(found), ""]
    lines = [f"### sj.{name}", "", _text(found), ""]
    for field, kind, said in _fields(found):
        lines += [f"**`.{field}`**: `{_short(kind)}`", "", said, ""]
    for member, value in _members(found):
        if isinstance(value, property):
            kind = inspect.signature(value.fget).return_annotation if value.fget else inspect.Signature.empty
            lines += [f"**`.{member}`**" + (f": `{_short(kind)}`" if isinstance(kind, str) else ""), ""]
        else:
            lines += [*_code(f".{member}", value), ""]
        lines += [_text(value), ""]
    return lines


def _fields(found: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a dataclass that say what they are: name, type, meaning."""
    if not dataclasses.is_dataclass(found):
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
    assert isinstance(tree, ast.ClassDef)
    for one, after in itertools.pairwise(tree.body):
        if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            if ast.unparse(one.target) in HIDDEN.get(found.__name__, ()):
                continue
            yield ast.unparse(one.target), ast.unparse(one.annotation), inspect.cleandoc(str(after.value.value))


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order in which they are written."""
    for member, value in vars(found).items():
        if member.startswith("_") or isinstance(value, type) or member in HIDDEN.get(found.__name__, ()):
            continue
        if isinstance(value, functools.cached_property):
            yield member, property(value.func)
        elif isinstance(value, staticmethod):
            yield member, value.__func__
        elif isinstance(value, property) or callable(value):
            yield member, value


def _code(name: str, found: Callable[..., Any]) -> list[str]:
    """A signature, on several lines if it is long."""
    try:
        signature = inspect.signature(found)
    except ValueError:  # a function of the compiled half
        return ["```python", f"{name}(...)", "```"]
    words = [_parameter(one) for one in signature.parameters.values() if one.name != "self"]
    if any(one.kind is one.KEYWORD_ONLY for one in signature.parameters.values()):
        only = [one.kind is one.KEYWORD_ONLY for one in signature.parameters.values() if one.name != "self"]
        words.insert(only.index(True), "*")
    returns = signature.return_annotation
    tail = "" if returns is inspect.Signature.empty else f" -> {_short(str(returns))}"
    text = f"{name}({', '.join(words)}){tail}"
    if len(text) > 100:
        text = "\n".join([f"{name}(", *(f"    {one}," for one in words), f"){tail}"])
    return ["```python", text, "```"]


def _parameter(one: inspect.Parameter) -> str:
    kind = "" if one.annotation is inspect.Parameter.empty else f": {_short(str(one.annotation))}"
    if one.default is inspect.Parameter.empty:
        return f"{one.name}{kind}"
    return f"{one.name}{kind} = {'...' if callable(one.default) else repr(one.default)}"


def _short(text: str) -> str:
    """A type without the modules of its names."""
    return re.sub(r"\b(_core|records|worlds|paired|pa|os|np)\.", "", text).replace("PathLike[str]", "PathLike")


def _text(found: Any) -> str:
    """A docstring as Markdown: an indented block is code."""
    said = inspect.getdoc(found)
    assert said, found
    return said


def _measures(part: type[Part]) -> list[str]:
    rows = []
    for name, one in measures_of(part).items():
        kind = f"[{one.kind.__name__}](#{one.kind.__name__.lower()})" if isinstance(one, Group) else "Measure"
        rows.append(f"| `{name}` | {kind} | {one.unit or ''} | {one.meaning} |")
    return [f"### {part.__name__}", "", _text(part), "", "| name | is | unit | |", "|---|---|---|---|", *rows, ""]
