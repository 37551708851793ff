"""How many bytes a forest takes in a packed file: one bit a node, and a few more for the number of its split or leaf.

Distinct splits and distinct leaves are stored once, in tables; nodes refer to them by numbers of as few bits as the
tables need. So a forest becomes smaller by having fewer nodes, and by having fewer distinct splits and leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_instance
from scurry.forest import Forest
from scurry.forest.files.storage import container_bytes
from scurry.forest.structure import mean_of_leaves

_HEADER, _SPLIT_ENTRY = 4096, 3.2  # bytes of the header and of what aligns arrays, and of a threshold on average
FloatArray = NDArray[np.float64]


def packed_size(forest: Forest) -> int:
    """Return how many bytes the file of a forest takes; a predictor's has its plan and certificate besides.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(200, random_state=0).fit(X, y))
    >>> packed_size(forest) < forest.n_bytes / 8
    True
    """
    check_instance("forest", forest, Forest)
    # A version that writes packed files tells their size itself.
    to_parts = getattr(forest, "to_packed_parts", None)
    return estimate_size(forest) if to_parts is None else len(container_bytes("forest", *to_parts()))


def estimate_size(forest: Forest) -> int:
    """Return about how many bytes a packed file takes: bits of nodes, tables of splits and leaves, a header."""
    leaf = forest.is_leaf
    n_leaves, n_splits, n_distinct_tests = int(leaf.sum()), int((~leaf).sum()), n_distinct_splits(forest)
    bits = forest.n_nodes + n_splits * id_bits(n_distinct_tests)
    bits += n_splits if len(np.unique(forest.default_left[~leaf])) > 1 else 0
    tables = n_distinct_tests * _SPLIT_ENTRY + 4 * len(forest.category_bits) + 4 * forest.n_trees
    counts = leaf_counts(forest)
    rows: NDArray[Any] = forest.value[leaf]
    if counts is not None:
        rows, width, others = counts[leaf], int(np.min_scalar_type(counts[leaf].max()).itemsize), 0
    else:
        width = 4 if np.array_equal(rows.astype(np.float32), rows) else 8
        is_known = np.isfinite(forest.cover).all()
        others = n_leaves * (1 if forest.cover[leaf].max() < 256 else 2) if is_known else 0
        if not is_known or not np.array_equal(average_leaves(forest, forest.value), forest.value):
            others += n_splits * 8 * rows.shape[1]  # values of inner nodes do not follow from leaves
    n_rows = _count_distinct(rows.T)
    size_of_table = n_rows * rows.shape[1] * width + n_leaves * id_bits(n_rows) // 8
    return int(_HEADER + bits // 8 + tables + others + min(size_of_table, n_leaves * rows.shape[1] * width))


def average_leaves(forest: Forest, values: FloatArray, cover: FloatArray | None = None) -> FloatArray:
    """Return values whose inner nodes have the mean of their leaves, as files derive it from leaves alone.

    Parameters
    ----------
    forest : Forest
    values : float64 array of shape (n_nodes, n_columns)
        Those of inner nodes are ignored.
    cover : float64 array of shape (n_nodes,), optional
        By default the forest's own, or 1 for each leaf where that is not known.
    """
    weight = forest.cover if cover is None else cover
    if not (weight[forest.is_leaf] > 0).all():
        weight = np.ones(forest.n_nodes)
    columns = [
        mean_of_leaves(forest.tree_offset, forest.left, forest.right, weight, np.ascontiguousarray(column))
        for column in values.T
    ]
    return np.stack(columns, axis=1)


def leaf_counts(forest: Forest) -> NDArray[np.int64] | None:
    """Return how many training rows of each class each node has; None where values and covers do not tell.

    They tell where every node's value is its counts divided by their sum, bit by bit, and an inner node's counts are
    those of its leaves. Then leaves alone need to be stored.
    """
    if forest.aggregation == "sum" or not forest.is_classifier or not np.isfinite(forest.cover).all():
        return None
    counts = np.rint(forest.value * forest.cover[:, None])
    total = counts.sum(axis=1)
    if (total != forest.cover).any() or (total == 0).any() or (counts / total[:, None] != forest.value).any():
        return None
    split = ~forest.is_leaf
    if (counts[split] != counts[forest.left[split]] + counts[forest.right[split]]).any():
        return None
    return counts.astype(np.int64)


def add_up(forest: Forest, *totals: NDArray[np.float64]) -> None:
    """Add to every inner node, in place, what its leaves have.

    Parameters
    ----------
    forest : Forest
    *totals : float64 arrays of shape (n_nodes, …)
        0 at inner nodes.
    """
    split = np.flatnonzero(~forest.is_leaf)
    order = split[np.argsort(-forest.node_depth[split], kind="stable")]
    for nodes in np.split(order, np.flatnonzero(np.diff(forest.node_depth[order])) + 1):  # children before parents
        for total in totals:
            total[nodes] = total[forest.left[nodes]] + total[forest.right[nodes]]


def n_distinct_splits(forest: Forest) -> int:
    """Return how many different splits a forest has."""
    split = ~forest.is_leaf
    return _count_distinct(
        [
            forest.feature[split],
            _stored_thresholds(forest)[split],
            forest.missing[split],
            forest.category_set[split],
        ]
    )


def id_bits(n_distinct: int) -> int:
    """Return how many bits a number of one of so many entries takes.

    Examples
    --------
    >>> [id_bits(n) for n in (1, 2, 3, 256, 257)]
    [1, 1, 2, 8, 9]
    """
    return max(1, (max(n_distinct, 1) - 1).bit_length())


def _stored_thresholds(forest: Forest) -> NDArray[Any]:
    if forest.input_dtype == "float64":
        return forest.threshold
    # Inputs are float32: two thresholds between the same two of them are one.
    with np.errstate(over="ignore"):
        return forest.threshold.astype(np.float32)


def _count_distinct(columns: Any) -> int:
    """Return the number of different rows of a table given by its columns."""
    rows = np.stack([np.asarray(column, np.float64) for column in columns], axis=1) + 0.0  # -0.0 is 0.0
    if len(rows) == 0:
        return 0
    ordered = rows[np.lexsort(rows.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())
