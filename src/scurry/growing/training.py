"""GrownClassifier: the base of the cost-aware classifiers, with training data as the native growers take them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from scurry import _core
from scurry.checks import Progress
from scurry.costs import check_costs
from scurry.errors import UnsupportedModelError
from scurry.forest import Forest


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows to grow trees on.

    Attributes
    ----------
    columns : _core.ColumnOrders
        The features, and the rows in the order of each.
    codes : int32 array of shape (n_rows,)
        The class of each row.
    classes : array of shape (n_classes,)
    costs : float64 array of shape (n_features,)
    feature_names : sequence of str or None
    """

    columns: _core.ColumnOrders
    codes: NDArray[np.int32]
    classes: NDArray[Any]
    costs: NDArray[np.float64]
    feature_names: Sequence[str] | None


class GrownClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose `fit` leaves a `Forest` in ``forest_``."""

    forest_: Forest
    classes_: NDArray[Any]
    n_features_in_: int
    feature_costs: Any

    def fit(self, X: Any, y: Any, *, progress: Progress | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Finite numbers.
        y : array of shape (n_rows,)
        progress : callable, optional
            Called as ``progress(n_grown, n_estimators)`` after each tree of a forest or each round of boosting.

        Returns
        -------
        the classifier itself
        """
        self._check_parameters()
        self.forest_ = self._grow(self._training_set(X, y), progress)
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter makes no sense, whatever the data."""

    @abstractmethod
    def _grow(self, rows: TrainingSet, progress: Progress | None) -> Forest:
        """Grow the forest."""

    def _has_probabilities(self) -> bool:
        """Return True, or raise an AttributeError if there is no `predict_proba`."""
        return True

    def _training_set(self, X: Any, y: Any) -> TrainingSet:
        # Columns are sorted one by one, so they lie together in memory.
        X, y = validate_data(self, X, y, dtype=np.float32, order="F")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        names: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        known: Sequence[Any] = range(self.n_features_in_) if names is None else list(names)
        given = np.ones(len(known)) if self.feature_costs is None else self.feature_costs
        costs = check_costs("feature_costs", given, known, "feature")
        columns = _core.ColumnOrders(np.asfortranarray(X))
        return TrainingSet(columns, codes.astype(np.int32), self.classes_, costs, names)

    def _check_rows(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        rows: NDArray[np.float32] = validate_data(self, X, dtype=np.float32, reset=False)
        return rows

    def __scurry_forest__(self) -> Forest:
        """Return what `scurry.from_model` makes of the classifier."""
        if not hasattr(self, "forest_"):
            raise UnsupportedModelError(f"this {type(self).__name__} is not fitted; call fit before importing it")
        return self.forest_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        rows = self._check_rows(X)  # before forest_, so that unfitted classifiers say so
        return self.forest_.predict(rows)

    @available_if(lambda classifier: classifier._has_probabilities())
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        rows = self._check_rows(X)
        return self.forest_.predict_proba(rows)
