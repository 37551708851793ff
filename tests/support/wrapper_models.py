"""Wrappers of scikit-learn, not fitted, around small models; rows at which they may err."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

import scurry
from support.sklearn_models import make_data
from support.strategies import adversarial_rows

warnings.filterwarnings("ignore", message=".*encoded.*")

FOREST = RandomForestClassifier(6, max_depth=4, random_state=0)
# Few rows in leaves of few shares: votes and means tie often.
COARSE = RandomForestClassifier(4, max_depth=2, random_state=1, min_samples_leaf=40)
EXTRA = ExtraTreesClassifier(5, max_depth=3, random_state=1)
BOOSTED = GradientBoostingClassifier(n_estimators=6, random_state=0)
HIST = HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5, random_state=0)


def vote(*models, **parameters):
    named = [(f"model{at}", model) for at, model in enumerate(models)]
    return VotingClassifier(named, **parameters)


def calibrate(model, method, ensemble=True):
    return CalibratedClassifierCV(model, method=method, ensemble=ensemble, cv=2)


BAGGED = {
    "trees": BaggingClassifier(n_estimators=8, random_state=0),
    "trees of some columns": BaggingClassifier(n_estimators=8, max_features=0.5, max_samples=0.3, random_state=0),
    "forests": BaggingClassifier(COARSE, n_estimators=3, random_state=0),
    "boosted": BaggingClassifier(BOOSTED, n_estimators=3, max_features=0.7, random_state=0),
    "hist": BaggingClassifier(HIST, n_estimators=2, random_state=0),
}
VOTING = {
    "soft": vote(FOREST, EXTRA, voting="soft"),
    "soft of coarse": vote(COARSE, clone(COARSE).set_params(random_state=5), voting="soft"),
    "soft with weights": vote(FOREST, BOOSTED, HIST, voting="soft", weights=[1, 2, 0.5]),
    "hard": vote(COARSE, BOOSTED, HIST, DecisionTreeClassifier(max_depth=1), voting="hard"),
    "hard with weights": vote(COARSE, EXTRA, DecisionTreeClassifier(max_depth=2), voting="hard", weights=[1, 1, 2]),
}
TREES = [DecisionTreeClassifier(max_depth=1 + at % 3, max_features=2, random_state=at) for at in range(9)]
VOTES_OF_TREES = {
    "alike": vote(*TREES, voting="hard"),
    "whole weights, which tie": vote(*TREES, voting="hard", weights=[1, 2, 3, 1, 2, 3, 1, 2, 3]),
    "weights": vote(*TREES, voting="hard", weights=[0.1, 0.2, 0.3, 0.7, 0.5, 1.1, 0.4, 0.6, 0.3]),
}
ADABOOST = {
    "stumps": AdaBoostClassifier(n_estimators=9, random_state=0),
    "trees": AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=7, learning_rate=0.5, random_state=0),
}
CALIBRATED = {
    f"{name} {method}{'' if ensemble else ', one model'}": calibrate(model, method, ensemble)
    for name, model in (("forest", FOREST), ("boosted", BOOSTED))
    for method in ("sigmoid", "isotonic", "temperature")
    for ensemble in (True, False)
}
CALIBRATED["voting"] = calibrate(vote(FOREST, BOOSTED, voting="soft"), "isotonic")
CALIBRATED["AdaBoost"] = calibrate(ADABOOST["stumps"], "sigmoid", ensemble=False)
ONE_VS_REST = {
    "forests": OneVsRestClassifier(COARSE),
    "boosted": OneVsRestClassifier(BOOSTED),
    "calibrated": OneVsRestClassifier(calibrate(FOREST, "sigmoid")),
}
THRESHOLDS = {
    "forest": FixedThresholdClassifier(COARSE, threshold=0.5),
    "forest, first class": FixedThresholdClassifier(FOREST, threshold=0.3, pos_label=0),
    "boosted": FixedThresholdClassifier(BOOSTED, threshold=0.3),
    "boosted, first class": FixedThresholdClassifier(BOOSTED, threshold=0.6, pos_label=0),
    "scores": FixedThresholdClassifier(BOOSTED, threshold=0.1, response_method="decision_function"),
    "scores, first class": FixedThresholdClassifier(
        BOOSTED, threshold=0.1, response_method="decision_function", pos_label=0
    ),
    "auto": FixedThresholdClassifier(HIST),
    "tuned": TunedThresholdClassifierCV(FOREST, cv=2, thresholds=20),
    "tuned boosted": TunedThresholdClassifierCV(BOOSTED, cv=2, thresholds=20),
    "tuned calibrated": TunedThresholdClassifierCV(calibrate(FOREST, "isotonic"), cv=2, thresholds=20),
}
REGRESSORS = {
    "bagged trees": BaggingRegressor(n_estimators=6, max_features=0.5, random_state=0),
    "bagged forests": BaggingRegressor(RandomForestRegressor(3, max_depth=3), n_estimators=3, random_state=0),
    "voting": VotingRegressor(
        [
            ("a", RandomForestRegressor(4, max_depth=4, random_state=0)),
            ("b", GradientBoostingRegressor(n_estimators=5, random_state=0)),
            ("c", HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5)),
        ],
        weights=[1, 2, 3],
    ),
}
ISOLATION = {
    "usual": IsolationForest(n_estimators=15, random_state=0),
    "contaminated": IsolationForest(n_estimators=15, contamination=0.2, max_features=0.5, random_state=0),
}


def fit(model, task):
    """Return the model, fitted to the rows of a task, and the rows."""
    X, y = make_data(task, 240)
    # XGBoost in wrappers needs numbers.
    y = np.unique(y, return_inverse=True)[1] if task == "multi" else y
    return clone(model).fit(X, y), X


def hard_rows(forest, X, n_rows=400, *, nan=False):
    """Rows on thresholds and next to them, with a few ordinary ones."""
    rows = adversarial_rows(forest, X, n_rows, special=False)
    rows[~np.isfinite(rows) | (np.abs(rows) > 3e38)] = 0.0
    if nan:
        rows[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    return np.concatenate([rows, X])


def ulps(wanted, given):
    """The largest distance of two arrays, in units of the last place of the first (of those below 1e-12, of these)."""
    apart = np.abs(np.asarray(wanted, np.float64) - given)
    return float((apart / np.spacing(np.maximum(np.abs(wanted), 1e-12))).max(initial=0.0))


def check_same(model, X, *, n_rows=400, n_ulps=0.0, nan=False):
    """Check labels and probabilities of a fitted model against its forest's, before and after a pickle; return it."""
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X, n_rows, nan=nan)
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(forest.predict(rows[:1]), model.predict(rows[:1]))
    if hasattr(model, "predict_proba"):
        assert ulps(model.predict_proba(rows), forest.predict_proba(rows)) <= n_ulps
    return forest
