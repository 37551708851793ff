"""The methods that prune: their names, and `exact_path` for errors of your own. Linear programs are in `programs`.

*The papers' baselines*, which do not solve the whole problem.

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

*The primal-dual algorithm* of BudgetPrune.

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

*Exact pruning* by maximum closures, at one trade-off or at all of them.

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

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress, check_choice, check_instance, check_number, check_numbers, float_of, is_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.pruning.node_errors import adds_scores, score_errors, training_errors, with_mean_scores
from scurry.pruning.path import NestedPrunings, PruningPath, SeparatePrunings, solve_each, to_fraction
from scurry.pruning.problem import MAX_WEIGHT, PruningProblem, RowCharges, pose
from scurry.pruning.programs import dantzig_wolfe, linear_program, naive_program
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
    return solve_each(problem, "primal-dual", lambdas, partial(_solve_dual, problem, max_iterations), progress)


def _solve_dual(problem: PruningProblem, max_iterations: int, theta: float) -> tuple[NDArray[np.bool_], float]:
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


_ONE_BY_ONE = {
    "exact": at_lambdas,
    "lp": linear_program,
    "primal-dual": primal_dual,
    "dantzig-wolfe": dantzig_wolfe,
    "greedy-prune": greedy_prune,
}
_ALL_AT_ONCE = {
    "exact": whole_path,
    "independent": independent_path,
    "ccp": complexity_path,
    "error-only": error_path,
}
METHODS = (
    "exact", "lp", "naive", "primal-dual", "dantzig-wolfe", "independent", "ccp", "error-only", "greedy-prune",
)  # fmt: skip
"""What `method` of `scurry.prune` accepts: the exact path, the papers' solvers of the same objective, and baselines."""


def exact_path(
    forest: Forest,
    X_val: Any,
    *,
    node_errors: Any = None,
    n_error: float | None = None,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    progress: Progress | None = None,
) -> PruningPath:
    """Return the optimal prunings for all trade-offs; node errors may be your own.

    Parameters
    ----------
    forest : Forest
    X_val : array or DataFrame of shape (n_rows, n_features)
    node_errors : array of shape (n_nodes,), optional
        What each node gets wrong when it answers alone; by default the training rows not of its majority class, or
        the squared change of scores (see `scurry.prune`).
    n_error : float, optional
        What the errors are counted on: the error term is their sum over leaves divided by ``n_error * n_trees``.
        Needed with `node_errors`.
    feature_costs, groups, group_costs, step_cost, progress
        As in `scurry.prune`.

    Returns
    -------
    PruningPath

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [1, 0], [0, 1]]}
    >>> path = exact_path(scurry.Forest.from_trees([stump]), [[0.0], [1.0]], node_errors=[5, 1, 0], n_error=10)
    >>> path.errors, path.costs, path.lambdas
    (array([0.1, 0.5]), array([1., 0.]), array([0.4]))
    """
    check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
    if node_errors is not None:
        errors, n_counted = _check_node_errors(forest, node_errors, n_error)
    elif n_error is not None:
        raise InputError("n_error goes with node_errors; without them both come from the forest", argument="n_error")
    elif adds_scores(forest):
        forest, weight = with_mean_scores(forest)
        errors, n_counted = score_errors(forest, weight)
    else:
        errors, n_counted = training_errors(forest)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    return whole_path(pose(forest, RowCharges.of(forest, X_val, costs), errors, n_counted, costs), progress)


def check_choices(errors: str, method: str, lambdas: Any) -> None:
    """Check the options of `scurry.prune` that need no data, before anything is computed."""
    check_choice("errors", errors, ("training", "validation"))
    check_choice("method", method, METHODS)
    if lambdas is None and method not in _ALL_AT_ONCE:
        raise InputError(
            f"method {method!r} solves trade-offs one by one; pass lambdas=[…], rising", argument="lambdas"
        )


def solve(
    problem: PruningProblem, method: str, lambdas: Any, progress: Progress | None, rows: NDArray[Any] | None = None
) -> PruningPath:
    """Return the prunings that a method finds; arguments as of `scurry.prune`, and the rows where they are at hand."""
    if lambdas is None:
        return _ALL_AT_ONCE[method](problem, progress)
    wanted = _check_lambdas(lambdas)
    if method == "naive":
        if rows is None:
            raise InputError('method="naive" needs the rows in memory; use "lp"', argument="method")
        return naive_program(problem, problem.forest.apply(rows), wanted, progress)
    if method in _ONE_BY_ONE:
        return _ONE_BY_ONE[method](problem, wanted, progress)
    return _ALL_AT_ONCE[method](problem, progress).best_for(wanted)


def _check_node_errors(forest: Forest, node_errors: Any, n_error: float | None) -> tuple[NDArray[np.float64], float]:
    errors = check_numbers("node_errors", node_errors)
    if errors.shape != (forest.n_nodes,):
        raise InputError(
            f"node_errors has shape {errors.shape}, expected ({forest.n_nodes},): one for every node",
            argument="node_errors",
        )
    wrong = ~np.isfinite(errors) | (errors < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"node_errors[{at}] is {errors[at]:g}; an error count is finite and 0 or more", argument="node_errors"
        )
    return errors, check_number("n_error", n_error, above=0, hint=": the rows that node_errors are counted on")


def _check_lambdas(lambdas: Any) -> Sequence[Fraction]:
    """Return lambdas as fractions; a single number is a list of one."""
    given = [lambdas] if is_number(lambdas) else list(lambdas)
    if not given:
        raise InputError("lambdas is empty; pass at least one trade-off", argument="lambdas")
    for at, lam in enumerate(given):
        if not np.isfinite(float_of(lam)) or lam < 0:
            raise InputError(f"lambdas[{at}] is {lam!r}; a trade-off is a finite number, 0 or more", argument="lambdas")
        if at and lam <= given[at - 1]:
            raise InputError(f"lambdas must rise, but lambdas[{at}] is {lam} after {given[at - 1]}", argument="lambdas")
    return [to_fraction(lam) for lam in given]
