"""Estimators that predict numbers: EarlyExitRegressor and EarlyExitRanker.

Their budgets are errors in a regressor's values, and queries whose best documents may change.
"""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, is_classifier
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.utils.validation import validate_data

from scurry.checks import check_choice, check_number, check_numbers, read_column
from scurry.errors import InfeasibleError, InputError
from scurry.estimators.base import BudgetedEstimator, Train, split
from scurry.forest import Forest, count_rows, without_column
from scurry.predictor import Predictor
from scurry.promises import TopK, Values
from scurry.runners.runner import Run
from scurry.verbs.early_exit import early_exit
from scurry.verbs.options import check_groups
from scurry.verbs.planners.by_ranks import rank_by_score

_OF_RMSE = 0.25  # the error by default: it changes the RMSE by about 1 %
_RMSE_SHARE = 0.2  # of the calibration rows, which measure the RMSE where no error is given


class EarlyExitRegressor(RegressorMixin, BudgetedEstimator):
    """A tree ensemble that stops evaluating trees once a row's value is clear: `scurry.early_exit` as a regressor.

    Parameters
    ----------
    estimator : estimator, Forest or None
        A regressor that `scurry.from_model` can import, fitted or not. None: ``RandomForestRegressor()``.
    max_error : float or None
        How far a value may be from the estimator's own. None: a quarter of the estimator's RMSE, measured on a fifth of
        the calibration rows, which then do not certify; this needs `y`. A budget: ``predict(X, max_error=…)``
        calibrates again at the first use of a value.
    max_share : float in (0, 1), default 0.05
        The largest share of rows whose values may be further away.
    confidence : float or None, default 0.95
        The promise holds for new rows with this probability.
    calibration_size : float or int, default 0.2
        Share or number of rows to hold out of training. If the estimator is fitted, all rows are calibration rows: pass
        rows that did not train it.
    n_threads : int or None, default 1
        Number of threads of predictions (None: all cores).
    random_state : int, RandomState or None
        Seed of the split and of the estimator, if its own random_state is None.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    forest_ : Forest
        The fitted estimator as scurry's forest.
    predictor_ : Predictor
        It makes the predictions; ``predictor_.summary()`` states the promise. If there are too few rows to certify
        the promise, all trees are evaluated, and a warning says what could be certified.
    n_features_in_, feature_names_in_
        As in all scikit-learn estimators.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = make_friedman1(3000, noise=1.0, random_state=0)
    >>> fast = scurry.EarlyExitRegressor(RandomForestRegressor(50), random_state=0).fit(X[:2500], y[:2500])
    >>> fast.run(X[2500:]).mean_trees < 45
    True
    """

    BUDGETS = ("max_error",)

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_error: float | None = None,
        max_share: float = 0.05,
        confidence: float | None = 0.95,
        calibration_size: float = 0.2,
        n_threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, n_threads=n_threads, random_state=random_state)
        self.max_error = max_error
        self.max_share = max_share
        self.confidence = confidence

    def _default_estimator(self) -> Any:
        return RandomForestRegressor()

    def _check_targets(self, y: Any) -> NDArray[Any]:
        targets: NDArray[Any] = validate_data(self, y=y)
        return check_numbers("y", targets)

    def _divide(
        self, labels: NDArray[Any], copies: NDArray[np.intp] | None, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return split(np.zeros(len(labels)), self.calibration_size, rng, copies)

    def _refuse(self, model: Any) -> None:
        if model.classes is not None if isinstance(model, Forest) else is_classifier(model):
            raise InputError(
                f"EarlyExitRegressor estimates values, and this {type(model).__name__} is a classifier; use "
                'EarlyExitClassifier, or scurry.early_exit with Values(…, of="probability")',
                argument="estimator",
            )

    def _make_predictor(self, train: Train) -> Predictor:
        return self._calibrate(self.max_error)

    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        return self._get_predictor(budget.get("max_error"), self._calibrate), {}

    def _calibrate(self, max_error: float | None) -> Predictor:
        rows, targets = self._calibration.rows, self._calibration.labels
        if max_error is None:
            if targets is None:
                raise InputError(
                    "max_error is needed where y is not given; pass a quarter of the model's RMSE, say",
                    argument="max_error",
                )
            rng = np.random.default_rng(self._calibration.seed)
            measures = np.zeros(len(rows), np.bool_)
            measures[rng.permutation(len(rows))[: max(round(_RMSE_SHARE * len(rows)), 1)]] = True
            missed = self.forest_.predict(rows[measures]) - targets[measures]
            max_error = _OF_RMSE * float(np.sqrt(np.square(missed).mean()))
            rows, targets = rows[~measures], targets[~measures]
            if not max_error > 0 or len(rows) == 0:
                return self._evaluate_all(None, "too few rows, or rows without any error, to say how far values may be")
        promise = Values(check_number("max_error", max_error, above=0.0), self.max_share, confidence=self.confidence)
        X_fit = self._calibration.training_rows
        for part in (rows, X_fit):
            # `early_exit` raises an error for such rows, but a scikit-learn estimator must fit them.
            if part is not None and np.ptp(self.forest_.predict(part, self.n_threads)) == 0:
                return self._evaluate_all(promise, "the model gives all rows the same value: nothing can be learnt")
        try:
            fast = early_exit(
                self.forest_, rows, targets, X_fit=X_fit, promise=promise, random_state=self._calibration.seed
            )
        except InfeasibleError as error:
            warnings.warn(f"{error}. For now, every tree is evaluated", UserWarning, stacklevel=4)  # names `fit`
            return self._evaluate_all(promise, str(error))
        if self.confidence is not None and fast.certificate is not None and fast.certificate.promise is None:
            return self._evaluate_all(promise, fast.certificate.note)  # a promise was asked for, and there is none
        return fast


class EarlyExitRanker(BudgetedEstimator):
    """A ranker that stops evaluating trees for documents that cannot change the best of their query.

    It is `scurry.early_exit` with the promise `TopK`, as an estimator.

    Parameters
    ----------
    estimator : estimator, Forest or None
        Boosted trees with one score for each row, fitted or not: `LGBMRanker`, `XGBRanker`, a regressor, or a
        classifier with two classes. None: ``GradientBoostingRegressor()``.
    k : int, default 10
        How many documents of a query count.
    max_changed : float in (0, 1), default 0.01
        The largest share of queries whose k best may be others than the estimator's. A budget:
        ``predict(X, groups, max_changed=…)`` calibrates again at the first use of a value.
    keep : {"order", "set"}, default "order"
        "order": the k best are ranked by the estimator's own scores. "set": they are the same documents, and those that
        were sure early are ranked by estimates, which saves more.
    method : {"auto", "sentinels"}, default "auto"
        "auto": no document leaves where comparing documents takes longer than the trees that it saves. "sentinels":
        all sentinels are kept, which takes the fewest trees.
    confidence : float, default 0.95
        The promise holds for new queries with this probability.
    calibration_size : float or int, default 0.2
        Share of the queries, or number of rows, to hold out of training. If the estimator is fitted, all rows are
        calibration rows: pass queries that did not train it. The promise of 1 % takes 374 queries held out, or 597
        with an estimator that is fitted.
    n_threads : int or None, default 1
        Number of threads of predictions (None: all cores).
    random_state : int, RandomState or None
        Seed of the split and of the estimator, if its own random_state is None.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    forest_ : Forest
        The fitted estimator as scurry's forest; its answers are the scores that rank.
    predictor_ : Predictor
        It makes the predictions; ``predictor_.summary()`` states the promise. If there are too few queries to certify
        the promise, all trees are evaluated, and a warning says what could be certified.
    n_features_in_, feature_names_in_
        As in all scikit-learn estimators.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> rng = np.random.default_rng(0)
    >>> X, queries = rng.normal(size=(27000, 4)), np.arange(27000) // 100
    >>> y = X[:, 0] * X[:, 1] + X[:, 2]
    >>> ranker = scurry.EarlyExitRanker(k=5, max_changed=0.05, calibration_size=0.4, random_state=0)
    >>> ranker.fit(X[:24000], y[:24000], groups=queries[:24000]).predictor_.certificate.statement()
    "With confidence 0.95, at most 5 % of new queries get another top 5 than the model's."
    >>> ranker.run(X[24000:], groups=queries[24000:]).mean_trees  # comparing documents takes longer than so few trees
    100.0
    """

    BUDGETS = ("max_changed",)
    _KIND = "ranker"

    def __init__(
        self,
        estimator: Any = None,
        *,
        k: int = 10,
        max_changed: float = 0.01,
        keep: str = "order",
        method: str = "auto",
        confidence: float = 0.95,
        calibration_size: float = 0.2,
        n_threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, n_threads=n_threads, random_state=random_state)
        self.k = k
        self.max_changed = max_changed
        self.keep = keep
        self.method = method
        self.confidence = confidence

    def fit(self, X: Any, y: Any = None, *, group: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Train the estimator on a part of the queries, unless it is fitted, and calibrate on the others.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Relevances. Not needed if the estimator is fitted.
        group : array of shape (n_queries,), optional
            Numbers of rows of the queries, whose rows lie together, as LightGBM and XGBoost take them.
        groups : str or array of shape (n_rows,), optional
            The query of each row, a number or text, or the name of a column of a frame `X`, which is then no feature.
            Pass this or `group`.
        **fit_params
            Passed to the estimator's `fit`; those with one value per row are split like the rows. Ignored if the
            estimator is fitted.

        Returns
        -------
        self
        """
        n_rows = count_rows(X) if hasattr(X, "__len__") else 0
        self._queries = self._calibrating = _read_queries(n_rows, group, read_column("groups", groups, X))
        self._column = groups if isinstance(groups, str) else None
        return super().fit(without_column(X, self._column), y, **fit_params)

    def predict(self, X: Any, groups: Any = None, **budget: Any) -> NDArray[Any]:
        """Return scores that rank the rows of each query: the promised k are above the others.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        groups : str or array of shape (n_rows,)
            The query of each row; its rows may lie anywhere, but all of them must be given. Or the name of a column of
            a frame `X`, which is then no feature. `X` may have the column that `fit` took for queries, or not.
        **budget
            Replaces the parameter of the same name for this call.

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        return self.run(X, groups, **budget).labels

    def run(self, X: Any, groups: Any = None, **budget: Any) -> Run:
        """Predict, and report for each row how much work that took and why it ended.

        Parameters
        ----------
        X, groups, **budget
            See `predict`: `groups` may name a column here, too, which is then no feature.

        Returns
        -------
        Run
        """
        predictor, _ = self._check_budget(budget)
        features, named, groups = X, groups, read_column("groups", groups, X)
        for name in (self._column, named):
            # A feature stays one, if queries were given to `fit` by value.
            if isinstance(name, str) and name not in getattr(self, "feature_names_in_", ()):
                features = without_column(features, name)
        rows = self._prepare_rows(features)
        if not predictor.plan.ranks_groups:  # all trees are evaluated, whichever query a row is of
            return predictor.run(rows, self.n_threads)
        if groups is None:
            raise InputError("groups is needed: pass the query of each row", argument="groups")
        return predictor.run(rows, self.n_threads, groups=groups)

    def _default_estimator(self) -> Any:
        return GradientBoostingRegressor()

    def _check_targets(self, y: Any) -> NDArray[Any]:
        targets: NDArray[Any] = validate_data(self, y=y)
        has_classes = hasattr(self.estimator, "fit") and is_classifier(self.estimator)
        return targets if has_classes else check_numbers("y", targets)

    def _divide(
        self, labels: NDArray[Any], copies: NDArray[np.intp] | None, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        # A query is a unit, as copies of a row are elsewhere. Its rows have to lie together, as frameworks want them.
        parts = split(np.zeros(len(labels)), self.calibration_size, rng, self._queries)
        training, calibrating = (part[np.argsort(self._queries[part], kind="stable")] for part in parts)
        self._calibrating = self._queries[calibrating]
        return training, calibrating

    def _about_rows(self, model: Any, rows: NDArray[np.intp]) -> dict[str, Any]:
        accepted = signature(model.fit).parameters
        if "group" in accepted:
            return {"group": np.unique(self._queries[rows], return_counts=True)[1]}
        return {"group_id": self._queries[rows]} if "group_id" in accepted else {}

    def _refuse(self, model: Any) -> None:
        return  # whatever has one score for each row ranks; `early_exit` says so of others

    def _import_model(self, model: Any) -> Forest:
        return rank_by_score(super()._import_model(model))

    def _make_predictor(self, train: Train) -> Predictor:
        return self._calibrate(self.max_changed)

    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        return self._get_predictor(budget.get("max_changed"), self._calibrate), {}

    def _calibrate(self, max_changed: float) -> Predictor:
        promise = TopK(self.k, max_changed, keep=self.keep, confidence=self.confidence)
        method = check_choice("method", self.method, ("auto", "sentinels"))
        rows, X_fit = self._calibration.rows, self._calibration.training_rows
        if np.ptp(self.forest_.predict(rows if X_fit is None else X_fit, self.n_threads)) == 0:
            return self._evaluate_all(promise, "the model gives all rows the same score: nothing can be learnt")
        try:
            fast = early_exit(
                self.forest_,
                rows,
                X_fit=X_fit,
                groups=self._calibrating,
                promise=promise,
                method=method,
                random_state=self._calibration.seed,
            )
        except InfeasibleError as error:
            warnings.warn(f"{error}. For now, every tree is evaluated", UserWarning, stacklevel=5)  # names `fit`
            return self._evaluate_all(promise, str(error))
        if fast.certificate is not None and fast.certificate.promise is None:
            return self._evaluate_all(promise, fast.certificate.note)  # a promise was asked for: there is none
        return fast


def _read_queries(n_rows: int, group: Any, groups: Any) -> NDArray[np.intp]:
    """Return the query of each row as a number from 0 on."""
    if (group is None) == (groups is None):
        raise InputError(
            "pass either groups, the query of each row, or group, the numbers of rows of queries that lie together",
            argument="groups",
        )
    if groups is not None:
        return check_groups(groups, n_rows, "X")
    sizes = check_numbers("group", group)
    if sizes.ndim != 1 or (sizes < 1).any() or (sizes % 1 != 0).any() or sizes.sum() != n_rows:
        raise InputError(
            f"group must have the number of rows of each query, and these must add up to the {n_rows:,} rows of X",
            argument="group",
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.intp))
