"""Votes counted by class: certainty by playing on, and the optimal rule."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.stopping import solve, solve_plurality
from scurry.stopping.votes.class_counts import counts_after, is_certain


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 25), st.sampled_from([1e-3, 0.05, 0.3]), st.integers(0, 1000))
def test_two_classes_are_a_majority_vote(n_voters, alpha, seed):
    weights = np.random.default_rng(seed).random(n_voters + 1)
    counted = solve_plurality(n_voters, 2, alpha, "class-counts", weights)
    rule = solve(n_voters, alpha, "minimean", weights)
    weights /= weights.sum()
    assert counted.expected_votes() @ weights == pytest.approx(rule.objective, rel=1e-10)
    assert counted.disagreement() @ weights <= alpha * (1 + 1e-10)


@pytest.mark.parametrize(("n_voters", "n_classes"), [(13, 3), (8, 4), (1, 3)])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_class_counts_are_optimal(n_voters, n_classes, alpha):
    """The mixture reaches its lower bound, which no rule can beat; the pairwise rule does not."""
    weights = np.random.default_rng(1).random((n_voters + 1,) * (n_classes - 1))
    weights[np.indices(weights.shape).sum(axis=0) > n_voters] = 0
    rule = solve_plurality(n_voters, n_classes, alpha, "class-counts", weights)
    weights /= weights.sum()
    objective = (rule.expected_votes() * weights).sum()
    assert objective == pytest.approx(rule.lower_bound, rel=1e-10)
    assert (rule.disagreement() * weights).sum() <= alpha * (1 + 1e-10)
    pairwise = solve_plurality(n_voters, n_classes, alpha)
    assert objective <= (pairwise.expected_votes() * weights).sum() + 1e-12


def test_certainty_by_playing_on():
    n_voters = 6
    for i in range(n_voters + 1):
        counts = counts_after(i, 3)
        certain = is_certain(counts, n_voters - i)
        for cell in np.ndindex(certain.shape):
            state = counts[(slice(None), *cell)]
            if state[0] < 0:
                continue
            ends = {
                int(np.argmax(state + np.bincount(rest, minlength=3)))
                for rest in product(range(3), repeat=n_voters - i)
            }
            assert certain[cell] == (len(ends) == 1)
