"""The papers' linear programs: the same optima as the exact path, integral where the naive program is not."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest
from scurry.errors import InputError
from scurry.pruning import exact_path
from scurry.pruning.methods import (
    solve,
)
from scurry.pruning.programs import dantzig_wolfe, level_set, linear_program, naive_program
from support.pruning_oracles import (
    objectives_of,
    solved_case,
)


@pytest.mark.parametrize("method", [dantzig_wolfe, linear_program])
@pytest.mark.parametrize("seed", range(20))
def test_programs_find_the_optimum(method, seed):
    _, exact, lambdas = solved_case(seed)
    found = method(exact.problem, lambdas)
    optimum = [float(exact.objective(lam)) for lam in lambdas]
    np.testing.assert_allclose(objectives_of(found, lambdas), optimum, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lower_bounds, optimum, rtol=1e-9, atol=1e-9)


def test_integral_where_the_naive_program_is_fractional():
    """The papers' counterexample to (IP1); the next test has it as a program."""
    tree = {
        "feature": [0, -1, 1, -1, -1],
        "threshold": [0.5] * 5,
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5]] * 5,
    }
    data = {"node_errors": [4, 0, 1, 0, 0], "n_error": 1, "feature_costs": [2, 1]}
    exact = exact_path(Forest.from_trees([tree]), [[1.0, 0.0]], **data)
    assert dantzig_wolfe(exact.problem, [Fraction(1)]).objectives.tolist() == [3]


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
    path = naive_program(exact.problem, exact.problem.forest.apply([[1.0, 0.0]]), [Fraction(1)])
    assert path.lower_bounds.tolist() == [2]
    assert path.objectives[0] >= 3


@pytest.mark.parametrize("seed", range(12))
def test_the_naive_program_proves_less(seed):
    instance, exact, lambdas = solved_case(seed)
    leaves = instance.forest.apply(instance.X)
    naive, tight = naive_program(exact.problem, leaves, lambdas), linear_program(exact.problem, lambdas)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    assert (naive.lower_bounds <= tight.lower_bounds + 1e-9).all()
    assert (objectives_of(naive, lambdas) >= optimum - 1e-9).all()
    np.testing.assert_allclose(naive.lower_bounds[0], optimum[0], atol=1e-9)  # nothing is paid for at lambda 0
    # Where its solution is a pruning, both programs have the same value.
    is_whole = np.isclose(naive.lower_bounds, objectives_of(naive, lambdas), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(naive.lower_bounds[is_whole], optimum[is_whole], rtol=1e-9, atol=1e-9)
    assert is_whole.any()


def test_the_naive_program_counts_steps_and_groups():
    """With every split worth keeping or none, its solution is whole, so that its value shows every charge."""
    X, y = load_wine(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X[::2], y[::2])
    costs = {"groups": [0] * 6 + [1] * 7, "group_costs": [3, 2], "feature_costs": [1] * 13, "step_cost": 0.25}
    path = scurry.prune(model, X[1:60:2], method="naive", lambdas=[1e-9, 10], **costs)
    np.testing.assert_allclose(path.lower_bounds, path.objectives, rtol=1e-7)
    exact = scurry.prune(model, X[1:60:2], **costs)
    np.testing.assert_allclose(path.objectives, [float(exact.objective(lam)) for lam in (1e-9, 10)], rtol=1e-9)
    with pytest.raises(InputError, match="needs the rows in memory"):
        solve(exact.problem, "naive", [1.0], None)


def test_level_sets_avoid_noise():
    assert level_set(np.array([1.0, 1e-13, 1 - 1e-13, 0.0])).tolist() == [True, False, True, False]
    assert level_set(np.array([0.3, 0.3 - 1e-12, 0.0])).tolist() == [False, False, False]
    assert level_set(np.array([1.0, 0.7, 0.7])).tolist() == [True, True, True]
