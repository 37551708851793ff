"""The papers' integer program, solved through its linear relaxation by HiGHS.

Paper: (IP) of Nan, Wang, Saligrama, "Pruning Random Forests for Prediction on a Budget" (2016), which is (IP3) of
"Optimally Pruning Decision Tree Ensembles With Feature Cost" (2016). It has integral optimal solutions (Theorem 3.2).

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
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scurry.checks import Progress
from scurry.errors import ScurryError
from scurry.forest import Forest
from scurry.pruning.path import PruningPath, solve_each
from scurry.pruning.problem import PruningProblem


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
