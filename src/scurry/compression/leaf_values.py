"""Leaf values of a smaller forest, found anew so that its scores come close to those of the whole one.

The scores of the whole forest are known for any row, so rows need no labels. Ridge regression finds what to add to each
leaf: the sum over rows of the squared difference of scores, plus a penalty for each leaf in proportion to the rows in
it, is made small by a few steps of conjugate gradients. The step number is fixed and small, which is a second penalty.
The training rows should be among the rows: leaves that no row reaches stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from scurry.checks import check_instance, check_number, check_numbers
from scurry.errors import InputError
from scurry.forest import Forest, as_rows
from scurry.forest.files.packed import average_leaves

FloatArray = NDArray[np.float64]
_N_STEPS = 12
# The penalty of adding u to a leaf is _RIDGE * n_trees * n_rows * u^2, so that trees share what there is to add. Found
# on five data sets: averaged trees change little from 0.03 to 0.3, boosted ones from 0.001 to 0.01.
_RIDGE, _RIDGE_OF_SUMS = 0.1, 0.01


def refit(forest: Forest, rows: Any, scores: FloatArray, *, ridge: float | None = None) -> Forest:
    """Return the forest with leaf values whose scores are closer to given ones.

    Parameters
    ----------
    forest : Forest
    rows : array or DataFrame of shape (n_rows, n_features)
    scores : float64 array of shape (n_rows, n_outputs)
        Scores to come close to, such as `Forest.scores` of a larger forest.
    ridge : float, optional
        How much a change of leaf values counts against a change of scores.

    Returns
    -------
    Forest
        Trees have the same shape. Probabilities stay probabilities. A forest of votes becomes one that averages.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from scurry.compression import keep_trees, refit
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> forest = scurry.from_model(GradientBoostingRegressor(n_estimators=100, random_state=0).fit(X[:1000], y[:1000]))
    >>> half = keep_trees(forest, 50)
    >>> better = refit(half, X[:1000], forest.scores(X[:1000]))
    >>> errors = [np.abs(small.predict(X[1000:]) - forest.predict(X[1000:])).mean() for small in (half, better)]
    >>> bool(errors[1] < 0.8 * errors[0])
    True
    """
    check_instance("forest", forest, Forest)
    rows, scores = as_rows(forest, rows), check_numbers("scores", scores)
    if scores.shape != (len(rows), forest.n_outputs) or not np.isfinite(scores).all():
        raise InputError(
            f"scores must be finite numbers of shape {(len(rows), forest.n_outputs)}, as Forest.scores returns them, "
            f"got shape {scores.shape}",
            argument="scores",
        )
    values = forest.leaf_values().copy()
    if forest.aggregation == "vote":
        forest = forest.replace(value=values, aggregation="mean")
    if ridge is None:
        ridge = _RIDGE_OF_SUMS if forest.aggregation == "sum" else _RIDGE
    ridge = check_number("ridge", ridge)
    leaves, missing = forest.apply(rows), scores - forest.scores(rows)
    for output in np.unique(forest.tree_output).tolist():
        trees = np.flatnonzero(forest.tree_output == output)
        wanted = missing if output < 0 else missing[:, output : output + 1]
        reached, added = _solve(leaves[:, trees], wanted, ridge)
        values[reached] += added * forest.score_divisor
    if forest.is_classifier and forest.link == "identity" and forest.aggregation != "sum" and values.shape[1] > 1:
        values = np.maximum(values, 0.0)
        values /= values.sum(axis=1, keepdims=True)
    return forest.replace(value=average_leaves(forest, values, forest.cover))


def _solve(leaves: NDArray[np.int32], wanted: FloatArray, ridge: float) -> tuple[NDArray[np.int32], FloatArray]:
    """Return the leaves that rows reach, and what each adds to the score.

    Parameters
    ----------
    leaves : int32 array of shape (n_rows, n_trees)
    wanted : float64 array of shape (n_rows, n_columns)
        What the leaves of a row should add up to.
    """
    n_rows, n_trees = leaves.shape
    reached, entries = np.unique(leaves, return_inverse=True)
    start = np.arange(0, leaves.size + 1, n_trees)
    of_rows = csr_array((np.ones(leaves.size), entries.ravel(), start), shape=(n_rows, len(reached)))
    of_leaves = of_rows.T.tocsr()
    n_in = np.bincount(entries.ravel(), minlength=len(reached)).astype(np.float64)[:, None]
    penalty = ridge * n_trees * n_in
    diagonal = n_in + penalty
    added = np.zeros((len(reached), wanted.shape[1]))
    left = of_leaves @ wanted
    scaled = left / diagonal
    direction, size = scaled, (left * scaled).sum(axis=0)
    for _ in range(_N_STEPS):
        moved = of_leaves @ (of_rows @ direction) + penalty * direction
        curvature = (direction * moved).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
        added += step * direction
        left = left - step * moved
        scaled = left / diagonal
        before, size = size, (left * scaled).sum(axis=0)
        direction = scaled + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * direction
    return reached, added
