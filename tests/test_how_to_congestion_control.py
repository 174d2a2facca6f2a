"""The diff of docs/how-to/add-a-congestion-control.md applies to the source, compiles, and passes its own test."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs/how-to/add-a-congestion-control.md"]
MANIFEST = re.compile(r"^members = .*$", re.MULTILINE)


def diff_of(page: Path) -> dict[str, list[tuple[list[str], list[str]]]]:
    """For each file that the page changes, its hunks: the lines before and the lines after."""
    files: dict[str, list[tuple[list[str], list[str]]]] = {}
    for block in re.findall(r"```diff\n(.*?)```", page.read_text(), re.DOTALL):
        name = ""
        for line in block.splitlines():
            if line.startswith("+++ b/"):
                name = line.removeprefix("+++ b/")
                files[name] = []
            elif line.startswith("@@"):
                files[name].append(([], []))
            elif not line.startswith("--- "):
                before, after = files[name][-1]
                if not line.startswith("+"):
                    before.append(line[1:])
                if not line.startswith("-"):
                    after.append(line[1:])
    return files


def apply(page: Path, tree: Path) -> None:
    """Applies the page's diff to a copy of the source. Each hunk must fit in exactly one place."""
    for name, hunks in diff_of(page).items():
        path = tree / name
        text = path.read_text() if path.exists() else ""
        for before, after in hunks:
            old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
            if old:
                assert text.count(old) == 1, f"{page.name}: a hunk of {name} fits in {text.count(old)} places:\n{old}"
                text = text.replace(old, new)
            else:
                assert not text, f"{page.name}: {name} exists already"
                text = new
        path.write_text(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_s_diff_compiles_and_passes_its_own_tests(page: Path, tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    shutil.copytree(ROOT / "crates/core", tmp_path / "crates/core")
    shutil.copy(ROOT / "Cargo.lock", tmp_path)
    whole = (ROOT / "Cargo.toml").read_text().split("[profile.", maxsplit=1)[0]
    (tmp_path / "Cargo.toml").write_text(MANIFEST.sub('members = ["crates/core"]', whole, count=1))
    apply(page, tmp_path)
    new = [Path(name).stem for name in diff_of(page) if not (ROOT / name).exists()]
    assert new, "the page adds a file"
    command = ["cargo", "test", "--offline", "--quiet", "--lib", "-p", "sojourn-core", "--target-dir"]
    command += [str(ROOT / "target/how-to"), "--", *[f"::{stem}::" for stem in new]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"test result: ok\. [1-9]\d* passed", done.stdout), done.stdout
