"""Finds a Linux source: in a package of the system's package manager, or in a folder that the user names.

On Debian, the source comes from the newest `linux-source-*` package of a supported version. Packages are looked up in
the system's package lists and, for backports, in lists of our own from the same mirror. The system's files are not
changed, and no mirror address is hard-coded.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import Refusal
from sojourn.kernel import places, tools

OLDEST, NEWEST = (6, 1), (7, 99)
"""The versions of Linux that we support."""
BACKPORTS = ("trixie-backports", "stable-backports")
"""Suites that have newer kernels than the system's own, in addition to the backports of the system's suite."""
PACKAGE = r"linux-source-(\d+)\.(\d+)(?:\.\d+)?$"
LEFT_OUT = (
    ".git",
    ".config",
    "*.o",
    "*.ko",
    "*.cmd",
    "Documentation/*/*",
    "arch/[!xu]*/*.[chS]",
    "arch/[!xu]*/*.dts*",
    "drivers/gpu/drm/*/*.[ch]",
    "drivers/media/*/*.[ch]",
    "drivers/net/ethernet/*/*/*.[ch]",
    "drivers/net/wireless/*/*/*.[ch]",
    "drivers/scsi/*/*.[ch]",
    "sound/*/*.[ch]",
    "sound/*/*/*.[ch]",
    "tools/testing/*",
    "tools/perf/*",
    "include/config",
    "include/generated",
    "arch/*/include/generated",
)
"""Files of a source that a guest's kernel does not need: two thirds of it. A star in these patterns matches slashes."""

Tell = Callable[[str, float], None]
"""Called with the stage of the build and the share of it that is done."""


@dataclass(frozen=True)
class Source:
    """A source of Linux that is available."""

    version: str
    """The version in the package's name, such as 6.1; the third number is in its makefile."""
    identity: str
    """Identifies its content in the kernel's digest: the package's name and version, or a digest of a tree's files."""
    package: str | None = None
    options: tuple[str, ...] = ()
    """Options of apt that select the package lists that have it."""
    tree: Path | None = None


def of_tree(tree: Path) -> Source:
    """Returns a source that is the user's own kernel tree. The tree is copied before it is patched."""
    makefile = tree / "Makefile"
    if not (tree / "arch" / "um" / "Kconfig").is_file() or not makefile.is_file():
        raise Refusal(f"--source {tree}: expected the top of a Linux source tree, with arch/um")
    text = makefile.read_text(errors="replace")
    numbers = [re.search(rf"^{name} *= *(\d+)", text, re.M) for name in ("VERSION", "PATCHLEVEL")]
    version = ".".join(found[1] for found in numbers if found)
    _refuse_unsupported(version, f"--source {tree}")
    return Source(version, f"tree {_digest_of(tree)}", tree=tree.resolve())


def _refuse_unsupported(version: str, whose: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not OLDEST <= numbers <= NEWEST:
        low, high = f"{OLDEST[0]}.{OLDEST[1]}", f"{NEWEST[0]}.x"
        raise Refusal(f"{whose}: version {version or 'unknown'}: expected a Linux from {low} to {high}")


def _digest_of(tree: Path) -> str:
    """Returns the digest of all files of a tree that are copied."""
    uniform = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
    command = ["tar", "-c", "-f", "-", *uniform, *_exclusions("./"), "-C", str(tree), "."]
    digest = hashlib.sha256()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as packing:
        assert packing.stdout is not None
        while piece := packing.stdout.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def packages(version: str | None) -> Iterator[list[Source]]:
    """Yields the sources that apt can fetch, best first: newer ones before older ones, or only those of one version."""
    with lists(version, PACKAGE, everywhere=True) as found:
        yield found


@contextmanager
def lists(version: str | None, pattern: str, *, everywhere: bool = False) -> Iterator[list[Source]]:
    """Yields the packages whose names match, best first: newer ones before older ones, or only those of one version.

    Our own lists are searched only if the system's have no such package, or with `everywhere` if no version is
    requested. They are removed on exit, so packages from them must be downloaded before.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Refusal("no apt-get and dpkg-deb here: expected --source TREE, a Linux source tree that you fetched")
    if version is not None:
        _refuse_unsupported(version, f"--version {version}")
    with tempfile.TemporaryDirectory(prefix="sojourn-apt-") as private:
        found = _known((), version, pattern)
        if (everywhere and version is None) or not found:
            for suite in _suites():
                options = _own_lists(Path(private) / suite, suite)
                found += _known(options, version, pattern) if options else []
        if not found:
            what = f"{pattern.split('(')[0]}{version or '*'}"
            raise Refusal(f"apt knows no {what}: expected it in the package lists (apt-get update), or --source TREE")
        yield sorted(found, key=lambda one: [int(part) for part in re.findall(r"\d+", one.identity)], reverse=True)


def _known(options: tuple[str, ...], version: str | None, pattern: str) -> list[Source]:
    """Returns the packages in a set of lists whose versions we support."""
    found = []
    for name in _apt("apt-cache", *options, "pkgnames", pattern.split("(")[0]).split():
        matched = re.match(pattern, name)
        if not matched or not OLDEST <= (int(matched[1]), int(matched[2])) <= NEWEST:
            continue
        number = f"{matched[1]}.{matched[2]}"
        if version is not None and number not in {version, ".".join(version.split(".")[:2])}:
            continue
        shown = re.search(r"^Version: (.+)$", _apt("apt-cache", *options, "show", "--no-all-versions", name), re.M)
        if shown:
            found.append(Source(number, f"{name} {shown[1]}", package=name, options=options))
    return found


def depends(package: str, options: tuple[str, ...] = ()) -> list[str]:
    """Returns the names of the packages that a package depends on."""
    return re.findall(r"Depends: (\S+)", _apt("apt-cache", *options, "depends", package))


def _apt(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout


def _suites() -> list[str]:
    names = list(BACKPORTS)
    with suppress(OSError):
        codename = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
        names = [*([f"{codename[1]}-backports"] if codename else []), *names]
    return list(dict.fromkeys(names))


def _own_lists(folder: Path, suite: str) -> tuple[str, ...]:
    """Downloads our own package lists of one suite from the system's mirror. Returns the options with which apt uses
    them, or nothing if there is no such suite.
    """
    addresses = _apt("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirror = next((line for line in addresses.split() if re.search(r"/debian/?$", line)), None)
    if mirror is None:
        return ()
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": str(folder / "sources.list"),
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder),
    }
    options = tuple(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))
    done = subprocess.run(["apt-get", "-qq", *options, *_unprivileged(), "update"], capture_output=True, check=False)
    return options if done.returncode == 0 else ()


def _unprivileged() -> tuple[str, ...]:
    import getpass

    return ("-o", f"APT::Sandbox::User={getpass.getuser()}")


def archive(source: Source, tell: Tell) -> Path:
    """Returns the package's archive of the source, which is kept in the cache."""
    shelf = places.cache() / "sources"
    name = re.sub(r"[^\w.+~-]", "_", source.identity)
    for kept in shelf.glob(f"{name}.tar.*"):
        return kept
    shelf.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=shelf) as private:
        work = Path(private)
        package = download(source, work, tell)
        subprocess.run(["dpkg-deb", "-x", package, work / "root"], check=True)
        found = next((work / "root" / "usr" / "src").rglob("*.tar.*"), None)
        if found is None:
            raise Refusal(f"{source.package}: no archive of a source is in it")
        place = shelf / f"{name}.tar.{found.name.rsplit('.', 1)[-1]}"
        found.rename(place)
    return place


def download(source: Source, work: Path, tell: Tell) -> Path:
    """Downloads a package into the folder `work`, and returns its file."""
    assert source.package is not None
    shown = re.search(r"^Size: (\d+)$", _apt("apt-cache", *source.options, "show", source.package), re.M)
    total = int(shown[1]) if shown else 170_000_000
    command = ["apt-get", "-qq", *source.options, *_unprivileged(), "download", source.package]
    said = tools.run(command, cwd=work, tick=lambda: tell("fetch", _bytes_in(work) / total))
    found = next(work.glob("*.deb"), None)
    if found is None:
        lines = said.strip().splitlines() or ["no reason given"]
        raise Refusal(f"{source.package} can't be fetched: {lines[-1]}")
    return found


def _bytes_in(folder: Path) -> int:
    with suppress(OSError):
        return sum(file.stat().st_size for file in folder.rglob("*.deb*"))
    return 0


def unpack(source: Source, into: Path, tell: Tell) -> None:
    """Unpacks those parts of the source that a guest's kernel needs."""
    into.mkdir()
    if source.tree is not None:
        pack = ["tar", "-c", "-f", "-", *_exclusions("./"), "-C", str(source.tree), "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packing:
            subprocess.run(["tar", "-x", "-f", "-", "-C", str(into)], stdin=packing.stdout, check=True)
        return
    packed = archive(source, tell)
    command = [
        "tar",
        "-x",
        "-f",
        str(packed),
        "-C",
        str(into),
        "--strip-components=1",
        *_exclusions(f"{source.package}/"),
    ]
    tools.run(command, tick=lambda: tell("unpack", 0.5))
    if not (into / "Makefile").is_file():
        raise Refusal(f"{packed}: can't be unpacked: expected a Linux source; remove it and try again")


def _exclusions(top: str) -> list[str]:
    return ["--anchored", "--wildcards", "--wildcards-match-slash", *(f"--exclude={top}{part}" for part in LEFT_OUT)]
