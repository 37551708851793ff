"""Find good prunings between two optimal ones.

A trade-off reaches only vertices of the lower hull, and between two of them the cost can fall by half. Two heuristics
compete there. One drops all splits on a feature at a time: the feature that is worth least at the trade-off where the
two vertices meet or, in a second try, the one that gains least. The other drops splits tree by tree, the least gain for
the most cost first; there, the splits that still buy an item share its cost evenly. What is left of the budget is spent
on splits at their full remaining price. Nothing here is optimal: the hull bounds how far from it the result can be.

Offers are forests to choose from by budget, judged on validation rows. The error of the pruning objective is a mean
over trees. What a user gets is the answer of all trees together, and on rows that no tree has seen: there, a forest may
cost more than another and be no better. Such a forest is not offered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
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


_TOLERANCE = 1e-12  # relative: a budget copied from a cost must reach the forest it came from


@dataclass(frozen=True, eq=False)
class Offer:
    """A forest, and what it was measured to cost and to get wrong on validation rows.

    Attributes
    ----------
    forest : Forest
    name : str
        Where it comes from.
    cost : float
        Mean cost of a validation row.
    error : float
        The weighted share of wrong answers, or their mean cost if `error_costs` were given; of a regressor, the mean
        squared error.
    recalls : float64 array of shape (n_classes,)
        The share of each class's rows that are found; NaN for a class without rows.
    single_label : label, value or None
        The answer that every validation row gets; None if there are several.
    """

    forest: Forest = field(repr=False)
    name: str
    cost: float
    error: float
    recalls: NDArray[np.float64] = field(repr=False)
    single_label: Any = None

    @property
    def found(self) -> str:
        """The share of each class's rows that are found, as a text."""
        shares = zip((_label(self.forest, code) for code in range(len(self.recalls))), self.recalls, strict=True)
        return ", ".join(f"{label}: {recall:.1%}" for label, recall in shares if recall >= 0)


@dataclass(frozen=True, eq=False)
class Tally:
    """What a forest answered to some rows and what they paid; tallies of several sets of rows add up.

    Attributes
    ----------
    confusion : int64 array of shape (n_classes, n_classes)
        How many rows of each class, by row, got each answer, by column.
    total_cost : float
    """

    confusion: NDArray[np.int64]
    total_cost: float

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.confusion + other.confusion, self.total_cost + other.total_cost)

    @property
    def mean_cost(self) -> float:
        """Mean cost of a row."""
        return self.total_cost / max(int(self.confusion.sum()), 1)

    def offer(self, forest: Forest, name: str, error_costs: ErrorCosts, cost: float | None = None) -> Offer:
        """Return the forest with what was tallied; its `cost` may be known from more rows."""
        n_rows, answered = self.confusion.sum(axis=1), self.confusion.any(axis=0)
        recalls = np.full(len(n_rows), np.nan)
        recalls[n_rows > 0] = self.confusion.diagonal()[n_rows > 0] / n_rows[n_rows > 0]
        return Offer(
            forest=forest,
            name=name,
            cost=self.mean_cost if cost is None else cost,
            error=error_costs.mean_cost(self.confusion),
            recalls=recalls,
            single_label=_label(forest, int(answered.argmax())) if answered.sum() == 1 else None,
        )


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Rows that forests are judged on.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    truth : array of shape (n_rows,), or None
        The class of each row as an index, or a regressor's target, where it is known.
    feature_costs : FeatureCosts
    error_costs : ErrorCosts
    """

    rows: NDArray[Any] = field(repr=False)
    truth: NDArray[Any] | None = field(repr=False)
    feature_costs: FeatureCosts
    error_costs: ErrorCosts

    def single_label(self, forest: Forest) -> Any:
        """Return the answer that every row gets, or None."""
        answers = forest.predict(self.rows)
        return _plain(answers[0]) if len(answers) and (answers == answers[0]).all() else None

    def tally(self, forest: Forest) -> Tally:
        """Count what a classifier answers, by the true class; labels must be known."""
        truth = self._known_truth()
        confusion = np.zeros((forest.n_classes, forest.n_classes), np.int64)
        np.add.at(confusion, (truth, forest.codes_of(forest.predict(self.rows))), 1)
        return Tally(confusion, float(self.feature_costs.of_rows(forest, self.rows).sum()))

    def judge(self, forest: Forest, name: str) -> Offer:
        """Return what a forest costs and gets wrong; labels or targets must be known."""
        if forest.is_classifier:
            return self.tally(forest).offer(forest, name, self.error_costs)
        errors = forest.predict(self.rows) - self._known_truth()
        cost = float(self.feature_costs.of_rows(forest, self.rows).mean())
        return Offer(
            forest, name, cost, float(np.mean(errors * errors)), np.empty(0), single_label=self.single_label(forest)
        )

    def _known_truth(self) -> NDArray[Any]:
        if self.truth is None:
            raise InputError("forests are judged by labels; pass y_val to scurry.prune", argument="y_val")
        return self.truth


class Offers(Sequence[Offer]):
    """Forests by rising cost. Each is better on the validation rows than every cheaper one.

    Parameters
    ----------
    measured : iterable of Offer
        Those that cost more than another and are not better are left out.
    full : Forest
        The given model before pruning, to compare with.
    feature_costs : FeatureCosts

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> offers = scurry.prune(model, X[1::2], y[1::2]).offers
    >>> bool((np.diff(offers.costs) > 0).all()), bool((np.diff(offers.errors) < 0).all())
    (True, True)
    >>> offers.at(6).cost <= 6
    True
    """

    def __init__(self, measured: Iterable[Offer], full: Forest, feature_costs: FeatureCosts) -> None:
        self.full, self.feature_costs = full, feature_costs
        self._offers: list[Offer] = []
        for offer in sorted(measured, key=lambda offer: (offer.cost, offer.error)):
            if not self._offers or offer.error < self._offers[-1].error:
                self._offers.append(offer)

    def __repr__(self) -> str:
        if not self._offers:
            return "Offers(none)"
        first, last = self._offers[0], self._offers[-1]
        return (
            f"Offers({len(self)} forests, mean cost per row {first.cost:.4g} to {last.cost:.4g}, "
            f"error {first.error:.4g} to {last.error:.4g})"
        )

    def __len__(self) -> int:
        return len(self._offers)

    @overload
    def __getitem__(self, index: int) -> Offer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Offer]: ...
    def __getitem__(self, index: int | slice) -> Offer | list[Offer]:
        return self._offers[index]

    def __iter__(self) -> Iterator[Offer]:
        return iter(self._offers)

    @property
    def costs(self) -> NDArray[np.float64]:
        """Mean cost per validation row of each."""
        return np.array([offer.cost for offer in self])

    @property
    def errors(self) -> NDArray[np.float64]:
        """Error on the validation rows of each."""
        return np.array([offer.error for offer in self])

    @property
    def hull(self) -> list[Offer]:
        """The offers on the lower hull of (cost, error): each is best for some price of an error."""
        hull: list[Offer] = []
        for offer in self:
            while len(hull) > 1 and _slope(hull[-2], offer) <= _slope(hull[-2], hull[-1]):
                hull.pop()
            hull.append(offer)
        return hull

    def with_feature_names(self, names: Sequence[str]) -> Offers:
        """Return the same offers, whose forests know the names of their features.

        Parameters
        ----------
        names : sequence of n_features str
            For reports on forests that were grown on arrays.

        Returns
        -------
        Offers
        """
        named = (replace(offer, forest=offer.forest.replace(feature_names=names)) for offer in self)
        return Offers(named, self.full.replace(feature_names=names), self.feature_costs)

    def at(self, max_cost: float) -> Offer:
        """Return the best offer within a budget.

        Parameters
        ----------
        max_cost : float
            The largest mean cost per row.

        Returns
        -------
        Offer

        Raises
        ------
        InfeasibleError
            If every offer costs more.
        """
        return self.within(max_cost)[-1]

    def within(self, max_cost: float) -> list[Offer]:
        """Return all offers within a budget, by rising cost.

        Parameters
        ----------
        max_cost : float
            The largest mean cost per row.

        Returns
        -------
        list of Offer

        Raises
        ------
        InfeasibleError
            If every offer costs more.
        """
        n_within = bisect_right(self.costs.tolist(), max_cost + abs(max_cost) * _TOLERANCE)
        if not n_within:
            least = float(self._offers[0].cost)
            raise InfeasibleError(f"no forest costs {max_cost:g} or less; the cheapest costs {least:g}", least)
        return self._offers[:n_within]


def advise(
    single_label: Any, forest: Forest, error_costs: ErrorCosts | None = None, *, is_searched: bool = False
) -> str:
    """Return what to do about a forest that gives all rows one answer.

    `error_costs` are those that errors were weighed by; `is_searched` says that forests of several kinds were compared
    already.
    """
    if not forest.is_classifier:
        return f"it answers {single_label:g} for every validation row. Allow a higher cost"
    answers = f"it answers {single_label!r} for every validation row. Allow a higher cost"
    weigh = 'weigh errors (class_weight="balanced" or error_costs)'
    if error_costs is not None and error_costs.is_weighed:
        weigh = "weigh errors on the other classes more"
    if is_searched:
        return f"{answers}, or {weigh}"
    return (
        f"{answers}, {weigh}, prune a forest with a larger max_features, or let scurry.FeatureBudgetClassifier look "
        "for a forest"
    )


def _slope(cheap: Offer, expensive: Offer) -> float:
    return (expensive.error - cheap.error) / (expensive.cost - cheap.cost)


def _label(forest: Forest, code: int) -> Any:
    return _plain(np.asarray(forest.classes)[code])


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
