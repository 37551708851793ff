"""Combinations: computed columns are what their parts say, in every table, file and process; others are refused."""

import pickle

import numpy as np
import pandas as pd
import pytest

import scurry
from scurry.errors import FormatError, InputError
from scurry.forest.combinations import ABOVE, ABOVE_OR_MISSING, CATEGORY, EQUALS, Combinations

MIX = 0x4906BA494954CB65
HASHES = {"Oslo": 7, "Rome": -3}
VALUES = {"red": 2**31 - 1, "blue": 5}


def mixed(*terms):
    key = 0
    for term in terms:
        key = MIX * (key + MIX * term) & (2**64 - 1)
    return key


def parts(**changed):
    """Columns city, number and colour. Two combinations: (city, number > 0.5 or missing), (colour, city is Rome)."""
    keys = [mixed(7, 1), mixed(-3, 0), mixed(5, 1)]
    return {
        "code_offset": [0, 2, 2, 4],
        "code_hash": [7, -3, 2**31 - 1, 5],
        "element_offset": [0, 2, 4],
        "column": [0, 1, 2, 0],
        "kind": [CATEGORY, ABOVE_OR_MISSING, CATEGORY, EQUALS],
        "border": [0, 0.5, 0, 0],
        "wanted": [0, 0, 0, -3],
        "key_offset": [0, 2, 3],
        "key": np.array(keys, np.uint64),
        "output_offset": [0, 2, 3],
        "value": [1, 2, 3, 10, 20, 30, 5, 6],
    } | changed


def forest(**changed):
    stump = {"feature": [3, -1, -1], "threshold": [1.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
    return scurry.Forest.from_trees([stump], n_features=6).replace(
        feature_names=["city", "number", "colour", "first", "second", "third"],
        categories={0: list(HASHES), 2: list(VALUES)},
        encode_numbers=True,
        front=Combinations(**parts(**changed)),
    )


def table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "colour": rng.choice(["red", "blue", "green"], n_rows),
            "number": rng.choice([0.5, 0.25, 0.75, np.nan, np.nextafter(0.5, 1), np.inf, -np.inf, 1e300], n_rows),
            "city": rng.choice(["Oslo", "Rome", "Bern"], n_rows),
        }
    )


def expected(row):
    """The computed columns of a row, by hand."""
    with np.errstate(over="ignore"):
        number = np.float32(row["number"])
    first = {mixed(7, 1): (1, 10), mixed(-3, 0): (2, 20)}
    city, above = HASHES.get(row["city"]), int(np.isnan(number) or number > np.float32(0.5))
    colour = VALUES.get(row["colour"])
    key = None if city is None else mixed(city, above)
    third = 5 if colour is not None and mixed(colour, int(city == -3)) == mixed(5, 1) else 6
    return (*first.get(key, (3, 30)), third)


def test_columns_are_computed_of_rows():
    rows = table()
    found = scurry.forest.as_rows(forest(), rows)
    assert found.shape == (len(rows), 6)
    np.testing.assert_array_equal(found[:, 3:], [expected(row) for _, row in rows.iterrows()])
    assert {tuple(row) for row in np.asarray(found[:, 3:]).tolist()} >= {(1, 10, 6), (2, 20, 5), (3, 30, 6)}
    np.testing.assert_array_equal(forest().predict(rows), np.where(found[:, 3] <= 1.5, 0, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts_of_rows_agree(dtype, order):
    rows = table(700)
    codes = np.column_stack(
        [
            rows["city"].map({"Oslo": 0, "Rome": 1}),
            np.where(rows["number"] == 1e300, np.inf, rows["number"]),
            rows["colour"].map({"red": 0, "blue": 1}),
        ]
    )
    wanted = [expected(row) for _, row in rows.iterrows()]
    given = np.array(codes, dtype, order=order)
    front = forest().front
    np.testing.assert_array_equal(front.extend(given)[:, 3:], wanted)
    np.testing.assert_array_equal(front.extend(given[::-1])[:, 3:], wanted[::-1])


def test_missing_values_below_a_border():
    rows = scurry.forest.as_rows(forest(kind=[CATEGORY, ABOVE, CATEGORY, EQUALS]), table())
    missing = np.isnan(np.asarray(rows)[:, 1]) & (np.asarray(rows)[:, 0] == 0)
    assert missing.any()
    assert (rows[missing, 3] == 3).all()


def test_every_container_file_and_process_agrees(tmp_path):
    polars = pytest.importorskip("polars")
    whole, rows = forest(), table()
    labels = whole.predict(rows)
    assert len(set(labels)) == 2
    whole.save(tmp_path / "forest.scurry")
    again = scurry.load(tmp_path / "forest.scurry")
    assert again.digest == whole.digest
    for held in (whole, again, pickle.loads(pickle.dumps(whole)), whole.replace(classes=[0, 1])):
        np.testing.assert_array_equal(held.predict(rows), labels)
    np.testing.assert_array_equal(whole.predict(polars.from_pandas(rows)), labels)
    np.testing.assert_array_equal(whole.predict(rows[["city", "number", "colour"]].to_numpy(object)), labels)
    np.testing.assert_array_equal(whole.predict(whole.encoder(rows)(rows)), labels)
    np.testing.assert_array_equal([whole.predict(rows[at : at + 1])[0] for at in range(20)], labels[:20])
    full = scurry.Predictor.full(whole)
    full.save(tmp_path / "full.scurry")
    np.testing.assert_array_equal(scurry.load(tmp_path / "full.scurry").predict(rows), labels)
    assert "columns are computed of every row first" in full.summary()


def test_what_is_refused(tmp_path):
    whole = forest()
    with pytest.raises(InputError, match=r"cannot be exported: 3 columns are computed .* max_ctr_complexity=1"):
        scurry.export.to_c(whole, tmp_path / "model.c")
    with pytest.raises(InputError, match="the model was trained on 3 features"):
        whole.predict(np.zeros((2, 6)))
    with pytest.raises(InputError, match="lacks 1 of the model's columns: 'city'"):
        whole.predict(table()[["number", "colour"]])
    with pytest.raises(InputError, match="make 3 more, which are not the 7 features"):
        whole.replace(n_features=7, feature_names=None)


@pytest.mark.parametrize(
    "changed",
    [
        {"code_offset": []},
        {"code_offset": [0, 2, 2, 9]},
        {"code_offset": [0, 3, 2, 4]},
        {"element_offset": [0, 2, 5]},
        {"element_offset": [1, 2, 4]},
        {"column": [0, 1, 3, 0]},
        {"column": [0, -1, 2, 0]},
        {"kind": [0, 1, 4, 0]},
        {"border": [0.0]},
        {"wanted": []},
        {"key_offset": [0, 3, 2]},
        {"key": np.zeros(2, np.uint64)},
        {"output_offset": [0, 2, 4]},
        {"output_offset": [0, 2]},
        {"output_offset": [0, 2**62, 2**62]},
        {"output_offset": [0, -1, 3]},
        {"value": [1.0]},
        {"value": [0.0] * 9},
    ],
)
def test_parts_must_fit(changed, tmp_path):
    with pytest.raises(InputError, match="these are no combinations"):
        Combinations(**parts(**changed))


def test_damaged_files_are_refused(tmp_path):
    whole = forest()
    header, arrays = whole.with_front(*whole.to_packed_parts())
    for name, value in (("combination_key_offset", np.array([0, 9, 3])), ("combination_kind", np.zeros(4, np.int32))):
        path = tmp_path / "damaged.scurry"
        scurry.forest.files.storage.write_container(path, "forest", header, arrays | {name: value})
        with pytest.raises(FormatError, match="does not hold a sound forest"):
            scurry.load(path)
