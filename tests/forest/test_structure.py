"""Structure: what is no forest is refused with a message that names the place, and arrays are frozen."""

import numpy as np
import pytest

from scurry import Forest
from scurry.errors import InputError
from scurry.forest.structure import ARRAYS, freeze, label_codes, link_scores
from support.strategies import complete_forest

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
