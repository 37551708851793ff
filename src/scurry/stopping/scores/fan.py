"""Dynamic scheduling: stop when the running sum is confidently on one side, given how sums like it ended.

Paper: Fan, Chu, Wang, Yu, "Pruning and dynamic scheduling of cost-sensitive ensembles" (2002), as described for
additive ensembles by Wang, Gupta, You, "Quit When You Can", appendix C.

=========================  ==============================================
symbol in the paper        name here
=========================  ==============================================
g_r(x), f(x), beta         running sum, full sum, ``decision_threshold``
lambda                     ``bin_width``
gamma                      ``gamma``
b_r(x)                     ``floor(sum / bin_width)``
mu_B, sigma_B              ``rule.mean``, ``rule.deviation``: of ``sum - full sum`` over the calibration rows in the bin
=========================  ==============================================

A row stops at a position iff ``|sum - mean - decision_threshold| / deviation > gamma``, as positive iff ``sum - mean``
is above the threshold. A bin that no calibration row fell into means full evaluation.

Deviations from the paper

1. ``bin_width`` is 0.1 by default, not 0.01: narrow bins hold too few rows, and err more on new ones.
2. ``gamma=None`` finds the smallest gamma that keeps a promised disagreement on the calibration rows. A row stops at
   the first position whose ratio exceeds gamma, so mistakes change only at the records of a row's ratios: the search
   over these is exact.
3. Offered, though the paper leaves them open: sample deviations (``ddof=1``) and a least number of rows per bin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.stopping.scores.matrix import (
    FloatArray,
    calibration_decisions,
    is_positive,
    mistake_budget,
    model_costs,
    on_grid,
    resolve_order,
    score_array,
)
from scurry.stopping.scores.rule import NEVER, ScoreRule


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FanRule(ScoreRule):
    """Stop once the running sum is `gamma` deviations beyond the decision threshold, by the bin it falls in.

    `fan` makes such rules.

    Attributes
    ----------
    gamma : float
    bin_width : float
    decision_threshold : float
    bin_offset : int64 array of shape (n_models,)
        The bins of position ``r`` are ``bin_offset[r]:bin_offset[r + 1]`` of the arrays below.
    bins : float64 array of shape (n_bins,)
        ``floor(sum / bin_width)``, ascending in each position.
    mean, deviation : float64 arrays of shape (n_bins,)
        Of ``sum - full sum`` over the calibration rows in the bin.

    Examples
    --------
    >>> from scurry.stopping import fan
    >>> rule = fan([[2, 1, -1], [1, 1, 1], [-2, 1, -1], [-1, -1, 1]], gamma=1, bin_width=2, order="natural")
    >>> rule.decide([[1, -1, 0], [9, -9, -9]])
    Decisions(decision=array([ True, False]), n_models_used=array([1, 3]))
    """

    gamma: float
    bin_width: float
    decision_threshold: float
    bin_offset: NDArray[np.int64]
    bins: FloatArray
    mean: FloatArray
    deviation: FloatArray

    ARRAYS: ClassVar[dict[str, type]] = ScoreRule.ARRAYS | {
        "bin_offset": np.int64,
        "bins": np.float64,
        "mean": np.float64,
        "deviation": np.float64,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        n_bins = len(self.bins)
        if self.bin_offset.shape != (self.n_models,) or self.bin_offset[0] != 0 or self.bin_offset[-1] != n_bins:
            raise InputError(f"bin_offset must lead from 0 to {n_bins} in {self.n_models} entries")
        if (np.diff(self.bin_offset) < 0).any() or not len(self.mean) == len(self.deviation) == n_bins:
            raise InputError("bin_offset must ascend, and mean and deviation have one entry per bin")
        if not self.gamma >= 0.0 or not 0.0 < self.bin_width < np.inf:
            raise InputError(
                f"gamma must not be negative and bin_width positive and finite, got {self.gamma} and {self.bin_width}"
            )

    def widened(self, amount: float) -> Self:
        """Add `amount` to `gamma`: every row stops at the same position or later."""
        if not 0.0 <= amount < np.inf:
            raise InputError(f"amount must be finite and not negative, got {amount}")
        return replace(self, gamma=self.gamma + amount, mean_cost=None, n_mistakes=None)

    def ratios(self, position: int, sums: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """How many deviations each running sum is from the decision threshold, and whether it is above.

        The ratio is NaN in a bin that was never seen, and infinite where all rows of a bin ended alike.
        """
        first, past = self.bin_offset[position : position + 2]
        if first == past:
            return np.full(len(sums), np.nan), np.zeros(len(sums), dtype=np.bool_)
        number = np.floor(sums / self.bin_width)
        found = np.minimum(first + np.searchsorted(self.bins[first:past], number), past - 1)
        excess = sums - self.mean[found] - self.decision_threshold
        with np.errstate(divide="ignore"):
            ratio = np.divide(np.abs(excess), self.deviation[found], out=np.zeros(len(sums)), where=excess != 0.0)
        ratio[self.bins[found] != number] = np.nan
        return ratio, excess > 0.0

    def _start(self, n_rows: int) -> FloatArray:
        return np.zeros(n_rows)

    def _full_decision(self, scores: FloatArray, sums: FloatArray) -> NDArray[np.bool_]:
        return is_positive(scores, sums, self.step, self.decision_threshold)

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        ratio, above = self.ratios(position, sums)
        leaves = np.searchsorted(self.gamma + amounts, ratio, side="left")
        return np.where(np.isnan(ratio), NEVER, leaves), above


def fan(
    scores: ArrayLike,
    *,
    max_disagreement: float | None = None,
    gamma: float | None = None,
    bin_width: float = 0.1,
    order: str | ArrayLike = "individual-mse",
    y: ArrayLike | None = None,
    costs: ArrayLike | None = None,
    decision_threshold: float = 0.0,
    decisions: ArrayLike | None = None,
    min_rows: int = 1,
    ddof: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> FanRule:
    """Fit the stopping rule of Fan et al. on calibration scores.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models)
        What each base model adds to each calibration row.
    max_disagreement : float, optional
        Find the smallest `gamma` with at most this share of calibration rows answered differently.
    gamma : float, optional
        How many deviations beyond the threshold stop a row. Give this or `max_disagreement`.
    bin_width : float
        Of the running sum; in its units.
    order : {"natural", "random", "individual-mse", "greedy-mse"} or permutation of the models
    y : array of shape (n_rows,), optional
        Labels for the orders by mean squared error; by default the full ensemble's decisions.
    costs : float or array of shape (n_models,), optional
        The cost of evaluating a model; 1 by default.
    decision_threshold : float
        A row is positive iff its scores sum to at least this.
    decisions : bool array of shape (n_rows,), optional
        What the full ensemble decides, where that may differ from the sum of `scores` in the last digit.
    min_rows : int
        Bins with fewer calibration rows count as never seen.
    ddof : {0, 1}
        Deviation of the rows in a bin (0) or estimate for all rows like them (1).
    random_state : int or numpy Generator, optional
        For ``order="random"``.

    Returns
    -------
    FanRule

    Examples
    --------
    >>> from scurry.stopping import fan
    >>> rule = fan([[2, 1, -1], [1, 1, 1], [-2, 1, -1], [-1, -1, 1]], max_disagreement=0, bin_width=2)
    >>> rule
    FanRule(n_models=3, n_rows=4, mean_cost=1, n_mistakes=0)
    """
    array = score_array(scores)
    grid = on_grid(array)
    positive = calibration_decisions(array, grid, decision_threshold, decisions)
    if (gamma is None) == (max_disagreement is None):
        raise InputError("give max_disagreement (to find gamma) or gamma itself, not both or neither")
    if ddof not in (0, 1) or min_rows < 1:
        raise InputError(f"ddof must be 0 or 1 and min_rows at least 1, got {ddof} and {min_rows}")
    found = resolve_order(order, array, positive if y is None else y, random_state)
    rule = FanRule(
        order=found,
        costs=model_costs(costs, len(found)),
        step=grid.step,
        n_rows=len(positive),
        gamma=0.0 if gamma is None else float(gamma),
        bin_width=float(bin_width),
        decision_threshold=float(decision_threshold),
        **_bin_statistics(grid.values[found], float(bin_width), min_rows, ddof),
    )
    if max_disagreement is not None:
        rule = replace(rule, gamma=_smallest_gamma(rule, grid.values, positive, max_disagreement))
    return rule.calibrated(array, positive)


def _bin_statistics(values: FloatArray, bin_width: float, min_rows: int, ddof: int) -> dict[str, Any]:
    """The bins of every position but the last, given scores in evaluation order, shape (n_models, n_rows)."""
    if not 0.0 < bin_width < np.inf:
        raise InputError(f"bin_width must be positive and finite, got {bin_width}")
    sums, full = np.zeros(values.shape[1]), values.sum(axis=0)
    positions = []
    for scores in values[:-1]:
        sums += scores
        difference = sums - full
        bins, member, count = np.unique(np.floor(sums / bin_width), return_inverse=True, return_counts=True)
        mean = np.bincount(member, difference) / count
        squares = np.bincount(member, np.square(difference - mean[member]))
        deviation = np.sqrt(squares / np.maximum(count - ddof, 1))
        positions.append(np.stack([bins, mean, deviation])[:, count >= min_rows])
    sizes = [position.shape[1] for position in positions]
    bins, mean, deviation = np.concatenate([np.empty((3, 0)), *positions], axis=1)
    return {"bin_offset": np.cumsum([0, *sizes]), "bins": bins, "mean": mean, "deviation": deviation}


def _smallest_gamma(rule: FanRule, values: FloatArray, positive: NDArray[np.bool_], max_disagreement: float) -> float:
    """The smallest gamma with few enough mistakes: 0, or where the last surplus mistake ends.

    For gamma from one record of its ratios (or 0) up to the next, a row stops at the position of the next.
    """
    rows = np.arange(len(positive))
    sums, record = np.zeros(len(rows)), np.zeros(len(rows))
    begins, ends = [np.empty(0)], [np.empty(0)]
    for position, model in enumerate(rule.order[:-1]):
        sums += values[model, rows]
        ratio, above = rule.ratios(position, sums)
        higher = ratio > record
        wrong = higher & (above != positive[rows])
        begins.append(record[wrong])
        ends.append(ratio[wrong])
        record[higher] = ratio[higher]
        goes_on = ~np.isnan(ratio) & (record < np.inf)
        rows, sums, record = rows[goes_on], sums[goes_on], record[goes_on]
    begin, end = np.sort(np.concatenate(begins)), np.sort(np.concatenate(ends))
    gammas = np.concatenate([[0.0], end[end < np.inf]])
    n_mistakes = np.searchsorted(begin, gammas, side="right") - np.searchsorted(end, gammas, side="right")
    feasible = np.flatnonzero(n_mistakes <= mistake_budget(max_disagreement, len(positive)))
    if len(feasible) == 0:
        achievable = n_mistakes.min() / len(positive)
        raise InfeasibleError(
            f"no gamma keeps the disagreement at or below {max_disagreement:g}; {achievable:g} is possible", achievable
        )
    return float(gammas[feasible[0]])
