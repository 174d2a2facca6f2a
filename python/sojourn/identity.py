"""The identity of a run: a digest of all that its result depends on. Equal identities mean equal results.

The digest is of the scenario after `--set` and the sweep. The order of keys, comments, the title, and whether a value
was in the file, swept or set, do not change it. The order of hops and of flows does.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import Refusal

if TYPE_CHECKING:
    from sojourn import _core

NO_PART = ("sweep", "seeds", "title")
"""Keys of a scenario file that select its runs or name them. They are not part of a run's identity."""
DIRECTIONS = {"up": "left", "down": "right"}
"""`up` and `down`, and the directions that they mean."""
SECTIONS = ("hop", "flow", "group")
"""Lists of named tables in a scenario file."""


@dataclass(frozen=True)
class Identity:
    """The digests that identify a run."""

    point: str
    """The digest of the scenario, the files that it names, the seed and the world."""
    engine: str
    """The digest of the programs that play it: the compiled simulator; or a guest's kernel, modules and program."""

    @property
    def id(self) -> str:
        """The run's name in a store."""
        return digest([self.point, self.engine])


def digest(value: object) -> str:
    """The SHA-256 of a value's canonical JSON, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def of_run(scenario: str, seed: int, world: str, engine: str) -> Identity:
    """Returns the identity of a run. `scenario` is a digest of the resolved scenario and the files that it names;
    `engine` is a digest of the programs that play it.
    """
    return Identity(digest([scenario, seed, world]), engine)


def document_of(text: str) -> dict[str, Any]:
    """Parses a scenario file's text into tables. Raises ValueError if it needs TOML 1.1, which only the reader in Rust
    supports.
    """
    return tomllib.loads(text)


def document(text: str) -> dict[str, Any]:
    """Like `document_of`, but returns no tables if the text needs TOML 1.1."""
    try:
        return document_of(text)
    except tomllib.TOMLDecodeError:
        return {}


def document_of_plan(plan: _core.Plan) -> dict[str, Any]:
    """Returns the scenario of a plan as a dictionary. Raises Refusal for text that only the reader in Rust can parse
    (TOML 1.1).
    """
    try:
        return document_of(plan.text)
    except ValueError as error:
        raise Refusal(f"a store needs a scenario in TOML 1.0: {error}") from error


def resolved(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scenario of one run: the run's values are written at their addresses, and all hops and flows have
    names.
    """
    scenario: dict[str, Any] = copy.deepcopy({key: value for key, value in document.items() if key not in NO_PART})
    for hop in scenario.get("hop", ()):
        if "up" in hop:
            hop["reverse"] = hop.pop("up")
        hop.update(hop.pop("down", {}))
    for address, value in chosen.items():
        if address not in NO_PART:
            _assign(scenario, plain_address(address), value)
    for flow in scenario.get("flow", ()):
        if "direction" in flow:
            flow["direction"] = DIRECTIONS.get(flow["direction"], flow["direction"])
    for section in SECTIONS:
        for table, name in zip(scenario.get(section, ()), _names(scenario, section), strict=True):
            table["name"] = name
    return scenario


def plain_address(address: str) -> str:
    """Replaces a hop's `up` by `reverse` in an address, and removes `down`. Then each key has only one address."""
    parts = address.split(".")
    if parts[0] == "hop" and len(parts) > 3 and parts[2] in ("up", "down"):
        parts[2:3] = ["reverse"] if parts[2] == "up" else []
    return ".".join(parts)


def _names(document: Mapping[str, Any], section: str) -> list[str]:
    """Returns the names that are given; missing ones are made as the reader in Rust makes them: hop0, hop1; bulk0,
    web0, bulk1.
    """
    tables = document.get(section, ())
    kinds = [table.get("kind", "flow") if section == "flow" else section for table in tables]
    counts = [kinds[:place].count(kind) if section == "flow" else place for place, kind in enumerate(kinds)]
    return [table.get("name", f"{kind}{count}") for table, kind, count in zip(tables, kinds, counts, strict=True)]


def _assign(document: dict[str, Any], address: str, value: Any) -> None:
    """Writes a value at its address. The address is valid: the reader in Rust has checked it before."""
    *way, key = address.split(".")
    table = document
    if way and way[0] in SECTIONS:
        section, name, *way = way
        table = document[section][_names(document, section).index(name)]
    for part in way:
        table = table.setdefault(part, {})
    table[key] = value


def addresses(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Maps each address of a resolved scenario, as `--set` takes it, to its value: texts unchanged, other values as
    JSON.
    """
    return dict(_flat(scenario, ""))


def _flat(value: Any, address: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{address}.{key}".lstrip("."))
    elif address in SECTIONS:
        for table in value:
            yield from _flat(
                {key: inner for key, inner in table.items() if key != "name"}, f"{address}.{table['name']}"
            )
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield address, text


def digests(folder: Path, value: object, known: dict[str, str | None] | None = None) -> dict[str, str]:
    """Returns the digests of the files that a scenario names (traces, sizes), because their content is a part of the
    scenario.

    `known` keeps digests that were computed before, by the text that names the file. It saves time if many scenarios
    come from one file.
    """
    known = {} if known is None else known
    for text in _texts(value):
        if text not in known:
            known[text] = _digest_of(folder / text) if text else None
    return {text: found for text in sorted(set(_texts(value))) if (found := known[text])}


def _digest_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
