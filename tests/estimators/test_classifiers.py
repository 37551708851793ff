"""The estimators: scikit-learn's own checks, and the budgets."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from scurry import AbortFlag, AnytimeClassifier, EarlyExitClassifier, FeatureBudgetClassifier, early_exit
from scurry.errors import InputError
from scurry.promises import Accuracy, LabelsPerClass

WITHOUT_PROMISE = {"max_disagreement": 0.05, "confidence": None}


def _expect_failures(estimator):
    if getattr(estimator, "candidates", None) == "given":
        return {"check_class_weight_classifiers": "a given estimator grows as it is; weights only steer its pruning"}
    return {}


@parametrize_with_checks(
    [
        EarlyExitClassifier(RandomForestClassifier(5)),
        EarlyExitClassifier(RandomForestClassifier(5), **WITHOUT_PROMISE),
        EarlyExitClassifier(GradientBoostingClassifier(n_estimators=5), **WITHOUT_PROMISE),
        AnytimeClassifier(RandomForestClassifier(5)),
        AnytimeClassifier(HistGradientBoostingClassifier(max_iter=5), max_steps=7),
        FeatureBudgetClassifier(RandomForestClassifier(5), candidates="given"),
        FeatureBudgetClassifier(RandomForestClassifier(5), max_cost=2, candidates=["trees"], n_folds=2),
    ],
    expected_failed_checks=_expect_failures,
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "max_disagreement=0.001 cannot be certified", UserWarning)
        check(estimator)


def test_the_promise_and_other_budgets_at_prediction(rows):
    X, y, X_new, _ = rows
    model = EarlyExitClassifier(RandomForestClassifier(51, max_depth=8), max_disagreement=0.01, random_state=0)
    model.fit(X, y)
    runs = [model.run(X_new, max_disagreement=budget) for budget in (None, 0.01, 0.2)]
    assert runs[0].mean_trees == runs[1].mean_trees > 1.5 * runs[2].mean_trees
    assert (model.predict(X_new, max_disagreement=0.2) == runs[2].labels).all()
    assert (runs[0].labels != model.estimator_.predict(X_new)).mean() < 0.02
    assert (model.predict_proba(X_new, max_disagreement=0.2) != model.predict_proba(X_new)).any()


def test_what_cannot_be_certified_evaluates_every_tree_and_says_so(rows):
    X, y, X_new, _ = rows
    model = EarlyExitClassifier(RandomForestClassifier(11), max_disagreement=1e-4, random_state=0)
    with pytest.warns(UserWarning, match=r"Pass max_disagreement=0\.0\d+, at least \d+ calibration rows"):
        model.fit(X, y)
    assert model.run(X_new).mean_trees == 11
    assert (model.predict(X_new) == model.estimator_.predict(X_new)).all()
    assert "0.0001 cannot be certified" in str(model.predictor_.summary())


def test_steps_and_time_as_parameters_and_at_prediction(rows):
    X, y, X_new, y_new = rows
    model = AnytimeClassifier(RandomForestClassifier(11, max_depth=5), max_steps=12, random_state=0).fit(X, y)
    assert (model.run(X_new).steps == 12).all()
    assert (model.run(X_new, max_steps=3).steps == 3).all()
    assert (model.predict(X_new, max_steps=10**6) == model.estimator_.predict(X_new)).all()
    assert 0.7 < (model.predict(X_new, max_steps=12) == y_new).mean() == model.score(X_new, y_new)
    slow = clone(model).set_params(max_steps=None, time_us=0.0).fit(X, y)
    assert set(slow.run(X_new).stop_reason) == {"time"}
    assert set(slow.run(X_new, time_us=1e9).stop_reason) == {"complete"}
    flag = AbortFlag()
    flag.set()
    assert set(slow.run(X_new, time_us=1e9, abort=flag).stop_reason) == {"abort"}


@pytest.mark.parametrize(
    "model",
    [
        EarlyExitClassifier(RandomForestClassifier(11), max_disagreement=0.02, random_state=0),
        AnytimeClassifier(RandomForestClassifier(5), max_steps=9, random_state=0),
        FeatureBudgetClassifier(RandomForestClassifier(5), max_cost=3, candidates=["trees"], random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_pickles(rows, model):
    X, y, X_new, _ = rows
    model = clone(model).fit(X, y)
    model.predict(X_new)
    received = pickle.loads(pickle.dumps(model))
    assert (received.run(X_new).steps == model.run(X_new).steps).all()
    assert (received.predict_proba(X_new) == model.predict_proba(X_new)).all()


def test_pipelines():
    """Steps before the model are folded into its trees, so that rows stay raw: with missing values, say."""
    X, y = make_classification(900, random_state=0)
    X[::7, 0] = np.nan
    steps = (SimpleImputer(), StandardScaler(), RandomForestClassifier(15, max_depth=4, random_state=0))
    pipeline = make_pipeline(*steps).fit(X[:300], y[:300])
    search = GridSearchCV(make_pipeline(*steps), {"standardscaler__with_mean": [True]}, cv=2).fit(X[:300], y[:300])
    for wrapped in (pipeline, FrozenEstimator(pipeline), search):
        fast = EarlyExitClassifier(wrapped, max_disagreement=0.0, confidence=None).fit(X[300:], y[300:])
        assert fast.forest_.front is None
        assert (fast.forest_.predict(X) == wrapped.predict(X)).all()
        assert (fast.predict(X[300:]) == wrapped.predict(X[300:])).mean() > 0.99
    frugal = FeatureBudgetClassifier(FrozenEstimator(pipeline)).fit(X[300:], y[300:])
    assert (frugal.predict(X) == frugal.predictor_.predict(X)).all()
    unfitted = EarlyExitClassifier(make_pipeline(*steps), **WITHOUT_PROMISE, random_state=0).fit(X, y)
    assert (unfitted.forest_.predict(X) == unfitted.estimator_.predict(X)).all()


def test_a_pipeline_that_cannot_be_folded_stays_in_front():
    X, y = make_classification(900, random_state=0)
    pipeline = make_pipeline(PCA(4), RandomForestClassifier(15, max_depth=4, random_state=0)).fit(X[:300], y[:300])
    fast = EarlyExitClassifier(pipeline, max_disagreement=0.0, confidence=None).fit(X[300:], y[300:])
    assert "'pca' is a PCA" in str(fast.predictor_.summary())
    assert (fast.forest_.predict(X) == pipeline.predict(X)).all()
    assert (fast.predict(X[300:]) == pipeline.predict(X[300:])).mean() > 0.99
    anytime = AnytimeClassifier(pipeline).fit(X[300:], y[300:])
    assert (anytime.predict(X) == pipeline.predict(X)).all()
    with pytest.raises(InputError, match=r"cannot count what raw columns cost.*pipeline"):
        FeatureBudgetClassifier(pipeline).fit(X[300:], y[300:])


def test_options_of_early_exit(rows):
    X, y, X_new, _ = rows
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:500], y[:500])
    options = {"max_disagreement": 0.05, "method": "qwyc", "threshold": 0.2, "costs": np.arange(1.0, 21.0)}
    fast = EarlyExitClassifier(FrozenEstimator(model), random_state=0, keep_scores="positive", **options)
    fast.fit(X[500:], y[500:])
    assert fast.predictor_.certificate.threshold == 0.2
    full = model.predict_proba(X_new)[:, 1]
    assert ((full >= 0.2) != (fast.predict(X_new) == model.classes_[1])).mean() < 0.06
    assert ((full >= 0.2) != (model.predict(X_new) == model.classes_[1])).any()
    run = fast.run(X_new)
    assert (run.trees[run.labels == model.classes_[1]] == 20).all(), "they have their full score"
    assert fast.predictor_.certificate.exits.mean_cost is not None
    assert clone(fast).get_params()["threshold"] == 0.2


def test_orders_and_bins_of_early_exit(rows):
    X, y, _, _ = rows
    model = FrozenEstimator(GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:500], y[:500]))
    backwards = np.arange(20)[::-1]
    fast = EarlyExitClassifier(model, max_disagreement=0.05, method="qwyc", order=backwards, random_state=0)
    np.testing.assert_array_equal(fast.fit(X[500:], y[500:]).predictor_.plan.order, backwards)
    asked = {"method": "fan", "order": "natural", "bin_width": 0.4, "gamma": 1.0, "confidence": None}
    fast = EarlyExitClassifier(model, max_disagreement=0.05, random_state=0, **asked).fit(X[500:], y[500:])
    same = early_exit(model, X[500:], y[500:], max_disagreement=0.05, **asked)
    np.testing.assert_array_equal(fast.run(X).trees, same.run(X).trees)
    assert {name: clone(fast).get_params()[name] for name in asked} == asked


def test_a_threshold_holds_where_every_tree_is_evaluated(rows):
    X, y, X_new, _ = rows
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:500], y[:500])
    fast = EarlyExitClassifier(FrozenEstimator(model), threshold=0.15, max_disagreement=1e-6, random_state=0)
    with pytest.warns(UserWarning, match="every tree is evaluated"):
        fast.fit(X[500:600], y[500:600])
    expected = model.classes_[(model.predict_proba(X_new)[:, 1] >= 0.15).astype(int)]
    assert (fast.predict(X_new) == expected).all()
    assert (fast.predict(X_new) != model.predict(X_new)).any()


class TestPromises:
    X, y = make_classification(4000, random_state=0)

    def test_a_promise_of_another_kind(self):
        promise = Accuracy(0.03)
        fast = EarlyExitClassifier(GradientBoostingClassifier(n_estimators=20), promise=promise, random_state=0)
        fast.fit(self.X, self.y)
        assert fast.predictor_.certificate.promise == promise
        assert clone(fast).promise == promise
        # A budget at prediction time is one of labels that change.
        assert fast.run(self.X[:100], max_disagreement=0.2).mean_trees <= 20

    def test_classes_are_checked_and_too_few_rows_evaluate_every_tree(self):
        estimator = RandomForestClassifier(15, max_depth=4, random_state=0)
        wrong = EarlyExitClassifier(estimator, promise=LabelsPerClass({"a": 0.1, "b": 0.1}))
        with pytest.raises(ValueError, match="classes of the model"):
            wrong.fit(self.X, self.y)
        few = EarlyExitClassifier(estimator, promise=LabelsPerClass({0: 0.1, 1: 0.001}), random_state=0)
        with pytest.warns(UserWarning, match="more calibration rows"):
            few.fit(self.X, self.y)
        assert few.run(self.X[:50]).mean_trees == 15
