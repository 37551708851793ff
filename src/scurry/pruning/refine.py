"""Find good prunings between two optimal ones.

A trade-off reaches only vertices of the lower hull, and between two of them the cost can fall by half. Two heuristics
compete there. One drops all splits on a feature at a time: the feature that is worth least at the trade-off where the
two vertices meet or, in a second try, the one that gains least. The other drops splits tree by tree, the least gain for
the most cost first; there, the splits that still buy an item share its cost evenly. What is left of the budget is spent
on splits at their full remaining price. Nothing here is optimal: the hull bounds how far from it the result can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.pruning.problem import ClosureProblem, PruningProblem

# Prices change as splits go, so only a part goes before they are computed again: exact enough, and few rounds.
_DROPPED_PER_ROUND = 0.25  # of what is to go
_LEAST_PER_ROUND = 0.005  # of everything
_MAX_RETURNS = 3  # rounds that spend the rest of a budget; what comes back lowers prices for the next


def within_cost(
    problem: PruningProblem, inner: NDArray[np.bool_], outer: NDArray[np.bool_], max_cost: int
) -> NDArray[np.bool_]:
    """Return a pruning between two others that gains much within a cost.

    Parameters
    ----------
    problem : PruningProblem
    inner, outer : bool arrays of shape (n_splits,)
        Prunings of which the first keeps a part of the second; `inner` is within the cost.
    max_cost : int
        In units.

    Returns
    -------
    bool array of shape (n_splits,)
    """
    closure, spare = problem.closure.between(inner, outer), max_cost - problem.closure.cost_of(inner)
    starts = [np.ones(closure.n_nodes, np.bool_)]
    for descent in _descents(problem, closure, outer & ~inner):
        # The last one that is too expensive, and the first one that is not.
        starts += next(pair for pair in pairwise(descent) if closure.cost_of(pair[1]) <= spare)
    added = max((_lower_cost(closure, kept, spare) for kept in starts), key=closure.gain_of)
    return _add(inner, outer, added)


def within_error(
    problem: PruningProblem, inner: NDArray[np.bool_], outer: NDArray[np.bool_], min_gain: int
) -> NDArray[np.bool_]:
    """Return a pruning between two others that costs little and gains enough.

    Parameters
    ----------
    problem : PruningProblem
    inner, outer : bool arrays of shape (n_splits,)
        Prunings of which the first keeps a part of the second; `outer` gains enough.
    min_gain : int
        In units.

    Returns
    -------
    bool array of shape (n_splits,)
    """
    closure, needed = problem.closure.between(inner, outer), min_gain - problem.closure.gain_of(inner)
    starts = [np.ones(closure.n_nodes, np.bool_)]
    for descent in _descents(problem, closure, outer & ~inner):
        *_, last = takewhile(lambda kept: closure.gain_of(kept) >= needed, descent)
        starts.append(last)
    added = min((_thin_out(closure, kept, needed) for kept in starts), key=closure.cost_of)
    return _add(inner, outer, added)


def families(problem: PruningProblem) -> NDArray[np.bool_]:
    """Return which splits read each feature in use, and any feature of each group that has a cost.

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
    """What happens to a closure when a family of nodes is dropped, with everything below them.

    Parameters
    ----------
    closure : ClosureProblem
    members : bool array of shape (n_nodes, n_families)
    """

    def __init__(self, closure: ClosureProblem, members: NDArray[np.bool_]) -> None:
        self.closure = closure
        self.goes_with = members.copy()
        # A node goes with every family of a node above it: level by level from the top.
        known = closure.parent < 0
        while len(nodes := np.flatnonzero(~known & known[closure.parent])):
            self.goes_with[nodes] |= self.goes_with[closure.parent[nodes]]
            known[nodes] = True
        # The core wants a bit for each family, in words of 64.
        n_nodes, self.n_families = members.shape
        padded = np.zeros((n_nodes, -(-self.n_families // 64) * 64), np.bool_)
        padded[:, : self.n_families] = self.goes_with
        self.bits = np.packbits(padded, axis=1, bitorder="little").view(np.uint64).ravel()

    def losses(self, kept: NDArray[np.bool_], theta: float) -> NDArray[np.float64]:
        """Return what dropping each family takes from gain - theta * cost; infinite for families that are gone.

        Parameters
        ----------
        kept : bool array of shape (n_nodes,)
        theta : float

        Returns
        -------
        float64 array of shape (n_families,)
        """
        closure = self.closure
        items = closure.item_offset, closure.item_node, closure.item_cost
        saved = _core.family_savings(*items, kept.view(np.uint8), self.bits, self.n_families)
        goes = self.goes_with[kept]
        lost = (closure.gain[kept] - theta * closure.cost[kept]) @ goes - theta * saved
        return np.where(goes.any(axis=0), lost, np.inf)

    def rounds(self, theta: float) -> Iterator[tuple[NDArray[np.bool_], float]]:
        """Drop the family of least loss again and again.

        Parameters
        ----------
        theta : float

        Yields
        ------
        kept : bool array of shape (n_nodes,)
            First everything, last nothing.
        lost : float
            What has been taken from gain - theta * cost so far.
        """
        kept, lost = np.ones(self.closure.n_nodes, np.bool_), 0.0
        yield kept, lost
        while kept.any():
            losses = self.losses(kept, theta)
            family = int(np.argmin(losses))
            kept = kept & ~self.goes_with[:, family]
            lost += losses[family]
            yield kept, lost


def _descents(
    problem: PruningProblem, closure: ClosureProblem, free: NDArray[np.bool_]
) -> list[Iterator[NDArray[np.bool_]]]:
    """Return ways to drop one family after the other: by worth where both prunings are equal, and by gain alone."""
    drops = FamilyDrops(closure, families(problem)[free])
    everything = np.ones(closure.n_nodes, np.bool_)
    thetas = closure.gain_of(everything) / closure.cost_of(everything), 0.0
    return [(kept for kept, _ in drops.rounds(theta)) for theta in thetas]


def _add(inner: NDArray[np.bool_], outer: NDArray[np.bool_], added: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the inner pruning with some of the splits between it and the outer one."""
    kept = inner.copy()
    kept[outer & ~inner] = added
    return kept


def _lower_cost(closure: ClosureProblem, kept: NDArray[np.bool_], max_cost: int) -> NDArray[np.bool_]:
    """Drop nodes until the rest is affordable, then bring back what fits."""
    kept = kept.copy()
    least = _LEAST_PER_ROUND * closure.cost_of(kept)
    while (excess := closure.cost_of(kept) - max_cost) > 0:
        price = _shared_price(closure, kept)
        to_go = max(_DROPPED_PER_ROUND * excess, least)
        kept &= ~_lowest(_levels(closure, kept, price), price, to_go, at_least=True)
    for _ in range(_MAX_RETURNS):
        if not _bring_back(closure, kept, max_cost - closure.cost_of(kept)):
            break
    return kept


def _thin_out(closure: ClosureProblem, kept: NDArray[np.bool_], min_gain: int) -> NDArray[np.bool_]:
    """Drop nodes while the rest gains enough."""
    kept = kept.copy()
    gain = closure.gain.astype(np.float64)
    least = _LEAST_PER_ROUND * closure.gain_of(kept)
    while kept.any():
        spare = closure.gain_of(kept) - min_gain
        level = _levels(closure, kept, _shared_price(closure, kept))
        gone = _lowest(level, gain, min(max(_DROPPED_PER_ROUND * spare, least), spare), at_least=False)
        if not gone.any():
            # The cheapest group gains more than one round's part; it may still fit into all that is spare.
            gone = _lowest(level, gain, spare, at_least=False)
        if not gone.any():
            break
        kept &= ~gone
    return kept


def _bring_back(closure: ClosureProblem, kept: NDArray[np.bool_], budget: float) -> bool:
    """Add to `kept` what the budget affords of the nodes left out, best gain per price first; return whether any."""
    # The full price, as if each node were added alone: a sum of these never underestimates.
    new = ~closure.items_of(kept)[closure.item_of_purchase]
    item_price = closure.item_cost[closure.item_of_purchase[new]].astype(np.float64)
    price = np.where(kept, 0.0, closure.cost + np.bincount(closure.item_node[new], item_price, closure.n_nodes))
    level = _levels(closure, ~kept, price)
    # Nodes of one level that hang together come back together.
    parent, own = closure.parent, np.arange(closure.n_nodes)
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


def _shared_price(closure: ClosureProblem, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return what each kept node costs if all nodes that buy an item share its cost."""
    buys = kept[closure.item_node]
    n_purchases = np.bincount(closure.item_of_purchase[buys], minlength=closure.n_items)
    share = closure.item_cost / np.maximum(n_purchases, 1)
    shared = np.bincount(closure.item_node[buys], share[closure.item_of_purchase[buys]], closure.n_nodes)
    return np.where(kept, closure.cost + shared, 0.0)


def _levels(closure: ClosureProblem, part: NDArray[np.bool_], price: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the theta up to which each node of a part is worth keeping in its tree; infinite elsewhere."""
    index = np.append(np.where(part, np.cumsum(part) - 1, -1), -1).astype(np.int32)
    level = np.full(closure.n_nodes, np.inf)
    level[part] = _core.tree_levels(index[closure.parent[part]], closure.gain[part].astype(np.float64), price[part])
    return level


def _lowest(
    level: NDArray[np.float64], weight: NDArray[np.float64], amount: float, *, at_least: bool
) -> NDArray[np.bool_]:
    """Return the nodes of lowest level, infinite ones left out, that together weigh at least or at most `amount`."""
    distinct, group = np.unique(level, return_inverse=True)
    # Gains can be negative; with running maxima the search below still finds the first group that is enough.
    total = np.maximum.accumulate(np.cumsum(np.bincount(group, weight)))
    n_groups = np.searchsorted(total, amount) + 1 if at_least else np.searchsorted(total, amount, side="right")
    return group < min(int(n_groups), int(np.sum(distinct < np.inf)))
