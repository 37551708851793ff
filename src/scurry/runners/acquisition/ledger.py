"""Ledger: which features rows have paid for, in order. RowBudget: what one row has paid and can still spend."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, NamedTuple

from scurry.costs import FeatureCosts
from scurry.forest import Forest

_TOLERANCE = 1e-12  # relative


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


class RowBudget:
    """Prices, purchases and remaining budget of one row.

    Parameters
    ----------
    forest : Forest
    costs : FeatureCosts
    max_cost : float
        Infinite for a row without a limit.
    number : int
        Number of the row in its ledger.
    """

    def __init__(self, forest: Forest, costs: FeatureCosts, max_cost: float, number: int) -> None:
        self.forest, self.costs, self.number = forest, costs, number
        # Costs that add up to the budget must fit it, whatever their rounding.
        self.limit = max_cost * (1 + _TOLERANCE)
        self.purchases: list[Purchase] = []
        self.paid: list[int] = []
        self.paid_groups: set[int] = set()
        self.spent = 0.0
        self.is_short = False

    def prices(self, feature: int) -> tuple[float, float]:
        """Return what a feature would cost now: its own part, and its group's."""
        group = int(self.costs.groups[feature])
        is_due = group >= 0 and group not in self.paid_groups
        return float(self.costs.feature_costs[feature]), float(self.costs.group_costs[group]) if is_due else 0.0

    def can_afford(self, feature: int) -> bool:
        """Return whether the budget still allows a feature."""
        return self.spent + sum(self.prices(feature)) <= self.limit

    def pay(self, feature: int) -> None:
        """Pay for a feature, and for its group if that is due."""
        feature_cost, group_cost = self.prices(feature)
        group = int(self.costs.groups[feature])
        self.spent += feature_cost + group_cost
        self.paid.append(feature)
        self.paid_groups.add(group)
        self.purchases.append(Purchase(self.number, self.forest.name_of(feature), group, feature_cost, group_cost))
