"""Packed forests in files: a bit for each node, and numbers of a few bits into tables of distinct splits and leaves.

Nothing is lost: every array of the forest comes back bit by bit. What can be derived is not stored: children follow
from the order of nodes, and values and covers of inner nodes from their leaves, wherever that gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError
from scurry.forest.files.lowered import has_lowered, read_lowered
from scurry.forest.files.storage import Container
from scurry.forest.files.values import Cover, Shape, Take, Values, id_bits
from scurry.forest.structure import MISSING_NONE, NODE_ARRAYS, ForestFields

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
            "tree_offset": _fixed(offset),
            "base_score": take("base_score", "<f8"),
            "tree_output": take("tree_output", "<i4")
            if "tree_output" in container
            else _fixed(np.full(n_trees, -1, "<i4")),
            "category_offset": take("category_offset", "<i8") if has_sets else _fixed(np.zeros(1, "<i8")),
            "category_bits": take("category_bits", "<u4") if has_sets else _fixed(np.zeros(0, "<u4")),
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
        return _fixed(self.native.tree_depth)

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

    def entries(self) -> Arrays:
        """Return the arrays from which the engine is lowered: rows of distinct leaves, and then of distinct splits."""
        self.native  # noqa: B018 (checked before anything is made of it)
        table, splits = self.values.table_values(), self._read_splits()
        n_leaves, n_splits = len(table), len(splits["feature"])
        is_split = np.repeat([False, True], [n_leaves, n_splits])
        found = {"value": table, "left": np.where(is_split, np.int32(0), np.int32(-1))}
        found["right"] = found["left"]
        for name in _OF_LEAVES:
            column: NDArray[Any] = np.zeros(n_leaves + n_splits, NODE_ARRAYS[name])
            column[n_leaves:] = splits[name]
            found[name] = column
        return found | self.fixed

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
        return {name: _fixed(array) for name, array in arrays.items()}


def _unpack_column(take: Take, name: str, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    is_bits = dtype == np.bool_
    column = take(name, "|u1" if is_bits else dtype.str)
    if len(column) != ((n + 7) // 8 if is_bits else n):
        raise FormatError(f"{name} has {len(column)} entries, not those of {n} nodes")
    if not is_bits:
        return column
    bits = np.unpackbits(column, bitorder="little")
    if bits[n:].any():
        raise FormatError(f"{name} has bits after its last one")
    return bits[:n].astype(np.bool_)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
