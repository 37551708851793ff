"""Voting models against scikit-learn."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from xgboost import XGBClassifier

import scurry
from scurry.errors import UnsupportedModelError
from support.sklearn_models import make_data
from support.wrapper_models import COARSE, FOREST, REGRESSORS, VOTING, check_same, fit, hard_rows, ulps, vote

XGB = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
LGBM = LGBMClassifier(n_estimators=5, n_jobs=1, min_child_samples=5, verbose=-1)


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", VOTING)
def test_labels_are_the_models(name, task):
    check_same(*fit(VOTING[name], task), n_ulps=4 if task == "multi" and name == "soft with weights" else 0)


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_models_of_different_libraries(voting, task):
    # They compare float32 and float64 numbers, by < and by <=.
    check_same(*fit(vote(FOREST, XGB, LGBM, voting=voting), task), n_ulps=4)


def test_float32_probabilities_are_averaged_in_float32():
    model, X = fit(vote(XGB, XGBClassifier(n_estimators=2, n_jobs=1), voting="soft"), "binary")
    forest = check_same(model, X)
    assert forest.wrapper.dtype == "float32"


def test_votes_that_tie():
    model, X = fit(vote(COARSE, FOREST, voting="hard"), "multi")
    forest = check_same(model, X)
    votes = forest.predict_proba(X)
    assert (np.sort(votes, axis=1)[:, -2:] == 0.5).all(axis=1).any()  # some do


def test_values_are_the_models():
    model, X = fit(REGRESSORS["voting"], "regression")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert ulps(model.predict(rows), forest.predict(rows)) <= 1


def test_missing_values():
    X, y = make_data("missing", 240)
    codes = np.unique(y, return_inverse=True)[1]
    check_same(vote(FOREST, XGB, voting="soft").fit(X, codes), X, nan=True)


def test_integers_that_libraries_round_differently_are_refused():
    X, y = make_data("binary", 120)
    model = vote(LGBM, HistGradientBoostingClassifier(max_iter=2), voting="soft").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="round integers to different floats"):
        scurry.from_model(model)


def test_integers_that_float32_does_not_hold():
    rng = np.random.default_rng(0)
    X = rng.integers(2**24, 2**24 + 40, (300, 3))
    y = (X[:, 0] + X[:, 1] > 2**25 + 40).astype(int)
    model = vote(FOREST, HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3), voting="soft").fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(model).predict(X), model.predict(X))
