"""Threshold policies: their outcomes against every order of votes, and their transformations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.stopping.votes.policy import (
    Thresholds,
    VotePolicy,
    check_weights,
    draw_policy,
    outcomes,
    stop_immediately,
    stop_when_certain,
)
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
    plain, tidied = outcomes([VotePolicy(1.0, *policy)]), outcomes([VotePolicy(1.0, *policy.tidy())])
    np.testing.assert_allclose(plain, tidied, atol=1e-15)
    matrix = Thresholds.from_stop_matrix(policy.stop_matrix())
    np.testing.assert_allclose(plain, outcomes([VotePolicy(1.0, *matrix)]), atol=1e-15)
    ties = [policy.lower[i] == i // 2 for i in range(0, n_voters, 2)]
    if n_voters % 2 == 1 and not any(ties):
        mirrored = outcomes([VotePolicy(1.0, *policy.mirror())])
        np.testing.assert_allclose(plain, np.flip(mirrored, axis=1), atol=1e-13)


def test_who_cannot_happen_decides_sooner():
    stops = vote_oracles.where(stop_when_certain(11, np.isin(np.arange(12), [1, 8])))
    assert stops(2, 2)  # of the two, only 8 positive voters can give two positive votes
    assert not stops(2, 1)
    assert stops(5, 1)  # 8 positive voters leave 3 negative ones
    assert vote_oracles.where(stop_when_certain(11, np.isin(np.arange(12), [9])))(1, 1)


def test_stopping_immediately_asks_nobody():
    votes, disagreement = outcomes([VotePolicy(1.0, *stop_immediately(5))])
    assert votes.tolist() == [0] * 6
    assert disagreement.tolist() == [0, 0, 0, 1, 1, 1]


def test_policies_are_drawn_by_weight():
    rng = np.random.default_rng(0)
    drawn = [draw_policy("ab", [0.25, 0.75], rng) for _ in range(2000)]
    assert drawn.count("a") == pytest.approx(500, abs=100)


@pytest.mark.parametrize("weights", [[], [0.5, 0.6], [1.5, -0.5], [[1.0]]])
def test_weights_are_chances(weights):
    with pytest.raises(ValueError, match="weights are not positive or do not sum to one"):
        check_weights(np.array(weights))
