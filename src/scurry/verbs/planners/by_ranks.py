"""Early exit on ranks: documents leave a query once they cannot change its k best, certified on other queries.

A part of the queries finds an order of trees and refits its beginnings (`scurry.stopping.sentinels.prefix`), and how
far estimates of a query's best documents are off. One number, the caution, is left for the other queries. They test
cautious rules first, as they run, and stop at the first that cannot be certified.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import Certificate, Outcomes, RankMeasurement, TopK, find_places
from scurry.runners.runner import Run
from scurry.runners.sentinels import rank_plan
from scurry.stopping.guarantee import InMemory, certified_rate, rate_p_value, rows_needed, rows_worth_testing
from scurry.stopping.sentinels.lanes import SentinelFit, near_decision, prefix_lanes
from scurry.stopping.sentinels.prefix import Recipe, even_sentinels, worthwhile_sentinels
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners.by_scores import can_refit
from scurry.verbs.planners.sentinel_scores import fit_scores, full_scores
from scurry.verbs.planners.speed import explain_speed, test_cost

# The first ones are for models whose few worst estimates are far worse than the others.
CAUTIONS = np.concatenate([np.geomspace(64.0, 8.0, 12, endpoint=False), np.geomspace(8.0, 0.25, 361)])
_EVERY = 24  # of the cautions, that show where documents leave
_MORE_TREES = 0.05  # as a share, that fewer sentinels may cost
_N_DIVIDING = 32
# More rows than for values, and closer to them: measured, estimates of good documents miss 4 to 7 % less. Half of all
# trees may be those of documents that stay to the end, so that late trees are ordered, too.
_RECIPE = Recipe(n_mixed=7, most_rows=250_000, mixed_weight=1.0, ordered_share=0.97, rate=0.5, all_spread=True)
_LATE_SENTINELS = np.array([0.77, 0.86, 0.93])  # as shares of the trees, instead of the last two of values
_NORMAL_EIGHTH = 105.0  # the mean eighth power of standard normal numbers
# How much of the line through critical cautions sentinels lean by, and the critical caution of a query that is added.
_LEANING, _USUAL_CAUTION = 0.7, 2.0
FloatArray = NDArray[np.float64]


class Queries(NamedTuple):
    """Documents, those of a query next to each other.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    query : int array of shape (n_rows,)
    full : float64 array of shape (n_rows,)
        The model's own scores.
    """

    rows: NDArray[Any]
    query: NDArray[np.intp]
    full: FloatArray

    def where(self, chosen: NDArray[np.bool_]) -> Queries:
        """Return some of the documents."""
        return Queries(self.rows[chosen], self.query[chosen], self.full[chosen])

    def count_changed(self, promise: TopK, scores: FloatArray) -> int:
        """Return how many queries break the promise with these scores."""
        (count,) = promise.count(Outcomes(answers=scores, full=self.full, queries=self.query))
        return count.n_broken


def rank_by_score(forest: Forest) -> Forest:
    """Return the forest whose answers are the scores that rank rows: those before the link, if it has one.

    A classifier with two classes ranks by the score of its second class, which rises with its probability.
    """
    if forest.wrapper is not None:
        raise InputError(
            f"TopK compares scores, and this model answers with {forest.wrapper.describe()}; import the model inside",
            argument="promise",
        )
    has_one_score = forest.n_outputs == 1 and forest.aggregation == "sum"
    return forest.replace(classes=None, link="identity") if has_one_score else forest


def plan_by_ranks(calibration: Calibration) -> Plan:
    """Return a certified plan for a promise about the k best documents of queries.

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified.
    """
    forest, promise = calibration.forest, calibration.promise
    assert isinstance(promise, TopK)
    assert promise.confidence is not None
    _check_asked(forest, promise, calibration)
    queries = _read_queries(calibration)
    n_queries = calibration.rows.n_units
    if np.bincount(queries.query).max() <= promise.k:
        raise InputError(
            f"no query has more than {promise.k} documents, so that all of them are in its top {promise.k}; pass a "
            "smaller k, or run the model itself",
            argument="promise",
        )
    # Rows that were given to fit the rule leave more queries to certify it. Some are needed still: rows that trained
    # the model say too little of how far estimates of new ones are off, and they have no queries.
    n_left = n_queries - max(n_queries // (5 if calibration.has_fit_rows else 2), 1)
    n_tests = rows_worth_testing(n_left, promise.max_changed, promise.confidence)
    if n_tests == 0:
        raise _infeasible(calibration, promise, 0, n_left)
    n_fit = n_queries - n_tests
    fits = np.isin(queries.query, queries.query[calibration.rows.divide(n_fit)[0][_by_query(calibration)]])
    fitting, testing = queries.where(fits), queries.where(~fits)
    fit, sigma = _fit(calibration, promise, fitting)
    if calibration.options.method == "auto":  # who names the method asks for few trees, whatever time tests take
        fit, sigma = _choose_sentinels(forest, promise, fitting, fit, sigma)
    best: tuple[float, Run, int] | None = None
    for caution in CAUTIONS:
        run = Predictor(forest, rank_plan(fit, promise, caution * sigma)).run(testing.rows, groups=testing.query)
        n_broken = testing.count_changed(promise, run.scores)
        if rate_p_value(n_broken, n_tests, promise.max_changed) > 1 - promise.confidence:
            if best is None:
                raise _infeasible(calibration, promise, n_broken, n_tests)
            break
        best = float(caution), run, n_broken
    assert best is not None
    caution, run, n_broken = best
    measured = RankMeasurement(
        changed=n_broken / n_tests,
        mean_trees=run.mean_trees,
        mean_documents=len(testing.rows) / n_tests,
        caution=caution,
    )
    certificate = calibration.certificate(
        "sentinels",
        promise,
        n_rows=n_tests,
        n_broken=n_broken,
        n_fit_rows=len(fitting.rows if calibration.fit_rows is None else calibration.fit_rows),
        measured=measured,
    )
    plan = replace(rank_plan(fit, promise, caution * sigma), certificate=certificate)
    slow = explain_speed(forest, plan, run.trees)
    if slow and calibration.options.method == "auto":
        said = f"no document leaves; {slow.replace('rows', 'documents', 1)}"
        return _evaluate_all(forest, promise, fit, certificate, said)
    return replace(plan, certificate=replace(certificate, why=slow))


def _choose_sentinels(
    forest: Forest, promise: TopK, fitting: Queries, fit: SentinelFit, sigma: FloatArray
) -> tuple[SentinelFit, FloatArray]:
    """Leave out the sentinels that take more time than they save, as the queries that fitted the rule show."""
    best: Run | None = None
    for caution in CAUTIONS[::_EVERY]:
        run = Predictor(forest, rank_plan(fit, promise, caution * sigma)).run(fitting.rows, groups=fitting.query)
        n_broken = fitting.count_changed(promise, run.scores)
        if best is not None and n_broken > promise.max_changed * len(np.unique(fitting.query)):
            break
        best = run
    assert best is not None
    stops = np.bincount(np.searchsorted(fit.sentinels, best.trees), minlength=len(fit.sentinels) + 1)
    kept = worthwhile_sentinels(
        fit.sentinels, stops, n_trees=forest.n_trees, test_cost=test_cost(forest, promise), more_trees=_MORE_TREES
    )
    return fit.keep(kept), sigma[kept]


def _evaluate_all(forest: Forest, promise: TopK, fit: SentinelFit, certificate: Certificate, why: str) -> Plan:
    """Return the plan by which no document leaves, because comparing them takes more time than it saves."""
    assert isinstance(certificate.measured, RankMeasurement)
    measured = replace(certificate.measured, changed=0.0, mean_trees=float(forest.n_trees))
    certificate = replace(certificate, n_broken=0, measured=measured, why=why)
    return replace(rank_plan(fit.keep(np.empty(0, np.intp)), promise, np.empty(0)), certificate=certificate)


def _check_asked(forest: Forest, promise: TopK, calibration: Calibration) -> None:
    """Raise an error that says what to ask for instead, if this cannot be promised."""
    options: ExitOptions = calibration.options
    if calibration.rows.groups is None or "groups=groups" not in calibration.data:
        raise InputError(f"groups is needed: TopK({promise.k}) is about the rows of each query", argument="groups")
    if forest.is_classifier or forest.aggregation != "sum" or not can_refit(forest):
        raise InputError(
            "TopK is for boosted trees with one score for each row, with at most 65,536 leaves a tree: rankers such as "
            "LGBMRanker, regressors, and classifiers with two classes",
            argument="model",
        )
    if options.method not in ("auto", "sentinels"):
        raise InputError(f'TopK needs method="auto" or "sentinels", got {options.method!r}', argument="method")
    if calibration.rows.parts is not None:
        raise InputError("by= cannot be used with TopK; calibrate a predictor for each subgroup", argument="by")
    for name, usual in (("keep_scores", None), ("threshold", None), ("shuffle", "fixed"), ("costs", "trees")):
        if not (isinstance(given := getattr(options, name), str | None) and given == usual):
            raise InputError(f"{name} is for promises about labels; leave it out", argument=name)
    if not isinstance(calibration.sample, InMemory):
        raise InputError("TopK needs calibration rows in memory; pass an array or a frame", argument="X_cal")


def _by_query(calibration: Calibration) -> NDArray[np.intp]:
    assert calibration.rows.groups is not None
    return np.argsort(calibration.rows.groups, kind="stable")


def _read_queries(calibration: Calibration) -> Queries:
    at = _by_query(calibration)
    assert calibration.rows.groups is not None
    rows = calibration.sample.gather()[at]
    full = full_scores(calibration.forest, rows)
    if not np.isfinite(full).all():
        n_lost = np.count_nonzero(~np.isfinite(full))
        raise InputError(
            f"the model scores {n_lost:,} rows of X_cal as NaN or infinite, which have no rank; leave them out",
            argument="X_cal",
        )
    return Queries(rows, calibration.rows.groups[at], full)


def _fit(calibration: Calibration, promise: TopK, fitting: Queries) -> tuple[SentinelFit, FloatArray]:
    """Return estimates of full scores, and how far one of a good document may be off for each unit of its spread."""
    forest = calibration.forest
    rows = fitting.rows if calibration.fit_rows is None else calibration.fit_rows
    full = fitting.full if calibration.fit_rows is None else full_scores(forest, rows)
    if np.ptp(full) == 0:
        raise InputError(
            f"the model gives all {len(rows):,} rows that fit the rule the same value: nothing to rank. Pass rows "
            "like those to be predicted",
            argument="X_cal",
        )
    leaves, prefix = fit_scores(
        forest,
        rows,
        full,
        sentinels=rank_sentinels(forest.n_trees),
        weigh=partial(_near_the_last, fitting, promise.k),
        tested=None if calibration.fit_rows is None else (fitting.rows, fitting.full),
        recipe=_RECIPE,
    )
    place = find_places(fitting.full, fitting.query)
    good = place < 2 * promise.k
    query = np.unique(fitting.query[good], return_inverse=True)[1]
    missed = (fitting.full - prefix.tested)[:, good]  # by corrections that were not fitted to these rows
    sizes = np.bincount(query)
    means = np.stack([np.bincount(query, weights=one) for one in missed]) / sizes
    fit = prefix_lanes(leaves, prefix, with_spread=True)
    spread = np.stack([np.maximum(each, 1.0) for _, each in fit.sums(forest.apply(fitting.rows[good]))])
    # Half of the difference of two documents for each of them.
    sigma = np.sqrt(0.5) * _deviation_of_tails((missed - means[:, query]) / spread)
    best_first = np.lexsort([place[good], query])
    critical = np.stack([
        critical_cautions(prefix.tested[:, good][:, of], sigma[:, None] * spread[:, of], promise.k)
        for of in np.split(best_first, np.cumsum(sizes)[:-1])
    ], axis=1)  # fmt: skip
    return fit, sigma * lean(np.minimum(critical, CAUTIONS[0]))


def rank_sentinels(n_trees: int) -> NDArray[np.int64]:
    """Return 14 or fewer sentinels: those for values, but for the last, of which there are more.

    Examples
    --------
    >>> rank_sentinels(200).tolist()
    [6, 10, 16, 24, 34, 46, 60, 76, 94, 114, 136, 154, 172, 186]
    """
    late = np.rint(n_trees * _LATE_SENTINELS).astype(np.int64)
    even = even_sentinels(n_trees)
    sentinels = np.union1d(even[even < late[0]], late)
    return sentinels[(sentinels >= 1) & (sentinels < n_trees)]


def critical_cautions(estimates: FloatArray, reach: FloatArray, k: int) -> FloatArray:
    """Return, for each sentinel, the largest caution at which it would change the k best of a query; 0: none would.

    A document with more than the estimate of another is above it at cautions up to their difference, in units of how
    far both may be off. One of the k best is out if k others are above it; another is in if it is above all but k - 1.

    Parameters
    ----------
    estimates, reach : float64 arrays of shape (n_sentinels, n_documents)
        The documents of the query, best first, and how far estimates may be off at a caution of 1.
    k : int

    Returns
    -------
    float64 array of shape (n_sentinels,)

    Examples
    --------
    >>> critical_cautions(np.array([[5.0, 2.0, 3.0], [5.0, 4.0, 3.0]]), np.full((2, 3), 0.25), 2)
    array([2., 0.])
    """
    critical = np.zeros(len(estimates))
    if estimates.shape[1] > k:
        for at, (estimate, far) in enumerate(zip(estimates, reach, strict=True)):
            apart, both = estimate[:, None] - estimate, far[:, None] + far
            above = np.sort(np.divide(apart, both, out=np.zeros_like(apart), where=both > 0), axis=0)[::-1]
            critical[at] = max(above[k - 1, :k].max(), -above[k, k:].min(), 0.0)
    return critical


def lean(critical: FloatArray) -> FloatArray:
    """Return by how much documents should be further apart at each sentinel than far misses alone say.

    Where few documents are left, or few that could be mistaken, fewer of the misses change anything: mostly later. Far
    ones are rare and decide, so that all that is taken from them is a line, and not all of it.

    Parameters
    ----------
    critical : float64 array of shape (n_sentinels, n_queries)

    Examples
    --------
    >>> lean(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]])).round(2)
    array([1.06, 1.  , 0.94])
    """
    n_sentinels, n_queries = critical.shape
    mean = (np.sum(critical**4, axis=1) + _USUAL_CAUTION**4) / (n_queries + 1)
    at = np.arange(n_sentinels) - (n_sentinels - 1) / 2
    slope = float(at @ np.log(mean) / 4) / (float(at @ at) or 1.0)
    factors: FloatArray = np.exp(_LEANING * slope * at)
    return factors


def _deviation_of_tails(missed: FloatArray) -> FloatArray:
    """Return, for each row, the standard deviation of normal numbers that have the same mean eighth power.

    One query that changes may be too many, so that the farthest misses decide. These are further from the others at
    the first and the last sentinels than between them.

    Examples
    --------
    >>> _deviation_of_tails(np.array([[1.0, -1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 2.0]])).round(3)
    array([0.559, 0.94 ])
    """
    largest = np.maximum(np.abs(missed).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    deviation: FloatArray = largest[:, 0] * np.mean((missed / largest) ** 8 / _NORMAL_EIGHTH, axis=1) ** 0.125
    return deviation


def _near_the_last(fitting: Queries, k: int, full: FloatArray) -> FloatArray:
    """Return how much each row should count in a fit: most where its score is like those of the last of k best."""
    last = fitting.full[find_places(fitting.full, fitting.query) == k - 1]
    if len(last) == 0:  # queries that fit the rule may be short, where others are not
        return np.ones(len(full))
    dividing = np.quantile(last, (np.arange(_N_DIVIDING) + 0.5) / _N_DIVIDING)
    weights: FloatArray = np.mean([near_decision(full, score) for score in dividing], axis=0)
    return weights


def _infeasible(calibration: Calibration, promise: TopK, n_broken: int, n_tests: int) -> InfeasibleError:
    confidence = promise.confidence or 0.0
    needed = rows_needed(promise.max_changed, confidence)
    # So many queries in all that enough are left after those that fit the rule.
    needed = -(-needed * 5 // 4) if calibration.has_fit_rows else 2 * needed - 1
    achievable = certified_rate(n_broken, n_tests, confidence) if n_tests else 1.0
    part = "a fifth of X_cal finds it, also with X_fit" if calibration.has_fit_rows else "half of X_cal finds it"
    return InfeasibleError(
        f"{promise.max_changed:g} of the queries cannot be certified with confidence {confidence:g}: {n_tests} are "
        f"left to test the rule ({part}), and {n_broken} of them change; a share of {achievable:.3g} can. Pass a "
        f"larger max_changed, or at least {needed} queries",
        achievable,
        n_rows_needed=needed,
        argument="promise",
    )
