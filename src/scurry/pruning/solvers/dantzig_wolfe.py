"""Dantzig-Wolfe decomposition: a master program over prunings of single trees, generated as they are needed.

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
3. Its fractional optimum is turned into a pruning by a level set (see `lp.level_set`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scurry import _core
from scurry.checks import Progress
from scurry.pruning.path import PruningPath, solve_each
from scurry.pruning.problem import PruningProblem
from scurry.pruning.solvers.lp import level_set, minimise

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
