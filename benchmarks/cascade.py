"""Cascades on seven pairs of models: how many rows stay with the cheap one, and how often the promise is broken.

Each pair is a data set and an expensive model. Cheap models of four sizes are trained on the same rows, on labels or,
where the expensive model is a network, on its answers. A draw takes calibration rows from a pool with replacement, so
that the pool is the population and the truth is exact. `scurry.cascade` chooses a model on one half of them and
certifies on the other. The promise is broken if more than 0.5 % of the pool get another label than the expensive
model's. At most 5 % of draws may break it, but for chance.

    python benchmarks/cascade.py --draws 20 --only magic
    python benchmarks/cascade.py --draws 300          (writes benchmarks/results/cascade.json)
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from datetime import date
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scurry
from report import RESULTS, commit, machine
from scurry.cascades.cascade import ask_cheap

KEPT = RESULTS / "cascade.json"
MAX_CHANGED, CONFIDENCE = 0.005, 0.95
N_TRAIN, N_POOL, N_DRAWN = 12_000, 24_000, 8_000
SIZES = ((30, 7), (100, 15), (300, 31), (600, 63))


def boosted() -> Any:
    return LGBMClassifier(n_estimators=2000, num_leaves=31, learning_rate=0.05, n_jobs=1, random_state=0, verbose=-1)


def network() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((100, 50), max_iter=60, random_state=0))


def stack() -> Any:
    members = [
        ("forest", RandomForestClassifier(200, n_jobs=1, random_state=0)),
        ("trees", ExtraTreesClassifier(200, n_jobs=1, random_state=0)),
        ("boosted", HistGradientBoostingClassifier(random_state=0)),
    ]
    return StackingClassifier(members, LogisticRegression(), cv=3)


def large_forest() -> Any:
    return RandomForestClassifier(500, n_jobs=1, random_state=0)


PAIRS: dict[str, tuple[str, Callable[[], Any]]] = {
    "magic": ("MLP", network),
    "adult": ("LightGBM 2000", boosted),
    "electricity_full": ("LightGBM 2000", boosted),
    "nomao": ("MLP", network),
    "grinsztajn_california": ("stacking", stack),
    "covertype": ("random forest 500", large_forest),
    "cdc_diabetes": ("LightGBM 2000", boosted),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300, metavar="N")
    parser.add_argument("--only", nargs="*", default=list(PAIRS), choices=list(PAIRS), metavar="DATA")
    arguments = parser.parse_args()
    for name in arguments.only:
        found = measure(name, arguments.draws)
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        # Read again for each pair: several may be measured at once.
        kept[name] = found | {"commit": commit(), "date": date.today().isoformat(), "machine": machine()}
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(name, found, flush=True)


def load(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return shuffled rows, missing values and categories as numbers, and labels 0 and 1."""
    data = scurry.datasets.load(name)
    X = np.nan_to_num(np.asarray(data.X, np.float32), nan=-1.0)
    _, codes = np.unique(data.y, return_inverse=True)
    y = (codes == np.bincount(codes).argmax()).astype(np.int64)  # the largest class against the rest
    order = np.random.default_rng(0).permutation(len(X))[: N_TRAIN + N_POOL]
    return X[order], y[order]


def measure(name: str, n_draws: int) -> dict[str, Any]:
    """Return the figures of one pair."""
    title, make = PAIRS[name]
    X, y = load(name)
    n_train = min(N_TRAIN, len(X) * 2 // 5)
    X_train, y_train, pool = X[:n_train], y[:n_train], X[n_train:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that could be trained for longer, names of columns
        expensive = make().fit(X_train, y_train)
        answers, expensive_us = ask(expensive, pool)
        learned = expensive.predict(X_train) if make is network else y_train
    trained = scurry.cascades.train_sizes(X_train, learned, sizes=SIZES, random_state=0)
    models = [scurry.Predictor.full(scurry.from_model(model)) for model in trained]
    said = [ask_cheap(model, None, pool) for model in models]
    rng, shares, rates, chosen = np.random.default_rng(1), [], [], []
    for _ in range(n_draws):
        drawn = rng.integers(len(pool), size=N_DRAWN)
        both = scurry.cascade(
            models,
            answers[drawn],
            pool[drawn],
            promise=scurry.promises.Labels(MAX_CHANGED, confidence=CONFIDENCE),
            groups=np.arange(N_DRAWN),  # rows that are drawn twice are two draws here
            expensive_us=expensive_us,
        )
        at = next(i for i, model in enumerate(models) if model is both.cheap)
        kept = said[at].certainty > both.min_certainty
        shares.append(kept.mean())
        rates.append((kept & (said[at].answers != answers)).mean())
        chosen.append(at)
    most = int(np.bincount(chosen).argmax())
    trees, leaves = SIZES[most]
    return {
        "expensive": title,
        "expensive_us": round(expensive_us, 1),
        "n_pool": len(pool),
        "n_draws": n_draws,
        "kept": round(float(np.mean(shares)), 4),
        "changed": round(float(np.mean(rates)), 5),
        "n_broken": int(np.sum(np.array(rates) > MAX_CHANGED)),
        "chosen_most_often": f"{trees} x {leaves}",
        "trained_on": "answers" if make is network else "labels",
        "cheap_changed": round(float(np.mean(said[most].answers != answers)), 4),
    }


def ask(model: Any, X: NDArray[np.float32]) -> tuple[NDArray[Any], float]:
    """Return the answers of a model, and the microseconds that a row takes."""
    start = time.perf_counter()
    answers = model.predict(X)
    return answers, 1e6 * (time.perf_counter() - start) / len(X)


if __name__ == "__main__":
    main()
