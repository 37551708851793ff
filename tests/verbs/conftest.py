"""Models to be made cheaper."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

from support.calibration_rows import two_classes


@pytest.fixture(scope="module")
def forest():
    X, y = two_classes(600, 0)
    return RandomForestClassifier(31, max_depth=6, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def boosted():
    X, y = two_classes(800, 1)
    return GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def three_classes():
    X, y = make_classification(6000, n_features=8, n_informative=5, n_classes=3, random_state=0)
    labels = np.array(["red", "green", "blue"])[y]
    return ExtraTreesClassifier(30, max_depth=7, random_state=0).fit(X[:1000], labels[:1000]), X[1000:]


@pytest.fixture
def misuse(monkeypatch):
    """Return the benchmark of rows that no promise may be tested on."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import misuse

    return misuse
