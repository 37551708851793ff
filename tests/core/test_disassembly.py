"""Kernels compute with whole registers: a compiler may instead take vectors apart, ten times as slow and unnoticed."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from support.disassembly import KERNELS, LEVELS, disassemble, entries_of, work_of

TOP = Path(__file__).parents[2]
FILES = sorted(path.stem for path in KERNELS.glob("*.cc") if path.stem != "dispatch")

# Loops that follow one row from node to node or look up one number per row: there is nothing to do at once; and what is
# done once for a forest.
ONE_BY_ONE = {
    "table_size",
    "arrange",
    "rank_row",
    "find_extremes",
    "add_doubles",
    "look_up",
    "walk_row",
    "walk_one_row",
    "take_steps",
}
VECTORS_ALL_THE_SAME = {("symmetric", "add_doubles"), ("sliced", "walk_row")}
# Without registers of eight numbers, trees are walked, no instruction picks bytes of a register, and none gathers what
# is known of queries.
ONE_BY_ONE_IN_FOUR_LANES = {("walk", "walk_tree"), ("walk", "descend_tree"), ("sliced", "walk_row")} | {
    ("symmetric", "leaves_of_row"),
    ("lane_tests", "mark"),
}
# Numbers that are no floats are looked up one by one where no instruction gathers words under a mask, numbers are
# searched for one by one where no instruction picks thresholds from registers, and other registers do not hold a row of
# many columns.
ONE_BY_ONE_WITHOUT_MASKS = {
    ("encode", "lower_inexact"),
    ("ranks", "rank_numbers<float>"),
    ("ranks", "rank_numbers<double>"),
    ("walk", "walk_tops"),
}
# Where bytes cannot be moved together, numbers of leaves are not kept.
ONLY_WITH_AVX512 = {("sliced_lanes", "number")}
# Tables without functions, but for processors that move the bytes of a register together.
ONLY_WITH_VBMI = {"compress"}
# The least number of instructions on whole registers, about half of what GCC 12 makes; others need one.
LEAST = {"rank_rows": 100, "score": 10, "count_wrong": 8, "bound_leaves": 4, "test_lanes": 60}
COMPARES = {"encode", "ranks", "sliced", "symmetric", "walk"}
NOTHING_TO_COMPARE = {"transpose"}
NOTHING_TO_COMPUTE = {"move"}  # which loads and stores
COMPARES_TOO = {"add_and_test", "top_two", "test_lanes", "take", "count", "score", "count_wrong"}


def find_object(level, name):
    """Return the newest object file of a kernel in a build of this checkout, or None."""
    isa = "portable" if level == "neon" else "avx512vbmi" if name in ONLY_WITH_VBMI else level
    built = TOP.glob(f"build/*/CMakeFiles/kernels_{isa}.dir/core/kernels/{name}.cc.o")
    # A sanitized build is not optimised; the one for aarch64 has instructions of its own.
    wanted = (p for p in built if "sanitize" not in p.parts and ("aarch64-core" in p.parts) == (level == "neon"))
    return max(wanted, key=lambda path: path.stat().st_mtime, default=None)


def find_faults(path, level, name):
    """Return what is wrong with the functions of a kernel's object file."""
    functions, faults = disassemble(path, level), []
    four_lanes = level in ("portable", "neon")
    for entry in entries_of(name):
        if level != "avx512" and (name, entry) in ONLY_WITH_AVX512:
            continue
        work = work_of(functions, entry)
        if work is None:
            faults.append(f"{entry}: not found in the object file")
            continue
        if (entry in ONE_BY_ONE and (name, entry) not in VECTORS_ALL_THE_SAME) or entry in NOTHING_TO_COMPUTE:
            continue
        if four_lanes and (name, entry) in ONE_BY_ONE_IN_FOUR_LANES:
            continue
        if level != "avx512" and (name, entry) in ONE_BY_ONE_WITHOUT_MASKS:
            continue
        if work.n_whole < LEAST.get(entry, 1):
            faults.append(f"{entry}: {work.n_whole} instructions on whole registers, {LEAST.get(entry, 1)} expected")
        compares = (name in COMPARES and entry not in NOTHING_TO_COMPARE) or entry in COMPARES_TOO
        if compares and work.n_compared == 0:
            faults.append(f"{entry}: no comparison of whole registers")
        # Remainders of loops have some. Rows are sorted out one by one in `take`, without AVX-512.
        if entry != "take" and name != "walk" and work.n_alone > 0.2 * work.n_whole + 40:
            faults.append(f"{entry}: {work.n_alone} instructions on single elements, {work.n_whole} on whole registers")
    return faults


def need_objdump(level):
    if level == "neon":
        if shutil.which("aarch64-linux-gnu-objdump") is None:
            pytest.skip("objdump for aarch64 is not installed")
    elif platform.machine() not in ("x86_64", "AMD64") or shutil.which("objdump") is None:
        pytest.skip("objdump (binutils) is not installed, or this is no x86-64")


def test_every_kernel_has_a_table():
    assert {name for name in FILES if entries_of(name)} == set(FILES)
    assert len([entry for name in FILES for entry in entries_of(name)]) >= 30


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FILES)
def test_kernels_compute_with_whole_registers(level, name):
    if name in ONLY_WITH_VBMI and level != "avx512":
        pytest.skip("has no loop of its own")
    need_objdump(level)
    path = find_object(level, name)
    if level == "neon" and path is not None and path.stat().st_mtime < (KERNELS / f"{name}.cc").stat().st_mtime:
        path = None  # of older sources
    if path is None:
        pytest.skip("make aarch64 builds it" if level == "neon" else "the package was not built in this checkout")
    assert find_faults(path, level, name) == []


def compile_kernel(name, folder, *options):
    path = folder / f"{name}.o"
    command = ["g++", "-std=c++20", "-O3", "-fPIC", "-w", "-DSCURRY_ISA=portable", *options, f"-I{KERNELS.parent}"]
    subprocess.run([*command, "-c", str(KERNELS / f"{name}.cc"), "-o", str(path)], check=True)
    return path


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_loops_without_vectors_are_noticed(tmp_path):
    need_objdump("portable")
    path = compile_kernel("states", tmp_path, "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
    faults = find_faults(path, "portable", "states")
    assert {fault.partition(":")[0] for fault in faults} == {"add", "score", "count_wrong"}


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("name", ["encode", "symmetric"])
def test_vectors_longer_than_registers_are_noticed(tmp_path, name):
    need_objdump("portable")
    (tmp_path / "kernels").mkdir()
    header = (KERNELS / "isa.h").read_text().replace("VECTOR_BYTES 16", "VECTOR_BYTES 64")
    (tmp_path / "kernels" / "isa.h").write_text(header)
    path = compile_kernel(name, tmp_path, f"-I{tmp_path}")
    assert len(find_faults(path, "portable", name)) >= 1
