"""One-vs-rest models against scikit-learn."""

import numpy as np
import pytest
from sklearn.multiclass import OneVsRestClassifier
from xgboost import XGBClassifier

import scurry
from scurry.errors import UnsupportedModelError
from support.sklearn_models import make_data
from support.wrapper_models import COARSE, ONE_VS_REST, check_same, fit


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", ONE_VS_REST)
def test_labels_are_the_models(name, task):
    check_same(*fit(ONE_VS_REST[name], task), n_ulps=1)


def test_float32_probabilities():
    check_same(*fit(OneVsRestClassifier(XGBClassifier(n_estimators=4, n_jobs=1)), "multi"))


def test_responses_that_tie():
    model, X = fit(ONE_VS_REST["forests"], "multi")
    forest = check_same(model, X)
    shares = np.array([inside.predict_proba(X)[:, 1] for inside in model.estimators_]).T
    tied = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) > 1
    if not tied.any():
        # Trees of one leaf answer alike for every row.
        X, y = np.zeros((90, 6)), np.repeat([0, 1, 2], 30)
        model = OneVsRestClassifier(COARSE).fit(X, y)
        forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


def test_what_is_refused():
    X, y = make_data("binary", 120)
    with pytest.raises(UnsupportedModelError, match="3 targets at once"):
        scurry.from_model(OneVsRestClassifier(COARSE).fit(X, np.c_[y, 1 - y, y]))
