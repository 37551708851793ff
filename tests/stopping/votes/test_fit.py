"""Rules fitted to rows, and the promise they make for new ones."""

import numpy as np
import pytest
from scipy import stats

from scurry.errors import InfeasibleError, InputError
from scurry.stopping import fit_votes, solve
from scurry.stopping.votes import fit as vote_fit

N_VOTERS, ALPHA = 21, 0.01
TRUE = stats.betabinom.pmf(np.arange(N_VOTERS + 1), N_VOTERS, 0.4, 0.6)


def test_the_promise_fails_no_more_often_than_it_may():
    n_repeats, failures, fitted_only = 200, 0, 0
    for seed in range(n_repeats):
        rows = np.random.default_rng(seed).choice(N_VOTERS + 1, 400, p=TRUE)
        rule, promise = fit_votes(rows, N_VOTERS, ALPHA, random_state=seed)
        assert promise.upper_bound <= ALPHA
        failures += rule.disagreement() @ TRUE > ALPHA
        fitted_only += fit_votes(rows, N_VOTERS, ALPHA, confidence=None).rule.disagreement() @ TRUE > ALPHA
    assert failures <= stats.binom.ppf(0.999, n_repeats, 0.05)
    assert fitted_only > stats.binom.ppf(0.999, n_repeats, 0.05)  # else this test could not fail


@pytest.mark.parametrize(("n_rows", "extra"), [(2, 3.0), (100, 1.7), (2_000, 1.3), (20_000, 1.1)])
def test_more_rows_make_the_promise_cheaper(n_rows, extra):
    oracle = solve(N_VOTERS, ALPHA, "minimean", TRUE).objective
    rows = np.random.default_rng(1).choice(N_VOTERS + 1, n_rows, p=TRUE)
    rule, promise = fit_votes(rows, N_VOTERS, ALPHA, random_state=1)
    assert rule.disagreement() @ TRUE <= ALPHA
    assert rule.expected_votes() @ TRUE <= extra * oracle
    assert promise.max_disagreement == ALPHA


@pytest.mark.parametrize("method", ["minimixed", "minimax"])
def test_bounds_for_every_row_need_no_test(method):
    rows = np.random.default_rng(0).choice(N_VOTERS + 1, 30, p=TRUE)
    rule, promise = fit_votes(rows, N_VOTERS, ALPHA, method=method)
    assert promise.confidence == 1
    assert rule.disagreement().max() <= ALPHA * (1 + 1e-9)


def test_a_rule_with_no_promise_is_fitted_to_all_rows():
    rows = np.random.default_rng(0).choice(N_VOTERS + 1, 500, p=TRUE)
    rule, promise = fit_votes(rows, N_VOTERS, ALPHA, confidence=None)
    assert promise is None
    counts = np.bincount(rows, minlength=N_VOTERS + 1) + 0.5
    np.testing.assert_allclose(rule.distribution, counts / counts.sum())


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_other_rows_may_shape_the_rule(confidence):
    rng = np.random.default_rng(0)
    rows, others = rng.choice(N_VOTERS + 1, 1000, p=TRUE), rng.choice(N_VOTERS + 1, 300, p=TRUE)
    rule, promise = fit_votes(rows, N_VOTERS, ALPHA, confidence=confidence, shaping=others)
    counts = np.bincount(others, minlength=N_VOTERS + 1) + 0.5
    np.testing.assert_allclose(rule.distribution, counts / counts.sum())
    if promise is not None:
        assert promise.n_rows == 1000
    with pytest.raises(InputError, match=r"shaping must be between 0 and n_voters = 21, got 22 to 22"):
        fit_votes(rows, N_VOTERS, ALPHA, shaping=[22, 22])


def test_no_disagreement_needs_no_rows():
    rule, promise = fit_votes([0, N_VOTERS], N_VOTERS, 0.0)
    assert (promise.confidence, promise.upper_bound) == (1, 0)
    assert rule.disagreement().max() == 0


def test_schwing_is_refused_where_it_fails(monkeypatch):
    lopsided = np.random.default_rng(0).binomial(N_VOTERS, 0.02, 3000)
    rule, promise = fit_votes(lopsided, N_VOTERS, ALPHA, method="schwing", random_state=0)
    assert (rule.method, promise.confidence) == ("schwing", 0.95)
    monkeypatch.setattr(vote_fit, "_FRACTIONS", [1.0])
    ties = np.full(300, 150)
    with pytest.raises(InfeasibleError, match=r'the safest certifies .*Use method="minimixed"') as caught:
        fit_votes(ties, 301, ALPHA, method="schwing")
    assert caught.value.achievable > ALPHA


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_votes([1.5, 2], 5, 0.1), "whole numbers of positive votes"),
        (lambda: fit_votes([3], 5, 0.1), "at least 2 rows"),
        (lambda: fit_votes([0, 6], 5, 0.1), "between 0 and n_voters = 5, got 0 to 6"),
        (
            lambda: fit_votes([0, 5], 5, 0.1, confidence=95),
            r"confidence must be in \(0, 1\), got 95. Did you mean 0.95",
        ),
        (lambda: fit_votes([0, 5], 5, 0.1, method="qwyc"), "method must be one of"),
    ],
)
def test_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_promises_are_sentences():
    tested = vote_fit.VotePromise(0.01, 0.95, 300, 0.004)
    assert tested.describe() == (
        "With confidence 0.95, at most 1 % of new rows get another outcome than the full vote's; 300 rows tested it."
    )
    each = vote_fit.VotePromise(0.01, 1.0, 0, 0.009)
    assert each.describe() == "Each row gets another outcome than the full vote's with probability at most 1 %."
