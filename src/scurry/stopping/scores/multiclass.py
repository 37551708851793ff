"""Quit when you can, for more than two classes: stop once the leading class is far enough ahead.

Algorithm 2 of Wang, Gupta, You, "Quit When You Can", with the distance of the two largest class sums in place of the
running sum of a score. A row stops after position r iff that distance is at least ``rule.lead[r]``, and its answer is
the leading class; a mistake is a leader other than the full ensemble's. Thresholds are the smallest that the budget of
mistakes allows, found by sorting; spending, exact sums and closed thresholds are as in `scurry.stopping.scores.qwyc`.

The joint search (Algorithm 1) takes the model with the least cost per row that leaves, as there. No sorted end bounds
the distance of two class sums, so every candidate is evaluated on every row that is left; where there are many rows,
the order is searched on `SEARCH_ROWS` of them, evenly spread, and the thresholds on all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_choice, check_number, check_numbers
from scurry.errors import InputError
from scurry.stopping.scores.matrix import (
    FloatArray,
    check_costs,
    check_order,
    check_scores,
    mistake_budget,
    round_to_grid,
    snap,
)
from scurry.stopping.scores.qwyc import SPENDING
from scurry.stopping.scores.rule import ScoreFit

SEARCH_ROWS = 2000  # the joint search passes over its rows about n_models^2 / 2 times


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LeaderFit(ScoreFit):
    """Stop after position ``r`` once the largest class sum leads the second largest by ``lead[r]``.

    `multiclass_qwyc` returns this.

    Attributes
    ----------
    lead : float64 array of shape (n_models - 1,)
        Infinite where no row stops.
    base_score : float64 array of shape (n_classes,)
        What the sums start from.
    spread : float
        Standard deviation of the full ensemble's lead over the calibration rows: the unit of `widen`.

    Examples
    --------
    >>> from scurry.stopping import multiclass_qwyc
    >>> rule = multiclass_qwyc([[[3, 0, 0], [1, 0, 1]], [[0, 2, 1], [0, 0, 3]]], max_disagreement=0)
    >>> stopper = rule.stopper()
    >>> stopper.update([5, 0, 1])
    True
    >>> stopper.decision
    0
    """

    lead: FloatArray
    base_score: FloatArray
    spread: float

    KIND: ClassVar[str] = "leader rule"
    ARRAYS: ClassVar[dict[str, type]] = ScoreFit.ARRAYS | {"lead": np.float64, "base_score": np.float64}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lead.shape != (self.n_models - 1,) or self.base_score.ndim != 1 or len(self.base_score) < 2:
            raise InputError("lead must have one entry per model but the last, base_score one per class, at least two")

    def widen(self, amount: float) -> Self:
        """Return the rule with leads larger by `amount` times `spread`: rows stop at the same position or later."""
        lead = self.lead + check_number("amount", amount) * self.spread
        return replace(self, lead=lead, mean_cost=None, n_mistakes=None)

    @property
    def _n_classes(self) -> int:
        return len(self.base_score)

    def _start(self, n_rows: int) -> FloatArray:
        return np.tile(snap(self.base_score, self.step), (n_rows, 1))

    def _full_decision(self, scores: FloatArray, sums: FloatArray) -> NDArray[np.intp]:
        return _find_leaders(scores, sums, self.step, self.base_score)

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        needed = self.lead[position] + amounts * self.spread
        return np.searchsorted(needed, _measure_leads(sums), side="right"), np.argmax(sums, axis=1)


def multiclass_qwyc(
    scores: ArrayLike,
    *,
    max_disagreement: float,
    costs: ArrayLike | None = None,
    base_score: ArrayLike | None = None,
    order: str | ArrayLike | None = "natural",
    spending: str = "proportional",
) -> LeaderFit:
    """Find the lead at which to stop after each model, in a given order or in one found with it.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models, n_classes)
        What each base model adds to each class sum of each calibration row. A model may be a single tree that adds to
        one class, or a whole boosting round.
    max_disagreement : float
        The largest share of calibration rows whose answer may differ from the full ensemble's, which is the class
        with the largest sum, the lowest on ties.
    costs : float or array of shape (n_models,), optional
        The cost of evaluating a model; 1 by default.
    base_score : array of shape (n_classes,), optional
        What the sums start from; 0 by default.
    order : "natural" or permutation of the models, optional
        None searches order and leads jointly.
    spending : {"proportional", "upfront"}
        Spread the mistakes over the positions, or allow all of them at the first.

    Returns
    -------
    LeaderFit

    Examples
    --------
    >>> from scurry.stopping import multiclass_qwyc
    >>> scores = [[[3, 0, 0], [1, 0, 1]], [[0, 2, 1], [0, 0, 3]], [[0, 1, 4], [1, 0, 0]]]
    >>> rule = multiclass_qwyc(scores, max_disagreement=0)
    >>> rule.lead
    array([3.])
    >>> rule.decide(scores)
    Decisions(decision=array([0, 2, 2]), n_models_used=array([1, 2, 1]))
    """
    array = check_scores(scores, n_classes=0)
    n_rows, n_models, n_classes = array.shape
    base = np.zeros(n_classes) if base_score is None else check_numbers("base_score", base_score)
    if n_classes < 2 or base.shape != (n_classes,) or not np.isfinite(base).all():
        raise InputError(
            f"scores must have at least two classes and base_score one finite entry per class, "
            f"got {n_classes} classes and a base_score of shape {base.shape}"
        )
    grid = round_to_grid(array, base)
    budget = mistake_budget(max_disagreement, n_rows)
    upfront = check_choice("spending", spending, SPENDING) == "upfront"
    start = snap(base, grid.unit)
    full = start + grid.values.sum(axis=0)
    answers = _find_leaders(array, full, grid.unit, base)
    # With one answer any lead would do, and new rows of other classes would all be wrong.
    if (answers == answers[0]).all():
        raise InputError(
            f"the full ensemble answers class {answers[0]} on all {n_rows} calibration rows: nothing can be learnt "
            "from one class. Add rows of other classes"
        )
    model_cost = check_costs(costs, n_models)
    if order is None:
        searched = np.unique(np.linspace(0, n_rows - 1, min(n_rows, SEARCH_ROWS)).astype(np.intp))
        share = mistake_budget(max_disagreement, len(searched))
        found = _find_order(grid.values[:, searched], start, answers[searched], share, upfront, model_cost)
    else:
        natural = isinstance(order, str) and check_choice("order", order, ("natural",)) == "natural"
        found = check_order(np.arange(n_models) if natural else order, n_models)
    rule = LeaderFit(
        order=found,
        costs=model_cost,
        step=grid.unit,
        n_rows=n_rows,
        lead=_find_leads(grid.values[found], start, answers, budget, upfront, grid.rounding),
        base_score=base,
        spread=float(np.std(_measure_leads(full))),
    )
    return rule.measure(array, answers)


def _find_leads(
    values: FloatArray, start: FloatArray, answers: NDArray[np.int64], budget: int, upfront: bool, slack: float
) -> FloatArray:
    """Return the smallest allowed lead at every position but the last, given scores in evaluation order."""
    n_rows = len(answers)
    rows, sums, n_mistakes = np.arange(n_rows), np.tile(start, (n_rows, 1)), 0
    thresholds = np.full(len(values) - 1, np.inf)
    for position, scores in enumerate(values[:-1]):
        if len(rows) == 0:
            break
        earned = budget if upfront else budget * (n_rows - len(rows)) // n_rows
        allowed = max(0, earned - n_mistakes)
        sums += scores[rows]
        leaves, wrong, leads = _find_leaving(sums, answers[rows], allowed)
        if leaves.any():
            least = leads[leaves].min()
            # Room for the rounding of plain float sums, but not so much that the next row could leave too.
            gap = least - leads[~leaves].max(initial=-np.inf)
            thresholds[position] = least - min(slack, gap / 4)
            n_mistakes += int((leaves & wrong).sum())
            rows, sums = rows[~leaves], sums[~leaves]
    return thresholds


def _find_order(
    values: FloatArray, start: FloatArray, answers: NDArray[np.int64], budget: int, upfront: bool, costs: FloatArray
) -> NDArray[np.int64]:
    """Order the models by least cost per row that leaves; `values` has shape (n_models, n_rows, n_classes)."""
    n_rows = len(answers)
    rows, sums, n_mistakes = np.arange(n_rows), np.tile(start, (n_rows, 1)), 0
    order: list[int] = []
    left = np.arange(len(values))
    while len(left) and len(rows):
        allowed = max(0, (budget if upfront else budget * (n_rows - len(rows)) // n_rows) - n_mistakes)
        each = (_find_leaving(sums + values[model, rows], answers[rows], allowed)[0] for model in left)
        n_leaving = np.array([leaves.sum() for leaves in each])
        with np.errstate(divide="ignore", invalid="ignore"):
            per_row = np.where(n_leaving > 0, costs[left] / n_leaving, np.inf)
        chosen = int(left[per_row.argmin()])
        sums += values[chosen, rows]
        leaves, wrong, _ = _find_leaving(sums, answers[rows], allowed)
        n_mistakes += int((leaves & wrong).sum())
        rows, sums = rows[~leaves], sums[~leaves]
        order.append(chosen)
        left = left[left != chosen]
    return np.array([*order, *left], dtype=np.int64)


def _find_leaving(
    sums: FloatArray, answers: NDArray[np.int64], allowed: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], FloatArray]:
    """Return which rows may leave if `allowed` of them may be wrong, which rows are wrong, and all leads."""
    leads, wrong = _measure_leads(sums), np.argmax(sums, axis=1) != answers
    barred = leads[wrong]
    # Closed thresholds: the first wrong row beyond the allowed ones must stay, and all rows of its lead with it.
    if len(barred) <= allowed:
        return np.ones(len(sums), dtype=np.bool_), wrong, leads
    return leads > -np.partition(-barred, allowed)[allowed], wrong, leads


def _find_leaders(scores: FloatArray, sums: FloatArray, unit: float, base_score: FloatArray) -> NDArray[np.intp]:
    """Return the class with the largest sum; where the grid is too coarse to tell, sum the original scores."""
    leader = np.asarray(np.argmax(sums, axis=1))
    # Two class sums of n_models + 1 rounded terms each can be off by this much against one another.
    close = _measure_leads(sums) <= 2 * (scores.shape[1] + 1) * unit
    for row in np.flatnonzero(close):
        leader[row] = np.argmax([math.fsum(column) for column in np.vstack([base_score, scores[row]]).T])
    return leader


def _measure_leads(sums: FloatArray) -> FloatArray:
    """Return the distance of the two largest entries of each row."""
    top = np.partition(sums, -2, axis=1)
    return top[:, -1] - top[:, -2]
