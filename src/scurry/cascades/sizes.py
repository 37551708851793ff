"""Cheap models of several sizes. Which of them pays depends on the data, and `scurry.cascade` finds out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scurry.checks import Progress, RandomState, check_choice, check_count, check_progress, draw_seed
from scurry.errors import InputError, require_extra

SIZES = ((30, 7), (100, 15), (300, 31), (600, 63))


def train_sizes(
    X: Any,
    y: Any,
    *,
    task: str = "classification",
    sizes: Sequence[tuple[int, int]] = SIZES,
    random_state: RandomState = None,
    progress: Progress | None = None,
) -> list[Any]:
    """Train boosted trees of several sizes, to choose the cheap model of a cascade from.

    Parameters
    ----------
    X : array or DataFrame of shape (n_rows, n_features)
        Training rows. None of them may be among the rows that `scurry.cascade` gets.
    y : array of shape (n_rows,)
        What to learn: known labels, or the expensive model's answers to these rows. The latter help where the
        expensive model is of another kind, such as a neural network.
    task : {"classification", "regression"}
    sizes : sequence of (n_trees, n_leaves)
        Boosting rounds, and the most leaves of a tree, from the smallest model to the largest.
    random_state : int, Generator, RandomState or None
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` after each model.

    Returns
    -------
    list of HistGradientBoostingClassifier or HistGradientBoostingRegressor

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(500, random_state=0)
    >>> models = scurry.cascades.train_sizes(X, y, sizes=[(5, 4), (20, 8)], random_state=0)
    >>> [scurry.from_model(model).n_trees for model in models]
    [5, 20]
    """
    check_choice("task", task, ("classification", "regression"))
    check_progress(progress)
    if len(getattr(X, "shape", np.shape(X))) != 2:
        raise InputError("X must be a table of rows and columns", argument="X")
    if len(sizes) == 0:
        raise InputError("sizes must have at least one (n_trees, n_leaves)", argument="sizes")
    pairs = [(check_count("sizes", trees), check_count("sizes", leaves, 2)) for trees, leaves in sizes]
    with require_extra("fit", "training a cheap model"):
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
    seed, models = draw_seed(random_state) % 2**32, []
    for n_trees, n_leaves in pairs:
        model = kind(max_iter=n_trees, max_leaf_nodes=n_leaves, early_stopping=False, random_state=seed)
        models.append(model.fit(X, y))
        if progress is not None:
            progress(len(models), len(pairs))
    return models
