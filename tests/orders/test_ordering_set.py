"""Ordering set: rows and labels are checked, and rows keep the places of their leaves.

Fixed point: no sum overflows, and values are rounded to the nearest unit.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest
from scurry.errors import InputError
from scurry.forest import reference
from scurry.orders import accuracy_curve, find
from scurry.orders.ordering_set import FixedPointValues, OrderingSet
from support.strategies import complete_forest, trees


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


class TestFixedPointValues:
    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(trees(2, 3, 9), min_size=1, max_size=9),
        st.sampled_from(["mean", "vote", "sum"]),
        st.sampled_from([1e-8, 1.0, 3e5]),
    )
    def test_no_sum_overflows(self, given_trees, aggregation, scale):
        scaled = [{**tree, "value": tree["value"] * scale} for tree in given_trees]
        forest = Forest.from_trees(scaled, n_features=2, aggregation=aggregation)
        result = FixedPointValues.of(forest)
        largest = sum(
            np.abs(result.values[start:stop].astype(np.int64)).max()
            for start, stop in itertools.pairwise(forest.tree_offset)
        )
        assert largest <= 2**29
        # A single tree may swing from one class to the other, which is twice its largest sum.
        bits = int(np.ceil(np.log2(max(len(scaled), 2))))
        assert aggregation != "mean" or scale > 1 or result.unit == 2.0 ** (bits - 29)
        expected = reference.leaf_values(forest)
        assert np.abs(result.values * result.unit - expected).max() <= result.unit / 2

    def test_halves_round_away_from_zero(self):
        leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[2.0**-29, 3 * 2.0**-29]]}
        assert FixedPointValues.of(Forest.from_trees([leaf])).values.tolist() == [[1, 2]]

    def test_a_single_score_is_compared_with_its_threshold(self):
        forest = complete_forest(n_trees=4, depth=2, n_columns=1, classes=["a", "b"], decision_threshold=0.25)
        fixed = FixedPointValues.of(forest)
        assert fixed.last_class_wins_ties
        assert (fixed.start * fixed.unit).tolist() == [0.25 * 4, 0.0]
        assert not fixed.values[:, 0].any()

    def test_no_weights_for_sums_and_unknown_readouts(self):
        forest = complete_forest(n_trees=2, depth=2, n_columns=2, aggregation="sum")
        with pytest.raises(InputError, match="needs a classifier whose trees each answer with class fractions"):
            FixedPointValues.of(forest, "weighted")
        with pytest.raises(InputError, match="readout must be one of"):
            FixedPointValues.of(forest, "soft")
