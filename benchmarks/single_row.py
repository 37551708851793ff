"""One row through the scikit-learn estimators, beside the predictor and the trained estimator inside them.

What an estimator adds to a call is checking: the shape, the type and, where the model refuses them, infinities. Callers
take turns on the same rows, one at a time, and the lowest median of several rounds counts.

    python benchmarks/single_row.py
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from report import Report
from scurry import datasets

N_ROWS = 256
N_CALLS = 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of which the best counts")
    arguments = parser.parse_args()
    data = datasets.load("adult")
    X, y = np.nan_to_num(data.X, nan=-1.0), data.y
    train, test = X[data.split == "train"], X[data.split == "test"]
    labels = y[data.split == "train"]
    report = Report(
        "single-row",
        "One row through the estimators",
        f"adult, the lowest median of {arguments.rounds} rounds of {N_CALLS} calls, in µs; callers take turns.",
        ["scikit-learn"],
    )
    table = []
    for title, estimator in _estimators().items():
        estimator.fit(train, labels)
        limits = {"max_steps": estimator.max_steps} if hasattr(estimator, "max_steps") else {}
        calls = {"predictor": partial(estimator.predictor_.predict, **limits), "estimator": estimator.predict}
        calls["scikit-learn"] = estimator.estimator_.predict
        medians = _medians_us(calls, [test[at : at + 1].copy() for at in range(N_ROWS)], arguments.rounds)
        ratio = medians["estimator"] / medians["predictor"]
        table.append([title, *(f"{us:.2f}" for us in medians.values()), f"{ratio:.2f}", "≤ 3"])
    report.table("One row, µs", ["", "predictor", "estimator", "scikit-learn", "estimator / predictor", "asked"], table)
    report.close()


def _estimators() -> dict[str, Any]:
    forest = RandomForestClassifier(101, max_depth=10, random_state=0)
    boosted = GradientBoostingClassifier(n_estimators=100, random_state=0)
    return {
        "early exit, forest": scurry.EarlyExitClassifier(forest, max_disagreement=0.005, random_state=0),
        "early exit, boosted (finite rows only)": scurry.EarlyExitClassifier(
            boosted, max_disagreement=0.005, random_state=0
        ),
        "anytime, 20 steps": scurry.AnytimeClassifier(forest, max_steps=20, order="random", random_state=0),
    }


def _medians_us(calls: dict[str, Callable[[Any], Any]], rows: list[Any], n_rounds: int) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _, (name, call) in itertools.product(range(n_rounds), calls.items()):
        n_calls = N_CALLS if name != "scikit-learn" else N_CALLS // 100
        times = []
        for at in range(n_calls):
            row = rows[at % len(rows)]
            start = time.perf_counter_ns()
            call(row)
            times.append(time.perf_counter_ns() - start)
        best[name] = min(best[name], float(np.median(times)) / 1000)
    return best


if __name__ == "__main__":
    main()
