"""The methods that prune: their names, and `exact_path` for errors of your own.

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

*Dantzig-Wolfe decomposition*: a master program over prunings of single trees, generated as they are needed.

Paper: section 5 of Nan, Wang, Saligrama, "Optimally Pruning Decision Tree Ensembles With Feature Cost" (2016).

==================  ===============================================================
paper               here
==================  ===============================================================
alpha_j^{(t)}       the weight of a column, a pruning of tree t
q, r_t              duals of the coupling and of the convexity constraints
(LP4), (SUB1)       `_Master`, the step bottom up over all trees
==================  ===============================================================

Deviations from the paper:

1. The subproblems are solved for all trees bottom up, not as shortest paths.
2. HiGHS solves the master again after each round over all trees, rather than by a pivot for each new column.
3. Its fractional optimum is turned into a pruning by a level set (see `level_set`).

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

*The papers' integer programs*, solved through their linear relaxations by HiGHS.

Paper: (IP) of Nan, Wang, Saligrama, "Pruning Random Forests for Prediction on a Budget" (2016), which is (IP3) of
"Optimally Pruning Decision Tree Ensembles With Feature Cost" (2016). It has integral optimal solutions (Theorem 3.2).

The second paper begins with a naive program, (IP1): w_{k,i} >= z_h for every node h on a row's path below a split on
feature k. It has the same integral solutions, but its relaxation has fractional ones of lower value (section 4).

==========================  ===========================================================
papers                      here
==========================  ===========================================================
z_h                         a variable for every node: it is a leaf of the pruned tree
w_{k,i}^{(t)}, w_{k,i}      a variable for every purchase, and for every item
p(h)                        a row of `_above`: the node and all nodes above it
==========================  ===========================================================

Deviations from the papers:

1. Charges of rows that only one node causes have their w_{k,i}^{(t)} and w_{k,i} merged, and those of a node summed.
2. The objective is multiplied by n_error * n_trees, so that its coefficients are counts: the papers' own are of the
   order of a solver's tolerances.
3. The paper states (IP1) for one tree. Here its rows have one w_{k,i} for all trees, and rows with the same paths share
   theirs. Of a fractional solution, a level set is taken, as for the other program.

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
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scurry import _core
from scurry.checks import Progress, check_choice, check_instance, check_number, check_numbers, float_of, is_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError, ScurryError
from scurry.forest import Forest
from scurry.pruning.node_errors import adds_scores, score_errors, training_errors, with_mean_scores
from scurry.pruning.path import NestedPrunings, PruningPath, SeparatePrunings, solve_each, to_fraction
from scurry.pruning.problem import MAX_WEIGHT, PruningProblem, RowCharges, pose
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


def linear_program(
    problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None
) -> PruningPath:
    """Solve the linear relaxation for each trade-off, by `solve_each`."""
    relaxation = Relaxation(problem)

    def solve(theta: float) -> tuple[NDArray[np.bool_], float]:
        value, share = relaxation.solve(theta)
        return level_set(share), value

    return solve_each(problem, "lp", lambdas, solve, progress)


class Relaxation:
    """The constraints of (IP) over z, the splits' own charges, the purchases and the items, in this order.

    Parameters
    ----------
    problem : PruningProblem
    """

    def __init__(self, problem: PruningProblem) -> None:
        self.problem = problem
        forest, closure = problem.forest, problem.closure
        self.charged = np.flatnonzero(closure.cost > 0)
        n_own, n_purchases, n_items = len(self.charged), len(closure.item_node), closure.n_items
        self.above = _above(forest)
        above, buyers = self.above, problem.nodes[np.concatenate([self.charged, closure.item_node])]
        # Each path to a leaf is cut once; a charge is due unless its path is cut at or above the node.
        self.equal = sparse.vstack(
            [
                sparse.hstack([above[forest.is_leaf], sparse.csr_array((int(forest.is_leaf.sum()), len(buyers)))]),
                sparse.hstack([above[buyers], sparse.eye_array(len(buyers))]),
            ],
            format="csr",
        )
        self.equal.resize(self.equal.shape[0], self.equal.shape[1] + n_items)
        purchase = np.arange(n_purchases)
        used = sparse.csr_array(
            (np.ones(n_purchases), (purchase, forest.n_nodes + n_own + purchase)), (n_purchases, self.equal.shape[1])
        )
        item = self.equal.shape[1] - n_items + closure.item_of_purchase
        self.at_most = used - sparse.csr_array((np.ones(n_purchases), (purchase, item)), used.shape)

    def solve(self, theta: float) -> tuple[float, NDArray[np.float64]]:
        """Return the optimal value in units of error, and to which degree each split is kept.

        Parameters
        ----------
        theta : float

        Returns
        -------
        value : float
        share : float64 array of shape (n_splits,)
        """
        problem, closure = self.problem, self.problem.closure
        coefficients = np.concatenate(
            [
                problem.node_error.astype(np.float64),
                theta * closure.cost[self.charged],
                np.zeros(len(closure.item_node)),
                theta * closure.item_cost,
            ]
        )
        result = minimise(coefficients, at_most_0=self.at_most, equal_1=self.equal, largest=1)
        cut = self.above @ result.x[: problem.forest.n_nodes]
        return float(result.fun), 1.0 - cut[problem.nodes]


def naive_program(
    problem: PruningProblem,
    leaves: NDArray[np.int32],
    lambdas: Sequence[Fraction],
    progress: Progress | None = None,
) -> PruningPath:
    """Solve the linear relaxation of the naive program for each trade-off, by `solve_each`.

    Parameters
    ----------
    problem : PruningProblem
    leaves : int32 array of shape (n_rows, n_trees)
        Of the rows whose feature costs count.
    lambdas, progress
        As of `solve_each`.

    Returns
    -------
    PruningPath
        Its `lower_bounds` are the values of the relaxation, which may lie below every pruning.
    """
    relaxation = NaiveRelaxation(problem, leaves)

    def solve(theta: float) -> tuple[NDArray[np.bool_], float]:
        value, share = relaxation.solve(theta)
        return level_set(share), value

    return solve_each(problem, "naive", lambdas, solve, progress)


class NaiveRelaxation:
    """The constraints of (IP1) over z and what rows pay, in this order.

    Parameters
    ----------
    problem : PruningProblem
    leaves : int32 array of shape (n_rows, n_trees)
    """

    def __init__(self, problem: PruningProblem, leaves: NDArray[np.int32]) -> None:
        self.problem, self.above = problem, _above(problem.forest)
        forest, costs, n_nodes = problem.forest, problem.costs, problem.forest.n_nodes
        unit = float(problem.cost_unit) * len(leaves)
        prices = np.rint(np.array([*costs.feature_costs, *costs.group_costs]) / unit)
        kinds, n_alike = np.unique(leaves, axis=0, return_counts=True)
        charges_below = {leaf: _charges_below(problem, leaf) for leaf in np.unique(kinds).tolist()}
        pairs = [
            (kind * len(prices) + charge, node)
            for kind, reached in enumerate(kinds.tolist())
            for leaf in reached
            for node, charge in charges_below[leaf]
        ]
        payment, node = np.array(pairs, np.int64).reshape(-1, 2).T
        paid, payment = np.unique(payment, return_inverse=True)
        self.payments = n_alike[paid // len(prices)] * prices[paid % len(prices)]
        shape = (len(pairs), n_nodes + len(paid))
        at = np.arange(len(pairs))
        self.at_most = sparse.csr_array((np.ones(len(pairs)), (at, node)), shape) - sparse.csr_array(
            (np.ones(len(pairs)), (at, n_nodes + payment)), shape
        )
        self.equal = self.above[forest.is_leaf]
        self.equal.resize(self.equal.shape[0], shape[1])
        # A row that ends at a node has passed as many splits as the node is deep.
        n_rows = self.above.T @ np.bincount(leaves.ravel(), minlength=n_nodes)
        self.steps = np.rint(costs.step_cost / unit) * n_rows * forest.node_depth

    def solve(self, theta: float) -> tuple[float, NDArray[np.float64]]:
        """Return the optimal value in units of error, and to which degree each split is kept; see `Relaxation`."""
        problem = self.problem
        coefficients = np.concatenate([problem.node_error + theta * self.steps, theta * self.payments])
        result = minimise(coefficients, at_most_0=self.at_most, equal_1=self.equal, largest=1)
        cut = self.above @ result.x[: problem.forest.n_nodes]
        return float(result.fun), 1.0 - cut[problem.nodes]


def _charges_below(problem: PruningProblem, leaf: int) -> list[tuple[int, int]]:
    """Return each node on the path to a leaf with each charge that its predecessors cause."""
    forest, of_charge = problem.forest, np.stack(problem.costs.charges, axis=1)
    path, found, due = [leaf], [], set[int]()
    while (parent := int(forest.parent[path[-1]])) >= 0:
        path.append(parent)
    for node, child in pairwise(reversed(path)):
        due |= set(of_charge[forest.feature[node]].tolist()) - {-1}  # -1: free
        found += [(child, charge) for charge in sorted(due)]
    return found


def minimise(
    coefficients: NDArray[np.float64], *, at_most_0: sparse.csr_array, equal_1: sparse.csr_array, largest: float | None
) -> OptimizeResult:
    """Minimise ``coefficients @ x`` over x from 0 to `largest` by HiGHS.

    Parameters
    ----------
    coefficients : float64 array of shape (n,)
    at_most_0, equal_1 : sparse arrays of shape (any, n)
        Their products with x are at most 0, and equal to 1. `at_most_0` may have no rows.
    largest : float or None

    Returns
    -------
    OptimizeResult
        Of `scipy.optimize.linprog`.
    """
    n_bounds = at_most_0.shape[0]
    result = linprog(
        coefficients,
        A_ub=at_most_0 if n_bounds else None,  # there are none where every charge has one cause
        b_ub=np.zeros(n_bounds) if n_bounds else None,
        A_eq=equal_1,
        b_eq=np.ones(equal_1.shape[0]),
        bounds=(0, largest),
        method="highs",
    )
    if result.x is None:
        raise ScurryError(f"HiGHS found no solution of a linear program: {result.message}")
    return result


def level_set(share: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the splits above a level of an optimal fractional solution; almost every level gives an optimal pruning.

    Parameters
    ----------
    share : float64 array of shape (n_splits,)

    Returns
    -------
    bool array of shape (n_splits,)
        Those above the middle of the widest gap between shares, where the solver's rounding decides nothing.
    """
    values = np.unique(np.concatenate([[0.0, 1.0], np.clip(share, 0.0, 1.0)]))
    widest = int(np.argmax(np.diff(values)))
    level = float(values[widest] + values[widest + 1]) / 2
    return share > level


def _above(forest: Forest) -> sparse.csr_array:
    """Return a row for each node with ones at the node and all nodes above it."""
    parent = forest.parent
    nodes = above = np.arange(forest.n_nodes, dtype=np.int32)
    row, column = [], []
    while len(nodes):
        row.append(nodes)
        column.append(above)
        nodes, above = nodes[parent[above] >= 0], parent[above[parent[above] >= 0]]
    at = (np.concatenate(row), np.concatenate(column))
    return sparse.csr_array((np.ones(len(at[0])), at), (forest.n_nodes, forest.n_nodes))


_NO_GAIN = 1e-9  # relative to the master's value: a smaller improvement may be the solver's rounding


def dantzig_wolfe(
    problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None
) -> PruningPath:
    """Solve each trade-off by column generation, with `solve_each`."""
    return solve_each(problem, "dantzig-wolfe", lambdas, partial(_solve, problem), progress)


def _solve(problem: PruningProblem, theta: float) -> tuple[NDArray[np.bool_], float]:
    """Return an optimal pruning, and the best lower bound in units of error."""
    closure, n_trees = problem.closure, problem.forest.n_trees
    root_error = problem.node_error[problem.forest.tree_offset[:-1]].astype(np.float64)
    own = closure.gain - theta * closure.cost
    master = _Master(problem, theta)
    # Bare roots make the first master feasible; whole trees give its duals something to price.
    master.add(np.zeros(problem.n_splits, np.bool_), np.arange(n_trees))
    master.add(np.ones(problem.n_splits, np.bool_), np.arange(n_trees))
    bound = -np.inf
    while True:
        value, beta, convexity = master.solve()
        weight = own - np.bincount(closure.item_node, beta, closure.n_nodes)
        kept = _core.best_subtrees(closure.parent, weight).astype(np.bool_)
        optimum = root_error - np.bincount(problem.tree[kept], weight[kept], n_trees)
        reduced = optimum - convexity
        # Lagrange's bound: the master's value, lowered by what each tree's best new column could still gain.
        bound = max(bound, value + float(np.minimum(reduced, 0.0).sum()))
        improving = np.flatnonzero(reduced < -_NO_GAIN * max(abs(value), 1.0))
        if not len(improving) or master.add(kept, improving) == 0:
            return level_set(master.shares()), bound


class _Master:
    """The linear program over the prunings of single trees known so far."""

    def __init__(self, problem: PruningProblem, theta: float) -> None:
        self.problem, self.theta = problem, theta
        self.own = theta * problem.closure.cost - problem.closure.gain
        self.root_error = problem.node_error[problem.forest.tree_offset[:-1]]
        self.tree: list[int] = []
        self.columns: list[NDArray[np.int64]] = []  # the splits each keeps
        self.known: set[tuple[int, bytes]] = set()
        self.weight = np.zeros(0)

    def add(self, kept: NDArray[np.bool_], trees: NDArray[np.int64]) -> int:
        """Add the parts of a pruning that belong to these trees; return how many were new."""
        n_before = len(self.columns)
        for tree in trees.tolist():
            splits = np.flatnonzero(kept & (self.problem.tree == tree))
            if (key := (tree, splits.tobytes())) not in self.known:
                self.known.add(key)
                self.tree.append(tree)
                self.columns.append(splits)
        return len(self.columns) - n_before

    def solve(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Return the optimal value, the prices beta = -q of purchases, and r."""
        closure, n_columns, n_items = self.problem.closure, len(self.columns), self.problem.closure.n_items
        n_purchases, n_trees = len(closure.item_node), self.problem.forest.n_trees
        keeps = self._keeps()
        paid = sparse.csr_array(
            (-np.ones(n_purchases), (np.arange(n_purchases), closure.item_of_purchase)), (n_purchases, n_items)
        )
        convex = sparse.csr_array((np.ones(n_columns), (self.tree, np.arange(n_columns))), (n_trees, n_columns))
        error = self.root_error[self.tree] + self.own @ keeps
        result = minimise(
            np.concatenate([error, self.theta * closure.item_cost]),
            at_most_0=sparse.hstack([keeps[closure.item_node], paid], format="csr"),
            equal_1=sparse.hstack([convex, sparse.csr_array((n_trees, n_items))], format="csr"),
            largest=None,
        )
        self.weight = result.x[:n_columns]
        # Marginals of constraints "at most" are 0 or less but for rounding.
        return float(result.fun), np.maximum(-result.ineqlin.marginals, 0.0), result.eqlin.marginals

    def shares(self) -> NDArray[np.float64]:
        """Return to which degree the last optimum keeps each split."""
        shares: NDArray[np.float64] = self._keeps() @ self.weight
        return shares

    def _keeps(self) -> sparse.csr_array:
        """Return which column keeps which split, of shape (n_splits, n_columns)."""
        column = np.repeat(np.arange(len(self.columns)), [len(splits) for splits in self.columns])
        at = (np.concatenate(self.columns), column)
        return sparse.csr_array((np.ones(len(column)), at), (self.problem.n_splits, len(self.columns)))


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
