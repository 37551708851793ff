"""Prunings that do not solve the whole problem: what the papers compare with.

- *Independent* (ensemble-pruning, section 6): every tree is pruned optimally as if it were alone, so no cost is shared.
- *CCP*, cost-complexity pruning (Breiman et al. 1984): every tree's weakest links go first, by g(h) = (R(h) - R(T_h)) /
  (leaves of T_h - 1), at one level alpha for all trees. Costs do not count.
- *GreedyPrune* (budgetprune, section 5): round by round, all splits on one feature go; the feature whose loss is best.

The first two are one algorithm: a tree's splits leave at the level where gain per price no longer pays, the price of a
split being its cost, or 1.

Deviations from the papers:

1. GreedyPrune's "lowest training error and average feature cost" is taken as the lowest error + lambda * cost, the
   objective itself, and its answer is the best of all rounds. `greedy_rounds` has them all.
2. Where groups of features have a cost, GreedyPrune may also drop a whole group in one round: dropping its features
   one by one saves nothing until the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.pruning.path import NestedPrunings, Progress, PruningPath, SeparatePrunings, solve_each
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
    unshared = problem.item_cost[problem.item_of_purchase].astype(np.float64)
    price = problem.cost.astype(np.float64)
    price += np.bincount(problem.item_node, unshared, problem.n_splits)
    return _by_levels(problem, "independent", price, problem.error_unit / problem.cost_unit, progress)


def complexity_path(problem: PruningProblem, progress: Progress | None = None) -> PruningPath:
    """Cost-complexity pruning: all trees at one level of alpha, for every level.

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


def _by_levels(
    problem: PruningProblem, method: str, price: NDArray[np.float64], unit: Fraction, progress: Progress | None
) -> PruningPath:
    level = _core.tree_levels(problem.parent, problem.gain.astype(np.float64), price)
    steps = np.unique(level[(level > 0) & np.isfinite(level)])
    kept_by = np.searchsorted(steps, level, side="right") + (level == np.inf)
    if progress is not None:
        progress(problem.n_splits, problem.n_splits)
    return PruningPath(
        problem,
        method,
        NestedPrunings(kept_by.astype(np.int32), len(steps) + 1),
        [Fraction(step) * unit for step in steps.tolist()],
    )


def greedy_prune(problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None) -> PruningPath:
    """Drop features one after the other, for each trade-off.

    Parameters
    ----------
    problem : PruningProblem
    lambdas : sequence of Fraction
    progress : callable, optional

    Returns
    -------
    PruningPath
    """
    drops = FamilyDrops(problem, families(problem))

    def best_round(theta: float) -> tuple[NDArray[np.bool_], float]:
        return min(_rounds(drops, theta), key=lambda met: met[1])[0], math.nan

    return solve_each(problem, "greedy-prune", lambdas, best_round, progress)


def greedy_rounds(problem: PruningProblem, lam: Fraction) -> PruningPath:
    """Every pruning GreedyPrune meets for one trade-off, from the whole forest to bare roots.

    Parameters
    ----------
    problem : PruningProblem
    lam : Fraction

    Returns
    -------
    PruningPath
        One pruning for each round, and one lambda.
    """
    rounds = _rounds(FamilyDrops(problem, families(problem)), float(problem.theta(lam)))
    return PruningPath(problem, "greedy-prune", SeparatePrunings([kept for kept, _ in rounds]), [lam])


def _rounds(drops: FamilyDrops, theta: float) -> Iterator[tuple[NDArray[np.bool_], float]]:
    """What is kept, and what it has lost, while the family of least loss is dropped again and again."""
    kept, lost = np.ones(drops.stretch.n_splits, np.bool_), 0.0
    yield kept, lost
    while kept.any():
        losses = drops.losses(kept, theta)
        family = int(np.argmin(losses))
        kept = drops.drop(kept, family)
        lost += losses[family]
        yield kept, lost
