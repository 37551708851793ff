"""Preset orders of base models, fixed before any threshold is sought.

Paper: Wang, Gupta, You, "Quit When You Can", appendix B. The two orders by mean squared error compare running sums
with a target of -1 or +1 per row.

Deviations from the paper

1. Without labels the target is the full ensemble's own decision: calibration rows need no labels anywhere else.
2. The greedy order works on inner products of the models' scores, ``|g + f_k - t|^2 = |g - t|^2 + 2 f_k.(g - t) +
   |f_k|^2``, so that it reads the score matrix once and not once per position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.errors import InputError
from scurry.stopping.score_matrix import FloatArray, model_order, one_of, score_array

PRESETS = ("natural", "random", "individual-mse", "greedy-mse")


def preset_order(
    name: str,
    scores: ArrayLike,
    *,
    y: ArrayLike | None = None,
    decision_threshold: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Order base models by a preset rule.

    Parameters
    ----------
    name : {"natural", "random", "individual-mse", "greedy-mse"}
        As given; a uniform permutation; by the mean squared error of each model alone; or greedily, each time the
        model that leaves the least mean squared error of the running sum. Ties go to the lowest index.
    scores : array of shape (n_rows, n_models)
    y : array of shape (n_rows,), optional
        Labels for the orders by error: two distinct values, the larger being positive. By default what the full
        ensemble decides, ``scores.sum(axis=1) >= decision_threshold``.
    decision_threshold : float
    random_state : int or numpy Generator, optional

    Returns
    -------
    order : int64 array of shape (n_models,)

    Examples
    --------
    >>> from scurry.stopping import preset_order
    >>> preset_order("individual-mse", [[0.1, 0.9], [-0.2, -0.8]])
    array([1, 0])
    """
    one_of("order", name, PRESETS)
    array = score_array(scores)
    if name == "natural":
        return np.arange(array.shape[1])
    if name == "random":
        return np.random.default_rng(random_state).permutation(array.shape[1])
    target = _target(array, y, decision_threshold)
    return _by_individual_error(array, target) if name == "individual-mse" else _by_greedy_error(array, target)


def resolve_order(
    order: str | ArrayLike,
    scores: FloatArray,
    y: ArrayLike,
    random_state: int | np.random.Generator | None,
) -> NDArray[np.int64]:
    """A preset by name, or the permutation itself."""
    if isinstance(order, str):
        return preset_order(order, scores, y=y, random_state=random_state)
    return model_order(order, scores.shape[1])


def _target(scores: FloatArray, y: ArrayLike | None, decision_threshold: float) -> FloatArray:
    if y is None:
        return np.where(scores.sum(axis=1) >= decision_threshold, 1.0, -1.0)
    labels = np.asarray(y)
    if labels.shape != (len(scores),):
        raise InputError(f"y must have one label per row ({len(scores)}), got shape {labels.shape}")
    values = np.unique(labels)
    if len(values) != 2:
        raise InputError(f"y must have two distinct labels, got {len(values)}")
    return np.where(labels == values[1], 1.0, -1.0)


def _by_individual_error(scores: FloatArray, target: FloatArray) -> NDArray[np.int64]:
    errors = [np.square(column - target).sum() for column in scores.T]
    return np.argsort(errors, kind="stable")


def _by_greedy_error(scores: FloatArray, target: FloatArray) -> NDArray[np.int64]:
    products = scores.T @ scores
    error_if_added = np.diag(products) - 2.0 * (scores.T @ target)  # less the running |g - t|^2, the same for all
    order = np.empty(len(products), dtype=np.int64)
    for position in range(len(order)):
        order[position] = chosen = int(np.argmin(error_if_added))
        error_if_added += 2.0 * products[chosen]
        error_if_added[chosen] = np.inf
    return order
