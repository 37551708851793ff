"""Forests as ONNX: what is written, read again, gives the same scores, labels and trees; the rest is refused.

`make interop` runs the same files in onnxruntime.
"""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError, OutputError
from scurry.importers.onnx.graph import read_graph
from support.onnx_models import graph_of, indexed, rows_for, save
from support.strategies import adversarial_rows, complete_forest, forests

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).round(2)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
THREE = Y + (X[:, 3] > 0.5)
TABLE = np.column_stack([X[:, :4], RNG.integers(0, 40, 300)])
MIXED = (Y + (TABLE[:, 4] % 3 == 0)) % 2
SMALL = {"n_estimators": 6, "max_depth": 3, "random_state": 0}
MODELS = {
    "forest of two classes": lambda: RandomForestClassifier(**SMALL).fit(X, Y),
    "forest of three": lambda: RandomForestClassifier(**SMALL).fit(X, np.array(["a", "b", "c"])[THREE]),
    "forest of numbers": lambda: RandomForestRegressor(**SMALL).fit(X, X[:, 0]),
    "xgboost, two classes": lambda: xgb.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, Y),
    "xgboost, three": lambda: xgb.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, THREE),
    "lightgbm, counts": lambda: lgb.LGBMRegressor(objective="poisson", n_estimators=5, verbose=-1).fit(X, THREE),
    "lightgbm, categories": lambda: lgb.LGBMClassifier(n_estimators=5, verbose=-1, min_data_per_group=5).fit(
        TABLE, MIXED, categorical_feature=[4]
    ),
    "histograms, categories": lambda: HistGradientBoostingClassifier(max_iter=5, categorical_features=[4]).fit(
        TABLE, MIXED
    ),
}


def rows_of(forest, n_rows=500):
    rows = adversarial_rows(forest, X, n_rows)
    if (forest.category_set >= 0).any():
        rows[:, 4] = RNG.choice(np.r_[np.arange(45.0), np.nan, -1], n_rows)
    with np.errstate(over="ignore"):
        return rows.astype(forest.input_dtype)


@pytest.mark.parametrize("name", MODELS)
def test_files_give_the_forest_back(name, tmp_path):
    forest = scurry.from_model(MODELS[name]())
    written = scurry.export.to_onnx(forest, tmp_path / "model.onnx")
    again = scurry.from_model(written.path)
    rows = rows_of(forest)
    np.testing.assert_array_equal(again.scores(rows), forest.scores(rows))
    np.testing.assert_array_equal(again.predict(rows), forest.predict(rows))
    assert (again.link, again.score_dtype, again.input_dtype) == (forest.link, forest.score_dtype, forest.input_dtype)
    assert again.n_trees - forest.n_trees in (0, forest.n_outputs)  # a base score becomes leaves
    assert written.n_bytes == (tmp_path / "model.onnx").stat().st_size
    assert "TreeEnsemble, " in str(written)


@pytest.mark.parametrize("name", [name for name in MODELS if "categories" not in name])
def test_older_operators(name, tmp_path):
    forest = scurry.from_model(MODELS[name]())
    written = scurry.export.to_onnx(forest, tmp_path / "model.onnx", opset=3)
    graph = read_graph(written.path.read_bytes())
    assert graph.opsets["ai.onnx.ml"] == 3
    assert written.operator == ("TreeEnsembleClassifier" if forest.n_classes > 2 else "TreeEnsembleRegressor")
    again = scurry.from_model(written.path)
    rows = rows_of(forest)
    # The importer reads what onnxruntime adds, which is not what the older operators write.
    np.testing.assert_allclose(again.scores(rows), forest.scores(rows), rtol=1e-12, atol=1e-12)
    assert (written.difference == "") == (forest.score_dtype == "float32" and forest.n_classes <= 2)


@settings(max_examples=60, deadline=None)
@given(forest=forests(), seed=st.integers(0, 1000), strict=st.booleans(), wide=st.booleans())
def test_random_forests(forest, seed, strict, wide, tmp_path_factory):
    header = {"comparison": "<" if strict else "<="}
    if not wide and forest.input_dtype == "float32":
        header["score_dtype"] = "float32"
    forest = forest.replace(**header)
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    scurry.export.to_onnx(forest, path)
    again = scurry.from_model(path)
    with np.errstate(over="ignore"):
        rows = adversarial_rows(forest, np.zeros((1, forest.n_features)), 60, seed).astype(forest.input_dtype)
    np.testing.assert_array_equal(again.scores(rows), forest.scores(rows))
    np.testing.assert_array_equal(again.predict(rows), forest.predict(rows))
    assert again.n_trees == forest.n_trees


def test_missing_values_that_are_read_as_zero(tmp_path):
    forest = complete_forest(n_trees=3, depth=3, missing=np.full(3 * 15, 2))
    again = scurry.from_model(scurry.export.to_onnx(forest, tmp_path / "model.onnx").path)
    rows = np.where(RNG.random((100, 6)) < 0.3, np.nan, RNG.normal(size=(100, 6))).astype(np.float32)
    np.testing.assert_array_equal(again.apply(rows) >= 0, True)
    np.testing.assert_array_equal(again.scores(rows), forest.scores(rows))


def test_codes_of_categories_are_named(tmp_path):
    written = scurry.export.to_onnx(scurry.from_model(MODELS["lightgbm, categories"]()), tmp_path / "model.onnx")
    assert written.coded == (4,)
    assert "codes of categories in" in str(written)


def test_values_of_sets_stay_values(tmp_path):
    """A file that tests whole numbers tests the same ones after import and export."""
    node = indexed(np.random.default_rng(0), 1, modes=(0, 4, 5, 6, 6), whole=True, n_trees=9)
    forest = scurry.from_model(save(graph_of(node, outputs=("scores",)), tmp_path))
    written = scurry.export.to_onnx(forest, tmp_path / "again.onnx")
    assert written.coded == ()
    rows = rows_for(np.random.default_rng(1), 200)
    np.testing.assert_array_equal(scurry.from_model(written.path).predict(rows), forest.predict(rows))


class TestRefusals:
    FOREST = complete_forest(n_trees=4, depth=2, n_columns=2)

    def test_plans(self, tmp_path):
        fast = scurry.early_exit(self.FOREST, RNG.normal(size=(400, 6)), max_disagreement=0.2, random_state=0)
        with pytest.raises(InputError, match="full_forest=True to write the whole forest without the plan"):
            scurry.export.to_onnx(fast, tmp_path / "model.onnx")
        whole = scurry.export.to_onnx(fast, tmp_path / "model.onnx", full_forest=True)
        rows = RNG.normal(size=(50, 6)).astype(np.float32)
        np.testing.assert_array_equal(scurry.from_model(whole.path).predict(rows), self.FOREST.predict(rows))

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ({"link": "signed-square"}, "link 'signed-square'"),
            ({"input_dtype": "float64", "score_dtype": "float32"}, "compares float64 and adds float32"),
            ({"missing": np.full(4 * 7, 1)}, "takes zero for missing"),
        ],
    )
    def test_what_onnx_cannot_say(self, header, message, tmp_path):
        forest = complete_forest(n_trees=4, depth=2, n_columns=1, **header)
        with pytest.raises(InputError, match=message):
            scurry.export.to_onnx(forest, tmp_path / "model.onnx")

    def test_arguments(self, tmp_path):
        with pytest.raises(InputError, match="opset must be one of 3, 5, got 4"):
            scurry.export.to_onnx(self.FOREST, tmp_path / "model.onnx", opset=4)
        with pytest.raises(InputError, match=r"pass scurry\.from_model"):
            scurry.export.to_onnx(RandomForestClassifier(), tmp_path / "model.onnx")
        with pytest.raises(OutputError, match="cannot write"):
            scurry.export.to_onnx(self.FOREST, tmp_path / "none" / "model.onnx")
        categories = scurry.from_model(MODELS["lightgbm, categories"]())
        with pytest.raises(InputError, match="need opset=5"):
            scurry.export.to_onnx(categories, tmp_path / "model.onnx", opset=3)
