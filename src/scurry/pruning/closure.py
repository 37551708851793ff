"""Exact pruning by maximum closures, at one trade-off or at all of them.

Papers: Nan, Wang, Saligrama, "Pruning Random Forests for Prediction on a Budget" (2016) and "Optimally Pruning Decision
Tree Ensembles With Feature Cost" (2016).

Deviations from the papers:

1. They solve the linear relaxation of (IP) for one lambda. Its constraints are those of a closure (see `problem`), so
   minimum cuts solve it, in integers and without tolerance. The tops of all trees are cut first: what is worth keeping
   without the splits below is worth keeping with them, and has paid for most of what those would have to buy.
2. A growing lambda only lowers weights, so optimal sets are nested, and the optimum for *every* lambda comes from
   divide and conquer: between two optimal sets, cut at the lambda where both are worth the same. If nothing beats them
   there, that lambda is a breakpoint; otherwise the better set parts the problem in two. The parts share no nodes.
3. Theorem 4.2 of the second paper, "only integral optimal solutions", does not hold with ties. Of several optimal
   prunings the one that keeps most splits is returned: splits that neither cost nor gain still refine probabilities.
4. Corollary 4.3 of the second paper overlooks that lambda reaches only the vertices of the lower hull; see `refine`.
5. The path starts at the optimum for lambda just above 0: splits that gain nothing and cost something are gone there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.pruning.path import NestedPrunings, PruningPath, SeparatePrunings
from scurry.pruning.problem import MAX_WEIGHT, PruningProblem


def whole_path(problem: PruningProblem, progress: Progress | None = None) -> PruningPath:
    """Return the optimal prunings for all trade-offs.

    Parameters
    ----------
    problem : PruningProblem
    progress : callable, optional
        Called as ``progress(n_settled, n_splits)``.

    Returns
    -------
    PruningPath
    """
    report = None if progress is None else lambda n_settled: progress(n_settled, problem.n_splits)
    gains, costs, kept_until = _core.closure_path(**problem.closure.arrays, progress=report)
    unit = problem.error_unit / problem.cost_unit
    lambdas = [Fraction(gain, cost) * unit for gain, cost in zip(gains.tolist(), costs.tolist(), strict=True)]
    return PruningPath(problem, "exact", NestedPrunings(kept_until, len(lambdas) + 1), lambdas, is_exact=True)


def at_lambdas(problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None) -> PruningPath:
    """Return the optimal pruning for each of some trade-offs, solved one by one.

    Parameters
    ----------
    problem : PruningProblem
    lambdas : sequence of Fraction
        Where exact arithmetic has no room for one, the nearest fraction that fits is used, and the path says so.
    progress : callable, optional
        Called as ``progress(n_solved, n_lambdas)``.

    Returns
    -------
    PruningPath
    """
    used, kept = [], []
    for n_solved, lam in enumerate(lambdas, start=1):
        theta = _nearest_with_room(problem, problem.theta(lam))
        used.append(theta * problem.error_unit / problem.cost_unit)
        kept.append(largest_closure(problem, theta))
        if progress is not None:
            progress(n_solved, len(lambdas))
    return PruningPath(problem, "exact", SeparatePrunings(kept), used, is_exact=True)


def largest_closure(problem: PruningProblem, theta: Fraction) -> NDArray[np.bool_]:
    """Return the splits of the largest optimal pruning where a unit of cost is worth `theta` units of gain."""
    kept: NDArray[np.uint8] = _core.largest_closure(
        **problem.closure.arrays, gain_weight=theta.denominator, cost_weight=theta.numerator
    )
    return kept.astype(np.bool_)


def _nearest_with_room(problem: PruningProblem, theta: Fraction) -> Fraction:
    """Return the fraction nearest to `theta` whose weights fit exact arithmetic."""
    gain = max(int(np.abs(problem.closure.gain).sum()), 1)
    cost = max(problem.closure.cost_of(np.ones(problem.n_splits, np.bool_)), 1)
    room = (MAX_WEIGHT - 1) // 2  # half for gains, half for costs
    if theta > gain and theta * cost > room:
        # A unit of cost outweighs all gains together: nothing that costs anything is kept, here or beyond.
        return Fraction(gain + 1)
    return theta.limit_denominator(max(min(room // gain, int(room / (theta * cost)) if theta else room), 1))
