"""A forest and rows that tests of orders share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    forest = scurry.from_model(RandomForestClassifier(7, max_depth=4, random_state=0).fit(X[:600], y[:600]))
    return forest, X[600:1200], y[600:1200]
