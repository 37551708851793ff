"""The size of a packed file, counted by hand."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.compression.size import (
    add_up,
    average_leaves,
    estimate_size,
    id_bits,
    leaf_counts,
    n_distinct_splits,
    packed_size,
)

X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, Y))


def test_distinct_splits(forest):
    split = ~forest.is_leaf
    rows = zip(forest.feature[split], forest.threshold[split].astype(np.float32), strict=True)
    assert n_distinct_splits(forest) == len(set(rows))


def test_estimate_by_hand(forest):
    n_inner, n_leaves = int((~forest.is_leaf).sum()), int(forest.is_leaf.sum())
    counts = np.rint(forest.value * forest.cover[:, None])[forest.is_leaf]
    n_rows = len({tuple(row) for row in counts.tolist()})
    n_splits = n_distinct_splits(forest)
    bits = forest.n_nodes + n_inner * (1 + id_bits(n_splits)) + n_leaves * id_bits(n_rows)  # 1: where NaN goes
    by_hand = 4096 + bits / 8 + 3.2 * n_splits + 2 * n_rows + 4 * forest.n_trees
    assert estimate_size(forest) == pytest.approx(by_hand, abs=4)


def test_inner_values_that_follow_from_leaves_are_not_counted():
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, Y))
    derived = boosted.replace(value=average_leaves(boosted, boosted.value))
    n_inner = int((~boosted.is_leaf).sum())
    assert estimate_size(boosted.replace(cover=None)) > estimate_size(derived) + 6 * n_inner


def test_size_is_that_of_the_file_where_files_are_packed(forest, tmp_path):
    if not hasattr(forest, "to_packed_parts"):
        pytest.skip("files are not packed")
    forest.save(tmp_path / "forest.scurry")
    assert packed_size(forest) == (tmp_path / "forest.scurry").stat().st_size


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
