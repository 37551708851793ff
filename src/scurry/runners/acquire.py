"""Predict while features are bought: one row at a time, each feature when a node first needs it.

What composes:

- A forest, pruned or not (``Predictor.full(forest)``): every tree is walked to its leaf. Without a limit the answer is
  that of `predict`, and a row pays for what its paths read and nothing else.
- An early exit: trees are evaluated in the plan's order until its rule stops the row, so features that only later trees
  read are never bought. Labels are those of `predict`. Where a plan is randomised (several policies, or an order for
  each row), draws depend on the row's number instead of its values, which are not known yet: the promise is the same,
  the labels of single rows may differ.
- An anytime plan: one tree step at a time in the plan's order; the answer is read from the nodes reached.
- ``order="cheapest"`` for the first and the last: of all features that some tree waits for, the cheapest is bought
  next. An early exit keeps its promise only in its own order, so it raises an error.

With `max_cost`, a tree whose next feature would exceed it stays where it is and answers with that node. The others
continue with what is known or affordable.

The native core walks rows whose values are all known. Here a value may have to be bought first, so a row moves in
Python, one node test at a time, by the same comparisons and the same integer sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_instance, check_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import ExitRule, ExitSide, LeaderRule, Plan, StepRule
from scurry.runners.ledger import GetFeature, Ledger, Purchase, RowBudget

__all__ = ["Acquisition", "Ledger", "Purchase", "acquire"]

ORDERS = ("plan", "cheapest")
_TOLERANCE = 1e-12  # relative
_NOT_STARTED = -1  # in place of a node


@dataclass(frozen=True, eq=False, kw_only=True)
class Acquisition:
    """What happened to each row.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    scores : float64 array of shape (n_rows, n_outputs)
        From the nodes reached in the trees evaluated; NaN if there are none. The model's own where all reached a leaf.
    costs : float64 array of shape (n_rows,)
    bought : bool array of shape (n_rows, n_features)
    n_missing : int64 array of shape (n_rows,)
        Features that came back missing. They are paid for, and go where the model sends missing values.
    trees : int64 array of shape (n_rows,)
        Trees that reached a leaf.
    steps : int64 array of shape (n_rows,)
        Node tests made.
    stop_reason : str array of shape (n_rows,)
        "complete": every tree reached a leaf. "decided": an early exit. "max_cost": a feature was too expensive.
        "failed": a feature was unavailable, see `errors`.
    ledger : Ledger
        Every purchase.
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
    ledger: Ledger
    errors: dict[int, Exception] = field(default_factory=dict)

    @property
    def mean_cost(self) -> float:
        """Mean cost per row, 0 if there are no rows."""
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
    """Predict rows whose features are bought one by one; `Predictor.acquire` explains the arguments."""
    check_count("n_rows", n_rows, 0, largest=2**31 - 1)
    check_choice("order", order, ORDERS)
    check_instance("ledger", ledger, Ledger)
    if not callable(get_feature):
        raise InputError(
            f"get_feature must be a function of row and feature, got {get_feature!r}", argument="get_feature"
        )
    if order == "cheapest" and plan.exit_rule is not None:
        raise InputError(
            'an early exit keeps its promise in its own order of trees; use order="plan", or order="cheapest" with '
            "Predictor.full(forest)",
            argument="order",
        )
    # Costs that add up to the budget must fit it, whatever their rounding.
    budget = np.inf
    if max_cost is not None and max_cost != np.inf:
        budget = check_number("max_cost", max_cost, hint="; None sets no limit") * (1 + _TOLERANCE)
    increments = None if plan.exit_rule is None else plan.exit_rule.increments(forest)
    walks, budgets, tallies = [], [], []
    for row in range(n_rows):
        number = ledger.open_row()
        row_budget = RowBudget(forest, costs, budget, get_feature, ledger, row, number)
        walk = RowWalk(forest, row_budget.get)
        tally, trees = _start_rule(forest, plan, increments, number)
        if order == "cheapest":
            _buy_cheapest(walk, row_budget)
        elif tally is not None:
            _walk_until_decided(walk, tally, trees)
        else:
            _walk_in_order(walk, trees, by_step=plan.by_step)
        walks.append(walk)
        budgets.append(row_budget)
        tallies.append(tally)
    return _outcome(forest, plan, walks, budgets, tallies, ledger)


class RowWalk:
    """Where a row stands in every tree.

    Parameters
    ----------
    forest : Forest
    get : callable
        ``get(feature)`` returns the row's value as the forest compares it, or None if it is unavailable.

    Attributes
    ----------
    nodes : int32 array of shape (n_trees,)
        -1 in trees that have not been started.
    n_steps : int
        Node tests made.
    """

    def __init__(self, forest: Forest, get: Callable[[int], float | None]) -> None:
        self.forest, self.get = forest, get
        self.nodes = np.full(forest.n_trees, _NOT_STARTED, np.int32)
        self.n_steps = 0

    def begin(self, tree: int) -> None:
        """Stand at the root of a tree that has not been started."""
        if self.nodes[tree] == _NOT_STARTED:
            self.nodes[tree] = self.forest.tree_offset[tree]

    def needs(self, tree: int) -> int | None:
        """Return the feature that the next node test in a tree reads, None at a leaf."""
        node = self.nodes[tree]
        return None if self.forest.left[node] < 0 else int(self.forest.feature[node])

    def step(self, tree: int) -> bool:
        """Go one node down a tree; return False at a leaf, or where a value is unavailable."""
        self.begin(tree)
        feature = self.needs(tree)
        if feature is None or (value := self.get(feature)) is None:
            return False
        node = int(self.nodes[tree])
        self.nodes[tree] = (self.forest.left if self.forest.goes_left(node, value) else self.forest.right)[node]
        self.n_steps += 1
        return True

    def descend(self, tree: int) -> None:
        """Go down a tree as far as values are available."""
        self.begin(tree)
        while self.step(tree):
            pass


class ExitTally:
    """The state of an `ExitRule` for one row.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

    def __init__(self, forest: Forest, rule: ExitRule, increments: NDArray[np.int32], policy: int) -> None:
        self.rule, self.increments, self.policy = rule, increments, policy
        self.threshold = rule.threshold(forest)
        self.total = self.n_trees = 0
        self.evaluates_all = False
        self.decided: int | None = None
        self._test()

    @property
    def leading(self) -> int:
        """The class of the vote, or of the summed scores."""
        return int(self.total >= self.threshold)

    def add(self, tree: int, node: int) -> None:
        """Add a tree that ended at a node."""
        self.total += int(self.increments[node])
        self.n_trees += 1
        self._test()

    def _test(self) -> None:
        if self.evaluates_all:
            return
        side = int(self.rule.side_of(self.policy, self.n_trees, self.total))
        self.evaluates_all = side == ExitSide.FULL
        self.decided = {ExitSide.NEGATIVE: 0, ExitSide.POSITIVE: 1}.get(ExitSide(side))


class LeaderTally:
    """The state of a `LeaderRule` for one row.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

    def __init__(self, forest: Forest, rule: LeaderRule, increments: NDArray[np.int32]) -> None:
        self.forest, self.rule, self.increments = forest, rule, increments
        self.sums = rule.start(forest).astype(np.int64)
        self.trees_per_round = forest.trees_per_round
        self.n_trees = 0
        self.decided: int | None = None

    @property
    def leading(self) -> int:
        """The class with the largest sum."""
        return int(self.sums.argmax())

    def add(self, tree: int, node: int) -> None:
        """Add a tree that ended at a node."""
        output = int(self.forest.tree_output[tree])
        if output < 0:
            self.sums += self.increments[node]
        else:
            self.sums[output] += self.increments[node, 0]
        self.n_trees += 1
        if self.n_trees % self.trees_per_round == 0:
            self._test(self.n_trees // self.trees_per_round)

    def _test(self, n_rounds: int) -> None:
        second, first = np.sort(self.sums)[-2:].tolist()
        if self.rule.need.size:
            stops = first >= self.rule.need[n_rounds, second]
        else:
            stops = first - second >= self.rule.lead[n_rounds]
        if stops:
            self.decided = self.leading


Tally = ExitTally | LeaderTally


def _start_rule(
    forest: Forest, plan: Plan, increments: NDArray[np.int32] | None, number: int
) -> tuple[Tally | None, list[int]]:
    """Return the state of the plan's rule for a row, and the row's order of trees."""
    trees = plan.order.tolist()
    match plan.stop:
        case ExitRule() as rule if increments is not None:
            rng = np.random.default_rng([rule.seed, number])
            if rule.shuffles_rows:
                trees = rng.permutation(plan.order).tolist()
            policy = int(rng.choice(len(rule.weights), p=rule.weights / rule.weights.sum()))
            return ExitTally(forest, rule, increments, policy), trees
        case LeaderRule() as rule if increments is not None:
            return LeaderTally(forest, rule, increments), trees
    return None, trees


def _walk_until_decided(walk: RowWalk, tally: Tally, trees: list[int]) -> None:
    for tree in trees:
        if tally.decided is not None:
            return
        walk.descend(tree)
        tally.add(tree, int(walk.nodes[tree]))


def _walk_in_order(walk: RowWalk, trees: list[int], *, by_step: bool) -> None:
    for tree in range(walk.forest.n_trees):
        walk.begin(tree)
    for tree in trees:
        if by_step:
            walk.step(tree)
        else:
            walk.descend(tree)


def _buy_cheapest(walk: RowWalk, row_budget: RowBudget) -> None:
    """Walk all trees as far as paid features lead, buy the cheapest feature they wait for, and repeat."""
    waiting: dict[int, list[int]] = {}

    def walk_on(tree: int) -> None:
        walk.begin(tree)
        while (feature := walk.needs(tree)) is not None:
            if feature not in row_budget.paid:
                waiting.setdefault(feature, []).append(tree)
                return
            walk.step(tree)

    for tree in range(walk.forest.n_trees):
        walk_on(tree)
    while waiting:
        affordable = [feature for feature in waiting if row_budget.can_afford(feature)]
        if not affordable:
            row_budget.is_short = True
            return
        cheapest = min(affordable, key=lambda f: (sum(row_budget.prices(f)), -len(waiting[f]), f))
        stopped = waiting.pop(cheapest)
        if row_budget.get(cheapest) is None:  # unavailable: the trees that need it stay where they are
            continue
        for tree in stopped:
            walk_on(tree)


def _outcome(
    forest: Forest,
    plan: Plan,
    walks: list[RowWalk],
    budgets: list[RowBudget],
    tallies: list[Tally | None],
    ledger: Ledger,
) -> Acquisition:
    nodes = np.array([walk.nodes for walk in walks], np.int32).reshape(len(walks), forest.n_trees)
    bought = np.zeros((len(budgets), forest.n_features), np.bool_)
    for row, row_budget in enumerate(budgets):
        bought[row, list(row_budget.paid)] = True
    scores = _scores(forest, nodes, plan.stop.weights(forest) if isinstance(plan.stop, StepRule) else np.empty(0))
    labels = forest.decide(np.nan_to_num(scores))
    by_vote = plan.exit_rule is not None and plan.exit_rule.kind == "votes"
    reasons = []
    for row, (row_budget, tally) in enumerate(zip(budgets, tallies, strict=True)):
        decided = None if tally is None else tally.decided
        if tally is not None and forest.classes is not None and (decided is not None or by_vote):
            labels[row] = forest.classes[tally.leading if decided is None else decided]
        reasons.append(_reason(row_budget, evaluated_all=bool((nodes[row] != _NOT_STARTED).all())))
    return Acquisition(
        labels=labels,
        scores=scores,
        costs=np.array([row_budget.spent for row_budget in budgets]),
        bought=bought,
        n_missing=np.array([sum(np.isnan(row.known[f]) for f in row.paid) for row in budgets], np.int64),
        trees=((nodes != _NOT_STARTED) & forest.is_leaf[nodes]).sum(axis=1),
        steps=np.array([walk.n_steps for walk in walks], np.int64),
        stop_reason=np.array(reasons, dtype=np.str_),
        ledger=ledger,
        errors={
            row: next(iter(row_budget.failures.values()))
            for row, row_budget in enumerate(budgets)
            if row_budget.failures
        },
    )


def _reason(row_budget: RowBudget, *, evaluated_all: bool) -> str:
    if row_budget.failures:
        return "failed"
    if row_budget.is_short:
        return "max_cost"
    return "complete" if evaluated_all else "decided"


def _scores(forest: Forest, nodes: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores from the nodes reached, shape (n_rows, n_outputs); inner nodes count by their weight."""
    started = nodes != _NOT_STARTED
    scores = np.empty((len(nodes), forest.n_outputs))
    is_own = started.all(axis=1) & (len(weights) == 0 or forest.is_leaf[nodes].all(axis=1))
    scores[is_own] = forest.scores_at(nodes[is_own])
    values = forest.leaf_values()
    output = forest.tree_output
    for row in np.flatnonzero(~is_own):
        trees = np.flatnonzero(started[row])
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
