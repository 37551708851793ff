"""What the estimators share: training, the split, checks of rows, and scikit-learn's tools around them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

import scurry
from scurry import AnytimeClassifier, EarlyExitClassifier, FeatureBudgetClassifier
from scurry.errors import InputError, UnsupportedModelError

WITHOUT_PROMISE = {"max_disagreement": 0.05, "confidence": None}


def test_without_an_estimator_it_is_a_random_forest(rows):
    X, y, *_ = rows
    anyt = AnytimeClassifier(random_state=0, order="random").fit(X[:300], y[:300])
    assert isinstance(anyt.estimator_, RandomForestClassifier)
    assert anyt.forest_.n_trees == 100


@pytest.mark.parametrize("wrapped", [lambda model: model, FrozenEstimator, scurry.from_model])
def test_fitted_estimators_are_only_calibrated(rows, fitted, wrapped):
    X, _, X_new, _ = rows
    fast = EarlyExitClassifier(wrapped(fitted), max_disagreement=0.02, random_state=3).fit(X[1500:])
    expected = scurry.early_exit(fitted, X[1500:], max_disagreement=0.02, random_state=fast._calibration.seed)
    run = fast.run(X_new)
    assert fast.forest_.digest == scurry.from_model(fitted).digest
    assert run.mean_trees == expected.run(X_new).mean_trees < 31
    assert fast.predictor_.certificate.to_json() == expected.certificate.to_json()
    assert (run.labels != fitted.predict(X_new)).mean() < 0.04


def test_unfitted_estimators_are_trained_on_rows_that_do_not_calibrate(rows):
    X, y, *_ = rows
    y = np.where(np.arange(len(y)) < 30, "rare", np.where(y == 1, "yes", "no"))
    seen = {}

    class Recorder(RandomForestClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.update(X=X, y=y, sample_weight=sample_weight)
            return super().fit(X, y, sample_weight)

    model = AnytimeClassifier(Recorder(3, max_depth=3), order="random", calibration_size=0.3, random_state=0)
    model.fit(X, y, sample_weight=X[:, 0] + 10)
    calibration = model._calibration
    together = np.concatenate([seen["X"], calibration.rows])
    assert {tuple(row) for row in together} == {tuple(row) for row in X}
    assert len(together) == len(X)
    assert (seen["sample_weight"] == seen["X"][:, 0] + 10).all()
    label_of = dict(zip(map(tuple, X), y, strict=True))
    assert [label_of[tuple(row)] for row in calibration.rows] == calibration.labels.tolist()
    for label in ("rare", "yes", "no"):
        assert (calibration.labels == label).sum() == round(0.3 * (y == label).sum())


def test_a_class_of_one_row_is_trained_on():
    X = np.arange(20.0).reshape(-1, 1)
    y = np.array([0] * 10 + [1] * 9 + [2])
    model = AnytimeClassifier(RandomForestClassifier(3), calibration_size=6, order="random").fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model._calibration.labels.tolist() == [0] * 3 + [1] * 3


def test_random_state_settles_everything(rows):
    X, y, X_new, _ = rows

    def fit(seed):
        model = EarlyExitClassifier(RandomForestClassifier(15), max_disagreement=0.02, random_state=seed).fit(X, y)
        return model.forest_.digest, model.predict_proba(X_new)

    (digest, probabilities), (again, same) = fit(5), fit(5)
    assert digest == again != fit(6)[0]
    assert (probabilities == same).all()


def test_pipeline_and_grid_search(rows):
    X, y, X_new, y_new = rows
    model = EarlyExitClassifier(RandomForestClassifier(15), max_disagreement=0.02, random_state=0)
    pipeline = make_pipeline(StandardScaler(), SimpleImputer(), model).fit(X, y)
    assert pipeline.score(X_new, y_new) > 0.85
    assert pipeline[-1].run(pipeline[:-1].transform(X_new)).mean_trees < 15
    grid = {"estimator__max_depth": [1, 6], "max_disagreement": [0.02, 0.1]}
    search = GridSearchCV(model, grid, cv=3, n_jobs=2).fit(X, y)
    assert search.best_params_["estimator__max_depth"] == 6
    assert search.best_estimator_.score(X_new, y_new) > 0.85
    assert cross_val_score(AnytimeClassifier(RandomForestClassifier(5), random_state=0), X, y, cv=3).min() > 0.8


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_dataframes_by_name(rows, library):
    X, y, X_new, _ = rows
    names = [f"x{j}" for j in range(X.shape[1])]
    frame, new = library(dict(zip(names, X.T, strict=True))), library(dict(zip(names, X_new.T, strict=True)))
    model = AnytimeClassifier(RandomForestClassifier(7, max_depth=4), random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == names
    plain = clone(model).fit(X, y)
    assert (model.predict(new) == plain.predict(X_new)).all()
    with pytest.raises(ValueError, match=r"(?s)seen at fit time, yet now missing:.*x3"):
        model.predict(new[[name for name in names if name != "x3"]])
    with pytest.raises(ValueError, match="same order"):
        model.predict(new[names[::-1]])
    with pytest.warns(UserWarning, match="valid feature names"):
        assert (model.predict(X_new) == plain.predict(X_new)).all()


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype"),
        LGBMClassifier(n_estimators=20, verbose=-1),
        XGBClassifier(n_estimators=20, enable_categorical=True),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_categories_and_missing_values_reach_the_model(rows, estimator):
    X, y, *_ = rows
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["colour"] = pd.Categorical.from_codes(y ^ (np.arange(len(y)) % 10 == 0), ["red", "green"])
    frame.loc[::7, ["x0", "colour"]] = None
    model = EarlyExitClassifier(estimator, max_disagreement=0.02, random_state=0).fit(frame[:2000], y[:2000])
    run = model.run(frame[2000:])
    assert run.mean_trees < 20
    assert (run.labels != model.estimator_.predict(frame[2000:])).mean() < 0.04


def test_rows_a_model_refuses_are_refused(rows):
    X, y, X_new, _ = rows
    model = EarlyExitClassifier(GradientBoostingClassifier(n_estimators=5), **WITHOUT_PROMISE).fit(X, y)
    for bad in (np.nan, np.inf):
        X_bad = X_new.copy()
        X_bad[5, 2] = bad
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.predict(X_bad)


def test_mistakes(rows, fitted):
    X, y, *_ = rows
    with pytest.raises(InputError, match=r"RandomForestRegressor is a regressor; pass a .*RandomForestClassifier"):
        EarlyExitClassifier(RandomForestRegressor()).fit(X, y)
    with pytest.raises(InputError, match=r"this Forest is a regressor; pass a classifier\."):
        AnytimeClassifier(scurry.from_model(RandomForestRegressor(2).fit(X, y))).fit(X, y)
    with pytest.raises(InputError, match=r"max_disagreement must be in \[0, 1\), got 5\. Did you mean 0\.05"):
        EarlyExitClassifier(fitted, max_disagreement=5).fit(X, y)
    with pytest.raises(InputError, match="knows the budgets max_disagreement, not 'max_steps'"):
        EarlyExitClassifier(fitted, **WITHOUT_PROMISE).fit(X, y).predict(X, max_steps=4)
    with pytest.raises(NotFittedError):
        EarlyExitClassifier(fitted).predict(X)
    with pytest.raises(ValueError, match="requires y to be passed"):
        AnytimeClassifier(fitted).fit(X)
    for size in (0, 1.5, 3000, "20 %", True):
        with pytest.raises(InputError, match="calibration_size must be a share between 0 and 1, or a number of rows"):
            AnytimeClassifier(calibration_size=size).fit(X, y)
    with pytest.raises(InputError, match="leaves none of n_samples=6 rows to calibrate on"):
        AnytimeClassifier(calibration_size=0.1).fit(X[:6], [0, 1, 2, 0, 1, 2])
    with pytest.raises(UnsupportedModelError, match=r"make_pipeline\(pipeline\[:-1\], EarlyExitClassifier\(pipeline"):
        EarlyExitClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)


def test_few_predictors_are_kept_however_many_budgets_are_asked_for(fitted, rows):
    X, y, X_new, _ = rows
    frugal = FeatureBudgetClassifier(FrozenEstimator(fitted)).fit(X[1500:2000], y[1500:2000])
    costs = np.linspace(1, 7, 80)
    mean_costs = [frugal.cost(X_new[:50], max_cost=cost).mean() for cost in costs]
    assert mean_costs[0] < mean_costs[-1]
    assert len(frugal._by_budget) < 40
    assert frugal.cost(X_new[:50], max_cost=costs[0]).mean() == mean_costs[0]
