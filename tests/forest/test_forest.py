"""Forest: construction, checks, immutability."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from scurry import Forest, load
from scurry.errors import FormatError, InputError
from scurry.forest.structure import ARRAYS
from support.strategies import complete_forest, forests

STUMP = {
    "feature": [0, -1, -1],
    "threshold": [0.5, 0.0, 0.0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
}


def stump(**changes):
    return STUMP | changes


def test_shape_facts():
    leaf = {"feature": [-1], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.0, 1.0]]}
    forest = Forest.from_trees([STUMP, leaf, STUMP], n_features=3)
    assert (forest.n_trees, forest.n_nodes, forest.n_features, forest.n_classes) == (3, 7, 3, 2)
    assert forest.max_depth == 1
    assert forest.tree_depth.tolist() == [1, 0, 1]
    assert forest.node_depth.tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert forest.left.tolist() == [1, -1, -1, -1, 5, -1, -1]
    assert np.isnan(forest.cover).all()


def test_extra_keys_are_ignored_and_sklearn_leaf_markers_accepted():
    forest = Forest.from_trees([stump(feature=[0, -2, -2], threshold=[0.5, -2.0, -2.0], max_depth=1)])
    assert forest.predict([[0.0], [1.0]]).tolist() == [0, 1]


def test_labels_keep_their_dtype():
    for classes in (
        ["no", "yes"],
        [False, True],
        np.array([3, 7], np.uint8),
        [-1.5, 2.5],
        np.array(["a", None], object),
    ):
        forest = Forest.from_trees([STUMP], classes=classes)
        predicted = forest.predict([[0.0], [1.0]])
        assert predicted.dtype == np.asarray(classes).dtype
        assert predicted.tolist() == np.asarray(classes).tolist()


def test_nothing_can_be_changed():
    given_threshold = np.array([0.5, 0.0, 0.0])
    forest = Forest.from_trees([stump(threshold=given_threshold)])
    given_threshold[0] = 9.0
    assert forest.threshold[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        forest.threshold[0] = 1.0
    with pytest.raises(AttributeError, match="immutable"):
        forest.n_features = 4
    assert copy.deepcopy(forest) is forest


def test_nothing_can_be_changed_through_what_was_given():
    mine = np.array([0.5, 0.0, 0.0, 7.0])
    view = mine[:3]
    view.flags.writeable = False
    forest = Forest.from_trees([stump(threshold=view)])
    same = Forest(**{name: getattr(forest, name) for name in ARRAYS if name != "threshold"}, threshold=view,
                  n_features=1, classes=[0, 1])  # fmt: skip
    mine[0] = 9.0
    assert forest.threshold[0] == same.threshold[0] == 0.5


def test_arrays_are_aligned():
    forest = Forest.from_trees([STUMP])
    odd = np.frombuffer(b"\0" + forest.threshold.tobytes(), offset=1)
    assert not odd.flags.aligned
    fields = {name: getattr(forest, name) for name in ARRAYS} | {"threshold": odd}
    assert Forest(**fields, n_features=1, classes=[0, 1]).threshold.flags.aligned


def test_reaches_other_processes():
    forest = Forest.from_trees([STUMP], classes=["no", "yes"])
    forest.predict([[0.0]])  # the engine it now holds stays behind
    received = pickle.loads(pickle.dumps(forest))
    assert received.digest == forest.digest
    assert received.predict([[0.0], [1.0]]).tolist() == ["no", "yes"]
    with pytest.raises(FormatError, match="data received"):
        pickle.loads(pickle.dumps(forest).replace(b"manifest.json", b"manifesto.jso"))


def test_digest_tells_forests_apart():
    forest = Forest.from_trees([STUMP])
    assert forest.digest == Forest.from_trees([copy.deepcopy(STUMP)]).digest
    assert forest.digest != Forest.from_trees([stump(threshold=[0.25, 0.0, 0.0])]).digest
    assert forest.digest != Forest.from_trees([STUMP], classes=["a", "b"]).digest
    assert forest.digest != Forest.from_trees([STUMP], input_dtype="float64").digest


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


def test_float32_scores_are_of_trees_with_one_output():
    """The core sums vectors in float64 only, so that a model that does otherwise must not be taken for one."""
    with pytest.raises(InputError, match="needs trees of one output each, value has 2 columns"):
        complete_forest(n_columns=2, score_dtype="float32")


def test_no_trees():
    with pytest.raises(InputError, match="at least one tree"):
        Forest.from_trees([])


def test_regressor_has_no_probabilities():
    forest = Forest.from_trees([stump(value=[0.0, 1.0, 2.0])])
    assert not forest.is_classifier
    assert forest.predict([[0.0], [1.0]]).tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="regressor and has no probabilities"):
        forest.predict_proba([[0.0]])


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, "2"])
def test_thread_counts_are_checked(n_threads):
    with pytest.raises(InputError, match="n_threads must be a whole number of at least 1"):
        Forest.from_trees([STUMP]).predict([[0.0]], n_threads=n_threads)


@settings(max_examples=60, deadline=None)
@given(forest=forests())
def test_save_and_load_keep_everything(forest, tmp_path_factory):
    path = tmp_path_factory.mktemp("forest") / "f.scurry"
    forest.save(path)
    assert load(path).digest == forest.digest


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
