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
5. Scores are rounded to a grid on which sums are exact (`scurry.stopping.scores.rule`). Where that rounds at all,
   thresholds lie a float64 rounding error beyond the last row that leaves, never beyond a quarter of the gap to the
   next one, so that plain float sums in any order make the same decisions on the calibration rows.
6. The paper's example A.1 claims that order [3, 2, 1] at 14/8 is optimal. With free thresholds [3, 1, 2] costs 12/8.

A `Family` is rules in one order of models, from the most cautious to the boldest, to be tested one after another. It
begins with one rule whose thresholds are moved outwards by falling amounts, and goes on with rules that were fitted to
spend more. It must be made without the rows that test it. Members need not be nested: testing in this order and
stopping at the first that fails is valid anyway.

More than two classes (`multiclass_qwyc`): stop once the leading class is far enough ahead. This is Algorithm 2 of Wang,
Gupta, You, "Quit When You Can", with the distance of the two largest class sums in place of the running sum of a score.
A row stops after position r iff that distance is at least ``rule.lead[r]``, and its answer is the leading class; a
mistake is a leader other than the full ensemble's. Thresholds are the smallest that the budget of mistakes allows,
found by sorting; spending, exact sums and closed thresholds are as above.

The joint search (Algorithm 1) takes the model with the least cost per row that leaves, as there. No sorted end bounds
the distance of two class sums, so every candidate is evaluated on every row that is left; where there are many rows,
the order is searched on `SEARCH_ROWS` of them, evenly spread, and the thresholds on all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.checks import (
    Progress,
    RandomState,
    check_choice,
    check_flag,
    check_number,
    check_numbers,
    check_progress,
    check_random_state,
)
from scurry.errors import InputError
from scurry.plan import SumRule, band_rule, lead_rule
from scurry.stopping.scores.rule import (
    FloatArray,
    ScoreFit,
    check_costs,
    check_decisions,
    check_order,
    check_scores,
    check_targets,
    is_positive,
    mistake_budget,
    resolve_order,
    round_to_grid,
    snap,
)

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

    def stop_rule(self, step: float) -> SumRule:
        """Return the rule as a plan stores it: on sums of integers, in units of `step`."""
        return band_rule(step, self.lower / step, self.upper / step)

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


_GOLDEN = (5**0.5 - 1) / 2  # its multiples, without their whole parts, fill 0 to 1 evenly from the first few on


@dataclass(frozen=True, eq=False)
class Family:
    """Rules that are tested in turn, the most cautious first.

    Parameters
    ----------
    first : ScoreFit
        The rule that is widened.
    amounts : float64 array of shape (n_amounts,)
        Ascending amounts of widening. Members are tested from the last amount to the first.
    bolder : sequence of ScoreFit
        Rules in the same order of models that follow, as they are.

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> rule = qwyc([[3, 1, -1], [2, -1, 1], [1, 1, -3], [-2, 1, -1], [-3, -1, 1]], max_disagreement=0)
    >>> family = Family(rule, np.array([0.0, 0.5]))
    >>> family.answers([[3, -3, -3], [-3, -1, 1]], [False, False])  # rows that leave after 1, 2, 3; answers no, yes
    array([[1, 0, 1, 2, 0],
           [2, 0, 0, 1, 1]])
    """

    first: ScoreFit
    amounts: FloatArray
    bolder: Sequence[ScoreFit] = ()

    def __len__(self) -> int:
        return len(self.amounts) + len(self.bolder)

    def __getitem__(self, at: int) -> ScoreFit:
        """Return a member."""
        n_amounts = len(self.amounts)
        return (
            self.first.widen(float(self.amounts[n_amounts - 1 - at])) if at < n_amounts else self.bolder[at - n_amounts]
        )

    def answers(self, scores: FloatArray, decisions: NDArray[np.generic], n_classes: int = 2) -> NDArray[np.int64]:
        """Count the rows that leave after each model under each member, and those that get each answer.

        Returns
        -------
        int64 array of shape (n_members, n_models + n_classes)
            Counts of parts of the rows add up.
        """
        widened = self.first.widening_answers(scores, self.amounts, decisions, n_classes).T[::-1]
        zero = np.zeros(1)
        others = [fit.widening_answers(scores, zero, decisions, n_classes).T for fit in self.bolder]
        return np.concatenate([widened, *others])

    def stagger(self, unit: float) -> Family:
        """Return the family with the thresholds of its first rule moved inwards, each by another part of `unit`.

        Sums of votes are whole numbers of votes. Equal shifts of all thresholds then pass whole votes together, and
        between one vote wider and not at all there is no rule, though most of what can be saved lies there. Moved by
        different parts of a vote, the thresholds pass it one after another.

        Parameters
        ----------
        unit : float
            By how much the sums of rows differ at least, such as one vote.

        Examples
        --------
        >>> from scurry.stopping import qwyc
        >>> rng = np.random.default_rng(0)
        >>> votes = np.where(rng.random((400, 15)) < rng.random((400, 1)), 1.0, -1.0)
        >>> family = Family(qwyc(votes, max_disagreement=0.02, order="natural"), np.linspace(0, 0.2, 20))
        >>> yes = votes.sum(axis=1) >= 0  # the two families have so many different rules:
        >>> [len(np.unique(one.answers(votes, yes), axis=0)) for one in (family, family.stagger(2.0))]
        [2, 11]
        """
        first = self.first
        assert isinstance(first, MarginFit)
        inwards = unit * (np.arange(1, first.n_models) * _GOLDEN % 1.0)
        lower, upper = first.lower + inwards, first.upper - inwards
        apart = lower < upper
        moved = replace(
            first,
            lower=np.where(apart, lower, first.lower),
            upper=np.where(apart, upper, first.upper),
            mean_cost=None,
            n_mistakes=None,
        )
        return replace(self, first=moved)

    def one_sided(self, *, upper: bool, other: FloatArray) -> Family:
        """Return the family of rules for two classes that have one side of each member, and `other` on the other side.

        Parameters
        ----------
        upper : bool
            Whether the members give their upper thresholds, from which rows stop as positive.
        other : float64 array of shape (n_models - 1,)
            The thresholds of the other side, the same for all members; infinite where it never stops a row.
        """
        return Family(
            OneSidedFit.of(self.first, upper=upper, other=other),
            self.amounts,
            [OneSidedFit.of(fit, upper=upper, other=other) for fit in self.bolder],
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OneSidedFit(MarginFit):
    """A margin rule of which only one side is widened.

    A row that the full ensemble answers as positive can only be lost through `lower`, a negative one through `upper`.
    So each side may be chosen on rows of one class, and holds for that class alone.

    Attributes
    ----------
    moves_upper : bool
        Whether `widen` moves the upper thresholds; else the lower ones.
    """

    moves_upper: bool

    KIND: ClassVar[str] = "one-sided margin rule"

    @classmethod
    def of(cls, fit: ScoreFit, *, upper: bool, other: FloatArray) -> Self:
        """Return one side of `fit` with the thresholds `other` on the other side."""
        if not isinstance(fit, MarginFit):
            raise TypeError(f"only rules for two classes have sides, got {type(fit).__name__}")
        known = {field.name: getattr(fit, field.name) for field in fields(MarginFit)}
        known |= {"mean_cost": None, "n_mistakes": None}
        # Sides of different members could cross. The side that is being chosen then gives way.
        if upper:
            return cls(**known | {"lower": other, "upper": np.maximum(fit.upper, _just_above(other))}, moves_upper=True)
        return cls(**known | {"upper": other, "lower": np.minimum(fit.lower, -_just_above(-other))}, moves_upper=False)

    def widen(self, amount: float) -> Self:
        """Return the rule with the thresholds of its moving side moved outwards by `amount` times `spread`."""
        shift = check_number("amount", amount) * self.spread
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        side = {"upper": self.upper + shift} if self.moves_upper else {"lower": self.lower - shift}
        return type(self)(**known | side | {"mean_cost": None, "n_mistakes": None})

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        shift, always = amounts * self.spread, len(amounts)
        if self.moves_upper:
            as_negative = np.where(sums <= self.lower[position], always, 0)
            as_positive = np.searchsorted(self.upper[position] + shift, sums, side="right")
        else:
            as_negative = always - np.searchsorted((self.lower[position] - shift)[::-1], sums, side="left")
            as_positive = np.where(sums >= self.upper[position], always, 0)
        return np.maximum(as_negative, as_positive), as_positive > as_negative


def _just_above(thresholds: FloatArray) -> FloatArray:
    return np.nextafter(thresholds, np.inf)


def last_accepted(accepted: NDArray[np.bool_]) -> int:
    """Return the index of the last member before the first that is not accepted; -1 if that is the first.

    Examples
    --------
    >>> last_accepted(np.array([True, True, False, True]))
    1
    """
    return int(np.argmin(np.append(accepted, False))) - 1


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

    def stop_rule(self, step: float) -> SumRule:
        """Return the rule as a plan stores it: on sums of integers, in units of `step`."""
        return lead_rule(step, self.lead / step)

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
    decisions: ArrayLike | None = None,
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
    decisions : int array of shape (n_rows,), optional
        The class that the full ensemble answers, where that may be another than the one with the largest sum.

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
    answers = _find_leaders(array, full, grid.unit, base) if decisions is None else np.asarray(decisions)
    if answers.shape != (n_rows,) or answers.dtype.kind not in "iu" or answers.min() < 0 or answers.max() >= n_classes:
        raise InputError(
            f"decisions must be numbers of the {n_classes} classes, one per row ({n_rows}), got {answers.dtype} of "
            f"shape {answers.shape}",
            argument="decisions",
        )
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
