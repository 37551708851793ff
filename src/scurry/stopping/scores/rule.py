"""ScoreFit: the base of all rules that watch a running sum of scores, and ScoreStopper, which runs one on a row.

A rule belongs to a nested family: at a larger `amount` of widening every row stops at the same position or later.
So one loop both runs a rule and traces its whole family over held-out rows: at each position a row leaves under the
members of the family (the amounts) under which it has not left yet.

The score matrix of an additive ensemble has checks, exact sums, and preset orders of its columns. Entry ``scores[row,
model]`` is what a base model (a tree, a boosting round, anything that scores) adds to a row.

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
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import (
    RandomState,
    check_choice,
    check_instance,
    check_numbers,
    check_random_state,
    check_rate,
    is_missing,
)
from scurry.errors import InputError
from scurry.plan import SumRule
from scurry.stopping.stored_rule import StoredRule

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
    """Return labels, one per row and none missing, as an array."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InputError(f"y must have one label per row ({n_rows}), got shape {labels.shape}", argument="y")
    missing = [row for row, label in enumerate(labels.tolist()) if is_missing(label)]
    if missing:
        raise InputError(
            f"y has {len(missing)} missing labels, the first in row {missing[0]}; leave those rows out", argument="y"
        )
    return labels


def _make_target(scores: FloatArray, labels: NDArray[Any] | None, decision_threshold: float) -> FloatArray:
    """Return +1 for positive and -1 for negative rows."""
    if labels is None:
        return np.where(scores.sum(axis=1) >= decision_threshold, 1.0, -1.0)
    values = np.unique(labels)
    if len(values) != 2:
        raise InputError(f"y must have two distinct labels, got {len(values)}", argument="y")
    return np.where(labels == values[1], 1.0, -1.0)


NEVER = -1
"""In place of a number of amounts: the row must be evaluated in full, whatever later positions say."""


class Decisions(NamedTuple):
    """The answers of a rule, one per row.

    Attributes
    ----------
    decision : array of shape (n_rows,)
        bool (positive or not), or int64 class indices for more than two classes.
    n_models_used : int64 array of shape (n_rows,)
        How many models were evaluated.
    """

    decision: NDArray[Any]
    n_models_used: NDArray[np.int64]


class WideningCurve(NamedTuple):
    """Mistakes and cost of each member of a rule's nested family on the same rows.

    Attributes
    ----------
    amounts : float64 array of shape (n_amounts,)
        Amounts of widening.
    n_mistakes : int64 array of shape (n_amounts,)
        Rows answered differently from the full ensemble.
    mean_cost : float64 array of shape (n_amounts,)
        Cost of the evaluated models, per row.
    """

    amounts: FloatArray
    n_mistakes: NDArray[np.int64]
    mean_cost: FloatArray


class _Exits(NamedTuple):
    """Rows that leave at one position, each under the amounts ``first:past`` of the family."""

    position: int
    rows: NDArray[np.intp]
    first: NDArray[np.int64]
    past: NDArray[np.int64]
    decision: NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreFit(StoredRule):
    """A fitted order of base models with a stopping test of the running sum after each.

    This is the base of `MarginFit`, `LeaderFit` and `FanFit`.

    Attributes
    ----------
    order : int64 array of shape (n_models,)
    costs : float64 array of shape (n_models,)
        By model, not by position.
    step : float
        The grid unit: scores are rounded to multiples of this power of two, so that their sums are exact.
    mean_cost : float or None
        Cost per calibration row; None if the rule was widened since.
    n_mistakes : int or None
        Calibration rows answered differently from the full ensemble; None if the rule was widened since.
    n_rows : int
        Number of calibration rows.

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> rule = qwyc([[3, 1, -1], [2, -1, 1], [1, 1, -3], [-2, 1, -1], [-3, -1, 1]], max_disagreement=0)
    >>> rule.decide([[1.5, 4, -3], [-4, 0, 0]])
    Decisions(decision=array([ True, False]), n_models_used=array([3, 1]))
    >>> rule.widening_curve([[3, -3, -3], [-3, -1, 1]], [0.0, 0.5, 1.0]).n_mistakes
    array([1, 0, 0])
    """

    order: NDArray[np.int64]
    costs: FloatArray
    step: float
    n_rows: int
    mean_cost: float | None = None
    n_mistakes: int | None = None

    ARRAYS: ClassVar[dict[str, type]] = {"order": np.int64, "costs": np.float64}

    def __post_init__(self) -> None:
        check_order(self.order, len(self.order))
        check_costs(self.costs, self.n_models)
        for field in fields(self):
            value = getattr(self, field.name)
            optional = value is None and field.default is None
            if field.name not in self.ARRAYS and not optional and not np.isfinite(value):
                raise InputError(f"{field.name} must be a finite number, got {value!r}")
        if not self.step > 0.0:
            raise InputError(f"step must be positive, got {self.step}")
        # The dataclass is frozen, so its arrays should be too.
        for name in self.ARRAYS:
            getattr(self, name).flags.writeable = False

    def __repr__(self) -> str:
        cost = "" if self.mean_cost is None else f", mean_cost={self.mean_cost:.4g}, n_mistakes={self.n_mistakes}"
        return f"{type(self).__name__}(n_models={self.n_models}, n_rows={self.n_rows}{cost})"

    @property
    def n_models(self) -> int:
        """The number of base models."""
        return len(self.order)

    def decide(self, scores: ArrayLike) -> Decisions:
        """Return what early exit answers on rows whose scores are all known, and after how many models.

        Parameters
        ----------
        scores : array of shape (n_rows, n_models), with a third axis of classes for a multi-class rule
            Columns are in the models' own numbering, not in the rule's order.

        Returns
        -------
        Decisions
            ``decision, n_models_used = rule.decide(scores)``.
        """
        values, full = self._read(scores)
        decision, used = full.copy(), np.empty(len(full), dtype=np.int64)
        for exits in self._trace(values, full, np.zeros(1)):
            decision[exits.rows] = exits.decision
            used[exits.rows] = exits.position + 1
        return Decisions(decision, used)

    @abstractmethod
    def widen(self, amount: float) -> Self:
        """Return a more cautious rule; the larger `amount`, the later rows stop.

        Every row stops at the same position or later, monotonically in `amount`: a nested family from which to choose
        a rule that keeps its promise on new rows.
        """

    def widened(self, amount: float) -> Self:
        """Return ``self.widen(amount)``: an older name of it."""
        return self.widen(amount)

    def widening_curve(
        self, scores: ArrayLike, amounts: ArrayLike, *, decisions: ArrayLike | None = None
    ) -> WideningCurve:
        """Measure ``widen(amount)`` for many amounts in one pass over the scores.

        Parameters
        ----------
        scores : as for `decide`
        amounts : array of shape (n_amounts,)
            Ascending, not negative.
        decisions : array of shape (n_rows,), optional
            What to compare with; by default what the full ensemble decides.

        Returns
        -------
        WideningCurve
        """
        exits = self.widening_exits(scores, amounts, decisions=decisions)
        if not exits[:-1].any():
            raise InputError("scores has no rows to measure mistakes on")
        return self.curve_of(amounts, exits)

    def widening_exits(
        self, scores: ArrayLike, amounts: ArrayLike, *, decisions: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Count the rows that leave at each position; counts of parts of a data set add up. See `curve_of`.

        Parameters
        ----------
        scores, amounts, decisions
            As for `widening_curve`; there may be no rows.

        Returns
        -------
        int64 array of shape (n_models + 1, n_amounts)
            For each amount, the rows that leave after 1, 2, … models, and last the rows answered differently.
        """
        family = _check_amounts(amounts)
        values, full = self._read(scores)
        expected = full if decisions is None else np.asarray(decisions)
        if expected.shape != full.shape:
            raise InputError(f"decisions must have one entry per row ({len(full)}), got shape {expected.shape}")
        # A row leaves under a range of amounts: add it where the range begins, subtract it where it ends, then sum up.
        changes = np.zeros((self.n_models + 1, len(family) + 1), dtype=np.int64)
        for exits in self._trace(values, full, family):
            wrong = exits.decision != expected[exits.rows]
            for at, sign in ((exits.first, 1), (exits.past, -1)):
                changes[exits.position] += sign * np.bincount(at, minlength=len(family) + 1)
                changes[-1] += sign * np.bincount(at[wrong], minlength=len(family) + 1)
        return np.cumsum(changes, axis=1)[:, :-1]

    def widening_answers(
        self, scores: ArrayLike, amounts: ArrayLike, decisions: ArrayLike, n_classes: int = 2
    ) -> NDArray[np.int64]:
        """Count the rows that leave at each position, and those that get each answer; counts of parts add up.

        Parameters
        ----------
        scores, amounts
            As for `widening_curve`; there may be no rows.
        decisions : int or bool array of shape (n_rows,)
            What the full ensemble decides: the answer of rows that never stop.
        n_classes : int, default 2

        Returns
        -------
        int64 array of shape (n_models + n_classes, n_amounts)
            For each amount, the rows that leave after 1, 2, … models, and then the rows answered 0, 1, ….
        """
        family, full = _check_amounts(amounts), np.asarray(decisions).astype(np.intp)
        values, own = self._read(scores)
        if full.shape != own.shape:
            raise InputError(f"decisions must have one entry per row ({len(own)}), got shape {full.shape}")
        size = len(family) + 1
        changes = np.zeros((self.n_models + n_classes, size), dtype=np.int64)
        for exits in self._trace(values, full, family):
            answer = exits.decision.astype(np.intp) * size
            for at, sign in ((exits.first, 1), (exits.past, -1)):
                changes[exits.position] += sign * np.bincount(at, minlength=size)
                answered = np.bincount(answer + at, minlength=n_classes * size).reshape(n_classes, size)
                changes[self.n_models :] += sign * answered
        return np.cumsum(changes, axis=1)[:, :-1]

    def curve_of(self, amounts: ArrayLike, exits: NDArray[np.int64]) -> WideningCurve:
        """Return the curve of `widening_exits`, or of their sum over parts of a data set."""
        mean_cost = np.cumsum(self.costs[self.order]) @ exits[:-1] / exits[:-1].sum(axis=0)
        return WideningCurve(np.asarray(amounts, dtype=np.float64), exits[-1], mean_cost)

    @abstractmethod
    def stop_rule(self, step: float) -> SumRule:
        """Return the rule as a plan stores it: on sums of integers, in units of `step`.

        Thresholds between two integers are rounded so that no row stops that would not stop by this rule.
        """

    def stopper(self) -> ScoreStopper:
        """Start one row whose scores arrive one at a time; see `ScoreStopper`."""
        return ScoreStopper(self)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule."""
        header = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self.ARRAYS}
        return header, {name: getattr(self, name) for name in self.ARRAYS}

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        parts: dict[str, Any] = {name: np.array(arrays[name], dtype=dtype) for name, dtype in cls.ARRAYS.items()}
        return cls(**parts, **header)

    def measure(self, scores: FloatArray, decisions: NDArray[Any]) -> Self:
        """Return the same rule with its cost and mistakes on calibration rows, given the full decisions."""
        curve = self.widening_curve(scores, [0.0], decisions=decisions)
        return replace(self, mean_cost=float(curve.mean_cost[0]), n_mistakes=int(curve.n_mistakes[0]))

    def _read(self, scores: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
        """Return the scores on the grid, models first, and what the full ensemble decides."""
        array = check_scores(scores, n_models=self.n_models, n_classes=self._n_classes)
        values = snap(np.ascontiguousarray(np.moveaxis(array, 1, 0)), self.step)
        return values, self._full_decision(array, self._start(len(array)) + values.sum(axis=0))

    def _trace(self, values: FloatArray, full: NDArray[Any], amounts: FloatArray) -> Iterator[_Exits]:
        """Yield the rows that leave at each position; `full` are the decisions of the full ensemble."""
        rows = np.arange(len(full))
        sums = self._start(len(full))
        left_for = np.zeros(len(full), dtype=np.int64)
        last = self.n_models - 1
        for position, model in enumerate(self.order[:-1]):
            if len(rows) == 0:
                return
            sums += values[model, rows]
            leaves_for, decision = self._leaves_for(position, sums, amounts)
            new = leaves_for > left_for
            yield _Exits(position, rows[new], left_for[new], leaves_for[new], decision[new])
            # Such a row goes to the end under every amount that it has not left under yet.
            stuck = leaves_for == NEVER
            n_stuck = int(stuck.sum())
            yield _Exits(last, rows[stuck], left_for[stuck], np.full(n_stuck, len(amounts)), full[rows[stuck]])
            left_for = np.maximum(left_for, leaves_for)
            stays = (left_for < len(amounts)) & ~stuck
            # Copies cost more than they save while every row stays.
            if not stays.all():
                rows, sums, left_for = rows[stays], sums[stays], left_for[stays]
        yield _Exits(last, rows, left_for, np.full(len(rows), len(amounts)), full[rows])

    @property
    def _n_classes(self) -> int | None:
        return None

    @abstractmethod
    def _start(self, n_rows: int) -> FloatArray:
        """Return the running sums before the first model."""

    @abstractmethod
    def _full_decision(self, scores: FloatArray, sums: FloatArray) -> NDArray[Any]:
        """Return what the full ensemble decides, given scores (models in any order) and their sums on the grid."""

    @abstractmethod
    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return under how many of the ascending `amounts` each row leaves here (or NEVER), and its decision."""


def _check_amounts(amounts: ArrayLike) -> FloatArray:
    family = np.asarray(amounts, dtype=np.float64)
    if family.ndim != 1 or not np.isfinite(family).all() or (family < 0).any() or (np.diff(family) < 0).any():
        raise InputError("amounts must be a one-dimensional ascending array of finite numbers, none negative")
    return family


class ScoreStopper:
    """One row whose scores arrive one at a time. `ScoreFit.stopper` makes it.

    Attributes
    ----------
    decision : bool or int or None
        The answer; None until the rule stops.

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> rule = qwyc([[3, 1, -1], [2, -1, 1], [-2, 1, -1], [-3, -1, 1]], max_disagreement=0)
    >>> stopper = rule.stopper()
    >>> stopper.next_model
    0
    >>> stopper.update(2.5)
    True
    >>> stopper.decision, stopper.n_seen
    (True, 1)
    """

    def __init__(self, rule: ScoreFit) -> None:
        check_instance("rule", rule, ScoreFit)
        self._rule = rule
        self._scores: list[FloatArray] = []
        self._sums = rule._start(1)
        self._never = False
        self.decision: bool | int | None = None

    @property
    def n_seen(self) -> int:
        """Number of scores so far."""
        return len(self._scores)

    @property
    def next_model(self) -> int | None:
        """The model whose score `update` expects; None once there is a decision."""
        return None if self.decision is not None else int(self._rule.order[self.n_seen])

    def update(self, score: ArrayLike) -> bool:
        """Add the score of `next_model` and return whether the row has its answer.

        Parameters
        ----------
        score : float, or array of shape (n_classes,) for a multi-class rule
        """
        if self.decision is not None:
            raise InputError(f"this row was decided after {self.n_seen} models; call rule.stopper() for the next row")
        value = check_numbers("score", score)
        if value.shape != self._sums.shape[1:] or not np.isfinite(value).all():
            raise InputError(
                f"a score must be finite and of shape {self._sums.shape[1:]}, got {score!r}", argument="score"
            )
        self._scores.append(value)
        self._sums += snap(value, self._rule.step)
        # The original scores are kept for the last decision, which must not depend on the grid.
        if self.n_seen == self._rule.n_models:
            self.decision = self._rule._full_decision(np.stack(self._scores)[np.newaxis], self._sums).item()
        elif not self._never:
            leaves, decision = self._rule._leaves_for(self.n_seen - 1, self._sums, np.zeros(1))
            self._never = leaves.item() == NEVER
            if leaves.item() == 1:
                self.decision = decision.item()
        return self.decision is not None
