"""Early exit on votes: each tree votes for a class, and a row stops once the full vote is clear enough.

What is promised depends on how the order of trees is drawn:

- one order for all rows, with a confidence: the mistakes of that very order are counted on rows that did not choose it;
- an order for each row: the rule's bounds are probabilities over orders, and hold for the predictor as they are;
- without a confidence: the papers' rules as fitted, whose bounds hold on average over orders.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import draw_seed
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.formatting import format_percent, format_share
from scurry.plan import Plan, SumRule
from scurry.promises import Certificate, ExitMeasurement, Labels
from scurry.runners.rules import majority_rule, plan_of, plurality_rule
from scurry.stopping import PluralityRule, VotePolicy, VoteRule, fit_votes, solve, solve_plurality
from scurry.stopping.guarantee import InMemory, Sample, Sums, rows_needed
from scurry.stopping.votes.fit import OrderFit, count_choosing_rows, fit_majority_order, fit_plurality_order
from scurry.stopping.votes.policy import outcomes
from scurry.verbs.options import VOTE_METHODS, Calibration, ExitOptions, check_classifier

_DRAW_IN_TREES = 1.0  # cost of a row's random draw, and of the split of its block, in trees


def plan_by_votes(calibration: Calibration, method: str) -> tuple[Plan, float]:
    """Return a plan that stops a vote by `method`: "minimax", "minimean", "minimixed" or "schwing".

    Returns
    -------
    plan : Plan
    spent : float
        Its trees per row on the rows that tested it; infinite where they were not counted.
    """
    forest = calibration.forest
    _check_asked(forest, calibration.options, method)
    choosing, certifying = _split(calibration)
    votes = certifying.map(forest.tree_votes)
    chooses = None if choosing is None else choosing.map(forest.tree_votes)
    find = _two_classes if forest.n_classes == 2 else _many_classes
    order, stop, certificate = find(calibration, method, votes, chooses)
    agreement = int(calibration.sample.sums(partial(_count_agreement, forest)).item()) / calibration.sample.n_rows
    spent = np.inf
    if certificate.exits is not None:
        spent = certificate.exits.mean_trees
        certificate = replace(certificate, measured=replace(certificate.exits, vote_agreement=agreement))
    else:
        shown = format_share(agreement)
        certificate = replace(
            certificate, note=f"{certificate.note} The full vote is the model's label in {shown}.".strip()
        )
    return Plan(order=order, stop=stop, certificate=certificate), spent


def plan_without_rows(forest: Forest, options: ExitOptions) -> Plan:
    """Return a plan that stops a vote by a rule that no rows were fitted to or tested on."""
    check_classifier(forest)
    method, promise = options.method, options.labels
    if method not in VOTE_METHODS:
        raise InputError(
            f'X_cal is needed: method={method!r} fits its rule to rows; "minimixed" and "minimax" promise something '
            'without any, and so does promise="certain"',
            argument="X_cal",
        )
    _check_asked(forest, options, method)
    if method in ("minimean", "schwing") and options.is_promised:
        raise InputError(
            f"X_cal is needed: rows test what method={method!r} promises; pass confidence=None for no promise, or "
            'method="minimixed", whose promise needs none',
            argument="X_cal",
        )
    if forest.n_classes == 2:
        rule: VoteRule | PluralityRule = solve(forest.n_trees, promise.max_changed, method=method)
    else:
        _check_many_classes(forest, options, method, tested=False)
        rule = solve_plurality(forest.n_trees, forest.n_classes, promise.max_changed)
    seed = draw_seed(options.random_state)
    plan = plan_of(forest, rule, shuffle=options.shuffle, random_state=seed)
    assert plan.certificate is not None
    return replace(plan, certificate=replace(plan.certificate, method=method, recipe=options.write_call(seed=seed)))


def _check_asked(forest: Forest, options: ExitOptions, method: str) -> None:
    if options.threshold is not None:
        raise InputError(f'method={method!r} counts votes, which have no threshold; use "qwyc"', argument="threshold")
    if options.cost_unit != "trees":
        raise InputError(
            f'method={method!r} evaluates trees in random order, whatever they cost; use "qwyc"', argument="costs"
        )
    if not forest.has_votes:
        why = "this model adds or averages scores"
        if forest.wrapper is not None:
            why = f"this model answers with {forest.wrapper.describe()}"
        by_weight = ""
        if forest.vote_weights is not None:
            by_weight = ", or scurry.Predictor.from_rule with a rule of scurry.stopping.solve_weighted"
        raise InputError(
            f'method={method!r} counts votes of trees that count alike, and {why}; use "qwyc", or promise="certain" to '
            f"stop once the trees that are left cannot change a label{by_weight}",
            argument="method",
        )
    if options.keep_scores is not None:
        raise InputError('keep_scores needs scores: use method="qwyc"', argument="keep_scores")


def _split(calibration: Calibration) -> tuple[Sample | None, Sample]:
    """Return rows that choose an order of trees or shape a rule, where some do, and rows that certify it."""
    rows, promise = calibration.rows, calibration.labels
    if calibration.fit_rows is not None:
        return InMemory(calibration.fit_rows), rows.one_of_each()
    if promise.confidence is None or not _certifies_its_order(calibration):
        return None, rows.one_of_each()
    n_choosing = count_choosing_rows(rows.n_units, promise.max_changed, 1.0 - calibration.risk)
    choosing, _, certifying = rows.split(n_choosing)
    return choosing, certifying


def _positives(votes: NDArray[Any]) -> NDArray[np.int64]:
    positives: NDArray[np.int64] = votes.sum(axis=1, dtype=np.int64)
    return positives


def _count_agreement(forest: Forest, rows: NDArray[Any]) -> Sums:
    """Count rows whose full vote is the model's own label. Forests that average probabilities differ in a few."""
    votes = forest.tree_votes(rows)
    counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
    labels = forest.classes.take(counts.argmax(axis=1)) if forest.classes is not None else counts.argmax(axis=1)
    return np.array((labels == forest.predict(rows)).sum(), np.int64)


def _certifies_its_order(calibration: Calibration) -> bool:
    promise = calibration.labels
    return promise.confidence is not None and calibration.options.shuffle == "fixed" and promise.max_changed > 0


def _two_classes(
    calibration: Calibration, method: str, votes: Sample, choosing: Sample | None
) -> tuple[NDArray[np.int32], SumRule, Certificate]:
    if _certifies_its_order(calibration):
        fit = fit_majority_order(votes, **_order_options(calibration), method=method, choosing=choosing)
        stop = majority_rule([VotePolicy(1.0, *fit.policy)], "fixed", 0)
        return fit.order, stop, _order_certificate(calibration, method, fit)
    order = calibration.rng.permutation(calibration.forest.n_trees).astype(np.int32)
    positives, n_trees = votes.map(_positives), calibration.forest.n_trees
    rule, promise = fit_votes(
        positives,
        n_trees,
        calibration.labels.max_changed,
        method=method,
        confidence=calibration.labels.confidence,
        shaping=None if choosing is None else choosing.map(_positives),
        random_state=calibration.search_rng,
    )
    policies = _most_cautious(rule, tested=promise is not None and promise.n_rows > 0)
    votes_cast, disagreement = outcomes(policies)
    shares = positives.sums(partial(np.bincount, minlength=n_trees + 1)) / positives.n_rows
    measured = ExitMeasurement(changed=float(shares @ disagreement), mean_trees=float(shares @ votes_cast))
    certificate = _certificate_over_orders(calibration, method, measured)
    stop = majority_rule(policies, calibration.options.shuffle, int(calibration.rng.integers(2**63)))
    return order, stop, certificate


def _most_cautious(rule: VoteRule, *, tested: bool) -> tuple[VotePolicy, ...]:
    """Return the rule's most cautious policy alone where that costs next to nothing: a random draw takes time as well.

    The test on rows was of the whole rule, so a policy may take its place only if it never disagrees more often.
    """
    alone = [(policy._replace(weight=1.0),) for policy in rule.policies]
    mean_disagreement = [float(rule.distribution @ outcomes(policies)[1]) for policies in alone]
    cautious = alone[int(np.argmin(mean_disagreement))]
    votes, disagreement = outcomes(cautious)
    if tested:
        keeps_bounds = bool((disagreement <= rule.disagreement()).all())
    else:
        is_bounded = disagreement.max() <= rule.disagreement().max()
        keeps_bounds = is_bounded and min(mean_disagreement) <= rule.mean_disagreement
    affordable = rule.distribution @ votes <= rule.distribution @ rule.expected_votes() + _DRAW_IN_TREES
    return cautious if keeps_bounds and affordable else rule.policies


def _many_classes(
    calibration: Calibration, method: str, votes: Sample, choosing: Sample | None
) -> tuple[NDArray[np.int32], SumRule, Certificate]:
    n_trees, n_classes = calibration.forest.n_trees, calibration.forest.n_classes
    _check_many_classes(
        calibration.forest, calibration.options, method, tested=calibration.labels.confidence is not None
    )
    if _certifies_its_order(calibration):
        fit = fit_plurality_order(votes, n_classes, **_order_options(calibration), method=method, choosing=choosing)
        order, upper = fit.order, fit.policy.upper
        certificate = _order_certificate(calibration, method, fit)
    else:
        order = calibration.rng.permutation(n_trees).astype(np.int32)
        rule = solve_plurality(n_trees, n_classes, calibration.labels.max_changed)
        upper = rule.strictest_upper()
        certificate = replace(_certificate_over_orders(calibration, "minimixed", None), method=method)
    return order, plurality_rule(upper), certificate


def _check_many_classes(forest: Forest, options: ExitOptions, method: str, *, tested: bool) -> None:
    if method == "schwing" or (method == "minimean" and not tested):
        when = " without a confidence" if method == "minimean" else ""
        raise InputError(
            f'method={method!r}{when} is for two classes, the model has {forest.n_classes}; use "minimixed"',
            argument="method",
        )
    if options.shuffle == "row":
        raise InputError('shuffle="row" is for two classes', argument="shuffle")


def _order_options(calibration: Calibration) -> dict[str, Any]:
    rates = {"max_disagreement": calibration.labels.max_changed, "confidence": 1.0 - calibration.risk}
    return rates | {"random_state": calibration.search_rng}


def _order_certificate(calibration: Calibration, method: str, fit: OrderFit[Any]) -> Certificate:
    """Return the certificate of one order of trees, whose own mistakes were counted."""
    promise, n_rows = replace(calibration.labels, against="vote"), fit.promise.n_rows
    measured = ExitMeasurement(changed=fit.n_mistakes / n_rows, mean_trees=fit.mean_votes)
    if fit.promise.upper_bound > 0:
        return calibration.certificate(method, promise, n_rows=n_rows, n_broken=fit.n_mistakes, measured=measured)
    needed = rows_needed(promise.max_changed, promise.confidence or 0.0)
    note = (
        f"{n_rows} rows certify no earlier stop that changes at most {format_percent(promise.max_changed)} of new rows "
        f'with confidence {promise.confidence:g}; that takes {needed} rows, or shuffle="row".'
    )
    return calibration.certificate(method, replace(promise, max_changed=0.0), measured=measured, note=note)


def _certificate_over_orders(calibration: Calibration, method: str, measured: ExitMeasurement | None) -> Certificate:
    """Return the certificate of a rule whose bounds are probabilities over orders of trees."""
    promise: Labels | None = replace(calibration.labels, against="vote", holds="orders")
    note = ""
    if promise is not None and promise.max_changed > 0:
        if method in ("minimax", "minimixed"):
            promise = replace(promise, holds="each row")
        elif method == "schwing" and promise.confidence is None:
            rate = format_percent(promise.max_changed)
            promise, note = None, f"{rate} is what the rule believes, not how often it differs from the full vote."
    return calibration.certificate(method, promise, measured=measured, note=note)
