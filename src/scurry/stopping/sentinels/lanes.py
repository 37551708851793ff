"""Estimates and spreads as sums of integers: what a row adds up, leaf by leaf, and how it stops by the sums.

The fits of this folder are real numbers. A rule that is certified must decide alike wherever it runs, so its numbers
are rounded to integers first. Everything that is tested, and everything that runs, counts in these.

Labels stop by thresholds on margins: how far the estimate of the full score is from the decision between two classes,
in units of the error to be expected. A rule on scores sees one increment per sentinel, by which the margin changes, and
a last one to the full score, as if they were trees.

Values stop by families of rules, from cautious to bold, once an estimate is close enough to the full value. All members
stop a row where ``caution`` times its expected error is at most the error that is allowed. They differ in the caution
alone, so that rows which fitted nothing can choose it (`scurry.stopping.guarantee`).

Boosted trees: the expected squared error after ``K`` trees is ``sigma[j] ** 2`` times the mean spread of the row's
leaves (`scurry.stopping.sentinels.prefix`). Where scores pass a link, it is multiplied by the slope of the link at the
estimate, in bins.

Trees that are averaged: after ``r`` of ``T`` trees with the values ``v``, what the others add is unknown by a variance
of ``s2 * (1 / r - 1 / T)``, where ``s2`` is the variance between trees of this row: what was seen so far, with
`_PRIOR_TREES` more trees that have the variance of other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.scores.qwyc import MarginFit
from scurry.stopping.sentinels.prefix import FloatArray, Leaves, PrefixFit, fit_line

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

    def keep(self, chosen: NDArray[np.integer]) -> Self:
        """Return the fit with some of its sentinels, and the lanes that these read; one lane if there are none."""
        lanes = np.unique(self.lane[chosen]) if len(chosen) else np.zeros(1, np.int64)
        used = lanes if self.spread_lane == NO_LANE else np.union1d(lanes, self.spread_lane)
        return replace(
            self,
            sentinels=self.sentinels[chosen],
            lanes=np.ascontiguousarray(self.lanes[:, used]),
            lane=np.searchsorted(used, self.lane[chosen]),
            scale=self.scale[chosen],
            offset=self.offset[chosen],
            spread_lane=NO_LANE if self.spread_lane == NO_LANE else int(np.searchsorted(used, self.spread_lane)),
            square=self.square[chosen],
            edges=[self.edges[at] for at in chosen],
            limits=[self.limits[at] for at in chosen],
        )

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


_FAR_WEIGHT, _NEAR = 0.05, 0.5  # the weight of rows far from the decision; what is near, in deviations of the scores


def near_decision(scores: FloatArray, threshold: float) -> FloatArray:
    """Return how much each row should count in a fit: most where its full score is near the threshold.

    Examples
    --------
    >>> near_decision(np.array([-2.0, 0.0, 2.0]), 0.0).round(2)
    array([0.1 , 1.05, 0.1 ])
    """
    deviation = float(np.std(scores)) or 1.0
    weight: FloatArray = _FAR_WEIGHT + np.exp(-0.5 * np.square((scores - threshold) / (_NEAR * deviation)))
    return weight


# Distances from the decision at which intervals begin, in deviations of what estimates miss: as many as are searched in
# registers at run time.
_DISTANCES = np.concatenate([[0.02, 0.06], np.geomspace(0.12, 16.0, 29)])
MARGIN_STEP = 2.0**-16  # margins are multiples of it, so that nothing rounds where they are compared
_LARGEST_MARGIN = 2.0**12


@dataclass(frozen=True, eq=False, kw_only=True)
class DecisionFit:
    """Estimates of a score as margins: how far they are from the decision, in units of the errors to be expected.

    An estimate at sentinel ``j`` with the distance ``d`` from the decision, in units of what estimates miss there, has
    the margin ``d / sqrt(mean spread of the row's leaves)``. So one threshold suits all sentinels. Distances are
    rounded towards 0, to the beginnings of intervals.

    Attributes
    ----------
    fit : SentinelFit
        Without limits.
    distance : list of n_sentinels float64 arrays
        Of each interval; negative on the side of the first class, 0 next to the decision.
    unit : float
        Of spreads.
    """

    fit: SentinelFit
    distance: list[FloatArray]
    unit: float

    def keep(self, chosen: NDArray[np.integer]) -> Self:
        """Return the fit with some of its sentinels."""
        return replace(self, fit=self.fit.keep(chosen), distance=[self.distance[at] for at in chosen])

    def margins(self, sums: Iterable[tuple[NDArray[np.int64], FloatArray]]) -> FloatArray:
        """Return the margins of rows with these sums and spreads at each sentinel; shape (n_sentinels, n_rows)."""
        return np.stack([
            self._margin(at, self.distance[at][np.searchsorted(self.fit.edges[at], total, side="right")], spread)
            for at, (total, spread) in enumerate(sums)
        ])  # fmt: skip

    def read_tested(
        self, estimates: FloatArray, nodes: NDArray[np.integer]
    ) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield sums and spreads of rows with these estimates, of shape (n_sentinels, n_rows), at each sentinel."""
        spread, done = np.zeros(len(nodes)), 0
        for at, n_trees in enumerate(self.fit.sentinels):
            for tree in self.fit.order[done:n_trees]:
                spread += self.fit.lanes[nodes[:, tree], self.fit.spread_lane]
            done = int(n_trees)
            yield np.rint((estimates[at] - self.fit.offset[at]) / self.fit.scale[at]).astype(np.int64), spread

    def _margin(self, at: int, distance: FloatArray, spread: FloatArray) -> FloatArray:
        """Return the margin at a sentinel. It falls with the spread, whatever is rounded."""
        mean = np.maximum(spread, 1.0) * (self.unit / float(self.fit.sentinels[at]))
        margin = np.clip(distance / np.sqrt(mean), -_LARGEST_MARGIN, _LARGEST_MARGIN)
        whole: FloatArray = np.trunc(margin / MARGIN_STEP) * MARGIN_STEP
        return whole

    def rule(self, thresholds: MarginFit) -> SentinelFit:
        """Return the rule that stops rows at margins up to `lower` and from `upper` on."""
        limits = []
        for at, distance in enumerate(self.distance):
            # The largest spread with which an interval stops rows is a whole number, and found by halving.
            stops, waits = np.full(len(distance), -1.0), np.full(len(distance), 2.0**31)
            while (waits - stops > 1).any():
                middle = np.floor((stops + waits) / 2)
                margin = self._margin(at, distance, middle)
                may_stop = np.where(distance > 0, margin >= thresholds.upper[at], margin <= thresholds.lower[at])
                may_stop &= distance != 0
                stops, waits = np.where(may_stop, middle, stops), np.where(may_stop, waits, middle)
            limits.append(stops)
        return self.fit.with_limits(limits)


def decision_fit(leaves: Leaves, fit: PrefixFit, threshold: float) -> DecisionFit:
    """Return the margins of a prefix fit; rows with scores from `threshold` on belong to the second class."""
    lanes = prefix_lanes(leaves, fit, with_spread=True)
    unit = float(lanes.scale[0])
    # Estimates so close to the decision could round to the other side.
    closest = max(4.0 * float(np.spacing(np.float32(abs(threshold)))), 2.0 * unit)
    edges, distances = [], []
    for at in range(len(fit.sentinels)):
        sigma = max(float(fit.sigma[at]), closest)
        beyond = np.maximum(_DISTANCES * sigma, closest)
        above = np.ceil((threshold + beyond - lanes.offset[at]) / unit)
        below = np.floor((threshold - beyond - lanes.offset[at]) / unit) + 1
        # Where units are so coarse that intervals begin together, the farthest is left.
        kept = [np.append(np.diff(each) != 0, True) for each in (below, above)]
        ends = np.concatenate([below[kept[0]][::-1], above[kept[1]]])
        edges.append(np.clip(ends, -(2**31) + 1, 2**31 - 1).astype(np.int64))
        distances.append(np.concatenate([-_DISTANCES[kept[0]][::-1], [0.0], _DISTANCES[kept[1]]]))
    return DecisionFit(fit=replace(lanes, edges=edges), distance=distances, unit=spread_unit(leaves, fit))


def increments(margins: FloatArray, decisions: NDArray[np.bool_]) -> FloatArray:
    """Return what each sentinel adds to the margin, and last what is missing to that of the full score: 1 or -1.

    Parameters
    ----------
    margins : float64 array of shape (n_sentinels, n_rows)
    decisions : bool array of shape (n_rows,)

    Returns
    -------
    float64 array of shape (n_rows, n_sentinels + 1)
    """
    full = np.where(decisions, 1.0, -1.0)
    return np.diff(np.vstack([np.zeros_like(full), margins, full]), axis=0).T


def equal_margins(n_sentinels: int, margin: float, costs: FloatArray, *, negative_only: bool) -> MarginFit:
    """Return the thresholds that stop rows at the same margin at every sentinel."""
    return MarginFit(
        order=np.arange(n_sentinels + 1),
        lower=np.full(n_sentinels, -margin),
        upper=np.full(n_sentinels, np.inf if negative_only else margin),
        costs=costs,
        decision_threshold=0.0,
        step=MARGIN_STEP,
        spread=1.0,
        n_rows=0,
    )


CAUTIONS = np.geomspace(8.0, 0.25, 121)
_N_BINS = 64
_PRIOR_TREES = 2.0
_GAP = 0.15  # between sentinels, of the trees before
_LEAST_SLOPE = 0.08  # of the largest: where a link is flat, an error in the score could hide there and grow elsewhere


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueFamily:
    """Rules that differ in their caution alone.

    Attributes
    ----------
    fit : SentinelFit
        Without limits.
    room : list of n_sentinels float64 arrays
        The limit of the spread in each interval at a caution of 1, with `known` added.
    known : float64 array of shape (n_sentinels,)
        What is added to every spread.
    """

    fit: SentinelFit
    room: list[FloatArray]
    known: FloatArray

    def limits(self, caution: float) -> list[FloatArray]:
        """Return the limits of the member with this caution."""
        return [room / caution**2 - known for room, known in zip(self.room, self.known, strict=True)]

    def keep_first(self, n: int) -> Self:
        """Return the family with the first sentinels only."""
        return replace(self, fit=self.fit.keep(np.arange(n)), room=self.room[:n], known=self.known[:n])

    def member(self, caution: float) -> SentinelFit:
        """Return the rule with this caution."""
        return replace(self.fit, limits=self.limits(caution))

    def count(
        self,
        nodes: NDArray[np.integer],
        full: FloatArray,
        is_far: Callable[[FloatArray, FloatArray], NDArray[np.bool_]],
        cautions: FloatArray = CAUTIONS,
    ) -> NDArray[np.int64]:
        """Count, for each caution, the rows that stop at each sentinel, those that do not, and those answered wrongly.

        Parameters
        ----------
        nodes : int array of shape (n_rows, n_trees)
            The leaf that each row reaches in each tree.
        full : float64 array of shape (n_rows,)
            Full scores.
        is_far : callable
            Says which estimates are too far from which full scores.
        cautions : float64 array of shape (n_cautions,)

        Returns
        -------
        int64 array of shape (n_cautions, n_sentinels + 2)
        """
        n_sentinels = len(self.fit.sentinels)
        counts = np.zeros((len(cautions), n_sentinels + 2), np.int64)
        runs = np.ones((len(cautions), len(nodes)), np.bool_)
        limits = [self.limits(float(caution)) for caution in cautions]
        for at, (total, spread) in enumerate(self.fit.sums(nodes)):
            interval = np.searchsorted(self.fit.edges[at], total, side="right")
            stops = runs & (spread <= np.stack([limit[at] for limit in limits])[:, interval])
            runs &= ~stops
            counts[:, at] = stops.sum(axis=1)
            counts[:, -1] += stops[:, is_far(self.fit.estimate(at, total), full)].sum(axis=1)
        counts[:, n_sentinels] = runs.sum(axis=1)
        return counts


def prefix_family(
    leaves: Leaves,
    fit: PrefixFit,
    max_error: float,
    *,
    link: Callable[[FloatArray], FloatArray] | None = None,
    scores: FloatArray | None = None,
) -> ValueFamily:
    """Return the family of a prefix fit.

    Parameters
    ----------
    leaves : Leaves
    fit : PrefixFit
    max_error : float
        How far an estimate may be from the full value.
    link : callable, optional
        Turns scores into the values that `max_error` is about. None: they are the values.
    scores : float64 array of shape (n_rows,), optional
        Some full scores, with a link: they say where its slope matters.

    Returns
    -------
    ValueFamily
    """
    lanes = prefix_lanes(leaves, fit, with_spread=True)
    unit = spread_unit(leaves, fit)
    # A sentinel whose estimates never missed still knows no more than the one before a rounding error.
    sigma = np.maximum(fit.sigma, 1e-12 * max(float(fit.sigma.max(initial=0.0)), np.finfo(np.float64).tiny))
    room = fit.sentinels * (max_error / sigma) ** 2 / unit
    edges, slope = _link_bins(link, scores)
    cuts = [
        np.unique(np.ceil((edges - lanes.offset[at]) / lanes.scale[at])).astype(np.int64) for at in range(len(room))
    ]
    if any(len(cut) != len(edges) for cut in cuts):  # bins finer than the integers: as good as no bins
        cuts, slope = [np.empty(0, np.int64)] * len(room), slope.max(keepdims=True)
    return ValueFamily(
        fit=replace(lanes, edges=cuts),
        room=[each / slope**2 for each in room],
        known=np.zeros(len(room)),
    )


def _link_bins(
    link: Callable[[FloatArray], FloatArray] | None, scores: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return edges between bins of the score, and the slope of the link in each bin."""
    if link is None or scores is None or np.ptp(scores) == 0:
        return np.empty(0), np.ones(1)
    first, last = np.quantile(scores, [0.001, 0.999]).tolist()
    edges = np.linspace(first, last, _N_BINS - 1)
    width = edges[1] - edges[0] if len(edges) > 1 else 1.0
    if not width > 0:
        return np.empty(0), np.ones(1)
    middle = np.concatenate([[edges[0] - width / 2], edges + width / 2])
    slope = np.abs(link(middle + width / 2) - link(middle - width / 2)) / width
    return edges, np.maximum(slope, max(_LEAST_SLOPE * slope.max(), np.finfo(np.float64).tiny))


def spaced_sentinels(n_trees: int) -> NDArray[np.int64]:
    """Return sentinels for trees that are averaged: after the second, and ever further apart.

    A test takes as long as a small tree. Rows that are tested less often evaluate a few trees in vain, but have fewer
    chances to stop by mistake, so that the rule may be bolder: they need no more trees than with a test after each.

    Examples
    --------
    >>> spaced_sentinels(60).tolist()
    [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 21, 24, 28, 32, 37, 43, 49, 56]
    """
    sentinels = [2]
    while (following := max(sentinels[-1] + 1, round(sentinels[-1] * (1 + _GAP)))) < n_trees:
        sentinels.append(following)
    return np.array([at for at in sentinels if at < n_trees], np.int64)


def mean_family(
    values: FloatArray,
    nodes: NDArray[np.integer],
    target: FloatArray,
    max_error: float,
    sentinels: NDArray[np.int64] | None = None,
) -> ValueFamily:
    """Return the family for trees that are averaged.

    Parameters
    ----------
    values : float64 array of shape (n_nodes,)
        What each node, as a leaf, answers.
    nodes : int array of shape (n_rows, n_trees)
        The leaf that each fitting row reaches in each tree.
    target : float64 array of shape (n_rows,)
        The full model's value of each fitting row.
    max_error : float
        How far an estimate may be from the full value.
    sentinels : int64 array of shape (n_sentinels,), optional
        Rising numbers of trees, at least 2; `spaced_sentinels` by default.

    Returns
    -------
    ValueFamily
    """
    n_rows, n_trees = nodes.shape
    sentinels = spaced_sentinels(n_trees) if sentinels is None else sentinels
    lines: list[tuple[float, float]] = []
    total, squares = np.zeros(n_rows), np.zeros(n_rows)
    for tree in range(n_trees):
        seen = values[nodes[:, tree]]
        total += seen
        squares += seen * seen
        if len(lines) < len(sentinels) and tree + 1 == sentinels[len(lines)]:
            lines.append(fit_line(total / (tree + 1), target))
    slope, intercept = np.array(lines).reshape(-1, 2).T
    variance = float(np.maximum(squares - total * total / n_trees, 0.0).mean()) / max(n_trees - 1, 1)
    unit, square_unit = (
        power_unit(float(np.abs(each).max(initial=0.0)), n_trees) for each in (values, values * values)
    )
    lanes = np.stack([np.rint(values / unit), np.rint(values * values / square_unit)], axis=1)
    room = (max_error**2 * (_PRIOR_TREES + sentinels)) / (1.0 / sentinels - 1.0 / n_trees) / square_unit
    fit = SentinelFit(
        order=np.arange(n_trees),
        sentinels=sentinels,
        lanes=lanes.astype(np.int32),
        lane=np.zeros(len(sentinels), np.int64),
        scale=slope * unit / sentinels,
        offset=intercept,
        spread_lane=1,
        square=unit**2 / square_unit / sentinels,
        edges=[np.empty(0, np.int64)] * len(sentinels),
        limits=[np.full(1, -np.inf)] * len(sentinels),
    )
    known = np.full(len(sentinels), _PRIOR_TREES * variance / square_unit)
    return ValueFamily(fit=fit, room=[np.full(1, each) for each in room], known=known)
