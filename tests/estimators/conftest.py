"""Rows and a fitted forest that the tests of estimators share."""

import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):  # tests run in parallel, and idle threads of one would slow down the others
        yield


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(4000, 8, n_informative=5, random_state=0)
    return X[:3000], y[:3000], X[3000:], y[3000:]


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, *_ = rows
    return RandomForestClassifier(31, max_depth=8, random_state=0).fit(X[:1500], y[:1500])
