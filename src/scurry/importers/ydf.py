"""Importer of YDF's models (Yggdrasil Decision Forests): saved folders of random forests and gradient boosted trees.

A folder has Protocol Buffers messages: a header, the columns ("data_spec.pb"), the header of the kind of model, and the
nodes of all trees one after the other, each before its negative and then its positive subtree. YDF itself is not
needed. What it does, read in its source and compared with release 0.16:

- numbers are float32; ``x >= threshold`` is positive, a missing value goes where the node says;
- a category that the model does not know is one of its own, "out of dictionary", which is not the same as missing;
- boosted trees add float32 leaves to the initial prediction; a forest counts votes, or averages distributions.

YDF predicts probabilities: a label is the class with the highest, the first of them on ties. Its engines add in other
orders, so that probabilities agree within 1e-6.

The messages are described in https://github.com/google/yggdrasil-decision-forests.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.forest.front import RawRows
from scurry.importers.onnx.ensemble import EQ, GTE, LEAF, LT, Ensemble
from scurry.importers.onnx.protobuf import Message
from scurry.importers.onnx.trees import arrange, pack_sets

_NUMERICAL, _CATEGORICAL, _BOOLEAN, _DISCRETIZED = 1, 4, 7, 9
_KINDS = {_NUMERICAL: "number", _CATEGORICAL: "category", _BOOLEAN: "boolean", _DISCRETIZED: "discretized number"}
_CLASSIFICATION, _REGRESSION, _RANKING = 1, 2, 3
_LOSSES = {1: "logistic", 2: "identity", 3: "softmax", 4: "identity", 5: "identity", 6: "logistic", 7: "exp"}
_LOSSES |= {8: "identity", 9: "identity"}
_INTEGERS = range(1, 9)  # types of columns of whole numbers
_MAX_BYTES = 2**31
_MAX_SHARDS = 10_000


def is_folder(path: str) -> bool:
    """Return whether a path is a folder that YDF saved a model to."""
    return os.path.isfile(os.path.join(path, "data_spec.pb")) and os.path.isfile(os.path.join(path, "header.pb"))


def import_folder(path: str | PathLike[str]) -> Forest:
    """Import a model that YDF saved (``model.save("folder")``).

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Forest

    Raises
    ------
    FormatError
        If a file is missing or damaged.
    """
    folder = os.fspath(path)
    try:
        with np.errstate(invalid="ignore"):  # NaNs of damaged files may be of the kind that signals
            return _import(folder)
    except (FormatError, InputError) as error:
        raise FormatError(f"{folder} is not a sound model of YDF: {error}") from error


def _read(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as stream:
            return stream.read()
    except OSError as error:
        raise FormatError(f"cannot read its file {name}: {error.strerror or error}") from error


@dataclass(frozen=True)
class _Column:
    """A column: its name, its kind, the values of a category (the first is "out of dictionary"), bounds of bins."""

    name: str
    kind: int
    values: tuple[str | int, ...] = ()
    bounds: tuple[float, ...] = ()


def _import(folder: str) -> Forest:
    header = Message(_read(folder, "header.pb"))
    columns = [_read_column(column) for column in Message(_read(folder, "data_spec.pb")).messages(1)]
    kind = header.text(1)
    if kind not in ("RANDOM_FOREST", "GRADIENT_BOOSTED_TREES"):
        raise UnsupportedModelError(f"YDF's model {kind[:40]!r} is not supported; random forests and boosted trees are")
    task, label, used = header.number(2), header.number(3), header.numbers(5).tolist()
    if not used or min(used) < 0 or max(used) >= len(columns) or not 0 <= label < len(columns):
        raise FormatError("it names columns that it does not have")
    if task not in (_CLASSIFICATION, _REGRESSION, _RANKING):
        raise UnsupportedModelError(f"YDF's task {task} is not supported; classification, regression and ranking are")
    features = [columns[at] for at in used]
    if odd := [column.name for column in features if column.kind not in _KINDS]:
        raise UnsupportedModelError(
            f"YDF's column {odd[0]!r} is none of {', '.join(_KINDS.values())}; train without it"
        )
    classes = np.array(columns[label].values[1:]) if task == _CLASSIFICATION else None
    specific = Message(_read(folder, f"{kind.lower()}_header.pb"))
    blobs = _read_nodes(folder, specific.number(1, 1))
    reader = _Trees(features, {column: at for at, column in enumerate(used)}, 0 if classes is None else len(classes))
    reader.read(blobs, specific.number(2))
    answer = _forest(specific, reader, classes) if kind == "RANDOM_FOREST" else _boosted(specific, reader, classes)
    nodes = arrange(reader.ensemble(answer.pop("value")), np.array(reader.set_of, np.int64))
    categories = {at: np.array(column.values[1:]) for at, column in enumerate(features) if column.kind == _CATEGORICAL}
    return Forest(
        **nodes,
        **answer,
        **(pack_sets(reader.sets) if reader.sets else {}),
        n_features=len(features),
        feature_names=[column.name for column in features],
        categories=categories,
        encode_numbers=bool(categories),
        raw_rows=RawRows(missing_codes={at: len(values) for at, values in categories.items()}) if categories else None,
        input_dtype="float32",
        classes=classes,
    )


def _read_column(column: Message) -> _Column:
    name, kind, spec = column.text(2), column.number(1), column.message(6)
    if kind == _DISCRETIZED:
        return _Column(name, kind, bounds=tuple(column.message(8).floats(1).tolist()))
    if kind != _CATEGORICAL:
        return _Column(name, kind)
    if spec.number(5):
        raise UnsupportedModelError(
            f"YDF's column {name!r} holds numbers of categories (is_already_integerized); train on their values"
        )
    items = [(entry.text(1), entry.message(2).number(1)) for entry in spec.messages(7)]
    values: list[str | int] = [text for text, _ in sorted(items, key=lambda item: item[1])]
    if sorted(index for _, index in items) != list(range(len(items))) or not values:
        raise FormatError(f"the values of column {name!r} are not numbered from 0 on")
    if column.number(12) in _INTEGERS:
        try:
            values[1:] = [int(value) for value in values[1:]]
        except ValueError as error:
            raise FormatError(f"column {name!r} of integers has other values") from error
    return _Column(name, kind, tuple(values))


def _read_nodes(folder: str, n_shards: int) -> list[bytes]:
    """Return the nodes of all trees, which are kept in one file or in several."""
    if not 1 <= n_shards <= _MAX_SHARDS:
        raise FormatError(f"it has {n_shards} files of nodes")
    blobs: list[bytes] = []
    for shard in range(n_shards):
        data = _read(folder, f"nodes-{shard:05d}-of-{n_shards:05d}")
        if len(data) < 8 or data[:2] != b"BS":
            raise UnsupportedModelError(
                "YDF's nodes are not in its own format (BLOB_SEQUENCE); load the model with ydf, and save it again"
            )
        compressed, data = data[4] == 1, data[8:]
        if compressed:
            try:
                data = zlib.decompressobj(47).decompress(data, _MAX_BYTES)
            except zlib.error as error:
                raise FormatError(f"its nodes cannot be decompressed: {error}") from error
        position = 0
        while position < len(data):
            if len(data) - position < 4:
                raise FormatError("its nodes end within one")
            size = struct.unpack_from("<I", data, position)[0]
            if size > len(data) - position - 4:
                raise FormatError(f"its nodes end at byte {len(data)}, but one claims {size} bytes at {position}")
            blobs.append(data[position + 4 : position + 4 + size])
            position += 4 + size
    return blobs


class _Trees:
    """Reads nodes.

    Parameters
    ----------
    features : list of _Column
    place : dict of int to int
        The feature that a column is.
    n_classes : int
    """

    def __init__(self, features: list[_Column], place: dict[int, int], n_classes: int) -> None:
        self._features, self._place, self._n_classes = features, place, n_classes
        self.roots: list[int] = []
        # One entry per node: positive child, negative child, feature, split, mode, whether missing values are positive.
        self._rows: list[list[Any]] = []
        self.set_of: list[int] = []
        self.sets: list[tuple[int, ...]] = []
        self.top: list[int] = []
        self.values: list[float] = []
        self.shares: list[NDArray[np.float64]] = []
        self.weights: list[float] = []

    def read(self, blobs: list[bytes], n_trees: int) -> None:
        """Read `n_trees` trees, which must be all there is."""
        position = 0
        for _ in range(n_trees):
            self.roots.append(position)
            waiting = [(-1, 0)]  # parent and side: 0 is the positive child
            while waiting:
                if position == len(blobs):
                    raise FormatError(f"nodes are missing: {len(self.roots)} of its {n_trees} trees begin")
                parent, side = waiting.pop()
                if parent >= 0:
                    self._rows[parent][side] = position
                if self._read_node(Message(blobs[position])):
                    waiting += [(position, 0), (position, 1)]
                position += 1
        if position != len(blobs) or not self.roots:
            raise FormatError(f"{len(blobs) - position} nodes follow the last of its {n_trees} trees")

    def _read_node(self, node: Message) -> bool:
        """Read a node; return whether it has children."""
        classifier, regressor = node.message(1), node.message(2)
        distribution = classifier.message(2)
        counts, total = distribution.floats(1, "<f8"), distribution.floats(2, "<f8")
        value = regressor.floats(1)
        self.top.append(classifier.number(1))
        self.values.append(float(value[-1]) if len(value) else 0.0)
        self.shares.append(counts)
        known = [total, regressor.floats(5, "<f8"), regressor.message(2).floats(3, "<f8")]
        self.weights.append(next((float(found[-1]) for found in known if len(found)), np.nan))
        inner = 3 in node
        self._rows.append([-1, -1, *(self._condition(node.message(3)) if inner else (0, 0.0, LEAF, False))])
        if not inner:
            self.set_of.append(-1)
        return inner

    def _condition(self, node: Message) -> tuple[int, float, int, bool]:
        """Return what a node tests: feature, split, mode, and whether a missing value is positive."""
        missing, at, condition = bool(node.number(1)), self._place.get(node.number(2)), node.message(3)
        if at is None:
            raise FormatError("a node tests a column that is no feature")
        column = self._features[at]
        chosen = -1
        split, mode = 0.5, GTE  # of a boolean
        if 2 in condition:
            found = condition.message(2).floats(1)
            split = float(found[-1]) if len(found) else 0.0
        elif 6 in condition:
            bound = condition.message(6).number(1) - 1
            if not 0 <= bound < len(column.bounds):
                raise FormatError(f"a node tests a bin of {column.name!r} that is not there")
            split = column.bounds[bound]
        elif 1 in condition:
            # Only missing values are positive, wherever the node would send them.
            split, mode, missing = -np.inf, LT, True
        elif 4 in condition or 5 in condition:
            chosen, missing = self._add_set(column, condition, missing)
            mode = EQ
        elif 3 not in condition:
            raise UnsupportedModelError(
                "YDF's model has oblique splits, or splits on vectors; train it with split_axis='AXIS_ALIGNED'"
            )
        if (mode == EQ) != (column.kind == _CATEGORICAL) and mode != LT:
            raise FormatError(f"a node tests {column.name!r} as what it is not")
        if np.isnan(split):
            raise FormatError("a threshold is NaN")
        self.set_of.append(chosen)
        return at, split, mode, missing

    def _add_set(self, column: _Column, condition: Message, missing: bool) -> tuple[int, bool]:
        """Return the number of a set of codes, and whether values that the model does not know are in it.

        Codes leave out the first value, "out of dictionary". The last code stands for missing values.
        """
        if 4 in condition:
            elements = condition.message(4).numbers(1)
        else:
            octets = np.frombuffer(b"".join(condition.message(5).parts(1)), np.uint8)
            elements = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
        size = len(column.values)
        known = elements[elements < size]
        if (elements < 0).any() or (4 in condition and len(known) != len(elements)):
            raise FormatError(f"a node tests a value of {column.name!r} that is not there")
        codes = [int(element) - 1 for element in known if element > 0] + ([size - 1] if missing else [])
        self.sets.append(tuple(sorted(set(codes))))
        return len(self.sets) - 1, bool((known == 0).any())

    def ensemble(self, value: NDArray[np.float64]) -> Ensemble:
        """Return the trees with these values of nodes, shape (n_nodes, n_outputs)."""
        columns = list(zip(*self._rows, strict=True))
        return Ensemble(
            roots=np.array(self.roots, np.int64),
            true=np.array(columns[0], np.int64),
            false=np.array(columns[1], np.int64),
            feature=np.array(columns[2], np.int64),
            split=np.array(columns[3], np.float64),
            mode=np.array(columns[4], np.uint8),
            track=np.array(columns[5], bool),
            members={},
            value=value,
            scored=np.ones(value.shape, bool),
            hitrate=np.array(self.weights),
        )


def _forest(header: Message, trees: _Trees, classes: NDArray[Any] | None) -> dict[str, Any]:
    """Return the values of a random forest's nodes, and how they are put together."""
    if classes is None:
        return {"value": np.array(trees.values)[:, None], "aggregation": "mean"}
    n_classes = len(classes)
    top = np.array(trees.top, np.int64) - 1
    if ((top < 0) | (top >= n_classes)).any():
        raise FormatError("a leaf names a class that it does not have")
    shares = np.zeros((len(top), n_classes))
    complete = all(len(counts) == n_classes + 1 and counts[1:].sum() > 0 for counts in trees.shares)
    if complete:
        shares = np.stack([counts[1:] / counts[1:].sum() for counts in trees.shares])
    votes = bool(header.number(3, 1))
    if not complete and not votes:
        raise UnsupportedModelError("YDF's leaves have no distributions of classes; save the model with all of them")
    if not complete or (votes and (shares.argmax(axis=1) != top).any()):
        shares = np.eye(n_classes)[top]
    return {"value": shares, "aggregation": "vote" if votes else "mean"}


def _boosted(header: Message, trees: _Trees, classes: NDArray[Any] | None) -> dict[str, Any]:
    """Return the values of boosted trees' leaves, and how sums become answers."""
    loss, initial, per_round = header.number(3), header.floats(4).astype(np.float64), header.number(5, 1)
    if loss not in _LOSSES:
        raise UnsupportedModelError(f"YDF's loss {loss} is not supported")
    link = _LOSSES[loss]
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    if len(initial) != n_outputs or per_round != n_outputs or len(trees.roots) % n_outputs:
        raise FormatError(
            f"it has {len(initial)} initial predictions and {per_round} trees per round for {n_outputs} sums"
        )
    answer: dict[str, Any] = {
        "value": np.array(trees.values)[:, None],
        "aggregation": "sum",
        "base_score": initial,
        "score_dtype": "float32",
        "link": link,
        "tree_output": np.arange(len(trees.roots)) % n_outputs if n_outputs > 1 else None,
    }
    if classes is None:
        return answer
    if (link == "softmax") != (n_outputs > 1):
        raise UnsupportedModelError(f"YDF's classifier of {len(classes)} classes with loss {loss} is not supported")
    return answer | {
        "label_from": "score",
        "decision_threshold": float(np.nextafter(np.float32(0), np.float32(1))) if n_outputs == 1 else 0.0,
    }
