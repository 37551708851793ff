"""Categorical splits of XGBoost, on codes and on frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb

import scurry
from scurry.errors import InputError
from support.xgboost_models import (
    BOOSTERS,
    CATEGORICAL,
    REAL,
    SMALL,
    N,
    X,
    assert_same_booster,
    assert_same_estimator,
    document,
    train,
    tree_documents,
)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_categorical_splits(objective, booster, one_hot):
    limit = 100 if one_hot else 1
    model = train(objective, 6, True, max_cat_to_onehot=limit, max_cat_threshold=30, **BOOSTERS[booster])
    forest = scurry.from_model(model)
    sets = [tree["categories_sizes"] for tree in tree_documents(document(model))]
    assert (max(map(max, filter(None, sets))) == 1) == one_hot
    assert set(forest.default_left[forest.category_set >= 0]) == {True, False}
    assert_same_booster(forest, model, **CATEGORICAL)


def test_categorical_estimator_on_codes_beyond_all_categories():
    model = xgb.XGBRegressor(n_estimators=6, max_cat_to_onehot=1, **CATEGORICAL, **SMALL).fit(X, REAL)
    assert_same_estimator(scurry.from_model(model), model)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "word": pd.Categorical(rng.choice(["z", "alpha", "", "q"], N), ["z", "alpha", "", "q", "never"]),
            "number": pd.Categorical(rng.choice(np.array([70, -3, 9]), N)),
            "x": X[:, 0],
        }
    )


@pytest.fixture(scope="module")
def frame_model(frame):
    y = frame["word"].isin(["alpha", "q"]) * 2 + (frame["number"] == 9) + np.nan_to_num(frame["x"])
    frame.loc[:20, "word"] = None
    params = SMALL | {"n_estimators": 6, "enable_categorical": True, "max_cat_to_onehot": 1}
    return xgb.XGBClassifier(**params).fit(frame, y > 1.2)


def test_frames_with_categories(frame, frame_model, tmp_path):
    frame_model.save_model(tmp_path / "model.json")
    for forest in (scurry.from_model(frame_model), scurry.from_model(tmp_path / "model.json")):
        assert forest.feature_names == ("word", "number", "x")
        np.testing.assert_array_equal(forest.categories[0], ["z", "alpha", "", "q", "never"])
        np.testing.assert_array_equal(forest.categories[1], [-3, 9, 70])
        reordered = frame.assign(word=frame["word"].cat.set_categories(["q", "", "alpha", "z"]))
        codes = frame.assign(word=frame["word"].cat.codes.replace(-1, np.nan), number=frame["number"].cat.codes)
        expected = frame_model.predict_proba(frame)
        values = frame.assign(number=frame["number"].astype(int))
        words_as_codes = values.assign(word=codes["word"])
        for table in (frame, reordered, codes.to_numpy(), values, words_as_codes):
            np.testing.assert_array_equal(forest.predict_proba(table), expected)
        with pytest.raises(InputError, match=r"'number' holds [012], which is none of its categories -3, 9, 70"):
            forest.predict(codes)
        np.testing.assert_array_equal(frame_model.predict_proba(reordered), expected)
        np.testing.assert_array_equal(forest.predict(frame), frame_model.predict(frame))


def test_polars_frames_with_categories():
    rng = np.random.default_rng(5)
    words = rng.choice(["b", "a", "d", "c"], N)
    y = np.isin(words, ["a", "d"]) + np.nan_to_num(X[:, 0]) > 0.7
    for dtype in (pl.Categorical, pl.Enum(["d", "a", "b", "c"])):
        table = pl.DataFrame({"word": pl.Series(words, dtype=dtype), "x": X[:, 0]})
        model = xgb.XGBClassifier(n_estimators=5, enable_categorical=True, max_cat_to_onehot=1, **SMALL).fit(table, y)
        forest = scurry.from_model(model)
        for part in (table, table[::-1], table.with_columns(pl.col("word").cast(pl.String).cast(pl.Categorical))):
            np.testing.assert_array_equal(forest.predict_proba(part), model.predict_proba(part))


def test_names_beyond_ascii_are_not_trusted():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"word": pd.Categorical(rng.choice(["éa", "b", "c"], N)), "x": X[:, 0]})
    y = (table["word"] == "b") + np.nan_to_num(X[:, 0]) > 0.5
    model = xgb.XGBClassifier(n_estimators=3, enable_categorical=True, **SMALL).fit(table, y)
    forest = scurry.from_model(model)
    with pytest.raises(InputError, match="no list of"):
        forest.predict(table)
    codes = table.assign(word=table["word"].cat.codes)
    np.testing.assert_array_equal(forest.predict(codes), model.predict(table))
