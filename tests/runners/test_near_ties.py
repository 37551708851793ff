"""Rows that ask every tree get the model's own label, also where integer sums cannot tell the classes apart."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, LeaderRule

# One row for each way through ten trees, each of which reads a feature of its own.
ALL_PATHS = (np.arange(2**10)[:, None] >> np.arange(10) & 1).astype(np.float64)


def tenths_forest(n_classes: int, seed: int) -> scurry.Forest:
    """Ten stumps whose leaves are tenths: 0.1 + 0.2 is above 0.3, and no grid of powers of two tells that."""
    rng = np.random.default_rng(seed)
    stumps = [
        {
            "feature": [tree, -1, -1],
            "threshold": [0.5, 0.0, 0.0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": rng.integers(0, 4, (3, n_classes)) / 10,
        }
        for tree in range(10)
    ]
    return scurry.Forest.from_trees(stumps, n_features=10, aggregation="sum", classes=np.arange(n_classes))


def summed(forest: scurry.Forest, rule: ExitRule | LeaderRule) -> np.ndarray:
    """What the integers alone would answer."""
    return rule.increments(forest)[forest.apply(ALL_PATHS)].sum(axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_two_classes(seed):
    forest = tenths_forest(2, seed)
    never = np.full((1, 11), NEVER_BELOW, np.int32)
    rule = ExitRule(kind="scores", step=2.0**-24, weights=np.ones(1), lower=never, upper=~never)
    predictor = scurry.Predictor(forest, scurry.Plan(order=np.arange(10, dtype=np.int32)[::-1].copy(), stop=rule))
    own = forest.predict(ALL_PATHS)
    assert (own != (summed(forest, rule) >= rule.threshold(forest))).any()  # else nothing is close
    np.testing.assert_array_equal(predictor.predict(ALL_PATHS), own)
    np.testing.assert_array_equal(predictor.run(ALL_PATHS).labels, own)
    for row in range(0, len(own), 31):
        assert predictor.predict(ALL_PATHS[row : row + 1])[0] == own[row]


@pytest.mark.parametrize("seed", range(3))
def test_several_classes(seed):
    forest = tenths_forest(3, seed)
    rule = LeaderRule(kind="scores", step=2.0**-24, lead=np.full(11, NEVER_ABOVE, np.int32))
    predictor = scurry.Predictor(forest, scurry.Plan(order=np.arange(10, dtype=np.int32)[::-1].copy(), stop=rule))
    own = forest.predict(ALL_PATHS)
    assert (own != summed(forest, rule).argmax(axis=1)).any()  # else nothing is close
    np.testing.assert_array_equal(predictor.predict(ALL_PATHS), own)
    np.testing.assert_array_equal(predictor.run(ALL_PATHS).labels, own)
    for row in range(0, len(own), 31):
        assert predictor.predict(ALL_PATHS[row : row + 1])[0] == own[row]


def test_an_even_number_of_pure_trees_ties_often():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 5))
    y = X[:, 0] + rng.normal(0, 0.3, 3000) > 0.5
    forest = scurry.from_model(RandomForestClassifier(10, random_state=0).fit(X[:500], y[:500]))
    predictor = scurry.early_exit(forest, X, max_disagreement=0.0, confidence=None, method="qwyc", random_state=0)
    own, run = forest.predict(X), predictor.run(X)
    assert (forest.predict_proba(X)[:, 1] == 0.5).sum() > 50
    np.testing.assert_array_equal(run.labels[run.complete], own[run.complete])
    np.testing.assert_array_equal(predictor.predict(X)[run.complete], own[run.complete])
