"""Attributes of trees that contradict each other are refused by their names."""

from dataclasses import replace

import numpy as np
import pytest

from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.ensemble import MEMBER, read_indexed, read_listed
from support.onnx_models import indexed, listed

LISTED = listed(np.random.default_rng(1), "Regressor", 1).attributes
INDEXED = indexed(np.random.default_rng(5), 2, modes=(0, MEMBER)).attributes


def changed(attributes, name, change):
    values = attributes[name].copy()
    change(values)
    return dict(attributes) | {name: values}


def put(at, value):
    def change(values):
        values[at] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("nodes_nodeids", put(1, 0), "same number"),
        ("nodes_nodeids", put(1, -1), "negative"),
        ("nodes_truenodeids", put(0, 99), "nodes_truenodeids names a node"),
        ("nodes_falsenodeids", put(0, 2**40), "nodes_falsenodeids names a node"),
        ("target_ids", put(0, 1), "target_ids must be in 0..0"),
        ("target_treeids", put(0, 77), "target_treeids names a tree"),
        ("target_nodeids", put(0, 77), "target_nodeids names a node"),
    ],
)
def test_listed_trees(name, change, message):
    with pytest.raises(FormatError, match=message):
        read_listed(changed(LISTED, name, change), "target", 1)


@pytest.mark.parametrize("name", sorted(set(LISTED) - {"n_targets", "nodes_missing_value_tracks_true"}))
def test_lists_that_are_too_short(name):
    with pytest.raises(FormatError):
        read_listed(dict(LISTED) | {name: LISTED[name][:-1]}, "target", 1)


def test_trees_whose_nodes_are_scattered():
    trees = LISTED["nodes_treeids"].copy()
    trees[-1] = trees[0]
    with pytest.raises(FormatError, match="do not follow each other"):
        read_listed(dict(LISTED) | {"nodes_treeids": trees}, "target", 1)


def test_two_weights_for_one_target():
    doubled = {name: np.append(LISTED[name], LISTED[name][:1]) for name in LISTED if name.startswith("target_")}
    with pytest.raises(UnsupportedModelError, match="several weights"):
        read_listed(dict(LISTED) | doubled, "target", 1)


def test_weights_of_inner_nodes_are_ignored():
    inner = int(np.flatnonzero([mode != b"LEAF" for mode in LISTED["nodes_modes"]])[0])
    more = {
        "target_treeids": LISTED["nodes_treeids"][inner],
        "target_nodeids": LISTED["nodes_nodeids"][inner],
        "target_ids": 0,
        "target_weights": np.float32(9),
    }
    longer = dict(LISTED) | {name: np.append(LISTED[name], value) for name, value in more.items()}
    longer["target_weights"] = longer["target_weights"].astype(np.float32)
    np.testing.assert_array_equal(read_listed(longer, "target", 1).value, read_listed(LISTED, "target", 1).value)


def test_unknown_modes():
    with pytest.raises(UnsupportedModelError, match="unknown mode b'BRANCH_NEAR'"):
        read_listed(dict(LISTED) | {"nodes_modes": [b"BRANCH_NEAR", *LISTED["nodes_modes"][1:]]}, "target", 1)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("nodes_modes", put(0, 7), "numbers from 0 to 6"),
        ("nodes_truenodeids", put(0, 99), "nodes_truenodeids names"),
        ("nodes_falsenodeids", put(0, -1), "nodes_falsenodeids names"),
        ("tree_roots", put(0, 99), "tree_roots"),
        ("leaf_targetids", put(0, 2), "leaf_targetids"),
    ],
)
def test_indexed_trees(name, change, message):
    with pytest.raises(FormatError, match=message):
        read_indexed(changed(INDEXED, name, change), 2)


def test_sets_and_nodes_must_be_as_many():
    with pytest.raises(FormatError, match="membership_values has"):
        read_indexed(dict(INDEXED) | {"membership_values": np.array([1, np.nan, 2], np.float32)}, 2)


def test_sets_are_separated_by_nan():
    ensemble = read_indexed(INDEXED, 2)
    without_end = dict(INDEXED) | {"membership_values": INDEXED["membership_values"][:-1]}
    again = read_indexed(without_end, 2)
    assert ensemble.members.keys() == again.members.keys()
    for node, values in ensemble.members.items():
        np.testing.assert_array_equal(values, again.members[node])


def test_many_classes_without_weights_allocate_nothing():
    few = replace(read_indexed(INDEXED, 2))
    assert few.value.shape[1] == 2
    with pytest.raises(UnsupportedModelError, match="classes or targets and only"):
        read_indexed(INDEXED, 2**30)
