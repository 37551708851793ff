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

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry import reference
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import ExitRule, LeaderRule, Plan, StepRule
from scurry.pruning.costs import FeatureCosts
from scurry.row_walk import NOT_ASKED, ExitTally, LeaderTally, RowWalk
from scurry.rows import as_value

ORDERS = ("plan", "cheapest")
_TOLERANCE = 1e-12  # relative: costs that add up to the budget must fit it

GetFeature = Callable[[int, Any], Any]
Tally = ExitTally | LeaderTally


class Purchase(NamedTuple):
    """A feature paid for by a row.

    Attributes
    ----------
    row : int
        The number of the row since the ledger began.
    feature : str or int
        Its name, or its index in a forest without names.
    group : int
        -1 if it has none.
    feature_cost, group_cost : float
        What was paid; the group's share is 0 from its second feature on.
    """

    row: int
    feature: Any
    group: int
    feature_cost: float
    group_cost: float


class Ledger:
    """Everything acquired through a predictor, in order of purchase.

    Attributes
    ----------
    purchases : list of Purchase
    n_rows : int
        Rows begun.
    """

    def __init__(self) -> None:
        self.purchases: list[Purchase] = []
        self.n_rows = 0
        self._lock = threading.Lock()

    def open_row(self) -> int:
        """The number of a new row."""
        with self._lock:
            self.n_rows += 1
            return self.n_rows - 1

    @property
    def total_cost(self) -> float:
        """What all rows have paid."""
        return float(sum(purchase.feature_cost + purchase.group_cost for purchase in self.purchases))

    @property
    def mean_cost(self) -> float:
        """What a row has paid on average, 0 before the first."""
        return self.total_cost / max(self.n_rows, 1)

    @property
    def features(self) -> Counter[Any]:
        """How many rows bought each feature."""
        return Counter(purchase.feature for purchase in self.purchases)

    @property
    def groups(self) -> Counter[int]:
        """How many rows bought something of each group."""
        return Counter(group for _, group in {(p.row, p.group) for p in self.purchases if p.group >= 0})

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self.purchases, self.n_rows = [], 0

    def __repr__(self) -> str:
        return f"Ledger(n_rows={self.n_rows}, n_purchases={len(self.purchases)}, total_cost={self.total_cost:g})"


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
        """What a row paid on average."""
        return float(self.costs.mean())

    def __repr__(self) -> str:
        reasons = ", ".join(f"{reason}={count}" for reason, count in Counter(self.stop_reason.tolist()).items())
        return f"Acquisition(n_rows={len(self.costs)}, mean_cost={self.mean_cost:.4g}, {reasons})"


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
        purse = _Purse(forest, costs, budget, get_feature, ledger, row, number)
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


class _Purse:
    """What one row knows, owes nothing more for, and can still spend."""

    def __init__(
        self,
        forest: Forest,
        costs: FeatureCosts,
        budget: float,
        get_feature: GetFeature,
        ledger: Ledger,
        row: int,
        number: int,
    ) -> None:
        self.forest, self.costs, self.budget, self.get_feature = forest, costs, budget, get_feature
        self.ledger, self.row, self.number = ledger, row, number
        self.known: dict[int, float] = {}
        self.paid: set[int] = set()
        self.paid_groups: set[int] = set()
        self.spent = 0.0
        self.is_short = False
        self.failures: dict[int, Exception] = {}

    def prices(self, feature: int) -> tuple[float, float]:
        """What a feature would cost now: its own part, and its group's."""
        group = int(self.costs.groups[feature])
        is_due = group >= 0 and group not in self.paid_groups
        return float(self.costs.feature_costs[feature]), float(self.costs.group_costs[group]) if is_due else 0.0

    def can_afford(self, feature: int) -> bool:
        return self.spent + sum(self.prices(feature)) <= self.budget

    def ask(self, feature: int) -> float | None:
        """The value of a feature, bought if need be; None if it is too dear or cannot be had."""
        if feature in self.paid:
            return self.known[feature]
        if feature in self.failures:
            return None
        if not self.can_afford(feature):
            self.is_short = True
            return None
        if feature not in self.known:
            try:
                self._learn(feature, self.get_feature(self.row, _name(self.forest, feature)))
            except Exception as error:  # the user's code: whatever it raises, the row is answered with what it has
                self.failures[feature] = error
                return None
        self._pay(feature)
        return self.known[feature]

    def _learn(self, feature: int, given: Any) -> None:
        if not isinstance(given, Mapping):
            self.known[feature] = as_value(self.forest, feature, given)
            return
        names = {_name(self.forest, f): f for f in range(self.forest.n_features)}
        unknown = [name for name in given if name not in names]
        if unknown or _name(self.forest, feature) not in given:
            raise InputError(
                f"get_feature was asked for {_name(self.forest, feature)!r} and returned values of "
                f"{', '.join(map(repr, given))}; return the value asked for, and others by the names of features"
            )
        self.known |= {names[name]: as_value(self.forest, names[name], value) for name, value in given.items()}

    def _pay(self, feature: int) -> None:
        feature_cost, group_cost = self.prices(feature)
        group = int(self.costs.groups[feature])
        self.spent += feature_cost + group_cost
        self.paid.add(feature)
        self.paid_groups.add(group)
        purchase = Purchase(self.number, _name(self.forest, feature), group, feature_cost, group_cost)
        self.ledger.purchases.append(purchase)


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


def _buy_cheapest(walk: RowWalk, purse: _Purse) -> None:
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
    forest: Forest, plan: Plan, walks: list[RowWalk], purses: list[_Purse], tallies: list[Tally | None]
) -> Acquisition:
    nodes = np.array([walk.nodes for walk in walks], np.int32).reshape(len(walks), forest.n_trees)
    scores = _scores(forest, nodes, plan.stop.weights(forest) if isinstance(plan.stop, StepRule) else np.empty(0))
    labels = reference.labels_of(forest, np.nan_to_num(scores))
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
        bought=np.array([[f in purse.paid for f in range(forest.n_features)] for purse in purses], np.bool_),
        n_missing=np.array([sum(np.isnan(purse.known[f]) for f in purse.paid) for purse in purses], np.int64),
        trees=((nodes != NOT_ASKED) & forest.is_leaf[nodes]).sum(axis=1),
        steps=np.array([walk.n_steps for walk in walks], np.int64),
        stop_reason=np.array(reasons, dtype=np.str_),
        errors={row: next(iter(purse.failures.values())) for row, purse in enumerate(purses) if purse.failures},
    )


def _reason(purse: _Purse, *, asked_all: bool) -> str:
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
    scores[is_own] = reference.scores_at(forest, nodes[is_own])
    values = reference.leaf_values(forest)
    output, n_rounds = forest.tree_output, forest.n_trees // (1 if forest.tree_output[0] < 0 else forest.n_outputs)
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
                scores[row] = forest.base_score / n_rounds + total / count
    return scores


def _name(forest: Forest, feature: int) -> Any:
    return feature if forest.feature_names is None else forest.feature_names[feature]


def _budget(max_cost: float | None) -> float:
    if max_cost is None:
        return np.inf
    if isinstance(max_cost, bool) or not isinstance(max_cost, int | float | np.number) or not max_cost >= 0:
        raise InputError(f"max_cost must be a number, 0 or more, or None for no limit, got {max_cost!r}")
    return float(max_cost) * (1 + _TOLERANCE)


def _check_request(plan: Plan, n_rows: int, order: str) -> None:
    if isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 0:
        raise InputError(f"n_rows must be a whole number of rows, got {n_rows!r}")
    if order not in ORDERS:
        raise InputError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if order == "cheapest" and not isinstance(plan.stop, StepRule | None):
        raise InputError(
            'an early exit keeps its promise in its own order of trees; use order="plan", or order="cheapest" with '
            "Predictor.full(forest)"
        )
