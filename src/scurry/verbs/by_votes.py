"""Early exit on votes: each tree votes for a class, and a row stops once the full vote is clear enough.

What is promised depends on who draws the order of trees. One order for all rows, with a confidence: the mistakes of
that very order are counted on rows it was not chosen by (`scurry.stopping.votes.order`). An order for each row: the
rule's bounds, which are chances over orders, hold for the predictor as they stand. Without a confidence: the papers'
rules as fitted, whose bounds hold on average over the orders that might have been drawn.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import NEVER_ABOVE, ExitRule, LeaderRule, Plan
from scurry.stopping import VotePolicy, VoteRule, fit_votes, solve_plurality
from scurry.stopping.guarantee import rows_needed
from scurry.stopping.sample import Sample, Sums
from scurry.stopping.votes.order import OrderFit, fit_majority_order, fit_plurality_order
from scurry.stopping.votes.plurality import PairwisePolicy
from scurry.stopping.votes.policy import outcomes
from scurry.verbs.options import Request

_LOTS_IN_TREES = 1.0  # what a row's draw, and the split of its block, cost beside walking a tree


def plan_by_votes(request: Request, method: str) -> Plan:
    """A plan that stops a vote by `method`: "minimax", "minimean", "minimixed" or "schwing"."""
    forest = request.forest
    if request.threshold is not None:
        raise InputError(f'method={method!r} counts votes, which know no threshold; use "qwyc"')
    if request.cost_unit != "trees":
        raise InputError(f'method={method!r} asks trees in random order, whatever they cost; use "qwyc"')
    if forest.value.shape[1] != forest.n_classes:
        raise InputError(
            f'method={method!r} counts votes of trees, and this is a boosted model whose trees add scores; use "qwyc"'
        )
    if request.keep_scores is not None:
        raise InputError('keep_scores needs scores: use method="qwyc"')
    votes = request.sample.mapped(partial(_votes, forest))
    choosing = None if request.fit_rows is None else _votes(forest, request.fit_rows)
    calibrate = _two_classes if forest.n_classes == 2 else _many_classes
    order, stop, measured = calibrate(request, method, votes, choosing)
    n_agreeing = int(request.sample.sums(partial(_agreeing, forest)).item())
    agreement = {"vote_agrees_with_model": n_agreeing / request.sample.n_rows}
    return Plan(order=order, stop=stop, facts=request.facts(method, **measured, **agreement))


def _votes(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """The class each tree votes for, shape (n_rows, n_trees)."""
    class_type = np.min_scalar_type(forest.n_classes)
    votes: NDArray[Any] = forest.value.argmax(axis=1).astype(class_type)[forest.apply(rows)]
    return votes


def _positives(votes: NDArray[Any]) -> NDArray[np.int64]:
    positives: NDArray[np.int64] = votes.sum(axis=1, dtype=np.int64)
    return positives


def _agreeing(forest: Forest, rows: NDArray[Any]) -> Sums:
    """How many rows' full vote is what the model itself answers: forests that average probabilities differ."""
    votes = _votes(forest, rows)
    counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
    labels = forest.classes.take(counts.argmax(axis=1)) if forest.classes is not None else counts.argmax(axis=1)
    return np.array((labels == forest.predict(rows)).sum(), np.int64)


def _certifies_its_order(request: Request) -> bool:
    return request.confidence is not None and request.shuffle == "fixed" and request.max_disagreement > 0


def _two_classes(
    request: Request, method: str, votes: Sample, choosing: NDArray[Any] | None
) -> tuple[NDArray[np.int32], ExitRule | LeaderRule, dict[str, Any]]:
    if _certifies_its_order(request):
        fit = fit_majority_order(votes, **_asked(request), method=method, choosing=choosing)
        lower, upper = (side.astype(np.int32)[None] for side in fit.policy)
        stop = ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=upper)
        return fit.order, stop, _certified_facts(request, fit)
    order = request.rng.permutation(request.forest.n_trees).astype(np.int32)
    positives, n_trees = votes.mapped(_positives), request.forest.n_trees
    rule, promise = fit_votes(
        positives,
        n_trees,
        request.max_disagreement,
        method=method,
        confidence=request.tested_confidence,
        shaping=None if choosing is None else _positives(choosing),
        random_state=request.rng,
    )
    policies = _without_lots(rule, tested=promise is not None and promise.n_rows > 0)
    votes_asked, disagreement = outcomes(policies)
    shares = positives.sums(partial(np.bincount, minlength=n_trees + 1)) / positives.n_rows
    measured = _promise_over_orders(request, method) | {
        "calibration_disagreement": float(shares @ disagreement),
        "calibration_mean_trees": float(shares @ votes_asked),
    }
    weights = np.array([policy.weight for policy in policies])
    lower = np.stack([policy.lower for policy in policies]).astype(np.int32)
    upper = np.stack([policy.upper for policy in policies]).astype(np.int32)
    seed = int(request.rng.integers(2**63))
    stop = ExitRule(kind="votes", weights=weights, lower=lower, upper=upper, shuffle=request.shuffle, seed=seed)
    return order, stop, measured


def _without_lots(rule: VoteRule, *, tested: bool) -> tuple[VotePolicy, ...]:
    """The rule's most cautious policy alone where that costs next to nothing: drawing lots takes time as well.

    What was tested on rows is the rule, so a policy may take its place only if it never disagrees more often.
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
    affordable = rule.distribution @ votes <= rule.distribution @ rule.expected_votes() + _LOTS_IN_TREES
    return cautious if keeps_bounds and affordable else rule.policies


def _many_classes(
    request: Request, method: str, votes: Sample, choosing: NDArray[Any] | None
) -> tuple[NDArray[np.int32], ExitRule | LeaderRule, dict[str, Any]]:
    n_trees, n_classes = request.forest.n_trees, request.forest.n_classes
    if method == "schwing" or (method == "minimean" and request.confidence is None):
        when = " without a confidence" if method == "minimean" else ""
        raise InputError(f'method={method!r}{when} is for two classes, the model has {n_classes}; use "minimixed"')
    if request.shuffle == "row":
        raise InputError('shuffle="row" is for two classes')
    if _certifies_its_order(request):
        fit = fit_plurality_order(votes, n_classes, **_asked(request), method=method, choosing=choosing)
        order, upper, measured = fit.order, fit.policy.upper, _certified_facts(request, fit)
    else:
        order = request.rng.permutation(n_trees).astype(np.int32)
        rule = solve_plurality(n_trees, n_classes, request.max_disagreement)
        # The strictest of the rule's policies, instead of a draw: it never stops earlier, so the bound holds for it.
        upper = np.max([policy.upper for policy in rule.policies if isinstance(policy, PairwisePolicy)], axis=0)
        measured = _promise_over_orders(request, "minimixed")
    return order, LeaderRule(kind="votes", lead=np.zeros(n_trees + 1, np.int32), need=_votes_needed(upper)), measured


def _votes_needed(upper: NDArray[np.int32]) -> NDArray[np.int32]:
    """Votes the leader needs after ``i`` votes if the second has ``b``; int32 of shape (n_voters + 1, n_voters + 1)."""
    n_voters = len(upper) - 1
    second = np.arange(n_voters + 1)
    pairwise = np.full(n_voters + 1, NEVER_ABOVE, np.int64)
    for b in range(n_voters + 1):
        a = np.arange(b + 1, n_voters + 1 - b)
        crossed = a[a >= upper[a + b]]
        if len(crossed):
            pairwise[b] = crossed[0]
    certain = second[None, :] + (n_voters - np.arange(n_voters + 1))[:, None] + 1
    needed: NDArray[np.int64] = np.minimum(pairwise[None, :], certain)
    return needed.astype(np.int32)


def _asked(request: Request) -> dict[str, Any]:
    confidence, alpha = request.tested_confidence, request.max_disagreement
    return {"max_disagreement": alpha, "confidence": confidence, "random_state": request.rng}


def _certified_facts(request: Request, fit: OrderFit[Any]) -> dict[str, Any]:
    confidence, n_rows = request.confidence or 0.0, fit.promise.n_rows
    measured = {"calibration_disagreement": fit.n_mistakes / n_rows, "calibration_mean_trees": fit.mean_votes}
    if fit.promise.upper_bound == 0:
        needed = rows_needed(request.max_disagreement, request.tested_confidence or 0.0)
        promise = (
            f"the full vote, always: {n_rows} rows certify no earlier stop that changes at most {request.allowed} of "
            f'new rows with confidence {confidence:g}; that takes {needed} rows, or shuffle="row"'
        )
        return {"promise": promise, "promised_disagreement": 0.0} | measured
    promise = (
        f"with confidence {confidence:g}, this predictor with its own order of trees answers at most {request.allowed} "
        "of new rows differently from the full vote (rows drawn like the calibration rows)"
    )
    return {"promise": promise} | request.certificate(fit.n_mistakes, n_rows) | measured


def _promise_over_orders(request: Request, method: str) -> dict[str, Any]:
    """What is promised where bounds are chances over orders, and of which share of new rows, if of any."""
    over = "the order of trees it draws" if request.shuffle == "row" else "the one order of trees drawn for all rows"
    alpha, bound = request.allowed, {"promised_disagreement": float(request.max_disagreement)}
    if request.max_disagreement == 0:
        return {"promise": "the full vote, always"} | bound
    if method in ("minimax", "minimixed"):
        return {
            "promise": f"every row differs from the full vote with a chance of at most {alpha}, over {over}"
        } | bound
    if request.confidence is not None:
        promise = (
            f"with confidence {request.confidence:g}, at most {alpha} of new rows differ from the full vote, "
            f"on average over {over}"
        )
        return {"promise": promise} | bound
    if method == "schwing":
        return {"promise": f"nothing: {alpha} is what the rule believes, not how often it differs from the full vote"}
    rows = "the calibration rows" if request.fit_rows is None else "X_fit"
    return {"promise": f"at most {alpha} of rows like {rows} differ from the full vote, on average over {over}"}
