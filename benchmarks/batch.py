"""Scoring from Parquet beside the predictor on an array in memory; memory over many rows; one and two Dask workers.

    python benchmarks/batch.py                      rate, memory of 100 million rows, two workers
    python benchmarks/batch.py --rows 2000000       smaller

Rows are drawn with replacement from the adult test set. All rates are of the same predictor and the same columns.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import batch, datasets, distributed

N_REPEATS = 3
N_IN_MEMORY = 2_000_000


def main() -> None:
    arguments = parsed()
    data = datasets.load("adult")
    train, test = data.split == "train", data.X[data.split == "test"].astype(np.float32)
    model = RandomForestClassifier(101, max_depth=10, n_jobs=2, random_state=0).fit(data.X[train], data.y[train])
    fast = scurry.early_exit(
        model, test, max_disagreement=arguments.max_disagreement, method="minimean", random_state=0
    )
    results: dict[str, object] = {"machine": platform.processor(), "date": date.today().isoformat()}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows = Path(folder, "rows")
        n_rows = min(arguments.rows, N_IN_MEMORY)
        X = draw(test, n_rows, seed=0)
        write(rows, X, n_files=2)
        results["rates"] = rates(fast, X, rows, Path(folder, "out"))
        if arguments.workers:
            many = Path(folder, "many")
            write(many, draw(test, 4 * n_rows, seed=1), n_files=8)
            for file in list(many.iterdir()):  # enough work to see the workers rather than their start
                shutil.copy(file, file.with_stem(f"{file.stem}-again"))
            results["dask"] = workers(fast, many, Path(folder, "out"))
        if arguments.rows > N_IN_MEMORY:
            results["memory"] = memory(fast, rows, Path(folder, "out"), arguments.rows)
    print(json.dumps(results, indent=1))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--max-disagreement", type=float, default=1e-3, help="of the early exit")
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
    """Million rows a second, best of several rounds in turn."""
    runs: dict[str, Callable[[], object]] = {
        "predict, 1 thread": lambda: fast.predict(X, 1),
        "predict, all cores": lambda: fast.predict(X, None),
        "run, 1 thread": lambda: fast.run(X, 1),
        "files, label": lambda: fresh(fast, rows, out, columns=["label"], n_threads=1),
        "files, label, all cores": lambda: fresh(fast, rows, out, columns=["label"], n_threads=None),
        "files, label trees reason": lambda: fresh(fast, rows, out, n_threads=1),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(N_REPEATS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: round(len(X) / seconds / 1e6, 3) for name, seconds in best.items()}


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


def memory(fast: scurry.Predictor, rows: Path, out: Path, n_rows: int) -> dict[str, float]:
    """Peak memory of this process before and after scoring `n_rows` rows, in one file of repeated rows."""
    sample = pa.concat_tables([pq.read_table(file) for file in sorted(rows.iterdir())])
    large = rows.parent / "large.parquet"
    with pq.ParquetWriter(large, sample.schema) as writer:
        for _ in range(-(-n_rows // len(sample))):
            writer.write_table(sample, row_group_size=1 << 18)
    del sample
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = batch.score(large, fast, out / "large.parquet")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "rows": report.n_rows,
        "million_rows_per_second": round(report.rows_per_second / 1e6, 3),
        "peak_mib_before": round(before),
        "peak_mib_after": round(after),
    }


if __name__ == "__main__":
    main()
