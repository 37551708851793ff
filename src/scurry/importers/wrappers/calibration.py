"""Maps from a model's response to calibrated probabilities, and thresholds that decide between two classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.utils.validation import _check_response_method

from scurry.errors import UnsupportedModelError
from scurry.forest import Averaged, Calibrated, Forest, Samme, Thresholded, as_member, label_codes
from scurry.forest.wrappers import logistic
from scurry.importers.wrappers.joined import (
    Contribution,
    affine,
    align,
    answers_float32,
    build,
    first_true,
    is_mean,
    join,
    line,
    log_odds,
    mean_fields,
    neighbours,
    own_scores,
    single,
    spread_classes,
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
