"""The slow and obviously correct predictor that the native engine is tested against.

One loop over trees, one level at a time, everything in the precision and order that the source model uses. Only tests
import this module, and it reads nothing but a forest's fields: an oracle must not share code with what it judges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest.forest import Forest
from scurry.forest.rows import as_rows
from scurry.forest.structure import MISSING_NAN, MISSING_NONE, MISSING_ZERO

ZERO = 1e-35
"""Largest magnitude that counts as zero where zero means missing (LightGBM's constant, read as float32)."""


def apply(forest: Forest, X: Any) -> NDArray[np.int32]:
    """Return the leaf that each row reaches in each tree, shape (n_rows, n_trees)."""
    rows = as_rows(forest, X)
    with np.errstate(over="ignore"):
        rows = rows.astype(forest.input_dtype).astype(np.float64)
    leaves = np.empty((len(rows), forest.n_trees), np.int32)
    for tree, root in enumerate(forest.tree_offset[:-1]):
        node = np.full(len(rows), root, np.int32)
        while len(walking := np.flatnonzero(forest.left[node] >= 0)):
            at = node[walking]
            left = goes_left(forest, at, rows[walking, forest.feature[at]])
            node[walking] = np.where(left, forest.left[at], forest.right[at])
        leaves[:, tree] = node
    return leaves


def goes_left(forest: Forest, node: NDArray[np.int32], x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether a value of each node's feature, as the source reads it, sends a row left; shape (n_nodes,)."""
    kind, categorical = forest.missing[node], forest.category_set[node] >= 0
    x = np.where(np.isnan(x) & (kind == MISSING_NONE) & ~categorical, 0.0, x)
    missing = np.isnan(x) & ((kind == MISSING_NAN) | (kind == MISSING_ZERO) | categorical)
    missing |= (np.abs(x) <= np.float64(np.float32(ZERO))) & (kind == MISSING_ZERO) & ~categorical
    threshold = forest.threshold[node]
    left = x < threshold if forest.comparison == "<" else x <= threshold
    if categorical.any():
        left[categorical] = [_in_set(forest, *pair) for pair in zip(node[categorical], x[categorical], strict=True)]
    return np.where(missing, forest.default_left[node], left)


def _in_set(forest: Forest, node: int, x: float) -> bool:
    if not np.isfinite(x):
        return False
    category = int(np.floor(x) if forest.category_rounding == "floor" else np.trunc(x))
    start, stop = forest.category_offset[forest.category_set[node] :][:2]
    if category < 0 or category // 32 >= stop - start:
        return False
    return bool((int(forest.category_bits[start + category // 32]) >> (category % 32)) & 1)


def leaf_values(forest: Forest) -> NDArray[np.float64]:
    """Return what each node adds, shape (n_nodes, n_columns): its values, or its one-hot vote."""
    if forest.aggregation != "vote":
        return forest.value
    votes: NDArray[np.float64] = np.eye(forest.n_outputs)[forest.value.argmax(axis=1)]
    return votes


def scores(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Return the scores before the link, shape (n_rows, n_outputs)."""
    return scores_at(forest, apply(forest, X))


def scores_at(forest: Forest, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the scores of rows that stand at these nodes, one in each tree; shape (n_rows, n_outputs)."""
    values = leaf_values(forest).astype(forest.score_dtype)
    total = np.tile(forest.base_score.astype(forest.score_dtype), (len(nodes), 1))
    for tree, output in enumerate(forest.tree_output):
        if output < 0:
            total += values[nodes[:, tree]]
        else:
            total[:, output] += values[nodes[:, tree], 0]
    if forest.aggregation != "sum":
        total /= forest.n_trees if forest.tree_output[0] < 0 else forest.n_trees // forest.n_outputs
    return total.astype(np.float64)


def probabilities(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Return class probabilities, shape (n_rows, n_classes), or a regressor's predictions, shape (n_rows, 1)."""
    return probabilities_of(forest, scores(forest, X))


def probabilities_of(forest: Forest, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the class probabilities that scores give, or a regressor's predictions."""
    p = link(forest, raw)
    return np.hstack([1 - p, p]) if forest.is_classifier and forest.n_outputs == 1 and forest.n_classes == 2 else p


def link(forest: Forest, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores mapped by the forest's link."""
    z = forest.link_scale * raw
    with np.errstate(over="ignore"):
        match forest.link:
            case "identity":
                return raw
            case "logistic" | "logistic-each":
                result = 1 / (1 + np.exp(-z))
            case "softmax":
                e = np.exp(z - z.max(axis=1, keepdims=True))
                result = e / e.sum(axis=1, keepdims=True)
            case "exp":
                result = np.exp(z)
            case "signed-square":
                result = np.sign(z) * z * z
            case "log1p-exp":
                result = np.log1p(np.exp(z))
            case "step":
                result = (z > 0).astype(np.float64)
            case other:
                raise InputError(f"unknown link {other!r}")
    return np.asarray(result, dtype=np.float64)


def predict(forest: Forest, X: Any) -> NDArray[Any]:
    """Return labels, or a regressor's values."""
    return labels_of(forest, scores(forest, X))


def labels_of(forest: Forest, raw: NDArray[np.float64]) -> NDArray[Any]:
    """Return the labels that scores give, or a regressor's values."""
    if forest.classes is None:
        return link(forest, raw)[:, 0]
    if raw.shape[1] == 1 and forest.n_classes == 2:
        code = (raw[:, 0] >= forest.decision_threshold).astype(np.intp)
    else:
        code = (raw if forest.label_from == "score" else link(forest, raw)).argmax(axis=1)
    return forest.classes.take(code)
