"""Categories that are numbers or booleans: every container gives the labels of the framework, or is refused."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import scurry
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest.rows import as_value

N = 500
LIGHTGBM = {
    "n_estimators": 6,
    "n_jobs": 1,
    "verbose": -1,
    "min_child_samples": 2,
    "min_data_per_group": 2,
    "cat_smooth": 1,
}
MODELS = {
    "lightgbm": lambda: lgb.LGBMClassifier(**LIGHTGBM),
    "xgboost": lambda: xgb.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1, enable_categorical=True),
    "sklearn": lambda: HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=2),
}
VALUES = {
    "postal codes": np.array([10115, 20095, 80331, 50667]),
    "reversed": np.array([3, 2, 1, 0]),
    "small": np.array([4, 1, 2, 7], np.int8),
    "booleans": np.array([True, False]),
    "floats": np.array([0.5, 2.0, -3.25]),
}
CASES = [
    (model, values)
    for model in MODELS
    for values in VALUES
    if model != "xgboost" or values not in ("booleans", "floats")  # which it does not train on
]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def number_frame(values, *, missing=False, unseen=False, seed=0):
    """A frame whose labels follow the values of its category, and these values."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(values), N)
    categories = pd.Index(values)  # in the order given, which is not the order of the numbers
    codes = np.where(rng.random(N) < 0.1, -1, drawn) if missing else drawn
    frame = pd.DataFrame({"x": rng.normal(size=N), "c": pd.Categorical.from_codes(codes, categories=categories)})
    if unseen:
        frame["c"] = frame["c"].cat.rename_categories(
            {values[0]: values.dtype.type(101), values[1]: values.dtype.type(102)}
        )
    return frame, ((drawn % 2 == 1) ^ (frame["x"] > 1)).astype(int)


def containers(frame):
    """The same values in other containers."""
    values = frame["c"].astype(object)
    yield "object", frame.assign(c=values)
    yield "other codes", frame.assign(c=frame["c"].cat.set_categories(frame["c"].cat.categories[::-1]))
    yield "arrow dictionary", pa.Table.from_pandas(frame, preserve_index=False)
    dtype = frame["c"].cat.categories.dtype
    nullable = {"i": "Int64", "b": "boolean", "f": "Float64"}[dtype.kind]
    plain = frame.assign(c=values.astype(nullable))
    yield "nullable", plain
    yield "polars", pl.from_pandas(plain)
    yield "arrow", pa.Table.from_pandas(plain, preserve_index=False)
    yield "float", frame.assign(c=values.astype(float))
    if not frame["c"].isna().any():
        yield "plain", frame.assign(c=values.astype(dtype))
        yield "polars of categories", pl.from_pandas(frame.assign(c=values.astype(dtype)))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("model", "values"), CASES)
def test_values_in_every_container(model, values, missing, tmp_path):
    frame, y = number_frame(VALUES[values], missing=missing)
    source = MODELS[model]().fit(frame, y)
    forest, expected = scurry.from_model(source), source.predict(frame)
    assert 0.2 < np.mean(expected) < 0.8
    np.testing.assert_array_equal(forest.predict(frame), expected)
    for name, table in containers(frame):
        np.testing.assert_array_equal(forest.predict(table), expected, err_msg=name)
        np.testing.assert_array_equal(forest.predict(forest.encoder(table)(table)), expected, err_msg=name)
    frame.assign(c=frame["c"].astype(object)).to_parquet(tmp_path / "rows.parquet")
    scurry.batch.score(tmp_path / "rows.parquet", forest, tmp_path / "out.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet")["label"], expected)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    scurry.batch.score(tmp_path / "rows.csv", forest, tmp_path / "csv.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "csv.parquet")["label"], expected)


@pytest.mark.parametrize("values", ["postal codes", "floats"])
@pytest.mark.parametrize("model", ["lightgbm", "sklearn"])  # XGBoost refuses what it has not seen
def test_values_that_training_did_not_have(model, values):
    frame, y = number_frame(VALUES[values])
    source = MODELS[model]().fit(frame, y)
    unseen, _ = number_frame(VALUES[values], unseen=True, missing=True, seed=1)
    expected = source.predict(unseen)
    assert (expected != source.predict(number_frame(VALUES[values], missing=True, seed=1)[0])).any()
    for name, table in [("category", unseen), *containers(unseen)]:
        np.testing.assert_array_equal(scurry.from_model(source).predict(table), expected, err_msg=name)


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_codes_are_refused_in_tables_and_taken_in_arrays(model):
    frame, y = number_frame(VALUES["postal codes"])
    source = MODELS[model]().fit(frame, y)
    forest, expected = scurry.from_model(source), source.predict(frame)
    known = forest.categories[1].tolist()
    codes = frame.assign(c=[known.index(value) for value in frame["c"]])
    for table in (codes, pl.from_pandas(codes), pa.Table.from_pandas(codes), codes.astype(object)):
        with pytest.raises(InputError, match=r"'c' holds [0-3], which is none of its categories 10115, 20095"):
            forest.predict(table)
    for array in (codes.to_numpy(), codes.to_numpy(np.float32), codes.astype(object).to_numpy()):
        np.testing.assert_array_equal(forest.predict(array), expected)
    assert as_value(forest, 1, 20095) == known.index(20095)
    with pytest.raises(InputError, match="may be the code"):
        as_value(forest, 1, 2)


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_texts_that_look_like_numbers_stay_texts(model, tmp_path):
    frame, y = number_frame(np.array(["003", "2", "1", "0"], object))
    source = MODELS[model]().fit(frame, y)
    forest, expected = scurry.from_model(source), source.predict(frame)
    for table in (frame, pl.from_pandas(frame.astype({"c": str})), pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(forest.predict(table), expected)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    scurry.batch.score(tmp_path / "rows.csv", forest, tmp_path / "out.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet")["label"], expected)
    with pytest.raises(InputError, match="'c' holds numbers"):
        forest.predict(frame.assign(c=frame["c"].astype(int)))


def test_lightgbm_lists_of_unknown_columns_are_not_guessed():
    """With an ordered category and a column of small integers the file does not say whose lists it has."""
    frame, y = number_frame(VALUES["small"])
    frame = frame.assign(c=frame["c"].cat.as_ordered(), n=np.arange(N) % 3)
    model = MODELS["lightgbm"]().fit(frame, y)
    forest = scurry.from_model(model)
    with pytest.raises(InputError, match="'c' is categorical, but the model has no list"):
        forest.predict(frame.assign(c=frame["c"].astype(int)))
    codes = frame.assign(c=frame["c"].cat.codes)
    np.testing.assert_array_equal(forest.predict(codes.to_numpy()), model.predict(frame))
    told = scurry.from_model(model, categories={"c": VALUES["small"], "n": [0, 1, 2]})
    np.testing.assert_array_equal(told.predict(frame.assign(c=frame["c"].astype(int))), model.predict(frame))


def test_lightgbm_rounds_arrays_of_integers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(2**24, 2**24 + 40, (400, 3))
    model = lgb.LGBMClassifier(**LIGHTGBM).fit(X.astype(np.float64), X[:, 0] % 5 < 2)
    forest = scurry.from_model(model)
    assert (model.predict(X) != model.predict(X.astype(np.float64))).any()
    forest.save(tmp_path / "model.scurry")
    for same in (forest, scurry.load(tmp_path / "model.scurry"), forest.replace(feature_names=["a", "b", "c"])):
        for rows in (X, X.astype(np.uint32), X.astype(np.float64), X.astype(np.float32), X.astype(object), X.tolist()):
            np.testing.assert_array_equal(same.predict(rows), model.predict(rows))
    for frame in (pd.DataFrame(X), pd.DataFrame(X).astype("Int64")):
        np.testing.assert_array_equal(forest.predict(frame), model.predict(frame))
    columns = {f"Column_{j}": X[:, j] for j in range(3)}
    for frame in (pl.DataFrame(columns), pa.table(columns)):
        np.testing.assert_array_equal(forest.predict(frame), model.predict(frame))


@pytest.mark.parametrize("missing", [False, True])
def test_dates_are_refused_as_categories(missing):
    dates = pd.to_datetime(["2020-01-01", "2021-05-05", "2022-03-03"]).to_numpy()
    rng = np.random.default_rng(0)
    drawn = pd.Series(dates[rng.integers(0, 3, N)])
    if missing:
        drawn[:20] = pd.NaT
    frame = pd.DataFrame({"x": rng.normal(size=N), "c": drawn.astype("category")})
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=["c"]).fit(frame, frame["x"] > 0)
    with pytest.raises(UnsupportedModelError, match="column 'c' has categories that are neither texts nor numbers"):
        scurry.from_model(model)


@pytest.mark.parametrize("missing", [False, True])
def test_integer_categories_beyond_float(missing):
    large = np.array([2**53, 2**53 + 1, 2**53 + 2, 2**60])
    frame, y = number_frame(large, missing=missing)
    hist = MODELS["sklearn"]().fit(frame, y)
    with pytest.raises(InputError, match="column 'c' has categories that are whole numbers of 2"):
        scurry.from_model(hist).predict(frame)
    for model in ("lightgbm", "xgboost"):
        source = MODELS[model]().fit(frame, y)
        forest, expected = scurry.from_model(source), source.predict(frame)
        np.testing.assert_array_equal(forest.predict(frame), expected)
        for name, table in containers(frame):
            if name == "float" or (name == "nullable" and missing):
                with pytest.raises(InputError, match="as a float, to which several whole numbers are rounded"):
                    forest.predict(table)
            else:
                np.testing.assert_array_equal(forest.predict(table), expected, err_msg=f"{model} {name}")
