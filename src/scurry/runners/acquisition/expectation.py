"""Expectation: how much each feature is expected to change the answer, before its value is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest


class Expectation:
    """How far the sum of all trees is expected to move when a feature becomes known, by the covers of nodes.

    From a node, a tree moves to either child with the share of training rows that did, so its answer has a standard
    deviation. Trees that wait for the same feature are taken to move together: their deviations add up. The square of
    the sum is the variance that the feature settles.

    Parameters
    ----------
    forest : Forest
        With a cover for every node.
    """

    def __init__(self, forest: Forest) -> None:
        inner = np.flatnonzero(forest.left >= 0)
        left, right = forest.left[inner], forest.right[inner]
        total = forest.cover[left] + forest.cover[right]
        if not (np.isfinite(total) & (total > 0)).all():
            raise InputError(
                'order="informative" needs the number of training rows at every node, which this model does not '
                'have; use order="cheapest"',
                argument="order",
            )
        share = forest.cover[left] / total
        self.forest = forest
        # A Bernoulli variable has this deviation; it is 0 at leaves.
        self._deviation = np.zeros(forest.n_nodes)
        distance = np.linalg.norm(forest.value[left] - forest.value[right], axis=1)
        self._deviation[inner] = np.sqrt(share * (1 - share)) * distance

    def by_feature(self, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return how much variance each feature settles in trees that stand at these nodes, shape (n_features,)."""
        deviation = np.zeros(self.forest.n_features)
        inner = nodes[~self.forest.is_leaf[nodes]]
        np.add.at(deviation, self.forest.feature[inner], self._deviation[inner])
        settled: NDArray[np.float64] = deviation**2
        return settled
