"""Importer of scikit-learn estimators.

What each estimator computes, and so what its forest says:

====================  ========  ====================================  =========================
estimators            inputs    score                                 label
====================  ========  ====================================  =========================
DecisionTree,         float32   mean of the leaves' class fractions   argmax
RandomForest, Extra*            or target values, in tree order
GradientBoosting      float32   init + learning rate times leaves     ``score >= 0``, or argmax
HistGradientBoosting  float64   baseline + leaves                     ``score > 0``, or argmax
====================  ========  ====================================  =========================

All sums are float64. A forest predicting with ``n_jobs`` > 1 adds its trees in the order its threads finish; the order
here is the one of ``n_jobs=1``. Rows that `predict` refuses (infinities; NaN for GradientBoosting) go where
``tree_.apply`` sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from scurry.checks import check_output
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest, mean_of_leaves

_AVERAGED = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
_SINGLE = (DecisionTreeClassifier, DecisionTreeRegressor)
_BOOSTED = (GradientBoostingClassifier, GradientBoostingRegressor)
_HIST_BOOSTED = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)

_LINKS = {
    "IdentityLink": ("identity", 1.0),
    "LogLink": ("exp", 1.0),
    "LogitLink": ("logistic", 1.0),
    "HalfLogitLink": ("logistic", 2.0),
    "MultinomialLogit": ("softmax", 1.0),
}
"""Name and scale of the map from scores to predictions, by the class of the loss's link."""


def import_model(model: Any, output: int | None = None) -> Forest:
    """Import a fitted scikit-learn estimator.

    Parameters
    ----------
    model : estimator
        A decision tree, forest or gradient boosting model, without wrappers (see `unwrap`).
    output : int, optional
        Of several targets, the one to predict.

    Returns
    -------
    Forest

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import_model(DecisionTreeRegressor().fit([[0.0], [1.0]], [3.0, 5.0])).predict([[0.2], [0.8]])
    array([3., 5.])
    """
    _check_supported(model)
    output = check_output(output, getattr(model, "n_outputs_", 1), type(model).__name__)
    if isinstance(model, _AVERAGED):
        return _import_averaged(model, model.estimators_, output)
    if isinstance(model, _SINGLE):
        return _import_averaged(model, [model], output)
    return _import_boosted(model) if isinstance(model, _BOOSTED) else _import_hist_boosted(model)


def is_ensemble(model: Any) -> bool:
    """Return whether a model is a tree or an ensemble of trees, which `import_model` reads."""
    return isinstance(model, _AVERAGED + _SINGLE + _BOOSTED + _HIST_BOOSTED)


def is_pipeline(model: Any) -> bool:
    """Return whether a model is a ``Pipeline``."""
    return isinstance(model, Pipeline)


def has_model_for_each_output(model: Any) -> bool:
    """Return whether a model is fitted, and has a model of its own for each of its targets."""
    return isinstance(model, MultiOutputClassifier | MultiOutputRegressor) and hasattr(model, "estimators_")


def unwrap(model: Any) -> Any:
    """Return the model inside a ``FrozenEstimator``, or the best of a search such as ``GridSearchCV``.

    Parameters
    ----------
    model : estimator

    Returns
    -------
    estimator
        `model` itself if it is no wrapper.
    """
    if isinstance(model, FrozenEstimator):
        return model.estimator
    if isinstance(model, BaseSearchCV):
        if not hasattr(model, "best_estimator_"):
            raise UnsupportedModelError(
                f"this {type(model).__name__} has no best_estimator_; fit it with refit=True before importing it"
            )
        return model.best_estimator_
    if isinstance(model, TransformedTargetRegressor):
        raise UnsupportedModelError(
            "a TransformedTargetRegressor maps its predictions by a function that a forest does not have. Import "
            "model.regressor_, and apply model.transformer_.inverse_transform to what its forest predicts"
        )
    return model


def _check_supported(model: Any) -> None:
    kind = type(model).__name__
    if not is_ensemble(model):
        raise UnsupportedModelError(
            f"cannot import a {kind}; of scikit-learn, DecisionTree, ExtraTree, RandomForest, ExtraTrees, "
            "GradientBoosting and HistGradientBoosting classifiers and regressors are accepted. "
            + ("Pass its best_estimator_" if hasattr(model, "best_estimator_") else "If it holds some, pass one")
        )
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise UnsupportedModelError(f"this {kind} is not fitted; call fit before importing it") from error
    for name in ("predict", "predict_proba"):
        method = getattr(type(model), name, None)
        if method is not None and not method.__module__.startswith("sklearn."):
            raise UnsupportedModelError(
                f"{kind} has its own {name}, so its answers need not be those of its trees; "
                "fit the scikit-learn estimator it is derived from"
            )


def _describe(model: Any) -> dict[str, Any]:
    """Return what every estimator says about its columns and labels."""
    return {
        "n_features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", None),
        "classes": getattr(model, "classes_", None),
    }


def _import_averaged(model: Any, trees: Sequence[Any], output: int) -> Forest:
    """Import a single tree, or trees whose values are averaged."""
    about = _describe(model)
    if isinstance(about["classes"], list):
        about["classes"] = about["classes"][output]
    # Targets of fewer classes than others have columns that are never used.
    n_columns = None if about["classes"] is None else len(about["classes"])
    value = np.concatenate([tree.tree_.value[:, output, :n_columns] for tree in trees])
    return Forest(**about, **_join_trees(trees), value=value, aggregation="mean")


def _join_trees(trees: Sequence[Any]) -> dict[str, Any]:
    """Return the node arrays of fitted decision trees, all but their values."""
    if any(np.any(getattr(tree, "is_categorical_", None)) for tree in trees):
        raise UnsupportedModelError(
            "categorical splits of scikit-learn's decision trees and random forests are not supported; "
            "encode the categories as numbers before fitting, or fit HistGradientBoosting"
        )

    def join(name: str) -> NDArray[Any]:
        # By attribute: the layout of a node differs between versions of scikit-learn.
        return np.concatenate([getattr(tree.tree_, name) for tree in trees])

    offset = _offsets([tree.tree_.node_count for tree in trees])
    cover = join("weighted_n_node_samples")
    if not (cover > 0).all():
        # Negative sample weights: a node's weight no longer says how much data reached it, its rows do.
        cover = join("n_node_samples").astype(np.float64)
    return {
        "tree_offset": offset,
        "feature": join("feature").astype(np.int32),
        "threshold": join("threshold"),
        "left": _global_children(join("children_left"), offset),
        "right": _global_children(join("children_right"), offset),
        "default_left": join("missing_go_to_left").astype(np.bool_),
        "cover": cover,
    }


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _global_children(child: NDArray[Any], offset: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return children as indices into all nodes, from indices inside each tree; -1 stays."""
    size = np.diff(offset)
    inside = np.arange(len(child)) - np.repeat(offset[:-1], size)
    # Before anything walks the trees: a child that is no later node of its tree could lead in a circle.
    if ((child < -1) | (child >= np.repeat(size, size)) | ((child >= 0) & (child <= inside))).any():
        raise InputError("a node has a child that is not a later node of its tree")
    return np.where(child < 0, -1, child + np.repeat(offset[:-1], np.diff(offset))).astype(np.int32)


def _import_boosted(model: Any) -> Forest:
    if not _is_constant(model.init_):
        raise UnsupportedModelError(
            f"this {type(model).__name__} starts from predictions of init={model.init_!r}, which are not trees; "
            "fit it with init=None or init='zero'"
        )
    n_outputs = model.estimators_.shape[1]
    trees = model.estimators_.ravel()
    arrays = _join_trees(trees)
    leaf_value = float(model.learning_rate) * np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees])
    return Forest(
        **_describe(model),
        **arrays,
        # Inner nodes hold mean residuals from before the line search that set the leaves.
        value=_fill_values(arrays, leaf_value),
        tree_output=np.arange(len(trees)) % n_outputs,
        base_score=model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0],
        **_read_link(model),
    )


def _is_constant(init: Any) -> bool:
    """Return whether a GradientBoosting `init_` gives all rows the same start."""
    if isinstance(init, DummyClassifier):
        return bool(init.strategy != "stratified")
    return isinstance(init, DummyRegressor) or (isinstance(init, str) and init == "zero")


def _read_link(model: Any) -> dict[str, Any]:
    """Return how a boosted model turns scores into labels and predictions."""
    name = type(model._loss.link).__name__
    if name not in _LINKS:
        raise UnsupportedModelError(
            f"this {type(model).__name__} has a loss with an unknown link, {name}; fit it with another loss"
        )
    link, link_scale = _LINKS[name]
    return {"aggregation": "sum", "link": link, "link_scale": link_scale, "label_from": "score"}


def _fill_values(arrays: dict[str, Any], leaf_value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one column of values; those of inner nodes are made consistent with the leaves below them."""
    means = mean_of_leaves(arrays["tree_offset"], arrays["left"], arrays["right"], arrays["cover"], leaf_value)
    return means[:, None]


def _import_hist_boosted(model: Any) -> Forest:
    header = _describe(model)
    if header["classes"] is not None and len(header["classes"]) == 1:
        raise UnsupportedModelError(
            f"this {type(model).__name__} was fitted on the single class {header['classes'][0]!r}, "
            "and decides nothing; fit it on at least two"
        )
    predictors = [predictor for iteration in model._predictors for predictor in iteration]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    offset = _offsets([len(predictor.nodes) for predictor in predictors])
    leaf = nodes["is_leaf"].astype(np.bool_)
    arrays: dict[str, Any] = {
        "tree_offset": offset,
        "threshold": nodes["num_threshold"],
        "left": _global_children(np.where(leaf, -1, nodes["left"].astype(np.int64)), offset),
        "right": _global_children(np.where(leaf, -1, nodes["right"].astype(np.int64)), offset),
        "default_left": nodes["missing_go_to_left"].astype(np.bool_),
        "cover": nodes["count"].astype(np.float64),
    }
    return Forest(
        **header,
        **arrays,
        **_hist_features(model, predictors, nodes, offset),
        value=_fill_values(arrays, nodes["value"]),
        tree_output=np.arange(len(predictors)) % model.n_trees_per_iteration_,
        base_score=model._baseline_prediction.ravel(),
        input_dtype="float64",
        decision_threshold=np.nextafter(0.0, 1.0),  # positive above 0, not at 0
        **_read_link(model),
    )


def _hist_features(
    model: Any, predictors: Sequence[Any], nodes: NDArray[Any], offset: NDArray[np.int64]
) -> dict[str, Any]:
    """Return the column that each node reads and, with categorical columns, the sets of categories that go left."""
    if model._preprocessor is None:
        return {"feature": nodes["feature_idx"].astype(np.int32)}
    # The model's trees read rows whose categorical columns were encoded and moved to the front.
    categorical, numeric = np.flatnonzero(model.is_categorical_), np.flatnonzero(~model.is_categorical_)
    encoder = model._preprocessor.named_transformers_["encoder"]
    bitsets = [predictor.raw_left_cat_bitsets for predictor in predictors]
    first_set = np.repeat(_offsets([len(sets) for sets in bitsets])[:-1], np.diff(offset))
    words = np.concatenate(bitsets)
    return {
        "feature": np.concatenate([categorical, numeric])[nodes["feature_idx"]].astype(np.int32),
        "category_set": np.where(nodes["is_categorical"].astype(np.bool_), nodes["bitset_idx"] + first_set, -1),
        "category_offset": np.arange(len(words) + 1) * words.shape[1],
        "category_bits": words.ravel(),
        "categories": {
            j: _read_categories(getattr(model, "feature_names_in_", range(len(model.is_categorical_)))[j], values)
            for j, values in zip(categorical.tolist(), encoder.categories_, strict=True)
        },
        "encode_numbers": True,
    }


def _read_categories(name: str | int, categories: NDArray[Any]) -> NDArray[Any]:
    """Return the encoder's values without NaN, which it puts last. None is a category like any other."""
    last = categories[-1:].tolist()
    known = categories[:-1] if last and last[0] != last[0] else categories
    if known.dtype.kind in "Mm" or not all(isinstance(value, str | int | float | None) for value in known.tolist()):
        raise UnsupportedModelError(
            f"column {name!r} has categories that are neither texts nor numbers, for example {known[0]!r}, which "
            "tables of different libraries hold as different values; fit on texts instead"
        )
    return known
