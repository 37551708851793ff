"""Importers of scikit-learn's models around other models: bagged, voting, boosted, calibrated, with a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import check_is_fitted

from scurry.errors import UnsupportedModelError
from scurry.forest import Forest
from scurry.importers.wrappers import calibration, ensembles

__all__ = ["count_labels", "import_wrapper", "is_wrapper"]

Import = Callable[[Any], Forest]

_IMPORTERS: dict[type, Callable[[Any, Import], Forest]] = {
    IsolationForest: ensembles.import_isolation,
    BaggingClassifier: ensembles.import_bagging,
    BaggingRegressor: ensembles.import_bagging,
    VotingClassifier: ensembles.import_voting,
    VotingRegressor: ensembles.import_voting,
    AdaBoostClassifier: ensembles.import_boosting,
    CalibratedClassifierCV: calibration.import_calibrated,
    FixedThresholdClassifier: calibration.import_threshold,
    TunedThresholdClassifierCV: calibration.import_threshold,
    OneVsRestClassifier: ensembles.import_one_vs_rest,
}
_REFUSED: dict[type, str] = {
    AdaBoostRegressor: "it answers with the weighted median of its trees, which no sum of leaves is; fit "
    "GradientBoostingRegressor or HistGradientBoostingRegressor",
    StackingClassifier: "its last model reads the answers of the others, so that no tree of theirs adds to a score; "
    "import the models inside one by one, model.estimators_, or fit a VotingClassifier",
    StackingRegressor: "its last model reads the answers of the others, so that no tree of theirs adds to a score; "
    "import the models inside one by one, model.estimators_, or fit a VotingRegressor",
}


def is_wrapper(model: Any) -> bool:
    """Return whether a model is one around other models."""
    return isinstance(model, (*_IMPORTERS, *_REFUSED))


def count_labels(model: Any) -> int:
    """Return of how many labels a model says whether a row has them; 1 if it gives each row one of its classes."""
    is_multilabel = isinstance(model, OneVsRestClassifier) and hasattr(model, "estimators_") and model.multilabel_
    return len(model.estimators_) if is_multilabel else 1


def import_wrapper(model: Any, import_model: Import, label: int = 0) -> Forest:
    """Import a model around other models.

    Parameters
    ----------
    model : estimator
        A fitted Bagging, Voting, AdaBoost, calibrated, thresholded or one-vs-rest model, or an IsolationForest.
    import_model : callable
        Imports the models inside.
    label : int
        Of several labels (`count_labels`), the one to predict.

    Returns
    -------
    Forest
        With a `wrapper`, unless its trees simply add up.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> inside = [("a", RandomForestClassifier(5)), ("b", GradientBoostingClassifier(n_estimators=5))]
    >>> model = VotingClassifier(inside, voting="soft").fit(X, y)
    >>> forest = scurry.from_model(model)
    >>> bool((forest.predict(X) == model.predict(X)).all()), forest.wrapper.describe()
    (True, 'the mean of 2 models')
    """
    name = type(model).__name__
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise UnsupportedModelError(f"this {name} is not fitted; call fit before importing it") from error
    for kind, why in _REFUSED.items():
        if isinstance(model, kind):
            raise UnsupportedModelError(f"cannot import a {name}: {why}")
    for method in ("predict", "predict_proba"):
        own = getattr(type(model), method, None)
        if own is not None and not own.__module__.startswith("sklearn."):
            raise UnsupportedModelError(
                f"{name} has its own {method}, so its answers need not be those of the models inside; "
                "fit the scikit-learn estimator it is derived from"
            )
    if count_labels(model) > 1:
        return ensembles.import_label(model, import_model, label)
    # IsolationForest is a kind of Bagging, so the first that fits is the right one.
    found = next(importer for kind, importer in _IMPORTERS.items() if isinstance(model, kind))
    return found(model, import_model)
