"""XGBoost models with several outputs."""

import numpy as np
import pytest
from xgboost import XGBClassifier, XGBRegressor

import scurry
from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.xgboost import split_vectors
from support.sklearn_models import make_data
from support.strategies import adversarial_rows

X, Y = make_data("multi", 240)
CODES = np.unique(Y, return_inverse=True)[1]
SMALL = {"n_estimators": 5, "max_depth": 3, "tree_method": "hist", "n_jobs": 1}
VECTORS = {"multi_strategy": "multi_output_tree"}


@pytest.mark.parametrize("strategy", [{}, VECTORS])
def test_targets(strategy):
    values = np.column_stack([X[:, 0], X[:, 1] * X[:, 2], X[:, 3]])
    model = XGBRegressor(**SMALL, **strategy).fit(X, values)
    for output in range(3):
        forest = scurry.from_model(model, output=output)
        rows = adversarial_rows(forest, X, 300, special=False)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows)[:, output])
    with pytest.raises(UnsupportedModelError, match="3 targets at once"):
        scurry.from_model(model)


@pytest.mark.parametrize("strategy", [{}, VECTORS])
def test_several_labels(strategy):
    model = XGBClassifier(**SMALL, **strategy).fit(X, (X[:, :3] > 0).astype(int))
    for output in range(3):
        forest = scurry.from_model(model, output=output)
        rows = adversarial_rows(forest, X, 300, special=False)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows)[:, output])
        np.testing.assert_array_equal(forest.predict_proba(rows)[:, 1], model.predict_proba(rows)[:, output])


def test_vectors_of_classes(tmp_path):
    model = XGBClassifier(**SMALL, **VECTORS).fit(X, CODES)
    model.save_model(tmp_path / "model.json")
    for forest in (scurry.from_model(model), scurry.from_model(tmp_path / "model.json")):
        rows = adversarial_rows(forest, X, 300, special=False)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
        np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=1e-6)
        assert forest.n_trees == 5 * 4


def test_files_choose_a_target_too(tmp_path):
    model = XGBRegressor(**SMALL, **VECTORS).fit(X, X[:, :2])
    model.save_model(tmp_path / "model.ubj")
    forest = scurry.from_model(tmp_path / "model.ubj", output=1)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X)[:, 1])


def test_damaged_vectors_raise():
    tree = {"left_children": [-1], "right_children": [0], "split_conditions": [0.0], "leaf_weights": [1.0, 2.0]}
    model = {"trees": [tree], "tree_info": [0]}
    assert len(split_vectors(model, [2], 2)["trees"]) == 2
    with pytest.raises(FormatError, match="leaves of 3 numbers for 2 outputs"):
        split_vectors(model, [3], 2)
    for name, wrong in (("leaf_weights", [1.0]), ("right_children", [7]), ("leaf_weights", None)):
        with pytest.raises(FormatError, match="whose vectors it lacks"):
            split_vectors({"trees": [tree | {name: wrong}], "tree_info": [0]}, [2], 2)
