"""Archives in the form that a Linux kernel unpacks at its start: cpio's "newc"."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path
from typing import BinaryIO

MAGIC = b"070701"
LAST = "TRAILER!!!"
LIBRARIES = "lib/x86_64-linux-gnu"
"""The folder in which the dynamic loader looks for libraries by default."""


class Writer:
    """Collects files; the same files in the same order make the same bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._known: set[str] = set()

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        encoded = name.encode() + b"\0"
        fields = (len(self._known) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = MAGIC + b"".join(b"%08x" % one for one in fields) + encoded
        self._parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
        self._known.add(name)

    def folder(self, name: str) -> None:
        """Adds a folder, and the folders above it."""
        parts = Path(name).parts
        for count in range(1, len(parts) + 1):
            one = "/".join(parts[:count])
            if one not in self._known:
                self._entry(one, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Adds a file, unless the archive has one of this name already."""
        name = name.lstrip("/")
        if name in self._known:
            return
        if "/" in name:
            self.folder(name.rsplit("/", 1)[0])
        self._entry(name, stat.S_IFREG | mode, data)

    def link(self, name: str, target: str) -> None:
        """Adds a symbolic link."""
        self.folder(name.rsplit("/", 1)[0])
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def program(self, name: str, file: Path) -> None:
        """Adds a file of the host. If it is a program, the libraries that it loads are added too."""
        data = file.read_bytes()
        self.file(name, data, 0o755)
        if data[:4] != b"\x7fELF":
            return
        said = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", said):
            where = library if "ld-linux" in library else f"{LIBRARIES}/{Path(library).name}"
            self.file(where, Path(library).read_bytes(), 0o755)

    def tree(self, name: str, folder: Path) -> None:
        """Adds a folder of the host with all its contents."""
        self.folder(name)
        for file in sorted(folder.rglob("*")):
            inside = f"{name}/{file.relative_to(folder)}"
            if file.is_dir():
                self.folder(inside)
            elif file.is_file():
                self.file(inside, file.read_bytes(), file.stat().st_mode & 0o777)

    def bytes(self) -> bytes:
        """Returns the archive."""
        self._entry(LAST, 0, b"")
        return b"".join(self._parts)


def unpack(packed: BinaryIO, folder: Path) -> None:
    """Writes an archive's files below `folder`, and nowhere else. If the data is not an archive, nothing is written."""
    while (head := packed.read(110))[:6] == MAGIC:
        fields = [int(head[6 + 8 * place : 14 + 8 * place], 16) for place in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = packed.read(length)[:-1].decode(errors="replace")
        packed.read(-(110 + length) % 4)
        data = packed.read(size)
        packed.read(-size % 4)
        if name == LAST:
            return
        place = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            continue
        if stat.S_ISDIR(mode):
            place.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(mode):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
