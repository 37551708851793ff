"""CatBoost's binary files (``.cbm``) as the document that its JSON files hold, read without CatBoost.

A file is "CBM1", the size of its core, the core, and parts that the core names. The core is a FlatBuffers message:
tables that point to their fields, and vectors, all at offsets that are checked here before anything is read. The fields
are those of CatBoost's model.fbs (https://github.com/catboost/catboost, catboost/libs/model/flatbuffers).

The one part that is read holds the tables of target statistics (CTRs): for each, places of 12 bytes with the hash of a
category and its number, and the counts or sums of each number.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError

_HEAD = struct.Struct("<4sI")
_NAN_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_STATISTICS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq")
_MAX_TREE_NODES = 2**22


class _Table:
    """A FlatBuffers table: fields by their number in the schema."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._vtable = position - self._at("<i", position)
        self._size = self._at("<H", self._vtable)

    def _at(self, layout: str, position: int) -> Any:
        if not 0 <= position <= len(self._data) - struct.calcsize(layout):
            raise FormatError(f"a field of it lies at byte {position}, outside of its {len(self._data)} bytes")
        return struct.unpack_from(layout, self._data, position)[0]

    def _place(self, field: int) -> int | None:
        """Return where a field lies; None if it has its default value."""
        entry = 4 + 2 * field
        offset = self._at("<H", self._vtable + entry) if entry + 2 <= self._size else 0
        return self._position + offset if offset else None

    def number(self, field: int, layout: str, default: Any) -> Any:
        """Return a single number."""
        place = self._place(field)
        return default if place is None else self._at(layout, place)

    def _vector(self, field: int) -> tuple[int, int]:
        """Return where the entries of a vector begin, and how many there are."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + self._at("<I", place)
        return start + 4, self._at("<I", start)

    def array(self, field: int, dtype: Any, in_bytes: int | None = None) -> NDArray[Any]:
        """Return a vector of numbers, or of entries of `in_bytes` bytes that are kept as a vector of bytes."""
        start, count = self._vector(field)
        if in_bytes is not None and count % in_bytes:
            raise FormatError(f"a list of {count} bytes at byte {start} ends within an entry")
        count //= in_bytes or 1
        if count * np.dtype(dtype).itemsize > len(self._data) - start:
            raise FormatError(f"a list of {count} entries at byte {start} is longer than the file")
        return np.frombuffer(self._data, dtype, count, start)

    def text(self, field: int) -> str:
        """Return a text, empty if it is absent."""
        return self.array(field, "u1").tobytes().decode("utf-8", "replace")

    def table(self, field: int) -> _Table | None:
        """Return a table, None if it is absent."""
        place = self._place(field)
        return None if place is None else _Table(self._data, place + self._at("<I", place))

    def tables(self, field: int) -> list[_Table]:
        """Return a vector of tables."""
        start, _ = self._vector(field)
        offsets = self.array(field, "<u4").tolist()
        return [_Table(self._data, start + 4 * i + offset) for i, offset in enumerate(offsets)]


def read_document(data: bytes) -> dict[str, Any]:
    """Return the content of a ``.cbm`` file as CatBoost's JSON would have it.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    dict

    Raises
    ------
    FormatError
        If the file is damaged.
    UnsupportedModelError
        If it has features of text or embeddings.
    """
    if len(data) < _HEAD.size or not data.startswith(b"CBM1"):
        raise FormatError("it does not begin with CBM1 and a size")
    size = _HEAD.unpack_from(data)[1]
    core = data[_HEAD.size : _HEAD.size + size]
    if len(core) < max(size, 8):
        raise FormatError(f"it is truncated: {size} bytes are announced, {len(core)} are there")
    root = _Table(core, struct.unpack_from("<I", core)[0])
    trees = root.table(1)
    if not root.text(0).startswith("FlabuffersModel") or trees is None:
        raise FormatError(f"its format {root.text(0)[:40]!r} is unknown")
    if any(trees.tables(field) for field in (12, 13)):
        raise UnsupportedModelError(
            "this model tests values computed of text or of embeddings, which scurry cannot compute; train without "
            "text_features and embedding_features"
        )
    features, splits = _read_features(trees)
    n_outputs = trees.number(0, "<i", 1)
    bias = trees.array(16, "<f8").tolist() or [trees.number(15, "<d", 0.0)] * max(n_outputs, 1)
    if not 1 <= n_outputs <= 2**16 or len(bias) != n_outputs:
        raise FormatError(f"it has {len(bias)} biases for {n_outputs} values per row")
    info = {entry.text(0): entry.text(1) for entry in root.tables(2)}
    kind = "trees" if len(trees.array(10, "<u4")) else "oblivious_trees"
    read = _read_any_trees if kind == "trees" else _read_symmetric_trees
    return {
        "features_info": features,
        "model_info": info,
        "ctr_data": _read_tables(data[_HEAD.size + size :]) if features["ctrs"] else {},
        "scale_and_bias": [trees.number(14, "<d", 1.0), bias],
        kind: read(trees, splits, n_outputs),
    }


def _read_features(trees: _Table) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the features, and what the split of each number asks: first borders, then values of one-hot features."""
    floats: list[dict[str, Any]] = []
    splits: list[dict[str, Any]] = []
    for feature in trees.tables(5):
        treatment = feature.number(5, "<b", 0)
        if not 0 <= treatment < len(_NAN_TREATMENTS):
            raise FormatError("a feature treats missing values in an unknown way")
        entry = _describe(feature, 1) | {"borders": feature.array(3, "<f4").tolist()}
        entry |= {"feature_id": feature.text(4), "nan_value_treatment": _NAN_TREATMENTS[treatment]}
        of = {"split_type": "FloatFeature", "float_feature_index": len(floats)}
        splits += [of | {"border": border} for border in entry["borders"]]
        floats.append(entry)
    categories = [_describe(feature, 0) | {"feature_id": feature.text(2)} for feature in trees.tables(4)]
    by_index = {entry["feature_index"]: place for place, entry in enumerate(categories)}
    for feature in trees.tables(6):
        place, values = by_index.get(feature.number(0, "<i", -1)), feature.array(1, "<i4").tolist()
        if place is None:
            raise FormatError("a one-hot feature is no categorical one")
        categories[place]["values"] = values
        of = {"split_type": "OneHotFeature", "cat_feature_index": place}
        splits += [of | {"value": value} for value in values]
    statistics = [_read_statistic(feature, by_index) for feature in trees.tables(7)]
    for statistic in statistics:
        splits += [{"split_type": "OnlineCtr", "border": border} for border in statistic["borders"]]
    for number, split in enumerate(splits):
        split["split_index"] = number
    return {"float_features": floats, "categorical_features": categories, "ctrs": statistics}, splits


def _read_statistic(feature: _Table, place: dict[int, int]) -> dict[str, Any]:
    """Return a target statistic: of which features, how it is computed, and the borders it is compared with."""
    statistic = feature.table(0)
    base = None if statistic is None else statistic.table(0)
    if statistic is None or base is None:
        raise FormatError("a target statistic says nothing")
    identifier, combination = _identify(base)
    indices = combination.array(0, "<i4").tolist()
    if not all(index in place for index in indices):
        raise FormatError("a target statistic is of a feature that is not there")
    elements: list[dict[str, Any]] = [
        {"cat_feature_index": place[index], "combination_element": "cat_feature_value"} for index in indices
    ]
    for index, border in combination.array(1, np.dtype("<i4,<f4")).tolist():
        elements.append({"float_feature_index": index, "border": border, "combination_element": "float_feature"})
    for index, value in combination.array(2, np.dtype("<i4,<i4")).tolist():
        if index not in place:
            raise FormatError("a target statistic is of a feature that is not there")
        wanted = {"cat_feature_index": place[index], "value": value}
        elements.append(wanted | {"combination_element": "cat_feature_exact_value"})
    if not elements:
        raise FormatError("a target statistic is of no feature")
    return {
        "identifier": identifier,
        "elements": elements,
        "ctr_type": _STATISTICS[base.number(1, "<b", 0)],
        "target_border_idx": statistic.number(1, "<i", 0),
        "prior_numerator": statistic.number(2, "<f", 0.0),
        "prior_denomerator": statistic.number(3, "<f", 1.0),
        "shift": statistic.number(4, "<f", 0.0),
        "scale": statistic.number(5, "<f", 1.0),
        "borders": feature.array(1, "<f4").tolist(),
    }


def _identify(base: _Table) -> tuple[str, _Table]:
    """Return a text by which a statistic and its table find each other, and the features they are of."""
    combination, kind = base.table(0), base.number(1, "<b", 0)
    if combination is None or not 0 <= kind < len(_STATISTICS):
        raise FormatError("a target statistic is of an unknown kind")
    parts = [combination.array(field, dtype).tolist() for field, dtype in ((0, "<i4"), (1, "<i8"), (2, "<i8"))]
    return f"{_STATISTICS[kind]} of {parts}", combination


def _read_tables(data: bytes) -> dict[str, Any]:
    """Return the tables of target statistics by their identifiers: hashes of categories, each with its counts."""
    tables: dict[str, Any] = {}
    if len(data) < 4:
        raise FormatError("it has no tables of its target statistics")
    position = 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<I", data, position)[0] if len(data) - position >= 4 else 0
        content = data[position + 4 : position + 4 + size]
        if len(content) < max(size, 8):
            raise FormatError("it is truncated within its tables of target statistics")
        position += 4 + size
        table = _Table(content, struct.unpack_from("<I", content)[0])
        base = table.table(0)
        if base is None:
            raise FormatError("a table is of no target statistic")
        identifier, _ = _identify(base)
        kind = _STATISTICS[base.number(1, "<b", 0)]
        places = table.array(1, np.dtype([("hash", "<u8"), ("index", "<u4")]), 12)
        counts = _counts(table, kind)
        places = places[places["hash"] != 2**64 - 1]
        if len(places) and places["index"].max() >= len(counts):
            raise FormatError("a table has a category without counts")
        flat = [[int(place["hash"]), *counts[place["index"]]] for place in places]
        tables[identifier] = {
            "hash_map": [entry for entries in flat for entry in entries],
            "hash_stride": 1 + (len(counts[0]) if counts else 0),
            "counter_denominator": table.number(3, "<i", 0),
        }
    return tables


def _counts(table: _Table, kind: str) -> list[list[float]]:
    """Return the numbers of each category: how often each class, a sum and how often, or how often."""
    if kind in ("BinarizedTargetMeanValue", "FloatTargetMeanValue"):
        pairs = table.array(2, np.dtype([("sum", "<f4"), ("count", "<i4")]), 8)
        return [[float(pair["sum"]), int(pair["count"])] for pair in pairs]
    width = table.number(4, "<i", 0) if kind in ("Borders", "Buckets") else 1
    counts = table.array(2, "<i4", 4)
    if width < 1 or len(counts) % width:
        raise FormatError("a table's counts do not fit its classes")
    return [list(entry) for entry in counts.reshape(-1, width).tolist()]


def _describe(feature: _Table, first: int) -> dict[str, Any]:
    index, flat = feature.number(first, "<i", -1), feature.number(first + 1, "<i", -1)
    if index < 0 or flat < 0:
        raise FormatError("a feature has no number")
    return {"feature_index": index, "flat_feature_index": flat}


def _choose(splits: list[dict[str, Any]], numbers: NDArray[Any]) -> list[dict[str, Any]]:
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(splits)):
        raise FormatError(f"a tree asks question {int(numbers.max())} of {len(splits)}")
    return [splits[number] for number in numbers.tolist()]


def _sizes(trees: _Table, n_splits: int) -> list[int]:
    sizes: list[int] = trees.array(2, "<i4").tolist()
    if min(sizes, default=0) < 0 or sum(sizes) != n_splits:
        raise FormatError(f"its trees ask {sum(sizes)} questions, {n_splits} are there")
    return sizes


def _read_symmetric_trees(trees: _Table, splits: list[dict[str, Any]], n_outputs: int) -> list[dict[str, Any]]:
    numbers = trees.array(1, "<i4")
    sizes = _sizes(trees, len(numbers))
    if max(sizes, default=0) > 16:
        raise FormatError(f"a tree has {max(sizes)} levels, at most 16 are possible")
    asked = _choose(splits, numbers)
    values, weights = trees.array(8, "<f8"), trees.array(9, "<f8")
    n_leaves = [1 << size for size in sizes]
    if len(values) != n_outputs * sum(n_leaves) or len(weights) not in (0, sum(n_leaves)):
        raise FormatError(f"it has {len(values)} leaf values and {len(weights)} weights for {sum(n_leaves)} leaves")
    ends, leaves = list(accumulate(sizes)), list(accumulate(n_leaves))
    return [
        {
            "splits": asked[end - size : end],
            "leaf_values": values[n_outputs * (last - count) : n_outputs * last],
            "leaf_weights": weights[last - count : last].tolist() if len(weights) else None,
        }
        for end, size, last, count in zip(ends, sizes, leaves, n_leaves, strict=True)
    ]


def _read_any_trees(trees: _Table, splits: list[dict[str, Any]], n_outputs: int) -> list[dict[str, Any]]:
    """Read trees whose nodes say how far away their children are: a distance of 0 means that a row stays, at a leaf."""
    numbers, steps = trees.array(1, "<i4"), trees.array(10, "<u4")
    leaf_of, values, weights = trees.array(11, "<u4"), trees.array(8, "<f8"), trees.array(9, "<f8")
    if not len(numbers) == len(steps) == len(leaf_of) or len(numbers) > _MAX_TREE_NODES:
        raise FormatError(f"it has {len(numbers)} questions, {len(steps)} nodes and {len(leaf_of)} leaves of nodes")
    sizes = _sizes(trees, len(numbers))
    left, right = (steps & 0xFFFF).tolist(), (steps >> 16).tolist()

    def leaf(node: int) -> dict[str, Any]:
        first = int(leaf_of[node])
        if first + n_outputs > len(values) or first % n_outputs:
            raise FormatError("a node has a leaf that is not there")
        found: dict[str, Any] = {"value": values[first : first + n_outputs]}
        return found | ({"weight": float(weights[first // n_outputs])} if first // n_outputs < len(weights) else {})

    roots = []
    for end, size in zip(accumulate(sizes), sizes, strict=True):
        if size == 0:
            raise FormatError("it has a tree without nodes")
        made: dict[int, dict[str, Any]] = {}
        # Children lie behind their parents, so that going backwards finds them made.
        for node in range(end - 1, end - size - 1, -1):
            if left[node] == right[node] == 0:
                made[node] = leaf(node)
                continue
            children = [made.pop(node + step, None) if step else leaf(node) for step in (left[node], right[node])]
            if None in children:
                raise FormatError("a node has a child that is not there, or that is another's")
            made[node] = {
                "split": _choose(splits, numbers[node : node + 1])[0],
                "left": children[0],
                "right": children[1],
            }
        roots.append(made[end - size])
    return roots
