"""Structure: what is no forest is refused with a message that names the place, and arrays are frozen.

Large trees cut into small ones that add up to the same.
"""

import numpy as np
import pytest

from scurry import Forest
from scurry.errors import InputError
from scurry.forest import reference
from scurry.forest.structure import ARRAYS, MAX_LEAVES, cut_trees, freeze, label_codes, link_scores, mean_of_leaves
from support.strategies import adversarial_rows, complete_forest, ragged_forest

STUMP = {
    "feature": [0, -1, -1],
    "threshold": [0.5, 0.0, 0.0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
}


def stump(**changes):
    return STUMP | changes


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (stump(left=[3, -1, -1]), r"left\[0\] = 3 is outside its 3 nodes"),
        (stump(left=[0, -1, -1]), "must come after it"),
        (stump(left=[2, -1, -1]), "exactly one parent"),
        (stump(right=[-1, -1, -1]), "two children or none"),
        (stump(feature=[-1, -1, -1]), "features must be in"),
        (stump(threshold=[np.nan, 0, 0]), "threshold is NaN"),
        (stump(threshold=["a", "b", "c"]), "threshold must be numeric"),
        (stump(feature=[0.5, 0, 0]), "do not fit int32"),
        (stump(value=[[0.5, 0.5], [np.inf, 0.1], [0.2, 0.8]]), "value must be finite"),
        (stump(value=[[0.5, 0.5], [0.9, 0.1]]), "value has shape"),
        (stump(cover=[3.0, -1.0, 1.0]), "cover must not be negative"),
        ({"feature": [0]}, "lacks threshold, left, right, value"),
    ],
)
def test_broken_trees_are_named(tree, message):
    with pytest.raises(InputError, match=message):
        Forest.from_trees([tree])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "3 classes for 2 outputs"),
        ({"classes": ["a", "a"]}, "distinct"),
        ({"aggregation": "median"}, 'aggregation must be one of "mean", "vote", "sum", got \'median\''),
        ({"input_dtype": "float16"}, "input_dtype must be one of"),
        ({"n_features": 0}, "features must be in"),
        ({"n_features": -1}, "n_features must be from 0 to"),
        ({"n_features": 2**31}, "n_features must be from 0 to"),
    ],
)
def test_broken_headers_are_named(header, message):
    with pytest.raises(InputError, match=message):
        Forest.from_trees([STUMP], **header)


def test_no_trees():
    with pytest.raises(InputError, match="at least one tree"):
        Forest.from_trees([])


def test_arrays_that_are_views_of_others_are_copied():
    """A read-only view is no protection: whoever holds the array it looks at can write to it."""
    joined = Forest.from_trees([STUMP])
    threshold = np.array([0.5, 0.0, 0.0])
    view = threshold.view()
    view.flags.writeable = False
    forest = joined.replace(threshold=view)
    threshold[0] = 2.0
    assert forest.threshold[0] == 0.5
    again = forest.replace()
    assert np.shares_memory(again.threshold, forest.threshold)


def test_arrays_are_aligned():
    forest = Forest.from_trees([STUMP])
    odd = np.frombuffer(b"\0" + forest.threshold.tobytes(), offset=1)
    assert not odd.flags.aligned
    fields = {name: getattr(forest, name) for name in ARRAYS} | {"threshold": odd}
    assert Forest(**fields, n_features=1, classes=[0, 1]).threshold.flags.aligned


def test_names_and_titles():
    with_names = Forest.from_trees([STUMP], n_features=2).replace(feature_names=["age", "dose"])
    without = Forest.from_trees([STUMP], n_features=2)
    assert list(with_names.names) == list(with_names.titles) == ["age", "dose"]
    assert (list(without.names), list(without.titles)) == ([0, 1], ["column 0", "column 1"])
    assert (with_names.name_of(1), without.name_of(1)) == ("dose", 1)


def test_freezing_never_changes_a_value():
    with pytest.raises(InputError, match="feature has values that do not fit int32"):
        freeze([0.5], np.int32, "feature")
    with pytest.raises(InputError, match="feature must be numeric"):
        freeze(["a"], np.int32, "feature")
    own = np.arange(3)
    frozen = freeze(own, np.int64, "x")
    own[0] = 7
    assert (frozen.tolist(), frozen.flags.writeable) == ([0, 1, 2], False)


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


def test_category_sets_beyond_the_last_are_refused():
    """The core would read past the end of its bits."""
    fields = {"category_offset": [0, 1, 2], "category_bits": [5, 6]}
    forest = complete_forest(1, 1, 2, 2, category_set=[1, -1, -1], **fields)
    assert forest.category_set[0] == 1
    for beyond in (2, 3, -2):
        with pytest.raises(InputError, match="must be -1 or name one of the 2 sets"):
            complete_forest(1, 1, 2, 2, category_set=[beyond, -1, -1], **fields)


def test_a_child_beyond_the_last_node_is_refused():
    with pytest.raises(InputError, match="child 2 must come after it and inside its tree"):
        complete_forest(
            1,
            0,
            1,
            1,
            tree_offset=[0, 2],
            feature=[0, -1],
            threshold=[0, 0],
            left=[1, -1],
            right=[2, -1],
            value=[[1.0], [2.0]],
            default_left=[0, 0],
        )


def test_a_feature_beyond_the_last_is_refused():
    with pytest.raises(InputError, match=r"features must be in 0\.\.0, got 1\.\.1"):
        Forest.from_trees([stump(feature=[1, -1, -1])], n_features=1)


def test_values_of_inner_nodes_are_finite_too():
    with pytest.raises(InputError, match="inner nodes included"):
        Forest.from_trees([stump(value=[[0.5, np.inf], [0.9, 0.1], [0.2, 0.8]])])


def test_links_of_scores():
    scores = np.array([[1000.0, 999.0], [0.0, 0.0]])
    np.testing.assert_allclose(
        link_scores(scores, "softmax", 2.0), [[1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], [0.5, 0.5]]
    )
    np.testing.assert_allclose(link_scores(np.array([[1.0]]), "logistic", 3.0), 1 / (1 + np.exp(-3)))


def test_labels_are_compared_exactly():
    """numpy finds the int 2**53 + 1 equal to the float 2**53."""
    with pytest.raises(InputError, match="labels the model does not know"):
        label_codes(np.array([2.0**53, 0.0]), np.array([2**53 + 1]), "y")


def test_offsets_whose_differences_overflow_are_refused():
    largest = np.iinfo(np.int64).max
    with pytest.raises(InputError, match="tree_offset must rise strictly"):
        complete_forest(1, 2, 2, 2, tree_offset=[0, largest, -largest, -1, 7])
    with pytest.raises(InputError, match="category_offset must rise"):
        complete_forest(1, 2, 2, 2, category_offset=[0, largest, -largest, -1, 2], category_bits=[5, 6])


RNG = np.random.default_rng(0)


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
