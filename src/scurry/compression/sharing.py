"""Sharing: nodes that ask nearly the same, or answer nearly the same, take one entry of a table.

In a packed file a split is a number of its entry in the table of distinct splits. A forest of 60,000 distinct splits
needs 16 bits for each node; with 4,096 it needs 12, and the table is 15 times smaller. Moving a threshold changes the
path of the few rows between the old and the new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count, check_instance
from scurry.forest import Forest
from scurry.forest.files.packed import add_up, average_leaves, leaf_counts

FloatArray = NDArray[np.float64]
_N_ROUNDS = 12  # of Lloyd's algorithm


def share_thresholds(forest: Forest, max_splits: int) -> Forest:
    """Return the forest with at most so many distinct numeric splits.

    Each feature keeps some of its thresholds, evenly spaced among those of its nodes, and every node takes the nearest.
    A feature with n nodes keeps a number in proportion to the square root of n, or all that it has: with k thresholds
    the nodes move by about n / k ranks in all, and this division makes the sum over features smallest.

    Parameters
    ----------
    forest : Forest
    max_splits : int
        For all features together. Every feature that is used keeps one at least.

    Returns
    -------
    Forest
        Trees have the same shape and the same leaves. Categorical splits stay as they are.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(50, random_state=0).fit(X[::2], y[::2]))
    >>> small = share_thresholds(forest, 256)
    >>> float((small.predict(X[1::2]) == forest.predict(X[1::2])).mean()) > 0.98
    True
    """
    check_instance("forest", forest, Forest)
    check_count("max_splits", max_splits)
    numeric = np.flatnonzero(~forest.is_leaf & (forest.category_set < 0))
    nodes = numeric[np.lexsort((forest.threshold[numeric], forest.feature[numeric]))]
    by_feature = np.split(nodes, np.flatnonzero(np.diff(forest.feature[nodes])) + 1)
    thresholds = [forest.threshold[own] for own in by_feature]  # each in ascending order
    n_kept = _divide(max_splits, [_count_steps(own) for own in thresholds], [len(own) for own in thresholds])
    shared = forest.threshold.copy()
    for own, values, n in zip(by_feature, thresholds, n_kept, strict=True):
        shared[own] = _take_nearest(values, n)
    return forest.replace(threshold=shared)


def share_counts(forest: Forest) -> Forest:
    """Return the forest with fewer distinct counts of training rows in its leaves, and the same answers.

    A leaf whose rows are all of one class answers the same whatever their number is. It is rounded to a power of four.
    Covers then are no longer those of the training rows, and values of inner nodes, which count for anytime predictions
    and for pruning, move a little. Forests without such counts are returned as they are.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0], [1], [2], [3]], [0, 0, 0, 1]))
    >>> share_counts(forest).cover.tolist()
    [5.0, 4.0, 1.0]
    """
    check_instance("forest", forest, Forest)
    counts = leaf_counts(forest)
    if counts is None:
        return forest
    pure = np.count_nonzero(counts, axis=1) == 1
    return _with_counts(forest, np.where(pure[:, None] & (counts > 0), _round_weight(counts), counts))


def share_probabilities(forest: Forest, n_steps: int = 64) -> Forest:
    """Return the forest with leaf probabilities that are multiples of a step, and covers that are few.

    Each leaf then has whole counts, of which a file needs a small table, and inner nodes have the sums of their leaves.
    Leaves of one class keep their answer. For forests that average probabilities; others are returned as they are.

    Parameters
    ----------
    forest : Forest
    n_steps : int, default 64
        The step is 1 / n_steps.

    Examples
    --------
    >>> import scurry
    >>> tree = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...         "value": [[0.5, 0.5], [0.9, 0.1], [0, 1]], "cover": [5, 3, 2]}
    >>> small = share_probabilities(scurry.Forest.from_trees([tree]), 8)
    >>> small.value[1:].tolist(), small.cover.tolist()
    ([[0.875, 0.125], [0.0, 1.0]], [40.0, 32.0, 8.0])
    """
    check_instance("forest", forest, Forest)
    check_count("n_steps", n_steps, largest=2**20)
    is_probability = forest.value.shape[1] > 1 and (np.abs(forest.value.sum(axis=1) - 1.0) < 1e-9).all()
    if forest.aggregation != "mean" or not forest.is_classifier or not is_probability or (forest.value < 0).any():
        return forest
    steps = np.floor(forest.value * n_steps)
    # What is left over goes to the classes that were rounded down most, the lowest first.
    rest = n_steps - steps.sum(axis=1)
    rank = np.argsort(np.argsort(steps - forest.value * n_steps, axis=1, kind="stable"), axis=1)
    steps += rank < rest[:, None]
    cover = np.where(np.isfinite(forest.cover), forest.cover, 1.0)
    return _with_counts(forest, steps * _round_weight(cover)[:, None])


def _round_weight(weight: NDArray[Any]) -> FloatArray:
    """Return the nearest power of four, at least 1. Fewer distinct weights make a smaller table of leaves."""
    return np.asarray(4.0 ** np.rint(np.log2(np.maximum(weight, 1.0)) / 2))


def _with_counts(forest: Forest, counts: FloatArray) -> Forest:
    """Return the forest whose leaves have these counts; those of inner nodes are ignored."""
    counts = np.where(forest.is_leaf[:, None], counts, 0.0)
    add_up(forest, counts)
    cover = counts.sum(axis=1)
    return forest.replace(value=counts / cover[:, None], cover=cover)


def share_values(forest: Forest, max_values: int) -> Forest:
    """Return the forest with at most so many distinct leaf values, where each leaf has one number.

    Entries of the table are placed by Lloyd's algorithm (k-means), and every leaf takes the nearest. Forests with
    several numbers in each leaf are returned as they are; see `share_probabilities`.

    Parameters
    ----------
    forest : Forest
    max_values : int

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> forest = scurry.from_model(RandomForestRegressor(20, random_state=0).fit(X, X[:, 0] ** 2))
    >>> small = share_values(forest, 64)
    >>> float(np.abs(small.predict(X) - forest.predict(X)).max()) < 0.01
    True
    """
    check_instance("forest", forest, Forest)
    check_count("max_values", max_values)
    if forest.value.shape[1] > 1:
        return forest
    value = forest.value.copy()
    value[forest.is_leaf, 0] = _share_numbers(value[forest.is_leaf, 0], max_values)
    cover = _spread(forest)
    return forest.replace(value=average_leaves(forest, value, cover), cover=cover)


def _spread(forest: Forest) -> FloatArray:
    """Return covers of which a leaf's takes a byte: 1, 4, 16 or 64 times the smallest, and their sums."""
    leaf = forest.is_leaf
    known = np.isfinite(forest.cover[leaf]).all() and (forest.cover[leaf] > 0).all()
    smallest = float(forest.cover[leaf].min()) if known else 1.0
    cover = np.where(leaf, np.minimum(_round_weight(forest.cover / smallest), 64.0) if known else 1.0, 0.0)
    add_up(forest, cover)
    return cover


def _count_steps(values: FloatArray) -> int:
    return 1 + int((values[1:] != values[:-1]).sum())  # no differences: thresholds may be infinite


def _divide(max_splits: int, n_distinct: list[int], n_nodes: list[int]) -> list[int]:
    """Return how many thresholds each feature keeps: the largest multiple of the root of its nodes that fits."""
    distinct, roots = np.array(n_distinct), np.sqrt(n_nodes)
    if distinct.sum() <= max_splits:
        return n_distinct
    low, high = 0.0, float(max_splits)
    for _ in range(60):
        middle = (low + high) / 2
        fits = np.clip(middle * roots, 1, distinct).astype(int).sum() <= max_splits
        low, high = (middle, high) if fits else (low, middle)
    kept: list[int] = np.clip(low * roots, 1, distinct).astype(int).tolist()
    return kept


def _take_nearest(values: FloatArray, n_kept: int) -> FloatArray:
    """Return ascending values moved to the nearest of `n_kept` of them."""
    if n_kept >= _count_steps(values):
        return values
    middles = ((np.arange(n_kept) + 0.5) / n_kept * len(values)).astype(np.intp)
    return _nearest(np.unique(values[middles]), values)


def _nearest(table: FloatArray, values: FloatArray) -> FloatArray:
    if len(table) == 1:
        return np.full_like(values, table[0])
    above = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    with np.errstate(invalid="ignore"):  # thresholds may be infinite
        is_below = values - table[above - 1] <= table[above] - values
    return table[above - is_below]


def _share_numbers(values: FloatArray, max_values: int) -> FloatArray:
    ordered = np.sort(values)
    if _count_steps(ordered) <= max_values:
        return values
    table = np.unique(ordered[((np.arange(max_values) + 0.5) / max_values * len(ordered)).astype(np.intp)])
    # Half of the entries are spread evenly: rare large values count as much as frequent small ones.
    table = np.unique(np.concatenate([table[::2], np.linspace(ordered[0], ordered[-1], max_values // 2)]))[:max_values]
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(_N_ROUNDS):
        edges = np.searchsorted(ordered, (table[1:] + table[:-1]) / 2)
        first, last = np.append(0, edges), np.append(edges, len(ordered))
        used = last > first
        table = np.unique((sums[last[used]] - sums[first[used]]) / (last[used] - first[used]))
    # Entries of single precision take half of the table.
    return _nearest(np.unique(table.astype(np.float32).astype(np.float64)), values)
