"""Score matrices: what each base model adds to each row, checked and put on a grid where sums are exact.

Sums of floats depend on their order, and a rule that reorders models must not flip rows for that. So scores are
rounded to multiples of a power of two, `step`, chosen so that no sum of them can need more than the 53 bits of a
float64: then every partial sum is exact, in any order. The step is 2**-52 of (a power of two above) the largest sum
possible, ``sum over models of max over rows of |score|``, so the rounding is no coarser than that of one float64 sum.
Scores that already are such multiples (integers, quantised leaves) are left as they are. What the full ensemble decides
does not depend on the grid: where its sum is too close to call, the original scores are summed without rounding.

Preset orders of base models, fixed before any threshold is sought.

Paper: Wang, Gupta, You, "Quit When You Can", appendix B. The two orders by mean squared error compare running sums
with a target of -1 or +1 per row.

Deviations from the paper

1. Without labels the target is the full ensemble's own decision: calibration rows need no labels anywhere else.
2. The greedy order works on inner products of the models' scores, ``|g + f_k - t|^2 = |g - t|^2 + 2 f_k.(g - t) +
   |f_k|^2``, so that it reads the score matrix once and not once per position.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_random_state, check_rate
from scurry.errors import InputError

FloatArray = NDArray[np.float64]

_BITS = 52  # one fewer than a float64 holds: room for the rounding of the scores themselves


class ScoreGrid(NamedTuple):
    """Scores as multiples of `step`.

    Attributes
    ----------
    values : float64 array of shape (n_models, n_rows) or (n_models, n_rows, n_classes)
        Models first: a rule reads one model at a time.
    step : float
    rounding : float
        How far a plain float64 sum of the original scores, in any order, may be from the sum on the grid; 0 if the
        grid holds the scores exactly.
    """

    values: FloatArray
    step: float
    rounding: float


def score_array(scores: ArrayLike, *, n_models: int | None = None, n_classes: int | None = None) -> FloatArray:
    """`scores` as a finite float64 array of shape (n_rows, n_models), or with a third axis of classes.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models) or (n_rows, n_models, n_classes)
    n_models, n_classes : int, optional
        What the array must have; `n_classes` 0 means any number of them, None that there is no such axis.
    """
    axes = ("n_rows", "n_models") if n_classes is None else ("n_rows", "n_models", "n_classes")
    array = np.asarray(scores)
    if array.dtype.kind not in "biuf":
        raise InputError(f"scores must be numbers, got an array of dtype {array.dtype}")
    if array.ndim != len(axes):
        raise InputError(f"scores must have shape ({', '.join(axes)}), got {array.shape}")
    if 0 in array.shape[1:]:
        raise InputError(f"scores has shape {array.shape}: at least one model is needed")
    for axis, expected in ((1, n_models), (2, n_classes)):
        if expected and array.shape[axis] != expected:
            raise InputError(f"scores has {array.shape[axis]} {axes[axis][2:]}, but the rule has {expected}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        row, model = np.argwhere(~np.isfinite(array))[0][:2]
        raise InputError(
            f"scores must be finite, but row {row} of model {model} is {array[row, model]}. "
            "Leave such rows out, or repair the model that scored them"
        )
    return array


def on_grid(scores: FloatArray, start: ArrayLike = 0.0) -> ScoreGrid:
    """Round finite `scores` of shape (n_rows, n_models[, n_classes]) to the grid on which their sums are exact.

    `start` is what sums start from; it is to be rounded with `snap`.
    """
    if len(scores) == 0:
        raise InputError("scores has no rows. Calibration needs rows like those to be predicted, labels or not")
    values = np.ascontiguousarray(np.moveaxis(scores, 1, 0))
    with np.errstate(over="ignore"):
        largest = np.abs(values).max(axis=tuple(range(1, values.ndim)))
        largest_sum = float(largest.sum() + np.abs(start).max())
    if largest_sum == 0.0:
        return ScoreGrid(values, 1.0, 0.0)
    step = float(np.ldexp(1.0, int(np.frexp(largest_sum)[1]) - _BITS))
    if not np.isfinite(largest_sum) or step < np.finfo(np.float64).tiny:
        raise InputError(
            f"scores add up to {largest_sum:g}, beyond what exact sums can represent (about 1e-292 to 1e308). "
            "Rescale the scores and the decision threshold"
        )
    rounded = snap(values, step)
    exact = np.array_equal(rounded, values) and np.array_equal(snap(np.asarray(start), step), start)
    rounding = 0.0 if exact else 2.0 * scores.shape[1] * float(np.finfo(np.float64).eps) * largest_sum
    return ScoreGrid(rounded, step, rounding)


def snap(scores: FloatArray, step: float) -> FloatArray:
    """Round `scores` to multiples of `step`, halves to even."""
    rounded = np.asarray(np.divide(scores, step))
    np.rint(rounded, out=rounded)
    rounded *= step
    return rounded


def is_positive(scores: FloatArray, sums: FloatArray, step: float, decision_threshold: float) -> NDArray[np.bool_]:
    """Whether each row's scores sum to at least the threshold, decided without rounding.

    Parameters
    ----------
    scores : float64 array of shape (n_rows, n_models)
        In any order of models.
    sums : float64 array of shape (n_rows,)
        Of the same scores rounded to multiples of `step`.
    step, decision_threshold : float
    """
    positive = sums >= decision_threshold
    doubtful = np.abs(sums - decision_threshold) <= scores.shape[1] * step
    positive[doubtful] = [math.fsum([*row, -decision_threshold]) >= 0.0 for row in scores[doubtful].tolist()]
    return positive


def calibration_decisions(
    scores: FloatArray, grid: ScoreGrid, decision_threshold: float, decisions: ArrayLike | None
) -> NDArray[np.bool_]:
    """What the full ensemble decides on calibration rows, unless `decisions` says so. One answer for all is refused."""
    if not np.isfinite(decision_threshold):
        raise InputError(f"decision_threshold must be finite, got {decision_threshold}")
    if decisions is None:
        positive = is_positive(scores, grid.values.sum(axis=0), grid.step, decision_threshold)
    else:
        positive = np.asarray(decisions)
    if positive.shape != (len(scores),) or positive.dtype != np.bool_:
        raise InputError(
            f"decisions must be bool, one per row ({len(scores)}), got {positive.dtype} of shape {positive.shape}"
        )
    if positive.all() or not positive.any():
        raise InputError(
            f"the full ensemble answers {'positive' if positive.all() else 'negative'} on all {len(positive)} "
            "calibration rows: nothing can be learnt from one class. Add rows of the other class, or check "
            f"decision_threshold ({decision_threshold:g})"
        )
    return positive


def model_costs(costs: ArrayLike | None, n_models: int) -> FloatArray:
    """The cost of each model, shape (n_models,): 1 by default, a constant, or one number each."""
    try:
        array = np.asarray(1.0 if costs is None else costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"costs must be numbers: {error}") from error
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n_models):
        raise InputError(f"costs must be one number or one per model ({n_models}), got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("costs must be finite and not negative")
    return np.array(np.broadcast_to(array, n_models))


def mistake_budget(max_disagreement: float, n_rows: int) -> int:
    """Return how many of `n_rows` rows may be answered differently."""
    return int(np.floor(check_rate("max_disagreement", max_disagreement) * n_rows + 1e-9))


def model_order(order: ArrayLike, n_models: int) -> NDArray[np.int64]:
    """`order` as an int64 permutation of the models."""
    array = np.asarray(order)
    if array.dtype.kind not in "iu" or not np.array_equal(np.sort(array, axis=None), np.arange(n_models)):
        raise InputError(
            f"order must name each of the {n_models} models 0 to {n_models - 1} once, got {_shortened(array)}"
        )
    return array.astype(np.int64).reshape(n_models)


def _shortened(array: NDArray[Any]) -> str:
    return np.array2string(array, threshold=8, edgeitems=3)


PRESETS = ("natural", "random", "individual-mse", "greedy-mse")


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
    check_choice("order", name, PRESETS)
    array = score_array(scores)
    if name == "natural":
        return np.arange(array.shape[1])
    if name == "random":
        return check_random_state(random_state).permutation(array.shape[1])
    target = _target(array, y, decision_threshold)
    return _by_individual_error(array, target) if name == "individual-mse" else _by_greedy_error(array, target)


def resolve_order(
    order: str | ArrayLike,
    scores: FloatArray,
    y: ArrayLike,
    random_state: RandomState,
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
