"""Thresholded models against scikit-learn."""

import numpy as np
import pytest
from sklearn.model_selection import FixedThresholdClassifier
from xgboost import XGBClassifier

import scurry
from support.wrapper_models import BOOSTED, COARSE, THRESHOLDS, calibrate, check_same, fit


@pytest.mark.parametrize("name", THRESHOLDS)
def test_labels_are_the_models(name):
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
