"""RowCharges: counts of what rows pay for in a forest, which add up over parts of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.costs import FeatureCosts
from scurry.forest import Forest, as_rows


@dataclass(frozen=True, eq=False)
class RowCharges:
    """How many rows pay which charge because of which nodes.

    A charge is the cost of a feature or, numbered after the features, of a group. In each tree, the first node on a
    row's path that reads one of the charge's features causes it. However the rows are divided, the sum of the charges
    of the parts, in any order, equals the charges of all rows, array by array.

    Attributes
    ----------
    n_rows : int
    visits : int64 array of shape (n_nodes,)
        Rows through each inner node.
    alone : int64 array of shape (n_nodes, 2)
        Rows for which the node is the only cause of its feature's charge, and of its group's.
    item_offset, item_node, item_charge, item_rows : arrays
        Items, each once: ``item_rows[i]`` rows pay ``item_charge[i]`` because of any of the nodes
        ``item_node[item_offset[i]:item_offset[i + 1]]``.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> forest = scurry.from_model(ExtraTreesClassifier(2, random_state=0).fit([[0], [1]], [0, 1]))
    >>> costs = scurry.pruning.FeatureCosts.of(forest)
    >>> both = RowCharges.of(forest, [[0.0]], costs) + RowCharges.of(forest, [[1.0], [2.0]], costs)
    >>> both.n_rows, both.item_node.tolist(), both.item_rows.tolist()
    (3, [0, 3], [3])
    """

    n_rows: int
    visits: NDArray[np.int64]
    alone: NDArray[np.int64]
    item_offset: NDArray[np.int64]
    item_node: NDArray[np.int32]
    item_charge: NDArray[np.int32]
    item_rows: NDArray[np.int64]

    @classmethod
    def of(cls, forest: Forest, X: Any, costs: FeatureCosts) -> RowCharges:
        """Count which nodes make rows pay which charges.

        Parameters
        ----------
        forest : Forest
        X : array or DataFrame of shape (n_rows, n_features)
        costs : FeatureCosts
            Zero-cost features are skipped; magnitudes do not matter here.

        Returns
        -------
        RowCharges
        """
        rows = as_rows(forest, X)
        of_feature, of_group = costs.charges
        n_charges = len(costs.feature_costs) + len(costs.group_costs)
        items, alone, visits = _core.find_charges(
            forest.feature, forest.parent, forest.apply(rows), of_feature, of_group, n_charges
        )
        return cls(len(rows), visits, alone, *items)

    def __add__(self, other: RowCharges) -> RowCharges:
        items = _core.merge_items(self._items, other._items)
        return RowCharges(self.n_rows + other.n_rows, self.visits + other.visits, self.alone + other.alone, *items)

    @property
    def _items(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        return self.item_offset, self.item_node, self.item_charge, self.item_rows
