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
from scurry.promises import Certificate, ExitMeasurement, Labels
from scurry.runners.sentinels import sentinel_plan
from scurry.stopping import FanFit, LeaderFit, MarginFit, ScoreFit, fan, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import (
    InMemory,
    Sample,
    Sums,
    certified_rate,
    certify_rates,
    hash_rows,
    rows_needed,
    split_rows,
)
from scurry.stopping.scores.qwyc import Family
from scurry.stopping.scores.rule import round_to_grid
from scurry.stopping.sentinels.lanes import MARGIN_STEP, equal_margins
from scurry.stopping.sentinels.prefix import MAX_LEAVES
from scurry.verbs.options import Calibration, CheckedRows
from scurry.verbs.planners.score_map import with_quality
from scurry.verbs.planners.sentinel_scores import choose_sentinels, count_increments, decide_in_full, fit_labels


def can_refit(forest: Forest) -> bool:
    """Return whether estimates of the full score can be fitted to the first trees: they must add up to one score."""
    if forest.wrapper is not None:
        return False  # what sentinels estimate is not what the wrapper answers
    largest = np.add.reduceat(forest.is_leaf.astype(np.int64), forest.tree_offset[:-1]).max()
    return forest.aggregation == "sum" and forest.n_outputs <= 2 and forest.n_classes <= 2 and largest <= MAX_LEAVES


def try_sentinels(forest: Forest) -> bool:
    """Return whether `method="auto"` tries sentinels: not in symmetric trees, where they take more time than all trees.

    Several sums for each row are more work there than the trees (`scurry.verbs.planners.speed`).
    """
    return forest.n_classes == 2 and can_refit(forest) and forest.engine.loop != "symmetric"


def check_refit(forest: Forest) -> None:
    """Raise an error unless `can_refit`."""
    if not can_refit(forest):
        raise InputError(
            'method="sentinels" is for boosted trees with two classes, whose scores are added up; use "auto"',
            argument="method",
        )


SCORE_METHODS = ("qwyc", "fan", "natural", "sentinels")
# How far thresholds are moved outwards, in units of the spread of full scores (or of gamma): from "as fitted" to
# "hardly ever stop".
_AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])
_MARGINS = np.concatenate([[0.0], np.geomspace(0.02, 64.0, 280)])  # the same for margins at sentinels

_FIT_SHARE = 0.3  # of the promised rate, spent by the fit
_BOLD_SHARES = tuple(0.3 * 1.15**step for step in range(1, 15))  # spent by the fits that follow where rows allow
_BIN_WIDTH = 0.1  # Fan's, in units of the score
_MOSTLY = 0.5  # a larger share of answers than this
_MIN_BIN_ROWS = 5  # bins of fewer rows show no deviation, and would stop rows at any gamma


def plan_by_scores(calibration: Calibration, method: str) -> tuple[Plan, float]:
    """Return a certified plan by "qwyc", "fan", "natural" (thresholds on the trees' own order) or "sentinels".

    Returns
    -------
    plan : Plan
    spent : float
        Its cost per row on the rows that tested it, or its trees where each costs the same.

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified.
    """
    search = ScoreSearch.by(method, calibration, calibration.labels.max_changed)
    fit = search.fit(method, calibration.labels.max_changed * search.fit_share)
    return search.certify(method, fit, search.count_exits([fit], search.amounts)[0])


class _Member(NamedTuple):
    """A member of the family that is tested, and what it does to the rows that test it."""

    fit: ScoreFit
    amount: float
    exits: Sums  # rows that leave after each tree, and last those answered differently

    @property
    def n_mistakes(self) -> int:
        return int(self.exits[-1])

    def mean_cost(self, costs: NDArray[np.float64]) -> float:
        """Return the cost per row, given the cost of each model."""
        return float(replace(self.fit, costs=costs).curve_of([self.amount], self.exits[:, None]).mean_cost[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreSearch:
    """Rows that fit rules and rows that certify them, with what both have in common.

    Attributes
    ----------
    calibration : Calibration
    rows, y, scores, decisions
        The rows that fit rules, their labels where they are known, the scores of each tree or of what stands for
        several, the model's own labels.
    threshold : float
        The sum of scores from which on a row gets the second of two classes.
    costs, n_trees : float64 arrays of shape (n_models,)
        What each score costs, and how many trees are behind it.
    held_out : Sample
        The rows that certify.
    tests : bool array of shape (n_rows,)
        Which of the calibration rows they are.
    score_rows : callable
        Makes the scores of rows.
    make_plan : callable
        Makes the plan of a fit and a certificate.
    wider : float64 array of shape (n_amounts,)
        Ascending amounts by which a fit is widened.
    """

    calibration: Calibration
    rows: NDArray[Any]
    y: NDArray[Any] | None
    scores: NDArray[np.float64]
    decisions: NDArray[Any]
    threshold: float
    costs: NDArray[np.float64]
    n_trees: NDArray[np.float64]
    held_out: Sample
    tests: NDArray[np.bool_]
    score_rows: Callable[[NDArray[Any]], NDArray[np.float64]]
    make_plan: Callable[[Any, Certificate], Plan]
    wider: NDArray[np.float64]

    @classmethod
    def by(cls, method: str, calibration: Calibration, max_changed: float) -> ScoreSearch:
        """Return the search that a method makes, where about this share of the labels may change."""
        return cls.at_sentinels(calibration, max_changed) if method == "sentinels" else cls.of(calibration)

    @classmethod
    def of(cls, calibration: Calibration) -> ScoreSearch:
        """Divide the rows of a calibration, and score those that fit rules."""
        forest, step = calibration.forest, score_step(calibration.forest)
        rows, y, tests = split_to_fit(calibration)
        scores = forest.tree_scores(rows)
        return cls(
            calibration=calibration,
            rows=rows,
            y=y,
            scores=scores,
            decisions=decide_in_full(forest, rows),
            threshold=float(np.rint(forest.score_threshold / step) * step) if forest.n_classes == 2 else 0.0,
            costs=calibration.tree_costs(InMemory(rows)),
            n_trees=np.full(scores.shape[1], forest.n_trees / scores.shape[1]),
            held_out=calibration.sample if tests.all() else calibration.sample.where(tests),
            tests=tests,
            score_rows=forest.tree_scores,
            make_plan=lambda fit, certificate: Plan(
                order=forest.trees_of(fit.order), stop=fit.stop_rule(step), certificate=certificate
            ),
            wider=_AMOUNTS,
        )

    @classmethod
    def at_sentinels(cls, calibration: Calibration, max_changed: float) -> ScoreSearch:
        """Return a search whose scores are not those of trees, but what sentinels add to an estimate of their sum."""
        forest = calibration.forest
        check_refit(forest)
        rows, y, tests = split_to_fit(calibration)
        decisions = decide_in_full(forest, rows)
        decision, scores = choose_sentinels(
            forest,
            *fit_labels(forest, rows),
            decisions,
            max_changed,
            negative_only=calibration.options.keep_scores == "positive",
        )
        starts = np.concatenate([[0], decision.fit.sentinels])
        costs = calibration.tree_costs(InMemory(rows))[decision.fit.order]
        return cls(
            calibration=calibration,
            rows=rows,
            y=y,
            scores=scores,
            decisions=decisions,
            threshold=0.0,
            costs=np.add.reduceat(costs, starts),
            n_trees=np.diff(np.append(starts, forest.n_trees)).astype(np.float64),
            held_out=calibration.sample if tests.all() else calibration.sample.where(tests),
            tests=tests,
            score_rows=partial(count_increments, forest, decision),
            make_plan=lambda thresholds, certificate: with_quality(
                calibration, tests, sentinel_plan(decision.rule(thresholds), certificate)
            ),
            wider=_MARGINS,
        )

    @property
    def is_tested(self) -> bool:
        """Whether rows certify something."""
        return self.calibration.promise.confidence is not None

    @property
    def amounts(self) -> NDArray[np.float64]:
        """The amounts by which a fit is widened; 0 alone where nothing is certified."""
        return self.wider if self.is_tested else np.zeros(1)

    @property
    def fit_share(self) -> float:
        """The share of the promise that the first fit spends: a rule that will be widened starts better from less."""
        return _FIT_SHARE if self.is_tested else 1.0

    def fit(self, method: str, max_rate: float, order: NDArray[np.int64] | None = None) -> ScoreFit:
        """Fit a rule that changes at most `max_rate` of the rows, in an order that is given or found."""
        if method == "sentinels":
            return self._fit_margins(max_rate)
        if method != "fan" and (self.decisions == self.decisions[0]).all():
            return _stop_at_once(self)
        if self.calibration.forest.n_classes == 2:
            return _fit_two_classes(self, method, max_rate, order)
        return _fit_many_classes(self, method, max_rate, order)

    def _fit_margins(self, max_rate: float) -> MarginFit:
        """Return the boldest margin, which is widened; where nothing is certified, the boldest that keeps the limit."""
        is_negative = self.calibration.options.keep_scores == "positive"
        fit = equal_margins(self.scores.shape[1] - 1, MARGIN_STEP, self.costs, negative_only=is_negative)
        if self.is_tested:
            return fit
        n_mistakes = fit.widening_curve(self.scores, self.wider, decisions=self.decisions).n_mistakes
        allowed = np.flatnonzero(n_mistakes <= max_rate * len(self.rows))
        return fit.widen(float(self.wider[allowed[0] if len(allowed) else -1]))

    def count_exits(self, fits: Sequence[ScoreFit], amounts: NDArray[np.float64]) -> Sums:
        """Count exits on the rows that certify, for all fits and amounts of widening, in one pass."""
        return self.held_out.sums(partial(_count_exits, self.calibration.forest, self.score_rows, fits, amounts))

    def certify(self, method: str, fit: ScoreFit, exits: Sums) -> tuple[Plan, float]:
        """Return the plan of the cheapest member of the family of `fit` that keeps the promise, and what it spends."""
        calibration, n_rows = self.calibration, self.held_out.n_rows
        # From the most cautious member on.
        family = [_Member(fit, float(a), exits[:, at]) for at, a in enumerate(self.amounts)][::-1]
        if self.is_tested:
            certified = self._keep_certified(family)
            if not certified:
                raise _infeasible(calibration, family[0].n_mistakes, n_rows)
            if len(certified) == len(family):
                # All of them passed, so the sequence goes on.
                certified = self._keep_certified(family + self._bolder(method, fit))
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
        return self.make_plan(best.fit.widen(best.amount), certificate), mean_cost

    def family(self, method: str, allowed: float, share: float, bolder: Sequence[float]) -> Family:
        """Return rules in one order of trees, from the most cautious to the boldest.

        Parameters
        ----------
        method : {"qwyc", "natural", "sentinels"}
        allowed : float
            The share of rows that may change as far as the rows that fit rules can tell.
        share : float
            Of it, what the fit spends that finds the order and is widened.
        bolder : sequence of float
            Of it, what the fits spend that follow.
        """
        first = self.fit(method, share * allowed)
        family = Family(first, self.wider, self.bolder_fits(method, allowed, first, bolder))
        if method != "sentinels" and isinstance(first, MarginFit) and self._casts_votes:
            return family.stagger(float(np.ptp(self.scores)))
        return family

    @property
    def _casts_votes(self) -> bool:
        """Whether most answers of trees are one class or the other, so that sums lie nearly whole votes apart."""
        is_vote = (self.scores == self.scores.min()) | (self.scores == self.scores.max())
        return self.calibration.forest.aggregation != "sum" and float(is_vote.mean()) > _MOSTLY

    def bolder_fits(self, method: str, allowed: float, first: ScoreFit, shares: Sequence[float]) -> list[ScoreFit]:
        """Return rules in the order of `first` that spend these shares of what is allowed; none for sentinels."""
        if method == "sentinels":
            return []  # the first one is as bold as they get
        return [self.fit(method, rate, first.order) for share in shares if (rate := share * allowed) < 1]

    def count(self, family: Family, rows: NDArray[np.bool_] | None = None) -> Sums:
        """Count what each member does to the rows that certify, or to some of them; see `count_members`."""
        sample = self.held_out if rows is None else self.held_out.where(rows)
        return sample.sums(partial(count_members, self.calibration.forest, self.score_rows, family))

    def cheapest_of(self, family: Family, last: int) -> int:
        """Return which of the members up to `last` is the cheapest; the boldest of equal ones."""
        exits = self.count(family)[: last + 1, :-1]
        costs = exits @ np.cumsum(family.first.costs[family.first.order])
        return last - int(np.argmin(costs[::-1]))

    def mean_cost(self, family: Family, member: int) -> float:
        """Return what a member spends per row on the rows that certify."""
        costs = np.cumsum(family.first.costs[family.first.order])
        return float(self.count(family)[member, :-1] @ costs) / self.held_out.n_rows

    def plan(self, method: str, rule: ScoreFit, **tested: Any) -> tuple[Plan, float]:
        """Return the plan of a rule, with what was measured on the rows that tested it, and what it spends."""
        calibration, n_rows = self.calibration, self.held_out.n_rows
        counts, trees = self.count(Family(rule, np.zeros(1)))[0], np.cumsum(self.n_trees)
        in_trees, mean_trees = calibration.options.cost_unit == "trees", float(counts[:-1] @ trees) / n_rows
        mean_cost = mean_trees if in_trees else float(counts[:-1] @ np.cumsum(rule.costs[rule.order])) / n_rows
        measured = ExitMeasurement(
            changed=int(counts[-1]) / n_rows,
            mean_trees=mean_trees,
            mean_cost=None if in_trees else mean_cost,
        )
        certificate = calibration.certificate(
            method, calibration.promise, n_rows=n_rows, n_fit_rows=len(self.rows), measured=measured, **tested
        )
        return self.make_plan(rule, certificate), mean_cost

    def _keep_certified(self, family: Sequence[_Member]) -> list[_Member]:
        """Return the members before the first that fails its test; all of them keep the promise at once."""
        promise = self.calibration.labels
        n_mistakes = [member.n_mistakes for member in family]
        confidence = 1.0 - self.calibration.risk
        last = certify_rates(n_mistakes, self.held_out.n_rows, promise.max_changed, confidence)
        return list(family[: last + 1])

    def _bolder(self, method: str, fit: ScoreFit) -> list[_Member]:
        """Return thresholds in the order of `fit` that spend more of the promise on the rows that fitted it."""
        if self.calibration.options.gamma is not None:
            return []  # the caller has said how bold
        fits = self.bolder_fits(method, self.calibration.labels.max_changed, fit, _BOLD_SHARES)
        if not fits:
            return []
        counts = self.count_exits(fits, np.zeros(1))
        return [_Member(bold, 0.0, exits[:, 0]) for bold, exits in zip(fits, counts, strict=True)]


def split_to_fit(calibration: Calibration) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.bool_]]:
    """Return rows and labels that fit the rule, and which rows certify it; all of them where nothing is certified."""
    rows, sample = calibration.rows, calibration.sample
    if calibration.fit_rows is not None:
        every = np.ones(sample.n_rows, np.bool_)
        return calibration.fit_rows, calibration.fit_y, every if rows.groups is None else rows.divide(0)[1]
    if not calibration.options.is_promised:
        return sample.gather(), rows.y, np.ones(sample.n_rows, np.bool_)
    fits, tests = rows.divide(_count_fit_units(calibration))
    return sample.where(fits).gather(), None if rows.y is None else rows.y[fits], tests


def split_to_choose(calibration: Calibration) -> tuple[Calibration, Calibration]:
    """Return a calibration that compares methods on a part of the fitting rows, and the one that certifies the best.

    Two thirds of the fitting rows fit the methods that are compared, and the others tell what each would spend. The
    method chosen is fitted to all of them, and certified on rows that had no part in any of this.
    """
    rows, promise = calibration.rows, calibration.labels
    fit_rows, test_rows = calibration.fit_rows, rows.one_of_each()
    if fit_rows is None:
        fitting, _, test_rows = rows.split(_count_fit_units(calibration))
        fit_rows = fitting.gather()
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
        fit_y=None if calibration.fit_y is None else calibration.fit_y[fit],
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


def _fit_two_classes(
    search: ScoreSearch, method: str, max_rate: float, order: NDArray[np.int64] | None
) -> MarginFit | FanFit:
    forest, options = search.calibration.forest, search.calibration.options
    decisions, step, y = search.decisions, score_step(forest), search.y
    keep_scores, given = options.keep_scores, options.order if order is None else order
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
    return qwyc(
        search.scores,
        order="natural" if method == "natural" else given,
        negative_only=keep_scores == "positive",
        max_disagreement=max_rate,
        **shared,
    )


def _stop_at_once(search: ScoreSearch) -> MarginFit | LeaderFit:
    """Return the rule for a model that gives all rows that fit rules one label: they stop after the first tree."""
    grid, forest = round_to_grid(search.scores), search.calibration.forest
    n_models, n_rows = grid.values.shape[:2]
    never, label = np.full(n_models - 1, np.inf), int(search.decisions[0])
    shared: dict[str, Any] = {"order": np.arange(n_models), "step": grid.unit, "n_rows": n_rows}
    if forest.n_classes == 2:
        lower, upper, keeps = -never, never, search.calibration.options.keep_scores == "positive"
        if n_models > 1 and label and not keeps:
            upper[0] = grid.values[0].min()
        elif n_models > 1 and not label:
            lower[0] = grid.values[0].max()
        return MarginFit(
            lower=lower, upper=upper, costs=search.costs, decision_threshold=search.threshold, spread=1.0, **shared
        )
    sums = forest.score_start + grid.values[0]
    second, first = np.sort(sums, axis=1)[:, -2:].T
    is_wrong = np.argmax(sums, axis=1) != label
    if n_models > 1:
        leads = first - second
        never[0] = np.nextafter(leads[is_wrong].max(), np.inf) if is_wrong.any() else leads.min()
    costs = search.costs.reshape(n_models, -1).sum(axis=1)
    return LeaderFit(lead=never, base_score=np.asarray(forest.score_start), costs=costs, spread=1.0, **shared)


def _fit_many_classes(search: ScoreSearch, method: str, max_rate: float, order: NDArray[np.int64] | None) -> LeaderFit:
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
        decisions=search.decisions,
    )


def _count_exits(
    forest: Forest,
    score_rows: Callable[[NDArray[Any]], NDArray[np.float64]],
    fits: Sequence[ScoreFit],
    amounts: NDArray[np.float64],
    rows: NDArray[Any],
) -> Sums:
    """Count, for every fit and every amount of widening, the rows that leave after each tree, and those changed."""
    scores, labels = score_rows(rows), decide_in_full(forest, rows).astype(np.intp)
    families = [Family(fit, amounts) for fit in fits]
    return np.stack([_count_changed(family, scores, labels, forest.n_classes)[::-1].T for family in families])


def count_members(
    forest: Forest, score_rows: Callable[[NDArray[Any]], NDArray[np.float64]], family: Family, rows: NDArray[Any]
) -> Sums:
    """Count, for each member, the rows that leave after each tree, and last those with another label than the model's.

    Returns
    -------
    int64 array of shape (n_members, n_models + 1)
        Counts of parts of the rows add up.
    """
    scores, labels = score_rows(rows), decide_in_full(forest, rows).astype(np.intp)
    return _count_changed(family, scores, labels, forest.n_classes)


def _count_changed(
    family: Family, scores: NDArray[np.float64], labels: NDArray[np.intp], n_classes: int
) -> NDArray[np.int64]:
    """Count as `count_members` does. A row that evaluates every tree gets the model's own label, ties included."""
    n_models = family.first.n_models
    counts = np.zeros((len(family), n_models + 1), np.int64)
    for label in np.unique(labels):
        chosen = labels == label
        answers = family.answers(scores[chosen], labels[chosen], n_classes)
        counts[:, :-1] += answers[:, :n_models]
        counts[:, -1] += int(chosen.sum()) - answers[:, n_models + label]
    return counts


def methods_for(calibration: Calibration) -> list[str]:
    """Return the methods on scores that may keep a promise of another kind than `Labels`."""
    options, kind = calibration.options, type(calibration.promise).__name__
    if options.method not in ("auto", "qwyc", "sentinels"):
        raise InputError(
            f'method must be "auto", "qwyc" or "sentinels" for {kind}, got {options.method!r}', argument="method"
        )
    if options.shuffle != "fixed":
        raise InputError(f'shuffle must be "fixed" for {kind}', argument="shuffle")
    if options.method != "auto":
        return [options.method]
    forest = calibration.forest
    return ["qwyc", "natural", "sentinels"] if try_sentinels(forest) else ["qwyc", "natural"]


def compare_methods(calibration: Calibration, rate: float) -> dict[str, float]:
    """Return what methods on scores spend where `rate` of all labels may change, on rows that certify nothing."""
    methods = methods_for(calibration)
    if len(methods) == 1:
        return {methods[0]: np.inf}
    choosing, _ = split_to_choose(replace(calibration, promise=Labels(rate, confidence=calibration.promise.confidence)))
    return {method: measure_spending(plan_by_scores, choosing, method) for method in methods}


def can_certify(calibration: Calibration) -> bool:
    """Return whether so many rows could certify the promise about labels, if none of them were a mistake."""
    promise, n_rows = calibration.labels, calibration.sample.n_rows
    return bool(n_rows * np.log1p(-promise.max_changed) <= np.log(calibration.risk))


def measure_spending(
    planner: Callable[[Calibration, str], tuple[Plan, float]], choosing: Calibration, method: str
) -> float:
    """Return what a method spends per row on rows that compare methods; infinite if they are too few for it."""
    try:
        return planner(choosing, method)[1]
    except (InfeasibleError, InputError):
        return np.inf  # all rows may do, and if not, their error says what is wrong


def _infeasible(calibration: Calibration, n_mistakes: int, n_rows: int) -> InfeasibleError:
    alpha, confidence = calibration.labels.max_changed, calibration.labels.confidence or 0.0
    achievable = certified_rate(n_mistakes, n_rows, 1.0 - calibration.risk)
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
