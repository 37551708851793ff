"""Categories of CatBoost: hashes, one-hot splits and target statistics, against CatBoost itself."""

import json

import numpy as np
import pandas as pd
import pytest

import scurry
from scurry.errors import InputError
from scurry.importers.catboost.categories import city_hash

cb = pytest.importorskip("catboost")

from support.catboost_models import (  # noqa: E402
    CATEGORIES,
    QUIET,
    TABLE,
    TARGET,
    THREE,
    assert_same,
    fitted,
)

ONE_HOT = {"one_hot_max_size": 50}
STATISTICS = {"one_hot_max_size": 2, "max_ctr_complexity": 1}


def strange_table():
    """Rows with categories that training had not, and every mixture of those it had."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: rng.permutation(TABLE[name].to_numpy()) for name in TABLE})
    table.loc[::7, "text"] = "new"
    table.loc[::11, "code"] = 31
    table.loc[::5, "many"] = "place 40"
    return table


@pytest.mark.parametrize(
    "params",
    [
        ONE_HOT,
        ONE_HOT | {"grow_policy": "Depthwise"},
        ONE_HOT | {"grow_policy": "Lossguide"},
        STATISTICS,
        STATISTICS | {"grow_policy": "Lossguide"},
        STATISTICS | {"simple_ctr": ["Borders:Prior=0/1:Prior=0.5/1"]},
        STATISTICS | {"simple_ctr": ["Buckets", "Counter"]},
        STATISTICS | {"simple_ctr": ["BinarizedTargetMeanValue"]},
        STATISTICS | {"simple_ctr": ["Borders:TargetBorderCount=3"], "loss_function": "RMSE"},
    ],
    ids=str,
)
def test_splits_on_categories(params):
    if params.get("loss_function") == "RMSE":
        model = fitted(cb.CatBoostRegressor, TARGET + TABLE["x"], TABLE, **params)
    else:
        model = fitted(cb.CatBoostClassifier, TARGET, TABLE, **params)
    forest = scurry.from_model(model, categories=CATEGORIES)
    assert (forest.category_set >= 0).any()
    for table in (TABLE, strange_table(), TABLE[:1]):
        assert_same(forest, model, table)


def test_statistics_of_several_classes():
    model = fitted(cb.CatBoostClassifier, THREE, TABLE, **STATISTICS)
    forest = scurry.from_model(model, categories=CATEGORIES)
    assert (forest.category_set >= 0).any()
    assert_same(forest, model, strange_table())


def test_tables_of_all_kinds_agree(tmp_path):
    polars = pytest.importorskip("polars")
    model = fitted(cb.CatBoostClassifier, TARGET, TABLE, **STATISTICS)
    model.save_model(str(tmp_path / "model.cbm"))
    forest = scurry.from_model(tmp_path / "model.cbm", categories=CATEGORIES)
    table = strange_table()
    expected = model.predict(table)
    np.testing.assert_array_equal(forest.predict(table), expected)
    np.testing.assert_array_equal(forest.predict(polars.from_pandas(table)), expected)
    np.testing.assert_array_equal(forest.predict(table.astype({"text": "category", "many": "category"})), expected)
    np.testing.assert_array_equal(forest.predict(table.to_numpy(object)), expected)
    forest.save(tmp_path / "forest.scurry")
    np.testing.assert_array_equal(scurry.from_model(tmp_path / "forest.scurry").predict(table), expected)


@pytest.mark.parametrize("dtype", [bool, object])
def test_booleans_may_be_categories(dtype):
    table = TABLE.assign(code=(TABLE["code"] > 0).astype(dtype))
    model = fitted(cb.CatBoostClassifier, TARGET, table, **ONE_HOT)
    forest = scurry.from_model(model, categories=CATEGORIES | {"code": table["code"].unique()})
    assert_same(forest, model, table)


def test_categories_must_be_given_and_complete():
    model = fitted(cb.CatBoostClassifier, TARGET, TABLE, **ONE_HOT)
    with pytest.raises(InputError, match=r"from_model\(model, categories=.*'text': table\['text'\]"):
        scurry.from_model(model)
    for name in ("text", "many"):
        with pytest.raises(InputError, match=f"values of '{name}' that are not in"):
            scurry.from_model(model, categories=CATEGORIES | {name: CATEGORIES[name][:1]})
    with pytest.raises(InputError, match="no categorical feature"):
        scurry.from_model(model, categories=CATEGORIES | {"x": ["a"]})
    with pytest.raises(InputError, match="fraction"):
        scurry.from_model(model, categories=CATEGORIES | {"code": [30.0, 5.0, -9.0]})
    model = fitted(cb.CatBoostClassifier, TARGET, TABLE, **STATISTICS)
    with pytest.raises(InputError, match="values of 'many' that are not in"):
        scurry.from_model(model, categories=CATEGORIES | {"many": CATEGORIES["many"][:-1]})


@pytest.mark.parametrize("seed", range(3))
def test_hashes_are_those_of_catboost(seed, tmp_path):
    """Every hash in a model is that of one of the texts it was trained on: of all lengths, past each change of rule."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdé XYZ09"))
    lengths = [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 193, 1000]
    texts = ["".join(rng.choice(letters, n)) for n in lengths]
    table = pd.DataFrame({"text": texts * 8})
    y = np.tile(rng.permutation(len(texts)), 8)
    model = cb.CatBoostRegressor(iterations=60, depth=4, one_hot_max_size=255, learning_rate=0.5, **QUIET)
    model.fit(table, y, cat_features=["text"])
    model.save_model(str(tmp_path / "model.json"), format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    stored = document["features_info"]["categorical_features"][0]["values"]
    known = {city_hash(text.encode()) & 0xFFFFFFFF: len(text) for text in texts}
    found = {known[value & 0xFFFFFFFF] for value in stored}
    assert len(found) > 20
    forest = scurry.from_model(model, categories={"text": texts})
    assert_same(forest, model, table)
