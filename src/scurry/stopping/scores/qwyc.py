"""Quit when you can: find an order of base models and stopping thresholds for an additive two-class ensemble.

Paper: Wang, Gupta, You, "Quit When You Can: Efficient Evaluation of Ensembles with Ordering Optimization".

========================  ==================================================
symbol in the paper       name here
========================  ==================================================
f_t(x)                    ``scores[row, t]``
beta                      ``decision_threshold``
c_t                       ``costs[t]``
pi                        ``rule.order``
epsilon_r^-, epsilon_r^+  ``rule.lower[r - 1]``, ``rule.upper[r - 1]``
alpha                     ``max_disagreement``
g_r(x)                    the running sum after r models
J_r                       cost per row that leaves (without the common factor |C_{r-1}|)
========================  ==================================================

Deviations from the paper

1. Thresholds come from sorting, not from binary search: they let as many rows leave as the budget of mistakes allows,
   and mistakes are counted, not estimated. They are closed (a row leaves at ``sum <= lower`` or ``sum >= upper``), so
   equal sums leave together.
2. With ``spending="proportional"`` (default) the E of N rows that left before a position allow ``floor(B * E / N)`` of
   the B mistakes, less the M already made. The paper's ``"upfront"`` allows all of them at the first position.
3. ``sides="joint"`` (default) divides a position's budget between the two sides so that most rows leave; ties go to
   fewer mistakes, then to fewer negative ones. The paper's ``"negative-first"`` serves the negative side first.
4. A position that no calibration row reaches gets infinite thresholds: new rows that get there are evaluated in full.
5. Scores are rounded to a grid on which sums are exact (`scurry.stopping.scores.matrix`). Where that rounds at all,
   thresholds lie a float64 rounding error beyond the last row that leaves, never beyond a quarter of the gap to the
   next one, so that plain float sums in any order make the same decisions on the calibration rows.
6. The paper's example A.1 claims that order [3, 2, 1] at 14/8 is optimal. With free thresholds [3, 1, 2] costs 12/8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.checks import (
    Progress,
    RandomState,
    check_choice,
    check_flag,
    check_number,
    check_progress,
    check_random_state,
)
from scurry.errors import InputError
from scurry.stopping.scores.matrix import (
    FloatArray,
    check_costs,
    check_decisions,
    check_scores,
    check_targets,
    is_positive,
    mistake_budget,
    resolve_order,
    round_to_grid,
)
from scurry.stopping.scores.rule import ScoreFit

SPENDING = ("proportional", "upfront")
SIDES = ("joint", "negative-first")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MarginFit(ScoreFit):
    """Stop after position ``r`` as negative if the running sum is at most ``lower[r]``, as positive from ``upper[r]``.

    The last position decides by ``sum >= decision_threshold``. `qwyc` returns this.

    Attributes
    ----------
    lower, upper : float64 arrays of shape (n_models - 1,)
        Infinite where no row stops.
    decision_threshold : float
    spread : float
        Standard deviation of the full sums over the calibration rows: the unit of `widen`.

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> scores = [[3, 1, -1], [2, -1, 1], [1, 1, -3], [-2, 1, -1], [-3, -1, 1]]
    >>> rule = qwyc(scores, max_disagreement=0)
    >>> rule
    MarginFit(n_models=3, n_rows=5, mean_cost=1, n_mistakes=0)
    >>> decision, n_models_used = rule.decide(scores)
    >>> decision
    array([ True,  True, False, False, False])
    >>> rule.widen(0.5).decide(scores).n_models_used
    array([3, 3, 3, 1, 1])
    """

    lower: FloatArray
    upper: FloatArray
    decision_threshold: float
    spread: float

    KIND: ClassVar[str] = "margin rule"
    ARRAYS: ClassVar[dict[str, type]] = ScoreFit.ARRAYS | {"lower": np.float64, "upper": np.float64}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lower.shape == self.upper.shape == (self.n_models - 1,):
            raise InputError(
                f"lower and upper must have one entry per model but the last ({self.n_models - 1}), "
                f"got shapes {self.lower.shape} and {self.upper.shape}"
            )
        if not (self.lower < self.upper).all():
            raise InputError("every lower threshold must be less than the upper one")

    def widen(self, amount: float) -> Self:
        """Return the rule with all thresholds moved outwards by `amount` times `spread`.

        Every row then stops at the same position or later. The shift is the same at every position: measured on
        boosted trees, this needs fewer models at equal certified disagreement than a shift proportional to the
        distance of the thresholds or to the deviation of what is still to be added.
        """
        shift = check_number("amount", amount) * self.spread
        return replace(self, lower=self.lower - shift, upper=self.upper + shift, mean_cost=None, n_mistakes=None)

    def _start(self, n_rows: int) -> FloatArray:
        return np.zeros(n_rows)

    def _full_decision(self, scores: FloatArray, sums: FloatArray) -> NDArray[np.bool_]:
        return is_positive(scores, sums, self.step, self.decision_threshold)

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        # Both thresholds only move outwards as the amount grows, so a row leaves under the first few amounts.
        shift = amounts * self.spread
        as_negative = len(amounts) - np.searchsorted((self.lower[position] - shift)[::-1], sums, side="left")
        as_positive = np.searchsorted(self.upper[position] + shift, sums, side="right")
        return np.maximum(as_negative, as_positive), as_positive > as_negative


def qwyc(
    scores: ArrayLike,
    *,
    max_disagreement: float,
    costs: ArrayLike | None = None,
    decision_threshold: float = 0.0,
    order: str | ArrayLike | None = None,
    negative_only: bool = False,
    spending: str = "proportional",
    sides: str = "joint",
    y: ArrayLike | None = None,
    decisions: ArrayLike | None = None,
    random_state: RandomState = None,
    progress: Progress | None = None,
) -> MarginFit:
    """Find an order of base models and thresholds at which to stop (Algorithm 1), or thresholds alone (Algorithm 2).

    The ensemble's score is the sum of its models' scores, and a row is positive iff that sum is at least
    `decision_threshold` (subtract a constant base score from it). Calibration rows need no labels.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models)
        What each base model adds to the sum of each calibration row.
    max_disagreement : float
        The largest share of calibration rows that may be answered differently from the full ensemble. It is met
        exactly on these rows; new rows need a margin, see `MarginFit.widen`.
    costs : float or array of shape (n_models,), optional
        The cost of evaluating a model; 1 by default.
    decision_threshold : float
    order : {"natural", "random", "individual-mse", "greedy-mse"} or permutation of the models, optional
        With an order only thresholds are searched (Algorithm 2). None searches both jointly (Algorithm 1).
    negative_only : bool
        Stop only as negative, so that every positive row is evaluated in full (the paper's filter and score).
    spending : {"proportional", "upfront"}
        Spread the mistakes over the positions, or allow all of them at the first.
    sides : {"joint", "negative-first"}
        Divide a position's mistakes between the two sides so that most rows leave, or serve the negative side first.
    y : array of shape (n_rows,), optional
        Labels for the orders by mean squared error; by default the full ensemble's decisions.
    decisions : bool array of shape (n_rows,), optional
        What the full ensemble decides, where that may differ from the sum of `scores` in the last digit (sums in
        float32). By default ``scores.sum(axis=1) >= decision_threshold``, summed exactly.
    random_state : int, Generator or None
        For ``order="random"``.
    progress : callable, optional
        Called as ``progress(n_done, n_models)`` after every position. An exception it raises ends the search.

    Returns
    -------
    MarginFit

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> rule = qwyc([[0, 5], [1, -4], [-1, 3], [0, -5]], max_disagreement=0)
    >>> rule.order, rule.lower, rule.upper
    (array([1, 0]), array([-4.]), array([3.]))
    """
    array = check_scores(scores)
    grid = round_to_grid(array)
    positive = check_decisions(array, grid, decision_threshold, decisions)
    n_models, n_rows = grid.values.shape
    # These are checked even where nothing reads them: who passes one believes that it counts.
    target, rng = positive if y is None else check_targets(y, n_rows), check_random_state(random_state)
    model_cost = check_costs(costs, n_models)
    given = np.empty(0, np.int64)  # the native search takes this for "find the order too"
    if order is not None:
        given = resolve_order(order, array, target, rng)
    side_rule = check_choice("sides", sides, SIDES)
    if check_flag("negative_only", negative_only):
        side_rule = "negative-only"
    found, lower, upper, n_entering, n_mistakes = _core.fit_margins(
        grid.values,
        positive,
        model_cost,
        given,
        max_mistakes=mistake_budget(max_disagreement, n_rows),
        upfront=check_choice("spending", spending, SPENDING) == "upfront",
        sides=side_rule,
        slack=grid.rounding,
        progress=check_progress(progress),
    )
    return MarginFit(
        order=found.astype(np.int64),
        lower=lower,
        upper=upper,
        costs=model_cost,
        decision_threshold=float(decision_threshold),
        step=grid.unit,
        # The unit of widening; it makes the same amounts useful for ensembles of any scale.
        spread=float(np.std(grid.values.sum(axis=0))),
        n_rows=n_rows,
        mean_cost=float(model_cost[found] @ n_entering) / n_rows,
        n_mistakes=n_mistakes,
    )
