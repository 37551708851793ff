"""Families of rules that stop once an estimate is close enough to the full value, from cautious to bold.

All members stop a row where ``caution`` times its expected error is at most the error that is allowed. They differ in
the caution alone, so that rows which fitted nothing can choose it (`scurry.stopping.guarantee`).

Boosted trees: the expected squared error after ``K`` trees is ``sigma[j] ** 2`` times the mean spread of the row's
leaves (`scurry.stopping.sentinels.prefix`). Where scores pass a link, it is multiplied by the slope of the link at the
estimate, in bins.

Trees that are averaged: after ``r`` of ``T`` trees with the values ``v``, what the others add is unknown by a variance
of ``s2 * (1 / r - 1 / T)``, where ``s2`` is the variance between trees of this row: what was seen so far, with
`_PRIOR_TREES` more trees that have the variance of other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.sentinels.lanes import SentinelFit, power_unit, prefix_lanes, spread_unit
from scurry.stopping.sentinels.leaves import FloatArray, Leaves
from scurry.stopping.sentinels.prefix import PrefixFit, fit_line

CAUTIONS = np.geomspace(8.0, 0.25, 121)
_N_BINS = 64
_PRIOR_TREES = 2.0
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


def mean_family(values: FloatArray, nodes: NDArray[np.integer], target: FloatArray, max_error: float) -> ValueFamily:
    """Return the family for trees that are averaged, with a sentinel after every tree from the second on.

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

    Returns
    -------
    ValueFamily
    """
    n_rows, n_trees = nodes.shape
    sentinels = np.arange(2, n_trees)
    slope, intercept = np.ones(len(sentinels)), np.zeros(len(sentinels))
    total, squares = np.zeros(n_rows), np.zeros(n_rows)
    for tree in range(n_trees):
        seen = values[nodes[:, tree]]
        total += seen
        squares += seen * seen
        if 2 <= tree + 1 < n_trees:
            slope[tree - 1], intercept[tree - 1] = fit_line(total / (tree + 1), target)
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
