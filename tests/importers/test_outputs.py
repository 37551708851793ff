"""Models with several targets, of which a forest predicts one."""

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry.errors import InputError, UnsupportedModelError
from support.sklearn_models import make_data
from support.strategies import adversarial_rows

X, Y = make_data("multi", 240)
LABELS = np.column_stack([Y, np.where(X[:, 0] > 0, "yes", "no"), np.round(X[:, 2]).astype(int).astype(str)])
VALUES = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])


def hard_rows(forest):
    rows = adversarial_rows(forest, X, 300, special=False)
    rows[~np.isfinite(rows) | (np.abs(rows) > 3e38)] = 0.0
    return rows


CLASSIFIERS = {
    "forest": RandomForestClassifier(6, max_depth=4, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
    "one model each": MultiOutputClassifier(RandomForestClassifier(4, max_depth=3, random_state=0)),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(4, max_depth=3, random_state=0)),
}
REGRESSORS = {
    "forest": RandomForestRegressor(6, max_depth=4, random_state=0),
    "extra trees": ExtraTreesRegressor(6, max_depth=4, random_state=0),
    "one model each": MultiOutputRegressor(GradientBoostingRegressor(n_estimators=4)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_of_each_target(name):
    model = CLASSIFIERS[name].fit(X, LABELS)
    for output in range(3):
        forest = scurry.from_model(model, output=output)
        rows = hard_rows(forest)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows)[:, output])
        np.testing.assert_array_equal(forest.predict_proba(rows), model.predict_proba(rows)[output])


@pytest.mark.parametrize("name", REGRESSORS)
def test_values_of_each_target(name):
    model = REGRESSORS[name].fit(X, VALUES)
    for output in range(2):
        forest = scurry.from_model(model, output=output)
        rows = hard_rows(forest)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows)[:, output])


def test_a_target_must_be_chosen_and_exist():
    model = CLASSIFIERS["forest"].fit(X, LABELS)
    with pytest.raises(UnsupportedModelError, match=r"3 targets at once.*output=0\), up to output=2"):
        scurry.from_model(model)
    with pytest.raises(InputError, match="3 targets: output must be below that, got 3"):
        scurry.from_model(model, output=3)
    with pytest.raises(InputError):
        scurry.from_model(model, output=-1)
    single = RandomForestClassifier(2).fit(X, Y)
    assert scurry.from_model(single, output=0).digest == scurry.from_model(single).digest
    with pytest.raises(InputError, match="has 1 targets"):
        scurry.from_model(scurry.from_model(single), output=1)
