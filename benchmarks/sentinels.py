"""How much of the trees that a sentinel plan saves is saved as time.

Efficiency is the speed-up over the same forest's full evaluation times the share of trees evaluated: 1 if a tree takes
as long as it does in the full evaluation. Rules are made up: their lanes are random, and limits are chosen so that rows
leave at a steady rate and evaluate a given share of the trees on average. Both predict 20,000 float32 rows on one
thread, taking turns, and the best CPU time of several rounds counts; one process per instruction set.

    python benchmarks/sentinels.py --data FOLDER

writes benchmarks/results/sentinels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import scurry
from scurry.plan import SentinelRule

LEVELS = ("avx512", "avx2")
RESULTS = Path(__file__).parent / "results" / "sentinels.json"
SHARES = (0.1, 0.2, 0.35, 0.5, 0.75)
# Sentinels of a refitted prefix, in shares of the trees.
AT = np.array([0.03, 0.05, 0.08, 0.12, 0.17, 0.23, 0.3, 0.38, 0.47, 0.57, 0.68, 0.8, 0.9])
N_ROWS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="Folder of the Parquet files.")
    parser.add_argument("--rounds", type=int, default=15, help="Number of rounds (default: 15).")
    parser.add_argument("--models", default="", help="Only models whose names contain this.")
    parser.add_argument("--no-write", action="store_true", help="Print only.")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker, arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), arguments.data, arguments.models)
        command = [sys.executable, __file__, "--data", "-", "--worker", folder, "--rounds", str(arguments.rounds)]
        rows = []
        for level in LEVELS:
            done = subprocess.run(command, env=os.environ | {"SCURRY_ISA": level}, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            rows += [{"level": level} | json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        print(
            "{level:7} {model:32} share {share:.2f}  full {full_us:.2f} plan {plan_us:.2f} us/row".format(**row), end=""
        )
        print("  efficiency {efficiency:.2f}, one row {row_full_us:.1f} {row_plan_us:.1f} us".format(**row))
    result = {
        "title": "Sentinel plans",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "conditions": f"{N_ROWS:,} float32 rows, one thread, plan and full evaluation taking turns, best CPU time",
        "rows": rows,
    }
    if not arguments.no_write:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return None


def make(folder: Path, data: Path, wanted: str) -> None:
    """Train the models and save predictors with rows to predict."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor

    options = {"num_leaves": 31, "n_jobs": 2, "verbose": -1}
    models = {
        "housing, LightGBM 300": ("california_housing", LGBMRegressor(n_estimators=300, **options)),
        "adult, LightGBM 200": ("adult", LGBMClassifier(n_estimators=200, **options)),
        "bike, forest 100, depth 12": ("bike_sharing_hour", RandomForestRegressor(100, max_depth=12, n_jobs=2)),
    }
    for name, (dataset, model) in models.items():
        if wanted not in name:
            continue
        frame = pd.read_parquet(data / f"{dataset}.parquet")
        y = frame.pop("target").to_numpy()
        frame = frame.drop(columns=["split", "dteday"], errors="ignore")
        coded = [c.cat.codes if isinstance(c.dtype, pd.CategoricalDtype) else c.to_numpy() for _, c in frame.items()]
        X = np.column_stack(coded).astype(np.float32)
        forest = scurry.from_model(model.fit(X, y))
        X = X[np.random.default_rng(0).integers(0, len(X), N_ROWS)]
        kind = name.replace(",", "").replace(" ", "-")
        np.save(folder / f"{kind}.npy", X)
        for share in SHARES:
            # In the own order of boosted trees the first are the deepest, and a tree is not like any other.
            order = np.random.default_rng(2).permutation(forest.n_trees).astype(np.int32)
            make_rule = running_variance if "forest" in name else refitted
            plan = scurry.Plan(order=order, stop=make_rule(forest, order, X, share))
            scurry.Predictor(forest, plan).save(folder / f"{kind}@{share}.scurry")


def refitted(forest: scurry.Forest, order: NDArray[np.int32], X: NDArray, share: float) -> SentinelRule:
    """A value, a spread, and corrections for each of 13 sentinels."""
    rng = np.random.default_rng(1)
    sentinels, n = np.unique(np.rint(forest.n_trees * AT)).astype(np.int32), len(AT)
    lanes = rng.integers(-1000, 1001, (forest.n_nodes, n + 2)).astype(np.int32)
    lanes[:, n + 1] = rng.integers(0, 2000, forest.n_nodes)
    leaves = forest.apply(X[:4000])[:, order]
    spread = lanes[:, n + 1][leaves].cumsum(axis=1)[:, sentinels - 1]
    return SentinelRule(
        sentinels=sentinels,
        lanes=lanes,
        lane=np.arange(n, dtype=np.int32),
        scale=np.ones(n),
        offset=np.zeros(n),
        spread_lane=n + 1,
        square=np.zeros(n),
        edge_offset=np.zeros(n + 1, np.uint32),
        edges=np.empty(0, np.int32),
        limits=steady_limits(spread.astype(np.float64), sentinels, forest.n_trees, share),
    )


def running_variance(
    forest: scurry.Forest, order: NDArray[np.int32], X: NDArray[np.float32], share: float
) -> SentinelRule:
    """The sum and the sum of squares of the trees' values, compared after every tree."""
    values, T = forest.value[:, 0], forest.n_trees
    unit = np.abs(values).max() * T / 2**22
    lanes = np.column_stack([np.rint(values / unit), np.rint((values / np.abs(values).max()) ** 2 * 2**24)])
    sentinels = np.arange(2, T, dtype=np.int32)
    square = (unit / np.abs(values).max()) ** 2 * 2**24 / sentinels
    sums = lanes[forest.apply(X[:4000])[:, order]].cumsum(axis=1)[:, sentinels - 1]
    spread = sums[:, :, 1] - square * sums[:, :, 0] ** 2
    return SentinelRule(
        sentinels=sentinels,
        lanes=lanes.astype(np.int32),
        lane=np.zeros(T - 2, np.int32),
        scale=unit / sentinels,
        offset=np.zeros(T - 2),
        spread_lane=1,
        square=square,
        edge_offset=np.zeros(T - 1, np.uint32),
        edges=np.empty(0, np.int32),
        limits=steady_limits(spread, sentinels, T, share),
    )


def steady_limits(spread: NDArray[np.float64], sentinels: NDArray[np.int32], n_trees: int, share: float) -> NDArray:
    """Limits that stop the same share of the rows that arrive at each sentinel, so that rows evaluate `share` trees."""
    low, high = 0.0, 1.0
    for _ in range(30):
        rate, trees, alive = (low + high) / 2, 0.0, np.ones(len(spread), bool)
        limits = np.full(len(sentinels), -np.inf)
        for j in range(len(sentinels)):
            if alive.any():
                limits[j] = np.quantile(spread[alive, j], rate)
            trees += (alive & (spread[:, j] <= limits[j])).sum() * sentinels[j]
            alive &= spread[:, j] > limits[j]
        trees += alive.sum() * n_trees
        low, high = (rate, high) if trees / len(spread) / n_trees > share else (low, rate)
    return limits


def work(folder: Path, n_rounds: int) -> None:
    """Time the predictors of a folder; print a line of JSON for each."""
    for path in sorted(folder.glob("*.scurry")):
        predictor = scurry.load(path)
        X = np.load(folder / f"{path.stem.partition('@')[0]}.npy")
        full, plan = predictor.forest.predict, predictor.predict
        best = {"full": np.inf, "plan": np.inf, "row_full": np.inf, "row_plan": np.inf}
        for _ in range(n_rounds):
            for name, run in (("full", full), ("plan", plan)):
                best[name] = min(best[name], cpu_seconds(run, X) / len(X))
                best[f"row_{name}"] = min(best[f"row_{name}"], cpu_seconds_of_rows(run, X[:200]) / 200)
        share = predictor.run(X).trees.mean() / predictor.forest.n_trees
        row = {"model": path.stem.partition("@")[0], "share": round(float(share), 3)}
        row |= {f"{name}_us": round(seconds * 1e6, 3) for name, seconds in best.items()}
        print(json.dumps(row | {"efficiency": round(float(best["full"] / best["plan"] * share), 3)}))


def cpu_seconds(run, X) -> float:
    started = time.process_time()
    run(X)
    return time.process_time() - started


def cpu_seconds_of_rows(run, X) -> float:
    rows = [X[i : i + 1] for i in range(len(X))]
    started = time.process_time()
    for row in rows:
        run(row)
    return time.process_time() - started


if __name__ == "__main__":
    main()
