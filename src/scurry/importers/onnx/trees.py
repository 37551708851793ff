"""Trees of the ONNX-ML operators, and what becomes of them in a `Forest`.

A node sends a row to its true or to its false child: by a comparison with a number, or by membership in a set
("BRANCH_EQ" is a set of one). A missing value goes to the true child where the node says so, else to the false one,
except that "BRANCH_NEQ" is true for it.

A feature that is tested for whole numbers of sets alone becomes a categorical one, whose values are looked up. Other
sets become two comparisons per member. Where several nodes share a child, as converters of LightGBM's categories write
it, the child is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError
from scurry.forest.front import RawRows
from scurry.forest.structure import mean_of_leaves

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
_MAX_COPIES = 2**22  # nodes that a model may have after shared children were copied
_MAX_CATEGORY = 2**24  # whole numbers beyond have gaps in float32


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
    if like is not None and len(values) != len(attributes[like]):
        raise FormatError(f"{name} has {len(values)} entries, {like} has {len(attributes[like])}")
    return values


def _floats(attributes: Mapping[str, Any], name: str, size: int | None = None) -> NDArray[np.float64]:
    """Return floats, which files keep in a list, in a tensor, or in a tensor of another name."""
    values = attributes.get(name)
    if values is None or (isinstance(values, np.ndarray) and not len(values)):
        values = attributes.get(f"{name}_as_tensor", np.zeros(0))
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.ndim != 1:
        raise FormatError(f"{name} must be a list of floats")
    if size is not None and len(values) != size:
        raise FormatError(f"{name} has {len(values)} entries, expected {size}")
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
    return np.fromiter((MODES[text] for text in texts), np.uint8, size)


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


def lower(ensemble: Ensemble) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Return the node arrays of a `Forest`, its categories and what its rows must be, and the outputs of each tree.

    The second is a bool array of shape (n_trees, n_targets): whether any leaf of the tree adds to the output.
    """
    inner = ensemble.mode != LEAF
    if (ensemble.feature[inner] < 0).any():
        raise FormatError("a node tests a negative feature")
    if (np.isnan(ensemble.split) & inner & (ensemble.mode != MEMBER)).any():
        raise FormatError("a node compares with NaN")
    ensemble = _without_unequal(ensemble)
    sets: list[tuple[int, ...]] = []
    categories: dict[int, NDArray[np.int64]] = {}
    missing_codes: dict[int, int] = {}
    set_of = np.full(len(inner), -1, np.int64)
    children = np.concatenate([ensemble.true[inner], ensemble.false[inner], ensemble.roots])
    shared = (np.bincount(children, minlength=len(inner)) > 1).any()
    if shared or np.isin(ensemble.mode, (EQ, MEMBER)).any():
        copies = _Copies(ensemble)
        ensemble, set_of = copies.ensemble, copies.set_of
        sets, categories, missing_codes = copies.sets, copies.categories, copies.missing_codes
    nodes = _order(ensemble, set_of)
    nodes |= _inner_values(ensemble, nodes)
    serves = np.logical_or.reduceat(ensemble.scored[nodes.pop("order")], nodes["tree_offset"][:-1], axis=0)
    if categories:
        nodes |= _bits(sets) | {
            "categories": categories,
            "encode_numbers": True,
            "raw_rows": RawRows(missing_codes=missing_codes) if missing_codes else None,
        }
    return nodes, serves


def _without_unequal(ensemble: Ensemble) -> Ensemble:
    """Write "unequal" as "equal" with children exchanged; missing values are unequal to all numbers."""
    unequal = ensemble.mode == NEQ
    return replace(
        ensemble,
        true=np.where(unequal, ensemble.false, ensemble.true),
        false=np.where(unequal, ensemble.true, ensemble.false),
        track=ensemble.track & ~unequal,
        mode=np.where(unequal, np.uint8(EQ), ensemble.mode),
    )


class _Copies:
    """The trees with a copy of each shared child, and with tests of sets that a `Forest` has.

    Attributes
    ----------
    ensemble : Ensemble
    set_of : int64 array of shape (n_nodes,)
        The set that a node tests, -1 where it compares. Members go to the true child.
    sets : list of tuples of int
    categories : dict of int to array
        The values of features that are tested for sets alone.
    missing_codes : dict of int to int
        Codes of missing values, for features in which they go another way than unknown values.
    """

    def __init__(self, source: Ensemble) -> None:
        self._source = source
        self._true, self._false = source.true.tolist(), source.false.tolist()
        self._mode, self._feature = source.mode.tolist(), source.feature.tolist()
        self._track, self._split = source.track.tolist(), source.split.tolist()
        self._tests: dict[int, tuple[tuple[float, ...], int]] = {}
        self._find_categories()
        self.sets: list[tuple[int, ...]] = []
        self._set_index: dict[tuple[int, ...], int] = {}
        self._measure()
        self._copy()

    def _find_categories(self) -> None:
        """Find the features that are tested for whole numbers of sets alone."""
        source = self._source
        inner = source.mode != LEAF
        is_set = (source.mode == EQ) | (source.mode == MEMBER)
        compared = set(source.feature[inner & ~is_set].tolist())
        values: dict[int, set[float]] = {}
        for node in np.flatnonzero(is_set).tolist():
            values.setdefault(self._feature[node], set()).update(self._own_values(node))
        whole = {
            feature: sorted(found)
            for feature, found in values.items()
            if feature not in compared and all(value.is_integer() and abs(value) < _MAX_CATEGORY for value in found)
        }
        tracked = set(source.feature[is_set & source.track].tolist())
        self.categories = {feature: np.array(found, np.int64) for feature, found in whole.items()}
        self.missing_codes = {feature: len(found) for feature, found in whole.items() if feature in tracked}
        self._codes = {feature: {value: code for code, value in enumerate(found)} for feature, found in whole.items()}

    def _own_values(self, node: int) -> list[float]:
        if self._mode[node] == EQ:
            return [self._split[node]]
        members: list[float] = self._source.members[node].tolist()
        return members

    def _test(self, node: int) -> tuple[tuple[float, ...], int]:
        """Return the set that a node tests together with those below it that lead to the same child, and what follows.

        Converters write a set as a chain of comparisons with one number each.
        """
        known = self._tests.get(node)
        if known is None:
            values, last = self._own_values(node), self._false[node]
            seen = {node}
            while (
                self._mode[last] in (EQ, MEMBER)
                and self._feature[last] == self._feature[node]
                and self._true[last] == self._true[node]
                and self._track[last] == self._track[node]
                and last not in seen
            ):
                seen.add(last)
                values += self._own_values(last)
                last = self._false[last]
            known = self._tests[node] = (tuple(sorted(set(values))), last)
        return known

    def _parts(self, node: int) -> tuple[int, list[tuple[int, int]]]:
        """Return how many nodes a node becomes, and its children with how often each is copied."""
        if self._mode[node] not in (EQ, MEMBER):
            return 1, [(self._true[node], 1), (self._false[node], 1)]
        values, last = self._test(node)
        if self._feature[node] in self.categories:
            return 1, [(self._true[node], 1), (last, 1)]
        return max(2 * len(values), 1), [(self._true[node], max(len(values), 1)), (last, len(values) + 1)]

    def _measure(self) -> None:
        """Refuse cycles, and models that would become too large, before anything is copied."""
        size: dict[int, int] = {}
        open_nodes: set[int] = set()
        total = 0
        for root in self._source.roots.tolist():
            waiting = [root]
            while waiting:
                node = waiting[-1]
                if node in size:
                    waiting.pop()
                    continue
                if self._mode[node] == LEAF:
                    size[node] = 1
                    continue
                own, children = self._parts(node)
                if node not in open_nodes:
                    open_nodes.add(node)
                    for child, _ in children:
                        if child in open_nodes and child not in size:
                            raise FormatError("a node is below itself")
                        waiting.append(child)
                    continue
                size[node] = own + sum(size[child] * times for child, times in children)
                waiting.pop()
                total += size[node] if node == root else 0
                if max(total, size[node]) > _MAX_COPIES:
                    raise UnsupportedModelError(
                        f"its nodes share children, and would be more than {_MAX_COPIES:,} nodes without that; give "
                        "scurry the model that was converted to ONNX instead"
                    )

    def _copy(self) -> None:
        # One entry per new node: true, false, feature, split, mode, track, set, and the node it was made of.
        rows: list[list[Any]] = []
        roots: list[int] = []
        for root in self._source.roots.tolist():
            roots.append(len(rows))
            waiting: list[tuple[int, int, int]] = [(root, -1, 0)]
            while waiting:
                node, parent, side = waiting.pop()
                if parent >= 0:
                    rows[parent][side] = len(rows)
                self._write(node, rows, waiting)
        columns = list(zip(*rows, strict=True))
        origin = np.array(columns[7], np.int64)
        source = self._source
        self.set_of = np.array(columns[6], np.int64)
        self.ensemble = Ensemble(
            roots=np.array(roots, np.int64),
            true=np.array(columns[0], np.int64),
            false=np.array(columns[1], np.int64),
            feature=np.array(columns[2], np.int64),
            split=np.array(columns[3], np.float64),
            mode=np.array(columns[4], np.uint8),
            track=np.array(columns[5], bool),
            members={},
            value=source.value[origin],
            scored=source.scored[origin],
            hitrate=np.full(len(origin), np.nan),
        )

    def _write(self, node: int, rows: list[list[Any]], waiting: list[tuple[int, int, int]]) -> None:
        at, feature, track = len(rows), self._feature[node], self._track[node]
        if self._mode[node] == LEAF:
            rows.append([-1, -1, 0, 0.0, LEAF, False, -1, node])
            return
        if self._mode[node] not in (EQ, MEMBER):
            rows.append([-1, -1, feature, self._split[node], self._mode[node], track, -1, node])
            waiting += [(self._false[node], at, 1), (self._true[node], at, 0)]
            return
        values, last = self._test(node)
        if feature in self.categories:
            codes = [self._codes[feature][value] for value in values]
            if track:
                codes.append(self.missing_codes[feature])
            rows.append([-1, -1, feature, 0.0, EQ, False, self._set(tuple(codes)), node])
            waiting += [(last, at, 1), (self._true[node], at, 0)]
            return
        # Between members: below the first, at it, between it and the second, ... Each test leads on to the next.
        tests = []
        for value in values:
            if value != -np.inf:
                tests.append((float(np.nextafter(value, -np.inf)), last, False))
            tests.append((value, self._true[node], track))
        if not tests:
            tests.append((np.inf, last, not track))
            last = self._true[node]  # only missing values can come here
        for k, (split, child, missing) in enumerate(tests):
            here = len(rows)
            rows.append([-1, here + 1, feature, split, LEQ, missing, -1, node])
            waiting.append((child, here, 0))
            if k == len(tests) - 1:
                rows[here][1] = -1
                waiting.append((last, here, 1))

    def _set(self, codes: tuple[int, ...]) -> int:
        known = self._set_index.get(codes)
        if known is None:
            known = self._set_index[codes] = len(self.sets)
            self.sets.append(codes)
        return known


def _order(ensemble: Ensemble, set_of: NDArray[np.int64]) -> dict[str, Any]:
    """Return the arrays of `Forest`: trees one after the other, the root first, children after their parents."""
    levels, trees = [], []
    level, tree = ensemble.roots, np.arange(len(ensemble.roots))
    # A node has one parent at most, so that this ends; what hangs on no root is left out.
    while len(level):
        levels.append(level)
        trees.append(tree)
        down = ensemble.mode[level] != LEAF
        level, tree = level[down], tree[down]
        level = np.concatenate([ensemble.true[level], ensemble.false[level]])
        tree = np.concatenate([tree, tree])
    found, tree_of = np.concatenate(levels), np.concatenate(trees)
    order = found[np.argsort(tree_of, kind="stable")]
    index = np.full(len(ensemble.mode) + 1, -1, np.int64)
    index[order] = np.arange(len(order))
    mode, split, track = ensemble.mode[order], ensemble.split[order], ensemble.track[order]
    true, false = index[ensemble.true[order]], index[ensemble.false[order]]
    inner, categories = mode != LEAF, set_of[order]
    numeric = inner & (categories < 0)
    strict = bool(numeric.any() and np.isin(mode[numeric], (LT, GTE)).all())
    return {
        "order": order,
        "tree_offset": np.append(0, np.cumsum(np.bincount(tree_of, minlength=len(ensemble.roots)))),
        "comparison": "<" if strict else "<=",
        **_sides(mode, split, track, true, false, strict),
        "feature": np.where(inner, ensemble.feature[order], -1),
        "category_set": np.where(inner, categories, -1),
    }


def _sides(
    mode: NDArray[np.uint8],
    split: NDArray[np.float64],
    track: NDArray[np.bool_],
    true: NDArray[np.int64],
    false: NDArray[np.int64],
    strict: bool,
) -> dict[str, NDArray[Any]]:
    """Return thresholds and children: left is what is at most (`strict`: less than) the threshold."""
    if not strict:
        # "Less" is "at most the number before", and nothing is before -inf.
        less = (mode == LT) | (mode == GTE)
        lowest = less & (split == -np.inf)
        mode = np.where(lowest, np.where(mode == LT, np.uint8(GT), np.uint8(LEQ)), mode)
        split = np.where(lowest, np.inf, np.where(less, np.nextafter(split, -np.inf), split))
    above = (mode == GT) | (mode == GTE)
    return {
        "threshold": np.where(mode >= EQ, 0.0, split),
        "left": np.where(above, false, true),
        "right": np.where(above, true, false),
        "default_left": np.where(above, ~track, track) & (mode != LEAF),
    }


def join_copies(nodes: dict[str, Any], n_outputs: int) -> dict[str, Any] | None:
    """Return trees with vectors at their leaves, if the file has each tree once for every output; else None."""
    offset = nodes["tree_offset"]
    first, sizes = offset[:-1].reshape(-1, n_outputs), np.diff(offset).reshape(-1, n_outputs)
    if (sizes != sizes[:, :1]).any():
        return None
    size = sizes[:, 0]
    end = np.cumsum(size)
    node = np.arange(end[-1]) + np.repeat(first[:, 0] - end + size, size)  # those of the first copies
    root, inner = np.repeat(first[:, 0], size), nodes["left"][node] >= 0
    values = []
    for copy in range(n_outputs):
        at = node + np.repeat(first[:, copy] - first[:, 0], size)
        moved = at - node
        same = all(
            np.array_equal(nodes[name][at], nodes[name][node])
            for name in ("feature", "threshold", "default_left", "category_set")
        )
        children = all(
            np.array_equal(nodes[side][at], nodes[side][node] + np.where(inner, moved, 0)) for side in ("left", "right")
        )
        if not same or not children:
            return None
        values.append(nodes["value"][at, copy])
    down = np.repeat(end - size, size) - root
    kept = {name: nodes[name][node] for name in ("feature", "threshold", "default_left", "category_set")}
    sides = {side: np.where(inner, nodes[side][node] + down, -1) for side in ("left", "right")}
    offset = np.append(0, end)
    return nodes | kept | sides | {"tree_offset": offset, "value": np.stack(values, axis=1), "cover": None}


def _inner_values(ensemble: Ensemble, nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all nodes, inner ones by the mean of the leaves below, and their training weights.

    Few files have training weights: hit rates count as such only where those of two children add up to their parent's.
    """
    order, left, right = nodes["order"], nodes["left"], nodes["right"]
    rate, inner = ensemble.hitrate[order], left >= 0
    sums = rate[left[inner]] + rate[right[inner]]
    with np.errstate(invalid="ignore"):
        known = bool((rate >= 0).all() and inner.any() and (np.abs(sums - rate[inner]) <= 1e-5 * sums).all())
    weight = np.where(rate > 0, rate, 1e-30) if known else np.ones(len(order))
    columns = [
        mean_of_leaves(nodes["tree_offset"], left, right, weight, np.ascontiguousarray(column))
        for column in ensemble.value[order].T
    ]
    return {"value": np.stack(columns, axis=1), "cover": rate if known else None}


def _bits(sets: list[tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    words = [np.zeros(max(codes, default=-1) // 32 + 1, np.uint32) for codes in sets]
    for word, codes in zip(words, sets, strict=True):
        code = np.array(codes, np.int64)
        np.bitwise_or.at(word, code // 32, np.uint32(1) << (code % 32).astype(np.uint32))
    return {
        "category_offset": np.cumsum([0, *map(len, words)]),
        "category_bits": np.concatenate([*words, np.zeros(0, np.uint32)]),
    }
