"""Boosting: trees whose votes count by their weight, as AdaBoost adds them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scurry.errors import UnsupportedModelError
from scurry.forest import Forest, Samme, as_member
from scurry.forest.structure import label_codes
from scurry.importers.wrappers.joined import Contribution, align, build, join


def import_boosting(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import an AdaBoostClassifier of trees.

    Each leaf votes for its largest class, which gets the weight of the tree; all others lose as much together.
    """
    kind, classes, n_classes = type(model).__name__, model.classes_, len(model.classes_)
    if n_classes < 2:
        raise UnsupportedModelError(f"this {kind} was fitted on a single class; fit it on at least two")
    forests = align([import_model(inside) for inside in model.estimators_], kind)
    if any(forest.n_trees > 1 or forest.wrapper is not None or forest.link != "identity" for forest in forests):
        raise UnsupportedModelError(
            f"this {kind} boosts models of several trees, which vote as one, so that no tree adds to a score; "
            "boost decision trees, or fit a gradient boosting model"
        )
    parts = []
    # A tree without a mistake ends the boosting, and the weights of those that were not fitted are 0.
    for forest, weight in zip(forests, model.estimator_weights_[: len(forests)], strict=True):
        codes = label_codes(classes, np.asarray(forest.classes), "classes")
        voted = codes[forest.value.argmax(axis=1)]
        share = np.where(voted[:, None] == np.arange(n_classes), weight, -1 / (n_classes - 1) * weight)
        # For two classes both columns are the same but for their sign.
        value = share[:, 1:] if n_classes == 2 else share
        parts.append(Contribution(value, np.zeros(value.shape[1]), forest.tree_output))
    members = [as_member(forest, np.arange(forest.n_classes)) for forest in forests]
    total = float(model.estimator_weights_.sum())
    if not total > 0:
        raise UnsupportedModelError(f"the weights of this {kind} add up to {total:g}; fit it on more or other rows")
    answer = {"link": "logistic", "link_scale": 2 / total, "decision_threshold": np.nextafter(0.0, 1.0)}
    if n_classes > 2:
        answer = {"link": "softmax", "link_scale": 1 / (total * (n_classes - 1))}
    return build(
        forests[0],
        join(members, parts) | answer,
        aggregation="sum",
        label_from="score",
        classes=classes,
        wrapper=Samme(n_classes=n_classes, total=total),
    )
