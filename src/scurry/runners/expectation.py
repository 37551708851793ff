"""Expectation: which features the rest of an answer depends on, before their values are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest


class Expectation:
    """How much of what trees may still answer depends on each feature, by the covers of their nodes.

    From a node, a tree reaches each leaf below with the share of training rows that did. The variance of what it will
    answer is a sum over the splits below: the probability of reaching the split, times the variance between its two
    children. The share of a feature is the sum over the splits that test it.

    Parameters
    ----------
    forest : Forest
        With a cover for every node.
    """

    def __init__(self, forest: Forest) -> None:
        inner = np.flatnonzero(forest.left >= 0)
        left, right = forest.cover[forest.left[inner]], forest.cover[forest.right[inner]]
        if not (np.isfinite(left) & np.isfinite(right) & (left + right > 0)).all():
            raise InputError(
                'order="informative" needs the number of training rows at every node, which this model does not '
                'have; use order="cheapest"',
                argument="order",
            )
        self.forest, self._inner = forest, inner
        self._goes_left = np.zeros(forest.n_nodes)
        self._goes_left[inner] = left / (left + right)
        between = ((forest.value[forest.left[inner]] - forest.value[forest.right[inner]]) ** 2).sum(axis=1)
        self._variance = self._goes_left[inner] * (1 - self._goes_left[inner]) * between
        self._levels = [inner[forest.node_depth[inner] == depth] for depth in range(forest.max_depth)]

    def by_feature(self, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return how much variance each feature settles in trees that stand at these nodes, shape (n_features,)."""
        forest = self.forest
        reach = np.zeros(forest.n_nodes)
        reach[nodes] = 1.0
        for level in self._levels:
            reach[forest.left[level]] += reach[level] * self._goes_left[level]
            reach[forest.right[level]] += reach[level] * (1 - self._goes_left[level])
        settled = np.zeros(forest.n_features)
        np.add.at(settled, forest.feature[self._inner], reach[self._inner] * self._variance)
        return settled
