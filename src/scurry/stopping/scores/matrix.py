"""The score matrix of an additive ensemble: its checks, its exact sums, and preset orders of its columns.

Entry ``scores[row, model]`` is what a base model (a tree, a boosting round, anything that scores) adds to a row.

Exact sums. Sums of floats depend on their order, and a rule that reorders models must not change a decision for that
reason. So scores are rounded to multiples of a power of two, the grid unit, chosen so that no sum of them needs more
than the 53 bits of a float64: then every partial sum is exact, in any order. The grid unit is 2**-52 of (a power of two
above) the largest possible sum, ``sum over models of max over rows of |score|``, so this rounds no more than one
float64 sum does. Scores that already are such multiples (integers, quantised leaves) do not change. What the full
ensemble decides does not depend on the grid: where its sum is too close to call, the original scores are summed
without rounding.

Preset orders. Paper: Wang, Gupta, You, "Quit When You Can", appendix B. The two orders by mean squared error compare
running sums with a target of -1 or +1 per row.

Deviations from the paper

1. Without labels the target is the full ensemble's own decision, because calibration rows need no labels elsewhere.
2. The greedy order works on inner products of the models' scores, ``|g + f_k - t|^2 = |g - t|^2 + 2 f_k.(g - t) +
   |f_k|^2``, so that it reads the score matrix once and not once per position.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_numbers, check_random_state, check_rate
from scurry.errors import InputError

FloatArray = NDArray[np.float64]

PRESETS = ("natural", "random", "individual-mse", "greedy-mse")
_BITS = 52  # one fewer than a float64 holds: room for the rounding of the scores themselves


class ScoreGrid(NamedTuple):
    """Scores as multiples of a grid unit.

    Attributes
    ----------
    values : float64 array of shape (n_models, n_rows) or (n_models, n_rows, n_classes)
        Models first: a rule reads one model at a time.
    unit : float
        The grid unit, a power of two.
    rounding : float
        Largest distance between a plain float64 sum of the original scores, in any order, and the sum on the grid; 0
        if the grid holds the scores exactly.
    """

    values: FloatArray
    unit: float
    rounding: float


def check_scores(scores: ArrayLike, *, n_models: int | None = None, n_classes: int | None = None) -> FloatArray:
    """Return `scores` as a finite float64 array of shape (n_rows, n_models), or with a third axis of classes.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models) or (n_rows, n_models, n_classes)
    n_models, n_classes : int, optional
        What the array must have. `n_classes` 0 means any number of classes, None that there is no such axis.
    """
    axes = ("n_rows", "n_models") if n_classes is None else ("n_rows", "n_models", "n_classes")
    array = np.asarray(scores)
    if array.dtype.kind not in "biuf":
        raise InputError(f"scores must be numbers, got an array of dtype {array.dtype}", argument="scores")
    if array.ndim != len(axes):
        raise InputError(f"scores must have shape ({', '.join(axes)}), got {array.shape}", argument="scores")
    if 0 in array.shape[1:]:
        raise InputError(f"scores has shape {array.shape}: at least one model is needed", argument="scores")
    for axis, expected in ((1, n_models), (2, n_classes)):
        if expected and array.shape[axis] != expected:
            raise InputError(
                f"scores has {array.shape[axis]} {axes[axis][2:]}, but the rule has {expected}", argument="scores"
            )
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        row, model = np.argwhere(~np.isfinite(array))[0][:2]
        raise InputError(
            f"scores must be finite, but row {row} of model {model} is {array[row, model]}. "
            "Leave such rows out, or repair the model that scored them",
            argument="scores",
        )
    return array


def round_to_grid(scores: FloatArray, start: ArrayLike = 0.0) -> ScoreGrid:
    """Round `scores` to the grid on which their sums are exact.

    Parameters
    ----------
    scores : finite float64 array of shape (n_rows, n_models) or (n_rows, n_models, n_classes)
    start : float or array of shape (n_classes,)
        What sums start from. The caller rounds it with `snap`.
    """
    if len(scores) == 0:
        raise InputError(
            "scores has no rows. Calibration needs rows like those to be predicted, labels or not", argument="scores"
        )
    # Models come first because every later loop reads one model at a time.
    values = np.ascontiguousarray(np.moveaxis(scores, 1, 0))
    with np.errstate(over="ignore"):  # an infinite sum is reported below
        largest = np.abs(values).max(axis=tuple(range(1, values.ndim)))
        largest_sum = float(largest.sum() + np.abs(start).max())
    if largest_sum == 0.0:
        return ScoreGrid(values, 1.0, 0.0)
    unit = float(np.ldexp(1.0, int(np.frexp(largest_sum)[1]) - _BITS))
    if not np.isfinite(largest_sum) or unit < np.finfo(np.float64).tiny:
        raise InputError(
            f"scores add up to {largest_sum:g}, beyond what exact sums can represent (about 1e-292 to 1e308). "
            "Rescale the scores and the decision threshold",
            argument="scores",
        )
    rounded = snap(values, unit)
    exact = np.array_equal(rounded, values) and np.array_equal(snap(np.asarray(start), unit), start)
    # A float64 sum of n terms errs by at most n eps times the largest sum; rounding to the grid adds as much again.
    rounding = 0.0 if exact else 2.0 * scores.shape[1] * float(np.finfo(np.float64).eps) * largest_sum
    return ScoreGrid(rounded, unit, rounding)


def snap(scores: FloatArray, unit: float) -> FloatArray:
    """Round `scores` to multiples of `unit`, halves to even."""
    rounded = np.asarray(np.divide(scores, unit))
    np.rint(rounded, out=rounded)
    rounded *= unit
    return rounded


def is_positive(scores: FloatArray, sums: FloatArray, unit: float, decision_threshold: float) -> NDArray[np.bool_]:
    """Return whether the scores of each row sum to at least the threshold, decided without rounding.

    Parameters
    ----------
    scores : float64 array of shape (n_rows, n_models)
        Models may come in any order.
    sums : float64 array of shape (n_rows,)
        Sums of the same scores rounded to multiples of `unit`.
    unit, decision_threshold : float
    """
    positive = sums >= decision_threshold
    # Rounding moves a score by at most half a unit, so only rows this close to the threshold can be wrong.
    doubtful = np.abs(sums - decision_threshold) <= scores.shape[1] * unit
    positive[doubtful] = [math.fsum([*row, -decision_threshold]) >= 0.0 for row in scores[doubtful].tolist()]
    return positive


def check_decisions(
    scores: FloatArray, grid: ScoreGrid, decision_threshold: float, decisions: ArrayLike | None
) -> NDArray[np.bool_]:
    """Return what the full ensemble decides on calibration rows: `decisions`, or by its sums if they are None.

    Raises
    ------
    InputError
        If all rows get the same answer.
    """
    if not np.isfinite(decision_threshold):
        raise InputError(f"decision_threshold must be finite, got {decision_threshold}", argument="decision_threshold")
    if decisions is None:
        positive = is_positive(scores, grid.values.sum(axis=0), grid.unit, decision_threshold)
    else:
        positive = np.asarray(decisions)
    if positive.shape != (len(scores),) or positive.dtype != np.bool_:
        raise InputError(
            f"decisions must be bool, one per row ({len(scores)}), got {positive.dtype} of shape {positive.shape}",
            argument="decisions",
        )
    # With one answer any first threshold lets every row go, and new rows of the other class would all be wrong.
    if positive.all() or not positive.any():
        raise InputError(
            f"the full ensemble answers {'positive' if positive.all() else 'negative'} on all {len(positive)} "
            "calibration rows: nothing can be learnt from one class. Add rows of the other class, or check "
            f"decision_threshold ({decision_threshold:g})"
        )
    return positive


def check_costs(costs: ArrayLike | None, n_models: int) -> FloatArray:
    """Return the cost of each model, shape (n_models,), given None (1 each), one number or one number each."""
    array = check_numbers("costs", 1.0 if costs is None else costs)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n_models):
        raise InputError(
            f"costs must be one number or one per model ({n_models}), got shape {array.shape}", argument="costs"
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("costs must be finite and not negative", argument="costs")
    return np.array(np.broadcast_to(array, n_models))


def mistake_budget(max_disagreement: float, n_rows: int) -> int:
    """Return how many of `n_rows` rows may be answered differently."""
    # The small term makes 0.29 * 100 = 28.999… allow 29 mistakes.
    return int(np.floor(check_rate("max_disagreement", max_disagreement) * n_rows + 1e-9))


def check_order(order: ArrayLike, n_models: int) -> NDArray[np.int64]:
    """Return `order` as an int64 permutation of the models."""
    array = np.asarray(order)
    if array.dtype.kind not in "iu" or not np.array_equal(np.sort(array, axis=None), np.arange(n_models)):
        raise InputError(
            f"order must name each of the {n_models} models 0 to {n_models - 1} once, got "
            f"{np.array2string(array, threshold=8, edgeitems=3)}",
            argument="order",
        )
    return array.astype(np.int64).reshape(n_models)


def preset_order(
    name: str,
    scores: ArrayLike,
    *,
    y: ArrayLike | None = None,
    decision_threshold: float = 0.0,
    random_state: RandomState = None,
) -> NDArray[np.int64]:
    """Order base models by a preset rule.

    Parameters
    ----------
    name : {"natural", "random", "individual-mse", "greedy-mse"}
        - "natural": as given;
        - "random": a uniform permutation;
        - "individual-mse": by the mean squared error of each model alone;
        - "greedy-mse": each time the model that makes the mean squared error of the running sum least.

        Ties go to the lowest index.
    scores : array of shape (n_rows, n_models)
    y : array of shape (n_rows,), optional
        Labels for the orders by error: two distinct values, the larger is positive. By default what the full
        ensemble decides, ``scores.sum(axis=1) >= decision_threshold``.
    decision_threshold : float
    random_state : int, Generator or None
        Draws the random order.

    Returns
    -------
    order : int64 array of shape (n_models,)

    Examples
    --------
    >>> from scurry.stopping import preset_order
    >>> preset_order("individual-mse", [[0.1, 0.9], [-0.2, -0.8]])
    array([1, 0])
    """
    check_choice("order", name, PRESETS)
    array = check_scores(scores)
    n_models, rng = array.shape[1], check_random_state(random_state)
    labels = None if y is None else check_targets(y, len(array))
    if name == "natural":
        return np.arange(n_models)
    if name == "random":
        return rng.permutation(n_models)
    target = _make_target(array, labels, decision_threshold)
    if name == "individual-mse":
        return np.argsort([np.square(column - target).sum() for column in array.T], kind="stable")
    products = array.T @ array
    # The squared error of the running sum with each model added, less |g - t|^2, which is the same for all.
    error_if_added = np.diag(products) - 2.0 * (array.T @ target)
    order = np.empty(n_models, dtype=np.int64)
    for position in range(n_models):
        order[position] = chosen = int(np.argmin(error_if_added))
        error_if_added += 2.0 * products[chosen]
        error_if_added[chosen] = np.inf
    return order


def resolve_order(
    order: str | ArrayLike,
    scores: FloatArray,
    y: ArrayLike,
    random_state: RandomState,
) -> NDArray[np.int64]:
    """Return the preset order of that name, or the given permutation itself."""
    if isinstance(order, str):
        return preset_order(order, scores, y=y, random_state=random_state)
    return check_order(order, scores.shape[1])


def check_targets(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return labels, one per row, as an array."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InputError(f"y must have one label per row ({n_rows}), got shape {labels.shape}", argument="y")
    return labels


def _make_target(scores: FloatArray, labels: NDArray[Any] | None, decision_threshold: float) -> FloatArray:
    """Return +1 for positive and -1 for negative rows."""
    if labels is None:
        return np.where(scores.sum(axis=1) >= decision_threshold, 1.0, -1.0)
    values = np.unique(labels)
    if len(values) != 2:
        raise InputError(f"y must have two distinct labels, got {len(values)}", argument="y")
    return np.where(labels == values[1], 1.0, -1.0)
