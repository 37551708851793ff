"""Rules that stop rows at sentinels: each row alone, or the documents of a query together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan.rules import NEVER_ABOVE, NEVER_BELOW, Bins, Gaps, StopRule, to_int32

NO_LANE = -1
KEEPS = ("order", "set")


@dataclass(frozen=True, eq=False, kw_only=True)
class SentinelRule(StopRule):
    """When a row may stop at a sentinel, a number of trees for which an estimate of the full score was fitted.

    Every leaf has a few integers, its lanes, and a row adds up those of the leaves it reaches. Sums of integers depend
    neither on the order of rows nor on threads. After ``sentinels[j]`` trees in the plan's order, with the sums ``s``:

    - the estimate is ``offset[j] + scale[j] * s[lane[j]]``, on the scale of `Run.scores`;
    - the spread is ``s[spread_lane] - square[j] * s[lane[j]] ** 2``, or 0 without a spread lane;
    - ``edges[edge_offset[j]:edge_offset[j + 1]]`` cut ``s[lane[j]]`` into intervals ``[edge, next edge)``, and the row
      stops if its spread is at most the limit of its interval.

    A row that stops answers with its estimate: a value, or the label and the probability of that score. The others get
    the model's own answer.

    Attributes
    ----------
    sentinels : int32 array of shape (n_sentinels,)
        Rising numbers of trees, each below the number of all trees.
    lanes : int32 array of shape (n_nodes, n_lanes)
        What each node, as a leaf, adds to the sums.
    lane : int32 array of shape (n_sentinels,)
        The lane of the estimate at each sentinel.
    scale, offset : float64 arrays of shape (n_sentinels,)
    spread_lane : int
        The lane that is added up for the spread; -1 for none.
    square : float64 array of shape (n_sentinels,)
    edge_offset : uint32 array of shape (n_sentinels + 1,)
    edges : int32 array
    limits : float64 array
        One more than edges at every sentinel: those of sentinel ``j`` start at ``edge_offset[j] + j``. Infinity stops
        every row, minus infinity none.
    """

    sentinels: NDArray[np.int32]
    lanes: NDArray[np.int32]
    lane: NDArray[np.int32]
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]
    spread_lane: int = NO_LANE
    square: NDArray[np.float64]
    edge_offset: NDArray[np.uint32]
    edges: NDArray[np.int32]
    limits: NDArray[np.float64]

    TAG: ClassVar[str] = "SentinelRule"
    needs_whole_rows: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        "sentinels": np.int32,
        "lanes": np.int32,
        "lane": np.int32,
        "scale": np.float64,
        "offset": np.float64,
        "square": np.float64,
        "edge_offset": np.uint32,
        "edges": np.int32,
        "limits": np.float64,
    }

    def __post_init__(self) -> None:
        n = len(self.sentinels)
        per_sentinel = (self.lane, self.scale, self.offset, self.square)
        check_sentinels(self.sentinels, self.lanes, *per_sentinel)
        n_lanes = self.lanes.shape[1]
        if type(self.spread_lane) is not int or not NO_LANE <= self.spread_lane < n_lanes:
            raise InputError(f"spread_lane must be from -1 to {n_lanes - 1}, got {self.spread_lane!r}")
        if not all(np.isfinite(one).all() for one in per_sentinel) or np.isnan(self.limits).any():
            raise InputError("scale, offset and square must be finite, and no limit may be NaN")
        offset, edges = self.edge_offset, self.edges
        if not offset.ndim == edges.ndim == self.limits.ndim == 1 or len(offset) != n + 1:
            raise InputError("edge_offset, edges and limits do not fit together")
        if offset[0] != 0 or offset[-1] != len(edges) or (offset[1:] < offset[:-1]).any():
            raise InputError("edge_offset must rise from 0 to the number of edges")
        if len(self.limits) != len(edges) + n:
            raise InputError("every interval between edges needs a limit")
        falls = edges[1:] < edges[:-1]
        falls[offset[(offset > 0) & (offset < len(edges))].astype(np.int64) - 1] = False  # edges of the next sentinel
        if falls.any():
            raise InputError("edges must rise at each sentinel")

    def estimates(self, j: int, sums: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the estimates at sentinel `j` of rows with these sums, shape (n_rows, n_lanes)."""
        return np.asarray(self.offset[j] + self.scale[j] * sums[:, self.lane[j]])

    def stops(self, j: int, sums: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether rows with these sums, shape (n_rows, n_lanes), stop at sentinel `j`."""
        of_lane = sums[:, self.lane[j]].astype(np.float64)
        spread = -self.square[j] * (of_lane * of_lane)
        if self.spread_lane != NO_LANE:
            spread = sums[:, self.spread_lane] + spread
        first, last = int(self.edge_offset[j]), int(self.edge_offset[j + 1])
        interval = np.searchsorted(self.edges[first:last], of_lane, side="right")
        return np.asarray(spread <= self.limits[first + j + interval])

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes not in (0, 2):
            raise InputError("the plan is for a regressor or for two classes")
        check_lanes(forest, self.sentinels, self.lanes)

    def regions(self, forest: Forest) -> Bins | None:
        """Return which estimates stop a row of a classifier; None where rows stop by their spread."""
        if not self._stops_by_estimate(forest):
            return None
        at = self._sentinel_of_edges()
        ends = (self.offset[at] - decision_score(forest)) + self.scale[at] * self.edges
        # Around the edges of each sentinel there are two more ends, which are infinite.
        below, above = self.edge_offset[:-1].astype(np.int64), self.edge_offset[1:].astype(np.int64)
        direction = np.copysign(np.inf, self.scale)
        first, last = np.insert(ends, below, -direction), np.insert(ends, above, direction)
        stops = self.limits == np.inf
        low, high = np.minimum(first, last)[stops], np.maximum(first, last)[stops]
        trees = np.repeat(self.sentinels, above - below + 1).astype(np.int64)
        return Bins(trees[stops], low, high, low > -high, "estimated score")

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self | None:
        """Return the rule with `factor` times as much caution.

        Where estimates stop rows, the distance of edges to the decision is multiplied. Where spreads do, which are
        squares, limits are divided by its square.
        """
        if self._stops_by_estimate(forest):
            at = self._sentinel_of_edges()
            decision = (decision_score(forest) - self.offset[at]) / self.scale[at]
            moved = np.rint(decision + factor * (self.edges - decision))
            is_edge = (self.edges > NEVER_BELOW) & (self.edges < NEVER_ABOVE)
            return replace(self, edges=to_int32(np.where(is_edge, moved, self.edges)))
        if not np.isfinite(self.limits).any():
            return None
        # A limit below 0 is not met by spreads above 0, whatever the caution; it must not come closer to them.
        limits = np.where(self.limits > 0, self.limits / factor**2, self.limits * max(factor, 1.0) ** 2)
        return replace(self, limits=limits)

    def without_stops(self) -> Self:
        """Return the rule without a stop before the last tree."""
        return replace(self, limits=np.full_like(self.limits, -np.inf))

    def _stops_by_estimate(self, forest: Forest) -> bool:
        """Whether the spread of a row does not matter, and estimates mean labels."""
        return forest.n_classes == 2 and not np.isfinite(self.limits).any() and bool((self.scale != 0).all())

    def _sentinel_of_edges(self) -> NDArray[np.intp]:
        n_edges = np.diff(self.edge_offset.astype(np.int64)).astype(np.intp)
        return np.repeat(np.arange(len(self.sentinels)), n_edges)


def decision_score(forest: Forest) -> float:
    """Return the score of `Run.scores` from which on a row gets the second of two classes."""
    if forest.n_outputs == 1:
        return float(forest.decision_threshold)
    return 0.0 if forest.aggregation == "sum" else 0.5  # the lead of the second class, or its mean probability


def check_sentinels(
    sentinels: NDArray[np.int32], lanes: NDArray[np.int32], lane: NDArray[np.int32], *others: NDArray[np.float64]
) -> None:
    """Raise an error unless sentinels rise, and each has a lane and one of the other numbers."""
    n = len(sentinels)
    if sentinels.ndim != 1 or {lane.shape, *(one.shape for one in others)} != {(n,)} or lanes.ndim != 2:
        raise InputError("lanes must be a matrix, and everything else needs one number for each sentinel")
    if n and not (sentinels[0] > 0 and (sentinels[1:] > sentinels[:-1]).all()):  # differences may overflow
        raise InputError("sentinels must be rising numbers of trees, the first of them above 0")
    if n and not (lane.min() >= 0 and lane.max() < lanes.shape[1]):
        raise InputError(f"lane must be from 0 to {lanes.shape[1] - 1}")


def check_lanes(forest: Forest, sentinels: NDArray[np.int32], lanes: NDArray[np.int32]) -> None:
    """Raise an error unless there are lanes for all nodes of `forest`, and every sum of them fits 32 bits."""
    if len(lanes) != forest.n_nodes:
        raise InputError(f"the plan has lanes for {len(lanes)} nodes, the forest has {forest.n_nodes}")
    if len(sentinels) and sentinels[-1] >= forest.n_trees:
        raise InputError(f"the last sentinel must be below the number of trees, {forest.n_trees}")
    most = np.maximum.reduceat(
        np.where(forest.is_leaf[:, None], np.abs(lanes.astype(np.int64)), 0), forest.tree_offset[:-1]
    ).sum(axis=0)
    if most.max(initial=0) >= NEVER_ABOVE:
        raise InputError("some sum of lanes may be more than 2^31")


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
