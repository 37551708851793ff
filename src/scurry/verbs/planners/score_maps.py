"""Probabilities of an early exit: their score map, fitted once a plan is chosen, and their quality.

The map is fitted to calibration rows, those that fitted the rule and those that certified it. It cannot change a label,
so the promise about labels is not touched. Rows given as `X_fit` are left out: often the model was trained on them, and
full scores of training rows are more extreme than those of new ones.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.evaluation import ScoreQuality, score_quality
from scurry.forest import Forest
from scurry.plan import Plan, ScoreMap
from scurry.predictor import Predictor
from scurry.runners import stops_of
from scurry.runners.partial import Stops, expected_map
from scurry.stopping.score_map import Affine, fit_affine
from scurry.verbs.options import Calibration

_MAX_SCORES = 1 << 18  # that fit a map: enough, and quickly brought together from files


def with_score_map(calibration: Calibration, plan: Plan) -> Plan:
    """Return the plan with a score map, and with the quality of its probabilities where labels are known."""
    if plan.exit_rule is None or calibration.sample.n_rows == 0:
        return plan
    forest = calibration.forest
    chosen = _choose_evenly(calibration, np.ones(calibration.sample.n_rows, np.bool_))
    rows = calibration.sample.where(chosen).gathered()
    stops = stops_of(forest, plan, rows)
    if stops is None:
        return plan
    mapped = replace(plan, score_map=_fit(forest, plan, stops, ~stops.complete))
    y = None if calibration.rows.y is None else calibration.rows.y[chosen]
    return _say_quality(mapped, None if y is None else _measure(forest, plan, stops, rows, y))


def with_quality(calibration: Calibration, tests: NDArray[np.bool_], plan: Plan) -> Plan:
    """Return the plan with the quality of its probabilities on rows it was not fitted to, where labels are known.

    For plans that estimate scores by themselves, and need no map.
    """
    if calibration.rows.y is None or not tests.any():
        return plan
    chosen = _choose_evenly(calibration, tests)
    y = calibration.rows.y[chosen]
    if len(np.unique(calibration.forest.codes_of(y))) < 2:
        return plan
    rows = calibration.sample.where(chosen).gathered()
    return _say_quality(plan, score_quality(Predictor(calibration.forest, plan), rows, y))


def _choose_evenly(calibration: Calibration, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return an even selection of rows, the same wherever they lie, and not too many to be brought together."""
    possible, sample = np.flatnonzero(among), calibration.sample
    n_rows = min(len(possible), sample.max_gathered, _MAX_SCORES // max(calibration.forest.n_outputs, 2))
    chosen = np.zeros(sample.n_rows, np.bool_)
    chosen[possible[np.linspace(0, len(possible) - 1, max(n_rows, 1)).astype(np.intp)]] = True
    return chosen


def _say_quality(plan: Plan, quality: ScoreQuality | None) -> Plan:
    certificate = plan.certificate
    if quality is None or certificate is None or certificate.exits is None:
        return plan
    return replace(plan, certificate=replace(certificate, measured=replace(certificate.exits, **asdict(quality))))


def _fit(forest: Forest, plan: Plan, stops: Stops, chosen: NDArray[np.bool_]) -> ScoreMap:
    assert plan.exit_rule is not None
    start = expected_map(forest, plan.order, plan.exit_rule)
    fitted = fit_affine(
        stops.positions[chosen].astype(np.int64),
        stops.groups[chosen],
        stops.partial[chosen],
        stops.full[chosen],
        start=Affine(start.slope, start.intercept),
        link=forest.link,
        link_scale=forest.link_scale,
    )
    return ScoreMap(slope=fitted.slope, intercept=fitted.intercept)


def _measure(forest: Forest, plan: Plan, stops: Stops, rows: NDArray[Any], y: NDArray[Any]) -> ScoreQuality | None:
    """Measure probabilities on every other row, with a map fitted to the rest; None if they are of one class."""
    measured = np.arange(len(rows)) % 2 == 1
    if len(np.unique(forest.codes_of(y[measured]))) < 2:
        return None
    half = replace(plan, score_map=_fit(forest, plan, stops, ~stops.complete & ~measured))
    return score_quality(Predictor(forest, half), rows[measured], y[measured])
