"""Sizes of packed files, and what it takes to load them and predict.

    python benchmarks/packed_files.py [--models FOLDER] [--only NAME …] [--json]

Forests of 100 trees of unlimited depth (random_state 0) and LightGBM with 500 trees of 31 leaves, trained on three
quarters of the rows, of covertype on 100,000. `--models` keeps the trained models between runs. Times are of the
processor, the shortest of several processes; each has predicted from a small file before. Memory is what a process has
resident after the first prediction, less what it had before it loaded the file; pages of the mapped file count.

Files with the engine are measured too, and what 8 processes that predict from one take together: the proportional set
size (PSS, which counts a page that n processes share as an n-th of one) of all of them, compared with that of one. Of
processes that were started separately, what loading and predicting adds counts; of a process that loads and then forks
8 workers, everything does, with that process itself.
With `--json`, what was measured is written to benchmarks/results/packed-files.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scurry
from report import RESULTS, commit, machine
from scurry.forest.files.storage import container_bytes, container_of

MAX_BYTES = {
    "magic": 3.6,
    "adult": 2.2,
    "letter": 2.1,
    "covertype": 1.9,
    "lightgbm-magic": 14.5,
    "lightgbm-adult": 14.5,
}
MAX_BYTES_WITHOUT, MIN_RATIO, MAX_NS, MAX_RESIDENT, MAX_WORKERS = 6.6, 4.0, 15.0, 12.0, 1.5
_N_PROCESSES, _N_TIMES = 9, 7
_PROGRAM = """
import sys, time, numpy, scurry
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
small, path, n_features = sys.argv[1], sys.argv[2], int(sys.argv[3])
row = numpy.zeros((1, n_features), numpy.float32)
forest = scurry.load(small)
forest.predict(numpy.zeros((1, forest.n_features), numpy.float32))
before, start = resident(), time.process_time()
forest = scurry.load(path)
forest.predict(row)
print(time.process_time() - start, resident() - before)
"""
_N_WORKERS = 8
# Processes that wait until all of them have predicted, and then say what they take. Without a file they load nothing.
_WORKER = """
import os, sys, numpy, scurry
small, path, n_features, n_forks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
row = numpy.zeros((1, n_features), numpy.float32)
def use(path):
    forest = scurry.load(path)
    forest.predict(numpy.zeros((1, forest.n_features), numpy.float32))
    return forest
kept = [use(small)] + ([use(path)] if path else [])
def work():
    kept[-1].predict(numpy.zeros((1, kept[-1].n_features), numpy.float32))
def size():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:"))
if n_forks:
    ready, go, done, end = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    for _ in range(n_forks):
        if os.fork() == 0:
            work()
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os.write(done[1], b"%d\\n" % size())
            os.read(end[0], 1)
            os._exit(0)
    for _ in range(n_forks):
        os.read(ready[0], 1)
    os.write(go[1], b"x" * n_forks)
    found = b""
    while found.count(b"\\n") < n_forks:
        found += os.read(done[0], 1000)
    print(size() + sum(map(int, found.split())), flush=True)
    os.write(end[1], b"x" * n_forks)
else:
    work()
    print("ready", flush=True)
    sys.stdin.readline()
    print(size(), flush=True)
    sys.stdin.readline()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="folder in which trained models are kept")
    parser.add_argument("--only", nargs="*", default=list(MAX_BYTES), choices=list(MAX_BYTES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    kept_at = RESULTS / "packed-files.json"
    kept = json.loads(kept_at.read_text()) if kept_at.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            kept[name] = measure(name, arguments.models or Path(folder), Path(folder))
            show(name, kept[name])
            if arguments.json:
                kept_at.write_text(json.dumps(kept, indent=1) + "\n")


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = scurry.datasets.load(name.removeprefix("lightgbm-"))
    X, size = np.asarray(data.X, np.float64), 100_000 if name == "covertype" else 0.75
    return tuple(train_test_split(X, data.y, train_size=size, random_state=0, stratify=data.y))


def model_of(path: Path, name: str, X: np.ndarray, y: np.ndarray) -> Any:
    if path.exists():
        return joblib.load(path)
    if name.startswith("lightgbm-"):
        model: Any = lgb.LGBMClassifier(n_estimators=500, num_leaves=31, random_state=0, n_jobs=1, verbose=-1)
    else:
        model = RandomForestClassifier(100, random_state=0)
    joblib.dump(model.fit(X, y), path, compress=9)
    return model


def measure(name: str, models: Path, folder: Path) -> dict[str, Any]:
    X, X_test, y, _ = rows_of(name)
    path = models / f"{name}.joblib"
    forest = scurry.from_model(model_of(path, name, X, y))
    n, file = forest.n_nodes, folder / f"{name}.scurry"
    start = time.process_time()
    forest.save(file)
    seconds = time.process_time() - start
    found: dict[str, Any] = {
        "commit": commit(),
        "date": date.today().isoformat(),
        "machine": machine(),
        "seed": 0,
        "n_nodes": n,
        "bytes_per_node": round(file.stat().st_size / n, 3),
        "joblib_ratio": round(path.stat().st_size / file.stat().st_size, 2),
        "version_1_ratio": round(len(container_bytes("forest", *forest.to_parts())) / file.stat().st_size, 1),
        "save_ns": round(seconds / n * 1e9, 1),
    }
    if name.startswith("lightgbm-"):
        without = folder / "without.scurry"
        forest.save(without, inner_values=False)
        found["bytes_per_node_without_inner_values"] = round(without.stat().st_size / n, 3)
        found["joblib_ratio_without_inner_values"] = round(path.stat().st_size / without.stat().st_size, 2)
        np.testing.assert_array_equal(scurry.load(without).predict_proba(X_test), forest.predict_proba(X_test))
    again = scurry.load(file)
    rows = np.ascontiguousarray(X_test[:20_000], np.float32)
    np.testing.assert_array_equal(again.predict_proba(rows), forest.predict_proba(rows))
    found |= time_predictions(forest, again, rows[:4000])
    runs = [start_process(file, folder, forest.n_features) for _ in range(_N_PROCESSES)]
    found["load_and_predict_ns"] = round(min(seconds for seconds, _ in runs) / n * 1e9, 1)
    found["resident_bytes_per_node"] = round(float(np.median([grown for _, grown in runs])) / n, 2)
    found["engine_bytes_per_node"] = round(
        (again.engine.node_bytes + again.engine.leaf_bytes + again.engine.column_bytes) / n, 2
    )
    assert again.is_packed
    with_engine = folder / f"{name}-engine.scurry"
    forest.save(with_engine, engine=True)
    stored = scurry.load(with_engine)
    np.testing.assert_array_equal(stored.predict_proba(rows), forest.predict_proba(rows))
    runs = [start_process(with_engine, folder, forest.n_features) for _ in range(_N_PROCESSES)]
    small = folder / "small.scurry"
    shared = folder / f"{name}-workers.scurry"  # this process has mapped the other one, and would count as a worker
    shutil.copy(with_engine, shared)
    one, many = (added_by(small, shared, forest.n_features, n) for n in (1, _N_WORKERS))
    alone = start_workers(small, str(shared), forest.n_features, 1)
    forked = fork_workers(small, shared, forest.n_features, _N_WORKERS)
    found["with_engine"] = {
        "is_stored": type(stored.engine).__name__ == "MappedEngine",
        "bytes_per_node": round(with_engine.stat().st_size / n, 3),
        "load_and_predict_ns": round(min(seconds for seconds, _ in runs) / n * 1e9, 1),
        "resident_bytes_per_node": round(float(np.median([grown for _, grown in runs])) / n, 2),
        "predict_us": time_predictions(forest, stored, rows[:4000])["predict_us_packed"],
        "workers_separate_ratio": round(many / one, 2),
        "workers_separate_kb": [one, many],
        "workers_forked_ratio": round(forked / alone, 2),
        "workers_forked_kb": [alone, forked],
    }
    return found


def added_by(small: Path, file: Path, n_features: int, n: int) -> int:
    """Return the kB by which n processes grow together when each loads a file and predicts."""
    return start_workers(small, str(file), n_features, n) - start_workers(small, "", n_features, n)


def start_workers(small: Path, file: str, n_features: int, n: int) -> int:
    """Return the PSS of n processes together, in kB."""
    arguments = [sys.executable, "-c", _WORKER, str(small), file, str(n_features), "0"]
    workers = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(n)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    total = 0
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
        total += int(worker.stdout.readline())
    for worker in workers:
        worker.communicate("\n")
    return total


def fork_workers(small: Path, file: Path, n_features: int, n: int) -> int:
    """Return the PSS, in kB, of a process that loads the file, and of the n workers that it forks then, together."""
    arguments = [sys.executable, "-c", _WORKER, str(small), str(file), str(n_features), str(n)]
    return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def time_predictions(plain: scurry.Forest, packed: scurry.Forest, rows: np.ndarray) -> dict[str, float]:
    """Time the engines lowered from arrays and from the packed form, turn by turn."""
    plain = scurry.Forest.from_container(container_of(container_bytes("forest", *plain.to_parts())))
    times: dict[str, list[float]] = {"plain": [], "packed": []}
    for _ in range(_N_TIMES):
        for kind, forest in (("plain", plain), ("packed", packed)):
            start = time.process_time()
            forest.predict(rows)
            times[kind].append(time.process_time() - start)
    return {f"predict_us_{kind}": round(min(found) / len(rows) * 1e6, 3) for kind, found in times.items()}


def start_process(file: Path, folder: Path, n_features: int) -> tuple[float, int]:
    small = folder / "small.scurry"
    if not small.exists():
        # Of the same kind, so that code which is read from disk at its first use counts for neither.
        n, inner = 255, np.arange(127)
        left, right = np.full(n, -1), np.full(n, -1)
        left[inner], right[inner] = 2 * inner + 1, 2 * inner + 2
        value = np.column_stack([np.arange(n), n - np.arange(n)]) / n
        tree = {"feature": np.where(left < 0, -1, 0), "threshold": np.arange(n) / 7, "left": left, "right": right}
        scurry.Forest.from_trees([tree | {"value": value}], n_features=1).save(small, engine=True)
    arguments = [sys.executable, "-c", _PROGRAM, str(small), str(file), str(n_features)]
    seconds, grown = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), int(grown)


def show(name: str, found: dict[str, Any]) -> None:
    line = f"{name}: {found['bytes_per_node']} bytes a node (asked {MAX_BYTES[name]}), joblib {found['joblib_ratio']} ×"
    if "bytes_per_node_without_inner_values" in found:
        line += f", without inner values {found['bytes_per_node_without_inner_values']} (asked {MAX_BYTES_WITHOUT})"
    else:
        line += f" (asked {MIN_RATIO})"
    print(
        f"{line}; load and predict {found['load_and_predict_ns']} ns a node (asked {MAX_NS}), resident "
        f"{found['resident_bytes_per_node']} bytes a node (asked {MAX_RESIDENT} for two classes); predict "
        f"{found['predict_us_plain']} and {found['predict_us_packed']} µs a row",
        flush=True,
    )
    stored = found["with_engine"]
    print(
        f"  with the engine ({'stored' if stored['is_stored'] else 'not stored'}): {stored['bytes_per_node']} bytes a "
        f"node; load and predict {stored['load_and_predict_ns']} ns a node, resident "
        f"{stored['resident_bytes_per_node']} bytes a node, predict {stored['predict_us']} µs a row; 8 workers take "
        f"{stored['workers_separate_ratio']} × what one takes (asked {MAX_WORKERS}), forked "
        f"{stored['workers_forked_ratio']} ×",
        flush=True,
    )


if __name__ == "__main__":
    main()
