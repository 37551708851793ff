"""Column generation: the same optima as the exact path, integral on the papers' counterexample."""

from fractions import Fraction

import numpy as np
import pytest

from scurry import Forest
from scurry.pruning import exact_path
from scurry.pruning.solvers.dantzig_wolfe import dantzig_wolfe
from support.pruning_oracles import objectives_of, solved_case


@pytest.mark.parametrize("seed", range(20))
def test_column_generation_finds_the_optimum(seed):
    _, exact, lambdas = solved_case(seed)
    found = dantzig_wolfe(exact.problem, lambdas)
    optimum = [float(exact.objective(lam)) for lam in lambdas]
    np.testing.assert_allclose(objectives_of(found, lambdas), optimum, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lower_bounds, optimum, rtol=1e-9, atol=1e-9)


def test_integral_where_the_naive_program_is_fractional():
    """The papers' counterexample to (IP1); see test_lp."""
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
