"""FeatureBudgetClassifier: find a forest whose features cost little."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import Progress, check_choice, check_count, check_progress, is_number
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InputError, UnsupportedModelError, warn
from scurry.estimators.base import BudgetedClassifier, Train
from scurry.estimators.search import KINDS, Search, assign_folds
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import BudgetMeasurement, Certificate, Cost
from scurry.promises.kinds import read_promise
from scurry.pruning.cost_promise import Candidate, certify_cost
from scurry.pruning.offers import Offer, Offers, ValidationRows, advise
from scurry.runners.acquisition.acquire import Acquisition, GetFeature
from scurry.runners.acquisition.visit import Visit
from scurry.verbs.prune import prune

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
        Largest mean cost per row. None: no limit; then a fitted estimator, or one that is the only candidate, is not
        pruned. A budget: also ``predict(X, max_cost=…)``. New rows may pay more: a promise is kept by them.
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
            See `scurry.Predictor.start_row`. Here `max_cost` is the most that this row may pay.

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
            See `scurry.Predictor.acquire`. Here `max_cost` is the most that a row may pay.

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
        return Predictor(forest, Plan.full(forest, certificate, self._costs))

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
            advice = advise(offer.single_label, offer.forest, is_searched=True)
            warn(f"the forest at {offer.cost:g} per row is of little use: {advice}")
        return self._price(offer.forest, self._certify(offer))

    def _certify(self, offer: Offer) -> Certificate:
        """Return where a forest comes from and what was measured."""
        held = self._calibration
        full, own = (float(self._costs.of_rows(forest, held.rows).mean()) for forest in (self.forest_, offer.forest))
        return Certificate(
            method="feature budget",
            why="the best found within the budget, judged on rows that did not grow it",
            n_calibration_rows=len(held.rows),
            measured=BudgetMeasurement(
                candidate=offer.name,
                cost=own,  # an offer's is that of its kind, fold by fold, if that is higher
                full_cost=full,
                error=offer.error,
                recalls=offer.found,
                single_label="" if offer.single_label is None else repr(offer.single_label),
            ),
        )


def _check_promise(promise: Any, max_cost: Any) -> bool:
    """Return whether a cost is promised, and so needs rows to certify it."""
    if promise is None:
        return False
    if not isinstance(promise, Cost):
        raise InputError(f"promise must be a scurry.promises.Cost, got {promise!r}", argument="promise")
    if max_cost is not None:
        raise InputError("give a promise or a budget, not both; a promise has its budget", argument="promise")
    return promise.confidence is not None
