"""Boosted models in the sliced loop beside the same models walked, on every instruction set, and one row at a time.

What makes a forest walked is one more tree, of 200 leaves that all add 0: it is too large for the sliced loop. Scores
must be equal to the last bit. Forests take turns on the same 20,000 rows, on one thread, and the least CPU time of
several rounds counts. Single rows are timed as calls from Python, the least median of the rounds, less what reading the
clock takes.

    python benchmarks/loops.py --cells "adult*"

writes benchmarks/results/loops.json. The exit code is 1 if a score differs.
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
from typing import Any

import numpy as np

import scurry
from cells import MAX_TRAIN_ROWS, N_BATCH_ROWS, Cell, fit
from scurry import datasets

LEVELS = ("avx512", "avx2", "portable")
RESULTS = Path(__file__).parent / "results" / "loops.json"
N_SINGLE_ROWS = 256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", default="*", help="Models to run (default: all).")
    parser.add_argument("--rounds", type=int, default=9, help="Number of rounds (default: 9).")
    parser.add_argument("--folder", type=Path, help="Where models are kept for the next time (default: nowhere).")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return 0
    rows, exact = [], True
    for name in fnmatch.filter(MODELS, arguments.cells):
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.folder or Path(temporary)) / name.replace(" ", "-")
            if not (folder / "rows.npy").exists():
                make(name, folder)
            for level, row in race(folder, arguments.rounds).items():
                rows.append({"model": name, "instruction_set": level} | row)
                exact &= row["same_bits"]
                print(rows[-1], flush=True)
    result = {
        "title": "The sliced loop beside walking",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
        "conditions": "20,000 rows, one thread, processes and forests taking turns, least CPU time of the rounds",
        "command": "python benchmarks/loops.py",
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if exact else 1


def xgboost(n_trees: int, depth: int, X: Any, y: Any) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n_trees, max_depth=depth, learning_rate=0.05, random_state=0).fit(X, y)


def lightgbm(n_trees: int, X: Any, y: Any, **options: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=n_trees, random_state=0, verbose=-1, **options).fit(X, y)


def random_forest(X: Any, y: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(101, max_depth=10, random_state=0).fit(X, y)


DEPTH_6 = {"max_depth": 6, "num_leaves": 64, "learning_rate": 0.05}
MODELS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "adult XGBoost 500 x 6": ("adult", partial(xgboost, 500, 6)),
    "adult LightGBM 500 x 6": ("adult", partial(lightgbm, 500, **DEPTH_6)),
    "adult LightGBM 500, 31 leaves": ("adult", partial(lightgbm, 500)),
    "adult LightGBM 300, 31 leaves, categories": ("adult", partial(lightgbm, 300)),
    "adult XGBoost 50 x 4": ("adult", partial(xgboost, 50, 4)),
    "covertype XGBoost 70 x 7 x 6": ("covertype", partial(xgboost, 70, 6)),
    "covertype LightGBM 70 x 7 x 6": ("covertype", partial(lightgbm, 70, **DEPTH_6)),
    "adult RF 101 x 10": ("adult", random_forest),
}


def make(name: str, folder: Path) -> None:
    """Train a model; save its forest, the walked one, and rows."""
    folder.mkdir(parents=True, exist_ok=True)
    dataset, train = MODELS[name]
    if "categories" in name:
        data = datasets.load(dataset)
        frame = data.frame()
        texts = [column for column in frame.columns if frame[column].dtype.kind not in "fi"]
        frame = frame.astype(dict.fromkeys(texts, "category"))
        order = np.random.default_rng(0).permutation(len(frame))
        model = train(frame.iloc[order[:MAX_TRAIN_ROWS]], data.y[order[:MAX_TRAIN_ROWS]])
        forest = scurry.from_model(model)
        rows = forest.encoder(frame[:10])(frame.iloc[np.resize(order[MAX_TRAIN_ROWS:], N_BATCH_ROWS)])
        rows = np.asarray(rows, np.float64)
    else:
        task = fit(Cell(dataset, "", name, train))
        forest, rows = scurry.from_model(task.model), task.batch
    forest.save(folder / "forest.scurry")
    (walk(forest) if forest.engine.loop == "sliced" else forest).save(folder / "walked.scurry")
    np.save(folder / "rows.npy", rows)


def walk(forest: scurry.Forest) -> scurry.Forest:
    """Return the forest with one more round of trees, the first of which has 200 leaves, that add 0."""
    n_leaves, n_more = 200, forest.trees_per_round
    parts = {name: getattr(forest, name) for name in ("feature", "threshold", "left", "right", "default_left", "value")}
    inner = np.arange(2 * n_leaves - 1) < n_leaves - 1
    left = np.where(inner, 2 * np.arange(2 * n_leaves - 1) + 1, -1)
    sizes = [2 * n_leaves - 1, *[1] * (n_more - 1)]
    tiny = np.arange(2 * n_leaves - 1) * 1.5e-45  # values that differ, also in float32, and add nothing
    more = {
        "feature": np.where(inner, 0, -1),
        "threshold": np.where(inner, np.arange(2.0 * n_leaves - 1), 0.0),
        "left": np.where(inner, left + forest.n_nodes, -1),
        "right": np.where(inner, left + 1 + forest.n_nodes, -1),
        "default_left": np.zeros(2 * n_leaves - 1, bool),
        "value": np.repeat(tiny[:, None], forest.value.shape[1], axis=1),
    }
    leaf = {"feature": -1, "threshold": 0.0, "left": -1, "right": -1, "default_left": False, "value": 0.0}
    joined = {}
    for name, array in parts.items():
        rest = np.full((n_more - 1, *array.shape[1:]), leaf[name])
        joined[name] = np.concatenate([array, more[name], rest])
    n_new = sum(sizes)
    return forest.replace(
        **joined,
        tree_offset=np.concatenate([forest.tree_offset, forest.n_nodes + np.cumsum(sizes)]),
        cover=np.concatenate([forest.cover, np.full(n_new, np.nan)]),
        missing=np.concatenate([forest.missing, np.zeros(n_new, forest.missing.dtype)]),
        category_set=np.concatenate([forest.category_set, np.full(n_new, -1)]),
        tree_output=np.concatenate([forest.tree_output, forest.tree_output[:n_more]]),
    )


def race(folder: Path, n_rounds: int) -> dict[str, dict[str, Any]]:
    """Return what each instruction set did."""
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
    best: dict[str, dict[str, Any]] = {level: json.loads(worker.stdout.readline()) for level, worker in workers.items()}
    for _ in range(n_rounds):
        for level, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            for name, value in json.loads(worker.stdout.readline()).items():
                best[level][name] = min(best[level].get(name, np.inf), value)
    for worker in workers.values():
        worker.communicate()
    for row in best.values():
        walked, chosen = row.pop("walked_s"), row.pop("forest_s")
        row["krows_per_s"], row["krows_per_s_walked"] = round(20 / chosen), round(20 / walked)
        row["factor"] = round(walked / chosen, 2)
        row |= {name: round(row.pop(name), 2) for name in ("one_row_us", "predict_us")}
    return best


def work(folder: Path) -> None:
    """Time both forests each time a line comes in."""
    rows = np.load(folder / "rows.npy")
    forest, walked = scurry.load(folder / "forest.scurry"), scurry.load(folder / "walked.scurry")
    same = bool((forest.scores(rows) == walked.scores(rows)).all())
    print(json.dumps({"loop": forest.engine.loop, "same_bits": same}), flush=True)
    single = [rows[at].copy() for at in range(N_SINGLE_ROWS)]
    calls = {"one_row_us": (forest.one_row(), single), "predict_us": (forest.predict, [row[None] for row in single])}
    for _ in sys.stdin:
        times = {}
        for name, one in (("forest_s", forest), ("walked_s", walked)):
            start = time.process_time()
            one.predict(rows)
            times[name] = time.process_time() - start
        for name, (call, given) in calls.items():
            median_us(call, given)  # the batch above has filled the caches
            times[name] = median_us(call, given) - clock_us()
        print(json.dumps(times), flush=True)


def clock_us() -> float:
    """Return what reading the clock takes."""
    times = [-time.perf_counter_ns() + time.perf_counter_ns() for _ in range(N_SINGLE_ROWS)]
    return float(np.median(times)) / 1000


def median_us(call: Callable[[Any], Any], rows: list[Any]) -> float:
    """Return the median time of a call."""
    times = []
    for row in rows:
        start = time.perf_counter_ns()
        call(row)
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1000


if __name__ == "__main__":
    raise SystemExit(main())
