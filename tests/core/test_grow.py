"""The growing loops refuse what does not fit, and grow the same trees whatever thread they run in."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from scurry import _core

X = np.asfortranarray(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
CLASSES = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 1)
ONCE, COSTS = np.ones(40, np.int32), np.ones(3)
OPTIONS = {
    "n_classes": 3,
    "impurity": "pairs",
    "worst": True,
    "alpha": 0.0,
    "max_features": 3,
    "max_depth": 9,
    "seed": 0,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": CLASSES[:-1]}, "do not fit together"),
        ({"weights": ONCE[:-1]}, "do not fit together"),
        ({"costs": COSTS[:-1]}, "do not fit together"),
        ({"classes": CLASSES + 1}, "a class is out of range"),
        ({"classes": CLASSES - 1}, "a class is out of range"),
        ({"weights": -ONCE}, "weights must not be negative"),
        ({"weights": 0 * ONCE}, "nor all 0"),
        ({"costs": -COSTS}, "must not be negative"),
        ({"costs": COSTS * np.nan}, "must not be negative"),
        ({"alpha": np.nan}, "must not be negative"),
        ({"max_features": 0}, "max_features must be positive"),
        ({"impurity": "gini"}, "unknown impurity"),
    ],
)
def test_class_tasks_are_checked(changes, message):
    arguments = {"classes": CLASSES, "weights": ONCE, "costs": COSTS} | OPTIONS | changes
    with pytest.raises(ValueError, match=message):
        _core.grow_classes(_core.ColumnOrders(X), **arguments)


@pytest.mark.parametrize(
    "changes", [{"residuals": np.zeros(39)}, {"prices": np.zeros(2)}, {"leaf": np.zeros(41, np.int32)}]
)
def test_residual_tasks_are_checked(changes):
    given = {"residuals": np.zeros(40), "prices": np.zeros(3), "leaf": np.zeros(40, np.int32)} | changes
    with pytest.raises(ValueError, match="do not fit together"):
        _core.grow_residuals(
            _core.ColumnOrders(X), given["residuals"], given["prices"], max_depth=2, leaf_of_row=given["leaf"]
        )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_columns_are_refused(shape):
    with pytest.raises(ValueError, match="values must have rows and columns"):
        _core.ColumnOrders(np.zeros(shape, np.float32, order="F"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_without_a_middle_are_refused(value):
    with pytest.raises(ValueError, match="a value is not finite"):
        _core.ColumnOrders(np.array([[1.0], [value]], np.float32, order="F"))


def test_largest_floats_have_a_middle():
    largest = np.finfo(np.float32).max
    columns = _core.ColumnOrders(np.array([[-largest], [0.9 * largest], [largest]], np.float32, order="F"))
    task = np.array([0, 1, 0], np.int32), np.ones(3, np.int32), np.ones(1)
    assert (_core.grow_classes(columns, *task, **OPTIONS)["left"] >= 0).sum() == 2


def test_no_depth_is_a_single_leaf():
    grown = _core.grow_classes(_core.ColumnOrders(X), CLASSES, ONCE, COSTS, **OPTIONS | {"max_depth": 0})
    assert grown["left"].tolist() == [-1]
    np.testing.assert_allclose(grown["value"][0], np.bincount(CLASSES) / 40)


def test_threads_share_the_columns():
    columns = _core.ColumnOrders(X)

    def grown(seed):
        return _core.grow_classes(columns, CLASSES, ONCE, COSTS, **OPTIONS | {"max_features": 1, "seed": seed})

    with ThreadPoolExecutor(4) as pool:
        for seed, tree in enumerate(pool.map(grown, range(20))):
            for name, array in grown(seed).items():
                np.testing.assert_array_equal(tree[name], array)
