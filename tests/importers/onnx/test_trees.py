"""Random trees of every mode against the slow evaluator, and trees that share children."""

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.ensemble import EQ, LEQ, MEMBER, NEQ
from scurry.importers.onnx.graph import TREES, Node
from support.onnx_models import dtype_of, graph_of, indexed, listed, rows_for, save, sums_of


def check(node, folder, seed=0, whole=False):
    kind, dtype = dtype_of(node)
    forest = scurry.from_model(save(graph_of(node, kind, outputs=("scores",)), folder))
    rows = rows_for(np.random.default_rng(seed), 60, dtype, whole)
    np.testing.assert_array_equal(forest.scores(rows).astype(dtype), sums_of(node, rows))
    return forest


@pytest.mark.parametrize("seed", range(12))
def test_listed_trees_of_every_mode(seed, tmp_path):
    check(listed(np.random.default_rng(seed), "Regressor", 1, double=seed % 2 == 1), tmp_path, seed)


@pytest.mark.parametrize("seed", range(12))
def test_indexed_trees_of_every_mode(seed, tmp_path):
    check(indexed(np.random.default_rng(seed), 1, double=seed % 2 == 1), tmp_path, seed)


@pytest.mark.parametrize("seed", range(6))
def test_features_tested_for_sets_alone_are_categorical(seed, tmp_path):
    modes = (LEQ, EQ, NEQ, MEMBER, MEMBER)
    forest = check(indexed(np.random.default_rng(seed), 1, modes=modes, whole=True, n_trees=12), tmp_path, seed)
    assert list(forest.categories) == [0]
    assert forest.n_nodes < 12 * 20  # and so its sets are one node each


def chain(values, tracks=0):
    """One tree of comparisons with one number each, all of which lead to the same child."""
    n = len(values)
    return Node(
        "TreeEnsembleRegressor",
        ("X",),
        ("scores",),
        {
            "n_targets": 1,
            "nodes_treeids": np.zeros(n + 3, np.int64),
            "nodes_nodeids": np.arange(n + 3),
            "nodes_modes": [b"BRANCH_EQ"] * n + [b"BRANCH_LEQ", b"LEAF", b"LEAF"],
            "nodes_featureids": np.array([0] * n + [1, 0, 0]),
            "nodes_values": np.array([*values, 0.5, 0, 0], np.float32),
            # The chain leads to the comparison of another feature where a number is met, else to the last leaf.
            "nodes_truenodeids": np.array([n] * n + [n + 1, 0, 0]),
            "nodes_falsenodeids": np.array([*range(1, n), n + 2, n + 2, 0, 0]),
            "nodes_missing_value_tracks_true": np.array([tracks] * n + [0, 0, 0]),
            "target_treeids": np.zeros(2, np.int64),
            "target_nodeids": np.array([n + 1, n + 2]),
            "target_ids": np.zeros(2, np.int64),
            "target_weights": np.array([1.0, 2.0], np.float32),
        },
        TREES,
    )


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("values", [(3.0, 1.0, 35.0), (0.0,), (-1.0, 2.5), (np.inf, -np.inf)])
def test_chains_that_share_a_child(values, tracks, tmp_path):
    """LightGBM's categories are written so. A set of whole numbers stays one node."""
    forest = check(chain(values, tracks), tmp_path)
    if all(float(value).is_integer() for value in values):
        assert forest.n_nodes == 5
        np.testing.assert_array_equal(forest.categories[0], sorted(values))


def test_shared_children_that_would_be_too_many_are_refused(tmp_path):
    n = 40
    node = chain([1.0])
    attributes = dict(node.attributes) | {
        "nodes_treeids": np.zeros(n + 1, np.int64),
        "nodes_nodeids": np.arange(n + 1),
        "nodes_modes": [b"BRANCH_LEQ"] * n + [b"LEAF"],
        "nodes_featureids": np.zeros(n + 1, np.int64),
        "nodes_values": np.arange(n + 1, dtype=np.float32),
        "nodes_truenodeids": np.append(np.arange(1, n + 1), 0),
        "nodes_falsenodeids": np.append(np.arange(1, n + 1), 0),
        "nodes_missing_value_tracks_true": np.zeros(n + 1, np.int64),
        "target_nodeids": np.array([n, n]),
        "target_treeids": np.zeros(1, np.int64),
    }
    attributes |= {name: np.array([value]) for name, value in (("target_nodeids", n), ("target_ids", 0))}
    attributes["target_weights"] = np.ones(1, np.float32)
    grown = type(node)(node.op, node.inputs, node.outputs, attributes, node.domain)
    with pytest.raises(UnsupportedModelError, match="share children"):
        scurry.from_model(save(graph_of(grown, outputs=("scores",)), tmp_path))


def test_cycles_are_refused(tmp_path):
    node = chain([1.0, 2.0])
    attributes = dict(node.attributes) | {"nodes_falsenodeids": np.array([1, 0, 4, 0, 0])}
    looped = type(node)(node.op, node.inputs, node.outputs, attributes, node.domain)
    with pytest.raises(FormatError, match="below itself"):
        scurry.from_model(save(graph_of(looped, outputs=("scores",)), tmp_path))
