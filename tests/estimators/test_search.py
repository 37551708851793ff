"""The search for cheap forests: which candidates there are, and which rows judge them."""

import numpy as np
import pytest

import scurry
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.estimators.search import KINDS, Grower, assign_folds

RNG = np.random.default_rng(0)
X = RNG.random((60, 7))
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


def grower(rows):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [1, 0], [0, 1]]}  # fmt: skip
    like = scurry.Forest.from_trees([stump], n_features=7)
    return Grower(rows, Y, FeatureCosts.of(like), ErrorCosts.of_forest(like, class_weight="balanced"), like, 0)


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS])
def test_as_many_candidates_are_grown_as_announced(kinds):
    assert len(list(grower(X).grow(kinds))) == grower(X).count(kinds)


def test_missing_values_leave_fewer_candidates():
    rows = X.copy()
    rows[0, 0] = np.nan
    assert grower(rows).count(("budgeted", "boosted")) == len(list(grower(rows).grow(("budgeted", "boosted")))) == 0


def test_names_choose_candidates():
    names = [name for name, _ in grower(X).grow(KINDS, {"tree of depth 3", "BudgetRF by pairs"})]
    assert names == ["tree of depth 3", "BudgetRF by pairs"]


def test_every_class_is_spread_over_the_folds_and_copies_stay_together():
    codes = np.repeat([0, 1, 2], [20, 9, 1])
    folds = assign_folds(codes, 3, np.random.default_rng(0))
    assert sorted(np.bincount(folds[:20])) == [6, 7, 7]
    assert np.bincount(folds[20:29]).tolist() == [3, 3, 3]
    assert folds[29] == -1  # never left out: the others would not know its class
    copies = np.arange(30) // 2
    together = assign_folds(codes, 3, np.random.default_rng(0), copies)[:20].reshape(10, 2)
    assert (together[:, 0] == together[:, 1]).all()
