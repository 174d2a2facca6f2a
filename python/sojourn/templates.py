"""Templates of the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def template_of(room: str, name: str, filters: Mapping[str, Callable[[str], str]] | None = None) -> Template:
    """Returns a template of a part of this package, such as `report`. It raises an error for a value that it uses and
    that is not passed to it.
    """
    environment = Environment(
        loader=PackageLoader("sojourn", room),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters or {})
    return environment.get_template(name)
