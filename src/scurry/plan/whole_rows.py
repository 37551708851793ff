"""Rules that read whole rows.

SentinelRule and TopKRule stop rows at sentinels: each row alone, or the documents of a query together. By a CellRule
a row stops once the trees that are left cannot change its label, whatever leaves they still reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_number
from scurry.errors import InputError
from scurry.forest import Forest, leaf_scores, score_threshold
from scurry.plan.plan import NEVER_ABOVE, NEVER_BELOW, StopRule, to_int32
from scurry.plan.regions import Bins, Gaps

NO_LANE = -1
KEEPS = ("order", "set")


@dataclass(frozen=True, eq=False, kw_only=True)
class _LaneRule(StopRule):
    """A rule that stops rows at sentinels, by sums of what leaves have in their lanes."""

    sentinels: NDArray[np.int32]
    lanes: NDArray[np.int32]
    lane: NDArray[np.int32]
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]

    needs_whole_rows: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        "sentinels": np.int32,
        "lanes": np.int32,
        "lane": np.int32,
        "scale": np.float64,
        "offset": np.float64,
    }

    @property
    def tested_by(self) -> str:
        """At sentinels."""
        return "sentinels"


@dataclass(frozen=True, eq=False, kw_only=True)
class SentinelRule(_LaneRule):
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

    spread_lane: int = NO_LANE
    square: NDArray[np.float64]
    edge_offset: NDArray[np.uint32]
    edges: NDArray[np.int32]
    limits: NDArray[np.float64]

    TAG: ClassVar[str] = "SentinelRule"
    ARRAYS: ClassVar[dict[str, type]] = {
        **_LaneRule.ARRAYS,
        "square": np.float64,
        "edge_offset": np.uint32,
        "edges": np.int32,
        "limits": np.float64,
    }

    def __post_init__(self) -> None:
        n = len(self.sentinels)
        per_sentinel = (self.lane, self.scale, self.offset, self.square)
        check_sentinels(self.sentinels, self.lanes, *per_sentinel)
        check_spread_lane(self.spread_lane, self.lanes)
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


def check_spread_lane(spread_lane: int, lanes: NDArray[np.int32]) -> None:
    """Raise an error unless this is one of the lanes, or none."""
    n_lanes = lanes.shape[1]
    if type(spread_lane) is not int or not NO_LANE <= spread_lane < n_lanes:
        raise InputError(f"spread_lane must be from -1 to {n_lanes - 1}, got {spread_lane!r}")


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
class TopKRule(_LaneRule):
    """When a document leaves its query: once it is far enough from the place that divides the k best from the others.

    Rows are documents, and those of a query run together. Every leaf has a few integers, its lanes, and a row adds up
    those of the leaves it reaches. After ``sentinels[j]`` trees in the plan's order, documents that are still in are
    compared by their sum ``s`` of the lane ``lane[j]``:

    - a document leaves if ``s`` is more than ``limits[j]`` below the k-th best;
    - with ``keep="set"`` it also leaves if ``s`` is more than ``limits[j]`` above the next best after the k. It is then
      among the k best, and takes one of their places. So are all if there are no more of them than places.

    With a spread lane, some documents are known better than others: each may be anywhere from ``s - r`` to ``s + r``,
    where ``r`` is ``limits[j]`` times its sum of that lane, rounded down, and 0 if that is negative. It leaves if
    ``s + r`` is below the k-th best ``s - r``; with ``keep="set"`` also if ``s - r`` is above the (k + 1)-th best
    ``s + r``.

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
    spread_lane : int
        -1 for none.
    limits : float64 array of shape (n_sentinels,)
        At least 0; with infinity nobody leaves.
    """

    k: int
    keep: str = "order"
    spread_lane: int = NO_LANE
    limits: NDArray[np.float64]

    TAG: ClassVar[str] = "TopKRule"
    ranks_groups: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        **_LaneRule.ARRAYS,
        "limits": np.float64,
    }

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_choice("keep", self.keep, KEEPS)
        check_sentinels(self.sentinels, self.lanes, self.lane, self.scale, self.offset, self.limits)
        check_spread_lane(self.spread_lane, self.lanes)
        if not (np.isfinite(self.scale).all() and np.isfinite(self.offset).all() and (self.scale > 0).all()):
            raise InputError("scale and offset must be finite, and every scale above 0")
        if not (self.limits >= 0).all():
            raise InputError("limits must be 0 or more")

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays; one without spreads as before there were any, so that digests stay."""
        header, arrays = super().to_parts()
        if self.spread_lane == NO_LANE:
            del header["spread_lane"]
        return header, arrays

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes != 0 or forest.link != "identity":
            raise InputError("the plan ranks by the values of a regressor or ranker whose scores are its answers")
        check_lanes(forest, self.sentinels, self.lanes)

    def regions(self, forest: Forest) -> Gaps:
        """Return how far below the k-th best a document leaves, where both have the mean spread."""
        gap = self.limits * self.scale
        if self.spread_lane != NO_LANE:
            gap = 2 * gap * self.sentinels * float(self.lanes[forest.is_leaf, self.spread_lane].mean())
        return Gaps(self.sentinels.astype(np.int64), np.where(np.isfinite(gap), gap, np.nan))

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self:
        """Return the rule with its limits times `factor`: above 1 is more cautious."""
        return replace(self, limits=self.limits * factor)

    def without_stops(self) -> Self:
        """Return the rule by which no document leaves before the last tree."""
        return replace(self, limits=np.full_like(self.limits, np.inf))

    def mean_comparisons(self, trees: NDArray[np.integer]) -> float:
        """Return how often a document is compared with others of its query: in a set, twice at each sentinel."""
        sentinels = float(np.searchsorted(self.sentinels, trees, side="right").mean())
        return sentinels * (2 if self.keep == "set" else 1)


MAX_ROUTER_DEPTH = 64  # `core/calibrate/router.h` has the same number
_MAX_PLACES = 1 << 26  # cells times trees: 12 bytes each when the rule runs


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRule(StopRule):
    """Stop a row of a two-class model once its label is certain, with bounds that hold in the row's cell.

    A router, which is a small tree of its own, sends every input to a cell. In a cell, every tree of the forest has a
    least and a greatest value: those of the leaves that inputs of the cell can reach. The cell evaluates its trees by
    falling range, and a row stops once the bounds of the trees that are left add up to no other label.

    The rule stores the router alone. Orders and bounds follow from the router and the forest, and are computed when the
    rule is run. So a file cannot hold wrong bounds: whatever the router is, labels are the model's.

    Attributes
    ----------
    step : float
        What one grid unit of the integer sums is worth.
    feature, threshold, default_left, missing : int32, float64, uint8 and uint8 arrays of shape (n_nodes,)
        The router's splits, which compare as those of the forest do. Ignored at its leaves.
    left, right : int32 arrays of shape (n_nodes,)
        Children, after their parent; -1 at leaves, which are the cells.
    """

    step: float
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]

    TAG: ClassVar[str] = "CellRule"
    in_plan_order: ClassVar[bool] = False
    needs_whole_rows: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        "feature": np.int32,
        "threshold": np.float64,
        "default_left": np.uint8,
        "missing": np.uint8,
        "left": np.int32,
        "right": np.int32,
    }

    @property
    def tested_by(self) -> str:
        """By bounds of cells."""
        return "cells"

    def __post_init__(self) -> None:
        check_number("step", self.step, above=0.0)
        n = len(self.left)
        if n == 0 or any(getattr(self, name).shape != (n,) for name in self.ARRAYS):
            raise InputError("a router needs a feature, a threshold, a default, a kind of missing values and children")
        inner = self.left >= 0
        children = np.concatenate([self.left[inner], self.right[inner]])
        if not np.array_equal(np.sort(children), np.arange(1, n)) or (self.right[~inner] >= 0).any():
            raise InputError("every node of a router but its root must be the child of one other")
        if (np.minimum(self.left, self.right)[inner] <= np.flatnonzero(inner)).any():
            raise InputError("children in a router must come after their parent")
        if np.isnan(self.threshold[inner]).any() or self.missing[inner].max(initial=0) > 2:
            raise InputError("a split of a router has no threshold, or an unknown kind of missing values")
        if self.default_left.max(initial=0) > 1:
            raise InputError("default_left must be 0 or 1")
        depth = np.zeros(n, np.int64)
        for node in np.flatnonzero(inner):
            depth[[self.left[node], self.right[node]]] = depth[node] + 1
        if depth.max() > MAX_ROUTER_DEPTH:
            raise InputError(f"a router may be {MAX_ROUTER_DEPTH} deep, not {depth.max()}")

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int((self.left < 0).sum())

    def with_cells(self, n_cells: int) -> CellRule:
        """Return the rule whose router has at most so many cells: its first splits. Labels stay the model's."""
        keep = np.zeros(len(self.left), np.bool_)
        keep[np.flatnonzero(self.left >= 0)[: n_cells - 1]] = True
        present = np.zeros(len(self.left), np.bool_)
        present[0] = True
        present[self.left[keep]] = present[self.right[keep]] = True
        index = np.append(np.cumsum(present) - 1, -1)
        arrays = {name: getattr(self, name)[present] for name in self.ARRAYS}
        for side in ("left", "right"):
            arrays[side] = np.where(keep[present], index[arrays[side]], -1).astype(np.int32)
        return CellRule(step=self.step, **arrays)

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes != 2:
            raise InputError(f"the plan is for two classes, the forest has {forest.n_classes}")
        if forest.aggregation != "sum":
            raise InputError("the plan is for a forest that adds up its trees, and this one averages them")
        inner = self.left >= 0
        used = self.feature[inner]
        if used.size and not (used.min() >= 0 and used.max() < forest.n_features):
            raise InputError(f"the router tests a feature beyond the forest's {forest.n_features}")
        if forest.n_trees > 2**16 - 1 or self.n_cells * (forest.n_trees + 1) > _MAX_PLACES:
            raise InputError(f"{self.n_cells} cells for {forest.n_trees} trees are too many")
        self.increments(forest)
        self.sum_threshold(forest)

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """Return what each node, as a leaf, adds to a row's sum, shape (n_nodes,); 0 at inner nodes."""
        with np.errstate(under="ignore", over="ignore"):
            units = np.where(forest.is_leaf, np.rint(leaf_scores(forest) / self.step), 0.0)
        most = np.maximum.reduceat(np.abs(units), forest.tree_offset[:-1]).sum()
        if not most < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: some sum is more than 2^31 of them")
        return units.astype(np.int32)

    def sum_threshold(self, forest: Forest) -> int:
        """Return the sum over all trees from which on a row is positive."""
        units = np.rint(score_threshold(forest) / self.step)
        if not abs(units) < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: the decision threshold is more than 2^31 of them")
        return int(units)

    @classmethod
    def of_splits(
        cls, forest: Forest, step: float, source: NDArray[np.int32], left: NDArray[np.int32], right: NDArray[np.int32]
    ) -> CellRule:
        """Return the rule whose router has the splits of these nodes of `forest`; -1 at its leaves."""
        at = np.maximum(source, 0)

        def of_nodes(values: NDArray[Any], dtype: type) -> NDArray[Any]:
            return np.where(source >= 0, values[at], 0).astype(dtype)

        return cls(
            step=step,
            feature=of_nodes(forest.feature, np.int32),
            threshold=of_nodes(forest.threshold, np.float64),
            default_left=of_nodes(forest.default_left, np.uint8),
            missing=of_nodes(forest.missing, np.uint8),
            left=left,
            right=right,
        )
