"""Dynamic scheduling: stop when running sums like this one nearly always end on the same side of the threshold.

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
is above the threshold. A row whose bin holds no calibration row is evaluated in full.

Deviations from the paper

1. ``bin_width`` is 0.1 by default, not 0.01: narrow bins hold too few rows and cause more mistakes on new rows.
2. ``gamma=None`` finds the smallest gamma that keeps a promised disagreement on the calibration rows. A row stops at
   the first position whose ratio exceeds gamma, so mistakes change only where a ratio is the largest of the row so far:
   the search over these is exact.
3. Sample deviations (``ddof=1``) and a least number of rows per bin are options; the paper says nothing about them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_count, check_number, check_random_state
from scurry.errors import InfeasibleError, InputError
from scurry.plan import ExitSide, SumRule, band_rule, to_int32
from scurry.stopping.scores.rule import (
    NEVER,
    FloatArray,
    ScoreFit,
    check_costs,
    check_decisions,
    check_scores,
    check_targets,
    is_positive,
    mistake_budget,
    resolve_order,
    round_to_grid,
)

_ROUNDING = 1e-4  # grid units: far above the error of products near 2**31, far below one unit


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FanFit(ScoreFit):
    """Stop once the running sum is more than `gamma` deviations away from the decision threshold.

    Mean and deviation are those of the bin that the sum falls into. `fan` returns this.

    Attributes
    ----------
    gamma : float
        Deviations beyond which a row stops.
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

    KIND: ClassVar[str] = "Fan rule"
    ARRAYS: ClassVar[dict[str, type]] = ScoreFit.ARRAYS | {
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
        check_number("gamma", self.gamma)
        check_number("bin_width", self.bin_width, above=0.0)

    def widen(self, amount: float) -> Self:
        """Return the rule with `amount` added to `gamma`: every row stops at the same position or later."""
        return replace(self, gamma=self.gamma + check_number("amount", amount), mean_cost=None, n_mistakes=None)

    def ratios(self, position: int, sums: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return how many deviations each running sum is away from the decision threshold, and whether it is above.

        The ratio is NaN in a bin without calibration rows, and infinite where all rows of a bin have the same
        difference from their full sum.
        """
        first, past = self.bin_offset[position : position + 2]
        if first == past:
            return np.full(len(sums), np.nan), np.zeros(len(sums), dtype=np.bool_)
        # The same expression as in `_measure_bins`, so that both put a sum into the same bin.
        number = np.floor(sums / self.bin_width)
        # A bin beyond the last is clipped here and made NaN below, where the numbers differ.
        found = np.minimum(first + np.searchsorted(self.bins[first:past], number), past - 1)
        excess = sums - self.mean[found] - self.decision_threshold
        with np.errstate(divide="ignore"):
            ratio = np.divide(np.abs(excess), self.deviation[found], out=np.zeros(len(sums)), where=excess != 0.0)
        ratio[self.bins[found] != number] = np.nan
        return ratio, excess > 0.0

    def stop_rule(self, step: float) -> SumRule:
        """Return the rule as a plan stores it: bins are pieces of a sum of integers, in units of `step`.

        A piece is negative up to the lower threshold of its bin, and positive from the upper one on.
        """
        offset, edges, sides = [0, 0], [np.empty(0, np.int32)], [np.zeros(1, np.uint8)]
        for position in range(self.n_models - 1):
            bins = slice(*self.bin_offset[position : position + 2])
            start, stop = (_first_unit(self.bins[bins] + past, self.bin_width, step) for past in (0, 1))
            middle = (self.decision_threshold + self.mean[bins]) / step
            reach = self.gamma * self.deviation[bins] / step
            # A row exactly `gamma` deviations away continues; rounding in these products must not stop it.
            lower, upper = np.ceil(middle - reach - _ROUNDING), np.floor(middle + reach + _ROUNDING) + 1
            cuts = np.stack([start, np.clip(lower, start, stop), np.clip(upper, start, stop), stop], axis=1)
            values, codes = _merge_bins(to_int32(cuts))
            edges.append(values)
            sides.append(codes)
            offset.append(offset[-1] + len(values))
        sides.append(np.zeros(1, np.uint8))
        never = np.full(self.n_models - 1, np.inf)
        return band_rule(
            step,
            -never,
            never,
            piece_offset=np.array([*offset, offset[-1]], np.uint32),
            piece_edges=np.concatenate(edges),
            piece_sides=np.concatenate(sides),
        )

    def _start(self, n_rows: int) -> FloatArray:
        return np.zeros(n_rows)

    def _full_decision(self, scores: FloatArray, sums: FloatArray) -> NDArray[np.bool_]:
        return is_positive(scores, sums, self.step, self.decision_threshold)

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        ratio, above = self.ratios(position, sums)
        # No row of calibration tells how such a sum ends, so a row in an empty bin must not stop later either.
        leaves = np.searchsorted(self.gamma + amounts, ratio, side="left")
        return np.where(np.isnan(ratio), NEVER, leaves), above


def _first_unit(bins: NDArray[np.float64], bin_width: float, step: float) -> NDArray[np.float64]:
    """Return the least sum, in grid units, that `FanFit` puts into each bin or a later one."""
    units = np.ceil(bins * bin_width / step)
    # The quotient by which a fit finds the bin of a sum is rounded, so its neighbours may belong there instead.
    units -= np.floor((units - 1) * step / bin_width) >= bins
    units += np.floor(units * step / bin_width) < bins
    return units


def _merge_bins(cuts: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return ascending edges and the sides between them, from bins cut in negative, undecided and positive parts."""
    edge = cuts.ravel()
    # What follows each of a bin's four edges; outside all bins every tree is evaluated.
    side = np.tile(
        np.array([ExitSide.NEGATIVE, ExitSide.CONTINUE, ExitSide.POSITIVE, ExitSide.FULL], np.uint8), len(cuts)
    )
    # Of equal edges the last one says what follows.
    keep = np.append(edge[1:] != edge[:-1], True) if len(edge) else np.empty(0, np.bool_)
    return edge[keep], np.concatenate([np.array([ExitSide.FULL], np.uint8), side[keep]])


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
    random_state: RandomState = None,
) -> FanFit:
    """Fit the stopping rule of Fan et al. on calibration scores.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models)
        What each base model adds to the sum of each calibration row.
    max_disagreement : float, optional
        Find the smallest `gamma` with at most this share of calibration rows answered differently.
    gamma : float, optional
        Deviations beyond which a row stops. Give this or `max_disagreement`.
    bin_width : float
        Width of the bins of the running sum, in its units.
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
        Bins with fewer calibration rows count as empty.
    ddof : {0, 1}
        Divide the squares in a bin by the number of its rows (0), or by one less (1).
    random_state : int, Generator or None
        For ``order="random"``.

    Returns
    -------
    FanFit

    Examples
    --------
    >>> from scurry.stopping import fan
    >>> rule = fan([[2, 1, -1], [1, 1, 1], [-2, 1, -1], [-1, -1, 1]], max_disagreement=0, bin_width=2)
    >>> rule
    FanFit(n_models=3, n_rows=4, mean_cost=1, n_mistakes=0)
    """
    array = check_scores(scores)
    grid = round_to_grid(array)
    positive = check_decisions(array, grid, decision_threshold, decisions)
    if (gamma is None) == (max_disagreement is None):
        raise InputError("give max_disagreement (to find gamma) or gamma itself, not both or neither")
    if ddof not in (0, 1):
        raise InputError(f"ddof must be 0 or 1, got {ddof!r}", argument="ddof")
    target, rng = positive if y is None else check_targets(y, len(array)), check_random_state(random_state)
    found = resolve_order(order, array, target, rng)
    rule = FanFit(
        order=found,
        costs=check_costs(costs, len(found)),
        step=grid.unit,
        n_rows=len(positive),
        gamma=0.0 if gamma is None else check_number("gamma", gamma),
        bin_width=check_number("bin_width", bin_width, above=0.0),
        decision_threshold=float(decision_threshold),
        **_measure_bins(grid.values[found], float(bin_width), check_count("min_rows", min_rows), ddof),
    )
    if max_disagreement is not None:
        rule = replace(rule, gamma=_find_smallest_gamma(rule, grid.values, positive, max_disagreement))
    return rule.measure(array, positive)


def _measure_bins(values: FloatArray, bin_width: float, min_rows: int, ddof: int) -> dict[str, Any]:
    """Return the bins of every position but the last, given scores in evaluation order, shape (n_models, n_rows)."""
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
    # The empty array makes an ensemble of one model, which has no bins, no special case.
    sizes = [position.shape[1] for position in positions]
    bins, mean, deviation = np.concatenate([np.empty((3, 0)), *positions], axis=1)
    return {"bin_offset": np.cumsum([0, *sizes]), "bins": bins, "mean": mean, "deviation": deviation}


def _find_smallest_gamma(
    rule: FanFit, values: FloatArray, positive: NDArray[np.bool_], max_disagreement: float
) -> float:
    """Return the smallest gamma with few enough mistakes: 0, or where the last surplus mistake ends."""
    # For gamma from one record of its ratios (or 0) up to the next, a row stops at the position of the next. So a
    # wrong answer at a record counts for an interval of gammas; mistakes at a gamma are intervals begun less ended.
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
        # A row in an empty bin is evaluated in full, and nothing exceeds an infinite record.
        continues = ~np.isnan(ratio) & (record < np.inf)
        rows, sums, record = rows[continues], sums[continues], record[continues]
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
