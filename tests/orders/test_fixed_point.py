"""Fixed point: no sum overflows, and values are rounded to the nearest unit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest
from scurry.errors import InputError
from scurry.forest import reference
from scurry.orders.fixed_point import FixedPointValues
from support.strategies import complete_forest, trees


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
