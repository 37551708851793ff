"""Rules of `scurry.stopping`, which know no forest, as plans: their thresholds on the integers that a forest counts in.

`Predictor.from_rule` makes plans of rules here, and `scurry.early_exit` of the rules on votes that it fits. A fit on
scores says itself how a plan stores it (`ScoreFit.stop_rule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.checks import RandomState, check_choice, check_instance, check_random_state
from scurry.errors import InputError
from scurry.forest import Forest, score_step
from scurry.formatting import format_percent
from scurry.plan import (
    NEVER_ABOVE,
    ExitRule,
    LeaderRule,
    Plan,
    SumRule,
    to_int32,
)
from scurry.promises import Certificate, Labels
from scurry.stopping import FanFit, LeaderFit, MarginFit, PluralityRule, VotePolicy, VoteRule, WeightedVoteRule

_ROUNDING = 1e-4  # grid units: far above the error of products near 2**31, far below one unit

# Weights of a rule and of a forest that are proportional but for rounding.
_SAME = 1e-9

_RECIPE = "scurry.Predictor.from_rule(forest, rule)"

ScoreRule: TypeAlias = MarginFit | FanFit | LeaderFit
VotingRule: TypeAlias = VoteRule | PluralityRule


def plan_of(
    forest: Forest, rule: VotingRule | WeightedVoteRule | ScoreRule, *, shuffle: str, random_state: RandomState
) -> Plan:
    """Return the plan that runs `rule` on `forest`; see `Predictor.from_rule`."""
    check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
    check_choice("shuffle", shuffle, ("fixed", "row"))
    rng = check_random_state(random_state)
    if not isinstance(rule, VoteRule | PluralityRule | WeightedVoteRule | MarginFit | FanFit | LeaderFit):
        inside = "; pass its rule: the first of its fields" if hasattr(rule, "rule") else ""
        raise InputError(
            "rule must be a VoteRule, PluralityRule, WeightedVoteRule, MarginFit, FanFit or LeaderFit of "
            f"scurry.stopping, got {type(rule).__name__}{inside}",
            argument="rule",
        )
    if shuffle == "row" and not isinstance(rule, VoteRule):
        raise InputError('shuffle="row" is for a VoteRule; other rules need one order', argument="shuffle")
    if isinstance(rule, VoteRule | PluralityRule):
        return _vote_plan(forest, rule, shuffle, rng)
    if isinstance(rule, WeightedVoteRule):
        return _weighted_plan(forest, rule, rng)
    _check_score_rule(forest, rule)
    stop = rule.stop_rule(score_step(forest))
    return Plan(order=forest.trees_of(rule.order), stop=stop, certificate=_score_certificate(rule))


def _vote_plan(forest: Forest, rule: VotingRule, shuffle: str, rng: np.random.Generator) -> Plan:
    if not forest.has_votes:
        raise InputError(
            f"the rule counts votes, each tree's once, and the trees of this forest {_instead(forest)}; "
            'scurry.early_exit(forest, promise="certain") stops once the others cannot change a label, or fit '
            "a rule on scores to forest.tree_scores(X), with scurry.stopping.qwyc or multiclass_qwyc",
            argument="rule",
        )
    n_classes = 2 if isinstance(rule, VoteRule) else rule.n_classes
    if n_classes not in (None, forest.n_classes):  # None: any answers
        solved = "solve" if forest.n_classes == 2 else f"solve_plurality(n_voters, {forest.n_classes}, …)"
        raise _misfit(f"{n_classes} classes", f"{forest.n_classes}; use scurry.stopping.{solved}")
    if rule.n_voters != forest.n_trees:
        raise _misfit(f"{rule.n_voters} voters", f"{forest.n_trees} trees; solve it with n_voters={forest.n_trees}")
    # Its bounds are probabilities over orders, so that the order must be drawn, not chosen.
    order = rng.permutation(forest.n_trees).astype(np.int32)
    if isinstance(rule, VoteRule):
        stop = majority_rule(rule.policies, shuffle, int(rng.integers(2**63)))
        return Plan(order=order, stop=stop, certificate=_vote_certificate(rule))
    return Plan(order=order, stop=plurality_rule(rule.strictest_upper()), certificate=_plurality_certificate(rule))


def _instead(forest: Forest) -> str:
    if forest.vote_weights is None:
        return "add scores"
    n_classes = "" if forest.n_classes == 2 else f", n_classes={forest.n_classes}"
    return (
        "have votes of different weight: solve the rule with "
        f"scurry.stopping.solve_weighted(forest.vote_weights, max_disagreement{n_classes})"
    )


def _weighted_plan(forest: Forest, rule: WeightedVoteRule, rng: np.random.Generator) -> Plan:
    weights = forest.vote_weights
    if weights is None or forest.has_votes:
        why = "add scores and do not vote" if weights is None else "have votes that count alike"
        with_weights = "" if weights is None else ", or give them weights by forest.with_vote_weights(weights)"
        instead = "qwyc or multiclass_qwyc" if weights is None else "solve or solve_plurality"
        raise InputError(
            f"the rule is for votes with weights, and the trees of this forest {why}; use scurry.stopping.{instead}"
            f"{with_weights}",
            argument="rule",
        )
    if rule.n_classes != forest.n_classes:
        raise _misfit(f"{rule.n_classes} classes", f"{forest.n_classes}; solve it with n_classes={forest.n_classes}")
    if rule.n_voters != forest.n_trees:
        raise _misfit(f"{rule.n_voters} voters", f"{forest.n_trees} trees; solve it for forest.vote_weights")
    unit = weights.sum() / rule.weights.sum()
    if not (np.abs(rule.weights * unit - weights) <= _SAME * weights.max()).all():
        raise InputError(
            "the weights of the rule are not proportional to those of the forest; solve it for forest.vote_weights",
            argument="rule",
        )
    order, step = rng.permutation(forest.n_trees).astype(np.int32), score_step(forest)
    # Rounding to the grid moves every vote by up to half a unit, of two classes' sums each.
    leads = np.ceil(rule.leads(order) * unit / step) + np.arange(forest.n_trees + 1) + 1
    leads[-1] = np.inf
    if forest.n_classes == 2:
        lower, upper = to_int32(-leads)[None], to_int32(leads)[None]
        stop: SumRule = ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=upper)
    else:
        stop = LeaderRule(kind="scores", step=step, lead=to_int32(leads))
    promise = Labels(rule.max_disagreement, confidence=None, holds="each row")
    certificate = Certificate(method="weighted votes", promise=promise, recipe=_RECIPE)
    return Plan(order=order, stop=stop, certificate=certificate)


def _misfit(of_rule: str, of_forest: str) -> InputError:
    return InputError(f"the rule is for {of_rule}, the forest has {of_forest}", argument="rule")


def majority_rule(policies: Sequence[VotePolicy], shuffle: str, seed: int) -> ExitRule:
    """Return the rule of which each row draws one of `policies`, for two classes."""
    return ExitRule(
        kind="votes",
        weights=np.array([policy.weight for policy in policies]),
        lower=np.stack([policy.lower for policy in policies]).astype(np.int32),
        upper=np.stack([policy.upper for policy in policies]).astype(np.int32),
        shuffle=shuffle,
        seed=seed,
    )


def plurality_rule(upper: NDArray[np.int32]) -> LeaderRule:
    """Return the rule that stops once the leader has ``upper[a + b]`` of the votes of leader and second."""
    n_voters = len(upper) - 1
    second = np.arange(n_voters + 1)
    pairwise = np.full(n_voters + 1, NEVER_ABOVE, np.int64)
    for b in range(n_voters + 1):
        a = np.arange(b + 1, n_voters + 1 - b)
        crossed = a[a >= upper[a + b]]
        if len(crossed):
            pairwise[b] = crossed[0]
    certain = second[None, :] + (n_voters - np.arange(n_voters + 1))[:, None] + 1
    need = np.minimum(pairwise[None, :], certain).astype(np.int32)
    return LeaderRule(kind="votes", lead=np.zeros(n_voters + 1, np.int32), need=need)


def _vote_certificate(rule: VoteRule) -> Certificate:
    """Return what holds by construction of the rule, whatever the rows are."""
    rate, promise, note = format_percent(rule.max_disagreement), None, ""
    bound = rule.max_disagreement if rule.method in ("minimax", "minimixed") else rule.max_conditional
    if not rule.disagreement().any():
        promise = Labels(0.0, confidence=None, against="vote")
    elif bound is not None:
        promise = Labels(bound, confidence=None, against="vote", holds="each row")
    elif rule.method == "minimean":
        note = f"At most {rate} of rows get another label than the full vote's if votes are spread as the rule assumes."
    else:
        note = f"{rate} is what the rule believes, not how often it differs from the full vote."
    return Certificate(method=rule.method, promise=promise, note=note, recipe=_RECIPE)


def _plurality_certificate(rule: PluralityRule) -> Certificate:
    promise = Labels(rule.max_disagreement, confidence=None, against="vote", holds="each row")
    drawn = len(rule.policies) > 1
    note = f"Of the rule's {len(rule.policies)} policies, the strictest runs for every row." if drawn else ""
    return Certificate(method=rule.method, promise=promise, note=note, recipe=_RECIPE)


def _check_score_rule(forest: Forest, rule: ScoreRule) -> None:
    """Raise an error unless the rule can have been fitted to `tree_scores` of the forest."""
    if isinstance(rule, LeaderFit) != (forest.n_classes > 2) or forest.n_classes < 2:
        fits = "more than two classes" if isinstance(rule, LeaderFit) else "two classes"
        of_forest = "no classes: a regressor" if forest.n_classes == 0 else f"{forest.n_classes}"
        raise _misfit(fits, of_forest)
    n_models, unit = (forest.n_rounds, "rounds") if forest.n_classes > 2 else (forest.n_trees, "trees")
    if rule.n_models != n_models:
        raise _misfit(f"{rule.n_models} models", f"{n_models} {unit}")
    # A decision at another score would be another model's. Rounding may move it by half a grid unit per tree.
    slack = (forest.n_trees + 1) * score_step(forest)
    if isinstance(rule, LeaderFit):
        if len(rule.base_score) != forest.n_classes:
            raise _misfit(f"{len(rule.base_score)} classes", f"{forest.n_classes}")
        # What all classes have in common cancels out.
        apart = rule.base_score - forest.base_score
        if not np.ptp(apart) <= 2 * slack:
            wanted = np.asarray(forest.base_score).tolist()
            raise InputError(
                f"the rule starts from base_score {rule.base_score.tolist()}, the forest from {wanted}; fit the rule "
                "with base_score=forest.score_start",
                argument="rule",
            )
    elif not abs(rule.decision_threshold - forest.score_threshold) <= slack:
        raise InputError(
            f"the rule decides at a score of {rule.decision_threshold:.17g}, the forest at "
            f"{forest.score_threshold:.17g}; fit the rule with "
            "decision_threshold=forest.score_threshold",
            argument="rule",
        )


def _score_certificate(rule: ScoreRule) -> Certificate:
    """Return a certificate that promises nothing: a fit keeps its limit on its own rows only."""
    note = ""
    if rule.n_mistakes is not None:
        note = f"Of the {rule.n_rows:,} rows that fitted the rule, {rule.n_mistakes:,} get another label than in full."
    method = "fan" if isinstance(rule, FanFit) else "qwyc"
    return Certificate(method=method, n_fit_rows=rule.n_rows, note=note, recipe=_RECIPE)
