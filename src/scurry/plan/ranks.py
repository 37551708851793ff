"""TopKRule: documents leave at sentinels once they cannot change the k best of their query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan.rules import Gaps, StopRule
from scurry.plan.sentinels import check_lanes, check_sentinels

KEEPS = ("order", "set")


@dataclass(frozen=True, eq=False, kw_only=True)
class TopKRule(StopRule):
    """When a document leaves its query: once it is far enough from the place that divides the k best from the others.

    Rows are documents, and those of a query run together. Every leaf has a few integers, its lanes, and a row adds up
    those of the leaves it reaches. After ``sentinels[j]`` trees in the plan's order, documents that are still in are
    compared by their sum ``s`` of the lane ``lane[j]``:

    - a document leaves if ``s`` is more than ``limits[j]`` below the k-th best;
    - with ``keep="set"`` it also leaves if ``s`` is more than ``limits[j]`` above the next best after the k. It is then
      among the k best, and takes one of their places. So are all if there are no more of them than places.

    A document that leaves gets the estimate ``offset[j] + scale[j] * s`` as its score, the others get the model's own.

    Attributes
    ----------
    k : int
    keep : {"order", "set"}
        Whether the k best are ranked by their own scores, or are known as a set whose order is estimated.
    sentinels : int32 array of shape (n_sentinels,)
        Rising numbers of trees, each below the number of all trees.
    lanes : int32 array of shape (n_nodes, n_lanes)
        What each node, as a leaf, adds to the sums.
    lane : int32 array of shape (n_sentinels,)
    scale, offset : float64 arrays of shape (n_sentinels,)
        Scales are above 0.
    limits : float64 array of shape (n_sentinels,)
        At least 0; with infinity nobody leaves.
    """

    k: int
    keep: str = "order"
    sentinels: NDArray[np.int32]
    lanes: NDArray[np.int32]
    lane: NDArray[np.int32]
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]
    limits: NDArray[np.float64]

    TAG: ClassVar[str] = "TopKRule"
    needs_whole_rows: ClassVar[bool] = True
    ranks_groups: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        "sentinels": np.int32,
        "lanes": np.int32,
        "lane": np.int32,
        "scale": np.float64,
        "offset": np.float64,
        "limits": np.float64,
    }

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_choice("keep", self.keep, KEEPS)
        check_sentinels(self.sentinels, self.lanes, self.lane, self.scale, self.offset, self.limits)
        if not (np.isfinite(self.scale).all() and np.isfinite(self.offset).all() and (self.scale > 0).all()):
            raise InputError("scale and offset must be finite, and every scale above 0")
        if not (self.limits >= 0).all():
            raise InputError("limits must be 0 or more")

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes != 0 or forest.link != "identity":
            raise InputError("the plan ranks by the values of a regressor or ranker whose scores are its answers")
        check_lanes(forest, self.sentinels, self.lanes)

    def regions(self, forest: Forest) -> Gaps:
        """Return how far below the k-th best a document leaves."""
        gap = self.limits * self.scale
        return Gaps(self.sentinels.astype(np.int64), np.where(np.isfinite(gap), gap, np.nan))

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self:
        """Return the rule with its limits times `factor`: above 1 is more cautious."""
        return replace(self, limits=self.limits * factor)

    def without_stops(self) -> Self:
        """Return the rule by which no document leaves before the last tree."""
        return replace(self, limits=np.full_like(self.limits, np.inf))
