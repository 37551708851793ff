"""Rows, a forest and early exits that the tests of the report share."""

import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry


@pytest.fixture(scope="session")
def data():
    X, y = make_classification(3000, n_informative=6, flip_y=0.1, random_state=1)
    return {"fit": (X[:1000], y[:1000]), "cal": (X[1000:2000], y[1000:2000]), "test": (X[2000:], y[2000:])}


@pytest.fixture(scope="session")
def forest(data):
    return scurry.from_model(RandomForestClassifier(31, max_depth=6, random_state=0).fit(*data["fit"]))


@pytest.fixture(scope="session")
def exit_by(data):
    """A function that makes an early exit by a method."""

    def make(model, method):
        X, y = data["cal"]
        return scurry.early_exit(model, X, y, max_disagreement=0.05, method=method, random_state=0)

    return make
