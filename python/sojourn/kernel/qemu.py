"""A cross-check: runs a distribution's own kernel image in QEMU. This is in virtual time too, and five to forty times
as slow as User-Mode Linux.

Debian's `linux-image-*` with its headers and QEMU are unpacked into the cache, which needs no root. The guest's files
are an archive that the kernel unpacks into its memory. The archive includes the run's folder. After the job the guest
opens a serial port, and sends the folder back through it as an archive. Random numbers mostly repeat with the seed. But
QEMU delivers some events when the host gets to them, above all on a busy host, so a repetition may differ by some
tenths of a percent. It is a cross-check, not a reference.

With `cpus` above 1 the guest runs in the host's time, on as many threads, for tests of races. Kernels of our own with
several CPUs (`smp-kasan`, `smp-kcsan`) are for that too; they have no modules of their own.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from sojourn.errors import Refusal
from sojourn.kernel import archive, guest, modules, places, source, store, tools
from sojourn.kernel.image import Kernel
from sojourn.kernel.source import Tell

PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios", "busybox-static")
IMAGE = r"linux-image-(\d+)\.(\d+)\.(?!.*(?:cloud|rt|unsigned|dbg))\S*-amd64$"
"""Matches the names of packages with plain kernels; kernels for clouds or real time do not match."""
HZ = 250
"""Ticks a second of Debian's kernels."""
WORK = "/work"
"""The run's folder in the guest; `sojourn-guest` reads it from the environment variable SOJOURN_WORK."""
KEPT = ("net", "drivers/net", "drivers/char", "drivers/virtio", "lib", "crypto")
"""Folders of kernel modules that are kept: disciplines, their dependencies, virtual devices, and the port that sends
the result.
"""
LOADED = re.compile(
    r"(sch|cls|act|em)_\w+|tcp_\w+|veth|ifb|dummy|ipip|bridge|8021q|inet_diag|udp_diag|nf_conntrack|pktgen"
)
"""Modules that are loaded before the job, with their dependencies."""
NOT_LOADED = {"tcp_diag", "sch_teql", "act_ipt", "em_ipt", "em_canid", "em_ipset", "sch_mqprio_lib", "act_sample"}
BY_JOBS = {"sojourn_replace"}
"""Modules of ours that only a job loads, with parameters."""
BEFORE = ("crc32c_generic",)
"""Modules that others need without naming them as a dependency."""
AFTER = ("virtio_pci", "virtio_console")
"""Modules for the port that sends the result. They are loaded when the job is done, because interrupts of the port come
when the host gets to them.
"""
INIT = """\
#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/sbin:/usr/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
for file in /modules/*.ko; do [ ! -e "$file" ] || busybox insmod "$file" || echo "insmod $file failed"; done
cd {work}
SOJOURN_WORK={work} /bin/sojourn-guest
for file in /late/*.ko; do [ ! -e "$file" ] || busybox insmod "$file"; done
cd {work} && busybox find . | busybox cpio -o -H newc > /dev/vport0p1
busybox sync
busybox poweroff -f
"""


def build(version: str | None, tell: Tell) -> tuple[Path, bool]:
    """Fetches Debian's kernel into the cache. Returns its folder, and whether it was fetched just now."""
    with source.lists(version, IMAGE) as found:
        chosen = found[0]
        digest = hashlib.sha256(f"debian {chosen.identity}".encode()).hexdigest()
        assert chosen.package is not None
        release = chosen.package.removeprefix("linux-image-")
        place = places.cache() / f"{chosen.version}-debian-hz{HZ}-{digest[:12]}"
        if (place / store.FACTS).is_file():
            return place, False
        places.cache().mkdir(parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(prefix=f"{store.TEMPORARY}{os.getpid()}-", dir=places.cache()))
        try:
            _unpack(chosen, release, private, tell)
            known = {
                "release": release,
                "variant": "debian",
                "hz": HZ,
                "machine": "x86_64",
                "digest": digest,
                "recipe": "debian",
                "source": chosen.identity,
                "stages_s": {},
            }
            (private / store.FACTS).write_text(json.dumps(known, indent=1) + "\n")
            private.rename(place)
        finally:
            shutil.rmtree(private, ignore_errors=True)
    return place, True


def _unpack(chosen: source.Source, release: str, private: Path, tell: Tell) -> None:
    """Unpacks the image, its modules, and the headers that modules are built with."""
    image = source.download(chosen, private, tell)
    root = private / "image"
    root.mkdir()
    wanted = ["./boot/vmlinuz-*", *(f"*/lib/modules/*/kernel/{part}/*" for part in KEPT)]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", image], stdout=subprocess.PIPE) as packed:
        command = ["tar", "-x", "-C", str(root), "--wildcards", *wanted]
        subprocess.run(command, stdin=packed.stdout, check=False, stderr=subprocess.DEVNULL)
    image.unlink()
    for file in (root / "boot").glob("vmlinuz-*"):
        file.rename(private / "linux")
    trees = next(root.rglob("lib/modules"), None)
    if trees is None or not (private / "linux").is_file():
        raise Refusal(f"{chosen.package}: no kernel and no modules are in it")
    trees.rename(private / "modules")
    shutil.rmtree(root)
    headers = private / "headers"
    names = [f"linux-headers-{release}", *source.depends(f"linux-headers-{release}", chosen.options)]
    for name in names:
        if name.startswith(("linux-headers-", "linux-kbuild-")):
            package = source.download(source.Source(chosen.version, "", name, chosen.options), private, tell)
            subprocess.run(["dpkg-deb", "-x", package, headers], check=True)
            package.unlink()
    build = headers / "usr" / "src" / f"linux-headers-{release}"
    makefile = build / "Makefile"
    # Debian's names the common part by its place in the system.
    makefile.write_text(makefile.read_text().replace("/usr/src/", "../"))
    (private / "build").symlink_to(build.relative_to(private))
    (private / "source").symlink_to("build")
    tell("unpack", 1.0)


def boot(
    kernel: Kernel,
    job: str,
    folder: Path,
    *,
    seed: int = 1,
    memory: str = "1G",
    cpus: int = 1,
    cpu: int | None = None,
    timeout_s: float = 3600.0,
    stop: Callable[[], bool] = lambda: False,
    program: Path | None = None,
    more: Iterable[Path] = (),
) -> guest.Ended:
    """Boots a guest in QEMU; see `guest.boot`. `more` are further files of the host that the job needs. Programs among
    them are copied with their libraries.
    """
    init = program or guest.find_program()
    (folder / guest.JOB).write_text(job)
    (folder / guest.ENDED).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="sojourn-qemu-", dir="/var/tmp") as private:
        files = Path(private) / "initrd"
        files.write_bytes(_initrd(kernel, init, folder, more))
        result = Path(private) / "result"
        command = command_line(kernel, files, result, seed, memory, cpus)
        end = guest.supervise(
            command, private, _environment(), cpu=cpu, timeout_s=timeout_s, stop=stop, pinned=cpus == 1
        )
        if result.exists():
            with result.open("rb") as file:
                archive.unpack(file, folder)
    return guest.ended(folder, end, timeout_s)


def command_line(kernel: Kernel, files: Path, result: Path, seed: int, memory: str, cpus: int) -> list[str]:
    """Returns the command that starts QEMU. The seed is in the kernel's command line, which the kernel mixes into its
    random numbers.
    """
    data = places.home() / "debian" / "root" / "usr" / "share"
    time = ["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off,align=off", "-rtc", _rtc()]
    if cpus > 1:
        time = ["-accel", "tcg,thread=multi", "-smp", str(cpus)]
    words = f"console=ttyS0 quiet panic=-1 nokaslr random.trust_cpu=off sojourn.seed={seed}"
    return [
        _program(kernel.variant),
        *("-machine", "q35", "-cpu", "qemu64,-rdrand,-rdseed" if cpus == 1 else "max"),
        *time,
        *("-m", memory, "-seed", str(seed), "-no-reboot", "-no-user-config", "-nodefaults", "-display", "none"),
        *("-monitor", "none", "-serial", "stdio", "-L", str(data / "qemu"), "-L", str(data / "seabios")),
        *("-kernel", str(kernel.linux), "-initrd", str(files), "-append", words),
        # Not a disk: the firmware would read it, at times that the host decides.
        *("-device", "virtio-serial-pci", "-chardev", f"file,id=result,path={result}"),
        *("-device", "virtserialport,chardev=result,name=result"),
    ]


def _environment() -> dict[str, str]:
    parts = places.home() / "debian" / "root" / "usr" / "lib" / "x86_64-linux-gnu" / "qemu"
    return {"PATH": os.environ.get("PATH", os.defpath), **({"QEMU_MODULE_DIR": str(parts)} if parts.is_dir() else {})}


def _rtc() -> str:
    import datetime

    start = datetime.datetime.fromtimestamp(guest.START_S, datetime.UTC)
    return f"base={start:%Y-%m-%dT%H:%M:%S},clock=vm"


def _program(variant: str) -> str:
    found = shutil.which("qemu-system-x86_64", path=tools.environment()["PATH"])
    if found is None:
        raise Refusal(f"qemu-system-x86_64 is not there: expected 'sojourn kernel build --variant {variant}' before")
    return found


def _initrd(kernel: Kernel, init: Path, folder: Path, more: Iterable[Path]) -> bytes:
    """Makes the archive of the guest's files: programs with their libraries, modules in the order of loading, and the
    run's folder.
    """
    packed = archive.Writer()
    for name in ("proc", "sys", "dev", "tmp", "run", "var/run", "root", "mnt"):
        packed.folder(name)
    packed.file("init", INIT.format(work=WORK).encode(), 0o755)
    packed.program("bin/busybox", tools.real("busybox", "busybox-static"))
    for name in ("sh", "mount", "cat", "ls", "dmesg", "sleep", "umount"):
        packed.link(f"bin/{name}", "/bin/busybox")
    packed.program("bin/sojourn-guest", init)
    for name in ("tc", "ip"):
        packed.program(f"usr/sbin/{name}", tools.real(name, "iproute2"))
    for file in more:
        packed.program(str(file.resolve()), file)
    shelf = _modules_of(kernel)
    early, late = _in_order(shelf, [*BEFORE, *_names(shelf)]), _in_order(shelf, AFTER)
    for number, name in enumerate(early):
        packed.file(f"modules/{number:03}-{name}.ko", _module(shelf[name]))
    ours = {name: file for name, file in kernel.modules.items() if name not in BY_JOBS}
    for number, (name, file) in enumerate(sorted(ours.items())):
        packed.file(f"modules/9{number:02}-{name}.ko", file.read_bytes())
    for number, name in enumerate(one for one in late if one not in early):
        packed.file(f"late/{number:03}-{name}.ko", _module(shelf[name]))
    packed.tree(WORK.lstrip("/"), folder)
    return packed.bytes()


def _modules_of(kernel: Kernel) -> dict[str, Path]:
    """Returns the distribution's modules by name."""
    found = (kernel.linux.parent / "modules").rglob("*.ko*")
    return {re.sub(r"\.ko.*$", "", file.name).replace("-", "_"): file for file in found}


def _names(shelf: dict[str, Path]) -> list[str]:
    return sorted(name for name in shelf if LOADED.fullmatch(name) and name not in NOT_LOADED)


def _in_order(shelf: dict[str, Path], names: Iterable[str]) -> list[str]:
    """Returns these modules and their dependencies, each after the ones that it depends on."""
    order: list[str] = []

    def add(name: str) -> None:
        if name in order or name not in shelf:
            return
        for other in modules.depends(_module(shelf[name])):
            add(other)
        order.append(name)

    for name in names:
        add(name)
    return order


def _module(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".xz":
        return lzma.decompress(data)
    if file.suffix != ".ko":
        raise Refusal(f"{file.name}: this compression of modules is not known: expected none or xz")
    return data
