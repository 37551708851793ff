"""The three solvers against one another: sweeps, the paper's program, rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from scurry.stopping import solve
from scurry.stopping.votes.mixture import Mixture
from scurry.stopping.votes.solvers import mixture_outcomes
from support.vote_oracles import broken, problems, relative_gap


@settings(max_examples=50, deadline=None)
@given(problems(max_voters=40))
def test_the_papers_program_has_the_same_optimum(problem):
    n_voters, alpha, method, weights, cap = problem
    rule = solve(n_voters, alpha, method, weights, max_conditional=cap)
    oracle = solve(n_voters, alpha, method, weights, solver="lp", max_conditional=cap)
    assert rule.objective == pytest.approx(oracle.objective, rel=1e-7, abs=1e-7)
    assert oracle.lower_bound <= rule.objective * (1 + 1e-9)
    assert relative_gap(rule) <= 1e-9
    assert broken(rule) <= 1e-9


@pytest.mark.parametrize("shape", ["random", "sparse", "u-shaped", "lopsided"])
@pytest.mark.parametrize("method", ["minimean", "minimixed"])
def test_the_papers_program_at_its_largest(method, shape):
    n_voters, rng = 61, np.random.default_rng(5)
    weights = {
        "random": rng.random(62),
        "sparse": np.isin(np.arange(62), [0, 3, 29, 33, 61]) * 1.0,
        "u-shaped": np.bincount(rng.binomial(61, rng.beta(0.3, 0.4, 5000)), minlength=62) + 0.5,
        "lopsided": np.bincount(rng.binomial(61, rng.beta(9.0, 0.7, 5000)), minlength=62) + 0.5,
    }[shape]
    rule = solve(n_voters, 1e-3, method, weights)
    assert rule.objective == pytest.approx(solve(n_voters, 1e-3, method, weights, solver="lp").objective, rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(problems(max_voters=25))
def test_rational_arithmetic_has_the_same_optimum(problem):
    n_voters, alpha, method, weights, cap = problem
    rule = solve(n_voters, alpha, method, weights, max_conditional=cap)
    exact = solve(n_voters, alpha, method, weights, solver="exact", max_conditional=cap).exact
    assert exact.objective == exact.lower_bound
    assert rule.objective == pytest.approx(float(exact.objective), rel=1e-10, abs=1e-12)
    assert rule.lower_bound <= float(exact.objective) * (1 + 1e-15)


def test_exact_outcomes_of_every_n():
    rule = solve(15, 0.02, "minimixed", solver="exact")
    mixture = Mixture(list(rule.exact.weights), [p.thresholds for p in rule.policies], None, None)
    votes, disagreement = mixture_outcomes(mixture)
    assert max(disagreement) == Fraction(1, 50)
    np.testing.assert_allclose(rule.expected_votes(), [float(v) for v in votes], rtol=1e-14)
