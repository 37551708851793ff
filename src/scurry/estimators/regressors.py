"""The estimator for a budget of errors in a regressor's values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils.validation import validate_data

from scurry.checks import check_number, check_numbers
from scurry.errors import InfeasibleError, InputError
from scurry.estimators.base import BudgetedEstimator, Train, split
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.promises import Values
from scurry.verbs.early_exit import early_exit

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
