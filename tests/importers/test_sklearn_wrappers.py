"""Estimators around a model, estimators derived from one, and what is refused."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import scurry
from scurry.errors import UnsupportedModelError
from support.sklearn_models import SMALL, make_data


def test_frozen_models_and_idle_pipelines_are_unwrapped():
    X, y = make_data("binary")
    model = RandomForestClassifier(**SMALL).fit(X, y)
    idle = Pipeline([("a", "passthrough"), ("b", FunctionTransformer()), ("c", None)])
    for wrapped in (
        FrozenEstimator(model),
        Pipeline([("model", model)]),
        Pipeline([("a", "passthrough"), ("b", None), ("c", FunctionTransformer()), ("model", FrozenEstimator(model))]),
        FrozenEstimator(Pipeline([("idle", idle), ("model", model)])),
    ):
        assert scurry.from_model(wrapped).digest == scurry.from_model(model).digest


def test_the_best_of_a_search():
    X, y = make_data("binary")
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, cv=2).fit(X, y)
    assert scurry.from_model(search).digest == scurry.from_model(search.best_estimator_).digest


class DerivedForest(RandomForestClassifier):
    pass


class StubbornForest(RandomForestClassifier):
    def predict(self, X):
        return np.zeros(len(X))


class StubbornBagging(BaggingClassifier):
    def predict(self, X):
        return np.zeros(len(X))


def test_derived_estimators():
    X, y = make_data("binary")
    derived = DerivedForest(**SMALL).fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(derived).predict(X), derived.predict(X))
    with pytest.raises(UnsupportedModelError, match=r"StubbornForest has its own predict.*fit the scikit-learn"):
        scurry.from_model(StubbornForest(**SMALL).fit(X, y))


def categorical_tree(X, y):
    """What a tree with categorical splits looks like from scikit-learn 1.10 on."""
    tree = DecisionTreeClassifier().fit(X, y)
    tree.is_categorical_ = np.array([True, False, False, False, False, False])
    return tree


REFUSED = {
    "no model": (lambda X, y: Pipeline([("end", "passthrough")]).fit(X, y), "ends in 'passthrough'"),
    "linear end": (lambda X, y: Pipeline([("m", LogisticRegression())]).fit(X, y), "LogisticRegression.*RandomForest"),
    "unfitted": (lambda X, y: RandomForestClassifier(), "RandomForestClassifier is not fitted; call fit"),
    "unfitted hist": (lambda X, y: HistGradientBoostingRegressor(), "not fitted"),
    "unfitted in pipeline": (lambda X, y: Pipeline([("m", DecisionTreeClassifier())]), "not fitted"),
    "outputs": (lambda X, y: RandomForestRegressor(3).fit(X, np.c_[y, y]), "2 targets at once.*output=0"),
    "output classes": (
        lambda X, y: DecisionTreeClassifier().fit(X, np.c_[y, y, y]),
        "3 targets at once.*up to output=2",
    ),
    "init": (
        lambda X, y: GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(X, y),
        r"init=LinearRegression\(\).*init=None",
    ),
    "random init": (
        lambda X, y: GradientBoostingClassifier(init=DummyClassifier(strategy="stratified"), n_estimators=2).fit(X, y),
        "DummyClassifier",
    ),
    "one class": (lambda X, y: HistGradientBoostingClassifier(max_iter=2).fit(X, 0 * y), "single class.*at least two"),
    "categorical tree": (categorical_tree, "categorical splits.*HistGradientBoosting"),
    "unfitted bagging": (lambda X, y: BaggingClassifier(), "BaggingClassifier is not fitted; call fit"),
    "own bagging": (lambda X, y: StubbornBagging(n_estimators=2).fit(X, y), "StubbornBagging has its own predict"),
    "stacking": (
        lambda X, y: StackingClassifier([("a", DecisionTreeClassifier())]).fit(X, y),
        "StackingClassifier: its last model reads the answers of the others.*VotingClassifier",
    ),
    "stacked regressor": (
        lambda X, y: StackingRegressor([("a", DecisionTreeRegressor())]).fit(X, y),
        "StackingRegressor: its last model.*VotingRegressor",
    ),
    "embedding": (lambda X, y: RandomTreesEmbedding(n_estimators=2).fit(X), "RandomTreesEmbedding"),
    "search": (
        lambda X, y: GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}, cv=2, refit=False).fit(X, y),
        "GridSearchCV has no best_estimator_; fit it with refit=True",
    ),
    "target": (
        lambda X, y: TransformedTargetRegressor(DecisionTreeRegressor(), func=np.log1p, inverse_func=np.expm1).fit(
            X, y
        ),
        "TransformedTargetRegressor.*Import model.regressor_",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_with_a_next_step(name):
    build, message = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=message):
        scurry.from_model(build(*make_data("binary")))
