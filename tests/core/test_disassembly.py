"""Kernels compare whole registers: a compiler may instead take vectors apart, ten times as slow and unnoticed."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "build"
REGISTERS = {"portable": "xmm", "avx2": "ymm", "avx512": "zmm"}
# The files whose loops compare vectors. Without AVX2 trees are walked, which compares no vectors.
KERNELS = [
    (isa, name)
    for isa in REGISTERS
    for name in ("encode", "ranks", "sliced", "sums", "symmetric", "walk")
    if (isa, name) != ("portable", "walk")
]


def find_object(isa, name):
    """Return the newest object file of a kernel in the build of this package, or None."""
    built = BUILD.glob(f"*/CMakeFiles/kernels_{isa}.dir/core/kernels/{name}.cc.o")
    # A sanitized build is not optimised.
    return max(
        (path for path in built if "sanitize" not in path.parts), key=lambda path: path.stat().st_mtime, default=None
    )


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the registers named here are those of x86-64"
)
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump (binutils) is not installed")
@pytest.mark.parametrize(("isa", "name"), KERNELS)
def test_comparisons_fill_the_registers(isa, name):
    path = find_object(isa, name)
    if path is None:
        pytest.skip("the package was not built in this checkout")
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    code = re.sub(r"\bv?pcmpeqd\s+(%\wmm\d+),\1(,\1)?\n", "\n", code)  # how a register is filled with ones
    comparisons = re.findall(r"\bv?(?:pcmp(?:gt|eq|u|)|cmp\w*p)[a-z]*\s.*%([xyz]mm)", code)
    assert comparisons.count(REGISTERS[isa]) >= 8
    if isa != "avx512":  # masks of smaller types are compared in shorter registers there
        assert set(comparisons) == {REGISTERS[isa]}
    if name == "sums":  # a row's lanes are added in whole registers
        assert len(re.findall(rf"\bv?paddd\s.*%{REGISTERS[isa]}", code)) >= 2
    if name == "sliced":  # answers become bits at once, and whole registers of bits are selected
        assert len(re.findall(rf"\bv?pmovmskb\s+%{REGISTERS[isa]}", code)) >= 16 or isa == "avx512"
        assert len(re.findall(r"\bkmovq\s+%k\d,[-\w]*\(", code)) >= 16 or isa != "avx512"
        assert len(re.findall(rf"\bv?(?:pternlogq|pxorq?|xorps)\s.*%{REGISTERS[isa]}", code)) >= 3
    moved_alone = len(re.findall(r"\bv?p(?:ins|ext)r[bwdq]\b", code))
    assert moved_alone < 0.05 * code.count("\n")
