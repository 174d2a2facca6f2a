"""Builds the documentation as a site: tools/website.py [DIR] (default: target/site).

The contents of docs/ and of the papers' folders are assembled as a tree of Markdown in a temporary folder, with links
as on the site. A page for each measure and each paper is generated, and the lists for the navigation. Sphinx builds
HTML that needs neither other hosts nor a server."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from readme import proof
from sphinx.application import Sphinx
from sphinx.util.console import nocolor
from website_measures import measure_pages
from website_papers import paper_pages
from website_scenarios import add_pictures, gallery
from website_tree import REPORTS, ROOT, Tree, toctree

HERE = Path(__file__).parent
SECTIONS = {
    "how-to": "How to",
    "explanation": "Explanation",
    "reference": "Reference",
    "decisions": "Decisions",
}
"""Folders of docs/ and their titles."""
APART = ("reference/disciplines.md",)
"""Pages of a section that have an entry of their own in the navigation."""
TOP = (
    "install.md",
    "tutorial.md",
    "tutorial-python.md",
    "scenarios/index.md",
    "how-to/index.md",
    "papers/index.md",
    "experiments/index.md",
    "reference/disciplines.md",
    "reference/measures/index.md",
    "explanation/index.md",
    "reference/index.md",
    "decisions/index.md",
    "kernel.md",
    "architecture.md",
    "changelog.md",
)
"""The first level of the navigation."""

SETTINGS = {
    "project": "sojourn",
    "html_title": "sojourn",
    "extensions": ["myst_parser", "sphinx_copybutton"],
    "source_suffix": {".md": "markdown"},
    "html_theme": "furo",
    "html_static_path": ["_static"],
    "html_css_files": ["website.css", "scroll.css"],
    "html_js_files": ["scroll.js"],
    "html_favicon": "_static/website.svg",
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_scaled_image_link": True,
    "highlight_language": "none",
    "smartquotes": False,  # quotes in values are shown as they are typed
    "myst_heading_anchors": 4,
    "pygments_style": "friendly",
}


def assemble(folder: Path) -> None:
    """Writes the source of every page."""
    tree = Tree(folder)
    front = tree.linked((HERE / "website.md").read_text(encoding="utf-8"), "docs/index.md", "index.md")
    tree.write("index.md", front.replace("<!-- proof -->", tree.linked(proof(), "README.md", "index.md")))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path != ROOT / "docs/README.md":
            tree.copy(path)
    for name in ("ARCHITECTURE.md", "CHANGELOG.md", "kernel/README.md", *REPORTS):
        tree.copy(ROOT / name)
    reports = toctree([name.removeprefix("experiments/") for name in REPORTS])
    tree.write(
        "experiments/index.md", f"# Lab reports\n\nMeasurements of sojourn itself, with their programs.\n\n{reports}"
    )
    for name, text in paper_pages(tree).items():
        tree.write(name, text)
    for made in (measure_pages(), gallery()):
        for name, text in made.items():
            tree.write(name, text)
    add_pictures(tree)
    for name, title in SECTIONS.items():
        tree.write(f"{name}/index.md", f"# {title}\n\n{toctree(in_order(tree, name))}")
    disciplines = sorted(page.name for page in (folder / "reference/disciplines").glob("*.md"))
    tree.append("reference/disciplines.md", toctree([f"disciplines/{page}" for page in disciplines], hidden=True))
    tree.append("index.md", toctree(TOP, hidden=True))
    scroll = ROOT / "python/sojourn/report"
    for path in (HERE / "website.css", HERE / "website.svg", scroll / "scroll.css", scroll / "scroll.js"):
        tree.write(f"_static/{path.name}", path.read_text(encoding="utf-8"))


def in_order(tree: Tree, section: str) -> list[str]:
    """Returns the pages of a section: first in the order of docs/README.md, then those that are missing there."""
    listed = re.findall(rf"\]\({section}/([^)/]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8"))
    there = sorted(page.name for page in (tree.folder / section).glob("*.md"))
    every = [page for page in dict.fromkeys((*listed, *there)) if page in there]
    return [page for page in every if f"{section}/{page}" not in APART]


def make(source: Path, out: Path) -> int:
    """Builds HTML from a folder of Markdown; returns 1 if there are broken links."""
    nocolor()
    with tempfile.TemporaryDirectory() as trees:
        site = Sphinx(
            source,
            None,
            out,
            trees,
            "html",
            confoverrides=SETTINGS,
            status=None,
            warning=sys.stderr,
            freshenv=True,
            warningiserror=True,
            parallel=os.cpu_count() or 1,
        )
        site.build()
    return site.statuscode


def main() -> int:
    """Builds the site, and prints where it is."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target/site"
    with tempfile.TemporaryDirectory() as source:
        assemble(Path(source))
        code = make(Path(source), out)
    if code == 0:
        print(f"{len(list(out.rglob('*.html')))} pages: {out / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
