"""Refitted leaf values against a dense solver."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.compression import keep_share, keep_trees, refit, split_levels

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + 0.5 * RNG.normal(size=300) > 0).astype(int)


def small_of(forest, n_trees=2, share=0.1):
    few = keep_trees(forest, n_trees)
    return keep_share(few, split_levels(few), share)


def test_ridge_regression_in_full():
    forest = scurry.from_model(RandomForestRegressor(10, random_state=0).fit(X, X[:, 0]))
    small, ridge = small_of(forest, share=0.02), 0.2
    leaves = small.apply(X)
    reached = np.unique(leaves)
    assert len(reached) <= 12  # so many steps are exact
    A = (leaves[:, :, None] == reached).sum(axis=1).astype(float)
    penalty = np.diag(ridge * small.n_trees * A.sum(axis=0))
    wanted = forest.scores(X) - small.scores(X)
    added = np.linalg.solve(A.T @ A + penalty, A.T @ wanted)
    better = refit(small, X, forest.scores(X), ridge=ridge)
    np.testing.assert_allclose(better.value[reached], small.value[reached] + small.n_trees * added, atol=1e-8)


@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_nothing_to_add(aggregation):
    if aggregation == "mean":
        forest = scurry.from_model(RandomForestClassifier(5, random_state=0).fit(X, Y))
    else:
        forest = scurry.from_model(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, Y))
    same = refit(forest, X, forest.scores(X))
    np.testing.assert_allclose(same.value[forest.is_leaf], forest.value[forest.is_leaf], atol=1e-12)
    small = small_of(forest)
    fixed = refit(small, X, forest.scores(X), ridge=1e15)
    np.testing.assert_allclose(fixed.value[small.is_leaf], small.value[small.is_leaf], atol=1e-9)


def test_scores_come_closer():
    for model in (
        RandomForestClassifier(30, random_state=0).fit(X, Y),
        GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, np.digitize(X[:, 0] + X[:, 1], [-1, 1])),
    ):
        forest = scurry.from_model(model)
        small = small_of(forest, forest.n_trees // 3, 0.5)
        before, after = (
            np.square(one.scores(X) - forest.scores(X)).mean() for one in (small, refit(small, X, forest.scores(X)))
        )
        assert after < 0.9 * before


def test_probabilities_stay_probabilities():
    forest = scurry.from_model(RandomForestClassifier(30, random_state=0).fit(X, Y))
    better = refit(small_of(forest, 4, 0.3), X, 3 * forest.scores(X) - 1)  # asks for more than there is
    assert better.value.min() >= 0
    np.testing.assert_allclose(better.value.sum(axis=1), 1)
    np.testing.assert_allclose(better.predict_proba(X).sum(axis=1), 1)


def test_votes_become_averages():
    forest = scurry.from_model(RandomForestClassifier(30, random_state=0).fit(X, Y)).replace(aggregation="vote")
    better = refit(small_of(forest, 6, 0.4), X, forest.scores(X))
    assert better.aggregation == "mean"
    assert (better.predict(X) == forest.predict(X)).mean() > 0.8


def test_inner_nodes_average_their_leaves():
    forest = scurry.from_model(RandomForestClassifier(10, random_state=0).fit(X, Y))
    better = refit(small_of(forest, 4, 0.3), X, forest.scores(X))
    split = ~better.is_leaf
    children = [better.left[split], better.right[split]]
    weighted = sum(better.cover[side, None] * better.value[side] for side in children)
    np.testing.assert_allclose(better.value[split], weighted / better.cover[split, None], atol=1e-12)
