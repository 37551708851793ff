"""Trees as arrays: joined to a forest, cut into smaller ones, and averaged from their leaves.

Cuts are trees a little too large for the fastest loop, as several smaller ones that add up to the same. The native loop
for small trees takes up to 64 leaves. A larger tree is written as parts: each has some of its leaves, and zero in the
place of the others. A row reaches a leaf of its own in one part and zero in the others, and adding zero changes no bit
of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest.structure import NODE_ARRAYS, ForestFields, freeze


def join_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return the arrays of all `trees` as `Forest` takes them, and the number of features they use."""
    if not trees:
        raise InputError("trees is empty; a forest needs at least one tree")
    parts = [_read_tree(tree, index) for index, tree in enumerate(trees)]
    widths = {part["value"].shape[1] for part in parts}
    if len(widths) > 1:
        raise InputError(f"value has {' and '.join(map(str, sorted(widths)))} columns in different trees")
    sizes = [len(part["feature"]) for part in parts]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    shift = np.repeat(offset[:-1], sizes)
    inner = joined["left"] >= 0
    for side in ("left", "right"):
        joined[side] = np.where(joined[side] < 0, -1, joined[side] + shift)
    n_used = int(np.max(joined["feature"], where=inner, initial=-1)) + 1
    return joined | {"tree_offset": offset}, n_used


def _read_tree(tree: Mapping[str, Any], index: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of one tree given to `Forest.from_trees`, all of one length."""
    missing = [name for name in ("feature", "threshold", "left", "right", "value") if name not in tree]
    if missing:
        raise InputError(
            f"tree {index} lacks {', '.join(missing)}; each tree needs feature, threshold, left, right, value"
        )
    arrays = {
        "feature": freeze(tree["feature"], np.int32, f"tree {index}: feature"),
        "threshold": freeze(tree["threshold"], np.float64, f"tree {index}: threshold"),
        "left": freeze(tree["left"], np.int64, f"tree {index}: left"),
        "right": freeze(tree["right"], np.int64, f"tree {index}: right"),
        "value": freeze(tree["value"], np.float64, f"tree {index}: value"),
    }
    n_nodes = len(arrays["feature"])
    arrays["cover"] = (
        freeze(tree["cover"], np.float64, f"tree {index}: cover") if "cover" in tree else np.full(n_nodes, np.nan)
    )
    if arrays["value"].ndim == 1:
        arrays["value"] = arrays["value"].reshape(-1, 1)
    for name, array in arrays.items():
        if len(array) != n_nodes or array.ndim != (2 if name == "value" else 1):
            raise InputError(f"tree {index}: {name} has shape {array.shape}, feature has {n_nodes} nodes")
    for side in ("left", "right"):
        outside = (arrays[side] >= n_nodes) | (arrays[side] < -1)
        if outside.any():
            at = int(np.argmax(outside))
            raise InputError(
                f"tree {index}: {side}[{at}] = {arrays[side][at]} is outside its {n_nodes} nodes; use -1 at leaves"
            )
    return arrays


def mean_of_leaves(
    tree_offset: NDArray[np.int64],
    left: NDArray[Any],
    right: NDArray[Any],
    weight: NDArray[np.float64],
    leaf_value: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what a tree stopped at each node should answer: the weighted mean of the leaves below.

    Parameters
    ----------
    tree_offset, left, right : integer arrays
        As `Forest` has them.
    weight, leaf_value : float64 arrays of shape (n_nodes,)
        Entries of inner nodes are ignored.

    Returns
    -------
    float64 array of shape (n_nodes,)

    Examples
    --------
    >>> left, right = np.array([1, -1, -1]), np.array([2, -1, -1])
    >>> mean_of_leaves(np.array([0, 3]), left, right, np.array([0.0, 3.0, 1.0]), np.array([0.0, 2.0, 6.0]))
    array([3., 2., 6.])
    """
    weight, value = weight.copy(), leaf_value.copy()
    levels, nodes = [], tree_offset[:-1]
    while len(nodes := nodes[left[nodes] >= 0]):
        levels.append(nodes)
        nodes = np.concatenate([left[nodes], right[nodes]])
    # Not finite where a source's leaves are: the checks of Forest name the node.
    with np.errstate(over="ignore", invalid="ignore"):
        for nodes in reversed(levels):
            low, high = left[nodes], right[nodes]
            weight[nodes] = weight[low] + weight[high]
            value[nodes] = value[low] + (value[high] - value[low]) * (weight[high] / weight[nodes])
    return value


MAX_LEAVES = 64  # of a tree in the native loop for small trees
_MOST_PARTS = 2  # for each tree, on average: with more, walking trees as they are takes hardly more time
_MAX_NODES = 2**18


def may_be_cut(forest: ForestFields) -> bool:
    """Return whether some trees are a little too large for the native loop for small trees, and could be divided."""
    most_leaves = (int(np.diff(forest.tree_offset).max()) + 1) // 2
    return forest.aggregation == "sum" and forest.n_nodes <= _MAX_NODES and MAX_LEAVES < most_leaves <= 2 * MAX_LEAVES


def cut_trees(forest: ForestFields) -> dict[str, Any] | None:
    """Return the fields of a forest whose trees have at most `MAX_LEAVES` leaves, and whose scores are the same.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    dict or None
        What to replace. None if that is not possible, or would not pay: trees must be added up, and not be much larger.
        The number of trees and their nodes are others: it is made for an engine alone.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = GradientBoostingRegressor(max_leaf_nodes=80, max_depth=None, n_estimators=5).fit(X, X[:, 0] * X[:, 1])
    >>> forest = scurry.from_model(model)
    >>> cut = forest.replace(**cut_trees(forest))
    >>> cut.n_trees > forest.n_trees, bool((cut.scores(X) == forest.scores(X)).all())
    (True, True)
    """
    if not may_be_cut(forest):
        return None
    n_leaves = (np.diff(forest.tree_offset) + 1) // 2
    copies: list[_Copy] = []
    output = []
    for tree in range(forest.n_trees):
        first, last = forest.tree_offset[tree : tree + 2].tolist()
        left, right = forest.left[first:last] - first, forest.right[first:last] - first
        part_of = _divide(left.tolist(), right.tolist()) if n_leaves[tree] > MAX_LEAVES else np.zeros(last - first, int)
        if part_of is None or len(copies) + part_of.max() >= _MOST_PARTS * forest.n_trees:
            return None
        for part in range(part_of.max() + 1):
            copies.append(_copy(left, right, part_of == part).shift(first))
            output.append(forest.tree_output[tree])
    offset = np.concatenate([[0], np.cumsum([len(copy.origin) for copy in copies])])
    origin = np.concatenate([copy.origin for copy in copies])
    is_zero = np.concatenate([copy.is_zero for copy in copies])
    fields: dict[str, Any] = {name: getattr(forest, name)[origin] for name in (*NODE_ARRAYS, "value")}
    fields["value"][is_zero] = 0.0
    for side in ("left", "right"):
        fields[side] = np.concatenate(
            [
                _shift_children(getattr(copy, side), start)
                for copy, start in zip(copies, offset[:-1].tolist(), strict=True)
            ]
        )
    return fields | {"tree_offset": offset, "tree_output": output, "wrapper": None, "front": None}


class _Copy(NamedTuple):
    """A part of a tree: the node that each of its nodes stands for, children inside the copy, which leaves are zero."""

    origin: NDArray[np.intp]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    is_zero: NDArray[np.bool_]

    def shift(self, first: int) -> _Copy:
        return self._replace(origin=self.origin + first)


def _shift_children(children: NDArray[np.int32], by: int) -> NDArray[np.int32]:
    return np.where(children < 0, -1, children + by).astype(np.int32)


def _divide(left: list[int], right: list[int]) -> NDArray[np.intp] | None:
    """Return the part of each node, so that no part has too many leaves; None if there is no such division.

    Again and again the largest subtree that fits into a part becomes one, and counts as one leaf in the rest. What
    leads to it, a leaf of zero next to every node of the path, is in its part too.
    """
    n = len(left)
    depth, size, part = [0] * n, [1] * n, np.zeros(n, np.intp)
    for node in range(n):
        if left[node] >= 0:
            depth[left[node]] = depth[right[node]] = depth[node] + 1
    while True:
        for node in reversed(range(n)):
            if left[node] >= 0:
                size[node] = 1 if part[node] else size[left[node]] + size[right[node]]
        if size[0] <= MAX_LEAVES:
            return part
        fitting = [node for node in range(1, n) if not part[node] and size[node] + depth[node] <= MAX_LEAVES]
        largest = max(fitting, key=size.__getitem__, default=0)
        if size[largest] == 1 or largest == 0:
            return None
        number, waiting = part.max() + 1, [largest]
        while waiting:
            node = waiting.pop()
            if not part[node]:
                part[node] = number
                if left[node] >= 0:
                    waiting += [left[node], right[node]]


def _copy(left: NDArray[np.int32], right: NDArray[np.int32], is_of_part: NDArray[np.bool_]) -> _Copy:
    """Return a part of a tree, with zero in the place of subtrees that have no leaf of the part."""
    n = len(left)
    inner = left >= 0
    inside = is_of_part & ~inner
    for node in np.flatnonzero(inner)[::-1].tolist():
        inside[node] = inside[left[node]] | inside[right[node]]
    split = inside & inner
    kept = np.zeros(n, np.bool_)
    kept[0] = kept[left[split]] = kept[right[split]] = True
    place = np.append(np.cumsum(kept, dtype=np.int32) - 1, np.int32(-1))
    origin = np.flatnonzero(kept)
    children = [np.where(split, side, -1)[origin] for side in (left, right)]
    return _Copy(origin, place[children[0]], place[children[1]], ~inside[origin])
