"""IsolationForest against scikit-learn."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

import scurry
from scurry.errors import InputError
from support.sklearn_models import make_data
from support.wrapper_models import ISOLATION, fit, hard_rows


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
