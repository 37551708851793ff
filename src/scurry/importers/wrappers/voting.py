"""Voting: the mean of different models, or the label that most of them give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scurry.errors import UnsupportedModelError
from scurry.forest import Averaged, Forest, Voted, as_member
from scurry.importers.wrappers.joined import align, build, mean_fields


def import_voting(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a VotingClassifier, soft or hard, or a VotingRegressor."""
    kind, classes = type(model).__name__, getattr(model, "classes_", None)
    if classes is not None and not isinstance(classes, np.ndarray):
        raise UnsupportedModelError(f"this {kind} predicts several labels at once; fit one model for each")
    forests = align([import_model(inside) for inside in model.estimators_], kind)
    # Models inside are trained on the numbers of classes.
    members = tuple(as_member(forest, None if classes is None else np.asarray(forest.classes)) for forest in forests)
    n_classes = 0 if classes is None else len(classes)
    weights = None if model.weights is None else tuple(map(float, model._weights_not_none))
    wrapper: Averaged | Voted
    if classes is not None and model.voting == "hard":
        wrapper = Voted(members=members, n_classes=n_classes, weights=weights)
    else:
        # numpy averages float32 numbers in float32, unless weights are wider.
        narrow = weights is None and all(answers_float32(inside) for inside in model.estimators_)
        wrapper = Averaged(
            members=members, n_classes=n_classes, weights=weights, dtype="float32" if narrow else "float64"
        )
    return build(forests[0], mean_fields(members, wrapper.shares, n_classes), classes=classes, wrapper=wrapper)


def answers_float32(model: Any) -> bool:
    """Return whether the probabilities or values of a model are float32 numbers: XGBoost's are."""
    return any(cls.__module__.startswith("xgboost") for cls in type(model).__mro__)
