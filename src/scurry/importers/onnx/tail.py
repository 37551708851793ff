"""Tail: the operators after the trees of an ONNX graph, which turn sums into answers.

Only what changes no number is read after a TreeEnsembleClassifier, which has labels of its own. After the other two
operators, the few that `scurry.export.to_onnx` writes are understood: they divide, link, decide and name classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.graph import DOUBLE, FLOAT, INT64, STRING, Graph, Node


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
                raise _unsupported(node)
            if node.op == "Cast" and node.attributes.get("to") not in (FLOAT, DOUBLE, INT64, STRING):
                raise _unsupported(node)
        return answer
    tail = _Tail(graph, trees, answer)
    for value in graph.outputs:
        tail.read_output(value.name)
    if unread := [node for node in after if node not in tail.read]:
        raise _unsupported(unread[0])
    return tail.answer


def _unsupported(node: Node) -> UnsupportedModelError:
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
            if node is None or node in self.read or node.op not in _READERS:
                raise _unsupported(node) if node is not None else FormatError(f"nothing makes {name!r}")
            self.read.append(node)
            made = _READERS[node.op](self, node, [self._value(part) for part in node.inputs])
            if made is None:
                raise _unsupported(node)
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


_READERS: dict[str, Callable[[_Tail, Node, list[Any]], Any]] = {
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
