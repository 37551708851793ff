"""The papers' linear program: the same optima as the exact path, integral where the naive program is not."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from scurry import Forest
from scurry.pruning import exact_path
from scurry.pruning.lp import level_set, linear_program
from support.pruning_oracles import objectives_of, solved_case


@pytest.mark.parametrize("seed", range(20))
def test_linear_program_finds_the_optimum(seed):
    _, exact, lambdas = solved_case(seed)
    found = linear_program(exact.problem, lambdas)
    optimum = [float(exact.objective(lam)) for lam in lambdas]
    np.testing.assert_allclose(objectives_of(found, lambdas), optimum, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lower_bounds, optimum, rtol=1e-9, atol=1e-9)


def test_the_naive_program_is_fractional_where_the_papers_is_not():
    """(IP1) on the papers' own counterexample: one row, feature 0 at the root, feature 1 at node 2, leaf 3 reached."""
    # z1 ... z5, w1, w2; minimise 4 z1 + z3 + 2 w1 + w2.
    objective = [4, 0, 1, 0, 0, 2, 1]
    once = [[1, 0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0]]
    used = [[0, 0, 0, 1, 0, -1, 0], [0, 0, 1, 0, 0, -1, 0], [0, 0, 0, 1, 0, 0, -1]]
    naive = linprog(objective, A_ub=used, b_ub=[0] * 3, A_eq=once, b_eq=[1] * 3, bounds=(0, 1), method="highs")
    assert naive.fun == 2
    assert naive.x.tolist() == [0, 1, 0.5, 0.5, 0.5, 0.5, 0.5]
    # It is an extreme point: seven constraints that are tight there are independent.
    tight = np.array([*once, *used, [1, 0, 0, 0, 0, 0, 0]])
    assert np.linalg.matrix_rank(tight) == 7

    tree = {
        "feature": [0, -1, 1, -1, -1],
        "threshold": [0.5] * 5,
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5]] * 5,
    }
    data = {"node_errors": [4, 0, 1, 0, 0], "n_error": 1, "feature_costs": [2, 1]}
    exact = exact_path(Forest.from_trees([tree]), [[1.0, 0.0]], **data)
    assert exact.objective(Fraction(1)) == 3
    assert linear_program(exact.problem, [Fraction(1)]).objectives.tolist() == [3]


def test_level_sets_avoid_noise():
    assert level_set(np.array([1.0, 1e-13, 1 - 1e-13, 0.0])).tolist() == [True, False, True, False]
    assert level_set(np.array([0.3, 0.3 - 1e-12, 0.0])).tolist() == [False, False, False]
    assert level_set(np.array([1.0, 0.7, 0.7])).tolist() == [True, True, True]
