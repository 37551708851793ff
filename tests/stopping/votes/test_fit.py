"""Rules fitted to rows, and the promise they make for new ones.

Votes in one fixed order: tallies against counting by hand, and the promise for the order chosen.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scurry.errors import InfeasibleError, InputError
from scurry.stopping import fit_majority_order, fit_plurality_order, fit_votes, solve, solve_plurality
from scurry.stopping.guarantee import certified_rate, rate_p_value, rows_needed
from scurry.stopping.votes import fit as vote_fit
from scurry.stopping.votes.fit import MajorityCourse, PluralityCourse, agreement_counts, representative_order
from scurry.stopping.votes.policy import Thresholds, stop_when_certain

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
        (lambda: fit_votes([[0, 1], [1, 1]], 2, 0.1), r"shape \(2, 2\). If .* 0 and 1, pass votes.sum\(axis=1\)"),
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


N_VOTERS_ORDER = 21


def opinionated_votes(rng, n_rows, n_classes=2):
    """Voters who see different features: in some orders the first ones mislead, whatever the row."""
    weights = np.random.default_rng(99).normal(size=(4, N_VOTERS_ORDER, n_classes)) + 0.8
    noise = rng.normal(size=(n_rows, N_VOTERS_ORDER, n_classes))
    evidence = rng.normal(size=(n_rows, 4)) @ weights.reshape(4, -1)
    return (evidence.reshape(noise.shape) + 0.5 * noise).argmax(axis=2)


@given(st.integers(1, 9), st.integers(0, 10**6), st.floats(0, 0.4))
@settings(max_examples=60, deadline=None)
def test_a_majority_is_tallied_as_a_stopper_counts_it(n_voters, seed, alpha):
    votes = np.random.default_rng(seed).integers(0, 2, (12, n_voters))
    rule = solve(n_voters, alpha, "schwing")
    (policy,) = rule.policies
    wrong, n_asked = MajorityCourse.from_votes(votes).tally(policy.thresholds)
    for row, ballots in enumerate(votes):
        stopper = rule.stopper()
        for vote in ballots:
            if stopper.update(bool(vote)):
                break
        assert (stopper.decision != (2 * ballots.sum() > n_voters)) == wrong[row]
        assert max(stopper.n_seen, 1) == n_asked[row]


@given(st.integers(1, 11), st.integers(2, 4), st.integers(0, 10**6), st.floats(0.001, 0.6))
@settings(max_examples=60, deadline=None)
def test_a_plurality_is_tallied_as_counted_by_hand(n_voters, n_classes, seed, alpha):
    votes = np.random.default_rng(seed).integers(0, n_classes, (12, n_voters))
    policy = solve_plurality(n_voters, n_classes, alpha).policies[0]
    wrong, n_asked = PluralityCourse.from_votes(votes, n_classes).tally(policy)
    for row, ballots in enumerate(votes):
        for n_seen in range(1, n_voters + 1):
            counts = np.bincount(ballots[:n_seen], minlength=n_classes)
            second, first = np.sort(counts)[-2:]
            safe = first > second + n_voters - n_seen
            if safe or (first > second and first >= policy.upper[first + second]) or n_seen == n_voters:
                break
        assert n_asked[row] == n_seen
        assert wrong[row] == (counts.argmax() != np.bincount(ballots, minlength=n_classes).argmax())


@given(st.integers(1, 7), st.integers(2, 4), st.integers(0, 9), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_representative_order_by_its_definition(n_voters, n_classes, n_rows, seed):
    """Each voter leaves the least squared distance between shares of classes so far and of all voters."""
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, n_classes, (n_rows, n_voters))
    order = representative_order(agreement_counts(votes, n_classes), rng).tolist()
    ballots = np.eye(n_classes)[votes]
    full = ballots.mean(axis=1)

    def distance(voters):
        return np.square(ballots[:, voters].mean(axis=1) - full).sum()

    assert sorted(order) == list(range(n_voters))
    for n_asked in range(n_voters):
        others = [distance([*order[:n_asked], voter]) for voter in order[n_asked:]]
        assert others[0] <= min(others) + 1e-9


def test_without_rows_the_order_is_drawn():
    none = agreement_counts(np.zeros((0, 9), np.uint8), 2)
    orders = {tuple(representative_order(none, np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert len(orders) == 20


def test_a_representative_order_pays():
    """At the same promise it asks fewer voters than orders drawn at random, on average."""
    rng = np.random.default_rng(5)
    votes, new = opinionated_votes(rng, 6000), opinionated_votes(rng, 6000)
    fit = fit_majority_order(votes, 0.01, random_state=0)
    asked = MajorityCourse.from_votes(new[:, fit.order]).tally(fit.policy).n_asked.mean()
    drawn = [
        fit_majority_order(votes, 0.01, choosing=rng.integers(0, 2, (1, N_VOTERS_ORDER)), random_state=0)
        for _ in range(8)
    ]
    assert asked < np.mean([MajorityCourse.from_votes(new[:, f.order]).tally(f.policy).n_asked.mean() for f in drawn])


def test_other_rows_may_choose():
    rng = np.random.default_rng(6)
    votes, others = opinionated_votes(rng, 3000), opinionated_votes(rng, 500)
    for fit, by_two in (
        (fit_majority_order(votes, 0.01, choosing=others, random_state=0), MajorityCourse.from_votes),
        (
            fit_plurality_order(votes, 2, 0.01, choosing=others, random_state=0),
            lambda v: PluralityCourse.from_votes(v, 2),
        ),
    ):
        tally = by_two(votes[:, fit.order]).tally(fit.policy)
        assert fit.promise.n_rows == 3000
        assert fit.n_mistakes == tally.wrong.sum()
        assert fit.mean_votes == pytest.approx(tally.n_asked.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "n_rows"), [(0.02, 400), (0.02, 700), (0.005, 2000)])
def test_the_promise_holds_for_the_order_chosen_in_many_settings(alpha, n_rows):
    check_the_promise_for_the_order_chosen(alpha, n_rows, 200)


def test_the_promise_holds_for_the_order_chosen():
    check_the_promise_for_the_order_chosen(0.02, 700, 50)


def check_the_promise_for_the_order_chosen(alpha, n_rows, n_repeats):
    """Over draws of rows. A rule certified on average over orders, run in one drawn, fails too often."""
    failures = failures_of_average = 0
    new = opinionated_votes(np.random.default_rng(10**6), 15_000)
    for seed in range(n_repeats):
        rng = np.random.default_rng(seed)
        votes = opinionated_votes(rng, n_rows)
        fit = fit_majority_order(votes, alpha, random_state=rng)
        failures += MajorityCourse.from_votes(new[:, fit.order]).tally(fit.policy).wrong.mean() > alpha
        rule, _ = fit_votes(votes.sum(axis=1), N_VOTERS_ORDER, alpha, random_state=rng)
        order, (_, lower, upper) = rng.permutation(N_VOTERS_ORDER), rule.policies[0]
        failures_of_average += (
            MajorityCourse.from_votes(new[:, order]).tally(Thresholds(lower, upper)).wrong.mean() > alpha
        )
    most = stats.binom.ppf(0.999, n_repeats, 0.05)
    assert failures <= most
    assert failures_of_average > most  # else this test could not fail


@pytest.mark.parametrize("method", ["minimean", "minimixed", "minimax", "schwing"])
def test_what_is_certified_is_what_was_counted(method):
    votes = opinionated_votes(np.random.default_rng(0), 5000)
    fit = fit_majority_order(votes, 0.01, method=method, random_state=0)
    wrong, n_asked = MajorityCourse.from_votes(votes[:, fit.order]).tally(fit.policy)
    assert fit.promise.n_rows == 4000
    assert fit.n_mistakes <= wrong.sum()
    assert fit.mean_votes == pytest.approx(n_asked.mean(), rel=0.05)
    assert fit.promise.upper_bound == certified_rate(fit.n_mistakes, 4000, 0.95) <= 0.01
    assert (
        fit.mean_votes
        < MajorityCourse.from_votes(votes[:, fit.order]).tally(stop_when_certain(N_VOTERS_ORDER)).n_asked.mean()
    )
    np.testing.assert_array_equal(np.sort(fit.order), np.arange(N_VOTERS_ORDER))


def test_voters_who_nearly_all_agree_are_hardly_asked():
    """Bold rules for such votes draw between asking almost nobody and everybody; their cautious member must not win."""
    rng = np.random.default_rng(0)
    votes = np.repeat(rng.integers(0, 2, (20_000, 1)), N_VOTERS_ORDER, axis=1) ^ (
        rng.random((20_000, N_VOTERS_ORDER)) < 2e-4
    )
    for method in ("minimean", "minimixed", "minimax"):
        fit = fit_majority_order(votes, 0.001, method=method, random_state=0)
        assert fit.mean_votes < (3 if method == "minimean" else 12)


def test_several_classes_may_use_their_whole_budget():
    rng = np.random.default_rng(1)
    votes, new = opinionated_votes(rng, 6000, 3), opinionated_votes(rng, 30_000, 3)
    every_row = fit_plurality_order(votes, 3, 0.01, method="minimixed", random_state=0)
    on_average = fit_plurality_order(votes, 3, 0.01, random_state=0)
    for fit in (every_row, on_average):
        assert PluralityCourse.from_votes(new[:, fit.order], 3).tally(fit.policy).wrong.mean() <= 0.01
        assert fit.promise.confidence == 0.95
    assert on_average.mean_votes < every_row.mean_votes


@pytest.mark.parametrize("n_rows", [2, 5, 298])
def test_too_few_rows_leave_the_full_vote(n_rows):
    votes = opinionated_votes(np.random.default_rng(2), n_rows)
    new = opinionated_votes(np.random.default_rng(3), 5000)
    for fit, course in (
        (fit_majority_order(votes, 0.01, random_state=0), MajorityCourse.from_votes),
        (fit_plurality_order(votes, 2, 0.01, random_state=0), lambda v: PluralityCourse.from_votes(v, 2)),
    ):
        assert (fit.promise.confidence, fit.promise.upper_bound, fit.n_mistakes) == (1.0, 0.0, 0)
        wrong, n_asked = course(new[:, fit.order]).tally(fit.policy)
        assert not wrong.any()
        assert n_asked.mean() < N_VOTERS_ORDER


def test_just_enough_rows_all_certify():
    """299 rows without a mistake certify 1 %, so of 320 only 21 may choose."""
    assert rows_needed(0.01, 0.95) == 299
    assert rate_p_value(0, 299, 0.01) <= 0.05 < rate_p_value(0, 298, 0.01)
    easy = np.repeat(np.random.default_rng(0).integers(0, 2, (320, 1)), N_VOTERS_ORDER, axis=1)
    fit = fit_majority_order(easy, 0.01, random_state=0)
    assert fit.promise.n_rows == 299
    assert fit.mean_votes < 5
    assert fit_majority_order(easy[:299], 0.01, random_state=0).promise.confidence == 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_majority_order([0.5], 0.1), r"one for each row and voter, got float64 of shape \(1,\)"),
        (lambda: fit_majority_order([[0, 2]], 0.1), "votes must be from 0 to 1, got 0 to 2"),
        (lambda: fit_majority_order([[0, 1]], 0), "is the full vote in any order"),
        (lambda: fit_majority_order([[0, 1]], 5), r"Did you mean 0\.05"),
        (lambda: fit_majority_order([[0, 1]], 0.1, method="qwyc"), "method must be one of"),
        (lambda: fit_majority_order([[0, 1]], 0.1, confidence=95), r"Did you mean 0\.95"),
        (lambda: fit_majority_order([[0, 1]], 0.1, choosing=[[0, 1, 1]]), "votes are of 2 voters, choosing of 3"),
        (lambda: fit_plurality_order([[0, 1]], 3, 0.1, method="schwing"), "method must be one of"),
        (lambda: fit_plurality_order([[0, 3]], 3, 0.1), "votes must be from 0 to 2"),
    ],
)
def test_order_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_rules_for_many_classes_spend_their_promise():
    """A bound on every row, divided among 25 other classes, would leave nearly all of it unspent."""
    rng = np.random.default_rng(0)
    votes = np.where(rng.random((6000, 31)) < rng.beta(2, 0.6, (6000, 1)), 0, rng.integers(1, 26, (6000, 31)))
    fit = fit_plurality_order(votes, 26, 0.01, random_state=0)
    assert fit.n_mistakes / fit.promise.n_rows > 0.15 * 0.01
    cautious = fit_plurality_order(votes, 26, 0.01, method="minimixed", random_state=0)
    assert cautious.n_mistakes / cautious.promise.n_rows < 0.05 * 0.01
    assert fit.mean_votes < 0.8 * cautious.mean_votes
