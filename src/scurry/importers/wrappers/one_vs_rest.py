"""One-vs-rest: a model of two classes for each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
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
    if model.multilabel_:
        raise UnsupportedModelError(
            f"this {kind} gives a row any number of labels; import the model of each label, model.estimators_[0], …"
        )
    if any(not hasattr(inside, "classes_") for inside in model.estimators_):
        raise UnsupportedModelError(f"this {kind} has a class without rows of its own; fit it on rows of all classes")
    response = "score" if hasattr(model.estimators_[0], "decision_function") else "probability"
    forests = align([import_model(inside) for inside in model.estimators_], kind)
    members = tuple(as_member(forest, np.arange(2)) for forest in forests)
    if len(members) == 1:
        # Above the middle, not from it on.
        middle = np.nextafter(0.0 if response == "score" else 0.5, 1.0)
        only = second_share(forests[0]) if is_mean(forests[0]) else forests[0]
        forest = with_threshold(only.replace(classes=classes), response, 1, float(middle))
        is_native = forest.wrapper is not None and not forest.wrapper.decides
        return forest.replace(wrapper=OneVsRest(members=members, response=response, native=is_native))
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


def _last_wins() -> bool:
    tied = OneVsRestClassifier(DummyClassifier()).fit([[0], [0], [0]], [0, 1, 2])
    return bool(tied.predict([[0]])[0] == 2)
