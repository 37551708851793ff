"""Curves and what is made of them."""

import numpy as np
import pytest

from scurry import Forest
from scurry.errors import InputError
from scurry.orders import accuracy_curve, nma
from scurry.orders.curves import cost_per_step, mean_over_time
from support.order_oracle import states


class TestSteps:
    @pytest.mark.parametrize(
        ("steps", "message"),
        [
            ([0.5], "steps must be a list of tree indices"),
            ([[0]], "steps must be a list of tree indices"),
            ([7], r"steps must name trees 0..6, got 7..7"),
            ([-1], r"steps must name trees 0..6, got -1..-1"),
            ([2] * 5, "steps takes 5 steps in tree 2, which has depth 4"),
        ],
    )
    def test_steps(self, digits, steps, message):
        forest, X, y = digits
        with pytest.raises(InputError, match=message):
            accuracy_curve(forest, steps, X, y)

    def test_no_steps(self, digits):
        forest, X, y = digits
        assert accuracy_curve(forest, [], X, y).shape == (1,)


def test_a_state_counts_as_long_as_the_step_that_ends_it():
    steps = np.array([0, 0, 1, 0], np.int32)
    assert cost_per_step(steps, (1.0, 3.0)).tolist() == [3, 1, 3, 3]
    curve = np.array([0.0, 1.0, 0.5, 1.0, 0.0])
    assert mean_over_time(curve, steps, (1.0, 3.0)) == (3 * 0.0 + 1 * 1.0 + 3 * 0.5 + 3 * 1.0) / 10
    assert mean_over_time(curve[:1], steps[:0], (1.0, 3.0)) == 0


class TestNma:
    def test_of_the_papers_example(self):
        # Figure 2: the mean over all seven states, the first included, is 6/7.
        assert nma(np.array([4, 7, 7, 7, 7, 8, 8]) / 8) == pytest.approx(6 / 7)

    def test_errors(self):
        with pytest.raises(InputError, match="one per state"):
            nma([])
        with pytest.raises(InputError, match="ends at 0"):
            nma([0.5, 0.0])

    def test_states_of_an_order(self):
        assert states([1, 0, 1], 2) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_a_curve_is_the_share_of_right_answers():
    stump = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]],
    }
    forest = Forest.from_trees([stump, stump])
    curve = accuracy_curve(forest, [0], [[0.0], [0.0], [0.0], [1.0]], [0, 0, 0, 1])
    assert curve.tolist() == [0.75, 1.0]
    assert nma([0.25, 0.5]) == 0.75
