"""Families of splits that read the same feature, or the same group of features, and what goes if one of them goes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.pruning.problem import PruningProblem, Stretch


def families(problem: PruningProblem) -> NDArray[np.bool_]:
    """Which splits read each feature in use, and any feature of each group that has a cost.

    Parameters
    ----------
    problem : PruningProblem

    Returns
    -------
    bool array of shape (n_splits, n_families)
    """
    feature, costs = problem.forest.feature[problem.nodes], problem.costs
    groups = np.flatnonzero(costs.group_costs > 0)
    return np.hstack([feature[:, None] == np.unique(feature), costs.groups[feature][:, None] == groups])


class FamilyDrops:
    """What dropping a family, with everything below its splits, does to the splits still kept.

    Parameters
    ----------
    stretch : Stretch
    members : bool array of shape (n_splits, n_families)
    """

    def __init__(self, stretch: Stretch, members: NDArray[np.bool_]) -> None:
        self.stretch = stretch
        self.goes_with = members.copy()
        for splits, above in _downwards(stretch.parent):
            self.goes_with[splits] |= self.goes_with[above]
        n_splits, self.n_families = members.shape
        n_words = (self.n_families + 63) // 64
        padded = np.zeros((n_splits, 64 * n_words), np.bool_)
        padded[:, : self.n_families] = self.goes_with
        self.bits = np.packbits(padded, axis=1, bitorder="little").view(np.uint64).ravel()

    def drop(self, kept: NDArray[np.bool_], family: int) -> NDArray[np.bool_]:
        """What is left of `kept` without the family."""
        return kept & ~self.goes_with[:, family]

    def losses(self, kept: NDArray[np.bool_], theta: float) -> NDArray[np.float64]:
        """What dropping each family takes from gain - theta * cost; infinite for families that are gone.

        Parameters
        ----------
        kept : bool array of shape (n_splits,)
        theta : float

        Returns
        -------
        float64 array of shape (n_families,)
        """
        stretch = self.stretch
        items = stretch.item_offset, stretch.item_node, stretch.item_cost
        saved = _core.family_savings(*items, kept.view(np.uint8), self.bits, self.n_families)
        goes = self.goes_with[kept]
        lost = (stretch.gain[kept] - theta * stretch.cost[kept]) @ goes - theta * saved
        return np.where(goes.any(axis=0), lost, np.inf)


def _downwards(parent: NDArray[np.int32]) -> list[tuple[NDArray[np.intp], NDArray[np.int32]]]:
    """Splits and their parents, level by level from the top; splits without a parent are left out."""
    levels = []
    known = parent < 0
    while len(splits := np.flatnonzero(~known & known[parent])):
        levels.append((splits, parent[splits]))
        known[splits] = True
    return levels
