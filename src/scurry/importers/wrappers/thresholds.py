"""Thresholds: one of two classes from a threshold of its probability or score on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.utils.validation import _check_response_method

from scurry.errors import UnsupportedModelError
from scurry.forest import Forest, Thresholded, as_member
from scurry.forest.wrappers import logistic
from scurry.importers.wrappers.floats import first_true, neighbours
from scurry.importers.wrappers.joined import is_mean
from scurry.importers.wrappers.voting import answers_float32


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
