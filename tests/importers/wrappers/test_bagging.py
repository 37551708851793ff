"""Bagged models against scikit-learn."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry.errors import UnsupportedModelError
from support.sklearn_models import make_data
from support.wrapper_models import BAGGED, REGRESSORS, check_same, fit, hard_rows, ulps


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", BAGGED)
def test_labels_are_the_models(name, task):
    # Exponentials of softmax are computed by another library.
    check_same(*fit(BAGGED[name], task), n_ulps=4 if task == "multi" and name in ("boosted", "hist") else 0)


@pytest.mark.parametrize("name", ["bagged trees", "bagged forests"])
def test_values_are_the_models(name):
    model, X = fit(REGRESSORS[name], "regression")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert ulps(model.predict(rows), forest.predict(rows)) == 0


def test_bagged_trees_are_a_plain_forest():
    model, X = fit(BAGGED["trees of some columns"], "multi")
    forest = scurry.from_model(model)
    assert forest.wrapper is None
    assert forest.has_votes
    assert forest.n_features == X.shape[1]


def test_missing_values_and_classes_that_some_trees_never_saw():
    X, y = make_data("missing", 240)
    # A pipeline takes no weights of rows, so that each gets rows of its own.
    inside = make_pipeline("passthrough", DecisionTreeClassifier())
    model = BaggingClassifier(inside, n_estimators=12, max_samples=4, random_state=0).fit(X, y)
    assert any(len(tree.classes_) < 3 for tree in model.estimators_)
    check_same(model, X, nan=True)


def test_models_that_miss_classes_are_averaged_over_all():
    X, y = make_data("multi", 240)
    inside = make_pipeline("passthrough", RandomForestClassifier(3, random_state=0))
    model = BaggingClassifier(inside, n_estimators=5, max_samples=6, random_state=3).fit(X, y)
    assert any(len(forest.classes_) < 4 for forest in model.estimators_)
    check_same(model, X)


def test_pipelines_inside():
    X, y = make_data("binary", 240)
    inside = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))
    model = BaggingClassifier(inside, n_estimators=3, random_state=0).fit(X, y)
    forest = check_same(model, X)
    assert forest.front is None
    assert forest.wrapper is None


def test_what_is_no_tree_is_refused():
    X, y = make_data("binary", 60)
    with pytest.raises(UnsupportedModelError, match=r"cannot import a LogisticRegression"):
        scurry.from_model(BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="no predict_proba"):
        scurry.from_model(BaggingClassifier(LinearSVC(), n_estimators=2).fit(X, y))


def test_pipelines_of_some_columns_are_refused():
    X, y = make_data("binary", 60)
    inside = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))
    model = BaggingClassifier(inside, n_estimators=2, max_features=0.5).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"reads other columns.*max_features=1.0"):
        scurry.from_model(model)


def test_names_of_a_table():
    import pandas as pd

    X, y = make_data("binary", 120)
    table = pd.DataFrame(X, columns=list("abcdef"))
    model = BaggingClassifier(n_estimators=3, max_features=0.5, random_state=0).fit(table, y)
    forest = scurry.from_model(model)
    assert forest.feature_names == tuple("abcdef")
    np.testing.assert_array_equal(forest.predict(table[list("fedcba")]), model.predict(table))
