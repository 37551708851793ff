"""Ensemble: the trees of an operator of ONNX-ML as its attributes describe them, checked.

A node sends a row to its true or to its false child: by a comparison with a number, or by membership in a set
("BRANCH_EQ" is a set of one). A missing value goes to the true child where the node says so, else to the false one,
except that "BRANCH_NEQ" is true for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
"""How a node compares; all but the last as the operator TreeEnsemble numbers them."""
MODES = {
    b"BRANCH_LEQ": LEQ,
    b"BRANCH_LT": LT,
    b"BRANCH_GTE": GTE,
    b"BRANCH_GT": GT,
    b"BRANCH_EQ": EQ,
    b"BRANCH_NEQ": NEQ,
    b"LEAF": LEAF,
}


@dataclass(frozen=True)
class Ensemble:
    """Trees as a file describes them.

    Attributes
    ----------
    roots : int64 array of shape (n_trees,)
    true, false : int64 arrays of shape (n_nodes,)
        Children, -1 at leaves.
    feature : int64 array of shape (n_nodes,)
    split : float64 array of shape (n_nodes,)
    mode : uint8 array of shape (n_nodes,)
    track : bool array of shape (n_nodes,)
        Whether missing values go to the true child.
    members : mapping of int to array
        The sets of "BRANCH_MEMBER" nodes.
    value : float64 array of shape (n_nodes, n_targets)
        What leaves add.
    scored : bool array of shape (n_nodes, n_targets)
        Where a leaf has a weight, be it zero.
    hitrate : float64 array of shape (n_nodes,)
        NaN where the file does not say.
    """

    roots: NDArray[np.int64]
    true: NDArray[np.int64]
    false: NDArray[np.int64]
    feature: NDArray[np.int64]
    split: NDArray[np.float64]
    mode: NDArray[np.uint8]
    track: NDArray[np.bool_]
    members: Mapping[int, NDArray[np.float64]]
    value: NDArray[np.float64]
    scored: NDArray[np.bool_]
    hitrate: NDArray[np.float64]


def read_listed(attributes: Mapping[str, Any], weights: str, n_targets: int) -> Ensemble:
    """Read the trees of a TreeEnsembleClassifier or TreeEnsembleRegressor.

    Parameters
    ----------
    attributes : mapping
    weights : {"class", "target"}
        How the attributes of leaves are called.
    n_targets : int

    Returns
    -------
    Ensemble
    """
    tree, node = _ints(attributes, "nodes_treeids"), _ints(attributes, "nodes_nodeids", like="nodes_treeids")
    if not len(tree):
        raise FormatError("it has no nodes")
    mode = _modes(attributes, len(tree))
    first = np.flatnonzero(np.append(True, tree[1:] != tree[:-1]))
    names = tree[first]
    if len(np.unique(names)) != len(names):
        raise FormatError("the nodes of a tree do not follow each other")
    # Nodes are found by tree and number, which files may give in any order.
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(tree))))
    if node.min() < 0 or node.max() >= 2**31:
        raise FormatError("the number of a node is negative or too large")
    key = run * 2**31 + node
    order = np.argsort(key, kind="stable")
    if (np.diff(key[order]) == 0).any():
        raise FormatError("two nodes of a tree have the same number")

    def find(of_run: NDArray[np.int64], number: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        wanted = of_run * 2**31 + number
        at = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(order) - 1)]
        if ((number < 0) | (number >= 2**31) | (key[at] != wanted)).any():
            raise FormatError(f"{name} names a node that its tree does not have")
        return at

    inner = mode != LEAF
    true, false = np.full(len(tree), -1, np.int64), np.full(len(tree), -1, np.int64)
    for child, name in ((true, "nodes_truenodeids"), (false, "nodes_falsenodeids")):
        child[inner] = find(run[inner], _ints(attributes, name, like="nodes_treeids")[inner], name)
    leaf_tree, leaf_node = _ints(attributes, f"{weights}_treeids"), _ints(attributes, f"{weights}_nodeids")
    target, weight = _ints(attributes, f"{weights}_ids"), _floats(attributes, f"{weights}_weights")
    if not len(leaf_tree) == len(leaf_node) == len(target) == len(weight):
        raise FormatError(f"its {weights}_ids, _nodeids, _treeids and _weights differ in length")
    by_name = np.argsort(names, kind="stable")
    place = by_name[np.minimum(np.searchsorted(names, leaf_tree, sorter=by_name), len(names) - 1)]
    if (names[place] != leaf_tree).any():
        raise FormatError(f"{weights}_treeids names a tree that it does not have")
    leaf = find(place, leaf_node, f"{weights}_nodeids")
    if len(target) and (target.min() < 0 or target.max() >= n_targets):
        raise FormatError(f"{weights}_ids must be in 0..{n_targets - 1}, got {target.min()}..{target.max()}")
    of_leaf = ~inner[leaf]  # old converters gave weights to inner nodes as well, which nobody reads
    leaf, target, weight = leaf[of_leaf], target[of_leaf], weight[of_leaf]
    _check_cells(len(tree), n_targets, len(weight))
    value, scored = np.zeros((len(tree), n_targets)), np.zeros((len(tree), n_targets), bool)
    value[leaf, target], scored[leaf, target] = weight, True
    if scored.sum() != len(weight):
        raise UnsupportedModelError("a leaf has several weights for one class or target; add them up")
    split = _floats(attributes, "nodes_values", len(tree))
    if n_targets == 1 and (bare := (mode == LEAF) & ~scored[:, 0] & (split != 0)).any():
        raise UnsupportedModelError(f"leaf {int(np.argmax(bare))} has no weight; give it the weight 0")
    return Ensemble(
        roots=first,
        true=true,
        false=false,
        feature=_ints(attributes, "nodes_featureids", like="nodes_treeids"),
        split=split,
        mode=mode,
        track=_tracks(attributes, len(tree)),
        members={},
        value=value,
        scored=scored,
        hitrate=_hitrates(attributes, len(tree)),
    )


def read_indexed(attributes: Mapping[str, Any], n_targets: int) -> Ensemble:
    """Read the trees of a TreeEnsemble, whose nodes and leaves are two lists; leaves are put after the nodes."""
    feature = _ints(attributes, "nodes_featureids")
    n_inner = len(feature)
    mode = _tensor(attributes, "nodes_modes", n_inner)
    if mode.dtype != np.uint8 or mode.max(initial=0) > MEMBER:
        raise FormatError("nodes_modes must be numbers from 0 to 6 of type uint8")
    target, weight = _ints(attributes, "leaf_targetids"), _floats(attributes, "leaf_weights")
    if len(target) != len(weight) or (len(target) and (target.min() < 0 or target.max() >= n_targets)):
        raise FormatError(f"leaf_targetids must be as many as leaf_weights, and in 0..{n_targets - 1}")
    n_leaves = len(weight)
    n_nodes = n_inner + n_leaves
    _check_cells(n_nodes, n_targets, n_leaves)
    children = []
    for side in ("true", "false"):
        at, is_leaf = (
            _ints(attributes, f"nodes_{side}{what}", like="nodes_featureids") for what in ("nodeids", "leafs")
        )
        if ((at < 0) | (at >= np.where(is_leaf != 0, n_leaves, n_inner))).any():
            raise FormatError(f"nodes_{side}nodeids names a node or a leaf that it does not have")
        children.append(np.append(np.where(is_leaf != 0, at + n_inner, at), np.full(n_leaves, -1)))
    true, false = children
    roots = _ints(attributes, "tree_roots")
    if not len(roots) or roots.min() < 0 or roots.max() >= n_inner:
        raise FormatError("tree_roots must name at least one node, and only nodes that are there")
    # A tree of one leaf is written as a node both of whose children it is.
    roots = np.where((true[roots] == false[roots]) & (true[roots] >= n_inner), true[roots], roots)
    value, scored = np.zeros((n_nodes, n_targets)), np.zeros((n_nodes, n_targets), bool)
    leaves = np.arange(n_inner, n_nodes)
    value[leaves, target], scored[leaves, target] = weight, True
    members = _members(attributes, np.flatnonzero(mode == MEMBER))
    hitrate = np.full(n_nodes, np.nan)
    if "nodes_hitrates" in attributes:
        hitrate[:n_inner] = _floats(attributes, "nodes_hitrates", n_inner)
    return Ensemble(
        roots=roots,
        true=true,
        false=false,
        feature=np.append(feature, np.zeros(n_leaves, np.int64)),
        split=np.append(_floats(attributes, "nodes_splits", n_inner), np.zeros(n_leaves)),
        mode=np.append(mode, np.full(n_leaves, LEAF, np.uint8)),
        track=np.append(_tracks(attributes, n_inner), np.zeros(n_leaves, bool)),
        members=members,
        value=value,
        scored=scored,
        hitrate=hitrate,
    )


def _members(attributes: Mapping[str, Any], nodes: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
    """Return the set of each node; the file has them one after the other, with NaN between them."""
    if not len(nodes):
        return {}
    values = _floats(attributes, "membership_values")
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    sets = [one[~np.isnan(one)] for one in sets]
    if len(sets) > len(nodes) and not len(sets[-1]):
        sets.pop()  # a separator may also end the last one
    if len(sets) != len(nodes):
        raise FormatError(f"membership_values has {len(sets)} sets for {len(nodes)} nodes")
    return dict(zip(nodes.tolist(), sets, strict=True))


def _ints(attributes: Mapping[str, Any], name: str, like: str | None = None) -> NDArray[np.int64]:
    values = attributes.get(name, np.zeros(0, np.int64))
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
        raise FormatError(f"{name} must be a list of integers")
    if like is not None and len(values) != (size := len(_ints(attributes, like))):
        raise FormatError(f"{name} has {len(values)} entries, {like} has {size}")
    return values


def _floats(attributes: Mapping[str, Any], name: str, size: int | None = None) -> NDArray[np.float64]:
    """Return floats, which files keep in a list, in a tensor, or in a tensor of another name."""
    values = attributes.get(name)
    if values is None or (isinstance(values, np.ndarray) and not values.size):
        values = attributes.get(f"{name}_as_tensor", np.zeros(0))
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.ndim != 1:
        raise FormatError(f"{name} must be a list of floats")
    if size is not None and len(values) != size:
        raise FormatError(f"{name} has {len(values)} entries, expected {size}")
    with np.errstate(invalid="ignore"):  # NaNs of damaged files may be of the kind that signals
        return values.astype(np.float64)


def _tensor(attributes: Mapping[str, Any], name: str, size: int) -> NDArray[Any]:
    values = attributes.get(name)
    if not isinstance(values, np.ndarray) or values.shape != (size,):
        raise FormatError(f"{name} must be a tensor of {size} entries")
    return values


def _modes(attributes: Mapping[str, Any], size: int) -> NDArray[np.uint8]:
    texts = attributes.get("nodes_modes")
    if not isinstance(texts, list) or len(texts) != size:
        raise FormatError(f"nodes_modes must be a list of {size} texts")
    if unknown := set(texts) - MODES.keys():
        raise UnsupportedModelError(
            f"its nodes have the unknown mode {min(unknown)[:40]!r}; known are {', '.join(m.decode() for m in MODES)}"
        )
    return np.fromiter(map(MODES.__getitem__, texts), np.uint8, size)


def _tracks(attributes: Mapping[str, Any], size: int) -> NDArray[np.bool_]:
    tracks = _ints(attributes, "nodes_missing_value_tracks_true")
    if len(tracks) not in (0, size):
        raise FormatError(f"nodes_missing_value_tracks_true has {len(tracks)} entries, expected {size}")
    return tracks == 1 if len(tracks) else np.zeros(size, bool)


def _hitrates(attributes: Mapping[str, Any], size: int) -> NDArray[np.float64]:
    rates = _floats(attributes, "nodes_hitrates")
    return rates if len(rates) == size else np.full(size, np.nan)


def _check_cells(n_nodes: int, n_targets: int, n_weights: int) -> None:
    """Refuse a matrix of values that is far larger than the weights the file has for it."""
    if n_nodes * n_targets > 64 * (n_nodes + n_weights) + 2**20:
        raise UnsupportedModelError(f"it has {n_targets} classes or targets and only {n_weights} weights of leaves")
