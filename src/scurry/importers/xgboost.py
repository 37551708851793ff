"""Importer of XGBoost models, from objects or from JSON and UBJ files; XGBoost itself is not needed.

What XGBoost does, measured against its 1.7 to 3.2 releases and reproduced to the last bit:

- rows are float32; ``x < threshold`` goes left, a category of the node's set goes right, NaN goes the default way;
- a margin is the float32 sum of the base margin and the leaves, in tree order; the base margin is the objective's
  inverse link of ``base_score``, in float32 by the C library's ``logf``;
- "dart" multiplies each leaf by its tree's weight; where the scikit-learn interface predicts, it adds the base margin
  to the leaf and takes it away again before it does so, which rounds;
- the scikit-learn interface stops at the best iteration of early stopping, `Booster.predict` does not.

A file written by the scikit-learn interface says so, and is read as what that interface would predict.
"""

from __future__ import annotations

import json
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.importers import ubjson
from scurry.importers.xgboost_trees import count, field, numbers, read_trees

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


def import_model(model: Any) -> Forest:
    """Import a trained XGBoost `Booster`, or an estimator of its scikit-learn interface.

    Parameters
    ----------
    model : Booster, XGBClassifier, XGBRegressor, XGBRanker, XGBRFClassifier or XGBRFRegressor

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
    return _import_document(ubjson.loads(bytes(model.save_raw("ubj"))), estimator)


def import_file(path: str | PathLike[str]) -> Forest:
    """Import a model that XGBoost saved as JSON or UBJ.

    Parameters
    ----------
    path : str or path

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
        return _import_document(document, _saved_estimator(document))
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
        return ubjson.loads(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is neither JSON nor UBJSON: {error}") from error


def _saved_estimator(document: Any) -> str | None:
    """Return the kind of estimator that saved the document, None if it was a `Booster`."""
    attributes = field(field(document, "learner", dict), "attributes", dict)
    try:
        saved = json.loads(attributes.get("scikit_learn", "{}"))
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError("the model's attribute 'scikit_learn' is not JSON") from error
    return saved.get("_estimator_type") if isinstance(saved, dict) else None


def _import_document(document: Any, estimator: str | None) -> Forest:
    """Import a document as its estimator predicts ("classifier", "regressor", "ranker"), or as a `Booster` (None)."""
    learner = field(document, "learner", dict)
    parameters = field(learner, "learner_model_param", dict)
    attributes = field(learner, "attributes", dict)
    objective = field(field(learner, "objective", dict), "name", str)
    model, tree_weight = _boosted_trees(field(learner, "gradient_booster", dict))
    n_outputs = _output_count(parameters, field(model, "trees", list))
    readout = _readout(objective, n_outputs, estimator)
    version = numbers([document], "version", np.int64).tolist()
    base_score = _base_margins(parameters, n_outputs, _LINKS[objective], version)
    n_trees = _trees_used(model, attributes, estimator, n_outputs)
    output = numbers([model], "tree_info", np.int32)[:n_trees]
    if len(output) != n_trees or output.min() < 0 or output.max() >= n_outputs:
        raise FormatError(f"the model's 'tree_info' must give one of {n_outputs} outputs to each of {n_trees} trees")
    trees = read_trees(model["trees"][:n_trees])
    leaf_value = np.where(trees.left < 0, trees.condition, np.float32(0))
    if tree_weight is not None:
        of_node = np.repeat(np.arange(n_trees), np.diff(trees.offset))
        with np.errstate(over="ignore", invalid="ignore"):
            if estimator is not None:  # the third rule above: added and taken away again, in float32
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


def _output_count(parameters: dict[str, Any], trees: list[Any]) -> int:
    """Return the number of margins that a row gets: one per class, or one."""
    if "num_target" in parameters and count(parameters, "num_target") > 1:
        raise UnsupportedModelError(
            "this XGBoost model predicts several targets, a scurry forest one; train and import one model per target"
        )
    if not trees:
        raise UnsupportedModelError("this XGBoost model has no trees; train it for at least one round")
    if max(count(field(tree, "tree_param", dict), "size_leaf_vector") for tree in trees) > 1:
        raise UnsupportedModelError(
            "this XGBoost model has trees with vector leaves (multi_strategy='multi_output_tree'); "
            "train it with multi_strategy='one_output_per_tree'"
        )
    n_outputs = max(count(parameters, "num_class"), 1)
    if n_outputs > len(trees):
        raise FormatError(f"the model has {n_outputs} classes but only {len(trees)} trees")
    return n_outputs


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
    """Return the model of a "gbtree" or "dart" booster, and the latter's tree weights."""
    name = field(booster, "name", str)
    if name == "dart":
        model = field(field(booster, "gbtree", dict), "model", dict)
        weight = numbers([booster], "weight_drop", np.float32)
        if len(weight) != len(field(model, "trees", list)):
            raise FormatError(f"the model has {len(weight)} tree weights for {len(model['trees'])} trees")
        return model, weight
    if name != "gbtree":
        raise UnsupportedModelError(f"the XGBoost booster {name!r} has no trees; supported are gbtree and dart")
    return field(booster, "model", dict), None


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
