"""Early exit on scores: an order of trees and thresholds on the running sum, certified on rows they were not fitted to.

A search for an order or thresholds overfits its rows, and a freer search overfits them more. So the promise comes from
other rows: half of the calibration rows fit the rule (or rows given for that, such as the model's training rows), and
the other half chooses how far its thresholds are moved outwards, by fixed-sequence testing from the most cautious
member of the family on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.formatting import round_up
from scurry.plan import (
    NEVER_ABOVE,
    NEVER_BELOW,
    ExitRule,
    ExitSide,
    LeaderRule,
    Plan,
    leaf_scores,
    score_threshold,
    to_int32,
)
from scurry.promises import Certificate, ExitMeasurement
from scurry.stopping import FanFit, LeaderFit, MarginFit, fan, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import certified_rate, certify_rates, rows_needed
from scurry.stopping.sample import InMemory, Sample, Sums, random_part
from scurry.verbs.options import Calibration

SCORE_METHODS = ("qwyc", "fan")
_LARGEST_SUM = 2**31 - 2
# How far thresholds are moved outwards, in units of the spread of full scores (or of gamma): from "as fitted" to
# "hardly ever stop".
_AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])

_FIT_SHARE = 0.3  # of the promised rate, spent by the fit
_MIN_BIN_ROWS = 5  # bins of fewer rows show no deviation, and would stop rows at any gamma
_ROUNDING = 1e-4  # grid units: far above the error of products near 2**31, far below one unit

AnyFit: TypeAlias = MarginFit | LeaderFit | FanFit


def score_step(forest: Forest) -> float:
    """Return the grid unit: the power of two in which no sum of leaf scores leaves the range of int32."""
    if forest.n_classes == 2:
        values, start = np.abs(leaf_scores(forest)), abs(score_threshold(forest))
    else:
        values, start = np.abs(forest.leaf_values()).max(axis=1), float(np.abs(forest.base_score).max())
    largest = float(np.maximum.reduceat(np.where(forest.is_leaf, values, 0.0), forest.tree_offset[:-1]).sum()) + start
    room = _LARGEST_SUM - 2 * forest.n_trees
    return float(2.0 ** -np.floor(np.log2(room / largest))) if largest > 0 else 1.0


def plans_by_scores(calibration: Calibration, methods: Sequence[str]) -> list[Plan]:
    """Return certified plans by several methods: "qwyc", "fan", or "natural" (thresholds on the trees' own order).

    Rows are scored once for all methods. Methods whose promise cannot be certified are left out.

    Raises
    ------
    InfeasibleError
        If no method can be certified.
    """
    forest = calibration.forest
    step = score_step(forest)
    rows, y, held_out = _split(calibration)
    decisions = _decisions(forest, rows)
    scores, costs = tree_scores(forest, rows, step), calibration.tree_costs(InMemory(rows))
    if forest.n_classes == 2:
        fits: list[AnyFit] = [
            _fit_two_classes(calibration, method, step, scores, costs, decisions, y) for method in methods
        ]
    else:
        fits = [_fit_many_classes(calibration, method, step, scores, costs) for method in methods]
    amounts = np.zeros(1) if calibration.promise.confidence is None else _AMOUNTS
    exits = held_out.sums(partial(_count_exits, forest, fits, step, amounts))
    plans, failures = [], []
    for method, fit, counts in zip(methods, fits, exits, strict=True):
        try:
            plans.append(_certify(calibration, method, fit, step, amounts, counts, held_out.n_rows, len(rows)))
        except InfeasibleError as error:
            failures.append(error)
    if not plans:
        raise failures[0]
    return plans


def _split(calibration: Calibration) -> tuple[NDArray[Any], NDArray[Any] | None, Sample]:
    """Return rows and labels that fit the rule, and rows that certify it; the same rows where nothing is certified."""
    sample = calibration.sample
    if calibration.fit_rows is not None:
        return calibration.fit_rows, None, sample
    if calibration.promise.confidence is None:
        return sample.gathered(), calibration.y, sample
    n_fit = min(sample.n_rows // 2, sample.max_gathered)
    if n_fit == 0:
        raise InputError(
            "X_cal has one row, and one part of the rows fits what the other certifies; pass thousands, or X_fit too"
        )
    fit = random_part(sample.n_rows, n_fit, np.random.default_rng(calibration.split_seed))
    return sample.where(fit).gathered(), None if calibration.y is None else calibration.y[fit], sample.where(~fit)


def tree_scores(forest: Forest, rows: NDArray[Any], step: float) -> NDArray[np.float64]:
    """Return what each tree (or round) adds to each row, on the grid of `step`.

    Returns
    -------
    float64 array of shape (n_rows, n_trees), or (n_rows, n_rounds, n_classes) for more than two classes
    """
    leaves = forest.apply(rows)
    if forest.n_classes == 2:
        return (np.rint(leaf_scores(forest) / step) * step)[leaves]
    values = np.rint(forest.leaf_values() / step) * step
    if forest.tree_output[0] < 0:
        return values[leaves]
    size = forest.trees_per_round
    scores = np.zeros((len(rows), forest.n_rounds, forest.n_classes))
    for tree, output in enumerate(forest.tree_output):
        scores[:, tree // size, output] += values[leaves[:, tree], 0]
    return scores


def _decisions(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the source model's labels as class indices; booleans for two classes."""
    codes = forest.codes_of(forest.predict(rows))
    return codes.astype(np.bool_ if forest.n_classes == 2 else np.intp)


def _fit_two_classes(
    calibration: Calibration,
    method: str,
    step: float,
    scores: NDArray[np.float64],
    costs: NDArray[np.float64],
    decisions: NDArray[np.bool_],
    y: NDArray[Any] | None,
) -> MarginFit | FanFit:
    forest, keep_scores = calibration.forest, calibration.options.keep_scores
    if decisions.all() or not decisions.any():
        raise _one_class(forest, decisions)
    threshold = float(np.rint(score_threshold(forest) / step) * step)
    shared: dict[str, Any] = {"decision_threshold": threshold, "decisions": decisions, "costs": costs}
    shared["max_disagreement"] = _fit_rate(calibration)
    if method == "fan":
        if keep_scores is not None:
            raise InputError('keep_scores needs thresholds: use method="qwyc"', argument="keep_scores")
        width = max(np.rint(0.1 / step), 1.0) * step
        preset = "natural" if y is None else "individual-mse"
        positive = None if y is None or forest.classes is None else np.asarray(y == forest.classes[1])
        return fan(scores, bin_width=width, order=preset, y=positive, min_rows=_MIN_BIN_ROWS, **shared)
    order = "natural" if method == "natural" else None
    return qwyc(scores, order=order, negative_only=keep_scores == "positive", **shared)


def _one_class(forest: Forest, decisions: NDArray[np.bool_]) -> InputError:
    classes = [False, True] if forest.classes is None else forest.classes.tolist()
    given, missing = classes[::-1] if decisions.all() else classes
    return InputError(
        f"the model answers {given!r} to all {len(decisions)} rows that fit the rule: nothing to tell apart. "
        f"Add rows that it answers {missing!r} to, or pass the threshold at which it should answer {classes[1]!r}"
    )


def _fit_rate(calibration: Calibration) -> float:
    """Return the rate of changed labels that the fit may spend.

    A rule that will be widened until it is certified starts better from a stricter fit.
    """
    share = 1.0 if calibration.promise.confidence is None else _FIT_SHARE
    return calibration.promise.max_changed * share


def _fit_many_classes(
    calibration: Calibration, method: str, step: float, scores: NDArray[np.float64], costs: NDArray[np.float64]
) -> LeaderFit:
    if method == "fan":
        n_classes = calibration.forest.n_classes
        raise InputError(
            f'method="fan" decides between two classes, the model has {n_classes}; use "qwyc"', argument="method"
        )
    if calibration.options.keep_scores is not None:
        raise InputError('keep_scores="positive" needs a model with two classes', argument="keep_scores")
    return multiclass_qwyc(
        scores,
        max_disagreement=_fit_rate(calibration),
        base_score=np.rint(calibration.forest.base_score / step) * step,
        costs=costs.reshape(scores.shape[1], -1).sum(axis=1),
        order="natural" if method == "natural" else None,
    )


def _count_exits(
    forest: Forest, fits: Sequence[AnyFit], step: float, amounts: NDArray[np.float64], rows: NDArray[Any]
) -> Sums:
    """Count, for every fit and every amount of widening, the rows that leave after each tree, and those changed."""
    scores, decisions = tree_scores(forest, rows, step), _decisions(forest, rows)
    return np.stack([fit.widening_exits(scores, amounts, decisions=decisions) for fit in fits])


def _certify(
    calibration: Calibration,
    method: str,
    fit: AnyFit,
    step: float,
    amounts: NDArray[np.float64],
    exits: Sums,
    n_rows: int,
    n_fit_rows: int,
) -> Plan:
    """Return the plan that widens `fit` as little as its promise allows."""
    promise, curve, chosen = calibration.promise, fit.curve_of(amounts, exits), 0
    confidence = calibration.tested_confidence
    if confidence is not None:
        # Fixed-sequence testing, from the most cautious member of the family on.
        n_passed = certify_rates(curve.n_mistakes[::-1], n_rows, promise.max_changed, confidence)
        if n_passed < 0:
            raise _infeasible(calibration, int(curve.n_mistakes[-1]), n_rows)
        chosen = len(amounts) - 1 - n_passed
    n_broken, mean_cost, mean_trees = int(curve.n_mistakes[chosen]), float(curve.mean_cost[chosen]), 0.0
    in_trees = calibration.options.cost_unit == "trees"
    if not in_trees:
        each = replace(fit, costs=np.full(fit.n_models, calibration.forest.n_trees / fit.n_models))
        mean_trees = float(each.curve_of(amounts, exits).mean_cost[chosen])
    measured = ExitMeasurement(
        changed=n_broken / n_rows,
        mean_trees=mean_cost if in_trees else mean_trees,
        mean_cost=None if in_trees else mean_cost,
    )
    tested = {} if confidence is None else {"n_rows": n_rows, "n_broken": n_broken}
    certificate = calibration.certificate(method, promise, n_fit_rows=n_fit_rows, measured=measured, **tested)
    return _plan(calibration.forest, fit.widen(float(amounts[chosen])), step, certificate)


def _infeasible(calibration: Calibration, n_mistakes: int, n_rows: int) -> InfeasibleError:
    alpha, confidence = calibration.promise.max_changed, calibration.tested_confidence or 0.0
    achievable = certified_rate(n_mistakes, n_rows, confidence)
    # Two digits, never rounded down: what is advised must be feasible.
    advice, needed = f"Pass max_disagreement={round_up(achievable, 2):.2g}", None
    if alpha > 0:
        needed = rows_needed(alpha, confidence)
        # Without rows to fit, half of the calibration rows are used for that.
        needed = needed if calibration.fit_rows is not None else 2 * needed - 1
        advice += f", at least {needed} calibration rows"
    return InfeasibleError(
        f"max_disagreement={alpha:g} cannot be certified with confidence {calibration.promise.confidence} on {n_rows} "
        f"rows; {achievable:.3g} can. {advice}, or confidence=None for no promise",
        achievable,
        n_rows_needed=needed,
        argument="max_disagreement",
    )


def _plan(forest: Forest, fit: AnyFit, step: float, certificate: Certificate) -> Plan:
    """Return the plan of a fit: its thresholds on the integer grid."""
    if isinstance(fit, LeaderFit):
        lead = np.full(fit.n_models + 1, NEVER_ABOVE, np.int32)
        lead[1:-1] = to_int32(np.ceil(fit.lead / step))
        size = forest.trees_per_round
        order = (fit.order[:, None] * size + np.arange(size)).ravel()
        stop: ExitRule | LeaderRule = LeaderRule(kind="scores", step=step, lead=lead)
    else:
        order, stop = fit.order, _exit_rule(fit, step)
    return Plan(order=order.astype(np.int32), stop=stop, certificate=certificate)


def _exit_rule(fit: MarginFit | FanFit, step: float) -> ExitRule:
    lower = np.full((1, fit.n_models + 1), NEVER_BELOW, np.int32)
    upper = np.full((1, fit.n_models + 1), NEVER_ABOVE, np.int32)
    pieces: dict[str, Any] = {}
    if isinstance(fit, FanFit):
        pieces = _pieces(fit, step)
    else:
        lower[0, 1:-1] = to_int32(np.floor(fit.lower / step))
        upper[0, 1:-1] = to_int32(np.ceil(fit.upper / step))
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=upper, **pieces)


def _pieces(fit: FanFit, step: float) -> dict[str, NDArray[Any]]:
    """Return Fan's bins as pieces of the running sum: negative up to the lower threshold, positive from the upper."""
    offset, edges, sides = [0, 0], [np.empty(0, np.int32)], [np.zeros(1, np.uint8)]
    for position in range(fit.n_models - 1):
        bins = slice(*fit.bin_offset[position : position + 2])
        start = np.rint(fit.bins[bins] * fit.bin_width / step)
        stop = start + np.rint(fit.bin_width / step)
        middle = (fit.decision_threshold + fit.mean[bins]) / step
        reach = fit.gamma * fit.deviation[bins] / step
        # A row exactly `gamma` deviations away continues; rounding in these products must not stop it.
        lower, upper = np.ceil(middle - reach - _ROUNDING), np.floor(middle + reach + _ROUNDING) + 1
        cuts = np.stack([start, np.clip(lower, start, stop), np.clip(upper, start, stop), stop], axis=1)
        values, codes = _merge_bins(cuts)
        edges.append(values)
        sides.append(codes)
        offset.append(offset[-1] + len(values))
    sides.append(np.zeros(1, np.uint8))
    return {
        "piece_offset": np.array([*offset, offset[-1]], np.uint32),
        "piece_edges": np.concatenate(edges).astype(np.int32),
        "piece_sides": np.concatenate(sides),
    }


def _merge_bins(cuts: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return ascending edges and the sides between them, from bins cut in negative, undecided and positive parts."""
    edge = cuts.ravel()
    # What follows each of a bin's four edges; outside all bins every tree is evaluated.
    side = np.tile(
        np.array([ExitSide.NEGATIVE, ExitSide.CONTINUE, ExitSide.POSITIVE, ExitSide.FULL], np.uint8), len(cuts)
    )
    # Of equal edges the last one says what follows.
    keep = np.append(edge[1:] != edge[:-1], True) if len(edge) else np.empty(0, np.bool_)
    return edge[keep].astype(np.int32), np.concatenate([np.array([ExitSide.FULL], np.uint8), side[keep]])
