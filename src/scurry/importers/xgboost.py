"""Importer of XGBoost models, from objects or from JSON and UBJ files; XGBoost itself is not needed.

What XGBoost does, measured against its 1.7 to 3.4 releases and reproduced to the last bit:

- rows are float32; ``x < threshold`` goes left, a category of the node's set goes right, NaN goes the default way;
- a margin is the float32 sum of the base margin and the leaves, in tree order; the base margin is the objective's
  inverse link of ``base_score``, in float32 by the C library's ``logf``;
- "dart" multiplies each leaf by its tree's weight; where the scikit-learn interface predicts, releases before 3.4 add
  the base margin to the leaf and take it away again before that, which rounds;
- the scikit-learn interface stops at the best iteration of early stopping, `Booster.predict` does not.

A file written by the scikit-learn interface says so, and is read as what that interface would predict. A document is
what `json` or `ubjson` made of a model: nested dicts whose arrays are lists or numpy arrays. It is checked member by
member, because files may be hostile.

UBJSON, the binary JSON in which XGBoost keeps models: `read_ubjson` reads it, trusting nothing in it.

Every size is checked against the bytes that are left before anything is allocated, and nesting is bounded.
The subset is the one XGBoost writes: no high-precision numbers, no counted objects, typed arrays of numbers only.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scurry import _core
from scurry.checks import check_output
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest

_SCALARS = {ord(marker): struct.Struct(">" + code) for marker, code in zip("iUIlLdD", "bBhiqfd", strict=True)}
_MARK = "numbers of a list"  # the name of what stands for a list while the rest is read
_LONG = 64  # bytes
_EXACT = 2**53  # whole numbers below it are exact as floats
_INTEGERS = frozenset(b"iUIlL")
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_MAX_NESTING = 64  # far beyond any model, and far below the depth at which Python's own stack ends


def read_ubjson(data: bytes) -> Any:
    r"""Return what a UBJSON document holds.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    dict, list, str, int, float, bool, None or numpy array
        Typed arrays are numpy arrays of the type the file gives them.

    Raises
    ------
    FormatError
        If the document is truncated, has bytes left over, or uses what XGBoost never writes.

    Examples
    --------
    >>> from scurry.importers.xgboost import read_ubjson
    >>> read_ubjson(b"{U\x05depth[#U\x02U\x03U\x04U\x04nameSU\x06gbtree}")
    {'depth': [3, 4], 'name': 'gbtree'}
    """
    reader = _Reader(data)
    value = reader.value(reader.byte(), 0)
    if reader.position != len(data):
        raise FormatError(f"{len(data) - reader.position} bytes follow the end of the UBJSON document")
    return value


class _Reader:
    """A position in a UBJSON document."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def skip(self, n_bytes: int) -> int:
        """Move past `n_bytes` that must be there; return where they start."""
        start = self.position
        if not 0 <= n_bytes <= len(self.data) - start:
            raise FormatError(
                f"the UBJSON document ends at byte {len(self.data)} but claims {n_bytes} bytes at {start}"
            )
        self.position = start + n_bytes
        return start

    def byte(self) -> int:
        return self.data[self.skip(1)]

    def value(self, marker: int, nesting: int) -> Any:
        if marker in _SCALARS:
            return self.scalar(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if nesting == _MAX_NESTING:
            raise FormatError(f"the UBJSON document is nested deeper than {_MAX_NESTING} levels")
        match chr(marker):
            case "S":
                return self.string(self.byte())
            case "{":
                return self.object(nesting + 1)
            case "[":
                return self.array(nesting + 1)
        raise FormatError(f"the UBJSON document has an unknown marker {bytes([marker])!r} at byte {self.position - 1}")

    def scalar(self, marker: int) -> int | float:
        layout = _SCALARS[marker]
        number: int | float = layout.unpack_from(self.data, self.skip(layout.size))[0]
        return number

    def count(self, marker: int) -> int:
        if marker not in _INTEGERS:
            raise FormatError(f"the UBJSON document has no length at byte {self.position - 1}")
        return int(self.scalar(marker))

    def string(self, length_marker: int) -> str:
        start = self.skip(self.count(length_marker))
        try:
            return self.data[start : self.position].decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"the UBJSON document has text at byte {start} that is not UTF-8") from error

    def object(self, nesting: int) -> dict[str, Any]:
        members = {}
        while (marker := self.byte()) != ord("}"):
            key = self.string(marker)
            members[key] = self.value(self.byte(), nesting)
        return members

    def array(self, nesting: int) -> list[Any] | NDArray[Any]:
        marker = self.byte()
        if marker == ord("$"):
            return self.typed_array()
        if marker == ord("#"):
            # Each item takes at least a byte, so a count that lies runs out of bytes before it runs out of memory.
            return [self.value(self.byte(), nesting) for _ in range(self.count(self.byte()))]
        items = []
        while marker != ord("]"):
            items.append(self.value(marker, nesting))
            marker = self.byte()
        return items

    def typed_array(self) -> NDArray[Any]:
        item = self.byte()
        if item not in _SCALARS or self.byte() != ord("#"):
            raise FormatError(
                f"the UBJSON document has an array at byte {self.position} that is not of counted numbers"
            )
        # UBJSON is big-endian; the copy is in the order of this machine.
        dtype = np.dtype(_SCALARS[item].format)
        count = self.count(self.byte())
        start = self.skip(count * dtype.itemsize)
        return np.frombuffer(self.data, dtype, count, start).astype(dtype.newbyteorder("="))


_LINKS = {
    "reg:squarederror": "identity",
    "reg:linear": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:quantileerror": "identity",
    "rank:pairwise": "identity",
    "rank:ndcg": "identity",
    "rank:map": "identity",
    "reg:logistic": "logistic",
    "binary:logistic": "logistic",
    "binary:logitraw": "identity",
    "binary:hinge": "step",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
    "survival:cox": "exp",
    "survival:aft": "exp",
    "multi:softmax": "softmax",
    "multi:softprob": "softmax",
}


def import_model(model: Any, output: int | None = None) -> Forest:
    """Import a trained XGBoost `Booster`, or an estimator of its scikit-learn interface.

    Parameters
    ----------
    model : Booster, XGBClassifier, XGBRegressor, XGBRanker, XGBRFClassifier or XGBRFRegressor
    output : int, optional
        Of several targets, the one to predict.

    Returns
    -------
    Forest

    Examples
    --------
    >>> import xgboost
    >>> from sklearn.datasets import load_iris
    >>> from scurry.importers.xgboost import import_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = xgboost.XGBClassifier(n_estimators=4, max_depth=1).fit(X, y)
    >>> forest = import_model(model)
    >>> forest
    Forest(n_trees=12, n_nodes=36, max_depth=1, n_features=4, n_classes=3, aggregation='sum')
    >>> bool((forest.predict(X) == model.predict(X)).all())
    True
    """
    estimator = None
    if hasattr(model, "__sklearn_is_fitted__"):
        estimator = "classifier" if hasattr(model, "predict_proba") else "regressor"
        if not model.__sklearn_is_fitted__():
            raise InputError(f"this {type(model).__name__} is not trained; call fit first")
        if model.missing is not None and not np.isnan(model.missing):
            raise UnsupportedModelError(
                f"this {type(model).__name__} takes {model.missing!r} for a missing value, scurry takes NaN; "
                "call model.set_params(missing=numpy.nan) and put NaN for that value in the rows: it predicts the same"
            )
        model = model.get_booster()
    if not hasattr(model, "save_raw"):
        raise UnsupportedModelError(
            f"cannot import a {type(model).__name__}; pass a Booster, an XGBClassifier or its like, or a model file"
        )
    return _import_document(read_ubjson(bytes(model.save_raw("ubj"))), estimator, output)


def import_file(path: str | PathLike[str], output: int | None = None) -> Forest:
    """Import a model that XGBoost saved as JSON or UBJ.

    Parameters
    ----------
    path : str or path
    output : int, optional
        Of several targets, the one to predict.

    Returns
    -------
    Forest

    Raises
    ------
    FormatError
        If the file is not a sound model.

    Examples
    --------
    >>> import os, tempfile, numpy, xgboost
    >>> from scurry.importers.xgboost import import_file
    >>> X = numpy.arange(8.0).reshape(-1, 1)
    >>> booster = xgboost.train({"max_depth": 1}, xgboost.DMatrix(X, X[:, 0] > 3), 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     booster.save_model(os.path.join(folder, "model.ubj"))
    ...     import_file(os.path.join(folder, "model.ubj"))
    Forest(n_trees=2, n_nodes=6, max_depth=1, n_features=1, regressor, aggregation='sum')
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise InputError(f"cannot read the model file {path!r}: {error.strerror or error}") from error
    try:
        document = _parse(data)
        return _import_document(document, _saved_estimator(document), output)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _parse(data: bytes) -> Any:
    if data.startswith(b"binf"):
        raise FormatError(
            "this is XGBoost's old binary format, which XGBoost itself no longer reads; "
            "load the file with XGBoost 3.0 or older and save it as .json or .ubj"
        )
    # After its brace JSON has a quoted name, UBJSON the marker of a length.
    if data[:1] == b"{" and data[1:2] in (b"i", b"U", b"I", b"l", b"L"):
        return read_ubjson(data)
    try:
        return read_json(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is neither JSON nor UBJSON: {error}") from error


def read_json(data: bytes) -> Any:
    """Return what `json.loads` does, but long lists of numbers that have a name as arrays of int64 or float64.

    Native code reads them: Python makes an object of every number, and a million nodes have ten million of them.

    Parameters
    ----------
    data : bytes

    Examples
    --------
    >>> from scurry.importers.xgboost import read_json
    >>> read_json(b'{"depth":[3,4],"left":[' + 40 * b"1," + b"2]}")["left"].sum()
    np.int64(42)
    """
    pieces: list[bytes] = []
    texts: list[str] = []
    done, at = 0, data.find(b'":[')
    while at >= 0:
        end = data.find(b"]", at)
        # A quote that is not behind a backslash ends a name here, or begins a text, which `json` will notice.
        if end - at > _LONG and data[at + 3] in b"-0123456789" and data[at - 1] != ord("\\"):
            pieces += [data[done : at + 2], b'{"%s":%d}' % (_MARK.encode(), len(texts))]
            texts.append(data[at + 3 : end].decode("latin-1"))
            done = end + 1
        at = data.find(b'":[', at + 1 if done <= at else done)
    if not texts or _MARK.encode() in data:
        return json.loads(data)
    try:
        numbers, lengths = _core.read_numbers(texts)
        arrays = np.split(numbers, np.cumsum(lengths)[:-1])
        return json.loads(
            b"".join([*pieces, data[done:]]), object_hook=lambda entries: _array_of(entries, texts, arrays)
        )
    except ValueError:
        return json.loads(data)  # as it is, or with a message about what is wrong in it


def _array_of(entries: dict[str, Any], texts: list[str], arrays: list[Any]) -> Any:
    if _MARK not in entries:
        return entries
    text, array = texts[entries[_MARK]], arrays[entries[_MARK]]
    if text.count(",") + 1 != len(array):
        raise ValueError("commas between numbers are missing, or too many")
    if any(letter in text for letter in ".eEnN"):
        return array
    if np.abs(array).max() >= _EXACT:
        raise ValueError("whole numbers are too large for floats")
    return array.astype(np.int64)


def _saved_estimator(document: Any) -> str | None:
    """Return the kind of estimator that saved the document, None if it was a `Booster`."""
    attributes = field(field(document, "learner", dict), "attributes", dict)
    try:
        saved = json.loads(attributes.get("scikit_learn", "{}"))
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError("the model's attribute 'scikit_learn' is not JSON") from error
    return saved.get("_estimator_type") if isinstance(saved, dict) else None


def _import_document(document: Any, estimator: str | None, target: int | None) -> Forest:
    """Import a document as its estimator predicts ("classifier", "regressor", "ranker"), or as a `Booster` (None)."""
    learner = field(document, "learner", dict)
    parameters = field(learner, "learner_model_param", dict)
    attributes = field(learner, "attributes", dict)
    objective = field(field(learner, "objective", dict), "name", str)
    model, tree_weight = _boosted_trees(field(learner, "gradient_booster", dict))
    n_targets = count(parameters, "num_target") if "num_target" in parameters else 1
    target = check_output(target, n_targets, "XGBoost model", is_multilabel=estimator == "classifier")
    sizes = [count(field(tree, "tree_param", dict), "size_leaf_vector") for tree in field(model, "trees", list)]
    n_outputs = max(count(parameters, "num_class"), n_targets, 1)
    if sizes and max(sizes) > 1:
        tree_weight = None if tree_weight is None else np.repeat(tree_weight, n_outputs)
        model = split_vectors(model, sizes, n_outputs)
    _check_outputs(n_outputs, model["trees"])
    readout = _readout(objective, 1 if n_targets > 1 else n_outputs, estimator)
    version = numbers([document], "version", np.int64).tolist()
    base_score = _base_margins(parameters, n_outputs, _LINKS[objective], version)
    n_trees = _trees_used(model, attributes, estimator, n_outputs)
    output = numbers([model], "tree_info", np.int32)[:n_trees]
    if len(output) != n_trees or output.min() < 0 or output.max() >= n_outputs:
        raise FormatError(f"the model's 'tree_info' must give one of {n_outputs} outputs to each of {n_trees} trees")
    used = model["trees"][:n_trees]
    if n_targets > 1:
        chosen = np.flatnonzero(output == target)
        used, output, n_trees = [used[at] for at in chosen], np.zeros(len(chosen), np.int32), len(chosen)
        base_score = base_score[target : target + 1]
        tree_weight = None if tree_weight is None else tree_weight[chosen]
        if not used:
            raise FormatError(f"the model has no tree for target {target}")
    trees = read_trees(used)
    leaf_value = np.where(trees.left < 0, trees.condition, np.float32(0))
    if tree_weight is not None:
        of_node = np.repeat(np.arange(n_trees), np.diff(trees.offset))
        with np.errstate(over="ignore", invalid="ignore"):
            if estimator is not None and version < [3, 4]:  # the third rule above: added and taken away, in float32
                base = base_score[output][of_node]
                leaf_value = (base + leaf_value) - base
            leaf_value = leaf_value * tree_weight[of_node]
    try:
        return Forest(
            **trees.arrays(leaf_value),
            tree_output=output,
            base_score=base_score,
            n_features=count(parameters, "num_feature"),
            aggregation="sum",
            comparison="<",
            score_dtype="float32",
            feature_names=field(learner, "feature_names", list, []) or None,
            categories=_categories(model),
            **readout,
        )
    except InputError as error:
        raise FormatError(f"the model is not sound: {error}") from error


def _check_outputs(n_outputs: int, trees: list[Any]) -> None:
    if not trees:
        raise UnsupportedModelError("this XGBoost model has no trees; train it for at least one round")
    if n_outputs > len(trees):
        raise FormatError(f"the model has {n_outputs} classes or targets but only {len(trees)} trees")


def _readout(objective: str, n_outputs: int, estimator: str | None) -> dict[str, Any]:
    """Return what becomes of the margins: `classes`, `link`, `label_from` and `decision_threshold` of a forest."""
    link = _LINKS.get(objective)
    if link is None:
        raise UnsupportedModelError(
            f"the XGBoost objective {objective!r} is not supported; supported are {', '.join(_LINKS)}"
        )
    if link == "softmax" or n_outputs > 1:
        # A custom objective has no transformation: several margins are then compared as they are.
        if link not in ("softmax", "identity"):
            raise UnsupportedModelError(
                f"{n_outputs} classes with the XGBoost objective {objective!r} are not supported"
            )
        label_from = "probability" if objective == "multi:softprob" else "score"
        return {"classes": np.arange(n_outputs), "link": link, "label_from": label_from}
    if estimator != "classifier" and (estimator is not None or not objective.startswith("binary:")):
        return {"link": link}
    if objective == "binary:logitraw" and estimator is None:
        link = "logistic"
    # XGBClassifier answers 1 where the prediction, margin or probability, exceeds one half.
    thresholds = {
        "identity": float(np.nextafter(np.float32(0.5), np.float32(1))),
        "logistic": _core.logistic_threshold(1.0, True),
        "step": float(np.finfo(np.float32).smallest_subnormal),
    }
    if link not in thresholds:
        raise UnsupportedModelError(
            f"a classifier with the XGBoost objective {objective!r} is not supported; use binary:logistic"
        )
    return {"classes": np.arange(2), "link": link, "decision_threshold": thresholds[link]}


def _base_margins(parameters: dict[str, Any], n_outputs: int, link: str, version: list[int]) -> NDArray[np.float32]:
    """Return the margins before the first tree, shape (n_outputs,)."""
    text = field(parameters, "base_score", str)
    try:
        scores = np.array(json.loads(text), np.float32).ravel()
        scores = np.broadcast_to(scores, n_outputs)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"the model's 'base_score' must be a number or {n_outputs} of them, got {text[:50]!r}"
        ) from error
    one = np.float32(1)
    if link == "logistic":
        if version >= [3, 2]:  # older releases let a base score of 0 or 1 become an infinite margin
            bound = np.float32(1e-6)
            scores = np.clip(scores, bound, one - bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([-_core.log_float32(odds) for odds in (one / scores - one).tolist()], np.float32)
    if link == "exp":
        return np.array([_core.log_float32(score) for score in scores.tolist()], np.float32)
    return scores


def _boosted_trees(booster: dict[str, Any]) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
    """Return the model of a "gbtree" or "dart" booster, and the weights of its trees if it has any.

    Since release 3.4, trees that were dropped at times are saved as a "gbtree" whose model has the weights.
    """
    name = field(booster, "name", str)
    if name not in ("gbtree", "dart"):
        raise UnsupportedModelError(f"the XGBoost booster {name!r} has no trees; supported are gbtree and dart")
    holder = field(booster, "gbtree", dict) if name == "dart" else booster
    model = field(holder, "model", dict)
    with_weights = booster if name == "dart" else model
    if name == "gbtree" and "weight_drop" not in model:
        return model, None
    weight = numbers([with_weights], "weight_drop", np.float32)
    if len(weight) != len(field(model, "trees", list)):
        raise FormatError(f"the model has {len(weight)} tree weights for {len(model['trees'])} trees")
    return model, weight


def _trees_used(model: dict[str, Any], attributes: dict[str, Any], estimator: str | None, n_outputs: int) -> int:
    """Return how many trees predict: all, unless the scikit-learn interface stopped early."""
    n_trees = len(model["trees"])
    if estimator is None or "best_iteration" not in attributes:
        return n_trees
    n_rounds = count(attributes, "best_iteration") + 1
    if "iteration_indptr" in model:
        round_end = numbers([model], "iteration_indptr", np.int64)[1:]
    else:
        per_round = n_outputs * count(field(model, "gbtree_model_param", dict), "num_parallel_tree")
        round_end = np.arange(per_round, n_trees + 1, max(per_round, 1))
    if not n_rounds <= len(round_end) or not 0 < round_end[n_rounds - 1] <= n_trees:
        raise FormatError(f"the model's best iteration is {n_rounds - 1}, but it has {len(round_end)} rounds")
    return int(round_end[n_rounds - 1])


def _categories(model: dict[str, Any]) -> dict[int, NDArray[Any]]:
    """Return what the codes of categorical features stand for, where the model was trained on a data frame.

    Names with other characters than ASCII are left out: XGBoost cuts such bytes at lengths counted in characters.
    """
    categories: dict[int, NDArray[Any]] = {}
    for feature, encoding in enumerate(field(field(model, "cats", dict, {}), "enc", list, [])):
        values = numbers([encoding], "values", np.int64)
        if "offsets" in encoding:
            text = numbers([encoding], "values", np.int8).tobytes()
            cut = numbers([encoding], "offsets", np.int64)
            if (np.diff(cut, prepend=0) < 0).any() or cut.max(initial=0) > len(text):
                raise FormatError(f"the category names of feature {feature} do not fit their text")
            if not text.isascii():
                continue
            values = np.array([text[a:b].decode() for a, b in pairwise(cut)])
        if len(values):
            categories[feature] = values
    return categories


_END_OF_CATEGORIES = 2**24  # codes are float32 in rows, which has no whole numbers without gaps beyond
_MAX_CATEGORY_BYTES = 2**30  # a few bytes of a file can name a large category, and its set has a bit for each below

T = TypeVar("T")


def field(parent: Any, name: str, kind: type[T], default: T | None = None) -> T:
    """Return the member `name` of an object, which must be of type `kind`; the default if it is absent."""
    value = parent.get(name, default) if isinstance(parent, dict) else None
    if not isinstance(value, kind):
        raise FormatError(f"the model has no {name!r}, or one that is not of type {kind.__name__}")
    return value


def count(parent: Any, name: str) -> int:
    """Return a count, which documents keep as text."""
    text = field(parent, name, str)
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise FormatError(f"the model's {name!r} must be a count, got {text[:50]!r}")
    return int(text)


def numbers(parents: list[Any], name: str, dtype: DTypeLike, sizes: list[int] | None = None) -> NDArray[Any]:
    """Return the arrays `name` of several objects, one after the other; `sizes` are checked where they are known."""
    arrays: list[Any] = [parent.get(name) if isinstance(parent, dict) else None for parent in parents]
    if not all(isinstance(array, list | np.ndarray) for array in arrays):
        raise FormatError(f"the model has no array {name!r}")
    if sizes is not None and [len(array) for array in arrays] != sizes:
        raise FormatError(f"the model's {name!r} do not have the sizes of their trees")
    try:
        joined = np.concatenate([np.asarray(array) for array in arrays])
    except ValueError as error:
        raise FormatError(f"the model's {name!r} must be a plain list of numbers") from error
    if joined.ndim != 1 or (joined.size and joined.dtype.kind not in "biuf"):
        raise FormatError(f"the model's {name!r} must be a plain list of numbers, got {joined.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = joined.astype(dtype)
    if cast.dtype.kind in "biu" and not np.array_equal(cast, joined):
        raise FormatError(f"the model's {name!r} must hold values of type {cast.dtype}")
    return cast


@dataclass
class Trees:
    """Nodes of all trees, deleted ones included; children are global indices, -1 at leaves.

    Where `category_set` names a set, its categories go left, as everywhere in scurry; XGBoost sends them right.
    """

    offset: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    default_left: NDArray[np.bool_]
    feature: NDArray[np.int64]
    condition: NDArray[np.float32]
    cover: NDArray[np.float64]
    category_set: NDArray[np.int64]
    category_offset: NDArray[np.int64]
    category_bits: NDArray[np.uint32]
    levels: list[NDArray[np.int64]]

    def arrays(self, leaf_value: NDArray[np.float32]) -> dict[str, Any]:
        """Return the node arrays of a `Forest`, without the nodes that pruning deleted.

        Parameters
        ----------
        leaf_value : float32 array of shape (n_nodes,)
            Ignored at inner nodes, which get the mean of the leaves below them.
        """
        alive = np.zeros(len(self.left), bool)
        for level in self.levels:
            alive[level] = True
        index = np.append(np.cumsum(alive) - 1, -1)
        inner, categorical = self.left >= 0, self.category_set >= 0
        return {
            "tree_offset": np.append(0, np.cumsum(np.add.reduceat(alive, self.offset[:-1], dtype=np.int64))),
            "left": index[self.left[alive]],
            "right": index[self.right[alive]],
            "default_left": self.default_left[alive],
            "feature": np.where(inner, self.feature, -1)[alive],
            "threshold": np.where(inner & ~categorical, self.condition, np.float32(0))[alive],
            "cover": self.cover[alive],
            "value": self._means(leaf_value)[alive].reshape(-1, 1),
            "category_set": self.category_set[alive],
            "category_offset": self.category_offset,
            "category_bits": self.category_bits,
        }

    def _means(self, leaf_value: NDArray[np.float32]) -> NDArray[np.float64]:
        """Leaf values, and above them their means weighted by cover; shape (n_nodes,).

        XGBoost's own inner weights lack the learning rate that its leaves carry.
        """
        mean, weight = leaf_value.astype(np.float64), self.cover.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for level in reversed(self.levels):
                node = level[self.left[level] >= 0]
                left, right = self.left[node], self.right[node]
                weight[node] = weight[left] + weight[right]
                share = np.divide(weight[left], weight[node], out=np.full(len(node), 0.5), where=weight[node] > 0)
                mean[node] = share * mean[left] + (1 - share) * mean[right]
        return mean


def read_trees(trees: list[Any]) -> Trees:
    """Read the trees of a document.

    Parameters
    ----------
    trees : list of dict
        At least one.

    Returns
    -------
    Trees
    """
    sizes = [len(numbers([tree], "left_children", np.int64)) for tree in trees]
    if min(sizes) == 0:
        raise FormatError("the model has a tree without nodes")
    offset = np.append(0, np.cumsum(sizes))
    first, size = np.repeat(offset[:-1], sizes), np.repeat(sizes, sizes)
    left, right = (numbers(trees, name, np.int64, sizes) for name in ("left_children", "right_children"))
    if ((left >= size) | (right >= size) | ((left < 0) != (right < 0))).any():
        raise FormatError("the model has a node whose children are not two nodes of its tree")
    left, right = np.where(left < 0, -1, left + first), np.where(left < 0, -1, right + first)
    default_left = numbers(trees, "default_left", np.bool_, sizes)
    category_set, category_offset, category_bits = _category_sets(trees, offset, left >= 0)
    # A set's categories go right in XGBoost and left in scurry: its children change places.
    swap = category_set >= 0
    # Only used as a weight, so what a user's objective makes of it (NaN, negative) counts as nothing.
    cover = numbers(trees, "sum_hessian", np.float32, sizes).astype(np.float64)
    return Trees(
        offset=offset,
        left=np.where(swap, right, left),
        right=np.where(swap, left, right),
        default_left=default_left ^ swap,
        feature=numbers(trees, "split_indices", np.int64, sizes),
        condition=numbers(trees, "split_conditions", np.float32, sizes),
        cover=np.where(np.isfinite(cover) & (cover > 0), cover, 0.0),
        category_set=category_set,
        category_offset=category_offset,
        category_bits=category_bits,
        levels=_levels(offset[:-1], left, right),
    )


def _levels(roots: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the nodes at each depth of any tree, from the roots down; deleted nodes hang on no root."""
    n_parents = np.bincount(np.concatenate([left[left >= 0], right[right >= 0], roots]), minlength=len(left))
    if (n_parents > 1).any():
        raise FormatError(f"the model's node {int(np.argmax(n_parents > 1))} is the child of two nodes")
    # Every node has one parent at most, so that walking from the roots ends even in a damaged file.
    levels, level = [], roots
    while len(level):
        levels.append(level)
        inner = level[left[level] >= 0]
        level = np.concatenate([left[inner], right[inner]])
    return levels


def _category_sets(
    trees: list[Any], offset: NDArray[np.int64], inner: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the set of each node (-1 unless it is a categorical split), and all sets as bits, as `Forest` has them."""
    sizes = np.diff(offset)
    set_of_node = np.full(len(inner), -1, np.int64)
    categorical = np.zeros(len(inner), bool)
    if any("split_type" in tree for tree in trees):
        categorical = (numbers(trees, "split_type", np.uint8, sizes.tolist()) != 0) & inner
    if not categorical.any():
        return set_of_node, np.zeros(1, np.int64), np.zeros(0, np.uint32)
    n_sets = [len(numbers([tree], "categories_nodes", np.int64)) for tree in trees]
    n_categories = np.array([len(numbers([tree], "categories", np.int64)) for tree in trees])
    node = numbers(trees, "categories_nodes", np.int64, n_sets)
    start = numbers(trees, "categories_segments", np.int64, n_sets)
    length = numbers(trees, "categories_sizes", np.int64, n_sets)
    category = numbers(trees, "categories", np.int64)
    in_tree = (node >= 0) & (node < np.repeat(sizes, n_sets))
    in_list = (start >= 0) & (length >= 0) & (length <= np.repeat(n_categories, n_sets) - start)
    in_range = (category >= 0) & (category < _END_OF_CATEGORIES)
    if not (in_tree.all() and in_list.all() and in_range.all()) or length.sum() > len(category):
        raise FormatError("the model has category sets of nodes or categories that it does not have")
    set_of_node[node + np.repeat(offset[:-1], n_sets)] = np.arange(len(node))
    set_of_node[~categorical] = -1
    if (set_of_node[categorical] < 0).any():
        raise FormatError("the model has a categorical split without categories")
    start += np.repeat(np.cumsum(n_categories) - n_categories, n_sets)
    place = np.repeat(start + length - np.cumsum(length), length) + np.arange(length.sum())
    return set_of_node, *_bits(category[place], length)


def _bits(category: NDArray[np.int64], length: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return sets of `length` categories each as 32-bit words, and where the words of each set start."""
    set_of = np.repeat(np.arange(len(length)), length)
    n_words = np.zeros(len(length), np.int64)
    np.maximum.at(n_words, set_of, category // 32 + 1)
    offset = np.append(0, np.cumsum(n_words))
    if 4 * offset[-1] > _MAX_CATEGORY_BYTES:
        raise UnsupportedModelError(
            f"the model's category sets take {4 * offset[-1]} bytes, at most {_MAX_CATEGORY_BYTES} are accepted; "
            "train it on fewer categories"
        )
    bits = np.zeros(offset[-1], np.uint32)
    np.bitwise_or.at(bits, offset[set_of] + category // 32, np.uint32(1) << (category % 32).astype(np.uint32))
    return offset, bits


def split_vectors(model: dict[str, Any], sizes: list[int], n_outputs: int) -> dict[str, Any]:
    """Return a model whose trees have one output each, instead of a vector of all outputs in each leaf.

    A tree becomes as many trees with the same splits. XGBoost adds the vectors number by number, so that sums are the
    same.

    Parameters
    ----------
    model : dict
        With ``trees``, ``tree_info`` and ``iteration_indptr``.
    sizes : list of int
        The numbers in a leaf of each tree.
    n_outputs : int

    Returns
    -------
    dict
        The same model where no leaf is a vector.
    """
    if max(sizes) <= 1:
        return model
    if set(sizes) != {n_outputs}:
        raise FormatError(f"the model has leaves of {max(sizes)} numbers for {n_outputs} outputs")
    trees = [_single_output(tree, output, n_outputs) for tree in model["trees"] for output in range(n_outputs)]
    ends = {}
    if "iteration_indptr" in model:
        ends["iteration_indptr"] = [n_outputs * int(end) for end in model["iteration_indptr"]]
    return model | ends | {"trees": trees, "tree_info": list(range(n_outputs)) * len(model["trees"])}


def _single_output(tree: Any, output: int, n_outputs: int) -> dict[str, Any]:
    try:
        left = np.asarray(tree["left_children"], np.int64)
        right, condition = np.array(tree["right_children"], np.int64), np.array(tree["split_conditions"], np.float32)
        weights = np.asarray(tree["leaf_weights"], np.float32).reshape(-1, n_outputs)
        is_leaf = left < 0
        # A leaf says by its second child which vector is its own.
        condition[is_leaf] = weights[right[is_leaf], output]
        right[is_leaf] = -1
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError("the model has a tree with vector leaves whose vectors it lacks") from error
    return dict(tree) | {"left_children": left, "right_children": right, "split_conditions": condition}
