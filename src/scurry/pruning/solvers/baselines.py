"""The papers' baselines, which do not solve the whole problem.

- *Independent* (ensemble-pruning, section 6): every tree is pruned optimally as if it were alone, so no cost is shared.
- *CCP*, cost-complexity pruning (Breiman et al. 1984): every tree's weakest links go first, by g(h) = (R(h) - R(T_h)) /
  (leaves of T_h - 1), at one level alpha for all trees. Costs do not count.
- *Error alone* (ensemble-pruning, section 3, (IP0)): every tree has as few errors as it can, then as few splits. Costs
  do not count, and there is one such pruning.
- *GreedyPrune* (budgetprune, section 5): round by round, all splits on one feature go, the feature of least loss.

The first three are one algorithm: a split leaves its tree at the level where its gain no longer pays for its price. The
price of a split is its cost for the first, and 1 for the second; the third is where the second begins.

Deviations from the papers:

1. GreedyPrune's "lowest training error and average feature cost" is taken as the lowest error + lambda * cost, the
   objective itself, and its answer is the best of all rounds. `greedy_rounds` has them all.
2. Where groups of features have a cost, GreedyPrune may also drop a whole group in one round: dropping its features
   one by one saves nothing until the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.pruning.path import NestedPrunings, PruningPath, SeparatePrunings, solve_each
from scurry.pruning.problem import PruningProblem
from scurry.pruning.refine import FamilyDrops, families


def independent_path(problem: PruningProblem, progress: Progress | None = None) -> PruningPath:
    """Prune each tree optimally by itself, for every trade-off.

    Parameters
    ----------
    problem : PruningProblem
    progress : callable, optional

    Returns
    -------
    PruningPath
    """
    closure = problem.closure
    unshared = closure.item_cost[closure.item_of_purchase].astype(np.float64)
    price = closure.cost.astype(np.float64) + np.bincount(closure.item_node, unshared, closure.n_nodes)
    return _by_levels(problem, "independent", price, problem.error_unit / problem.cost_unit, progress)


def complexity_path(problem: PruningProblem, progress: Progress | None = None) -> PruningPath:
    """Prune all trees by their size, at one level of alpha, for every level.

    Parameters
    ----------
    problem : PruningProblem
    progress : callable, optional

    Returns
    -------
    PruningPath
        Its `lambdas` are the levels alpha, in error per leaf.
    """
    return _by_levels(problem, "ccp", np.ones(problem.n_splits), problem.error_unit, progress)


def error_path(problem: PruningProblem, progress: Progress | None = None) -> PruningPath:
    """Prune each tree to its fewest errors, and to the fewest splits with which it has no more.

    Parameters
    ----------
    problem : PruningProblem
    progress : callable, optional

    Returns
    -------
    PruningPath
        One pruning, and no lambdas.
    """
    level = _levels(problem, np.ones(problem.n_splits), progress)
    return PruningPath(problem, "error-only", NestedPrunings((level > 0).astype(np.int32), 1), [])


def _levels(problem: PruningProblem, price: NDArray[np.float64], progress: Progress | None) -> NDArray[np.float64]:
    """Return for each split the gain per price at which it leaves its tree."""
    level: NDArray[np.float64] = _core.tree_levels(
        problem.closure.parent, problem.closure.gain.astype(np.float64), price
    )
    if progress is not None:
        progress(problem.n_splits, problem.n_splits)
    return level


def _by_levels(
    problem: PruningProblem, method: str, price: NDArray[np.float64], unit: Fraction, progress: Progress | None
) -> PruningPath:
    """Return the prunings at every level of gain per price; `unit` turns a level into a lambda."""
    level = _levels(problem, price, progress)
    steps = np.unique(level[(level > 0) & np.isfinite(level)])
    # Splits worth keeping at any level are in the last pruning too.
    kept_until = np.searchsorted(steps, level, side="right") + (level == np.inf)
    return PruningPath(
        problem,
        method,
        NestedPrunings(kept_until.astype(np.int32), len(steps) + 1),
        [Fraction(step) * unit for step in steps.tolist()],
    )


def greedy_prune(problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None) -> PruningPath:
    """Drop features one after the other for each trade-off, with `solve_each`."""
    drops = FamilyDrops(problem.closure, families(problem))

    def best_round(theta: float) -> tuple[NDArray[np.bool_], float]:
        return min(drops.rounds(theta), key=lambda met: met[1])[0], math.nan

    return solve_each(problem, "greedy-prune", lambdas, best_round, progress)


def greedy_rounds(problem: PruningProblem, lam: Fraction) -> PruningPath:
    """Return every pruning that GreedyPrune meets for one trade-off, from the whole forest to bare roots.

    Parameters
    ----------
    problem : PruningProblem
    lam : Fraction

    Returns
    -------
    PruningPath
        One pruning for each round, and one lambda.
    """
    rounds = FamilyDrops(problem.closure, families(problem)).rounds(float(problem.theta(lam)))
    return PruningPath(problem, "greedy-prune", SeparatePrunings([kept for kept, _ in rounds]), [lam])
