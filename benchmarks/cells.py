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
    n_rows: int = N_BATCH_ROWS

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.model}"


@dataclass(frozen=True)
class Task:
    """A fitted cell: the model, the batch to predict, and the labels the model itself gives."""

    model: Any
    batch: Any  # a float32 matrix, or a DataFrame
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


def _lightgbm_default(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=500, random_state=0, verbose=-1).fit(X, y)


def _xgboost(n_rounds: int, X: NDArray[Any], y: NDArray[Any], depth: int = 6) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n_rounds, max_depth=depth, learning_rate=0.05, random_state=0).fit(X, y)


def _histogram(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=500, early_stopping=False, random_state=0).fit(X, y)


def _catboost(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from catboost import CatBoostClassifier

    options = {"learning_rate": 0.05, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
    return CatBoostClassifier(iterations=500, depth=6, **options).fit(X, y)


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


# Smallest first: an interrupted run has the cells that take little.
SMALL_AND_LARGE = [
    Cell("adult", "xgboost-50x4", "adult, XGBoost 50 × depth 4", partial(_xgboost, 50, depth=4)),
    Cell("adult", "lightgbm-default", "adult, LightGBM 500, 31 leaves", _lightgbm_default),
    Cell("adult", "hist", "adult, HistGradientBoosting 500", _histogram),
    Cell("adult", "catboost", "adult, CatBoost 500 × depth 6", _catboost),
    Cell("adult", "xgboost-3000x8", "adult, XGBoost 3,000 × depth 8", partial(_xgboost, 3000, depth=8)),
    Cell("adult", "rf10-1m", "adult, RF 101 × depth 10, 1,000,000 rows", partial(_forest, 10), 1_000_000),
    Cell("adult", "xgboost-1m", "adult, XGBoost 500 × depth 6, 1,000,000 rows", partial(_xgboost, 500), 1_000_000),
    Cell("frame", "lightgbm", "frame of 40 columns, 28 categorical, LightGBM 300", _lightgbm_default),
]

# A round of boosting grows a tree per class: 70 rounds on covertype's 7 classes are 490 trees.
CELLS = [
    *_cells_of("adult", 500),
    *_cells_of("magic", 500),
    *_cells_of("covertype", 70),
    *_cells_of("letter", None),
    Cell("digits", "rf10", "digits, RF 101 × depth 10", partial(_forest, 10)),
    *SMALL_AND_LARGE,
]


def fit(cell: Cell) -> Task:
    """Train the cell's model on one part of its dataset and take the batch from the rest."""
    if cell.dataset == "frame":
        return _fit_frame()
    X, y = load(cell.dataset)
    order = np.random.default_rng(0).permutation(len(X))
    n_train = min(MAX_TRAIN_ROWS, len(X) // 2)
    train, held_out = order[:n_train], order[n_train : n_train + N_BATCH_ROWS]
    model = cell.fit(X[train], y[train])
    return Task(model, X[np.resize(held_out, cell.n_rows)], model.predict(X[held_out]).astype(np.int64))


def load(dataset: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows without missing values and labels 0, 1, …: what every engine takes."""
    if dataset == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        data = datasets.load(dataset)
        X, y = data.X, data.y
    return np.nan_to_num(X, nan=-1.0).astype(np.float32), np.unique(y, return_inverse=True)[1].astype(np.int64)


def _fit_frame() -> Task:
    """A frame of pandas, as benchmarks/frames.py makes it: what is timed is its conversion as well."""
    from lightgbm import LGBMClassifier

    from frames import N_TREES, make_frames

    frames, labels = make_frames()
    frame = frames["pandas category"]
    model = LGBMClassifier(n_estimators=N_TREES, n_jobs=1, verbose=-1).fit(frame[::2], labels[::2])
    return Task(model, frame, model.predict(frame).astype(np.int64))
