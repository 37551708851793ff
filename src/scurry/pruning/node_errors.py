"""Count the rows that each node of a forest gets wrong when it answers alone, on training rows or on labelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.costs import ErrorCosts
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest, as_rows


def training_errors(forest: Forest, weights: ErrorCosts | None = None) -> tuple[NDArray[np.float64], float]:
    """Return the training rows (or their weight) at each node that are not of its majority class.

    Parameters
    ----------
    forest : Forest
        A classifier that averages or votes, with ``value`` as class shares and ``cover`` known.
    weights : ErrorCosts, optional
        What errors cost; by default 1 each.

    Returns
    -------
    node_errors : float64 array of shape (n_nodes,)
    n_error : float
        Training rows per tree: the mean of the roots' covers.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier(max_depth=1).fit([[0], [1], [2], [3], [4]], [0, 0, 1, 1, 0])
    >>> training_errors(scurry.from_model(tree))
    (array([2., 0., 1.]), 5.0)
    """
    _check_counts(forest)
    unknown = np.isnan(forest.cover)
    if unknown.any():
        raise InputError(
            f"the forest does not say how many training rows reached node {int(np.argmax(unknown))} (cover is NaN); "
            'pass labels and errors="validation"'
        )
    total = forest.value.sum(axis=1)
    if (forest.value < 0).any() or (total <= 0).any():
        raise UnsupportedModelError('the nodes\' values are not class shares; pass labels and errors="validation"')
    return weigh_counts(forest, forest.cover[:, None] * (forest.value / total[:, None]), weights)


def validation_errors(
    forest: Forest, X: Any, y: Any, weights: ErrorCosts | None = None
) -> tuple[NDArray[np.float64], float]:
    """Return the rows through each node whose label is not the node's majority class.

    Parameters
    ----------
    forest : Forest
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Labels among ``forest.classes``.
    weights : ErrorCosts, optional
        What errors cost; by default 1 each.

    Returns
    -------
    node_errors : float64 array of shape (n_nodes,)
    n_error : float
        The number of rows.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier(max_depth=1).fit([[0], [1], [2], [3], [4]], [0, 0, 1, 1, 0])
    >>> validation_errors(scurry.from_model(tree), [[0.0], [1.0], [3.0]], [0, 1, 1])
    (array([2., 1., 0.]), 3.0)
    """
    return weigh_counts(forest, class_counts(forest, X, y), weights)


def class_counts(forest: Forest, X: Any, y: Any) -> NDArray[np.float64]:
    """Count the rows of each class through each node.

    Parameters
    ----------
    forest : Forest
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,)

    Returns
    -------
    float64 array of shape (n_nodes, n_classes)
        Counts of several sets of rows add up.
    """
    _check_counts(forest)
    rows = as_rows(forest, X)
    label = check_labels(forest, rows, y)
    leaves = forest.apply(rows)
    counts = np.zeros((forest.n_nodes, forest.n_classes))
    np.add.at(counts, (leaves, label[:, None]), 1.0)
    # Rows are counted at leaves only; an inner node has those of its children, deepest level first.
    inner, depth = forest.left >= 0, forest.node_depth
    for level in range(forest.max_depth - 1, -1, -1):
        nodes = np.flatnonzero(inner & (depth == level))
        counts[nodes] = counts[forest.left[nodes]] + counts[forest.right[nodes]]
    return counts


def weigh_counts(
    forest: Forest, counts: NDArray[np.float64], weights: ErrorCosts | None = None
) -> tuple[NDArray[np.float64], float]:
    """Return what each node's answer costs, given the rows of each class through it.

    Parameters
    ----------
    forest : Forest
    counts : float64 array of shape (n_nodes, n_classes)
    weights : ErrorCosts, optional

    Returns
    -------
    node_errors : float64 array of shape (n_nodes,)
    n_error : float
        The rows, or their weight, in a tree.
    """
    at_root = counts[forest.tree_offset[:-1]].mean(axis=0)
    matrix, n_error = (weights or ErrorCosts.of(range(forest.n_classes))).of_counts(at_root)
    # A node answers the class of its own largest share, as when it is a leaf, whatever errors cost.
    costs = counts * matrix.T[forest.value.argmax(axis=1)]
    # Sorted, so that equal shares have equal errors whatever the order of classes.
    return np.sort(costs, axis=1).sum(axis=1), n_error


def check_labels(forest: Forest, rows: NDArray[Any], y: Any) -> NDArray[np.int32]:
    """Return the class index of the label of each row; raise unless there is one that the forest knows."""
    labels = np.asarray(y)
    if labels.shape != (len(rows),):
        raise InputError(f"y_val has shape {labels.shape}, X_val has {len(rows)} rows", argument="y_val")
    return forest.codes_of(labels, "y_val")


def _check_counts(forest: Forest) -> None:
    """Raise unless every node of the forest has a majority class."""
    if not forest.is_classifier:
        raise UnsupportedModelError(
            "pruning counts classification errors, and this model is a regressor; pass a classifier"
        )
    if forest.aggregation == "sum" or forest.value.shape[1] != forest.n_classes:
        raise UnsupportedModelError(
            "this model adds up scores (gradient boosting): its nodes have no class counts, so an error per node is "
            "undefined. Pass a random forest or extra trees"
        )
