"""Install a wheel into a clean environment with numpy alone, predict there, and measure what it takes.

    python benchmarks/install.py dist/scurry-*.whl
    python benchmarks/install.py dist/scurry-*.whl --json     (also writes benchmarks/results/install.json)

Sizes have limits, and the program fails where one is exceeded. Times are the shortest and the median of 30 processes,
each of which imports numpy and scurry, loads a file and predicts one row; they are shown next to what was asked for.
They are times of the processor, which other work on the machine disturbs least; the files are in the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
GOLDEN = TOP / "tests" / "golden" / "format"
MAX_WHEEL_MB, MAX_INSTALLED_MB, MAX_IMPORT_MS, MAX_ANSWER_MS = 4.0, 12.0, 60.0, 150.0
_N_PROCESSES = 30
_PROGRAM = """
from time import process_time; start = process_time()
import numpy; with_numpy = process_time()
import scurry; imported = process_time()
row = numpy.zeros((1, 3), numpy.float32)
scurry.load({path!r}).predict(row); answered = process_time()
print(with_numpy - start, imported - with_numpy, answered - start)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if a size is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--json", action="store_true", help="Write results/install.json; this imports scurry itself.")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options.wheel.resolve(), Path(folder) / "clean")
    for name, value in figures.items():
        print(f"{name:32} {value}")
    if options.json:
        from report import RESULTS, commit, machine

        result = {"machine": machine(), "commit": commit(), "date": date.today().isoformat(), **figures}
        (RESULTS / "install.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(figures["wheel_mb"] > MAX_WHEEL_MB or figures["beyond_numpy_mb"] > MAX_INSTALLED_MB)


def measure(wheel: Path, folder: Path) -> dict[str, Any]:
    """Return the figures of a wheel, installed into a new environment in `folder`."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    call(python, "-m", "pip", "install", "--quiet", "numpy")
    without = size_mb(folder)
    call(python, "-m", "pip", "install", "--quiet", str(wheel))
    beyond = size_mb(folder) - without
    installed = {package["name"] for package in json.loads(call(python, "-m", "pip", "list", "--format=json"))}
    assert installed - {"pip", "setuptools"} == {"numpy", "scurry"}, installed
    files = call(python, str(TOP / "tests" / "support" / "numpy_alone.py"), str(GOLDEN)).split()
    assert files == sorted(path.stem for path in GOLDEN.glob("*.scurry"))
    program = _PROGRAM.format(path=str(GOLDEN / "v1-exit-scores.scurry"))
    times = [[1e3 * float(part) for part in call(python, "-c", program).split()] for _ in range(_N_PROCESSES)]
    numpy, scurry, answer = zip(*times, strict=True)
    return {
        "wheel": wheel.name,
        "wheel_mb": round(wheel.stat().st_size / 1e6, 2),
        "max_wheel_mb": MAX_WHEEL_MB,
        "beyond_numpy_mb": round(beyond, 2),
        "max_beyond_numpy_mb": MAX_INSTALLED_MB,
        "files_predicted": len(files),
        "import_numpy_ms": summary(numpy),
        "import_beyond_numpy_ms": summary(scurry),
        "max_import_beyond_numpy_ms": MAX_IMPORT_MS,
        "import_load_answer_ms": summary(answer),
        "max_import_load_answer_ms": MAX_ANSWER_MS,
    }


def call(*command: str | Path) -> str:
    """Run a program away from the source tree, so that the installed package is imported, and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.sep, env=environment)
    if result.returncode:
        sys.exit(result.stdout + result.stderr)
    return result.stdout


def size_mb(folder: Path) -> float:
    """Return the size of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def summary(times: Sequence[float]) -> dict[str, float]:
    """Return the shortest and the median time."""
    return {"shortest": round(min(times), 1), "median": round(statistics.median(times), 1)}


if __name__ == "__main__":
    sys.exit(main())
