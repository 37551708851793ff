"""Bands against a count by hand, and the promise on a population that is known."""

import math

import numpy as np
import pytest

from scurry.cascades.bands import LIMITS, BandTest
from scurry.cascades.cascade import CheapAnswers
from scurry.promises import Accuracy, Labels, LabelsPerClass, Recall, Values


def draw(n_rows, seed=0, n_classes=2):
    """Certainties, and two models that differ the more often the less certain the cheap one is."""
    rng = np.random.default_rng(seed)
    certainty = rng.beta(2, 1, n_rows)
    expensive = rng.integers(n_classes, size=n_rows)
    differs = rng.random(n_rows) < 0.3 * (1 - certainty) ** 2
    return CheapAnswers((expensive + differs) % n_classes, certainty), expensive


def chance_of_so_few(n_broken, n_rows, rate):
    return sum(math.comb(n_rows, k) * rate**k * (1 - rate) ** (n_rows - k) for k in range(n_broken + 1))


def test_limits_go_from_keeping_none_to_keeping_all():
    assert LIMITS[0] == 1
    assert LIMITS[-1] < 0
    assert (np.diff(LIMITS) < 0).all()
    assert np.abs(np.diff(LIMITS))[1:-1].max() < 0.0126


@pytest.mark.parametrize("seed", range(3))
def test_labels_against_a_count_by_hand(seed):
    said, expensive = draw(700, seed)
    band = BandTest(Labels(0.03), said, expensive, None, (0, 1)).find()
    wrong = said.answers != expensive
    allowed = [
        limit for limit in LIMITS if chance_of_so_few(int(wrong[said.certainty > limit].sum()), 700, 0.03) <= 0.05
    ]
    # Mistakes only become more, so the last limit that passes is the smallest that does.
    assert (said.certainty > band.limit).sum() == (said.certainty > min(allowed)).sum()
    kept = said.certainty > band.limit
    assert band.kept == kept.mean()
    assert band.n_broken == (wrong & kept).sum()
    assert band.changed == (wrong & kept).mean()
    assert band.cheap_changed == wrong.mean()
    assert band.bound < 0.03
    assert chance_of_so_few(band.n_broken, 700, band.bound) == pytest.approx(0.05)


def test_equal_models_keep_everything_and_opposite_ones_nothing():
    said, expensive = draw(1000)
    assert BandTest(Labels(0.005), CheapAnswers(expensive, said.certainty), expensive, None).find().kept == 1
    assert BandTest(Labels(0.005), CheapAnswers(1 - expensive, said.certainty), expensive, None).find().kept == 0


def test_too_few_rows_certify_nothing():
    said, expensive = draw(100)
    assert BandTest(Labels(0.005), said, expensive, None).find() is None


def test_without_confidence_the_rows_themselves_keep_the_rate():
    said, expensive = draw(400)
    band = BandTest(Labels(0.01, confidence=None), said, expensive, None).find()
    assert 0 < band.changed <= 0.01
    assert band.bound is None


def test_each_class_is_tested_apart():
    said, expensive = draw(4000, n_classes=3)
    promise = LabelsPerClass({0: 0.01, 1: 0.02, 2: 0.05})
    band = BandTest(promise, said, expensive, None, (0, 1, 2)).find()
    assert [test.n_rows for test in band.tests] == np.bincount(expensive).tolist()
    assert np.prod([test.confidence for test in band.tests]) == pytest.approx(0.95)
    for label, test in enumerate(band.tests):
        wrong = (said.answers != expensive) & (expensive == label) & (said.certainty > band.limit)
        assert test.n_broken == wrong.sum()
        assert chance_of_so_few(int(wrong.sum()), test.n_rows, test.max_rate) <= 1 - test.confidence
    # The strictest class alone would keep no fewer rows.
    alone = BandTest(Labels(0.05), said, expensive, None, (0, 1, 2)).find()
    assert band.kept < alone.kept


def test_recall_counts_the_rows_found():
    said, expensive = draw(4000)
    y = np.where(np.random.default_rng(1).random(4000) < 0.9, expensive, 1 - expensive)
    band = BandTest(Recall(1, 0.02, 0.03), said, expensive, y, (0, 1)).find()
    found, others = band.tests
    assert found.n_rows == ((expensive == 1) & (y == 1)).sum()
    assert others.n_rows == (expensive != 1).sum()


def test_gains_make_up_for_losses():
    said, expensive = draw(4000)
    y = np.where(np.random.default_rng(1).random(4000) < 0.5, expensive, said.answers)
    labels = BandTest(Labels(0.01), said, expensive, y, (0, 1)).find()
    accuracy = BandTest(Accuracy(0.01), said, expensive, y, (0, 1)).find()
    assert accuracy.kept > labels.kept
    assert accuracy.n_gained > 0
    assert accuracy.bound < 0.01
    costs = BandTest(Accuracy(0.05, costs=[[0, 1], [2, 0]]), said, expensive, y, (0, 1)).find()
    assert costs.kept > labels.kept
    assert costs.bound < 0.05


def test_values_are_compared_by_their_distance():
    rng = np.random.default_rng(0)
    certainty, expensive = rng.random(2000), rng.normal(size=2000)
    cheap = expensive + (1 - certainty) * rng.normal(size=2000)
    band = BandTest(Values(0.5, 0.05), CheapAnswers(cheap, certainty), expensive, None).find()
    beyond = np.abs(cheap - expensive) > 0.5
    assert 0 < band.kept < 1
    assert band.changed == (beyond & (certainty > band.limit)).mean()
    assert band.cheap_changed == beyond.mean()


def test_promises_are_rarely_broken_on_a_known_population():
    said, expensive = draw(20_000, seed=5)
    wrong, rng, n_broken = said.answers != expensive, np.random.default_rng(0), 0
    for _ in range(200):
        rows = rng.integers(20_000, size=500)
        band = BandTest(Labels(0.03), CheapAnswers(*(part[rows] for part in said)), expensive[rows], None).find()
        n_broken += (wrong & (said.certainty > band.limit)).mean() > 0.03
    assert n_broken <= 200 * 0.05 + 2 * math.sqrt(200 * 0.05 * 0.95)
