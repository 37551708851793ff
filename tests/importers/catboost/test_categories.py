"""Categories of CatBoost: hashes, one-hot splits and target statistics, against CatBoost itself.

Statistics of combinations of features, against CatBoost itself: objects and both kinds of files.
"""

import json

import numpy as np
import pandas as pd
import pytest

import scurry
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest.combinations import ABOVE, ABOVE_OR_MISSING, CATEGORY, EQUALS
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


Y = (TABLE["text"] == "høy") & (TABLE["many"].str[-1] == "3") | (TABLE["code"] == 5) & (TABLE["x"] > 0.3)
MANY = {"one_hot_max_size": 3, "max_ctr_complexity": 4, "model_size_reg": 0, "iterations": 25, "learning_rate": 0.3}


def strange_table_of_combinations(forest):
    """Every mixture of values, categories that training had not, and numbers on borders of combinations."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: rng.permutation(np.tile(TABLE[name].to_numpy(), 4)) for name in TABLE})
    border = forest.front.border[forest.front.column == 0]
    near = np.concatenate([border, np.nextafter(border, np.float32(9)), [np.nan, np.inf, -np.inf, -0.0, 1e300]])
    table.loc[::2, "x"] = rng.choice(near.astype(np.float64), len(table.loc[::2]))
    table.loc[::7, "text"] = "new"
    table.loc[::11, "code"] = 31
    table.loc[::5, "many"] = "place 40"
    return table


def kinds_of(forest):
    sizes = np.diff(forest.front.element_offset)
    return set(forest.front.kind.tolist()), sizes.max()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"combinations_ctr": ["Borders:Prior=0/1:Prior=0.5/1", "Counter"]},
        {"combinations_ctr": ["Buckets"]},
        {"combinations_ctr": ["BinarizedTargetMeanValue"], "simple_ctr": ["Counter"]},
        {"nan_mode": "Max", "one_hot_max_size": 2},
        {"max_ctr_complexity": 2},
    ],
    ids=str,
)
def test_scores_are_catboosts(params):
    rows = TABLE
    if "nan_mode" in params:
        rows = TABLE.assign(x=TABLE["x"].where(np.arange(len(TABLE)) % 9 > 0))
    model = cb.CatBoostClassifier(depth=4, verbose=0, thread_count=1, allow_writing_files=False, **MANY | params)
    model.fit(rows, Y, cat_features=list(CATEGORIES))
    forest = scurry.from_model(model, categories=CATEGORIES)
    kinds, largest = kinds_of(forest)
    assert kinds >= {CATEGORY, ABOVE_OR_MISSING if "nan_mode" in params else ABOVE}
    assert largest > 1
    for table in (rows, strange_table_of_combinations(forest), rows[:1]):
        assert_same(forest, model, table)


def test_categories_that_are_compared():
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    forest = scurry.from_model(model, categories=CATEGORIES)
    assert kinds_of(forest)[0] == {CATEGORY, ABOVE, EQUALS}
    assert_same(forest, model, strange_table_of_combinations(forest))


@pytest.mark.parametrize("kind", ["several classes", "numbers"])
def test_other_targets(kind):
    if kind == "numbers":
        model = fitted(cb.CatBoostRegressor, TARGET + TABLE["x"], TABLE, **MANY)
    else:
        model = fitted(cb.CatBoostClassifier, THREE, TABLE, **MANY)
    forest = scurry.from_model(model, categories=CATEGORIES)
    assert_same(forest, model, strange_table_of_combinations(forest))


def test_files_agree_with_objects(tmp_path):
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    forest = scurry.from_model(model, categories=CATEGORIES)
    model.save_model(str(tmp_path / "model.cbm"))
    model.save_model(str(tmp_path / "model.json"), format="json")
    for name in ("model.cbm", "model.json"):
        again = scurry.from_model(tmp_path / name, categories=CATEGORIES)
        assert again.digest == forest.digest
        assert_same(again, model, strange_table_of_combinations(forest))
    assert any("> " in name for name in forest.feature_names)


def test_one_row_of_an_encoded_table():
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    forest = scurry.from_model(model, categories=CATEGORIES)
    rows = forest.encoder(TABLE)(TABLE)
    expected = forest.predict(TABLE[:5]).tolist()
    assert [forest.predict(rows[at])[0] for at in range(5)] == expected
    assert [forest.one_row()(rows[at]) for at in range(5)] == expected


def test_early_exits_keep_their_promise(tmp_path):
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    forest = scurry.from_model(model, categories=CATEGORIES)
    fast = scurry.early_exit(forest, TABLE, max_disagreement=0.05, confidence=None, random_state=0)
    assert (fast.predict(TABLE) != model.predict(TABLE)).mean() <= 0.05
    fast.save(tmp_path / "fast.scurry")
    np.testing.assert_array_equal(scurry.load(tmp_path / "fast.scurry").predict(TABLE), fast.predict(TABLE))


def test_all_categories_must_be_given():
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    for name in ("many", "text"):
        with pytest.raises(InputError, match=f"'{name}'.* not in categories"):
            scurry.from_model(model, categories=CATEGORIES | {name: CATEGORIES[name][1:]})


def test_combinations_alone_tell_that_categories_are_lacking(tmp_path):
    """Where no split asks for a single feature, the keys of combinations do."""
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY)
    model.save_model(str(tmp_path / "model.json"), format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    info = document["features_info"]
    first = sum(len(of["borders"]) for of in info["float_features"])
    first += sum(len(of.get("values", [])) for of in info["categorical_features"])
    combined = set()
    for statistic in info["ctrs"]:
        if len(statistic["elements"]) > 1:
            combined |= set(range(first, first + len(statistic["borders"])))
        first += len(statistic["borders"])
    splits = [split for tree in document["oblivious_trees"] for split in tree["splits"] or []]
    asked = [split for split in splits if split["split_index"] in combined]
    document["oblivious_trees"] = [{"splits": asked[:1], "leaf_values": [0.0, 1.0], "leaf_weights": [1, 1]}]
    (tmp_path / "model.json").write_text(json.dumps(document))
    forest = scurry.from_model(tmp_path / "model.json", categories=CATEGORIES)
    names = [list(TABLE)[at] for at in forest.front.column[forest.front.kind == CATEGORY]]
    with pytest.raises(InputError, match="trained on combinations of"):
        scurry.from_model(tmp_path / "model.json", categories=CATEGORIES | {names[0]: CATEGORIES[names[0]][1:]})


def test_models_without_tables_are_refused_by_name():
    skipped = {"final_ctr_computation_mode": "Skip"}
    model = fitted(cb.CatBoostClassifier, Y, TABLE, **MANY | skipped)
    with pytest.raises(UnsupportedModelError, match=r"no table of its target statistics of '.*final_ctr_computation"):
        scurry.from_model(model, categories=CATEGORIES)
