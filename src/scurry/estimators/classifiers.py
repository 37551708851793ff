"""The estimators for a budget of changed labels, and for one of steps or time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scurry.errors import InfeasibleError, warn
from scurry.estimators.base import BudgetedClassifier, Train
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.promises import Certificate, Labels, Promise
from scurry.verbs.anytime import anytime
from scurry.verbs.early_exit import early_exit
from scurry.verbs.options import with_threshold


class EarlyExitClassifier(BudgetedClassifier):
    """A tree ensemble that stops evaluating trees once a row's label is clear: `scurry.early_exit` as an estimator.

    Parameters
    ----------
    estimator : estimator, Forest or None
        A classifier that `scurry.from_model` can import, fitted or not. None: ``RandomForestClassifier()``.
    max_disagreement : float in [0, 1), default 0.001
        The largest share of rows whose label may change. The methods "auto", "qwyc" and "fan" compare with the labels
        of the estimator; "minimax", "minimean", "minimixed" and "schwing" compare with the majority vote of all trees,
        which for a forest that averages probabilities is not always the label of the estimator; the summary says how
        often it is.
        A budget: ``predict(X, max_disagreement=…)`` calibrates again at the first use of a value.
    promise : Promise, str or None
        Another promise than one about the share of all labels that change, such as
        ``scurry.promises.Accuracy(0.003)``. Pass it instead of `max_disagreement` and `confidence`.
    method, confidence, shuffle, keep_scores, costs, threshold, order, bin_width, gamma
        See `scurry.early_exit`. With a `threshold`, `predict` answers by it, and the promise is about those labels.
    calibration_size : float or int, default 0.2
        Share or number of rows to hold out of training, stratified by class. If the estimator is fitted, all rows
        are calibration rows: pass rows that did not train it. Rows that look as if they did are noticed; then a warning
        says so, and every tree is evaluated.
    n_threads : int or None, default 1
        Number of threads of predictions (None: all cores).
    random_state : int, RandomState or None
        Seed of the split and of the estimator, if its own random_state is None. Each seed makes another model with its
        own promise; of the best of many, the promise holds less surely than the confidence says.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    forest_ : Forest
        The fitted estimator as scurry's forest.
    predictor_ : Predictor
        It makes the predictions; ``predictor_.summary()`` states the promise. If there are too few rows to certify
        the promise, all trees are evaluated, and a warning says what could be certified.
    classes_ : array of shape (n_classes,)
    n_features_in_, feature_names_in_
        As in all scikit-learn estimators.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> fast = scurry.EarlyExitClassifier(RandomForestClassifier(51), max_disagreement=0.02, random_state=0)
    >>> fast.fit(X[:5000], y[:5000]).run(X[5000:]).mean_trees < 25
    True
    >>> fast.run(X[5000:], max_disagreement=0.05).mean_trees < fast.run(X[5000:]).mean_trees
    True
    """

    BUDGETS = ("max_disagreement",)

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_disagreement: float = 1e-3,
        promise: Promise | str | None = None,
        method: str = "auto",
        confidence: float | None = 0.95,
        shuffle: str = "fixed",
        keep_scores: str | None = None,
        costs: str | ArrayLike = "trees",
        threshold: float | None = None,
        order: str | ArrayLike | None = None,
        bin_width: float | None = None,
        gamma: float | None = None,
        calibration_size: float = 0.2,
        n_threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, n_threads=n_threads, random_state=random_state)
        self.max_disagreement = max_disagreement
        self.promise = promise
        self.method = method
        self.confidence = confidence
        self.shuffle = shuffle
        self.keep_scores = keep_scores
        self.costs = costs
        self.threshold = threshold
        self.order = order
        self.bin_width = bin_width
        self.gamma = gamma

    def _make_predictor(self, train: Train) -> Predictor:
        return self._calibrate(self.max_disagreement, self.promise)

    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        return self._get_predictor(budget.get("max_disagreement"), self._calibrate), {}

    def _calibrate(self, max_disagreement: float, promise: Promise | str | None = None) -> Predictor:
        calibration = self._calibration
        forest = self.forest_ if self.threshold is None else with_threshold(self.forest_, self.threshold)
        # The trees agree too much on the rows they were trained on. Such rows may find the rule, but other rows must
        # certify it; without a confidence nothing is certified, so they are not used at all.
        X_fit = None if self.confidence is None else calibration.training_rows
        for rows in (calibration.rows, X_fit):
            # `early_exit` raises an error for such rows, but a scikit-learn estimator must fit them.
            if rows is not None and len(np.unique(forest.predict(rows, self.n_threads))) == 1:
                return _evaluate_all(forest, "the model gives all rows the same label, so that nothing can be learnt")
        try:
            fast = early_exit(
                self.forest_,
                calibration.rows,
                calibration.labels,
                X_fit=X_fit,
                promise=promise,
                max_disagreement=max_disagreement,
                method=self.method,
                confidence=self.confidence,
                shuffle=self.shuffle,
                keep_scores=self.keep_scores,
                costs=self.costs,
                threshold=self.threshold,
                order=self.order,
                bin_width=self.bin_width,
                gamma=self.gamma,
                random_state=calibration.seed,
            )
        except InfeasibleError as error:
            warn(f"{error}. For now, every tree is evaluated", UserWarning)
            return _evaluate_all(forest, str(error))
        if self.confidence is not None and fast.certificate is not None and fast.certificate.promise is None:
            return _evaluate_all(forest, fast.certificate.note)  # a promise was asked for, and there is none
        return fast


class AnytimeClassifier(BudgetedClassifier):
    """A tree ensemble that has an answer after any step: `scurry.anytime` as an estimator.

    The step order is found on the calibration rows. `fit` needs their labels even if the estimator is fitted.

    Parameters
    ----------
    estimator, calibration_size, n_threads, random_state
        See `EarlyExitClassifier`.
    max_steps : int or None
        Tree steps per row. A budget: also ``predict(X, max_steps=…)``.
    time_us : float or None
        Microseconds per row, from the start of its work to its answer. A budget: also ``predict(X, time_us=…)``.
        A third budget is only given at prediction time: ``predict(X, abort=…)`` with a `scurry.AbortFlag`.
    order, objective, readout
        See `scurry.anytime`.

    Attributes
    ----------
    predictor_ : Predictor
        It makes the predictions.
    estimator_, forest_, classes_, n_features_in_, feature_names_in_
        See `EarlyExitClassifier`.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(15, max_depth=5)
    >>> ready = scurry.AnytimeClassifier(forest, max_steps=20, random_state=0).fit(X[:400], y[:400])
    >>> ready.run(X[400:]).mean_steps, ready.run(X[400:], max_steps=5).mean_steps
    (20.0, 5.0)
    """

    BUDGETS = ("max_steps", "time_us", "abort")
    _NEEDS_LABELS = True

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_steps: int | None = None,
        time_us: float | None = None,
        order: str = "auto",
        objective: str = "steps",
        readout: str | None = None,
        calibration_size: float = 0.2,
        n_threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, n_threads=n_threads, random_state=random_state)
        self.max_steps = max_steps
        self.time_us = time_us
        self.order = order
        self.objective = objective
        self.readout = readout

    def _make_predictor(self, train: Train) -> Predictor:
        return anytime(
            self.forest_,
            self._calibration.rows,
            self._calibration.labels,
            order=self.order,
            objective=self.objective,
            readout=self.readout,
            random_state=self._calibration.seed,
        )

    def _apply_budget(self, budget: dict[str, Any]) -> tuple[Predictor, dict[str, Any]]:
        return self.predictor_, {"max_steps": self.max_steps, "time_us": self.time_us} | budget


def _evaluate_all(forest: Forest, why: str) -> Predictor:
    """Return a predictor that evaluates every tree, and so keeps every promise."""
    return Predictor.full(forest, Certificate(method="full", promise=Labels(0.0), why=why))
