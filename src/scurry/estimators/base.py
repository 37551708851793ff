"""The base of all estimators: train if needed, split the rows, check them, and predict within a budget."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest, as_frame, as_rows, in_blocks, take_rows
from scurry.importers import from_model
from scurry.predictor import Predictor, Summary
from scurry.promises import Certificate, Promise
from scurry.runners.runner import Run
from scurry.stopping.guarantee import hash_rows, number_copies
from scurry.verbs.training_rows import remember_training

Train: TypeAlias = Callable[[NDArray[np.intp]], Any]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_N_SEEDS = 2**31 - 1  # some frameworks keep seeds as int32
_MAX_BUDGETS = 32  # predictors kept for budgets given at prediction time; callers may pass any number of them


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rows that turn a budget into a plan.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    labels : array of shape (n_rows,) or None
    training_rows : array of shape (n_training_rows, n_features) or None
        Rows that the estimator was trained on; None if it was trained elsewhere.
    training_labels : array of shape (n_training_rows,)
        Empty if it was trained elsewhere.
    seed : int
    certifying_rows : array of shape (n_certifying_rows, n_features) or None
        Rows that nothing else has seen, where a promise needs them.
    """

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    training_rows: NDArray[Any] | None
    training_labels: NDArray[Any]
    seed: int
    certifying_rows: NDArray[Any] | None


class BudgetedEstimator(MetaEstimatorMixin, BaseEstimator):
    """Base of the estimators that predict within a budget.

    A subclass names its budgets and makes predictors for them.

    Parameters
    ----------
    estimator, calibration_size, n_threads, random_state
        See `scurry.EarlyExitClassifier`.
    """

    BUDGETS: ClassVar[tuple[str, ...]]
    _NEEDS_LABELS: ClassVar[bool] = False
    _KIND: ClassVar[str] = "regressor"
    _certifies_apart: bool = False  # whether a promise needs rows that neither trained nor chose anything

    def __init__(self, estimator: Any, *, calibration_size: float, n_threads: int | None, random_state: Any) -> None:
        self.estimator = estimator
        self.calibration_size = calibration_size
        self.n_threads = n_threads
        self.random_state = random_state

    @abstractmethod
    def _make_predictor(self, train: Train) -> Predictor:
        """Return the predictor for the parameters, calibrated on `_calibration`.

        `train` takes indices of the rows given to `fit` and trains the estimator anew on these.
        """

    @abstractmethod
    def _divide(
        self, labels: NDArray[Any], copies: NDArray[np.intp] | None, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of the rows to train on, and of those to calibrate on."""

    @abstractmethod
    def _default_estimator(self) -> Any:
        """Return what is trained where no estimator is given."""

    @abstractmethod
    def _check_targets(self, y: Any) -> NDArray[Any]:
        """Return what rows are trained on, checked by scikit-learn's rules."""

    @abstractmethod
    def _refuse(self, model: Any) -> None:
        """Raise an error that says what to pass instead if the model is of the wrong kind."""

    def _about_rows(self, model: Any, rows: NDArray[np.intp]) -> dict[str, Any]:
        """Return further arguments of the `fit` of an unfitted model, which say something about these rows."""
        return {}

    @abstractmethod
    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        """Return the predictor for a budget given at prediction time, and the arguments to call it with."""

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Train the estimator on a part of the rows, unless it is fitted, and calibrate on the others.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels. If the estimator is fitted, `EarlyExitClassifier` does not need them, and `FeatureBudgetClassifier`
            only with ``errors="validation"``.
        **fit_params
            Passed to the estimator's `fit`; those with one value per row are split like the rows. Ignored if the
            estimator is fitted.

        Returns
        -------
        self
        """
        model = self._default_estimator() if self.estimator is None else self.estimator
        if not isinstance(model, Forest) and (isinstance(model, type) or not hasattr(model, "get_params")):
            raise InputError(f"estimator must be a {self._KIND} or a Forest, got {model!r}", argument="estimator")
        self._refuse(model)
        rng, fitted = check_random_state(self.random_state), _is_fitted(model)
        # First: what cannot be imported is the mistake, whatever is wrong with the rows.
        forest = self._import_model(model) if fitted else None
        # What rows may hold is the business of a pipeline's own steps.
        self._is_pipeline = isinstance(_inner(model), Pipeline)
        self._allow_nan = self._is_pipeline or bool(get_tags(self).input_tags.allow_nan)
        labels: NDArray[Any] | None = None
        if y is not None or not fitted or self._NEEDS_LABELS:
            labels = self._check_targets(y)
        table = self._check_rows(X, reset=True, ensure_min_samples=1 if fitted else 2)
        check_consistent_length(table, labels)
        n_rows, certifying = table.shape[0], None
        if self._certifies_apart:
            # Before anything else sees them.
            rest, apart = _set_apart(n_rows, labels, self.calibration_size, rng, _find_copies(table, labels))
            fit_params = {name: _select(value, rest, n_rows) for name, value in fit_params.items()}
            certifying, table = _select(table, apart, n_rows), _select(table, rest, n_rows)
            labels, n_rows = None if labels is None else labels[rest], len(rest)
        training, calibrating = np.empty(0, np.intp), np.arange(n_rows)
        unfitted = model

        def train(part: NDArray[np.intp]) -> Any:
            given = {name: _select(value, part, n_rows) for name, value in fit_params.items()}
            given |= self._about_rows(unfitted, part)
            return _seed(clone(unfitted), rng).fit(_select(table, part, n_rows), _select(labels, part, n_rows), **given)

        if not fitted and labels is not None:
            training, calibrating = self._divide(labels, _find_copies(table, labels), rng)
            model = train(training)
        self.estimator_, self.forest_ = model, self._import_model(model) if forest is None else forest
        if self.forest_.classes is not None:
            self.classes_ = self.forest_.classes
        rows = as_rows(self.forest_, table)
        if not fitted:
            remember_training(self.forest_, rows[training])
        self._calibration = Calibration(
            rows=rows[calibrating],
            labels=None if labels is None else labels[calibrating],
            training_rows=None if fitted else rows[training],
            training_labels=np.empty(0) if labels is None else labels[training],
            seed=int(rng.randint(_N_SEEDS)),
            certifying_rows=None if certifying is None else as_rows(self.forest_, certifying),
        )
        self._by_budget: dict[Any, Predictor] = {}
        self.predictor_ = self._make_predictor(train)
        return self

    def predict(self, X: Any, **budget: Any) -> NDArray[Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        **budget
            Replaces the parameter of the same name for this call.

        Returns
        -------
        array of shape (n_rows,)
        """
        predictor, limits = self._check_budget(budget)
        return predictor.predict(self._prepare_rows(X), self.n_threads, **limits)

    def run(self, X: Any, **budget: Any) -> Run:
        """Predict, and report for each row how much work that took and why it ended.

        Parameters
        ----------
        X, **budget
            See `predict`.

        Returns
        -------
        Run
        """
        predictor, limits = self._check_budget(budget)
        return predictor.run(self._prepare_rows(X), self.n_threads, **limits)

    def summary(self) -> Summary:
        """Return what the fitted predictor promises and what was measured when it was made; print it."""
        return self._check_budget({})[0].summary()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted predictor to a ``.scurry`` file: `scurry.load` returns it as a `Predictor`.

        Budgets that are given at prediction time, such as `max_steps`, are given to its `predict` then.

        Parameters
        ----------
        path : str or path
        """
        self._check_budget({})[0].save(path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        model = self._default_estimator() if self.estimator is None else self.estimator
        tags.input_tags.allow_nan = isinstance(model, Forest) or get_tags(model).input_tags.allow_nan
        tags.input_tags.sparse = isinstance(model, Forest) or get_tags(model).input_tags.sparse
        return tags

    def _check_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        # `check_is_fitted` takes longer than the prediction of one row; call it only to raise its error.
        if not hasattr(self, "predictor_"):
            check_is_fitted(self)
        for name in budget:
            if name not in self.BUDGETS:
                raise InputError(
                    f"{type(self).__name__} knows the budgets {', '.join(self.BUDGETS)}, not {name!r}; "
                    "max_disagreement is EarlyExitClassifier's, max_error is EarlyExitRegressor's, "
                    "max_changed is EarlyExitRanker's, max_steps and time_us are AnytimeClassifier's, max_cost is "
                    "FeatureBudgetClassifier's",
                    argument=name,
                )
        return self._apply_budget(budget)

    def _evaluate_all(self, promise: Promise | None, why: str) -> Predictor:
        """Return a predictor that evaluates every tree, and so keeps every promise."""
        return Predictor.full(self.forest_, Certificate(method="full", promise=promise, why=why))

    def _get_predictor(self, budget: Any, make: Callable[[Any], Predictor]) -> Predictor:
        """Return the predictor for a budget, made at its first use; None stands for the fitted one."""
        if budget is None:
            return self.predictor_
        made = self._by_budget.get(budget)
        if made is None:
            # Forget the oldest. With a default, because another thread may have removed it meanwhile.
            while len(self._by_budget) >= _MAX_BUDGETS:
                self._by_budget.pop(next(iter(self._by_budget)), None)
            made = self._by_budget[budget] = make(budget)
        return made

    def _prepare_rows(self, X: Any) -> Any:
        """Return `X` as the predictor accepts it."""
        # Fast path: scikit-learn's checks take longer than the prediction of a few valid rows.
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
        return self._check_rows(X, reset=False)

    def _check_rows(self, X: Any, *, reset: bool, ensure_min_samples: int = 1) -> Any:
        """Check `X` by scikit-learn's rules, and return it as an array, or as the DataFrame that it is."""
        # An array would lose categories. Only models that allow NaN can use them, so for others an array will do.
        if self._allow_nan and as_frame(X) is not None and len(X) >= ensure_min_samples:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        finite = "allow-nan" if self._allow_nan else True
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr" if get_tags(self).input_tags.sparse else False,
            dtype=None if self._is_pipeline else "numeric",
            ensure_all_finite=finite,
            ensure_min_samples=ensure_min_samples,
        )

    def _import_model(self, model: Any) -> Forest:
        try:
            return from_model(model)
        except UnsupportedModelError as error:
            if not isinstance(_inner(model), Pipeline):
                raise
            raise UnsupportedModelError(
                f"{error}; or put the estimator into the pipeline: "
                f"make_pipeline(pipeline[:-1], {type(self).__name__}(pipeline[-1]))"
            ) from error


class BudgetedClassifier(ClassifierMixin, BudgetedEstimator):
    """Base of the classifiers that predict within a budget.

    Parameters
    ----------
    estimator, calibration_size, n_threads, random_state
        See `scurry.EarlyExitClassifier`.
    """

    _KIND = "classifier"

    def predict_proba(self, X: Any, **budget: Any) -> NDArray[np.float64]:
        """Return the class probabilities of each row, estimated from the trees or steps evaluated for it.

        Those of an early exit never speak for another class than `predict` answers.

        Parameters
        ----------
        X, **budget
            See `predict`.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        predictor, limits = self._check_budget(budget)
        return predictor.predict_proba(self._prepare_rows(X), self.n_threads, **limits)

    def _divide(
        self, labels: NDArray[Any], copies: NDArray[np.intp] | None, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of the rows to train on, and of those to calibrate on."""
        parts = split(labels, self.calibration_size, rng, copies)
        if (labels == labels[0]).all():
            raise InputError(f"y has the single class {labels[0]!r}; pass rows of two classes or more", argument="y")
        return parts

    def _default_estimator(self) -> Any:
        return RandomForestClassifier()

    def _check_targets(self, y: Any) -> NDArray[Any]:
        labels: NDArray[Any] = validate_data(self, y=y)
        check_classification_targets(labels)
        return labels

    def _refuse(self, model: Any) -> None:
        if not (model.classes is None if isinstance(model, Forest) else is_regressor(model)):
            return
        name = type(model).__name__
        instead = name.replace("Regressor", "Classifier")
        such_as = f", such as {instead}" if instead != name else ""
        raise InputError(
            f"{type(self).__name__} chooses among classes, and this {name} is a regressor; pass a classifier{such_as}. "
            "EarlyExitRegressor and scurry.anytime take regressors",
            argument="estimator",
        )


def _inner(model: Any) -> Any:
    """Return the model that a frozen estimator or a search such as GridSearchCV stands for."""
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        model = model.estimator if isinstance(model, FrozenEstimator) else model.best_estimator_
    return getattr(model, "estimator", model) if isinstance(model, BaseSearchCV) else model


def _is_fitted(model: Any) -> bool:
    if isinstance(model, Forest):
        return True
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _seed(model: Any, rng: np.random.RandomState) -> Any:
    """Return `model` after setting each random_state that is None to a number drawn from `rng`."""
    # Sorted by name, so that the same seed gives the same model whatever the order of parameters.
    states = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "random_state"}
    return model.set_params(**{name: rng.randint(_N_SEEDS) for name in sorted(states) if states[name] is None})


def _find_copies(table: Any, labels: NDArray[Any] | None) -> NDArray[np.intp] | None:
    """Return a number for each row that its copies share; None if no row was copied."""
    divisions = [] if labels is None else [labels]
    if issparse(table):
        digests = in_blocks(table, lambda rows: hash_rows(rows.toarray()))
        digests = hash_rows(table.toarray()) if digests is None else digests
        return number_copies(digests, divisions)
    frame = as_frame(table)
    columns = [table] if frame is None else [column.to_numpy() for column in frame.iter_columns()]
    # Text and categories by their place among the values of the column.
    numbers = [
        values if values.dtype.kind in "fiub" else np.unique(values.astype(str), return_inverse=True)[1]
        for values in columns
    ]
    digests = hash_rows(np.column_stack(numbers))
    return number_copies(digests, divisions)


def split(
    labels: NDArray[Any], size: float, rng: np.random.RandomState, copies: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the training and the calibration rows.

    Each class has the same share of calibration rows, but keeps at least one training row: the model must know it.
    Rows with the same number in `copies` go the same way: a copy proves nothing about what the other trained.
    """
    share, n_rows = _check_share(size, len(labels)), len(labels)
    held_out = [np.empty(0, np.intp)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        if copies is not None:
            members = members[np.argsort(_ranks(copies[members]), kind="stable")]
        held_out.append(members[: min(round(share * len(members)), len(members) - 1)])
    calibration = np.sort(np.concatenate(held_out))
    if copies is not None:
        calibration = np.flatnonzero(np.isin(copies, copies[calibration]))
    return _parts(calibration, n_rows, size)


def _set_apart(
    n_rows: int,
    labels: NDArray[Any] | None,
    size: float,
    rng: np.random.RandomState,
    copies: NDArray[np.intp] | None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the rows to work with, and of independent draws to certify a promise on."""
    # Not stratified: a promise is about draws as they come. Copies of a row go the same way.
    kinds = np.arange(n_rows) if copies is None else copies
    drawn = rng.permutation(kinds.max() + 1)[: round(_check_share(size, n_rows) * (kinds.max() + 1))]
    apart = np.isin(kinds, drawn)
    if labels is not None:
        # Nothing could be learnt of a class whose few rows were all drawn.
        apart &= np.isin(labels, labels[~apart])
    return _parts(np.flatnonzero(apart), n_rows, size)


def _check_share(size: Any, n_rows: int) -> float:
    """Return the share of rows that `calibration_size` asks for."""
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not isinstance(size, Real) or not 0 < float(size) < (n_rows if whole else 1):
        raise InputError(
            f"calibration_size must be a share between 0 and 1, or a number of rows below {n_rows}, got {size!r}",
            argument="calibration_size",
        )
    return float(size) / n_rows if whole else float(size)


def _parts(calibration: NDArray[np.intp], n_rows: int, size: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if len(calibration) in (0, n_rows):
        raise InputError(
            f"calibration_size={size!r} leaves none of n_samples={n_rows} rows to calibrate on; pass more rows, or a "
            "larger calibration_size",
            argument="calibration_size",
        )
    return np.setdiff1d(np.arange(n_rows), calibration), calibration


def _ranks(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each entry how many other numbers occur before its own does."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _select(values: Any, rows: NDArray[np.intp], n_rows: int) -> Any:
    """Return these rows of an array or table; return values that are not one per row unchanged."""
    if issparse(values):
        return values[rows] if values.shape[0] == n_rows else values
    if not hasattr(values, "__len__") or isinstance(values, str) or len(values) != n_rows:
        return values
    return take_rows(values, rows)
