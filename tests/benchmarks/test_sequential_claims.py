"""Claims about stopping a vote: rules that never stop at a tie."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from scurry.stopping import solve  # noqa: E402
from sequential_claims import _count_drawn, _is_symmetric, _solve_untied  # noqa: E402


@pytest.mark.parametrize(("n_voters", "alpha"), [(7, 0.01), (11, 1e-6), (21, 0.001)])
def test_a_rule_without_stops_at_ties_is_as_good_where_ties_save_nothing(n_voters, alpha):
    rule = _solve_untied(n_voters, alpha)
    assert rule.expected_votes().max() == pytest.approx(solve(n_voters, alpha, "minimax").objective, rel=1e-9)
    assert rule.disagreement().max() == pytest.approx(alpha, rel=1e-9)


def test_where_a_stop_at_a_tie_saves_something_a_rule_without_is_symmetric_and_draws_in_two_states():
    least, rule = solve(11, 0.1, "minimax"), _solve_untied(11, 0.1)
    assert least.theta[0, 0] > 0
    assert not _is_symmetric(least)
    assert _count_drawn(least) == 3
    ties = [rule.theta[i, i // 2] for i in range(0, 10, 2)]
    assert not np.any(ties)
    assert _is_symmetric(rule)
    assert _count_drawn(rule) == 2
    assert rule.expected_votes().max() == pytest.approx(8.2, abs=1e-12)
    assert rule.disagreement().max() == pytest.approx(0.1, abs=1e-12)
