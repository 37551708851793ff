"""The primal-dual algorithm stays within the gap it reports."""

import numpy as np
import pytest

from scurry.pruning.solvers.primal_dual import primal_dual
from support.pruning_oracles import objectives_of, solved_case


@pytest.mark.parametrize("seed", range(20))
def test_primal_dual_is_within_its_gap(seed):
    _, exact, lambdas = solved_case(seed)
    found = primal_dual(exact.problem, lambdas)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    assert (found.lower_bounds <= optimum + 1e-9).all()
    assert (objectives_of(found, lambdas) >= optimum - 1e-9).all()
    assert (objectives_of(found, lambdas) <= optimum + np.maximum(found.gaps, 0) + 1e-9).all()


def test_primal_dual_closes_its_gap_with_time():
    _, exact, lambdas = solved_case(4)
    gaps = [primal_dual(exact.problem, lambdas, max_iterations=n).gaps.max() for n in (5, 50, 2000)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.2 * gaps[0]
