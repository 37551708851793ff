"""Vote rules: their strategies and stored parts, and votes in progress with voters that are no trees."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

from scurry.errors import FormatError, InputError
from scurry.stopping import VoteRule, fit_votes, solve
from support import vote_oracles


@pytest.mark.parametrize("method", ["minimax", "minimean", "minimixed", "schwing"])
@pytest.mark.parametrize("n_voters", [1, 2, 11, 20])
def test_theta_is_the_mixture(method, n_voters):
    """Drawing at each state with probability theta does what drawing a policy does."""
    rule = solve(n_voters, 0.2, method)
    header, arrays = rule.to_parts()
    by_state = VoteRule.from_parts(header, {"distribution": arrays["distribution"], "theta": rule.theta})
    np.testing.assert_allclose(by_state.expected_votes(), rule.expected_votes(), rtol=1e-12)
    np.testing.assert_allclose(by_state.disagreement(), rule.disagreement(), rtol=1e-9, atol=1e-14)
    assert (rule.theta[-1] == 1).all()
    assert (np.triu(rule.theta, 1) == 0).all()


def test_thresholds_enclose_what_continues():
    rule = solve(51, 0.01, "minimean", np.exp(-0.1 * np.arange(52)))
    for i in range(52):
        stops = np.flatnonzero(rule.theta[i] > 0)
        above, below = stops[2 * stops > i], stops[2 * stops <= i]
        assert rule.upper[i] == (above.min() if len(above) else i + 1)
        assert rule.lower[i] == (below.max() if len(below) else -1)
    randomised = rule.find_randomised_states()
    assert 0 < randomised.sum() <= 2
    assert ((rule.theta[randomised] > 0) & (rule.theta[randomised] < 1)).all()


def test_simulated_votes_agree_with_the_formulas():
    rng, n_voters, n = np.random.default_rng(3), 41, 23
    rule = solve(n_voters, 0.05, "minimean")
    asked, wrong = [], []
    for _ in range(4000):
        stopper = rule.stopper(rng)
        for vote in rng.permutation([True] * n + [False] * (n_voters - n)).tolist():
            if stopper.update(vote):
                break
        asked.append(stopper.n_seen)
        wrong.append(not stopper.decision)
    assert np.mean(asked) == pytest.approx(rule.expected_votes(n), abs=4 * np.std(asked) / np.sqrt(4000))
    chance = rule.disagreement(n)
    assert np.mean(wrong) == pytest.approx(chance, abs=4 * np.sqrt(chance / 4000))


def test_asking_for_some_n():
    rule = solve(11, 0.05)
    assert rule.expected_votes(3) == rule.expected_votes()[3]
    np.testing.assert_array_equal(rule.disagreement([[0, 5], [6, 11]]), rule.disagreement()[[[0, 5], [6, 11]]])
    for wrong in (12, -1, 2.5, [3, 99]):
        with pytest.raises(InputError, match="whole numbers of positive voters from 0 to 11"):
            rule.expected_votes(wrong)
    with pytest.raises(ValueError, match="read-only"):
        rule.expected_votes()[0] = 1


@pytest.mark.parametrize("solver", ["sweep", "lp"])
@pytest.mark.parametrize("method", ["minimean", "schwing"])
def test_parts_make_the_same_rule(solver, method):
    weights = np.arange(22.0)
    rule = solve(21, 0.02, method, weights, solver=solver)
    header, arrays = rule.to_parts()
    again = VoteRule.from_parts(json.loads(json.dumps(header, allow_nan=False)), arrays)
    assert repr(again) == repr(rule)
    assert again.lower_bound == rule.lower_bound or np.isnan(rule.lower_bound)
    np.testing.assert_array_equal(again.theta, rule.theta)
    np.testing.assert_array_equal(again.disagreement(), rule.disagreement())
    np.testing.assert_array_equal(again.distribution, rule.distribution)
    np.testing.assert_allclose(rule.distribution, weights / weights.sum(), rtol=1e-15)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda header, arrays: header.pop("method"), "method"),
        (lambda header, arrays: header.update(max_disagreement=7), "max_disagreement"),
        (lambda header, arrays: arrays.update(lower=arrays["lower"] + 30), "thresholds are out of range"),
        (lambda header, arrays: arrays.update(upper=arrays["upper"][:, :-1]), "wrong shapes"),
        (lambda header, arrays: arrays.update(weight=-arrays["weight"]), "weights are not positive"),
        (lambda header, arrays: arrays.update(theta=np.zeros((12, 12))), "last row stops"),
        (lambda header, arrays: arrays.update(distribution=np.full(12, np.nan)), "distribution must be finite"),
    ],
)
def test_spoilt_parts_are_refused(spoil, message):
    header, arrays = solve(11, 0.02).to_parts()
    spoil(header, arrays)
    with pytest.raises(FormatError, match=message):
        VoteRule.from_parts(header, arrays)


@pytest.mark.parametrize("solver", ["sweep", "lp"])
def test_expected_remaining_is_the_mean_over_what_may_come(solver):
    """Against all orders of all votes that begin with those seen, weighted by the rule's distribution."""
    n_voters, weights = 9, np.arange(1.0, 11.0)
    rule = solve(n_voters, 0.05, "minimean", weights, solver=solver)
    stopper = rule.stopper(random_state=0)
    chances = rule.theta if solver == "lp" else stopper._thresholds.stop_matrix().astype(float)
    seen = []
    for vote in (True, False):
        assert not stopper.update(vote)
        seen.append(int(vote))
    total, votes = 0.0, 0.0
    for n in range(n_voters + 1):
        orders = vote_oracles.sequences(n_voters, n)
        for order in orders:
            if list(order[:2]) != seen:
                continue
            weight = weights[n] / len(orders)
            still, expected = 1.0, 0.0
            for i in range(2, n_voters):
                if i > 2:
                    still *= 1.0 - chances[i, sum(order[:i])]
                expected += still
            total, votes = total + weight, votes + weight * expected
    assert stopper.expected_remaining == pytest.approx(votes / total, rel=1e-12)


def test_remaining_falls_to_nothing():
    stopper = solve(21, 0.01).stopper(random_state=1)
    first = stopper.expected_remaining
    assert first == pytest.approx(solve(21, 0.01).objective, rel=0.2)
    while not stopper.stopped:
        assert stopper.expected_remaining >= 1
        stopper.update(True)
    assert stopper.expected_remaining == 0
    assert stopper.n_seen < 11


def test_what_the_distribution_excludes_counts_alike():
    weights = np.zeros(12)
    weights[[0, 11]] = 1
    stopper = solve(11, 0.0, "minimixed", weights).stopper()
    stopper.update(True)
    assert stopper.expected_remaining == 5  # only eleven positive voters are possible: six votes decide
    stopper.update(False)
    assert 4 < stopper.expected_remaining < 9


def test_later_answers_are_ignored():
    stopper = solve(3, 0.0).stopper()
    assert [stopper.update(v) for v in (False, False, True, True)] == [False, True, True, True]
    assert (stopper.decision, stopper.n_seen, stopper.n_positive) == (False, 2, 0)


def test_a_loose_rule_may_ask_nobody():
    weights = np.eye(1, 6, 0)[0]
    stopper = solve(5, 0.5, "minimean", weights).stopper()
    assert stopper.stopped
    assert stopper.decision is False
    assert stopper.update(True)


def test_draws_repeat_by_seed():
    rule = solve(11, 0.1, "minimixed")
    votes = [True, True, False, True, True, True, False, True, True, True, True]

    def length(seed):
        stopper = rule.stopper(seed)
        while not stopper.stopped:
            stopper.update(votes[stopper.n_seen])
        return stopper.n_seen

    lengths = [length(seed) for seed in range(200)]
    assert lengths == [length(seed) for seed in range(200)]
    assert len(set(lengths)) > 1


@pytest.mark.parametrize("vote", ["yes", 2, None, 0.5])
def test_a_vote_is_yes_or_no(vote):
    with pytest.raises(InputError, match="a vote must be True or False"):
        solve(5, 0.1).stopper().update(vote)


def test_any_bagging_of_scikit_learn():
    X, y = make_classification(3000, n_features=8, n_informative=4, flip_y=0.1, random_state=0)
    model = BaggingClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=31, random_state=0).fit(
        X[:800], y[:800]
    )
    votes = np.stack([tree.predict(X[800:]) for tree in model.estimators_], axis=1).astype(bool)
    rule, _ = fit_votes(votes[:1500].sum(axis=1), 31, 0.02, random_state=0)
    rng = np.random.default_rng(0)
    asked, wrong = 0, 0
    for row in votes[1500:]:
        stopper = rule.stopper(rng)
        order = iter(rng.permutation(row).tolist())
        while not stopper.stopped:
            stopper.update(next(order))
        asked += stopper.n_seen
        wrong += stopper.decision != (2 * row.sum() > 31)
    assert wrong / 700 <= 0.02 + 3 * np.sqrt(0.02 / 700)
    assert asked / 700 < 16
