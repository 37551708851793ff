"""The leaves of all trees as arrays, and the leaves that rows reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError

FloatArray = NDArray[np.float64]
MAX_LEAVES = 1 << 16  # of a tree: rows store its leaves as uint16


class RowLeaves(NamedTuple):
    """Rows by the leaves that they reach.

    Attributes
    ----------
    leaves : uint8 or uint16 array of shape (n_trees, n_rows)
        Numbers of leaves within their trees.
    target : float64 array of shape (n_rows,)
        Full scores.
    """

    leaves: NDArray[np.uint8] | NDArray[np.uint16]
    target: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaves:
    """The leaves of all trees, tree by tree.

    Attributes
    ----------
    node : int64 array of shape (n_leaves,)
        The node that each leaf is.
    offset : int64 array of shape (n_trees + 1,)
        Where the leaves of each tree start.
    parent : int array of shape (n_nodes,)
        -1 at roots. Parents come before their children.

    Examples
    --------
    >>> leaves = Leaves.of(tree_offset=[0, 3, 4], parent=[-1, 0, 0, -1])
    >>> leaves.node.tolist(), leaves.offset.tolist()
    ([1, 2, 3], [0, 2, 3])
    >>> leaves.encode(np.array([[1, 3], [2, 3]]))
    array([[0, 1],
           [0, 0]], dtype=uint8)
    """

    node: NDArray[np.int64]
    offset: NDArray[np.int64]
    parent: NDArray[np.int64]

    @classmethod
    def of(cls, tree_offset: NDArray[np.integer], parent: NDArray[np.integer]) -> Self:
        """Find the leaves of trees, whose nodes start at `tree_offset`: they are no node's parent."""
        above = np.asarray(parent, np.int64)
        is_leaf = np.ones(len(above), np.bool_)
        is_leaf[above[above >= 0]] = False
        node = np.flatnonzero(is_leaf)
        offset = np.searchsorted(node, np.asarray(tree_offset, np.int64))
        if np.diff(offset).max(initial=0) > MAX_LEAVES:
            raise InputError(f"a tree has {np.diff(offset).max():,} leaves, at most {MAX_LEAVES:,} are possible here")
        return cls(node=node, offset=offset, parent=above)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    def encode(self, nodes: NDArray[np.integer]) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Return leaves, given as nodes of shape (n_rows, n_trees), as numbers within their trees, trees first."""
        dtype = np.uint8 if np.diff(self.offset).max(initial=0) <= 1 << 8 else np.uint16
        number = np.zeros(len(self.parent), dtype)
        number[self.node] = np.arange(len(self.node)) - np.repeat(self.offset[:-1], np.diff(self.offset))
        return np.ascontiguousarray(number[nodes].T)

    def smooth(self, totals: FloatArray, n_rows: FloatArray, prior: float) -> FloatArray:
        """Return the mean of each leaf, drawn towards its parent's as if `prior` more rows had that mean.

        Parameters
        ----------
        totals, n_rows : float64 arrays of shape (n_leaves,)
            Sums over the rows of each leaf, and how many they are.
        prior : float

        Returns
        -------
        float64 array of shape (n_leaves,)
        """
        total, count = np.zeros(len(self.parent)), np.zeros(len(self.parent))
        total[self.node], count[self.node] = totals, n_rows
        depth = _depths(self.parent)
        levels = [np.flatnonzero(depth == at) for at in range(int(depth.max()) + 1)]
        for level in levels[:0:-1]:
            np.add.at(total, self.parent[level], total[level])
            np.add.at(count, self.parent[level], count[level])
        mean = np.divide(total, count, out=np.ones_like(total), where=count > 0)  # of the roots, and so far
        for level in levels[1:]:
            mean[level] = (total[level] + prior * mean[self.parent[level]]) / (count[level] + prior)
        return mean[self.node]


def _depths(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    depth, above = np.zeros(len(parent), np.int64), parent.copy()
    while len(inside := np.flatnonzero(above >= 0)):
        depth[inside] += 1
        above[inside] = parent[above[inside]]
    return depth
