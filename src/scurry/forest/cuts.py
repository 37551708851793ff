"""Cuts: trees a little too large for the fastest loop, as several smaller ones that add up to the same.

The native loop for small trees takes up to 64 leaves. A larger tree is written as parts: each has some of its leaves,
and zero in the place of the others. A row reaches a leaf of its own in one part and zero in the others, and adding zero
changes no bit of a sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.forest.structure import NODE_ARRAYS, ForestFields

MAX_LEAVES = 64  # of a tree in the native loop for small trees
_MOST_PARTS = 2  # for each tree, on average: with more, walking trees as they are takes hardly more time
_MAX_NODES = 2**18


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
    n_leaves = (np.diff(forest.tree_offset) + 1) // 2
    if forest.aggregation != "sum" or forest.n_nodes > _MAX_NODES or n_leaves.max() <= MAX_LEAVES:
        return None
    if n_leaves.max() > 2 * MAX_LEAVES:
        return None
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
            [_moved(getattr(copy, side), start) for copy, start in zip(copies, offset[:-1].tolist(), strict=True)]
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


def _moved(children: NDArray[np.int32], by: int) -> NDArray[np.int32]:
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
