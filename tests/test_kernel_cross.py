"""The algorithms of our modules on the 32-bit processors of routers, with Debian's cross compilers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

TYPES = """\
#define bool _Bool
#define true 1
#define false 0
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;
"""
"""Without the compiler's headers: for another processor they are a package of their own."""
MATH64 = """\
u64 div_u64(u64 dividend, u32 divisor);
u64 div64_u64(u64 dividend, u64 divisor);
"""
"""The kernel's functions for divisions of 64-bit numbers, which an object file then names."""
DIVISIONS = {"ccaq": {"div_u64"}, "ccaq_paper": {"div64_u64"}}


@pytest.mark.parametrize("algorithm", DIVISIONS)
@pytest.mark.parametrize(
    ("compiler", "processor"),
    [
        ("mipsel-linux-gnu-gcc", ["-march=mips32r2"]),
        ("mipsel-linux-gnu-gcc", ["-march=mips32r2", "-EB"]),
        ("arm-linux-gnueabihf-gcc", ["-march=armv7-a+fp"]),
        ("gcc", ["-m32"]),
    ],
    ids=["mipsel", "mips", "arm", "x86"],
)
def test_a_32_bit_processor_divides_64_bit_numbers_only_by_the_kernels_functions(
    tmp_path: Path, algorithm: str, compiler: str, processor: list[str]
) -> None:
    """A division by `/` would be a call of a function that the kernel lacks (`__udivdi3`, `__aeabi_uldivmod`)."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: expected the Debian package gcc-{compiler.removesuffix('-gcc')}")
    if (
        compiler == "gcc"
        and subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout != "x86_64\n"
    ):
        pytest.skip("gcc -m32 is for x86")
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/types.h").write_text(TYPES)
    (tmp_path / "linux/math64.h").write_text(MATH64)
    (tmp_path / "all.c").write_text(f'#include <linux/types.h>\n#include "{algorithm}_impl.h"\n')
    folders = [f"-I{folder}" for folder in (tmp_path, ROOT / "crates/oracle/shim", ROOT / "kernel")]
    # Every function is compiled. Freestanding: the C library of the processor need not be there.
    options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-Dinline=__attribute__((used))"]
    command = [compiler, *processor, *options, *folders, "-c", "all.c", "-o", "all.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    undefined = subprocess.run(["nm", "-u", "all.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert (
        set(undefined.split()) - {"U", "_gp_disp", "_GLOBAL_OFFSET_TABLE_", "memset", "memcpy"} == DIVISIONS[algorithm]
    )
