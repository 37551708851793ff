"""Ordering set: rows and labels are checked, and rows keep the places of their leaves."""

import numpy as np
import pytest

from scurry.errors import InputError
from scurry.orders import accuracy_curve, find
from scurry.orders.ordering_set import OrderingSet


def test_fields(digits):
    forest, X, y = digits
    ordering = OrderingSet.of(forest, X, y)
    np.testing.assert_array_equal(ordering.leaves, forest.apply(X))
    assert ordering.targets.tolist() == np.searchsorted(forest.classes, y).tolist()
    assert ordering.n_rows == len(X)


def test_both_descents_end_at_the_same_losses(digits):
    forest, X, y = digits
    ordering = OrderingSet.of(forest, X, y)
    steps = np.repeat(np.arange(forest.n_trees, dtype=np.int32), forest.tree_depth)
    whole = np.arange(forest.n_trees, dtype=np.int32)
    assert ordering.descent().losses(steps)[-1] == ordering.whole_trees().losses(whole)[-1]


class TestErrors:
    def test_no_rows(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match="X has no rows"):
            find(forest, X[:0], y[:0])

    def test_lengths(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match=r"y has shape \(599,\), X has 600 rows"):
            find(forest, X, y[1:])
        with pytest.raises(InputError, match="X has 63 columns"):
            find(forest, X[:, 1:], y)

    def test_labels_the_model_does_not_know(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match=r"y has 1 labels the model does not know: 10; its 10 classes are 0, 1"):
            find(forest, X, np.where(y == 3, 10, y))

    def test_missing_labels(self, digits):
        forest, X, y = digits
        holed = y.astype(float)
        holed[[4, 9]] = np.nan
        with pytest.raises(InputError, match="y has 2 missing labels, the first in row 4"):
            accuracy_curve(forest, [0], X, holed)
        with pytest.raises(InputError, match="1 missing labels, the first in row 0"):
            find(forest, X, np.array([None, *y[1:]], dtype=object))

    def test_not_a_forest(self, digits):
        _, X, y = digits
        with pytest.raises(InputError, match=r"forest must be a scurry.Forest, got list; use scurry.from_model"):
            find([], X, y)
