"""Certainty: how far a row is from another label."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.cascades.certainty import ask_cheap, find_lead
from scurry.verbs.options import with_threshold

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)).astype(np.float32)
TWO, THREE = (X[:, 0] + X[:, 1] > 0).astype(int), np.digitize(X[:, 0], [-0.5, 0.5])


@pytest.mark.parametrize("y", [TWO, THREE])
@pytest.mark.parametrize(
    "model", [RandomForestClassifier(7, max_depth=4, random_state=0), GradientBoostingClassifier(n_estimators=6)]
)
def test_answers_are_the_models_and_the_lead_is_that_of_its_probabilities(model, y):
    forest = scurry.from_model(model.fit(X, y))
    said = ask_cheap(scurry.Predictor.full(forest), None, X)
    np.testing.assert_array_equal(said.answers, model.predict(X))
    first, second = np.sort(model.predict_proba(X), axis=1)[:, :-3:-1].T
    np.testing.assert_allclose(said.certainty, first - second, atol=1e-6)


def test_the_lead_ends_where_the_label_changes():
    forest = with_threshold(scurry.from_model(GradientBoostingClassifier(n_estimators=6).fit(X, TWO)), 0.2)
    lead = find_lead(forest, np.array([[0.8, 0.2], [1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.4, 0.6]]))
    np.testing.assert_allclose(lead, [0, 1, 1, 0.5, 0.5], atol=1e-12)


def test_early_exits_answer_with_what_they_have():
    forest = scurry.from_model(RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, TWO))
    fast = scurry.early_exit(forest, X, max_disagreement=0.05, method="qwyc", confidence=None)
    said = ask_cheap(fast, None, X)
    np.testing.assert_array_equal(said.answers, fast.predict(X))
    probabilities = fast.predict_proba(X)
    np.testing.assert_allclose(said.certainty, np.abs(probabilities[:, 1] - probabilities[:, 0]))


def test_a_router_says_how_sure_a_regressor_is():
    from sklearn.ensemble import GradientBoostingRegressor

    router = GradientBoostingClassifier(n_estimators=5).fit(X, TWO)
    model = GradientBoostingRegressor(n_estimators=5).fit(X, X[:, 0])
    said = ask_cheap(scurry.Predictor.full(scurry.from_model(model)), scurry.from_model(router), X)
    np.testing.assert_allclose(said.answers, model.predict(X))
    np.testing.assert_allclose(said.certainty, router.predict_proba(X)[:, 0])


def test_a_calibrated_model_answers_with_its_own_labels_and_probabilities():
    from sklearn.calibration import CalibratedClassifierCV

    model = CalibratedClassifierCV(RandomForestClassifier(5, max_depth=3, random_state=0), cv=2).fit(X, TWO)
    said = ask_cheap(scurry.Predictor.full(scurry.from_model(model)), None, X)
    np.testing.assert_array_equal(said.answers, model.predict(X))
    np.testing.assert_allclose(said.certainty, np.abs(np.diff(model.predict_proba(X), axis=1)[:, 0]), atol=1e-6)
