"""EarlyExitRegressor: scikit-learn's rules, its budget, and what it promises."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import scurry
from scurry import EarlyExitRegressor
from scurry.errors import InputError
from scurry.promises import Values


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=len(X))


@pytest.mark.filterwarnings("ignore:.*every tree is evaluated:UserWarning")
@parametrize_with_checks([EarlyExitRegressor(RandomForestRegressor(5)), EarlyExitRegressor(max_error=1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model", [GradientBoostingRegressor(random_state=0), RandomForestRegressor(30, random_state=0)]
)
def test_it_keeps_a_quarter_of_the_rmse(rows, model):
    X, y = rows
    fast = EarlyExitRegressor(model, calibration_size=0.4, random_state=0).fit(X[:3000], y[:3000])
    promise = fast.predictor_.certificate.promise
    full = fast.estimator_.predict(X[3000:])
    rmse = np.sqrt(np.mean((full - y[3000:]) ** 2))
    assert promise.max_error == pytest.approx(rmse / 4, rel=0.2)
    run = fast.run(X[3000:])
    assert run.mean_trees < 0.9 * fast.forest_.n_trees
    assert (np.abs(run.labels - full) > promise.max_error).mean() < 0.08
    assert np.sqrt(np.mean((fast.predict(X[3000:]) - y[3000:]) ** 2)) < 1.04 * rmse
    assert fast.score(X[3000:], y[3000:]) > 0.5
    # Rows that measured the RMSE certify nothing.
    assert fast.predictor_.certificate.n_rows == 960


def test_a_budget_given_later_calibrates_again(rows):
    X, y = rows
    model = GradientBoostingRegressor(random_state=0).fit(X[:1000], y[:1000])
    fast = EarlyExitRegressor(model, max_error=0.2, random_state=0).fit(X[1000:3000])
    assert fast.predictor_.certificate.promise == Values(0.2)
    loose = fast.run(X[3000:], max_error=0.6)
    assert loose.mean_trees < fast.run(X[3000:]).mean_trees
    assert fast.predict(X[3000:], max_error=0.6).tolist() == loose.labels.tolist()
    with pytest.raises(InputError, match="max_error is EarlyExitRegressor's"):
        fast.predict(X, max_disagreement=0.1)


def test_frames_and_arrays_give_the_same_answers(rows):
    X, y = rows
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names).assign(d=pd.Categorical(np.where(X[:, 3] > 0, "up", "down")))
    model = LGBMRegressor(n_estimators=40, verbose=-1, n_jobs=1)
    fast = EarlyExitRegressor(model, calibration_size=0.4, random_state=0).fit(frame[:3000], y[:3000])
    expected = fast.predict(frame[3000:])
    assert np.array_equal(fast.predict(pl.from_pandas(frame[3000:])), expected)
    assert np.abs(expected - fast.estimator_.predict(frame[3000:])).mean() < 0.5


def test_cross_validation_clones_it(rows):
    X, y = rows
    scores = cross_val_score(EarlyExitRegressor(GradientBoostingRegressor(), random_state=0), X[:1500], y[:1500], cv=3)
    assert (scores > 0.4).all()


def test_misuse(rows):
    X, y = rows
    with pytest.raises(InputError, match="use EarlyExitClassifier"):
        EarlyExitRegressor(RandomForestClassifier(3)).fit(X[:100], y[:100])
    fitted = GradientBoostingRegressor(n_estimators=5).fit(X[:300], y[:300])
    with pytest.raises(InputError, match="max_error is needed"):
        EarlyExitRegressor(fitted).fit(X[300:800])
    with pytest.raises(InputError, match="must be a regressor"):
        EarlyExitRegressor("x").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        EarlyExitRegressor(GradientBoostingRegressor()).fit(X[:100], np.full(100, np.nan))
    with pytest.raises(InputError, match="max_error must be a number above 0"):
        EarlyExitRegressor(fitted, max_error=0).fit(X[300:800], y[300:800])


def test_what_cannot_be_promised_is_evaluated_in_full(rows):
    X, y = rows
    with pytest.warns(UserWarning, match="every tree is evaluated"):
        few = EarlyExitRegressor(GradientBoostingRegressor(n_estimators=5), max_error=0.1, max_share=0.001).fit(
            X[:200], y[:200]
        )
    assert few.run(X).mean_trees == 5
    same = EarlyExitRegressor(GradientBoostingRegressor(n_estimators=5), max_error=0.1).fit(X[:200], np.ones(200))
    assert "same value" in same.predictor_.certificate.why
    assert isinstance(same.predictor_, scurry.Predictor)
    assert (same.predict(X) == 1).all()
