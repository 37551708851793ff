"""The optimal vote rules: known answers, brute force over tiny votes, and lower bounds.

The three solvers against one another: sweeps, the paper's program, rational arithmetic.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import betainc

from scurry.errors import InputError
from scurry.stopping import solve
from scurry.stopping.votes.mixture import Mixture
from scurry.stopping.votes.solve import mixture_outcomes
from support import vote_oracles
from support.vote_oracles import broken, problems, relative_gap

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "stopping.json").read_text())["cases"]
METHODS = vote_oracles.METHODS


@pytest.mark.parametrize("solver", ["sweep", "exact"])
@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['N']}-{c['alpha']}-{c['method']}")
def test_known_optima(case, solver):
    rule = solve(case["N"], float(case["alpha"]), case["method"], solver=solver)
    assert rule.objective == pytest.approx(float(case["objective"]), rel=1e-12)
    assert relative_gap(rule) <= 1e-12
    assert rule.upper.tolist() == case["envelope_b_i"]
    known = case["disagreement_exact"]
    if case["method"] == "minimean":
        assert rule.mean_disagreement == pytest.approx(float(known), rel=1e-10, abs=1e-300)
    else:
        assert rule.disagreement().max() == pytest.approx(max(map(float, known)), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("case", [c for c in GOLDEN if c["alpha"] != "0"], ids=lambda c: f"{c['N']}-{c['method']}")
def test_exact_optima_are_proven(case):
    exact = solve(case["N"], float(case["alpha"]), case["method"], solver="exact").exact
    assert exact.objective == exact.lower_bound
    assert sum(exact.weights) == 1
    assert abs(exact.objective - Fraction(case["objective"])) < Fraction(1, 10**29)


@settings(max_examples=60, deadline=None)
@given(problems(max_voters=3))
def test_optimal_among_all_policies(problem):
    """Every deterministic policy is listed, and every mixture of them allowed."""
    n_voters, alpha, method, weights, cap = problem
    rule = solve(n_voters, alpha, method, weights, max_conditional=cap)
    best = vote_oracles.best_objective(n_voters, method, weights / weights.sum(), alpha, cap)
    assert rule.objective == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert broken(rule) <= 1e-9


@settings(max_examples=60, deadline=None)
@given(problems(max_voters=150))
def test_primal_and_dual_meet(problem):
    n_voters, alpha, method, weights, cap = problem
    rule = solve(n_voters, alpha, method, weights, max_conditional=cap)
    assert -1e-15 <= relative_gap(rule) <= 1e-9
    assert broken(rule) <= 1e-9


@pytest.mark.parametrize(("n_voters", "method"), [(1001, "minimixed"), (1000, "minimax"), (2001, "minimean")])
def test_primal_and_dual_meet_for_many_voters(n_voters, method):
    weights = np.bincount(np.random.default_rng(0).binomial(n_voters, 0.3, 500), minlength=n_voters + 1) + 0.5
    rule = solve(n_voters, 1e-3, method, weights)
    assert 0 < relative_gap(rule) <= 1e-10  # rounding is taken off the bound, so they never quite meet
    assert broken(rule) <= 1e-12
    assert sum(policy.weight for policy in rule.policies) == pytest.approx(1, abs=1e-14)


@settings(max_examples=25, deadline=None)
@given(problems(max_voters=60), st.floats(1.01, 20))
def test_more_disagreement_needs_fewer_votes(problem, factor):
    n_voters, alpha, method, weights, _ = problem
    assume(alpha * factor < 1)
    strict = solve(n_voters, alpha, method, weights)
    assert solve(n_voters, alpha * factor, method, weights).objective <= strict.objective * (1 + 1e-11)
    assert strict.objective <= solve(n_voters, 0.0, method, weights).objective * (1 + 1e-11)


@settings(max_examples=25, deadline=None)
@given(problems(max_voters=60))
def test_methods_relax_each_other(problem):
    """minimean drops constraints of minimixed; a cap lies between; minimax has the least worst case."""
    n_voters, alpha, _, weights, _ = problem
    mean, mixed = solve(n_voters, alpha, "minimean", weights), solve(n_voters, alpha, "minimixed", weights)
    capped = solve(n_voters, alpha, "minimean", weights, max_conditional=alpha)
    assert mean.objective <= mixed.objective * (1 + 1e-11)
    assert capped.objective == pytest.approx(mixed.objective, rel=1e-9, abs=1e-12)
    worst = solve(n_voters, alpha, "minimax")
    assert worst.objective <= mixed.expected_votes().max() * (1 + 1e-11)


@pytest.mark.parametrize("n_voters", [1, 2, 3, 10, 11])
@pytest.mark.parametrize("method", METHODS)
def test_no_disagreement_stops_when_decided(n_voters, method):
    rule = solve(n_voters, 0, method)
    assert rule.disagreement().max() == 0
    for n in (0, n_voters // 2, n_voters):
        for votes in vote_oracles.sequences(n_voters, n):
            asked, answer = vote_oracles.play(votes, vote_oracles.where(rule.policies[0]))
            positives, left = sum(votes[:asked]), n_voters - asked
            assert answer == (2 * n > n_voters)
            before = sum(votes[: asked - 1])
            assert 2 * positives > n_voters or 2 * (positives + left) <= n_voters
            assert 2 * before <= n_voters < 2 * (before + left + 1)  # not a vote earlier


def test_impossible_counts_let_a_vote_without_disagreement_end_early():
    weights = np.zeros(102)
    weights[[0, 101]] = 1
    assert solve(101, 0, "minimean", weights).objective == pytest.approx(1)
    assert solve(101, 0, "minimean", np.eye(1, 102, 20)[0]).objective == 0
    assert solve(101, 0, "minimixed", weights).objective == pytest.approx(51)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.05, 0.4, 0.5, 0.7])
def test_schwing_by_its_definition(alpha):
    n_voters = 80
    rule = solve(n_voters, alpha, "schwing")
    (policy,) = rule.policies
    reachable = {(0, 0)}
    for i in range(n_voters):
        for j in range(i + 1):
            if (i, j) not in reachable:
                continue
            positive = betainc(i - j + 1, j + 1, 0.5)  # Pr(Beta(j + 1, i - j + 1) > 1/2)
            stops = positive < alpha or betainc(j + 1, i - j + 1, 0.5) < alpha
            assert vote_oracles.where(policy)(i, j) == stops, (i, j)
            if not stops:
                reachable |= {(i + 1, j), (i + 1, j + 1)}
    assert np.isnan(rule.lower_bound)


def test_every_solver_reads_a_cap():
    weights = np.exp(-0.3 * np.arange(31))
    free, capped = solve(30, 0.01, "minimean", weights), solve(30, 0.01, "minimean", weights, max_conditional=0.05)
    assert free.disagreement().max() > 0.06
    assert capped.disagreement().max() == pytest.approx(0.05)
    for solver in ("lp", "exact"):
        other = solve(30, 0.01, "minimean", weights, solver=solver, max_conditional=0.05)
        assert capped.objective == pytest.approx(other.objective, rel=1e-9)
    assert (
        solve(30, 0.01, "minimean", weights, max_conditional=0).objective
        == solve(30, 0, "minimixed", weights).objective
    )


def test_a_capped_optimum_without_thresholds():
    """With most voters surely positive the optimum stops at a tie and goes on beyond it."""
    weights = np.array([0.5] * 18 + [1.5, 0.5, 0.5, 0.5, 4.5, 6.5, 17.5, 31.5, 68.5, 172.5, 410.5, 947.5, 1344.5])
    rule = solve(30, 0.01, "minimean", weights, max_conditional=0.05)
    assert not rule.is_mixture
    assert 0 < rule.theta[2, 1] < 1
    assert rule.theta[2, 0] == 0
    assert relative_gap(rule) <= 1e-9
    assert rule.objective == pytest.approx(
        solve(30, 0.01, "minimean", weights, solver="lp", max_conditional=0.05).objective, rel=1e-9
    )
    with pytest.raises(InputError, match="no thresholds, only theta"):
        _ = rule.policies


def test_weights_need_not_sum_to_one():
    weights = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    rule = solve(7, 0.05, "minimean", weights)
    assert rule.distribution.sum() == pytest.approx(1)
    for scale in (1e-200, 1e300):
        assert solve(7, 0.05, "minimean", weights * scale).objective == pytest.approx(rule.objective, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_disagreement": 5}, r"max_disagreement must be in \[0, 1\), got 5. Did you mean 0.05 \(5 %\)\?"),
        ({"max_disagreement": -0.1}, r"max_disagreement must be in \[0, 1\), got -0.1.$"),
        ({"max_disagreement": float("nan")}, r"must be in \[0, 1\), got nan"),
        ({"max_disagreement": "0.1"}, r"must be in \[0, 1\), got '0.1'"),
        ({"max_disagreement": True}, r"must be in \[0, 1\), got True"),
        ({"n_voters": 0}, "n_voters must be a whole number of at least 1, got 0"),
        ({"n_voters": 7.5}, "n_voters must be a whole number of at least 1, got 7.5"),
        ({"method": "best"}, 'method must be one of "minimax", "minimean", "minimixed", "schwing", got \'best\''),
        ({"solver": "simplex"}, 'solver must be one of "sweep", "lp", "exact", got \'simplex\''),
        ({"distribution": [1, 2, 3]}, r"each of 0 to 11 positive voters, that is shape \(12,\), got shape \(3,\)"),
        ({"distribution": [1.0] * 11 + [-1]}, r"finite and not negative, got -1.0 for n = 11"),
        ({"distribution": [1.0, float("nan")] + [0.0] * 10}, r"finite and not negative, got nan for n = 1"),
        ({"distribution": [0.0] * 12}, "positive weight somewhere; pass None for a uniform one"),
        ({"distribution": ["a"] * 12}, r"distribution must be an array of numbers of shape \(12,\)"),
        ({"distribution": 10**400}, r"distribution must be an array of numbers of shape \(12,\)"),
        ({"max_conditional": 0.1}, 'max_conditional applies to method="minimean" only'),
        ({"max_conditional": 10, "method": "minimean"}, r"Did you mean 0.1 \(10 %\)\?"),
        ({"n_voters": 202, "solver": "lp"}, 'solver="lp" takes at most 201 voters, got 202; solver="sweep"'),
        ({"n_voters": 502, "solver": "exact"}, 'solver="exact" takes at most 501 voters, got 502'),
        ({"n_voters": 3000, "method": "minimean", "max_conditional": 0.1}, "max_conditional takes at most 2001 voters"),
    ],
)
def test_bad_requests_say_what_is_wrong(change, message):
    with pytest.raises(InputError, match=message):
        solve(**({"n_voters": 11, "max_disagreement": 0.01} | change))


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
