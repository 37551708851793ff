"""Models of several others: their mean, their vote, their weighted sum, one for each class, and isolating trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.ensemble._iforest import _average_path_length
from sklearn.multiclass import OneVsRestClassifier

from scurry.errors import UnsupportedModelError
from scurry.forest import Averaged, Forest, Isolation, OneVsRest, Samme, Voted, as_member
from scurry.forest.structure import label_codes
from scurry.importers.wrappers.calibration import second_share, with_threshold
from scurry.importers.wrappers.joined import (
    Contribution,
    align,
    answers_float32,
    build,
    first_true,
    is_mean,
    join,
    log_odds,
    mean_fields,
    place_features,
    trees_of,
)


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
        if all(_is_one_tree(member) for member in members):
            return _join_votes(forests[0], members, classes, weights)
        wrapper = Voted(members=members, n_classes=n_classes, weights=weights)
    else:
        # numpy averages float32 numbers in float32, unless weights are wider.
        narrow = weights is None and all(answers_float32(inside) for inside in model.estimators_)
        wrapper = Averaged(
            members=members, n_classes=n_classes, weights=weights, dtype="float32" if narrow else "float64"
        )
    return build(forests[0], mean_fields(members, wrapper.shares, n_classes), classes=classes, wrapper=wrapper)


def _join_votes(
    like: Forest, members: Sequence[Forest], classes: NDArray[Any], weights: tuple[float, ...] | None
) -> Forest:
    """Return the forest of single trees, each of which has one vote, or one that counts by its weight."""
    n_classes, parts = len(classes), []
    for member, weight in zip(members, weights or (1.0,) * len(members), strict=True):
        voted = np.asarray(member.classes)[member.leaf_values().argmax(axis=1)]
        value = np.where(voted[:, None] == np.arange(n_classes), weight, 0.0)
        parts.append(Contribution(value, np.zeros(n_classes), np.full(1, -1, np.int32)))
    fields = join(members, parts)
    if weights is None:
        return build(like, fields, aggregation="vote", classes=classes, wrapper=Voted(n_classes=n_classes))
    # Sums of weights, added up as scikit-learn does: one tree after the other, from 0 on.
    wrapper = Voted(n_classes=n_classes, weights=weights)
    return build(like, fields, aggregation="sum", label_from="score", classes=classes, wrapper=wrapper)


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
