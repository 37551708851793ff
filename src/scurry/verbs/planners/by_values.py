"""Early exit on values: rows stop once an estimate is close enough to the model's value, certified on other rows.

Boosted trees: the fitting rows find an order of trees and refit its beginnings (`scurry.stopping.sentinels.prefix`).
Trees that are averaged: the variance between the trees seen so far tells how far the average may still move. Either
way one number, the caution, is left for the rows that certify. They test cautious rules first and stop at the first
that cannot be certified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.evaluation import score_quality
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import ValueMeasurement, Values
from scurry.runners.sentinels import sentinel_plan
from scurry.stopping.guarantee import InMemory, Sums, certified_rate, certify_rates, rows_needed
from scurry.stopping.sentinels.lanes import CAUTIONS, SentinelFit, ValueFamily, mean_family, prefix_family
from scurry.stopping.sentinels.prefix import count_needed, even_sentinels, placed_sentinels
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners.by_scores import can_refit, split_to_fit
from scurry.verbs.planners.sentinel_scores import fit_scores, full_scores, link_of, score_values
from scurry.verbs.planners.speed import stop_cost

FloatArray = NDArray[np.float64]
# In a fit, the weight of rows whose probability is 0 or 1; those at one half weigh 1 more. Errors of clear rows hardly
# move their probabilities, but they do move their ranks, so that the larger weight is taken where both cost the same.
_CLEAR_WEIGHTS, _SAME = (0.15, 0.05), 1.01
# By how much an RMSE may grow, as a share, if the error that is allowed is as large; in proportion to the square of
# this error. Where it is a quarter of the RMSE, that is 1 %.
_RMSE_GROWTH = 0.16


def plan_by_values(calibration: Calibration) -> Plan:
    """Return a certified plan for a promise about values.

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified.
    """
    forest, promise = calibration.forest, calibration.promise
    assert isinstance(promise, Values)
    _check_asked(forest, promise, calibration.options)
    if calibration.rows.parts is not None:
        raise InputError("by= cannot be used with Values; calibrate a predictor for each subgroup", argument="by")
    rows, _, tests = split_to_fit(calibration)
    held_out = calibration.sample if tests.all() else calibration.sample.where(tests)
    full = full_scores(forest, rows)
    if np.ptp(full) == 0:
        raise InputError(
            f"the model gives all {len(rows):,} rows that fit the rule the same value: nothing to estimate. Pass rows "
            "like those to be predicted",
            argument="X_cal",
        )
    family = _choose_family(forest, promise, rows, full)
    n_rows = held_out.n_rows
    counts = held_out.sums(partial(_count, forest, promise, family))
    best = len(CAUTIONS) - 1
    if promise.confidence is not None:
        best = certify_rates(counts[:, -1], n_rows, promise.max_share, promise.confidence)
        if best < 0:
            raise _infeasible(calibration, promise, int(counts[0, -1]), n_rows)
    else:
        # No rows certify anything, and the boldest rule that keeps the limit on the rows themselves is taken.
        kept = np.flatnonzero(counts[:, -1] <= promise.max_share * n_rows)
        best = int(kept[-1]) if len(kept) else 0
    best = _spare_rmse(calibration, promise, family, best)
    cautions = CAUTIONS[best : best + 1]
    caution, count = float(cautions[0]), counts[best]
    shorter = _drop_late(forest, family, _count(forest, promise, family, rows, cautions=cautions)[0])
    if shorter is not family:
        family, (count,) = shorter, held_out.sums(partial(_count, forest, promise, shorter, cautions=cautions))
    rule = family.member(caution)
    errors = held_out.each(partial(_errors, forest, promise, rule))
    measured = ValueMeasurement(
        beyond=int(count[-1]) / n_rows,
        mean_trees=float(count[:-1] @ rule.n_trees_at_stop) / n_rows,
        mean_error=float(errors.mean()),
        largest_error=float(errors.max()),
        caution=caution,
        **_quality(calibration, rule),
    )
    tested = {} if promise.confidence is None else {"n_rows": n_rows, "n_broken": int(count[-1])}
    certificate = calibration.certificate("sentinels", promise, n_fit_rows=len(rows), measured=measured, **tested)
    return sentinel_plan(rule, certificate)


def as_one_sum(forest: Forest) -> Forest:
    """Return a regressor that is the mean of others as one sum over all trees, equal up to rounding."""
    is_sum = forest.wrapper is not None and forest.wrapper.adds_up and not forest.is_classifier
    return forest.replace(wrapper=None) if is_sum else forest


def _check_asked(forest: Forest, promise: Values, options: ExitOptions) -> None:
    """Raise an error that says what to ask for instead, if this cannot be promised for this model."""
    if forest.wrapper is not None:
        raise InputError(
            f"Values compares scores, and this model answers with {forest.wrapper.describe()}; promise Labels(…), or "
            "import the model inside",
            argument="promise",
        )
    if forest.n_classes > 2:
        raise InputError(
            f"Values compares one value per row, and the model has {forest.n_classes} classes; promise "
            "Labels(…) or Accuracy(…), or train one model per class",
            argument="promise",
        )
    if not forest.is_classifier and forest.n_outputs != 1:
        raise InputError(
            f"Values compares one value per row, and the model gives {forest.n_outputs}; train one model for each",
            argument="promise",
        )
    if forest.is_classifier and forest.n_classes < 2:
        raise InputError("the model knows only one class and answers it at once; pass one of two", argument="model")
    if forest.is_classifier == (promise.of == "value"):
        wanted = 'of="probability" or of="log-odds"' if forest.is_classifier else 'of="value"'
        kind = "classifier" if forest.is_classifier else "regressor"
        raise InputError(f"the model is a {kind}: promise Values(…, {wanted}), got {promise!r}", argument="promise")
    if forest.is_classifier and forest.link not in ("identity", "logistic", "softmax"):
        raise InputError(
            f"the model's scores have the link {forest.link!r} and are no probabilities; promise Labels(…)",
            argument="promise",
        )
    if promise.of == "log-odds" and forest.link == "identity":
        raise InputError(
            "the model averages the probabilities of its trees, which may be 0 or 1, so that log-odds are infinite; "
            'promise Values(…, of="probability")',
            argument="promise",
        )
    if options.method not in ("auto", "sentinels"):
        raise InputError(f'Values needs method="auto" or "sentinels", got {options.method!r}', argument="method")
    for name, usual in (("keep_scores", None), ("shuffle", "fixed"), ("costs", "trees")):
        if not (isinstance(given := getattr(options, name), str | None) and given == usual):
            raise InputError(f"{name} is for promises about labels; leave it out", argument=name)
    if forest.aggregation == "sum" and not can_refit(forest):
        raise InputError("a tree of this model has more than 65,536 leaves, too many to refit", argument="model")
    if forest.aggregation != "sum" and forest.tree_output[0] >= 0 and forest.n_outputs > 1:
        raise InputError("trees of this model answer for one class each; promise Labels(…)", argument="promise")


def _choose_family(forest: Forest, promise: Values, rows: NDArray[Any], full: FloatArray) -> ValueFamily:
    """Return the family of rules; of two orders of boosted trees, the one that needs fewer trees.

    Models that learn slowly are redundant and gain from an order of its own; others lose. For probabilities, how much
    clear rows count is chosen in the same way. Two thirds of the rows fit all candidates, the others compare them and
    say where rows stop, and all of them fit the one that is chosen, with sentinels there.
    """
    if forest.aggregation != "sum":
        return mean_family(score_values(forest), forest.apply(rows), full, promise.max_error)
    kept = np.arange(len(rows)) % 3 > 0
    if kept.all() or not kept.any():
        return _prefix_family(forest, promise, rows, full, None, _CLEAR_WEIGHTS[-1])
    own, is_weighted = np.arange(forest.n_trees), promise.of == "probability"
    weights = _CLEAR_WEIGHTS if is_weighted else _CLEAR_WEIGHTS[-1:]
    candidates = [*((None, weight) for weight in weights), (own, weights[-1])]
    spent, stops = [], []
    for order, clear in candidates:
        family = _prefix_family(forest, promise, rows[kept], full[kept], order, clear)
        counts = InMemory(rows[~kept]).sums(partial(_count, forest, promise, family))
        good = np.flatnonzero(counts[:, -1] <= promise.max_share * (~kept).sum())
        at = int(good[-1]) if len(good) else 0
        stops.append(counts[at, :-1])
        spent.append(float(stops[-1] @ family.fit.n_trees_at_stop))
    best = int(np.argmin(spent))
    if is_weighted and spent[0] <= _SAME * spent[best]:
        best = 0
    sentinels = placed_sentinels(
        even_sentinels(forest.n_trees), stops[best], n_trees=forest.n_trees, test_cost=stop_cost(forest)
    )
    return _prefix_family(forest, promise, rows, full, *candidates[best], sentinels)


def _prefix_family(
    forest: Forest,
    promise: Values,
    rows: NDArray[Any],
    full: FloatArray,
    order: NDArray[np.int64] | None,
    clear_weight: float,
    sentinels: NDArray[np.int64] | None = None,
) -> ValueFamily:
    link = _link(forest, promise)

    def weigh(scores: FloatArray) -> FloatArray:
        p = link_of(forest, scores)
        return clear_weight + np.square(4 * p * (1 - p))

    leaves, fit = fit_scores(
        forest,
        rows,
        full,
        sentinels=even_sentinels(forest.n_trees) if sentinels is None else sentinels,
        weigh=weigh if promise.of == "probability" and link is not None else None,
        order=order,
    )
    # Log-odds are the scores themselves but for a factor.
    error = promise.max_error / forest.link_scale if promise.of == "log-odds" else promise.max_error
    return prefix_family(leaves, fit, error, link=link, scores=full)


def _link(forest: Forest, promise: Values) -> Callable[[FloatArray], FloatArray] | None:
    """Return what turns scores into the values compared; None where they are the same but for a factor."""
    return None if promise.of == "log-odds" or forest.link == "identity" else partial(link_of, forest)


def _differences(forest: Forest, promise: Values, estimates: FloatArray, full: FloatArray) -> FloatArray:
    """Return how far estimated scores are from full ones, on the scale that the promise is about."""
    if promise.of == "log-odds":
        return np.abs(estimates - full) * forest.link_scale
    return np.abs(link_of(forest, estimates) - link_of(forest, full))


def _drop_late(forest: Forest, family: ValueFamily, count: NDArray[np.int64]) -> ValueFamily:
    """Return the family without the last sentinels where hardly a row stops, each of which every tree adds to.

    `count` is that of rows which certify nothing. Rows that would stop there get the model's own answers instead, so
    that a rule that was certified stays so.
    """
    fit, stops = family.fit, count[:-1]
    if forest.aggregation != "sum" or len(fit.sentinels) == 0:
        return family  # one sum serves all sentinels
    n_kept = count_needed(fit.sentinels, stops, n_trees=forest.n_trees, test_cost=stop_cost(forest))
    return family if n_kept == len(fit.sentinels) else family.keep_first(n_kept)


def _count(
    forest: Forest, promise: Values, family: ValueFamily, rows: NDArray[Any], cautions: FloatArray = CAUTIONS
) -> Sums:
    def is_far(estimates: FloatArray, full: FloatArray) -> NDArray[np.bool_]:
        return _differences(forest, promise, estimates, full) > promise.max_error

    return family.count(forest.apply(rows), full_scores(forest, rows), is_far, cautions)


def _errors(forest: Forest, promise: Values, rule: SentinelFit, rows: NDArray[Any]) -> FloatArray:
    """Return how far the answer of each row is from the model's."""
    full, estimates = full_scores(forest, rows), rule.stop(forest.apply(rows)).estimate
    return _differences(forest, promise, np.where(np.isnan(estimates), full, estimates), full)


def _spare_rmse(calibration: Calibration, promise: Values, family: ValueFamily, last: int) -> int:
    """Return the boldest rule up to `last` with which the RMSE grows little; `last` if none is, or no target is known.

    What an estimate misses is partly what the model knows of the targets, so that the RMSE grows by more than errors of
    this size would add by chance, and by how much only targets tell. All rules up to `last` hold with the confidence of
    the promise at once, so that any of them may be taken.
    """

    def is_good(at: int) -> bool:
        quality = _quality(calibration, family.member(float(CAUTIONS[at])))
        full, fast = quality["full_rmse"], quality["fast_rmse"]
        return bool((fast - full) * full <= _RMSE_GROWTH * promise.max_error**2)

    if calibration.forest.is_classifier or calibration.rows.y is None or not isinstance(calibration.sample, InMemory):
        return last
    if is_good(last) or not is_good(0):
        return last
    good, bad = 0, last
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return good


def _quality(calibration: Calibration, rule: SentinelFit) -> dict[str, Any]:
    """Return how good answers are, of the full model and of the rule, where targets or labels are known."""
    forest, y = calibration.forest, calibration.rows.y
    if y is None or not isinstance(calibration.sample, InMemory):
        return {}
    rows = calibration.sample.gather()
    fast = Predictor(forest, sentinel_plan(rule, None))
    if not forest.is_classifier:
        of_full, of_fast = (float(np.sqrt(np.square(one.predict(rows) - y).mean())) for one in (forest, fast))
        return {"full_rmse": of_full, "fast_rmse": of_fast}
    if len(np.unique(y)) < 2:
        return {}
    quality = score_quality(fast, rows, y)
    return asdict(quality)


def _infeasible(calibration: Calibration, promise: Values, n_broken: int, n_rows: int) -> InfeasibleError:
    confidence = promise.confidence or 0.0
    needed = rows_needed(promise.max_share, confidence)
    needed = needed if calibration.has_fit_rows else 2 * needed - 1
    achievable = certified_rate(n_broken, n_rows, confidence)
    return InfeasibleError(
        f"Values({promise.max_error:g}, max_share={promise.max_share:g}) cannot be certified with confidence "
        f"{confidence:g} on {n_rows} rows; a share of {achievable:.3g} can. Pass a larger max_share or max_error, or "
        f"at least {needed} calibration rows",
        achievable,
        n_rows_needed=needed,
        argument="promise",
    )
