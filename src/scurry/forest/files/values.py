"""Values and covers of packed forests: those of leaves are stored, and those of inner nodes follow where they can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError
from scurry.forest.structure import ForestFields, mean_of_leaves

_NUMBERS = ("|u1", "<u2", "<u4", "<f4", "<f8")  # types of files, the smallest first
_LARGEST = 1e300  # means of larger values might not be finite
_TABLE_BITS = 32
FloatArray = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Take = Callable[..., NDArray[Any]]


class Nodes(Protocol):
    """The shape of trees: what a `Forest` has, and what is known of a packed one before it is expanded."""

    @property
    def tree_offset(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def left(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def right(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def node_depth(self) -> NDArray[np.int32]: ...  # noqa: D102


@dataclass(frozen=True)
class Shape:
    """The shape of trees, and their splits and leaves in level order."""

    tree_offset: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    node_depth: NDArray[np.int32]
    splits: NDArray[np.int32]
    leaves: NDArray[np.int32]


class Cover:
    """Covers of a file: ``kind`` says whether counts tell them, leaves do, each node has one, or they are unknown."""

    def __init__(self, kind: Any, take: Take, n_inner: int, n_leaves: int) -> None:
        if kind not in ("counts", "leaves", "nodes", "unknown"):
            raise FormatError(f"its header has the cover {kind!r}, which is not known")
        self.kind: str = kind
        self.of_leaves = self._take("leaf_cover", take, n_leaves) if kind in ("leaves", "nodes") else None
        self.of_inner = self._take("inner_cover", take, n_inner) if kind == "nodes" else None

    @staticmethod
    def _take(name: str, take: Take, n: int) -> NDArray[Any]:
        array = take(name, *_NUMBERS)
        if len(array) != n or (array < 0).any():
            raise FormatError(f"{name} must have {n} numbers that are not negative")
        return array

    @staticmethod
    def pack(forest: ForestFields, splits: NDArray[Any], leaves: NDArray[Any]) -> tuple[str, Arrays]:
        """Return the kind of a forest's covers, and arrays."""
        cover = forest.cover
        if _are_same(cover, np.full(len(cover), np.nan)):
            return "unknown", {}
        sums = np.where(forest.left < 0, cover, 0.0)
        add_up(forest, sums)
        of_leaves = {"leaf_cover": narrowest(cover[leaves])}
        if _are_same(sums, cover):
            return "leaves", of_leaves
        return "nodes", of_leaves | {"inner_cover": narrowest(cover[splits])}

    def expand(self, shape: Shape) -> FloatArray:
        """Return the cover of each node."""
        cover = np.full(len(shape.left), 0.0 if self.kind == "leaves" else np.nan)
        if self.of_leaves is not None:
            cover[shape.leaves] = self.of_leaves
        if self.of_inner is not None:
            cover[shape.splits] = self.of_inner
        elif self.kind == "leaves":
            add_up(shape, cover)
        return cover


class Values:
    """Values of a file: a table of distinct leaves, as counts or numbers, and what inner nodes have."""

    def __init__(self, about: Any, take: Take, table: NDArray[Any], n_inner: int, cover: Cover) -> None:
        kind = (about.get("leaves"), about.get("inner")) if isinstance(about, dict) else (None, None)
        if kind not in (("counts", "sums"), ("numbers", "means"), ("numbers", "stored")):
            raise FormatError(f"its header has values {about!r}, which are not known")
        self._are_counts, self._inner, self._table, self._cover = kind[0] == "counts", kind[1], table, cover
        if self._are_counts != (cover.kind == "counts") or (self._are_counts and table.dtype.kind != "u"):
            raise FormatError("counts are whole numbers, and tell covers too")
        if self._are_counts and (table.sum(axis=1, dtype=np.float64) == 0).any():
            raise FormatError("a leaf has no training rows")
        self._inner_value = take("inner_value", *_NUMBERS, ndim=2) if self._inner == "stored" else None
        if self._inner_value is not None and self._inner_value.shape != (n_inner, table.shape[1]):
            raise FormatError(f"inner_value has shape {self._inner_value.shape}, expected {(n_inner, table.shape[1])}")
        limit = _LARGEST if self._inner == "means" else np.inf
        for numbers in (table, self._inner_value):
            if numbers is not None and not float(np.abs(numbers).max(initial=0)) < limit:
                raise FormatError("value must be finite on every node, inner nodes included")

    @property
    def n_rows(self) -> int:
        """Number of distinct leaves."""
        return len(self._table)

    @staticmethod
    def pack(forest: ForestFields, splits: NDArray[Any], leaves: NDArray[Any]) -> tuple[dict[str, str], Arrays]:
        """Return the kinds of a forest's values, and arrays."""
        arrays: Arrays = {}
        counts = leaf_counts(forest)
        if counts is not None and counts[leaves].max() < 2**_TABLE_BITS:
            about = {"leaves": "counts", "inner": "sums"}
            rows = narrowest(counts[leaves].astype(np.float64))
        else:
            rows = narrowest(forest.value[leaves], floats_only=True)
            with np.errstate(over="ignore", invalid="ignore"):
                derives = np.abs(forest.value).max() < _LARGEST and _are_same(
                    average_leaves(forest, forest.value, forest.cover), forest.value
                )
            about = {"leaves": "numbers", "inner": "means" if derives else "stored"}
            if not derives:
                arrays["inner_value"] = narrowest(forest.value[splits], floats_only=True)
        ids, first = _core.distinct_rows(np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1))
        width = id_bits(len(first))
        if len(first) == len(rows) or rows[first].nbytes + len(rows) * width // 8 >= rows.nbytes:
            return about, arrays | {"leaf_table": rows}
        return about, arrays | {"leaf_table": rows[first], "leaf_id": _core.pack_bits(ids, width)}

    def table_values(self) -> FloatArray:
        """Return the values of distinct leaves, shape (n_rows, n_columns)."""
        table = np.ascontiguousarray(self._table, np.float64)
        return table / table.sum(axis=1, keepdims=True) if self._are_counts else table

    def expand(self, shape: Shape, rows: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Return value and cover of each node; `rows` are those of the leaves in the table, in level order."""
        value = np.zeros((len(shape.left), self._table.shape[1]))
        value[shape.leaves] = self._table[rows]
        if self._are_counts:
            add_up(shape, value)
            cover = value.sum(axis=1)
            value /= cover[:, np.newaxis]
            return value, cover
        cover = self._cover.expand(shape)
        if self._inner_value is not None:
            value[shape.splits] = self._inner_value
            return value, cover
        return average_leaves(shape, value, cover), cover


def id_bits(n_distinct: int) -> int:
    """Return how many bits a number of one of so many entries takes.

    Examples
    --------
    >>> [id_bits(n) for n in (1, 2, 3, 256, 257)]
    [1, 1, 2, 8, 9]
    """
    return max(1, (max(n_distinct, 1) - 1).bit_length())


def narrowest(values: FloatArray, floats_only: bool = False) -> NDArray[Any]:
    """Return numbers in the smallest type of files that holds each bit by bit."""
    with np.errstate(invalid="ignore", over="ignore"):
        for dtype in _NUMBERS[3 if floats_only else 0 : 4]:
            cast = values.astype(dtype)
            if _are_same(cast.astype(np.float64), values):
                return cast
    return np.ascontiguousarray(values)


def _are_same(a: FloatArray, b: FloatArray) -> bool:
    """Return whether all bits are the same: 0.0 is not -0.0, and NaN is NaN."""
    return bool((np.ascontiguousarray(a).view(np.uint64) == np.ascontiguousarray(b).view(np.uint64)).all())


def leaf_counts(forest: ForestFields) -> NDArray[np.int64] | None:
    """Return how many training rows of each class each node has; None where values and covers do not tell.

    They tell where every node's value is its counts divided by their sum, bit by bit, and an inner node's counts are
    those of its leaves. Then leaves alone need to be stored.
    """
    if forest.aggregation == "sum" or not forest.is_classifier or not np.isfinite(forest.cover).all():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        counts = np.rint(forest.value * forest.cover[:, None])
        total = counts.sum(axis=1)
        if (total != forest.cover).any() or (total == 0).any() or not (counts.min() >= 0 and total.max() < 2**53):
            return None
        if not _are_same(counts / total[:, None], forest.value):
            return None
    split = forest.left >= 0
    if (counts[split] != counts[forest.left[split]] + counts[forest.right[split]]).any():
        return None
    return counts.astype(np.int64)


def add_up(nodes: Nodes, *totals: FloatArray) -> None:
    """Add to every inner node, in place, what its leaves have.

    Parameters
    ----------
    nodes : Forest
    *totals : float64 arrays of shape (n_nodes, …)
        0 at inner nodes.
    """
    left, right, depth = nodes.left, nodes.right, nodes.node_depth
    split = np.flatnonzero(left >= 0)
    order = split[np.argsort(-depth[split], kind="stable")]
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):  # children before parents
        for total in totals:
            total[level] = total[left[level]] + total[right[level]]


def average_leaves(nodes: Nodes, values: FloatArray, cover: FloatArray) -> FloatArray:
    """Return values whose inner nodes have the mean of their leaves, as files derive it from leaves alone.

    Parameters
    ----------
    nodes : Forest
    values : float64 array of shape (n_nodes, n_columns)
        Those of inner nodes are ignored.
    cover : float64 array of shape (n_nodes,)
        What leaves weigh; 1 each where that of one is not known, or 0.
    """
    if not (cover[nodes.left < 0] > 0).all():
        cover = np.ones(len(nodes.left))
    columns = [
        mean_of_leaves(nodes.tree_offset, nodes.left, nodes.right, cover, np.ascontiguousarray(column))
        for column in values.T
    ]
    return np.stack(columns, axis=1)
