"""ONNX model: a forest as a graph of ONNX operators, which onnxruntime and other runtimes run.

Trees become one operator that adds leaves, in the precision of the source and in its order. What the source does with
sums (divide, link, decide) is written as operators after it, because the rules for labels inside of ONNX's own
classifier are others: it compares with 0 or 0.5, and never divides.

A base score is a tree of one leaf in front. `TreeEnsemble` has one number per leaf, so that a tree with a vector of
class probabilities is written once for each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_flag, check_instance
from scurry.errors import InputError, OutputError
from scurry.forest import MISSING_NONE, MISSING_ZERO, Forest
from scurry.importers.onnx.ensemble import LEQ, LT, MEMBER
from scurry.importers.onnx.graph import BOOL, DOUBLE, FLOAT, INT64, STRING, TREES, Graph, Node, Value, write_graph
from scurry.predictor import Predictor
from scurry.version import read_version

OPSETS = (3, 5)
"""Versions of ai.onnx.ml that `to_onnx` writes."""
_STANDARD_OPSET = 18
_LINKS = {"logistic": "Sigmoid", "logistic-each": "Sigmoid", "softmax": "Softmax", "exp": "Exp"}
_MAX_NODES = 2**27


@dataclass(frozen=True)
class OnnxFile:
    """What was written; print it.

    Attributes
    ----------
    path : Path
    operator : str
        The operator that holds the trees.
    n_bytes : int
    difference : str
        Where onnxruntime's labels or values may differ from the forest's; empty if nowhere.
    coded : tuple
        Features whose column must hold codes of categories, as the matrix of ``forest.encoder(frame)(frame)`` does.
    """

    path: Path
    operator: str
    n_bytes: int
    difference: str
    coded: tuple[str | int, ...]

    def __str__(self) -> str:
        except_ = f", except {self.difference}" if self.difference else ""
        codes = f"; codes of categories in {', '.join(map(repr, self.coded))}" if self.coded else ""
        return f"{self.path}: {self.operator}, {self.n_bytes:,} bytes; answers as the forest's{except_}{codes}"

    __repr__ = __str__


def to_onnx(
    model: Forest | Predictor, path: str | PathLike[str], *, opset: int = 5, full_forest: bool = False
) -> OnnxFile:
    """Write a forest as an ONNX file that gives the forest's labels.

    Parameters
    ----------
    model : Forest or Predictor
        A plan of early exit or of steps cannot be written in ONNX, see `full_forest`.
    path : str or path
    opset : {5, 3}
        Version of ai.onnx.ml. 5 has the operator TreeEnsemble (onnx 1.16, onnxruntime 1.20), whose sums keep their
        precision. 3 has TreeEnsembleClassifier and TreeEnsembleRegressor, which older runtimes know; they write sums
        as float32, so that labels of models that add float64 may differ on rows close to a decision.
    full_forest : bool, default False
        Write the predictor's whole forest, which evaluates every tree, and leave its plan out.

    Returns
    -------
    OnnxFile
        What was written, and where its labels may differ.

    Raises
    ------
    InputError
        If the model has a plan, or something that ONNX's trees cannot say.

    Examples
    --------
    >>> import scurry, tempfile
    >>> from pathlib import Path
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump], classes=["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = scurry.export.to_onnx(forest, Path(folder) / "model.onnx")
    ...     scurry.from_model(written.path).predict([[0.0], [1.0]])
    array(['no', 'yes'], dtype='<U3')
    """
    if opset not in OPSETS or isinstance(opset, bool):
        raise InputError(f"opset must be one of {', '.join(map(str, OPSETS))}, got {opset!r}", argument="opset")
    forest = _forest_of(model, check_flag("full_forest", full_forest))
    if forest.raw_rows is not None and forest.raw_rows.missing_upto:
        from scurry.importers.pipelines.pieces import spell_out

        forest = spell_out(forest)
    writer = _Writer(forest, opset)
    data = write_graph(writer.graph(), "scurry", read_version())
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return OnnxFile(Path(path), writer.operator, len(data), writer.difference, writer.coded)


def _forest_of(model: Any, full_forest: bool) -> Forest:
    if isinstance(model, Forest):
        return model
    check_instance("model", model, Predictor, hint="; pass scurry.from_model(model)")
    if not full_forest:
        raise InputError(
            "a plan cannot be written as ONNX, whose trees are evaluated all; pass full_forest=True to write the whole "
            "forest without the plan, or use scurry.export.to_c, which runs plans",
            argument="model",
        )
    whole: Forest = model.forest
    return whole


class _Writer:
    """Writes one forest.

    Parameters
    ----------
    forest : Forest
    opset : int
    """

    def __init__(self, forest: Forest, opset: int) -> None:
        self._forest, self._opset = forest.as_sum("be written as ONNX"), opset
        self._is_joined, forest = forest.wrapper is not None and forest.wrapper.decides, self._forest
        self._refuse()
        self._real = np.dtype(forest.score_dtype)
        self._dtype = FLOAT if forest.score_dtype == "float32" else DOUBLE
        self._input = FLOAT if forest.input_dtype == "float32" else DOUBLE
        self._classifies = opset < 5 and forest.n_classes > 2
        self.operator = (
            "TreeEnsemble" if opset == 5 else f"TreeEnsemble{'Classifier' if self._classifies else 'Regressor'}"
        )
        self._nodes: list[Node] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._by_value = _features_by_value(forest)
        tested = set(forest.feature[forest.category_set >= 0].tolist()) | set(forest.categories)
        self.coded = tuple(forest.name_of(j) for j in sorted(tested - self._by_value))
        self.difference = self._describe_difference()

    def _refuse(self) -> None:
        forest = self._forest
        forest.refuse_front("be written as ONNX")
        if forest.wrapper is not None:
            raise InputError(
                f"this forest cannot be written as ONNX: it answers by {forest.wrapper.describe()}. Import the model "
                "inside instead, or use scurry.export.to_c"
            )
        if forest.score_dtype == "float32" and forest.input_dtype == "float64":
            raise InputError("this forest compares float64 and adds float32, which no operator of ONNX does")
        if ((forest.missing == MISSING_ZERO) & (forest.left >= 0)).any():
            raise InputError("this forest takes zero for missing (zero_as_missing), which ONNX cannot say")
        if forest.link not in ("identity", *_LINKS):
            raise InputError(f"this forest has the link {forest.link!r}, for which there is no operator of ONNX here")
        if self._opset < 5 and (forest.category_set[forest.left >= 0] >= 0).any():
            raise InputError("this forest tests sets of categories, which need opset=5", argument="opset")
        copies = forest.value.shape[1] if self._opset == 5 else 1
        if forest.n_nodes * copies > _MAX_NODES:
            raise InputError(
                f"this forest would have {forest.n_nodes * copies:,} nodes, once for each class; opset=3 has each once",
                argument="opset",
            )

    def _describe_difference(self) -> str:
        forest = self._forest
        if self._is_joined:
            return "on rows so close to a decision that it matters that all trees are added up at once"
        if self._opset < 5 and self._dtype == DOUBLE and not forest.is_classifier:
            return "that they are rounded to float32"
        if self._classifies and forest.aggregation != "sum":
            return "on rows so close to a decision that it matters that leaves are divided before they are added"
        if self._opset < 5 and self._dtype == DOUBLE and not self._classifies:
            return "on rows so close to a decision that it matters that sums become float32"
        if forest.n_outputs > 1 and forest.label_from == "probability" and forest.link != "identity":
            return (
                "on rows where two classes have equal probabilities in one program and almost equal ones in the other"
            )
        return ""

    def graph(self) -> Graph:
        forest = self._forest
        rows = "X"
        if self._dtype != self._input:
            rows = self._add("Cast", ["X"], "rows", to=self._dtype)
        if self._classifies:
            outputs = self._classifier(rows)
        else:
            attributes = self._write_indexed() if self._opset == 5 else self._write_listed("target")
            self._nodes.append(Node(self.operator, (rows,), ("sums",), attributes, TREES))
            outputs = self._answer()
        name = Value("X", self._input, (None, forest.n_features))
        opsets = {"": _STANDARD_OPSET, TREES: self._opset}
        return Graph(tuple(self._nodes), self._constants, (name,), tuple(outputs), opsets)

    def _add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(Node(op, tuple(inputs), (output,), attributes))
        return output

    def _constant(self, name: str, value: Any) -> str:
        self._constants[name] = np.asarray(value)
        return name

    def _answer(self) -> list[Value]:
        """Add what follows the sums; return the outputs of the graph."""
        forest = self._forest
        # The older operators write float32, whatever they add.
        real = self._real if self._opset == 5 else np.dtype(np.float32)
        scores = "sums"
        if forest.score_divisor > 1:
            by = self._constant("n_trees", real.type(forest.score_divisor))
            scores = self._add("Div", [scores, by], "scores")
        linked = scores
        if forest.link_scale != 1 and forest.link != "identity":
            linked = self._add("Mul", [linked, self._constant("scale", real.type(forest.link_scale))], "scaled")
        if forest.link != "identity":
            axis = {"axis": 1} if forest.link == "softmax" else {}
            linked = self._add(_LINKS[forest.link], [linked], "linked", **axis)
        if forest.classes is None:
            self._add("Identity", [linked], "prediction")
            return [Value("prediction", FLOAT if real == np.float32 else DOUBLE, (None, 1))]
        if forest.n_outputs == 1:
            index = self._decide(scores, real)
            other = self._add("Sub", [self._constant("one", real.type(1)), linked], "other")
            linked = self._add("Concat", [other, linked], "both", axis=1)
        else:
            judged = scores if forest.label_from == "score" else linked
            index = self._add("ArgMax", [judged], "index", axis=1, keepdims=0)
        labels, kind = _labels(forest)
        self._add("Gather", [self._constant("classes", labels), index], "label")
        self._add("Cast", [linked], "probabilities", to=FLOAT)
        return [Value("label", kind, (None,)), Value("probabilities", FLOAT, (None, forest.n_classes))]

    def _decide(self, scores: str, real: np.dtype[Any]) -> str:
        """Compare one score with the threshold, which is rounded up: no number of the type lies in between."""
        threshold = _round(np.array([self._forest.decision_threshold]), real, up=True)[0]
        flat = self._add("Reshape", [scores, self._constant("flat", np.array([-1], np.int64))], "score")
        second = self._add("GreaterOrEqual", [flat, self._constant("threshold", threshold)], "second")
        return self._add("Cast", [second], "index", to=INT64)

    def _classifier(self, rows: str) -> list[Value]:
        """Add ONNX's own classifier, which takes the class with the largest sum."""
        forest = self._forest
        transforms = {"identity": b"NONE", "softmax": b"SOFTMAX", "logistic-each": b"LOGISTIC"}
        labels, kind = _labels(forest)
        if kind not in (INT64, STRING):
            labels, kind = labels.astype(str), STRING
        if forest.link_scale != 1:
            raise InputError("this forest scales its scores, which needs opset=5", argument="opset")
        attributes = self._write_listed("class") | {"post_transform": transforms[forest.link]}
        attributes |= (
            {"classlabels_int64s": labels}
            if kind == INT64
            else {"classlabels_strings": [str(label).encode() for label in labels.tolist()]}
        )
        self._nodes.append(Node(self.operator, (rows,), ("label", "probabilities"), attributes, TREES))
        return [Value("label", kind, (None,)), Value("probabilities", FLOAT, (None, forest.n_classes))]

    def _splits(self, inner: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.uint8]]:
        """Return thresholds in the operator's type, where missing values go, and modes, of inner nodes."""
        forest = self._forest
        strict = forest.comparison == "<"
        exact = forest.threshold[inner]
        split = _round(exact, self._real, up=strict)
        zero_left = (exact > 0) if strict else (exact >= 0)
        numeric = forest.category_set[inner] < 0
        reads_zero = (forest.missing[inner] == MISSING_NONE) & numeric
        track = np.where(reads_zero, zero_left, forest.default_left[inner])
        mode = np.where(numeric, np.uint8(LT if strict else LEQ), np.uint8(MEMBER))
        return split, track.astype(np.int64), mode

    def _write_indexed(self) -> dict[str, Any]:
        """Return the attributes of TreeEnsemble: inner nodes and leaves are two lists."""
        forest = self._forest
        inner = forest.left >= 0
        split, track, mode = self._splits(inner)
        members = self._members(np.flatnonzero(inner), split, track, mode)
        # A tree of one leaf needs a node, both of whose children are the leaf. The base score is such a tree.
        base = forest.base_score if forest.base_score.any() else np.zeros(0)
        roots = forest.tree_offset[:-1]
        bare = roots[~inner[roots]]
        place = np.where(inner, np.cumsum(inner) - 1, np.cumsum(~inner) - 1)
        n_inner, n_leaves = int(inner.sum()), int((~inner).sum())

        def children(side: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            child = side[inner]
            at = np.concatenate([place[child], place[bare], n_leaves + np.arange(len(base))])
            leaf = np.concatenate([~inner[child], np.ones(len(bare) + len(base), bool)])
            return at.astype(np.int64), leaf.astype(np.int64)

        true, true_leaf = children(forest.left)
        false, false_leaf = children(forest.right)
        n_extra = len(bare) + len(base)
        root = np.where(inner[roots], place[roots], 0)
        root[~inner[roots]] = n_inner + np.arange(len(bare))
        value = forest.leaf_values()[~inner]
        n_copies = value.shape[1]
        outputs = np.repeat(forest.tree_output, np.diff(forest.tree_offset))[~inner]
        n_all, n_all_leaves = n_inner + n_extra, n_leaves + len(base)
        copy = np.repeat(np.arange(n_copies), n_all)

        def tile(values: Any, rest: Any) -> NDArray[Any]:
            return np.tile(np.append(values, np.full(n_extra, rest, np.asarray(values).dtype)), n_copies)

        weights, targets = [], []
        for column in range(n_copies):
            # Only the first copy adds the base score: it has one leaf for every output.
            weights += [value[:, column], base if column == 0 else np.zeros(len(base))]
            targets += [np.full(n_leaves, column) if n_copies > 1 else np.maximum(outputs, 0), np.arange(len(base))]
        copies = np.arange(n_copies) * n_all
        order = (root[:, None] + copies).ravel()
        base_roots = n_inner + len(bare) + np.arange(len(base))
        attributes: dict[str, Any] = {
            "aggregate_function": 1,
            "post_transform": 0,
            "n_targets": forest.n_outputs,
            "tree_roots": np.concatenate([base_roots, order]).astype(np.int64),
            "nodes_featureids": tile(forest.feature[inner].astype(np.int64), 0),
            "nodes_modes": tile(mode, LEQ),
            "nodes_splits": tile(split, 0),
            "nodes_missing_value_tracks_true": tile(track, 0),
            "nodes_truenodeids": np.tile(true, n_copies)
            + copy * np.where(np.tile(true_leaf, n_copies), n_all_leaves, n_all),
            "nodes_trueleafs": np.tile(true_leaf, n_copies),
            "nodes_falsenodeids": np.tile(false, n_copies)
            + copy * np.where(np.tile(false_leaf, n_copies), n_all_leaves, n_all),
            "nodes_falseleafs": np.tile(false_leaf, n_copies),
            "leaf_targetids": np.concatenate(targets).astype(np.int64),
            "leaf_weights": np.concatenate(weights).astype(self._real),
        }
        if len(members):
            attributes["membership_values"] = np.tile(members, n_copies).astype(self._real)
        return attributes

    def _members(
        self, nodes: NDArray[np.int64], split: NDArray[Any], track: NDArray[np.int64], mode: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return the members of all sets, NaN after each; an empty set becomes a comparison that never holds."""
        forest = self._forest
        sets: list[NDArray[np.float64]] = []
        missing_codes = {} if forest.raw_rows is None else forest.raw_rows.missing_codes
        for at in np.flatnonzero(mode == MEMBER).tolist():
            node = int(nodes[at])
            start, stop = forest.category_offset[forest.category_set[node] :][:2]
            words = forest.category_bits[start:stop]
            codes = np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))
            feature = int(forest.feature[node])
            values = codes.astype(np.float64)
            if feature in self._by_value:
                known = codes[codes < len(forest.categories[feature])]
                values = forest.categories[feature][known].astype(np.float64)
                track[at] = missing_codes.get(feature, -1) in codes
            if len(values):
                sets += [values, np.array([np.nan])]
            else:
                mode[at], split[at] = LT, -np.inf
        return np.concatenate(sets) if sets else np.zeros(0)

    def _write_listed(self, weights: str) -> dict[str, Any]:
        """Return the attributes of the older operators: all nodes in one list, and the weights of leaves in another."""
        forest = self._forest
        inner = forest.left >= 0
        split, track, mode = self._splits(inner)
        base = forest.base_score[None, :] if forest.base_score.any() else np.zeros((0, forest.n_outputs))
        sizes, n_base = np.diff(forest.tree_offset), len(base)
        tree = np.concatenate([np.zeros(n_base), np.repeat(np.arange(len(sizes)), sizes) + n_base]).astype(np.int64)
        first = np.repeat(forest.tree_offset[:-1], sizes)

        def of_nodes(values: Any, dtype: Any) -> NDArray[Any]:
            full = np.zeros(n_base + forest.n_nodes, dtype)
            full[n_base:][inner] = values
            return full

        modes = np.full(n_base + forest.n_nodes, b"LEAF", object)
        modes[n_base:][inner] = np.array([b"BRANCH_LEQ", b"BRANCH_LT"], object)[mode]
        leaf, target, weight = self._weights(inner, n_base, base)
        node = np.append(np.zeros(n_base, np.int64), np.arange(forest.n_nodes) - first)
        values = {"nodes_values": of_nodes(split, self._real), f"{weights}_weights": weight.astype(self._real)}
        if self._dtype == DOUBLE:
            values = {f"{name}_as_tensor": array for name, array in values.items()}
        return (
            values
            | {
                "nodes_treeids": tree,
                "nodes_nodeids": node,
                "nodes_modes": modes.tolist(),
                "nodes_featureids": of_nodes(forest.feature[inner], np.int64),
                "nodes_truenodeids": of_nodes((forest.left - first)[inner], np.int64),
                "nodes_falsenodeids": of_nodes((forest.right - first)[inner], np.int64),
                "nodes_missing_value_tracks_true": of_nodes(track, np.int64),
                f"{weights}_treeids": tree[leaf],
                f"{weights}_nodeids": node[leaf],
                f"{weights}_ids": target,
                "post_transform": b"NONE",
            }
            | ({} if self._classifies else {"n_targets": forest.n_outputs, "aggregate_function": b"SUM"})
        )

    def _weights(
        self, inner: NDArray[np.bool_], n_base: int, base: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the leaf, the target and the weight of each entry of the older operators' list."""
        forest = self._forest
        value = forest.leaf_values()[~inner]
        leaves = n_base + np.flatnonzero(~inner)
        n_columns = value.shape[1]
        outputs = np.repeat(forest.tree_output, np.diff(forest.tree_offset))[~inner]
        targets = np.tile(np.arange(n_columns), len(leaves)) if n_columns > 1 else np.maximum(outputs, 0)
        if self._classifies:
            value = value / forest.score_divisor
        n_first = forest.n_outputs * n_base
        return (
            np.concatenate([np.zeros(n_first), np.repeat(leaves, n_columns)]).astype(np.int64),
            np.concatenate([np.arange(n_first), targets]).astype(np.int64),
            np.concatenate([base.ravel(), value.ravel()]),
        )


def _round(values: NDArray[np.float64], real: np.dtype[Any], up: bool) -> NDArray[Any]:
    """Return numbers of a narrower type that no number of that type lies between and the given ones."""
    with np.errstate(over="ignore"):
        narrow = values.astype(real)
    toward = real.type(np.inf if up else -np.inf)
    wrong = narrow < values if up else narrow > values
    rounded: NDArray[Any] = np.where(wrong, np.nextafter(narrow, toward), narrow)
    return rounded


def _labels(forest: Forest) -> tuple[NDArray[Any], int]:
    """Return the classes as a tensor, and the type of its entries."""
    classes = np.asarray(forest.classes)
    match classes.dtype.kind:
        case "i" | "u":
            return classes.astype(np.int64), INT64
        case "b":
            return classes, BOOL
        case "f":
            return classes.astype(np.float64), DOUBLE
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise InputError("the classes are neither texts nor numbers, of which ONNX has labels")
    return classes, STRING


def _features_by_value(forest: Forest) -> set[int]:
    """Return the categorical features whose column may hold the values themselves: whole numbers.

    An unknown value is read as missing here, and is in no set there: so no missing value may go left.
    """
    raw = forest.raw_rows
    inner = forest.left >= 0
    if not forest.encode_numbers or (raw is not None and raw.known_only):
        return set()
    return {
        feature
        for feature, values in forest.categories.items()
        if len(values)
        and values.dtype.kind in "iuf"
        and (values == np.floor(values)).all()
        and (np.abs(values.astype(np.float64)) < 2**24).all()
        and not forest.default_left[inner & (forest.feature == feature)].any()
    }
