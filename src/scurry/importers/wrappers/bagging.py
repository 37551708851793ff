"""Bagging: the mean of models that were trained on parts of the rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scurry.errors import UnsupportedModelError
from scurry.forest import Averaged, Forest, as_member
from scurry.importers.wrappers.joined import align, build, join, mean_fields, place_features, trees_of


def import_bagging(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a BaggingClassifier or BaggingRegressor.

    The order of sums is the one of ``n_jobs=1``; with more jobs scikit-learn adds in another one.
    """
    kind, classes = type(model).__name__, getattr(model, "classes_", None)
    names = getattr(model, "feature_names_in_", None)
    if classes is not None and not all(hasattr(inside, "predict_proba") for inside in model.estimators_):
        raise UnsupportedModelError(f"the models in this {kind} have no predict_proba; pass models that have")
    forests = align(
        [
            place_features(import_model(inside), features, model.n_features_in_, names, kind)
            for inside, features in zip(model.estimators_, model.estimators_features_, strict=True)
        ],
        kind,
    )
    n_classes = 0 if classes is None else len(classes)
    # Models inside are trained on the numbers of classes.
    members = [as_member(forest, None if classes is None else np.asarray(forest.classes)) for forest in forests]
    if all(_is_one_tree(member) for member in members):
        # The mean of single trees is what a forest is.
        fields = join(members, trees_of(members, n_classes))
        return build(forests[0], fields, aggregation="mean", classes=classes)
    wrapper = Averaged(members=tuple(members), n_classes=n_classes)
    return build(forests[0], mean_fields(members, wrapper.shares, n_classes), classes=classes, wrapper=wrapper)


def _is_one_tree(forest: Forest) -> bool:
    is_plain = forest.link == "identity" and forest.aggregation == "mean" and forest.score_dtype == "float64"
    return forest.n_trees == 1 and forest.wrapper is None and is_plain and not forest.base_score.any()
