"""FeatureBudgetClassifier: find a forest whose features cost little.

Every candidate is pruned exactly, and rows that did not grow it decide.

With enough rows, a part of them judges forests grown on the others. With few rows such a judgement is mostly chance, so
every row takes its turn: candidates are grown and pruned in folds, and the answers to the rows left out are tallied by
candidate and budget. What is offered is then grown on all rows.

No way to grow is best for all data. On rare classes and few strong features a small tree is hard to beat; where many
weak features add up, a forest is, and which `max_features` suits pruning depends on the prices. So some of each kind
are grown on the same rows, next to the estimator that was given:

=========================  ==========================================================================================
kind                       what differs
=========================  ==========================================================================================
single trees               depth 2 to 6, with and without class weights
random forests             depth 4 and 8; all features, half of them, or their square root at each split
forests on fewer features  the features of least importance per price are dropped, a quarter at a time
BudgetRF                   both impurities of `scurry.growing.BudgetedForestClassifier`
GreedyMiser                what a unit of cost weighs; boosted trees, which are not pruned
=========================  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from scurry.checks import Progress, check_choice, check_count, check_progress, is_number
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InputError, UnsupportedModelError, warn
from scurry.estimators.base import BudgetedClassifier, Train
from scurry.forest import Forest
from scurry.growing import BudgetedForestClassifier, GreedyMiserClassifier
from scurry.importers import from_model
from scurry.predictor import Predictor
from scurry.promises import BudgetMeasurement, Certificate, Cost, read_promise
from scurry.pruning.cost_promise import Candidate, certify_cost
from scurry.pruning.methods import solve
from scurry.pruning.node_errors import class_counts, weigh_counts
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import RowCharges, pose
from scurry.pruning.refine import Offer, Offers, Tally, ValidationRows, advise
from scurry.runners.acquisition.acquire import Acquisition, GetFeature
from scurry.runners.acquisition.visit import Visit
from scurry.verbs.prune import prune

Grow: TypeAlias = Callable[[NDArray[np.intp]], Forest]
Grown: TypeAlias = tuple[str, Any, "NDArray[np.intp] | None"]  # name, model, and the features it was grown on

KINDS = ("trees", "forests", "fewer features", "budgeted", "boosted")
"""What `candidates` of `FeatureBudgetClassifier` may name, in addition to "given"."""

GIVEN = "given"
_LEAST_SHARE = 0.8  # of what forests cost that were judged: one that costs less is another kind of forest
_N_BUDGETS = 24  # at which a candidate is judged, from nothing to the price of all features

_N_TREES = 60
_TREE_DEPTHS = (2, 3, 4, 5, 6)
_FOREST_DEPTHS = (4, 8)
_MAX_FEATURES = {"square root": "sqrt", "half": 0.5, "all": None}
_CRITERIA = ("pairs", "entropy")
_COST_WEIGHTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of GreedyMiser, with prices that add up to 1


@dataclass(frozen=True, eq=False)
class Grower:
    """Rows to grow candidates on.

    Attributes
    ----------
    rows : float array of shape (n_rows, n_features)
    labels : array of shape (n_rows,)
    costs : FeatureCosts
    weights : ErrorCosts
        Classes whose errors cost more weigh more while trees grow.
    like : Forest
        Candidates get its classes and feature names.
    seed : int
    """

    rows: NDArray[Any]
    labels: NDArray[Any]
    costs: FeatureCosts
    weights: ErrorCosts
    like: Forest
    seed: int

    def grow(self, kinds: Collection[str], names: Collection[str] | None = None) -> Iterator[tuple[str, Forest]]:
        """Yield candidates of some kinds with their names; only those in `names`, where given."""
        for kind, grow in {
            "trees": self._trees,
            "forests": self._forests,
            "fewer features": self._fewer_features,
            "budgeted": self._grow_budgeted,
            "boosted": self._grow_boosted,
        }.items():
            if kind not in kinds:
                continue
            for name, model, features in grow(names):
                if names is None or name in names:
                    yield name, self._import(model, features)

    def count(self, kinds: Collection[str]) -> int:
        """Return how many candidates of some kinds there are."""
        n_features, n_fewer = self.rows.shape[1], 0
        while n_features:
            n_features, n_fewer = n_features - max(1, n_features // 4), n_fewer + 1
        n_of = {
            "trees": 2 * len(_TREE_DEPTHS),
            "forests": len(_FOREST_DEPTHS) * len(_MAX_FEATURES),
            "fewer features": n_fewer,
            "budgeted": 0 if self._has_missing else len(_CRITERIA),
            "boosted": 0 if self._has_missing else len(_COST_WEIGHTS),
        }
        return sum(n_of[kind] for kind in set(kinds))

    def _trees(self, names: Collection[str] | None) -> Iterator[Grown]:
        # Weights make a tree look further for rare classes. Where all classes are easy to tell, that only costs more.
        for depth, (how, weight) in product(_TREE_DEPTHS, {"": self.class_weight, ", without weights": None}.items()):
            tree = DecisionTreeClassifier(max_depth=depth, class_weight=weight, random_state=self.seed)
            yield f"tree of depth {depth}{how}", tree.fit(self.rows, self.labels), None

    def _forests(self, names: Collection[str] | None) -> Iterator[Grown]:
        for depth, (how_many, max_features) in product(_FOREST_DEPTHS, _MAX_FEATURES.items()):
            name = f"forest of depth {depth}, max_features {how_many}"
            if names is None or name in names:
                yield name, self._forest(depth, max_features), None

    def _fewer_features(self, names: Collection[str] | None) -> Iterator[Grown]:
        """Drop the features of least importance per price again and again, and grow a forest on the others."""
        features = np.arange(self.rows.shape[1])
        while len(features):
            forest = self._forest(6, "sqrt", features)
            yield f"forest on {len(features)} of {self.rows.shape[1]} features", forest, features
            whole = self.costs.of_set(features)
            price = np.array([whole - self.costs.of_set(features[features != j]) for j in features])
            importance = _importances(from_model(forest))
            # A free feature stays as long as it helps at all.
            worth = np.where(price > 0, importance / np.maximum(price, 1e-300), np.where(importance > 0, np.inf, 0.0))
            features = np.delete(features, np.argsort(worth, kind="stable")[: max(1, len(features) // 4)])

    def _grow_budgeted(self, names: Collection[str] | None) -> Iterator[Grown]:
        if self._has_missing:
            return  # these growers take no missing values
        for criterion in _CRITERIA:
            thrifty = BudgetedForestClassifier(
                _N_TREES, feature_costs=self.costs.alone, criterion=criterion, random_state=self.seed
            )
            yield f"BudgetRF by {criterion}", thrifty.fit(*self._resampled), None

    def _grow_boosted(self, names: Collection[str] | None) -> Iterator[Grown]:
        if self._has_missing:
            return
        prices = self.costs.alone / (self.costs.alone.sum() or 1.0)
        for cost_weight in _COST_WEIGHTS:
            miser = GreedyMiserClassifier(60, feature_costs=prices, cost_weight=cost_weight)
            yield f"GreedyMiser, cost weight {cost_weight:g}", miser.fit(*self._resampled), None

    def _forest(self, depth: int, max_features: Any, features: NDArray[np.intp] | None = None) -> Any:
        """Return an ordinary random forest, grown on some of the features."""
        columns = slice(None) if features is None else features
        options = {"max_depth": depth, "max_features": max_features, "random_state": self.seed}
        if self._has_missing:
            forest = RandomForestClassifier(_N_TREES, class_weight=self.class_weight, **options)
            return forest.fit(self.rows[:, columns], self.labels)
        # With equal costs BudgetRF is a random forest; growing it in the core takes a tenth of the time.
        rows, labels = self._resampled
        return BudgetedForestClassifier(_N_TREES, criterion="entropy", **options).fit(rows[:, columns], labels)

    @cached_property
    def _has_missing(self) -> bool:
        return bool(np.isnan(self.rows).any())

    @cached_property
    def class_weight(self) -> dict[Any, float]:
        """How much rows of each class weigh; with a matrix, by what its errors cost together."""
        counts = np.bincount(self.like.codes_of(self.labels), minlength=self.like.n_classes)
        weight = self.weights.of_counts(counts.astype(np.float64))[0].sum(axis=1)
        classes = range(self.like.n_classes) if self.like.classes is None else self.like.classes.tolist()
        return dict(zip(classes, (weight / weight.max()).tolist(), strict=True))

    @cached_property
    def _resampled(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """About as many rows, each as often as its weight says: for growers that take no weights."""
        each = np.array([self.class_weight[label] for label in self.labels.tolist()])
        expected = each * (len(each) / each.sum())
        times = np.floor(expected + np.random.default_rng(self.seed).random(len(each))).astype(np.int64)
        # One row of each class stays in any case, or the forest would not know the class.
        first = np.unique(self.labels, return_index=True)[1]
        times[first] = np.maximum(times[first], 1)
        chosen = np.repeat(np.arange(len(each)), times)
        return self.rows[chosen], self.labels[chosen]

    def _import(self, model: Any, features: NDArray[np.intp] | None) -> Forest:
        forest = from_model(model)
        if features is not None:
            feature = np.where(forest.is_leaf, forest.feature, features[np.maximum(forest.feature, 0)])
            forest = forest.replace(feature=feature.astype(np.int32), n_features=self.rows.shape[1])
        return forest.replace(feature_names=self.like.feature_names)


def _importances(forest: Forest) -> NDArray[np.float64]:
    """Return how much the splits on each feature lower the Gini impurity of the rows."""
    share = forest.value / forest.value.sum(axis=1, keepdims=True)
    impurity = forest.cover * (1.0 - (share**2).sum(axis=1))
    splits = np.flatnonzero(~forest.is_leaf)
    gain = impurity[splits] - impurity[forest.left[splits]] - impurity[forest.right[splits]]
    return np.bincount(forest.feature[splits], gain, forest.n_features).astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """Where to look for cheap forests.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    labels : array of shape (n_rows,)
    grow_given : callable
        Takes row indices, and returns the given estimator grown on them.
    kinds : collection of str
        Of `candidates.KINDS`.
    costs : FeatureCosts
    weights : ErrorCosts
    like : Forest
    errors, method : str
        As of `scurry.prune`.
    seed : int
    progress : callable or None
        Called as ``progress(n_done, n_total)`` after each candidate.
    """

    rows: NDArray[Any]
    labels: NDArray[Any]
    grow_given: Grow
    kinds: Collection[str]
    costs: FeatureCosts
    weights: ErrorCosts
    like: Forest
    errors: str
    method: str
    seed: int
    progress: Progress | None = None

    def by_split(self, training: NDArray[np.intp], validating: NDArray[np.intp]) -> Offers:
        """Return what candidates grown on some rows offer, judged on others."""
        validation = self._validation(validating)
        judged = (
            validation.judge(forest, name)
            for name, candidate in self._candidates(training)
            for forest in _distinct(self._prunings(candidate, training, validating))
        )
        return Offers(judged, self.like, self.costs)

    def by_folds(self, folds: NDArray[np.intp]) -> Offers:
        """Return what candidates grown on all rows offer, judged by rows left out, fold by fold.

        Parameters
        ----------
        folds : int array of shape (n_rows,)
            The fold of each row; rows of fold -1 are never left out.
        """
        tallies: dict[tuple[str, int], Tally] = {}
        n_folds = int(folds.max()) + 1
        for fold in range(n_folds):
            training, left_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            validation = self._validation(left_out)
            for name, candidate in self._candidates(training, part=(fold, n_folds + 1)):
                prunings = self._prunings(candidate, training, left_out)
                tally_of = {id(forest): validation.tally(forest) for forest in _distinct(prunings)}
                for level, forest in prunings.items():
                    known, tally = tallies.get((name, level)), tally_of[id(forest)]
                    tallies[name, level] = tally if known is None else known + tally
        # A candidate may be too expensive for a budget in some fold: then it was not judged by all rows.
        n_judged = int((folds >= 0).sum())
        judged = [
            _Judged(tally.mean_cost, self.weights.mean_cost(tally.confusion), name, level, tally)
            for (name, level), tally in tallies.items()
            if tally.confusion.sum() == n_judged
        ]
        return Offers(self._grow_all(judged, part=(n_folds, n_folds + 1)), self.like, self.costs)

    def _grow_all(self, judged: list[_Judged], part: tuple[int, int]) -> Iterator[Offer]:
        """Yield what was judged better than everything cheaper, grown on all rows."""
        best: list[_Judged] = []
        for one in sorted(judged, key=lambda one: (one.cost, one.error)):
            if not best or one.error < best[-1].error:
                best.append(one)
        everyone = np.arange(len(self.rows))
        validation = self._validation(everyone)
        for name, candidate in self._candidates(everyone, {one.name for one in best}, part=part):
            prunings = self._prunings(candidate, everyone, everyone)
            for one in best:
                if one.name == name and one.level in prunings:
                    forest = prunings[one.level]
                    offer = validation.judge(forest, name)
                    if offer.single_label is None:
                        if len(prunings) > 1 and offer.cost < _LEAST_SHARE * one.cost:
                            continue  # in the folds this budget bought more, and their errors are not this forest's
                        # What is better on rows left out, not on those it was grown on; what costs more on either.
                        offer = one.tally.offer(forest, name, self.weights, max(offer.cost, one.cost))
                    yield offer

    def _candidates(
        self, training: NDArray[np.intp], names: Collection[str] | None = None, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[str, Forest]]:
        """Yield candidates grown on some rows. `part` says which part of the search this is, and of how many."""
        grower = Grower(self.rows[training], self.labels[training], self.costs, self.weights, self.like, self.seed)
        n_candidates = 1 + grower.count(self.kinds)
        n_done, n_total = part[0] * n_candidates, part[1] * n_candidates

        def grow() -> Iterator[tuple[str, Forest]]:
            if names is None or GIVEN in names:
                yield GIVEN, self.grow_given(training)
            yield from grower.grow(self.kinds, names)

        for at, grown in enumerate(grow(), 1):
            yield grown
            if self.progress is not None:
                self.progress(n_done + at, n_total)
        if self.progress is not None and names is not None:  # the others need not be grown again
            self.progress(n_done + n_candidates, n_total)

    def _prunings(self, candidate: Forest, training: NDArray[np.intp], pricing: NDArray[np.intp]) -> dict[int, Forest]:
        """Return the best pruning of a candidate within each of some budgets; boosted trees stay whole."""
        try:
            path = self.path_of(candidate, training, pricing)
        except UnsupportedModelError:
            return {0: candidate}
        total = self.costs.of_set(np.arange(self.rows.shape[1])) + self.costs.step_cost * candidate.tree_depth.sum()
        made: dict[int, Forest] = {}
        forests = {}
        for level, kept in enumerate(path.spread(np.linspace(0.0, total, _N_BUDGETS + 1))):
            if id(kept) not in made:
                made[id(kept)] = path.problem.forest_of(kept)
            forests[level] = made[id(kept)]
        return forests

    def path_of(self, forest: Forest, training: NDArray[np.intp], pricing: NDArray[np.intp]) -> PruningPath:
        """Return the prunings of a forest, with errors and costs measured on some rows each."""
        counted = pricing if self.errors == "validation" else training
        # Counted anew, because a forest grown with class weights counts rows by their weight.
        counts = class_counts(forest, self.rows[counted], self.labels[counted])
        node_errors, n_error = weigh_counts(forest, counts, self.weights)
        charges = RowCharges.of(forest, self.rows[pricing], self.costs)
        return solve(pose(forest, charges, node_errors, n_error, self.costs), self.method, None, None)

    def _validation(self, rows: NDArray[np.intp]) -> ValidationRows:
        return ValidationRows(self.rows[rows], self.like.codes_of(self.labels[rows]), self.costs, self.weights)


@dataclass(frozen=True, eq=False)
class _Judged:
    cost: float
    error: float
    name: str
    level: int
    tally: Tally


def _distinct(prunings: dict[int, Forest]) -> list[Forest]:
    return list({id(forest): forest for forest in prunings.values()}.values())


def assign_folds(
    codes: NDArray[Any], n_folds: int, rng: np.random.Generator, copies: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """Return a fold for each row, every class spread evenly; -1 for classes that would be missing from a training part.

    Parameters
    ----------
    codes : int array of shape (n_rows,)
    n_folds : int
    rng : numpy Generator
    copies : int array of shape (n_rows,), optional
        Rows with the same number are copies of one row, and share its fold.

    Returns
    -------
    int array of shape (n_rows,)

    Examples
    --------
    >>> folds = assign_folds(np.array([0, 0, 0, 0, 1]), 2, np.random.default_rng(0))
    >>> np.bincount(folds[:4]).tolist(), int(folds[4])
    ([2, 2], -1)
    """
    folds = np.empty(len(codes), np.intp)
    start = 0
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        folds[members] = (start + np.arange(len(members))) % n_folds
        start += len(members)
    if copies is not None:
        folds = folds[np.unique(copies, return_index=True)[1]][copies]
    for code in np.unique(codes):
        of_class = codes == code
        if len(np.unique(folds[of_class])) == 1:
            folds[of_class] = -1
    return folds


_FEW_ROWS = 2000  # below it, one split leaves too few rows to judge forests on
_N_FOLDS = 5


class FeatureBudgetClassifier(BudgetedClassifier):
    """A forest found, grown and pruned so that rows pay for few features.

    An estimator that is not fitted is one candidate among several: single trees, random forests, forests on fewer
    features, BudgetRF and GreedyMiser are grown on the same rows. Each is pruned exactly (boosted trees stay whole),
    and rows that did not grow it decide which is best within a budget. An estimator that is fitted is only pruned.

    Fitting grows and prunes many forests: expect a minute or more, also on a few hundred rows. ``candidates="given"``
    prunes only the estimator that is passed, which is much faster.

    Parameters
    ----------
    estimator : estimator, Forest or None
        A classifier, fitted or not. Boosted trees cannot be pruned. None: ``RandomForestClassifier()``.
    max_cost : float or None
        Largest mean cost per row: single rows may pay more, unlike in `acquire` and `start_row`, whose `max_cost` is
        the most that each row may pay. None: no limit; then a fitted estimator, or one that is the only candidate, is
        not pruned. A budget: also ``predict(X, max_cost=…)``. New rows may pay more: a promise is kept by them.
    promise : scurry.promises.Cost, str or None
        Such as ``scurry.promises.Cost(40)``: new rows pay at most 40 on average, with confidence 0.95. In place of
        `max_cost`. The share `calibration_size` of the rows is set apart first, and certifies it; of what is certified,
        the forest that was judged best is taken. A budget: also ``predict(X, promise=…)``.
    feature_costs, groups, group_costs, step_cost, errors
        See `scurry.prune`.
    class_weight : "balanced", mapping of every label to a number, or None
        What an error on a row of each class costs, while trees grow, when they are pruned, and when rows decide. By
        default every class counts alike, so that a rare class is not given up: rows decide by balanced accuracy. None
        counts every row alike: they decide by accuracy.
    error_costs : array of shape (n_classes, n_classes), or mapping of label to mapping of answer to cost, optional
        What answering class j costs where class i is true: ``error_costs[i][j]``, in place of `class_weight`.
    candidates : "auto", "given", or sequence of {"trees", "forests", "fewer features", "budgeted", "boosted"}
        What competes with the estimator: all kinds, nothing, or some kinds. BudgetRF ("budgeted") and GreedyMiser
        ("boosted") need rows without missing values. Models with categories compete with nothing.
    method : {"exact", "independent", "ccp"}
        The methods of `scurry.prune` that find all prunings at once.
    n_folds : int or None
        With 2 or more, every row takes its turn to judge forests grown on the others, and the best are grown anew on
        all rows. With 1, the share `calibration_size` of the rows judges. None: 5 below 2,000 rows, else 1.
    calibration_size, n_threads, random_state
        See `EarlyExitClassifier`.

    Attributes
    ----------
    predictor_ : Predictor
        The forest within `max_cost`, or that keeps the `promise`; ``predictor_.summary()`` says where it comes from and
        what was measured. It keeps the prices.
    offers_ : Offers
        The forests to choose from by budget; each is better on rows that did not grow it than all cheaper ones. None
        if the estimator was fitted and no labels were given.
    estimator_, forest_ : estimator and Forest
        The given estimator, fitted, and its forest before pruning.
    path_ : PruningPath or None
        All prunings of `forest_`; None if it cannot be pruned.
    classes_, n_features_in_, feature_names_in_
        See `EarlyExitClassifier`.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> frugal = scurry.FeatureBudgetClassifier(max_cost=3, candidates=["trees", "budgeted"], random_state=0)
    >>> frugal = frugal.fit(X[::2], y[::2])
    >>> bool(frugal.score(X[1::2], y[1::2]) > 0.85), bool(frugal.cost(X[1::2]).mean() < 3.5)
    (True, True)
    >>> bool(frugal.cost(X[1::2], max_cost=2).mean() < 2.5)
    True
    """

    BUDGETS = ("max_cost", "promise")

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_cost: float | None = None,
        promise: Cost | str | None = None,
        feature_costs: Any = None,
        groups: Any = None,
        group_costs: Any = None,
        step_cost: float = 0.0,
        class_weight: Any = "balanced",
        error_costs: Any = None,
        candidates: str | Sequence[str] = "auto",
        errors: str = "training",
        method: str = "exact",
        n_folds: int | None = None,
        calibration_size: float = 0.2,
        n_threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, n_threads=n_threads, random_state=random_state)
        self.max_cost = max_cost
        self.promise = promise
        self.feature_costs = feature_costs
        self.groups = groups
        self.group_costs = group_costs
        self.step_cost = step_cost
        self.class_weight = class_weight
        self.error_costs = error_costs
        self.candidates = candidates
        self.errors = errors
        self.method = method
        self.n_folds = n_folds

    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None, **fit_params: Any) -> Self:
        """Grow candidates and prune them, or prune the estimator if it is fitted.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels. If the estimator is fitted, they are needed only for ``errors="validation"``; with them, nothing is
            chosen that costs more and is not better.
        progress : callable, optional
            Called as ``progress(n_done, n_total)`` after each candidate; an exception it raises ends the search.
        **fit_params
            With ``candidates="given"``: passed to the estimator's `fit`; those with one value per row are split like
            the rows. Refused otherwise, because they would reach one candidate of many.

        Returns
        -------
        self
        """
        if fit_params and self._kinds():
            name = next(iter(fit_params))
            raise InputError(
                f'{name} would reach the given estimator alone, not the others; pass candidates="given", or weigh '
                "errors by class_weight or error_costs",
                argument=name,
            )
        self._certifies_apart = _check_promise(read_promise(self.promise), self.max_cost)
        self._progress = check_progress(progress)
        try:
            return super().fit(X, y, **fit_params)
        finally:
            del self._progress  # a fitted estimator can be pickled

    def cost(self, X: Any, **budget: Any) -> NDArray[np.float64]:
        """Return what each row pays for the features that its prediction reads.

        Parameters
        ----------
        X, **budget
            See `predict`.

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        predictor, _ = self._check_budget(budget)
        return self._costs.of_rows(predictor.forest, self._prepare_rows(X))

    def start_row(
        self, known: Any = None, *, max_cost: float | None = None, order: str = "plan", row: int | None = None
    ) -> Visit:
        """Start to predict a row whose features arrive one at a time, at the prices of this estimator.

        Parameters
        ----------
        known, max_cost, order, row : optional
            See `scurry.Predictor.start_row`. Here `max_cost` is the most that this row may pay; in `fit` and `predict`
            it limits the mean of all rows.

        Returns
        -------
        Visit
        """
        return self._check_budget({})[0].start_row(known, max_cost=max_cost, order=order, row=row)

    def acquire(
        self, get_feature: GetFeature, n_rows: int = 1, *, max_cost: float | None = None, order: str = "plan"
    ) -> Acquisition:
        """Predict rows whose features are bought one by one, at the prices of this estimator.

        Parameters
        ----------
        get_feature, n_rows, max_cost, order
            See `scurry.Predictor.acquire`. Here `max_cost` is the most that each row may pay; in `fit` and `predict` it
            limits the mean of all rows.

        Returns
        -------
        Acquisition
        """
        return self._check_budget({})[0].acquire(get_feature, n_rows, max_cost=max_cost, order=order)

    def _kinds(self) -> Collection[str]:
        """Return the kinds of candidates besides the given one."""
        if isinstance(self.candidates, str):
            check_choice("candidates", self.candidates, ("auto", "given"))
            return KINDS if self.candidates == "auto" else ()
        if not isinstance(self.candidates, Collection):
            raise InputError(
                f'candidates must be "auto", "given" or a list of kinds, got {self.candidates!r}', argument="candidates"
            )
        return [check_choice("candidates", kind, KINDS) for kind in self.candidates]

    def _divide(
        self, labels: NDArray[Any], copies: NDArray[np.intp] | None, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        self._n_folds_used, self._copies = self._count_folds(len(labels)), copies
        if self._n_folds_used == 1:
            return super()._divide(labels, copies, rng)
        if (labels == labels[0]).all():
            raise InputError(f"y has the single class {labels[0]!r}; pass rows of two classes or more", argument="y")
        everyone = np.arange(len(labels))
        return everyone, everyone

    def _count_folds(self, n_rows: int) -> int:
        if not self._kinds():
            return 1  # a path is judged on rows held out, whatever their number
        if self.n_folds is not None:
            return check_count("n_folds", self.n_folds)
        return _N_FOLDS if n_rows < _FEW_ROWS else 1

    def _make_predictor(self, train: Train) -> Predictor:
        self._costs = FeatureCosts.of(
            self.forest_,
            feature_costs=self.feature_costs,
            groups=self.groups,
            group_costs=self.group_costs,
            step_cost=self.step_cost,
        )
        error_costs = {"error_costs": self.error_costs}
        if self.error_costs is None:
            error_costs = {"class_weight": self.class_weight}
        self._error_costs = ErrorCosts.of_forest(self.forest_, **error_costs)
        kinds = () if self._calibration.training_rows is None or self.forest_.categories else self._kinds()
        try:
            # Next to a search for other forests, this pruning is a moment.
            self.path_ = self._prune(error_costs, None if kinds else self._progress)
        except UnsupportedModelError:
            if not kinds:
                raise
            self.path_ = None
        self.offers_: Any = None
        if kinds:
            self.offers_ = self._search(kinds, self._error_costs, train)
        elif self._calibration.labels is not None:
            self.offers_ = self.path_.offers
        if self.promise is not None:
            return self._keep(read_promise(self.promise))
        if self.max_cost is None and not kinds:
            return self._price(self.forest_)
        return self._choose(math.inf if self.max_cost is None else self.max_cost)

    def _prune(self, error_costs: dict[str, Any], progress: Progress | None) -> Any:
        return prune(
            self.forest_,
            self._calibration.rows,
            self._calibration.labels,
            feature_costs=self.feature_costs,
            groups=self.groups,
            group_costs=self.group_costs,
            step_cost=self.step_cost,
            **error_costs,
            errors=self.errors,
            method=self.method,
            progress=progress,
        )

    def _search(self, kinds: Collection[str], weights: ErrorCosts, train: Train) -> Offers:
        """Return what all candidates offer together."""
        held, by_folds = self._calibration, self._n_folds_used > 1
        n_training = len(held.training_labels)
        rows, labels = held.rows, np.asarray(held.labels)
        if not by_folds:
            rows = np.concatenate([rows[:0] if held.training_rows is None else held.training_rows, rows])
            labels = np.concatenate([held.training_labels, labels])

        def grow_given(part: NDArray[np.intp]) -> Any:
            return self.forest_ if len(part) == n_training else from_model(train(part))

        search = Search(
            rows=rows,
            labels=labels,
            grow_given=grow_given,
            kinds=kinds,
            costs=self._costs,
            weights=weights,
            like=self.forest_,
            errors=self.errors,
            method=self.method,
            seed=held.seed,
            progress=self._progress,
        )
        if by_folds:
            rng = np.random.default_rng(held.seed)
            return search.by_folds(assign_folds(self.forest_.codes_of(labels), self._n_folds_used, rng, self._copies))
        return search.by_split(np.arange(n_training), np.arange(n_training, len(rows)))

    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        promise, max_cost = read_promise(budget.get("promise")), budget.get("max_cost")
        _check_promise(promise, max_cost)
        if promise is not None:
            return self._get_predictor(promise, self._keep), {}
        return self._get_predictor(max_cost, self._choose), {}

    def _price(self, forest: Forest, certificate: Certificate | None = None) -> Predictor:
        """Return a predictor that evaluates every tree, and knows the prices."""
        return Predictor.full(forest, certificate, self._costs)

    def _keep(self, promise: Any) -> Predictor:
        """Return the best forest whose mean cost is certified."""
        held = self._calibration
        if held.certifying_rows is None and promise.confidence is not None:
            raise InputError(
                "no rows were set apart to certify a promise; give the estimator its promise before fit: "
                f"{type(self).__name__}(…, promise=scurry.promises.Cost(…))",
                argument="promise",
            )
        if self.offers_ is None:
            kept: Predictor = self.path_.at(promise=promise, X_cal=held.certifying_rows)
            return kept
        candidates = [Candidate.of(offer) for offer in self.offers_.within(promise.max_cost)]
        validation = ValidationRows(held.rows, None, self._costs, self._error_costs)
        return certify_cost(candidates, promise, held.certifying_rows, self._costs, validation, "feature budget")

    def _choose(self, max_cost: float) -> Predictor:
        """Return the best forest within a budget."""
        if not is_number(max_cost) or math.isnan(max_cost):
            raise InputError(f"max_cost must be a number, got {max_cost!r}", argument="max_cost")
        if self.offers_ is None:
            return self._price(self.path_.at(max_cost=max_cost))
        offer = self.offers_.at(max_cost)
        if offer.single_label is not None:
            advice = advise(offer.single_label, offer.forest, self._error_costs, is_searched=True)
            warn(f"the forest with a mean cost of {offer.cost:g} per row is of little use: {advice}")
        return self._price(offer.forest, self._certify(offer))

    def _certify(self, offer: Offer) -> Certificate:
        """Return where a forest comes from and what was measured."""
        held = self._calibration
        full, own = (self._costs.of_rows(forest, held.rows) for forest in (self.forest_, offer.forest))
        labels = np.asarray(held.labels)
        by_class = ", ".join(f"{label}: {own[labels == label].mean():.4g}" for label in np.unique(labels))
        return Certificate(
            method="feature budget",
            why="the best found within the budget, judged on rows that did not grow it",
            n_calibration_rows=len(held.rows),
            measured=BudgetMeasurement(
                candidate=offer.name,
                cost=float(own.mean()),
                # An offer's is that of its kind, fold by fold, if that is higher.
                left_out_cost=offer.cost if offer.cost > own.mean() * (1 + 1e-9) else None,
                full_cost=float(full.mean()),
                error=offer.error,
                recalls=offer.found,
                single_label="" if offer.single_label is None else repr(offer.single_label),
                largest_paid=float(own.max()),
                paid_by_class=by_class,
            ),
        )


def _check_promise(promise: Any, max_cost: Any) -> bool:
    """Return whether a cost is promised, and so needs rows to certify it."""
    if promise is None:
        return False
    if not isinstance(promise, Cost):
        hint = f". Did you mean Cost({promise})?" if is_number(promise) else ""
        raise InputError(f"promise must be a scurry.promises.Cost, got {promise!r}{hint}", argument="promise")
    if max_cost is not None:
        raise InputError("give a promise or a budget, not both; a promise has its budget", argument="promise")
    return promise.confidence is not None
