"""Bagged models against scikit-learn.

Calibrated models against scikit-learn.
"""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import scurry
from scurry.errors import InputError, UnsupportedModelError
from support.sklearn_models import make_data
from support.wrapper_models import (
    ADABOOST,
    BAGGED,
    BOOSTED,
    CALIBRATED,
    COARSE,
    FOREST,
    ISOLATION,
    ONE_VS_REST,
    REGRESSORS,
    THRESHOLDS,
    VOTES_OF_TREES,
    VOTING,
    calibrate,
    check_same,
    fit,
    hard_rows,
    ulps,
    vote,
)

XGB = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
LGBM = LGBMClassifier(n_estimators=5, n_jobs=1, min_child_samples=5, verbose=-1)


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", BAGGED)
def test_labels_are_the_models(name, task):
    # Exponentials of softmax are computed by another library.
    check_same(*fit(BAGGED[name], task), n_ulps=4 if task == "multi" and name in ("boosted", "hist") else 0)


@pytest.mark.parametrize("name", ["bagged trees", "bagged forests"])
def test_values_are_the_models(name):
    model, X = fit(REGRESSORS[name], "regression")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert ulps(model.predict(rows), forest.predict(rows)) == 0


def test_means_of_float32_values():
    xgboost = pytest.importorskip("xgboost")
    X, y = make_data("regression")
    inside = xgboost.XGBRegressor(n_estimators=5, max_depth=3)
    model = BaggingRegressor(inside, n_estimators=7, random_state=0).fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(model).predict(X), model.predict(X))


def test_bagged_trees_are_a_plain_forest():
    model, X = fit(BAGGED["trees of some columns"], "multi")
    forest = scurry.from_model(model)
    assert forest.wrapper is None
    assert forest.has_votes
    assert forest.n_features == X.shape[1]


def test_missing_values_and_classes_that_some_trees_never_saw():
    X, y = make_data("missing", 240)
    # A pipeline takes no weights of rows, so that each gets rows of its own.
    inside = make_pipeline("passthrough", DecisionTreeClassifier())
    model = BaggingClassifier(inside, n_estimators=12, max_samples=4, random_state=0).fit(X, y)
    assert any(len(tree.classes_) < 3 for tree in model.estimators_)
    check_same(model, X, nan=True)


def test_models_that_miss_classes_are_averaged_over_all():
    X, y = make_data("multi", 240)
    inside = make_pipeline("passthrough", RandomForestClassifier(3, random_state=0))
    model = BaggingClassifier(inside, n_estimators=5, max_samples=6, random_state=3).fit(X, y)
    assert any(len(forest.classes_) < 4 for forest in model.estimators_)
    check_same(model, X)


def test_pipelines_inside():
    X, y = make_data("binary", 240)
    inside = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))
    model = BaggingClassifier(inside, n_estimators=3, random_state=0).fit(X, y)
    forest = check_same(model, X)
    assert forest.front is None
    assert forest.wrapper is None


def test_what_is_no_tree_is_refused():
    X, y = make_data("binary", 60)
    with pytest.raises(UnsupportedModelError, match=r"cannot import a LogisticRegression"):
        scurry.from_model(BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="no predict_proba"):
        scurry.from_model(BaggingClassifier(LinearSVC(), n_estimators=2).fit(X, y))


def test_pipelines_of_some_columns_are_refused():
    X, y = make_data("binary", 60)
    inside = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))
    model = BaggingClassifier(inside, n_estimators=2, max_features=0.5).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"reads other columns.*max_features=1.0"):
        scurry.from_model(model)


def test_names_of_a_table():
    import pandas as pd

    X, y = make_data("binary", 120)
    table = pd.DataFrame(X, columns=list("abcdef"))
    model = BaggingClassifier(n_estimators=3, max_features=0.5, random_state=0).fit(table, y)
    forest = scurry.from_model(model)
    assert forest.feature_names == tuple("abcdef")
    np.testing.assert_array_equal(forest.predict(table[list("fedcba")]), model.predict(table))


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", VOTING)
def test_labels_of_a_vote_are_the_models(name, task):
    check_same(*fit(VOTING[name], task), n_ulps=4 if task == "multi" and name == "soft with weights" else 0)


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", VOTES_OF_TREES)
def test_votes_of_trees_are_sums(name, task):
    model, X = fit(VOTES_OF_TREES[name], task)
    forest = check_same(model, X)
    assert forest.wrapper.members == ()
    assert forest.has_votes == (name == "alike")
    shares = forest.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    voted = np.array([tree.predict(X) for tree in model.estimators_])
    weights = np.ones(9) if model.weights is None else np.array(model.weights)
    for at in range(len(model.classes_)):
        np.testing.assert_allclose(shares[:, at], weights @ (voted == at) / weights.sum())


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_models_of_different_libraries(voting, task):
    # They compare float32 and float64 numbers, by < and by <=.
    check_same(*fit(vote(FOREST, XGB, LGBM, voting=voting), task), n_ulps=4)


def test_float32_probabilities_are_averaged_in_float32():
    model, X = fit(vote(XGB, XGBClassifier(n_estimators=2, n_jobs=1), voting="soft"), "binary")
    forest = check_same(model, X)
    assert forest.wrapper.dtype == "float32"


def test_votes_that_tie():
    model, X = fit(vote(COARSE, FOREST, voting="hard"), "multi")
    forest = check_same(model, X)
    votes = forest.predict_proba(X)
    assert (np.sort(votes, axis=1)[:, -2:] == 0.5).all(axis=1).any()  # some do


def test_values_of_a_mean_are_the_models():
    model, X = fit(REGRESSORS["voting"], "regression")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert ulps(model.predict(rows), forest.predict(rows)) <= 1


def test_missing_values():
    X, y = make_data("missing", 240)
    codes = np.unique(y, return_inverse=True)[1]
    check_same(vote(FOREST, XGB, voting="soft").fit(X, codes), X, nan=True)


def test_integers_that_libraries_round_differently_are_refused():
    X, y = make_data("binary", 120)
    model = vote(LGBM, HistGradientBoostingClassifier(max_iter=2), voting="soft").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="round integers to different floats"):
        scurry.from_model(model)


def test_integers_that_float32_does_not_hold():
    rng = np.random.default_rng(0)
    X = rng.integers(2**24, 2**24 + 40, (300, 3))
    y = (X[:, 0] + X[:, 1] > 2**25 + 40).astype(int)
    model = vote(FOREST, HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3), voting="soft").fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(model).predict(X), model.predict(X))


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", ADABOOST)
def test_labels_of_boosted_trees_are_the_models(name, task):
    forest = check_same(*fit(ADABOOST[name], task))
    assert forest.n_trees == ADABOOST[name].n_estimators
    assert not forest.wrapper.members


@pytest.mark.parametrize("task", ["binary", "multi"])
def test_the_decision_function(task):
    model, X = fit(ADABOOST["trees"], task)
    found, wanted = scurry.from_model(model).decision_values(X), model.decision_function(X)
    np.testing.assert_array_equal(found[:, 0] if task == "binary" else found, wanted)


@pytest.mark.parametrize("task", ["binary", "multi"])
def test_boosting_that_ended_early(task):
    X, _ = make_data(task, 240)
    y = (X[:, 0] > 0).astype(int) + (X[:, 0] > 1) * (task == "multi")
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0).fit(X, y)
    assert len(model.estimators_) < len(model.estimator_weights_)
    check_same(model, X)


def test_weights_that_cancel_out():
    # Two stumps of equal weight that contradict each other: a score of exactly zero is the first class.
    X, y = make_data("binary", 120)
    model = AdaBoostClassifier(n_estimators=2, random_state=0).fit(X, y)
    model.estimator_weights_ = np.ones(2)
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    assert (model.decision_function(rows) == 0).any()
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))


def test_what_is_refused():
    X, y = make_data("binary", 120)
    with pytest.raises(UnsupportedModelError, match=r"several trees.*boost decision trees"):
        scurry.from_model(AdaBoostClassifier(FOREST, n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="weighted median"):
        scurry.from_model(AdaBoostRegressor(n_estimators=2).fit(X, y))
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2).fit(X, y)
    model.estimator_weights_ = np.zeros(2)
    with pytest.raises(UnsupportedModelError, match="add up to 0"):
        scurry.from_model(model)


@pytest.mark.parametrize("name", ISOLATION)
@pytest.mark.parametrize("nan", [False, True])
def test_labels_and_scores_are_the_models(name, nan):
    model, X = fit(ISOLATION[name], "missing" if nan else "binary")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X, nan=nan)
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(forest.score_samples(rows), model.score_samples(rows))
    np.testing.assert_array_equal(forest.decision_values(rows)[:, 0], model.decision_function(rows))


def test_an_offset_that_rows_meet_exactly():
    model, X = fit(ISOLATION["usual"], "binary")
    for score in np.unique(model.score_samples(X))[::40]:
        for offset in (score, np.nextafter(score, 0), np.nextafter(score, -1)):
            model.offset_ = offset
            np.testing.assert_array_equal(scurry.from_model(model).predict(X), model.predict(X))


def test_early_exit_at_the_contamination_threshold():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(2000, 4)), 5 * rng.normal(size=(300, 4))])
    model = IsolationForest(n_estimators=30, contamination=0.1, random_state=0).fit(X[::2])
    fast = scurry.early_exit(model, X, max_disagreement=0.05, random_state=0)
    run = fast.run(X)
    assert run.mean_trees < 20
    assert (run.labels != model.predict(X)).mean() < 0.05
    with pytest.raises(InputError, match=r"no probabilities; use forest\.score_samples"):
        fast.predict_proba(X)
    with pytest.raises(InputError, match="score_samples is for an IsolationForest"):
        scurry.Forest.from_trees(
            [{name: [-1] for name in ("feature", "threshold", "left", "right", "value")}], n_features=1
        ).score_samples([[0.0]])


def test_trees_of_a_single_row():
    X, _ = make_data("binary", 20)
    model = IsolationForest(n_estimators=3, max_samples=1, random_state=0).fit(X)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", ONE_VS_REST)
def test_labels_of_one_vs_rest_are_the_models(name, task):
    check_same(*fit(ONE_VS_REST[name], task), n_ulps=1)


def test_float32_probabilities():
    check_same(*fit(OneVsRestClassifier(XGBClassifier(n_estimators=4, n_jobs=1)), "multi"))


def test_responses_that_tie():
    model, X = fit(ONE_VS_REST["forests"], "multi")
    forest = check_same(model, X)
    shares = np.array([inside.predict_proba(X)[:, 1] for inside in model.estimators_]).T
    tied = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) > 1
    if not tied.any():
        # Trees of one leaf answer alike for every row.
        X, y = np.zeros((90, 6)), np.repeat([0, 1, 2], 30)
        model = OneVsRestClassifier(COARSE).fit(X, y)
        forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


def test_what_is_refused_of_one_vs_rest():
    X, y = make_data("binary", 120)
    with pytest.raises(UnsupportedModelError, match="3 targets at once"):
        scurry.from_model(OneVsRestClassifier(COARSE).fit(X, np.c_[y, 1 - y, y]))


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_labels_are_the_models(name, task):
    # Models that are boosted for many classes have a softmax of another library, and steep maps enlarge its last bits.
    check_same(*fit(CALIBRATED[name], task), n_ulps=1e4 if (name, task) == ("voting", "multi") else 0)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_float32_responses(method):
    for task in ("binary", "multi"):
        check_same(*fit(calibrate(XGB, method, ensemble=False), task))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("inside", [FOREST, BOOSTED])
def test_one_model_of_two_classes_decides_by_its_own_score(inside, method):
    model, _ = fit(calibrate(inside, method, ensemble=False), "binary")
    forest = scurry.from_model(model)
    assert not forest.wrapper.decides
    # The label changes at the threshold, and nowhere else.
    at = forest.decision_threshold
    scores = np.array([np.nextafter(at, -np.inf), at])[:, None]
    assert forest.wrapper.calibrate(scores, np.arange(2)).argmax(axis=1).tolist() == [0, 1]


def test_a_frozen_model():
    X, y = make_data("binary", 240)
    inside = BOOSTED.fit(X[:120], y[:120])
    check_same(CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic").fit(X[120:], y[120:]), X)


def test_a_map_that_falls_needs_the_members():
    X, y = make_data("binary", 240)
    inside = BOOSTED.fit(X[:120], 1 - y[:120])  # worse than a guess
    model = CalibratedClassifierCV(FrozenEstimator(inside), method="sigmoid").fit(X[120:], y[120:])
    forest = check_same(model, X)
    assert forest.wrapper.decides


def test_calibration_of_few_rows_ties_at_one_half():
    # Isotonic maps of few rows have plateaus of simple shares, 1/2 among them.
    for seed in range(12):
        X, y = make_data("binary", 60, seed)
        inside = FOREST.fit(X[:30], y[:30])
        check_same(
            CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic").fit(X[30:], y[30:]), X, n_rows=100
        )


@pytest.mark.parametrize("name", THRESHOLDS)
def test_labels_by_a_threshold_are_the_models(name):
    check_same(*fit(THRESHOLDS[name], "binary"))


@pytest.mark.parametrize("inside", [COARSE, BOOSTED, XGBClassifier(n_estimators=4, n_jobs=1)])
def test_thresholds_that_rows_meet_exactly(inside):
    model, X = fit(FixedThresholdClassifier(inside), "binary")
    shares = np.unique(model.predict_proba(X)[:, 1])
    for share in shares[:: max(len(shares) // 4, 1)].tolist():
        for threshold in (share, np.nextafter(share, 1), np.nextafter(share, 0)):
            model.threshold = threshold
            check_same(model, X, n_rows=20)
            model.threshold = float(threshold)
            check_same(model, X, n_rows=20)


def test_a_plain_model_decides_by_its_own_score():
    for name in ("forest", "boosted", "boosted, first class", "scores, first class", "tuned"):
        forest = scurry.from_model(fit(THRESHOLDS[name], "binary")[0])
        assert not forest.wrapper.decides


def test_around_a_calibrated_model():
    model, X = fit(FixedThresholdClassifier(calibrate(BOOSTED, "sigmoid"), threshold=0.2), "binary")
    assert check_same(model, X).wrapper.decides
