"""Tables for models of LightGBM: categories, names and the order of columns."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import scurry
from scurry.errors import InputError
from support.lightgbm_models import BINARY, CATEGORIES, RNG, TABLE, TARGET, N, X, fitted


@pytest.mark.parametrize("columns", [list(TABLE), ["x", *CATEGORIES], ["text", "y"], ["code", "n"]])
def test_pandas_categories(columns):
    table = TABLE[columns]
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    assert (forest.category_set >= 0).any()
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))
    shuffled = table[columns[::-1]].iloc[::-1]
    np.testing.assert_array_equal(forest.predict_proba(shuffled), model.predict_proba(table)[::-1])


def test_categories_that_training_did_not_have():
    model = fitted(lgb.LGBMClassifier, TARGET, TABLE[["text", "code", "x"]])
    forest = scurry.from_model(model)
    strange = TABLE[["text", "code", "x"]].copy()
    strange["text"] = pd.Categorical(RNG.choice(["høy", "new", "low"], N), categories=["new", "low", "høy"])
    strange["code"] = pd.Categorical(RNG.choice([5, 6], N), categories=[6, 5])
    np.testing.assert_array_equal(forest.predict_proba(strange), model.predict_proba(strange))


def test_numbers_are_codes_in_arrays_and_values_in_tables():
    table = TABLE[["x", "text", "code"]]
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    codes = np.stack([table["x"], table["text"].cat.codes.replace(-1, np.nan), table["code"].cat.codes], axis=1)
    expected = model.predict_proba(table)
    np.testing.assert_array_equal(forest.predict_proba(codes), expected)
    texts = [None if value is np.nan else value for value in table["text"].astype(object)]
    for dtype in (pl.String, pl.Categorical):
        columns = {
            "code": table["code"].astype(int).to_numpy(),
            "text": pl.Series(texts, dtype=dtype),
            "x": table["x"].to_numpy(),
        }
        np.testing.assert_array_equal(forest.predict_proba(pl.DataFrame(columns)), expected)


def test_categories_declared_in_another_order():
    table = TABLE[["n", "text", "x", "code"]]
    model = lgb.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1, min_child_samples=5, min_data_per_group=5)
    model.fit(table, TARGET, categorical_feature=["code", "text"])
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))


def test_ordered_categories():
    table = TABLE[["x", "text", "code"]].copy()
    table["code"] = table["code"].cat.as_ordered()
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))
    table["n"] = TABLE["n"]
    forest = scurry.from_model(fitted(lgb.LGBMClassifier, TARGET, table))
    assert not any(map(len, forest.categories.values()))
    with pytest.raises(InputError, match="'text' is categorical"):
        forest.predict(table)


def test_categories_of_mixed_kinds_are_refused_in_tables():
    table = pd.DataFrame({"x": X[:, 0], "mixed": pd.Categorical(np.array([1, "one"], object)[BINARY])})
    forest = scurry.from_model(fitted(lgb.LGBMClassifier, BINARY, table))
    with pytest.raises(InputError, match="'mixed' is categorical"):
        forest.predict(table)


@pytest.mark.parametrize(
    "names", [["a b", "c", "d_e", "é  è", "x=y"], [0, 1, 2, 3, 4], [f"Column_{j}" for j in range(5)]]
)
def test_column_names(names):
    table = pd.DataFrame(X, columns=names)
    model = fitted(lgb.LGBMClassifier, BINARY, table)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(table), model.predict(table))
    if names[0] != "Column_0":
        assert forest.feature_names == tuple(model.feature_name_)
        np.testing.assert_array_equal(forest.predict(table[names[::-1]]), model.predict(table))
        with pytest.raises(InputError, match="lacks 1"):
            forest.predict(table[names[1:]])


def test_without_names_columns_go_by_position():
    model = fitted(lgb.LGBMClassifier, BINARY)
    forest = scurry.from_model(model)
    assert forest.feature_names is None
    expected = model.predict(X)
    np.testing.assert_array_equal(forest.predict(pd.DataFrame(X, columns=list("edcba"))), expected)
    np.testing.assert_array_equal(forest.predict(pd.DataFrame(X)), expected)
