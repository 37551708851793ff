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

Tail: the operators after the trees of an ONNX graph, which turn sums into answers.

Only what changes no number is read after a TreeEnsembleClassifier, which has labels of its own. After the other two
operators, the few that `scurry.export.to_onnx` writes are understood: they divide, link, decide and name classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_output
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.importers.onnx.ensemble import Ensemble, read_indexed, read_listed
from scurry.importers.onnx.graph import BOOL, DOUBLE, FLOAT, INT32, INT64, STRING, TREES, Graph, Node, read_graph
from scurry.importers.onnx.trees import lower


@dataclass(frozen=True)
class Answer:
    """How sums become answers.

    Attributes
    ----------
    classes : array or None
    link : str
        As `Forest` has it.
    label_from : str
        As `Forest` has it.
    base : float64 array of shape (n_outputs,)
        Added after the trees.
    above : float or None
        With one sum and two classes: what the sum must exceed for the second class.
    at_least : float or None
        Or what it must reach.
    mean : bool
        Whether sums are divided by the number of trees.
    scale : float
        What sums are multiplied by before the link.
    """

    classes: NDArray[Any] | None
    link: str
    label_from: str
    base: NDArray[np.float64]
    above: float | None = None
    at_least: float | None = None
    mean: bool = False
    scale: float = 1.0

    def header(self, score_dtype: str) -> dict[str, Any]:
        """Return the header fields of a `Forest`."""
        header = {
            "classes": self.classes,
            "link": self.link,
            "label_from": self.label_from,
            "link_scale": self.scale,
            "aggregation": "mean" if self.mean else "sum",
        }
        real = np.dtype(score_dtype).type
        if self.above is not None:
            header["decision_threshold"] = float(np.nextafter(real(self.above), real(np.inf)))
        elif self.at_least is not None:
            header["decision_threshold"] = self.at_least
        return header


def read_tail(graph: Graph, trees: Node, before: tuple[Node, ...], answer: Answer) -> Answer:
    """Return the answer after the operators that follow the trees; refuse operators that are not understood."""
    after = [node for node in graph.nodes if node is not trees and node not in before]
    if answer.classes is not None:
        for node in after:
            if node.op not in ("ZipMap", "Cast", "Identity"):
                raise _unsupported_tail(node)
            if node.op == "Cast" and node.attributes.get("to") not in (FLOAT, DOUBLE, INT64, STRING):
                raise _unsupported_tail(node)
        return answer
    tail = _Tail(graph, trees, answer)
    for value in graph.outputs:
        tail.read_output(value.name)
    if unread := [node for node in after if node not in tail.read]:
        raise _unsupported_tail(unread[0])
    return tail.answer


def _unsupported_tail(node: Node) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the ONNX graph has the operator {node.op} after the trees, which scurry does not compute there; convert the "
        "trees alone, or give scurry the source model"
    )


@dataclass(frozen=True)
class _Sums:
    """The sums of trees, or what is made of them."""

    link: str = "identity"
    scale: float = 1.0
    mean: bool = False


@dataclass(frozen=True)
class _Second:
    """The probability of the second of two classes, of the first (`other`), or of both (`both`)."""

    of: _Sums
    part: str


@dataclass(frozen=True)
class _Index:
    """The index of a class."""

    of: _Sums
    at_least: float | None = None


@dataclass(frozen=True)
class _Label:
    """A class."""

    index: _Index
    classes: NDArray[Any] = field(compare=False)


class _Tail:
    """Reads the values of a graph from its outputs back to the trees.

    Parameters
    ----------
    graph : Graph
    trees : Node
    answer : Answer
        What the trees say by themselves.
    """

    def __init__(self, graph: Graph, trees: Node, answer: Answer) -> None:
        self._graph, self._trees = graph, trees
        self._made_by = {name: node for node in graph.nodes for name in node.outputs}
        self._n_outputs = len(answer.base)
        self._values: dict[str, Any] = {}
        self.read: list[Node] = []
        self.answer = answer
        self._label: _Label | None = None

    def read_output(self, name: str) -> None:
        """Read one output of the graph."""
        value = self._value(name)
        if isinstance(value, _Label):
            if self._label is not None:
                raise UnsupportedModelError("the ONNX graph has two outputs with labels")
            self._label, of = value, value.index.of
            probability = of.link != "identity"
            self.answer = replace(
                self.answer,
                classes=value.classes,
                at_least=value.index.at_least,
                label_from="probability" if probability else "score",
                mean=of.mean or self.answer.mean,
                link=of.link if probability else self.answer.link,
                scale=of.scale if probability else self.answer.scale,
            )
            return
        of = value.of if isinstance(value, _Second) else value
        if not isinstance(of, _Sums) or (isinstance(value, _Second) and value.part != "both"):
            raise UnsupportedModelError(f"the ONNX graph's output {name!r} is none that scurry knows")
        self.answer = replace(self.answer, link=of.link, scale=of.scale, mean=of.mean or self.answer.mean)

    def _value(self, name: str) -> Any:
        if name == self._trees.outputs[0]:
            return _Sums()
        if name in self._graph.constants:
            return self._graph.constants[name]
        if name not in self._values:
            node = self._made_by.get(name)
            if node is None or node in self.read or node.op not in _TAIL_READERS:
                raise _unsupported_tail(node) if node is not None else FormatError(f"nothing makes {name!r}")
            self.read.append(node)
            made = _TAIL_READERS[node.op](self, node, [self._value(part) for part in node.inputs])
            if made is None:
                raise _unsupported_tail(node)
            self._values[name] = made
        return self._values[name]

    def divide(self, node: Node, parts: list[Any]) -> Any:
        """Divide sums by the number of trees behind each."""
        sums, by = parts
        n_trees = len(self._graph_roots())
        if sums != _Sums() or not isinstance(by, np.ndarray) or by.size != 1:
            return None
        return replace(sums, mean=True) if float(by.ravel()[0]) in (n_trees, n_trees / self._n_outputs) else None

    def _graph_roots(self) -> NDArray[Any]:
        roots = self._trees.attributes.get("tree_roots")
        if isinstance(roots, np.ndarray):
            return roots
        trees: NDArray[Any] = np.unique(self._trees.attributes["nodes_treeids"])
        return trees

    def link(self, node: Node, parts: list[Any]) -> Any:
        """Apply the function that makes probabilities or predictions."""
        name = {"Sigmoid": "logistic" if self._n_outputs == 1 else "logistic-each", "Exp": "exp", "Softmax": "softmax"}
        if not isinstance(parts[0], _Sums) or parts[0].link != "identity":
            return None
        if node.op == "Softmax" and node.attributes.get("axis", -1) not in (1, -1):
            return None
        return replace(parts[0], link=name[node.op])


def _scale(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    sums, by = parts
    if not isinstance(sums, _Sums) or sums.link != "identity" or not isinstance(by, np.ndarray) or by.size != 1:
        return None
    return replace(sums, scale=sums.scale * float(by.ravel()[0]))


def _pass(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    """Read what changes the shape or the type of a value and no number that matters."""
    if node.op == "Cast" and isinstance(parts[0], _Sums) and node.attributes.get("to") not in (FLOAT, DOUBLE):
        return None
    return parts[0]


def _decide(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    sums, threshold = parts
    if (
        not isinstance(sums, _Sums)
        or sums.link != "identity"
        or sums.scale != 1
        or not isinstance(threshold, np.ndarray)
    ):
        return None
    if threshold.size != 1 or threshold.dtype.kind != "f":
        return None
    return _Index(sums, float(threshold.ravel()[0]))


def _largest(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    plain = node.attributes.get("axis", 0) in (1, -1) and not node.attributes.get("select_last_index", 0)
    return _Index(parts[0]) if isinstance(parts[0], _Sums) and plain else None


def _name(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    labels, index = parts
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or not isinstance(index, _Index):
        return None
    return _Label(index, labels.astype(str) if labels.dtype == object else labels)


def _complement(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    one, of = parts
    if not isinstance(one, np.ndarray) or one.size != 1 or float(one.ravel()[0]) != 1 or not isinstance(of, _Sums):
        return None
    return _Second(of, "other")


def _join(tail: _Tail, node: Node, parts: list[Any]) -> Any:
    if len(parts) != 2 or not isinstance(parts[0], _Second) or parts[0].part != "other" or parts[0].of != parts[1]:
        return None
    return _Second(parts[1], "both")


_TAIL_READERS: dict[str, Callable[[_Tail, Node, list[Any]], Any]] = {
    "Identity": _pass,
    "Cast": _pass,
    "Reshape": _pass,
    "Div": _Tail.divide,
    "Mul": _scale,
    "Sigmoid": _Tail.link,
    "Softmax": _Tail.link,
    "Exp": _Tail.link,
    "GreaterOrEqual": _decide,
    "ArgMax": _largest,
    "Gather": _name,
    "Sub": _complement,
    "Concat": _join,
}


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
        at = check_output(output, 1 if answer.classes is not None else len(answer.base), "ONNX model")
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
    nodes, output = lower(ensemble, answer.mean)
    used = int(nodes["feature"].max(initial=-1)) + 1
    n_features = used if columns.n_features is None else columns.n_features
    if n_features < used:
        raise FormatError(f"it tests feature {used - 1}, but its input has {n_features} columns")
    if answer.base.any():
        nodes = _add_leaf(nodes, answer.base, output)
        output = None if output is None else np.append(output, np.arange(n_outputs))
    return Forest(
        **nodes,
        **answer.header(columns.dtype),
        n_features=max(n_features, 1),
        feature_names=columns.names,
        tree_output=output,
        input_dtype=columns.input_dtype,
        score_dtype=columns.dtype,
    )


def _add_leaf(nodes: dict[str, Any], base: NDArray[np.float64], output: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the trees with base values as leaves at the end, one for all outputs or one for each."""
    leaves = base[None, :] if output is None else base[:, None]
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
