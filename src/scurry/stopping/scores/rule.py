"""ScoreFit: the base of all rules that watch a running sum of scores, and ScoreStopper, which runs one on a row.

A rule belongs to a nested family: at a larger `amount` of widening every row stops at the same position or later.
So one loop both runs a rule and traces its whole family over held-out rows: at each position a row leaves under the
members of the family (the amounts) under which it has not left yet.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_instance, check_numbers
from scurry.errors import InputError
from scurry.stopping.scores.matrix import FloatArray, check_costs, check_order, check_scores, snap
from scurry.stopping.stored_rule import StoredRule

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
