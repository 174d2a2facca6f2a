"""The cross-check in QEMU: archives are unpacked as they were packed, and a job runs."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import kernel_or_skip
from sojourn.kernel import Kernel, archive, modules, qemu

JOB = """\
#!/bin/busybox sh
for word in $(cat /proc/cmdline); do case $word in sojourn.seed=*) echo -n "${word#*=} " > seed ;; esac; done
cat job.json >> seed
/usr/sbin/tc qdisc replace dev lo root fq_codel limit 77 && /usr/sbin/tc qdisc show dev lo > qdisc
mkdir below && echo deep > below/file
echo '{"ok": true}' > ended.json
"""


def test_an_archive_comes_out_as_it_went_in(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "a" / "b").mkdir(parents=True)
    (before / "a" / "b" / "odd").write_bytes(b"123")
    (before / "empty").write_bytes(b"")
    packed = archive.Writer()
    packed.tree("x", before)
    data = packed.bytes()
    archive.unpack(io.BytesIO(data + b"\0" * 100), after)
    assert (after / "x/a/b/odd").read_bytes() == b"123"
    assert (after / "x/empty").read_bytes() == b""
    again = archive.Writer()
    again.tree("x", before)
    assert again.bytes() == data
    if shutil.which("cpio"):
        listed = subprocess.run(["cpio", "-t", "--quiet"], input=data, capture_output=True, check=True).stdout.decode()
        assert listed.split() == ["x", "x/a", "x/a/b", "x/a/b/odd", "x/empty"]


def test_an_archive_can_write_nowhere_else(tmp_path: Path) -> None:
    packed = archive.Writer()
    packed.file("../outside", b"smuggled")
    packed.file("inside", b"fine")
    (tmp_path / "run").mkdir()
    archive.unpack(io.BytesIO(packed.bytes()), tmp_path / "run")
    assert not (tmp_path / "outside").exists()
    assert (tmp_path / "run" / "inside").read_bytes() == b"fine"
    archive.unpack(io.BytesIO(b"no archive at all"), tmp_path / "run")


def test_a_module_names_what_it_needs() -> None:
    assert modules.depends(b"...\0license=GPL\0depends=veth,nf-conntrack\0intree=Y\0") == ["veth", "nf_conntrack"]
    assert modules.depends(b"\0depends=\0") == []


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """Debian's kernel, if it was fetched: 100 MB for one test."""
    return kernel_or_skip("debian")


def test_debian_s_kernel_does_a_job(kernel: Kernel, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(JOB)
    folder = tmp_path / "run"
    folder.mkdir()
    ended = qemu.boot(kernel, '{"number": 1}', folder, seed=3, program=job, timeout_s=120)
    assert ended.error is None, ended.console
    assert "failed" not in ended.console
    assert "limit 77p" in (folder / "qdisc").read_text()
    assert (folder / "below/file").read_text() == "deep\n"
    assert (folder / "seed").read_text() == '3 {"number": 1}'
