"""Cells of the speed benchmark: a model fitted on a real dataset, and the held-out rows every engine predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import datasets

N_BATCH_ROWS = 20_000
MAX_TRAIN_ROWS = 30_000


@dataclass(frozen=True)
class Cell:
    """A dataset and a kind of model: ``fit(X, y)`` trains it."""

    dataset: str
    model: str
    title: str
    fit: Callable[[NDArray[Any], NDArray[Any]], Any]

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.model}"


@dataclass(frozen=True)
class Task:
    """A fitted cell: the model, the batch to predict, and the labels the model itself gives."""

    model: Any
    batch: NDArray[np.float32]
    expected: NDArray[np.int64]


def _forest(max_depth: int | None, X: NDArray[Any], y: NDArray[Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(101, max_depth=max_depth, n_jobs=-1, random_state=0).fit(X, y)


def _lightgbm(n_rounds: int, X: NDArray[Any], y: NDArray[Any]) -> Any:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=n_rounds, max_depth=6, num_leaves=64, learning_rate=0.05, random_state=0, verbose=-1
    )
    return model.fit(X, y)


def _xgboost(n_rounds: int, X: NDArray[Any], y: NDArray[Any]) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n_rounds, max_depth=6, learning_rate=0.05, random_state=0).fit(X, y)


def _cells_of(dataset: str, n_rounds: int | None) -> list[Cell]:
    forests = [
        Cell(dataset, "rf10", f"{dataset}, RF 101 × depth 10", partial(_forest, 10)),
        Cell(dataset, "rf", f"{dataset}, RF 101 unlimited", partial(_forest, None)),
    ]
    if n_rounds is None:
        return forests
    return [
        *forests,
        Cell(dataset, "lightgbm", f"{dataset}, LightGBM {n_rounds} × depth 6", partial(_lightgbm, n_rounds)),
        Cell(dataset, "xgboost", f"{dataset}, XGBoost {n_rounds} × depth 6", partial(_xgboost, n_rounds)),
    ]


# A round of boosting grows a tree per class: 70 rounds on covertype's 7 classes are 490 trees.
CELLS = [
    *_cells_of("adult", 500),
    *_cells_of("magic", 500),
    *_cells_of("covertype", 70),
    *_cells_of("letter", None),
]


def fit(cell: Cell) -> Task:
    """Train the cell's model on one part of its dataset and take the batch from the rest."""
    data = datasets.load(cell.dataset)
    # Missing values become a number, and labels 0, 1, …: what every engine takes.
    X = np.nan_to_num(data.X, nan=-1.0)
    y = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(X))
    n_train = min(MAX_TRAIN_ROWS, len(X) // 2)
    train, held_out = order[:n_train], order[n_train : n_train + N_BATCH_ROWS]
    model = cell.fit(X[train], y[train])
    return Task(model, X[np.resize(held_out, N_BATCH_ROWS)], model.predict(X[held_out]).astype(np.int64))
