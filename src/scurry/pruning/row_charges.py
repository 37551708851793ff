"""RowCharges: what rows pay for in a forest, as counts that add up over parts of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.costs import FeatureCosts
from scurry.forest import Forest
from scurry.forest.rows import as_rows


@dataclass(frozen=True, eq=False)
class RowCharges:
    """How many rows pay which charge because of which nodes.

    A charge is a feature's cost or, numbered after the features, a group's. Of a row, it is caused by the first node
    that reads it in each tree. Adding up the charges of parts of the rows, however they are split and in any order,
    gives those of all rows at once, array by array.

    Attributes
    ----------
    n_rows : int
    visits : int64 array of shape (n_nodes,)
        Rows through each inner node.
    alone : int64 array of shape (n_nodes, 2)
        Rows of which the node alone causes its feature's charge, and its group's.
    item_offset, item_node, item_charge, item_rows : arrays
        Charges with several causes, each once: ``item_rows[i]`` rows pay ``item_charge[i]`` because of any of the nodes
        ``item_node[item_offset[i]:item_offset[i + 1]]``.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump, stump])
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
        """Count what rows pay for.

        Parameters
        ----------
        forest : Forest
        X : array or DataFrame of shape (n_rows, n_features)
        costs : FeatureCosts
            Only what costs nothing matters: it is left out.

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
