"""Leaves of trees as arrays."""

from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.stopping.sentinels import leaves as module
from scurry.stopping.sentinels.leaves import Leaves


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    return scurry.from_model(RandomForestRegressor(6, random_state=0).fit(X, X[:, 0] * X[:, 1])), X


def test_leaves_are_numbered_within_their_trees(forest):
    forest, X = forest
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    assert np.array_equal(np.sort(leaves.node), np.flatnonzero(forest.is_leaf))
    nodes = forest.apply(X)
    reached = leaves.encode(nodes)
    assert reached.shape == nodes.T.shape
    assert reached.dtype == np.uint16
    assert reached.flags.c_contiguous
    assert np.array_equal(leaves.node[leaves.offset[:-1, None] + reached], nodes.T)


def test_small_trees_need_one_byte():
    leaves = Leaves.of(np.array([0, 3]), np.array([-1, 0, 0]))
    assert leaves.encode(np.array([[2], [1]])).dtype == np.uint8


def test_trees_of_too_many_leaves_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_LEAVES", 2)
    with pytest.raises(InputError, match="3 leaves, at most 2"):
        Leaves.of(np.array([0, 4]), np.array([-1, 0, 0, 0]))


def test_smoothing_is_that_of_a_recursion(forest):
    forest, X = forest
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    nodes, misses = forest.apply(X), np.random.default_rng(1).exponential(size=len(X))
    totals, counts = np.zeros(forest.n_nodes), np.zeros(forest.n_nodes)
    for row, miss in zip(nodes, misses, strict=True):
        for node in row:
            totals[node] += miss
            counts[node] += 1
    found = leaves.smooth(totals[leaves.node], counts[leaves.node], 8.0)

    @cache
    def below(node):
        if forest.left[node] < 0:
            return np.array([totals[node], counts[node]])
        return below(forest.left[node]) + below(forest.right[node])

    @cache
    def mean(node):
        total, count = below(node)
        if forest.parent[node] < 0:
            return total / count
        return (total + 8.0 * mean(forest.parent[node])) / (count + 8.0)

    assert np.allclose(found, [mean(node) for node in leaves.node], rtol=1e-12)
