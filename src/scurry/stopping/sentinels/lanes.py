"""Estimates and spreads as sums of integers: what a row adds up, leaf by leaf, and how it stops by the sums.

The fits of this folder are real numbers. A rule that is certified must decide alike wherever it runs, so its numbers
are rounded to integers first. Everything that is tested, and everything that runs, counts in these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.sentinels.leaves import FloatArray, Leaves
from scurry.stopping.sentinels.prefix import PrefixFit

# Half of what an int32 holds: the core wants the largest lanes of all trees to add up to no more than that, whichever
# lanes they are, and there are two kinds, of estimates and of spreads.
_LARGEST_SUM = 2**30 - 2
# Between sentinels the core adds up the trees of boosted models sixteen at a time, from the sentinel before on, in 16
# bits where these are enough (core/runtime/sliced.h).
_N_TOGETHER, _LARGEST_SHORT_SUM = 16, 2**15 - 1
_LARGEST_NOISE = 0.1  # of what estimates miss, which rounding may add
NO_LANE = -1


class Stops(NamedTuple):
    """Where rows stop.

    Attributes
    ----------
    sentinel : int64 array of shape (n_rows,)
        The number of the sentinel; that of all sentinels for rows that do not stop.
    estimate : float64 array of shape (n_rows,)
        NaN for rows that do not stop.
    """

    sentinel: NDArray[np.int64]
    estimate: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class SentinelFit:
    """Integers to add up, and when their sums stop a row.

    After ``sentinels[j]`` trees, with the sums ``s``, the estimate is ``offset[j] + scale[j] * s[lane[j]]`` and the
    spread is ``s[spread_lane] - square[j] * s[lane[j]] ** 2``. The row stops if its spread is at most the limit of the
    interval that ``s[lane[j]]`` lies in.

    Attributes
    ----------
    order : int64 array of shape (n_trees,)
    sentinels : int64 array of shape (n_sentinels,)
    lanes : int32 array of shape (n_nodes, n_lanes)
        What each node, as a leaf, adds to the sums.
    lane : int64 array of shape (n_sentinels,)
    scale, offset : float64 arrays of shape (n_sentinels,)
    spread_lane : int
        -1: no spread.
    square : float64 array of shape (n_sentinels,)
    edges : list of n_sentinels int64 arrays
        Rising; each starts an interval of the sum, and the first interval is below all of them.
    limits : list of n_sentinels float64 arrays
        One more than edges.
    """

    order: NDArray[np.int64]
    sentinels: NDArray[np.int64]
    lanes: NDArray[np.int32]
    lane: NDArray[np.int64]
    scale: FloatArray
    offset: FloatArray
    spread_lane: int
    square: FloatArray
    edges: list[NDArray[np.int64]]
    limits: list[FloatArray]

    @property
    def n_trees_at_stop(self) -> NDArray[np.int64]:
        """Trees evaluated for a row that stops at each sentinel, and last for one that does not."""
        return np.append(self.sentinels, len(self.order))

    def with_limits(self, limits: list[FloatArray]) -> Self:
        """Return the same fit with other limits."""
        return replace(self, limits=limits)

    def sums(self, nodes: NDArray[np.integer]) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield the sum of the estimate's lane and the spread of rows at each sentinel.

        Parameters
        ----------
        nodes : int array of shape (n_rows, n_trees)
            The leaf that each row reaches in each tree.
        """
        total = np.zeros((len(nodes), self.lanes.shape[1]), np.int64)
        done = 0
        for at, n_trees in enumerate(self.sentinels):
            for tree in self.order[done:n_trees]:
                total += self.lanes[nodes[:, tree]]
            done = int(n_trees)
            total_of_estimate = total[:, self.lane[at]].copy()
            as_float = total_of_estimate.astype(np.float64)
            spread = np.zeros(len(nodes))
            if self.spread_lane != NO_LANE:
                spread = total[:, self.spread_lane] - self.square[at] * (as_float * as_float)
            yield total_of_estimate, spread

    def estimate(self, at: int, total: NDArray[np.int64]) -> FloatArray:
        """Return the estimates that belong to sums at a sentinel."""
        estimates: FloatArray = self.offset[at] + self.scale[at] * total.astype(np.float64)
        return estimates

    def stop(self, nodes: NDArray[np.integer]) -> Stops:
        """Return where rows stop, given the leaves that they reach; shape (n_rows, n_trees)."""
        sentinel = np.full(len(nodes), len(self.sentinels))
        estimate = np.full(len(nodes), np.nan)
        for at, (total, spread) in enumerate(self.sums(nodes)):
            limit = self.limits[at][np.searchsorted(self.edges[at], total, side="right")]
            stops = (sentinel == len(self.sentinels)) & (spread <= limit)
            sentinel[stops] = at
            estimate[stops] = self.estimate(at, total[stops])
        return Stops(sentinel, estimate)


def prefix_lanes(leaves: Leaves, fit: PrefixFit, *, with_spread: bool) -> SentinelFit:
    """Return the integers of a prefix fit: one lane per sentinel, so that an estimate is one sum, and one of spreads.

    All estimates have the same power of two as their unit, and offsets are multiples of it. No row stops yet.
    """
    n_sentinels = len(fit.sentinels)
    position = np.empty(leaves.n_trees, np.int64)
    position[fit.order] = np.arange(leaves.n_trees)
    comes_at = np.repeat(position, np.diff(leaves.offset))
    lanes = fit.slope[:, None] * fit.values + fit.corrections
    lanes[comes_at >= fit.sentinels[:, None]] = 0.0
    largest = np.abs(lanes).max(axis=0, initial=0.0)
    unit = sum_unit(leaves, largest)
    # Coarser numbers are added up faster. Their rounding must not matter beside what the estimates miss.
    short = _short_unit(leaves, fit, largest)
    is_short = bool((short * np.sqrt(fit.sentinels / 12) <= _LARGEST_NOISE * np.median(fit.sigma)).all())
    unit = max(unit, short) if is_short else unit
    columns = [np.rint(lane / unit) for lane in lanes]
    spread_lane = NO_LANE
    if with_spread:
        spread_lane = n_sentinels
        columns.append(np.rint(fit.spread / spread_unit(leaves, fit)))
    whole = np.zeros((len(leaves.parent), len(columns)), np.int32)
    for at, column in enumerate(columns):
        whole[leaves.node, at] = column
    return SentinelFit(
        order=fit.order,
        sentinels=fit.sentinels,
        lanes=whole,
        lane=np.arange(n_sentinels),
        scale=np.full(n_sentinels, unit),
        offset=np.rint(fit.intercept / unit) * unit,
        spread_lane=spread_lane,
        square=np.zeros(n_sentinels),
        edges=[np.empty(0, np.int64)] * n_sentinels,
        limits=[np.full(1, -np.inf)] * n_sentinels,
    )


def spread_unit(leaves: Leaves, fit: PrefixFit) -> float:
    """Return the unit of spreads, of which the first few bits matter."""
    return max(sum_unit(leaves, fit.spread), _short_unit(leaves, fit, fit.spread))


def _short_unit(leaves: Leaves, fit: PrefixFit, lane: FloatArray) -> float:
    """Return the smallest power of two in which sums of a lane over a few trees between sentinels fit 16 bits."""
    largest = np.maximum.reduceat(np.abs(lane), leaves.offset[:-1])[fit.order]
    most = 0.0
    for first, last in pairwise([0, *fit.sentinels.tolist()]):
        most = max(most, *(largest[at : min(at + _N_TOGETHER, last)].sum() for at in range(first, last, _N_TOGETHER)))
    room = _LARGEST_SHORT_SUM - _N_TOGETHER
    return float(2.0 ** np.ceil(np.log2(most / room))) if most > 0 else 0.0


def sum_unit(leaves: Leaves, lane: FloatArray) -> float:
    """Return the smallest power of two in which no sum of a lane over trees is too large."""
    return power_unit(float(np.maximum.reduceat(np.abs(lane), leaves.offset[:-1]).sum()), leaves.n_trees, 1)


def power_unit(largest: float, n_trees: int, n_times: int | None = None) -> float:
    """Return the smallest power of two in which `n_times` (`n_trees` by default) times `largest` is an int32."""
    room = _LARGEST_SUM - 2 * n_trees  # every leaf may be rounded up
    most = largest * (n_trees if n_times is None else n_times)
    return float(2.0 ** -np.floor(np.log2(room / most))) if most > 0 else 1.0
