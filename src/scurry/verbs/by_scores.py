"""Early exit on scores: an order of trees and thresholds on the running sum, certified on rows they were not fitted to.

A search for an order or thresholds overfits its rows, and a freer search overfits them more. So the promise comes from
other rows: half of the calibration rows fit the rule (or rows given for that, such as the model's training rows), and
the other half chooses how far its thresholds are moved outwards, by fixed-sequence testing from the most cautious
member of the family on. Where many rows certify even the thresholds as fitted, the family goes on with thresholds that
were fitted, in the same order of trees, for larger shares of the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest, score_step
from scurry.formatting import round_up
from scurry.plan import Plan
from scurry.promises import Certificate, ExitMeasurement
from scurry.runners.rules import ScoreRule, score_plan, sentinel_plan
from scurry.stopping import FanFit, LeaderFit, MarginFit, fan, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import certified_rate, certify_rates, rows_needed
from scurry.stopping.independence import hash_rows, split_rows
from scurry.stopping.sample import InMemory, Sample, Sums
from scurry.stopping.sentinels.labels import keep_apart, label_rule
from scurry.verbs.assumptions import CheckedRows
from scurry.verbs.options import Calibration
from scurry.verbs.sentinels import check_refit, count_increments, decision_score, fit_labels

SCORE_METHODS = ("qwyc", "fan", "natural", "sentinels")
# How far thresholds are moved outwards, in units of the spread of full scores (or of gamma): from "as fitted" to
# "hardly ever stop".
_AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])

_FIT_SHARE = 0.3  # of the promised rate, spent by the fit
_BOLD_SHARES = (0.45, 0.6, 0.8, 1.0, 1.3, 2.0)  # spent by the fits that follow where rows allow
_BIN_WIDTH = 0.1  # Fan's, in units of the score
_MIN_BIN_ROWS = 5  # bins of fewer rows show no deviation, and would stop rows at any gamma


def plan_by_scores(calibration: Calibration, method: str) -> Plan:
    """Return a certified plan by "qwyc", "fan", "natural" (thresholds on the trees' own order) or "sentinels".

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified.
    """
    search = _Search.at_sentinels(calibration) if method == "sentinels" else _Search.of(calibration)
    fit = search.fit(method, calibration.labels.max_changed * search.fit_share)
    return search.certify(method, fit, search.count_exits([fit], search.amounts)[0])


class _Member(NamedTuple):
    """A member of the family that is tested, and what it does to the rows that test it."""

    fit: ScoreRule
    amount: float
    exits: Sums  # rows that leave after each tree, and last those answered differently

    @property
    def n_mistakes(self) -> int:
        return int(self.exits[-1])

    def mean_cost(self, costs: NDArray[np.float64]) -> float:
        """Return the cost per row, given the cost of each model."""
        return float(replace(self.fit, costs=costs).curve_of([self.amount], self.exits[:, None]).mean_cost[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Search:
    """Rows that fit rules and rows that certify them, with what both have in common."""

    calibration: Calibration
    rows: NDArray[Any]
    y: NDArray[Any] | None
    scores: NDArray[np.float64]
    decisions: NDArray[Any]
    threshold: float  # of the sum of scores, for two classes
    costs: NDArray[np.float64]
    n_trees: NDArray[np.float64]  # behind each score
    held_out: Sample
    score_rows: Callable[[NDArray[Any]], NDArray[np.float64]]
    make_plan: Callable[[Any, Certificate], Plan]

    @classmethod
    def of(cls, calibration: Calibration) -> _Search:
        forest, step = calibration.forest, score_step(calibration.forest)
        rows, y, held_out = split_to_fit(calibration)
        scores = forest.tree_scores(rows)
        return cls(
            calibration=calibration,
            rows=rows,
            y=y,
            scores=scores,
            decisions=_decisions(forest, rows),
            threshold=float(np.rint(forest.score_threshold / step) * step) if forest.n_classes == 2 else 0.0,
            costs=calibration.tree_costs(InMemory(rows)),
            n_trees=np.full(scores.shape[1], forest.n_trees / scores.shape[1]),
            held_out=held_out,
            score_rows=forest.tree_scores,
            make_plan=lambda fit, certificate: score_plan(forest, fit, step, certificate),
        )

    @classmethod
    def at_sentinels(cls, calibration: Calibration) -> _Search:
        """Return a search whose scores are not those of trees, but what sentinels add to an estimate of their sum."""
        forest = calibration.forest
        check_refit(forest)
        rows, y, held_out = split_to_fit(calibration)
        fit, scores = fit_labels(forest, rows)
        starts = np.concatenate([[0], fit.sentinels])
        costs = calibration.tree_costs(InMemory(rows))[fit.order]
        return cls(
            calibration=calibration,
            rows=rows,
            y=y,
            scores=scores,
            decisions=_decisions(forest, rows),
            threshold=decision_score(forest),
            costs=np.add.reduceat(costs, starts),
            n_trees=np.diff(np.append(starts, forest.n_trees)).astype(np.float64),
            held_out=held_out,
            score_rows=partial(count_increments, forest, fit),
            make_plan=lambda thresholds, certificate: sentinel_plan(label_rule(fit, thresholds), certificate),
        )

    @property
    def is_tested(self) -> bool:
        return self.calibration.labels.confidence is not None

    @property
    def amounts(self) -> NDArray[np.float64]:
        return _AMOUNTS if self.is_tested else np.zeros(1)

    @property
    def fit_share(self) -> float:
        """The share of the promise that the first fit spends: a rule that will be widened starts better from less."""
        return _FIT_SHARE if self.is_tested else 1.0

    def fit(self, method: str, max_rate: float, order: NDArray[np.int64] | None = None) -> ScoreRule:
        """Fit a rule that changes at most `max_rate` of the rows, in an order that is given or found."""
        if self.calibration.forest.n_classes == 2:
            return _fit_two_classes(self, method, max_rate, order)
        return _fit_many_classes(self, method, max_rate, order)

    def count_exits(self, fits: Sequence[ScoreRule], amounts: NDArray[np.float64]) -> Sums:
        """Count exits on the rows that certify, for all fits and amounts of widening, in one pass."""
        return self.held_out.sums(partial(_count_exits, self.calibration.forest, self.score_rows, fits, amounts))

    def certify(self, method: str, fit: ScoreRule, exits: Sums) -> Plan:
        """Return the plan of the cheapest member of the family of `fit` that keeps the promise."""
        calibration, n_rows = self.calibration, self.held_out.n_rows
        # From the most cautious member on.
        family = [_Member(fit, float(a), exits[:, at]) for at, a in enumerate(self.amounts)][::-1]
        if self.is_tested:
            certified = self._certified(family)
            if not certified:
                raise _infeasible(calibration, family[0].n_mistakes, n_rows)
            if len(certified) == len(family):
                # All of them passed, so the sequence goes on.
                certified = self._certified(family + self._bolder(method, fit))
            family = certified
        costs = family[0].fit.costs
        best = min(reversed(family), key=lambda member: member.mean_cost(costs))
        in_trees = calibration.options.cost_unit == "trees"
        mean_cost = best.mean_cost(costs)
        measured = ExitMeasurement(
            changed=best.n_mistakes / n_rows,
            mean_trees=mean_cost if in_trees else best.mean_cost(self.n_trees),
            mean_cost=None if in_trees else mean_cost,
        )
        tested = {"n_rows": n_rows, "n_broken": best.n_mistakes} if self.is_tested else {}
        # With a gamma of the caller's, no limit was kept even on the rows that fitted the rule.
        is_limited = self.is_tested or calibration.options.gamma is None
        certificate = calibration.certificate(
            method,
            calibration.labels if is_limited else None,
            n_fit_rows=len(self.rows),
            measured=measured,
            **tested,
        )
        return self.make_plan(best.fit.widen(best.amount), certificate)

    def _certified(self, family: Sequence[_Member]) -> list[_Member]:
        """Return the members before the first that fails its test; all of them keep the promise at once."""
        promise = self.calibration.labels
        n_mistakes = [member.n_mistakes for member in family]
        last = certify_rates(n_mistakes, self.held_out.n_rows, promise.max_changed, promise.confidence or 0.0)
        return list(family[: last + 1])

    def _bolder(self, method: str, fit: ScoreRule) -> list[_Member]:
        """Return thresholds in the order of `fit` that spend more of the promise on the rows that fitted it."""
        if self.calibration.options.gamma is not None:
            return []  # the caller has said how bold
        rates = [rate for share in _BOLD_SHARES if (rate := share * self.calibration.labels.max_changed) < 1]
        fits = [self.fit(method, rate, fit.order) for rate in rates]
        counts = self.count_exits(fits, np.zeros(1))
        return [_Member(bold, 0.0, exits[:, 0]) for bold, exits in zip(fits, counts, strict=True)]


def split_to_fit(calibration: Calibration) -> tuple[NDArray[Any], NDArray[Any] | None, Sample]:
    """Return rows and labels that fit the rule, and rows that certify it; the same rows where nothing is certified."""
    rows, sample = calibration.rows, calibration.sample
    if calibration.fit_rows is not None:
        return calibration.fit_rows, None, rows.one_of_each()
    if not calibration.options.is_promised:
        return sample.gathered(), rows.y, sample
    fitting, y, held_out = rows.split(_count_fit_units(calibration))
    return fitting.gathered(), y, held_out


def split_to_choose(calibration: Calibration) -> tuple[Calibration, Calibration]:
    """Return a calibration that compares methods on a part of the fitting rows, and the one that certifies the best.

    Two thirds of the fitting rows fit the methods that are compared, and the others tell what each would spend. The
    method chosen is fitted to all of them, and certified on rows that had no part in any of this.
    """
    rows, promise = calibration.rows, calibration.labels
    fit_rows, test_rows = calibration.fit_rows, rows.one_of_each()
    if fit_rows is None:
        fitting, _, test_rows = rows.split(_count_fit_units(calibration))
        fit_rows = fitting.gathered()
    digests = hash_rows(fit_rows, calibration.forest.input_dtype)
    n_compare = len(fit_rows) // 3
    compare, fit = split_rows(digests, n_compare)
    # As if to certify, with a confidence that this few rows without a mistake have.
    least = -np.expm1(n_compare * np.log1p(-promise.max_changed))
    lenient = replace(promise, confidence=float(np.clip(0.999 * least, 1e-12, 0.5)))
    choosing = replace(
        calibration,
        rows=CheckedRows(sample=InMemory(fit_rows[compare]), y=None, digests=digests[compare]),
        fit_rows=fit_rows[fit],
        promise=lenient,
    )
    # Methods on votes would split the rows in another way.
    certifying = replace(calibration, rows=replace(rows, sample=test_rows, y=None, groups=None), fit_rows=fit_rows)
    return choosing, certifying


def _count_fit_units(calibration: Calibration) -> int:
    """Return how many rows, or groups of them, fit a rule on scores: half of them, if they can be brought together."""
    rows = calibration.rows
    n_fit = min(rows.n_units // 2, rows.sample.max_gathered * rows.n_units // rows.sample.n_rows)
    if n_fit == 0:
        raise InputError(
            "X_cal has one row, and one part of the rows fits what the other certifies; pass thousands, or X_fit too"
        )
    return n_fit


def _decisions(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the source model's labels as class indices; booleans for two classes."""
    codes = forest.codes_of(forest.predict(rows))
    return codes.astype(np.bool_ if forest.n_classes == 2 else np.intp)


def _fit_two_classes(
    search: _Search, method: str, max_rate: float, order: NDArray[np.int64] | None
) -> MarginFit | FanFit:
    forest, options = search.calibration.forest, search.calibration.options
    decisions, step, y = search.decisions, score_step(forest), search.y
    keep_scores, given = options.keep_scores, options.order if order is None else order
    if decisions.all() or not decisions.any():
        raise _one_class(forest, decisions)
    shared: dict[str, Any] = {
        "decision_threshold": search.threshold,
        "decisions": decisions,
        "costs": search.costs,
        "y": None if y is None or forest.classes is None else np.asarray(y == forest.classes[1]),
        "random_state": search.calibration.search_rng,
    }
    if method == "fan":
        if keep_scores is not None:
            raise InputError('keep_scores needs thresholds: use method="qwyc"', argument="keep_scores")
        width = max(np.rint((_BIN_WIDTH if options.bin_width is None else options.bin_width) / step), 1.0) * step
        preset = given if given is not None else "natural" if y is None else "individual-mse"
        shared["max_disagreement" if options.gamma is None else "gamma"] = (
            max_rate if options.gamma is None else options.gamma
        )
        return fan(search.scores, bin_width=width, order=preset, min_rows=_MIN_BIN_ROWS, **shared)
    fit = qwyc(
        search.scores,
        order="natural" if method in ("natural", "sentinels") else given,
        negative_only=keep_scores == "positive",
        max_disagreement=max_rate,
        **shared,
    )
    return keep_apart(fit) if method == "sentinels" else fit


def _one_class(forest: Forest, decisions: NDArray[np.bool_]) -> InputError:
    classes = [False, True] if forest.classes is None else forest.classes.tolist()
    given, missing = classes[::-1] if decisions.all() else classes
    return InputError(
        f"the model answers {given!r} to all {len(decisions)} rows that fit the rule: nothing to tell apart. "
        f"Add rows that it answers {missing!r} to, or pass the threshold at which it should answer {classes[1]!r}"
    )


def _fit_many_classes(search: _Search, method: str, max_rate: float, order: NDArray[np.int64] | None) -> LeaderFit:
    forest, scores = search.calibration.forest, search.scores
    if method == "fan":
        raise InputError(
            f'method="fan" decides between two classes, the model has {forest.n_classes}; use "qwyc"', argument="method"
        )
    options = search.calibration.options
    if options.keep_scores is not None:
        raise InputError('keep_scores="positive" needs a model with two classes', argument="keep_scores")
    given = options.order if order is None else order
    if isinstance(given, str) and given.endswith("-mse"):
        raise InputError(f"order {given!r} is for two classes, the model has {forest.n_classes}", argument="order")
    if isinstance(given, str) and given == "random":
        given = search.calibration.search_rng.permutation(forest.n_rounds)
    return multiclass_qwyc(
        scores,
        max_disagreement=max_rate,
        base_score=forest.score_start,
        costs=search.costs.reshape(scores.shape[1], -1).sum(axis=1),
        order="natural" if method == "natural" else given,
    )


def _count_exits(
    forest: Forest,
    score_rows: Callable[[NDArray[Any]], NDArray[np.float64]],
    fits: Sequence[ScoreRule],
    amounts: NDArray[np.float64],
    rows: NDArray[Any],
) -> Sums:
    """Count, for every fit and every amount of widening, the rows that leave after each tree, and those changed."""
    scores, decisions = score_rows(rows), _decisions(forest, rows)
    return np.stack([fit.widening_exits(scores, amounts, decisions=decisions) for fit in fits])


def _infeasible(calibration: Calibration, n_mistakes: int, n_rows: int) -> InfeasibleError:
    alpha, confidence = calibration.labels.max_changed, calibration.labels.confidence or 0.0
    achievable = certified_rate(n_mistakes, n_rows, confidence)
    # Two digits, never rounded down: what is advised must be feasible.
    advice, needed = f"Pass max_disagreement={round_up(achievable, 2):.2g}", None
    if alpha > 0:
        needed = rows_needed(alpha, confidence)
        # Without rows to fit, half of the calibration rows are used for that.
        needed = needed if calibration.has_fit_rows else 2 * needed - 1
        advice += f", at least {needed} calibration rows"
    return InfeasibleError(
        f"max_disagreement={alpha:g} cannot be certified with confidence {calibration.labels.confidence} on {n_rows} "
        f"rows; {achievable:.3g} can. {advice}, or confidence=None for no promise",
        achievable,
        n_rows_needed=needed,
        argument="max_disagreement",
    )
