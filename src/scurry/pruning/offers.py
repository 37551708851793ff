"""Offers: forests to choose from by budget, judged on validation rows.

The error of the pruning objective is a mean over trees. What a user gets is the answer of all trees together, and on
rows that no tree has seen: there, a forest may cost more than another and be no better. Such a forest is not offered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest

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
            f"Offers({len(self)} forests, cost per row {first.cost:.4g} to {last.cost:.4g}, error {first.error:.4g} to "
            f"{last.error:.4g})"
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


def advise(single_label: Any, forest: Forest, *, is_searched: bool = False) -> str:
    """Return what to do about a forest that gives all rows one answer.

    `is_searched` says that forests of several kinds were compared already.
    """
    if not forest.is_classifier:
        return f"it answers {single_label:g} for every validation row. Allow a higher cost"
    answers = f"it answers {single_label!r} for every validation row. Allow a higher cost"
    weigh = 'weigh errors (class_weight="balanced" or error_costs)'
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
