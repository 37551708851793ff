"""AdaBoost against scikit-learn."""

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry.errors import UnsupportedModelError
from support.sklearn_models import make_data
from support.wrapper_models import ADABOOST, FOREST, check_same, fit, hard_rows


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", ADABOOST)
def test_labels_are_the_models(name, task):
    forest = check_same(*fit(ADABOOST[name], task))
    assert forest.n_trees == ADABOOST[name].n_estimators
    assert not forest.wrapper.members


@pytest.mark.parametrize("task", ["binary", "multi"])
def test_the_decision_function(task):
    model, X = fit(ADABOOST["trees"], task)
    found, wanted = scurry.from_model(model).decision_values(X), model.decision_function(X)
    np.testing.assert_array_equal(found[:, 0] if task == "binary" else found, wanted)


@pytest.mark.parametrize("task", ["binary", "multi"])
def test_boosting_that_ended_early(task):
    X, _ = make_data(task, 240)
    y = (X[:, 0] > 0).astype(int) + (X[:, 0] > 1) * (task == "multi")
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0).fit(X, y)
    assert len(model.estimators_) < len(model.estimator_weights_)
    check_same(model, X)


def test_weights_that_cancel_out():
    # Two stumps of equal weight that contradict each other: a score of exactly zero is the first class.
    X, y = make_data("binary", 120)
    model = AdaBoostClassifier(n_estimators=2, random_state=0).fit(X, y)
    model.estimator_weights_ = np.ones(2)
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert (model.decision_function(rows) == 0).any()
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))


def test_what_is_refused():
    X, y = make_data("binary", 120)
    with pytest.raises(UnsupportedModelError, match=r"several trees.*boost decision trees"):
        scurry.from_model(AdaBoostClassifier(FOREST, n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="weighted median"):
        scurry.from_model(AdaBoostRegressor(n_estimators=2).fit(X, y))
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2).fit(X, y)
    model.estimator_weights_ = np.zeros(2)
    with pytest.raises(UnsupportedModelError, match="add up to 0"):
        scurry.from_model(model)
