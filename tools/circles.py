"""Circles between the files of a crate: files that need each other, directly or through others.

A file needs another if its code names something that the other defines: by `use`, or by a path that begins with
`crate::`, `super::`, `self::` or the name of a module. A file does not need what it only re-exports (`pub use`):
a file that names it there needs the file that defines it. Tests are left out. In the length of a circle, a file and the
files of its own folder count as one if that folder has no further folders: they share private state, as `link.rs` and
`link/card.rs` do.

A method call has no path, so that methods which a file defines for another file's type are not seen: every circle
that is found is there, but not every circle is found.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST = 3
"""The length of the longest circle that is allowed."""

Name = tuple[str, ...]
"""A path in a crate, from its root: `("qdisc", "codel", "Params")`."""

_LITERALS = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | r(\#*)".*?"\1 | "(?:\\.|[^"\\])*" | '(?:\\.[^']*|[^'\\])'""", re.VERBOSE | re.DOTALL
)
_TEST = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")
_VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
"""To be seen by a module is not to need it."""
_MOD = re.compile(r"\bmod\s+(\w+)\s*;")
_USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
_PATH = re.compile(r"(?<![\w:])(?:\$?\w+)(?:\s*::\s*\w+)+")


@dataclass(frozen=True)
class Circle:
    """Files that need each other."""

    files: list[Path]
    length: int
    """As many files, where those of one folder count as one."""


@dataclass
class Module:
    """A file of a crate: which module it is, what it names, and what it passes on under which name."""

    file: Path
    name: Name
    code: str
    children: set[str] = field(default_factory=set)
    imports: dict[str, Name] = field(default_factory=dict)
    globs: list[Name] = field(default_factory=list)
    passed_on: dict[str, Name | None] = field(default_factory=dict)
    """None if it comes from another crate."""


def circles(files: dict[Name, tuple[Path, str]]) -> list[Circle]:
    """The circles between the modules of a crate, the longest first; `files` are its modules' files and their texts."""
    modules = _read(files)
    parts = _parts(modules)
    graph = {
        module.file: {file for file in _needed(module, modules) if file != module.file} for module in modules.values()
    }
    found = [
        Circle(sorted(circle), len({parts[file] for file in circle}))
        for circle in _strongly_connected(graph)
        if len(circle) > 1
    ]
    return sorted(found, key=lambda circle: (-circle.length, -len(circle.files), circle.files))


def _parts(modules: dict[Name, Module]) -> dict[Path, Path]:
    """For each file the one that it counts as: itself, or the one whose folder it is in."""
    with_folders = {name[:-2] for name in modules if len(name) > 1}
    return {
        module.file: modules[name[:-1]].file if len(name) > 1 and name[:-1] not in with_folders else module.file
        for name, module in modules.items()
    }


def files_of(root: Path) -> dict[Name, tuple[Path, str]]:
    """The modules of a crate whose root is this file, with their texts."""
    found = {}
    for path in sorted(root.parent.rglob("*.rs")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = () if path == root else parts[:-1] if parts[-1] == "mod" else parts
        found[name] = (path, path.read_text())
    return found


def _read(files: dict[Name, tuple[Path, str]]) -> dict[Name, Module]:
    """The modules that are reached from the root, without tests."""
    modules: dict[Name, Module] = {}
    waiting: list[Name] = [()]
    while waiting:
        name = waiting.pop()
        file, text = files[name]
        code = _without_tests(_LITERALS.sub(lambda found: '""' if found[0][0] in "r\"'" else "", text))
        code = _VISIBILITY.sub("pub", code)
        module = Module(file, name, _USE.sub("", code), set(_MOD.findall(code)))
        for public, tree in _USE.findall(code):
            for path, alias in _leaves(tree):
                absolute = _absolute(path, name, module.children)
                if public:
                    module.passed_on[alias] = absolute
                if absolute is not None and alias == "*":
                    module.globs.append(absolute)
                elif absolute is not None:
                    module.imports[alias] = absolute
        modules[name] = module
        waiting += [(*name, child) for child in module.children if (*name, child) in files]
    return modules


def _without_tests(code: str) -> str:
    """The code without modules that are compiled for tests only."""
    while found := _TEST.search(code):
        end = found.end()
        if found[2] == "{":
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
        code = code[: found.start()] + code[end:]
    return code


def _leaves(tree: str) -> Iterator[tuple[Name, str]]:
    """The items that a `use` names, with their names here: `a::{b, c as d}` are a::b as b, and a::c as d."""
    head, brace, rest = tree.partition("{")
    before = tuple(part for part in re.sub(r"\s", "", head).split("::") if part) if brace else ()
    if not brace:
        path, _, alias = tree.strip().partition(" as ")
        parts = tuple(re.sub(r"\s", "", path).split("::"))
        if parts[-1] == "self":
            parts = parts[:-1]
        if parts and parts != ("",):
            yield parts, alias.strip() or parts[-1]
        return
    for part in _split(rest.rstrip().removesuffix("}")):
        if part.strip() == "self":
            yield before, before[-1]
        elif part.strip():
            for path, alias in _leaves(part):
                yield (*before, *path), alias


def _split(list_of_trees: str) -> list[str]:
    """Splits at the commas outside of braces."""
    parts, depth = [""], 0
    for letter in list_of_trees:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _absolute(path: Name, module: Name, children: set[str]) -> Name | None:
    """The path from the crate's root; None if it leads out of the crate."""
    if path[0] in ("crate", "$crate"):
        return path[1:]
    if path[0] == "self":
        return module + path[1:]
    if path[0] == "super":
        up = next((place for place, part in enumerate(path) if part != "super"), len(path))
        return module[: len(module) - up] + path[up:]
    return module + path if path[0] in children else None


def _needed(module: Module, modules: dict[Name, Module]) -> Iterator[Path]:
    """The files that define what a module's code names."""
    words = set(re.findall(r"\w+", module.code))
    for alias, path in module.imports.items():
        # Names of modules are followed below, where something in them is named.
        if alias in words and path not in modules:
            yield from _defined(path, modules)
    for path in module.globs:
        yield from _defined(path, modules)
    for found in _PATH.findall(module.code):
        path = tuple(part.strip() for part in found.split("::"))
        if path[0] in module.imports and module.imports[path[0]] in modules:
            yield from _defined(module.imports[path[0]] + path[1:], modules)
        elif (absolute := _absolute(path, module.name, module.children)) is not None:
            yield from _defined(absolute, modules)


def _defined(path: Name, modules: dict[Name, Module], depth: int = 0) -> Iterator[Path]:
    """The file that defines what this path names; what a file passes on is looked for where it comes from."""
    inside = next(module for end in range(len(path), -1, -1) if (module := modules.get(path[:end])))
    rest = path[len(inside.name) :]
    if not rest or depth > 8 or rest[0] not in inside.passed_on or inside.passed_on[rest[0]] == path:
        yield inside.file
    elif (source := inside.passed_on[rest[0]]) is not None:
        yield from _defined(source + rest[1:], modules, depth + 1)


def _strongly_connected(graph: dict[Path, set[Path]]) -> list[set[Path]]:
    """The strongly connected parts of a graph, by Kosaraju's algorithm."""
    backwards: dict[Path, set[Path]] = {node: set() for node in graph}
    for node, following in graph.items():
        for one in following:
            backwards[one].add(node)
    seen: set[Path] = set()
    order = [node for start in graph for node in _reached(start, graph, seen)]
    seen = set()
    return [set(part) for start in reversed(order) if (part := _reached(start, backwards, seen))]


def _reached(start: Path, graph: dict[Path, set[Path]], seen: set[Path]) -> list[Path]:
    """The files that are reached from here and not seen yet, each after all that were reached from it."""
    if start in seen:
        return []
    seen.add(start)
    finished, stack = [], [(start, iter(graph[start]))]
    while stack:
        node, following = stack[-1]
        nearest = next((one for one in following if one not in seen), None)
        if nearest is None:
            finished.append(node)
            stack.pop()
        else:
            seen.add(nearest)
            stack.append((nearest, iter(graph[nearest])))
    return finished
