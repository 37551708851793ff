"""Sequences of prunings of one problem, nested or not, and what each gains and costs in units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scurry.pruning.problem import PruningProblem


class NestedPrunings:
    """Prunings of which each keeps a part of what the one before it keeps.

    Parameters
    ----------
    kept_by : int32 array of shape (n_splits,)
        How many of the prunings keep each split: the first ones.
    n_prunings : int
    """

    def __init__(self, kept_by: NDArray[np.int32], n_prunings: int) -> None:
        self.kept_by, self.n_prunings = kept_by, n_prunings

    def __len__(self) -> int:
        return self.n_prunings

    def __getitem__(self, index: int) -> NDArray[np.bool_]:
        return self.kept_by > range(len(self))[index]

    def measured(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """The gain and cost of each pruning, all in one pass."""
        gain, cost = np.zeros(len(self) + 1, np.int64), np.zeros(len(self) + 1, np.int64)
        np.add.at(gain, self.kept_by, problem.gain)
        np.add.at(cost, self.kept_by, problem.cost)
        if len(problem.item_cost):
            bought_by = np.maximum.reduceat(self.kept_by[problem.item_node], problem.item_offset[:-1])
            np.add.at(cost, bought_by, problem.item_cost)
        # Entry k is what exactly the first k prunings have: pruning i has all entries beyond i.
        return _sums_beyond(gain), _sums_beyond(cost)


class SeparatePrunings:
    """Prunings found one by one.

    Parameters
    ----------
    kept : sequence of bool arrays of shape (n_splits,)
    """

    def __init__(self, kept: Sequence[NDArray[np.bool_]]) -> None:
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> NDArray[np.bool_]:
        return self.kept[index]

    def measured(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """The gain and cost of each pruning."""
        return [problem.gain_of(kept) for kept in self.kept], [problem.cost_of(kept) for kept in self.kept]


def _sums_beyond(entries: NDArray[np.int64]) -> list[int]:
    sums: list[int] = np.cumsum(entries[:0:-1])[::-1].tolist()
    return sums
