"""Candidates: how far each step goes, and that they become smaller."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.compression.path import Compressor, Step, list_steps, n_distinct_splits, packed_size
from scurry.forest.files.packed import average_leaves

RNG = np.random.default_rng(2)
X = RNG.normal(size=(1500, 5)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=1500) > 0).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(40, random_state=0).fit(X, Y))


def test_first_step_changes_no_answer(forest):
    small = Compressor(forest).make(Step())
    np.testing.assert_array_equal(small.predict_proba(X), forest.predict_proba(X))
    assert packed_size(small) < packed_size(forest)


def test_sharing_keeps_the_trees(forest):
    small = Compressor(forest).make(Step(1.0, 8))
    np.testing.assert_array_equal(small.left, forest.left)
    assert len(set(zip(small.feature.tolist(), small.threshold.tolist(), strict=True))) <= 257


@pytest.mark.parametrize("rows", [None, X])
def test_trees_and_splits_go(forest, rows):
    small = Compressor(forest, rows).make(Step(0.09, 12))
    assert small.n_trees == 12
    assert 0.08 < small.n_nodes / forest.n_nodes <= 0.09
    assert (small.predict(X) == forest.predict(X)).mean() > 0.8


def test_rows_make_answers_better(forest):
    new = RNG.normal(size=(4000, 5)).astype(np.float32)
    full = forest.predict_proba(new)
    errors = [
        np.square(Compressor(forest, rows).make(Step(0.05, 12)).predict_proba(new) - full).mean() for rows in (None, X)
    ]
    assert errors[1] < errors[0]


def test_many_rows_are_selected_evenly(forest, monkeypatch):
    monkeypatch.setattr("scurry.compression.path._MAX_VISITS", 40 * 100)
    rows = Compressor(forest, X).rows
    assert len(rows) == 100
    np.testing.assert_array_equal(rows[[0, -1]], X[[0, -1]])


def test_steps(forest):
    labels, others = list_steps(forest, 0.005), list_steps(forest, None)
    assert labels[0] == others[0] == Step()
    assert all(step.node_share == 1 for step in labels)
    bits = [step.split_bits for step in labels[1:]]
    assert bits == sorted(bits, reverse=True)
    assert bits[-1] == 8
    assert 2 ** bits[0] < n_distinct_splits(forest)
    shares = [step.node_share for step in others[1:]]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.005
    assert list_steps(forest, 0.02) == others


def test_sizes_fall(forest):
    compressor = Compressor(forest, X)
    sizes = [packed_size(compressor.make(step)) for step in list_steps(forest, None)[::4]]
    assert sizes == sorted(sizes, reverse=True)


def test_one_value_in_each_leaf():
    forest = scurry.from_model(GradientBoostingRegressor(n_estimators=40, random_state=0).fit(X, X[:, 0] * X[:, 1]))
    small = Compressor(forest, X).make(Step(1.0, 8))
    assert len(np.unique(small.value[small.is_leaf])) <= 64
    assert Compressor(forest, X).make(Step(0.25, 12)).n_trees == 20
    assert "256 distinct splits" in Step(1.0, 8).describe()
    assert "25 % of the nodes" in Step(0.25, 12).describe()


def test_distinct_splits(forest):
    split = ~forest.is_leaf
    rows = zip(forest.feature[split], forest.threshold[split].astype(np.float32), strict=True)
    assert n_distinct_splits(forest) == len(set(rows))


def test_inner_values_that_follow_from_leaves_take_nothing():
    few = X[:200, :3]
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(few, few[:, 0] > few[:, 1])
    boosted = scurry.from_model(model)
    derived = boosted.replace(value=average_leaves(boosted, boosted.value, boosted.cover))
    n_inner = int((~boosted.is_leaf).sum())
    assert packed_size(boosted.replace(cover=None)) > packed_size(derived) + 6 * n_inner


def test_size_is_that_of_the_file(forest, tmp_path):
    forest.save(tmp_path / "forest.scurry")
    assert packed_size(forest) == (tmp_path / "forest.scurry").stat().st_size
