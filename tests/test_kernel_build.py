"""`sojourn kernel`: a kernel is built once and then found, an interrupted build leaves nothing, errors are reported."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, SOJOURN, Run, skip_loudly

PATCHES = sorted((ROOT / "kernel/guest/patches").glob("*.patch"))

# A minimal Linux source tree for the build. It "compiles" as many objects as it prints, one of them in SLOW seconds.
MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
allnoconfig:
\t@mkdir -p $(O)/include/config $(O)/scripts
\t@echo 6.12.7 > $(O)/include/config/kernel.release
\t@cp $$KCONFIG_ALLCONFIG $(O)/.config
\t@echo "$(RUSTC),$(LOCALVERSION),$(KCFLAGS)" > $(O)/include/seen
linux:
\t@echo "  CC      one.o"; sleep {slow}; echo "  CC      two.o"
\t@cp /bin/true $(O)/linux; touch $(O)/Module.symvers $(O)/junk.o
modules:
\t@test -z "$(M)" || cat $(M)/*.c > $(M)/try.ko
.PHONY: linux modules allnoconfig
"""


def preimage(patch: Path) -> dict[str, str]:
    """Returns the files that a patch changes, as far as the patch shows them."""
    files: dict[str, list[str]] = {}
    name = ""
    for line in patch.read_text().splitlines():
        if line.startswith("--- a/"):
            name = line.removeprefix("--- a/").split("\t")[0]
        elif name and line[:1] in (" ", "-") and not line.startswith("--- "):
            files.setdefault(name, []).append(line[1:])
        elif name and line == "":
            files.setdefault(name, []).append("")
    return {name: "\n".join(lines) + "\n" for name, lines in files.items()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree that is built in no time."""
    return a_tree(tmp_path / "linux", 0)


def a_tree(folder: Path, slow: float) -> Path:
    for patch in PATCHES:
        for name, text in preimage(patch).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((file.read_text() if file.exists() else "") + text)
    for name in (
        "include",
        "scripts",
        "tools/include",
        "tools/perf",
        "net/sched",
        "net/ipv4",
        "lib/math",
        "drivers/gpu",
        "arch/arm",
    ):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "one.h").write_text(f"/* {name} */\n")
    (folder / "arch/um/Kconfig").write_text("config HZ\n\tint\n\tdefault 100\n")
    (folder / "Makefile").write_text(MAKEFILE.format(slow=slow))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for the test. Tools from the user's cache are used from there."""
    from sojourn.kernel import places, tools

    if missing := [name for name in tools.missing() if name in tools.NOT_BROUGHT]:
        skip_loudly(f"no {', '.join(missing)}, so no kernel is built")
    home = tmp_path / "cache"
    home.mkdir()
    if places.home().joinpath("debian").is_dir():
        (home / "sojourn").mkdir()
        (home / "sojourn" / "debian").symlink_to(places.home() / "debian")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("SOJOURN_KERNEL", raising=False)
    return home / "sojourn" / "kernel"


def test_a_kernel_is_built_once_and_found_listed_and_removed(sojourn: Run, tree: Path, cache: Path) -> None:
    first = json.loads(sojourn("kernel", "build", "--source", tree, "-f", "json").stdout)
    again = json.loads(sojourn("kernel", "build", "--source", tree, "-f", "json").stdout)
    assert first["built"] is True
    assert again["built"] is False
    assert {**first, "built": None} == {**again, "built": None}
    assert (first["release"], first["variant"], first["hz"]) == ("6.12.7", "fast", 250)
    assert set(first["stages_s"]) == {"fetch", "unpack", "configure", "compile", "modules"}
    assert (Path(first["folder"]) / "linux").stat().st_mode & 0o111
    assert not list(Path(first["folder"]).rglob("*.o")), "objects take space, and modules do not need them"
    listed = json.loads(sojourn("kernel", "status", "-f", "json").stdout)["kernels"]
    assert [one["digest"] for one in listed] == [first["digest"]]
    assert first["bytes"] > 0
    assert "6.12.7" in sojourn("kernel", "status").stdout
    gone = json.loads(sojourn("kernel", "clean", "-f", "json").stdout)
    assert gone["kernels"] == [Path(first["folder"]).name]
    assert "no kernel is built" in sojourn("kernel", "status").stdout


def test_ticks_variant_and_source_make_another_kernel(sojourn: Run, tree: Path, cache: Path) -> None:
    def build(*more: str) -> str:
        return str(json.loads(sojourn("kernel", "build", "--source", tree, *more, "-f", "json").stdout)["digest"])

    digests = [build(), build("--hz", "100"), build("--variant", "debug")]
    (tree / "kernel.c").write_text("int changed;\n")
    digests.append(build())
    assert len(set(digests)) == 4
    rates = {one["hz"] for one in json.loads(sojourn("kernel", "status", "-f", "json").stdout)["kernels"]}
    assert rates == {100, 250}


def test_the_timer_rate_and_every_patch_reach_the_source(sojourn: Run, tree: Path, cache: Path) -> None:
    built = json.loads(sojourn("kernel", "build", "--source", tree, "--hz", "1000", "-f", "json").stdout)
    source = Path(built["folder"]) / "source"
    assert "default 1000" in (source / "arch/um/Kconfig").read_text()
    assert "UML_SEED" in (source / "arch/um/os-Linux/util.c").read_text()
    assert (source / "include/one.h").exists()
    for name in ("drivers", "lib/math", "net/ipv4"):
        assert not (source / name).exists(), "modules do not need it"
    assert "default 100\n" in (tree / "arch/um/Kconfig").read_text(), "the user's tree is left alone"


def test_what_else_a_machine_has_does_not_reach_the_kernel(
    sojourn: Run, tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RUSTC", "LOCALVERSION", "KCFLAGS"):
        monkeypatch.setenv(name, "of this machine")
    built = json.loads(sojourn("kernel", "build", "--source", tree, "-f", "json").stdout)
    assert (Path(built["folder"]) / "build/include/seen").read_text() == "false,,\n"


def wait_for(what: Path, pattern: str) -> None:
    deadline = time.monotonic() + 30
    while not list(what.glob(pattern)):
        assert time.monotonic() < deadline, f"no {pattern} in {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, cache: Path, number: signal.Signals) -> None:
    slow = a_tree(tmp_path / "slow", 60)
    with subprocess.Popen(
        [SOJOURN, "kernel", "build", "--source", slow],
        stderr=subprocess.PIPE,
        text=True,
    ) as building:
        wait_for(cache, ".new-*/build/.config")
        building.send_signal(number)
        assert building.wait(timeout=10) == 130
        assert building.stderr is not None
        assert building.stderr.read().splitlines()[-1] == "sojourn: interrupted"
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []
    running = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False)
    assert running.stdout == "", "make has ended too"


@pytest.mark.parametrize("early", [True, False], ids=["at its start", "later"])
def test_all_that_a_program_started_is_dead_when_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    from sojourn.kernel import tools

    really_start = subprocess.Popen

    def start(*words: Any, **how: Any) -> subprocess.Popen[bytes]:
        process = really_start(*words, **how)
        if early:
            signal.raise_signal(signal.SIGINT)
        return process

    def interrupt(_line: str) -> None:
        signal.raise_signal(signal.SIGINT)

    def running() -> list[str]:
        return [words(one) for one in Path("/proc").glob("[0-9]*") if str(tmp_path) in words(one)]

    def words(process: Path) -> str:
        with contextlib.suppress(OSError):
            return (process / "cmdline").read_text()
        return ""

    monkeypatch.setattr(subprocess, "Popen", start)
    many = f"for n in $(seq 50); do sh -c 'sleep 60; : {tmp_path}' & done; echo; wait"
    with pytest.raises(KeyboardInterrupt):
        tools.run(["sh", "-c", many], line=interrupt)
    assert running() == []


def test_a_killed_build_is_swept_up_by_the_next(tmp_path: Path, tree: Path, cache: Path) -> None:
    slow = a_tree(tmp_path / "slow", 5)
    with subprocess.Popen([SOJOURN, "kernel", "build", "--source", slow], stderr=subprocess.DEVNULL) as building:
        wait_for(cache, ".new-*/build/.config")
        building.kill()
    assert list(cache.glob(".new-*"))
    subprocess.run([SOJOURN, "kernel", "build", "--source", tree], check=True, capture_output=True)
    assert not list(cache.glob(".new-*"))


def test_two_builds_at_once_build_one_kernel(tmp_path: Path, cache: Path) -> None:
    slow = a_tree(tmp_path / "slow", 1)
    command = [SOJOURN, "kernel", "build", "--source", slow, "-f", "json"]
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(subprocess.run, command, capture_output=True, text=True, check=True) for _ in range(2)]
        answers = [json.loads(one.result().stdout) for one in running]
    assert sorted(one["built"] for one in answers) == [False, True]
    assert answers[0]["digest"] == answers[1]["digest"]


def test_what_is_no_kernel_source_or_too_old_is_refused(sojourn: Run, tree: Path, tmp_path: Path, cache: Path) -> None:
    said = sojourn("kernel", "build", "--source", tmp_path / "nothing", code=2).stderr
    assert "expected the top of a Linux source tree" in said
    text = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(text.replace("VERSION = 6", "VERSION = 5"))
    assert (
        "version 5.12: expected a Linux from 6.1 to 7.x" in sojourn("kernel", "build", "--source", tree, code=2).stderr
    )
    if shutil.which("apt-get"):
        assert "expected a Linux from" in sojourn("kernel", "build", "--version", "4.19", code=2).stderr
    assert 'nearest is "build"' in sojourn("kernel", "biuld", code=2).stderr


def test_a_build_that_fails_says_the_first_error(sojourn: Run, tree: Path, cache: Path) -> None:
    text = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(text.replace("sleep 0;", "echo 'x.c:3:1: error: no such thing'; exit 1;"))
    said = sojourn("kernel", "build", "--source", tree, code=2).stderr
    assert "the kernel does not build: x.c:3:1: error: no such thing" in said
    assert json.loads(sojourn("kernel", "status", "-f", "json").stdout)["kernels"] == []


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sojourn.errors import Refusal
    from sojourn.kernel import tools

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "environment", lambda: {"PATH": str(tmp_path)})
    monkeypatch.setattr(tools, "has_c_library", lambda: True)
    with pytest.raises(Refusal, match=r"missing: expected the packages make gcc binutils flex bison m4 bc xz-utils"):
        tools.bring()


def test_a_world_without_a_kernel_says_how_to_get_one(cache: Path) -> None:
    from sojourn.errors import Refusal
    from sojourn.kernel import find

    with pytest.raises(Refusal, match=r"no root\): sojourn kernel build --variant debug --version 6.1$"):
        find("debug", version="6.1")


def test_a_kernel_of_other_patches_is_out_of_date(
    sojourn: Run, tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.errors import Refusal
    from sojourn.kernel import find, recipe

    sojourn("kernel", "build", "--source", tree)
    assert find().release == "6.12.7"
    monkeypatch.setattr(recipe, "patches", lambda: [tree / "Makefile"])
    with pytest.raises(Refusal, match="the one in the cache was built from other patches"):
        find()


def test_every_option_stands_once_in_the_configuration() -> None:
    text = (ROOT / "kernel/guest/config").read_text()
    names = re.findall(r"^(CONFIG_\w+)=", text, re.M)
    assert len(names) == len(set(names)) > 100
