"""The disciplines of docs/how-to/run-your-own-discipline.md, and faulty ones made from them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT, skip_loudly
from sojourn.kernel import Kernel

PAGE = ROOT / "docs/how-to/run-your-own-discipline.md"
MINE_C, PROTOTYPE = "mine.c", "prototype.py"


def shown(language: str, place: int = 0) -> str:
    """A block of code of the page."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(found) > place, f"{PAGE} has no block {place} of {language}"
    text: str = found[place]
    return text


def write_prototype(folder: Path) -> Path:
    """Writes the page's class in Python into a folder."""
    path = folder / PROTOTYPE
    path.write_text(shown("python"), encoding="utf-8")
    return path


def library(folder: Path, name: str = "mine", old: str = "", new: str = "") -> Path:
    """Compiles the page's CoDel in C with the compiler's words of the page. `old` in it is replaced by `new`."""
    text = shown("c")
    assert text.count(old) == 1 or not old, f"{old!r} is not once in the page's code"
    source, made = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    if shutil.which("cc") is None:
        skip_loudly("no C compiler")
    (line,) = re.findall(r"^    (cc .* mine\.c -o mine\.so .*)$", PAGE.read_text(encoding="utf-8"), re.M)
    words = [{"mine.c": str(source), "mine.so": str(made)}.get(word, word) for word in line.split()]
    done = subprocess.run([*words, "-Wall"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return made


def module(kernel: Kernel, folder: Path, old: str = "", new: str = "") -> Path:
    """A folder with the kernel's CoDel, in which `old` is replaced by `new`, and the Kbuild of the page."""
    folder.mkdir()
    text = (kernel.source / "net/sched/sch_codel.c").read_text(encoding="utf-8")
    assert text.count(old) == 1 or not old, f"{old!r} is not once in sch_codel.c"
    (folder / "sch_codel.c").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    (kbuild,) = re.findall(r"^    echo '(.*)' > mine/Kbuild$", PAGE.read_text(encoding="utf-8"), re.M)
    (folder / "Kbuild").write_text(f"{kbuild}\n", encoding="utf-8")
    return folder
