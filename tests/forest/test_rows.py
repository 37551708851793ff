"""Every table a user may hold gives the same predictions; a wrong one is named."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import scurry
from scurry import Forest
from scurry.errors import InputError
from scurry.forest.front import dense
from scurry.forest.rows import as_rows
from support.strategies import complete_forest

NAMES = ("age", "height", "city")


@pytest.fixture(scope="module")
def forest():
    trees = [
        {
            "feature": [f, -1, -1],
            "threshold": [t, 0, 0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0.0], [0.0], [1 << i]],
        }
        for i, (f, t) in enumerate([(0, 30.0), (0, 50.0), (1, 1.75), (2, 0.5), (2, 1.5)])
    ]
    plain = Forest.from_trees(trees, aggregation="sum", input_dtype="float64")
    return Forest(
        **{
            k: getattr(plain, k)
            for k in ("tree_offset", "feature", "threshold", "left", "right", "value", "aggregation")
        },
        input_dtype="float64",
        n_features=3,
        feature_names=NAMES,
        categories={2: ["Oslo", "Paris", "Rome"]},
    )


AGE, HEIGHT, CITY = [20, 40, 60, 30], [1.5, 1.75, 1.9, 2.0], ["Rome", "Oslo", "Paris", "Atlantis"]
EXPECTED = [8 + 16, 1, 1 + 2 + 4 + 8, 4 + 8 + 16]


def test_frames_of_every_kind_agree(forest):
    columns = {"age": AGE, "height": HEIGHT, "city": CITY}
    frames = [
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype({"city": "category"}),
        pd.DataFrame(columns).astype({"age": "Int64", "height": "float32", "city": "string"}),
        pl.DataFrame(columns),
        pl.DataFrame(columns, schema_overrides={"city": pl.Categorical}),
        pl.DataFrame(columns, schema_overrides={"city": pl.Enum(["Paris", "Atlantis", "Rome", "Oslo"])}),
        pa.table(columns),
    ]
    for frame in frames:
        assert forest.predict(frame).tolist() == EXPECTED


def test_columns_are_matched_by_name_and_extra_ones_ignored(forest):
    frame = pd.DataFrame({"target": [0] * 4, "city": CITY, "height": HEIGHT, "age": AGE})
    assert forest.predict(frame).tolist() == EXPECTED


def test_codes_and_missing_values(forest):
    codes = [2, 0, 1, np.nan]
    matrix = np.column_stack([AGE, HEIGHT, codes])
    for same in (matrix, matrix.tolist(), np.asfortranarray(matrix), matrix.astype(object)):
        assert forest.predict(same).tolist() == [24, 1, 15, 4 + 8 + 16]
    nulls = pl.DataFrame({"age": AGE, "height": HEIGHT, "city": ["Rome", "Oslo", "Paris", None]})
    assert forest.predict(nulls).tolist() == [24, 1, 15, 4 + 8 + 16]
    assert forest.predict(pd.DataFrame({"age": [20, None], "height": [None, 1.0], "city": [0, 1]})).tolist() == [4, 11]


def test_missing_values_of_masked_arrays_and_of_pandas(forest):
    masked = np.ma.masked_invalid(np.column_stack([AGE, HEIGHT, [2, 0, 1, np.nan]]))
    objects = pd.DataFrame({"age": AGE, "height": HEIGHT, "city": ["Rome", "Oslo", "Paris", pd.NA]}, dtype=object)
    for same in (masked, masked.astype(object), objects, objects.to_numpy()):
        assert forest.predict(same).tolist() == [24, 1, 15, 4 + 8 + 16]
    whole = np.ma.array([[20, 2, 0], [20, 1, 1]], mask=[[0, 1, 0], [1, 0, 0]])
    frame = pd.DataFrame({"age": [20, pd.NA], "height": [pd.NA, 1], "city": [0.0, 1.0]}, dtype=object)
    assert forest.predict(whole).tolist() == [4, 11]
    assert forest.predict(frame.to_numpy()).tolist() == [4, 11]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, np.bool_])
def test_numpy_of_any_dtype(forest, dtype):
    matrix = np.array([[1, 0, 1], [0, 1, 0]]).astype(dtype)
    assert forest.predict(matrix).tolist() == [8, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_at_any_address(forest, dtype):
    """Fields of packed records, whose rows are no whole number of values apart, and a buffer from an odd offset on."""
    matrix = np.array([[1, 0, 1], [0, 1, 0]], dtype)
    records = np.zeros(2, [("id", np.int8), ("x", dtype, (3,))])
    records["x"] = matrix
    assert forest.predict(records["x"]).tolist() == [8, 0]
    buffer = np.frombuffer(b"\0" + matrix.tobytes(), dtype, offset=1).reshape(2, 3)
    assert not buffer.flags.aligned
    assert forest.predict(buffer).tolist() == [8, 0]
    assert as_rows(forest, buffer).flags.aligned


def test_one_row(forest):
    assert forest.predict(np.array([60.0, 1.9, 1.0])).tolist() == [15]
    assert forest.predict([60, 1.9, 1]).tolist() == [15]
    for series in (pd.Series([60, 1.9, 1]), pd.Series([60, 1.9, "Paris"]), pl.Series([60.0, 1.9, 1.0])):
        assert forest.predict(series).tolist() == [15]
    assert forest.predict(pa.array([60.0, 1.9, 1.0])).tolist() == [15]
    assert forest.predict([60, 1.9, "Paris"]).tolist() == [15]


def test_lists_may_mix_texts_and_numbers(forest):
    """numpy would make texts of all of them."""
    rows = [list(row) for row in zip(AGE, HEIGHT, CITY, strict=True)]
    assert forest.predict(rows).tolist() == EXPECTED
    assert forest.predict(tuple(map(tuple, rows))).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 4)), "X has 4 columns, the model was trained on 3 features"),
        (np.zeros(5), "X has 5 columns, the model was trained on 3 features"),
        (np.zeros(0), r"X must have 2 dimensions \(rows, 3 features\), got shape \(0,\)"),
        (np.zeros((2, 3, 1)), "2 dimensions"),
        ([[1, 2, 3], [1, 2]], "rows of one length"),
        (np.zeros((2, 3), complex), "dtype complex128"),
        (np.array([["a", "b", "c"]]), r"dtype <U1; numbers are needed .*pandas\.DataFrame\(X, columns="),
        (pd.DataFrame(), "X has no columns; the model reads 3: 'age', 'height', 'city'"),
        (np.array([[1, "tall", 0]], object), "column 'height' is not numeric .for example 'tall'."),
        (
            pd.DataFrame({"age": [1], "size": [2], "city": [0]}),
            "lacks 1 of the model's columns: 'height'; it has age, size",
        ),
        (pd.DataFrame({"age": ["x"], "height": [2], "city": [0]}), "column 'age' is not numeric"),
        (pd.DataFrame({"age": pd.Categorical(["x"]), "height": [2], "city": [0]}), "column 'age' is categorical"),
        (pl.DataFrame({"age": [1], "height": [2], "city": [0]}).lazy(), r"call \.collect\(\) first"),
        (sparse.csr_matrix(np.zeros((2, 2))), "2 columns, the model was trained on 3"),
        ("adult.csv", "2 dimensions"),
        (None, "2 dimensions"),
        ({"age": 1, "height": 2, "city": 0}, r"pass pandas\.DataFrame\(\[X\]\)"),
        ([{"age": 1, "height": 2, "city": 0}], r"pass pandas\.DataFrame\(X\)"),
        (pd.DataFrame(np.zeros((1, 3)), columns=["age", "age", "city"]), "columns of the same name.*'age' 2 times"),
    ],
)
def test_what_is_wrong_is_said(forest, X, message):
    with pytest.raises(InputError, match=message):
        forest.predict(X)


def test_forest_without_names_takes_frames_by_position(forest):
    nameless = Forest.from_trees(
        [
            {
                "feature": [0, -1, -1],
                "threshold": [0, 0, 0],
                "left": [1, -1, -1],
                "right": [2, -1, -1],
                "value": [[0], [1], [2]],
            }
        ]
    )
    assert nameless.predict(pd.DataFrame({"whatever": [-1, 1]})).tolist() == [1, 2]
    with pytest.raises(InputError, match="2 columns, the model was trained on 1"):
        nameless.predict(pd.DataFrame({"a": [1], "b": [2]}))


def test_an_array_that_was_pickled_is_taken_as_it_is(monkeypatch):
    """Its dtype is another object, and one row must not take ten times as long for that."""
    forest = complete_forest(2, 2, 3, 2)
    monkeypatch.setattr("scurry.forest.rows._convert", None)
    for dtype in (np.float32, np.float64):
        X = pickle.loads(pickle.dumps(np.zeros((1, 3), dtype)))
        assert X.dtype is not np.dtype(dtype)
        assert as_rows(forest, X) is X


def test_names_that_cannot_be_told_apart_are_refused():
    forest = complete_forest(2, 2, 2, 2)
    with pytest.raises(InputError, match="feature_names must differ from each other, but 'a' occur several times"):
        forest.replace(feature_names=("a", "a"))
    named = forest.replace(feature_names=("1", "2"))
    frame = pd.DataFrame([[0.0, 1.0, 2.0]], columns=["1", 1, "2"])
    with pytest.raises(InputError, match=r"X has several columns of the same name: '1' 2 times\. Rename them"):
        named.predict(frame)
    named.predict(pd.DataFrame([[0.0, 1.0, 2.0, 3.0]], columns=["1", "2", "x", "y"]))


@pytest.fixture(scope="module")
def sparse_rows():
    """Three quarters of the entries are absent; among the others are zeros and missing values."""
    rng = np.random.default_rng(0)
    X = sparse.random(600, 12, 0.25, random_state=0, format="csr")
    X.data = rng.normal(size=X.nnz)
    X.data[::7] = 0.0
    return X


def models_of_sparse_rows():
    import lightgbm
    import xgboost
    from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier, RandomForestClassifier

    return {
        "forest": RandomForestClassifier(8, random_state=0),
        "extra trees": ExtraTreesRegressor(5, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
        "LightGBM": lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1),
        "LightGBM, zero as missing": lightgbm.LGBMClassifier(
            n_estimators=8, n_jobs=1, verbose=-1, zero_as_missing=True
        ),
        "XGBoost": xgboost.XGBClassifier(n_estimators=8, n_jobs=1),
        "XGBoost regressor": xgboost.XGBRegressor(n_estimators=8, n_jobs=1),
    }


@pytest.mark.filterwarnings("ignore:Converting data")
@pytest.mark.parametrize("name", models_of_sparse_rows())
def test_sparse_rows_are_read_as_the_source_reads_them(name, sparse_rows, monkeypatch):
    model, X = models_of_sparse_rows()[name], sparse_rows.copy()
    y = (np.asarray(X[:, :4].sum(axis=1)).ravel() > 0.1).astype(int)
    if "GB" in name:  # the others refuse missing values
        X.data[::11] = np.nan
    forest = scurry.from_model(model.fit(X, y))
    for kind, dtype in [(kind, dtype) for kind in ("csr", "csc", "coo") for dtype in (np.float32, np.float64)]:
        rows = X.astype(dtype).asformat(kind)
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows), err_msg=f"{kind} {dtype}")
    dense_leaves = forest.apply(as_rows(forest, X))
    monkeypatch.setattr("scurry.forest.rows._CELLS_AT_ONCE", 100)  # a few rows at a time
    np.testing.assert_array_equal(forest.apply(X), dense_leaves)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(scurry.Predictor.full(forest).predict(X), model.predict(X))
    # The test can fail: to XGBoost, absent is not zero.
    assert (forest.scores(X) != forest.scores(X.toarray())).any() == ("XGB" in name)


def test_entries_of_one_cell_add_up_and_absent_ones_stay_absent():
    twice = sparse.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    assert dense(twice, 0.0).tolist() == [[0, 3, 0], [5, 0, 0]]
    np.testing.assert_array_equal(dense(twice.tocsr(), np.nan), [[np.nan, 3, np.nan], [5, np.nan, np.nan]])
    assert dense(sparse.csr_array(np.array([[1, 0]], np.int8)), np.nan).dtype == np.float32


def test_verbs_take_sparse_rows(sparse_rows):
    from sklearn.ensemble import RandomForestClassifier

    y = np.asarray(sparse_rows[:, :4].sum(axis=1)).ravel() > 0.1
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(sparse_rows[:200], y[:200])
    X, labels = sparse_rows[200:], y[200:]
    verbs = {
        "early_exit": lambda rows: scurry.early_exit(model, rows, max_disagreement=0.1, random_state=0),
        "anytime": lambda rows: scurry.anytime(model, rows, labels),
        "prune": lambda rows: scurry.Predictor.full(scurry.prune(model, rows, labels).at(max_cost=3)),
    }
    for name, verb in verbs.items():
        np.testing.assert_array_equal(verb(X).predict(X), verb(X.toarray()).predict(X.toarray()), err_msg=name)
        np.testing.assert_array_equal(verb(X).run(X).trees, verb(X).run(X.toarray()).trees)
    cascade = scurry.cascade(model, model, X, promise=scurry.promises.Labels(0.1))
    np.testing.assert_array_equal(cascade.predict(X), model.predict(X))


def test_a_folded_pipeline_takes_sparse_rows_unless_it_ends_in_xgboost(sparse_rows):
    """A scaler keeps absent entries absent, which to XGBoost are missing values; in arrays they are zeros."""
    import xgboost
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    y = np.arange(600) % 2
    pipeline = make_pipeline(MaxAbsScaler(), RandomForestClassifier(3, random_state=0)).fit(sparse_rows, y)
    forest = scurry.from_model(pipeline)
    assert forest.raw_rows is not None
    np.testing.assert_array_equal(forest.predict(sparse_rows), pipeline.predict(sparse_rows))
    pipeline = make_pipeline(MaxAbsScaler(), xgboost.XGBClassifier(n_estimators=2)).fit(sparse_rows, y)
    with pytest.raises(InputError, match=r"absent entries.*X\.toarray"):
        scurry.from_model(pipeline).predict(sparse_rows)


def test_a_dict_of_columns_is_told_how_to_become_rows():
    forest = complete_forest(1, 2, 2, 2).replace(feature_names=["a", "b"])
    columns = {"a": np.zeros(3), "b": np.ones(3)}
    with pytest.raises(InputError, match=r"pass pandas\.DataFrame\(X\), or without pandas numpy\.column_stack"):
        forest.predict(columns)
    assert forest.predict(np.column_stack([columns[name] for name in forest.feature_names])).shape == (3,)
    with pytest.raises(
        InputError, match=r"pass pandas\.DataFrame\(\[X\]\), or without pandas numpy\.array\(.* for row in \[X\]\]\)$"
    ):
        forest.predict({"a": 0.0, "b": 1.0})
    with pytest.raises(
        InputError, match=r"pass pandas\.DataFrame\(X\), or without pandas numpy\.array\(.* for row in X\]\)$"
    ):
        forest.predict([{"a": 0.0, "b": 1.0}])


def test_columns_that_are_needed_are_named():
    forest = complete_forest(1, 2, 2, 2).replace(feature_names=["age", "income"])
    with pytest.raises(InputError, match=r"pass these columns in this order, or a frame .*: 'age', 'income'"):
        forest.predict(np.zeros((3, 4)))
