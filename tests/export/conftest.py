import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return RandomForestClassifier(8, max_depth=5, random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2]


@pytest.fixture(scope="session")
def anyt(cancer):
    model, X, y = cancer
    return scurry.anytime(model, X, y, order="backward-squirrel")
