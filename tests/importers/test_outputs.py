"""Models with several targets, of which a forest predicts one, and a forest each all of them."""

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

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


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_of_all_targets(name):
    model = CLASSIFIERS[name].fit(X, LABELS)
    outputs = scurry.from_model(model, output="all")
    rows = hard_rows(outputs[0])
    np.testing.assert_array_equal(outputs.predict(rows), model.predict(rows))
    for ours, theirs in zip(outputs.predict_proba(rows), model.predict_proba(rows), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(outputs) == 3
    assert [forest.digest for forest in outputs] == [scurry.from_model(model, output=at).digest for at in range(3)]


@pytest.mark.parametrize("name", REGRESSORS)
def test_values_of_all_targets(name):
    model = REGRESSORS[name].fit(X, VALUES)
    np.testing.assert_array_equal(scurry.from_model(model, output="all").predict(X), model.predict(X))


class TestLabels:
    """Models that give a row any number of labels."""

    Y = np.column_stack([X[:, 0] > 0, X[:, 1] + X[:, 2] > 0, X[:, 0] * X[:, 1] > 0.2]).astype(int)

    def check(self, model, *, exact=True):
        outputs = scurry.from_model(model, output="all")
        rows = hard_rows(outputs[0])
        np.testing.assert_array_equal(outputs.predict(rows), model.predict(rows))
        shares = outputs.predict_proba(rows)
        assert shares.shape == (len(rows), 3)
        np.testing.assert_allclose(shares, model.predict_proba(rows), rtol=0, atol=0 if exact else 1e-6)
        np.testing.assert_array_equal(scurry.from_model(model, output=1).predict(rows), model.predict(rows)[:, 1])

    @pytest.mark.parametrize(
        "inside", [RandomForestClassifier(4, max_depth=3, random_state=0), HistGradientBoostingClassifier(max_iter=3)]
    )
    def test_one_vs_rest(self, inside):
        self.check(OneVsRestClassifier(inside).fit(X, self.Y))

    @pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
    def test_xgboost(self, strategy):
        model = XGBClassifier(n_estimators=3, max_depth=3, multi_strategy=strategy, tree_method="hist", n_jobs=1)
        self.check(model.fit(X, self.Y), exact=False)

    def test_catboost(self):
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostClassifier(
            iterations=4,
            depth=3,
            loss_function="MultiLogloss",
            verbose=False,
            allow_writing_files=False,
            thread_count=1,
        )
        self.check(model.fit(X, self.Y), exact=False)

    @pytest.mark.parametrize(
        "inside", [RandomForestClassifier(2, random_state=0), HistGradientBoostingClassifier(max_iter=3)]
    )
    def test_labels_without_a_model(self, inside):
        with pytest.warns(UserWarning, match="Label 0 is present"):
            model = OneVsRestClassifier(inside).fit(X, np.c_[np.ones(len(X), int), self.Y[:, :1]])
        with pytest.raises(UnsupportedModelError, match="label 0 of this OneVsRestClassifier is on all training rows"):
            scurry.from_model(model, output="all")
        np.testing.assert_array_equal(scurry.from_model(model, output=1).predict(X), model.predict(X)[:, 1])


def test_one_target_is_all_of_them():
    model = RandomForestClassifier(2, random_state=0).fit(X, Y)
    outputs = scurry.from_model(model, output="all")
    assert repr(outputs) == "Outputs(1 forest)"
    assert outputs.predict(X)[:, 0].tolist() == model.predict(X).tolist()
    with pytest.raises(InputError, match="output must be"):
        scurry.from_model(model, output="both")


def test_a_target_must_be_chosen_and_exist():
    model = CLASSIFIERS["forest"].fit(X, LABELS)
    with pytest.raises(UnsupportedModelError, match=r"3 targets at once.*output=0\), up to output=2, or .*\"all\""):
        scurry.from_model(model)
    with pytest.raises(InputError, match="3 targets: output must be below that, got 3"):
        scurry.from_model(model, output=3)
    with pytest.raises(InputError):
        scurry.from_model(model, output=-1)
    single = RandomForestClassifier(2).fit(X, Y)
    assert scurry.from_model(single, output=0).digest == scurry.from_model(single).digest
    with pytest.raises(InputError, match="has 1 targets"):
        scurry.from_model(scurry.from_model(single), output=1)
