"""Models of LightGBM, rows that tell predictors apart, and the comparison of a forest with the booster it is."""

import lightgbm as lgb
import numpy as np
import pandas as pd

from scurry.forest import reference
from support.strategies import adversarial_rows

QUIET = {"verbose": -1, "num_threads": 1}
SMALL = {"num_leaves": 7, "min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1} | QUIET
ZERO = float(np.float32(1e-35))

RNG = np.random.default_rng(7)
N = 400
X = RNG.normal(size=(N, 5))
X[RNG.random(X.shape) < 0.2] = 0.0
X[RNG.random(X.shape) < 0.05] = np.nan
X[:, 3] = RNG.integers(0, 40, N)
SIGNAL = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + (X[:, 3] % 3 == 0) + 0.3 * RNG.normal(size=N)
BINARY, THREE, REAL, POSITIVE = (SIGNAL > 0.3) * 1, np.digitize(SIGNAL, [0, 1]), 5 * SIGNAL, np.exp(SIGNAL / 2)

CATEGORIES = {
    "text": pd.Categorical(RNG.choice(["low", "mid dle", "høy", ""], N)),
    "code": pd.Categorical(RNG.choice([30, 5, -9], N)),
    "real": pd.Categorical(RNG.choice([0.5, 1.5, 7.0], N)),
    "flag": pd.Categorical(RNG.choice([True, False], N)),
    "same": pd.Categorical(["only"] * N),
}
TABLE = pd.DataFrame({"x": X[:, 0], "n": RNG.integers(0, 2, N)} | CATEGORIES | {"y": X[:, 1]})
TABLE.loc[::17, "text"] = None
TARGET = (
    (TABLE["text"] == "høy") * 1 + (TABLE["code"] == 5) + (TABLE["real"] == 7.0) + TABLE["flag"].astype(bool) >= 2
).astype(int)


def train(objective, y, rounds=8, categorical=(), keep=False, **params):
    group = {"group": [20] * (N // 20)} if objective in ("lambdarank", "rank_xendcg") else {}
    data = lgb.Dataset(X, y, categorical_feature=list(categorical), **group)
    return lgb.train(SMALL | {"objective": objective} | params, data, rounds, keep_training_booster=keep)


def hard_rows(forest):
    rows = adversarial_rows(forest, X, 1500)
    rows[:40, 3] = np.r_[-1.0, -0.5, 0.5, 2.9, 31, 32, 2.0**31, 2.0**32 + 3, 1e300, np.inf, RNG.integers(-3, 70, 30)]
    with np.errstate(over="ignore"):
        return X, rows, rows.astype(np.float32), np.asfortranarray(rows)


def assert_same(forest, booster):
    """Scores, predictions and labels of `forest` are those of `booster`, and the slow predictor agrees."""
    for rows in hard_rows(forest):
        raw = booster.predict(rows, raw_score=True, num_threads=1).reshape(len(rows), -1)
        predicted = booster.predict(rows, num_threads=1)
        if forest.aggregation == "mean":
            raw /= forest.n_trees // forest.n_outputs
        np.testing.assert_array_equal(forest.scores(rows), raw)
        np.testing.assert_array_equal(reference.scores(forest, rows), raw)
        if not forest.is_classifier:
            np.testing.assert_allclose(forest.predict(rows), predicted, rtol=1e-15)
            continue
        proba, both = forest.predict_proba(rows), np.stack([1 - predicted, predicted], 1)
        expected = both if predicted.ndim == 1 else predicted
        np.testing.assert_allclose(proba, expected, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(forest.predict(rows), expected.argmax(axis=1))


def fitted(cls, y, rows=X, **params):
    names = {"num_threads": "n_jobs", "min_data_in_leaf": "min_child_samples"}
    known = {names.get(name, name): value for name, value in SMALL.items()}
    fit = {"group": [20] * (N // 20)} if cls is lgb.LGBMRanker else {}
    return cls(n_estimators=8, **(known | params)).fit(rows, y, **fit)
