"""What each node of a forest gets wrong when it answers alone, on training rows or on validation rows.

Nodes of a classification forest have a majority class, so errors are counted: this is the papers' objective. Nodes of
regressors and boosted models have scores, and a share of wrong answers of a single tree means nothing. There, what a
pruning loses is the squared change of scores (`score_errors`), which is not the papers' objective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_numbers
from scurry.costs import ErrorCosts
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest, as_rows

# What to do where training rows cannot be counted, of scurry.prune and of scurry.pruning.exact_path.
_OTHER_ERRORS = 'pass labels and errors="validation" to scurry.prune, or node_errors and n_error to exact_path'


def adds_scores(forest: Forest) -> bool:
    """Return whether nodes have scores instead of class shares: regressors and boosted models."""
    return not forest.is_classifier or forest.aggregation == "sum" or forest.n_columns != forest.n_classes


def with_mean_scores(forest: Forest, rows: NDArray[Any] | None = None) -> tuple[Forest, NDArray[np.float64]]:
    """Return the forest whose inner nodes answer with the mean score of the leaves below them, and what leaves weigh.

    Of all answers that an inner node could give as a leaf, the mean has the least squared change. Predictions stay as
    they are, because no row ends at an inner node.

    Parameters
    ----------
    forest : Forest
        One that `adds_scores`.
    rows : array of shape (n_rows, n_features), optional
        Rows by which leaves weigh; by default the training rows (or their weight), if the forest knows them.

    Returns
    -------
    forest : Forest
        An inner node that no row reaches keeps its value.
    weight : float64 array of shape (n_nodes,)
        0 at inner nodes.
    """
    is_leaf, parent = forest.is_leaf, forest.parent
    if rows is not None:
        weight = np.bincount(forest.apply(rows).ravel(), minlength=forest.n_nodes).astype(np.float64)
    else:
        weight = np.where(is_leaf, forest.cover, 0.0)
        if np.isnan(weight).any():
            raise InputError(
                "the forest does not say how many training rows reached its leaves (cover is NaN); pass "
                'errors="validation", which counts those of X_val',
                argument="errors",
            )
    total, below = forest.value * weight[:, None], weight.copy()
    for level in range(forest.max_depth, 0, -1):
        nodes = np.flatnonzero(forest.node_depth == level)
        np.add.at(total, parent[nodes], total[nodes])
        np.add.at(below, parent[nodes], below[nodes])
    is_reached = ~is_leaf & (below > 0)
    value = forest.value.copy()
    value[is_reached] = total[is_reached] / below[is_reached, None]
    return forest.replace(value=value), weight


def score_errors(forest: Forest, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the squared changes of scores if each node were a leaf, over the rows through it.

    The error of a pruning, the mean over trees, is then the mean squared change of a tree's score. Changes of several
    trees may cancel out or add up, which this sum of squares does not see. It bounds what they do together: by the
    inequality of Cauchy and Schwarz, the mean squared change of the sum of T trees is at most T * T times the error,
    and that of their mean at most the error itself, on the rows that weigh.

    Parameters
    ----------
    forest : Forest
    weight : float64 array of shape (n_nodes,)
        How many rows end at each leaf, or their weight.

    Returns
    -------
    node_errors : float64 array of shape (n_nodes,)
    n_error : float
        The weight in a tree. Both are multiplied by the same power of two, so that errors fit exact integers whatever
        the unit of scores is.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor(max_depth=1).fit([[0], [1], [2], [3]], [1.0, 1.0, 3.0, 3.0])
    >>> errors, n_error = score_errors(*with_mean_scores(scurry.from_model(tree)))
    >>> (errors / n_error).tolist()
    [1.0, 0.0, 0.0]
    """
    errors, weight_of_tree = np.zeros(forest.n_nodes), np.add.reduceat(weight, forest.tree_offset[:-1]).mean()
    leaves = np.flatnonzero(weight > 0)
    at = forest.parent[leaves]
    while len(leaves):
        leaves, at = leaves[at >= 0], at[at >= 0]
        changes = forest.value[at] - forest.value[leaves]
        np.add.at(errors, at, weight[leaves] * (changes * changes).sum(axis=1))
        at = forest.parent[at]
    total = errors.sum()
    if not np.isfinite(total):
        raise InputError("scores are so large that their squares are infinite; divide the targets by a factor")
    factor = 2.0 ** -np.ceil(np.log2(total)) if total > 0 else 1.0
    return errors * factor, float(weight_of_tree * factor)


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
            f"{_OTHER_ERRORS}"
        )
    total = forest.value.sum(axis=1)
    if (forest.value < 0).any() or (total <= 0).any():
        raise UnsupportedModelError(f"the nodes' values are not class shares; {_OTHER_ERRORS}")
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
    label = check_truth(forest, rows, y)
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


def check_truth(forest: Forest, rows: NDArray[Any], y: Any) -> NDArray[Any]:
    """Return the class index of the label of each row, or a regressor's target; raise unless each row has one."""
    given = np.asarray(y)
    if given.shape != (len(rows),):
        raise InputError(f"y_val has shape {given.shape}, X_val has {len(rows)} rows", argument="y_val")
    if forest.is_classifier:
        return forest.codes_of(given, "y_val")
    targets = check_numbers("y_val", given)
    if not np.isfinite(targets).all():
        raise InputError("y_val has missing or infinite targets; leave their rows out", argument="y_val")
    return targets


def _check_counts(forest: Forest) -> None:
    """Raise unless every node of the forest has a majority class."""
    if adds_scores(forest):
        kind = "adds up scores (gradient boosting)" if forest.is_classifier else "is a regressor"
        raise UnsupportedModelError(
            f"this model {kind}: its nodes have no class counts. Rows in memory are pruned by scurry.prune(model, "
            "X_val), which goes by squared changes of scores; here pass a random forest or extra trees"
        )
