"""Scoring from Parquet beside the predictor on an array in memory; memory over many rows; one and two Dask workers.

    python benchmarks/batch.py                      rates, memory of 100 million rows, two workers
    python benchmarks/batch.py --rows 2000000       smaller

Rows are drawn with replacement from the adult test set. Rates are of the same predictor and the same columns; of
files with all cores, which read, score and write. How much of it is reading is shown by decoding the same files only.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from sklearn.ensemble import RandomForestClassifier

import boosted
import scurry
from scurry import batch, datasets, distributed

N_REPEATS = 5
N_IN_MEMORY = 2_000_000


SCORE_AND_TELL = """
import json, re, sys
import scurry

def peak_mib():  # of this process alone; getrusage also counts the one that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

source, model, out = sys.argv[1:]
fast = scurry.load(model)
before = peak_mib()
report = scurry.batch.score(source, fast, out)
rate = round(report.rows_per_second / 1e6, 2)
print(json.dumps({"million rows a second": rate, "peak MiB before": before, "peak MiB": peak_mib()}))
"""


def main() -> None:
    arguments = parsed()
    predictors, test = fitted()
    results: dict[str, object] = {"machine": platform.processor(), "date": date.today().isoformat()}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows, out = Path(folder, "rows"), Path(folder, "out")
        n_rows = min(arguments.rows, N_IN_MEMORY)
        X = draw(test, n_rows, seed=0)
        write(rows, X, n_files=2)
        results["million rows a second"] = {name: rates(fast, X, rows, out) for name, fast in predictors.items()}
        fast = next(iter(predictors.values()))
        if arguments.workers:
            many = Path(folder, "many")
            write(many, draw(test, 4 * n_rows, seed=1), n_files=8)
            for file in list(many.iterdir()):  # enough work to see the workers rather than their start
                for copy in "abc":
                    shutil.copy(file, file.with_stem(f"{file.stem}{copy}"))
            results["dask"] = workers(fast, many, out)
        if arguments.rows > N_IN_MEMORY:
            results["memory"] = memory(fast, rows, arguments.rows)
    print(json.dumps(results, indent=1))


def fitted() -> tuple[dict[str, scurry.Predictor], np.ndarray]:
    """Early exits of a forest and of a boosted ensemble, and the rows that they were calibrated on."""
    data = datasets.load("adult")
    train, test = data.split == "train", data.X[data.split == "test"].astype(np.float32)
    forest = RandomForestClassifier(101, max_depth=10, n_jobs=2, random_state=0).fit(data.X[train], data.y[train])
    trees = boosted.load("adult").fit()
    predictors = {
        f"forest, {allowed:.1%} may differ": scurry.early_exit(
            forest, test, max_disagreement=allowed, method="minimean", random_state=0
        )
        for allowed in (1e-3, 1e-2)
    }
    predictors["boosted, 0.5% may differ"] = scurry.early_exit(
        trees, test, max_disagreement=5e-3, method="qwyc", random_state=0
    )
    return predictors, test


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--workers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", help="where the files go; a temporary folder by default")
    return parser.parse_args()


def draw(rows: np.ndarray, n: int, seed: int) -> np.ndarray:
    return rows[np.random.default_rng(seed).integers(len(rows), size=n)]


def write(folder: Path, X: np.ndarray, n_files: int) -> None:
    folder.mkdir()
    names = [f"c{j}" for j in range(X.shape[1])]
    for i, part in enumerate(np.array_split(X, n_files)):
        pq.write_table(pa.table({name: part[:, j] for j, name in enumerate(names)}), folder / f"{i}.parquet")


def rates(fast: scurry.Predictor, X: np.ndarray, rows: Path, out: Path) -> dict[str, float]:
    """Million rows a second, best of several rounds in turn, and files by arrays."""
    runs: dict[str, Callable[[], object]] = {
        "predict, 1 thread": lambda: fast.predict(X, 1),
        "predict, all cores": lambda: fast.predict(X, None),
        "run, 1 thread": lambda: fast.run(X, 1),
        "run, all cores": lambda: fast.run(X, None),
        "files, decoded only": lambda: decoded(rows),
        "files, label": lambda: fresh(fast, rows, out, columns=["label"]),
        "files, label trees reason": lambda: fresh(fast, rows, out),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(N_REPEATS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    shares = {
        f"{files} / {array}, {threads}": round(best[f"{array}, {threads}"] / best[f"files, {files}"], 2)
        for files, array in {"label": "predict", "label trees reason": "run"}.items()
        for threads in ("1 thread", "all cores")
    }
    return {name: round(len(X) / seconds / 1e6, 2) for name, seconds in best.items()} | shares


def decoded(rows: Path) -> None:
    """Every file by a thread of its own, nothing done with its rows."""
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda file: deque(pq.ParquetFile(file).iter_batches(use_threads=False), 0), rows.iterdir()))


def fresh(fast: scurry.Predictor, rows: Path, out: Path, **options: object) -> batch.Report:
    for file in out.glob("*"):
        file.unlink()
    return batch.score(rows, fast, out, **options)


def workers(fast: scurry.Predictor, rows: Path, out: Path) -> dict[str, float]:
    """Million rows a second on one and on two worker processes, taking turns."""
    from distributed import Client, LocalCluster

    best = {1: float("inf"), 2: float("inf")}
    for _ in range(N_REPEATS):
        for n_workers in best:
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
            with cluster, Client(cluster) as client:
                for _ in range(2):  # the first loads the predictor
                    for file in out.glob("*"):
                        file.unlink()
                    report = distributed.score(rows, fast, out, cluster=client)
                best[n_workers] = min(best[n_workers], report.seconds)
    return {f"{n} workers": round(report.n_rows / seconds / 1e6, 3) for n, seconds in best.items()} | {
        "ratio": round(best[1] / best[2], 2)
    }


def memory(fast: scurry.Predictor, rows: Path, n_rows: int) -> dict[str, object]:
    """Peak memory of processes that score one file of a tenth of `n_rows` rows, and one of all."""
    sample = pa.concat_tables([pq.read_table(file) for file in sorted(rows.iterdir())])
    large, model = rows.parent / "large.parquet", rows.parent / "fast.scurry"
    fast.save(model)
    found: dict[str, object] = {}
    for n in (n_rows // 10, n_rows):
        with pq.ParquetWriter(large, sample.schema) as writer:
            for _ in range(-(-n // len(sample))):
                writer.write_table(sample, row_group_size=1 << 18)
        done = subprocess.run(
            [sys.executable, "-c", SCORE_AND_TELL, large, model, rows.parent / f"{n}.parquet"],
            check=True,
            capture_output=True,
            text=True,
        )
        found[f"{n:,} rows"] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
