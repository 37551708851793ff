"""Forest: construction, immutability, and what it knows of its trees, against the reference."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from scurry import Forest, load
from scurry.errors import FormatError, InputError, ScurryWarning
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


def test_parents():
    forest = complete_forest(n_trees=3, depth=3, n_columns=2)
    roots = forest.tree_offset[:-1]
    assert (forest.parent[roots] == -1).all()
    for node in np.setdiff1d(np.arange(forest.n_nodes), roots):
        assert node in (forest.left[forest.parent[node]], forest.right[forest.parent[node]])
    assert not forest.parent.flags.writeable


@pytest.mark.parametrize(
    ("output", "trees_per_round"),
    [
        (None, 1),
        ([0, 1, 2, 0, 1, 2], 3),
        ([2, 0, 1, 0, 1, 2], 3),
        ([0, 0, 1, 1, 2, 2] * 2, 6),  # as XGBoost with num_parallel_tree=2
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 9),
    ],
)
def test_rounds(output, trees_per_round):
    n_trees = 6 if output is None else len(output)
    forest = complete_forest(
        n_trees=n_trees,
        depth=1,
        n_columns=3 if output is None else 1,
        classes=[0, 1, 2],
        tree_output=output,
    )
    assert (forest.trees_per_round, forest.n_rounds) == (trees_per_round, n_trees // trees_per_round)
    assert forest.score_divisor == (n_trees if output is None else n_trees // 3)
    assert forest.replace(aggregation="sum").score_divisor == 1


def test_replaced_fields():
    forest = Forest.from_trees([STUMP], classes=["no", "yes"])
    other = forest.replace(classes=[5, 6])
    assert other.predict([[0.0], [1.0]]).tolist() == [5, 6]
    assert forest.replace().digest == forest.digest != other.digest
    with pytest.raises(TypeError, match="unexpected keyword"):
        forest.replace(colour="red")


def test_counts_of_rows_are_no_shares():
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    with pytest.warns(ScurryWarning, match="the values of a leaf add up to 12, .* divide those of each node"):
        Forest.from_trees([stump | {"value": [[8, 6], [2, 0], [6, 6]]}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Forest.from_trees([stump | {"value": [[8, 6], [1, 0], [0.5, 0.5]]}])
        Forest.from_trees([stump | {"value": [[8, 6], [2, 0], [6, 6]]}], aggregation="vote")
