"""The boosted ensembles of "Quit When You Can": 500 LightGBM trees on adult and on nomao's strongest features.

Electricity stands in for the paper's private datasets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scurry
from scurry import datasets

N_TREES = 500


@dataclass(frozen=True)
class Rows:
    """Training and test rows of one of the paper's experiments."""

    name: str
    depth: int
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int64]

    def fit(self, n_trees: int = N_TREES, learning_rate: float = 0.05, depth: int | None = None, **options: Any) -> Any:
        return _boost(self.X_train, self.y_train, n_trees, learning_rate, depth or self.depth, **options)


def load(name: str, seed: int = 0, strongest_by: str = "gain") -> Rows:
    """The rows of "adult" (UCI's own split), "nomao" (80/20, the 8 features of most gain) or "electricity" (80/20).

    Seeds other than 0 draw other splits of the same sizes, for adult too. Nomao's strongest features can be those of
    most "splits", of most importance to a random "forest", of the best "AUC" by themselves, or "all".
    """
    data = datasets.load("grinsztajn_electricity" if name == "electricity" else name)
    y = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    if name == "adult" and data.split is not None:
        train, test = np.flatnonzero(data.split == "train"), np.flatnonzero(data.split == "test")
        if seed:
            train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [len(train)])
        return Rows(name, 5, data.X[train], y[train], data.X[test], y[test])
    train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [round(0.8 * len(y))])
    if name != "nomao":
        return Rows(name, 5 if name == "adult" else 6, data.X[train], y[train], data.X[test], y[test])
    strongest = _find_strongest(data.X[train], y[train], strongest_by)
    return Rows(name, 9, data.X[train][:, strongest], y[train], data.X[test][:, strongest], y[test])


def _find_strongest(X: NDArray[np.float32], y: NDArray[np.int64], strongest_by: str) -> NDArray[np.intp]:
    if strongest_by == "all":
        return np.arange(X.shape[1])
    if strongest_by == "forest":
        from sklearn.ensemble import RandomForestClassifier

        strength = RandomForestClassifier(100, min_samples_leaf=2, random_state=0).fit(X, y).feature_importances_
    elif strongest_by == "AUC":
        from sklearn.metrics import roc_auc_score

        strength = np.array([abs(roc_auc_score(y, column) - 0.5) for column in X.T])
    else:
        kind = {"gain": "gain", "splits": "split"}[strongest_by]
        strength = _boost(X, y, 100, 0.1, 9).booster_.feature_importance(kind)
    return np.sort(np.argsort(-strength, kind="stable")[:8])


def scores_of(forest: scurry.Forest, *sets_of_rows: NDArray[np.float32]) -> list[NDArray[np.float64]]:
    """What each tree adds to each row; the model's base score is in its first tree or in its threshold."""
    return [forest.tree_scores(rows) for rows in sets_of_rows]


def _boost(X: NDArray[Any], y: NDArray[Any], n_trees: int, learning_rate: float, depth: int, **options: Any) -> Any:
    from lightgbm import LGBMClassifier

    usual = {"num_leaves": 2**depth, "min_child_samples": 20, "random_state": 0}
    model = LGBMClassifier(
        n_estimators=n_trees,
        learning_rate=learning_rate,
        max_depth=depth,
        n_jobs=1,  # threads that wait for each other crawl on a busy machine
        verbose=-1,
        **usual | options,
    )
    return model.fit(X, y)
