"""Calibration: probabilities that maps make of a model's response, of one model or of several on average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_response_method

from scurry.errors import UnsupportedModelError
from scurry.forest import Averaged, Calibrated, Forest, Samme, as_member
from scurry.forest.structure import label_codes
from scurry.importers.wrappers.floats import first_true, neighbours
from scurry.importers.wrappers.joined import (
    Contribution,
    affine,
    align,
    build,
    is_mean,
    join,
    line,
    log_odds,
    mean_fields,
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
