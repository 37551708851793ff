"""The size of a packed file."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.compression.size import n_distinct_splits, packed_size
from scurry.forest.files.values import average_leaves

X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, Y))


def test_distinct_splits(forest):
    split = ~forest.is_leaf
    rows = zip(forest.feature[split], forest.threshold[split].astype(np.float32), strict=True)
    assert n_distinct_splits(forest) == len(set(rows))


def test_inner_values_that_follow_from_leaves_take_nothing():
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, Y))
    derived = boosted.replace(value=average_leaves(boosted, boosted.value, boosted.cover))
    n_inner = int((~boosted.is_leaf).sum())
    assert packed_size(boosted.replace(cover=None)) > packed_size(derived) + 6 * n_inner


def test_size_is_that_of_the_file(forest, tmp_path):
    forest.save(tmp_path / "forest.scurry")
    assert packed_size(forest) == (tmp_path / "forest.scurry").stat().st_size
