"""Ledger: which features rows have paid for, in order of purchase."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, NamedTuple


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
