"""Values of inner nodes that follow from leaves."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.forest.files.values import add_up, average_leaves, leaf_counts, narrowest

X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, Y))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([0, 255], "u1"), ([256], "<u2"), ([65536], "<u4"), ([2**32], "<f4"), ([-1], "<f4"), ([-0.0], "<f4"),
     ([0.5], "<f4"), ([0.1], "<f8"), ([2**53 - 1], "<f8"), ([np.nan, 1], "<f4"), ([np.inf], "<f4"), ([1e39], "<f8")],
)  # fmt: skip
def test_narrowest(values, dtype):
    found = narrowest(np.array(values, float))
    assert found.dtype == np.dtype(dtype)
    assert found.astype(float).tobytes() == np.array(values, float).tobytes()


def test_means_of_leaves(forest):
    values = average_leaves(forest, np.ones_like(forest.value), forest.cover)
    np.testing.assert_array_equal(values, 1.0)
    unknown = average_leaves(forest, forest.value, np.full(forest.n_nodes, np.nan))
    tree = slice(forest.tree_offset[0], forest.tree_offset[1])
    np.testing.assert_allclose(unknown[0], forest.value[tree][forest.is_leaf[tree]].mean(axis=0))


def test_counts(forest):
    counts = leaf_counts(forest)
    np.testing.assert_array_equal(counts.sum(axis=1), forest.cover)
    roots = forest.tree_offset[:-1]
    assert (counts[roots].sum(axis=1) == len(X)).all()


def test_no_counts(forest):
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y))
    assert leaf_counts(boosted) is None
    assert leaf_counts(forest.replace(cover=None)) is None
    assert leaf_counts(forest.replace(cover=forest.cover * 0.1)) is None
    moved = forest.value.copy()
    moved[0] = moved[0, ::-1] if moved[0, 0] != moved[0, 1] else [1, 0]  # no longer the sum of its leaves
    assert leaf_counts(forest.replace(value=moved)) is None


def test_sums_of_leaves(forest):
    ones = forest.is_leaf.astype(float)
    add_up(forest, ones)
    for tree in range(forest.n_trees):
        start, end = forest.tree_offset[tree], forest.tree_offset[tree + 1]
        assert ones[start] == forest.is_leaf[start:end].sum()
