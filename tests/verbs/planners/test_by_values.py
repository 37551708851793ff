"""Certified early exit on values: what is certified is what runs, for every kind of model."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from xgboost import XGBClassifier, XGBRegressor

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.promises import Labels, Values

N = 900


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=len(X))
    return X, y.astype(np.float64)


def regressors():
    return {
        "lightgbm": LGBMRegressor(n_estimators=60, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1),
        "xgboost": XGBRegressor(n_estimators=60, max_depth=4, learning_rate=0.1, n_jobs=1),
        "boosting": GradientBoostingRegressor(n_estimators=60, random_state=0),
        "histogram": HistGradientBoostingRegressor(max_iter=60, loss="poisson", random_state=0),
        "forest": RandomForestRegressor(40, random_state=0, min_samples_leaf=3),
    }


def classifiers():
    return {
        "lightgbm": LGBMClassifier(n_estimators=60, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1),
        "xgboost": XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.1, n_jobs=1),
        "boosting": GradientBoostingClassifier(n_estimators=60, random_state=0),
        "forest": RandomForestClassifier(40, random_state=0, min_samples_leaf=3),
    }


@pytest.mark.parametrize("name", regressors())
def test_certified_values_are_those_that_run(rows, name):
    X, y = rows
    y = y - y.min() if name == "histogram" else y  # with an exponential link
    forest = scurry.from_model(regressors()[name].fit(X[:N], y[:N]))
    fit, cal, new = X[N : N + 1500], X[N + 1500 : N + 3500], X[N + 3500 :]
    error = 0.3 * np.std(forest.predict(cal))
    fast = scurry.early_exit(forest, cal, y[N + 1500 : N + 3500], X_fit=fit, promise=Values(error, 0.1))
    certificate, measured = fast.certificate, fast.certificate.measured
    run = fast.run(cal)
    missed = np.abs(run.labels - forest.predict(cal))
    assert certificate.n_rows == len(cal)
    assert certificate.n_broken == (missed > error).sum()
    assert certificate.bound <= 0.1
    assert certificate.method == "sentinels"
    assert measured.mean_trees == pytest.approx(run.mean_trees, rel=1e-12)
    assert measured.mean_error == pytest.approx(missed.mean(), rel=1e-6)
    assert measured.largest_error == pytest.approx(missed.max(), rel=1e-6)
    assert run.mean_trees < 0.9 * forest.n_trees
    assert np.array_equal(run.labels[run.complete], forest.predict(cal)[run.complete])
    targets = y[N + 1500 : N + 3500]
    assert measured.full_rmse == pytest.approx(np.sqrt(np.mean((forest.predict(cal) - targets) ** 2)))
    assert measured.fast_rmse == pytest.approx(np.sqrt(np.mean((run.labels - targets) ** 2)))
    assert (np.abs(fast.predict(new) - forest.predict(new)) > error).mean() < 0.13


@pytest.mark.parametrize("name", classifiers())
@pytest.mark.parametrize("of", ["probability", "log-odds"])
def test_certified_probabilities_are_those_that_run(rows, name, of):
    X, y = rows
    labels = np.where(y > 0.3, "yes", "no")
    if name == "xgboost":
        labels = (y > 0.3).astype(int)
    forest = scurry.from_model(classifiers()[name].fit(X[:N], labels[:N]))
    cal = X[N : N + 3000]
    promise = Values(0.05 if of == "probability" else 0.3, 0.1, of=of)
    if name == "forest" and of == "log-odds":
        with pytest.raises(InputError, match="log-odds are infinite"):
            scurry.early_exit(forest, cal, promise=promise)
        return
    fast = scurry.early_exit(forest, cal[1200:], labels[N + 1200 : N + 3000], X_fit=cal[:1200], promise=promise)
    run, p = fast.run(cal[1200:]), forest.predict_proba(cal[1200:])[:, 1]
    found = fast.predict_proba(cal[1200:])[:, 1]
    missed = np.abs(found - p) if of == "probability" else np.abs(np.log(found / (1 - found)) - np.log(p / (1 - p)))
    assert abs(fast.certificate.n_broken - (missed > promise.max_error).sum()) <= (0 if of == "probability" else 1)
    assert run.mean_trees < 0.95 * forest.n_trees
    assert fast.certificate.measured.fast_auc == pytest.approx(fast.certificate.measured.full_auc, abs=0.02)
    # A row that stopped has the label of its probability.
    stopped = ~run.complete
    assert np.array_equal((run.labels == forest.classes[1])[stopped], (found > 0.5)[stopped])


def test_without_rows_to_fit_half_of_the_rows_do(rows):
    X, y = rows
    model = regressors()["lightgbm"].fit(X[:N], y[:N])
    fast = scurry.early_exit(model, X[N : N + 2000], promise=Values(0.4))
    assert fast.certificate.n_rows == 1000
    assert fast.certificate.n_fit_rows == 1000
    again = scurry.early_exit(model, X[N : N + 2000], promise=Values(0.4))
    assert np.array_equal(fast.plan.stop.lanes, again.plan.stop.lanes)
    assert np.array_equal(fast.plan.stop.limits, again.plan.stop.limits)


def test_files_and_threads_do_not_change_answers(rows, tmp_path):
    X, y = rows
    model = regressors()["forest"].fit(X[:N], y[:N])
    fast = scurry.early_exit(model, X[N : N + 2000], promise=Values(0.3))
    fast.save(tmp_path / "fast.scurry")
    again = scurry.load(tmp_path / "fast.scurry")
    assert again.certificate.to_json() == fast.certificate.to_json()
    expected = fast.predict(X)
    assert np.array_equal(again.predict(X), expected)
    assert np.array_equal(fast.predict(X, n_threads=2), expected)
    assert np.array_equal([fast.predict(X[i : i + 1])[0] for i in range(20)], expected[:20])


def test_without_a_confidence_the_limit_holds_for_the_rows_themselves(rows):
    X, y = rows
    forest = scurry.from_model(regressors()["lightgbm"].fit(X[:N], y[:N]))
    cal = X[N : N + 1000]
    fast = scurry.early_exit(forest, cal, promise=Values(0.3, 0.1, confidence=None))
    assert fast.certificate.n_rows == 0
    assert fast.certificate.bound is None
    assert (np.abs(fast.predict(cal) - forest.predict(cal)) > 0.3).mean() <= 0.1


def test_groups_are_certified_by_one_row_each(rows):
    X, y = rows
    model = regressors()["forest"].fit(X[:N], y[:N])
    fast = scurry.early_exit(model, X[N : N + 2000], groups=np.arange(2000) // 4, promise=Values(0.3, 0.1))
    assert fast.certificate.n_rows == 250
    assert fast.certificate.unit == "group"
    assert fast.certificate.promise.holds == "groups"


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return scurry.from_model(regressors()["boosting"].fit(X[:N], y[:N]))


class TestMisuse:
    """Mistakes are refused with an error that says what to do."""

    def test_regressors_need_a_promise_about_values(self, rows, regressor):
        with pytest.raises(InputError, match=r"regressor; pass promise=scurry.promises.Values"):
            scurry.early_exit(regressor, rows[0])
        with pytest.raises(InputError, match=r"Values"):
            scurry.early_exit(regressor, rows[0], promise=Labels(0.01))

    def test_what_is_compared_must_fit_the_model(self, rows, regressor):
        X, y = rows
        with pytest.raises(InputError, match=r'promise Values.*of="value"'):
            scurry.early_exit(regressor, X, promise=Values(0.1, of="probability"))
        model = classifiers()["boosting"].fit(X[:N], y[:N] > 0)
        with pytest.raises(InputError, match='of="probability" or of="log-odds"'):
            scurry.early_exit(model, X, promise=Values(0.1))

    def test_more_than_two_classes(self, rows):
        X, y = rows
        model = RandomForestClassifier(5, random_state=0).fit(X[:N], np.digitize(y[:N], [-1, 1]))
        with pytest.raises(InputError, match="3 classes; promise Labels"):
            scurry.early_exit(model, X, promise=Values(0.1, of="probability"))

    def test_constant_values(self, rows):
        X, _ = rows
        model = GradientBoostingRegressor(n_estimators=5).fit(X[:N], np.ones(N))
        with pytest.raises(InputError, match="the same value"):
            scurry.early_exit(model, X, promise=Values(0.1))

    def test_missing_targets(self, rows, regressor):
        X, y = rows
        with pytest.raises(InputError, match="y_cal has missing or infinite values"):
            scurry.early_exit(regressor, X, np.where(np.arange(len(y)) == 3, np.nan, y), promise=Values(0.1))

    def test_too_few_rows(self, rows, regressor):
        with pytest.raises(InfeasibleError, match="at least 597 calibration rows") as error:
            scurry.early_exit(regressor, rows[0][N : N + 100], promise=Values(0.1, 0.01))
        assert error.value.n_rows_needed == 597

    def test_no_rows(self, regressor):
        with pytest.raises(InputError, match="X_cal is needed"):
            scurry.early_exit(regressor, promise=Values(0.1))

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"method": "qwyc"}, "method"),
            ({"costs": "steps"}, "costs"),
            ({"keep_scores": "positive"}, "keep_scores"),
            ({"shuffle": "row"}, "shuffle"),
            ({"by": np.zeros(6000)}, "by"),
            ({"max_disagreement": 0.1}, "promise"),
        ],
    )
    def test_options_of_other_promises(self, rows, regressor, options, named):
        with pytest.raises(InputError) as error:
            scurry.early_exit(regressor, rows[0], promise=Values(0.1), **options)
        assert error.value.argument == named
