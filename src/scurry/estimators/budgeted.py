"""What the estimators share: training if needed, the split, checks of rows, and prediction within a budget."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.forest.rows import as_rows
from scurry.importers import from_model
from scurry.predictor import Predictor
from scurry.runners.runner import Run

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_N_SEEDS = 2**31 - 1
_MAX_BUDGETS = 32  # whose predictors are kept, the latest


@dataclass(frozen=True, eq=False)
class Calibration:
    """What turns a budget into a plan."""

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    training_rows: NDArray[Any] | None
    seed: int


class BudgetedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """What the estimators share: training if needed, checks of rows, and prediction within a budget."""

    BUDGETS: ClassVar[tuple[str, ...]]
    _NEEDS_LABELS: ClassVar[bool] = False

    estimator: Any
    calibration_size: float
    n_threads: int | None
    random_state: Any

    @abstractmethod
    def _planned(self) -> Predictor:
        """The predictor that the parameters ask for, calibrated on `_calibration`."""

    @abstractmethod
    def _within(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        """The predictor for a budget given at prediction time, and the part of the budget that it keeps itself."""

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Train the estimator on a part of the rows, unless it is fitted, and calibrate on the others.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels.
        **fit_params
            Passed to the estimator's `fit`; those with a value for each row are split as the rows are. An estimator
            that is fitted already has no use for them.

        Returns
        -------
        self
        """
        model = RandomForestClassifier() if self.estimator is None else self.estimator
        _refuse_regressor(model, type(self).__name__)
        rng, fitted = check_random_state(self.random_state), _is_fitted(model)
        self._allow_nan = bool(get_tags(self).input_tags.allow_nan)
        labels = None if y is None and fitted and not self._NEEDS_LABELS else self._checked_labels(y)
        table = self._checked(X, reset=True, ensure_min_samples=1 if fitted else 2)
        check_consistent_length(table, labels)
        training, calibrating = np.empty(0, np.intp), np.arange(len(table))
        if not fitted and labels is not None:
            training, calibrating = _split(labels, self.calibration_size, rng)
            fit_params = {name: _part(value, training, len(table)) for name, value in fit_params.items()}
            model = _seeded(clone(model), rng).fit(_part(table, training, len(table)), labels[training], **fit_params)
        self.estimator_, self.forest_ = model, _imported(model, type(self).__name__)
        self.classes_ = self.forest_.classes
        rows = as_rows(self.forest_, table)
        self._calibration = Calibration(
            rows=rows[calibrating],
            labels=None if labels is None else labels[calibrating],
            training_rows=None if fitted else rows[training],
            seed=int(rng.randint(_N_SEEDS)),
        )
        self._by_budget: dict[float, Predictor] = {}
        self.predictor_ = self._planned()
        return self

    def predict(self, X: Any, **budget: Any) -> NDArray[Any]:
        """The label of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        **budget
            Takes the place of the parameter of that name.

        Returns
        -------
        array of shape (n_rows,)
        """
        predictor, limits = self._checked_budget(budget)
        return predictor.predict(self._rows(X), self.n_threads, **limits)

    def predict_proba(self, X: Any, **budget: Any) -> NDArray[np.float64]:
        """Class probabilities of each row, as far as the work done tells.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        **budget
            Takes the place of the parameter of that name.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        predictor, limits = self._checked_budget(budget)
        return predictor.predict_proba(self._rows(X), self.n_threads, **limits)

    def run(self, X: Any, **budget: Any) -> Run:
        """Predict and report, per row, how much work that took and why it ended.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        **budget
            Takes the place of the parameter of that name.

        Returns
        -------
        Run
        """
        predictor, limits = self._checked_budget(budget)
        return predictor.run(self._rows(X), self.n_threads, **limits)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        model = RandomForestClassifier() if self.estimator is None else self.estimator
        tags.input_tags.allow_nan = isinstance(model, Forest) or get_tags(model).input_tags.allow_nan
        tags.input_tags.sparse = False
        return tags

    def _checked_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        if not hasattr(self, "predictor_"):
            check_is_fitted(self)
        for name in budget:
            if name not in self.BUDGETS:
                raise InputError(
                    f"{type(self).__name__} knows the budgets {', '.join(self.BUDGETS)}, not {name!r}; "
                    "max_disagreement is EarlyExitClassifier's, max_steps and time_us are AnytimeClassifier's, "
                    "max_cost is FeatureBudgetClassifier's"
                )
        return self._within(budget)

    def _made_for(self, budget: float | None, make: Callable[[float], Predictor]) -> Predictor:
        """The predictor for a budget given at prediction time, made at its first use; None is the fitted one."""
        if budget is None:
            return self.predictor_
        made = self._by_budget.get(budget)
        if made is None:
            while len(self._by_budget) >= _MAX_BUDGETS:
                self._by_budget.pop(next(iter(self._by_budget)), None)
            made = self._by_budget[budget] = make(budget)
        return made

    def _rows(self, X: Any) -> Any:
        """`X` as the predictor takes it; what scikit-learn's contract says of wrong rows costs good ones little."""
        if (
            type(X) is np.ndarray
            and X.dtype in _FLOATS
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and len(X)
            and not hasattr(self, "feature_names_in_")
            and (self._allow_nan or np.isfinite(X).all())
        ):
            return X
        return self._checked(X, reset=False)

    def _checked(self, X: Any, *, reset: bool, ensure_min_samples: int = 1) -> Any:
        """`X` by scikit-learn's rules. A DataFrame stays one where the model can use its missing or category values."""
        if self._allow_nan and isinstance(_frame(X), nw.DataFrame) and len(X) >= ensure_min_samples:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        finite = "allow-nan" if self._allow_nan else True
        return validate_data(self, X, reset=reset, ensure_all_finite=finite, ensure_min_samples=ensure_min_samples)

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        labels: NDArray[Any] = validate_data(self, y=y)
        check_classification_targets(labels)
        return labels


def _is_fitted(model: Any) -> bool:
    if isinstance(model, Forest):
        return True
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _refuse_regressor(model: Any, budgeted: str) -> None:
    if not (model.classes is None if isinstance(model, Forest) else is_regressor(model)):
        return
    name = type(model).__name__
    instead = name.replace("Regressor", "Classifier")
    such_as = f", such as {instead}" if instead != name else ""
    raise InputError(
        f"{budgeted} chooses among classes, and this {name} is a regressor; pass a classifier{such_as}. "
        "scurry.anytime takes regressors too"
    )


def _imported(model: Any, name: str) -> Forest:
    try:
        return from_model(model)
    except UnsupportedModelError as error:
        if not isinstance(model, Pipeline):
            raise
        raise UnsupportedModelError(
            f"{error}; or put the estimator into the pipeline: make_pipeline(pipeline[:-1], {name}(pipeline[-1]))"
        ) from error


def _seeded(model: Any, rng: np.random.RandomState) -> Any:
    """`model` with each random_state that is None drawn from `rng`."""
    states = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "random_state"}
    return model.set_params(**{name: rng.randint(_N_SEEDS) for name in sorted(states) if states[name] is None})


def _split(labels: NDArray[Any], size: float, rng: np.random.RandomState) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and calibration rows: of each class the same share, but never all of it."""
    n_rows = len(labels)
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not isinstance(size, Real) or not 0 < size < (n_rows if whole else 1):
        raise InputError(
            f"calibration_size must be a share between 0 and 1, or a number of rows below {n_rows}, got {size!r}"
        )
    if (labels == labels[0]).all():
        raise InputError(f"y has the single class {labels[0]!r}; pass rows of two classes or more")
    share, held_out = (size / n_rows if whole else float(size)), [np.empty(0, np.intp)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held_out.append(members[: min(round(share * len(members)), len(members) - 1)])
    calibration = np.sort(np.concatenate(held_out))
    if len(calibration) == 0:
        raise InputError(
            f"calibration_size={size!r} leaves none of n_samples={n_rows} rows to calibrate on; pass more rows, or a "
            "larger calibration_size"
        )
    return np.setdiff1d(np.arange(n_rows), calibration), calibration


def _frame(table: Any) -> Any:
    return nw.from_native(table, eager_only=True, pass_through=True)


def _part(values: Any, rows: NDArray[np.intp], n_rows: int) -> Any:
    """These rows of an array or table; what has no value for each of `n_rows` as it is."""
    if not hasattr(values, "__len__") or isinstance(values, str) or len(values) != n_rows:
        return values
    frame = _frame(values)
    return frame[rows].to_native() if isinstance(frame, nw.DataFrame) else np.asarray(values)[rows]
