"""Weakest links: which splits change a forest's score least, for each split that they take into the file.

A node that becomes a leaf answers with its own value instead of its leaves' values. Summed over rows, the squared
change of what its tree adds to the score is the node's error. Cutting a subtree costs the difference of two such
errors, and trees share nothing, so the best prunings of a given size are those of cost-complexity pruning: Breiman,
Friedman, Olshen and Stone, Classification and Regression Trees, 1984, chapter 3. One threshold for all trees gives the
best pruning of the whole forest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_count, check_instance, check_number, check_numbers
from scurry.errors import InputError
from scurry.forest import NODE_ARRAYS, Forest
from scurry.forest.files.packed import add_up

FloatArray = NDArray[np.float64]


def split_levels(forest: Forest, leaves: NDArray[np.int32] | None = None) -> FloatArray:
    """Return for each split the squared change of score per split at which it leaves the forest.

    Parameters
    ----------
    forest : Forest
    leaves : int32 array of shape (n_rows, n_trees), optional
        The leaves that rows reach, from `Forest.apply`. Without them the training rows count, as the forest's `cover`
        tells.

    Returns
    -------
    float64 array of shape (n_nodes,)
        Minus infinity at leaves. A child's level is never above its parent's.

    Raises
    ------
    InputError
        If there are no rows and the model does not say how many training rows reached each node.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0], [1], [2], [3]], [0, 0, 1, 1]))
    >>> split_levels(forest).tolist()
    [2.0, -inf, -inf]
    """
    check_instance("forest", forest, Forest)
    if leaves is None:
        weight = np.where(forest.is_leaf, forest.cover, 0.0)
        if not np.isfinite(weight).all():
            raise InputError(
                "X_fit is needed: the model does not say how many training rows reached each node; pass rows like "
                "those it was trained on, best these themselves",
                argument="X_fit",
            )
    else:
        weight = np.bincount(_check_leaves(forest, leaves).ravel(), minlength=forest.n_nodes).astype(np.float64)
    values = forest.leaf_values()
    sums, squares = weight[:, None] * values, weight * (values**2).sum(axis=1)
    add_up(forest, weight, sums, squares)
    # Sum over rows of |leaf value - value of the node|^2, which needs no second look at rows.
    errors = squares - 2 * (values * sums).sum(axis=1) + weight * (values**2).sum(axis=1)
    split = np.flatnonzero(~forest.is_leaf)
    gain = errors[split] - errors[forest.left[split]] - errors[forest.right[split]]
    number = np.full(forest.n_nodes + 1, -1, np.int32)  # of splits; the last entry is that of a root's parent
    number[split] = np.arange(len(split), dtype=np.int32)
    levels = np.full(forest.n_nodes, -np.inf)
    levels[split] = _core.tree_levels(number[forest.parent[split]], gain, np.ones(len(split)))
    return levels


def keep_share(forest: Forest, levels: FloatArray, share: float) -> Forest:
    """Return the forest with about a share of its nodes, those of the highest levels.

    Parameters
    ----------
    forest : Forest
    levels : float64 array of shape (n_nodes,)
        From `split_levels`.
    share : float in (0, 1]
        At most this share of the nodes stays, but for the roots. Splits of one level leave together.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> 0.4 < keep_share(forest, split_levels(forest), 0.5).n_nodes / forest.n_nodes <= 0.5
    True
    """
    check_instance("forest", forest, Forest)
    levels = check_numbers("levels", levels)
    if levels.shape != (forest.n_nodes,) or np.isnan(levels).any():
        raise InputError(
            f"levels must have a number for each of {forest.n_nodes} nodes, got shape {levels.shape}", argument="levels"
        )
    share = check_number("share", share)
    # A tree of k splits has 2 k + 1 nodes.
    n_splits = max(int((share * forest.n_nodes - forest.n_trees) // 2), 0)
    ranked = np.sort(levels[~forest.is_leaf])[::-1]
    if n_splits >= len(ranked):
        return forest
    # The highest level that must go takes all with it that have the same.
    return forest.keep_splits(levels > ranked[n_splits])


def keep_trees(forest: Forest, n_trees: int) -> Forest:
    """Return the forest of the first trees, in whole rounds where each tree serves one output.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = scurry.from_model(RandomForestClassifier(10, random_state=0).fit([[0], [1]], [0, 1]))
    >>> keep_trees(forest, 3).n_trees
    3
    """
    check_instance("forest", forest, Forest)
    n_trees = min(check_count("n_trees", n_trees), forest.n_trees)
    n_trees = max(n_trees // forest.trees_per_round, 1) * forest.trees_per_round
    end = int(forest.tree_offset[n_trees])
    nodes = {name: getattr(forest, name)[:end] for name in (*NODE_ARRAYS, "value")}
    return forest.replace(
        tree_offset=forest.tree_offset[: n_trees + 1], tree_output=forest.tree_output[:n_trees], **nodes
    )


def _check_leaves(forest: Forest, leaves: Any) -> NDArray[Any]:
    nodes = np.asarray(leaves)
    is_node = nodes.dtype.kind in "iu" and nodes.ndim == 2 and nodes.shape[1] == forest.n_trees
    if not is_node or (nodes < 0).any() or (nodes >= forest.n_nodes).any() or not forest.is_leaf[nodes].all():
        raise InputError(
            f"leaves must be leaf numbers of shape (n_rows, {forest.n_trees}), as forest.apply(X) returns them",
            argument="leaves",
        )
    return nodes
