"""The same work on every instruction set: full evaluation, encoding and early exits of the benchmark's cells.

One process per instruction set (the variable SCURRY_ISA chooses it) loads the same predictors. They take turns on the
same 20,000 rows, on one thread, and the best CPU time of several rounds counts. Encoding is timed as a forest of one
split per feature, which does little else.

    python benchmarks/instruction_sets.py --cells "adult/*"

writes benchmarks/results/instruction-sets.json.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import scurry
from cells import CELLS, fit
from scurry.errors import InfeasibleError

LEVELS = ("avx512", "avx2", "portable")
RESULTS = Path(__file__).parent / "results" / "instruction-sets.json"
MAX_DISAGREEMENT = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", default="*", help="Cells to run (default: all).")
    parser.add_argument("--rounds", type=int, default=15, help="Number of rounds (default: 15).")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    rows = []
    for cell in (cell for cell in CELLS if fnmatch.fnmatch(cell.name, arguments.cells)):
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), cell)
            best = race(Path(folder), arguments.rounds)
        for what, seconds in sorted(best.items()):
            row = {"cell": cell.title, "work": what, "krows_per_s": {}}
            for level in LEVELS:
                row["krows_per_s"][level] = round(20.0 / seconds[level])
            rows.append(row)
            speeds = ", ".join(f"{level} {speed}" for level, speed in row["krows_per_s"].items())
            print(f"{cell.title}, {what}: {speeds} krows/s", flush=True)
    result = {
        "title": "Instruction sets",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "conditions": "20,000 float32 rows, one thread, processes taking turns, best CPU time of the rounds",
        "command": "python benchmarks/instruction_sets.py",
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make(folder: Path, cell: object) -> None:
    """Save the predictors of a cell and the rows to time them on."""
    task = fit(cell)
    forest = scurry.from_model(task.model)
    np.save(folder / "rows.npy", task.batch)
    scurry.Predictor.full(forest).save(folder / "full.scurry")
    scurry.Predictor.full(make_stumps(task.batch)).save(folder / "encoding.scurry")
    try:
        scurry.early_exit(
            forest, task.batch[:8000], max_disagreement=MAX_DISAGREEMENT, confidence=0.95, random_state=0
        ).save(folder / "exit.scurry")
    except InfeasibleError as error:
        print(f"{cell.title}: no early exit ({error})")


def make_stumps(rows: np.ndarray) -> scurry.Forest:
    """Return a forest of one split per feature."""
    trees = [
        {
            "feature": [column, 0, 0],
            "threshold": [float(np.median(rows[:, column])), 0.0, 0.0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]],
        }
        for column in range(rows.shape[1])
    ]
    return scurry.Forest.from_trees(trees, n_features=rows.shape[1])


def race(folder: Path, n_rounds: int) -> dict[str, dict[str, float]]:
    """Return the least CPU time of each predictor on each instruction set."""
    workers = {
        level: subprocess.Popen(
            [sys.executable, __file__, "--worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"SCURRY_ISA": level},
        )
        for level in LEVELS
    }
    best: dict[str, dict[str, float]] = {}
    for _ in range(n_rounds):
        for level, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            for name, seconds in json.loads(worker.stdout.readline()).items():
                times = best.setdefault(name, {})
                times[level] = min(times.get(level, np.inf), seconds)
    for worker in workers.values():
        worker.communicate()
    return best


def work(folder: Path) -> None:
    """Time every predictor of `folder` each time a line comes in."""
    rows = np.load(folder / "rows.npy")
    predictors = {path.stem: scurry.load(path) for path in sorted(folder.glob("*.scurry"))}
    for _ in sys.stdin:
        times = {}
        for name, predictor in predictors.items():
            start = time.process_time()
            predictor.predict(rows)
            times[name] = time.process_time() - start
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
