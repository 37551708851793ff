"""Full evaluation of CatBoost models beside CatBoost itself, on every instruction set.

Both answer with raw scores, which must be equal to the last bit, on one thread; CatBoost gets a Pool, so that nothing
of Python is timed with it. They take turns on the same 20,000 float32 rows, and the least CPU time of several rounds
counts. One row is given to both as an array, by `predict`; the hundred rows timed are answered once just before. That
first time is timed too, right after batches of both ("cold"), and so is a single row after them ("first"), whose tables
and code are in no near cache; there the median of the rounds counts. The exit code is 1 if a score differs.

    python benchmarks/catboost_speed.py --models adult-500x6

writes benchmarks/results/catboost.json.
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
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

import scurry
from cells import MAX_TRAIN_ROWS, N_BATCH_ROWS
from report import commit
from scurry import datasets

Predict = Callable[[np.ndarray], object]
LEVELS = ("avx512", "avx2", "portable")
RESULTS = Path(__file__).parent / "results" / "catboost.json"
MODELS = {
    "adult-500x6": ("adult", {"iterations": 500, "depth": 6}),
    "adult-1000x8": ("adult", {"iterations": 1000, "depth": 8}),
    "covertype-500x6": ("covertype", {"iterations": 500, "depth": 6}),
    "adult-500x6-depthwise": ("adult", {"iterations": 500, "depth": 6, "grow_policy": "Depthwise"}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="*", help="Models to run (default: all).")
    parser.add_argument("--rounds", type=int, default=31, help="Number of rounds (default: 31).")
    parser.add_argument("--folder", type=Path, help="Where models are kept for the next time (default: nowhere).")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(compare(arguments.worker, arguments.rounds)))
        return 0
    rows, exact = [], True
    for name in fnmatch.filter(MODELS, arguments.models):
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.folder or Path(temporary)) / name
            train(name, folder)
            for level in LEVELS:
                command = [sys.executable, __file__, "--worker", str(folder), "--rounds", str(arguments.rounds)]
                environment = os.environ | {"SCURRY_ISA": level}
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                row = {"model": name} | json.loads(done.stdout)
                rows.append(row)
                exact = exact and row["n_differing_scores"] == 0
                print(
                    "{model:22} {level:8} CatBoost {catboost_krows_per_s:5} krows/s, scurry {scurry_krows_per_s:5} "
                    "({factor:.2f} x); one row {catboost_row_us:.1f} and {scurry_row_us:.2f} us, cold "
                    "{catboost_cold_row_us:.1f} and {scurry_cold_row_us:.2f}, the first {catboost_first_row_us:.1f} "
                    "and {scurry_first_row_us:.2f}; "
                    "{n_differing_scores} scores differ".format(**row),
                    flush=True,
                )
    result = {
        "title": "CatBoost",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "commit": commit(),
        "conditions": f"{N_BATCH_ROWS:,} float32 rows, one thread, taking turns, least CPU time of the rounds",
        "command": "python benchmarks/catboost_speed.py",
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if exact else 1


def train(name: str, folder: Path) -> None:
    """Save a model and the rows to time it on."""
    import catboost

    if (folder / "rows.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    dataset, parameters = MODELS[name]
    data = datasets.load(dataset)
    order = np.random.default_rng(0).permutation(len(data.X))
    n_train = min(MAX_TRAIN_ROWS, len(data.X) // 2)
    train_rows, held_out = order[:n_train], order[n_train : n_train + N_BATCH_ROWS]
    model = catboost.CatBoostClassifier(
        **parameters, learning_rate=0.05, random_seed=0, verbose=0, allow_writing_files=False
    )
    model.fit(data.X[train_rows].astype(np.float32), data.y[train_rows])
    model.save_model(str(folder / "model.cbm"))
    np.save(folder / "rows.npy", data.X[np.resize(held_out, N_BATCH_ROWS)].astype(np.float32))


def clock(task: Callable[[], object], now: Callable[[], float] = time.process_time) -> float:
    """Return how many seconds a task takes."""
    start = now()
    task()
    return now() - start


def compare(folder: Path, n_rounds: int) -> dict[str, object]:
    """Time CatBoost and scurry on the model and the rows of a folder."""
    import catboost

    rows = np.ascontiguousarray(np.load(folder / "rows.npy"))
    model = catboost.CatBoostClassifier()
    model.load_model(str(folder / "model.cbm"))
    pool, forest = catboost.Pool(rows), scurry.from_model(folder / "model.cbm")
    runs = {
        "catboost": lambda: model.predict(pool, prediction_type="RawFormulaVal", thread_count=1),
        "scurry": lambda: forest.scores(rows),
    }
    answers = {name: np.reshape(run(), (len(rows), -1)) for name, run in runs.items()}
    single = [rows[at : at + 1].copy() for at in range(100)]
    one_row = {
        "catboost": lambda row: model.predict(row, thread_count=1),
        "scurry": forest.predict,
    }
    best = dict.fromkeys(runs, np.inf)
    best_row = dict.fromkeys(runs, np.inf)
    cold_row: dict[str, list[float]] = {name: [] for name in runs}
    first_row: dict[str, list[float]] = {name: [] for name in runs}
    for at in range(n_rounds):
        for name, run in runs.items():
            best[name] = min(best[name], clock(run))
        for name, predict in one_row.items():

            def predict_all(predict: Predict = predict) -> None:
                for row in single:
                    predict(row)

            cold_row[name].append(clock(predict_all) / len(single))
            best_row[name] = min(best_row[name], clock(predict_all) / len(single))
            for run in runs.values():
                run()
            first_row[name].append(clock(partial(predict, single[at % len(single)]), time.perf_counter))
            for run in runs.values():
                run()
    return {
        "level": scurry._core.kernels(),
        "n_trees": forest.n_trees,
        "n_features": forest.n_features,
        "n_differing_scores": int((answers["catboost"] != answers["scurry"]).sum()),
        "catboost_krows_per_s": round(len(rows) / best["catboost"] / 1e3),
        "scurry_krows_per_s": round(len(rows) / best["scurry"] / 1e3),
        "factor": round(best["catboost"] / best["scurry"], 2),
        "catboost_row_us": round(1e6 * best_row["catboost"], 1),
        "scurry_row_us": round(1e6 * best_row["scurry"], 2),
        "catboost_cold_row_us": round(1e6 * float(np.median(cold_row["catboost"])), 1),
        "scurry_cold_row_us": round(1e6 * float(np.median(cold_row["scurry"])), 2),
        "catboost_first_row_us": round(1e6 * float(np.median(first_row["catboost"])), 1),
        "scurry_first_row_us": round(1e6 * float(np.median(first_row["scurry"])), 2),
    }


if __name__ == "__main__":
    sys.exit(main())
