"""Ledger: which features rows have paid for, in order. RowBudget: what one row knows and can still spend."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest, as_value


class Purchase(NamedTuple):
    """A feature paid for by a row.

    Attributes
    ----------
    row : int
        Number of the row, counted from the first row in the ledger.
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
    """Everything that rows have bought, in order of purchase.

    Attributes
    ----------
    purchases : list of Purchase
    n_rows : int
        Rows started, also those that bought nothing.
    """

    def __init__(self) -> None:
        self.purchases: list[Purchase] = []
        self.n_rows = 0
        self._lock = threading.Lock()

    def open_row(self) -> int:
        """Return the number of a new row."""
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
        """Forget all rows and purchases."""
        with self._lock:
            self.purchases, self.n_rows = [], 0

    def __repr__(self) -> str:
        return f"Ledger(n_rows={self.n_rows}, n_purchases={len(self.purchases)}, total_cost={self.total_cost:g})"


GetFeature = Callable[[int, Any], Any]


class RowBudget:
    """Known values, paid features and remaining budget of one row."""

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
        """Return what a feature would cost now: its own part, and its group's."""
        group = int(self.costs.groups[feature])
        is_due = group >= 0 and group not in self.paid_groups
        return float(self.costs.feature_costs[feature]), float(self.costs.group_costs[group]) if is_due else 0.0

    def can_afford(self, feature: int) -> bool:
        """Return whether the budget still allows a feature."""
        return self.spent + sum(self.prices(feature)) <= self.budget

    def get(self, feature: int) -> float | None:
        """Return the value of a feature, after buying it if necessary; None if it is too expensive or unavailable."""
        if feature in self.paid:
            return self.known[feature]
        if feature in self.failures:
            return None
        if not self.can_afford(feature):
            self.is_short = True
            return None
        if feature not in self.known:
            try:
                self._learn(feature, self.get_feature(self.row, self.forest.name_of(feature)))
            except Exception as error:  # the caller's code: whatever it raises, the row is answered with what it has
                self.failures[feature] = error
                return None
        self._pay(feature)
        return self.known[feature]

    def _learn(self, feature: int, given: Any) -> None:
        if not isinstance(given, Mapping):
            self.known[feature] = as_value(self.forest, feature, given)
            return
        names = {name: f for f, name in enumerate(self.forest.names)}
        unknown = [name for name in given if name not in names]
        if unknown or self.forest.name_of(feature) not in given:
            raise InputError(
                f"get_feature was asked for {self.forest.name_of(feature)!r} and returned values of "
                f"{', '.join(map(repr, given))}; return the value asked for, and others by the names of features"
            )
        self.known |= {names[name]: as_value(self.forest, names[name], value) for name, value in given.items()}

    def _pay(self, feature: int) -> None:
        feature_cost, group_cost = self.prices(feature)
        group = int(self.costs.groups[feature])
        self.spent += feature_cost + group_cost
        self.paid.add(feature)
        self.paid_groups.add(group)
        purchase = Purchase(self.number, self.forest.name_of(feature), group, feature_cost, group_cost)
        self.ledger.purchases.append(purchase)
