"""Estimators of scikit-learn, not fitted, and data for the tasks they are for."""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier, DummyRegressor
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
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

SMALL = {"n_estimators": 12, "random_state": 0}
HIST = {"max_iter": 12, "max_leaf_nodes": 10, "min_samples_leaf": 5, "random_state": 0}
N_CLASSES = {"binary": 2, "multi": 4}

TREES = [
    (RandomForestClassifier(**SMALL), "binary"),
    (RandomForestClassifier(**SMALL, max_depth=4, criterion="entropy"), "multi"),
    (RandomForestClassifier(**SMALL, max_leaf_nodes=9, class_weight="balanced"), "multi"),
    (
        RandomForestClassifier(**SMALL, class_weight="balanced_subsample", criterion="log_loss", max_samples=0.5),
        "binary",
    ),
    (RandomForestClassifier(**SMALL), "missing"),
    (RandomForestRegressor(**SMALL), "regression"),
    (RandomForestRegressor(**SMALL, criterion="absolute_error", max_depth=5), "regression"),
    (RandomForestRegressor(**SMALL, criterion="poisson", min_samples_leaf=4), "counts"),
    (ExtraTreesClassifier(**SMALL), "binary"),
    (ExtraTreesClassifier(**SMALL, bootstrap=True, max_features=None, ccp_alpha=0.002), "multi"),
    (ExtraTreesClassifier(**SMALL), "missing"),
    (ExtraTreesRegressor(**SMALL, max_features=2, max_leaf_nodes=20), "regression"),
    (DecisionTreeClassifier(random_state=0), "multi"),
    (DecisionTreeClassifier(random_state=0, max_leaf_nodes=12), "missing"),
    (DecisionTreeClassifier(random_state=0, ccp_alpha=0.01), "binary"),
    (DecisionTreeClassifier(max_depth=3, monotonic_cst=[1, 0, 0, -1, 0, 0]), "binary"),
    (DecisionTreeRegressor(random_state=0, splitter="random"), "regression"),
    (ExtraTreeClassifier(random_state=0), "binary"),
    (ExtraTreeRegressor(random_state=0), "regression"),
]
BOOSTED = [
    (GradientBoostingClassifier(**SMALL), "binary"),
    (GradientBoostingClassifier(**SMALL, loss="exponential", learning_rate=0.3, subsample=0.6), "binary"),
    (GradientBoostingClassifier(**SMALL, max_leaf_nodes=6), "multi"),
    (GradientBoostingClassifier(**SMALL, init="zero"), "binary"),
    (GradientBoostingClassifier(**SMALL, init="zero"), "multi"),
    (GradientBoostingClassifier(**SMALL, init=DummyClassifier(strategy="most_frequent")), "multi"),
    (GradientBoostingClassifier(n_estimators=60, n_iter_no_change=2, learning_rate=0.7, random_state=0), "binary"),
    (GradientBoostingRegressor(**SMALL), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="absolute_error"), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="huber", max_features=2), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="quantile", alpha=0.8), "regression"),
    (GradientBoostingRegressor(**SMALL, init=DummyRegressor(strategy="constant", constant=3.5)), "regression"),
]
HIST_BOOSTED = [
    (HistGradientBoostingClassifier(**HIST), "binary"),
    (HistGradientBoostingClassifier(**HIST, class_weight="balanced"), "multi"),
    (HistGradientBoostingClassifier(**HIST), "missing"),
    (HistGradientBoostingClassifier(**HIST | {"max_iter": 80}, early_stopping=True, learning_rate=0.5), "binary"),
    (HistGradientBoostingClassifier(**HIST, max_bins=7, l2_regularization=1.0), "multi"),
    (HistGradientBoostingClassifier(**HIST, monotonic_cst=[1, 0, -1, 0, 0, 0]), "binary"),
    (HistGradientBoostingRegressor(**HIST), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="absolute_error"), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="quantile", quantile=0.2), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="poisson"), "counts"),
    (HistGradientBoostingRegressor(**HIST, loss="gamma"), "positive"),
    (HistGradientBoostingRegressor(**HIST, interaction_cst="no_interactions"), "regression"),
]


def make_data(task, n_rows=300, seed=0):
    """Few distinct values in half of the columns, so that thresholds repeat and leaves tie."""
    rng = np.random.default_rng(seed)
    n_classes = N_CLASSES.get(task, 2)
    X, y = make_classification(
        n_rows, 6, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=seed
    )
    X[:, ::2] = np.round(X[:, ::2], 1)
    match task:
        case "multi":
            return X, np.array(["delta", "alpha", "charlie", "bravo"])[y]
        case "missing":
            X[rng.random(X.shape) < 0.15] = np.nan
            return X, np.where(np.isnan(X[:, 1]), "gone", np.where(y == 1, "yes", "no"))
        case "regression":
            return X, X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
        case "counts":
            return X, rng.poisson(np.exp(0.4 * X[:, 0])).astype(float)
        case "positive":
            return X, rng.gamma(2.0, np.exp(0.3 * X[:, 1])) + 1e-3
    return X, y
