"""The algorithms of our modules on the 32-bit processors of routers, with Debian's cross compilers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

TYPES = """\
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
"""
MATH64 = """\
u64 div_u64(u64 dividend, u32 divisor);
u64 div64_u64(u64 dividend, u64 divisor);
"""
"""The kernel's functions for divisions of 64-bit numbers, which an object file then names."""
DIVISIONS = {"ccaq": {"div_u64"}, "ccaq_paper": {"div64_u64"}}


@pytest.mark.parametrize("algorithm", DIVISIONS)
@pytest.mark.parametrize(
    ("compiler", "option"),
    [
        ("mipsel-linux-gnu-gcc", "-march=mips32r2"),
        ("mips-linux-gnu-gcc", "-march=mips32r2"),
        ("arm-linux-gnueabihf-gcc", "-march=armv7-a+fp"),
        ("gcc", "-m32"),
    ],
)
def test_a_32_bit_processor_divides_64_bit_numbers_only_by_the_kernels_functions(
    tmp_path: Path, algorithm: str, compiler: str, option: str
) -> None:
    """A division by `/` would be a call of a function that the kernel lacks (`__udivdi3`, `__aeabi_uldivmod`)."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: expected the Debian package gcc-{compiler.removesuffix('-gcc')}")
    if (
        option == "-m32"
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
    command = [compiler, option, *options, *folders, "-c", "all.c", "-o", "all.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    undefined = subprocess.run(["nm", "-u", "all.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert (
        set(undefined.split()) - {"U", "_gp_disp", "_GLOBAL_OFFSET_TABLE_", "memset", "memcpy"} == DIVISIONS[algorithm]
    )
