"""Regions: where a stop rule ends the work of rows, as plots and reports show it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Band(NamedTuple):
    """Thresholds after each number of trees, NaN where no row stops.

    Attributes
    ----------
    lower, upper : float64 arrays of shape (n_policies, n_trees + 1)
        A row stops as negative at or below `lower`, as positive at or above `upper`: numbers of positive votes, or
        running scores minus the decision threshold.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Bins(NamedTuple):
    """Intervals of a score, minus the decision threshold, that stop a row.

    Attributes
    ----------
    trees : int64 array of shape (n_bins,)
        After how many trees.
    low, high : float64 arrays of shape (n_bins,)
        Infinite where an interval has no end.
    positive : bool array of shape (n_bins,)
    score : str
        Which score: that of the trees so far, or an estimate of the full one.
    """

    trees: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    positive: NDArray[np.bool_]
    score: str = "running score"


class Leads(NamedTuple):
    """The smallest lead over the second class that stops a row after each round; NaN where none does.

    Attributes
    ----------
    lead : float64 array of shape (n_rounds + 1,)
    """

    lead: NDArray[np.float64]


class Gaps(NamedTuple):
    """How far below the k-th best document of its query a document leaves.

    Attributes
    ----------
    trees : int64 array of shape (n_sentinels,)
        After how many trees.
    gap : float64 array of shape (n_sentinels,)
        On the scale of scores; NaN where none leaves.
    """

    trees: NDArray[np.int64]
    gap: NDArray[np.float64]


Regions = Band | Bins | Leads | Gaps
