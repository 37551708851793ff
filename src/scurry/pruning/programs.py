"""Linear programs that prune, solved by HiGHS: the papers' integer programs, and a decomposition of theirs.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scurry import _core
from scurry.checks import Progress
from scurry.errors import ScurryError
from scurry.pruning.path import PruningPath, solve_each
from scurry.pruning.problem import PruningProblem


def linear_program(
    problem: PruningProblem, lambdas: Sequence[Fraction], progress: Progress | None = None
) -> PruningPath:
    """Solve the linear relaxation for each trade-off, by `solve_each`."""
    return _solve_relaxed("lp", Relaxation(problem), lambdas, progress)


def _solve_relaxed(
    method: str, relaxation: Relaxation | NaiveRelaxation, lambdas: Sequence[Fraction], progress: Progress | None
) -> PruningPath:
    def solve(theta: float) -> tuple[NDArray[np.bool_], float]:
        value, share = relaxation.solve(theta)
        return level_set(share), value

    return solve_each(relaxation.problem, method, lambdas, solve, progress)


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
        self.above = _above(forest.parent)
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
    return _solve_relaxed("naive", NaiveRelaxation(problem, leaves), lambdas, progress)


class NaiveRelaxation:
    """The constraints of (IP1) over z and what rows pay, in this order.

    Parameters
    ----------
    problem : PruningProblem
    leaves : int32 array of shape (n_rows, n_trees)
    """

    def __init__(self, problem: PruningProblem, leaves: NDArray[np.int32]) -> None:
        self.problem, self.above = problem, _above(problem.forest.parent)
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


def _above(parent: NDArray[np.int32]) -> sparse.csr_array:
    """Return a row for each node with ones at the node and all nodes above it."""
    nodes = above = np.arange(len(parent), dtype=np.int32)
    row, column = [], []
    while len(nodes):
        row.append(nodes)
        column.append(above)
        nodes, above = nodes[parent[above] >= 0], parent[above[parent[above] >= 0]]
    at = (np.concatenate(row), np.concatenate(column))
    return sparse.csr_array((np.ones(len(at[0])), at), (len(parent), len(parent)))


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
