"""Weakest links against exhaustive search."""

from itertools import product

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.compression import keep_share, keep_trees, split_levels
from scurry.errors import InputError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)


def forest_of(n_trees=2, max_leaf_nodes=8):
    return scurry.from_model(RandomForestClassifier(n_trees, max_leaf_nodes=max_leaf_nodes, random_state=0).fit(X, Y))


def change(forest, stays, rows, weight=None):
    """Return the squared change of what trees answer, summed over rows, if only some splits stay."""
    small = forest.keep_splits(stays)
    before, after = forest.value[forest.apply(rows)], small.value[small.apply(rows)]
    return float(((before - after) ** 2).sum())


def closed_sets(forest):
    split = np.flatnonzero(~forest.is_leaf)
    for chosen in product([False, True], repeat=len(split)):
        stays = np.zeros(forest.n_nodes, bool)
        stays[split] = chosen
        if all(stays[parent] for parent in forest.parent[split[list(chosen)]] if parent >= 0):
            yield stays


def test_no_pruning_of_the_same_size_changes_less():
    forest = forest_of(2, 6)
    rows = X[:40]
    levels = split_levels(forest, forest.apply(rows))
    least = {}
    for stays in closed_sets(forest):
        least[stays.sum()] = min(least.get(stays.sum(), np.inf), change(forest, stays, rows))
    for level in np.unique(levels[np.isfinite(levels)]):
        stays = levels > level
        assert change(forest, stays, rows) == pytest.approx(least[stays.sum()], abs=1e-9)


def test_children_leave_before_their_parents():
    forest = forest_of(5, 30)
    levels = split_levels(forest)
    child = np.flatnonzero(forest.parent >= 0)
    assert (levels[child] <= levels[forest.parent[child]]).all()


def test_covers_stand_for_the_training_rows():
    forest = scurry.from_model(RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, Y))
    by_rows, by_cover = split_levels(forest, forest.apply(X)), split_levels(forest)
    np.testing.assert_allclose(by_rows, by_cover)


def test_rows_are_needed_where_covers_are_not_known():
    forest = forest_of()
    with pytest.raises(InputError, match="X_fit is needed"):
        split_levels(forest.replace(cover=None))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.8, 1.0])
def test_share_of_nodes(share):
    forest = forest_of(5, 30)
    small = keep_share(forest, split_levels(forest), share)
    assert small.n_nodes <= max(share * forest.n_nodes, forest.n_trees)
    assert small.n_nodes >= min(share * forest.n_nodes, forest.n_nodes) - 12  # splits of one level leave together


def test_first_trees_in_whole_rounds():
    forest = forest_of(5, 8)
    few = keep_trees(forest, 2)
    np.testing.assert_array_equal(few.apply(X), forest.apply(X)[:, :2])
    np.testing.assert_allclose(few.predict_proba(X), forest.value[forest.apply(X)[:, :2]].mean(axis=1))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, y))
    assert [keep_trees(boosted, n).n_trees for n in (1, 3, 5, 12)] == [3, 3, 3, 12]
