"""Random models of every framework, each with rows it was trained on and a way to ask the framework itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from scurry import Forest

LABELS = (
    [0, 1, 2, 3, 4, 5],
    [-7, 3, 4, 10**12, 9, 2],
    ["no", "yes", "", "höchst", "x" * 40, "1"],
    [0.0, 1.0, -2.0, 1e15, 4.0, 5.0],
)


@dataclass(frozen=True)
class Source:
    """A model, and what it says.

    Attributes
    ----------
    model : estimator or Forest
    X : array of shape (n_rows, n_features)
        Rows like those it was trained on.
    accepts : callable
        Which rows of a matrix the framework itself predicts; without one of these it refuses all of them.
    """

    model: Any
    X: np.ndarray
    accepts: Callable[[np.ndarray], np.ndarray]


def draw(rng: np.random.Generator) -> Source:
    """Return a random model of a random framework."""
    return (_trees, _sklearn, _sklearn, _lightgbm, _lightgbm, _xgboost, _xgboost)[rng.integers(7)](rng)


def _rows(rng: np.random.Generator, missing: bool = True) -> np.ndarray:
    """Return rows in which columns have different scales, many ties, and maybe missing values."""
    n_rows, n_features = int(rng.integers(20, 250)), int(rng.integers(1, 9))
    X = rng.normal(size=(n_rows, n_features))
    for j in range(n_features):
        match rng.integers(8):
            case 0:
                X[:, j] = X[:, j].round(1)
            case 1:
                X[:, j] = rng.integers(-3, 9, n_rows)
            case 2:
                X[:, j] *= 1e30
            case 3:
                X[:, j] *= 1e-42  # subnormal as float32
            case 4:
                X[:, j] = 2**24 + rng.integers(0, 9, n_rows)
            case 5:
                X[:, j] = X[:, j] > 0
            case 6:
                X[rng.random(n_rows) < 0.5, j] = 0.0
    if missing and rng.random() < 0.4:
        X[rng.random(X.shape) < rng.choice([0.05, 0.4])] = np.nan
    return X


def _targets(rng: np.random.Generator, X: np.ndarray, classifies: bool) -> np.ndarray:
    signal = np.nan_to_num(X / np.maximum(np.nanmax(np.abs(X), axis=0, initial=1e-300), 1e-300)) @ rng.normal(
        size=X.shape[1]
    )
    signal += 0.3 * rng.normal(size=len(X))
    if not classifies:
        return signal * rng.choice([1.0, 1e-3, 1e6])
    n_classes = int(rng.choice([2, 2, 2, 3, 5]))
    codes = np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)
    codes[:n_classes] = np.arange(n_classes)
    return np.array(LABELS[rng.integers(len(LABELS))])[codes]


def _take(rng: np.random.Generator, **choices: list[Any]) -> dict[str, Any]:
    """Return one value for each option, about half of them left at their defaults."""
    drawn = {name: values[rng.integers(len(values))] for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if rng.random() < 0.5}


def _everything(X: np.ndarray) -> np.ndarray:
    return np.ones(len(X), bool)


def _in_float32(X: np.ndarray) -> np.ndarray:
    return ~(np.abs(X) > np.finfo(np.float32).max).any(axis=1)


def _finite(X: np.ndarray) -> np.ndarray:
    return _in_float32(X) & ~np.isnan(X).any(axis=1)


def _sklearn(rng: np.random.Generator) -> Source:
    classifies, seed = rng.random() < 0.7, int(rng.integers(2**31))
    size = int(rng.integers(1, 25))
    weight = "class_weight" if classifies else "ccp_alpha"
    forest = _take(
        rng, max_depth=[1, 3, 8], max_leaf_nodes=[2, 7, 20], min_samples_leaf=[1, 5], max_features=[1, None, 0.5],
        bootstrap=[True, False], min_impurity_decrease=[0.0, 0.01],
        **{weight: ["balanced", "balanced_subsample"] if classifies else [0.0, 0.01]},
    )  # fmt: skip
    match rng.integers(4):
        case 0:
            kind, accepts = (RandomForestClassifier, RandomForestRegressor), _in_float32
            parameters = {"n_estimators": size, "n_jobs": 1} | forest
        case 1:
            kind, accepts = (ExtraTreesClassifier, ExtraTreesRegressor), _in_float32
            parameters = {"n_estimators": size, "n_jobs": 1} | forest
        case 2:
            kind, accepts = (GradientBoostingClassifier, GradientBoostingRegressor), _finite
            parameters = {"n_estimators": size} | _take(
                rng, learning_rate=[0.05, 0.5, 1.0], subsample=[0.6], max_depth=[1, 2, 5], init=["zero"],
                max_leaf_nodes=[3, 9],
            )  # fmt: skip
        case _:
            kind, accepts = (HistGradientBoostingClassifier, HistGradientBoostingRegressor), _everything
            parameters = {"max_iter": size} | _take(
                rng, learning_rate=[0.05, 0.7], max_leaf_nodes=[3, 9, 31], min_samples_leaf=[2, 10], max_bins=[3, 255],
                l2_regularization=[0.0, 3.0],
            )  # fmt: skip
    X = _rows(rng, missing=accepts is not _finite)
    model = kind[0 if classifies else 1](random_state=seed, **parameters)
    return Source(model.fit(X, _targets(rng, X, classifies)), X, accepts)


def _lightgbm(rng: np.random.Generator) -> Source:
    classifies, X = rng.random() < 0.7, _rows(rng)
    parameters = {"n_estimators": int(rng.integers(1, 25)), "n_jobs": 1, "verbose": -1, "min_child_samples": 3}
    parameters |= {"random_state": int(rng.integers(2**31)), "min_data_per_group": 2, "cat_smooth": 1.0}
    parameters |= _take(
        rng, num_leaves=[2, 4, 31], max_depth=[1, 3], learning_rate=[0.02, 0.5, 1.0], boosting_type=["dart", "gbdt"],
        use_missing=[False, True], zero_as_missing=[True, False], extra_trees=[True], max_bin=[3, 16, 255],
        reg_lambda=[0.0, 5.0], colsample_bytree=[0.5], boost_from_average=[False],
    )  # fmt: skip
    y = _targets(rng, X, classifies)
    if classifies:
        parameters |= _take(rng, objective=["multiclassova"] if len(np.unique(y)) > 2 else ["binary"])
        model = lgb.LGBMClassifier(**parameters)
    else:
        model = lgb.LGBMRegressor(**parameters | _take(rng, objective=["l1", "huber", "quantile", "fair", "mape"]))
    categorical = [j for j in range(X.shape[1]) if X[:, j].min() >= 0 and rng.random() < 0.5]
    model.fit(X, y, categorical_feature=categorical if rng.random() < 0.3 else "auto")
    return Source(model, X, _everything)


def _xgboost(rng: np.random.Generator) -> Source:
    classifies, X = rng.random() < 0.7, _rows(rng)
    parameters = {"n_estimators": int(rng.integers(1, 25)), "n_jobs": 1, "random_state": int(rng.integers(2**31))}
    parameters |= _take(
        rng, max_depth=[1, 3, 8], max_leaves=[3, 9], learning_rate=[0.05, 1.0], tree_method=["exact", "hist", "approx"],
        num_parallel_tree=[2], subsample=[0.6], colsample_bytree=[0.5], reg_lambda=[0.0, 5.0], gamma=[0.5],
        min_child_weight=[0.0], grow_policy=["lossguide", "depthwise"],
    )  # fmt: skip
    if parameters.get("tree_method") == "exact":
        parameters = {name: value for name, value in parameters.items() if name not in ("max_leaves", "grow_policy")}
    if rng.random() < 0.2:
        parameters |= {"booster": "dart", "rate_drop": 0.3}
    y = _targets(rng, X, classifies)
    if classifies:
        model = xgb.XGBClassifier(**parameters).fit(X, np.unique(y, return_inverse=True)[1])
    else:
        model = xgb.XGBRegressor(
            **parameters | _take(rng, objective=["reg:absoluteerror", "reg:pseudohubererror"], base_score=[0.0, 7.5])
        )
        model.fit(X, y)
    return Source(model, X, _everything)


def _trees(rng: np.random.Generator) -> Source:
    """A forest that nobody trained: odd shapes, ties, thresholds that no float32 separates, any header."""
    n_features, n_trees = int(rng.integers(1, 9)), int(rng.integers(1, 25))
    n_columns = int(rng.choice([1, 2, 2, 3, 5, 17]))
    pool = np.array([-1.5, -0.0, 0.0, 0.1, np.float32(0.1), np.nextafter(0.1, 1), 1e-40, 5e-324, 3.0, 2.0**24, 1e300])
    one_each = n_columns > 1 and rng.random() < 0.3
    trees = [
        _tree(rng, n_features, 1 if one_each else n_columns, pool)
        for _ in range(n_trees * (n_columns if one_each else 1))
    ]
    boosted = one_each or rng.random() < 0.4
    forest = Forest.from_trees(trees, n_features=n_features, input_dtype=str(rng.choice(["float32", "float64"])))
    header: dict[str, Any] = {
        "aggregation": "sum" if boosted else "mean" if n_columns == 1 else str(rng.choice(["mean", "vote"])),
        "comparison": str(rng.choice(["<=", "<"])),
        "default_left": rng.random(forest.n_nodes) < 0.5,
        "missing": rng.integers(0, 3, forest.n_nodes),
    }
    if one_each:
        header |= {"tree_output": np.arange(len(trees)) % n_columns, "classes": np.arange(n_columns)}
    if boosted and n_columns > 1:
        header |= {"link": "softmax", "base_score": rng.normal(size=n_columns).round(1)}
    elif boosted and rng.random() < 0.7:
        header |= {"link": "logistic", "classes": ["no", "yes"], "base_score": [0.25], "decision_threshold": 0.0}
    forest = forest.replace(**header)
    return Source(forest, rng.choice(pool, (50, n_features)), _everything)


def _tree(rng: np.random.Generator, n_features: int, n_columns: int, pool: np.ndarray) -> dict[str, Any]:
    n_inner = int(rng.integers(0, 16))
    n_nodes, size = 2 * n_inner + 1, 1
    left, right, leaves = np.full(n_nodes, -1), np.full(n_nodes, -1), [0]
    for _ in range(n_inner):
        node = leaves.pop(rng.integers(len(leaves)))
        left[node], right[node] = size, size + 1
        leaves += [size, size + 1]
        size += 2
    value = rng.integers(0, 5, (n_nodes, n_columns)) / 4  # a coarse grid, so that ties are common
    if n_columns > 1:
        value = (value + 0.25) / (value + 0.25).sum(axis=1, keepdims=True)
    return {
        "feature": np.where(left < 0, -1, rng.integers(0, n_features, n_nodes)),
        "threshold": np.where(left < 0, 0.0, rng.choice(pool, n_nodes)),
        "left": left,
        "right": right,
        "value": value,
        "cover": np.ones(n_nodes),
    }
