"""Cells of the experiments on early exits of scores, on instances small enough to count."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightgbm")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from qwyc_claims import UNDONE
from qwyc_ensembles import Ensemble, _inclusion_holds, count_unseen, small_instance, trees_at
from scurry.stopping import fan


def test_trees_are_read_off_the_lower_envelope():
    curve = {"difference": [0.0, 0.01, 0.02, 0.03], "trees": [100.0, 60.0, 80.0, 40.0]}
    assert trees_at(curve, 0.01) == 60
    assert trees_at(curve, 0.02) == 60  # more differences for more trees are no better
    assert trees_at(curve, 0.025) == pytest.approx(50)
    assert np.isnan(trees_at({"difference": [0.01], "trees": [5.0]}, 0.005))


def test_rows_in_bins_without_training_rows_are_counted():
    rule = fan([[1.0, 1, 1], [-1, -1, -1], [1, -1, 1], [-1, 1, -1]], gamma=50.0, bin_width=1.0, order="natural")
    # The first row is in a bin of its own at once, the second after two models, the third never.
    assert count_unseen(rule, np.array([[5.0, 0, 0], [1.0, 7, 0], [1.0, 1, 1]])) == 2


def test_the_greedy_order_is_never_better_than_the_best():
    ratios = [small_instance(3, seed)["ratio"] for seed in range(6)]
    assert min(ratios) >= 1.0


def test_decided_rows_may_become_undecided_behind_another_model():
    # Model 0 alone tells the rows apart; after model 1 the sums of the first two are equal.
    assert not _inclusion_holds(np.array([[2.0, -2, 3], [-1, 1, -3], [0, 0, 1]]), 0.5)
    assert _inclusion_holds(np.array([[2.0, 2], [-1, -1]]), 0.5)


def test_a_curve_counts_changed_and_right_labels():
    rng = np.random.default_rng(0)
    scores = rng.normal(rng.normal(0, 1, 300)[:, None], 1.0, (300, 12))
    y = (scores.sum(axis=1) > 0).astype(int)
    ensemble = Ensemble(scores[:200], y[:200], scores[200:], y[200:], 0.0)
    curve = ensemble.qwyc_curve((0.0, 0.2))
    assert curve["trees"][0] > curve["trees"][1]
    assert curve["accuracy"] == [1 - difference for difference in curve["difference"]]
    assert sum(curve["histogram"]) == 100
    wide = ensemble.fan_curve("natural", 1.0)
    assert len(wide["difference"]) == len(wide["trees"])
    assert wide["trees"] == sorted(wide["trees"])


def test_the_counterexample_of_the_page_is_one():
    scores = np.array(UNDONE, dtype=np.float64)
    assert not _inclusion_holds(scores, 0.5)
    first, later = scores[:, 1], scores[:, 0] + scores[:, 1]
    assert (np.sign(first - 1.5) == np.sign(scores.sum(axis=1))).all()  # model 2 alone has a threshold between the rows
    assert (np.argsort(later) != np.argsort(scores.sum(axis=1))).all()  # after model 1 the rows are the wrong way round
