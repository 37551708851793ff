"""The bets next to a slow reference: every gambler's capital, row by row, in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.monitoring.betting import (
    EPOCH,
    Part,
    find_bounds,
    find_onset,
    log_capitals,
    log_detector,
    log_e_value,
)

RATE = Part("labels", (0.0, 1.0), 0.005)
PAIRED = Part("accuracy", (-1.0, 0.0, 1.0), 0.003)
COSTS = Part("cost", (-9.0, -1.0, 0.0, 1.0, 9.0), 0.05)
PARTS = [RATE, PAIRED, COSTS]


def capitals_by_row(part, losses):
    """Each gambler bets his λ on every row, one row after another; the bets are those that the part makes."""
    bets = [
        Fraction(math.expm1(gain)) / (Fraction(part.losses[-1]) - Fraction(part.max_mean))
        for gain in part.log_gains[:, -1]
    ]
    capitals = [Fraction(1)] * len(bets)
    for loss in losses:
        capitals = [
            c * (1 + bet * (Fraction(loss) - Fraction(part.max_mean))) for c, bet in zip(capitals, bets, strict=True)
        ]
    return capitals


def count(part, losses):
    return np.array([sum(loss == value for loss in losses) for value in part.losses], np.int64)


@pytest.mark.parametrize("part", PARTS)
def test_capitals_are_those_of_a_gambler_who_bets_on_every_row(part):
    rng = np.random.default_rng(0)
    losses = rng.choice(part.losses, 60).tolist()
    expected = [float(capital) for capital in capitals_by_row(part, losses)]
    assert np.exp(log_capitals(part, count(part, losses))) == pytest.approx(expected, rel=1e-9)
    assert math.exp(log_e_value(part, count(part, losses))) == pytest.approx(np.mean(expected), rel=1e-9)


@pytest.mark.parametrize("part", PARTS)
def test_no_gambler_expects_to_gain_while_the_promise_is_kept(part):
    """At the worst distribution that keeps the promise: the mean is what is promised, and the losses are extreme."""
    least, most = part.losses[0], part.losses[-1]
    chance = (part.max_mean - least) / (most - least)
    gains = np.exp(part.log_gains)
    assert gains[:, 0] * (1 - chance) + gains[:, -1] * chance == pytest.approx(np.ones(len(gains)))
    assert (gains > 0).all()
    assert (np.diff(gains[:, -1]) > 0).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0]), max_size=12), min_size=1, max_size=6))
def test_the_detector_adds_up_gamblers_who_begin_at_each_epoch(epochs):
    counts = np.array([count(RATE, epoch) for epoch in epochs])
    begins = counts.sum(axis=1) > 0
    found = log_detector(RATE, counts, begins)
    for last in range(len(epochs)):
        total = 0.0
        for first in range(last + 1):
            if begins[first]:
                rows = [loss for epoch in epochs[first : last + 1] for loss in epoch]
                total += EPOCH * float(sum(capitals_by_row(RATE, rows))) / len(RATE.log_gains)
        assert (math.exp(found[last]) if total else -math.inf) == pytest.approx(total or -math.inf, rel=1e-9)


def test_one_row_refutes_a_promise_that_nothing_ever_changes():
    part = Part("labels", (0.0, 1.0), 0.0)
    assert log_e_value(part, np.array([10**6, 0])) == 0.0
    assert log_e_value(part, np.array([10**6, 1])) == math.inf
    found = log_detector(part, np.array([[200, 0], [150, 1], [200, 0]]), np.ones(3, bool))
    assert np.isfinite(found[0])
    assert found[1] == found[2] == math.inf
    assert find_onset(part, np.array([[200, 0], [150, 1]])) in (0, 1)


def test_the_onset_is_where_rows_begin_to_speak_against_the_promise():
    epochs = np.array([[255, 1]] * 10 + [[250, 6]] * 4)
    assert find_onset(RATE, epochs) == 10
    assert find_onset(RATE, epochs[:0]) == 0


class TestBounds:
    @pytest.mark.parametrize(
        ("n_rows", "n_broken"), [(1, 0), (1, 1), (500, 0), (500, 500), (4000, 20), (10**7, 40_000)]
    )
    def test_they_are_where_the_mixture_refutes_a_rate(self, n_rows, n_broken):
        low, high = find_bounds(RATE, np.array([n_rows - n_broken, n_broken]), 0.95)
        assert 0 <= low <= n_broken / n_rows <= high <= 1
        # Robbins' mixture, from its definition: the likelihood of each rate, averaged by Beta(1/2, 1/2).
        mixed = (
            math.lgamma(n_broken + 0.5)
            + math.lgamma(n_rows - n_broken + 0.5)
            - math.lgamma(n_rows + 1)
            - math.log(math.pi)
        )
        for bound, is_end in ((low, low == 0), (high, high == 1)):
            if not is_end:
                likelihood = n_broken * math.log(bound) + (n_rows - n_broken) * math.log1p(-bound)
                assert mixed - likelihood == pytest.approx(math.log(20), abs=1e-6)

    def test_without_rows_nothing_is_known(self):
        assert find_bounds(RATE, np.array([0, 0]), 0.95) == (0.0, 1.0)
        assert find_bounds(PAIRED, np.zeros(3, np.int64), 0.95) == (-1.0, 1.0)

    def test_gains_and_costs_have_bounds_too(self):
        for part in (PAIRED, COSTS):
            counts = np.zeros(len(part.losses), np.int64)
            counts[[0, len(counts) // 2, -1]] = 40, 4900, 60
            low, high = find_bounds(part, counts, 0.95)
            assert part.losses[0] < low < part.mean(counts) < high < part.losses[-1]

    def test_they_hold_at_all_times_at_once(self):
        """Of 300 streams, the share of those whose bounds ever miss the rate is at most 5 %."""
        rng, n_missed, looks = np.random.default_rng(0), 0, np.unique(np.geomspace(1, 4000, 25).astype(int))
        for _ in range(300):
            broken = (rng.random(4000) < 0.02).cumsum()
            bounds = [find_bounds(RATE, np.array([n - broken[n - 1], broken[n - 1]]), 0.95) for n in looks]
            n_missed += any(not low <= 0.02 <= high for low, high in bounds)
        assert n_missed <= 15


def test_alarms_come_soon_and_false_ones_rarely():
    """The figures of the documentation, in small; benchmarks/watch.py has them in full."""
    rng, limit = np.random.default_rng(0), math.log(20)
    n = np.arange(1, 5001)

    def first_alarm(rate):
        broken = (rng.random(5000) < rate).cumsum()
        raised = log_e_value(RATE, np.stack([n - broken, broken], axis=1)) >= limit
        return int(raised.argmax()) + 1 if raised.any() else 10**9

    assert np.median([first_alarm(0.01) for _ in range(60)]) <= 3000
    assert np.median([first_alarm(0.02) for _ in range(60)]) <= 500
    assert sum(first_alarm(0.005) < 10**9 for _ in range(100)) <= 11


@pytest.mark.parametrize(("rate", "delay"), [(0.02, 1000), (0.04, 160), (0.10, 30)])
def test_delays_of_recall_are_those_of_the_documentation(rate, delay):
    """The promise is 1 %, and its other part, which is kept, has half of the stake."""
    part, rng, found = Part("rows", (0.0, 1.0), 0.01), np.random.default_rng(0), []
    for _ in range(300):
        lost = np.cumsum(rng.random(6 * delay) < rate)
        counts = np.stack([np.arange(1, len(lost) + 1) - lost, lost], axis=1)
        raised = log_e_value(part, counts) >= math.log(2 * 20)
        found.append(int(raised.argmax()) + 1 if raised.any() else len(lost))
    assert np.median(found) == pytest.approx(delay, rel=0.2)
