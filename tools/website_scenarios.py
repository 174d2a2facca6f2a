"""Generates the gallery of scenarios and a picture for each discipline, drawn like the command's own report."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from guidance import advice
from website_tree import Tree, narrow_name, picture_of, toctree

import sojourn as sj
from sojourn import cases, pictures, plan, plot, queues

FADING = '[["0s", "20mbit"], ["20s", "5mbit"], ["40s", "20mbit"]]'
STEADY = '"5mbit"'
"""The rate of the link if the discipline is a shaper, which needs a fixed rate."""
SHAPERS = ("tbf", "htb")
ONE_DISCIPLINE = """\
title = "{title}"
duration = "60s"

[[hop]]
name = "link"
rate = {rate}
qdisc = "pfifo"

[[flow]]
kind = "bulk"
count = 2
rtt = "40ms"
start = "uniform 0s..1s"

[[flow]]
kind = "pings"
interval = "50ms"
rtt = "40ms"

[sweep]
"hop.link.qdisc" = {lines}
"""


@dataclass(frozen=True)
class Scenario:
    """A scenario that comes with sojourn, for the gallery."""

    name: str
    title: str
    text: str

    @property
    def says(self) -> str:
        """Returns the comment at the head of the file, as a paragraph."""
        lines = self.text.splitlines()
        head = lines[: next(place for place, line in enumerate(lines) if not line.startswith("#"))]
        return " ".join(line.removeprefix("#").strip() for line in head)


def scenarios() -> list[Scenario]:
    """Returns all scenarios, by name."""
    return [
        Scenario(name, plan.load(path).title, path.read_text(encoding="utf-8")) for name, path in plan.bundled().items()
    ]


def draw(files: Mapping[Path, Path], name: str = "") -> None:
    """Draws each scenario file's picture from one seed, also for narrow screens. `files` maps scenario files to
    pictures.

    `name` is the name of a picture in the report; by default the first one is drawn."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_draw, files, files.values(), [name] * len(files)))


def _draw(file: Path, out: Path, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = sj.run(plan.load(file, seeds=1), on=1, out=Path(folder) / "out").runs
    made = pictures.pictures(cases.case_list(runs), queues.compared_in([record.result for record in runs]))
    picture = next(one for one in made if name in ("", one.name))
    assert picture.narrow is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(picture.encode("png"))
    narrow_name(out).write_bytes(plot.encode(picture.narrow, "png"))


def discipline_files(folder: Path) -> dict[str, Path]:
    """Writes a scenario file for each discipline that has a picture; returns them by name."""
    files = {}
    for name, one in advice()["disciplines"].items():
        if "picture" in one:
            files[name] = folder / f"{name}.toml"
            title = f"{name} on a link of 5 Mbit/s" if name in SHAPERS else f"{name} on a link that slows down"
            rate = STEADY if name in SHAPERS else FADING
            files[name].write_text(
                ONE_DISCIPLINE.format(title=title, rate=rate, lines=json.dumps(one["picture"])), encoding="utf-8"
            )
    return files


def add_pictures(tree: Tree) -> None:
    """Draws the pictures of the gallery and of the disciplines, and adds the latter to their pages."""
    with tempfile.TemporaryDirectory() as folder:
        disciplines = discipline_files(Path(folder))
        places = {file: tree.folder / f"reference/disciplines/{name}.png" for name, file in disciplines.items()}
        draw(places, "sojourn-link")
    draw({file: tree.folder / f"scenarios/{name}.png" for name, file in plan.bundled().items()})
    draw({plan.bundled()["fading-link"]: tree.folder / "fading-link.png"}, "sojourn-bottleneck")
    for name in disciplines:
        page = tree.folder / f"reference/disciplines/{name}.md"
        text = page.read_text(encoding="utf-8")
        shaped = name in SHAPERS
        link = "5 Mbit/s" if shaped else "20 Mbit/s that falls to 5 between 20 and 40 seconds"
        shown = _picture(f"The delay with {name}", name)
        words = f"Two downloads and pings over a link of {link}, RTT 40 ms:"
        page.write_text(
            text.replace("\n## What to set\n", f"\n{words}\n\n{shown}\n\n## What to set\n", 1), encoding="utf-8"
        )


def gallery() -> dict[str, str]:
    """Returns a page for each scenario, and one that shows all."""
    there = scenarios()
    return {f"scenarios/{one.name}.md": _page(one) for one in there} | {"scenarios/index.md": _index(there)}


def _picture(title: str, name: str) -> str:
    return picture_of(title, f"{name}.png", f"{name}-narrow.png")


def _command(line: str) -> str:
    return f"```shell\n{line}\n```"


def _index(there: Sequence[Scenario]) -> str:
    cards = [
        f"<div>\n\n[{one.title}]({one.name}.md)\n\n{_command(f'sojourn run {one.name}')}\n\n"
        f"[![{one.title}]({one.name}-narrow.png)]({one.name}.md)\n\n</div>"
        for one in there
    ]
    return (
        "# Scenarios\n\nThese come with sojourn and run by name from any folder. Each picture is the first of the "
        "report that its line writes.\n\n"
        + '<div class="gallery">\n\n'
        + "\n\n".join(cards)
        + "\n\n</div>\n\n"
        + toctree([one.name for one in there], hidden=True)
    )


def _page(one: Scenario) -> str:
    return "\n\n".join(
        [
            f"# {one.title}",
            one.says,
            _command(f"sojourn run {one.name}"),
            _picture(one.title, one.name),
            f"## The file\n\n```toml\n{one.text.rstrip()}\n```",
            f"To change a copy of it: `sojourn list scenarios -f json` says where the file is, and "
            f"`sojourn run {one.name} --set KEY=VALUE` changes a key without one "
            "([how](../how-to/change-a-scenario.md)).\n",
        ]
    )
