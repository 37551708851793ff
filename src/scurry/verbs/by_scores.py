"""Early exit on scores: an order of trees and thresholds on the running sum, certified on rows they were not fitted to.

A search for an order or thresholds overfits its calibration rows (the more so the freer it is), so the promise comes
from other rows. Half of the calibration rows fit the rule, or rows given for that, such as the model's training rows;
the others choose how far its thresholds are moved outwards, by fixed-sequence testing from the most cautious member of
the family on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.forest.reference import leaf_values
from scurry.plan import (
    NEVER_ABOVE,
    NEVER_BELOW,
    ExitRule,
    LeaderRule,
    Plan,
    leaf_scores,
    score_threshold,
    trees_per_round,
)
from scurry.stopping import FanFit, LeaderFit, MarginFit, fan, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import certified_rate, certify_rates, rows_needed
from scurry.stopping.sample import InMemory, Sample, Sums, random_part
from scurry.verbs.options import Request

_LARGEST_SUM = 2**31 - 2
# In units of the spread of full scores (or of gamma): from "as fitted" to "hardly ever stop".
_AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])

_FIT_SHARE = 0.3
_MIN_BIN_ROWS = 5  # bins of fewer rows show no deviation, and would stop rows at any gamma
_ROUNDING = 1e-4  # steps: far above the error of products near 2**31, far below one step

ScoredRule: TypeAlias = MarginFit | LeaderFit | FanFit


def score_step(forest: Forest) -> float:
    """The power of two in units of which no sum of leaf scores leaves the range of int32."""
    if forest.n_classes == 2:
        values, start = np.abs(leaf_scores(forest)), abs(score_threshold(forest))
    else:
        values, start = np.abs(leaf_values(forest)).max(axis=1), float(np.abs(forest.base_score).max())
    largest = float(np.maximum.reduceat(np.where(forest.is_leaf, values, 0.0), forest.tree_offset[:-1]).sum()) + start
    room = _LARGEST_SUM - 2 * forest.n_trees
    return float(2.0 ** -np.floor(np.log2(room / largest))) if largest > 0 else 1.0


def plan_by_scores(request: Request, method: str) -> Plan:
    """A plan by `method` ("qwyc", "fan"), or by thresholds on the trees' own order ("natural")."""
    forest = request.forest
    step = score_step(forest)
    fit_rows, fit_y, held_out = _split(request)
    if forest.n_classes == 2:
        rule: ScoredRule = _fit_two_classes(request, method, step, fit_rows, fit_y)
    else:
        if method == "fan":
            raise InputError(f'method="fan" decides between two classes, the model has {forest.n_classes}; use "qwyc"')
        rule = _fit_many_classes(request, method, step, fit_rows)
    amount, measured = _certified_amount(request, rule, step, held_out)
    measured["fitted_on_rows"] = len(fit_rows)
    return _plan(request, method, rule.widen(amount), step, measured)


def _split(request: Request) -> tuple[NDArray[Any], NDArray[Any] | None, Sample]:
    """Rows (and labels) that fit the rule, and rows that certify it; the same ones where nothing is certified."""
    sample = request.sample
    if request.fit_rows is not None:
        return request.fit_rows, None, sample
    if request.confidence is None:
        return sample.gathered(), request.y, sample
    # The same parts for every method, so that plans compared with each other were certified on the same rows.
    n_fit = min(sample.n_rows // 2, sample.max_gathered)
    if n_fit == 0:
        raise InputError(
            "X_cal has one row, and one part of the rows fits what the other certifies; pass thousands, or X_fit too"
        )
    fit = random_part(sample.n_rows, n_fit, np.random.default_rng(request.split_seed))
    return sample.where(fit).gathered(), None if request.y is None else request.y[fit], sample.where(~fit)


def tree_scores(forest: Forest, rows: NDArray[Any], step: float) -> NDArray[np.float64]:
    """What each tree (or round) adds to each row, on the grid of `step`.

    Returns
    -------
    float64 array of shape (n_rows, n_trees), or (n_rows, n_rounds, n_classes) for more than two classes
    """
    leaves = forest.apply(rows)
    if forest.n_classes == 2:
        return (np.rint(leaf_scores(forest) / step) * step)[leaves]
    values = np.rint(leaf_values(forest) / step) * step
    if forest.tree_output[0] < 0:
        return values[leaves]
    size = trees_per_round(forest)
    scores = np.zeros((len(rows), forest.n_trees // size, forest.n_classes))
    for tree, output in enumerate(forest.tree_output):
        scores[:, tree // size, output] += values[leaves[:, tree], 0]
    return scores


def _decisions(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """The source model's labels as class indices; booleans for two classes."""
    labels = [] if forest.classes is None else forest.classes.tolist()
    position = {label: index for index, label in enumerate(labels)}
    codes = np.array([position[label] for label in forest.predict(rows).tolist()], dtype=np.intp)
    return codes.astype(np.bool_) if forest.n_classes == 2 else codes


def _fit_two_classes(
    request: Request, method: str, step: float, rows: NDArray[Any], y: NDArray[Any] | None
) -> MarginFit | FanFit:
    forest = request.forest
    decisions = _decisions(forest, rows)
    if decisions.all() or not decisions.any():
        raise _one_class(forest, decisions)
    scores = tree_scores(forest, rows, step)
    threshold = float(np.rint(score_threshold(forest) / step) * step)
    shared: dict[str, Any] = {"decision_threshold": threshold, "decisions": decisions}
    shared |= {"max_disagreement": _fitted_disagreement(request), "costs": request.tree_costs(InMemory(rows))}
    if method == "fan":
        if request.keep_scores is not None:
            raise InputError('keep_scores needs thresholds: use method="qwyc"')
        width = max(np.rint(0.1 / step), 1.0) * step
        preset = "natural" if y is None else "individual-mse"
        positive = None if y is None or forest.classes is None else np.asarray(y == forest.classes[1])
        return fan(scores, bin_width=width, order=preset, y=positive, min_rows=_MIN_BIN_ROWS, **shared)
    order = "natural" if method == "natural" else None
    return qwyc(scores, order=order, negative_only=request.keep_scores == "positive", **shared)


def _one_class(forest: Forest, decisions: NDArray[np.bool_]) -> InputError:
    classes = [False, True] if forest.classes is None else forest.classes.tolist()
    given, missing = classes[::-1] if decisions.all() else classes
    return InputError(
        f"the model answers {given!r} to all {len(decisions)} rows that fit the rule: nothing to tell apart. "
        f"Add rows that it answers {missing!r} to, or pass the threshold at which it should answer {classes[1]!r}"
    )


def _fitted_disagreement(request: Request) -> float:
    """The budget of the fit. One that will be widened until it is certified starts better from a stricter rule."""
    share = 1.0 if request.confidence is None else _FIT_SHARE
    return request.max_disagreement * share


def _fit_many_classes(request: Request, method: str, step: float, rows: NDArray[Any]) -> LeaderFit:
    if request.keep_scores is not None:
        raise InputError('keep_scores="positive" needs a model with two classes')
    forest = request.forest
    base = np.rint(forest.base_score / step) * step
    scores, costs = tree_scores(forest, rows, step), request.tree_costs(InMemory(rows))
    return multiclass_qwyc(
        scores,
        max_disagreement=_fitted_disagreement(request),
        base_score=base,
        costs=costs.reshape(scores.shape[1], -1).sum(axis=1),
        order="natural" if method == "natural" else None,
    )


def _certified_amount(
    request: Request, rule: ScoredRule, step: float, held_out: Sample
) -> tuple[float, dict[str, Any]]:
    """How far to widen `rule`, and what that does on rows it was not fitted to."""
    n_rows, amounts = held_out.n_rows, np.zeros(1) if request.confidence is None else _AMOUNTS
    exits = held_out.sums(partial(_widening_exits, request.forest, rule, step, amounts))
    curve = rule.curve_of(amounts, exits)
    if request.confidence is None:
        chosen = 0
        fitted_to = "calibration rows" if request.fit_rows is None else "rows of X_fit"
        measured: dict[str, Any] = {
            "promise": (
                f"at most {request.allowed} of the {fitted_to} are answered differently from the model; "
                "nothing is promised for new rows (confidence=None)"
            )
        }
    else:
        confidence = request.tested_confidence or 0.0
        chosen = certify_rates(curve.n_mistakes[::-1], n_rows, request.max_disagreement, confidence)
        if chosen < 0:
            raise _infeasible(request, int(curve.n_mistakes[-1]), n_rows)
        chosen = len(amounts) - 1 - chosen
        measured = {
            "promise": (
                f"with confidence {request.confidence}, at most {request.allowed} of new rows are "
                "answered differently from the model (rows drawn like the calibration rows)"
            )
        } | request.certificate(int(curve.n_mistakes[chosen]), n_rows)
    measured["calibration_disagreement"] = float(curve.n_mistakes[chosen] / n_rows)
    if request.cost_unit == "trees":
        measured["calibration_mean_trees"] = float(curve.mean_cost[chosen])
    else:
        uncosted = replace(rule, costs=np.full(rule.n_models, request.forest.n_trees / rule.n_models))
        measured["calibration_mean_trees"] = float(uncosted.curve_of(amounts, exits).mean_cost[chosen])
        measured["calibration_mean_cost"] = float(curve.mean_cost[chosen])
    return float(amounts[chosen]), measured


def _widening_exits(
    forest: Forest, rule: ScoredRule, step: float, amounts: NDArray[np.float64], rows: NDArray[Any]
) -> Sums:
    return rule.widening_exits(tree_scores(forest, rows, step), amounts, decisions=_decisions(forest, rows))


def _infeasible(request: Request, n_mistakes: int, n_rows: int) -> InfeasibleError:
    alpha, confidence = request.max_disagreement, request.tested_confidence or 0.0
    achievable = certified_rate(n_mistakes, n_rows, confidence)
    digit = 10.0 ** (np.floor(np.log10(achievable)) - 1)
    advice = f"Pass max_disagreement={np.ceil(achievable / digit) * digit:.2g}"  # two digits, never below
    if alpha > 0:
        needed = rows_needed(alpha, confidence)
        advice += f", at least {needed if request.fit_rows is not None else 2 * needed - 1} calibration rows"
    return InfeasibleError(
        f"max_disagreement={alpha:g} cannot be certified with confidence {request.confidence} on {n_rows} rows; "
        f"{achievable:.3g} can. {advice}, or confidence=None for no promise",
        achievable,
    )


def _plan(request: Request, method: str, rule: ScoredRule, step: float, measured: dict[str, Any]) -> Plan:
    if isinstance(rule, LeaderFit):
        lead = np.full(rule.n_models + 1, NEVER_ABOVE, np.int32)
        lead[1:-1] = _grid(np.ceil(rule.lead / step))
        size = trees_per_round(request.forest)
        order = (rule.order[:, None] * size + np.arange(size)).ravel()
        stop: ExitRule | LeaderRule = LeaderRule(kind="scores", step=step, lead=lead)
    else:
        order, stop = rule.order, _exit_rule(rule, step)
    return Plan(order=order.astype(np.int32), stop=stop, facts=request.facts(method, **measured))


def _exit_rule(rule: MarginFit | FanFit, step: float) -> ExitRule:
    lower = np.full((1, rule.n_models + 1), NEVER_BELOW, np.int32)
    upper = np.full((1, rule.n_models + 1), NEVER_ABOVE, np.int32)
    pieces: dict[str, Any] = {}
    if isinstance(rule, FanFit):
        pieces = _pieces(rule, step)
    else:
        lower[0, 1:-1] = _grid(np.floor(rule.lower / step))
        upper[0, 1:-1] = _grid(np.ceil(rule.upper / step))
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=upper, **pieces)


def _grid(values: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.clip(values, NEVER_BELOW, NEVER_ABOVE).astype(np.int32)


def _pieces(rule: FanFit, step: float) -> dict[str, NDArray[Any]]:
    """Fan's bins as intervals of the running sum: negative up to a bin's lower threshold, positive from its upper."""
    offset, edges, sides = [0, 0], [np.empty(0, np.int32)], [np.zeros(1, np.uint8)]
    for position in range(rule.n_models - 1):
        bins = slice(*rule.bin_offset[position : position + 2])
        start = np.rint(rule.bins[bins] * rule.bin_width / step)
        stop = start + np.rint(rule.bin_width / step)
        middle = (rule.decision_threshold + rule.mean[bins]) / step
        reach = rule.gamma * rule.deviation[bins] / step
        # A row exactly `gamma` deviations away goes on; rounding in these products must not stop it.
        lower, upper = np.ceil(middle - reach - _ROUNDING), np.floor(middle + reach + _ROUNDING) + 1
        cuts = np.stack([start, np.clip(lower, start, stop), np.clip(upper, start, stop), stop], axis=1)
        values, codes = _merged(cuts)
        edges.append(values)
        sides.append(codes)
        offset.append(offset[-1] + len(values))
    sides.append(np.zeros(1, np.uint8))
    return {
        "piece_offset": np.array([*offset, offset[-1]], np.uint32),
        "piece_edges": np.concatenate(edges).astype(np.int32),
        "piece_sides": np.concatenate(sides),
    }


def _merged(cuts: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Ascending edges and the sides between them, from bins cut in negative, undecided and positive parts."""
    edge = cuts.ravel()
    side = np.tile(np.array([1, 0, 2, 3], np.uint8), len(cuts))
    # Of equal edges the last one says what follows.
    keep = np.append(edge[1:] != edge[:-1], True) if len(edge) else np.empty(0, np.bool_)
    return edge[keep].astype(np.int32), np.concatenate([np.array([3], np.uint8), side[keep]])
