"""Isolation: outliers are rows that few tests isolate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble._iforest import _average_path_length

from scurry.forest import Forest, Isolation, as_member
from scurry.importers.wrappers.floats import first_true
from scurry.importers.wrappers.joined import Contribution, align, build, join, place_features


def import_isolation(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import an IsolationForest: a classifier with the labels -1 (outlier) and 1.

    The score of a row is the number of tests on its way through all trees, and what its leaves would take more. A row
    is an inlier from that number on at which the score less the offset is no longer negative.
    """
    kind = type(model).__name__
    forests = align(
        [
            place_features(
                import_model(tree), features, model.n_features_in_, getattr(model, "feature_names_in_", None), kind
            )
            for tree, features in zip(model.estimators_, model.estimators_features_, strict=True)
        ],
        kind,
    )
    parts = []
    for forest, depths, rest in zip(
        forests, model._decision_path_lengths, model._average_path_length_per_tree, strict=True
    ):
        tests = np.where(forest.is_leaf, depths + rest - 1.0, forest.node_depth + rest)
        parts.append(Contribution(tests[:, None], np.zeros(1), forest.tree_output))
    members = [as_member(forest, None) for forest in forests]
    expected = float(len(forests) * _average_path_length([model._max_samples])[0])
    wrapper = Isolation(expected=expected, offset=float(model.offset_))
    longest = float(sum(part.value.max() for part in parts)) + 1.0
    threshold = first_true(
        lambda depth: not wrapper.score_samples(np.array([depth]))[0] - wrapper.offset < 0, -longest, longest
    )
    return build(
        forests[0],
        join(members, parts),
        aggregation="sum",
        label_from="score",
        decision_threshold=threshold,
        classes=np.array([-1, 1]),
        wrapper=wrapper,
    )
