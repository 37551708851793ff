"""Curves: how well a forest answers after each step of an order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_numbers
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.orders.ordering_set import OrderingSet


def accuracy_curve(
    forest: Forest, steps: ArrayLike, X: Any, y: ArrayLike, *, readout: str = "plain"
) -> NDArray[np.float64]:
    """Measure the accuracy after each step of an order.

    Parameters
    ----------
    forest : Forest
    steps : array of shape (n_steps,)
        The tree in which each step is taken; a whole order, or its beginning.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
    readout : {"plain", "weighted"}
        How inner nodes count, see `scurry.orders.find`.

    Returns
    -------
    float64 array of shape (n_steps + 1,)
        Before the first step, after it, … After the last step of a whole order it is the accuracy of
        ``forest.predict``. For a regressor, mean squared errors.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump])
    >>> scurry.orders.accuracy_curve(forest, [0], [[0.0], [1.0]], [0, 1])
    array([0.5, 1. ])
    """
    return measure_curve(OrderingSet.of(forest, X, y, readout), check_steps(forest, steps), X)


def measure_curve(ordering: OrderingSet, steps: NDArray[np.int32], X: Any) -> NDArray[np.float64]:
    """Return the curve of an order on an ordering set made of `X`."""
    forest = ordering.forest
    losses = ordering.descent().losses(steps)
    if forest.is_classifier:
        curve = (ordering.n_rows - losses) / ordering.n_rows
    else:
        curve = losses * (ordering.fixed.unit / forest.score_divisor) ** 2 / ordering.n_rows
    if len(steps) == forest.tree_depth.sum():
        # The whole model answers with its own sums, whose rounding may break a tie in another way.
        answer = forest.predict(X)
        curve[-1] = np.mean(answer == ordering.y) if forest.is_classifier else np.mean((answer - ordering.y) ** 2)
    return curve


def nma(curve: ArrayLike) -> float:
    """Return the normalised mean accuracy: the mean of a curve over its last value.

    1 would be to answer at once as well as at the end. For a regressor's curve of errors it is at least about 1, and
    smaller is better.

    Parameters
    ----------
    curve : array of shape (n_steps + 1,)
        As `accuracy_curve` returns it.

    Returns
    -------
    float

    Examples
    --------
    >>> from scurry.orders import nma
    >>> nma([0.5, 0.75, 1.0])
    0.75
    """
    values = check_numbers("curve", curve)
    if values.ndim != 1 or len(values) == 0:
        raise InputError(f"curve must be a list of accuracies, one per state, got shape {values.shape}")
    if values[-1] == 0:
        raise InputError("the curve ends at 0, so it cannot be normalised; compare means of curves instead")
    return float(values.mean() / values[-1])


def mean_over_time(curve: NDArray[np.float64], steps: NDArray[np.int32], step_costs: tuple[float, float]) -> float:
    """Return the mean of a curve until its order ends; each state counts as long as the step that ends it."""
    if len(steps) == 0:
        return float(curve[0])
    # The last state is left out: it lasts for ever, and is the same for every order.
    return float(np.average(curve[:-1], weights=cost_per_step(steps, step_costs)))


def cost_per_step(steps: NDArray[np.int32], step_costs: tuple[float, float]) -> NDArray[np.float64]:
    """Return what each step costs, by whether it stays in the tree of the one before; shape (n_steps,)."""
    same_tree, other_tree = step_costs
    return np.where(np.diff(steps, prepend=-1) == 0, same_tree, other_tree)


def check_steps(forest: Forest, steps: ArrayLike) -> NDArray[np.int32]:
    """Check that `steps` never steps below a tree's leaves, and return it as an int32 array."""
    array = np.asarray(steps)
    if array.size == 0:
        return np.zeros(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"steps must be a list of tree indices, one per step, got dtype {array.dtype} of shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= forest.n_trees:
        raise InputError(f"steps must name trees 0..{forest.n_trees - 1}, got {array.min()}..{array.max()}")
    taken = np.bincount(array, minlength=forest.n_trees)
    if (taken > forest.tree_depth).any():
        tree = int(np.argmax(taken > forest.tree_depth))
        raise InputError(f"steps takes {taken[tree]} steps in tree {tree}, which has depth {forest.tree_depth[tree]}")
    return array.astype(np.int32)
