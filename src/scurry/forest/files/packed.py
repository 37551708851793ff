"""Forests in files: a bit for each node, and numbers of a few bits into tables of distinct splits and leaves.

Nothing is lost: every array of the forest comes back bit by bit. What can be derived is not stored: children follow
from the order of nodes, and values and covers of inner nodes from their leaves, wherever that gives the same numbers.

`Values` and `Cover` store the numbers of leaves; those of inner nodes follow where they can. `StoredForest` is what of
a forest is written, and how it is read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError
from scurry.forest.combinations import Combinations
from scurry.forest.files.lowered import has_lowered, read_lowered
from scurry.forest.files.members import pack_members, unpack_members
from scurry.forest.files.storage import Container, digest, id_bits, pack_values
from scurry.forest.front import Front, RawRows
from scurry.forest.structure import ARRAYS, HEADER, MISSING_NONE, NODE_ARRAYS, Expanded, ForestFields, check_header
from scurry.forest.tree_answers import TreeAnswers
from scurry.forest.trees import mean_of_leaves

_NUMBERS = ("|u1", "<u2", "<u4", "<f4", "<f8")  # types of files, the smallest first
_LARGEST = 1e300  # means of larger values might not be finite
_TABLE_BITS = 32
FloatArray = NDArray[np.float64]
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
            if numbers is None:
                continue
            least, most = float(numbers.min(initial=0)), float(numbers.max(initial=0))
            if not (-limit < least and most < limit):  # false for NaN too
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

    @property
    def parts(self) -> dict[str, Any]:
        """The table of distinct leaves as the native core reads it."""
        return {"leaf_table": self._table, "are_counts": self._are_counts}

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


MAX_GROWTH = 512
"""How many values a packed forest may have when it is expanded, for each byte of its file."""
_THRESHOLDS = ("threshold_shift", "threshold_width", "threshold_delta")
_OF_SPLITS = ("default_left", "missing", "category_set")
_OF_LEAVES = ("feature", "threshold", *_OF_SPLITS)
_SPLIT = np.dtype(
    [("feature", "<i4"), ("category_set", "<i4"), ("threshold", "<f8"), ("default_left", "?"), ("missing", "u1"),
     ("rest", "u1", 6)]
)  # fmt: skip
Arrays = dict[str, NDArray[Any]]


def pack(forest: ForestFields) -> tuple[dict[str, Any], Arrays]:
    """Return a forest as entries of a file's header, and packed arrays."""
    order, node_order = _core.level_order(forest.tree_offset, forest.left, forest.right)
    is_split = forest.left[order] >= 0
    splits, leaves = order[is_split], order[~is_split]
    sizes = np.diff(forest.tree_offset)
    about: dict[str, Any] = {"node_order": node_order}
    arrays: Arrays = {
        "tree_nodes": sizes.astype(np.uint32),
        "topology": np.packbits(is_split, bitorder="little"),
        "base_score": forest.base_score,
    }
    if node_order == "listed":
        numbers = (order - np.repeat(forest.tree_offset[:-1], sizes)).astype(np.uint32)
        arrays["node_number"] = _core.pack_bits(numbers, id_bits(int(sizes.max())))
    if (forest.tree_output != -1).any():
        arrays["tree_output"] = forest.tree_output
    if len(forest.category_offset) > 1:
        arrays |= {"category_offset": forest.category_offset, "category_bits": forest.category_bits}
    about["at_splits"], of_splits = _pack_splits(forest, splits)
    about["at_leaves"], of_leaves = _pack_constants(
        "leaf", {name: getattr(forest, name)[leaves] for name in _OF_LEAVES}
    )
    about["cover"], of_cover = Cover.pack(forest, splits, leaves)
    about["values"], of_values = Values.pack(forest, splits, leaves)
    if about["values"]["leaves"] == "counts":
        about["cover"], of_cover = "counts", {}
    return {"layout": "packed", "packed": about}, arrays | of_splits | of_leaves | of_cover | of_values


def _pack_splits(forest: ForestFields, splits: NDArray[Any]) -> tuple[dict[str, Any], Arrays]:
    rows = np.zeros(len(splits), _SPLIT)
    for name in _OF_LEAVES:
        rows[name] = getattr(forest, name)[splits]
    ids, first = _core.distinct_rows(rows.view(np.uint8).reshape(len(rows), _SPLIT.itemsize))
    table = rows[first]
    # -0.0 comes before 0.0, as the bits of thresholds are ordered.
    keys = (table["missing"], table["default_left"], table["category_set"], ~np.signbit(table["threshold"]))
    rank = np.lexsort((*keys, table["threshold"], table["feature"]))
    place = np.empty(len(rank), np.uint32)
    place[rank] = np.arange(len(rank), dtype=np.uint32)
    table = table[rank]
    used, starts, counts = np.unique(table["feature"], return_index=True, return_counts=True)
    thresholds, n_rows = np.ascontiguousarray(table["threshold"]), counts.astype(np.uint32)
    shift, width, delta = _core.pack_thresholds(thresholds, n_rows)
    constants, arrays = _pack_constants("split", {name: np.ascontiguousarray(table[name]) for name in _OF_SPLITS})
    return constants, arrays | {
        "split_id": _core.pack_bits(place[ids], id_bits(len(table))),
        "feature_used": used.astype(np.uint32),
        "feature_splits": n_rows,
        "first_threshold": thresholds[starts],
        "threshold_shift": shift,
        "threshold_width": width,
        "threshold_delta": delta,
    }


def _pack_constants(what: str, columns: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return what all splits or leaves have in common, and arrays of what they have not."""
    constants, arrays = {}, {}
    for name, column in columns.items():
        if len(column) == 0:
            constants[name] = _EMPTY[name]
        elif (
            np.isfinite(column[0])
            and (column.view(f"u{column.itemsize}") == column[:1].view(f"u{column.itemsize}")).all()
        ):
            constants[name] = column[0].item()
        else:
            arrays[f"{what}_{name}"] = np.packbits(column, bitorder="little") if column.dtype == np.bool_ else column
    return constants, arrays


_EMPTY: dict[str, Any] = {"feature": -1, "threshold": 0.0, "default_left": False, "missing": 0, "category_set": -1}


class Packed:
    """A packed forest of a file, checked: expanded on demand, and lowered to the engine without being expanded.

    Attributes
    ----------
    about : dict
        What the header says of it.
    arrays : dict of arrays
        What the file holds.
    n_nodes, n_columns : int
    fixed : dict of arrays
        The arrays of the forest that are small, and need not be expanded.
    """

    def __init__(self, container: Container, n_features: int) -> None:
        about = self.about = container.field("packed", dict)
        self.arrays: Arrays = {}
        take = self._taker(container)
        table = take("leaf_table", "|u1", "<u2", "<u4", "<f4", "<f8", ndim=2)
        feature_splits = take("feature_splits", "<u4")
        n_splits = int(feature_splits.sum(dtype=np.int64))
        for name, is_there in {
            "tree_nodes": True, "topology": True, "split_id": True,
            "leaf_id": "leaf_id" in container, "node_number": about.get("node_order") == "listed",
        }.items():  # fmt: skip
            if is_there:
                take(name, "<u4" if name == "tree_nodes" else "|u1")
        try:
            self._native = _core.PackedForest(
                self.arrays, n_splits=n_splits, n_leaves=len(table), node_order=str(about.get("node_order"))
            )
        except ValueError as error:
            raise FormatError(str(error)) from error
        self.n_nodes, self.n_columns = self._native.n_nodes, table.shape[1]
        if self.n_columns < 1 or self.n_nodes * self.n_columns > MAX_GROWTH * container.n_bytes:
            raise FormatError(f"{self.n_nodes} nodes of {self.n_columns} values are too many for the bytes of the file")
        offset = self._native.tree_offset
        n_trees = len(offset) - 1
        self.n_inner = (self.n_nodes - n_trees) // 2
        has_sets = "category_offset" in container
        self.fixed: Arrays = {
            "tree_offset": _freeze(offset),
            "base_score": take("base_score", "<f8"),
            "tree_output": take("tree_output", "<i4")
            if "tree_output" in container
            else _freeze(np.full(n_trees, -1, "<i4")),
            "category_offset": take("category_offset", "<i8") if has_sets else _freeze(np.zeros(1, "<i8")),
            "category_bits": take("category_bits", "<u4") if has_sets else _freeze(np.zeros(0, "<u4")),
        }
        self._container = container
        self._take, self._n_features, self._n_splits = take, n_features, n_splits
        self._read_splits(check_only=True)  # kept, they would take more memory than all nodes
        self._checking, self._is_checked = Lock(), False
        if not has_lowered(container):
            self._check_nodes()
        self.leaves = self._read_constants(take, "leaf", self.n_nodes - self.n_inner, _OF_LEAVES)
        self.cover = Cover(about.get("cover"), take, self.n_inner, self.n_nodes - self.n_inner)
        self.values = Values(about.get("values"), take, table, self.n_inner, self.cover)

    def _check_nodes(self) -> None:
        with self._checking:
            if self._is_checked:
                return
            blocks = [self.arrays[name] for name in _THRESHOLDS]
            try:
                self._native.check()
                _core.check_thresholds(self.arrays["first_threshold"], self.arrays["feature_splits"], *blocks)
            except ValueError as error:
                raise FormatError(str(error)) from error
            self._is_checked = True

    @property
    def native(self) -> _core.PackedForest:
        """The trees. Those of a file with an engine are checked now, because predictions need not read them."""
        if not self._is_checked:
            with self._container.reading("forest"):
                self._check_nodes()
        return self._native

    @property
    def tree_depth(self) -> NDArray[np.int32]:
        """Depth of each tree."""
        return _freeze(self.native.tree_depth)

    def _taker(self, container: Container) -> Take:
        def take(name: str, *dtypes: str, ndim: int = 1) -> NDArray[Any]:
            array = self.arrays[name] = container.packed_array(name, dtypes, ndim)
            return array

        return take

    def _read_constants(self, take: Take, what: str, n: int, names: tuple[str, ...]) -> Arrays:
        """Return a number for all splits or leaves, of shape (1,), or one for each."""
        constants = self.about.get(f"at_{'splits' if what == 'split' else 'leaves'}")
        if not isinstance(constants, dict):
            raise FormatError(f"its header lacks what {what} nodes have in common")
        found: Arrays = {}
        for name in names:
            dtype = np.dtype(NODE_ARRAYS[name])
            if name in constants:
                try:
                    column = np.array([constants[name]]).astype(dtype)
                except (TypeError, ValueError, OverflowError) as error:
                    raise FormatError(f"{name} of its {what} nodes is no number") from error
                if column.shape != (1,) or column[0].item() != constants[name]:
                    raise FormatError(f"{name} of its {what} nodes is no number of type {dtype}")
            else:
                column = _unpack_column(take, f"{what}_{name}", n, dtype)
            found[name] = column
        if found["missing"].max(initial=0) > MISSING_NONE:
            raise FormatError("missing must be 0 (NaN), 1 (NaN and zero) or 2 (nothing)")
        return found

    def _read_splits(self, check_only: bool = False) -> Arrays:
        """Return the table of splits, or only what varies little if it is only to be checked."""
        take, n_features, n_splits = self._take, self._n_features, self._n_splits
        used, counts = take("feature_used", "<u4"), self.arrays["feature_splits"]
        first = take("first_threshold", "<f8")
        if len(used) != len(counts) or (np.diff(used.astype(np.int64)) <= 0).any() or (counts == 0).any():
            raise FormatError("feature_used must rise, with at least one split for each")
        if len(used) and used[-1] >= n_features:
            raise FormatError(f"features must be in 0..{n_features - 1}, got {used[-1]}")
        blocks = [take(name, "|u1") for name in _THRESHOLDS]
        found = self._read_constants(take, "split", n_splits, _OF_SPLITS)
        n_sets = len(self.fixed["category_offset"]) - 1
        sets = found["category_set"]
        if n_splits and (sets.min() < -1 or sets.max() >= n_sets):
            raise FormatError(f"category_set must be -1 or name one of the {n_sets} sets")
        if check_only:
            return found
        threshold = _core.unpack_thresholds(first, counts, *blocks)
        return found | {"feature": np.repeat(used.astype(np.int32), counts), "threshold": threshold}

    @property
    def parts(self) -> tuple[dict[str, Any], Arrays]:
        """What `pack` returned when the file was written."""
        return {"layout": "packed", "packed": self.about}, self.arrays

    def entries(self) -> dict[str, Any]:
        """Return the arrays from which the engine is lowered: distinct leaves, and splits as the file has them."""
        self.native  # noqa: B018 (checked before anything is made of it)
        names = ("feature_used", "feature_splits", "first_threshold", *_THRESHOLDS)
        packed = {name: self.arrays[name] for name in names}
        return packed | self._read_splits(check_only=True) | self.values.parts | self.fixed

    def lowered(self, fields: Mapping[str, Any]) -> Arrays | None:
        """Return the parts of the engine in the file, if it has one that was made of this forest."""
        return read_lowered(self._container, fields, self.arrays)

    def rest(self) -> None:
        """Let go of what of the file is in memory: predictions do not read it, once the engine is there."""
        self._container.rest(self.arrays)

    def no_entries(self) -> Arrays:
        """Return the arrays of `entries` without any splits and leaves, for an engine that is lowered already."""
        empty: Arrays = {name: np.zeros(0, NODE_ARRAYS[name]) for name in ("left", "right", *_OF_LEAVES)}
        return empty | {"value": np.zeros((0, self.n_columns))} | self.fixed

    def expand(self) -> Arrays:
        """Return the arrays of all nodes as `Forest` has them, and their depths as ``_node_depth``."""
        found = self.native.expand()
        entry, order = found["entry"], found["level_order"]
        is_split = found["left"] >= 0
        in_order = is_split[order]
        splits, leaves = order[in_order], order[~in_order]
        n_leaves, of_splits = self.values.n_rows, self._read_splits()
        arrays: Arrays = {name: found[name] for name in ("left", "right")}
        for name in _OF_LEAVES:
            column: NDArray[Any] = np.empty(self.n_nodes, NODE_ARRAYS[name])
            table = of_splits[name]
            column[splits] = table[0] if len(table) == 1 else table[entry[splits] - n_leaves]
            column[leaves] = self.leaves[name]
            arrays[name] = column
        shape = Shape(self.fixed["tree_offset"], found["left"], found["right"], found["depth"], splits, leaves)
        arrays["value"], arrays["cover"] = self.values.expand(shape, entry[leaves])
        arrays["_node_depth"] = found["depth"]
        return {name: _freeze(array) for name, array in arrays.items()}


def _unpack_column(take: Take, name: str, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    is_bits = dtype == np.bool_
    column = take(name, "|u1" if is_bits else dtype.str)
    if len(column) != ((n + 7) // 8 if is_bits else n):
        raise FormatError(f"{name} has {len(column)} entries, not those of {n} nodes")
    if not is_bits:
        return column
    if n % 8 and column[-1] >> n % 8:
        raise FormatError(f"{name} has bits after its last one")
    return np.unpackbits(column, count=n, bitorder="little").view(np.bool_)


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


class StoredForest(TreeAnswers):
    """A forest as arrays, or still packed as it lies in a file: a part of `Forest`."""

    @abstractmethod
    def _set_header(self, *args: Any, **fields: Any) -> None:
        """Set all fields that are no arrays."""

    @abstractmethod
    def _seal(self) -> None:
        """Let nothing be set from here on."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything a saved forest holds, as hex."""
        return digest(*self.to_parts())

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, which a forest of a packed file has once one of them is asked for."""
        of_node = sum(np.dtype(dtype).itemsize for dtype in NODE_ARRAYS.values()) + 8 * self.n_columns
        others = ("tree_offset", "tree_output", "base_score", "category_offset", "category_bits")
        return int(self.n_nodes * of_node + sum(self.__dict__[name].nbytes for name in others))

    @property
    def is_packed(self) -> bool:
        """Whether arrays of nodes are still packed, as they are in a file."""
        return "_packed" in self.__dict__ and "left" not in self.__dict__

    @cached_property
    def tree_depth(self) -> NDArray[np.int32]:
        """Depth of each tree, shape (n_trees,); a single leaf has depth 0."""
        packed: Packed | None = self.__dict__.get("_packed")
        return super().tree_depth if packed is None else packed.tree_depth

    def expand(self) -> Mapping[str, NDArray[Any]]:
        """Return all arrays of nodes; those of a packed file are made now, and kept."""
        if not self.is_packed:
            return self.__dict__
        made: dict[str, NDArray[Any]] = self.__dict__["_packed"].expand()
        self.__dict__.update(made)
        return made

    def release(self) -> None:
        """Forget the arrays of nodes if the forest has them packed as well: they are made again if asked for.

        Runners call it once they have lowered the forest. Arrays take several times the memory of everything that
        predictions read.
        """
        if "_packed" in self.__dict__:
            for name in (*_EXPANDED, "parent", "arrays"):
                self.__dict__.pop(name, None)
            _core.give_back_memory()

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the forest as a JSON header and named arrays, one number for each node."""
        header, arrays = self._header_parts(), {name: getattr(self, name) for name in ARRAYS}
        if self.wrapper is not None:
            header["wrapper"], of_members = pack_members(self.wrapper)
            arrays |= of_members
        return header, arrays

    def to_packed_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the forest as a JSON header and packed arrays, from which the same arrays can be made again.

        A forest with very many values for its splits and leaves is returned as by `to_parts`: a reader would not
        believe that a small file has so many.
        """
        packed: Packed | None = self.__dict__.get("_packed")
        about, arrays = pack(self) if packed is None else packed.parts
        if self.n_nodes * self.n_columns > MAX_GROWTH * sum(array.nbytes for array in arrays.values()):
            return self.to_parts()
        header = self._header_parts() | about
        if self.wrapper is not None:
            header["wrapper"], of_members = pack_members(self.wrapper, packed=True)
            arrays = arrays | of_members
        return header, arrays

    def _header_parts(self) -> dict[str, Any]:
        header = {name: getattr(self, name) for name in HEADER} | {
            "feature_names": self.feature_names,
            "classes": None if self.classes is None else pack_values(self.classes),
            "categories": {str(f): pack_values(values) for f, values in self.categories.items()},
        }
        if self.integer_dtype != self.input_dtype:  # only then, so that other forests keep their digest
            header["integer_dtype"] = self.integer_dtype
        if self.raw_rows is not None:
            header["raw_rows"] = self.raw_rows.to_json()
        return header

    @classmethod
    def from_container(cls, container: Container, trusted: Collection[str] = ()) -> Self:
        """Return the forest of a ``.scurry`` file, be it saved alone or with a plan.

        `trusted` are types of a front to trust besides those that skops trusts.
        """
        with container.reading("forest"):
            classes, names = container.field("classes", dict | None), container.field("feature_names", list | None)
            if names is not None and not all(isinstance(name, str) for name in names):
                raise FormatError("feature_names must be texts")
            packed = container.field("categories", dict) | ({} if classes is None else {"classes": classes})
            values = container.values(packed)
            fields: dict[str, Any] = {name: container.field(name, kind) for name, kind in HEADER.items()}
            fields |= {
                "integer_dtype": container.field("integer_dtype", str) if "integer_dtype" in container.header else None,
                "raw_rows": RawRows.from_json(container.header["raw_rows"]) if "raw_rows" in container.header else None,
                "front": _front_of(container, trusted),
                "feature_names": names,
                "classes": values.pop("classes", None),
                # -1 is no feature: the checks refuse it by their own message.
                "categories": {int(f) if f.isdecimal() and len(f) < 11 else -1: one for f, one in values.items()},
            }
            layout = container.header.get("layout", "plain")
            if layout not in ("plain", "packed"):
                raise FormatError(f"it has the layout {layout!r}, which this version of scurry does not know")
            if layout == "packed":
                return cls._of_packed(container, fields)
            arrays = {name: container.array(name, dtype) for name, dtype in ARRAYS.items()}
            whole: Self = _build(cls, arrays, fields, container)
            return whole

    @classmethod
    def _of_packed(cls, container: Container, fields: dict[str, Any]) -> Self:
        packed = Packed(container, fields["n_features"])
        if "member_value_table" in container:
            # Its members read the trees of the whole, so that these are needed at once.
            arrays = packed.fixed | packed.expand()
            del arrays["_node_depth"]
            whole: Self = _build(cls, arrays, fields, container)
            return whole
        forest = cls.__new__(cls)
        forest.__dict__ |= packed.fixed | {"_packed": packed}
        forest._set_header(**fields, wrapper=unpack_members(container, {}, cls))
        check_header(forest)
        if forest.wrapper is not None:
            forest.wrapper.check(forest)
        forest._seal()
        return forest


def _front_of(container: Container, trusted: Collection[str]) -> Front | Combinations | None:
    if "front" not in container.header:
        return None
    about = container.header["front"]
    if isinstance(about, dict) and "combinations" in about:
        return Combinations.from_container(container)
    return Front.from_parts(about, container.array("front", np.uint8), trusted)


def _build(build: Any, arrays: dict[str, NDArray[Any]], fields: dict[str, Any], container: Container) -> Any:
    return build(**arrays, **fields, wrapper=unpack_members(container, arrays, build))


_EXPANDED = (*NODE_ARRAYS, "value", "_node_depth")
for _name in _EXPANDED:
    setattr(StoredForest, _name, Expanded(_name))
