"""Importers of scikit-learn's models around other models: bagged, voting, boosted, calibrated, with a threshold.

Models of several others are their mean, their vote, their weighted sum, one for each class, or isolating trees.

Others map the response of a model to calibrated probabilities, or have a threshold that decides between two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.ensemble._iforest import _average_path_length
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import _check_response_method, check_is_fitted

from scurry.errors import UnsupportedModelError
from scurry.forest import (
    Averaged,
    Calibrated,
    Forest,
    Isolation,
    OneVsRest,
    Samme,
    Thresholded,
    Voted,
    as_member,
    first_true,
    label_codes,
    neighbours,
)
from scurry.forest.wrappers import logistic
from scurry.importers.wrappers.joined import (
    Contribution,
    affine,
    align,
    answers_float32,
    build,
    is_mean,
    join,
    line,
    log_odds,
    mean_fields,
    own_scores,
    place_features,
    single,
    spread_classes,
    trees_of,
)


def import_calibrated(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a CalibratedClassifierCV: one calibrated model, or the mean of several."""
    kind, classes = type(model).__name__, model.classes_
    forests = align([_import_pair(pair, classes, import_model) for pair in model.calibrated_classifiers_], kind)
    if len(forests) == 1:
        return forests[0]
    members = tuple(as_member(forest, np.arange(len(classes))) for forest in forests)
    wrapper = Averaged(members=members, n_classes=len(classes))
    return build(forests[0], mean_fields(members, wrapper.shares, len(classes)), classes=classes, wrapper=wrapper)


def _import_pair(pair: Any, classes: NDArray[Any], import_model: Callable[[Any], Forest]) -> Forest:
    """Import a fitted classifier with its fitted calibrators."""
    forest = import_model(pair.estimator)
    if not forest.is_classifier or forest.n_classes < 2:
        raise UnsupportedModelError("a calibrated model must tell classes apart; fit it on rows of two or more")
    method = _check_response_method(pair.estimator, ["decision_function", "predict_proba"]).__name__
    codes = label_codes(classes, np.asarray(forest.classes), "classes")
    wrapper = Calibrated(
        members=(as_member(forest, codes),),
        n_classes=len(classes),
        method=pair.method,
        response="probability" if method == "predict_proba" else "score",
        maps=tuple(_read_map(calibrator, pair.method) for calibrator in pair.calibrators),
        dtype=_precision(pair),
    )
    return _decide_by_score(forest, wrapper, classes) or build(
        forest, _fields(wrapper), label_from="score", classes=classes, wrapper=wrapper
    )


def _read_map(calibrator: Any, method: str) -> tuple[float, ...]:
    if method == "sigmoid":
        return float(calibrator.a_), float(calibrator.b_)
    if method == "temperature":
        return (float(calibrator.beta_),)
    return (*map(float, calibrator.X_thresholds_), *map(float, calibrator.y_thresholds_))


def _precision(pair: Any) -> str:
    """Return the precision in which maps compute: that of what they were fitted to."""
    if pair.method == "sigmoid":
        return "float64"
    first = pair.calibrators[0]
    return str((first.X_thresholds_ if pair.method == "isotonic" else np.asarray(first.beta_)).dtype)


def _decide_by_score(forest: Forest, wrapper: Calibrated, classes: NDArray[Any]) -> Forest | None:
    """Return a forest of two classes that decides by a threshold on its own score, which is the response.

    None if the response is no score of the forest, or if labels do not change at one score: maps fall where a model is
    worse than a guess, and rounding can make an isotonic map fall by a bit at its knots.
    """
    is_share = is_mean(forest) and wrapper.response == "probability"
    is_score = wrapper.response == "score" and forest.n_outputs == 1
    is_known = forest.n_classes == len(classes) == 2 and forest.wrapper is None and forest.score_dtype == "float64"
    if not is_known or not (is_share or is_score):
        return None
    own = replace(wrapper, members=())
    every = np.arange(2)

    def label(scores: list[float]) -> NDArray[np.intp]:
        return np.asarray(own.calibrate(np.array(scores)[:, None], every).argmax(axis=1))

    least, most = 0.0, 1.0 + 5e-13  # a mean of shares may be above 1 by rounding
    if is_score:
        leaves = np.abs(forest.leaf_values()).max(axis=1)
        most = float(np.maximum.reduceat(leaves, forest.tree_offset[:-1]).sum() + np.abs(forest.base_score).max()) + 1.0
        least = -most
    threshold = first_true(lambda score: bool(label([score])[0]), least, most)
    places = list(wrapper.maps[0][: len(wrapper.maps[0]) // 2]) if wrapper.method == "isotonic" else []
    tried = [x for at in (threshold, *places) for x in neighbours(at, 256 if at == threshold else 2)]
    tried = [x for x in (*tried, least, most) if least <= x <= most]
    if (label(tried).astype(bool) != (np.array(tried) >= threshold)).any():
        return None
    fields: dict[str, Any] = {"decision_threshold": threshold, "classes": classes, "wrapper": own}
    if is_share:
        fields |= {"value": forest.leaf_values()[:, 1:], "base_score": forest.base_score[1:], "aggregation": "mean"}
    return forest.replace(**fields)


def _fields(wrapper: Calibrated) -> dict[str, Any]:
    """Return the sum that stands for a calibrated model: the log-odds of its classes, as good as lines can tell."""
    member, n_classes = wrapper.members[0], wrapper.n_classes
    part = _response(wrapper)
    if n_classes == 2:
        return join([member], [single(affine(part, *line(wrapper, 0)))]) | {"aggregation": "sum", "link": "logistic"}
    placed = spread_classes(part, member, n_classes, np.diff(member.tree_offset))
    slopes, intercepts = np.zeros(n_classes), np.zeros(n_classes)
    for at, code in enumerate(np.asarray(member.classes).tolist()):
        slopes[code], intercepts[code] = line(wrapper, at)
    lines = Contribution(placed.value * slopes, placed.base * slopes + intercepts, placed.output)
    return join([member], [lines]) | {"aggregation": "sum", "link": "softmax"}


def _response(wrapper: Calibrated) -> Contribution:
    """Return what nodes add to the response that is calibrated, as good as a sum can tell."""
    member: Forest = wrapper.members[0]
    if wrapper.response == "score":
        if isinstance(member.wrapper, Samme):
            return own_scores(member).scale((2.0 if member.n_classes == 2 else 1.0) / member.wrapper.total)
        return own_scores(member) if member.wrapper is None else log_odds(member)
    # A probability grows with log-odds by this slope where all classes are as probable.
    n = member.n_classes
    return affine(log_odds(member), 1.0 / 4 if n == 2 else 1.0 / n, 1.0 / n)


def import_threshold(model: Any, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a FixedThresholdClassifier or a TunedThresholdClassifierCV."""
    kind = type(model).__name__
    inside = getattr(model, "estimator_", model.estimator)
    forest = import_model(inside)
    if forest.n_classes != 2:
        raise UnsupportedModelError(f"this {kind} has {forest.n_classes} classes; a threshold divides two")
    method = _check_response_method(inside, model._get_response_method()).__name__
    response = "probability" if method == "predict_proba" else "score"
    if isinstance(model, TunedThresholdClassifierCV):
        threshold, label = model.best_threshold_, model._curve_scorer._get_pos_label()
    else:
        threshold, label = model.threshold, model.pos_label
        if isinstance(threshold, str):  # "auto"
            threshold = 0.5 if response == "probability" else 0.0
    if response == "probability" and type(threshold) is float and answers_float32(inside):
        threshold = np.float32(threshold)  # as numpy compares a Python number with float32
    positive = 1 if label is None else int(forest.codes_of([label])[0])
    return with_threshold(forest, response, positive, float(threshold))


def with_threshold(forest: Forest, response: str, positive: int, threshold: float) -> Forest:
    """Return a forest that answers one class from a threshold on its response on."""
    member = as_member(forest, np.arange(2))
    wrapper = Thresholded(members=(member,), response=response, positive=positive, threshold=threshold)
    if is_mean(forest):
        # One score, the share of the second class.
        forest = second_share(forest)
    own = _own_threshold(forest, wrapper)
    if own is not None:
        return forest.replace(decision_threshold=own, wrapper=replace(wrapper, native=True))
    return forest.replace(decision_threshold=_near_threshold(forest, wrapper), wrapper=wrapper)


def second_share(forest: Forest) -> Forest:
    """Return a forest of two classes whose only score is the share of the second."""
    values, base = forest.leaf_values()[:, 1:], forest.base_score[1:]
    return forest.replace(value=values, base_score=base, aggregation="mean", wrapper=forest.wrapper)


def _own_threshold(forest: Forest, wrapper: Thresholded) -> float | None:
    """Return the score from which on a plain forest answers the second class; None if no single score decides."""
    if forest.wrapper is not None or forest.score_dtype != "float64" or forest.n_outputs != 1:
        return None
    threshold, positive = wrapper.threshold, wrapper.positive
    is_share = forest.link == "identity" and forest.aggregation == "mean"
    if wrapper.response == "score":
        return threshold if positive else float(np.nextafter(-threshold, np.inf))
    if is_share and positive:
        return threshold
    if forest.link != "logistic":
        return None

    def is_second(scores: list[float]) -> NDArray[np.bool_]:
        shares = logistic(forest.link_scale * np.array(scores))
        return np.asarray(shares >= threshold if positive else ~(1.0 - shares >= threshold))

    largest = 1000.0 / forest.link_scale  # far beyond what the logistic function tells from 0 and 1
    found = first_true(lambda score: bool(is_second([score])[0]), -largest, largest)
    tried = neighbours(found, 256)
    return found if (is_second(tried) == (np.array(tried) >= found)).all() else None


def _near_threshold(forest: Forest, wrapper: Thresholded) -> float:
    """Return about the score from which on the second class is answered; it says where early exits begin to look."""
    second = wrapper.threshold if wrapper.positive else 1.0 - wrapper.threshold
    if forest.n_outputs != 1 or wrapper.response == "score":
        return forest.decision_threshold
    if forest.link == "identity":
        return float(second)
    second = float(np.clip(second, 1e-6, 1 - 1e-6))
    return float(np.log(second / (1 - second)) / forest.link_scale)


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
    # Values are added up as they are, probabilities in float64.
    is_narrow = classes is None and all(map(answers_float32, model.estimators_))
    wrapper = Averaged(members=tuple(members), n_classes=n_classes, dtype="float32" if is_narrow else "float64")
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
    for member in members:
        voted = np.asarray(member.classes)[member.leaf_values().argmax(axis=1)]
        value = (voted[:, None] == np.arange(n_classes)).astype(np.float64)
        parts.append(Contribution(value, np.zeros(n_classes), np.full(1, -1, np.int32)))
    wrapper = Voted(n_classes=n_classes)
    forest = build(like, join(members, parts), aggregation="vote", classes=classes, wrapper=wrapper)
    return forest if weights is None else forest.with_vote_weights(weights)


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


__all__ = ["count_labels", "import_wrapper", "is_wrapper"]

Import = Callable[[Any], Forest]

_IMPORTERS: dict[type, Callable[[Any, Import], Forest]] = {
    IsolationForest: import_isolation,
    BaggingClassifier: import_bagging,
    BaggingRegressor: import_bagging,
    VotingClassifier: import_voting,
    VotingRegressor: import_voting,
    AdaBoostClassifier: import_boosting,
    CalibratedClassifierCV: import_calibrated,
    FixedThresholdClassifier: import_threshold,
    TunedThresholdClassifierCV: import_threshold,
    OneVsRestClassifier: import_one_vs_rest,
}
_REFUSED: dict[type, str] = {
    AdaBoostRegressor: "it answers with the weighted median of its trees, which no sum of leaves is; fit "
    "GradientBoostingRegressor or HistGradientBoostingRegressor",
    StackingClassifier: "its last model reads the answers of the others, so that no tree of theirs adds to a score; "
    "import the models inside one by one, model.estimators_, or fit a VotingClassifier",
    StackingRegressor: "its last model reads the answers of the others, so that no tree of theirs adds to a score; "
    "import the models inside one by one, model.estimators_, or fit a VotingRegressor",
}


def is_wrapper(model: Any) -> bool:
    """Return whether a model is one around other models."""
    return isinstance(model, (*_IMPORTERS, *_REFUSED))


def count_labels(model: Any) -> int:
    """Return of how many labels a model says whether a row has them; 1 if it gives each row one of its classes."""
    is_multilabel = isinstance(model, OneVsRestClassifier) and hasattr(model, "estimators_") and model.multilabel_
    return len(model.estimators_) if is_multilabel else 1


def import_wrapper(model: Any, import_model: Import, label: int = 0) -> Forest:
    """Import a model around other models.

    Parameters
    ----------
    model : estimator
        A fitted Bagging, Voting, AdaBoost, calibrated, thresholded or one-vs-rest model, or an IsolationForest.
    import_model : callable
        Imports the models inside.
    label : int
        Of several labels (`count_labels`), the one to predict.

    Returns
    -------
    Forest
        With a `wrapper`, unless its trees simply add up.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> inside = [("a", RandomForestClassifier(5)), ("b", GradientBoostingClassifier(n_estimators=5))]
    >>> model = VotingClassifier(inside, voting="soft").fit(X, y)
    >>> forest = scurry.from_model(model)
    >>> bool((forest.predict(X) == model.predict(X)).all()), forest.wrapper.describe()
    (True, 'the mean of 2 models')
    """
    name = type(model).__name__
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise UnsupportedModelError(f"this {name} is not fitted; call fit before importing it") from error
    for kind, why in _REFUSED.items():
        if isinstance(model, kind):
            raise UnsupportedModelError(f"cannot import a {name}: {why}")
    for method in ("predict", "predict_proba"):
        own = getattr(type(model), method, None)
        if own is not None and not own.__module__.startswith("sklearn."):
            raise UnsupportedModelError(
                f"{name} has its own {method}, so its answers need not be those of the models inside; "
                "fit the scikit-learn estimator it is derived from"
            )
    if count_labels(model) > 1:
        return import_label(model, import_model, label)
    # IsolationForest is a kind of Bagging, so the first that fits is the right one.
    found = next(importer for kind, importer in _IMPORTERS.items() if isinstance(model, kind))
    return found(model, import_model)
