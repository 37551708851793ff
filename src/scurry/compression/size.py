"""How many bytes a forest takes in a packed file: one bit a node, and a few more for the number of its split or leaf.

Distinct splits and distinct leaves are stored once, in tables; nodes refer to them by numbers of as few bits as the
tables need. So a forest becomes smaller by having fewer nodes, and by having fewer distinct splits and leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest

# The header, the sizes of trees, and what aligns each array.
_FIXED, _PER_TREE = 2048, 4


def packed_size(forest: Forest) -> int:
    """Return how many bytes a forest takes in a packed file, its header estimated.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(200, random_state=0).fit(X, y))
    >>> packed_size(forest) < forest.n_bytes / 10
    True
    """
    leaf = forest.is_leaf
    n_leaves, n_splits = int(leaf.sum()), int((~leaf).sum())
    counts = leaf_counts(forest)
    if counts is not None:
        n_distinct = _count_distinct(counts[leaf].T)
        entry, inner = 4 * counts.shape[1], 0
    else:
        n_distinct = _count_distinct(forest.value[leaf].T)
        entry, inner = 8 * forest.value.shape[1], n_splits * 8 * forest.value.shape[1]
        inner += 4 * forest.n_nodes if np.isfinite(forest.cover).all() else 0
    # A table of as many leaves as there are needs no numbers to refer to it.
    leaf_bits = n_leaves * id_bits(n_distinct) if n_distinct < n_leaves else 0
    bits = forest.n_nodes + n_splits * id_bits(n_distinct_splits(forest)) + leaf_bits
    size = _FIXED + _PER_TREE * forest.n_trees + -(-bits // 8) + _split_table(forest) + n_distinct * entry + inner
    return int(size)


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
            forest.default_left[split],
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


def _split_table(forest: Forest) -> int:
    entry = np.dtype(forest.input_dtype).itemsize
    split = ~forest.is_leaf
    entry += sum(len(np.unique(varying[split])) > 1 for varying in (forest.default_left, forest.missing))
    has_sets = bool((forest.category_set >= 0).any())
    sets = 4 * len(forest.category_bits) + 8 * len(forest.category_offset) if has_sets else 0
    return 4 * forest.n_features + n_distinct_splits(forest) * (entry + 4 * has_sets) + sets


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
