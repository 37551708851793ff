"""Trees that are joined, cut and averaged answer as before."""

import numpy as np
import pytest

from scurry import Forest
from scurry.errors import InputError
from scurry.forest import reference
from scurry.forest.trees import MAX_LEAVES, cut_trees, mean_of_leaves
from support.strategies import adversarial_rows, complete_forest, ragged_forest

RNG = np.random.default_rng(0)


def test_no_trees():
    with pytest.raises(InputError, match="at least one tree"):
        Forest.from_trees([])


def test_means_are_those_of_the_leaves_below():
    forest = complete_forest(n_trees=3, depth=4, n_columns=1)
    rng = np.random.default_rng(0)
    weight, leaf_value = rng.random(forest.n_nodes), rng.random(forest.n_nodes)
    means = mean_of_leaves(forest.tree_offset, forest.left, forest.right, weight, leaf_value)

    def leaves_below(node):
        if forest.left[node] < 0:
            return [node]
        return leaves_below(forest.left[node]) + leaves_below(forest.right[node])

    for node in range(forest.n_nodes):
        below = leaves_below(node)
        assert means[node] == pytest.approx(np.average(leaf_value[below], weights=weight[below]))


@pytest.mark.parametrize("header", [{}, {"score_dtype": "float32"}, {"input_dtype": "float64"}, {"comparison": "<"}])
@pytest.mark.parametrize("n_leaves", [65, 90, 110])
def test_scores_have_the_same_bits(n_leaves, header):
    forest = ragged_forest(30, n_leaves, seed=n_leaves, max_depth=14).replace(aggregation="sum", **header)
    cut = forest.replace(**cut_trees(forest))
    assert (np.diff(cut.tree_offset) + 1).max() // 2 <= MAX_LEAVES
    assert forest.n_trees < cut.n_trees <= 2 * forest.n_trees
    rows = adversarial_rows(forest, RNG.normal(size=(100, forest.n_features)), 600)
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    np.testing.assert_array_equal(cut.scores(rows), reference.scores(forest, rows))
    assert forest.engine.loop == "sliced"
    np.testing.assert_array_equal(forest.scores(rows), reference.scores(forest, rows))
    np.testing.assert_array_equal(forest.scores(rows[:1]), reference.scores(forest, rows[:1]))
    np.testing.assert_array_equal(forest.predict(rows), reference.predict(forest, rows))
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))


def test_forests_that_are_left_whole():
    large = ragged_forest(30, 80, seed=1, max_depth=14).replace(aggregation="sum")
    assert cut_trees(large.replace(aggregation="mean")) is None  # the number of trees divides the sum
    assert cut_trees(ragged_forest(30, 64).replace(aggregation="sum")) is None  # small enough
    assert cut_trees(ragged_forest(30, 200).replace(aggregation="sum")) is None  # too large
    assert cut_trees(complete_forest(30, 7, n_columns=1, aggregation="sum")) is None  # too many parts
    assert cut_trees(large) is not None


def test_a_chain_cannot_be_cut():
    """Whatever begins in the middle of a chain has all leaves of the chain before it beside its path."""
    n = 70
    left = np.where(np.arange(2 * n + 1) % 2 == 0, np.arange(2 * n + 1) + 1, -1)
    left[-1] = -1
    chain = ragged_forest(1, 20).from_trees(
        [
            {
                "feature": np.where(left >= 0, 0, -1),
                "threshold": np.where(left >= 0, np.arange(2 * n + 1.0), 0.0),
                "left": left,
                "right": np.where(left >= 0, left + 1, -1),
                "value": np.arange(2.0 * n + 1)[:, None],
            },
            *[{"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[1.0]]}] * 3,
        ],
        n_features=1,
        aggregation="sum",
    )
    assert cut_trees(chain) is None
