"""Importer of ONNX models: TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble of the domain ai.onnx.ml.

What onnxruntime does, read in its source and measured against release 1.31, is reproduced:

- operators compare and add in float32, or in float64 where their input is of type double. Base values come last: a tree
  of one leaf at the end adds them;
- with more than two classes, the first of those with the highest sum wins, whatever transformation follows;
- with two classes and weights for one of them, the second class needs a sum above 0, or above 0.5 if no weight is
  negative, whatever transformation follows;
- a regressor of one target ignores its transformation, which the standard says to apply: such a file is refused.

Around the trees, a graph may have what changes no number (Cast, Identity, ZipMap, a Concat of inputs), and the few
operators that `scurry.export.to_onnx` writes after them. Anything else is refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.importers.onnx.ensemble import Ensemble, read_indexed, read_listed
from scurry.importers.onnx.graph import BOOL, DOUBLE, FLOAT, INT32, INT64, STRING, TREES, Graph, Node, read_graph
from scurry.importers.onnx.tail import Answer, read_tail
from scurry.importers.onnx.trees import join_copies, lower
from scurry.importers.outputs import choose_output

_OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_FLOATS = {FLOAT: "float32", DOUBLE: "float64", INT64: "float32", INT32: "float32"}
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATIONS = ("AVERAGE", "SUM", "MIN", "MAX")


def import_model(model: Any, output: int | None = None) -> Forest:
    """Import an ``onnx.ModelProto``.

    Parameters
    ----------
    model : ModelProto
    output : int, optional
        The target, where there are several.

    Returns
    -------
    Forest
    """
    if not hasattr(model, "SerializeToString") or not hasattr(model, "graph"):
        raise UnsupportedModelError(f"cannot import an ONNX {type(model).__name__}; pass the ModelProto, or its path")
    return import_bytes(model.SerializeToString(), output)


def import_file(path: str | PathLike[str], output: int | None = None) -> Forest:
    """Import an ONNX file.

    Parameters
    ----------
    path : str or path
    output : int, optional
        The target, where there are several.

    Returns
    -------
    Forest

    Raises
    ------
    FormatError
        If the file is damaged.
    UnsupportedModelError
        If it has an operator that is not one of trees; the message names it.
    """
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return import_bytes(data, output)
    except FormatError as error:
        raise FormatError(f"{path} is not a sound ONNX model of trees: {error}") from error


def import_bytes(data: bytes, output: int | None = None) -> Forest:
    """Import the content of an ONNX file."""
    graph = read_graph(data)
    trees = [node for node in graph.nodes if node.op in _OPERATORS and node.domain in (TREES, "")]
    if len(trees) != 1:
        others = sorted({node.op for node in graph.nodes} - set(_OPERATORS))
        raise UnsupportedModelError(
            f"the ONNX graph has {len(trees)} tree ensembles, and one is needed; its other operators are "
            f"{', '.join(others[:10]) or 'none'}. Convert the trees alone, or give scurry the source model"
        )
    node = trees[0]
    if len(node.inputs) != 1 or not node.outputs:
        raise FormatError(f"its {node.op} has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    with _as_format_error():
        columns = _read_columns(graph, node)
        ensemble, answer = _READERS[node.op](node, graph)
        answer = read_tail(graph, node, columns.nodes, answer)
        at = choose_output(output, 1 if answer.classes is not None else len(answer.base), "ONNX model")
        if answer.classes is None and len(answer.base) > 1:
            ensemble, answer = _only_target(ensemble, at), replace(answer, base=answer.base[at : at + 1])
        return _assemble(ensemble, answer, columns)


@contextmanager
def _as_format_error() -> Iterator[None]:
    """Turn what `Forest` finds wrong in a damaged file into a FormatError."""
    try:
        yield
    except InputError as error:
        if error.argument == "output":  # an argument of the user's is wrong, not the file
            raise
        raise FormatError(str(error)) from error


@dataclass(frozen=True)
class Columns:
    """What the trees read.

    Attributes
    ----------
    dtype : str
        The precision in which trees compare.
    input_dtype : str
        The precision to which rows are rounded before.
    names : tuple of str or None
        Where each column is an input of its own.
    n_features : int or None
        None if the file does not say.
    nodes : tuple of Node
        Operators between the inputs and the trees.
    """

    dtype: str
    input_dtype: str
    names: tuple[str, ...] | None
    n_features: int | None
    nodes: tuple[Node, ...]


def _read_columns(graph: Graph, trees: Node) -> Columns:
    """Follow the input of the trees back to those of the graph."""
    made_by = {name: node for node in graph.nodes for name in node.outputs}
    inputs = {value.name: value for value in graph.inputs}
    nodes: list[Node] = []

    def follow(name: str) -> tuple[str, list[int]]:
        """Return the input that a value is, and the types it passes through, the last one first."""
        types: list[int] = []
        while name not in inputs:
            node = made_by.get(name)
            if node is None or len(node.inputs) != 1 or node in nodes:
                raise _unsupported(node, "before the trees") if node else FormatError(f"nothing makes {name!r}")
            if node.op == "Cast":
                types.append(_int(node.attributes, "to"))
            elif node.op != "Identity":
                raise _unsupported(node, "before the trees")
            nodes.append(node)
            name = node.inputs[0]
        return name, [*types, inputs[name].dtype]

    # Names of columns come from a Concat of one input for each.
    joined: Node | None = made_by.get(trees.inputs[0])
    outer: list[int] = []
    while joined is not None and joined.op in ("Cast", "Identity") and joined not in nodes and len(joined.inputs) == 1:
        if made_by.get(joined.inputs[0]) is None:
            joined = None
            break
        nodes.append(joined)
        outer += [_int(joined.attributes, "to")] if joined.op == "Cast" else []
        joined = made_by.get(joined.inputs[0])
    if joined is None or joined.op != "Concat":
        nodes.clear()
        name, types = follow(trees.inputs[0])
        shape = inputs[name].shape
        n_features = shape[-1] if shape else None
        dtype, input_dtype = _precision(types)
        return Columns(dtype, input_dtype, None, n_features, tuple(nodes))
    if joined.attributes.get("axis") not in (1, -1) or not joined.inputs:
        raise _unsupported(joined, "before the trees")
    nodes.append(joined)
    found = [follow(name) for name in joined.inputs]
    widths = [(inputs[name].shape or (None,))[-1] for name, _ in found]
    if len({tuple(types) for _, types in found}) != 1:
        raise UnsupportedModelError("the ONNX graph joins inputs of different types; cast them to one type outside")
    if None in widths or min(width or 0 for width in widths) < 1:
        raise UnsupportedModelError("the ONNX graph joins inputs without saying how wide they are")
    dtype, input_dtype = _precision(outer + found[0][1])
    names = tuple(name for name, _ in found) if set(widths) == {1} else None
    return Columns(dtype, input_dtype, names, sum(width or 0 for width in widths), tuple(nodes))


def _precision(types: list[int]) -> tuple[str, str]:
    """Return the precision of trees whose input has these types, the last one first, and that of rows."""
    if unknown := [kind for kind in types if kind not in _FLOATS]:
        kind = {STRING: "texts", BOOL: "booleans"}.get(unknown[0], f"type {unknown[0]}")
        raise UnsupportedModelError(f"the ONNX graph reads {kind}; supported are float, double, int32 and int64")
    if any(kind in (INT64, INT32) for kind in types[:-1]):
        raise UnsupportedModelError("the ONNX graph rounds its input to integers; round the rows outside")
    narrow = FLOAT in types or types[0] != DOUBLE
    return ("float64" if types[0] == DOUBLE else "float32"), ("float32" if narrow else "float64")


def _unsupported(node: Node, where: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the ONNX graph has the operator {node.op} {where}, which scurry does not compute; convert the trees alone, "
        "or give scurry the source model: it reads pipelines of scikit-learn"
    )


def _int(attributes: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = attributes.get(name, default)
    if not isinstance(value, int):
        raise FormatError(f"{name} must be an integer")
    return value


def _choice(attributes: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    """Return one of `choices`, which older operators write as a text and TreeEnsemble as its number."""
    value = attributes.get(name, default.encode())
    if isinstance(value, int) and 0 <= value < len(choices):
        return choices[value]
    text = value.decode(errors="replace") if isinstance(value, bytes) else repr(value)
    if text not in choices:
        raise FormatError(f"{name} must be one of {', '.join(choices)}, got {text[:40]!r}")
    return text


def _read_classifier(node: Node, graph: Graph) -> tuple[Ensemble, Answer]:
    attributes = node.attributes
    classes = _classes(attributes)
    ensemble = read_listed(attributes, "class", len(classes))
    base = _base(attributes)
    transform = _choice(attributes, "post_transform", _TRANSFORMS, "NONE")
    if transform in ("PROBIT", "SOFTMAX_ZERO"):
        raise UnsupportedModelError(f"the ONNX trees have post_transform {transform}, which scurry does not compute")
    links = {"NONE": "identity", "LOGISTIC": "logistic-each", "SOFTMAX": "softmax"}
    if len(classes) > 2:
        _check_scored(ensemble, len(base) > 0)
        return ensemble, Answer(classes, links[transform], "score", base=_fit(base, len(classes)))
    weighted = np.flatnonzero(ensemble.scored.any(axis=0))
    if len(classes) != 2 or len(weighted) != 1:
        return _read_two_scores(ensemble, classes, base, links[transform])
    if len(base) > 1 or (len(base) and base.any() and weighted[0] == 1):
        raise UnsupportedModelError(
            f"the ONNX trees have {len(base)} base values and weights for class {int(weighted[0])} alone; onnxruntime "
            "leaves a part of that out. Give one base value, and weights for class 0"
        )
    weights = ensemble.value[ensemble.scored]
    one = _only_target(ensemble, int(weighted[0]))
    # onnxruntime takes SOFTMAX of one score for no transformation, unless it is that of the second class.
    link = "logistic" if transform == "LOGISTIC" or (transform == "SOFTMAX" and weighted[0] == 1) else "identity"
    return one, Answer(classes, link, "score", base=_fit(base, 1), above=0.0 if (weights < 0).any() else 0.5)


def _read_two_scores(
    ensemble: Ensemble, classes: NDArray[Any], base: NDArray[np.float64], link: str
) -> tuple[Ensemble, Answer]:
    """Read two classes that both have weights: onnxruntime looks at the second class's sum alone."""
    opposite = np.array_equal(ensemble.value[:, 0], -ensemble.value[:, -1])
    if len(classes) == 2 and opposite and not base.any() and classes.tolist() in ([0, 1], ["0", "1"]):
        _check_scored(ensemble, False)
        return ensemble, Answer(classes, link, "score", base=np.zeros(2))
    raise UnsupportedModelError(
        f"the ONNX trees have {len(classes)} class labels, and weights for {int(ensemble.scored.any(axis=0).sum())} of "
        "them. The standard gives a row the class with the larger sum, onnxruntime the second class where its sum is "
        "above 0; write weights for class 0 alone, as converters do"
    )


def _only_target(ensemble: Ensemble, target: int) -> Ensemble:
    column = slice(target, target + 1)
    return replace(ensemble, value=ensemble.value[:, column], scored=ensemble.scored[:, column])


def _check_scored(ensemble: Ensemble, has_base: bool) -> None:
    """Refuse trees whose leaves leave classes out: onnxruntime gives a row no class that none of its leaves weighs."""
    if has_base:
        return
    leaf = ensemble.true < 0
    tree = np.searchsorted(ensemble.roots, np.arange(len(leaf)), side="right") - 1
    misses = np.zeros((len(ensemble.roots), ensemble.value.shape[1]), bool)
    np.logical_or.at(misses, tree[leaf], ~ensemble.scored[leaf])
    always = ~misses.all(axis=0)
    positive = not (ensemble.value < 0).any() and (ensemble.value[leaf & (tree == 0)] > 0).any(axis=1).all()
    if not always.all() and not positive:
        raise UnsupportedModelError(
            f"the ONNX trees have leaves without a weight for class {int(np.argmin(always))}, which a row gets then "
            "under no circumstances; write weights of 0"
        )


def _read_regressor(node: Node, graph: Graph) -> tuple[Ensemble, Answer]:
    n_targets = _int(node.attributes, "n_targets")
    _check_targets(n_targets, node)
    ensemble = read_listed(node.attributes, "target", n_targets)
    base = _base(node.attributes)
    return ensemble, _plain_answer(node, ensemble, _fit(base, n_targets))


def _read_ensemble(node: Node, graph: Graph) -> tuple[Ensemble, Answer]:
    n_targets = _int(node.attributes, "n_targets")
    _check_targets(n_targets, node)
    ensemble = read_indexed(node.attributes, n_targets)
    return ensemble, _plain_answer(node, ensemble, np.zeros(n_targets))


def _check_targets(n_targets: int, node: Node) -> None:
    if not 1 <= n_targets < 2**31:
        raise FormatError(f"n_targets of its {node.op} must be at least 1, got {n_targets}")


def _plain_answer(node: Node, ensemble: Ensemble, base: NDArray[np.float64]) -> Answer:
    transform = _choice(node.attributes, "post_transform", _TRANSFORMS, "NONE")
    if transform != "NONE":
        raise UnsupportedModelError(
            f"the ONNX {node.op} has post_transform {transform}; the standard applies it, onnxruntime ignores it where "
            "there is one target. Write an operator of its own after the trees"
        )
    how = _choice(node.attributes, "aggregate_function", _AGGREGATIONS, "SUM")
    if how in ("MIN", "MAX") and len(ensemble.roots) > 1:
        raise UnsupportedModelError(f"the ONNX {node.op} takes the {how} over its trees, and a forest adds or averages")
    if how == "AVERAGE" and base.any():
        raise UnsupportedModelError(
            f"the ONNX {node.op} adds base values to an average, which cannot be done tree by tree without rounding"
        )
    return Answer(None, "identity", "score", base=base, mean=how == "AVERAGE")


_READERS = {
    "TreeEnsembleClassifier": _read_classifier,
    "TreeEnsembleRegressor": _read_regressor,
    "TreeEnsemble": _read_ensemble,
}


def _classes(attributes: Mapping[str, Any]) -> NDArray[Any]:
    texts = attributes.get("classlabels_strings") or []
    if not isinstance(texts, list):
        raise FormatError("classlabels_strings must be a list of texts")
    try:
        labels: NDArray[Any] = np.array([text.decode() for text in texts])
    except UnicodeDecodeError as error:
        raise FormatError("classlabels_strings has text that is not UTF-8") from error
    if not texts:
        labels = attributes.get("classlabels_int64s", np.zeros(0, np.int64))
    if not isinstance(labels, np.ndarray) or not len(labels) or labels.dtype.kind not in "iU":
        raise FormatError("it has no class labels")
    return labels


def _base(attributes: Mapping[str, Any]) -> NDArray[np.float64]:
    values = attributes.get("base_values")
    if values is None or (isinstance(values, np.ndarray) and not values.size):
        values = attributes.get("base_values_as_tensor", np.zeros(0))
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise FormatError("base_values must be a list of finite floats")
    return values.astype(np.float64).ravel()


def _fit(base: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
    if len(base) not in (0, n_outputs):
        raise FormatError(f"it has {len(base)} base values for {n_outputs} sums")
    return base if len(base) else np.zeros(n_outputs)


def _assemble(ensemble: Ensemble, answer: Answer, columns: Columns) -> Forest:
    n_outputs = ensemble.value.shape[1]
    nodes, serves = lower(ensemble)
    used = int(nodes["feature"].max(initial=-1)) + 1
    n_features = used if columns.n_features is None else columns.n_features
    if n_features < used:
        raise FormatError(f"it tests feature {used - 1}, but its input has {n_features} columns")
    output = _outputs_of_trees(serves, answer.mean)
    if output is not None and (output.reshape(-1, n_outputs) == np.arange(n_outputs)).all():
        joined = join_copies(nodes, n_outputs)
        nodes, output = (nodes, output) if joined is None else (joined, None)
    if answer.base.any():
        nodes = _add_leaf(nodes, answer.base, output)
        output = None if output is None else np.append(output, np.arange(n_outputs))
    if output is not None:
        nodes["value"] = nodes["value"].sum(axis=1, keepdims=True)
    return Forest(
        **nodes,
        **answer.header(columns.dtype),
        n_features=max(n_features, 1),
        feature_names=columns.names,
        tree_output=output,
        input_dtype=columns.input_dtype,
        score_dtype=columns.dtype,
    )


def _outputs_of_trees(serves: NDArray[np.bool_], mean: bool) -> NDArray[np.int64] | None:
    """Return the output that each tree serves, None if there is one output, or trees serve several."""
    n_trees, n_outputs = serves.shape
    output = serves.argmax(axis=1)
    counts = np.bincount(output, minlength=n_outputs)
    even = (counts == counts[0]).all() if mean else n_trees % n_outputs == 0
    return output if n_outputs > 1 and (serves.sum(axis=1) <= 1).all() and even else None


def _add_leaf(nodes: dict[str, Any], base: NDArray[np.float64], output: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the trees with base values as leaves at the end, one for all outputs or one for each."""
    leaves = base[None, :] if output is None else np.diag(base)
    n_nodes = nodes["tree_offset"][-1]
    ends = {"left": -1, "right": -1, "feature": -1, "threshold": 0.0, "default_left": False, "category_set": -1}
    more = {name: np.append(nodes[name], np.full(len(leaves), end)) for name, end in ends.items()}
    cover = nodes["cover"]
    return (
        nodes
        | more
        | {
            "value": np.concatenate([nodes["value"], leaves]),
            "cover": None if cover is None else np.append(cover, np.full(len(leaves), cover[0])),
            "tree_offset": np.append(nodes["tree_offset"], n_nodes + 1 + np.arange(len(leaves))),
        }
    )
