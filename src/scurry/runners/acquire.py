"""Lazy acquisition: predict while asking for features, one row at a time, and keep account of what was paid.

What composes:

- A forest, pruned or not (``Predictor.full(forest)``): every tree is walked to its end. Without a limit the answer is
  that of `predict`, and a row pays for what its paths read and nothing else.
- An early exit: trees are asked in the plan's order until its rule stops the row, so features that only later trees
  read are never bought. Labels are those of `predict`. Where a plan draws lots (several policies, or an order for each
  row), they are drawn by the row's number instead of its values, which are not known yet: the promise is the same, the
  labels of single rows may differ.
- An anytime plan: one step at a time in the plan's order, the answer read from the nodes reached.
- ``order="cheapest"`` for the first and the last: of all features that some tree waits for, the cheapest is bought
  next. An early exit has its promise only in its own order, and is refused.

With `max_cost`, a tree whose next feature would exceed it stays where it is and answers with that node; the others go
on with what is known or can be afforded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import ExitRule, LeaderRule, Plan, StepRule
from scurry.runners.ledger import GetFeature, Ledger, Purchase, Purse
from scurry.runners.row_walk import NOT_ASKED, ExitTally, LeaderTally, RowWalk

__all__ = ["Acquisition", "Ledger", "Purchase", "acquire"]

ORDERS = ("plan", "cheapest")
_TOLERANCE = 1e-12  # relative: costs that add up to the budget must fit it

Tally = ExitTally | LeaderTally


@dataclass(frozen=True, eq=False, kw_only=True)
class Acquisition:
    """What became of each row.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    scores : float64 array of shape (n_rows, n_outputs)
        From the nodes reached in the trees asked; NaN if none was. The model's own where all reached a leaf.
    costs : float64 array of shape (n_rows,)
    bought : bool array of shape (n_rows, n_features)
    n_missing : int64 array of shape (n_rows,)
        Features that came back missing. They are paid for, and go where the model sends missing values.
    trees : int64 array of shape (n_rows,)
        Trees that reached a leaf.
    steps : int64 array of shape (n_rows,)
        Node tests made.
    stop_reason : str array of shape (n_rows,)
        "complete": every tree reached a leaf. "decided": an early exit. "max_cost": a feature was too dear.
        "failed": a feature could not be had, see `errors`.
    errors : dict of int to Exception
        For rows that failed, what `get_feature` raised first.
    """

    labels: NDArray[Any]
    scores: NDArray[np.float64]
    costs: NDArray[np.float64]
    bought: NDArray[np.bool_]
    n_missing: NDArray[np.int64]
    trees: NDArray[np.int64]
    steps: NDArray[np.int64]
    stop_reason: NDArray[np.str_]
    errors: dict[int, Exception] = field(default_factory=dict)

    @property
    def mean_cost(self) -> float:
        """What a row paid on average, 0 if there is none."""
        return float(self.costs.sum() / max(len(self.costs), 1))

    def __repr__(self) -> str:
        reasons = "".join(f", {reason}={count}" for reason, count in Counter(self.stop_reason.tolist()).items())
        return f"Acquisition(n_rows={len(self.costs)}, mean_cost={self.mean_cost:.4g}{reasons})"


def acquire(
    forest: Forest,
    plan: Plan,
    get_feature: GetFeature,
    n_rows: int,
    *,
    costs: FeatureCosts,
    max_cost: float | None,
    order: str,
    ledger: Ledger,
) -> Acquisition:
    """Predict rows whose features are asked for; `Predictor.acquire` explains the arguments."""
    budget = _budget(max_cost)
    _check_request(plan, n_rows, order)
    increments = None if plan.stop is None or isinstance(plan.stop, StepRule) else plan.stop.increments(forest)
    walks, purses, tallies = [], [], []
    for row in range(n_rows):
        number = ledger.open_row()
        purse = Purse(forest, costs, budget, get_feature, ledger, row, number)
        walk = RowWalk(forest, purse.ask)
        tally, trees = _by_lot(forest, plan, increments, number)
        if order == "cheapest":
            _buy_cheapest(walk, purse)
        elif tally is not None:
            _ask_until_decided(walk, tally, trees)
        else:
            _follow(walk, trees, by_step=isinstance(plan.stop, StepRule))
        walks.append(walk)
        purses.append(purse)
        tallies.append(tally)
    return _outcome(forest, plan, walks, purses, tallies)


def _by_lot(
    forest: Forest, plan: Plan, increments: NDArray[np.int32] | None, number: int
) -> tuple[Tally | None, list[int]]:
    """The state of the plan's rule for a row, and the order in which it asks trees."""
    trees = plan.order.tolist()
    match plan.stop:
        case ExitRule() as rule if increments is not None:
            lots = np.random.default_rng([rule.seed, number])
            if rule.shuffle == "row":
                trees = lots.permutation(plan.order).tolist()
            policy = int(lots.choice(len(rule.weights), p=rule.weights / rule.weights.sum()))
            return ExitTally(forest, rule, increments, policy), trees
        case LeaderRule() as rule if increments is not None:
            return LeaderTally(forest, rule, increments), trees
    return None, trees


def _ask_until_decided(walk: RowWalk, tally: Tally, trees: list[int]) -> None:
    for tree in trees:
        if tally.decided is not None:
            return
        walk.descend(tree)
        tally.add(tree, int(walk.nodes[tree]))


def _follow(walk: RowWalk, trees: list[int], *, by_step: bool) -> None:
    for tree in range(walk.forest.n_trees):
        walk.begin(tree)
    for tree in trees:
        if by_step:
            walk.step(tree)
        else:
            walk.descend(tree)


def _buy_cheapest(walk: RowWalk, purse: Purse) -> None:
    """Walk all trees as far as what is paid for leads; buy the cheapest of the features they wait for; repeat."""
    waiting: dict[int, list[int]] = {}

    def go_on(tree: int) -> None:
        walk.begin(tree)
        while (feature := walk.needs(tree)) is not None:
            if feature not in purse.paid:
                waiting.setdefault(feature, []).append(tree)
                return
            walk.step(tree)

    for tree in range(walk.forest.n_trees):
        go_on(tree)
    while waiting:
        affordable = [feature for feature in waiting if purse.can_afford(feature)]
        if not affordable:
            purse.is_short = True
            return
        cheapest = min(affordable, key=lambda f: (sum(purse.prices(f)), -len(waiting[f]), f))
        stopped = waiting.pop(cheapest)
        if purse.ask(cheapest) is None:  # it cannot be had, and its trees stay
            continue
        for tree in stopped:
            go_on(tree)


def _outcome(
    forest: Forest, plan: Plan, walks: list[RowWalk], purses: list[Purse], tallies: list[Tally | None]
) -> Acquisition:
    nodes = np.array([walk.nodes for walk in walks], np.int32).reshape(len(walks), forest.n_trees)
    bought = np.zeros((len(purses), forest.n_features), np.bool_)
    for row, purse in enumerate(purses):
        bought[row, list(purse.paid)] = True
    scores = _scores(forest, nodes, plan.stop.weights(forest) if isinstance(plan.stop, StepRule) else np.empty(0))
    labels = forest.decide(np.nan_to_num(scores))
    by_vote = plan.stop is not None and not isinstance(plan.stop, StepRule) and plan.stop.kind == "votes"
    reasons = []
    for row, (purse, tally) in enumerate(zip(purses, tallies, strict=True)):
        decided = None if tally is None else tally.decided
        if tally is not None and forest.classes is not None and (decided is not None or by_vote):
            labels[row] = forest.classes[tally.leading if decided is None else decided]
        reasons.append(_reason(purse, asked_all=bool((nodes[row] != NOT_ASKED).all())))
    return Acquisition(
        labels=labels,
        scores=scores,
        costs=np.array([purse.spent for purse in purses]),
        bought=bought,
        n_missing=np.array([sum(np.isnan(purse.known[f]) for f in purse.paid) for purse in purses], np.int64),
        trees=((nodes != NOT_ASKED) & forest.is_leaf[nodes]).sum(axis=1),
        steps=np.array([walk.n_steps for walk in walks], np.int64),
        stop_reason=np.array(reasons, dtype=np.str_),
        errors={row: next(iter(purse.failures.values())) for row, purse in enumerate(purses) if purse.failures},
    )


def _reason(purse: Purse, *, asked_all: bool) -> str:
    if purse.failures:
        return "failed"
    if purse.is_short:
        return "max_cost"
    return "complete" if asked_all else "decided"


def _scores(forest: Forest, nodes: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores from the nodes reached, shape (n_rows, n_outputs): over the trees asked, inner nodes by their weight."""
    asked = nodes != NOT_ASKED
    scores = np.empty((len(nodes), forest.n_outputs))
    is_own = asked.all(axis=1) & (len(weights) == 0 or forest.is_leaf[nodes].all(axis=1))
    scores[is_own] = forest.scores_at(nodes[is_own])
    values = forest.leaf_values()
    output = forest.tree_output
    for row in np.flatnonzero(~is_own):
        trees = np.flatnonzero(asked[row])
        at = nodes[row, trees]
        weight = weights[at] if len(weights) else np.ones(len(at))
        total, count = np.zeros(forest.n_outputs), np.zeros(forest.n_outputs)
        if output[0] < 0:
            total += weight @ values[at]
            count += weight.sum()
        else:
            np.add.at(total, output[trees], weight * values[at, 0])
            np.add.at(count, output[trees], weight)
        if forest.aggregation == "sum":
            scores[row] = forest.base_score + total
        else:
            with np.errstate(invalid="ignore"):
                scores[row] = forest.base_score / forest.score_divisor + total / count
    return scores


def _budget(max_cost: float | None) -> float:
    if max_cost is None or max_cost == np.inf:
        return np.inf
    return check_number("max_cost", max_cost, hint="; None sets no limit") * (1 + _TOLERANCE)


def _check_request(plan: Plan, n_rows: int, order: str) -> None:
    check_count("n_rows", n_rows, 0)
    check_choice("order", order, ORDERS)
    if order == "cheapest" and not isinstance(plan.stop, StepRule | None):
        raise InputError(
            'an early exit keeps its promise in its own order of trees; use order="plan", or order="cheapest" with '
            "Predictor.full(forest)"
        )
