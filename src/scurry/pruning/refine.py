"""Good prunings between two optimal ones.

A trade-off reaches only vertices of the lower hull, and between two of them the cost can fall by half. Inside such a
jump two heuristics compete. One drops all splits on a feature at a time, the one that is worth least at the jump's own
trade-off or, in a second try, the one that gains least. The other drops splits tree by tree, the least gain for the
most cost first, where an item's cost is shared evenly by the splits that still buy it. What the budget has left is
spent on splits at their full remaining price. Nothing here is optimal; the hull says how far from it the result can be
at most.

Families of splits that read the same feature, or the same group of features, and what goes if one of them goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.pruning.problem import PruningProblem, Stretch

_DROPPED_PER_ROUND = 0.25  # of what is to go
_LEAST_PER_ROUND = 0.005  # of everything
_MAX_RETURNS = 3


def within_cost(stretch: Stretch, members: NDArray[np.bool_], max_cost: int) -> NDArray[np.bool_]:
    """Splits that cost at most `max_cost` units and gain much.

    Parameters
    ----------
    stretch : Stretch
    members : bool array of shape (n_splits, n_families)
        Splits that may be dropped together; see `families`.
    max_cost : int

    Returns
    -------
    bool array of shape (n_splits,)
        Closed under parents.
    """
    starts = [np.ones(stretch.n_splits, np.bool_)]
    for descent in _descents(stretch, members):
        # The last one that is too dear, and the first one that is not.
        starts += next(pair for pair in pairwise(descent) if stretch.cost_of(pair[1]) <= max_cost)
    return max((_lowered(stretch, kept, max_cost) for kept in starts), key=stretch.gain_of)


def within_error(stretch: Stretch, members: NDArray[np.bool_], min_gain: int) -> NDArray[np.bool_]:
    """Splits that gain at least `min_gain` units and cost little.

    Parameters
    ----------
    stretch : Stretch
        All of it gains enough.
    members : bool array of shape (n_splits, n_families)
    min_gain : int

    Returns
    -------
    bool array of shape (n_splits,)
        Closed under parents.
    """
    starts = [np.ones(stretch.n_splits, np.bool_)]
    for descent in _descents(stretch, members):
        *_, last = takewhile(lambda kept: stretch.gain_of(kept) >= min_gain, descent)
        starts.append(last)
    return min((_thinned(stretch, kept, min_gain) for kept in starts), key=stretch.cost_of)


def _descents(stretch: Stretch, members: NDArray[np.bool_]) -> list[Iterator[NDArray[np.bool_]]]:
    """Ways to drop one family after the other: by worth at the jump's own trade-off, and by gain alone."""
    drops = FamilyDrops(stretch, members)
    whole = np.ones(stretch.n_splits, np.bool_)
    return [_without_families(drops, theta) for theta in (stretch.gain_of(whole) / stretch.cost_of(whole), 0.0)]


def _without_families(drops: FamilyDrops, theta: float) -> Iterator[NDArray[np.bool_]]:
    """Everything, and what is left after each family dropped."""
    kept = np.ones(drops.stretch.n_splits, np.bool_)
    yield kept
    while kept.any():
        kept = drops.drop(kept, int(np.argmin(drops.losses(kept, theta))))
        yield kept


def _lowered(stretch: Stretch, kept: NDArray[np.bool_], max_cost: int) -> NDArray[np.bool_]:
    """Drop splits until the rest is affordable, then bring back what fits."""
    kept = kept.copy()
    least = _LEAST_PER_ROUND * stretch.cost_of(kept)
    while (excess := stretch.cost_of(kept) - max_cost) > 0:
        price = _shared_price(stretch, kept)
        to_go = max(_DROPPED_PER_ROUND * excess, least)
        kept &= ~_lowest(_levels(stretch, kept, price), price, to_go, at_least=True)
    for _ in range(_MAX_RETURNS):
        if not _bring_back(stretch, kept, max_cost - stretch.cost_of(kept)):
            break
    return kept


def _thinned(stretch: Stretch, kept: NDArray[np.bool_], min_gain: int) -> NDArray[np.bool_]:
    """Drop splits while the rest gains enough."""
    kept = kept.copy()
    gain = stretch.gain.astype(np.float64)
    least = _LEAST_PER_ROUND * stretch.gain_of(kept)
    while kept.any():
        spare = stretch.gain_of(kept) - min_gain
        level = _levels(stretch, kept, _shared_price(stretch, kept))
        gone = _lowest(level, gain, min(max(_DROPPED_PER_ROUND * spare, least), spare), at_least=False)
        if not gone.any():
            gone = _lowest(level, gain, spare, at_least=False)
        if not gone.any():
            break
        kept &= ~gone
    return kept


def _bring_back(stretch: Stretch, kept: NDArray[np.bool_], budget: float) -> bool:
    """Add to `kept` what the budget affords of the splits left out, best gain per price first; whether any was."""
    price = _full_price(stretch, kept)
    level = _levels(stretch, ~kept, price)
    # Splits of one level that hang together come back together.
    parent, own = stretch.parent, np.arange(stretch.n_splits)
    top = np.where((parent >= 0) & ~kept & ~kept[parent] & (level == level[parent]), parent, own)
    while (top[top] != top).any():
        top = top[top]
    whole_price = np.bincount(top, price, len(top))
    candidates = np.flatnonzero(~kept & (top == own) & (level > 0) & (whole_price <= budget))
    chosen = np.zeros(len(top), np.bool_)
    for block in candidates[np.argsort(-level[candidates], kind="stable")].tolist():
        above = parent[block]
        if whole_price[block] <= budget and (above < 0 or kept[above] or chosen[top[above]]):
            chosen[block] = True
            budget -= whole_price[block]
    kept |= chosen[top]
    return bool(chosen.any())


def _shared_price(stretch: Stretch, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each kept split costs where buyers share."""
    buys = kept[stretch.item_node]
    n_buyers = np.bincount(stretch.item_of_purchase[buys], minlength=len(stretch.item_cost))
    share = stretch.item_cost / np.maximum(n_buyers, 1)
    shared = np.bincount(stretch.item_node[buys], share[stretch.item_of_purchase[buys]], stretch.n_splits)
    return np.where(kept, stretch.cost + shared, 0.0)


def _full_price(stretch: Stretch, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each other split would cost if it alone were added."""
    new = ~stretch.bought(kept)[stretch.item_of_purchase]
    price = stretch.item_cost[stretch.item_of_purchase[new]].astype(np.float64)
    return np.where(kept, 0.0, stretch.cost + np.bincount(stretch.item_node[new], price, stretch.n_splits))


def _levels(stretch: Stretch, part: NDArray[np.bool_], price: NDArray[np.float64]) -> NDArray[np.float64]:
    """The price up to which each split of a part is worth keeping in its tree; infinite elsewhere."""
    index = np.append(np.where(part, np.cumsum(part) - 1, -1), -1).astype(np.int32)
    level = np.full(stretch.n_splits, np.inf)
    level[part] = _core.tree_levels(index[stretch.parent[part]], stretch.gain[part].astype(np.float64), price[part])
    return level


def _lowest(
    level: NDArray[np.float64], weight: NDArray[np.float64], amount: float, *, at_least: bool
) -> NDArray[np.bool_]:
    """The splits of lowest level, infinite ones left out, that together weigh at least or at most `amount`."""
    distinct, group = np.unique(level, return_inverse=True)
    total = np.maximum.accumulate(np.cumsum(np.bincount(group, weight)))
    n_groups = np.searchsorted(total, amount) + 1 if at_least else np.searchsorted(total, amount, side="right")
    return group < min(int(n_groups), int(np.sum(distinct < np.inf)))


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
