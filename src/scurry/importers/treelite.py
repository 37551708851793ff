"""Importer of treelite checkpoints (``Model.serialize``) of format 4; treelite itself is not needed.

What treelite's reference predictor (GTIL) does, read in its source and measured against release 4.8, is reproduced:

- inputs, thresholds and leaves are all float32 or all float64; a missing value goes the default way;
- a value is cut off to a category, one below 0 is none; a list of categories may lead to either child;
- leaves are added in tree order, then divided if the model averages, and then the base scores are added.

treelite gives scores and probabilities, not labels: with two classes and one score, the second class is given where its
probability is above one half, with more classes the first of the highest scores. A base score that is no float32 is
rounded to one where the model adds float32, which may change the last bit of a score.

The format is described in https://treelite.readthedocs.io/en/latest/serialization/v4.html.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.importers.onnx.ensemble import EQ, GT, GTE, LEAF, LEQ, LT, Ensemble
from scurry.importers.onnx.trees import arrange, pack_sets

_TYPES = {2: "float32", 3: "float64"}
_TASKS = ("binary classifier", "regressor", "classifier", "ranker", "isolation forest")
_LINKS = {
    "identity": "identity",
    "identity_multiclass": "identity",
    "sigmoid": "logistic",
    "softmax": "softmax",
    "multiclass_ova": "logistic-each",
    "exponential": "exp",
    "signed_square": "signed-square",
    "logarithm_one_plus_exp": "log1p-exp",
    "hinge": "step",
}
_MODES = np.array([LEAF, EQ, LT, LEQ, GT, GTE], np.uint8)  # by treelite's number of the comparison
_MAX_CATEGORY = 2**24


def looks_like_checkpoint(head: bytes) -> bool:
    """Return whether a file begins with a version of the format and the types of its numbers."""
    return (
        len(head) >= 14 and head[:4] in (b"\3\0\0\0", b"\4\0\0\0") and head[12] in _TYPES and head[13] in (1, *_TYPES)
    )


def import_file(path: str | PathLike[str]) -> Forest:
    """Import a checkpoint.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Forest

    Raises
    ------
    FormatError
        If the file is damaged.
    """
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return import_bytes(data)
    except (FormatError, InputError) as error:
        raise FormatError(f"{path} is not a sound treelite checkpoint: {error}") from error


def import_model(model: Any) -> Forest:
    """Import a ``treelite.Model``.

    Parameters
    ----------
    model : Model

    Returns
    -------
    Forest
    """
    if not hasattr(model, "serialize_bytes"):
        raise UnsupportedModelError(f"cannot import a treelite {type(model).__name__}; accepted is Model")
    return import_bytes(model.serialize_bytes())


class _Reader:
    """A position in a checkpoint: every size is checked against the bytes that are left before anything is read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def _skip(self, n_bytes: int) -> int:
        start = self.position
        if n_bytes > len(self.data) - start:
            raise FormatError(f"it ends at byte {len(self.data)} but claims {n_bytes} bytes at {start}")
        self.position = start + n_bytes
        return start

    def number(self, code: str) -> Any:
        layout = struct.Struct("<" + code)
        return layout.unpack_from(self.data, self._skip(layout.size))[0]

    def array(self, dtype: str) -> NDArray[Any]:
        count = self.number("Q")
        return np.frombuffer(self.data, dtype, count, self._skip(count * np.dtype(dtype).itemsize))

    def text(self) -> str:
        return self.array("u1").tobytes().decode("utf-8", "replace")


@dataclass(frozen=True)
class _Header:
    """What is said about all trees."""

    dtype: str
    n_trees: int
    n_features: int
    task: str
    average: bool
    n_classes: int
    class_of_tree: NDArray[np.int32]
    link: str
    alpha: float
    base: NDArray[np.float64]


def import_bytes(data: bytes) -> Forest:
    """Import the content of a checkpoint."""
    with np.errstate(invalid="ignore"):  # NaNs of damaged files may be of the kind that signals
        return _read_model(_Reader(data))


def _read_model(reader: _Reader) -> Forest:
    header = _read_header(reader)
    # A tree takes more than 100 bytes, so that a count that lies runs out of bytes before it runs out of memory.
    trees = [_read_tree(reader, header) for _ in range(header.n_trees)]
    if reader.position != len(reader.data):
        raise FormatError(f"{len(reader.data) - reader.position} bytes follow its last tree")
    if not trees:
        raise FormatError("it has no trees")
    return _assemble(header, trees)


def _read_header(reader: _Reader) -> _Header:
    version = tuple(reader.number("i") for _ in range(3))
    if version[0] != 4:
        raise UnsupportedModelError(
            f"the checkpoint was written by treelite {'.'.join(map(str, version))}; load it with treelite 4, and "
            "serialize it again"
        )
    types = reader.number("B"), reader.number("B")
    if types[0] != types[1] or types[0] not in _TYPES:
        raise FormatError(
            f"its thresholds and leaves have the types {types}, expected 2 (float) or 3 (double) for both"
        )
    n_trees, n_features, task, average = (reader.number(code) for code in ("Q", "i", "B", "?"))
    n_targets, n_classes, shape = reader.number("i"), reader.array("<i4"), reader.array("<i4")
    targets, classes = reader.array("<i4"), reader.array("<i4")
    postprocessor, alpha, _, base = reader.text(), reader.number("f"), reader.number("f"), reader.array("<f8")
    reader.text()  # attributes: free text
    if reader.number("i") != 0:
        raise UnsupportedModelError("the checkpoint has optional fields of a later treelite; update scurry")
    if n_targets != 1 or len(n_classes) != 1 or (targets > 0).any():
        raise UnsupportedModelError(
            f"the treelite model has {n_targets} targets, and a forest predicts one; make one model for each"
        )
    if task >= len(_TASKS) or postprocessor not in _LINKS or _TASKS[task] == "isolation forest":
        what = _TASKS[task] if task < len(_TASKS) else f"task {task}"
        raise UnsupportedModelError(
            f"the treelite model, of task {what!r}, has the postprocessor {postprocessor[:40]!r}, which is not "
            f"supported; known are {', '.join(_LINKS)}"
        )
    width = int(n_classes[0])
    if len(classes) != n_trees or len(base) != width or list(shape) not in ([1, 1], [1, width]):
        raise FormatError("its classes, base scores or leaves are not as many as its trees and classes")
    if (classes >= max(width, 1)).any() or n_features < 0:
        raise FormatError("it names a class or a number of features that cannot be")
    link = _LINKS[postprocessor]
    return _Header(_TYPES[types[0]], n_trees, n_features, _TASKS[task], average, width, classes, link, alpha, base)


@dataclass(frozen=True)
class _Tree:
    """Arrays over the nodes of a tree; children are counted from its root."""

    true: NDArray[np.int64]
    false: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    mode: NDArray[np.uint8]
    track: NDArray[np.bool_]
    value: NDArray[np.float64]
    weight: NDArray[np.float64]
    categories: dict[int, tuple[int, ...]]


def _read_tree(reader: _Reader, header: _Header) -> _Tree:
    real = "<f4" if header.dtype == "float32" else "<f8"
    n_nodes = reader.number("i")
    reader.number("?")
    kinds = ("i1", "<i4", "<i4", "<i4", "?", real, real, "i1", "?")
    kind, left, right, feature, default_left, leaf, threshold, compare, to_right = (reader.array(k) for k in kinds)
    vectors = [reader.array(k) for k in (real, "<u8", "<u8")]
    lists = [reader.array(k) for k in ("<u4", "<u8", "<u8")]
    count, count_known, hessian, hessian_known, _, _ = (reader.array(k) for k in ("<u8", "?", "<f8", "?", "<f8", "?"))
    if reader.number("i") != 0 or reader.number("i") != 0:
        raise UnsupportedModelError("the checkpoint has optional fields of a later treelite; update scurry")
    lengths = {len(array) for array in (kind, left, right, feature, default_left, leaf, threshold, compare, to_right)}
    if n_nodes < 1 or lengths != {n_nodes}:
        raise FormatError(f"a tree of {n_nodes} nodes has arrays of {sorted(lengths)} entries")
    inner = left >= 0
    if ((right >= 0) != inner).any() or max(left.max(), right.max()) >= n_nodes or (left[inner] == 0).any():
        raise FormatError("a tree has a node whose children are not two other nodes")
    if ((kind < 0) | (kind > 2)).any() or ((kind == 0) == inner).any() or ((compare < 0) | (compare > 5)).any():
        raise FormatError("a tree has a node of unknown kind")
    if ((feature < 0) | (feature >= header.n_features))[inner].any():
        raise FormatError(f"a tree tests a feature beyond its {header.n_features}")
    categorical = kind == 2
    mode = np.where(categorical, np.uint8(EQ), _MODES[compare])
    if np.isin(mode[inner & ~categorical], (EQ, LEAF)).any():
        raise UnsupportedModelError("the treelite model compares for equality, which no library's trees do")
    swap = categorical & to_right
    weight = np.full(n_nodes, np.nan)
    for values, known in ((count, count_known), (hessian, hessian_known)):
        if len(values) == len(known) == n_nodes and known.all():
            weight = values.astype(np.float64)
    return _Tree(
        true=np.where(swap, right, left).astype(np.int64),
        false=np.where(swap, left, right).astype(np.int64),
        feature=feature.astype(np.int64),
        threshold=threshold.astype(np.float64),
        mode=np.where(inner, mode, np.uint8(LEAF)),
        track=default_left ^ swap,
        value=_leaf_values(header, leaf, vectors, inner),
        weight=weight,
        categories=_categories(lists, np.flatnonzero(categorical), n_nodes),
    )


def _leaf_values(
    header: _Header, leaf: NDArray[Any], vectors: list[NDArray[Any]], inner: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the values of nodes, zero at inner ones; shape (n_nodes, 1) or (n_nodes, n_classes)."""
    content, begin, end = vectors
    if not len(content):
        return np.where(inner, 0.0, leaf.astype(np.float64))[:, None]
    size = header.n_classes
    if len(begin) != len(leaf) or len(end) != len(leaf) or (end > len(content)).any():
        raise FormatError("the vectors of leaves do not fit their list")
    if (end[~inner] - begin[~inner] != size).any() or (begin > end).any():
        raise FormatError(f"a leaf does not have a value for each of {size} classes")
    values = np.zeros((len(leaf), size))
    values[~inner] = content[begin[~inner].astype(np.int64)[:, None] + np.arange(size)]
    return values


def _categories(lists: list[NDArray[Any]], nodes: NDArray[np.int64], n_nodes: int) -> dict[int, tuple[int, ...]]:
    content, begin, end = lists
    if not len(nodes):
        return {}
    if len(begin) != n_nodes or len(end) != n_nodes or (end > len(content)).any() or (begin > end).any():
        raise FormatError("the categories of nodes do not fit their list")
    if content.max(initial=0) >= _MAX_CATEGORY:
        raise UnsupportedModelError(f"the treelite model has categories of {_MAX_CATEGORY} or more")
    return {node: tuple(sorted(set(content[begin[node] : end[node]].tolist()))) for node in nodes.tolist()}


def _assemble(header: _Header, trees: list[_Tree]) -> Forest:
    if len({tree.value.shape[1] for tree in trees}) != 1:
        raise FormatError("some trees have vectors at their leaves and some have not")
    base, output, n_outputs = header.base, header.class_of_tree, header.n_classes
    if base.any():
        if header.average:
            raise UnsupportedModelError("the treelite model adds base scores to an average, which trees cannot do")
        trees = trees + _base_trees(base, trees[0])
        output = np.append(output, np.arange(n_outputs) if output[0] >= 0 else -1)
    ensemble, set_of, sets = _join(trees, n_outputs if output[0] >= 0 else None, output)
    _check_trees(ensemble)
    nodes = arrange(ensemble, set_of)
    serves = output[0] >= 0 and n_outputs > 1
    if serves:
        nodes["value"] = nodes["value"].sum(axis=1, keepdims=True)
    return Forest(
        **nodes,
        **_readout(header),
        **(pack_sets(sets) if sets else {}),
        n_features=header.n_features,
        tree_output=output if serves else None,
        aggregation="mean" if header.average else "sum",
        input_dtype=header.dtype,
        score_dtype=header.dtype,
        category_rounding="floor",
    )


def _base_trees(base: NDArray[np.float64], first: _Tree) -> list[_Tree]:
    """Return trees of one leaf that add the base scores, one for all classes or one for each; all rows reach them."""
    none, zero = np.full(1, -1, np.int64), np.zeros(1)
    values = [base[None, :]] if first.value.shape[1] > 1 else [np.array([[score]]) for score in base]
    mode, track = np.full(1, LEAF, np.uint8), np.zeros(1, bool)
    return [_Tree(none, none, none, zero, mode, track, value, first.weight[:1], {}) for value in values]


def _join(
    trees: list[_Tree], n_outputs: int | None, output: NDArray[Any]
) -> tuple[Ensemble, NDArray[np.int64], list[tuple[int, ...]]]:
    """Return all trees as one ensemble, the set of each node, and the sets."""
    sizes = np.array([len(tree.mode) for tree in trees])
    first = np.cumsum(sizes) - sizes
    shift = np.repeat(first, sizes)

    def children(side: str) -> NDArray[np.int64]:
        child = np.concatenate([getattr(tree, side) for tree in trees])
        return np.where(child < 0, -1, child + shift)

    value = np.concatenate([tree.value for tree in trees])
    if n_outputs is not None and n_outputs > 1:
        wide = np.zeros((len(value), n_outputs))
        wide[np.arange(len(value)), np.repeat(output, sizes)] = value[:, 0]
        value = wide
    weight = np.concatenate([tree.weight for tree in trees])
    index: dict[tuple[int, ...], int] = {}
    set_of = np.full(len(value), -1, np.int64)
    for at, tree in zip(first.tolist(), trees, strict=True):
        for node, members in tree.categories.items():
            set_of[at + node] = index.setdefault(members, len(index))
    ensemble = Ensemble(
        roots=first,
        true=children("true"),
        false=children("false"),
        feature=np.concatenate([tree.feature for tree in trees]),
        split=np.concatenate([tree.threshold for tree in trees]),
        mode=np.concatenate([tree.mode for tree in trees]),
        track=np.concatenate([tree.track for tree in trees]),
        members={},
        value=value,
        scored=np.ones(value.shape, bool),
        hitrate=weight,
    )
    return ensemble, set_of, list(index)


def _check_trees(ensemble: Ensemble) -> None:
    inner = ensemble.mode != LEAF
    parents = np.bincount(
        np.concatenate([ensemble.true[inner], ensemble.false[inner], ensemble.roots]), minlength=len(inner)
    )
    if (parents > 1).any():
        raise FormatError("a node is the child of two nodes")
    if np.isnan(ensemble.split[inner & (ensemble.mode != EQ)]).any():
        raise FormatError("a threshold is NaN")


def _readout(header: _Header) -> dict[str, Any]:
    """Return how scores become labels and predictions."""
    if header.task in ("regressor", "ranker"):
        if header.n_classes != 1:
            raise UnsupportedModelError(f"the treelite {header.task} has {header.n_classes} values per row")
        return {"link": header.link}
    if header.n_classes > 1:
        link = "logistic-each" if header.link == "logistic" else header.link
        return {"classes": np.arange(header.n_classes), "link": link, "link_scale": header.alpha, "label_from": "score"}
    real = np.dtype(header.dtype).type
    half = 0.5 if header.link == "identity" else 0.0
    return {
        "classes": np.arange(2),
        "link": header.link,
        "link_scale": header.alpha,
        "decision_threshold": float(np.nextafter(real(half), real(np.inf))),
    }
