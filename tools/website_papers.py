"""Generates a page for each paper: its findings, every figure, and every claim with its verdict in each world."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claims_page import BEGIN, END, WHOLE, WORLDS, words, written
from website_tree import ROOT, Tree, cell, picture_of, plain, toctree

from sojourn import claims, figures
from sojourn.claims import CLAIMS, VERDICTS
from sojourn.figures import Drawing

UNJUDGED = "not judged yet"
TABLE = re.compile(rf"(## All claims\s+)?{re.escape(BEGIN)}.*{re.escape(END)}\n*", re.S)
"""The table of verdicts in a README."""


@dataclass(frozen=True)
class Paper:
    """A folder of experiments/ with all data for its page."""

    folder: Path
    readme: str
    says: Mapping[str, str]
    """Its claims, by id."""
    judged: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """By world and id: the output of `sojourn claims -f json`."""
    drawings: tuple[Drawing, ...]

    @property
    def number(self) -> str:
        """The number by which the command calls it."""
        return self.folder.name.split("-")[0]

    @property
    def title(self) -> str:
        """The first heading of the README."""
        found = re.search(r"(?m)^# (.+)$", self.readme)
        return found[1] if found else self.folder.name

    def verdict(self, world: str, claim: str) -> str:
        """Returns one of VERDICTS, or the text for a claim that is not judged."""
        found = self.judged[world].get(claim)
        return str(found["verdict"]) if found else UNJUDGED


def papers() -> list[Paper]:
    """Returns every folder with claims whose name begins with a paper's number."""
    return [_load(path.parent) for path in sorted(ROOT.glob(f"experiments/[0-9][0-9][0-9]-*/{CLAIMS}"))]


def _load(folder: Path) -> Paper:
    readme = folder / "README.md"
    return Paper(
        folder=folder,
        readme=readme.read_text(encoding="utf-8") if readme.exists() else f"# {folder.name}\n",
        says={claim.id: claim.says for claim in claims.load(folder).claims},
        judged={world: written(folder, world) for world in WORLDS},
        drawings=figures.load(folder).drawings if (folder / figures.FIGURES).exists() else (),
    )


def paper_pages(tree: Tree) -> dict[str, str]:
    """Returns a page for each paper and one that lists them; adds the pictures to the tree."""
    there = papers()
    return {f"papers/{one.folder.name}.md": page(one, tree) for one in there} | {"papers/index.md": _index(there)}


def _index(there: Sequence[Paper]) -> str:
    rows = ["| paper | claims | " + " | ".join(WHOLE) + " | figures |", "|---|---|---|---|---|"]
    for one in there:
        cells = [f"[{one.title}]({one.folder.name}.md)", str(len(one.says))]
        cells += [_counted(one, world) for world in WHOLE]
        rows.append(f"| {' | '.join(cells)} | {len(one.drawings)} |")
    return (
        "# Papers\n\nThe claims of each paper, and the results in the simulator (sim) and in the real Linux kernel. "
        "A paper's page also has those between real hosts (live), where there are some. "
        "A claim's range was fixed before the first run, unless its page says otherwise. Each difference has a cause, "
        "found by an experiment in the repository, or is marked as unexplained. "
        "[How claims are judged](../how-to/judge-the-papers-claims.md).\n\n"
        + "\n".join(rows)
        + "\n\n"
        + toctree([one.folder.name for one in there], hidden=True)
    )


def _counted(paper: Paper, world: str, claims_of: Iterable[str] | None = None) -> str:
    counts = Counter(paper.verdict(world, claim) for claim in claims_of or paper.says)
    return " ".join(_badge(verdict, counts[verdict]) for verdict in (*VERDICTS, UNJUDGED) if counts[verdict])


def _badge(verdict: str, count: int | None = None) -> str:
    text = verdict if count is None else f"{count} {verdict}"
    return f'<span class="verdict {verdict.replace(" ", "-")}">{text}</span>'


def page(paper: Paper, tree: Tree) -> str:
    """Formats a paper's README with its figures, and its claims instead of the table of verdicts."""
    found = tree.linked(paper.readme, f"experiments/{paper.folder.name}/README.md", f"papers/{paper.folder.name}.md")
    if any(paper.judged.values()):
        found = TABLE.sub("", found)  # the claims follow below, one by one
    head, *sections = re.split(r"(?m)^(?=## )", found)
    parts = [head.rstrip(), _summary(paper), _figures(paper, tree), *(one.rstrip() for one in sections), _claims(paper)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(paper: Paper) -> str:
    rows = [f"| {world} | {_counted(paper, world)} |" for world in WHOLE]
    if live := paper.judged.get("live"):
        rows.append(f"| live | {_counted(paper, 'live', live)} |")
    return "\n".join(["| world | verdicts |", "|---|---|", *rows])


def _figures(paper: Paper, tree: Tree) -> str:
    parts = []
    for one in paper.drawings:
        parts += [f"### {one.title}", "", f"In the paper: {one.paper}.", ""]
        drawn = paper.folder / figures.FOLDER / f"{one.name}.png"
        if drawn.exists():
            there = f"papers/{paper.folder.name}/{drawn.name}"
            (tree.folder / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, tree.folder / there)
            parts.append(picture_of(one.title, f"{paper.folder.name}/{drawn.name}"))
        else:
            parts.append("*Not drawn yet.*")
        parts.append("")
        if one.claims:
            parts += ["| claim | " + " | ".join(WHOLE) + " |", "|---|---|---|"]
            parts += [_seen(paper, claim) for claim in one.claims]
            parts.append("")
        parts += [*command(f"sojourn figures {paper.number}/{one.name}"), ""]
    return "\n".join(["## Figures", "", *parts]) if parts else ""


def command(line: str) -> list[str]:
    """Formats a command line; fenced, as an indented one would belong to a list before it."""
    return ["```shell", line, "```"]


def _seen(paper: Paper, claim: str) -> str:
    verdicts = " | ".join(_badge(paper.verdict(world, claim)) for world in WHOLE)
    return f"| [{claim}](#{_anchor(claim)}): {cell(paper.says[claim])} | {verdicts} |"


def _anchor(claim: str) -> str:
    return f"claim-{re.sub(r'[^a-z0-9]+', '-', claim.lower())}"


def _claims(paper: Paper) -> str:
    parts = ["## Claims", ""]
    for claim, says in paper.says.items():
        parts += [f"({_anchor(claim)})=", "", f"### {claim}", "", f"The paper: {says}.", ""]
        for world in WORLDS:
            if world in WHOLE or claim in paper.judged.get(world, {}):
                parts += _judgement(paper, claim, world)
        if shown := [one for one in paper.drawings if claim in one.claims]:
            parts += ["", "Seen in: " + "; ".join(one.title for one in shown) + "."]
        parts += ["", *command(f"sojourn claims {shlex.quote(claim)}"), ""]
    return "\n".join(parts)


def _judgement(paper: Paper, claim: str, world: str) -> list[str]:
    """Formats a verdict with the results in that world and the cause of a difference."""
    found = paper.judged[world].get(claim, {})
    told = words(found) if found else []
    for key in ("cause", "ablation", "tests"):
        told += [f"{key.capitalize()}: {said}"] if (said := found.get(key)) else []
    return [f"- {world}: {_badge(paper.verdict(world, claim))}", *(f"  - {plain(one)}" for one in told)]
