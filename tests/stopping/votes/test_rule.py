"""What a rule says about itself: outcomes by n against every order of votes, strategies, storage."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.errors import FormatError, InputError
from scurry.stopping import VoteRule, solve
from scurry.stopping.votes.policy import Thresholds, VotePolicy, decided, outcomes
from support import vote_oracles


@st.composite
def thresholds(draw, n_voters):
    lower = [draw(st.integers(-1, i // 2)) for i in range(n_voters)] + [n_voters // 2]
    upper = [draw(st.integers(i // 2 + 1, i + 1)) for i in range(n_voters)] + [n_voters // 2 + 1]
    return Thresholds(np.array(lower, dtype=np.int32), np.array(upper, dtype=np.int32))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 9))
def test_outcomes_play_every_order(data, n_voters):
    policies = [data.draw(thresholds(n_voters)) for _ in range(2)]
    votes, disagreement = outcomes([VotePolicy(w, *p) for w, p in zip((0.3, 0.7), policies, strict=True)])
    played = [vote_oracles.outcomes(n_voters, vote_oracles.where(policy)) for policy in policies]
    np.testing.assert_allclose(votes, 0.3 * played[0][0] + 0.7 * played[1][0], atol=1e-13)
    np.testing.assert_allclose(disagreement, 0.3 * played[0][1] + 0.7 * played[1][1], atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 12))
def test_tidying_and_mirroring_keep_the_policy(data, n_voters):
    policy = data.draw(thresholds(n_voters))
    plain, tidied = outcomes([VotePolicy(1.0, *policy)]), outcomes([VotePolicy(1.0, *policy.tidied())])
    np.testing.assert_allclose(plain, tidied, atol=1e-15)
    matrix = Thresholds.of(policy.stop_matrix())
    np.testing.assert_allclose(plain, outcomes([VotePolicy(1.0, *matrix)]), atol=1e-15)
    ties = [policy.lower[i] == i // 2 for i in range(0, n_voters, 2)]
    if n_voters % 2 == 1 and not any(ties):
        mirrored = outcomes([VotePolicy(1.0, *policy.mirrored())])
        np.testing.assert_allclose(plain, np.flip(mirrored, axis=1), atol=1e-13)


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


def test_thresholds_enclose_what_goes_on():
    rule = solve(51, 0.01, "minimean", np.exp(-0.1 * np.arange(52)))
    for i in range(52):
        stops = np.flatnonzero(rule.theta[i] > 0)
        above, below = stops[2 * stops > i], stops[2 * stops <= i]
        assert rule.upper[i] == (above.min() if len(above) else i + 1)
        assert rule.lower[i] == (below.max() if len(below) else -1)
    lots = rule.draws_lots()
    assert 0 < lots.sum() <= 2
    assert ((rule.theta[lots] > 0) & (rule.theta[lots] < 1)).all()


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


def test_who_cannot_happen_decides_sooner():
    stops = vote_oracles.where(decided(11, np.isin(np.arange(12), [1, 8])))
    assert stops(2, 2)  # of the two, only 8 positive voters can give two positive votes
    assert not stops(2, 1)
    assert stops(5, 1)  # 8 positive voters leave 3 negative ones
    assert vote_oracles.where(decided(11, np.isin(np.arange(12), [9])))(1, 1)


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
