"""Models of XGBoost, rows that tell predictors apart, and the comparison of a forest with the booster it is."""

import json
from pathlib import Path

import numpy as np
import xgboost as xgb

import scurry
from scurry.forest import reference
from support.strategies import adversarial_rows

GOLDEN = Path(__file__).parents[1] / "golden"
RNG = np.random.default_rng(11)
N = 400
X = RNG.normal(size=(N, 5))
X[RNG.random(X.shape) < 0.2] = 0.0
X[:, 4] = RNG.integers(0, 40, N)
X[RNG.random(X.shape) < 0.08] = np.nan
SIGNAL = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + (X[:, 4] % 3 == 0) + 0.3 * RNG.normal(size=N)
BINARY, THREE, REAL, POSITIVE = (SIGNAL > 0.3) * 1, np.digitize(SIGNAL, [0, 1]), 5 * SIGNAL, np.exp(SIGNAL / 2)
SMALL = {"max_depth": 4, "nthread": 1, "seed": 3}
CATEGORICAL = {"feature_types": ["q", "q", "q", "q", "c"], "enable_categorical": True}

OBJECTIVES = {
    "reg:squarederror": REAL,
    "reg:squaredlogerror": POSITIVE,
    "reg:pseudohubererror": REAL,
    "reg:absoluteerror": REAL,
    "reg:quantileerror": REAL,
    "reg:logistic": BINARY * 0.8 + 0.1,
    "reg:gamma": POSITIVE,
    "reg:tweedie": POSITIVE,
    "count:poisson": np.round(POSITIVE),
    "survival:cox": POSITIVE,
    "survival:aft": POSITIVE,
    "rank:pairwise": BINARY,
    "rank:ndcg": BINARY,
    "rank:map": BINARY,
    "binary:logistic": BINARY,
    "binary:logitraw": BINARY,
    "binary:hinge": BINARY,
    "multi:softmax": THREE,
    "multi:softprob": THREE,
}
PARAMETERS = {
    "reg:quantileerror": {"quantile_alpha": 0.3},
    "multi:softmax": {"num_class": 3},
    "multi:softprob": {"num_class": 3},
}
BOOSTERS = {"gbtree": {}, "dart": {"booster": "dart", "rate_drop": 0.3}}


def train(objective, rounds=8, categorical=False, **params):
    data = xgb.DMatrix(X, OBJECTIVES[objective], **(CATEGORICAL if categorical else {}))
    if objective.startswith("rank:"):
        data.set_group([20] * (N // 20))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", POSITIVE)
        data.set_float_info("label_upper_bound", POSITIVE)
    return xgb.train(SMALL | {"objective": objective} | PARAMETERS.get(objective, {}) | params, data, rounds)


def document(booster) -> dict:
    return json.loads(booster.save_raw("json"))


def tree_documents(model: dict) -> list[dict]:
    booster = model["learner"]["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]


def from_document(model: dict, folder: Path) -> scurry.Forest:
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return scurry.from_model(path)


def hard_rows(forest, n_rows=300, finite=False):
    """Adversarial rows as float64 and float32; `finite` leaves out what XGBoost's DMatrix refuses."""
    rng = np.random.default_rng(5)
    rows = adversarial_rows(forest, X, n_rows)
    rows[: n_rows // 4, 4] = rng.choice(
        [-1, -0.5, -0.0, 0.7, 31, 32, 39, 40, 63, 64, 2**24 - 1, 2**24, 5e9], n_rows // 4
    )
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    keep = ~np.isinf(narrow).any(axis=1) if finite else slice(None)
    return rows[keep], narrow[keep]


def assert_same_margins(forest, rows, margins):
    np.testing.assert_array_equal(forest.scores(rows), margins.reshape(len(rows), -1))
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))
    np.testing.assert_array_equal(forest.scores(rows), reference.scores(forest, rows))


def assert_same_booster(forest, booster, **data):
    for rows in hard_rows(forest, finite=True):
        matrix = xgb.DMatrix(rows, **data)
        assert_same_margins(forest, rows, booster.predict(matrix, output_margin=True))
        leaves = booster.predict(matrix, pred_leaf=True).reshape(len(rows), -1)
        deleted = any(int(tree["tree_param"]["num_deleted"]) for tree in tree_documents(document(booster)))
        if not deleted:
            np.testing.assert_array_equal(forest.apply(rows) - forest.tree_offset[:-1], leaves)
        predicted = booster.predict(matrix)
        if not forest.is_classifier:
            np.testing.assert_array_equal(forest.predict(rows), predicted)
        elif predicted.ndim == 2:
            np.testing.assert_array_equal(forest.predict(rows), predicted.argmax(axis=1))
            np.testing.assert_allclose(forest.predict_proba(rows), predicted, atol=1e-6)
        elif forest.n_classes == 3:
            np.testing.assert_array_equal(forest.predict(rows), predicted)
        else:
            # binary:logitraw predicts margins; its probability exceeds one half where they are above zero.
            raw = "logitraw" in document(booster)["learner"]["objective"]["name"]
            probability = 1 / (1 + np.exp(-predicted.astype(np.float64))) if raw else predicted
            np.testing.assert_array_equal(forest.predict(rows), probability.astype(np.float32) > 0.5)
            np.testing.assert_allclose(forest.predict_proba(rows)[:, 1], probability, atol=1e-6)


def assert_same_estimator(forest, model):
    for rows in hard_rows(forest):
        assert_same_margins(forest, rows, model.predict(rows, output_margin=True))
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), atol=1e-6)
            np.testing.assert_array_equal(forest.classes, model.classes_)
