"""Calibrated models against scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from xgboost import XGBClassifier

import scurry
from support.sklearn_models import make_data
from support.wrapper_models import BOOSTED, CALIBRATED, COARSE, FOREST, THRESHOLDS, calibrate, check_same, fit

XGB = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", CALIBRATED)
def test_labels_are_the_models(name, task):
    # Models that are boosted for many classes have a softmax of another library, and steep maps enlarge its last bits.
    check_same(*fit(CALIBRATED[name], task), n_ulps=1e4 if (name, task) == ("voting", "multi") else 0)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_float32_responses(method):
    for task in ("binary", "multi"):
        check_same(*fit(calibrate(XGB, method, ensemble=False), task))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("inside", [FOREST, BOOSTED])
def test_one_model_of_two_classes_decides_by_its_own_score(inside, method):
    model, _ = fit(calibrate(inside, method, ensemble=False), "binary")
    forest = scurry.from_model(model)
    assert not forest.wrapper.decides
    # The label changes at the threshold, and nowhere else.
    at = forest.decision_threshold
    scores = np.array([np.nextafter(at, -np.inf), at])[:, None]
    assert forest.wrapper.calibrate(scores, np.arange(2)).argmax(axis=1).tolist() == [0, 1]


def test_a_frozen_model():
    X, y = make_data("binary", 240)
    inside = BOOSTED.fit(X[:120], y[:120])
    check_same(CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic").fit(X[120:], y[120:]), X)


def test_a_map_that_falls_needs_the_members():
    X, y = make_data("binary", 240)
    inside = BOOSTED.fit(X[:120], 1 - y[:120])  # worse than a guess
    model = CalibratedClassifierCV(FrozenEstimator(inside), method="sigmoid").fit(X[120:], y[120:])
    forest = check_same(model, X)
    assert forest.wrapper.decides


def test_calibration_of_few_rows_ties_at_one_half():
    # Isotonic maps of few rows have plateaus of simple shares, 1/2 among them.
    for seed in range(12):
        X, y = make_data("binary", 60, seed)
        inside = FOREST.fit(X[:30], y[:30])
        check_same(
            CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic").fit(X[30:], y[30:]), X, n_rows=100
        )


@pytest.mark.parametrize("name", THRESHOLDS)
def test_labels_by_a_threshold_are_the_models(name):
    check_same(*fit(THRESHOLDS[name], "binary"))


@pytest.mark.parametrize("inside", [COARSE, BOOSTED, XGBClassifier(n_estimators=4, n_jobs=1)])
def test_thresholds_that_rows_meet_exactly(inside):
    model, X = fit(FixedThresholdClassifier(inside), "binary")
    shares = np.unique(model.predict_proba(X)[:, 1])
    for share in shares[:: max(len(shares) // 4, 1)].tolist():
        for threshold in (share, np.nextafter(share, 1), np.nextafter(share, 0)):
            model.threshold = threshold
            check_same(model, X, n_rows=20)
            model.threshold = float(threshold)
            check_same(model, X, n_rows=20)


def test_a_plain_model_decides_by_its_own_score():
    for name in ("forest", "boosted", "boosted, first class", "scores, first class", "tuned"):
        forest = scurry.from_model(fit(THRESHOLDS[name], "binary")[0])
        assert not forest.wrapper.decides


def test_around_a_calibrated_model():
    model, X = fit(FixedThresholdClassifier(calibrate(BOOSTED, "sigmoid"), threshold=0.2), "binary")
    assert check_same(model, X).wrapper.decides
