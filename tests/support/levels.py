"""Instruction sets: what runs in this process, again in another one with the kernels of another level."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scurry import _core

TESTS = Path(__file__).parents[1]
LEVELS = ("portable", "avx2", "avx512")


def run_script(script: str, level: str) -> None:
    """Run a script, which prints the level it has first, at one of `LEVELS`."""
    if LEVELS.index(level) > LEVELS.index(_core.kernels()) and "SCURRY_ISA" not in os.environ:
        pytest.skip(f"this processor has no {level}")
    done = _run(level, "-c", script)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[0] == level


def rerun_tests(path: str, level: str) -> None:
    """Run the tests of a file at one of `LEVELS`, unless that is the level of this process."""
    if "SCURRY_ISA" in os.environ:
        pytest.skip("this is one of the levels")
    if LEVELS.index(level) >= LEVELS.index(_core.kernels()):
        pytest.skip(f"{level} is what runs here, or more than this processor has")
    done = _run(level, "-m", "pytest", "-q", "-p", "no:cacheprovider", path)
    assert done.returncode == 0, done.stdout[-3000:]


def _run(level: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SCURRY_ISA": level, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=TESTS.parent, capture_output=True, text=True
    )
