"""One-vs-rest: a model of two classes for each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.multiclass import OneVsRestClassifier

from scurry.errors import UnsupportedModelError
from scurry.forest import Forest, OneVsRest, as_member
from scurry.importers.wrappers.joined import align, build, is_mean, join, log_odds
from scurry.importers.wrappers.thresholds import second_share, with_threshold


def import_one_vs_rest(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a OneVsRestClassifier for one label per row.

    Of classes with equal responses, some versions of scikit-learn answer the first and others the last.
    """
    kind, classes = type(model).__name__, model.classes_
    if any(not hasattr(inside, "classes_") for inside in model.estimators_):
        raise UnsupportedModelError(f"this {kind} has a class without rows of its own; fit it on rows of all classes")
    response = _response_of(model.estimators_[0])
    forests = align([import_model(inside) for inside in model.estimators_], kind)
    if len(forests) == 1:
        return _import_single(forests[0], response, 0.0 if response == "score" else 0.5, classes)
    members = tuple(as_member(forest, np.arange(2)) for forest in forests)
    n_classes = len(classes)
    parts = [
        log_odds(member).place(np.array([at]), n_classes, np.diff(member.tree_offset))
        for at, member in enumerate(members)
    ]
    return build(
        forests[0],
        join(members, parts),
        aggregation="sum",
        link="softmax",
        label_from="score",
        classes=classes,
        wrapper=OneVsRest(members=members, response=response, last_wins=_last_wins()),
    )


def import_label(model: Any, import_model: Callable[[Any], Forest], label: int) -> Forest:
    """Import what a OneVsRestClassifier for any number of labels per row says about one of them: 1 or 0."""
    inside = model.estimators_[label]
    if not hasattr(inside, "classes_"):
        raise UnsupportedModelError(
            f"label {label} of this {type(model).__name__} is on all training rows or on none, so that it has no "
            "model; leave it out, and import the others by their numbers"
        )
    # The first label says for all of them what responses are compared with, even if it has no model.
    first = model.estimators_[0]
    middle = 0.0 if is_classifier(first) and _response_of(first) == "score" else 0.5
    return _import_single(import_model(inside), _response_of(inside), middle, np.arange(2))


def _import_single(forest: Forest, response: str, middle: float, classes: NDArray[Any]) -> Forest:
    """Return a forest of two classes that answers the second one above the middle, not from it on."""
    member = as_member(forest, np.arange(2))
    only = second_share(forest) if is_mean(forest) else forest
    found = with_threshold(only.replace(classes=classes), response, 1, float(np.nextafter(middle, 1.0)))
    is_native = found.wrapper is not None and not found.wrapper.decides
    return found.replace(wrapper=OneVsRest(members=(member,), response=response, native=is_native))


def _response_of(inside: Any) -> str:
    return "score" if hasattr(inside, "decision_function") else "probability"


def _last_wins() -> bool:
    tied = OneVsRestClassifier(DummyClassifier()).fit([[0], [0], [0]], [0, 1, 2])
    return bool(tied.predict([[0]])[0] == 2)
