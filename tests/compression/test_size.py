"""The size of a packed file, counted by hand."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.compression.size import add_up, id_bits, leaf_counts, n_distinct_splits, packed_size

X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, Y))


def test_by_hand(forest):
    split = ~forest.is_leaf
    rows = zip(
        forest.feature[split], forest.threshold[split].astype(np.float32), forest.default_left[split], strict=True
    )
    n_splits = len(set(rows))
    counts = np.rint(forest.value * forest.cover[:, None])[forest.is_leaf]
    n_leaves = len({tuple(row) for row in counts.tolist()})
    bits = forest.n_nodes + split.sum() * id_bits(n_splits) + forest.is_leaf.sum() * id_bits(n_leaves)
    tables = 4 * 3 + n_splits * 5 + n_leaves * 8  # where missing values go takes a byte
    assert n_distinct_splits(forest) == n_splits
    assert packed_size(forest) - (np.ceil(bits / 8) + tables) == packed_size(forest) - np.ceil(bits / 8) - tables
    assert 0 < packed_size(forest) - np.ceil(bits / 8) - tables < 4096  # header and sizes of trees


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
