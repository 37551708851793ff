"""Labels that are certain: trees saved, labels changed of hostile rows, and time next to all trees.

Six data sets with two classes, LightGBM with 200 trees of 31 leaves, trained on 40 % of at most 60,000 rows; the others
are new rows. `Certain()` is asked for with the training rows to shape the router, and without any rows. Hostile rows
have most of their values on a threshold of the model, on the next float or double, at NaN, an infinity, -0.0 or a huge
number, and random categories. Two more models have category splits, missing values and zeros that count as missing.
Times are of one thread, of both programs in turn, the least of several rounds; batches repeat the new rows.

    SCURRY_DATA=data python benchmarks/certain.py                # --only magic, --hostile 1000000
    SCURRY_DATA=data python benchmarks/certain.py --cache npz    # then SCURRY_DATA=npz needs no pyarrow

It needs numpy, scipy, scikit-learn and LightGBM.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray

import scurry
from report import RESULTS, commit, machine
from scurry.datasets import Column, write_npz
from scurry.promises import Certain
from scurry.timing import race

DATA = {"magic": None, "nomao": None, "cdc_diabetes": None, "covertype": 4, "spambase": None, "higgs_12k": None}
MAX_ROWS, N_ROUNDS = 60_000, 9
TIMED_ROWS = (100_000, 10_000, 1)
N_HOSTILE, AT_ONCE = 10_000_000, 100_000
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-35, -1e-36, 5e-324, 1e300, -1e300, 3.4e38, 16777217.0])


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return shuffled rows, and labels as 0 and 1."""
    data = scurry.datasets.load(name)
    y, positive = np.asarray(data.y), DATA[name]
    labels = np.unique(y, return_inverse=True)[1] if positive is None else (y == positive).astype(np.int64)
    some = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    return np.asarray(data.X, np.float64)[some], labels[some]


def hostile_rows(forest: scurry.Forest, X: NDArray[np.float64], n: int, seed: int) -> NDArray[np.float64]:
    """Return rows of `X` in which most values are at or next to thresholds, special, or random categories."""
    rng = np.random.default_rng(seed)
    rows = X[rng.integers(0, len(X), n)]
    inner = forest.left >= 0
    for feature in range(forest.n_features):
        bits = rng.integers(0, 2**62, n)  # all that is random about a value
        of_feature = inner & (forest.feature == feature)
        thresholds = forest.threshold[of_feature & (forest.category_set < 0)]
        replaced = bits % 10 < 6
        if len(thresholds):
            at = thresholds[bits[replaced] // 10 % len(thresholds)]
            kind = bits[replaced] >> 40 & 7
            side, floats = np.where(kind & 1, np.inf, -np.inf), at.astype(np.float32)
            near = np.where(kind & 4, np.nextafter(floats, side.astype(np.float32)), np.nextafter(at, side))
            rows[replaced, feature] = np.where(kind & 2, near, np.where(kind & 4, floats, at))
        if (of_feature & (forest.category_set >= 0)).any():
            rows[replaced, feature] = (bits[replaced] // 10 % 146) / 2 - 3
        special = (bits >> 44) % 10 == 0
        rows[special, feature] = SPECIAL[(bits[special] >> 48) % len(SPECIAL)]
    return rows


def attack(predictors: list[scurry.Predictor], X: NDArray[np.float64], n_rows: int) -> dict[str, int]:
    """Return how many labels of hostile rows are not the model's; half of the rows come as float32."""
    n_changed, forest = 0, predictors[0].forest
    for number, start in enumerate(range(0, n_rows, AT_ONCE)):
        rows = hostile_rows(forest, X, min(AT_ONCE, n_rows - start), number)
        if number % 2:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
        n_changed += int((predictors[number // 2 % len(predictors)].predict(rows) != forest.predict(rows)).sum())
    return {"hostile_rows": n_rows, "hostile_changed": n_changed}


def fit(X: NDArray[np.float64], y: NDArray[np.int64], **options: Any) -> LGBMClassifier:
    categories = options.pop("categorical_feature", "auto")
    model = LGBMClassifier(n_estimators=200, num_leaves=31, n_jobs=1, verbose=-1, random_state=0, **options)
    return model.fit(X, y, categorical_feature=categories)


def certain(model: LGBMClassifier, X_fit: NDArray[np.float64] | None) -> tuple[scurry.Predictor, float]:
    start = time.perf_counter()
    fast = scurry.early_exit(model, promise=Certain(), X_fit=X_fit)
    return fast, time.perf_counter() - start


def time_batches(fast: scurry.Predictor, rows: NDArray[np.float64], size: int) -> float:
    """Return how many times as fast as all trees the predictor is, on batches of `size` rows."""
    if size == 1:
        batches = [np.ascontiguousarray(row[None]) for row in rows[:300]]
    else:
        batches = [np.tile(rows, (size // len(rows) + 1, 1))[:size]]

    def run(predict: Callable[[Any], object]) -> None:
        for batch in batches:
            predict(batch)

    full_s, fast_s = race(N_ROUNDS, partial(run, fast.forest.predict), partial(run, fast.predict))
    return full_s / fast_s


def measure(name: str, n_hostile: int) -> list[dict[str, Any]]:
    X, y = load(name)
    n_train = int(0.4 * len(y))
    model, new = fit(X[:n_train], y[:n_train]), np.ascontiguousarray(X[n_train:])
    lines, predictors = [], []
    for shaped_by, X_fit in (("training rows", X[:n_train]), ("covers", None)):
        fast, seconds = certain(model, X_fit)
        run, forest = fast.run(new), fast.forest
        speed_up, speed_up_small, speed_up_one = (time_batches(fast, new, size) for size in TIMED_ROWS)
        lines.append(
            {
                "data": name,
                "shaped_by": shaped_by,
                "n_trees": forest.n_trees,
                "trees": run.mean_trees,
                "saved": 1 - run.mean_trees / forest.n_trees,
                "n_rows": len(new),
                "labels_changed": int((run.labels != forest.predict(new)).sum()),
                "cells": fast.plan.stop.n_cells,
                "search_s": seconds,
                "speed_up": speed_up,
                "efficiency": speed_up * run.mean_trees / forest.n_trees,
                "speed_up_10000_rows": speed_up_small,
                "speed_up_one_row": speed_up_one,
            }
        )
        predictors.append(fast)
    lines[0] |= attack(predictors, new, n_hostile)
    return lines


def measure_odd(n_hostile: int) -> list[dict[str, Any]]:
    """Attack models with category splits, missing values, and zeros that count as missing."""
    rng = np.random.default_rng(0)
    X, lines = rng.normal(size=(20_000, 8)), []
    X[:, 0], X[:, 1] = rng.integers(0, 60, len(X)), rng.integers(0, 5, len(X))
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3] + rng.normal(size=len(X)) > 0).astype(np.int64)
    X[rng.random(X.shape) < 0.1] = np.nan
    for name, rows, options in (
        ("categories and missing values", X, {"categorical_feature": [0, 1]}),
        ("zeros that count as missing", np.where(np.abs(X) < 0.3, 0.0, X), {"zero_as_missing": True}),
    ):
        model = fit(rows[:10_000], y[:10_000], **options)
        predictors = [certain(model, rows[:10_000])[0], certain(model, None)[0]]
        trees = predictors[0].run(rows[10_000:]).mean_trees
        line = {"data": name, "n_trees": 200, "trees": trees, "saved": 1 - trees / 200}
        lines.append(line | attack(predictors, rows, n_hostile))
    return lines


def write_cache(folder: Path) -> None:
    for name in DATA:
        data = scurry.datasets.load(name)
        table = {str(feature): Column(np.asarray(data.X)[:, i]) for i, feature in enumerate(data.feature_names)}
        write_npz(folder / f"{name}.npz", table | {"target": Column(np.asarray(data.y))})
        print(f"{folder / name}.npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*DATA, "odd"], help="one data set")
    parser.add_argument("--hostile", type=int, default=N_HOSTILE, help="hostile rows in all")
    parser.add_argument("--cache", type=Path, help="write the data as .npz into this folder, and stop")
    parser.add_argument("--output", type=Path, default=RESULTS / "certain.json")
    options = parser.parse_args()
    if options.cache is not None:
        write_cache(options.cache)
        return
    each = options.hostile // (len(DATA) + 2)
    kept = json.loads(options.output.read_text())["rows"] if options.only and options.output.exists() else []
    lines = [
        line for line in kept if line["data"] != options.only and not (options.only == "odd" and "cells" not in line)
    ]
    for name in [options.only] if options.only else [*DATA, "odd"]:
        found = measure_odd(each) if name == "odd" else measure(name, each)
        lines += found
        for line in found:
            print(
                {key: round(value, 3) if isinstance(value, float) else value for key, value in line.items()}, flush=True
            )
        about = {
            "title": "Certain labels",
            "machine": machine(),
            "date": date.today().isoformat(),
            "commit": commit(),
            "command": "python benchmarks/certain.py",
            "protocol": " ".join(str(__doc__).split("\n\n")[1].split()),
            "hostile_rows": sum(line.get("hostile_rows", 0) for line in lines),
            "hostile_changed": sum(line.get("hostile_changed", 0) for line in lines),
        }
        options.output.write_text(json.dumps(about | {"rows": lines}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
