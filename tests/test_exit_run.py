"""What is reported of each row, whatever the number of rows."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import exit_run, reference


@pytest.fixture(scope="module")
def rows():
    return make_classification(3000, n_features=6, n_informative=4, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def two_classes(rows):
    X, y = rows
    return scurry.from_model(RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:500], y[:500] > 0))


@pytest.fixture(scope="module")
def three_classes(rows):
    X, y = rows
    return scurry.from_model(RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:500], y[:500]))


def plans(two, three, X):
    asked = {"max_disagreement": 0.1, "random_state": 0}
    yield scurry.Predictor.full(two)
    yield scurry.early_exit(two, X, method="minimixed", **asked)
    yield scurry.early_exit(two, X, method="qwyc", **asked)
    yield scurry.early_exit(three, X, method="minimixed", **asked)
    yield scurry.early_exit(three, X, method="qwyc", **asked)


def test_no_rows(two_classes, three_classes, rows):
    for predictor in plans(two_classes, three_classes, rows[0]):
        run = predictor.run(rows[0][:0])
        assert repr(run) == "Run(n_rows=0, mean_trees=0.00, stopped_early=0.0%)"
        assert (run.mean_trees, run.mean_steps, run.steps.shape) == (0, 0, (0,))
        assert predictor.predict_proba(rows[0][:0]).shape == (0, predictor.forest.n_classes)


@pytest.mark.parametrize("n_at_once", [1, 7, 10**6])
def test_steps_are_the_depths_of_the_leaves_in_the_trees_asked(
    two_classes, three_classes, rows, n_at_once, monkeypatch
):
    monkeypatch.setattr(exit_run, "_ROWS_AT_ONCE", n_at_once)
    X = rows[0][:60]
    for predictor in plans(two_classes, three_classes, rows[0]):
        forest, run = predictor.forest, predictor.run(X)
        depth = forest.node_depth[reference.apply(forest, X)][:, predictor.plan.order]
        expected = [depth[row, : run.trees[row]].sum() for row in range(len(X))]
        np.testing.assert_array_equal(run.steps, expected)
