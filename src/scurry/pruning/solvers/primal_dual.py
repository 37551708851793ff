"""Prune by BudgetPrune's primal-dual algorithm.

Paper: Algorithm 1 of Nan, Wang, Saligrama, "Pruning Random Forests for Prediction on a Budget" (2016).

===========================  ===========================================================================
paper                        here
===========================  ===========================================================================
beta_{k,i}^{(t)}             ``beta``, one for every purchase
w_{k,i}^{(t)}, w_{k,i}       ``used``, ``paid``
mu_{k,i}                     ``theta * item_cost - due``, in units of error
gamma                        ``step``
===========================  ===========================================================================

Deviations from the paper:

1. Given beta, a tree's best pruning is found bottom up, best(h) = min(e_h, beta_h + best(left) + best(right)) with
   beta_h the sum over the purchases of h, in place of a network solver.
2. The paper gives no step size. As in the authors' program, Polyak's step towards the best objective so far is used,
   shrunk by (1 + m) / (j + m) in iteration j with m = 500, for at most 50 iterations or until the gap is 1e-6.
3. The pruning returned is the best seen, not the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.pruning.path import PruningPath, solve_each
from scurry.pruning.problem import PruningProblem

MAX_ITERATIONS = 50
_SLOWNESS = 500
_SMALL_GAP = 1e-6


def primal_dual(
    problem: PruningProblem,
    lambdas: Sequence[Fraction],
    progress: Progress | None = None,
    *,
    max_iterations: int = MAX_ITERATIONS,
) -> PruningPath:
    """Alternate between trees and prices for each trade-off, with `solve_each`.

    The path's `lower_bounds` are the best dual values, its `gaps` the duality gaps.
    """
    return solve_each(problem, "primal-dual", lambdas, partial(_solve, problem, max_iterations), progress)


def _solve(problem: PruningProblem, max_iterations: int, theta: float) -> tuple[NDArray[np.bool_], float]:
    """Return the best pruning seen, and the best lower bound in units of error."""
    closure = problem.closure
    own = closure.gain - theta * closure.cost
    price = theta * closure.item_cost
    beta = np.zeros(len(closure.item_node))
    # Bare roots are a pruning of any forest, and cost nothing.
    best, best_value, bound = np.zeros(problem.n_splits, np.bool_), float(problem.root_error), -np.inf
    for iteration in range(1, max_iterations + 1):
        weight = own - np.bincount(closure.item_node, beta, closure.n_nodes)
        kept = _core.best_subtrees(closure.parent, weight).astype(np.bool_)
        due = np.bincount(closure.item_of_purchase, beta, len(price))
        paid = price < due
        dual = problem.root_error - weight[kept].sum() + (price - due)[paid].sum()
        value = problem.root_error - closure.gain_of(kept) + theta * closure.cost_of(kept)
        bound = max(bound, dual)
        if value < best_value:
            best, best_value = kept, value
        # A subgradient: a price rises where a node uses what nobody pays for, and falls where it is the other way.
        slope = kept[closure.item_node].astype(np.float64) - paid[closure.item_of_purchase]
        steepness = float(slope @ slope)
        if (best_value - bound) * float(problem.error_unit) < _SMALL_GAP or steepness == 0:
            break
        step = (1 + _SLOWNESS) / (iteration + _SLOWNESS) * (best_value - dual) / steepness
        beta = np.maximum(beta + step * slope, 0.0)
    return best, bound
