"""Models of CatBoost, rows that tell predictors apart, and the comparison of a forest with the model it is."""

import catboost as cb
import numpy as np
import pandas as pd

from scurry.forest import reference
from support.strategies import adversarial_rows

QUIET = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
SMALL = {"iterations": 12, "depth": 4} | QUIET

RNG = np.random.default_rng(11)
N = 500
X = RNG.normal(size=(N, 5))
X[RNG.random(X.shape) < 0.2] = 0.0
X[RNG.random(N) < 0.1, 1] = np.nan
SIGNAL = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + 0.3 * RNG.normal(size=N)
BINARY, THREE, REAL, POSITIVE = (SIGNAL > 0.3) * 1, np.digitize(SIGNAL, [0, 1]), 5 * SIGNAL, np.exp(SIGNAL / 2)

TABLE = pd.DataFrame(
    {
        "x": X[:, 0],
        "text": RNG.choice(["low", "mid dle", "høy", "", "a text that is longer than sixteen bytes"], N),
        "code": RNG.choice([30, 5, -9], N),
        "many": RNG.choice([f"place {i}" for i in range(40)], N),
        "unused": "only",
    }
)
CATEGORICAL = ["text", "code", "many", "unused"]
CATEGORIES = {name: TABLE[name].unique() for name in CATEGORICAL}
TARGET = (
    (TABLE["text"] == "høy") * 1 + (TABLE["code"] == 5) + (TABLE["many"].str[-1] == "3") + (TABLE["x"] > 0) >= 2
).astype(int)


def fitted(cls, y, rows=X, **params):
    group = {"group_id": np.arange(N) // 20} if cls is cb.CatBoostRanker else {}
    categorical = {"cat_features": CATEGORICAL} if "text" in getattr(rows, "columns", ()) else {}
    return cls(**(SMALL | params)).fit(rows, y, **group, **categorical)


def hard_rows(forest):
    rows = adversarial_rows(forest, X, 1500)
    with np.errstate(over="ignore"):
        return X, rows, rows.astype(np.float32), np.asfortranarray(rows), rows[:1]


def raw_scores(model, rows):
    kind = {} if isinstance(model, cb.CatBoostRanker) else {"prediction_type": "RawFormulaVal"}
    return model.predict(rows, thread_count=1, **kind).reshape(len(rows), -1)


def assert_same(forest, model, rows):
    """Scores and labels of `forest` are those of `model` to the last bit, and the slow predictor agrees."""
    raw = raw_scores(model, rows)
    np.testing.assert_array_equal(forest.scores(rows), raw)
    np.testing.assert_array_equal(reference.scores(forest, rows), raw)
    predicted = model.predict(rows, thread_count=1)
    if not forest.is_classifier:
        np.testing.assert_allclose(forest.predict(rows), predicted, rtol=1e-15)
        return
    labels = forest.predict(rows)
    assert labels.dtype == predicted.dtype
    np.testing.assert_array_equal(labels, predicted.reshape(-1))
    np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=0, atol=1e-15)
