"""What is known of a row, in any form that people hold it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.runners.acquisition.known import find_feature, read_known

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.integers(18, 90, 300), "tsh": RNG.normal(size=300), "free t4": RNG.normal(size=300)})
ILL = ((FRAME["tsh"] > 0) ^ (FRAME["age"] > 50)).to_numpy().astype(int)
NAMED = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(FRAME, ILL))
PLAIN = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(FRAME.to_numpy(), ILL))


@pytest.mark.parametrize(
    "known",
    [
        {"age": 40, "tsh": 0.5},
        {"age": np.int64(40), "tsh": 0.5, "free t4": None},
        {"age": 40.0, "tsh": 0.5, "free t4": float("nan")},
        {"age": 40.0, "tsh": 0.5, "free t4": pd.NA},
        pd.Series({"age": 40, "tsh": 0.5}),
        pd.DataFrame({"tsh": [0.5], "patient": ["P-17"], "age": [40]}),
        pd.DataFrame({"tsh": [0.5], "age": [40], "free t4": pd.array([None], "Float64")}),
        pl.DataFrame({"tsh": [0.5], "age": [40], "free t4": [None]}),
        pa.table({"tsh": [0.5], "age": [40]}),
        [40, 0.5, np.nan],
        np.array([[40, 0.5, np.nan]]),
        np.array([40, 0.5, None], dtype=object),
    ],
)
def test_every_form_says_the_same(known):
    assert read_known(NAMED, known) == {0: 40.0, 1: 0.5}
    visit = scurry.Predictor.full(NAMED).start_row(known)
    assert visit.next_feature.name == "free t4"


def test_nothing_is_known():
    for nothing in (None, {}, [np.nan] * 3, pd.DataFrame({"patient": ["P-17"]})):
        assert read_known(NAMED, nothing) == {}


def test_without_names_features_are_indices():
    assert read_known(PLAIN, {1: 0.5}) == {1: 0.5}
    assert read_known(PLAIN, pd.DataFrame([[40, 0.5, None]])) == {0: 40.0, 1: 0.5}
    for wrong in ("tsh", 3, -1, True, 1.0, None):
        with pytest.raises(InputError, match="a feature is its index, 0 to 2"):
            find_feature(PLAIN, wrong)


def test_values_are_rounded_as_the_model_reads_them():
    assert read_known(NAMED, {"tsh": 0.1}) == read_known(NAMED, [np.nan, 0.1, np.nan]) == {1: float(np.float32(0.1))}


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"TSH": 1.0}, "'TSH' is no feature of this model; did you mean 'tsh'"),
        ({"agee": 1.0}, "'agee' is no feature of this model; did you mean 'age'"),
        ({0: 1.0}, "0 is no feature of this model"),
        ({"age": "old"}, "'age' is not numeric"),
        ([1.0, 2.0], "known must be a mapping of features to values, or an array of 3 values"),
        (FRAME[:2], "known has 2 rows; a visit is one row"),
        (3.0, "known must be a mapping"),
        ("age", "known must be a mapping"),
    ],
)
def test_nonsense_is_named(known, message):
    with pytest.raises(InputError, match=message):
        read_known(NAMED, known)


@pytest.mark.parametrize("width", [2, 4])
def test_columns_of_a_model_without_names_go_by_place(width):
    with pytest.raises(InputError, match=f"known has {width} columns, the model has 3 features and no names"):
        read_known(PLAIN, pd.DataFrame([[1.0] * width]))


def test_columns_of_the_same_name_are_refused():
    with pytest.raises(InputError, match="columns of the same name"):
        read_known(NAMED, pd.DataFrame([[1.0, 2.0]], columns=["age", "age"]))


def test_categories_are_given_by_name():
    lightgbm = pytest.importorskip("lightgbm")
    frame = pd.DataFrame({"my colour": pd.Categorical(RNG.choice(["red", "green"], 200)), "size": RNG.normal(size=200)})
    y = ((frame["my colour"] == "red") ^ (frame["size"] > 0)).to_numpy().astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=5, min_data_per_group=5, verbose=-1)
    predictor = scurry.Predictor.full(scurry.from_model(model.fit(frame, y)))
    for row in range(20):
        cells = {"my colour": frame["my colour"][row], "size": frame["size"][row]}
        visits = [
            predictor.start_row(cells),
            predictor.start_row(frame.iloc[row : row + 1]),
            predictor.start_row(pl.from_pandas(frame.iloc[row : row + 1])),
            predictor.start_row(),
        ]
        for name, value in cells.items():
            visits[-1].give(name, value)
        for visit in visits:
            assert visit.answer.label == predictor.predict(frame.iloc[row : row + 1])[0]
    # A category that the model does not know is a known value, which it reads as missing.
    assert predictor.start_row({"my colour": "blue", "size": 1.0}).answer is not None
