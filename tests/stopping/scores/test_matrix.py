"""The grid on which sums are exact, and decisions that do not depend on it."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scurry.stopping.scores.matrix import is_positive, mistake_budget, on_grid, snap

SCORES = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.1, -0.3, 1e-12, 1e6]),
).filter(lambda scores: np.abs(scores).max() > 1e-200)


@settings(deadline=None)
@given(SCORES, st.randoms(use_true_random=False))
def test_sums_on_the_grid_are_exact_in_any_order(scores, random):
    grid = on_grid(scores)
    for row, values in zip(scores, grid.values.T, strict=True):
        exact = sum(map(Fraction, values.tolist()))
        shuffled = values.tolist()
        random.shuffle(shuffled)
        running = 0.0
        for value in shuffled:
            running += value
        assert Fraction(running) == exact
        assert abs(Fraction(float(np.cumsum(row)[-1])) - exact) <= grid.rounding


@settings(deadline=None)
@given(SCORES, st.sampled_from([0.0, 0.1, -0.3]))
def test_decisions_are_exact(scores, threshold):
    grid = on_grid(scores)
    positive = is_positive(scores, grid.values.sum(axis=0), grid.step, threshold)
    assert positive.tolist() == [sum(map(Fraction, row)) >= Fraction(threshold) for row in scores.tolist()]


def test_integers_are_left_alone():
    scores = np.array([[2.0**40, -3.0], [1.0, 0.5]])
    grid = on_grid(scores)
    np.testing.assert_array_equal(grid.values, scores.T)
    assert grid.rounding == 0.0
    assert on_grid(np.zeros((2, 3))).step == 1.0


def test_snap_takes_halves_to_even():
    assert snap(np.array([0.5, 1.5, -0.5, 2.4]), 1.0).tolist() == [0.0, 2.0, 0.0, 2.0]


def test_budget_survives_decimal_fractions():
    assert mistake_budget(0.29, 100) == 29  # 0.29 * 100 is just below 29 in float64
    assert mistake_budget(0.0, 100) == 0
