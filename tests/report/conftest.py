"""Rows, a forest and early exits that the tests of the report share."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry


@pytest.fixture(scope="session")
def data():
    X, y = make_classification(3000, n_informative=6, flip_y=0.1, random_state=1)
    return {"fit": (X[:1000], y[:1000]), "cal": (X[1000:2000], y[1000:2000]), "test": (X[2000:], y[2000:])}


@pytest.fixture(scope="session")
def forest(data):
    return scurry.from_model(RandomForestClassifier(31, max_depth=6, random_state=0).fit(*data["fit"]))


@pytest.fixture(scope="session")
def boosted(data):
    return scurry.from_model(GradientBoostingClassifier(n_estimators=40, random_state=0).fit(*data["fit"]))


@pytest.fixture(scope="session")
def regressor(data):
    X, _ = data["fit"]
    return scurry.from_model(GradientBoostingRegressor(n_estimators=40, random_state=0).fit(X, X[:, 0] * X[:, 1]))


@pytest.fixture(scope="session")
def by_values(data, regressor):
    """An early exit of a regressor, the test rows and their targets."""
    X, _ = data["test"]
    fast = scurry.early_exit(regressor, data["cal"][0], promise=scurry.promises.Values(0.3, 0.1))
    return fast, X, X[:, 0] * X[:, 1]


@pytest.fixture(scope="session")
def by_ranks(data, regressor):
    """An early exit of a ranker, the test rows, their relevance and their queries."""
    queries = np.arange(1000) // 10
    fast = scurry.early_exit(
        regressor, data["cal"][0], groups=queries, promise=scurry.promises.TopK(3, 0.2), method="sentinels"
    )
    X, _ = data["test"]
    return fast, X, (X[:, 0] * X[:, 1]).clip(0, 4).round(), queries


@pytest.fixture(scope="session")
def exit_by(data):
    """A function that makes an early exit by a method."""

    def make(model, method):
        X, y = data["cal"]
        return scurry.early_exit(model, X, y, max_disagreement=0.05, method=method, random_state=0)

    return make
