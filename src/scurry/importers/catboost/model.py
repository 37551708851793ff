"""Importer of CatBoost models: objects, ``.cbm`` files and JSON files.

Everything is read from CatBoost's JSON, whose numbers have 17 digits. An object writes it itself; a ``.cbm`` file is
read as if it were JSON (`binary`), so that no file needs CatBoost to be installed. What CatBoost does,
measured against its 1.2 releases and reproduced to the last bit:

- rows are float32, whatever they were; ``x > border`` goes right, NaN below all borders or above all of them;
- a score is the float64 sum of the leaves in tree order, from zero on. The bias comes last: if it is not zero, a tree
  of one leaf at the end adds it;
- with two classes and one score, the second class needs a score above the logit of the probability threshold (zero
  unless it was changed); with more classes, the first of those with the highest score wins;
- a category is known by its hash alone (`categories`).

A symmetric tree asks one question per level, and bit ``i`` of the index of its leaf is the answer on level ``i``. It
becomes an ordinary tree whose nodes of a level are equal; the native core finds that out and runs it as what it was.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_output
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Calibrated, Forest, first_true, mean_of_leaves
from scurry.importers.catboost.binary import read_document
from scurry.importers.catboost.categories import CategorySets

_CLASSIFIER_LINKS = {
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "logistic-each",
    "Focal": "logistic",
}
_EXPONENTS = ("Poisson", "Tweedie")  # what CatBoostRegressor predicts is the exponential of the score
_LABELS = ("MultiLogloss", "MultiCrossEntropy")  # several labels, each of which a row has or has not
_MIN_WEIGHT = 1e-150  # above zero, and so small that sums and quotients of weights stay finite
_MAX_DEPTH = 16  # CatBoost's own limit for symmetric trees


class _Split(NamedTuple):
    """What a level of a symmetric tree, or a node of another one, asks.

    Attributes
    ----------
    feature : int
    threshold : float
    nan_left : bool
    category_set : int
        -1 at numeric splits.
    flipped : bool
        Whether CatBoost's "true", to which belongs the right side, is on the left.
    """

    feature: int
    threshold: float
    nan_left: bool
    category_set: int = -1
    flipped: bool = False


def import_model(model: Any, categories: Mapping[str, ArrayLike] | None = None, output: int | None = None) -> Forest:
    """Import a trained ``CatBoost``, ``CatBoostClassifier``, ``CatBoostRegressor`` or ``CatBoostRanker``.

    Parameters
    ----------
    model : CatBoost
    categories : mapping of str to array, optional
        The training values of categorical features, of which a model keeps only hashes.
    output : int, optional
        The label, target or quantile, where the model has several.

    Returns
    -------
    Forest

    Examples
    --------
    >>> import scurry
    >>> from catboost import CatBoostClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CatBoostClassifier(iterations=5, depth=2, verbose=False, allow_writing_files=False).fit(X, y)
    >>> forest = scurry.from_model(model)
    >>> bool((forest.predict(X) == model.predict(X)[:, 0]).all())
    True
    """
    from catboost import CatBoost, CatBoostError

    name = type(model).__name__
    if not isinstance(model, CatBoost):
        raise UnsupportedModelError(
            f"cannot import a CatBoost {name}; accepted are CatBoost, CatBoostClassifier, CatBoostRegressor and "
            "CatBoostRanker"
        )
    if not model.is_fitted():
        raise InputError(f"this {name} is not fitted; call fit first")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        try:
            model.save_model(path, format="json")
        except CatBoostError:  # texts and embeddings: the other format holds them, and its reader says what is wrong
            model.save_model(path, format="cbm")
            return import_file(path, categories, output)
        with open(path, "rb") as stream:
            return _import_text(stream.read(), categories, output)


def import_file(
    path: str | PathLike[str], categories: Mapping[str, ArrayLike] | None = None, output: int | None = None
) -> Forest:
    """Import a model that CatBoost saved as ``.cbm`` or as JSON.

    Parameters
    ----------
    path : str or path
    categories : mapping of str to array, optional
        The training values of categorical features, of which a model keeps only hashes.
    output : int, optional
        The label, target or quantile, where the model has several.

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
    if not data.startswith(b"CBM1"):
        try:
            return _import_text(data, categories, output)
        except FormatError as error:
            raise FormatError(f"{path} is not a sound CatBoost model: {error}") from error
    try:
        with _as_format_error():
            return _import_document(read_document(data), {} if categories is None else categories, output)
    except FormatError as error:
        raise FormatError(f"{path} is not a sound CatBoost model: {error}") from error


def _import_text(text: bytes, categories: Mapping[str, ArrayLike] | None, output: int | None) -> Forest:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not JSON: {error}") from error
    with _as_format_error():
        return _import_document(document, {} if categories is None else categories, output)


@contextmanager
def _as_format_error() -> Iterator[None]:
    """Turn what a damaged document makes fail into a FormatError."""
    try:
        yield
    except (FormatError, UnsupportedModelError):
        raise
    except InputError as error:
        if error.argument is not None:  # an argument of the user's is wrong, not the document
            raise
        raise FormatError(str(error)) from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise FormatError(f"it has missing or impossible members ({type(error).__name__}: {error})") from error


def _import_document(document: Any, categories: Mapping[str, ArrayLike], output: int | None) -> Forest:
    info = document["features_info"]
    names, n_features = _feature_names(info)
    sets = CategorySets(info, document.get("ctr_data", {}), names, categories)
    scale, bias = document["scale_and_bias"]
    splits = _Splits(info, sets)
    symmetric = document.get("oblivious_trees")
    trees = (
        [_symmetric_tree(tree, splits, len(bias)) for tree in symmetric]
        if symmetric is not None
        else [_any_tree(tree, splits, len(bias)) for tree in document["trees"]]
    )
    objective = _objective(document["model_info"], len(bias))
    n_targets = 1 if objective in _CLASSIFIER_LINKS else len(bias)
    kind = f"CatBoost model, of objective {objective},"
    at = check_output(output, n_targets, kind, is_multilabel=objective in _LABELS)
    if n_targets > 1:
        trees, bias = [tree._replace(value=tree.value[:, at : at + 1]) for tree in trees], bias[at : at + 1]
    front, place = sets.columns.build()
    readout = _readout(document["model_info"], objective, len(bias))
    if objective == "RMSEWithUncertainty" and at == 1:
        readout = {"link": "exp", "link_scale": 2.0}  # a variance, of the logarithm of a standard deviation
    if _rounds(scale) and "classes" in readout:
        readout |= _scaled_readout(scale, bias, readout["decision_threshold"]) if len(bias) == 1 else _refuse(scale)
        scale, bias = math.copysign(1.0, scale), []
    trees = [tree._replace(value=tree.value * scale) for tree in trees]
    if any(bias):
        # All training rows reach it.
        trees.append(_leaf(np.array(bias, np.float64), trees[0].weight if trees else np.array([np.nan])))
    if not trees:
        raise FormatError("it has no trees; train for at least one iteration")
    arrays = _join(trees)
    computed = arrays["feature"] >= n_features
    arrays["feature"][computed] = n_features + place[arrays["feature"][computed] - n_features]
    titles = np.array(sets.columns.titles(names), object)[np.argsort(place)].tolist()
    return Forest(
        **arrays,
        **readout,
        **sets.arrays(),
        n_features=n_features + len(place),
        feature_names=None if names == [str(j) for j in range(n_features)] else [*names, *titles],
        front=front,
        categories=sets.categories,
        encode_numbers=bool(sets.categories),  # CatBoost takes a number in a categorical column by its value
        aggregation="sum",
        input_dtype="float32",
    )


def _feature_names(info: Mapping[str, Any]) -> tuple[list[str], int]:
    features = [feature for key in info if key.endswith("_features") for feature in info[key]]
    n_features = 1 + max(feature["flat_feature_index"] for feature in features)
    if n_features > len(features):
        raise FormatError(f"it describes {len(features)} of its {n_features} features")
    names = [str(j) for j in range(n_features)]
    for feature in features:
        names[feature["flat_feature_index"]] = feature["feature_id"] or names[feature["flat_feature_index"]]
    return names, n_features


def _rounds(scale: float) -> bool:
    """Return whether to multiply single leaves by the scale of their sum may round them: not by powers of two."""
    return math.frexp(scale)[0] not in (0.5, -0.5)


def _scaled_readout(scale: float, bias: list[float], threshold: float) -> dict[str, Any]:
    """Return how scores of two classes, before they are scaled, become labels and probabilities."""
    slope, (intercept,) = abs(scale), bias  # leaves have the sign
    largest = (abs(threshold) + abs(intercept)) * 4 / slope + 1.0
    edge = first_true(lambda score: slope * score + intercept >= threshold, -largest, largest)
    maps = ((-slope, -intercept),)  # of which scikit-learn's sigmoid takes the negative
    return {
        "decision_threshold": edge,
        "wrapper": Calibrated(n_classes=2, method="sigmoid", response="score", maps=maps),
    }


def _refuse(scale: float) -> NoReturn:
    raise UnsupportedModelError(
        f"this model of more than two classes multiplies its sums by {scale}, which cannot be done to single trees "
        "without rounding; call model.set_scale_and_bias(1, bias), or use a power of two"
    )


class _Splits:
    """Reads splits.

    Parameters
    ----------
    info : mapping
        The document's "features_info".
    sets : CategorySets
    """

    def __init__(self, info: Mapping[str, Any], sets: CategorySets) -> None:
        self._floats = info.get("float_features", [])
        self._sets = sets
        # NaN "AsIs" is greater than nothing: below all borders, as where it was declared to be ("AsFalse").
        self._nan_left = [feature["nan_value_treatment"] != "AsTrue" for feature in self._floats]
        self._known: dict[int, _Split] = {}

    def read(self, split: Mapping[str, Any]) -> _Split:
        index = split["split_index"]
        known = self._known.get(index)
        if known is None:
            known = self._known[index] = self._read(split)
        return known

    def _read(self, split: Mapping[str, Any]) -> _Split:
        kind = split["split_type"]
        if kind == "FloatFeature":
            feature = split["float_feature_index"]
            border = float(np.float32(split["border"]))
            return _Split(self._floats[feature]["flat_feature_index"], border, self._nan_left[feature])
        if kind == "OneHotFeature":
            return _Split(*self._sets.one_hot(split["cat_feature_index"], split["value"]))
        if kind == "OnlineCtr":
            return _Split(*self._sets.ctr(split["split_index"], split["border"]))
        raise UnsupportedModelError(
            f"this model tests {kind!r}, a value computed of text or of embeddings, which scurry cannot compute; train "
            "without text_features and embedding_features"
        )


class _Tree(NamedTuple):
    """Arrays over the nodes of a tree; children are counted from its root."""

    splits: list[_Split]
    split: NDArray[np.int32]  # of each node; -1 at leaves
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    weight: NDArray[np.float64]


def _leaf(value: NDArray[np.float64], weight: NDArray[np.float64]) -> _Tree:
    none = np.full(1, -1, np.int32)
    known = weight[~np.isnan(weight)]  # inner nodes have none of their own
    return _Tree([], none, none, none, value[None, :], np.full(1, known.sum() if len(known) else np.nan))


def _symmetric_tree(tree: Mapping[str, Any], splits: _Splits, n_outputs: int) -> _Tree:
    asked = [splits.read(split) for split in tree.get("splits") or []]
    depth = len(asked)
    if depth > _MAX_DEPTH:
        raise FormatError(f"a symmetric tree has {depth} levels, at most {_MAX_DEPTH} are possible")
    n_leaves = 1 << depth
    node = np.arange(2 * n_leaves - 1, dtype=np.int32)  # in the order of a heap
    inner = node < n_leaves - 1
    level = np.frexp(node + 1.0)[1] - 1
    # The index of the leaf at each place: the way to it has the answer of the first level in the highest bit.
    place, index = np.arange(n_leaves), np.zeros(n_leaves, np.int64)
    for i, split in enumerate(asked):
        index |= ((place >> (depth - 1 - i) & 1) ^ split.flipped) << i
    value = np.zeros((len(node), n_outputs))
    value[~inner] = np.array(tree["leaf_values"], np.float64).reshape(n_leaves, n_outputs)[index]
    weight = np.full(len(node), np.nan)
    if tree.get("leaf_weights"):
        weight[~inner] = np.array(tree["leaf_weights"], np.float64).reshape(n_leaves)[index]
    below = np.where(inner, 2 * node + 1, -1).astype(np.int32)
    return _Tree(asked, np.where(inner, level, -1).astype(np.int32), below, below + inner, value, weight)


def _any_tree(tree: Mapping[str, Any], splits: _Splits, n_outputs: int) -> _Tree:
    asked: list[_Split] = []
    nodes: list[tuple[int, int, int]] = []
    values: list[Any] = []
    weights: list[float] = []
    waiting = [(tree, -1, False)]
    while waiting:
        node, parent, is_right = waiting.pop()
        at = len(nodes)
        if parent >= 0:
            index, left, right = nodes[parent]
            nodes[parent] = (index, left, at) if is_right else (index, at, right)
        if "split" in node:
            split = splits.read(node["split"])
            nodes.append((len(asked), -1, -1))
            asked.append(split)
            values.append([0.0] * n_outputs)
            weights.append(np.nan)
            waiting += [(node["right"], at, not split.flipped), (node["left"], at, split.flipped)]
        else:
            nodes.append((-1, -1, -1))
            values.append(np.atleast_1d(node["value"]))
            weights.append(node.get("weight", np.nan))
    value = np.array(values, np.float64).reshape(len(nodes), n_outputs)
    index, left_of, right_of = np.array(nodes, np.int32).T
    return _Tree(asked, index, left_of, right_of, value, np.array(weights, np.float64))


def _join(trees: list[_Tree]) -> dict[str, Any]:
    """Return the arrays of `Forest` over the nodes of all trees."""
    sizes = np.array([len(tree.split) for tree in trees])
    offset = np.concatenate([[0], np.cumsum(sizes)])
    shift = np.repeat(offset[:-1], sizes)
    left, right = (np.concatenate([getattr(tree, side) for tree in trees]) for side in ("left", "right"))
    inner = left >= 0
    left, right = np.where(inner, left + shift, -1), np.where(inner, right + shift, -1)
    first = np.cumsum([0] + [len(tree.splits) for tree in trees[:-1]])
    chosen = (np.concatenate([tree.split for tree in trees]) + np.repeat(first, sizes))[inner]
    asked = [split for tree in trees for split in tree.splits]

    def of_nodes(values: list[Any], at_leaves: Any) -> NDArray[Any]:
        array = np.full(len(inner), at_leaves)
        if asked:
            array[inner] = np.array(values)[chosen]
        return array

    weight = np.concatenate([tree.weight for tree in trees])
    value = np.concatenate([tree.value for tree in trees])
    means, cover = _fill_inner(offset, left, right, weight, value)
    return {
        "tree_offset": offset,
        "left": left,
        "right": right,
        "value": means,
        "cover": cover,
        "feature": of_nodes([split.feature for split in asked], -1),
        "threshold": of_nodes([split.threshold for split in asked], 0.0),
        "default_left": of_nodes([split.nan_left for split in asked], False),
        "category_set": of_nodes([split.category_set for split in asked], -1),
    }


def _fill_inner(
    offset: NDArray[np.int64],
    left: NDArray[Any],
    right: NDArray[Any],
    weight: NDArray[np.float64],
    value: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of all nodes, inner ones by the mean of the leaves below, and their training weights."""
    leaf_weight = np.where(np.isnan(weight), 1.0, np.maximum(weight, _MIN_WEIGHT))
    means = [mean_of_leaves(offset, left, right, leaf_weight, np.ascontiguousarray(column)) for column in value.T]
    cover = weight.copy()
    levels, nodes = [], offset[:-1]
    while len(nodes := nodes[left[nodes] >= 0]):
        levels.append(nodes)
        nodes = np.concatenate([left[nodes], right[nodes]])
    for nodes in reversed(levels):
        cover[nodes] = cover[left[nodes]] + cover[right[nodes]]
    return np.stack(means, axis=1), cover


def _readout(info: Mapping[str, Any], objective: str, n_outputs: int) -> dict[str, Any]:
    """Return how scores become labels and predictions."""
    if objective in _LABELS:
        above = np.nextafter(0.0, np.inf)
        return {"link": "logistic", "classes": np.arange(2), "label_from": "score", "decision_threshold": above}
    if objective not in _CLASSIFIER_LINKS:
        return {"link": "exp" if objective in _EXPONENTS else "identity"}
    classes = _classes(_class_params(info), max(n_outputs, 2))
    readout = {"link": _CLASSIFIER_LINKS[objective], "classes": classes, "label_from": "score"}
    if n_outputs > 1:
        return readout
    # The second class needs a score above this, `Forest` calls it a score of at least the next number.
    threshold = float(info.get("binclass_probability_threshold", 0.5))
    if not 0 < threshold < 1:
        raise FormatError(f"its probability threshold must be between 0 and 1, got {threshold}")
    return readout | {"decision_threshold": np.nextafter(-math.log(1 / threshold - 1), np.inf)}


def _objective(info: Mapping[str, Any], n_outputs: int) -> str:
    """Return the objective; for a classifier's own one, that of CatBoost whose scores are read in the same way."""
    objective = str(_params(info).get("loss_function", {}).get("type"))
    if objective in _CLASSIFIER_LINKS or objective in _LABELS or not _class_params(info):
        return objective
    return "Logloss" if n_outputs == 1 else "MultiClass"


def _params(info: Mapping[str, Any]) -> dict[str, Any]:
    params = info.get("params") or {}
    read: dict[str, Any] = json.loads(params) if isinstance(params, str) else params  # models of older versions
    return read


def _class_params(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the classes; nothing of a regressor."""
    params = info.get("class_params") or {}
    read: dict[str, Any] = json.loads(params) if isinstance(params, str) else params
    # Where the objective is the user's own, only the options of the training have them.
    names = _params(info).get("data_processing_options", {}).get("class_names")
    return read or ({"class_names": names} if names else {})


def _classes(params: Mapping[str, Any], n_classes: int) -> NDArray[Any]:
    """Return the label of each output."""
    names = params.get("class_names") or list(range(max(n_classes, params.get("classes_count", 0))))
    # A class that was announced but has no training rows has a name and no output.
    chosen = [names[label] for label in params.get("class_to_label") or range(n_classes)]
    dtypes = {"Integer": np.int64, "Float": np.float64, "Boolean": np.bool_, "String": object}
    classes = np.array([int(label) if type(label) is float and label.is_integer() else label for label in chosen])
    dtype = dtypes.get(params.get("class_label_type", ""))
    return classes if dtype is None else np.array(chosen, dtype)
