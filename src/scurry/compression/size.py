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
    return len(container_bytes("forest", *forest.to_packed_parts()))


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
