"""The cheapest mixture where all policies are listed, in floats and in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from scurry.stopping.votes.mixture import Column, Program, find_cheapest_mixture


def listed_columns(number, seed, n_policies=12):
    """Policies that are only their coordinates; the first never disagrees."""
    rng = np.random.default_rng(seed)
    time, risk = rng.integers(1, 20, n_policies), rng.integers(1, 50, n_policies)
    time[0], risk[0] = 20, 0
    return [Column(k, [number(int(time[k]))], [number(int(risk[k])) / 100]) for k in range(n_policies)]


@pytest.mark.parametrize("number", [float, Fraction])
@pytest.mark.parametrize("seed", range(10))
def test_the_cheapest_mixture_of_listed_policies(number, seed):
    columns = listed_columns(number, seed)

    def oracle(prices):
        return min(columns, key=lambda c: prices.time[0] * c.time[0] + prices.risk[0] * c.risk[0])

    program = Program([[1]], [[1]], [number(1) / 10], worst_case=False)
    slack = {"max_gap": 1e-12, "tolerance": 1e-12} if number is float else {}
    mixture = find_cheapest_mixture(20, program, oracle, columns[:1], number=number, **slack)
    expected = linprog(
        [float(c.time[0]) for c in columns],
        A_ub=[[float(c.risk[0]) for c in columns]],
        b_ub=[0.1],
        A_eq=[[1.0] * len(columns)],
        b_eq=[1.0],
    ).fun
    assert float(mixture.objective) == pytest.approx(expected, rel=1e-9)
    assert sum(mixture.weights) == pytest.approx(1)
    assert len(mixture.policies) <= 2  # as many as there are constraints
    if number is Fraction:
        assert mixture.objective == mixture.lower_bound
