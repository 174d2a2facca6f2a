"""The page of `sojourn tune`: the setting, its lines for routers, and what it was compared with."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from sojourn import _core, plot
from sojourn.files import reserving
from sojourn.plot import Format
from sojourn.records import write_text
from sojourn.templates import template_of
from sojourn.tune import picture, summary
from sojourn.tune.router import Lines
from sojourn.tune.search import Found

PAGE = "setting.html"


@reserving(wait=True)
def write(folder: Path, found: Found, lines: Mapping[str, Lines], form: Format = "png") -> Path:
    """Writes the page, the picture in this format with its numbers, and returns the page's path."""
    made = picture.picture(found, origin(found))
    plot.write(made, folder, form)
    title = f"A setting for {found.task.title}"
    text = template_of("report", "setting.html.j2").render(
        title=title,
        answer=summary.answer(found),
        verdicts=summary.verdicts(found),
        origin=origin(found),
        image=base64.b64encode(made.encode("png")).decode(),
        narrow=base64.b64encode(plot.encode(made.narrow or made.figure, "png")).decode(),
        caption=made.title,
        colours={kind: plot.COLOURS.get(kind, plot.OTHER) for kind in (one.kind for one in found.final.candidates)},
        languages=list(lines.values()),
        settings=summary.finalists(found),
        lower=summary.lower(found),
        kernel=summary.confirmation(found),
        confirmed=summary.confirmed_words(found) if found.confirmed else "",
        sensitivity=summary.sensitivity(found),
        robustness=summary.robustness(found),
        command=found.task.command,
        scenario=_core.to_toml(dict(found.task.document)),
    )
    write_text(folder / PAGE, text)
    return folder / PAGE


def origin(found: Found) -> str:
    """Seeds, world and version."""
    seeds = found.final.seeds
    worlds = f"{found.final.world} and kernel" if found.confirmed else found.final.world
    return (
        f"{len(found.searched.candidates)} settings compared  ·  {len(seeds)} fresh seeds ({seeds[0]}–{seeds[-1]})"
        f"  ·  world {worlds}  ·  sojourn {_core.__version__}"
    )
